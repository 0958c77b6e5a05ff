//! One of the two aggregators: it holds shares, and opens one total per batch.

use crate::Error;
use crate::register::Register;
use crate::share::{BatchId, Report, ReportId};
use prio::field::Field64;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Bounds on the memory of an aggregator, and the time after which it deletes a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AggregatorLimits {
    /// The most batches, opened ones included.
    pub batches: usize,
    /// The most reports of all batches, about 100 bytes each. An opened batch keeps the ids of its set only,
    /// and loses them when other batches need the memory.
    pub reports: usize,
    /// The time from the announcement of a batch to its deletion.
    pub age: Duration,
}

impl Default for AggregatorLimits {
    fn default() -> Self {
        Self { batches: 1 << 12, reports: 1 << 22, age: Duration::from_secs(24 * 3600) }
    }
}

/// The most reports of one batch, which is also the most that a collector reads.
pub const MAX_REPORTS: usize = 1 << 20;

/// The state of an aggregator, in memory. A restart loses all batches and reveals none.
///
/// The rules protect users from the collector. A batch is opened for **one** set of users, which is named
/// before and has at least as many users as the noise is sized for. Then its reports are deleted. If the sets
/// differ between the two aggregators, the collector gets a uniform residue. The collector
/// [announces](Self::announce) a batch before users report, so that strangers can fill announced batches
/// only, with at most [`MAX_REPORTS`] reports each.
#[derive(Debug)]
pub struct Aggregator {
    limits: AggregatorLimits,
    batches: Register<State>,
    held: usize,
}

#[derive(Debug)]
enum State {
    /// Accepts reports until `closed`.
    Holding { shares: BTreeMap<ReportId, Field64>, closed: bool },
    /// The set and its total, which repeated requests get again.
    Opened { set: Vec<ReportId>, total: Field64 },
}

impl State {
    const fn spent(&self) -> bool {
        matches!(self, Self::Opened { .. })
    }

    fn held(&self) -> usize {
        match self {
            Self::Holding { shares, .. } => shares.len(),
            Self::Opened { set, .. } => set.len(),
        }
    }
}

impl Default for Aggregator {
    fn default() -> Self {
        Self::new(AggregatorLimits::default())
    }
}

impl Aggregator {
    /// An aggregator without any batch.
    pub fn new(limits: AggregatorLimits) -> Self {
        Self { limits, batches: Register::new(limits.batches, limits.age), held: 0 }
    }

    /// Accepts reports for `batch` from now on. Announcing it again changes nothing.
    ///
    /// # Errors
    /// [`Error::Announced`], [`Error::Used`], [`Error::Full`] as [`Register::announce`].
    pub fn announce(&mut self, batch: BatchId, now: Instant) -> Result<(), Error> {
        let Self { batches, held, .. } = self;
        let new = || Ok(State::Holding { shares: BTreeMap::new(), closed: false });
        batches.announce(batch, now, State::spent, |gone| *held -= gone.held(), new)
    }

    /// Adds the report of a user. The same report counts once, however often it is sent.
    ///
    /// # Errors
    /// [`Error::NotAnnounced`], [`Error::Closed`], [`Error::Duplicate`], [`Error::Full`]. The reports are
    /// then unchanged.
    pub fn submit(&mut self, report: &Report, now: Instant) -> Result<(), Error> {
        let batch = report.batch.number;
        match self.batches.get(report.batch, now)? {
            State::Holding { shares, closed: false } => match shares.get(&report.id) {
                Some(share) if *share == report.share => return Ok(()),
                Some(_) => return Err(Error::Duplicate { batch }),
                None if shares.len() >= MAX_REPORTS => {
                    return Err(Error::Full { what: "reports in this batch", limit: MAX_REPORTS });
                }
                None => {}
            },
            _ => return Err(Error::Closed { batch }),
        }
        self.make_room(now)?;
        if let State::Holding { shares, .. } = self.batches.get(report.batch, now)? {
            shares.insert(report.id, report.share);
            self.held += 1;
        }
        Ok(())
    }

    /// Makes room for one report. It deletes old batches first, and then opened ones.
    fn make_room(&mut self, now: Instant) -> Result<(), Error> {
        let limit = self.limits.reports;
        if self.held < limit {
            return Ok(());
        }
        let old = self.batches.expire(now);
        self.held -= old.iter().map(State::held).sum::<usize>();
        while self.held >= limit {
            let spent = self.batches.evict(State::spent);
            self.held -= spent.ok_or(Error::Full { what: "reports", limit })?.held();
        }
        Ok(())
    }

    /// Closes `batch` for reports, and returns the ids of its reports in ascending order, or the set for
    /// which it was opened. A collector that lost an answer can therefore begin again.
    ///
    /// # Errors
    /// [`Error::NotAnnounced`].
    pub fn close(&mut self, batch: BatchId, now: Instant) -> Result<Vec<ReportId>, Error> {
        Ok(match self.batches.get(batch, now)? {
            State::Holding { shares, closed } => {
                *closed = true;
                shares.keys().copied().collect()
            }
            State::Opened { set, .. } => set.clone(),
        })
    }

