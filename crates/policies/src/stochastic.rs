//! Parameters of policies without contexts, for bandit feedback and for full information.

use crate::Error;
use crate::config::{Profile, policy};
use crate::limits::grid;
use bandit::stochastic::{AnytimeLazyUcb, DpSe, FollowTheNoisyLeader, HybridUcb, NoisyMax, Tree, Ucb1};
use privacy::budget::{Epsilon, Neighbours};
use privacy::laplace::GridLaplace;
use serde::{Deserialize, Serialize};
use wire::FeedbackKind;

policy! {
    "anytime-lazy-ucb", AnytimeLazyUcbParameters { arms: usize, epsilon: Epsilon } => AnytimeLazyUcb<GridLaplace>;
    profile(p) Profile::of(p.arms).private(p.epsilon);
    make(p) AnytimeLazyUcb::new(p.arms, p.epsilon, grid()?)?
}

policy! {
    "hybrid-ucb", HybridUcbParameters { arms: usize, epsilon: Epsilon } => HybridUcb<GridLaplace>;
    profile(p) Profile::of(p.arms).private(p.epsilon);
    make(p) HybridUcb::new(p.arms, p.epsilon, Tree::Corrected, grid()?)?
}

policy! {
    "dp-se", DpSeParameters { arms: usize, epsilon: Epsilon, beta: f64 } => DpSe<GridLaplace>;
    profile(p) Profile::of(p.arms).private(p.epsilon);
    make(p) DpSe::new(p.arms, p.epsilon, p.beta, grid()?)?
}

policy! {
    "ucb1", Ucb1Parameters { arms: usize } => Ucb1;
    profile(p) Profile::of(p.arms);
    make(p) Ucb1::new(p.arms)?
}

policy! {
    "follow-the-noisy-leader",
    NoisyLeaderParameters {
        arms: usize,
        epsilon: Epsilon,
        #[serde(default = "replace_one")]
        neighbours: Neighbours,
        #[serde(default)]
        private: Output,
    } => FollowTheNoisyLeader<GridLaplace>;
    profile(p) Profile::of(p.arms).private(p.epsilon).from(FeedbackKind::Rewards);
    make(p) FollowTheNoisyLeader::new(p.arms, p.noisy_max()?, grid()?)?
}

policy! {
    "follow-the-leader", LeaderParameters { arms: usize } => FollowTheNoisyLeader<GridLaplace>;
    profile(p) Profile::of(p.arms).from(FeedbackKind::Rewards);
    make(p) FollowTheNoisyLeader::new(p.arms, NoisyMax::Exact, grid()?)?
}

/// The output of the noisy leader that the guarantee covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Output {
    /// The leader alone.
    #[default]
    Leader,
    /// Every noisy sum: the naive form.
    Sums,
}

impl NoisyLeaderParameters {
    fn noisy_max(&self) -> Result<NoisyMax, Error> {
        let &Self { epsilon, neighbours, private, .. } = self;
        match (private, neighbours) {
            (Output::Leader, _) => Ok(NoisyMax::Leader { epsilon, neighbours }),
            (Output::Sums, Neighbours::ReplaceOne) => Ok(NoisyMax::EverySum { epsilon }),
            _ => {
                let why = "neighbours: must be replace_one where every sum is private".into();
                Err(Error::Parameter { why })
            }
        }
    }
}

fn replace_one() -> Neighbours {
    Neighbours::ReplaceOne
}
