//! The ring of scores, in which an encrypted bandit multiplies contexts and model before anything is raised
//! to the ring of the deep circuit.
//!
//! N' is the least power of two that fits a shape ([`ScoreRing::beside`]), and at most N of the deep circuit.
//! With N' coefficients, Ka arms, the gap g = N'/(2·Ka) and d features, an arm has the L = d(d + 3)/2 ≤ g
//! numbers φ: x_i·x_j for i ≤ j, row by row, then x_j.
//!
//! ```text
//! contexts    c(X) = Σₐ Σ_f φₐ[f]·X^(2a·g + f)
//! model       M(X) = Σ_f A'[f]·X^(−f) + Σ_f ω[f]·X^(g − f)     A'[f] = A_ij + A_ji for i < j, A_ii for i = j
//! c·M         coefficient 2a·g: zₐ = xᵀAx      coefficient (2a + 1)·g: uₐ = ⟨ω, x⟩
//! statistics  Σ_f ψ[f]·X^f                     ψ: x_i·x_j for i ≤ j, then r·x_j
//! counters    X^L·(X^a + r·X^(K + a))          behind the statistics, for the arm a that was played
//!
//! several     Σ_b X^(b·s)·c_b(X): 2ᵏ decisions of one request, s = g/2ᵏ ≥ L
//! packed      coefficient h·g + b = coefficient h·g of user b, for b < g
//! raised      B = min(g, N/(2·Ka²)) users
//!   root      slot (a·B + b)·Ka + Ka − 1 = zₐ + i·uₐ of user b, and 0 elsewhere
//!   tangent   slot (a·B + b)·Ka + m = indexₐ − indexₖ of user b with k = (a + Ka − 1 − m) mod Ka, for
//!             m < Ka − 1, and 0 elsewhere; index = c₁·z + c₀·u with public factors, and 0 for the arms of
//!             padding
//!
//! trace       Σ_f τ[f]·X^f                     τ: Σ x_i·x_j for i ≤ j over the feedbacks of a batch
//! ```
//! The trace condition takes the place of user 0: coefficient 0 of the product of its statistics and M is the
//! trace Σ xᵀAx of the batch, and it alone is raised: as the imaginary part of slot Ka − 1, or with a tangent
//! as the index of arm 0, times a factor of its own.
//!
//! No other product reaches a multiple of g, because f − f' is not one for 0 ≤ f, f' < L ≤ g. Features are
//! divided by a power of two that is at least L, and the model by one that is at least the largest entry of
//! A, so that scores are at most 1 in size ([`ScoreLayout::log_range`]).

use crate::arms::{check_rows, is_open};
use crate::levels::PRODUCTS_LEVEL;
use crate::products::MatrixLayout;
use crate::staged::{MOST_STAGED_DECISIONS, StagedLayout};
use crate::{
    AnswerLayout, ArmCounter, BanditConfig, Error, Exchanging, KeyPlan, Plan, Shape, WidthShape, counters,
};
use bandit::vector::within;
use ckks::{ParamsSpec, Places, PrefixSpec, RAISE_FACTORS, Security, Term};
use num_complex::Complex64;
use std::borrow::Cow;
use std::ops::Range;
use zeroize::Zeroizing;

/// log₂ of the scale of contexts and of trace statistics.
pub const LOG_CONTEXT: u32 = 28;
/// log₂ of the scale of the model, which is the canonical scale of the ring of scores.
pub const LOG_MODEL: u32 = 22;
/// log₂ of the scale of scores.
pub const LOG_SCORE: u32 = LOG_CONTEXT + LOG_MODEL;
/// log₂ of the scale of the statistics of feedback. Sums of [`MOST_SUMMED`] feedbacks stay 40 bits below q/2,
/// so that masks hide them.
pub const LOG_STATISTICS: u32 = 44;
/// The most feedbacks of a sum that is raised, whoever raises it.
pub const MOST_SUMMED: u64 = 1 << 12;

/// The rings in use, the smallest first.
const RINGS: [ParamsSpec; 3] =
    [ckks::LOGN13_LOGQP147_SCORES, ckks::LOGN14_LOGQP147_SCORES, ckks::LOGN15_LOGQP147_SCORES];

/// The rings beside sets for more than 128 bits.
const STRONG_RINGS: [ParamsSpec; 2] =
    [ckks::LOGN14_LOGQP147_256BIT_SCORES, ckks::LOGN15_LOGQP147_256BIT_SCORES];

/// The rings for tests.
const TOYS: [ParamsSpec; 4] =
    [ckks::TOY_LOGN11_SCORES, ckks::TOY_LOGN12_SCORES, ckks::TOY_LOGN13_SCORES, ckks::TOY_LOGN14_SCORES];

/// The largest gap of keys of stages, and with it the most users of an evaluation: each doubling takes one
/// more key of packs, of 0.3 MB.
const MOST_STAGED_GAP: usize = 512;

/// The most decisions of one request.
pub const MOST_DECISIONS: usize = 128;

/// The parameters of the ring of scores for a shape, and the gap between its useful coefficients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreRing {
    /// The parameters, with N' coefficients.
    pub params: ParamsSpec,
    /// g = N'/(2·Ka), or less. The scores of arm a are the coefficients 2a·g and (2a + 1)·g, so that g users
    /// fit into one pack.
    pub gap: usize,
}

impl ScoreRing {
    /// The ring of keys of `shape` that were made for such evaluations, beside the large ring `large`.
    ///
    /// # Errors
    /// As [`Self::beside`] and [`Self::of_stages`].
    pub fn of_keys(large: &ParamsSpec, shape: Shape, exchanges: Exchanging) -> Result<Self, Error> {
        match exchanges {
            Exchanging::One => Self::beside(large, shape),
            Exchanging::Staged => Self::of_stages(large, shape),
        }
    }

