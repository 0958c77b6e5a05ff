//! The registry: names, parameters and state of every policy in the clear. A new policy is a variant of [`Config`] and of
//! [`Learner`], a line in [`Config::make`] and one in `offers.rs`.

mod offers;

pub(crate) use offers::offers;

use crate::Error;
use crate::collect::{ShuffledGlm, Sums};
use bandit::anonymous::{
    ArsClw, ArsClwConfig, ArsExp3, ArsExp3Config, ArsUcb, ArsUcbConfig, Clw, ClwConfig, MAX_SLOTS, Odaaf,
    OdaafConfig, OdaafRule, RoundSize, UpdateRule,
};
use bandit::distributed::{Elimination, IdealSum, Model, NoiseAt};
use bandit::stochastic::{AnytimeLazyUcb, DpSe, FollowTheNoisyLeader, HybridUcb, NoisyMax, Tree, Ucb1};
use bandit::{Features, LinearConfig, Oful, Policy, Schedule, Width};
use glm::baseline::{Ecolog, GlmUcb, Gloc};
use glm::joint::{JointConfig, JointGlm};
use glm::shuffle::{Estimator, Protection, ShuffleConfig};
use glm::{Link, Problem};
use privacy::budget::{Delta, Epsilon, Neighbours};
use privacy::laplace::GridLaplace;
use privacy::{PrivacyStatement, Ratio};
use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wire::{ClearFeedback, FeedbackKind};

/// Arms at most; a request cannot make the server allocate more than some MB.
const MAX_ARMS: usize = 4096;
/// Features of all arms at most, and of one: a commit writes statistics of d² numbers for each tree level.
const MAX_VALUES: usize = 1 << 14;
const MAX_FEATURES: usize = 64;
/// Rounds of policies that keep every row, or work out their whole schedule beforehand.
const MAX_KEPT_ROUNDS: u64 = 100_000;
const MAX_PLANNED_ROUNDS: u64 = 1_000_000_000;
/// Batches and users whose noise is calibrated exactly, which takes up to a second a batch.
const MAX_BATCHES: u64 = 8;
const MAX_SHUFFLED_USERS: u64 = 1_000_000;
/// Sums that one batch may ask of its users.
const MAX_STEPS: u32 = 1000;
/// Rewards are in steps of 2⁻²⁰, and so is the noise.
const GRID_BITS: u32 = 20;

/// What a bandit in the clear is told beforehand: `{"policy": NAME, PARAMETER: …}` in a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Config {
    AnytimeLazyUcb {
        arms: usize,
        epsilon: Epsilon,
    },
    HybridUcb {
        arms: usize,
        epsilon: Epsilon,
    },
    DpSe {
        arms: usize,
        epsilon: Epsilon,
        beta: f64,
    },
    Ucb1 {
        arms: usize,
    },
    FollowTheNoisyLeader {
        arms: usize,
        epsilon: Epsilon,
        #[serde(default = "replace_one")]
        neighbours: Neighbours,
        #[serde(default)]
        private: Released,
    },
    FollowTheLeader {
        arms: usize,
    },
    Elimination {
        arms: usize,
        horizon: u64,
        epsilon: Epsilon,
        model: ModelName,
        #[serde(default)]
        confidence: Option<f64>,
        #[serde(default = "two")]
        growth: u64,
        #[serde(default = "one")]
        scale: f64,
        #[serde(default)]
        delta: Option<Delta>,
    },
    ArsUcb {
        arms: usize,
        #[serde(default = "four")]
        alpha: f64,
        #[serde(default = "squares")]
        round_size: RoundSize,
    },
    ArsExp3 {
        arms: usize,
        horizon: u64,
        #[serde(default = "half")]
        beta: f64,
    },
    ArsClw {
        arms: usize,
        #[serde(default = "sixty_four")]
        first: u64,
        #[serde(default = "three")]
        root: u32,
    },
    Clw {
        arms: usize,
        horizon: u64,
        interval: u32,
        #[serde(default = "spaced")]
        rule: UpdateRule,
    },
    Odaaf {
        arms: usize,
        horizon: u64,
        rule: OdaafRule,
    },
    Oful {
        arms: usize,
        features: usize,
        #[serde(default = "one")]
        lambda: f64,
        #[serde(default = "half")]
        alpha: f64,
    },
    RsGlinucb {
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
    },
    GlmUcb {
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
    },
    Gloc {
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
    },
    Ecolog {
        arms: usize,
        features: usize,
        horizon: u64,
        delta: f64,
        #[serde(default = "one")]
        s: f64,
    },
    JointGlm {
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
    },
    ShuffleGlm {
        arms: usize,
        features: usize,
        batches: Vec<u64>,
        epsilon: Epsilon,
        delta: f64,
        #[serde(default = "logistic")]
        link: Link,
        #[serde(default = "one")]
        s: f64,
        #[serde(default)]
        kappa: Option<f64>,
        gamma: f64,
        #[serde(default = "one")]
        lambda: f64,
        steps: u32,
    },
}

