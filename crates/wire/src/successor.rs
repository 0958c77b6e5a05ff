use crate::frame::{self, Kind, Reader};
use crate::manifest::differs;
use crate::{BundleKind, BundleReader, BundleWriter, Custody, Error, MAX_MANIFEST_BYTES, Manifest};
use crate::{TOKEN_BYTES, UsersBundle};
use ckks::Params;

/// What a device of a committee goes on with after a rotation: the last manifest of the keys before, and the
/// users' bundle of the keys that follow, whose manifest t members of the committee before have signed
/// ([`Manifest::sign_rotation`]).
pub struct Successor {
    /// The manifest of the keys before, in the last epoch of their committee.
    pub before: Manifest,
    /// The users' bundle of the keys that follow.
    pub users: UsersBundle,
}

impl Successor {
    /// The most bytes, where `small` are the parameters of the ring of scores.
    pub fn most_bytes(small: &Params) -> usize {
        frame::overhead(2) + MAX_MANIFEST_BYTES + Self::most_bundle(small)
    }

    fn most_bundle(small: &Params) -> usize {
        let header = 1024;
        MAX_MANIFEST_BYTES + ckks::public_key_bytes(small, true) + TOKEN_BYTES + header
    }

    /// The bytes for devices whose keys have the manifest `before`, from the users' bundle of the keys with
    /// the manifest `next`, which has the signatures of members of the committee before.
    ///
    /// # Errors
    /// As [`Manifest::check_rotation`]; those of the bundle; [`Error::Manifest`] for a bundle of other keys.
    pub fn write(before: &Manifest, next: &Manifest, bundle: &[u8]) -> Result<Vec<u8>, Error> {
        next.check_rotation(before)?;
        let UsersBundle { manifest: own, small, .. } = UsersBundle::read(bundle)?;
        if own.signed_digest() != next.signed_digest() {
            return Err(differs("key_id", &own.key_id, &next.key_id));
        }
        let followed = match &next.custody {
            Custody::Committee(committee) => committee.follows.as_deref(),
            Custody::Holder => None,
        };
        let signed = own.with_rotation(followed.map_or(Vec::new(), |f| f.epoch.handover.clone()));
        let mut reader = BundleReader::of_kind(BundleKind::Users, bundle)?;
        let mut writer = BundleWriter::new(BundleKind::Users, &signed, Vec::new())?;
        let mut part = Vec::new();
        while reader.next_frame(Self::most_bundle(&small), &mut part)? {
            writer.frame(&part)?;
        }
        let bundle = writer.finish()?.0;
        // Serialising plain data into memory does not fail.
        let before = serde_json::to_vec(before).unwrap_or_default();
        Ok(frame::write(Kind::Successor, &(), &[&before, &bundle]))
    }

    /// Reads the bytes of [`Self::write`], at most `limit` of them, and checks that t members of the
    /// committee before have signed the keys that follow. Whether the keys before are those that the reader
    /// knows is left to it.
    ///
    /// # Errors
    /// As [`crate::DecideReply::read`], [`UsersBundle::read`] and [`Manifest::check_rotation`].
    pub fn read(bytes: &[u8], limit: usize) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, limit)?;
        reader.header::<()>(Kind::Successor)?;
        let before = reader.blob("the manifest of the keys before", MAX_MANIFEST_BYTES)?;
        let before: Manifest =
            serde_json::from_slice(before).map_err(|error| Error::BadManifest(error.to_string()))?;
        let users = UsersBundle::read(reader.blob("the users' bundle", limit)?)?;
        reader.end()?;
        users.manifest.check_rotation(&before)?;
        Ok(Successor { before, users })
    }
}
