//! Which exchanges a problem's keys are made for, where nobody says it.

use crate::plan::many;
use crate::{Error, Problem, Report, plan};
use protocol::{Exchanging, Updates};

/// The line between the server and those who ask for decisions and answer exchanges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Seconds of a round trip.
    pub round_trip: f64,
    /// Bytes a second to the server.
    pub up: f64,
    /// Bytes a second from the server.
    pub down: f64,
}

/// How often a decision asks a holder of the key: as somebody says, or as is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// What [`choose`] chooses.
    Auto,
    /// This.
    Only(Exchanging),
}

impl std::str::FromStr for Wanted {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Wanted::Auto),
            _ => text.parse().map(Wanted::Only).map_err(|_| "this must be one, staged or auto"),
        }
    }
}

/// The updates of keys for these exchanges, unless somebody says others.
pub fn default_updates(exchanges: Exchanging) -> Updates {
    match exchanges {
        Exchanging::One => Updates::Slots,
        Exchanging::Staged => Updates::Products,
    }
}

/// What is chosen, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The exchanges.
    pub exchanges: Exchanging,
    /// A sentence for whoever asked.
    pub why: String,
}

impl Report {
    /// The predicted seconds for which a user alone waits at the end of this line, where the holder of the
    /// key is too, and the server has two cores.
    pub fn waits(&self, line: &Line) -> f64 {
        let all = |way: usize| self.bytes_by_exchange.iter().map(|bytes| bytes[way]).sum::<u64>();
        let up = self.bytes("contexts") + all(1);
        let down = self.bytes("answer to a user alone") + all(0);
        let computed =
            self.seconds.iter().find(|s| s.threads == 2).map_or(f64::NAN, |s| s.decision() + s.holder);
        let trips = (1 + self.bytes_by_exchange.len()) as f64;
        computed + trips * line.round_trip + up as f64 / line.up + down as f64 / line.down
    }
}

/// Chooses between one raise and stages, whatever `problem` says of exchanges: that for which a user alone
/// waits less on this line, or the only one that carries the problem. Updates are those of
/// [`default_updates`], unless some are given.
///
/// # Errors
/// [`Error::Neither`], with both refusals.
pub fn choose(problem: Problem, updates: Option<Updates>, line: &Line) -> Result<Choice, Error> {
    let with = |exchanges| {
        let updates = updates.unwrap_or(default_updates(exchanges));
        plan(problem.with_keys(updates, exchanges))
    };
    let (exchanges, because) = match (with(Exchanging::One), with(Exchanging::Staged)) {
        (Ok(one), Ok(staged)) => {
            let waits = [&one, &staged].map(|report| report.waits(line));
            let times = |report: &Report| many(report.bytes_by_exchange.len() as u64, "exchange");
            let because = format!(
                "a user alone waits some {:.2} s with one raise and {:.2} s in stages of {}, at {:.0} ms a round trip, {:.0} Mbit/s up \
                 and {:.0} down",
                waits[0],
                waits[1],
                times(&staged),
                1e3 * line.round_trip,
                8e-6 * line.up,
                8e-6 * line.down
            );
            (if waits[1] < waits[0] { Exchanging::Staged } else { Exchanging::One }, because)
        }
        (Ok(_), Err(error)) => (Exchanging::One, format!("there are no stages: {error}")),
        (Err(error), Ok(_)) => (Exchanging::Staged, format!("one raise does not carry it: {error}")),
        (Err(one), Err(staged)) => return Err(Error::Neither { one: one.into(), staged: staged.into() }),
    };
    let why = match exchanges {
        Exchanging::One => format!("one raise, because {because}"),
        Exchanging::Staged => {
            format!("stages, because {because}; a raiser or a device with the scope `raise` must answer them")
        }
    };
    Ok(Choice { exchanges, why })
}
