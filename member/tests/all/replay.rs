use crate::committee::rng;
use crate::inputs::Small;
use crate::rounds::{Over, World, borrowed, ledger_at, poll, rows};
use helba_member::MemberKeys;
use helba_member::serve::{Error, Joined, Ledger, Replica, answer};
use protocol::TaskKind;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::ClearTwin;
use user_client::BanditDevice;
use wire::{CommitteeContexts, Custody, Evidence, Journal, MemberRequest, Question, SignedHead, Wanted};

/// Members who compute everything again answer an honest server, also those who come back and follow the
/// journal from its beginning, and users share evaluations.
#[test]
fn members_answer_what_they_compute_again() {
    let mut world = World::start(2, 3, 2, 2);
    world.replays = true;
    (1..=2).for_each(|member| world.join(member));
    let (config, device) = world.create(2, 2);
    let (mut twin, mut draws) = (ClearTwin::new(config.clone()), rng(3));
    for round in 1..=8 {
        if round == 5 {
            world.leave(2);
            world.join(3);
        }
        world.play((&config, &device), &mut twin, round, &mut draws);
    }
    assert!(world.settle(&device).refreshes > 3);
    let most = std::thread::scope(|scope| {
        let ask = |user: u32| {
            let (device, client) = (&device, &world.client);
            scope.spawn(move || {
                device.decide(client, &rows(user, 2, 2), &mut rng(user.into())).unwrap().choice
            })
        };
        let asked: Vec<_> = (0..8).map(ask).collect();
        asked.into_iter().map(|thread| thread.join().unwrap().users).max().unwrap()
    });
    assert!(most > 1, "{most} users in the largest evaluation");
    // Members have signed heads of one journal.
    let view = world.client.encrypted(&device.created().id).unwrap();
    assert!(view.heads.len() > 1, "{} heads", view.heads.len());
    assert_eq!(wire::forks(&committee(&world.client.keys().unwrap()), &view.heads), []);
}

fn committee(manifest: &wire::Manifest) -> wire::CommitteeManifest {
    let Custody::Committee(committee) = &manifest.custody else { panic!("no committee") };
    committee.clone()
}

/// What a server answers that has these records.
fn journal_after(records: &[Vec<u8>], after: u64, heads: &[SignedHead]) -> Journal {
    Journal { records: records[after as usize..].to_vec(), heads: heads.to_vec() }
}

/// A server with member 1 as the test plays it, member 2, and what member 1 was asked in three rounds.
struct Asked {
    world: World,
    device: BanditDevice<'static>,
    keys: MemberKeys,
    requests: Vec<MemberRequest>,
}

fn asked() -> Asked {
    let mut world = World::start(2, 3, 2, 2);
    world.replays = true;
    let (_, device) = world.create(2, 2);
    let keys = world.members.remove(&1).unwrap();
    world.join(2);
    let over = AtomicBool::new(false);
    let requests = std::thread::scope(|scope| {
        let answers = scope.spawn(|| {
            let ledger = ledger_at(&world.folder.path().join("ledger-1"));
            let (replica, joined) =
                (world.replica(&keys), Joined::new(&keys, device.created().clone()).unwrap());
            let (client, mut requests) = (&world.client, Vec::new());
            while !over.load(Ordering::Relaxed) {
                let Some(request) = client.question(1, borrowed(&poll(&keys)), 1 << 22, 1).unwrap() else {
                    continue;
                };
                let journal = |id: &str, after, head: Option<&_>| Ok(client.journal(id, after, head)?);
                replica.check(&keys, &ledger, &joined, &request, &journal).unwrap();
                client.shares(1, &answer(&keys, &ledger, &joined, &request).unwrap()).unwrap();
                requests.push(request);
            }
            requests
        });
        let ends = Over(&over);
        let mut draws = rng(3);
        for round in 1..=3 {
            let rows = rows(round, 2, 2);
            let reply = device.decide(&world.client, &rows, &mut draws).unwrap().choice;
            world.feedback(&device, &reply, &rows[reply.arm], 0.5);
            world.settle(&device);
        }
        drop(ends);
        answers.join().unwrap()
    });
    Asked { world, device, keys, requests }
}

