//! JointGLM: generalised linear bandits with joint differential privacy, updated in every round.

mod billboard;
mod config;
mod curator;
mod ledger;

pub use billboard::Billboard;
pub use config::{Estimate, Growth, JointConfig, Published, Region, Release, Trigger, WarmUp};

use crate::Error;
use crate::error::{in_round, stored};
use bandit::{Features, Learnt, Policy};
use curator::Curator;
use privacy::PrivacyStatement;
use rand::Rng;

privacy::stored! {
    /// JointGLM has two data sets with a matrix each. A round that has an arm of large `||x||_{V^-1}`
    /// explores, and its row belongs to the warm-up estimate. Every other round plays optimistically by the
    /// running estimate, which has its row and is renewed when H has grown.
    ///
    /// - Features have norm up to 1, rewards lie in `[0, reward_max]`. [`Policy::learn`] belongs to the last
    ///   [`Policy::decide`], whose arm need not be the one played, or to the decision of [`Policy::recall`]:
    ///   a row belongs to the data set that its decision chose, however many rows are learnt in between.
    /// - Privacy: [`JointConfig::privacy`]. Only the file of the curator can read its rows; arms are chosen
    ///   from the [`Billboard`] and the round's own arm set.
    /// - Cost: O(K d^2 + d^2 log T + d^3) per round, O(n d) per descent step.
    ///
    /// # Source
    /// Sarmasarkar, "Shuffle and Joint Differential Privacy for Generalized Linear Contextual Bandits",
    /// Algorithm 2. Departures are fields of [`JointConfig`]; `docs/joint-privacy.md` proves their effect.
    #[derive(Debug, Clone)]
    pub struct JointGlm {
        config: JointConfig,
        billboard: Billboard,
        curator: Curator,
        /// Whether the current round explores; `None` without a decision that waits for its feedback.
        pending: Option<bool>,
    }
}

impl JointGlm {
    /// The policy before any data.
    ///
    /// # Errors
    /// Those of [`JointConfig::validate`].
    pub fn new(config: JointConfig) -> Result<Self, Error> {
        config.validate()?;
        let (billboard, curator) = (Billboard::new(&config), Curator::new(&config)?);
        Ok(Self { config, billboard, curator, pending: None })
    }

    /// The configuration.
    pub fn config(&self) -> &JointConfig {
        &self.config
    }

    /// The published values.
    pub fn billboard(&self) -> &Billboard {
        &self.billboard
    }

    /// Whether the current round explores; `None` without a decision that waits for its feedback.
    pub fn exploring(&self) -> Option<bool> {
        self.pending
    }

    fn renew_running(&mut self, rng: &mut dyn Rng) -> Result<(), Error> {
        let spent = self.billboard.running_calls >= self.config.max_running_calls;
        let theta = if spent || self.billboard.running_rows(&self.config) < 1.0 {
            self.billboard.warm_up.clone()
        } else {
            self.billboard.running_calls += 1;
            self.curator.running_estimate(&self.config, &self.billboard, rng)?
        };
        self.billboard.renew_running(theta)
    }

    fn warm_up_due(&self, explored: bool) -> bool {
        let billboard = &self.billboard;
        billboard.warm_up_calls < self.config.max_warm_up_calls
            && match self.config.warm_up {
                WarmUp::EveryExploration => explored,
                WarmUp::PowersOfTwo => explored && self.curator.explorations_are_a_power_of_two(),
                WarmUp::Doubling => billboard.log_det_v > billboard.log_det_v_fitted + std::f64::consts::LN_2,
            }
    }

    fn after(&mut self, explored: bool, x: &[f64], reward: f64, rng: &mut dyn Rng) -> Result<(), Error> {
        let Self { config, billboard, curator, .. } = self;
        curator.observe(config, billboard, explored, x, reward, rng)?;
        if self.warm_up_due(explored) {
            self.billboard.warm_up = self.curator.warm_up_estimate(&self.config, &self.billboard, rng)?;
            self.billboard.warm_up_calls += 1;
            self.billboard.log_det_v_fitted = self.billboard.log_det_v;
        }
        if self.config.trigger == Trigger::EveryRound && self.billboard.renewal_due(&self.config)? {
            self.renew_running(rng)?;
        }
        Ok(())
    }

    /// Refuses statistics that do not fit the configuration.
    fn check_stored(&self) -> Result<(), Error> {
        let Self { config, billboard, curator, .. } = self;
        config.validate()?;
        stored(billboard.is_consistent(config) && curator.is_consistent(config, billboard.rounds))
    }
}

impl Policy for JointGlm {
    type Context = Features;
    type Feedback = f64;

    /// [`JointConfig::privacy`]; no privacy if it cannot be stated.
    fn privacy(&self) -> PrivacyStatement {
        self.config.privacy().unwrap_or_else(|e| PrivacyStatement::none(e.to_string()))
    }

    /// If it explores in half of all rounds or more.
    fn caution(&self) -> Option<String> {
        let (explorations, horizon) = (self.config.explorations(), self.config.problem.horizon);
        (2.0 * explorations >= horizon as f64).then(|| {
            format!(
                "With these constants about {explorations:.0} of {horizon} rounds explore, with arms that do not depend on rewards: a \
                 smaller kappa, gamma or s, or a longer horizon, leaves more rounds to what was learnt."
            )
        })
    }

    fn learnt(&self) -> Learnt {
        let theta = self.billboard.running().map_or(self.billboard.warm_up(), |(theta, _)| theta);
        Learnt { theta: Some(theta.to_vec()), ..Learnt::default() }
    }

    /// # Errors
    /// Those of the trait; [`bandit::Error::HorizonOver`] after round T.
    fn decide(&mut self, context: &Features, rng: &mut dyn Rng) -> Result<usize, bandit::Error> {
        self.config.problem.admit(self.billboard.rounds)?;
        self.config.problem.check(context)?;
        let exploring = self.billboard.explores(&self.config, context);
        if exploring.is_none()
            && self.config.trigger == Trigger::Exploiting
            && self.billboard.renewal_due(&self.config).map_err(in_round)?
        {
            self.renew_running(rng).map_err(in_round)?;
        }
        self.pending = Some(exploring.is_some());
        Ok(exploring.unwrap_or_else(|| self.billboard.exploits(&self.config, context)))
    }

    /// Whether the decision explores.
    fn mark(&self) -> u64 {
        u64::from(self.pending == Some(true))
    }

    fn recall(&mut self, mark: u64) {
        self.pending = Some(mark == 1);
    }

    /// # Errors
    /// Those of the trait; [`bandit::Error::NoRound`] if no decision waits for its feedback.
    fn learn(
        &mut self,
        context: &Features,
        arm: usize,
        reward: &f64,
        rng: &mut dyn Rng,
    ) -> Result<(), bandit::Error> {
        self.config.problem.check(context)?;
        self.config.problem.link.check(self.config.reward_max, *reward)?;
        let x = context.row(arm).ok_or(bandit::Error::Arm { arm, k: self.config.problem.k })?;
        self.config.problem.admit(self.billboard.rounds)?;
        let explored = self.pending.take().ok_or(bandit::Error::NoRound)?;
        self.after(explored, x, *reward, rng).map_err(in_round)
    }
}
