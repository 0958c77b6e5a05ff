//! Where the numbers of staged decisions are, for up to 64 features and 256 arms.
//!
//! Where the coefficients of [`crate::ScoreLayout`] hold the contexts of a problem, these are *lifted*, as
//! those of one raise are, and stages begin with the pack of the scores of all users. Otherwise contexts have
//! the d features of each arm and no products of them. With N' coefficients in the ring of
//! scores and D = 2^⌈log₂ d⌉, a ciphertext holds P = min(N'/D, 2^⌈log₂ K⌉) arms, σ = N'/P apart, and a
//! product of contexts and model has σ/D rows of the model:
//!
//! ```text
//! contexts    c(X) = Σₐ Σ_f xₐ[f]·X^(σ·a + f)
//! model       Mₖ(X) = Σ_{ρ < σ/D} Σ_f row(k·σ/D + ρ)[f]·X^(D·ρ − f)
//! c·Mₖ        coefficient σ·a + D·ρ is ⟨row(k·σ/D + ρ), xₐ⟩
//! ```
//! Rows 0 to d − 1 are those of A, and row d is ω. f − f' is below D in size, so that no other product
//! reaches a multiple of D. Products of all users are packed with the gap D.
//!
//! The server multiplies, and a holder of the key moves numbers and adds them up, under masks:
//!
//! | step | the server computes before it | what the exchange makes of it |
//! |---|---|---|
//! | 0, unless contexts are lifted | products of contexts and model | x and v = A·x in slots, with u = ⟨ω, x⟩ in place of row d |
//! | 1 | the products x·v, and 1·u | of index = c₁·Σ x·v + c₀·u: differences and means of pairs of arms, and all indices |
//! | 2 … r | maxima of the pairs | differences and means of pairs of maxima |
//! | r + 1 | the same | the differences of all pairs of the w that are left, and for each arm the maximum of its group |
//! | r + 2 | the indicators of all pairs; entries within groups: index − maximum + ¼ resolution, compared with 0 | for each arm the sum of the indicators of its group, over 2^⌈log₂ w⌉ |
//! | r + 3 | a polynomial of the sums, times the entries within groups | coefficients of answers |
//!
//! After r rounds of maxima ([`StagedLayout::pairs_after`]) w = ⌈K/2ʳ⌉ are left, and arm a is in group
//! ⌊a/2ʳ⌋. With r = 0 step 1 makes the differences of all pairs of arms, and there are no entries within
//! groups. Two arms are one group, without pairs: step r + 2 makes the coefficients of answers.
//!
//! Without a partner in its round a score keeps its place. With m = b·K + a for arm a of the user who came as
//! number b, number f of
//! the arm has slot m·(d + 1) + f in the slots of one or several ciphertexts, pair i of its K − 1 pairs has
//! slot m·(K − 1) + i, and an index, an entry and the coefficient of an answer have m. Pair i of the w pairs
//! of a round has slot b·w + i. With lifted contexts all steps have a number less, and the server computes z
//! and u, of which the first exchange makes indices; answers have the numbers that users have in a pack of
//! scores, where number b is moved by b with its bits reversed.

use crate::arms::check_rows;
use crate::levels::{ANSWER_LEVEL, PRODUCTS_LEVEL};
use crate::{BanditConfig, Error, LOG_CONTEXT, LOG_MODEL, LOG_SCORE, ScoreRing, Shape};
use ckks::{Domain, Exchange, Fingerprint, MapTerm, Params, Side, SumTerm, Term};
use fault::OutOfRange;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

/// The most features of staged decisions.
pub const MOST_STAGED_FEATURES: usize = 64;

/// The most arms of staged decisions.
pub const MOST_STAGED_ARMS: usize = 256;

/// The most users of an evaluation, whose contexts a holder of the key is sent one by one.
pub const MOST_STAGED_USERS: usize = 64;

/// The most decisions of one request, each of which has contexts of its own.
pub const MOST_STAGED_DECISIONS: usize = 16;

/// log₂ of the most coefficients of a ring of stages, whose slots an exchange decodes with 128 bits.
pub const MOST_STAGED_LOG_N: u32 = 14;

/// log₂ of the number that the server multiplies contexts by before it masks them, because an exchange goes
/// to no larger scale than that of its inputs.
pub const LOG_LIFT: u32 = 4;

/// The level of x and v.
pub const SQUARES_LEVEL: usize = PRODUCTS_LEVEL + 1;

/// The level of the indices and maxima that are compared: two stages of degree 15. Those of groups have one
/// more, for the product with the entry of the group.
pub const BEHIND_LEVEL: usize = PRODUCTS_LEVEL + 8;

/// The level of the differences of pairs: two stages of degree 15, and a product.
pub const PAIRS_LEVEL: usize = BEHIND_LEVEL + 1;

/// The level of the differences of all pairs: three stages, of degrees 15, 15 and 3.
pub const ALL_PAIRS_LEVEL: usize = PRODUCTS_LEVEL + 10;

/// The doublings of the polynomial that finds the winner of `arms` arms: T_n(K/(K − 2)) ≥ 2¹⁰ with n =
/// 2^doublings, so that the entry of an arm that one other beats is at most 2⁻¹⁰.
pub fn doublings(arms: usize) -> u32 {
    // Two arms have no sum of indicators.
    let arms = arms.max(3) as f64;
    let (mut t, mut doublings) = (arms / (arms - 2.0), 0);
    while t < 1024.0 {
        (t, doublings) = (2.0 * t * t - 1.0, doublings + 1);
    }
    doublings
}

