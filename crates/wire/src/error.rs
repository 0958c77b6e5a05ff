use crate::BundleKind;
use fault::Fault;

/// The reason why bytes were refused, or could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Untrusted: more bytes than the message can have. Answer 413, and keep nothing.
    #[error("rejected: {what} has {got} bytes, and at most {limit} are accepted")]
    TooLong {
        /// The part of the message.
        what: &'static str,
        /// Its length.
        got: u64,
        /// The limit.
        limit: u64,
    },
    /// Untrusted: the bytes end within a part.
    #[error("rejected: the bytes end within {what}")]
    Truncated {
        /// The part of the message.
        what: &'static str,
    },
    /// Untrusted: bytes after the last part.
    #[error("rejected: {bytes} bytes follow the end")]
    Trailing {
        /// Their number, which is at most 2²⁰ for a bundle.
        bytes: usize,
    },
    /// Untrusted: bytes that are not such a message.
    #[error("rejected: {0}")]
    Malformed(&'static str),
    /// Misuse: a file without an access token.
    #[error("{} contains no access token, which is 64 hexadecimal digits: `helba-keygen token FILE` generates one", path.display())]
    TokenFile {
        /// The file.
        path: std::path::PathBuf,
    },
    /// Untrusted: a bundle of another version of the format, which older or newer programs write.
    #[error(
        "the bundle has format version {got}, this program reads version {want}: generate new keys with `helba-keygen create`; a committee makes its \
         own with `helba-member keygen`"
    )]
    BundleVersion {
        /// The version of the bundle.
        got: u16,
        /// The version of this program.
        want: u16,
    },
    /// Untrusted: a format version that this program does not read.
    #[error("{what} has format version {got}, this program reads version {want}")]
    Version {
        /// The message or the bundle.
        what: &'static str,
        /// The version of the bytes.
        got: u16,
        /// The version of this program.
        want: u16,
    },
    /// Misuse: a plan with a level that the parameters do not have.
    #[error("{what}: level {level} is above {max}, the highest level of the parameters")]
    Level {
        /// The ciphertext.
        what: &'static str,
        /// The level of the plan.
        level: usize,
        /// The highest level.
        max: usize,
    },
    /// Misuse: a bundle of the other kind.
    #[error("{}", wrong_bundle(*.want))]
    WrongBundle {
        /// The kind that is needed.
        want: BundleKind,
    },
    /// Untrusted: a manifest that cannot be read.
    #[error("the bundle's manifest cannot be read: {0}")]
    BadManifest(String),
    /// Untrusted: parameters that this version does not have.
    #[error(
        "the bundle has the parameters {got}, and this version has {known}: generate new keys with `helba-keygen create`"
    )]
    UnknownParams {
        /// The name in the manifest.
        got: String,
        /// The names of this version.
        known: String,
    },
    /// Untrusted: a manifest that contradicts the parameters or the keys beside it.
    #[error(
        "the bundle is inconsistent: {field} is {got} in its manifest, but {want} by its content; generate new keys with `helba-keygen create`"
    )]
    Manifest {
        /// The field.
        field: String,
        /// The value in the manifest.
        got: String,
        /// The value that follows from the content.
        want: String,
    },
    /// Misuse: the bundle lacks a key that its shape needs.
    #[error("the bundle has no {what} for level {level}: generate new keys with `helba-keygen create`")]
    MissingKey {
        /// The key.
        what: String,
        /// The level that the key must reach.
        level: usize,
    },
    /// Misuse: the number of frames differs from that in the manifest.
    #[error("the manifest states {want} frames, but {got} were written")]
    FrameCount {
        /// The number of frames written.
        got: u32,
        /// The number in the manifest.
        want: u32,
    },
    /// A file or stream failed.
    #[error("{what}: {error}")]
    Io {
        /// The operation and its file.
        what: String,
        /// The cause.
        error: std::io::Error,
    },
    /// A ciphertext or key was refused.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
    /// A shape has no parameters.
    #[error(transparent)]
    Protocol(#[from] protocol::Error),
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::TooLong { .. } => Fault::TooLong,
            Error::Truncated { .. } | Error::Trailing { .. } | Error::Malformed(_) => Fault::Malformed,
            Error::Version { .. } | Error::BundleVersion { .. } => Fault::Version,
            Error::Ckks(error) => error.fault(),
            Error::Protocol(error) => error.fault(),
            Error::Level { .. }
            | Error::WrongBundle { .. }
            | Error::BadManifest(_)
            | Error::UnknownParams { .. }
            | Error::Manifest { .. }
            | Error::MissingKey { .. }
            | Error::FrameCount { .. }
            | Error::TokenFile { .. }
            | Error::Io { .. } => Fault::Internal,
        }
    }
}

fn wrong_bundle(want: BundleKind) -> &'static str {
    match want {
        BundleKind::Public => {
            "this is a bundle with secrets, and a public one is needed: give the file that `helba-keygen create --public` wrote, \
             and keep the others away from servers"
        }
        BundleKind::Secret => {
            "this is no secret bundle, and one is needed: give the file that `helba-keygen create --secret` wrote"
        }
    }
}
