//! The shuffler: takes the messages of a batch, and hands them on in an order that says nothing of who sent them.

use crate::Error;
use crate::share::ReportId;
use privacy::source::Words;
use rand::CryptoRng;
use std::collections::BTreeMap;

/// The shape of a batch, the same for all users: a user who sent more than others would stand out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Users without whom nothing is handed on: their noise would be too small.
    pub at_least: usize,
    /// Users at most.
    pub at_most: usize,
    /// Messages of each user.
    pub messages: usize,
    /// Bytes of a message; 1 for randomisers that send bits.
    pub unit: usize,
}

/// The state of a shuffler, in memory. It sees who sent what, so it must not collude with the server; it need not be
/// trusted with the rest, since messages carry their noise.
#[derive(Debug)]
pub struct Shuffler {
    shape: Shape,
    batches: BTreeMap<u64, State>,
    /// Bytes of messages that there is room for, beside those of batches that are not sent yet.
    room: usize,
}

#[derive(Debug)]
enum State {
    Taking(BTreeMap<ReportId, Vec<u8>>),
    /// Until [`Shuffler::sent`]; the same order each time.
    Shuffled(Vec<u8>),
    Sent,
}

impl Shuffler {
    /// Batches kept, those that were sent included.
    const BATCHES: usize = 1 << 16;
    /// Bytes of all users of a batch, and of all batches that are not sent yet, at most.
    const BYTES: usize = 1 << 30;

    /// Without any message.
    ///
    /// # Errors
    /// [`Error::Field`] if a part of the shape is 0, `at_most` is below `at_least`, or a batch has a gibibyte or more.
    pub fn new(shape: Shape) -> Result<Self, Error> {
        let Shape { at_least, at_most, messages, unit } = shape;
        for (field, got) in [("at_least", at_least), ("messages", messages), ("unit", unit)] {
            if got == 0 {
                return Err(Error::Field { field, got: 0.0, want: "at least 1" });
            }
        }
        let bytes = messages.checked_mul(unit).and_then(|b| b.checked_mul(at_most));
        if at_most < at_least || bytes.is_none_or(|b| b >= Self::BYTES) {
            let want = "at_least or more, and less than a gibibyte of messages";
            return Err(Error::Field { field: "at_most", got: at_most as f64, want });
        }
        Ok(Self { shape, batches: BTreeMap::new(), room: Self::BYTES })
    }

    /// Bytes of a message.
    pub const fn unit(&self) -> usize {
        self.shape.unit
    }

    /// Bytes of one user's messages.
    pub const fn user_bytes(&self) -> usize {
        self.shape.messages * self.shape.unit
    }

    /// Takes the messages of one user, under a random id that goes no further. Sending them twice counts them once.
    ///
    /// # Errors
    /// [`Error::Malformed`] for another length, [`Error::Closed`], [`Error::Duplicate`], [`Error::Full`].
    pub fn submit(&mut self, batch: u64, id: ReportId, messages: &[u8]) -> Result<(), Error> {
        if messages.len() != self.user_bytes() {
            return Err(Error::Malformed { what: "not the number of messages that every user sends" });
        }
        if !self.batches.contains_key(&batch) && self.batches.len() >= Self::BATCHES {
            return Err(Error::Full { what: "batches", limit: Self::BATCHES });
        }
        let State::Taking(users) =
            self.batches.entry(batch).or_insert_with(|| State::Taking(BTreeMap::new()))
        else {
            return Err(Error::Closed { batch });
        };
        match users.get(&id) {
            Some(held) if held == messages => Ok(()),
            Some(_) => Err(Error::Duplicate { batch }),
            None if users.len() >= self.shape.at_most => {
                Err(Error::Full { what: "users", limit: self.shape.at_most })
            }
            None if messages.len() > self.room => {
                Err(Error::Full { what: "bytes of messages", limit: Self::BYTES })
            }
            None => {
                self.room -= messages.len();
                users.insert(id, messages.to_vec());
                Ok(())
            }
        }
    }

    /// All messages of `batch`, each order equally likely; takes no more. The answer stays the same until it is
    /// [`sent`](Self::sent).
    ///
    /// # Errors
    /// [`Error::TooFew`]: the batch then still takes messages. [`Error::NotClosed`] if nothing came, [`Error::Closed`] after
    /// it was sent.
    pub fn shuffle<R: CryptoRng>(&mut self, batch: u64, rng: &mut R) -> Result<&[u8], Error> {
        let Shape { at_least, unit, .. } = self.shape;
        let state = self.batches.get_mut(&batch).ok_or(Error::NotClosed { batch })?;
        if let State::Taking(users) = state {
            if users.len() < at_least {
                return Err(Error::TooFew { got: users.len() as u64, need: at_least as u64 });
            }
            let all = users.values().flatten().copied().collect();
            *state = State::Shuffled(permuted(all, unit, rng));
        }
        match state {
            State::Shuffled(messages) => Ok(messages),
            _ => Err(Error::Closed { batch }),
        }
    }

