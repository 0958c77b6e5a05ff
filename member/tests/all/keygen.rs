//! Members, boards and coordinators that deviate while keys are made.

use crate::committee::{identities, proposal, rng, take_part};
use ckks::{Params, PublicKey};
use ckks_committee::Dealt;
use ckks_secret::SecretKey;
use ckks_shares::{KeyLabel, PublicKeySum, SessionId};
use envelope::SigningSecret;
use helba_member::MemberKeys;
use helba_member::keygen::{Board, Entry, Error, Identity, Plan, Proposal, Round, Slot, Store};
use protocol::{KeyPlan, Shape};
use rand::Rng;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use wire::Manifest;

const PATIENT: Duration = Duration::from_secs(300);

/// Another body in place of one that a member sends.
pub(crate) type Sends<'a> = &'a (dyn Fn(Slot, &[u8]) -> Option<Vec<u8>> + Sync);
/// Another message in place of one that a member reads, or none.
pub(crate) type Reads<'a> = &'a (dyn Fn(Entry) -> Option<Entry> + Sync);
/// Another body in place of one that a member reads.
pub(crate) type Bodies<'a> = &'a (dyn Fn(Slot, Vec<u8>) -> Vec<u8> + Sync);
/// The bytes of a deal of this length that are changed.
type Changed<'a> = &'a (dyn Fn(usize) -> Range<usize> + Sync);

/// What one member has in place of a board that follows the protocol.
#[derive(Clone, Copy)]
pub(crate) struct Bent<'a> {
    pub(crate) store: &'a Store,
    /// The member signs what it sends.
    pub(crate) sends: Option<(&'a SigningSecret, &'a SessionId, Sends<'a>)>,
    pub(crate) reads: Option<Reads<'a>>,
    pub(crate) bodies: Option<Bodies<'a>>,
    /// Fails each time that as many messages were sent.
    pub(crate) fails: Option<(&'a AtomicUsize, usize)>,
}

impl<'a> Bent<'a> {
    pub(crate) fn straight(store: &'a Store) -> Self {
        Bent { store, sends: None, reads: None, bodies: None, fails: None }
    }
}

impl Board for Bent<'_> {
    fn post(&self, entry: &Entry, body: &[u8]) -> Result<(), Error> {
        if let Some((sent, every)) = self.fails
            && sent.fetch_add(1, Ordering::Relaxed) % every == every - 1
        {
            return Err(Error::Refused("the member is stopped here".into()));
        }
        if let Some((signing, session, send)) = self.sends
            && let Some(other) = send(entry.slot, body)
        {
            return self.store.post(&Entry::sign(signing, session, entry.slot, entry.seen, &other), &other);
        }
        self.store.post(entry, body)
    }

    fn entries(&self, round: Round, wait: Duration) -> Result<Vec<Entry>, Error> {
        let entries = self.store.entries(round, wait)?;
        Ok(match self.reads {
            Some(reads) => entries.into_iter().filter_map(reads).collect(),
            None => entries,
        })
    }

    fn body(&self, slot: Slot, limit: usize) -> Result<Vec<u8>, Error> {
        let body = self.store.body(slot, limit)?;
        Ok(match self.bodies {
            Some(bodies) => bodies(slot, body),
            None => body,
        })
    }
}