/// The places of the numbers of one bandit.
#[derive(Debug, Clone, PartialEq)]
pub struct StagedLayout {
    /// N'.
    n: usize,
    features: usize,
    arms: usize,
    bound: f64,
    users: usize,
    /// The most users of an evaluation, for whom a pack of scores has places.
    places: usize,
    /// The gap of the scores of one raise, where contexts are lifted.
    lifted: Option<usize>,
    /// log₂ of the number that features are divided by.
    log_bound: i32,
    /// log₂ of the number that the model is divided by.
    log_model: i32,
}

impl StagedLayout {
    /// The layout of evaluations of `users` users, in this ring of scores and one of stages with `slots`
    /// slots.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for more than [`MOST_STAGED_FEATURES`] features or [`MOST_STAGED_ARMS`] arms,
    /// for no user, and for more users than have an entry for each arm in the slots and in the coefficients.
    pub fn new(config: &BanditConfig, users: usize, ring: ScoreRing, slots: usize) -> Result<Self, Error> {
        Self::check(config, &[])?;
        let layout = Self::of(config, users, ring);
        Self::check(config, &[("users of an evaluation", users, 1, layout.most(slots))])?;
        Ok(layout)
    }

    /// The most users who have an entry for each arm in the coefficients and in `slots` slots.
    fn most(&self, slots: usize) -> usize {
        let most = slots.min(self.n) / self.arms;
        // Positions in a pack of scores are powers of two apart.
        self.lifted.map_or(most, |gap| 1 << most.min(gap).ilog2())
    }

    /// The most users of an evaluation in this ring of scores and one of stages with `slots` slots, for a
    /// bandit that stages decide.
    ///
    /// # Errors
    /// As [`Self::new`]; [`Error::OutOfRange`] for a λ so large that an exchange does not add up an index.
    pub(crate) fn most_users(config: &BanditConfig, ring: ScoreRing, slots: usize) -> Result<usize, Error> {
        Self::check(config, &[])?;
        let one = Self::of(config, 1, ring);
        // z/r and u/r have the factors r·slope/range and r/range, and 1.0625·slope·L²/λ and 3 are parts of
        // the range of indices.
        let (l, r) = (&config.linear, f64::from(one.log_range()).exp2());
        let sum = r * (l.d as f64 * l.lambda / (1.0625 * l.l * l.l) + 1.0 / 3.0);
        if sum > MOST_OF_INDEX {
            let want =
                "larger with exchanges: staged, or L smaller: an index has at most 256 times its summands";
            return Err(OutOfRange::new("linear.lambda", l.lambda, want).into());
        }
        Ok(if one.is_lifted() { one.most(slots) } else { one.most(slots).min(MOST_STAGED_USERS) })
    }

