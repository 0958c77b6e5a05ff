//! Members draw keys, and lie.

use super::*;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use shares::talk::to_bytes;
use shares::{Field, Kind, Label, Threshold};

/// The members of a proposal, each behind its first round.
struct Committee {
    proposal: Proposal,
    layout: Layout,
    secrets: Vec<MemberSecrets>,
    members: Vec<Contributing>,
    contributions: Vec<Contribution>,
    rng: ChaCha20Rng,
}

impl Committee {
    fn new(t: u8, n: u8) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(u64::from(n));
        let secrets: Vec<MemberSecrets> = (0..n).map(|_| MemberSecrets::generate(&mut rng)).collect();
        let cards = secrets.iter().map(MemberSecrets::card).collect();
        let proposal =
            Proposal { threshold: Threshold::new(t, n).unwrap(), cards, follows: None, nonce: [n; 32] };
        let layout = Layout::new(&proposal).unwrap();
        let drawn = (1..).zip(&secrets).map(|(j, own)| contribute(&proposal, j, own, &mut rng).unwrap());
        let (members, contributions) = drawn.unzip();
        Committee { proposal, layout, secrets, members, contributions, rng }
    }

    /// Number `member` again draws what it shows.
    fn again(&mut self, member: u8) -> (Contributing, Contribution) {
        let own = &self.secrets[usize::from(member) - 1];
        contribute(&self.proposal, member, own, &mut self.rng).unwrap()
    }

    /// What `member` has made of these contributions.
    fn combine(&mut self, member: u8, shown: &[Contribution]) -> Result<Announcement, Error> {
        let at = usize::from(member) - 1;
        self.members[at].combine(shown, &self.secrets[at])
    }

    fn combine_all(&mut self) -> Vec<Announcement> {
        let shown = self.contributions.clone();
        (1..=self.secrets.len() as u8).map(|member| self.combine(member, &shown).unwrap()).collect()
    }

    /// Signs a contribution as its member.
    fn sign(&self, mut of: Contribution) -> Contribution {
        let signing = &self.secrets[usize::from(of.member) - 1].signing;
        of.signature = signing.sign(CONTRIBUTION, &of.digest(&self.layout)).to_vec();
        of
    }

    fn sign_announcement(&self, mut of: Announcement) -> Announcement {
        let signing = &self.secrets[usize::from(of.member) - 1].signing;
        of.signature = signing.sign(ANNOUNCEMENT, &of.digest(&self.layout)).to_vec();
        of
    }

    fn signed(&self, announcements: &[Announcement]) -> SignedManifest {
        let sign = |(member, secrets): (&Contributing, &MemberSecrets)| {
            let (manifest, signature) = member.sign(announcements, secrets).unwrap();
            (manifest, (member.member(), signature))
        };
        let (manifests, signatures): (Vec<Manifest>, Vec<_>) =
            self.members.iter().zip(&self.secrets).map(sign).unzip();
        assert!(manifests.iter().all(|manifest| *manifest == manifests[0]));
        gather(manifests[0].clone(), &signatures).unwrap()
    }

    fn made(&mut self) -> (SignedManifest, Vec<MemberKeys>) {
        let announcements = self.combine_all();
        let signed = self.signed(&announcements);
        let keys = self.members.iter().map(|member| member.finish(&signed).unwrap()).collect();
        (signed, keys)
    }

    /// The keys that a member without the second round would use.
    fn unchecked(&self) -> Vec<MemberKeys> {
        let of = |member: &Contributing| {
            let keys = &member.combined.as_ref().unwrap().keys;
            let copy = |key: &Key| Key::new(*key.bytes());
            let count = self.layout.sharing.subsets().len();
            let (subsets, pairs): (Vec<_>, Vec<_>) = keys.iter().partition(|(at, _)| *at < count);
            let others = self.layout.others(member.member);
            MemberKeys::new(
                member.member,
                self.layout.sharing.clone(),
                subsets.into_iter().map(|(at, key)| (*at, copy(key))).collect(),
                others.zip(pairs).map(|(other, (_, key))| (other, copy(key))).collect(),
            )
            .unwrap()
        };
        self.members.iter().map(of).collect()
    }
}

/// A random number that follows from the keys alone, opened from the shares of all.
fn opened(keys: &[MemberKeys]) -> Result<Vec<u8>, shares::Error> {
    let label = Label::new(Kind::Seed, &[b"test"]);
    let share = |keys: &MemberKeys| (keys.member(), keys.seeds(&label).of(Kind::Mask, 0).uniform());
    let shares: Vec<(u8, Field)> = keys.iter().map(share).collect();
    keys[0].sharing().open(&shares).map(|opened| opened.liars)
}

