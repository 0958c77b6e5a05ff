//! `POST /v1/bandits/{id}/decisions/{decision}/again`: gives another answer to an encrypted decision, for a
//! device that cannot rely on the last one.

use super::AppState;
use super::decisions::sender_tag;
use crate::access::Caller;
use crate::bandits::{BodyLimit, Reply};
use crate::error::Error;
use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use protocol::DecisionId;
use service::Content;
use wire::AskAgain;

const BODY: BodyLimit = BodyLimit { bytes: AskAgain::MOST_BYTES, content: Content::Binary };

pub(super) async fn again(
    State(state): State<AppState>,
    names: Result<Path<(String, String)>, PathRejection>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Reply, Error> {
    let find = || {
        let Path((id, decision)) = names?;
        let bandit = state.find_for(&id, &caller)?.encrypted(&id)?;
        Ok((bandit, decision.parse::<DecisionId>()?, sender_tag(request.headers(), &caller)?))
    };
    let found = find();
    let ((bandit, decision, tag), request) = super::found(request, found).await?;
    let body = state.body(request, BODY).await?;
    bandit.again(decision, tag, body).await
}
