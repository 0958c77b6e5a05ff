//! Sums of bounded numbers through a shuffler: each user sends bits, and the server counts the ones.
//!
//! Source: Cheu, Joseph, Mao, Peng, "Shuffle private stochastic convex optimization", 2022, as corrected
//! below; used by Sarmasarkar, "Shuffle and Joint Differential Privacy for Generalized Linear Contextual
//! Bandits", Algorithms 4 to 6.
//!
//! *Departure*: values in `[-bound, bound]` are shifted to `[0, 2 bound]`, and `2 bound` is the length that
//! is cut into `g` steps (the paper prints `bound`, which lets the shifted value exceed `g` steps); the
//! analyser subtracts the expected noise of `n` users.

use crate::binomial::{lower_tail, upper_tail};
use crate::budget::{Delta, Epsilon};
use crate::source::Words;
use crate::task::Bits;
use crate::{Error, Ratio, composition, sampler};
use fault::require;

/// The protocol for one coordinate: `n` users, `g` steps, `b` noise bits a user, each set with probability
/// 1/4.
///
/// A user sends `g + b` bits of one label; after the shuffler only the number of ones is left, a shift by at
/// most `g` of a binomial of `n b` trials. Its privacy is [`divergence`].
#[derive(Debug, Clone, PartialEq)]
pub struct BitSum {
    bound: f64,
    users: u64,
    steps: u64,
    noise_bits: u64,
}

impl BitSum {
    /// The protocol for values in `[-bound, bound]`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `bound` is not finite and above 0, or `users` or `steps` is 0;
    /// [`Error::Overflow`] if `users * (steps + noise_bits)` is `2^50` or more.
    pub fn new(bound: f64, users: u64, steps: u64, noise_bits: u64) -> Result<Self, Error> {
        crate::laplace::positive("bound", bound)?;
        for (field, got) in [("users", users), ("steps", steps)] {
            require(got > 0, field, 0, "at least 1")?;
        }
        let bits = steps.checked_add(noise_bits).and_then(|each| each.checked_mul(users));
        if bits.is_none_or(|bits| bits >= 1 << 50) {
            return Err(Error::Overflow { what: "the number of shuffled bits", bits: 50 });
        }
        Ok(Self { bound, users, steps, noise_bits })
    }

    /// The protocol with the published constants, for vectors of length `d` (or `d` by `d` matrices). All
    /// coordinates together are `(epsilon, delta)`-DP when one user is replaced.
    ///
    /// `g = max(ceil(2 sqrt n), d, 4)`, `b = ceil(24·10^4 g² ln²(4 (d² + 1)/delta) / (epsilon² n))`: several
    /// hundred times the noise that [`calibrated`](Self::calibrated) needs for one coordinate.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `epsilon` is above 15 or `delta` not in `(0, 1/2)`; as [`new`](Self::new).
    pub fn stated(bound: f64, users: u64, d: u64, epsilon: Epsilon, delta: Delta) -> Result<Self, Error> {
        require(epsilon.get() <= 15.0, "epsilon", epsilon.get(), "at most 15")?;
        require(delta.get() > 0.0 && delta.get() < 0.5, "delta", delta.get(), "above 0 and below 1/2")?;
        let steps = Self::default_steps(users, d);
        let log = (4.0 * ((d as f64).powi(2) + 1.0) / delta.get()).ln();
        let b = 24e4 * (steps as f64 * log / epsilon.get()).powi(2) / users.max(1) as f64;
        Self::new(bound, users, steps, b.ceil() as u64)
    }

    /// The protocol with the least noise by the exact [`divergence`]. Each of `coordinates` has its share of
    /// the budget by [`composition::per_release`]. The noise of `honest` of the users is sufficient, so that
    /// the others may collude or not exist.
    ///
    /// - Cost: about sixty divergences. [`with_noise`](Self::with_noise), given the
    ///   [`noise_bits`](Self::noise_bits) found, computes one.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `delta` is 0, `coordinates` is 0, or `honest` is not from 1 to `users`; as
    /// [`new`](Self::new).
    pub fn calibrated(
        bound: f64,
        users: u64,
        honest: u64,
        coordinates: u32,
        epsilon: Epsilon,
        delta: Delta,
    ) -> Result<Self, Error> {
        let (epsilon, delta) = composition::per_release(coordinates, epsilon, delta)?;
        let steps = Self::default_steps(users, 1);
        check_honest(users, honest)?;
        let noise_bits = least_noise_bits(honest, steps, epsilon, delta)?;
        Self::new(bound, users, steps, noise_bits)
    }

    /// As [`calibrated`](Self::calibrated), with at least the `noise_bits` that it found. One [`divergence`]
    /// checks that they are sufficient.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if they are not; those of [`calibrated`](Self::calibrated).
    pub fn with_noise(
        bound: f64,
        users: u64,
        honest: u64,
        coordinates: u32,
        epsilon: Epsilon,
        delta: Delta,
        noise_bits: u64,
    ) -> Result<Self, Error> {
        let (epsilon, delta) = composition::per_release(coordinates, epsilon, delta)?;
        let sum = Self::new(bound, users, Self::default_steps(users, 1), noise_bits)?;
        check_honest(users, honest)?;
        require(
            divergence(honest * noise_bits, sum.steps, epsilon) <= delta.get(),
            "noise_bits",
            noise_bits,
            "as many as the promised delta needs",
        )?;
        Ok(sum)
    }

