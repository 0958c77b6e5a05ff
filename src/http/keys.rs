//! `GET /v1/keys`: the manifest of the public key bundle.

use super::AppState;
use crate::bandits::Reply;
use crate::error::Error;
use axum::extract::State;

pub(super) async fn show(State(state): State<AppState>) -> Result<Reply, Error> {
    match state.0.bandits.paper_manifest() {
        Ok(manifest) => Reply::json(manifest),
        Err(_) => Reply::json(&state.0.bandits.keys()?.manifest),
    }
}
