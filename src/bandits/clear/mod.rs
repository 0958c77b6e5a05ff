//! Bandits with a clear policy. The server reads contexts and feedback, and adds the noise of the privacy
//! guarantee unless users add it.

mod state;
mod terms;

use super::measured::{Awaited, Measured};
use super::{BodyLimit, Listed, Reply};
use crate::clock::Clock;
use crate::error::Error;
use crate::store::{NamedEdit, Store, Stored};
use bandit::Features;
use bandit::vector::within;
use host::{lock, os_rng};
use policies::{FEATURES_BOUND, PolicyConfig};
use privacy::PrivacyStatement;
use protocol::{DecisionId, is_open};
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::{Map, Value};
use service::{Body, Content};
use state::{Answer, ClearChange, ClearState, Decision, digest};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
pub(crate) use terms::AskedTerms;
use wire::{
    ClearFeedback, Counted, DecideRequest, Decided, FeedbackKind, MAX_CLEAR_BYTES, PolicyCreated, PolicyView,
    Privacy, Spent, SummedBatch,
};

/// An upper bound on the bytes of a number in JSON.
const NUMBER_BYTES: usize = 32;
const BODY_BYTES: usize = 4 << 10;

/// A loaded bandit with a clear policy.
pub(crate) struct ClearBandit {
    id: String,
    policy: String,
    parameters: Map<String, Value>,
    config: PolicyConfig,
    statement: PrivacyStatement,
    store: Arc<Store>,
    clock: Clock,
    /// `None` after the bandit was deleted. Requests that found it before do not restore it.
    live: Mutex<Option<ClearState>>,
}

/// A new bandit that is not stored yet.
pub(super) struct New(ClearState);

impl New {
    /// Creates the policy. Calibrating its noise may take seconds. `wait` is the wait time in seconds if none
    /// is asked for.
    pub(super) fn make(config: PolicyConfig, asked: AskedTerms, wait: u64) -> Result<Self, Error> {
        ClearState::new(config, asked, wait).map(New)
    }

    /// Stores the bandit under `id`, with what `beside` returns of its answer, in one commit.
    pub(super) fn store(
        self,
        id: String,
        store: Arc<Store>,
        clock: Clock,
        beside: &dyn Fn(Listed) -> Result<Vec<NamedEdit>, Error>,
    ) -> Result<ClearBandit, Error> {
        let edits = self.0.created()?;
        let bandit = ClearBandit::new(id, self.0, store, clock)?;
        let created = bandit.created().ok_or(Error::Broken("a new bandit that is deleted"))?;
        bandit.store.commit_with(&[(&bandit.id, edits)], &beside(created)?)?;
        Ok(bandit)
    }
}

/// Loads the stored bandits. If `restored`, the folder comes from a backup, and every bandit with a privacy
/// guarantee starts again without its data, all in one commit.
pub(super) fn load(
    stored: &[Stored],
    store: &Arc<Store>,
    clock: &Clock,
    restored: bool,
) -> Result<Vec<ClearBandit>, Error> {
    let read = |row| ClearState::read(row).map_err(|why| store.corrupt(&row.id, why));
    let mut states = stored.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    if restored {
        let mut edits = Vec::new();
        for (row, state) in stored.iter().zip(&mut states) {
            let Some(change) = state.begin_anew()? else { continue };
            edits.extend(change.edits()?.map(|edits| (row.id.as_str(), edits)));
            change.apply();
            tracing::warn!(bandit = row.id, "restored: starts again, and its open decisions are closed");
        }
        store.commit(&edits)?;
    }
    let ready =
        |(row, state): (&Stored, _)| ClearBandit::new(row.id.clone(), state, store.clone(), clock.clone());
    stored.iter().zip(states).map(ready).collect()
}

impl ClearBandit {
    fn new(id: String, state: ClearState, store: Arc<Store>, clock: Clock) -> Result<Self, Error> {
        let config = state.config().clone();
        let (policy, parameters) = (config.name().into(), config.parameters()?);
        let statement = state.statement()?;
        let live = Mutex::new(Some(state));
        Ok(ClearBandit { id, policy, parameters, config, statement, store, clock, live })
    }

    fn deleted(&self) -> Error {
        Error::UnknownBandit { id: self.id.clone() }
    }

    fn created_of(&self, state: &ClearState) -> PolicyCreated {
        let terms = state.terms();
        PolicyCreated {
            id: self.id.clone(),
            policy: self.policy.clone(),
            parameters: self.parameters.clone(),
            wait: terms.map(|terms| terms.wait),
            default_reward: terms.and_then(|terms| terms.default_reward),
            max_open: terms.map(|terms| terms.max_open),
            warning: state.caution(),
            privacy: self.privacy(state.spent()),
        }
    }

    fn privacy(&self, spent: Option<Spent>) -> Privacy {
        Privacy { statement: self.statement.clone(), spent }
    }

    fn counted(&self, of: String, answer: Answer) -> Counted {
        Counted { of, feedbacks: answer.feedbacks, learnt: None, privacy: self.privacy(answer.spent) }
    }