    /// The ring for keys of `shape` whose large ring has the set `large`: the smallest whose gap holds the
    /// D(D + 3)/2 numbers of an arm, among those that claim as many bits of security. A ring without security
    /// is exactly beside one without security.
    ///
    /// # Errors
    /// [`Error::Coefficients`] if no ring that is as small as the large one has so many.
    pub fn beside(large: &ParamsSpec, shape: Shape) -> Result<Self, Error> {
        let need = Self::coefficients(shape);
        let params = rings(large).find(|ring| need <= 1 << ring.log_n).ok_or_else(|| {
            let have = rings(large).map(|ring| 1 << ring.log_n).max().unwrap_or(0);
            Error::Coefficients { need, have }
        })?;
        Ok(ScoreRing { params, gap: (1usize << params.log_n) / (2 * shape.arm_slots) })
    }

    /// Whether `n` coefficients have room for the contexts of `shape`.
    pub(crate) fn holds_contexts(n: usize, shape: Shape) -> bool {
        Self::coefficients(shape) <= n
    }

    /// The coefficients that the contexts of a decision take up.
    fn coefficients(shape: Shape) -> usize {
        2 * shape.arm_slots * numbers(shape.dim).next_power_of_two()
    }

    /// The ring for staged decisions of `shape` beside the ring of stages `large`: the smallest for so many
    /// bits of security that holds the numbers of a feedback with its counters, and the matrices of updates.
    /// Its gap is that of packs ([`StagedLayout::gap`]).
    ///
    /// # Errors
    /// [`Error::Coefficients`] if no ring that is as small as the large one does.
    pub fn of_stages(large: &ParamsSpec, shape: Shape) -> Result<Self, Error> {
        let need = numbers(shape.dim) + 2 * shape.arm_slots;
        let mut refused = Error::Coefficients { need, have: 0 };
        for params in rings(large) {
            let have = 1 << params.log_n;
            match MatrixLayout::new(have, shape.dim) {
                Ok(_) if need <= have => return Ok(Self::with_stages(params, shape)),
                Ok(_) => refused = Error::Coefficients { need, have },
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// The ring with these parameters for staged decisions of `shape`.
    pub fn with_stages(params: ParamsSpec, shape: Shape) -> Self {
        let n = 1 << params.log_n;
        let most = (n / (2 * shape.arm_slots)).min(MOST_STAGED_GAP);
        let gap = match Self::holds_contexts(n, shape) {
            true => most.max(numbers(shape.dim).next_power_of_two()),
            false => shape.dim,
        };
        ScoreRing { params, gap }
    }

    /// The ring of the keys for `shape` ([`KeyPlan::new`]).
    ///
    /// # Errors
    /// As [`KeyPlan::new`].
    pub fn for_shape(shape: Shape, toy: bool) -> Result<Self, Error> {
        Ok(KeyPlan::new(shape, toy, WidthShape::default())?.scores)
    }

    /// N'.
    pub fn n(&self) -> usize {
        1 << self.params.log_n
    }

    /// The parameters of the answers beside a large ring with the set `large`: its two lowest primes in
    /// this ring, and one special prime.
    ///
    /// Answers are encrypted under the secret of the ring of scores. The attacks that the security table
    /// prices take samples (a, a·t + e) modulo q of one secret, as many as they like. Their cost falls with
    /// q/σ, so that a sample of the smaller modulus in place of one of the larger is never of use to them,
    /// and the larger modulus of both rings, that of scores, is what must be within the table. This is a
    /// statement about known attacks. There is no reduction from one modulus, as there is between the levels
    /// of one chain: the product of both moduli has some 270 bits.
    pub fn answers(&self, large: &ParamsSpec) -> PrefixSpec {
        PrefixSpec { large: *large, log_n: self.params.log_n, depth: PRODUCTS_LEVEL, log_p: &[50] }
    }

    /// B, the number of users of an evaluation of `slots` slots.
    pub fn users(&self, shape: Shape, slots: usize) -> usize {
        self.gap.min(slots / shape.user_slots())
    }
}

/// The rings of scores that are no larger than that of the set `large`, and claim as many bits of security,
/// the smallest first.
fn rings(large: &ParamsSpec) -> impl Iterator<Item = ParamsSpec> {
    let rings = match large.security {
        Security::None => &TOYS[..],
        Security::Classical128 => &RINGS[..],
        Security::Classical192 | Security::Classical256 => &STRONG_RINGS[..],
    };
    let most = large.log_n;
    rings.iter().copied().filter(move |ring| ring.log_n <= most)
}

/// L, the numbers that a context of `features` features has for each arm.
fn numbers(features: usize) -> usize {
    features * (features + 3) / 2
}

/// The coefficients and slots of one encrypted bandit.
#[derive(Debug, Clone)]
pub struct ScoreLayout {
    ring: ScoreRing,
    shape: Shape,
    features: usize,
    arms: usize,
    bound: f64,
    design_scale: f64,
    /// B.
    places: usize,
    /// The number of the first user: 1 if the trace has place 0.
    first_user: usize,
    /// log₂ of the number that features are divided by; products of features are divided by its square.
    log_bound: i32,
    /// log₂ of the number that the model is divided by.
    log_model: i32,
    /// Whether a raise places differences of indices.
    differences: bool,
    /// Whether feedbacks have counters.
    counts: bool,
    /// The most logged rounds of a sum.
    most_logged: usize,
    log_sums: u32,
    /// Where the numbers of staged decisions are. Contexts, model and answers are then those of stages.
    staged: Option<StagedLayout>,
}

impl ScoreLayout {
    /// The layout of a bandit with this configuration and plan.
    pub fn new(config: &BanditConfig, plan: &Plan, ring: ScoreRing) -> Self {
        let linear = &config.linear;
        let first_user = usize::from(config.tests_trace());
        let [log_bound, log_model] = config.log_sizes();
        ScoreLayout {
            ring,
            shape: Shape::for_problem(linear.d, linear.k),
            features: linear.d,
            arms: linear.k,
            bound: linear.l,
            design_scale: plan.design_scale,
            places: plan.users + first_user,
            first_user,
            log_bound,
            log_model,
            differences: config.raises_differences(),
            counts: config.counters.is_some(),
            most_logged: config.most_logged(0),
            log_sums: config.log_sums(),
            staged: (plan.exchanges == Exchanging::Staged)
                .then(|| StagedLayout::of(config, plan.users, ring)),
        }
    }

    /// L, the numbers of an arm in contexts and in statistics.
    pub fn numbers(&self) -> usize {
        numbers(self.features)
    }

    /// log₂ of the scale of sums of feedback with their weights: [`LOG_STATISTICS`], and 11 bits more under a
    /// discount.
    pub fn log_sums(&self) -> u32 {
        self.log_sums
    }

    /// The number of coefficients of a feedback: L, and 2K for the counters if there are any.
    pub fn feedback_numbers(&self) -> usize {
        self.numbers() + self.counters().len()
    }

    /// The coefficients of a feedback that are counters ([`Counters`](crate::Counters)), which may be none.
    pub fn counters(&self) -> Range<usize> {
        let first = self.numbers();
        first..first + if self.counts { 2 * self.arms } else { 0 }
    }

    /// The counter of each arm in the decrypted coefficients of a sum of feedbacks, at the scale
    /// 2^[`LOG_STATISTICS`].
    pub fn read_counters(&self, coefficients: &[i128]) -> Vec<ArmCounter> {
        counters::read(&coefficients[self.counters()], if self.counts { self.arms } else { 0 })
    }

    /// log₂ of r, where the scores of the ring of scores are z/r and u/r.
    pub fn log_range(&self) -> i32 {
        2 * self.log_bound + self.log_model
    }

    /// The number of x_i·x_j among the numbers of an arm.
    pub(crate) fn pair(&self, i: usize, j: usize) -> usize {
        let (i, j) = (i.min(j), i.max(j));
        i * self.features - i * (i + 1) / 2 + j
    }

    /// The number of x_j among the numbers of an arm.
    pub(crate) fn single(&self, j: usize) -> usize {
        self.features * (self.features + 1) / 2 + j
    }

    /// The most decisions of one request, a power of two: their contexts share a ciphertext, those of
    /// decision b of 2ᵏ are b·g/2ᵏ ≥ b·L coefficients further, and they take the places of 2ᵏ users. One
    /// under the trace condition, whose place is before them.
    pub fn most_decisions(&self) -> usize {
        if self.first_user > 0 {
            return 1;
        }
        if self.alone().is_some() {
            return self.places.min(MOST_STAGED_DECISIONS);
        }
        let fit = (self.ring.gap / self.numbers()).min(self.places / 2).clamp(1, MOST_DECISIONS);
        1 << fit.ilog2()
    }

    /// k, where a request of this many decisions takes 2ᵏ places.
    ///
    /// # Errors
    /// [`Error::DecisionCount`].
    pub fn log_places(&self, decisions: usize) -> Result<usize, Error> {
        let most = self.most_decisions();
        if !(1..=most).contains(&decisions) {
            return Err(Error::DecisionCount { got: decisions, most });
        }
        Ok(decisions.next_power_of_two().ilog2() as usize)
    }

    /// The number of the user of decision `b` of 2^`log` places, whose first user is `first`.
    pub fn user_of(&self, first: usize, b: usize, log: usize) -> usize {
        // Where contexts are not lifted, the decisions of a request are users one after the other.
        first + if self.alone().is_some() { b } else { b * (self.places >> log) }
    }

    /// Where the numbers of staged decisions are, if evaluations are staged.
    pub fn staged(&self) -> Option<&StagedLayout> {
        self.staged.as_ref()
    }

    /// The same, if contexts are not lifted and have the features of each arm alone.
    pub fn alone(&self) -> Option<&StagedLayout> {
        self.staged.as_ref().filter(|staged| !staged.is_lifted())
    }

    /// The gap of the packs that products of contexts and model go to, by which the model is divided.
    pub fn pack_gap(&self) -> usize {
        self.alone().map_or(self.ring.gap, StagedLayout::gap)
    }

    /// The number of ciphertexts of a model.
    pub fn model_parts(&self) -> usize {
        self.alone().map_or(1, StagedLayout::model_parts)
    }

    /// The number of ciphertexts with the contexts of a request for this many decisions.
    pub fn context_parts(&self, decisions: usize) -> usize {
        self.alone().map_or(1, |staged| decisions * staged.context_parts())
    }

    /// The coefficients of each ciphertext with the contexts of a request: as [`Self::contexts`], and for
    /// stages those of each decision ([`StagedLayout::contexts`]).
    ///
    /// # Errors
    /// As [`Self::contexts`].
    pub fn all_contexts(&self, decisions: &[&[Vec<f64>]]) -> Result<Vec<Vec<i64>>, Error> {
        let Some(staged) = self.alone() else { return Ok(vec![self.contexts(decisions)?]) };
        self.log_places(decisions.len())?;
        let parts = decisions.iter().map(|rows| staged.contexts(rows)).collect::<Result<Vec<_>, _>>()?;
        Ok(parts.into_iter().flatten().collect())
    }

    /// The coefficients of the contexts of the `decisions` of a request at the scale 2^[`LOG_CONTEXT`], from
    /// one row of features for each arm of each decision, which is empty for a closed arm.
    ///
    /// # Errors
    /// [`Error::DecisionCount`], [`Error::ArmCount`], [`Error::NoOpenArm`]; [`Error::FeatureCount`],
    /// [`Error::NotANumber`], [`Error::NormAboveBound`], which count the rows of all decisions.
    pub fn contexts(&self, decisions: &[&[Vec<f64>]]) -> Result<Vec<i64>, Error> {
        let step = self.ring.gap >> self.log_places(decisions.len())?;
        // All rows are checked before coefficients are filled, because coefficients contain features.
        let checked = self.checked(decisions)?;
        let scale = f64::from(LOG_CONTEXT as i32 - self.log_bound).exp2();
        let mut out = vec![0; self.ring.n()];
        for (b, rows) in checked.chunks(self.arms).enumerate() {
            for (x, arm) in rows.iter().zip(out.chunks_exact_mut(2 * self.ring.gap)) {
                let arm = &mut arm[b * step..];
                self.fill_products(x, arm);
                x.iter().enumerate().for_each(|(i, xi)| arm[self.single(i)] = (xi * scale).round() as i64);
            }
        }
        Ok(out)
    }

    /// The coefficients that [`Self::all_contexts`] fills for the decisions `of` among so many of a request:
    /// each ciphertext with some of them by its number, and its coefficients in the order of decisions, arms
    /// and numbers.
    ///
    /// # Errors
    /// [`Error::DecisionCount`].
    pub fn context_places(
        &self,
        decisions: usize,
        of: Range<usize>,
    ) -> Result<Vec<(usize, Vec<usize>)>, Error> {
        let step = self.ring.gap >> self.log_places(decisions)?;
        if let Some(staged) = self.alone() {
            let first = of.start * staged.context_parts();
            return Ok((first..).zip(of.flat_map(|_| staged.context_places())).collect());
        }
        let starts = of.flat_map(|b| (0..self.arms).map(move |arm| 2 * arm * self.ring.gap + b * step));
        Ok(vec![(0, starts.flat_map(|start| start..start + self.numbers()).collect())])
    }

    /// Checks contexts as [`Self::contexts`] does, for any number of decisions.
    ///
    /// # Errors
    /// As [`Self::contexts`], but for the number of decisions.
    pub fn check_contexts(&self, decisions: &[&[Vec<f64>]]) -> Result<(), Error> {
        self.checked(decisions).map(drop)
    }

    /// The rows of all decisions, one after the other, with those of closed arms filled in.
    fn checked<'a>(&self, decisions: &[&'a [Vec<f64>]]) -> Result<Vec<Cow<'a, [f64]>>, Error> {
        let mut out = Vec::with_capacity(decisions.len() * self.arms);
        for rows in decisions {
            out.extend(check_rows(rows, out.len(), self.arms, self.features, self.bound)?);
        }
        Ok(out)
    }

