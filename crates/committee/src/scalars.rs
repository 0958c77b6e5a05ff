//! Public numbers of decisions and updates, and the largest values of what they compute.
//!
//! Rows are in units of L, so that |x| ≤ 1 and λ' = λ/L². With at most t feedbacks of |r| ≤ 1 and V = λ' + Σ
//! x·xᵀ:
//!
//! ‖ω‖ ≤ √t/(2√λ'), because σ/(σ² + λ') ≤ 1/(2√λ') for each singular value σ of the rows; |u| ≤ ‖ω‖; z ≤
//! 1/λ'.
//!
//! Counters are exact, |Σ h| ≤ t and |Σ r·h| ≤ t·2¹⁶ ≤ 2⁴⁸, and no cut is of them.
//!
//! Every cut states the largest size of its number from these, and the mask of each subset is at least 2³⁶
//! times as wide. A bandit, a batch or a committee for which that does not hold is refused before a number is
//! touched. The integers here follow from the configuration by additions, products, divisions and square
//! roots of f64, which are the same on all machines, and by cosines and logarithms of the crate `libm`, which
//! is such arithmetic: members have equal numbers, whatever machines they run on.

use crate::Error;
use crate::compare::MOST_WIDTH;
use crate::keys::mask_bits;
use crate::machine::CircuitId;
use bandit::{Bonus, LinearConfig};
use shares::{Field, Sharing};

/// Fraction bits of features and rewards.
pub const FEATURE_BITS: u32 = 16;
/// Fraction bits of A and of 2·A/c₂.
pub const MODEL_BITS: u32 = 36;
/// Fraction bits of ω.
pub const ESTIMATE_BITS: u32 = 28;
/// Fraction bits of z, u and the polynomial of the bonus.
pub const ROOT_BITS: u32 = 30;
/// Fraction bits of 2/c₂.
const SCALE_BITS: u32 = 20;
/// How many times as wide as a number its mask is at least, as a power of two.
pub const LEAST_SLACK: u32 = 36;
/// The largest distance of eigenvalues of A·V from 1, in units of 2⁻⁴⁰: 2⁻¹⁰, of which the rounding of A is
/// half.
pub const MOST_RESIDUAL: u64 = 1 << 30;
/// The degree of the polynomial of a root.
const ROOT_DEGREE: usize = 15;
/// Above this, what the number of feedbacks is rounded up to does not fit its integer.
const MOST_FEEDBACKS: u64 = 1 << 32;
/// The most Newton steps of an update.
const MOST_STEPS: usize = 60;

/// The public numbers of a decision.
#[derive(Clone, PartialEq, Eq)]
pub struct Decide {
    /// d.
    pub(crate) features: usize,
    /// The arms, in the order in which equal ones are preferred.
    pub(crate) order: Vec<usize>,
    /// Two indices differ by less than 2^`width` units.
    pub(crate) width: u32,
    /// Fraction bits of an index: 16, and 20 where more than 50 subsets round it.
    pub(crate) index_bits: u32,
    /// Whether arms are counted.
    pub(crate) counts: bool,
    pub(crate) bonus: Vec<Scalar>,
    pub(crate) at_zero: Scalar,
    pub(crate) estimate: Scalar,
    pub(crate) shift: Scalar,
    pub(crate) most_uncertainty: u128,
    pub(crate) most_estimate: u128,
    pub(crate) most_index: u128,
    /// The units by which rounding moves a number at most.
    pub(crate) slack: u128,
}

/// A public integer.
pub(crate) type Scalar = Field;

fn fixed(x: f64, bits: u32) -> i128 {
    (x * (1u128 << bits) as f64).round() as i128
}

fn integer(x: f64) -> u128 {
    x.ceil() as u128
}

/// Refuses a number whose mask would not be 2³⁶ times as wide.
fn fits(what: &'static str, most: u128, have: u32, advice: &'static str) -> Result<(), Error> {
    let need = 128 - most.leading_zeros() + 1 + LEAST_SLACK;
    if need <= have { Ok(()) } else { Err(Error::Bound { what, need, have, advice }) }
}

