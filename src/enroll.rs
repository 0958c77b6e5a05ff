//! Keys and bandits: what a user asks before the first round.

use crate::access::About;
use crate::intake::{Content, body};
use crate::store::{Saved, lock};
use crate::{AppState, Entry, Error, Kept, blocking, clear};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use helba::Bandit;
use protocol::BanditConfig;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use wire::{BanditView, Created, Manifest, PolicyCreated};

/// A configuration is a dozen numbers.
const CONFIG_BYTES: usize = 16 << 10;

#[derive(Serialize)]
pub(crate) struct Health {
    status: &'static str,
}

pub(crate) async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

pub(crate) async fn keys(State(state): State<AppState>) -> Result<Json<Manifest>, Error> {
    Ok(Json(state.keys()?.manifest.clone()))
}

/// As it was created, of either kind.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Listed {
    Encrypted(Created),
    Clear(PolicyCreated),
}

/// Those that the sender may change.
pub(crate) async fn list(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<Vec<Listed>>, Error> {
    let listed = |kept| match kept {
        Kept::Encrypted(entry) => Some(Listed::Encrypted(entry.created.clone())),
        Kept::Clear(entry) => entry.created().map(Listed::Clear),
        Kept::Asleep => None,
    };
    blocking(move || {
        let may = |kept: &Kept| state.0.access.check(&headers, About::of(kept)).is_ok();
        Ok(Json(state.all().into_iter().filter(may).filter_map(listed).collect()))
    })
    .await
}

pub(crate) async fn show(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Error> {
    let kept = state.find(&id?.0)?;
    // A commit may hold the lock for as long as the disk takes.
    blocking(move || {
        Ok(match kept {
            Kept::Encrypted(entry) => {
                let status = lock(&entry.live).bandit.status();
                Json(BanditView { created: entry.created.clone(), status }).into_response()
            }
            Kept::Clear(entry) => Json(entry.view()?).into_response(),
            Kept::Asleep => return Err(Error::NoKeys),
        })
    })
    .await
}

/// Answers 204; a second time, 404.
pub(crate) async fn delete(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<StatusCode, Error> {
    let Path(id) = id?;
    state.find_for(&id, &headers)?;
    blocking(move || {
        state.delete(&id)?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

pub(crate) async fn create(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let headers = request.headers().clone();
    let body = body(&state, request, CONFIG_BYTES, Content::Json).await?;
    let config = match asked_for(&body)? {
        Asked::Policy(request) => {
            state.0.access.check(&headers, About::Clear)?;
            return clear::create(state, request).await;
        }
        Asked::Encrypted(config) => config,
    };
    state.keys()?;
    state.0.access.check(&headers, About::Encrypted)?;
    let place = state.admit()?;
    blocking(move || {
        let _place = place;
        let engine = &state.keys()?.engine;
        state.insert(About::Encrypted, |id| {
            let bandit = Bandit::create(engine, config)?;
            let mut saved = Saved::default();
            state.0.store.commit(&id, &bandit, &mut saved)?;
            let entry = Entry::new(engine, id.clone(), bandit, saved)?;
            let location = [(header::LOCATION, format!("/v1/bandits/{id}"))];
            let answer = (StatusCode::CREATED, location, Json(entry.created.clone())).into_response();
            Ok((Kept::Encrypted(Arc::new(entry)), answer))
        })
    })
    .await
}

enum Asked {
    Encrypted(BanditConfig),
    Policy(Map<String, Value>),
}

/// What a creation request asks for: HELBA where no policy is named.
fn asked_for(body: &[u8]) -> Result<Asked, Error> {
    let mut names_no_policy = false;
    let config = match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(mut object)) if object.contains_key("policy") => {
            if object["policy"] != "helba" {
                return Ok(Asked::Policy(object));
            }
            object.remove("policy");
            serde_json::from_value(Value::Object(object))
        }
        Ok(_) => {
            names_no_policy = true;
            serde_json::from_slice(body)
        }
        Err(error) => Err(error),
    };
    config.map(Asked::Encrypted).map_err(|e| {
        let hint = if names_no_policy { "; for a policy in the clear give `policy`" } else { "" };
        Error::BadConfig { why: format!("{e}{hint}") }
    })
}
