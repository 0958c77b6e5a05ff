//! The members of a committee draw its keys together.
//!
//! | round | each member shows | and makes of those of all |
//! |---|---|---|
//! | 1 | a [`Contribution`] | its keys ([`Contributing::combine`]) |
//! | 2 | an [`Announcement`] of the hashes of its keys | the manifest ([`Contributing::manifest`]) |
//! | 3 | its signature of it ([`Contributing::sign`]) | its [`MemberKeys`] ([`Contributing::finish`]) |
//!
//! It draws 32 bytes for each key that it is to have, shows their hash, and seals them to the others that are
//! to have that key. A key is the hash of what all its holders have drawn.
//!
//! Round 2 is there because whoever does not have a key cannot know its hash. Messages go over a mailbox that
//! may delay, drop and change them. Nothing is under a key before all have signed.
//!
//! **Who chooses last** has no say in a key without it. It knows every key that it contributes to, as its
//! holders do, and its contribution goes through the hash: it can try some, and make a key that it knows
//! begin with bits that it likes, but set it to no number, nor to a relation with another key.
//!
//! **Who lies.** A message that its sender has not signed is nobody's. A form that no honest member signs
//! names its sender ([`Error::Malformed`]). Where a box does not have what its hashes say ([`Error::Box`]),
//! or members announce different things ([`Error::Seen`], [`Error::KeyDiffers`]), one of those who are named
//! lies, and which is not decided. Then no keys come out: they are drawn for another proposal, which its
//! founder writes without whom it does not trust. A mailbox can be the cause of silence, so that it names
//! nobody.

use crate::{Error, MemberKeys};
use envelope::{SealingSecret, SigningSecret};
use rand::CryptoRng;
use serde::{Deserialize, Serialize};
use shares::{Card, Key, Manifest, Proposal, Sharing, SignedManifest};
use std::sync::Arc;
use zeroize::Zeroizing;

const CONTRIBUTION: &str = "helba 2026-11-27 contribution to the keys of a committee";
const ANNOUNCEMENT: &str = "helba 2026-11-27 hashes of the keys of a committee";

/// What a member is known by.
pub struct MemberSecrets {
    /// Opens what is sealed to it.
    pub sealing: SealingSecret,
    /// Signs what it says.
    pub signing: SigningSecret,
}

impl MemberSecrets {
    /// Fresh secrets.
    pub fn generate<R: CryptoRng>(rng: &mut R) -> Self {
        MemberSecrets { sealing: SealingSecret::generate(rng), signing: SigningSecret::generate(rng) }
    }

    /// Their public keys.
    pub fn card(&self) -> Card {
        Card { sealing: self.sealing.public(), signing: self.signing.public() }
    }
}

/// What a member has drawn, as all others see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contribution {
    /// Its number.
    pub member: u8,
    /// The hash of what it has drawn for each of its keys: its subsets and its pairs, in the manifest's
    /// order.
    pub hashes: Vec<[u8; 32]>,
    /// For each other member, what was drawn for the keys that both are to have.
    pub sealed: Vec<Vec<u8>>,
    /// The member's.
    pub signature: Vec<u8>,
}

/// What a member has made of all contributions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// Its number.
    pub member: u8,
    /// The hash of the contribution of each member from 1 on, as this member has seen it.
    pub seen: Vec<[u8; 32]>,
    /// The hash of each of its keys: its subsets and its pairs, in the manifest's order.
    pub hashes: Vec<[u8; 32]>,
    /// The member's.
    pub signature: Vec<u8>,
}

/// The keys of a proposal by their places: subsets, then pairs.
struct Layout {
    id: [u8; 32],
    proposal: Proposal,
    sharing: Arc<Sharing>,
    /// The members that are to have each key.
    holders: Vec<Vec<u8>>,
}

impl Layout {
    fn new(proposal: &Proposal) -> Result<Self, Error> {
        let sharing = proposal.check()?;
        let subsets = sharing.subsets().iter().map(|subset| subset.members().collect());
        let pairs = sharing.threshold().pairs().into_iter().map(|(a, b)| vec![a, b]);
        let holders = subsets.chain(pairs).collect();
        Ok(Layout { id: proposal.id(), proposal: proposal.clone(), sharing: Arc::new(sharing), holders })
    }

