//! Holders of the key who come for tasks, told apart by their tokens: who is here, and who was silent.

use super::RAISER_RETURNS;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time for which a holder is not asked for stages after it was silent, nor for a task of the bandit's
/// own while there is another one.
const REST: Duration = Duration::from_secs(60);

/// A holder of the key: what tells its token apart from others. Programs with one token are one holder.
pub(in crate::bandits::encrypted) type Holder = Arc<str>;

/// The holders of the key of one bandit who were here in the last minute.
#[derive(Default)]
pub(super) struct Holders(HashMap<Holder, Record>);

struct Record {
    /// When it waited for tasks last.
    seen: Instant,
    /// The task that it did not answer in time, and when its rest ends.
    rests: Option<(u64, Instant)>,
}

impl Holders {
    /// Notes that a holder waits for tasks.
    pub(super) fn see(&mut self, holder: &Holder, now: Instant) {
        self.0.retain(|_, record| record.rests.map_or(record.seen + REST, |(_, until)| until) > now);
        self.0.entry(holder.clone()).or_insert(Record { seen: now, rests: None }).seen = now;
    }

    /// Whether some holder waited a moment ago.
    pub(super) fn any(&self, now: Instant) -> bool {
        self.0.values().any(|record| record.is_here(now))
    }

    /// Those who can be asked for a stage, since they wait, or did a moment ago, and do not rest; and the
    /// others.
    pub(super) fn to_ask(&self, waits: impl Fn(&Holder) -> bool, now: Instant) -> [Vec<Holder>; 2] {
        let (asked, others): (Vec<_>, Vec<_>) = self
            .0
            .iter()
            .partition(|(holder, record)| !record.is_resting(now) && (record.is_here(now) || waits(holder)));
        [asked, others].map(|of| of.into_iter().map(|(holder, _)| holder.clone()).collect())
    }

    /// Whether a holder rests, since it was silent.
    pub(super) fn rests(&self, holder: &Holder, now: Instant) -> bool {
        self.0.get(holder).is_some_and(|record| record.is_resting(now))
    }

    /// Notes that a holder did not answer this task in time.
    pub(super) fn rest(&mut self, holder: &Holder, task: u64, now: Instant) {
        let record = self.0.entry(holder.clone()).or_insert(Record { seen: now, rests: None });
        record.rests = Some((task, now + REST));
    }

    /// Notes that a holder answered this task. One that was late is slow, and not silent: its rest ends.
    pub(super) fn answered(&mut self, holder: &Holder, task: u64) {
        if let Some(record) = self.0.get_mut(holder) {
            record.rests.take_if(|(missed, _)| *missed == task);
        }
    }
}

impl Record {
    fn is_resting(&self, now: Instant) -> bool {
        self.rests.is_some_and(|(_, until)| now < until)
    }

    fn is_here(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.seen) < 2 * RAISER_RETURNS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A holder that was silent is not asked for a minute, unless it answers what it was asked for; another
    /// one is.
    #[test]
    fn silent_holders_rest_for_a_minute() {
        let (mut holders, now) = (Holders::default(), Instant::now());
        let [one, other]: [Holder; 2] = ["one", "other"].map(Arc::from);
        [&one, &other].into_iter().for_each(|holder| holders.see(holder, now));
        holders.rest(&one, 7, now);
        let asked = |holders: &Holders, after: Duration| {
            let [mut asked, _] = holders.to_ask(|_| true, now + after);
            asked.sort();
            asked
        };
        let (both, other_alone) = ([one.clone(), other.clone()], [other]);
        assert_eq!(asked(&holders, Duration::from_secs(59)), other_alone);
        assert_eq!(asked(&holders, REST), both);
        holders.answered(&one, 8);
        assert_eq!(asked(&holders, Duration::ZERO), other_alone, "another task");
        holders.answered(&one, 7);
        assert_eq!(asked(&holders, Duration::ZERO), both);
        // Who left is not asked.
        assert!(holders.to_ask(|_| false, now + 2 * RAISER_RETURNS)[0].is_empty());
        assert!(holders.any(now + RAISER_RETURNS) && !holders.any(now + 2 * RAISER_RETURNS));
    }
}
