//! Resharing: the next epoch of a committee, and members, servers and boards that deviate.

use crate::committee::{self, identities, rng};
use crate::keygen::{Bent, Sends};
use crate::rounds::{World, borrowed, ledger_at, poll};
use ckks_committee::Dealt;
use helba_member::MemberKeys;
use helba_member::keygen::{
    Board, Entry, Error, Identity, Old, Plan, Proposal, Reshare, Resharing, Round, Slot, Store,
};
use helba_member::serve::{self, Ledger, Member};
use protocol::budget::{Budget, OPENED_NATS, budget_of_a_member, opened_nats};
use protocol::{Shape, TaskKind};
use rand::Rng;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::ClearTwin;
use user_client::{Device, Opening, Stop};
use wire::{Created, Custody, Manifest, PublicBundle, PublicBytes, Question, UsersBundle, Wanted};
use zeroize::Zeroizing;

const PATIENT: Duration = Duration::from_secs(300);

/// A member of one epoch or of both, with its files.
struct Person {
    identity: Identity,
    /// Its number in the epoch that ends.
    old: Option<u8>,
    folder: PathBuf,
}

impl Person {
    fn keys(&self) -> PathBuf {
        self.folder.join("old/member.keys")
    }

    fn old(&self, keys: &Path) -> Option<Old<'static>> {
        let keys: &'static Path = Box::leak(keys.to_path_buf().into_boxed_path());
        self.old.filter(|_| keys.exists()).map(|_| Old {
            keys: MemberKeys::open(keys, None).unwrap(),
            path: keys,
            ledger: ledger_at(&keys.with_extension("ledger")),
        })
    }
}

/// A resharing of 2 of 3 toy keys: members 1 and 3 go on, and a new one takes the place of member 2.
struct Next {
    persons: Vec<Person>,
    proposal: Proposal,
    store: Store,
    public: PathBuf,
    users: PathBuf,
    _folder: tempfile::TempDir,
}

impl Next {
    fn new(dealers: &[u8]) -> Self {
        let committee::Keys { members, public, users } = committee::keys(2, 3, 2, 2, true);
        Self::of(members, &public, &users, dealers, &[1, 0, 3], 2)
    }

    /// `next` are the members of the next epoch by their numbers in this one, or 0 for new ones.
    fn of(
        members: Vec<MemberKeys>,
        public: &[u8],
        users: &[u8],
        dealers: &[u8],
        next: &[u8],
        threshold: u8,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (path, of_users) = (folder.path().join("public.bundle"), folder.path().join("users.bundle"));
        std::fs::write(&path, public).unwrap();
        std::fs::write(&of_users, users).unwrap();
        let before = PublicBundle::read(public).unwrap().manifest;
        let mut fresh = identities(16, 200 + committee_of(&before).epoch() as u64).into_iter();
        let mut persons = Vec::new();
        for (at, keys) in members.iter().enumerate() {
            let identity = Identity {
                signing: envelope::SigningSecret::from_bytes(&keys.signing().to_bytes()),
                sealing: envelope::SealingSecret::from_bytes(&keys.sealing().to_bytes()).unwrap(),
            };
            let folder = folder.path().join(format!("person-{at}"));
            std::fs::create_dir_all(folder.join("old")).unwrap();
            let person = Person { identity, old: Some(keys.member()), folder };
            keys.save(&person.keys(), None, &mut rng(1)).unwrap();
            persons.push(person);
        }
        let mut cards = Vec::new();
        for (at, number) in next.iter().enumerate() {
            let known = persons.iter().find(|person| person.old == Some(*number));
            cards.push(match known {
                Some(person) => person.identity.card(),
                None => {
                    let (identity, folder) = (fresh.next().unwrap(), folder.path().join(format!("new-{at}")));
                    let card = identity.card();
                    persons.push(Person { identity, old: None, folder });
                    card
                }
            });
        }
        // Who neither deals nor is a member of the next epoch is not there.
        persons.retain(|person| {
            cards.contains(&person.identity.card()) || person.old.is_some_and(|j| dealers.contains(&j))
        });
        let proposal = Proposal {
            features: before.shape.dim,
            arms: before.shape.arm_slots,
            threshold,
            toy: true,
            created: 0,
            nonce: PublicBytes(vec![5; 32]),
            members: cards,
            resharing: Some(Box::new(Resharing { before, dealers: dealers.to_vec() })),
            follows: None,
        };
        let store = Store::open(Plan::new(proposal.clone()).unwrap(), &folder.path().join("board")).unwrap();
        Next { persons, proposal, store, public: path, users: of_users, _folder: folder }
    }