    fn members(&self) -> std::ops::RangeInclusive<u8> {
        1..=self.sharing.threshold().members()
    }

    fn others(&self, member: u8) -> impl Iterator<Item = u8> {
        self.members().filter(move |other| *other != member)
    }

    /// The places of the keys that all of these are to have.
    fn common(&self, members: &[u8]) -> Vec<usize> {
        let all = |at: &usize| members.iter().all(|member| self.holders[*at].contains(member));
        (0..self.holders.len()).filter(all).collect()
    }

    fn card(&self, member: u8) -> Result<&Card, Error> {
        let card = usize::from(member).checked_sub(1).and_then(|at| self.proposal.cards.get(at));
        card.ok_or(shares::Error::Member { member }.into())
    }

    fn verify(
        &self,
        member: u8,
        context: &'static str,
        digest: &[u8; 32],
        signature: &[u8],
    ) -> Result<(), Error> {
        let signed = envelope::verify(&self.card(member)?.signing, context, digest, signature);
        signed.map_err(|_| Error::NotSigned { member })
    }

    /// The hash of what `member` has drawn for the key at this place.
    fn hash(&self, at: usize, member: u8, part: &[u8; 32]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 hash of a part of a key of shares");
        hasher.update(&self.id).update(&(at as u64).to_le_bytes()).update(&[member]).update(part);
        *hasher.finalize().as_bytes()
    }

    /// The key at this place, from what its holders have drawn.
    fn key<'a>(&self, at: usize, parts: impl ExactSizeIterator<Item = &'a [u8; 32]>) -> Key {
        let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 key of shares from its parts");
        hasher
            .update(&self.id)
            .update(&(at as u64).to_le_bytes())
            .update(&(parts.len() as u64).to_le_bytes());
        parts.for_each(|part| {
            hasher.update(part);
        });
        Key::new(*hasher.finalize().as_bytes())
    }

    fn purpose(&self, from: u8, to: u8) -> Vec<u8> {
        [b"helba contribution to keys of a committee", &self.id[..], &[from, to]].concat()
    }

    /// The box of one member to another.
    fn seal<'a>(
        &self,
        from: u8,
        to: u8,
        parts: impl Iterator<Item = &'a [u8; 32]>,
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<u8>, Error> {
        let mut content = Zeroizing::new(Vec::with_capacity(32 * self.holders.len()));
        parts.for_each(|part| content.extend_from_slice(part));
        let card = self.card(to)?;
        let sealed = envelope::seal(&card.sealing, &self.purpose(from, to), &content, rng);
        sealed.map_err(|_| shares::Error::Sealed { member: to }.into())
    }
}

impl Contribution {
    /// The hash of all of it but the signature.
    fn digest(&self, layout: &Layout) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 what a member contributes to keys");
        hasher.update(&layout.id).update(&[self.member]).update(&(self.hashes.len() as u64).to_le_bytes());
        self.hashes.iter().for_each(|hash| {
            hasher.update(hash);
        });
        for sealed in &self.sealed {
            hasher.update(&(sealed.len() as u64).to_le_bytes()).update(sealed);
        }
        *hasher.finalize().as_bytes()
    }

    /// Its digest, if its member has signed it.
    fn signed(&self, layout: &Layout) -> Result<[u8; 32], Error> {
        let digest = self.digest(layout);
        layout.verify(self.member, CONTRIBUTION, &digest, &self.signature)?;
        Ok(digest)
    }

    /// Refuses a form that no honest member signs.
    fn check_form(&self, layout: &Layout) -> Result<(), Error> {
        let length = |other| envelope::SEALED_OVERHEAD + 32 * layout.common(&[self.member, other]).len();
        let right = self.hashes.len() == layout.common(&[self.member]).len()
            && self.sealed.iter().map(Vec::len).eq(layout.others(self.member).map(length));
        if right { Ok(()) } else { Err(Error::Malformed { member: self.member }) }
    }

    /// What the hash of the part at this place is, and the box to `other`.
    fn hash_at(&self, layout: &Layout, at: usize) -> Option<&[u8; 32]> {
        self.hashes.get(layout.common(&[self.member]).iter().position(|place| *place == at)?)
    }

    fn box_to(&self, layout: &Layout, other: u8) -> Option<&Vec<u8>> {
        self.sealed.get(layout.others(self.member).position(|to| to == other)?)
    }
}

