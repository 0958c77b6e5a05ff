//! The answer: reward, trace answer and refreshed model in one message. Levels: 0 → a number, refresh → model.
//!
//! Source: Algorithm 10. Departure: the trace answer is flooded and rounded before it leaves.

use crate::{Decision, Device, Error};
use ckks::Ciphertext;
use rand::{CryptoRng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use wire::{Created, FeedbackRequest};

/// The trace answer's noise: uniform in ± 1/8 of the scale. The comparison is near 0 or 1 and decided at 0.45.
const FLOOD_BITS_BELOW_SCALE: u32 = 3;

impl Device {
    /// The body of the feedback on `decision`: `features` are those of the arm that was played, `reward` in [−1, 1].
    ///
    /// # Errors
    /// [`Error::FeatureCount`], [`Error::NotANumber`], [`Error::NormAboveBound`] (row 1),
    /// [`Error::RewardOutOfRange`]; [`Error::WrongKeys`], [`Error::PlanMismatch`], [`Error::Helba`] for the bandit;
    /// [`Error::Secret`] if the masked model cannot be encrypted anew.
    pub fn answer<R: CryptoRng>(
        &self,
        created: &Created,
        decision: &Decision,
        features: &[f64],
        reward: f64,
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        let agreement = self.agree(created)?;
        let trace_answer = decision.trace.as_ref().map(|ct| self.answer_trace(ct, rng));
        let [mut first, mut second] = [ChaCha20Rng::from_rng(rng), ChaCha20Rng::from_rng(rng)];
        let (reward, refreshed) = rayon::join(
            || self.encrypt_reward(created, &agreement, features, reward, &mut first),
            || self.refresh(created, decision, &mut second),
        );
        let ((statistics, trace), refreshed) = (reward?, refreshed?);
        Ok(FeedbackRequest { statistics, trace, trace_answer, refreshed }.to_bytes())
    }

    /// The constant coefficient, which the server has masked, modulo q₀.
    fn answer_trace<R: CryptoRng>(&self, masked: &Ciphertext, rng: &mut R) -> u64 {
        let params = self.params();
        let flood_bits = params.spec().log_scale - FLOOD_BITS_BELOW_SCALE;
        ckks_secret::constant_coefficient(self.secret(), masked).release(params.prime(0), flood_bits, rng)
    }

    /// The masked model, encrypted anew at the top.
    fn refresh<R: CryptoRng>(
        &self,
        created: &Created,
        decision: &Decision,
        rng: &mut R,
    ) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let Some((id, masked)) = &decision.refresh else { return Ok(None) };
        let plan = &created.plan;
        let fresh = ckks_secret::recrypt(self.secret(), masked, plan.model_level, plan.model_slots, rng)?;
        Ok(Some((*id, fresh.to_bytes(self.secret(), self.key_id()))))
    }
}