    /// The coefficients of the feedback on `arm` at the scale 2^[`LOG_STATISTICS`]: the L statistics, and the
    /// counters if there are any.
    ///
    /// # Errors
    /// [`Error::FeatureCount`], [`Error::NotANumber`], [`Error::NormAboveBound`] (row 1);
    /// [`Error::RewardOutOfRange`]; [`Error::NoArm`].
    pub fn feedback(&self, arm: usize, features: &[f64], reward: f64) -> Result<Vec<i64>, Error> {
        if arm >= self.arms {
            return Err(Error::NoArm { got: arm, arms: self.arms });
        }
        let features = check_features(1, features, self.features, self.bound)?;
        if !(-1.0..=1.0).contains(&reward) {
            return Err(Error::RewardOutOfRange);
        }
        let scale = f64::from(LOG_STATISTICS).exp2();
        let mut out = vec![0; self.numbers()];
        for (i, xi) in features.iter().enumerate() {
            for (j, xj) in features.iter().enumerate().skip(i) {
                out[self.pair(i, j)] = (xi * xj * scale).round() as i64;
            }
            out[self.single(i)] = (reward * xi * scale).round() as i64;
        }
        if self.counts {
            out.extend(counters::contribution(self.arms, arm, reward));
        }
        Ok(out)
    }

