//! What a bandit is told before it starts, and what follows for levels, slots and keys.

use crate::Error;
use crate::compare::{MOST_ARMS, ROUGH_ARMS};
use bandit::{LinearConfig, Schedule, Width};
use circuits::argmax::tie_bonus;
use circuits::matrix::{Factors, warm_steps};
use ckks::Params;
use num_complex::Complex64;
use serde::{Deserialize, Serialize};

/// Newton stops when ‖A·V − I‖ is below this: regret does not notice (docs/circuits.md).
pub(crate) const INVERSE_TOLERANCE: f64 = 1.0 / 1024.0;
/// A refresh leaves at this level: three primes hide a value under a mask at least 64 bits wider.
pub(crate) const REFRESH_LEVEL: usize = 2;
/// ⟨ω, x⟩ is taken to stay within ± this when rewards are within ± 1. Ridge predictions overshoot a little; contexts
/// chosen against it can make them leave (up to √t/2), and then the answers leave [0, 1]: devices check that.
const PREDICTION_BOUND: f64 = 1.5;

/// The longest batch of the default schedule, [`Schedule::GrowthOrEvery`]: four Newton steps bring the
/// inverse back within [`INVERSE_TOLERANCE`] whatever the contexts of such a batch are, as long as L²/λ ≤ 1.
/// docs/schedules.md has the regret.
pub(crate) const DEFAULT_BATCH: u64 = 16;
/// The longest batch of a public schedule: five steps for L²/λ ≤ 1.
const MOST_IN_BATCH: u64 = 64;

/// A bandit's configuration: the body of its creation request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BanditConfig {
    /// The linear bandit, as in the clear. The schedule must be a public one that bounds a batch, or the
    /// paper's, [`Schedule::TraceOrGrowth`], under which a device tells the server one bit of a decryption a
    /// round.
    pub linear: LinearConfig,
    /// Rounds the numeric scaling is made for; learning goes on beyond it, with less precision.
    #[serde(default = "default_horizon")]
    pub horizon: u64,
    /// Under [`Schedule::TraceOrGrowth`], feedbacks that may come in before the trace condition they were
    /// tested with is answered; one more ends the batch. Feedbacks that arrive while a batch update runs
    /// count too. Larger values cost Newton steps. Under a public schedule, updates are planned for batches
    /// of at least this many feedbacks.
    #[serde(default = "default_unanswered")]
    pub unanswered: u64,
    /// log₂ of the difference of scores, relative to their range, that the comparison tells apart: 6, 8 or 10.
    #[serde(default = "default_comparison_bits")]
    pub comparison_bits: u32,
    /// Degree of the square root's polynomial: 15 or 31 (one more level, half the error).
    #[serde(default = "default_sqrt_degree")]
    pub sqrt_degree: usize,
}

fn default_horizon() -> u64 {
    1000
}
fn default_unanswered() -> u64 {
    4
}
fn default_comparison_bits() -> u32 {
    6
}
fn default_sqrt_degree() -> usize {
    15
}

impl BanditConfig {
    /// Defaults for `features` features with norm at most 1 and `arms` arms: λ = 1, C = 1, η = 0.1, constant
    /// width ½, and a public schedule, growth or every 16 rounds.
    pub fn new(features: usize, arms: usize) -> Self {
        BanditConfig {
            linear: LinearConfig {
                d: features,
                k: arms,
                lambda: 1.0,
                delta: 0.05,
                l: 1.0,
                s: 1.0,
                sigma: 0.5,
                c: 1.0,
                eta: 0.1,
                width: Width::Constant { alpha: 0.5 },
                schedule: Schedule::GrowthOrEvery { rounds: DEFAULT_BATCH },
            },
            horizon: default_horizon(),
            unanswered: default_unanswered(),
            comparison_bits: default_comparison_bits(),
            sqrt_degree: default_sqrt_degree(),
        }
    }

