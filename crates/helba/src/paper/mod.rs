//! The paper's own method for its toy problem: the four steps of HELBA with the circuits of the paper, and
//! raises where their levels run out.
//!
//! | step | here |
//! |---|---|
//! | 1: cold start, eq. 2 with the paper's number of steps, estimate | [`PaperMethod::begin_round`] at a batch start |
//! | 2 and 3: eq. 5, NewMax and NewComp with f_1 | [`PaperMethod::decide`] |
//! | 4: the trace condition, eq. 8 | [`PaperMethod::begin_round`] |
//! | feedback | [`PaperMethod::learn`] |
//!
//! [`PaperMethod`] is written once for every slot algebra: [`PaperTwin`] runs it in the clear, and
//! [`PaperBandit`] on ciphertexts. Vectors are those of [`protocol::paper`].
//!
//! # Source
//! Encrypted Linear Contextual Bandit, Algorithm 4. Departures: those of `circuits::paper`; the rescaling of
//! scores is that of Proposition 10; a batch's trace has all its rounds, so that V and trace are of the same
//! ones; a trace comparison is sent under a mask on every coefficient, and comes back with noise.

mod bandit;
mod engine;
mod twin;

pub use bandit::{PaperBandit, PaperDecision};
pub use engine::{HolderAnswer, HolderTask, PaperEngine, PaperExchange};
pub use twin::PaperTwin;

use ::bandit::LinearConfig;
use circuits::inverse::Newton;
use circuits::paper::{
    PaperArgmax, PaperComparison, Raises, SquareRootIteration, cold_start, cold_steps,
    compositions_of_comparison, compositions_of_maximum, square_root_steps,
};
use circuits::{SlotAlgebra, rotate_sum};
use num_complex::Complex64;
use protocol::exchange::TRACE_DECISION;
use protocol::paper::{PAPER_BLOCK, PAPER_SIDE, PAPER_SLOTS, check_paper, paper_slots};

/// A holder of the key: it raises vectors, and answers comparisons of the trace.
pub trait Holder<A: SlotAlgebra>: Raises<A> {
    /// The value of a vector whose slots are all equal. The vector is at the floor or above.
    ///
    /// # Errors
    /// Those of the exchange.
    fn open(&mut self, alg: &A, vector: &A::Vector) -> Result<f64, A::Error>;
}

/// The statistics and the model of a bandit, on the vectors of an algebra.
#[derive(Debug, Clone)]
pub struct PaperState<V> {
    /// V/L² without the ridge, and g/L². `None` without feedback.
    statistics: Option<V>,
    /// The statistics in the model.
    closed: Option<V>,
    /// [A | ω]. `None` before the first batch start: A = I/λ, ω = 0.
    model: Option<V>,
    feedbacks: u64,
    model_feedbacks: u64,
    batches: u64,
}

impl<V> Default for PaperState<V> {
    fn default() -> Self {
        let (statistics, closed, model) = (None, None, None);
        PaperState { statistics, closed, model, feedbacks: 0, model_feedbacks: 0, batches: 0 }
    }
}

impl<V> PaperState<V> {
    /// The number of feedbacks.
    pub fn feedbacks(&self) -> u64 {
        self.feedbacks
    }

    /// The number of feedbacks in the model.
    pub fn model_feedbacks(&self) -> u64 {
        self.model_feedbacks
    }

    /// The number of times that the model was computed.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// t of the next decision and t_j, both from 1.
    fn rounds(&self) -> (u64, u64) {
        (self.feedbacks + 1, self.model_feedbacks.max(1))
    }
}

/// The steps of the paper for one configuration.
#[derive(Debug, Clone)]
pub struct PaperMethod {
    config: LinearConfig,
}

impl PaperMethod {
    /// The method for `config`.
    ///
    /// # Errors
    /// As [`check_paper`].
    pub fn new(config: LinearConfig) -> Result<Self, protocol::Error> {
        check_paper(&config)?;
        Ok(PaperMethod { config })
    }

    /// The configuration.
    pub fn config(&self) -> &LinearConfig {
        &self.config
    }

