//! Who errs while slots are prepared is named, and nobody else; what is opened for it serves nobody.

use super::attacks::{Setting, rows, sums, view};
use super::served::{Committee, config, definition, honest};
use super::world::World;
use crate::keys::Seeds;
use crate::{Ask, Error, MemberKeys, Reply, Slot};
use envelope::SigningSecret;
use shares::preparation::{PREPARED, Statement, Transcript, Word};
use shares::talk::{BanditId, Definition, FromMember, ToMember, from_bytes, to_bytes};
use shares::{Field, Key, Kind, Label, Message};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const COMMITTEES: [(u8, u8, &[u8]); 2] = [(2, 4, &[2]), (3, 7, &[2, 5])];

/// Members who err in sums of a step, and sign what they have sent, and a statement as `change` leaves it.
fn lie<'a>(
    (liars, at): (&'a [u8], usize),
    batch: &'a Label,
    change: &'a dyn Fn(u8, &mut Statement),
) -> impl FnMut(usize, u8, &mut Ask) + 'a {
    let mut all: BTreeMap<u8, Transcript> = BTreeMap::new();
    move |step, member, ask| {
        if !liars.contains(&member) {
            return;
        }
        match ask {
            Ask::Sum(Some(numbers)) => {
                let last = numbers.len() - 1;
                numbers[last] += Field::new(if step == at { member.into() } else { 0 });
                all.entry(member).or_insert_with(|| Transcript::new(batch)).add(numbers);
            }
            Ask::Sign(statement) => {
                if let (Statement::Seen { sent, .. }, Some(all)) = (&mut *statement, all.get(&member)) {
                    *sent = all.hash();
                }
                change(member, statement);
            }
            _ => {}
        }
    }
}

/// Members and pairs that a member has named; none if the batch was not burnt for it.
type Named = Option<(Vec<u8>, Vec<(u8, u8)>)>;

/// What each member of the set has named.
fn named(made: Vec<Result<Vec<Slot>, Error>>) -> Vec<Named> {
    let of = |made| match made {
        Err(Error::Burnt { liars, disputed }) => Some((liars, disputed)),
        _ => None,
    };
    made.into_iter().map(of).collect()
}

/// Members err in any round of sums and sign what they have sent: all name them, and nobody else. Where
/// whoever adds up adds a number of its own, nobody is named but who errs beside it.
#[test]
fn attack_sums_are_wrong() {
    for (t, n, liars) in COMMITTEES {
        let world = World::new(t, n);
        let setting = Setting::new(&world, world.all());
        for (step, _) in sums(&setting) {
            for (liars, adds) in [(liars, 0), (&[][..], 1), (liars, 1), (&liars[..1], 1)] {
                let batch = setting.batch();
                let label = *batch.label();
                let mut added = |now, _, reply: &mut Reply| {
                    if let (true, Reply::Numbers(numbers)) = (now == step, reply) {
                        numbers[0] += Field::new(adds);
                    }
                };
                let made = setting.slot(batch, &mut lie((liars, step), &label, &|_, _| {}), &mut added);
                let right = Some((liars.to_vec(), vec![]));
                assert!(named(made).into_iter().all(|of| of == right), "{t} of {n}, step {step}, {adds}");
            }
        }
    }
}

/// A server gives members different sums, beside a member that errs: who has seen others than 2t − 1 names
/// nobody, and nobody names it.
#[test]
fn attack_an_honest_member_is_shown_other_sums() {
    let world = World::new(2, 4);
    let setting = Setting::new(&world, world.all());
    let rounds = sums(&setting);
    for (step, _) in rounds.iter().copied() {
        for liars in [&[][..], &[2]] {
            let batch = setting.batch();
            let label = *batch.label();
            let mut other = |now, member, reply: &mut Reply| {
                if let (true, Reply::Numbers(numbers)) = ((now, member) == (step, 3), reply) {
                    numbers[0] += Field::ONE;
                }
            };
            let made = setting.slot(batch, &mut lie((liars, 0), &label, &|_, _| {}), &mut other);
            let of = named(made);
            // What member 3 sends later follows from other sums, but it has not signed for those of others.
            let burnt = !liars.is_empty() || step + 1 < rounds.len();
            let right = burnt.then(|| (liars.to_vec(), vec![]));
            assert_eq!(of, [right.clone(), right.clone(), None, right], "step {step}");
        }
    }
}

