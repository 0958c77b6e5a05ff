//! A committee that moves to another one, with its bandits.

use super::counters::Rounds;
use super::play::Twin;
use super::served::{Committee, Lies, Tells, config, honest, play, plays_as, tells};
use super::world::made_up;
use shares::SignedManifest;
use shares::moves::{Handover, Roll, follow};
use shares::talk::{BanditId, Definition, FromMember, ToMember};
use std::time::Duration;
use switchboard::carry;

/// The bandit under its id with the next committee.
fn there(old: &Committee, next: &Committee, bandit: &BanditId) -> BanditId {
    old.board.view(bandit).unwrap().definition.id(&next.manifest.id())
}

/// These members of `old` start again, and leave for `next`.
fn leave(old: &mut Committee, next: &Committee, members: &[u8]) {
    old.next = Some(next.signed());
    members.iter().for_each(|member| old.start(*member));
}

/// The operators take their members back.
fn take_back(old: &mut Committee) {
    old.next = None;
    (1..=old.sharing.threshold().members()).for_each(|member| old.start(member));
    old.run();
}

/// Carries the move on until nothing changes: whether it is over.
fn carried(old: &mut Committee, next: &mut Committee, lies: Lies, tells: Tells) -> bool {
    let manifest = old.signed();
    for _ in 0..24 {
        old.run_with(&mut *lies, &mut *tells);
        next.run_with(&mut *lies, &mut *tells);
        if carry(&mut old.board, &manifest, &mut next.board, next.now).unwrap() {
            next.run();
            next.store();
            return true;
        }
        next.wait();
    }
    false
}

/// Asks for a decision, and waits for a while.
fn asks(committee: &mut Committee, device: &shares::SessionSecret, bandit: &BanditId) -> bool {
    let bytes = committee.request(device, bandit, &[vec![0.5, 0.5], vec![0.1, 0.2]]);
    let ticket = committee.board.ask(bandit, bytes, committee.now).unwrap();
    for _ in 0..3 {
        committee.run();
        committee.wait();
    }
    committee.arm_of(device, ticket, 2).is_some_and(|arm| arm.is_ok())
}

/// A bandit goes on with its model at other members and thresholds as if nothing had happened: the twin's arm
/// before and after. A bandit that has learnt nothing comes too, and so does one that came before. What was
/// moved survives a start of all. Nothing of before is erased afterwards.
#[test]
fn a_committee_moves() {
    for ((t, n), (next_t, next_n)) in [((2, 3), (2, 4)), ((2, 4), (3, 5)), ((3, 5), (2, 3))] {
        let mut old = Committee::new(t, n);
        let config = config(3, 4);
        let mut bandit = old.create(&config, 1);
        let mut device = old.session();
        let empty = Definition { nonce: [9; 16], ..old.board.view(&bandit).unwrap().definition.clone() };
        let mut empty = old.board.create(empty).unwrap();
        let mut twin = Twin::new(config);
        let rounds = made_up(36, 3, 4, 5);
        for (moves, rounds) in rounds.chunks(12).enumerate() {
            if moves > 0 {
                let mut next = Committee::after(&old, next_t, next_n);
                let needed = old.sharing.threshold().needed() as u8;
                let (_, label) = old.decide(&device, &empty, &rounds[0].0);
                old.reward(&device, &empty, &label, 1.0);
                let at = [there(&old, &next, &bandit), there(&old, &next, &empty)];
                leave(&mut old, &next, &(1..=needed).collect::<Vec<u8>>());
                assert!(carried(&mut old, &mut next, &mut honest, &mut tells));
                (1..=next_n).for_each(|member| next.start(member));
                next.restart_server();
                next.run();
                let erased = next.board.erase(&at[1], &label, device.erasure(&label), next.now);
                assert_eq!(erased, Err(switchboard::Error::Decision));
                device = next.session();
                [bandit, empty] = at;
                old = next;
            }
            plays_as(&mut twin, &mut old, (&device, &bandit), rounds);
        }
        assert_eq!(old.board.view(&bandit).unwrap().feedbacks, 36);
        assert_eq!(old.board.view(&empty).unwrap().feedbacks, 0);
        old.decide(&device, &empty, &rounds[0].0);
    }
}

