//! What the application's side sees: the log of decisions, the summary, and the page.

use crate::fixture::*;
use helba_agent::{LogOptions, Options};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Mutex;
use wire::Created;

fn lines(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("log/decisions.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every decision and every reward has a line and is counted once, also after a restart, and lines and
/// summary agree.
#[test]
fn decisions_and_rewards_are_logged_and_counted() {
    let folder = folder();
    let server = Server::start(folder.path());
    let (mut rng, mut rewards, mut played) = (rng(1), [0.0; K], [0u64; K]);
    let mut bandit = String::new();
    for restart in 0..2 {
        let agent = Running::start(&server.url(), folder.path());
        let app = agent.http();
        if restart == 0 {
            bandit = app.create();
            let none: Value = app.get(&format!("/bandits/{bandit}/summary")).ok();
            assert_eq!((&none["decisions"], none["arms"].as_array().unwrap().len()), (&json!(0), K));
            assert_eq!(app.get("/bandits/none/summary").problem(), (404, "unknown_bandit".into()));
        }
        for _ in 0..4 {
            let rows = random_rows(&mut rng);
            let decided = app.decided(&bandit, &rows);
            let arm = decided.arm.unwrap();
            let first = app.counted(&bandit, &decided.decision, reward(&rows[arm]));
            assert_eq!(app.counted(&bandit, &decided.decision, reward(&rows[arm])), first);
            (rewards[arm], played[arm]) = (rewards[arm] + reward(&rows[arm]), played[arm] + 1);
        }
        agent.stop().unwrap();
    }
    let lines = lines(folder.path());
    assert_eq!(lines.len(), 16);
    let with_reward: Vec<&Value> = lines.iter().filter(|line| line.get("reward").is_some()).collect();
    for (at, line) in with_reward.iter().enumerate() {
        assert_eq!(
            (&line["bandit"], &line["round"], &line["arms"]),
            (&json!(bandit), &json!(at + 1), &json!(K))
        );
        let age = line["round"].as_u64().unwrap() - 1 - line["model_feedbacks"].as_u64().unwrap();
        assert_eq!(line["model_age"], age);
    }
    assert_eq!(with_reward.len(), 8);

    drop(server);
    // The server is not asked for it.
    let agent = Running::start("http://127.0.0.1:9", folder.path());
    let summary: Value = agent.http().get(&format!("/bandits/{bandit}/summary")).ok();
    assert_eq!((&summary["decisions"], &summary["rewards"]["count"]), (&json!(8), &json!(8)));
    for arm in 0..K {
        let of_arm = &summary["arms"][arm];
        assert_eq!(
            (&of_arm["played"], &of_arm["rewards"]["count"]),
            (&json!(played[arm]), &json!(played[arm]))
        );
        let mean =
            with_reward.iter().filter(|line| line["arm"] == arm).map(|line| line["reward"].as_f64().unwrap());
        assert!((mean.sum::<f64>() - rewards[arm]).abs() < 1e-12);
        if played[arm] > 0 {
            assert!(
                (of_arm["rewards"]["mean"].as_f64().unwrap() - rewards[arm] / played[arm] as f64).abs()
                    < 1e-12
            );
        }
    }
}

/// Without the log there is no file. A log that cannot be written stops no decision.
#[test]
fn the_log_can_be_off_and_may_fail() {
    let folder = folder();
    let server = Server::start(folder.path());
    let off = Options { decision_log: None, ..options() };
    let agent = Running::start_with(&server.url(), folder.path(), off);
    let bandit = agent.http().create();
    agent.http().decided(&bandit, &random_rows(&mut rng(1)));
    assert!(!folder.path().join("log").exists());
    agent.stop().unwrap();

    let on = || Options { decision_log: Some(LogOptions::default()), ..options() };
    let agent = Running::start_with(&server.url(), folder.path(), on());
    let file = folder.path().join("log/decisions.jsonl");
    std::fs::create_dir(&file).unwrap();
    for _ in 0..2 {
        agent.http().decided(&bandit, &random_rows(&mut rng(1)));
    }
    let log = agent.log.clone();
    let faults = |log: &Mutex<Vec<String>>| {
        log.lock().unwrap().iter().filter(|line| line.contains("decisions are missing")).count()
    };
    // A decision is answered before its line is written, and an agent that has stopped has written all.
    agent.stop().unwrap();
    assert_eq!(faults(&log), 1);

    let agent = Running::start_with(&server.url(), folder.path(), on());
    agent.http().decided(&bandit, &random_rows(&mut rng(1)));
    wait_for("the fault is logged", || faults(&agent.log) == 1);
    std::fs::remove_dir(&file).unwrap();
    let decided = agent.http().decided(&bandit, &random_rows(&mut rng(1)));
    agent.stop().unwrap();
    let lines = lines(folder.path());
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["decision"], decided.decision);
}

/// The page has no number, runs its own script alone, and needs no token; what it asks for does.
#[test]
fn the_page_runs_its_own_script_alone() {
    let folder = folder();
    let server = Server::start(folder.path());
    let agent = Running::start(&server.url(), folder.path());
    let stranger = Http::new(agent.url(), None);
    let bandit = agent.http().create();
    let nonces = [(); 2].map(|()| {
        let mut page = stranger.agent.get(format!("{}/", agent.url())).call().unwrap();
        let policy = page.headers()["content-security-policy"].to_str().unwrap().to_string();
        let text = page.body_mut().read_to_string().unwrap();
        let nonce =
            policy.split("script-src 'nonce-").nth(1).unwrap().split('\'').next().unwrap().to_string();
        assert!(policy.starts_with("default-src 'none'") && !text.contains(&bandit));
        assert_eq!(
            text.matches("<script").count(),
            text.matches(&format!("<script nonce=\"{nonce}\"")).count()
        );
        assert!(
            !text.contains("://")
                || text.matches("://").count() == text.matches("http://www.w3.org/2000/svg").count()
        );
        nonce
    });
    assert_ne!(nonces[0], nonces[1]);
    assert_eq!(stranger.get(&format!("/bandits/{bandit}/summary")).problem().0, 401);
}

/// Answers that somebody has changed are outside their range, and four of them give the alarm.
#[test]
fn changed_answers_give_the_alarm() {
    let (_folder, server, agent, app) = started();
    let bandit = app.create();
    let rows = random_rows(&mut rng(1));
    let summary = || app.get(&format!("/bandits/{bandit}/summary")).ok::<Value>();
    let alarms = || agent.log.lock().unwrap().iter().filter(|line| line.contains("ALARM")).count();
    assert_eq!(app.decided(&bandit, &rows).reliable, Some(true));
    server.garbles.store(true, std::sync::atomic::Ordering::Relaxed);
    for changed in 1..=5 {
        assert_eq!(app.decided(&bandit, &rows).reliable, Some(false));
        let summary = summary();
        assert_eq!(
            (&summary["unreliable_recently"], &summary["alarm"]),
            (&changed.into(), &(changed >= 4).into())
        );
        assert_eq!(alarms(), usize::from(changed >= 4), "one line");
    }
}

/// An agent opens the counters of all devices with its key, and they agree with its own summary.
#[test]
fn the_agent_opens_counters() {
    let folder = folder();
    let server = Server::start(folder.path());
    let agent = Running::start(&server.url(), folder.path());
    let (app, mut rng) = (agent.http(), rng(3));
    let config = json!({"features": D, "arms": K, "answers": "scores", "open_model": true,
        "counters": {"every": 10}});
    let bandit = app.post("/bandits", &config).ok::<Created>().id;
    for _ in 0..10 {
        let rows = random_rows(&mut rng);
        let decided = app.decided(&bandit, &rows);
        app.counted(&bandit, &decided.decision, reward(&rows[decided.arm.unwrap()]));
    }
    let counters: Value = app.get(&format!("/bandits/{bandit}/counters")).ok();
    let summary: Value = app.get(&format!("/bandits/{bandit}/summary")).ok();
    assert_eq!(counters["feedbacks"], 10);
    for arm in 0..K {
        let (of_all, own) = (&counters["arms"][arm], &summary["arms"][arm]);
        assert_eq!(of_all["pulls"].as_f64(), own["played"].as_f64());
        let sum = own["rewards"]["mean"].as_f64().unwrap_or(0.0) * own["played"].as_f64().unwrap();
        assert!((of_all["reward"].as_f64().unwrap() - sum).abs() < 1e-5);
    }
    let plain = app.create();
    assert_eq!(app.get(&format!("/bandits/{plain}/counters")).problem(), (409, "no_counters".into()));
}
