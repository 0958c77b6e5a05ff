//! Uploads of users with keys of their own. They are numbers under one-time pads; a holder of the key
//! encrypts minus the pads, and the sum of both is an encryption of the numbers.
//!
//! Uploads that come while a holder works on others wait for each other. The contexts of those who ask for
//! one decision each then share ciphertexts, as the decisions of one request do, so that many are read,
//! multiplied and packed for the price of one.

use super::staged::Owners;
use super::{Awaited, EncryptedServed, Joining, Outcome, Pads, RAISER_RETURNS, Together};
use crate::access::{Forbidden, Needs, Scope};
use crate::bandits::encrypted::Sender;
use crate::bandits::encrypted::decisions::Scored;
use crate::bandits::encrypted::pace::OnTheWay;
use crate::error::Error;
use ckks::{Ciphertext, PaddedUpload};
use host::{lock, os_rng};
use protocol::{LOG_CONTEXT, LOG_STATISTICS, TaskKind};
use rand::Rng;
use service::Body;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::oneshot::{self, Receiver};
use wire::{Enrolment, MOST_UPLOADS, Nonce, PadsOf, RaiseTask, UserPads};

/// Uploads that wait to be asked for.
#[derive(Default)]
pub(in crate::bandits::encrypted) struct Uploads(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    contexts: VecDeque<WaitingContexts>,
    feedback: VecDeque<WaitingFeedback>,
    /// Whether a task is asked for.
    asked: bool,
}

/// The contexts of a request, under the pads of its user.
pub(in crate::bandits::encrypted) struct PaddedContexts {
    user: Arc<Enrolment>,
    body: Body,
    decisions: usize,
    nonce: Nonce,
}

/// Contexts that wait for their pads, and then for an evaluation.
struct WaitingContexts {
    contexts: PaddedContexts,
    sender: Sender,
    /// Whether they share ciphertexts with nobody.
    alone: bool,
    joining: Joining,
    _on_the_way: OnTheWay,
    outcome: oneshot::Sender<Result<Receiver<Outcome>, Error>>,
}

/// A feedback that waits for its pads.
struct WaitingFeedback {
    user: Arc<Enrolment>,
    upload: PaddedUpload,
    frame: oneshot::Sender<Result<Vec<u8>, Error>>,
}

/// What the next task is about.
struct Next {
    contexts: Vec<WaitingContexts>,
    feedback: Vec<WaitingFeedback>,
}

impl Uploads {
    /// Adds what waits, and returns whether a task must be asked for.
    fn push(&self, add: impl FnOnce(&mut Queue)) -> bool {
        let mut queue = lock(&self.0);
        add(&mut queue);
        !std::mem::replace(&mut queue.asked, true)
    }

    /// What the next task is about: contexts of one user, or of as many as fill the places of `most`
    /// decisions or of half of that, and so on, and feedback. `None` if nothing waits: whoever asks has
    /// ended.
    fn next(&self, most: usize) -> Option<Next> {
        let mut queue = lock(&self.0);
        queue.contexts.retain(|waiting| !waiting.outcome.is_closed());
        queue.feedback.retain(|waiting| !waiting.frame.is_closed());
        let shares = |waiting: &&WaitingContexts| !waiting.alone;
        let together = queue.contexts.iter().take_while(shares).take(most).count();
        let count = if together > 0 { 1 << together.ilog2() } else { queue.contexts.len().min(1) };
        let contexts: Vec<_> = queue.contexts.drain(..count).collect();
        let count = queue.feedback.len().min(MOST_UPLOADS);
        let feedback: Vec<_> = queue.feedback.drain(..count).collect();
        queue.asked = !(contexts.is_empty() && feedback.is_empty());
        queue.asked.then_some(Next { contexts, feedback })
    }
}

fn removed() -> Error {
    Error::ForbiddenScope { needs: Needs::Scope(Scope::Decide), why: Forbidden::Removed }
}

