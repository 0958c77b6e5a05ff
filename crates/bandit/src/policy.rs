//! The two interfaces of a bandit: [`Policy`] and [`Environment`].

use crate::{Error, Features};
use privacy::PrivacyStatement;
use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A bandit algorithm: it observes a context, chooses an arm, and learns from the feedback.
///
/// The associated types name the kind of bandit: [`Features`] and a reward for contextual bandits, `()` and a
/// reward for plain ones, `()` and the rewards of all arms under full information, `()` and the sum of all
/// rewards that arrive under delayed anonymous feedback.
///
/// The whole state is serialisable: a policy that is stored and read back continues exactly. All randomness
/// is drawn from the argument `rng`.
pub trait Policy: Serialize + DeserializeOwned {
    /// Type of the context, which the policy sees before it chooses an arm.
    type Context: ?Sized;
    /// Type of the feedback, which the policy gets after the arm was played.
    type Feedback: ?Sized;

    /// The privacy guarantee of a whole run: how much decisions and releases reveal about one person.
    fn privacy(&self) -> PrivacyStatement;

    /// What has been learnt, as far as [`privacy`](Self::privacy) covers its release: anybody may read it.
    fn learnt(&self) -> Learnt {
        Learnt::default()
    }

    /// What a user must know who expects much of this policy: that its constants make it play at random.
    fn caution(&self) -> Option<String> {
        None
    }

    /// The arm to play, from 0; the lowest of several that are equally good.
    ///
    /// # Errors
    /// If `context` is outside the shape or range of this policy. The state is then unchanged.
    fn decide(&mut self, context: &Self::Context, rng: &mut dyn Rng) -> Result<usize, Error>;

    /// As [`decide`](Self::decide), where the arms a with `open[a]` alone may be played, and the rows of the
    /// others do not count. At least one arm is open.
    ///
    /// # Errors
    /// As [`decide`](Self::decide); [`Error::ClosedArms`] for a policy that does not have it.
    fn decide_open(
        &mut self,
        context: &Self::Context,
        open: &[bool],
        rng: &mut dyn Rng,
    ) -> Result<usize, Error> {
        if open.contains(&false) { Err(Error::ClosedArms) } else { self.decide(context, rng) }
    }

    /// What [`learn`](Self::learn) must know of the last decision besides its context and arm, if other
    /// decisions are made before its feedback comes.
    fn mark(&self) -> u64 {
        0
    }

    /// Makes the decision that had this [`mark`](Self::mark) the one that is learnt next.
    fn recall(&mut self, _mark: u64) {}

    /// Learns from the feedback on playing `arm` in `context`. Feedback may be late and out of order unless
    /// the policy documents otherwise.
    ///
    /// # Errors
    /// If `context`, `arm` or `feedback` is outside the shape or range of this policy; the state is then
    /// unchanged. [`Error::Overflow`] if the statistics leave the range of `f64`.
    fn learn(
        &mut self,
        context: &Self::Context,
        arm: usize,
        feedback: &Self::Feedback,
        rng: &mut dyn Rng,
    ) -> Result<(), Error>;
}

/// What a policy shows of what it has learnt. A field that it does not know, or must not show, is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Learnt {
    /// Number of learnt plays of each arm.
    pub pulls: Option<Vec<u64>>,
    /// Mean reward of each arm as released, with the noise of the guarantee, so that it may be outside of the
    /// range of rewards; `None` for an arm without a release.
    pub means: Option<Vec<Option<f64>>>,
    /// The arms that are not eliminated.
    pub left: Option<Vec<usize>>,
    /// The arm that the last release chose, which is played until the next one.
    pub leader: Option<usize>,
    /// The probability with which each arm is drawn next.
    pub probabilities: Option<Vec<f64>>,
    /// The estimate of the parameter by which arms are chosen.
    pub theta: Option<Vec<f64>>,
}

impl Learnt {
    /// Pulls, and means of the arms that were pulled.
    pub(crate) fn sums(pulls: impl Iterator<Item = u64>, sums: impl Iterator<Item = f64>) -> Self {
        let pulls: Vec<u64> = pulls.collect();
        let mean = |(n, sum): (&u64, f64)| (*n > 0).then(|| sum / *n as f64);
        let means = pulls.iter().zip(sums).map(mean).collect();
        Self { pulls: Some(pulls), means: Some(means), ..Self::default() }
    }
}

/// A source of contexts and rewards.
///
/// All randomness of a round that does not depend on the arm is drawn in [`begin`](Self::begin), so that two
/// policies on equal seeds see equal rounds.
pub trait Environment {
    /// Type of the context, which the policy sees before it chooses an arm.
    type Context: ?Sized;
    /// Type of the feedback, which the policy gets after the arm was played.
    type Feedback: ?Sized;

    /// Number of arms.
    fn arms(&self) -> usize;

    /// Draws the next round. Returns `false` if there is none left.
    fn begin(&mut self, rng: &mut dyn Rng) -> bool;

    /// The context of the current round.
    ///
    /// # Errors
    /// [`Error::NoRound`] before the first round.
    fn context(&self) -> Result<&Self::Context, Error>;

    /// Plays `arm` in the current round.
    ///
    /// # Errors
    /// [`Error::NoRound`] before the first round, [`Error::Arm`] if there is no such arm.
    fn play(&mut self, arm: usize, rng: &mut dyn Rng) -> Result<Outcome, Error>;

    /// The feedback on the play of the current round.
    ///
    /// # Errors
    /// [`Error::NoRound`] before the first play.
    fn feedback(&self) -> Result<&Self::Feedback, Error>;
}

/// Reward and regret of one play.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// The reward.
    pub reward: f64,
    /// Pseudo-regret: the expected reward of the best arm of the round less that of the arm played.
    /// Environments whose expectations are unknown document another measure.
    pub regret: f64,
}

/// A baseline that plays each arm with equal probability and ignores its feedback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniformRandom;

impl Policy for UniformRandom {
    type Context = Features;
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        PrivacyStatement::none("Decisions depend on the number of arms alone.")
    }

    fn decide(&mut self, context: &Features, rng: &mut dyn Rng) -> Result<usize, Error> {
        Ok(rng.random_range(0..context.k()))
    }

    fn learn(&mut self, _: &Features, _: usize, _: &f64, _: &mut dyn Rng) -> Result<(), Error> {
        Ok(())
    }
}
