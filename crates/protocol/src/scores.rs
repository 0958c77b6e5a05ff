//! The ring of scores, in which a packed bandit multiplies contexts and model before anything is raised to
//! the ring of the deep circuit.

use crate::Shape;
use ckks::ParamsSpec;

/// The parameters of the ring of scores for a shape, and the gap between its useful coefficients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreRing {
    /// The parameters, with N' coefficients.
    pub params: ParamsSpec,
    /// g = N'/(2·Ka). The scores of arm a are the coefficients 2a·g and (2a + 1)·g, so that g users fit into
    /// one pack.
    pub gap: usize,
}

impl ScoreRing {
    /// The ring for `shape`, or for tests the one without security. `None` if the D(D + 3)/2 numbers of an
    /// arm do not fit into the gap.
    pub fn for_shape(shape: Shape, toy: bool) -> Option<Self> {
        let params = if toy { ckks::TOY_LOGN11_SCORES } else { ckks::LOGN13_LOGQP147_SCORES };
        let gap = (1usize << params.log_n) / (2 * shape.arm_slots);
        (gap >= 2 && shape.dim * (shape.dim + 3) / 2 <= gap).then_some(ScoreRing { params, gap })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_hold_what_fits() {
        let gap = |d, k| ScoreRing::for_shape(Shape::for_problem(d, k), false).map(|ring| ring.gap);
        assert_eq!([gap(2, 2), gap(7, 4), gap(8, 8), gap(16, 16)], [2048, 1024, 512, 256].map(Some));
        assert_eq!([gap(32, 2), gap(32, 8), gap(16, 64)], [Some(2048), None, None]);
    }
}
