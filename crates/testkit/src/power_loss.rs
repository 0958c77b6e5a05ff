//! What a loss of power may take of the files that a program wrote, read from its system calls.
//!
//! POSIX keeps the bytes of a file once `fsync` or `fdatasync` of that file has returned, and its name once
//! `fsync` of its folder has. Everything else may be gone when the machine starts again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls that make, change, rename, remove or sync files and are followed, and those that answer a request.
const FOLLOWED: &str = "open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,unlink,unlinkat,\
    write,writev,pwrite64,pwritev,pwritev2,ftruncate,fallocate,fsync,fdatasync,sendto,sendmsg";

/// Calls by which a program could change files unseen. It must make none that succeeds on a file below the
/// folder, and no io_uring at all.
const REFUSED: [&str; 11] = [
    "openat2",
    "copy_file_range",
    "sendfile",
    "splice",
    "truncate",
    "symlink",
    "symlinkat",
    "mknodat",
    "mmap",
    "ioctl",
    "io_uring_setup",
];

/// A command that runs `program` under strace and writes its calls to `log`. Arguments of the program follow.
#[must_use]
pub fn traced(program: impl AsRef<OsStr>, log: &Path) -> Command {
    let mut command = Command::new("strace");
    let calls = format!("trace={FOLLOWED},{}", REFUSED.join(","));
    command.args(["-f", "-y", "-qq", "-s", "64", "-e", &calls, "-e", "signal=none", "-o"]).arg(log);
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
        disk.now += 1;
        // A call during which another thread makes one is written in two lines, its start and its end.
        if let Some(start) = call.strip_suffix(" <unfinished ...>") {
            // What it writes may be written at once; what it syncs is synced at its end.
            if !start.starts_with("fsync(") && !start.starts_with("fdatasync(") {
                disk.call(&format!("{start}) = 0"), disk.now, folder);
            }
            unfinished.insert(process, (start.to_string(), disk.now));
        } else if let Some((_, end)) = call.strip_prefix("<... ").and_then(|c| c.split_once(" resumed>")) {
            let (start, since) = unfinished.remove(process).unwrap_or_default();
            disk.call(&format!("{start}{end}"), since, folder);
        } else {
            disk.call(call, disk.now, folder);
        }
    }
    let below = |path: &&PathBuf| path.starts_with(folder) && *path != folder;
    assert!(disk.seen.iter().any(|path| below(&path)), "no call names a file below {}", folder.display());
    disk.names.keys().chain(disk.bytes.keys()).chain(&disk.failed).filter(below).cloned().collect()
}

/// What is not yet durable. Times are numbers of lines of the log.
#[derive(Default)]
struct Disk {
    now: u64,
    /// Names whose folder has not been synced since the time at which they were made.
    names: BTreeMap<PathBuf, u64>,
    /// Files that have not been synced since the time at which they were written.
    bytes: BTreeMap<PathBuf, u64>,
    /// Files of which a sync has failed: a later one that succeeds says nothing of what was lost then.
    failed: BTreeSet<PathBuf>,
    /// All that was made or written.
    seen: BTreeSet<PathBuf>,
}

impl Disk {
    /// Follows a call that began at the time `since` and ends now.
    fn call(&mut self, call: &str, since: u64, folder: &Path) {
        let Some((name, rest)) = call.split_once('(') else { return };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else { return };
        // `3</folder/file>`: a descriptor with its path.
        let described = |text: &str| Some(PathBuf::from(text.split_once('<')?.1.split_once('>')?.0));
        // `AT_FDCWD</folder>, "file"`: a path and the folder that it is relative to.
        let base = described(arguments).unwrap_or_default();
        let quoted = || arguments.split('"').skip(1).step_by(2).map(|path| base.join(path));
        let now = self.now;
        if result.starts_with('-') {
            if let ("fsync" | "fdatasync", Some(path)) = (name, described(arguments)) {
                self.failed.insert(path);
            }
            return;
        }
        match name {
            "open" | "openat" | "creat" => {
                let Some(path) = described(result) else { return };
                let makes = name == "creat" || arguments.contains("O_CREAT");
                if name == "creat" || arguments.contains("O_TRUNC") {
                    self.bytes.insert(path.clone(), now);
                }
                // A file that is there already is only opened.
                if makes && !self.seen.contains(&path) {
                    self.made(path);
                }
            }
            "mkdir" | "mkdirat" => quoted().take(1).for_each(|path| self.made(path)),
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
                let [from, to] = [quoted().next(), quoted().nth(1)].map(Option::unwrap_or_default);
                if let Some(written) = self.bytes.get(&from).copied() {
                    self.bytes.insert(to.clone(), written);
                }
                if name.starts_with("rename") {
                    self.forget(&from);
                }
                self.made(to);
            }
            "unlink" | "unlinkat" => quoted().take(1).for_each(|path| self.forget(&path)),
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "ftruncate" | "fallocate" => {
                if let Some(path) = described(arguments).filter(|path| path.is_absolute()) {
                    self.seen.insert(path.clone());
                    self.bytes.insert(path, now);
                }
            }
            "fsync" | "fdatasync" => {
                let Some(path) = described(arguments) else { return };
                // What came while it ran may have come too late for it.
                self.bytes.retain(|file, written| *file != path || *written > since);
                self.names.retain(|name, made| name.parent() != Some(&path) || *made > since);
            }
            _ => {
                let writes = match name {
                    "mmap" => arguments.contains("MAP_SHARED") && arguments.contains("PROT_WRITE"),
                    "ioctl" => arguments.contains("FICLONE"),
                    _ => REFUSED.contains(&name),
                };
                let here = name == "io_uring_setup" || call.contains(&*folder.to_string_lossy());
                assert!(!(writes && here), "a call that is not followed: {call}");
            }
        }
    }

    fn made(&mut self, path: PathBuf) {
        self.seen.insert(path.clone());
        self.names.insert(path, self.now);
    }

    fn forget(&mut self, path: &Path) {
        self.names.remove(path);
        self.bytes.remove(path);
        self.seen.remove(path);
    }
}
