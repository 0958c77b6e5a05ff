//! The one rule by which claims are judged: an estimate has an interval of three standard errors, and a claim
//! holds if the whole interval is on its side of the limit, does not hold if the whole interval is on the
//! other side, and is not decided otherwise.

use bandit::Summary;
use serde::Serialize;

/// Half of the width of an interval, in standard errors.
pub const ERRORS: f64 = 3.0;
/// Standard errors between an estimate and its limit with which another experiment of the same size decides
/// in four of five cases: [`ERRORS`] and the 80 % quantile of the normal distribution.
const POWER: f64 = ERRORS + 0.84;

/// An estimate with its interval. Both sides of a comparison enter it, seed by seed, since equal seeds draw
/// equal rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate; NaN if there is none.
    pub estimate: f64,
    /// Its standard error. 0 for numbers that do not depend on the seed.
    pub error: f64,
    low: f64,
    high: f64,
}

impl Interval {
    /// An estimate with a standard error.
    pub fn new(estimate: f64, error: f64) -> Self {
        Self { estimate, error, low: estimate - ERRORS * error, high: estimate + ERRORS * error }
    }

    /// The mean of one value a seed.
    pub fn of(values: &[f64]) -> Self {
        match Summary::of(values) {
            Some(Summary { mean, standard_error }) => Self::new(mean, standard_error),
            None => Self::new(f64::NAN, f64::NAN),
        }
    }

    /// The share of `n` runs that have a property, by the interval of Wilson (1927), which is not empty where
    /// all or none have it.
    pub fn share(with: usize, n: usize) -> Self {
        let (n, z2) = (n as f64, ERRORS * ERRORS);
        let p = with as f64 / n;
        let centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let half = ERRORS * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt() / (1.0 + z2 / n);
        Self { estimate: p, error: half / ERRORS, low: centre - half, high: centre + half }
    }

    /// Whether the estimated number is below `limit`.
    pub fn below(self, limit: f64) -> Decision {
        // With rounding, where nothing is random.
        let slack = 1e-9 * limit.abs();
        match self {
            _ if self.high <= limit + slack => Decision::Yes,
            _ if self.low > limit + slack => Decision::No,
            _ => Decision::Open((POWER * self.error / (self.estimate - limit)).powi(2)),
        }
    }

    /// Whether the estimated number is above `limit`.
    pub fn above(self, limit: f64) -> Decision {
        Self { estimate: -self.estimate, low: -self.high, high: -self.low, ..self }.below(-limit)
    }

    /// Whether the estimated number is within `half` of `centre`.
    pub fn within(self, centre: f64, half: f64) -> Decision {
        self.below(centre + half).and(self.above(centre - half))
    }
}

/// The answer of the runs to one comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// The interval is on the side of the claim.
    Yes,
    /// The interval is on the other side.
    No,
    /// The interval contains the limit. So many times as many runs would decide, if the estimate is right;
    /// NaN if it cannot be said.
    Open(f64),
}

impl Decision {
    /// Both: no if either is.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Open(a), Self::Open(b)) => {
                Self::Open(if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) })
            }
            (Self::Open(a), _) | (_, Self::Open(a)) => Self::Open(a),
            (Self::Yes, Self::Yes) => Self::Yes,
        }
    }

    /// The answer to the opposite question.
    pub fn opposite(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            open => open,
        }
    }

    /// At least one of them.
    pub fn any(decisions: impl IntoIterator<Item = Self>) -> Self {
        Self::all(decisions.into_iter().map(Self::opposite)).opposite()
    }

    /// More than half of them.
    pub fn most(decisions: &[Self]) -> Self {
        let count = |d: Self| 2 * decisions.iter().filter(|x| **x == d).count();
        match decisions.len() {
            n if count(Self::Yes) > n => Self::Yes,
            n if n > 0 && count(Self::No) >= n => Self::No,
            _ => Self::Open(f64::NAN),
        }
    }

    /// All of them; open if there are none, since nothing was compared.
    pub fn all(decisions: impl IntoIterator<Item = Self>) -> Self {
        decisions.into_iter().reduce(Self::and).unwrap_or(Self::Open(f64::NAN))
    }
}

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// These runs agree with the claim.
    Holds,
    /// These runs contradict the claim.
    DoesNotHold,
    /// So many runs do not decide.
    NotDecided,
    /// These runs are shortened, and judge no claim.
    NotTested,
}

