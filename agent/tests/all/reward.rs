//! Rewards in the units of a schema's `reward_range`.

use crate::fixture::*;
use serde_json::{Value, json};
use testkit::ClearTwin;
use wire::{Counted, Created, Decided};

/// A schema of two features and arms that learns nothing from examples, with purchases of 0 to 50 euros.
fn schema() -> Value {
    json!({
        "layout": "dsjson", "arms": K, "norm": "clip", "reward_range": [0, 50],
        "candidate": {"a": "none", "b": "none"},
    })
}

fn returned(app: &Http, bandit: &str, decision: &str, body: &Value) -> Answer {
    app.post(&format!("/bandits/{bandit}/decisions/{decision}/feedback"), body)
}

fn refused(answer: Answer, said: &str) {
    assert_eq!(answer.1, wire::PROBLEM_JSON);
    let problem: wire::Problem = serde_json::from_slice(&answer.2).unwrap();
    assert_eq!((problem.status, problem.reason.as_deref()), (422, Some("bad_value")), "{}", problem.detail);
    assert!(problem.detail.contains(said), "{}", problem.detail);
}

/// A value is mapped once. Whoever sends it again, or sends the reward that it became, gets the same answer,
/// also after a restart and after PATCH, and no other number does.
#[test]
fn a_value_is_mapped_once_and_may_be_sent_again() {
    let folder = folder();
    let server = Server::start(folder.path());
    let mut agent = Running::start(&server.url(), folder.path());
    let mut app = agent.http();
    let bandit = app.post("/bandits", &json!({"schema": schema()})).ok::<Created>().id;
    let decided: Decided = app.decided(&bandit, &random_rows(&mut rng(1)));
    let first: Counted = returned(&app, &bandit, &decided.decision, &json!({"reward_value": 12.5})).ok();
    assert_eq!(first.feedbacks, 1);
    for restart in [false, true] {
        if restart {
            agent.stop().unwrap();
            agent = Running::start(&server.url(), folder.path());
            app = agent.http();
        }
        let send = |body: Value| returned(&app, &bandit, &decided.decision, &body);
        app.patch(&bandit, &json!({"schema": schema()})).ok::<Value>();
        let mut other = schema();
        other["reward_range"] = json!([0, 100]);
        refused(app.patch(&bandit, &json!({"schema": other})), "the bandit has learnt with another one");
        assert_eq!(send(json!({"reward_value": 12.5})).ok::<Counted>(), first);
        assert_eq!(send(json!({"reward": 0.25})).ok::<Counted>(), first);
        for twice in [json!({"reward_value": 0.25}), json!({"reward": 0.005}), json!({"reward": 12.5})] {
            assert_eq!(send(twice).problem(), (409, "answered".into()));
        }
    }
    assert_eq!(app.status(&bandit).feedbacks, 1);
    let summary: Value = app.get(&format!("/bandits/{bandit}/summary")).ok();
    assert_eq!((&summary["rewards"]["count"], &summary["rewards"]["mean"]), (&json!(1), &json!(0.25)));
}

