//! The context of a round: one row of features an arm.

use crate::Error;
use crate::vector::{norm, norm_is_within};

privacy::stored! {
    /// Features of all arms in one round: `k` rows of length `d`, all finite.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Features {
        values: Vec<f64>,
        d: usize,
    }
}

impl Features {
    /// Features whose rows of length `d`, one for each arm, follow each other in `values`.
    ///
    /// # Errors
    /// [`Error::Rows`] if `values` is not one or more whole rows, [`Error::FeatureNotFinite`].
    pub fn new(values: Vec<f64>, d: usize) -> Result<Self, Error> {
        let features = Self { values, d };
        features.check_stored()?;
        Ok(features)
    }

    fn check_stored(&self) -> Result<(), Error> {
        let &Self { d, ref values } = self;
        if d == 0 || values.is_empty() || !values.len().is_multiple_of(d) {
            return Err(Error::Rows { values: values.len(), d });
        }
        match values.iter().position(|v| !v.is_finite()) {
            Some(i) => Err(Error::FeatureNotFinite { arm: i / d }),
            None => Ok(()),
        }
    }

    /// Number of arms, `k`.
    pub fn k(&self) -> usize {
        self.values.len() / self.d
    }

    /// Length of a row, `d`.
    pub fn d(&self) -> usize {
        self.d
    }

    /// The rows in arm order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.values.chunks_exact(self.d)
    }

    /// The row of `arm`, or `None` if there is no such arm.
    pub fn row(&self, arm: usize) -> Option<&[f64]> {
        self.values.chunks_exact(self.d).nth(arm)
    }

    /// The largest Euclidean norm of a row.
    pub fn max_norm(&self) -> f64 {
        self.rows().map(norm).fold(0.0, f64::max)
    }

    /// Multiplies every feature by `factor`.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.values.iter_mut().for_each(|v| *v *= factor);
    }

    /// Checks that there are `k` arms in dimension `d`, each of norm at most `l`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::FeatureTooLong`].
    pub fn check(&self, k: usize, d: usize, l: f64) -> Result<(), Error> {
        if self.k() != k || self.d != d {
            return Err(Error::Shape { got_k: self.k(), got_d: self.d, k, d });
        }
        for (arm, row) in self.rows().enumerate() {
            if !norm_is_within(row, l) {
                return Err(Error::FeatureTooLong { arm, norm: norm(row), max: l });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_features_are_refused() {
        assert_eq!(Features::new(vec![], 2), Err(Error::Rows { values: 0, d: 2 }));
        assert_eq!(Features::new(vec![1.0; 3], 2), Err(Error::Rows { values: 3, d: 2 }));
        assert_eq!(Features::new(vec![1.0; 3], 0), Err(Error::Rows { values: 3, d: 0 }));
        assert_eq!(Features::new(vec![1.0, 2.0, 3.0, f64::NAN], 2), Err(Error::FeatureNotFinite { arm: 1 }));
        assert!(serde_json::from_str::<Features>(r#"{"values":[1.0,2.0,3.0],"d":2}"#).is_err());
    }

    #[test]
    fn rows_and_norms() {
        let f = Features::new(vec![3.0, 4.0, 0.0, 1.0], 2).unwrap();
        assert_eq!((f.k(), f.d(), f.max_norm()), (2, 2, 5.0));
        assert_eq!(f.row(1), Some(&[0.0, 1.0][..]));
        assert_eq!(f.row(2), None);
        assert!(f.check(2, 2, 5.0).is_ok());
        assert_eq!(f.check(2, 2, 4.9), Err(Error::FeatureTooLong { arm: 0, norm: 5.0, max: 4.9 }));
        assert_eq!(f.check(3, 2, 5.0), Err(Error::Shape { got_k: 2, got_d: 2, k: 3, d: 2 }));
    }
}
