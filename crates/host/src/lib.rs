//! What programs ask of the operating system: random numbers, files that only their owner can read, file
//! names that survive a crash, files that are whole or are read again, what a signal undoes, panics of others
//! as errors, and an exit status. For programs and the libraries behind them; it holds no secret.

mod draft;
mod panics;
mod signals;
mod watched;

pub use draft::{Draft, write_private, write_whole};
pub use panics::without_panic;
#[cfg(feature = "tokio")]
pub use signals::{Hangups, stop_signal};
pub use signals::{Undone, outlive_hangups, undo_on_signals};
pub use watched::{FileStamp, WatchedFile, lock_beside, was_deleted};

use rand::SeedableRng;
use rand::rngs::SysRng;
use rand_chacha::ChaCha20Rng;
use std::borrow::Cow;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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

/// Creates a folder and its missing parents, for their owner alone on Unix. A folder that exists stays as it
/// is.
///
/// # Errors
/// Those of the operating system; for a file in the place of the folder, what to do.
pub fn private_folder(folder: &Path) -> io::Result<()> {
    let mut private = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700);
    private.recursive(true).create(folder).map_err(|error| no_folder(folder, error))
}

/// The error of a folder that could not be created, in words where a file is in its place.
pub fn no_folder(folder: &Path, error: io::Error) -> io::Error {
    match folder.ancestors().find(|path| path.exists() && !path.is_dir()) {
        Some(file) if file == folder => io::Error::other(
            "this is a file, and a folder is needed: name another place, or move the file away",
        ),
        Some(file) => io::Error::other(format!(
            "{} is a file, and a folder is needed in its place: name another place, or move the file away",
            file.display()
        )),
        None => error,
    }
}

/// Why a file with a secret is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "other users can read it (mode {mode:o}): run `chmod 600 {}`, and make another secret if anyone may have read it", path.display()
)]
pub struct ReadableByOthers {
    /// The file.
    pub path: PathBuf,
    /// Its mode.
    pub mode: u32,
}

/// Opens a file with a secret, which no other user may be able to read. What is no file, such as a pipe, is
/// opened whatever its mode, and so is everything where files have no modes.
///
/// # Errors
/// Those of the operating system, and [`ReadableByOthers`] inside of one.
pub fn open_private(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    check_private(path, &file)?;
    Ok(file)
}

/// Refuses an open file that other users can read, as [`open_private`] does.
///
/// # Errors
/// As [`open_private`].
pub fn check_private(path: &Path, file: &File) -> io::Result<()> {
    match mode_for_others(file)? {
        None => Ok(()),
        Some(mode) => {
            let refused = ReadableByOthers { path: path.to_owned(), mode };
            Err(io::Error::new(ErrorKind::PermissionDenied, refused))
        }
    }
}

/// The mode of a file that other users can read, or its group.
#[cfg(unix)]
fn mode_for_others(file: &File) -> io::Result<Option<u32>> {
    let metadata = file.metadata()?;
    let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
    Ok((metadata.is_file() && mode & 0o077 != 0).then_some(mode))
}

