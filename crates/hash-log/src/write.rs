//! Appending: one thread writes and synchronises what all others have asked for.

use crate::format::{GROUP_BYTES, GROUP_HEADER, GroupHeader, MAX_IDENTITY, MAX_LIMIT, SegmentHeader};
use crate::read::{Replayed, Scanned, Segment, scan, segment_path, segments};
use crate::{Error, Head};
use host::lock;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a log is idle before its writer adds a mark, an empty group.
const IDLE: Duration = Duration::from_secs(1);
/// The extension of a segment whose header is not durable yet.
const NEW: &str = "log.new";

/// A log that is open for appending. Dropping it writes and synchronises what waits, and a mark.
///
/// One process at a time may have a log open, and the caller sees to that.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    folder: PathBuf,
    limit: usize,
    writer: Option<JoinHandle<()>>,
}

impl Log {
    /// Creates an empty log in `folder`, which is made if it is not there. Folder, file and names are durable
    /// when this returns. `salt` is drawn uniformly at random and known to nobody who writes records. A
    /// record has at most `limit` bytes.
    ///
    /// # Errors
    /// [`Error::Exists`] if the folder has a log, [`Error::OutOfRange`] for an identity of more than 256
    /// bytes or a limit above 2³⁰, and those of the operating system.
    pub fn create(folder: &Path, identity: &[u8], limit: usize, salt: [u8; 32]) -> Result<Self, Error> {
        check(identity, limit)?;
        if let Some(segment) = segments(folder)?.first() {
            return Err(Error::Exists { path: segment.path.clone() });
        }
        if !folder.exists() {
            let mut builder = std::fs::DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(folder).map_err(Error::io("creating", folder))?;
        }
        host::sync_folder_of(folder).map_err(Error::io("synchronising", folder))?;
        let header = SegmentHeader { salt, start: Head::start(identity), identity: identity.to_vec() };
        let (segment, file) = create_segment(folder, &header)?;
        let writer = Writer::new(folder, &segment.path, header, file);
        Ok(Log::start(folder, limit, vec![segment], writer))
    }

    /// Opens the log in `folder`, and calls `visit` with each record after `from` and with the position after
    /// it.
    ///
    /// `from` is where the caller's snapshot was made, or [`Head::start`]. A group at the end that was not
    /// written completely is cut off, and a warning is logged. Everything visited is durable when this
    /// returns.
    ///
    /// The chain is verified from the beginning of the segment that holds `from`; memory is bounded by one
    /// group, which has at most 1 MiB or one record. `limit` may be larger than before, not smaller.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a byte that was durable is not as it was written, [`Error::Short`] if the log
    /// ends before `from`, [`Error::Diverged`] if it has other records there, [`Error::Missing`] if the
    /// segments up to `from` are not there, [`Error::Identity`] and [`Error::Version`] for files that are not
    /// of this log, [`Error::Limit`] if a record is longer than `limit`, those of the operating system and
    /// those of `visit`. After an error the caller drops what `visit` has made. The files are as before,
    /// except that after an error of a write the torn group may be cut off already.
    pub fn open<E: From<Error>>(
        folder: &Path,
        identity: &[u8],
        limit: usize,
        from: &Head,
        visit: impl FnMut(&Head, &[u8]) -> Result<(), E>,
    ) -> Result<(Self, Replayed), E> {
        check(identity, limit)?;
        let scanned = scan(folder, identity, limit, from, visit)?;
        let replayed = scanned.replayed;
        let segments = scanned.segments.clone();
        let writer = recover(folder, scanned)?;
        Ok((Log::start(folder, limit, segments, writer), replayed))
    }

    /// Asks for a record to be appended, and returns at once. Records are stored in the order of these calls.
    /// What waits is held in memory: the caller bounds how many requests it has under way.
    ///
    /// # Errors
    /// [`Error::TooLong`], or the error after which the log takes no more records.
    pub fn append(&self, record: &[u8]) -> Result<Ticket, Error> {
        if record.len() > self.limit {
            return Err(Error::TooLong { got: record.len(), limit: self.limit });
        }
        let record = record.into();
        self.ask(|promise| Request::Append(record, promise))
    }

    /// Asks for nothing to be appended: the ticket is durable when all records asked for until now are.
    ///
    /// # Errors
    /// The error after which the log takes no more records.
    pub fn flush(&self) -> Result<Ticket, Error> {
        self.ask(Request::Flush)
    }