/// What cannot be mapped is refused, with what to do, and the decision waits for its reward. A `reward` is
/// never mapped, whether the bandit has a range or gets one later.
#[test]
fn values_that_cannot_be_mapped_are_refused() {
    let (_folder, _server, _agent, app) = started();
    let rows = random_rows(&mut rng(2));
    let bandit = app.create();
    let (early, late) = (app.decided(&bandit, &rows).decision, app.decided(&bandit, &rows).decision);
    let value = json!({"reward_value": 12.5});
    let no_range = "no schema with `reward_range`";
    refused(returned(&app, &bandit, &early, &value), no_range);
    let unknown = || (404, "unknown_bandit".to_string());
    assert_eq!(returned(&app, "none", &early, &value).problem(), unknown());
    let learn = |bandit: &str, rounds: Value| {
        app.post(&format!("/bandits/{bandit}/learn"), &json!({"name": "history", "rounds": rounds}))
    };
    let logged = |rewards: Value| {
        let mut round = json!({"contexts": rows, "arm": 1});
        round.as_object_mut().unwrap().extend(rewards.as_object().unwrap().clone());
        round
    };
    refused(learn(&bandit, json!([logged(value.clone())])), no_range);
    assert_eq!(learn("none", json!([logged(value.clone())])).problem(), unknown());
    let mut without = schema();
    without.as_object_mut().unwrap().remove("reward_range");
    let other = app.post("/bandits", &json!({"schema": without})).ok::<Created>().id;
    let decision = app.decided(&other, &rows).decision;
    refused(returned(&app, &other, &decision, &value), no_range);

    let before: Counted = returned(&app, &bandit, &early, &json!({"reward": 0.5})).ok();
    app.patch(&bandit, &json!({"schema": schema()})).ok::<Value>();
    assert_eq!(returned(&app, &bandit, &early, &json!({"reward": 0.5})).ok::<Counted>(), before);
    for (rewards, said) in [
        (json!({"reward_value": 50.5}), "reward_range = [0, 50]"),
        (json!({"reward_value": -0.5}), "reward_range = [0, 50]"),
        (json!({"reward_value": 1e308}), "reward_range = [0, 50]"),
        (json!({"reward": 0.25, "reward_value": 12.5}), "not both"),
        (json!({}), "reward: missing"),
        (json!({"reward": 12.5}), "`reward_value` of the agent"),
    ] {
        refused(returned(&app, &bandit, &late, &rewards), said);
        let rounds = json!([logged(value.clone()), logged(rewards)]);
        refused(learn(&bandit, rounds.clone()), said);
        refused(learn(&bandit, rounds), "logged round 2: ");
    }
    for text in [json!({"reward_value": "12.5"}), json!({"reward_value": []})] {
        assert_eq!(returned(&app, &bandit, &late, &text).problem(), (400, "malformed".into()));
    }
    assert_eq!(app.status(&bandit).feedbacks, 1, "nothing of this was learnt");
    assert_eq!(returned(&app, &bandit, &late, &value).ok::<Counted>().feedbacks, 2);
}

/// Logged and live rewards in euros teach what their rewards from 0 to 1 teach the twin.
#[test]
fn rewards_in_euros_are_learnt_as_the_twin_learns_theirs() {
    let (_folder, _server, _agent, app) = started();
    let created: Created = app.post("/bandits", &json!({"schema": schema()})).ok();
    let (bandit, mut twin, mut rng) = (&created.id, ClearTwin::new(created.config.clone()), rng(3));
    let share = |row: &[f64]| (1.0 + reward(row)) / 2.0;
    let mut rounds = Vec::new();
    for at in 0..60 {
        let (rows, arm) = (random_rows(&mut rng), at % K);
        let reward = share(&rows[arm]);
        twin.learn(&rows[arm], reward);
        rounds.push(match at % 3 {
            0 => json!({"contexts": rows, "arm": arm, "reward": reward}),
            _ => json!({"contexts": rows, "arm": arm, "reward_value": 50.0 * reward}),
        });
    }
    let history = json!({"name": "history", "rounds": rounds});
    let learnt: Value = app.post(&format!("/bandits/{bandit}/learn"), &history).ok();
    assert_eq!(learnt["model_feedbacks"], 60);
    for round in 61..=72 {
        let rows = random_rows(&mut rng);
        let learnt = app.status(bandit).model_feedbacks;
        let decided = app.decided(bandit, &rows);
        let indices = twin.indices(&rows, round, learnt);
        let (arm, best) = (decided.arm.unwrap(), indices.iter().copied().fold(f64::MIN, f64::max));
        assert!(best - indices[arm] < RESOLUTION, "round {round}: {indices:?}, arm {arm}");
        let value = json!({"reward_value": 50.0 * share(&rows[arm])});
        returned(&app, bandit, &decided.decision, &value).ok::<Counted>();
        twin.learn(&rows[arm], share(&rows[arm]));
        wait_for("the raiser answers what the bandit asks for", || {
            let status = app.status(bandit);
            !status.updating && !status.refresh_due
        });
    }
    assert!(app.status(bandit).model_feedbacks > 60);
}
