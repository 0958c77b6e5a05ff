//! The public configuration of a bandit, and the levels and sizes that follow from it.

use crate::levels::{ANSWER_LEVEL, DecisionLevels, REFRESH_LEVEL, UpdateLevels};
use crate::products::{MOST_CONDITION, MatrixLayout};
use crate::staged::{ALL_PAIRS_LEVEL, MOST_STAGED_LOG_N, StagedLayout};
use crate::{
    Counters, Error, Exchanging, Factors, LOG_STATISTICS, MOST_SUMMED, Rings, ScoreRing, Shape, Updates,
    UserKeys, warm_steps,
};
use bandit::{Forgetting, LinearConfig, Schedule, Width, WidthShape};
use ckks::Params;
use fault::OutOfRange;
use serde::{Deserialize, Serialize};

/// Newton's iteration stops when ‖A·V − I‖ is below this. A smaller error does not change regret
/// (docs/circuits.md).
pub const INVERSE_TOLERANCE: f64 = 1.0 / 1024.0;

/// The longest batch of the default schedule, [`Schedule::GrowthOrEvery`], in rounds. After such a batch,
/// four Newton steps bring the inverse within [`INVERSE_TOLERANCE`] for any contexts, if L²/λ ≤ 1.
/// docs/schedules.md states the regret.
const DEFAULT_BATCH: u64 = 16;
/// The longest batch of a public schedule, in rounds. It needs five Newton steps if L²/λ ≤ 1.
const MOST_IN_BATCH: u64 = 64;

/// The most bytes a feedback that updates by products may send to the server, which logs them.
const MOST_UPDATE_BYTES: usize = 2_000_000;

/// The most logged rounds of one request.
pub const MOST_LOGGED: usize = 1000;
/// The largest factor by which logged rounds may multiply an eigenvalue of A_j·V_j.
const MOST_GROWTH: f64 = 16384.0;
/// The largest product of that factor and the largest entry of V/s. Newton's iteration starts with an
/// eigenvalue of 2/factor, and an error e of the inverse moves it by e·V/s: by a hundredth for e = 2⁻²⁴.
const MOST_SPREAD: f64 = 262_144.0;
/// The most that n·L² may be for a sum of n feedbacks or logged rounds, so that it is below 2⁶² units.
const MOST_SQUARES: f64 = 262_144.0;

/// The most that L² times the feedbacks with a weight may be, so that their sums are below 2⁷⁶ units at the
/// scale of weighted sums: under a mask modulo 2⁹⁸ a number then comes back wrong with a probability below
/// 2⁻²².
const MOST_WEIGHED: f64 = 2_097_152.0;

/// The most arms for which a comparison of eight levels is precise enough. Its indicators are within 0.0122
/// of 0 or 1, and the relative errors of a row multiply, so that with 32 arms a product of 1 is between 0.67
/// and 1.49. The product for the trace must be on the right side of [`crate::exchange::TRACE_DECISION`].
pub(crate) const ROUGH_ARMS: usize = 32;

/// The configuration of an encrypted bandit, which is the body of its creation request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BanditConfig {
    /// The linear bandit. The schedule must be a public one that bounds the length of a batch, or that of the
    /// paper, [`Schedule::TraceOrGrowth`], under which a device of each evaluation may tell the server one
    /// bit of a decryption.
    pub linear: LinearConfig,
    /// The number of rounds for which numbers are scaled. Learning continues beyond it, with less precision.
    #[serde(default = "default_horizon")]
    pub horizon: u64,
    /// Under [`Schedule::TraceOrGrowth`], the number of feedbacks that may arrive before the trace condition
    /// they were tested with is answered. One more ends the batch. Feedbacks that arrive during a batch
    /// update count too. Larger values cost Newton steps. Under a public schedule, updates are planned for
    /// batches of at least this many feedbacks.
    #[serde(default = "default_unanswered")]
    pub unanswered: u64,
    /// b, where 2⁻ᵇ is the resolution of the comparison: the smallest difference of scores, relative to their
    /// range, that it resolves. b is 6, 8 or 10.
    #[serde(default = "default_comparison_bits")]
    pub comparison_bits: u32,
    /// The degree of the polynomial of the square root, 15 or 31. Degree 31 takes one level more, and halves
    /// the error.
    #[serde(default = "default_sqrt_degree")]
    pub sqrt_degree: usize,
    /// What a user learns from a decision.
    #[serde(default)]
    pub answers: Answers,
    /// How often an evaluation asks a holder of the key; without it, as the keys were made for
    /// ([`Plan::exchanges`]).
    #[serde(default)]
    pub exchanges: Option<Exchanging>,
    /// That everyone who holds the key may see the model, which [`Answers::Scores`] shows to each of them. A
    /// server does not know whether a key is one user's or shared by many, so that the creator must say it.
    #[serde(default)]
    pub open_model: bool,
    /// Counters per arm, under encryption; none if they are left out. With them a feedback has 2K
    /// coefficients more.
    #[serde(default)]
    pub counters: Option<Counters>,
    /// γ, by which a feedback counts less with each feedback after it, so that the bandit follows rewards
    /// that drift ([`Forgetting`]). A width with a proof has none with old feedback weighed less.
    #[serde(default)]
    pub discount: Option<f64>,
    /// The number of feedbacks after which a feedback counts no more.
    #[serde(default)]
    pub window: Option<u64>,
}

