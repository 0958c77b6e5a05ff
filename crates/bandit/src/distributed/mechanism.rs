//! Encoding, noise and analysis of one batch, and its confidence width.

use crate::Error;
use fault::{OutOfRange, require};
use privacy::budget::{Delta, Epsilon, Neighbours, Rho};
use privacy::rdp::RdpCurve;
use privacy::source::Words;
use privacy::task::{Ask, UserNoise};
use privacy::{Definition, PrivacyStatement, Ratio, Trust, sampler};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// The trust model: the party that adds noise, and its distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Model {
    /// No noise, and no privacy, for comparison.
    None,
    /// Each user adds the difference of two Polya variates; their sum is a discrete Laplace variate (Theorem
    /// 1).
    Pure,
    /// Each user adds a Skellam variate (Theorem 2).
    Renyi {
        /// `s`, at least 1: a larger scale gives more precision and longer shares.
        scale: Ratio,
        /// The delta at which the guarantee is stated.
        delta: Delta,
    },
    /// Each user adds a discrete Gaussian variate (Theorem 4).
    Concentrated {
        /// `s`, at least 1.
        scale: Ratio,
        /// The delta at which the guarantee is stated.
        delta: Delta,
    },
    /// The server adds one discrete Laplace variate (Theorem 5).
    Central,
    /// Each user adds a discrete Laplace variate that is private by itself (Theorem 6).
    Local,
    /// As [`Pure`](Self::Pure) with half of epsilon, for secure sums that reveal `epsilon/4` and are wrong
    /// with probability `1/(2T)` (Theorem 3); for simulation.
    Shuffle,
    /// As [`Pure`](Self::Pure), in bits that a shuffler counts. The noise of each user is clamped to
    /// [`margin`](Mechanism::margin) bits to either side; with probability `1 - delta/(1 + e^epsilon)` this
    /// changes no user's noise.
    Bits {
        /// The delta that clamping costs at most, above 0.
        delta: Delta,
    },
}

/// The mechanism of one batch, on which users and server must agree. It determines precision, noise and
/// modulus from the same n, epsilon and scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Mechanism {
    model: Model,
    /// The part of epsilon that the noise pays for.
    epsilon: Ratio,
    users: u64,
    /// Number of users whose noise the guarantee relies on.
    honest: u64,
    g: u64,
    tau: u64,
    m: u64,
    margin: u64,
}

impl Mechanism {
    /// The mechanism of one batch of `users`. `confidence` is the probability that the noise exceeds the
    /// threshold; under [`Model::Shuffle`] this is `1/(2 horizon)` instead.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `epsilon`, `users`, `horizon` or the `delta` of [`Model::Bits`] is 0,
    /// `confidence` is not in (0, 1), or a scale is below 1; [`Error::Privacy`] if the modulus, or the bits
    /// of all users, would not fit 62 bits.
    pub fn new(
        model: Model,
        epsilon: Ratio,
        users: u64,
        confidence: f64,
        horizon: u64,
    ) -> Result<Self, Error> {
        Self::with_colluding(model, epsilon, users, 0, confidence, horizon)
    }

