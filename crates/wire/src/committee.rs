//! Messages between users and the server of an encrypted bandit whose key a committee holds. What is not here
//! is as in `encrypted`, and what members are asked is in `members`.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `POST …/decisions` | [`CommitteeContexts`] | [`crate::DecideReply`], whose answer is an [`OpenedAnswer`] |
//! | `POST …/decisions/{decision}/feedback` | frame of the statistics, a ciphertext with a proof ([`feedback_about`]) | receipt, JSON |

use crate::Error;
use crate::frame::{self, Kind, Reader};
use ckks::Params;
use ckks_shares::{ActiveSet, MOST_MEMBERS, Quorum};
use envelope::{SEALED_OVERHEAD, SEALING_KEY_BYTES, SIGNATURE_BYTES};
use serde::{Deserialize, Serialize};

/// Contexts of a device without a secret, and the key that the answer is sealed under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitteeContexts {
    /// A sealing key that is used for this request alone.
    pub answer_key: Vec<u8>,
    /// The frame of the contexts in the ring of scores, which was encrypted under the public key, with the
    /// proof that the sender knows them ([`ckks::encrypt_proven`]).
    pub contexts: Vec<u8>,
}

impl CommitteeContexts {
    /// Bytes of the frame of the contexts in the ring `small`.
    pub fn contexts_bytes(small: &Params) -> usize {
        ckks::proven_ciphertext_bytes(small, small.n())
    }

    /// What the proof of contexts for this many decisions holds for. The key of the answer is among it, so
    /// that nobody has the contexts of another user answered under a key of its own.
    pub fn about(bandit: &str, decisions: usize, answer_key: &[u8]) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        postcard::to_stdvec(&("helba contexts v1", bandit, decisions as u64, answer_key)).unwrap_or_default()
    }

    /// The most bytes of the message, with contexts of at most `contexts` bytes.
    pub const fn most_bytes(contexts: usize) -> usize {
        frame::overhead(2) + SEALING_KEY_BYTES + contexts
    }

    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        frame::write(Kind::CommitteeContexts, &(), &[&self.answer_key, &self.contexts])
    }

    /// Reads the bytes of [`Self::to_bytes`]. The frame is not read.
    ///
    /// # Errors
    /// As [`crate::DecideReply::read`]; [`Error::Envelope`] for bytes that are no sealing key.
    pub fn read(bytes: &[u8], contexts: usize) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, Self::most_bytes(contexts))?;
        reader.header::<()>(Kind::CommitteeContexts)?;
        let answer_key = reader.blob("the key of the answer", SEALING_KEY_BYTES)?.to_vec();
        envelope::check_sealing_key(&answer_key)?;
        let contexts = reader.blob("the contexts", contexts)?.to_vec();
        reader.end()?;
        Ok(CommitteeContexts { answer_key, contexts })
    }
}

/// What the proof of the feedback on the decision of a round holds for.
pub fn feedback_about(bandit: &str, round: u64) -> Vec<u8> {
    // Serialising plain data into memory does not fail.
    postcard::to_stdvec(&("helba feedback v1", bandit, round)).unwrap_or_default()
}

/// What an answer is about. Members seal and sign their shares of an answer for this and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerBinding {
    /// The id of the bandit.
    pub bandit: String,
    /// The round of the first decision; those of further ones follow it.
    pub round: u64,
    /// t_j, the number of feedbacks in the model of the decision.
    pub model_feedbacks: u64,
    /// The numbers of the decisions in the evaluation.
    pub users: Vec<u32>,
    /// The hash of the key that the answer is sealed under ([`answer_key_hash`]).
    pub answer_key: [u8; 32],
}

/// The hash by which an [`AnswerBinding`] names a sealing key.
pub fn answer_key_hash(key: &[u8]) -> [u8; 32] {
    blake3::derive_key("helba committee v1: key of an answer", key)
}

/// The domain of signatures of [`SealedShare`]s.
const ANSWER_SIGNATURE: &str = "helba committee v1: share of an answer";

impl AnswerBinding {
    /// The purpose for which `member` seals its share, as one of the members `set` of this request.
    pub fn purpose(&self, request: &[u8; 32], set: ActiveSet, member: u8) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        postcard::to_stdvec(&(self, request, set.bits(), member)).unwrap_or_default()
    }

    /// What `member` signs of its sealed share.
    fn signed(&self, request: &[u8; 32], set: ActiveSet, member: u8, sealed: &[u8]) -> Vec<u8> {
        let mut out = self.purpose(request, set, member);
        out.extend(blake3::hash(sealed).as_bytes());
        out
    }
}