#[test]
fn keys_are_drawn_together() {
    for (t, n, bytes) in [(2, 3, 164), (2, 4, 228), (3, 7, 708), (4, 10, 3012)] {
        let mut committee = Committee::new(t, n);
        let message = to_bytes(&committee.contributions[0]).unwrap();
        let (signed, keys) = committee.made();
        assert!(signed.check().is_ok());
        assert!(message.len() < 1 << 15, "{} bytes", message.len());
        assert_eq!(opened(&keys), Ok(vec![]));
        for (own, other) in [(0, 1), (0, usize::from(n) - 1), (1, usize::from(n) - 1)] {
            let message = keys[own].message([1; 32], 0, [0; 32], vec![Field::ONE]);
            assert_eq!(keys[other].check(own as u8 + 1, &message), Ok(()));
        }
        // The file of each has what it has.
        for keys in &keys {
            let file = keys.to_bytes(&signed.id());
            let read = MemberKeys::from_bytes(&file, &signed).unwrap();
            assert_eq!((file.len(), read.to_bytes(&signed.id())), (bytes, file));
        }
        let mut all: Vec<&[u8; 32]> = signed.manifest.subsets.iter().chain(&signed.manifest.pairs).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "no two keys are one");
    }
}

#[test]
fn a_file_of_keys_is_of_its_committee() {
    let (signed, keys) = Committee::new(2, 3).made();
    let (other, _) = Committee::new(2, 4).made();
    let file = keys[1].to_bytes(&signed.id());
    let read = |bytes: &[u8], signed: &SignedManifest| MemberKeys::from_bytes(bytes, signed).err();
    let form = Some(shares::Error::Form { what: "a file of the keys of a member" }.into());
    let others = |member| Some(Error::OtherKeys { member });
    assert_eq!(read(&file, &signed), None);
    assert_eq!(read(&file, &other), others(2));
    for cut in 0..file.len() {
        assert_eq!(read(&file[..cut], &signed), form, "{cut}");
    }
    assert_eq!(read(&[&file[..], &[0; 32]].concat(), &signed), form);
    for (at, to, error) in [(0, 9, form.clone()), (1, 1, others(1)), (1, 0, form), (2, 3, others(2))] {
        let mut changed = file.to_vec();
        changed[at] = to;
        assert_eq!(read(&changed, &signed), error, "byte {at}");
    }
    for at in [4, 36, 36 + 64, file.len() - 1] {
        let mut changed = file.to_vec();
        changed[at] ^= 1;
        assert_eq!(read(&changed, &signed), others(2), "byte {at}");
    }
    let mut unsigned = signed.clone();
    unsigned.signatures[2] = vec![0; 64];
    assert_eq!(read(&file, &unsigned), Some(shares::Error::Unsigned { member: 3 }.into()));
}

#[test]
fn who_sends_nothing_is_named() {
    let mut committee = Committee::new(2, 4);
    let shown = committee.contributions.clone();
    assert_eq!(committee.combine(2, &shown[2..3]).err(), Some(Error::Missing { members: vec![1, 4] }));
    let announcements = committee.combine_all();
    let missing = |members| Some(Error::Missing { members });
    assert_eq!(committee.members[0].manifest(&announcements[..2]).err(), missing(vec![3, 4]));
    let (manifest, own) = committee.members[0].sign(&announcements, &committee.secrets[0]).unwrap();
    assert_eq!(gather(manifest, &[(1, own)]).err(), missing(vec![2, 3, 4]));
    let (secrets, rng) = (&committee.secrets, &mut committee.rng);
    let not_own = Some(Error::NotOwn { member: 2 });
    assert_eq!(contribute(&committee.proposal, 2, &secrets[0], rng).err(), not_own);
    let none = Some(shares::Error::Member { member: 5 }.into());
    assert_eq!(contribute(&committee.proposal, 5, &secrets[0], rng).err(), none);
}

/// No keys come out before all have signed one manifest.
#[test]
fn keys_come_out_when_all_have_signed() {
    let mut committee = Committee::new(2, 3);
    let announcements = committee.combine_all();
    let signed = committee.signed(&announcements);
    let mut one_less = signed.clone();
    one_less.signatures[2] = vec![];
    let unsigned = Some(shares::Error::Unsigned { member: 3 }.into());
    assert_eq!(committee.members[0].finish(&one_less).err(), unsigned);
    let (other, _) = {
        let mut other = Committee::new(2, 3);
        other.proposal.nonce = [9; 32];
        other.layout = Layout::new(&other.proposal).unwrap();
        let drawn = (1..=3).map(|member| other.again(member)).collect::<Vec<_>>();
        (other.members, other.contributions) = drawn.into_iter().unzip();
        other.made()
    };
    let others = Some(Error::OtherKeys { member: 1 });
    assert_eq!(committee.members[0].finish(&other).err(), others);
    let mut changed = signed.clone();
    changed.manifest.subsets[0] = [1; 32];
    changed.signatures = committee.secrets.iter().map(|own| changed.manifest.sign(&own.signing)).collect();
    assert!(changed.check().is_ok());
    assert_eq!(committee.members[0].finish(&changed).err(), Some(Error::OtherKeys { member: 1 }));
    assert!(committee.members[0].finish(&signed).is_ok());
}

