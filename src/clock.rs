//! The time by which decisions expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The time in whole seconds since 1970: that of the system, and as much more as it was
/// [advanced](Self::advance). Copies are advanced together.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    ahead: Arc<AtomicU64>,
}

impl Clock {
    /// Moves this clock forward. For tests and simulations.
    pub fn advance(&self, seconds: u64) {
        self.ahead.fetch_add(seconds, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        let system = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        system.saturating_add(self.ahead.load(Ordering::Relaxed))
    }
}