    /// Checks the sizes of a problem, and numbers with their names, their least and their largest value.
    fn check(config: &BanditConfig, more: &[(&'static str, usize, usize, usize)]) -> Result<(), Error> {
        let sizes = [
            ("features", config.linear.d, 1, MOST_STAGED_FEATURES),
            ("arms", config.linear.k, 2, MOST_STAGED_ARMS),
        ];
        for &(field, got, least, most) in sizes.iter().chain(more) {
            if !(least..=most).contains(&got) {
                return Err(OutOfRange::new(field, got, format!("from {least} to {most}")).into());
            }
        }
        Ok(())
    }

    /// The layout of sizes that were checked.
    pub(crate) fn of(config: &BanditConfig, users: usize, ring: ScoreRing) -> Self {
        let (n, features, arms) = (ring.n(), config.linear.d, config.linear.k);
        let [log_bound, log_model] = config.log_sizes();
        let holds = ScoreRing::holds_contexts(n, Shape::for_problem(features, arms));
        let lifted = holds.then_some(ring.gap);
        StagedLayout {
            n,
            features,
            arms,
            bound: config.linear.l,
            users,
            places: users.next_power_of_two(),
            lifted,
            log_bound,
            log_model,
        }
    }

    /// Whether contexts are those of one raise ([`crate::ScoreLayout::contexts`]), and a pack has the scores
    /// of all users.
    pub fn is_lifted(&self) -> bool {
        self.lifted.is_some()
    }

    /// The layout with room for `users`, and for a sixteenth more at most, so that there are few layouts.
    pub fn for_users(&self, users: usize) -> Self {
        // A number of a stranger's may have no power of two above it.
        let users = users.clamp(1, self.users);
        let step = (users.next_power_of_two() / 32).max(1);
        StagedLayout { users: users.next_multiple_of(step).min(self.users), ..self.clone() }
    }

    /// The most users of an evaluation.
    pub fn users(&self) -> usize {
        self.users
    }

    /// K.
    pub fn arms(&self) -> usize {
        self.arms
    }

    /// D, the gap of a pack of products; with lifted contexts that of scores.
    pub fn gap(&self) -> usize {
        self.lifted.unwrap_or(self.features.next_power_of_two().max(2))
    }

    /// P, the arms of a ciphertext of contexts.
    fn arms_of_one(&self) -> usize {
        (self.n / self.gap()).min(self.arms.next_power_of_two())
    }

    /// σ.
    fn distance(&self) -> usize {
        self.n / self.arms_of_one()
    }

    /// The position in a pack, of scores or of products, of what was pushed as number `pushed`: its bits
    /// reversed.
    fn position(&self, pushed: usize) -> usize {
        ((pushed % self.gap()) as u32).reverse_bits() as usize >> (u32::BITS - self.gap().ilog2())
    }

    /// The number of the user who came as number `pushed`, as [`crate::ScoreLayout::user_at`] has it.
    fn number_of(&self, pushed: usize) -> usize {
        self.lifted.map_or(pushed, |gap| self.position(pushed) / (gap / self.places))
    }

    /// The number of ciphertexts with the contexts of a user.
    pub fn context_parts(&self) -> usize {
        if self.is_lifted() { 1 } else { self.arms.div_ceil(self.arms_of_one()) }
    }

    /// The number of ciphertexts of a model.
    pub fn model_parts(&self) -> usize {
        if self.is_lifted() { 1 } else { (self.features + 1).div_ceil(self.distance() / self.gap()) }
    }

    /// The number of packs of the products of all users.
    pub fn packs(&self) -> usize {
        (self.users * self.context_parts() * self.model_parts()).div_ceil(self.gap())
    }

    /// R, the number of rounds.
    pub fn rounds(&self) -> usize {
        self.arms.next_power_of_two().ilog2() as usize
    }

    /// The scores of a user that are left after so many rounds.
    pub fn left(&self, rounds: usize) -> usize {
        self.arms.div_ceil(1 << rounds)
    }

    /// The slot of number `f` of an arm of a user: a feature, or for f = d the prediction.
    fn number(&self, user: usize, arm: usize, f: usize) -> usize {
        (user * self.arms + arm) * (self.features + 1) + f
    }

    /// The slots of the predictions, which are multiplied by 1.
    pub fn predictions(&self) -> impl Iterator<Item = usize> {
        (0..self.users * self.arms).map(|arm| self.number(0, arm, self.features))
    }

    /// r, the rounds of maxima after which all pairs of what is left are compared at once, in a ring of
    /// stages with `slots` slots; `None` for two arms, which have one round. The fewest ciphertexts are
    /// compared: one in each round, and one for the entries within groups. Three are left at least.
    pub fn pairs_after(&self, slots: usize) -> Option<usize> {
        let compared = |rounds: &usize| rounds + self.pairs(*rounds, slots) + usize::from(*rounds > 0);
        (0..self.rounds()).filter(|rounds| self.left(*rounds) > 2).min_by_key(compared)
    }

    /// The number of ciphertexts with all pairs of what so many rounds leave.
    fn pairs(&self, rounds: usize, slots: usize) -> usize {
        let width = self.left(rounds);
        (self.users * width * (width - 1)).div_ceil(slots)
    }

    /// The number of ciphertexts that hold all numbers in `slots` slots each.
    fn squares(&self, slots: usize) -> usize {
        (self.users * self.arms * (self.features + 1)).div_ceil(slots)
    }

    /// The coefficients of the contexts of a user at the scale 2^[`LOG_CONTEXT`], from one row of features
    /// for each arm, which is empty for a closed arm.
    ///
    /// # Errors
    /// [`Error::ArmCount`], [`Error::NoOpenArm`]; [`Error::FeatureCount`], [`Error::NotANumber`],
    /// [`Error::NormAboveBound`].
    pub fn contexts(&self, rows: &[Vec<f64>]) -> Result<Vec<Vec<i64>>, Error> {
        let rows = check_rows(rows, 0, self.arms, self.features, self.bound)?;
        let scale = f64::from(LOG_CONTEXT as i32 - self.log_bound).exp2();
        let part = |rows: &[Cow<'_, [f64]>]| {
            let mut out = vec![0; self.n];
            for (x, arm) in rows.iter().zip(out.chunks_exact_mut(self.distance())) {
                x.iter().zip(arm).for_each(|(x, c)| *c = (x * scale).round() as i64);
            }
            out
        };
        Ok(rows.chunks(self.arms_of_one()).map(part).collect())
    }

    /// The coefficients that [`Self::contexts`] fills in each ciphertext.
    pub(crate) fn context_places(&self) -> Vec<Vec<usize>> {
        let arms: Vec<usize> = (0..self.arms).collect();
        let of_arm = |at: usize| (0..self.features).map(move |f| at * self.distance() + f);
        arms.chunks(self.arms_of_one()).map(|arms| (0..arms.len()).flat_map(of_arm).collect()).collect()
    }

    /// The coefficient of entry `f` of a row of the model, row d being ω: the number of its ciphertext, its
    /// place in it, and the factor of the entry, whose scale is 2^[`LOG_MODEL`].
    pub(crate) fn model_place(&self, row: usize, f: usize) -> (usize, usize, f64) {
        let of_one = self.distance() / self.gap();
        let (part, at) = (row / of_one, row % of_one * self.gap());
        // X^(−f) = −X^(N' − f).
        let (at, sign) = match at.checked_sub(f) {
            Some(at) => (at, 1.0),
            None => (self.n + at - f, -1.0),
        };
        // ω·x has one factor of the bound, and xᵀAx two.
        let log = if row == self.features { self.log_model + self.log_bound } else { self.log_model };
        (part, at, sign * (-f64::from(log)).exp2())
    }

    /// The coefficients of the model at the scale 2^[`LOG_MODEL`].
    pub fn model(&self, a: impl Fn(usize, usize) -> f64, omega: impl Fn(usize) -> f64) -> Vec<Vec<i64>> {
        let scale = f64::from(LOG_MODEL).exp2();
        let mut out = vec![vec![0; self.n]; self.model_parts()];
        for (row, f) in (0..=self.features).flat_map(|row| (0..self.features).map(move |f| (row, f))) {
            let (part, at, factor) = self.model_place(row, f);
            let entry = if row == self.features { omega(f) } else { a(row, f) };
            out[part][at] = (factor * entry * scale).round() as i64;
        }
        out
    }

    /// The numbers of a model in slots i·`dim` + j for A and `dim`² + j for ω, as terms of the coefficients
    /// of all its ciphertexts: coefficient c·N' + k is coefficient k of ciphertext c.
    pub fn model_terms(&self, dim: usize) -> Vec<Term> {
        let rows = (0..=self.features).flat_map(|row| (0..self.features).map(move |f| (row, f)));
        rows.map(|(row, f)| {
            let (part, at, factor) = self.model_place(row, f);
            let row = if row == self.features { dim } else { row };
            Term { slot: row * dim + f, coefficient: part * self.n + at, factor }
        })
        .collect()
    }

    /// log₂ of r, where the scores of the ring of scores are z/r and u/r.
    pub fn log_range(&self) -> i32 {
        2 * self.log_bound + self.log_model
    }

    /// The place of ⟨row, x⟩ of an arm of a user in the packs, whose products are pushed user by user, then
    /// part by part of the contexts, and then of the model.
    fn packed(&self, user: usize, arm: usize, row: usize) -> usize {
        let (of_one, gap) = (self.distance() / self.gap(), self.gap());
        let (part, arm) = (arm / self.arms_of_one(), arm % self.arms_of_one());
        let pushed = (user * self.context_parts() + part) * self.model_parts() + row / of_one;
        pushed / gap * self.n + arm * self.distance() + row % of_one * gap + self.position(pushed)
    }

    /// The most ciphertexts that a holder of the key is sent in a step, and the most of its reply, with
    /// stages in this ring.
    pub fn most_frames(&self, stages: &Params) -> [usize; 2] {
        let slots = stages.max_slots();
        if self.is_lifted() {
            return [self.rounds(), self.rounds().max(3)];
        }
        let squares = self.squares(slots);
        // Those of steps 0 and 1, where fewer users may compare all pairs in as many as there are rounds.
        let most = [self.users * self.context_parts() + self.packs(), 2 * squares];
        [most[0].max(squares).max(self.rounds()), most[1].max(self.rounds()).max(3)]
    }

    /// The bytes of the longest reply of a holder of the key: numbers in slots of step 0, or differences.
    pub fn most_reply(&self, stages: &Params) -> usize {
        let bytes = |level: usize| ckks::ciphertext_bytes(stages, level, false);
        let squares = if self.is_lifted() { 0 } else { self.squares(stages.max_slots()) };
        (2 * squares * bytes(SQUARES_LEVEL)).max(self.rounds().max(3) * bytes(ALL_PAIRS_LEVEL))
    }

    /// The coefficients with the entries of a user of an evaluation in the exchange of answers.
    pub fn answer_coefficients(&self, user: usize) -> Vec<usize> {
        (user * self.arms..(user + 1) * self.arms).collect()
    }
}

/// The factors of an exchange of stages: c₁, c₀ and 1.
pub const STAGED_FACTORS: usize = 3;

/// The largest sum of the factors of an index, which an exchange from slots to slots takes
/// ([`Exchange::check_factors`]).
const MOST_OF_INDEX: f64 = 256.0;

/// The number of c₁ among the factors.
const OF_SQUARES: usize = 0;
/// That of c₀.
const OF_PREDICTION: usize = 1;
/// That of 1.
const ONE: usize = 2;

/// The exchanges of an evaluation, in their order. Those of one group have one masked side, so that its
/// ciphertexts are sent once.
#[derive(Debug, Clone)]
pub struct StagedExchanges {
    /// The places of numbers.
    pub layout: StagedLayout,
    /// Step by step the groups, and their exchanges.
    pub steps: Vec<Vec<Vec<Exchange>>>,
}

impl StagedExchanges {
    /// The exchanges between the ring of `scores`, that of `stages` and that of `answers`.
    ///
    /// # Errors
    /// As [`Exchange::new`].
    pub fn new(
        layout: StagedLayout,
        scores: &Params,
        stages: &Params,
        answers: &Params,
    ) -> Result<Self, ckks::Error> {
        let slots = stages.max_slots();
        let side = |ciphertexts: usize, level: usize| Side::slots(stages, ciphertexts, level);
        let k = layout.arms;
        let all = || (0..layout.users).flat_map(move |user| (0..k).map(move |arm| (user, arm)));
        // The first steps; what indices are made of, and that of an arm times `weight` in slot `to`.
        let (mut steps, from) = match layout.lifted {
            Some(_) => (Vec::new(), Side::coefficients(scores, 1, LOG_SCORE)),
            None => {
                let squares = side(layout.squares(slots), PRODUCTS_LEVEL)?;
                (vec![first_step(&layout, scores, stages)?], squares)
            }
        };
        let of = &layout;
        let index = move |user: usize, arm: usize, weight: f64, to: usize| {
            let numbers = match of.lifted {
                Some(gap) => {
                    let z = 2 * arm * gap + of.position(user);
                    vec![(z, OF_SQUARES), (z + gap, OF_PREDICTION)]
                }
                None => {
                    let number = |f: usize| 2 * of.number(user, arm, f);
                    let squares = (0..of.features).map(|f| (number(f), OF_SQUARES));
                    squares.chain([(number(of.features), OF_PREDICTION)]).collect()
                }
            };
            numbers.into_iter().map(move |(from, group)| MapTerm { from, to: 2 * to, weight, group })
        };
        let score = |width: usize| {
            move |user: usize, at: usize, weight: f64, to: usize| {
                std::iter::once(MapTerm { from: 2 * (user * width + at), to: 2 * to, weight, group: ONE })
            }
        };
        let last = |from: Side| {
            let to = Side {
                params: answers.clone(),
                domain: Domain::Coefficients,
                ciphertexts: 1,
                level: ANSWER_LEVEL,
                scale: stages.scale(PRODUCTS_LEVEL),
            };
            let entry = |(user, arm): (usize, usize)| {
                let (from, to) = (2 * (user * k + arm), layout.number_of(user) * k + arm);
                MapTerm { from, to, weight: 1.0, group: ONE }
            };
            Exchange::new(from, to, all().map(entry).collect())
        };
        let (rounds, after) = (layout.rounds(), layout.pairs_after(slots));
        let mut from = from;
        for round in 0..after.unwrap_or(rounds) {
            let [differences, means] = match round {
                0 => pairs(&layout, 0, index),
                _ => pairs(&layout, round, score(layout.left(round))),
            };
            let mut group = vec![
                Exchange::new(from.clone(), side(1, PAIRS_LEVEL)?, differences)?,
                Exchange::new(from.clone(), side(1, PRODUCTS_LEVEL)?, means)?,
            ];
            if round == 0 {
                let indices = all().flat_map(|(user, arm)| index(user, arm, 1.0, user * k + arm)).collect();
                let level = BEHIND_LEVEL + usize::from(after.is_some());
                group.push(Exchange::new(from, side(1, level)?, indices)?);
            }
            steps.push(vec![group]);
            from = side(1, PRODUCTS_LEVEL)?;
        }
        if let Some(after) = after {
            let (w, count) = (layout.left(after), layout.pairs(after, slots));
            let left = move || (0..of.users).flat_map(move |user| (0..w).map(move |at| (user, at)));
            let to_sum = |(user, at): (usize, usize)| {
                let terms: Vec<MapTerm> = match after {
                    0 => index(user, at, 1.0, 0).collect(),
                    _ => score(w)(user, at, 1.0, 0).collect(),
                };
                terms.into_iter().map(move |term| MapTerm { to: user * w + at, ..term })
            };
            // Pair i of a number is that with number i, or i + 1 from its own place on.
            let pair =
                move |a: usize, i: usize| (a * (w - 1) + i, a, a / w * w + i + usize::from(i >= a % w));
            let pairs = move || (0..of.users * w).flat_map(move |a| (0..w - 1).map(move |i| pair(a, i)));
            let output = |slot: usize, sum: usize, negative: bool| SumTerm { sum, to: 2 * slot, negative };
            let outputs = pairs().flat_map(|(slot, a, b)| [output(slot, a, false), output(slot, b, true)]);
            let to = side(count, ALL_PAIRS_LEVEL)?;
            let sums = left().flat_map(to_sum).collect();
            let mut group =
                vec![Exchange::of_sums(from.clone(), to, layout.users * w, sums, outputs.collect())?];
            let group_of = |(user, arm): (usize, usize)| user * w + (arm >> after);
            if after > 0 {
                let beside = all().map(|arm| real(2 * group_of(arm), arm.0 * k + arm.1)).collect();
                group.push(Exchange::new(from, side(1, BEHIND_LEVEL + 1)?, beside)?);
            }
            let weight = (w.next_power_of_two() as f64).recip();
            let won = pairs().map(|(slot, a, _)| MapTerm { weight, to: a, ..real(2 * slot, 0) }).collect();
            let of_arm = |arm: (usize, usize)| output(arm.0 * k + arm.1, group_of(arm), false);
            let level = PRODUCTS_LEVEL + 1 + doublings(w) as usize + usize::from(after > 0);
            let (indicators, to) = (side(count, PRODUCTS_LEVEL)?, side(1, level)?);
            let won = Exchange::of_sums(indicators, to, layout.users * w, won, all().map(of_arm).collect())?;
            steps.extend([vec![group], vec![vec![won]]]);
        } else {
            let beside = all().map(|(user, arm)| real(2 * user, user * k + arm)).collect();
            steps.push(vec![vec![Exchange::new(from, side(1, BEHIND_LEVEL)?, beside)?]]);
        }
        steps.push(vec![vec![last(side(1, PRODUCTS_LEVEL)?)?]]);
        Ok(StagedExchanges { layout, steps })
    }
}

/// The exchanges of features and of products that are not lifted.
fn first_step(
    layout: &StagedLayout,
    scores: &Params,
    stages: &Params,
) -> Result<Vec<Vec<Exchange>>, ckks::Error> {
    let numbers = Side::slots(stages, layout.squares(stages.max_slots()), SQUARES_LEVEL)?;
    let (d, k) = (layout.features, layout.arms);
    let all = || (0..layout.users).flat_map(move |user| (0..k).map(move |arm| (user, arm)));
    let contexts = Side::coefficients(scores, layout.users * layout.context_parts(), LOG_CONTEXT + LOG_LIFT);
    let feature = |(user, arm): (usize, usize), f: usize| {
        let part = user * layout.context_parts() + arm / layout.arms_of_one();
        let at = arm % layout.arms_of_one() * layout.distance() + f;
        real(part * layout.n + at, layout.number(user, arm, f))
    };
    let x = all().flat_map(|arm| (0..d).map(move |f| feature(arm, f))).collect();
    let packs = Side::coefficients(scores, layout.packs(), LOG_SCORE);
    let row = |(user, arm): (usize, usize), f: usize| {
        real(layout.packed(user, arm, f), layout.number(user, arm, f))
    };
    let v = all().flat_map(|arm| (0..=d).map(move |row_of| row(arm, row_of))).collect();
    Ok(vec![vec![Exchange::new(contexts, numbers.clone(), x)?], vec![Exchange::new(packs, numbers, v)?]])
}

impl StagedExchanges {
    /// The hash of the exchanges of a step with these factors; `None` for a step that there is not.
    pub fn hash(&self, step: usize, factors: &[f64; STAGED_FACTORS]) -> Option<[u8; 32]> {
        Some(crate::exchanges_hash(self.steps.get(step)?, factors))
    }
}

/// The bytes of the steps that a process keeps, for all its bandits: those that were asked for last.
pub const MOST_STAGING_BYTES: usize = 128 << 20;

/// The steps that a process keeps, the last ones asked for at the end.
static MADE: Mutex<Vec<Made>> = Mutex::new(Vec::new());

/// The steps of a layout between rings with these fingerprints.
#[derive(Debug)]
struct Made {
    rings: [Fingerprint; 3],
    steps: Arc<StagedExchanges>,
}

impl Made {
    /// The bytes of the terms of all steps.
    fn bytes(&self) -> usize {
        self.steps.steps.iter().flatten().flatten().map(Exchange::bytes).sum()
    }
}

/// The steps of the staged evaluations of one bandit, by numbers of users, each made when it is asked for:
/// the largest have hundreds of thousands of terms, so that a process keeps few
/// ([`MOST_STAGING_BYTES`]).
#[derive(Debug, Clone)]
pub struct Staging {
    layout: StagedLayout,
    /// Of scores, stages and answers.
    params: [Params; 3],
}

impl Staging {
    /// The steps with this layout of the most users, in the rings of scores, stages and answers.
    pub fn new(layout: StagedLayout, params: [&Params; 3]) -> Self {
        Staging { layout, params: params.map(Params::clone) }
    }

    /// The steps of an evaluation of `users` users, in a layout that may have room for more
    /// ([`StagedLayout::for_users`]).
    ///
    /// # Errors
    /// As [`Exchange::new`].
    pub fn of(&self, users: usize) -> Result<Arc<StagedExchanges>, ckks::Error> {
        let layout = self.layout.for_users(users);
        let rings = self.params.each_ref().map(Params::fingerprint);
        let is_wanted = |made: &Made| made.rings == rings && made.steps.layout == layout;
        let kept = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let take = |all: &mut Vec<Made>| all.iter().position(is_wanted).map(|at| all.remove(at));
        let taken = take(&mut kept());
        let made = match taken {
            Some(made) => made,
            None => {
                let [scores, stages, answers] = &self.params;
                let steps = Arc::new(StagedExchanges::new(layout.clone(), scores, stages, answers)?);
                Made { rings, steps }
            }
        };
        let (steps, mut all) = (made.steps.clone(), kept());
        // Somebody else may have made the same.
        drop(take(&mut all));
        all.push(made);
        let mut bytes = all.iter().map(Made::bytes).sum::<usize>();
        while bytes > MOST_STAGING_BYTES && all.len() > 1 {
            bytes -= all.remove(0).bytes();
        }
        Ok(steps)
    }
}

/// A place that becomes a slot.
fn real(from: usize, slot: usize) -> MapTerm {
    MapTerm { from, to: 2 * slot, weight: 1.0, group: ONE }
}

/// The differences and the means of the pairs of a round, which score `at` of a user enters by `terms(user,
/// at, weight, slot)`.
fn pairs<I: Iterator<Item = MapTerm>>(
    layout: &StagedLayout,
    round: usize,
    terms: impl Fn(usize, usize, f64, usize) -> I,
) -> [Vec<MapTerm>; 2] {
    let (before, after) = (layout.left(round), layout.left(round + 1));
    let (mut differences, mut means) = (Vec::new(), Vec::new());
    for user in 0..layout.users {
        for pair in 0..after {
            let (slot, [a, b]) = (user * after + pair, [2 * pair, 2 * pair + 1]);
            if b < before {
                differences.extend(terms(user, a, 1.0, slot).chain(terms(user, b, -1.0, slot)));
                means.extend(terms(user, a, 0.5, slot).chain(terms(user, b, 0.5, slot)));
            } else {
                means.extend(terms(user, a, 1.0, slot));
            }
        }
    }
    [differences, means]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckks::ParamsSpec;

    fn ring(config: &BanditConfig, scores: ParamsSpec) -> ScoreRing {
        ScoreRing::with_stages(scores, Shape::for_problem(config.linear.d, config.linear.k))
    }

    fn layout(config: &BanditConfig, users: usize, scores: ParamsSpec) -> StagedLayout {
        StagedLayout::new(config, users, ring(config, scores), 1 << 13).unwrap()
    }

    /// The products of contexts and model, as polynomials with integer coefficients, have the rows of A·x and
    /// ⟨ω, x⟩ of every arm of every user in their places of the packs, for shapes of one and of several
    /// ciphertexts and of one and of several rows a product.
    #[test]
    fn packs_hold_all_rows() {
        let (toy, full) = (ckks::TOY_LOGN11_SCORES, ckks::LOGN13_LOGQP147_SCORES);
        for (d, k, l, lambda, users, scores, parts) in [
            (17, 3, 3.0, 0.5, 3, toy, [1, 2]),
            (17, 20, 1.0, 300.0, 3, toy, [1, 9]),
            (64, 64, 1.0, 1.0, 1, toy, [2, 65]),
            (32, 32, 1.0, 1.0, 2, full, [1, 5]),
            (16, 256, 1.0, 1.0, 1, full, [1, 9]),
            (64, 64, 1.0, 1.0, 1, full, [1, 33]),
            (64, 256, 1.0, 1.0, 1, full, [2, 65]),
        ] {
            let mut config = BanditConfig::new(d, k);
            (config.linear.l, config.linear.lambda) = (l, lambda);
            let layout = layout(&config, users, scores);
            assert_eq!([layout.context_parts(), layout.model_parts()], parts, "{d} {k}");
            let value = |i: usize| ((5 * i + 3) as f64).sin();
            let row = |first: usize| {
                let x: Vec<f64> = (0..d).map(|i| value(first + i)).collect();
                let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
                x.iter().map(|x| l * x / norm).collect::<Vec<f64>>()
            };
            let a = |i: usize, j: usize| (value(i + 3 * j) + 2.0) / (3.0 * d as f64 * lambda);
            let omega = |j: usize| 2.0 * value(7 * j);
            let model = layout.model(a, omega);
            let (n, gap) = (layout.n, layout.gap());
            let mut packs = vec![vec![0i128; n]; layout.packs()];
            let rows: Vec<Vec<Vec<f64>>> =
                (0..users).map(|user| (0..k).map(|arm| row(d * (arm + k * user))).collect()).collect();
            let contexts: Vec<Vec<i64>> = rows.iter().flat_map(|r| layout.contexts(r).unwrap()).collect();
            let places = layout.context_places();
            assert_eq!(places.iter().map(Vec::len).sum::<usize>(), d * k);
            for (contexts, places) in contexts.iter().zip(places.iter().cycle()) {
                let filled: Vec<usize> = (0..n).filter(|place| contexts[*place] != 0).collect();
                assert!(filled.iter().all(|place| places.contains(place)), "a coefficient that is no place");
            }
            let products = contexts.iter().flat_map(|c| model.iter().map(move |m| (c, m)));
            for (pushed, (c, m)) in products.enumerate() {
                let mut product = vec![0i128; n];
                let terms: Vec<(usize, i64)> =
                    m.iter().copied().enumerate().filter(|(_, m)| *m != 0).collect();
                for (i, c) in c.iter().enumerate().filter(|(_, c)| **c != 0) {
                    for &(j, m) in &terms {
                        let sign = if i + j < n { 1 } else { -1 };
                        product[(i + j) % n] += sign * i128::from(*c) * i128::from(m);
                    }
                }
                // As `ckks::Packer` places them.
                let shift = (0..gap.ilog2()).fold(0, |r, bit| r << 1 | (pushed % gap) >> bit & 1);
                (0..n).step_by(gap).for_each(|h| packs[pushed / gap][h + shift] = product[h]);
            }
            let [r, of_bound] =
                [layout.log_range() - layout.log_bound, layout.log_bound].map(|log| f64::from(log).exp2());
            for (user, arm, f) in
                (0..users).flat_map(|b| (0..k).flat_map(move |a| (0..=d).map(move |f| (b, a, f))))
            {
                let x = &rows[user][arm];
                let exact: f64 = match f == d {
                    true => x.iter().enumerate().map(|(j, x)| x * omega(j)).sum::<f64>() / of_bound,
                    false => x.iter().enumerate().map(|(j, x)| x * a(f, j)).sum(),
                };
                let at = layout.packed(user, arm, f);
                let got = packs[at / n][at % n] as f64 / f64::from(LOG_SCORE).exp2() * r;
                assert!((got - exact).abs() < 1e-5 * r.max(1.0), "{d} {k} {f}: {got} for {exact}");
            }
        }
    }

    /// On exact numbers the steps lead from scores to maxima, for numbers of arms that are powers of two and
    /// for others, and the terms of no step leave its sides.
    #[test]
    fn rounds_end_with_the_maximum() {
        let [scores, stages] =
            [ckks::TOY_LOGN11_SCORES, ckks::TOY_LOGN12_DEPTH11].map(|s| s.validate().unwrap());
        for (k, users) in [(2, 3), (3, 2), (5, 7), (16, 2), (100, 2), (256, 1)] {
            let config = BanditConfig::new(6, k);
            let of_scores = ring(&config, ckks::TOY_LOGN11_SCORES);
            let layout = StagedLayout::new(&config, users, of_scores, stages.max_slots()).unwrap();
            let steps = StagedExchanges::new(layout.clone(), &scores, &stages, &scores).unwrap().steps;
            let after = layout.pairs_after(stages.max_slots());
            let want = match k {
                2 => None,
                3 | 5 | 16 => Some(0),
                _ => Some(2),
            };
            assert_eq!(after, want, "{k}");
            let first = usize::from(!layout.is_lifted());
            assert_eq!(first, usize::from(k >= 100));
            assert_eq!(steps.len(), first + after.unwrap_or(0) + 3);
            let best = |user: usize| (0..k).map(|a| ((a * 7 + user) as f64).sin()).fold(-1.0, f64::max);
            let mut round: Vec<f64> = (0..users * k).map(|i| ((i % k * 7 + i / k) as f64).sin()).collect();
            for rounds in 0..layout.rounds() {
                let width = layout.left(rounds);
                let terms = |user, at, weight, to| {
                    std::iter::once(MapTerm { from: user * width + at, to, weight, group: ONE })
                };
                let apply = |terms: &[MapTerm]| {
                    let mut out = vec![0.0; users * layout.left(rounds + 1)];
                    terms.iter().for_each(|t| out[t.to] += t.weight * round[t.from]);
                    out
                };
                let [differences, means] = pairs(&layout, rounds, terms).map(|terms| apply(&terms));
                let larger = |(d, m): (f64, f64)| m + d.abs() / 2.0;
                round = differences.into_iter().zip(means).map(larger).collect();
            }
            assert!(round.iter().enumerate().all(|(user, max)| (max - best(user)).abs() < 1e-12), "{k}");
        }
    }

    /// A layout has room for the users that are asked for, with few sizes, and for no more than there are,
    /// whatever number a task states.
    #[test]
    fn layouts_have_few_numbers_of_users() {
        let most = layout(&BanditConfig::new(2, 2), 24, ckks::TOY_LOGN11_SCORES);
        for (users, want) in [(0, 1), (1, 1), (3, 3), (16, 16), (17, 17), (24, 24), (usize::MAX, 24)] {
            assert_eq!(most.for_users(users).users(), want, "{users}");
        }
        let most = layout(&BanditConfig::new(2, 2), 64, ckks::TOY_LOGN11_SCORES);
        let mut sizes: Vec<usize> = (1..=64).map(|users| most.for_users(users).users()).collect();
        assert!((1..=64).zip(&sizes).all(|(users, size)| (users..=users + users / 16).contains(size)));
        sizes.dedup();
        assert_eq!(sizes.len(), 48);
    }

    /// In the ring of stages four rounds of maxima come before a comparison of pairs at most, for any number
    /// of arms and users: an index has room for their errors.
    #[test]
    fn few_rounds_come_before_pairs() {
        let scores = ckks::LOGN13_LOGQP147_SCORES;
        let (mut most, slots) = (0, 1 << 13);
        for k in 3..=MOST_STAGED_ARMS {
            let config = BanditConfig::new(17, k);
            let all = StagedLayout::most_users(&config, ring(&config, scores), slots).unwrap();
            let layout = layout(&config, all, scores);
            assert_eq!(layout.for_users(1).pairs_after(slots), Some(usize::from(k >= 158)), "{k}");
            most = (1..=all)
                .map(|users| layout.for_users(users).pairs_after(slots).unwrap())
                .fold(most, usize::max);
        }
        assert_eq!(most, 4);
        let config = BanditConfig::new(17, 2);
        assert_eq!(layout(&config, 1, scores).pairs_after(slots), None);
    }

    /// What a holder of the key is sent in each step, and its reply, are within the limits of the largest
    /// layout, for every number of users.
    #[test]
    fn steps_are_within_their_limits() {
        let spec = ckks::TOY_LOGN11_SCORES;
        let [scores, stages] = [spec, ckks::TOY_LOGN12_DEPTH11].map(|s| s.validate().unwrap());
        for (d, k, users) in [(2, 2, 16), (6, 16, 8), (17, 5, 16), (20, 64, 4), (6, 100, 4)] {
            let most = layout(&BanditConfig::new(d, k), users, spec);
            let ([sent, made], bytes) = (most.most_frames(&stages), most.most_reply(&stages));
            for users in 1..=users {
                let exchanges =
                    StagedExchanges::new(most.for_users(users), &scores, &stages, &scores).unwrap();
                for step in &exchanges.steps {
                    let from = |group: &Vec<Exchange>| group[0].from().ciphertexts;
                    let to = || step.iter().flatten().map(Exchange::to);
                    let reply = |side: &Side| {
                        side.ciphertexts * ckks::ciphertext_bytes(&side.params, side.level, false)
                    };
                    assert!(step.iter().map(from).sum::<usize>() <= sent, "{d} {k} {users}");
                    assert!(to().map(|side| side.ciphertexts).sum::<usize>() <= made, "{d} {k} {users}");
                    assert!(to().map(reply).sum::<usize>() <= bytes, "{d} {k} {users}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let scores = ckks::TOY_LOGN11_SCORES;
        for (d, k, users, text) in [
            (65, 2, 1, "features"),
            (2, 257, 1, "arms"),
            (2, 2, 0, "users of an evaluation"),
            (2, 256, 9, "users of an evaluation"),
        ] {
            let config = BanditConfig::new(d, k);
            let refused = StagedLayout::new(&config, users, ring(&config, scores), 1 << 13).unwrap_err();
            assert!(refused.to_string().contains(text), "{refused}");
        }
        let config = BanditConfig::new(2, 3);
        let layout = StagedLayout::new(&config, 1, ring(&config, scores), 1 << 13).unwrap();
        let row = vec![0.5, 0.5];
        assert!(matches!(layout.contexts(&[row.clone(), row.clone()]), Err(Error::ArmCount { .. })));
        let long = vec![row.clone(), row, vec![1.0, 0.1]];
        assert!(matches!(layout.contexts(&long), Err(Error::NormAboveBound { row: 3, .. })));
    }
}
