//! Batched successive elimination (the paper's Algorithm 1).

use super::{Mechanism, Model, SecureSum, Stage};
use crate::{Error, Policy};
use privacy::{PrivacyStatement, Ratio};
use rand::Rng;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// What [`Elimination`] is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Number of arms, K.
    pub arms: usize,
    /// Number of users, T.
    pub horizon: u64,
    /// Who adds which noise.
    pub model: Model,
    /// Privacy of the run; rational, so that precision and noise are exact.
    pub epsilon: Ratio,
    /// p of widths and thresholds: `1/T` for the regret bound, 0.1 in the paper's experiments.
    pub confidence: f64,
    /// Batch b has `growth^b` users an arm; 2 in the paper's text, 4 in its experiments.
    pub growth: u64,
    /// Who draws the noise of the users.
    pub noise: NoiseAt,
    /// Part of each batch's users, rounded up, who may be made up or tell others what they added: the noise
    /// is enough without theirs, see [`Mechanism::with_colluding`]. 0 where users' noise does not add up.
    pub colluding: Ratio,
}

/// Who draws the noise that users add.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoiseAt {
    /// Each user its own, as deployed.
    #[default]
    Users,
    /// One draw a batch, of the same law: **simulation only**, since whoever draws it knows the sum.
    Sum,
    /// As [`Sum`](Self::Sum), in double precision where the exact law takes time in proportion to users or scale.
    Simulated,
}

/// The largest delta at which the guarantee of a new run may be stated. At this delta, publishing the reward
/// of one user in a hundred would count as private; a larger delta states too little.
pub const MOST_DELTA: f64 = 0.01;

/// Users of a batch, less one, at most.
const MOST_USERS: u64 = 1 << 40;

