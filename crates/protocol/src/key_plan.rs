//! The parameter set and the evaluation keys that a shape needs.
//!
//! The rotations are those of the circuits in `helba`. Its tests check that each key is used, and that each
//! rotation has a key of its level.

use crate::levels::{DecisionLevels, PRODUCTS_LEVEL};
use crate::products::MatrixLayout;
use crate::staged::{MOST_STAGED_ARMS, MOST_STAGED_FEATURES};
use crate::{AnswerLayout, BanditConfig, Error, Exchanging, Rings, ScoreRing, Shape, Updates, UserKeys};
use bandit::WidthShape;
use ckks::{GaloisElement, KeyStorage, Params, ParamsSpec, PrefixSpec, Security};
use fault::OutOfRange;
use std::collections::BTreeMap;

/// The parameter sets of keys for 128 bits of security, the fastest first.
const SETS: [ParamsSpec; 4] = [
    ckks::LOGN15_LOGQP825_DEPTH17,
    ckks::LOGN15_LOGQP858_DEPTH18,
    ckks::LOGN15_LOGQP842_DEPTH19,
    ckks::LOGN15_LOGQP858_DEPTH21,
];

/// For 192 bits. The first claims 256 bits.
const SETS_192: [ParamsSpec; 2] = [ckks::LOGN16_LOGQP825_DEPTH17, ckks::LOGN16_LOGQP1130_DEPTH22];

/// For 256 bits.
const SETS_256: [ParamsSpec; 2] = [ckks::LOGN16_LOGQP825_DEPTH17, ckks::LOGN16_LOGQP858_DEPTH21];

/// The parameter sets for tests.
const TOYS: [ParamsSpec; 2] = [ckks::TOY_LOGN12_DEPTH21, ckks::TOY_LOGN14_DEPTH22];

/// The parameter sets of rings for evaluations alone, for 128 bits of security, those of fewer levels first.
const EVALUATION_SETS: [ParamsSpec; 3] =
    [ckks::LOGN14_LOGQP409_DEPTH9, ckks::LOGN14_LOGQP409_DEPTH11, ckks::LOGN14_LOGQP409_DEPTH12];

/// The parameter set of rings for evaluations alone, for tests.
const EVALUATION_TOYS: [ParamsSpec; 1] = [ckks::TOY_LOGN12_DEPTH11];

/// The parameter set of rings of stages, for 128 bits of security.
const STAGES: ParamsSpec = ckks::LOGN14_LOGQP409_DEPTH11;

/// The parameter set of rings of stages, for tests.
const TOY_STAGES: ParamsSpec = ckks::TOY_LOGN12_DEPTH11;

/// The parameter set of a shape, and the evaluation keys that it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyPlan {
    /// The parameters.
    pub params: ParamsSpec,
    /// The level of the relinearisation key.
    pub relin_level: usize,
    /// The Galois keys: those of rotations in ascending order, and that of conjugation.
    pub galois: Vec<GaloisKey>,
    /// The ring of scores. It has a secret key of its own, and keys of its top level: relinearisation and
    /// [`ckks::pack_elements`].
    pub scores: ScoreRing,
    /// The ring of evaluations, if it is not that of updates.
    pub decisions: Option<DecisionKeys>,
    /// The keys of answers.
    pub answers: AnswerKeys,
    /// How updates are computed. By products they need no keys but those of the ring of scores, and `params`
    /// is the ring of evaluations.
    pub updates: Updates,
    /// How often evaluations ask a holder of the key. In stages `params` is the ring of stages, and there are
    /// no Galois keys but those of packs, and none of answers.
    pub exchanges: Exchanging,
    /// Whose keys users have. With keys of their own there are none of answers, which are sealed.
    pub keys: UserKeys,
}

/// A ring in which evaluations alone are computed, because their circuit has few levels: of bandits with a
/// tangent and at most eight arms. It has a secret key of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionKeys {
    /// The parameters.
    pub params: ParamsSpec,
    /// The Galois keys: those of rotations in ascending order. The relinearisation key has the top level.
    pub galois: Vec<GaloisKey>,
}

impl DecisionKeys {
    /// The ring beside the set `large` for evaluations with these levels, or `None` if no smaller ring has
    /// them and as many bits of security.
    fn beside(large: &ParamsSpec, shape: Shape, levels: &DecisionLevels) -> Option<Self> {
        let sets = match large.security {
            Security::None => &EVALUATION_TOYS[..],
            Security::Classical128 => &EVALUATION_SETS,
            Security::Classical192 | Security::Classical256 => &[],
        };
        let params = *sets.iter().find(|set| {
            levels.sum() <= set.depth && 2 * shape.user_slots() <= holds(set) && set.log_n <= large.log_n
        })?;
        let level = levels.row_product + PRODUCTS_LEVEL;
        let rotations = if levels.row_product > 0 { shape.log_arms() } else { 0 };
        let key =
            |k| GaloisKey { automorphism: Automorphism::Rotation(k), level, storage: KeyStorage::Expanded };
        let galois = row_rotations(shape).take(rotations).map(key).collect();
        Some(DecisionKeys { params, galois })
    }
}

