//! What a member holds.

use crate::Error;
use shares::talk::Tags;
use shares::{Field, Key, Kind, Label, MAC_BYTES, Message, Record, Sharing, SignedManifest, Stream};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The version of a file of keys.
const FILE_VERSION: u8 = 1;

/// The keys of a member: one of each subset that it is in, and one with each other member.
pub struct MemberKeys {
    member: u8,
    sharing: Arc<Sharing>,
    /// By the place of the subset.
    subsets: Vec<(usize, Key)>,
    /// By the other member.
    pairs: Vec<(u8, Key)>,
}

impl MemberKeys {
    /// The keys of `member`, by the places of its subsets and by the other members.
    ///
    /// # Errors
    /// [`shares::Error::Member`] unless there is one key for each of its subsets, in their order, and for
    /// each other member.
    pub fn new(
        member: u8,
        sharing: Arc<Sharing>,
        subsets: Vec<(usize, Key)>,
        pairs: Vec<(u8, Key)>,
    ) -> Result<Self, shares::Error> {
        let mut members = 1..=sharing.threshold().members();
        let places = sharing.subsets().iter().enumerate().filter(|(_, subset)| subset.has(member));
        let whole = members.contains(&member)
            && places.map(|(at, _)| at).eq(subsets.iter().map(|(at, _)| *at))
            && members.by_ref().filter(|other| *other != member).eq(pairs.iter().map(|(other, _)| *other));
        match whole {
            true => Ok(MemberKeys { member, sharing, subsets, pairs }),
            false => Err(shares::Error::Member { member }),
        }
    }

    /// The bytes of a file of keys, which only its owner reads. They name the committee of this id, and are
    /// 32 for each key and 36.
    pub fn to_bytes(&self, committee: &[u8; 32]) -> Zeroizing<Vec<u8>> {
        let count = self.subsets.len() + self.pairs.len();
        // No part of it is left behind where a buffer grows.
        let mut bytes = Zeroizing::new(Vec::with_capacity(36 + 32 * count));
        let (t, n) = self.sharing.threshold().into();
        bytes.extend_from_slice(&[FILE_VERSION, self.member, t, n]);
        bytes.extend_from_slice(committee);
        let keys = self.subsets.iter().map(|(_, key)| key).chain(self.pairs.iter().map(|(_, key)| key));
        keys.for_each(|key| bytes.extend_from_slice(key.bytes()));
        bytes
    }

    /// Reads what [`MemberKeys::to_bytes`] writes, for the committee of this manifest.
    ///
    /// # Errors
    /// Those of [`SignedManifest::check`]; [`shares::Error::Form`] for bytes of another form;
    /// [`Error::OtherKeys`] for another committee, and for keys that do not have the hashes of the manifest.
    pub fn from_bytes(bytes: &[u8], signed: &SignedManifest) -> Result<Self, Error> {
        let sharing = Arc::new(signed.check()?);
        let form = || Error::from(shares::Error::Form { what: "a file of the keys of a member" });
        let ([version, member, t, n], rest) = bytes.split_first_chunk::<4>().ok_or_else(form)?;
        let (committee, rest) = rest.split_first_chunk::<32>().ok_or_else(form)?;
        let (keys, rest) = rest.as_chunks::<32>();
        let (member, manifest) = (*member, &signed.manifest);
        if *version != FILE_VERSION || !rest.is_empty() {
            return Err(form());
        }
        if *committee != signed.id() || (*t, *n) != sharing.threshold().into() {
            return Err(Error::OtherKeys { member });
        }
        let subsets = sharing.subsets().iter().enumerate().filter(|(_, subset)| subset.has(member));
        let subsets: Vec<usize> = subsets.map(|(at, _)| at).collect();
        let pairs = sharing.threshold().pairs().into_iter().zip(&manifest.pairs);
        let pairs: Vec<(u8, &[u8; 32])> = pairs
            .filter_map(|((a, b), hash)| match member {
                member if member == a => Some((b, hash)),
                member if member == b => Some((a, hash)),
                _ => None,
            })
            .collect();
        if keys.len() != subsets.len() + pairs.len() {
            return Err(form());
        }
        let (of_subsets, of_pairs) = keys.split_at(subsets.len());
        let of_subsets: Vec<(usize, Key)> =
            subsets.into_iter().zip(of_subsets).map(|(at, key)| (at, Key::new(*key))).collect();
        // Pairs of a member are in the order of the other one, too.
        let mut right = of_subsets.iter().all(|(at, key)| manifest.subsets.get(*at) == Some(&key.hash()));
        let mut of_others = Vec::with_capacity(pairs.len());
        for ((other, hash), key) in pairs.into_iter().zip(of_pairs) {
            let key = Key::new(*key);
            right &= key.hash() == *hash;
            of_others.push((other, key));
        }
        match right {
            true => Ok(MemberKeys::new(member, sharing, of_subsets, of_others)?),
            false => Err(Error::OtherKeys { member }),
        }
    }

