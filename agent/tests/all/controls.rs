//! Who chooses the arm, and what the bandit learns from it.

use crate::fixture::*;
use serde_json::{Value, json};
use std::path::Path;
use testkit::ClearTwin;

/// The line of a decision in the log, which is written after the answer.
fn line(folder: &Path, decision: &str) -> Value {
    let mut found = None;
    wait_for("the line of a decision", || {
        let text = std::fs::read_to_string(folder.join("log/decisions.jsonl")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        found = lines.into_iter().find(|line| line["decision"] == decision);
        found.is_some()
    });
    found.unwrap()
}

/// In every mode the bandit learns from the rewards of the arms that were played: what it chooses is what the
/// exact twin of the played arms chooses. Settings survive a restart.
#[test]
fn the_bandit_learns_from_the_arms_that_are_played() {
    let folder = folder();
    let server = Server::start(folder.path());
    let mut agent = Running::start(&server.url(), folder.path());
    let (mut app, mut rng, mut twin) = (agent.http(), rng(3), ClearTwin::new(config()));
    let (bandit, mut learnt, mut drawn) = (app.create(), 0, [0; K]);
    let phases = [
        json!({"mode": "shadow", "baseline": 1}),
        json!({"mode": "bandit", "epsilon": 1.0}),
        json!({"epsilon": 0.0, "freeze": true}),
        json!({"freeze": false}),
    ];
    for (phase, settings) in phases.iter().enumerate() {
        app.patch(&bandit, settings).ok::<Value>();
        agent.stop().unwrap();
        agent = Running::start(&server.url(), folder.path());
        app = agent.http();
        for _ in 0..7 {
            let (rows, model) = (random_rows(&mut rng), app.status(&bandit).model_feedbacks);
            let decided = app.decided(&bandit, &rows);
            let (line, arm) = (line(folder.path(), &decided.decision), decided.arm.unwrap());
            let chosen = line["chosen"].as_u64().unwrap() as usize;
            let indices = twin.indices(&rows, decided.round, model);
            let best = indices.iter().copied().fold(f64::MIN, f64::max);
            assert!(best - indices[chosen] < RESOLUTION, "{indices:?}, chosen {chosen}");
            let probability = match phase {
                1 => 0.5,
                _ => 1.0,
            };
            assert_eq!((decided.probability, &line["probability"]), (Some(probability), &json!(probability)));
            assert_eq!((&line["arm"], &line["baseline"]), (&json!(arm), &json!(arm == 1)));
            match phase {
                0 => assert_eq!(arm, 1),
                1 => drawn[arm] += 1,
                _ => assert_eq!(arm, chosen),
            }
            let counted = app.counted(&bandit, &decided.decision, reward(&rows[arm]));
            if phase == 2 {
                assert_eq!(counted.learnt, Some(false));
                assert_eq!(app.counted(&bandit, &decided.decision, reward(&rows[arm])), counted);
            } else {
                twin.learn(&rows[arm], reward(&rows[arm]));
                learnt += 1;
                assert_eq!((counted.learnt, counted.feedbacks), (None, learnt));
            }
            wait_for("the raiser answers what the bandit asks for", || {
                let status = app.status(&bandit);
                !status.updating && !status.refresh_due
            });
        }
    }
    assert!(drawn.iter().all(|drawn| *drawn > 0), "{drawn:?}");
    let status = app.status(&bandit);
    assert_eq!((status.round, status.feedbacks), (28, 21));
    assert!(status.model_feedbacks >= 16, "{status:?}");
    let summary: Value = app.get(&format!("/bandits/{bandit}/summary")).ok();
    assert_eq!(summary["rewards"]["count"], 28);
    let of = |field: &str| summary["baseline"][field]["count"].as_u64().unwrap();
    assert!(of("at_baseline") >= 7 && of("at_baseline") + of("elsewhere") == 28);
}

/// The baseline is played without the server, and nothing learns from it.
#[test]
fn the_baseline_needs_no_server() {
    let folder = folder();
    let server = Server::start(folder.path());
    let agent = Running::start(&server.url(), folder.path());
    let (app, rows) = (agent.http(), random_rows(&mut rng(1)));
    let bandit = app.create();
    for (bad, status) in [
        (json!({"mode": "shadow"}), 422),
        (json!({"mode": "baseline", "baseline": 2}), 422),
        (json!({"epsilon": 1.5}), 422),
        (json!({"mode": "other"}), 400),
        (json!({"baseline": "first"}), 400),
        (json!({"frozen": true}), 400),
    ] {
        assert_eq!(app.patch(&bandit, &bad).problem().0, status, "{bad}");
    }
    app.decided(&bandit, &rows);
    app.patch(&bandit, &json!({"mode": "baseline", "baseline": 0})).ok::<Value>();
    drop(server);
    let decided = app.decided(&bandit, &rows);
    assert_eq!((decided.arm, decided.probability), (Some(0), Some(1.0)));
    let counted = app.counted(&bandit, &decided.decision, 0.5);
    assert_eq!(counted.learnt, Some(false));
    assert_eq!(app.counted(&bandit, &decided.decision, 0.5), counted);
    assert_eq!(app.feedback(&bandit, &decided.decision, 0.25).problem(), (409, "answered".into()));
    let other = app.decided(&bandit, &rows);
    assert_eq!(app.feedback(&bandit, &other.decision, 1.5).problem(), (422, "bad_value".into()));
}

/// A closed arm is null: it is neither played nor drawn, and no mode plays it as the baseline.
#[test]
fn closed_arms_are_not_played() {
    let folder = folder();
    let server = Server::start(folder.path());
    let agent = Running::start(&server.url(), folder.path());
    let (app, mut rng) = (agent.http(), rng(4));
    let bandit = app.create();
    app.patch(&bandit, &json!({"epsilon": 1.0})).ok::<Value>();
    let closed = |arm: usize, rows: &[Vec<f64>]| {
        let rows: Vec<Option<&Vec<f64>>> =
            rows.iter().enumerate().map(|(at, x)| (at != arm).then_some(x)).collect();
        json!({"contexts": rows})
    };
    for round in 0..8 {
        let (arm, rows) = (round % 2, random_rows(&mut rng));
        let decided: wire::Decided = app.decided_by(&bandit, &closed(arm, &rows)).ok();
        assert_eq!(
            (decided.arm, decided.probability, decided.reliable),
            (Some(1 - arm), Some(1.0), Some(true))
        );
        app.counted(&bandit, &decided.decision, 0.5);
    }
    let rows = random_rows(&mut rng);
    for mode in ["shadow", "baseline"] {
        app.patch(&bandit, &json!({"mode": mode, "baseline": 0})).ok::<Value>();
        assert_eq!(app.decided_by(&bandit, &closed(1, &rows)).ok::<wire::Decided>().arm, Some(0));
        assert_eq!(app.decided_by(&bandit, &closed(0, &rows)).problem().0, 422, "{mode}");
    }
    let none = json!({"contexts": [null, null]});
    assert_eq!(app.decided_by(&bandit, &none).problem(), (422, "bad_value".into()));
    let empty = json!({"contexts": [[], rows[1]]});
    assert_eq!(app.decided_by(&bandit, &empty).problem().0, 400);
}