    /// The total of the shares of `set`, whose ids are in ascending order. All shares of the batch are then
    /// deleted. A repeated request with the same set gets the same total.
    ///
    /// # Errors
    /// [`Error::NotAnnounced`], [`Error::TooFew`], [`Error::UnknownReport`], [`Error::NotClosed`],
    /// [`Error::Opened`]. The state is then unchanged.
    pub fn open(&mut self, batch: BatchId, set: &[ReportId], now: Instant) -> Result<Field64, Error> {
        let number = batch.number;
        let state = self.batches.get(batch, now)?;
        let shares = match state {
            State::Holding { shares, closed: true } => shares,
            State::Opened { set: opened, total } if opened == set => return Ok(*total),
            State::Opened { .. } => return Err(Error::Opened { batch: number }),
            State::Holding { .. } => return Err(Error::NotClosed { batch: number }),
        };
        if (set.len() as u64) < u64::from(batch.at_least) {
            return Err(Error::TooFew { got: set.len() as u64, need: batch.at_least.into() });
        }
        let rising = set.windows(2).all(|w| w[0] < w[1]);
        let total = set.iter().try_fold(Field64::from(0), |sum, id| Some(sum + *shares.get(id)?));
        let total = total.filter(|_| rising).ok_or(Error::UnknownReport { batch: number })?;
        self.held -= shares.len() - set.len();
        *state = State::Opened { set: set.to_vec(), total };
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::{join, reports};
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    const BATCH: fn(u64) -> BatchId = |number| BatchId { number, at_least: 1 };

    fn send(aggregator: &mut Aggregator, number: u64, rng: &mut ChaCha20Rng) -> Result<ReportId, Error> {
        let report = reports(BATCH(number), 1, rng)[0];
        aggregator.submit(&report, Instant::now()).map(|()| report.id)
    }

    #[test]
    fn limits_hold_and_opened_batches_stay_shut() {
        let (mut rng, now) = (ChaCha20Rng::seed_from_u64(5), Instant::now());
        let mut aggregator =
            Aggregator::new(AggregatorLimits { batches: 2, reports: 3, ..AggregatorLimits::default() });
        for number in [1, 2] {
            aggregator.announce(BATCH(number), now).unwrap();
        }
        assert!(matches!(aggregator.announce(BATCH(3), now), Err(Error::Full { what: "batches", .. })));
        let id = send(&mut aggregator, 1, &mut rng).unwrap();
        send(&mut aggregator, 1, &mut rng).unwrap();
        send(&mut aggregator, 2, &mut rng).unwrap();
        assert!(matches!(send(&mut aggregator, 2, &mut rng), Err(Error::Full { what: "reports", .. })));
        assert_eq!(aggregator.close(BATCH(1), now).unwrap().len(), 2);
        aggregator.open(BATCH(1), &[id], now).unwrap();
        // Room again for the report that was left out of the set, and at need for the set's ids.
        for _ in 0..2 {
            send(&mut aggregator, 2, &mut rng).unwrap();
        }
        assert!(matches!(send(&mut aggregator, 2, &mut rng), Err(Error::Full { what: "reports", .. })));
        // The opened batch is forgotten by now, and stays closed.
        assert!(matches!(send(&mut aggregator, 1, &mut rng), Err(Error::NotAnnounced { batch: 1, .. })));
        assert!(matches!(aggregator.announce(BATCH(1), now), Err(Error::Used { batch: 1, above: 1 })));
        aggregator.announce(BATCH(3), now).unwrap();
    }

    /// A stranger who knows no token sends reports to batches of its own choice, twice as many as are kept.
    /// None of them takes room: the announced batch goes on. The control announces a batch for whoever names
    /// one: honest users then find no room.
    #[test]
    fn attack_strangers_cannot_use_up_the_batches() {
        let (mut rng, now) = (ChaCha20Rng::seed_from_u64(7), Instant::now());
        for announced_by_anybody in [false, true] {
            let mut aggregator =
                Aggregator::new(AggregatorLimits { batches: 64, ..AggregatorLimits::default() });
            for number in 1..=128 {
                if announced_by_anybody {
                    let _ = aggregator.announce(BATCH(number), now);
                } else {
                    let refused = send(&mut aggregator, number, &mut rng);
                    assert!(matches!(refused, Err(Error::NotAnnounced { .. })));
                }
            }
            let honest = aggregator.announce(BATCH(1000), now);
            assert_eq!(honest.is_err(), announced_by_anybody);
            assert_eq!(send(&mut aggregator, 1000, &mut rng).is_ok(), !announced_by_anybody);
        }
    }

    /// A collector that names another set at each aggregator gets a uniform residue: chi-square over 16
    /// cells, 15 degrees of freedom, 50 has probability 1e-5.
    #[test]
    fn sets_that_differ_give_nothing() {
        let mut rng = ChaCha20Rng::seed_from_u64(6);
        let mut cells = [0f64; 16];
        for number in 0..4000 {
            let batch = BatchId { number, at_least: 2 };
            let mut pair = [Aggregator::default(), Aggregator::default()];
            let (mut ids, now): (Vec<ReportId>, _) = (Vec::new(), Instant::now());
            pair.iter_mut().for_each(|a| a.announce(batch, now).unwrap());
            for value in 0..3 {
                let both = reports(batch, value, &mut rng);
                ids.push(both[0].id);
                pair.iter_mut().zip(&both).for_each(|(a, r)| a.submit(r, now).unwrap());
            }
            ids.sort();
            pair.iter_mut().for_each(|a| _ = a.close(batch, now).unwrap());
            let [first, second] = &mut pair;
            let shares =
                [first.open(batch, &ids[..2], now).unwrap(), second.open(batch, &ids[1..], now).unwrap()];
            cells[(join(shares).rem_euclid(1 << 64) >> 60) as usize] += 1.0;
        }
        let chi: f64 = cells.iter().map(|n| (n - 250.0).powi(2) / 250.0).sum();
        assert!(chi < 50.0, "{chi}");
    }
}