    /// The coefficients of the sum of the feedbacks on logged rounds, as exact as if each were
    /// [`Self::feedback`]. `rounds` has the arm that was played, its features and its reward.
    ///
    /// # Errors
    /// [`Error::LoggedCount`] for no round and for more than [`BanditConfig::most_logged`] of a new bandit;
    /// [`Error::InRound`] with an error of [`Self::feedback`].
    pub fn logged(&self, rounds: &[(usize, &[f64], f64)]) -> Result<Vec<i64>, Error> {
        if !(1..=self.most_logged).contains(&rounds.len()) {
            return Err(Error::LoggedCount { got: rounds.len(), most: self.most_logged });
        }
        let mut sum = vec![0i64; self.feedback_numbers()];
        self.each_logged(rounds, |feedback| sum.iter_mut().zip(feedback).for_each(|(sum, x)| *sum += x))?;
        Ok(sum)
    }

    /// Checks logged rounds as [`Self::logged`] does, for any number of them.
    ///
    /// # Errors
    /// As [`Self::logged`], but for the number of rounds.
    pub fn check_logged(&self, rounds: &[(usize, &[f64], f64)]) -> Result<(), Error> {
        self.each_logged(rounds, |_| ())
    }

    /// The feedback on each of these rounds.
    fn each_logged(
        &self,
        rounds: &[(usize, &[f64], f64)],
        mut each: impl FnMut(&[i64]),
    ) -> Result<(), Error> {
        for (at, (arm, features, reward)) in rounds.iter().enumerate() {
            let of_round = |error| Error::InRound { round: at + 1, error: Box::new(error) };
            each(&Zeroizing::new(self.feedback(*arm, features, *reward).map_err(of_round)?));
        }
        Ok(())
    }

    /// The coefficients of the trace statistics of a feedback at the scale 2^[`LOG_CONTEXT`]: the products
    /// x_i·x_j of the features, divided as those of contexts.
    ///
    /// # Errors
    /// As [`Self::feedback`].
    pub fn trace(&self, features: &[f64]) -> Result<Vec<i64>, Error> {
        let features = check_features(1, features, self.features, self.bound)?;
        let mut out = vec![0; self.numbers()];
        self.fill_products(&features, &mut out);
        Ok(out)
    }

