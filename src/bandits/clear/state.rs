//! The state of one bandit with a clear policy: the policy, the decisions that wait for feedback, the
//! receipts, and the budget spent. This module knows no HTTP and no disk.
//!
//! A transition returns a [`ClearChange`], which holds the whole state of the policy, and only the rows that
//! are written or removed.

use crate::error::Error;
use crate::store::{Edit, Edits, Numbered, Recent, Stored, StoredRow, encode};
use bandit::Features;
use policies::{PolicyConfig, PolicyState, Profile};
use privacy::PrivacyStatement;
use privacy::accountant::{Accountant, Cost};
use privacy::task::Task;
use protocol::DecisionId;
use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::{ClearFeedback, FeedbackKind, Spent, SummedBatch};

/// The most decisions and the most receipts; the oldest are removed first. Fewer decisions are kept together
/// with contexts.
const REMEMBERED: usize = 1024;
/// The most features that are kept with decisions, in memory.
const KEPT_VALUES: usize = 1 << 17;

/// The state of one bandit.
#[derive(Clone)]
pub(super) struct ClearState {
    core: Core,
    open: Recent<DecisionId, Open>,
    receipts: Recent<DecisionId, Answer>,
    exchanges: Recent<u64, Answer>,
}

/// Everything except the rows. Each change writes all of it.
#[derive(Clone, Serialize, Deserialize)]
struct Core {
    policy: PolicyState,
    /// `None` if no privacy is guaranteed.
    ledger: Option<Accountant>,
    round: u64,
    feedbacks: u64,
    newest: Option<DecisionId>,
    /// The number of times that the policy started again because its folder was restored from a backup.
    restored: u64,
}

/// The time in seconds since 1970, and the seconds for which a decision without feedback is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub(super) now: u64,
    pub(super) hold: u64,
}

impl Clock {
    /// The seconds for which `open` is still kept. `None` if new decisions may replace it.
    fn left(self, open: &Open) -> Option<u64> {
        // A clock that was set back keeps no decision for longer.
        let age = self.now.checked_sub(open.at)?;
        self.hold.checked_sub(age).filter(|left| *left > 0)
    }
}

/// A decision that waits for feedback, which is a row.
#[derive(Clone, Serialize, Deserialize)]
struct Open {
    round: u64,
    /// The time of the decision, in seconds since 1970.
    at: u64,
    arm: usize,
    context: Option<Features>,
    exchange: Option<u64>,
}

impl Numbered for Open {
    fn number(&self) -> u64 {
        self.round
    }
}

/// The answer to a counted feedback or batch, which is a row.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) feedbacks: u64,
    pub(super) spent: Option<Spent>,
    of: Digest,
}

impl Numbered for Answer {
    fn number(&self) -> u64 {
        self.feedbacks
    }
}

/// The digest of a counted message, by which a repetition is recognised.
type Digest = [u8; 16];

fn digest(message: &impl Serialize) -> Result<Digest, Error> {
    let bytes = serde_json::to_vec(message).map_err(|_| Error::Broken("a message that cannot be written"))?;
    let hash = blake3::hash(&bytes);
    hash.as_bytes().first_chunk().copied().ok_or(Error::Broken("a hash below 16 bytes"))
}

impl Answer {
    /// The answer to a repeated message.
    ///
    /// # Errors
    /// [`Error::Answered`] if another message was counted.
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
    receipts: Vec<Edit<DecisionId, Answer>>,
    exchanges: Vec<Edit<u64, Answer>>,
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

    /// Whether each caller gets an alias of its own for a decision.
    fn has_aliases(&self) -> bool {
        let profile = self.profile();
        profile.in_turn && profile.features.is_none()
    }