impl Asked {
    fn last(&self, wants: impl Fn(&Wanted) -> bool) -> (MemberRequest, Question) {
        let question = |request: &MemberRequest| Question::from_bytes(&request.question).unwrap();
        let request = self.requests.iter().rfind(|request| wants(&question(request).wanted)).unwrap();
        (request.clone(), question(request))
    }

    fn check(&self, replica: &Replica, ledger: &Ledger, request: &MemberRequest) -> Result<(), Error> {
        let joined = Joined::new(&self.keys, self.device.created().clone()).unwrap();
        let journal = |id: &str, after, head: Option<&_>| Ok(self.world.client.journal(id, after, head)?);
        replica.check(&self.keys, ledger, &joined, request, &journal)
    }

    fn ledger(&self, name: &str) -> Ledger {
        ledger_at(&self.world.folder.path().join(name))
    }

    /// What a member does that checks the structure of questions alone.
    fn structure(&self, name: &str, request: &MemberRequest) -> bool {
        let joined = Joined::new(&self.keys, self.device.created().clone()).unwrap();
        answer(&self.keys, &self.ledger(name), &joined, request).is_ok()
    }
}

fn deviates(done: Result<(), Error>) -> &'static str {
    match done {
        Err(Error::Deviates(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// A server asks a member for shares of what no user and no evaluation led to. The control, a member that
/// checks the structure of questions alone, answers each of them.
#[test]
fn attack_a_foreign_ciphertext_is_not_answered() {
    let asked = asked();
    let (replica, ledger) = (asked.world.replica(&asked.keys), asked.ledger("replaying"));
    let (raise, scores) = asked.last(|wanted| matches!(wanted, Wanted::Transfer(TaskKind::Scores { .. })));
    let (opening, answers) = asked.last(|wanted| matches!(wanted, Wanted::Answers { .. }));
    asked.check(&replica, &ledger, &raise).unwrap();
    asked.check(&replica, &ledger, &opening).unwrap();
    let small = protocol::ScoreRing::for_shape(asked.keys.manifest().shape, true).unwrap().params;
    let (small, id) = (small.validate().unwrap(), asked.keys.manifest().scores.key_id.parse().unwrap());
    let top = small.max_level();
    let sent = Evidence::from_bytes(&raise.evidence).unwrap();
    let of_opening = Evidence::from_bytes(&opening.evidence).unwrap();
    let user = CommitteeContexts::read(&sent.uploads[0].1, 1 << 22).unwrap();
    let scale = f64::from(protocol::LOG_CONTEXT).exp2();
    let contexts = ckks::read_proven_ciphertext(&small, id, scale, small.n(), &user.contexts).unwrap();
    let raw = ckks::write_polynomial(&small, id, top, contexts.ciphertext(&small).c1());
    let with_users = |change: &dyn Fn(&mut Evidence)| {
        let mut changed = of_opening.clone();
        change(&mut changed);
        changed.to_bytes()
    };
    let Wanted::Answers { model_feedbacks, users } = answers.wanted.clone() else { panic!() };
    let stranger = {
        let mut users = users.clone();
        users[0].answer_key = envelope::SealingSecret::generate(&mut rng(5)).public();
        Question { wanted: Wanted::Answers { model_feedbacks, users }, ..answers.clone() }.to_bytes()
    };
    let factor = {
        let Wanted::Transfer(TaskKind::Scores { factor, alone }) = scores.wanted else { panic!() };
        let wanted = Wanted::Transfer(TaskKind::Scores { factor: factor / 2.0, alone });
        Question { wanted, ..scores.clone() }.to_bytes()
    };
    let cases = [
        ("the contexts of a user", MemberRequest { c1: raw.clone(), ..raise.clone() }),
        ("another factor", MemberRequest { question: factor, ..raise.clone() }),
        ("no contexts", MemberRequest { evidence: Vec::new(), ..raise.clone() }),
        ("the answer of a stranger", MemberRequest { question: stranger, ..opening.clone() }),
        (
            "contexts twice",
            MemberRequest {
                evidence: with_users(&|e| e.uploads.push(e.uploads[0].clone())),
                ..opening.clone()
            },
        ),
        (
            "contexts of another user",
            MemberRequest {
                evidence: with_users(&|e| {
                    let answer_key = envelope::SealingSecret::generate(&mut rng(6)).public();
                    e.uploads[0].1 = CommitteeContexts { answer_key, ..user.clone() }.to_bytes();
                }),
                ..opening.clone()
            },
        ),
        ("no raise", MemberRequest { evidence: with_users(&|e| e.raise = None), ..opening.clone() }),
        (
            "another model",
            MemberRequest { evidence: with_users(&|e| e.model_feedbacks -= 1), ..opening.clone() },
        ),
    ];
    for (at, (name, request)) in cases.iter().enumerate() {
        println!("{name}: {}", deviates(asked.check(&replica, &ledger, request)));
        // What a raise counts as is read from its evidence, whatever a member checks.
        let is_answered = *name != "no contexts";
        assert_eq!(asked.structure(&format!("structure-{at}"), request), is_answered, "the control: {name}");
    }
    // A raise of another ciphertext in the place of the raised scores.
    let forged = with_users(&|e| {
        if let Some(raise) = &mut e.raise {
            let mut question = Question::from_bytes(&raise.question).unwrap();
            question.attempt += 1;
            raise.question = question.to_bytes();
        }
    });
    deviates(asked.check(&replica, &ledger, &MemberRequest { evidence: forged, ..opening.clone() }));
    // (0, g) in the place of the opened answer.
    let answers = protocol::ScoreRing::for_shape(asked.keys.manifest().shape, true).unwrap();
    let large = protocol::KeyPlan::new(asked.keys.manifest().shape, true).unwrap().params;
    let params = answers.answers(&large).validate().unwrap();
    let g = rns::sample::uniform(params.q_basis(0), &mut rng(7));
    let chosen = MemberRequest { c1: ckks::write_polynomial(&params, id, 0, &g), ..opening };
    deviates(asked.check(&replica, &ledger, &chosen));
    assert!(asked.structure("structure-g", &chosen), "the control");
}

/// A sum that is raised is the one of the feedback in the journal, and a model the one of its batches. A
/// journal without a feedback, with a changed model, or shorter than before is refused, also after a restart.
#[test]
fn attack_a_forked_journal_is_refused() {
    let asked = asked();
    let id = asked.device.created().id.clone();
    let joined = Joined::new(&asked.keys, asked.device.created().clone()).unwrap();
    let (opening, _) = asked.last(|wanted| matches!(wanted, Wanted::Answers { .. }));
    let records = asked.world.records(&id);
    let follow = |ledger: &Ledger, records: &[Vec<u8>], request: &MemberRequest| {
        let journal = |_: &str, after: u64, _: Option<&_>| Ok(journal_after(records, after, &[]));
        asked.world.replica(&asked.keys).check(&asked.keys, ledger, &joined, request, &journal)
    };
    let events: Vec<_> = records.iter().map(|record| helba::Event::from_bytes(record).unwrap()).collect();
    let find = |what: fn(&helba::Event) -> bool| events.iter().position(what).unwrap();
    let (fed, raised) = (
        find(|event| matches!(event, helba::Event::Feedback { .. })),
        find(|event| matches!(event, helba::Event::Raised { .. })),
    );
    follow(&asked.ledger("whole"), &records, &opening).unwrap();
    // A journal whose first feedback is the second one, whose proof is for another round; and one with a
    // feedback that the server makes up: what was raised is not the sum.
    let mut forked = records.clone();
    let second =
        events.iter().skip(fed + 1).position(|e| matches!(e, helba::Event::Feedback { .. })).unwrap();
    let helba::Event::Feedback { round, .. } = &events[fed] else { panic!() };
    let helba::Event::Feedback { frame, .. } = &events[fed + 1 + second] else { panic!() };
    forked[fed] = helba::Event::Feedback { round: *round, frame: frame.clone() }.to_bytes().unwrap();
    let why = deviates(follow(&asked.ledger("forked"), &forked, &opening));
    assert!(why.contains("does not know"), "{why}");
    let made_up = Small::of(&asked.world).shifted(20, 5, &id, *round);
    forked[fed] = helba::Event::Feedback { round: *round, frame: made_up }.to_bytes().unwrap();
    let why = deviates(follow(&asked.ledger("made-up"), &forked, &opening));
    assert!(!why.contains("does not know"), "{why}");
    // A record that is refused leaves nothing behind: a second feedback of a round, which a user of the
    // server's proved, is not what an erasure takes out after it. The control is the erasure of the first.
    let last_round = events.iter().rev().find_map(|event| match event {
        helba::Event::Feedback { round, frame } => Some((*round, frame.clone())),
        _ => None,
    });
    let (of, first) = last_round.unwrap();
    let other = Small::of(&asked.world).shifted(20, 5, &id, of);
    let replica = asked.world.replica(&asked.keys);
    let served = std::cell::RefCell::new(records.clone());
    let journal = |_: &str, after: u64, _: Option<&SignedHead>| {
        Ok(Journal { records: served.borrow()[after as usize..].to_vec(), heads: Vec::new() })
    };
    let ledger = asked.ledger("second");
    let ask = |event: helba::Event| {
        *served.borrow_mut() = [&records[..], &[event.to_bytes().unwrap()]].concat();
        // A question about a model of before follows no journal: one about a task does.
        replica.check(
            &asked.keys,
            &ledger,
            &joined,
            &asked.last(|w| matches!(w, Wanted::Transfer(TaskKind::Sum))).0,
            &journal,
        )
    };
    let why = |done: Result<(), Error>| format!("{:?}", done.unwrap_err());
    let second = why(ask(helba::Event::Feedback { round: of, frame: other.clone() }));
    let erasure = why(ask(helba::Event::Erased { round: of, frame: other }));
    assert!(erasure.contains("erasure of another one"), "{second}; {erasure}");
    let honest = why(ask(helba::Event::Erased { round: of, frame: first }));
    assert!(!honest.contains("erasure of another one"), "the control: {honest}");
    // A sum that is raised before its feedback is checked, and a check that members did not open.
    let checked = find(|event| matches!(event, helba::Event::Checked { .. }));
    let mut forked = records.clone();
    forked.remove(checked);
    println!("{}", deviates(follow(&asked.ledger("unchecked"), &forked, &opening)));
    let (sum, _) = asked.last(|wanted| matches!(wanted, Wanted::Transfer(TaskKind::Sum)));
    let last = events.iter().rposition(|event| matches!(event, helba::Event::Checked { .. })).unwrap();
    follow(&asked.ledger("checked"), &records[..=last], &sum).unwrap();
    println!("{}", deviates(follow(&asked.ledger("before"), &records[..last], &sum)));
    let helba::Event::Checked { task, openings, .. } = &events[checked] else { panic!() };
    let helba::Event::Checked { openings: others, .. } = &events[last] else { panic!() };
    for (name, openings) in [
        ("none", Vec::new()),
        ("others", others.clone()),
        ("twice", {
            let mut opened = wire::OpenedChecks::from_bytes(&openings[0]).unwrap();
            opened.shares[1] = opened.shares[0].clone();
            vec![opened.to_bytes()]
        }),
    ] {
        let mut forked = records.clone();
        let event = helba::Event::Checked { task: *task, dropped: Vec::new(), openings };
        forked[checked] = event.to_bytes().unwrap();
        let refused = follow(&asked.ledger(name), &forked, &opening);
        println!("{name}: {}", deviates(refused));
    }
    // A raised sum that no members made.
    let mut forked = records.clone();
    let helba::Event::Raised { task, .. } = &events[raised] else { panic!() };
    let other = events.iter().rfind(|event| matches!(event, helba::Event::Raised { .. })).unwrap();
    let helba::Event::Raised { frame, .. } = other else { panic!() };
    forked[raised] = helba::Event::Raised { task: *task, frame: frame.clone() }.to_bytes().unwrap();
    println!("{}", deviates(follow(&asked.ledger("raised"), &forked, &opening)));
    // A member that starts again, with its ledger, takes no shorter and no other journal.
    let installed = events.iter().rposition(|event| matches!(event, helba::Event::Refreshed { .. })).unwrap();
    let shorter = &records[..=installed];
    let longer = [&records[..], &[helba::Event::Rounds(1 << 20).to_bytes().unwrap()]].concat();
    follow(&asked.ledger("longer"), &longer, &opening).unwrap();
    println!("{}", deviates(follow(&asked.ledger("longer"), shorter, &opening)));
    let mut other = longer.clone();
    other[0] = helba::Event::Rounds(1 << 21).to_bytes().unwrap();
    let is_rounds = matches!(events[0], helba::Event::Rounds(_));
    assert!(is_rounds, "the first record reserves rounds");
    println!("{}", deviates(follow(&asked.ledger("longer"), &other, &opening)));
    // Nor does it answer the second time, for a model of the journal that it refused, or keep a state of it.
    let states = tempfile::tempdir().unwrap();
    let replica = asked.world.replica(&asked.keys).with_states(states.path().to_path_buf());
    let again = |records: &[Vec<u8>]| {
        let journal = |_: &str, after: u64, _: Option<&_>| Ok(journal_after(records, after, &[]));
        replica.check(&asked.keys, &asked.ledger("longer"), &joined, &opening, &journal)
    };
    for records in [shorter, &other] {
        for _ in 0..2 {
            println!("{}", deviates(again(records)));
        }
        assert_eq!(std::fs::read_dir(states.path()).unwrap().count(), 0);
    }
    again(&longer).unwrap();
    assert_eq!(std::fs::read_dir(states.path()).unwrap().count(), 1);
    again(&longer).unwrap();
    // The control: without what its ledger notes, the member follows either.
    follow(&asked.ledger("fresh"), &other, &opening).unwrap();
}

/// A server shows two members, each with a ledger of its own, two journals. The head that one has signed
/// shows the other that there are two: it keeps both, and answers nothing for the bandit any more. Devices
/// that were shown the heads of both find the same. The control is a member that sees no heads: it follows
/// the other journal and answers.
#[test]
fn attack_members_and_devices_are_not_shown_two_journals() {
    let asked = asked();
    let (id, third) = (asked.device.created().id.clone(), &asked.world.members[&3]);
    let committee = committee(asked.keys.manifest());
    let (opening, _) = asked.last(|wanted| matches!(wanted, Wanted::Answers { .. }));
    let records = asked.world.records(&id);
    let mut forked = records.clone();
    assert!(matches!(helba::Event::from_bytes(&records[0]).unwrap(), helba::Event::Rounds(_)));
    forked[0] = helba::Event::Rounds(1 << 21).to_bytes().unwrap();
    // What a member does that is shown these records and heads, and the last head that it shows.
    let follow = |keys: &MemberKeys, ledger: &Ledger, records: &[Vec<u8>], heads: &[SignedHead]| {
        let (joined, shown) =
            (Joined::new(keys, asked.device.created().clone()).unwrap(), RefCell::new(None::<SignedHead>));
        let journal = |_: &str, after: u64, head: Option<&SignedHead>| {
            shown.replace(head.cloned());
            Ok(journal_after(records, after, heads))
        };
        let checked = asked.world.replica(keys).check(keys, ledger, &joined, &opening, &journal);
        (checked, shown.into_inner())
    };
    let (done, first) = follow(&asked.keys, &asked.ledger("first"), &records, &[]);
    done.unwrap();
    let first = first.unwrap();
    first.check(&committee).unwrap();
    let (done, same) = follow(third, &asked.ledger("same"), &records, std::slice::from_ref(&first));
    done.unwrap();
    assert_eq!(wire::forks(&committee, &[first.clone(), same.clone().unwrap()]), []);
    // The fork.
    let ledger = asked.ledger("forked");
    let (done, _) = follow(third, &ledger, &forked, std::slice::from_ref(&first));
    assert!(matches!(done, Err(Error::Forked { member: 1, .. })), "{done:?}");
    drop(ledger);
    let ledger = asked.ledger("forked");
    let (again, _) = follow(third, &ledger, &forked, &[]);
    assert!(matches!(again, Err(Error::Forked { member: 1, .. })), "{again:?}");
    let joined = Joined::new(third, asked.device.created().clone()).unwrap();
    let set = third.quorum().active(&[1, 3]).unwrap().bits();
    let request = MemberRequest { set, ..opening.clone() };
    assert!(matches!(answer(third, &ledger, &joined, &request), Err(Error::Forked { .. })));
    let kept = wire::forks(&committee, &ledger.heads().unwrap());
    assert!(kept.iter().any(|(a, b)| [a, b].contains(&&first)), "{kept:?}");
    // The control, whose head shows devices what members were not shown.
    let alone = asked.ledger("alone");
    let (done, other) = follow(third, &alone, &forked, &[]);
    done.unwrap();
    answer(third, &alone, &joined, &request).unwrap();
    let other = other.unwrap();
    assert_eq!(wire::forks(&committee, &[first.clone(), other.clone()]).len(), 1);
    assert_eq!(wire::forks(&committee, std::slice::from_ref(&other)), []);
    // A member signs one head of a batch, whatever it is shown later.
    deviates(follow(third, &alone, &records, &[]).0);
    // A head that no member has signed stops nobody, and is no evidence.
    let made_up = SignedHead { hash: other.hash.clone(), ..first.clone() };
    assert!(made_up.check(&committee).is_err());
    assert_eq!(wire::forks(&committee, &[first.clone(), made_up.clone()]), []);
    follow(third, &asked.ledger("made-up-head"), &records, &[made_up]).0.unwrap();

    // The program finds the same in ledgers and in what a device was shown.
    drop((ledger, alone));
    let folder = asked.world.folder.path();
    std::fs::write(folder.join("public.bundle"), &asked.world.public).unwrap();
    let shown = serde_json::json!({ "status": {}, "heads": [&first] });
    std::fs::write(folder.join("shown.json"), shown.to_string()).unwrap();
    let heads = |arguments: &[&str]| {
        let mut command = std::process::Command::new(crate::processes::PROGRAM);
        command.current_dir(folder).args(["heads", "--public", "public.bundle"]).args(arguments);
        let out = command.output().unwrap();
        (out.status.success(), serde_json::from_slice::<Vec<SignedHead>>(&out.stdout).unwrap())
    };
    assert_eq!(heads(&["shown.json"]), (true, vec![first.clone()]));
    assert!(heads(&["--ledger", "same", "shown.json"]).0);
    for arguments in [&["--ledger", "forked"][..], &["--ledger", "alone", "shown.json"]] {
        let (agree, heads) = heads(arguments);
        assert!(!agree && heads.contains(&first) && heads.contains(&other), "{arguments:?}: {heads:?}");
    }
}

/// A member that may keep no feedback until it is checked fetches it again, and answers the same. A server
/// that shows other feedback then is refused. The control keeps all, and fetches nothing twice.
#[test]
fn feedback_that_is_not_kept_is_fetched_again() {
    let asked = asked();
    let id = asked.device.created().id.clone();
    let joined = Joined::new(&asked.keys, asked.device.created().clone()).unwrap();
    let (opening, _) = asked.last(|wanted| matches!(wanted, Wanted::Answers { .. }));
    let records = asked.world.records(&id);
    let check = |name: &str, kept: Option<usize>, again: &dyn Fn(&mut Vec<u8>)| {
        let fetched = RefCell::new(0);
        let journal = |_: &str, after: u64, _: Option<&_>| {
            let mut journal = journal_after(&records, after, &[]);
            if after > 0 && !journal.records.is_empty() {
                *fetched.borrow_mut() += 1;
                again(&mut journal.records[0]);
            }
            Ok(journal)
        };
        let replica = asked.world.replica(&asked.keys);
        let replica = match kept {
            Some(kept) => replica.keeping(kept),
            None => replica,
        };
        let checked = replica.check(&asked.keys, &asked.ledger(name), &joined, &opening, &journal);
        (checked, fetched.into_inner())
    };
    let (done, fetched) = check("none-kept", Some(0), &|_| ());
    done.unwrap();
    assert!(fetched > 0);
    let (done, fetched) = check("all-kept", None, &|_| ());
    done.unwrap();
    assert_eq!(fetched, 0, "the control");
    let other = |record: &mut Vec<u8>| {
        let helba::Event::Feedback { round, mut frame } = helba::Event::from_bytes(record).unwrap() else {
            panic!("a feedback is fetched");
        };
        frame[100] ^= 1;
        *record = helba::Event::Feedback { round, frame }.to_bytes().unwrap();
    };
    let why = deviates(check("other", Some(0), &other).0);
    assert!(why.contains("another feedback"), "{why}");
}

/// A member that is started again goes on from the state after its last batch, and reads no record before it.
/// A file that is damaged, of another bandit, of another journal, or beyond what its ledger has noted is left
/// alone, and the journal is followed from its beginning, as it is by the control, which keeps no states.
#[test]
fn a_member_that_is_started_again_goes_on_from_its_state() {
    let asked = asked();
    let id = asked.device.created().id.clone();
    let joined = Joined::new(&asked.keys, asked.device.created().clone()).unwrap();
    let (opening, _) = asked.last(|wanted| matches!(wanted, Wanted::Answers { .. }));
    let (model, _) = asked.last(|wanted| matches!(wanted, Wanted::Transfer(TaskKind::Model)));
    let mut records = asked.world.records(&id);
    let last = helba::Event::from_bytes(&records.pop().unwrap()).unwrap();
    assert!(matches!(last, helba::Event::Refreshed { .. }), "the question about the model waits");
    let folder = asked.world.folder.path().join("states");
    // How many records are before those that a member reads which has this ledger and, if `keeps`, the states
    // in the folder. `None` if it reads none.
    let begins = |request: &MemberRequest, ledger: &Ledger, keeps: bool| {
        let first = RefCell::new(None);
        let journal = |_: &str, after: u64, _: Option<&_>| {
            first.borrow_mut().get_or_insert(after);
            Ok(journal_after(&records, after, &[]))
        };
        let replica = asked.world.replica(&asked.keys);
        let replica = if keeps { replica.with_states(folder.clone()) } else { replica };
        replica.check(&asked.keys, ledger, &joined, request, &journal).map(|()| first.into_inner())
    };
    let reads = |ledger: &Ledger, keeps: bool| begins(&model, ledger, keeps).map(Option::unwrap);
    let ledger = asked.ledger("goes-on");
    assert_eq!(reads(&ledger, true).unwrap(), 0, "there is no state yet");
    let position = reads(&ledger, true).unwrap();
    assert!(position > 2 && position as usize <= records.len(), "{position} of {}", records.len());
    assert_eq!(reads(&ledger, false).unwrap(), 0, "the control");
    // An evaluation with a model that it has.
    assert_eq!(begins(&opening, &ledger, true).unwrap(), None);
    assert_eq!(begins(&opening, &ledger, false).unwrap(), Some(0), "the control");

    // Its ledger has noted less, nothing, or another journal.
    let another = asked.ledger("another");
    another.note_head(&id, position - 1, [1; 32], &[]).unwrap();
    assert!(deviates(reads(&another, true).map(drop)).contains("another journal"));
    let another = asked.ledger("another-2");
    another.note_head(&id, position, [1; 32], &[]).unwrap();
    assert!(deviates(reads(&another, true).map(drop)).contains("another journal"));
    assert_eq!(reads(&asked.ledger("new"), true).unwrap(), 0);

    let mut files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let (file, None) = (files.next().unwrap(), files.next()) else { panic!("one bandit has one file") };
    let whole = std::fs::read(&file).unwrap();
    for at in [0, 9, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&file, damaged).unwrap();
        assert_eq!(reads(&ledger, true).unwrap(), 0, "byte {at}");
    }
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(reads(&ledger, true).unwrap(), 0);
    // What was left alone is written again.
    assert_eq!(reads(&ledger, true).unwrap(), position);

    // The files of sixteen bandits stay, and the oldest goes first.
    for number in 0..20 {
        std::fs::write(folder.join(number.to_string()), []).unwrap();
    }
    std::fs::write(&file, []).unwrap();
    assert_eq!(reads(&ledger, true).unwrap(), 0);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 16);
    assert_eq!(reads(&ledger, true).unwrap(), position);
}
