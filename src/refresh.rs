//! Batch updates in the background. Decisions and feedback go on meanwhile; the masked model that comes out is sent to a
//! user with the next decision.

use crate::store::lock;
use crate::{AppState, Entry, Error, rng};
use helba::UpdateInputs;
use std::sync::Arc;

/// Starts the batch update of `entry` if one is due, or was interrupted, and none runs.
pub(crate) fn update_if_due(state: &AppState, entry: &Arc<Entry>) {
    let mut live = lock(&entry.live);
    if live.updating {
        return;
    }
    let Some(inputs) = live.bandit.begin_update() else { return };
    live.updating = true;
    drop(live);
    let (state, entry) = (state.clone(), entry.clone());
    tokio::task::spawn_blocking(move || {
        let running = Running(&entry);
        let done = update(&state, &entry, &inputs);
        drop(running);
        match done {
            Ok(seconds) => {
                tracing::info!(bandit = entry.created.id, ?seconds, "updated");
                // The next batch may have closed since the commit.
                update_if_due(&state, &entry);
            }
            Err(Error::UnknownBandit { .. }) => {
                tracing::info!(bandit = entry.created.id, "deleted while it updated")
            }
            // The batch stays closed, so that the next feedback, or start, tries again.
            Err(error) => tracing::error!(bandit = entry.created.id, %error, "update failed"),
        }
    });
}

fn update(state: &AppState, entry: &Entry, inputs: &UpdateInputs) -> Result<Vec<(String, f64)>, Error> {
    let output = state.keys()?.engine.update(inputs, &mut rng()?)?;
    let seconds = output.seconds.clone();
    entry.change(state, |bandit| {
        bandit.finish_update(output);
        Ok(())
    })?;
    Ok(seconds)
}

/// Says that the update is over, even if it panicked.
struct Running<'a>(&'a Entry);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        lock(&self.0.live).updating = false;
    }
}
