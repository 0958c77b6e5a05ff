//! Who sent contexts, and whose contexts are evaluated alone.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wire::SenderTag;

/// The most senders that are remembered. One more replaces the one that asked longest ago.
const MOST_SENDERS: usize = 1024;
/// How long a sender is evaluated alone when it is found for the first time. It doubles each time.
const FIRST_TERM: Duration = Duration::from_secs(600);
/// The most doublings.
const MOST_DOUBLINGS: u32 = 6;

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
}

impl Senders {
    /// Whether the contexts of this sender are evaluated alone.
    pub(super) fn is_alone(&mut self, sender: &Sender, now: Instant) -> bool {
        let Some(record) = self.found.get_mut(sender) else { return false };
        record.seen = now;
        now < record.until
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
        self.found.insert(sender, Record { until, times: times + 1, seen: now });
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
}