    /// Computes a change, stores it, and then applies it. On an error nothing has changed.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut ClearState) -> Result<ClearChange<'_, T>, Error>,
    ) -> Result<T, Error> {
        let mut live = lock(&self.live);
        self.store(change(live.as_mut().ok_or_else(|| self.deleted())?)?)
    }

    fn store<T>(&self, change: ClearChange<'_, T>) -> Result<T, Error> {
        if let Some(edits) = change.edits()? {
            self.store.commit(&[(&self.id, edits)])?;
        }
        Ok(change.apply())
    }

    /// The contexts, if they have the shape that the policy takes, and whether each arm is open.
    fn context(&self, request: DecideRequest) -> Result<Option<(Features, Vec<bool>)>, Error> {
        let bad = |why: String| Err(Error::BadParameter { why });
        match (self.config.profile().shape(), request.contexts) {
            (None, None) => Ok(None),
            (None, Some(_)) if self.config.profile().devices_choose => {
                bad("contexts: devices choose their arms themselves, and keep their contexts".into())
            }
            (None, Some(_)) => bad("contexts: this policy takes none".into()),
            (Some(_), None) => {
                bad("contexts: missing; this policy needs one row of features for each arm".into())
            }
            (Some((d, k)), Some(rows)) => {
                let open: Vec<bool> = rows.iter().map(|row| is_open(row)).collect();
                if rows.len() != k || rows.iter().any(|row| is_open(row) && row.len() != d) {
                    return bad(format!(
                        "contexts: must be {k} rows of {d} features, or null for closed arms"
                    ));
                }
                if !open.contains(&true) {
                    return bad("contexts: all arms are closed".into());
                }
                // A row that single precision made longer is shortened; the policy refuses what is longer
                // still. Nothing is computed of the rows of closed arms.
                let rows = rows.iter().map(|row| match is_open(row) {
                    true => within(row, FEATURES_BOUND).unwrap_or(row.into()),
                    false => vec![0.0; d].into(),
                });
                Ok(Some((Features::new(rows.collect::<Vec<_>>().concat(), d)?, open)))
            }
        }
    }

    /// Checks that the feedback has the field that the policy learns from, and no other.
    fn check(&self, feedback: &ClearFeedback) -> Result<(), Error> {
        let ClearFeedback { reward, rewards, sum, share } = feedback;
        let given = [
            (FeedbackKind::Reward, "reward", reward.is_some()),
            (FeedbackKind::Rewards, "rewards", rewards.is_some()),
            (FeedbackKind::Sum, "sum", sum.is_some()),
            (FeedbackKind::Share, "share", share.is_some()),
        ];
        let wanted = self.config.profile().feedback;
        let bad = |name, what| Err(Error::BadParameter { why: format!("{name}: {what}") });
        if let Some((_, name, _)) = given.iter().find(|(kind, _, is_given)| *kind == wanted && !is_given) {
            return bad(name, "missing; this policy learns from it");
        }
        match given.iter().find(|(kind, _, is_given)| *kind != wanted && *is_given) {
            Some((_, name, _)) => bad(name, "this policy does not learn from it"),
            None => Ok(()),
        }
    }

    /// The answer to its creation request. `None` if it was deleted.
    pub(super) fn created(&self) -> Option<Listed> {
        lock(&self.live).as_ref().map(|state| Listed::Clear(Box::new(self.created_of(state))))
    }

    /// Its public state.
    pub(super) fn view(&self) -> Result<PolicyView, Error> {
        let live = lock(&self.live);
        let state = live.as_ref().ok_or_else(|| self.deleted())?;
        let (pending_decisions, waiting) = state.pending(self.clock.now());
        let (defaulted, left_out) = state.not_given();
        Ok(PolicyView {
            created: self.created_of(state),
            round: state.round(),
            feedbacks: state.feedbacks(),
            pending_decisions,
            waiting,
            defaulted,
            left_out,
            awaited: state.awaited()?,
            published: state.published()?,
            learnt: state.learnt(),
            restored: state.restored(),
        })
    }

    /// Its numbers. `None` if it was deleted.
    pub(super) fn measured(&self) -> Result<Option<Measured>, Error> {
        let live = lock(&self.live);
        let Some(state) = live.as_ref() else { return Ok(None) };
        let profile = self.config.profile();
        let (open, _) = state.pending(self.clock.now());
        let mut awaited = Vec::new();
        awaited.extend((open > 0).then_some(Awaited::Feedback));
        awaited.extend(state.awaited()?.map(|_| Awaited::Batch));
        Ok(Some(Measured {
            id: self.id.clone(),
            kind: "clear",
            policy: self.policy.clone(),
            features: profile.shape().map(|(d, _)| d),
            arms: profile.arms,
            round: state.round(),
            feedbacks: state.feedbacks(),
            batches: None,
            open: open as u64,
            max_open: state.terms().map(|terms| terms.max_open),
            users_waiting: None,
            levels: None,
            privacy: Some(self.privacy(state.spent())),
            awaited,
        }))
    }

    /// The longest body of a decision request.
    pub(super) fn decision_body(&self) -> BodyLimit {
        let values = self.config.profile().shape().map_or(0, |(d, k)| d * k);
        BodyLimit { bytes: BODY_BYTES + values * NUMBER_BYTES, content: Content::Json }
    }

    /// Makes a decision, which is durable when this returns.
    pub(crate) fn decide(
        &self,
        body: Body,
        sender: (&str, IpAddr),
        key: Option<&str>,
    ) -> Result<Reply, Error> {
        // The address of a sender may change between two requests, so that its token and the key name it.
        let once = match key {
            Some(key) => Some((digest(&(sender.0, key))?, digest(&blake3::hash(&body).as_bytes())?)),
            None => None,
        };
        let request =
            if body.is_empty() { DecideRequest::default() } else { json("a decision request", &body)? };
        let context = self.context(request)?;
        let asks = (self.clock.now(), digest(&sender)?);
        let mut rng = os_rng()?;
        let decision = self.change(|state| state.decide(context, asks, once, &self.statement, &mut rng))?;
        tracing::info!(bandit = self.id, round = decision.round, "decided");
        let Decision { id, round, arm, awaited, published, spent } = decision;
        let privacy = self.privacy(spent);
        Reply::json(&Decided {
            decision: id.to_string(),
            round,
            arm,
            published,
            awaited,
            reliable: None,
            probability: None,
            privacy,
        })
    }

    /// The longest body of a feedback.
    pub(super) fn feedback_body(&self) -> Result<BodyLimit, Error> {
        if self.config.profile().feedback == FeedbackKind::Batch {
            return Err(Error::TakesBatches { id: self.id.clone() });
        }
        let rewards = self.parameters.get("arms").and_then(Value::as_u64).unwrap_or(0) as usize;
        Ok(BodyLimit { bytes: BODY_BYTES + rewards * NUMBER_BYTES, content: Content::Json })
    }

    /// Counts a feedback, which is durable when this returns.
    pub(crate) fn feedback(
        &self,
        decision: DecisionId,
        body: Body,
        sender: (&str, IpAddr),
    ) -> Result<Reply, Error> {
        let feedback: ClearFeedback = json("a feedback", &body)?;
        self.check(&feedback)?;
        let mut rng = os_rng()?;
        let sends = (self.clock.now(), digest(&sender)?);
        let answer =
            self.change(|state| state.feedback(decision, &feedback, sends, &self.statement, &mut rng))?;
        tracing::info!(bandit = self.id, feedbacks = answer.feedbacks, "counted");
        Reply::json(&self.counted(decision.to_string(), answer))
    }

    /// The longest body of an intermediary's batch.
    pub(crate) fn batch_body(&self) -> Result<BodyLimit, Error> {
        if self.config.profile().feedback != FeedbackKind::Batch {
            return Err(Error::TakesFeedback { id: self.id.clone() });
        }
        Ok(BodyLimit { bytes: MAX_CLEAR_BYTES, content: Content::Json })
    }

    /// Counts an intermediary's batch, which is durable when this returns.
    pub(crate) fn receive(&self, body: Body) -> Result<Reply, Error> {
        let batch = seeded(SummedBatch::of(self.config.profile().labels), "a shuffled batch", &body)?;
        drop(body);
        let mut rng = os_rng()?;
        let answer = self.change(|state| state.receive(&batch, &self.statement, &mut rng))?;
        tracing::info!(bandit = self.id, feedbacks = answer.feedbacks, "batch counted");
        Reply::json(&self.counted(batch.exchange.to_string(), answer))
    }

    /// Deletes it from the store, in one commit with changes of other tables.
    pub(super) fn delete(&self, named: &[NamedEdit]) -> Result<(), Error> {
        let mut live = lock(&self.live);
        if live.is_none() {
            return Err(self.deleted());
        }
        self.store.delete(&self.id, named)?;
        *live = None;
        Ok(())
    }
}

/// Reads a JSON message. An error names the path of the faulty field.
fn json<T: DeserializeOwned>(what: &'static str, body: &[u8]) -> Result<T, Error> {
    seeded(PhantomData::<T>, what, body)
}

/// As [`json`], for the value that `seed` deserializes.
fn seeded<S: for<'a> DeserializeSeed<'a, Value = T>, T>(
    seed: S,
    what: &'static str,
    body: &[u8],
) -> Result<T, Error> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let mut path = serde_path_to_error::Track::new();
    let read = seed.deserialize(serde_path_to_error::Deserializer::new(&mut reader, &mut path));
    let read = read.map_err(|e| {
        let (path, why) = (path.path().to_string(), e.to_string());
        let why = if path == "." { why } else { format!("{path}: {why}") };
        Error::BadJson { what, why }
    })?;
    reader.end().map_err(|e| Error::BadJson { what, why: e.to_string() })?;
    Ok(read)
}
