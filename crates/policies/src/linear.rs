//! Parameters of contextual bandits: linear and generalised linear.

use crate::Error;
use crate::config::{Parameters, Profile};
use crate::limits::{MAX_KEPT_ROUNDS, within};
use crate::state::Direct;
use bandit::{LinearConfig, Oful, Schedule, Width};
use glm::baseline::{Ecolog, GlmUcb, Gloc};
use glm::joint::{JointConfig, JointGlm};
use glm::{Link, Problem};
use privacy::budget::Epsilon;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfulParameters {
    arms: usize,
    features: usize,
    #[serde(default = "one")]
    lambda: f64,
    #[serde(default = "half")]
    alpha: f64,
}

impl Parameters for OfulParameters {
    const NAME: &'static str = "oful";
    type State = Direct<Oful>;

    fn profile(&self) -> Profile {
        Profile { in_turn: false, ..Profile::contextual(self.features, self.arms) }
    }

    fn make(&self) -> Result<Self::State, Error> {
        let &Self { arms, features, lambda, alpha } = self;
        Ok(Direct(Oful::new(LinearConfig {
            d: features,
            k: arms,
            lambda,
            delta: 0.05,
            l: 1.0,
            s: 1.0,
            sigma: 0.5,
            c: 1.0,
            eta: 0.1,
            width: Width::Constant { alpha },
            schedule: Schedule::EveryRound,
        })?))
    }
}

/// Parameters of a policy that follows a link and takes nothing else.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Linked {
    arms: usize,
    features: usize,
    horizon: u64,
    delta: f64,
    #[serde(default = "logistic")]
    link: Link,
    #[serde(default = "one")]
    s: f64,
    /// That of the whole ball unless it is given.
    #[serde(default)]
    kappa: Option<f64>,
}

impl Linked {
    /// The problem. Its horizon is bounded, since the policies keep every row.
    fn problem(&self) -> Result<Problem, Error> {
        let &Self { arms, features, horizon, delta, link, s, kappa } = self;
        within("horizon", horizon, MAX_KEPT_ROUNDS)?;
        let kappa = kappa.unwrap_or(link.kappa(s));
        Ok(Problem { d: features, k: arms, link, s, kappa, delta, horizon })
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RsGlinucbParameters(Linked);

impl Parameters for RsGlinucbParameters {
    const NAME: &'static str = "rs-glinucb";
    /// RS-GLinUCB is JointGLM without noise.
    type State = Direct<JointGlm>;

    fn profile(&self) -> Profile {
        Profile::contextual(self.0.features, self.0.arms)
    }

    fn make(&self) -> Result<Self::State, Error> {
        Ok(Direct(JointGlm::new(JointConfig::rs_glinucb(self.0.problem()?))?))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct GlocParameters(Linked);

impl Parameters for GlocParameters {
    const NAME: &'static str = "gloc";
    type State = Direct<Gloc>;

    fn profile(&self) -> Profile {
        Profile::contextual(self.0.features, self.0.arms)
    }

    fn make(&self) -> Result<Self::State, Error> {
        Ok(Direct(Gloc::new(self.0.problem()?)?))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GlmUcbParameters {
    arms: usize,
    features: usize,
    horizon: u64,
    delta: f64,
    #[serde(default = "logistic")]
    link: Link,
    #[serde(default = "one")]
    s: f64,
    #[serde(default)]
    kappa: Option<f64>,
    #[serde(default = "five")]
    refit_every: u64,
}

impl Parameters for GlmUcbParameters {
    const NAME: &'static str = "glm-ucb";
    type State = Direct<GlmUcb>;

    fn profile(&self) -> Profile {
        Profile::contextual(self.features, self.arms)
    }

    fn make(&self) -> Result<Self::State, Error> {
        let &Self { arms, features, horizon, delta, link, s, kappa, refit_every } = self;
        let problem = Linked { arms, features, horizon, delta, link, s, kappa }.problem()?;
        Ok(Direct(GlmUcb::new(problem, refit_every, false)?))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EcologParameters {
    arms: usize,
    features: usize,
    horizon: u64,
    delta: f64,
    #[serde(default = "one")]
    s: f64,
}

impl Parameters for EcologParameters {
    const NAME: &'static str = "ecolog";
    type State = Direct<Ecolog>;

    fn profile(&self) -> Profile {
        Profile::contextual(self.features, self.arms)
    }

    fn make(&self) -> Result<Self::State, Error> {
        let &Self { arms, features, horizon, delta, s } = self;
        let linked = Linked { arms, features, horizon, delta, link: Link::Logistic, s, kappa: None };
        Ok(Direct(Ecolog::new(linked.problem()?)?))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JointGlmParameters {
    arms: usize,
    features: usize,
    horizon: u64,
    epsilon: Epsilon,
    delta: f64,
    #[serde(default = "logistic")]
    link: Link,
    #[serde(default = "one")]
    s: f64,
    #[serde(default)]
    kappa: Option<f64>,
    gamma: f64,
    beta: f64,
}

impl Parameters for JointGlmParameters {
    const NAME: &'static str = "joint-glm";
    type State = Direct<JointGlm>;

    fn profile(&self) -> Profile {
        Profile::contextual(self.features, self.arms)
    }

    fn epsilon(&self) -> Option<Epsilon> {
        Some(self.epsilon)
    }

    fn make(&self) -> Result<Self::State, Error> {
        let &Self { arms, features, horizon, epsilon, delta, link, s, kappa, gamma, beta } = self;
        let problem = Linked { arms, features, horizon, delta, link, s, kappa }.problem()?;
        problem.check_delta()?;
        Ok(Direct(JointGlm::new(JointConfig::private(problem, epsilon, gamma, beta)?)?))
    }
}

fn one() -> f64 {
    1.0
}
fn half() -> f64 {
    0.5
}
fn five() -> u64 {
    5
}
fn logistic() -> Link {
    Link::Logistic
}
