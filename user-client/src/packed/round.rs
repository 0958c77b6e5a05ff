//! A whole decision of a packed bandit, over HTTP.

use super::{Choice, MaskedTask, PackedDevice, ReadReply};
use crate::{Client, Error};
use rand::CryptoRng;
use wire::ProblemType;

/// The most times that a device asks again because the evaluation that it was part of has ended.
const MOST_REPEATS: usize = 3;
/// The most answers to tasks for one decision.
const MOST_RAISES: usize = 4;

/// A decision, and what the server asks for besides.
pub struct PackedRound {
    /// The decision.
    pub choice: Choice,
    /// Tasks that no decision waits for. [`PackedDevice::answer_tasks`] answers them, after the arm was
    /// played.
    pub tasks: Vec<MaskedTask>,
    /// Bytes of all requests of the decision.
    pub sent: usize,
    /// Bytes of all replies.
    pub received: usize,
}

impl PackedDevice<'_> {
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
    ) -> Result<PackedRound, Error> {
        let mut round = self.decide(client, rows, rng)?;
        // The decision counts in any case, and the server gives the tasks to somebody else.
        let _ = self.answer_tasks(client, &mut round, rng);
        Ok(round)
    }

    /// Asks for a decision on `rows`. If the server waits for a holder of the key, the device raises first.
    /// If another one was faster, or the evaluation ended without an answer, it asks again with the same
    /// contexts, up to three times.
    ///
    /// # Errors
    /// As [`Self::contexts`] and [`Self::read`]; those of [`Client`]; [`Error::BadAnswer`] from a server that
    /// neither decides nor asks for anything, or that asks too often.
    pub fn decide<R: CryptoRng>(
        &self,
        client: &Client,
        rows: &[Vec<f64>],
        rng: &mut R,
    ) -> Result<PackedRound, Error> {
        let contexts = self.contexts(rows, rng)?;
        let (mut sent, mut received) = (0, 0);
        let mut repeats = 0;
        loop {
            let mut ask = || -> Result<(Choice, Vec<MaskedTask>), Error> {
                sent += contexts.len();
                let mut reply = client.decide_packed(&self.created.id, &self.limits, &contexts)?;
                for raises in 0.. {
                    received += reply.len();
                    let ReadReply { choice, ticket, tasks } = self.read(&reply)?;
                    if let Some(choice) = choice {
                        return Ok((choice, tasks));
                    }
                    if ticket.is_none() || tasks.is_empty() || raises == MOST_RAISES {
                        break;
                    }
                    let answers = self.raise(&tasks, ticket, rng)?;
                    sent += answers.len();
                    reply = client.post_raises(&self.created.id, &self.limits, &answers)?;
                }
                Err(Error::BadAnswer("it has no decision, and no task that must be answered first".into()))
            };
            match ask() {
                Err(error) if repeats < MOST_REPEATS && has_ended(&error) => repeats += 1,
                asked => return asked.map(|(choice, tasks)| PackedRound { choice, tasks, sent, received }),
            }
        }
    }

    /// Answers the tasks of `round`, if there are any.
    ///
    /// # Errors
    /// Those of [`Self::raise`] and [`Client`]. The decision is not affected.
    pub fn answer_tasks<R: CryptoRng>(
        &self,
        client: &Client,
        round: &mut PackedRound,
        rng: &mut R,
    ) -> Result<(), Error> {
        let tasks = std::mem::take(&mut round.tasks);
        if tasks.is_empty() {
            return Ok(());
        }
        let raises = self.raise(&tasks, None, rng)?;
        round.sent += raises.len();
        match client.post_raises(&self.created.id, &self.limits, &raises) {
            Err(error) if has_ended(&error) => Ok(()),
            reply => {
                round.received += reply?.len();
                Ok(())
            }
        }
    }
}

/// Whether another holder of the key was faster, or the evaluation has ended.
pub(crate) fn has_ended(error: &Error) -> bool {
    let ended = [ProblemType::TaskOver, ProblemType::NotEvaluated].map(ProblemType::reason);
    matches!(error, Error::Refused(problem) if problem.reason.as_deref().is_some_and(|r| ended.contains(&r)))
}
