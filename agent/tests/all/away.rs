//! A server that cannot be reached, and comes back.

use crate::fixture::*;
use helba_agent::{Error, Options};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// While the server is away, requests are repeated for a bounded time. Those that wait when it is back are
/// answered, and what was pending is.
#[test]
fn a_server_goes_away_and_comes_back() {
    let folder = folder();
    let server = Server::start(folder.path());
    let address = server.address.to_string();
    let patience = Duration::from_secs(30);
    let agent = Running::start_with(&server.url(), folder.path(), Options { patience, ..options() });
    let (app, rows) = (agent.http(), random_rows(&mut rng(1)));
    let bandit = app.create();
    let waiting = app.decided(&bandit, &rows);
    drop(server);
    let health: serde_json::Value = Http::new(agent.url(), None).get("/health").ok();
    assert_eq!(health["status"], "ok");
    let server = std::thread::scope(|scope| {
        let decided = scope.spawn(|| app.decided(&bandit, &rows));
        let counted = scope.spawn(|| app.counted(&bandit, &waiting.decision, 0.5));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!decided.is_finished() && !counted.is_finished());
        let server = Server::start_at(&address, folder.path());
        assert_eq!(decided.join().unwrap().reliable, Some(true));
        assert_eq!(counted.join().unwrap().feedbacks, 1);
        server
    });

    // With little patience, whoever asks is told. An agent may start before its server.
    drop((agent.stop().unwrap(), server));
    let patience = Duration::from_millis(100);
    let url = format!("http://{address}");
    let agent = Running::start_with(&url, folder.path(), Options { patience, ..options() });
    let (app, began) = (agent.http(), Instant::now());
    assert_eq!(app.decide(&bandit, &rows).problem(), (502, "forwarding_failed".into()));
    assert_eq!(app.get(&format!("/bandits/{bandit}")).problem(), (502, "forwarding_failed".into()));
    assert!(began.elapsed() < Duration::from_secs(5));
    let _server = Server::start_at(&address, folder.path());
    app.decided(&bandit, &rows);
}

/// After a lost reply nobody knows whether the reward was counted. Only it may be sent again, as the same
/// bytes, also by the next process.
#[test]
fn attack_no_second_reward_is_confirmed_after_a_lost_reply() {
    let folder = folder();
    let server = Server::start(folder.path());
    let patience = Duration::from_millis(50);
    let start = || Running::start_with(&server.url(), folder.path(), Options { patience, ..options() });
    let agent = start();
    let bandit = agent.http().create();
    let decided = agent.http().decided(&bandit, &random_rows(&mut rng(1)));
    server.loses.store(true, Ordering::Relaxed);
    let lost = agent.http().feedback(&bandit, &decided.decision, 0.5).problem();
    assert_eq!(lost, (502, "forwarding_failed".into()));
    server.loses.store(false, Ordering::Relaxed);
    // The raiser of the agent asks for tasks beside, with empty bodies.
    let sent = server.seen.lock().unwrap().iter().rfind(|body| !body.is_empty()).cloned().unwrap();
    agent.stop().unwrap();
    let sent_so_often = || server.seen.lock().unwrap().iter().filter(|body| **body == sent).count();
    let before = sent_so_often();
    let agent = start();
    let app = agent.http();
    let other = app.feedback(&bandit, &decided.decision, 0.25).problem();
    assert_eq!(other, (409, "answered".into()));
    assert_eq!(app.counted(&bandit, &decided.decision, 0.5).feedbacks, 1);
    assert_eq!(sent_so_often(), before + 1, "the same bytes, by the next process");
    let summary: serde_json::Value = app.get(&format!("/bandits/{bandit}/summary")).ok();
    assert_eq!((&summary["rewards"]["count"], &summary["rewards"]["mean"]), (&1.into(), &0.5.into()));
}

/// The same features and reward are never the same bytes: a server that saw a body twice would know that two
/// users are alike.
#[test]
fn attack_equal_feedback_is_sent_as_different_bytes() {
    let (_folder, server, _agent, app) = started();
    let (bandit, rows) = (app.create(), vec![vec![0.6, 0.8]; K]);
    for _ in 0..3 {
        let decided = app.decided(&bandit, &rows);
        app.counted(&bandit, &decided.decision, 0.5);
    }
    let mut bodies = server.seen.lock().unwrap().clone();
    bodies.retain(|body| !body.is_empty());
    let all = bodies.len();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), all);
}

/// The agent of other keys ends, and says so.
#[test]
fn an_agent_with_other_keys_ends() {
    let folder = folder();
    let server = Server::start(folder.path());
    let (agent, _) = open(&server.url(), &bundles(3).1, folder.path(), options()).unwrap();
    let run = async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        agent.run(listener, None, helba_server::Connections::default(), std::future::pending()).await
    };
    let error = tokio::runtime::Runtime::new().unwrap().block_on(run).unwrap_err();
    assert!(matches!(error, Error::Client(user_client::Error::WrongKeys { .. })), "{error}");
}
