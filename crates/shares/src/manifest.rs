//! What the members of a committee agree on: who they are, and the hash of each of their keys.
//!
//! | what | what it has |
//! |---|---|
//! | [`Proposal`] | t of n, the [`Card`] of each member, and a nonce: a committee that has no keys yet |
//! | [`Manifest`] | the proposal, and the hash of each key that its members have drawn |
//! | [`SignedManifest`] | the manifest, and the signature of its id by each member |
//!
//! The id of the manifest is the id of the committee. A device that knows this id needs no more than the
//! signed manifest to begin sessions, and [`SignedManifest::check`] shows that all members have agreed to it.

use crate::{Error, Sharing, Threshold};
use envelope::SigningSecret;
use serde::{Deserialize, Serialize};

/// What signatures of a manifest are for.
const CONTEXT: &str = "helba 2026-11-27 manifest of a committee on shares";
/// The most bytes of a manifest: those of 10 members, 126 subsets and 45 pairs are below 20,000.
const MOST_BYTES: usize = 1 << 16;

/// The public keys of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Messages to the member are sealed under this key.
    pub sealing: Vec<u8>,
    /// The member signs with the secret of this key.
    pub signing: Vec<u8>,
}

/// A committee before it has keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// How many members it has, and how many know everything together.
    pub threshold: Threshold,
    /// The members 1 to n.
    pub cards: Vec<Card>,
    /// The committee whose bandits it takes over; none for a new one.
    pub follows: Option<[u8; 32]>,
    /// Drawn for this proposal. Keys that have to be drawn again are drawn for another proposal.
    pub nonce: [u8; 32],
}

/// A committee and the hashes of its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Whose keys they are.
    pub proposal: Proposal,
    /// The hash of the key of each subset, in the order of [`Threshold::subsets`].
    pub subsets: Vec<[u8; 32]>,
    /// The hash of the key of each pair, in the order of [`Threshold::pairs`].
    pub pairs: Vec<[u8; 32]>,
}

/// A manifest with the signature of each member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedManifest {
    /// What they have signed.
    pub manifest: Manifest,
    /// The signatures of the members 1 to n.
    pub signatures: Vec<Vec<u8>>,
}

impl Proposal {
    /// The hash of all of it.
    pub fn id(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 proposal of a committee on shares");
        let (t, n) = self.threshold.into();
        hasher.update(&[t, n]).update(&(self.cards.len() as u64).to_le_bytes());
        for part in self.cards.iter().flat_map(|card| [&card.sealing, &card.signing]) {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        hasher.update(&[u8::from(self.follows.is_some())]).update(&self.follows.unwrap_or_default());
        *hasher.update(&self.nonce).finalize().as_bytes()
    }

    /// The polynomials of the committee, if n members with keys of their own are named.
    ///
    /// # Errors
    /// [`Error::Cards`] for another number of members, [`Error::Card`] for a bad key, and for one that two
    /// members have: with it one member could count as two.
    pub fn check(&self) -> Result<Sharing, Error> {
        let need = usize::from(self.threshold.members());
        if self.cards.len() != need {
            return Err(Error::Cards { got: self.cards.len(), need });
        }
        for ((member, card), at) in (1..).zip(&self.cards).zip(0..) {
            let refused = |what| Err(Error::Card { member, what });
            let before = &self.cards[..at];
            if envelope::check_sealing_key(&card.sealing).is_err() {
                return refused("a sealing key that is none");
            }
            // No signature of 64 zeros holds. What is refused here is a key under which none could be looked
            // at.
            let signature = envelope::verify(&card.signing, CONTEXT, b"", &[0; envelope::SIGNATURE_BYTES]);
            if matches!(signature, Err(envelope::Error::BadKey(_))) {
                return refused("a signing key that is none");
            }
            if before.iter().any(|other| other.sealing == card.sealing) {
                return refused("the sealing key of another member");
            }
            if before.iter().any(|other| other.signing == card.signing) {
                return refused("the signing key of another member");
            }
        }
        Ok(Sharing::new(self.threshold))
    }
}

impl Manifest {
    /// The hash of all of it: the committee's id.
    pub fn id(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 id of a committee on shares");
        hasher.update(&self.proposal.id());
        for hashes in [&self.subsets, &self.pairs] {
            hasher.update(&(hashes.len() as u64).to_le_bytes());
            hashes.iter().for_each(|hash| {
                hasher.update(hash);
            });
        }
        *hasher.finalize().as_bytes()
    }

    /// The polynomials of the committee, if its proposal is right and each key has one hash.
    ///
    /// # Errors
    /// Those of [`Proposal::check`], and [`Error::Hashes`].
    pub fn check(&self) -> Result<Sharing, Error> {
        let sharing = self.proposal.check()?;
        let pairs = sharing.threshold().pairs().len();
        let of = [("subsets", &self.subsets, sharing.subsets().len()), ("pairs", &self.pairs, pairs)];
        match of.into_iter().find(|(_, hashes, need)| hashes.len() != *need) {
            None => Ok(sharing),
            Some((what, hashes, need)) => Err(Error::Hashes { what, got: hashes.len(), need }),
        }
    }

