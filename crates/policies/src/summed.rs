//! Parameters of policies that learn from sums of users' answers.

use crate::Error;
use crate::config::{PolicyConfig, PolicyParameters, Profile};
use crate::limits::{MAX_KEPT_ROUNDS, MAX_PLANNED_ROUNDS, within};
use crate::state::Direct;
use bandit::distributed::{self, Elimination, EliminationServer, IdealSum, Model};
use glm::shuffle::{self, ShuffleGlmServer};
use serde::{Deserialize, Serialize};
use wire::{FeedbackKind, LateRule};

/// The elimination with these parameters. The model determines the roles of the server.
pub(crate) fn elimination(parameters: distributed::EliminationParameters) -> PolicyConfig {
    match parameters.model() {
        Model::Central => PolicyConfig::new(CentralElimination(parameters)),
        _ => PolicyConfig::new(SummedElimination(parameters)),
    }
}

/// An elimination whose server receives every reward and adds the noise.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct CentralElimination(distributed::EliminationParameters);

/// An elimination whose users add the noise.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct SummedElimination(distributed::EliminationParameters);

impl PolicyParameters for CentralElimination {
    const NAME: &'static str = "elimination";
    type State = Direct<Elimination<IdealSum>>;

    fn profile(&self) -> Profile {
        Profile::of(self.0.arms()).private(self.0.epsilon())
    }

    fn make(&self) -> Result<Self::State, Error> {
        within("horizon", self.0.horizon(), MAX_KEPT_ROUNDS)?;
        Ok(Direct(Elimination::new(self.0.config()?, IdealSum)?))
    }

    fn fits(&self, state: &Self::State) -> bool {
        self.0.config().is_ok_and(|config| config == *state.0.stage().config())
    }
}

impl PolicyParameters for SummedElimination {
    const NAME: &'static str = "elimination";
    type State = EliminationServer;

    fn profile(&self) -> Profile {
        let feedback = if self.0.model() == Model::Local { FeedbackKind::Share } else { FeedbackKind::Batch };
        let profile = Profile::of(self.0.arms()).private(self.0.epsilon());
        Profile { feedback, users_add_noise: true, ..profile.late(LateRule::Batch) }
    }

    fn make(&self) -> Result<Self::State, Error> {
        within("horizon", self.0.horizon(), MAX_PLANNED_ROUNDS)?;
        Ok(EliminationServer::new(self.0.config()?)?)
    }

    fn fits(&self, state: &Self::State) -> bool {
        self.0.config().is_ok_and(|config| config == *state.stage().config())
    }
}

impl PolicyParameters for shuffle::ShuffleParameters {
    const NAME: &'static str = "shuffle-glm";
    const LEAST_EPSILON: f64 = shuffle::LEAST_EPSILON;
    type State = ShuffleGlmServer;

    fn profile(&self) -> Profile {
        let d = self.features;
        Profile {
            feedback: FeedbackKind::Batch,
            users_add_noise: true,
            devices_choose: true,
            calibrates: true,
            labels: d.saturating_mul(d.saturating_add(1)) / 2,
            ..Profile::of(self.arms).private(self.epsilon).late(LateRule::Batch)
        }
    }

    fn make(&self) -> Result<Self::State, Error> {
        crate::limits::check_shape(self.features, self.arms)?;
        Ok(ShuffleGlmServer::new(self.config()?)?)
    }
}
