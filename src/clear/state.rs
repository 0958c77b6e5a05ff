//! The state of one bandit: its policy, the decisions it waits for, what it has answered and spent. No HTTP
//! and no disk.

use crate::Error;
use crate::policy::{Config, Learner};
use bandit::Features;
use privacy::PrivacyStatement;
use privacy::accountant::{Accountant, Cost};
use protocol::DecisionId;
use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use wire::{Awaited, ClearFeedback, FeedbackKind, Spent, SummedBatch};

/// Decisions and receipts remembered, the oldest forgotten first; fewer where contexts are kept with them.
const REMEMBERED: usize = 1024;
/// Features kept with decisions in all: a commit writes them.
const KEPT_VALUES: usize = 1 << 17;

/// The state of one bandit: what is stored, whole.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Bandit {
    pub(super) config: Config,
    pub(super) learner: Learner,
    /// `None` where no privacy is promised.
    ledger: Option<Accountant>,
    pub(super) round: u64,
    pub(super) feedbacks: u64,
    open: BTreeMap<DecisionId, Open>,
    newest: Option<DecisionId>,
    receipts: BTreeMap<DecisionId, Receipt>,
    exchanges: BTreeMap<u64, Receipt>,
    /// How often the policy began anew because its folder was restored from a backup.
    pub(super) restored: u64,
}

/// The time, in seconds since 1970, and for how many seconds an open decision is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub(super) now: u64,
    pub(super) hold: u64,
}

impl Clock {
    /// Seconds for which `open` is still kept; `None` once new decisions may replace it.
    fn left(self, open: &Open) -> Option<u64> {
        // A clock that was set back does not keep a decision for longer.
        let age = self.now.checked_sub(open.at)?;
        self.hold.checked_sub(age).filter(|left| *left > 0)
    }
}

/// A decision that feedback may come for.
#[derive(Clone, Serialize, Deserialize)]
struct Open {
    round: u64,
    /// When the decision was made, in seconds since 1970.
    at: u64,
    arm: usize,
    context: Option<Features>,
    exchange: Option<u64>,
}

/// What was answered when something was counted.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Receipt {
    pub(super) feedbacks: u64,
    pub(super) spent: Option<Spent>,
    of: Digest,
}

/// Tells whether a message that comes again is the one that counted.
type Digest = [u8; 16];

fn digest(message: &impl Serialize) -> Result<Digest, Error> {
    let bytes = serde_json::to_vec(message).map_err(|_| Error::Broken("a message that cannot be written"))?;
    let hash = blake3::hash(&bytes);
    hash.as_bytes().first_chunk().copied().ok_or(Error::Broken("a hash below 16 bytes"))
}

impl Receipt {
    /// The receipt for a message that comes again.
    ///
    /// # Errors
    /// [`Error::Answered`] if another message counted.
    fn again(&self, of: Digest, what: impl FnOnce() -> String) -> Result<Self, Error> {
        if self.of == of { Ok(*self) } else { Err(Error::Answered { what: what() }) }
    }
}

impl Bandit {
    pub(super) fn new(config: Config) -> Result<Self, Error> {
        let learner = config.make()?;
        let statement = learner.privacy()?;
        let bandit = Bandit {
            ledger: statement.epsilon.map(|e| Accountant::new(Cost::Approximate(e, statement.delta))),
            config,
            learner,
            round: 0,
            feedbacks: 0,
            open: BTreeMap::new(),
            newest: None,
            receipts: BTreeMap::new(),
            exchanges: BTreeMap::new(),
            restored: 0,
        };
        // What is stored now must be read at the next start, or no bandit of this server would be there any
        // more.
        let stored =
            postcard::to_stdvec(&bandit).map_err(|_| Error::Broken("a bandit that cannot be stored"))?;
        Self::read(&stored).map_err(|why| Error::BadParameter {
            why: format!("parameters: together they leave the range of what can be computed ({why})"),
        })
    }

    /// A stored bandit, and nothing after it; its parts check themselves, and then whether they are of one
    /// bandit.
    pub(crate) fn read(row: &[u8]) -> Result<Self, String> {
        let (bandit, rest) = postcard::take_from_bytes::<Self>(row).map_err(|e| e.to_string())?;
        if !rest.is_empty() {
            return Err(format!("{} bytes after its end", rest.len()));
        }
        bandit.check().map(|()| bandit)
    }