    /// As [`new`](Self::new), with sufficient noise even if `colluding` of the users collude or do not exist.
    /// The noise of the other `users - colluding` is then that of a batch of their number. Since all users
    /// add noise, the sum has `users/(users - colluding)` times that variance, on which precision, threshold
    /// and margin depend.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if all users may collude, or for a model in which the users' noise does not add
    /// up; those of [`new`](Self::new).
    pub fn with_colluding(
        model: Model,
        epsilon: Ratio,
        users: u64,
        colluding: u64,
        confidence: f64,
        horizon: u64,
    ) -> Result<Self, Error> {
        let adds_up = matches!(
            model,
            Model::Pure | Model::Renyi { .. } | Model::Concentrated { .. } | Model::Bits { .. }
        );
        let (got, honest) = (colluding as f64, users.saturating_sub(colluding));
        require(
            colluding == 0 || adds_up,
            "colluding",
            got,
            "0 for a model whose users' noise does not add up",
        )?;
        require(colluding == 0 || honest > 0, "colluding", got, "fewer than the users of a batch")?;
        for (field, zero) in
            [("epsilon", epsilon.num() == 0), ("users", users == 0), ("horizon", horizon == 0)]
        {
            require(!zero, field, 0, "above 0")?;
        }
        require(confidence > 0.0 && confidence < 1.0, "confidence", confidence, "in (0, 1)")?;
        let (epsilon, scale, p) = match model {
            Model::Renyi { scale, .. } | Model::Concentrated { scale, .. } => (epsilon, scale, confidence),
            Model::Shuffle => (epsilon.times(Ratio::new(1, 2)?)?, Ratio::ONE, 0.5 / horizon as f64),
            _ => (epsilon, Ratio::ONE, confidence),
        };
        require(scale.num() >= scale.den(), "scale", scale.to_f64(), "at least 1")?;
        let g = match model {
            Model::None => 1 << 20,
            _ => precision(scale.times(epsilon)?, honest)?,
        };
        let (e, log, gf) = (epsilon.to_f64(), (2.0 / p).ln(), g as f64);
        // Ratio of the variance of all users' noise to that of the honest users' noise; variance and scale as
        // in `width`.
        let excess = users as f64 / honest.max(1) as f64;
        // Double precision is sufficient, since privacy does not depend on the threshold.
        let tau = gf / e
            * match model {
                Model::None => 0.0,
                Model::Pure | Model::Bits { .. } if colluding > 0 => (2.0 * excess * log).sqrt() + log,
                Model::Pure | Model::Central | Model::Shuffle | Model::Bits { .. } => log,
                Model::Renyi { .. } => 2.0 * (excess * log).sqrt() + 2f64.sqrt() * log * e / gf,
                Model::Concentrated { .. } => (2.0 * excess * log).sqrt(),
                Model::Local => LOCAL * (2.0 * users as f64 * log).sqrt().max(2.0 * log),
            };
        let tau = tau.ceil();
        // A threshold that is not finite exceeds the modulus too.
        let m = u128::from(users) * u128::from(g) + 2 * (tau.min(2f64.powi(62)) as u128) + 1;
        if m >= 1 << 62 {
            return Err(privacy::Error::Overflow { what: "the modulus of a secure sum", bits: 62 }.into());
        }
        let margin = match model {
            Model::Bits { delta } => margin(e, delta, users, excess, g)?,
            _ => 0,
        };
        Ok(Self { model, epsilon, users, honest, g, tau: tau as u64, m: m as u64, margin })
    }

    /// The part of epsilon that the noise pays for.
    pub const fn epsilon(&self) -> Ratio {
        self.epsilon
    }

    /// Number of users of the batch, n.
    pub const fn users(&self) -> u64 {
        self.users
    }

    /// The trust model: the party that adds noise, and its distribution.
    pub const fn model(&self) -> Model {
        self.model
    }

    /// Number of users whose noise the guarantee relies on: all but those that may collude.
    pub const fn honest(&self) -> u64 {
        self.honest
    }

    /// Number of steps that a reward is divided into, g.
    pub const fn precision(&self) -> u64 {
        self.g
    }

    /// Largest absolute value of the total noise with which a sum is decoded correctly, tau.
    pub const fn threshold(&self) -> u64 {
        self.tau
    }

    /// Modulus of shares and sums, `m = n g + 2 tau + 1`. A share has `ceil(log2 m)` bits.
    pub const fn modulus(&self) -> u64 {
        self.m
    }

