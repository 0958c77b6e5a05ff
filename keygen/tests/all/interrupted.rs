//! A signal at any moment leaves both bundles or nothing.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const BOTH: [&str; 2] = ["public.bundle", "secret.bundle"];

fn start(folder: &Path, arguments: &str) -> Child {
    testkit::default_signals();
    let mut program = Command::new(env!("CARGO_BIN_EXE_helba-keygen"));
    program.args(arguments.split(' ')).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    program.spawn().unwrap()
}

/// Sends the signal of this name, and waits for the end.
fn signal(mut child: Child, name: &str) -> ExitStatus {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    child.wait().unwrap()
}

fn files(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(name).collect();
    names.sort();
    names
}

/// Keys of the largest shape take seconds, so that both files are there and incomplete.
#[test]
fn a_signal_removes_incomplete_bundles() {
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let create = "create --features 16 --arms 64 --public public.bundle --secret secret.bundle";
        let child = start(folder.path(), create);
        while files(folder.path()) != BOTH {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(signal(child, name).signal(), Some(number));
        assert_eq!(files(folder.path()), [""; 0], "{name}");
    }
}

#[test]
fn interrupts_at_random_moments_leave_all_or_nothing() {
    let create = "create --features 2 --arms 2 --toy --public public.bundle --secret secret.bundle";
    let folder = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    assert!(start(folder.path(), create).wait().unwrap().success());
    let whole = begin.elapsed();
    assert_eq!(files(folder.path()), BOTH);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let child = start(folder.path(), create);
        std::thread::sleep(whole.mul_f64(rng.random_range(0.0..1.1)));
        let status = signal(child, "INT");
        match status.signal() {
            Some(2) => assert!(matches!(files(folder.path()).len(), 0 | 2), "{:?}", files(folder.path())),
            _ => assert!(status.success() && files(folder.path()) == BOTH),
        }
        // What is left is whole.
        for bundle in files(folder.path()) {
            assert!(start(folder.path(), &format!("inspect {bundle}")).wait().unwrap().success());
        }
    }
}
