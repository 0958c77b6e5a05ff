//! The tasks of a holder of the key: it decrypts masked values and encrypts them again, in the ring and at
//! the level where the server continues with them.

use super::BanditDevice;
use crate::Error;
use ckks::{Ciphertext, KeyId, Params, Side};
use ckks_secret::{SecretKey, SeededCiphertext};
use protocol::{LOG_SCORE, LOG_STATISTICS, MOST_FACTOR, TaskKind};
use rand::{CryptoRng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use wire::{RaiseTask, Raised, Raises, Ticket};

/// A task whose frame and numbers were checked against the plan. Only the [`BanditDevice`] that read it can
/// answer it.
pub struct MaskedTask {
    id: u64,
    kind: TaskKind,
    masked: Vec<Ciphertext>,
}

impl MaskedTask {
    /// The kind.
    pub fn kind(&self) -> TaskKind {
        self.kind
    }
}

const NO_SLOTS: Error = Error::BadTask("it asks for an update in slots, which its bandit does not have");

impl BanditDevice<'_> {
    /// Reads a task.
    pub(super) fn task(&self, task: &RaiseTask) -> Result<MaskedTask, Error> {
        match task.kind {
            TaskKind::Scores { .. } | TaskKind::Answers if self.created.config.decides_alone() => {
                return Err(Error::BadTask(
                    "it asks to raise scores or answers, which a bandit with answers: scores never does",
                ));
            }
            TaskKind::Sum | TaskKind::Model if self.exchanges.slots.is_none() => return Err(NO_SLOTS),
            TaskKind::Scores { factors, .. }
                if !factors.iter().all(|factor| (0.0..=MOST_FACTOR).contains(factor))
                    || factors[0] + factors[1] == 0.0 =>
            {
                return Err(Error::BadTask(
                    "it raises scores by factors that are not from 0 to 16384, or are all 0",
                ));
            }
            _ => {}
        }
        let masked = match (task.kind, &task.masked[..]) {
            (TaskKind::Product { .. } | TaskKind::Stage { .. }, frames) => {
                self.read_exchanged(&task.kind, frames)?
            }
            (_, [frame]) => vec![self.read_masked(task.kind, frame)?],
            _ => return Err(Error::BadTask("it has several ciphertexts, and its kind takes one")),
        };
        Ok(MaskedTask { id: task.id, kind: task.kind, masked })
    }

    /// Reads the ciphertexts of an exchange, whose map and factors must be those that this device would use.
    fn read_exchanged(&self, kind: &TaskKind, frames: &[Vec<u8>]) -> Result<Vec<Ciphertext>, Error> {
        let other = Error::BadTask("it asks for an exchange that its bandit does not have");
        let asked = self.exchanges.of(kind)?.ok_or(other)?;
        if !asked.are_stated() {
            return Err(Error::BadTask("it asks for an exchange by another map than its bandit's"));
        }
        for exchange in asked.groups.iter().flatten() {
            exchange.check_factors(asked.factors)?;
        }
        let sides = || asked.groups.iter().filter_map(|group| Some(group.first()?.from()));
        let (got, want) = (frames.len(), sides().map(|side| side.ciphertexts).sum());
        if got != want {
            return Err(ckks::Error::CiphertextCount { got, want }.into());
        }
        let (mut rest, mut masked) = (frames.iter(), Vec::new());
        for Side { params, level, scale, ciphertexts, .. } in sides() {
            let (_, id) = self.holds(params)?;
            for frame in rest.by_ref().take(*ciphertexts) {
                // Frames hold the canonical scale.
                masked.push(ckks::read_ciphertext(params, id, *level, frame)?.with_scale(*scale));
            }
        }
        Ok(masked)
    }

    /// The key of a ring on one side of an exchange.
    fn holds(&self, params: &Params) -> Result<(&SecretKey, KeyId), Error> {
        let (small, (decisions, id)) = (&self.device.keys().small, self.device.decisions());
        match params {
            params if params == small.params() => Ok((small, self.small_id)),
            params if params == decisions.params() => Ok((decisions, id)),
            params if params == self.answers_secret.params() => Ok((&self.answers_secret, self.small_id)),
            _ => Err(Error::BadTask("it asks for an exchange in a ring whose key this device does not have")),
        }
    }

    /// Reads the ciphertext of a task that has one.
    fn read_masked(&self, kind: TaskKind, frame: &[u8]) -> Result<Ciphertext, Error> {
        Ok(match kind {
            TaskKind::Product { .. } | TaskKind::Stage { .. } => {
                return Err(Error::BadTask("it has no ciphertext"));
            }
            TaskKind::Scores { .. } | TaskKind::Sum => {
                let params = self.small();
                let read = ckks::read_ciphertext(params, self.small_id, params.max_level(), frame)?;
                let log_scale = if kind == TaskKind::Sum { LOG_STATISTICS } else { LOG_SCORE };
                // Frames hold the canonical scale.
                read.with_scale(f64::from(log_scale).exp2())
            }
            TaskKind::Model => {
                let (params, level) = (self.device.params(), self.created.plan.refresh_level);
                ckks::read_ciphertext(params, self.device.key_id(), level, frame)?
            }
            TaskKind::Answers => {
                let (secret, id) = self.device.decisions();
                ckks::read_ciphertext(secret.params(), id, self.exchanges.answers.level(), frame)?
            }
        })
    }

    /// The body of `POST …/raises` with the answers to `tasks`, under the ticket of a device that waits for
    /// its decision. A raise of scores or of a sum takes some 25 ms of one core; a raise of scores has 0.7 to
    /// 0.9 MB at N = 2¹⁴ and 1.6 to 2.8 MB at N = 2¹⁵, and one of answers 42 kB at N' = 2¹³.
    ///
    /// # Errors
    /// [`Error::Secret`] for a factor that the level of the plan does not allow. No error depends on a
    /// decrypted value.
    pub fn raise<R: CryptoRng>(
        &self,
        tasks: &[MaskedTask],
        ticket: Option<Ticket>,
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        let answer = |task: &MaskedTask| Ok((task.id, self.raised(task, rng)?));
        let raised = tasks.iter().map(answer).collect::<Result<_, Error>>()?;
        Ok(Raises { ticket, raised }.to_bytes())
    }

    fn raised<R: CryptoRng>(&self, task: &MaskedTask, rng: &mut R) -> Result<Raised, Error> {
        let keys = self.device.keys();
        let (deep, small, exchanges) = (&keys.deep, &keys.small, &self.exchanges);
        let (decisions, decisions_id) = self.device.decisions();
        let frame = |fresh: SeededCiphertext| fresh.to_bytes(deep, self.device.key_id());
        if let Some(asked) = exchanges.of(&task.kind)? {
            let (mut rest, mut out) = (&task.masked[..], Vec::new());
            for group in asked.groups {
                let count = group.first().map_or(0, |exchange| exchange.from().ciphertexts);
                let (masked, after) = rest.split_at(count);
                for exchange in &group {
                    let [(from, _), (to, id)] =
                        [self.holds(&exchange.from().params)?, self.holds(&exchange.to().params)?];
                    let fresh = ckks_secret::exchange(exchange, from, to, masked, asked.factors, rng)?;
                    out.extend(fresh.iter().map(|fresh| fresh.to_bytes(to, id)));
                }
                rest = after;
            }
            return Ok(Raised::Exchanged(out));
        }
        let in_slots = || exchanges.slots.as_ref().ok_or(NO_SLOTS);
        let [masked] = &task.masked[..] else { return Err(Error::BadTask("it has no ciphertext")) };
        match task.kind {
            // It has an exchange.
            TaskKind::Product { .. } | TaskKind::Stage { .. } => Err(Error::BadTask("it has no exchange")),
            TaskKind::Scores { factors } => {
                let raise = &exchanges.scores;
                let fresh = ckks_secret::raise(raise, small, decisions, masked, factors, rng)?;
                Ok(Raised::Scores(fresh.to_bytes(decisions, decisions_id)))
            }
            TaskKind::Sum => {
                let factors = exchanges.layout.statistics_factors();
                let fresh = ckks_secret::raise(&in_slots()?.statistics, small, deep, masked, factors, rng)?;
                Ok(Raised::Sum(frame(fresh)))
            }
            TaskKind::Model => {
                let (plan, exchange) = (&self.created.plan, &in_slots()?.model);
                let (level, slots) = (plan.model_level, plan.model_slots);
                let [mut first, mut second] = [ChaCha20Rng::from_rng(rng), ChaCha20Rng::from_rng(rng)];
                let (fresh, scores) = rayon::join(
                    || ckks_secret::recrypt(deep, masked, level, slots, &mut first),
                    || ckks_secret::slots_to_coefficients(exchange, deep, small, masked, &mut second),
                );
                Ok(Raised::Model { deep: frame(fresh?), scores: scores?.to_bytes(small, self.small_id) })
            }
            TaskKind::Answers => {
                let (exchange, answers) = (&exchanges.answers, &self.answers_secret);
                let fresh = ckks_secret::slots_to_coefficients(exchange, decisions, answers, masked, rng)?;
                Ok(Raised::Answers(fresh.to_bytes(answers, self.small_id)))
            }
        }
    }
}