/// What a user learns from a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// The arm alone, up to noise.
    #[default]
    Arm,
    /// z and u of every arm, from which the device computes the arm. No deep circuit runs and nothing is
    /// raised. From one answer the model can be computed, so that [`BanditConfig::open_model`] must be set.
    Scores,
}

fn default_horizon() -> u64 {
    1000
}
fn default_unanswered() -> u64 {
    4
}
fn default_comparison_bits() -> u32 {
    6
}
fn default_sqrt_degree() -> usize {
    15
}

impl BanditConfig {
    /// The defaults for `features` features with a norm of at most 1, `arms` arms, and rewards in [0, 1]: λ =
    /// 1, C = 1, η = 0.1, the tangent of width ½, half of the range of rewards, with a floor of 1/64, and the
    /// public schedule growth_or_every with 16 rounds. On two arms the tangent has the least regret of the
    /// widths that do not lock in; [`WidthShape::Tangent`] says what it does on 32 arms, and when to take a
    /// root of width 2 instead.
    pub fn new(features: usize, arms: usize) -> Self {
        BanditConfig {
            linear: LinearConfig {
                d: features,
                k: arms,
                lambda: 1.0,
                delta: 0.05,
                l: 1.0,
                s: 1.0,
                sigma: 0.5,
                c: 1.0,
                eta: 0.1,
                width: WidthShape::default().width(WidthShape::default().alpha(1.0)),
                schedule: Schedule::GrowthOrEvery { rounds: DEFAULT_BATCH },
                tie_seed: 0,
            },
            horizon: default_horizon(),
            unanswered: default_unanswered(),
            comparison_bits: default_comparison_bits(),
            sqrt_degree: default_sqrt_degree(),
            answers: Answers::Arm,
            exchanges: None,
            open_model: false,
            counters: None,
            discount: None,
            window: None,
        }
    }

    /// The configuration with a width of this shape and this alpha, each the default where it is not given:
    /// alpha is then the one of [`WidthShape::alpha`] for rewards from `rewards[0]` to `rewards[1]`, times
    /// λ/L² or √λ/L.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless the ends of the range are in [−1, 1] and in order.
    pub fn exploring(
        mut self,
        shape: Option<WidthShape>,
        alpha: Option<f64>,
        rewards: Option<[f64; 2]>,
    ) -> Result<Self, Error> {
        let [low, high] = rewards.unwrap_or([0.0, 1.0]);
        if !(-1.0 <= low && low < high && high <= 1.0) {
            let want = "the least and the largest reward, from −1 to 1: map larger ones to 0 to 1 by (x − low)/(high − low), as `reward_range` of a schema does";
            return Err(OutOfRange::new("rewards", format!("{low} to {high}"), want).into());
        }
        let (linear, shape) = (&mut self.linear, shape.unwrap_or_default());
        let ratio = linear.lambda / (linear.l * linear.l);
        let units = match shape {
            WidthShape::Tangent => ratio,
            WidthShape::Root => ratio.sqrt(),
        };
        linear.width = shape.width(alpha.unwrap_or(shape.alpha(high - low) * units));
        Ok(self)
    }

