//! Reading a log: which segments there are, which records they have, and where the durable ones end.

use crate::format::{GROUP_HEADER, GROUP_MAGIC, GroupHeader, MAX_HEADER, SegmentHeader, max_body, records};
use crate::{Error, Head};
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// What a reading found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    /// The end of the last complete group.
    pub head: Head,
    /// Bytes after it: of a group that was never acknowledged.
    pub torn: u64,
}

/// Reads the records after `from` in order, and calls `visit` with each and the position after it. Nothing is
/// changed: for an audit, beside a server that appends too. Records that were not acknowledged yet may be
/// among them.
///
/// The chain is verified from the beginning of the segment that holds `from`; memory is bounded by one group,
/// which has at most 1 MiB or one record. `limit` is that of the server, or larger.
///
/// # Errors
/// Those of [`Log::open`](crate::Log::open) and those of `visit`. `visit` has then seen the records before
/// the error.
pub fn replay<E: From<Error>>(
    folder: &Path,
    identity: &[u8],
    limit: usize,
    from: &Head,
    visit: impl FnMut(&Head, &[u8]) -> Result<(), E>,
) -> Result<Replayed, E> {
    scan(folder, identity, limit, from, visit).map(|scanned| scanned.replayed)
}

/// What a writer continues from.
pub(crate) struct Scanned {
    pub(crate) replayed: Replayed,
    pub(crate) segments: Vec<Segment>,
    pub(crate) header: SegmentHeader,
    /// The end of the last complete group of the last segment.
    pub(crate) end: u64,
    /// That group: its offset and its bytes.
    pub(crate) last: Option<(u64, Vec<u8>)>,
}

/// A file of the log.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    /// Records before its first one, as its name says.
    pub(crate) records: u64,
}

/// The name of the segment that begins after this many records: 20 digits, so that names sort as numbers do.
pub(crate) fn segment_path(folder: &Path, records: u64) -> PathBuf {
    folder.join(format!("{records:020}.log"))
}

/// The segments in `folder`, in order. A folder that is not there has none.
pub(crate) fn segments(folder: &Path) -> Result<Vec<Segment>, Error> {
    let files = match std::fs::read_dir(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        files => files.map_err(Error::io("reading", folder))?,
    };
    let mut segments = Vec::new();
    for file in files {
        let path = file.map_err(Error::io("reading", folder))?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".log")?.parse().ok());
        if let Some(records) = number.filter(|records| segment_path(folder, *records) == path) {
            segments.push(Segment { path, records });
        }
    }
    segments.sort_by_key(|segment| segment.records);
    Ok(segments)
}

pub(crate) fn scan<E: From<Error>>(
    folder: &Path,
    identity: &[u8],
    limit: usize,
    from: &Head,
    mut visit: impl FnMut(&Head, &[u8]) -> Result<(), E>,
) -> Result<Scanned, E> {
    let segments = segments(folder)?;
    let missing = || Error::Missing { folder: folder.into(), records: from.records };
    let first = segments.iter().rposition(|s| s.records <= from.records).ok_or_else(missing)?;
    let mut reader = SegmentReader::open(&segments[first], identity, limit)?;
    let mut head = reader.header.start;
    reader.compare(&head, from, 0)?;
    for next in &segments[first + 1..] {
        reader.groups(&mut head, from, &mut visit)?;
        if reader.end < reader.len {
            return Err(reader
                .damaged("the group is not as it was written, and a later segment follows")
                .into());
        }
        reader = SegmentReader::open(next, identity, limit)?;
        if reader.header.start != head {
            return Err(reader.damaged("the segment does not continue the one before").into());
        }
    }
    reader.groups(&mut head, from, &mut visit)?;
    if head.records < from.records {
        let path = reader.path.clone();
        return Err(
            Error::Short { path, offset: reader.end, records: head.records, want: from.records }.into()
        );
    }
    let replayed = Replayed { head, torn: reader.len - reader.end };
    let SegmentReader { header, end, last, .. } = reader;
    Ok(Scanned { replayed, segments, header, end, last })
}

struct SegmentReader {
    path: PathBuf,
    limit: usize,
    header: SegmentHeader,
    key: [u8; 32],
    file: BufReader<File>,
    /// Bytes of the file when it was opened: what is appended later is not read.
    len: u64,
    /// The end of the last complete group.
    end: u64,
    last: Option<(u64, Vec<u8>)>,
}

impl SegmentReader {
    fn open(segment: &Segment, identity: &[u8], limit: usize) -> Result<Self, Error> {
        let path = segment.path.clone();
        let read = || {
            let file = File::open(&path)?;
            let len = file.metadata()?.len();
            let mut file = BufReader::with_capacity(1 << 18, file);
            let mut bytes = Vec::new();
            Read::by_ref(&mut file).take((MAX_HEADER as u64).min(len)).read_to_end(&mut bytes)?;
            Ok((file, len, bytes))
        };
        let (mut file, len, bytes) = read().map_err(Error::io("reading", &path))?;
        let (header, end) = SegmentHeader::parse(&bytes, identity, &path)?;
        let damaged = |what| Err(Error::Damaged { path: path.clone(), offset: 0, what });
        if header.start.records != segment.records {
            return damaged("the header has another number of records than the name");
        }
        if segment.records == 0 && header.start != Head::start(identity) {
            return damaged("the first segment does not begin the chain");
        }
        file.seek(SeekFrom::Start(end as u64)).map_err(Error::io("reading", &path))?;
        let key = header.group_key();
        Ok(SegmentReader { path, limit, header, key, file, len, end: end as u64, last: None })
    }

