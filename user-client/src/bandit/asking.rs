//! A whole decision of an encrypted bandit, without I/O: the requests that a device sends, one after another,
//! and what it makes of the replies. `round` sends them over HTTP, and a browser with its own means.

use super::{BanditDevice, Choice, MaskedTask, ReadReply};
use crate::Error;
use protocol::DecisionId;
use rand::CryptoRng;
use wire::{AskAgain, ProblemType};

/// The most times that a device asks again because the evaluation that it was part of has ended.
const MOST_REPEATS: usize = 3;
/// The most times that a device asks again for one decision: those of a search among 2048 senders.
pub(crate) const MOST_ANSWERS_OF_A_DECISION: u32 = 12;
/// The most answers to tasks for one decision.
const MOST_RAISES: usize = 4;

const NO_DECISION: &str = "it has no decision, and no task that must be answered first";

/// A decision, or with `C = Vec<Choice>` those of one request, and what the server asks for besides.
pub struct PlayedRound<C = Choice> {
    /// The decision.
    pub choice: C,
    /// Tasks that no decision waits for. [`BanditDevice::answer_tasks`] answers them, after the arm was
    /// played.
    pub tasks: Vec<MaskedTask>,
    /// Bytes of all requests of the decision.
    pub sent: usize,
    /// Bytes of all replies.
    pub received: usize,
    /// How often the device asked again because an answer could not be relied on.
    pub repeats: u32,
    /// Why it did not ask again, if the answer cannot be relied on.
    pub unrepeated: Option<Error>,
}

/// Decisions of one request that a device asks for ([`BanditDevice::ask`]). While [`Self::request`] returns a
/// request, the caller sends it and hands the reply to [`BanditDevice::answered`]; then [`Self::finish`]
/// returns the decisions.
pub struct Asking {
    contexts: Vec<u8>,
    /// For each decision, whether each arm is open.
    open: Vec<Vec<bool>>,
    next: Option<Next>,
    /// How often the contexts were sent again.
    asked: usize,
    /// Answers to tasks since the last request for a decision.
    raises: usize,
    sent: usize,
    received: usize,
    round: Option<PlayedRound<Vec<Choice>>>,
}

/// What is sent next.
enum Next {
    Contexts,
    Again(DecisionId, u32, Vec<u8>),
    Raises(Vec<u8>),
}

/// A request, whose body is binary ([`wire::OCTET_STREAM`]). Its reply has at most
/// [`reply`](wire::Limits::reply) bytes.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Where it goes.
    pub to: Target,
    /// The body.
    pub body: &'a [u8],
}

/// Where a request of a decision goes, below `bandits/ID`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// `POST …/decisions`, with the tag of the sender and the number of decisions in headers.
    Decisions {
        /// The number of decisions.
        decisions: usize,
    },
    /// `POST …/decisions/DECISION/again`, with the tag of the sender.
    Again {
        /// The decision.
        decision: DecisionId,
        /// The number of its answers so far.
        answers: u32,
    },
    /// `POST …/raises`.
    Raises,
}

impl Asking {
    /// The request to send, or `None` when no further one is needed.
    pub fn request(&self) -> Option<Request<'_>> {
        Some(match self.next.as_ref()? {
            Next::Contexts => {
                Request { to: Target::Decisions { decisions: self.open.len() }, body: &self.contexts }
            }
            Next::Again(decision, answers, body) => {
                Request { to: Target::Again { decision: *decision, answers: *answers }, body }
            }
            Next::Raises(body) => Request { to: Target::Raises, body },
        })
    }

    /// The decisions.
    ///
    /// # Errors
    /// [`Error::BadAnswer`] while there are none.
    pub fn finish(self) -> Result<PlayedRound<Vec<Choice>>, Error> {
        let Asking { round, sent, received, .. } = self;
        let round = round.ok_or_else(|| Error::BadAnswer(NO_DECISION.into()))?;
        Ok(PlayedRound { sent, received, ..round })
    }
}

impl PlayedRound<Vec<Choice>> {
    /// The only decision of a request for one.
    ///
    /// # Errors
    /// [`Error::BadAnswer`] if there is none.
    pub fn single(self) -> Result<PlayedRound, Error> {
        let PlayedRound { mut choice, tasks, sent, received, repeats, unrepeated } = self;
        let choice = choice.pop().ok_or_else(|| Error::BadAnswer(NO_DECISION.into()))?;
        Ok(PlayedRound { choice, tasks, sent, received, repeats, unrepeated })
    }
}

