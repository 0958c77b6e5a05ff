//! The script of docs/first-hour.md, which plays clear and encrypted bandits alike.

use crate::fixture::*;
use std::process::Command;

/// The Python code of the page.
fn script() -> &'static str {
    let page = include_str!("../../../docs/first-hour.md");
    let (_, rest) = page.split_once("```python\n").unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn the_script_plays_clear_and_encrypted_bandits() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: there is no python3 here to run the script of docs/first-hour.md");
        return;
    }
    let folder = folder();
    let server = Server::start(folder.path());
    let agent = Running::start(&server.url(), folder.path());
    let parameters =
        serde_json::from_str(r#"{"features": 2, "arms": 2, "lambda": 1.0, "alpha": 0.5}"#).unwrap();
    let clear = server.client().create_policy("oful", parameters).unwrap().id;
    let encrypted = agent.http().create();
    for (base, bandit) in [(server.url(), clear), (agent.url(), encrypted)] {
        let url = format!("{base}/v1/bandits/{bandit}");
        let [features, arms] = [D, K].map(|number| number.to_string());
        let mut python = Command::new("python3");
        python.args(["-c", script(), &url, token().to_hex().as_str(), &features, &arms]);
        let out = python.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let said = String::from_utf8(out.stdout).unwrap();
        assert_eq!(said.lines().count(), 10, "{said}");
        assert!(said.lines().all(|line| line.contains("feedbacks")), "{said}");
    }
}
