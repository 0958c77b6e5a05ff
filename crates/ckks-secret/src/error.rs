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