    /// Checks the configuration against keys and parameters and lays out its levels.
    ///
    /// # Errors
    /// [`Error::Config`] for what the algorithm excludes (Proposition 7 among it), [`Error::Field`],
    /// [`Error::Shape`], [`Error::Depth`], [`Error::Slots`] for what these keys cannot carry.
    pub fn plan(&self, params: &Params, shape: Shape) -> Result<Plan, Error> {
        let linear = &self.linear;
        linear.validate()?;
        let field = |field, got: String, want: &str| Error::Field { field, got, want: want.into() };
        // The start of Newton's iteration needs a bound on what a batch adds; growth alone, or the trace alone when
        // answers may not come, gives none.
        let batch = match linear.schedule {
            Schedule::TraceOrGrowth => self.unanswered,
            Schedule::EveryRound => self.unanswered.max(1),
            Schedule::Every { rounds } | Schedule::GrowthOrEvery { rounds } if rounds <= MOST_IN_BATCH => {
                self.unanswered.max(rounds)
            }
            other => {
                let want = "growth_or_every or every 1 to 64 rounds, every_round, or trace_or_growth";
                return Err(field("linear.schedule", format!("{other:?}"), want));
            }
        };
        if !(1..=1_000_000_000).contains(&self.horizon) {
            return Err(field("horizon", self.horizon.to_string(), "between 1 and 10⁹"));
        }
        if !(1..=64).contains(&self.unanswered) {
            return Err(field("unanswered", self.unanswered.to_string(), "between 1 and 64"));
        }
        if ![15, 31].contains(&self.sqrt_degree) {
            return Err(field("sqrt_degree", self.sqrt_degree.to_string(), "15 or 31"));
        }
        if ![6, 8, 10].contains(&self.comparison_bits) {
            return Err(field("comparison_bits", self.comparison_bits.to_string(), "6, 8 or 10"));
        }
        if Shape::for_problem(linear.d, linear.k) != shape {
            return Err(Error::Shape { features: linear.d, arms: linear.k, keys: shape });
        }
        if shape.slots() > params.max_slots() {
            return Err(Error::Slots { need: shape.slots(), have: params.max_slots() });
        }
        let bound = self.trace_bound(batch);
        let resolution = self.resolution();
        if !linear.schedule.is_public() && linear.c < 2.0 * resolution * bound {
            let want = format!(
                "at least {:.4}: the trace can reach {bound:.2}, and the comparison tells 2^−{} of twice that apart",
                2.0 * resolution * bound,
                self.comparison_bits
            );
            return Err(Error::Field { field: "linear.c", got: linear.c.to_string(), want });
        }
        let alpha = if let Width::Constant { alpha } = linear.width { alpha } else { 0.0 };
        for (name, value) in [
            ("linear.lambda", linear.lambda.max(1.0 / linear.lambda)),
            ("linear.width.alpha", alpha),
            ("linear.l", linear.l * linear.l),
        ] {
            if value > 1e4 {
                return Err(field(
                    name,
                    format!("{value:e} (its square or inverse, as it enters)"),
                    "at most 10⁴ to fit the messages",
                ));
            }
        }
        let decision = self.decision_levels(shape)?;
        let top = params.max_level();
        if decision > top {
            let advice = format!(
                "lower comparison_bits (now {}, least 6) or sqrt_degree (now {}, least 15)",
                self.comparison_bits, self.sqrt_degree
            );
            return Err(Error::Depth { what: "a decision", need: decision, have: top, advice });
        }
        // Top: one level for the layout of A; below it the first product, two levels a step, two for ω, one for the
        // scale of the refresh.
        let update = |steps: usize| REFRESH_LEVEL + 1 + 2 + 2 * steps + 1;
        let steps = self.newton(0.0, batch, usize::MAX)?.steps();
        let highest = shape.update_level(top);
        if update(steps) + 1 > highest {
            let ratio = linear.l * linear.l / linear.lambda;
            let lower = match linear.schedule.is_public() {
                true => format!("batches (now up to {batch} feedbacks: schedule and unanswered)"),
                false => format!("unanswered (now {}), C (now {})", self.unanswered, linear.c),
            };
            let advice =
                format!("lower {lower} or L²/lambda (now {ratio:.3}): fewer steps of Newton's iteration");
            return Err(Error::Depth {
                what: "a batch update",
                need: update(steps) + 1,
                have: highest,
                advice,
            });
        }
        let growth = (linear.l * linear.l * self.horizon as f64 / linear.lambda).max(1.0);
        Ok(Plan {
            context_level: decision,
            trace_level: decision,
            model_level: top,
            statistics_level: update(steps),
            refresh_level: REFRESH_LEVEL,
            answer_level: 0,
            newton_steps: steps,
            slots: shape.decision_slots(),
            model_slots: shape.model_slots(),
            // Messages of order √t on both sides of V·X, whose product is of order one.
            design_scale: (growth.log2() / 2.0).round().exp2(),
        })
    }

