//! Updates by products in the ring of scores: D × D matrices in coefficients, and what a holder of the key
//! makes of each product.
//!
//! With N' coefficients, c columns in a right operand and w = N'/c, a product of ciphertexts is a product of
//! matrices:
//!
//! ```text
//! left      Σᵢ Σₖ L_ik·X^(i·D − k)       up to w/D rows of L; X^(−k) = −X^(N' − k)
//! right     Σⱼ Σₖ R_kj·X^(j·w + k)       c columns of R
//! product   coefficient j·w + i·D is Σₖ L_ik·R_kj
//! ```
//! No other term reaches such a coefficient, because k − k' is below D in size. The left matrix has up to 2·D
//! rows, so that two matrices are multiplied at once. Up to 2·D³ = N' one ciphertext has them all and one has
//! the D columns. Above, both have several, and their 2·D³/N' ≤ D products are packed with the gap D: the
//! coefficients of product number p move by p with its bits reversed.
//!
//! | step | product before it | what the holder makes of it |
//! |---|---|---|
//! | [`ProductStep::Statistics`] | – | rows V/(κλ) and gᵀ/(κλ), from the sums of feedback |
//! | [`ProductStep::Start`] | \[V/(κλ); gᵀ/(κλ)\]·κX | rows M = V·A and columns −M, times the factor of the start |
//! | [`ProductStep::Newton`] | \[X; M\]·(2I − M) | rows X and M and columns −M, times the factor of the step |
//! | [`ProductStep::Last`] | the same | rows X and columns κX |
//! | [`ProductStep::Residual`] | \[V/(κλ); gᵀ/(κλ)\]·κX | columns −M, with M = V·A from V and X themselves |
//! | [`ProductStep::Inverse`] | X·(2I − M) | rows X and columns κX, symmetric; the coefficients of A of the model |
//! | [`ProductStep::Estimate`] | \[V/(κλ); gᵀ/(κλ)\]·κX | the coefficients of ω of the model |
//!
//! X is λ·A, which is at most I. Where the errors of M that add up from step to step would be too large
//! ([`ProductScalars::residual`]), M is computed anew before each step: [`ProductStep::Residual`] and
//! [`ProductStep::Last`] by turns have the place of the start and of all steps of Newton's iteration.
//!
//! **Noise.** Each coefficient of an operand has noise of some σ = 3.5 units of 2^−[`LOG_OPERAND`],
//! encryption (3.2) and roundings together, and an entry of a product that of all coefficients of the left
//! operand times the noise of the right one, and the reverse: σ·√(‖left‖² + ‖right‖²) with Frobenius norms.
//! The ratio of the operands of V·A does not change their product, but its noise √((‖V‖/κλ)² + (κ‖X‖)²): with
//! ‖X‖ ≤ √D and ‖V‖/λ up to [`MOST_CONDITION`] it is least at κ² = 2²⁰/√D, which is 2⁹ at D = 16. κ = 2⁷
//! costs a bit there, and saves one up to 2¹³.
//!
//! **Overflow.** A number v that is read from a product comes back wrong with probability |v|/q under its
//! mask. X and M have some 2·D entries near 1 that are read at the scale 2⁶⁶, beside smaller ones, with
//! log₂ q = 98: 2⁻²⁷ an exchange and below 2⁻²² an update at D = 16, where the start has entries up to 1 +
//! n·L²/λ for n new feedbacks, and below 2⁻²¹ with M anew before each step, at D = 64 too; with λ near 1000
//! and a condition of 2²⁰, 2⁻¹⁸·⁸. The model is wrong until an update begins with a multiple of I. A holder
//! of the key or a sender of feedback can make it wrong at will.

use crate::scores::LOG_MODEL;
use crate::staged::StagedLayout;
use crate::{BanditConfig, Error, Factors, ScoreLayout};
use ckks::{Exchange, MapTerm, Params, Side, Term};
use serde::{Deserialize, Serialize};

/// log₂ of the scale of the operands of a product.
pub const LOG_OPERAND: u32 = 33;

/// log₂ of κ, by which V and g are divided and columns of X multiplied.
pub const LOG_BALANCE: u32 = 7;

