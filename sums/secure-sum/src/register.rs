//! The register of announced batches, which bounds the memory of a party.

use crate::{BatchId, Error};
use fault::OutOfRange;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// States by batch number. Only an announcement adds a state, and only for a time.
///
/// - A batch is announced with the number of users that its noise is sized for. Requests that name another
///   number are refused.
/// - At most `limit` batches are kept. When one more is announced, batches older than `age` are deleted, and
///   then the spent batch with the lowest number.
/// - The number of a new batch must be above those of all deleted batches. A batch that was opened can
///   therefore not be opened for other users under the same number.
#[derive(Debug)]
pub struct Register<T> {
    limit: usize,
    age: Duration,
    /// The highest number of a deleted batch.
    forgotten: Option<u64>,
    batches: BTreeMap<u64, Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    at_least: u32,
    since: Instant,
    state: T,
}

impl<T> Register<T> {
    /// A register of at most `limit` batches, each kept for at most `age`.
    pub fn new(limit: usize, age: Duration) -> Self {
        Self { limit, age, forgotten: None, batches: BTreeMap::new() }
    }

    /// The state of `batch`.
    ///
    /// # Errors
    /// [`Error::NotAnnounced`] if it was not announced for this number of users, or is too old.
    pub fn get(&mut self, batch: BatchId, now: Instant) -> Result<&mut T, Error> {
        let age = self.age;
        let kept = self.batches.get_mut(&batch.number).filter(|entry| entry.at_least == batch.at_least);
        let kept = kept.filter(|entry| now.saturating_duration_since(entry.since) <= age);
        Ok(&mut kept.ok_or(Error::NotAnnounced { batch: batch.number, users: batch.at_least })?.state)
    }

    /// Adds `batch` with the state that `make` returns, unless it is known. The states of deleted batches are
    /// passed to `gone`. `spent` selects batches that are only kept to repeat an answer.
    ///
    /// # Errors
    /// [`Error::Announced`] if the number is known for another number of users, [`Error::Used`] if it is not
    /// above the numbers of deleted batches, [`Error::Full`] if no batch can be deleted; those of `make`.
    pub fn announce<E: From<Error>>(
        &mut self,
        batch: BatchId,
        now: Instant,
        spent: impl Fn(&T) -> bool,
        gone: impl FnMut(T),
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<(), E> {
        if self.room(batch, now, spent, gone)? {
            let entry = Entry { at_least: batch.at_least, since: now, state: make()? };
            self.batches.insert(batch.number, entry);
        }
        Ok(())
    }

    /// Makes room for `batch`. Returns false if it is known.
    fn room(
        &mut self,
        batch: BatchId,
        now: Instant,
        spent: impl Fn(&T) -> bool,
        mut gone: impl FnMut(T),
    ) -> Result<bool, Error> {
        let number = batch.number;
        if batch.at_least == 0 {
            return Err(OutOfRange::new("users", 0, "at least 1").into());
        }
        self.expire(now).into_iter().for_each(&mut gone);
        match self.batches.get(&number) {
            Some(known) if known.at_least == batch.at_least => return Ok(false),
            Some(known) => return Err(Error::Announced { batch: number, users: known.at_least }),
            None => {}
        }
        let rises = |above: Option<u64>| match above.filter(|above| number <= *above) {
            Some(above) => Err(Error::Used { batch: number, above }),
            None => Ok(()),
        };
        rises(self.forgotten)?;
        let mut lowest = None;
        if self.batches.len() >= self.limit {
            lowest = self.lowest(spent);
            rises(Some(lowest.ok_or(Error::Full { what: "batches", limit: self.limit })?))?;
        }
        lowest.and_then(|lowest| self.forget(lowest)).into_iter().for_each(gone);
        Ok(true)
    }

    /// Deletes the batches that are too old, and returns their states.
    pub fn expire(&mut self, now: Instant) -> Vec<T> {
        let old = |entry: &Entry<T>| now.saturating_duration_since(entry.since) > self.age;
        let numbers: Vec<u64> = self.batches.iter().filter(|b| old(b.1)).map(|b| *b.0).collect();
        numbers.into_iter().filter_map(|number| self.forget(number)).collect()
    }

    /// Deletes the spent batch with the lowest number, and returns its state.
    pub fn evict(&mut self, spent: impl Fn(&T) -> bool) -> Option<T> {
        let number = self.lowest(spent)?;
        self.forget(number)
    }

    fn lowest(&self, spent: impl Fn(&T) -> bool) -> Option<u64> {
        self.batches.iter().find(|(_, entry)| spent(&entry.state)).map(|batch| *batch.0)
    }

    fn forget(&mut self, number: u64) -> Option<T> {
        let entry = self.batches.remove(&number)?;
        self.forgotten = self.forgotten.max(Some(number));
        Some(entry.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_and_room_is_made_of_what_is_old_or_spent() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let batch = |number| BatchId { number, at_least: 3 };
        let mut register = Register::new(2, Duration::from_secs(10));
        let announce = |register: &mut Register<bool>, number, seconds| {
            let (mut gone, mut made) = (0, false);
            let make = || {
                made = true;
                Ok::<_, Error>(false)
            };
            register.announce(batch(number), at(seconds), |spent| *spent, |_| gone += 1, make)?;
            Ok::<_, Error>(made.then_some(gone))
        };
        assert_eq!(announce(&mut register, 5, 0).unwrap(), Some(0));
        assert_eq!(announce(&mut register, 5, 1).unwrap(), None);
        let other = register.room(BatchId { at_least: 4, ..batch(5) }, at(1), |_| true, drop);
        assert!(matches!(other, Err(Error::Announced { batch: 5, users: 3 })));
        assert!(register.room(BatchId { number: 9, at_least: 0 }, at(1), |_| true, drop).is_err());
        assert_eq!(announce(&mut register, 3, 2).unwrap(), Some(0));
        assert!(matches!(announce(&mut register, 6, 3), Err(Error::Full { limit: 2, .. })));
        // One is spent: it makes room for higher numbers, and stays forgotten.
        *register.get(batch(3), at(3)).unwrap() = true;
        assert_eq!(announce(&mut register, 6, 4).unwrap(), Some(1));
        assert!(matches!(announce(&mut register, 3, 4), Err(Error::Used { batch: 3, above: 3 })));
        assert!(matches!(register.get(batch(3), at(4)), Err(Error::NotAnnounced { .. })));
        assert!(register.get(BatchId { at_least: 2, ..batch(5) }, at(4)).is_err());
        // The others are old.
        assert!(register.get(batch(5), at(10)).is_ok() && register.get(batch(5), at(11)).is_err());
        assert_eq!(announce(&mut register, 7, 15).unwrap(), Some(2));
        assert!(matches!(announce(&mut register, 6, 15), Err(Error::Used { batch: 6, above: 6 })));
    }
}
