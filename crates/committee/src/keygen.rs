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
//! may delay, drop and change them ([`KeygenMessage`]). Nothing is under a key before all have signed.
//!
//! **Who chooses last** has no say in a key without it. It knows every key that it contributes to, as its
//! holders do, and its contribution goes through the hash: it can try some, and make a key that it knows
//! begin with bits that it likes, but set it to no number, nor to a relation with another key.
//!
//! **Who lies.** A message that its sender has not signed is nobody's. Of two that a member has signed for
//! one proposal, it is the liar ([`Contribution::contradicts`], [`Announcement::contradicts`]): a member
//! therefore takes part once in a proposal, and after a restart in another one. Besides,
//!
//! | what is wrong | who opens what | who is named |
//! |---|---|---|
//! | a box has not what its hashes say ([`Error::Box`]) | its sender the box | [`Accusation::judge`] |
//! | hashes of a key differ ([`Error::KeyDiffers`]) | a holder its parts | [`judge_key`] |
//!
//! A box is opened to a member that accuses its sender ([`Contributing::accuse`], [`Contributing::answer`]):
//! if the same bytes come out of its randomness and content, the accuser lies, else the sender. The parts of
//! a key ([`Contributing::open_key`]) give its hash, and who has announced another one lies.
//!
//! The randomness of each box follows from a seed of 32 bytes, so that it can be shown; programs of one
//! version seal alike. What is opened is known to a hostile member before: of two who are at odds one is, and
//! it has all keys of the box, or the key. The keys are nevertheless not used ([`Error::Over`]): they are
//! drawn for another proposal, without who was named. *Silence names nobody*, since a mailbox can be the
//! cause of it: a sender that does not answer, or a member that cannot show the other contribution that it
//! says it has seen ([`Error::Seen`]). A member that cannot be reached is left out of the next proposal by
//! who founds it.

use crate::{Error, MemberKeys};
use envelope::{SealingSecret, SigningSecret};
use rand::{CryptoRng, TryCryptoRng, TryRng};
use serde::{Deserialize, Serialize};
use shares::{Card, Key, Manifest, Proposal, Sharing, SignedManifest};
use std::convert::Infallible;
use std::sync::Arc;
use zeroize::Zeroizing;

const CONTRIBUTION: &str = "helba 2026-11-27 contribution to the keys of a committee";
const ANNOUNCEMENT: &str = "helba 2026-11-27 hashes of the keys of a committee";
const ACCUSATION: &str = "helba 2026-11-27 accusation in a key generation";
const OPENING: &str = "helba 2026-11-27 opened box of a key generation";
/// The most bytes of a message: a contribution at 4 of 10 has 30,000.
const MOST_BYTES: usize = 1 << 16;

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

/// A member says that a box is not what its sender shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accusation {
    /// To whom the box is sealed.
    pub accuser: u8,
    /// That of the accused, with the box.
    pub contribution: Contribution,
    /// The accuser's.
    pub signature: Vec<u8>,
}

/// The accused opens its box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// From which the randomness of the box follows.
    pub seed: [u8; 32],
    /// What is in it.
    pub parts: Vec<[u8; 32]>,
    /// The sender's.
    pub signature: Vec<u8>,
}

/// What a member puts on the mailbox while keys are drawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeygenMessage {
    /// Round 1.
    Contribution(Contribution),
    /// Round 2.
    Announcement(Announcement),
    /// Round 3.
    Signature {
        /// Who has signed.
        member: u8,
        /// The manifest.
        signature: Vec<u8>,
    },
    /// A box is wrong.
    Accusation(Accusation),
    /// The answer to an accusation.
    Opening(Opening),
    /// What each holder of a disputed key has drawn for it.
    Key {
        /// Its place in the manifest: subsets first, then pairs.
        place: u16,
        /// By its holders, in their order.
        parts: Vec<[u8; 32]>,
    },
}

impl KeygenMessage {
    /// The bytes that [`KeygenMessage::from_bytes`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Only a serializer of one's own fails.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Reads what [`KeygenMessage::to_bytes`] writes. It is not checked yet.
    ///
    /// # Errors
    /// [`shares::Error::Form`] for bytes of another form, more than 65,536, or some that are left over.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let refused = Error::from(shares::Error::Form { what: "a message of a key generation" });
        if bytes.len() > MOST_BYTES {
            return Err(refused);
        }
        match postcard::take_from_bytes(bytes) {
            Ok((message, [])) => Ok(message),
            _ => Err(refused),
        }
    }
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
        seed: &[u8; 32],
        parts: impl Iterator<Item = &'a [u8; 32]>,
    ) -> Result<Vec<u8>, Error> {
        let mut content = Zeroizing::new(Vec::with_capacity(32 * self.holders.len()));
        parts.for_each(|part| content.extend_from_slice(part));
        let card = self.card(to)?;
        let sealed =
            envelope::seal(&card.sealing, &self.purpose(from, to), &content, &mut Seeded { seed, drawn: 0 });
        sealed.map_err(|_| shares::Error::Sealed { member: to }.into())
    }
}

