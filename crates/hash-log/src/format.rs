//! The bytes of segments and groups, as the crate's documentation has them.

use crate::Error;
use std::path::Path;

const MAGIC: &[u8; 8] = b"hash-log";
const VERSION: u32 = 1;
/// Bytes of a segment's header before the identity.
const FIXED: usize = 96;
/// Bytes of a [`Head`].
const HEAD: usize = 48;
/// Bytes of the check of a segment's header.
const CHECK: usize = 32;
/// The longest header of a segment.
pub(crate) const MAX_HEADER: usize = FIXED + MAX_IDENTITY + CHECK;
/// The longest identity in bytes.
pub(crate) const MAX_IDENTITY: usize = 256;
/// The largest limit of a record: the length of a group fits 32 bits.
pub(crate) const MAX_LIMIT: usize = 1 << 30;
/// A group of more than one record has a body of at most this many bytes.
pub(crate) const GROUP_BYTES: usize = 1 << 20;
/// The first bytes of a group.
pub(crate) const GROUP_MAGIC: [u8; 4] = *b"\xa5grp";
/// Bytes of the header of a group.
pub(crate) const GROUP_HEADER: usize = 64;
/// Numbers read from a file stay below this one, so that adding to them does not overflow.
const MAX_COUNT: u64 = 1 << 62;

/// A position in a log: after a number of records, with the hash that stands for them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of records before the position.
    pub records: u64,
    /// The bytes of these records, without what the format adds.
    pub bytes: u64,
    /// The chain of hashes up to here.
    pub hash: [u8; 32],
}

impl Head {
    /// The position before the first record of the log with this identity.
    pub fn start(identity: &[u8]) -> Self {
        Head { records: 0, bytes: 0, hash: blake3::derive_key("hash-log 1 chain of records", identity) }
    }

    /// The position after one more record: hᵢ = BLAKE3(hᵢ₋₁ ‖ length ‖ record), the length as a u32.
    pub fn after(&self, record: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.hash).update(&(record.len() as u32).to_le_bytes()).update(record);
        Head {
            records: self.records + 1,
            bytes: self.bytes + record.len() as u64,
            hash: *hasher.finalize().as_bytes(),
        }
    }

    /// 48 bytes: both numbers in little endian, then the hash.
    pub fn to_bytes(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&self.records.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..].copy_from_slice(&self.hash);
        bytes
    }

    /// The position that [`to_bytes`](Self::to_bytes) wrote. Any bytes are a position, and a log says whether
    /// it is one of its own.
    pub fn from_bytes(bytes: &[u8; HEAD]) -> Self {
        Head { records: u64_at(bytes, 0), bytes: u64_at(bytes, 8), hash: array_at(bytes, 16) }
    }
}

/// The header of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) salt: [u8; 32],
    pub(crate) start: Head,
    pub(crate) identity: Vec<u8>,
}

impl SegmentHeader {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.identity.len() as u32).to_le_bytes());
        bytes.extend(self.salt);
        bytes.extend(self.start.to_bytes());
        bytes.extend(&self.identity);
        let check = header_check(&bytes);
        bytes.extend(check);
        bytes
    }

    /// Reads the header at the beginning of `bytes`, which are the first [`MAX_HEADER`] of the file, or all
    /// of it.
    pub(crate) fn parse(bytes: &[u8], identity: &[u8], path: &Path) -> Result<(Self, usize), Error> {
        let damaged = |what| Error::Damaged { path: path.into(), offset: 0, what };
        if !bytes.starts_with(MAGIC) {
            return Err(damaged("the file does not begin as a log"));
        }
        if bytes.len() < FIXED {
            return Err(damaged("the file ends within its header"));
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(Error::Version { path: path.into(), got: version, want: VERSION });
        }
        let length = u32_at(bytes, 12) as usize;
        let end = FIXED + length.min(MAX_IDENTITY);
        let (Some(header), Some(check)) = (bytes.get(..end), bytes.get(end..end + CHECK)) else {
            return Err(damaged("the file ends within its header"));
        };
        let start = Head::from_bytes(&array_at(bytes, 48));
        if length > MAX_IDENTITY
            || header_check(header) != check
            || start.records.max(start.bytes) > MAX_COUNT
        {
            return Err(damaged("the header is not as it was written"));
        }
        if &header[FIXED..] != identity {
            return Err(Error::Identity { path: path.into() });
        }
        let header = SegmentHeader { salt: array_at(bytes, 16), start, identity: identity.to_vec() };
        Ok((header, end + CHECK))
    }

    /// The key of the checks of this segment's groups. It depends on the salt, which the author of a record
    /// does not know, and on where the segment starts: a group of another segment is none of this one.
    pub(crate) fn group_key(&self) -> [u8; 32] {
        *blake3::keyed_hash(&self.salt, &self.to_bytes()).as_bytes()
    }
}

fn header_check(bytes: &[u8]) -> [u8; CHECK] {
    blake3::derive_key("hash-log 1 header of a segment", bytes)
}

/// The header of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    /// Bytes of the body.
    pub(crate) body: u32,
    /// Records before the group.
    pub(crate) records: u64,
    /// The chain after its last record.
    pub(crate) hash: [u8; 32],
}

impl GroupHeader {
    pub(crate) fn to_bytes(self, key: &[u8; 32]) -> [u8; GROUP_HEADER] {
        let mut bytes = [0; GROUP_HEADER];
        bytes[..4].copy_from_slice(&GROUP_MAGIC);
        bytes[4..8].copy_from_slice(&self.body.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.records.to_le_bytes());
        bytes[16..48].copy_from_slice(&self.hash);
        let check = group_check(key, &bytes);
        bytes[48..].copy_from_slice(&check);
        bytes
    }

    /// The header in `bytes`, if they are one of this segment.
    pub(crate) fn parse(bytes: &[u8; GROUP_HEADER], key: &[u8; 32]) -> Option<Self> {
        (bytes.starts_with(&GROUP_MAGIC) && group_check(key, bytes) == bytes[48..]).then(|| GroupHeader {
            body: u32_at(bytes, 4),
            records: u64_at(bytes, 8),
            hash: array_at(bytes, 16),
        })
    }
}

fn group_check(key: &[u8; 32], header: &[u8; GROUP_HEADER]) -> [u8; 16] {
    array_at(blake3::keyed_hash(key, &header[..48]).as_bytes(), 0)
}

/// The records of a group's body, or `None` if lengths and body do not agree.
pub(crate) fn records(mut body: &[u8]) -> Option<Vec<&[u8]>> {
    let mut records = Vec::new();
    while !body.is_empty() {
        let (length, rest) = body.split_at_checked(4)?;
        let (record, rest) = rest.split_at_checked(u32_at(length, 0) as usize)?;
        records.push(record);
        body = rest;
    }
    Some(records)
}

/// The longest body of a group under a limit of a record.
pub(crate) fn max_body(limit: usize) -> usize {
    GROUP_BYTES.max(4 + limit)
}

// The callers of these three have checked that the bytes are there.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}
