//! Files that a program changes while others, which run, read them again.

use crate::{lock, private_file};
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// The time after which a file that could not be read is read again. Its stamp need not change: the owner of
/// a file may, or the process may have had too many files open.
const RETRY: Duration = Duration::from_secs(1);

/// What tells one version of a file from another one under the same name.
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

/// What a file says, which is read again when the file has changed.
#[derive(Debug)]
pub struct WatchedFile<T> {
    path: PathBuf,
    seen: Mutex<Seen<T>>,
}

/// What was read last.
#[derive(Debug)]
struct Seen<T> {
    /// That of the file. `None` if there was none.
    stamp: Option<FileStamp>,
    /// `None` if the file was deleted or cannot be read.
    value: Option<T>,
    /// When it could not be read.
    failed: Option<Instant>,
}

impl<T: Clone> WatchedFile<T> {
    /// The file at `path`, which said `value` when it had this stamp; without a stamp there was none.
    pub fn new(path: &Path, stamp: Option<FileStamp>, value: T) -> Self {
        let seen = Mutex::new(Seen { stamp, value: Some(value), failed: None });
        WatchedFile { path: path.to_owned(), seen }
    }

    /// What the file says now, by `read` where it has changed, which returns `None` without a file. `None`
    /// for a file that was deleted or cannot be read.
    pub fn current<E>(&self, read: impl FnOnce() -> Result<Option<(FileStamp, T)>, E>) -> Option<T> {
        self.current_at(Instant::now(), read)
    }

    fn current_at<E>(
        &self,
        now: Instant,
        read: impl FnOnce() -> Result<Option<(FileStamp, T)>, E>,
    ) -> Option<T> {
        let mut seen = lock(&self.seen);
        let stamp = FileStamp::now(&self.path);
        let again = seen.failed.is_some_and(|at| now.saturating_duration_since(at) >= RETRY);
        if stamp != seen.stamp || again {
            *seen = match read() {
                Ok(Some((stamp, value))) => Seen { stamp: Some(stamp), value: Some(value), failed: None },
                Ok(None) => Seen { stamp: None, value: None, failed: None },
                Err(_) => Seen { stamp, value: None, failed: Some(now) },
            };
        }
        seen.value.clone()
    }
}

/// Locks the file beside `path` whose name ends in `.lock`, until the result is dropped: a program that reads
/// `path` to replace it waits for another one that does, so that no change is lost.
///
/// # Errors
/// Those of the operating system.
pub fn lock_beside(path: &Path) -> io::Result<File> {
    let alone = private_file().write(true).create(true).open(path.with_extension("lock"))?;
    alone.lock()?;
    Ok(alone)
}

/// Whether there was a file at `path` and is none now: [`lock_beside`] leaves its lock there.
pub fn was_deleted(path: &Path) -> bool {
    !path.exists() && path.with_extension("lock").exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    /// A change of a file shows in its stamp, by its time, its length or another file under its name.
    #[test]
    fn a_stamp_tells_versions_of_a_file_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(FileStamp::now(&path), None);
        std::fs::write(&path, "one").unwrap();
        let first = FileStamp::now(&path).unwrap();
        assert_eq!(FileStamp::now(&path), Some(first));
        let open = || OpenOptions::new().write(true).open(&path).unwrap();
        open().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let second = FileStamp::now(&path).unwrap();
        assert_ne!(first, second);
        std::fs::write(&path, "other").unwrap();
        open().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let third = FileStamp::now(&path).unwrap();
        assert_ne!(second, third);
        #[cfg(unix)]
        {
            let beside = folder.path().join("beside");
            std::fs::copy(&path, &beside).unwrap();
            std::fs::rename(&beside, &path).unwrap();
            open().set_modified(SystemTime::UNIX_EPOCH).unwrap();
            assert_ne!(FileStamp::now(&path), Some(third));
        }
    }

    /// A file that could not be read is read again, also if nothing of its stamp has changed since, as after
    /// a change of its owner.
    #[test]
    fn a_failed_read_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let write = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)).unwrap();
            FileStamp::now(&path)
        };
        let watched = WatchedFile::new(&path, write("12"), 12);
        let now = Instant::now();
        let says = |after: Duration| {
            watched.current_at(now + after, || -> Result<_, Box<dyn std::error::Error>> {
                let value: u32 = std::fs::read_to_string(&path)?.parse()?;
                Ok(FileStamp::now(&path).map(|stamp| (stamp, value)))
            })
        };
        assert_eq!(says(Duration::ZERO), Some(12));
        let bad = write("bad");
        assert_eq!(says(Duration::ZERO), None);
        assert_eq!(write("123"), bad, "the stamp is the same");
        assert_eq!(says(RETRY / 2), None, "one try a second");
        assert_eq!(says(RETRY), Some(123));
        assert_eq!(says(RETRY * 3), Some(123));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(says(RETRY * 4), None);
    }
}
