//! What a member keeps, and its file.
//!
//! ```text
//! offset  bytes  field
//!      0      8  magic "HELBAMBR"
//!      8      2  version, 1, little-endian like all numbers
//!     10      1  number of the member
//!     11      4  length of the manifest
//!     15      …  manifest of the public bundle, JSON
//!            32  secret signing key
//!            32  secret sealing key
//!      32·(n−1)  keys with the other members, by their numbers
//!             …  shares: large ring, ring of scores, answers
//!   end−32   32  BLAKE3 hash of all bytes before
//! ```
//! With a passphrase, all of this is sealed as a secret bundle is ([`ckks_secret::seal`]).

use ckks::Params;
use ckks_committee::{MemberShare, PairKeys};
use ckks_secret::Passphrase;
use ckks_shares::Quorum;
use envelope::{SealingSecret, SigningSecret};
use host::Draft;
use protocol::budget::Budget;
use rand::CryptoRng;
use std::io::{Read, Write};
use std::path::Path;
use wire::{Custody, MAX_MANIFEST_BYTES, Manifest};
use zeroize::Zeroizing;

const MAGIC: [u8; 8] = *b"HELBAMBR";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 15;
/// The most bytes of a file. Shares of the largest ring have 8 MB.
const MOST_BYTES: u64 = 32 << 20;

