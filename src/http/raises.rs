//! `/v1/bandits/{id}/raises`: a holder of the key waits for tasks of an encrypted bandit and answers them;
//! and `/v1/bandits/{id}/counters`, which it opens, or which a committee has opened.

use super::AppState;
use crate::access::Caller;
use crate::bandits::{Bandit, EncryptedServed, Reply};
use crate::error::Error;
use crate::jobs;
use axum::Extension;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    /// Seconds.
    #[serde(default)]
    pub(super) wait: u64,
}

fn encrypted(state: &AppState, id: &str, caller: &Caller) -> Result<Arc<EncryptedServed>, Error> {
    state.find_for(id, caller)?.encrypted(id)
}

/// Waits for tasks, and answers 204 if there was none.
pub(super) async fn wait(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<Wait>, QueryRejection>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Error> {
    let bandit = encrypted(&state, &id?.0, &caller)?;
    let Query(Wait { wait }) =
        query.map_err(|e| Error::BadJson { what: "the query of a request for tasks", why: e.body_text() })?;
    Ok(match state.unless_stopping(bandit.tasks(Duration::from_secs(wait), &caller)).await? {
        Some(reply) => reply.into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// The encrypted counters, when all that they show is on disk, or those that a committee has opened.
pub(super) async fn counters(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    Extension(caller): Extension<Caller>,
) -> Result<Reply, Error> {
    let Path(id) = id?;
    match state.find_for(&id, &caller)? {
        Bandit::Committee(bandit) => jobs::run(None, move || bandit.counters()).await,
        bandit => bandit.encrypted(&id)?.counters().await,
    }
}

/// Takes the answers to tasks.
pub(super) async fn answer(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Reply, Error> {
    let found = id.map_err(Error::from).and_then(|Path(id)| match state.find_for(&id, &caller)? {
        Bandit::Paper(bandit) => Ok(Err(bandit)),
        bandit => bandit.encrypted(&id).map(Ok),
    });
    match super::found(request, found).await? {
        (Err(paper), request) => {
            let body = state.body(request, paper.answer_body()).await?;
            paper.answer(body, caller).await
        }
        (Ok(bandit), request) => {
            let permitted = bandit.check_raiser(&caller).map(|()| bandit);
            let (bandit, request) = super::found(request, permitted).await?;
            let body = state.body(request, bandit.raises_body()).await?;
            bandit.raises(body, caller).await
        }
    }
}