/// The largest horizon·max(L, L²)/λ of a bandit with updates by products, a bound on the condition of V. Up
/// to it and with 64 features, A·V is within 1/6 of I ([`ProductScalars::residual`]), and an estimate ⟨ω,
/// x⟩ errs by ‖g‖·x/λ, which is 2⁻⁷·L, and by ‖g‖·m·‖Ax‖, with x and m as there. Beyond it learning goes on
/// with less precision, and ends where the bound is above ½. With such errors, redrawn each update, the
/// best of 32 and of 64 arms is given up no more often, and regret after 10⁶ rounds grows by 7 ± 1 %
/// (`benches/record/2026-11-29-ridge.csv`).
///
/// A ridge that grows, max(λ, t·L²/c), would keep the condition below c. It makes the bonus of arms that are
/// rarely tried fall: of 400 bandits with 32 arms 6.8 ± 1.3 % more give up the best one within 40,000 rounds
/// at c = 8192, and with 64 arms 0.8 ± 0.4 % more within 400,000 rounds at c = 2¹⁸ (the same record).
pub const MOST_CONDITION: f64 = 1_048_576.0;

/// The number of groups of factors of a step.
pub const PRODUCT_FACTORS: usize = 2;

/// A step of an update by products: what the holder of the key makes of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProductStep {
    /// Rows of V and gᵀ from the sums of feedback.
    Statistics,
    /// M for the first step of Newton's iteration.
    Start,
    /// X and M for the next step.
    Newton,
    /// X of the last step.
    Last,
    /// M anew, from V and X.
    Residual,
    /// X anew, and the inverse of the model.
    Inverse,
    /// The estimate of the model.
    Estimate,
}

impl ProductStep {
    /// The step number `at` of an update with this many steps of Newton's iteration, at least 1: there are
    /// `newton` + 5, and 2·`newton` + 4 if M is computed `anew` before each of them.
    pub fn number(at: usize, newton: usize, anew: bool) -> Option<Self> {
        use ProductStep::*;
        let last = if anew { 2 * newton } else { newton + 1 };
        match at {
            0 => Some(Statistics),
            _ if at < last => Some(match (anew, at) {
                (true, _) => [Last, Residual][at % 2],
                (false, 1) => Start,
                (false, _) => Newton,
            }),
            _ => [Last, Residual, Inverse, Estimate].get(at - last).copied(),
        }
    }
}

/// Where the entries of matrices are in a ring of scores. Coefficients count through all ciphertexts of an
/// operand: coefficient c·N' + k is coefficient k of ciphertext c.
#[derive(Debug, Clone, Copy)]
pub struct MatrixLayout {
    n: usize,
    dim: usize,
    /// The rows of a left operand in a ciphertext.
    rows: usize,
    /// The columns of a right operand in a ciphertext.
    columns: usize,
}

impl MatrixLayout {
    /// The layout of `dim` × `dim` matrices, `dim` a power of two, in `n` coefficients.
    ///
    /// # Errors
    /// [`Error::Coefficients`] unless 2·`dim`² ≤ `n`, so that the products of two matrices fit into a pack.
    pub fn new(n: usize, dim: usize) -> Result<Self, Error> {
        let need = 2 * dim * dim;
        if need > n {
            return Err(Error::Coefficients { need, have: n });
        }
        // Both operands have about as many ciphertexts, so that few of them are sent.
        let products = (need * dim).div_ceil(n);
        let right = 1 << (products.ilog2() / 2);
        Ok(MatrixLayout { n, dim, rows: 2 * dim * right / products, columns: dim / right })
    }

    /// D.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The number of ciphertexts of a left operand of so many rows, at most 2·D.
    pub fn left_parts(&self, rows: usize) -> usize {
        rows.div_ceil(self.rows)
    }

    /// The number of ciphertexts of a right operand.
    pub fn right_parts(&self) -> usize {
        self.dim / self.columns
    }

    /// The most ciphertexts that a step makes, for a model of so many.
    pub fn most_parts(&self, model: usize) -> usize {
        self.right_parts() + self.left_parts(2 * self.dim).max(self.left_parts(self.dim) + model)
    }

