//! HELBA in the clear, with which the encrypted server is compared.

#[cfg(doc)]
use crate::Schedule;
use crate::oful::{check_schedule, observed};
use crate::vector::dot;
use crate::{
    Bonus, EXACT_TIE, Error, Features, Forgetting, Learnt, LinearConfig, Policy, Ridge, Width, paper,
};
use privacy::PrivacyStatement;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// The arithmetic of [`HelbaClear`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arithmetic {
    /// Exact inverse, square root and argmax.
    Exact,
    /// The paper's polynomial approximations at the paper's precisions ([`paper`]). The trace rule is
    /// compared exactly.
    Paper,
}

privacy::stored! {
    /// Plays the arm with the largest `<omega_j, x> + beta(t) (sqrt(x^T A_j x + c1) + 1/t)`, or with
    /// [`Width::Tangent`] that tangent's bonus; `A_j` and `omega_j` are computed at batch starts only. Of
    /// equal arms it plays the one that [`LinearConfig::preferred`] names.
    ///
    /// - Cost: O(K d^2) per round and O(d^3) per batch start.
    /// - Late rewards may be learnt in any order; `t` is the number of rewards learnt.
    ///
    /// # Source
    /// Algorithm 4: eq. 6 (index), eq. 2 and Corollary 3 (inverse), eq. 8 (batches).
    #[derive(Debug, Clone)]
    pub struct HelbaClear {
        config: LinearConfig,
        arithmetic: Arithmetic,
        ridge: Ridge,
        forgetting: Option<Forgetting>,
    }
}

impl HelbaClear {
    /// The policy before any data. The paper's width is [`Width::Theory`], its schedule
    /// [`Schedule::TraceOrGrowth`].
    ///
    /// # Errors
    /// Those of [`LinearConfig::validate`]; [`Error::OutOfRange`] for a tangent in the paper's arithmetic,
    /// which has no square root to approximate there.
    pub fn new(config: LinearConfig, arithmetic: Arithmetic) -> Result<Self, Error> {
        config.validate()?;
        check_width(&config, arithmetic)?;
        let ridge = Ridge::new(config.d, config.lambda, config.schedule.needs_tracking());
        Ok(Self { config, arithmetic, ridge, forgetting: None })
    }