    /// Reads groups until the end of the file, or until one that was not written completely.
    fn groups<E: From<Error>>(
        &mut self,
        head: &mut Head,
        from: &Head,
        visit: &mut impl FnMut(&Head, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(Group { heads, bytes }) = self.group(head)? {
            // `group` has checked that these are as many.
            let records = records(&bytes[GROUP_HEADER..]).unwrap_or_default();
            for (record, after) in records.into_iter().zip(heads) {
                *head = after;
                self.compare(head, from, self.end)?;
                if head.records > from.records {
                    visit(head, record)?;
                }
            }
            let start = self.end;
            self.end += bytes.len() as u64;
            self.last = Some((start, bytes));
        }
        Ok(())
    }

    /// The next group, whose records continue the chain from `head`; or `None` at the end or before a torn
    /// group.
    fn group(&mut self, head: &Head) -> Result<Option<Group>, Error> {
        let rest = self.len - self.end;
        if rest < GROUP_HEADER as u64 {
            return Ok(None);
        }
        let mut bytes = vec![0; GROUP_HEADER];
        self.read(&mut bytes)?;
        let header = bytes.first_chunk().and_then(|bytes| GroupHeader::parse(bytes, &self.key));
        let Some(header) = header else { return self.torn(rest) };
        if header.records != head.records {
            return Err(self.damaged("the group belongs elsewhere in the log"));
        }
        let body = header.body as usize;
        let limit = self.limit;
        let too_long = |r: &SegmentReader| Error::Limit { path: r.path.clone(), offset: r.end, limit };
        if body > max_body(limit) {
            return Err(too_long(self));
        }
        let size = (GROUP_HEADER + body) as u64;
        if rest < size {
            return self.torn(rest);
        }
        bytes.resize(GROUP_HEADER + body, 0);
        self.read(&mut bytes[GROUP_HEADER..])?;
        let Some(list) = records(&bytes[GROUP_HEADER..]) else { return self.changed(rest, size) };
        let mut end = *head;
        let heads: Vec<_> = list
            .iter()
            .map(|record| {
                end = end.after(record);
                end
            })
            .collect();
        if end.hash != header.hash {
            return self.changed(rest, size);
        }
        if list.iter().any(|record| record.len() > limit) {
            return Err(too_long(self));
        }
        Ok(Some(Group { heads, bytes }))
    }

    /// As [`torn`](Self::torn), for a group of `size` bytes that are all there and not as they were written.
    fn changed<T>(&mut self, rest: u64, size: u64) -> Result<Option<T>, Error> {
        // The last group to be written is the only one that may be torn, and nothing follows that one.
        if rest > size {
            return Err(self.damaged("the group is not as it was written, and bytes follow it"));
        }
        self.torn(rest)
    }

    /// `None` if the `rest` of the file can be one torn group, and an error if it was more.
    fn torn<T>(&mut self, rest: u64) -> Result<Option<T>, Error> {
        if rest > (GROUP_HEADER + max_body(self.limit)) as u64 {
            return Err(
                self.damaged("the group is not as it was written, and more bytes follow than a group has")
            );
        }
        let follows = self.group_follows(rest).map_err(Error::io("reading", &self.path))?;
        if follows {
            return Err(self.damaged("the group is not as it was written, and another one follows"));
        }
        Ok(None)
    }

    /// Whether the header of a group begins anywhere after the group at `self.end`.
    fn group_follows(&mut self, rest: u64) -> io::Result<bool> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(self.end + 1))?;
        Read::by_ref(&mut self.file).take(rest - 1).read_to_end(&mut bytes)?;
        let header = |bytes: &[u8]| {
            bytes.starts_with(&GROUP_MAGIC)
                && bytes.first_chunk().is_some_and(|bytes| GroupHeader::parse(bytes, &self.key).is_some())
        };
        Ok(bytes.windows(GROUP_HEADER).any(header))
    }

    /// Refuses a log whose chain differs from the caller's at the caller's position.
    fn compare(&self, head: &Head, from: &Head, offset: u64) -> Result<(), Error> {
        if head.records == from.records && head != from {
            let path = self.path.clone();
            return Err(Error::Diverged { path, offset, records: from.records });
        }
        Ok(())
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact(bytes).map_err(Error::io("reading", &self.path))
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { path: self.path.clone(), offset: self.end, what }
    }
}

/// A group that is as it was written.
struct Group {
    /// The position after each record.
    heads: Vec<Head>,
    /// Header and body.
    bytes: Vec<u8>,
}
