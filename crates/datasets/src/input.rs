//! The bytes of a file, whatever its form: unpacked, in UTF-8, and to be read again where a pipe is read
//! once.

use crate::{Error, MAX_LINE, MAX_PIPED};
use flate2::bufread::MultiGzDecoder;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How much of a text is looked at before it is read.
const SAMPLE: usize = 1 << 16;
/// The most memory of a window of zstd, as a power of two: that of `zstd --long`.
const MAX_WINDOW: u32 = 27;

pub(crate) const TOO_LONG: &str =
    "a line is longer than 1 MiB: shorten it, or look for missing ends of lines";

/// What a file holds.
pub(crate) enum Content {
    Text(TextLines),
    Parquet(Raw),
}

/// Opens a file, and finds out what it holds by its first bytes.
pub(crate) fn open(path: &Path) -> Result<Content, Error> {
    let fault = |reason: String| Error::file(path, 0, reason);
    let read_fault = |e: io::Error| fault(e.to_string());
    let mut raw = raw(path)?;
    let start = start_of(&mut raw, FORM_BYTES).map_err(read_fault)?;
    let named = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("parquet"));
    if start.starts_with(PARQUET) || named && std::str::from_utf8(&start).is_err() {
        raw.rewind().map_err(read_fault)?;
        return Ok(Content::Parquet(raw));
    }
    let whole = BufReader::new(Cursor::new(start.clone()).chain(raw));
    let (mut reader, packed): (Box<dyn Read>, _) = match () {
        () if start.starts_with(&[0x1f, 0x8b]) => (Box::new(MultiGzDecoder::new(whole)), "gzip"),
        () if is_zstd(&start) => {
            let mut reader = zstd::Decoder::with_buffer(whole).map_err(read_fault)?;
            reader.window_log_max(MAX_WINDOW).map_err(read_fault)?;
            (Box::new(reader), "zstd")
        }
        () => (Box::new(whole), ""),
    };
    if !packed.is_empty() {
        reader = Box::new(Packed { reader, packed });
    }
    let start = start_of(&mut reader, FORM_BYTES).map_err(read_fault)?;
    if start.starts_with(PARQUET) {
        return Err(fault(format!("this is a Parquet file packed with {packed}: unpack it first")));
    }
    if let Some((what, advice)) = unreadable(&start) {
        let within = if packed.is_empty() { String::new() } else { format!(" packed with {packed}") };
        return Err(fault(format!("this is {what}{within}: {advice}")));
    }
    let whole = Cursor::new(start.clone()).chain(reader);
    let mut reader: Box<dyn Read> = match utf16(&start) {
        Some(big) => {
            Box::new(Utf16 { reader: whole, big, units: Vec::new(), odd: None, out: Cursor::default() })
        }
        None if start.contains(&0) => {
            let reason = "this is no text, because it has bytes that are zero: write the table as CSV in UTF-8, or as Parquet";
            return Err(fault(reason.into()));
        }
        None => Box::new(whole),
    };
    let mut sample = start_of(&mut reader, SAMPLE).map_err(read_fault)?;
    if sample.starts_with(MARK) {
        sample.drain(..MARK.len());
    }
    // Old Macintosh programs end lines with a carriage return alone.
    let end = if sample.contains(&b'\r') && !sample.contains(&b'\n') { b'\r' } else { b'\n' };
    let reader: Box<dyn Read> = Box::new(Cursor::new(sample.clone()).chain(reader));
    Ok(Content::Text(TextLines { path: path.into(), reader: BufReader::new(reader), end, line: 0, sample }))
}

/// As [`open`], for what is text.
pub(crate) fn open_text(path: &Path) -> Result<TextLines, Error> {
    match open(path)? {
        Content::Text(lines) => Ok(lines),
        Content::Parquet(_) => {
            Err(Error::file(path, 0, "this is a Parquet file, and a text is needed: give another file"))
        }
    }
}

/// Whether a text begins with the brace of an object in JSON.
pub(crate) fn begins_with_brace(path: &Path) -> Result<bool, Error> {
    Ok(match open(path)? {
        Content::Text(lines) => lines.sample.trim_ascii_start().starts_with(b"{"),
        Content::Parquet(_) => false,
    })
}

/// The lines of a text, each without its end.
pub(crate) struct TextLines {
    path: PathBuf,
    reader: BufReader<Box<dyn Read>>,
    end: u8,
    line: u64,
    sample: Vec<u8>,
}