    /// Checks the configuration against keys of `shape` in the rings of circuits and the ring of scores
    /// `ring`, and returns the levels and sizes.
    ///
    /// # Errors
    /// [`Error::Config`] for values that the algorithm excludes, such as those of Proposition 7;
    /// [`Error::OutOfRange`]; [`Error::Shape`], [`Error::Depth`], [`Error::Slots`] for problems that do not
    /// fit these keys.
    pub fn plan(&self, rings: impl Into<Rings>, shape: Shape, ring: ScoreRing) -> Result<Plan, Error> {
        let rings = rings.into();
        let Rings { updates, decisions, by, exchanges: made_for, keys } = &rings;
        let exchanges = self.exchanges.unwrap_or(*made_for);
        if (*made_for, exchanges) == (Exchanging::Staged, Exchanging::One) {
            let want = "staged with these keys, or keys of `helba-keygen create --exchanges one`";
            return Err(OutOfRange::new("exchanges", "one", want).into());
        }
        let batch = self.check(shape)?;
        let (need, have) = match (by, exchanges) {
            (Updates::Slots, _) => (shape.slots(), updates.max_slots()),
            (Updates::Products, Exchanging::One) => (2 * shape.user_slots(), decisions.max_slots()),
            // The stages of two users, and more if there is room.
            (Updates::Products, Exchanging::Staged) => (2 * self.linear.k, decisions.max_slots()),
        };
        if need > have {
            return Err(Error::Slots { need, have });
        }
        match by {
            Updates::Products => self.check_products(shape, ring)?,
            Updates::Slots => self.check_forgetting_in_slots()?,
        }
        if self.tests_trace() && self.answers == Answers::Scores {
            let got = format!("{:?}", self.linear.schedule);
            let want = "public with answers: scores, because no circuit compares the trace";
            return Err(OutOfRange::new("linear.schedule", got, want).into());
        }
        if *keys == UserKeys::Own {
            self.check_own_keys()?;
        }
        self.check_threshold(batch)?;
        self.check_sizes()?;
        let (scores_level, users) = match exchanges {
            Exchanging::One => {
                let level = DecisionLevels::new(self, shape)?.sum();
                self.check_depth(level, &rings)?;
                // The trace has the place of a user. There are two places at least ([`Shape::slots`]).
                (level, ring.users(shape, decisions.max_slots()) - usize::from(self.tests_trace()))
            }
            Exchanging::Staged => (ALL_PAIRS_LEVEL, self.check_staged(decisions, ring)?),
        };
        let (steps, [statistics_level, model_level, refresh_level]) = match by {
            Updates::Slots => {
                let (steps, update) = self.update_levels(batch, shape, updates.max_level())?;
                // A transform takes a level, so that the old model is one level above the statistics.
                (steps, [update, update + 1, REFRESH_LEVEL])
            }
            Updates::Products => (self.planned_steps(batch)?, [0; 3]),
        };
        Ok(Plan {
            updates: *by,
            exchanges,
            keys: *keys,
            scores_level,
            statistics_level,
            model_level,
            refresh_level,
            answer_level: ANSWER_LEVEL,
            newton_steps: steps,
            users,
            model_slots: shape.model_slots(),
            design_scale: self.design_scale(),
        })
    }

    /// Checks that a copy of a bandit with the configuration `of` may have this one: what its sums and its
    /// model depend on is the same.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], which names the first field that differs, or `counters`.
    pub fn check_copy(&self, of: &Self) -> Result<(), Error> {
        let (own, original) = (&self.linear, &of.linear);
        for (field, got, want) in [
            ("linear.d", own.d as f64, original.d as f64),
            ("linear.k", own.k as f64, original.k as f64),
            ("linear.lambda", own.lambda, original.lambda),
            ("linear.l", own.l, original.l),
            ("horizon", self.horizon as f64, of.horizon as f64),
        ] {
            if got != want {
                let want = format!("{want}, as in the original, whose sums and model depend on it");
                return Err(OutOfRange::new(field, got, want).into());
            }
        }
        if (self.discount, self.window) != (of.discount, of.window) {
            let got = format!("{:?}, window {:?}", self.discount, self.window);
            let want = "with the window that of the original, whose sums have their weights by it";
            return Err(OutOfRange::new("discount", got, want).into());
        }
        if self.counters.is_some() || of.counters.is_some() {
            let want = "none, in a copy and its original: two bandits that share the first feedbacks of a group would show its last one";
            return Err(OutOfRange::new("counters", "given", want).into());
        }
        if self.tests_trace() || of.tests_trace() {
            let want = "public in a copy and its original, since no feedback of trace_or_growth is erased";
            return Err(OutOfRange::new("linear.schedule", "trace_or_growth", want).into());
        }
        Ok(())
    }

    /// Whether everyone who holds the key can compute the model, which every view of the bandit states.
    pub fn shows_model(&self) -> bool {
        self.answers == Answers::Scores
    }

