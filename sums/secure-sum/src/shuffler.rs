//! The shuffler: takes the bits of a batch's users, and lets out how many of them are ones.

use crate::Error;
use crate::share::ReportId;
use std::collections::BTreeSet;
use wire::ShuffledBatch;

/// Labels of one user at most: more than the metric of 64 features has entries.
pub const MAX_LABELS: usize = 1 << 12;
/// Users of a batch at most; some 100 bytes each.
const MAX_USERS: u64 = 1 << 22;

/// What a bandit told its users of an exchange, as [`Awaiting::told`](crate::Awaiting::told) sums it up.
pub type Told = [u8; 16];

/// What a bandit waits for: the same of every user, since one who sent more than others would stand out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of the bandit's exchange.
    pub exchange: u64,
    /// Users of the batch, neither more nor fewer: their noise would be too small.
    pub users: u64,
    /// Labels.
    pub labels: usize,
    /// Bits that each user sends of each label.
    pub bits: u64,
    /// What the bandit told the shuffler, and must have told every user: their noise is sized for each other's.
    pub told: Told,
}

/// The state of a shuffler, in memory: one batch at a time, that of the exchange which its bandit waits for.
///
/// Bits of one label, all users' in random order, tell no more than how many are ones. So nothing is put in order here and
/// permuted: a user sends for each label the number of ones among its bits, and the numbers are added up on arrival.
///
/// It sees who sends how many ones, and a single user's number holds little noise: it must not collude with the server, and
/// is trusted not to look. It keeps no number, nor a digest that is one for whoever tries all: of each user the random id is held
/// until the batch is whole.
#[derive(Debug, Default)]
pub struct Shuffler {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Taking {
        shape: Shape,
        seen: BTreeSet<ReportId>,
        ones: Vec<u64>,
    },
    /// All users have answered; `handing` while somebody brings it to the server.
    Whole {
        batch: ShuffledBatch,
        handing: bool,
    },
    Handed {
        exchange: u64,
    },
}

impl Shuffler {
    const fn exchange(&self) -> Option<u64> {
        match &self.state {
            State::Idle => None,
            State::Taking { shape, .. } => Some(shape.exchange),
            State::Whole { batch, .. } => Some(batch.exchange),
            State::Handed { exchange } => Some(*exchange),
        }
    }

    /// Whether the exchange is the newest or one before it, so that the bandit need not be asked about it.
    pub fn knows(&self, exchange: u64) -> bool {
        self.exchange().is_some_and(|newest| exchange <= newest)
    }

    /// Takes bits for an exchange that the bandit waits for, and forgets the one before, for which it waits no more.
    /// Nothing changes if it, or a later one, is known.
    ///
    /// # Errors
    /// [`Error::Full`] for more users or labels than it carries, [`Error::Field`] for a shape without users, labels or bits.
    pub fn begin(&mut self, shape: Shape) -> Result<(), Error> {
        let Shape { exchange, users, labels, bits, .. } = shape;
        for (field, got) in [("users", users), ("labels", labels as u64), ("bits", bits)] {
            if got == 0 {
                return Err(Error::Field { field, got: 0.0, want: "at least 1" });
            }
        }
        for (what, got, limit) in [("labels", labels as u64, MAX_LABELS as u64), ("users", users, MAX_USERS)]
        {
            if got > limit {
                return Err(Error::Full { what, limit: limit as usize });
            }
        }
        if users.checked_mul(bits).is_none() {
            return Err(Error::Field { field: "bits", got: bits as f64, want: "below 2^64 of all users" });
        }
        if !self.knows(exchange) {
            self.state = State::Taking { shape, seen: BTreeSet::new(), ones: vec![0; labels] };
        }
        Ok(())
    }

    /// Takes the bits of one user, for each label the number of ones, under a random id that goes no further. What comes
    /// under one id a second time counts no more. Returns whether the batch is whole now: true for one call a batch.
    ///
    /// # Errors
    /// [`Error::ToldOtherwise`]; [`Error::Malformed`] for another number of labels or more ones than bits;
    /// [`Error::ExchangeOver`] once all users have answered, [`Error::NotBegun`] for an exchange that has not
    /// [begun](Self::begin).
    pub fn submit(
        &mut self,
        exchange: u64,
        told: Told,
        id: ReportId,
        numbers: &[u64],
    ) -> Result<bool, Error> {
        let known = self.knows(exchange);
        let (shape, seen, ones) = match &mut self.state {
            State::Taking { shape, seen, ones } if shape.exchange == exchange => (*shape, seen, ones),
            _ if known => return Err(Error::ExchangeOver { exchange }),
            _ => return Err(Error::NotBegun { exchange }),
        };
        if told != shape.told {
            return Err(Error::ToldOtherwise { exchange });
        }
        if numbers.len() != shape.labels {
            return Err(Error::Malformed { what: "not the number of labels that every user sends" });
        }
        if numbers.iter().any(|n| *n > shape.bits) {
            return Err(Error::Malformed { what: "more ones than bits" });
        }
        if !seen.insert(id) {
            return Ok(false);
        }
        // Below users times bits, which fits.
        ones.iter_mut().zip(numbers).for_each(|(sum, n)| *sum += n);
        let whole = seen.len() as u64 == shape.users;
        if whole {
            let labels = ones.iter().map(|n| vec![*n]).collect();
            let batch = ShuffledBatch { exchange, users: shape.users, labels };
            self.state = State::Whole { batch, handing: false };
        }
        Ok(whole)
    }

