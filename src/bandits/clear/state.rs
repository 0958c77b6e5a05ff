//! The state of one bandit with a clear policy: the policy, the decisions that wait for feedback, the
//! receipts, and the budget spent. This module knows no HTTP and no disk.
//!
//! A transition returns a [`ClearChange`], which holds the whole state of the policy, and only the rows that
//! are written or removed. Decisions stay open until their feedback comes or they expire, and the policy
//! learns from them by its rule ([`policies::Profile::late`]). That a decision has expired is stored: it is
//! not computed anew after a restart.

mod holders;
mod step;
#[cfg(test)]
mod tests;

use self::holders::Holders;
use self::step::Step;
use super::terms::{AskedTerms, REMEMBERED, Terms, remembered};
use crate::error::Error;
use crate::store::{Edit, Edits, Numbered, Recent, Stored, encode};
use bandit::Features;
use policies::{PolicyConfig, PolicyState, Profile};
use privacy::PrivacyStatement;
use privacy::accountant::{Accountant, Cost};
use privacy::task::Task;
use protocol::DecisionId;
use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use wire::{ClearFeedback, FeedbackKind, LateRule, Learnt, Spent, SummedBatch};

/// The state of one bandit.
#[derive(Clone)]
pub(super) struct ClearState {
    core: Core,
    open: Recent<DecisionId, Open>,
    receipts: Recent<DecisionId, Receipt>,
    exchanges: Recent<u64, Answer>,
    keyed: Recent<Digest, Keyed>,
    holders: Holders,
}

/// Everything except the rows. Each change writes all of it.
#[derive(Clone, Serialize, Deserialize)]
struct Core {
    policy: PolicyState,
    terms: Terms,
    /// `None` if no privacy is guaranteed.
    ledger: Option<Accountant>,
    /// The number of decisions.
    round: u64,
    /// The number of feedbacks and of users of batches.
    feedbacks: u64,
    /// The number of decisions that the policy has learnt from, in all and since it started again.
    learnt: u64,
    learnt_anew: u64,
    /// The number of expired decisions that count as the default reward.
    defaulted: u64,
    /// The number of decisions that nothing was learnt from.
    left_out: u64,
    /// The number of times that the policy started again because its folder was restored from a backup.
    restored: u64,
    /// Another rule than that of the policy, for controls of attacks.
    #[cfg(test)]
    #[serde(skip)]
    broken: Option<LateRule>,
}

/// A decision that is not learnt yet, which is a row.
#[derive(Clone, Serialize, Deserialize)]
struct Open {
    round: u64,
    /// The time of the decision, in seconds since 1970.
    at: u64,
    arm: usize,
    /// [`PolicyState::mark`] after the decision.
    mark: u64,
    context: Option<Features>,
    exchange: Option<u64>,
    /// What is to be learnt. `None` while the decision waits for its feedback.
    given: Option<Given>,
}

/// A [`ClearFeedback`] as a row has it, which leaves no field out.
#[derive(Clone, Serialize, Deserialize)]
struct Given(Option<f64>, Option<Vec<f64>>, Option<f64>, Option<u64>);

impl From<ClearFeedback> for Given {
    fn from(ClearFeedback { reward, rewards, sum, share }: ClearFeedback) -> Self {
        Given(reward, rewards, sum, share)
    }
}

impl From<Given> for ClearFeedback {
    fn from(Given(reward, rewards, sum, share): Given) -> Self {
        ClearFeedback { reward, rewards, sum, share }
    }
}

impl Numbered for Open {
    fn number(&self) -> u64 {
        self.round
    }
}

/// The answer to further feedback on a decision, which is a row.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Receipt {
    /// Its feedback was counted.
    Counted(Answer),
    /// The decision expired in this round.
    Expired { round: u64 },
    /// The decision asked for no feedback.
    Unasked { round: u64 },
}

impl Numbered for Receipt {
    fn number(&self) -> u64 {
        match self {
            Receipt::Counted(answer) => answer.round,
            Receipt::Expired { round } | Receipt::Unasked { round } => *round,
        }
    }
}

/// The answer to a counted feedback or batch, which is a row.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Answer {
    /// The number of decisions when it was counted.
    round: u64,
    pub(super) feedbacks: u64,
    pub(super) spent: Option<Spent>,
    of: Digest,
}

impl Numbered for Answer {
    fn number(&self) -> u64 {
        self.feedbacks
    }
}

/// The answer to a decision that its sender may ask for again, which is a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Keyed {
    round: u64,
    /// Of the request.
    of: Digest,
    /// The [`Decision`] as JSON.
    decision: String,
}

