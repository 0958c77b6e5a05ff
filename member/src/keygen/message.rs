//! The messages of a key generation or a resharing: signed, and one for each slot.

use super::Error;
use ckks_shares::SessionId;
use envelope::{SIGNATURE_BYTES, SigningSecret};

/// The domain of signatures of messages.
const SIGNATURE: &str = "helba committee v1: message of key generation";

/// The rounds. A member sends its messages of a round when it has those of all members of the rounds before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Round {
    /// The hash of what is revealed next.
    Commit = 1,
    /// The public keys of the member's own secrets: of the large ring, and the wide one of scores.
    Reveal,
    /// What is dealt to each other member, sealed.
    Deal,
    /// The shares of all other keys.
    Keys,
    /// The shares of the openings that test the keys.
    Test,
    /// The hash of what is signed next.
    Verdict,
    /// The signature of the keys.
    Confirm,
    /// In place of a signature: all that the member drew, so that who deviated is found. In a resharing, why
    /// the member ends the run, and no secret.
    Blame,
    /// Halves of the pair keys of the next epoch, sealed.
    Pair,
    /// The signature of a member of this epoch of the next one.
    Handover,
    /// That the member has written its new share.
    Stored,
}

impl Round {
    /// The rounds of a key generation without blame, in their order.
    pub const OF_KEYS: [Round; 7] =
        [Round::Commit, Round::Reveal, Round::Deal, Round::Keys, Round::Test, Round::Verdict, Round::Confirm];
    /// The rounds of a resharing, in their order. Members of the epoch that ends send deals and handovers, by
    /// their numbers in it, and those of the next epoch all others.
    pub const OF_RESHARING: [Round; 6] =
        [Round::Pair, Round::Deal, Round::Test, Round::Confirm, Round::Handover, Round::Stored];

    /// The round with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::OF_KEYS
            .into_iter()
            .chain(Self::OF_RESHARING)
            .chain([Round::Blame])
            .find(|round| *round as u8 == number)
    }
}

impl std::fmt::Display for Round {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Round::Commit => "commitment",
            Round::Reveal => "public key",
            Round::Deal => "deal",
            Round::Keys => "share of a key",
            Round::Test => "test",
            Round::Verdict => "verdict",
            Round::Confirm => "confirmation",
            Round::Blame => "opening",
            Round::Pair => "half of a pair key",
            Round::Handover => "handover",
            Round::Stored => "receipt",
        })
    }
}

/// The place of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// The round.
    pub round: Round,
    /// The number of the message among those of its member in the round: of a deal, the receiver less one.
    pub number: u16,
    /// The member who sends it.
    pub member: u8,
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} of member {}", self.round, self.number, self.member)
    }
}

/// What is signed of a message: its slot, its length and hash, and all that its member has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The slot.
    pub slot: Slot,
    /// The bytes of the body.
    pub length: u32,
    /// The hash of all messages of the rounds before.
    pub seen: [u8; 32],
    /// The hash of the body.
    pub digest: [u8; 32],
    /// The signature of the member.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl Entry {
    /// Bytes of an entry.
    pub const BYTES: usize = 8 + 32 + 32 + SIGNATURE_BYTES;

    /// The signed entry of a message.
    pub fn sign(
        signing: &SigningSecret,
        session: &SessionId,
        slot: Slot,
        seen: [u8; 32],
        body: &[u8],
    ) -> Self {
        let (length, digest) = (body.len() as u32, *blake3::hash(body).as_bytes());
        let mut entry = Entry { slot, length, seen, digest, signature: [0; SIGNATURE_BYTES] };
        entry.signature = signing.sign(SIGNATURE, &entry.signed(session));
        entry
    }

    /// Whether the member with this verifying key signed the entry in this run.
    pub fn is_signed(&self, verifying: &[u8], session: &SessionId) -> bool {
        envelope::verify(verifying, SIGNATURE, &self.signed(session), &self.signature).is_ok()
    }

    /// Whether `body` is that of the message.
    pub fn is_of(&self, body: &[u8]) -> bool {
        body.len() == self.length as usize && blake3::hash(body) == self.digest
    }

    fn signed(&self, session: &SessionId) -> Vec<u8> {
        [&session.0[..], &self.to_bytes()[..Self::BYTES - SIGNATURE_BYTES]].concat()
    }

    /// The bytes of the entry.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let Slot { round, number, member } = self.slot;
        let mut out = [0; Self::BYTES];
        out[..2].copy_from_slice(&[round as u8, member]);
        out[2..4].copy_from_slice(&number.to_le_bytes());
        out[4..8].copy_from_slice(&self.length.to_le_bytes());
        out[8..40].copy_from_slice(&self.seen);
        out[40..72].copy_from_slice(&self.digest);
        out[72..].copy_from_slice(&self.signature);
        out
    }

    /// Reads the bytes of [`Self::to_bytes`]. The signature is not checked.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Result<Self, Error> {
        let round = Round::from_number(bytes[0]).ok_or(Error::Malformed("a message of no known round"))?;
        let part = |at: usize| std::array::from_fn(|i| bytes[at + i]);
        let slot = Slot { round, member: bytes[1], number: u16::from_le_bytes([bytes[2], bytes[3]]) };
        let length = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let signature = std::array::from_fn(|i| bytes[72 + i]);
        Ok(Entry { slot, length, seen: part(8), digest: part(40), signature })
    }

    /// Reads several entries.
    ///
    /// # Errors
    /// [`Error::Malformed`], also for a number of bytes that no entries have.
    pub fn read_all(bytes: &[u8]) -> Result<Vec<Self>, Error> {
        let (entries, rest) = bytes.as_chunks::<{ Self::BYTES }>();
        if !rest.is_empty() {
            return Err(Error::Malformed("a list of messages ends within one"));
        }
        entries.iter().map(Self::from_bytes).collect()
    }
}
