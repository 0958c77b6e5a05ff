//! What the members of a committee agree on before they make keys or hand shares on, and the identity of
//! each.

use super::Error;
use crate::keys::read_private;
use ckks_shares::{ActiveSet, Quorum, SessionId};
use envelope::{SEALING_SECRET_BYTES, SIGNING_SECRET_BYTES, SealingSecret, SigningSecret};
use host::Draft;
use protocol::{MOST_ARMS, MOST_FEATURES, Shape};
use rand::CryptoRng;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::path::Path;
use wire::{CommitteeManifest, Custody, Followed, Manifest, MemberManifest, PublicBytes};
use zeroize::Zeroizing;

const MAGIC: [u8; 8] = *b"HELBAIDN";
const VERSION: u16 = 1;
const IDENTITY_BYTES: usize = 10 + SIGNING_SECRET_BYTES + SEALING_SECRET_BYTES + 32;
/// The most bytes of a proposal: sixteen cards, and the manifest of the epoch before.
const MOST_PROPOSAL: u64 = 160 << 10;
/// The most sets of t members by which keys are tested: 6 of 11 has 462.
const MOST_SETS: usize = 512;

/// The signing and the sealing secret of a member. It has no Debug, Clone and Serialize.
pub struct Identity {
    /// The key that it signs with.
    pub signing: SigningSecret,
    /// The key that messages to it are sealed under.
    pub sealing: SealingSecret,
}

impl Identity {
    /// A fresh identity.
    pub fn generate<R: CryptoRng>(rng: &mut R) -> Self {
        Identity { signing: SigningSecret::generate(rng), sealing: SealingSecret::generate(rng) }
    }

    /// The public half, which the others need.
    pub fn card(&self) -> MemberManifest {
        let (verifying, sealing) = (PublicBytes(self.signing.public()), PublicBytes(self.sealing.public()));
        MemberManifest { verifying, sealing }
    }

    pub(super) fn copy(&self) -> Result<Self, Error> {
        let sealing = SealingSecret::from_bytes(&self.sealing.to_bytes())?;
        Ok(Identity { signing: SigningSecret::from_bytes(&self.signing.to_bytes()), sealing })
    }