impl EncryptedServed {
    /// Reads a decision request with contexts under the pads of `user`.
    pub(in crate::bandits::encrypted) fn read_padded(
        &self,
        user: Arc<Enrolment>,
        body: Body,
        decisions: usize,
    ) -> Result<PaddedContexts, Error> {
        let uploads = self.read_uploads(&body, decisions, 0..decisions)?;
        let nonces: Vec<&Nonce> = uploads.iter().map(|(_, upload)| upload.nonce()).collect();
        match nonces[..] {
            [nonce, ref others @ ..] if others.iter().all(|other| *other == nonce) => {
                let nonce = *nonce;
                Ok(PaddedContexts { user, body, decisions, nonce })
            }
            _ => Err(wire::Error::Malformed("contexts whose ciphertexts have several nonces").into()),
        }
    }

    /// The uploads in a request, whose decisions have the places `of` among so many that share ciphertexts:
    /// each with the number of its ciphertext.
    fn read_uploads(
        &self,
        mut body: &[u8],
        decisions: usize,
        of: Range<usize>,
    ) -> Result<Vec<(usize, PaddedUpload)>, Error> {
        let (engine, layout) = (&self.shared.engine, &self.exchanges.layout);
        let (small, key, level) = (engine.params(), engine.key_id(), engine.params().max_level());
        let mut uploads = Vec::new();
        for (part, places) in layout.context_places(decisions, of).map_err(helba::Error::from)? {
            let length = ckks::partial_ciphertext_bytes(small, level, places.len());
            let frame = body.split_off(..length.min(body.len())).unwrap_or_default();
            let scale = f64::from(LOG_CONTEXT).exp2();
            uploads.push((part, PaddedUpload::read(small, key, (level, scale), &places, frame)?));
        }
        if !body.is_empty() {
            return Err(wire::Error::Malformed("contexts that are longer than those of its decisions").into());
        }
        Ok(uploads)
    }

    /// Waits for the pads of contexts, and returns where the outcome of their evaluation comes.
    pub(in crate::bandits::encrypted) async fn join_under_pads(
        self: &Arc<Self>,
        contexts: PaddedContexts,
        (sender, place): (Sender, tokio::sync::OwnedSemaphorePermit),
        on_the_way: OnTheWay,
    ) -> Result<Receiver<Outcome>, Error> {
        let decisions = contexts.decisions;
        let sent = self.kept(sender, Some(contexts.user.clone()), decisions, &contexts.body);
        // The device of several decisions expects them at the places of a request of its own.
        let alone = decisions > 1 || lock(&self.senders).is_alone(&sender, Instant::now());
        let enrolment = Some(contexts.user.clone());
        let joining = Joining { first: 0, decisions, place, enrolment, sent };
        let (outcome, receiver) = oneshot::channel();
        let waiting = WaitingContexts { contexts, sender, alone, joining, _on_the_way: on_the_way, outcome };
        self.ask_if(self.uploads.push(|queue| queue.contexts.push_back(waiting)));
        receiver.await.map_err(|_| Error::NotRaised)?
    }

    /// The body of a feedback whose statistics are under the pads of `user`: the frame of their encryption.
    pub(in crate::bandits::encrypted) async fn feedback_of_user(
        self: &Arc<Self>,
        user: Arc<Enrolment>,
        body: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let (engine, count) = (&self.shared.engine, self.exchanges.layout.feedback_numbers());
        let (small, key, level) = (engine.params(), engine.key_id(), engine.params().max_level());
        let (places, scale) = ((0..count).collect::<Vec<_>>(), f64::from(LOG_STATISTICS).exp2());
        let upload = PaddedUpload::read(small, key, (level, scale), &places, body)?;
        let (frame, receiver) = oneshot::channel();
        let waiting = WaitingFeedback { user, upload, frame };
        self.ask_if(self.uploads.push(|queue| queue.feedback.push_back(waiting)));
        receiver.await.map_err(|_| Error::NotRaised)?
    }

    fn ask_if(self: &Arc<Self>, asks: bool) {
        if asks {
            let served = self.clone();
            tokio::spawn(async move { served.ask_for_pads().await });
        }
    }

