//! Bandits in the clear: a policy of the registry, the decisions it waits for, what it has answered and spent.

use crate::policy::{Config, Learner, offers};
use crate::store::{Saved, lock};
use crate::{AppState, Error, Kept, blocking, body, refuse, rng};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bandit::Features;
use helba::DecisionId;
use privacy::PrivacyStatement;
use privacy::accountant::{Accountant, Cost};
use rand::Rng;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use wire::{
    Awaited, ClearFeedback, Counted, DecideRequest, Decided, FeedbackKind, MAX_CLEAR_BYTES, Offer,
    PolicyCreated, PolicyView, Privacy, ShuffledBatch, Spent,
};

/// Decisions and receipts remembered, the oldest forgotten first; fewer where contexts are kept with them.
const REMEMBERED: usize = 1024;
/// Features kept with decisions in all: a commit writes them.
const KEPT_VALUES: usize = 1 << 17;
/// Of a number in JSON, generously.
const NUMBER_BYTES: usize = 32;
const BODY_BYTES: usize = 4 << 10;

/// The state of one bandit: what is stored, whole.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Bandit {
    config: Config,
    learner: Learner,
    /// `None` where no privacy is promised.
    ledger: Option<Accountant>,
    round: u64,
    feedbacks: u64,
    open: BTreeMap<DecisionId, Open>,
    newest: Option<DecisionId>,
    receipts: BTreeMap<DecisionId, Receipt>,
    exchanges: BTreeMap<u64, Receipt>,
}

/// A decision that feedback may come for.
#[derive(Clone, Serialize, Deserialize)]
struct Open {
    round: u64,
    arm: usize,
    context: Option<Features>,
    exchange: Option<u64>,
}

