//! The requests of one bandit. Decisions that wait at the same time share a request to the server: those that
//! come within [`WINDOW`], and those that come while a request is under way. A full request leaves at once,
//! even beside others.

use crate::Error;
use crate::agent::{Inner, now};
use crate::decision_log::{Line, Played};
use crate::pending::{Kept, Sent, Waiting};
use crate::settings::{Mode, Settings};
use host::lock;
use privacy::PrivacyStatement;
use protocol::DecisionId;
use rand::{CryptoRng, RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;
use user_client::{BanditDevice, Choice, Device, patiently};
use wire::{Counted, Created, Decided, Privacy};

/// The time for which the first decision waits for others.
const WINDOW: Duration = Duration::from_millis(3);
/// The most requests for decisions of a bandit at a time, and the most feedbacks.
const AT_A_TIME: usize = 4;
/// The most decisions of a bandit that wait, and the most feedbacks.
const MOST_WAITING: usize = 4096;
/// The statement about an encrypted bandit.
const STATEMENT: &str =
    "The server sees no context and no reward, which are encrypted. Nothing is differentially private.";

/// The queues of a bandit, which threads of its own serve until it is closed.
pub(crate) struct Desk {
    queues: Mutex<Queues>,
    changed: Condvar,
}

#[derive(Default)]
struct Queues {
    decisions: VecDeque<Asked>,
    /// Feedback on one decision is always in the same queue, so that it is returned in its order.
    feedback: [VecDeque<Returned>; AT_A_TIME],
    /// The number of requests for decisions that are under way.
    under_way: usize,
    /// Whether a thread waits for decisions to share its request.
    gathering: bool,
    closed: bool,
}

/// The answer to whoever waits. Those of one request share an error.
pub(crate) type Answer<T> = Result<T, Arc<Error>>;

struct Asked {
    rows: Vec<Vec<f64>>,
    answer: oneshot::Sender<Answer<Decided>>,
}

struct Returned {
    decision: DecisionId,
    reward: f64,
    answer: oneshot::Sender<Answer<Counted>>,
}

impl Desk {
    /// Serves the bandit `created` with threads of its own, which have ended when the returned one has.
    /// Returns when the device has joined the bandit.
    pub(crate) fn open(
        agent: &Arc<Inner>,
        device: Arc<Device>,
        created: Created,
    ) -> Result<(Arc<Desk>, JoinHandle<()>), Error> {
        let (queues, changed) = Default::default();
        let desk = Arc::new(Desk { queues, changed });
        let (done, join) = std::sync::mpsc::channel();
        let (of_thread, agent) = (desk.clone(), agent.clone());
        let thread = std::thread::spawn(move || match device.join(&created) {
            Err(error) => drop(done.send(Err(error))),
            Ok(joined) => {
                // Nobody is served before this is read.
                let _ = done.send(Ok(()));
                of_thread.serve(&agent, &joined);
            }
        });
        join.recv().map_err(|_| Error::Broken("a thread of a bandit panicked"))??;
        Ok((desk, thread))
    }

    /// A decision on `rows`.
    pub(crate) async fn decide(&self, rows: Vec<Vec<f64>>) -> Answer<Decided> {
        let (answer, answered) = oneshot::channel();
        self.push(|queues| &mut queues.decisions, Asked { rows, answer })?;
        answered.await.unwrap_or_else(|_| Err(Error::Stopping.into()))
    }

    /// Returns the reward of a decision.
    pub(crate) async fn feedback(&self, decision: DecisionId, reward: f64) -> Answer<Counted> {
        let (answer, answered) = oneshot::channel();
        let lane = usize::from(decision.0[15]) % AT_A_TIME;
        self.push(|queues| &mut queues.feedback[lane], Returned { decision, reward, answer })?;
        answered.await.unwrap_or_else(|_| Err(Error::Stopping.into()))
    }

    /// Ends the threads when they have answered what is under way.
    pub(crate) fn close(&self) {
        lock(&self.queues).closed = true;
        self.changed.notify_all();
    }

    fn push<T>(&self, queue: impl Fn(&mut Queues) -> &mut VecDeque<T>, request: T) -> Result<(), Error> {
        let mut queues = lock(&self.queues);
        if queues.closed {
            return Err(Error::Stopping);
        }
        let queue = queue(&mut queues);
        if queue.len() == MOST_WAITING {
            return Err(Error::Overloaded { most: MOST_WAITING });
        }
        queue.push_back(request);
        drop(queues);
        self.changed.notify_all();
        Ok(())
    }

    fn serve(&self, agent: &Inner, joined: &BanditDevice) {
        std::thread::scope(|scope| {
            for lane in 0..AT_A_TIME {
                scope.spawn(move || self.make_decisions(agent, joined));
                scope.spawn(move || self.return_feedback(agent, joined, lane));
            }
        });
        // Whoever came last is answered that the agent stops.
        *lock(&self.queues) = Queues { closed: true, ..Queues::default() };
    }

    fn make_decisions(&self, agent: &Inner, joined: &BanditDevice) {
        let mut rng = agent.fork_rng();
        while let Some((load, under_way)) = self.next_load(joined.most_decisions()) {
            let mut good = Vec::with_capacity(load.len());
            let settings = agent.pending.settings(&joined.created().id);
            for asked in load {
                let checked = joined.check_contexts(&asked.rows).map_err(Error::from);
                match checked.and_then(|()| settings.check_rows(&asked.rows)) {
                    Ok(()) => good.push(asked),
                    // Whoever has left wants no answer, here and below.
                    Err(error) => drop(asked.answer.send(Err(error.into()))),
                }
            }
            if !good.is_empty() {
                decide(agent, joined, &settings, (good, under_way), &mut rng);
            }
        }
    }

    /// Waits for decisions, at most `most`, and counts their request as under way. `None` when the desk is
    /// closed.
    fn next_load(&self, most: usize) -> Option<(Vec<Asked>, UnderWay<'_>)> {
        let ready = |queues: &Queues| {
            let some = !queues.decisions.is_empty() && queues.under_way == 0;
            !queues.gathering && (some || queues.decisions.len() >= most)
        };
        let idle = |queues: &mut Queues| !queues.closed && !ready(queues);
        let queues = self.changed.wait_while(lock(&self.queues), idle);
        let mut queues = queues.unwrap_or_else(PoisonError::into_inner);
        if !queues.closed && queues.decisions.len() < most {
            queues.gathering = true;
            let few = |queues: &mut Queues| !queues.closed && queues.decisions.len() < most;
            let gathered = self.changed.wait_timeout_while(queues, WINDOW, few);
            queues = gathered.unwrap_or_else(PoisonError::into_inner).0;
            queues.gathering = false;
        }
        if queues.closed {
            return None;
        }
        let count = queues.decisions.len().min(most);
        let load = queues.decisions.drain(..count).collect();
        queues.under_way += 1;
        drop(queues);
        self.changed.notify_all();
        Some((load, UnderWay(self)))
    }

    fn return_feedback(&self, agent: &Inner, joined: &BanditDevice, lane: usize) {
        let mut rng = agent.fork_rng();
        loop {
            let idle = |queues: &mut Queues| !queues.closed && queues.feedback[lane].is_empty();
            let queues = self.changed.wait_while(lock(&self.queues), idle);
            let mut queues = queues.unwrap_or_else(PoisonError::into_inner);
            if queues.closed {
                return;
            }
            let Some(returned) = queues.feedback[lane].pop_front() else { continue };
            drop(queues);
            let Returned { decision, reward, answer } = returned;
            let counted = feedback(agent, joined, decision, reward, &mut rng);
            let _ = answer.send(counted.map_err(Arc::new));
        }
    }
}

/// A request for decisions that is under way, until it is dropped.
struct UnderWay<'a>(&'a Desk);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        lock(&self.0.queues).under_way -= 1;
        self.0.changed.notify_all();
    }
}

