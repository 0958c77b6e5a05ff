use crate::Error;
use crate::manifest::differs;
use crate::token::{from_hex, push_hex};
use ckks_shares::{MOST_MEMBERS, Quorum, SessionId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most bytes of a public key of a member, which is that of a hybrid key encapsulation.
const MOST_KEY: usize = 2048;

/// Who can decrypt with a key pair.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Custody {
    /// Whoever has the secret bundle.
    #[default]
    Holder,
    /// Any t of the n members of a committee together, and nobody alone.
    Committee(CommitteeManifest),
}

/// The description of a key committee, which makes keys together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitteeManifest {
    /// t, the members that it takes to answer.
    pub threshold: u8,
    /// The run in which the members of this epoch got their shares: the key generation, or a resharing.
    #[serde(with = "session")]
    pub session: SessionId,
    /// The public keys of the members 1 to n.
    pub members: Vec<MemberManifest>,
    /// The digest of the frames of the public bundle ([`KeysDigest`]).
    pub keys: PublicBytes,
    /// The digest of the frame of the wide public key in the users' bundle.
    pub wide_key: PublicBytes,
    /// The signatures of the members 1 to n of the manifest ([`crate::Manifest::sign`]): the keys are those
    /// of the committee if all of them signed.
    pub signatures: Vec<PublicBytes>,
    /// The epochs before this one, from that of the key generation on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<PastEpoch>,
    /// The committee whose bandits go on under these keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Box<Followed>>,
}

/// A committee whose bandits go on under the keys of another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Followed {
    /// The id of its key pair.
    pub key_id: String,
    /// The id of its key pair of the ring of scores.
    pub scores_key_id: String,
    /// The hash of its manifest ([`crate::Manifest::signed_digest`]).
    pub digest: PublicBytes,
    /// Its last epoch. The signatures of its members are of the keys that follow
    /// ([`crate::Manifest::sign_rotation`]).
    pub epoch: PastEpoch,
}

/// An epoch that is over: who could answer in it, and that t of them handed their shares on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastEpoch {
    /// t.
    pub threshold: u8,
    /// The run in which its members got their shares.
    #[serde(with = "session")]
    pub session: SessionId,
    /// The verifying keys of its members 1 to n.
    pub verifying: Vec<PublicBytes>,
    /// The signatures of t of them of the epoch after it ([`crate::Manifest::sign_next_epoch`]).
    pub handover: Vec<Handover>,
}

/// The signature of a member of the epoch after its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// The number of the member.
    pub member: u8,
    /// The signature.
    pub signature: PublicBytes,
}

impl PastEpoch {
    /// t of n.
    ///
    /// # Errors
    /// As [`CommitteeManifest::quorum`].
    pub fn quorum(&self) -> Result<Quorum, Error> {
        quorum(self.threshold, self.verifying.len())
    }
}

/// The digest of the frames of a bundle: the hash of the digests at their ends.
#[derive(Debug, Clone)]
pub struct KeysDigest(blake3::Hasher);

impl Default for KeysDigest {
    fn default() -> Self {
        KeysDigest(blake3::Hasher::new_derive_key("helba committee v1: frames of keys"))
    }
}

impl KeysDigest {
    /// Adds a frame, whose last 32 bytes are the hash of all bytes before.
    pub fn add(&mut self, frame: &[u8]) {
        self.0.update(&frame[frame.len().saturating_sub(32)..]);
    }

    /// The digest of the frames so far.
    pub fn digest(&self) -> PublicBytes {
        PublicBytes(self.0.finalize().as_bytes().to_vec())
    }
}

/// The public keys of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberManifest {
    /// The key that its signatures are checked with.
    pub verifying: PublicBytes,
    /// The key that messages to it are sealed under.
    pub sealing: PublicBytes,
}

/// The bytes of a public key, in JSON as hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicBytes(pub Vec<u8>);

impl CommitteeManifest {
    /// t of n.
    ///
    /// # Errors
    /// [`Error::Manifest`] for numbers that no committee has.
    pub fn quorum(&self) -> Result<Quorum, Error> {
        quorum(self.threshold, self.members.len())
    }

    /// The number of the epoch: 0 after key generation, and one more with each resharing.
    pub fn epoch(&self) -> usize {
        self.before.len()
    }

