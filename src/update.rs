//! Feedback: encrypted statistics of the arm played. Answered when it is on disk.

use crate::{AppState, Error, Kept, blocking, body, clear, refresh, refuse};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use helba::{Bandit, DecisionId, Feedback, RefreshId};
use wire::FeedbackRequest;

pub(crate) async fn feedback(
    State(state): State<AppState>,
    names: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Result<Response, Error> {
    let found = names
        .map_err(Error::from)
        .and_then(|Path((id, decision))| Ok((state.find_for(&id, request.headers())?, decision)));
    let (entry, decision) = match found {
        Ok((Kept::Encrypted(entry), decision)) => (entry, decision),
        Ok((Kept::Clear(entry), decision)) => return clear::feedback(state, entry, decision, request).await,
        Ok((Kept::Asleep, _)) => return Err(refuse(request, Error::NoKeys).await),
        Err(error) => return Err(refuse(request, error).await),
    };
    let admit = || Ok((decision.parse::<DecisionId>()?, state.admit()?));
    let (decision, place) = match admit() {
        Ok(admitted) => admitted,
        Err(error) => return Err(refuse(request, error).await),
    };
    let body = body(request, entry.limits.feedback_request()).await?;
    blocking(move || {
        let _place = place;
        let engine = &state.keys()?.engine;
        let message = FeedbackRequest::read(&body, &entry.limits)?;
        let plan = &entry.created.plan;
        let read =
            |frame: &[u8], level| ckks::read_ciphertext(engine.params(), engine.key_id(), level, frame);
        // On threads of the pool, here and below, as a decision.
        let (statistics, trace) = rayon::scope(|_| {
            (read(&message.statistics, plan.statistics_level), read(&message.trace, plan.trace_level))
        });
        let feedback = Feedback {
            statistics: statistics?,
            trace: trace?,
            trace_answer: message.trace_answer,
            refreshed: match &message.refreshed {
                Some((id, frame)) => Some((RefreshId(*id), read(frame, plan.model_level)?)),
                None => None,
            },
        };
        drop((message, body));
        let count = |bandit: &mut Bandit| rayon::scope(|_| Ok(bandit.feedback(engine, decision, feedback)?));
        let receipt = entry.change(&state, count)?;
        tracing::info!(bandit = entry.created.id, feedbacks = receipt.feedbacks, "counted");
        refresh::update_if_due(&state, &entry);
        Ok(Json(receipt).into_response())
    })
    .await
}
