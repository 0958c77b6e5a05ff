use crate::Error;
use crate::bundle::{BundleKind, BundleReader, BundleWriter, Manifest};
use ckks::Params;
use std::io::{Read, Write};
use zeroize::Zeroizing;

/// The container of a secret key: what stands around it, and its frame, unread. No Debug; zeroed on drop.
pub struct SecretBundle {
    /// What the bundle says of itself.
    pub manifest: Manifest,
    /// The parameters it names.
    pub params: Params,
    /// The secret key's frame, for `ckks-secret`.
    pub frame: Zeroizing<Vec<u8>>,
}

impl SecretBundle {
    /// Reads a bundle and checks its manifest. Pass an unbuffered file: a buffer would keep a copy of the key.
    ///
    /// # Errors
    /// [`Error::WrongBundle`] for a public bundle; [`Error::Manifest`]; as [`BundleReader`].
    pub fn read(input: impl Read) -> Result<Self, Error> {
        let mut reader = BundleReader::of_kind(BundleKind::Secret, input)?;
        let manifest = reader.manifest().clone();
        let params = manifest.params()?;
        // Two bits a coefficient.
        let limit = ckks::FRAME_HEADER_BYTES + params.n() / 4 + ckks::FRAME_DIGEST_BYTES;
        let mut frame = Zeroizing::new(Vec::new());
        if !reader.next_frame(limit, &mut frame)? {
            return Err(Error::Truncated { what: "the secret key" });
        }
        // Not into `frame`: asking for more clears it.
        if reader.next_frame(0, &mut Vec::new())? {
            return Err(Error::Malformed("more than one frame in a secret bundle"));
        }
        Ok(SecretBundle { manifest, params, frame })
    }

    /// Writes a bundle of one frame; returns the writer and the bytes written.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::FrameCount`] unless the manifest announces one frame.
    pub fn write<W: Write>(manifest: &Manifest, frame: &[u8], out: W) -> Result<(W, u64), Error> {
        let mut writer = BundleWriter::new(BundleKind::Secret, manifest, out)?;
        writer.frame(frame)?;
        writer.finish()
    }
}
