//! Feedback: encrypted statistics of the arm played. Answered when it is on disk.

use crate::intake::{Content, body, refuse};
use crate::{AppState, Error, Kept, blocking, clear, refresh};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use helba::Feedback;
use protocol::{DecisionId, RefreshId};
use std::time::Instant;
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
    let decision = match decision.parse::<DecisionId>() {
        Ok(decision) => decision,
        Err(error) => return Err(refuse(request, error.into()).await),
    };
    let body = body(&state, request, entry.limits.feedback_request(), Content::Binary).await?;
    let place = state.admit()?;
    blocking(move || {
        let _place = place;
        let mut clock = Instant::now();
        let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64();
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
        let mut seconds = vec![("parse", lap())];
        let receipt = entry.change(&state, |bandit| {
            let receipt = rayon::scope(|_| bandit.feedback(engine, decision, feedback))?;
            seconds.push(("add", lap()));
            Ok(receipt)
        })?;
        seconds.push(("store", lap()));
        tracing::info!(bandit = entry.created.id, feedbacks = receipt.feedbacks, ?seconds, "counted");
        refresh::update_if_due(&state, &entry);
        Ok(Json(receipt).into_response())
    })
    .await
}