impl Announcement {
    fn digest(&self, layout: &Layout) -> [u8; 32] {
        let mut hasher =
            blake3::Hasher::new_derive_key("helba 2026-11-27 what a member announces of its keys");
        hasher.update(&layout.id).update(&[self.member]);
        for hashes in [&self.seen, &self.hashes] {
            hasher.update(&(hashes.len() as u64).to_le_bytes());
            hashes.iter().for_each(|hash| {
                hasher.update(hash);
            });
        }
        *hasher.finalize().as_bytes()
    }

    fn signed(&self, layout: &Layout) -> Result<[u8; 32], Error> {
        let digest = self.digest(layout);
        layout.verify(self.member, ANNOUNCEMENT, &digest, &self.signature)?;
        Ok(digest)
    }

    fn check_form(&self, layout: &Layout) -> Result<(), Error> {
        let right = self.seen.len() == layout.proposal.cards.len()
            && self.hashes.len() == layout.common(&[self.member]).len();
        if right { Ok(()) } else { Err(Error::Malformed { member: self.member }) }
    }

    fn hash_at(&self, layout: &Layout, at: usize) -> Option<&[u8; 32]> {
        self.hashes.get(layout.common(&[self.member]).iter().position(|place| *place == at)?)
    }
}

/// A member that draws keys with others: what it has drawn, and later its keys. All is zeroed on drop.
pub struct Contributing {
    layout: Layout,
    member: u8,
    /// By the places of its keys.
    parts: Vec<(usize, Key)>,
    contribution: Contribution,
    combined: Option<Combined>,
}

struct Combined {
    /// By place.
    keys: Vec<(usize, Key)>,
    announcement: Announcement,
}

/// Begins to draw the keys of a proposal, as the member of this number. A member does so once for each
/// proposal, and looks before at whether the cards are those of the others: whoever founds a committee could
/// put its own there.
///
/// # Errors
/// Those of [`Proposal::check`]; [`Error::NotOwn`] if the proposal has other keys for this member.
pub fn contribute<R: CryptoRng>(
    proposal: &Proposal,
    member: u8,
    secrets: &MemberSecrets,
    rng: &mut R,
) -> Result<(Contributing, Contribution), Error> {
    let layout = Layout::new(proposal)?;
    if *layout.card(member)? != secrets.card() {
        return Err(Error::NotOwn { member });
    }
    let parts: Vec<(usize, Key)> =
        layout.common(&[member]).into_iter().map(|at| (at, Key::random(rng))).collect();
    let sealed = layout.others(member).map(|to| {
        let shared = parts.iter().filter(|(at, _)| layout.holders[*at].contains(&to));
        layout.seal(member, to, shared.map(|(_, part)| part.bytes()), rng)
    });
    let sealed = sealed.collect::<Result<_, _>>()?;
    let hashes = parts.iter().map(|(at, part)| layout.hash(*at, member, part.bytes())).collect();
    let mut contribution = Contribution { member, hashes, sealed, signature: vec![] };
    contribution.signature = secrets.signing.sign(CONTRIBUTION, &contribution.digest(&layout)).to_vec();
    let shown = contribution.clone();
    Ok((Contributing { layout, member, parts, contribution, combined: None }, shown))
}

impl Contributing {
    /// Its number.
    pub fn member(&self) -> u8 {
        self.member
    }

