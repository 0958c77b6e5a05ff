//! Requests without a token, or with the token of other keys, change nothing.

use crate::fixture::*;
use helba_server::Settings;
use protocol::BanditConfig;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use wire::{AccessToken, Created, PolicyCreated, Problem};

fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(7)
}

fn ids(device: &Device) -> Vec<String> {
    let listed: Vec<serde_json::Value> = serde_json::from_slice(&device.get("/bandits").ok()).unwrap();
    listed.iter().map(|bandit| bandit["id"].as_str().unwrap().to_string()).collect()
}

#[track_caller]
fn unauthorized(answer: Answer) {
    let Problem { status, reason, .. } = answer.problem();
    assert_eq!((status, reason.as_deref()), (401, Some("unauthorized")));
}

/// A stranger who knows names, ids and well-formed ciphertexts, but no token: it can neither make a bandit,
/// nor spoil one, nor delete it, nor find its id. With the token every one of these requests succeeds.
#[test]
fn attack_strangers_change_no_encrypted_bandit() {
    let server = InProcess::start(Settings::default());
    let (device, mut rng) = (server.device(), rng());
    let created: Created = device.create(&BanditConfig::new(D, K));
    device.round(&created, &mut rng);
    device.wait_for_update(&created);
    let decision = device.decide(&created, &mut rng);
    let request = device.answer(&created, &decision, 0, &mut rng);
    let contexts = device.contexts(&created, &mut rng);
    let config = serde_json::to_vec(&BanditConfig::new(D, K)).unwrap();
    let before = device.status(&created);

    let other = other_keys().token();
    for token in [None, Some(other), Some(&AccessToken::generate(&mut rng))] {
        let stranger = device.with_token(token);
        unauthorized(stranger.post("/bandits", &config));
        unauthorized(stranger.post(&decisions_path(&created), &contexts));
        unauthorized(stranger.feedback(&created, &decision, &request));
        unauthorized(stranger.delete(&format!("/bandits/{}", created.id)));
        match token {
            None => assert_eq!(ids(&stranger), [""; 0]),
            Some(_) => unauthorized(stranger.get("/bandits")),
        }
        assert_eq!(device.status(&created), before);
    }

    assert_eq!(ids(&device), std::slice::from_ref(&created.id));
    device.feedback(&created, &decision, &request).ok();
    device.post(&decisions_path(&created), &contexts).ok();
    device.post("/bandits", &config).ok();
    device.delete(&format!("/bandits/{}", created.id)).ok();
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
        device.create(&BanditConfig::new(D, K));
    }
    let config = serde_json::to_vec(&BanditConfig::new(D, K)).unwrap();
    full(device.post("/bandits", &config));

    let operator = AccessToken::generate(&mut rng());
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
    let operator = AccessToken::generate(&mut rng());
    let server = InProcess::start_operated(&operator);
    let participant = server.device();
    let [operator, stranger] = [Some(&operator), None].map(|token| participant.with_token(token));
    let policy = br#"{"policy": "ucb1", "arms": 2}"#;
    let created: PolicyCreated = serde_json::from_slice(&operator.post("/bandits", policy).ok()).unwrap();
    let bandit = format!("/bandits/{}", created.id);
    let decisions = format!("{bandit}/decisions");
    let decided: serde_json::Value = serde_json::from_slice(&operator.post(&decisions, b"").ok()).unwrap();
    let feedback = format!("{decisions}/{}/feedback", decided["decision"].as_str().unwrap());
    for sender in [&stranger, &participant] {
        unauthorized(sender.post("/bandits", policy));
        unauthorized(sender.post(&decisions, b""));
        unauthorized(sender.post(&feedback, br#"{"reward": 1}"#));
        unauthorized(sender.post(&format!("{bandit}/shuffled"), b"{}"));
        unauthorized(sender.delete(&bandit));
        assert_eq!(ids(sender), [""; 0]);
    }
    // The operator's token admits to encrypted bandits too.
    let encrypted: Created = operator.create(&BanditConfig::new(D, K));
    assert_eq!(ids(&participant), [encrypted.id]);
    assert_eq!(ids(&operator).len(), 2);
    operator.post(&feedback, br#"{"reward": 1}"#).ok();
    operator.delete(&bandit).ok();

    let open = InProcess::start(Settings::default());
    open.device().with_token(None).post("/bandits", policy).ok();
}
