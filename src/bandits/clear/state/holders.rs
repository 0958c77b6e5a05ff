//! Who holds the decisions without feedback, so that no sender keeps a bandit from others.
//!
//! While others ask, a sender gets a place only if it holds fewer than are left, counted with those that it
//! let expire within the wait time. So half is left for the others, half of the rest for the third, and
//! whoever answers nothing gets no place twice. A sender alone has no bound of its own. Nothing of this is
//! stored: after a restart the decisions that are open count as nobody's.

use super::{Digest, Open, Receipt};
use crate::store::Recent;
use protocol::DecisionId;
use std::collections::{BTreeMap, VecDeque};

/// Token and site of a sender, as a digest.
pub(super) type Holder = Digest;

/// The decisions of each sender that wait for feedback, or have expired.
#[derive(Clone, Default)]
pub(super) struct Holders {
    open: BTreeMap<DecisionId, Holder>,
    /// When the expiry of a decision is forgotten, and whose it was.
    expired: VecDeque<(u64, Holder)>,
    /// The last two senders, and when they asked.
    last: [Option<(u64, Holder)>; 2],
}

impl Holders {
    /// Takes note that `holder` asks, and of the decisions that have got feedback or have expired.
    pub(super) fn ask(
        &mut self,
        holder: Holder,
        (now, wait): (u64, u64),
        open: &Recent<DecisionId, Open>,
        receipts: &Recent<DecisionId, Receipt>,
    ) {
        if self.last[0].is_none_or(|(_, last)| last != holder) {
            self.last = [None, self.last[0]];
        }
        self.last[0] = Some((now, holder));
        let is_open = |id| open.get(id).is_some_and(|row| row.given.is_none() && row.at + wait > now);
        let over: Vec<_> =
            self.open.iter().filter(|(id, _)| !is_open(id)).map(|(id, of)| (*id, *of)).collect();
        for (id, of) in over {
            self.open.remove(&id);
            let expired = open.get(&id).is_some_and(|row| row.given.is_none())
                || matches!(receipts.get(&id), Some(Receipt::Expired { .. }));
            if expired {
                self.expired.push_back((now.saturating_add(wait), of));
            }
        }
        self.expired.retain(|(until, _)| *until > now);
    }

    /// Whether `holder` may have one more decision, with `free` places left.
    pub(super) fn admits(&self, holder: Holder, free: u64, (now, wait): (u64, u64)) -> bool {
        let asks = |(at, other): &(u64, Holder)| *other != holder && at.saturating_add(wait) > now;
        if !self.last.iter().flatten().any(asks) {
            return true;
        }
        let held = self.open.values().filter(|of| **of == holder).count();
        let expired = self.expired.iter().filter(|(_, of)| *of == holder).count();
        ((held + expired) as u64) < free
    }

    /// Takes note of a decision that waits for feedback.
    pub(super) fn hold(&mut self, id: DecisionId, holder: Holder) {
        self.open.insert(id, holder);
    }
}
