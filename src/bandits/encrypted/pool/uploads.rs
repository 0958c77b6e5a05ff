//! Uploads of users with keys of their own. They are numbers under one-time pads; a holder of the key
//! encrypts minus the pads, and the sum of both is an encryption of the numbers.
//!
//! Uploads that come while a holder works on others wait for each other, so that a task is about many.

use super::staged::Owners;
use super::{Awaited, EncryptedServed, Pads, RAISER_RETURNS};
use crate::access::{Forbidden, Needs, Scope};
use crate::error::Error;
use ckks::PaddedUpload;
use host::{lock, os_rng};
use protocol::{LOG_CONTEXT, LOG_STATISTICS, TaskKind};
use rand::Rng;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::oneshot;
use wire::{Enrolment, MOST_UPLOADS, PadsOf, RaiseTask, UserPads};

/// The most tasks for pads that a bandit waits for at a time.
const MOST_ASKED: usize = 2;

/// Uploads that wait to be asked for.
#[derive(Default)]
pub(in crate::bandits::encrypted) struct Uploads(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// How many tasks are asked for.
    asked: usize,
}

/// An upload that waits for the encryption of its pads.
struct Waiting {
    pads: UserPads,
    /// The bytes of each frame that it waits for.
    frames: Vec<usize>,
    sender: oneshot::Sender<Result<Vec<Vec<u8>>, Error>>,
}

impl Uploads {
    /// Adds an upload, and returns whether its task must be asked for.
    fn push(&self, waiting: Waiting) -> bool {
        let mut queue = lock(&self.0);
        queue.waiting.push_back(waiting);
        let asks = queue.asked < MOST_ASKED;
        queue.asked += usize::from(asks);
        asks
    }

    /// The uploads of the next task. Without any the one who asks has ended.
    fn next(&self) -> Option<Vec<Waiting>> {
        let mut queue = lock(&self.0);
        queue.waiting.retain(|waiting| !waiting.sender.is_closed());
        let (mut next, mut frames) = (Vec::new(), 0);
        while let Some(first) = queue.waiting.front()
            && (next.is_empty() || frames + first.frames.len() <= MOST_UPLOADS)
            && let Some(first) = queue.waiting.pop_front()
        {
            frames += first.frames.len();
            next.push(first);
        }
        if next.is_empty() {
            queue.asked -= 1;
            return None;
        }
        Some(next)
    }
}

impl EncryptedServed {
    /// The body of a decision request with contexts under the pads of `user`: the frames that a holder of the
    /// key made of these pads, and behind them the upload ([`Self::read_contexts`]).
    pub(in crate::bandits::encrypted) async fn contexts_of_user(
        self: &Arc<Self>,
        user: &Enrolment,
        decisions: usize,
        body: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let uploads = self.read_uploads(decisions, body)?;
        let (nonce, others) =
            uploads.split_first().map(|(first, others)| (*first.nonce(), others)).unwrap_or_default();
        if others.iter().any(|upload| *upload.nonce() != nonce) {
            return Err(wire::Error::Malformed("contexts whose ciphertexts have several nonces").into());
        }
        let small = self.shared.engine.params();
        let bytes = ckks::ciphertext_bytes(small, small.max_level(), true);
        let of = PadsOf::Contexts { decisions: decisions as u32, nonce };
        let frames = self.minus_pads(user, of, vec![bytes; uploads.len()]).await?;
        Ok(frames.iter().map(Vec::as_slice).chain([body]).collect::<Vec<_>>().concat())
    }

    /// The uploads of a request for so many decisions.
    pub(in crate::bandits::encrypted) fn read_uploads(
        &self,
        decisions: usize,
        mut body: &[u8],
    ) -> Result<Vec<PaddedUpload>, Error> {
        let (engine, layout) = (&self.shared.engine, &self.exchanges.layout);
        let (small, key, level) = (engine.params(), engine.key_id(), engine.params().max_level());
        let mut read = |places: &Vec<usize>| {
            let length = ckks::partial_ciphertext_bytes(small, level, places.len());
            let frame = body.split_off(..length.min(body.len())).unwrap_or_default();
            PaddedUpload::read(small, key, (level, f64::from(LOG_CONTEXT).exp2()), places, frame)
        };
        let places = layout.context_places(decisions).map_err(helba::Error::from)?;
        let uploads: Vec<PaddedUpload> = places.iter().map(&mut read).collect::<Result<_, _>>()?;
        if !body.is_empty() {
            return Err(wire::Error::Malformed("contexts that are longer than those of its decisions").into());
        }
        Ok(uploads)
    }

