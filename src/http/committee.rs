//! `/v1/committee/members/{member}`: a member of the key committee waits for questions and answers them.

use super::raises::Wait;
use super::{AppState, refuse};
use crate::bandits::{BodyLimit, LONGEST_WAIT, Reply};
use crate::error::Error;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use service::Content;
use std::time::Duration;
use wire::MemberReply;

/// Waits for a question, and answers 204 if there was none.
pub(super) async fn wait(
    State(state): State<AppState>,
    member: Result<Path<u8>, PathRejection>,
    query: Result<Query<Wait>, QueryRejection>,
) -> Result<Response, Error> {
    let (Path(member), (committee, _)) = (member?, state.0.bandits.committee()?);
    let Query(Wait { wait }) = query
        .map_err(|e| Error::BadJson { what: "the query of a request for questions", why: e.body_text() })?;
    Ok(match committee.next(member, Duration::from_secs(wait).min(LONGEST_WAIT)).await? {
        Some(request) => Reply::Binary(request.to_vec()).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Takes the answer to a question.
pub(super) async fn answer(
    State(state): State<AppState>,
    member: Result<Path<u8>, PathRejection>,
    request: Request,
) -> Result<StatusCode, Error> {
    let found =
        member.map_err(Error::from).and_then(|Path(member)| Ok((member, state.0.bandits.committee()?)));
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
