use std::path::{Path, PathBuf};

/// The reason why nothing was sent, or why an answer cannot be used. No message contains a feature or a
/// reward.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a file of contexts that cannot be read.
    #[cfg(feature = "http")]
    #[error("the contexts cannot be read: {0}")]
    Csv(#[from] csv::Error),
    /// Misuse: contexts whose first line holds names.
    #[cfg(feature = "http")]
    #[error(
        "the first line of the contexts holds names: leave it out, since a file of contexts has a line of numbers for each arm and no \
         header"
    )]
    ContextsHeader,
    /// Misuse: a secret bundle that other users can read.
    #[error("other users can read {} (mode {mode:o}): run `chmod 600 {}`, and generate new keys if anyone may have read it", path.display(), path.display())]
    Permissions {
        /// The file.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
    },
    /// Misuse: a bundle of toy keys without `--toy`.
    #[error("{} holds a toy key, which protects nothing: use a bundle that was generated without --toy, or give --toy for tests", path.display())]
    Toy {
        /// The file.
        path: PathBuf,
    },
    /// Misuse: a request that only a holder of the bandit's secret keys can make or answer.
    #[error(
        "this device has a key of its own user, and this takes the bandit's secret keys, which its owner has"
    )]
    NoSecretKeys,
    /// Misuse: a user's secret and the bundle of another user.
    #[error(
        "the owner of the keys enrolled another user, or another key, in this bundle: take the one that was made of your request, and \
         compare its fingerprint"
    )]
    OtherUser,
    /// Capacity: the key has opened as many comparisons of the trace as its parameters bear.
    #[error(
        "{given} comparisons of the trace were opened under this key, which is the limit: generate new keys"
    )]
    OpeningsSpent {
        /// Their number.
        given: u64,
    },
    /// Misuse: a sealed bundle without its passphrase, or a passphrase for a bundle that is not sealed.
    #[error("{} {}", path.display(), if *sealed {
        "is sealed by a passphrase: give it with --passphrase-file"
    } else {
        "is not sealed: leave --passphrase-file out, or generate new keys with one"
    })]
    Sealed {
        /// The file.
        path: PathBuf,
        /// Whether it is sealed.
        sealed: bool,
    },
    /// The count of trace answers could not be stored, so that no answer was given and nothing was sent.
    #[error(
        "cannot store the count of trace answers in {}: {error}; make the file writable for its owner, or create the bandit with a public schedule", path.display()
    )]
    AnswerCount {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The count of repeats could not be stored, so that no decision was asked for again.
    #[error("cannot store the count of repeats in {}: {error}; make the file writable for its owner", path.display())]
    RepeatCount {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The operating system gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] host::NoRandomness),
    /// Untrusted: the committee of a server, or of a kept session, is not the one that was named.
    #[error(
        "the server or the session has the committee {got}, and {want} was named: ask the committee's members for its id, and \
         whoever runs the server for its address"
    )]
    OtherCommittee {
        /// The id of the committee there, in hexadecimal digits.
        got: String,
        /// The id that was named.
        want: String,
    },
    /// Misuse: a bandit that no committee computes.
    #[error("bandit {id} is computed by no committee: use it with keys, or without if it has a clear policy")]
    NoCommittee {
        /// The bandit.
        id: String,
    },
    /// Misuse: rounds of before for a bandit whose batches need the feedback of more sessions than one.
    #[error(
        "a batch of the bandit needs the feedback of {sessions} sessions, and rounds of before are all of this one, so that they would wait for those of others: create a bandit with 1 session a batch for them (--sessions 1)"
    )]
    OneSession {
        /// The least number of sessions of a batch.
        sessions: u16,
    },
    /// Misuse: rounds of before for a bandit that counts arms.
    #[error(
        "the bandit counts arms, and would count a round of before for the arm of its answer and not for the one that was played: create a bandit without counters for them (leave out --counters)"
    )]
    CountsArms,
    /// Misuse: a reward outside the range that the bandit was created for.
    #[error(
        "the reward is not from {low} to {high}, for which the bandit was created (--rewards): map it to that range, or create a bandit with a wider one"
    )]
    RewardRange {
        /// The least.
        low: f64,
        /// The largest.
        high: f64,
    },
    /// Capacity: the session may not decide again before a batch is learnt, for which feedback or members are
    /// missing.
    #[error(
        "the session has made {decisions} decisions since the last batch was learnt, which is the most, and {waiting} of {batch} feedbacks of the next one are there: go on when it is learnt, or create a bandit with at least {batch} decisions a session (--decisions)"
    )]
    BatchOpen {
        /// The most decisions of a session between two batches.
        decisions: u16,
        /// The feedbacks that wait for the end of the batch.
        waiting: u64,
        /// The feedbacks of the batch.
        batch: u64,
    },
    /// Misuse: a file without a session with a committee, where none can be begun.
    #[error(
        "{} has no session with a committee: give a file that has one, or the committee's id and a file that does not exist yet", path.display()
    )]
    NoSession {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// Misuse: no decision waits in this file. The file is deleted when the reward is counted.
    #[error("{} does not exist: `decide` writes it, and it is deleted when the reward is counted", path.display())]
    NoPending {
        /// The file.
        path: PathBuf,
    },
    /// Misuse: a decision waits in this file.
    #[error("{} exists: return the reward of its decision first, or choose another file with --pending", path.display())]
    PendingExists {
        /// The file.
        path: PathBuf,
    },
    /// Untrusted: a stored decision that cannot be read.
    #[error("{} is not a pending decision: give the file that `decide` of this version wrote", path.display())]
    BadPending {
        /// The file.
        path: PathBuf,
    },
    /// Untrusted: bytes that are no decision that a holder of this key sealed.
    #[error(
        "the bytes are no decision that was sealed under this key: use the secret bundle that sealed it, and the bytes unchanged"
    )]
    BadSealedDecision,
    /// Misuse: the bandit or the server has other keys or parameters.
    #[error(
        "the {what} is {got} on the server, but {want} in the bundle of the device: use the secret bundle that was generated with \
         the public bundle of the server"
    )]
    WrongKeys {
        /// The key id or the fingerprint.
        what: &'static str,
        /// The value of the bandit or the server.
        got: String,
        /// The value of the device.
        want: String,
    },
    /// Untrusted: a plan that does not follow from the configuration. Nothing is encrypted for such a server.
    #[error(
        "the plan of the server does not follow from the configuration of the bandit: client and server have different versions, or the server deviates from the protocol"
    )]
    PlanMismatch,
    /// Untrusted: a task that no server of this bandit has. Nothing was decrypted for it.
    #[error(
        "the server's task cannot be answered: {0}; the server deviates from the protocol, or has another version"
    )]
    BadTask(&'static str),
    /// Untrusted: text that is no id.
    #[error("an id must have 1 to 64 letters, digits, '-' or '_'")]
    BadId,
    /// Misuse: text that is no address of a server.
    #[error(transparent)]
    BadUrl(#[from] wire::BadAddress),
    /// Misuse: a file that is no list of certificates.
    #[error("{} is not a list of certificates in PEM", path.display())]
    BadCertificates {
        /// The file.
        path: PathBuf,
    },
    /// The server could not be reached, or its answer broke off. The same request may be sent again.
    #[error("no answer from {server}: {reason}")]
    Unreachable {
        /// The address of the server.
        server: String,
        /// The cause.
        reason: String,
    },
    /// The server refused the request.
    #[error("the server refused ({}, {}): {}", .0.status, .0.title, .0.detail)]
    Refused(wire::Problem),
    /// Untrusted: an answer that does not follow the protocol.
    #[error("the answer of the server cannot be used: {0}")]
    BadAnswer(String),
    /// From messages and bundles.
    #[error(transparent)]
    Wire(#[from] wire::Error),
    /// From the secret key.
    #[error(transparent)]
    Secret(#[from] ckks_secret::Error),
    /// From configuration and layout.
    #[error(transparent)]
    Protocol(#[from] protocol::Error),
    /// From ciphertexts.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
}

impl Error {
    /// A file that could not be read or written, or that other users can read.
    pub(crate) fn file(path: &Path, error: std::io::Error) -> Self {
        let path = path.to_owned();
        match error.get_ref().and_then(|inner| inner.downcast_ref::<host::ReadableByOthers>()) {
            Some(host::ReadableByOthers { mode, .. }) => Error::Permissions { path, mode: *mode },
            None => Error::Io { path, error },
        }
    }

    /// Whether the server has refused the request for this reason.
    #[cfg(feature = "http")]
    pub(crate) fn is_of(&self, kind: wire::ProblemType) -> bool {
        matches!(self, Error::Refused(problem) if problem.reason.as_deref() == Some(kind.reason()))
    }

    /// Whether the same request may be answered later: the server cannot be reached, has no place, or fails.
    pub fn is_temporary(&self) -> bool {
        match self {
            Error::Unreachable { .. } => true,
            Error::Refused(problem) => problem.status >= 500 || [408, 429].contains(&problem.status),
            _ => false,
        }
    }

    /// The refusal of a server with this status, whose phrase is `title`. `body` is its problem document;
    /// that of a proxy, or of another kind of server, may be anything else.
    pub fn refused(status: u16, title: &str, body: &[u8]) -> Self {
        Error::Refused(serde_json::from_slice(body).unwrap_or_else(|_| {
            let title = if title.is_empty() { "no problem document" } else { title };
            wire::Problem::new(
                status,
                title,
                "the answer has no problem document; check that the address is that of helba-server",
            )
        }))
    }
}
