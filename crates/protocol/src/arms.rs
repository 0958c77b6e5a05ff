//! Arms that come and go. K is the number of places for arms. In a decision some arms may be closed: their
//! rows of features are empty.
//!
//! The context of a closed arm is the mean of those of the open ones. The index ⟨ω, x⟩ + bonus is convex in
//! x, whatever the width: √(xᵀAx + c₁) is the norm of (A^½·x, √c₁), and xᵀAx is a sum of squares. The index
//! of the mean is then at most the mean of the indices of the open arms, so that the largest index is that of
//! an open arm. An arm that is ahead of the other open ones by δ is ahead of closed ones by δ/2 or more,
//! where the bonus of a tie makes up for the other half. So closed arms cost no level, no key and no part of
//! the range of indices, and encrypted contexts show nothing of them.
//!
//! The device plays the largest entry of the open arms: a closed arm is never played, whatever the scores.
//!
//! A closed arm with x = 0 and a number that makes its index the least one would take a number of each arm,
//! and room in the range for the least index.

use crate::{Error, check_features};
use std::borrow::Cow;

/// Whether the arm with these features is open: a closed arm has none.
pub fn is_open(features: &[f64]) -> bool {
    !features.is_empty()
}

/// The rows of a decision of `arms` arms, in a request where `before` rows precede them, checked as
/// [`check_features`] does. That of a closed arm is the mean of the open ones.
///
/// # Errors
/// [`Error::ArmCount`], [`Error::NoOpenArm`]; as [`check_features`].
pub fn check_rows(
    rows: &[Vec<f64>],
    before: usize,
    arms: usize,
    features: usize,
    bound: f64,
) -> Result<Vec<Cow<'_, [f64]>>, Error> {
    if rows.len() != arms {
        return Err(Error::ArmCount { got: rows.len(), want: arms });
    }
    let open = rows.iter().enumerate().filter(|(_, x)| is_open(x));
    let checked: Vec<Cow<'_, [f64]>> =
        open.map(|(at, x)| check_features(before + at + 1, x, features, bound)).collect::<Result<_, _>>()?;
    if checked.is_empty() {
        return Err(Error::NoOpenArm);
    }
    if checked.len() == arms {
        return Ok(checked);
    }
    let share = (checked.len() as f64).recip();
    let mean: Vec<f64> = (0..features).map(|f| checked.iter().map(|x| x[f]).sum::<f64>() * share).collect();
    let mut checked = checked.into_iter();
    let row = |x: &Vec<f64>| match is_open(x) {
        true => checked.next(),
        false => Some(Cow::Owned(mean.clone())),
    };
    Ok(rows.iter().filter_map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bonus;

    /// Open arms keep their rows, and closed ones have the mean of these, which is no longer than the bound.
    #[test]
    fn closed_arms_have_the_mean_of_the_open_ones() {
        let rows = [vec![], vec![3.0, 0.0], vec![0.0, -3.0], vec![]];
        let checked = check_rows(&rows, 0, 4, 2, 3.0).unwrap();
        assert_eq!(checked.concat(), [1.5, -1.5, 3.0, 0.0, 0.0, -3.0, 1.5, -1.5]);
        assert_eq!(check_rows(&rows[..3], 0, 4, 2, 3.0), Err(Error::ArmCount { got: 3, want: 4 }));
        assert_eq!(check_rows(&[vec![], vec![]], 0, 2, 2, 3.0), Err(Error::NoOpenArm));
        // Rows are numbered with those of closed arms.
        let refused = check_rows(&rows, 4, 4, 2, 2.0).unwrap_err();
        assert_eq!(refused, Error::NormAboveBound { row: 6, bound: 2.0 });
        let refused = check_rows(&rows, 4, 4, 3, 3.0).unwrap_err();
        assert_eq!(refused, Error::FeatureCount { row: 6, got: 2, want: 3 });
        assert_eq!(check_features(2, &[], 2, 1.0), Err(Error::ClosedArm { row: 2 }));
    }

    /// The largest index is that of an open arm, for each width and for 20,000 models and contexts, whose
    /// uncertainties differ by up to 10⁴; and an arm that is ahead of all other open ones is ahead of the
    /// closed ones by half as much.
    #[test]
    fn the_largest_index_is_that_of_an_open_arm() {
        let mut seed = 1u64;
        let mut number = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        };
        let bonuses = [
            Bonus::Root { beta: 2.0, c1: 0.0 },
            Bonus::Root { beta: 0.5, c1: 1e-3 },
            Bonus::Linear { slope: 8.0 },
            Bonus::Linear { slope: 0.0 },
        ];
        for _ in 0..5_000 {
            let root: [[f64; 3]; 3] =
                std::array::from_fn(|_| std::array::from_fn(|f| number() / 10f64.powi(f as i32)));
            let omega: [f64; 3] = std::array::from_fn(|_| number());
            let row = |at: usize, x: [f64; 3]| if at % 3 == 1 { vec![] } else { x.to_vec() };
            let rows: Vec<Vec<f64>> = (0..6).map(|at| row(at, std::array::from_fn(|_| number()))).collect();
            let filled = check_rows(&rows, 0, 6, 3, 2.0).unwrap();
            for bonus in bonuses {
                let index = |x: &[f64]| {
                    let dot = |row: &[f64; 3]| row.iter().zip(x).map(|(r, x)| r * x).sum::<f64>();
                    dot(&omega) + bonus.of(root.iter().map(|row| dot(row).powi(2)).sum())
                };
                let of = |open: bool| rows.iter().zip(&filled).filter(move |(x, _)| is_open(x) == open);
                let mut indices: Vec<f64> = of(true).map(|(_, x)| index(x)).collect();
                indices.sort_by(f64::total_cmp);
                let [second, best] = [indices[2], indices[3]];
                for (_, x) in of(false) {
                    assert!(index(x) <= best - (best - second) / 2.0 + 1e-12, "{bonus:?}");
                }
            }
        }
    }
}
