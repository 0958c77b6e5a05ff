//! The trace condition: the sum of trace statistics of a batch, and what devices answer about it.

use super::batch::Phase;
use super::stored::Place;
use super::{EncryptedBandit, State};
use crate::{Engine, Error};
use ckks::Ciphertext;
use protocol::{INVERSE_TOLERANCE, LOG_CONTEXT, QuestionId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A question that was asked so many rounds before the last reserved one is over: after a restored backup,
/// which leaves out more, no answer to an earlier question counts.
const QUESTION_ROUNDS: u64 = 1 << 17;

/// A trace that is to be tested.
#[derive(Debug, Clone)]
pub struct TraceTest {
    /// The sum of the trace statistics of the batch, at the scale of contexts.
    pub statistics: Arc<Ciphertext>,
    /// The number of feedbacks up to the last one in it.
    pub feedbacks: u64,
    /// t_j of the current model.
    pub model_feedbacks: u64,
}

/// The trace condition of a batch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Trace<C = Arc<Ciphertext>> {
    /// The sum of the trace statistics.
    sum: C,
    /// The number of feedbacks up to which the trace is known to be below C.
    tested_to: u64,
}

impl Trace {
    /// The condition of a batch that begins after this many feedbacks.
    pub(super) fn after(engine: &Engine, feedbacks: u64) -> Self {
        let small = engine.params();
        let sum = Ciphertext::zero(small, small.max_level()).with_scale(f64::from(LOG_CONTEXT).exp2());
        Trace { sum: Arc::new(sum), tested_to: feedbacks }
    }
}

impl<C> Trace<C> {
    /// The condition with `map` of its ciphertext.
    pub(super) fn try_map<D>(
        self,
        map: &mut impl FnMut(Place, C) -> Result<D, Error>,
    ) -> Result<Trace<D>, Error> {
        Ok(Trace { sum: map(Place::Trace, self.sum)?, tested_to: self.tested_to })
    }
}

impl<C> State<C> {
    /// The number of feedbacks of the next update of which nothing is known but that the norms of their
    /// features are at most L. Under the trace condition these are the ones without a test.
    pub(super) fn untested(&self) -> u64 {
        self.feedbacks - self.trace.as_ref().map_or(self.model_feedbacks, |trace| trace.tested_to)
    }
}

impl EncryptedBandit {
    /// The trace to be tested with the next evaluation, if there is one. More than `unanswered` feedbacks
    /// without a test end the batch, because the trace may then leave the range of the comparison. A model
    /// that is not within the tolerance of an inverse is not used for a test.
    pub fn trace_test(&self) -> Option<TraceTest> {
        let (s, trace) = (&self.state, self.state.trace.as_ref()?);
        let asks = (1..=s.config.unanswered).contains(&s.untested()) && !s.frozen;
        let tests = asks && s.residual <= INVERSE_TOLERANCE;
        let (feedbacks, model_feedbacks) = (s.feedbacks, s.model_feedbacks);
        tests.then(|| TraceTest { statistics: trace.sum.clone(), feedbacks, model_feedbacks })
    }

    /// The id of the question about `test` that is asked with the decision of `round`.
    pub fn question_id(&self, round: u64, test: &TraceTest) -> QuestionId {
        self.state.question_id(round, test.feedbacks, test.model_feedbacks)
    }

    /// Takes the answer of the device of `round` to its trace question, if there is one, and closes the batch
    /// if the trace has reached C, or if too few feedbacks were tested.
    pub(super) fn take_answer(
        &mut self,
        engine: &Engine,
        round: u64,
        answer: Option<(QuestionId, bool)>,
    ) -> Result<(), Error> {
        let s = &mut self.state;
        if let Some((question, reached)) = answer {
            if !s.has_asked(round, &question) {
                return Err(Error::UnknownQuestion);
            }
            let QuestionId { feedbacks, model_feedbacks, .. } = question;
            // A question about the batch before, or one that a restored backup does not know, is over.
            let in_time = s.reserved.saturating_sub(round) < QUESTION_ROUNDS;
            let of_batch = feedbacks > s.closed && feedbacks <= s.feedbacks && in_time;
            let in_use = matches!(s.phase, Phase::Open) && model_feedbacks == s.model_feedbacks;
            let residual = s.next_residual();
            match &mut s.trace {
                // The inverses decrease from batch to batch, so that a trace below C under an older inverse
                // is below C under the current one and the next one.
                Some(trace) if !reached && of_batch && (in_use || residual <= INVERSE_TOLERANCE) => {
                    trace.tested_to = trace.tested_to.max(feedbacks);
                }
                // The batch is closed before this feedback is added, because the condition was tested
                // without it.
                Some(_) if reached && of_batch && in_use => self.close(engine)?,
                _ => {}
            }
        }
        let s = &self.state;
        if matches!(s.phase, Phase::Open) && s.untested() + 1 > s.config.unanswered {
            // With `unanswered` at least 1, there is a feedback after the last batch.
            self.close(engine)?;
        }
        Ok(())
    }

    /// Adds the trace statistics of a feedback.
    pub(super) fn add_trace(&mut self, engine: &Engine, statistics: &Ciphertext) -> Result<(), Error> {
        let unasked = || Error::BadState("statistics of a trace that nobody tests".into());
        let trace = self.state.trace.as_mut().ok_or_else(unasked)?;
        engine.scores_evaluator().add_assign(Arc::make_mut(&mut trace.sum), statistics)?;
        Ok(())
    }
}