impl BanditDevice<'_> {
    /// Begins to ask for decisions on the rows of each, which are empty for closed arms. If the server waits
    /// for a holder of the key, the device raises first. If another one was faster, or the evaluation ended
    /// without an answer, it asks once more, up to three times. If an answer cannot be relied on and others
    /// share it, the device asks for another one, which is counted ([`crate::Device::with_most_repeats`]),
    /// until it can be relied on or the server refuses.
    ///
    /// # Errors
    /// [`Error::Protocol`] for the rows, also for more decisions than [`Self::most_decisions`].
    pub fn ask<R: CryptoRng>(&self, decisions: &[&[Vec<f64>]], rng: &mut R) -> Result<Asking, Error> {
        let contexts = self.contexts_of_several(decisions, rng)?;
        let open_of = |rows: &&[Vec<f64>]| rows.iter().map(|x| protocol::is_open(x)).collect();
        Ok(Asking {
            contexts,
            open: decisions.iter().map(open_of).collect(),
            next: Some(Next::Contexts),
            asked: 0,
            raises: 0,
            sent: 0,
            received: 0,
            round: None,
        })
    }

    /// Takes the reply to the request of `asking`, or the error in its place.
    ///
    /// # Errors
    /// The error in place of the reply, unless it leads to another request; as [`Self::read`];
    /// [`Error::BadAnswer`] for a reply that neither decides nor asks for anything, or that asks too often.
    /// Nothing is left to send then.
    pub fn answered<R: CryptoRng>(
        &self,
        asking: &mut Asking,
        reply: Result<Vec<u8>, Error>,
        rng: &mut R,
    ) -> Result<(), Error> {
        asking.sent += asking.request().map_or(0, |request| request.body.len());
        asking.next = None;
        let decided = reply.and_then(|reply| self.take(asking, &reply, rng));
        match (decided, &mut asking.round) {
            (Ok(None), _) => return Ok(()),
            (Ok(Some((choice, tasks))), None) => {
                let round = PlayedRound { choice, tasks, sent: 0, received: 0, repeats: 0, unrepeated: None };
                asking.round = Some(round);
            }
            (Ok(Some((choice, tasks))), Some(round)) => {
                if choice[0].id != round.choice[0].id {
                    round.unrepeated = Some(Error::BadAnswer("it answers another decision".into()));
                    return Ok(());
                }
                round.choice = choice;
                round.tasks.extend(tasks);
            }
            (Err(error), None) if asking.asked < MOST_REPEATS && has_ended(&error) => {
                (asking.asked, asking.raises) = (asking.asked + 1, 0);
                asking.next = Some(Next::Contexts);
                return Ok(());
            }
            (Err(error), None) => return Err(error),
            (Err(error), Some(round)) => {
                // The decision counts in any case.
                round.unrepeated = Some(error);
                return Ok(());
            }
        }
        self.repeat(asking);
        Ok(())
    }

    /// The decisions of a reply. `None` after a reply that asks for a raise, which is sent next.
    #[allow(clippy::type_complexity, reason = "a pair that is taken apart by the one caller")]
    fn take<R: CryptoRng>(
        &self,
        asking: &mut Asking,
        reply: &[u8],
        rng: &mut R,
    ) -> Result<Option<(Vec<Choice>, Vec<MaskedTask>)>, Error> {
        asking.received += reply.len();
        let is_open = |b: usize, arm: usize| asking.open.get(b).and_then(|open| open.get(arm)) == Some(&true);
        let ReadReply { choice, others, ticket, tasks } = self.read_open(reply, is_open)?;
        if let Some(choice) = choice {
            let choice: Vec<Choice> = [choice].into_iter().chain(others).collect();
            let (got, want) = (choice.len(), asking.open.len());
            if got != want {
                return Err(Error::BadAnswer(format!("it has {got} decisions for {want}")));
            }
            return Ok(Some((choice, tasks)));
        }
        if ticket.is_none() || tasks.is_empty() || asking.raises == MOST_RAISES {
            return Err(Error::BadAnswer(NO_DECISION.into()));
        }
        asking.raises += 1;
        asking.next = Some(Next::Raises(self.raise(&tasks, ticket, rng)?));
        Ok(None)
    }

    /// Asks for another answer to the decisions if one cannot be relied on and the device may ask.
    fn repeat(&self, asking: &mut Asking) {
        let Some(round) = asking.round.as_mut() else { return };
        let Some(Choice { id, users, .. }) = round.choice.first() else { return };
        // Nobody else can have spoilt an answer of one request, or one that was decided by itself.
        let alone = *users as usize <= round.choice.len() || self.created.config.decides_alone();
        let reliable = round.choice.iter().all(|choice| choice.reliable);
        if reliable || alone || round.repeats == MOST_ANSWERS_OF_A_DECISION {
            return;
        }
        // A decision is counted once, however often it is asked for.
        let may = if round.repeats > 0 { Ok(true) } else { self.device.may_repeat() };
        match may {
            Ok(true) => {
                round.repeats += 1;
                asking.raises = 0;
                let body = AskAgain { answers: round.repeats }.to_bytes();
                asking.next = Some(Next::Again(*id, round.repeats, body));
            }
            Ok(false) => {}
            Err(error) => round.unrepeated = Some(error),
        }
    }
}

/// Whether another holder of the key was faster, or the evaluation has ended.
pub(crate) fn has_ended(error: &Error) -> bool {
    let ended = [ProblemType::TaskOver, ProblemType::NotEvaluated].map(ProblemType::reason);
    matches!(error, Error::Refused(problem) if problem.reason.as_deref().is_some_and(|r| ended.contains(&r)))
}
