//! `helba-server audit`: whether the snapshot and the log of an encrypted bandit agree.

use crate::fixture::*;
use crate::users::*;
use protocol::Answers;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The exit status of an audit, its lines, and the last line of stderr.
pub(crate) fn audit(state: &Path, more: &[&str]) -> (i32, Vec<String>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_helba-server"));
    command.args(["audit", "--keys"]).arg(keys().public_file()).arg("--state").arg(state).args(more);
    let output = command.env("RUST_LOG", "error").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(!err.contains("panicked"), "{err}");
    let last = err.lines().last().unwrap_or_default().to_string();
    (output.status.code().unwrap(), out.lines().map(str::to_string).collect(), last)
}

/// Rounds and batches on a server of its own, killed at the end. Returns the id of the bandit.
fn run(state: &Path, keep_log: bool, rounds: u64) -> String {
    let mut command = command(&keys().public_file(), state, "127.0.0.1:0");
    if keep_log {
        command.arg("--keep-log");
    }
    let server = Program::spawn(&mut command);
    let user = User::create(server.device(), Answers::Scores);
    let (mut rng, history) = (rng(50), History::default());
    for _ in 0..rounds {
        user.round(&history, &mut rng);
    }
    user.settle(&mut rng);
    // One more, which may close a batch: an update may be due or done.
    user.round(&history, &mut rng);
    // Idle for longer than a second: the log ends with a mark.
    std::thread::sleep(Duration::from_millis(1500));
    let (status, _, said) = audit(state, &[]);
    assert!(status == 1 && said.contains("in use by another server"), "{said}");
    server.kill();
    user.id().to_string()
}

fn log(state: &Path, id: &str) -> PathBuf {
    state.join("encrypted").join(id).join(format!("{:020}.log", 0))
}

#[test]
fn an_audit_replays_the_log() {
    for keep_log in [true, false] {
        let dir = TempDir::new().unwrap();
        let id = run(dir.path(), keep_log, 5);
        let (status, lines, said) = audit(dir.path(), &["--json"]);
        assert_eq!((status, lines.len()), (0, 1), "{said}");
        let found: Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(found["bandit"], *id);
        assert_eq!(found["agrees"], true);
        assert_eq!(found["since_creation"], keep_log);
        assert_eq!(found["feedbacks"], 6);
        let now = replay(dir.path(), &id, "snapshot");
        assert_eq!(found["records"], now.head.records);
        assert_eq!(found["state"], blake3::hash(&now.bytes).to_hex().to_string());
        // As text, and this bandit alone.
        let (status, lines, _) = audit(dir.path(), &["--bandit", &id]);
        assert!(
            status == 0 && lines.len() == 1 && lines[0].starts_with(&format!("{id}: agrees")),
            "{lines:?}"
        );
        let (status, _, said) = audit(dir.path(), &["--bandit", &"0".repeat(32)]);
        assert!(status == 1 && said.contains("no bandit has the id"), "{said}");

        // The state goes on as it was.
        let server = Program::start(dir.path());
        let listed = server.device().get("/bandits").ok();
        assert_eq!(serde_json::from_slice::<Value>(&listed).unwrap()[0]["id"], *id);
    }
}

/// Records that were changed or cut off, or another snapshot of the creation, do not pass. Other bandits of
/// the server do.
#[test]
fn attack_tampered_records_do_not_pass() {
    let dir = TempDir::new().unwrap();
    let honest = run(dir.path(), true, 3);
    let id = run(dir.path(), true, 5);
    let check = |what: &str| {
        let (status, lines, said) = audit(dir.path(), &["--json"]);
        assert_eq!((status, lines.len()), (1, 2), "{what}: {said}");
        assert!(said.contains("1 of 2 bandits"), "{what}: {said}");
        for line in lines {
            let found: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(found["agrees"], found["bandit"] == *honest, "{what}: {line}");
        }
    };
    let log = log(dir.path(), &id);
    let good = std::fs::read(&log).unwrap();
    for at in [400, good.len() / 3, good.len() / 2] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        std::fs::write(&log, bad).unwrap();
        check(&format!("byte {at} of the log"));
    }
    // Cut in the middle: it ends before the snapshot.
    std::fs::write(&log, &good[..good.len() / 3]).unwrap();
    check("a log that was cut");
    std::fs::write(&log, &good).unwrap();

    // The creation had another secret: every record applies, and the masks are others.
    let genesis = log.with_file_name("genesis");
    let first = std::fs::read(&genesis).unwrap();
    let body = first.len() - 32;
    let plain = helba::EncryptedBandit::from_bytes(engine(), &first[58..body]).unwrap();
    let other = helba::EncryptedBandit::create(engine(), plain.config().clone(), [3; 32]).unwrap();
    let mut forged = first[..58].to_vec();
    forged.extend(other.to_bytes(engine()).unwrap());
    let digest = blake3::hash(&forged);
    forged.extend(digest.as_bytes());
    std::fs::write(&genesis, forged).unwrap();
    check("another creation");
    std::fs::write(&genesis, first).unwrap();
    assert_eq!(audit(dir.path(), &[]).0, 0);
}
