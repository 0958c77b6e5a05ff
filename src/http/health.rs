//! `GET /v1/health`: answers while the server runs.

use axum::Json;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Health {
    status: &'static str,
}

pub(super) async fn show() -> Json<Health> {
    Json(Health { status: "ok" })
}