    /// The position after the last durable record.
    pub fn head(&self) -> Head {
        lock(&self.shared.queue).head
    }

    /// Starts a new segment behind all records asked for until now, and returns the position where it starts.
    /// Nothing happens if the last segment has no record.
    ///
    /// The earlier segments stay, until [`remove_before`](Self::remove_before) removes them once a durable
    /// snapshot contains their records.
    ///
    /// # Errors
    /// Those of the operating system; the log then takes no more records.
    pub fn rotate(&self) -> Result<Head, Error> {
        self.ask(Request::Rotate)?.wait()
    }

    /// Removes the segments all of whose records are before `snapshot`, the position of a durable snapshot,
    /// and returns their paths. The last segment always stays.
    ///
    /// # Errors
    /// [`Error::Ahead`] if the log has no such position yet, and those of the operating system.
    pub fn remove_before(&self, snapshot: &Head) -> Result<Vec<PathBuf>, Error> {
        let records = self.head().records;
        if snapshot.records > records {
            return Err(Error::Ahead { got: snapshot.records, records });
        }
        let mut segments = lock(&self.shared.segments);
        let mut removed = Vec::new();
        // The oldest first: what a crash leaves is contiguous.
        while segments.get(1).is_some_and(|next| next.records <= snapshot.records) {
            let path = segments[0].path.clone();
            std::fs::remove_file(&path).map_err(Error::io("removing", &path))?;
            segments.remove(0);
            removed.push(path);
        }
        if !removed.is_empty() {
            host::sync_folder(&self.folder).map_err(Error::io("synchronising", &self.folder))?;
        }
        Ok(removed)
    }

    fn start(folder: &Path, limit: usize, segments: Vec<Segment>, mut writer: Writer) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue {
                requests: VecDeque::new(),
                closing: false,
                failed: None,
                head: writer.head,
            }),
            asked: Condvar::new(),
            segments: Mutex::new(segments),
        });
        let ending = Ending(shared.clone());
        let thread = std::thread::spawn(move || writer.run(&ending.0));
        Log { shared, folder: folder.into(), limit, writer: Some(thread) }
    }

    fn ask(&self, request: impl FnOnce(Promise) -> Request) -> Result<Ticket, Error> {
        let outcome = Arc::new(Outcome::default());
        {
            let mut queue = lock(&self.shared.queue);
            if let Some(error) = &queue.failed {
                return Err(error.clone());
            }
            queue.requests.push_back(request(Promise(outcome.clone())));
        }
        self.shared.asked.notify_one();
        Ok(Ticket(outcome))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        lock(&self.shared.queue).closing = true;
        self.shared.asked.notify_one();
        if let Some(writer) = self.writer.take() {
            // It has told those who wait if it panicked.
            let _ = writer.join();
        }
    }
}

/// A record that was asked for. It is durable, and may be acknowledged, once [`wait`](Self::wait) or the
/// future has returned its position. After an error it may be stored or not, which the log says when it is
/// opened again.
///
/// A ticket may be dropped: the record is stored all the same.
#[must_use = "the record is not durable yet"]
#[derive(Debug)]
pub struct Ticket(Arc<Outcome>);

