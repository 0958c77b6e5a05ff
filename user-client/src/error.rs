use std::path::PathBuf;

/// Why nothing was sent, or what the server said. No message holds a feature or a reward.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a file of contexts that cannot be read.
    #[error("the contexts cannot be read: {0}")]
    Csv(#[from] csv::Error),
    /// Misuse: a secret key that others can read.
    #[error("{} can be read by others (mode {mode:o}): run `chmod 600 {}`, and make new keys if it was not yours alone", path.display(), path.display())]
    Permissions {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Misuse: a bundle of toy keys without `--toy`.
    #[error("{} holds a toy key, which protects nothing: take a bundle made without --toy, or give --toy to test with it", path.display())]
    Toy {
        /// The file.
        path: PathBuf,
    },
    /// Misuse: a sealed bundle without its passphrase, or a passphrase for a bundle that is not sealed.
    #[error("{} {}", path.display(), if *sealed {
        "is sealed by a passphrase: give it with --passphrase-file"
    } else {
        "is not sealed: leave --passphrase-file out, or make keys anew with one"
    })]
    Sealed {
        /// The file.
        path: PathBuf,
        /// Whether it is sealed.
        sealed: bool,
    },
    /// The count of trace answers could not be kept, so none was given. Nothing was sent.
    #[error(
        "cannot keep the count of trace answers in {}: {error}; make it writable for its owner, or create the bandit with a public schedule", path.display()
    )]
    AnswerCount {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// There is no such decision: its file goes when its reward is counted.
    #[error("there is no {}: `decide` makes it, and it goes when its reward has been counted", path.display())]
    NoPending {
        /// The file.
        path: PathBuf,
    },
    /// Misuse: a decision still waits in that file.
    #[error("{} exists already: give feedback for that decision first, or choose another file with --pending", path.display())]
    PendingExists {
        /// The file.
        path: PathBuf,
    },
    /// Untrusted: a stored decision that cannot be read.
    #[error("{} is not a pending decision", path.display())]
    BadPending {
        /// The file.
        path: PathBuf,
    },
    /// Misuse: the bandit learns under other keys or parameters.
    #[error(
        "this bandit's {what} is {got}, the secret key's is {want}: take the secret bundle that belongs to it"
    )]
    WrongKeys {
        /// Key id or fingerprint.
        what: &'static str,
        /// The bandit's.
        got: String,
        /// The device's.
        want: String,
    },
    /// Untrusted: a plan that does not follow from the configuration. Nothing is encrypted for such a server.
    #[error(
        "the server's plan is not the one that follows from the bandit's configuration: client and server differ in version, or the server is not honest"
    )]
    PlanMismatch,
    /// Untrusted: an id that cannot be one.
    #[error("not an id: at most 64 letters, digits, '-' or '_' are accepted")]
    BadId,
    /// Misuse: an address that cannot be reached this way.
    #[error(
        "{url}: give the server as https://HOST:PORT, or as http://HOST:PORT where a proxy or a cable keeps the line private"
    )]
    BadUrl {
        /// As given.
        url: String,
    },
    /// Misuse: a file that holds something else than certificates.
    #[error("{} is not a list of certificates in PEM", path.display())]
    BadCertificates {
        /// The file.
        path: PathBuf,
    },
    /// The server was not reached, or the answer broke off. The same request may be sent again.
    #[error("no answer from {server}: {reason}")]
    Unreachable {
        /// Its address.
        server: String,
        /// Why.
        reason: String,
    },
    /// The server refused.
    #[error("the server refused ({}, {}): {}", .0.status, .0.title, .0.detail)]
    Refused(wire::Problem),
    /// Untrusted: an answer that is not what the protocol says.
    #[error("the server's answer makes no sense: {0}")]
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
