use crate::staged::{MOST_STAGED_ARMS, MOST_STAGED_FEATURES};
use crate::{MOST_ARMS, MOST_FEATURES, Shape};
use fault::Fault;

/// The reason why a configuration, contexts, a reward or an id were refused. No message contains a feature or
/// a reward.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a configuration that the linear bandit excludes.
    #[error(transparent)]
    Config(#[from] bandit::Error),
    /// Misuse: a value outside its range.
    #[error(transparent)]
    OutOfRange(#[from] fault::OutOfRange),
    /// Capacity: the keys are for problems of another size.
    #[error("{}", other_keys(*features, *arms, *keys))]
    Shape {
        /// The features of the configuration.
        features: usize,
        /// The arms of the configuration.
        arms: usize,
        /// The shape of the keys.
        keys: Shape,
    },
    /// Capacity: the circuit is deeper than the parameters allow.
    #[error("{what} takes {need} levels, but the parameters have {have}: {advice}")]
    Depth {
        /// The circuit.
        what: &'static str,
        /// The levels that it takes.
        need: usize,
        /// The levels of the parameters.
        have: usize,
        /// The remedy.
        advice: String,
    },
    /// Capacity: more slots than a ciphertext holds.
    #[error(
        "so many features and arms do not fit into a ciphertext, which has {have} slots where {need} are needed: keys of one raise \
         carry up to {MOST_FEATURES} features and {MOST_ARMS} arms, and those of `helba-keygen create --exchanges staged` up to \
         {MOST_STAGED_FEATURES} and {MOST_STAGED_ARMS}"
    )]
    Slots {
        /// The slots of the problem.
        need: usize,
        /// The slots of a ciphertext.
        have: usize,
    },
    /// Capacity: contexts with more numbers than a ring of scores holds.
    #[error(
        "the numbers of all arms take {need} coefficients, but the ring of scores has {have}: choose fewer features or arms"
    )]
    Coefficients {
        /// The coefficients of the contexts.
        need: usize,
        /// The coefficients of the largest ring.
        have: usize,
    },
    /// Misuse: a context with the wrong number of arms.
    #[error("the contexts have {got} rows, but this bandit has {want} arms")]
    ArmCount {
        /// The number of rows.
        got: usize,
        /// The arms of the bandit.
        want: usize,
    },
    /// Misuse: a request with no decision, or with more than fit into a ciphertext.
    #[error(
        "the request is for {got} decisions, but a request to this bandit is for 1 to {most}: send several requests"
    )]
    DecisionCount {
        /// The number of decisions.
        got: usize,
        /// The most.
        most: usize,
    },
    /// Misuse: an arm with the wrong number of features.
    #[error("row {row} has {got} features, but this bandit has {want}")]
    FeatureCount {
        /// The row, from 1. The features of the arm that was played are row 1.
        row: usize,
        /// The number of features in the row.
        got: usize,
        /// The features of the bandit.
        want: usize,
    },
    /// Misuse: a decision without an open arm.
    #[error("all arms of the decision are closed: at least one arm must have features")]
    NoOpenArm,
    /// Misuse: features of an arm that is closed, where they are needed.
    #[error(
        "row {row} has no features, so that its arm is closed: a closed arm gets no feedback, and bandits of a committee and of the \
         paper's method have no closed arms"
    )]
    ClosedArm {
        /// The row, from 1. The features of the arm that was played are row 1.
        row: usize,
    },
    /// Misuse: a value that is no finite number.
    #[error("row {row}, column {column} is not a finite number")]
    NotANumber {
        /// The row, from 1.
        row: usize,
        /// The column, from 1.
        column: usize,
    },
    /// Misuse: features with a norm above the bound.
    #[error(
        "row {row} is longer than {bound}, the most that this bandit takes: the root of the sum of the squares of its features must \
         be at most {bound}, so divide the features of all rows by one number, such as the length of the longest row"
    )]
    NormAboveBound {
        /// The row, from 1.
        row: usize,
        /// The bound L.
        bound: f64,
    },
    /// Misuse: an arm that the bandit does not have.
    #[error("there is no arm {got}: arms are numbered from 0 to {}", arms.saturating_sub(1))]
    NoArm {
        /// The arm.
        got: usize,
        /// The arms of the bandit.
        arms: usize,
    },
    /// Misuse: a reward out of range.
    #[error(
        "the reward is not a number from -1 to 1: map it by `reward_range` of a schema first, as `reward_value` of the agent and `Transform.reward` do"
    )]
    RewardOutOfRange,
    /// Untrusted: no decision of this bandit has this id, or it is too old for feedback.
    #[error(
        "no decision that waits for feedback has the id {id}: it is of another bandit, or too old; ask for a new decision"
    )]
    UnknownDecision {
        /// The id.
        id: String,
    },
    /// Misuse: an erasure from a bandit whose batches end by the trace condition.
    #[error(
        "feedback is not erased from a bandit with the schedule trace_or_growth, whose tests rely on statistics that grow: take \
         another schedule"
    )]
    NotErasable,
    /// Misuse: no logged round, or more than one request has.
    #[error(
        "the request has {got} logged rounds, but a request to this bandit has 1 to {most}: send several requests"
    )]
    LoggedCount {
        /// The number of rounds.
        got: usize,
        /// The most.
        most: usize,
    },
    /// Misuse: logged rounds whose columns differ in length.
    #[error(
        "there are {rows} rows of features, {arms} arms and {rewards} rewards: give one of each for every logged round"
    )]
    LoggedColumns {
        /// Rows of features.
        rows: usize,
        /// Arms.
        arms: usize,
        /// Rewards.
        rewards: usize,
    },
    /// Misuse: a logged round that is no feedback of this bandit.
    #[error("logged round {round}: {error}")]
    InRound {
        /// The round, from 1.
        round: usize,
        /// What is wrong with it.
        error: Box<Error>,
    },
    /// Misuse: logged rounds for a bandit that does not take them.
    #[error("this bandit takes no logged rounds: {why}")]
    NoLoggedRounds {
        /// The reason, and what to take.
        why: &'static str,
    },
    /// Misuse: logged rounds while others wait for an update.
    #[error(
        "{waiting} rounds wait for the next model, which takes {most} at most: answer the tasks of the bandit (`helba-client learn` does, and so does a raiser), and send the rounds again"
    )]
    StillLearning {
        /// The feedbacks and logged rounds that are not in the model yet.
        waiting: u64,
        /// The most, with those of the request.
        most: u64,
    },
}

