//! Configuration of JointGLM, and the profiles of the experiments.

use crate::Problem;
use crate::descent::Descent;
use crate::error::{Error, field};
use crate::matrix::triangle;
use crate::noise::{Gaussian, Sums};
use fault::OutOfRange;
use privacy::budget::{Delta, Epsilon, Rho, Sensitivity};
use privacy::composition::per_release;
use privacy::tree::Tree;
use serde::{Deserialize, Serialize};

/// Configuration of [`JointGlm`](super::JointGlm). Every field is public: the accounting does not cover
/// fields that were tuned on private data, or computed from `theta`, as `kappa` may be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JointConfig {
    /// Shape, link, bounds.
    pub problem: Problem,
    /// Rewards lie in `[0, reward_max]`.
    pub reward_max: f64,
    /// `V = H = lambda I` at the start.
    pub lambda: f64,
    /// Width of the warm-up estimate: `gamma sqrt(kappa) ||x||_{V^-1}`.
    pub gamma: f64,
    /// Width of the running estimate: `beta ||x||_{H_tau^-1}`.
    pub beta: f64,
    /// Criterion I: explore while the largest `||x||^2_{V^-1}` is at least this.
    pub explore_at: f64,
    /// Criterion II: how far H must have grown for a new running estimate.
    pub growth: Growth,
    /// The rounds in which the running estimate may be renewed.
    pub trigger: Trigger,
    /// The rounds in which the warm-up estimate is renewed.
    pub warm_up: WarmUp,
    /// The release of V, H and the number of explorations.
    pub release: Release,
    /// The computation of estimates.
    pub estimate: Estimate,
    /// The feasible set of running estimates.
    pub region: Region,
    /// Largest number of warm-up estimates. Afterwards the last one remains in use.
    pub max_warm_up_calls: u32,
    /// Largest number of running estimates. Afterwards the last one remains in use.
    pub max_running_calls: u32,
    /// Deviations of the published code from the algorithm.
    pub published: Published,
}

/// Criterion II, the growth of H after which the running estimate is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// The running maximum of `det H` has grown by more than this factor.
    Determinant(f64),
    /// The largest eigenvalue of H relative to the H of the last renewal exceeds this number.
    Eigenvalue(f64),
}

/// The rounds in which criterion II is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Every round, before its arm set is observed, so that renewals depend on released values alone.
    EveryRound,
    /// The paper's rule: only rounds that do not explore. Every later estimate then reveals without noise
    /// whether the round of a renewal explored, which depends on its user's arm set.
    Exploiting,
}

/// The rounds in which the warm-up estimate is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmUp {
    /// Every round that explores, as in the paper. Renewals reveal who explored.
    EveryExploration,
    /// Rounds after which the number of explorations is a power of two. Renewals reveal who explored.
    PowersOfTwo,
    /// Rounds after which the running maximum of the released `det V` has doubled.
    Doubling,
}

/// The release of V, H and the number of explorations in each round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// Exact values, without privacy.
    Exact,
    /// The published form: separate Gaussian trees for V and H in double precision, and the exact number.
    Separate {
        /// Standard deviation at a node of V's tree.
        sigma_v: f64,
        /// Standard deviation at a node of H's tree.
        sigma_h: f64,
    },
    /// One tree over V, H in units of its largest leaf, and the number, with discrete Gaussian noise on a
    /// dyadic grid.
    Joint {
        /// Standard deviation at a node, in every coordinate.
        sigma: f64,
    },
}

/// The computation of estimates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Estimate {
    /// Regularised maximum likelihood, without privacy.
    Exact {
        /// Weight of the regulariser.
        lambda: f64,
    },
    /// The published optimiser, [`lbfgs::fit`](crate::lbfgs::fit), without privacy. A fit that it reports as
    /// failed is thrown away: the last estimate remains in use.
    Published {
        /// Weight of the regulariser.
        lambda: f64,
    },
    /// Noisy gradient descent.
    Descent {
        /// Steps, clipping and averaging.
        descent: Descent,
        /// Standard deviation on a gradient sum of a warm-up estimate.
        sigma_warm_up: f64,
        /// Standard deviation on a gradient sum of a running estimate.
        sigma_running: f64,
        /// Whether the noise is discrete on a dyadic grid. Otherwise it is in double precision, as published.
        discrete: bool,
    },
}