impl Config {
    /// The paper's theory: confidence `1/T`, batches that double.
    pub fn new(arms: usize, horizon: u64, model: Model, epsilon: Ratio) -> Self {
        let confidence = 1.0 / horizon.max(2) as f64;
        let (growth, noise, colluding) = (2, NoiseAt::Users, Ratio::ZERO);
        Self { arms, horizon, model, epsilon, confidence, growth, noise, colluding }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.arms == 0 {
            return Err(Error::Field { field: "arms", got: 0.0, want: "at least 1" });
        }
        if self.growth < 2 {
            return Err(Error::Field { field: "growth", got: self.growth as f64, want: "at least 2" });
        }
        if self.noise != NoiseAt::Users && self.colluding.num() > 0 {
            let want = "0 where not the users draw their noise";
            return Err(Error::Field { field: "colluding", got: self.colluding.to_f64(), want });
        }
        // Every batch there can be, and the one after the last.
        let mut number = 1;
        loop {
            let users = self.growth.checked_pow(number).filter(|users| *users < MOST_USERS);
            let Some(users) = users else {
                let want = "small enough for batches below 2^40 users up to the horizon";
                return Err(Error::Field { field: "growth", got: self.growth as f64, want });
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

    /// How many of `users` may collude.
    fn colluding(&self, users: u64) -> Result<u64, Error> {
        if !self.colluding.at_most_one() {
            let got = self.colluding.to_f64();
            return Err(Error::Field { field: "colluding", got, want: "a part of a batch's users" });
        }
        let part = self.colluding.times(Ratio::integer(users))?;
        // At most the users.
        Ok((part.floor() + u128::from(part.fract().num() > 0)) as u64)
    }

    /// Refuses a delta that is too large for the guarantee of a new run.
    ///
    /// # Errors
    /// [`Error::Field`] above [`MOST_DELTA`].
    pub fn check_delta(&self) -> Result<(), Error> {
        match self.model.delta().map(|delta| delta.get()).filter(|delta| *delta > MOST_DELTA) {
            Some(got) => Err(Error::Field {
                field: "delta",
                got,
                want: "at most 0.01: at 0.01, publishing one user's reward in a hundred would count as private",
            }),
            None => Ok(()),
        }
    }

    /// What a run promises.
    ///
    /// # Errors
    /// As [`Model::privacy`].
    pub fn privacy(&self) -> Result<PrivacyStatement, Error> {
        let first = match self.model {
            // Users whose noise is counted on: the precision follows from their number.
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

/// Plays each arm left for a batch of users in turn, and drops those whose mean plus width is below the best mean less
/// width. Only the newest batch counts. One arm left is played to the end, and its users send nothing.
///
/// - Privacy: [`Config::privacy`]. A reward is in a single share; a batch that the horizon cuts short is never sent.
/// - Cost: a share a round, `8 n` bytes while a batch is open; one secure sum a batch and arm.
/// - One decision, one reward.
///
/// # Source
/// Chowdhury, Zhou, Algorithm 1, with the widths of Lemma 2. Departure: p is a parameter.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(
    bound(deserialize = "S: SecureSum + Clone + Serialize + DeserializeOwned"),
    try_from = "State<S>",
    into = "State<S>"
)]
pub struct Elimination<S: Clone + Serialize>(State<S>);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State<S> {
    secure_sum: S,
    learnt: u64,
    decided: bool,
    /// Shares of the arm being played.
    shares: Vec<u64>,
    stage: Stage,
}

impl<S: SecureSum + Clone + Serialize> Elimination<S> {
    /// Nothing played yet.
    ///
    /// # Errors
    /// Those of [`Stage::new`].
    pub fn new(config: Config, secure_sum: S) -> Result<Self, Error> {
        let stage = Stage::new(config)?;
        Ok(Self(State { secure_sum, learnt: 0, decided: false, shares: Vec::new(), stage }))
    }

    /// What the server knows.
    pub fn stage(&self) -> &Stage {
        &self.0.stage
    }

    /// Arms left, in order.
    pub fn left(&self) -> &[usize] {
        self.0.stage.left()
    }

    /// What the run promises.
    ///
    /// # Errors
    /// None for a configuration that was accepted.
    pub fn privacy(&self) -> Result<PrivacyStatement, Error> {
        self.0.stage.config().privacy()
    }
}

impl<S: SecureSum> State<S> {
    /// Sends the batch of the arm being played; `last` is the share of its last user. Nothing has changed on error.
    fn send(&mut self, last: u64, rng: &mut dyn Rng) -> Result<(), Error> {
        self.shares.push(last);
        let sent = self.total(rng).and_then(|sum| self.stage.take(sum, rng));
        match sent {
            Ok(()) => self.shares.clear(),
            Err(_) => _ = self.shares.pop(),
        }
        sent
    }

    fn total(&mut self, rng: &mut dyn Rng) -> Result<u64, Error> {
        let mechanism = self.stage.mechanism();
        let sum = self.secure_sum.sum(&self.shares, mechanism.users(), mechanism.modulus(), rng)?;
        let noise = match self.stage.config().noise {
            NoiseAt::Users => 0,
            NoiseAt::Sum => mechanism.total_noise(rng)?,
            NoiseAt::Simulated => mechanism.simulated_noise(rng)?,
        };
        Ok(mechanism.residue(i128::from(sum), noise))
    }
}

impl<S: SecureSum + Clone + Serialize + DeserializeOwned> Policy for Elimination<S> {
    type Context = ();
    type Feedback = f64;

    /// # Errors
    /// [`Error::HorizonOver`] after T rounds.
    fn decide(&mut self, (): &(), _: &mut dyn Rng) -> Result<usize, Error> {
        let horizon = self.0.stage.config().horizon;
        if self.0.learnt >= horizon {
            return Err(Error::HorizonOver { horizon });
        }
        self.0.decided = true;
        Ok(self.0.stage.arm())
    }

    /// # Errors
    /// [`Error::OutOfTurn`], [`Error::Field`] if the reward is outside [0, 1]; [`Error::Privacy`] from the noise and
    /// whatever the secure sum adds. The state is then unchanged, and the round still waits for its reward.
    fn learn(&mut self, (): &(), arm: usize, reward: &f64, rng: &mut dyn Rng) -> Result<(), Error> {
        let state = &mut self.0;
        if !state.decided || state.stage.arm() != arm {
            return Err(Error::OutOfTurn { arm });
        }
        let (mechanism, choosing) = (state.stage.mechanism(), state.stage.left().len() > 1);
        let share = match state.stage.config().noise {
            NoiseAt::Users if choosing => mechanism.randomise(*reward, rng)?,
            _ => mechanism.encode(*reward, rng)?,
        };
        if choosing {
            if state.shares.len() as u64 + 1 == mechanism.users() {
                state.send(share, rng)?;
            } else {
                state.shares.push(share);
            }
        }
        state.learnt += 1;
        state.decided = false;
        Ok(())
    }
}

impl<S: SecureSum> TryFrom<State<S>> for Elimination<S>
where
    S: Clone + Serialize,
{
    type Error = Error;
    fn try_from(state: State<S>) -> Result<Self, Error> {
        let State { stage, learnt, shares, .. } = &state;
        let mechanism = stage.mechanism();
        let open =
            (shares.len() as u64) < mechanism.users() && shares.iter().all(|y| *y < mechanism.modulus());
        if !open || *learnt > stage.config().horizon {
            return Err(Error::State { what: "a batch that no run can reach" });
        }
        Ok(Self(state))
    }
}

impl<S: Clone + Serialize> From<Elimination<S>> for State<S> {
    fn from(policy: Elimination<S>) -> Self {
        policy.0
    }
}
