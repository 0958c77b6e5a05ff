use std::path::{Path, PathBuf};
use wire::ProblemType;

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
    /// Untrusted: a file that does not hold the random key of a device without a secret key.
    #[error(
        "{} is not the key of this device: restore it, or delete it if nothing that the device sealed is needed any more",
        path.display()
    )]
    LocalKey {
        /// The file.
        path: PathBuf,
    },
    /// The operating system gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] host::NoRandomness),
    /// Misuse: what only a secret key can do, of a device of a key committee.
    #[error("{0} takes a secret key, and a committee holds that of this device: its members do it")]
    NoSecret(&'static str),
    /// Misuse: the keys that follow those of a committee, or a memory, for a device with a secret key.
    #[error(
        "the device has a secret key: it follows no rotation of a committee, and has no memory; open the bundle without a memory, \
         and after a rotation get the secret bundle of the new keys"
    )]
    NotOfCommittee,
    /// Misuse: bytes that no device returned as its memory.
    #[error(
        "the bytes are not the memory of a device: open the bundle without them; decisions that it sealed are lost"
    )]
    BadMemory,
    /// Misuse: the memory of a device that went on with other keys than those of the bundle.
    #[error(
        "the memory is of key {memory}, and the bundle of key {now}: open the users' bundle of key {memory}, or this one without \
         the memory, which loses the decisions that are sealed"
    )]
    OtherMemory {
        /// The key of the memory.
        memory: String,
        /// The key of the bundle, or the last that follows it.
        now: String,
    },
    /// Misuse: a decision or a bandit of keys that a rotation of the committee has ended.
    #[error(
        "the bandit went on under key {now}, and this is of key {before}: a decision that was made before takes no feedback any \
         more; leave it out, look the bandit up again, and ask for a new decision"
    )]
    Rotated {
        /// The key before.
        before: String,
        /// The key of this device.
        now: String,
    },
    /// Misuse: a bandit that compares by bootstraps, and a bundle without their secret.
    #[error(
        "the bandit compares by bootstraps, and the secret bundle has no key for their answers: use the bundle that was generated \
         with the server's keys (`helba-keygen create --compare pbs`)"
    )]
    NoBootstraps,
    /// Misuse: contexts whose answer nobody could open.
    #[error(
        "the answer of a committee is sealed under a key of its request: ask with `BanditDevice::ask`, which keeps it"
    )]
    AnswerKey,
    /// Untrusted: a share of an answer that this member did not make for this request. Nothing was opened.
    #[error(
        "the share of member {member} is not for this request: {error}; ask again, and if it happens again, tell whoever \
         runs the server and the member"
    )]
    Share {
        /// The number of the member.
        member: u8,
        /// The cause.
        error: wire::Error,
    },
    /// Untrusted: shares that are those of another answer.
    #[error(transparent)]
    Shares(#[from] ckks_shares::Error),
    /// Untrusted: the server's committee on shares is none that was named.
    #[error(
        "the server has the committee {got}, and {want} was named: ask the committee's members for its id, and whoever runs the \
         server for its address"
    )]
    OtherCommittee {
        /// The id of the server's committee, in hexadecimal digits.
        got: String,
        /// The id that was named.
        want: String,
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
         the public bundle of the server; under a committee the users' bundle of its present keys, which a device needs anew when it \
         has missed a rotation"
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
    #[cfg(feature = "secret")]
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

    /// Whether the same request may be answered later: the server cannot be reached, has no place, fails, or
    /// waits until a batch is checked.
    pub fn is_temporary(&self) -> bool {
        match self {
            Error::Unreachable { .. } => true,
            Error::Refused(problem) => {
                let checked = problem.reason.as_deref() == Some(ProblemType::BeingChecked.reason());
                checked || problem.status >= 500 || [408, 429].contains(&problem.status)
            }
            _ => false,
        }
    }

    /// Whether the request may succeed with the keys that follow, because its error is one that a rotation of
    /// the committee causes.
    pub fn may_be_rotation(&self) -> bool {
        match self {
            Error::WrongKeys { .. } => true,
            Error::Refused(problem) => problem.reason.as_deref().is_some_and(Self::is_reason_of_rotation),
            _ => false,
        }
    }

    /// Whether a server refuses for this reason what is made with the keys before a rotation.
    pub fn is_reason_of_rotation(reason: &str) -> bool {
        [ProblemType::KeysOver, ProblemType::WrongKey].iter().any(|over| over.reason() == reason)
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