    /// The signature of the member with this secret.
    pub fn sign(&self, signing: &SigningSecret) -> Vec<u8> {
        signing.sign(CONTEXT, &self.id()).to_vec()
    }

    /// Whether this member has signed the manifest.
    ///
    /// # Errors
    /// [`Error::Unsigned`].
    pub fn verify(&self, member: u8, signature: &[u8]) -> Result<(), Error> {
        let card = usize::from(member).checked_sub(1).and_then(|at| self.proposal.cards.get(at));
        let right = |card: &&Card| envelope::verify(&card.signing, CONTEXT, &self.id(), signature).is_ok();
        card.filter(right).map(drop).ok_or(Error::Unsigned { member })
    }
}

impl SignedManifest {
    /// The committee's id.
    pub fn id(&self) -> [u8; 32] {
        self.manifest.id()
    }

    /// The polynomials of the committee, if all its members have signed the manifest.
    ///
    /// # Errors
    /// Those of [`Manifest::check`], and [`Error::Unsigned`] for a member whose signature is missing or of
    /// something else.
    pub fn check(&self) -> Result<Sharing, Error> {
        let sharing = self.manifest.check()?;
        for member in 1..=sharing.threshold().members() {
            let signature = self.signatures.get(usize::from(member) - 1);
            self.manifest.verify(member, signature.map_or(&[], Vec::as_slice))?;
        }
        match self.signatures.len() == usize::from(sharing.threshold().members()) {
            true => Ok(sharing),
            false => Err(Error::Form { what: "a signed manifest with one signature of each member" }),
        }
    }

    /// The bytes that [`SignedManifest::from_bytes`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Only a serializer of one's own fails.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Reads what [`SignedManifest::to_bytes`] writes. It is not checked yet.
    ///
    /// # Errors
    /// [`Error::Form`] for bytes of another form, more than 65,536, or some that are left over.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        read(bytes, "a signed manifest")
    }
}

impl Proposal {
    /// The bytes that [`Proposal::from_bytes`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Only a serializer of one's own fails.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Reads what [`Proposal::to_bytes`] writes. It is not checked yet.
    ///
    /// # Errors
    /// As [`SignedManifest::from_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        read(bytes, "a proposal")
    }
}

impl Threshold {
    /// Every pair of members: (1, 2), (1, 3), …, (2, 3), ….
    pub fn pairs(self) -> Vec<(u8, u8)> {
        (1..=self.members()).flat_map(|a| (a + 1..=self.members()).map(move |b| (a, b))).collect()
    }
}

impl From<Threshold> for (u8, u8) {
    /// t and n.
    fn from(threshold: Threshold) -> Self {
        // t was a byte in Threshold::new.
        (threshold.t() as u8, threshold.members())
    }
}

impl TryFrom<(u8, u8)> for Threshold {
    type Error = Error;