impl Numbered for Keyed {
    fn number(&self) -> u64 {
        self.round
    }
}

/// A decision that a sender may ask for again: the digest of sender and key, and that of the request.
pub(super) type OnceKey = (Digest, Digest);

/// The digest of a counted message, by which a repetition is recognised.
pub(super) type Digest = [u8; 16];

pub(super) fn digest(message: &impl Serialize) -> Result<Digest, Error> {
    let bytes = serde_json::to_vec(message).map_err(|_| Error::Broken("a message that cannot be written"))?;
    let hash = blake3::hash(&bytes);
    hash.as_bytes().first_chunk().copied().ok_or(Error::Broken("a hash below 16 bytes"))
}

impl Answer {
    /// The answer to a repeated message.
    fn again(&self, of: Digest, what: impl FnOnce() -> String) -> Result<Self, Error> {
        if self.of == of { Ok(*self) } else { Err(Error::Answered { what: what() }) }
    }
}

/// A transition that has been computed and not applied.
#[must_use = "a change that is not applied is lost"]
pub(super) struct ClearChange<'a, T> {
    state: &'a mut ClearState,
    /// `None` if nothing changes.
    core: Option<Core>,
    rows: Rows,
    out: T,
}

/// The rows that a change writes or removes.
#[derive(Default)]
struct Rows {
    open: Vec<Edit<DecisionId, Open>>,
    receipts: Vec<Edit<DecisionId, Receipt>>,
    exchanges: Vec<Edit<u64, Answer>>,
    keyed: Vec<Edit<Digest, Keyed>>,
}

impl<T> ClearChange<'_, T> {
    /// Applies the change, which the caller has stored.
    pub(super) fn apply(self) -> T {
        if let Some(core) = self.core {
            self.state.core = core;
        }
        self.state.open.apply(self.rows.open);
        self.state.receipts.apply(self.rows.receipts);
        self.state.exchanges.apply(self.rows.exchanges);
        self.state.keyed.apply(self.rows.keyed);
        self.out
    }

    /// The edits of a commit. `None` if nothing changes.
    pub(super) fn edits(&self) -> Result<Option<Edits>, Error> {
        let Some(core) = &self.core else { return Ok(None) };
        Ok(Some(Edits {
            state: core.to_bytes()?,
            decisions: encode(&self.rows.open)?,
            receipts: encode(&self.rows.receipts)?,
            exchanges: encode(&self.rows.exchanges)?,
            keyed: encode(&self.rows.keyed)?,
        }))
    }
}

impl Core {
    fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        postcard::to_stdvec(self).map_err(|_| Error::Broken("a state that cannot be serialised"))
    }

    fn spent(&self) -> Option<Spent> {
        let (epsilon, delta) = self.ledger.as_ref()?.spent();
        Some(Spent { epsilon, delta })
    }

    /// Charges the cost of `observation` over the whole run. Rewards and batches of users are numbered.
    fn charge(&mut self, observation: u64, statement: &PrivacyStatement) -> Result<(), Error> {
        if let (Some(ledger), Some(epsilon)) = (&mut self.ledger, statement.epsilon) {
            ledger.release([observation], Cost::Approximate(epsilon, statement.delta))?;
        }
        Ok(())
    }

    fn profile(&self) -> Profile {
        self.policy.config().profile()
    }

    /// The rule by which the policy learns.
    fn rule(&self) -> LateRule {
        #[cfg(test)]
        if let Some(broken) = self.broken {
            return broken;
        }
        self.profile().late
    }

    /// Whether a stored feedback can be learnt.
    fn admits(&self, given: &Given) -> bool {
        let Given(reward, rewards, sum, share) = given;
        let kind = match self.profile().feedback {
            FeedbackKind::Reward => reward.is_some(),
            FeedbackKind::Rewards => rewards.is_some(),
            FeedbackKind::Sum => sum.is_some(),
            FeedbackKind::Share => share.is_some(),
            FeedbackKind::Batch | FeedbackKind::Encrypted => false,
        };
        kind && self.policy.check_feedback(&given.clone().into()).is_ok()
    }

    /// Checks that policy, ledger and decisions belong together.
    fn check<'a>(&self, mut open: impl Iterator<Item = &'a Open>) -> Result<(), String> {
        let profile = self.profile();
        let fits = |open: &Open| {
            let shape = open.context.as_ref().map(|c| (c.d(), c.k()));
            open.arm < profile.arms
                && shape == profile.shape()
                && open.given.as_ref().is_none_or(|given| self.admits(given))
        };
        if !open.all(fits) {
            return Err("policy and decisions disagree".into());
        }
        let statement = self.policy.privacy().map_err(|e| e.to_string())?;
        let budget = statement.epsilon.map(|e| Cost::Approximate(e, statement.delta));
        if self.ledger.as_ref().map(Accountant::budget) != budget {
            return Err("the ledger is not that of the promise".into());
        }
        Ok(())
    }
}