/// A member's share of an answer: the residues of its forms modulo the first prime, eight bytes each, in the
/// order of the decisions and their arms, sealed under the key of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedShare {
    /// The number of the member.
    pub member: u8,
    /// The sealed residues.
    pub sealed: Vec<u8>,
    /// The signature of the member.
    pub signature: Vec<u8>,
}

impl SealedShare {
    /// Seals and signs `share`, for members.
    ///
    /// # Errors
    /// [`Error::Envelope`] for a key that is no sealing key.
    pub fn seal<R: rand::CryptoRng>(
        member: (u8, &envelope::SigningSecret),
        binding: &AnswerBinding,
        answer_key: &[u8],
        request: &[u8; 32],
        set: ActiveSet,
        share: &[u64],
        rng: &mut R,
    ) -> Result<Self, Error> {
        let (number, signing) = member;
        let purpose = binding.purpose(request, set, number);
        let mut bytes = zeroize::Zeroizing::new(Vec::with_capacity(8 * share.len()));
        share.iter().for_each(|x| bytes.extend(x.to_le_bytes()));
        let sealed = envelope::seal(answer_key, &purpose, &bytes, rng)?;
        let signed = binding.signed(request, set, number, &sealed);
        let signature = signing.sign(ANSWER_SIGNATURE, &signed).to_vec();
        Ok(SealedShare { member: number, sealed, signature })
    }

    /// Checks the signature under the verifying key of the member.
    ///
    /// # Errors
    /// [`Error::Envelope`].
    pub fn check(
        &self,
        verifying: &[u8],
        binding: &AnswerBinding,
        request: &[u8; 32],
        set: ActiveSet,
    ) -> Result<(), Error> {
        let signed = binding.signed(request, set, self.member, &self.sealed);
        Ok(envelope::verify(verifying, ANSWER_SIGNATURE, &signed, &self.signature)?)
    }

    /// Opens the share, which must have `count` residues.
    ///
    /// # Errors
    /// [`Error::Envelope`]; [`Error::Malformed`] for another number of residues.
    pub fn open(
        &self,
        secret: &envelope::SealingSecret,
        binding: &AnswerBinding,
        request: &[u8; 32],
        set: ActiveSet,
        count: usize,
    ) -> Result<zeroize::Zeroizing<Vec<u64>>, Error> {
        let bytes = secret.open(&binding.purpose(request, set, self.member), &self.sealed)?;
        if bytes.len() != 8 * count {
            return Err(Error::Malformed("a share of an answer has not one residue for each arm"));
        }
        let (residues, _) = bytes.as_chunks::<8>();
        Ok(residues.iter().map(|x| u64::from_le_bytes(*x)).collect::<Vec<u64>>().into())
    }
}

/// An answer that t members opened for one user: the user alone reads their shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedAnswer {
    /// The identifier of the request to the members ([`ckks_shares::RequestId`]).
    pub request: [u8; 32],
    /// The members who were asked, as [`ActiveSet::bits`].
    pub set: u16,
    /// ⟨w, c₀⟩ of each form, modulo the first prime, in the order of [`SealedShare`].
    pub values: Vec<u64>,
    /// The shares of the members of the set, in ascending order.
    pub shares: Vec<SealedShare>,
}

impl OpenedAnswer {
    /// The most bytes of an answer with `values` forms.
    pub const fn most_bytes(values: usize) -> usize {
        let share = 10 + SIGNATURE_BYTES + SEALED_OVERHEAD + 8 * values;
        frame::overhead(2) + 9 * values + MOST_MEMBERS as usize * share + 64
    }

    /// The bytes of the answer.
    pub fn to_bytes(&self) -> Vec<u8> {
        let values: Vec<u8> = self.values.iter().flat_map(|x| x.to_le_bytes()).collect();
        // Serialising plain data into memory does not fail.
        let shares = postcard::to_stdvec(&self.shares).unwrap_or_default();
        frame::write(Kind::OpenedAnswer, &(self.request, self.set), &[&values, &shares])
    }

