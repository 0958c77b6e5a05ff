//! Reads the server's reply: it decrypts the answer, and returns the arm to play and the tasks.

use super::{BanditDevice, MaskedTask};
use crate::Error;
use protocol::exchange::{self, SCORES_FLOOD_BITS};
use protocol::{Answers, DecisionId, LOG_SCORE};
use wire::{DecideReply, Decision, Ticket, TraceQuestion};
use zeroize::{Zeroize, Zeroizing};

/// A decision as the device sees it. It has no Debug, because its values are private to the user.
pub struct Choice {
    /// The id of the decision, which the feedback names.
    pub id: DecisionId,
    /// The arm to play, from 0.
    pub arm: usize,
    /// The decrypted entry of each arm, near 1 for the arms worth playing; with `answers: scores` the index
    /// of each arm. They must stay on this device, because exact decryptions reveal the key to the server.
    pub values: Vec<f64>,
    /// Round t, from 1.
    pub round: u64,
    /// The number of feedbacks in the model of the decision.
    pub model_feedbacks: u64,
    /// How many decisions the evaluation made, as the server states it.
    pub users: u32,
    /// Whether every entry is above −0.5 and below [`protocol::exchange::largest_entry`]; with `answers:
    /// scores`, whether every z and u is one that a model of that many feedbacks can have. If not, somebody's
    /// scores were outside the range of the comparison, or the server deviates from the protocol, and the arm
    /// must not be relied on.
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

impl BanditDevice<'_> {
    /// Reads a [`DecideReply`] and decrypts the answer.
    ///
    /// # Errors
    /// [`Error::Wire`], [`Error::Ckks`] for bytes that are no reply under these keys and this plan;
    /// [`Error::BadAnswer`] for a user that no evaluation has; [`Error::BadTask`] for a task that this bandit
    /// does not have. The whole reply is refused then.
    pub fn read(&self, reply: &[u8]) -> Result<ReadReply, Error> {
        let reply = DecideReply::read(reply, &self.limits)?;
        // All is read before anything is decrypted.
        let tasks = reply.tasks.iter().map(|task| self.task(task)).collect::<Result<_, _>>()?;
        let choices = reply.decision.as_ref().map(|decision| self.choices(decision)).transpose()?;
        let mut choices = choices.unwrap_or_default().into_iter();
        Ok(ReadReply { choice: choices.next(), others: choices.collect(), ticket: reply.ticket, tasks })
    }

    fn choices(&self, decision: &Decision) -> Result<Vec<Choice>, Error> {
        if let Some(question) = &decision.question {
            self.comparison(question)?;
        }
        let count = 1 + decision.others.len();
        let values = match self.created.config.answers {
            Answers::Arm => self.entries(decision, count)?,
            Answers::Scores => self.indices(decision, count)?,
        };
        let choice = |(at, (values, reliable)): (usize, (Vec<f64>, bool))| Choice {
            id: if at == 0 { decision.id } else { decision.others[at - 1] },
            arm: first_largest(&values),
            values,
            round: decision.round.saturating_add(at as u64),
            model_feedbacks: decision.model_feedbacks,
            users: decision.users,
            reliable,
            question: decision.question.clone().filter(|_| at == 0),
            shows_model: self.created.config.shows_model(),
        };
        Ok(values.into_iter().enumerate().map(choice).collect())
    }

    /// The entry of each arm of `count` decisions, and whether all are in their range. The slots of other
    /// users hold noise.
    fn entries(&self, decision: &Decision, count: usize) -> Result<Vec<(Vec<f64>, bool)>, Error> {
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
        let (params, level) = (self.answers.params(), self.created.plan.answer_level);
        let answer = ckks::read_ciphertext(params, self.small_id, level, &decision.answer)?;
        let large = self.device.params().max_slots();
        let range = -0.5..exchange::largest_entry(self.device.shape());
        let of_user = |slots: &ckks_secret::Slots, user: usize| {
            let values = layout.action_values(slots, user, large);
            let reliable = values.iter().all(|value| range.contains(value));
            (values, reliable)
        };
        Ok(ckks_secret::decrypt(&self.answers, &answer, params.max_slots())
            .with(|slots| users.iter().map(|user| of_user(slots, *user)).collect()))
    }

    /// The index u + β·√(z + c₁) of each arm of `count` decisions, and whether all z and u are in their
    /// range.
    fn indices(&self, decision: &Decision, count: usize) -> Result<Vec<(Vec<f64>, bool)>, Error> {
        let (layout, log) = (&self.exchanges.layout, self.exchanges.layout.log_places(count)?);
        let params = self.small().params();
        let answer = ckks::read_ciphertext(params, self.small_id, params.max_level(), &decision.answer)?;
        // A product keeps the scale of its factors' product, and frames hold the canonical one.
        let answer = answer.with_scale(f64::from(LOG_SCORE).exp2());
        let (linear, t_j) = (&self.created.config.linear, decision.model_feedbacks);
        let (c1, range) = (linear.c1(t_j), self.possible_scores(t_j));
        let of_decision = |coefficients: &[i128], b: usize| {
            let scores = Zeroizing::new(layout.scores(coefficients, b, log));
            let beta = linear.beta(decision.round.saturating_add(b as u64), t_j);
            let values = scores.iter().map(|[z, u]| u + beta * (z.max(0.0) + c1).sqrt()).collect();
            let reliable =
                scores.iter().flatten().zip(range.iter().cycle()).all(|(v, range)| range.contains(v));
            (values, reliable)
        };
        Ok(ckks_secret::decrypt_coefficients(self.small(), &answer)
            .with(|coefficients| (0..count).map(|b| of_decision(coefficients, b)).collect()))
    }

    /// The ranges of z = xᵀAx and u = ⟨ω, x⟩ after `feedbacks` feedbacks with rewards within ± 1. A is at
    /// most 1/λ, and the norm of ω is at most √(t/λ)/2; a sixteenth is left for errors of the model, and the
    /// rest for noise.
    fn possible_scores(&self, feedbacks: u64) -> [std::ops::Range<f64>; 2] {
        let linear = &self.created.config.linear;
        let noise = f64::from(self.exchanges.layout.log_range() - SCORES_FLOOD_BITS as i32 + 1).exp2();
        let z = 1.0625 * linear.l * linear.l / linear.lambda + noise;
        let u = 1.0625 * linear.l * (feedbacks as f64 / linear.lambda).sqrt() / 2.0 + noise;
        [-noise..z, -u..u]
    }
}

/// The first of the largest values.
fn first_largest(values: &[f64]) -> usize {
    (0..values.len()).fold(0, |best, a| if values[a] > values[best] { a } else { best })
}
