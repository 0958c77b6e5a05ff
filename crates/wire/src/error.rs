use crate::BundleKind;
use fault::Fault;

/// Why bytes were refused, or could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Untrusted: more bytes than the message can have. Answer 413, keep nothing.
    #[error("rejected: {what} of {got} bytes, at most {limit} are accepted")]
    TooLong {
        /// Which part.
        what: &'static str,
        /// Its length.
        got: u64,
        /// The limit.
        limit: u64,
    },
    /// Untrusted: the bytes end within a part.
    #[error("rejected: the bytes end within {what}")]
    Truncated {
        /// Which part.
        what: &'static str,
    },
    /// Untrusted: bytes after the last part.
    #[error("rejected: {bytes} bytes after the end")]
    Trailing {
        /// How many; after a bundle they are counted up to 2²⁰.
        bytes: usize,
    },
    /// Untrusted: not what it should be.
    #[error("rejected: {0}")]
    Malformed(&'static str),
    /// Misuse: a file without an access token.
    #[error("{} holds no access token, which is 64 hexadecimal digits: `helba-keygen token FILE` makes one", path.display())]
    TokenFile {
        /// The file.
        path: std::path::PathBuf,
    },
    /// Untrusted: a format version this program does not read.
    #[error("{what} has format version {got}, this program reads version {want}")]
    Version {
        /// Message or bundle.
        what: &'static str,
        /// Version found.
        got: u16,
        /// Version supported.
        want: u16,
    },
    /// Misuse: a plan with a level that the parameters do not have.
    #[error("{what}: level {level}, the parameters end at {max}")]
    Level {
        /// Which ciphertext.
        what: &'static str,
        /// Its level.
        level: usize,
        /// The highest level.
        max: usize,
    },
    /// Misuse: a bundle of the other kind.
    #[error("{}", wrong_bundle(*.want))]
    WrongBundle {
        /// The kind wanted; the other one was found.
        want: BundleKind,
    },
    /// Untrusted: a manifest that cannot be read.
    #[error("the bundle's manifest cannot be read: {0}")]
    BadManifest(String),
    /// Untrusted: parameters that this version does not have.
    #[error(
        "the bundle is for parameters {got}, this version has {known}: make it anew with `helba-keygen create`"
    )]
    UnknownParams {
        /// The name in the manifest.
        got: String,
        /// Names there are.
        known: String,
    },
    /// Untrusted: a manifest that contradicts the parameters or the keys beside it.
    #[error(
        "the bundle contradicts itself: {field} is {got} in its manifest, {want} by its content; make it anew with `helba-keygen create`"
    )]
    Manifest {
        /// Which field.
        field: &'static str,
        /// In the manifest.
        got: String,
        /// As it must be.
        want: String,
    },
    /// Misuse: the bundle lacks a key that its shape needs.
    #[error("the bundle has no {what} up to level {level}: make it anew with `helba-keygen create`")]
    MissingKey {
        /// Which key.
        what: String,
        /// The level it must reach.
        level: usize,
    },
    /// Misuse of a writer: frames announced and frames written differ.
    #[error("a bundle of {want} frames, {got} were written")]
    FrameCount {
        /// Written.
        got: u32,
        /// Announced in the manifest.
        want: u32,
    },
    /// A file or stream failed.
    #[error("{what}: {error}")]
    Io {
        /// Which file or part.
        what: String,
        /// Why.
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
            Error::Version { .. } => Fault::Version,
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
            "this is a secret bundle, a public one is needed: pass the file that `helba-keygen create --public` wrote, \
             and keep the secret one away from servers"
        }
        BundleKind::Secret => {
            "this is a public bundle, a secret one is needed: pass the file that `helba-keygen create --secret` wrote"
        }
    }
}