/// A run of toy keys of 2 of 3.
struct World {
    identities: Vec<Identity>,
    proposal: Proposal,
    session: SessionId,
    store: Store,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let identities = identities(3, 7);
        let proposal = proposal(&identities, 2, 2, 2, true);
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Plan::new(proposal.clone()).unwrap(), &folder.path().join("board")).unwrap();
        let session = proposal.session();
        World { identities, proposal, session, store, folder }
    }

    fn own(&self, member: u8) -> PathBuf {
        self.folder.path().join(member.to_string())
    }

    fn signing(&self, member: u8) -> &SigningSecret {
        &self.identities[usize::from(member) - 1].signing
    }

    /// The result of each member, over the board that it has.
    fn run(&self, boards: [Bent; 3], patience: Duration) -> Vec<Result<Manifest, Error>> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=3u8)
                .zip(boards)
                .map(|(member, board)| scope.spawn(move || self.take_part(member, &board, patience)))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn take_part(&self, member: u8, board: &Bent, patience: Duration) -> Result<Manifest, Error> {
        let plan = Plan::new(self.proposal.clone()).unwrap();
        let identity = &self.identities[usize::from(member) - 1];
        take_part(&plan, identity, board, &self.own(member), u64::from(member), patience)
    }

    /// A run in which member 2 sends other messages. The others must find out that it was member 2.
    fn blamed(&self, what: &str, send: Sends) -> String {
        let straight = Bent::straight(&self.store);
        let hostile = Bent { sends: Some((self.signing(2), &self.session, send)), ..straight };
        let ends = self.run([straight, hostile, straight], PATIENT);
        let mut found = String::new();
        for member in [1, 3] {
            match &ends[usize::from(member) - 1] {
                Err(Error::Blamed { member: 2, why }) => found.clone_from(why),
                Err(other) => panic!("{what}: member {member}: {other}"),
                Ok(_) => panic!("{what}: member {member} took these keys"),
            }
            self.check_that_nothing_was_made(member);
        }
        found
    }

    fn check_that_nothing_was_made(&self, member: u8) {
        for name in ["member.keys", "member.ledger", "public.bundle", "users.bundle"] {
            assert!(!self.own(member).join(name).exists(), "member {member} has {name}");
        }
    }
}

/// A message with one bit of its middle changed, and the digest of a frame that fits.
fn changed_frame(body: &[u8]) -> Vec<u8> {
    let mut out = body[..body.len() - 32].to_vec();
    let middle = out.len() / 2;
    out[middle] ^= 1;
    let digest = *blake3::hash(&out).as_bytes();
    out.extend(digest);
    out
}

fn garbage(length: usize) -> Vec<u8> {
    let mut out = vec![0; length];
    rng(9).fill_bytes(&mut out);
    out
}

/// The control of all attacks: without them, all members have the same keys, and each has its own shares.
#[test]
fn members_make_keys_together() {
    let world = World::new();
    let straight = Bent::straight(&world.store);
    let ends = world.run([straight; 3], PATIENT);
    let manifests: Vec<Manifest> = ends.into_iter().map(Result::unwrap).collect();
    assert!(manifests.iter().all(|manifest| *manifest == manifests[0]));
    manifests[0].check_signatures().unwrap();
    let bundle = |member: u8, name: &str| std::fs::read(world.own(member).join(name)).unwrap();
    for member in 1..=3 {
        assert_eq!(bundle(member, "public.bundle"), bundle(1, "public.bundle"));
        assert_eq!(bundle(member, "users.bundle"), bundle(1, "users.bundle"));
        let keys = MemberKeys::open(&world.own(member).join("member.keys"), None).unwrap();
        assert_eq!((keys.member(), keys.manifest()), (member, &manifests[0]));
        let names = std::fs::read_dir(world.own(member)).unwrap();
        assert_eq!(names.count(), 4, "the seed of the run is erased");
        // A run that has ended is not begun again.
        assert!(matches!(world.take_part(member, &straight, PATIENT), Err(Error::Io { .. })));
    }
    let public = wire::PublicBundle::read(&bundle(1, "public.bundle")[..]).unwrap();
    assert_eq!(public.manifest, manifests[0]);
    wire::UsersBundle::read(&bundle(1, "users.bundle")[..]).unwrap();

    // Keys that not all members signed are no keys of the committee.
    let wire::Custody::Committee(committee) = manifests[0].custody.clone() else { panic!("a committee") };
    let mut swapped = committee.signatures.clone();
    swapped.swap(0, 1);
    for signatures in [committee.signatures[1..].to_vec(), swapped] {
        assert!(manifests[0].clone().with_signatures(signatures).check_signatures().is_err());
    }
    let bytes = bundle(1, "public.bundle");
    let manifest = u32::from_le_bytes(*bytes[10..].first_chunk().unwrap()) as usize;
    let (mut at, mut last) = (14 + manifest, 0..0);
    while at < bytes.len() {
        let length = u64::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
        last = at + 8..at + 8 + length;
        at = last.end;
    }
    let changed = [&bytes[..last.start], &changed_frame(&bytes[last])].concat();
    let refused = wire::PublicBundle::read(&changed[..]).unwrap_err();
    assert!(refused.to_string().contains("custody.keys"), "{refused}");
}

