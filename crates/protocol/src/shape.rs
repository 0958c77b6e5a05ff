use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// The most arms. With 128 arms, an evaluation with two places takes 2¹⁵ slots, and N = 2¹⁵ has 2¹⁴.
pub const MOST_ARMS: usize = 64;

/// The most features. With 32, the square matrices of an update take 2¹⁶ slots, and N = 2¹⁶ has 2¹⁵.
pub const MOST_FEATURES: usize = 16;

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
        let [dim, arm_slots] = [features, arms].map(|size| size.next_power_of_two().max(2));
        Shape { dim, arm_slots }
    }

    /// The numbers of features and the numbers of arms that round up to this shape.
    pub fn problems(&self) -> [RangeInclusive<usize>; 2] {
        let above_half = |size: usize| if size == 2 { 1 } else { size / 2 + 1 };
        [self.dim, self.arm_slots].map(|size| above_half(size)..=size)
    }

    /// D².
    pub fn square(&self) -> usize {
        self.dim * self.dim
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

    /// The least number of slots of the deep ring: those of updates, or if they are more, those of an
    /// evaluation with two places, of which the trace condition takes one.
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
