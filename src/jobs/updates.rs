//! Batch updates in the background, one at a time, because each uses every thread and some hundred MB.
//! Decisions and feedback continue meanwhile.

use std::sync::Arc;
use tokio::sync::Semaphore;

/// A queue of batch updates. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Updates(Arc<Semaphore>);

impl Updates {
    /// An empty queue. One update runs at a time, and the others wait.
    pub(crate) fn new() -> Self {
        Updates(Arc::new(Semaphore::new(1)))
    }

    /// Runs `update` after those before it. Must be called within a tokio runtime.
    pub(crate) fn queue(self, update: impl FnOnce() + Send + 'static) {
        tokio::spawn(async move {
            // The semaphore is never closed.
            let Ok(turn) = self.0.acquire_owned().await else { return };
            let work = move || {
                let _turn = turn;
                update();
            };
            // The runtime has reported a panic, and the update is over.
            let _ = tokio::task::spawn_blocking(work).await;
        });
    }

    /// Lets more updates run at a time.
    #[cfg(test)]
    pub(crate) fn allow_more(&self, permits: usize) {
        self.0.add_permits(permits);
    }
}
