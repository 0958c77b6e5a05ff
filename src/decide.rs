//! A decision: encrypted contexts in, an encrypted action out.

use crate::intake::{Content, body, refuse};
use crate::store::lock;
use crate::{AppState, Error, Kept, blocking, clear, rng};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use std::time::Instant;
use wire::{DecideReply, OCTET_STREAM};

pub(crate) async fn decide(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Error> {
    let entry = match id.map_err(Error::from).and_then(|Path(id)| state.find_for(&id, request.headers())) {
        Ok(Kept::Encrypted(entry)) => entry,
        Ok(Kept::Clear(entry)) => return clear::decide(state, entry, request).await,
        Ok(Kept::Asleep) => return Err(refuse(request, Error::NoKeys).await),
        Err(error) => return Err(refuse(request, error).await),
    };
    let level = entry.created.plan.context_level;
    let body = body(&state, request, entry.limits.contexts, Content::Binary).await?;
    let place = state.admit()?;
    let turn = state.0.evaluations.clone().acquire_owned().await;
    let turn = turn.map_err(|_| Error::Broken("the evaluations were closed"))?;
    // From here on a user who hangs up interrupts nothing: places are given back when the work is done.
    blocking(move || {
        let _held = (place, turn);
        let engine = &state.keys()?.engine;
        let mut rng = rng()?;
        let mut clock = Instant::now();
        let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64();

        // On threads of the pool, here and below, so that no operation waits for one to wake.
        let read = || ckks::read_ciphertext(engine.params(), engine.key_id(), level, &body);
        let contexts = rayon::scope(|_| read())?;
        drop(body);
        let mut seconds = vec![("parse".to_string(), lap())];
        let hold = state.0.settings.hold;
        let inputs = {
            let live = lock(&entry.live);
            live.check_room(hold)?;
            live.bandit.begin_decision()?
        };
        let output = rayon::scope(|_| engine.decide(inputs, &contexts, &mut rng))?;
        seconds.extend(output.seconds.iter().cloned());
        lap();
        let reply = entry.change(&state, |bandit| Ok(bandit.finish_decision(engine, output, &mut rng)?))?;
        lock(&entry.live).note(reply.round, hold);
        seconds.push(("store".into(), lap()));
        let frame = |ct| ckks::write_ciphertext(engine.params(), engine.key_id(), ct);
        let (action, trace) = (frame(&reply.action), reply.trace.as_ref().map(frame));
        let refresh = reply.refresh.as_ref().map(|(id, ct)| (id.0, frame(ct)));
        seconds.push(("write".into(), lap()));
        tracing::info!(bandit = entry.created.id, round = reply.round, ?seconds, "decided");
        let reply = DecideReply {
            decision: reply.id.0,
            round: reply.round,
            model_feedbacks: reply.model_feedbacks,
            seconds,
            action,
            trace,
            refresh,
        };
        Ok(([(CONTENT_TYPE, OCTET_STREAM)], reply.to_bytes()).into_response())
    })
    .await
}
