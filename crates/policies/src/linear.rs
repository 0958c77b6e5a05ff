//! Parameters of contextual bandits, linear and generalised linear.

use crate::Error;
use crate::config::{FEATURES_BOUND, Profile, policy};
use crate::limits::{MAX_KEPT_ROUNDS, within};
use bandit::{Forgetting, LinearConfig, Oful, Schedule, WidthShape};
use glm::baseline::{Ecolog, GlmUcb, Gloc};
use glm::joint::{JointConfig, JointGlm};
use glm::{Link, Problem};
use privacy::budget::Epsilon;

policy! {
    "oful",
    OfulParameters {
        arms: usize,
        features: usize,
        #[serde(default = "one")]
        lambda: f64,
        #[serde(default = "half")]
        alpha: f64,
        #[serde(default)]
        width: WidthShape,
        #[serde(default)]
        discount: Option<f64>,
        #[serde(default)]
        window: Option<u64>,
    } => Oful;
    profile(p) Profile::contextual(p.features, p.arms);
    make(p) Oful::new(LinearConfig {
        d: p.features,
        k: p.arms,
        lambda: p.lambda,
        delta: 0.05,
        l: FEATURES_BOUND,
        s: 1.0,
        sigma: 0.5,
        c: 1.0,
        eta: 0.1,
        width: p.width.width(p.alpha),
        schedule: Schedule::EveryRound,
        tie_seed: 0,
    })?
    .forgetting(Forgetting::new(p.discount, p.window)?)?
}

/// Declares a generalised linear policy: name in requests, type, policy, further parameters, and the policy
/// made from its [`problem`]. `guarantee` is its epsilon, if it has one.
macro_rules! glm_policy {
    (
        $name:literal, $type:ident { $($(#[$attr:meta])* $field:ident: $of:ty),* $(,)? } => $policy:ty;
        make($maker:ident, $problem:ident) $make:expr $(; guarantee $epsilon:ident)?
    ) => {
        policy! {
            $name,
            $type {
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
                $($(#[$attr])* $field: $of,)*
            } => $policy;
            profile(p) Profile::contextual(p.features, p.arms).until(p.horizon)$(.private(p.$epsilon))?;
            make($maker) {
                let p = $maker;
                let $problem = problem(p.features, p.arms, p.horizon, p.delta, p.link, p.s, p.kappa)?;
                $make
            }
        }
    };
}

glm_policy! {
    "rs-glinucb", RsGlinucbParameters {} => JointGlm;
    make(p, problem) JointGlm::new(JointConfig::rs_glinucb(problem))?
}

glm_policy! {
    "gloc", GlocParameters {} => Gloc;
    make(p, problem) Gloc::new(problem)?
}

glm_policy! {
    "glm-ucb", GlmUcbParameters { #[serde(default = "five")] refit_every: u64 } => GlmUcb;
    make(p, problem) GlmUcb::new(problem, p.refit_every, false)?
}

glm_policy! {
    "joint-glm", JointGlmParameters { epsilon: Epsilon, gamma: f64, beta: f64 } => JointGlm;
    make(p, problem) {
        problem.check_delta()?;
        JointGlm::new(JointConfig::private(problem, p.epsilon, p.gamma, p.beta)?)?
    };
    guarantee epsilon
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
    profile(p) Profile::contextual(p.features, p.arms).until(p.horizon);
    make(p) {
        let (kappa, link) = (None, Link::Logistic);
        Ecolog::new(problem(p.features, p.arms, p.horizon, p.delta, link, p.s, kappa)?)?
    }
}

/// The problem of a policy that keeps every row, so that its horizon is bounded. The default of `kappa` is
/// that of the whole ball.
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