    /// Checks that policy, ledger and decisions belong together.
    fn check<'a>(&self, mut open: impl Iterator<Item = &'a Open>) -> Result<(), String> {
        let profile = self.profile();
        let fits = |open: &Open| {
            let shape = open.context.as_ref().map(|c| (c.d(), c.k()));
            open.arm < profile.arms && (shape.is_none() || shape == profile.shape())
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

/// The most decisions that are kept together with contexts of the policy's shape.
fn remembered(profile: &Profile) -> usize {
    profile.shape().map_or(REMEMBERED, |(d, k)| (KEPT_VALUES / (d * k).max(1)).min(REMEMBERED))
}

impl ClearState {
    /// A bandit without data.
    ///
    /// # Errors
    /// Those of the policy, which name the parameter.
    pub(super) fn new(config: PolicyConfig) -> Result<Self, Error> {
        let policy = PolicyState::new(config)?;
        let statement = policy.privacy()?;
        let core = Core {
            ledger: statement.epsilon.map(|e| Accountant::new(Cost::Approximate(e, statement.delta))),
            policy,
            round: 0,
            feedbacks: 0,
            newest: None,
            restored: 0,
        };
        // The state must be readable at the next start, or the server would not start again.
        Self::from_parts(&core.to_bytes()?, &[], &[], &[]).map_err(|why| Error::BadParameter {
            why: format!("parameters: their combination is outside the range that can be computed ({why})"),
        })
    }

    /// Reads a stored bandit. Each part is checked, and then that all parts belong to one bandit.
    pub(super) fn read(stored: &Stored) -> Result<Self, String> {
        let Stored { state, decisions, receipts, exchanges, .. } = stored;
        Self::from_parts(state, decisions, receipts, exchanges)
    }

    fn from_parts(
        state: &[u8],
        decisions: &[StoredRow],
        receipts: &[StoredRow],
        exchanges: &[StoredRow],
    ) -> Result<Self, String> {
        let (core, rest) = postcard::take_from_bytes::<Core>(state).map_err(|e| e.to_string())?;
        if !rest.is_empty() {
            return Err(format!("{} bytes after its end", rest.len()));
        }
        let open = Recent::read(remembered(&core.profile()), decisions)?;
        core.check(open.iter().map(|(_, open)| open))?;
        Ok(ClearState {
            core,
            open,
            receipts: Recent::read(REMEMBERED, receipts)?,
            exchanges: Recent::read(REMEMBERED, exchanges)?,
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

    /// The estimates from which devices choose their arms.
    pub(super) fn published(&self) -> Result<Vec<Value>, Error> {
        Ok(self.core.policy.published()?)
    }

    /// The number of decisions that accept feedback. If the policy learns in turn, only the newest does.
    pub(super) fn pending(&self) -> usize {
        match self.core.profile().in_turn {
            true => self.core.newest.is_some_and(|id| self.open.contains(&id)).into(),
            false => self.open.len(),
        }
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
        let core = Core { policy, newest: None, restored, ..self.core.clone() };
        let rows = Rows { open: self.open.clear(), ..Rows::default() };
        Ok(Some(ClearChange { state: self, core: Some(core), rows, out: () }))
    }

    /// The decision to return instead of a new one. A policy that learns in turn and takes no contexts
    /// returns the decision that still waits for its feedback. This decision follows from values that were
    /// released before, so that it reveals nothing new. Each caller gets an [`alias`] of its own: a second
    /// feedback on a decision is compared with the first, and a caller who knew its name could guess the
    /// first.
    ///
    /// # Errors
    /// [`Error::TurnTaken`] if decisions take contexts: the open decision is for one person, and nobody else
    /// may find out whether their contexts are equal. [`Error::TooManyOpen`] if a new decision would replace
    /// one that is still kept.
    pub(super) fn in_place_of_new(
        &self,
        clock: Clock,
        rng: &mut impl Rng,
    ) -> Result<Option<Decision>, Error> {
        let core = &self.core;
        if core.profile().feedback == FeedbackKind::Batch {
            return Ok(None);
        }
        if core.profile().in_turn {
            let waiting = core.newest.and_then(|id| Some((id, self.open.get(&id)?)));
            let Some((id, open)) = waiting else { return Ok(None) };
            if core.profile().shape().is_some() {
                return clock.left(open).map_or(Ok(None), |wait| Err(Error::TurnTaken { wait }));
            }
            let (round, arm) = (open.round, Some(open.arm));
            let (awaited, published) = (self.awaited()?, self.published()?);
            return Ok(Some(Decision { id: alias(id, rng), round, arm, awaited, published }));
        }
        let limit = remembered(&core.profile());
        if self.open.len() < limit {
            return Ok(None);
        }
        let left = self.open.oldest().and_then(|oldest| clock.left(oldest));
        left.map_or(Ok(None), |wait| Err(Error::TooManyOpen { limit, wait }))
    }

    /// Makes a new decision. If the policy learns in turn, the decision before becomes void; if too many are
    /// open, the oldest is removed. [`Self::in_place_of_new`] checks whether this is allowed.
    ///
    /// # Errors
    /// Those of the policy.
    pub(super) fn decide(
        &mut self,
        context: Option<Features>,
        clock: Clock,
        rng: &mut impl Rng,
    ) -> Result<ClearChange<'_, Decision>, Error> {
        let mut core = self.core.clone();
        let arm = core.policy.decide(context.as_ref(), rng)?;
        let mut id = DecisionId([0; 16]);
        rng.fill_bytes(&mut id.0);
        core.round += 1;
        let round = core.round;
        let awaited = core.policy.task()?;
        let mut open = Vec::new();
        if let Some(arm) = arm.filter(|_| core.profile().feedback != FeedbackKind::Batch) {
            // If the policy learns in turn, the decision before is void, and its context is not needed any
            // more.
            let before = core.newest.filter(|_| core.profile().in_turn);
            if let Some((before, void)) = before.and_then(|id| Some((id, self.open.get(&id)?)))
                && void.context.is_some()
            {
                open.extend(self.open.set(before, Open { context: None, ..void.clone() }));
            }
            let exchange = awaited.as_ref().map(|a| a.exchange);
            open.extend(self.open.set(id, Open { round, at: clock.now, arm, context, exchange }));
            core.newest = Some(id);
        }
        let id = if core.has_aliases() { alias(id, rng) } else { id };
        let out = Decision { id, round, arm, awaited, published: core.policy.published()? };
        let rows = Rows { open, ..Rows::default() };
        Ok(ClearChange { state: self, core: Some(core), rows, out })
    }

    /// Counts a feedback once. A repeated feedback gets the same answer and changes nothing.
    ///
    /// # Errors
    /// [`protocol::Error::UnknownDecision`], [`Error::OutOfTurn`], [`Error::Answered`], [`Error::Settled`],
    /// [`Error::BatchOver`], and those of the policy.
    pub(super) fn feedback(
        &mut self,
        id: DecisionId,
        feedback: &ClearFeedback,
        statement: &PrivacyStatement,
        rng: &mut impl Rng,
    ) -> Result<ClearChange<'_, Answer>, Error> {
        let of = digest(feedback)?;
        if let Some(receipt) = self.receipts.get(&id) {
            let out = receipt.again(of, || format!("decision {id}"))?;
            return Ok(self.unchanged(out));
        }
        let core = &self.core;
        let unknown = || protocol::Error::UnknownDecision { id: id.to_string() };
        let base = match core.newest.filter(|_| core.has_aliases()) {
            Some(newest) if is_alias(newest, id) => newest,
            Some(_) => return Err(unknown().into()),
            None => id,
        };
        let open = self.open.get(&base).ok_or_else(unknown)?;
        if core.profile().in_turn && core.newest != Some(base) {
            return Err(Error::OutOfTurn { id: id.to_string() });
        }
        if core.profile().feedback == FeedbackKind::Share {
            let exchange = open.exchange.ok_or_else(|| Error::Settled { id: id.to_string() })?;
            if self.awaited()?.is_none_or(|a| a.exchange != exchange) {
                return Err(Error::BatchOver { exchange });
            }
        }
        let mut core = self.core.clone();
        core.policy.learn(open.context.as_ref(), open.arm, feedback, rng)?;
        core.feedbacks += 1;
        core.charge(core.feedbacks, statement)?;
        let out = Answer { feedbacks: core.feedbacks, spent: core.spent(), of };
        let (open, receipts) = (vec![self.open.remove(base)], self.receipts.set(id, out));
        let rows = Rows { open, receipts, ..Rows::default() };
        Ok(ClearChange { state: self, core: Some(core), rows, out })
    }

    /// Counts a batch of an intermediary once. A repeated batch gets the same answer and changes nothing.
    ///
    /// # Errors
    /// [`Error::Answered`], [`Error::BatchOver`], and those of the policy.
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
        let out = Answer { feedbacks: core.feedbacks, spent: core.spent(), of };
        let rows = Rows { exchanges: self.exchanges.set(batch.exchange, out), ..Rows::default() };
        Ok(ClearChange { state: self, core: Some(core), rows, out })
    }

    fn unchanged<T>(&mut self, out: T) -> ClearChange<'_, T> {
        ClearChange { state: self, core: None, rows: Rows::default(), out }
    }
}

/// A decision as a caller gets it.
pub(super) struct Decision {
    pub(super) id: DecisionId,
    pub(super) round: u64,
    pub(super) arm: Option<usize>,
    pub(super) awaited: Option<Task>,
    pub(super) published: Vec<Value>,
}

/// A fresh alias of the decision `base`. A caller who knows one alias can neither compute nor recognise
/// another.
fn alias(base: DecisionId, rng: &mut impl Rng) -> DecisionId {
    let mut id = DecisionId([0; 16]);
    rng.fill_bytes(&mut id.0[..8]);
    let tag = alias_tag(base, id);
    id.0[8..].copy_from_slice(&tag);
    id
}

fn is_alias(base: DecisionId, id: DecisionId) -> bool {
    id.0[8..] == alias_tag(base, id)
}

/// A MAC of the first half of `id` under the key `base`, which is 128 random bits that leave this process for
/// the state folder alone.
fn alias_tag(base: DecisionId, id: DecisionId) -> [u8; 8] {
    let key = blake3::derive_key("helba 2026 alias of a decision", &base.0);
    let tag = blake3::keyed_hash(&key, &id.0[..8]);
    let mut out = [0; 8];
    out.copy_from_slice(&tag.as_bytes()[..8]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::cards;
    use bandit::stochastic::AnytimeLazyUcb;
    use privacy::laplace::GridLaplace;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;
    use wire::PolicyCard;

    /// A bandit as a store holds it.
    fn stored(bandit: &ClearState) -> Stored {
        fn rows<K: Copy + Ord + Serialize, V: Numbered + Serialize>(rows: &Recent<K, V>) -> Vec<StoredRow> {
            let bytes =
                |(key, value)| (postcard::to_stdvec(key).unwrap(), postcard::to_stdvec(value).unwrap());
            rows.iter().map(bytes).collect()
        }
        Stored {
            id: String::new(),
            state: bandit.core.to_bytes().unwrap(),
            decisions: rows(&bandit.open),
            receipts: rows(&bandit.receipts),
            exchanges: rows(&bandit.exchanges),
        }
    }

    const CLOCK: Clock = Clock { now: 1_800_000_000, hold: 60 };

    fn round(bandit: &mut ClearState, rng: &mut ChaCha20Rng) -> Result<Option<usize>, Error> {
        let statement = bandit.core.policy.privacy()?;
        let shape = bandit.core.profile().shape();
        let context = shape.map(|(d, k)| {
            let values = (0..d * k).map(|_| rng.random::<f64>() / (d as f64).sqrt()).collect();
            Features::new(values, d).unwrap()
        });
        let Decision { id, arm, .. } = bandit.decide(context, CLOCK, rng)?.apply();
        let value = rng.random::<f64>();
        let none = ClearFeedback::default();
        let feedback = match bandit.core.profile().feedback {
            FeedbackKind::Reward => ClearFeedback { reward: Some(value), ..none },
            FeedbackKind::Rewards => ClearFeedback { rewards: Some(vec![value; 5]), ..none },
            FeedbackKind::Sum => ClearFeedback { sum: Some(value), ..none },
            FeedbackKind::Share => ClearFeedback { share: Some(1), ..none },
            _ => return Ok(arm),
        };
        // A decision without an answer now and then: the next one takes its place.
        if rng.random_range(0..4) > 0 {
            bandit.feedback(id, &feedback, &statement, rng)?.apply();
        }
        Ok(arm)
    }

    fn play(bandit: &mut ClearState, rounds: u32, rng: &mut ChaCha20Rng) -> Vec<Option<usize>> {
        (0..rounds).map(|_| round(bandit, rng).unwrap()).collect()
    }

    fn example(card: PolicyCard) -> ClearState {
        let Value::Object(example) = card.example else { panic!("{}", card.policy) };
        ClearState::new(PolicyConfig::from_request(example).unwrap()).unwrap()
    }

    /// Two callers get the decision that waits. After one has answered, the other's guesses at the answer all
    /// meet the same error; the one who answered may send the answer again, and is told when it differs.
    #[test]
    fn attack_an_answer_is_not_found_by_guesses() {
        let mut rng = ChaCha20Rng::seed_from_u64(6);
        let mut seen = 0;
        for card in cards().unwrap().into_iter().skip(1) {
            let name = card.policy.clone();
            let mut bandit = example(card);
            let statement = bandit.core.policy.privacy().unwrap();
            if !bandit.core.has_aliases() || bandit.core.profile().feedback != FeedbackKind::Reward {
                continue;
            }
            seen += 1;
            let first = bandit.decide(None, CLOCK, &mut rng).unwrap().apply();
            let second = bandit.in_place_of_new(CLOCK, &mut rng).unwrap().unwrap();
            assert_eq!((first.round, first.arm), (second.round, second.arm), "{name}");
            let reward = |r| ClearFeedback { reward: Some(r), ..ClearFeedback::default() };
            bandit = ClearState::read(&stored(&bandit)).unwrap();
            bandit.feedback(first.id, &reward(0.25), &statement, &mut rng).unwrap().apply();
            let mut guess = |id, r| {
                bandit.feedback(id, &reward(r), &statement, &mut rng).map(|change| _ = change.apply())
            };
            for r in [0.0, 0.25, 1.0] {
                let unknown = guess(second.id, r).unwrap_err();
                assert!(
                    matches!(
                        unknown,
                        Error::Helba(helba::Error::Protocol(protocol::Error::UnknownDecision { .. }))
                    ),
                    "{name}: {unknown}"
                );
            }
            // The name that answered tells, to the one who sent it.
            assert!(guess(first.id, 0.25).is_ok());
            assert!(matches!(guess(first.id, 1.0), Err(Error::Answered { .. })), "{name}");
        }
        assert!(seen >= 3, "{seen}");
    }

    /// Of every policy offered: whatever byte of its stored state is damaged, it is refused, or plays on
    /// without a panic; so is what has been cut off, goes on too long, or is put together from two bandits.
    #[test]
    fn damaged_states_do_no_harm() {
        let mut rng = ChaCha20Rng::seed_from_u64(4);
        let (mut refused, mut read) = (0, 0);
        for card in cards().unwrap().into_iter().skip(1) {
            let name = card.policy.clone();
            let mut bandit = example(card);
            play(&mut bandit, 30, &mut rng);
            let whole = stored(&bandit);
            assert!(ClearState::read(&whole).is_ok(), "{name}");
            let with = |state: Vec<u8>| ClearState::read(&Stored { state, ..whole.clone() });
            assert!(with(whole.state[..whole.state.len() - 1].to_vec()).is_err(), "{name}");
            assert!(with([whole.state.as_slice(), &[0]].concat()).is_err(), "{name}");
            for _ in 0..40 {
                let mut damaged = whole.clone();
                let rows = [&mut damaged.decisions, &mut damaged.receipts, &mut damaged.exchanges];
                let rows = rows.into_iter().flatten().flat_map(|(key, value)| [key, value]);
                let mut parts: Vec<_> = std::iter::once(&mut damaged.state).chain(rows).collect();
                let at = rng.random_range(0..parts.iter().map(|part| part.len()).sum());
                let mut bytes = parts.iter_mut().flat_map(|part| part.iter_mut());
                *bytes.nth(at).unwrap() ^= 1 << rng.random_range(0..8);
                let Ok(mut bandit) = ClearState::read(&damaged) else {
                    refused += 1;
                    continue;
                };
                read += 1;
                for _ in 0..3 {
                    let _ = round(&mut bandit, &mut rng);
                }
            }
            let ledger = bandit.core.ledger.take();
            let other = (name == "ucb1")
                .then(|| Accountant::new(Cost::pure(privacy::budget::Epsilon::new(1.0).unwrap())));
            if ledger.is_some() || other.is_some() {
                bandit.core.ledger = other;
                assert!(ClearState::read(&stored(&bandit)).is_err(), "{name}");
                bandit.core.ledger = ledger;
            }
            let other = if name == "ucb1" { "ars-ucb" } else { "ucb1" };
            let mixed = (other, r#"{"arms":5}"#.to_string(), bandit.core.policy.state().unwrap());
            let mixed = postcard::to_stdvec(&mixed).unwrap();
            assert!(postcard::from_bytes::<PolicyState>(&mixed).is_err(), "{name}");
        }
        assert!(refused > 30 && read > 30, "{refused} refused, {read} read");
    }

    /// The state of an elimination under one model is refused under another: their users sent other numbers.
    #[test]
    fn another_model_is_refused() {
        let policy = |model: &str| {
            let request = serde_json::json!({"policy": "elimination", "model": model, "arms": 5,
                "horizon": 999, "epsilon": 1});
            let Value::Object(request) = request else { unreachable!() };
            PolicyState::new(PolicyConfig::from_request(request).unwrap()).unwrap()
        };
        let (pure, local) = (policy("pure"), policy("local"));
        let read = |config: &PolicyState, state: &PolicyState| {
            let parameters = serde_json::to_string(&config.config().parameters().unwrap()).unwrap();
            let stored = postcard::to_stdvec(&("elimination", parameters, state.state().unwrap())).unwrap();
            postcard::from_bytes::<PolicyState>(&stored)
        };
        assert!(read(&pure, &pure).is_ok());
        assert!(read(&pure, &local).is_err() && read(&local, &pure).is_err());
    }

    /// Noise that calibration found is stored. Reading a bandit back searches for no noise, so the cost of a
    /// creation is not paid again at each start.
    #[test]
    fn attack_stored_noise_is_not_sized_again() {
        let request = serde_json::json!({"policy": "shuffle-glm", "arms": 2, "features": 2, "batches": [125_000],
            "epsilon": 4, "delta": 1e-6, "gamma": 1, "steps": 1000});
        let Value::Object(request) = request else { unreachable!() };
        let bandit = ClearState::new(PolicyConfig::from_request(request).unwrap()).unwrap();
        let begun = std::time::Instant::now();
        let stored = stored(&bandit);
        for _ in 0..10 {
            ClearState::read(&stored).unwrap();
        }
        // A search takes some sixty times as long as a check.
        let (checks, begun) = (begun.elapsed(), std::time::Instant::now());
        PolicyState::new(bandit.config().clone()).unwrap();
        assert!(checks < begun.elapsed() * 3, "{checks:?}");
    }

    /// A policy that learns in turn and is asked repeatedly gives the decision that still waits, and does not
    /// change. A policy with contexts refuses for the hold time, whatever the contexts are. With a hold of 0
    /// the next decision makes the one before void.
    #[test]
    fn attack_empty_requests_void_no_decision() {
        let make = |value: Value| {
            let Value::Object(request) = value else { unreachable!() };
            ClearState::new(PolicyConfig::from_request(request).unwrap()).unwrap()
        };
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let mut bandit = make(serde_json::json!({"policy": "dp-se", "arms": 2, "epsilon": 1, "beta": 0.1}));
        assert!(bandit.in_place_of_new(CLOCK, &mut rng).unwrap().is_none());
        let first = bandit.decide(None, CLOCK, &mut rng).unwrap().apply();
        for later in [0, 10, 1_000_000] {
            let clock = Clock { now: CLOCK.now + later, ..CLOCK };
            let again = bandit.in_place_of_new(clock, &mut rng).unwrap().unwrap();
            // Under another name: see `attack_an_answer_is_not_found_by_guesses`.
            assert_eq!((again.round, again.arm), (1, first.arm));
            assert_ne!(again.id, first.id);
        }
        let feedback = ClearFeedback { reward: Some(1.0), ..ClearFeedback::default() };
        let statement = bandit.core.policy.privacy().unwrap();
        bandit.feedback(first.id, &feedback, &statement, &mut rng).unwrap().apply();
        assert!(bandit.in_place_of_new(CLOCK, &mut rng).unwrap().is_none());

        let mut bandit = make(
            serde_json::json!({"policy": "rs-glinucb", "arms": 2, "features": 2, "horizon": 99, "delta": 0.1}),
        );
        let context = || Some(Features::new(vec![0.1; 4], 2).unwrap());
        let first = bandit.decide(context(), CLOCK, &mut rng).unwrap().apply();
        let after = |seconds| Clock { now: CLOCK.now + seconds, ..CLOCK };
        assert!(matches!(bandit.in_place_of_new(after(0), &mut rng), Err(Error::TurnTaken { wait: 60 })));
        assert!(matches!(bandit.in_place_of_new(after(59), &mut rng), Err(Error::TurnTaken { wait: 1 })));
        assert!(bandit.in_place_of_new(Clock { hold: 0, ..CLOCK }, &mut rng).unwrap().is_none(), "control");
        let mut late = bandit.clone();
        assert!(late.in_place_of_new(after(60), &mut rng).unwrap().is_none());
        late.decide(context(), after(60), &mut rng).unwrap().apply();
        let statement = bandit.core.policy.privacy().unwrap();
        assert!(matches!(
            late.feedback(first.id, &feedback, &statement, &mut rng).map(ClearChange::apply),
            Err(Error::OutOfTurn { .. })
        ));
        bandit.feedback(first.id, &feedback, &statement, &mut rng).unwrap().apply();
    }

    /// When as many decisions are open as are remembered, further ones are refused and replace none of those
    /// that others hold.
    #[test]
    fn attack_floods_push_out_no_open_decision() {
        let config = serde_json::json!({"policy": "oful", "arms": 2, "features": 1});
        let Value::Object(config) = config else { unreachable!() };
        let mut bandit = ClearState::new(PolicyConfig::from_request(config).unwrap()).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(6);
        let context = || Some(Features::new(vec![0.5; 2], 1).unwrap());
        let first = bandit.decide(context(), CLOCK, &mut rng).unwrap().apply().id;
        let refused = loop {
            assert!(bandit.core.round <= REMEMBERED as u64, "never refused");
            match bandit.in_place_of_new(CLOCK, &mut rng) {
                Ok(None) => drop(bandit.decide(context(), CLOCK, &mut rng).unwrap().apply()),
                Ok(Some(_)) => unreachable!(),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::TooManyOpen { limit: REMEMBERED, wait: 60 }), "{refused}");
        let later = Clock { now: CLOCK.now + CLOCK.hold, ..CLOCK };
        assert!(bandit.in_place_of_new(later, &mut rng).unwrap().is_none(), "the oldest has had its time");
        assert!(bandit.in_place_of_new(Clock { hold: 0, ..CLOCK }, &mut rng).unwrap().is_none(), "control");
        let feedback = ClearFeedback { reward: Some(1.0), ..ClearFeedback::default() };
        let statement = bandit.core.policy.privacy().unwrap();
        bandit.feedback(first, &feedback, &statement, &mut rng).unwrap().apply();
        assert!(bandit.in_place_of_new(CLOCK, &mut rng).unwrap().is_none(), "an answer makes room");
    }

    /// The control: two states that continue from one backup release its rewards twice, each with its own
    /// noise. A restored state releases none of them: with noise of scale 10⁻⁶ its mean is that of the
    /// rewards that came since.
    #[test]
    fn attack_backups_release_no_reward_again() {
        let request = serde_json::json!({"policy": "anytime-lazy-ucb", "arms": 1, "epsilon": 1e6});
        let Value::Object(request) = request else { unreachable!() };
        let mut backup = ClearState::new(PolicyConfig::from_request(request).unwrap()).unwrap();
        let statement = backup.core.policy.privacy().unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(8);
        let mut give = |bandit: &mut ClearState, reward: f64, times: u32| {
            for _ in 0..times {
                let id = bandit.decide(None, CLOCK, &mut rng).unwrap().apply().id;
                let feedback = ClearFeedback { reward: Some(reward), ..ClearFeedback::default() };
                bandit.feedback(id, &feedback, &statement, &mut rng).unwrap().apply();
            }
            let state = bandit.core.policy.state().unwrap();
            let (_, policy): (String, AnytimeLazyUcb<GridLaplace>) = postcard::from_bytes(&state).unwrap();
            policy.means().next().unwrap()
        };
        // Releases come at the pulls 1, 3 and 7: three of these six rewards wait for the next.
        assert!((give(&mut backup, 1.0, 6) - 1.0).abs() < 1e-3);
        let mut lost = [backup.clone(), backup.clone()];
        let means = lost.each_mut().map(|bandit| give(bandit, 0.0, 1));
        assert!(means.iter().all(|mean| (mean - 0.75).abs() < 1e-3) && means[0] != means[1], "{means:?}");
        let mut restored = backup;
        restored.begin_anew().unwrap().unwrap().apply();
        for _ in 0..15 {
            assert!(give(&mut restored, 0.0, 1).abs() < 1e-3);
        }
        assert_eq!(restored.core.feedbacks, 21);
    }

    /// Every offered policy plays on after a restore, with what it had spent. Where the server adds the
    /// noise, none of its answers is left and its open decisions are closed.
    #[test]
    fn restored_bandits_begin_anew() {
        let mut rng = ChaCha20Rng::seed_from_u64(7);
        for card in cards().unwrap().into_iter().skip(1) {
            let (name, mut bandit) = (card.policy.clone(), example(card));
            play(&mut bandit, 30, &mut rng);
            let context =
                bandit.core.profile().shape().map(|(d, k)| Features::new(vec![0.1; d * k], d).unwrap());
            let _ = bandit.decide(context, CLOCK, &mut rng).map(ClearChange::apply);
            let central = bandit.core.ledger.is_some() && !bandit.core.profile().users_add_noise;
            let mut restored = bandit.clone();
            let begun = restored.begin_anew().unwrap().map(ClearChange::apply);
            assert_eq!(begun.is_some(), central, "{name}");
            if begun.is_none() {
                continue;
            }
            let fresh = PolicyState::new(bandit.config().clone()).unwrap();
            assert_eq!(postcard::to_stdvec(&restored.core.policy), postcard::to_stdvec(&fresh), "{name}");
            assert_eq!((restored.pending(), restored.core.restored), (0, 1), "{name}");
            assert_eq!(
                (restored.core.round, restored.core.feedbacks),
                (bandit.core.round, bandit.core.feedbacks)
            );
            let spent = |bandit: &ClearState| bandit.spent().map(|spent| spent.epsilon);
            assert_eq!(spent(&restored), spent(&bandit), "{name}");
            play(&mut restored, 10, &mut rng);
            assert!(ClearState::read(&stored(&restored)).is_ok(), "{name}");
            restored.begin_anew().unwrap().unwrap().apply();
            assert_eq!(restored.core.restored, 2);
        }
    }

    /// Of every policy offered: stored and read back at any point it makes the same decisions from the same
    /// randomness, and is stored again to the same bytes.
    #[test]
    fn stored_states_go_on_exactly() {
        for card in cards().unwrap().into_iter().skip(1) {
            let policy = card.policy.clone();
            let mut bandit = example(card);
            let mut rng = ChaCha20Rng::seed_from_u64(1);
            for part in 0..4 {
                play(&mut bandit, 25 * part, &mut rng);
                let mut again = ClearState::read(&stored(&bandit)).unwrap();
                let (mut first, mut second) = (ChaCha20Rng::seed_from_u64(2), ChaCha20Rng::seed_from_u64(2));
                let arms = play(&mut bandit, 40, &mut first);
                assert_eq!(arms, play(&mut again, 40, &mut second), "{policy}");
                assert_eq!(stored(&bandit), stored(&again));
                assert_eq!(first, second);
            }
        }
    }

    /// Of every policy offered, with any number of its example at an extreme: it is refused, or it plays, and
    /// after every round it can be read back. One bandit that cannot keeps the server from starting again.
    #[test]
    fn extremes_are_refused_or_last() {
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let reals = [5e-324, 1e-300, 1e-30, 1e-9, 1e-6, 0.999_999, 1e6, 1e9, 1e30, 1.7e308].map(Value::from);
        let wholes = [0, 1, 2, 4096, 1 << 32, u64::MAX].map(Value::from);
        let (mut refused, mut made) = (0, 0);
        for PolicyCard { policy, example, .. } in cards().unwrap().into_iter().skip(1) {
            let Value::Object(example) = example else { panic!("{policy}") };
            // The noise of every batch of ShuffleGLM takes a while; what it is made of, it has in common with
            // JointGLM.
            let numbers = example.iter().filter(|(_, v)| v.is_number() && policy != "shuffle-glm");
            for (name, value) in
                numbers.flat_map(|(name, _)| reals.iter().chain(&wholes).map(move |v| (name, v)))
            {
                let mut request = example.clone();
                request.insert(name.clone(), value.clone());
                let Ok(mut bandit) =
                    PolicyConfig::from_request(request).map_err(Error::from).and_then(ClearState::new)
                else {
                    refused += 1;
                    continue;
                };
                made += 1;
                for _ in 0..5 {
                    let mut next = bandit.clone();
                    if round(&mut next, &mut rng).is_ok() {
                        bandit = next;
                    }
                    assert!(ClearState::read(&stored(&bandit)).is_ok(), "{policy}, {name} = {value}");
                }
            }
        }
        assert!(refused > 300 && made > 300, "{refused} refused, {made} made");
    }

    /// What is remembered is bounded, and what is forgotten is not counted again.
    #[test]
    fn memory_is_bounded() {
        let config = serde_json::json!({"policy": "oful", "arms": 4, "features": 64});
        let Value::Object(config) = config else { unreachable!() };
        let mut bandit = ClearState::new(PolicyConfig::from_request(config).unwrap()).unwrap();
        let most = remembered(&bandit.core.profile());
        assert_eq!(most, KEPT_VALUES / 256);
        let (mut rng, statement) = (ChaCha20Rng::seed_from_u64(3), bandit.core.policy.privacy().unwrap());
        let context = || Some(Features::new(vec![0.1; 256], 64).unwrap());
        let first = bandit.decide(context(), CLOCK, &mut rng).unwrap().apply().id;
        let ids: Vec<DecisionId> =
            (0..most).map(|_| bandit.decide(context(), CLOCK, &mut rng).unwrap().apply().id).collect();
        assert_eq!(bandit.open.len(), most);
        let feedback = ClearFeedback { reward: Some(1.0), ..ClearFeedback::default() };
        assert!(bandit.feedback(first, &feedback, &statement, &mut rng).is_err());
        bandit.feedback(ids[0], &feedback, &statement, &mut rng).unwrap().apply();
        assert_eq!((bandit.open.len(), bandit.core.feedbacks), (most - 1, 1));
    }

    /// The rows that a feedback writes are as many bytes with every decision open that is remembered as with
    /// ten, and the policy's state is the same.
    #[test]
    fn a_feedback_does_not_grow_with_open_decisions() {
        let config = serde_json::json!({"policy": "oful", "arms": 2, "features": 1});
        let Value::Object(config) = config else { unreachable!() };
        let mut rng = ChaCha20Rng::seed_from_u64(9);
        let mut bytes = |open: usize| {
            let mut bandit = ClearState::new(PolicyConfig::from_request(config.clone()).unwrap()).unwrap();
            let context = || Some(Features::new(vec![0.5; 2], 1).unwrap());
            let mut decide = || bandit.decide(context(), CLOCK, &mut rng).unwrap().apply().id;
            let first = decide();
            (1..open).for_each(|_| _ = decide());
            assert_eq!(bandit.pending(), open);
            let statement = bandit.statement().unwrap();
            let feedback = ClearFeedback { reward: Some(1.0), ..ClearFeedback::default() };
            let change = bandit.feedback(first, &feedback, &statement, &mut rng).unwrap();
            let edits = change.edits().unwrap().unwrap();
            let rows = [edits.decisions, edits.receipts, edits.exchanges].concat();
            let bytes =
                |row: &crate::store::StoredEdit| row.key.len() + row.value.as_ref().map_or(0, Vec::len);
            (rows.iter().map(bytes).sum::<usize>(), edits.state.len())
        };
        let ((few, state), (many, after)) = (bytes(10), bytes(REMEMBERED));
        assert_eq!(few, many);
        // Counters are longer by some bytes.
        assert!(after <= state + 8, "{state}, {after}");
    }
}
