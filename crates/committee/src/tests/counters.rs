//! Counters of arms: what they are, and what members open of them, when.

use super::circuits::{counted_update, field, row, sharing};
use super::hostile::{Played, Server, message_of, one_more, opened, round};
use super::served::{Committee, Lies, config, honest, tells};
use super::world::{self, made_up, reward, rng};
use crate::decide::{Inputs, decide};
use crate::learn::{Feedback, State, initial, learn};
use crate::scalars::{Decide, Learn};
use crate::{Clear, walk};
use bandit::{LinearConfig, Schedule};
use rand::Rng;
use shares::talk::{
    Added, BanditId, Counted, Definition, FromMember, Learnt, Prepare, Purpose, RunId, ToMember, Update,
};
use shares::{DecisionState, Field, Row, SessionSecret, Tree};
use std::collections::BTreeMap;

/// Rounds that were played: the decision, its arm, and the reward in units of 2⁻¹⁶.
#[derive(Default)]
pub(super) struct Rounds(Vec<([u8; 32], usize, i64)>);

impl Rounds {
    /// Plays rounds with rewards between −1 and 1. None if a decision does not come.
    pub(super) fn play(
        &mut self,
        committee: &mut Committee,
        bandit: &BanditId,
        device: &SessionSecret,
        rounds: usize,
        lies: Lies,
    ) -> Option<()> {
        for (rows, best) in made_up(rounds, 2, 2, 7 + self.0.len() as u64) {
            let request = committee.request(device, bandit, &rows);
            let ticket = committee.board.ask(bandit, request, committee.now).unwrap();
            committee.run_with(&mut *lies, &mut tells);
            let (arm, label) = committee.arm_of(device, ticket, 2)?.ok()?;
            let reward =
                (if arm == best { 1 } else { -1 }) * (65_536 - (self.0.len() as i64 * 4099) % 50_000);
            committee.tell(device, bandit, &label, reward as f64 / 65_536.0);
            committee.run_with(&mut *lies, &mut tells);
            self.0.push((label, arm, reward));
        }
        Some(())
    }

    /// The counters of all rounds.
    pub(super) fn sums(&self, arms: usize) -> Vec<Counted> {
        let of = |arm: usize| {
            let played = self.0.iter().filter(|(_, of, _)| *of == arm).map(|(.., reward)| *reward);
            Counted { pulls: played.clone().count() as i64, rewards: played.sum() }
        };
        (0..arms).map(of).collect()
    }
}

/// A feedback: its features, its arm, its reward in units of 2⁻¹⁶, and whether it goes.
type Of = ([f64; 2], usize, i64, bool);

/// Learns on the numbers themselves: the record of the state, and what was opened.
fn learns(learned: &Learn, arms: usize, state: &State<Field>, batch: &[Of]) -> (Vec<Field>, Vec<i128>) {
    let feedback = |(x, arm, r, erased): &Of| {
        let one = (0..arms).map(|of| field((of == *arm).into()));
        let squares = reward(*r as f64 / 65_536.0, 1);
        Feedback {
            row: row(x, 1)[..2].iter().map(|x| field((*x).into())).chain(one).collect(),
            reward: field((*r).into()),
            squares: (!erased).then(|| [1, 2, 3].map(|at| field(squares[at].into()))),
        }
    };
    let mut clear = Clear::new(3, 1);
    let batch = batch.iter().map(feedback).collect();
    let shown = walk(learn(&mut clear, learned, state.clone(), batch)).unwrap();
    (clear.record, shown.iter().map(|x| x.signed()).collect())
}

