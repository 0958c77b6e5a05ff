//! The identity of a member, which lasts, and its public card.

use ckks::Hex;
use envelope::{SEALING_SECRET_BYTES, SIGNING_SECRET_BYTES, SealingSecret, SigningSecret};
use host::Draft;
use rand::CryptoRng;
use serde::{Deserialize, Serialize};
use shares::Card;
use std::io::{Read, Write};
use std::path::Path;
use zeroize::Zeroizing;

const MAGIC: [u8; 8] = *b"HELBAIDN";
const VERSION: u16 = 1;
const IDENTITY_BYTES: usize = 10 + SIGNING_SECRET_BYTES + SEALING_SECRET_BYTES + 32;

/// The reason why the identity of a member was refused, or not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Untrusted: bytes that are no identity.
    #[error("it is no identity of a member, as `helba-member identity` writes one")]
    Identity,
    /// Untrusted: a secret that is none.
    #[error(transparent)]
    Envelope(#[from] envelope::Error),
}

/// The signing and the sealing secret of a member. It has no Debug, Clone and Serialize.
pub struct Identity {
    /// The key that it signs with.
    pub signing: SigningSecret,
    /// The key that messages to it are sealed under.
    pub sealing: SealingSecret,
}

/// A card in JSON, with keys in hexadecimal digits.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CardText {
    verifying: String,
    sealing: String,
}

impl Identity {
    /// A fresh identity.
    pub fn generate<R: CryptoRng>(rng: &mut R) -> Self {
        Identity { signing: SigningSecret::generate(rng), sealing: SealingSecret::generate(rng) }
    }

    /// The public half, which the others need.
    pub fn card(&self) -> Card {
        Card { sealing: self.sealing.public(), signing: self.signing.public() }
    }

    /// Writes a new file that only its owner can read.
    ///
    /// # Errors
    /// [`Error::Io`], also if the file exists.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        if path.exists() {
            return Err(std::io::Error::from(std::io::ErrorKind::AlreadyExists).into());
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(IDENTITY_BYTES));
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(*self.signing.to_bytes());
        bytes.extend(*self.sealing.to_bytes());
        let digest = blake3::hash(&bytes);
        bytes.extend(digest.as_bytes());
        let draft = Draft::create_private(path)?;
        draft.file().write_all(&bytes)?;
        Ok(draft.finish()?)
    }

    /// Reads the file of [`Self::save`].
    ///
    /// # Errors
    /// [`Error::Io`], also for a file that other users can read; [`Error::Identity`] for other bytes.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let bytes = read_private(path, IDENTITY_BYTES as u64 + 1)?;
        let (content, digest) = bytes.split_last_chunk::<32>().ok_or(Error::Identity)?;
        let whole = bytes.len() == IDENTITY_BYTES && blake3::hash(content) == *digest;
        if !whole || content[..8] != MAGIC || content[8..10] != VERSION.to_le_bytes() {
            return Err(Error::Identity);
        }
        let secret =
            |at: usize| content[at..].first_chunk::<32>().map(|s| Zeroizing::new(*s)).ok_or(Error::Identity);
        let (signing, sealing) = (secret(10)?, secret(10 + SIGNING_SECRET_BYTES)?);
        let sealing = SealingSecret::from_bytes(&sealing)?;
        Ok(Identity { signing: SigningSecret::from_bytes(&signing), sealing })
    }
}

/// The card as a line of JSON, for whoever writes the proposal.
pub fn card_to_json(card: &Card) -> String {
    let text =
        CardText { verifying: Hex(&card.signing).to_string(), sealing: Hex(&card.sealing).to_string() };
    // Serialising plain data into memory does not fail.
    serde_json::to_string(&text).unwrap_or_default()
}

/// Reads what [`card_to_json`] writes. The keys are not checked. `None` for other bytes.
pub fn card_from_json(json: &[u8]) -> Option<Card> {
    let CardText { verifying, sealing } = serde_json::from_slice(json).ok()?;
    Some(Card { sealing: wire::all_from_hex(&sealing)?, signing: wire::all_from_hex(&verifying)? })
}

/// Reads a file with secrets, of at most `most` bytes.
pub(crate) fn read_private(path: &Path, most: u64) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let file = host::open_private(path)?;
    let length = file.metadata()?.len();
    if length > most {
        return Err(std::io::Error::other(format!("it is longer than {most} bytes")));
    }
    // Reserved at once, because a vector that grows leaves copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(length as usize + 1));
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_was_written_and_refused_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let identity = Identity::generate(&mut rand::rng());
        identity.save(&path).unwrap();
        assert!(matches!(identity.save(&path), Err(Error::Io(_))), "it overwrites nothing");
        assert_eq!(Identity::open(&path).unwrap().card(), identity.card());
        let json = card_to_json(&identity.card());
        assert_eq!(card_from_json(json.as_bytes()), Some(identity.card()));
        assert_eq!(card_from_json(json.replace('"', "").as_bytes()), None);
        let bytes = std::fs::read(&path).unwrap();
        for bad in [&bytes[..bytes.len() - 1], &[&bytes[..], &[0]].concat()] {
            std::fs::write(&path, bad).unwrap();
            assert!(Identity::open(&path).is_err());
        }
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            std::fs::write(&path, bad).unwrap();
            assert!(matches!(Identity::open(&path), Err(Error::Identity)), "{at}");
        }
    }
}
