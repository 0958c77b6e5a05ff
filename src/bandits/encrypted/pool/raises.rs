//! Who is asked for a task: raisers who wait, the next raiser who comes, or users of an evaluation.

use super::{AskedOwn, Awaited, EncryptedServed, Holder, Pool, Queued, User, blocking};
use crate::error::Error;
use helba::{Event, Task};
use host::{lock, os_rng};
use protocol::products::ProductStep;
use protocol::{TaskKind, Updates, UserKeys};
use rand::Rng;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use wire::{DecideReply, RaiseTask, Ticket};

/// The time after which a task of the bandit's own is given to the next raiser.
const TASK_PATIENCE: Duration = Duration::from_secs(5);

/// Whether a task is the first step of an update by products.
fn begins(task: &Task) -> bool {
    matches!(task.kind, TaskKind::Product { step: ProductStep::Statistics, .. })
}

/// Who has the task of a raise.
pub(super) enum GivenTo {
    /// A raiser that waited, or a user.
    Raiser,
    /// Nobody yet: a raiser was here a moment ago, and finds the task when it comes back.
    Queued,
    /// Nobody: all were asked before.
    Nobody,
}

/// An evaluation that waits for its raise. Dropped, it takes no raise any more, and its tickets are void.
pub(super) struct Raising<'a> {
    pool: &'a Mutex<Pool>,
    task: u64,
    pub(super) tickets: Vec<Ticket>,
}

impl Drop for Raising<'_> {
    fn drop(&mut self) {
        let mut pool = lock(self.pool);
        pool.raising.remove(&self.task);
        pool.fetched.remove(&self.task);
        pool.withdraw(self.task);
        self.tickets.iter().for_each(|ticket| drop(pool.tickets.remove(ticket)));
    }
}