/// The feasible set of running estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Region {
    /// The paper's `||theta - theta_o||_V <= gamma sqrt(kappa)`.
    Ellipsoid,
    /// `||theta|| <= s`. If the noise prevents rounds from exploring, the ellipsoid may not contain the
    /// parameter.
    Ball,
}

/// Deviations of the published code from the algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The index uses the mean of the two estimates.
    pub averaged: bool,
    /// V-leaves are divided by `1 + ||x||^2_{V^-1}`.
    pub scaled_leaf: bool,
    /// Warm-up rows also belong to the running estimate.
    pub shared_rows: bool,
    /// The H of the last renewal is an alias of H, so that the width changes with H, and criterion II holds
    /// only once.
    pub aliased: bool,
    /// The first running estimate waits until H has grown. Until then the estimate is 0, with the width of
    /// `lambda I`.
    pub first_waits: bool,
}

impl JointConfig {
    /// RS-GLinUCB (Sawarni et al. 2024), which is Algorithm 2 without noise, with the constants of the
    /// published experiments.
    pub fn rs_glinucb(problem: Problem) -> Self {
        let Problem { s, kappa, .. } = problem;
        let d = problem.d as f64;
        let width = (d * (problem.horizon as f64 / problem.delta).ln()).sqrt();
        Self {
            lambda: 0.5,
            gamma: s * width,
            beta: 4.0 * width,
            explore_at: 1.0 / (0.01 * kappa * s * s * d),
            growth: Growth::Determinant(1.5),
            trigger: Trigger::Exploiting,
            warm_up: WarmUp::EveryExploration,
            release: Release::Exact,
            estimate: Estimate::Exact { lambda: 0.5 },
            region: Region::Ellipsoid,
            max_warm_up_calls: u32::MAX,
            max_running_calls: u32::MAX,
            published: Published { shared_rows: true, ..Published::default() },
            reward_max: 1.0,
            problem,
        }
    }

    /// RS-GLinUCB as in the published code: all deviations of [`Published`], its optimiser, and a regulariser
    /// of 1e-5.
    pub fn rs_glinucb_as_run(problem: Problem) -> Self {
        Self {
            estimate: Estimate::Published { lambda: 1e-5 },
            published: Published {
                averaged: true,
                scaled_leaf: true,
                shared_rows: true,
                aliased: true,
                first_waits: true,
            },
            ..Self::rs_glinucb(problem)
        }
    }

    /// About how many rounds explore, whose arms do not depend on rewards: every direction needs
    /// `1/explore_at - lambda` rows of norm 1, or more shorter ones.
    pub fn explorations(&self) -> f64 {
        (self.problem.d as f64 * (1.0 / self.explore_at - self.lambda))
            .clamp(0.0, self.problem.horizon as f64)
    }

    /// The private profile of the published experiments, with `zeta = delta`, for comparison with their
    /// figures only: its accounting is wrong, and [`privacy`](Self::privacy) states no privacy. Its constants
    /// are those of the published code; `kappa` and `kappa_star` are computed from the parameter.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for invalid arguments; [`Error::Privacy`] if a budget is out of range.
    pub fn published(problem: Problem, kappa_star: f64, epsilon: Epsilon) -> Result<Self, Error> {
        problem.validate()?;
        field("kappa_star", kappa_star, kappa_star > 0.0, "positive")?;
        let Problem { d, kappa, delta, horizon, .. } = problem;
        let rs = Self::rs_glinucb(problem);
        let (d, t) = (d as f64, horizon as f64);
        let noise = (4.0 * t / delta).ln().powi(2) * (4.0 / delta).ln() / (epsilon.get() * kappa_star);
        let lambda = 2.0 * noise + 0.75 * d * (4.0 * t / delta).ln();
        let (lambda_max, lambda_min) = (lambda + 1.5 * noise, lambda - 1.5 * noise);
        let calls = |bound: f64| bound.floor().clamp(1.0, 1e6) as u32;
        let warm_up = calls(d * kappa * rs.gamma.powi(2) * t.ln() / 20_000.0);
        let growth = lambda_max / lambda_min + t / (kappa_star.powi(2) * lambda_min * d);
        let running = calls(3.0 * growth.log2());
        let descent = Descent {
            steps: 50,
            clip: 0.2,
            step: 10.0,
            constant: false,
            burn_in: 10,
            last: true,
            regulariser: 0.0,
        };
        let (epsilon, delta) = (Epsilon::new(epsilon.get() / 3.0)?, Delta::new(delta / 3.0)?);
        let sigma = |calls: u32| -> Result<f64, Error> {
            let (epsilon, delta) = per_release(calls, epsilon, delta)?;
            let step = Rho::within(epsilon, delta)?.get() / f64::from(descent.steps);
            Ok(Rho::new(step)?.sigma(Sensitivity::new(2.0 * descent.clip)?))
        };
        let rho = Rho::within(epsilon, delta)?;
        let tree = |l2: f64| -> Result<f64, Error> { Ok(Tree::sigma(rho, Sensitivity::new(l2)?, horizon)) };
        Ok(Self {
            lambda,
            growth: Growth::Eigenvalue(1.05 + 5.0 / (8.0 * d.sqrt())),
            release: Release::Separate { sigma_v: tree(1.0)?, sigma_h: tree(1.0 / kappa_star)? },
            estimate: Estimate::Descent {
                descent,
                sigma_warm_up: sigma(warm_up)?,
                sigma_running: sigma(running)?,
                discrete: false,
            },
            max_warm_up_calls: warm_up,
            max_running_calls: running,
            published: Published {
                averaged: true,
                scaled_leaf: true,
                shared_rows: true,
                ..Published::default()
            },
            ..rs
        })
    }

