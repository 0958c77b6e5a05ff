use num_complex::Complex64;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// The most arms. With 128 arms, a row of 128 pairs needs blocks with a square of 16 features, and all blocks
/// need 2¹⁶ slots. The largest ring has 2¹⁵.
pub const MOST_ARMS: usize = 64;

/// The padded size of the problems that a set of keys serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// D: the smallest power of two that is at least d and at least 2.
    pub dim: usize,
    /// Ka: the smallest power of two that is at least K and at least 2.
    pub arm_slots: usize,
}

impl Shape {
    /// The shape of `features` features and `arms` arms.
    pub fn for_problem(features: usize, arms: usize) -> Self {
        let arm_slots = arms.next_power_of_two().max(2);
        let mut dim = features.next_power_of_two().max(2);
        // A row of comparisons must fit into a square.
        while arm_slots > dim * dim {
            dim *= 2;
        }
        Shape { dim, arm_slots }
    }

    /// The numbers of features and the numbers of arms that round up to this shape.
    pub fn problems(&self) -> [RangeInclusive<usize>; 2] {
        let above_half = |size: usize| if size == 2 { 1 } else { size / 2 + 1 };
        // If the arms determine D, every smaller number of features fits.
        let alone = Shape::for_problem(1, self.arm_slots).dim == self.dim;
        let least = if alone { 1 } else { above_half(self.dim) };
        [least..=self.dim, above_half(self.arm_slots)..=self.arm_slots]
    }

    /// D².
    pub fn square(&self) -> usize {
        self.dim * self.dim
    }

    /// F, the number of slots of an arm: four D × D squares, or two if four would need more slots than N =
    /// 2¹⁵ has.
    pub fn block(&self) -> usize {
        let squares = if 4 * self.square() * self.arm_slots <= 1 << 14 { 4 } else { 2 };
        squares * self.square()
    }

    /// The factor of trace statistics: 1 if they have slots of their own, or √−1 if they share the slots of
    /// arm 1. Separating the parts takes conjugations, which cost a tenth of a small decision.
    pub fn trace_unit(&self) -> Complex64 {
        if self.block() > 2 * self.square() { Complex64::ONE } else { Complex64::I }
    }

    /// D², the slot of the trace in a decision, which is the first one after the square of features in block
    /// 0.
    pub fn trace_slot(&self) -> usize {
        self.square()
    }

    /// The period of the vectors of decisions.
    pub fn decision_slots(&self) -> usize {
        self.arm_slots * self.block()
    }

    /// The period of the vectors of updates.
    pub fn update_slots(&self) -> usize {
        2 * self.dim * self.dim * self.dim
    }

    /// The period of the model.
    pub fn model_slots(&self) -> usize {
        2 * self.square()
    }

    /// Ka², the slots of a user in an evaluation: one for each pair of arms.
    pub fn user_slots(&self) -> usize {
        self.arm_slots * self.arm_slots
    }

    /// The slots that updates need and an evaluation with two places, of which the trace condition takes one.
    pub fn slots(&self) -> usize {
        (2 * self.user_slots()).max(self.update_slots())
    }

    /// log₂ Ka.
    pub fn log_arms(&self) -> usize {
        self.arm_slots.ilog2() as usize
    }

    /// The highest level of the keys of batch updates, for a chain of `top` levels. Large problems have many
    /// such keys, which are therefore generated for the five Newton steps that features of norm 1 need.
    pub(crate) fn update_level(&self, top: usize) -> usize {
        if self.dim <= 4 { top } else { top.min(17) }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [features, arms] = self.problems();
        let to = |r: RangeInclusive<usize>| format!("{} to {}", r.start(), r.end());
        write!(f, "{} features, {} arms", to(features), to(arms))
    }
}