impl Verdict {
    /// All verdicts, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Holds, Self::DoesNotHold, Self::NotDecided, Self::NotTested];

    /// The verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::NotDecided => "not decided by so many runs",
            Self::NotTested => "not tested at this length",
        }
    }
}

/// A claim, and the numbers found here.
#[derive(Debug, Clone, Serialize)]
pub struct Claim {
    /// The claim, with the limits by which it is judged.
    pub text: String,
    /// Whether a paper claims it, or this project.
    pub of_paper: bool,
    /// What stands in for the paper's data, if the data cannot be had.
    pub stand_in: Option<&'static str>,
    /// The result of an independent implementation.
    pub reference: String,
    /// The result of these runs.
    pub ours: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The number of runs that would decide with a probability of four fifths if these estimates are right.
    pub wanted: Option<u64>,
}

impl Claim {
    /// The verdict in words, with what it rests on.
    pub fn words(&self) -> String {
        let on = match (self.verdict, self.stand_in) {
            (Verdict::Holds | Verdict::DoesNotHold, Some(data)) => format!(", on {data}"),
            _ => String::new(),
        };
        let wanted = self.wanted.map_or(String::new(), |n| format!("; {n} would"));
        format!("{}{on}{wanted}", self.verdict.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_decide_or_do_not() {
        let at = Interval::new(10.0, 1.0);
        assert_eq!((at.below(13.1), at.above(13.1)), (Decision::Yes, Decision::No));
        assert_eq!((at.below(6.9), at.above(6.9)), (Decision::No, Decision::Yes));
        for limit in [7.1, 10.0, 12.9] {
            assert!(matches!((at.below(limit), at.above(limit)), (Decision::Open(_), Decision::Open(_))));
        }
        assert_eq!(at.within(10.0, 3.1), Decision::Yes);
        assert_eq!(at.within(20.0, 3.0), Decision::No);
        assert!(matches!(at.within(12.0, 3.0), Decision::Open(_)));
        // Nothing random: the limit itself is within.
        let exact = Interval::of(&[0.3, 0.3]);
        assert_eq!(
            (exact.below(0.3), exact.above(0.3), exact.above(0.31)),
            (Decision::Yes, Decision::Yes, Decision::No)
        );
        // One run has no error, and decides nothing; nor does none.
        for values in [&[1.0][..], &[]] {
            assert!(matches!(Interval::of(values).below(100.0), Decision::Open(n) if n.is_nan()));
        }
    }

    #[test]
    fn shares_are_never_certain() {
        assert!(matches!(Interval::share(20, 20).above(0.9), Decision::Open(_)));
        assert_eq!(Interval::share(100, 100).above(0.9), Decision::Yes);
        assert_eq!(Interval::share(50, 100).above(0.9), Decision::No);
        assert_eq!(Interval::share(0, 200).below(0.05), Decision::Yes);
        assert_eq!(Interval::share(9, 60).below(0.05), Decision::No);
    }

    #[test]
    fn one_no_is_enough() {
        use Decision::{No, Open, Yes};
        assert_eq!(Decision::all([Yes, Open(2.0), No]), No);
        assert_eq!(Decision::all([Yes, Open(2.0), Open(3.0)]), Open(3.0));
        assert_eq!(Decision::all([Yes, Yes]), Yes);
        assert!(matches!(Decision::all([]), Open(n) if n.is_nan()));
        assert_eq!((Decision::any([No, Yes, Open(1.0)]), Decision::any([No, No])), (Yes, No));
        assert_eq!(Decision::any([No, Open(2.0)]), Open(2.0));
        assert_eq!((Decision::most(&[Yes, Yes, No]), Decision::most(&[Yes, No])), (Yes, No));
        assert!(matches!(Decision::most(&[Yes, Yes, Open(1.0), No]), Open(_)));
        assert!(matches!(Decision::most(&[]), Open(_)));
    }

    /// So many runs as are asked for do decide, when the error has shrunk.
    #[test]
    fn more_runs_decide() {
        let Decision::Open(times) = Interval::new(10.0, 1.0).below(11.0) else { panic!() };
        assert!((14.0..16.0).contains(&times));
        assert_eq!(Interval::new(10.0, 1.0 / times.sqrt()).below(11.0), Decision::Yes);
    }
}