/// Asks the server for the decisions of `load`, keeps them, and answers.
fn decide<R: CryptoRng>(
    agent: &Inner,
    joined: &BanditDevice,
    settings: &Settings,
    (load, under_way): (Vec<Asked>, UnderWay),
    rng: &mut R,
) {
    if let (Mode::Baseline, Some(arm)) = (settings.mode, settings.baseline) {
        return decide_here(agent, joined, load, arm, rng);
    }
    let rows: Vec<&[Vec<f64>]> = load.iter().map(|asked| &asked.rows[..]).collect();
    let client = &agent.client;
    let ask = |rng: &mut R| joined.decide_several(client, &rows, rng);
    let made = patiently(agent.options.patience, &agent.stop, rng, ask).map_err(Error::from);
    let kept = made.and_then(|round| {
        let now = now();
        let played: Vec<Played> = rows
            .iter()
            .zip(&round.choice)
            .map(|(rows, choice)| played(choice, rows, settings, now, rng))
            .collect();
        let waiting = |((rows, choice), played): ((&&[Vec<f64>], &Choice), &Played)| {
            let question = choice.question.clone().filter(|_| agent.options.trace_answers);
            // The reward belongs to the arm that is played, whoever chose it.
            let (features, played) = (rows[played.arm as usize].clone(), played.clone());
            (choice.id, Kept::Waiting(Waiting { features, question, played }))
        };
        let waiting = rows.iter().zip(&round.choice).zip(&played).map(waiting).collect();
        let bandit = &joined.created().id;
        let alarm = agent.pending.keep(bandit, waiting, now, rng)?;
        agent.log_alarm(bandit, alarm);
        Ok((round, played))
    });
    match kept {
        Ok((mut round, played)) => {
            for ((asked, choice), played) in load.into_iter().zip(&round.choice).zip(&played) {
                drop(asked.answer.send(Ok(decided(choice.id.to_string(), played, STATEMENT))));
            }
            drop(under_way);
            let (bandit, choices) = (&joined.created().id, round.choice.iter().zip(&played));
            let line = |(choice, played): (&Choice, _)| {
                Line::new(now(), bandit, choice.id.to_string(), played, None)
            };
            agent.log_decisions(choices.map(line).collect());
            agent.note(round.unrepeated.as_ref());
            // The decisions count in any case, and the server gives the tasks to somebody else.
            if let Err(error) = joined.answer_tasks(client, &mut round, rng) {
                agent.log(&format!("tasks of bandit {}: {error}", joined.created().id));
            }
        }
        Err(error) => {
            let error = Arc::new(error);
            load.into_iter().for_each(|asked| drop(asked.answer.send(Err(error.clone()))));
        }
    }
}