/// With batches of any size and erasures, also of feedback that was opened: pulls and sums of rewards are
/// equal to integers, all other numbers are those without counters, what is opened are the counters before
/// the update, and an update has no further round.
#[test]
fn counters_are_sums_of_integers() {
    for arms in [2, 4] {
        let (config, sharing) = (world::config(2, arms), sharing((2, 3)));
        let mut rng = rng(arms as u64);
        let mut draw = |most: u32| rng.next_u32() % most;
        let mut feedback = || {
            let x = [f64::from(draw(1000)) / 1500.0, f64::from(draw(1000)) / -1500.0];
            (x, draw(arms as u32) as usize, i64::from(draw(131_073)) - 65_536, false)
        };
        let start = Learn::new(&config, &sharing, (0, 0), (0, 0)).unwrap();
        let mut states = [0, arms].map(|of| initial(&start.clone().counting(of, false)));
        let (mut before, mut there): ((u64, u64), Vec<Of>) = ((0, 0), vec![]);
        for (come, go, opens) in [(5, 0, false), (1, 1, true), (4, 3, false), (0, 2, true), (0, 0, true)] {
            let gone: Vec<Of> = there.drain(..go).map(|(x, arm, r, _)| (x, arm, r, true)).collect();
            let come: Vec<Of> = (0..come).map(|_| feedback()).collect();
            there.extend(&come);
            let batch = [&come[..], &gone[..]].concat();
            let of = Learn::new(&config, &sharing, before, (come.len() as u64, go as u64)).unwrap();
            let known: Vec<i128> = states[1].counters.iter().map(|x| x.signed()).collect();
            let with = of.clone().counting(arms, opens);
            let (record, shown) = learns(&with, arms, &states[1], &batch);
            assert_eq!(shown, if opens { known } else { vec![] });
            let (without, _) = learns(&of, 0, &states[0], &batch);
            assert_ne!(of.circuit(&[]).bytes(), with.circuit(&[]).bytes());
            assert_ne!(with.circuit(&[]).bytes(), with.clone().counting(arms, !opens).circuit(&[]).bytes());
            let (rest, rewards) = record.split_at(record.len() - come.len());
            assert!([&rest[..rest.len() - 2 * arms], rewards].concat() == without);
            states = [
                State::from_numbers(2, 0, &without).unwrap(),
                State::from_numbers(2, arms, &record).unwrap(),
            ];
            let sum = |f: &dyn Fn(&Of) -> i64, arm| {
                i128::from(there.iter().filter(|(_, of, ..)| *of == arm).map(f).sum::<i64>())
            };
            let pulls = (0..arms).map(|arm| sum(&|_| 1, arm));
            let want: Vec<i128> = pulls.chain((0..arms).map(|arm| sum(&|(_, _, r, _)| *r, arm))).collect();
            assert_eq!(states[1].counters.iter().map(|x| x.signed()).collect::<Vec<_>>(), want);
            before = (of.feedbacks, of.residual);
        }
        let [with, without] = [arms, 0].map(|of| counted_update(&config, (2, 3), (50, 16, 0), of).unwrap());
        assert_eq!((with.rounds, with.slack), (without.rounds, without.slack));
        // The arms of 16 feedbacks, rewards by arm, 2K numbers in the state, and as many that are opened.
        assert_eq!(with.shown - without.shown, (16 + 1 + 2 + 2) * arms);
    }
}

/// The record of a decision has the row and a 1 for its arm, whatever the number of arms is and whichever is
/// preferred. Slots are prepared for it, or for a decision without.
#[test]
fn a_decision_records_its_arm() {
    for arms in [1, 2, 4, 6] {
        let (config, sharing) = (world::config(2, arms), sharing((2, 3)));
        let start = initial(&Learn::new(&config, &sharing, (0, 0), (0, 0)).unwrap());
        let mut seen = vec![];
        for tie in 0..12 {
            let scalars = Decide::new(&config, &sharing, 1, 0, tie).unwrap();
            let rows = |arm: usize| row(&[0.6, if arm % 3 == 1 { 0.1 } else { 0.6 }], arm as u64);
            let rows: Vec<Vec<Field>> =
                (0..arms).map(|arm| rows(arm).iter().map(|x| field((*x).into())).collect()).collect();
            let decided = |scalars: &Decide| {
                let (inverse, estimate) = (start.scaled.clone(), start.estimate.clone());
                let mut clear = Clear::new(3, 5);
                let inputs = Inputs { inverse, estimate, rows: rows.clone() };
                let arm = walk(decide(&mut clear, scalars, inputs)).unwrap().arm.get() as usize;
                (arm, clear.record)
            };
            let (arm, record) = decided(&scalars.clone().counting(arms));
            let (same, without) = decided(&scalars);
            let one: Vec<Field> = (0..arms).map(|of| field((of == arm).into())).collect();
            assert!(same == arm && without == rows[arm][..2]);
            assert!(record == [&rows[arm][..2], &one].concat());
            assert_ne!(scalars.circuit().bytes(), scalars.counting(arms).circuit().bytes());
            seen.push(arm);
        }
        seen.sort_unstable();
        seen.dedup();
        assert!(arms < 4 || seen.len() > 1, "ties are in another order each time: {seen:?}");
    }
}

