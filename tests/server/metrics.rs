//! What the server measures of itself: the numbers, who may read them, and their form for Prometheus.

use crate::fixture::*;
use crate::users::*;
use helba_server::Settings;
use protocol::Answers;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::AccessToken;

fn read(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

fn metrics(device: &Device) -> Value {
    read(&device.get("/metrics").ok())
}

/// The times of a step.
fn step<'a>(metrics: &'a Value, name: &str) -> &'a Value {
    metrics["steps"].as_array().unwrap().iter().find(|step| step["step"] == name).unwrap()
}

fn clear(device: &Device, request: Value) -> String {
    read(&device.post("/bandits", request.to_string().as_bytes()).ok())["id"].as_str().unwrap().to_string()
}

/// The numbers of bandits of both kinds are those of their states, and each step is counted as often as it
/// was done.
#[test]
fn numbers_are_those_of_the_bandits() {
    let operator = AccessToken::generate(&mut rng(31));
    let server = InProcess::start_operated(&operator);
    let device = || server.device().with_token(Some(&operator));
    let before = metrics(&device());
    assert!(before["steps"].as_array().unwrap().iter().all(|step| step["count"] == 0));
    let user = User::create(device(), Answers::Arm);
    let in_clear = clear(&device(), json!({ "policy": "hybrid-ucb", "arms": 2, "epsilon": 1 }));
    let mut rng = rng(32);
    for _ in 0..3 {
        let rows = random_rows(&mut rng);
        let choice = user.decide(&rows, &mut rng);
        user.feedback(&rows, &choice, &mut rng);
    }
    user.decide(&random_rows(&mut rng), &mut rng);
    let device = device();
    for round in 0..2 {
        let decided = read(&device.post(&format!("/bandits/{in_clear}/decisions"), b"").ok());
        if round == 0 {
            let path =
                format!("/bandits/{in_clear}/decisions/{}/feedback", decided["decision"].as_str().unwrap());
            device.post(&path, br#"{"reward": 1}"#).ok();
        }
    }
    device.patch(&format!("/bandits/{in_clear}"), None, br#"{"name": "a", "tags": ["b"]}"#).ok();
    let seen = metrics(&device);
    let of = |id: &str| {
        let listed = seen["listed"].as_array().unwrap();
        listed.iter().find(|one| one["id"] == *id).unwrap().clone()
    };
    let state = |id: &str| read(&device.get(&format!("/bandits/{id}")).ok());

    let (sealed, status) = (of(user.id()), state(user.id())["status"].clone());
    for (ours, theirs) in [("round", "round"), ("feedbacks", "feedbacks"), ("open", "pending_decisions")] {
        assert_eq!(sealed[ours], status[theirs], "{ours}");
    }
    assert_eq!((&sealed["round"], &sealed["feedbacks"], &sealed["open"]), (&json!(4), &json!(3), &json!(1)));
    let plan = &state(user.id())["created"]["plan"];
    assert_eq!(
        (&sealed["levels"]["scores"], &sealed["levels"]["model"]),
        (&plan["scores_level"], &plan["model_level"])
    );
    assert!(
        sealed["awaited"].as_array().unwrap().contains(&json!("feedback")) && sealed["privacy"].is_null()
    );
    assert_eq!(
        (&sealed["kind"], &sealed["features"], &sealed["arms"]),
        (&json!("encrypted"), &json!(D), &json!(K))
    );

    let (open, view) = (of(&in_clear), state(&in_clear));
    for (ours, theirs) in [("round", "round"), ("feedbacks", "feedbacks"), ("open", "pending_decisions")] {
        assert_eq!(open[ours], view[theirs], "{ours}");
    }
    assert_eq!(open["privacy"], view["created"]["privacy"]);
    assert_eq!((&open["name"], &open["tags"]), (&json!("a"), &json!(["b"])));
    assert_eq!(open["awaited"], json!(["feedback"]));

    for (name, count) in [("scores", 4), ("feedback", 3), ("clear_decision", 2), ("clear_feedback", 1)] {
        assert_eq!(step(&seen, name)["count"], count, "{name}");
    }
    for name in ["pack", "raise", "evaluation", "answers"] {
        let times = step(&seen, name);
        let counted: u64 = times["counts"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
        assert!(
            counted >= 4 && times["count"] == counted && times["seconds"].as_f64().unwrap() > 0.0,
            "{times}"
        );
    }
    let grown = |of: &str| seen["traffic"][of].as_u64().unwrap() - before["traffic"][of].as_u64().unwrap();
    let frame = user.contexts(&mut rng).len() as u64;
    assert!(grown("received_bytes") > 4 * frame && grown("sent_bytes") > 4 * 1000);
    assert_eq!(seen["keys"]["security_bits"], 0);
}

/// Pages have every bandit once.
#[test]
fn metrics_have_pages() {
    let operator = AccessToken::generate(&mut rng(33));
    let server = InProcess::start_operated(&operator);
    let device = server.device().with_token(Some(&operator));
    let mut made: Vec<_> = (0..5).map(|_| clear(&device, json!({ "policy": "ucb1", "arms": 2 }))).collect();
    made.sort();
    let (mut after, mut seen) = (String::new(), Vec::new());
    loop {
        let page = read(&device.get(&format!("/metrics?limit=2&after={after}")).ok());
        assert_eq!(page["bandits"], 5);
        seen.extend(
            page["listed"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_string()),
        );
        let Some(next) = page["next"].as_str() else { break };
        after = next.to_string();
    }
    assert_eq!(seen, made);
    for (query, status) in [("limit=0", 422), ("limit=1001", 422), ("limit=x", 400), ("page=1", 400)] {
        assert_eq!(device.get(&format!("/metrics?{query}")).problem().status, status, "{query}");
    }
}

/// Where tokens are on, the numbers are the operator's: the token that every device has does not open them.
/// Where they are off, whoever has no token sees no encrypted bandit.
#[test]
fn attack_devices_do_not_read_the_numbers_of_others() {
    let operator = AccessToken::generate(&mut rng(34));
    let server = InProcess::start_operated(&operator);
    let participant = server.device();
    let refused = participant.get("/metrics").problem();
    assert_eq!((refused.status, refused.reason.as_deref()), (403, Some("forbidden_scope")));
    assert_eq!(participant.with_token(None).get("/metrics").problem().status, 401);
    let text = |device: &Device| device.above("/metrics").status;
    assert_eq!((text(&participant), text(&participant.with_token(None))), (403, 401));
    assert_eq!(text(&participant.with_token(Some(&operator))), 200);

    let server = InProcess::start(Settings::default());
    let (participant, stranger) = (server.device(), server.device().with_token(None));
    let sealed = participant.create(&encrypted(Answers::Arm)).id;
    let open = clear(&stranger, json!({ "policy": "ucb1", "arms": 2 }));
    let ids = |device: &Device| -> Vec<String> {
        let listed = metrics(device)["listed"].as_array().unwrap().clone();
        listed.iter().map(|one| one["id"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(ids(&stranger), [open]);
    assert_eq!(ids(&participant).len(), 2);
    assert!(!String::from_utf8(stranger.above("/metrics").ok()).unwrap().contains(&sealed));
}

/// Each line for Prometheus is a comment or a value, each name is declared before its values, and the values
/// are those of the JSON.
#[test]
fn the_text_for_prometheus_has_the_same_numbers() {
    let server = InProcess::start(Settings::default());
    let device = server.device().with_token(None);
    let id = clear(&device, json!({ "policy": "hybrid-ucb", "arms": 2, "epsilon": 1 }));
    for _ in 0..3 {
        device.post(&format!("/bandits/{id}/decisions"), b"").ok();
    }
    let answer = device.above("/metrics");
    assert_eq!(answer.content_type, "text/plain; version=0.0.4; charset=utf-8");
    let text = String::from_utf8(answer.ok()).unwrap();
    let (mut declared, mut values) = (Vec::new(), BTreeMap::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            declared.push(rest.split(' ').next().unwrap().to_string());
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let bare = name.split('{').next().unwrap();
            assert!(declared.last().is_some_and(|last| bare.starts_with(last.as_str())), "{line}");
            assert!(values.insert(name.to_string(), value.parse::<f64>().unwrap()).is_none(), "{line}");
        }
    }
    let seen = metrics(&device);
    assert_eq!(values[&format!("helba_bandit_rounds_total{{bandit=\"{id}\",policy=\"hybrid-ucb\"}}")], 3.0);
    assert_eq!(values[&format!("helba_bandit_epsilon{{bandit=\"{id}\",policy=\"hybrid-ucb\"}}")], 1.0);
    assert_eq!(values["helba_bandits"], 1.0);
    let times = step(&seen, "clear_decision");
    assert_eq!(values["helba_step_seconds_count{step=\"clear_decision\"}"], 3.0);
    assert_eq!(values["helba_step_seconds_sum{step=\"clear_decision\"}"], times["seconds"].as_f64().unwrap());
    let mut below = 0.0;
    for (bound, count) in seen["bounds"].as_array().unwrap().iter().zip(times["counts"].as_array().unwrap()) {
        below += count.as_f64().unwrap();
        let bound = bound.as_f64().unwrap();
        assert_eq!(
            values[&format!("helba_step_seconds_bucket{{step=\"clear_decision\",le=\"{bound}\"}}")],
            below
        );
    }
    assert_eq!(values["helba_step_seconds_bucket{step=\"clear_decision\",le=\"+Inf\"}"], 3.0);
}