    /// Writes the products of features of an arm into its coefficients.
    fn fill_products(&self, x: &[f64], arm: &mut [i64]) {
        let scale = f64::from(LOG_CONTEXT as i32 - 2 * self.log_bound).exp2();
        for (i, xi) in x.iter().enumerate() {
            for (j, xj) in x.iter().enumerate().skip(i) {
                arm[self.pair(i, j)] = (xi * xj * scale).round() as i64;
            }
        }
    }

    /// The slots of a model in the deep ring: A_ij in slot i·D + j, and ω_j in slot D² + j.
    pub fn model_slots(
        &self,
        a: impl Fn(usize, usize) -> f64,
        omega: impl Fn(usize) -> f64,
    ) -> Vec<Complex64> {
        let (dim, square) = (self.shape.dim, self.shape.square());
        let mut out = vec![Complex64::ZERO; 2 * square];
        for i in 0..dim {
            for j in 0..dim {
                out[i * dim + j].re = a(i, j);
            }
            out[square + i].re = omega(i);
        }
        out
    }

    /// The initial statistics of a server: V/s with V = λI, and g = 0.
    pub fn ridge(&self, lambda: f64) -> Vec<Complex64> {
        let (dim, square) = (self.shape.dim, self.shape.square());
        let mut out = vec![Complex64::ZERO; self.shape.update_slots()];
        // Padded dimensions have λ too, so that V can be inverted.
        for k in 0..dim {
            for j in 0..dim {
                out[(2 * k + 1) * square + k * dim + j].re = lambda / self.design_scale;
            }
        }
        out
    }

    /// The slots of a model ([`Self::model_slots`]) that become coefficients of M.
    pub fn model(&self) -> Vec<Term> {
        let (dim, n) = (self.shape.dim, self.ring.n());
        let model = (-f64::from(self.log_model)).exp2();
        // ω·x has one factor of the bound, and xᵀAx two.
        let estimate = (-f64::from(self.log_model + self.log_bound)).exp2();
        if let Some(staged) = self.alone() {
            return staged.model_terms(dim);
        }
        let mut out = Vec::new();
        for i in 0..self.features {
            for j in 0..self.features {
                // X^(−f) = −X^(N' − f).
                let (coefficient, sign) = match self.pair(i, j) {
                    0 => (0, 1.0),
                    f => (n - f, -1.0),
                };
                out.push(Term { slot: i * dim + j, coefficient, factor: sign * model });
            }
            let coefficient = self.ring.gap - self.single(i);
            out.push(Term { slot: dim * dim + i, coefficient, factor: estimate });
        }
        out
    }

    /// The coefficients of each ciphertext of M at the scale 2^[`LOG_MODEL`] for A = I/λ and ω = 0.
    pub fn first_model(&self, lambda: f64) -> Vec<Vec<i64>> {
        let mut out = vec![0; self.model_parts() * self.ring.n()];
        for Term { slot, coefficient, factor } in self.model() {
            let (i, j) = (slot / self.shape.dim, slot % self.shape.dim);
            if i == j && i < self.features {
                out[coefficient] += (factor / lambda * f64::from(LOG_MODEL).exp2()).round() as i64;
            }
        }
        out.chunks_exact(self.ring.n()).map(<[i64]>::to_vec).collect()
    }

    /// A, by rows, and ω of the coefficients of all ciphertexts of M at the scale 2^[`LOG_MODEL`]. Entries of
    /// A that share a coefficient, (i, j) and (j, i), are each a half of their sum.
    pub fn read_model(&self, coefficients: &[i128]) -> (Vec<Vec<f64>>, Vec<f64>) {
        let (d, dim, terms) = (self.features, self.shape.dim, self.model());
        let mut sharing = vec![0u32; coefficients.len()];
        terms.iter().for_each(|term| sharing[term.coefficient] += 1);
        let (mut a, mut omega) = (vec![vec![0.0; d]; d], vec![0.0; d]);
        for Term { slot, coefficient, factor } in terms {
            let unit = factor * f64::from(LOG_MODEL).exp2() * f64::from(sharing[coefficient]);
            let entry = coefficients[coefficient] as f64 / unit;
            match (slot / dim, slot % dim) {
                (i, j) if i == dim => omega[j] = entry,
                (i, j) => a[i][j] = entry,
            }
        }
        (a, omega)
    }

    /// What a raise places of the coefficients of a pack. Its factors are those of z, of u and of the trace.
    /// Stages raise no scores.
    pub fn raised_scores(&self, slots: usize) -> Places {
        if self.staged.is_some() {
            return Places { sums: Vec::new(), slots: vec![[None; 2]; slots], differences: true };
        }
        if self.differences { self.raised_differences(slots) } else { self.raised_parts(slots) }
    }

    /// z and u of each arm of each user.
    fn raised_parts(&self, slots: usize) -> Places {
        let answers = self.answers(slots);
        let mut out = Places { sums: Vec::new(), slots: vec![[None; 2]; slots], differences: false };
        let mut sum = |coefficients| {
            out.sums.push(coefficients);
            Some(out.sums.len() - 1)
        };
        for arm in 0..self.shape.arm_slots {
            for user in self.users() {
                let z = 2 * arm * self.ring.gap + self.position(user);
                out.slots[answers.score_slot(arm, user)] =
                    [sum([Some(z), None, None]), sum([None, Some(z + self.ring.gap), None])];
            }
        }
        if self.first_user > 0 {
            out.slots[answers.score_slot(0, 0)] = [None, sum([None, None, Some(0)])];
        }
        out
    }