/// The numbers of members.
type Said = Vec<(u8, Vec<Field>)>;

/// What members have shown online, by run and step.
#[derive(Default)]
struct Shown(BTreeMap<(RunId, u32), Said>);

impl Shown {
    fn see(&mut self, member: u8, said: &FromMember) {
        if let FromMember::Say { run, step, body } = said
            && let Some(message) = message_of(body).filter(|message| message.seen != [0; 32])
        {
            self.0.entry((*run, *step)).or_default().push((member, message.numbers));
        }
    }

    /// The numbers but 0 that no mask covers.
    fn bare(&mut self, committee: &Committee) -> Vec<i64> {
        let mut bare = vec![];
        for (_, shown) in std::mem::take(&mut self.0) {
            for at in 0..shown[0].1.len() {
                let shares: Vec<(u8, Field)> = shown.iter().map(|(of, numbers)| (*of, numbers[at])).collect();
                let number = committee.sharing.open(&shares).unwrap().value.signed();
                bare.extend(i64::try_from(number).ok().filter(|number| *number != 0));
            }
        }
        bare
    }
}

fn bare(counted: &[Counted]) -> Vec<i64> {
    let numbers = counted.iter().map(|of| of.pulls).chain(counted.iter().map(|of| of.rewards));
    numbers.filter(|number| *number != 0).collect()
}

/// Members show no number without a mask but the counters of whole groups, once each, and they are equal to
/// what was played. An erased feedback is not among them from the next group on, whatever group it was in. A
/// member that lies in what is opened is named at 2 of 4 and changes nothing; at 2 of 3 nothing is opened.
#[test]
fn counters_are_opened_by_whole_groups() {
    for n in [3, 4] {
        let mut committee = Committee::new(2, n);
        let bandit = committee.create_with(&config(2, 2), 1, Some(10));
        let device = committee.session();
        let (mut rounds, mut shown) = (Rounds::default(), Shown::default());
        for (feedbacks, whole) in [(8, false), (12, true), (20, false), (23, false), (24, true)] {
            let before = committee.board.view(&bandit).unwrap().opened.to_vec();
            let mut see = |member: u8, said: FromMember| {
                shown.see(member, &said);
                vec![said]
            };
            let more = feedbacks - committee.board.view(&bandit).unwrap().decisions as usize;
            rounds.play(&mut committee, &bandit, &device, more, &mut see).unwrap();
            let opened = committee.board.view(&bandit).unwrap().opened.to_vec();
            match whole {
                true => {
                    assert_eq!((shown.bare(&committee), &opened), (bare(&rounds.sums(2)), &rounds.sums(2)))
                }
                false => assert_eq!((shown.bare(&committee), &opened), (vec![], &before)),
            }
            if feedbacks == 20 {
                // One that was opened and one that was not: an update that erases alone opens nothing.
                for at in [13, 2] {
                    let (label, ..) = rounds.0.remove(at);
                    let erasure = device.erasure(&label);
                    committee.board.erase(&bandit, &label, erasure, committee.now).unwrap();
                    committee.run_with(
                        &mut |member, said| {
                            shown.see(member, &said);
                            vec![said]
                        },
                        &mut tells,
                    );
                }
                assert_eq!(shown.bare(&committee), [0; 0]);
                assert_eq!(committee.board.view(&bandit).unwrap().opened, opened);
            }
        }
        let before = rounds.sums(2);
        rounds.play(&mut committee, &bandit, &device, 11, &mut honest).unwrap();
        // An update that opens alone shows in its first step 2K counters, and 3 numbers of the inverse.
        let (keys, mut lied) = (committee.keys[1].clone(), 0);
        let mut lies = |member: u8, said: FromMember| match &said {
            FromMember::Say { step: 1, body, .. }
                if member == 2 && message_of(body).is_some_and(|message| message.numbers.len() == 7) =>
            {
                lied += 1;
                one_more(&keys, said)
            }
            _ => vec![said],
        };
        rounds.play(&mut committee, &bandit, &device, 1, &mut lies).unwrap();
        assert!(lied > 0);
        let opened = committee.board.view(&bandit).unwrap().opened.to_vec();
        assert_eq!(opened, if n == 4 { rounds.sums(2) } else { before });
        assert_eq!(committee.board.liars().keys().eq(&[2]), n == 4);
    }
}