/// Decides for the baseline arm without the server, keeps the decisions, and answers. Their rewards are
/// counted here alone.
fn decide_here<R: CryptoRng>(
    agent: &Inner,
    joined: &BanditDevice,
    load: Vec<Asked>,
    arm: usize,
    rng: &mut R,
) {
    let (bandit, now) = (&joined.created().id, now());
    let number = |of: usize| u32::try_from(of).unwrap_or(u32::MAX);
    let played = Played {
        decided: now,
        round: 0,
        model_feedbacks: Some(0),
        arms: number(joined.created().config.linear.k),
        arm: number(arm),
        chosen: None,
        probability: 1.0,
        baseline: Some(true),
        reliable: true,
    };
    let ids: Vec<DecisionId> = load.iter().map(|_| DecisionId(rng.random())).collect();
    let waiting = |(asked, id): (&Asked, &DecisionId)| {
        let (features, played) = (asked.rows[arm].clone(), played.clone());
        (*id, Kept::Waiting(Waiting { features, question: None, played }))
    };
    match agent.pending.keep(bandit, load.iter().zip(&ids).map(waiting).collect(), now, rng) {
        Ok(_) => {
            for (asked, id) in load.into_iter().zip(&ids) {
                drop(asked.answer.send(Ok(decided(id.to_string(), &played, STATEMENT))));
            }
            let line = |id: &DecisionId| Line::new(now, bandit, id.to_string(), &played, None);
            agent.log_decisions(ids.iter().map(line).collect());
        }
        Err(error) => {
            let error = Arc::new(error);
            load.into_iter().for_each(|asked| drop(asked.answer.send(Err(error.clone()))));
        }
    }
}

/// Returns the reward of a decision to the server, as [`Returning::counted`].
fn feedback<R: CryptoRng>(
    agent: &Inner,
    joined: &BanditDevice,
    id: DecisionId,
    reward: f64,
    rng: &mut R,
) -> Result<Counted, Error> {
    let bandit = &joined.created().id;
    let returning = Returning { agent, bandit, id, decision: id.to_string(), reward, statement: STATEMENT };
    let check = |waiting: &Waiting| Ok(joined.check_feedback(&waiting.features, reward)?);
    let send = |waiting: &Waiting, sent: &Sent, rng: &mut R| {
        let Waiting { features, question, played } = waiting;
        let (arm, mut of_seed) = (played.arm as usize, ChaCha20Rng::from_seed(sent.seed));
        let body = joined.feedback(arm, features, reward, question.as_ref(), &mut of_seed)?;
        let send = |_: &mut R| agent.client.feedback_encrypted(bandit, id, &body);
        let receipt = patiently(agent.options.patience, &agent.stop, rng, send)?;
        agent.note(None);
        Ok(receipt.feedbacks)
    };
    returning.counted(check, send, rng)
}

/// The reward of a decision, on its way to the server.
pub(crate) struct Returning<'a> {
    pub(crate) agent: &'a Inner,
    pub(crate) bandit: &'a str,
    /// Under which the decision is kept.
    pub(crate) id: DecisionId,
    /// By what the application names the decision.
    pub(crate) decision: String,
    pub(crate) reward: f64,
    /// About the bandit.
    pub(crate) statement: &'a str,
}

