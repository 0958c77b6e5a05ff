//! A whole decision of an encrypted bandit, over HTTP.

use super::asking::has_ended;
use super::{BanditDevice, Choice, PlayedRound, Target};
use crate::{Client, Error};
use rand::CryptoRng;
use wire::ProblemType;

/// More steps than an update has.
const MOST_STEPS: usize = 64;

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

    /// Asks for a decision on `rows`, with all requests that it takes ([`Self::ask`]).
    ///
    /// # Errors
    /// As [`Self::ask`] and [`Self::answered`]; those of [`Client`].
    pub fn decide<R: CryptoRng>(
        &self,
        client: &Client,
        rows: &[Vec<f64>],
        rng: &mut R,
    ) -> Result<PlayedRound, Error> {
        self.decide_several(client, &[rows], rng)?.single()
    }

    /// Asks for several decisions in one request, as [`Self::decide`] for one: those of users for whom this
    /// device decides.
    ///
    /// # Errors
    /// As [`Self::decide`].
    pub fn decide_several<R: CryptoRng>(
        &self,
        client: &Client,
        decisions: &[&[Vec<f64>]],
        rng: &mut R,
    ) -> Result<PlayedRound<Vec<Choice>>, Error> {
        let (id, limits) = (&self.created.id, &self.limits);
        let mut asking = self.ask(decisions, rng)?;
        while let Some(request) = asking.request() {
            let reply = match request.to {
                Target::Decisions { decisions } => client.decide_several(id, limits, decisions, request.body),
                Target::Again { decision, answers } => client.ask_again(id, limits, decision, answers),
                Target::Raises => client.post_raises(id, limits, request.body),
            };
            self.answered(&mut asking, reply, rng)?;
        }
        asking.finish()
    }

    /// Answers the tasks of `round`, and those that the server gives in return: the steps of an update by
    /// products.
    ///
    /// # Errors
    /// Those of [`Self::raise`] and [`Client`]. The decision is not affected.
    pub fn answer_tasks<R: CryptoRng, C>(
        &self,
        client: &Client,
        round: &mut PlayedRound<C>,
        rng: &mut R,
    ) -> Result<(), Error> {
        let mut tasks = std::mem::take(&mut round.tasks);
        for _ in 0..MOST_STEPS {
            if tasks.is_empty() {
                break;
            }
            let raises = self.raise(&tasks, None, rng)?;
            round.sent += raises.len();
            let reply = match client.post_raises(&self.created.id, &self.limits, &raises) {
                // A token for decisions alone leaves tasks to those whose token is for them.
                Err(error) if has_ended(&error) || is_forbidden(&error) => break,
                reply => reply?,
            };
            round.received += reply.len();
            tasks = self.read(&reply)?.tasks;
        }
        Ok(())
    }
}

/// Whether the token does not permit the request.
fn is_forbidden(error: &Error) -> bool {
    let reason = ProblemType::ForbiddenScope.reason();
    matches!(error, Error::Refused(problem) if problem.reason.as_deref() == Some(reason))
}
