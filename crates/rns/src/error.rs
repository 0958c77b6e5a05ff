/// An error of modular arithmetic: there is no suitable prime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: the modulus is not a prime that this crate can compute with.
    #[error("{q} is not a prime of at most {max_bits} bits that is 1 modulo {two_n}; choose another modulus")]
    BadModulus {
        /// The modulus that was requested.
        q: u64,
        /// The largest bit size supported.
        max_bits: u32,
        /// Twice the ring degree.
        two_n: u64,
    },
    /// Capacity: no unused prime of this size is left.
    #[error(
        "there is no unused {bits}-bit prime that is 1 modulo {two_n}; choose another size or ring degree"
    )]
    NoPrime {
        /// The bit size that was requested.
        bits: u32,
        /// Twice the ring degree.
        two_n: u64,
    },
}