    /// The ciphertexts that a holder of the key makes in an update with so many steps of Newton's iteration,
    /// but for those of the model.
    pub(crate) fn exchanged(&self, newton: usize) -> usize {
        let (left, right) = (|rows| self.left_parts(rows), self.right_parts());
        left(self.dim + 1) + newton * (left(2 * self.dim) + right) + 2 * left(self.dim) + 3 * right
    }

    /// The gap of the packs of products, if there are several.
    pub fn pack_gap(&self) -> Option<usize> {
        (self.rows < 2 * self.dim || self.columns < self.dim).then_some(self.dim)
    }

    /// The coefficient of entry (i, k) of a left operand, and its sign.
    pub fn left(&self, i: usize, k: usize) -> (usize, f64) {
        let (part, at) = (i / self.rows * self.n, i % self.rows * self.dim);
        match at.checked_sub(k) {
            Some(at) => (part + at, 1.0),
            None => (part + self.n + at - k, -1.0),
        }
    }

    /// The coefficient of entry (k, j) of a right operand.
    pub fn right(&self, k: usize, j: usize) -> usize {
        let (part, j) = (j / self.columns, j % self.columns);
        part * self.n + j * (self.n / self.columns) + k
    }

    /// The coefficient of entry (i, j) of a product, or of the pack of all products.
    pub fn product(&self, i: usize, j: usize) -> usize {
        let number = i / self.rows * self.right_parts() + j / self.columns;
        let shift = (number as u32).reverse_bits() >> (u32::BITS - self.dim.ilog2());
        j % self.columns * (self.n / self.columns) + i % self.rows * self.dim + shift as usize
    }

    /// The coefficients of the ciphertexts of a right operand `value`·I, from its integer.
    pub fn right_identity(&self, value: i64) -> Vec<Vec<i64>> {
        let mut out = vec![0; self.right_parts() * self.n];
        (0..self.dim).for_each(|i| out[self.right(i, i)] = value);
        out.chunks_exact(self.n).map(<[i64]>::to_vec).collect()
    }

    /// The coefficients of the ciphertexts of a left operand `value`·I, from its integer.
    pub fn left_identity(&self, value: i64) -> Vec<Vec<i64>> {
        let mut out = vec![0; self.left_parts(self.dim) * self.n];
        for i in 0..self.dim {
            let (at, sign) = self.left(i, i);
            out[at] = value * sign as i64;
        }
        out.chunks_exact(self.n).map(<[i64]>::to_vec).collect()
    }
}

/// The exchanges of the updates by products of one bandit.
#[derive(Debug, Clone)]
pub struct ProductExchanges {
    /// Where matrices are.
    pub matrices: MatrixLayout,
    statistics: Exchange,
    start: Exchange,
    newton: Exchange,
    last: Exchange,
    residual: Exchange,
    inverse: Exchange,
    estimate: Exchange,
}