    /// The policy before any data whose old feedback counts less, so that it follows a parameter that drifts.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a schedule that is not public: its conditions need a design that grows.
    pub fn forgetting(self, forgetting: Option<Forgetting>) -> Result<Self, Error> {
        let Some(given) = forgetting else { return Ok(self) };
        check_schedule(&self.config)?;
        if self.arithmetic == Arithmetic::Paper {
            let want = "left out in the paper's arithmetic";
            return Err(fault::OutOfRange::new("forgetting", "given", want).into());
        }
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

    /// The optimistic indices `rho_a` of the next round before rescaling, in arm order.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::FeatureTooLong`].
    pub fn indices(&self, context: &Features) -> Result<impl ExactSizeIterator<Item = f64>, Error> {
        let LinearConfig { k, d, l, .. } = self.config;
        context.check(k, d, l)?;
        let (t, t_j) = (self.ridge.round() + 1, self.effective_start());
        let (c1, c2) = (self.config.c1(t_j), self.config.c2(t_j));
        let bonus = self.config.bonus(t, t_j, c1);
        let precision = (t as f64).recip();
        let iterations = match self.arithmetic {
            Arithmetic::Exact => None,
            Arithmetic::Paper => Some(paper::sqrt_iterations(precision, c1, c2)),
        };
        let ridge = &self.ridge;
        Ok(context.rows().map(move |x| {
            let z = ridge.quadratic_form(x);
            let bonus = match (bonus, iterations) {
                (Bonus::Root { beta, c1 }, Some(k)) => beta * (paper::sqrt(z + c1, c2, k) + precision),
                (Bonus::Root { beta, .. }, None) => bonus.of(z) + beta * precision,
                (Bonus::Linear { .. }, _) => bonus.of(z),
            };
            dot(ridge.omega(), x) + bonus
        }))
    }

    /// The values that a user decrypts, in arm order: near 1 for the best arm, near 0 for the others.
    ///
    /// # Errors
    /// Those of [`indices`](Self::indices). [`Error::ScoreSpread`] under [`Arithmetic::Paper`] if two indices
    /// differ by more than the polynomials' domain [-1, 1]; by Proposition 10 this cannot occur if rewards
    /// are in [-1, 1] and the width is at least [`Width::Theory`].
    pub fn action(&self, context: &Features) -> Result<Vec<f64>, Error> {
        let indices = self.indices(context)?;
        match self.arithmetic {
            Arithmetic::Exact => {
                let best = self.first(&indices.collect::<Vec<_>>());
                Ok((0..self.config.k).map(|a| f64::from(a == best)).collect())
            }
            Arithmetic::Paper => {
                let (t, t_j) = (self.ridge.round() + 1, self.effective_start());
                let range = self.config.rho_max(t, t_j) + 1.0;
                let scaled: Vec<f64> = indices.map(|rho| (rho + 1.0) / range).collect();
                let (least, most) =
                    scaled.iter().fold((f64::MAX, f64::MIN), |(a, b), &v| (a.min(v), b.max(v)));
                let spread = most - least;
                if spread.is_nan() || spread > 1.0 {
                    return Err(Error::ScoreSpread { spread });
                }
                Ok(paper::argmax(&scaled, paper::max_depth(t), paper::comparison_depth(t)))
            }
        }
    }

    /// The arm to play, by its value.
    fn first(&self, values: &[f64]) -> usize {
        self.config.preferred(values, EXACT_TIE, self.ridge.round() + 1)
    }

    fn start_batch(&mut self) -> Result<(), Error> {
        let LinearConfig { d, lambda, l, .. } = self.config;
        match self.arithmetic {
            Arithmetic::Exact => self.ridge.start_batch(),
            Arithmetic::Paper => {
                // Corollary 3: this precision keeps omega within t^(-1/2) of the exact estimate in V-norm.
                let t = self.ridge.round() as f64;
                let eps = (l * t * t.sqrt() * (l * l * t + lambda).sqrt()).recip();
                let c = lambda * d as f64 + l * l * t;
                let inverse = paper::newton_inverse(
                    self.ridge.design(),
                    d,
                    c,
                    paper::newton_iterations(eps, lambda, c),
                )?;
                self.ridge.start_batch_with(&inverse)
            }
        }
    }

    /// Refuses statistics that do not fit the configuration.
    fn check_stored(&self) -> Result<(), Error> {
        self.config.validate()?;
        check_width(&self.config, self.arithmetic)?;
        self.forgetting.map_or(Ok(()), |_| check_schedule(&self.config))?;
        self.ridge.check(self.config.d, self.tracks(), self.forgetting)
    }
}

/// Refuses the tangent of a square root in the paper's arithmetic.
fn check_width(config: &LinearConfig, arithmetic: Arithmetic) -> Result<(), Error> {
    match (config.width, arithmetic) {
        (Width::Tangent { .. }, Arithmetic::Paper) => {
            let want = "constant, theory or self_normalized in the paper's arithmetic";
            Err(fault::OutOfRange::new("width", "tangent", want).into())
        }
        _ => Ok(()),
    }
}

impl Policy for HelbaClear {
    type Context = Features;
    type Feedback = f64;

    fn privacy(&self) -> PrivacyStatement {
        PrivacyStatement::none("Decisions depend on contexts and rewards without noise.")
    }

    fn learnt(&self) -> Learnt {
        Learnt { theta: Some(self.ridge.omega().to_vec()), ..Learnt::default() }
    }

    fn decide(&mut self, context: &Features, _: &mut dyn Rng) -> Result<usize, Error> {
        match self.arithmetic {
            Arithmetic::Exact => Ok(self.first(&self.indices(context)?.collect::<Vec<_>>())),
            Arithmetic::Paper => Ok(self.first(&self.action(context)?)),
        }
    }

    fn learn(&mut self, context: &Features, arm: usize, reward: &f64, _: &mut dyn Rng) -> Result<(), Error> {
        let x = observed(&self.config, context, arm, *reward)?;
        self.ridge.observe(x, *reward)?;
        if self.config.batch_ends(&self.ridge.progress()) {
            self.start_batch()?;
        }
        Ok(())
    }
}
