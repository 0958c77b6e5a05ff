use crate::bundle::{BundleKind, BundleReader, BundleWriter};
use crate::manifest::{Manifest, differs};
use crate::{AccessToken, CommitteeManifest, Custody, Error, TOKEN_BYTES};
use ckks::{KeyId, Params, PublicKey};
use std::io::{Read, Write};
use zeroize::Zeroizing;

/// The bundle for the devices of users where a committee holds the key. It has no Debug, because it holds a
/// token.
pub struct UsersBundle {
    /// The manifest.
    pub manifest: Manifest,
    /// Its committee.
    pub committee: CommitteeManifest,
    /// The parameters of the large ring.
    pub params: Params,
    /// The parameters of the ring of scores.
    pub small: Params,
    /// The wide public key of the ring of scores ([`ckks::encrypt_wide`]).
    pub public_key: PublicKey,
    /// The id of the key pair of this ring.
    pub key_id: KeyId,
    /// The access token, whose digest is in the manifest.
    pub token: AccessToken,
}

impl UsersBundle {
    /// Reads a bundle, and checks its manifest, keys, and the signatures of all members.
    ///
    /// # Errors
    /// [`Error::WrongBundle`]; [`Error::Manifest`], also for keys that no committee holds; [`Error::Ckks`]
    /// for the key; as [`BundleReader`].
    pub fn read(input: impl Read) -> Result<Self, Error> {
        Self::read_from(BundleReader::new(input)?)
    }

    /// As [`Self::read`], from a reader that has read the manifest alone.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_from(reader: BundleReader<impl Read>) -> Result<Self, Error> {
        let mut reader = reader.checked(BundleKind::Users)?;
        let manifest = reader.manifest().clone();
        let Custody::Committee(committee) = manifest.custody.clone() else {
            return Err(differs("custody", "of whoever has the secret bundle", "that of a committee"));
        };
        committee.quorum()?;
        let params = manifest.params()?;
        let (ring, small) = manifest.scores(&params)?;
        let stated = &manifest.scores;
        stated.answers(ring, &params)?;
        for (field, got, want) in [
            ("frames", manifest.large_frames()?, 1),
            ("scores.frames", stated.frames, 1),
            ("scores.answers.frames", stated.answers.frames, 0),
        ] {
            if got != want {
                return Err(differs(field, &got.to_string(), &want.to_string()));
            }
        }
        let mut frame = Vec::new();
        if !reader.next_frame(ckks::public_key_bytes(&small, true), &mut frame)? {
            return Err(Error::Truncated { what: "the public key" });
        }
        let (public_key, key_id) = ckks::read_wide_public_key(&small, &frame)?;
        stated.check_key(key_id)?;
        if reader.digest() != committee.wide_key {
            return Err(differs("custody.wide_key", "the digest of another key", "that of its public key"));
        }
        manifest.check_signatures()?;
        let mut token = Zeroizing::new(Vec::with_capacity(TOKEN_BYTES));
        if !reader.next_frame(TOKEN_BYTES, &mut token)? {
            return Err(Error::Truncated { what: "the access token" });
        }
        let token = AccessToken::from_bytes(&token)?;
        if token.digest() != manifest.token_digest {
            return Err(differs("token_digest", "of another token", "that of its token"));
        }
        // All frames are read, so that the input must end here.
        reader.next_frame(0, &mut Vec::new())?;
        Ok(UsersBundle { manifest, committee, params, small, public_key, key_id, token })
    }

    /// Writes a bundle: the frame of the wide public key of the ring of scores, and the token. Returns the
    /// output and the number of bytes written.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::FrameCount`] if the manifest states another number of frames.
    pub fn write<W: Write>(
        manifest: &Manifest,
        public_key: &[u8],
        token: &AccessToken,
        out: W,
    ) -> Result<(W, u64), Error> {
        let mut writer = BundleWriter::new(BundleKind::Users, manifest, out)?;
        writer.frame(public_key)?;
        writer.frame(token.as_bytes())?;
        writer.finish()
    }
}