impl Decide {
    /// The numbers of round `t` with a model of `t_j` feedbacks, where arms of equal indices are preferred in
    /// the order of the round `tie`.
    ///
    /// # Errors
    /// [`Error::Bound`] or [`Error::OutOfRange`] for what this committee does not compute.
    pub fn new(config: &LinearConfig, sharing: &Sharing, t: u64, t_j: u64, tie: u64) -> Result<Self, Error> {
        let subsets = sharing.subsets().len();
        let ratio = config.l * config.l / config.lambda;
        let bonus = config.bonus(t, t_j, config.c1(t_j));
        let (c1, degree) = match bonus {
            Bonus::Root { c1, .. } => (c1, ROOT_DEGREE),
            Bonus::Linear { .. } => (0.0, 1),
        };
        let c2 = c1 + bandit::UNCERTAINTY_BOUND * ratio;
        let range = config.index_range(t, t_j);
        let of_argument = |x: f64| bonus.of(c2 * (x + 1.0) / 2.0 - c1) / range;
        let coefficients = interpolated(&of_argument, degree);
        let index_bits = if subsets > 50 { 20 } else { 16 };
        let middle = 0.5 - bandit::PREDICTION_BOUND / range;
        // 2⁻⁹ are for Newton's residual.
        let most_u = (t_j as f64 * ratio).sqrt() / 2.0 * (1.0 + 2f64.powi(-9));
        let most_bonus = bonus.of(bandit::UNCERTAINTY_BOUND * ratio);
        let slack = subsets as u128 + 2;
        let unit = (1u128 << index_bits) as f64;
        let off = distance(&of_argument, &coefficients);
        let apart = ((2.0 * most_u + most_bonus) / range + 2.0 * off) * unit + 2.0 * slack as f64;
        let least = if index_bits == 16 { 18 } else { 24 };
        let width = (least..=MOST_WIDTH).step_by(3).find(|width| apart < (1u128 << width) as f64);
        let width = width.ok_or_else(|| Error::OutOfRange {
            what: "the number of feedbacks",
            got: t_j.to_string(),
            want: "so small that two indices differ by less than 2³³ units",
        })?;
        let of_u = (most_u + 1.0) * (1u128 << (ESTIMATE_BITS + FEATURE_BITS)) as f64;
        let decide = Decide {
            features: config.d,
            order: config.order_of_ties(tie),
            width,
            index_bits,
            counts: false,
            bonus: coefficients[1..].iter().map(|q| Field::from_signed(fixed(*q, ROOT_BITS))).collect(),
            at_zero: Field::from_signed(fixed(2.0 * c1 / c2 - 1.0, ROOT_BITS)),
            estimate: Field::from_signed(fixed(range.recip(), ROOT_BITS)),
            shift: Field::from_signed(fixed(coefficients[0] - middle, ROOT_BITS) << ROOT_BITS),
            most_uncertainty: 1 << (MODEL_BITS + 2 * FEATURE_BITS + 1),
            most_estimate: integer(of_u),
            most_index: integer(((most_u + 1.0) / range + 2.0) * (1u128 << (2 * ROOT_BITS)) as f64),
            slack,
        };
        let have = mask_bits(sharing);
        let fewer = "a committee of fewer members, or fewer feedbacks";
        fits("z", decide.most_uncertainty, have, fewer)?;
        fits("the estimate of a reward", decide.most_estimate, have, fewer)?;
        fits("the polynomial of the root", 1 << (2 * ROOT_BITS + 1), have, fewer)?;
        fits("an index", decide.most_index, have, fewer)?;
        Ok(decide)
    }
}

impl Decide {
    /// The same numbers, where the arm is a part of the record if so many arms are counted.
    #[must_use]
    pub fn counting(self, counted: usize) -> Self {
        Decide { counts: counted > 0, ..self }
    }

    /// The same numbers, with arms of equal indices preferred in the order of the round `tie`.
    pub fn with_order(&self, config: &LinearConfig, tie: u64) -> Self {
        Decide { order: config.order_of_ties(tie), ..self.clone() }
    }

