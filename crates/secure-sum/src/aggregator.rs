//! One of the two aggregators: holds shares, and lets out one total a batch.

use crate::Error;
use crate::share::{BatchId, Report, ReportId};
use prio::field::Field64;
use std::collections::BTreeMap;

/// How much an aggregator keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Batches, opened ones included: those are remembered so that they stay shut.
    pub batches: usize,
    /// Reports in all batches that are not opened yet, about 100 bytes each.
    pub reports: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { batches: 1 << 16, reports: 1 << 22 }
    }
}

/// The state of an aggregator, in memory: a restart loses the batches under way, and gives none away.
///
/// Its rules protect users from the collector. A batch is opened for **one** set of users, named in advance and at least
/// as many as their noise is sized for; then its reports are forgotten. Sets that differ between the two aggregators
/// give the collector a uniform residue.
#[derive(Debug, Default)]
pub struct Aggregator {
    limits: Limits,
    batches: BTreeMap<BatchId, State>,
    held: usize,
}

#[derive(Debug)]
enum State {
    /// Takes reports until `closed`.
    Holding { shares: BTreeMap<ReportId, Field64>, closed: bool },
    /// The digest of the set, for repeated requests, and its total.
    Opened { set: blake3::Hash, total: Field64 },
}

impl Aggregator {
    /// Without any report.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes a user's report. Sending it twice counts it once.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Duplicate`], [`Error::Full`]; the state is then unchanged.
    pub fn submit(&mut self, report: &Report) -> Result<(), Error> {
        let (batch, Limits { batches, reports }) = (report.batch.number, self.limits);
        let known = match self.batches.get(&report.batch) {
            Some(State::Holding { shares, closed: false }) => shares.get(&report.id),
            Some(_) => return Err(Error::Closed { batch }),
            None if self.batches.len() >= batches => {
                return Err(Error::Full { what: "batches", limit: batches });
            }
            None => None,
        };
        match known {
            Some(share) if *share == report.share => return Ok(()),
            Some(_) => return Err(Error::Duplicate { batch }),
            None if self.held >= reports => return Err(Error::Full { what: "reports", limit: reports }),
            None => {}
        }
        let new = || State::Holding { shares: BTreeMap::new(), closed: false };
        if let State::Holding { shares, .. } = self.batches.entry(report.batch).or_insert_with(new) {
            shares.insert(report.id, report.share);
        }
        self.held += 1;
        Ok(())
    }

    /// Takes no more reports for `batch`; the ids of those that came, in order. May be repeated until it is opened.
    ///
    /// # Errors
    /// [`Error::NotClosed`] if no report ever came, [`Error::Closed`] after it was opened.
    pub fn close(&mut self, batch: BatchId) -> Result<Vec<ReportId>, Error> {
        match self.batches.get_mut(&batch) {
            Some(State::Holding { shares, closed }) => {
                *closed = true;
                Ok(shares.keys().copied().collect())
            }
            Some(State::Opened { .. }) => Err(Error::Closed { batch: batch.number }),
            None => Err(Error::NotClosed { batch: batch.number }),
        }
    }

    /// The total of the shares of `set`, ids in rising order. The other reports of the batch, and then these, are
    /// forgotten; asking again with the same set gives the same answer.
    ///
    /// # Errors
    /// [`Error::TooFew`], [`Error::UnknownReport`], [`Error::NotClosed`], [`Error::Opened`]; the state is then unchanged.
    pub fn open(&mut self, batch: BatchId, set: &[ReportId]) -> Result<Field64, Error> {
        let number = batch.number;
        let digest = blake3::hash(set.as_flattened());
        let shares = match self.batches.get(&batch) {
            Some(State::Holding { shares, closed: true }) => shares,
            Some(State::Opened { set, total }) if *set == digest => return Ok(*total),
            Some(State::Opened { .. }) => return Err(Error::Opened { batch: number }),
            _ => return Err(Error::NotClosed { batch: number }),
        };
        if (set.len() as u64) < u64::from(batch.at_least) {
            return Err(Error::TooFew { got: set.len() as u64, need: batch.at_least.into() });
        }
        let rising = set.windows(2).all(|w| w[0] < w[1]);
        let total = set.iter().try_fold(Field64::from(0), |sum, id| Some(sum + *shares.get(id)?));
        let total = total.filter(|_| rising).ok_or(Error::UnknownReport { batch: number })?;
        self.held -= shares.len();
        self.batches.insert(batch, State::Opened { set: digest, total });
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::{join, reports};
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    #[test]
    fn limits_hold_and_opened_batches_stay_shut() {
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let mut aggregator = Aggregator::new(Limits { batches: 2, reports: 3 });
        let batch = |number| BatchId { number, at_least: 1 };
        let mut send = |aggregator: &mut Aggregator, number| {
            let report = reports(batch(number), 1, &mut rng)[0];
            aggregator.submit(&report).map(|()| report.id)
        };
        let id = send(&mut aggregator, 1).unwrap();
        send(&mut aggregator, 1).unwrap();
        send(&mut aggregator, 2).unwrap();
        assert!(matches!(send(&mut aggregator, 2), Err(Error::Full { what: "reports", .. })));
        assert!(matches!(send(&mut aggregator, 3), Err(Error::Full { what: "batches", .. })));
        assert_eq!(aggregator.close(batch(1)).unwrap().len(), 2);
        aggregator.open(batch(1), &[id]).unwrap();
        // Room again for reports, the one left out of the set included; not for this batch, nor a third one.
        for _ in 0..2 {
            send(&mut aggregator, 2).unwrap();
        }
        assert!(matches!(send(&mut aggregator, 2), Err(Error::Full { what: "reports", .. })));
        assert!(matches!(send(&mut aggregator, 1), Err(Error::Closed { batch: 1 })));
        assert!(matches!(send(&mut aggregator, 3), Err(Error::Full { what: "batches", .. })));
    }

    /// A collector that names another set at each aggregator gets a uniform residue: chi-square over 16 cells, 15 degrees
    /// of freedom, 50 has probability 1e-5.
    #[test]
    fn sets_that_differ_give_nothing() {
        let mut rng = ChaCha20Rng::seed_from_u64(6);
        let mut cells = [0f64; 16];
        for number in 0..4000 {
            let batch = BatchId { number, at_least: 2 };
            let mut pair = [Aggregator::default(), Aggregator::default()];
            let mut ids: Vec<ReportId> = Vec::new();
            for value in 0..3 {
                let both = reports(batch, value, &mut rng);
                ids.push(both[0].id);
                pair.iter_mut().zip(&both).for_each(|(a, r)| a.submit(r).unwrap());
            }
            ids.sort();
            pair.iter_mut().for_each(|a| _ = a.close(batch).unwrap());
            let [first, second] = &mut pair;
            let shares = [first.open(batch, &ids[..2]).unwrap(), second.open(batch, &ids[1..]).unwrap()];
            cells[(join(shares).rem_euclid(1 << 64) >> 60) as usize] += 1.0;
        }
        let chi: f64 = cells.iter().map(|n| (n - 250.0).powi(2) / 250.0).sum();
        assert!(chi < 50.0, "{chi}");
    }
}