fn other_keys(features: usize, arms: usize, keys: Shape) -> String {
    let asked = format!("{features} features and {arms} arms");
    let advice = format!("--features {features} --arms {arms}`");
    let fits = |most_features: usize, most_arms: usize| features <= most_features && arms <= most_arms;
    if fits(MOST_FEATURES, MOST_ARMS) {
        return format!(
            "{asked} need other keys, since these are for {keys}: generate keys with `helba-keygen create {advice}"
        );
    }
    if fits(MOST_STAGED_FEATURES, MOST_STAGED_ARMS) {
        return format!(
            "{asked} are more than keys of one raise carry, which is {MOST_FEATURES} features and {MOST_ARMS} arms; these are for \
             {keys}: generate keys of stages with `helba-keygen create --exchanges staged {advice}"
        );
    }
    format!(
        "{asked} are more than any keys carry, which is {MOST_STAGED_FEATURES} features and {MOST_STAGED_ARMS} arms: offer fewer \
         arms, or make fewer features, as `project` in a schema does (docs/data.md)"
    )
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Config(_)
            | Error::OutOfRange(_)
            | Error::Shape { .. }
            | Error::Depth { .. }
            | Error::Slots { .. }
            | Error::Coefficients { .. } => Fault::Configuration,
            Error::ArmCount { .. }
            | Error::DecisionCount { .. }
            | Error::FeatureCount { .. }
            | Error::NoOpenArm
            | Error::ClosedArm { .. }
            | Error::NoArm { .. }
            | Error::NotANumber { .. }
            | Error::NormAboveBound { .. }
            | Error::NotErasable
            | Error::LoggedCount { .. }
            | Error::LoggedColumns { .. }
            | Error::NoLoggedRounds { .. }
            | Error::RewardOutOfRange => Fault::Value,
            Error::InRound { error, .. } => error.fault(),
            Error::StillLearning { .. } => Fault::Over,
            Error::UnknownDecision { .. } => Fault::Unknown,
        }
    }
}