/// The reason why a file of a member's keys was refused, or not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The file could not be read or written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Untrusted: bytes that are no keys of a member.
    #[error("the keys of a member cannot be read: {0}")]
    Malformed(&'static str),
    /// Misuse: the file is sealed, and no passphrase was given.
    #[error("the keys of this member are sealed: give the passphrase with --passphrase-file")]
    Sealed,
    /// The passphrase is wrong, or the file is damaged.
    #[error(transparent)]
    Secret(#[from] ckks_secret::Error),
    /// Untrusted: the manifest is not one of a committee's keys.
    #[error(transparent)]
    Wire(#[from] wire::Error),
    /// Untrusted: a key of the member is none.
    #[error(transparent)]
    Envelope(#[from] envelope::Error),
    /// Untrusted: a share is none.
    #[error(transparent)]
    Committee(#[from] ckks_committee::Error),
}

/// The shares of a member.
pub struct MemberShares {
    /// That of the secret of the large ring.
    pub large: MemberShare,
    /// That of the secret of the ring of scores.
    pub scores: MemberShare,
    /// That of the secret of the ring of scores, modulo the primes of answers.
    pub answers: MemberShare,
}

/// What a member of a committee keeps. It has no Debug, Clone and Serialize.
pub struct MemberKeys {
    manifest: Manifest,
    quorum: Quorum,
    shares: MemberShares,
    pairs: PairKeys,
    signing: SigningSecret,
    sealing: SealingSecret,
}

impl MemberKeys {
    /// The keys of the member with these shares, whose custody `manifest` states.
    pub fn new(
        manifest: Manifest,
        quorum: Quorum,
        shares: MemberShares,
        pairs: PairKeys,
        signing: SigningSecret,
        sealing: SealingSecret,
    ) -> Self {
        MemberKeys { manifest, quorum, shares, pairs, signing, sealing }
    }

    /// The manifest of the keys, whose custody is the committee.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// t of n.
    pub fn quorum(&self) -> Quorum {
        self.quorum
    }

    /// The epoch of the committee.
    pub fn epoch(&self) -> usize {
        match &self.manifest.custody {
            Custody::Committee(committee) => committee.epoch(),
            Custody::Holder => 0,
        }
    }

    /// The number of members who made the keys.
    pub fn makers(&self) -> u8 {
        match &self.manifest.custody {
            // A manifest of a committee has at most 16 members.
            Custody::Committee(committee) => committee.makers() as u8,
            Custody::Holder => 1,
        }
    }

    /// What this member answers for `nats` of the budget of answers of its keys
    /// ([`protocol::budget::budget_of_a_member`]).
    pub fn budget(&self, nats: f64) -> Budget {
        let quorum = (self.quorum.threshold(), self.quorum.members());
        protocol::budget::budget_of_a_member(nats, self.manifest.shape, quorum, self.makers())
    }

    /// The number of the member.
    pub fn member(&self) -> u8 {
        self.shares.large.member()
    }

    /// The share of the secret of the large ring.
    pub fn large(&self) -> &MemberShare {
        &self.shares.large
    }

    /// The share of the secret of the ring of scores.
    pub fn scores(&self) -> &MemberShare {
        &self.shares.scores
    }

    /// The share of the secret of the ring of scores, modulo the primes of answers.
    pub fn answers(&self) -> &MemberShare {
        &self.shares.answers
    }

    /// The keys that the member has in common with each other one.
    pub fn pairs(&self) -> &PairKeys {
        &self.pairs
    }

    /// The key that it signs with.
    pub fn signing(&self) -> &SigningSecret {
        &self.signing
    }

    /// The signature of a request for questions at `time`, in seconds since 1970.
    pub fn sign_poll(&self, time: u64) -> Vec<u8> {
        match &self.manifest.custody {
            Custody::Committee(committee) => {
                wire::sign_poll(&self.signing, &committee.session, self.member(), time)
            }
            // No keys of a member are read or made with such a manifest.
            Custody::Holder => Vec::new(),
        }
    }

    /// The head of the journal of `bandit` after this batch and this many records, with the signature of the
    /// member.
    pub fn sign_head(&self, bandit: &str, position: (u64, u64), hash: &[u8; 32]) -> wire::SignedHead {
        let session = match &self.manifest.custody {
            Custody::Committee(committee) => committee.session,
            // No keys of a member are read or made with such a manifest.
            Custody::Holder => ckks_shares::SessionId([0; 32]),
        };
        wire::SignedHead::sign((self.member(), &self.signing), &session, bandit, position, hash)
    }

    /// The key that messages to it are sealed under.
    pub fn sealing(&self) -> &SealingSecret {
        &self.sealing
    }

    /// Writes the keys to a new file that only its owner can read, whole or not at all.
    ///
    /// # Errors
    /// [`KeysError::Io`], also if the file exists; [`KeysError::Secret`] if they cannot be sealed.
    pub fn save<R: CryptoRng>(
        &self,
        path: &Path,
        passphrase: Option<&Passphrase>,
        rng: &mut R,
    ) -> Result<(), KeysError> {
        if path.exists() {
            return Err(std::io::Error::from(std::io::ErrorKind::AlreadyExists).into());
        }
        let bytes = self.to_bytes()?;
        let draft = Draft::create_private(path)?;
        match passphrase {
            None => draft.file().write_all(&bytes)?,
            Some(passphrase) => draft.file().write_all(&ckks_secret::seal(&bytes, passphrase, rng)?)?,
        }
        Ok(draft.finish()?)
    }

    /// Reads the file of [`Self::save`].
    ///
    /// # Errors
    /// [`KeysError`], by what is wrong.
    pub fn open(path: &Path, passphrase: Option<&Passphrase>) -> Result<Self, KeysError> {
        let bytes = read_private(path, MOST_BYTES)?;
        if bytes.starts_with(&ckks_secret::SEALED_MAGIC) {
            let passphrase = passphrase.ok_or(KeysError::Sealed)?;
            return Self::from_bytes(&ckks_secret::unseal(&bytes, passphrase)?);
        }
        Self::from_bytes(&bytes)
    }

    fn to_bytes(&self) -> Result<Zeroizing<Vec<u8>>, KeysError> {
        let json = serde_json::to_vec(&self.manifest).unwrap_or_default();
        let shares = [self.large(), self.scores(), self.answers()];
        let of_shares: usize = shares.iter().map(|share| MemberShare::bytes(share.params())).sum();
        let size = HEADER_BYTES + json.len() + 64 + 32 * 16 + of_shares + 32;
        let mut out = Zeroizing::new(Vec::with_capacity(size));
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.push(self.member());
        out.extend((json.len() as u32).to_le_bytes());
        out.extend(json);
        out.extend(*self.signing.to_bytes());
        out.extend(*self.sealing.to_bytes());
        self.pairs.write(self.quorum, &mut out)?;
        shares.iter().for_each(|share| share.write(&mut out));
        let digest = blake3::hash(&out);
        out.extend(digest.as_bytes());
        Ok(out)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, KeysError> {
        const SHORT: KeysError = KeysError::Malformed("it ends too early");
        let (content, digest) = bytes.split_last_chunk::<32>().ok_or(SHORT)?;
        let mut rest = content;
        let mut take = |count: usize| {
            let (part, after) = rest.split_at_checked(count).ok_or(SHORT)?;
            rest = after;
            Ok::<_, KeysError>(part)
        };
        let header = take(HEADER_BYTES)?;
        if header[..8] != MAGIC {
            return Err(KeysError::Malformed("not a file that `helba-member keygen` writes"));
        }
        if header[8..10] != VERSION.to_le_bytes() {
            return Err(KeysError::Malformed("its version is not one that this program reads"));
        }
        if blake3::hash(content) != *digest {
            return Err(KeysError::Malformed("its digest does not match: bytes were changed or lost"));
        }
        let (member, length) =
            (header[10], u32::from_le_bytes([header[11], header[12], header[13], header[14]]));
        if length as usize > MAX_MANIFEST_BYTES {
            return Err(KeysError::Malformed("its manifest is too long"));
        }
        let manifest: Manifest = serde_json::from_slice(take(length as usize)?)
            .map_err(|_| KeysError::Malformed("its manifest cannot be read"))?;
        let Custody::Committee(committee) = &manifest.custody else {
            return Err(KeysError::Malformed("its manifest is not one of a committee"));
        };
        let quorum = committee.quorum()?;
        if !quorum.everybody().contains(member) {
            return Err(KeysError::Malformed("the committee has no member of this number"));
        }
        let rings = rings(&manifest)?;
        let secret = |part: &[u8]| Zeroizing::new(<[u8; 32]>::try_from(part).unwrap_or_default());
        let signing = SigningSecret::from_bytes(&secret(take(32)?));
        let sealing = SealingSecret::from_bytes(&secret(take(32)?))?;
        let own = &committee.members[usize::from(member - 1)];
        if signing.public() != own.verifying.0 || sealing.public() != own.sealing.0 {
            return Err(KeysError::Malformed("its keys are not those of its member in the manifest"));
        }
        let pairs = PairKeys::read(member, quorum, take(32 * usize::from(quorum.members() - 1))?)?;
        let mut share = |params: &Params| {
            Ok::<_, KeysError>(MemberShare::read(params, quorum, member, take(MemberShare::bytes(params))?)?)
        };
        let shares =
            MemberShares { large: share(&rings[0])?, scores: share(&rings[1])?, answers: share(&rings[2])? };
        if !rest.is_empty() {
            return Err(KeysError::Malformed("bytes follow the shares"));
        }
        Ok(MemberKeys { manifest, quorum, shares, pairs, signing, sealing })
    }
}

/// Reads a file with secrets, of at most `most` bytes.
///
/// # Errors
/// Those of the operating system, of a file that is longer, and of one that other users can read.
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

/// The parameters of the large ring, of the ring of scores and of answers.
fn rings(manifest: &Manifest) -> Result<[Params; 3], KeysError> {
    let large = manifest.params()?;
    let (ring, scores) = manifest.scores(&large)?;
    let answers = manifest.scores.answers(ring, &large)?;
    Ok([large, scores, answers])
}