    /// What its gates depend on. The order of the arms is none of it.
    pub fn circuit(&self) -> CircuitId {
        let sizes = [self.features, self.order.len(), self.bonus.len()].map(|size| size as u64);
        let bits = [self.width, self.index_bits, self.counts.into()].map(u64::from);
        CircuitId::new("decide", &[&sizes[..], &bits].concat())
    }
}

impl Learn {
    /// The same numbers, with so many arms that are counted, K or none, and whether what was counted before
    /// is opened.
    #[must_use]
    pub fn counting(self, counted: usize, opens: bool) -> Self {
        Learn { counted, opens, ..self }
    }

    /// About how many products an update of so many feedbacks takes.
    pub(crate) fn products(&self, feedbacks: u64) -> u64 {
        let (d, steps) = (self.features as u64, self.steps.len() as u64);
        feedbacks.saturating_mul(d * d + d + self.counted as u64).saturating_add(2 * (steps + 1) * d * d * d)
    }

    /// What its gates depend on: which of the feedbacks of a batch are erased, and Newton's factors.
    pub fn circuit(&self, erased: &[bool]) -> CircuitId {
        let mut numbers = vec![self.features as u64, self.counted as u64, self.opens.into()];
        numbers.extend([u64::from(self.log_t), self.steps.len() as u64]);
        numbers.extend(self.steps.iter().flat_map(|(m, s)| [u64::from(*m), u64::from(*s)]));
        numbers.extend(erased.iter().map(|erased| u64::from(*erased)));
        CircuitId::new("learn", &numbers)
    }
}

/// The coefficients of the polynomial in T₀, T₁, … that has the values of `f` at the Chebyshev nodes.
fn interpolated(f: &impl Fn(f64) -> f64, degree: usize) -> Vec<f64> {
    let count = degree as f64 + 1.0;
    let angles: Vec<f64> = (0..=degree).map(|i| std::f64::consts::PI * (i as f64 + 0.5) / count).collect();
    let values: Vec<f64> = angles.iter().map(|angle| f(libm::cos(*angle))).collect();
    let coefficient = |m: usize| {
        let sum: f64 = angles.iter().zip(&values).map(|(angle, f)| f * libm::cos(m as f64 * angle)).sum();
        sum * if m == 0 { 1.0 } else { 2.0 } / count
    };
    (0..=degree).map(coefficient).collect()
}

/// How far a polynomial in T₀, T₁, … is from `f` on [−1, 1]: the largest distance at 4097 points, and a
/// fiftieth more for what is between them.
fn distance(f: &impl Fn(f64) -> f64, coefficients: &[f64]) -> f64 {
    let at = |x: f64| {
        // Clenshaw's recurrence.
        let step = |(one, two): (f64, f64), c: &f64| (2.0 * x * one - two + c, one);
        let (one, two) = coefficients[1..].iter().rev().fold((0.0, 0.0), step);
        x * one - two + coefficients[0]
    };
    let points = (0..=4096).map(|i| f64::from(i) / 2048.0 - 1.0);
    1.02 * points.map(|x| (at(x) - f(x)).abs()).fold(0.0, f64::max)
}

/// The public numbers of an update.
#[derive(Clone, PartialEq, Eq)]
pub struct Learn {
    /// d.
    pub features: usize,
    /// How many arms are counted: K, or none.
    pub(crate) counted: usize,
    /// Whether the counters of the state before are opened.
    pub(crate) opens: bool,
    /// λ' in units of 2⁻³².
    pub(crate) ridge: Scalar,
    /// 1/λ' in units of 2⁻³⁶.
    pub(crate) inverse_ridge: Scalar,
    /// V and g are divided by 2^`log_t`, which no entry reaches.
    pub(crate) log_t: u32,
    /// Newton's factors, as m/2^s.
    pub(crate) steps: Vec<(u32, u32)>,
    /// 2/c₂ in units of 2⁻²⁰.
    pub(crate) scale: Scalar,
    pub(crate) most_statistics: u128,
    /// Of each step the largest product with V, and the largest next inverse.
    pub(crate) most_steps: Vec<(u128, u128)>,
    pub(crate) most_estimate: u128,
    pub(crate) most_scaled: u128,
    /// The feedbacks after the update.
    pub feedbacks: u64,
    /// A bound on the distance of the eigenvalues of A·V from 1 after the update, in units of 2⁻⁴⁰.
    pub residual: u64,
}

