//! From parameters to a policy before its first round, within what this server carries.

use super::{Config, Learner, Linked, ModelName, Released};
use crate::Error;
use crate::collect::{ShuffledGlm, Sums};
use bandit::anonymous::{
    ArsClw, ArsClwConfig, ArsExp3, ArsExp3Config, ArsUcb, ArsUcbConfig, Clw, ClwConfig, MAX_SLOTS, Odaaf,
    OdaafConfig,
};
use bandit::distributed::{Elimination, IdealSum, Model, NoiseAt};
use bandit::stochastic::{AnytimeLazyUcb, DpSe, FollowTheNoisyLeader, HybridUcb, NoisyMax, Tree, Ucb1};
use bandit::{LinearConfig, Oful, Schedule, Width};
use glm::baseline::{Ecolog, GlmUcb, Gloc};
use glm::joint::{JointConfig, JointGlm};
use glm::shuffle::Parameters;
use glm::{Link, Problem};
use privacy::Ratio;
use privacy::budget::{Delta, Epsilon, Neighbours};
use privacy::laplace::GridLaplace;

/// Arms at most; a request cannot make the server allocate more than some MB.
const MAX_ARMS: usize = 4096;
/// Features of all arms at most, and of one: a commit writes statistics of d² numbers for each tree level.
const MAX_VALUES: usize = 1 << 14;
const MAX_FEATURES: usize = 64;
/// Less is of no use to anybody and more is no privacy; noise of either kind leaves the range of what can be drawn.
const LEAST_EPSILON: f64 = 1e-6;
const MOST_EPSILON: f64 = 1e6;
/// Rounds of policies that keep every row or share, or work out their whole schedule beforehand.
const MAX_KEPT_ROUNDS: u64 = 100_000;
const MAX_PLANNED_ROUNDS: u64 = 1_000_000_000;
/// Batches and users whose noise is calibrated exactly, which takes some tenths of a second a batch.
const MAX_BATCHES: u64 = 8;
const MAX_SHUFFLED_USERS: u64 = 1_000_000;
/// Sums that one batch may ask of its users.
const MAX_STEPS: u32 = 1000;
/// The most sums that all batches together may ask of users: steps times batches.
const MAX_ALL_STEPS: u64 = 2000;
/// Rewards are in steps of 2⁻²⁰, and so is the noise.
const GRID_BITS: u32 = 20;

