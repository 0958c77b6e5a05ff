use fault::Fault;

/// The reason why a bandit refused an operation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// From the protocol: a configuration that does not fit these keys, or an unknown decision.
    #[error(transparent)]
    Protocol(#[from] protocol::Error),
    /// Untrusted: a ciphertext at another level than that of the plan.
    #[error("{what} is at level {got}, expected level {want}")]
    WrongLevel {
        /// The ciphertext.
        what: &'static str,
        /// Its level.
        got: usize,
        /// The level of the plan.
        want: usize,
    },
    /// Untrusted: a stored state that cannot be read.
    #[error("the stored state cannot be read: {0}")]
    BadState(String),
    /// Untrusted: an answer to a trace question that this bandit did not ask with this decision.
    #[error(
        "the feedback answers a trace question that was not asked with this decision: answer the question that came with it, or none"
    )]
    UnknownQuestion,
    /// Misuse: feedback or logged rounds for a bandit that does not learn now.
    #[error(
        "the bandit is frozen: it decides and does not learn, and nothing was counted. Its decisions wait on: send their feedback \
         again when it is thawed"
    )]
    Frozen,
    /// Misuse: an answer to a task that does not wait for one.
    #[error("task {task} does not wait for an answer: ask for tasks again")]
    TaskOver {
        /// The task.
        task: u64,
    },
    /// Bug: cannot happen. If you read this the library is wrong; please report it.
    #[error("broken invariant: {0}; please report this")]
    Broken(&'static str),
    /// From the circuits.
    #[error(transparent)]
    Circuit(#[from] circuits::Error),
    /// From the encrypted arithmetic.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Protocol(error) => error.fault(),
            Error::WrongLevel { .. } => Fault::Level,
            Error::UnknownQuestion => Fault::Value,
            Error::TaskOver { .. } | Error::Frozen => Fault::Over,
            Error::Ckks(error) | Error::Circuit(circuits::Error::Ckks(error)) => error.fault(),
            Error::BadState(_) | Error::Broken(_) | Error::Circuit(_) => Fault::Internal,
        }
    }
}