    /// Whether each request is decided by itself, and no scores are raised.
    pub fn decides_alone(&self) -> bool {
        self.answers == Answers::Scores
    }

    /// Checks that the creator has said who may see the model.
    fn check_open_model(&self) -> Result<(), Error> {
        let want = match (self.answers, self.open_model) {
            (Answers::Scores, false) => {
                "true for answers: scores: everyone who holds the key can compute the whole model from one answer, and with it what the \
                 model has learnt from others; the server cannot tell a key of one user from one that many share"
            }
            (Answers::Arm, true) => "false unless answers: scores shows the model",
            _ => return Ok(()),
        };
        Err(OutOfRange::new("open_model", self.open_model, want).into())
    }

    /// Checks everything but the depth, and returns the longest batch that updates are planned for.
    fn check(&self, shape: Shape) -> Result<u64, Error> {
        let linear = &self.linear;
        linear.validate()?;
        self.check_open_model()?;
        self.counters.as_ref().map_or(Ok(()), Counters::check)?;
        self.check_forgetting()?;
        let field =
            |field, got: String, want: &'static str| Error::OutOfRange(OutOfRange::new(field, got, want));
        // Newton's iteration needs a bound on the statistics of a batch. Growth alone gives none, and neither
        // does the trace if answers are missing.
        let batch = match linear.schedule {
            Schedule::TraceOrGrowth => self.unanswered,
            Schedule::EveryRound => self.unanswered.max(1),
            Schedule::Every { rounds } | Schedule::GrowthOrEvery { rounds } if rounds <= MOST_IN_BATCH => {
                self.unanswered.max(rounds)
            }
            other => {
                let want = "growth_or_every or every 1 to 64 rounds, every_round, or trace_or_growth";
                return Err(field("linear.schedule", format!("{other:?}"), want));
            }
        };
        if !(1..=1_000_000_000).contains(&self.horizon) {
            return Err(field("horizon", self.horizon.to_string(), "between 1 and 10⁹"));
        }
        if !(1..=64).contains(&self.unanswered) {
            return Err(field("unanswered", self.unanswered.to_string(), "between 1 and 64"));
        }
        if ![15, 31].contains(&self.sqrt_degree) {
            return Err(field("sqrt_degree", self.sqrt_degree.to_string(), "15 or 31"));
        }
        self.comparison_degrees()?;
        if Shape::for_problem(linear.d, linear.k) != shape {
            return Err(Error::Shape { features: linear.d, arms: linear.k, keys: shape });
        }
        Ok(batch)
    }

    /// Checks that the comparison resolves the threshold of the trace, if the schedule has one, after
    /// `pending` feedbacks without a test.
    fn check_threshold(&self, pending: u64) -> Result<(), Error> {
        let (bound, resolution) = (self.trace_bound(pending), self.resolution());
        if !self.tests_trace() || self.linear.c >= 2.0 * resolution * bound {
            return Ok(());
        }
        let want = format!(
            "at least {:.4}: the trace can reach {bound:.2}, and the comparison resolves 2^−{} of twice this value",
            2.0 * resolution * bound,
            self.comparison_bits
        );
        Err(OutOfRange::new("linear.c", self.linear.c, want).into())
    }

    /// Checks that updates by products serve such a bandit.
    fn check_products(&self, shape: Shape, ring: ScoreRing) -> Result<(), Error> {
        if self.tests_trace() {
            let got = format!("{:?}", self.linear.schedule);
            let want =
                "public with keys of updates by products, or keys of `helba-keygen create --updates slots`";
            return Err(OutOfRange::new("linear.schedule", got, want).into());
        }
        if !self.raises_differences() {
            let want =
                "tangent with keys of updates by products, or keys of `helba-keygen create --width root`";
            return Err(OutOfRange::new("linear.width", "a root", want).into());
        }
        let l = self.linear.l;
        let least = l.max(l * l) * self.scaled_rounds() as f64 / MOST_CONDITION;
        if self.linear.lambda < least {
            let want = format!(
                "at least horizon·max(linear.l, linear.l²)/{MOST_CONDITION} = {least} with keys of updates by products, or keys of \
                 `helba-keygen create --updates slots`"
            );
            return Err(OutOfRange::new("linear.lambda", self.linear.lambda, want).into());
        }
        self.check_update_bytes(&MatrixLayout::new(ring.n(), shape.dim)?, ring)
    }