/// The keys that take the entries of an evaluation from its ring into answers, all at the top
/// level of their parameters and under the secret of the ring of scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerKeys {
    /// The parameters of answers ([`ScoreRing::answers`]).
    pub params: PrefixSpec,
    /// r, the number of keys of the [`ckks::RingSwitch`].
    pub switch: usize,
    /// The rotations of the fold ([`AnswerLayout::rotations`]).
    pub rotations: Vec<i64>,
}

impl AnswerKeys {
    /// The keys beside a ring of evaluations with the set `large`.
    pub fn new(ring: ScoreRing, shape: Shape, large: &ParamsSpec) -> Self {
        let slots = 1 << (large.log_n - 1);
        let rotations = AnswerLayout::new(ring, shape, slots).rotations().collect();
        AnswerKeys { params: ring.answers(large), switch: 2 * slots / ring.n(), rotations }
    }
}

/// The map of the slots of a Galois key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Automorphism {
    /// A rotation to the left by this number of slots, in [0, slots).
    Rotation(i64),
    /// Complex conjugation.
    Conjugation,
}

impl Automorphism {
    /// The Galois element of this map.
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
    /// The map.
    pub automorphism: Automorphism,
    /// The highest level at which it is used.
    pub level: usize,
    /// The form of the key in the memory of a server, which is seeded if only batch updates use it.
    pub storage: KeyStorage,
}

impl KeyPlan {
    /// The fastest parameter set for 128 bits of security that fits `shape` with the default precision, and
    /// the keys of bandits of this width: those of a tangent have fewer, those of a root serve both. `toy`
    /// also allows sets without security, for tests.
    ///
    /// # Errors
    /// [`Error::Slots`] if no set fits; [`Error::OutOfRange`] for more than [`crate::MOST_ARMS`] arms.
    pub fn new(shape: Shape, toy: bool, width: WidthShape) -> Result<Self, Error> {
        Self::with_security(shape, if toy { Security::None } else { Security::Classical128 }, width)
    }

