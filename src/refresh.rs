//! Batch updates in the background, one at a time. Decisions and feedback go on meanwhile; the masked model
//! that comes out is sent to a user with the next decision.

use crate::store::lock;
use crate::{AppState, Entry, Error, rng};
use std::sync::Arc;

/// Queues the batch update of `entry` if one is due or was interrupted, and none runs or waits. It runs when
/// those before it are done. While it waits it holds neither a thread nor the ciphertexts that it needs.
pub(crate) fn update_if_due(state: &AppState, entry: &Arc<Entry>) {
    let mut live = lock(&entry.live);
    if live.updating || live.gone || !live.bandit.status().updating {
        return;
    }
    live.updating = true;
    drop(live);
    let (state, running) = (state.clone(), Running(entry.clone()));
    tokio::spawn(async move {
        // The semaphore is never closed.
        let Ok(turn) = state.0.updates.clone().acquire_owned().await else { return };
        let work = move || {
            let _turn = turn;
            let entry = running.0.clone();
            let done = update(&state, &entry);
            drop(running);
            match done {
                Ok(Some(seconds)) => {
                    tracing::info!(bandit = entry.created.id, ?seconds, "updated");
                    // The next batch may have closed since the commit.
                    update_if_due(&state, &entry);
                }
                Ok(None) => {}
                Err(Error::UnknownBandit { .. }) => {
                    tracing::info!(bandit = entry.created.id, "deleted while it updated")
                }
                // The batch stays closed, so that the next feedback, or start, tries again.
                Err(error) => tracing::error!(bandit = entry.created.id, %error, "update failed"),
            }
        };
        // A panic has been reported, and the update is over.
        let _ = tokio::task::spawn_blocking(work).await;
    });
}

/// Seconds by phase; `None` if nothing is to be done any more.
fn update(state: &AppState, entry: &Entry) -> Result<Option<Vec<(String, f64)>>, Error> {
    #[cfg(test)]
    let _counted = tests::Counted::new();
    let inputs = {
        let live = lock(&entry.live);
        if live.gone {
            return Err(Error::UnknownBandit { id: entry.created.id.clone() });
        }
        let Some(inputs) = live.bandit.begin_update() else { return Ok(None) };
        inputs
    };
    let output = state.keys()?.engine.update(&inputs, &mut rng()?)?;
    let seconds = output.seconds.clone();
    entry.change(state, |bandit| {
        bandit.finish_update(output);
        Ok(())
    })?;
    Ok(Some(seconds))
}