/// Garbage in every message: the others find that something is wrong, and who did it.
#[test]
#[ignore = "some minutes: a run for each message"]
fn attack_garbage_in_every_message_of_key_generation_is_blamed() {
    for (round, number) in [
        (Round::Commit, 0),
        (Round::Reveal, 0),
        (Round::Reveal, 1),
        (Round::Deal, 0),
        (Round::Keys, 0),
        (Round::Test, 0),
        (Round::Verdict, 0),
        (Round::Confirm, 0),
    ] {
        let send = |slot: Slot, body: &[u8]| {
            ((slot.round, slot.number) == (round, number)).then(|| garbage(body.len()))
        };
        World::new().blamed(&format!("garbage as {round} {number}"), &send);
    }
    let short = |slot: Slot, body: &[u8]| (slot.round == Round::Test).then(|| body[1..].to_vec());
    World::new().blamed("a test that is too short", &short);
}

/// Shares of keys that can be read, with one bit of one residue changed: of the first keys of the large ring,
/// and among those of scores and of answers.
#[test]
#[ignore = "some minutes: a run for each message"]
fn attack_a_changed_share_of_a_key_is_blamed() {
    let count = {
        let world = World::new();
        world.run([Bent::straight(&world.store); 3], PATIENT).into_iter().for_each(|end| drop(end.unwrap()));
        let entries = world.store.entries(Round::Keys, Duration::ZERO).unwrap();
        entries.into_iter().filter(|entry| entry.slot.member == 1).count()
    };
    for key in [0, 1, count - 8, count - 4, count - 1] {
        let send = |slot: Slot, body: &[u8]| {
            ((slot.round, usize::from(slot.number)) == (Round::Keys, key)).then(|| changed_frame(body))
        };
        let why = World::new().blamed(&format!("a changed share of key {key}"), &send);
        assert!(why.contains(&format!("share of a key {key} of member 2")), "{why}");
    }
}

/// A share off the polynomial, half a pair key and a token that others do not have: sealed, and read by the
/// receiver alone, until the seeds are opened.
#[test]
fn attack_a_deal_that_only_its_receiver_can_read_is_blamed() {
    let dealt = |what: &str, at: Changed| {
        let world = World::new();
        let purpose = [b"helba committee v1: deal", &world.session.0[..], &[2, 1]].concat();
        let receiver = &world.identities[0];
        let send = |slot: Slot, sealed: &[u8]| {
            if slot != (Slot { round: Round::Deal, number: 0, member: 2 }) {
                return None;
            }
            let mut opened = receiver.sealing.open(&purpose, sealed).unwrap();
            let range = at(opened.len());
            opened[range].fill(0);
            Some(envelope::seal(&receiver.sealing.public(), &purpose, &opened, &mut rng(1)).unwrap())
        };
        world.blamed(what, &send)
    };
    let plan = KeyPlan::new(Shape::for_problem(2, 2), true).unwrap();
    // Residues modulo the special primes come last. Shares of answers are never used modulo these.
    let of_answers = 64 + Dealt::bytes(&plan.answers.params.validate().unwrap());
    let cases: [(&str, Changed); 5] = [
        ("a value of the large ring", &|_| 0..64),
        ("a value of scores, modulo a special prime", &|length| {
            length - of_answers - 64..length - of_answers
        }),
        ("a value of answers", &|length| length - of_answers..length - of_answers + 64),
        ("half a pair key", &|length| length - 64..length - 32),
        ("a part of the token", &|length| length - 32..length),
    ];
    for (what, range) in cases {
        let why = dealt(what, range);
        assert!(why.contains("deal 0 of member 2"), "{what}: {why}");
    }
}