    /// Bound on one user's noise to either side, C, to which [`Model::Bits`] clamps it; 0 for the other
    /// models.
    ///
    /// With `p = e^(-epsilon/g)`, the least C with `2 p^(C+1)/(1-p) <= delta/(1 + e^epsilon)`, or one more;
    /// where noise is counted on of h among n users, with `2 (n/h)` in place of 2, and an index of `1/h`
    /// below.
    ///
    /// # Why
    /// A Polya variate A of index `r = 1/n` is k >= 1 with probability `(r/k) (1-p)^r p^k` times the product
    /// of `1 + r/j` over j < k. That product is at most k, since r is at most 1, so that `P(A > C) <= r
    /// p^(C+1)/(1-p)`. What a user sends is cut off only if one of its two variates is above C, whatever the
    /// reward: the `2n` of a batch are so with probability at most `eta = 2 p^(C+1)/(1-p)`. Else the sum is
    /// that of [`Model::Pure`], which is epsilon-private; so for neighbours D, D' and any set of sums `P(D)
    /// <= e^epsilon (P(D') + eta) + eta`, and `delta = (1 + e^epsilon) eta`.
    pub const fn margin(&self) -> u64 {
        self.margin
    }

    /// Number of bits of one user under [`Model::Bits`], `g + 2 C`.
    pub const fn bits(&self) -> u64 {
        self.g + 2 * self.margin
    }

    /// The message of each user of a batch that plays `arm`; `None` if users add no noise.
    pub fn ask(&self, arm: usize) -> Option<Ask> {
        let (steps, noise, epsilon) = (self.g, self.model.user_noise()?, self.epsilon.to_f64());
        Some(match self.model {
            Model::Bits { .. } => Ask::Count { arm, steps, margin: self.margin, noise, epsilon },
            _ => Ask::Share { arm, modulus: self.m, steps, noise, epsilon },
        })
    }

    /// R under [`Model::Bits`]: the number of ones among a user's [`bits`](Self::bits).
    ///
    /// # Errors
    /// As [`randomise`](Self::randomise).
    pub fn ones(&self, reward: f64, rng: &mut dyn Rng) -> Result<u64, Error> {
        // The clamped value lies within the bits.
        Ok((self.noised(reward, rng)? + i128::from(self.margin)) as u64)
    }

    /// The sum of shares, an argument of [`analyse`](Self::analyse), that corresponds to the total number of
    /// ones.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if there are more ones than bits.
    pub fn count(&self, ones: u128) -> Result<u64, Error> {
        let all = |each: u64| u128::from(self.users) * u128::from(each);
        require(ones <= all(self.bits()), "ones", ones, "at most the number of bits")?;
        // Both are below 2^62.
        Ok(self.residue(ones as i128, -(all(self.margin) as i128)))
    }

    /// A reward as a whole number of steps, `0..=g`, rounded at random to either side with the same mean.
    /// Bits of the reward below `2^-60` are dropped. No word is drawn if no rounding is needed.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the reward is outside [0, 1].
    pub fn encode(&self, reward: f64, rng: &mut dyn Rng) -> Result<u64, Error> {
        require((0.0..=1.0).contains(&reward), "reward", reward, "in [0, 1]")?;
        // Below 2^(60 + 62): the modulus, and so g, has 62 bits at most.
        let place = u128::from((reward * 2f64.powi(60)) as u64) * u128::from(self.g);
        let (whole, rest) = ((place >> 60) as u64, place & ((1 << 60) - 1));
        // The fraction in lowest terms: its denominator is a power of two.
        let zeros = rest.trailing_zeros();
        Ok(whole + u64::from(rest > 0 && rng.below(1 << (60 - zeros)) < rest >> zeros))
    }

    /// Draws the noise of one user.
    ///
    /// # Errors
    /// [`Error::Privacy`] if an exact intermediate exceeds 128 bits.
    pub fn noise(&self, rng: &mut dyn Rng) -> Result<i128, Error> {
        let rate = || self.epsilon.over(Ratio::integer(self.g));
        Ok(match self.model {
            Model::None | Model::Central => 0,
            Model::Pure | Model::Shuffle | Model::Bits { .. } => {
                let plus = sampler::polya(rng, self.honest, rate()?)?;
                plus as i128 - sampler::polya(rng, self.honest, rate()?)? as i128
            }
            Model::Renyi { .. } => sampler::skellam(rng, self.variance()?)?,
            Model::Concentrated { .. } => sampler::discrete_gaussian(rng, self.variance()?)?,
            Model::Local => sampler::discrete_laplace(rng, rate()?)?,
        })
    }