    fn take_part(&self, at: usize, board: &Bent, seed: u64, patience: Duration) -> Result<Manifest, Error> {
        let (person, plan) = (&self.persons[at], Plan::new(self.proposal.clone()).unwrap());
        let run = Reshare {
            plan: &plan,
            identity: &person.identity,
            public: &self.public,
            users: &self.users,
            folder: &person.folder.join("next"),
            passphrase: None,
            patience,
            log: &|_| (),
        };
        let mut secret = Zeroizing::new([0; 32]);
        rng(seed).fill_bytes(&mut *secret);
        run.run(board, person.old(&person.keys()), secret)
    }

    /// The result of each person, where the one at `bent` has another board.
    fn run(&self, bent: Option<(usize, Bent)>, patience: Duration) -> Vec<Result<Manifest, Error>> {
        let straight = Bent::straight(&self.store);
        std::thread::scope(|scope| {
            let board = |at: usize| bent.filter(|(of, _)| *of == at).map_or(straight, |(_, board)| board);
            let start = |at: usize| {
                let board = board(at);
                scope.spawn(move || self.take_part(at, &board, 300 + at as u64, patience))
            };
            let threads: Vec<_> = (0..self.persons.len()).map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn at_old(&self, member: u8) -> usize {
        self.persons.iter().position(|person| person.old == Some(member)).unwrap()
    }

    fn file(&self, at: usize, name: &str) -> PathBuf {
        self.persons[at].folder.join("next").join(name)
    }

    /// Keys and bundles of the members of the next epoch, by their numbers.
    fn made(&self) -> (Vec<MemberKeys>, Vec<u8>, Vec<u8>) {
        let at = |card: &wire::MemberManifest| {
            self.persons.iter().position(|person| person.identity.card() == *card).unwrap()
        };
        let all: Vec<usize> = self.proposal.members.iter().map(at).collect();
        let keys = all.iter().map(|at| MemberKeys::open(&self.file(*at, "member.keys"), None).unwrap());
        let read = |name: &str| std::fs::read(self.file(all[0], name)).unwrap();
        (keys.collect(), read("public.bundle"), read("users.bundle"))
    }
}

/// What three messages that three sets of two members open in eight forms count as.
fn decisions_of_a_test() -> u64 {
    let nats = 0.5 / 65536.0 * 2.0 * f64::from(3 * 8 * 3);
    (nats / opened_nats(Shape::for_problem(2, 2), 2, 3)).ceil() as u64
}

fn committee_of(manifest: &Manifest) -> &wire::CommitteeManifest {
    match &manifest.custody {
        Custody::Committee(committee) => committee,
        Custody::Holder => panic!("a committee"),
    }
}

/// The control of the attacks: the next epoch has the same keys and other shares, devices that know the epoch
/// before accept it, and the old shares are gone. What a member knows of journals goes along.
#[test]
fn shares_are_handed_on_to_the_next_epoch() {
    let next = Next::new(&[1, 3]);
    let goes_on = next.at_old(1);
    let states = next.persons[goes_on].keys().with_extension("states");
    std::fs::create_dir(&states).unwrap();
    std::fs::write(states.join("of a bandit"), "a state").unwrap();
    let manifests: Vec<Manifest> = next.run(None, PATIENT).into_iter().map(Result::unwrap).collect();
    assert!(manifests.iter().all(|manifest| *manifest == manifests[0]));
    let (before, after) = (&next.proposal.resharing.as_ref().unwrap().before, &manifests[0]);
    after.check_signatures().unwrap();
    assert_eq!((committee_of(before).epoch(), committee_of(after).epoch()), (0, 1));
    assert_eq!((&after.key_id, &after.scores.key_id), (&before.key_id, &before.scores.key_id));
    let (keys, public, users) = next.made();
    for (member, keys) in (1..).zip(&keys) {
        assert_eq!((keys.member(), keys.epoch(), keys.makers()), (member, 1, 3));
    }
    assert_eq!(PublicBundle::read(&public[..]).unwrap().manifest, *after);
    assert_eq!(UsersBundle::read(&users[..]).unwrap().committee, *committee_of(after));
    for (at, person) in next.persons.iter().enumerate() {
        assert!(!person.keys().exists(), "the old share of person {at} is there");
        let names = std::fs::read_dir(person.folder.join("next")).unwrap();
        let names: Vec<_> = names.map(|file| file.unwrap().file_name()).collect();
        assert_eq!(names.len(), 4 + usize::from(at == goes_on), "{names:?}");
    }
    assert_eq!(std::fs::read_to_string(next.file(goes_on, "member.states/of a bandit")).unwrap(), "a state");

    // A device that knows the epoch before accepts the next one, also from its file, and no earlier one then.
    let device = Device::open(&private(&next.users), &Opening { toy: true, ..Opening::default() }).unwrap();
    device.check_manifest(before).unwrap();
    device.check_manifest(after).unwrap();
    let old = |device: &Device| {
        let error = device.check_manifest(before).unwrap_err();
        assert!(
            matches!(error, user_client::Error::Wire(wire::Error::OldEpoch { got: 0, known: 1 })),
            "{error}"
        );
    };
    old(&device);
    old(&Device::open(&next.users, &Opening { toy: true, ..Opening::default() }).unwrap());
    old(&Device::read(&users[..]).unwrap());
}

fn private(path: &Path) -> PathBuf {
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    path.to_path_buf()
}

/// A manifest of a next epoch that fewer than t members of the known one have signed, or one twice, is
/// refused, and the device goes on with the epoch that it knows.
#[test]
fn attack_a_manifest_signed_by_t_minus_one_old_members_is_refused() {
    let next = Next::new(&[1, 3]);
    let manifest = next.run(None, PATIENT).remove(0).unwrap();
    let users = std::fs::read(&next.users).unwrap();
    let handover = committee_of(&manifest).before[0].handover.clone();
    let stranger = identities(1, 999).remove(0);
    let by_stranger = PublicBytes(manifest.sign_next_epoch(&stranger.signing));
    let forged = wire::Handover { signature: by_stranger, ..handover[1].clone() };
    let twice = vec![handover[0].clone(); 2];
    let renamed = vec![handover[0].clone(), wire::Handover { member: 2, ..handover[0].clone() }];
    for bad in [vec![], handover[..1].to_vec(), twice, renamed, vec![handover[0].clone(), forged]] {
        let device = Device::read(&users[..]).unwrap();
        let error = device.check_manifest(&manifest.clone().with_handover(bad)).unwrap_err();
        assert!(
            matches!(error, user_client::Error::Wire(wire::Error::Epoch { got: 1, known: 0, .. })),
            "{error}"
        );
        device.check_manifest(&next.proposal.resharing.as_ref().unwrap().before).unwrap();
    }
    // Another committee under the same signatures, and another epoch 0.
    let swapped = |change: &dyn Fn(&mut wire::CommitteeManifest)| {
        let mut manifest = manifest.clone();
        let Custody::Committee(committee) = &mut manifest.custody else { panic!("a committee") };
        change(committee);
        Device::read(&users[..]).unwrap().check_manifest(&manifest).unwrap_err();
    };
    swapped(&|committee| committee.members.swap(0, 1));
    swapped(&|committee| committee.threshold = 3);
    swapped(&|committee| committee.before[0].verifying.swap(0, 1));
    swapped(&|committee| committee.before.push(committee.before[0].clone()));
    Device::read(&users[..]).unwrap().check_manifest(&manifest).unwrap();
}

/// A dealer that deals another secret, a value off its polynomial, or bytes that are none: every member of
/// the next epoch finds that something is wrong, none writes a file, and the old shares are used again. With
/// other dealers the next run succeeds.
#[test]
fn attack_garbage_in_a_deal_of_a_resharing_shows() {
    let sizes = {
        let keys = committee::keys(2, 3, 2, 2, true).members.remove(0);
        [keys.large(), keys.scores(), keys.answers()].map(|share| Dealt::bytes(share.params()))
    };
    type Change<'a> = &'a (dyn Fn(u16, &mut Vec<u8>) + Sync);
    // The first residue of a ring is replaced: the same for all receivers is another secret, if the
    // polynomial has degree 0 there, and for one receiver a value off the polynomial.
    let zeroed = |ring: usize| {
        let at: usize = sizes[..ring].iter().sum();
        move |bytes: &mut Vec<u8>| bytes[at..at + 64].fill(0)
    };
    let (large, scores, answers) = (zeroed(0), zeroed(1), zeroed(2));
    let of_all = "every set of members opens test";
    let cases: [(&str, Change, &str); 6] = [
        ("another secret of the large ring", &|_, bytes| large(bytes), of_all),
        ("another secret of scores", &|_, bytes| scores(bytes), of_all),
        ("another secret of answers", &|_, bytes| answers(bytes), of_all),
        (
            "a value for member 2 alone",
            &|to, bytes| {
                if to == 1 {
                    large(bytes)
                }
            },
            "members in all of them are [2]",
        ),
        ("residues that are too large", &|_, bytes| bytes[..64].fill(0xff), "of member 3 cannot be read"),
        ("nothing", &|_, bytes| bytes.clear(), "of member 3 cannot be read"),
    ];
    for (what, change, found) in cases {
        let next = Next::new(&[1, 3]);
        let (at, session) = (next.at_old(3), next.proposal.session());
        let send = |slot: Slot, sealed: &[u8]| {
            if slot.round != Round::Deal {
                return None;
            }
            let (to, card) = (slot.number as u8 + 1, &next.proposal.members[usize::from(slot.number)]);
            let receiver = next.persons.iter().find(|person| person.identity.card() == *card).unwrap();
            let purpose = [b"helba committee v1: deal", &session.0[..], &[3, to]].concat();
            let mut opened = receiver.identity.sealing.open(&purpose, sealed).unwrap().to_vec();
            change(slot.number, &mut opened);
            Some(envelope::seal(&card.sealing.0, &purpose, &opened, &mut rng(1)).unwrap())
        };
        let send: Sends = &send;
        let sends = Some((&next.persons[at].identity.signing, &session, send));
        let bent = Bent { sends, ..Bent::straight(&next.store) };
        let ends = next.run(Some((at, bent)), PATIENT);
        for (at, end) in ends.iter().enumerate() {
            let Err(Error::NotReshared { dealers, why }) = end else { panic!("{what}: {at}: {end:?}") };
            assert_eq!(dealers, "1, 3");
            assert!(why.contains(found), "{what}: {why}");
            for name in ["member.keys", "public.bundle", "users.bundle", "member.ledger"] {
                assert!(!next.file(at, name).exists(), "{what}: person {at} has {name}");
            }
            if let Some(old) = next.persons[at].old(&next.persons[at].keys()) {
                old.ledger.check_in_use().unwrap();
                // The test is counted: others may have come to it.
                assert_eq!(old.ledger.tell().unwrap().spent.decisions, decisions_of_a_test(), "{what}");
            }
            let again = next.take_part(at, &Bent::straight(&next.store), 1, PATIENT);
            assert!(matches!(again, Err(Error::RunOver)), "{again:?}");
        }
    }
    Next::new(&[1, 2]).run(None, PATIENT).into_iter().for_each(|end| drop(end.unwrap()));
}

/// A member of the next epoch that answers garbage in the test ends the run as well: no share is taken that
/// not every set opens with.
#[test]
fn attack_garbage_in_the_test_of_a_resharing_shows() {
    let next = Next::new(&[1, 3]);
    let session = next.proposal.session();
    let send = |slot: Slot, body: &[u8]| {
        let mut garbage = body.to_vec();
        garbage[..8].copy_from_slice(&7u64.to_le_bytes());
        (slot.round == Round::Test).then_some(garbage)
    };
    let (at, send): (_, Sends) = (next.at_old(3), &send);
    let sends = Some((&next.persons[at].identity.signing, &session, send));
    let ends = next.run(Some((at, Bent { sends, ..Bent::straight(&next.store) })), PATIENT);
    for end in ends {
        assert!(matches!(end, Err(Error::NotReshared { .. })), "{end:?}");
    }
}

/// A member that is stopped again and again sends the same bytes, whatever its part is.
#[test]
fn a_member_that_is_stopped_at_any_message_of_a_resharing_goes_on() {
    let next = Next::new(&[1, 3]);
    let straight = Bent::straight(&next.store);
    let stops = AtomicUsize::new(0);
    let ends = std::thread::scope(|scope| {
        let start = |at: usize| {
            let (next, stops) = (&next, &stops);
            scope.spawn(move || {
                let sent = AtomicUsize::new(0);
                let stopped = Bent { fails: Some((&sent, 2)), ..straight };
                loop {
                    // Another seed is given each time, and the first is kept.
                    let seed = stops.fetch_add(1, Ordering::Relaxed) as u64;
                    match next.take_part(at, &stopped, seed, PATIENT) {
                        Err(Error::Refused(_)) => {}
                        end => break end,
                    }
                }
            })
        };
        let threads: Vec<_> = (0..3).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let manifests: Vec<Manifest> = ends.into_iter().map(Result::unwrap).collect();
    assert!(manifests.iter().all(|manifest| *manifest == manifests[0]));
    assert!(stops.into_inner() > 10, "they were stopped often");
    assert!(next.persons.iter().all(|person| !person.keys().exists()));
}

/// A run that does not end is given up, and the old shares are used again, but not once the member has signed
/// the next epoch.
#[test]
fn a_resharing_is_given_up_before_the_next_epoch_is_signed() {
    let next = Next::new(&[1, 3]);
    let silent = Duration::from_millis(500);
    let end = next.take_part(0, &Bent::straight(&next.store), 1, silent);
    assert!(matches!(end, Err(Error::Silent { .. })), "{end:?}");
    let (person, plan) = (&next.persons[0], Plan::new(next.proposal.clone()).unwrap());
    let run = Reshare {
        plan: &plan,
        identity: &person.identity,
        public: &next.public,
        users: &next.users,
        folder: &person.folder.join("next"),
        passphrase: None,
        patience: silent,
        log: &|_| (),
    };
    run.give_up(person.old(&person.keys())).unwrap();
    person.old(&person.keys()).unwrap().ledger.check_in_use().unwrap();
    assert!(matches!(next.take_part(0, &Bent::straight(&next.store), 1, silent), Err(Error::RunOver)));
    let memory = std::fs::read(person.folder.join("next/reshare.memory")).unwrap();
    assert_eq!(memory[42..74], [0; 32], "the seed");

    // Nobody hears that the next members have their keys.
    let next = Next::new(&[1, 3]);
    let withheld = |entry: Entry| (entry.slot.round != Round::Stored).then_some(entry);
    let bent = Bent { reads: Some(&withheld), ..Bent::straight(&next.store) };
    let ends = next.run(Some((0, bent)), Duration::from_secs(5));
    assert!(matches!(ends[0], Err(Error::Silent { .. })), "{:?}", ends[0]);
    let person = &next.persons[0];
    let plan = Plan::new(next.proposal.clone()).unwrap();
    let run = Reshare { plan: &plan, identity: &person.identity, folder: &person.folder.join("next"), ..run };
    let old = person.old(&person.keys()).unwrap();
    let refused = old.ledger.check_in_use();
    assert!(matches!(refused, Err(serve::Error::HandedOn { ended: true })), "{refused:?}");
    assert!(matches!(run.give_up(Some(old)), Err(Error::HandedOver)));
    next.take_part(0, &Bent::straight(&next.store), 1, PATIENT).unwrap();
    assert!(!person.keys().exists());
}

/// A board shows a dealer no deals of others, and the next members test what they got. The dealer gives the
/// run up, and what others have opened in it counts. The control, a dealer that no deal has left, counts
/// nothing.
#[test]
fn attack_tests_that_a_dealer_does_not_see_count() {
    let short = Duration::from_secs(8);
    for (hidden, opens, counted) in [(Round::Deal, true, decisions_of_a_test()), (Round::Pair, false, 0)] {
        let next = Next::new(&[1, 3]);
        let withheld = |entry: Entry| (entry.slot.round != hidden).then_some(entry);
        let bent = Bent { reads: Some(&withheld), ..Bent::straight(&next.store) };
        let ends = next.run(Some((0, bent)), short);
        assert!(matches!(ends[0], Err(Error::Silent { .. })), "{:?}", ends[0]);
        let tests = next.store.entries(Round::Test, Duration::ZERO).unwrap();
        assert_eq!(tests.len(), if opens { 2 } else { 0 });
        let (person, plan) = (&next.persons[0], Plan::new(next.proposal.clone()).unwrap());
        let run = Reshare {
            plan: &plan,
            identity: &person.identity,
            public: &next.public,
            users: &next.users,
            folder: &person.folder.join("next"),
            passphrase: None,
            patience: short,
            log: &|_| (),
        };
        run.give_up(person.old(&person.keys())).unwrap();
        assert_eq!(person.old(&person.keys()).unwrap().ledger.tell().unwrap().spent.decisions, counted);
    }
}

/// A dealer sends bytes that are no message, in each round in which it sends any: errors for all, and no
/// panic. After bad pair keys and signatures of the next epoch's manifest, old shares are used again.
/// What is not stopped is the last case: a dealer that does not sign the next epoch, once the others have,
/// leaves neither old members who answer nor next ones. New keys are due then.
#[test]
fn bad_bytes_of_a_dealer_end_a_resharing_and_the_last_ones_both_epochs() {
    for (round, goes_on) in [(Round::Pair, true), (Round::Confirm, true), (Round::Handover, false)] {
        for length in [0, 7, 64] {
            if !goes_on && length == 7 {
                continue;
            }
            let next = Next::new(&[1, 3]);
            let (at, session) = (next.at_old(3), next.proposal.session());
            let send =
                |slot: Slot, body: &[u8]| (slot.round == round).then(|| vec![0xff; length.min(body.len())]);
            let send: Sends = &send;
            let sends = Some((&next.persons[at].identity.signing, &session, send));
            let bent = Bent { sends, ..Bent::straight(&next.store) };
            let ends = next.run(Some((at, bent)), Duration::from_secs(20));
            assert!(ends.iter().all(Result::is_err), "{round}, {length} bytes: {ends:?}");
            for at in 0..ends.len() {
                assert!(!next.file(at, "member.keys").exists(), "{round}: person {at} has keys");
            }
            let honest = &next.persons[next.at_old(1)];
            let used = honest.old(&honest.keys()).unwrap().ledger.check_in_use();
            assert_eq!(used.is_ok(), goes_on, "{round}, {length} bytes: {used:?}");
        }
    }
}

/// What the old members have answered is not answered in the next epoch: neither tasks before the last one,
/// nor another ciphertext for the last one, nor evaluations, nor the requests of users; and what they have
/// opened counts.
#[test]
fn attack_nothing_is_opened_again_in_the_next_epoch() {
    let next = Next::new(&[1, 3]);
    let question = |task: u64, attempt: u32| {
        let wanted = Wanted::Transfer(TaskKind::Sum);
        Question { bandit: "b".into(), task, attempt, wanted }
    };
    let evaluation = |task: u64, attempt: u32| {
        let user = wire::AnswerUser { round: 1, users: vec![0, 1], answer_key: Vec::new() };
        let wanted = Wanted::Answers { model_feedbacks: 0, users: vec![user] };
        Question { bandit: "b".into(), task: 1 << 63 | task, attempt, wanted }
    };
    let model = |bandit: &str, attempt: u32| {
        let wanted = Wanted::Transfer(TaskKind::Model);
        Question { bandit: bandit.into(), task: 1, attempt, wanted }
    };
    let note = |ledger: &Ledger, question: &Question, set: u16, c1: &[u8]| {
        let decisions = match &question.wanted {
            Wanted::Answers { users, .. } => users.iter().map(|user| user.users.len() as u64).sum(),
            _ => 0,
        };
        ledger.note(question, (set, decisions), &question.to_bytes(), c1)
    };
    let of = |member: u8| {
        let person = &next.persons[next.at_old(member)];
        ledger_at(&person.keys().with_extension("ledger"))
    };
    // Member 1 has seen more than member 3.
    let (first, third) = (of(1), of(3));
    for task in 1..=3 {
        note(&first, &question(task, 0), 0b011, &[task as u8]).unwrap();
    }
    note(&third, &question(1, 0), 0b101, &[1]).unwrap();
    note(&first, &model("m", 0), 0b101, &[1]).unwrap();
    note(&third, &model("m", 0), 0b101, &[1]).unwrap();
    note(&third, &evaluation(7, 0), 0b101, b"e").unwrap();
    third.note_uploads(1 << 63 | 7, &[[9; 32]]).unwrap();
    first.note_head("b", 5, [5; 32], &[]).unwrap();
    drop((first, third));
    next.run(None, PATIENT).into_iter().for_each(|end| drop(end.unwrap()));
    // The old shares answer nothing any more.
    let old = note(&of(1), &question(4, 0), 0b011, &[4]);
    assert!(matches!(old, Err(serve::Error::HandedOn { ended: true })), "{old:?}");
    for at in 0..next.persons.len() {
        let Ok(ledger) = Ledger::open(&next.file(at, "member.ledger")) else { panic!("person {at}") };
        let refused = |done: Result<(), serve::Error>| assert!(done.is_err(), "person {at}");
        refused(note(&ledger, &question(1, 8), 0b011, &[1]));
        refused(note(&ledger, &question(2, 8), 0b011, &[2]));
        refused(note(&ledger, &question(3, 8), 0b011, &[4]));
        refused(note(&ledger, &evaluation(7, 8), 0b011, b"e"));
        refused(ledger.note_uploads(1 << 63 | 8, &[[9; 32]]));
        // The controls: the task that waits, the next one, and another evaluation.
        note(&ledger, &question(3, 8), 0b011, &[3]).unwrap();
        note(&ledger, &question(4, 8), 0b011, &[4]).unwrap();
        ledger.note_uploads(1 << 63 | 8, &[[8; 32]]).unwrap();
        assert_eq!(ledger.head("b").unwrap(), Some((5, [5; 32])));
        // Member 3 has opened two decisions, and member 2, which is lost, perhaps as many as it may. Those
        // that the test of the shares counts as come on top.
        let lost = budget_of_a_member(OPENED_NATS, Shape::for_problem(2, 2), (2, 3), 3);
        let decisions = (lost.decisions + 2).div_ceil(2) + decisions_of_a_test() + 2;
        // Members 1 and 3 have refreshed a model each.
        let models = (lost.models + 1).div_ceil(2) + 1;
        let ledger = ledger.with_budget(Budget { decisions, models });
        note(&ledger, &evaluation(8, 8), 0b011, b"f").unwrap();
        refused(note(&ledger, &evaluation(9, 8), 0b011, b"g"));
        note(&ledger, &model("n", 8), 0b011, &[5]).unwrap();
        note(&ledger, &model("n", 9), 0b101, &[5]).unwrap();
        refused(note(&ledger, &model("o", 8), 0b011, &[6]));
    }
}

/// A bandit goes on over two epochs: one member is replaced, then the numbers change. The server keeps its
/// state, and a device that joined in the first epoch goes on by itself. Old members, old shares and old
/// bundles are refused.
#[test]
fn a_bandit_goes_on_over_epochs() {
    let mut world = World::start(2, 3, 2, 2);
    world.replays = true;
    (1..=3).for_each(|member| world.join(member));
    let (config, device) = world.create(2, 2);
    let (mut twin, mut draws) = (ClearTwin::new(config.clone()), rng(3));
    let mut play = |world: &World, rounds: std::ops::Range<u32>| {
        for round in rounds {
            world.play((&config, &device), &mut twin, round, &mut draws);
        }
    };
    play(&world, 1..4);
    (1..=3).for_each(|member| world.leave(member));
    let (first_public, members) = (world.public.clone(), std::mem::take(&mut world.members));
    let replaced = committee::keys(2, 3, 2, 2, true).members.remove(1);
    let mut handed_on: Vec<MemberKeys> = members.into_values().collect();
    for (dealers, next, threshold) in
        [(&[1, 3][..], &[1, 0, 3][..], 2), (&[2, 3][..], &[3, 0, 2, 0, 0][..], 3)]
    {
        let next = Next::of(handed_on, &world.public, &world.users, dealers, next, threshold);
        for person in &next.persons {
            // The ledgers that the members had.
            if let Some(member) = person.old {
                let at = person.keys().with_extension("ledger");
                std::fs::copy(world.ledger(member), at).unwrap();
            }
        }
        next.run(None, PATIENT).into_iter().for_each(|end| drop(end.unwrap()));
        let (keys, public, users) = next.made();
        for (at, card) in next.proposal.members.iter().enumerate() {
            let person = next.persons.iter().position(|person| person.identity.card() == *card).unwrap();
            std::fs::copy(next.file(person, "member.ledger"), world.ledger(at as u8 + 1)).unwrap();
        }
        world.users = users;
        world.restart(public);
        world.members = keys.into_iter().map(|keys| (keys.member(), keys)).collect();
        let all: Vec<u8> = world.members.keys().copied().collect();
        all.iter().for_each(|member| world.join(*member));
        let start = 4 * u32::from(threshold);
        play(&world, start..start + 3);
        all.iter().for_each(|member| world.leave(*member));
        handed_on = std::mem::take(&mut world.members).into_values().collect();
    }

    // A member of an epoch that is over gets no question, its answers are refused, and it ends.
    let error = world.client.question(2, borrowed(&poll(&replaced)), 1 << 20, 0).unwrap_err();
    assert!(matches!(error, user_client::Error::Refused(problem) if problem.status == 401));
    let ledger = ledger_at(&world.folder.path().join("of-nobody"));
    let member = Member::new(replaced, ledger, world.client.clone(), Stop::default(), |_| ());
    let ended = member.run(1, &mut rng(1));
    assert!(matches!(ended, Err(serve::Error::Epoch { got: 2, own: 0 })), "{ended:?}");
    // The state of the server has seen the last epoch.
    let state = world.folder.path().join("state");
    drop(world.server.take());
    let bundle = PublicBundle::read(&first_public[..]).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let refused = helba_server::AppState::open(bundle, &state, Default::default()).err().unwrap();
    assert!(refused.to_string().contains("epoch 0"), "{refused}");
}

/// A bandit moves to the keys of another committee, which then hands its shares on. Members of the epoch
/// after that, who compute everything again from the first record of the journal, take what members signed of
/// these keys in the epoch before.
#[test]
#[ignore = "some minutes: a rotation and a resharing"]
fn a_bandit_that_has_moved_goes_on_over_an_epoch() {
    let mut world = World::start(2, 3, 2, 2);
    world.replays = true;
    (1..=2).for_each(|member| world.join(member));
    let (config, device) = world.create(2, 2);
    let (mut twin, mut draws) = (ClearTwin::new(config.clone()), rng(3));
    (1..4).for_each(|round| world.play((&config, &device), &mut twin, round, &mut draws));
    let id = device.created().id.clone();
    world.settle(&device);
    (1..=2).for_each(|member| world.leave(member));
    let old = PublicBundle::read(&world.public[..]).unwrap().manifest;
    let (keys, folder) = (committee::keys_after(&old), world.folder.path().join("rotated"));
    assert_eq!(world.rotate(&keys, &folder), 1);
    world.go_on(keys, &folder);

    let members = std::mem::take(&mut world.members).into_values().collect();
    let next = Next::of(members, &world.public, &world.users, &[1, 3], &[1, 0, 3], 2);
    next.run(None, PATIENT).into_iter().for_each(|end| drop(end.unwrap()));
    let (keys, public, users) = next.made();
    let digests = [&world.public, &public].map(|p| PublicBundle::read(&p[..]).unwrap().manifest);
    assert_ne!(digests[0].signed_digest(), digests[1].signed_digest());
    assert_eq!(digests[0].rotation_digest(), digests[1].rotation_digest());
    world.users = users;
    world.restart(public);
    world.members = keys.into_iter().map(|keys| (keys.member(), keys)).collect();
    (1..=3).for_each(|member| world.join(member));
    let device = world.device.clone().join_shared(&world.client.encrypted(&id).unwrap().created).unwrap();
    (8..10).for_each(|round| world.play((&config, &device), &mut twin, round, &mut draws));
}

/// A question of one epoch is none of another, so that shares of two epochs never belong to one request.
#[test]
fn attack_a_question_of_another_epoch_is_refused() {
    let keys = committee::keys(2, 3, 2, 2, true).members.remove(0);
    let world = World::start(2, 3, 2, 2);
    let (_, device) = world.create(2, 2);
    let created: Created = device.created().clone();
    let joined = serve::Joined::new(&keys, created.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger_at(&folder.path().join("ledger"));
    let small = keys.scores().params();
    let zero = rns::Poly::zero(small.n(), small.max_level() + 1);
    let id = created.scores_key_id.parse().unwrap();
    let c1 = ckks::write_polynomial(small, id, small.max_level(), &zero);
    let evidence = wire::Evidence { uploads: vec![(1, Vec::new())], ..wire::Evidence::default() };
    let ask = |attempt: u32| {
        let wanted = Wanted::Transfer(TaskKind::Scores { factor: 1.0, alone: true });
        let question = Question { bandit: created.id.clone(), task: 1 << 63, attempt, wanted };
        let request = wire::MemberRequest {
            number: 1,
            set: 0b011,
            question: question.to_bytes(),
            c1: c1.clone(),
            evidence: evidence.to_bytes(),
        };
        serve::answer(&keys, &ledger, &joined, &request)
    };
    assert!(matches!(ask(wire::MOST_ATTEMPTS), Err(serve::Error::Refused(_))));
    ask(wire::MOST_ATTEMPTS - 1).unwrap();
}
