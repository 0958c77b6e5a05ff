//! The shuffler: it receives the number of ones among each user's bits, and delivers the sums over a batch.

use crate::Error;
use crate::share::ReportId;
use fault::OutOfRange;
use std::collections::BTreeSet;
use wire::ShuffledBatch;

/// The most labels of one user. The metric of 64 features has fewer entries.
pub const MAX_LABELS: usize = 1 << 12;
/// The most users of a batch, about 100 bytes each.
const MAX_USERS: u64 = 1 << 22;

/// The digest of a task and of the bandit's parameters; see
/// [`BanditTask::digest`](crate::BanditTask::digest).
pub type TaskDigest = [u8; 16];

/// The shape of the messages of one exchange. It is the same for every user, because a longer message would
/// be recognisable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The number of the exchange.
    pub exchange: u64,
    /// The exact number of users of the batch. With fewer users, the sum would have too little noise.
    pub users: u64,
    /// The number of labels.
    pub labels: usize,
    /// The number of bits of each user for each label.
    pub bits: u64,
    /// The digest of the task that the server posed to the shuffler. Every user must have received the same
    /// task, because the privacy of each depends on the noise of the others.
    pub digest: TaskDigest,
}

/// The state of a shuffler, in memory. It holds one batch at a time, that of the exchange which its bandit
/// waits for.
///
/// The bits of one label in random order reveal exactly their number of ones. Hence no list is permuted: a
/// user sends the number of ones among its bits for each label, and the shuffler adds the numbers up on
/// arrival.
///
/// The shuffler sees each user's number of ones, which holds little noise. It must not collude with the
/// server, and users trust it not to look at these numbers. It stores no number, and no digest of a number,
/// which could be inverted by trial. Until the batch is complete, it stores the random id of each user.
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
    /// All users have answered. `delivering` is true while a request delivers the batch to the server.
    Whole {
        batch: ShuffledBatch,
        delivering: bool,
    },
    Delivered {
        exchange: u64,
    },
}

impl Shuffler {
    const fn exchange(&self) -> Option<u64> {
        match &self.state {
            State::Idle => None,
            State::Taking { shape, .. } => Some(shape.exchange),
            State::Whole { batch, .. } => Some(batch.exchange),
            State::Delivered { exchange } => Some(*exchange),
        }
    }

    /// Whether the exchange has begun, or a later one has, so that the bandit need not be asked about it.
    pub fn knows(&self, exchange: u64) -> bool {
        self.exchange().is_some_and(|newest| exchange <= newest)
    }

    /// Begins the exchange of `shape`, and deletes the exchange before. Changes nothing if this exchange or a
    /// later one has begun.
    ///
    /// # Errors
    /// [`Error::Full`] for too many users or labels, [`Error::OutOfRange`] for a shape without users, labels
    /// or bits.
    pub fn begin(&mut self, shape: Shape) -> Result<(), Error> {
        let Shape { exchange, users, labels, bits, .. } = shape;
        for (field, got) in [("users", users), ("labels", labels as u64), ("bits", bits)] {
            if got == 0 {
                return Err(OutOfRange::new(field, 0, "at least 1").into());
            }
        }
        for (what, got, limit) in [("labels", labels as u64, MAX_LABELS as u64), ("users", users, MAX_USERS)]
        {
            if got > limit {
                return Err(Error::Full { what, limit: limit as usize });
            }
        }
        if users.checked_mul(bits).is_none() {
            return Err(OutOfRange::new("bits", bits, "below 2^64 of all users").into());
        }
        if !self.knows(exchange) {
            self.state = State::Taking { shape, seen: BTreeSet::new(), ones: vec![0; labels] };
        }
        Ok(())
    }

    /// Adds one user's numbers of ones, one for each label, under a random id that the shuffler passes on to
    /// nobody. The first message under an id counts, and no other. Returns true if this message completes the
    /// batch.
    ///
    /// # Errors
    /// [`Error::OtherTask`]; [`Error::Malformed`] for another number of labels or more ones than bits;
    /// [`Error::ExchangeOver`] once all users have answered, [`Error::NotBegun`] for an exchange that has not
    /// [begun](Self::begin).
    pub fn submit(
        &mut self,
        exchange: u64,
        digest: TaskDigest,
        id: ReportId,
        numbers: &[u64],
    ) -> Result<bool, Error> {
        let known = self.knows(exchange);
        let (shape, seen, ones) = match &mut self.state {
            State::Taking { shape, seen, ones } if shape.exchange == exchange => (*shape, seen, ones),
            _ if known => return Err(Error::ExchangeOver { exchange }),
            _ => return Err(Error::NotBegun { exchange }),
        };
        if digest != shape.digest {
            return Err(Error::OtherTask { exchange });
        }
        if numbers.len() != shape.labels {
            return Err(Error::Malformed { what: "the number of labels is not that of the exchange" });
        }
        if numbers.iter().any(|n| *n > shape.bits) {
            return Err(Error::Malformed { what: "more ones than bits" });
        }
        if !seen.insert(id) {
            return Ok(false);
        }
        // The sum is at most users times bits, which fits.
        ones.iter_mut().zip(numbers).for_each(|(sum, n)| *sum += n);
        let whole = seen.len() as u64 == shape.users;
        if whole {
            let labels = ones.iter().map(|n| vec![*n]).collect();
            let batch = ShuffledBatch { exchange, users: shape.users, labels };
            self.state = State::Whole { batch, delivering: false };
        }
        Ok(whole)
    }