    /// The body of a feedback whose statistics are under the pads of `user`: the frame of their encryption.
    pub(in crate::bandits::encrypted) async fn feedback_of_user(
        self: &Arc<Self>,
        user: &Enrolment,
        body: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let (engine, count) = (&self.shared.engine, self.exchanges.layout.feedback_numbers());
        let (small, key, level) = (engine.params(), engine.key_id(), engine.params().max_level());
        let (places, scale) = ((0..count).collect::<Vec<_>>(), f64::from(LOG_STATISTICS).exp2());
        let upload = PaddedUpload::read(small, key, (level, scale), &places, body)?;
        let of = PadsOf::Feedback { nonce: *upload.nonce() };
        let bytes = vec![ckks::partial_ciphertext_bytes(small, level, count)];
        let frames = self.minus_pads(user, of, bytes).await?;
        let frame = frames.first().ok_or(Error::Broken("pads without a frame"))?;
        Ok(upload.added_to_first(small, key, 0..count, frame)?)
    }

    /// Frames of so many bytes that a holder of the key makes of minus the pads of a message of `user`.
    async fn minus_pads(
        self: &Arc<Self>,
        user: &Enrolment,
        of: PadsOf,
        frames: Vec<usize>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let (sender, receiver) = oneshot::channel();
        let pads = UserPads { enrolment: user.to_bytes(), of };
        if self.uploads.push(Waiting { pads, frames, sender }) {
            let served = self.clone();
            tokio::spawn(async move { served.ask_for_pads().await });
        }
        receiver.await.map_err(|_| Error::NotRaised)?
    }

    /// Asks for the pads of all uploads that wait.
    async fn ask_for_pads(self: Arc<Self>) {
        while let Some(waiting) = self.uploads.next() {
            let pads = waiting.iter().map(|of| of.pads.clone()).collect();
            let lengths: Vec<usize> = waiting.iter().flat_map(|of| of.frames.iter().copied()).collect();
            let answered = self.pads(pads, lengths).await;
            let deleted = lock(&self.live).deleted;
            let mut frames = answered.into_iter().flatten();
            for Waiting { frames: lengths, sender, .. } in waiting {
                let of_user: Vec<Vec<u8>> = frames.by_ref().take(lengths.len()).collect();
                // A user who is gone asks again.
                let _ = sender.send(match () {
                    () if deleted => Err(self.deleted()),
                    () if of_user.len() < lengths.len() => Err(Error::NotRaised),
                    () if of_user.iter().any(Vec::is_empty) => Err(Error::ForbiddenScope {
                        needs: Needs::Scope(Scope::Decide),
                        why: Forbidden::Removed,
                    }),
                    () => Ok(of_user),
                });
            }
        }
    }

    async fn pads(self: &Arc<Self>, pads: Vec<UserPads>, lengths: Vec<usize>) -> Result<Vec<Vec<u8>>, Error> {
        // A raiser may be about to come, as one does that is started together with its users.
        let until = Instant::now() + RAISER_RETURNS;
        while !lock(&self.pool).has_raiser() && Instant::now() < until {
            tokio::time::sleep(RAISER_RETURNS / 100).await;
        }
        let id = os_rng()?.next_u64() | 1 << 63;
        let task = RaiseTask { id, kind: TaskKind::Pads, masked: Vec::new(), pads };
        let mut owners = Owners::new(self.shared.stages.stage_patience, Default::default());
        let bytes = lengths.iter().sum();
        let (sender, reply) = oneshot::channel();
        let Pads(frames) =
            self.ask_an_owner(task, (Awaited::Pads(sender, lengths), reply), bytes, &mut owners).await?;
        Ok(frames)
    }
}
