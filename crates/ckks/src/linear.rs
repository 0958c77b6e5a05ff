//! Linear transforms of the slots, encoded for one level.

use crate::{Error, Evaluator, Op};
use num_complex::Complex64;
use rayon::prelude::*;
use rns::{Ntt, Poly};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A linear transform of the slots, given by its non-zero diagonals: `out[j] = Σₖ diagonalₖ[j]·in[j + k]`.
/// The offset k of a diagonal is a number of giant steps, which all have one size, and a baby step. The
/// length of a diagonal is a power of two, and the diagonal is repeated to fill the slots.
#[derive(Debug, Clone, PartialEq)]
pub struct DiagonalTransform {
    /// The size of a giant step.
    pub giant: i64,
    /// (number of giant steps, baby step, diagonal).
    pub terms: Vec<(usize, i64, Vec<Complex64>)>,
}

/// A [`DiagonalTransform`] that is encoded modulo QP at one level, with each diagonal rotated back by its
/// giant steps.
#[derive(Debug, Clone)]
pub struct EncodedTransform {
    pub(crate) level: usize,
    pub(crate) babies: Vec<i64>,
    /// The size of a giant step.
    pub(crate) giant: i64,
    /// The plaintext by number of giant steps and baby step, in the short form that
    /// [`rns::inner_products_short`] takes.
    pub(crate) groups: BTreeMap<usize, BTreeMap<i64, Poly<Ntt>>>,
}

impl EncodedTransform {
    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.groups.values().flat_map(|g| g.values()).map(|p| p.data().len() * 8).sum()
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
        let encoded = |(steps, _, diagonal): &(usize, i64, Vec<Complex64>)| {
            if !diagonal.len().is_power_of_two() {
                return Err(Error::SlotCount { op: Op::Linear, got: diagonal.len(), max: p.max_slots() });
            }
            // rot_g(m' ∘ rot_b(v)) = rot_g(m') ∘ rot_{g+b}(v), so m' must be m rotated back by g, the giant
            // steps together.
            let mut turned: Vec<Complex64> = diagonal.iter().copied().cycle().take(period).collect();
            let back = (*steps as i64).wrapping_mul(t.giant).rem_euclid(period as i64);
            turned.rotate_right(back as usize);
            let integers = p.encoder().integers(&turned, scale)?;
            Ok(Poly::from_signed_short(basis, &integers).into_montgomery(basis))
        };
        let polys: Vec<Poly<Ntt>> = t.terms.par_iter().map(encoded).collect::<Result<_, Error>>()?;
        let (mut babies, mut groups) = (Vec::new(), BTreeMap::<usize, BTreeMap<i64, Poly<Ntt>>>::new());
        for ((steps, baby, _), poly) in t.terms.iter().zip(polys) {
            if !babies.contains(baby) {
                babies.push(*baby);
            }
            match groups.entry(*steps).or_default().entry(*baby) {
                Entry::Vacant(v) => drop(v.insert(poly)),
                Entry::Occupied(mut o) => o.get_mut().add_assign(basis, &poly),
            }
        }
        Ok(EncodedTransform { level, babies, giant: t.giant, groups })
    }
}
