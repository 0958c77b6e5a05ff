//! Encrypts the reward: two ciphertexts, of the statistics and of the trace features of the arm that was
//! played, at the statistics level and the trace level of the plan.

use crate::device::Agreement;
use crate::{Device, Error};
use rand::CryptoRng;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use wire::Created;

impl Device {
    /// The frames of the statistics and of the trace features, which are encrypted in parallel.
    pub(crate) fn encrypt_reward<R: CryptoRng>(
        &self,
        created: &Created,
        agreement: &Agreement,
        features: &[f64],
        reward: f64,
        rng: &mut R,
    ) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let mut statistics = agreement.layout.statistics(features, reward)?;
        let mut trace = agreement.layout.trace_features(features)?;
        let [mut first, mut second] = [ChaCha20Rng::from_rng(rng), ChaCha20Rng::from_rng(rng)];
        let encrypted = rayon::join(
            || self.encrypt(&statistics, created.plan.statistics_level, &mut first),
            || self.encrypt(&trace, created.plan.trace_level, &mut second),
        );
        ckks::zero_slots(&mut statistics);
        ckks::zero_slots(&mut trace);
        Ok((encrypted.0?, encrypted.1?))
    }
}
