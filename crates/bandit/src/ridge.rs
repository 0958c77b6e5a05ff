//! Ridge regression whose estimate changes at batch starts only.

use crate::vector::{add_outer, dot, quadratic_form};
use crate::{BatchProgress, Error, Forgetting, WeightedSums};
use nalgebra::{Cholesky, DMatrix, Dyn};
use serde::{Deserialize, Serialize};

/// The statistics `V` and `g` of all rounds, and `A_j` and `omega_j` of the last batch start.
///
/// Symmetric matrices of order `d` are slices of `d * d` entries. A round costs O(d^2) and allocates nothing;
/// a batch start costs O(d^3), or O(d^2) if the inverse is tracked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ridge {
    d: usize,
    design: Vec<f64>,
    moment: Vec<f64>,
    inverse: Vec<f64>,
    omega: Vec<f64>,
    /// `V^-1` of the current round, for the schedules of OFUL and RSOFUL.
    tracked: Option<Tracked>,
    /// The sums of batches, if old feedback counts less: `sum x x^T` and `sum r x`.
    past: Option<Past>,
    round: u64,
    batch_start: u64,
    updates: u64,
    trace: f64,
    /// `A_j x` or `V^-1 x`.
    #[serde(skip)]
    scratch: Vec<f64>,
}

/// Sums whose weights fall with their age.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Past {
    lambda: f64,
    sums: WeightedSums<Sums>,
    /// The sums of the open batch.
    open: Sums,
}

/// The sums of some rounds: of `x x^T`, and of `r x`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sums {
    design: Vec<f64>,
    moment: Vec<f64>,
}

impl Sums {
    fn zero(d: usize) -> Self {
        Sums { design: vec![0.0; d * d], moment: vec![0.0; d] }
    }