    /// The noise of all users together, in one draw if its distribution allows it; for **simulation**, since
    /// no party may know it.
    ///
    /// # Errors
    /// As [`noise`](Self::noise).
    pub fn total_noise(&self, rng: &mut dyn Rng) -> Result<i128, Error> {
        Ok(match self.model {
            Model::None | Model::Central => 0,
            Model::Pure | Model::Shuffle | Model::Bits { .. } => {
                sampler::discrete_laplace(rng, self.epsilon.over(Ratio::integer(self.g))?)?
            }
            Model::Renyi { .. } => {
                sampler::skellam(rng, self.variance()?.times(Ratio::integer(self.users))?)?
            }
            Model::Concentrated { .. } | Model::Local => {
                let mut sum = 0i128;
                for _ in 0..self.users {
                    sum = sum.saturating_add(self.noise(rng)?);
                }
                sum
            }
        })
    }

    /// The noise of all users together, in constant time and double precision, for **simulation**.
    ///
    /// # Errors
    /// As [`noise`](Self::noise); [`Error::OutOfRange`] under [`Model::Concentrated`] if a user's variance is
    /// below 10.
    pub fn simulated_noise(&self, rng: &mut dyn Rng) -> Result<i128, Error> {
        let rate = self.epsilon.over(Ratio::integer(self.g))?;
        super::simulate::total(self.model, self.users, rate, self.variance()?, rng)
    }

    /// Variance of one user's noise, `g²/(h epsilon²)`, if the guarantee relies on the noise of h users.
    fn variance(&self) -> Result<Ratio, Error> {
        let step = Ratio::integer(self.g).over(self.epsilon)?;
        Ok(step.times(Ratio::new(1, u128::from(self.honest))?)?.times(step)?)
    }

    /// R: the message of a user, a residue of the modulus. The encoding is drawn before the noise.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the reward is outside [0, 1]; those of [`noise`](Self::noise).
    pub fn randomise(&self, reward: f64, rng: &mut dyn Rng) -> Result<u64, Error> {
        Ok(self.residue(self.noised(reward, rng)?, 0))
    }

    /// The reward in steps plus the user's noise, clamped under [`Model::Bits`].
    fn noised(&self, reward: f64, rng: &mut dyn Rng) -> Result<i128, Error> {
        let steps = self.encode(reward, rng)?;
        let noised = i128::from(steps).saturating_add(self.noise(rng)?);
        Ok(match self.model {
            Model::Bits { .. } => noised.clamp(-i128::from(self.margin), i128::from(self.g + self.margin)),
            _ => noised,
        })
    }

    /// `(value + noise) mod m`, Euclidean.
    pub(super) fn residue(&self, value: i128, noise: i128) -> u64 {
        let m = i128::from(self.m);
        (value.rem_euclid(m) + noise.rem_euclid(m)).rem_euclid(m) as u64
    }

    /// A: the estimate of the sum of rewards, from the sum of shares. If the total noise exceeds the
    /// threshold, the estimate is wrong by `m/g`, which affects accuracy and not privacy. Words are drawn for
    /// [`Model::Central`] only.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `sum` is no residue of the modulus, [`Error::Privacy`] as for
    /// [`noise`](Self::noise).
    pub fn analyse(&self, sum: u64, rng: &mut dyn Rng) -> Result<f64, Error> {
        if sum >= self.m {
            return Err(OutOfRange::new("sum", sum, format!("below {}", self.m)).into());
        }
        let sum = match self.model {
            Model::Central => {
                let noise = sampler::discrete_laplace(rng, self.epsilon.over(Ratio::integer(self.g))?)?;
                self.residue(i128::from(sum), noise)
            }
            _ => sum,
        };
        let wrapped = sum > self.users * self.g + self.tau;
        let sum = if wrapped { sum as f64 - self.m as f64 } else { sum as f64 };
        Ok(sum / self.g as f64)
    }

