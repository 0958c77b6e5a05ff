//! `PUT /v1/bandits/{id}/frozen` and `GET /v1/bandits/{id}/model`: what the holder of its keys does with a bandit beside its rounds.

use super::AppState;
use crate::access::Caller;
use crate::bandits::{BodyLimit, Reply};
use crate::error::Error;
use crate::jobs;
use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use serde_json::Value;
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
