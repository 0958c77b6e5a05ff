//! The published problem instance, generated from its seed.
//!
//! The published experiments draw one instance (`theta` and every arm set) from numpy's default generator,
//! and repeat the rewards only: their figures hold for this instance. This file implements the three parts of
//! the generator: seed sequence, PCG64, and the ziggurat method for normal variates.

use crate::{Error, Instance};
use bandit::Features;
use bandit::vector::norm;

/// Seed of the published instances.
pub const SEED: u64 = 109_832;

/// The instance of `seed` as in the published code: a direction from `d` uniforms in [-1, 1];
/// then, arm by arm, a normalised normal vector times the `1/d`-th power of a uniform. `theta` is the
/// direction times `s`.
///
/// # Errors
/// [`Error::OutOfRange`] if `d` or `k` is 0; those of [`Instance::new`].
pub fn instance(seed: u64, d: usize, k: usize, rounds: usize, s: f64) -> Result<Instance, Error> {
    crate::error::field("d", d as f64, d > 0, "at least 1")?;
    crate::error::field("k", k as f64, k > 0, "at least 1")?;
    let mut rng = Numpy::new(seed);
    let mut theta: Vec<f64> = (0..d).map(|_| 2.0 * rng.uniform() - 1.0).collect();
    let length = norm(&theta);
    theta.iter_mut().for_each(|v| *v *= s / length);
    let mut sets = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let mut values = Vec::with_capacity(k * d);
        for _ in 0..k {
            let start = values.len();
            values.extend((0..d).map(|_| rng.normal()));
            let length = norm(&values[start..]);
            let radius = rng.uniform().powf(1.0 / d as f64);
            values[start..].iter_mut().for_each(|v| *v *= radius / length);
        }
        sets.push(Features::new(values, d)?);
    }
    Instance::new(theta, sets)
}

/// numpy's `default_rng(seed)`: PCG64 (XSL-RR, 128 bits of state), `random` and `standard_normal`.
pub struct Numpy {
    state: u128,
    increment: u128,
    ziggurat: Box<Ziggurat>,
}

impl Numpy {
    const MULTIPLIER: u128 = (2_549_297_995_355_413_924 << 64) + 4_865_540_595_714_422_341;

