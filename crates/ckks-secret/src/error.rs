/// An error of an operation with secrets. No message contains a secret.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the public half of the scheme.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
    /// Untrusted: the bytes are not a secret key.
    #[error("not a secret key: {0}")]
    BadSecretKey(&'static str),
    /// Misuse: the passphrase is empty, or its file cannot be used.
    #[error("the passphrase cannot be used: {0}")]
    BadPassphrase(&'static str),
    /// Untrusted: the bytes are not a sealed file.
    #[error("not a sealed secret bundle: {0}")]
    BadSealed(&'static str),
    /// Misuse: the file was sealed with another passphrase, or is damaged.
    #[error("the passphrase does not open this secret bundle, or the file is damaged")]
    WrongPassphrase,
    /// Capacity: the level of the ciphertext is too low for a mask that hides its message.
    #[error(
        "a masked value needs a modulus of {need} bits, but level {level} has {have:.0}; mask it at a higher level"
    )]
    TooLow {
        /// Bits of modulus that are needed.
        need: u32,
        /// The level of the ciphertext.
        level: usize,
        /// Bits of modulus at that level.
        have: f64,
    },
}