    fn check(&self) -> Result<(), String> {
        let fits = |arm, context| self.config.fits(&self.learner, arm, context);
        if !fits(0, None) || !self.open.values().all(|open| fits(open.arm, open.context.as_ref())) {
            return Err("policy and state disagree".into());
        }
        let statement = self.learner.privacy().map_err(|e| e.to_string())?;
        let budget = statement.epsilon.map(|e| Cost::Approximate(e, statement.delta));
        if self.ledger.as_ref().map(Accountant::budget) != budget {
            return Err("the ledger is not that of the promise".into());
        }
        Ok(())
    }

    pub(super) fn spent(&self) -> Option<Spent> {
        let (epsilon, delta) = self.ledger.as_ref()?.spent();
        Some(Spent { epsilon, delta })
    }

    /// Charges what `observation` will have cost when the run is over: rewards, or batches of users, by their
    /// number.
    fn charge(&mut self, observation: u64, statement: &PrivacyStatement) -> Result<(), Error> {
        if let (Some(ledger), Some(epsilon)) = (&mut self.ledger, statement.epsilon) {
            ledger.release([observation], Cost::Approximate(epsilon, statement.delta))?;
        }
        Ok(())
    }

    pub(super) fn awaited(&self) -> Result<Option<Awaited>, Error> {
        match &self.learner {
            Learner::Sums(policy) => Ok(policy.awaited()),
            Learner::ShuffledGlm(policy) => policy.awaited(),
            _ => Ok(None),
        }
    }

    pub(super) fn published(&self) -> Result<Vec<Value>, Error> {
        let Learner::ShuffledGlm(policy) = &self.learner else { return Ok(Vec::new()) };
        let values = policy.published().iter().map(serde_json::to_value).collect::<Result<_, _>>();
        values.map_err(|_| Error::Broken("an estimate that cannot be serialised"))
    }

    /// Decisions that can be answered: where they come in turn, only the newest.
    pub(super) fn pending(&self) -> usize {
        match self.learner.in_turn() {
            true => self.newest.is_some_and(|id| self.open.contains_key(&id)).into(),
            false => self.open.len(),
        }
    }

    fn remembered(&self) -> usize {
        self.config.shape().map_or(REMEMBERED, |(d, k)| (KEPT_VALUES / (d * k).max(1)).min(REMEMBERED))
    }

    /// The bandit as it continues after its folder was restored from a backup: no answer that the lost state
    /// may have released is released again. `None` if the bandit may continue unchanged.
    ///
    /// The policy begins anew, and open decisions are closed. What was learnt is lost: sums, trees of sums
    /// and rows hold answers that a release may have used since, and another release would use them with
    /// fresh noise. The budget that was spent stays spent. Where users add the noise themselves, the folder
    /// holds no answer without noise, and a message that is sent again reveals nothing new.
    pub(crate) fn restored(&self) -> Result<Option<Self>, Error> {
        if self.ledger.is_none() || self.learner.users_add_noise() {
            return Ok(None);
        }
        Ok(Some(Bandit {
            learner: self.config.make()?,
            open: BTreeMap::new(),
            newest: None,
            restored: self.restored + 1,
            ..self.clone()
        }))
    }

