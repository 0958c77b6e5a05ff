//! Tells for how many members of a committee a request waits.

use crate::Client;
use host::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The time after which a user is told for whom a request waits, and between two looks at who is here.
const NOTICE: Duration = Duration::from_secs(3);

/// What is told of the requests of a client that members answer.
pub(crate) struct Notice {
    tell: Box<dyn Fn(&str) + Send + Sync>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// Since when each request waits, by its number.
    since: BTreeMap<u64, Instant>,
    requests: u64,
    /// Whether a thread looks at them.
    watched: bool,
}

/// A request that waits, until it is dropped.
pub(crate) struct Waits(Arc<Notice>, u64);

impl Drop for Waits {
    fn drop(&mut self) {
        lock(&self.0.waiting).since.remove(&self.1);
    }
}

impl Notice {
    pub(crate) fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Notice { tell: Box::new(tell), waiting: Mutex::default() })
    }

    /// A request of this client begins to wait.
    pub(crate) fn waits(self: &Arc<Self>, client: &Client) -> Waits {
        let mut waiting = lock(&self.waiting);
        waiting.requests += 1;
        let number = waiting.requests;
        waiting.since.insert(number, Instant::now());
        if !std::mem::replace(&mut waiting.watched, true) {
            let (notice, client) = (self.clone(), client.clone());
            // Nobody waits for this thread: it may still wait for the server when the last answer is there.
            std::thread::spawn(move || notice.watch(&client));
        }
        Waits(self.clone(), number)
    }

    /// Tells after three seconds of a wait how many members are here and how many are needed, and again
    /// whenever that changes, until nothing waits.
    fn watch(&self, client: &Client) {
        let mut told = None;
        loop {
            let longest = {
                let mut waiting = lock(&self.waiting);
                let Some(since) = waiting.since.values().next() else {
                    waiting.watched = false;
                    return;
                };
                since.elapsed()
            };
            if longest < NOTICE {
                told = None;
                std::thread::sleep(NOTICE - longest);
                continue;
            }
            if let Ok(members) = client.members_here() {
                let now = (members.here.len(), members.needed);
                if told.replace(now) != Some(now) {
                    let (here, needed) = now;
                    (self.tell)(&format!(
                        "waits for members: {here} of the committee are here, and {needed} are needed"
                    ));
                }
            }
            std::thread::sleep(NOTICE);
        }
    }
}
