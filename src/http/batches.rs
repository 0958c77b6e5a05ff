//! `POST /v1/bandits/{id}/shuffled`: the sums of a batch of users, from an intermediary.

use super::AppState;
use crate::access::Caller;
use crate::bandits::{Bandit, Reply};
use crate::error::Error;
use crate::jobs::{self, Work};
use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};

pub(super) async fn receive(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Reply, Error> {
    let find = || {
        let Path(id) = id?;
        match state.find_for(&id, &caller)? {
            Bandit::Encrypted(_) | Bandit::Paper(_) | Bandit::Committee(_) => {
                Err(Error::TakesFeedback { id })
            }
            Bandit::Clear(bandit) => Ok((bandit.batch_body()?, bandit)),
        }
    };
    let ((limit, bandit), request) = super::found(request, find()).await?;
    let body = state.body(request, limit).await?;
    let place = state.0.admission.admit(Work::Short)?;
    jobs::run(Some(place), move || bandit.receive(body)).await
}