/// A committee moves in the middle of a group: the next one opens it when it is whole, with what both have
/// counted.
#[test]
fn a_group_of_counters_moves() {
    let mut old = Committee::new(2, 3);
    let bandit = old.create_with(&config(2, 2), 1, Some(10));
    let device = old.session();
    let mut counted = Rounds::default();
    counted.play(&mut old, &bandit, &device, 8, &mut honest).unwrap();
    let mut next = Committee::after(&old, 3, 5);
    let there = there(&old, &next, &bandit);
    leave(&mut old, &next, &[1, 2, 3]);
    assert!(carried(&mut old, &mut next, &mut honest, &mut tells));
    assert!(next.board.view(&there).unwrap().opened.is_empty());
    let device = next.session();
    counted.play(&mut next, &there, &device, 4, &mut honest).unwrap();
    assert_eq!(next.board.view(&there).unwrap().opened, counted.sums(2));
}

/// Members who take longer for each step than the server waits at first take a bandit over all the same, and
/// learn.
#[test]
fn a_committee_of_slow_members_moves_and_learns() {
    let (mut old, bandit, _) = Committee::learnt(2, 3);
    let mut next = Committee::after(&old, 2, 4);
    let there = there(&old, &next, &bandit);
    leave(&mut old, &next, &[1, 2, 3]);
    next.slow = next.options.patience * 3;
    assert!(carried(&mut old, &mut next, &mut honest, &mut tells));
    next.slow = Duration::ZERO;
    next.run();
    let device = next.session();
    assert_eq!(play(&mut next, &there, &device, 3), 4);
    let (_, label) = next.decide(&device, &there, &[vec![0.5, 0.5], vec![0.1, 0.2]]);
    next.slow = next.options.patience * 3;
    next.reward(&device, &there, &label, 1.0);
    assert_eq!(next.board.view(&there).unwrap().feedbacks, 8);
}

/// What a device follows: 2t − 1 signatures of the committee that it knows, for each move.
#[test]
fn attack_a_committee_is_said_to_follow() {
    let (mut old, _, _) = Committee::learnt(2, 4);
    let mut next = Committee::after(&old, 2, 3);
    leave(&mut old, &next, &[1, 2, 3]);
    assert!(carried(&mut old, &mut next, &mut honest, &mut tells));
    let (manifest, handover) = next.board.handover().unwrap();
    let moves = |handover: &Handover| vec![(manifest.clone(), handover.clone())];
    let known = old.manifest.id();
    let serving = next.signed();
    assert_eq!(follow(&known, &moves(&handover), &serving), Ok(()));
    assert_eq!(follow(&serving.id(), &[], &serving), Ok(()));
    assert_eq!(follow(&known, &[], &serving), Err(shares::Error::OtherCommittee));
    // Two members and one of them again.
    let mut few = handover.clone();
    few.signatures[2] = few.signatures[0].clone();
    assert_eq!(follow(&known, &moves(&few), &serving), Err(shares::Error::Handover { signed: 2, need: 3 }));
    // The same signatures for another committee, or another roll.
    let other = Committee::after(&old, 3, 5);
    let elsewhere = Handover { to: other.manifest.id(), ..handover.clone() };
    let refused = Err(shares::Error::Handover { signed: 0, need: 3 });
    assert_eq!(follow(&known, &moves(&elsewhere), &other.signed()), refused);
    assert_eq!(follow(&known, &moves(&Handover { roll: [1; 32], ..handover.clone() }), &serving), refused);
    // A manifest that one of its members has not signed.
    let mut unsigned = serving.clone();
    unsigned.signatures[0] = unsigned.signatures[1].clone();
    assert_eq!(follow(&known, &moves(&handover), &unsigned), Err(shares::Error::Unsigned { member: 1 }));
    let mut unsigned: SignedManifest = manifest.clone();
    unsigned.signatures[3] = vec![];
    let refused = Err(shares::Error::Unsigned { member: 4 });
    assert_eq!(follow(&known, &[(unsigned, handover.clone())], &serving), refused);
}

