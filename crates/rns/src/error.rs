/// What can go wrong below the scheme.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: not a prime this crate computes with.
    #[error("{q} is not a prime of at most {max_bits} bits that is 1 modulo {two_n}: choose another modulus")]
    BadModulus {
        /// The modulus asked for.
        q: u64,
        /// The largest bit size supported.
        max_bits: u32,
        /// Twice the ring degree.
        two_n: u64,
    },
    /// Capacity: no unused prime is left of that size.
    #[error("no unused {bits}-bit prime that is 1 modulo {two_n}: choose another size or ring degree")]
    NoPrime {
        /// Bit size asked for.
        bits: u32,
        /// Twice the ring degree.
        two_n: u64,
    },
}