/// A member that picks its public key after it has seen the others' would own the key of the committee: the
/// sum is a key of which it knows the secret. It committed to another before.
#[test]
fn attack_a_rogue_key_is_refused() {
    let world = World::new();
    let params = KeyPlan::new(Shape::for_problem(2, 2), true).unwrap().params.validate().unwrap();
    let seed = world.session.seed(&params, KeyLabel::Public);
    let own = SecretKey::generate(&params, &mut rng(5));
    let wanted = ckks_secret::public_key_from(&own, seed, &mut rng(6));
    let sums = Mutex::new(Vec::new());
    let send = |slot: Slot, _: &[u8]| {
        if slot != (Slot { round: Round::Reveal, number: 0, member: 2 }) {
            return None;
        }
        let of_others = others(&world.store, &params);
        let basis = params.q_basis(params.max_level());
        let mut b = wanted.b().clone();
        of_others.iter().for_each(|key| b.sub_assign(basis, key.b()));
        let rogue = PublicKey::new(&params, b, seed);
        let mut sum = PublicKeySum::new(&params, world.session);
        of_others.iter().chain([&rogue]).for_each(|key| sum.add(key).unwrap());
        sums.lock().unwrap().push(sum.finish(world.proposal.quorum().unwrap()).unwrap());
        Some(ckks::write_public_key(&params, &rogue))
    };
    let why = world.blamed("a rogue key", &send);
    assert!(why.contains("public key 0 of member 2"), "{why}");
    assert_eq!(sums.into_inner().unwrap(), [wanted], "the control: without the commitment it has the key");
}

