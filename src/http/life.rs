//! What the holder of its keys does with a bandit beside its rounds: `PUT /v1/bandits/{id}/frozen`,
//! `GET /v1/bandits/{id}/model` and `POST /v1/bandits/{id}/copy`.

use super::AppState;
use super::bandits::{CONFIG, encrypted, idempotency_key, labels};
use crate::access::Caller;
use crate::bandits::{Answered, Beside, BodyLimit, Repeatable, Reply};
use crate::error::Error;
use crate::jobs::{self, Work};
use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use service::Content;
use wire::Freeze;

/// The limit of a message of one field.
const SHORT: BodyLimit = BodyLimit { bytes: 1 << 10, content: Content::Json };

/// Freezes or thaws a bandit, and answers with its counters when that is on disk.
pub(super) async fn freeze(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Reply, Error> {
    let find = || {
        let Path(id) = id?;
        state.find_for(&id, &caller)?.held(&id, "frozen")
    };
    let (bandit, request) = super::found(request, find()).await?;
    let body = state.body(request, SHORT).await?;
    // By way of an object: an array of the fields would be read too.
    let asked = serde_json::from_slice(&body).map(Value::Object).and_then(serde_json::from_value);
    let Freeze { frozen } =
        asked.map_err(|e| Error::BadJson { what: "whether a bandit is frozen", why: e.to_string() })?;
    jobs::run(None, move || Reply::json(&bandit.freeze(frozen)?)).await
}

/// The encrypted model, when all that it follows from is on disk.
pub(super) async fn model(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    Extension(caller): Extension<Caller>,
) -> Result<Reply, Error> {
    let Path(id) = id?;
    let bandit = state.find_for(&id, &caller)?.held(&id, "exported")?;
    jobs::run(None, move || bandit.show_model()).await
}

/// Creates a copy of a bandit. The body has what the copy does not have of the original: name and tags, and
/// fields of the configuration, of which those of `linear` may be given one by one.
pub(super) async fn copy(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Error> {
    let find = || {
        let Path(id) = id?;
        let bandit = state.find_for(&id, &caller)?.held(&id, "copied")?;
        Ok((bandit, id, idempotency_key(request.headers())?))
    };
    let found = find();
    let ((bandit, id, key), request) = super::found(request, found).await?;
    let body = state.body(request, CONFIG).await?;
    let bad = |e: serde_json::Error| Error::BadConfig { why: e.to_string() };
    let mut changes: Map<String, Value> = serde_json::from_slice(&body).map_err(bad)?;
    let labels = labels(&mut changes)?;
    let Value::Object(mut config) = serde_json::to_value(bandit.config()).map_err(bad)? else {
        return Err(Error::Broken("a configuration that is no object"));
    };
    for (name, value) in changes {
        match (config.get_mut(&name), value) {
            (Some(Value::Object(own)), Value::Object(given)) if name == "linear" => own.extend(given),
            (_, value) => drop(config.insert(name, value)),
        }
    }
    let config = encrypted(config)?;
    let asked = [id.as_bytes(), b"/copy:", &body].concat();
    let repeatable = key.map(|key| Repeatable::new(&caller.identity(), &key, &asked));
    let beside = Beside { labels, repeatable };
    let place = state.0.admission.admit(Work::Short)?;
    let create = move || state.0.bandits.copy(&bandit, config, &beside);
    let Answered { id, body } = jobs::run(Some(place), create).await?;
    let location = [(header::LOCATION, format!("/v1/bandits/{id}"))];
    Ok((StatusCode::CREATED, location, Reply::Json(body.into_bytes())).into_response())
}
