//! A slot algebra that counts the operations of a circuit by level.

use circuits::{Clear, ClearVector, Complex64, Counts, Error, LinearTransform, SlotAlgebra};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// A slot operation, with the numbers on which its time depends besides the level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Op {
    /// A sum of ciphertexts, or another operation that touches each residue once.
    Add,
    /// A product with a plaintext, or a sum of `terms` multiples: one rescale.
    PlainProduct { terms: usize },
    /// Plaintexts of `values` values in all, encoded for a level, or for its primes and the special ones.
    Encode { values: usize, wide: bool },
    /// A ciphertext at another level or scale.
    Adjust,
    /// A sum of `products` products and `terms` multiples: one relinearisation and one division.
    Product { products: usize, terms: usize },
    /// Rotations of one ciphertext, or its conjugate, summed: one decomposition and one division.
    Rotations { count: usize },
    /// Expansion of the seeded halves of `keys` keys.
    Expand { keys: usize },
    /// Diagonals by baby and giant steps (those that are not 0). Without baby steps, another transform of the
    /// same ciphertext has them.
    Transform { babies: Option<usize>, giants: usize, diagonals: usize },
}

/// Runs a circuit on vectors without values and counts the operations that an encrypted run would do, by
/// level.
pub(crate) struct OperationCounter {
    clear: Clear,
    /// Rotations whose keys are kept with a seed, canonical in [0, slots).
    seeded: BTreeSet<i64>,
    steps: Mutex<BTreeMap<(Op, usize), usize>>,
}

impl OperationCounter {
    /// On vectors of `slots` values.
    pub(crate) fn new(slots: usize) -> Result<Self, Error> {
        Self::with_seeded(slots, BTreeSet::new())
    }

    /// As [`Self::new`], where the keys of the rotations `seeded` are kept with a seed that each use expands.
    pub(crate) fn with_seeded(slots: usize, seeded: BTreeSet<i64>) -> Result<Self, Error> {
        Ok(OperationCounter { clear: Clear::new(slots)?, seeded, steps: Mutex::default() })
    }

    fn note_keys(&self, rotations: impl IntoIterator<Item = i64>, level: usize) {
        let canonical = |k: i64| k.rem_euclid(self.slots() as i64);
        let keys = rotations.into_iter().filter(|&k| self.seeded.contains(&canonical(k))).count();
        if keys > 0 {
            self.note(Op::Expand { keys }, level);
        }
    }

    /// A vector of zeros.
    pub(crate) fn fresh(&self, level: usize) -> Result<ClearVector, Error> {
        self.clear.fresh(&[Complex64::ZERO], level)
    }

    /// The number of operations of each kind at each level before the operation.
    pub(crate) fn steps(&self) -> BTreeMap<(Op, usize), usize> {
        // The map is consistent after a panic, because each change of it is one insertion.
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The circuit's own count.
    pub(crate) fn counts(&self) -> Counts {
        self.clear.counts()
    }

    fn note(&self, op: Op, level: usize) {
        *self.steps.lock().unwrap_or_else(PoisonError::into_inner).entry((op, level)).or_default() += 1;
    }

    /// The lower level of two operands. An engine adjusts the higher operand to it, which is counted.
    fn align(&self, a: &ClearVector, b: &ClearVector) -> usize {
        let (a, b) = (self.level(a), self.level(b));
        if a != b {
            self.note(Op::Adjust, a.min(b) + 1);
        }
        a.min(b)
    }
}

type Result1 = Result<ClearVector, Error>;

impl SlotAlgebra for OperationCounter {
    type Vector = ClearVector;
    type Error = Error;
    type Target = usize;

    fn slots(&self) -> usize {
        self.clear.slots()
    }

    fn level(&self, v: &ClearVector) -> usize {
        self.clear.level(v)
    }

    fn add(&self, a: &ClearVector, b: &ClearVector) -> Result1 {
        self.note(Op::Add, self.align(a, b));
        self.clear.add(a, b)
    }

    fn sub(&self, a: &ClearVector, b: &ClearVector) -> Result1 {
        self.note(Op::Add, self.align(a, b));
        self.clear.sub(a, b)
    }

    fn neg(&self, a: &ClearVector) -> ClearVector {
        self.note(Op::Add, self.level(a));
        self.clear.neg(a)
    }

    fn add_const(&self, a: &ClearVector, c: Complex64) -> Result1 {
        self.note(Op::Add, self.level(a));
        self.clear.add_const(a, c)
    }

    fn add_plain(&self, a: &ClearVector, p: &[Complex64]) -> Result1 {
        self.note(Op::Encode { values: p.len(), wide: false }, self.level(a));
        self.note(Op::Add, self.level(a));
        self.clear.add_plain(a, p)
    }

    fn mul_integer(&self, a: &ClearVector, k: i64) -> Result1 {
        self.note(Op::Add, self.level(a));
        self.clear.mul_integer(a, k)
    }

    fn mul_i(&self, a: &ClearVector) -> Result1 {
        self.note(Op::Add, self.level(a));
        self.clear.mul_i(a)
    }

    fn mul(&self, a: &ClearVector, b: &ClearVector) -> Result1 {
        self.note(Op::Product { products: 1, terms: 0 }, self.align(a, b));
        self.clear.mul(a, b)
    }

