//! The two sides of the game: [`Policy`] and [`Environment`].

use crate::{Error, Features};
use privacy::PrivacyStatement;
use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Something that plays: sees a context, names an arm, learns from what comes back.
///
/// The associated types say what kind of game it plays: [`Features`] and a reward for linear contextual
/// bandits, `()` and a reward for plain ones, `()` and `[f64]` under full information, `()` and the sum of
/// all that arrives under anonymous composite feedback.
///
/// The whole state is serialisable: a policy that is stored and read back goes on as if nothing had happened.
/// All randomness is drawn from the argument.
pub trait Policy: Serialize + DeserializeOwned {
    /// What is shown before the arm is chosen.
    type Context: ?Sized;
    /// What is told after the arm was played.
    type Feedback: ?Sized;

    /// The guarantee of a whole run, for what decisions and releases reveal of one person.
    fn privacy(&self) -> PrivacyStatement;

    /// The arm to play, from 0. Ties go to the lowest.
    ///
    /// # Errors
    /// If `context` is not one that this policy was made for. The state is then unchanged.
    fn decide(&mut self, context: &Self::Context, rng: &mut dyn Rng) -> Result<usize, Error>;

    /// Takes in what came of playing `arm` in `context`; late and out of order is allowed unless the policy
    /// says no.
    ///
    /// # Errors
    /// If `context`, `arm` or `feedback` is not one that this policy was made for: the state is then
    /// unchanged. [`Error::Overflow`] if the statistics leave the range of `f64`.
    fn learn(
        &mut self,
        context: &Self::Context,
        arm: usize,
        feedback: &Self::Feedback,
        rng: &mut dyn Rng,
    ) -> Result<(), Error>;
}

/// Something that is played against.
///
/// Everything random about a round that does not depend on the arm is drawn in [`begin`](Self::begin), so
/// that two policies on equal seeds meet equal rounds.
pub trait Environment {
    /// What is shown before the arm is chosen.
    type Context: ?Sized;
    /// What is told after the arm was played.
    type Feedback: ?Sized;

    /// Number of arms.
    fn arms(&self) -> usize;

    /// Draws the next round; `false` if there is none left.
    fn begin(&mut self, rng: &mut dyn Rng) -> bool;

    /// The context of the round begun.
    ///
    /// # Errors
    /// [`Error::NoRound`] before the first round.
    fn context(&self) -> Result<&Self::Context, Error>;

    /// Plays `arm` in the round begun.
    ///
    /// # Errors
    /// [`Error::NoRound`] before the first round, [`Error::Arm`] if there is no such arm.
    fn play(&mut self, arm: usize, rng: &mut dyn Rng) -> Result<Outcome, Error>;

    /// What the policy is told after the play.
    ///
    /// # Errors
    /// [`Error::NoRound`] before the first play.
    fn feedback(&self) -> Result<&Self::Feedback, Error>;
}

/// What came of one play, for the record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// What was earned.
    pub reward: f64,
    /// Loss in expectation against the best arm of the round (pseudo-regret). Where expectations are unknown
    /// the environment says what stands here instead.
    pub regret: f64,
}

/// Plays every arm with equal probability and learns nothing: the baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniformRandom;

impl Policy for UniformRandom {
    type Context = Features;
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        PrivacyStatement::none("Decisions follow the number of arms alone.")
    }

    fn decide(&mut self, context: &Features, rng: &mut dyn Rng) -> Result<usize, Error> {
        Ok(rng.random_range(0..context.k()))
    }

    fn learn(&mut self, _: &Features, _: usize, _: &f64, _: &mut dyn Rng) -> Result<(), Error> {
        Ok(())
    }
}