    /// How many members made the keys: each contributed an error to them.
    pub fn makers(&self) -> usize {
        self.before.first().map_or(self.members.len(), |first| first.verifying.len())
    }

    /// This epoch, as the next one names it, without signatures.
    pub fn as_past(&self) -> PastEpoch {
        let verifying = self.members.iter().map(|member| member.verifying.clone()).collect();
        PastEpoch { threshold: self.threshold, session: self.session, verifying, handover: Vec::new() }
    }

    /// The epoch with this number, up to this one, without its signatures.
    pub fn epoch_at(&self, number: usize) -> Option<PastEpoch> {
        match self.before.get(number) {
            Some(past) => Some(PastEpoch { handover: Vec::new(), ..past.clone() }),
            None => (number == self.epoch()).then(|| self.as_past()),
        }
    }
}

fn quorum(threshold: u8, members: usize) -> Result<Quorum, Error> {
    let count = u8::try_from(members).unwrap_or(u8::MAX);
    let want = || {
        differs("custody", &format!("{threshold} of {members}"), &format!("t of 2t − 1 to {MOST_MEMBERS}"))
    };
    Quorum::new(threshold, count).map_err(|_| want())
}

impl Serialize for PublicBytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(2 * self.0.len());
        push_hex(&mut text, &self.0);
        to.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for PublicBytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let digits = |b: u8| (b as char).to_digit(16).filter(|_| !b.is_ascii_uppercase());
        let byte = |pair: &[u8]| Some((digits(pair[0])? << 4 | digits(*pair.get(1)?)?) as u8);
        let bytes: Option<Vec<u8>> =
            if text.len() <= 2 * MOST_KEY { text.as_bytes().chunks(2).map(byte).collect() } else { None };
        let wrong =
            || serde::de::Error::custom("a public key has at most 4096 hexadecimal digits, two a byte");
        bytes.map(PublicBytes).ok_or_else(wrong)
    }
}

/// The identifier of a key generation in JSON, as 64 hexadecimal digits.
mod session {
    use super::*;

    pub(super) fn serialize<S: Serializer>(id: &SessionId, to: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(64);
        push_hex(&mut text, &id.0);
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SessionId, D::Error> {
        let wrong = || serde::de::Error::custom("the id of a key generation has 64 hexadecimal digits");
        from_hex(&String::deserialize(from)?).map(SessionId).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committee(threshold: u8, members: usize) -> Custody {
        let member = |j: usize| MemberManifest {
            verifying: PublicBytes(vec![j as u8; 32]),
            sealing: PublicBytes(vec![j as u8; 1216]),
        };
        let signatures = (1..=members).map(|j| PublicBytes(vec![j as u8; 64])).collect();
        let (keys, wide_key) = (PublicBytes(vec![1; 32]), PublicBytes(vec![2; 32]));
        let (session, members) = (SessionId([0xab; 32]), (1..=members).map(member).collect());
        let (before, follows) = (Vec::new(), None);
        Custody::Committee(CommitteeManifest {
            threshold,
            session,
            members,
            keys,
            wide_key,
            signatures,
            before,
            follows,
        })
    }

    #[test]
    fn committees_are_read_as_they_are_written() {
        for custody in [Custody::Holder, committee(2, 3), committee(8, 16)] {
            let json = serde_json::to_string(&custody).unwrap();
            assert_eq!(serde_json::from_str::<Custody>(&json).unwrap(), custody);
            assert!(json.len() < 64 << 10, "a manifest has room for it: {}", json.len());
        }
        assert_eq!(serde_json::to_string(&Custody::Holder).unwrap(), r#"{"kind":"holder"}"#);
    }

    #[test]
    fn impossible_committees_are_refused() {
        for (t, n, possible) in [(2, 3, true), (3, 4, false), (1, 3, false), (2, 300, false)] {
            let Custody::Committee(manifest) = committee(t, n) else { unreachable!("a committee") };
            assert_eq!(manifest.quorum().is_ok(), possible, "{t} of {n}");
        }
        let key = |text: &str| serde_json::from_str::<PublicBytes>(&format!("{text:?}"));
        assert_eq!(key("00ff").unwrap(), PublicBytes(vec![0, 255]));
        for bad in ["0", "0g", "FF", "+f", "é0", &"00".repeat(MOST_KEY + 1)] {
            assert!(key(bad).is_err(), "{bad:.8}");
        }
    }
}
