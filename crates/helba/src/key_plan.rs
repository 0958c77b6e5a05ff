//! Which parameter set and which keys a shape needs.

use crate::{BanditConfig, Error, Shape};
use circuits::matrix::{Factors, Newton};
use ckks::{GaloisElement, Kept, Params, ParamsSpec};
use std::collections::BTreeMap;

/// Sets that keys are made for, the fastest first.
const SETS: [ParamsSpec; 5] = [
    ckks::LOGN15_LOGQP825_DEPTH17,
    ckks::LOGN15_LOGQP858_DEPTH18,
    ckks::LOGN15_LOGQP842_DEPTH19,
    ckks::LOGN15_LOGQP858_DEPTH21,
    ckks::LOGN16_LOGQP1130_DEPTH22,
];

/// Rings for tests.
const TOYS: [ParamsSpec; 2] = [ckks::TOY_LOGN12_DEPTH21, ckks::TOY_LOGN14_DEPTH22];

/// The evaluation keys a shape needs, and the parameter set for it.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyPlan {
    /// The parameters.
    pub params: ParamsSpec,
    /// Level of the relinearisation key.
    pub relin_level: usize,
    /// Those of rotations, by the slots they move by, and of conjugation where scores need it.
    pub galois: Vec<GaloisKey>,
}

/// What a Galois key does to the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Automorphism {
    /// So many to the left, canonical in [0, slots).
    Rotation(i64),
    /// Complex conjugation.
    Conjugation,
}

impl Automorphism {
    /// As an exponent.
    pub fn element(self, params: &Params) -> GaloisElement {
        match self {
            Automorphism::Rotation(k) => GaloisElement::rotation(params, k),
            Automorphism::Conjugation => GaloisElement::conjugation(params),
        }
    }
}

impl std::fmt::Display for Automorphism {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Automorphism::Rotation(k) => write!(f, "rotation by {k}"),
            Automorphism::Conjugation => write!(f, "conjugation"),
        }
    }
}

/// The key of a rotation or of conjugation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GaloisKey {
    /// Which.
    pub automorphism: Automorphism,
    /// The highest level it is used at.
    pub level: usize,
    /// How a server keeps it: seeded if only batch updates use it.
    pub kept: Kept,
}

impl KeyPlan {
    /// The first set of 32-bit levels that carries `shape` with default precision; `toy` takes rings without security, for
    /// tests, where one is large enough.
    ///
    /// # Errors
    /// [`Error::Slots`] if none does; [`Error::Field`] for more than [`crate::compare::MOST_ARMS`] arms.
    pub fn new(shape: Shape, toy: bool) -> Result<Self, Error> {
        let config = BanditConfig::new(shape.dim, shape.arm_slots);
        let (slots, levels) = (shape.slots(), config.decision_levels(shape)?);
        let holds = |set: &ParamsSpec| 1 << (set.log_n - 1);
        let fits = |set: &&ParamsSpec| slots <= holds(set) && levels <= set.depth;
        let toys: &[ParamsSpec] = if toy { &TOYS } else { &[] };
        // The last set has the levels of as many arms as there may be: only slots can be missing.
        let params = toys.iter().chain(&SETS).find(fits).copied().ok_or_else(|| {
            let have = SETS.iter().map(holds).max().unwrap_or(0);
            Error::Slots { need: slots, have }
        })?;
        let top = params.depth;
        let mut galois = BTreeMap::new();
        // Decisions come first: whatever an update adds to them is its own.
        let mut need = |automorphism: Automorphism, level: usize, kept: Kept| {
            let key = galois.entry(automorphism).or_insert(GaloisKey { automorphism, level, kept });
            key.level = level.max(key.level);
        };
        let rotation = |k: i64, period: usize| Automorphism::Rotation(k.rem_euclid(period as i64));
        let decision = shape.decision_slots();
        for k in crate::score::rotations(shape) {
            need(rotation(k, decision), top - 1, Kept::Whole);
        }
        if shape.trace_unit().im != 0.0 {
            need(Automorphism::Conjugation, top - 2, Kept::Whole);
        }
        need(rotation(crate::score::estimate_rotation(shape), decision), top - 4, Kept::Whole);
        let argmax = crate::compare::argmax(&config, shape)?;
        // After product, mask and the shallower square root.
        for k in argmax.rotations() {
            need(rotation(k, decision), top - 6, Kept::Whole);
        }
        for k in Newton::new(shape.dim, Factors::plain(2), 1.0)?.rotations() {
            need(rotation(k, shape.update_slots()), shape.update_level(top), Kept::Seeded);
        }
        // The identity needs none.
        galois.remove(&Automorphism::Rotation(0));
        Ok(KeyPlan { params, relin_level: top, galois: galois.into_values().collect() })
    }
}