    /// Makes its keys of the contributions of all others, and what it announces of them.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::NotSigned`], [`Error::Malformed`]; [`Error::Box`] for a box that does not
    /// open, or that has other parts than its sender shows hashes of.
    pub fn combine(
        &mut self,
        contributions: &[Contribution],
        secrets: &MemberSecrets,
    ) -> Result<Announcement, Error> {
        let layout = &self.layout;
        let of = |member: u8| contributions.iter().find(|of| of.member == member);
        let missing: Vec<u8> = layout.others(self.member).filter(|other| of(*other).is_none()).collect();
        if !missing.is_empty() {
            return Err(Error::Missing { members: missing });
        }
        let (mut of_others, mut seen) = (vec![], vec![]);
        for member in layout.members() {
            let Some(contribution) = of(member).filter(|_| member != self.member) else {
                seen.push(self.contribution.digest(layout));
                continue;
            };
            seen.push(contribution.signed(layout)?);
            contribution.check_form(layout)?;
            of_others.push((member, self.open(contribution, secrets)?));
        }
        let own = |at: usize| self.parts.iter().find(|(place, _)| *place == at).map(|(_, part)| part);
        let places = layout.common(&[self.member]);
        // A buffer that grew would leave its keys behind.
        let mut keys = Vec::with_capacity(places.len());
        for at in places {
            let part = |member: &u8| {
                let part = match *member == self.member {
                    true => own(at),
                    false => of_others
                        .iter()
                        .find(|(other, _)| other == member)
                        .and_then(|(_, parts)| parts.iter().find(|(place, _)| *place == at))
                        .map(|(_, part)| part),
                };
                part.map(Key::bytes).ok_or(Error::Malformed { member: *member })
            };
            let parts: Vec<&[u8; 32]> = layout.holders[at].iter().map(part).collect::<Result<_, _>>()?;
            keys.push((at, layout.key(at, parts.into_iter())));
        }
        let hashes = keys.iter().map(|(_, key)| key.hash()).collect();
        let mut announcement = Announcement { member: self.member, seen, hashes, signature: vec![] };
        announcement.signature = secrets.signing.sign(ANNOUNCEMENT, &announcement.digest(layout)).to_vec();
        let shown = announcement.clone();
        self.combined = Some(Combined { keys, announcement });
        Ok(shown)
    }

    /// What another member has drawn for the keys that both are to have, by place.
    fn open(&self, of: &Contribution, secrets: &MemberSecrets) -> Result<Vec<(usize, Key)>, Error> {
        let (layout, sender) = (&self.layout, of.member);
        let wrong = || Error::Box { sender };
        let sealed = of.box_to(layout, self.member).ok_or_else(wrong)?;
        let opened = secrets.sealing.open(&layout.purpose(sender, self.member), sealed);
        let opened = opened.map_err(|_| wrong())?;
        let (parts, rest) = opened.as_chunks::<32>();
        let places = layout.common(&[sender, self.member]);
        let fits = |(at, part): (&usize, &[u8; 32])| {
            of.hash_at(layout, *at).is_some_and(|hash| *hash == layout.hash(*at, sender, part))
        };
        if parts.len() != places.len() || !rest.is_empty() || !places.iter().zip(parts).all(fits) {
            return Err(wrong());
        }
        Ok(places.into_iter().zip(parts).map(|(at, part)| (at, Key::new(*part))).collect())
    }

    /// The manifest, if all have seen the same contributions and all holders of a key announce one hash.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::NotSigned`], [`Error::Malformed`], [`Error::Seen`],
    /// [`Error::KeyDiffers`]; [`Error::Message`] before [`Contributing::combine`].
    pub fn manifest(&self, announcements: &[Announcement]) -> Result<Manifest, Error> {
        let (layout, combined) = (&self.layout, self.combined.as_ref().ok_or(Error::Message)?);
        let all = self.announced(announcements)?;
        let own = &combined.announcement;
        for (sender, seen) in layout.members().zip(&own.seen) {
            let at = usize::from(sender) - 1;
            let other = |of: &&Announcement| of.seen.get(at) != Some(seen);
            let members: Vec<u8> = all.iter().copied().filter(other).map(|of| of.member).collect();
            if !members.is_empty() {
                return Err(Error::Seen { sender, members });
            }
        }
        let mut hashes = vec![];
        for (at, holders) in layout.holders.iter().enumerate() {
            let announced: Vec<&[u8; 32]> = all.iter().filter_map(|of| of.hash_at(layout, at)).collect();
            match announced[..] {
                [hash, ref rest @ ..] if rest.iter().all(|other| *other == hash) => hashes.push(*hash),
                _ => return Err(Error::KeyDiffers { place: at as u16, holders: holders.clone() }),
            }
        }
        let pairs = hashes.split_off(layout.sharing.subsets().len());
        Ok(Manifest { proposal: layout.proposal.clone(), subsets: hashes, pairs })
    }

