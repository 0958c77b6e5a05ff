//! Features by name.

use crate::fixture::*;
use schema::{NamedRound, Transform};
use serde_json::{Value, json};
use testkit::ClearTwin;

const SCHEMA: &str = "layout = \"dsjson\"\n[candidate]\nprice = \"min-max\"\nquality = \"max\"\n";

fn examples() -> Value {
    json!([
        {"candidates": [{"price": 2, "quality": 1}, {"price": 10, "quality": -4}]},
        {"candidates": [{"price": 6, "quality": 3}, {"price": 7, "quality": 0}]},
    ])
}

/// The same transformation, without the agent.
fn transform() -> Transform {
    let schema = json!({"layout": "dsjson", "candidate": {"price": "min-max", "quality": "max"}});
    let rounds: Vec<NamedRound> = serde_json::from_value(examples()).unwrap();
    Transform::learn(&serde_json::from_value(schema).unwrap(), &rounds).unwrap()
}

/// A round of two candidates, which differs from round to round.
fn candidates(round: u64) -> Value {
    let number = |at: u64| ((round * 7 + at * 5) % 9) as f64;
    json!([{"price": 2.0 + number(0), "quality": number(1) - 4.0}, {"price": 2.0 + number(2), "quality": number(3) - 4.0}])
}

/// A bandit with a schema decides on named values as one that gets the features that they make, also after a
/// restart, and takes rows of features beside them.
#[test]
fn named_values_are_decided_as_their_features() {
    let folder = folder();
    let server = Server::start(folder.path());
    let mut agent = Running::start(&server.url(), folder.path());
    let mut app = agent.http();
    let created: Value = app
        .post("/bandits", &json!({"schema": SCHEMA, "examples": examples(), "name": "shop", "tags": ["a"]}))
        .ok();
    assert_eq!((&created["name"], &created["tags"]), (&json!("shop"), &json!(["a"])));
    assert_eq!(app.get("/bandits").ok::<Vec<Value>>()[0]["name"], "shop", "the server has it");
    assert_eq!(
        (&created["config"]["linear"]["d"], &created["config"]["linear"]["k"]),
        (&json!(2), &json!(2))
    );
    let bandit = created["id"].as_str().unwrap().to_string();
    let view: Value = app.get(&format!("/bandits/{bandit}")).ok();
    assert_eq!(view["agent"]["features"], json!(["price", "quality"]));
    let (transform, mut twin) = (transform(), ClearTwin::new(config()));
    assert_eq!(view["agent"]["transform"], serde_json::to_value(&transform).unwrap());
    for round in 1..=12 {
        let named = candidates(round);
        let rows =
            transform.features_of(&serde_json::from_value(json!({"candidates": named})).unwrap()).unwrap();
        let learnt = app.status(&bandit).model_feedbacks;
        let decisions = format!("/bandits/{bandit}/decisions");
        let decided: wire::Decided = match round % 3 {
            0 => app.decided(&bandit, &rows),
            _ => app.post(&decisions, &json!({"candidates": named})).ok(),
        };
        let arm = decided.arm.unwrap();
        let indices = twin.indices(&rows, round, learnt);
        let best = indices.iter().copied().fold(f64::MIN, f64::max);
        assert!(best - indices[arm] < RESOLUTION, "round {round}: {indices:?}, arm {arm}");
        app.counted(&bandit, &decided.decision, reward(&rows[arm]));
        twin.learn(&rows[arm], reward(&rows[arm]));
        wait_for("the raiser answers what the bandit asks for", || {
            let status = app.status(&bandit);
            !status.updating && !status.refresh_due
        });
        if round == 6 {
            agent.stop().unwrap();
            agent = Running::start(&server.url(), folder.path());
            app = agent.http();
        }
    }
    assert!(app.status(&bandit).model_feedbacks > 0);
}