    /// Its number.
    pub fn member(&self) -> u8 {
        self.member
    }

    /// The polynomials of its committee.
    pub fn sharing(&self) -> &Arc<Sharing> {
        &self.sharing
    }

    /// What the member shows to the others in a round.
    pub fn message(&self, run: [u8; 32], round: u32, seen: [u8; 32], numbers: Vec<Field>) -> Message {
        let mut message = Message { run, round, seen, numbers, macs: vec![] };
        let mac = |to: u8| self.pair(to).map_or([0; MAC_BYTES], |key| message.mac(key, self.member, to));
        message.macs = (1..=self.sharing.threshold().members()).map(mac).collect();
        message
    }

    /// Whether another member has sent this message.
    ///
    /// # Errors
    /// [`shares::Error::Mac`].
    pub fn check(&self, from: u8, message: &Message) -> Result<(), shares::Error> {
        let key = self.pair(from).ok_or(shares::Error::Mac)?;
        message.check(key, from, self.member)
    }

    /// The seed of a batch of slots that follows from a key: it can be opened without the key.
    pub(crate) fn seed(&self, of: Holders, batch: &Label) -> Result<Key, shares::Error> {
        let seed = match of {
            Holders::Subset(place) => {
                let key = self.subsets.iter().find(|(at, _)| *at == place).map(|(_, key)| key);
                key.map(|key| key.derive(batch))
            }
            Holders::Pair(a, b) => {
                let key = self.pair(if a == self.member { b } else { a });
                key.map(|key| key.derive(&Label::new(Kind::Zero, &[batch.bytes()])))
            }
        };
        seed.ok_or(shares::Error::Member { member: self.member })
    }

    /// The key with another member.
    pub(crate) fn pair(&self, other: u8) -> Option<&Key> {
        self.pairs.iter().find(|(member, _)| *member == other).map(|(_, key)| key)
    }

    /// The seeds of a batch of slots.
    pub(crate) fn seeds(&self, batch: &Label) -> Seeds {
        let seed = |(at, key): &(usize, Key)| (*at, key.derive(batch));
        Seeds::new(self.member, self.sharing.clone(), self.subsets.iter().map(seed).collect())
    }

    /// The tags by which the members of its subsets know what they have certified, by the places of these.
    pub fn tags(&self, about: &[u8; 32]) -> Vec<(u8, [u8; MAC_BYTES])> {
        let label = Label::new(Kind::Tag, &[about]);
        let tag = |(at, key): &(usize, Key)| {
            let mut tag = [0; MAC_BYTES];
            // A label serves one value: the tag is the first bytes of its stream.
            tag.copy_from_slice(&key.derive(&label).bytes()[..MAC_BYTES]);
            (*at as u8, tag)
        };
        self.subsets.iter().map(tag).collect()
    }