    /// Forgets the messages of a batch that arrived.
    pub fn sent(&mut self, batch: u64) {
        if let Some(state) = self.batches.get_mut(&batch)
            && let State::Shuffled(messages) = state
        {
            self.room += messages.len();
            *state = State::Sent;
        }
    }
}

/// Fisher and Yates, with exact uniform indices.
fn permuted<R: CryptoRng>(mut all: Vec<u8>, unit: usize, rng: &mut R) -> Vec<u8> {
    for last in (1..all.len() / unit).rev() {
        let other = rng.below(last as u128 + 1) as usize;
        for byte in 0..unit {
            all.swap(last * unit + byte, other * unit + byte);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    const SHAPE: Shape = Shape { at_least: 3, at_most: 4, messages: 2, unit: 2 };

    /// All 24 orders of four messages are equally likely: chi-square, 23 degrees of freedom, 65 has probability 7e-6.
    #[test]
    fn every_order_is_as_likely() {
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let mut seen = BTreeMap::new();
        for _ in 0..24_000 {
            *seen.entry(permuted(b"aabbccdd".to_vec(), 2, &mut rng)).or_insert(0u32) += 1;
        }
        assert_eq!(seen.len(), 24);
        let chi: f64 = seen.values().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 65.0, "{chi}");
    }

    #[test]
    fn batches_are_whole_and_sent_once() {
        let mut rng = ChaCha20Rng::seed_from_u64(4);
        let mut shuffler = Shuffler::new(SHAPE).unwrap();
        let send = |shuffler: &mut Shuffler, id: u8| shuffler.submit(1, [id; 16], &[id; 4]);
        send(&mut shuffler, 1).unwrap();
        send(&mut shuffler, 2).unwrap();
        send(&mut shuffler, 2).unwrap();
        assert!(matches!(shuffler.submit(1, [2; 16], &[9; 4]), Err(Error::Duplicate { .. })));
        assert!(matches!(shuffler.submit(1, [5; 16], &[9; 3]), Err(Error::Malformed { .. })));
        assert!(matches!(shuffler.shuffle(1, &mut rng), Err(Error::TooFew { got: 2, need: 3 })));
        assert!(matches!(shuffler.shuffle(2, &mut rng), Err(Error::NotClosed { .. })));
        send(&mut shuffler, 3).unwrap();
        send(&mut shuffler, 4).unwrap();
        assert!(matches!(send(&mut shuffler, 5), Err(Error::Full { .. })));
        let first = shuffler.shuffle(1, &mut rng).unwrap().to_vec();
        assert_eq!(shuffler.shuffle(1, &mut rng).unwrap(), first);
        let mut sorted = first.clone();
        sorted.sort();
        assert_eq!(sorted, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4]);
        shuffler.sent(1);
        assert!(matches!(shuffler.shuffle(1, &mut rng), Err(Error::Closed { .. })));
        assert!(matches!(send(&mut shuffler, 6), Err(Error::Closed { .. })));
    }

    /// Users of however many batches fill no more memory than one batch may; a batch that was sent makes room.
    #[test]
    fn all_batches_share_one_limit() {
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let mut shuffler = Shuffler::new(Shape { at_least: 1, ..SHAPE }).unwrap();
        shuffler.room = 3 * shuffler.user_bytes();
        let send = |shuffler: &mut Shuffler, batch, id| shuffler.submit(batch, [id; 16], &[id; 4]);
        (1..=3).for_each(|batch| send(&mut shuffler, batch, 1).unwrap());
        assert!(matches!(send(&mut shuffler, 1, 2), Err(Error::Full { .. })));
        send(&mut shuffler, 1, 1).unwrap(); // a retry takes no room
        shuffler.shuffle(3, &mut rng).unwrap();
        assert!(matches!(send(&mut shuffler, 1, 2), Err(Error::Full { .. })));
        shuffler.sent(3);
        shuffler.sent(3);
        send(&mut shuffler, 1, 2).unwrap();
        assert!(matches!(send(&mut shuffler, 2, 2), Err(Error::Full { .. })));
    }

    #[test]
    fn shapes_without_sense_are_refused() {
        for bad in [
            Shape { at_least: 0, ..SHAPE },
            Shape { messages: 0, ..SHAPE },
            Shape { unit: 0, ..SHAPE },
            Shape { at_most: 2, ..SHAPE },
            Shape { at_most: usize::MAX, ..SHAPE },
        ] {
            assert!(Shuffler::new(bad).is_err(), "{bad:?}");
        }
    }
}