/// A server has members compute updates that follow one checkpoint, with the feedback of another person each,
/// and hands on no vote. What they open is the same in both. If they opened the sums after the update, the
/// difference would show the arms and the rewards of two persons: the control reads them from the records.
/// Slots are prepared to open where nothing is whole, and not to open where it is: no member uses them. An
/// update without feedback follows a whole group alone.
#[test]
fn attack_an_update_is_tried_again_with_other_feedback() {
    let mut committee = Committee::new(2, 3);
    let bandit = committee.create_with(&config(2, 2), 1, Some(10));
    let device = committee.session();
    let (mut rounds, mut tree, mut known) = (Rounds::default(), Tree::default(), None);
    let mut withheld = 0;
    for at in 0..12 {
        let mut see = |_: u8, said: FromMember| vec![said];
        if at == 11 {
            // The server withholds the update that opens alone.
            let (rows, _) = &made_up(1, 2, 2, 30)[0];
            let (arm, label) = committee.decide(&device, &bandit, rows);
            committee.tell(&device, &bandit, &label, 0.5);
            let mut take = |_: u8, told: &ToMember| match told {
                ToMember::Update(update) if update.added.is_empty() => {
                    withheld += 1;
                    vec![]
                }
                told => vec![told.clone()],
            };
            committee.run_with(&mut see, &mut take);
            rounds.0.push((label, arm, 32_768));
        } else {
            rounds.play(&mut committee, &bandit, &device, 1, &mut see).unwrap();
        }
        if at % 4 == 3 {
            let Some(ToMember::Checkpoint(checkpoint, ..)) = &committee.told else { panic!("no checkpoint") };
            for (place, (label, ..)) in rounds.0[at - 3..].iter().enumerate() {
                let learnt = Learnt::of(checkpoint.model.as_ref().unwrap(), 4, place).unwrap();
                tree.set(label, DecisionState::Learnt(learnt.hash())).unwrap();
            }
            known = Some(checkpoint.clone());
        }
    }
    let known = known.unwrap();
    assert_eq!((withheld, known.grouped, &known.opened[..], tree.root()), (3, 12, &[][..], known.root));
    // Five persons, of whom a batch has four.
    let mut played = Played::default();
    let mut added: Vec<Added> = vec![];
    let rewards = [0.25, -0.5, 1.0, 0.125, -0.75];
    for ((rows, _), reward) in made_up(5, 2, 2, 9).iter().zip(rewards) {
        let person = committee.session();
        let (label, begun) = round(&mut committee, (&person, &bandit), rows, (reward, &mut played));
        assert!(begun.is_none());
        let (row, tags) = played.decided[&label].clone();
        let sent = Row::new(&[reward], &mut committee.rng).unwrap();
        let feedback = person.feedback(&label, &committee.sharing, &sent, &mut committee.rng).unwrap();
        let played = shares::talk::Played { bandit, session: person.id(), label, row };
        added.push(Added { played, tags, feedback: feedback.to_bytes() });
    }
    let arm_of = |added: &Added| opened(&committee, &added.played.row)[2..].to_vec();
    let arms = [arm_of(&added[3]), arm_of(&added[4])];
    let labels: Vec<[u8; 32]> = added.iter().map(|added| added.played.label).collect();
    let mut server = Server::new(committee);
    let slot = |server: &mut Server, (feedbacks, residual): (u64, u64), added: u32, opens: bool| {
        let set = server.committee.members.iter().flatten().map(|m| (m.number(), m.nonce())).collect();
        let purpose = Purpose::Learn { feedbacks, residual, added, erased: 0, opens };
        server.prepare(Prepare { bandit, purpose, set, number: 0, slots: 1 })
    };
    let of = (known.feedbacks, known.residual);
    let update = |server: &mut Server, places: [usize; 4], opens: bool, ballot: u32| Update {
        bandit,
        checkpoint: known.hash(),
        ballot,
        here: vec![1, 2, 3],
        added: places.map(|at| added[at].clone()).to_vec(),
        erased: vec![],
        paths: tree.paths(&labels).to_bytes(),
        slot: slot(server, of, 4, opens),
    };
    let closed = update(&mut server, [0, 1, 2, 3], false, 100);
    let online = server.traffic.online;
    assert!(server.compute(&closed).is_empty() && server.ended() == 3);
    assert_eq!(server.traffic.online, online, "nothing was shown");
    let tries = [([0, 1, 2, 3], 101), ([0, 1, 2, 4], 102)];
    let tries = tries.map(|(places, ballot)| update(&mut server, places, true, ballot));
    let votes = [&tries[0], &tries[1]].map(|update| server.compute(update));
    assert!(votes.iter().all(|votes| votes.len() == 3));
    let next = [&votes[0][0].1, &votes[1][0].1];
    for checkpoint in next {
        assert_eq!((&checkpoint.opened, checkpoint.grouped), (&rounds.sums(2), 4));
    }
    // The control: the counters after each, which stand before the rewards of the batch.
    let [one, other] = next.map(|checkpoint| {
        let numbers = opened(&server.committee, checkpoint.model.as_ref().unwrap());
        numbers[numbers.len() - 8..numbers.len() - 4].to_vec()
    });
    for arm in 0..2 {
        assert_eq!(other[arm] - one[arm], arms[1][arm] - arms[0][arm]);
        let rewards = arms[1][arm] * -49_152 - arms[0][arm] * 8192;
        assert_eq!(other[2 + arm] - one[2 + arm], rewards);
    }
    let certified = server.commit(&votes[1]);
    server.tell_all(&certified);
    let after = &votes[1][0].1;
    for opens in [true, false] {
        let of = (after.feedbacks, after.residual);
        let empty = Update {
            checkpoint: after.hash(),
            ballot: 103,
            added: vec![],
            slot: slot(&mut server, of, 0, opens),
            ..tries[0].clone()
        };
        assert!(server.compute(&empty).is_empty() && server.ended() == 3);
    }
}