/// Beside wrong sums a member signs what is not so: it is named for it, or of a seed that only two have, the
/// two are named as a pair.
#[test]
fn attack_a_statement_is_wrong() {
    for (t, n, liars) in COMMITTEES {
        let world = World::new(t, n);
        let setting = Setting::new(&world, world.all());
        let last = *liars.last().unwrap();
        // Hashes of seeds: first those of subsets.
        let subsets = world.sharing.subsets().iter().filter(|subset| subset.has(last)).count();
        type Change = Box<dyn Fn(&mut [u8; 32], &mut Vec<[u8; 32]>)>;
        let changes: [(&str, Change, bool); 4] = [
            ("sent", Box::new(|sent, _| sent[0] ^= 1), false),
            ("a subset's seed", Box::new(|_, seeds| seeds[0][0] ^= 1), false),
            ("a seed less", Box::new(|_, seeds| seeds.truncate(1)), false),
            ("a pair's seed", Box::new(move |_, seeds| seeds[subsets][0] ^= 1), true),
        ];
        for (what, change, of_pair) in changes {
            let batch = setting.batch();
            let label = *batch.label();
            let change = |member: u8, statement: &mut Statement| {
                if let (true, Statement::Seen { sent, seeds, .. }) = (member == last, statement) {
                    change(sent, seeds);
                }
            };
            let mut sends = lie((&liars[..1], 0), &label, &change);
            let mut all = |step, member, ask: &mut Ask| match member == last && last != liars[0] {
                // The second liar errs in its statement alone.
                true => {
                    if let Ask::Sign(statement) = ask {
                        change(member, statement);
                    }
                }
                false => sends(step, member, ask),
            };
            let made = setting.slot(batch, &mut all, &mut |_, _, _| {});
            let others: Vec<u8> = liars.iter().copied().filter(|liar| !of_pair || *liar != last).collect();
            let right = Some((others, if of_pair { vec![(1, last)] } else { vec![] }));
            assert!(named(made).into_iter().all(|of| of == right), "{t} of {n}, {what}");
        }
    }
}

/// The masks of the first numbers of a slot, as whoever has these seeds of its batch computes them: of a
/// subset whose seed is missing nothing is known.
fn masks(world: &World, seeds: &BTreeMap<usize, [u8; 32]>, count: usize) -> Vec<Field> {
    let all = world.all();
    let of = |member: &u8| {
        let has = |at: &usize| world.sharing.subsets()[*at].has(*member);
        let own = seeds.iter().filter(|(at, _)| has(at)).map(|(at, seed)| (*at, Key::new(*seed)));
        let mut masks = Seeds::new(*member, world.sharing.clone(), own.collect()).of(Kind::Mask, 0);
        (0..count).map(|_| masks.uniform()).collect::<Vec<Field>>()
    };
    let of: Vec<Vec<Field>> = all.iter().map(of).collect();
    (0..count).map(|i| world.open(&all, &of.iter().map(|of| of[i]).collect::<Vec<_>>())).collect()
}

