//! What the holder of its keys does with a bandit beside its rounds: it is frozen and thawed.

use crate::fixture::*;
use crate::users::*;
use helba_server::Settings;
use protocol::{Answers, LearnId, Status};
use serde_json::json;

fn frozen(user: &User, frozen: bool) -> Status {
    let body = json!({ "frozen": frozen }).to_string();
    serde_json::from_slice(&user.http.put(&user.path("/frozen"), body.as_bytes()).ok()).unwrap()
}

#[track_caller]
fn refused(answer: Answer, status: u16, reason: &str) -> String {
    let problem = answer.problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (status, Some(reason)), "{}", problem.detail);
    problem.detail
}

/// A bandit that is frozen in the middle of an update decides with the model that it has, asks for nothing,
/// takes no answer to a task, no feedback and no logged rounds, and stays so when the server starts again.
/// Thawed, it counts the feedback that was refused, and its update goes on.
#[test]
fn a_frozen_bandit_decides_and_learns_nothing() {
    let settings = Settings { keep_log: true, ..Settings::default() };
    let server = InProcess::start(settings.clone());
    let user = User::create_with(server.device(), &every_round(Answers::Arm));
    let (mut rng, history) = (rng(71), History::default());
    user.round(&history, &mut rng);
    user.settle(&mut rng);
    // Its sum waits for a raise, and another decision for its feedback.
    let rows = random_rows(&mut rng);
    let before = user.decide(&rows, &mut rng);
    let waits = random_rows(&mut rng);
    let waiting = user.decide(&waits, &mut rng);
    user.feedback(&rows, &before, &mut rng);
    let task = user.client.raises(user.id(), user.device.limits(), 5).unwrap().expect("a sum to raise");
    let raised = user.device.raise(&user.device.read(&task).unwrap().tasks, None, &mut rng).unwrap();
    assert!(user.status().updating);

    let status = frozen(&user, true);
    assert!(status.frozen && !status.updating && !status.refresh_due);
    assert_eq!((status.feedbacks, status.model_feedbacks), (2, 1));
    refused(user.http.post(&user.path("/raises"), &raised), 409, "task_over");
    assert!(user.client.raises(user.id(), user.device.limits(), 0).unwrap().is_none());
    let x = &waits[waiting.arm];
    let frame = user.device.feedback(waiting.arm, x, reward(x), None, &mut rng).unwrap();
    let why = refused(user.send(&waiting, &frame), 409, "frozen");
    assert!(why.contains("send their feedback again when it is thawed"), "{why}");
    let logged = user.device.logged(LearnId([1; 16]), &[(0, &rows[0][..], 0.5)], &mut rng).unwrap();
    refused(user.http.post(&user.path("/learn"), &logged), 409, "frozen");
    // A receipt of before is given again.
    let x = &rows[before.arm];
    let again = user.device.feedback(before.arm, x, reward(x), None, &mut rng).unwrap();
    user.send(&before, &again).ok();
    let log = |server: &InProcess| replay(server.folder.path(), user.id(), "snapshot");
    let (head, bytes) = {
        let log = log(&server);
        (log.head, log.bytes)
    };
    assert_eq!(frozen(&user, true), user.status());
    assert!(log(&server).head == head && log(&server).bytes == bytes, "what is frozen stays frozen");

    let server = server.restart_with(settings);
    let user = user.at(server.address);
    let later = random_rows(&mut rng);
    let choice = user.decide(&later, &mut rng);
    assert_eq!((choice.model_feedbacks, user.status().feedbacks), (1, 2));
    assert!(user.status().frozen);
    let metrics = user.http.get("/metrics").ok();
    let metrics: serde_json::Value = serde_json::from_slice(&metrics).unwrap();
    assert!(metrics["listed"][0]["awaited"].as_array().unwrap().contains(&json!("thaw")), "{metrics}");

    assert!(!frozen(&user, false).frozen);
    user.send(&waiting, &frame).ok();
    user.feedback(&later, &choice, &mut rng);
    let status = user.settle(&mut rng);
    assert_eq!((status.feedbacks, status.model_feedbacks), (4, 4));
    let whole = replay(server.folder.path(), user.id(), "genesis");
    let last = replay(server.folder.path(), user.id(), "snapshot");
    assert!(whole.head == last.head && whole.bytes == last.bytes, "the log gives the state");
}

/// An erasure of a frozen bandit is taken, and the first model after the thaw has nothing of the feedback.
#[test]
fn a_frozen_bandit_forgets_when_it_is_thawed() {
    let server = InProcess::start(Settings { keep_log: true, ..Settings::default() });
    let user = User::create_with(server.device(), &every_round(Answers::Scores));
    let mut rng = rng(72);
    let rows = random_rows(&mut rng);
    let choice = user.device.decide(&user.client, &rows, &mut rng).unwrap().choice;
    user.feedback(&rows, &choice, &mut rng);
    user.settle(&mut rng);
    frozen(&user, true);
    user.http.delete(&user.path(&format!("/decisions/{}/feedback", choice.id))).ok();
    assert_eq!(user.status().model_feedbacks, 1);
    frozen(&user, false);
    let rows = random_rows(&mut rng);
    let choice = user.device.decide(&user.client, &rows, &mut rng).unwrap().choice;
    user.feedback(&rows, &choice, &mut rng);
    user.settle(&mut rng);
    let replayed = replay(server.folder.path(), user.id(), "genesis");
    assert!(replayed.events.iter().any(|event| matches!(event, helba::Event::Erased { .. })));
}

/// Bandits of other kinds and bad messages are refused by name, and change nothing.
#[test]
fn what_is_not_frozen_is_refused_by_name() {
    let server = InProcess::start(Settings::default());
    let user = User::create_with(server.device(), &encrypted(Answers::Arm));
    for bad in ["", "{}", "[true]", "true", r#"{"frozen": 1}"#, r#"{"frozen": true, "more": 1}"#] {
        refused(user.http.put(&user.path("/frozen"), bad.as_bytes()), 400, "malformed");
    }
    assert!(!user.status().frozen);
    refused(user.http.put("/bandits/none/frozen", br#"{"frozen": true}"#), 404, "unknown_bandit");
    let made = user.http.post("/bandits", br#"{"policy": "ucb1", "arms": 2}"#).ok();
    let id = serde_json::from_slice::<serde_json::Value>(&made).unwrap()["id"].as_str().unwrap().to_string();
    let clear = user.http.put(&format!("/bandits/{id}/frozen"), br#"{"frozen": true}"#);
    let why = refused(clear, 409, "not_encrypted");
    assert!(why.contains("one with a policy in the clear, and no such bandit is frozen"), "{why}");
}
