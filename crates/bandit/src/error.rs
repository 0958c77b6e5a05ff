//! Errors, each with whose fault it is.

use fault::Fault;

/// Errors of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a value outside its range.
    #[error(transparent)]
    OutOfRange(#[from] fault::OutOfRange),
    /// Misuse: trace threshold and batch growth break the condition of Proposition 7.
    #[error(
        "c - l*eta/sqrt(lambda + l^2) is {margin:.4}, it must exceed 1/4: raise c above {min_c:.4}, or lower eta \
         below {max_eta:.4} (if that is not positive, only c helps)"
    )]
    SwitchingRule {
        /// Left side of the condition.
        margin: f64,
        /// The condition holds for any `c` above this, `eta` unchanged.
        min_c: f64,
        /// The condition holds for any `eta` below this, `c` unchanged.
        max_eta: f64,
    },
    /// Misuse: features of a shape that the policy was not made for.
    #[error("features of {got_k} arms in dimension {got_d}, this policy has {k} arms in dimension {d}")]
    Shape {
        /// Arms given.
        got_k: usize,
        /// Dimension given.
        got_d: usize,
        /// Arms wanted.
        k: usize,
        /// Dimension wanted.
        d: usize,
    },
    /// Misuse: a number of values that is not a whole number of rows.
    #[error("{values} values do not make one or more rows of length {d}")]
    Rows {
        /// Values given.
        values: usize,
        /// Length of a row.
        d: usize,
    },
    /// Misuse: a number of values that is not a square matrix of the order given.
    #[error("{values} values are not a matrix of order {d}")]
    Matrix {
        /// Values given.
        values: usize,
        /// Order wanted.
        d: usize,
    },
    /// Misuse: a feature is infinite or not a number.
    #[error("arm {arm} has a feature that is not a finite number")]
    FeatureNotFinite {
        /// The arm.
        arm: usize,
    },
    /// Misuse: a feature vector is longer than the bound `l` that widths and square root rely on.
    #[error("arm {arm} has features of norm {norm}, the configured bound is {max}")]
    FeatureTooLong {
        /// The arm.
        arm: usize,
        /// Its Euclidean norm.
        norm: f64,
        /// The bound `l`.
        max: f64,
    },
    /// Misuse: no such arm.
    #[error("arm {arm} of {k}")]
    Arm {
        /// The arm, from 0.
        arm: usize,
        /// Number of arms.
        k: usize,
    },
    /// Misuse: a reward is infinite or not a number.
    #[error("the reward is not a finite number")]
    RewardNotFinite,
    /// Misuse: an arm was played before a round was begun.
    #[error("no round has begun")]
    NoRound,
    /// Misuse: this policy takes feedback slot by slot, for the arm that it named.
    #[error("feedback for arm {arm}, which is not the arm named for this slot")]
    OutOfTurn {
        /// The arm given.
        arm: usize,
    },
    /// Capacity: the policy was made for so many rounds (slots, where rewards are spread) and has played
    /// them.
    #[error("the horizon of {horizon} rounds is over")]
    HorizonOver {
        /// T.
        horizon: u64,
    },
    /// Misuse: a reward that the policy is not made for.
    #[error("reward is {got}, it must be in [0, {max}]")]
    Reward {
        /// The reward found.
        got: f64,
        /// The largest that is taken.
        max: f64,
    },
    /// Misuse: under full information, the reward of an arm, or the sum of several, that is out of range.
    #[error("rewards[{arm}] is {got}, it must be in [0, {max}]")]
    RewardOfArm {
        /// The arm.
        arm: usize,
        /// The reward found.
        got: f64,
        /// The number of rounds that it is the sum of.
        max: f64,
    },
    /// Misuse: under full information, not one reward for every arm.
    #[error("{got} rewards for {k} arms")]
    Rewards {
        /// Rewards given.
        got: usize,
        /// Number of arms.
        k: usize,
    },
    /// Untrusted: a batch with other than one share a user. Its noise would be too small, so nothing is added
    /// up.
    #[error("{got} shares of {users} users")]
    Shares {
        /// Shares received.
        got: u64,
        /// Users that the noise is sized for, or servers that hold parts.
        users: u64,
    },
    /// Untrusted: a device does not answer a task.
    #[error(transparent)]
    Task(#[from] privacy::task::Refusal),
    /// The source of noise or the accounting refused.
    #[error(transparent)]
    Privacy(#[from] privacy::Error),
    /// Capacity: the optimistic indices of a round lie further apart than the comparison can take.
    #[error(
        "the optimistic indices spread over {spread:.4} of the range [-1, rho_max], the comparison takes 1"
    )]
    ScoreSpread {
        /// Largest less smallest index, over `rho_max + 1`.
        spread: f64,
    },
    /// Capacity: the statistics have left the range of `f64`. The policy is then of no further use.
    #[error("the statistics overflow double precision")]
    Overflow,
    /// Untrusted: a stored state does not fit its own configuration.
    #[error("stored state rejected: {what}")]
    State {
        /// What is wrong with it.
        what: &'static str,
    },
    /// Untrusted: a purchase file does not have the layout that [`Purchases`](crate::datasets::Purchases) reads.
    #[error("line {line}: {reason}")]
    File {
        /// Line of the file, from 1; 0 if unknown.
        line: u64,
        /// The cell or column, and what is wrong with it.
        reason: String,
    },
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::OutOfRange(_)
            | Error::SwitchingRule { .. }
            | Error::Shape { .. }
            | Error::Rows { .. }
            | Error::FeatureNotFinite { .. }
            | Error::FeatureTooLong { .. }
            | Error::Arm { .. }
            | Error::RewardNotFinite
            | Error::Reward { .. }
            | Error::RewardOfArm { .. }
            | Error::Rewards { .. }
            | Error::Shares { .. } => Fault::Value,
            Error::HorizonOver { .. } | Error::OutOfTurn { .. } => Fault::Over,
            Error::Privacy(error) => error.fault(),
            Error::Task(_)
            | Error::Matrix { .. }
            | Error::NoRound
            | Error::ScoreSpread { .. }
            | Error::Overflow
            | Error::State { .. }
            | Error::File { .. } => Fault::Internal,
        }
    }
}