/// The public keys of members 1 and 3, once they are revealed.
fn others(store: &Store, params: &Params) -> Vec<PublicKey> {
    let slots = [1, 3].map(|member| Slot { round: Round::Reveal, number: 0, member });
    loop {
        let entries = store.entries(Round::Reveal, Duration::ZERO).unwrap();
        if slots.iter().all(|slot| entries.iter().any(|entry| entry.slot == *slot)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    slots.map(|slot| ckks::read_public_key(params, &store.body(slot, usize::MAX).unwrap()).unwrap().0).into()
}

/// A member that signs two messages for one slot is found, whatever the board shows to whom.
#[test]
fn attack_two_messages_for_one_slot_are_blamed() {
    for round in [Round::Commit, Round::Reveal, Round::Deal, Round::Keys, Round::Test] {
        let world = World::new();
        let other = |entry: Entry| {
            let slot = Slot { round, number: 0, member: 2 };
            let body = b"another message";
            Some(if entry.slot == slot {
                Entry::sign(world.signing(2), &world.session, slot, entry.seen, body)
            } else {
                entry
            })
        };
        let bodies = |slot: Slot, body: Vec<u8>| match slot {
            Slot { member: 2, number: 0, round: of } if of == round => b"another message".to_vec(),
            _ => body,
        };
        let straight = Bent::straight(&world.store);
        let shown = Bent { reads: Some(&other), bodies: Some(&bodies), ..straight };
        let ends = world.run([straight, straight, shown], PATIENT);
        for member in [1, 3] {
            let end = &ends[usize::from(member) - 1];
            let Err(Error::Blamed { member: 2, why }) = end else { panic!("{round}, {member}: {end:?}") };
            assert!(why.contains("it signed two messages"), "{round}: {why}");
            world.check_that_nothing_was_made(member);
        }
    }
}

/// A board that drops messages, swaps bodies or makes messages up stops a run, and no member is blamed.
#[test]
fn attack_a_board_that_drops_or_swaps_messages_blames_nobody() {
    let slot = Slot { round: Round::Deal, number: 2, member: 1 };
    let dropped = |entry: Entry| (entry.slot != slot).then_some(entry);
    let renamed = |mut entry: Entry| {
        if entry.slot == slot {
            entry.slot = Slot { number: 0, member: 2, ..slot };
        }
        Some(entry)
    };
    let forged = |mut entry: Entry| {
        if entry.slot == slot {
            entry.digest[0] ^= 1;
        }
        Some(entry)
    };
    let kept = |entry: Entry| Some(entry);
    let swapped = |at: Slot, body: Vec<u8>| if at == slot { garbage(body.len()) } else { body };
    let same = |_: Slot, body: Vec<u8>| body;
    let cases: [(&str, Reads, Bodies); 4] = [
        ("dropped", &dropped, &same),
        ("renamed", &renamed, &same),
        ("forged", &forged, &same),
        ("swapped", &kept, &swapped),
    ];
    for (what, reads, bodies) in cases {
        let world = World::new();
        let straight = Bent::straight(&world.store);
        let bent = Bent { reads: Some(reads), bodies: Some(bodies), ..straight };
        let ends = world.run([straight, straight, bent], Duration::from_secs(8));
        let Err(Error::Silent { missing, .. }) = &ends[2] else { panic!("{what}: {:?}", ends[2]) };
        assert_eq!(*missing, slot, "{what}");
        for (member, end) in (1..).zip(&ends) {
            assert!(matches!(end, Err(Error::Silent { .. })), "{what}: {end:?}");
            world.check_that_nothing_was_made(member);
        }
    }
}

/// A member that ends a run for nothing is blamed itself.
#[test]
fn attack_a_false_complaint_is_blamed() {
    let world = World::new();
    let straight = Bent::straight(&world.store);
    let send = |slot: Slot, _: &[u8]| {
        if slot.round == Round::Deal {
            // The seed of the member, a reason, and no messages.
            let mut opening = vec![0; 32];
            rng(2).fill_bytes(&mut opening);
            opening.extend([3, 0]);
            opening.extend(b"why");
            let slot = Slot { round: Round::Blame, number: 0, member: 2 };
            let entry = Entry::sign(world.signing(2), &world.session, slot, [0; 32], &opening);
            world.store.post(&entry, &opening).unwrap();
        }
        None
    };
    let hostile = Bent { sends: Some((world.signing(2), &world.session, &send)), ..straight };
    let ends = world.run([straight, hostile, straight], PATIENT);
    for member in [0, 2] {
        let Err(Error::Blamed { member: 2, why }) = &ends[member] else { panic!("{:?}", ends[member]) };
        assert!(why.contains("for what is not so: why"), "{why}");
    }
}

/// A member that is stopped again and again sends the same bytes, and ends with the keys of the others.
#[test]
#[ignore = "some minutes: a run for each message"]
fn a_member_that_is_stopped_at_any_message_goes_on() {
    let world = World::new();
    let straight = Bent::straight(&world.store);
    let (sent, again) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stopped = Bent { fails: Some((&sent, 3)), ..straight };
    let plan = || Plan::new(world.proposal.clone()).unwrap();
    let ends = std::thread::scope(|scope| {
        let others = [1, 3].map(|member| {
            let world = &world;
            scope.spawn(move || world.take_part(member, &straight, PATIENT))
        });
        let own = loop {
            // Another seed is given each time, and the first is kept.
            let seed = 50 + again.fetch_add(1, Ordering::Relaxed) as u64;
            match take_part(&plan(), &world.identities[1], &stopped, &world.own(2), seed, PATIENT) {
                Err(Error::Refused(_)) => {}
                end => break end,
            }
        };
        others.map(|thread| thread.join().unwrap()).into_iter().chain([own]).collect::<Vec<_>>()
    });
    let manifests: Vec<Manifest> = ends.into_iter().map(Result::unwrap).collect();
    assert!(manifests.iter().all(|manifest| *manifest == manifests[0]));
    assert!(again.into_inner() > 5, "it was stopped often");
}

/// After a restart, a member takes no other messages than before, so that it never sends two for one slot.
#[test]
fn attack_a_board_that_shows_other_messages_after_a_restart_is_refused() {
    let world = World::new();
    let straight = Bent::straight(&world.store);
    let sent = AtomicUsize::new(0);
    let plan = || Plan::new(world.proposal.clone()).unwrap();
    let own =
        |board: &Bent, patience| take_part(&plan(), &world.identities[2], board, &world.own(3), 3, patience);
    // Commit, two keys, two deals, and then the first share of a key.
    let stopped = Bent { fails: Some((&sent, 6)), ..straight };
    let ends = std::thread::scope(|scope| {
        let others = [1, 2].map(|member| {
            let world = &world;
            scope.spawn(move || world.take_part(member, &straight, Duration::from_secs(10)))
        });
        let end = own(&stopped, PATIENT);
        others.into_iter().for_each(|thread| assert!(thread.join().unwrap().is_err()));
        end
    });
    assert!(matches!(ends, Err(Error::Refused(_))), "{ends:?}");
    let other = |entry: Entry| {
        let slot = Slot { round: Round::Commit, number: 0, member: 2 };
        let sign = |body: &[u8]| Entry::sign(world.signing(2), &world.session, slot, entry.seen, body);
        Some(if entry.slot == slot { sign(b"another message") } else { entry })
    };
    let forked = Bent { reads: Some(&other), ..straight };
    assert!(matches!(own(&forked, PATIENT), Err(Error::Forked)));
}

/// The board takes one message for each slot, from its member, of no more bytes than the slot may have.
#[test]
fn attack_strangers_leave_nothing_on_a_board() {
    let world = World::new();
    let slot = Slot { round: Round::Commit, number: 0, member: 1 };
    let sign = |signing, slot, body: &[u8]| Entry::sign(signing, &world.session, slot, [0; 32], body);
    let entry = sign(world.signing(1), slot, &[1; 32]);
    let refused = |entry: &Entry, body: &[u8]| assert!(world.store.post(entry, body).is_err(), "{entry:?}");
    refused(&sign(world.signing(2), slot, &[1; 32]), &[1; 32]);
    refused(&Entry { seen: [1; 32], ..entry }, &[1; 32]);
    refused(&entry, &[2; 32]);
    refused(&entry, &[1; 31]);
    refused(&sign(world.signing(1), slot, &[1; 33]), &[1; 33]);
    for bad in [Slot { member: 0, ..slot }, Slot { member: 4, ..slot }, Slot { number: 1, ..slot }] {
        refused(&sign(world.signing(1), bad, &[1; 32]), &[1; 32]);
    }
    let foreign = Entry::sign(world.signing(1), &SessionId([1; 32]), slot, [0; 32], &[1; 32]);
    refused(&foreign, &[1; 32]);
    world.store.post(&entry, &[1; 32]).unwrap();
    world.store.post(&entry, &[1; 32]).unwrap();
    let second = sign(world.signing(1), slot, &[2; 32]);
    assert!(matches!(world.store.post(&second, &[2; 32]), Err(Error::Taken { .. })));
    // The folder is read again as it was, and messages of another run are refused.
    let open = |proposal: Proposal, folder: &Path| Store::open(Plan::new(proposal).unwrap(), folder);
    let folder = world.folder.path().join("board");
    let store = open(world.proposal.clone(), &folder).unwrap();
    assert_eq!(store.entries(Round::Commit, Duration::ZERO).unwrap(), [entry]);
    assert_eq!(store.body(slot, 32).unwrap(), [1; 32]);
    assert!(open(Proposal { arms: 3, ..world.proposal.clone() }, &folder).is_err());
    assert_eq!(Entry::read_all(&entry.to_bytes()).unwrap(), [entry]);
    assert!(Entry::read_all(&entry.to_bytes()[1..]).is_err());
}
