//! Compares every answer that these tests get with the description that the server gives of itself.

use crate::fixture::Answer;
use serde_json::Value;
use std::sync::LazyLock;

static DOCUMENT: LazyLock<Value> = LazyLock::new(helba_server::document);

/// Checks that the description has this answer to a request for `path` below `/v1`: its status, its media
/// type and its message.
#[track_caller]
pub(crate) fn check(method: &str, path: &str, answer: &Answer) {
    if let Err(why) = agrees(method, path, answer) {
        panic!("{method} {path}, {}: {why}: {}", answer.status, String::from_utf8_lossy(&answer.body));
    }
}

fn agrees(method: &str, path: &str, answer: &Answer) -> Result<(), String> {
    let full = format!("/v1{}", path.split('?').next().unwrap());
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let Some((_, operations)) = paths.iter().find(|(template, _)| is_of(template, &full)) else {
        return if answer.status == 404 { Ok(()) } else { Err("the path is not described".into()) };
    };
    let Some(operation) = operations.get(method) else {
        return if answer.status == 405 { Ok(()) } else { Err("the method is not described".into()) };
    };
    if answer.content_type.is_empty() && answer.status == 503 {
        // Beyond the bound of connections: no route was found.
        return Ok(());
    }
    let described = operation["responses"].get(answer.status.to_string());
    let described = described.ok_or("the status is not described")?;
    if answer.content_type.is_empty() {
        return if described["content"].is_null() { Ok(()) } else { Err("a body is missing".into()) };
    }
    let kind = answer.content_type.split(';').next().unwrap();
    let content = described["content"].get(kind).ok_or("the media type is not described")?;
    if kind.ends_with("json") {
        let message = serde_json::from_slice(&answer.body).map_err(|e| e.to_string())?;
        validate(&message, &content["schema"])?;
    }
    Ok(())
}

fn is_of(template: &str, path: &str) -> bool {
    let (template, path) = (template.split('/'), path.split('/'));
    template.clone().count() == path.clone().count()
        && template.zip(path).all(|(part, given)| part.starts_with('{') || part == given)
}

/// Checks `value` against the schema with this name.
pub(crate) fn validate_as(value: &Value, name: &str) -> Result<(), String> {
    validate(value, &DOCUMENT["components"]["schemas"][name])
}

/// Checks `value` against a schema of the keywords that the description uses.
fn validate(value: &Value, schema: &Value) -> Result<(), String> {
    let fail = |why: &str| Err(format!("{value} {why} {schema}"));
    for (keyword, want) in schema.as_object().expect("a schema") {
        let every = || want.as_array().unwrap().iter();
        match keyword.as_str() {
            "description" | "title" | "default" | "examples" | "format" => {}
            "$ref" => {
                let name = want.as_str().unwrap().strip_prefix("#/components/schemas/").unwrap();
                validate_as(value, name)?;
            }
            "type" if every_name(want).iter().any(|kind| is_a(value, kind)) => {}
            "type" => return fail("is of another type than"),
            "const" if value != want => return fail("is not"),
            "enum" if !every().any(|one| one == value) => return fail("is none of"),
            "const" | "enum" => {}
            "allOf" => every().try_for_each(|part| validate(value, part))?,
            "anyOf" | "oneOf" => {
                let fits = every().filter(|part| validate(value, part).is_ok()).count();
                if fits == 0 || (keyword == "oneOf" && fits > 1) {
                    return fail("fits none, or too many, of");
                }
            }
            "items" => value.as_array().into_iter().flatten().try_for_each(|item| validate(item, want))?,
            "properties" => {
                for (name, of) in want.as_object().unwrap() {
                    value.get(name).map_or(Ok(()), |value| validate(value, of))?;
                }
            }
            "required" => {
                if value.is_object() && every().any(|name| value.get(name.as_str().unwrap()).is_none()) {
                    return fail("lacks a property of");
                }
            }
            "additionalProperties" => {
                let known = |name: &String| schema["properties"].get(name).is_some();
                let others = value.as_object().into_iter().flatten().filter(|(name, _)| !known(name));
                for (_, other) in others {
                    if *want == false {
                        return fail("has a property that is none of");
                    }
                    validate(other, want)?;
                }
            }
            "minimum" if value.as_f64().is_some_and(|got| got < want.as_f64().unwrap()) => {
                return fail("is too small for");
            }
            "maximum" if value.as_f64().is_some_and(|got| got > want.as_f64().unwrap()) => {
                return fail("is too large for");
            }
            "minimum" | "maximum" => {}
            "minLength" if value.as_str().is_some_and(|got| (got.len() as u64) < want.as_u64().unwrap()) => {
                return fail("is too short for");
            }
            "minLength" => {}
            "maxLength"
                if value.as_str().is_some_and(|got| got.chars().count() as u64 > want.as_u64().unwrap()) =>
            {
                return fail("is too long for");
            }
            "maxItems" if value.as_array().is_some_and(|got| got.len() as u64 > want.as_u64().unwrap()) => {
                return fail("has too many items for");
            }
            "uniqueItems" => {
                let twice = |got: &Vec<Value>| (1..got.len()).any(|at| got[..at].contains(&got[at]));
                if value.as_array().is_some_and(twice) {
                    return fail("has an item twice, against");
                }
            }
            "maxLength" | "maxItems" => {}
            "pattern" => {
                let length = match want.as_str().unwrap() {
                    "^[0-9a-f]{32}$" => Some(32),
                    "^[0-9a-f]+$" => None,
                    other => panic!("pattern {other}"),
                };
                let hex = |text: &str| text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
                let fits = |text: &str| hex(text) && length.unwrap_or(text.len().max(1)) == text.len();
                if !value.as_str().is_none_or(fits) {
                    return fail("is not of the form of");
                }
            }
            other => panic!("keyword {other}"),
        }
    }
    Ok(())
}

fn every_name(kinds: &Value) -> Vec<&str> {
    kinds
        .as_array()
        .map_or_else(|| vec![kinds], |kinds| kinds.iter().collect())
        .into_iter()
        .filter_map(Value::as_str)
        .collect()
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("type {other}"),
    }
}

/// The checks find an answer that is not described: a status, a media type, a field too many, one too few, a
/// reason of another route.
#[test]
fn answers_that_are_not_described_are_found() {
    let answer = |status, content_type: &str, body: &str| Answer {
        status,
        content_type: content_type.into(),
        body: body.into(),
    };
    let found = |answer| agrees("get", "/health", &answer).is_err();
    assert!(!found(answer(200, "application/json", r#"{"status": "ok"}"#)));
    assert!(found(answer(201, "application/json", r#"{"status": "ok"}"#)));
    assert!(found(answer(200, "text/html", r#"{"status": "ok"}"#)));
    assert!(found(answer(200, "application/json", r#"{"status": "no"}"#)));
    assert!(found(answer(200, "application/json", r#"{"status": "ok", "more": 1}"#)));
    assert!(found(answer(200, "application/json", "{}")));
    assert!(found(answer(200, "", "")));
    let problem = |reason: &str| {
        let body = format!(
            r#"{{"type": "about:blank", "title": "Forbidden", "status": 403, "detail": "x", "reason": "{reason}"}}"#
        );
        answer(403, wire::PROBLEM_JSON, &body)
    };
    assert!(!found(problem("foreign_origin")));
    assert!(found(problem("forbidden_scope")));
}
