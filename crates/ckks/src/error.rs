use fault::Fault;

/// An operation, as it is named in error messages.
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
    /// Dropping to a lower level.
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
    /// Packing of coefficients.
    Pack,
    /// Splitting into ciphertexts of a smaller ring.
    SwitchRing,
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
            Op::Pack => "pack",
            Op::SwitchRing => "switch_ring",
        })
    }
}

/// The reason why an operation was refused. No message contains a secret, a plaintext or a noise figure.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: the two operands have different scales and cannot be combined. Fix the call.
    #[error("{op}: the scales 2^{left:.4} and 2^{right:.4} differ; adjust one operand")]
    ScaleMismatch {
        /// The operation.
        op: Op,
        /// log₂ of the scale of the first operand.
        left: f64,
        /// log₂ of the scale of the second operand.
        right: f64,
    },
    /// Misuse: the operands are at different levels. Bring them to one level with `adjust`.
    #[error("{op}: the levels {left} and {right} differ; adjust one operand")]
    LevelMismatch {
        /// The operation.
        op: Op,
        /// Level of the first operand.
        left: usize,
        /// Level of the second operand.
        right: usize,
    },
    /// Capacity: the operation needs more levels than the operand has. Refresh earlier, or take deeper
    /// parameters.
    #[error("{op}: {need} levels are needed, but the operand has {have}")]
    OutOfLevels {
        /// The operation.
        op: Op,
        /// Levels needed.
        need: usize,
        /// Levels left.
        have: usize,
    },
    /// Misuse: the number of slot values is not a power of two that fits the ring.
    #[error("{op}: {got} slot values were given; the number must be a power of two up to {max}")]
    SlotCount {
        /// The operation.
        op: Op,
        /// Number of values given.
        got: usize,
        /// Largest number of values.
        max: usize,
    },
    /// Misuse: there are more coefficients than the ring has.
    #[error("encode: {got} coefficients were given; the ring has {max}")]
    CoefficientCount {
        /// Number of coefficients given.
        got: usize,
        /// The ring degree N.
        max: usize,
    },
    /// Misuse: an exchange has another number of ciphertexts.
    #[error("exchange: there are {got} ciphertexts; it must be {want}")]
    CiphertextCount {
        /// Number of ciphertexts given.
        got: usize,
        /// The number of ciphertexts of that side.
        want: usize,
    },
    /// Misuse: the distance of the useful coefficients is not a power of two that fits the ring.
    #[error("pack: the gap is {got}; it must be a power of two from 2 to {max}")]
    PackGap {
        /// Gap given.
        got: usize,
        /// Largest gap.
        max: usize,
    },
    /// Misuse: there is no ring switch of that many parts between these rings.
    #[error(
        "switch_ring: {got} parts or keys were given; the degree of the large ring is {want} times that of the small one"
    )]
    RingParts {
        /// Number given.
        got: usize,
        /// r = N/N'.
        want: usize,
    },
    /// Capacity: the pack holds as many ciphertexts as its gap allows. Begin another.
    #[error("pack: it is full with {capacity} ciphertexts; begin another")]
    PackFull {
        /// The number that fit.
        capacity: usize,
    },
    /// Misuse: a value is not finite, or too large for the scale.
    #[error("{op}: a value is not finite, or too large for the scale 2^{scale:.1}")]
    ValueRange {
        /// The operation.
        op: Op,
        /// log₂ of the scale.
        scale: f64,
    },
    /// Misuse: the key that this operation needs was not generated, or only for lower levels.
    #[error(
        "{op}: there is no evaluation key for Galois element {element} at level {level}; generate it with the secret key"
    )]
    MissingKey {
        /// The operation.
        op: Op,
        /// The element; 0 stands for relinearisation, and a ring switch counts its keys from 0.
        element: u64,
        /// The level of the operation.
        level: usize,
    },
    /// Misuse: a number of the parameter set is out of its range.
    #[error("parameters refused: {0}")]
    BadParams(String),
    /// Misuse: the parameters do not have the security that they claim.
    #[error(
        "parameters refused: log2(QP) = {log_qp:.1} at N = 2^{log_n} where {claim} allows {allowed}; \
         take a larger ring or a smaller modulus"
    )]
    Insecure {
        /// log₂ of the ring degree.
        log_n: u32,
        /// log₂(QP) of the set.
        log_qp: f64,
        /// Largest log₂(QP) allowed.
        allowed: u32,
        /// The security claimed.
        claim: &'static str,
    },
    /// Untrusted: the bytes are not a frame of this format, or are truncated or too long. Answer 400, keep
    /// nothing.
    #[error("rejected: {0}")]
    BadFrame(&'static str),
    /// Untrusted: the frame has a format version that this program does not read.
    #[error(
        "rejected: format version {got}, but this program reads version {want}; generate it again with this program"
    )]
    Version {
        /// Version found.
        got: u16,
        /// Version supported.
        want: u16,
    },
    /// Untrusted: the frame belongs to other parameters.
    #[error("rejected: made under parameters {got}, expected {want}")]
    WrongParams {
        /// Fingerprint found.
        got: String,
        /// Fingerprint expected.
        want: String,
    },
    /// Untrusted: the frame belongs to another key.
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
    /// Untrusted: the ciphertext has another level or scale than expected.
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
    /// An error of the modular arithmetic.
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
            | Error::CoefficientCount { .. }
            | Error::CiphertextCount { .. }
            | Error::PackGap { .. }
            | Error::PackFull { .. }
            | Error::RingParts { .. }
            | Error::ValueRange { .. }
            | Error::MissingKey { .. }
            | Error::BadParams(_)
            | Error::Insecure { .. }
            | Error::Rns(_) => Fault::Internal,
        }
    }
}
