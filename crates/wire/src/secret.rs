use crate::bundle::{BundleKind, BundleReader, BundleWriter, Manifest, differs};
use crate::{AccessToken, Error, TOKEN_BYTES};
use ckks::Params;
use std::io::{Read, Write};
use zeroize::Zeroizing;

/// A secret bundle: the manifest, the frame of the secret key, which is not read, and the access token. It
/// has no Debug, and is zeroed when it is dropped.
pub struct SecretBundle {
    /// The manifest.
    pub manifest: Manifest,
    /// The parameters.
    pub params: Params,
    /// The frame of the secret key, for `ckks-secret`.
    pub frame: Zeroizing<Vec<u8>>,
    /// The access token, whose digest is in the manifests of both bundles.
    pub token: AccessToken,
}

impl SecretBundle {
    /// Reads a bundle and checks its manifest. The input should have no buffer, which would keep a copy of
    /// the key.
    ///
    /// # Errors
    /// [`Error::WrongBundle`] for a public bundle; [`Error::Manifest`]; as [`BundleReader`].
    pub fn read(input: impl Read) -> Result<Self, Error> {
        let mut reader = BundleReader::of_kind(BundleKind::Secret, input)?;
        let manifest = reader.manifest().clone();
        let params = manifest.params()?;
        // A coefficient takes two bits.
        let limit = ckks::FRAME_HEADER_BYTES + params.n() / 4 + ckks::FRAME_DIGEST_BYTES;
        // The capacity is reserved at once, because a vector that grows leaves a copy of its content in
        // memory.
        let mut frame = Zeroizing::new(Vec::with_capacity(limit));
        if !reader.next_frame(limit, &mut frame)? {
            return Err(Error::Truncated { what: "the secret key" });
        }
        // Reading the next frame clears its buffer, so that the token has a buffer of its own.
        let mut token = Zeroizing::new(Vec::with_capacity(TOKEN_BYTES));
        if !reader.next_frame(TOKEN_BYTES, &mut token)? {
            return Err(Error::Truncated { what: "the access token" });
        }
        let token = AccessToken::from_bytes(&token)?;
        if token.digest() != manifest.token_digest {
            return Err(differs("token_digest", "of another token", "that of its token"));
        }
        if reader.next_frame(0, &mut Vec::new())? {
            return Err(Error::Malformed("a secret bundle has more than two frames"));
        }
        Ok(SecretBundle { manifest, params, frame, token })
    }

    /// Writes a bundle of two frames, key and token. Returns the output and the number of bytes written.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::FrameCount`] unless the manifest states two frames.
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
