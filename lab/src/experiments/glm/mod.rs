//! Table 2 and figure 1 of Sarmasarkar: generalised linear bandits under joint privacy; then what the paper
//! leaves out.

mod figure;
mod noise;
mod purchases;
mod shuffled;
mod table;

use crate::experiment::{Claim, Experiment, PanelResult, Reference, Results, Run, Series};
use crate::play::{checkpoints, regret, regret_until};
use anyhow::Result;
use bandit::{Environment, Features, Policy, UniformRandom};
use glm::baseline::{Ecolog, GlmUcb, Gloc};
use glm::joint::{Estimate, JointConfig, JointGlm, Published};
use glm::{GlmEnvironment, Instance, Link, Problem, published};
use privacy::PrivacyStatement;
use privacy::budget::Epsilon;
use privacy::source::SplitMix64;
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The table, the figure, then noise, kappa and purchases.
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

/// A policy of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    GlmUcb,
    GlocPublished,
    Gloc,
    Ecolog,
    /// RS-GLinUCB as it was run; with its aliased H or without, and with this regulariser in the estimates.
    RsAsRun {
        aliased: bool,
        lambda: f64,
    },
    Rs,
    /// As in the published runs, at this epsilon; its accounting does not stand.
    Published(f64),
    /// With proved privacy, at this epsilon, both widths 2.
    Proved(f64),
    Random,
}

/// What a problem is like.
#[derive(Clone, Copy)]
struct Shape {
    link: Link,
    d: usize,
    k: usize,
    s: f64,
    delta: f64,
}

impl Shape {
    /// As in the published experiments.
    fn published(link: Link, d: usize, s: f64) -> Self {
        Self { link, d, k: 20, s, delta: DELTA }
    }
}

/// A problem and its environment, by seed.
#[derive(Clone)]
struct Setting {
    /// For [`Series::settings`].
    name: String,
    problem: Problem,
    kappa_star: f64,
    instance: Arc<dyn Fn(u64) -> Result<Arc<Instance>> + Send + Sync>,
}

impl Setting {
    /// The instance of this seed, made as the published one is: the same arms and parameter in every
    /// repetition.
    fn published(seed: u64, shape: Shape, rounds: u64) -> Result<Self> {
        let Shape { link, d, k, s, delta } = shape;
        let instance = Arc::new(published::instance(seed, d, k, rounds as usize, s)?);
        let (kappa, kappa_star) = (instance.kappa(link), instance.kappa_star(link));
        let problem = Problem { d, k, link, s, kappa, delta, horizon: rounds };
        let name = format!("{rounds} rounds; published instance of seed {seed}, {link:?}, d = {d}, S = {s}");
        Ok(Self { name, problem, kappa_star, instance: Arc::new(move |_| Ok(instance.clone())) })
    }

    /// A fresh instance a seed; kappa is that of the whole ball.
    fn fresh(shape: Shape, rounds: u64) -> Self {
        let Shape { link, d, k, s, delta } = shape;
        let problem = Problem { d, k, link, s, kappa: link.kappa(s), delta, horizon: rounds };
        let name = format!("{rounds} rounds; fresh instances, {link:?}, d = {d}, K = {k}, S = {s}");
        let make = move |seed: u64| {
            // A stream of its own: the draws of the instance are not those of the rounds.
            let mut rng = SplitMix64::new(seed ^ 0x676C_6D00_0000_0000);
            Ok(Arc::new(Instance::random(d, k, rounds as usize, s, &mut rng)?))
        };
        Self { name, problem, kappa_star: 1.0 / link.max_slope(s), instance: Arc::new(make) }
    }

    fn environment(&self, seed: u64) -> Result<GlmEnvironment> {
        Ok(GlmEnvironment::new((self.instance)(seed)?, self.problem.link)?)
    }

    fn series(&self, label: &str, kind: Kind, reference: Option<(f64, f64)>) -> Result<Series> {
        let p = self.problem.clone();
        let mut series = match kind {
            Kind::GlmUcb => self.of(label, move || Ok(GlmUcb::new(p.clone(), 5, true)?)),
            Kind::GlocPublished => self.of(label, move || Ok(Gloc::as_published(p.clone())?)),
            Kind::Gloc => self.of(label, move || Ok(Gloc::new(p.clone())?)),
            Kind::Ecolog => self.of(label, move || Ok(Ecolog::new(p.clone())?)),
            Kind::Random => self.of(label, || Ok(UniformRandom)),
            Kind::Rs => self.joint(label, JointConfig::rs_glinucb(p)),
            Kind::RsAsRun { aliased, lambda } => {
                let config = JointConfig::rs_glinucb_as_run(p);
                let published = Published { aliased, ..config.published };
                self.joint(label, JointConfig { published, estimate: Estimate::Exact { lambda }, ..config })
            }
            Kind::Published(epsilon) => {
                self.joint(label, JointConfig::published(p, self.kappa_star, Epsilon::new(epsilon)?)?)
            }
            Kind::Proved(epsilon) => {
                self.joint(label, JointConfig::private(p, Epsilon::new(epsilon)?, 2.0, 2.0)?)
            }
        }?;
        series.reference = reference.map(|(mean, standard_error)| Reference { mean, standard_error });
        Ok(series)
    }