/// A server and member 4 have the check fail at member 1 alone, while the other three agree that the slots
/// are good and decide with them. Member 1 opens nothing: one word against three. In the control it opens its
/// seeds because its check has failed, and these with those of member 4 give every feature of the request.
#[test]
fn attack_a_check_fails_at_one_member() {
    let world = World::new(2, 4);
    let mut setting = Setting::new(&world, world.all());
    let batch = setting.batch();
    let label = *batch.label();
    let opens = std::cell::Cell::new(0);
    let mut sends = |_, _, ask: &mut Ask| opens.set(opens.get() + u32::from(matches!(ask, Ask::Open(_))));
    let mut gives = |_, member, reply: &mut Reply| match reply {
        Reply::Shown(shown) if member == 1 => {
            shown.retain(|(from, _)| *from != 2);
            let wrong = |(from, numbers): &mut (u8, Vec<Field>)| {
                numbers[0] += Field::new(u128::from(*from == 4));
            };
            shown.iter_mut().for_each(wrong);
        }
        // Member 4 signs whatever helps.
        Reply::Signed(signed) if member == 1 => {
            if let Some((_, Statement::Burn(seen), _)) = signed.iter().find(|(from, ..)| *from == 1) {
                let burn = Statement::Burn(*seen);
                signed.retain(|(from, ..)| *from != 4);
                signed.push((4, burn.clone(), world.sign(4, &label, &burn)));
            }
        }
        _ => {}
    };
    let mut made = setting.slot(batch, &mut sends, &mut gives);
    assert!(matches!(made[0], Err(Error::WrongProduct)) && opens.get() == 0);
    let slots: Vec<Vec<Slot>> = made.drain(1..).map(Result::unwrap).collect();
    setting.here = vec![2, 3, 4];
    let secret = rows(5);
    let (model, sent) = (6 + 3, setting.shown(&secret));
    let opened = view(&mut setting, slots, &secret).remove(0);
    let seeds = |members: &[u8]| -> BTreeMap<usize, [u8; 32]> {
        let all = world.subset_keys.iter().enumerate();
        let known = all.filter(|(at, _)| members.iter().any(|j| world.sharing.subsets()[*at].has(*j)));
        known.map(|(at, key)| (at, *Key::new(*key).derive(&label).bytes())).collect()
    };
    let read = |members: &[u8]| -> Vec<i128> {
        let masks = masks(&world, &seeds(members), opened.len());
        opened.iter().zip(masks).skip(model).map(|(m, mask)| (*m - mask).signed()).collect()
    };
    // The control.
    assert_eq!(read(&[1, 4]), sent);
    let alone = read(&[4]);
    assert!(alone.iter().zip(&sent).all(|(a, b)| a != b));
}

/// How a member errs in a preparation.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Errs {
    /// In a sum of this step, and signs what it has sent.
    Sum(u32),
    /// In a sum, and signs what it should have sent.
    Hidden,
    /// It sends a number less.
    Count,
    Triple,
    Seen,
    Signature,
    Verdict,
    /// What it says is no word.
    Garbage,
    /// In a sum, and opens another seed.
    Opens,
}

/// What members say who err so.
fn lies<'a>(
    committee: &Committee,
    liars: &'a [u8],
    errs: Errs,
) -> impl FnMut(u8, FromMember) -> Vec<FromMember> + 'a {
    let (keys, signing) = (committee.keys.clone(), committee.signing.clone());
    let mut all: BTreeMap<(u8, [u8; 32]), Transcript> = BTreeMap::new();
    move |member, mut said| {
        if !liars.contains(&member) {
            return vec![said];
        }
        let at = usize::from(member) - 1;
        match &mut said {
            FromMember::Add { run, step, numbers: Some(numbers) } => {
                let wrong = match errs {
                    Errs::Sum(at) => *step == at,
                    Errs::Hidden | Errs::Opens => *step == 0,
                    _ => false,
                };
                numbers[0] += Field::new(if wrong { member.into() } else { 0 });
                if errs == Errs::Count {
                    numbers.pop();
                }
                let transcript = || Transcript::new(&Label::from_bytes(*run));
                all.entry((member, *run)).or_insert_with(transcript).add(numbers);
            }
            FromMember::Say { run, step, body } => match from_bytes(body) {
                Ok(Word::Signed(mut statement, _)) => {
                    match &mut statement {
                        Statement::Seen { seen, sent, .. } => {
                            seen[0] ^= u8::from(errs == Errs::Seen);
                            match all.get(&(member, *run)) {
                                Some(all) if errs != Errs::Hidden => *sent = all.hash(),
                                _ => {}
                            }
                        }
                        Statement::Good(seen) | Statement::Burn(seen) => {
                            seen[0] ^= u8::from(errs == Errs::Verdict);
                        }
                    }
                    let signed = statement.signed(&Label::from_bytes(*run));
                    let signing = SigningSecret::from_bytes(&signing[at]);
                    let mut signature = signing.sign(PREPARED, &signed).to_vec();
                    signature[9] ^= u8::from(errs == Errs::Signature);
                    *body = to_bytes(&Word::Signed(statement, signature)).unwrap();
                    if errs == Errs::Garbage {
                        body.pop();
                    }
                }
                Ok(Word::Shown(message)) if errs == Errs::Triple => {
                    let mut numbers = Message::from_bytes(&message).unwrap().numbers;
                    numbers[2] += Field::ONE;
                    let message = keys[at].message(*run, *step, [0; 32], numbers).to_bytes();
                    *body = to_bytes(&Word::Shown(message)).unwrap();
                }
                Ok(Word::Opened(mut seeds)) if errs == Errs::Opens => {
                    seeds[0][0] ^= 1;
                    *body = to_bytes(&Word::Opened(seeds)).unwrap();
                }
                _ => {}
            },
            _ => {}
        }
        vec![said]
    }
}