    fn try_from((t, n): (u8, u8)) -> Result<Self, Error> {
        Threshold::new(t, n)
    }
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &'static str) -> Result<T, Error> {
    if bytes.len() > MOST_BYTES {
        return Err(Error::Form { what });
    }
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(Error::Form { what }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use envelope::SealingSecret;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    fn committee(t: u8, n: u8) -> (Vec<SigningSecret>, SignedManifest) {
        let mut rng = ChaCha20Rng::seed_from_u64(u64::from(n));
        let signing: Vec<SigningSecret> = (0..n).map(|_| SigningSecret::generate(&mut rng)).collect();
        let mut card = |signing: &SigningSecret| Card {
            sealing: SealingSecret::generate(&mut rng).public(),
            signing: signing.public(),
        };
        let threshold = Threshold::new(t, n).unwrap();
        let cards = signing.iter().map(&mut card).collect();
        let manifest = Manifest {
            proposal: Proposal { threshold, cards, follows: None, nonce: [n; 32] },
            subsets: (0..threshold.subsets().len()).map(|at| [at as u8; 32]).collect(),
            pairs: (0..threshold.pairs().len()).map(|at| [at as u8 + 128; 32]).collect(),
        };
        let signatures = signing.iter().map(|signing| manifest.sign(signing)).collect();
        (signing, SignedManifest { manifest, signatures })
    }

    /// A manifest arrives as it was, and so does its committee.
    #[test]
    fn manifests_arrive() {
        for (t, n) in [(2, 3), (3, 7), (4, 10)] {
            let (_, signed) = committee(t, n);
            let bytes = signed.to_bytes();
            let read = SignedManifest::from_bytes(&bytes).unwrap();
            assert_eq!((&read, read.id()), (&signed, signed.manifest.id()));
            assert_eq!(read.check().unwrap().threshold(), Threshold::new(t, n).unwrap());
            let proposal = &signed.manifest.proposal;
            assert_eq!(Proposal::from_bytes(&proposal.to_bytes()).as_ref(), Ok(proposal));
            assert!(bytes.len() < 20_000, "{}", bytes.len());
        }
    }

    #[test]
    fn bytes_of_another_form_are_refused() {
        let bytes = committee(2, 3).1.to_bytes();
        let refused = Some(Error::Form { what: "a signed manifest" });
        for cut in (0..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
            assert_eq!(SignedManifest::from_bytes(&bytes[..cut]).err(), refused, "{cut}");
        }
        assert_eq!(SignedManifest::from_bytes(&[&bytes[..], &[0]].concat()).err(), refused);
        assert_eq!(SignedManifest::from_bytes(&vec![0; MOST_BYTES + 1]).err(), refused);
        // 1 of 9 is no committee, and a vector of 2³² cards is none of these bytes.
        let mut threshold = bytes.clone();
        threshold[..2].copy_from_slice(&[1, 9]);
        assert_eq!(SignedManifest::from_bytes(&threshold).err(), refused);
        assert_eq!(SignedManifest::from_bytes(&[2, 3, 255, 255, 255, 255, 15]).err(), refused);
    }

    #[test]
    fn ids_depend_on_everything() {
        let (_, signed) = committee(2, 3);
        let mut ids = vec![signed.id()];
        let mut changed = |change: &dyn Fn(&mut Manifest)| {
            let mut manifest = signed.manifest.clone();
            change(&mut manifest);
            ids.push(manifest.id());
        };
        changed(&|m| m.proposal.threshold = Threshold::new(2, 4).unwrap());
        changed(&|m| m.proposal.nonce[31] ^= 1);
        changed(&|m| m.proposal.follows = Some([0; 32]));
        changed(&|m| m.proposal.cards.swap(0, 1));
        changed(&|m| m.proposal.cards[2].signing[0] ^= 1);
        // Where a key ends is hashed too.
        changed(&|m| {
            let moved = m.proposal.cards[0].signing.remove(0);
            m.proposal.cards[0].sealing.push(moved);
        });
        changed(&|m| m.subsets[2][0] ^= 1);
        changed(&|m| m.pairs.swap(0, 1));
        changed(&|m| {
            let moved = m.pairs.remove(0);
            m.subsets.push(moved);
        });
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((count, ids.len()), (10, 10));
    }

    /// Somebody adds a member of its own making, takes one away, or puts another key's hash in place: the
    /// signatures are of another id. In the control all members sign the changed manifest.
    #[test]
    fn attack_a_manifest_is_changed() {
        let (signing, signed) = committee(2, 3);
        assert!(signed.check().is_ok());
        let (_, others) = committee(2, 4);
        let mut card = signed.clone();
        card.manifest.proposal.cards[1] = others.manifest.proposal.cards[3].clone();
        assert_eq!(card.check().err(), Some(Error::Unsigned { member: 1 }));
        let mut hash = signed.clone();
        hash.manifest.subsets[0] = [9; 32];
        assert_eq!(hash.check().err(), Some(Error::Unsigned { member: 1 }));
        hash.signatures = signing.iter().map(|signing| hash.manifest.sign(signing)).collect();
        assert!(hash.check().is_ok(), "the control: all have signed it");
        let mut one = signed.clone();
        one.signatures[2] = hash.signatures[2].clone();
        assert_eq!(one.check().err(), Some(Error::Unsigned { member: 3 }));
        one.signatures.truncate(2);
        assert_eq!(one.check().err(), Some(Error::Unsigned { member: 3 }));
        let mut more = signed.clone();
        more.signatures.push(vec![]);
        assert!(matches!(more.check(), Err(Error::Form { .. })));
    }

    /// One member that counts as two is refused, and so is a manifest that lacks a key. The control differs
    /// in the one key alone.
    #[test]
    fn attack_a_member_counts_twice() {
        let (_, signed) = committee(2, 3);
        let check = |change: &dyn Fn(&mut Manifest)| {
            let mut manifest = signed.manifest.clone();
            change(&mut manifest);
            manifest.check().err()
        };
        let card = |what| Some(Error::Card { member: 3, what });
        assert_eq!(check(&|_| {}), None);
        let of = |m: &mut Manifest, from: usize| m.proposal.cards[from].clone();
        assert_eq!(
            check(&|m| m.proposal.cards[2].signing = of(m, 0).signing),
            card("the signing key of another member")
        );
        assert_eq!(
            check(&|m| m.proposal.cards[2].sealing = of(m, 1).sealing),
            card("the sealing key of another member")
        );
        assert_eq!(check(&|m| m.proposal.cards[2].signing = vec![1; 31]), card("a signing key that is none"));
        assert_eq!(check(&|m| m.proposal.cards[2].sealing = vec![1; 31]), card("a sealing key that is none"));
        assert_eq!(check(&|m| m.proposal.cards.truncate(2)), Some(Error::Cards { got: 2, need: 3 }));
        let hashes = |what, got, need| Some(Error::Hashes { what, got, need });
        assert_eq!(check(&|m| m.subsets.truncate(2)), hashes("subsets", 2, 3));
        assert_eq!(check(&|m| m.pairs.push([0; 32])), hashes("pairs", 4, 3));
    }
}