    /// Refuses batches so short that updates by products send, and log, more than
    /// [`MOST_UPDATE_BYTES`] a feedback.
    fn check_update_bytes(&self, matrices: &MatrixLayout, ring: ScoreRing) -> Result<(), Error> {
        let batch = match self.linear.schedule {
            Schedule::EveryRound => 1,
            Schedule::Every { rounds } | Schedule::GrowthOrEvery { rounds } => rounds,
            // Batches grow with the rounds.
            _ => return Ok(()),
        };
        let steps = self.planned_steps(batch)?;
        // A fresh ciphertext is one polynomial and a seed.
        let bits = ring.params.log_q0 as usize + ring.params.depth * ring.params.log_scale as usize;
        let update = matrices.exchanged(steps) * ring.n() * bits / 8;
        let least = update.div_ceil(MOST_UPDATE_BYTES) as u64;
        if batch >= least {
            return Ok(());
        }
        let got = format!("{:?}", self.linear.schedule);
        let want = format!(
            "of at least {least} rounds a batch with these keys: an update by products sends and logs {} MB, \
             and {} MB a feedback are the most",
            update.div_ceil(1_000_000),
            MOST_UPDATE_BYTES / 1_000_000
        );
        Err(OutOfRange::new("linear.schedule", got, want).into())
    }

    /// Checks that users with keys of their own can use such a bandit.
    fn check_own_keys(&self) -> Result<(), Error> {
        if self.answers != Answers::Arm {
            let want = "arm with keys of the users' own: scores show the model to each user";
            return Err(OutOfRange::new("answers", format!("{:?}", self.answers), want).into());
        }
        if self.tests_trace() {
            let got = format!("{:?}", self.linear.schedule);
            let want = "public with keys of the users' own, who cannot decrypt a trace question";
            return Err(OutOfRange::new("linear.schedule", got, want).into());
        }
        Ok(())
    }

    /// Checks that stages decide such a bandit with an evaluation ring of these parameters, and returns the
    /// most users of an evaluation.
    fn check_staged(&self, decisions: &Params, ring: ScoreRing) -> Result<usize, Error> {
        let field =
            |field, got: String, want: &'static str| Error::OutOfRange(OutOfRange::new(field, got, want));
        if !self.raises_differences() {
            let got = format!("{:?}", self.linear.width);
            return Err(field("linear.width", got, "a tangent with exchanges: staged, which has no root"));
        }
        if self.tests_trace() {
            let got = format!("{:?}", self.linear.schedule);
            let want = "public with exchanges: staged, because no stage compares the trace";
            return Err(field("linear.schedule", got, want));
        }
        if self.answers != Answers::Arm {
            let want = "arm with exchanges: staged: with scores the device compares, and nobody is asked";
            return Err(field("answers", format!("{:?}", self.answers), want));
        }
        if self.comparison_bits != 6 {
            let want = "6 with exchanges: staged, whose polynomials have this resolution";
            return Err(field("comparison_bits", self.comparison_bits.to_string(), want));
        }
        let (top, log_n) = (decisions.max_level(), decisions.spec().log_n);
        if top < ALL_PAIRS_LEVEL {
            let advice = "take keys of `helba-keygen create --exchanges staged`".to_string();
            return Err(Error::Depth { what: "a staged decision", need: ALL_PAIRS_LEVEL, have: top, advice });
        }
        if log_n > MOST_STAGED_LOG_N {
            let want = "one with these keys: a staged decision takes a ring of evaluations of at most 2^14 \
                        coefficients, which keys of `helba-keygen create --exchanges staged` have";
            return Err(field("exchanges", "staged".into(), want));
        }
        StagedLayout::most_users(self, ring, decisions.max_slots())
    }

    /// Refuses numbers above 10⁴ among lambda and its inverse, L², and the largest confidence width, which
    /// enter the messages of the circuits.
    fn check_sizes(&self) -> Result<(), Error> {
        let linear = &self.linear;
        // The width is largest in the last round.
        let width = match linear.width {
            Width::Constant { alpha } => ("linear.width.alpha", alpha),
            Width::Tangent { .. } => ("linear.width", linear.untried_bonus(self.scaled_rounds())),
            _ => ("linear.width", linear.beta(self.horizon, self.scaled_rounds())),
        };
        for (name, value) in [
            ("linear.lambda", linear.lambda.max(1.0 / linear.lambda)),
            ("linear.l", linear.l * linear.l),
            width,
        ] {
            if value.is_nan() || value > 1e4 {
                let got = format!("{value:e} (its square or inverse, as it enters)");
                return Err(OutOfRange::new(name, got, "at most 10⁴, to fit the messages").into());
            }
        }
        Ok(())
    }

