//! Acknowledged means durable: after a kill at any point, and on a disk that is full.

use crate::fixture::*;
use helba_server::{AppState, Settings};
use protocol::{BanditConfig, Receipt};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::time::Duration;
use tempfile::TempDir;

/// Killed between any two requests, the server goes on as if nothing had been.
#[test]
fn killed_between_requests() {
    let state = TempDir::new().unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let server = Program::start(state.path());
    let created = server.device().create(&every_round());
    let status = server.device().status(&created);
    server.kill();

    let mut server = Program::start(state.path());
    assert_eq!(server.device().status(&created), status);
    for round in 1..=3 {
        let decision = server.device().decide(&created, &mut rng);
        assert_eq!(decision.round, round);
        server.kill();

        server = Program::start(state.path());
        let device = server.device();
        assert_eq!((device.status(&created).round, device.status(&created).pending_decisions), (round, 1));
        let request = device.answer(&created, &decision, 0, &mut rng);
        let receipt = device.feedback(&created, &decision, &request).ok();
        assert_eq!(serde_json::from_slice::<Receipt>(&receipt).unwrap().feedbacks, round);
        // The batch update has just begun.
        server.kill();

        server = Program::start(state.path());
        let device = server.device();
        assert_eq!(device.status(&created).feedbacks, round);
        assert_eq!(device.feedback(&created, &decision, &request).ok(), receipt, "the same receipt");
        // The interrupted update was taken up again.
        let status = device.wait_for_update(&created);
        assert_eq!((status.feedbacks, status.refreshes), (round, round - 1));
        assert!(status.refresh_due);
    }
}

/// Killed in the middle of a request: what was acknowledged is there, what was not may be, and sending it
/// again counts it once.
#[test]
fn killed_within_requests() {
    let state = TempDir::new().unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let mut server = Program::start(state.path());
    let created = server.device().create(&every_round());
    let mut acknowledged = 0;
    for attempt in 0..6 {
        let device = server.device();
        let decision = device.decide(&created, &mut rng);
        let request = device.answer(&created, &decision, 0, &mut rng);
        let path = feedback_path(&created, &decision);
        let answered = std::thread::scope(|scope| {
            let answer = scope.spawn(|| device.try_post(&path, &request.to_bytes()));
            std::thread::sleep(Duration::from_millis(4 * attempt));
            server.child.kill().unwrap();
            answer.join().unwrap().is_ok_and(|a| a.status == 200)
        });
        acknowledged += u64::from(answered);
        server.kill();

        server = Program::start(state.path());
        let device = server.device();
        let feedbacks = device.status(&created).feedbacks;
        let possible = if answered { acknowledged..=acknowledged } else { acknowledged..=acknowledged + 1 };
        assert!(possible.contains(&feedbacks), "{feedbacks} counted, {acknowledged} acknowledged");
        let receipt = device.feedback(&created, &decision, &request).ok();
        acknowledged += u64::from(!answered);
        assert_eq!(serde_json::from_slice::<Receipt>(&receipt).unwrap().feedbacks, acknowledged);
        assert_eq!(device.status(&created).feedbacks, acknowledged);
    }
}

/// No write beyond the first byte of a file succeeds any more, whoever the user is: as on a full disk.
#[cfg(target_os = "linux")]
fn fill_disk(server: &Program, full: bool) {
    let limit = if full { "--fsize=1:unlimited" } else { "--fsize=unlimited:unlimited" };
    let pid = server.child.id().to_string();
    let set = std::process::Command::new("prlimit").args(["--pid", &pid, limit]).status();
    assert!(set.expect("prlimit is part of util-linux").success());
}

