//! Requests that are refused, each with a problem document.

use crate::fixture::*;
use serde_json::json;
use std::sync::Barrier;

#[test]
fn bad_requests_are_refused() {
    let (_folder, server, _agent, app) = started();
    let bandit = app.create();
    let rows = random_rows(&mut rng(1));
    let decided = app.decided(&bandit, &rows);
    let (decisions, health) = (format!("/bandits/{bandit}/decisions"), "/health");
    let feedback = format!("{decisions}/{}/feedback", decided.decision);
    let reason = |status: u16, reason: &str| (status, reason.to_string());

    for contexts in [
        json!({}),
        json!({"contexts": [[1.0, 0.0]]}),
        json!({"contexts": [[1.0], [0.0]]}),
        json!({"contexts": [[1.0, 1.0], [0.0, 0.0]]}),
    ] {
        assert_eq!(app.post(&decisions, &contexts).problem(), reason(422, "bad_value"), "{contexts}");
    }
    for body in [json!("contexts"), json!({"contexts": [["a"]]}), json!({"context": []})] {
        assert_eq!(app.post(&decisions, &body).problem(), reason(400, "malformed"), "{body}");
    }
    for body in
        [json!({}), json!({"reward": 1.5}), json!({"rewards": [1, 0]}), json!({"reward": 1, "sum": 1})]
    {
        assert_eq!(app.post(&feedback, &body).problem(), reason(422, "bad_value"), "{body}");
    }
    let of = |bandit: &str, decision: &str| app.feedback(bandit, decision, 0.5).problem();
    let none = "0".repeat(32);
    assert_eq!(of(&bandit, &none), reason(404, "unknown_decision"));
    assert_eq!(of(&bandit, "none"), reason(404, "unknown_decision"));
    assert_eq!(of("none", &none), reason(404, "unknown_bandit"));
    assert_eq!(app.decide("none", &rows).problem(), reason(404, "unknown_bandit"));
    assert_eq!(app.decide("a%2Fb", &rows).problem(), reason(404, "unknown_bandit"));
    let named = json!({"candidates": [{"price": 1}, {"price": 2}]});
    assert_eq!(app.post("/bandits/none/decisions", &named).problem(), reason(404, "unknown_bandit"));
    assert_eq!(app.post(&decisions, &named).problem(), reason(422, "bad_value"));
    let candidates = named["candidates"].clone();
    let logged = json!({"name": "history", "rounds": [{"candidates": candidates, "arm": 0, "reward": 0.5}]});
    assert_eq!(app.post("/bandits/none/learn", &logged).problem(), reason(404, "unknown_bandit"));
    assert_eq!(app.post(&format!("/bandits/{bandit}/learn"), &logged).problem(), reason(422, "bad_value"));
    // A decision of one bandit is none of another.
    assert_eq!(of(&app.create(), &decided.decision), reason(404, "unknown_decision"));
    assert_eq!(app.get("/nothing").problem(), reason(404, "unknown_path"));
    assert_eq!(app.get(&decisions).problem(), reason(405, "wrong_method"));

    let mut wide = serde_json::to_value(config()).unwrap();
    wide["linear"]["d"] = 500.into();
    assert_eq!(app.post("/bandits", &wide).problem(), reason(400, "bad_configuration"));
    assert_eq!(app.post("/bandits", &json!({"arms": 2})).problem(), reason(400, "bad_configuration"));
    let clear = json!({"policy": "ucb1", "arms": 2});
    assert_eq!(app.post("/bandits", &clear).problem(), reason(409, "not_encrypted"));
    let clear =
        server.client().create_policy("ucb1", serde_json::from_str(r#"{"arms": 2}"#).unwrap()).unwrap().id;
    assert_eq!(app.decide(&clear, &rows).problem(), reason(409, "not_encrypted"));

    let long = json!({"contexts": [[" ".repeat(70_000)]]});
    assert_eq!(app.post(&decisions, &long).problem(), reason(413, "too_large"));
    let post = || app.authorized(app.agent.post(format!("{}/v1{decisions}", app.base)));
    assert_eq!(
        answer(post().content_type("text/plain").send("{}").unwrap()).problem(),
        reason(415, "media_type")
    );
    let json = || post().content_type("application/json");
    let foreign = json().header("origin", "http://evil.example").send("{}").unwrap();
    assert_eq!(answer(foreign).problem(), reason(403, "foreign_origin"));
    let rebound = json().header("host", "evil.example").send("{}").unwrap();
    assert_eq!(answer(rebound).problem(), reason(421, "wrong_host"));

    // Nothing of this has changed the decision.
    assert_eq!(app.counted(&bandit, &decided.decision, 0.5).feedbacks, 1);
    app.get(health).ok::<serde_json::Value>();
    // A bandit that is deleted is unknown from then on.
    server.client().delete(&bandit).unwrap();
    for _ in 0..2 {
        assert_eq!(app.decide(&bandit, &rows).problem(), reason(404, "unknown_bandit"));
    }
}

/// Without its token, the agent does nothing but say that it runs.
#[test]
fn attack_requests_without_the_token_reach_nothing() {
    let (_folder, _server, agent, app) = started();
    let (bandit, rows) = (app.create(), random_rows(&mut rng(1)));
    let decided = app.decided(&bandit, &rows);
    let other = wire::AccessToken::from_bytes(&[8; 32]).unwrap();
    // The token of the secret bundle is known to the server.
    let of_server = user_client::Device::read(&keys().1[..]).unwrap().token().clone();
    for token in [None, Some(other), Some(of_server)] {
        let stranger = Http::new(agent.url(), token);
        let unauthorized = || (401, "unauthorized".to_string());
        assert_eq!(stranger.decide(&bandit, &rows).problem(), unauthorized());
        assert_eq!(stranger.feedback(&bandit, &decided.decision, 0.5).problem(), unauthorized());
        assert_eq!(stranger.get(&format!("/bandits/{bandit}")).problem(), unauthorized());
        assert_eq!(
            stranger.post("/bandits", &serde_json::to_value(config()).unwrap()).problem(),
            unauthorized()
        );
        stranger.get("/health").ok::<serde_json::Value>();
    }
    let status = app.status(&bandit);
    assert_eq!((status.round, status.feedbacks), (1, 0));
}

/// A bad decision does not spoil those that share its request.
#[test]
fn bad_contexts_spoil_no_other_decision() {
    let (_folder, _server, _agent, app) = started();
    let bandit = app.create();
    let all = Barrier::new(16);
    std::thread::scope(|scope| {
        for seed in 0..16 {
            let (app, bandit, all) = (&app, &bandit, &all);
            scope.spawn(move || {
                let mut rows = random_rows(&mut rng(seed));
                all.wait();
                if seed % 2 == 0 {
                    assert_eq!(app.decided(bandit, &rows).reliable, Some(true));
                } else {
                    rows[0][0] = 2.0;
                    assert_eq!(app.decide(bandit, &rows).problem(), (422, "bad_value".into()));
                }
            });
        }
    });
    assert_eq!(app.status(&bandit).round, 8);
}

/// An agent has threads for a bounded number of bandits. A request for one more is refused until it knows
/// that another one is gone. The server keeps as many, so that one is deleted there for the last one.
#[test]
fn attack_an_agent_uses_a_bounded_number_of_bandits() {
    let (_folder, server, _agent, app) = started();
    let asked = |bandit: &str| app.feedback(bandit, &"0".repeat(32), 0.5).problem();
    let bandits: Vec<String> = (0..user_client::MOST_BANDITS).map(|_| app.create()).collect();
    for bandit in &bandits {
        assert_eq!(asked(bandit), (404, "unknown_decision".into()));
    }
    server.client().delete(&bandits[0]).unwrap();
    let last = app.create();
    assert_eq!(asked(&last), (507, "too_many_bandits".into()));
    assert_eq!(asked(&bandits[1]), (404, "unknown_decision".into()), "those before go on");
    assert_eq!(app.decide(&bandits[0], &random_rows(&mut rng(1))).problem(), (404, "unknown_bandit".into()));
    assert_eq!(asked(&last), (404, "unknown_decision".into()));
}