/// What was answered when something was counted.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Receipt {
    feedbacks: u64,
    spent: Option<Spent>,
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
    fn new(config: Config) -> Result<Self, Error> {
        let learner = config.make()?;
        let statement = learner.privacy()?;
        Ok(Bandit {
            ledger: statement.epsilon.map(|e| Accountant::new(Cost::Approximate(e, statement.delta))),
            config,
            learner,
            round: 0,
            feedbacks: 0,
            open: BTreeMap::new(),
            newest: None,
            receipts: BTreeMap::new(),
            exchanges: BTreeMap::new(),
        })
    }

    /// A stored bandit, and nothing after it; its parts check themselves, and then whether they are of one bandit.
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

    fn spent(&self) -> Option<Spent> {
        let (epsilon, delta) = self.ledger.as_ref()?.spent();
        Some(Spent { epsilon, delta })
    }

    /// Charges what `observation` will have cost when the run is over: rewards, or batches of users, by their number.
    fn charge(&mut self, observation: u64, statement: &PrivacyStatement) -> Result<(), Error> {
        if let (Some(ledger), Some(epsilon)) = (&mut self.ledger, statement.epsilon) {
            ledger.release([observation], Cost::Approximate(epsilon, statement.delta))?;
        }
        Ok(())
    }

    fn awaited(&self) -> Result<Option<Awaited>, Error> {
        match &self.learner {
            Learner::Sums(policy) => Ok(policy.awaited()),
            Learner::ShuffledGlm(policy) => policy.awaited(),
            _ => Ok(None),
        }
    }

    fn published(&self) -> Result<Vec<Value>, Error> {
        let Learner::ShuffledGlm(policy) = &self.learner else { return Ok(Vec::new()) };
        let values = policy.published().iter().map(serde_json::to_value).collect::<Result<_, _>>();
        values.map_err(|_| Error::Broken("an estimate that cannot be serialised"))
    }

    fn remembered(&self) -> usize {
        self.config.shape().map_or(REMEMBERED, |(d, k)| (KEPT_VALUES / (d * k).max(1)).min(REMEMBERED))
    }

    fn decide(&mut self, context: Option<Features>, rng: &mut impl Rng) -> Result<Decision, Error> {
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
            self.open.insert(id, Open { round: self.round, arm, context, exchange });
            self.newest = Some(id);
            let most = self.remembered();
            forget_oldest(&mut self.open, most, |open| open.round);
        }
        Ok(Decision { id, round: self.round, arm, awaited, published: self.published()? })
    }

    fn feedback(
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
        let open = self.open.get(&id).ok_or_else(|| helba::Error::UnknownDecision { id: id.to_string() })?;
        if self.learner.in_turn() && self.newest != Some(id) {
            return Err(Error::OutOfTurn { id: id.to_string() });
        }
        let open = open.clone();
        let private = self.config.feedback() == FeedbackKind::Share;
        if private && (open.exchange.is_none() || self.awaited()?.map(|a| a.exchange) != open.exchange) {
            return Err(Error::BatchOver { exchange: open.exchange.unwrap_or(0) });
        }
        self.learner.learn(open.context.as_ref(), open.arm, feedback, rng)?;
        self.feedbacks += 1;
        self.charge(self.feedbacks, statement)?;
        self.open.remove(&id);
        let receipt = Receipt { feedbacks: self.feedbacks, spent: self.spent(), of };
        self.receipts.insert(id, receipt);
        forget_oldest(&mut self.receipts, REMEMBERED, |receipt| receipt.feedbacks);
        Ok(receipt)
    }

    fn receive(
        &mut self,
        batch: &ShuffledBatch,
        statement: &PrivacyStatement,
        rng: &mut impl Rng,
    ) -> Result<Receipt, Error> {
        // However an intermediary splits it up.
        let of = digest(&(batch.users, batch.sums().collect::<Vec<_>>()))?;
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
        // A user is in one batch. Arms of a batch of eliminations have users of their own, and all pay the same.
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

struct Decision {
    id: DecisionId,
    round: u64,
    arm: Option<usize>,
    awaited: Option<Awaited>,
    published: Vec<Value>,
}

fn forget_oldest<V>(map: &mut BTreeMap<DecisionId, V>, most: usize, age: impl Fn(&V) -> u64) {
    while map.len() > most {
        let Some(oldest) = map.iter().min_by_key(|(_, v)| age(v)).map(|(id, _)| *id) else { return };
        map.remove(&oldest);
    }
}

/// A bandit in use.
pub(crate) struct ClearEntry {
    id: String,
    policy: String,
    parameters: Map<String, Value>,
    config: Config,
    statement: PrivacyStatement,
    /// `None` when it was deleted: requests that found it before do not bring it back.
    live: Mutex<Option<Bandit>>,
}

impl ClearEntry {
    pub(crate) fn new(id: String, bandit: Bandit) -> Result<Self, Error> {
        let (policy, parameters) = bandit.config.to_parts()?;
        let statement = bandit.learner.privacy()?;
        let config = bandit.config.clone();
        Ok(ClearEntry { id, policy, parameters, config, statement, live: Mutex::new(Some(bandit)) })
    }

    pub(crate) fn created(&self) -> Option<PolicyCreated> {
        lock(&self.live).as_ref().map(|bandit| self.created_at(bandit.spent()))
    }

    fn deleted(&self) -> Error {
        Error::UnknownBandit { id: self.id.clone() }
    }

    pub(crate) fn delete(&self, state: &AppState) -> Result<(), Error> {
        let mut live = lock(&self.live);
        if live.is_none() {
            return Err(self.deleted());
        }
        state.0.store.delete(&self.id, &mut Saved::default())?;
        *live = None;
        Ok(())
    }

    fn created_at(&self, spent: Option<Spent>) -> PolicyCreated {
        PolicyCreated {
            id: self.id.clone(),
            policy: self.policy.clone(),
            parameters: self.parameters.clone(),
            privacy: self.privacy(spent),
        }
    }

    pub(crate) fn view(&self) -> Result<PolicyView, Error> {
        let live = lock(&self.live);
        let bandit = live.as_ref().ok_or_else(|| self.deleted())?;
        // In turn, only the newest decision can be answered.
        let pending = match bandit.learner.in_turn() {
            true => bandit.newest.is_some_and(|id| bandit.open.contains_key(&id)).into(),
            false => bandit.open.len(),
        };
        Ok(PolicyView {
            created: self.created_at(bandit.spent()),
            round: bandit.round,
            feedbacks: bandit.feedbacks,
            pending_decisions: pending,
            awaited: bandit.awaited()?,
            published: bandit.published()?,
        })
    }

    fn privacy(&self, spent: Option<Spent>) -> Privacy {
        Privacy { statement: self.statement.clone(), spent }
    }

    fn counted(&self, of: String, receipt: Receipt) -> Counted {
        Counted { of, feedbacks: receipt.feedbacks, privacy: self.privacy(receipt.spent) }
    }

    /// Changes the bandit, stores it, and only then lets others see it: on an error nothing has changed.
    fn change<T>(
        &self,
        state: &AppState,
        change: impl FnOnce(&mut Bandit) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut live = lock(&self.live);
        let mut next = live.clone().ok_or_else(|| self.deleted())?;
        let out = change(&mut next)?;
        state.0.store.commit_clear(&self.id, &next)?;
        *live = Some(next);
        Ok(out)
    }

    /// Contexts of the shape that the policy takes, or none.
    fn context(&self, request: DecideRequest) -> Result<Option<Features>, Error> {
        let bad = |why: String| Err(Error::BadParameter { why });
        match (self.config.shape(), request.contexts) {
            (None, None) => Ok(None),
            (None, Some(_)) if self.config.feedback() == FeedbackKind::Batch => {
                bad("contexts: devices choose their arms themselves here, contexts stay with them".into())
            }
            (None, Some(_)) => bad("contexts: this policy takes none".into()),
            (Some(_), None) => bad("contexts: missing, this policy needs features, a row an arm".into()),
            (Some((d, k)), Some(rows)) => {
                if rows.len() != k || rows.iter().any(|row| row.len() != d) {
                    return bad(format!("contexts: must be {k} rows of {d} features"));
                }
                Ok(Some(Features::new(rows.concat(), d)?))
            }
        }
    }

    /// That the field the policy learns from is there, and no other.
    fn check(&self, feedback: &ClearFeedback) -> Result<(), Error> {
        let ClearFeedback { reward, rewards, sum, share } = feedback;
        let given = [
            (FeedbackKind::Reward, "reward", reward.is_some()),
            (FeedbackKind::Rewards, "rewards", rewards.is_some()),
            (FeedbackKind::Sum, "sum", sum.is_some()),
            (FeedbackKind::Share, "share", share.is_some()),
        ];
        let wanted = self.config.feedback();
        let bad = |name, what| Err(Error::BadParameter { why: format!("{name}: {what}") });
        if let Some((_, name, _)) = given.iter().find(|(kind, _, is_given)| *kind == wanted && !is_given) {
            return bad(name, "missing, it is what this policy learns from");
        }
        match given.iter().find(|(kind, _, is_given)| *kind != wanted && *is_given) {
            Some((_, name, _)) => bad(name, "not what this policy learns from"),
            None => Ok(()),
        }
    }
}

pub(crate) async fn policies() -> Result<Json<Vec<Offer>>, Error> {
    blocking(|| Ok(Json(offers()?))).await
}

/// Makes a bandit with a policy from `request`.
pub(crate) fn create(state: &AppState, request: Map<String, Value>) -> Result<Response, Error> {
    let config = Config::from_request(request)?;
    state.insert(|id| {
        // One at a time, in here: calibrated noise takes a while.
        let bandit = Bandit::new(config)?;
        state.0.store.commit_clear(&id, &bandit)?;
        let entry = ClearEntry::new(id, bandit)?;
        let location = [(header::LOCATION, format!("/v1/bandits/{}", entry.id))];
        let answer = (StatusCode::CREATED, location, Json(entry.created())).into_response();
        Ok((Kept::Clear(entry.into()), answer))
    })
}

pub(crate) async fn decide(
    state: AppState,
    entry: Arc<ClearEntry>,
    request: Request,
) -> Result<Response, Error> {
    let place = match state.admit() {
        Ok(place) => place,
        Err(error) => return Err(refuse(request, error).await),
    };
    let values = entry.config.shape().map_or(0, |(d, k)| d * k);
    let body = body(request, BODY_BYTES + values * NUMBER_BYTES).await?;
    blocking(move || {
        let _place = place;
        let request =
            if body.is_empty() { DecideRequest::default() } else { json("a decision request", &body)? };
        let context = entry.context(request)?;
        let mut rng = rng()?;
        let (decision, spent) = entry.change(&state, |bandit| {
            let decision = bandit.decide(context, &mut rng)?;
            Ok((decision, bandit.spent()))
        })?;
        tracing::info!(bandit = entry.id, round = decision.round, "decided");
        let Decision { id, round, arm, awaited, published } = decision;
        let privacy = entry.privacy(spent);
        Ok(Json(Decided { decision: id.to_string(), round, arm, published, awaited, privacy })
            .into_response())
    })
    .await
}

pub(crate) async fn feedback(
    state: AppState,
    entry: Arc<ClearEntry>,
    decision: String,
    request: Request,
) -> Result<Response, Error> {
    let admit = || {
        if entry.config.feedback() == FeedbackKind::Batch {
            return Err(Error::TakesBatches { id: entry.id.clone() });
        }
        Ok((decision.parse::<DecisionId>()?, state.admit()?))
    };
    let (id, place) = match admit() {
        Ok(admitted) => admitted,
        Err(error) => return Err(refuse(request, error).await),
    };
    let rewards = entry.parameters.get("arms").and_then(Value::as_u64).unwrap_or(0) as usize;
    let body = body(request, BODY_BYTES + rewards * NUMBER_BYTES).await?;
    blocking(move || {
        let _place = place;
        let feedback: ClearFeedback = json("a feedback", &body)?;
        entry.check(&feedback)?;
        let mut rng = rng()?;
        let receipt =
            entry.change(&state, |bandit| bandit.feedback(id, &feedback, &entry.statement, &mut rng))?;
        tracing::info!(bandit = entry.id, feedbacks = receipt.feedbacks, "counted");
        Ok(Json(entry.counted(id.to_string(), receipt)).into_response())
    })
    .await
}

/// What an intermediary lets out of a batch of users.
pub(crate) async fn shuffled(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<Counted>, Error> {
    let admit = || {
        let Path(id) = id?;
        match state.find(&id)? {
            Kept::Clear(entry) if entry.config.feedback() == FeedbackKind::Batch => {
                Ok((entry, state.admit()?))
            }
            _ => Err(Error::TakesFeedback { id }),
        }
    };
    let (entry, place) = match admit() {
        Ok(admitted) => admitted,
        Err(error) => return Err(refuse(request, error).await),
    };
    let body = body(request, MAX_CLEAR_BYTES).await?;
    blocking(move || {
        let _place = place;
        let batch: ShuffledBatch = json("a shuffled batch", &body)?;
        drop(body);
        let mut rng = rng()?;
        let receipt = entry.change(&state, |bandit| bandit.receive(&batch, &entry.statement, &mut rng))?;
        tracing::info!(bandit = entry.id, feedbacks = receipt.feedbacks, "batch counted");
        Ok(Json(entry.counted(batch.exchange.to_string(), receipt)))
    })
    .await
}

/// Reads a message; what is wrong is named by its path.
fn json<T: DeserializeOwned>(what: &'static str, body: &Bytes) -> Result<T, Error> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(&mut reader);
    let read = read.map_err(|e| Error::BadJson { what, why: e.to_string() })?;
    reader.end().map_err(|e| Error::BadJson { what, why: e.to_string() })?;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;

    fn round(bandit: &mut Bandit, rng: &mut ChaCha20Rng) -> Result<Option<usize>, Error> {
        let statement = bandit.learner.privacy()?;
        let shape = bandit.config.shape();
        let context = shape.map(|(d, k)| {
            let values = (0..d * k).map(|_| rng.random::<f64>() / (d as f64).sqrt()).collect();
            Features::new(values, d).unwrap()
        });
        let Decision { id, arm, .. } = bandit.decide(context, rng)?;
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

    /// Of every policy offered: whatever byte of its stored state is damaged, it is refused, or plays on without a panic;
    /// so is what has been cut off, goes on too long, or is put together from two bandits.
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

    /// Of every policy offered: stored and read back at any point it makes the same decisions from the same randomness,
    /// and is stored again to the same bytes.
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
        let first = bandit.decide(context(), &mut rng).unwrap().id;
        let ids: Vec<DecisionId> =
            (0..most).map(|_| bandit.decide(context(), &mut rng).unwrap().id).collect();
        assert_eq!(bandit.open.len(), most);
        let feedback = ClearFeedback { reward: Some(1.0), ..ClearFeedback::default() };
        assert!(bandit.feedback(first, &feedback, &statement, &mut rng).is_err());
        bandit.feedback(ids[0], &feedback, &statement, &mut rng).unwrap();
        assert_eq!((bandit.open.len(), bandit.feedbacks), (most - 1, 1));
    }
}
