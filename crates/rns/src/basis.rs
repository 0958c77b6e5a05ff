use crate::{Modulus, NttTable};
use std::sync::Arc;

/// An ordered set of primes with their transforms: what a polynomial's limbs are residues of.
#[derive(Debug, Clone)]
pub struct Basis {
    n: usize,
    tables: Vec<Arc<NttTable>>,
}

impl Basis {
    /// The primes of `tables` for ring degree `n`.
    pub fn new(n: usize, tables: Vec<Arc<NttTable>>) -> Self {
        Basis { n, tables }
    }

    /// Ring degree N.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of limbs.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether there is no prime.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The transforms, one a limb.
    pub fn tables(&self) -> &[Arc<NttTable>] {
        &self.tables
    }

    /// The modulus of limb `i`.
    pub fn modulus(&self, i: usize) -> &Modulus {
        self.tables[i].modulus()
    }

    /// The primes in order.
    pub fn primes(&self) -> impl Iterator<Item = u64> + '_ {
        self.tables.iter().map(|t| t.modulus().value())
    }

    /// log₂ of the product of the primes.
    pub fn log2(&self) -> f64 {
        self.primes().map(|q| (q as f64).log2()).sum()
    }
}