    fn check_depth(&self, decision: usize, rings: &Rings) -> Result<(), Error> {
        let top = rings.decisions.max_level();
        if decision <= top {
            return Ok(());
        }
        let mut advice = format!("lower comparison_bits (now {}, least 6)", self.comparison_bits);
        if decision <= rings.updates.max_level() {
            advice += ", or take keys of `helba-keygen create --width root`";
        }
        if !self.raises_differences() {
            advice += &format!(" or sqrt_degree (now {}, least 15)", self.sqrt_degree);
        }
        Err(Error::Depth { what: "a decision", need: decision, have: top, advice })
    }

    /// The Newton steps of an update after the longest batch, and the level of its statistics.
    fn update_levels(&self, batch: u64, shape: Shape, top: usize) -> Result<(usize, usize), Error> {
        let linear = &self.linear;
        let steps = self.planned_steps(batch)?;
        let update = UpdateLevels::new(steps).total();
        // The old model must be one level above the statistics, because a transform takes a level.
        let highest = shape.update_level(top);
        if update < highest {
            return Ok((steps, update));
        }
        let ratio = linear.l * linear.l / linear.lambda;
        let lower = match linear.schedule.is_public() {
            true => format!("batches (now up to {batch} feedbacks: schedule and unanswered)"),
            false => format!("unanswered (now {}), C (now {})", self.unanswered, linear.c),
        };
        let advice =
            format!("lower {lower} or L²/lambda (now {ratio:.3}): fewer steps of Newton's iteration");
        Err(Error::Depth { what: "a batch update", need: update + 1, have: highest, advice })
    }

    /// The Newton steps of an update after a batch of `batch` feedbacks. A discount of 0.99 and more takes
    /// half of V at most in a batch ([`Faded::bound`](bandit::Faded::bound)). What takes more, as a window
    /// may, takes further steps, or in slots a further update.
    fn planned_steps(&self, batch: u64) -> Result<usize, Error> {
        let removed = if self.forgetting().is_some() { 2.0 } else { 1.0 };
        Ok(self.newton(0.0, batch, removed, usize::MAX)?.steps().len())
    }

    /// L²/λ, the most that a feedback adds to an eigenvalue of V/λ.
    pub fn ratio(&self) -> f64 {
        self.linear.l * self.linear.l / self.linear.lambda
    }

    /// The c with V_j ≤ c·V, for a V that lacks `subtracted` of the feedbacks of V_j.
    pub fn removed(&self, subtracted: u64) -> f64 {
        1.0 + subtracted as f64 * self.ratio()
    }

    /// How old feedback loses its weight, if it does.
    pub fn forgetting(&self) -> Option<Forgetting> {
        // The plan has checked both.
        Forgetting::new(self.discount, self.window).ok().flatten()
    }

    /// log₂ of the scale of sums of feedback with their weights.
    pub fn log_sums(&self) -> u32 {
        LOG_STATISTICS + self.forgetting().map_or(0, |forgetting| forgetting.log_weight())
    }

    /// The number of feedbacks that the confidence width of a model of `feedbacks` feedbacks is computed
    /// from.
    pub fn effective(&self, feedbacks: u64) -> u64 {
        self.forgetting().map_or(feedbacks, |forgetting| forgetting.effective(feedbacks))
    }

    /// The number of feedbacks for which numbers are scaled: the horizon, or as many as have a weight.
    pub fn scaled_rounds(&self) -> u64 {
        self.forgetting().map_or(self.horizon, |forgetting| self.horizon.min(forgetting.most(MOST_IN_BATCH)))
    }

    /// Refuses what cannot go with forgetting.
    fn check_forgetting(&self) -> Result<(), Error> {
        let Some(forgetting) = Forgetting::new(self.discount, self.window)? else { return Ok(()) };
        let field = if self.discount.is_some() { "discount" } else { "window" };
        if self.tests_trace() {
            let want = "left out with the schedule trace_or_growth, whose test needs inverses that decrease from batch to batch; \
                        or a public schedule, such as growth_or_every";
            return Err(OutOfRange::new(field, "given", want).into());
        }
        let most = forgetting.most(MOST_IN_BATCH) as f64 * self.linear.l * self.linear.l;
        if most > MOST_WEIGHED {
            let want = format!(
                "one with which some {MOST_WEIGHED}/linear.l² feedbacks have a weight: these have {most:.0}/linear.l²"
            );
            return Err(OutOfRange::new(field, self.discount.unwrap_or(1.0), want).into());
        }
        Ok(())
    }