    /// As [`Self::new`], for so many bits of security or more. [`Security::None`] allows sets without any.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_security(shape: Shape, security: Security, width: WidthShape) -> Result<Self, Error> {
        let sets = match security {
            Security::None => [&TOYS[..], &SETS].concat(),
            Security::Classical128 => SETS.to_vec(),
            Security::Classical192 => SETS_192.to_vec(),
            Security::Classical256 => SETS_256.to_vec(),
        };
        // The last set has enough levels for all numbers of arms, and rings of scores hold the numbers of all
        // features that updates have slots for, so that only slots can be missing.
        sets.iter().find_map(|set| Self::with_set(shape, *set, width).transpose()).unwrap_or_else(|| {
            let have = sets.iter().map(holds).max().unwrap_or(0);
            Err(Error::Slots { need: shape.slots(), have })
        })
    }

    /// As [`Self::with_security`], for updates that are computed like this. Updates by products take the
    /// tangent.
    ///
    /// # Errors
    /// As [`Self::with_security`]; [`Error::OutOfRange`] for a root with updates by products;
    /// [`Error::Coefficients`] for more features than their products have.
    pub fn for_updates(
        shape: Shape,
        security: Security,
        width: WidthShape,
        updates: Updates,
    ) -> Result<Self, Error> {
        match (updates, width) {
            (Updates::Slots, _) => Self::with_security(shape, security, width),
            (Updates::Products, WidthShape::Tangent) => Self::with_products(shape, security),
            (Updates::Products, WidthShape::Root) => {
                let want = "tangent with updates by products, or updates in slots";
                Err(OutOfRange::new("width", "root", want).into())
            }
        }
    }

    /// As [`Self::for_updates`], for evaluations that ask a holder of the key so often. Stages take the
    /// tangent, updates by products and at most 128 bits of security.
    ///
    /// # Errors
    /// As [`Self::for_updates`]; [`Error::OutOfRange`] for stages with another width, other updates or more
    /// bits, and for more than [`MOST_STAGED_FEATURES`] features or [`MOST_STAGED_ARMS`] arms.
    pub fn for_exchanges(
        shape: Shape,
        security: Security,
        width: WidthShape,
        updates: Updates,
        exchanges: Exchanging,
    ) -> Result<Self, Error> {
        if exchanges == Exchanging::One {
            return Self::for_updates(shape, security, width, updates);
        }
        let (field, got, want) = match (width, updates, security) {
            (WidthShape::Root, ..) => ("width", "root".into(), "tangent"),
            (_, Updates::Slots, _) => ("updates", "slots".into(), "products"),
            (.., Security::Classical192 | Security::Classical256) => {
                ("security", format!("{} bits", security.bits()), "at most 128 bits")
            }
            (.., Security::None | Security::Classical128) => return Self::staged(shape, security),
        };
        let want = format!("{want} with exchanges: staged, or exchanges: one");
        Err(OutOfRange::new(field, got, want).into())
    }

    /// The keys of staged decisions.
    fn staged(shape: Shape, security: Security) -> Result<Self, Error> {
        let Shape { dim, arm_slots } = shape;
        for (field, got, most) in
            [("features", dim, MOST_STAGED_FEATURES), ("arms", arm_slots, MOST_STAGED_ARMS)]
        {
            if got > most {
                return Err(OutOfRange::new(field, got, format!("at most {most}")).into());
            }
        }
        let toy = match security {
            Security::None => ScoreRing::of_stages(&TOY_STAGES, shape).ok().map(|ring| (TOY_STAGES, ring)),
            _ => None,
        };
        let (params, scores) = match toy {
            Some(toy) => toy,
            None => (STAGES, ScoreRing::of_stages(&STAGES, shape)?),
        };
        Ok(KeyPlan {
            params,
            relin_level: params.depth,
            galois: Vec::new(),
            scores,
            decisions: None,
            answers: AnswerKeys { params: scores.answers(&params), switch: 0, rotations: Vec::new() },
            updates: Updates::Products,
            exchanges: Exchanging::Staged,
            keys: UserKeys::Shared,
        })
    }

    /// The keys of bandits with a tangent and updates by products: one ring, with the levels of evaluations.
    fn with_products(shape: Shape, security: Security) -> Result<Self, Error> {
        let sets = match security {
            Security::None => [&EVALUATION_TOYS[..], &TOYS, &EVALUATION_SETS, &SETS].concat(),
            Security::Classical128 => [&EVALUATION_SETS[..], &SETS].concat(),
            Security::Classical192 => SETS_192.to_vec(),
            Security::Classical256 => SETS_256.to_vec(),
        };
        let levels = DecisionLevels::new(&BanditConfig::new(shape.dim, shape.arm_slots), shape)?;
        let (have, mut refused) = (sets.iter().map(holds).max().unwrap_or(0), None);
        for params in sets {
            if levels.sum() > params.depth || 2 * shape.user_slots() > holds(&params) {
                continue;
            }
            let ring = ScoreRing::beside(&params, shape);
            let scores = match ring.and_then(|ring| MatrixLayout::new(ring.n(), shape.dim).map(|_| ring)) {
                Ok(ring) => ring,
                Err(error) => {
                    refused.get_or_insert(error);
                    continue;
                }
            };
            let level = levels.row_product + PRODUCTS_LEVEL;
            let rotations = if levels.row_product > 0 { shape.log_arms() } else { 0 };
            let key = |k| GaloisKey {
                automorphism: Automorphism::Rotation(k),
                level,
                storage: KeyStorage::Expanded,
            };
            let galois = row_rotations(shape).take(rotations).map(key).collect();
            let answers = AnswerKeys::new(scores, shape, &params);
            let (relin_level, updates, exchanges) = (params.depth, Updates::Products, Exchanging::One);
            return Ok(KeyPlan {
                params,
                relin_level,
                galois,
                scores,
                decisions: None,
                answers,
                updates,
                exchanges,
                keys: UserKeys::Shared,
            });
        }
        Err(refused.unwrap_or(Error::Slots { need: 2 * shape.user_slots(), have }))
    }

    /// The keys for `shape` of the parameter set `params`, or `None` if it has too few levels, slots or
    /// coefficients beside it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for more than [`crate::MOST_ARMS`] arms.
    pub fn with_set(shape: Shape, params: ParamsSpec, width: WidthShape) -> Result<Option<Self>, Error> {
        let mut config = BanditConfig::new(shape.dim, shape.arm_slots);
        config.linear.width = WidthShape::Root.width(1.0);
        let levels = DecisionLevels::new(&config, shape)?;
        // A level is left, as in the sets whose costs were measured. Both widths have the same set.
        let fits = shape.slots() <= holds(&params) && levels.sum() < params.depth;
        let (true, Ok(scores)) = (fits, ScoreRing::beside(&params, shape)) else { return Ok(None) };
        let top = params.depth;
        let mut galois = BTreeMap::new();
        // Decisions come first, so that the keys that updates add are used by updates only.
        let mut need = |automorphism: Automorphism, level: usize, storage: KeyStorage| {
            let key = galois.entry(automorphism).or_insert(GaloisKey { automorphism, level, storage });
            key.level = level.max(key.level);
        };
        let rotation = |k: i64, period: usize| Automorphism::Rotation(k.rem_euclid(period as i64));
        let all = holds(&params);
        let decisions = match width {
            WidthShape::Root => None,
            WidthShape::Tangent => {
                let levels = DecisionLevels { square_root: 0, ..levels };
                DecisionKeys::beside(&params, shape, &levels)
            }
        };
        match width {
            WidthShape::Root => {
                // Raised scores come in at the depth of their circuit, or above.
                need(Automorphism::Conjugation, top, KeyStorage::Expanded);
                for k in row_rotations(shape).chain(column_rotations(shape, all)) {
                    need(rotation(k, all), top - DecisionLevels::LEAST_SQUARE_ROOT, KeyStorage::Expanded);
                }
            }
            WidthShape::Tangent if levels.row_product > 0 && decisions.is_none() => {
                for k in row_rotations(shape) {
                    need(rotation(k, all), levels.row_product + PRODUCTS_LEVEL, KeyStorage::Expanded);
                }
            }
            WidthShape::Tangent => {}
        }
        for (k, below) in update_rotations(shape.dim) {
            let level = shape.update_level(top) - below;
            need(rotation(k, shape.update_slots()), level, KeyStorage::Seeded);
        }
        // The identity needs no key.
        galois.remove(&Automorphism::Rotation(0));
        let of_decisions = decisions.as_ref().map_or(&params, |keys| &keys.params);
        let answers = AnswerKeys::new(scores, shape, of_decisions);
        let galois = galois.into_values().collect();
        let (relin_level, updates, exchanges) = (top, Updates::Slots, Exchanging::One);
        let keys = UserKeys::Shared;
        Ok(Some(KeyPlan {
            params,
            relin_level,
            galois,
            scores,
            decisions,
            answers,
            updates,
            exchanges,
            keys,
        }))
    }
}