    /// Levels of a decision.
    ///
    /// # Errors
    /// [`Error::Field`] for more than [`MOST_ARMS`] arms.
    pub(crate) fn decision_levels(&self, shape: Shape) -> Result<usize, Error> {
        if shape.arm_slots > MOST_ARMS {
            let want = format!("at most {MOST_ARMS}: no ring has slots for more");
            return Err(Error::Field { field: "arms", got: shape.arm_slots.to_string(), want });
        }
        let sqrt = (self.sqrt_degree + 1).ilog2() as usize;
        // Product, mask, square root, comparison, product over a row, answer mask.
        Ok(1 + 1 + sqrt + self.comparison()?.depth() + shape.log_arms() + 1)
    }

    /// Of the comparison.
    fn resolution(&self) -> f64 {
        (-f64::from(self.comparison_bits)).exp2()
    }

    /// The comparison polynomials.
    pub(crate) fn comparison(&self) -> Result<circuits::Comparison, Error> {
        Ok(match self.comparison_bits {
            // Eight levels for an error of 2^−5.4, which is sharp enough to choose by; users play the largest entry, and
            // that is the right one below the resolution too.
            6 if self.linear.k <= ROUGH_ARMS => circuits::Comparison::composite(1.0 / 64.0, &[15, 15])?,
            bits => circuits::Comparison::minimax(bits)?,
        })
    }

    /// What the trace of a batch cannot exceed when `pending` feedbacks came in since it was last known to be below C.
    pub(crate) fn trace_bound(&self, pending: u64) -> f64 {
        let l = &self.linear;
        l.c + pending as f64 * l.l * l.l / l.lambda
    }

    /// The batch update when the eigenvalues of A_j·V_j are within `residual` of one and `pending` feedbacks
    /// came in since: since V_j under a public schedule, since the trace was known to be below C under the
    /// trace condition. As many steps as the tolerance asks for, at most `most`.
    ///
    /// A feedback adds xxᵀ to V, and xᵀA_j x ≤ (1 + residual)·L²/λ for any x of norm L, since A_j ≤
    /// (1 + residual)·V_j⁻¹ and V_j ≥ λI. So the eigenvalues of A_j·V are at most
    /// (1 + residual)·(1 + pending·L²/λ) whatever the contexts are; the feedbacks that the trace condition
    /// was tested with add C, up to what the comparison resolves.
    pub(crate) fn newton(&self, residual: f64, pending: u64, most: usize) -> Result<Factors, Error> {
        let l = &self.linear;
        let untested = (1.0 + residual) * (1.0 + pending as f64 * l.l * l.l / l.lambda);
        let tested = match l.schedule.is_public() {
            true => 0.0,
            false => l.c + 2.0 * self.resolution() * self.trace_bound(pending),
        };
        let (bottom, top) = (1.0 - residual, untested + tested);
        let steps = warm_steps(bottom, top, INVERSE_TOLERANCE)?;
        Ok(Factors::warm(bottom, top, steps.min(most))?)
    }

    /// The public scalars of round `t` with a model of `t_j` feedbacks.
    pub fn scalars(&self, t: u64, t_j: u64) -> Scalars {
        let l = &self.linear;
        let beta = l.beta(t, t_j);
        let c1 = l.c1(t_j);
        // A_j stays below V⁻¹ ≤ 1/λ (Newton's iterates rise towards it); a sixteenth for errors.
        let c2 = c1 + 1.0625 * l.l * l.l / l.lambda;
        Scalars {
            beta,
            c1,
            c2,
            least_index: -PREDICTION_BOUND,
            range: (2.0 * PREDICTION_BOUND + beta * c2.sqrt()) / (1.0 - tie_bonus(self.resolution())),
        }
    }
}

/// Scalars that the server computes in the clear.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scalars {
    /// Confidence width β.
    pub beta: f64,
    /// Added under the square root.
    pub c1: f64,
    /// The largest argument of the square root.
    pub c2: f64,
    /// No index is below.
    pub least_index: f64,
    /// No two indices differ by more, not even with the bonus of a tie. Departure from Prop. 10: a bound from rewards within ± 1
    /// that also covers constant widths.
    pub range: f64,
}

/// Levels and sizes of a bandit: public, the same for everybody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Level of the contexts' ciphertext: the depth of a decision.
    pub context_level: usize,
    /// Level of the trace statistics.
    pub trace_level: usize,
    /// Level a refreshed model arrives at.
    pub model_level: usize,
    /// Level of the statistics' ciphertext.
    pub statistics_level: usize,
    /// Level of a masked model.
    pub refresh_level: usize,
    /// Level of the answers.
    pub answer_level: usize,
    /// Newton steps of a batch update.
    pub newton_steps: usize,
    /// Period of the contexts' and the answer's slots.
    pub slots: usize,
    /// Period of the model's slots.
    pub model_slots: usize,
    /// s: statistics travel as V/s and g/s.
    pub design_scale: f64,
}

