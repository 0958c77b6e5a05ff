//! `/v1/committee`: the manifest of a committee, sessions of devices, and the rounds of members.

use super::AppState;
use crate::access::Caller;
use crate::bandits::Reply;
use crate::committee::Committees;
use crate::error::{Error, Kind};
use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;

/// The manifest, from which devices and members begin.
pub(super) async fn show(State(state): State<AppState>) -> Result<Reply, Error> {
    state.0.bandits.committee()?.manifest()
}

/// The members who are here.
pub(super) async fn members(State(state): State<AppState>) -> Result<Reply, Error> {
    Reply::json(&state.0.bandits.committee()?.serving().members_here())
}

/// Takes a session of a device, and answers with the receipts of members.
pub(super) async fn session(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<(StatusCode, Reply), Error> {
    let found = caller.check(Kind::Committee).and_then(|()| state.0.bandits.committee());
    let (committees, request) = super::found(request, found).await?;
    let committee = committees.serving();
    let body = state.body(request, committee.session_body()).await?;
    Ok((StatusCode::CREATED, committee.session(&body).await?))
}

/// Takes what a member says, and waits for what it is told.
pub(super) async fn rounds(
    State(state): State<AppState>,
    member: Result<Path<u8>, PathRejection>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Reply, Error> {
    let found = caller.check(Kind::Committee).and_then(|()| Ok((member?.0, state.0.bandits.committee()?)));
    let ((member, committees), request) = super::found(request, found).await?;
    let body = state.body(request, Committees::said_body()).await?;
    let told = async { committees.rounds(member, &body).await.map(Some) };
    // A server that stops tells nothing more.
    Ok(state.unless_stopping(told).await?.unwrap_or(Reply::Binary(vec![0])))
}
