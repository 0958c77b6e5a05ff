use crate::bundle::{BundleKind, BundleReader, BundleWriter, Manifest, differs};
use crate::{AccessToken, Error, TOKEN_BYTES};
use ckks::Params;
use std::io::{Read, Write};
use zeroize::Zeroizing;

/// The container of a secret key: its manifest, the key's frame, unread, and the token that admits its
/// bearers to the server. No Debug; zeroed on drop.
pub struct SecretBundle {
    /// The manifest.
    pub manifest: Manifest,
    /// The parameters it names.
    pub params: Params,
    /// The secret key's frame, for `ckks-secret`.
    pub frame: Zeroizing<Vec<u8>>,
    /// The token whose digest is in the manifest of both bundles.
    pub token: AccessToken,
}

impl SecretBundle {
    /// Reads a bundle and checks its manifest. Pass an unbuffered file: a buffer would keep a copy of the
    /// key.
    ///
    /// # Errors
    /// [`Error::WrongBundle`] for a public bundle; [`Error::Manifest`]; as [`BundleReader`].
    pub fn read(input: impl Read) -> Result<Self, Error> {
        let mut reader = BundleReader::of_kind(BundleKind::Secret, input)?;
        let manifest = reader.manifest().clone();
        let params = manifest.params()?;
        // Two bits a coefficient.
        let limit = ckks::FRAME_HEADER_BYTES + params.n() / 4 + ckks::FRAME_DIGEST_BYTES;
        // All room at once: a vector that grows leaves what it held behind.
        let mut frame = Zeroizing::new(Vec::with_capacity(limit));
        if !reader.next_frame(limit, &mut frame)? {
            return Err(Error::Truncated { what: "the secret key" });
        }
        // Not into `frame`: asking for more clears it.
        let mut token = Zeroizing::new(Vec::with_capacity(TOKEN_BYTES));
        if !reader.next_frame(TOKEN_BYTES, &mut token)? {
            return Err(Error::Truncated { what: "the access token" });
        }
        let token = AccessToken::from_bytes(&token)?;
        if token.digest() != manifest.token_digest {
            return Err(differs("token_digest", "of another token", "that of its token"));
        }
        if reader.next_frame(0, &mut Vec::new())? {
            return Err(Error::Malformed("more than two frames in a secret bundle"));
        }
        Ok(SecretBundle { manifest, params, frame, token })
    }

    /// Writes a bundle of two frames, key and token; returns the writer and the bytes written.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::FrameCount`] unless the manifest announces two frames.
    pub fn write<W: Write>(
        manifest: &Manifest,
        frame: &[u8],
        token: &AccessToken,
        out: W,
    ) -> Result<(W, u64), Error> {
        let mut writer = BundleWriter::new(BundleKind::Secret, manifest, out)?;
        writer.frame(frame)?;
        writer.frame(token.as_bytes())?;
        writer.finish()
    }
}
