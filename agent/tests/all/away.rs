//! A server that cannot be reached, and comes back.

use crate::fixture::*;
use helba_agent::{Error, Options};
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