    /// Whether a right tag is there for each of its subsets: one of them has no hostile member.
    pub fn check_tags(&self, about: &[u8; 32], tags: &Tags) -> bool {
        let right = |(at, tag): &(u8, [u8; MAC_BYTES])| {
            let given = tags.0.get(usize::from(*at));
            given.is_some_and(|given| given.iter().any(|other| shares::same(tag, other)))
        };
        self.tags(about).iter().all(right)
    }

    /// The member's share of one number of a record, of which `place` numbers are before it.
    pub(crate) fn number(&self, batch: &Label, slot: u32, place: u32, number: Field) -> Field {
        let mut masks = self.seeds(batch).of(Kind::Record, slot);
        for _ in 0..place {
            let _ = masks.uniform();
        }
        number - masks.uniform()
    }

    /// The member's shares of the numbers of a record, which must be one that its committee has certified: a
    /// record that somebody made up gives numbers of any size, which no mask covers.
    pub fn record(&self, record: &Record) -> Vec<Field> {
        let mut masks = self.seeds(&record.batch).of(Kind::Record, record.slot);
        record.numbers.iter().map(|m| *m - masks.uniform()).collect()
    }
}

/// Who holds a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holders {
    /// The subset at this place.
    Subset(usize),
    /// Two members, the lower number first.
    Pair(u8, u8),
}

/// The seeds of a batch of slots that a member knows.
pub(crate) struct Seeds {
    member: u8,
    sharing: Arc<Sharing>,
    seeds: Vec<(usize, Key)>,
}

impl Seeds {
    /// The seeds of a member, by the places of its subsets.
    pub(crate) fn new(member: u8, sharing: Arc<Sharing>, seeds: Vec<(usize, Key)>) -> Self {
        Seeds { member, sharing, seeds }
    }

    pub(crate) fn sharing(&self) -> &Arc<Sharing> {
        &self.sharing
    }

    /// The masks of this kind and number.
    pub(crate) fn of(&self, kind: Kind, number: u32) -> Masks {
        let label = Label::new(kind, &[&number.to_le_bytes()]);
        Masks {
            member: self.member,
            sharing: self.sharing.clone(),
            streams: self.seeds.iter().map(|(at, seed)| (*at, seed.stream(&label))).collect(),
        }
    }
}

/// A member's shares of random numbers that nobody knows and that nobody sends.
pub(crate) struct Masks {
    member: u8,
    sharing: Arc<Sharing>,
    streams: Vec<(usize, Stream)>,
}

impl Masks {
    /// A uniform number.
    pub(crate) fn uniform(&mut self) -> Field {
        let parts = self.streams.iter_mut().map(|(at, stream)| (*at, stream.field()));
        self.sharing.share(self.member, parts)
    }

    /// The sum of an integer below 2^`bits` of each subset, and the sum of what is left of each without its
    /// lowest `low` bits.
    pub(crate) fn bounded(&mut self, bits: u32, low: u32) -> (Field, Field) {
        let drawn = self.streams.iter_mut().map(|(at, stream)| (*at, stream.integer(bits)));
        let drawn: Vec<(usize, u128)> = drawn.collect();
        let sum = |low: u32| {
            let parts = drawn.iter().map(|(at, part)| (*at, Field::new(part >> low)));
            self.sharing.share(self.member, parts)
        };
        (sum(0), sum(low))
    }

    /// A uniform number, and the sum of the parts of those subsets that `which` names.
    pub(crate) fn uniform_and_of(&mut self, which: &[bool]) -> (Field, Field) {
        let mut sum = Field::ZERO;
        let parts = self.streams.iter_mut().map(|(at, stream)| {
            let part = stream.field();
            // Which subsets they are is public.
            if which[*at] {
                sum += part;
            }
            (*at, part)
        });
        (self.sharing.share(self.member, parts), sum)
    }
}

/// The most bits of a mask of each subset with which their sum and a value stay below p: 126 less the bits of
/// the number of subsets and one.
pub(crate) fn mask_bits(sharing: &Sharing) -> u32 {
    126 - (sharing.subsets().len() + 1).next_power_of_two().trailing_zeros()
}
