//! What raisers are asked for, and what they answer.

use super::EncryptedServed;
use super::pool::{Given, Holder, Outcome, Pads, Staged, Wanted, blocking};
use crate::access::Caller;
use crate::bandits::{BodyLimit, Reply};
use crate::error::Error;
use helba::{Applied, Event};
use host::lock;
use protocol::{Exchanging, Updates, UserKeys};
use service::{Body, Content};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot::Receiver;
use wire::{DecideReply, Nonce, Raised, Raises, Ticket};

/// The longest time for which a request for tasks may wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

impl EncryptedServed {
    /// Checks a caller before its body is read, where no user is asked for a raise.
    pub(crate) fn check_raiser(&self, caller: &Caller) -> Result<(), Error> {
        match (self.created.plan.exchanges, self.created.plan.keys) {
            (Exchanging::One, UserKeys::Shared) => Ok(()),
            (Exchanging::Staged, _) | (_, UserKeys::Own) => caller.check_raises_all(),
        }
    }

    /// The longest body of raises.
    pub(crate) fn raises_body(&self) -> BodyLimit {
        BodyLimit { bytes: self.limits.raises(), content: Content::Binary }
    }

    /// Takes the answers of a raiser. A user who was asked in place of its answer gets its answer here. A
    /// `caller` whose token permits decisions only raises scores, under the ticket of its request. One that
    /// may answer every task gets the next step of an update by products at once.
    pub(crate) async fn raises(self: Arc<Self>, body: Body, caller: Caller) -> Result<Reply, Error> {
        let turn = self.shared.stages.raises.clone().acquire_owned().await;
        let (served, raises) = (self.clone(), caller.check_raises_all().is_ok());
        let work = move || {
            let _turn = turn;
            served.take_raises(&body, &caller)
        };
        let waits = blocking(work).await?;
        let mut reply = match waits {
            Some(outcome) => outcome.await.map_err(|_| Error::Broken("an evaluation that was dropped"))??,
            None => DecideReply::default(),
        };
        if self.created.plan.updates == Updates::Products && reply.tasks.is_empty() {
            let served = self.clone();
            reply.tasks.extend(blocking(move || Ok(served.task_for(raises))).await?);
        }
        Ok(Reply::Binary(reply.to_bytes()))
    }

