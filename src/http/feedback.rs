//! `POST /v1/bandits/{id}/decisions/{decision}/feedback` counts a feedback, `DELETE` erases it, and
//! `POST /v1/bandits/{id}/learn` learns logged rounds. All answer when that is on disk.

use super::decisions::site;
use super::{AppState, refuse};
use crate::access::Caller;
use crate::bandits::{Bandit, Reply};
use crate::error::Error;
use crate::jobs::{self, Work};
use crate::metrics::Step;
use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use protocol::DecisionId;
use std::time::Instant;

pub(super) async fn erase(
    State(state): State<AppState>,
    names: Result<Path<(String, String)>, PathRejection>,
    Extension(caller): Extension<Caller>,
) -> Result<Reply, Error> {
    let Path((id, decision)) = names?;
    let bandit = state.find_for(&id, &caller)?.encrypted(&id)?;
    bandit.erase(decision.parse::<DecisionId>()?).await
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
    let (bandit, limit) = match find() {
        Ok(found) => found,
        Err(error) => return Err(refuse(request, error).await),
    };
    let body = state.body(request, limit).await?;
    bandit.learn(body).await
}

pub(super) async fn feedback(
    State(state): State<AppState>,
    names: Result<Path<(String, String)>, PathRejection>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Reply, Error> {
    let find = || {
        let Path((id, decision)) = names?;
        let bandit = state.find_for(&id, &caller)?;
        let limit = bandit.feedback_body()?;
        Ok((bandit, limit, decision.parse::<DecisionId>()?))
    };
    let (bandit, limit, decision) = match find() {
        Ok(found) => found,
        Err(error) => return Err(refuse(request, error).await),
    };
    let site = site(&request);
    let body = state.body(request, limit).await?;
    match bandit {
        // It waits for the disk with others, and holds no place of those who compute.
        Bandit::Encrypted(bandit) => bandit.feedback(decision, body).await,
        Bandit::Clear(bandit) => {
            let (place, began) = (state.0.admission.admit(Work::Short)?, Instant::now());
            let feedback = move || bandit.feedback(decision, body, (&caller.identity(), site));
            let reply = jobs::run(Some(place), feedback).await?;
            state.0.metrics.took(Step::ClearFeedback, began.elapsed());
            Ok(reply)
        }
    }
}
