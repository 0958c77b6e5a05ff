//! OFUL (optimism in the face of uncertainty) and its rarely switching variants.

use crate::vector::dot;
use crate::{EXACT_TIE, Error, Features, Forgetting, Learnt, LinearConfig, Policy, Ridge, Schedule};
use privacy::PrivacyStatement;
use rand::Rng;

privacy::stored! {
    /// Plays the arm with the largest `<omega_j, x> + beta(t) ||x||_{A_j}`, or with
    /// [`Width::Tangent`](crate::Width::Tangent) that tangent's bonus, exactly, on any [`Schedule`]. Of equal
    /// arms it plays the one that [`LinearConfig::preferred`] names.
    ///
    /// - Cost: O(K d^2) per round and O(d^3) per batch start, where OFUL and RSOFUL take O(d^2).
    /// - Late rewards may be learnt in any order; `t` is the number of rewards learnt.
    ///
    /// # Source
    /// Abbasi-Yadkori, Pal, Szepesvari 2011 (OFUL, RSOFUL); the trace rule: HELBA, eq. 8.
    #[derive(Debug, Clone)]
    pub struct Oful {
        config: LinearConfig,
        ridge: Ridge,
        forgetting: Option<Forgetting>,
    }
}

impl Oful {
    /// The policy before any data, with the schedule of the configuration.
    ///
    /// # Errors
    /// Those of [`LinearConfig::validate`].
    pub fn new(config: LinearConfig) -> Result<Self, Error> {
        config.validate()?;
        let ridge = Ridge::new(config.d, config.lambda, config.schedule.needs_tracking());
        Ok(Self { config, ridge, forgetting: None })
    }

    /// OFUL: the statistics are renewed in every round.
    ///
    /// # Errors
    /// Those of [`LinearConfig::validate`].
    pub fn every_round(config: LinearConfig) -> Result<Self, Error> {
        Self::new(LinearConfig { schedule: Schedule::EveryRound, ..config })
    }

    /// RSOFUL: the statistics are renewed when the determinant has grown by the factor `1 + c`.
    ///
    /// # Errors
    /// Those of [`LinearConfig::validate`].
    pub fn rsoful(config: LinearConfig) -> Result<Self, Error> {
        Self::new(LinearConfig { schedule: Schedule::Determinant, ..config })
    }

    /// RSOFUL-Tr: the statistics are renewed when the trace has reached `c`.
    ///
    /// # Errors
    /// Those of [`LinearConfig::validate`].
    pub fn rsoful_tr(config: LinearConfig) -> Result<Self, Error> {
        Self::new(LinearConfig { schedule: Schedule::Trace, ..config })
    }

    /// The policy before any data whose old feedback counts less, so that it follows a parameter that drifts.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a schedule that is not public: its conditions need a design that grows.
    pub fn forgetting(self, forgetting: Option<Forgetting>) -> Result<Self, Error> {
        let Some(given) = forgetting else { return Ok(self) };
        check_schedule(&self.config)?;
        let ridge = Ridge::forgetting(self.config.d, self.config.lambda, given);
        Ok(Self { ridge, forgetting, ..self })
    }

    fn tracks(&self) -> bool {
        self.forgetting.is_none() && self.config.schedule.needs_tracking()
    }

    /// t_j, from which widths are computed: as many feedbacks as are as much without forgetting.
    fn effective_start(&self) -> u64 {
        let t_j = self.ridge.batch_start();
        self.forgetting.map_or(t_j, |forgetting| forgetting.effective(t_j).max(1))
    }

    /// The configuration.
    pub fn config(&self) -> &LinearConfig {
        &self.config
    }

    /// The statistics.
    pub fn ridge(&self) -> &Ridge {
        &self.ridge
    }

    /// Refuses statistics that do not fit the configuration.
    fn check_stored(&self) -> Result<(), Error> {
        self.config.validate()?;
        self.forgetting.map_or(Ok(()), |_| check_schedule(&self.config))?;
        self.ridge.check(self.config.d, self.tracks(), self.forgetting)
    }
}

impl Policy for Oful {
    type Context = Features;
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        PrivacyStatement::none("Decisions depend on contexts and rewards without noise.")
    }

    fn learnt(&self) -> Learnt {
        Learnt { theta: Some(self.ridge().omega().to_vec()), ..Learnt::default() }
    }

    fn decide(&mut self, context: &Features, rng: &mut dyn Rng) -> Result<usize, Error> {
        self.decide_open(context, &vec![true; self.config.k], rng)
    }

    fn decide_open(&mut self, context: &Features, open: &[bool], _: &mut dyn Rng) -> Result<usize, Error> {
        let LinearConfig { k, d, l, .. } = self.config;
        context.check(k, d, l)?;
        let round = self.ridge.round() + 1;
        let bonus = self.config.bonus(round, self.effective_start(), 0.0);
        let index = |(x, open): (&[f64], &bool)| match open {
            true => dot(self.ridge.omega(), x) + bonus.of(self.ridge.quadratic_form(x)),
            false => f64::NEG_INFINITY,
        };
        let indices: Vec<f64> = context.rows().zip(open).map(index).collect();
        Ok(self.config.preferred(&indices, EXACT_TIE, round))
    }

    fn learn(&mut self, context: &Features, arm: usize, reward: &f64, _: &mut dyn Rng) -> Result<(), Error> {
        let x = observed(&self.config, context, arm, *reward)?;
        self.ridge.observe(x, *reward)?;
        if self.config.batch_ends(&self.ridge.progress()) {
            self.ridge.start_batch()?;
        }
        Ok(())
    }
}

/// Refuses forgetting where the end of a batch depends on a design that grows.
pub(crate) fn check_schedule(config: &LinearConfig) -> Result<(), Error> {
    match config.schedule.is_public() {
        true => Ok(()),
        false => {
            let want = "one that is public, such as growth_or_every, where old feedback counts less";
            Err(fault::OutOfRange::new("schedule", format!("{:?}", config.schedule), want).into())
        }
    }
}

/// The features of the arm that was played, if the whole observation is valid.
pub(crate) fn observed<'a>(
    config: &LinearConfig,
    context: &'a Features,
    arm: usize,
    reward: f64,
) -> Result<&'a [f64], Error> {
    context.check(config.k, config.d, config.l)?;
    if !reward.is_finite() {
        return Err(Error::RewardNotFinite);
    }
    context.row(arm).ok_or(Error::Arm { arm, k: config.k })
}
