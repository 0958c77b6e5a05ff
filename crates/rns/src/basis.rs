use crate::{Modulus, NttTable};
use std::sync::Arc;

/// An ordered set of distinct primes, each with its transform. Limb i of a polynomial holds residues modulo
/// prime i.
#[derive(Debug, Clone)]
pub struct Basis {
    n: usize,
    tables: Vec<Arc<NttTable>>,
}

impl Basis {
    /// The basis of the primes of `tables`, for ring degree `n`.
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

    /// Whether the basis has no prime.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The transforms, one for each limb.
    pub fn tables(&self) -> &[Arc<NttTable>] {
        &self.tables
    }

    /// The modulus of limb `i`.
    pub fn modulus(&self, i: usize) -> &Modulus {
        self.tables[i].modulus()
    }

    /// The primes, in the order of the limbs.
    pub fn primes(&self) -> impl Iterator<Item = u64> + '_ {
        self.tables.iter().map(|t| t.modulus().value())
    }

    /// log₂ of the product of the primes.
    pub fn log2(&self) -> f64 {
        self.primes().map(|q| (q as f64).log2()).sum()
    }
}
