//! Parameters of an elimination, and the configuration that follows from them.

use super::{Mechanism, Model};
use crate::Error;
use fault::{OutOfRange, require};
use privacy::budget::{Delta, Epsilon};
use privacy::{PrivacyStatement, Ratio};
use serde::{Deserialize, Serialize};

/// The parameters of an elimination that a service and its devices exchange, as one flat JSON object.
///
/// The field `model` is one of `central`, `local`, `pure`, `renyi`, `concentrated` and `shuffle`, where
/// `shuffle` is [`Model::Bits`]. The fields `delta`, `scale` and `colluding` are accepted only with the
/// models that have them. Numbers that precision and noise follow from are decimals with at most six places,
/// which are exact as [`Ratio`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Flat", into = "Flat")]
pub struct EliminationParameters {
    arms: usize,
    horizon: u64,
    epsilon: Epsilon,
    model: Model,
    confidence: Option<f64>,
    growth: u64,
    colluding: Ratio,
}

impl EliminationParameters {
    /// Number of arms.
    pub const fn arms(&self) -> usize {
        self.arms
    }

    /// Number of users in all batches.
    pub const fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Epsilon of the run.
    pub const fn epsilon(&self) -> Epsilon {
        self.epsilon
    }

    /// The trust model.
    pub const fn model(&self) -> Model {
        self.model
    }

    /// The configuration. Users draw their noise; the confidence is `1/T` unless it is given.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if epsilon has more than six decimals.
    pub fn config(&self) -> Result<EliminationConfig, Error> {
        let &Self { arms, horizon, epsilon, model, confidence, growth, colluding } = self;
        let theory = EliminationConfig::new(arms, horizon, model, decimal("epsilon", epsilon.get())?);
        let confidence = confidence.unwrap_or(theory.confidence);
        Ok(EliminationConfig { confidence, growth, colluding, ..theory })
    }
}

/// [`EliminationParameters`] as they stand in JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flat {
    arms: usize,
    horizon: u64,
    epsilon: Epsilon,
    model: String,
    #[serde(default)]
    confidence: Option<f64>,
    #[serde(default = "two")]
    growth: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scale: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delta: Option<Delta>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    colluding: Option<f64>,
}

fn two() -> u64 {
    2
}

impl TryFrom<Flat> for EliminationParameters {
    type Error = String;

    fn try_from(flat: Flat) -> Result<Self, String> {
        let Flat { arms, horizon, epsilon, model, confidence, growth, scale, delta, colluding } = flat;
        // A parameter without effect is refused, since it would look like a guarantee.
        let only = |field: &str, models: &str| Err(format!("{field}: only the models {models} have one"));
        let (distributed, scaled, stated) = match model.as_str() {
            "central" | "local" => (false, false, false),
            "pure" => (true, false, false),
            "shuffle" => (true, false, true),
            "renyi" | "concentrated" => (true, true, true),
            _ => {
                let models = "central, local, pure, renyi, concentrated or shuffle";
                return Err(format!("model: `{model}` is none of {models}"));
            }
        };
        if delta.is_some() && !stated {
            return only("delta", "renyi, concentrated and shuffle");
        }
        if scale.is_some() && !scaled {
            return only("scale", "renyi and concentrated");
        }
        if colluding.is_some() && !distributed {
            return only("colluding", "pure, renyi, concentrated and shuffle");
        }
        let missing = "delta: missing, the guarantee of this model is stated at one";
        let delta = || delta.ok_or(missing);
        let exact = |field, x| decimal(field, x).map_err(|e| e.to_string());
        let scale = exact("scale", scale.unwrap_or(1.0))?;
        let colluding = match colluding {
            None | Some(0.0) => Ratio::ZERO,
            Some(part) => exact("colluding", part)?,
        };
        let model = match model.as_str() {
            "central" => Model::Central,
            "local" => Model::Local,
            "pure" => Model::Pure,
            "renyi" => Model::Renyi { scale, delta: delta()? },
            "concentrated" => Model::Concentrated { scale, delta: delta()? },
            _ => Model::Bits { delta: delta()? },
        };
        Ok(Self { arms, horizon, epsilon, model, confidence, growth, colluding })
    }
}

impl From<EliminationParameters> for Flat {
    fn from(parameters: EliminationParameters) -> Self {
        let EliminationParameters { arms, horizon, epsilon, model, confidence, growth, colluding } =
            parameters;
        let scale = match model {
            Model::Renyi { scale, .. } | Model::Concentrated { scale, .. } => Some(scale.to_f64()),
            _ => None,
        };
        // 0 is the default and is left out.
        let colluding = (colluding != Ratio::ZERO).then(|| colluding.to_f64());
        let (model, delta) = (model.name().into(), model.delta());
        Self { arms, horizon, epsilon, model, confidence, growth, scale, delta, colluding }
    }
}

/// The rational that the decimal `x` was written as.
fn decimal(field: &'static str, x: f64) -> Result<Ratio, Error> {
    const UNIT: f64 = 1e6;
    let units = (x * UNIT).round();
    require(
        units > 0.0 && units < 1e12 && units / UNIT == x,
        field,
        x,
        "above 0, below 10⁶, with at most six decimals",
    )?;
    Ok(Ratio::new(units as u128, UNIT as u128)?)
}

