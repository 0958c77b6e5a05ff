//! A decision request: contexts times the model, and the answer, alone or from the evaluation of a pack.

use super::again::Sent;
use super::pace::OnTheWay;
use super::pool::{Brought, Joining, Outcome};
use super::{EncryptedServed, Sender};
use crate::access::Caller;
use crate::bandits::{BodyLimit, Reply};
use crate::error::Error;
use crate::metrics::Step;
use ckks::{Ciphertext, PaddedUpload};
use helba::ScoresModel;
use host::{lock, os_rng};
use protocol::{Answers, UserKeys};
use service::{Body, Content};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::OwnedSemaphorePermit;
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
        let body = match &asker.enrolment {
            Some(user) => self.contexts_of_user(user, decisions, &body).await?.into(),
            None => body,
        };
        let on_the_way = OnTheWay::new(self.arrivals.clone());
        let upload = stages.uploads.clone().acquire_owned().await;
        let served = self.clone();
        let joined = stages.workers.run(move || {
            let _until_placed = (upload, on_the_way);
            served.score(body, decisions, (sender, asker), place)
        });
        let outcome = match joined.await? {
            Scored::Answered(reply) => return Ok(Reply::Binary(reply.to_bytes())),
            Scored::Waits(outcome) => outcome,
        };
        let reply: Outcome = outcome.await.map_err(|_| Error::Broken("an evaluation that was dropped"))?;
        Ok(Reply::Binary(reply?.to_bytes()))
    }

    /// Multiplies contexts by the model, and answers with the scores or adds them to the open pack.
    fn score(
        self: &Arc<Self>,
        body: Body,
        decisions: usize,
        (sender, Asker { raises, enrolment }): (Sender, Asker),
        place: OwnedSemaphorePermit,
    ) -> Result<Scored, Error> {
        let mut place = Some(place);
        let mut began = Instant::now();
        let engine = &self.shared.engine;
        let stages = &self.shared.stages;
        let contexts = stages.beside(|| self.read_contexts(&body, decisions))?;
        let alone = lock(&self.senders).places(&sender, Instant::now());
        let repeatable = !self.created.config.decides_alone() && alone.is_none();
        let sent: Option<Sent> = match repeatable {
            true => stages.keep(sender, enrolment.clone(), decisions, &body),
            false => None,
        };
        drop(body);
        loop {
            let (model, model_feedbacks) = {
                let live = lock(&self.live);
                if live.deleted {
                    return Err(self.deleted());
                }
                (live.bandit.scores_model().clone(), live.bandit.model_feedbacks())
            };
            let brought = stages.beside(|| self.bring(&contexts, &model))?;
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
            let joining = Joining { decisions, enrolment: enrolment.clone(), sent: sent.clone() };
            let outcome = match &alone {
                Some(own) => Some(self.join_alone(brought, joining, model, &mut place, own)?),
                None => self.join(brought, joining, model, &mut place)?,
            };
            if let Some(outcome) = outcome {
                return Ok(Scored::Waits(outcome));
            }
        }
    }

    /// Reads the contexts of a request for so many decisions: one frame, or for stages as many of one length
    /// as its decisions have. Those of a user with a key of its own are made of two parts
    /// ([`Self::contexts_of_user`]).
    pub(super) fn read_contexts(&self, body: &[u8], decisions: usize) -> Result<Vec<Ciphertext>, Error> {
        let (engine, parts) = (&self.shared.engine, self.exchanges.layout.context_parts(decisions));
        if self.created.plan.keys == UserKeys::Own {
            let (small, key) = (engine.params(), engine.key_id());
            let length = ckks::ciphertext_bytes(small, small.max_level(), true);
            let (frames, uploads) = body.split_at_checked(parts * length).unwrap_or_default();
            let of_pads = |(upload, frame): (PaddedUpload, &[u8])| upload.added_to(small, key, frame);
            let uploads = self.read_uploads(decisions, uploads)?;
            return Ok(uploads
                .into_iter()
                .zip(frames.chunks(length))
                .map(of_pads)
                .collect::<Result<_, _>>()?);
        }
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
enum Scored {
    Answered(Box<DecideReply>),
    Waits(Receiver<Outcome>),
}