    /// Adds the product of the vectors of a feedback to the statistics. Takes 1 level of them.
    ///
    /// # Errors
    /// Those of the algebra.
    pub fn learn<A: SlotAlgebra>(
        &self,
        alg: &A,
        state: &mut PaperState<A::Vector>,
        [left, right]: [&A::Vector; 2],
    ) -> Result<(), A::Error> {
        let product = alg.mul(left, right)?;
        state.statistics = Some(match &state.statistics {
            Some(sum) => alg.add(sum, &product)?,
            None => product,
        });
        state.feedbacks += 1;
        Ok(())
    }

    /// Step 4, then step 1 if the batch has ended: `t >= (1 + eta) t_j`, or the encrypted comparison of its
    /// trace with C, which `holder` opens, is at least 0.45. Returns whether the model is a new one.
    ///
    /// # Errors
    /// Those of the algebra and of `holder`.
    pub fn begin_round<A: SlotAlgebra>(
        &self,
        alg: &A,
        holder: &mut impl Holder<A>,
        state: &mut PaperState<A::Vector>,
    ) -> Result<bool, A::Error> {
        // Without feedback since the batch start the trace is 0, and nothing ends the batch.
        let Some(statistics) = state.statistics.clone().filter(|_| state.feedbacks > state.model_feedbacks)
        else {
            return Ok(false);
        };
        let ends = self.config.batch_ends_publicly(state.feedbacks, state.rounds().1)
            || match self.trace_comparison(alg, holder, state, &statistics)? {
                Some(comparison) => holder.open(alg, &comparison)? >= TRACE_DECISION,
                None => false,
            };
        if ends {
            state.model = Some(self.model(alg, holder, &statistics, state.feedbacks)?);
            state.closed = Some(statistics);
            (state.model_feedbacks, state.batches) = (state.feedbacks, state.batches + 1);
        }
        Ok(ends)
    }

    /// `NewComp(trace/B, C/B)` of the open batch in every slot, with `B = L^2 (1/lambda + 1/sqrt(lambda)) n`
    /// for its n rounds and the precision 1/(4 t B). `None` if no trace of n rounds reaches C.
    ///
    /// # Source
    /// Eq. 8 and section 6 of the paper.
    fn trace_comparison<A: SlotAlgebra>(
        &self,
        alg: &A,
        holder: &mut impl Holder<A>,
        state: &PaperState<A::Vector>,
        statistics: &A::Vector,
    ) -> Result<Option<A::Vector>, A::Error> {
        let LinearConfig { l, lambda, c, .. } = self.config;
        let rounds = (state.feedbacks - state.model_feedbacks) as f64;
        let bound = l * l * (1.0 / lambda + 1.0 / lambda.sqrt()) * rounds;
        if bound <= c {
            return Ok(None);
        }
        let batch = match &state.closed {
            Some(closed) => alg.sub(statistics, closed)?,
            None => statistics.clone(),
        };
        // V_ik is in (k, 1, i, j) for both j, and A_ik in (k, 0, i, k).
        let keep = paper_slots(|[k, h, _, j]| if h == 1 && j == k { l * l / bound } else { 0.0 });
        let kept = alg.mul_plain(&batch, &keep)?;
        let inverse = |[_, h, i, j]: [usize; 4]| if h == 1 && i == j { lambda.recip() } else { 0.0 };
        let products = match &state.model {
            Some(model) => alg.mul(&kept, &alg.rotate(model, -(PAPER_BLOCK as i64) / 2)?)?,
            None => alg.mul_plain(&kept, &paper_slots(inverse))?,
        };
        let trace = rotate_sum(alg, &products, 1, PAPER_SLOTS)?;
        let difference = alg.add_const(&trace, Complex64::new(-c / bound, 0.0))?;
        // The number of compositions is stated for precisions below 1/4.
        let precision = (4.0 * state.rounds().0 as f64 * bound).recip().min(0.2);
        let comparison = PaperComparison::new(1, compositions_of_comparison(precision)?)?;
        comparison.affine(alg, holder, &difference, 0.5, 0.5).map(Some)
    }

