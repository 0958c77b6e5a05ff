//! The levels of the two circuits, by step. Each level is one prime of the chain, and a product takes one
//! level.
//!
//! Tests of `helba` run both circuits in the clear and compare their levels with these.

use crate::{BanditConfig, Error, MOST_ARMS, Shape};
use fault::OutOfRange;

/// The level of a masked model. Its three primes leave room for a mask that is at least 64 bits wider than a
/// value.
pub const REFRESH_LEVEL: usize = 2;

/// The level of an answer.
pub const ANSWER_LEVEL: usize = 0;

/// The level at which the entries of an evaluation leave the large ring. The fold of a request alone takes
/// it. The exchange of answers of several has its 73 bits or more for a mask and a value.
pub const PRODUCTS_LEVEL: usize = ANSWER_LEVEL + 1;

/// The levels of each step of an evaluation before its entries leave the large ring, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionLevels {
    /// The polynomial of the square root; 0 where a raise places differences of indices.
    pub square_root: usize,
    /// The composition of comparison polynomials.
    pub comparison: usize,
    /// The product over a row of pairs: log₂ Ka, and 0 for two arms, which have one pair each.
    pub row_product: usize,
}

impl DecisionLevels {
    /// The least depth of a square root, which has degree 15. Keys of later steps are generated for the level
    /// below it.
    pub(crate) const LEAST_SQUARE_ROOT: usize = 4;

    /// The levels of an evaluation of `config` with keys of `shape`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for more than [`MOST_ARMS`] arms and for comparison bits other than 6, 8 or 10.
    pub fn new(config: &BanditConfig, shape: Shape) -> Result<Self, Error> {
        if shape.arm_slots > MOST_ARMS {
            let want = format!("at most {MOST_ARMS}, because no ring has slots for more");
            return Err(OutOfRange::new("arms", shape.arm_slots, want).into());
        }
        Ok(DecisionLevels {
            square_root: if config.raises_differences() { 0 } else { polynomial(config.sqrt_degree) },
            comparison: config.comparison_degrees()?.iter().copied().map(polynomial).sum(),
            row_product: if shape.arm_slots == 2 { 0 } else { shape.log_arms() },
        })
    }

    /// The level of raised scores: all steps, and those after [`PRODUCTS_LEVEL`].
    pub fn sum(&self) -> usize {
        self.square_root + self.comparison + self.row_product + PRODUCTS_LEVEL
    }
}

/// The levels of each step of a batch update. Their sum is the level of the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateLevels {
    /// The product of design and inverse.
    pub first_product: usize,
    /// Newton's steps, two levels each.
    pub newton: usize,
    /// The product of inverse and moment, and its mask.
    pub estimate: usize,
    /// The change to the scale that the model has after the refresh.
    pub scale: usize,
    /// The levels for the mask of the refresh, [`REFRESH_LEVEL`].
    pub refresh: usize,
}

impl UpdateLevels {
    /// The levels of an update of `steps` Newton steps.
    pub fn new(steps: usize) -> Self {
        UpdateLevels { first_product: 1, newton: 2 * steps, estimate: 2, scale: 1, refresh: REFRESH_LEVEL }
    }

    /// The sum of all steps.
    pub fn total(&self) -> usize {
        self.first_product + self.newton + self.estimate + self.scale + self.refresh
    }
}

/// The depth of a Chebyshev series of degree 2ᵏ − 1.
fn polynomial(degree: usize) -> usize {
    degree.saturating_add(1).ilog2() as usize
}