impl TextLines {
    /// Reads the next line, and returns its number, from 1; `None` after the last.
    pub(crate) fn read(&mut self, into: &mut Vec<u8>) -> Result<Option<u64>, Error> {
        into.clear();
        self.line += 1;
        let limited = (&mut self.reader).take(MAX_LINE as u64 + 1).read_until(self.end, into);
        let got = limited.map_err(|e| Error::file(&self.path, self.line, e.to_string()))?;
        if got > MAX_LINE {
            return Err(Error::file(&self.path, self.line, TOO_LONG));
        }
        if got == 0 {
            return Ok(None);
        }
        if into.last() == Some(&self.end) {
            into.pop();
        }
        if self.end == b'\n' && into.last() == Some(&b'\r') {
            into.pop();
        }
        Ok(Some(self.line))
    }

    /// The first lines: those that lie within 64 KiB, or the whole text if it is shorter.
    pub(crate) fn sample(&self) -> Vec<&[u8]> {
        let whole = self.sample.len() < SAMPLE;
        let mut lines: Vec<&[u8]> = self.sample.split(|byte| *byte == self.end).collect();
        if !whole && lines.len() > 1 {
            lines.pop();
        }
        lines.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The whole text, of at most `most` bytes.
    pub(crate) fn whole(mut self, most: u64) -> Result<String, Error> {
        let mut text = String::new();
        let read = (&mut self.reader).take(most).read_to_string(&mut text);
        read.map_err(|e| Error::file(&self.path, 0, format!("cannot be read as UTF-8 text: {e}")))?;
        Ok(text)
    }
}

/// The bytes as they are stored. A file is read where it lies. What can be read only once, such as a pipe, is
/// read to its end when it is opened first, and kept until the process ends, in a file without a name.
pub(crate) enum Raw {
    File(File),
    Kept { kept: Arc<Kept>, at: u64 },
}

/// What was read from a pipe.
pub(crate) struct Kept {
    file: Mutex<File>,
    length: u64,
}

static KEPT: Mutex<BTreeMap<PathBuf, Arc<Kept>>> = Mutex::new(BTreeMap::new());

/// The names of what programs are given as their input.
fn is_stdin(path: &Path) -> bool {
    ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].iter().any(|name| path == Path::new(name))
}

fn raw(path: &Path) -> Result<Raw, Error> {
    let mut all = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let name = if is_stdin(path) { Path::new("-") } else { path };
    if let Some(kept) = all.get(name) {
        return Ok(Raw::Kept { kept: kept.clone(), at: 0 });
    }
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(path).map_err(|e| Error::file(path, 0, format!("cannot be opened: {e}")))?;
        match file.metadata() {
            Ok(about) if about.is_dir() => {
                return Err(Error::file(path, 0, "this is a folder: name a file in it"));
            }
            Ok(about) if about.is_file() => return Ok(Raw::File(file)),
            _ => Box::new(file),
        }
    };
    let kept = Arc::new(keep(path, input)?);
    all.insert(name.into(), kept.clone());
    Ok(Raw::Kept { kept, at: 0 })
}

fn keep(path: &Path, input: impl Read) -> Result<Kept, Error> {
    let fault = |e: io::Error| {
        let folder = std::env::temp_dir();
        let reason = format!(
            "it can be read only once, and cannot be kept in {}: {e}; save it as a file, or set TMPDIR to a folder with room",
            folder.display()
        );
        Error::file(path, 0, reason)
    };
    let mut file = tempfile::tempfile().map_err(fault)?;
    let length = io::copy(&mut input.take(MAX_PIPED + 1), &mut file).map_err(fault)?;
    if length > MAX_PIPED {
        return Err(Error::file(path, 0, "more than 16 GiB come from the pipe: save them as a file"));
    }
    Ok(Kept { file: Mutex::new(file), length })
}

impl Raw {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Raw::File(file) => file.metadata().map_or(0, |about| about.len()),
            Raw::Kept { kept, .. } => kept.length,
        }
    }

    /// Another reader of the same bytes, from the byte `at`.
    pub(crate) fn from(&self, at: u64) -> io::Result<Raw> {
        let mut raw = match self {
            Raw::File(file) => Raw::File(file.try_clone()?),
            Raw::Kept { kept, .. } => Raw::Kept { kept: kept.clone(), at: 0 },
        };
        raw.seek(SeekFrom::Start(at))?;
        Ok(raw)
    }
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Raw::File(file) => file.read(buffer),
            Raw::Kept { kept, at } => {
                let mut file = kept.file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(*at))?;
                let got = file.read(buffer)?;
                *at += got as u64;
                Ok(got)
            }
        }
    }
}

