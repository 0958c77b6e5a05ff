//! The trace condition of an encrypted bandit: the trace of its batch has a place in the pack of an
//! evaluation, and one device of the evaluation is asked whether it has reached C. The device answers with
//! its feedback. If none answers, the next evaluation asks again.

use super::EncryptedServed;
use super::pool::Pack;
use crate::error::Error;
use helba::{Evaluated, Event, ScoresModel, TraceTest};
use host::lock;
use rand::{CryptoRng, RngExt};
use wire::{TraceQuestion, TracedFeedback};

/// The most evaluations that ask for the trace of the same feedbacks. Statistics that are too long, of a
/// sender who does not follow the protocol, spoil the evaluations that compare them, and no more than these.
const MOST_ASKED: u32 = 4;

/// The feedbacks that were asked for last, and by how many evaluations.
#[derive(Default)]
pub(super) struct TraceRequests {
    feedbacks: u64,
    evaluations: u32,
}

impl TraceRequests {
    /// Whether an evaluation may ask for the trace up to this number of feedbacks. If so, it is counted.
    fn may_ask(&mut self, feedbacks: u64) -> bool {
        if self.feedbacks != feedbacks {
            *self = TraceRequests { feedbacks, evaluations: 0 };
        }
        let may = self.evaluations < MOST_ASKED;
        self.evaluations += u32::from(may);
        may
    }
}

impl EncryptedServed {
    /// An empty pack for scores of `model`, and the trace in it if there is one to be tested.
    pub(super) fn empty_pack(&self, model: &ScoresModel) -> Result<(Pack, Option<TraceTest>), Error> {
        let engine = &self.shared.engine;
        if !self.created.config.tests_trace() {
            return Ok((self.pack_without_trace()?, None));
        }
        let test = {
            let live = lock(&self.live);
            // The trace of another model than the one of the pack would be none of its batch.
            let current = model.is(live.bandit.scores_model());
            live.bandit.trace_test().filter(|_| current)
        };
        let test = test.filter(|test| lock(&self.asked).may_ask(test.feedbacks));
        let packer = self.shared.stages.beside(|| {
            let product = |test: &TraceTest| engine.score(&test.statistics, model.only()?);
            let trace = test.as_ref().map(product).transpose()?;
            engine.packer_with_trace(trace)
        })?;
        Ok((Pack::Scores(packer), test))
    }

    /// An empty pack where no trace is tested.
    pub(super) fn pack_without_trace(&self) -> Result<Pack, Error> {
        let (engine, config) = (&self.shared.engine, &self.created.config);
        if self.exchanges.layout.alone().is_some() {
            return Ok(Pack::Contexts(Vec::new()));
        }
        Ok(Pack::Scores(match config.tests_trace() {
            true => engine.packer_with_trace(None)?,
            false => engine.packer()?,
        }))
    }

    /// The user among `users` who is asked for the trace, and the frame of the question. Any of them may be
    /// one whose key has no answers left, so that chance decides.
    pub(super) fn ask_for_trace<R: CryptoRng>(
        &self,
        evaluated: &Evaluated,
        users: usize,
        rng: &mut R,
    ) -> Result<(usize, Vec<u8>), Error> {
        let (engine, at) = (&self.shared.engine, rng.random_range(0..users));
        let question = engine.trace_question(evaluated, rng)?;
        let (params, id) = (engine.decision_params(), engine.decision_key_id());
        Ok((at, ckks::write_ciphertext(params, id, &question)))
    }

    /// The question about `test` to the user of `round`.
    pub(super) fn question(&self, round: u64, test: &TraceTest, frame: Vec<u8>) -> TraceQuestion {
        TraceQuestion { id: lock(&self.live).bandit.question_id(round, test), frame }
    }

    /// The event of a feedback.
    pub(super) fn feedback_event(&self, round: u64, body: &[u8]) -> Result<Event, Error> {
        if !self.created.config.tests_trace() {
            return Ok(Event::Feedback { round, frame: body.to_vec() });
        }
        let TracedFeedback { statistics, trace, answer } = TracedFeedback::read(body, &self.limits)?;
        Ok(Event::Traced { round, frame: statistics, trace, answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feedbacks_are_asked_for_a_few_times() {
        let mut asked = TraceRequests::default();
        for feedbacks in [1, 2, 5] {
            let times = (0..10).filter(|_| asked.may_ask(feedbacks)).count();
            assert_eq!(times, MOST_ASKED as usize);
        }
    }
}
