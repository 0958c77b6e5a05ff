/// What can go wrong in a circuit. Messages name shapes and levels, never values of encrypted data.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Capacity: the circuit is deeper than what is left. Refresh earlier, or take larger parameters.
    #[error("{op}: needs level {need}, the operand is at level {have}")]
    OutOfLevels {
        /// The operation that was refused.
        op: &'static str,
        /// Levels the operation needs.
        need: usize,
        /// Levels the operand has.
        have: usize,
    },
    /// Misuse: a vector, plaintext or layout has a length that does not fit.
    #[error("{op}: length {got} does not fit, expected {want}")]
    SlotCount {
        /// The operation that was refused.
        op: &'static str,
        /// The length given.
        got: usize,
        /// The length (or the multiple, or divisor, as the operation documents) wanted.
        want: usize,
    },
    /// Misuse: a public parameter is outside the range where the circuit works.
    #[error("{what}: {value} is outside [{low}, {high}]")]
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
    /// Misuse: a polynomial of this degree cannot be built or evaluated.
    #[error("{op}: degree {got} is not supported (largest {max})")]
    Degree {
        /// The operation that was refused.
        op: &'static str,
        /// The degree given.
        got: usize,
        /// The largest degree.
        max: usize,
    },
    /// Misuse: a list that must hold something is empty.
    #[error("{op}: nothing to combine")]
    Empty {
        /// The operation that was refused.
        op: &'static str,
    },
    /// Capacity: the exchange algorithm found no best approximation in f64 for these parameters.
    #[error("minimax approximation of degree {degree} on [{low}, {high}] did not converge")]
    NoConvergence {
        /// Degree asked for.
        degree: usize,
        /// Lower end of the interval.
        low: f64,
        /// Upper end of the interval.
        high: f64,
    },
}

/// Refuses `value` outside `[low, high]`, and NaN.
pub(crate) fn in_range(what: &'static str, value: f64, low: f64, high: f64) -> Result<(), Error> {
    if value >= low && value <= high { Ok(()) } else { Err(Error::Range { what, value, low, high }) }
}

/// Refuses an operand with fewer than `need` levels.
pub(crate) fn has_levels(op: &'static str, have: usize, need: usize) -> Result<(), Error> {
    if have >= need { Ok(()) } else { Err(Error::OutOfLevels { op, need, have }) }
}

/// Refuses a count that is not a power of two of at least `smallest`.
pub(crate) fn power_of_two(op: &'static str, got: usize, smallest: usize) -> Result<(), Error> {
    let want = got.checked_next_power_of_two().unwrap_or(usize::MAX).max(smallest);
    if got == want { Ok(()) } else { Err(Error::SlotCount { op, got, want }) }
}