/// The randomness of a box: hashes of its seed and a number.
struct Seeded<'a> {
    seed: &'a [u8; 32],
    drawn: u64,
}

impl TryRng for Seeded<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        for block in out.chunks_mut(32) {
            let hash = blake3::keyed_hash(self.seed, &self.drawn.to_le_bytes());
            block.copy_from_slice(&hash.as_bytes()[..block.len()]);
            self.drawn += 1;
        }
        Ok(())
    }
}

impl TryCryptoRng for Seeded<'_> {}

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

    /// The member that has signed two contributions to one proposal.
    ///
    /// # Errors
    /// [`Error::NotSigned`]; [`Error::NoProof`] if they are the same, or of two members.
    pub fn contradicts(&self, other: &Self, proposal: &Proposal) -> Result<u8, Error> {
        let layout = Layout::new(proposal)?;
        let two = (self.signed(&layout)?, other.signed(&layout)?);
        twice((self.member, other.member), two)
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

    /// The member that has signed two announcements for one proposal.
    ///
    /// # Errors
    /// As [`Contribution::contradicts`].
    pub fn contradicts(&self, other: &Self, proposal: &Proposal) -> Result<u8, Error> {
        let layout = Layout::new(proposal)?;
        let two = (self.signed(&layout)?, other.signed(&layout)?);
        twice((self.member, other.member), two)
    }
}

fn twice((one, other): (u8, u8), (digest, second): ([u8; 32], [u8; 32])) -> Result<u8, Error> {
    if one == other && digest != second { Ok(one) } else { Err(Error::NoProof) }
}

/// A member that draws keys with others: what it has drawn, and later its keys. All is zeroed on drop.
pub struct Contributing {
    layout: Layout,
    member: u8,
    /// By the places of its keys.
    parts: Vec<(usize, Key)>,
    /// By the other members: of the randomness of the box to each.
    seeds: Vec<(u8, Key)>,
    contribution: Contribution,
    combined: Option<Combined>,
    /// It has signed the manifest: nothing is opened any more.
    signed: bool,
    /// Nothing of this proposal is used any more, or its keys are.
    over: bool,
}

struct Combined {
    /// By place: what each holder has drawn, in their order.
    parts: Vec<(usize, Vec<Key>)>,
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
    let others: Vec<u8> = layout.others(member).collect();
    let seeds: Vec<(u8, Key)> = others.into_iter().map(|other| (other, Key::random(rng))).collect();
    let sealed = seeds.iter().map(|(to, seed)| {
        let shared = parts.iter().filter(|(at, _)| layout.holders[*at].contains(to));
        layout.seal(member, *to, seed.bytes(), shared.map(|(_, part)| part.bytes()))
    });
    let sealed = sealed.collect::<Result<_, _>>()?;
    let hashes = parts.iter().map(|(at, part)| layout.hash(*at, member, part.bytes())).collect();
    let mut contribution = Contribution { member, hashes, sealed, signature: vec![] };
    contribution.signature = secrets.signing.sign(CONTRIBUTION, &contribution.digest(&layout)).to_vec();
    let shown = contribution.clone();
    Ok((
        Contributing {
            layout,
            member,
            parts,
            seeds,
            contribution,
            combined: None,
            signed: false,
            over: false,
        },
        shown,
    ))
}

impl Contributing {
    /// Its number.
    pub fn member(&self) -> u8 {
        self.member
    }

    fn going_on(&self) -> Result<(), Error> {
        if self.over { Err(Error::Over) } else { Ok(()) }
    }

