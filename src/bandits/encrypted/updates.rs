//! Batch updates, one at a time.

use super::EncryptedServed;
use super::pool::blocking;
#[cfg(test)]
use super::tests;
use crate::metrics::Step;
use host::lock;
use protocol::Updates;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

    /// Offers the first step of the next update by products when it may begin.
    pub(super) fn offer_after_pause(self: &Arc<Self>) {
        let pause = lock(&self.pace).pause(Instant::now());
        if self.created.plan.updates == Updates::Products && !pause.is_zero() {
            let served = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                let offer = move || {
                    served.offer_task();
                    Ok(())
                };
                // The process ends if that fails.
                let _ = blocking(offer).await;
            });
        }
    }

    /// Notes that an update ends whose last step, or only one, took so long.
    pub(super) fn updated(&self, took: Duration) -> Duration {
        let mut pace = lock(&self.pace);
        pace.step(took);
        pace.update(Instant::now())
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
            served.updated(took);
            served.shared.stages.metrics.took(Step::Update, took);
            tracing::info!(bandit = served.created.id, seconds = took.as_secs_f64(), "updated");
            served.offer_task();
        });
    }
}