    /// The profile whose privacy is proved: (`epsilon`, `problem.delta`)-joint DP for any data, with noise
    /// from integers. `gamma` and `beta` are the widths. Its statement has `epsilon` or a little less, never
    /// more.
    ///
    /// The tree gets 3/4 and the estimates 1/2 of `rho`: by `docs/joint-privacy.md` no person pays both in
    /// full. `lambda` is the root of 2 times a bound on the tree's noise that holds in all rounds with
    /// probability `1 - delta`. Departure: estimates have no regulariser. The paper's, of the size of
    /// `lambda`, exceeds the weight of the data during most of a run; projection and averaging take its
    /// place.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for invalid arguments, and for an `epsilon` so small that rounding to the grid
    /// of the noise, which has at most 2^28 steps per standard deviation, would exceed the budget;
    /// [`Error::Privacy`] if a budget is out of range.
    pub fn private(problem: Problem, epsilon: Epsilon, gamma: f64, beta: f64) -> Result<Self, Error> {
        problem.validate()?;
        let budget = Rho::within(epsilon, Delta::new(problem.delta)?).map(Rho::get).unwrap_or(0.0);
        // A thousandth of the budget pays for rounding, which is not enough if the grid is coarse relative to
        // the sensitivity.
        let mut rho = 0.999 * budget;
        while rho > 0.25 * budget {
            let config = Self::spending(problem.clone(), rho, gamma, beta)?;
            let (Some(cost), stated) = (config.rho(), config.privacy()?.epsilon) else { break };
            if stated.is_some_and(|stated| stated.get() <= epsilon.get()) {
                config.validate()?;
                return Ok(config);
            }
            rho *= 0.999 * (budget / cost.get()).min(1.0);
        }
        let want = "larger: at this horizon, dimension and delta the noise exceeds the range of the sampler";
        Err(OutOfRange::new("epsilon", epsilon.get(), want).into())
    }

    /// The profile whose noise would cost `rho` without rounding.
    fn spending(problem: Problem, rho: f64, gamma: f64, beta: f64) -> Result<Self, Error> {
        let Problem { kappa, delta, horizon, .. } = problem;
        let (d, t) = (problem.d as f64, horizon as f64);
        let concordance = problem.link.self_concordance(1.0, problem.s);
        let sigma = Tree::sigma(Rho::new(0.75 * rho)?, Sensitivity::new(3f64.sqrt())?, horizon);
        let prefix = sigma * f64::from(Tree::levels(horizon)).sqrt();
        let lambda = (prefix * ((2.0 * d).sqrt() + (2.0 * (2.0 * t / delta).ln()).sqrt())) * 2f64.sqrt();
        let doublings = |growth: f64| (d * growth.log2()).ceil() as u32;
        let warm_up = doublings(1.0 + t / (d * lambda)) + 1;
        let running = doublings(2.0 + 2.0 * t / (d * lambda)) + 2;
        let descent = Descent {
            steps: 30,
            clip: 1.0,
            step: 2.0,
            constant: false,
            burn_in: 10,
            last: true,
            regulariser: 0.0,
        };
        let of = |calls: u32| -> Result<f64, Error> {
            let step = 0.5 * rho / (f64::from(descent.steps) * f64::from(calls));
            Ok(Rho::new(step)?.sigma(Sensitivity::new(2.0 * descent.clip)?))
        };
        Ok(Self {
            reward_max: 1.0,
            lambda,
            gamma,
            beta,
            explore_at: 1.0 / (gamma * gamma * kappa * concordance * concordance),
            growth: Growth::Determinant(2.0),
            trigger: Trigger::EveryRound,
            warm_up: WarmUp::Doubling,
            release: Release::Joint { sigma },
            estimate: Estimate::Descent {
                descent,
                sigma_warm_up: of(warm_up)?,
                sigma_running: of(running)?,
                discrete: true,
            },
            region: Region::Ball,
            max_warm_up_calls: warm_up,
            max_running_calls: running,
            published: Published::default(),
            problem,
        })
    }

