use fault::Fault;

/// An operation, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Addition or subtraction.
    Add,
    /// Product of two ciphertexts.
    Mul,
    /// Product with a plaintext or constant.
    MulPlain,
    /// Division by the last prime.
    Rescale,
    /// Lowering the level.
    DropLevel,
    /// Rotation of the slots.
    Rotate,
    /// Complex conjugation of the slots.
    Conjugate,
    /// Linear transform of the slots.
    Linear,
    /// Encoding.
    Encode,
    /// Encryption.
    Encrypt,
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Op::Add => "add",
            Op::Mul => "mul",
            Op::MulPlain => "mul_plain",
            Op::Rescale => "rescale",
            Op::DropLevel => "drop_level",
            Op::Rotate => "rotate",
            Op::Conjugate => "conjugate",
            Op::Linear => "linear",
            Op::Encode => "encode",
            Op::Encrypt => "encrypt",
        })
    }
}

/// Why an operation was refused. No message holds a secret, a plaintext or a noise figure.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: these two operands can never be combined. Fix the call.
    #[error("{op}: scale 2^{left:.4} against 2^{right:.4}")]
    ScaleMismatch {
        /// The operation.
        op: Op,
        /// log₂ of the first scale.
        left: f64,
        /// log₂ of the second scale.
        right: f64,
    },
    /// Misuse: the operands are at different levels; bring them to one with `adjust`.
    #[error("{op}: level {left} against level {right}; adjust one of them")]
    LevelMismatch {
        /// The operation.
        op: Op,
        /// First level.
        left: usize,
        /// Second level.
        right: usize,
    },
    /// Capacity: the circuit is deeper than what is left. Refresh earlier, or take larger parameters.
    #[error("{op}: needs {need} levels, {have} left")]
    OutOfLevels {
        /// The operation.
        op: Op,
        /// Levels needed.
        need: usize,
        /// Levels left.
        have: usize,
    },
    /// Misuse: the number of slot values does not fit.
    #[error("{op}: {got} slot values, expected a power of two up to {max}")]
    SlotCount {
        /// The operation.
        op: Op,
        /// Values given.
        got: usize,
        /// Most that fit.
        max: usize,
    },
    /// Misuse: a value is not finite or too large for the scale.
    #[error("{op}: a value is not finite or does not fit at scale 2^{scale:.1}")]
    ValueRange {
        /// The operation.
        op: Op,
        /// log₂ of the scale.
        scale: f64,
    },
    /// Misuse: the key that this operation needs was not generated, or not up to this level.
    #[error(
        "{op}: no evaluation key for Galois element {element} at level {level}; make it with the key authority"
    )]
    MissingKey {
        /// The operation.
        op: Op,
        /// The element; 0 stands for relinearisation.
        element: u64,
        /// The level asked for.
        level: usize,
    },
    /// Misuse: a parameter set that cannot be.
    #[error("parameters refused: {0}")]
    BadParams(String),
    /// Misuse: parameters that do not offer the security they claim.
    #[error(
        "parameters refused: log2(QP) = {log_qp:.1} at N = 2^{log_n} where {claim} allows {allowed}; \
         take a larger ring or a smaller modulus"
    )]
    Insecure {
        /// log₂ of the ring degree.
        log_n: u32,
        /// Modulus bits asked for.
        log_qp: f64,
        /// Modulus bits allowed.
        allowed: u32,
        /// The security claimed.
        claim: &'static str,
    },
    /// Untrusted: not a frame of this format, or one cut short or too long. Answer 400, keep nothing.
    #[error("rejected: {0}")]
    BadFrame(&'static str),
    /// Untrusted: a format version this program does not read.
    #[error("rejected: format version {got}, this program reads version {want}; make it anew with this one")]
    Version {
        /// Version found.
        got: u16,
        /// Version supported.
        want: u16,
    },
    /// Untrusted: made under other parameters.
    #[error("rejected: made under parameters {got}, expected {want}")]
    WrongParams {
        /// Fingerprint found.
        got: String,
        /// Fingerprint expected.
        want: String,
    },
    /// Untrusted: made under another key.
    #[error("rejected: made under key {got}, expected {want}")]
    WrongKey {
        /// Key id found.
        got: String,
        /// Key id expected.
        want: String,
    },
    /// Untrusted: a limb holds a residue that is not below its prime.
    #[error("rejected: limb {limb} holds a residue that is not below its prime")]
    ResidueTooLarge {
        /// The limb.
        limb: usize,
    },
    /// Untrusted: a level or scale other than the one agreed.
    #[error(
        "rejected: level {got_level} and scale 2^{got_scale:.4}, expected level {want_level} and its scale"
    )]
    WrongLevel {
        /// Level found.
        got_level: usize,
        /// log₂ of the scale found.
        got_scale: f64,
        /// Level expected.
        want_level: usize,
    },
    /// Below the scheme.
    #[error(transparent)]
    Rns(#[from] rns::Error),
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::BadFrame(_) => Fault::Malformed,
            Error::Version { .. } => Fault::Version,
            Error::WrongParams { .. } => Fault::Parameters,
            Error::WrongKey { .. } => Fault::Key,
            Error::ResidueTooLarge { .. } => Fault::Residue,
            Error::WrongLevel { .. } => Fault::Level,
            Error::ScaleMismatch { .. }
            | Error::LevelMismatch { .. }
            | Error::OutOfLevels { .. }
            | Error::SlotCount { .. }
            | Error::ValueRange { .. }
            | Error::MissingKey { .. }
            | Error::BadParams(_)
            | Error::Insecure { .. }
            | Error::Rns(_) => Fault::Internal,
        }
    }
}
