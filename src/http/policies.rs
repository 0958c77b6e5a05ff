//! `GET /v1/policies`: every policy with its parameters and their defaults.

use crate::error::Error;
use crate::jobs;
use crate::policy::offers;
use axum::Json;
use wire::Offer;

pub(super) async fn list() -> Result<Json<Vec<Offer>>, Error> {
    jobs::run(None, || Ok(Json(offers()?))).await
}