/// A member that chooses last takes what makes the sum of all parts a key of its choice, or repeats the
/// part of another so that both cancel. The key is the hash of the parts and neither of these. In the
/// control, where a key is the sum of its parts, both succeed.
#[test]
fn attack_who_chooses_last_fixes_the_key() {
    let committee = Committee::new(2, 4);
    let layout = &committee.layout;
    // The first subset is 1, 2, 3: member 3 knows what 1 and 2 have drawn before it shows anything.
    assert_eq!(layout.holders[0], [1, 2, 3]);
    let [one, two] = [0, 1].map(|at| *committee.members[at].parts[0].1.bytes());
    let xor = |a: [u8; 32], b: [u8; 32]| -> [u8; 32] { std::array::from_fn(|i| a[i] ^ b[i]) };
    let wanted = [7; 32];
    let last = xor(wanted, xor(one, two));
    assert_eq!(xor(xor(one, two), last), wanted, "the control");
    assert_ne!(layout.key(0, [one, two, last].iter()).bytes(), &wanted);
    assert_eq!(xor(xor(one, two), two), one, "the control: its part and that of 2 cancel");
    assert_ne!(layout.key(0, [one, two, two].iter()).bytes(), &one);
    // Nor is the key that of another place, of other holders' order, or of another proposal.
    let key = *layout.key(0, [one, two, last].iter()).bytes();
    assert_ne!(layout.key(1, [one, two, last].iter()).bytes(), &key);
    assert_ne!(layout.key(0, [two, one, last].iter()).bytes(), &key);
    assert_ne!(Committee::new(2, 3).layout.key(0, [one, two, last].iter()).bytes(), &key);
}

/// A member shows two others different contributions: the hashes that all announce differ. In the control
/// nobody compares, and shares are on no polynomial.
#[test]
fn attack_a_key_differs_between_members() {
    let mut committee = Committee::new(2, 3);
    let (_, second) = committee.again(1);
    let shown = committee.contributions.clone();
    let other = [&[second][..], &shown[1..]].concat();
    let announcements = vec![
        committee.combine(1, &shown).unwrap(),
        committee.combine(2, &shown).unwrap(),
        committee.combine(3, &other).unwrap(),
    ];
    let seen = |sender, members| Some(Error::Seen { sender, members });
    assert_eq!(committee.members[1].manifest(&announcements).err(), seen(1, vec![3]));
    assert_eq!(committee.members[2].manifest(&announcements).err(), seen(1, vec![1, 2]));
    assert_eq!(opened(&committee.unchecked()), Err(shares::Error::NoPolynomial), "the control");
}

/// A member announces another hash of a key than it has: no manifest comes out. In the control all are
/// honest.
#[test]
fn attack_a_member_announces_another_hash() {
    let mut committee = Committee::new(3, 5);
    let mut announcements = committee.combine_all();
    assert!(committee.members[0].manifest(&announcements).is_ok(), "the control");
    announcements[2].hashes[0][0] ^= 1;
    let unsigned = Some(Error::NotSigned { member: 3 });
    assert_eq!(committee.members[0].manifest(&announcements).err(), unsigned);
    announcements[2] = committee.sign_announcement(announcements[2].clone());
    let differs = Some(Error::KeyDiffers { place: 0, holders: vec![1, 2, 3] });
    assert_eq!(committee.members[0].manifest(&announcements).err(), differs);
}