impl Returning<'_> {
    /// Returns the reward, unless it was counted before: `check` says whether the bandit takes it, and `send`
    /// sends it, the same bytes each time, and returns the number of feedbacks. It is kept before it is sent,
    /// so that no other reward is confirmed after a lost reply. While the bandit is frozen, and for a
    /// decision that the server did not make, it is counted here alone.
    pub(crate) fn counted<R: CryptoRng>(
        self,
        check: impl Fn(&Waiting) -> Result<(), Error>,
        send: impl Fn(&Waiting, &Sent, &mut R) -> Result<u64, Error>,
        rng: &mut R,
    ) -> Result<Counted, Error> {
        let Returning { agent, bandit, id, ref decision, reward, statement } = self;
        let kept = agent.pending.find(bandit, id)?;
        let (since, kept) = kept.ok_or_else(|| Error::UnknownDecision { id: decision.clone() })?;
        let send = |waiting: &Waiting, sent: &Sent, rng: &mut R| {
            let feedbacks = Some(send(waiting, sent, rng)?);
            self.keep((since, &waiting.played), feedbacks, rng);
            Ok::<_, Error>(feedbacks)
        };
        let feedbacks = match kept {
            Kept::Answered { reward: first, feedbacks } if first == reward => feedbacks,
            Kept::Sent(waiting, sent) if sent.reward == reward => send(&waiting, &sent, rng)?,
            Kept::Answered { .. } | Kept::Sent(..) => {
                return Err(Error::Answered { id: decision.clone() });
            }
            Kept::Waiting(waiting)
                if waiting.played.chosen.is_none() || agent.pending.settings(bandit).freeze =>
            {
                check(&waiting)?;
                self.keep((since, &waiting.played), None, rng);
                None
            }
            Kept::Waiting(waiting) => {
                check(&waiting)?;
                let sent = Sent { reward, seed: rng.random() };
                agent.pending.sending(bandit, (since, id), (waiting.clone(), sent.clone()), rng)?;
                send(&waiting, &sent, rng)?
            }
        };
        let learnt = feedbacks.is_none().then_some(false);
        let feedbacks = feedbacks.unwrap_or(0);
        Ok(Counted { of: decision.clone(), feedbacks, learnt, privacy: privacy(statement) })
    }

    /// Keeps the receipt of a feedback that was counted, whatever becomes of its receipt here.
    fn keep<R: CryptoRng>(&self, (since, played): (u64, &Played), feedbacks: Option<u64>, rng: &mut R) {
        let Returning { agent, bandit, id, decision, reward, .. } = self;
        match agent.pending.answered(bandit, (since, *id, played), (*reward, feedbacks), now(), rng) {
            Ok(()) => {
                let line = Line::new(now(), bandit, decision.clone(), played, Some(*reward));
                agent.log_decisions(vec![line]);
            }
            Err(error) => agent.log(&format!("the receipt of decision {decision} is not kept: {error}")),
        }
    }
}

/// What is known of a decision that was made at the time `now`.
fn played<R: CryptoRng>(
    choice: &Choice,
    rows: &[Vec<f64>],
    settings: &Settings,
    now: u64,
    rng: &mut R,
) -> Played {
    let number = |of: usize| u32::try_from(of).unwrap_or(u32::MAX);
    let (arm, probability) = settings.play(choice.arm, rows, rng);
    Played {
        decided: now,
        round: choice.round,
        model_feedbacks: Some(choice.model_feedbacks),
        arms: number(rows.len()),
        arm: number(arm),
        chosen: Some(number(choice.arm)),
        probability,
        baseline: settings.baseline.map(|baseline| baseline == arm),
        reliable: choice.reliable,
    }
}

/// The answer to a decision that was kept, with a statement about the bandit.
pub(crate) fn decided(decision: String, played: &Played, statement: &str) -> Decided {
    Decided {
        decision,
        round: played.round,
        arm: Some(played.arm as usize),
        published: Vec::new(),
        awaited: None,
        reliable: Some(played.reliable),
        probability: Some(played.probability),
        privacy: privacy(statement),
    }
}

fn privacy(statement: &str) -> Privacy {
    Privacy { statement: PrivacyStatement::none(statement), spent: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that wait are bounded, each kind for itself, and the one above is told so.
    #[test]
    fn attack_requests_that_wait_are_bounded() {
        let desk = Desk { queues: Mutex::default(), changed: Condvar::new() };
        let ask = || {
            let (answer, _) = oneshot::channel();
            desk.push(|queues| &mut queues.decisions, Asked { rows: Vec::new(), answer })
        };
        assert!((0..4096).all(|_| ask().is_ok()));
        assert!(matches!(ask(), Err(Error::Overloaded { most: 4096 })));
        let (answer, _) = oneshot::channel();
        let returned = Returned { decision: DecisionId([0; 16]), reward: 0.0, answer };
        assert!(desk.push(|queues| &mut queues.feedback[0], returned).is_ok());
    }
}
