//! Batched successive elimination (the paper's Algorithm 1) with all roles in one policy.

use super::{EliminationConfig, NoiseAt, SecureSum, Stage};
use crate::{Error, Learnt, Policy};
use privacy::PrivacyStatement;
use rand::Rng;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Successive elimination in batches. It plays each remaining arm for one batch of users, and then eliminates
/// the arms whose mean in this batch plus width is below the best mean minus width. The last remaining arm is
/// played to the end, and its users send nothing.
///
/// - Privacy: [`EliminationConfig::privacy`]. A reward is in one share; a batch that the horizon leaves
///   incomplete is never sent.
/// - Cost: one share per round, `8 n` bytes for the current batch, and one secure sum per batch and arm.
/// - Each decision must get its reward before the next one.
///
/// # Source
/// Chowdhury, Zhou, Algorithm 1, with the widths of Lemma 2. Departure: p is a parameter.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(deserialize = "S: SecureSum + Clone + Serialize + DeserializeOwned"), try_from = "State<S>")]
pub struct Elimination<S: Clone + Serialize>(State<S>);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State<S> {
    secure_sum: S,
    learnt: u64,
    decided: bool,
    /// Shares of the current batch.
    shares: Vec<u64>,
    stage: Stage,
}

impl<S: SecureSum + Clone + Serialize> Elimination<S> {
    /// The policy before the first round.
    ///
    /// # Errors
    /// Those of [`Stage::new`].
    pub fn new(config: EliminationConfig, secure_sum: S) -> Result<Self, Error> {
        let stage = Stage::new(config)?;
        Ok(Self(State { secure_sum, learnt: 0, decided: false, shares: Vec::new(), stage }))
    }

    /// The state of the server.
    pub fn stage(&self) -> &Stage {
        &self.0.stage
    }

    /// The remaining arms, in order.
    pub fn left(&self) -> &[usize] {
        self.0.stage.left()
    }
}

impl<S: SecureSum> State<S> {
    /// Sends the current batch, whose last user has the share `last`. The state is unchanged on an error.
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

    /// [`EliminationConfig::privacy`], which can be stated for every configuration that was accepted.
    fn privacy(&self) -> PrivacyStatement {
        let stated = self.0.stage.config().privacy();
        stated.unwrap_or_else(|e| PrivacyStatement::none(e.to_string()))
    }

    fn learnt(&self) -> Learnt {
        self.stage().learnt()
    }

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
    /// [`Error::OutOfTurn`]; [`Error::OutOfRange`] if the reward is outside [0, 1]; [`Error::Privacy`] from
    /// the noise; those of the secure sum. The state is then unchanged, and the round still waits for its
    /// reward.
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