impl Learn {
    /// The numbers of an update of `batch` feedbacks, of which `erased` go and the rest come, after
    /// `feedbacks` of them and a residual in units of 2⁻⁴⁰.
    ///
    /// # Errors
    /// [`Error::Bound`] or [`Error::OutOfRange`] for what this committee does not compute.
    pub fn new(
        config: &LinearConfig,
        sharing: &Sharing,
        (feedbacks, residual): (u64, u64),
        (added, erased): (u64, u64),
    ) -> Result<Self, Error> {
        let subsets = sharing.subsets().len() as f64;
        let ratio = config.l * config.l / config.lambda;
        let least = (-10f64).exp2()..=1024.0;
        if !least.contains(&ratio) {
            let (what, want) = ("L²/lambda", "from 2⁻¹⁰ to 1024");
            return Err(Error::OutOfRange { what, got: format!("{ratio}"), want });
        }
        if !(1..=4096).contains(&config.d) {
            let (what, want) = ("the number of features", "from 1 to 4096");
            return Err(Error::OutOfRange { what, got: config.d.to_string(), want });
        }
        let left = feedbacks.checked_sub(erased);
        let want = "at most the feedbacks that were counted before";
        let refused = || Error::OutOfRange { what: "erased feedbacks", got: erased.to_string(), want };
        let t = left.and_then(|left| left.checked_add(added)).ok_or_else(refused)?;
        if feedbacks.saturating_add(added) > MOST_FEEDBACKS {
            let (what, want) = ("the number of feedbacks", "at most 2³²");
            return Err(Error::OutOfRange { what, got: feedbacks.saturating_add(added).to_string(), want });
        }
        // While the batch is added up, no more than all of them are counted.
        let most_t = feedbacks as f64 + added as f64;
        let largest = 1.0 / ratio + most_t + 1.0;
        let log_t = (integer(largest).next_power_of_two().trailing_zeros()).max(4);
        // Rounding moves each entry of A by (#A/2 + 1) units of 2⁻³⁶, and an eigenvalue of A·V by d·‖V‖ times
        // that; and each entry of V by as many of 2^log_t·2⁻³⁶, and an eigenvalue by d/λ' times that.
        let moved = largest + ratio * (1u64 << log_t) as f64;
        let rounding = moved * config.d as f64 * (subsets / 2.0 + 1.0) * (-f64::from(MODEL_BITS)).exp2();
        if rounding > (-11f64).exp2() {
            return Err(Error::OutOfRange {
                what: "the number of feedbacks",
                got: t.to_string(),
                want: "so small that the rounding of the inverse is below 2⁻¹¹: fewer features or members allow more",
            });
        }
        let (steps, residual) = schedule(residual, (added, erased), ratio, rounding)?;
        let model = |bits: u32| (1u128 << bits) as f64;
        // The entry (i, j) of A·V is at most √(A_ii·V_jj) times the largest eigenvalue, below 2 with its
        // factor.
        let product = 2.02 * (1.0 + most_t * ratio).sqrt() / model(log_t);
        let step = |(_, s): &(u32, u32)| {
            let scale = model(2 * MODEL_BITS + s);
            (integer(product * scale), integer(2.02 * ratio.max(1.0) * scale))
        };
        let most_steps: Vec<(u128, u128)> = steps.iter().map(step).collect();
        let c2 = c2(config, t);
        let scale = fixed(2.0 / c2, SCALE_BITS);
        let most_u = (most_t * ratio).sqrt() / 2.0 * 1.01;
        let learn = Learn {
            features: config.d,
            counted: 0,
            opens: false,
            ridge: Field::from_signed(fixed(1.0 / ratio, 2 * FEATURE_BITS)),
            inverse_ridge: Field::from_signed(fixed(ratio, MODEL_BITS)),
            log_t,
            steps,
            scale: Field::from_signed(scale),
            most_statistics: integer(largest * model(2 * FEATURE_BITS)),
            most_steps,
            most_estimate: integer((most_u + 1.0) * model(2 * MODEL_BITS - log_t)),
            most_scaled: integer(1.01 * ratio * model(MODEL_BITS) * scale as f64),
            feedbacks: t,
            residual,
        };
        let (have, shorter) = (mask_bits(sharing), "shorter batches, or a smaller L²/lambda");
        fits("a statistic", learn.most_statistics, have, "fewer feedbacks")?;
        for (product, inverse) in &learn.most_steps {
            fits("a step of the inverse", (*product).max(*inverse), have, shorter)?;
        }
        fits("the estimate", learn.most_estimate, have, "fewer feedbacks")?;
        fits("the inverse", learn.most_scaled, have, "a smaller L²/lambda")?;
        Ok(learn)
    }
}