    /// The decision to give instead of a new one. A policy that learns in turn and takes no context gives the
    /// decision that still waits for its answer. That decision follows from values that were released before,
    /// so whoever receives it learns nothing else. Each caller gets an [`alias`] of its own: a second answer
    /// to a decision is compared with the first, and whoever knew its name could find the first by guesses.
    ///
    /// # Errors
    /// [`Error::TurnTaken`] where decisions take contexts: the open decision is for one person, and nobody
    /// else may find out whether their contexts are equal. [`Error::TooManyOpen`] if a new decision would
    /// replace one that is still kept.
    pub(super) fn in_place_of_new(
        &self,
        clock: Clock,
        rng: &mut impl Rng,
    ) -> Result<Option<Decision>, Error> {
        if self.config.feedback() == FeedbackKind::Batch {
            return Ok(None);
        }
        if self.learner.in_turn() {
            let waiting = self.newest.and_then(|id| Some((id, self.open.get(&id)?)));
            let Some((id, open)) = waiting else { return Ok(None) };
            if self.config.shape().is_some() {
                return clock.left(open).map_or(Ok(None), |wait| Err(Error::TurnTaken { wait }));
            }
            let (round, arm) = (open.round, Some(open.arm));
            let (awaited, published) = (self.awaited()?, self.published()?);
            return Ok(Some(Decision { id: alias(id, rng), round, arm, awaited, published }));
        }
        let limit = self.remembered();
        if self.open.len() < limit {
            return Ok(None);
        }
        let oldest = self.open.values().min_by_key(|open| open.round);
        let left = oldest.and_then(|oldest| clock.left(oldest));
        left.map_or(Ok(None), |wait| Err(Error::TooManyOpen { limit, wait }))
    }

    /// Makes a new decision. If this policy learns in turn, the decision before it becomes void; if too many
    /// are open, the oldest is forgotten. [`Self::in_place_of_new`] says whether that is allowed yet.
    pub(super) fn decide(
        &mut self,
        context: Option<Features>,
        clock: Clock,
        rng: &mut impl Rng,
    ) -> Result<Decision, Error> {
        let arm = self.learner.decide(context.as_ref(), rng)?;
        let mut id = DecisionId([0; 16]);
        rng.fill_bytes(&mut id.0);
        self.round += 1;
        let awaited = self.awaited()?;
        if let Some(arm) = arm.filter(|_| self.config.feedback() != FeedbackKind::Batch) {
            // The one before is void now, if this policy learns in turn: what it saw is not needed any more.
            if let Some(before) = self.newest.filter(|_| self.learner.in_turn()) {
                self.open.entry(before).and_modify(|open| open.context = None);
            }
            let exchange = awaited.as_ref().map(|a| a.exchange);
            self.open.insert(id, Open { round: self.round, at: clock.now, arm, context, exchange });
            self.newest = Some(id);
            let most = self.remembered();
            forget_oldest(&mut self.open, most, |open| open.round);
        }
        let id = if self.has_aliases() { alias(id, rng) } else { id };
        Ok(Decision { id, round: self.round, arm, awaited, published: self.published()? })
    }

    /// Whether callers know a decision by an alias each.
    fn has_aliases(&self) -> bool {
        self.learner.in_turn() && self.config.shape().is_none()
    }

    pub(super) fn feedback(
        &mut self,
        id: DecisionId,
        feedback: &ClearFeedback,
        statement: &PrivacyStatement,
        rng: &mut impl Rng,
    ) -> Result<Receipt, Error> {
        let of = digest(feedback)?;
        if let Some(receipt) = self.receipts.get(&id) {
            return receipt.again(of, || format!("decision {id}"));
        }
        let unknown = || protocol::Error::UnknownDecision { id: id.to_string() };
        let base = match self.newest.filter(|_| self.has_aliases()) {
            Some(newest) if is_alias(newest, id) => newest,
            Some(_) => return Err(unknown().into()),
            None => id,
        };
        let open = self.open.get(&base).ok_or_else(unknown)?;
        if self.learner.in_turn() && self.newest != Some(base) {
            return Err(Error::OutOfTurn { id: id.to_string() });
        }
        let open = open.clone();
        if self.config.feedback() == FeedbackKind::Share {
            let exchange = open.exchange.ok_or_else(|| Error::Settled { id: id.to_string() })?;
            if self.awaited()?.is_none_or(|a| a.exchange != exchange) {
                return Err(Error::BatchOver { exchange });
            }
        }
        self.learner.learn(open.context.as_ref(), open.arm, feedback, rng)?;
        self.feedbacks += 1;
        self.charge(self.feedbacks, statement)?;
        self.open.remove(&base);
        let receipt = Receipt { feedbacks: self.feedbacks, spent: self.spent(), of };
        self.receipts.insert(id, receipt);
        forget_oldest(&mut self.receipts, REMEMBERED, |receipt| receipt.feedbacks);
        Ok(receipt)
    }

