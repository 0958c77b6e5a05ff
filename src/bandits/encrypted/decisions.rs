//! A decision request: contexts times the model, and the answer, alone or from the evaluation of a pack.

use super::again::Sent;
use super::pace::OnTheWay;
use super::pool::{Brought, Joining, Outcome, Together};
use super::{EncryptedServed, Sender};
use crate::access::Caller;
use crate::bandits::{BodyLimit, Reply};
use crate::error::Error;
use crate::metrics::Step;
use ckks::Ciphertext;
use helba::ScoresModel;
use host::{lock, os_rng};
use protocol::{Answers, UserKeys};
use service::{Body, Content};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot::Receiver;
use wire::{DecideReply, Decision, Enrolment};

/// What a caller who asks for decisions may do, and for whom they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asker {
    /// Whether it may answer every task.
    raises: bool,
    /// Under whose pads contexts and answers are, if users have keys of their own.
    enrolment: Option<Arc<Enrolment>>,
}

impl EncryptedServed {
    /// The caller as one who asks for decisions, before its body is read.
    pub(crate) fn asker(&self, caller: &Caller) -> Result<Asker, Error> {
        let enrolment = match self.created.plan.keys {
            UserKeys::Shared => None,
            UserKeys::Own => Some(caller.check_enrolled()?),
        };
        Ok(Asker { raises: caller.check_raises_all().is_ok(), enrolment })
    }

    /// The longest body of a decision request.
    pub(in crate::bandits) fn decision_body(&self) -> BodyLimit {
        BodyLimit { bytes: self.limits.contexts, content: Content::Binary }
    }

    /// Makes the decisions of a request.
    pub(crate) async fn decide(
        self: Arc<Self>,
        body: Body,
        decisions: usize,
        sender: Sender,
        asker: Asker,
    ) -> Result<Reply, Error> {
        self.exchanges.layout.log_places(decisions).map_err(helba::Error::from)?;
        let stages = &self.shared.stages;
        let place = stages.waiting.clone().try_acquire_owned().map_err(|_| Error::Overloaded)?;
        lock(&self.pace).ask(Instant::now());
        let on_the_way = OnTheWay::new(self.arrivals.clone());
        let outcome = match asker.enrolment {
            Some(user) => {
                let contexts = self.read_padded(user, body, decisions)?;
                Some(self.join_under_pads(contexts, (sender, place), on_the_way).await?)
            }
            None => {
                let upload = stages.uploads.clone().acquire_owned().await;
                let served = self.clone();
                let joined = stages.workers.run(move || {
                    let _until_placed = (upload, on_the_way);
                    let contexts = served.shared.stages.beside(|| served.read_contexts(&body, decisions))?;
                    let sent = served.kept(sender, None, decisions, &body);
                    drop(body);
                    let joining = Joining { first: 0, decisions, place, enrolment: None, sent };
                    let together = Together { decisions, joining: vec![joining] };
                    served.score(&contexts, together, sender, asker.raises)
                });
                match joined.await? {
                    Scored::Answered(reply) => return Ok(Reply::Binary(reply.to_bytes())),
                    Scored::Waits(outcomes) => outcomes.into_iter().next(),
                }
            }
        };
        let outcome = outcome.ok_or(Error::Broken("a request without an outcome"))?;
        let reply: Outcome = outcome.await.map_err(|_| Error::Broken("an evaluation that was dropped"))?;
        Ok(Reply::Binary(reply?.to_bytes()))
    }

    /// Keeps contexts for those who ask again, if they may.
    pub(super) fn kept(
        &self,
        sender: Sender,
        enrolment: Option<Arc<Enrolment>>,
        decisions: usize,
        body: &[u8],
    ) -> Option<Sent> {
        let alone = lock(&self.senders).is_alone(&sender, Instant::now());
        let repeatable = !self.created.config.decides_alone() && !alone;
        repeatable.then(|| self.shared.stages.keep(sender, enrolment, decisions, body)).flatten()
    }

