//! A device's side of an encrypted bandit: contexts and feedback in the ring of scores, the answer, and the
//! tasks of a holder of the key.
//!
//! | step | here | who learns what |
//! |---|---|---|
//! | contexts | [`BanditDevice::contexts`] | the server nothing: they are encrypted in the ring of scores |
//! | answer | `reply` | this device its arm; with `answers: scores` z and u of its own arms; with users' own keys nobody else, whatever it sees |
//! | trace question | `question` | this device about whether the trace has reached C; the server one bit of a decryption, counted |
//! | tasks | `raise` | this device nothing: values of others are under a mask that is uniform modulo q, and the model under one that leaves a statistical distance of at most 2⁻⁴⁷ at λ = 1 (docs/threat-model.md); the server nothing: it gets fresh encryptions |
//! | feedback | [`BanditDevice::feedback`] | the server nothing: it gets the first coefficients of a fresh encryption, and under the trace condition also a whole one |
//! | logged rounds | `learning` | the server nothing but their number: it gets the first coefficients of a fresh encryption of their sum |
//! | counters | [`BanditDevice::open_counters`] | this device how often all devices played each arm and with which rewards, for whole groups of feedbacks; the server nothing |
//! | export | [`BanditDevice::export`] | this device the model, and whoever it gives the file to; the server must not get it |
//! | request for another answer | `asking` | the server one bit of a decryption, counted: that an entry was outside its range |
//!
//! Whether an answer to a task or a question is sent, and its length, depends on public numbers alone: never
//! on a decrypted value.

mod asking;
mod export;
#[cfg(feature = "http")]
mod learning;
mod question;
mod raise;
mod reply;
#[cfg(feature = "http")]
mod round;
mod secret;

#[cfg(test)]
pub(crate) use asking::MOST_ANSWERS_OF_A_DECISION;
#[cfg(feature = "http")]
pub(crate) use asking::has_ended;
pub use asking::{Asking, PlayedRound, Request, Target};
pub use export::{ExportedBonus, ExportedModel};
#[cfg(feature = "http")]
pub use learning::{Learning, LoggedRound};
pub use raise::MaskedTask;
pub use reply::{Choice, ReadReply};

use crate::device::same;
use crate::{Device, Error};
use ckks::{KeyId, Params, Plaintext};
use protocol::{ArmCounter, Exchanges, LOG_CONTEXT, ScoreRing};
use rand::CryptoRng;
use serde::Serialize;
use std::sync::Arc;
use wire::{Created, Enrolment, Limits, Padded, ShownCounters, TraceQuestion, UserSecret};
use zeroize::Zeroizing;

/// A device of one encrypted bandit, whose keys and plan it has checked. Build it once for each bandit: the
/// tables of the exchanges take tens of milliseconds.
pub struct BanditDevice<'a> {
    device: Held<'a>,
    small_id: KeyId,
    /// The parameters of answers.
    answers: Params,
    /// The secret of the ring of scores under the primes of answers. `None` on the device of a user with a
    /// key of its own.
    answers_secret: Option<ckks_secret::SecretKey>,
    created: Created,
    exchanges: Exchanges,
    limits: Limits,
}

/// The device of a bandit.
enum Held<'a> {
    Borrowed(&'a Device),
    Shared(Arc<Device>),
}

impl std::ops::Deref for Held<'_> {
    type Target = Device;

    fn deref(&self) -> &Device {
        match self {
            Held::Borrowed(device) => device,
            Held::Shared(device) => device,
        }
    }
}

impl Device {
    /// The device as one of the bandit `created`, after a check that the bandit has the keys of this device
    /// in both rings, and that its plan follows from its configuration, so that the server cannot choose
    /// levels.
    ///
    /// # Errors
    /// [`Error::WrongKeys`], [`Error::PlanMismatch`], [`Error::Protocol`], [`Error::Ckks`] for a bandit that
    /// does not fit this device.
    pub fn join(&self, created: &Created) -> Result<BanditDevice<'_>, Error> {
        Held::Borrowed(self).join(created)
    }

    /// As [`Self::join`], for a device that is shared by all who use the result.
    ///
    /// # Errors
    /// As [`Self::join`].
    pub fn join_shared(self: Arc<Self>, created: &Created) -> Result<BanditDevice<'static>, Error> {
        Held::Shared(self).join(created)
    }
}

