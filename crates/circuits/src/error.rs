/// An error of a circuit, or of the ciphertexts that it runs on. Messages contain shapes and levels, and
/// never values of encrypted data.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Capacity: the circuit needs more levels than the operand has. Refresh earlier, or take deeper
    /// parameters.
    #[error("{op}: an operand at level {need} or above is needed, but it is at level {have}")]
    OutOfLevels {
        /// The operation that was refused.
        op: &'static str,
        /// Levels the operation needs.
        need: usize,
        /// Levels the operand has.
        have: usize,
    },
    /// Misuse: a vector, plaintext or layout has the wrong length.
    #[error("{op}: length {got} does not fit, expected {want}")]
    SlotCount {
        /// The operation that was refused.
        op: &'static str,
        /// The length given.
        got: usize,
        /// The expected length, or a multiple or divisor of it, as the operation documents.
        want: usize,
    },
    /// Misuse: a public parameter is outside the range for which the circuit works.
    #[error("{what} {value} is outside [{low}, {high}]")]
    Range {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: f64,
        /// Smallest value allowed.
        low: f64,
        /// Largest value allowed.
        high: f64,
    },
    /// Misuse: a polynomial of this degree is not supported.
    #[error("{op}: degree {got} is not supported; the largest degree is {max}")]
    Degree {
        /// The operation that was refused.
        op: &'static str,
        /// The degree given.
        got: usize,
        /// The largest degree.
        max: usize,
    },
    /// Misuse: a list that must not be empty is empty.
    #[error("{op}: there are no terms")]
    Empty {
        /// The operation that was refused.
        op: &'static str,
    },
    /// Misuse: baby and giant steps of a linear transform do not add up to one of its offsets.
    #[error("linear transform: no baby step and number of giant steps add up to the offset {offset}")]
    Steps {
        /// The offset.
        offset: i64,
    },
    /// Capacity: the exchange algorithm did not converge to a best approximation in f64.
    #[error(
        "the minimax approximation of degree {degree} on [{low}, {high}] did not converge; take a lower degree or a wider gap"
    )]
    NoConvergence {
        /// The degree of the polynomial.
        degree: usize,
        /// Lower end of the interval.
        low: f64,
        /// Upper end of the interval.
        high: f64,
    },
    /// The exchange of a raise ended without an answer of the holder of the key.
    #[error("a vector was not raised: {why}")]
    NotRaised {
        /// The reason.
        why: &'static str,
    },
    /// An operation on ciphertexts failed.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
}

/// Refuses `value` outside `[low, high]`, and NaN.
pub(crate) fn in_range(what: &'static str, value: f64, low: f64, high: f64) -> Result<(), Error> {
    if value >= low && value <= high { Ok(()) } else { Err(Error::Range { what, value, low, high }) }
}

/// Refuses an operand with fewer than `need` levels.
pub(crate) fn has_levels(op: &'static str, have: usize, need: usize) -> Result<(), Error> {
    if have >= need { Ok(()) } else { Err(Error::OutOfLevels { op, need, have }) }
}

/// Refuses a length that does not divide the number of slots.
pub(crate) fn divides(op: &'static str, got: usize, slots: usize) -> Result<(), Error> {
    let fits = got > 0 && slots.is_multiple_of(got);
    if fits { Ok(()) } else { Err(Error::SlotCount { op, got, want: slots }) }
}

/// Refuses a count that is not a power of two of at least `smallest`.
pub(crate) fn power_of_two(op: &'static str, got: usize, smallest: usize) -> Result<(), Error> {
    let want = got.checked_next_power_of_two().unwrap_or(usize::MAX).max(smallest);
    if got == want { Ok(()) } else { Err(Error::SlotCount { op, got, want }) }
}