impl Ticket {
    /// Blocks until the record is durable, and returns the position after it.
    ///
    /// # Errors
    /// [`Error::DiskFull`] or [`Error::Io`], the same for each later record.
    pub fn wait(self) -> Result<Head, Error> {
        let mut state = lock(&self.0.state);
        loop {
            if let Some(result) = &state.result {
                return result.clone();
            }
            state = self.0.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// As [`Ticket::wait`], for a task of any executor.
impl Future for Ticket {
    type Output = Result<Head, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.0.state);
        if let Some(result) = &state.result {
            return Poll::Ready(result.clone());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

#[derive(Debug, Default)]
struct Outcome {
    state: Mutex<OutcomeState>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct OutcomeState {
    result: Option<Result<Head, Error>>,
    waker: Option<Waker>,
}

/// The writer's end of a ticket. Dropped without a result it gives an error, so that nobody waits for ever.
#[derive(Debug)]
struct Promise(Arc<Outcome>);

impl Promise {
    fn set(&self, result: Result<Head, Error>) {
        let mut state = lock(&self.0.state);
        if state.result.is_none() {
            state.result = Some(result);
            let waker = state.waker.take();
            drop(state);
            self.0.done.notify_one();
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.set(Err(ENDED));
    }
}

const ENDED: Error = Error::Broken("the thread that writes the log ended");

#[derive(Debug)]
enum Request {
    Append(Box<[u8]>, Promise),
    Flush(Promise),
    Rotate(Promise),
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    asked: Condvar,
    segments: Mutex<Vec<Segment>>,
}

#[derive(Debug)]
struct Queue {
    requests: VecDeque<Request>,
    closing: bool,
    /// The error after which nothing is written any more.
    failed: Option<Error>,
    /// After the last durable record.
    head: Head,
}

impl Shared {
    /// Refuses what waits and all that comes.
    fn fail(&self, error: Error) {
        let (requests, error) = {
            let mut queue = lock(&self.queue);
            let error = queue.failed.get_or_insert(error).clone();
            (std::mem::take(&mut queue.requests), error)
        };
        for request in requests {
            let (Request::Append(_, promise) | Request::Flush(promise) | Request::Rotate(promise)) = request;
            promise.set(Err(error.clone()));
        }
    }
}

/// Refuses all requests when the writer's thread ends, even by a panic.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.fail(ENDED);
    }
}

fn check(identity: &[u8], limit: usize) -> Result<(), Error> {
    for (field, got, max) in [("the identity", identity.len(), MAX_IDENTITY), ("the limit", limit, MAX_LIMIT)]
    {
        if got > max {
            return Err(Error::OutOfRange { field, got, max });
        }
    }
    Ok(())
}

/// Creates the segment with this header. Its name appears once its header is durable.
fn create_segment(folder: &Path, header: &SegmentHeader) -> Result<(Segment, File), Error> {
    let records = header.start.records;
    let path = segment_path(folder, records);
    let new = path.with_extension(NEW);
    let write = || {
        let mut file = host::private_file().write(true).create(true).truncate(true).open(&new)?;
        file.write_all(&header.to_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        host::sync_folder(folder)?;
        Ok(file)
    };
    let file = write().map_err(Error::io("creating", &path))?;
    Ok((Segment { path, records }, file))
}

/// Makes the log end with its last complete group, and makes that group durable.
fn recover(folder: &Path, scanned: Scanned) -> Result<Writer, Error> {
    let Scanned { replayed, segments, header, end, last } = scanned;
    let path = &segments.last().ok_or(Error::Broken("a log that was read has a segment"))?.path;
    if replayed.torn > 0 {
        tracing::warn!(
            "{}: {} bytes after byte {end} are cut off, a group that was never acknowledged; {} records stay",
            path.display(),
            replayed.torn,
            replayed.head.records
        );
    }
    let write = || {
        let mut file = File::options().read(true).write(true).open(path)?;
        file.set_len(end)?;
        // These bytes may be in the cache and not on the disk: the process was killed before it synchronised
        // them, or the disk failed then, after which Linux takes them for written. They are written once
        // more.
        if let Some((offset, bytes)) = &last {
            file.seek(SeekFrom::Start(*offset))?;
            file.write_all(bytes)?;
        }
        file.seek(SeekFrom::Start(end))?;
        file.sync_all()?;
        // What a crash left of a new segment, and a rename right before a crash.
        for file in std::fs::read_dir(folder)? {
            let path = file?.path();
            if path.to_string_lossy().ends_with(&format!(".{NEW}")) {
                std::fs::remove_file(path)?;
            }
        }
        host::sync_folder(folder)?;
        Ok(file)
    };
    let file = write().map_err(Error::io("recovering", path))?;
    let marked = last.as_ref().is_none_or(|(_, bytes)| bytes.len() == GROUP_HEADER);
    let mut writer = Writer::new(folder, path, header, file);
    (writer.head, writer.marked) = (replayed.head, marked);
    if !marked {
        writer.write(&[])?;
    }
    Ok(writer)
}

/// What the writer's thread does next.
enum Work {
    Group(Vec<(Box<[u8]>, Promise)>),
    Rotate(Promise),
    Mark,
    Close,
}

struct Writer {
    folder: PathBuf,
    path: PathBuf,
    header: SegmentHeader,
    key: [u8; 32],
    /// The last segment, at its end.
    file: File,
    head: Head,
    /// Whether the segment ends with a mark, or has no group.
    marked: bool,
    buffer: Vec<u8>,
}

impl Writer {
    fn new(folder: &Path, path: &Path, header: SegmentHeader, file: File) -> Self {
        Writer {
            folder: folder.into(),
            path: path.into(),
            key: header.group_key(),
            head: header.start,
            header,
            file,
            marked: true,
            buffer: Vec::new(),
        }
    }

    fn run(&mut self, shared: &Shared) {
        loop {
            let work = self.next(shared);
            let closes = matches!(work, Work::Close);
            let error = match work {
                Work::Group(group) => {
                    let (records, promises): (Vec<_>, Vec<_>) = group.into_iter().unzip();
                    match self.write(&records) {
                        Ok(heads) => {
                            lock(&shared.queue).head = self.head;
                            promises.into_iter().zip(heads).for_each(|(promise, head)| promise.set(Ok(head)));
                            None
                        }
                        Err(e) => {
                            promises.into_iter().for_each(|promise| promise.set(Err(e.clone())));
                            Some(e)
                        }
                    }
                }
                Work::Rotate(promise) => {
                    let rotated = self.rotate(shared);
                    promise.set(rotated.clone());
                    rotated.err()
                }
                Work::Mark | Work::Close if self.marked => None,
                Work::Mark | Work::Close => self.write(&[]).err(),
            };
            if let Some(error) = error {
                tracing::error!("{error}");
                return shared.fail(error);
            }
            if closes {
                return;
            }
        }
    }

    /// Waits for a request. What has come meanwhile becomes one group, up to its largest size.
    fn next(&self, shared: &Shared) -> Work {
        let mut queue = lock(&shared.queue);
        let mut idle = false;
        loop {
            match queue.requests.pop_front() {
                Some(Request::Rotate(promise)) => return Work::Rotate(promise),
                // What came before it is written.
                Some(Request::Flush(promise)) => promise.set(Ok(self.head)),
                Some(Request::Append(record, promise)) => {
                    let mut bytes = 4 + record.len();
                    let mut group = vec![(record, promise)];
                    while let Some(Request::Append(record, _)) = queue.requests.front() {
                        bytes += 4 + record.len();
                        if bytes > GROUP_BYTES {
                            break;
                        }
                        let Some(Request::Append(record, promise)) = queue.requests.pop_front() else {
                            break;
                        };
                        group.push((record, promise));
                    }
                    return Work::Group(group);
                }
                None if queue.closing => return Work::Close,
                None if idle => return Work::Mark,
                None if self.marked => {
                    queue = shared.asked.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
                None => {
                    let waited = shared.asked.wait_timeout(queue, IDLE);
                    let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                    (queue, idle) = (guard, timeout.timed_out());
                }
            }
        }
    }

    /// Writes one group with these records and synchronises it. Returns the position after each record.
    fn write(&mut self, records: &[Box<[u8]>]) -> Result<Vec<Head>, Error> {
        let mut head = self.head;
        let mut heads = Vec::with_capacity(records.len());
        self.buffer.clear();
        self.buffer.resize(GROUP_HEADER, 0);
        for record in records {
            head = head.after(record);
            heads.push(head);
            // `append` has checked that the length is at most 2³⁰.
            self.buffer.extend((record.len() as u32).to_le_bytes());
            self.buffer.extend(record);
        }
        let body = (self.buffer.len() - GROUP_HEADER) as u32;
        let header = GroupHeader { body, records: self.head.records, hash: head.hash };
        self.buffer[..GROUP_HEADER].copy_from_slice(&header.to_bytes(&self.key));
        self.file.write_all(&self.buffer).map_err(Error::io("appending to", &self.path))?;
        // Never tried again: see the crate's documentation.
        self.file.sync_data().map_err(Error::io("synchronising", &self.path))?;
        (self.head, self.marked) = (head, records.is_empty());
        Ok(heads)
    }

    fn rotate(&mut self, shared: &Shared) -> Result<Head, Error> {
        if self.head.records > self.header.start.records {
            let identity = self.header.identity.clone();
            let header = SegmentHeader { salt: self.header.salt, start: self.head, identity };
            let (segment, file) = create_segment(&self.folder, &header)?;
            let head = self.head;
            *self = Writer::new(&self.folder, &segment.path, header, file);
            debug_assert_eq!(self.head, head);
            lock(&shared.segments).push(segment);
        }
        Ok(self.head)
    }
}