    fn of<P>(&self, label: &str, policy: impl Fn() -> Result<P> + Send + Sync + 'static) -> Result<Series>
    where
        P: Policy<Context = Features, Feedback = f64> + std::fmt::Debug,
    {
        let settings = format!("{}; {:?}", self.name, policy()?);
        let (setting, at) = (self.clone(), checkpoints(self.problem.horizon));
        let run = move |seed| {
            let run = regret(policy()?, setting.environment(seed)?, &at, seed)?;
            Ok(Run::curve(run.points)) // Shares of arms say nothing where contexts change.
        };
        Ok(Series { label: label.into(), settings, reference: None, run: Box::new(run) })
    }

    fn joint(&self, label: &str, config: JointConfig) -> Result<Series> {
        let settings = format!("{}; {config:?}", self.name);
        let (setting, at) = (self.clone(), checkpoints(self.problem.horizon));
        let run = move |seed| joint_run(&config, setting.environment(seed)?, &at, seed);
        Ok(Series { label: label.into(), settings, reference: None, run: Box::new(run) })
    }
}

/// JointGLM, with its rounds of exploration counted: what it releases of them has noise.
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

/// One run of JointGLM, with its explorations and estimates counted.
fn joint_run<E>(config: &JointConfig, environment: E, at: &[u64], seed: u64) -> Result<Run>
where
    E: Environment<Context = Features, Feedback = f64>,
{
    let mut policy = Counted { policy: JointGlm::new(config.clone())?, explored: 0 };
    let mut run = Run::curve(regret_until(&mut policy, environment, at, seed, |_| None)?.points);
    let (warm_up, running) = policy.policy.billboard().calls();
    run.figures.insert(EXPLORATIONS.into(), policy.explored as f64);
    run.figures.insert(WARM_UPS.into(), warm_up.into());
    run.figures.insert(RUNNING.into(), running.into());
    Ok(run)
}

fn last(panel: Option<&PanelResult>, label: &str) -> f64 {
    panel.and_then(|p| p.series(label)).map_or(f64::NAN, |s| s.last().mean)
}

fn figure(panel: &PanelResult, label: &str, name: &str) -> f64 {
    panel.series(label).and_then(|s| s.figure(name)).unwrap_or(f64::NAN)
}

fn numbers(values: &[f64]) -> String {
    values.iter().map(|v| format!("{v:.0}")).collect::<Vec<_>>().join(", ")
}

const NO_NOISE: &str = "no noise";
const GLM_UCB: &str = "GLM-UCB";
const GLOC: &str = "GLOC, as run";
const RS: &str = "RS-GLinUCB";
const RS_AS_RUN: &str = "RS-GLinUCB, as run";
/// The code that was published.
const AS_RUN: Kind = Kind::RsAsRun { aliased: true, lambda: 1e-5 };
const ECOLOG: &str = "ECOLog";
const PROVED: &str = "JointGLM, proved, ε = 8";

fn private(epsilon: u32) -> String {
    format!("JointGLM as run, ε = {epsilon}")
}

/// Whether the proved profile has learnt anything, and how long it explored.
fn learns(results: &Results, titles: &[String]) -> Claim {
    let cell = |title: &String| {
        let value = |label| results.series(title, label).map_or(f64::NAN, |s| s.last().mean);
        let explored = results.series(title, PROVED).and_then(|s| s.figure(EXPLORATIONS)).unwrap_or(f64::NAN);
        (title.clone(), value(PROVED), value("random"), explored)
    };
    let cells: Vec<_> = titles.iter().map(cell).collect();
    let words = |(title, proved, random, explored): &(String, f64, f64, f64)| {
        format!("{title}: {proved:.0}, random play {random:.0}, {explored:.0} explorations")
    };
    Claim {
        paper: "(No claim of the paper:) with both widths 2, the proved profile ends below half of random play at ε = 8".into(),
        reference: "it explores while κγ² > λ, which at large κ is all the time".into(),
        ours: cells.iter().map(words).collect::<Vec<_>>().join("; "),
        verdict: results.verdict(cells.iter().all(|c| c.1 < 0.5 * c.2)),
    }
}