    /// The generator of a seed, by the seed sequence.
    pub fn new(seed: u64) -> Self {
        let [a, b, c, d] = seed_sequence(seed);
        let wide = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        let mut rng = Self { state: 0, increment: wide(c, d) << 1 | 1, ziggurat: Box::new(Ziggurat::new()) };
        rng.next();
        rng.state = rng.state.wrapping_add(wide(a, b));
        rng.next();
        rng
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(Self::MULTIPLIER).wrapping_add(self.increment);
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// A uniform number in [0, 1), a multiple of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A standard normal variate.
    pub fn normal(&mut self) -> f64 {
        loop {
            let word = self.next();
            let layer = (word & 0xff) as usize;
            let magnitude = word >> 9 & 0x000f_ffff_ffff_ffff;
            let sign = if word >> 8 & 1 == 1 { -1.0 } else { 1.0 };
            let x = magnitude as f64 * self.ziggurat.width[layer];
            if magnitude < self.ziggurat.inside[layer] {
                return sign * x;
            }
            if layer == 0 {
                loop {
                    let tail = -(-self.uniform()).ln_1p() / R;
                    let y = -(-self.uniform()).ln_1p();
                    if y + y > tail * tail {
                        return if magnitude >> 8 & 1 == 1 { -(R + tail) } else { R + tail };
                    }
                }
            }
            let [above, below] = [self.ziggurat.height[layer - 1], self.ziggurat.height[layer]];
            if (above - below) * self.uniform() + below < (-0.5 * x * x).exp() {
                return sign * x;
            }
        }
    }
}

/// The point at which the tail of the ziggurat begins.
const R: f64 = 3.654_152_885_361_009;

/// 256 layers of equal area (Marsaglia and Tsang 2000).
struct Ziggurat {
    inside: [u64; 256],
    width: [f64; 256],
    height: [f64; 256],
}

impl Ziggurat {
    fn new() -> Self {
        let scale = (1u64 << 52) as f64;
        let f = |x: f64| (-0.5 * x * x).exp();
        let area =
            R * f(R) + (std::f64::consts::FRAC_PI_2).sqrt() * libm::erfc(R * std::f64::consts::FRAC_1_SQRT_2);
        let base = area / f(R);
        let (mut inside, mut width, mut height) = ([0; 256], [0.0; 256], [0.0; 256]);
        inside[0] = (R / base * scale) as u64;
        width[0] = base / scale;
        height[0] = 1.0;
        width[255] = R / scale;
        height[255] = f(R);
        let mut x = R;
        for i in (1..255).rev() {
            let above = (-2.0 * (area / x + f(x)).ln()).sqrt();
            inside[i + 1] = (above / x * scale) as u64;
            width[i] = above / scale;
            height[i] = f(above);
            x = above;
        }
        Self { inside, width, height }
    }
}

/// The first four words of 64 bits of numpy's seed sequence for one integer.
fn seed_sequence(seed: u64) -> [u64; 4] {
    let mut hash = 0x43b0_d7e5_u32;
    let mut mix_in = |value: u32| {
        let value = value ^ hash;
        hash = hash.wrapping_mul(0x931e_8875);
        let value = value.wrapping_mul(hash);
        value ^ value >> 16
    };
    let mix = |x: u32, y: u32| {
        let v = x.wrapping_mul(0xca01_f9dd).wrapping_sub(y.wrapping_mul(0x4973_f715));
        v ^ v >> 16
    };
    let mut pool = [seed as u32, (seed >> 32) as u32, 0, 0].map(&mut mix_in);
    for source in 0..4 {
        for target in 0..4 {
            if source != target {
                pool[target] = mix(pool[target], mix_in(pool[source]));
            }
        }
    }
    let mut hash = 0x8b51_f9dd_u32;
    let mut word = |value: u32| {
        let value = value ^ hash;
        hash = hash.wrapping_mul(0x58f3_8ded);
        let value = value.wrapping_mul(hash);
        u64::from(value ^ value >> 16)
    };
    std::array::from_fn(|i| {
        let low = word(pool[2 * i % 4]);
        low | word(pool[(2 * i + 1) % 4]) << 32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words, two million normals (tail and wedges included) and the instance, all from numpy 2.4.6.
    #[test]
    fn generator_is_numpys() {
        let mut rng = Numpy::new(SEED);
        let words: [u64; 3] = std::array::from_fn(|_| rng.next());
        assert_eq!(words, [0x8ff6_2a3b_53bd_c37c, 0xe2b1_3873_3e95_c87d, 0xa904_5d16_905e_6ae5]);
        let mut rng = Numpy::new(7);
        let z: Vec<f64> = (0..2_000_000).map(|_| rng.normal()).collect();
        // The tables are computed here and copied there, so that the last digits may differ.
        for (got, want) in z.iter().zip([0.0012301533574825742, 0.2987455375084699, -0.2741378553622176]) {
            assert!((got - want).abs() < 1e-13 * want.abs());
        }
        assert!((z.iter().sum::<f64>() + 820.1837448934857).abs() < 1e-6);
        assert!((z.iter().map(|z| z.powi(4)).sum::<f64>() - 5990521.493625266).abs() < 1e-4);
        let max = z.iter().fold(0.0, |m: f64, z| m.max(z.abs()));
        assert!((max - 5.5336016390169895).abs() < 1e-12);
    }

    #[test]
    fn instance_is_the_published_one() {
        let i = instance(SEED, 3, 20, 5000, 2.0).unwrap();
        for (got, want) in i.theta().iter().zip([0.295416, 1.826591, 0.759141]) {
            assert!((got - want).abs() < 5e-7);
        }
        let last = i.sets()[4999].row(19).unwrap();
        for (got, want) in last.iter().zip([-0.15749104076028655, 0.7390265318555095, -0.3199574833477952]) {
            assert!((got - want).abs() < 1e-14);
        }
        assert!((i.kappa(crate::Link::Probit) - 18.3937).abs() < 5e-5);
    }
}
