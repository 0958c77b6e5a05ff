//! What the owner does with a bandit beside its rounds.

use crate::fixture::*;
use serde_json::{Value, json};

/// A bandit that is frozen at the server decides for all agents, and refuses rewards until it is thawed.
/// `freeze` of the settings is about one agent, whose rewards it keeps from the model.
#[test]
fn a_bandit_is_frozen_for_all_agents() {
    let folder = folder();
    let server = Server::start(folder.path());
    let agent = Running::start(&server.url(), folder.path());
    let (app, mut rng) = (agent.http(), rng(5));
    let bandit = app.create();
    let path = format!("/bandits/{bandit}/frozen");
    let status: Value = app.put(&path, &json!({"frozen": true})).ok();
    assert_eq!((&status["frozen"], &status["feedbacks"]), (&json!(true), &json!(0)));
    let rows = random_rows(&mut rng);
    let decided = app.decided(&bandit, &rows);
    let earned = reward(&rows[decided.arm.unwrap()]);
    let refused = app.feedback(&bandit, &decided.decision, earned);
    assert_eq!(refused.problem(), (409, "frozen".into()));
    assert_eq!(app.put(&path, &json!({"frozen": "yes"})).problem(), (400, "malformed".into()));
    let model: Value = app.get(&format!("/bandits/{bandit}/model")).ok();
    assert_eq!((&model["bandit"], &model["feedbacks"]), (&json!(bandit), &json!(0)));
    let status: Value = app.put(&path, &json!({"frozen": false})).ok();
    assert_eq!(status["frozen"], false);
    assert_eq!(app.counted(&bandit, &decided.decision, earned).feedbacks, 1);
    let copy: Value = app.post(&format!("/bandits/{bandit}/copy"), &json!({"name": "second"})).ok();
    assert_eq!((&copy["origin"], &copy["name"]), (&json!(bandit), &json!("second")));
    let of_copy: Value = app.get(&format!("/bandits/{}", copy["id"].as_str().unwrap())).ok();
    assert_eq!(of_copy["status"]["feedbacks"], 1);
}
