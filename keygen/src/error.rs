use std::path::PathBuf;

/// The reason why no keys were generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a parameter set that claims less security than was asked for.
    #[error("the parameter set {params} claims {got} bits of security, {want} are asked for")]
    Insecure {
        /// The name of the set.
        params: &'static str,
        /// The bits that it claims.
        got: u32,
        /// The bits that were asked for.
        want: u32,
    },
    /// Misuse: a file exists, and is not overwritten, so that no key is lost by mistake.
    #[error("{} exists and is not overwritten: move it, or choose another name", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// Misuse: a key pair whose users share its keys.
    #[error("users share these keys, and are not enrolled: `helba-keygen create --keys own` makes others")]
    Shared,
    /// Misuse: bundles of two key pairs.
    #[error("the secret and the public bundle are not of one key pair")]
    OtherPair,
    /// Misuse: a sealed bundle without a passphrase, or a passphrase for one that is not sealed.
    #[error("{} is {}sealed: {} --passphrase-file", path.display(), if *sealed { "" } else { "not " }, if *sealed { "give" } else { "leave out" })]
    Sealed {
        /// The file.
        path: PathBuf,
        /// Whether it is sealed.
        sealed: bool,
    },
    /// No parameter set fits this shape.
    #[error(transparent)]
    Protocol(#[from] protocol::Error),
    /// From the parameters.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
    /// An error of the secret key or the passphrase.
    #[error(transparent)]
    Secret(#[from] ckks_secret::Error),
    /// From the bundles.
    #[error(transparent)]
    Wire(#[from] wire::Error),
}