/// A full disk refuses feedback, decisions and bandits, changes nothing, and is forgotten when there is room
/// again.
#[cfg(target_os = "linux")]
#[test]
fn full_disk() {
    let state = TempDir::new().unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(9);
    let server = Program::start_ignoring_file_size_signal(state.path());
    let device = server.device();
    let created = device.create(&BanditConfig::new(D, K));
    device.round(&created, &mut rng);
    device.wait_for_update(&created);
    let decision = device.decide(&created, &mut rng);
    let request = device.answer(&created, &decision, 0, &mut rng);
    let contexts = device.contexts(&created, &mut rng);
    let config = serde_json::to_vec(&every_round()).unwrap();
    // And one in the clear.
    let clear = device.post("/bandits", br#"{"policy": "dp-se", "arms": 2, "epsilon": 1, "beta": 0.1}"#).ok();
    let clear = serde_json::from_slice::<wire::PolicyCreated>(&clear).unwrap().id;
    let clear = (format!("/bandits/{clear}"), format!("/bandits/{clear}/decisions"));
    let now = || (device.status(&created), device.get("/bandits").ok(), device.get(&clear.0).ok());
    let before = now();
    let files = blobs(state.path());

    fill_disk(&server, true);
    for _ in 0..2 {
        let answers = [
            device.feedback(&created, &decision, &request),
            device.post(&decisions_path(&created), &contexts),
            device.post("/bandits", &config),
            device.post(&clear.1, b""),
            device.post("/bandits", br#"{"policy": "ucb1", "arms": 2}"#),
        ];
        for answer in answers {
            let problem = answer.problem();
            assert_eq!(
                (problem.status, problem.reason.as_deref()),
                (507, Some("disk_full")),
                "{}",
                problem.detail
            );
        }
        assert_eq!(now(), before);
    }
    let mut left = blobs(state.path());
    left.sort();
    let mut files = files;
    files.sort();
    assert_eq!(left, files);

    fill_disk(&server, false);
    let receipt: Receipt =
        serde_json::from_slice(&device.feedback(&created, &decision, &request).ok()).unwrap();
    assert_eq!(receipt.feedbacks, 2);
    device.post(&clear.1, b"").ok();
    assert_eq!(device.round(&created, &mut rng).feedbacks, 3);
    device.create(&every_round());
    let after = device.status(&created);
    server.kill();
    let server = Program::start(state.path());
    let again = server.device().status(&created);
    // A batch update may have ended in between.
    assert_eq!((again.round, again.feedbacks, again.pending_decisions), (after.round, after.feedbacks, 0));
}

/// Deleted, a bandit of either kind is gone, also after a restart and with a batch update under way, with
/// every file that was its own; the others stay, and there is room for a new one.
#[test]
fn deleted_is_gone() {
    let mut rng = ChaCha20Rng::seed_from_u64(10);
    let server = InProcess::start(Settings { max_bandits: 3, ..Settings::default() });
    let device = server.device();
    let stays = device.create(&every_round());
    let goes = device.create(&every_round());
    let clear = device.post("/bandits", br#"{"policy": "ucb1", "arms": 2}"#).ok();
    let clear: wire::PolicyCreated = serde_json::from_slice(&clear).unwrap();
    device.round(&stays, &mut rng);
    device.wait_for_update(&stays);
    let decision = device.decide(&goes, &mut rng);
    device.round(&goes, &mut rng);
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode;
        let state = server.folder.path().join("private");
        AppState::open(keys().bundle.clone(), &state, Settings::default()).map(drop).unwrap();
        assert_eq!(mode(&std::fs::metadata(state).unwrap().permissions()) & 0o777, 0o700);
    }
    let blobs = || {
        let folders = std::fs::read_dir(server.folder.path().join("blobs")).unwrap();
        folders.map(|f| std::fs::read_dir(f.unwrap().path()).unwrap().count()).sum::<usize>()
    };
    let before = blobs();

    for id in [&goes.id, &clear.id] {
        let path = format!("/bandits/{id}");
        let answer = device.delete(&path);
        assert_eq!((answer.status, answer.body.len()), (204, 0));
        for answer in
            [device.delete(&path), device.get(&path), device.post(&format!("{path}/decisions"), b"")]
        {
            assert_eq!(answer.problem().status, 404);
        }
    }
    let request = device.answer(&goes, &decision, 0, &mut rng);
    assert_eq!(device.feedback(&goes, &decision, &request).problem().status, 404);
    // Its model is what a new bandit starts with, too, and so belongs to both; its statistics were its own.
    assert!(blobs() < before, "{} of {before}", blobs());
    assert_eq!(device.status(&stays).feedbacks, 1);
    device.create(&every_round());

    let server = server.restart();
    let device = server.device();
    let listed: Vec<serde_json::Value> = serde_json::from_slice(&device.get("/bandits").ok()).unwrap();
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert_eq!(device.status(&stays).feedbacks, 1);
}