    /// One announcement of each member, in their order; the own one is known.
    fn announced<'a>(&'a self, announcements: &'a [Announcement]) -> Result<Vec<&'a Announcement>, Error> {
        let (layout, combined) = (&self.layout, self.combined.as_ref().ok_or(Error::Message)?);
        let of = |member: u8| match member == self.member {
            true => Some(&combined.announcement),
            false => announcements.iter().find(|of| of.member == member),
        };
        let missing: Vec<u8> = layout.members().filter(|member| of(*member).is_none()).collect();
        if !missing.is_empty() {
            return Err(Error::Missing { members: missing });
        }
        let all: Vec<&Announcement> = layout.members().filter_map(of).collect();
        for announcement in &all {
            announcement.signed(layout)?;
            announcement.check_form(layout)?;
        }
        Ok(all)
    }

    /// Signs the manifest of these announcements.
    ///
    /// # Errors
    /// Those of [`Contributing::manifest`].
    pub fn sign(
        &self,
        announcements: &[Announcement],
        secrets: &MemberSecrets,
    ) -> Result<(Manifest, Vec<u8>), Error> {
        let manifest = self.manifest(announcements)?;
        let signature = manifest.sign(&secrets.signing);
        Ok((manifest, signature))
    }

    /// The member's keys, once all have signed their manifest.
    ///
    /// # Errors
    /// Those of [`SignedManifest::check`]; [`Error::OtherKeys`] for a manifest with hashes of other keys;
    /// [`Error::Message`] before [`Contributing::combine`].
    pub fn finish(&self, signed: &SignedManifest) -> Result<MemberKeys, Error> {
        signed.check()?;
        let (layout, combined) = (&self.layout, self.combined.as_ref().ok_or(Error::Message)?);
        let manifest = &signed.manifest;
        let hashes: Vec<&[u8; 32]> = manifest.subsets.iter().chain(&manifest.pairs).collect();
        let own = |(at, key): &(usize, Key)| hashes.get(*at).is_some_and(|hash| **hash == key.hash());
        if manifest.proposal != layout.proposal || !combined.keys.iter().all(own) {
            return Err(Error::OtherKeys { member: self.member });
        }
        let subsets = layout.sharing.subsets().len();
        let copy = |key: &Key| Key::new(*key.bytes());
        // Places of subsets come before those of pairs.
        let (keys_of_subsets, keys_of_pairs) =
            combined.keys.split_at(combined.keys.partition_point(|(at, _)| *at < subsets));
        let of_subsets = keys_of_subsets.iter().map(|(at, key)| (*at, copy(key))).collect();
        let others: Vec<u8> = layout.others(self.member).collect();
        let of_pairs =
            others.into_iter().zip(keys_of_pairs).map(|(other, (_, key))| (other, copy(key))).collect();
        Ok(MemberKeys::new(self.member, layout.sharing.clone(), of_subsets, of_pairs)?)
    }
}

/// The manifest with the signatures of all members.
///
/// # Errors
/// Those of [`Manifest::check`]; [`Error::Missing`]; [`Error::OtherManifest`] for members whose signatures
/// are not of this manifest.
pub fn gather(manifest: Manifest, signatures: &[(u8, Vec<u8>)]) -> Result<SignedManifest, Error> {
    let members = 1..=manifest.check()?.threshold().members();
    let of = |member: u8| signatures.iter().filter(move |(signer, _)| *signer == member);
    let missing: Vec<u8> = members.clone().filter(|member| of(*member).next().is_none()).collect();
    if !missing.is_empty() {
        return Err(Error::Missing { members: missing });
    }
    let right = |member: u8| of(member).find(|(_, signature)| manifest.verify(member, signature).is_ok());
    let others: Vec<u8> = members.clone().filter(|member| right(*member).is_none()).collect();
    if !others.is_empty() {
        return Err(Error::OtherManifest { members: others });
    }
    let signatures =
        members.filter_map(|member| right(member).map(|(_, signature)| signature.clone())).collect();
    Ok(SignedManifest { manifest, signatures })
}

#[cfg(test)]
mod tests;
