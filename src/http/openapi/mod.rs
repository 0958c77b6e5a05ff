//! `GET /v1/openapi.json`: the description of the interface as an OpenAPI 3.1 document.
//!
//! Paths, methods and scopes are those of [`Route`], by which requests are routed. `operations` adds to each
//! route its messages and every status that it answers, with the problem types of [`ProblemType`]; a route
//! without an operation does not compile. `schemas` has the messages. The tests of the server compare each
//! answer that they get with this document.

mod metrics;
mod operations;
mod schemas;

use super::{etag, unless_same};
use crate::access::{Needs, Route};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use operations::{Operation, operation};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use wire::{PROBLEM_JSON, ProblemType};

/// The document and its `ETag`, made once.
static WRITTEN: LazyLock<(String, String)> = LazyLock::new(|| {
    let text = document().to_string();
    let etag = etag(text.as_bytes());
    (text, etag)
});

pub(super) async fn show(headers: HeaderMap) -> Response {
    let (text, etag) = &*WRITTEN;
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    unless_same(&headers, etag, || (json, text.as_str()).into_response())
}

/// The OpenAPI document of the server.
pub fn document() -> Value {
    let mut paths = Map::new();
    paths.insert("/".into(), json!({ "get": described(operations::root(), None) }));
    paths.insert("/dashboard".into(), json!({ "get": described(operations::dashboard(), None) }));
    paths.insert(
        "/metrics".into(),
        json!({ "get": described(operations::prometheus(), Some(Route::Metrics)) }),
    );
    for route in Route::ALL {
        let path = paths.entry(format!("/v1{}", route.path())).or_insert_with(|| json!({}));
        path[route.method().as_str().to_ascii_lowercase()] = described(operation(route), Some(route));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "The encrypted bandit",
            "version": env!("CARGO_PKG_VERSION"),
            "description": operations::ABOUT,
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": operations::tags(),
        "paths": paths,
        "components": {
            "schemas": schemas::all(),
            "securitySchemes": { "token": {
                "type": "http", "scheme": "bearer", "bearerFormat": "64 hexadecimal digits",
                "description": "The token of the secret bundle, for encrypted bandits; the operator's token; or an API token \
                                with scopes. See docs/deployment.md.",
            } },
        },
    })
}

/// An operation object. `None` is the root, which the table of routes does not have.
fn described(operation: Operation, route: Option<Route>) -> Value {
    let Operation { id, tag, summary, about, parameters, body, mut answers, mut problems } = operation;
    let needs = route.map_or(Needs::Nothing, Route::needs);
    let of_heads = [ProblemType::BadHead, ProblemType::WrongHost, ProblemType::ForeignOrigin];
    // Answers above 128 KiB need memory, in whatever route.
    let of_all = [ProblemType::Internal, ProblemType::Overloaded];
    problems.extend(of_heads.into_iter().chain(of_all));
    if needs != Needs::Nothing {
        problems.extend([ProblemType::Unauthorized, ProblemType::ForbiddenScope]);
    }
    if body.is_some() {
        problems.extend([ProblemType::BodyLost, ProblemType::TooLarge, ProblemType::MediaType]);
    }
    let mut by_status = BTreeMap::<u16, Vec<ProblemType>>::new();
    for problem in problems {
        let of_status = by_status.entry(problem.status()).or_default();
        if !of_status.contains(&problem) {
            of_status.push(problem);
        }
    }
    answers.extend(by_status.into_iter().map(|(status, types)| (status, answer(status, &types))));
    for (_, answer) in &mut answers {
        answer["headers"]["request-id"] = json!({
            "description": "Names the request in the log.", "required": true,
            "schema": { "type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$" },
        });
    }
    let responses: Map<String, Value> =
        answers.into_iter().map(|(status, answer)| (status.to_string(), answer)).collect();
    let about = match needs {
        Needs::Nothing => format!("{about}\n\nNeeds no token."),
        _ => format!("{about}\n\nWhere tokens are on, it needs {needs}."),
    };
    let mut out = json!({
        "operationId": id, "tags": [tag], "summary": summary, "description": about.trim(),
        "parameters": parameters, "responses": responses, "security": security(needs),
    });
    if let Some(body) = body {
        out["requestBody"] = body;
    }
    out
}

/// The answer with a status, to each of these problems.
fn answer(status: u16, types: &[ProblemType]) -> Value {
    let said: Vec<String> = types.iter().map(|t| format!("`{}`: {}", t.reason(), t.sentence())).collect();
    let reasons: Vec<&str> = types.iter().map(|t| t.reason()).collect();
    let mut headers = json!({});
    if status == 401 || status == 403 && types.contains(&ProblemType::ForbiddenScope) {
        // A page of another origin gets 403 too, without a challenge.
        headers["www-authenticate"] = json!({
            "description": "The scheme, and what the token lacks (RFC 6750).",
            "required": status == 401, "schema": { "type": "string", "pattern": "^Bearer" },
        });
    }
    if status == 503 || status == 429 {
        headers["retry-after"] = json!({
            "description": "Seconds to wait.", "required": true, "schema": { "type": "integer", "minimum": 0 },
        });
    }
    json!({
        "description": said.join("\n\n"),
        "headers": headers,
        "content": { PROBLEM_JSON: { "schema": {
            "allOf": [{ "$ref": "#/components/schemas/Problem" }],
            "properties": { "status": { "const": status }, "reason": { "enum": reasons } },
            "required": ["reason"],
        } } },
    })
}

/// The empty requirement stands for servers on which tokens are off.
fn security(needs: Needs) -> Value {
    match needs {
        Needs::Nothing => json!([]),
        Needs::Reading | Needs::Token => json!([{ "token": [] }, {}]),
        Needs::Scope(scope) => json!([{ "token": [scope.name()] }, {}]),
        Needs::RaiseOrTicket => json!([{ "token": ["raise"] }, { "token": ["decide"] }, {}]),
    }
}
