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
//! | [`ProductStep::Statistics`] | – | rows V/s and gᵀ/s, from the sums of feedback |
//! | [`ProductStep::Start`] | \[V/s; gᵀ/s\]·X | rows M = V·A and columns −M, times the factor of the start |
//! | [`ProductStep::Newton`] | \[X; M\]·(2I − M) | rows X and M and columns −M, times the factor of the step |
//! | [`ProductStep::Last`] | the same | rows and columns X |
//! | [`ProductStep::Residual`] | \[V/s; gᵀ/s\]·X | columns −M, with M from V and X themselves |
//! | [`ProductStep::Inverse`] | X·(2I − M) | rows and columns X, symmetric; the coefficients of A of the model |
//! | [`ProductStep::Estimate`] | \[V/s; gᵀ/s\]·X | the coefficients of ω of the model |
//!
//! X is κ·λ·A, so that its entries are at most κ = 2^[`LOG_HEADROOM`] in size, like those of V/s. A product
//! with V/s has entries near κ·λ/s, and all that is decrypted is at most some κ in size.
//!
//! Noise: each entry of a product has an error of all coefficients of both operands. What the change to M
//! multiplies by s/(κ·λ) is less with κ; what V multiplies in X·(2I − M) is not. κ makes both as large at the
//! largest condition of V for which the inverse is near enough ([`ProductScalars::residual`]).
//!
//! Overflow: a number v that is read from a product comes back wrong with probability |v|/q under its mask.
//! With entries of at most 2·κ on the diagonal and less beside it these are some 2^(2·30 + 7)·D/q, 2⁻²⁷ an
//! exchange at D = 16, and the model is wrong until an update begins with X = κ·I. A holder of the key or a
//! sender of feedback can make it wrong at will.

use crate::scores::{LOG_MODEL, LOG_STATISTICS};
use crate::staged::StagedLayout;
use crate::{BanditConfig, Error, Factors, ScoreLayout};
use ckks::{Exchange, MapTerm, Params, Side, Term};
use serde::{Deserialize, Serialize};

/// log₂ of the scale of the operands of a product.
pub const LOG_OPERAND: u32 = 30;

/// log₂ of κ, the largest entries of V/s and of X.
pub const LOG_HEADROOM: u32 = 6;

/// The number of groups of factors of a step.
pub const PRODUCT_FACTORS: usize = 2;

