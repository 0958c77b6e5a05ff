//! Parameters of stochastic bandits without contexts, and of full information.

use crate::Error;
use crate::config::{Parameters, Profile};
use crate::limits::grid;
use crate::state::Direct;
use bandit::stochastic::{AnytimeLazyUcb, DpSe, FollowTheNoisyLeader, HybridUcb, NoisyMax, Tree, Ucb1};
use privacy::budget::{Epsilon, Neighbours};
use privacy::laplace::GridLaplace;
use serde::{Deserialize, Serialize};
use wire::FeedbackKind;

/// Parameters of a policy that takes nothing but the number of arms.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arms {
    arms: usize,
}

/// Parameters of a private policy that takes nothing else.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PrivateArms {
    arms: usize,
    epsilon: Epsilon,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct AnytimeLazyUcbParameters(PrivateArms);

impl Parameters for AnytimeLazyUcbParameters {
    const NAME: &'static str = "anytime-lazy-ucb";
    type State = Direct<AnytimeLazyUcb<GridLaplace>>;

    fn profile(&self) -> Profile {
        Profile::of(self.0.arms)
    }

    fn epsilon(&self) -> Option<Epsilon> {
        Some(self.0.epsilon)
    }

    fn make(&self) -> Result<Self::State, Error> {
        Ok(Direct(AnytimeLazyUcb::new(self.0.arms, self.0.epsilon, grid()?)?))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct HybridUcbParameters(PrivateArms);

impl Parameters for HybridUcbParameters {
    const NAME: &'static str = "hybrid-ucb";
    type State = Direct<HybridUcb<GridLaplace>>;

    fn profile(&self) -> Profile {
        Profile::of(self.0.arms)
    }

    fn epsilon(&self) -> Option<Epsilon> {
        Some(self.0.epsilon)
    }

    fn make(&self) -> Result<Self::State, Error> {
        Ok(Direct(HybridUcb::new(self.0.arms, self.0.epsilon, Tree::Corrected, grid()?)?))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DpSeParameters {
    arms: usize,
    epsilon: Epsilon,
    beta: f64,
}

impl Parameters for DpSeParameters {
    const NAME: &'static str = "dp-se";
    type State = Direct<DpSe<GridLaplace>>;

    fn profile(&self) -> Profile {
        Profile::of(self.arms)
    }

    fn epsilon(&self) -> Option<Epsilon> {
        Some(self.epsilon)
    }

    fn make(&self) -> Result<Self::State, Error> {
        Ok(Direct(DpSe::new(self.arms, self.epsilon, self.beta, grid()?)?))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Ucb1Parameters(Arms);

impl Parameters for Ucb1Parameters {
    const NAME: &'static str = "ucb1";
    type State = Direct<Ucb1>;

    fn profile(&self) -> Profile {
        Profile::of(self.0.arms)
    }

    fn make(&self) -> Result<Self::State, Error> {
        Ok(Direct(Ucb1::new(self.0.arms)?))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoisyLeaderParameters {
    arms: usize,
    epsilon: Epsilon,
    #[serde(default = "replace_one")]
    neighbours: Neighbours,
    #[serde(default)]
    private: Output,
}

/// The output of the noisy leader that the guarantee covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Output {
    /// The leader alone.
    #[default]
    Leader,
    /// Every noisy sum: the naive form.
    Sums,
}

fn replace_one() -> Neighbours {
    Neighbours::ReplaceOne
}

/// The profile of a policy that learns from the rewards of all arms.
const fn full_information(arms: usize) -> Profile {
    Profile { feedback: FeedbackKind::Rewards, ..Profile::of(arms) }
}

impl Parameters for NoisyLeaderParameters {
    const NAME: &'static str = "follow-the-noisy-leader";
    type State = Direct<FollowTheNoisyLeader<GridLaplace>>;

    fn profile(&self) -> Profile {
        full_information(self.arms)
    }

    fn epsilon(&self) -> Option<Epsilon> {
        Some(self.epsilon)
    }

    fn make(&self) -> Result<Self::State, Error> {
        let &Self { arms, epsilon, neighbours, private } = self;
        let max = match (private, neighbours) {
            (Output::Leader, _) => NoisyMax::Leader { epsilon, neighbours },
            (Output::Sums, Neighbours::ReplaceOne) => NoisyMax::EverySum { epsilon },
            _ => {
                let why = "neighbours: must be replace_one where every sum is private".into();
                return Err(Error::Parameter { why });
            }
        };
        Ok(Direct(FollowTheNoisyLeader::new(arms, max, grid()?)?))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct LeaderParameters(Arms);

impl Parameters for LeaderParameters {
    const NAME: &'static str = "follow-the-leader";
    type State = Direct<FollowTheNoisyLeader<GridLaplace>>;

    fn profile(&self) -> Profile {
        full_information(self.0.arms)
    }

    fn make(&self) -> Result<Self::State, Error> {
        Ok(Direct(FollowTheNoisyLeader::new(self.0.arms, NoisyMax::Exact, grid()?)?))
    }
}
