//! Table 2 and figure 1 of Sarmasarkar: generalised linear bandits under joint privacy; then experiments that
//! the paper does not have.

mod figure;
mod noise;
mod purchases;
mod shuffled;
mod table;

use crate::experiment::{Claim, Decision, Experiment, PanelResult, Results, Run, Series, listed};
use crate::play::{self, curve_only};
use anyhow::Result;
use bandit::{Environment, Features, Policy, UniformRandom};
use glm::baseline::{Ecolog, GlmUcb, Gloc};
use glm::joint::{JointConfig, JointGlm};
use glm::{GlmEnvironment, Instance, Link, Problem, published};
use privacy::PrivacyStatement;
use privacy::budget::Epsilon;
use privacy::source::SplitMix64;
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The table and the figure of the paper, then experiments on noise, kappa and purchases.
pub const EXPERIMENTS: &[&dyn Experiment] = &[
    &table::Table2,
    &figure::LOGISTIC,
    &figure::PROBIT,
    &noise::Noise,
    &noise::Thirds,
    &table::Kappa,
    &shuffled::Shuffled,
    &purchases::Shopping,
];

const SOURCE: &str =
    "Sarmasarkar: Shuffle and Joint Differential Privacy for Generalized Linear Contextual Bandits";
const DELTA: f64 = 0.02;
const EXPLORATIONS: &str = "rounds of exploration";
const WARM_UPS: &str = "warm-up estimates";
const RUNNING: &str = "running estimates";

/// The policy of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    GlmUcb,
    GlocPublished,
    Gloc,
    Ecolog,
    /// RS-GLinUCB as in the published code.
    RsAsRun,
    Rs,
    /// JointGLM as in the published runs, at this epsilon. Its accounting is wrong.
    Published(f64),
    /// JointGLM with proved privacy, at this epsilon, with both widths 2.
    Proved(f64),
    Random,
}

/// The parameters that a problem is drawn from.
#[derive(Clone, Copy)]
struct Shape {
    link: Link,
    d: usize,
    k: usize,
    s: f64,
    delta: f64,
}

impl Shape {
    /// The shape of the published experiments.
    fn published(link: Link, d: usize, s: f64) -> Self {
        Self { link, d, k: 20, s, delta: DELTA }
    }
}

/// A problem, and the instance of each seed.
#[derive(Clone)]
struct Setting {
    /// Part of [`Series::settings`].
    name: String,
    problem: Problem,
    kappa_star: f64,
    instance: Arc<dyn Fn(u64) -> Result<Arc<Instance>> + Send + Sync>,
}

impl Setting {
    /// The instance that the published generator gives for this seed: every repetition has the same arms and
    /// parameter.
    fn published(seed: u64, shape: Shape, rounds: u64) -> Result<Self> {
        let Shape { link, d, k, s, delta } = shape;
        let instance = Arc::new(published::instance(seed, d, k, rounds as usize, s)?);
        let (kappa, kappa_star) = (instance.kappa(link), instance.kappa_star(link));
        let problem = Problem { d, k, link, s, kappa, delta, horizon: rounds };
        let name = format!("{rounds} rounds; published instance of seed {seed}, {link:?}, d = {d}, S = {s}");
        Ok(Self { name, problem, kappa_star, instance: Arc::new(move |_| Ok(instance.clone())) })
    }

    /// A fresh instance for each seed, with the kappa of the whole ball.
    fn fresh(shape: Shape, rounds: u64) -> Self {
        let Shape { link, d, k, s, delta } = shape;
        let problem = Problem { d, k, link, s, kappa: link.kappa(s), delta, horizon: rounds };
        let name = format!("{rounds} rounds; fresh instances, {link:?}, d = {d}, K = {k}, S = {s}");
        let make = move |seed: u64| {
            // The instance is drawn from its own stream, which is not that of the rounds.
            let mut rng = SplitMix64::new(seed ^ 0x676C_6D00_0000_0000);
            Ok(Arc::new(Instance::random(d, k, rounds as usize, s, &mut rng)?))
        };
        Self { name, problem, kappa_star: 1.0 / link.max_slope(s), instance: Arc::new(make) }
    }

    fn environment(&self, seed: u64) -> Result<GlmEnvironment> {
        Ok(GlmEnvironment::new((self.instance)(seed)?, self.problem.link)?)
    }