/// What is wrong with a value or a schema is said with its name.
#[test]
fn bad_names_are_refused_by_name() {
    let (_folder, _server, _agent, app) = started();
    let refused = |path: &str, body: &Value, status: u16, said: &str| {
        let answer = app.post(path, body);
        let detail = serde_json::from_slice::<wire::Problem>(&answer.2).unwrap().detail;
        assert!(answer.0 == status && detail.contains(said), "{}: {detail}", answer.0);
    };
    for (schema, examples, status, said) in [
        (json!("layout = \"dsjson\"\nprize = 1\n"), examples(), 400, "line 2: unknown field `prize`"),
        (json!({"layout": "dsjson"}), examples(), 400, "[candidate]"),
        (json!(SCHEMA), json!([]), 400, "price: \"min-max\" learns from data"),
        (json!(SCHEMA), json!([{"candidates": [{"price": 1}]}]), 422, "examples[0].candidates[0].quality"),
        (json!(SCHEMA), json!([{"candidates": [{"price": [], "quality": 1}]}]), 400, "price"),
    ] {
        refused("/bandits", &json!({"schema": schema, "examples": examples}), status, said);
    }
    let both = json!({"schema": SCHEMA, "examples": examples(), "features": 3});
    refused("/bandits", &both, 400, "features: 3, and the schema has 2");
    let named = |name: Value| json!({"schema": SCHEMA, "examples": examples(), "name": name});
    refused("/bandits", &named(json!(3)), 400, "invalid type");
    refused("/bandits", &named(json!("n".repeat(101))), 422, "1 to 100 characters");
    assert_eq!(app.get("/bandits").ok::<Vec<Value>>(), Vec::<Value>::new());

    let bandit = app.create();
    let decisions = format!("/bandits/{bandit}/decisions");
    let named = json!({"candidates": candidates(1)});
    refused(&decisions, &named, 422, "the bandit has no schema");
    let patch = |body: &Value| app.patch(&bandit, body);
    let transform = json!({"transform": transform()});
    assert_eq!(
        patch(
            &json!({"schema": "layout = \"dsjson\"\narms = 3\nnorm = \"clip\"\n[candidate]\na = \"none\"\n"})
        )
        .problem()
        .0,
        400
    );
    assert_eq!(patch(&json!({"colour": 1})).problem(), (400, "malformed".into()));
    patch(&transform).ok::<Value>();
    patch(&transform).ok::<Value>();
    let other = json!({"schema": {"layout": "dsjson", "arms": 2, "norm": "clip", "candidate": {"a": "none", "b": "none"}}});
    assert_eq!(patch(&other).problem(), (422, "bad_value".into()));
    for (candidates, said) in [
        (
            json!([{"price": 1, "quality": 1}, {"price": 1, "quality": 1, "colour": "red"}]),
            "candidates[1].colour",
        ),
        (json!([{"price": 1, "quality": 1}, {"price": 1}]), "candidates[1].quality"),
        (json!([{"price": "high", "quality": 1}, {"price": 1, "quality": 1}]), "candidates[0].price"),
        (json!([{"price": 1, "quality": 1}]), "1 candidates, the schema has 2"),
    ] {
        refused(&decisions, &json!({"candidates": candidates}), 422, said);
    }
    let mixed = json!({"candidates": candidates(1), "contexts": [[0, 0], [0, 0]]});
    refused(&decisions, &mixed, 422, "not both");
    app.post(&decisions, &named).ok::<wire::Decided>();
    assert_eq!(app.status(&bandit).round, 1);
}

/// Logged rounds with named values are learnt in bulk, once by their name, and the arms are the twin's
/// afterwards. What is wrong with one of them is said with its number, and nothing is learnt.
#[test]
fn logged_rounds_are_learnt_by_name() {
    let (_folder, _server, _agent, app) = started();
    let created: Value = app.post("/bandits", &json!({"schema": SCHEMA, "examples": examples()})).ok();
    let bandit = created["id"].as_str().unwrap();
    let (transform, path) = (transform(), format!("/bandits/{bandit}/learn"));
    let features = |named: &Value| {
        transform.features_of(&serde_json::from_value(json!({"candidates": named})).unwrap()).unwrap()
    };
    let config = serde_json::from_value(created["config"].clone()).unwrap();
    let (mut twin, mut rounds) = (ClearTwin::new(config), Vec::new());
    for t in 0..60 {
        let (named, arm) = (candidates(t), (t % 2) as usize);
        let row = features(&named).remove(arm);
        twin.learn(&row, reward(&row));
        rounds.push(json!({"candidates": named, "arm": arm, "reward": reward(&row)}));
    }
    for (wrong, round, status) in [
        (json!({"candidates": candidates(1), "arm": 2, "reward": 0.5}), 61, 422),
        (json!({"candidates": candidates(1), "arm": 0, "reward": 1.5}), 61, 422),
        (json!({"arm": 0, "reward": 0.5}), 61, 422),
        (json!({"candidates": candidates(1), "reward": 0.5}), 0, 400),
    ] {
        let all = [&rounds[..], &[wrong]].concat();
        let answer = app.post(&path, &json!({"name": "bad", "rounds": all}));
        let said = answer.2.clone();
        assert_eq!(answer.problem().0, status, "{said:?}");
        assert!(round == 0 || String::from_utf8_lossy(&said).contains(&format!("logged round {round}:")));
    }
    assert_eq!(app.status(bandit).feedbacks, 0);
    let learn = json!({"name": "history", "rounds": rounds});
    let learnt: Value = app.post(&path, &learn).ok();
    assert_eq!(learnt, json!({"name": "history", "rounds": 60, "model_feedbacks": 60, "erasable": false}));
    assert_eq!(app.post(&path, &learn).ok::<Value>(), learnt);
    let status = app.status(bandit);
    assert_eq!((status.round, status.feedbacks, status.pending_decisions), (60, 60, 0));
    for round in 61..=66 {
        let named = candidates(round * 5);
        let decided: wire::Decided =
            app.post(&format!("/bandits/{bandit}/decisions"), &json!({"candidates": named})).ok();
        let indices = twin.indices(&features(&named), round, 60);
        let best = indices.iter().copied().fold(f64::MIN, f64::max);
        assert!(best - indices[decided.arm.unwrap()] < RESOLUTION, "round {round}: {indices:?}");
    }
}
