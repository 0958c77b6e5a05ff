//! `GET /v1/keys`: the manifest of the public key bundle, and what devices of the keys before get.

use super::{AppState, Reply};
use crate::error::Error;
use axum::Json;
use axum::extract::State;
use wire::Manifest;

pub(super) async fn show(State(state): State<AppState>) -> Result<Json<Manifest>, Error> {
    Ok(Json(state.0.bandits.keys()?.manifest.clone()))
}

pub(super) async fn successor(State(state): State<AppState>) -> Result<Reply, Error> {
    let succession = state.0.succession.as_ref().ok_or(Error::NoSuccession)?;
    Ok(Reply::Binary(succession.bytes.clone()))
}