impl<'a> Held<'a> {
    fn join(self, created: &Created) -> Result<BanditDevice<'a>, Error> {
        let (small, small_id) = (self.small(), self.scores_key_id());
        let rings = self.rings().clone();
        let ring = ScoreRing::of_keys(self.params().spec(), self.shape(), rings.exchanges)?;
        same("parameters of scores", small.spec().name, ring.params.name.into())?;
        let params = self.params();
        same("fingerprint", &created.fingerprint, params.fingerprint().to_string())?;
        same("key id", &created.key_id, self.key_id().to_string())?;
        same("fingerprint of scores", &created.scores_fingerprint, small.fingerprint().to_string())?;
        same("key id of scores", &created.scores_key_id, small_id.to_string())?;
        let (config, plan) = (&created.config, &created.plan);
        if config.plan(&rings, self.shape(), ring)? != *plan {
            return Err(Error::PlanMismatch);
        }
        let answers = ring.answers(rings.decisions.spec()).validate()?;
        let exchanges = Exchanges::new(config, plan, ring, small, &rings, &answers)?;
        let limits = Limits::new(&rings, small, &answers, config, plan, &exchanges.layout)?;
        let created = created.clone();
        Ok(BanditDevice {
            answers_secret: self.secret_keys().ok().map(|keys| keys.small.under(&answers)),
            device: self,
            small_id,
            answers,
            created,
            exchanges,
            limits,
        })
    }
}

/// The counters of all devices of a bandit, decrypted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenedCounters {
    /// The feedbacks in them: the first ones of the bandit, in whole groups.
    pub feedbacks: u64,
    /// Standard deviation of the noise in each count and each sum.
    pub deviation: f64,
    /// The counter of each arm. Counts are what devices say: nobody can check them.
    pub arms: Vec<ArmCounter>,
}

impl OpenedCounters {
    /// All arms together.
    pub fn total(&self) -> ArmCounter {
        let sum = |of: fn(&ArmCounter) -> f64| self.arms.iter().map(of).sum();
        ArmCounter { pulls: sum(|arm| arm.pulls), reward: sum(|arm| arm.reward) }
    }
}