#[cfg(not(unix))]
fn mode_for_others(_: &File) -> io::Result<Option<u32>> {
    Ok(None)
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
            tell!("{prefix}: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// A line could not be written to stdout.
#[derive(Debug, thiserror::Error)]
#[error("writing to stdout: {0}")]
pub struct Unwritten(io::Error);

/// `text` from a file, a server or another person, as part of a line: characters that a terminal obeys
/// instead of showing them are written as `\u001b`, which TOML and JSON read as the same characters. These
/// are control characters, also those of C1, ends of lines, and marks that change the direction of writing.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, &[])
}

/// As [`visible`], but `kept` stand for themselves.
fn escaped<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    let marks = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let obeyed = |c: char| (c.is_control() || marks(c)) && !kept.contains(&c);
    if !text.chars().any(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    for c in text.chars() {
        match obeyed(c) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// What a program writes may have lines and columns of its own.
const OWN: [char; 2] = ['\n', '\t'];

/// Writes `text` and the end of a line to stderr, [`visible`] but for ends of lines and tabs. A stderr that
/// cannot be written, such as a log on a full disk, ends no program.
pub fn write_notice(text: std::fmt::Arguments) {
    let _ = writeln!(io::stderr(), "{}", escaped(&text.to_string(), &OWN));
}

/// As `eprintln!`, by [`write_notice`].
#[macro_export]
macro_rules! tell {
    ($($text:tt)*) => {
        $crate::write_notice(::std::format_args!($($text)*))
    };
}

/// Writes `text` and the end of a line to stdout, [`visible`] but for ends of lines and tabs.
///
/// # Errors
/// Those of the operating system, such as that of a pipe whose reader has closed it.
pub fn write_line(text: std::fmt::Arguments) -> Result<(), Unwritten> {
    writeln!(io::stdout(), "{}", escaped(&text.to_string(), &OWN)).map_err(Unwritten)
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

    /// A file is refused by each of the bits that let others read, write or run it, and the refusal names
    /// file, mode and remedy. Mode and kind are those of the file that was opened, whatever has its name by
    /// then.
    #[cfg(unix)]
    #[test]
    fn attack_a_secret_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        private_file().write(true).create_new(true).open(&path).unwrap();
        let set = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        for mode in [0o600, 0o400, 0o700] {
            set(mode);
            check_private(&path, &file).unwrap();
            open_private(&path).unwrap();
        }
        for bit in 0..6 {
            let mode = 0o600 | 1 << bit;
            set(mode);
            for refused in [check_private(&path, &file), open_private(&path).map(drop)] {
                let refused = refused.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
                let inner = refused.get_ref().unwrap().downcast_ref::<ReadableByOthers>().unwrap();
                assert_eq!(*inner, ReadableByOthers { path: path.clone(), mode });
                let said = refused.to_string();
                assert!(said.contains(&format!("chmod 600 {}", path.display())), "{said}");
                assert!(said.contains(&format!("mode {mode:o}")), "{said}");
            }
        }
        // Another file takes the name: what was opened is still what is judged.
        std::fs::rename(&path, folder.path().join("before")).unwrap();
        private_file().write(true).create_new(true).open(&path).unwrap();
        assert!(check_private(&path, &file).is_err());
        // What is no file has no content to be read by others.
        check_private(&path, &File::open("/dev/null").unwrap()).unwrap();
        assert_eq!(open_private(&folder.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
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

    /// A folder that cannot be synchronised is an error, and a name without a folder is one of this folder.
    #[cfg(unix)]
    #[test]
    fn a_folder_that_is_gone_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        sync_folder(folder.path()).unwrap();
        sync_folder_of(&folder.path().join("file")).unwrap();
        sync_folder_of(Path::new("file")).unwrap();
        let gone = folder.path().join("gone");
        assert_eq!(sync_folder(&gone).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(sync_folder_of(&gone.join("file")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    /// What this test prints when it runs in a process of its own, by the variable, is what a reader gets.
    #[test]
    fn lines_are_written_escaped() {
        const INSIDE: &str = "HOST_TEST_LINES";
        let name = "tests::lines_are_written_escaped";
        if std::env::var_os(INSIDE).is_some() {
            write_line(format_args!("a line\u{1b}[2J")).unwrap();
            write_notice(format_args!("a notice\u{1b}[2J"));
            return;
        }
        let mut inside = std::process::Command::new(std::env::current_exe().unwrap());
        let inside = inside.args(["--exact", name, "--nocapture"]).env(INSIDE, "").output().unwrap();
        let [out, err] = [inside.stdout, inside.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(inside.status.success() && out.contains("a line\\u001b[2J\n"), "{out}");
        assert!(err.contains("a notice\\u001b[2J\n"), "{err}");
    }

    #[test]
    fn a_file_in_the_place_of_a_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state");
        std::fs::write(&file, "").unwrap();
        let said = |path: &Path| private_folder(path).unwrap_err().to_string();
        assert!(said(&file).starts_with("this is a file, and a folder is needed"));
        assert!(said(&file.join("a/b")).contains("state is a file, and a folder is needed in its place"));
        private_folder(&folder.path().join("new/folder")).unwrap();
        private_folder(&folder.path().join("new/folder")).unwrap();
    }

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        assert_eq!(
            visible("a\u{1b}[31mb\u{9b}2J\u{7f}\n\t\0"),
            "a\\u001b[31mb\\u009b2J\\u007f\\u000a\\u0009\\u0000"
        );
        assert_eq!(visible("\u{202e}gpj\u{2066}\u{2028}\u{200f}"), "\\u202egpj\\u2066\\u2028\\u200f");
        for text in ["plain", "Zoë — 中文 𝒜", "e\u{301}", "👩\u{200d}🔬", "שלום"] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text), "{text}");
        }
        assert_eq!(escaped("two\n\tlines\r", &OWN), "two\n\tlines\\u000d");
    }
}
