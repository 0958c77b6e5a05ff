//! A whole decision of an encrypted bandit, over HTTP.

use super::{BanditDevice, Choice, MaskedTask, ReadReply};
use crate::{Client, Error};
use protocol::Answers;
use rand::CryptoRng;
use wire::ProblemType;

/// The most times that a device asks again because the evaluation that it was part of has ended.
const MOST_REPEATS: usize = 3;
/// The most answers to tasks for one decision.
const MOST_RAISES: usize = 4;
/// The most times that a device asks again for one decision: those of a search among 2048 senders.
const MOST_ANSWERS_OF_A_DECISION: u32 = 12;

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

impl BanditDevice<'_> {
    /// Asks for a decision and answers the tasks that afterwards wait ([`Self::decide`],
    /// [`Self::answer_tasks`]).
    ///
    /// # Errors
    /// As [`Self::decide`].
    pub fn play<R: CryptoRng>(
        &self,
        client: &Client,
        rows: &[Vec<f64>],
        rng: &mut R,
    ) -> Result<PlayedRound, Error> {
        let mut round = self.decide(client, rows, rng)?;
        // The decision counts in any case, and the server gives the tasks to somebody else.
        let _ = self.answer_tasks(client, &mut round, rng);
        Ok(round)
    }

    /// Asks for a decision on `rows`. If the server waits for a holder of the key, the device raises first.
    /// If another one was faster, or the evaluation ended without an answer, it asks again with the same
    /// contexts, up to three times. If the answer cannot be relied on and others share it, the device asks
    /// for another answer to this decision, which is counted ([`crate::Device::with_most_repeats`]), until
    /// the answer can be relied on or the server refuses.
    ///
    /// # Errors
    /// As [`Self::contexts`] and [`Self::read`]; those of [`Client`]; [`Error::BadAnswer`] from a server that
    /// neither decides nor asks for anything, or that asks too often.
    pub fn decide<R: CryptoRng>(
        &self,
        client: &Client,
        rows: &[Vec<f64>],
        rng: &mut R,
    ) -> Result<PlayedRound, Error> {
        let PlayedRound { mut choice, tasks, sent, received, repeats, unrepeated } =
            self.decide_several(client, &[rows], rng)?;
        // There is one.
        let choice = choice.pop().ok_or_else(|| Error::BadAnswer(NO_DECISION.into()))?;
        Ok(PlayedRound { choice, tasks, sent, received, repeats, unrepeated })
    }

    /// Asks for several decisions in one request, as [`Self::decide`] for one: those of users for whom this
    /// device decides.
    ///
    /// # Errors
    /// As [`Self::contexts_of_several`] and [`Self::decide`].
    pub fn decide_several<R: CryptoRng>(
        &self,
        client: &Client,
        decisions: &[&[Vec<f64>]],
        rng: &mut R,
    ) -> Result<PlayedRound<Vec<Choice>>, Error> {
        let contexts = self.contexts_of_several(decisions, rng)?;
        let (mut sent, mut received) = (0, 0);
        let mut asked = 0;
        let mut round = loop {
            sent += contexts.len();
            let reply = client.decide_several(&self.created.id, &self.limits, decisions.len(), &contexts);
            let done = reply.and_then(|reply| self.finish(client, reply, (&mut sent, &mut received), rng));
            match done {
                Err(error) if asked < MOST_REPEATS && has_ended(&error) => asked += 1,
                done => {
                    let (choice, tasks) = done?;
                    if choice.len() != decisions.len() {
                        let (got, want) = (choice.len(), decisions.len());
                        return Err(Error::BadAnswer(format!("it has {got} decisions for {want}")));
                    }
                    break PlayedRound { choice, tasks, sent, received, repeats: 0, unrepeated: None };
                }
            }
        };
        while round.choice.iter().any(|choice| !choice.reliable) {
            if let Err(error) = self.repeat(client, &mut round, rng) {
                round.unrepeated = error;
                break;
            }
        }
        Ok(round)
    }

    /// Asks for another answer to the decision of `round`. On an error the round stays as it is; it is `None`
    /// if the device may not ask.
    fn repeat<R: CryptoRng>(
        &self,
        client: &Client,
        round: &mut PlayedRound<Vec<Choice>>,
        rng: &mut R,
    ) -> Result<(), Option<Error>> {
        let Some(Choice { id, users, .. }) = round.choice.first() else { return Err(None) };
        // Nobody else can have spoilt an answer of one request, or one of the open tier.
        let alone = *users as usize <= round.choice.len() || self.created.config.answers == Answers::Scores;
        if alone || round.repeats == MOST_ANSWERS_OF_A_DECISION || !self.device.may_repeat()? {
            return Err(None);
        }
        round.repeats += 1;
        let (id, count) = (*id, &mut (round.sent, round.received));
        let reply = client.ask_again(&self.created.id, &self.limits, id, round.repeats)?;
        let (choice, tasks) = self.finish(client, reply, (&mut count.0, &mut count.1), rng)?;
        (round.sent, round.received) = *count;
        if choice.len() != round.choice.len() || choice[0].id != id {
            return Err(Some(Error::BadAnswer("it answers another decision".into())));
        }
        round.choice = choice;
        round.tasks.extend(tasks);
        Ok(())
    }

    /// Raises until the server decides. Adds the bytes sent and received to `bytes`.
    fn finish<R: CryptoRng>(
        &self,
        client: &Client,
        mut reply: Vec<u8>,
        bytes: (&mut usize, &mut usize),
        rng: &mut R,
    ) -> Result<(Vec<Choice>, Vec<MaskedTask>), Error> {
        for raises in 0.. {
            *bytes.1 += reply.len();
            let ReadReply { choice, others, ticket, tasks } = self.read(&reply)?;
            if let Some(choice) = choice {
                return Ok(([choice].into_iter().chain(others).collect(), tasks));
            }
            if ticket.is_none() || tasks.is_empty() || raises == MOST_RAISES {
                break;
            }
            let answers = self.raise(&tasks, ticket, rng)?;
            *bytes.0 += answers.len();
            reply = client.post_raises(&self.created.id, &self.limits, &answers)?;
        }
        Err(Error::BadAnswer(NO_DECISION.into()))
    }

    /// Answers the tasks of `round`, if there are any.
    ///
    /// # Errors
    /// Those of [`Self::raise`] and [`Client`]. The decision is not affected.
    pub fn answer_tasks<R: CryptoRng, C>(
        &self,
        client: &Client,
        round: &mut PlayedRound<C>,
        rng: &mut R,
    ) -> Result<(), Error> {
        let tasks = std::mem::take(&mut round.tasks);
        if tasks.is_empty() {
            return Ok(());
        }
        let raises = self.raise(&tasks, None, rng)?;
        round.sent += raises.len();
        match client.post_raises(&self.created.id, &self.limits, &raises) {
            // A token for decisions alone leaves tasks to those whose token is for them.
            Err(error) if has_ended(&error) || is_forbidden(&error) => Ok(()),
            reply => {
                round.received += reply?.len();
                Ok(())
            }
        }
    }
}

/// Whether the token does not permit the request.
fn is_forbidden(error: &Error) -> bool {
    let reason = ProblemType::ForbiddenScope.reason();
    matches!(error, Error::Refused(problem) if problem.reason.as_deref() == Some(reason))
}

/// Whether another holder of the key was faster, or the evaluation has ended.
pub(crate) fn has_ended(error: &Error) -> bool {
    let ended = [ProblemType::TaskOver, ProblemType::NotEvaluated].map(ProblemType::reason);
    matches!(error, Error::Refused(problem) if problem.reason.as_deref().is_some_and(|r| ended.contains(&r)))
}
