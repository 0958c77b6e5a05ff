//! What the holder of its keys does with a bandit beside its rounds: it is frozen, thawed, exported
//! and copied.

use crate::fixture::*;
use crate::users::*;
use helba_server::Settings;
use protocol::{Answers, Erasure, LearnId, Status};
use serde_json::json;
use tempfile::TempDir;
use testkit::ClearTwin;
use user_client::ExportedModel;
use wire::{Created, IDEMPOTENCY_HEADER, ShownModel};

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

fn exported(user: &User) -> ExportedModel {
    user.device.export(&user.client.model(user.id(), user.device.limits()).unwrap()).unwrap()
}

/// The largest distance of A and ω from those of the twin.
fn distance(model: &ExportedModel, twin: &mut ClearTwin) -> f64 {
    twin.indices(&[], 1, model.feedbacks);
    let (a, omega) = twin.model();
    let of_a = (0..D).flat_map(|i| (0..D).map(move |j| (i, j))).map(|(i, j)| model.inverse[i][j] - a[(i, j)]);
    let of_omega = (0..D).map(|i| model.omega[i] - omega[i]);
    of_a.chain(of_omega).fold(0.0, |most: f64, far| most.max(far.abs()))
}

/// The exported model is the one that the bandit decides with: the exact inverse and estimate up to the
/// errors of updates, and before the first one up to those of two encryptions; its index gives the arms that
/// are played, and in the open tier the decrypted indices. A second export is the same. Updates in slots and
/// by products.
#[test]
fn a_model_is_exported() {
    for (keys, answers) in [(keys(), Answers::Arm), (keys(), Answers::Scores), (product_keys(), Answers::Arm)]
    {
        let (state, mut rng) = (TempDir::new().unwrap(), rng(73));
        let server = Program::spawn(&mut command(&keys.public_file(), state.path(), "127.0.0.1:0"));
        let user = User::create_with(Device::new(server.address, keys), &every_round(answers));
        let mut twin = ClearTwin::new(user.device.created().config.clone());
        let first = exported(&user);
        assert_eq!((first.feedbacks, &*first.bandit, first.ridge), (0, user.id(), 1.0));
        let far = distance(&first, &mut twin);
        assert!(far > 0.0 && far < 64.0 / f64::from(protocol::LOG_MODEL).exp2(), "{far}");
        let mut model = first;
        for _ in 0..8 {
            let rows = random_rows(&mut rng);
            let choice = user.decide(&rows, &mut rng);
            assert_eq!(choice.model_feedbacks, model.feedbacks);
            let indices: Vec<f64> = rows.iter().map(|x| model.index(x)).collect();
            let best = indices.iter().copied().fold(f64::MIN, f64::max);
            assert!(best - indices[choice.arm] < 1e-2, "arm {} of {indices:?}", choice.arm);
            if answers == Answers::Scores {
                let far = indices.iter().zip(&choice.values).map(|(a, b)| (a - b).abs());
                assert!(far.clone().all(|far| far < 2e-3), "{indices:?}, {:?}", choice.values);
            }
            user.feedback(&rows, &choice, &mut rng);
            user.settle(&mut rng);
            let x = &rows[choice.arm];
            twin.learn(x, reward(x));
            model = exported(&user);
            assert_eq!(exported(&user), model);
            let far = distance(&model, &mut twin);
            assert!(far < (-9f64).exp2(), "{far}");
        }
        assert_eq!(model.feedbacks, 8);
        let json = serde_json::to_string(&model).unwrap();
        assert_eq!(serde_json::from_str::<ExportedModel>(&json).unwrap(), model);
    }
}

/// A reply that is no model of this bandit is refused: another kind of message, another number of parts, and
/// numbers that no model of so many feedbacks has, as those of a ciphertext of which a bit was changed.
#[test]
fn attack_what_is_no_model_is_not_exported() {
    let server = InProcess::start(Settings::default());
    let user = User::create_with(server.device(), &encrypted(Answers::Arm));
    let mut rng = rng(74);
    let reply = user.client.model(user.id(), user.device.limits()).unwrap();
    let shown = ShownModel::read(&reply, user.device.limits()).unwrap();
    let export = |shown: ShownModel| user.device.export(&shown.to_bytes()).map(drop);
    export(shown.clone()).unwrap();
    for parts in [vec![], vec![shown.parts[0].clone(); 2], vec![vec![1, 2, 3]]] {
        assert!(export(ShownModel { parts, ..shown }).is_err());
    }
    assert!(user.device.export(&user.contexts(&mut rng)).is_err());
    let changed = forged(&shown.parts[0], |frame| {
        let middle = frame.len() / 2;
        frame[middle] ^= 1;
    });
    let refused = export(ShownModel { parts: vec![changed], ..shown }).unwrap_err().to_string();
    assert!(refused.contains("no model of so many feedbacks"), "{refused}");
}

