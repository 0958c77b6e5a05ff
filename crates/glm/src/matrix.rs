//! Small symmetric matrices.

use crate::Error;
use bandit::vector::{add_outer, dot, quadratic_form};
use fault::OutOfRange;
use nalgebra::{DMatrix, SymmetricEigen};

privacy::stored! {
    /// A symmetric matrix of order `d >= 1`, with all `d * d` entries.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Symmetric {
        d: usize,
        values: Vec<f64>,
    }
}

impl Symmetric {
    /// `scale` times the identity of order `d`. An order of 0 is read as 1.
    pub fn identity(d: usize, scale: f64) -> Self {
        let d = d.max(1);
        let mut values = vec![0.0; d * d];
        values.iter_mut().step_by(d + 1).for_each(|v| *v = scale);
        Self { d, values }
    }

    /// The matrix with these `d * d` entries.
    ///
    /// # Errors
    /// [`Error::Dimension`], [`Error::NotFinite`], or [`Error::OutOfRange`] if it is not symmetric.
    pub fn new(d: usize, values: Vec<f64>) -> Result<Self, Error> {
        let matrix = Self { d, values };
        matrix.check_stored()?;
        Ok(matrix)
    }

    fn check_stored(&self) -> Result<(), Error> {
        let &Self { d, ref values } = self;
        if d == 0 || d.checked_mul(d) != Some(values.len()) {
            return Err(Error::Dimension { field: "matrix", got: values.len(), want: d.saturating_mul(d) });
        }
        if !self.is_finite() {
            return Err(Error::NotFinite { field: "matrix" });
        }
        let pairs = || (0..d).flat_map(|i| (0..i).map(move |j| (i, j)));
        if let Some((i, j)) = pairs().find(|&(i, j)| values[i * d + j] != values[j * d + i]) {
            let got = values[i * d + j] - values[j * d + i];
            return Err(OutOfRange::new("matrix", got, "symmetric: differences across the diagonal 0").into());
        }
        Ok(())
    }

    /// Order of the matrix.
    pub fn d(&self) -> usize {
        self.d
    }

    /// The `d * d` entries.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Adds `weight * x x^T`.
    pub fn add_outer(&mut self, weight: f64, x: &[f64]) {
        add_outer(&mut self.values, weight, x);
    }

    /// Adds `c` to the diagonal.
    pub fn add_diagonal(&mut self, c: f64) {
        self.values.iter_mut().step_by(self.d + 1).for_each(|v| *v += c);
    }

