//! What a loss of power may take after the server has acknowledged a request: nothing.

use crate::fixture::*;
use crate::users::*;
use protocol::Answers;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use testkit::power_loss::{lost, traced};

/// A bandit, its decision and its feedback are durable, bytes and names, when the answer leaves; so are the
/// state's folder and the parent of it, which the server makes. A snapshot takes its name once its bytes are
/// durable, and all records in it.
#[test]
fn attack_power_loss_takes_nothing_acknowledged() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().canonicalize().unwrap();
    let log = folder.with_extension("calls");
    let state = folder.join("deep").join("state");
    let inner = command(&keys().public_file(), &state, "127.0.0.1:0");
    let mut outer: Command = traced(inner.get_program(), &log);
    outer.args(inner.get_args()).env("RUST_LOG", "error");
    let mut server = Program::spawn(&mut outer);
    let user = User::create(server.device(), Answers::Scores);
    let mut rng = rng(22);
    let rows = random_rows(&mut rng);
    let contexts = user.device.contexts(&rows, &mut rng).unwrap();
    // By hand: no task is answered meanwhile, so that the answers are those of these requests.
    let reply = user.device.read(&ask(&user, &contexts).ok()).unwrap();
    user.feedback(&rows, &reply.choice.unwrap(), &mut rng);
    // Then batches and models, with a snapshot each.
    let history = History::default();
    for _ in 0..4 {
        user.round(&history, &mut rng);
    }
    let status = user.settle(&mut rng);
    let strace = server.child.id();
    let traced = std::fs::read_to_string(format!("/proc/{strace}/task/{strace}/children")).unwrap();
    assert!(Command::new("kill").args(["-9", traced.trim()]).status().unwrap().success());
    server.child.wait().unwrap();

    let calls = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    let answers: Vec<usize> = calls.match_indices("\"HTTP/1.1 20").map(|(at, _)| at).collect();
    for (answer, at) in ["the bandit", "the decision", "the feedback"].iter().zip(&answers) {
        let mut lost = lost(&calls[..*at], &folder);
        // The last round that was given out is noted for numbers in views alone.
        lost.retain(|path| path.file_name().is_none_or(|name| name != "given"));
        assert_eq!(lost, BTreeSet::new(), "{answer}");
    }
    // Where a snapshot takes its name, its bytes and the records in it are durable.
    let renames: Vec<usize> = calls
        .match_indices("rename(")
        .chain(calls.match_indices("renameat2("))
        .chain(calls.match_indices("renameat("))
        .map(|(at, _)| at)
        .filter(|at| calls[*at..].lines().next().is_some_and(|line| line.contains("/snapshot\"")))
        .collect();
    assert!(renames.len() as u64 > status.refreshes && status.refreshes > 0, "{status:?}");
    for at in renames {
        let start = calls[..at].rfind('\n').unwrap();
        // All records that were written are durable.
        let lost = lost(&calls[..start], &folder);
        let is_log = |path: &PathBuf| path.extension().is_some_and(|e| e == "log");
        assert!(!lost.iter().any(is_log), "{lost:?}");
        // So are the bytes of the snapshot, and then its name.
        let written = calls[..start].rfind("snapshot.new\", O_").unwrap();
        let syncs = |calls: &str, name: &str| {
            calls.lines().any(|line| line.contains("fsync(") && line.contains(&format!("{name}>")))
        };
        assert!(syncs(&calls[written..start], "snapshot.new"), "a snapshot that is not synchronised");
        assert!(["", ".new"].iter().any(|end| syncs(&calls[at..], &format!("{}{end}", user.id()))));
    }
}

/// So are a bandit with a clear policy, its decision and its feedback, and the database that the server makes
/// for them: no encrypted bandit is there whose files would have its folder synchronised.
#[test]
fn attack_power_loss_takes_no_clear_bandit() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().canonicalize().unwrap();
    let (log, state) = (folder.with_extension("calls"), folder.join("state"));
    let mut outer = traced(env!("CARGO_BIN_EXE_helba-server"), &log);
    outer.arg("--state").arg(&state).args(["--listen", "127.0.0.1:0"]).env("RUST_LOG", "error");
    let mut server = Program::spawn(&mut outer);
    let open = server.device().with_token(None);
    let created = open.post("/bandits", br#"{"policy": "ucb1", "arms": 2}"#).ok();
    let id = serde_json::from_slice::<wire::PolicyCreated>(&created).unwrap().id;
    let decided = open.post(&format!("/bandits/{id}/decisions"), b"").ok();
    let decision = serde_json::from_slice::<wire::Decided>(&decided).unwrap().decision;
    open.post(&format!("/bandits/{id}/decisions/{decision}/feedback"), br#"{"reward": 1}"#).ok();
    let strace = server.child.id();
    let traced = std::fs::read_to_string(format!("/proc/{strace}/task/{strace}/children")).unwrap();
    assert!(Command::new("kill").args(["-9", traced.trim()]).status().unwrap().success());
    server.child.wait().unwrap();
    let calls = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    let answers: Vec<usize> = calls.match_indices("\"HTTP/1.1 20").map(|(at, _)| at).collect();
    assert_eq!(answers.len(), 3);
    for (answer, at) in ["the bandit", "the decision", "the feedback"].iter().zip(answers) {
        let mut lost = lost(&calls[..at], &folder);
        // It is locked, and never read.
        lost.retain(|path| path.file_name().is_none_or(|name| name != "lock"));
        assert_eq!(lost, BTreeSet::new(), "{answer}");
    }
}