/// Members leave while a batch is due: it is learnt before they deal.
#[test]
fn what_is_due_is_learnt_before_a_move() {
    let (mut old, bandit, device) = Committee::with_bandit(2, 3);
    let mut last = None;
    for (rows, _) in made_up(4, 2, 2, 8) {
        let (_, label) = old.decide(&device, &bandit, &rows);
        if let Some(label) = last.replace(label) {
            old.reward(&device, &bandit, &label, 1.0);
        }
    }
    let mut next = Committee::after(&old, 2, 4);
    let reward = shares::Row::new(&[1.0], &mut old.rng).unwrap();
    let feedback = device.feedback(&last.unwrap(), &old.sharing, &reward, &mut old.rng).unwrap();
    (1..=3).for_each(|member| old.stop(member));
    old.board.feedback(&bandit, feedback.to_bytes(), old.now).unwrap();
    let there = there(&old, &next, &bandit);
    leave(&mut old, &next, &[1, 2, 3]);
    assert!(carried(&mut old, &mut next, &mut honest, &mut tells));
    assert_eq!(next.board.view(&there).unwrap().feedbacks, 4);
}

/// A move is taken back after the next members have taken over, the old ones learn more, and leave again: the
/// next ones take over what they have then.
#[test]
fn a_move_is_taken_back_and_begun_again() {
    let (mut old, bandit, device) = Committee::learnt(2, 3);
    let mut next = Committee::after(&old, 2, 4);
    let there = there(&old, &next, &bandit);
    leave(&mut old, &next, &[1, 2, 3]);
    let mut keep = |_: u8, told: &ToMember| match told {
        ToMember::Leave(_) => vec![],
        told => vec![told.clone()],
    };
    assert!(!carried(&mut old, &mut next, &mut honest, &mut keep));
    assert_eq!(next.board.view(&there).unwrap().feedbacks, 4);
    take_back(&mut old);
    assert_eq!(play(&mut old, &bandit, &device, 4), 8);
    leave(&mut old, &next, &[1, 2, 3]);
    assert!(carried(&mut old, &mut next, &mut honest, &mut tells));
    let device = next.session();
    assert_eq!(play(&mut next, &there, &device, 4), 12);
}

/// With one dealer more than 2t − 1, one that seals what does not open stops nothing. With exactly 2t − 1 it
/// stops the move, and the committee goes on.
#[test]
fn attack_a_dealer_seals_what_does_not_open() {
    for (members, ends) in [(vec![1, 2, 3, 4], true), (vec![1, 2, 3], false)] {
        let (mut old, bandit, device) = Committee::learnt(2, 4);
        let mut next = Committee::after(&old, 2, 4);
        leave(&mut old, &next, &members);
        let secret = old.signing[1];
        let (from, to) = (old.manifest.id(), next.manifest.id());
        // Member 2 seals to new member 1 what it has sealed to another one.
        let mut lies = |member: u8, said: FromMember| match said {
            FromMember::Dealt { bandit, checkpoint, mut dealing } if member == 2 => {
                dealing.sealed[0] = dealing.sealed[1].clone();
                let name = shares::moves::move_name(&from, &to, &checkpoint);
                let signing = envelope::SigningSecret::from_bytes(&secret);
                let signature = signing.sign(shares::moves::DEALT, &dealing.signed(&name)).to_vec();
                dealing.signature = signature;
                vec![FromMember::Dealt { bandit, checkpoint, dealing }]
            }
            said => vec![said],
        };
        // Three new members are enough: so that all depends on dealers, the fourth is away.
        next.stop(4);
        let there = there(&old, &next, &bandit);
        assert_eq!(carried(&mut old, &mut next, &mut lies, &mut tells), ends);
        if ends {
            let device = next.session();
            assert_eq!(play(&mut next, &there, &device, 4), 8);
        } else {
            // The operators take their members back.
            take_back(&mut old);
            assert_eq!(play(&mut old, &bandit, &device, 4), 8);
        }
    }
}

