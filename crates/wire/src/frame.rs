//! The format of binary messages.
//!
//! ```text
//! offset  bytes  what
//!      0      4  magic "HLB8"; the digit is the version
//!      4      4  length of the header, little endian like all numbers
//!      8      …  header: message kind and fields, in postcard
//!             4  length of the first blob
//!             …  first blob, and so on, with no byte after the last one
//! ```
//! All kinds have one version. It rises when the form of any of them changes, so that a program of before
//! says so.

use crate::Error;
use serde::{Deserialize, Serialize};

/// The first bytes of every binary message.
pub const MAGIC: [u8; 4] = *b"HLB8";
/// The longest header that a reader accepts.
pub const MAX_HEADER_BYTES: usize = 4096;
const LENGTH_BYTES: usize = 4;

/// The most bytes of a message besides its `blobs` blobs.
pub(crate) const fn overhead(blobs: usize) -> usize {
    MAGIC.len() + LENGTH_BYTES + MAX_HEADER_BYTES + blobs * LENGTH_BYTES
}

/// The kind of a message, whose number starts its header, so that no message is read as another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub(crate) enum Kind {
    DecideReply = 2,
    Raises = 3,
    TracedFeedback = 4,
    AskAgain = 5,
    ShownCounters = 11,
    LearnRequest = 13,
    PaperVectors = 14,
    PaperReply = 15,
    PaperAnswer = 16,
    UserSecret = 17,
    Enrolment = 18,
    UserBundle = 19,
    ShownModel = 20,
}

impl From<Kind> for u8 {
    fn from(kind: Kind) -> u8 {
        kind as u8
    }
}

impl TryFrom<u8> for Kind {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        let kinds = [
            Kind::DecideReply,
            Kind::Raises,
            Kind::TracedFeedback,
            Kind::AskAgain,
            Kind::ShownCounters,
            Kind::LearnRequest,
            Kind::PaperVectors,
            Kind::PaperReply,
            Kind::PaperAnswer,
            Kind::UserSecret,
            Kind::Enrolment,
            Kind::UserBundle,
            Kind::ShownModel,
        ];
        kinds.into_iter().find(|kind| *kind as u8 == number).ok_or("no message has this number")
    }
}

pub(crate) fn write<H: Serialize>(kind: Kind, header: &H, blobs: &[&[u8]]) -> Vec<u8> {
    // Serialising plain data into memory does not fail.
    let header = postcard::to_stdvec(&(kind, header)).unwrap_or_default();
    let parts = || [header.as_slice()].into_iter().chain(blobs.iter().copied());
    let mut out = Vec::with_capacity(MAGIC.len() + parts().map(|p| LENGTH_BYTES + p.len()).sum::<usize>());
    out.extend(MAGIC);
    for part in parts() {
        // A part of 4 GiB does not occur; its length would not match, and every reader would refuse it.
        out.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend(part);
    }
    out
}

/// Reads the bytes of [`write`] part by part, without copies.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], limit: usize) -> Result<Self, Error> {
        check_length("a message", bytes.len(), limit)?;
        let (magic, rest) =
            bytes.split_first_chunk::<4>().ok_or(Error::Truncated { what: "the magic number" })?;
        let [name @ .., digit] = magic;
        let [want_name @ .., want] = &MAGIC;
        if name != want_name || !digit.is_ascii_digit() {
            return Err(Error::Malformed("not a message of this format (magic number)"));
        }
        if digit != want {
            let [got, want] = [digit, want].map(|digit| u16::from(digit - b'0'));
            return Err(Error::Version { what: "the message", got, want });
        }
        Ok(Reader { rest })
    }

    pub(crate) fn header<H: Deserialize<'a>>(&mut self, kind: Kind) -> Result<H, Error> {
        let bytes = self.blob("the header", MAX_HEADER_BYTES)?;
        let malformed = |_| Error::Malformed("the header cannot be read");
        // The kind is read first, because the fields of another message need not be readable as these.
        let (got, fields) = postcard::take_from_bytes::<Kind>(bytes).map_err(malformed)?;
        if got != kind {
            return Err(Error::Malformed("a message of another kind"));
        }
        let (header, rest) = postcard::take_from_bytes::<H>(fields).map_err(malformed)?;
        if !rest.is_empty() {
            return Err(Error::Trailing { bytes: rest.len() });
        }
        Ok(header)
    }

    pub(crate) fn blob(&mut self, what: &'static str, limit: usize) -> Result<&'a [u8], Error> {
        let truncated = || Error::Truncated { what };
        let (length, rest) = self.rest.split_first_chunk().ok_or_else(truncated)?;
        // This does not overflow, because usize has at least 32 bits on machines with enough memory for
        // ciphertexts.
        let length = u32::from_le_bytes(*length) as usize;
        check_length(what, length, limit)?;
        let (blob, rest) = rest.split_at_checked(length).ok_or_else(truncated)?;
        self.rest = rest;
        Ok(blob)
    }

    pub(crate) fn end(self) -> Result<(), Error> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(Error::Trailing { bytes }),
        }
    }
}

pub(crate) fn check_length(what: &'static str, got: usize, limit: usize) -> Result<(), Error> {
    if got <= limit { Ok(()) } else { Err(Error::TooLong { what, got: got as u64, limit: limit as u64 }) }
}