impl Seek for Raw {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Raw::File(file) => file.seek(to),
            Raw::Kept { kept, at } => {
                let from =
                    |base: u64, by: i64| base.checked_add_signed(by).ok_or(io::ErrorKind::InvalidInput);
                *at = match to {
                    SeekFrom::Start(at) => at,
                    SeekFrom::End(by) => from(kept.length, by)?,
                    SeekFrom::Current(by) => from(*at, by)?,
                };
                Ok(*at)
            }
        }
    }
}

/// At most `most` bytes from the start of a reader.
fn start_of(reader: &mut impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    reader.take(most as u64).read_to_end(&mut start)?;
    Ok(start)
}

/// A packed file, whose errors say so.
struct Packed<R> {
    reader: R,
    packed: &'static str,
}

impl<R: Read> Read for Packed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer).map_err(|e| {
            let reason = format!(
                "the file is packed with {}, and cannot be unpacked ({e}): it is cut off or damaged; get it again",
                self.packed
            );
            io::Error::new(io::ErrorKind::InvalidData, reason)
        })
    }
}

const PARQUET: &[u8] = b"PAR1";
/// The mark of UTF-8.
const MARK: &[u8] = &[0xef, 0xbb, 0xbf];
/// The number of first bytes by which the form of a file is recognised.
const FORM_BYTES: usize = 4096;

fn is_zstd(start: &[u8]) -> bool {
    start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
        || start.len() > 4 && (0x50..0x60).contains(&start[0]) && start[1..4] == [0x2a, 0x4d, 0x18]
}

const UNPACK: &str = "unpack it, and give the file in it";
const AS_CSV: &str = "write the table as CSV or Parquet";

/// Forms that are not read: where their first bytes stand, these bytes, what they are, and what to do.
const UNREADABLE: &[(usize, &[u8], &str, &str)] = &[
    (0, b"PK\x05\x06", "an empty zip archive", "give the table itself"),
    (
        0,
        &[0xd0, 0xcf, 0x11, 0xe0],
        "a spreadsheet or document of Office (.xls)",
        "save the sheet as CSV in UTF-8",
    ),
    (
        0,
        b"BZh",
        "a file packed with bzip2",
        "unpack it with `bunzip2`, or pipe `bzcat FILE` into this command with `-`",
    ),
    (
        0,
        &[0xfd, b'7', b'z', b'X', b'Z', 0],
        "a file packed with xz",
        "unpack it with `unxz`, or pipe `xzcat FILE` into this command with `-`",
    ),
    (0, &[b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c], "a 7z archive", UNPACK),
    (0, b"Rar!", "a rar archive", UNPACK),
    (0, &[0x04, 0x22, 0x4d, 0x18], "a file packed with lz4", "unpack it with `lz4 -d`"),
    (0, &[0x1f, 0x9d], "a file packed with compress", "unpack it with `uncompress`"),
    (0, &[0x1f, 0x8b], "a gzip file", "unpack it once more"),
    (0, &[0x28, 0xb5, 0x2f, 0xfd], "a zstd file", "unpack it once more"),
    (257, b"ustar", "a tar archive", UNPACK),
    (0, b"ARROW1", "a Feather or Arrow file", AS_CSV),
    (0, b"FEA1", "a Feather file", AS_CSV),
    (0, b"ORC", "an ORC file", AS_CSV),
    (0, b"Obj\x01", "an Avro file", AS_CSV),
    (0, b"\x89HDF", "an HDF5 file", AS_CSV),
    (0, b"\x93NUMPY", "an array of NumPy", AS_CSV),
    (
        0,
        b"SQLite format 3",
        "an SQLite database",
        "write the table as CSV: `sqlite3 -header -csv FILE 'select * from TABLE'`",
    ),
    (
        0,
        b"RDX",
        "a workspace of R",
        "write the table as CSV: `write.csv(TABLE, \"FILE\", row.names = FALSE)`",
    ),
    (
        0,
        b"RDA",
        "a workspace of R",
        "write the table as CSV: `write.csv(TABLE, \"FILE\", row.names = FALSE)`",
    ),
    (
        0,
        b"X\n\0\0\0",
        "an object of R",
        "write the table as CSV: `write.csv(TABLE, \"FILE\", row.names = FALSE)`",
    ),
    (0, b"$FL2", "a file of SPSS", AS_CSV),
    (0, b"<stata_dta>", "a file of Stata", AS_CSV),
    (0, b"%PDF", "a PDF document", AS_CSV),
    (0, &[0xff, 0xfe, 0, 0], "a text in UTF-32", "save it as UTF-8"),
    (0, &[0, 0, 0xfe, 0xff], "a text in UTF-32", "save it as UTF-8"),
];