/// Members of the next committee compute nothing before 2t − 1 of the old one have left, and those who have
/// left compute nothing, started again or not. So no bandit goes on in two committees. In the controls the
/// old committee goes on while one of four wants to leave, and the next one with the third signature.
#[test]
fn attack_a_bandit_goes_on_in_two_committees() {
    let (mut old, bandit, device) = Committee::learnt(2, 4);
    let mut next = Committee::after(&old, 2, 3);
    let there = there(&old, &next, &bandit);
    leave(&mut old, &next, &[4]);
    assert_eq!(play(&mut old, &bandit, &device, 4), 8);
    // All is taken over, and nobody is told that it may leave.
    leave(&mut old, &next, &[1, 2, 3]);
    let mut kept = None;
    let mut keep = |_: u8, told: &ToMember| match told {
        ToMember::Leave(roll) => {
            kept = Some(roll.clone());
            vec![]
        }
        told => vec![told.clone()],
    };
    assert!(!carried(&mut old, &mut next, &mut honest, &mut keep));
    let roll: Box<Roll> = kept.unwrap();
    assert_eq!(next.board.view(&there).unwrap().feedbacks, 8);
    let fresh = next.session();
    // The server says that they have left, with the signatures of two of them, and one of them twice.
    let mut signatures = vec![];
    for member in [2, 3] {
        let leaver = old.members[member - 1].as_mut().unwrap();
        match &leaver.take(ToMember::Leave(roll.clone()))[..] {
            [FromMember::Left { signature, .. }] => signatures.push((member as u8, signature.clone())),
            _ => panic!("no signature"),
        }
        assert!(leaver.has_left());
    }
    signatures.push((1, signatures[1].1.clone()));
    let arrived = ToMember::Arrived(Box::new(old.signed()), roll.clone(), signatures);
    for member in next.members.iter_mut().flatten() {
        let answers = member.take(arrived.clone());
        assert!(matches!(&answers[..], [FromMember::Refused { .. }]), "{}", member.number());
    }
    assert!(!asks(&mut next, &fresh, &there), "the old committee has not left");
    // Those who have left say it again, and nothing else; with others two are here, which are not enough.
    old.next = None;
    (1..=4).for_each(|member| old.start(member));
    let leaver = old.members[1].as_mut().unwrap();
    assert!(leaver.has_left());
    assert!(leaver.take(ToMember::Remember { bandit, nonce: [0; 32] }).is_empty());
    assert!(matches!(&leaver.take(ToMember::Begin)[..], [FromMember::Left { .. }]));
    assert!(!asks(&mut old, &device, &bandit));
    leave(&mut old, &next, &[1]);
    assert!(carried(&mut old, &mut next, &mut honest, &mut tells));
    assert!(asks(&mut next, &fresh, &there));
}

