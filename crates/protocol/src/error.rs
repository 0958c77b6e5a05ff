use crate::Shape;
use fault::Fault;

/// Why a configuration, contexts, a reward or an id were refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a configuration that the linear bandit excludes.
    #[error(transparent)]
    Config(#[from] bandit::Error),
    /// Misuse: a number out of range.
    #[error("{field} = {got}: must be {want}")]
    Field {
        /// The field's name.
        field: &'static str,
        /// The value found.
        got: String,
        /// The range allowed, in words.
        want: String,
    },
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
    /// Misuse: contexts of the wrong shape.
    #[error("contexts: {what} is {got}, expected {want}")]
    ContextShape {
        /// Number of arms, or of features of an arm.
        what: String,
        /// Number given.
        got: usize,
        /// Number expected.
        want: usize,
    },
    /// Misuse: a feature that cannot be encrypted.
    #[error("features of arm {arm}: {why}")]
    BadFeatures {
        /// The row.
        arm: usize,
        /// What is wrong and what to do.
        why: String,
    },
    /// Misuse: a reward out of range.
    #[error("reward {got}: must be between -1 and 1; rescale rewards before you send them")]
    BadReward {
        /// The value.
        got: f64,
    },
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
            | Error::Field { .. }
            | Error::Shape { .. }
            | Error::Depth { .. }
            | Error::Slots { .. } => Fault::Configuration,
            Error::ContextShape { .. } | Error::BadFeatures { .. } | Error::BadReward { .. } => Fault::Value,
            Error::UnknownDecision { .. } => Fault::Unknown,
        }
    }
}