    pub(super) fn receive(
        &mut self,
        batch: &SummedBatch,
        statement: &PrivacyStatement,
        rng: &mut impl Rng,
    ) -> Result<Receipt, Error> {
        // However an intermediary splits it up.
        let of = digest(&(batch.users, batch.labels, &batch.sums))?;
        if let Some(receipt) = self.exchanges.get(&batch.exchange) {
            return receipt.again(of, || format!("exchange {}", batch.exchange));
        }
        let awaited = self.awaited()?.filter(|a| a.exchange == batch.exchange);
        let awaited = awaited.ok_or(Error::BatchOver { exchange: batch.exchange })?;
        if batch.users != awaited.users {
            return Err(bandit::Error::Shares { got: batch.users, users: awaited.users }.into());
        }
        let received = match &mut self.learner {
            Learner::Sums(policy) => policy.receive(batch, rng)?,
            Learner::ShuffledGlm(policy) => policy.receive(batch)?,
            _ => return Err(Error::Broken("a batch for a policy that takes none")),
        };
        // A user is in one batch. Arms of a batch of eliminations have users of their own, and all pay the
        // same.
        if received.pays.is_some() {
            self.charge(batch.exchange, statement)?;
        }
        self.feedbacks += received.users;
        let receipt = Receipt { feedbacks: self.feedbacks, spent: self.spent(), of };
        self.exchanges.insert(batch.exchange, receipt);
        while self.exchanges.len() > REMEMBERED {
            self.exchanges.pop_first();
        }
        Ok(receipt)
    }
}

/// What a device is told.
pub(super) struct Decision {
    pub(super) id: DecisionId,
    pub(super) round: u64,
    pub(super) arm: Option<usize>,
    pub(super) awaited: Option<Awaited>,
    pub(super) published: Vec<Value>,
}

/// A fresh name for the decision `base`. Who knows one name can neither make another nor recognise one.
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