impl ClearState {
    /// A bandit without data. `wait` is the wait time in seconds if none is asked for.
    pub(super) fn new(config: PolicyConfig, asked: AskedTerms, wait: u64) -> Result<Self, Error> {
        let terms = asked.settle(&config.profile(), wait)?;
        let policy = PolicyState::new(config)?;
        let statement = policy.privacy()?;
        let core = Core {
            ledger: statement.epsilon.map(|e| Accountant::new(Cost::Approximate(e, statement.delta))),
            policy,
            terms,
            round: 0,
            feedbacks: 0,
            learnt: 0,
            learnt_anew: 0,
            defaulted: 0,
            left_out: 0,
            restored: 0,
            #[cfg(test)]
            broken: None,
        };
        // The state must be readable at the next start, or the server would not start again.
        Self::read(&Stored { state: core.to_bytes()?, ..Stored::default() }).map_err(|why| {
            Error::BadParameter {
                why: format!(
                    "parameters: their combination is outside the range that can be computed ({why})"
                ),
            }
        })
    }

    /// Reads a stored bandit. Each part is checked, and then that all parts belong to one bandit.
    pub(super) fn read(stored: &Stored) -> Result<Self, String> {
        let Stored { state, decisions, receipts, exchanges, keyed, .. } = stored;
        let (core, rest) = postcard::take_from_bytes::<Core>(state).map_err(|e| e.to_string())?;
        if !rest.is_empty() {
            return Err(format!("{} bytes after its end", rest.len()));
        }
        // As many may wait for their turn as for feedback.
        let open = Recent::read(2 * remembered(&core.profile()), decisions)?;
        core.check(open.iter().map(|(_, open)| open))?;
        Ok(ClearState {
            core,
            open,
            receipts: Recent::read(REMEMBERED, receipts)?,
            exchanges: Recent::read(REMEMBERED, exchanges)?,
            keyed: Recent::read(REMEMBERED, keyed)?,
            holders: Holders::default(),
        })
    }

    /// The edits of the first commit.
    pub(super) fn created(&self) -> Result<Edits, Error> {
        Ok(Edits { state: self.core.to_bytes()?, ..Edits::default() })
    }

    pub(super) fn config(&self) -> &PolicyConfig {
        self.core.policy.config()
    }

    pub(super) fn round(&self) -> u64 {
        self.core.round
    }

    pub(super) fn feedbacks(&self) -> u64 {
        self.core.feedbacks
    }

    pub(super) fn restored(&self) -> u64 {
        self.core.restored
    }

    /// The privacy statement of the policy.
    pub(super) fn statement(&self) -> Result<PrivacyStatement, Error> {
        Ok(self.core.policy.privacy()?)
    }

    pub(super) fn spent(&self) -> Option<Spent> {
        self.core.spent()
    }

    /// The task of the batch that the policy waits for, if users answer an intermediary.
    pub(super) fn awaited(&self) -> Result<Option<Task>, Error> {
        Ok(self.core.policy.task()?)
    }

    /// What a user must know who expects much of the parameters.
    pub(super) fn caution(&self) -> Option<String> {
        self.core.policy.caution()
    }

    /// What the policy has learnt, as far as its guarantee covers it.
    pub(super) fn learnt(&self) -> Learnt {
        self.core.policy.learnt()
    }

    /// The estimates from which devices choose their arms.
    pub(super) fn published(&self) -> Result<Vec<Value>, Error> {
        Ok(self.core.policy.published()?)
    }

    /// The terms for late feedback; `None` if no decision waits here.
    pub(super) fn terms(&self) -> Option<Terms> {
        (self.core.profile().feedback != FeedbackKind::Batch).then_some(self.core.terms)
    }

    /// The number of decisions that accept feedback, and of those whose feedback is not learnt yet.
    pub(super) fn pending(&self, now: u64) -> (usize, u64) {
        let given = self.open.iter().filter(|(_, row)| row.given.is_some()).count();
        let open = self.open.iter().filter(|(_, row)| row.given.is_none());
        (open.filter(|(_, row)| self.core.terms.left(row.at, now).is_some()).count(), given as u64)
    }

    /// The number of expired decisions that count as the default reward, and of those left out.
    pub(super) fn not_given(&self) -> (u64, u64) {
        (self.core.defaulted, self.core.left_out)
    }