    /// Makes its keys of the contributions of all others, and what it announces of them.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::NotSigned`]. [`Error::Malformed`] and [`Error::Contradiction`] name a
    /// member that lies. [`Error::Box`] for a box that does not open, or that has other parts than its sender
    /// shows hashes of: see [`Contributing::accuse`]. [`Error::Over`].
    pub fn combine(
        &mut self,
        contributions: &[Contribution],
        secrets: &MemberSecrets,
    ) -> Result<Announcement, Error> {
        self.going_on()?;
        let layout = &self.layout;
        let mut of_others = vec![];
        let missing: Vec<u8> = layout
            .others(self.member)
            .filter(|other| !contributions.iter().any(|contribution| contribution.member == *other))
            .collect();
        if !missing.is_empty() {
            return Err(Error::Missing { members: missing });
        }
        let mut seen = Vec::with_capacity(layout.proposal.cards.len());
        for member in layout.members() {
            if member == self.member {
                seen.push(self.contribution.digest(layout));
                continue;
            }
            let mut of = contributions.iter().filter(|contribution| contribution.member == member);
            let contribution = of.next().ok_or(Error::Missing { members: vec![member] })?;
            let digest = contribution.signed(layout)?;
            for other in of {
                if other.signed(layout)? != digest {
                    return Err(Error::Contradiction { member });
                }
            }
            contribution.check_form(layout)?;
            of_others.push((member, self.open(contribution, secrets)?));
            seen.push(digest);
        }
        let own = |at: usize| self.parts.iter().find(|(place, _)| *place == at).map(|(_, part)| part);
        let mut parts = vec![];
        for at in layout.common(&[self.member]) {
            let part = |member: &u8| {
                let part = match *member == self.member {
                    true => own(at),
                    false => of_others
                        .iter()
                        .find(|(other, _)| other == member)
                        .and_then(|(_, parts)| parts.iter().find(|(place, _)| *place == at))
                        .map(|(_, part)| part),
                };
                part.map(|part| Key::new(*part.bytes())).ok_or(Error::Malformed { member: *member })
            };
            // A buffer that grew would leave its keys behind.
            let mut of_holders = Vec::with_capacity(layout.holders[at].len());
            for member in &layout.holders[at] {
                of_holders.push(part(member)?);
            }
            parts.push((at, of_holders));
        }
        let key =
            |(at, parts): &(usize, Vec<Key>)| (*at, layout.key(*at, parts.iter().map(|part| part.bytes())));
        let keys: Vec<(usize, Key)> = parts.iter().map(key).collect();
        let hashes = keys.iter().map(|(_, key)| key.hash()).collect();
        let mut announcement = Announcement { member: self.member, seen, hashes, signature: vec![] };
        announcement.signature = secrets.signing.sign(ANNOUNCEMENT, &announcement.digest(layout)).to_vec();
        let shown = announcement.clone();
        self.combined = Some(Combined { parts, keys, announcement });
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
    /// [`Error::Missing`], [`Error::NotSigned`]. [`Error::Malformed`] and [`Error::Contradiction`] name a
    /// member that lies. [`Error::Seen`]; [`Error::KeyDiffers`]: see [`Contributing::open_key`].
    /// [`Error::Message`] before [`Contributing::combine`].
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
            match &announced_at(layout, &all, at)[..] {
                [hash, rest @ ..] if rest.iter().all(|other| other == hash) => hashes.push(*hash),
                _ => return Err(Error::KeyDiffers { place: at as u16, holders: holders.clone() }),
            }
        }
        let pairs = hashes.split_off(layout.sharing.subsets().len());
        Ok(Manifest { proposal: layout.proposal.clone(), subsets: hashes, pairs })
    }

    /// One announcement of each member, in their order; the own one is known.
    fn announced<'a>(&'a self, announcements: &'a [Announcement]) -> Result<Vec<&'a Announcement>, Error> {
        let (layout, combined) = (&self.layout, self.combined.as_ref().ok_or(Error::Message)?);
        let of = |member: u8| announcements.iter().filter(move |of| of.member == member);
        let missing: Vec<u8> =
            layout.others(self.member).filter(|other| of(*other).next().is_none()).collect();
        if !missing.is_empty() {
            return Err(Error::Missing { members: missing });
        }
        let mut all = vec![];
        for member in layout.members() {
            let mut of = of(member);
            let first = match member == self.member {
                true => &combined.announcement,
                false => of.next().ok_or(Error::Missing { members: vec![member] })?,
            };
            let digest = first.signed(layout)?;
            first.check_form(layout)?;
            for other in of {
                if other.signed(layout)? != digest {
                    return Err(Error::Contradiction { member });
                }
            }
            all.push(first);
        }
        Ok(all)
    }

    /// Signs the manifest of these announcements, and opens nothing after that: whoever accuses this member
    /// then has announced that all boxes opened.
    ///
    /// # Errors
    /// Those of [`Contributing::manifest`]; [`Error::Over`].
    pub fn sign(
        &mut self,
        announcements: &[Announcement],
        secrets: &MemberSecrets,
    ) -> Result<(Manifest, Vec<u8>), Error> {
        self.going_on()?;
        let manifest = self.manifest(announcements)?;
        let signature = manifest.sign(&secrets.signing);
        self.signed = true;
        Ok((manifest, signature))
    }

    /// The member's keys, once all have signed their manifest. What it has drawn is zeroed.
    ///
    /// # Errors
    /// Those of [`SignedManifest::check`]; [`Error::OtherKeys`] for a manifest with hashes of other keys;
    /// [`Error::Message`] before [`Contributing::combine`]; [`Error::Over`].
    pub fn finish(&mut self, signed: &SignedManifest) -> Result<MemberKeys, Error> {
        self.going_on()?;
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
        let keys = MemberKeys::new(self.member, layout.sharing.clone(), of_subsets, of_pairs)?;
        self.over = true;
        self.combined = None;
        self.parts.clear();
        self.seeds.clear();
        Ok(keys)
    }

    /// Accuses the sender of a contribution whose box to this member does not open, or does not have the
    /// parts that its hashes are of.
    ///
    /// # Errors
    /// [`Error::NotSigned`], [`Error::Malformed`]; [`Error::NoProof`] if the box is right.
    pub fn accuse(&self, of: &Contribution, secrets: &MemberSecrets) -> Result<Accusation, Error> {
        let digest = of.signed(&self.layout)?;
        of.check_form(&self.layout)?;
        if of.member == self.member || self.open(of, secrets).is_ok() {
            return Err(Error::NoProof);
        }
        let digest = accusation(&self.layout, self.member, &digest);
        let signature = secrets.signing.sign(ACCUSATION, &digest).to_vec();
        Ok(Accusation { accuser: self.member, contribution: of.clone(), signature })
    }

    /// Opens the member's box to a member that accuses it. The keys of the proposal are not used after that.
    ///
    /// # Errors
    /// [`Error::NotSigned`] unless the accuser and this member have signed what is theirs;
    /// [`Error::NoProof`] for an accusation of another member, or of another contribution than this
    /// member's; [`Error::Over`] once the member has signed the manifest.
    pub fn answer(&mut self, accusation: &Accusation, secrets: &MemberSecrets) -> Result<Opening, Error> {
        if self.signed {
            return Err(Error::Over);
        }
        let layout = &self.layout;
        let digest = accusation.check(layout)?;
        if digest != self.contribution.digest(layout) {
            return Err(Error::NoProof);
        }
        let to = accusation.accuser;
        let (_, seed) = self.seeds.iter().find(|(other, _)| *other == to).ok_or(Error::Over)?;
        let shared = self.parts.iter().filter(|(at, _)| layout.holders[*at].contains(&to));
        let parts = shared.map(|(_, part)| *part.bytes()).collect();
        let mut opening = Opening { seed: *seed.bytes(), parts, signature: vec![] };
        let signature = secrets.signing.sign(OPENING, &opening.digest(layout, to, &digest)).to_vec();
        opening.signature = signature;
        self.over = true;
        Ok(opening)
    }

    /// Opens what the holders of a key have drawn for it, if they announce different hashes: one of them
    /// lies, or somebody has shown them different contributions, and so a hostile member has that key. The
    /// keys of the proposal are not used after that.
    ///
    /// # Errors
    /// Those of [`Contributing::manifest`] for the announcements; [`Error::NoProof`] for a key that is not
    /// disputed, or not this member's; [`Error::Over`] once the member has signed the manifest.
    pub fn open_key(&mut self, announcements: &[Announcement], place: u16) -> Result<Vec<[u8; 32]>, Error> {
        if self.signed {
            return Err(Error::Over);
        }
        let at = usize::from(place);
        let all = self.announced(announcements)?;
        let hashes = announced_at(&self.layout, &all, at);
        let combined = self.combined.as_ref().ok_or(Error::Over)?;
        let parts = combined.parts.iter().find(|(own, _)| *own == at);
        let (_, parts) =
            parts.filter(|_| hashes.windows(2).any(|two| two[0] != two[1])).ok_or(Error::NoProof)?;
        let parts = parts.iter().map(|part| *part.bytes()).collect();
        self.over = true;
        Ok(parts)
    }
}