    fn add(&mut self, weight: f64, other: &Sums) {
        let both = |to: &mut Vec<f64>, from: &[f64]| {
            to.iter_mut().zip(from).for_each(|(a, b)| *a += weight * b);
        };
        both(&mut self.design, &other.design);
        both(&mut self.moment, &other.moment);
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tracked {
    inverse: Vec<f64>,
    /// Number of rank-one updates since `inverse` was last computed by a factorisation.
    age: u32,
    log_det_growth: f64,
}

/// Number of rank-one updates after which the tracked inverse is computed by a factorisation. This bounds the
/// accumulated rounding error; its cost is negligible.
const MAX_AGE: u32 = 256;

/// Largest counter in a stored state. Such counters are exact as `f64` and cannot overflow.
const MAX_ROUNDS: u64 = 1 << 52;

impl Ridge {
    /// The statistics before any data: `V = lambda I`. With `track`, `V^-1` and `det(V)` are kept up to date
    /// in every round.
    ///
    /// `d >= 1` and `lambda > 0`, as in a validated configuration.
    pub(crate) fn new(d: usize, lambda: f64, track: bool) -> Self {
        let scaled_identity = |x| DMatrix::<f64>::identity(d, d).scale(x).as_slice().to_vec();
        let inverse = scaled_identity(lambda.recip());
        Self {
            d,
            design: scaled_identity(lambda),
            moment: vec![0.0; d],
            omega: vec![0.0; d],
            tracked: track.then(|| Tracked { inverse: inverse.clone(), age: 0, log_det_growth: 0.0 }),
            inverse,
            past: None,
            round: 0,
            batch_start: 1,
            updates: 0,
            trace: 0.0,
            scratch: Vec::new(),
        }
    }

    /// The same with rounds that lose their weight as `forgetting` says. Nothing is tracked then, because a
    /// rank-one update of the inverse does not lower weights.
    pub(crate) fn forgetting(d: usize, lambda: f64, forgetting: Forgetting) -> Self {
        let past = Past { lambda, sums: WeightedSums::new(forgetting), open: Sums::zero(d) };
        Self { past: Some(past), ..Self::new(d, lambda, false) }
    }

    /// `V = lambda I + sum x x^T` over all rounds, each times its weight, `d * d` entries.
    pub fn design(&self) -> &[f64] {
        &self.design
    }

    /// `g = sum r x` over all rounds, each times its weight, `d` entries.
    pub fn moment(&self) -> &[f64] {
        &self.moment
    }

    /// `A_j`, the inverse of `V` at the batch start, `d * d` entries.
    pub fn inverse(&self) -> &[f64] {
        &self.inverse
    }

    /// `omega_j = A_j g_j`, the estimate at the batch start, `d` entries.
    pub fn omega(&self) -> &[f64] {
        &self.omega
    }

    /// Number of rounds learnt.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// `t_j`: the number of rounds in `A_j` and `omega_j`, but at least 1.
    pub fn batch_start(&self) -> u64 {
        self.batch_start
    }

    /// The number of times that `A_j` and `omega_j` were computed: the number of batches minus one.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// The quantities that schedules depend on. `log_det_growth` is 0 unless the inverse is tracked.
    pub fn progress(&self) -> BatchProgress {
        BatchProgress {
            round: self.round,
            batch_start: self.batch_start,
            trace: self.trace,
            log_det_growth: self.tracked.as_ref().map_or(0.0, |t| t.log_det_growth),
        }
    }

    /// `x^T A_j x`.
    pub(crate) fn quadratic_form(&self, x: &[f64]) -> f64 {
        quadratic_form(&self.inverse, x)
    }

    /// Adds one round: `V += x x^T`, `g += r x`, and `||x||^2_{A_j}` to the trace of the batch.
    pub(crate) fn observe(&mut self, x: &[f64], reward: f64) -> Result<(), Error> {
        self.trace += self.quadratic_form(x);
        add_outer(&mut self.design, 1.0, x);
        self.moment.iter_mut().zip(x).for_each(|(g, xi)| *g += reward * xi);
        self.round += 1;
        if let Some(Past { open, .. }) = &mut self.past {
            add_outer(&mut open.design, 1.0, x);
            open.moment.iter_mut().zip(x).for_each(|(g, xi)| *g += reward * xi);
        }
        if let Some(tracked) = &mut self.tracked {
            tracked.log_det_growth += sherman_morrison(&mut tracked.inverse, x, &mut self.scratch).ln();
            tracked.age += 1;
            if tracked.age >= MAX_AGE {
                invert_into(&self.design, self.d, &mut tracked.inverse)?;
                tracked.age = 0;
            }
        }
        Ok(())
    }

    /// Starts a batch with `A_j = V^-1`.
    pub(crate) fn start_batch(&mut self) -> Result<(), Error> {
        self.weigh();
        match &self.tracked {
            Some(tracked) => self.inverse.copy_from_slice(&tracked.inverse),
            None => invert_into(&self.design, self.d, &mut self.inverse)?,
        }
        self.freeze()
    }

    /// Starts a batch with the given inverse.
    pub(crate) fn start_batch_with(&mut self, inverse: &[f64]) -> Result<(), Error> {
        self.inverse.copy_from_slice(inverse);
        self.freeze()
    }

    /// Makes the statistics of the sums of batches with the weights that they have now.
    fn weigh(&mut self) {
        let Some(Past { lambda, sums, open }) = &mut self.past else { return };
        let batch = std::mem::replace(open, Sums::zero(self.d));
        let _: Result<_, std::convert::Infallible> = sums.end_batch(self.round, batch, |sum, batch| {
            sum.add(1.0, &batch);
            Ok(())
        });
        let (mut total, one) = (Sums::zero(self.d), f64::from(1u32 << sums.forgetting().log_weight()));
        sums.iter().for_each(|(sum, weight)| total.add(f64::from(weight) / one, sum));
        total.design.iter_mut().step_by(self.d + 1).for_each(|entry| *entry += *lambda);
        (self.design, self.moment) = (total.design, total.moment);
    }

    fn freeze(&mut self) -> Result<(), Error> {
        for (w, row) in self.omega.iter_mut().zip(self.inverse.chunks_exact(self.d)) {
            *w = dot(row, &self.moment);
        }
        self.batch_start = self.round.max(1);
        self.trace = 0.0;
        if let Some(tracked) = &mut self.tracked {
            tracked.log_det_growth = 0.0;
        }
        self.updates += 1;
        // An infinite design may have a finite "inverse".
        let mut values = self.design.iter().chain(&self.inverse).chain(&self.omega);
        if values.all(|v| v.is_finite()) { Ok(()) } else { Err(Error::Overflow) }
    }

    /// Refuses a stored state that contradicts the configuration or itself.
    pub(crate) fn check(&self, d: usize, track: bool, forgetting: Option<Forgetting>) -> Result<(), Error> {
        let fail = |what| Err(Error::State { what });
        let past = self.past.as_ref();
        let sums =
            || past.into_iter().flat_map(|past| past.sums.iter().map(|(sum, _)| sum).chain([&past.open]));
        if past.map(|past| past.sums.forgetting()) != forgetting
            || past.is_some_and(|past| !past.sums.is_valid())
            || sums().any(|sum| Some(sum.design.len()) != d.checked_mul(d) || sum.moment.len() != d)
            || !sums().flat_map(|sum| sum.design.iter().chain(&sum.moment)).all(|v| v.is_finite())
        {
            return fail("sums of batches that do not go with the weights of the configuration");
        }
        let tracked = self.tracked.as_ref();
        let squares = [Some(&self.design), Some(&self.inverse), tracked.map(|t| &t.inverse)];
        let vectors = [&self.moment, &self.omega];
        if tracked.is_some() != track {
            return fail("the tracked inverse does not go with the schedule");
        }
        if self.d != d
            || squares.iter().flatten().any(|m| Some(m.len()) != d.checked_mul(d))
            || vectors.iter().any(|v| v.len() != d)
        {
            return fail("statistics of another dimension");
        }
        let scalars = [self.trace, tracked.map_or(0.0, |t| t.log_det_growth)];
        let mut values = squares.into_iter().flatten().chain(vectors).flatten().chain(&scalars);
        if !values.all(|v| v.is_finite()) {
            return fail("statistics that are not finite");
        }
        if self.round > MAX_ROUNDS
            || tracked.is_some_and(|t| t.age >= MAX_AGE)
            || self.batch_start == 0
            || self.batch_start > self.round.max(1)
            || self.updates > self.round
        {
            return fail("counters that contradict each other");
        }
        Ok(())
    }
}

/// The Sherman-Morrison update of a symmetric inverse, `inverse -= (inverse x)(inverse x)^T / (1 + x^T
/// inverse x)`. Returns the denominator, by which the determinant of the inverted matrix is multiplied.
fn sherman_morrison(inverse: &mut [f64], x: &[f64], scratch: &mut Vec<f64>) -> f64 {
    scratch.clear();
    scratch.extend(inverse.chunks_exact(x.len()).map(|row| dot(row, x)));
    let factor = 1.0 + dot(scratch, x);
    for (row, yi) in inverse.chunks_exact_mut(x.len()).zip(&*scratch) {
        let scaled = yi / factor;
        row.iter_mut().zip(&*scratch).for_each(|(v, yj)| *v -= scaled * yj);
    }
    factor
}

fn invert_into(design: &[f64], d: usize, inverse: &mut [f64]) -> Result<(), Error> {
    let factor: Cholesky<f64, Dyn> =
        DMatrix::from_column_slice(d, d, design).cholesky().ok_or(Error::Overflow)?;
    inverse.copy_from_slice(factor.inverse().as_slice());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Largest entry of `V * inverse - I`.
    fn residual(design: &[f64], inverse: &[f64], d: usize) -> f64 {
        let product = DMatrix::from_column_slice(d, d, design) * DMatrix::from_column_slice(d, d, inverse);
        (product - DMatrix::identity(d, d)).amax()
    }

    fn data() -> impl Strategy<Value = (usize, Vec<(Vec<f64>, f64)>)> {
        (1usize..9).prop_flat_map(|d| {
            let round = (prop::collection::vec(-1.0..1.0, d), -1.0..1.0);
            (Just(d), prop::collection::vec(round, 1..600))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// The tracked inverse equals the direct one, and so does the determinant, across a re-factorisation.
        #[test]
        fn sherman_morrison_equals_direct_inverse((d, rounds) in data(), lambda in 0.1..10.0) {
            let (mut fast, mut slow) = (Ridge::new(d, lambda, true), Ridge::new(d, lambda, false));
            for (x, r) in &rounds {
                fast.observe(x, *r).unwrap();
                slow.observe(x, *r).unwrap();
            }
            let det = DMatrix::from_column_slice(d, d, fast.design()).cholesky().unwrap().ln_determinant();
            let growth = det - d as f64 * lambda.ln();
            prop_assert!((fast.progress().log_det_growth - growth).abs() < 1e-9);
            fast.start_batch().unwrap();
            slow.start_batch().unwrap();
            prop_assert!(residual(fast.design(), fast.inverse(), d) < 1e-10);
            prop_assert!(residual(slow.design(), slow.inverse(), d) < 1e-10);
            for (a, b) in fast.omega().iter().zip(slow.omega()) {
                prop_assert!((a - b).abs() < 1e-9);
            }
        }

        /// The batch's trace is `Tr(A_j (V - V_j))`, and `omega` solves the normal equations.
        #[test]
        fn trace_and_estimate_match_their_definitions((d, rounds) in data(), split in 0.0..1.0f64) {
            let mut ridge = Ridge::new(d, 1.0, false);
            let split = (split * rounds.len() as f64) as usize;
            for (x, r) in &rounds[..split] {
                ridge.observe(x, *r).unwrap();
            }
            ridge.start_batch().unwrap();
            let at_start = DMatrix::from_column_slice(d, d, ridge.design());
            for (i, g) in ridge.moment().iter().enumerate() {
                let v_omega = dot(&ridge.design()[i * d..][..d], ridge.omega());
                prop_assert!((v_omega - g).abs() < 1e-9 * rounds.len() as f64);
            }
            for (x, r) in &rounds[split..] {
                ridge.observe(x, *r).unwrap();
            }
            let grown = DMatrix::from_column_slice(d, d, ridge.design()) - at_start;
            let want = (DMatrix::from_column_slice(d, d, ridge.inverse()) * grown).trace();
            prop_assert!((ridge.progress().trace - want).abs() < 1e-9 * (1.0 + want));
        }
    }

    /// By hand: with γ = ½ and a batch a round, three rounds of x = 1 weigh ¼, ½ and 1; a window of two has
    /// the last two. Stored and read back, the statistics go on alike.
    #[test]
    fn forgetting_by_hand() {
        for (discount, window, design, moment) in
            [(Some(0.5), None, 2.75, 0.25 + 1.0 + 3.0), (None, Some(2), 3.0, 5.0)]
        {
            let forgetting = Forgetting::new(discount, window).unwrap();
            let mut ridge = Ridge::forgetting(1, 1.0, forgetting.unwrap());
            for reward in [1.0, 2.0, 3.0] {
                ridge.observe(&[1.0], reward).unwrap();
                ridge.start_batch().unwrap();
                let stored = serde_json::to_string(&ridge).unwrap();
                ridge = serde_json::from_str(&stored).unwrap();
                ridge.check(1, false, forgetting).unwrap();
                assert!(ridge.check(1, false, None).is_err());
            }
            assert_eq!((ridge.design()[0], ridge.moment()[0]), (design, moment));
            assert_eq!(ridge.omega()[0], moment * ridge.inverse()[0]);
        }
    }

    #[test]
    fn overflow_is_an_error() {
        for (x, reward) in [(1e200, 1.0), (1e10, 1e300)] {
            for track in [false, true] {
                let mut ridge = Ridge::new(2, 1.0, track);
                ridge.observe(&[x, 0.0], reward).unwrap();
                assert_eq!(ridge.start_batch(), Err(Error::Overflow));
            }
        }
    }
}