    /// Reads an answer with `values` forms from the members of `quorum`, whose shares are those of the set.
    /// Their signatures are not checked.
    ///
    /// # Errors
    /// As [`crate::DecideReply::read`].
    pub fn read(bytes: &[u8], quorum: Quorum, values: usize) -> Result<(Self, ActiveSet), Error> {
        let most = Self::most_bytes(values);
        let mut reader = Reader::new(bytes, most)?;
        let (request, set) = reader.header::<([u8; 32], u16)>(Kind::OpenedAnswer)?;
        let own = reader.blob("the values of an answer", 8 * values)?;
        let shares = reader.blob("the shares of an answer", most)?;
        reader.end()?;
        let (own, rest) = own.as_chunks::<8>();
        if own.len() != values || !rest.is_empty() {
            return Err(Error::Malformed("an answer has not one value for each arm"));
        }
        let (shares, rest) = postcard::take_from_bytes::<Vec<SealedShare>>(shares)
            .map_err(|_| Error::Malformed("the shares of an answer cannot be read"))?;
        if !rest.is_empty() {
            return Err(Error::Trailing { bytes: rest.len() });
        }
        let members: Vec<u8> = shares.iter().map(|share| share.member).collect();
        let active = quorum
            .active(&members)
            .ok()
            .filter(|active| active.bits() == set && active.iter().eq(members.iter().copied()));
        let active =
            active.ok_or(Error::Malformed("the shares of an answer are not those of its members"))?;
        let values = own.iter().map(|x| u64::from_le_bytes(*x)).collect();
        Ok((OpenedAnswer { request, set, values, shares }, active))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use envelope::{SealingSecret, SigningSecret};
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    fn binding() -> AnswerBinding {
        let (bandit, users) = ("b".repeat(32), vec![3, 7]);
        AnswerBinding { bandit, round: 9, model_feedbacks: 8, users, answer_key: [1; 32] }
    }

    /// A share is read by its user, for its meaning, from its member.
    #[test]
    fn shares_of_answers_belong_to_their_request() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let (user, signing) = (SealingSecret::generate(&mut rng), SigningSecret::generate(&mut rng));
        let quorum = Quorum::new(2, 3).unwrap();
        let [set, other_set] = [[1, 3], [2, 3]].map(|members| quorum.active(&members).unwrap());
        let (binding, request) = (binding(), [5; 32]);
        let member = (3, &signing);
        let share =
            SealedShare::seal(member, &binding, &user.public(), &request, set, &[1, u64::MAX, 3], &mut rng)
                .unwrap();
        let key = signing.public();
        share.check(&key, &binding, &request, set).unwrap();
        assert_eq!(**share.open(&user, &binding, &request, set, 3).unwrap(), [1, u64::MAX, 3]);
        assert!(share.open(&user, &binding, &request, set, 2).is_err());
        for (name, binding, request, set) in [
            ("round", AnswerBinding { round: 10, ..binding.clone() }, request, set),
            ("users", AnswerBinding { users: vec![3, 8], ..binding.clone() }, request, set),
            ("bandit", AnswerBinding { bandit: "c".into(), ..binding.clone() }, request, set),
            ("request", binding.clone(), [6; 32], set),
            ("set", binding.clone(), request, other_set),
        ] {
            assert!(share.check(&key, &binding, &request, set).is_err(), "{name}");
            assert!(share.open(&user, &binding, &request, set, 3).is_err(), "{name}");
        }
        let another = SealedShare { member: 1, ..share.clone() };
        assert!(another.check(&key, &binding, &request, set).is_err());

        let first = SealedShare { member: 1, ..share.clone() };
        let answer =
            OpenedAnswer { request, set: set.bits(), values: vec![4, 5, 6], shares: vec![first, share] };
        let bytes = answer.to_bytes();
        assert!(bytes.len() <= OpenedAnswer::most_bytes(3), "{}", bytes.len());
        assert_eq!(OpenedAnswer::read(&bytes, quorum, 3).unwrap(), (answer.clone(), set));
        assert!(
            OpenedAnswer::read(&bytes, quorum, 2).is_err() && OpenedAnswer::read(&bytes, quorum, 4).is_err()
        );
        let swapped =
            OpenedAnswer { shares: answer.shares.iter().rev().cloned().collect(), ..answer.clone() };
        let one = OpenedAnswer { shares: answer.shares[..1].to_vec(), ..answer.clone() };
        let foreign = OpenedAnswer { set: 0b110, ..answer };
        for bad in [swapped, one, foreign] {
            assert!(OpenedAnswer::read(&bad.to_bytes(), quorum, 3).is_err());
        }
        for len in 0..bytes.len() {
            assert!(OpenedAnswer::read(&bytes[..len], quorum, 3).is_err(), "{len}");
        }
    }

    #[test]
    fn contexts_are_read_as_they_are_written() {
        let key = SealingSecret::generate(&mut ChaCha20Rng::seed_from_u64(2)).public();
        let contexts = CommitteeContexts { answer_key: key, contexts: vec![1; 50] };
        assert_eq!(CommitteeContexts::read(&contexts.to_bytes(), 50).unwrap(), contexts);
        assert!(CommitteeContexts::read(&contexts.to_bytes(), 49).is_err());
        let no_key = CommitteeContexts { answer_key: vec![0xff; SEALING_KEY_BYTES], ..contexts };
        assert!(matches!(CommitteeContexts::read(&no_key.to_bytes(), 50), Err(Error::Envelope(_))));
    }
}
