//! What a loss of power may take after the server has acknowledged a request: nothing.

use crate::fixture::*;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::collections::BTreeSet;
use std::process::Command;
use tempfile::TempDir;
use testkit::power_loss::{lost, traced};

/// A bandit, a decision, and a feedback with its ciphertexts are durable, bytes and names, when the answer
/// leaves; so are the state's folder and the parent of it, which the server makes.
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
    let device = server.device();
    let mut rng = ChaCha20Rng::seed_from_u64(21);
    let created = device.create(&every_round());
    let decision = device.decide(&created, &mut rng);
    let request = device.answer(&created, &decision, 0, &mut rng);
    device.feedback(&created, &decision, &request).ok();
    // The server first: strace ends with it, and has then written all that it saw.
    let strace = server.child.id();
    let traced = std::fs::read_to_string(format!("/proc/{strace}/task/{strace}/children")).unwrap();
    assert!(Command::new("kill").args(["-9", traced.trim()]).status().unwrap().success());
    server.child.wait().unwrap();

    let calls = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    // Each answer's head leaves in one call.
    let answers: Vec<usize> = calls.match_indices("\"HTTP/1.1 20").map(|(at, _)| at).collect();
    assert_eq!(answers.len(), 3, "one to each request");
    for (answer, at) in ["the bandit", "the decision", "the feedback"].iter().zip(answers) {
        assert_eq!(lost(&calls[..at], &folder), BTreeSet::new(), "{answer}");
    }
    assert!(!blobs(&state).is_empty());
}
