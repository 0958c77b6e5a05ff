use fault::Fault;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The reason why a log was refused, or why a record is not durable.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Misuse: a record longer than the limit that the log was opened with.
    #[error("the record has {got} bytes, and at most {limit} are accepted")]
    TooLong {
        /// Its length.
        got: usize,
        /// The limit.
        limit: usize,
    },
    /// Misuse: an identity or a limit out of range.
    #[error("{field} of a log is {got}, it must be at most {max}")]
    OutOfRange {
        /// The parameter.
        field: &'static str,
        /// Its value.
        got: usize,
        /// The largest value.
        max: usize,
    },
    /// Misuse: a log is created where there is one.
    #[error("{} is there already: open the log instead of creating it", path.display())]
    Exists {
        /// Its first segment.
        path: PathBuf,
    },
    /// Misuse: segments are to be removed up to a record that the log does not have.
    #[error("the log has {records} durable records, and segments up to record {got} were to be removed")]
    Ahead {
        /// The number of records of the position given.
        got: u64,
        /// The number of durable records.
        records: u64,
    },
    /// The folder has no segment that holds the records after the position.
    #[error(
        "{} has no segment with the records after the first {records}: restore the folder from a backup",
        folder.display()
    )]
    Missing {
        /// The folder.
        folder: PathBuf,
        /// The number of records before the position.
        records: u64,
    },
    /// The file is a segment of another log.
    #[error("{} belongs to another bandit or to other keys; nothing was changed", path.display())]
    Identity {
        /// The file.
        path: PathBuf,
    },
    /// The file has a format version that this program does not read.
    #[error("{} has format version {got}, this program reads version {want}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        got: u32,
        /// The version of this program.
        want: u32,
    },
    /// Bytes that were durable are changed or missing.
    #[error(
        "{} is damaged at byte {offset}: {what}. Nothing was changed; restore the folder from a backup",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The offset of the first group that is not as it was written.
        offset: u64,
        /// What was found.
        what: &'static str,
    },
    /// The log ends before the position that the caller continues from.
    #[error(
        "{} ends at byte {offset} with {records} records, and the snapshot contains {want}. Nothing was changed; \
         restore the folder from a backup that is no older than the snapshot",
        path.display()
    )]
    Short {
        /// The last file.
        path: PathBuf,
        /// The end of its last complete group.
        offset: u64,
        /// The number of records up to there.
        records: u64,
        /// The number of records of the position.
        want: u64,
    },
    /// The log has other records before the position than those that the caller's snapshot contains.
    #[error(
        "{}: the first {records} records, up to the group at byte {offset}, are not those that the snapshot \
         contains. Nothing was changed; restore log and snapshot from the same backup",
        path.display()
    )]
    Diverged {
        /// The file.
        path: PathBuf,
        /// The offset of the group.
        offset: u64,
        /// The number of records before the position.
        records: u64,
    },
    /// A stored record is longer than the limit that the log is opened with.
    #[error("{}: the group at byte {offset} has a record of more than {limit} bytes, the limit given", path.display())]
    Limit {
        /// The file.
        path: PathBuf,
        /// The offset of the group.
        offset: u64,
        /// The limit.
        limit: usize,
    },
    /// No room on the disk. The record may or may not be stored, and the log takes no more records until it
    /// is opened again.
    #[error("no room on the disk for {}: make room, and open the log again", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused a file. If that was a write, the record may or may not be stored, and the
    /// log takes no more records until it is opened again.
    #[error("{what} {}: {error}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        error: Arc<io::Error>,
    },
    /// Bug: cannot happen.
    #[error("broken invariant: {0}")]
    Broken(&'static str),
}

impl Error {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::TooLong { .. } => Fault::TooLong,
            Error::OutOfRange { .. }
            | Error::Exists { .. }
            | Error::Ahead { .. }
            | Error::Missing { .. }
            | Error::Identity { .. }
            | Error::Version { .. }
            | Error::Damaged { .. }
            | Error::Short { .. }
            | Error::Diverged { .. }
            | Error::Limit { .. }
            | Error::DiskFull { .. }
            | Error::Io { .. }
            | Error::Broken(_) => Fault::Internal,
        }
    }

    /// The error of `what` on `path`.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let path = path.to_path_buf();
        move |error| match error.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Error::DiskFull { path },
            _ => Error::Io { what, path, error: Arc::new(error) },
        }
    }
}