/// A committee moves on before the one before it has left: else the third would decide while the first one
/// does. Its members neither deal nor leave. In the control the first has left.
#[test]
fn attack_a_committee_moves_on_that_has_not_arrived() {
    let (mut old, bandit, _) = Committee::learnt(2, 3);
    let mut next = Committee::after(&old, 2, 3);
    let there = there(&old, &next, &bandit);
    leave(&mut old, &next, &[1, 2, 3]);
    let mut stay = |_: u8, told: &ToMember| match told {
        ToMember::Leave(_) => vec![],
        told => vec![told.clone()],
    };
    assert!(!carried(&mut old, &mut next, &mut honest, &mut stay));
    let mut third = Committee::after(&next, 2, 3);
    leave(&mut next, &third, &[1, 2, 3]);
    next.run();
    let Some(ToMember::Checkpoint(taken, ..)) = next.told.clone() else { panic!("no checkpoint") };
    let (from, to) = (next.manifest.id(), third.manifest.id());
    let roll = Box::new(Roll { from, to, bandits: vec![(there, taken.hash())] });
    for member in next.members.iter_mut().flatten() {
        let deal = ToMember::Deal { bandit: there, checkpoint: taken.hash() };
        for told in [deal, ToMember::Leave(roll.clone())] {
            assert!(matches!(&member.take(told)[..], [FromMember::Refused { .. }]));
        }
    }
    // Their operators take them back, and the first committee leaves.
    take_back(&mut next);
    old.next = Some(next.signed());
    (1..=3).for_each(|member| old.start(member));
    assert!(carried(&mut old, &mut next, &mut honest, &mut tells));
    leave(&mut next, &third, &[1, 2, 3]);
    assert!(carried(&mut next, &mut third, &mut honest, &mut tells));
}

/// A roll without the last checkpoint of a bandit is refused by who knows a later one, or has committed to
/// one: else the next committee would begin with a model that lacks feedback. The server begins a bandit of
/// the old committee anew at the next one: refused too.
#[test]
fn attack_a_move_goes_back() {
    let (mut old, bandit, device) = Committee::learnt(2, 3);
    let Some(ToMember::Checkpoint(before, ..)) = old.told.clone() else { panic!("no checkpoint") };
    // Members commit to the next checkpoint, and are not told that it is one.
    let mut keep = |_: u8, told: &ToMember| match told {
        ToMember::Checkpoint(..) => vec![],
        told => vec![told.clone()],
    };
    for (rows, _) in made_up(4, 2, 2, 8) {
        let (_, label) = old.decide(&device, &bandit, &rows);
        old.tell(&device, &bandit, &label, 1.0);
        old.run_with(&mut honest, &mut keep);
    }
    assert_eq!(old.board.view(&bandit).unwrap().feedbacks, 8);
    let mut next = Committee::after(&old, 2, 3);
    let (from, to) = (old.manifest.id(), next.manifest.id());
    let roll = Box::new(Roll { from, to, bandits: vec![(bandit, before.hash())] });
    old.next = Some(next.signed());
    for member in 1..=3 {
        old.start(member);
    }
    // Nobody brings them what they have committed to: they know the checkpoint before.
    let mut first = |_: u8, told: &ToMember| match told {
        ToMember::Checkpoint(checkpoint, ..) if checkpoint.number == 2 => vec![],
        told => vec![told.clone()],
    };
    old.run_with(&mut honest, &mut first);
    let refused = |old: &mut Committee| {
        for member in old.members.iter_mut().flatten() {
            let said = member.take(ToMember::Leave(roll.clone()));
            assert!(matches!(&said[..], [FromMember::Refused { .. }]), "{}", member.number());
            assert!(!member.has_left());
        }
    };
    refused(&mut old);
    (1..=3).for_each(|member| old.start(member));
    old.run();
    refused(&mut old);
    let definition = old.board.view(&bandit).unwrap().definition.clone();
    let at = next.board.create(definition.clone()).unwrap();
    let fresh = next.session();
    assert!(!asks(&mut next, &fresh, &at));
    // A committee that follows none refuses it at once.
    let mut stranger = Committee::new(2, 3);
    let foreign = Definition { founder: [5; 32], ..definition };
    let said = stranger.members[0].as_mut().unwrap().take(ToMember::Bandit(foreign));
    assert!(matches!(&said[..], [FromMember::Refused { .. }]));
    // The control: with the last checkpoint the committee moves.
    assert!(carried(&mut old, &mut next, &mut honest, &mut tells));
    assert_eq!(next.board.view(&at).unwrap().feedbacks, 8);
}