/// [`Model`] by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ModelName {
    Central,
    Local,
    Pure,
    Renyi,
    Concentrated,
    Shuffle,
}

/// What of the noisy leader is private.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Released {
    /// The leader alone.
    #[default]
    Leader,
    /// Every noisy sum: the naive form.
    Sums,
}

fn replace_one() -> Neighbours {
    Neighbours::ReplaceOne
}
fn two() -> u64 {
    2
}
fn four() -> f64 {
    4.0
}
fn five() -> u64 {
    5
}
fn three() -> u32 {
    3
}
fn sixty_four() -> u64 {
    64
}
fn spaced() -> UpdateRule {
    UpdateRule::Spaced
}
fn one() -> f64 {
    1.0
}
fn half() -> f64 {
    0.5
}
fn squares() -> RoundSize {
    RoundSize::SQUARES
}
fn logistic() -> Link {
    Link::Logistic
}

/// State of a policy; stored and read back it goes on exactly.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Learner {
    AnytimeLazyUcb(AnytimeLazyUcb<GridLaplace>),
    HybridUcb(HybridUcb<GridLaplace>),
    DpSe(DpSe<GridLaplace>),
    Ucb1(Ucb1),
    Leader(FollowTheNoisyLeader<GridLaplace>),
    Elimination(Box<Elimination<IdealSum>>),
    Sums(Box<Sums>),
    ArsUcb(ArsUcb),
    ArsExp3(ArsExp3),
    ArsClw(Box<ArsClw>),
    Clw(Box<Clw>),
    Odaaf(Box<Odaaf>),
    Oful(Box<Oful>),
    GlmUcb(Box<GlmUcb>),
    Gloc(Box<Gloc>),
    Ecolog(Box<Ecolog>),
    /// RS-GLinUCB as well: it is JointGLM without noise.
    JointGlm(Box<JointGlm>),
    ShuffledGlm(Box<ShuffledGlm>),
}

/// For each policy that sees no context and learns from one number.
macro_rules! plain {
    ($learner:expr, $policy:ident => $does:expr, $($other:pat => $then:expr,)+) => {
        match $learner {
            Learner::AnytimeLazyUcb($policy) => $does,
            Learner::HybridUcb($policy) => $does,
            Learner::DpSe($policy) => $does,
            Learner::Ucb1($policy) => $does,
            Learner::Elimination($policy) => $does,
            Learner::ArsUcb($policy) => $does,
            Learner::ArsExp3($policy) => $does,
            Learner::ArsClw($policy) => $does,
            Learner::Clw($policy) => $does,
            Learner::Odaaf($policy) => $does,
            $($other => $then,)+
        }
    };
}

impl Learner {
    /// The arm to play; `None` if devices choose. Does not use data in any way that a release has not paid for.
    pub(crate) fn decide(
        &mut self,
        context: Option<&Features>,
        rng: &mut dyn Rng,
    ) -> Result<Option<usize>, Error> {
        let seen = || context.ok_or(Error::Broken("a contextual policy without a context"));
        Ok(Some(plain!(self, policy => policy.decide(&(), rng)?,
            Learner::Leader(policy) => policy.decide(&(), rng)?,
            Learner::Oful(policy) => policy.decide(seen()?, rng)?,
            Learner::GlmUcb(policy) => policy.decide(seen()?, rng)?,
            Learner::Gloc(policy) => policy.decide(seen()?, rng)?,
            Learner::Ecolog(policy) => policy.decide(seen()?, rng)?,
            Learner::JointGlm(policy) => policy.decide(seen()?, rng)?,
            Learner::Sums(policy) => policy.arm(),
            Learner::ShuffledGlm(_) => return Ok(None),
        )))
    }

