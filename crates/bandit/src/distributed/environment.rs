//! The arms of the published experiments.

use crate::Error;
use crate::arms::{Arms, RewardLaw, check_means};
use crate::sampling::standard_normal;
use fault::require;
use rand::Rng;

/// Arms whose rewards are normal around their means, clipped to [0, 1].
///
/// Every round draws one normal number, which all arms share. Regret is by the nominal means: clipping moves
/// the expected rewards by 3e-4 at most for means in [0.25, 0.75] at a deviation of 0.1.
pub type NormalArms = Arms<Normal>;

/// The distribution of [`NormalArms`].
#[derive(Debug, Clone, PartialEq)]
pub struct Normal {
    means: Vec<f64>,
    deviation: f64,
}

impl RewardLaw for Normal {
    type Round = f64;

    fn means(&self) -> &[f64] {
        &self.means
    }

    fn draw(&self, rng: &mut dyn Rng) -> f64 {
        standard_normal(rng)
    }

    fn reward(&self, arm: usize, z: &f64) -> f64 {
        (self.means[arm] + self.deviation * z).clamp(0.0, 1.0)
    }
}

impl NormalArms {
    /// Arms of the given means, in [0, 1], all of one deviation.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if there is no mean, one is outside [0, 1], or the deviation is negative or not
    /// finite.
    pub fn new(means: Vec<f64>, deviation: f64) -> Result<Self, Error> {
        check_means(&means)?;
        require(deviation >= 0.0 && deviation.is_finite(), "deviation", deviation, "finite and at least 0")?;
        Ok(Self::of(Normal { means, deviation }))
    }

    /// Instance `seed` of the published experiments: `arms` means uniform in `[low, high]` from numpy's
    /// `RandomState(seed).rand`, deviation 0.1.
    ///
    /// # Errors
    /// Those of [`new`](Self::new); [`Error::OutOfRange`] above 312 arms.
    pub fn published(seed: u32, arms: usize, low: f64, high: f64) -> Result<Self, Error> {
        require(arms <= DOUBLES, "arms", arms, "at most 312")?;
        let uniforms = mersenne_twister(seed);
        Self::new(uniforms.take(arms).map(|u| low + (high - low) * u).collect(), 0.1)
    }
}

/// The number of doubles in one generation of [`mersenne_twister`].
const DOUBLES: usize = 312;

/// The first doubles of numpy's `RandomState(seed).rand`: MT19937 (Matsumoto, Nishimura 1998), 53 bits from
/// two words.
fn mersenne_twister(seed: u32) -> impl Iterator<Item = f64> {
    const N: usize = 2 * DOUBLES;
    let mut state = [seed; N];
    for i in 1..N {
        let last = state[i - 1];
        state[i] = 1_812_433_253u32.wrapping_mul(last ^ last >> 30).wrapping_add(i as u32);
    }
    for i in 0..N {
        let y = state[i] & 0x8000_0000 | state[(i + 1) % N] & 0x7fff_ffff;
        state[i] = state[(i + 397) % N] ^ y >> 1 ^ if y & 1 == 1 { 0x9908_b0df } else { 0 };
    }
    let temper = |mut y: u32| {
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c_5680;
        y ^= y << 15 & 0xefc6_0000;
        y ^ y >> 18
    };
    (0..DOUBLES).map(move |i| {
        let (high, low) = (temper(state[2 * i]) >> 5, temper(state[2 * i + 1]) >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;
    use fault::OutOfRange;
    use privacy::source::SplitMix64;

    /// Twenty instances of ten uniforms, from numpy.
    #[test]
    fn instances_are_the_published_ones() {
        #[derive(serde::Deserialize)]
        struct Instances {
            uniforms: Vec<Vec<f64>>,
        }
        let text = include_str!("../../tests/vectors/distributed_instances.json");
        let Instances { uniforms } = serde_json::from_str(text).unwrap();
        assert_eq!(uniforms.len(), 20);
        for (seed, row) in (0..).zip(uniforms) {
            assert_eq!(NormalArms::published(seed, 10, 0.0, 1.0).unwrap().means(), row);
        }
    }

    /// Within five standard errors of the mean; the deviation within a percent of 0.1 where nothing is
    /// clipped.
    #[test]
    fn rewards_are_normal_and_clipped() {
        let mut arms = NormalArms::new(vec![0.5, 0.0], 0.1).unwrap();
        let mut rng = SplitMix64::new(1);
        let mut rewards = [Vec::new(), Vec::new()];
        for _ in 0..100_000 {
            assert!(arms.begin(&mut rng));
            for (arm, rewards) in rewards.iter_mut().enumerate() {
                let outcome = arms.play(arm, &mut rng).unwrap();
                assert_eq!(outcome.regret, [0.0, 0.5][arm]);
                rewards.push(outcome.reward);
            }
        }
        let s = crate::Summary::of(&rewards[0]).unwrap();
        assert!((s.mean - 0.5).abs() < 5.0 * s.standard_error);
        assert!((s.standard_error * 1e5f64.sqrt() - 0.1).abs() < 1e-3);
        let clipped = rewards[1].iter().filter(|r| **r == 0.0).count() as f64 / 1e5;
        assert!((clipped - 0.5).abs() < 0.01 && rewards[1].iter().all(|r| *r >= 0.0));
    }

    #[test]
    fn misuse_is_refused() {
        assert!(matches!(
            NormalArms::new(vec![], 0.1),
            Err(Error::OutOfRange(OutOfRange { field: "k", .. }))
        ));
        assert!(matches!(
            NormalArms::new(vec![1.5], 0.1),
            Err(Error::OutOfRange(OutOfRange { field: "mean", .. }))
        ));
        assert!(matches!(
            NormalArms::new(vec![0.5], -0.1),
            Err(Error::OutOfRange(OutOfRange { field: "deviation", .. }))
        ));
        let many = NormalArms::published(0, 313, 0.0, 1.0);
        assert!(matches!(many, Err(Error::OutOfRange(OutOfRange { field: "arms", .. }))));
        let mut arms = NormalArms::new(vec![0.5], 0.1).unwrap();
        let mut rng = SplitMix64::new(1);
        assert_eq!(arms.play(0, &mut rng).unwrap_err(), Error::NoRound);
        assert!(arms.begin(&mut rng));
        assert_eq!(arms.play(1, &mut rng).unwrap_err(), Error::Arm { arm: 1, k: 1 });
    }
}