    /// The change that a bandit needs after its folder was restored from a backup, so that no answer that the
    /// lost state may have released is released again. `None` if the bandit may continue unchanged.
    ///
    /// The policy starts again without its data, and open decisions are closed. Its sums, trees of sums and
    /// rows hold answers that may have been released since the backup, and another release would use them
    /// with fresh noise. The spent budget stays spent. If users add the noise themselves, the folder holds no
    /// answer without noise, and a repeated message reveals nothing new.
    pub(super) fn begin_anew(&mut self) -> Result<Option<ClearChange<'_, ()>>, Error> {
        if self.core.ledger.is_none() || self.core.profile().users_add_noise {
            return Ok(None);
        }
        let policy = PolicyState::new(self.core.policy.config().clone())?;
        let restored = self.core.restored + 1;
        let core = Core { policy, learnt_anew: 0, restored, ..self.core.clone() };
        let rows = Rows { open: self.open.clear(), keyed: self.keyed.clear(), ..Rows::default() };
        Ok(Some(ClearChange { state: self, core: Some(core), rows, out: () }))
    }

    /// The state at the time `now`, before the transition that a request asks for.
    fn step(&self, now: u64) -> Step<'_> {
        let (core, edited, receipts) = (self.core.clone(), BTreeMap::new(), Vec::new());
        let mut step = Step { core, before: &self.open, edited, receipts };
        step.expire(now);
        step
    }

    /// Makes a new decision of the sender with the digest `holder`. It stays open until its feedback comes or
    /// it expires. One with a key that was made before is answered again, and nothing changes. Contexts come
    /// with whether each arm is open.
    pub(super) fn decide(
        &mut self,
        context: Option<(Features, Vec<bool>)>,
        (now, holder): (u64, Digest),
        once: Option<OnceKey>,
        statement: &PrivacyStatement,
        rng: &mut impl Rng,
    ) -> Result<ClearChange<'_, Decision>, Error> {
        if let Some((key, of)) = once
            && let Some(made) = self.keyed.get(&key)
        {
            if made.of != of {
                return Err(Error::KeyReused);
            }
            let decision = serde_json::from_str(&made.decision);
            let decision = decision.map_err(|_| Error::Broken("a kept decision that cannot be read"))?;
            return Ok(self.unchanged(decision));
        }
        let times = (now, self.core.terms.wait);
        self.holders.ask(holder, times, &self.open, &self.receipts);
        let mut step = self.step(now);
        let profile = step.core.profile();
        step.learn(None, statement, rng)?;
        let mut awaited = step.core.policy.task()?;
        let arm = match (profile.horizon, context.is_some()) {
            // Decisions that are open will be learnt from, too.
            (Some(horizon), true) if step.core.learnt_anew + step.len() as u64 >= horizon => {
                return Err(bandit::Error::HorizonOver { horizon }.into());
            }
            _ => match &context {
                Some((context, open)) if open.contains(&false) => {
                    step.core.policy.decide_open(context, open, rng)?
                }
                context => step.core.policy.decide(context.as_ref().map(|(context, _)| context), rng)?,
            },
        };
        let context = context.map(|(context, _)| context);
        let mut id = DecisionId([0; 16]);
        rng.fill_bytes(&mut id.0);
        step.core.round += 1;
        let round = step.core.round;
        // Users of a full batch send nothing.
        let free = match profile.feedback {
            FeedbackKind::Share if awaited.is_none() => 0,
            FeedbackKind::Share => step.core.policy.missing().saturating_sub(step.len() as u64),
            _ => step.core.terms.max_open.saturating_sub(step.open()) as u64,
        };
        let admitted = self.holders.admits(holder, free, times);
        let full = profile.feedback == FeedbackKind::Share && (free == 0 || !admitted);
        if full {
            awaited = None;
            step.receipts.push((id, Receipt::Unasked { round }));
        } else if let Some(arm) = arm.filter(|_| profile.feedback != FeedbackKind::Batch) {
            step.make_room(Some(arm), now, admitted)?;
            let (mark, exchange) = (step.core.policy.mark(), awaited.as_ref().map(|a| a.exchange));
            step.edited.insert(id, Some(Open { round, at: now, arm, mark, context, exchange, given: None }));
        }
        let (published, spent) = (step.core.policy.published()?, step.core.spent());
        let out = Decision { id, round, arm, awaited, published, spent };
        let waits = step.row(id).is_some();
        let (core, rows) = step.finish(&self.receipts);
        let rows = match once {
            Some((key, of)) => {
                let decision = serde_json::to_string(&out);
                let decision = decision.map_err(|_| Error::Broken("a decision that cannot be written"))?;
                Rows { keyed: self.keyed.set(key, Keyed { round, of, decision }), ..rows }
            }
            None => rows,
        };
        if waits {
            self.holders.hold(id, holder);
        }
        Ok(ClearChange { state: self, core: Some(core), rows, out })
    }

    /// Counts a feedback once, and learns from what the rule of the policy admits. If the sender with the
    /// digest `holder` repeats it, the answer is the same and nothing changes. Whoever else sends it is
    /// answered as if it sent another one, so that it cannot test what the reward was.
    pub(super) fn feedback(
        &mut self,
        id: DecisionId,
        feedback: &ClearFeedback,
        (now, holder): (u64, Digest),
        statement: &PrivacyStatement,
        rng: &mut impl Rng,
    ) -> Result<ClearChange<'_, Answer>, Error> {
        let of = digest(&(feedback, holder))?;
        let expired = || Error::Expired { id: id.to_string(), wait: self.core.terms.wait };
        match self.receipts.get(&id) {
            Some(Receipt::Counted(receipt)) => {
                let out = receipt.again(of, || format!("decision {id}"))?;
                return Ok(self.unchanged(out));
            }
            Some(Receipt::Expired { .. }) => return Err(expired()),
            Some(Receipt::Unasked { .. }) => return Err(Error::Settled { id: id.to_string() }),
            None => {}
        }
        let row = self.open.get(&id).ok_or(protocol::Error::UnknownDecision { id: id.to_string() })?;
        if row.given.is_some() {
            // Its receipt was forgotten.
            return Err(Error::Answered { what: format!("decision {id}") });
        }
        if self.core.terms.left(row.at, now).is_none() {
            return Err(expired());
        }
        if let Some(exchange) = row.exchange
            && self.awaited()?.is_none_or(|awaited| awaited.exchange != exchange)
        {
            return Err(Error::BatchOver { exchange });
        }
        self.core.policy.check_feedback(feedback)?;
        let mut step = self.step(now);
        step.core.feedbacks += 1;
        step.edited.insert(id, Some(Open { given: Some(feedback.clone().into()), ..row.clone() }));
        step.learn(Some(id), statement, rng)?;
        let core = &step.core;
        let out = Answer { round: core.round, feedbacks: core.feedbacks, spent: core.spent(), of };
        step.receipts.push((id, Receipt::Counted(out)));
        let (core, rows) = step.finish(&self.receipts);
        Ok(ClearChange { state: self, core: Some(core), rows, out })
    }

    /// Counts a batch of an intermediary once. A repeated batch gets the same answer and changes nothing.
    pub(super) fn receive(
        &mut self,
        batch: &SummedBatch,
        statement: &PrivacyStatement,
        rng: &mut impl Rng,
    ) -> Result<ClearChange<'_, Answer>, Error> {
        // The digest does not depend on how an intermediary splits the sums up.
        let of = digest(&(batch.users, batch.labels, &batch.sums))?;
        if let Some(receipt) = self.exchanges.get(&batch.exchange) {
            let out = receipt.again(of, || format!("exchange {}", batch.exchange))?;
            return Ok(self.unchanged(out));
        }
        let mut core = self.core.clone();
        let task = core.policy.task()?.filter(|task| task.exchange == batch.exchange);
        let task = task.ok_or(Error::BatchOver { exchange: batch.exchange })?;
        let reported = core.policy.report(&task, batch, rng)?;
        // A user is in one batch. The arms of an elimination have different users in a batch, and all are
        // charged the same.
        if reported.first {
            core.charge(batch.exchange, statement)?;
        }
        core.feedbacks += reported.users;
        let out = Answer { round: core.round, feedbacks: core.feedbacks, spent: core.spent(), of };
        let rows = Rows { exchanges: self.exchanges.set(batch.exchange, out), ..Rows::default() };
        Ok(ClearChange { state: self, core: Some(core), rows, out })
    }

    fn unchanged<T>(&mut self, out: T) -> ClearChange<'_, T> {
        ClearChange { state: self, core: None, rows: Rows::default(), out }
    }
}

/// A decision as a caller gets it.
#[derive(Serialize, Deserialize)]
pub(super) struct Decision {
    pub(super) id: DecisionId,
    pub(super) round: u64,
    pub(super) arm: Option<usize>,
    pub(super) awaited: Option<Task>,
    pub(super) published: Vec<Value>,
    /// The budget spent when it was made.
    pub(super) spent: Option<Spent>,
}