impl ProductExchanges {
    /// The exchanges of a bandit with this layout in the ring `small` of scores, whose evaluations are staged
    /// if `staged` has their places: the model is then that of [`StagedLayout::model`].
    ///
    /// # Errors
    /// [`ckks::Error::BadParams`] for a ring with too wide a modulus.
    pub fn new(
        layout: &ScoreLayout,
        small: &Params,
        matrices: MatrixLayout,
        staged: Option<&StagedLayout>,
    ) -> Result<Self, ckks::Error> {
        let (n, dim, d) = (matrices.n, matrices.dim, layout.features());
        let term = |from: usize, to: usize, weight: f64, group: usize| MapTerm { from, to, weight, group };
        // Entry (row, j) of a product to entry (to, j) of a left operand, or to a column.
        let left = |row: usize, j: usize, to: usize, group: usize| {
            let (at, sign) = matrices.left(to, j);
            term(matrices.product(row, j), at, sign, group)
        };
        // The ciphertexts of columns come after those of so many rows.
        let columns = |rows: usize, i: usize, j: usize| matrices.left_parts(rows) * n + matrices.right(i, j);
        let minus_right = |row: usize, i: usize, j: usize, rows: usize, group: usize| {
            term(matrices.product(row, j), columns(rows, i, j), -1.0, group)
        };
        let all = || (0..dim).flat_map(move |i| (0..dim).map(move |j| (i, j)));
        let known = || (0..d).flat_map(move |i| (0..d).map(move |j| (i, j)));
        let operands = |count: usize| Side::coefficients(small, count, LOG_OPERAND);
        let product = Side::coefficients(small, 1, 2 * LOG_OPERAND);
        let of_product =
            |count: usize, terms: Vec<MapTerm>| Exchange::new(product.clone(), operands(count), terms);
        let both = |rows: usize| matrices.left_parts(rows) + matrices.right_parts();

        let design = known().map(|(i, j)| {
            let (at, sign) = matrices.left(i, j);
            term(layout.pair(i, j), at, sign, 0)
        });
        let moment = (0..d).map(|j| {
            let (at, sign) = matrices.left(dim, j);
            term(layout.single(j), at, sign, 0)
        });
        let sums = Side::coefficients(small, 1, layout.log_sums());
        let statistics = {
            let terms = design.chain(moment).collect();
            Exchange::new(sums, operands(matrices.left_parts(dim + 1)), terms)?
        };

        let start = all().flat_map(|(i, j)| [left(i, j, dim + i, 0), minus_right(i, i, j, 2 * dim, 0)]);
        let newton = all().flat_map(|(i, j)| {
            [left(i, j, i, 0), left(dim + i, j, dim + i, 1), minus_right(dim + i, i, j, 2 * dim, 1)]
        });
        // X in rows and κX in columns: the mean of the entries (i, j) and (j, i).
        let symmetric = |(i, j): (usize, usize)| {
            [(i, j), (j, i)].into_iter().flat_map(move |(row, column)| {
                let (from, (at, sign)) = (matrices.product(row, column), matrices.left(i, j));
                [term(from, at, sign / 2.0, 0), term(from, columns(dim, i, j), balance() / 2.0, 0)]
            })
        };
        let last = all().flat_map(symmetric);
        let residual = all().map(|(i, j)| minus_right(i, i, j, 0, 0));
        // The model is at a scale of its own.
        let unit = f64::from(LOG_MODEL as i32 - LOG_OPERAND as i32).exp2();
        let (model, parts) = match staged {
            None => (layout.model(), 1),
            Some(staged) => (staged.model_terms(dim), staged.model_parts()),
        };
        let (mut inverse, mut estimate): (Vec<_>, Vec<_>) = (all().flat_map(symmetric).collect(), Vec::new());
        for Term { slot, coefficient, factor } in model {
            let (i, j, weight) = (slot / dim, slot % dim, factor * unit);
            match i < dim {
                true => inverse.push(term(matrices.product(i, j), both(dim) * n + coefficient, weight, 1)),
                // ω is the last row of a model.
                false => {
                    estimate.push(term(matrices.product(dim, j), coefficient - (parts - 1) * n, weight, 0))
                }
            }
        }
        Ok(ProductExchanges {
            matrices,
            statistics,
            start: of_product(both(2 * dim), start.collect())?,
            newton: of_product(both(2 * dim), newton.collect())?,
            last: of_product(both(dim), last.collect())?,
            residual: of_product(matrices.right_parts(), residual.collect())?,
            inverse: of_product(both(dim) + parts, inverse)?,
            estimate: of_product(1, estimate)?,
        })
    }

    /// The exchange of a step.
    pub fn of(&self, step: ProductStep) -> &Exchange {
        match step {
            ProductStep::Statistics => &self.statistics,
            ProductStep::Start => &self.start,
            ProductStep::Newton => &self.newton,
            ProductStep::Last => &self.last,
            ProductStep::Residual => &self.residual,
            ProductStep::Inverse => &self.inverse,
            ProductStep::Estimate => &self.estimate,
        }
    }
}

/// κ.
fn balance() -> f64 {
    f64::from(LOG_BALANCE).exp2()
}

/// The public numbers of an update by products.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProductScalars {
    /// The factors of Newton's iteration.
    pub factors: Factors,
    /// λ.
    pub lambda: f64,
    /// D.
    dim: usize,
    /// Bounds on t·L²/λ and on t·L/λ.
    design: f64,
    moment: f64,
    /// Whether it begins with a multiple of I.
    cold: bool,
    /// Whether M is computed anew before each step.
    anew: bool,
    /// log₂ of the scale of the sums of feedback.
    pub log_sums: u32,
}