/// The form of a file that is not read, and what to do.
fn unreadable(start: &[u8]) -> Option<(&'static str, &'static str)> {
    if start.starts_with(b"PK\x03\x04") {
        let has = |name: &[u8]| start.windows(name.len()).any(|window| window == name);
        let sheet = has(b"xl/") || has(b"[Content_Types].xml") || has(b"opendocument.spreadsheet");
        return Some(match sheet {
            true => ("a spreadsheet (.xlsx or .ods)", "save the sheet as CSV in UTF-8, and give that file"),
            false => ("a zip archive", UNPACK),
        });
    }
    let text = start.strip_prefix(MARK).unwrap_or(start).trim_ascii_start();
    let begins = |name: &[u8]| text.get(..name.len()).is_some_and(|first| first.eq_ignore_ascii_case(name));
    if begins(b"<!doctype html") || begins(b"<html") {
        return Some(("a page of the web, perhaps of an error", "get the file itself"));
    }
    if begins(b"<?xml") {
        return Some(("an XML document", AS_CSV));
    }
    if begins(b"version https://git-lfs") {
        return Some(("a pointer of Git LFS, not the file", "get the file with `git lfs pull`"));
    }
    if begins(b"[") && text[1..].trim_ascii_start().starts_with(b"{") {
        let advice = "write one object a line, as `jq -c '.[]' FILE` does";
        return Some(("a list in JSON, and lines are read", advice));
    }
    let found =
        UNREADABLE.iter().find(|(at, magic, ..)| start.get(*at..).is_some_and(|s| s.starts_with(magic)));
    found.map(|(_, _, what, advice)| (*what, *advice))
}

/// Whether a text is UTF-16, and if it is, whether the larger byte comes first: by its mark, or by zeros in
/// the place of every other byte.
fn utf16(start: &[u8]) -> Option<bool> {
    match start {
        [0xff, 0xfe, ..] => return Some(false),
        [0xfe, 0xff, ..] => return Some(true),
        _ => {}
    }
    let pairs = start.len() / 2;
    let zeros = |odd: usize| start.chunks_exact(2).filter(|pair| pair[odd] == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    match () {
        () if pairs >= 4 && odd > pairs / 2 && even == 0 => Some(false),
        () if pairs >= 4 && even > pairs / 2 && odd == 0 => Some(true),
        () => None,
    }
}

/// UTF-16 as UTF-8.
struct Utf16<R> {
    reader: R,
    big: bool,
    /// The high surrogate at the end of what was read, whose low surrogate is not read yet.
    units: Vec<u16>,
    odd: Option<u8>,
    out: Cursor<Vec<u8>>,
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let got = self.out.read(buffer)?;
            if got > 0 || buffer.is_empty() {
                return Ok(got);
            }
            let mut bytes = [0; 8192];
            let kept = self.odd.take();
            bytes[0] = kept.unwrap_or(0);
            let first = usize::from(kept.is_some());
            let got = self.reader.read(&mut bytes[first..]).inspect_err(|_| self.odd = kept)?;
            let bytes = &bytes[..first + got];
            let cut = || {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the text in UTF-16 ends within a character: it is cut off",
                )
            };
            if got == 0 {
                return if bytes.is_empty() && self.units.is_empty() { Ok(0) } else { Err(cut()) };
            }
            let pairs = bytes.chunks_exact(2);
            self.odd = pairs.remainder().first().copied();
            let unit = |pair: &[u8]| match self.big {
                true => u16::from_be_bytes([pair[0], pair[1]]),
                false => u16::from_le_bytes([pair[0], pair[1]]),
            };
            self.units.extend(pairs.map(unit));
            let last = self.units.pop_if(|unit| (0xd800..0xdc00).contains(unit));
            let text: Result<String, _> = char::decode_utf16(self.units.drain(..)).collect();
            let bad = || {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the text is not UTF-16, as its beginning says: save it as UTF-8",
                )
            };
            self.out = Cursor::new(text.map_err(|_| bad())?.into_bytes());
            self.units.extend(last);
        }
    }
}