    /// Takes in feedback on `arm`. After an error the state is of no use.
    pub(crate) fn learn(
        &mut self,
        context: Option<&Features>,
        arm: usize,
        feedback: &ClearFeedback,
        rng: &mut dyn Rng,
    ) -> Result<(), Error> {
        let seen = || context.ok_or(Error::Broken("a contextual policy without a context"));
        let number = feedback.reward.or(feedback.sum).ok_or(Error::Broken("feedback without its number"));
        plain!(self, policy => policy.learn(&(), arm, &number?, rng)?,
            Learner::Leader(policy) => {
                let rewards = feedback.rewards.as_deref();
                policy.learn(&(), arm, rewards.ok_or(Error::Broken("feedback without its rewards"))?, rng)?;
            },
            Learner::Oful(policy) => policy.learn(seen()?, arm, &number?, rng)?,
            Learner::GlmUcb(policy) => policy.learn(seen()?, arm, &number?, rng)?,
            Learner::Gloc(policy) => policy.learn(seen()?, arm, &number?, rng)?,
            Learner::Ecolog(policy) => policy.learn(seen()?, arm, &number?, rng)?,
            Learner::JointGlm(policy) => policy.learn(seen()?, arm, &number?, rng)?,
            Learner::Sums(policy) => {
                policy.learn(feedback.share.ok_or(Error::Broken("feedback without its share"))?, rng)?;
            },
            Learner::ShuffledGlm(_) => return Err(Error::Broken("feedback for a policy that takes batches")),
        );
        Ok(())
    }

    pub(crate) fn privacy(&self) -> Result<PrivacyStatement, Error> {
        Ok(match self {
            Learner::AnytimeLazyUcb(policy) => policy.privacy(),
            Learner::HybridUcb(policy) => policy.privacy(),
            Learner::DpSe(policy) => policy.privacy(),
            Learner::Ucb1(policy) => policy.privacy(),
            Learner::Leader(policy) => policy.privacy(),
            Learner::Elimination(policy) => policy.privacy()?,
            Learner::Sums(policy) => policy.privacy()?,
            Learner::ArsUcb(policy) => policy.privacy(),
            Learner::ArsExp3(policy) => policy.privacy(),
            Learner::ArsClw(policy) => policy.privacy(),
            Learner::Clw(policy) => policy.privacy(),
            Learner::Odaaf(policy) => policy.privacy(),
            Learner::Oful(_) => {
                PrivacyStatement::none("Decisions follow contexts and rewards without noise.")
            }
            Learner::GlmUcb(policy) => policy.privacy(),
            Learner::Gloc(policy) => policy.privacy(),
            Learner::Ecolog(policy) => policy.privacy(),
            Learner::JointGlm(policy) => policy.privacy(),
            Learner::ShuffledGlm(policy) => policy.privacy()?,
        })
    }

    /// Whether a decision must be answered before the next, or is void.
    pub(crate) fn in_turn(&self) -> bool {
        !matches!(self, Learner::Oful(_) | Learner::Sums(_))
    }
}

impl Config {
    /// From the body of a creation request.
    ///
    /// # Errors
    /// [`Error::BadParameter`], which names the parameter.
    pub(crate) fn from_request(mut body: Map<String, Value>) -> Result<Self, Error> {
        let bad = |why: String| Error::BadParameter { why };
        let Some(Value::String(name)) = body.remove("policy") else {
            return Err(bad("policy: must be a string; GET /v1/policies lists them".into()));
        };
        let tagged = Value::Object(Map::from_iter([(name.clone(), Value::Object(body))]));
        serde_path_to_error::deserialize(tagged).map_err(|e| {
            let path = e.path().to_string();
            let field = path.strip_prefix(&name).and_then(|p| p.strip_prefix('.')).filter(|f| *f != "?");
            let why = e.into_inner();
            bad(field.map_or_else(|| why.to_string(), |field| format!("{field}: {why}")))
        })
    }

    /// Name and parameters, defaults filled in.
    pub(crate) fn to_parts(&self) -> Result<(String, Map<String, Value>), Error> {
        let broken = Error::Broken("a configuration that is not a tagged object");
        let Ok(Value::Object(tagged)) = serde_json::to_value(self) else { return Err(broken) };
        match tagged.into_iter().next() {
            Some((name, Value::Object(parameters))) => Ok((name, parameters)),
            _ => Err(broken),
        }
    }

