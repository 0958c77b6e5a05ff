//! Errors of the crate, classified by fault.

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
    /// Misuse: the shape of the features is not that of the policy.
    #[error(
        "the features have {got_k} arms and dimension {got_d}, this policy has {k} arms and dimension {d}"
    )]
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
    /// Misuse: the number of values is not a positive multiple of the length of a row.
    #[error("{values} values do not make one or more rows of length {d}")]
    Rows {
        /// Values given.
        values: usize,
        /// Length of a row.
        d: usize,
    },
    /// Misuse: the number of values is not that of a square matrix of the given order.
    #[error("{values} values are not a matrix of order {d}")]
    Matrix {
        /// Values given.
        values: usize,
        /// Order wanted.
        d: usize,
    },
    /// Misuse: closed arms for a policy whose proof or whose learning needs all of them.
    #[error("this policy has no closed arms, whose rows are null: give all rows, or take oful")]
    ClosedArms,
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
    /// Misuse: the arm does not exist.
    #[error("arm {arm} does not exist: there are {k} arms, numbered from 0")]
    Arm {
        /// The arm, from 0.
        arm: usize,
        /// Number of arms.
        k: usize,
    },
    /// Misuse: a reward is infinite or not a number.
    #[error("the reward is not a finite number")]
    RewardNotFinite,
    /// Misuse: an arm was played, or feedback was given, before a round has begun.
    #[error("no round has begun")]
    NoRound,
    /// Misuse: this policy takes one feedback for each decision, for the arm of that decision.
    #[error("the feedback is for arm {arm}, which is not the arm of the last decision")]
    OutOfTurn {
        /// The arm given.
        arm: usize,
    },
    /// Capacity: the policy has played all rounds (slots, for delayed feedback) of its horizon.
    #[error("the horizon of {horizon} rounds is over")]
    HorizonOver {
        /// Number of rounds, T.
        horizon: u64,
    },
    /// Misuse: the reward is outside the range of the policy.
    #[error("reward is {got}, it must be in [0, {max}]")]
    Reward {
        /// The reward found.
        got: f64,
        /// The largest reward allowed.
        max: f64,
    },
    /// Misuse: under full information, the reward of an arm, or the sum of several rewards, is out of range.
    #[error("rewards[{arm}] is {got}, it must be in [0, {max}]")]
    RewardOfArm {
        /// The arm.
        arm: usize,
        /// The reward found.
        got: f64,
        /// The number of rounds in the sum.
        max: f64,
    },
    /// Misuse: under full information, the number of rewards is not the number of arms.
    #[error("there are {got} rewards for {k} arms, one for each arm is needed")]
    Rewards {
        /// Rewards given.
        got: usize,
        /// Number of arms.
        k: usize,
    },
    /// Untrusted: a batch does not have exactly one share of each user. Its noise would not have the stated
    /// variance, so the shares are not added.
    #[error("there are {got} shares of {users} users, exactly one of each user is needed")]
    Shares {
        /// Shares received.
        got: u64,
        /// Number of users for which the noise is sized.
        users: u64,
    },
    /// Untrusted: a device refuses a task.
    #[error(transparent)]
    Task(#[from] privacy::task::Refusal),
    /// An error of the noise or of the accounting.
    #[error(transparent)]
    Privacy(#[from] privacy::Error),
    /// Capacity: two optimistic indices of a round differ by more than the domain of the comparison.
    #[error(
        "the optimistic indices differ by {spread:.4} times the length of [-1, rho_max], the comparison takes 1 at most"
    )]
    ScoreSpread {
        /// Largest minus smallest index, divided by `rho_max + 1`.
        spread: f64,
    },
    /// Capacity: the statistics have left the range of `f64`. The policy can then not be used any further.
    #[error("the statistics overflow double precision")]
    Overflow,
    /// Untrusted: a stored state contradicts its configuration, or itself.
    #[error("stored state rejected: {what}")]
    State {
        /// The part that is wrong.
        what: &'static str,
    },
    /// Untrusted: a file does not have the layout that [`Purchases`](crate::datasets::Purchases) or
    /// [`Record`](crate::delayed::Record) reads.
    #[error("line {line}: {reason}")]
    File {
        /// Line of the file, from 1; 0 if unknown.
        line: u64,
        /// The cell or column, and what is wrong with it.
        reason: String,
    },
}

impl Error {
    /// The fault that the error is classified under.
    pub fn fault(&self) -> Fault {
        match self {
            Error::OutOfRange(_)
            | Error::SwitchingRule { .. }
            | Error::Shape { .. }
            | Error::Rows { .. }
            | Error::ClosedArms
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

/// The error of a line of a file.
pub(crate) fn refused(line: u64, reason: String) -> Error {
    Error::File { line, reason }
}

/// The error of a file that is not comma-separated values.
pub(crate) fn csv_error(e: csv::Error) -> Error {
    refused(e.position().map_or(0, csv::Position::line), e.to_string())
}