/// A step of an update by products: what the holder of the key makes of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProductStep {
    /// Rows of V/s and gᵀ/s from the sums of feedback.
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
    /// `newton` + 5.
    pub fn number(at: usize, newton: usize) -> Option<Self> {
        use ProductStep::*;
        match at {
            0 => Some(Statistics),
            1 => Some(Start),
            _ if at <= newton => Some(Newton),
            _ => [Last, Residual, Inverse, Estimate].get(at - newton - 1).copied(),
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
        let sums = Side::coefficients(small, 1, LOG_STATISTICS);
        let statistics = {
            let terms = design.chain(moment).collect();
            Exchange::new(sums, operands(matrices.left_parts(dim + 1)), terms)?
        };

        let start = all().flat_map(|(i, j)| [left(i, j, dim + i, 0), minus_right(i, i, j, 2 * dim, 0)]);
        let newton = all().flat_map(|(i, j)| {
            [left(i, j, i, 0), left(dim + i, j, dim + i, 1), minus_right(dim + i, i, j, 2 * dim, 1)]
        });
        // X in rows and columns: the mean of its entries (i, j) and (j, i).
        let symmetric = |(i, j): (usize, usize)| {
            [(i, j), (j, i)].into_iter().flat_map(move |(row, column)| {
                let (from, (at, sign)) = (matrices.product(row, column), matrices.left(i, j));
                [term(from, at, sign / 2.0, 0), term(from, columns(dim, i, j), 0.5, 0)]
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
fn headroom() -> f64 {
    f64::from(LOG_HEADROOM).exp2()
}

/// The public numbers of an update by products.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProductScalars {
    /// The factors of Newton's iteration.
    pub factors: Factors,
    /// s, a power of two by which V and g are divided, at least λ and t·L²/κ.
    pub design_scale: f64,
    /// λ.
    pub lambda: f64,
}

impl ProductScalars {
    /// The numbers of an update with the statistics of `feedbacks` feedbacks, erased ones included, that
    /// begins with the inverse of the last one.
    pub fn warm(config: &BanditConfig, factors: Factors, feedbacks: u64) -> Self {
        let (l, lambda) = (config.linear.l, config.linear.lambda);
        // Products of features are at most L², and those of a reward and a feature at most L.
        let largest = lambda + feedbacks as f64 * l.max(l * l);
        let design_scale = (largest / headroom()).max(lambda).log2().ceil().exp2();
        ProductScalars { factors, design_scale, lambda }
    }

    /// As [`Self::warm`], for an update that begins with X = κ·I.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the bound on the eigenvalues overflows.
    pub fn cold(config: &BanditConfig, feedbacks: u64) -> Result<Self, Error> {
        let (l, lambda) = (config.linear.l, config.linear.lambda);
        let top = 1.0 + feedbacks as f64 * l * l / lambda;
        let steps = crate::warm_steps(1.0, top, crate::INVERSE_TOLERANCE)?;
        Ok(Self::warm(config, Factors::warm(1.0, top, steps)?, feedbacks))
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.factors.steps().len() + 5
    }

    /// Step number `at` and the factors of its groups.
    pub fn step(&self, at: usize) -> Option<(ProductStep, [f64; PRODUCT_FACTORS])> {
        let newton = self.factors.steps();
        let step = ProductStep::number(at, newton.len())?;
        let unit = self.lambda * headroom();
        let ratio = self.design_scale / unit;
        let factors = match step {
            ProductStep::Statistics => [1.0 / self.design_scale, 0.0],
            ProductStep::Start => [self.factors.start() * ratio, 0.0],
            ProductStep::Newton | ProductStep::Last => {
                let factor = newton[at - 2];
                // X of the start is multiplied by its factor together with that of the first step.
                [if at == 2 { factor * self.factors.start() } else { factor }, factor]
            }
            ProductStep::Residual | ProductStep::Estimate => [ratio, 0.0],
            ProductStep::Inverse => [1.0, 1.0 / unit],
        };
        Some((step, factors))
    }

    /// A bound on ‖V^½·A·V^½ − I‖ after an update of `dim` × `dim` matrices: what Newton's iteration and the
    /// renewal leave, and the noise of V·X and of X·(2I − M).
    ///
    /// With ρ = κ·s/λ, which bounds the condition of V, and σ = 3.2: an entry of V·X has an error of
    /// σ·√(‖V/s‖² + ‖X‖²) units of 2⁻³⁰, with Frobenius norms of at most κ and κ·√D, times s/(κ·λ). A matrix
    /// of such errors has a norm of some 2·√D as much, and A on its left with V^½ on both sides makes that
    /// √ρ-fold. An entry of X·(2I − M) has an error of σ·‖X‖ units, which V/(κ·λ) multiplies by ρ/κ.
    pub fn residual(&self, dim: usize) -> f64 {
        let (claimed, dim) = (self.factors.residual(), dim as f64);
        let ratio = self.design_scale / self.lambda;
        let condition = headroom() * ratio;
        let norm = 2.0 * dim.sqrt() * 3.2 * f64::from(LOG_OPERAND).exp2().recip();
        let (of_m, of_x) = ((1.0 + dim).sqrt() * ratio * condition.sqrt(), dim.sqrt() * condition);
        claimed * claimed + norm * (of_m + of_x)
    }
}

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

    /// Four steps of Newton's iteration, as default batches take, are nine exchanges. The claimed distance
    /// grows with s/λ alone, and is within the tolerance of a batch below 2¹² feedbacks with 16 features.
    #[test]
    fn an_update_has_nine_steps() {
        let config = BanditConfig::new(16, 2);
        let at = |feedbacks: u64| {
            ProductScalars::warm(&config, config.newton(0.0, 16, 0, usize::MAX).unwrap(), feedbacks)
        };
        let first = at(100);
        let steps: Vec<_> = (0..first.steps()).map(|at| first.step(at).unwrap().0).collect();
        use ProductStep::*;
        assert_eq!(steps, [Statistics, Start, Newton, Newton, Newton, Last, Residual, Inverse, Estimate]);
        assert_eq!((first.step(9), first.design_scale), (None, 2.0));
        let start = first.factors.start();
        assert_eq!(first.step(1).unwrap().1[0], start * 2.0 / 64.0);
        assert_eq!(first.step(2).unwrap().1, [start * first.factors.steps()[0], first.factors.steps()[0]]);
        let claimed = |feedbacks: u64| at(feedbacks).residual(16);
        assert!(claimed(4_095) < crate::INVERSE_TOLERANCE, "2^{:.2}", claimed(4_095).log2());
        assert!(claimed(4_096) > crate::INVERSE_TOLERANCE, "2^{:.2}", claimed(4_096).log2());
        // A cold start after 4,000 feedbacks takes four more.
        assert_eq!(ProductScalars::cold(&config, 4000).unwrap().steps(), 13);
    }
}
