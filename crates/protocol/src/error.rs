use crate::Shape;
use fault::Fault;

/// Why a configuration, contexts, a reward or an id were refused. No message holds a feature or a reward.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a configuration that the linear bandit excludes.
    #[error(transparent)]
    Config(#[from] bandit::Error),
    /// Misuse: a value outside its range.
    #[error(transparent)]
    OutOfRange(#[from] fault::OutOfRange),
    /// Capacity: the keys were made for a smaller problem.
    #[error(
        "{features} features and {arms} arms need other keys, these are for {keys}: make keys with `helba-keygen create \
         --features {features} --arms {arms}`"
    )]
    Shape {
        /// Features asked for.
        features: usize,
        /// Arms asked for.
        arms: usize,
        /// The shape of the keys.
        keys: Shape,
    },
    /// Capacity: the circuit is deeper than the parameters allow.
    #[error("{what} takes {need} levels, the parameters have {have}: {advice}")]
    Depth {
        /// The part that does not fit.
        what: &'static str,
        /// Levels needed.
        need: usize,
        /// Levels of the parameters.
        have: usize,
        /// What to choose instead.
        advice: String,
    },
    /// Capacity: more slots than a ciphertext holds.
    #[error("{need} slots are needed, a ciphertext has {have}: fewer features or arms")]
    Slots {
        /// Slots needed.
        need: usize,
        /// Slots of a ciphertext.
        have: usize,
    },
    /// Misuse: a context with the wrong number of arms.
    #[error("the context has {got} arms, this bandit has {want}")]
    ArmCount {
        /// Rows given.
        got: usize,
        /// Arms of the bandit.
        want: usize,
    },
    /// Misuse: an arm with the wrong number of features.
    #[error("row {row} has {got} features, this bandit has {want}")]
    FeatureCount {
        /// The row, from 1; the played arm's features are row 1.
        row: usize,
        /// Features given.
        got: usize,
        /// Features of the bandit.
        want: usize,
    },
    /// Misuse: a cell that is no finite number.
    #[error("row {row}, column {column} is not a finite number")]
    NotANumber {
        /// The row, from 1.
        row: usize,
        /// The column, from 1.
        column: usize,
    },
    /// Misuse: features longer than agreed.
    #[error(
        "the features in row {row} have a norm above L = {bound}: rescale them all alike, or create the bandit with a larger `linear.l` (`create --config`)"
    )]
    NormAboveBound {
        /// The row, from 1.
        row: usize,
        /// L.
        bound: f64,
    },
    /// Misuse: a reward out of range.
    #[error("the reward is not a number from -1 to 1: rescale rewards before you send them")]
    RewardOutOfRange,
    /// Untrusted: no decision of this bandit has that id.
    #[error("unknown decision {id}")]
    UnknownDecision {
        /// The id.
        id: String,
    },
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Config(_)
            | Error::OutOfRange(_)
            | Error::Shape { .. }
            | Error::Depth { .. }
            | Error::Slots { .. } => Fault::Configuration,
            Error::ArmCount { .. }
            | Error::FeatureCount { .. }
            | Error::NotANumber { .. }
            | Error::NormAboveBound { .. }
            | Error::RewardOutOfRange => Fault::Value,
            Error::UnknownDecision { .. } => Fault::Unknown,
        }
    }
}