/// Groups are as large as a batch has sessions, and never smaller than ten.
#[test]
fn small_groups_are_refused() {
    let mut committee = Committee::new(2, 3);
    let bandit = committee.create(&config(2, 2), 1);
    let of = committee.board.view(&bandit).unwrap().definition.clone();
    for (every, sessions, taken) in
        [(9, 1, false), (10, 1, true), (10, 8, true), (15, 16, false), (16, 16, true)]
    {
        let counters = Some(shares::talk::Counters { every });
        let rules = shares::talk::Rules { sessions, ..of.rules };
        let definition =
            Definition { counters, rules, nonce: [every as u8 + sessions as u8; 16], ..of.clone() };
        let told = ToMember::Bandit(definition.clone());
        let said = committee.members[0].as_mut().unwrap().take(told);
        assert_eq!(said.is_empty(), taken, "{every}, {sessions}");
        let created = committee.board.create(definition);
        assert_eq!(created.is_ok(), taken, "{every}, {sessions}");
    }
}

/// Nine persons of a group of ten are erased: the tenth is not shown alone. With nine more the group is
/// whole.
#[test]
fn attack_erasures_do_not_shrink_a_group() {
    let mut committee = Committee::new(2, 3);
    let config = LinearConfig { schedule: Schedule::EveryRound, ..config(2, 2) };
    let bandit = committee.create_with(&config, 1, Some(10));
    let device = committee.session();
    let mut rounds = Rounds::default();
    rounds.play(&mut committee, &bandit, &device, 9, &mut honest).unwrap();
    for (label, ..) in std::mem::take(&mut rounds.0) {
        committee.board.erase(&bandit, &label, device.erasure(&label), committee.now).unwrap();
        committee.run_with(&mut honest, &mut tells);
    }
    rounds.play(&mut committee, &bandit, &device, 1, &mut honest).unwrap();
    assert!(committee.board.view(&bandit).unwrap().opened.is_empty());
    rounds.play(&mut committee, &bandit, &device, 9, &mut honest).unwrap();
    assert_eq!(committee.board.view(&bandit).unwrap().opened, rounds.sums(2), "the control: a whole group");
}
