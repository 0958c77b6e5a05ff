//! Who sent contexts, and whose contexts are evaluated alone.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use wire::SenderTag;

/// The most senders that are remembered. One more replaces the one that asked longest ago.
const MOST_SENDERS: usize = 1024;
/// How long a sender is evaluated alone when it is found for the first time. It doubles each time.
const FIRST_TERM: Duration = Duration::from_secs(600);
/// The most doublings.
const MOST_DOUBLINGS: u32 = 6;
/// The most requests of a sender that wait to be evaluated alone, so that one sender does not take the places
/// of all.
const MOST_WAITING: usize = 4;

/// A sender of contexts: the tag that it made, and the site of its connection. Senders without a tag at one
/// site are one sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Sender {
    pub(crate) tag: Option<SenderTag>,
    pub(crate) site: IpAddr,
}

impl std::fmt::Display for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.tag {
            Some(tag) => write!(f, "{tag} at {}", self.site),
            None => write!(f, "without a tag at {}", self.site),
        }
    }
}

/// The senders whose contexts spoilt evaluations. They are forgotten when the server stops.
#[derive(Default)]
pub(super) struct Senders {
    found: HashMap<Sender, Record>,
}

struct Record {
    /// The sender is evaluated alone until then.
    until: Instant,
    times: u32,
    /// When it was found, or asked last.
    seen: Instant,
    /// The places of its requests that wait.
    places: Arc<Semaphore>,
}

impl Senders {
    /// Whether the contexts of this sender are evaluated alone.
    pub(super) fn is_alone(&mut self, sender: &Sender, now: Instant) -> bool {
        let Some(record) = self.found.get_mut(sender) else { return false };
        record.seen = now;
        now < record.until
    }

    /// The places of the requests of this sender that wait, if its contexts are evaluated alone.
    pub(super) fn places(&mut self, sender: &Sender, now: Instant) -> Option<Arc<Semaphore>> {
        let alone = self.is_alone(sender, now);
        self.found.get(sender).filter(|_| alone).map(|record| record.places.clone())
    }

    /// The number of senders that are evaluated alone.
    pub(super) fn alone(&self, now: Instant) -> usize {
        self.found.values().filter(|record| now < record.until).count()
    }

    /// Evaluates the contexts of this sender alone from now on, for longer each time.
    pub(super) fn find(&mut self, sender: Sender, now: Instant) {
        let times = self.found.get(&sender).map_or(0, |record| record.times);
        if times == 0 && self.found.len() == MOST_SENDERS {
            let oldest = self.found.iter().min_by_key(|(_, record)| record.seen).map(|(sender, _)| *sender);
            oldest.and_then(|oldest| self.found.remove(&oldest));
        }
        let until = now + FIRST_TERM * (1 << times.min(MOST_DOUBLINGS));
        let places = self.found.get(&sender).map(|record| record.places.clone());
        let places = places.unwrap_or_else(|| Arc::new(Semaphore::new(MOST_WAITING)));
        self.found.insert(sender, Record { until, times: times + 1, seen: now, places });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn sender(number: u32) -> Sender {
        let mut tag = [0; 16];
        tag[..4].copy_from_slice(&number.to_le_bytes());
        Sender { tag: Some(SenderTag(tag)), site: Ipv4Addr::LOCALHOST.into() }
    }

    /// A sender is evaluated alone for its term, which doubles each time, and no longer than that.
    #[test]
    fn terms_end_and_double() {
        let (mut senders, mut now) = (Senders::default(), Instant::now());
        assert!(!senders.is_alone(&sender(1), now));
        for doublings in [0, 1, 2, 3, 4, 5, 6, 6, 6] {
            senders.find(sender(1), now);
            let term = FIRST_TERM * (1 << doublings);
            assert!(senders.is_alone(&sender(1), now + term - Duration::from_secs(1)));
            assert!(!senders.is_alone(&sender(1), now + term) && !senders.is_alone(&sender(2), now));
            now += term;
        }
        let elsewhere = Sender { site: Ipv4Addr::UNSPECIFIED.into(), ..sender(1) };
        senders.find(sender(1), now);
        assert!(!senders.is_alone(&elsewhere, now) && senders.is_alone(&sender(1), now));
        assert_eq!(senders.alone(now), 1);
    }

    /// However many senders are found, a bounded number is remembered, and among them those that still ask.
    #[test]
    fn attack_many_senders_take_bounded_memory() {
        let (mut senders, start) = (Senders::default(), Instant::now());
        for number in 0..3 * MOST_SENDERS as u32 {
            let now = start + Duration::from_millis(number.into());
            senders.find(sender(number), now);
            assert!(senders.is_alone(&sender(0), now), "it asks all the time");
            assert!(senders.found.len() <= MOST_SENDERS);
        }
        let now = start + Duration::from_secs(10);
        assert!(!senders.is_alone(&sender(1), now), "it has not asked for longest");
    }

    /// A sender that asks without end leaves places for others that are evaluated alone, also after it was
    /// found once more.
    #[test]
    fn attack_a_sender_takes_a_few_of_the_places_alone() {
        let (mut senders, now) = (Senders::default(), Instant::now());
        assert!(senders.places(&sender(1), now).is_none(), "it waits with others");
        (1..3).for_each(|number| senders.find(sender(number), now));
        let all = Arc::new(Semaphore::new(super::super::MOST_ALONE));
        let mut ask = |number: u32, now: Instant| {
            let own = senders.places(&sender(number), now)?.try_acquire_owned().ok()?;
            Some((own, all.clone().try_acquire_owned().ok()?))
        };
        let held: Vec<_> = (0..2 * super::super::MOST_ALONE).map_while(|_| ask(1, now)).collect();
        assert_eq!(held.len(), MOST_WAITING);
        assert!(ask(2, now).is_some());
        let later = now + FIRST_TERM;
        assert!(ask(1, later).is_none(), "its term is over");
        senders.find(sender(1), later);
        assert!(senders.places(&sender(1), later).unwrap().try_acquire().is_err());
        drop(held);
        assert!(senders.places(&sender(1), later).unwrap().try_acquire().is_ok());
    }
}