    /// Features of an arm, and arms; `None` if decisions take no context here.
    pub(crate) fn shape(&self) -> Option<(usize, usize)> {
        match *self {
            Config::Oful { arms, features, .. }
            | Config::RsGlinucb { arms, features, .. }
            | Config::GlmUcb { arms, features, .. }
            | Config::Gloc { arms, features, .. }
            | Config::Ecolog { arms, features, .. }
            | Config::JointGlm { arms, features, .. } => Some((features, arms)),
            _ => None,
        }
    }

    /// What it learns from.
    pub(crate) fn feedback(&self) -> FeedbackKind {
        match self {
            Config::FollowTheNoisyLeader { .. } | Config::FollowTheLeader { .. } => FeedbackKind::Rewards,
            Config::Elimination { model: ModelName::Central, .. } => FeedbackKind::Reward,
            Config::Elimination { model: ModelName::Local, .. } => FeedbackKind::Share,
            Config::Elimination { .. } | Config::ShuffleGlm { .. } => FeedbackKind::Batch,
            Config::ArsUcb { .. }
            | Config::ArsExp3 { .. }
            | Config::ArsClw { .. }
            | Config::Clw { .. }
            | Config::Odaaf { .. } => FeedbackKind::Sum,
            _ => FeedbackKind::Reward,
        }
    }

    fn arms(&self) -> usize {
        match *self {
            Config::AnytimeLazyUcb { arms, .. }
            | Config::HybridUcb { arms, .. }
            | Config::DpSe { arms, .. }
            | Config::Ucb1 { arms }
            | Config::FollowTheNoisyLeader { arms, .. }
            | Config::FollowTheLeader { arms }
            | Config::Elimination { arms, .. }
            | Config::ArsUcb { arms, .. }
            | Config::ArsExp3 { arms, .. }
            | Config::ArsClw { arms, .. }
            | Config::Clw { arms, .. }
            | Config::Odaaf { arms, .. }
            | Config::Oful { arms, .. }
            | Config::RsGlinucb { arms, .. }
            | Config::GlmUcb { arms, .. }
            | Config::Gloc { arms, .. }
            | Config::Ecolog { arms, .. }
            | Config::JointGlm { arms, .. }
            | Config::ShuffleGlm { arms, .. } => arms,
        }
    }

    /// Whether `learner` is of the kind that [`make`](Self::make) makes, and what is remembered with a decision of the
    /// right shape.
    pub(crate) fn fits(&self, learner: &Learner, arm: usize, context: Option<&Features>) -> bool {
        use {Config as C, Learner as L};
        let kind = matches!(
            (self, learner),
            (C::AnytimeLazyUcb { .. }, L::AnytimeLazyUcb(_))
                | (C::HybridUcb { .. }, L::HybridUcb(_))
                | (C::DpSe { .. }, L::DpSe(_))
                | (C::Ucb1 { .. }, L::Ucb1(_))
                | (C::FollowTheNoisyLeader { .. } | C::FollowTheLeader { .. }, L::Leader(_))
                | (C::Elimination { model: ModelName::Central, .. }, L::Elimination(_))
                | (C::Elimination { .. }, L::Sums(_))
                | (C::ArsUcb { .. }, L::ArsUcb(_))
                | (C::ArsExp3 { .. }, L::ArsExp3(_))
                | (C::ArsClw { .. }, L::ArsClw(_))
                | (C::Clw { .. }, L::Clw(_))
                | (C::Odaaf { .. }, L::Odaaf(_))
                | (C::Oful { .. }, L::Oful(_))
                | (C::GlmUcb { .. }, L::GlmUcb(_))
                | (C::Gloc { .. }, L::Gloc(_))
                | (C::Ecolog { .. }, L::Ecolog(_))
                | (C::RsGlinucb { .. } | C::JointGlm { .. }, L::JointGlm(_))
                | (C::ShuffleGlm { .. }, L::ShuffledGlm(_))
        );
        let shape = context.map(|c| (c.d(), c.k()));
        kind && arm < self.arms() && (shape.is_none() || shape == self.shape())
    }

