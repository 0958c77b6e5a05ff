//! Old feedback that counts less ([`Forgetting`](bandit::Forgetting)): the sums of batches that have a
//! weight, and the rounds of their feedbacks.
//!
//! At the end of a batch the statistics are the sums times their weights, which are integers, so that no
//! level is used and no error depends on how long the bandit has run. An erased feedback is subtracted from
//! the sum that it is in, whatever its weight: then it is in no later model at all.

use super::feedback::empty_sum;
use super::stored::Place;
use crate::{Engine, Error};
use bandit::{Forgetting, WeightedSums};
use ckks::Ciphertext;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The feedback that has a weight.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Past<C = Arc<Ciphertext>> {
    sums: WeightedSums<BatchSum<C>>,
    /// The rounds of the feedbacks since the last batch that was closed.
    open: Vec<u64>,
}

/// The sum of some batches.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct BatchSum<C = Arc<Ciphertext>> {
    sum: C,
    /// The rounds of its feedbacks. Those of logged rounds are left out, which cannot be erased.
    rounds: Arc<Vec<u64>>,
}

/// The statistics at the end of a batch.
pub(super) struct Weighed {
    /// The sums times their weights, at the scale 2^[`log_sums`](protocol::BanditConfig::log_sums).
    pub(super) total: Ciphertext,
    /// The c with V_j ≤ c·V for the statistics at the last end of a batch.
    pub(super) removed: f64,
}

impl Past {
    pub(super) fn new(forgetting: Forgetting) -> Self {
        Past { sums: WeightedSums::new(forgetting), open: Vec::new() }
    }

    /// Notes a feedback of the open batch.
    pub(super) fn counted(&mut self, round: u64) {
        self.open.push(round);
    }

    /// Ends the batch of `sum`, whose last feedback is number `to`. `ratio` is L²/λ.
    pub(super) fn end_batch(
        &mut self,
        engine: &Engine,
        to: u64,
        sum: Arc<Ciphertext>,
        ratio: f64,
    ) -> Result<Weighed, Error> {
        let eval = engine.scores_evaluator();
        let batch = BatchSum { sum, rounds: Arc::new(std::mem::take(&mut self.open)) };
        let faded = self.sums.end_batch(to, batch, |newest, batch| {
            Arc::make_mut(&mut newest.rounds).extend_from_slice(&batch.rounds);
            eval.add_assign(Arc::make_mut(&mut newest.sum), &batch.sum)
        })?;
        let mut total = empty_sum(engine);
        for (batch, weight) in self.sums.iter() {
            let mut sum = Ciphertext::clone(&batch.sum);
            eval.mul_integer_assign(&mut sum, weight.into());
            eval.add_assign(&mut total, &sum)?;
        }
        let scale = total.scale() * f64::from(self.sums.forgetting().log_weight()).exp2();
        Ok(Weighed { total: total.with_scale(scale), removed: faded.bound(ratio) })
    }

    /// Subtracts the feedback of a round from the sum that it is in. Returns whether that is the one of the
    /// open batch, which the caller has; `None` if no sum with a weight has it.
    pub(super) fn erase(
        &mut self,
        engine: &Engine,
        round: u64,
        feedback: &Ciphertext,
    ) -> Result<Option<bool>, Error> {
        if self.open.contains(&round) {
            return Ok(Some(true));
        }
        match self.sums.iter_mut().find(|batch| batch.rounds.contains(&round)) {
            Some(batch) => {
                engine.scores_evaluator().sub_assign(Arc::make_mut(&mut batch.sum), feedback)?;
                Ok(Some(false))
            }
            None => Ok(None),
        }
    }
}

impl<C> Past<C> {
    /// The feedbacks in the statistics, each times its weight.
    pub(super) fn feedbacks(&self) -> u64 {
        self.sums.feedbacks()
    }

    /// Whether a stored value goes with `forgetting`.
    pub(super) fn is_valid(&self, forgetting: Option<Forgetting>) -> bool {
        self.sums.is_valid() && Some(self.sums.forgetting()) == forgetting
    }

    /// The same with `map` of its ciphertexts. A feedback has `numbers` coefficients.
    pub(super) fn try_map<D>(
        self,
        numbers: usize,
        map: &mut impl FnMut(Place, C) -> Result<D, Error>,
    ) -> Result<Past<D>, Error> {
        let Past { sums, open } = self;
        let sums = sums.try_map(|BatchSum { sum, rounds }| {
            Ok::<_, Error>(BatchSum { sum: map(Place::First(numbers), sum)?, rounds })
        })?;
        Ok(Past { sums, open })
    }
}