    fn series(&self, label: &str, kind: Kind) -> Result<Series> {
        let p = self.problem.clone();
        match kind {
            Kind::GlmUcb => self.of(label, move || Ok(GlmUcb::new(p.clone(), 5, true)?)),
            Kind::GlocPublished => self.of(label, move || Ok(Gloc::as_published(p.clone())?)),
            Kind::Gloc => self.of(label, move || Ok(Gloc::new(p.clone())?)),
            Kind::Ecolog => self.of(label, move || Ok(Ecolog::new(p.clone())?)),
            Kind::Random => self.of(label, || Ok(UniformRandom)),
            Kind::Rs => Ok(self.joint(label, JointConfig::rs_glinucb(p))),
            Kind::RsAsRun => Ok(self.joint(label, JointConfig::rs_glinucb_as_run(p))),
            Kind::Published(epsilon) => {
                let config = JointConfig::published(p, self.kappa_star, Epsilon::new(epsilon)?)?;
                Ok(self.joint(label, config))
            }
            Kind::Proved(epsilon) => {
                Ok(self.joint(label, JointConfig::private(p, Epsilon::new(epsilon)?, 2.0, 2.0)?))
            }
        }
    }

    fn of<P>(&self, label: &str, policy: impl Fn() -> Result<P> + Send + Sync + 'static) -> Result<Series>
    where
        P: Policy<Context = Features, Feedback = f64> + std::fmt::Debug + 'static,
    {
        let (setting, settings) = (self.clone(), format!("{}; {:?}", self.name, policy()?));
        let environment = move |seed| setting.environment(seed);
        Ok(play::series(label, settings, self.problem.horizon, policy, environment, curve_only))
    }

    fn joint(&self, label: &str, config: JointConfig) -> Series {
        let setting = self.clone();
        joint_series(label, &self.name, config, move |seed| setting.environment(seed))
    }
}

/// JointGLM with an exact count of its explorations. The count that it releases has noise.
#[derive(Serialize, Deserialize)]
struct Counted {
    policy: JointGlm,
    explored: u64,
}

impl Policy for Counted {
    type Context = Features;
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        self.policy.privacy()
    }

    fn decide(&mut self, context: &Features, rng: &mut dyn Rng) -> Result<usize, bandit::Error> {
        let arm = self.policy.decide(context, rng)?;
        self.explored += u64::from(self.policy.exploring() == Some(true));
        Ok(arm)
    }

    fn learn(
        &mut self,
        context: &Features,
        arm: usize,
        reward: &f64,
        rng: &mut dyn Rng,
    ) -> Result<(), bandit::Error> {
        self.policy.learn(context, arm, reward, rng)
    }
}

/// The regret of JointGLM. The numbers of explorations and estimates are kept as further numbers.
fn joint_series<E>(
    label: &str,
    name: &str,
    config: JointConfig,
    environment: impl Fn(u64) -> Result<E> + Send + Sync + 'static,
) -> Series
where
    E: Environment<Context = Features, Feedback = f64>,
{
    let (settings, rounds) = (format!("{name}; {config:?}"), config.problem.horizon);
    let policy = move || Ok(Counted { policy: JointGlm::new(config.clone())?, explored: 0 });
    play::series(label, settings, rounds, policy, environment, |counted: &Counted, run| {
        let (warm_up, running) = counted.policy.billboard().calls();
        let figures =
            [(EXPLORATIONS, counted.explored as f64), (WARM_UPS, warm_up.into()), (RUNNING, running.into())];
        Run { figures: figures.map(|(name, number)| (name.into(), number)).into(), ..run }
    })
}

/// A further number of a series; NaN if there is none.
fn figure(panel: &PanelResult, label: &str, name: &str) -> f64 {
    panel.series(label).and_then(|s| s.figure(name)).unwrap_or(f64::NAN)
}

const NO_NOISE: &str = "no noise";
const GLM_UCB: &str = "GLM-UCB";
const GLOC: &str = "GLOC, as run";
const RS: &str = "RS-GLinUCB";
const RS_AS_RUN: &str = "RS-GLinUCB, as run";
const ECOLOG: &str = "ECOLog";
const PROVED: &str = "JointGLM, proved, ε = 8";

fn private(epsilon: u32) -> String {
    format!("JointGLM as run, ε = {epsilon}")
}

/// The claim that the proved profile learns, in the panels `titles`.
fn learns(results: &Results, titles: &[String]) -> Claim {
    let panels = titles.iter().filter_map(|title| results.panels.iter().find(|p| p.title == *title));
    let cell = |p: &PanelResult| {
        let (proved, random) = (p.last(PROVED), p.last("random"));
        let explored = figure(p, PROVED, EXPLORATIONS);
        let text = format!("{}: {proved:.0}, random play {random:.0}, {explored:.0} explorations", p.title);
        (text, results.ends_below(p.series(PROVED), 0.5, p.series("random")))
    };
    let (cells, learnt): (Vec<_>, Vec<_>) = panels.map(cell).unzip();
    results.own(
        "With both widths 2, the proved profile ends below half of random play at ε = 8",
        "it explores while κγ² > λ, which at large κ is all the time",
        listed(cells),
        Decision::all(learnt),
    )
}