    /// The standard deviation of each coordinate at a tree node: V, H in units of its largest leaf, number of
    /// explorations.
    pub(super) fn tree_sigmas(&self) -> Vec<f64> {
        let entries = triangle(self.problem.d);
        let [v, h, count] = match self.release {
            Release::Exact => [0.0; 3],
            Release::Separate { sigma_v, sigma_h } => [sigma_v, sigma_h / self.largest_h_weight(), 0.0],
            Release::Joint { sigma } => [sigma; 3],
        };
        let mut sigmas = vec![v; entries];
        sigmas.resize(2 * entries, h);
        sigmas.push(count);
        sigmas
    }

    /// The noise of the tree.
    pub(super) fn tree_noise(&self) -> Result<Gaussian, Error> {
        let Release::Joint { sigma } = self.release else { return Ok(Gaussian::Double) };
        let (len, items) = (2 * triangle(self.problem.d) + 1, self.problem.horizon);
        // A coordinate off the diagonal is root 2 times the product of two features.
        Gaussian::on_grid("sigma", sigma, Sums { l2: 2f64.sqrt(), len, largest: 1.0, items })
    }

    /// The noise of gradient sums.
    pub(super) fn sum_noise(
        &self,
        descent: &Descent,
        name: &'static str,
        sigma: f64,
        discrete: bool,
    ) -> Result<Gaussian, Error> {
        if !discrete {
            return Ok(Gaussian::Double);
        }
        let (clip, items) = (descent.clip, self.problem.horizon);
        Gaussian::on_grid(name, sigma, Sums { l2: clip, len: self.problem.d, largest: clip, items })
    }

    /// Upper bound `L_mu / e` on the weight of `x x^T` in a leaf of H.
    pub(crate) fn largest_h_weight(&self) -> f64 {
        self.problem.link.max_slope(self.problem.s) / std::f64::consts::E
    }

    /// Refuses fields outside their ranges.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the first such field.
    pub fn validate(&self) -> Result<(), Error> {
        self.problem.validate()?;
        let positive = [
            ("reward_max", self.reward_max),
            ("lambda", self.lambda),
            ("gamma", self.gamma),
            ("beta", self.beta),
            ("explore_at", self.explore_at),
        ];
        for (name, value) in positive {
            field(name, value, value > 0.0, "positive")?;
        }
        let (Growth::Determinant(growth) | Growth::Eigenvalue(growth)) = self.growth;
        field("growth", growth, growth > 1.0, "above 1")?;
        match self.release {
            Release::Exact => {}
            Release::Separate { sigma_v, sigma_h } => {
                field("sigma_v", sigma_v, sigma_v >= 0.0, "at least 0")?;
                field("sigma_h", sigma_h, sigma_h >= 0.0, "at least 0")?;
            }
            Release::Joint { sigma } => {
                field("sigma", sigma, sigma > 0.0, "positive")?;
                self.tree_noise()?;
            }
        }
        match self.estimate {
            Estimate::Exact { lambda } | Estimate::Published { lambda } => {
                field("estimate.lambda", lambda, lambda > 0.0, "positive")
            }
            Estimate::Descent { descent, sigma_warm_up, sigma_running, discrete } => {
                field("sigma_warm_up", sigma_warm_up, sigma_warm_up >= 0.0, "at least 0")?;
                field("sigma_running", sigma_running, sigma_running >= 0.0, "at least 0")?;
                descent.validate()?;
                self.sum_noise(&descent, "sigma_warm_up", sigma_warm_up, discrete)?;
                self.sum_noise(&descent, "sigma_running", sigma_running, discrete)?;
                Ok(())
            }
        }
    }
}
