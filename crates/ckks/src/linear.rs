//! Linear transforms of the slots, encoded for one level.

use crate::{Error, Evaluator, Op};
use num_complex::Complex64;
use rayon::prelude::*;
use rns::{Ntt, Poly};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A linear transform of the slots, given by its non-zero diagonals: `out[j] = Σₖ diagonalₖ[j]·in[j + k]`.
/// The offset k of a diagonal is split into a giant step and a baby step. The length of a diagonal is a power
/// of two, and the diagonal is repeated to fill the slots.
#[derive(Debug, Clone, PartialEq)]
pub struct DiagonalTransform {
    /// (giant step, baby step, diagonal): the offset of the diagonal is the sum of its two steps.
    pub terms: Vec<(i64, i64, Vec<Complex64>)>,
}

/// A [`DiagonalTransform`] that is encoded modulo QP at one level, with each diagonal rotated back by its
/// giant step.
#[derive(Debug, Clone)]
pub struct EncodedTransform {
    pub(crate) level: usize,
    pub(crate) babies: Vec<i64>,
    /// The plaintext by giant step and baby step, in the short form that [`rns::inner_products_short`] takes.
    pub(crate) giants: BTreeMap<i64, BTreeMap<i64, Poly<Ntt>>>,
}

impl EncodedTransform {
    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.giants.values().flat_map(|g| g.values()).map(|p| p.data().len() * 8).sum()
    }
}

impl Evaluator {
    /// Encodes `t` for ciphertexts at `level`, at the scale that takes a canonical scale to a canonical
    /// scale. Terms with the same steps are added.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] at level 0 or above the top level, [`Error::SlotCount`] if a length is not a
    /// power of two up to N/2, [`Error::ValueRange`] as [`crate::Encoder::integers`].
    pub fn encode_transform(&self, t: &DiagonalTransform, level: usize) -> Result<EncodedTransform, Error> {
        let p = self.params();
        let scale = self.factor_scale(Op::Linear, level)?;
        let basis = p.qp_basis(level);
        // All diagonals are repeated to one length, so that all factors of a sum have one layout.
        let period = t.terms.iter().map(|(_, _, d)| d.len()).max().unwrap_or(1);
        let encoded = |(giant, _, diagonal): &(i64, i64, Vec<Complex64>)| {
            if !diagonal.len().is_power_of_two() {
                return Err(Error::SlotCount { op: Op::Linear, got: diagonal.len(), max: p.max_slots() });
            }
            // rot_g(m' ∘ rot_b(v)) = rot_g(m') ∘ rot_{g+b}(v), so m' must be m rotated back by g.
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
