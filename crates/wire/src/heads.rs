//! The heads of the journal of a bandit, which members sign at the end of each batch.
//!
//! The journal of a bandit is a chain of hashes. A member signs the hash after the last record of a batch,
//! once it has followed the journal up to there, and never another one for the same batch. Two heads of one
//! batch that differ are the evidence that somebody was shown another journal, or that a member signs what it
//! did not see.

use crate::{CommitteeManifest, Error, PublicBytes};
use ckks_shares::SessionId;
use envelope::{SIGNATURE_BYTES, SigningSecret};
use serde::{Deserialize, Serialize};

/// The domain of signatures of [`SignedHead`]s.
const HEAD_SIGNATURE: &str = "helba committee v1: head of a journal";
/// The most bytes of the id of a bandit.
const MOST_ID: usize = 64;
/// The most bytes of a head as JSON.
pub(crate) const MOST_HEAD: usize = 1024;

/// The head of the journal of a bandit after a batch, signed by a member that has followed it up to there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedHead {
    /// The id of the bandit.
    pub bandit: String,
    /// The number of the member in its epoch.
    pub member: u8,
    /// The number of batches that have ended, from 1 on.
    pub batch: u64,
    /// The number of records up to the end of the batch.
    pub records: u64,
    /// The hash of the chain of these records.
    pub hash: PublicBytes,
    /// The signature of the member.
    pub signature: PublicBytes,
}

impl SignedHead {
    /// The head of `bandit` after this batch and this many records, signed by `member`.
    pub fn sign(
        (member, signing): (u8, &SigningSecret),
        session: &SessionId,
        bandit: &str,
        (batch, records): (u64, u64),
        hash: &[u8; 32],
    ) -> Self {
        let (bandit, hash, signature) =
            (bandit.to_string(), PublicBytes(hash.to_vec()), PublicBytes(Vec::new()));
        let mut head = SignedHead { bandit, member, batch, records, hash, signature };
        head.signature = PublicBytes(signing.sign(HEAD_SIGNATURE, &head.signed(session)).to_vec());
        head
    }

    /// Checks that a member of the committee signed it in this epoch.
    ///
    /// # Errors
    /// [`Error::Malformed`] for numbers that no head has; [`Error::Envelope`].
    pub fn check(&self, committee: &CommitteeManifest) -> Result<(), Error> {
        let member = usize::from(self.member).checked_sub(1).and_then(|at| committee.members.get(at));
        let fits = self.bandit.len() <= MOST_ID
            && self.hash.0.len() == 32
            && self.signature.0.len() == SIGNATURE_BYTES
            && (1..=self.records).contains(&self.batch);
        let member = member.filter(|_| fits).ok_or(Error::Malformed("a head that no member signs"))?;
        Ok(envelope::verify(
            &member.verifying.0,
            HEAD_SIGNATURE,
            &self.signed(&committee.session),
            &self.signature.0,
        )?)
    }

    /// The bytes, JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads the bytes of [`Self::to_bytes`]. The signature is not checked.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let bytes = Some(bytes).filter(|bytes| bytes.len() <= MOST_HEAD);
        let read = bytes.and_then(|bytes| serde_json::from_slice(bytes).ok());
        read.ok_or(Error::Malformed("a head cannot be read"))
    }

    /// Whether no journal has both heads.
    pub fn contradicts(&self, other: &SignedHead) -> bool {
        let meets = self.batch == other.batch || self.records == other.records;
        let same = (self.batch, self.records, &self.hash) == (other.batch, other.records, &other.hash);
        self.bandit == other.bandit && meets && !same
    }

    fn signed(&self, session: &SessionId) -> Vec<u8> {
        let meaning = (session.0, &self.bandit, self.member, self.batch, self.records, &self.hash.0);
        // Serialising plain data into memory does not fail.
        postcard::to_stdvec(&meaning).unwrap_or_default()
    }
}

/// The pairs of heads that no journal has both of, among those that members of this epoch have signed.
pub fn forks(committee: &CommitteeManifest, heads: &[SignedHead]) -> Vec<(SignedHead, SignedHead)> {
    let signed: Vec<_> = heads.iter().filter(|head| head.check(committee).is_ok()).collect();
    let pairs = signed.iter().enumerate().flat_map(|(at, a)| signed[at + 1..].iter().map(move |b| (a, b)));
    pairs.filter(|(a, b)| a.contradicts(b)).map(|(a, b)| ((*a).clone(), (*b).clone())).collect()
}
