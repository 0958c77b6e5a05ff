//! PolicyParameters of contextual bandits: linear and generalised linear.

use crate::Error;
use crate::config::{Profile, policy};
use crate::limits::{MAX_KEPT_ROUNDS, within};
use bandit::{LinearConfig, Oful, Schedule, Width};
use glm::baseline::{Ecolog, GlmUcb, Gloc};
use glm::joint::{JointConfig, JointGlm};
use glm::{Link, Problem};
use privacy::budget::Epsilon;

/// [`problem`] of parameters that have all fields.
macro_rules! problem {
    ($p:ident) => {
        problem($p.features, $p.arms, $p.horizon, $p.delta, $p.link, $p.s, $p.kappa)
    };
}

policy! {
    "oful",
    OfulParameters {
        arms: usize,
        features: usize,
        #[serde(default = "one")]
        lambda: f64,
        #[serde(default = "half")]
        alpha: f64,
    } => Oful;
    profile(p) Profile { in_turn: false, ..Profile::contextual(p.features, p.arms) };
    make(p) Oful::new(LinearConfig {
        d: p.features,
        k: p.arms,
        lambda: p.lambda,
        delta: 0.05,
        l: 1.0,
        s: 1.0,
        sigma: 0.5,
        c: 1.0,
        eta: 0.1,
        width: Width::Constant { alpha: p.alpha },
        schedule: Schedule::EveryRound,
    })?
}

// RS-GLinUCB is JointGLM without noise.
policy! {
    "rs-glinucb",
    RsGlinucbParameters {
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
    } => JointGlm;
    profile(p) Profile::contextual(p.features, p.arms);
    make(p) JointGlm::new(JointConfig::rs_glinucb(problem!(p)?))?
}

policy! {
    "gloc",
    GlocParameters {
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
    } => Gloc;
    profile(p) Profile::contextual(p.features, p.arms);
    make(p) Gloc::new(problem!(p)?)?
}

policy! {
    "glm-ucb",
    GlmUcbParameters {
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
    } => GlmUcb;
    profile(p) Profile::contextual(p.features, p.arms);
    make(p) GlmUcb::new(problem!(p)?, p.refit_every, false)?
}

policy! {
    "ecolog",
    EcologParameters {
        arms: usize,
        features: usize,
        horizon: u64,
        delta: f64,
        #[serde(default = "one")]
        s: f64,
    } => Ecolog;
    profile(p) Profile::contextual(p.features, p.arms);
    make(p) {
        let (kappa, link) = (None, Link::Logistic);
        Ecolog::new(problem(p.features, p.arms, p.horizon, p.delta, link, p.s, kappa)?)?
    }
}

policy! {
    "joint-glm",
    JointGlmParameters {
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
    } => JointGlm;
    profile(p) Profile::contextual(p.features, p.arms).private(p.epsilon);
    make(p) {
        let problem = problem!(p)?;
        problem.check_delta()?;
        JointGlm::new(JointConfig::private(problem, p.epsilon, p.gamma, p.beta)?)?
    }
}

/// The problem of a policy that keeps every row, and whose horizon is therefore bounded. `kappa` is that of
/// the whole ball unless it is given.
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
    Ok(Problem { d: features, k: arms, link, s, kappa: kappa.unwrap_or(link.kappa(s)), delta, horizon })
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
