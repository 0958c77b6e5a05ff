//! `POST /v1/bandits/{id}/decisions/{decision}/feedback` counts a feedback, `DELETE` erases it, and
//! `POST /v1/bandits/{id}/learn` learns logged rounds. All answer when that is on disk.

use super::AppState;
use super::decisions::site;
use crate::access::Caller;
use crate::bandits::{Bandit, Reply};
use crate::error::Error;
use crate::jobs::{self, Work};
use crate::metrics::Step;
use axum::Extension;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::HeaderMap;
use protocol::DecisionId;
use serde::Deserialize;
use std::time::Instant;
use wire::ERASURE_HEADER;

/// Who asks, of a committee.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asks {
    /// The id of the device's session, in hexadecimal digits: a decision of another one is refused.
    session: Option<String>,
}

type AsksQuery = Result<Query<Asks>, QueryRejection>;

fn session(query: AsksQuery) -> Result<Option<[u8; 32]>, Error> {
    let what = "the query of a feedback";
    let Query(Asks { session }) = query.map_err(|e| Error::BadJson { what, why: e.body_text() })?;
    let why = || Error::BadParameter { why: "session must be 64 hexadecimal digits".into() };
    session.map(|session| wire::from_hex(&session).ok_or_else(why)).transpose()
}

pub(super) async fn erase(
    State(state): State<AppState>,
    names: Result<Path<(String, String)>, PathRejection>,
    query: AsksQuery,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Reply, Error> {
    let Path((id, decision)) = names?;
    match state.find_for(&id, &caller)? {
        Bandit::Committee(bandit) => {
            let (label, session) = (label(&decision)?, session(query)?);
            let erasure = headers.get(ERASURE_HEADER).and_then(|value| value.to_str().ok());
            let erasure = erasure.and_then(wire::all_from_hex);
            let why = || Error::BadParameter {
                why: format!("the header {ERASURE_HEADER} must have what the device has signed"),
            };
            let erasure = erasure.ok_or_else(why)?;
            jobs::run(None, move || bandit.erase((&label, session), erasure)).await
        }
        bandit => {
            let (bandit, decision) = (bandit.encrypted(&id)?, decision.parse::<DecisionId>()?);
            bandit.erase(decision, move |erase| state.0.bandits.with_copies(erase)).await
        }
    }
}

pub(super) async fn learn(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Reply, Error> {
    let find = || {
        let Path(id) = id?;
        let bandit = state.find_for(&id, &caller)?.encrypted(&id)?;
        let limit = bandit.learn_body();
        Ok((bandit, limit))
    };
    let ((bandit, limit), request) = super::found(request, find()).await?;
    let body = state.body(request, limit).await?;
    bandit.learn(body).await
}

pub(super) async fn feedback(
    State(state): State<AppState>,
    names: Result<Path<(String, String)>, PathRejection>,
    query: AsksQuery,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Reply, Error> {
    let find = || {
        let Path((id, decision)) = names?;
        let bandit = state.find_for(&id, &caller)?;
        let limit = bandit.feedback_body()?;
        // The decisions of a committee have labels, and all others numbers.
        let decision = match bandit {
            Bandit::Committee(_) => Err((label(&decision)?, session(query)?)),
            _ => Ok(decision.parse::<DecisionId>()?),
        };
        Ok((bandit, limit, decision))
    };
    let ((bandit, limit, decision), request) = super::found(request, find()).await?;
    let site = site(&request);
    let body = state.body(request, limit).await?;
    match (bandit, decision) {
        // It waits for the disk with others, and holds no place of those who compute.
        (Bandit::Encrypted(bandit), Ok(decision)) => {
            bandit.feedback(decision, body, caller.check_enrolled().ok()).await
        }
        (Bandit::Paper(bandit), Ok(decision)) => bandit.feedback(decision, body).await,
        (Bandit::Clear(bandit), Ok(decision)) => {
            let (place, began) = (state.0.admission.admit(Work::Short)?, Instant::now());
            let feedback = move || bandit.feedback(decision, body, (&caller.identity(), site));
            let reply = jobs::run(Some(place), feedback).await?;
            state.0.metrics.took(Step::ClearFeedback, began.elapsed());
            Ok(reply)
        }
        (Bandit::Committee(bandit), Err((label, session))) => {
            jobs::run(None, move || bandit.feedback((&label, session), body.to_vec())).await
        }
        _ => Err(Error::Broken("a decision of another kind of bandit")),
    }
}

/// The label of a decision of a committee.
fn label(decision: &str) -> Result<[u8; 32], Error> {
    let label = wire::from_hex(decision);
    Ok(label.ok_or(switchboard::Error::Decision)?)
}
