//! The file format of key bundles.
//!
//! ```text
//! offset  bytes  what
//!      0      8  magic "HELBAPUB" or "HELBASEC"
//!      8      2  version, little endian like all numbers
//!     10      4  length of the manifest
//!     14      …  manifest, JSON
//!             8  length of the first frame
//!             …  first frame, and so on: as many frames as the manifest states, and no byte after them
//! ```
//! A public bundle has the public key, the relinearisation key and the Galois keys, first those of the large
//! ring, then those of the ring of evaluations if it is another one, those of the ring of scores, and those
//! of answers: the keys of the ring switch by their numbers, and those of the rotations of the fold.
//!
//! A secret bundle has the secret keys of these rings in the same order, and the access token.

use crate::frame::check_length;
use crate::paper::PaperManifest;
use crate::{Error, Manifest};
use protocol::Shape;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{Read, Write};

/// The version of bundles that are written and read.
pub const BUNDLE_VERSION: u16 = 13;
/// The first bytes of bundles for users of a committee, which versions before 7 of the format had.
const USERS: [u8; 8] = *b"HELBAUSR";
/// The most bytes of a manifest.
pub const MAX_MANIFEST_BYTES: usize = 64 << 10;
/// The most frames. The largest shape has fewer than a hundred.
const MAX_FRAMES: u32 = 1024;
/// The largest side of a shape. No ring fits a larger shape, and products of sides do not overflow.
const MAX_SIDE: usize = 256;

/// Whom a bundle is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundleKind {
    /// The bundle for servers.
    Public,
    /// The bundle for the devices of users only.
    Secret,
}

/// The manifest of a kind of bundles.
pub trait BundleManifest: Serialize + DeserializeOwned {
    /// The first bytes of a bundle.
    fn magic(kind: BundleKind) -> [u8; 8];

    /// The number of frames in the bundle.
    fn frames(&self) -> u32;

    /// Refuses values for which no bundle is read.
    fn check(&self) -> Result<(), Error>;
}

impl BundleManifest for Manifest {
    fn magic(kind: BundleKind) -> [u8; 8] {
        match kind {
            BundleKind::Public => *b"HELBAPUB",
            BundleKind::Secret => *b"HELBASEC",
        }
    }

    fn frames(&self) -> u32 {
        self.frames
    }

    fn check(&self) -> Result<(), Error> {
        let Shape { dim, arm_slots } = self.shape;
        if ![dim, arm_slots].iter().all(|&s| s.is_power_of_two() && (2..=MAX_SIDE).contains(&s)) {
            let why =
                format!("its shape is {dim} and {arm_slots}, and must be powers of two from 2 to {MAX_SIDE}");
            return Err(Error::BadManifest(why));
        }
        Ok(())
    }
}

/// The kind of a bundle of these manifests that begins with `magic`.
pub(crate) fn kind_of<M: BundleManifest>(magic: [u8; 8]) -> Option<BundleKind> {
    [BundleKind::Public, BundleKind::Secret].into_iter().find(|kind| M::magic(*kind) == magic)
}

/// Writes a bundle frame by frame, so that only one frame is in memory.
pub struct BundleWriter<W: Write> {
    out: W,
    want: u32,
    written: u32,
    bytes: u64,
}

impl<W: Write> BundleWriter<W> {
    /// Writes the start of a bundle with its manifest.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn new(kind: BundleKind, manifest: &Manifest, out: W) -> Result<Self, Error> {
        Self::of(kind, manifest, out)
    }

    /// As [`Self::new`], with a manifest of any kind.
    pub(crate) fn of<M: BundleManifest>(kind: BundleKind, manifest: &M, mut out: W) -> Result<Self, Error> {
        let json = serde_json::to_vec(manifest).map_err(|e| Error::BadManifest(e.to_string()))?;
        let mut head = Vec::with_capacity(14 + json.len());
        head.extend(M::magic(kind));
        head.extend(BUNDLE_VERSION.to_le_bytes());
        head.extend((json.len() as u32).to_le_bytes());
        head.extend(json);
        out.write_all(&head).map_err(io("writing a bundle"))?;
        Ok(BundleWriter { out, want: manifest.frames(), written: 0, bytes: head.len() as u64 })
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn frame(&mut self, frame: &[u8]) -> Result<(), Error> {
        self.out
            .write_all(&(frame.len() as u64).to_le_bytes())
            .and_then(|()| self.out.write_all(frame))
            .map_err(io("writing a bundle"))?;
        self.written += 1;
        self.bytes += 8 + frame.len() as u64;
        Ok(())
    }

    /// Flushes, and returns the output and the number of bytes written.
    ///
    /// # Errors
    /// [`Error::FrameCount`] if the manifest states another number of frames, [`Error::Io`].
    pub fn finish(mut self) -> Result<(W, u64), Error> {
        if self.written != self.want {
            return Err(Error::FrameCount { got: self.written, want: self.want });
        }
        self.out.flush().map_err(io("writing a bundle"))?;
        Ok((self.out, self.bytes))
    }
}