/// The padded problem that a set of keys serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// D: the power of two not below d, at least 2.
    pub dim: usize,
    /// Ka: the power of two not below K, at least 2.
    pub arm_slots: usize,
}

impl Shape {
    /// For `features` features and `arms` arms.
    pub fn for_problem(features: usize, arms: usize) -> Self {
        let arm_slots = arms.next_power_of_two().max(2);
        let mut dim = features.next_power_of_two().max(2);
        // A row of comparisons must fit between the squares.
        while arm_slots > dim * dim {
            dim *= 2;
        }
        Shape { dim, arm_slots }
    }

    /// The problems that round up to it: features and arms.
    pub fn problems(&self) -> [std::ops::RangeInclusive<usize>; 2] {
        let above_half = |size: usize| if size == 2 { 1 } else { size / 2 + 1 };
        // Many arms take more features than there are.
        let alone = Shape::for_problem(1, self.arm_slots).dim == self.dim;
        let least = if alone { 1 } else { above_half(self.dim) };
        [least..=self.dim, above_half(self.arm_slots)..=self.arm_slots]
    }

    /// Slots of an arm, F: four D × D squares, or two where the former would take more slots than N = 2¹⁵ has.
    pub fn block(&self) -> usize {
        let squares = if 4 * self.square() * self.arm_slots <= 1 << 14 { 4 } else { 2 };
        squares * self.square()
    }

    /// What trace statistics are multiples of: 1 where they have slots of their own, √−1 where they share arm 1's. To tell the
    /// parts apart again takes conjugations, a tenth of a small decision.
    pub(crate) fn trace_unit(&self) -> Complex64 {
        if self.block() > 2 * self.square() { Complex64::ONE } else { Complex64::I }
    }

    /// Period of the decision's vectors.
    pub fn decision_slots(&self) -> usize {
        self.arm_slots * self.block()
    }

    /// Period of the update's vectors.
    pub fn update_slots(&self) -> usize {
        2 * self.dim * self.dim * self.dim
    }

    /// Period of the model.
    pub fn model_slots(&self) -> usize {
        2 * self.square()
    }

    /// Period of all vectors.
    pub fn slots(&self) -> usize {
        self.decision_slots().max(self.update_slots())
    }

    /// The highest level at which keys for batch updates work; those of large problems are many, so they are made for
    /// the five Newton steps that unit features need.
    pub(crate) fn update_level(&self, top: usize) -> usize {
        if self.dim <= 4 { top } else { top.min(17) }
    }

    pub(crate) fn log_arms(&self) -> usize {
        self.arm_slots.ilog2() as usize
    }