    /// The differences of the indices of the arms of each user, where a user compares two arms.
    fn raised_differences(&self, slots: usize) -> Places {
        let (answers, count, arms) = (self.answers(slots), self.shape.arm_slots, self.arms);
        let mut out = Places { sums: Vec::new(), slots: vec![[None; 2]; slots], differences: true };
        for user in 0..self.places {
            let first = out.sums.len();
            let of_trace = user < self.first_user;
            match of_trace {
                true => out.sums.push([None, None, Some(0)]),
                false => out.sums.extend((0..arms).map(|arm| {
                    let z = 2 * arm * self.ring.gap + self.position(user);
                    [Some(z), Some(z + self.ring.gap), None]
                })),
            }
            let index = |arm: usize| (arm < if of_trace { 1 } else { arms }).then_some(first + arm);
            for arm in 0..count {
                for pair in 0..count - 1 {
                    let other = (arm + count - 1 - pair) % count;
                    out.slots[answers.product_slot(arm, user) + pair] = [index(arm), index(other)];
                }
            }
        }
        out
    }

    /// The distance of the coefficients of `user` from the multiples of g in a pack.
    fn position(&self, user: usize) -> usize {
        user * (self.ring.gap / self.places)
    }

    /// The number of the user whose coefficients have this distance from the multiples of g.
    pub fn user_at(&self, position: usize) -> usize {
        position / (self.ring.gap / self.places)
    }

    /// The numbers of the users of a full evaluation.
    pub fn users(&self) -> Range<usize> {
        self.first_user..self.places
    }

    /// The layout of the entries beside a large ring of `slots` slots.
    pub fn answers(&self, slots: usize) -> AnswerLayout {
        AnswerLayout::new(self.ring, self.shape, slots)
    }

    /// The coefficients of a sum of feedbacks that become slots of the statistics: with slot 2k·D² + h·D² +
    /// i·D + j written (k, h, i, j), x_i·x_k in (k, 1, i, j) and r·x_i in (k, 0, i, j), for every j.
    pub fn raised_statistics(&self, slots: usize) -> Places {
        let (dim, square) = (self.shape.dim, self.shape.square());
        let mut out = vec![[None; 2]; slots];
        for (slot, place) in out.iter_mut().enumerate() {
            let at = slot % self.shape.update_slots();
            let (k, half, i) = (at / (2 * square), at / square % 2, at / dim % dim);
            let known = i < self.features;
            place[0] = match half {
                0 if known => Some(self.single(i)),
                1 if known && k < self.features => Some(self.pair(i, k)),
                _ => None,
            };
        }
        Places::parts(&out)
    }

    /// The factors of a raise of statistics, which has one.
    pub fn statistics_factors(&self) -> [f64; RAISE_FACTORS] {
        [1.0 / self.design_scale, 0.0, 0.0]
    }

    /// Where the D × D matrices of an update by products are.
    ///
    /// # Errors
    /// As [`MatrixLayout::new`].
    pub fn matrices(&self) -> Result<MatrixLayout, Error> {
        MatrixLayout::new(self.ring.n(), self.shape.dim)
    }

    /// d, the number of features.
    pub(crate) fn features(&self) -> usize {
        self.features
    }

    /// K, the number of arms.
    pub fn arms(&self) -> usize {
        self.arms
    }

    /// The slots of the ring of answers with the entries of each arm of `user`, beside a large ring of
    /// `large` slots.
    pub fn answer_slots(&self, user: usize, large: usize) -> Vec<usize> {
        let layout = self.answers(large);
        (0..self.arms).map(|arm| layout.slot(arm, user)).collect()
    }

    /// The coefficients of the ring of answers with the entries of each arm of `users`, after the exchange of
    /// answers beside a large ring of `large` slots.
    pub fn answer_coefficients(&self, users: &[usize], large: usize) -> Vec<usize> {
        if let Some(staged) = &self.staged {
            return users.iter().flat_map(|user| staged.answer_coefficients(*user)).collect();
        }
        let layout = self.answers(large);
        users.iter().flat_map(|user| (0..self.arms).map(|arm| layout.coefficient(arm, *user))).collect()
    }

    /// What the exchange of answers makes of the products in a large ring of `large` slots.
    pub fn answer_terms(&self, large: usize) -> Vec<Term> {
        if let Some(staged) = &self.staged {
            let entries = self.users().flat_map(|user| staged.answer_coefficients(user));
            return entries.map(|at| Term { slot: at, coefficient: at, factor: 1.0 }).collect();
        }
        let layout = self.answers(large);
        let term = |arm: usize, user: usize| Term {
            slot: layout.product_slot(arm, user),
            coefficient: layout.coefficient(arm, user),
            factor: 1.0,
        };
        self.users().flat_map(|user| (0..self.arms).map(move |arm| term(arm, user))).collect()
    }

    /// The entry of each arm of `user` in a decrypted answer, beside a large ring of `large` slots.
    pub fn action_values(&self, slots: &[Complex64], user: usize, large: usize) -> Vec<f64> {
        self.answer_slots(user, large).into_iter().map(|slot| slots[slot].re).collect()
    }

    /// z and u of each arm of decision `b` of a request with 2^`log` places, from the decrypted coefficients
    /// of a product at the scale 2^[`LOG_SCORE`].
    pub fn scores(&self, coefficients: &[i128], b: usize, log: usize) -> Vec<[f64; 2]> {
        let unit = f64::from(self.log_range() - LOG_SCORE as i32).exp2();
        let (gap, first) = (self.ring.gap, b * (self.ring.gap >> log));
        (0..self.arms)
            .map(|a| [2 * a * gap, (2 * a + 1) * gap].map(|k| coefficients[k + first] as f64 * unit))
            .collect()
    }
}