/// What the holders of the key at a place announce as its hash.
fn announced_at(layout: &Layout, all: &[&Announcement], at: usize) -> Vec<[u8; 32]> {
    all.iter().filter_map(|of| of.hash_at(layout, at)).copied().collect()
}

fn accusation(layout: &Layout, accuser: u8, contribution: &[u8; 32]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 what a member accuses another one of");
    *hasher.update(&layout.id).update(&[accuser]).update(contribution).finalize().as_bytes()
}

impl Opening {
    fn digest(&self, layout: &Layout, accuser: u8, contribution: &[u8; 32]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 what a member opens to an accuser");
        hasher.update(&accusation(layout, accuser, contribution)).update(&self.seed);
        hasher.update(self.parts.as_flattened());
        *hasher.finalize().as_bytes()
    }
}

impl Accusation {
    /// The digest of the contribution, if both have signed what is theirs.
    fn check(&self, layout: &Layout) -> Result<[u8; 32], Error> {
        let digest = self.contribution.signed(layout)?;
        let accused = accusation(layout, self.accuser, &digest);
        layout.verify(self.accuser, ACCUSATION, &accused, &self.signature)?;
        if self.accuser == self.contribution.member { Err(Error::NoProof) } else { Ok(digest) }
    }

    /// Who lies: the accuser, if the sender's box is what comes out of its seed and of parts that its hashes
    /// are of; else the sender. An honest member is never named: the box of an honest sender comes out, and
    /// one that comes out opens for an honest receiver. Of two hostile ones a sender can have different
    /// members name either.
    ///
    /// # Errors
    /// [`Error::NotSigned`] if somebody has not signed what is its own: nobody is named.
    pub fn judge(&self, proposal: &Proposal, opening: &Opening) -> Result<u8, Error> {
        let layout = Layout::new(proposal)?;
        let (digest, of) = (self.check(&layout)?, &self.contribution);
        let opened = opening.digest(&layout, self.accuser, &digest);
        layout.verify(of.member, OPENING, &opened, &opening.signature)?;
        let places = layout.common(&[of.member, self.accuser]);
        let fits = |(at, part): (&usize, &[u8; 32])| {
            of.hash_at(&layout, *at).is_some_and(|hash| *hash == layout.hash(*at, of.member, part))
        };
        let right = of.check_form(&layout).is_ok()
            && opening.parts.len() == places.len()
            && places.iter().zip(&opening.parts).all(fits)
            && layout
                .seal(of.member, self.accuser, &opening.seed, opening.parts.iter())
                .is_ok_and(|sealed| Some(&sealed) == of.box_to(&layout, self.accuser));
        Ok(if right { self.accuser } else { of.member })
    }
}