    /// `max(ceil(2 sqrt n), d, 4)`.
    fn default_steps(users: u64, d: u64) -> u64 {
        let square = 4 * u128::from(users);
        let root = square.isqrt();
        ((root + u128::from(root * root < square)) as u64).max(d).max(4)
    }

    /// Largest absolute value.
    pub const fn bound(&self) -> f64 {
        self.bound
    }

    /// Number of steps of the encoding, `g`.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Number of noise bits of one user, `b`.
    pub const fn noise_bits(&self) -> u64 {
        self.noise_bits
    }

    /// The encoding in a task.
    pub const fn bits(&self) -> Bits {
        Bits { bound: self.bound, steps: self.steps, noise: self.noise_bits }
    }

    /// Standard deviation of the noise of the estimate, without that of rounding: `(2 bound/g) sqrt(3 n
    /// b/16)`.
    pub fn noise_deviation(&self) -> f64 {
        self.step() * (3.0 / 16.0 * self.users as f64 * self.noise_bits as f64).sqrt()
    }

    fn step(&self) -> f64 {
        2.0 * self.bound / self.steps as f64
    }

    /// `x` as a whole number of steps above `-bound`, rounded at random to either side; `0..=g`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `x` is not in `[-bound, bound]`; [`Error::Overflow`] if `x + bound` is above
    /// 0 but below about `2^-60` of the bound.
    pub fn encode<W: Words + ?Sized>(&self, x: f64, words: &mut W) -> Result<u64, Error> {
        require((-self.bound..=self.bound).contains(&x), "value", x, "within the bound")?;
        let length = Ratio::from_f64(2.0 * self.bound)?;
        let place = Ratio::from_f64(x + self.bound)?.times(Ratio::integer(self.steps))?.over(length)?;
        let up = u128::from(words.bernoulli(place.fract()));
        Ok(((place.floor() + up) as u64).min(self.steps))
    }

    /// The number of ones among the `g + b` bits of one user.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn randomise<W: Words + ?Sized>(&self, x: f64, words: &mut W) -> Result<u64, Error> {
        Ok(self.encode(x, words)? + sampler::binomial_quarter(words, self.noise_bits)?)
    }

    /// The number of ones of all users. It has the distribution of the sum of [`randomise`](Self::randomise),
    /// with one binomial draw in place of `n`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if there are not `n` values; as [`encode`](Self::encode).
    pub fn shuffle<W: Words + ?Sized>(&self, values: &[f64], words: &mut W) -> Result<u64, Error> {
        require(values.len() as u64 == self.users, "values", values.len(), "one for each user")?;
        let mut ones = 0;
        for x in values {
            ones += self.encode(*x, words)?;
        }
        Ok(ones + sampler::binomial_quarter(words, self.users * self.noise_bits)?)
    }

    /// The unbiased estimate of the sum of all values.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if there are more ones than bits.
    pub fn analyse(&self, ones: u64) -> Result<f64, Error> {
        require(
            ones <= self.users * (self.steps + self.noise_bits),
            "ones",
            ones,
            "at most the number of bits",
        )?;
        let quarters = 4 * i128::from(ones) - i128::from(self.users) * i128::from(self.noise_bits);
        Ok(self.step() * (quarters as f64 / 4.0) - self.users as f64 * self.bound)
    }
}

fn check_honest(users: u64, honest: u64) -> Result<(), Error> {
    require(honest > 0 && honest <= users, "honest", honest, "from 1 to the number of users")?;
    Ok(())
}

