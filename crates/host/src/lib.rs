//! What programs ask of the operating system: random numbers, files that only their owner can read, file
//! names that survive a crash, files that are whole, what a signal undoes, panics of others as errors, and an
//! exit status. For programs
//! and the libraries behind them; it holds no secret.

mod draft;
mod panics;
mod signals;

pub use draft::{Draft, write_whole};
pub use panics::without_panic;
#[cfg(feature = "tokio")]
pub use signals::stop_signal;
pub use signals::{Undone, undo_on_signals};

use rand::SeedableRng;
use rand::rngs::SysRng;
use rand_chacha::ChaCha20Rng;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long [`lock_file`] waits for a lock.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// The operating system gives no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gives no random numbers: {0}")]
pub struct NoRandomness(String);

/// ChaCha20, seeded with 32 bytes from the operating system.
///
/// # Errors
/// [`NoRandomness`] if the operating system returns an error.
pub fn os_rng() -> Result<ChaCha20Rng, NoRandomness> {
    ChaCha20Rng::try_from_rng(&mut SysRng).map_err(|e| NoRandomness(e.to_string()))
}

/// Options that create files with mode 0600 on Unix: only their owner can read them. The caller adds how the
/// file is opened.
pub fn private_file() -> OpenOptions {
    #[allow(unused_mut, reason = "it is changed on Unix")]
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// What tells one version of a file from another one under the same name: for programs that read a file again
/// when it was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    modified: Option<SystemTime>,
    length: u64,
    /// The number of the file in its file system, where there is one.
    inode: u64,
}

impl FileStamp {
    /// That of the file with this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        FileStamp { modified: metadata.modified().ok(), length: metadata.len(), inode }
    }

    /// That of the file at `path` now. `None` if there is none, or it cannot be asked for.
    pub fn now(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }
}

/// Makes the names of the files in `folder` durable. Where folders cannot be opened, it does nothing, since
/// the system writes names with the file.
///
/// # Errors
/// Those of the operating system.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Makes the name of the new file `path` durable.
///
/// # Errors
/// As [`sync_folder`].
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    sync_folder(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// Locks a file against other processes until it is closed. A lock that is held is waited for, for up to a
/// second: a process that another thread starts has a copy of every open file until it runs its program, and
/// with it the locks of files that were closed here in between.
///
/// # Errors
/// [`TryLockError::WouldBlock`] if another process holds the lock; those of the operating system.
pub fn lock_file(file: &File) -> Result<(), TryLockError> {
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

/// Locks a mutex even if another thread panicked while it held the lock: for content that is replaced as a
/// whole, so that a panic leaves nothing half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The exit status of a program that ended with `result`. An error is printed to stderr behind `prefix`,
/// except that a reader who closed the pipe of stdout is no failure.
pub fn exit(prefix: &str, result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if e.downcast_ref().is_some_and(|Unwritten(e)| e.kind() == ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{prefix}: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// A line could not be written to stdout.
#[derive(Debug, thiserror::Error)]
#[error("writing to stdout: {0}")]
pub struct Unwritten(io::Error);

/// Writes `text` and the end of a line to stdout.
///
/// # Errors
/// Those of the operating system, such as that of a pipe whose reader has closed it.
pub fn write_line(text: std::fmt::Arguments) -> Result<(), Unwritten> {
    writeln!(io::stdout(), "{text}").map_err(Unwritten)
}

/// As `println!`, but returns the error [`Unwritten`] from the caller.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::write_line(::std::format_args!($($text)*))?
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of the open file holds the lock on, as one in a process does that was only just started, and is
    /// waited for. One that stays is not.
    #[test]
    fn a_lock_that_is_about_to_end_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let open =
            || OpenOptions::new().write(true).create(true).truncate(false).open(folder.path().join("lock"));
        let first = open().unwrap();
        lock_file(&first).unwrap();
        let copy = first.try_clone().unwrap();
        drop(first);
        assert!(matches!(open().unwrap().try_lock(), Err(TryLockError::WouldBlock)), "the control");
        let child = std::thread::spawn(move || {
            std::thread::sleep(LOCK_PATIENCE / 10);
            drop(copy);
        });
        let second = open().unwrap();
        lock_file(&second).unwrap();
        child.join().unwrap();
        assert!(matches!(lock_file(&open().unwrap()), Err(TryLockError::WouldBlock)));
    }

    /// A pipe of stdout that its reader closed is no failure. A pipe or connection of anything else is one.
    #[test]
    fn only_a_closed_stdout_is_no_failure() {
        let closed = |kind| io::Error::from(kind);
        let status = |error: anyhow::Error| exit("test", Err(error));
        assert_eq!(status(Unwritten(closed(ErrorKind::BrokenPipe)).into()), ExitCode::SUCCESS);
        assert_eq!(status(Unwritten(closed(ErrorKind::StorageFull)).into()), ExitCode::FAILURE);
        assert_eq!(status(closed(ErrorKind::BrokenPipe).into()), ExitCode::FAILURE);
    }
}
