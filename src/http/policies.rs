//! `GET /v1/policies`: every policy with its parameters and their defaults.

use crate::error::Error;
use crate::jobs;
use crate::policy::cards;
use axum::Json;
use wire::PolicyCard;

pub(super) async fn list() -> Result<Json<Vec<PolicyCard>>, Error> {
    jobs::run(None, || Ok(Json(cards()?))).await
}
