//! What a loss of power may take of the files that a program wrote, read from its system calls.
//!
//! POSIX keeps the bytes of a file once `fsync` or `fdatasync` of that file has returned, and its name once
//! `fsync` of its folder has. Everything else may be gone when the machine starts again.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls that make, change, rename, remove or sync files, and those that answer a request.
const CALLS: &str = "trace=open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,unlink,unlinkat,\
    write,writev,pwrite64,pwritev,ftruncate,fallocate,fsync,fdatasync,sendto,sendmsg";

/// A command that runs `program` under strace and writes its calls to `log`. Arguments of the program follow.
#[must_use]
pub fn traced(program: impl AsRef<OsStr>, log: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-qq", "-s", "64", "-e", CALLS, "-e", "signal=none", "-o"]).arg(log);
    command.arg("--").arg(program);
    command
}

/// Runs the test `name` of this test program again under strace, with the variable `variable` set to
/// `folder`, and returns what a loss of power at its end takes of the files below `folder`.
///
/// # Panics
/// If strace is not there or the test fails.
pub fn lost_by_test(name: &str, variable: &str, folder: &Path) -> BTreeSet<PathBuf> {
    let log = folder.with_extension("calls");
    let mut command = traced(std::env::current_exe().expect("the path of this program"), &log);
    command.args(["--exact", name, "--include-ignored", "--nocapture"]).env(variable, folder);
    let output = command.output().expect("strace (package strace) is on the path");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    lost(&std::fs::read_to_string(&log).expect("what strace wrote"), folder)
}

/// The files below `folder` whose name or bytes a loss of power after the last call of `calls` may take, by a
/// log of [`traced`].
///
/// # Panics
/// If nothing below `folder` was written at all: then the log is not one of the program meant.
pub fn lost(calls: &str, folder: &Path) -> BTreeSet<PathBuf> {
    let mut disk = Disk::default();
    let mut unfinished = HashMap::new();
    for line in calls.lines() {
        let Some((process, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        // A call during which another thread made one is told in two lines; it counts when it returns.
        if let Some(start) = call.strip_suffix(" <unfinished ...>") {
            unfinished.insert(process, start.to_string());
        } else if let Some((_, end)) = call.strip_prefix("<... ").and_then(|c| c.split_once(" resumed>")) {
            let start = unfinished.remove(process).unwrap_or_default();
            disk.call(&format!("{start}{end}"));
        } else {
            disk.call(call);
        }
    }
    let below = |path: &&PathBuf| path.starts_with(folder) && *path != folder;
    assert!(disk.seen.iter().any(|path| below(&path)), "no call names a file below {}", folder.display());
    disk.names.union(&disk.bytes).filter(below).cloned().collect()
}

/// What is not yet durable.
#[derive(Default)]
struct Disk {
    /// Names whose folder has not been synced since they were made.
    names: BTreeSet<PathBuf>,
    /// Files that have not been synced since they were written.
    bytes: BTreeSet<PathBuf>,
    /// All that was made or written.
    seen: BTreeSet<PathBuf>,
}

impl Disk {
    fn call(&mut self, call: &str) {
        let Some((name, rest)) = call.split_once('(') else { return };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else { return };
        if result.starts_with('-') {
            return;
        }
        // `3</folder/file>`: a descriptor with its path.
        let described = |text: &str| Some(PathBuf::from(text.split_once('<')?.1.split_once('>')?.0));
        // `AT_FDCWD</folder>, "file"`: a path and the folder that it is relative to.
        let base = described(arguments).unwrap_or_default();
        let quoted = || arguments.split('"').skip(1).step_by(2).map(|path| base.join(path));
        match name {
            "open" | "openat" | "creat" if name == "creat" || arguments.contains("O_CREAT") => {
                // A file that is there already is only opened.
                if let Some(path) = described(result).filter(|path| !self.seen.contains(path)) {
                    self.made(path);
                }
            }
            "mkdir" | "mkdirat" => quoted().take(1).for_each(|path| self.made(path)),
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
                let [from, to] = [quoted().next(), quoted().nth(1)].map(Option::unwrap_or_default);
                if name.starts_with("rename") {
                    self.names.remove(&from);
                }
                if self.bytes.remove(&from) {
                    self.bytes.insert(to.clone());
                }
                self.made(to);
            }
            "unlink" | "unlinkat" => {
                for path in quoted().take(1) {
                    for paths in [&mut self.names, &mut self.bytes, &mut self.seen] {
                        paths.remove(&path);
                    }
                }
            }
            "write" | "writev" | "pwrite64" | "pwritev" | "ftruncate" | "fallocate" => {
                if let Some(path) = described(arguments).filter(|path| path.is_absolute()) {
                    self.seen.insert(path.clone());
                    self.bytes.insert(path);
                }
            }
            "fsync" | "fdatasync" => {
                let Some(path) = described(arguments) else { return };
                self.bytes.remove(&path);
                self.names.retain(|name| name.parent() != Some(&path));
            }
            _ => {}
        }
    }

    fn made(&mut self, path: PathBuf) {
        self.seen.insert(path.clone());
        self.names.insert(path);
    }
}
