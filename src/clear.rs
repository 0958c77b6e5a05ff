//! Bandits in the clear over HTTP: routes, and entries that are changed, stored and then seen. Their state is in `state`.

mod state;

pub(crate) use state::Bandit;

use crate::access::About;
use crate::intake::{Content, body, refuse};
use crate::policy::{Config, offers};
use crate::store::{Saved, lock};
use crate::{AppState, Error, Kept, blocking, rng};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bandit::Features;
use privacy::PrivacyStatement;
use protocol::DecisionId;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::{Map, Value};
use state::{Clock, Decision, Receipt};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use wire::{
    ClearFeedback, Counted, DecideRequest, Decided, FeedbackKind, MAX_CLEAR_BYTES, Offer, PolicyCreated,
    PolicyView, Privacy, Spent, SummedBatch,
};

/// Of a number in JSON, generously.
const NUMBER_BYTES: usize = 32;
const BODY_BYTES: usize = 4 << 10;

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
        Ok(PolicyView {
            created: self.created_at(bandit.spent()),
            round: bandit.round,
            feedbacks: bandit.feedbacks,
            pending_decisions: bandit.pending(),
            awaited: bandit.awaited()?,
            published: bandit.published()?,
            restored: bandit.restored,
        })
    }

    /// Gives the decision that still waits for its answer, or else a new one. Only a new one changes the
    /// bandit.
    fn decide(
        &self,
        state: &AppState,
        context: Option<Features>,
    ) -> Result<(Decision, Option<Spent>), Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let clock = Clock { now, hold: state.0.settings.hold.as_secs() };
        let mut rng = rng()?;
        let mut live = lock(&self.live);
        let bandit = live.as_ref().ok_or_else(|| self.deleted())?;
        if let Some(waiting) = bandit.in_place_of_new(clock, &mut rng)? {
            return Ok((waiting, bandit.spent()));
        }
        self.change_locked(state, &mut live, |bandit| {
            let decision = bandit.decide(context, clock, &mut rng)?;
            Ok((decision, bandit.spent()))
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
        self.change_locked(state, &mut lock(&self.live), change)
    }

    fn change_locked<T>(
        &self,
        state: &AppState,
        live: &mut Option<Bandit>,
        change: impl FnOnce(&mut Bandit) -> Result<T, Error>,
    ) -> Result<T, Error> {
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
            (None, Some(_)) if self.config.chooses_on_devices() => {
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
pub(crate) async fn create(state: AppState, request: Map<String, Value>) -> Result<Response, Error> {
    let config = Config::from_request(request)?;
    // Noise that takes seconds to size is sized for one bandit at a time, without a permit of other requests.
    let held = if config.sizes_noise() {
        state.check_room(About::Clear)?;
        state.0.sizings.clone().try_acquire_owned().map_err(|_| Error::SizingNoise)?
    } else {
        state.admit()?
    };
    blocking(move || {
        let _held = held;
        let bandit = Bandit::new(config)?;
        state.insert(About::Clear, |id| {
            state.0.store.commit_clear(&id, &bandit)?;
            let entry = ClearEntry::new(id, bandit)?;
            let location = [(header::LOCATION, format!("/v1/bandits/{}", entry.id))];
            let answer = (StatusCode::CREATED, location, Json(entry.created())).into_response();
            Ok((Kept::Clear(entry.into()), answer))
        })
    })
    .await
}

pub(crate) async fn decide(
    state: AppState,
    entry: Arc<ClearEntry>,
    request: Request,
) -> Result<Response, Error> {
    let values = entry.config.shape().map_or(0, |(d, k)| d * k);
    let body = body(&state, request, BODY_BYTES + values * NUMBER_BYTES, Content::Json).await?;
    let place = state.admit()?;
    blocking(move || {
        let _place = place;
        let request =
            if body.is_empty() { DecideRequest::default() } else { json("a decision request", &body)? };
        let context = entry.context(request)?;
        let (decision, spent) = entry.decide(&state, context)?;
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
    let named = || {
        if entry.config.feedback() == FeedbackKind::Batch {
            return Err(Error::TakesBatches { id: entry.id.clone() });
        }
        Ok(decision.parse::<DecisionId>()?)
    };
    let id = match named() {
        Ok(id) => id,
        Err(error) => return Err(refuse(request, error).await),
    };
    let rewards = entry.parameters.get("arms").and_then(Value::as_u64).unwrap_or(0) as usize;
    let body = body(&state, request, BODY_BYTES + rewards * NUMBER_BYTES, Content::Json).await?;
    let place = state.admit()?;
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
    let find = || {
        let Path(id) = id?;
        match state.find_for(&id, request.headers())? {
            Kept::Clear(entry) if entry.config.feedback() == FeedbackKind::Batch => Ok(entry),
            _ => Err(Error::TakesFeedback { id }),
        }
    };
    let entry = match find() {
        Ok(entry) => entry,
        Err(error) => return Err(refuse(request, error).await),
    };
    let body = body(&state, request, MAX_CLEAR_BYTES, Content::Json).await?;
    let place = state.admit()?;
    blocking(move || {
        let _place = place;
        let batch = seeded(SummedBatch::of(entry.config.labels()), "a shuffled batch", &body)?;
        drop(body);
        let mut rng = rng()?;
        let receipt = entry.change(&state, |bandit| bandit.receive(&batch, &entry.statement, &mut rng))?;
        tracing::info!(bandit = entry.id, feedbacks = receipt.feedbacks, "batch counted");
        Ok(Json(entry.counted(batch.exchange.to_string(), receipt)))
    })
    .await
}

/// Reads a message; what is wrong is named by its path.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use serde_json::json;

    fn request(value: Value) -> Map<String, Value> {
        let Value::Object(request) = value else { unreachable!() };
        request
    }

    /// While the noise of one bandit is sized, a second creation that needs sizing is refused for now. All
    /// other creations succeed, and no permit of other requests is taken. Parameters whose noise would take
    /// longer than the limits allow are refused before any sizing.
    #[tokio::test]
    async fn attack_costly_creations_hold_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { max_in_flight: 1, ..Settings::default() };
        let state = AppState::open(None, folder.path(), settings).unwrap();
        let costly = json!({"policy": "shuffle-glm", "arms": 2, "features": 1, "batches": [9], "epsilon": 4,
            "delta": 0.01, "gamma": 1, "steps": 2});
        let make = |value: &Value| create(state.clone(), request(value.clone()));
        let sizing = state.0.sizings.clone().try_acquire_owned().unwrap();
        assert!(matches!(make(&costly).await, Err(Error::SizingNoise)));
        assert!(make(&json!({"policy": "ucb1", "arms": 2})).await.is_ok());
        drop(sizing);
        let place = state.admit().unwrap();
        assert!(make(&costly).await.is_ok(), "needs no place");
        assert!(matches!(make(&json!({"policy": "ucb1", "arms": 2})).await, Err(Error::Overloaded)));
        drop(place);
        let mut most = costly.clone();
        (most["batches"], most["steps"]) = (vec![125_000; 8].into(), 1000.into());
        let refused = make(&most).await.unwrap_err().to_string();
        assert!(refused.contains("steps times batches is 8000"), "{refused}");
        assert_eq!(state.bandits(), 2);
    }
}