impl KeyPlan {
    /// The plan of the same keys beside which users have such keys.
    pub fn for_users(mut self, keys: UserKeys) -> Self {
        if keys == UserKeys::Own {
            (self.answers.switch, self.answers.rotations) = (0, Vec::new());
        }
        KeyPlan { keys, ..self }
    }

    /// The parameters of the rings of circuits.
    ///
    /// # Errors
    /// As [`ParamsSpec::validate`].
    pub fn rings(&self) -> Result<Rings, ckks::Error> {
        let updates = self.params.validate()?;
        let decisions = match &self.decisions {
            Some(keys) => keys.params.validate()?,
            None => updates.clone(),
        };
        Ok(Rings { updates, decisions, by: self.updates, exchanges: self.exchanges, keys: self.keys })
    }
}

/// The slots of a set.
fn holds(set: &ParamsSpec) -> usize {
    1 << (set.log_n - 1)
}

/// The rotations of a sum over `count` slots at distance `step`, which doubles its summands in each stage.
fn doublings(step: i64, count: usize) -> impl Iterator<Item = i64> {
    (0..count.ilog2()).map(move |s| step << s)
}

/// The rotations along the rows of pairs: of the product over each row, and of scores where the server
/// computes differences of indices.
fn row_rotations(shape: Shape) -> impl Iterator<Item = i64> {
    doublings(1, shape.arm_slots)
}

/// The rotations that move the scores of the users of a full vector to the columns of the pairs.
fn column_rotations(shape: Shape, slots: usize) -> impl Iterator<Item = i64> {
    doublings((slots / shape.arm_slots) as i64 + 1, shape.arm_slots)
}

/// The rotations of Newton's iteration on D × D matrices, and how far they are below the level of the model:
/// those from row to row, by which it starts; those within rows, and those of the sums over D² in every other
/// stage. A stage without a key of its own repeats the one before.
fn update_rotations(dim: usize) -> impl Iterator<Item = (i64, usize)> {
    let d = dim as i64;
    let (rows, within): (&[i64], &[i64]) =
        if dim == 2 { (&[2, -2, -4], &[1, -1]) } else { (&[-1, -2], &[1]) };
    let unit = if dim == 2 { 1 } else { d };
    let rows = rows.iter().map(move |k| (k * unit, 0));
    let below = within.iter().copied().chain(doublings(2 * d * d, dim).step_by(2));
    rows.chain(below.map(|k| (k, 2)))
}
