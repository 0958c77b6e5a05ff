//! `/v1/committee/members/{member}`: a member of the key committee waits for questions and answers them.

use super::{AppState, refuse};
use crate::access::Caller;
use crate::bandits::{BodyLimit, LONGEST_WAIT, Reply};
use crate::committee::Committee;
use crate::error::{Error, Kind};
use axum::Extension;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use service::Content;
use std::sync::Arc;
use std::time::Duration;
use wire::{MemberReply, PublicBytes, SignedHead};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Poll {
    /// Seconds.
    #[serde(default)]
    wait: u64,
    /// Seconds since 1970, by the member's clock.
    time: u64,
    /// The signature of the member, in hexadecimal digits ([`wire::sign_poll`]).
    signature: PublicBytes,
}

/// The committee, and the most bytes of an answer, if `caller` may speak for a member.
fn committee(state: &AppState, caller: &Caller) -> Result<(Arc<Committee>, usize), Error> {
    caller.check(Kind::Encrypted)?;
    state.0.bandits.committee()
}

/// Waits for a question, and answers 204 if there was none.
pub(super) async fn wait(
    State(state): State<AppState>,
    member: Result<Path<u8>, PathRejection>,
    query: Result<Query<Poll>, QueryRejection>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Error> {
    let ((committee, _), Path(member)) = (committee(&state, &caller)?, member?);
    let Query(Poll { wait, time, signature }) = query
        .map_err(|e| Error::BadJson { what: "the query of a request for questions", why: e.body_text() })?;
    committee.check_poll(member, time, &signature.0)?;
    let waiting = committee.next(member, Duration::from_secs(wait).min(LONGEST_WAIT));
    Ok(match state.unless_stopping(waiting).await? {
        Some(request) => Reply::Binary(request.to_vec()).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Position {
    /// The number of records that the member has.
    #[serde(default)]
    after: u64,
    /// The last head that the member has signed, in hexadecimal digits ([`wire::SignedHead::to_bytes`]).
    #[serde(default)]
    head: Option<PublicBytes>,
}

/// The records of the log of an encrypted bandit after those that a member has, and the heads that members
/// have signed. The member may bring its own.
pub(super) async fn journal(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<Position>, QueryRejection>,
    Extension(caller): Extension<Caller>,
) -> Result<Reply, Error> {
    let Path(id) = id?;
    let bandit = state.find_for(&id, &caller)?.encrypted(&id)?;
    let Query(Position { after, head }) = query
        .map_err(|e| Error::BadJson { what: "the query of a request for a journal", why: e.body_text() })?;
    let turn = state.0.stages.raises.clone().acquire_owned().await;
    let work = move || {
        let _turn = turn;
        if let Some(head) = head {
            bandit.note_head(SignedHead::from_bytes(&head.0)?)?;
        }
        bandit.journal(after)
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Broken("a computation panicked"))?
}

/// Takes the answer to a question.
pub(super) async fn answer(
    State(state): State<AppState>,
    member: Result<Path<u8>, PathRejection>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<StatusCode, Error> {
    let found = committee(&state, &caller).and_then(|desk| Ok((member?.0, desk)));
    let (member, (committee, bytes)) = match found {
        Ok(found) => found,
        Err(error) => return Err(refuse(request, error).await),
    };
    let body = state.body(request, BodyLimit { bytes, content: Content::Binary }).await?;
    let turn = state.0.stages.raises.clone().acquire_owned().await;
    let work = move || {
        let _turn = turn;
        committee.answer(member, MemberReply::read(&body, bytes)?)
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Broken("a computation panicked"))??;
    Ok(StatusCode::NO_CONTENT)
}