    /// Half width of the confidence interval of a batch mean, with `arms` arms in batch `number` from 1:
    /// `sqrt(ln(4 arms number²/p)/(2n)) + (sigma sqrt L + h L)/n`, `L = ln(2 arms number²/p)` (Lemma 2).
    ///
    /// Pure, central and bits: `sigma = sqrt 2/epsilon`, `h = 1/epsilon`. Skellam: `2/epsilon + sqrt 2/(s
    /// epsilon)`, `1/(s epsilon)`. Gaussian: `sqrt 2/epsilon + sqrt 2/(s epsilon)`, 0. Local:
    /// `sqrt(2L)/epsilon` for the rounding and `c/epsilon max(sqrt(2 n L), 2L)` for the noise, `c = 2 sqrt(ln
    /// 2)`; the paper leaves `c` open.
    ///
    /// If the guarantee relies on the noise of h among n users, sigma is `sqrt(n/h)` times as large: the
    /// noise of each user is infinitely divisible or Gaussian, so that the logarithm of the sum's moment
    /// generating function is `n/h` times that for h users, with the same domain and so the same `h` in the
    /// formula.
    pub fn width(&self, arms: usize, number: u32, p: f64) -> f64 {
        let per_p = 2.0 * arms as f64 * f64::from(number).powi(2) / p;
        let (log, n, e) = (per_p.ln(), self.users as f64, self.epsilon.to_f64());
        let more = (n / self.honest as f64).sqrt();
        let sampling = ((2.0 * per_p).ln() / (2.0 * n)).sqrt();
        let root2 = 2f64.sqrt();
        let noise = match self.model {
            Model::None => 0.0,
            Model::Pure | Model::Central | Model::Shuffle | Model::Bits { .. } => {
                (root2 * log.sqrt() * more + log) / e
            }
            Model::Renyi { scale, .. } => {
                let s = scale.to_f64();
                ((2.0 + root2 / s) * log.sqrt() * more + log / s) / e
            }
            Model::Concentrated { scale, .. } => (root2 + root2 / scale.to_f64()) * log.sqrt() * more / e,
            Model::Local => ((2.0 * log).sqrt() + LOCAL * (2.0 * n * log).sqrt().max(2.0 * log)) / e,
        };
        sampling + noise / n
    }
}

/// `2 sqrt(ln 2)`: the discrete Laplace of scale t is (4 ln 2 t², sqrt 2 t)-sub-exponential, since its moment
/// generating function is at most `1/(1 - l² t²)` and `-ln(1 - u) <= 2 u ln 2` up to 1/2.
const LOCAL: f64 = 1.665_109_222_315_395_4;

/// The number C of [`Mechanism::margin`].
fn margin(epsilon: f64, delta: Delta, users: u64, excess: f64, g: u64) -> Result<u64, Error> {
    require(delta.get() > 0.0, "delta", 0, "above 0 where noise is cut off")?;
    let rate = epsilon / g as f64;
    // ln of 2 (n/h) (1 + e^epsilon)/(delta (1 - p)), without e^epsilon.
    let log = (2.0 * excess).ln() + epsilon + (-epsilon).exp().ln_1p()
        - delta.get().ln()
        - (-(-rate).exp_m1()).ln();
    // The bound is solved for C in place of C + 1. The further step covers the rounding of a number below
    // 2^50.
    let margin = (log / rate).ceil();
    let bits = (g as f64 + 2.0 * margin) * users as f64;
    if !(margin < 2f64.powi(50) && bits < 2f64.powi(62)) {
        return Err(privacy::Error::Overflow { what: "the bits of all users", bits: 62 }.into());
    }
    Ok(margin as u64)
}

/// The least g, at least 1, with `g² >= factor² n`, in integers.
fn precision(factor: Ratio, users: u64) -> Result<u64, Error> {
    let overflow = privacy::Error::Overflow { what: "the precision of a share", bits: 128 };
    let square = |x: u128| x.checked_mul(x);
    let (top, bottom) = match (square(factor.num()), square(factor.den())) {
        (Some(num), Some(den)) => (num.checked_mul(u128::from(users)).ok_or(overflow)?, den),
        _ => return Err(overflow.into()),
    };
    let least = top.div_ceil(bottom);
    let root = least.isqrt();
    let g = (root + u128::from(root * root < least)).max(1);
    if g >= 1 << 40 {
        return Err(privacy::Error::Overflow { what: "the precision of a share", bits: 40 }.into());
    }
    Ok(g as u64)
}

