use super::{finite, observed};
use crate::error::{in_round, stored};
use crate::mle::{self, Rows};
use crate::{Error, Problem, Symmetric};
use bandit::vector::{argmax, dot};
use bandit::{Features, Learnt, Policy};
use privacy::PrivacyStatement;
use rand::Rng;

privacy::stored! {
    /// GLM-UCB: maximum likelihood estimates, with one width for all slopes of the link.
    ///
    /// Cost: O(t d^2) per refit, O(K d^2) per round.
    ///
    /// # Source
    /// Filippi, Cappe, Garivier and Szepesvari 2010. Departures, as in the published experiments: the
    /// estimate is not projected on the ball; the width is `2 L_mu kappa sqrt(3 + 2 ln(1 + 2/lambda)) sqrt(2
    /// d ln(2dT/delta) ln t)`, without `ln t` unless `log_factor` is set; `lambda = d`.
    #[derive(Debug, Clone)]
    pub struct GlmUcb {
        config: Problem,
        /// Number of rounds between two refits.
        refit_every: u64,
        log_factor: bool,
        rows: Rows,
        inverse: Symmetric,
        theta: Vec<f64>,
    }
}

impl GlmUcb {
    /// The policy before any data.
    ///
    /// # Errors
    /// Those of [`Problem::validate`]; [`Error::OutOfRange`] if `refit_every` is 0.
    pub fn new(config: Problem, refit_every: u64, log_factor: bool) -> Result<Self, Error> {
        config.validate()?;
        crate::error::field("refit_every", refit_every as f64, refit_every >= 1, "at least 1")?;
        let d = config.d;
        let inverse = Symmetric::identity(d, 1.0 / d as f64);
        Ok(Self { config, refit_every, log_factor, rows: Rows::new(d), inverse, theta: vec![0.0; d] })
    }

    /// The current estimate.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    fn width(&self) -> f64 {
        let Problem { d, link, s, kappa, delta, horizon, .. } = self.config;
        let d = d as f64;
        let log = if self.log_factor { ((self.rows.len() + 1) as f64).ln() } else { 1.0 };
        let confidence = 2.0 * d * (2.0 * d * horizon as f64 / delta).ln() * log;
        2.0 * link.max_slope(s) * kappa * ((3.0 + 2.0 * (2.0 / d).ln_1p()) * confidence).sqrt()
    }

    /// Refuses statistics that do not fit the configuration.
    fn check_stored(&self) -> Result<(), Error> {
        let Problem { d, horizon, .. } =
            Self::new(self.config.clone(), self.refit_every, self.log_factor)?.config;
        let counts = self.rows.len() as u64 <= horizon;
        let shapes = self.rows.is_consistent(d) && self.inverse.d() == d && self.theta.len() == d;
        stored(counts && shapes && finite(&self.theta))
    }
}

impl Policy for GlmUcb {
    type Context = Features;
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        PrivacyStatement::none("Exact statistics decide every arm.")
    }

    fn learnt(&self) -> Learnt {
        Learnt { theta: Some(self.theta().to_vec()), ..Learnt::default() }
    }

    /// # Errors
    /// Those of the trait; [`bandit::Error::HorizonOver`] after round T.
    fn decide(&mut self, set: &Features, _: &mut dyn Rng) -> Result<usize, bandit::Error> {
        self.config.admit(self.rows.len() as u64)?;
        self.config.check(set)?;
        let (width, link) = (self.width(), self.config.link);
        Ok(argmax(set.rows().map(|x| link.mean(dot(x, &self.theta)) + width * self.inverse.norm(x))))
    }

    fn learn(&mut self, set: &Features, arm: usize, r: &f64, _: &mut dyn Rng) -> Result<(), bandit::Error> {
        self.config.admit(self.rows.len() as u64)?;
        let x = observed(&self.config, set, arm, *r)?;
        self.inverse.sherman_morrison(1.0, x);
        self.rows.push(x, *r).map_err(in_round)?;
        if (self.rows.len() as u64).is_multiple_of(self.refit_every) {
            let (link, lambda) = (self.config.link, self.config.d as f64);
            self.theta = mle::fit(link, &self.rows, lambda, &self.theta).map_err(in_round)?;
        }
        Ok(())
    }
}