fn forget_oldest<V>(map: &mut BTreeMap<DecisionId, V>, most: usize, age: impl Fn(&V) -> u64) {
    while map.len() > most {
        let Some(oldest) = map.iter().min_by_key(|(_, v)| age(v)).map(|(id, _)| *id) else { return };
        map.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::offers;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;
    use wire::Offer;

    const CLOCK: Clock = Clock { now: 1_800_000_000, hold: 60 };

    fn round(bandit: &mut Bandit, rng: &mut ChaCha20Rng) -> Result<Option<usize>, Error> {
        let statement = bandit.learner.privacy()?;
        let shape = bandit.config.shape();
        let context = shape.map(|(d, k)| {
            let values = (0..d * k).map(|_| rng.random::<f64>() / (d as f64).sqrt()).collect();
            Features::new(values, d).unwrap()
        });
        let Decision { id, arm, .. } = bandit.decide(context, CLOCK, rng)?;
        let value = rng.random::<f64>();
        let none = ClearFeedback::default();
        let feedback = match bandit.config.feedback() {
            FeedbackKind::Reward => ClearFeedback { reward: Some(value), ..none },
            FeedbackKind::Rewards => ClearFeedback { rewards: Some(vec![value; 5]), ..none },
            FeedbackKind::Sum => ClearFeedback { sum: Some(value), ..none },
            FeedbackKind::Share => ClearFeedback { share: Some(1), ..none },
            _ => return Ok(arm),
        };
        // A decision without an answer now and then: the next one takes its place.
        if rng.random_range(0..4) > 0 {
            bandit.feedback(id, &feedback, &statement, rng)?;
        }
        Ok(arm)
    }

    fn play(bandit: &mut Bandit, rounds: u32, rng: &mut ChaCha20Rng) -> Vec<Option<usize>> {
        (0..rounds).map(|_| round(bandit, rng).unwrap()).collect()
    }

    fn example(offer: Offer) -> Bandit {
        let Value::Object(example) = offer.example else { panic!("{}", offer.policy) };
        Bandit::new(Config::from_request(example).unwrap()).unwrap()
    }

    /// Two callers get the decision that waits. After one has answered, the other's guesses at the answer all
    /// meet the same error; the one who answered may send the answer again, and is told when it differs.
    #[test]
    fn attack_an_answer_is_not_found_by_guesses() {
        let mut rng = ChaCha20Rng::seed_from_u64(6);
        let mut seen = 0;
        for offer in offers().unwrap().into_iter().skip(1) {
            let name = offer.policy.clone();
            let mut bandit = example(offer);
            let statement = bandit.learner.privacy().unwrap();
            if !bandit.has_aliases() || bandit.config.feedback() != FeedbackKind::Reward {
                continue;
            }
            seen += 1;
            let first = bandit.decide(None, CLOCK, &mut rng).unwrap();
            let second = bandit.in_place_of_new(CLOCK, &mut rng).unwrap().unwrap();
            assert_eq!((first.round, first.arm), (second.round, second.arm), "{name}");
            let reward = |r| ClearFeedback { reward: Some(r), ..ClearFeedback::default() };
            bandit = Bandit::read(&postcard::to_stdvec(&bandit).unwrap()).unwrap();
            bandit.feedback(first.id, &reward(0.25), &statement, &mut rng).unwrap();
            let mut guess = |id, r| bandit.feedback(id, &reward(r), &statement, &mut rng).map(|_| ());
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
        for offer in offers().unwrap().into_iter().skip(1) {
            let name = offer.policy.clone();
            let mut bandit = example(offer);
            play(&mut bandit, 30, &mut rng);
            let stored = postcard::to_stdvec(&bandit).unwrap();
            assert!(Bandit::read(&stored).is_ok(), "{name}");
            assert!(Bandit::read(&stored[..stored.len() - 1]).is_err(), "{name}");
            assert!(Bandit::read(&[stored.as_slice(), &[0]].concat()).is_err(), "{name}");
            for _ in 0..40 {
                let mut damaged = stored.clone();
                let at = rng.random_range(0..damaged.len());
                damaged[at] ^= 1 << rng.random_range(0..8);
                let Ok(mut bandit) = Bandit::read(&damaged) else {
                    refused += 1;
                    continue;
                };
                read += 1;
                for _ in 0..3 {
                    let _ = round(&mut bandit, &mut rng);
                }
            }
            let ledger = bandit.ledger.take();
            let other = (name == "ucb1")
                .then(|| Accountant::new(Cost::pure(privacy::budget::Epsilon::new(1.0).unwrap())));
            if ledger.is_some() || other.is_some() {
                bandit.ledger = other;
                assert!(Bandit::read(&postcard::to_stdvec(&bandit).unwrap()).is_err(), "{name}");
                bandit.ledger = ledger;
            }
            let request =
                serde_json::json!({"policy": if name == "ucb1" { "ars-ucb" } else { "ucb1" }, "arms": 5});
            let Value::Object(request) = request else { unreachable!() };
            bandit.config = Config::from_request(request).unwrap();
            assert!(Bandit::read(&postcard::to_stdvec(&bandit).unwrap()).is_err(), "{name}");
        }
        assert!(refused > 30 && read > 30, "{refused} refused, {read} read");
    }

    /// An elimination behind a shuffler from before its users sent bits is refused: they sent other numbers.
    #[test]
    fn another_model_is_refused() {
        let shuffle = offers().unwrap().into_iter().find(|offer| offer.example["model"] == "shuffle");
        let mut bandit = example(shuffle.unwrap());
        let config = bandit.config.elimination().unwrap();
        assert!(Bandit::read(&postcard::to_stdvec(&bandit).unwrap()).is_ok());
        let config = bandit::distributed::Config { model: bandit::distributed::Model::Shuffle, ..config };
        bandit.learner = Learner::Sums(Box::new(crate::collect::Sums::new(config).unwrap()));
        let refused = Bandit::read(&postcard::to_stdvec(&bandit).unwrap());
        assert_eq!(refused.err().unwrap(), "policy and state disagree");
    }

    /// Noise that was found is stored, and a stored bandit with less noise than its promise needs is refused.
    /// Reading a bandit back searches for no noise, so the cost of a creation is not paid again at each
    /// start.
    #[test]
    fn attack_stored_noise_is_checked_and_not_sized_again() {
        let request = serde_json::json!({"policy": "shuffle-glm", "arms": 2, "features": 2, "batches": [125_000],
            "epsilon": 4, "delta": 1e-6, "gamma": 1, "steps": 1000});
        let Value::Object(request) = request else { unreachable!() };
        let bandit = Bandit::new(Config::from_request(request).unwrap()).unwrap();
        let Learner::ShuffledGlm(policy) = &bandit.learner else { unreachable!() };
        let begun = std::time::Instant::now();
        let stored = postcard::to_stdvec(&bandit).unwrap();
        for _ in 0..10 {
            Bandit::read(&stored).unwrap();
        }
        // A search takes some sixty times as long as a check.
        let (checks, begun) = (begun.elapsed(), std::time::Instant::now());
        bandit.config.make().unwrap();
        assert!(checks < begun.elapsed() * 3, "{checks:?}");
        let noise = serde_json::to_value(&**policy).unwrap()["noise"][0].clone();
        for field in ["matrix", "gradient"] {
            let mut value = serde_json::to_value(&**policy).unwrap();
            value["noise"][0][field] = (noise[field].as_u64().unwrap() - 1).into();
            let refused = serde_json::from_value::<crate::collect::ShuffledGlm>(value).err().unwrap();
            assert!(refused.to_string().contains("noise_bits"), "{refused}");
        }
    }

    /// A policy that learns in turn and is asked repeatedly gives the decision that still waits, and does not
    /// change. A policy with contexts refuses for the hold time, whatever the contexts are. With a hold of 0
    /// the next decision makes the one before void.
    #[test]
    fn attack_empty_requests_void_no_decision() {
        let make = |value: Value| {
            let Value::Object(request) = value else { unreachable!() };
            Bandit::new(Config::from_request(request).unwrap()).unwrap()
        };
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let mut bandit = make(serde_json::json!({"policy": "dp-se", "arms": 2, "epsilon": 1, "beta": 0.1}));
        assert!(bandit.in_place_of_new(CLOCK, &mut rng).unwrap().is_none());
        let first = bandit.decide(None, CLOCK, &mut rng).unwrap();
        for later in [0, 10, 1_000_000] {
            let clock = Clock { now: CLOCK.now + later, ..CLOCK };
            let again = bandit.in_place_of_new(clock, &mut rng).unwrap().unwrap();
            // Under another name: see `attack_an_answer_is_not_found_by_guesses`.
            assert_eq!((again.round, again.arm), (1, first.arm));
            assert_ne!(again.id, first.id);
        }
        let feedback = ClearFeedback { reward: Some(1.0), ..ClearFeedback::default() };
        let statement = bandit.learner.privacy().unwrap();
        bandit.feedback(first.id, &feedback, &statement, &mut rng).unwrap();
        assert!(bandit.in_place_of_new(CLOCK, &mut rng).unwrap().is_none());

        let mut bandit = make(
            serde_json::json!({"policy": "rs-glinucb", "arms": 2, "features": 2, "horizon": 99, "delta": 0.1}),
        );
        let context = || Some(Features::new(vec![0.1; 4], 2).unwrap());
        let first = bandit.decide(context(), CLOCK, &mut rng).unwrap();
        let after = |seconds| Clock { now: CLOCK.now + seconds, ..CLOCK };
        assert!(matches!(bandit.in_place_of_new(after(0), &mut rng), Err(Error::TurnTaken { wait: 60 })));
        assert!(matches!(bandit.in_place_of_new(after(59), &mut rng), Err(Error::TurnTaken { wait: 1 })));
        assert!(bandit.in_place_of_new(Clock { hold: 0, ..CLOCK }, &mut rng).unwrap().is_none(), "control");
        let mut late = bandit.clone();
        assert!(late.in_place_of_new(after(60), &mut rng).unwrap().is_none());
        late.decide(context(), after(60), &mut rng).unwrap();
        let statement = bandit.learner.privacy().unwrap();
        assert!(matches!(
            late.feedback(first.id, &feedback, &statement, &mut rng),
            Err(Error::OutOfTurn { .. })
        ));
        bandit.feedback(first.id, &feedback, &statement, &mut rng).unwrap();
    }

    /// When as many decisions are open as are remembered, further ones are refused and replace none of those
    /// that others hold.
    #[test]
    fn attack_floods_push_out_no_open_decision() {
        let config = serde_json::json!({"policy": "oful", "arms": 2, "features": 1});
        let Value::Object(config) = config else { unreachable!() };
        let mut bandit = Bandit::new(Config::from_request(config).unwrap()).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(6);
        let context = || Some(Features::new(vec![0.5; 2], 1).unwrap());
        let first = bandit.decide(context(), CLOCK, &mut rng).unwrap().id;
        let refused = loop {
            assert!(bandit.round <= REMEMBERED as u64, "never refused");
            match bandit.in_place_of_new(CLOCK, &mut rng) {
                Ok(None) => drop(bandit.decide(context(), CLOCK, &mut rng).unwrap()),
                Ok(Some(_)) => unreachable!(),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::TooManyOpen { limit: REMEMBERED, wait: 60 }), "{refused}");
        let later = Clock { now: CLOCK.now + CLOCK.hold, ..CLOCK };
        assert!(bandit.in_place_of_new(later, &mut rng).unwrap().is_none(), "the oldest has had its time");
        assert!(bandit.in_place_of_new(Clock { hold: 0, ..CLOCK }, &mut rng).unwrap().is_none(), "control");
        let feedback = ClearFeedback { reward: Some(1.0), ..ClearFeedback::default() };
        let statement = bandit.learner.privacy().unwrap();
        bandit.feedback(first, &feedback, &statement, &mut rng).unwrap();
        assert!(bandit.in_place_of_new(CLOCK, &mut rng).unwrap().is_none(), "an answer makes room");
    }

    /// The control: two states that continue from one backup release its rewards twice, each with its own
    /// noise. A restored state releases none of them: with noise of scale 10⁻⁶ its mean is that of the
    /// rewards that came since.
    #[test]
    fn attack_backups_release_no_reward_again() {
        let request = serde_json::json!({"policy": "anytime-lazy-ucb", "arms": 1, "epsilon": 1e6});
        let Value::Object(request) = request else { unreachable!() };
        let mut backup = Bandit::new(Config::from_request(request).unwrap()).unwrap();
        let statement = backup.learner.privacy().unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(8);
        let mut give = |bandit: &mut Bandit, reward: f64, times: u32| {
            for _ in 0..times {
                let id = bandit.decide(None, CLOCK, &mut rng).unwrap().id;
                let feedback = ClearFeedback { reward: Some(reward), ..ClearFeedback::default() };
                bandit.feedback(id, &feedback, &statement, &mut rng).unwrap();
            }
            let Learner::AnytimeLazyUcb(policy) = &bandit.learner else { unreachable!() };
            policy.means().next().unwrap()
        };
        // Releases come at the pulls 1, 3 and 7: three of these six rewards wait for the next.
        assert!((give(&mut backup, 1.0, 6) - 1.0).abs() < 1e-3);
        let mut lost = [backup.clone(), backup.clone()];
        let means = lost.each_mut().map(|bandit| give(bandit, 0.0, 1));
        assert!(means.iter().all(|mean| (mean - 0.75).abs() < 1e-3) && means[0] != means[1], "{means:?}");
        let mut restored = backup.restored().unwrap().unwrap();
        for _ in 0..15 {
            assert!(give(&mut restored, 0.0, 1).abs() < 1e-3);
        }
        assert_eq!(restored.feedbacks, 21);
    }

    /// Every offered policy plays on after a restore, with what it had spent. Where the server adds the
    /// noise, none of its answers is left and its open decisions are closed.
    #[test]
    fn restored_bandits_begin_anew() {
        let mut rng = ChaCha20Rng::seed_from_u64(7);
        for offer in offers().unwrap().into_iter().skip(1) {
            let (name, mut bandit) = (offer.policy.clone(), example(offer));
            play(&mut bandit, 30, &mut rng);
            let context = bandit.config.shape().map(|(d, k)| Features::new(vec![0.1; d * k], d).unwrap());
            let _ = bandit.decide(context, CLOCK, &mut rng);
            let central = bandit.ledger.is_some() && !bandit.learner.users_add_noise();
            let Some(mut restored) = bandit.restored().unwrap() else {
                assert!(!central, "{name}");
                continue;
            };
            assert!(central, "{name}");
            let fresh = bandit.config.make().unwrap();
            assert_eq!(postcard::to_stdvec(&restored.learner), postcard::to_stdvec(&fresh), "{name}");
            assert_eq!((restored.pending(), restored.restored), (0, 1), "{name}");
            assert_eq!((restored.round, restored.feedbacks), (bandit.round, bandit.feedbacks));
            let spent = |bandit: &Bandit| bandit.spent().map(|spent| spent.epsilon);
            assert_eq!(spent(&restored), spent(&bandit), "{name}");
            play(&mut restored, 10, &mut rng);
            assert!(Bandit::read(&postcard::to_stdvec(&restored).unwrap()).is_ok(), "{name}");
            assert_eq!(restored.restored().unwrap().unwrap().restored, 2);
        }
    }

    /// Of every policy offered: stored and read back at any point it makes the same decisions from the same
    /// randomness, and is stored again to the same bytes.
    #[test]
    fn stored_states_go_on_exactly() {
        for offer in offers().unwrap().into_iter().skip(1) {
            let policy = offer.policy.clone();
            let mut bandit = example(offer);
            let mut rng = ChaCha20Rng::seed_from_u64(1);
            for part in 0..4 {
                play(&mut bandit, 25 * part, &mut rng);
                let stored = postcard::to_stdvec(&bandit).unwrap();
                let mut again: Bandit = postcard::from_bytes(&stored).unwrap();
                let (mut first, mut second) = (ChaCha20Rng::seed_from_u64(2), ChaCha20Rng::seed_from_u64(2));
                let arms = play(&mut bandit, 40, &mut first);
                assert_eq!(arms, play(&mut again, 40, &mut second), "{policy}");
                assert_eq!(postcard::to_stdvec(&bandit).unwrap(), postcard::to_stdvec(&again).unwrap());
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
        for Offer { policy, example, .. } in offers().unwrap().into_iter().skip(1) {
            let Value::Object(example) = example else { panic!("{policy}") };
            // The noise of every batch of ShuffleGLM takes a while; what it is made of, it has in common with
            // JointGLM.
            let numbers = example.iter().filter(|(_, v)| v.is_number() && policy != "shuffle-glm");
            for (name, value) in
                numbers.flat_map(|(name, _)| reals.iter().chain(&wholes).map(move |v| (name, v)))
            {
                let mut request = example.clone();
                request.insert(name.clone(), value.clone());
                let Ok(mut bandit) = Config::from_request(request).and_then(Bandit::new) else {
                    refused += 1;
                    continue;
                };
                made += 1;
                for _ in 0..5 {
                    let mut next = bandit.clone();
                    if round(&mut next, &mut rng).is_ok() {
                        bandit = next;
                    }
                    let stored = postcard::to_stdvec(&bandit).unwrap();
                    assert!(Bandit::read(&stored).is_ok(), "{policy}, {name} = {value}");
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
        let mut bandit = Bandit::new(Config::from_request(config).unwrap()).unwrap();
        let most = bandit.remembered();
        assert_eq!(most, KEPT_VALUES / 256);
        let (mut rng, statement) = (ChaCha20Rng::seed_from_u64(3), bandit.learner.privacy().unwrap());
        let context = || Some(Features::new(vec![0.1; 256], 64).unwrap());
        let first = bandit.decide(context(), CLOCK, &mut rng).unwrap().id;
        let ids: Vec<DecisionId> =
            (0..most).map(|_| bandit.decide(context(), CLOCK, &mut rng).unwrap().id).collect();
        assert_eq!(bandit.open.len(), most);
        let feedback = ClearFeedback { reward: Some(1.0), ..ClearFeedback::default() };
        assert!(bandit.feedback(first, &feedback, &statement, &mut rng).is_err());
        bandit.feedback(ids[0], &feedback, &statement, &mut rng).unwrap();
        assert_eq!((bandit.open.len(), bandit.feedbacks), (most - 1, 1));
    }
}