impl Model {
    /// The name of the model in [`EliminationParameters`](super::EliminationParameters), and of the models
    /// that only simulations have.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pure => "pure",
            Self::Renyi { .. } => "renyi",
            Self::Concentrated { .. } => "concentrated",
            Self::Central => "central",
            Self::Local => "local",
            Self::Shuffle => "relaxed",
            Self::Bits { .. } => "shuffle",
        }
    }

    /// The noise that each user adds; `None` if users add none.
    pub const fn user_noise(self) -> Option<UserNoise> {
        match self {
            Self::None | Self::Central => None,
            Self::Pure | Self::Shuffle | Self::Bits { .. } => Some(UserNoise::Polya),
            Self::Renyi { .. } => Some(UserNoise::Skellam),
            Self::Concentrated { .. } => Some(UserNoise::DiscreteGaussian),
            Self::Local => Some(UserNoise::DiscreteLaplace),
        }
    }

    /// The delta at which the guarantee is stated, if it has one.
    pub const fn delta(self) -> Option<Delta> {
        match self {
            Self::Renyi { delta, .. } | Self::Concentrated { delta, .. } | Self::Bits { delta } => {
                Some(delta)
            }
            _ => None,
        }
    }

    /// The guarantee of a whole run for neighbours that differ in one user's reward. Batches have disjoint
    /// users, so it is that of the worst batch, which is the first one, of `first` users.
    ///
    /// # Errors
    /// [`Error::Privacy`] if `epsilon` is 0 or a `delta` is 0 where Renyi divergences are converted.
    pub fn privacy(self, epsilon: Ratio, first: u64, horizon: u64) -> Result<PrivacyStatement, Error> {
        const SUMS: &str = "Every sum that the server receives, hence every decision, for one user's reward";
        let e = Epsilon::new(epsilon.to_f64())?;
        let pure = |trust, rest: &str| {
            Ok(PrivacyStatement::pure(e, trust, Neighbours::ReplaceOne, format!("{SUMS}{rest}")))
        };
        let renyi = |curve: RdpCurve, delta| -> Result<PrivacyStatement, Error> {
            let (epsilon, order) = curve.epsilon(delta)?;
            let sentence = format!("{SUMS}; a bound on Renyi divergences, converted at order {order}.");
            Ok(PrivacyStatement::with_delta(
                Definition::Renyi,
                epsilon,
                delta,
                Trust::Distributed,
                Neighbours::ReplaceOne,
                sentence,
            )?)
        };
        match self {
            Self::None => Ok(PrivacyStatement::none("Sums are exact up to rounding.")),
            Self::Pure => pure(Trust::Distributed, ", if all users of a batch add their noise."),
            Self::Central => pure(Trust::Central, "; the server adds the noise."),
            Self::Local => pure(Trust::Local, "; so is every single message."),
            Self::Shuffle => pure(
                Trust::Shuffler,
                ", if users shuffle messages that tell no more than their sum, up to a factor e^(epsilon/4): a share sent as \
                 one number tells more. Where such a sum is wrong, as it may be with probability 1/(2T), accuracy suffers and \
                 not privacy.",
            ),
            Self::Bits { delta } => Ok(PrivacyStatement::with_delta(
                Definition::Approximate,
                e,
                delta,
                Trust::Shuffler,
                Neighbours::ReplaceOne,
                format!(
                    "{SUMS}, if all users of a batch add their noise, and the shuffler lets out nothing of their bits but the \
                     number of ones; delta is for noise that is cut off."
                ),
            )?),
            Self::Renyi { scale, delta } => {
                renyi(RdpCurve::Skellam { epsilon: e, scale: scale.to_f64(), batch: first.max(1) }, delta)
            }
            Self::Concentrated { scale, delta } => {
                let gap = gaussian_gap(scale.to_f64(), largest_batch(first, horizon));
                let total = (e.get().powi(2) + gap / 2.0).sqrt().min(e.get() + gap);
                renyi(RdpCurve::Zcdp(Rho::of_pure(Epsilon::new(total)?)?), delta)
            }
        }
    }
}