    /// The policy before its first round.
    ///
    /// # Errors
    /// Those of the policy, which name the parameter; [`Error::BadParameter`] for what this server does not carry.
    pub(crate) fn make(&self) -> Result<Learner, Error> {
        let arms = within("arms", self.arms() as u64, MAX_ARMS as u64)? as usize;
        let grid = GridLaplace::new(GRID_BITS)?;
        Ok(match *self {
            Config::AnytimeLazyUcb { epsilon, .. } => {
                Learner::AnytimeLazyUcb(AnytimeLazyUcb::new(arms, epsilon, grid)?)
            }
            Config::HybridUcb { epsilon, .. } => {
                Learner::HybridUcb(HybridUcb::new(arms, epsilon, Tree::Corrected, grid)?)
            }
            Config::DpSe { epsilon, beta, .. } => Learner::DpSe(DpSe::new(arms, epsilon, beta, grid)?),
            Config::Ucb1 { .. } => Learner::Ucb1(Ucb1::new(arms)?),
            Config::FollowTheNoisyLeader { epsilon, neighbours, private, .. } => {
                let max = match (private, neighbours) {
                    (Released::Leader, _) => NoisyMax::Leader { epsilon, neighbours },
                    (Released::Sums, Neighbours::ReplaceOne) => NoisyMax::EverySum { epsilon },
                    _ => {
                        let why = "neighbours: must be replace_one where every sum is private".into();
                        return Err(Error::BadParameter { why });
                    }
                };
                Learner::Leader(FollowTheNoisyLeader::new(arms, max, grid)?)
            }
            Config::FollowTheLeader { .. } => {
                Learner::Leader(FollowTheNoisyLeader::new(arms, NoisyMax::Exact, grid)?)
            }
            Config::Elimination { horizon, epsilon, model, confidence, growth, scale, delta, .. } => {
                let horizon = within("horizon", horizon, MAX_PLANNED_ROUNDS)?;
                let (scale, delta) = (decimal("scale", scale)?, delta.unwrap_or(Delta::ZERO));
                let model = match model {
                    ModelName::Central => Model::Central,
                    ModelName::Local => Model::Local,
                    ModelName::Pure => Model::Pure,
                    ModelName::Renyi => Model::Renyi { scale, delta },
                    ModelName::Concentrated => Model::Concentrated { scale, delta },
                    ModelName::Shuffle => Model::Shuffle,
                };
                let theory = bandit::distributed::Config::new(
                    arms,
                    horizon,
                    model,
                    decimal("epsilon", epsilon.get())?,
                );
                let confidence = confidence.unwrap_or(theory.confidence);
                let config =
                    bandit::distributed::Config { confidence, growth, noise: NoiseAt::Users, ..theory };
                match model {
                    Model::Central => Learner::Elimination(Box::new(Elimination::new(config, IdealSum)?)),
                    _ => Learner::Sums(Box::new(Sums::new(config)?)),
                }
            }
            Config::ArsUcb { alpha, round_size, .. } => {
                Learner::ArsUcb(ArsUcb::new(ArsUcbConfig { arms, alpha, round_size })?)
            }
            Config::ArsExp3 { horizon, beta, .. } => {
                let horizon = within("horizon", horizon, MAX_PLANNED_ROUNDS)?;
                Learner::ArsExp3(ArsExp3::new(ArsExp3Config { arms, horizon, beta })?)
            }
            Config::ArsClw { first, root, .. } => {
                Learner::ArsClw(Box::new(ArsClw::new(ArsClwConfig { arms, first, root })?))
            }
            Config::Clw { horizon, interval, rule, .. } => {
                let horizon = within("horizon", horizon, MAX_SLOTS)?;
                Learner::Clw(Box::new(Clw::new(ClwConfig { arms, horizon, interval, rule })?))
            }
            Config::Odaaf { horizon, rule, .. } => {
                let horizon = within("horizon", horizon, MAX_SLOTS)?;
                Learner::Odaaf(Box::new(Odaaf::new(OdaafConfig { arms, horizon, rule })?))
            }
            Config::Oful { features, lambda, alpha, .. } => {
                let (d, width) = (dimension(features, arms)?, Width::Constant { alpha });
                let config = LinearConfig {
                    d,
                    k: arms,
                    lambda,
                    delta: 0.05,
                    l: 1.0,
                    s: 1.0,
                    sigma: 0.5,
                    c: 1.0,
                    eta: 0.1,
                    width,
                    schedule: Schedule::EveryRound,
                };
                Learner::Oful(Box::new(Oful::new(config)?))
            }
            Config::RsGlinucb { features, horizon, delta, link, s, kappa, .. } => {
                let problem = problem(features, arms, horizon, delta, link, s, kappa)?;
                Learner::JointGlm(Box::new(JointGlm::new(JointConfig::rs_glinucb(problem))?))
            }
            Config::GlmUcb { features, horizon, delta, link, s, kappa, refit_every, .. } => {
                let problem = problem(features, arms, horizon, delta, link, s, kappa)?;
                Learner::GlmUcb(Box::new(GlmUcb::new(problem, refit_every, false)?))
            }
            Config::Gloc { features, horizon, delta, link, s, kappa, .. } => {
                let problem = problem(features, arms, horizon, delta, link, s, kappa)?;
                Learner::Gloc(Box::new(Gloc::new(problem)?))
            }
            Config::Ecolog { features, horizon, delta, s, .. } => {
                let problem = problem(features, arms, horizon, delta, Link::Logistic, s, None)?;
                Learner::Ecolog(Box::new(Ecolog::new(problem)?))
            }
            Config::JointGlm { features, horizon, epsilon, delta, link, s, kappa, gamma, beta, .. } => {
                let problem = problem(features, arms, horizon, delta, link, s, kappa)?;
                let config = JointConfig::private(problem, epsilon, gamma, beta)?;
                Learner::JointGlm(Box::new(JointGlm::new(config)?))
            }
            Config::ShuffleGlm {
                features,
                ref batches,
                epsilon,
                delta,
                link,
                s,
                kappa,
                gamma,
                lambda,
                steps,
                ..
            } => {
                if delta < LEAST_DELTA {
                    let why = format!("delta is {delta}, it must be at least {LEAST_DELTA}");
                    return Err(Error::BadParameter { why });
                }
                let d = dimension(features, arms)?;
                within("batches", batches.len() as u64, MAX_BATCHES)?;
                within("steps", steps.into(), MAX_STEPS.into())?;
                let horizon = batches.iter().fold(0u64, |sum, b| sum.saturating_add(*b));
                within("batches in sum", horizon, MAX_SHUFFLED_USERS)?;
                let kappa = kappa.unwrap_or(link.kappa(s));
                let config = ShuffleConfig {
                    problem: Problem { d, k: arms, link, s, kappa, delta, horizon },
                    reward_max: 1.0,
                    batches: batches.clone(),
                    lambda,
                    gamma,
                    design_factor: 2.0,
                    estimator: Estimator::Descent { steps },
                    protection: Protection::Calibrated { epsilon },
                };
                Learner::ShuffledGlm(Box::new(ShuffledGlm::new(config)?))
            }
        })
    }
}