/// What was seen of preparations and packs.
#[derive(Default)]
struct Seen {
    burnt: BTreeSet<Label>,
    /// How many steps with sums a preparation has.
    sums: u32,
    /// The members of the last preparation.
    set: Vec<u8>,
    /// The batches of slots that have served.
    served: BTreeSet<Label>,
}

/// Runs a committee and watches it.
fn watched(
    committee: &mut Committee,
    seen: &mut Seen,
    lies: &mut dyn FnMut(u8, FromMember) -> Vec<FromMember>,
) {
    let watched = RefCell::new(seen);
    let mut says = |member: u8, said: FromMember| {
        let said = lies(member, said);
        for said in &said {
            let mut seen = watched.borrow_mut();
            match said {
                FromMember::Prepared { batch, good: false, .. } => drop(seen.burnt.insert(*batch)),
                FromMember::Add { step, .. } => seen.sums = seen.sums.max(step + 1),
                _ => {}
            }
        }
        said
    };
    let mut tells = |_, told: &ToMember| {
        let mut seen = watched.borrow_mut();
        match told {
            ToMember::Prepare(prepare) => seen.set = prepare.set.iter().map(|(of, _)| *of).collect(),
            ToMember::Pack(pack) => seen.served.extend(pack.slots.iter().map(|slot| slot.batch)),
            _ => {}
        }
        vec![told.clone()]
    };
    committee.run_with(&mut says, &mut tells);
}

/// Creates a bandit, whose slots are prepared when the committee runs.
fn create(committee: &mut Committee) -> BanditId {
    let definition = Definition { nonce: [4; 16], ..definition(committee, &config(1, 2), 1, None) };
    committee.board.create(definition).unwrap()
}

fn decides(committee: &mut Committee, bandit: &BanditId, seen: &mut Seen) {
    let device = committee.session();
    let rows = [vec![0.5], vec![0.25]];
    let bytes = committee.request(&device, bandit, &rows);
    let ticket = committee.board.ask(bandit, bytes, committee.now).unwrap();
    for _ in 0..4 {
        watched(committee, seen, &mut honest);
        if let Some(decided) = committee.arm_of(&device, ticket, 2) {
            decided.unwrap();
            return;
        }
        committee.wait();
    }
    panic!("no decision");
}

/// A member errs in each kind of message of a preparation. It is named, and nobody else; the next slots are
/// prepared without it and serve; those that are burnt never do.
#[test]
fn attack_a_member_errs_while_slots_are_prepared() {
    for (t, n, liars) in COMMITTEES {
        let mut rounds = Seen::default();
        let mut committee = Committee::with_stock(t, n, 1);
        create(&mut committee);
        watched(&mut committee, &mut rounds, &mut honest);
        assert!(rounds.sums >= 4 && committee.board.liars().is_empty() && rounds.burnt.is_empty());
        let errs = [
            Errs::Hidden,
            Errs::Count,
            Errs::Triple,
            Errs::Seen,
            Errs::Signature,
            Errs::Verdict,
            Errs::Garbage,
            Errs::Opens,
        ];
        for errs in errs.into_iter().chain((0..rounds.sums).map(Errs::Sum)) {
            let (mut committee, mut seen) = (Committee::with_stock(t, n, 1), Seen::default());
            let bandit = create(&mut committee);
            let mut lies = lies(&committee, liars, errs);
            watched(&mut committee, &mut seen, &mut lies);
            let named: Vec<u8> = committee.board.liars().keys().copied().collect();
            assert_eq!(named, liars, "{t} of {n}, {errs:?}");
            assert!(committee.board.disputed().is_empty());
            assert_eq!(!seen.burnt.is_empty(), matches!(errs, Errs::Sum(_)), "{errs:?}");
            decides(&mut committee, &bandit, &mut seen);
            decides(&mut committee, &bandit, &mut seen);
            assert!(seen.set.iter().all(|member| !liars.contains(member)), "{:?}", seen.set);
            assert!(!seen.served.is_empty() && seen.served.is_disjoint(&seen.burnt), "{errs:?}");
        }
    }
}