/// Refuses anything but `features` numbers with a norm of at most `bound`, which nobody can check after
/// encryption. Rows are numbered from 1. A row that rounding made longer is shortened ([`within`]).
///
/// # Errors
/// [`Error::ClosedArm`], [`Error::FeatureCount`], [`Error::NotANumber`], [`Error::NormAboveBound`].
pub fn check_features(row: usize, x: &[f64], features: usize, bound: f64) -> Result<Cow<'_, [f64]>, Error> {
    if !is_open(x) {
        return Err(Error::ClosedArm { row });
    }
    if x.len() != features {
        return Err(Error::FeatureCount { row, got: x.len(), want: features });
    }
    if let Some(i) = x.iter().position(|v| !v.is_finite()) {
        return Err(Error::NotANumber { row, column: i + 1 });
    }
    within(x, bound).ok_or(Error::NormAboveBound { row, bound })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyPlan;

    /// The product of contexts and model, as polynomials with integer coefficients, has the exact scores at
    /// the multiples of the gap, for problems with and without padding and for bounds other than one.
    #[test]
    fn products_hold_the_scores() {
        for (d, k, l, lambda) in [
            (2, 2, 1.0, 1.0),
            (3, 3, 1.0, 1.0),
            (7, 4, 3.0, 0.5),
            (5, 8, 1.0, 300.0),
            (16, 16, 1.0, 1.0),
            (13, 32, 1.0, 1.0),
            (16, 64, 1.0, 1.0),
        ] {
            let shape = Shape::for_problem(d, k);
            let mut config = BanditConfig::new(d, k);
            (config.linear.l, config.linear.lambda) = (l, lambda);
            config.linear.schedule = bandit::Schedule::Every { rounds: 1 };
            config.unanswered = 1;
            let ring = ScoreRing::for_shape(shape, true).unwrap();
            let params =
                KeyPlan::new(shape, false, WidthShape::default()).unwrap().params.validate().unwrap();
            let plan = config.plan(&params, shape, ring).unwrap();
            let layout = ScoreLayout::new(&config, &plan, ring);
            let value = |i: usize| ((5 * i + 3) as f64).sin();
            let row = |first: usize| {
                let x: Vec<f64> = (0..d).map(|i| value(first + i)).collect();
                let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
                x.iter().map(|x| l * x / norm).collect::<Vec<f64>>()
            };
            let a = |i: usize, j: usize| {
                (value(i + j) + if i == j { 2.0 } else { 0.0 }) / (3.0 * d as f64 * lambda)
            };
            let omega = |j: usize| 2.0 * value(7 * j);
            let n = ring.n();
            let mut model = vec![0i128; n];
            for Term { slot, coefficient, factor } in layout.model() {
                let (i, j) = (slot / shape.dim, slot % shape.dim);
                let entry = if slot < shape.square() { a(i, j) } else { omega(slot - shape.square()) };
                model[coefficient] += (entry * factor * f64::from(LOG_MODEL).exp2()).round() as i128;
            }
            for several in [1, 3, layout.most_decisions()] {
                let Ok(log) = layout.log_places(several) else { continue };
                let decisions: Vec<Vec<Vec<f64>>> =
                    (0..several).map(|b| (0..k).map(|arm| row(d * (arm + k * b))).collect()).collect();
                let rows: Vec<&[Vec<f64>]> = decisions.iter().map(Vec::as_slice).collect();
                let contexts = layout.contexts(&rows).unwrap();
                let of = |decisions| layout.context_places(several, decisions).unwrap().remove(0).1;
                let mut places = of(0..several);
                let of_each: Vec<usize> = (0..several).flat_map(|b| of(b..b + 1)).collect();
                assert_eq!(places, of_each);
                places.sort_unstable();
                places.dedup();
                assert_eq!(places.len(), several * k * layout.numbers());
                let filled = |place: usize| contexts[place] == 0 || places.binary_search(&place).is_ok();
                assert!((0..n).all(filled), "a coefficient that is no place");
                let mut product = vec![0i128; n];
                for (i, c) in contexts.iter().enumerate().filter(|(_, c)| **c != 0) {
                    for (j, m) in model.iter().enumerate().filter(|(_, m)| **m != 0) {
                        let sign = if i + j < n { 1 } else { -1 };
                        product[(i + j) % n] += sign * i128::from(*c) * m;
                    }
                }
                let range = f64::from(layout.log_range()).exp2();
                for (b, rows) in decisions.iter().enumerate() {
                    for (x, [z, u]) in rows.iter().zip(layout.scores(&product, b, log)) {
                        let exact: f64 =
                            (0..d).map(|i| (0..d).map(|j| x[i] * a(i, j) * x[j]).sum::<f64>()).sum();
                        assert!((z - exact).abs() < 1e-5 * range, "{d} {k} {several}: {z} for {exact}");
                        let exact: f64 = x.iter().enumerate().map(|(j, x)| x * omega(j)).sum();
                        let error = (u - exact).abs();
                        assert!(error < 1e-5 * range.max(1.0), "{d} {k} {several}: {u} for {exact}");
                        assert!(z <= range, "{z}");
                    }
                }
            }
            let row = vec![row(0); k];
            let too_many = vec![row.as_slice(); layout.most_decisions() + 1];
            assert!(matches!(layout.contexts(&too_many), Err(Error::DecisionCount { .. })));
            assert!(matches!(layout.contexts(&[]), Err(Error::DecisionCount { .. })));
        }
    }

    /// The decisions of a request have places of their own, within those of an evaluation.
    #[test]
    fn decisions_of_a_request_take_the_places_of_users() {
        for (d, k, most) in [(2, 2, 128), (7, 4, 16), (8, 8, 8), (16, 16, 1)] {
            let shape = Shape::for_problem(d, k);
            let ring = ScoreRing::for_shape(shape, false).unwrap();
            let params =
                KeyPlan::new(shape, false, WidthShape::default()).unwrap().params.validate().unwrap();
            let config = BanditConfig::new(d, k);
            let plan = config.plan(&params, shape, ring).unwrap();
            let layout = ScoreLayout::new(&config, &plan, ring);
            assert_eq!(layout.most_decisions(), most, "{d} {k}");
            for log in 0..=most.ilog2() as usize {
                // The coefficients of a block begin below the distance of its decisions.
                let step = ring.gap >> log;
                for first in (0..step).step_by(ring.gap / plan.users) {
                    let users: Vec<usize> =
                        (0..1 << log).map(|b| layout.user_of(layout.user_at(first), b, log)).collect();
                    let at = (0..1 << log).map(|b| layout.user_at(first + b * step)).collect::<Vec<_>>();
                    assert_eq!(users, at, "{d} {k} {log}");
                    assert!(users.iter().all(|user| *user < plan.users));
                }
            }
        }
    }

    #[test]
    fn rings_hold_what_fits() {
        for (d, k, n, gap) in [
            (2, 2, 13, 2048),
            (7, 4, 13, 1024),
            (8, 8, 13, 512),
            (16, 16, 13, 256),
            (8, 64, 13, 64),
            (16, 32, 14, 256),
            (16, 64, 15, 256),
        ] {
            let ring = ScoreRing::for_shape(Shape::for_problem(d, k), false).unwrap();
            assert_eq!((ring.params.log_n, ring.gap), (n, gap), "{d} {k}");
        }
        for (d, k, n) in [(2, 2, 11), (8, 16, 11), (8, 32, 12), (16, 16, 13), (16, 32, 14)] {
            let ring = ScoreRing::for_shape(Shape::for_problem(d, k), true).unwrap();
            assert_eq!((ring.params.log_n, ring.params.security), (n, Security::None), "{d} {k}");
        }
        // What no ring holds is refused by a sentence, and no ring is larger than the one beside it.
        let large = ckks::LOGN15_LOGQP825_DEPTH17;
        let refused = ScoreRing::beside(&large, Shape::for_problem(32, 32)).unwrap_err();
        assert_eq!(refused, Error::Coefficients { need: 1 << 16, have: 1 << 15 });
        let refused = ScoreRing::beside(&ckks::TOY_LOGN12_DEPTH21, Shape::for_problem(16, 16)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the numbers of all arms take 8192 coefficients, but the ring of scores has 4096: choose fewer features or arms"
        );
    }

    /// Trace statistics are the products of contexts, so that coefficient 0 of their product with the model
    /// is xᵀAx. The trace takes the place of user 0, and all other users keep theirs.
    #[test]
    fn the_trace_has_the_place_of_a_user() {
        let shape = Shape::for_problem(3, 4);
        let (traced_schedule, each_round) =
            (bandit::Schedule::TraceOrGrowth, bandit::Schedule::Every { rounds: 1 });
        let layout = |schedule, width: bandit::WidthShape| {
            let mut config = BanditConfig::new(3, 4);
            (config.linear.l, config.linear.lambda, config.linear.schedule) = (3.0, 9.0, schedule);
            config.linear.width = width.width(0.5);
            let ring = ScoreRing::for_shape(shape, true).unwrap();
            let params = KeyPlan::new(shape, true, WidthShape::default()).unwrap().params.validate().unwrap();
            let plan = config.plan(&params, shape, ring).unwrap();
            (ScoreLayout::new(&config, &plan, ring), plan.users)
        };
        let root = bandit::WidthShape::Root;
        let ((traced, users), (public, all)) = (layout(traced_schedule, root), layout(each_round, root));
        assert_eq!((traced.users(), public.users(), users), (1..all, 0..all, all - 1));
        assert_eq!((traced.most_decisions(), public.most_decisions()), (1, 16));
        let x = vec![0.5, -2.0, 1.5];
        let (trace, contexts) =
            (traced.trace(&x).unwrap(), public.contexts(&[&[x.clone(), x.clone(), x.clone(), x]]).unwrap());
        let products = 6;
        assert_eq!(
            (trace[..products].to_vec(), trace[products..].to_vec()),
            (contexts[..products].to_vec(), vec![0; 3])
        );
        assert!(traced.trace(&[3.0, 0.1, 0.0]).is_err());
        let slots = 2048;
        for width in [bandit::WidthShape::Root, bandit::WidthShape::Tangent] {
            let [with, without] = [true, false].map(|trace| {
                let layout = layout(if trace { traced_schedule } else { each_round }, width).0;
                let Places { sums, slots: named, .. } = layout.raised_scores(slots);
                named.into_iter().map(|slot| slot.map(|sum| sum.map(|sum| sums[sum]))).collect::<Vec<_>>()
            });
            // The trace is compared with the threshold, and the entries of all other users are as without it.
            let trace = Some([None, None, Some(0)]);
            let answers = traced.answers(slots);
            let first = |arm: usize| answers.product_slot(arm, 0);
            let of_user: Vec<usize> = (0..4).flat_map(|arm| first(arm)..first(arm) + 4).collect();
            assert!((0..slots).all(|slot| with[slot] == without[slot] || of_user.contains(&slot)));
            let want = |slot: usize| match width {
                bandit::WidthShape::Root if slot == answers.score_slot(0, 0) => [None, trace],
                bandit::WidthShape::Root => [None; 2],
                // Arm a is compared with arm 0 in pair a − 1 of its row.
                bandit::WidthShape::Tangent if (0..3).any(|pair| slot == first(0) + pair) => [trace, None],
                bandit::WidthShape::Tangent if (1..4).any(|arm| slot == first(arm) + arm - 1) => {
                    [None, trace]
                }
                bandit::WidthShape::Tangent => [None; 2],
            };
            of_user.iter().for_each(|&slot| assert_eq!(with[slot], want(slot), "{width:?}, slot {slot}"));
        }
        for user in traced.users() {
            assert_eq!(traced.user_at(traced.position(user)), user);
            assert_eq!(traced.position(user), public.position(user));
        }
    }
}