    /// Refuses weights of so much feedback that an update in slots, which may have to begin with a multiple
    /// of I, would be too far from the inverse.
    fn check_forgetting_in_slots(&self) -> Result<(), Error> {
        let Some(forgetting) = self.forgetting() else { return Ok(()) };
        let most = forgetting.most(MOST_IN_BATCH) as f64;
        if most * most <= self.most_spread() {
            return Ok(());
        }
        let field = if self.discount.is_some() { "discount" } else { "window" };
        let want = format!(
            "one with which at most {:.0} feedbacks have a weight, with keys of updates in slots; or keys of \
             `helba-keygen create --updates products`",
            self.most_spread().sqrt()
        );
        Err(OutOfRange::new(field, format!("{most} feedbacks"), want).into())
    }

    /// The most that the product of the factor by which an eigenvalue of A_j·V_j grows, in units of L²/λ, and
    /// of the feedbacks in V may be.
    fn most_spread(&self) -> f64 {
        let squared = self.linear.l * self.linear.l;
        MOST_SPREAD * self.design_scale() * self.linear.lambda / (squared * squared)
    }

    /// The power of two s, by which statistics are divided.
    fn design_scale(&self) -> f64 {
        let growth = (self.ratio() * self.scaled_rounds() as f64).max(1.0);
        // Both factors of V·X are then of order √t, and their product is of order one.
        (growth.log2() / 2.0).round().exp2()
    }

    /// The smallest difference of scores, relative to their range, that the comparison resolves: 2⁻ᵇ for b
    /// comparison bits.
    pub fn resolution(&self) -> f64 {
        (-f64::from(self.comparison_bits)).exp2()
    }