/// Number of users of the largest batch that can be complete, if batch b has `growth^b` users: at least two
/// arms had the batches before it. The paper's bound `T/2` holds if batches double; if they grow faster, the
/// first batch may have all users.
fn largest_batch(growth: u64, horizon: u64) -> u64 {
    let (mut before, mut users) = (0u64, 1);
    loop {
        let next = match growth.max(2).checked_mul(users) {
            Some(next) if before.saturating_add(next) <= horizon => next,
            _ => return users.max(horizon / 2),
        };
        (before, users) = (before.saturating_add(next.saturating_mul(2)), next);
    }
}

/// The distance of the sum of `n` discrete Gaussians from a discrete Gaussian: `xi = 10 sum over k < n of
/// e^(-2 pi² s² k/(k+1))` (Theorem 4, after Kairouz, Liu, Steinke 2021). The terms decrease in k, and those
/// after the first 65536 are bounded by the first of them.
fn gaussian_gap(scale: f64, n: u64) -> f64 {
    const SUMMED: u64 = 1 << 16;
    let term = |k: u64| (-2.0 * (std::f64::consts::PI * scale).powi(2) * k as f64 / (k + 1) as f64).exp();
    let last = n.saturating_sub(1);
    let head: f64 = (1..=last.min(SUMMED)).map(term).sum();
    10.0 * (head + last.saturating_sub(SUMMED) as f64 * term(SUMMED + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gap_of_gaussian_sums() {
        for (scale, horizon, want) in [(1.0, 10_000, 6.8e-4), (1.0, 1_000_000, 1.4e-2), (2.0, 10_000, 7e-17)]
        {
            let got = gaussian_gap(scale, largest_batch(2, horizon));
            assert!((got / want - 1.0).abs() < 0.08, "{scale} {horizon}: {got} against {want}");
        }
        assert_eq!(gaussian_gap(1.0, 1), 0.0);
        assert!((gaussian_gap(1.0, 2) / 10.0 - (-std::f64::consts::PI.powi(2)).exp()).abs() < 1e-15);
    }

    /// By hand; and a single batch of everybody is stated to cost more than batches that double.
    #[test]
    fn the_largest_batch_is_within_the_gap() {
        assert_eq!([2, 3, 7, 8].map(|horizon| largest_batch(2, horizon)), [2, 2, 3, 4]);
        assert_eq!(
            [99, 100, 10_000, 10_200].map(|horizon| largest_batch(100, horizon)),
            [49, 100, 5000, 10_000]
        );
        assert_eq!(largest_batch(u64::MAX, u64::MAX), u64::MAX);
        let model = Model::Concentrated { scale: Ratio::ONE, delta: Delta::new(1e-6).unwrap() };
        let epsilon = |growth| {
            let statement = model.privacy(Ratio::new(1, 100).unwrap(), growth, 1_000_000).unwrap();
            statement.epsilon.unwrap().get()
        };
        let (one, doubling) = (epsilon(1_000_000), epsilon(2));
        assert!(one > 1.4 * doubling, "{one} {doubling}");
    }

    /// In integers: a tenth of the root of 900 is 3, and 0.1 as a double would make it 4.
    #[test]
    fn precision_is_exact() {
        let tenth = Ratio::new(1, 10).unwrap();
        assert_eq!(precision(tenth, 900), Ok(3));
        assert_eq!(precision(tenth, 901), Ok(4));
        assert_eq!(precision(Ratio::from_f64(0.1).unwrap(), 900), Ok(4));
        assert_eq!(precision(tenth, 1), Ok(1));
        assert!(
            precision(Ratio::integer(1 << 50), 4).is_err()
                && precision(Ratio::new(u128::MAX, 1).unwrap(), 1).is_err()
        );
    }
}
