//! The contexts that a bandit of a committee has taken.
//!
//! Members open contexts in one evaluation, and refuse every other evaluation that has them. Whoever sent
//! contexts again would have the answers of all users in its pack refused, so that the server takes them
//! once.

use std::collections::{HashSet, VecDeque};

/// The most contexts that are remembered, which are more than any keys of a committee are good for.
const MOST: usize = 1 << 16;

/// The hashes of contexts that were taken. They are forgotten when the server stops.
#[derive(Default)]
pub(super) struct Uploads {
    taken: HashSet<[u8; 32]>,
    order: VecDeque<[u8; 32]>,
}

impl Uploads {
    /// Whether contexts with this hash were taken.
    pub(super) fn has(&self, hash: &[u8; 32]) -> bool {
        self.taken.contains(hash)
    }

    /// Takes contexts with this hash, and returns whether they are new.
    pub(super) fn take(&mut self, hash: [u8; 32]) -> bool {
        if !self.taken.insert(hash) {
            return false;
        }
        if self.order.len() == MOST {
            self.order.pop_front().into_iter().for_each(|oldest| _ = self.taken.remove(&oldest));
        }
        self.order.push_back(hash);
        true
    }

    /// Forgets contexts whose evaluation ended before members were asked to open it: their devices send them
    /// again.
    pub(super) fn forget(&mut self, hashes: &[[u8; 32]]) {
        hashes.iter().for_each(|hash| _ = self.taken.remove(hash));
        self.order.retain(|hash| !hashes.contains(hash));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many contexts are sent, a bounded number of hashes is remembered, and the last ones are.
    #[test]
    fn attack_many_contexts_take_bounded_memory() {
        let hash = |number: usize| *blake3::hash(&number.to_le_bytes()).as_bytes();
        let mut uploads = Uploads::default();
        assert!((0..MOST + 10).all(|number| uploads.take(hash(number))));
        assert_eq!((uploads.taken.len(), uploads.order.len()), (MOST, MOST));
        assert!(!uploads.take(hash(MOST)) && uploads.has(&hash(10)) && !uploads.has(&hash(9)));
        uploads.forget(&[hash(MOST), hash(11)]);
        assert_eq!((uploads.taken.len(), uploads.order.len()), (MOST - 2, MOST - 2));
        assert!(uploads.take(hash(MOST)) && !uploads.take(hash(MOST)));
    }
}