/// Configuration of [`Elimination`](super::Elimination) and its roles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EliminationConfig {
    /// Number of arms, K.
    pub arms: usize,
    /// Number of users, T.
    pub horizon: u64,
    /// The trust model.
    pub model: Model,
    /// Epsilon of the run, as a rational, so that precision and noise are exact.
    pub epsilon: Ratio,
    /// The probability p of widths and thresholds: `1/T` for the regret bound, 0.1 in the paper's
    /// experiments.
    pub confidence: f64,
    /// Batch b has `growth^b` users per arm; 2 in the paper's text, 4 in its experiments.
    pub growth: u64,
    /// The draw of the users' noise.
    pub noise: NoiseAt,
    /// The fraction of each batch's users, rounded up, who may collude or not exist, see
    /// [`Mechanism::with_colluding`]. Must be 0 if the users' noise does not add up.
    pub colluding: Ratio,
}

/// The draw of the users' noise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoiseAt {
    /// Each user draws its own noise, as deployed.
    #[default]
    Users,
    /// One draw per batch with the distribution of the sum, for **simulation only**, since the party that
    /// draws it knows the exact sum.
    Sum,
    /// As [`Sum`](Self::Sum), in double precision if the exact distribution takes time proportional to users
    /// or scale.
    Simulated,
}

/// The largest delta at which the guarantee of a new run may be stated. At this delta, publishing the reward
/// of one user in a hundred would count as private; a larger delta states too little.
pub const MOST_DELTA: f64 = 0.01;

/// Upper bound on the number of users of a batch, excluded.
const MOST_USERS: u64 = 1 << 40;

impl EliminationConfig {
    /// The configuration of the paper's theorems: confidence `1/T`, and batches that double.
    pub fn new(arms: usize, horizon: u64, model: Model, epsilon: Ratio) -> Self {
        let confidence = 1.0 / horizon.max(2) as f64;
        let (growth, noise, colluding) = (2, NoiseAt::Users, Ratio::ZERO);
        Self { arms, horizon, model, epsilon, confidence, growth, noise, colluding }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        require(self.arms > 0, "arms", 0, "at least 1")?;
        require(self.growth >= 2, "growth", self.growth, "at least 2")?;
        require(
            self.noise == NoiseAt::Users || self.colluding.num() == 0,
            "colluding",
            self.colluding.to_f64(),
            "0 where not the users draw their noise",
        )?;
        // All batches up to the horizon, and the next one.
        let mut number = 1;
        loop {
            let users = self.growth.checked_pow(number).filter(|users| *users < MOST_USERS);
            let Some(users) = users else {
                let want = "small enough for batches below 2^40 users up to the horizon";
                return Err(OutOfRange::new("growth", self.growth, want).into());
            };
            self.mechanism(number)?;
            if users / self.growth >= self.horizon {
                break;
            }
            number += 1;
        }
        self.privacy().map(|_| ())
    }

    /// The mechanism of batch `number`, from 1.
    ///
    /// # Errors
    /// As [`Mechanism::new`]; [`Error::Overflow`] if the batch has `2^40` users or more.
    pub fn mechanism(&self, number: u32) -> Result<Mechanism, Error> {
        let users = self.growth.checked_pow(number).filter(|n| *n < MOST_USERS).ok_or(Error::Overflow)?;
        let colluding = self.colluding(users)?;
        Mechanism::with_colluding(self.model, self.epsilon, users, colluding, self.confidence, self.horizon)
    }

    /// The number of `users` that may collude.
    fn colluding(&self, users: u64) -> Result<u64, Error> {
        if !self.colluding.at_most_one() {
            let got = self.colluding.to_f64();
            return Err(OutOfRange::new("colluding", got, "a part of a batch's users").into());
        }
        let part = self.colluding.times(Ratio::integer(users))?;
        // The number is at most `users`.
        Ok((part.floor() + u128::from(part.fract().num() > 0)) as u64)
    }

    /// Refuses a delta that is too large for the guarantee of a new run.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] above [`MOST_DELTA`].
    pub fn check_delta(&self) -> Result<(), Error> {
        match self.model.delta().map(|delta| delta.get()).filter(|delta| *delta > MOST_DELTA) {
            Some(got) => Err(OutOfRange::new(
                "delta",
                got,
                "at most 0.01: at 0.01, publishing one user's reward in a hundred would count as private",
            )
            .into()),
            None => Ok(()),
        }
    }

    /// The guarantee of a run.
    ///
    /// # Errors
    /// As [`Model::privacy`].
    pub fn privacy(&self) -> Result<PrivacyStatement, Error> {
        let first = match self.model {
            // The precision depends on the number of users whose noise the guarantee relies on.
            Model::Renyi { .. } => self.growth.saturating_sub(self.colluding(self.growth)?),
            _ => self.growth,
        };
        let mut statement = self.model.privacy(self.epsilon, first, self.horizon)?;
        if self.colluding.num() > 0 {
            let part = self.colluding.to_f64();
            statement.sentence += &format!(
                " Noise is counted on of all users of a batch but a part of {part}, who may be made up."
            );
        }
        Ok(statement)
    }
}
