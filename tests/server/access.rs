//! Requests without a token, or with the token of other keys, change nothing.

use crate::fixture::*;
use crate::users::*;
use helba_server::Settings;
use protocol::Answers;
use wire::{AccessToken, PolicyCreated, Problem};

fn ids(device: &Device) -> Vec<String> {
    let listed: Vec<serde_json::Value> = serde_json::from_slice(&device.get("/bandits").ok()).unwrap();
    listed.iter().map(|bandit| bandit["id"].as_str().unwrap().to_string()).collect()
}

#[track_caller]
fn unauthorized(answer: Answer) {
    let Problem { status, reason, .. } = answer.problem();
    assert_eq!((status, reason.as_deref()), (401, Some("unauthorized")));
}

/// A stranger who knows names, ids and well-formed messages, but no token: it can neither make a bandit, nor
/// spoil one, nor take its tasks, nor delete it, nor find its id. With the token every one of these requests
/// succeeds.
#[test]
fn attack_strangers_change_no_encrypted_bandit() {
    let server = InProcess::start(Settings::default());
    let (user, mut rng) = (User::create(server.device(), Answers::Arm), rng(7));
    let device = &user.http;
    user.round(&History::default(), &mut rng);
    user.settle(&mut rng);
    let rows = random_rows(&mut rng);
    let choice = user.decide(&rows, &mut rng);
    let frame = user.device.feedback(choice.arm, &rows[choice.arm], 0.5, None, &mut rng).unwrap();
    let contexts = user.contexts(&mut rng);
    // A user is asked to raise, and its evaluation waits.
    let asked = user.device.read(&ask(&user, &contexts).ok()).unwrap();
    let raises = user.device.raise(&asked.tasks, asked.ticket, &mut rng).unwrap();
    let config = serde_json::to_vec(&encrypted(Answers::Arm)).unwrap();
    let before = replay(server.folder.path(), user.id(), "snapshot");

    let other = other_keys().token();
    for token in [None, Some(other), Some(&AccessToken::generate(&mut rng))] {
        let stranger = device.with_token(token);
        unauthorized(stranger.post("/bandits", &config));
        unauthorized(stranger.post(&user.path("/decisions"), &contexts));
        unauthorized(stranger.post(&user.path(&format!("/decisions/{}/feedback", choice.id)), &frame));
        unauthorized(stranger.get(&user.path("/raises")));
        unauthorized(stranger.get(&user.path("/raises?wait=1000")));
        unauthorized(stranger.post(&user.path("/raises"), &raises));
        unauthorized(stranger.delete(&user.path("")));
        match token {
            None => assert_eq!(ids(&stranger), [""; 0]),
            Some(_) => unauthorized(stranger.get("/bandits")),
        }
        let now = replay(server.folder.path(), user.id(), "snapshot");
        assert!(now.head == before.head && now.bytes == before.bytes, "the state changed");
    }

    assert_eq!(ids(device), [user.id()]);
    user.send(&choice, &frame).ok();
    device.post(&user.path("/raises"), &raises).ok();
    device.get(&user.path("/raises")).ok();
    ask(&user, &contexts).ok();
    device.post("/bandits", &config).ok();
    device.delete(&user.path("")).ok();
}

/// Strangers fill half of the room with policies in the clear, and bearers of the token make their bandits
/// all the same. With an operator's token all the room is for whoever bears one.
#[test]
fn attack_strangers_leave_room_for_encrypted_bandits() {
    let policy = br#"{"policy": "ucb1", "arms": 2}"#;
    let server = InProcess::start(Settings { max_bandits: 4, ..Settings::default() });
    let (device, stranger) = (server.device(), server.device().with_token(None));
    let full = |answer: Answer| assert_eq!(answer.problem().status, 507);
    for _ in 0..2 {
        stranger.post("/bandits", policy).ok();
    }
    full(stranger.post("/bandits", policy));
    for _ in 0..2 {
        device.create(&encrypted(Answers::Arm));
    }
    let config = serde_json::to_vec(&encrypted(Answers::Arm)).unwrap();
    full(device.post("/bandits", &config));

    let operator = AccessToken::generate(&mut rng(8));
    let settings = Settings { max_bandits: 4, operator: Some(operator.digest()), ..Settings::default() };
    let server = InProcess::start(settings);
    let operator = server.device().with_token(Some(&operator));
    for _ in 0..4 {
        operator.post("/bandits", policy).ok();
    }
    full(operator.post("/bandits", policy));
}

/// Where an operator's token is set, policies in the clear are its bearers' alone; without one they are open.
#[test]
fn attack_strangers_change_no_policy_of_an_operator() {
    let operator = AccessToken::generate(&mut rng(9));
    let server = InProcess::start_operated(&operator);
    let participant = server.device();
    let [operator, stranger] = [Some(&operator), None].map(|token| participant.with_token(token));
    let policy = br#"{"policy": "ucb1", "arms": 2}"#;
    let created: PolicyCreated = serde_json::from_slice(&operator.post("/bandits", policy).ok()).unwrap();
    let bandit = format!("/bandits/{}", created.id);
    let decisions = format!("{bandit}/decisions");
    let decided: serde_json::Value = serde_json::from_slice(&operator.post(&decisions, b"").ok()).unwrap();
    let feedback = format!("{decisions}/{}/feedback", decided["decision"].as_str().unwrap());
    for (sender, status) in [(&stranger, 401), (&participant, 403)] {
        let refused = |answer: Answer| assert_eq!(answer.problem().status, status);
        refused(sender.post("/bandits", policy));
        refused(sender.post(&decisions, b""));
        refused(sender.post(&feedback, br#"{"reward": 1}"#));
        refused(sender.post(&format!("{bandit}/shuffled"), b"{}"));
        refused(sender.get(&bandit));
        refused(sender.delete(&bandit));
    }
    unauthorized(stranger.get("/bandits"));
    assert_eq!(ids(&participant), [""; 0]);
    // The operator's token admits to encrypted bandits too.
    let encrypted = operator.create(&encrypted(Answers::Arm));
    assert_eq!(ids(&participant), [encrypted.id]);
    assert_eq!(ids(&operator).len(), 2);
    operator.post(&feedback, br#"{"reward": 1}"#).ok();
    operator.delete(&bandit).ok();

    let open = InProcess::start(Settings::default());
    open.device().with_token(None).post("/bandits", policy).ok();
}
