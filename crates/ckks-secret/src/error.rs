/// What can go wrong with secrets in hand. No message tells anything of them.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// From the public half.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
    /// Untrusted: bytes that are not a secret key.
    #[error("not a secret key: {0}")]
    BadSecretKey(&'static str),
    /// Misuse: a passphrase that cannot be one.
    #[error("the passphrase cannot be used: {0}")]
    BadPassphrase(&'static str),
    /// Untrusted: bytes that are not a sealed file.
    #[error("not a sealed secret bundle: {0}")]
    BadSealed(&'static str),
    /// Misuse: the passphrase is not the one that the file was sealed with, or the file is damaged.
    #[error("the passphrase does not open this secret bundle, or the file is damaged")]
    WrongPassphrase,
    /// Capacity: a ciphertext at too low a level to be masked safely.
    #[error("a masked value needs {need} bits of modulus, level {level} has {have:.0}")]
    TooLow {
        /// Bits needed.
        need: u32,
        /// The level.
        level: usize,
        /// Bits there.
        have: f64,
    },
}
