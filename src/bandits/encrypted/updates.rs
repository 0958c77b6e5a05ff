//! Batch updates, one at a time.

use super::EncryptedServed;
#[cfg(test)]
use super::tests;
use crate::metrics::Step;
use host::lock;
use std::sync::Arc;
use std::time::Instant;

impl EncryptedServed {
    /// Queues the batch update if one is due.
    pub(in crate::bandits) fn update_if_due(self: &Arc<Self>) {
        let due = || {
            let live = lock(&self.live);
            if live.deleted { Ok(None) } else { live.bandit.update() }
        };
        match due() {
            Ok(None) => return,
            Ok(Some(_)) => {}
            Err(error) => return tracing::error!(bandit = self.created.id, %error, "update failed"),
        }
        let pause = lock(&self.pace).pause(Instant::now());
        let served = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            served.queue_update();
        });
    }

    fn queue_update(self: Arc<Self>) {
        let served = self.clone();
        self.shared.updates.clone().queue(move || {
            let inputs = lock(&served.live).bandit.update();
            // Another turn may have computed it.
            let Ok(Some(update)) = inputs else { return };
            let began = Instant::now();
            #[cfg(test)]
            let _counted = tests::Counted::new();
            match rayon::scope(|_| update.run(&served.shared.engine)) {
                Ok(masked) => lock(&served.live).bandit.updated(&update, masked),
                Err(error) => {
                    return tracing::error!(bandit = served.created.id, %error, "update failed");
                }
            }
            let took = began.elapsed();
            lock(&served.pace).update(Instant::now(), took);
            served.shared.stages.metrics.took(Step::Update, took);
            tracing::info!(bandit = served.created.id, seconds = took.as_secs_f64(), "updated");
            served.offer_task();
        });
    }
}