/// Noise for a smaller one takes seconds to calibrate, and is of no use to anybody.
const LEAST_DELTA: f64 = 1e-30;

/// Of the policies that follow a link and keep rows; `kappa` that of the whole ball unless it is given.
fn problem(
    features: usize,
    arms: usize,
    horizon: u64,
    delta: f64,
    link: Link,
    s: f64,
    kappa: Option<f64>,
) -> Result<Problem, Error> {
    let horizon = within("horizon", horizon, MAX_KEPT_ROUNDS)?;
    let (d, kappa) = (dimension(features, arms)?, kappa.unwrap_or(link.kappa(s)));
    Ok(Problem { d, k: arms, link, s, kappa, delta, horizon })
}

/// `got`, if it is from 1 to `most`.
fn within(field: &str, got: u64, most: u64) -> Result<u64, Error> {
    match got {
        _ if (1..=most).contains(&got) => Ok(got),
        _ => Err(Error::BadParameter { why: format!("{field} is {got}, it must be from 1 to {most}") }),
    }
}

fn dimension(features: usize, arms: usize) -> Result<usize, Error> {
    within("features", features as u64, MAX_FEATURES as u64)?;
    within("features times arms", (features * arms) as u64, MAX_VALUES as u64)?;
    Ok(features)
}

/// The decimal that `x` was written as: precision and noise of shares follow from it exactly.
fn decimal(field: &str, x: f64) -> Result<Ratio, Error> {
    const UNIT: f64 = 1e6;
    let units = (x * UNIT).round();
    if !(units > 0.0 && units < 1e12 && units / UNIT == x) {
        let why = format!("{field} is {x}, it must be above 0, below 10⁶, with at most six decimals");
        return Err(Error::BadParameter { why });
    }
    Ok(Ratio::new(units as u128, UNIT as u128)?)
}