/// Reads a bundle frame by frame.
pub struct BundleReader<R: Read, M = Manifest> {
    input: R,
    kind: BundleKind,
    manifest: M,
    frames: u32,
    read: u32,
}

impl<R: Read> BundleReader<R> {
    /// Reads the start of a bundle of either kind, with its manifest.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::BundleVersion`], [`Error::TooLong`], [`Error::Truncated`],
    /// [`Error::BadManifest`], [`Error::Io`].
    pub fn new(input: R) -> Result<Self, Error> {
        Self::begin(input)
    }

    /// As [`Self::new`], for one kind.
    ///
    /// # Errors
    /// As [`Self::new`]; [`Error::WrongBundle`].
    pub fn of_kind(want: BundleKind, input: R) -> Result<Self, Error> {
        Self::new(input)?.checked(want)
    }
}

impl<R: Read, M: BundleManifest> BundleReader<R, M> {
    /// Reads the start of a bundle whose manifest is an M.
    pub(crate) fn begin(mut input: R) -> Result<Self, Error> {
        let magic: [u8; 8] = number(&mut input, "the magic number")?;
        if magic == USERS {
            return Err(Error::Malformed(
                "a users' bundle of a committee that held a key, which this version has no more: a device of a committee \
                 begins a session, with `helba-client committee begin`",
            ));
        }
        let kind = kind_of::<M>(magic).ok_or(Error::Malformed(match kind_of::<PaperManifest>(magic) {
            Some(_) => "a bundle of keys for `method: paper`, where one for the default method is needed",
            None => "not a key bundle, which `helba-keygen create` writes",
        }))?;
        let version = u16::from_le_bytes(number(&mut input, "the version")?);
        if version != BUNDLE_VERSION {
            return Err(Error::BundleVersion { got: version, want: BUNDLE_VERSION });
        }
        let length = u32::from_le_bytes(number(&mut input, "the manifest's length")?) as usize;
        check_length("the manifest", length, MAX_MANIFEST_BYTES)?;
        let mut json = vec![0; length];
        exactly(&mut input, &mut json, "the manifest")?;
        let manifest: M = serde_json::from_slice(&json).map_err(|e| Error::BadManifest(e.to_string()))?;
        manifest.check()?;
        let frames = manifest.frames();
        if frames > MAX_FRAMES {
            return Err(Error::BadManifest(format!(
                "it states {frames} frames, and at most {MAX_FRAMES} are possible"
            )));
        }
        Ok(BundleReader { input, kind, manifest, frames, read: 0 })
    }
}

impl<R: Read, M> BundleReader<R, M> {
    /// The reader, if the bundle is of this kind.
    pub(crate) fn checked(self, want: BundleKind) -> Result<Self, Error> {
        if self.kind == want { Ok(self) } else { Err(Error::WrongBundle { want }) }
    }

    /// The kind of the bundle.
    pub fn kind(&self) -> BundleKind {
        self.kind
    }

    /// The manifest. Its values are not checked; see [`Manifest::params`].
    pub fn manifest(&self) -> &M {
        &self.manifest
    }

    /// Reads the next frame into `frame`, which is cleared first and grows at most once. Returns false after
    /// the last frame, where the input must end.
    ///
    /// # Errors
    /// [`Error::TooLong`] if the frame is longer than `limit`, [`Error::Truncated`], [`Error::Trailing`],
    /// [`Error::Io`].
    pub fn next_frame(&mut self, limit: usize, frame: &mut Vec<u8>) -> Result<bool, Error> {
        frame.clear();
        if self.read == self.frames {
            let mut rest = self.input.by_ref().take(MOST_TRAILING);
            let bytes = std::io::copy(&mut rest, &mut std::io::sink()).map_err(io("reading a bundle"))?;
            return if bytes == 0 { Ok(false) } else { Err(Error::Trailing { bytes: bytes as usize }) };
        }
        let length = u64::from_le_bytes(number(&mut self.input, "a frame's length")?);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        check_length("a frame", length, limit)?;
        frame.resize(length, 0);
        exactly(&mut self.input, frame, "a frame")?;
        self.read += 1;
        Ok(true)
    }
}

/// The most bytes that are counted after the end of a bundle, since a stream may be endless.
const MOST_TRAILING: u64 = 1 << 20;

fn exactly(input: &mut impl Read, out: &mut [u8], what: &'static str) -> Result<(), Error> {
    input.read_exact(out).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::Truncated { what },
        _ => io("reading a bundle")(e),
    })
}

fn number<const K: usize>(input: &mut impl Read, what: &'static str) -> Result<[u8; K], Error> {
    let mut out = [0; K];
    exactly(input, &mut out, what)?;
    Ok(out)
}

fn io(what: &str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::Io { what: what.into(), error }
}
