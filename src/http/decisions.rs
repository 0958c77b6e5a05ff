//! `POST /v1/bandits/{id}/decisions`: makes a decision.

use super::{AppState, refuse};
use crate::bandits::Reply;
use crate::error::Error;
use crate::jobs;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};

pub(super) async fn decide(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Reply, Error> {
    let found = id.map_err(Error::from).and_then(|Path(id)| state.find_for(&id, request.headers()));
    let bandit = match found {
        Ok(bandit) => bandit,
        Err(error) => return Err(refuse(request, error).await),
    };
    let body = state.body(request, bandit.decision_body()).await?;
    if let Some(packed) = bandit.clone().packed() {
        // It waits for others, and holds no place of those who compute.
        return packed.decide(body).await;
    }
    let place = state.0.admission.admit(bandit.decision_work()).await?;
    jobs::run(Some(place), || bandit.decide(body)).await
}