impl ProductScalars {
    /// The numbers of an update of `dim` × `dim` matrices with the statistics of `feedbacks` feedbacks,
    /// erased ones included and each times its weight, that begins with the inverse of the last one.
    pub fn warm(config: &BanditConfig, dim: usize, factors: Factors, feedbacks: u64) -> Self {
        Self::new(config, dim, factors, feedbacks, false)
    }

    /// As [`Self::warm`], for an update that begins with [`Self::identity`].
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the bound on the eigenvalues overflows.
    pub fn cold(config: &BanditConfig, dim: usize, feedbacks: u64) -> Result<Self, Error> {
        let top = 1.0 + feedbacks as f64 * config.linear.l * config.linear.l / config.linear.lambda;
        let steps = crate::warm_steps(1.0, top, crate::INVERSE_TOLERANCE)?;
        Ok(Self::new(config, dim, Factors::warm(1.0, top, steps)?, feedbacks, true))
    }

    fn new(config: &BanditConfig, dim: usize, factors: Factors, feedbacks: u64, cold: bool) -> Self {
        let (l, lambda) = (config.linear.l, config.linear.lambda);
        let moment = feedbacks as f64 * l / lambda;
        let (design, log_sums) = (moment * l, config.log_sums());
        let mut out = ProductScalars { factors, lambda, dim, design, moment, cold, anew: false, log_sums };
        out.anew = out.drift() * out.drift() > out.noise();
        out
    }

    /// The entries on the diagonal of the X that a cold update begins with, at the scale 2^[`LOG_OPERAND`]:
    /// the factor of the start, so that M is at most 2.
    pub fn identity(&self) -> i64 {
        (self.factors.start() * f64::from(LOG_OPERAND).exp2()).max(1.0) as i64
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        let newton = self.factors.steps().len();
        if self.anew { 2 * newton + 4 } else { newton + 5 }
    }

    /// Step number `at` and the factors of its groups.
    pub fn step(&self, at: usize) -> Option<(ProductStep, [f64; PRODUCT_FACTORS])> {
        let newton = self.factors.steps();
        let step = ProductStep::number(at, newton.len(), self.anew)?;
        let start = if self.cold { 1.0 } else { self.factors.start() };
        let number = if self.anew { (at / 2).saturating_sub(1) } else { at.saturating_sub(2) };
        let factors = match step {
            ProductStep::Statistics => [1.0 / (balance() * self.lambda), 0.0],
            ProductStep::Start => [start, 0.0],
            ProductStep::Newton | ProductStep::Last => {
                let factor = newton[number];
                // X of the start is multiplied by its factor together with that of the first step.
                [if number == 0 { factor * start } else { factor }, factor]
            }
            // M of the first step has the factor of the start.
            ProductStep::Residual => [if at == 1 { start } else { 1.0 }, 0.0],
            ProductStep::Estimate => [1.0, 0.0],
            ProductStep::Inverse => [1.0, 1.0 / self.lambda],
        };
        Some((step, factors))
    }

    /// A bound on ‖V^½·A·V^½ − I‖ after an update, which noise exceeds with a probability of some 10⁻⁸.
    ///
    /// Let σ be the noise of an operand and c = D + t·L²/λ, a bound on tr V/λ. A matrix G of independent
    /// errors of deviation one has E‖V^a·G·V^b‖² = tr V^2a · tr V^2b in the Frobenius norm, where tr V⁻¹ ≤
    /// D/λ.
    ///
    /// 1. M of [`ProductStep::Residual`] has errors of m = σ·√(‖V‖²/κ²λ² + ‖g‖²/κ²λ² + κ²·D), and A·V errs by
    ///    V^−½·G·V^½·m, of m·√(D·c). X is made symmetric afterwards, which halves a single large column.
    ///    Twice that is taken.
    /// 2. X of [`ProductStep::Inverse`] has errors of x = σ·√(2D + 3), with those of its encryptions, and A·V
    ///    errs by V^½·G·V^½·x/λ, of x·c, which may be that of a single number. Six times that is taken.
    /// 3. The renewal squares what came before it: what Newton's iteration leaves, and its noise of 3·σ·√D a
    ///    step, with eigenvalues of M below 2. The steps that follow multiply the noise of a step by T = 1/M
    ///    on the right, at most 1/(1 − e). From an inverse this is 1/(1 − e)·c. From a multiple of I it has
    ///    this size only where V is small, V·T² ≤ λ/(1 − e)². Three times that is taken. The noise of the
    ///    start is less.
    ///
    /// The drift of 3 is squared, and the noise of 1 and 2 is not. Where the square is larger, M is computed
    /// anew before each step, by its own exchange. A step then squares all that came before it, and what it
    /// leaves has 1 and 2 alone, twice because the noise before it was not quite squared away.
    pub fn residual(&self) -> f64 {
        let noise = self.noise();
        let before = self.factors.residual() + if self.anew { 2.0 * noise } else { self.drift() };
        before * before + noise
    }

