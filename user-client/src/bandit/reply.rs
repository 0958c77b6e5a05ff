//! Reads the server's reply: it decrypts or opens the answer, and returns the arm to play and the tasks.

use super::{BanditDevice, MaskedTask};
use crate::Error;
use protocol::{Answers, DecisionId, Exchanging, exchange};
use wire::{DecideReply, Decision, Ticket, TraceQuestion};
use zeroize::Zeroize;

/// A decision as the device sees it. It has no Debug, because its values are private to the user.
pub struct Choice {
    /// The id of the decision, which the feedback names.
    pub id: DecisionId,
    /// The arm to play, from 0.
    pub arm: usize,
    /// The decrypted entry of each arm, near 1 for the arms worth playing; with `answers: scores` the index
    /// of each arm; NaN of a closed arm. They must stay on this device, because exact decryptions reveal the
    /// key to the server.
    pub values: Vec<f64>,
    /// Round t, from 1.
    pub round: u64,
    /// The number of feedbacks in the model of the decision.
    pub model_feedbacks: u64,
    /// How many decisions the evaluation made, as the server states it.
    pub users: u32,
    /// Whether every entry is above −0.5 and below [`protocol::exchange::largest_entry`], and of a decision
    /// in stages that of one open arm at least [`protocol::exchange::LEAST_WINNER`]; with `answers: scores`,
    /// whether every z and u is one that a model of that many feedbacks can have. If not, somebody's scores
    /// were outside the range of the comparison, or the server or a holder of the key deviates from the
    /// protocol, and the arm must not be relied on.
    pub reliable: bool,
    /// The question that the feedback answers ([`BanditDevice::feedback`]), under the trace condition and if
    /// this device is asked.
    pub question: Option<TraceQuestion>,
    /// Whether everyone who holds the key can compute the model from such an answer.
    pub shows_model: bool,
}

impl Drop for Choice {
    fn drop(&mut self) {
        self.values.zeroize();
    }
}

/// A reply of the server, read.
pub struct ReadReply {
    /// The decision. If there is none, the tasks must be answered under `ticket` first.
    pub choice: Option<Choice>,
    /// The further decisions of the request, in their order.
    pub others: Vec<Choice>,
    /// The place of this device in an evaluation that waits for it.
    pub ticket: Option<Ticket>,
    /// What the server asks a holder of the key for, at most two tasks.
    pub tasks: Vec<MaskedTask>,
}

/// The values of the arms of a decision.
pub(super) struct Values {
    pub(super) values: Vec<f64>,
    /// Whether they are in their range.
    pub(super) reliable: bool,
}

impl BanditDevice<'_> {
    /// Reads a [`DecideReply`] and decrypts the answer.
    ///
    /// # Errors
    /// [`Error::Wire`], [`Error::Ckks`] for bytes that are no reply under these keys and this plan;
    /// [`Error::BadAnswer`] for a user that no evaluation has; [`Error::BadTask`] for a task that this bandit
    /// does not have. The whole reply is refused then.
    pub fn read(&self, reply: &[u8]) -> Result<ReadReply, Error> {
        self.read_open(reply, |_, _| true)
    }

    /// As [`Self::read`], where `open(b, a)` says whether arm a of decision b may be played.
    pub(super) fn read_open(
        &self,
        reply: &[u8],
        open: impl Fn(usize, usize) -> bool,
    ) -> Result<ReadReply, Error> {
        let reply = DecideReply::read(reply, &self.limits)?;
        // All is read before anything is decrypted.
        let tasks = reply.tasks.iter().map(|task| self.task(task)).collect::<Result<_, _>>()?;
        let choices = reply.decision.as_ref().map(|decision| self.choices(decision, open)).transpose()?;
        let mut choices = choices.unwrap_or_default().into_iter();
        Ok(ReadReply { choice: choices.next(), others: choices.collect(), ticket: reply.ticket, tasks })
    }

    fn choices(
        &self,
        decision: &Decision,
        open: impl Fn(usize, usize) -> bool,
    ) -> Result<Vec<Choice>, Error> {
        if let Some(question) = &decision.question {
            self.comparison(question)?;
        }
        let mut values = self.values(decision)?;
        let least = match self.created.plan.exchanges {
            Exchanging::Staged => exchange::LEAST_WINNER,
            Exchanging::One => f64::NEG_INFINITY,
        };
        for (at, Values { values, reliable }) in values.iter_mut().enumerate() {
            // NaN is never the largest.
            values.iter_mut().enumerate().filter(|(arm, _)| !open(at, *arm)).for_each(|(_, v)| *v = f64::NAN);
            *reliable &= values.iter().any(|value| *value >= least);
        }
        let linear = &self.created.config.linear;
        let tolerance = match self.created.config.answers {
            Answers::Arm => exchange::TIE_TOLERANCE,
            Answers::Scores => 2.0 * self.scores_noise(),
        };
        let of_round = |at: usize| decision.round.saturating_add(at as u64);
        let choice = |(at, Values { values, reliable }): (usize, Values)| Choice {
            id: if at == 0 { decision.id } else { decision.others[at - 1] },
            arm: linear.preferred(&values, tolerance, of_round(at)),
            values,
            round: of_round(at),
            model_feedbacks: decision.model_feedbacks,
            users: decision.users,
            reliable,
            question: decision.question.clone().filter(|_| at == 0),
            shows_model: self.created.config.shows_model(),
        };
        Ok(values.into_iter().enumerate().map(choice).collect())
    }

    /// A bound on the noise of the scores of the open tier.
    pub(super) fn scores_noise(&self) -> f64 {
        f64::from(self.exchanges.layout.log_range() - exchange::SCORES_FLOOD_BITS as i32 + 1).exp2()
    }

    /// The values of each decision of a reply.
    fn values(&self, decision: &Decision) -> Result<Vec<Values>, Error> {
        let count = 1 + decision.others.len();
        if self.created.config.answers == Answers::Scores {
            return self.indices(decision, count);
        }
        let entries = self.entries(decision, &self.users(decision, count)?)?;
        let range = -0.5..exchange::largest_entry(self.device.shape());
        let of_user = |values: Vec<f64>| {
            let reliable = values.iter().all(|value| range.contains(value));
            Values { values, reliable }
        };
        Ok(entries.into_iter().map(of_user).collect())
    }

    /// The numbers of the users of `count` decisions of a reply.
    fn users(&self, decision: &Decision, count: usize) -> Result<Vec<usize>, Error> {
        let layout = &self.exchanges.layout;
        let (first, log) = (usize::try_from(decision.user).unwrap_or(usize::MAX), layout.log_places(count)?);
        let numbers = layout.users();
        let step = layout.user_of(0, 1, log);
        let users: Vec<usize> = (0..count).map(|b| first.saturating_add(b * step)).collect();
        if let Some(user) = users.iter().find(|user| !numbers.contains(user)) {
            let (first, last) = (numbers.start, numbers.end - 1);
            let what = format!("it names user {user} of an evaluation, whose users are {first} to {last}");
            return Err(Error::BadAnswer(what));
        }
        Ok(users)
    }
}