    /// The complete batch. The caller delivers it to the server and then calls [`ended`](Self::ended).
    ///
    /// # Errors
    /// [`Error::TooFew`] while users are missing, [`Error::Overloaded`] while another request delivers the
    /// batch, [`Error::ExchangeOver`] after it was delivered, [`Error::NotBegun`] for an exchange that has
    /// not begun.
    pub fn collect(&mut self, exchange: u64) -> Result<ShuffledBatch, Error> {
        let newest = self.exchange();
        match &mut self.state {
            _ if newest.is_none_or(|newest| exchange > newest) => Err(Error::NotBegun { exchange }),
            State::Taking { shape, seen, .. } if shape.exchange == exchange => {
                Err(Error::TooFew { got: seen.len() as u64, need: shape.users })
            }
            State::Whole { delivering: true, batch } if batch.exchange == exchange => Err(Error::Overloaded),
            State::Whole { batch, delivering } if batch.exchange == exchange => {
                *delivering = true;
                Ok(batch.clone())
            }
            _ => Err(Error::ExchangeOver { exchange }),
        }
    }

    /// Records whether the batch was delivered. A batch that was not delivered is kept.
    pub fn ended(&mut self, exchange: u64, arrived: bool) {
        match &mut self.state {
            State::Whole { batch, .. } if batch.exchange == exchange && arrived => {
                self.state = State::Delivered { exchange };
            }
            State::Whole { batch, delivering } if batch.exchange == exchange => *delivering = false,
            _ => {} // another exchange has begun
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { exchange: 7, users: 3, labels: 2, bits: 9, digest: [1; 16] };

    #[test]
    fn batches_are_whole_and_handed_on_once() {
        let mut shuffler = Shuffler::default();
        let send = |shuffler: &mut Shuffler, id: u8, ones| shuffler.submit(7, [1; 16], [id; 16], &[ones, 1]);
        assert!(matches!(send(&mut shuffler, 1, 1), Err(Error::NotBegun { exchange: 7 })));
        assert!(matches!(shuffler.collect(7), Err(Error::NotBegun { exchange: 7 })));
        shuffler.begin(SHAPE).unwrap();
        assert!(!send(&mut shuffler, 1, 9).unwrap());
        assert!(!send(&mut shuffler, 2, 0).unwrap());
        assert!(!send(&mut shuffler, 2, 0).unwrap(), "a retry counts once");
        // Asked about again, by a user who came at the same time.
        shuffler.begin(SHAPE).unwrap();
        assert!(!send(&mut shuffler, 2, 1).unwrap(), "the first counts");
        let otherwise = shuffler.submit(7, [2; 16], [3; 16], &[1, 1]);
        assert!(matches!(otherwise, Err(Error::OtherTask { exchange: 7 })));
        assert!(matches!(send(&mut shuffler, 3, 10), Err(Error::Malformed { what: "more ones than bits" })));
        assert!(matches!(shuffler.submit(7, [1; 16], [3; 16], &[1]), Err(Error::Malformed { .. })));
        assert!(matches!(
            shuffler.submit(6, [1; 16], [3; 16], &[1, 1]),
            Err(Error::ExchangeOver { exchange: 6 })
        ));
        assert!(matches!(shuffler.collect(7), Err(Error::TooFew { got: 2, need: 3 })));
        assert!(send(&mut shuffler, 3, 4).unwrap());
        assert!(matches!(send(&mut shuffler, 4, 4), Err(Error::ExchangeOver { exchange: 7 })));
        let batch = shuffler.collect(7).unwrap();
        assert_eq!(batch, ShuffledBatch { exchange: 7, users: 3, labels: vec![vec![13], vec![3]] });
        assert!(matches!(shuffler.collect(7), Err(Error::Overloaded)));
        shuffler.ended(7, false);
        assert_eq!(shuffler.collect(7).unwrap(), batch);
        shuffler.ended(7, true);
        assert!(matches!(shuffler.collect(7), Err(Error::ExchangeOver { exchange: 7 })));
        // An old answer of the bandit, which came late.
        shuffler.begin(SHAPE).unwrap();
        assert!(matches!(send(&mut shuffler, 4, 4), Err(Error::ExchangeOver { exchange: 7 })));
        shuffler.begin(Shape { exchange: 8, ..SHAPE }).unwrap();
        assert!(!shuffler.submit(8, [1; 16], [1; 16], &[1, 1]).unwrap());
        shuffler.ended(7, true);
        assert!(matches!(shuffler.collect(8), Err(Error::TooFew { got: 1, need: 3 })));
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
