//! Keys and bandits: what a user asks before the first round.

use crate::store::{Saved, lock};
use crate::{AppState, Entry, Error, blocking, body, refuse, rng};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use helba::{Bandit, BanditConfig};
use rand::Rng;
use serde::Serialize;
use std::sync::{Arc, PoisonError};
use wire::{BanditView, Created, Manifest};

/// A configuration is a dozen numbers.
const CONFIG_BYTES: usize = 16 << 10;

#[derive(Serialize)]
pub(crate) struct Health {
    status: &'static str,
}

pub(crate) async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

pub(crate) async fn keys(State(state): State<AppState>) -> Json<Manifest> {
    Json(state.0.manifest.clone())
}

pub(crate) async fn list(State(state): State<AppState>) -> Json<Vec<Created>> {
    Json(state.all().iter().map(|entry| entry.created.clone()).collect())
}

pub(crate) async fn show(
    State(state): State<AppState>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<BanditView>, Error> {
    let entry = state.entry(&id?.0)?;
    // A commit may hold the lock for as long as the disk takes.
    blocking(move || {
        let status = lock(&entry.live).bandit.status();
        Ok(Json(BanditView { created: entry.created.clone(), status }))
    })
    .await
}

pub(crate) async fn create(State(state): State<AppState>, request: Request) -> Result<Response, Error> {
    let place = match state.admit() {
        Ok(place) => place,
        Err(error) => return Err(refuse(request, error).await),
    };
    let body = body(request, CONFIG_BYTES).await?;
    let config: BanditConfig =
        serde_json::from_slice(&body).map_err(|e| Error::BadConfig { why: e.to_string() })?;
    blocking(move || {
        let _place = place;
        let _alone = lock(&state.0.creating);
        let limit = state.0.settings.max_bandits;
        if state.bandits() >= limit {
            return Err(Error::TooManyBandits { limit });
        }
        let bandit = Bandit::create(&state.0.engine, config)?;
        let mut id = [0; 16];
        rng()?.fill_bytes(&mut id);
        let id: String = id.iter().map(|b| format!("{b:02x}")).collect();
        let mut saved = Saved::default();
        state.0.store.commit(&id, &bandit, &mut saved)?;
        let entry = Entry::new(&state.0.engine, id.clone(), bandit, saved)?;
        tracing::info!(bandit = id, "created");
        let location = [(header::LOCATION, format!("/v1/bandits/{id}"))];
        let answer = (StatusCode::CREATED, location, Json(entry.created.clone())).into_response();
        state.0.bandits.write().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::new(entry));
        Ok(answer)
    })
    .await
}
