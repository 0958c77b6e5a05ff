//! Linear transforms of the slots, encoded for one level.

use crate::{Error, Evaluator, Op};
use num_complex::Complex64;
use rayon::prelude::*;
use rns::{Ntt, Poly};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A slot transform by its non-zero diagonals: `out[j] = Σₖ diagonalₖ[j]·in[j + k]`. The offset of a diagonal is
/// written as giant + baby step; a diagonal is repeated to fill the slots, its length a power of two.
#[derive(Debug, Clone, PartialEq)]
pub struct DiagonalTransform {
    /// (giant, baby, diagonal) with offset giant + baby.
    pub terms: Vec<(i64, i64, Vec<Complex64>)>,
}

/// A [`DiagonalTransform`] encoded modulo QP at one level, diagonals turned back by their giant step.
#[derive(Debug, Clone)]
pub struct EncodedTransform {
    pub(crate) level: usize,
    pub(crate) babies: Vec<i64>,
    /// giant step → baby step → plaintext, each value once, as a factor of [`rns::inner_products_short`]
    pub(crate) giants: BTreeMap<i64, BTreeMap<i64, Poly<Ntt>>>,
}

impl EncodedTransform {
    /// Bytes it takes in memory.
    pub fn bytes(&self) -> usize {
        self.giants.values().flat_map(|g| g.values()).map(|p| p.data().len() * 8).sum()
    }
}

impl Evaluator {
    /// Encodes `t` for ciphertexts at `level`; a canonical scale will stay canonical. Terms with the same steps are
    /// added up.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] at level 0 or above the top, [`Error::SlotCount`], [`Error::ValueRange`].
    pub fn encode_transform(&self, t: &DiagonalTransform, level: usize) -> Result<EncodedTransform, Error> {
        let p = self.params();
        let scale = self.factor_scale(Op::Linear, level)?;
        let basis = p.qp_basis(level);
        // All of one length, a power of two each: what is multiplied at once has one layout.
        let period = t.terms.iter().map(|(_, _, d)| d.len()).max().unwrap_or(1);
        let encoded = |(giant, _, diagonal): &(i64, i64, Vec<Complex64>)| {
            if !diagonal.len().is_power_of_two() {
                return Err(Error::SlotCount { op: Op::Linear, got: diagonal.len(), max: p.max_slots() });
            }
            // rot_g(m' ∘ rot_b(v)) = rot_g(m') ∘ rot_{g+b}(v), so m' is m turned back by g.
            let mut turned: Vec<Complex64> = diagonal.iter().copied().cycle().take(period).collect();
            turned.rotate_right(giant.rem_euclid(period as i64) as usize);
            let integers = p.encoder().integers(&turned, scale)?;
            Ok(Poly::from_signed_short(basis, &integers).into_montgomery(basis))
        };
        let polys: Vec<Poly<Ntt>> = t.terms.par_iter().map(encoded).collect::<Result<_, Error>>()?;
        let (mut babies, mut giants) = (Vec::new(), BTreeMap::<i64, BTreeMap<i64, Poly<Ntt>>>::new());
        for ((giant, baby, _), poly) in t.terms.iter().zip(polys) {
            if !babies.contains(baby) {
                babies.push(*baby);
            }
            match giants.entry(*giant).or_default().entry(*baby) {
                Entry::Vacant(v) => drop(v.insert(poly)),
                Entry::Occupied(mut o) => o.get_mut().add_assign(basis, &poly),
            }
        }
        Ok(EncodedTransform { level, babies, giants })
    }
}