    /// Degrees of the odd minimax polynomials whose composition compares scores with this resolution.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for comparison bits other than 6, 8 or 10.
    pub fn comparison_degrees(&self) -> Result<&'static [usize], Error> {
        match self.comparison_bits {
            // This composition has eight levels and an error of 2^−5.4. The device plays the largest entry,
            // which is the right one also for smaller differences.
            6 if self.linear.k <= ROUGH_ARMS => Ok(&[15, 15]),
            6 => Ok(&[15, 31]),
            8 => Ok(&[7, 15, 15]),
            10 => Ok(&[15, 15, 31]),
            other => Err(OutOfRange::new("comparison_bits", other, "6, 8 or 10").into()),
        }
    }

    /// Whether the index is linear in z and u, so that a raise places differences of indices. A square root
    /// is a polynomial on raised scores.
    pub fn raises_differences(&self) -> bool {
        matches!(self.linear.width, Width::Tangent { .. })
    }

    /// log₂ of the number that features are divided by, and of that which the model is divided by.
    pub(crate) fn log_sizes(&self) -> [i32; 2] {
        let log = |value: f64| value.log2().ceil() as i32;
        // A ≤ V⁻¹ ≤ 1/λ. The least exponent keeps the change of scale of a refresh below 1.
        [log(self.linear.l), log(1.0 / self.linear.lambda).max(-8)]
    }

    /// Whether batches end by the encrypted trace, so that devices are asked for one bit of a decryption.
    pub fn tests_trace(&self) -> bool {
        !self.linear.schedule.is_public()
    }

    /// Checks that the bandit takes logged rounds.
    ///
    /// # Errors
    /// [`Error::NoLoggedRounds`] under the trace condition.
    pub fn check_logged(&self) -> Result<(), Error> {
        let why = "the schedule trace_or_growth tests the trace of each feedback; take a public schedule, such as \
                   growth_or_every";
        if self.tests_trace() { Err(Error::NoLoggedRounds { why }) } else { Ok(()) }
    }

    /// The most feedbacks and subtractions of a sum that is raised, whoever raises it: [`MOST_SUMMED`], and
    /// fewer where L is above 8, so that masks are at least 2³⁵ times as wide as a sum. At least 1: a single
    /// feedback always fits.
    pub fn most_summed(&self) -> u64 {
        let squared = self.linear.l * self.linear.l;
        (MOST_SUMMED as f64).min(MOST_SQUARES / squared).max(1.0) as u64
    }

    /// The most feedbacks and logged rounds that may wait for the next model when logged rounds are taken, if
    /// the last model has `learnt` of them.
    ///
    /// With n of them the eigenvalues of A_j·V are at most 1 + n·L²/λ times those before
    /// ([`Self::newton`]), the entries of V/s at most (`learnt` + n)·L²/s, an entry of their sum at most
    /// n·L², and the mask of a raise is at least 2³⁵ times as wide as that.
    pub fn most_waiting(&self, learnt: u64) -> u64 {
        let learnt =
            self.forgetting().map_or(learnt, |forgetting| learnt.min(forgetting.most(MOST_IN_BATCH)));
        let (squared, lambda, learnt) = (self.linear.l * self.linear.l, self.linear.lambda, learnt as f64);
        // n·max(horizon, learnt + n) ≤ spread.
        let spread = self.most_spread();
        let most = (self.most_summed() as f64)
            .min(MOST_GROWTH * lambda / squared)
            .min(spread / self.scaled_rounds() as f64)
            .min(2.0 * spread / (learnt + (learnt * learnt + 4.0 * spread).sqrt()));
        // A single feedback always fits.
        most.max(1.0) as u64
    }

    /// The most logged rounds of one request, if the last model has `learnt` feedbacks and logged rounds.
    pub fn most_logged(&self, learnt: u64) -> usize {
        (self.most_waiting(learnt) as usize).min(MOST_LOGGED)
    }

    /// An upper bound on the trace of a batch if `pending` feedbacks arrived since the trace was known to be
    /// below C.
    pub fn trace_bound(&self, pending: u64) -> f64 {
        let l = &self.linear;
        l.c + pending as f64 * l.l * l.l / l.lambda
    }

    /// The Newton factors of a batch update, if the eigenvalues of A_j·V_j are within `residual` of one and
    /// `pending` feedbacks arrived since then. Under a public schedule these are the feedbacks since V_j;
    /// under the trace condition, those since the trace was known to be below C. The number of steps reaches
    /// [`INVERSE_TOLERANCE`], and is at most `most`. Of V_j, V has kept at least 1/`removed`: 1 if nothing
    /// was removed.
    ///
    /// A feedback adds xxᵀ to V, and xᵀA_j x ≤ (1 + residual)·L²/λ for any x of norm L, because A_j ≤ (1 +
    /// residual)·V_j⁻¹ and V_j ≥ λI. Hence the eigenvalues of A_j·V are at most (1 + residual)·(1 +
    /// pending·L²/λ) for any contexts. The feedbacks that the trace condition was tested with add C, up to
    /// the resolution of the comparison.
    ///
    /// With V_j ≤ `removed`·V the eigenvalues of A_j·V are at least (1 − residual)/`removed`. What is left of
    /// V_j after an erasure is W ≥ λI, and V_j = W + Σ xxᵀ ≤ (1 + n·L²/λ)·W for n feedbacks
    /// ([`Self::removed`]). [`Faded::bound`](bandit::Faded::bound) has the number for old feedback that
    /// counts less. Both add up: V_j ≤ (c + n·L²/λ)·V.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the bound on the eigenvalues overflows.
    pub fn newton(&self, residual: f64, pending: u64, removed: f64, most: usize) -> Result<Factors, Error> {
        let l = &self.linear;
        let untested = (1.0 + residual) * (1.0 + pending as f64 * self.ratio());
        let tested = match l.schedule.is_public() {
            true => 0.0,
            false => l.c + 2.0 * self.resolution() * self.trace_bound(pending),
        };
        let (bottom, top) = ((1.0 - residual) / removed, untested + tested);
        let steps = warm_steps(bottom, top, INVERSE_TOLERANCE)?;
        Factors::warm(bottom, top, steps.min(most))
    }
}

/// The public levels and sizes of a bandit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// How updates are computed. By products they have no levels: those of statistics, model and refresh are
    /// 0.
    pub updates: Updates,
    /// How often an evaluation asks a holder of the key.
    pub exchanges: Exchanging,
    /// Whose keys users have.
    pub keys: UserKeys,
    /// The level of raised scores, which is the depth of the circuit.
    pub scores_level: usize,
    /// The level of raised statistics.
    pub statistics_level: usize,
    /// The level of a refreshed model in the ring of the deep circuit.
    pub model_level: usize,
    /// The level of a masked model.
    pub refresh_level: usize,
    /// The level of answers and of trace questions.
    pub answer_level: usize,
    /// The number of Newton steps of an update after the longest batch.
    pub newton_steps: usize,
    /// The most users of an evaluation: B, or B − 1 under the trace condition.
    pub users: usize,
    /// The period of the slots of the model.
    pub model_slots: usize,
    /// The scaling s of the statistics V/s and g/s.
    pub design_scale: f64,
}