    /// c of [`Self::residual`].
    fn condition(&self) -> f64 {
        self.dim as f64 + self.design
    }

    /// Items 1 and 2 of [`Self::residual`].
    fn noise(&self) -> f64 {
        let (dim, c) = (self.dim as f64, self.condition());
        let m = NOISE * (c.hypot(self.moment) / balance()).hypot(balance() * dim.sqrt());
        let x = NOISE * (2.0 * dim + 3.0).sqrt();
        2.0 * m * (dim * c).sqrt() + 6.0 * x * c
    }

    /// Item 3 of [`Self::residual`].
    fn drift(&self) -> f64 {
        let (dim, c) = (self.dim as f64, self.condition());
        let (mut gap, mut sum) = (1.0 - self.factors.residual(), 0.0);
        for factor in self.factors.steps().iter().rev() {
            // 1 − e before the step, whose square is what the step leaves.
            gap = 1.0 - (1.0 - gap / factor).max(0.0).sqrt();
            sum += if self.cold { c.sqrt() * (dim / (gap * gap) + c).sqrt() } else { c / gap };
        }
        9.0 * dim.sqrt() * NOISE * sum
    }
}

/// σ, the deviation of the noise of an operand, in units of its values.
const NOISE: f64 = 3.5 / (1u64 << LOG_OPERAND) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    /// The negacyclic products of operands, packed where there are several, have the products of rows and
    /// columns, for two matrices at once and in the smallest rings that are allowed.
    #[test]
    fn products_of_polynomials_are_products_of_matrices() {
        for (n, dim, parts) in [
            (16, 2, [1, 1]),
            (2048, 8, [1, 1]),
            (8192, 16, [1, 1]),
            (2048, 16, [2, 2]),
            (8192, 32, [4, 2]),
            (2048, 32, [8, 4]),
            (8192, 64, [8, 8]),
        ] {
            let matrices = MatrixLayout::new(n, dim).unwrap();
            assert_eq!([matrices.left_parts(2 * dim), matrices.right_parts()], parts);
            assert_eq!(matrices.pack_gap(), (parts != [1, 1]).then_some(dim));
            let value = |i: usize, j: usize| ((7 * i + 3 * j) % 11) as i64 - 5;
            let [mut left, mut right] = parts.map(|parts| vec![0i64; parts * n]);
            for i in 0..2 * dim {
                for k in 0..dim {
                    let (at, sign) = matrices.left(i, k);
                    left[at] += value(i, k) * sign as i64;
                    if i < dim {
                        right[matrices.right(i, k)] += value(k, i + 1);
                    }
                }
            }
            let mut pack = vec![0i64; n];
            for (number, (a, b)) in
                left.chunks(n).flat_map(|a| right.chunks(n).map(move |b| (a, b))).enumerate()
            {
                let shift = (number as u32).reverse_bits() >> (u32::BITS - dim.ilog2());
                for (i, a) in a.iter().enumerate().filter(|(_, a)| **a != 0) {
                    for (j, b) in b.iter().enumerate().filter(|(_, b)| **b != 0) {
                        let (at, sign) = ((i + j) % n, if i + j < n { 1 } else { -1 });
                        if at % dim == 0 {
                            pack[at + shift as usize] += sign * a * b;
                        }
                    }
                }
            }
            for i in 0..2 * dim {
                for j in 0..dim {
                    let want: i64 = (0..dim).map(|k| value(i, k) * value(j, k + 1)).sum();
                    assert_eq!(pack[matrices.product(i, j)], want, "{n} {dim} {i} {j}");
                }
            }
        }
        let refused = MatrixLayout::new(8192, 128).unwrap_err();
        assert_eq!(refused, Error::Coefficients { need: 32_768, have: 8192 });
    }

    /// Four steps of Newton's iteration, as default batches take, are nine exchanges, and twelve where M is
    /// computed anew before each step.
    #[test]
    fn an_update_has_nine_steps() {
        let config = BanditConfig::new(16, 2);
        let at = |dim: usize, feedbacks: u64| {
            let factors = config.newton(0.0, 16, 1.0, usize::MAX).unwrap();
            ProductScalars::warm(&config, dim, factors, feedbacks)
        };
        let steps = |scalars: &ProductScalars| -> Vec<_> {
            (0..scalars.steps()).map(|at| scalars.step(at).unwrap().0).collect()
        };
        let first = at(16, 100);
        use ProductStep::*;
        assert_eq!(
            steps(&first),
            [Statistics, Start, Newton, Newton, Newton, Last, Residual, Inverse, Estimate]
        );
        assert_eq!(first.step(9), None);
        let (start, newton) = (first.factors.start(), first.factors.steps());
        assert_eq!(first.step(1).unwrap().1[0], start);
        assert_eq!(first.step(2).unwrap().1, [start * newton[0], newton[0]]);
        let many = at(64, 1_000_000);
        let pairs = [Residual, Last].repeat(4);
        assert_eq!(steps(&many), [&[Statistics][..], &pairs, &[Residual, Inverse, Estimate]].concat());
        assert_eq!(many.step(12), None);
        for (at, first) in [(1, start), (3, 1.0), (7, 1.0), (9, 1.0)] {
            assert_eq!(many.step(at).unwrap().1[0], first);
        }
        for (i, at) in [2, 4, 6, 8].into_iter().enumerate() {
            assert_eq!(many.step(at).unwrap().1[0], newton[i] * if i == 0 { start } else { 1.0 });
        }
    }

    /// The claimed distance is within 1/6 for all numbers of feedbacks up to a condition of
    /// [`MOST_CONDITION`], from the last inverse and from a multiple of I, and such a horizon is allowed. The
    /// control: with M from the step before alone it is not, and a tenfold condition is above 1/6 too.
    #[test]
    fn claims_up_to_the_largest_condition() {
        for (l, lambda, dim) in
            [(1.0, 1.0, 2), (1.0, 1.0, 16), (1.0, 1.0, 64), (0.5, 0.01, 64), (4.0, 16.0, 32)]
        {
            let mut config = BanditConfig::new(dim, 2);
            (config.linear.l, config.linear.lambda) = (l, lambda);
            let (mut residual, mut feedbacks) = (0.0, 0);
            let condition = |feedbacks: u64| feedbacks as f64 * l.max(l * l) / lambda;
            while condition(feedbacks + 16) < MOST_CONDITION {
                feedbacks += 16;
                let factors = config.newton(residual, 16, 1.0, usize::MAX).unwrap();
                let warm = ProductScalars::warm(&config, dim, factors, feedbacks);
                residual = warm.residual();
                assert!(residual < 1.0 / 6.0, "{dim}, {feedbacks}: 2^{:.2}", residual.log2());
                let mut cold = ProductScalars::cold(&config, dim, feedbacks).unwrap();
                assert!(cold.residual() < 1.0 / 6.0, "{dim}, {feedbacks}: 2^{:.2}", cold.residual().log2());
                feedbacks += feedbacks / 50 / 16 * 16;
                if condition(feedbacks) > MOST_CONDITION / 2.0 && dim > 2 {
                    assert!(cold.anew);
                    cold.anew = false;
                    assert!(cold.residual() > 1.0, "{dim}, {feedbacks}: 2^{:.2}", cold.residual().log2());
                }
            }
            let beyond = ProductScalars::cold(&config, dim, 10 * feedbacks).unwrap();
            assert!(dim == 2 || beyond.residual() > 1.0 / 6.0, "{dim}: 2^{:.2}", beyond.residual().log2());
        }
    }
}