impl BanditDevice<'_> {
    /// The bandit.
    pub fn created(&self) -> &Created {
        &self.created
    }

    /// The limits of its messages.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The body of a decision request: the frame of the contexts at the top level of the ring of scores, or
    /// of a user with a key of its own their numbers under pads. `rows` has the features of each arm: K
    /// rows of d features with norms of at most L. The row of an arm that is closed in this decision is
    /// empty: it is not played, and nobody else learns that it is closed.
    ///
    /// # Errors
    /// [`Error::Protocol`] for the rows.
    pub fn contexts<R: CryptoRng>(&self, rows: &[Vec<f64>], rng: &mut R) -> Result<Vec<u8>, Error> {
        self.contexts_of_several(&[rows], rng)
    }

    /// Checks the rows of a decision as [`Self::contexts`] does, for programs that gather the decisions of
    /// others into one request.
    ///
    /// # Errors
    /// As [`Self::contexts`].
    pub fn check_contexts(&self, rows: &[Vec<f64>]) -> Result<(), Error> {
        Ok(self.exchanges.layout.check_contexts(&[rows])?)
    }

    /// The device of another user of the same keys in the same bandit, from what the owner made of its
    /// request, for programs with many users. It costs no tables.
    ///
    /// # Errors
    /// As [`Device::of_user`].
    pub fn of_another_user(
        &self,
        secret: UserSecret,
        enrolment: Enrolment,
        sealed: &[u8],
    ) -> Result<BanditDevice<'static>, Error> {
        Ok(BanditDevice {
            device: Held::Shared(Arc::new(self.device.of_another_user(secret, enrolment, sealed)?)),
            small_id: self.small_id,
            answers: self.answers.clone(),
            answers_secret: None,
            created: self.created.clone(),
            exchanges: self.exchanges.clone(),
            limits: self.limits,
        })
    }

    /// The most decisions of one request of a device that decides for several users.
    pub fn most_decisions(&self) -> usize {
        self.exchanges.layout.most_decisions()
    }

    /// The body of a request for several decisions, as long as that of one: as [`Self::contexts`], with the
    /// rows of each decision. For a staged bandit it is the frames of all decisions, one after the other.
    ///
    /// # Errors
    /// As [`Self::contexts`], also for more than [`Self::most_decisions`].
    pub fn contexts_of_several<R: CryptoRng>(
        &self,
        decisions: &[&[Vec<f64>]],
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        let layout = &self.exchanges.layout;
        let coefficients = Zeroizing::new(layout.all_contexts(decisions)?);
        let mut body = Vec::new();
        if let Some(own) = self.device.own_key() {
            let (nonce, count) = (secret::nonce(rng), decisions.len());
            for (part, places) in layout.context_places(count, 0..count)? {
                let numbers = places.iter().map(|place| coefficients[part][*place]);
                let (values, of) = (Zeroizing::new(numbers.collect::<Vec<i64>>()), part as u32);
                body.extend(self.under_pads(own, (Padded::Contexts(of), &nonce), &values, LOG_CONTEXT));
            }
            return Ok(body);
        }
        for coefficients in coefficients.iter() {
            let message = Zeroizing::new(self.message(coefficients, LOG_CONTEXT)?);
            body.extend(self.encrypted(&message, rng)?);
        }
        Ok(body)
    }

    /// The body of a feedback: the frame of the coefficients of the statistics, at the top level of the ring
    /// of scores. `features` are those of `arm`, which was played, and `reward` is in [−1, 1]. The arm enters
    /// the counters of the bandit, if it has any, and nothing else. Under the trace condition the trace
    /// statistics come with it, and the answer to `question` ([`Choice::question`]) if the key has answers
    /// left.
    ///
    /// # Errors
    /// [`Error::Protocol`] for arm, features (row 1) and reward; [`Error::Ckks`] for a question that is not
    /// one of this device; [`Error::AnswerCount`] if the answer cannot be counted.
    pub fn feedback<R: CryptoRng>(
        &self,
        arm: usize,
        features: &[f64],
        reward: f64,
        question: Option<&TraceQuestion>,
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        let coefficients = Zeroizing::new(self.exchanges.layout.feedback(arm, features, reward)?);
        self.encrypted_feedback(&coefficients, features, question, rng)
    }

    /// Checks features and reward as [`Self::feedback`] does, for programs that count rewards which they do
    /// not send.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub fn check_feedback(&self, features: &[f64], reward: f64) -> Result<(), Error> {
        drop(Zeroizing::new(self.exchanges.layout.feedback(0, features, reward)?));
        Ok(())
    }

    /// The counters of the bandit in a reply to `GET …/counters`, decrypted.
    ///
    /// # Errors
    /// [`Error::Wire`], [`Error::Ckks`] for a reply that is not one of this bandit; [`Error::BadAnswer`] for
    /// counters of a group that is not whole.
    pub fn open_counters(&self, reply: &[u8]) -> Result<OpenedCounters, Error> {
        let shown = ShownCounters::read(reply, &self.limits)?;
        let every = self.created.config.counters.map_or(0, |counters| counters.every);
        if every == 0 || !shown.feedbacks.is_multiple_of(every) {
            return Err(Error::BadAnswer("its counters are not those of whole groups of feedbacks".into()));
        }
        let deviation = self.created.config.counters.map_or(0.0, |c| c.deviation(shown.feedbacks));
        let arms = self.opened_counters(&shown)?;
        Ok(OpenedCounters { feedbacks: shown.feedbacks, deviation, arms })
    }

    /// The parameters of the ring of scores.
    fn small(&self) -> &Params {
        self.device.small()
    }

    /// Coefficients at the scale 2^`log_scale` and the top level of the ring of scores.
    fn message(&self, coefficients: &[i64], log_scale: u32) -> Result<Plaintext, Error> {
        let (params, scale) = (self.small(), f64::from(log_scale).exp2());
        Ok(Plaintext::from_integers(params, coefficients, params.max_level(), scale)?)
    }
}