    /// The batch, for whoever brings it to the server and then says how that [ended](Self::ended).
    ///
    /// # Errors
    /// [`Error::TooFew`] while users are missing, [`Error::Overloaded`] while somebody else brings it,
    /// [`Error::ExchangeOver`] after it arrived, [`Error::NotBegun`] for an exchange that has not begun.
    pub fn hand(&mut self, exchange: u64) -> Result<ShuffledBatch, Error> {
        let newest = self.exchange();
        match &mut self.state {
            _ if newest.is_none_or(|newest| exchange > newest) => Err(Error::NotBegun { exchange }),
            State::Taking { shape, seen, .. } if shape.exchange == exchange => {
                Err(Error::TooFew { got: seen.len() as u64, need: shape.users })
            }
            State::Whole { handing: true, batch } if batch.exchange == exchange => Err(Error::Overloaded),
            State::Whole { batch, handing } if batch.exchange == exchange => {
                *handing = true;
                Ok(batch.clone())
            }
            _ => Err(Error::ExchangeOver { exchange }),
        }
    }

    /// That a batch arrived, or that it did not and is kept.
    pub fn ended(&mut self, exchange: u64, arrived: bool) {
        match &mut self.state {
            State::Whole { batch, .. } if batch.exchange == exchange && arrived => {
                self.state = State::Handed { exchange };
            }
            State::Whole { batch, handing } if batch.exchange == exchange => *handing = false,
            _ => {} // another exchange has begun
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { exchange: 7, users: 3, labels: 2, bits: 9, told: [1; 16] };

    #[test]
    fn batches_are_whole_and_handed_on_once() {
        let mut shuffler = Shuffler::default();
        let send = |shuffler: &mut Shuffler, id: u8, ones| shuffler.submit(7, [1; 16], [id; 16], &[ones, 1]);
        assert!(matches!(send(&mut shuffler, 1, 1), Err(Error::NotBegun { exchange: 7 })));
        assert!(matches!(shuffler.hand(7), Err(Error::NotBegun { exchange: 7 })));
        shuffler.begin(SHAPE).unwrap();
        assert!(!send(&mut shuffler, 1, 9).unwrap());
        assert!(!send(&mut shuffler, 2, 0).unwrap());
        assert!(!send(&mut shuffler, 2, 0).unwrap(), "a retry counts once");
        // Asked about again, by a user who came at the same time.
        shuffler.begin(SHAPE).unwrap();
        assert!(!send(&mut shuffler, 2, 1).unwrap(), "the first counts");
        let otherwise = shuffler.submit(7, [2; 16], [3; 16], &[1, 1]);
        assert!(matches!(otherwise, Err(Error::ToldOtherwise { exchange: 7 })));
        assert!(matches!(send(&mut shuffler, 3, 10), Err(Error::Malformed { what: "more ones than bits" })));
        assert!(matches!(shuffler.submit(7, [1; 16], [3; 16], &[1]), Err(Error::Malformed { .. })));
        assert!(matches!(
            shuffler.submit(6, [1; 16], [3; 16], &[1, 1]),
            Err(Error::ExchangeOver { exchange: 6 })
        ));
        assert!(matches!(shuffler.hand(7), Err(Error::TooFew { got: 2, need: 3 })));
        assert!(send(&mut shuffler, 3, 4).unwrap());
        assert!(matches!(send(&mut shuffler, 4, 4), Err(Error::ExchangeOver { exchange: 7 })));
        let batch = shuffler.hand(7).unwrap();
        assert_eq!(batch, ShuffledBatch { exchange: 7, users: 3, labels: vec![vec![13], vec![3]] });
        assert!(matches!(shuffler.hand(7), Err(Error::Overloaded)));
        shuffler.ended(7, false);
        assert_eq!(shuffler.hand(7).unwrap(), batch);
        shuffler.ended(7, true);
        assert!(matches!(shuffler.hand(7), Err(Error::ExchangeOver { exchange: 7 })));
        // An old answer of the bandit, which came late.
        shuffler.begin(SHAPE).unwrap();
        assert!(matches!(send(&mut shuffler, 4, 4), Err(Error::ExchangeOver { exchange: 7 })));
        shuffler.begin(Shape { exchange: 8, ..SHAPE }).unwrap();
        assert!(!shuffler.submit(8, [1; 16], [1; 16], &[1, 1]).unwrap());
        shuffler.ended(7, true);
        assert!(matches!(shuffler.hand(8), Err(Error::TooFew { got: 1, need: 3 })));
    }

    #[test]
    fn shapes_without_sense_are_refused() {
        for bad in [
            Shape { users: 0, ..SHAPE },
            Shape { labels: 0, ..SHAPE },
            Shape { bits: 0, ..SHAPE },
            Shape { bits: u64::MAX, ..SHAPE },
            Shape { users: u64::MAX, ..SHAPE },
            Shape { labels: usize::MAX, ..SHAPE },
        ] {
            assert!(Shuffler::default().begin(bad).is_err(), "{bad:?}");
        }
    }
}