    /// Multiplies contexts by the model, and answers with the scores or adds them to the open pack. All are
    /// of one `sender`, or of senders who need not be evaluated alone.
    pub(super) fn score(
        self: &Arc<Self>,
        contexts: &[Ciphertext],
        together: Together,
        sender: Sender,
        raises: bool,
    ) -> Result<Scored, Error> {
        let mut began = Instant::now();
        let engine = &self.shared.engine;
        let stages = &self.shared.stages;
        let alone = lock(&self.senders).places(&sender, Instant::now());
        let (decisions, mut together) = (together.decisions, Some(together));
        loop {
            let (model, model_feedbacks) = {
                let live = lock(&self.live);
                if live.deleted {
                    return Err(self.deleted());
                }
                (live.bandit.scores_model().clone(), live.bandit.model_feedbacks())
            };
            let brought = stages.beside(|| self.bring(contexts, &model))?;
            stages.metrics.took(Step::Scores, began.elapsed());
            began = Instant::now();
            let brought = match brought {
                Brought::Scores(scores) if self.created.config.answers == Answers::Scores => {
                    let mut rng = os_rng()?;
                    let answer = stages.beside(|| self.small_frame(engine.open_answer(scores, &mut rng)));
                    let count = decisions as u64;
                    let rounds = (self.take_rounds(count)?, count);
                    let reply = self.answered_alone(rounds, (model_feedbacks, raises), answer);
                    return Ok(Scored::Answered(Box::new(reply)));
                }
                brought => brought,
            };
            let model = (&model, model_feedbacks);
            let outcomes = match (&alone, together.take()) {
                (Some(own), Some(together)) => Some(self.join_alone(brought, together, model, own)?),
                (_, waits) => {
                    together = waits;
                    self.join(brought, &mut together, model)?
                }
            };
            if let Some(outcomes) = outcomes {
                return Ok(Scored::Waits(outcomes));
            }
        }
    }

    /// Reads the contexts of a request for so many decisions: one frame, or for stages as many of one length
    /// as its decisions have.
    pub(super) fn read_contexts(&self, body: &[u8], decisions: usize) -> Result<Vec<Ciphertext>, Error> {
        let (engine, parts) = (&self.shared.engine, self.exchanges.layout.context_parts(decisions));
        if parts == 1 {
            return Ok(vec![engine.read_contexts(body)?]);
        }
        let length = body.len() / parts;
        if length == 0 || length * parts != body.len() {
            return Err(wire::Error::Malformed("contexts of several ciphertexts have one length each").into());
        }
        Ok(body.chunks(length).map(|frame| engine.read_contexts(frame)).collect::<Result<_, _>>()?)
    }

    /// What contexts bring to an evaluation with this model.
    pub(super) fn bring(&self, contexts: &[Ciphertext], model: &ScoresModel) -> Result<Brought, Error> {
        match (self.exchanges.layout.alone(), contexts) {
            (Some(staged), contexts) => {
                let of_decision = contexts.chunks(staged.context_parts()).map(<[Ciphertext]>::to_vec);
                Ok(Brought::Contexts(of_decision.collect()))
            }
            (None, [contexts]) => Ok(Brought::Scores(self.shared.engine.score(contexts, model.only()?)?)),
            (None, _) => Err(Error::Broken("scores of several ciphertexts")),
        }
    }

    /// The reply to a request that is answered without others, for `count` decisions from the round `first`.
    pub(super) fn answered_alone(
        &self,
        (first, count): (u64, u64),
        (model_feedbacks, raises): (u64, bool),
        answer: Vec<u8>,
    ) -> DecideReply {
        let (id, others) = {
            let live = lock(&self.live);
            let id = |round| live.bandit.decision_id(round);
            (id(first), (first + 1..first + count).map(id).collect())
        };
        let (round, user, users) = (first, 0, count as u32);
        let (nonce, question) = (None, None);
        let decision = Decision { id, others, round, model_feedbacks, user, users, answer, nonce, question };
        let tasks = self.task_for(raises).into_iter().collect();
        DecideReply { decision: Some(decision), ticket: None, tasks }
    }

    /// The first of the next `count` rounds, which are reserved on disk when this returns.
    pub(super) fn take_rounds(&self, count: u64) -> Result<u64, Error> {
        let rounds = {
            let mut live = lock(&self.live);
            if live.deleted {
                return Err(self.deleted());
            }
            live.take_rounds(&self.shared.engine, count)?
        };
        rounds.wait()
    }
}

/// What became of contexts.
pub(super) enum Scored {
    Answered(Box<DecideReply>),
    /// Where the outcome of each request comes.
    Waits(Vec<Receiver<Outcome>>),
}