fn copied(user: &User, body: &[u8], key: &str) -> Created {
    let answer = user.http.post_with(&user.path("/copy"), (IDEMPOTENCY_HEADER, key), body);
    assert_eq!(answer.status, 201);
    serde_json::from_slice(&answer.ok()).unwrap()
}

/// A copy begins with what its original has learnt, decides with another width, and learns by itself, while
/// the original goes on. A repeated request makes one copy. What is erased from the original is erased from
/// its copy and from the copy of that, unless it came after they were made. All of it is there after a
/// restart, and the logs give the states.
#[test]
fn a_copy_learns_by_itself_and_forgets_with_its_original() {
    let settings = Settings { keep_log: true, ..Settings::default() };
    let server = InProcess::start(settings.clone());
    let user = User::create_with(server.device(), &every_round(Answers::Arm));
    let (mut rng, history) = (rng(75), History::default());
    let first = user.round(&history, &mut rng);
    (0..2).for_each(|_| drop(user.round(&history, &mut rng)));
    user.settle(&mut rng);
    let waits = random_rows(&mut rng);
    let waiting = user.decide(&waits, &mut rng);
    frozen(&user, true);
    let body = br#"{"name": "second", "linear": {"width": {"tangent": {"alpha": 0.125, "floor": 0.0625}}}}"#;
    let created = copied(&user, body, "one");
    frozen(&user, false);
    assert_eq!(copied(&user, body, "one"), created);
    let other = user.http.post_with(&user.path("/copy"), (IDEMPOTENCY_HEADER, "one"), b"{}");
    refused(other, 422, "key_reused");
    assert_eq!(created.origin.as_deref(), Some(user.id()));
    let copy = User::join(server.device(), &created);
    let status = copy.status();
    assert_eq!((status.round, status.pending_decisions, status.frozen), (0, 0, false));
    assert_eq!((status.feedbacks, status.model_feedbacks), (3, 3));
    let of_copy = copied(&copy, b"{}", "two");

    let x = &waits[waiting.arm];
    let frame = user.device.feedback(waiting.arm, x, reward(x), None, &mut rng).unwrap();
    refused(copy.send(&waiting, &frame), 404, "unknown_decision");
    user.send(&waiting, &frame).ok();
    user.settle(&mut rng);
    let exported = exported(&user);
    (0..2).for_each(|_| drop(copy.round(&History::default(), &mut rng)));
    copy.settle(&mut rng);
    assert_eq!((copy.status().feedbacks, copy.status().model_feedbacks), (5, 5));
    assert_eq!(self::exported(&user), exported);

    let erase = |user: &User, decision: &str| -> Erasure {
        let answer = user.http.delete(&user.path(&format!("/decisions/{decision}/feedback")));
        serde_json::from_slice(&answer.ok()).unwrap()
    };
    let receipt = erase(&user, &first.decision);
    let mut reached = receipt.copies.clone();
    let mut both = vec![created.id.clone(), of_copy.id.clone()];
    reached.sort();
    both.sort();
    assert_eq!(reached, both);
    assert!(erase(&user, &waiting.id.to_string()).copies.is_empty(), "it came after the copies");
    let unknown = copy.http.delete(&copy.path(&format!("/decisions/{}/feedback", first.decision)));
    refused(unknown, 404, "unknown_decision");

    let server = server.restart_with(settings);
    let (user, copy) = (user.at(server.address), copy.at(server.address));
    assert_eq!(erase(&user, &first.decision).copies, receipt.copies);
    copy.round(&History::default(), &mut rng);
    copy.settle(&mut rng);
    for id in [user.id(), copy.id(), &of_copy.id] {
        let whole = replay(server.folder.path(), id, "genesis");
        let last = replay(server.folder.path(), id, "snapshot");
        assert!(whole.head == last.head && whole.bytes == last.bytes, "the log gives the state");
        let erased = last.events.iter().chain(&whole.events);
        assert!(erased.into_iter().any(|event| matches!(event, helba::Event::Erased { .. })), "{id}");
    }
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
    let why = refused(user.http.post(&format!("/bandits/{id}/copy"), b"{}"), 409, "not_encrypted");
    assert!(why.contains("no such bandit is copied"), "{why}");
    for (body, reason) in [
        (&b"[]"[..], "bad_configuration"),
        (br#"{"linear": {"lambda": 2}}"#, "bad_configuration"),
        (br#"{"linear": {"lambdas": 2}}"#, "bad_configuration"),
        (br#"{"counters": {"every": 10}}"#, "bad_configuration"),
    ] {
        refused(user.http.post(&user.path("/copy"), body), 400, reason);
    }
    let why = refused(user.http.get(&format!("/bandits/{id}/model")), 409, "not_encrypted");
    assert!(why.contains("no such bandit is exported"), "{why}");
}