/// The largest z + c₁ of a model of `t` feedbacks.
fn c2(config: &LinearConfig, t: u64) -> f64 {
    let c1 = match config.bonus(t.max(1), t, config.c1(t)) {
        Bonus::Root { c1, .. } => c1,
        Bonus::Linear { .. } => 0.0,
    };
    c1 + bandit::UNCERTAINTY_BOUND * config.l * config.l / config.lambda
}

/// x rounded down to five significant bits, as m/2^s. x is above 2⁻⁴⁰ and at most 2.
fn significant(x: f64) -> (u32, u32) {
    let mut shift = 3;
    while x * ((1u64 << shift) as f64) < 16.0 && shift < 44 {
        shift += 1;
    }
    ((x * (1u64 << shift) as f64).floor() as u32, shift)
}

/// Newton's factors, if eigenvalues of A·V were within `residual` of 1, `added` feedbacks came and `erased`
/// went since, and `rounding` moves an eigenvalue by so much in each step; and the next residual, at most
/// 2⁻¹¹ more than `rounding`, rounded up. Residuals are in units of 2⁻⁴⁰.
///
/// With the eigenvalues of M = A·V in [1 − e, 1 + e], those of M·(2 − M) are in [1 − e², 1]; the residual
/// follows from the rounded factor. Where eigenvalues are far from 1, a step moves what rounding has moved by
/// up to four times as much.
pub(crate) fn schedule(
    residual: u64,
    (added, erased): (u64, u64),
    ratio: f64,
    rounding: f64,
) -> Result<(Vec<(u32, u32)>, u64), Error> {
    let refused = |got: String| Error::OutOfRange {
        what: "a batch",
        got,
        want: "so short that Newton's iteration ends within 60 steps",
    };
    let unit = (1u64 << 40) as f64;
    if residual > MOST_RESIDUAL {
        return Err(refused(format!("{residual}·2⁻⁴⁰ of residual")));
    }
    let epsilon = residual as f64 / unit;
    // V is rounded before the first step.
    let low = (1.0 - epsilon) * (1.0 - rounding) / (1.0 + erased as f64 * ratio);
    let high = (1.0 + epsilon) * (1.0 + rounding) * (1.0 + added as f64 * ratio);
    let half = MOST_RESIDUAL as f64 / 2.0 / unit;
    let mut steps = vec![significant(2.0 / (low + high))];
    let factor = |(m, s): (u32, u32)| f64::from(m) / (1u64 << s) as f64;
    let first = factor(steps[0]);
    let mut e = (1.0 - low * first).max(high * first - 1.0);
    loop {
        // Eigenvalues are in [1 − e² − rounding, 1 + rounding].
        let exact = e * e;
        e = exact + rounding;
        if exact <= half {
            // One unit covers the rounding of f64.
            return Ok((steps, (e * unit).ceil() as u64 + 1));
        }
        if e >= 1.0 || steps.len() == MOST_STEPS {
            return Err(refused(format!("{} feedbacks, {erased} erased", added)));
        }
        let next = if e > 0.1 { significant(2.0 / (2.0 - e)) } else { (1, 0) };
        let f = factor(next);
        e = (1.0 - (1.0 - e) * f).max((1.0 + rounding) * f - 1.0);
        steps.push(next);
    }
}