impl EncryptedServed {
    /// Lets that come which an evaluation waits for.
    pub(super) fn begin(&self, task: u64, awaited: Awaited) -> Result<Raising<'_>, Error> {
        let mut pool = lock(&self.pool);
        if lock(&self.live).deleted {
            return Err(self.deleted());
        }
        pool.raising.insert(task, awaited);
        drop(pool);
        Ok(Raising { pool: &self.pool, task, tickets: Vec::new() })
    }

    /// Asks the next raiser for a task, together with a task of the bandit's own if one waits that every
    /// holder of the key may answer.
    pub(super) fn ask(
        self: &Arc<Self>,
        task: &RaiseTask,
        users: &mut [User],
        asked: &mut usize,
        tickets: &mut Vec<Ticket>,
        queued: &mut bool,
    ) -> Result<GivenTo, Error> {
        let mut tasks = vec![task.clone()];
        // A user may be one who must not answer a step of an update by products.
        if self.created.plan.updates == Updates::Slots {
            tasks.extend(self.own_task(None));
        }
        let mut pool = lock(&self.pool);
        let Err(mut tasks) = pool.give(tasks, |_| true) else { return Ok(GivenTo::Raiser) };
        if !*queued && pool.has_raiser() {
            *queued = true;
            pool.queued.push_back(Queued { tasks, not: Vec::new() });
            return Ok(GivenTo::Queued);
        }
        pool.withdraw(task.id);
        while let Some(user) = users.get_mut(*asked) {
            *asked += 1;
            if user.sender.is_closed() {
                continue;
            }
            let mut ticket = Ticket([0; 16]);
            os_rng()?.fill_bytes(&mut ticket.0);
            let (sender, receiver) = oneshot::channel();
            let waiting = std::mem::replace(&mut user.sender, sender);
            match waiting.send(Ok(DecideReply { decision: None, ticket: Some(ticket), tasks })) {
                Ok(()) => {
                    pool.tickets.insert(ticket, receiver);
                    tickets.push(ticket);
                    return Ok(GivenTo::Raiser);
                }
                Err(back) => tasks = back.map(|reply| reply.tasks).unwrap_or_default(),
            }
        }
        Ok(GivenTo::Nobody)
    }

    /// The task of the bandit's own for a device, unless a raiser that comes and goes answers it. `raises`
    /// says whether the device may answer every task, as updates by products and users' own keys want it.
    pub(in crate::bandits::encrypted) fn task_for(&self, raises: bool) -> Option<RaiseTask> {
        let plan = &self.created.plan;
        let may = raises || (plan.updates, plan.keys) == (Updates::Slots, UserKeys::Shared);
        if may && !lock(&self.pool).has_raiser() { self.own_task(None) } else { None }
    }

    /// The task of the bandit's own, for the holder `to` who came for tasks, or for somebody else. `None`
    /// while somebody has it, or others than `to` are asked; and for the first step of an update by products
    /// while many ask and another update has ended a moment ago
    /// ([`Pace`](crate::bandits::encrypted::pace::Pace)). The events that it follows from are on disk when
    /// this returns: after a loss of power the same task would else have another mask, or another sum.
    pub(in crate::bandits::encrypted) fn own_task(&self, to: Option<&Holder>) -> Option<RaiseTask> {
        let (Task { id, kind, masked }, written) = {
            let mut pool = lock(&self.pool);
            let mut live = lock(&self.live);
            let task = live.bandit.task()?;
            let given = pool.asked.as_ref().filter(|asked| asked.task == task.id);
            let is_new = given.is_none();
            if let Some(given) = given {
                if given.when.elapsed() < TASK_PATIENCE {
                    return None;
                }
                // One who is alone may be slow, and is asked for stages all the same.
                if let Some(silent) = given.to.clone().filter(|silent| pool.has_another(silent)) {
                    pool.holders.rest(&silent, task.id, Instant::now());
                }
            }
            if to.is_some_and(|to| pool.is_passed_over(to)) {
                return None;
            }
            let (task, written) = match is_new && begins(&task) {
                true if !lock(&self.pace).pause(Instant::now()).is_zero() => return None,
                true if live.bandit.closes_early() => {
                    let more = live.change(&self.shared.engine, &Event::Closed).map(|more| more.ticket);
                    (live.bandit.task()?, more)
                }
                _ => (task, live.flush()),
            };
            pool.asked = Some(AskedOwn { task: task.id, when: Instant::now(), to: to.cloned() });
            (task, written)
        };
        if let Err(error) = written.and_then(|written| Ok(written.wait()?)) {
            tracing::error!(bandit = self.created.id, %error, "a task is not given out");
            lock(&self.pool).asked = None;
            return None;
        }
        let masked = Arc::unwrap_or_clone(masked);
        let masked = match kind {
            TaskKind::Model | TaskKind::Answers => {
                let deep = self.shared.engine.deep();
                ckks::write_ciphertext(deep.params(), deep.key_id(), &masked)
            }
            TaskKind::Scores { .. }
            | TaskKind::Sum
            | TaskKind::Product { .. }
            | TaskKind::Stage { .. }
            | TaskKind::Pads => self.small_frame(masked),
        };
        Some(RaiseTask { id, kind, masked: vec![masked], pads: Vec::new() })
    }

    /// Gives the task of the bandit's own to a raiser that waits.
    pub(in crate::bandits) fn offer_task(self: &Arc<Self>) {
        if lock(&self.pool).raisers.iter().all(|(_, raiser)| raiser.is_closed()) {
            return;
        }
        let Some(task) = self.own_task(None) else { return };
        let id = task.id;
        let mut pool = lock(&self.pool);
        let passed_over: Vec<Holder> = pool
            .raisers
            .iter()
            .map(|(holder, _)| holder)
            .filter(|of| pool.is_passed_over(of))
            .cloned()
            .collect();
        match pool.give(vec![task], |holder| !passed_over.contains(holder)) {
            Ok(holder) => {
                pool.asked = Some(AskedOwn { task: id, when: Instant::now(), to: Some(holder) });
                self.offer_again(id);
            }
            // All are gone: the next one who comes is asked.
            Err(_) => pool.asked = None,
        }
    }

    /// Offers a task of the bandit's own to another raiser who waits, if the one who has it is silent.
    pub(in crate::bandits::encrypted) fn offer_again(self: &Arc<Self>, task: u64) {
        let served = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(TASK_PATIENCE).await;
            let waits = move || {
                if lock(&served.live).bandit.task().is_some_and(|waits| waits.id == task) {
                    served.offer_task();
                }
                Ok(())
            };
            // The process ends if that fails.
            let _ = blocking(waits).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An evaluation that ends leaves nothing behind, however it ends: no raise, no ticket, no task in the
    /// queue.
    #[test]
    fn evaluations_leave_nothing_behind() {
        let pool: Mutex<Pool> = Mutex::default();
        for id in 0..100 {
            let (sender, _raised) = oneshot::channel();
            let ticket = Ticket([id as u8; 16]);
            let task = RaiseTask { id, kind: TaskKind::Sum, masked: vec![vec![1]], pads: Vec::new() };
            {
                let mut pool = lock(&pool);
                pool.raising.insert(id, Awaited::Scores(sender, 0));
                pool.tickets.insert(ticket, oneshot::channel().1);
                pool.queued.push_back(Queued { tasks: vec![task], not: Vec::new() });
                pool.fetched.insert(id, "one".into());
                pool.asked = Some(AskedOwn { task: id, when: Instant::now(), to: None });
            }
            drop(Raising { pool: &pool, task: id, tickets: vec![ticket] });
        }
        let pool = lock(&pool);
        assert!(pool.raising.is_empty() && pool.tickets.is_empty());
        assert!(pool.queued.is_empty() && pool.fetched.is_empty());
        assert!(pool.asked.is_none(), "a task that nobody came for is given to the next raiser");
    }
}