    fn take_raises(
        self: &Arc<Self>,
        body: &[u8],
        caller: &Caller,
    ) -> Result<Option<Receiver<Outcome>>, Error> {
        let message = Raises::read(body, &self.limits)?;
        let all = || caller.check_raises_all();
        let asked = message.ticket.is_some_and(|ticket| lock(&self.pool).has_ticket(ticket));
        // Whoever is too late learns that.
        let owner = |task| lock(&self.pool).waits(task).and_then(|_| all());
        let scores = |task| if asked { Ok(()) } else { owner(task) };
        let holder = Holder::from(caller.identity());
        let (mut outcome, mut refused) = (None, None);
        for (task, raised) in message.raised {
            let done = match raised {
                raised @ (Raised::Padded { .. } | Raised::Pads { .. }) => {
                    all().and_then(|()| self.take_evaluation((task, &holder), &raised, None, &mut outcome))
                }
                Raised::Exchanged(frames) => {
                    // Of an evaluation in stages, or of an update by products.
                    let staged = lock(&self.pool).waits(task).is_ok();
                    all().and_then(|()| match staged {
                        true => {
                            let raised = Raised::Exchanged(frames);
                            self.take_evaluation((task, &holder), &raised, None, &mut outcome)
                        }
                        false => self.answer_task(task, Event::Exchanged { task, frames }),
                    })
                }
                raised @ (Raised::Scores(_) | Raised::Answers(_)) => scores(task).and_then(|()| {
                    self.take_evaluation((task, &holder), &raised, message.ticket, &mut outcome)
                }),
                Raised::Sum(frame) => {
                    all().and_then(|()| self.answer_task(task, Event::Raised { task, frame }))
                }
                Raised::Model { deep, scores } => {
                    all().and_then(|()| self.answer_task(task, Event::Refreshed { task, deep, scores }))
                }
            };
            if let Ok(()) | Err(Error::TaskOver { .. }) = done {
                lock(&self.pool).answered(&holder, task);
            }
            if let Err(error) = done {
                refused.get_or_insert(error);
            }
        }
        match (outcome, refused) {
            // The decision counts, whatever became of the tasks beside it.
            (Some(outcome), _) => Ok(Some(outcome)),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    /// Takes the raised scores of an evaluation, or its answers, and the place where the user with `ticket`
    /// waits. If the frame is refused, nothing is taken, and evaluation and user wait on.
    fn take_evaluation(
        &self,
        (task, holder): (u64, &Holder),
        raised: &Raised,
        ticket: Option<Ticket>,
        outcome: &mut Option<Receiver<Outcome>>,
    ) -> Result<(), Error> {
        // Nothing is read for an evaluation that does not wait.
        let waits = lock(&self.pool).waits(task);
        let (engine, exchange) = (&self.shared.engine, &self.exchanges.answers);
        let raised = match (waits, raised) {
            (Ok(Wanted::Scores(level)), Raised::Scores(frame)) => {
                let (params, id) = (engine.decision_params(), engine.decision_key_id());
                let read = || ckks::read_ciphertext(params, id, level, frame);
                Ok(Given::Scores(rayon::scope(|_| read())?))
            }
            (Ok(Wanted::Answers(0)), Raised::Answers(frame)) => {
                Ok(Given::Answers(rayon::scope(|_| engine.read_answers(exchange, frame))?, Vec::new()))
            }
            (Ok(Wanted::Answers(users)), Raised::Padded { padded, nonces }) => {
                check_nonces(nonces, users)?;
                Ok(Given::Answers(rayon::scope(|_| engine.read_answers(exchange, padded))?, nonces.clone()))
            }
            (Ok(Wanted::Stage(engine, step, 0)), Raised::Exchanged(frames)) => {
                let (reply, holder) = (rayon::scope(|_| engine.read(step, frames))?, holder.clone());
                Ok(Given::Stage(Staged { reply, nonces: Vec::new(), holder }))
            }
            (Ok(Wanted::Stage(engine, step, users)), Raised::Padded { padded, nonces }) => {
                check_nonces(nonces, users)?;
                let reply = rayon::scope(|_| engine.read(step, std::slice::from_ref(padded)))?;
                Ok(Given::Stage(Staged { reply, nonces: nonces.clone(), holder: holder.clone() }))
            }
            (Ok(Wanted::Pads(lengths, users)), Raised::Pads { frames, refused }) => {
                let lengths_fit = frames.iter().map(Vec::len).eq(lengths);
                if !lengths_fit || !refused.iter().all(|user| (*user as usize) < users) {
                    let why = "encryptions of pads that are not those of the uploads of their task";
                    return Err(wire::Error::Malformed(why).into());
                }
                Ok(Given::Pads(Pads { frames: frames.clone(), refused: refused.clone() }))
            }
            (Ok(_), _) => return Err(Error::TaskOver { task }),
            (Err(over), _) => Err(over),
        };
        let mut pool = lock(&self.pool);
        // Before the raise: the tickets of an evaluation are void when it ends.
        let place = ticket.and_then(|ticket| pool.take_ticket(ticket));
        *outcome = outcome.take().or(place);
        // Where another raiser was faster, the user waits all the same.
        pool.take_raise(task, raised?)
    }

    /// Applies the answer to a task of the bandit's own.
    pub(super) fn answer_task(self: &Arc<Self>, task: u64, event: Event) -> Result<(), Error> {
        // The state machine takes a model before it was asked for, since a replay has no updates.
        if lock(&self.live).bandit.task().is_none_or(|waits| waits.id != task) {
            return Err(Error::TaskOver { task });
        }
        let applied = match event {
            Event::Exchanged { task, frames } => self.take_step(task, frames),
            event => self.change(&event),
        };
        let applied = match applied {
            Err(Error::Helba(helba::Error::TaskOver { .. })) => return Err(Error::TaskOver { task }),
            applied => applied?,
        };
        if applied == Applied::Installed {
            self.save();
            self.offer_after_pause();
        }
        self.update_if_due();
        self.offer_task();
        Ok(())
    }

    /// Tasks for the raiser `caller`, or `None` if there were none within `wait`, at most [`LONGEST_WAIT`].
    pub(crate) async fn tasks(
        self: Arc<Self>,
        wait: Duration,
        caller: &Caller,
    ) -> Result<Option<Reply>, Error> {
        let holder = Holder::from(caller.identity());
        let (served, to) = (self.clone(), holder.clone());
        let own = blocking(move || Ok(served.own_task(Some(&to)))).await?;
        let tasks = match own {
            Some(task) => {
                self.offer_again(task.id);
                vec![task]
            }
            // Who does not wait is not expected to come back.
            None if wait.is_zero() => match lock(&self.pool).take_queued(&holder) {
                Some(tasks) => tasks,
                None => return Ok(None),
            },
            None => {
                let receiver = lock(&self.pool).wait_for_tasks(holder);
                match tokio::time::timeout(wait.min(LONGEST_WAIT), receiver).await {
                    Ok(Ok(tasks)) => tasks,
                    _ => return Ok(None),
                }
            }
        };
        let reply = DecideReply { tasks, ..DecideReply::default() };
        Ok(Some(Reply::Binary(reply.to_bytes())))
    }
}

/// Checks the nonces of so many users, of whom the holder of the key may have refused some.
fn check_nonces(nonces: &[Option<Nonce>], users: usize) -> Result<(), Error> {
    if users == 0 || nonces.len() != users {
        let why = "answers that are not under the pads of the users of their task";
        return Err(wire::Error::Malformed(why).into());
    }
    Ok(())
}