    /// Multiplies every entry by `factor`.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.values.iter_mut().for_each(|v| *v *= factor);
    }

    /// `x^T A x`.
    pub fn quadratic_form(&self, x: &[f64]) -> f64 {
        quadratic_form(&self.values, x)
    }

    /// `||x||_A`; 0 if rounding makes the square negative.
    pub fn norm(&self, x: &[f64]) -> f64 {
        self.quadratic_form(x).max(0.0).sqrt()
    }

    /// `A x`.
    pub fn times(&self, x: &[f64]) -> Vec<f64> {
        self.values.chunks_exact(self.d).map(|row| dot(row, x)).collect()
    }

    /// `A^-1`; `None` unless `A` is positive definite.
    pub fn inverse(&self) -> Option<Self> {
        self.dense().cholesky().map(|c| Self::from_dense(&c.inverse()))
    }

    /// The Sherman-Morrison update: turns `A^-1` into the inverse of `A + weight x x^T`.
    pub(crate) fn sherman_morrison(&mut self, weight: f64, x: &[f64]) {
        let y = self.times(x);
        self.add_outer(-weight / (1.0 + weight * dot(&y, x)), &y);
    }

    /// `ln det A`; `None` unless `A` is positive definite.
    pub fn log_det(&self) -> Option<f64> {
        self.dense().cholesky().map(|c| c.ln_determinant())
    }

    /// `A^-1` and `ln det A`, from one factorisation; `None` unless `A` is positive definite.
    pub(crate) fn inverse_and_log_det(&self) -> Option<(Self, f64)> {
        self.dense().cholesky().map(|c| (Self::from_dense(&c.inverse()), c.ln_determinant()))
    }

    /// The matrix with every eigenvalue below `floor` replaced by `floor`.
    pub fn floored(&self, floor: f64) -> Self {
        if self.surely_exceeds(floor) {
            return self.clone();
        }
        let eigen = self.eigen();
        if eigen.eigenvalues.min() >= floor {
            return self.clone();
        }
        Self::from_dense(
            &SymmetricEigen { eigenvalues: eigen.eigenvalues.map(|v| v.max(floor)), ..eigen }.recompose(),
        )
    }

    /// Whether every eigenvalue is above `floor`, by so much that no rounding matters. A factorisation of
    /// `A - c I` tells it, in a fraction of the time that eigenvalues take.
    fn surely_exceeds(&self, floor: f64) -> bool {
        let d = self.d;
        let largest = self.values.iter().step_by(d + 1).fold(0.0, |m: f64, v| m.max(v.abs()));
        // Where all pivots are positive, the factors are those of a matrix that differs by about d^2 eps
        // times the largest entry, eps = 2^-53.
        let c = floor + (d * d) as f64 * 1e-12 * largest;
        let mut l = self.values.clone();
        for j in 0..d {
            let row: f64 = l[j * d..j * d + j].iter().map(|v| v * v).sum();
            let pivot = l[j * d + j] - c - row;
            if pivot.is_nan() || pivot <= 0.0 {
                return false;
            }
            let root = pivot.sqrt();
            l[j * d + j] = root;
            for i in j + 1..d {
                let (above, below) = l.split_at_mut(i * d);
                let sum = dot(&above[j * d..j * d + j], &below[..j]);
                below[j] = (below[j] - sum) / root;
            }
        }
        true
    }

    /// The largest `w` with `A v = w B v` for some `v`, where `B` is `other`.
    ///
    /// # Errors
    /// [`Error::NotPositive`] unless `other` is positive definite.
    pub fn largest_eigenvalue_against(&self, other: &Self) -> Result<f64, Error> {
        let l = other.dense().cholesky().ok_or(Error::NotPositive { field: "other" })?;
        let half =
            l.l().solve_lower_triangular(&self.dense()).ok_or(Error::NotPositive { field: "other" })?;
        let whole =
            l.l().solve_lower_triangular(&half.transpose()).ok_or(Error::NotPositive { field: "other" })?;
        Ok(whole.symmetric_eigenvalues().max())
    }

    /// Appends the coordinates in an orthonormal basis of the symmetric matrices under the Frobenius norm:
    /// the upper triangle row by row, with off-diagonal entries times the root of 2. Isotropic Gaussian noise
    /// on these coordinates is the noise `(Z + Z^T)/2` on the matrix.
    pub(crate) fn push_coordinates(&self, out: &mut Vec<f64>) {
        for i in 0..self.d {
            out.push(self.values[i * self.d + i]);
            out.extend(
                self.values[i * self.d + i + 1..(i + 1) * self.d]
                    .iter()
                    .map(|v| v * std::f64::consts::SQRT_2),
            );
        }
    }

    /// The matrix with this upper triangle, row by row.
    pub(crate) fn from_upper(d: usize, upper: &[f64]) -> Self {
        let mut m = Self::identity(d, 0.0);
        let places = (0..d).flat_map(|i| (i..d).map(move |j| (i, j)));
        for ((i, j), v) in places.zip(upper) {
            m.values[i * d + j] = *v;
            m.values[j * d + i] = *v;
        }
        m
    }

    /// The matrix with these `d (d + 1) / 2` [coordinates](Self::push_coordinates).
    pub(crate) fn from_coordinates(d: usize, coordinates: &[f64]) -> Self {
        let mut m = Self::from_upper(d, coordinates);
        let off_diagonal = m.values.iter_mut().enumerate().filter(|(i, _)| i % (d + 1) != 0);
        off_diagonal.for_each(|(_, v)| *v *= std::f64::consts::FRAC_1_SQRT_2);
        m
    }

    pub(crate) fn eigen(&self) -> SymmetricEigen<f64, nalgebra::Dyn> {
        self.dense().symmetric_eigen()
    }

    pub(crate) fn dense(&self) -> DMatrix<f64> {
        DMatrix::from_column_slice(self.d, self.d, &self.values)
    }

    /// The symmetric part of `m`, which must be symmetric up to rounding.
    pub(crate) fn from_dense(m: &DMatrix<f64>) -> Self {
        let d = m.nrows();
        let values = (0..d * d).map(|i| (m[(i / d, i % d)] + m[(i % d, i / d)]) / 2.0).collect();
        Self { d, values }
    }

    pub(crate) fn is_finite(&self) -> bool {
        self.values.iter().all(|v| v.is_finite())
    }
}

/// Number of free entries of a symmetric matrix of order `d`.
pub(crate) fn triangle(d: usize) -> usize {
    d * (d + 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use privacy::source::{SplitMix64, Words};

    /// The factorisation finds no matrix above a floor that the eigenvalues do not, however near the floor
    /// is, and finds those that are well above it.
    #[test]
    fn only_matrices_above_a_floor_surely_exceed_it() {
        let mut words = SplitMix64::new(11);
        for d in [1, 2, 3, 8] {
            for _ in 0..200 {
                let mut m = Symmetric::identity(d, 0.1);
                for _ in 0..d {
                    let x: Vec<f64> = (0..d).map(|_| 2.0 * words.uniform() - 1.0).collect();
                    m.add_outer(1.0, &x);
                }
                let least = m.eigen().eigenvalues.min();
                for (share, sure) in
                    [(0.0, Some(true)), (0.5, Some(true)), (1.0 - 1e-13, None), (1.0 - 1e-15, None)]
                {
                    let got = m.surely_exceeds(share * least);
                    assert!(
                        sure.is_none_or(|sure| got == sure) && (!got || least >= share * least),
                        "{share}"
                    );
                }
                for share in [1.0, 1.0 + 1e-15, 1.0 + 1e-13, 1.5, f64::NAN] {
                    assert!(!m.surely_exceeds(share * least), "{share}");
                }
                assert_eq!(m.floored(0.5 * least), m);
                assert!(m.floored(1.5 * least).eigen().eigenvalues.min() >= 1.4 * least);
            }
        }
        assert!(!Symmetric::identity(2, f64::NAN).surely_exceeds(0.0));
    }
}
