//! The tasks of a holder of the key: it decrypts masked values and encrypts them again, in the ring and at
//! the level where the server continues with them.

use super::BanditDevice;
use crate::Error;
use ckks::Ciphertext;
use ckks_secret::SeededCiphertext;
use protocol::{LOG_SCORE, LOG_STATISTICS, MOST_FACTOR, TaskKind};
use rand::{CryptoRng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use wire::{RaiseTask, Raised, Raises, Ticket};

/// A task whose frame and numbers were checked against the plan. Only the [`BanditDevice`] that read it can
/// answer it.
pub struct MaskedTask {
    id: u64,
    kind: TaskKind,
    masked: Ciphertext,
}

impl MaskedTask {
    /// The kind.
    pub fn kind(&self) -> TaskKind {
        self.kind
    }
}

impl BanditDevice<'_> {
    /// Reads a task.
    pub(super) fn task(&self, task: &RaiseTask) -> Result<MaskedTask, Error> {
        match task.kind {
            TaskKind::Scores { .. } | TaskKind::Answers if self.created.config.decides_alone() => {
                return Err(Error::BadTask(
                    "it asks to raise scores or answers, which a bandit with answers: scores or compare: pbs never does",
                ));
            }
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
        let masked = match task.kind {
            TaskKind::Scores { .. } | TaskKind::Sum => {
                let params = self.small();
                let read = ckks::read_ciphertext(params, self.small_id, params.max_level(), &task.masked)?;
                let log_scale = if task.kind == TaskKind::Sum { LOG_STATISTICS } else { LOG_SCORE };
                // Frames hold the canonical scale.
                read.with_scale(f64::from(log_scale).exp2())
            }
            TaskKind::Model => {
                let (params, level) = (self.device.params(), self.created.plan.refresh_level);
                ckks::read_ciphertext(params, self.device.key_id(), level, &task.masked)?
            }
            TaskKind::Answers => {
                let (secret, id) = self.device.decisions();
                ckks::read_ciphertext(secret.params(), id, self.exchanges.answers.level(), &task.masked)?
            }
        };
        Ok(MaskedTask { id: task.id, kind: task.kind, masked })
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
        match task.kind {
            TaskKind::Scores { factors } => {
                let raise = &exchanges.scores;
                let fresh = ckks_secret::raise(raise, small, decisions, &task.masked, factors, rng)?;
                Ok(Raised::Scores(fresh.to_bytes(decisions, decisions_id)))
            }
            TaskKind::Sum => {
                let factors = exchanges.layout.statistics_factors();
                let fresh =
                    ckks_secret::raise(&exchanges.statistics, small, deep, &task.masked, factors, rng)?;
                Ok(Raised::Sum(frame(fresh)))
            }
            TaskKind::Model => {
                let plan = &self.created.plan;
                let (level, slots) = (plan.model_level, plan.model_slots);
                let [mut first, mut second] = [ChaCha20Rng::from_rng(rng), ChaCha20Rng::from_rng(rng)];
                let (fresh, scores) = rayon::join(
                    || ckks_secret::recrypt(deep, &task.masked, level, slots, &mut first),
                    || {
                        let exchange = &exchanges.model;
                        ckks_secret::slots_to_coefficients(exchange, deep, small, &task.masked, &mut second)
                    },
                );
                Ok(Raised::Model { deep: frame(fresh?), scores: scores?.to_bytes(small, self.small_id) })
            }
            TaskKind::Answers => {
                let (exchange, answers) = (&exchanges.answers, &self.answers_secret);
                let fresh =
                    ckks_secret::slots_to_coefficients(exchange, decisions, answers, &task.masked, rng)?;
                Ok(Raised::Answers(fresh.to_bytes(answers, self.small_id)))
            }
        }
    }
}
