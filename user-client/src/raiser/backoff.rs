use rand::{Rng, RngExt};
use std::time::Duration;

/// The mean of the first pause is three quarters of this.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// Pauses that double after each failure, up to 30 s. Each is drawn between a half and the whole of its
/// length, so that many raisers do not come back to a server at the same time.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause after one more failure.
    pub(super) fn pause<R: Rng>(&mut self, rng: &mut R) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        whole.mul_f64(rng.random_range(0.5..1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn pauses_double_up_to_the_longest_and_differ() {
        let pauses = |seed| {
            let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(seed);
            let mut backoff = Backoff::default();
            (0..40).map(|_| backoff.pause(&mut rng)).collect::<Vec<_>>()
        };
        let (one, other) = (pauses(1), pauses(2));
        for (i, pause) in one.iter().enumerate() {
            let whole = FIRST.saturating_mul(1 << i.min(10)).min(LONGEST);
            assert!((whole / 2..whole).contains(pause), "{i}: {pause:?}");
        }
        assert!(one.iter().zip(&other).all(|(a, b)| a != b));
    }
}
