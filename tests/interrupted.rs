//! Ctrl-C in the examples: no key, no state, no half plot and no server is left.
#![cfg(target_os = "linux")]

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// An example that `cargo test` has built beside this test.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(example.exists(), "{} is missing: cargo build --example {name}", example.display());
    example
}

/// A run of an example in a folder, with its temporary files in another one.
struct Run {
    child: Child,
    folder: TempDir,
    temporary: TempDir,
}

impl Run {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let (folder, temporary) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        testkit::default_signals();
        let mut command = Command::new(example(name));
        command.args(arguments).current_dir(&folder).env("TMPDIR", temporary.path());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Run { child, folder, temporary }
    }

    /// Sends an interrupt to the process alone, as a terminal would to all of them, and waits for the end.
    /// Returns whether it was the interrupt that ended it.
    fn interrupt(mut self) -> bool {
        let sent = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let status = self.child.wait().unwrap();
        let interrupted = status.signal() == Some(2);
        assert!(interrupted || status.success(), "{status}");
        assert_eq!(files(self.temporary.path()), [""; 0]);
        if interrupted {
            assert_eq!(files(self.folder.path()), [""; 0]);
        }
        assert_eq!(processes_of(self.temporary.path()), 0);
        interrupted
    }

    /// Waits until a file of this name is below the temporary folder.
    fn wait_for(&mut self, name: &str) {
        while !files(self.temporary.path()).iter().any(|file| file.ends_with(name)) {
            assert!(self.child.try_wait().unwrap().is_none(), "ended without {name}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The files below a folder.
fn files(folder: &Path) -> Vec<String> {
    // Files go while they are listed.
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut all = Vec::new();
    for path in entries.map_while(Result::ok).map(|entry| entry.path()) {
        all.push(path.display().to_string());
        all.extend(files(&path));
    }
    all
}

/// The number of processes that name a file below `folder`, which are the servers of its run.
fn processes_of(folder: &Path) -> usize {
    let name = folder.to_str().unwrap();
    let names = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(name)
    };
    std::fs::read_dir("/proc").unwrap().map_while(Result::ok).filter(|entry| names(entry)).count()
}

const QUICKSTART: [&str; 5] = ["--toy", "--rounds", "2000", "--plot", "hits.svg"];

/// While keys are there, and while the server is.
#[test]
fn an_interrupt_removes_keys_and_ends_the_server() {
    for name in ["secret.bundle", "state"] {
        let mut run = Run::start("quickstart", &QUICKSTART);
        run.wait_for(name);
        assert!(run.interrupt(), "{name}");
    }
    let mut run =
        Run::start("paper_figure1", &["--toy", "--rounds", "2000", "--csv", "a.csv", "--plot", "a.svg"]);
    run.wait_for("secret.bundle");
    assert!(run.interrupt());
}

#[test]
fn interrupts_at_random_moments_leave_nothing() {
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    for _ in 0..8 {
        let run = Run::start("quickstart", &QUICKSTART);
        std::thread::sleep(Duration::from_millis(rng.random_range(0..3000)));
        run.interrupt();
    }
}