    pub(crate) fn square(&self) -> usize {
        self.dim * self.dim
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [features, arms] = self.problems();
        let to = |r: std::ops::RangeInclusive<usize>| format!("{} to {}", r.start(), r.end());
        write!(f, "{} features, {} arms", to(features), to(arms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::batch_update;
    use circuits::Clear;
    use circuits::matrix::Newton;
    use nalgebra::{DMatrix, DVector};

    /// A bandit in the clear that updates its inverse as the server does, for any contexts.
    struct Batches {
        config: BanditConfig,
        design: DMatrix<f64>,
        inverse: DMatrix<f64>,
        residual: f64,
        steps: usize,
    }

    impl Batches {
        fn new(schedule: Schedule, d: usize, l: f64, lambda: f64) -> Self {
            let mut config = BanditConfig::new(d, 2);
            config.linear = LinearConfig { schedule, l, lambda, ..config.linear };
            let params = ckks::LOGN15_LOGQP858_DEPTH21.validate().unwrap();
            let steps = config.plan(&params, Shape::for_problem(d, 2)).unwrap().newton_steps;
            let design = DMatrix::identity(d, d) * lambda;
            Batches { config, inverse: DMatrix::identity(d, d) / lambda, design, residual: 0.0, steps }
        }

        /// The vector x of norm L with the largest xᵀAx.
        fn least_known(&self) -> DVector<f64> {
            let eigen = self.inverse.clone().symmetric_eigen();
            eigen.eigenvectors.column(eigen.eigenvalues.imax()) * self.config.linear.l
        }

        /// A batch of `n` feedbacks along `x`; returns the true distance of the new A·V from the identity.
        fn batch(&mut self, x: &DVector<f64>, n: u64, claimed: u64) -> f64 {
            let d = self.design.nrows();
            self.design += x * x.transpose() * n as f64;
            let factors = self.config.newton(self.residual, claimed, self.steps).unwrap();
            self.residual = factors.residual();
            let newton = Newton::new(d, factors, 1.0).unwrap();
            let alg = Clear::new(newton.period()).unwrap();
            let fresh = |slots: &[Complex64], level| alg.fresh(slots, level).unwrap();
            let omega = vec![0.0; d];
            let model = fresh(&newton.model_slots(self.inverse.as_slice(), &omega).unwrap(), 41);
            let statistics = fresh(&newton.design_slots(self.design.as_slice()).unwrap(), 40);
            let model = batch_update(&alg, &newton, &statistics, &model).unwrap();
            let (inverse, _) = newton.read_model(model.values()).unwrap();
            self.inverse = DMatrix::from_column_slice(d, d, &inverse);
            // The eigenvalues of A·V, by those of the symmetric V^½ A V^½.
            let root = self.design.clone().symmetric_eigen();
            let root = &root.eigenvectors
                * DMatrix::from_diagonal(&root.eigenvalues.map(f64::sqrt))
                * root.eigenvectors.transpose();
            let product = &root * &self.inverse * &root;
            (product - DMatrix::identity(d, d)).symmetric_eigen().eigenvalues.amax()
        }
    }

    /// Batches of the longest length, whose contexts all take the direction with the largest xᵀAx, or one
    /// direction for many batches and then another. Under every public schedule the inverse stays within the
    /// claimed distance, which is within the tolerance.
    #[test]
    fn public_schedules_keep_the_inverse_whatever_the_contexts() {
        for (schedule, d, l, lambda, steps) in [
            (Schedule::GrowthOrEvery { rounds: DEFAULT_BATCH }, 2, 1.0, 1.0, 4),
            (Schedule::GrowthOrEvery { rounds: DEFAULT_BATCH }, 8, 1.0, 1.0, 4),
            (Schedule::GrowthOrEvery { rounds: MOST_IN_BATCH }, 4, 1.0, 1.0, 5),
            (Schedule::Every { rounds: MOST_IN_BATCH }, 2, 1.0, 1.0, 5),
            (Schedule::EveryRound, 4, 1.0, 1.0, 3),
            (Schedule::GrowthOrEvery { rounds: 4 }, 2, 5.5, 1.0, 6),
            (Schedule::GrowthOrEvery { rounds: DEFAULT_BATCH }, 4, 1.0, 0.1, 6),
        ] {
            let longest = match schedule {
                Schedule::GrowthOrEvery { rounds } | Schedule::Every { rounds } => rounds,
                _ => 1,
            };
            let mut batches = Batches::new(schedule, d, l, lambda);
            assert_eq!(batches.steps, steps, "{schedule:?}");
            for j in 0..60 {
                let x = if j < 30 && j % 10 != 9 {
                    DVector::from_fn(d, |i, _| if i == 0 { l } else { 0.0 })
                } else {
                    batches.least_known()
                };
                let distance = batches.batch(&x, longest, longest);
                let claimed = batches.residual;
                assert!(claimed <= INVERSE_TOLERANCE, "{schedule:?}, batch {j}: {claimed}");
                assert!(distance <= claimed + 1e-9, "{schedule:?}, batch {j}: {distance}, {claimed} claimed");
            }
        }
    }

    /// The control: a batch that grows without a bound, as growth alone allows, exceeds what the steps were
    /// planned for.
    #[test]
    fn a_batch_longer_than_planned_is_not_the_inverse() {
        let mut batches = Batches::new(Schedule::GrowthOrEvery { rounds: DEFAULT_BATCH }, 2, 1.0, 1.0);
        let x = DVector::from_vec(vec![1.0, 0.0]);
        assert!(batches.batch(&x, 10 * DEFAULT_BATCH, DEFAULT_BATCH) > 10.0 * INVERSE_TOLERANCE);
        // Where the bandit counts them, it knows that one update was not enough, and later ones reach the
        // tolerance.
        let mut batches = Batches::new(Schedule::GrowthOrEvery { rounds: DEFAULT_BATCH }, 2, 1.0, 1.0);
        let mut distances: Vec<_> =
            [10 * DEFAULT_BATCH, 1, 1].map(|n| (batches.batch(&x, n, n), batches.residual)).into();
        assert!(distances.iter().all(|(true_one, claimed)| *true_one <= claimed + 1e-9), "{distances:?}");
        assert!(distances.remove(0).1 > INVERSE_TOLERANCE);
        assert!(distances.iter().all(|(_, claimed)| *claimed <= INVERSE_TOLERANCE), "{distances:?}");
    }
}
