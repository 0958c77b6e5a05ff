use ckks::KeyId;
use fault::Fault;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Untrusted: the bytes are not such keys.
    #[error("bootstrapping keys refused: {0}; make new ones with the key pair of the ring of scores")]
    BadKeys(&'static str),
    /// Untrusted: the bytes have another length.
    #[error("{what}: {got} bytes found, {want} expected")]
    Length {
        /// What was read.
        what: &'static str,
        /// Bytes found.
        got: usize,
        /// Bytes expected.
        want: usize,
    },
    /// Configuration: CKKS keys and TFHE keys of different generations.
    #[error(
        "the bootstrapping keys {tfhe} switch from the CKKS key pair {switched}, and the loaded CKKS key pair is \
         {loaded}: load the two that were generated together"
    )]
    Generation {
        /// The fingerprint of the TFHE keys.
        tfhe: KeyId,
        /// The fingerprint of the CKKS key pair that they were made for.
        switched: KeyId,
        /// The fingerprint of the CKKS key pair that is loaded.
        loaded: KeyId,
    },
    /// Configuration: other keys than those that the bundle states.
    #[error(
        "the bundle states the bootstrapping keys {want} for the CKKS key pair {switched}, and has the keys {got}: load the two that \
         were generated together"
    )]
    OtherKeys {
        /// The fingerprint of the keys.
        got: KeyId,
        /// The fingerprint that is stated.
        want: KeyId,
        /// The fingerprint of the CKKS key pair.
        switched: KeyId,
    },
    /// Configuration: a number of arms that one threshold bootstrap does not carry.
    #[error("{got} arms: an argmax by bootstrapping takes 2 to {most}")]
    Arms {
        /// Arms asked for.
        got: usize,
        /// The most.
        most: usize,
    },
    /// Configuration: numbers of the index that do not fit on the torus.
    #[error("index of a bandit: {0}")]
    Formula(String),
    /// Misuse: a ciphertext of another ring than the keys switch from, or without room for the scores.
    #[error("scores: {0}")]
    Scores(String),
}

impl Error {
    /// Who is at fault.
    pub fn fault(&self) -> Fault {
        match self {
            Error::BadKeys(_) | Error::Length { .. } => Fault::Malformed,
            Error::Generation { .. } | Error::OtherKeys { .. } => Fault::Key,
            Error::Arms { .. } | Error::Formula(_) => Fault::Configuration,
            Error::Scores(_) => Fault::Internal,
        }
    }
}
