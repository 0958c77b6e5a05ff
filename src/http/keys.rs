//! `GET /v1/keys`: the manifest of the public key bundle.

use super::AppState;
use crate::error::Error;
use axum::Json;
use axum::extract::State;
use wire::Manifest;

pub(super) async fn show(State(state): State<AppState>) -> Result<Json<Manifest>, Error> {
    Ok(Json(state.0.bandits.keys()?.manifest.clone()))
}