    /// Step 1: the model [A | ω] of `t` feedbacks, at the top level.
    ///
    /// # Source
    /// Eq. 2 with the number of steps of Corollary 3.
    fn model<A: SlotAlgebra>(
        &self,
        alg: &A,
        holder: &mut impl Holder<A>,
        statistics: &A::Vector,
        t: u64,
    ) -> Result<A::Vector, A::Error> {
        let LinearConfig { d, l, lambda, .. } = self.config;
        let (t, scale) = (t as f64, l * l);
        let c = lambda * d as f64 + scale * t;
        let precision = (l * t * t.sqrt() * (scale * t + lambda).sqrt()).recip();
        let steps = cold_steps(precision, lambda, c)?;
        let newton = Newton::new(PAPER_SIDE, 1.0, &vec![1.0; steps], scale)?;
        let ridge = paper_slots(|[k, h, i, _]| if h == 1 && i == k { lambda / scale } else { 0.0 });
        let design = alg.add_plain(statistics, &ridge)?;
        let start = cold_start(alg, PAPER_SIDE, scale, &design, c)?;
        let inverse = newton.iterate_raised(alg, holder, &start)?;
        let inverse = holder.with_levels(alg, inverse, 2)?;
        let model = newton.solution(alg, &inverse, statistics)?;
        holder.raise(alg, &model)
    }

    /// Steps 2 and 3: slot `a PAPER_BLOCK` of the result is near 1/2 for the arm to play, and near 0 for
    /// another, from the vectors of the contexts at the top level.
    ///
    /// # Errors
    /// Those of the algebra and of `holder`.
    pub fn decide<A: SlotAlgebra>(
        &self,
        alg: &A,
        holder: &mut impl Holder<A>,
        state: &PaperState<A::Vector>,
        [left, right]: [&A::Vector; 2],
    ) -> Result<A::Vector, A::Error> {
        let LinearConfig { l, lambda, .. } = self.config;
        let (t, t_j) = state.rounds();
        let (beta, c1, c2) = (self.config.beta(t, t_j), self.config.c1(t_j), self.config.c2(t_j));
        // Scores are (ρ - r_min)/(ρ_max - r_min) with r_min = -1.
        let range = self.config.rho_max(t, t_j) + 1.0;
        let t = t as f64;
        let contexts = alg.mul(left, right)?;
        let inverse = |[_, h, i, j]: [usize; 4]| if h == 0 && i == j { lambda.recip() } else { 0.0 };
        let products = match &state.model {
            Some(model) => alg.mul(&contexts, model)?,
            None => alg.mul_plain(&contexts, &paper_slots(inverse))?,
        };
        // xᵀAx/L² at the first slot of an arm, ⟨ω, x⟩/L half a block behind it.
        let sums = rotate_sum(alg, &products, 1, PAPER_BLOCK / 2)?;
        let root = SquareRootIteration::new(square_root_steps(t.recip(), c1, c2)?, c2, beta / range)?;
        // Where there is no arm, the argument is c2: at 0 the errors of the iteration grow by 9/4 a step.
        let argument = alg.mul_plain(&sums, &of_arms(2.0 * l * l / c2, 0.0))?;
        let argument = alg.add_plain(&argument, &of_arms(2.0 * c1 / c2 - 1.0, 1.0))?;
        let bonus = root.evaluate(alg, holder, &argument)?;
        let estimates = alg.rotate(&sums, PAPER_BLOCK as i64 / 2)?;
        let estimates = alg.mul_plain(&estimates, &of_arms(l / range, 0.0))?;
        let scores = alg.add(&bonus, &estimates)?;
        let scores = alg.add_plain(&scores, &of_arms((beta / t + 1.0) / range, 0.0))?;

        let precision = (4.1 * t).recip();
        let maximum = PaperComparison::new(1, compositions_of_maximum(precision)?)?;
        let comparison = PaperComparison::new(1, compositions_of_comparison(precision)?)?;
        PaperArgmax::new(PAPER_SIDE, PAPER_BLOCK, maximum, comparison)?.evaluate(alg, holder, &scores)
    }
}

/// A block with `first` in the slot of its arm, and `rest` in all others.
fn of_arms(first: f64, rest: f64) -> Vec<Complex64> {
    (0..PAPER_BLOCK).map(|s| if s == 0 { first } else { rest }.into()).collect()
}