/// Boxes are given to other members than they are for, or as those of another sender. Whoever carries
/// them has no signature, and what a sender signs does not open. In the control the box opens under the
/// purpose of the sender that it was copied from.
#[test]
fn attack_boxes_are_swapped() {
    let mut committee = Committee::new(2, 3);
    let shown = committee.contributions.clone();
    let mut swapped = shown.clone();
    swapped[0].sealed.swap(0, 1);
    let unsigned = Some(Error::NotSigned { member: 1 });
    assert_eq!(committee.combine(2, &swapped).err(), unsigned);
    swapped[0] = committee.sign(swapped[0].clone());
    let wrong = |sender| Some(Error::Box { sender });
    assert_eq!(committee.combine(2, &swapped).err(), wrong(1));
    // Member 3 shows the box of member 1 to member 2, and its hashes, as its own.
    let mut copied = shown.clone();
    copied[2].sealed[1] = shown[0].sealed[0].clone();
    copied[2].hashes = shown[0].hashes.clone();
    let copied_box = copied[2].sealed[1].clone();
    copied[2] = committee.sign(copied[2].clone());
    assert_eq!(committee.combine(2, &copied).err(), wrong(3));
    let purpose = |from| committee.layout.purpose(from, 2);
    let sealing = &committee.secrets[1].sealing;
    assert!(sealing.open(&purpose(3), &copied_box).is_err());
    assert!(sealing.open(&purpose(1), &copied_box).is_ok(), "the control");
    // A contribution of another form is its sender's fault, for all to see.
    let mut short = shown.clone();
    short[2].hashes.pop();
    short[2] = committee.sign(short[2].clone());
    assert_eq!(committee.combine(1, &short).err(), Some(Error::Malformed { member: 3 }));
    assert!(committee.combine(2, &shown).is_ok());
}

/// A sender seals other parts than its hashes are of: the box is refused. In the control the receiver does
/// not look at the hashes, and has other keys than the others.
#[test]
fn attack_a_box_has_other_parts_than_its_hashes() {
    let mut committee = Committee::new(2, 3);
    let mut shown = committee.contributions.clone();
    let layout = &committee.layout;
    let mut parts = vec![];
    for at in layout.common(&[1, 2]) {
        let own = committee.members[0].parts.iter().find(|(place, _)| *place == at).unwrap();
        parts.push(*own.1.bytes());
    }
    let right = parts.clone();
    parts[0][0] ^= 1;
    shown[0].sealed[0] = layout.seal(1, 2, parts.iter(), &mut committee.rng.clone()).unwrap();
    shown[0] = committee.sign(shown[0].clone());
    assert_eq!(committee.combine(2, &shown).err(), Some(Error::Box { sender: 1 }));
    assert!(committee.combine(3, &shown).is_ok());
    let rest = [committee.members[1].parts[0].1.bytes(), committee.members[2].parts[0].1.bytes()];
    let at = committee.layout.common(&[1, 2])[0];
    let key = |own: &[u8; 32]| committee.layout.key(at, [own, rest[0], rest[1]].into_iter()).hash();
    assert_ne!(key(&parts[0]), key(&right[0]), "the control");
}

/// A contribution to one proposal is shown in another one of the same members, where somebody may have
/// seen it opened: its signature, its hashes and its boxes are of the first. In the control both have one
/// id, and it is taken.
#[test]
fn attack_a_contribution_is_replayed() {
    let old = Committee::new(2, 3);
    let mut next = Committee::new(2, 3);
    next.proposal.nonce = [9; 32];
    next.layout = Layout::new(&next.proposal).unwrap();
    let drawn = (1..=3).map(|member| next.again(member)).collect::<Vec<_>>();
    (next.members, next.contributions) = drawn.into_iter().unzip();
    let replayed = [&old.contributions[..1], &next.contributions[1..]].concat();
    assert_eq!(next.combine(2, &replayed).err(), Some(Error::NotSigned { member: 1 }));
    // Signed again by a member that would have its own replayed, it opens nowhere.
    let again = [&[next.sign(old.contributions[0].clone())][..], &next.contributions[1..]].concat();
    assert_eq!(next.combine(2, &again).err(), Some(Error::Box { sender: 1 }));
    let mut same = Committee::new(2, 3);
    let (member, contribution) = same.again(2);
    (same.members[1], same.contributions[1]) = (member, contribution);
    let replayed = [&old.contributions[..1], &same.contributions[1..]].concat();
    assert!(same.combine(2, &replayed).is_ok(), "the control");
}

/// A member signs another manifest than it has announced: it is named, and nobody has keys.
#[test]
fn attack_a_member_signs_another_manifest() {
    let mut committee = Committee::new(2, 3);
    let announcements = committee.combine_all();
    let sign = |at: usize| committee.members[at].sign(&announcements, &committee.secrets[at]).unwrap();
    let (manifest, first) = sign(0);
    let third = sign(2).1;
    let mut other = manifest.clone();
    other.pairs[2] = [1; 32];
    let second = other.sign(&committee.secrets[1].signing);
    let all = [(1, first), (2, second), (3, third)];
    assert_eq!(gather(manifest.clone(), &all).err(), Some(Error::OtherManifest { members: vec![2] }));
    let others = Some(Error::OtherManifest { members: vec![1, 3] });
    assert_eq!(gather(other, &all).err(), others, "by the other manifest");
    // The control: it has signed this one, too.
    let all = [&all[..], &[(2, sign(1).1)]].concat();
    assert!(gather(manifest, &all).is_ok());
}