impl Config {
    /// The policy before its first round.
    ///
    /// # Errors
    /// Those of the policy, which name the parameter; [`Error::BadParameter`] for what this server does not carry.
    pub(crate) fn make(&self) -> Result<Learner, Error> {
        let arms = within("arms", self.arms() as u64, MAX_ARMS as u64)? as usize;
        if let Some((epsilon, least)) = self.epsilon() {
            let epsilon = epsilon.get();
            if !(least..=MOST_EPSILON).contains(&epsilon) {
                let why = format!("epsilon is {epsilon}, it must be from {least} to {MOST_EPSILON}");
                return Err(Error::BadParameter { why });
            }
        }
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
            Config::Elimination { model, horizon, .. } => {
                let central = model == ModelName::Central;
                within("horizon", horizon, if central { MAX_KEPT_ROUNDS } else { MAX_PLANNED_ROUNDS })?;
                let config = self.elimination()?;
                match model {
                    ModelName::Central => Learner::Elimination(Box::new(Elimination::new(config, IdealSum)?)),
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
            Config::RsGlinucb(Linked { features, horizon, delta, link, s, kappa, .. }) => {
                let problem = problem(features, arms, horizon, delta, link, s, kappa)?;
                Learner::JointGlm(Box::new(JointGlm::new(JointConfig::rs_glinucb(problem))?))
            }
            Config::GlmUcb { features, horizon, delta, link, s, kappa, refit_every, .. } => {
                let problem = problem(features, arms, horizon, delta, link, s, kappa)?;
                Learner::GlmUcb(Box::new(GlmUcb::new(problem, refit_every, false)?))
            }
            Config::Gloc(Linked { features, horizon, delta, link, s, kappa, .. }) => {
                let problem = problem(features, arms, horizon, delta, link, s, kappa)?;
                Learner::Gloc(Box::new(Gloc::new(problem)?))
            }
            Config::Ecolog { features, horizon, delta, s, .. } => {
                let problem = problem(features, arms, horizon, delta, Link::Logistic, s, None)?;
                Learner::Ecolog(Box::new(Ecolog::new(problem)?))
            }
            Config::JointGlm { features, horizon, epsilon, delta, link, s, kappa, gamma, beta, .. } => {
                let problem = problem(features, arms, horizon, delta, link, s, kappa)?;
                problem.check_delta()?;
                let config = JointConfig::private(problem, epsilon, gamma, beta)?;
                Learner::JointGlm(Box::new(JointGlm::new(config)?))
            }
            Config::ShuffleGlm(ref parameters) => {
                let &Parameters { features, ref batches, delta, steps, .. } = parameters;
                if delta < LEAST_DELTA {
                    let why = format!("delta is {delta}, it must be at least {LEAST_DELTA}");
                    return Err(Error::BadParameter { why });
                }
                dimension(features, arms)?;
                within("batches", batches.len() as u64, MAX_BATCHES)?;
                within("steps", steps.into(), MAX_STEPS.into())?;
                within("steps times batches", u64::from(steps) * batches.len() as u64, MAX_ALL_STEPS)?;
                let horizon = batches.iter().fold(0u64, |sum, b| sum.saturating_add(*b));
                within("batches in sum", horizon, MAX_SHUFFLED_USERS)?;
                Learner::ShuffledGlm(Box::new(ShuffledGlm::new(parameters.config()?)?))
            }
        })
    }

    /// What an elimination is made of.
    ///
    /// # Errors
    /// [`Error::BadParameter`] for numbers that are no decimals of six places.
    pub(crate) fn elimination(&self) -> Result<bandit::distributed::Config, Error> {
        let &Config::Elimination {
            arms,
            horizon,
            epsilon,
            model,
            confidence,
            growth,
            scale,
            delta,
            colluding,
        } = self
        else {
            return Err(Error::Broken("an elimination of another policy"));
        };
        let (scale, delta) = (decimal("scale", scale)?, delta.unwrap_or(Delta::ZERO));
        let colluding = if colluding == 0.0 { Ratio::ZERO } else { decimal("colluding", colluding)? };
        let model = match model {
            ModelName::Central => Model::Central,
            ModelName::Local => Model::Local,
            ModelName::Pure => Model::Pure,
            ModelName::Renyi => Model::Renyi { scale, delta },
            ModelName::Concentrated => Model::Concentrated { scale, delta },
            ModelName::Shuffle => Model::Bits { delta },
        };
        let theory =
            bandit::distributed::Config::new(arms, horizon, model, decimal("epsilon", epsilon.get())?);
        let confidence = confidence.unwrap_or(theory.confidence);
        Ok(bandit::distributed::Config { confidence, growth, colluding, noise: NoiseAt::Users, ..theory })
    }

    /// What was asked for, if anything is promised, and the least that this server carries.
    fn epsilon(&self) -> Option<(Epsilon, f64)> {
        match *self {
            Config::AnytimeLazyUcb { epsilon, .. }
            | Config::HybridUcb { epsilon, .. }
            | Config::DpSe { epsilon, .. }
            | Config::FollowTheNoisyLeader { epsilon, .. }
            | Config::Elimination { epsilon, .. }
            | Config::JointGlm { epsilon, .. } => Some((epsilon, LEAST_EPSILON)),
            Config::ShuffleGlm(ref parameters) => Some((parameters.epsilon, LEAST_SHUFFLED_EPSILON)),
            _ => None,
        }
    }
}

/// Noise for smaller ones takes seconds to calibrate, and is of no use to anybody.
const LEAST_DELTA: f64 = 1e-30;
const LEAST_SHUFFLED_EPSILON: f64 = 0.1;

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