    /// Writes a new file that only its owner can read.
    ///
    /// # Errors
    /// [`Error::Io`], also if the file exists.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let io = |error| Error::Io { path: path.into(), error };
        if path.exists() {
            return Err(io(std::io::ErrorKind::AlreadyExists.into()));
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(IDENTITY_BYTES));
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(*self.signing.to_bytes());
        bytes.extend(*self.sealing.to_bytes());
        let digest = blake3::hash(&bytes);
        bytes.extend(digest.as_bytes());
        let draft = Draft::create_private(path).map_err(io)?;
        draft.file().write_all(&bytes).map_err(io)?;
        draft.finish().map_err(io)
    }

    /// Reads the file of [`Self::save`].
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Identity`] for other bytes.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let bytes = read_private(path, IDENTITY_BYTES as u64 + 1)
            .map_err(|error| Error::Io { path: path.into(), error })?;
        let bad = || Error::Identity { path: path.into() };
        let (content, digest) = bytes.split_last_chunk::<32>().ok_or_else(bad)?;
        let whole = bytes.len() == IDENTITY_BYTES && blake3::hash(content) == *digest;
        if !whole || content[..8] != MAGIC || content[8..10] != VERSION.to_le_bytes() {
            return Err(bad());
        }
        let secret =
            |at: usize| content[at..].first_chunk::<32>().map(|s| Zeroizing::new(*s)).ok_or_else(bad);
        let (signing, sealing) = (secret(10)?, secret(10 + SIGNING_SECRET_BYTES)?);
        let sealing = SealingSecret::from_bytes(&sealing)?;
        Ok(Identity { signing: SigningSecret::from_bytes(&signing), sealing })
    }
}

/// What the members make keys for, or which epoch they follow, and who they are. All must have the same file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    /// Number of features of an arm.
    pub features: usize,
    /// Number of arms.
    pub arms: usize,
    /// t, how many members it takes to answer.
    pub threshold: u8,
    /// Whether parameter sets without security are allowed, for tests.
    pub toy: bool,
    /// The time in the manifests, in seconds since 1970.
    pub created: u64,
    /// 32 random bytes, so that no two runs have the same name.
    pub nonce: PublicBytes,
    /// The cards of the members 1 to n.
    pub members: Vec<MemberManifest>,
    /// The epoch whose members hand their shares on to these members. Without one, these make keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resharing: Option<Box<Resharing>>,
    /// The committee whose bandits go on under the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Box<Followed>>,
}

/// The epoch that ends with a resharing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resharing {
    /// The manifest of its public bundle.
    pub before: Manifest,
    /// The t members who deal, by their numbers in that epoch.
    pub dealers: Vec<u8>,
}

impl Resharing {
    /// Its committee.
    ///
    /// # Errors
    /// [`Error::Proposal`] for keys that no committee holds.
    pub fn committee(&self) -> Result<&CommitteeManifest, Error> {
        match &self.before.custody {
            Custody::Committee(committee) => Ok(committee),
            Custody::Holder => Err(Error::Proposal("no committee holds the keys of its manifest".into())),
        }
    }

    /// The members who deal.
    ///
    /// # Errors
    /// As [`Self::committee`]; [`Error::Shares`] unless they are t.
    pub fn dealers(&self) -> Result<ActiveSet, Error> {
        Ok(self.committee()?.quorum()?.active(&self.dealers)?)
    }

    /// The manifest of the next epoch, whose shares come from `session`, without signatures.
    pub(super) fn next(&self, session: SessionId, proposal: &Proposal) -> Result<Manifest, Error> {
        let committee = self.committee()?;
        let mut before = committee.before.clone();
        before.push(committee.as_past());
        let next = CommitteeManifest {
            threshold: proposal.threshold,
            session,
            members: proposal.members.clone(),
            signatures: Vec::new(),
            before,
            ..committee.clone()
        };
        Ok(Manifest { custody: Custody::Committee(next), ..self.before.clone() })
    }

    fn check(&self, proposal: &Proposal) -> Result<(), Error> {
        let refused = |why: &str| Err(Error::Proposal(why.into()));
        self.dealers()?;
        self.before.check_signatures()?;
        if self.before.shape != proposal.shape() {
            return refused("its keys are for another problem than that of its manifest");
        }
        // With the signatures that are still to come, in hexadecimal digits.
        let signatures = 160 * (proposal.members.len() + self.dealers.len());
        let next = self.next(proposal.session(), proposal)?;
        let bytes = serde_json::to_vec(&next).unwrap_or_default().len() + signatures;
        if bytes > wire::MAX_MANIFEST_BYTES {
            return refused("the manifest would be too long after so many epochs: make new keys");
        }
        Ok(())
    }
}

impl Proposal {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Proposal`] for other bytes; as [`Self::check`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |error| Error::Io { path: path.into(), error };
        let mut json = Vec::new();
        let file = std::fs::File::open(path).map_err(io)?;
        file.take(MOST_PROPOSAL + 1).read_to_end(&mut json).map_err(io)?;
        if json.len() as u64 > MOST_PROPOSAL {
            return Err(Error::Proposal(format!("it is longer than {MOST_PROPOSAL} bytes")));
        }
        let read: Self = serde_json::from_slice(&json).map_err(|e| Error::Proposal(e.to_string()))?;
        read.check()?;
        Ok(read)
    }

    /// Refuses what no keys are made for.
    ///
    /// # Errors
    /// [`Error::Proposal`]; [`Error::Shares`] for numbers that no committee has; [`Error::Envelope`] for a
    /// key that is none.
    pub fn check(&self) -> Result<(), Error> {
        let refused = |why: String| Err(Error::Proposal(why));
        for (name, value, most) in
            [("features", self.features, MOST_FEATURES), ("arms", self.arms, MOST_ARMS)]
        {
            // No parameter set fits larger problems, and the power of two must not overflow.
            if !(1..=most).contains(&value) {
                return refused(format!("{name} is {value}, and keys carry from 1 to {most}"));
            }
        }
        let sets = self.quorum()?.subsets().count();
        if sets > MOST_SETS {
            return refused(format!(
                "keys are tested by every set of members, and {} of {} has {sets} sets: at most {MOST_SETS} are \
                 possible, as of 6 of 11",
                self.threshold,
                self.members.len()
            ));
        }
        if self.nonce.0.len() != 32 {
            return refused("its nonce has not 32 bytes".into());
        }
        for (i, card) in self.members.iter().enumerate() {
            envelope::check_sealing_key(&card.sealing.0)?;
            if self.members[..i].iter().any(|other| other.verifying == card.verifying) {
                return refused(format!("member {} is there twice", i + 1));
            }
        }
        if self.resharing.is_some() && self.follows.is_some() {
            return refused("shares are handed on under the same keys".into());
        }
        self.resharing.as_ref().map_or(Ok(()), |resharing| resharing.check(self))
    }

    /// t of n.
    ///
    /// # Errors
    /// [`Error::Shares`].
    pub fn quorum(&self) -> Result<Quorum, Error> {
        Ok(Quorum::new(self.threshold, u8::try_from(self.members.len()).unwrap_or(u8::MAX))?)
    }

    /// The shape that the keys serve.
    pub fn shape(&self) -> Shape {
        Shape::for_problem(self.features, self.arms)
    }

    /// The name of the run: the hash of all of this.
    pub fn session(&self) -> SessionId {
        // Serialising plain data into memory does not fail.
        let json = serde_json::to_vec(self).unwrap_or_default();
        SessionId(blake3::derive_key("helba committee v1: key generation", &json))
    }

    /// The number of the member with this card.
    ///
    /// # Errors
    /// [`Error::NotAMember`].
    pub fn member(&self, card: &MemberManifest) -> Result<u8, Error> {
        // There are at most 16.
        self.members.iter().zip(1..).find(|(own, _)| *own == card).map(|(_, j)| j).ok_or(Error::NotAMember)
    }
}