/// Which holders of a key announce another hash of it than follows from the contributions that they say they
/// have seen, once its parts were opened. `contributions` are those of its holders.
///
/// # Errors
/// [`Error::Missing`], [`Error::NotSigned`]; [`Error::NoProof`] if the parts are not those of the
/// contributions, or no holder is a liar by them.
pub fn judge_key(
    proposal: &Proposal,
    contributions: &[Contribution],
    announcements: &[Announcement],
    place: u16,
    parts: &[[u8; 32]],
) -> Result<Vec<u8>, Error> {
    let (layout, at) = (Layout::new(proposal)?, usize::from(place));
    let holders = layout.holders.get(at).ok_or(Error::NoProof)?;
    if parts.len() != holders.len() {
        return Err(Error::NoProof);
    }
    let mut seen = vec![];
    for (member, part) in holders.iter().zip(parts) {
        let of = contributions.iter().find(|of| of.member == *member);
        let of = of.ok_or(Error::Missing { members: vec![*member] })?;
        seen.push((usize::from(*member) - 1, of.signed(&layout)?));
        if of.hash_at(&layout, at) != Some(&layout.hash(at, *member, part)) {
            return Err(Error::NoProof);
        }
    }
    let hash = layout.key(at, parts.iter()).hash();
    let mut liars = vec![];
    for of in announcements.iter().filter(|of| holders.contains(&of.member)) {
        of.signed(&layout)?;
        // Who was shown another contribution has another key, and does not lie.
        let same = seen.iter().all(|(at, digest)| of.seen.get(*at) == Some(digest));
        if same && of.hash_at(&layout, at) != Some(&hash) && !liars.contains(&of.member) {
            liars.push(of.member);
        }
    }
    if liars.is_empty() { Err(Error::NoProof) } else { Ok(liars) }
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