    /// The uploads of the next task, after the time for which a user who is not alone waits for company.
    async fn next_uploads(&self) -> Option<Next> {
        let window = lock(&self.pool).window();
        tokio::time::sleep(window).await;
        self.uploads.next(self.exchanges.layout.most_decisions())
    }

    /// Asks for the pads of all that waits.
    async fn ask_for_pads(self: Arc<Self>) {
        while let Some(Next { contexts, feedback }) = self.next_uploads().await {
            let of_contexts: Vec<&PaddedContexts> =
                contexts.iter().map(|waiting| &waiting.contexts).collect();
            let pads = match self.pads(&of_contexts, &feedback).await {
                Ok(pads) => pads,
                Err(error) => {
                    tracing::warn!(bandit = self.created.id, %error, "no holder of the key encrypts pads");
                    let deleted = lock(&self.live).deleted;
                    let error = || if deleted { self.deleted() } else { Error::NotRaised };
                    contexts.into_iter().for_each(|waiting| drop(waiting.outcome.send(Err(error()))));
                    feedback.into_iter().for_each(|waiting| drop(waiting.frame.send(Err(error()))));
                    continue;
                }
            };
            let Pads { mut frames, refused } = pads;
            let of_feedback = frames.split_off(frames.len() - feedback.len());
            let is_refused = |at: usize| refused.contains(&(at as u32));
            for (at, (waiting, frame)) in (contexts.len()..).zip(feedback.into_iter().zip(of_feedback)) {
                let (engine, count) = (&self.shared.engine, self.exchanges.layout.feedback_numbers());
                let sum = match is_refused(at) {
                    true => Err(removed()),
                    false => {
                        let (small, key) = (engine.params(), engine.key_id());
                        let sum = waiting.upload.added_to_first(small, key, 0..count, &frame);
                        sum.map_err(|error| Error::NotEvaluated { why: error.to_string() })
                    }
                };
                // Who is gone asks again.
                let _ = waiting.frame.send(sum);
            }
            if !contexts.is_empty() {
                let refused = (0..contexts.len()).map(is_refused).collect();
                let served = self.clone();
                tokio::spawn(async move { served.score_under_pads(contexts, frames, refused).await });
            }
        }
    }

