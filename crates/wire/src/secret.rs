use crate::bundle::{BundleKind, BundleReader, BundleWriter};
use crate::manifest::{DecisionsManifest, Manifest, differs};
use crate::public::{decision_ring, key_plan};
use crate::{AccessToken, Error, TOKEN_BYTES, TokenDigest};
use ckks::Params;
use std::io::{Read, Write};
use zeroize::Zeroizing;

/// A secret bundle: the manifest, the frames of the secret keys, which are not read, and the access token. It
/// has no Debug, and is zeroed when it is dropped.
pub struct SecretBundle {
    /// The manifest.
    pub manifest: Manifest,
    /// The parameters.
    pub params: Params,
    /// The frame of the secret key, for `ckks-secret`.
    pub frame: Zeroizing<Vec<u8>>,
    /// The secret key of the ring of evaluations, if it is not the one of `params`.
    pub decisions: Option<RingSecret>,
    /// The secret key of the ring of scores.
    pub scores: RingSecret,
    /// The access token, whose digest is in the manifests of both bundles.
    pub token: AccessToken,
}

/// The secret key of a ring in a bundle. It has no Debug, and is zeroed when it is dropped.
pub struct RingSecret {
    /// The parameters of the ring.
    pub params: Params,
    /// The frame of the secret key, for `ckks-secret`.
    pub frame: Zeroizing<Vec<u8>>,
}

impl SecretBundle {
    /// Reads a bundle and checks its manifest. The input should have no buffer, which would keep a copy of
    /// the key.
    ///
    /// # Errors
    /// [`Error::WrongBundle`] for a public bundle; [`Error::Manifest`]; as [`BundleReader`].
    pub fn read(input: impl Read) -> Result<Self, Error> {
        Self::read_from(BundleReader::new(input)?)
    }

    /// As [`Self::read`], from a reader that has read the manifest alone.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_from(reader: BundleReader<impl Read>) -> Result<Self, Error> {
        let mut reader = reader.checked(BundleKind::Secret)?;
        let manifest = reader.manifest().clone();
        let params = manifest.params()?;
        let (ring, small) = manifest.scores(&params)?;
        decision_ring(&manifest, &key_plan(&manifest)?)?;
        let of_decisions = manifest.decisions.as_ref();
        if let Some(got) = of_decisions.map(|stated| stated.frames).filter(|frames| *frames != 1) {
            return Err(differs("decisions.frames", &got.to_string(), "1"));
        }
        let of_decisions = of_decisions.map(DecisionsManifest::params).transpose()?;
        let stated = &manifest.scores;
        if stated.frames != 1 {
            return Err(differs("scores.frames", &stated.frames.to_string(), "1"));
        }
        stated.answers(ring, of_decisions.as_ref().unwrap_or(&params))?;
        if stated.answers.frames != 0 {
            return Err(differs("scores.answers.frames", &stated.answers.frames.to_string(), "0"));
        }
        let frame = secret_key(&mut reader, &params)?;
        let decisions = match of_decisions {
            Some(params) => Some(RingSecret { frame: secret_key(&mut reader, &params)?, params }),
            None => None,
        };
        let scores = RingSecret { frame: secret_key(&mut reader, &small)?, params: small };
        let token = last_token(&mut reader, manifest.token_digest)?;
        Ok(SecretBundle { manifest, params, frame, decisions, scores, token })
    }

    /// Writes a bundle: the frames of the secret keys of its rings in their order, and the token. Returns the
    /// output and the number of bytes written.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::FrameCount`] if the manifest states another number of frames.
    pub fn write<W: Write>(
        manifest: &Manifest,
        rings: &[&[u8]],
        token: &AccessToken,
        out: W,
    ) -> Result<(W, u64), Error> {
        let mut writer = BundleWriter::new(BundleKind::Secret, manifest, out)?;
        rings.iter().try_for_each(|frame| writer.frame(frame))?;
        writer.frame(token.as_bytes())?;
        writer.finish()
    }
}

/// Reads the token with this digest, which is the last frame of a bundle.
pub(crate) fn last_token<M>(
    reader: &mut BundleReader<impl Read, M>,
    digest: TokenDigest,
) -> Result<AccessToken, Error> {
    // Reading the next frame clears its buffer, so that the token has a buffer of its own.
    let mut token = Zeroizing::new(Vec::with_capacity(TOKEN_BYTES));
    if !reader.next_frame(TOKEN_BYTES, &mut token)? {
        return Err(Error::Truncated { what: "the access token" });
    }
    let token = AccessToken::from_bytes(&token)?;
    if token.digest() != digest {
        return Err(differs("token_digest", "of another token", "that of its token"));
    }
    if reader.next_frame(0, &mut Vec::new())? {
        return Err(Error::Malformed("a secret bundle has frames after its token"));
    }
    Ok(token)
}

/// Reads the frame of a secret key under `params`.
pub(crate) fn secret_key<M>(
    reader: &mut BundleReader<impl Read, M>,
    params: &Params,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    // A coefficient takes two bits.
    let limit = ckks::FRAME_HEADER_BYTES + params.n() / 4 + ckks::FRAME_DIGEST_BYTES;
    // The capacity is reserved at once, because a vector that grows leaves a copy of its content in memory.
    let mut frame = Zeroizing::new(Vec::with_capacity(limit));
    match reader.next_frame(limit, &mut frame)? {
        true => Ok(frame),
        false => Err(Error::Truncated { what: "the secret key" }),
    }
}
