use std::path::PathBuf;

/// Why no keys were made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a set without security, not asked for by name.
    #[error("the parameter set {params} offers no security: for tests only, and only with --toy")]
    Insecure {
        /// Its name.
        params: &'static str,
    },
    /// Misuse: keys must not be lost to a slip.
    #[error("{} exists already and is not overwritten: move it away, or choose another name", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be made.
    #[error("cannot write {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// No parameters carry this shape.
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