/// On drop, marks the update as over, even if it panicked or never began.
struct Running(Arc<Entry>);

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.0.live).updating = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Saved, lock};
    use crate::{Kept, Settings};
    use ckks::Ciphertext;
    use helba::{Bandit, Feedback};
    use protocol::{BanditConfig, Shape};
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;
    use wire::PublicBundle;

    /// Updates that run in this process, and the most that ever did.
    static NOW: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);

    pub(super) struct Counted;

    impl Counted {
        pub(super) fn new() -> Self {
            MOST.fetch_max(NOW.fetch_add(1, SeqCst) + 1, SeqCst);
            Counted
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            NOW.fetch_sub(1, SeqCst);
        }
    }

    fn bundle() -> PublicBundle {
        let request = keygen::Request { shape: Shape::for_problem(2, 2), toy: true, created: 0 };
        let (mut public, mut rng) = (Vec::new(), ChaCha20Rng::seed_from_u64(1));
        keygen::generate(request, &mut public, &mut Vec::new(), &mut rng, |_, _| ()).unwrap();
        PublicBundle::read(&public[..]).unwrap()
    }

    /// A bandit whose first batch has just closed, kept and stored as if its feedback had come now.
    fn insert_due(state: &AppState) {
        let (engine, mut rng) = (&state.keys().unwrap().engine, ChaCha20Rng::seed_from_u64(2));
        let mut config = BanditConfig::new(2, 2);
        config.linear.schedule = bandit::Schedule::EveryRound;
        let insert = |id: String| {
            let mut bandit = Bandit::create(engine, config)?;
            let zero = |level| Ciphertext::zero(engine.params(), level);
            let plan = bandit.plan().clone();
            let decided =
                engine.decide(bandit.begin_decision()?, &zero(plan.context_level), &mut rng).unwrap();
            let decision = bandit.finish_decision(engine, decided, &mut rng)?.id;
            let (statistics, trace) = (zero(plan.statistics_level), zero(plan.trace_level));
            let feedback = Feedback { statistics, trace, trace_answer: None, refreshed: None };
            bandit.feedback(engine, decision, feedback)?;
            let mut saved = Saved::default();
            state.0.store.commit(&id, &bandit, &mut saved)?;
            Ok((Kept::Encrypted(Arc::new(Entry::new(engine, id, bandit, saved)?)), ()))
        };
        state.insert(crate::access::About::Encrypted, insert).unwrap();
    }

    /// When as many unanswered decisions are open as are remembered, new ones are refused, and none is
    /// replaced before its hold time is over. The state that every commit writes stays small.
    #[test]
    fn attack_floods_of_decisions_push_out_none() {
        let (folder, hold) = (tempfile::tempdir().unwrap(), Duration::from_secs(60));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _guard = runtime.enter();
        let state = AppState::open(bundle(), folder.path(), Settings::default()).unwrap();
        let (engine, mut rng) = (&state.keys().unwrap().engine, ChaCha20Rng::seed_from_u64(3));
        let bandit = Bandit::create(engine, BanditConfig::new(2, 2)).unwrap();
        let contexts = Ciphertext::zero(engine.params(), bandit.plan().context_level);
        let output = engine.decide(bandit.begin_decision().unwrap(), &contexts, &mut rng).unwrap();
        let entry = Entry::new(engine, "x".into(), bandit, Saved::default()).unwrap();
        let mut live = lock(&entry.live);
        let mut decided = 0;
        let refused = loop {
            if let Err(error) = live.check_room(hold) {
                break error;
            }
            assert!(decided <= 1024, "never refused");
            let reply = live.bandit.finish_decision(engine, output.clone(), &mut rng).unwrap();
            live.note(reply.round, hold);
            decided += 1;
        };
        assert!(matches!(refused, Error::TooManyOpen { limit: 1024, wait: 1..=60 }), "{refused}");
        assert_eq!(live.bandit.status().pending_decisions, decided);
        assert!(decided > 1000 && live.bandit.oldest_pending() == Some(1));
        assert!(live.bandit.save().0.len() < 256 << 10, "{}", live.bandit.save().0.len());
        assert!(live.check_room(Duration::ZERO).is_ok(), "control");
        live.made.clear();
        assert!(live.check_room(hold).is_ok(), "made before this process began");
    }

    fn entries(state: &AppState) -> Vec<Arc<Entry>> {
        let encrypted = |kept| if let Kept::Encrypted(entry) = kept { Some(entry) } else { None };
        state.all().into_iter().filter_map(encrypted).collect()
    }

    /// The most updates that ran at once until none was due any more.
    async fn work_off(state: &AppState) -> usize {
        MOST.store(0, SeqCst);
        entries(state).iter().for_each(|entry| update_if_due(state, entry));
        let busy = |entry: &Arc<Entry>| {
            let live = lock(&entry.live);
            live.updating || live.bandit.status().updating
        };
        while entries(state).iter().any(busy) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(entries(state).iter().all(|entry| lock(&entry.live).bandit.status().refresh_due));
        MOST.load(SeqCst)
    }

    /// However many batch updates are due, one runs at a time: when their feedback comes at once, and at a
    /// start. With more permits they run side by side, which the counter shows.
    #[test]
    fn attack_updates_due_at_once_run_one_after_the_other() {
        const DUE: usize = 5;
        let (folder, bundle) = (tempfile::tempdir().unwrap(), bundle());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let open = || AppState::open(bundle.clone(), folder.path(), Settings::default()).unwrap();
            let state = open();
            (0..DUE).for_each(|_| insert_due(&state));
            // None was started: they are due at the next start.
            drop(state);
            assert_eq!(work_off(&open()).await, 1, "at the start");
        });
        runtime.block_on(async {
            let other = tempfile::tempdir().unwrap();
            let state = AppState::open(bundle.clone(), other.path(), Settings::default()).unwrap();
            (0..DUE).for_each(|_| insert_due(&state));
            assert_eq!(work_off(&state).await, 1, "while it runs");
            let other = tempfile::tempdir().unwrap();
            let state = AppState::open(bundle, other.path(), Settings::default()).unwrap();
            state.0.updates.add_permits(DUE);
            (0..DUE).for_each(|_| insert_due(&state));
            assert!(work_off(&state).await > 1, "control");
        });
    }
}