/// The hockey-stick divergence at `epsilon` between a binomial distribution of `trials` with probability 1/4
/// and its shift by `shift`, the larger one of both directions. This is the exact `delta` of releasing a
/// count with that noise if a person changes it by `shift`.
///
/// The divergence falls with `trials`: one more trial adds an independent bit to both counts, and no
/// post-processing increases a divergence (data processing inequality).
///
/// The formulas are exact, and evaluated in double precision to about ten digits. The time is proportional to
/// `shift`, and up to 10^8 trials to the square root of `trials`.
pub fn divergence(trials: u64, shift: u64, epsilon: Epsilon) -> f64 {
    if shift == 0 {
        return 0.0;
    }
    const P: f64 = 0.25;
    let e = epsilon.get();
    // ln P(x)/P(x - shift) falls in x from +infinity to -infinity over shift..=trials.
    let loss = |x: u64| -> f64 {
        (0..shift).map(|j| ((trials - x + shift - j) as f64 / (3.0 * (x - j) as f64)).ln()).sum()
    };
    // The first x at which `stop` holds, which then holds for all larger x. The loss at that x is about `at`.
    let first = |at: f64, stop: &dyn Fn(f64) -> bool| {
        let (mut low, mut high) = (shift, trials + 1);
        // Replacing every factor of the loss by the middle one gives x up to a few units. Otherwise bisection
        // finds it.
        let (middle, factor) = (shift as f64 / 2.0, 3.0 * (at / shift as f64).exp());
        let guess = (trials as f64 + middle * (1.0 + factor)) / (1.0 + factor);
        let guess = (guess.max(0.0) as u64).clamp(low, high.max(low));
        for reach in [4, 256] {
            let (left, right) = (guess.saturating_sub(reach), guess.saturating_add(reach));
            if left > low && left < high {
                if stop(loss(left)) { high = left } else { low = left + 1 }
            }
            if right >= low && right < high {
                if stop(loss(right)) { high = right } else { low = right + 1 }
            }
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if stop(loss(middle)) { high = middle } else { low = middle + 1 }
        }
        low
    };
    let below = first(e, &|l| l <= e); // P(x) > e^epsilon P(x - shift) for x < below
    let above = first(-e, &|l| l < -e); // P(x - shift) > e^epsilon P(x) for x >= above
    let down = lower_tail(trials, below, P) - e.exp() * lower_tail(trials, below - shift, P);
    let up = upper_tail(trials, above - shift, P) - e.exp() * upper_tail(trials, above, P);
    down.max(up).max(0.0)
}

/// The least number of noise bits of each of `users` for which the [`divergence`] is at most `delta`, by
/// bisection: the divergence falls with that number.
fn least_noise_bits(users: u64, shift: u64, epsilon: Epsilon, delta: Delta) -> Result<u64, Error> {
    require(delta.get() > 0.0, "delta", 0, "above 0 for binomial noise")?;
    let overflow = Error::Overflow { what: "trials", bits: 50 };
    let trials = |bits: u64| bits.checked_mul(users).filter(|trials| *trials < 1 << 50);
    let enough = |bits| trials(bits).map(|trials| divergence(trials, shift, epsilon) <= delta.get());
    // With fewer trials than `shift` the two distributions have disjoint supports.
    let mut high = shift.div_ceil(users).max(1);
    let mut low = high - 1;
    while !enough(high).ok_or(overflow.clone())? {
        (low, high) = (high, high.checked_mul(2).ok_or(overflow.clone())?);
    }
    // `low` is not sufficient, `high` is.
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if enough(middle) == Some(true) { high = middle } else { low = middle }
    }
    Ok(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fault::OutOfRange;

    /// The divergence never rises with the number of trials beyond the last digits of double precision,
    /// whatever the path that computes its tails: bisection is exact.
    #[test]
    fn divergence_falls_with_the_trials() {
        let e = |epsilon| Epsilon::new(epsilon).unwrap();
        for (shift, epsilon) in [(1, 0.2), (4, 1.0), (10, 0.5), (40, 2.0), (200, 0.1)] {
            let mut before = f64::INFINITY;
            for trials in (0..3000).chain((3000..2_000_000).step_by(9973)) {
                let now = divergence(trials, shift, e(epsilon));
                assert!(now <= before * (1.0 + 1e-9) + 1e-15, "{trials} {shift} {epsilon}: {before} {now}");
                before = now;
            }
        }
        // Around the number from which tails are integrals, 89478486.
        for (shift, epsilon) in [(700, 0.01), (2000, 0.5), (500, 0.05)] {
            let mut before = f64::INFINITY;
            for trials in (89_400_000..89_560_000u64).step_by(4001) {
                let now = divergence(trials, shift, e(epsilon));
                assert!(now <= before * (1.0 + 1e-9) + 1e-15, "{trials} {shift} {epsilon}: {before} {now}");
                before = now;
            }
        }
    }

    /// Bisection finds what a linear search from below finds. One divergence accepts that number, and refuses
    /// one less.
    #[test]
    fn the_least_noise_is_found_and_kept() {
        for (users, epsilon, delta) in
            [(1, 1.0, 0.1), (2, 0.5, 1e-3), (9, 3.0, 1e-2), (25, 1.0, 1e-3), (400, 0.5, 1e-5)]
        {
            let (epsilon, delta) = (Epsilon::new(epsilon).unwrap(), Delta::new(delta).unwrap());
            let sum = BitSum::calibrated(1.0, users, users, 1, epsilon, delta).unwrap();
            let enough = |bits: &u64| divergence(bits * users, sum.steps, epsilon) <= delta.get();
            assert_eq!((0..).find(enough), Some(sum.noise_bits), "{users}");
            let again = |bits| BitSum::with_noise(1.0, users, users, 1, epsilon, delta, bits);
            assert_eq!(again(sum.noise_bits).unwrap(), sum);
            assert!(again(sum.noise_bits + 1).is_ok() && again(0).is_err() && again(u64::MAX).is_err());
            assert!(matches!(
                again(sum.noise_bits - 1),
                Err(Error::OutOfRange(OutOfRange { field: "noise_bits", .. }))
            ));
        }
    }
}