    fn mul_plain(&self, a: &ClearVector, p: &[Complex64]) -> Result1 {
        self.note(Op::Encode { values: p.len(), wide: false }, self.level(a));
        self.note(Op::PlainProduct { terms: 1 }, self.level(a));
        self.clear.mul_plain(a, p)
    }

    fn mul_const(&self, a: &ClearVector, c: f64) -> Result1 {
        self.note(Op::PlainProduct { terms: 1 }, self.level(a));
        self.clear.mul_const(a, c)
    }

    fn target(&self, level: usize) -> usize {
        level
    }

    fn product_target(&self, a: &ClearVector, b: &ClearVector) -> Result<usize, Error> {
        self.clear.product_target(a, b)
    }

    fn factor_target(&self, product: usize, other: &ClearVector) -> usize {
        self.clear.factor_target(product, other)
    }

    fn sum_of_products(
        &self,
        products: &[(i64, &ClearVector, &ClearVector)],
        terms: &[(f64, &ClearVector)],
        constant: f64,
        target: usize,
    ) -> Result1 {
        let op = match (products.len(), terms.len()) {
            (0, terms) => Op::PlainProduct { terms },
            (products, terms) => Op::Product { products, terms },
        };
        self.note(op, target + 1);
        self.clear.sum_of_products(products, terms, constant, target)
    }

    fn rotate(&self, a: &ClearVector, k: i64) -> Result1 {
        if k.rem_euclid(self.slots() as i64) != 0 {
            self.note(Op::Rotations { count: 1 }, self.level(a));
            self.note_keys([k], self.level(a));
        }
        self.clear.rotate(a, k)
    }

    fn sum_of_rotations(&self, a: &ClearVector, terms: &[(i64, bool)]) -> Result1 {
        let count = terms.iter().filter(|(k, _)| k.rem_euclid(self.slots() as i64) != 0).count();
        self.note(Op::Rotations { count }, self.level(a));
        self.note_keys(terms.iter().map(|(k, _)| *k), self.level(a));
        self.clear.sum_of_rotations(a, terms)
    }

    fn conjugate(&self, a: &ClearVector) -> Result1 {
        self.note(Op::Rotations { count: 1 }, self.level(a));
        self.clear.conjugate(a)
    }

    fn drop_to(&self, a: &ClearVector, level: usize) -> Result1 {
        if level < self.level(a) {
            self.note(Op::Adjust, level + 1);
        }
        self.clear.drop_to(a, level)
    }

    fn linear_many(&self, a: &ClearVector, ts: &[&LinearTransform]) -> Result<Vec<ClearVector>, Error> {
        let level = self.level(a);
        let babies: BTreeSet<i64> = ts.iter().flat_map(|t| t.babies()).collect();
        for (i, t) in ts.iter().enumerate() {
            let values = t.diagonals().map(|(_, d)| d.len()).sum();
            self.note(Op::Encode { values, wide: true }, level);
            // The first transform pays for the baby steps of all.
            let babies = (i == 0).then_some(babies.len());
            self.note(Op::Transform { babies, giants: t.giants(), diagonals: t.diagonals().count() }, level);
            self.note_keys(std::iter::repeat_n(t.giant(), t.giants()), level);
        }
        self.note_keys(babies, level);
        self.clear.linear_many(a, ts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums are counted with the number of their operands, at the level above their result.
    #[test]
    fn sums_are_noted_with_their_operands() {
        let counter = OperationCounter::new(8).unwrap();
        let v = counter.fresh(5).unwrap();
        counter.mul(&v, &v).unwrap();
        counter.mul_const(&v, 2.0).unwrap();
        counter.sum_of_products(&[(1, &v, &v), (-3, &v, &v)], &[(0.5, &v); 3], 1.0, 4).unwrap();
        counter.sum_of_products(&[], &[(0.5, &v); 4], 1.0, 3).unwrap();
        counter.sum_of_rotations(&v, &[(0, false), (1, true), (3, false), (8, false)]).unwrap();
        let steps: Vec<_> = counter.steps().into_iter().collect();
        let want = [
            ((Op::PlainProduct { terms: 1 }, 5), 1),
            ((Op::PlainProduct { terms: 4 }, 4), 1),
            ((Op::Product { products: 1, terms: 0 }, 5), 1),
            ((Op::Product { products: 2, terms: 3 }, 5), 1),
            ((Op::Rotations { count: 2 }, 5), 1),
        ];
        assert_eq!(steps, want);
    }

    /// Each use of a key that is kept with a seed counts one expansion, and no use of another key does.
    #[test]
    fn seeded_keys_are_noted() {
        let counter = OperationCounter::with_seeded(8, [3, 7].into()).unwrap();
        let v = counter.fresh(5).unwrap();
        counter.rotate(&v, -1).unwrap();
        counter.rotate(&v, 2).unwrap();
        counter.sum_of_rotations(&v, &[(0, false), (3, true), (11, false), (1, false)]).unwrap();
        let expanded: Vec<_> =
            counter.steps().into_iter().filter(|((op, _), _)| matches!(op, Op::Expand { .. })).collect();
        assert_eq!(expanded, [((Op::Expand { keys: 1 }, 5), 1), ((Op::Expand { keys: 2 }, 5), 1)]);
    }
}