    /// Scores contexts whose pads are there, and has them evaluated.
    async fn score_under_pads(
        self: Arc<Self>,
        contexts: Vec<WaitingContexts>,
        frames: Vec<Vec<u8>>,
        refused: Vec<bool>,
    ) {
        let turn = self.shared.stages.uploads.clone().acquire_owned().await;
        let (served, workers) = (self.clone(), &self.shared.stages.workers);
        let (mut outcomes, mut joining, mut requests, mut on_the_way) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut decisions, mut of_sender) = (0, None);
        for (waiting, refused) in contexts.into_iter().zip(&refused) {
            let WaitingContexts { contexts, sender, joining: one, outcome, _on_the_way, .. } = waiting;
            let first = decisions;
            decisions += contexts.decisions;
            requests.push(contexts);
            if *refused {
                let _ = outcome.send(Err(removed()));
                continue;
            }
            of_sender = Some(sender);
            joining.push(Joining { first, ..one });
            outcomes.push(outcome);
            on_the_way.push(_on_the_way);
        }
        let Some(sender) = of_sender else { return };
        let scored = workers.run(move || {
            let _until_placed = (turn, on_the_way);
            let users: Vec<&PaddedContexts> = requests.iter().collect();
            let contexts = served.shared.stages.beside(|| served.sum_of(&users, &frames, &refused))?;
            served.score(&contexts, Together { decisions, joining }, sender, false)
        });
        match scored.await {
            Ok(Scored::Waits(receivers)) => {
                let pairs = outcomes.into_iter().zip(receivers);
                pairs.for_each(|(outcome, receiver)| drop(outcome.send(Ok(receiver))));
            }
            Ok(Scored::Answered(_)) => {}
            Err(error) => {
                tracing::warn!(bandit = self.created.id, %error, "contexts under pads were not scored");
                let why = error.to_string();
                for outcome in outcomes {
                    let _ = outcome.send(Err(Error::NotEvaluated { why: why.clone() }));
                }
            }
        }
    }

    /// The contexts of users who share ciphertexts. Those of users whom the holder of the key refuses are
    /// nought.
    pub(in crate::bandits::encrypted) async fn contexts_of_users(
        self: &Arc<Self>,
        users: &[PaddedContexts],
    ) -> Result<Vec<Ciphertext>, Error> {
        let users: Vec<&PaddedContexts> = users.iter().collect();
        let Pads { frames, refused } = self.pads(&users, &[]).await?;
        let refused: Vec<bool> = (0..users.len()).map(|at| refused.contains(&(at as u32))).collect();
        self.shared.stages.beside(|| self.sum_of(&users, &frames, &refused))
    }

    /// The sums of the contexts of users and the encryptions of minus their pads, without the users who are
    /// refused.
    fn sum_of(
        &self,
        users: &[&PaddedContexts],
        frames: &[Vec<u8>],
        refused: &[bool],
    ) -> Result<Vec<Ciphertext>, Error> {
        let engine = &self.shared.engine;
        let all = users.iter().map(|user| user.decisions).sum();
        let mut parts: Vec<Vec<PaddedUpload>> = frames.iter().map(|_| Vec::new()).collect();
        let mut before = 0;
        for (user, refused) in users.iter().zip(refused) {
            let of = before..before + user.decisions;
            before = of.end;
            if *refused {
                continue;
            }
            for (part, upload) in self.read_uploads(&user.body, all, of)? {
                parts.get_mut(part).ok_or(Error::Broken("contexts without pads"))?.push(upload);
            }
        }
        let sum = |(uploads, frame): (&Vec<PaddedUpload>, &Vec<u8>)| match uploads.is_empty() {
            true => engine.read_contexts(frame),
            false => PaddedUpload::sum(engine.params(), engine.key_id(), uploads, frame),
        };
        Ok(parts.iter().zip(frames).map(sum).collect::<Result<_, _>>()?)
    }

    /// What a holder of the key makes of the pads of contexts that share ciphertexts, and of feedback.
    async fn pads(
        self: &Arc<Self>,
        contexts: &[&PaddedContexts],
        feedback: &[WaitingFeedback],
    ) -> Result<Pads, Error> {
        // A raiser may be about to come, as one does that is started together with its users.
        let until = Instant::now() + RAISER_RETURNS;
        while !lock(&self.pool).has_raiser() && Instant::now() < until {
            tokio::time::sleep(RAISER_RETURNS / 100).await;
        }
        let of_contexts = contexts.iter().map(|PaddedContexts { user, decisions, nonce, .. }| UserPads {
            enrolment: user.to_bytes(),
            of: PadsOf::Contexts { decisions: *decisions as u32, nonce: *nonce },
        });
        let of_feedback = feedback.iter().map(|waiting| UserPads {
            enrolment: waiting.user.to_bytes(),
            of: PadsOf::Feedback { nonce: *waiting.upload.nonce() },
        });
        let pads: Vec<UserPads> = of_contexts.chain(of_feedback).collect();
        let (small, layout) = (self.shared.engine.params(), &self.exchanges.layout);
        let [whole, first] = [
            ckks::ciphertext_bytes(small, small.max_level(), true),
            ckks::partial_ciphertext_bytes(small, small.max_level(), layout.feedback_numbers()),
        ];
        let decisions: usize = contexts.iter().map(|contexts| contexts.decisions).sum();
        let parts = if decisions > 0 { layout.context_parts(decisions) } else { 0 };
        let lengths = [vec![whole; parts], vec![first; feedback.len()]].concat();
        let (bytes, users) = (lengths.iter().sum(), pads.len());
        let id = os_rng()?.next_u64() | 1 << 63;
        let task = RaiseTask { id, kind: TaskKind::Pads, masked: Vec::new(), pads };
        let mut owners = Owners::new(self.shared.stages.stage_patience, Default::default());
        let (sender, reply) = oneshot::channel();
        let awaited = (Awaited::Pads(sender, lengths, users), reply);
        self.ask_an_owner(task, awaited, bytes, &mut owners).await
    }
}