/// A member that was named takes part again where others are too few, and after a time.
#[test]
fn a_named_member_stops_nobody() {
    let (mut committee, mut seen) = (Committee::with_stock(2, 4, 1), Seen::default());
    let bandit = create(&mut committee);
    let mut lies = lies(&committee, &[2], Errs::Hidden);
    watched(&mut committee, &mut seen, &mut lies);
    decides(&mut committee, &bandit, &mut seen);
    assert_eq!(seen.set, [1, 3, 4]);
    // Also after the server has started again.
    let erred = committee.board.liars().clone();
    committee.restart_server();
    committee.wait();
    for _ in 0..2 {
        decides(&mut committee, &bandit, &mut seen);
    }
    assert!(committee.board.liars() == &erred && erred.contains_key(&2) && seen.set == [1, 3, 4]);
    committee.stop(4);
    for _ in 0..2 {
        decides(&mut committee, &bandit, &mut seen);
    }
    assert_eq!(seen.set, [1, 2, 3]);
    committee.start(4);
    for _ in 0..2 {
        decides(&mut committee, &bandit, &mut seen);
    }
    assert_eq!(seen.set, [1, 3, 4]);
    committee.now += Duration::from_secs(600);
    for _ in 0..2 {
        decides(&mut committee, &bandit, &mut seen);
    }
    assert_eq!(seen.set, [1, 2, 3, 4]);
}

/// Keys of which one is another one: the first of a subset, or of a pair.
fn other_key(keys: &MemberKeys, pair: bool) -> MemberKeys {
    let bytes = keys.to_bytes(&[0; 32]);
    let mut all: Vec<[u8; 32]> = bytes[36..].as_chunks::<32>().0.to_vec();
    let (member, sharing) = (keys.member(), keys.sharing().clone());
    let subsets: Vec<usize> =
        sharing.subsets().iter().enumerate().filter(|(_, of)| of.has(member)).map(|(at, _)| at).collect();
    all[if pair { subsets.len() } else { 0 }][0] ^= 1;
    let others = (1..=sharing.threshold().members()).filter(|other| *other != member);
    let of_pairs = others.zip(&all[subsets.len()..]).map(|(other, key)| (other, Key::new(*key))).collect();
    let of_subsets = subsets.iter().copied().zip(&all).map(|(at, key)| (at, Key::new(*key))).collect();
    MemberKeys::new(member, sharing, of_subsets, of_pairs).unwrap()
}

/// A member computes with another key than the others of its subset: they have signed the hash of the right
/// seed, and name it. With another key than its pair nobody can tell who lies: the pair is named, and the
/// next set has one of the two at most. Members of neither are named.
#[test]
fn attack_a_member_has_another_key() {
    for (t, n, liars) in COMMITTEES {
        for pair in [false, true] {
            let (mut committee, mut seen) = (Committee::with_stock(t, n, 1), Seen::default());
            for liar in liars {
                let at = usize::from(*liar) - 1;
                committee.keys[at] = other_key(&committee.keys[at], pair).into();
                committee.start(*liar);
            }
            let bandit = create(&mut committee);
            watched(&mut committee, &mut seen, &mut honest);
            let named: Vec<u8> = committee.board.liars().keys().copied().collect();
            let pairs: Vec<(u8, u8)> = liars.iter().map(|liar| (1, *liar)).collect();
            match pair {
                false => assert!(named == liars && committee.board.disputed().is_empty(), "{named:?}"),
                true => assert!(named.is_empty() && committee.board.disputed() == pairs, "{named:?}"),
            }
            decides(&mut committee, &bandit, &mut seen);
            let both = |(a, b): &(u8, u8)| seen.set.contains(a) && seen.set.contains(b);
            assert!(!seen.burnt.is_empty() && !pairs.iter().any(both), "{:?}", seen.set);
        }
    }
}
