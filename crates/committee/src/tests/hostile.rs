//! Members, servers and devices that lie to a committee that serves, each beside a control.

use super::served::{Committee, OnDisk, config, definition, honest, play, tells};
use super::world::{made_up, rng};
use crate::MemberKeys;
use crate::member::Member;
use bandit::{LinearConfig, Schedule};
use envelope::SigningSecret;
use rand::Rng;
use shares::preparation::Word;
use shares::talk::{
    AGREED, Added, Ballot, BanditId, COMMIT, Checkpoint, Decided, Definition, Erased, FromMember, Learnt,
    Pack, Prepare, Purpose, REMEMBERED, Remembered, Rules, Signatures, SlotAt, Tags, ToMember, Update, VOTE,
    decision_label, from_bytes, to_bytes,
};
use shares::{
    DecisionState, Field, Key, Kind, Label, Message, Pads, Record, Request, Row, Session, SessionSecret, Tree,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// All numbers that were shown, and which of them were shown twice.
#[derive(Default)]
pub(super) struct Traffic {
    shown: HashMap<u128, (u8, [u8; 32], u32)>,
    twice: usize,
    /// The numbers of decisions and updates.
    pub(super) online: usize,
    /// Who has committed to what, by bandit and number.
    commits: BTreeMap<(BanditId, u64), BTreeMap<[u8; 32], BTreeSet<u8>>>,
}

impl Traffic {
    fn see(&mut self, member: u8, said: &FromMember) {
        if let FromMember::Committed { ballot, .. } = said {
            let of = self.commits.entry((ballot.bandit, ballot.number)).or_default();
            of.entry(ballot.hash).or_default().insert(member);
        }
        let (run, step, numbers) = match said {
            FromMember::Say { run, step, body } => match message_of(body) {
                Some(message) => {
                    self.online += if message.seen == [0; 32] { 0 } else { message.numbers.len() };
                    (*run, *step, message.numbers)
                }
                None => return,
            },
            FromMember::Add { run, step, numbers: Some(numbers) } => (*run, *step, numbers.clone()),
            _ => return,
        };
        // What shows that dealers of a move do not lie is a share of 0 without a mask, the same in each try.
        let shows_zero = matches!(said, FromMember::Say { .. }) && (step, numbers.len()) == (1, 1);
        for number in numbers.iter().filter(|number| !shows_zero && **number != Field::ZERO) {
            let place = (member, run, step);
            let before = self.shown.insert(number.get(), place);
            self.twice += usize::from(before.is_some_and(|before| before != place));
        }
    }
}

/// The numbers that a member shows, online or of the check of a preparation.
pub(super) fn message_of(body: &[u8]) -> Option<Message> {
    match from_bytes(body) {
        Ok(Word::Shown(message)) => Message::from_bytes(&message).ok(),
        _ => Message::from_bytes(body).ok(),
    }
}

/// Runs a committee and watches all that its members say.
fn watched(committee: &mut Committee, traffic: &mut Traffic) {
    let mut see = |member: u8, said: FromMember| {
        traffic.see(member, &said);
        vec![said]
    };
    committee.run_with(&mut see, &mut tells);
}

fn signing(committee: &Committee, member: u8) -> SigningSecret {
    SigningSecret::from_bytes(&committee.signing[usize::from(member) - 1])
}

fn sign(committee: &Committee, member: u8, context: &'static str, message: &[u8]) -> (u8, Vec<u8>) {
    (member, signing(committee, member).sign(context, message).to_vec())
}

/// The value of a record, which all members' keys open.
pub(super) fn opened(committee: &Committee, record: &Record) -> Vec<i128> {
    let shares: Vec<(u8, Vec<Field>)> =
        committee.keys.iter().map(|keys| (keys.member(), keys.record(record))).collect();
    let open = |at: usize| {
        let shares: Vec<(u8, Field)> = shares.iter().map(|(member, of)| (*member, of[at])).collect();
        committee.sharing.open(&shares).unwrap().value.signed()
    };
    (0..record.numbers.len()).map(open).collect()
}

/// A device that knows its keys by their seed, and sends what it likes.
struct Hostile {
    secret: SessionSecret,
    subsets: Vec<Key>,
    members: Vec<Key>,
}

impl Hostile {
    fn new(committee: &mut Committee) -> Self {
        let (n, subsets) = (committee.keys.len(), committee.sharing.subsets().len());
        let seed = Key::random(&mut committee.rng.clone());
        let derived = |what: &[u8], at: usize| {
            seed.derive(&Label::new(Kind::Session, &[what, &(at as u64).to_le_bytes()]))
        };
        Hostile {
            secret: committee.session(),
            subsets: (0..subsets).map(|at| derived(b"subset", at)).collect(),
            members: (1..=n).map(|at| derived(b"member", at)).collect(),
        }
    }

    /// These numbers under pads for this label, with right MACs.
    fn bytes(&self, about: &[u8; 32], nonce: [u8; 16], label: &Label, sent: &[u64]) -> Vec<u8> {
        let numbers: Vec<u8> = sent.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mac = |key: &Key| {
            let hash = *blake3::Hasher::new_keyed(key.bytes())
                .update(label.bytes())
                .update(&numbers)
                .finalize()
                .as_bytes();
            hash[..16].to_vec()
        };
        let macs: Vec<u8> = self.members.iter().flat_map(mac).collect();
        [&about[..], &nonce, &macs, &numbers].concat()
    }

    /// A request of these integers, and of what is sent in place of the last number.
    fn request(
        &self,
        committee: &Committee,
        bandit: &BanditId,
        values: &[i64],
        last: Option<u64>,
    ) -> Vec<u8> {
        let pads = Pads::new(&committee.sharing, 2).unwrap();
        let (id, nonce) = (self.secret.id(), [9; 16]);
        let label = Label::new(Kind::Request, &[&id, bandit, &nonce]);
        let mut sent = pads.hide(&self.subsets, &label, values).unwrap();
        if let (Some(last), Some(number)) = (last, sent.last_mut()) {
            *number = last;
        }
        self.bytes(&id, nonce, &label, &sent)
    }

    /// A reward in units of 2⁻¹⁶ with squares that prove nothing, and the right ones of 1.
    fn feedback(&self, committee: &Committee, decision: &[u8; 32], reward: i64) -> Vec<u8> {
        let pads = Pads::new(&committee.sharing, 1).unwrap();
        let nonce = [9; 16];
        let label = Label::new(Kind::Feedback, &[&self.secret.id(), decision, &nonce]);
        let sent = pads.hide(&self.subsets, &label, &[reward, 1, 0, 0]).unwrap();
        self.bytes(decision, nonce, &label, &sent)
    }
}

fn mac_at(member: u8) -> usize {
    48 + 16 * (usize::from(member) - 1)
}

fn rows(seed: f64) -> Vec<Vec<f64>> {
    vec![vec![0.5, seed], vec![seed, -0.25]]
}

/// Changes the bytes of a request of a device.
type Change<'a> = &'a mut dyn FnMut(&mut Committee, &Hostile, &BanditId, &mut Vec<u8>);
/// The arm of a request and the row that was played, or why there is none.
type Outcome = Result<(usize, Vec<i128>), String>;

/// Five requests of which the last three are of one pack; `change` changes the fourth. What became of the
/// last three, with the rows that were played, and how many of the numbers of each lane a member has shown
/// that are zeros.
fn neighbours((t, n): (u8, u8), change: Change) -> (Vec<Outcome>, BTreeMap<u8, usize>, u64) {
    let mut committee = Committee::new(t, n);
    let bandit = committee.create(&config(2, 2), 1);
    let device = Hostile::new(&mut committee);
    assert_eq!(play(&mut committee, &bandit, &device.secret, 4), 4);
    let mut tickets = vec![];
    for at in 0..5 {
        let mut bytes = committee.request(&device.secret, &bandit, &rows(0.1 * f64::from(at)));
        if at == 3 {
            change(&mut committee, &device, &bandit, &mut bytes);
        }
        let now = committee.now;
        tickets.push(committee.board.ask(&bandit, bytes, now).unwrap());
    }
    let mut packs = vec![];
    let mut played: HashMap<[u8; 32], Vec<Option<Record>>> = HashMap::new();
    let mut zeros: BTreeMap<u8, usize> = BTreeMap::new();
    let mut hear = |member: u8, said: FromMember| {
        if let FromMember::Decided { run, decisions } = &said {
            let rows = decisions.iter().map(|d| d.as_ref().ok().map(|d| d.row.clone()));
            played.insert(*run, rows.collect());
        }
        if let FromMember::Say { body, .. } = &said
            && let Ok(message) = Message::from_bytes(body)
        {
            let count = message.numbers.iter().filter(|number| **number == Field::ZERO).count();
            *zeros.entry(member).or_default() += count;
        }
        vec![said]
    };
    let mut count = |member: u8, told: &ToMember| {
        if let (1, ToMember::Pack(pack)) = (member, told) {
            packs.push(pack.requests.len());
        }
        vec![told.clone()]
    };
    committee.run_with(&mut hear, &mut count);
    assert_eq!(packs, [1, 1, 3], "the pack is not begun again");
    let results = tickets[2..].iter().map(|ticket| {
        let decision = committee.board.outcome(*ticket).unwrap().map_err(|error| error.to_string())?;
        let arm = device.secret.arm(&committee.sharing, &decision.place, 2, &decision.answers);
        let row = played[&decision.place.run][decision.place.position as usize].clone().unwrap();
        Ok((arm.unwrap(), opened(&committee, &row)))
    });
    let results = results.collect();
    (results, zeros, committee.board.view(&bandit).unwrap().feedbacks)
}

/// A request that the server changes in a byte, or whose device cheats, is dropped; its neighbours in the
/// pack are answered as without it, to the last bit, and the pack is not begun again. In the control the same
/// device sends a row of length 1 by the same means, and is answered.
#[test]
fn attack_a_request_is_changed() {
    for (t, n) in [(2, 3), (2, 4)] {
        let (control, zeros, _) = neighbours((t, n), &mut |_, _, _, _| {});
        assert!(control.iter().all(Result::is_ok) && zeros.values().all(|count| *count == 0));
        for (arm, row) in control.iter().flatten() {
            assert!(row.len() == 2 && *arm < 2);
        }
        let one = [65_536, 0, 1, 0, 0, 0, 65_536, 0, 0, 1];
        let (right, ..) = neighbours((t, n), &mut |c, device, bandit, bytes| {
            *bytes = device.request(c, bandit, &one, None)
        });
        assert!(right[1].is_ok(), "a row of length 1 is answered");
        assert!(right[0] == control[0] && right[2] == control[2]);
        let numbers = 48 + 16 * usize::from(n);
        type Change = Box<dyn FnMut(&mut Committee, &Hostile, &BanditId, &mut Vec<u8>)>;
        let byte = |at: usize| -> Change { Box::new(move |_, _, _, bytes| bytes[at] ^= 1) };
        let mut long = one;
        long[0] = 65_537;
        let mut second = one;
        second[6] = -65_537;
        let changes: Vec<(&str, Change)> = vec![
            ("the lowest bit of a number", byte(numbers)),
            ("the highest byte of the last number", byte(numbers + 8 * 10 - 1)),
            ("the nonce", byte(40)),
            (
                "norm 1 + 2⁻¹⁶",
                Box::new(move |c, device, b, bytes| *bytes = device.request(c, b, &long, None)),
            ),
            (
                "of the second",
                Box::new(move |c, device, b, bytes| *bytes = device.request(c, b, &second, None)),
            ),
            ("2⁶⁴ − 1", Box::new(move |c, d, b, bytes| *bytes = d.request(c, b, &one, Some(u64::MAX)))),
            (
                "2⁵⁷ more",
                Box::new(move |c, d, b, bytes| {
                    let pads = Pads::new(&c.sharing, 2).unwrap();
                    let most = ((c.sharing.subsets().len() as u64) << pads.bits()) + (1 << 18);
                    *bytes = d.request(c, b, &one, Some(most));
                }),
            ),
            ("another bandit's", Box::new(move |c, d, _, bytes| *bytes = d.request(c, &[8; 32], &one, None))),
        ];
        for (what, mut change) in changes {
            let (results, ..) = neighbours((t, n), &mut change);
            assert!(results[1].is_err(), "{what}");
            assert!(results[0] == control[0] && results[2] == control[2], "{what}");
        }
        // A MAC that is bad for member 3 alone, in a request that is right otherwise.
        let mut bad =
            |_: &mut Committee, _: &Hostile, _: &BanditId, bytes: &mut Vec<u8>| bytes[mac_at(3)] ^= 1;
        let (results, zeros, feedbacks) = neighbours((t, n), &mut bad);
        assert!(results[0] == control[0] && results[2] == control[2] && feedbacks == 4);
        match n {
            3 => assert!(results[1].is_err() && zeros.values().all(|count| *count == 0)),
            _ => {
                assert_eq!(results[1], control[1]);
                // Of the numbers of this request it shows zeros alone: as many as a lane of one request has.
                let of_one = lane_numbers();
                assert_eq!(
                    zeros.into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>(),
                    [(3, of_one)]
                );
            }
        }
    }
}

/// A device of a pack knows its run, and from it guesses the decision of its neighbour, to take that one's
/// reward back or to return another one in its place. In the control the label is the neighbour's own.
#[test]
fn attack_a_neighbour_in_the_pack_names_a_decision() {
    let mut committee = Committee::new(2, 3);
    let bandit = committee.create(&config(2, 2), 1);
    let devices = [committee.session(), committee.session()];
    let ask = |committee: &mut Committee, device: &SessionSecret| {
        let bytes = committee.request(device, &bandit, &rows(0.1));
        committee.board.ask(&bandit, bytes, committee.now).unwrap()
    };
    // The first two packs take a request each, and the third the other two.
    for _ in 0..2 {
        ask(&mut committee, &devices[0]);
    }
    let tickets = [0, 1].map(|at: usize| ask(&mut committee, &devices[at]));
    committee.run();
    let [hostile, honest] = tickets.map(|ticket| committee.board.outcome(ticket).unwrap().unwrap());
    assert_eq!((hostile.place.run, honest.place.position), (honest.place.run, 1));
    let guessed = decision_label(&hostile.place.run, 1, &hostile.place.nonce);
    let reward = Row::new(&[1.0], &mut committee.rng).unwrap();
    let mut feedback = |label: &[u8; 32]| {
        devices[0].feedback(label, &committee.sharing, &reward, &mut committee.rng).unwrap().to_bytes()
    };
    let (of_guessed, of_known) = (feedback(&guessed), feedback(&honest.label));
    let (board, now) = (&mut committee.board, committee.now);
    let unknown = switchboard::Error::Decision;
    assert_eq!(board.feedback(&bandit, of_guessed, now).err(), Some(unknown.clone()));
    assert_eq!(board.erase(&bandit, &guessed, vec![0; 48], now).err(), Some(unknown));
    board.feedback(&bandit, of_known, now).unwrap();
    assert!(!board.erase(&bandit, &honest.label, vec![0; 48], now).unwrap(), "the control takes it back");
}

/// A device whose request is refused is told why in the words of t members, and not in those of one that
/// lies. In the control two say the same.
#[test]
fn attack_a_member_speaks_for_the_committee() {
    for liars in [1, 2] {
        let (mut committee, bandit, device) = Committee::with_bandit(2, 4);
        let mut bytes = committee.request(&device, &bandit, &rows(0.1));
        *bytes.last_mut().unwrap() ^= 1;
        let ticket = committee.board.ask(&bandit, bytes, committee.now).unwrap();
        let mut lie = |member: u8, mut said: FromMember| {
            if let (true, FromMember::Decided { decisions, .. }) = (member <= liars, &mut said) {
                *decisions = vec![Err("send your keys".into())];
            }
            vec![said]
        };
        committee.run_with(&mut lie, &mut tells);
        let refused = committee.board.outcome(ticket).unwrap().err().unwrap().to_string();
        assert_eq!(refused.contains("send your keys"), liars == 2, "{refused}");
        assert_eq!(refused.contains("too few members accept it"), liars == 1, "{refused}");
    }
}

/// A member that says a megabyte in place of each message has the server hand none of it to the others, who
/// decide without it. In the control it says three kilobytes, and they are told.
#[test]
fn attack_a_member_says_more_than_others_read() {
    for (more, handed_on) in [(1 << 20, false), (3000, true)] {
        let (mut committee, bandit, device) = Committee::with_bandit(2, 4);
        let bytes = committee.request(&device, &bandit, &rows(0.1));
        let ticket = committee.board.ask(&bandit, bytes, committee.now).unwrap();
        let mut lie = |member: u8, mut said: FromMember| {
            if let (1, FromMember::Say { body, step: 1.., .. }) = (member, &mut said) {
                body.resize(body.len() + more, 7);
            }
            vec![said]
        };
        let mut longest = 0;
        let mut watch = |_: u8, told: &ToMember| {
            if let ToMember::Heard { said, .. } = told {
                longest = said.iter().map(|(_, body)| body.len()).fold(longest, usize::max);
            }
            vec![told.clone()]
        };
        committee.run_with(&mut lie, &mut watch);
        committee.arm(&device, ticket, 2).unwrap();
        assert_eq!(longest > more, handed_on, "{longest}");
        assert!(longest < 10_000, "{longest}");
    }
}

/// Slots were prepared by three of four, one of whom lies online: with three nobody can tell who. When the
/// fourth is here, slots of all four take their place, and the liar is corrected and named. In the control
/// the fourth is away, and the request is given up.
#[test]
fn attack_slots_were_prepared_with_a_liar() {
    for away in [false, true] {
        let mut committee = Committee::new(2, 4);
        committee.stop(4);
        let bandit = committee.create(&config(2, 2), 1);
        let device = committee.session();
        for _ in 0..6 {
            committee.wait();
            committee.run();
        }
        assert!(committee.board.view(&bandit).unwrap().slots > 0, "prepared by three");
        if !away {
            committee.start(4);
            committee.run();
        }
        let (arm, _) = despite(&mut committee, &device, &bandit, &rows(0.1), (1, &mut one_more));
        assert_eq!(arm.is_some(), !away);
        let liars: Vec<u8> = committee.board.liars().keys().copied().collect();
        assert_eq!(liars, if away { vec![] } else { vec![1] });
    }
}

/// What the server would keep for a device, and members would refuse, it does not take: a session with a hash
/// or a box too many, or a longer one, and a request to erase that is longer than its MACs.
#[test]
fn attack_a_server_is_made_to_keep_what_is_no_message() {
    let (mut committee, bandit, device) = Committee::with_bandit(2, 3);
    let (right, now) = (committee.sent.clone().unwrap(), committee.now);
    let changes: [fn(&mut Session); 5] = [
        |session| session.hashes.push([0; 32]),
        |session| session.hashes.truncate(2),
        |session| session.sealed.push(vec![]),
        |session| session.sealed[0].push(0),
        |session| session.sealed[2].truncate(1000),
    ];
    for change in changes {
        let mut session = right.clone();
        change(&mut session);
        let refused = committee.board.session(session);
        assert!(matches!(refused, Err(switchboard::Error::Request(_))), "{refused:?}");
    }
    committee.board.session(right).unwrap();
    let (_, label) = committee.decide(&device, &bandit, &rows(0.1));
    committee.reward(&device, &bandit, &label, 1.0);
    let mut long = device.erasure(&label);
    long.push(0);
    let refused = committee.board.erase(&bandit, &label, long.clone(), now);
    assert!(matches!(refused, Err(switchboard::Error::Request(_))), "{refused:?}");
    long.pop();
    committee.board.erase(&bandit, &label, long, now).unwrap();
}

/// How many numbers a member shows in a pack of one request.
fn lane_numbers() -> usize {
    let (mut committee, bandit, device) = Committee::with_bandit(2, 4);
    let bytes = committee.request(&device, &bandit, &rows(0.1));
    committee.board.ask(&bandit, bytes, committee.now).unwrap();
    let mut traffic = Traffic::default();
    watched(&mut committee, &mut traffic);
    assert_eq!(traffic.online % 4, 0);
    traffic.online / 4
}

/// A device whose box does not open for one member has no session at 2 of 3, and one with the three others at
/// 2 of 4, where its requests are answered. One hostile member that refuses sessions, however often, ends
/// none.
#[test]
fn attack_a_box_is_bad_for_one_member() {
    for n in [3, 4] {
        let mut committee = Committee::new(2, n);
        let bandit = committee.create(&config(2, 2), 1);
        let mut sealing: Vec<Vec<u8>> =
            committee.manifest.proposal.cards.iter().map(|card| card.sealing.clone()).collect();
        sealing[2] = envelope::SealingSecret::generate(&mut committee.rng).public();
        let id = committee.manifest.id();
        let (device, session) =
            SessionSecret::open(&committee.sharing, &id, &sealing, &mut committee.rng).unwrap();
        committee.board.session(session).unwrap();
        // Member 4, or 2, refuses it again and again.
        for _ in 0..9 {
            let refused = FromMember::Refused { about: device.id(), why: String::new() };
            for member in [0, 3, 99, 255] {
                committee.board.says(member, refused.clone(), committee.now);
            }
        }
        committee.run();
        match n {
            3 => assert!(committee.board.receipts(&device.id()).is_err()),
            _ => {
                assert_eq!(committee.board.receipts(&device.id()).unwrap().unwrap().len(), 3);
                let (_, label) = committee.decide(&device, &bandit, &rows(0.1));
                committee.reward(&device, &bandit, &label, 1.0);
            }
        }
    }
}

/// What a hostile server does with members: it tells each what it likes, and hands on what they say.
pub(super) struct Server {
    pub(super) committee: Committee,
    pub(super) traffic: Traffic,
    /// All that members have said.
    said: Vec<(u8, FromMember)>,
    /// What they have said since it was handed on.
    waits: Vec<(u8, FromMember)>,
}

impl Server {
    pub(super) fn new(committee: Committee) -> Self {
        Server { committee, traffic: Traffic::default(), said: vec![], waits: vec![] }
    }

    fn tell(&mut self, member: u8, told: ToMember) -> Vec<FromMember> {
        let at = usize::from(member) - 1;
        let said = self.committee.members[at].as_mut().unwrap().take(told);
        for said in &said {
            self.traffic.see(member, said);
            self.said.push((member, said.clone()));
            self.waits.push((member, said.clone()));
        }
        said
    }

    /// What to hand on: to each that has spoken in a step of a run of its own, what all have said in this
    /// step, in whatever run.
    fn next(&mut self) -> Vec<(u8, ToMember)> {
        let waits = std::mem::take(&mut self.waits);
        let spoken = waits.iter().filter_map(|(member, said)| match said {
            FromMember::Say { run, step, body } => Some((*member, *run, *step, body.clone())),
            _ => None,
        });
        let spoken: Vec<(u8, [u8; 32], u32, Vec<u8>)> = spoken.collect();
        let heard = |(member, run, step, _): &(u8, [u8; 32], u32, Vec<u8>)| {
            let of = spoken.iter().filter(|(other, _, at, _)| other != member && at == step);
            let said = of.map(|(other, _, _, body)| (*other, body.clone())).collect();
            (*member, ToMember::Heard { run: *run, step: *step, said })
        };
        spoken.iter().map(heard).collect()
    }

    /// Hands on until nobody says anything: in how many steps.
    fn go_on(&mut self) -> usize {
        for steps in 0.. {
            let next = self.next();
            if next.is_empty() {
                return steps;
            }
            for (member, told) in next {
                self.tell(member, told);
            }
        }
        0
    }

    pub(super) fn tell_all(&mut self, told: &ToMember) {
        for member in 1..=self.committee.keys.len() as u8 {
            self.tell(member, told.clone());
        }
    }

    /// What each member has decided.
    fn decided(&self) -> BTreeMap<u8, Vec<Result<Decided, String>>> {
        let of = |(member, said): &(u8, FromMember)| match said {
            FromMember::Decided { decisions, .. } => Some((*member, decisions.clone())),
            _ => None,
        };
        self.said.iter().filter_map(of).collect()
    }

    pub(super) fn ended(&self) -> usize {
        self.said.iter().filter(|(_, said)| matches!(said, FromMember::Ended { .. })).count()
    }

    fn votes(&self) -> Vec<(u8, Checkpoint, Ballot, Vec<u8>)> {
        let of = |(member, said): &(u8, FromMember)| match said {
            FromMember::Voted { checkpoint, ballot, signature, .. } => {
                Some((*member, (**checkpoint).clone(), *ballot, signature.clone()))
            }
            _ => None,
        };
        self.said.iter().filter_map(of).collect()
    }
}

/// A committee, and a pack of two requests of two devices that its members were not told, with another one's
/// slots.
fn withheld(t: u8, n: u8) -> (Server, Pack, BanditId) {
    let mut committee = Committee::new(t, n);
    let bandit = committee.create(&config(2, 2), 1);
    let devices = [committee.session(), committee.session()];
    assert_eq!(play(&mut committee, &bandit, &devices[0], 4), 4);
    let requests =
        [0, 0, 0, 1].map(|at| committee.request(&devices[at], &bandit, &rows(0.2 + 0.1 * at as f64)));
    let now = committee.now;
    let mut first: Option<Pack> = None;
    let mut take = |_: u8, told: &ToMember| match told {
        ToMember::Pack(pack) => {
            match &mut first {
                None => first = Some(pack.clone()),
                Some(first) if first != pack && first.slots.len() == 1 => first.slots.extend(&pack.slots),
                _ => {}
            }
            vec![]
        }
        _ => vec![told.clone()],
    };
    for request in &requests[..2] {
        committee.board.ask(&bandit, request.clone(), now).unwrap();
    }
    committee.run_with(&mut honest, &mut take);
    let mut pack = first.unwrap();
    pack.requests = requests[2..].to_vec();
    assert_eq!(pack.slots.len(), 2);
    (Server::new(committee), pack, bandit)
}

/// A server shows members different packs. Whoever has another one has no part in the run of the others, and
/// shows nothing: with exactly 2t − 1 members nobody does. In the control all have one pack and decide.
#[test]
fn attack_members_are_shown_different_packs() {
    for (t, n) in [(2, 3), (2, 4)] {
        let (mut server, mut pack, _) = withheld(t, n);
        // The number of the second decision is behind the last one.
        pack.round = u64::MAX;
        server.tell_all(&ToMember::Pack(pack));
        server.go_on();
        assert!(server.decided().len() == usize::from(n) && server.traffic.twice == 0);
        assert!(server.decided().values().flatten().all(Result::is_ok));
        type Change = fn(&mut Pack);
        let changes: [(&str, Change); 6] = [
            ("requests swapped", |pack| pack.requests.swap(0, 1)),
            ("slots swapped", |pack| pack.slots.swap(0, 1)),
            ("another checkpoint", |pack| pack.checkpoint[0] ^= 1),
            ("another round", |pack| pack.round += 1),
            ("one request less", |pack| {
                pack.requests.pop();
                pack.slots.pop();
            }),
            ("one number changed", |pack| *pack.requests[0].last_mut().unwrap() ^= 1),
        ];
        for (what, change) in changes {
            let (mut server, pack, _) = withheld(t, n);
            let mut other = pack.clone();
            change(&mut other);
            for member in 1..n {
                server.tell(member, ToMember::Pack(pack.clone()));
            }
            server.tell(n, ToMember::Pack(other.clone()));
            server.go_on();
            let of_last = |(member, said): &(u8, FromMember)| {
                *member == n && matches!(said, FromMember::Say { step: 1.., .. })
            };
            assert!(!server.said.iter().any(of_last), "{what}: the last member shows a number");
            if n == 3 {
                assert!(server.traffic.online == 0 && server.decided().is_empty(), "{what}");
            }
            // Whatever is tried with these slots afterwards, no mask serves twice.
            server.tell_all(&ToMember::Pack(other));
            server.tell_all(&ToMember::Pack(pack));
            server.go_on();
            assert_eq!(server.traffic.twice, 0, "{what}");
        }
    }
}

/// A server sends a pack again, uses a slot in two packs, and in one pack twice: refused, and no number of
/// all that members have said was said before.
#[test]
fn attack_a_slot_serves_twice() {
    let (mut server, pack, _) = withheld(2, 4);
    let mut twice = pack.clone();
    twice.slots[1] = twice.slots[0];
    server.tell_all(&ToMember::Pack(twice));
    assert!(server.ended() == 4 && server.traffic.online == 0);
    // A run of the first slot alone, and then of both.
    let mut first = pack.clone();
    first.slots.truncate(1);
    first.requests.truncate(1);
    server.tell_all(&ToMember::Pack(first.clone()));
    server.go_on();
    assert_eq!(server.decided().len(), 4);
    let shown = server.traffic.online;
    server.tell_all(&ToMember::Pack(pack.clone()));
    server.tell_all(&ToMember::Pack(first));
    let mut other = pack;
    other.requests.remove(0);
    other.slots.truncate(1);
    server.tell_all(&ToMember::Pack(other));
    server.go_on();
    assert!(server.ended() == 16 && server.traffic.online == shown && server.traffic.twice == 0);
}

/// A server names members who have not prepared the slots of a pack among those who compute it: refused. In
/// the control those who have compute it alone.
#[test]
fn attack_a_pack_names_who_has_not_prepared() {
    let (mut server, pack, bandit) = withheld(2, 4);
    let set: Vec<(u8, [u8; 32])> =
        server.committee.members.iter().flatten().map(|m| (m.number(), m.nonce())).take(3).collect();
    let purpose = Purpose::Decide { feedbacks: 4 };
    let slot = server.prepare(Prepare { bandit, purpose, set, number: 0, slots: 1 });
    let of = |here: Vec<u8>, request: usize| Pack {
        here,
        requests: vec![pack.requests[request].clone()],
        slots: vec![slot],
        ..pack.clone()
    };
    server.said.clear();
    for here in [vec![1, 2, 3, 4], vec![1, 2, 4]] {
        server.tell_all(&ToMember::Pack(of(here, 0)));
    }
    server.go_on();
    assert!(server.ended() == 8 && server.traffic.online == 0);
    server.tell_all(&ToMember::Pack(of(vec![1, 2, 3], 0)));
    server.go_on();
    assert_eq!(server.decided().len(), 3);
}

/// A hostile member signs two bitmaps of refused requests, and the server shows members different ones. They
/// go on in runs of which each has its own hash: nobody reads the numbers of the others, at 2 of 3 nothing is
/// answered, and at 2 of 4 by those who have seen the same.
#[test]
fn attack_a_member_signs_two_bitmaps() {
    for n in [3, 4] {
        let (mut server, pack, _) = withheld(2, n);
        server.tell_all(&ToMember::Pack(pack.clone()));
        let run = pack.run(&server.committee.manifest.id());
        let refuses: Vec<u32> = vec![0];
        let signed = to_bytes(&(run, &refuses)).unwrap();
        let body = to_bytes(&(&refuses, sign(&server.committee, n, AGREED, &signed).1)).unwrap();
        for (member, told) in server.next() {
            let told = match told {
                ToMember::Heard { run, step, mut said } if member == 2 => {
                    said.iter_mut().filter(|(of, _)| *of == n).for_each(|(_, old)| *old = body.clone());
                    ToMember::Heard { run, step, said }
                }
                told => told,
            };
            server.tell(member, told);
        }
        server.go_on();
        let decided = server.decided();
        assert_eq!(server.traffic.twice, 0);
        match n {
            3 => assert!(!decided.contains_key(&1) && !decided.contains_key(&3)),
            // The hostile member computes with members 1 and 3.
            _ => assert!(!decided.contains_key(&2) && decided.len() == 3),
        }
    }
}

/// Two requests of a session with one nonce in a pack: the second is refused by all, and the first answered.
/// A request that comes again in a later pack is answered under other pads: the differences of what members
/// answer tell nothing of arms, which are small.
#[test]
fn attack_a_nonce_serves_twice() {
    let (mut server, pack, _) = withheld(2, 3);
    let mut twice = pack.clone();
    twice.requests[1] = twice.requests[0].clone();
    server.tell_all(&ToMember::Pack(twice));
    server.go_on();
    let decided = server.decided();
    assert!(decided.len() == 3 && decided.values().all(|d| d[0].is_ok() && d[1].is_err()));
    // Again, with other slots.
    let (mut server, pack, _) = withheld(2, 3);
    let mut single = pack.clone();
    single.requests.truncate(1);
    single.slots.truncate(1);
    let mut again = single.clone();
    again.slots = vec![pack.slots[1]];
    let mut answers = vec![];
    for pack in [single, again] {
        server.said.clear();
        server.tell_all(&ToMember::Pack(pack));
        server.go_on();
        let of = |(member, decided): (u8, Vec<Result<Decided, String>>)| {
            (member, decided[0].clone().ok().unwrap().answer.unwrap().share)
        };
        answers.push(server.decided().into_iter().map(of).collect::<Vec<_>>());
    }
    let difference = answers[0].iter().zip(&answers[1]).map(|((member, a), (_, b))| (*member, *a - *b));
    let difference: Vec<(u8, Field)> = difference.collect();
    let opened = server.committee.sharing.open(&difference).unwrap().value.signed();
    assert!(opened.abs() > 1 << 64, "{opened}");
    assert_eq!(server.traffic.twice, 0);
}

/// What a hostile member says in place of what it should.
type Lie<'a> = &'a mut dyn FnMut(&MemberKeys, FromMember) -> Vec<FromMember>;

/// Asks for a decision while one member lies: the arm, once it is there, and how often patience has ended.
fn despite(
    committee: &mut Committee,
    device: &SessionSecret,
    bandit: &BanditId,
    rows: &[Vec<f64>],
    (liar, lie): (u8, Lie),
) -> (Option<(usize, [u8; 32])>, usize) {
    let bytes = committee.request(device, bandit, rows);
    let ticket = committee.board.ask(bandit, bytes, committee.now).unwrap();
    let keys = committee.keys[usize::from(liar) - 1].clone();
    for waits in 0..12 {
        let mut lies = |member: u8, said: FromMember| match member == liar {
            true => lie(&keys, said),
            false => vec![said],
        };
        committee.run_with(&mut lies, &mut tells);
        match committee.arm_of(device, ticket, rows.len()) {
            Some(Ok(arm)) => return (Some(arm), waits),
            Some(Err(_)) => return (None, waits),
            None => committee.wait(),
        }
    }
    (None, 12)
}

/// Numbers of decisions, each one more than it is, with right MACs.
pub(super) fn one_more(keys: &MemberKeys, said: FromMember) -> Vec<FromMember> {
    if let FromMember::Say { run, step, body } = &said
        && let Ok(message) = Message::from_bytes(body)
        && message.seen != [0; 32]
    {
        let numbers = message.numbers.iter().map(|number| *number + Field::ONE).collect();
        let body = keys.message(*run, *step, message.seen, numbers).to_bytes();
        return vec![FromMember::Say { run: *run, step: *step, body }];
    }
    vec![said]
}

/// A member lies in every number that it shows. At 2 of 4 it is corrected and named, decisions and statistics
/// are those of the control, and nobody whom it names is believed to lie. At 2 of 3 nothing is answered, and
/// nobody is named.
#[test]
fn attack_a_member_lies_in_every_number() {
    let script = |n: u8, lies: bool| {
        let (mut committee, bandit, device) = Committee::with_bandit(2, n);
        let mut arms = vec![];
        for (rows, best) in made_up(8, 2, 2, 7) {
            let mut lie = |keys: &MemberKeys, mut said: FromMember| {
                if !lies {
                    return vec![said];
                }
                if let FromMember::Decided { decisions, .. } = &mut said {
                    decisions.iter_mut().flatten().for_each(|decided| decided.liars = vec![1, 3, 0, 255]);
                }
                one_more(keys, said)
            };
            let (arm, _) = despite(&mut committee, &device, &bandit, &rows, (2, &mut lie));
            let Some((arm, label)) = arm else { break };
            arms.push(arm);
            committee.tell(&device, &bandit, &label, if arm == best { 1.0 } else { -1.0 });
            let keys = committee.keys[1].clone();
            let mut lies = |member: u8, said: FromMember| match member {
                2 => lie(&keys, said),
                _ => vec![said],
            };
            committee.run_with(&mut lies, &mut tells);
        }
        let feedbacks = committee.board.view(&bandit).unwrap().feedbacks;
        (arms, feedbacks, committee.board.liars().clone())
    };
    let (control, feedbacks, liars) = script(4, false);
    assert!(control.len() == 8 && feedbacks == 8 && liars.is_empty());
    let (arms, feedbacks, liars) = script(4, true);
    assert!(arms == control && feedbacks == 8, "{arms:?}, {feedbacks}");
    // It takes no part once it is named.
    assert_eq!(liars.into_iter().collect::<Vec<_>>(), [(2, 1)]);
    let (arms, feedbacks, liars) = script(3, true);
    assert!(arms.is_empty() && feedbacks == 0 && liars.is_empty());
}

/// One member of 2 of 4 says nothing, or says what nobody should: decisions go on with the other three, and
/// are counted. The last number is how often the server waits for it.
#[test]
fn attack_a_member_of_four_stops_nobody() {
    type Said = Box<dyn FnMut(&MemberKeys, FromMember) -> Vec<FromMember>>;
    let say = |change: fn(&mut [u8; 32], &mut u32, &mut Vec<u8>)| -> Said {
        Box::new(move |_, mut said| {
            if let FromMember::Say { run, step, body } = &mut said {
                change(run, step, body);
            }
            vec![said]
        })
    };
    let numbers = |change: fn(&mut Vec<Field>)| -> Said {
        Box::new(move |keys, mut said| {
            match &mut said {
                FromMember::Say { run, step, body } => {
                    if let Some(mut message) = message_of(body) {
                        change(&mut message.numbers);
                        let changed = keys.message(*run, *step, message.seen, message.numbers).to_bytes();
                        *body = match Message::from_bytes(body) {
                            Ok(_) => changed,
                            Err(_) => to_bytes(&Word::Shown(changed)).unwrap(),
                        };
                    }
                }
                FromMember::Add { numbers: Some(numbers), .. } => change(numbers),
                _ => {}
            }
            vec![said]
        })
    };
    let lies: Vec<(&str, Said)> = vec![
        ("silent", Box::new(|_, _| vec![])),
        ("garbage", say(|_, _, body| *body = vec![7; 100])),
        ("nothing in it", say(|_, _, body| body.clear())),
        ("another step", say(|_, step, _| *step += 1)),
        ("another run", say(|run, _, _| run[0] ^= 1)),
        ("a vector of 2^16", numbers(|numbers| numbers.resize(1 << 16, Field::ONE))),
        ("no number", numbers(Vec::clear)),
        ("one number less", numbers(|numbers| numbers.truncate(numbers.len().saturating_sub(1)))),
        (
            "one more in each, also in preparations",
            numbers(|all| all.iter_mut().for_each(|x| *x += Field::ONE)),
        ),
        (
            "adds for what it says",
            Box::new(|_, said| match said {
                FromMember::Say { run, step, .. } => {
                    vec![FromMember::Add { run, step, numbers: Some(vec![Field::ONE; 3]) }]
                }
                said => vec![said],
            }),
        ),
        (
            "says for what it adds",
            Box::new(|_, said| match said {
                FromMember::Add { run, step, .. } => vec![FromMember::Say { run, step, body: vec![1] }],
                said => vec![said],
            }),
        ),
        (
            "is done too early",
            Box::new(|_, said| match said {
                FromMember::Say { run, .. } => {
                    vec![FromMember::Decided { run, decisions: vec![Err("no".into())] }]
                }
                said => vec![said],
            }),
        ),
        (
            "has slots too early",
            Box::new(|_, said| match said {
                FromMember::Add { run, .. } => vec![FromMember::Prepared {
                    batch: Label::from_bytes(run),
                    good: true,
                    liars: vec![1, 1, 3, 3, 0, 255],
                    disputed: vec![(1, 3), (1, 3), (3, 4)],
                }],
                said => vec![said],
            }),
        ),
        (
            "ends all",
            Box::new(|_, said| match said {
                FromMember::Say { run, .. } | FromMember::Add { run, .. } => {
                    vec![FromMember::Ended { run, why: String::new(), refused: vec![0, 1, 2, 3, u32::MAX] }]
                }
                said => vec![said],
            }),
        ),
        (
            "another name",
            Box::new(|_, said| match said {
                FromMember::Began { number, run } => vec![
                    FromMember::Began { number, run: [3; 32] },
                    FromMember::Began { number: number + 1, run },
                    FromMember::Began { number: 0, run },
                ],
                said => vec![said],
            }),
        ),
        ("names of all runs", {
            let mut known = vec![];
            Box::new(move |_, said| match said {
                FromMember::Say { run, .. } if !known.contains(&run) => {
                    known.push(run);
                    let name = |number: u64| FromMember::Began { number, run };
                    (0..40).map(name).chain([said]).collect()
                }
                said => vec![said],
            })
        }),
    ];
    for (what, mut lie) in lies {
        let mut committee = Committee::new(2, 4);
        // Member 2 is one of those who multiply; it lies from the start.
        let bandit = committee.create(&config(2, 2), 1);
        let device = committee.session();
        (1..=4).for_each(|member| committee.start(member));
        let (mut waited, keys) = (0, committee.keys[1].clone());
        for at in 0..5 {
            let rows = rows(0.1 * f64::from(at));
            let (arm, waits) = despite(&mut committee, &device, &bandit, &rows, (2, &mut *lie));
            let (_, label) = arm.unwrap_or_else(|| panic!("{what}: decision {at}"));
            waited += waits;
            committee.tell(&device, &bandit, &label, 0.5);
        }
        for _ in 0..12 {
            let mut lies = |member: u8, said: FromMember| match member {
                2 => lie(&keys, said),
                _ => vec![said],
            };
            committee.run_with(&mut lies, &mut tells);
            committee.wait();
        }
        let view = committee.board.view(&bandit).unwrap();
        assert_eq!((view.feedbacks, view.decisions >= 5), (4, true), "{what}");
        println!("{what}: waited {waited} times");
    }
}

/// A member claims another row, or gives tags that are none, as many as it can and before the others: rows
/// are those of t members, and for each subset there is a tag of each of its members, so that feedback on
/// them is counted.
#[test]
fn attack_a_member_claims_other_rows_and_tags() {
    for (what, row) in [("tags", false), ("rows", true)] {
        let (mut committee, bandit, device) = Committee::with_bandit(2, 4);
        for (rows, _) in made_up(8, 2, 2, 7) {
            let mut lie = |_: &MemberKeys, mut said: FromMember| {
                if let FromMember::Decided { decisions, .. } = &mut said {
                    for decided in decisions.iter_mut().flatten() {
                        if row {
                            decided.row.numbers[0] += Field::ONE;
                        }
                        let junk = |at: u8| (0..=9).map(move |i: u8| (at, [i; 16]));
                        decided.tags = (0..=255).flat_map(junk).collect();
                    }
                }
                vec![said]
            };
            let (arm, _) = despite(&mut committee, &device, &bandit, &rows, (1, &mut lie));
            let (_, label) = arm.unwrap();
            committee.reward(&device, &bandit, &label, 1.0);
        }
        assert_eq!(committee.board.view(&bandit).unwrap().feedbacks, 8, "{what}");
    }
}

/// Rows and tags as they are counted, by decision.
#[derive(Default)]
pub(super) struct Played {
    pub(super) decided: HashMap<[u8; 32], (Record, Tags)>,
    /// Those of the last pack, of one request.
    last: Option<([u8; 32], Record, Tags)>,
}

impl Played {
    fn see(&mut self, committee: (usize, usize), said: &FromMember) {
        let FromMember::Decided { run, decisions } = said else { return };
        let [Ok(decided)] = &decisions[..] else { return };
        let last = self.last.take().filter(|(of, ..)| of == run);
        let (_, _, tags) = self.last.insert(last.unwrap_or((*run, decided.row.clone(), Tags::default())));
        tags.add(committee.1, committee.0, &decided.tags);
    }
}

/// Runs a committee whose members are not told of updates: the update that is begun.
fn until_update(committee: &mut Committee, played: &mut Played) -> Option<Update> {
    let sizes = (committee.keys.len(), committee.sharing.subsets().len());
    let mut update = None;
    let mut take = |_: u8, told: &ToMember| match told {
        ToMember::Update(told) => {
            update = Some((**told).clone());
            vec![]
        }
        // What the server gives up serves a hostile one.
        ToMember::Drop { .. } | ToMember::End { .. } => vec![],
        _ => vec![told.clone()],
    };
    let mut see = |_: u8, said: FromMember| {
        played.see(sizes, &said);
        vec![said]
    };
    committee.run_with(&mut see, &mut take);
    update
}

/// Asks, and tells the reward: the update that follows, which members are not told of.
pub(super) fn round(
    committee: &mut Committee,
    (device, bandit): (&SessionSecret, &BanditId),
    rows: &[Vec<f64>],
    (reward, played): (f64, &mut Played),
) -> ([u8; 32], Option<Update>) {
    let bytes = committee.request(device, bandit, rows);
    let ticket = committee.board.ask(bandit, bytes, committee.now).unwrap();
    assert!(until_update(committee, played).is_none());
    let (_, label) = committee.arm(device, ticket, rows.len()).unwrap();
    let (_, row, tags) = played.last.take().unwrap();
    played.decided.insert(label, (row, tags));
    committee.tell(device, bandit, &label, reward);
    (label, until_update(committee, played))
}

impl Server {
    /// Computes an update: the votes for it.
    pub(super) fn compute(&mut self, update: &Update) -> Vec<(u8, Checkpoint, Ballot, Vec<u8>)> {
        self.said.clear();
        self.waits.clear();
        self.tell_all(&ToMember::Update(Box::new(update.clone())));
        self.go_on();
        self.votes()
    }

    /// Has members commit to what they have voted for: the checkpoint with its certificate.
    pub(super) fn commit(&mut self, votes: &[(u8, Checkpoint, Ballot, Vec<u8>)]) -> ToMember {
        let (_, checkpoint, ballot, _) = votes[0].clone();
        assert!(votes.iter().all(|(_, _, other, _)| *other == ballot));
        let votes = votes.iter().map(|(member, _, _, signature)| (*member, signature.clone())).collect();
        self.said.clear();
        self.tell_all(&ToMember::Votes(ballot, votes));
        let commits = self.commits(&ballot);
        assert_eq!(commits.len(), self.committee.keys.len());
        ToMember::Checkpoint(Box::new(checkpoint), ballot, commits)
    }

    fn commits(&self, ballot: &Ballot) -> Signatures {
        let of = |(member, said): &(u8, FromMember)| match said {
            FromMember::Committed { ballot: of, signature } if of == ballot => {
                Some((*member, signature.clone()))
            }
            _ => None,
        };
        self.said.iter().filter_map(of).collect()
    }

    /// Learns a batch by itself.
    fn learn(&mut self, update: &Update) -> Checkpoint {
        let votes = self.compute(update);
        assert_eq!(votes.len(), self.committee.keys.len());
        let certified = self.commit(&votes);
        self.tell_all(&certified);
        votes[0].1.clone()
    }
}

/// V and g of a model.
fn statistics(committee: &Committee, model: &Record) -> Vec<i128> {
    opened(committee, model)[..5].to_vec()
}

/// V and g of these rows and rewards, of two features and λ = 1.
fn sums(rows: &[(Vec<i128>, i128)]) -> Vec<i128> {
    let mut sums = vec![1 << 32, 0, 1 << 32, 0, 0];
    for (x, reward) in rows {
        let of = [x[0] * x[0], x[0] * x[1], x[1] * x[1], reward * x[0], reward * x[1]];
        sums.iter_mut().zip(of).for_each(|(sum, of)| *sum += of);
    }
    sums
}

/// A server answers that a reward is erased which no batch has learnt, and has it learnt: members have the
/// device's feedback and no word of its erasure, so that nobody sees it. In the control it drops the reward,
/// and V and g are those of the others.
#[test]
fn a_server_that_keeps_an_erasure_back_is_not_seen() {
    for drops in [true, false] {
        let (mut committee, bandit, device) = Committee::with_bandit(2, 3);
        let features = [[0.5, 0.25], [0.25, -0.5]];
        let rows = features.map(|row| row.to_vec());
        let mut learnt = vec![];
        for at in 0..5 {
            let (arm, label) = committee.decide(&device, &bandit, &rows);
            committee.reward(&device, &bandit, &label, 0.5);
            if at != 2 || !drops {
                learnt.push((features[arm].map(|x| (x * 65_536.0) as i128).to_vec(), 32_768));
            }
            if at == 2 && drops {
                let request = device.erasure(&label);
                assert_eq!(committee.board.erase(&bandit, &label, request, committee.now), Ok(false));
            }
        }
        learnt.truncate(4);
        let Some(ToMember::Checkpoint(checkpoint, ..)) = &committee.told else { panic!("nothing is learnt") };
        assert_eq!(checkpoint.feedbacks, 4);
        assert_eq!(statistics(&committee, checkpoint.model.as_ref().unwrap()), sums(&learnt), "{drops}");
    }
}

/// A server ends a batch early or late, counts a feedback twice or again, one of another bandit, session or
/// decision, or with another row: each is refused by every member before a number is shown, and the honest
/// update is learnt afterwards. Erasing the same: twice, of what was not counted, without the device's MAC,
/// with another reward. After one is erased, V and g are equal to those of the other rows as integers.
#[test]
fn attack_a_server_counts_what_it_likes() {
    let mut committee = Committee::new(2, 3);
    let bandit = committee.create(&config(2, 2), 1);
    let second = committee.create(&LinearConfig { lambda: 2.0, ..config(2, 2) }, 1);
    let devices = [committee.session(), committee.session()];
    let mut played = Played::default();
    let rounds = made_up(9, 2, 2, 5);
    let mut next = rounds.iter();
    let mut play = |committee: &mut Committee, device: usize, bandit: &BanditId, played: &mut Played| {
        round(committee, (&devices[device], bandit), &next.next().unwrap().0, (1.0, played))
    };
    let foreign = play(&mut committee, 0, &second, &mut played).0;
    let foreign_feedback = {
        let reward = Row::new(&[1.0], &mut committee.rng).unwrap();
        devices[0].feedback(&foreign, &committee.sharing, &reward, &mut committee.rng).unwrap().to_bytes()
    };
    let mut labels = vec![];
    let mut first = None;
    for _ in 0..4 {
        let (label, update) = play(&mut committee, 0, &bandit, &mut played);
        labels.push(label);
        first = update;
    }
    let first = first.unwrap();
    // The first batch is learnt by the server itself, which has a tree of its own.
    let mut server = Server::new(committee);
    let known = server.learn(&first);
    let model = known.model.clone().unwrap();
    let mut tree = Tree::default();
    let learnt = |at: usize| Learnt::of(&model, 4, at).unwrap();
    for (at, label) in labels.iter().enumerate() {
        tree.set(label, DecisionState::Learnt(learnt(at).hash())).unwrap();
    }
    assert_eq!(tree.root(), known.root);
    let row_of = |server: &Server, added: &Added| opened(&server.committee, &added.played.row);
    let counted: Vec<(Vec<i128>, i128)> =
        first.added.iter().map(|added| (row_of(&server, added), 65_536)).collect();
    assert_eq!(statistics(&server.committee, &model), sums(&counted));

    // Erasing, of the third.
    let erasure = |at: usize, device: usize| devices[device].erasure(&labels[at]);
    let erased = |at: usize, request: Vec<u8>| Erased {
        played: first.added[at].played.clone(),
        tags: first.added[at].tags.clone(),
        learnt: learnt(at),
        request,
    };
    // A slot for it is prepared by the server, as any other.
    let slot = |server: &mut Server, added: u32, erased: u32, checkpoint: &Checkpoint| {
        let set = server.committee.members.iter().flatten().map(|m| (m.number(), m.nonce())).collect();
        let (feedbacks, residual) = (checkpoint.feedbacks, checkpoint.residual);
        let purpose = Purpose::Learn { feedbacks, residual, added, erased, opens: false };
        server.prepare(Prepare { bandit, purpose, set, number: 0, slots: 1 })
    };
    let base = Update {
        bandit,
        checkpoint: known.hash(),
        ballot: 1,
        here: vec![1, 2, 3],
        added: vec![],
        erased: vec![erased(2, erasure(2, 0))],
        paths: tree.paths(&labels).to_bytes(),
        slot: slot(&mut server, 0, 1, &known),
    };
    let mut other_reward = erased(2, erasure(2, 0));
    other_reward.learnt = learnt(1);
    let mut changed_reward = erased(2, erasure(2, 0));
    changed_reward.learnt.reward += Field::ONE;
    let mut never = erased(2, devices[0].erasure(&foreign));
    never.played.label = foreign;
    let cases = [
        ("twice at once", vec![erased(2, erasure(2, 0)), erased(2, erasure(2, 0))]),
        ("no MAC", vec![erased(2, vec![])]),
        ("another device's", vec![erased(2, erasure(2, 1))]),
        ("of another decision", vec![erased(2, erasure(1, 0))]),
        ("another reward", vec![other_reward]),
        ("a changed reward", vec![changed_reward]),
        ("never counted", vec![never]),
        ("nothing", vec![]),
        ("seventeen", (0..17).map(|_| erased(2, erasure(2, 0))).collect()),
    ];
    let shown = server.traffic.online;
    for (what, erased) in cases {
        assert!(server.compute(&Update { erased, ..base.clone() }).is_empty(), "{what}");
        assert!(server.ended() == 3 && server.traffic.online == shown, "{what}");
    }
    let after = server.learn(&base);
    tree.set(&labels[2], DecisionState::Erased).unwrap();
    assert!(tree.root() == after.root && after.feedbacks == 3);
    let left: Vec<(Vec<i128>, i128)> = [0, 1, 3].iter().map(|at| counted[*at].clone()).collect();
    assert_eq!(statistics(&server.committee, after.model.as_ref().unwrap()), sums(&left));
    let again = Update {
        checkpoint: after.hash(),
        paths: tree.paths(&labels).to_bytes(),
        slot: slot(&mut server, 0, 1, &after),
        ..base.clone()
    };
    assert!(server.compute(&again).is_empty(), "erased again in a later update");

    // The next batch: four feedbacks are due.
    let mut fresh = vec![];
    for (device, (rows, _)) in [0, 0, 0, 1, 0].iter().zip(made_up(5, 2, 2, 9)) {
        let device = &devices[*device];
        let request = server.committee.request(device, &bandit, &rows);
        let nonce = Request::from_bytes(&request, 3).unwrap().nonce;
        let set = server.committee.members.iter().flatten().map(|m| (m.number(), m.nonce())).collect();
        let purpose = Purpose::Decide { feedbacks: after.feedbacks };
        let slot = server.prepare(Prepare { bandit, purpose, set, number: 0, slots: 1 });
        let pack = Pack {
            bandit,
            checkpoint: after.hash(),
            round: 0,
            here: vec![1, 2, 3],
            requests: vec![request],
            slots: vec![slot],
        };
        let run = pack.run(&server.committee.manifest.id());
        server.said.clear();
        server.tell_all(&ToMember::Pack(pack));
        server.go_on();
        let (mut tags, mut row, label) = (Tags::default(), None, decision_label(&run, 0, &nonce));
        for decisions in server.decided().into_values() {
            let decided = decisions[0].clone().ok().unwrap();
            tags.add(3, 3, &decided.tags);
            row = Some(decided.row);
        }
        let reward = Row::new(&[-1.0], &mut server.committee.rng).unwrap();
        let feedback = device.feedback(&label, &server.committee.sharing, &reward, &mut server.committee.rng);
        let played = shares::talk::Played { bandit, session: device.id(), label, row: row.unwrap() };
        fresh.push(Added { played, tags, feedback: feedback.unwrap().to_bytes() });
    }
    let due = config(2, 2).batch_length(after.feedbacks, 1) as usize;
    assert_eq!(due, 4);
    let all: Vec<[u8; 32]> =
        fresh.iter().map(|added| added.played.label).chain(labels.clone()).chain([foreign]).collect();
    let one = Update {
        checkpoint: after.hash(),
        added: fresh[..4].to_vec(),
        erased: vec![],
        paths: tree.paths(&all).to_bytes(),
        slot: slot(&mut server, 4, 0, &after),
        ..base.clone()
    };
    let mut cases: Vec<(&str, Update)> = vec![];
    let (three, five) = (slot(&mut server, 3, 0, &after), slot(&mut server, 5, 0, &after));
    let mut case = |what: &'static str, change: &dyn Fn(&mut Update)| {
        let mut changed = one.clone();
        change(&mut changed);
        assert!(changed != one, "{what}");
        cases.push((what, changed));
    };
    case("none", &|u| u.added.clear());
    case("three", &|u| {
        u.added.truncate(3);
        u.slot = three;
    });
    case("five", &|u| {
        u.added.push(fresh[4].clone());
        u.slot = five;
    });
    case("twice", &|u| u.added[0] = fresh[1].clone());
    case("counted before", &|u| u.added[0] = first.added[0].clone());
    case("erased before", &|u| u.added[0] = first.added[2].clone());
    case("hidden", &|u| u.paths = tree.paths(&[labels[0]]).to_bytes());
    case("paths of another tree", &|u| u.paths = Tree::default().paths(&[]).to_bytes());
    case("another bandit's", &|u| {
        let (row, tags) = played.decided[&foreign].clone();
        let of = shares::talk::Played { bandit: second, session: devices[0].id(), label: foreign, row };
        u.added[0] = Added { played: of, tags, feedback: foreign_feedback.clone() };
    });
    case("called this bandit's", &|u| {
        let (row, tags) = played.decided[&foreign].clone();
        let of = shares::talk::Played { bandit, session: devices[0].id(), label: foreign, row };
        u.added[0] = Added { played: of, tags, feedback: foreign_feedback.clone() };
    });
    case("another session's", &|u| u.added[0].played.session = devices[1].id());
    case("a session that nobody knows", &|u| u.added[0].played.session = [1; 32]);
    case("another decision's row", &|u| u.added[0].played.row = fresh[1].played.row.clone());
    case("with its tags", &|u| {
        u.added[0].played.row = fresh[1].played.row.clone();
        u.added[0].tags = fresh[1].tags.clone();
    });
    case("another decision's feedback", &|u| u.added[0].feedback = fresh[1].feedback.clone());
    case("another device's feedback", &|u| u.added[0].feedback = fresh[3].feedback.clone());
    case("a byte of the feedback", &|u| *u.added[0].feedback.last_mut().unwrap() ^= 1);
    case("a feedback that is none", &|u| u.added[0].feedback.clear());
    case("a number of the row", &|u| u.added[0].played.row.numbers[1] += Field::ONE);
    case("a number more", &|u| u.added[0].played.row.numbers.push(Field::ONE));
    case("another slot's row", &|u| u.added[0].played.row.slot += 1);
    case("no tags", &|u| u.added[0].tags = Tags::default());
    case("forged tags", &|u| u.added[0].tags = Tags(vec![vec![[0; 16]; 3]; 3]));
    case("tags of other subsets", &|u| u.added[0].tags.0.rotate_left(1));
    case("another checkpoint", &|u| u.checkpoint = known.hash());
    case("two members", &|u| u.here.truncate(2));
    case("a member twice", &|u| u.here = vec![1, 2, 2, 3]);
    case("another slot", &|u| u.slot.number += 1);
    let shown = server.traffic.online;
    for (what, update) in cases {
        assert!(server.compute(&update).is_empty(), "{what}");
        assert!(server.ended() == 3 && server.traffic.online == shown, "{what}");
    }
    let last = server.learn(&one);
    let mut left = left;
    left.extend(one.added.iter().map(|added| (row_of(&server, added), -65_536)));
    assert_eq!(statistics(&server.committee, last.model.as_ref().unwrap()), sums(&left));
    assert_eq!(server.traffic.twice, 0);
}

impl Server {
    /// Has slots prepared: the first.
    pub(super) fn prepare(&mut self, prepare: Prepare) -> SlotAt {
        self.waits.clear();
        self.said.clear();
        self.committee.number += 1_000_000;
        self.tell_all(&ToMember::Prepare(Prepare { number: self.committee.number, ..prepare }));
        for _ in 0..40 {
            let waits = std::mem::take(&mut self.waits);
            let adds: Vec<([u8; 32], u32, Vec<Field>)> = waits
                .iter()
                .filter_map(|(_, said)| match said {
                    FromMember::Add { run, step, numbers } => Some((*run, *step, numbers.clone()?)),
                    _ => None,
                })
                .collect();
            if let Some((run, step, first)) = adds.first() {
                let mut sums = vec![Field::ZERO; first.len()];
                adds.iter().for_each(|(_, _, of)| sums.iter_mut().zip(of).for_each(|(sum, x)| *sum += *x));
                self.tell_all(&ToMember::Sums { run: *run, step: *step, sums });
                continue;
            }
            self.waits = waits;
            for (member, told) in self.next() {
                self.tell(member, told);
            }
        }
        let batch = self.said.iter().find_map(|(_, said)| match said {
            FromMember::Prepared { batch, good: true, .. } => Some(*batch),
            _ => None,
        });
        SlotAt { batch: batch.unwrap(), number: 0 }
    }
}

/// With four sessions a batch of eight, none with more than four: five feedbacks of one session, and a batch
/// of three sessions are refused, and the server chooses one that is learnt.
#[test]
fn attack_one_session_fills_a_batch() {
    let mut committee = Committee::new(2, 3);
    let config = LinearConfig { schedule: Schedule::Every { rounds: 8 }, ..config(2, 2) };
    let bandit = committee.create(&config, 4);
    let devices: Vec<SessionSecret> = (0..4).map(|_| committee.session()).collect();
    let mut played = Played::default();
    let (mut update, mut labels) = (None, vec![]);
    let order = [0, 0, 0, 0, 0, 1, 2, 1, 1, 3];
    for (device, (rows, _)) in order.iter().zip(made_up(10, 2, 2, 3)) {
        assert!(update.is_none());
        let (label, begun) = round(&mut committee, (&devices[*device], &bandit), &rows, (0.5, &mut played));
        labels.push(label);
        update = begun;
    }
    let update = update.unwrap();
    let learnt: Vec<[u8; 32]> = update.added.iter().map(|added| added.played.label).collect();
    let places = [0, 1, 2, 3, 5, 6, 7, 9];
    assert_eq!(learnt, places.map(|at| labels[at]), "the fifth of one and the third of another wait");
    let mut with = |place: usize, at: usize| {
        let device = &devices[order[at]];
        let (row, tags) = played.decided[&labels[at]].clone();
        let reward = Row::new(&[1.0], &mut committee.rng).unwrap();
        let feedback = device.feedback(&labels[at], &committee.sharing, &reward, &mut committee.rng);
        let of = shares::talk::Played { bandit, session: device.id(), label: labels[at], row };
        let mut other = update.clone();
        other.added[place] = Added { played: of, tags, feedback: feedback.unwrap().to_bytes() };
        other.paths = Tree::default().paths(&labels).to_bytes();
        other
    };
    let hostile = [with(6, 4), with(7, 8)];
    let mut server = Server::new(committee);
    for update in hostile {
        assert!(server.compute(&update).is_empty() && server.ended() == 3);
    }
    assert_eq!(server.compute(&update).len(), 3);
}

/// A device sends a reward of 1.5: it is not learnt, and the batch begins again without it. In the control it
/// sends 1 by the same means.
#[test]
fn attack_a_reward_is_out_of_range() {
    let rewards = [(65_536, 4), (-65_536, 4), (98_304, 0), (65_537, 0), (-65_537, 0)];
    for (n, (reward, learnt)) in [3, 4].into_iter().flat_map(|n| rewards.map(|of| (n, of))) {
        let mut committee = Committee::new(2, n);
        let bandit = committee.create(&config(2, 2), 1);
        let device = Hostile::new(&mut committee);
        let mut counts = vec![];
        for at in 0..5 {
            let (_, label) = committee.decide(&device.secret, &bandit, &rows(0.1 * f64::from(at)));
            match at {
                1 => {
                    let bytes = device.feedback(&committee, &label, reward);
                    committee.board.feedback(&bandit, bytes, committee.now).unwrap();
                    committee.run();
                }
                _ => committee.reward(&device.secret, &bandit, &label, 0.5),
            }
            counts.push(committee.board.view(&bandit).unwrap().feedbacks);
        }
        assert!(counts[3] == learnt && counts[4] == 4, "{reward}: {counts:?}");
    }
}

/// What the switchboard makes of erasing: a request of nobody does not use up that of the device, and a
/// feedback that members are about to count is counted, and erased after it.
#[test]
fn attack_an_erasure_is_lost() {
    let (mut committee, bandit, device) = Committee::with_bandit(2, 3);
    let mut labels = vec![];
    for (rows, _) in made_up(4, 2, 2, 7) {
        let (_, label) = committee.decide(&device, &bandit, &rows);
        labels.push(label);
        // The commits to the first checkpoint are kept back.
        committee.tell(&device, &bandit, &label, 1.0);
        let mut keeps = |_: u8, said: FromMember| match said {
            FromMember::Committed { .. } => vec![],
            said => vec![said],
        };
        committee.run_with(&mut keeps, &mut tells);
    }
    assert_eq!(committee.board.view(&bandit).unwrap().feedbacks, 0);
    committee.board.erase(&bandit, &labels[1], device.erasure(&labels[1]), committee.now).unwrap();
    (1..=3).for_each(|member| committee.start(member));
    committee.run();
    assert_eq!(committee.board.view(&bandit).unwrap().feedbacks, 3, "four are counted, and one is erased");
    committee.board.erase(&bandit, &labels[0], vec![0; 48], committee.now).unwrap();
    committee.run();
    assert_eq!(committee.board.view(&bandit).unwrap().feedbacks, 3);
    committee.board.erase(&bandit, &labels[0], device.erasure(&labels[0]), committee.now).unwrap();
    committee.run();
    assert_eq!(committee.board.view(&bandit).unwrap().feedbacks, 2);
}

/// A committee at 2 of 4, of which member 4 is hostile, and two updates that follow the same checkpoint, each
/// with a slot of its own: their checkpoints differ. Members were told of neither; the second one is of the
/// first three.
fn two_updates() -> (Server, [Update; 2], BanditId) {
    let (mut committee, bandit, device) = Committee::with_bandit(2, 4);
    let (mut first, mut played) = (None, Played::default());
    for (rows, _) in made_up(4, 2, 2, 7) {
        assert!(first.is_none());
        first = round(&mut committee, (&device, &bandit), &rows, (1.0, &mut played)).1;
    }
    let first = first.unwrap();
    committee.wait();
    for member in 1..=4 {
        let said = FromMember::Refused { about: [0; 32], why: String::new() };
        committee.board.says(member, said, committee.now);
    }
    let second = until_update(&mut committee, &mut played).unwrap();
    assert!(second.ballot > first.ballot && second.slot != first.slot && second.added == first.added);
    (Server::new(committee), [first, second], bandit)
}

type Vote = (u8, Checkpoint, Ballot, Vec<u8>);

impl Server {
    fn votes_message(votes: &[Vote]) -> ToMember {
        let of = votes.iter().map(|(member, _, _, signature)| (*member, signature.clone())).collect();
        ToMember::Votes(votes[0].2, of)
    }

    /// Shows these votes to these members, and adds the hostile member's own commit: how many commit.
    fn shows(&mut self, votes: &[Vote], members: &[u8]) -> Signatures {
        self.said.clear();
        for member in members {
            self.tell(*member, Self::votes_message(votes));
        }
        let ballot = votes[0].2;
        let mut commits = self.commits(&ballot);
        commits.retain(|(member, _)| *member != 4);
        commits.push(sign(&self.committee, 4, COMMIT, &ballot.bytes()));
        commits
    }
}

/// A server keeps the votes of a ballot back until members have voted in the next, and shows both. Members
/// commit to one of them. If they committed to what they had voted for before, both would have a certificate:
/// a bandit with a feedback and one without.
#[test]
fn attack_votes_are_kept_back() {
    let (mut server, [first, second], _) = two_updates();
    let one = server.compute(&first);
    let two = server.compute(&second);
    assert!(one.len() == 4 && two.len() == 3 && one[0].1.hash() != two[0].1.hash());
    let commits = [server.shows(&one, &[1, 2, 3]).len(), server.shows(&two, &[1, 2, 3]).len()];
    assert_eq!(commits, [1, 4], "the earlier ballot has no certificate");
    // In the control the first is shown first, and the second one has none.
    let (mut server, [first, second], _) = two_updates();
    let one = server.compute(&first);
    assert_eq!(server.shows(&one, &[1, 2, 3]).len(), 4);
    assert!(server.compute(&second).is_empty());
}

/// An update of a later ballot is about to end at all members when those of an earlier one get their
/// certificate, which one member alone is shown. It does not vote for another checkpoint of this number, nor
/// does who has committed: there are no votes for a second certificate.
#[test]
fn attack_a_vote_comes_late() {
    let (mut server, [_, second], _) = two_updates();
    server.tell_all(&ToMember::Update(Box::new(second)));
    let steps = server.go_on();
    assert_eq!(server.votes().len(), 3);
    let (mut server, [first, second], _) = two_updates();
    let votes = server.compute(&first);
    let (checkpoint, ballot) = (votes[0].1.clone(), votes[0].2);
    // The second update, up to its last step.
    server.said.clear();
    server.tell_all(&ToMember::Update(Box::new(second)));
    let mut last = vec![];
    for step in 1..=steps {
        last = server.next();
        if step == steps {
            break;
        }
        std::mem::take(&mut last).into_iter().for_each(|(member, told)| drop(server.tell(member, told)));
    }
    let commits = server.shows(&votes, &[1, 2]);
    assert_eq!(commits.len(), 3);
    server.tell(1, ToMember::Checkpoint(Box::new(checkpoint), ballot, commits));
    server.said.clear();
    last.into_iter().for_each(|(member, told)| drop(server.tell(member, told)));
    // With member 3, which has seen nothing of it, the hostile one has two votes.
    let late: Vec<u8> = server.votes().iter().map(|(member, ..)| *member).collect();
    assert_eq!(late, [3]);
}

/// Votes of fewer than 2t − 1, of one member twice, for another ballot, number, bandit or hash, or for what
/// does not follow, are none; nor are such commits.
#[test]
fn attack_votes_are_made_up() {
    let (mut server, [first, _], _) = two_updates();
    let votes = server.compute(&first);
    let ballot = votes[0].2;
    let right: Signatures = votes.iter().map(|(member, _, _, of)| (*member, of.clone())).collect();
    let changed = |change: &dyn Fn(&mut Ballot)| {
        let mut ballot = ballot;
        change(&mut ballot);
        ballot
    };
    let swapped: Signatures = right.iter().map(|(member, of)| (5 - member, of.clone())).collect();
    let twice: Signatures = [&right[..2], &right[..2], &[(0, vec![]), (255, right[0].1.clone())]].concat();
    let forged = sign(&server.committee, 4, VOTE, &ballot.bytes()).1;
    let by_one: Signatures = (1..=4).map(|member| (member, forged.clone())).collect();
    let signed = |context, ballot: &Ballot| -> Signatures {
        (1..=4).map(|member| sign(&server.committee, member, context, &ballot.bytes())).collect()
    };
    let number = changed(&|ballot| ballot.number = 2);
    let votes_of = [
        (ballot, right[..2].to_vec()),
        (ballot, swapped.clone()),
        (ballot, twice.clone()),
        (ballot, by_one),
        (ballot, vec![]),
        (ballot, signed(COMMIT, &ballot)),
        (changed(&|ballot| ballot.ballot += 1), right.clone()),
        (changed(&|ballot| ballot.hash[0] ^= 1), right.clone()),
        (changed(&|ballot| ballot.bandit[0] ^= 1), right.clone()),
    ];
    server.said.clear();
    for (ballot, votes) in votes_of {
        server.tell_all(&ToMember::Votes(ballot, votes));
    }
    // Right signatures of others, for a number that does not follow.
    let others = (1..=3).map(|member| sign(&server.committee, member, VOTE, &number.bytes())).collect();
    server.tell(4, ToMember::Votes(number, others));
    assert!(server.said.len() == 37);
    assert!(server.said.iter().all(|(_, said)| matches!(said, FromMember::Refused { .. })));
    let certified = Box::new(votes[0].1.clone());
    server.tell_all(&ToMember::Votes(ballot, right.clone()));
    let commits = server.commits(&ballot);
    assert_eq!(commits.len(), 4);
    server.said.clear();
    let twice: Signatures = [&commits[..2], &commits[..2]].concat();
    let mut other = certified.clone();
    other.feedbacks += 1;
    let cases =
        [(certified.clone(), commits[..2].to_vec()), (certified.clone(), twice), (certified.clone(), right)];
    for (checkpoint, commits) in cases.into_iter().chain([(other, commits.clone())]) {
        server.tell_all(&ToMember::Checkpoint(checkpoint, ballot, commits));
    }
    assert!(server.said.len() == 16);
    assert!(server.said.iter().all(|(_, said)| matches!(said, FromMember::Refused { .. })));
    server.said.clear();
    server.tell_all(&ToMember::Checkpoint(certified, ballot, commits));
    assert!(server.said.is_empty(), "the certificate itself is taken");
}

/// A member that starts again is shown the beginning, or the checkpoint before its last: it computes nothing
/// on it. In the control it is shown its last.
#[test]
fn attack_an_old_checkpoint_is_shown() {
    let (mut committee, bandit, device) = Committee::with_bandit(2, 3);
    let mut seen: Vec<ToMember> = vec![];
    let mut watch = |member: u8, told: &ToMember| {
        if member == 1 && matches!(told, ToMember::Checkpoint(..) | ToMember::Bandit(_)) {
            seen.push(told.clone());
        }
        vec![told.clone()]
    };
    for (rows, _) in made_up(8, 2, 2, 7) {
        let (_, label) = committee.decide(&device, &bandit, &rows);
        committee.tell(&device, &bandit, &label, 1.0);
        committee.run_with(&mut honest, &mut watch);
    }
    let certified: Vec<ToMember> =
        seen.into_iter().filter(|told| matches!(told, ToMember::Checkpoint(..))).collect();
    assert_eq!(certified.len(), 2);
    let definition = committee.board.view(&bandit).unwrap().definition.clone();
    (1..=3).for_each(|member| committee.start(member));
    let mut server = Server::new(committee);
    server.tell_all(&ToMember::Bandit(definition));
    let asks = |server: &mut Server, checkpoint: [u8; 32]| {
        let set: Vec<(u8, [u8; 32])> =
            server.committee.members.iter().flatten().map(|m| (m.number(), m.nonce())).collect();
        let purpose = Purpose::Decide { feedbacks: 0 };
        let slot = server.prepare(Prepare { bandit, purpose, set, number: 0, slots: 1 });
        let requests = vec![server.committee.request(&device, &bandit, &rows(0.1))];
        let (here, slots) = (vec![1, 2, 3], vec![slot]);
        server.said.clear();
        server.tell_all(&ToMember::Pack(Pack { bandit, checkpoint, round: 0, here, requests, slots }));
        server.said.iter().filter(|(_, said)| matches!(said, FromMember::Say { .. })).count()
    };
    let hash = |told: &ToMember| match told {
        ToMember::Checkpoint(checkpoint, ..) => checkpoint.hash(),
        _ => [0; 32],
    };
    assert_eq!(asks(&mut server, Checkpoint::first(bandit).hash()), 0);
    server.said.clear();
    server.tell_all(&certified[0]);
    assert_eq!(server.said.len(), 3, "it is refused");
    assert_eq!(asks(&mut server, hash(&certified[0])), 0);
    server.tell_all(&certified[1]);
    assert_eq!(asks(&mut server, hash(&certified[1])), 3);
}

/// A committee at 2 of 4 that has learnt four feedbacks, of which member 3 was told nothing, and its device.
fn member_three_is_behind() -> (Committee, BanditId, SessionSecret) {
    let (mut committee, bandit, device) = Committee::with_bandit(2, 4);
    let mut keeps = |member: u8, told: &ToMember| match told {
        ToMember::Votes(..) | ToMember::Checkpoint(..) if member == 3 => vec![],
        told => vec![told.clone()],
    };
    for (rows, _) in made_up(4, 2, 2, 7) {
        let (_, label) = committee.decide(&device, &bandit, &rows);
        committee.tell(&device, &bandit, &label, 1.0);
        committee.run_with(&mut honest, &mut keeps);
    }
    assert_eq!(committee.board.view(&bandit).unwrap().feedbacks, 4);
    (committee, bandit, device)
}

/// Member 2 has lost its disk, member 3 was told nothing of the last update, and member 4 is hostile: without
/// the rule of members that were put back the three decide on the model before it. With the rule member 2
/// hears from all three others first, what the server repeats or what is signed for another start counts for
/// none, and it computes on the last checkpoint alone.
#[test]
fn attack_a_disk_is_lost() {
    for restored in [false, true] {
        let (mut committee, bandit, device) = member_three_is_behind();
        let certified = committee.told.clone().unwrap();
        // The hostile member forgets what it likes.
        committee.disks[3].borrow_mut().clear();
        committee.start(4);
        committee.disks[1].borrow_mut().clear();
        committee.start_of(2, restored);
        let definition = committee.board.view(&bandit).unwrap().definition.clone();
        let id = committee.manifest.id();
        let mut server = Server::new(committee);
        let said = server.tell(2, ToMember::Bandit(definition.clone()));
        assert_eq!(said.len(), usize::from(restored));
        let session = server.committee.sent.clone().unwrap();
        server.tell(4, ToMember::Bandit(definition));
        server.tell(2, ToMember::Session(session.clone()));
        server.tell(4, ToMember::Session(session));
        let asks = |server: &mut Server, checkpoint: [u8; 32], members: [u8; 3], feedbacks: u64| {
            let set: Vec<(u8, [u8; 32])> =
                server.committee.members.iter().flatten().map(|m| (m.number(), m.nonce())).collect();
            let set = set.into_iter().filter(|(member, _)| members.contains(member)).collect();
            let purpose = Purpose::Decide { feedbacks };
            let slot = server.prepare(Prepare { bandit, purpose, set, number: 0, slots: 1 });
            let requests = vec![server.committee.request(&device, &bandit, &rows(0.1))];
            let (here, slots) = (members.to_vec(), vec![slot]);
            server.said.clear();
            server.waits.clear();
            server.tell_all(&ToMember::Pack(Pack { bandit, checkpoint, round: 0, here, requests, slots }));
            server.go_on();
            server.decided().len()
        };
        let old = Checkpoint::first(bandit).hash();
        if !restored {
            assert_eq!(asks(&mut server, old, [2, 3, 4], 0), 3, "the control: an old model decides");
            continue;
        }
        assert_eq!(asks(&mut server, old, [2, 3, 4], 0), 0);
        let told = server.tell(2, ToMember::Remember { bandit, nonce: [7; 32] });
        assert!(
            matches!(told[..], [FromMember::Refused { .. }]),
            "it tells nobody what it does not remember"
        );
        let remembers = |server: &mut Server, member: u8, nonce: [u8; 32]| match server
            .tell(member, ToMember::Remember { bandit, nonce })
            .pop()
        {
            Some(FromMember::Remembers { remembered, signature, .. }) => (member, *remembered, signature),
            _ => panic!("member {member} does not tell"),
        };
        let nonce = server.committee.members[1].as_ref().unwrap().nonce();
        let (one, three) = (remembers(&mut server, 1, nonce), remembers(&mut server, 3, nonce));
        assert!(
            three.1 == Remembered { vote: three.1.vote, ..Remembered::default() }
                && one.1.checkpoint.is_some()
        );
        let another = remembers(&mut server, 1, [7; 32]);
        let by_four = sign(&server.committee, 4, REMEMBERED, &three.1.signed(&id, &bandit, &nonce));
        let forged = (1, three.1.clone(), by_four.1.clone());
        let hostile = (4, three.1.clone(), by_four.1.clone());
        let own = sign(&server.committee, 2, REMEMBERED, &three.1.signed(&id, &bandit, &nonce));
        let own = (2, three.1.clone(), own.1);
        let mut uncertified = one.1.clone();
        if let Some((_, commits)) = &mut uncertified.checkpoint {
            commits.truncate(2);
        }
        let few = sign(&server.committee, 4, REMEMBERED, &uncertified.signed(&id, &bandit, &nonce));
        let few = (4, uncertified, few.1);
        for said in [
            vec![three.clone(), hostile.clone()],
            vec![three.clone(), three.clone(), hostile.clone(), hostile.clone()],
            vec![three.clone(), hostile.clone(), forged],
            vec![three.clone(), hostile.clone(), another],
            vec![three.clone(), hostile.clone(), own],
            vec![one.clone(), three.clone(), few],
        ] {
            let said = server.tell(2, ToMember::Remembered { bandit, said });
            assert!(matches!(said[..], [FromMember::Refused { .. }]));
            let told = server.tell(2, certified.clone());
            assert!(matches!(told[..], [FromMember::Refused { .. }]));
            assert_eq!(asks(&mut server, old, [2, 3, 4], 0), 0);
        }
        assert!(server.tell(2, ToMember::Remembered { bandit, said: vec![one, three, hostile] }).is_empty());
        assert_eq!(asks(&mut server, old, [2, 3, 4], 0), 0);
        assert!(server.tell(2, certified.clone()).is_empty());
        server.tell(3, certified);
        assert_eq!(asks(&mut server, old, [2, 3, 4], 0), 0);
        let Some(ToMember::Checkpoint(last, ..)) = server.committee.told.clone() else { panic!() };
        assert_eq!(asks(&mut server, last.hash(), [1, 2, 3], 4), 3);
    }
}

/// Members that were put back hear from others, and the committee goes on: with an old disk, with none, after
/// another start, with a bandit that is created later, and where all but one of those who must be heard are
/// away at first. One of exactly 2t − 1 whose vote is not in its memory says so by itself.
#[test]
fn members_that_were_put_back_hear_from_others() {
    for n in [3, 4] {
        let (mut committee, bandit, device) = Committee::with_bandit(2, n);
        let empty = committee.disks[1].borrow().clone();
        assert_eq!(play(&mut committee, &bandit, &device, 4), 4);
        let old = committee.disks[1].borrow().clone();
        assert_eq!(play(&mut committee, &bandit, &device, 4), 8);
        for (at, disk) in [(1, empty), (2, old)] {
            *committee.disks[1].borrow_mut() = disk;
            // Member 1 is away: nobody tells member 2 enough, which waits.
            committee.stop(1);
            committee.start_of(2, true);
            committee.run();
            assert!(committee.disks[1].borrow().values().any(|kept| kept.restored));
            // It starts again without being told so.
            committee.start(2);
            committee.start(1);
            committee.run();
            let kept = committee.disks[1].borrow()[&bandit].clone();
            assert!(!kept.restored && kept.checkpoint.unwrap().0.number == 2 * at);
            assert_eq!(play(&mut committee, &bandit, &device, 8), 8 + 8 * at);
        }
        let second = committee.create(&LinearConfig { lambda: 2.0, ..config(2, 2) }, 1);
        assert_eq!(play(&mut committee, &second, &device, 4), 4);
        // A disk is put back in silence, between the votes and the commit.
        let silent = committee.disks[0].borrow().clone();
        for (rows, _) in made_up(4, 2, 2, 7) {
            let (_, label) = committee.decide(&device, &second, &rows);
            let reward = Row::new(&[1.0], &mut committee.rng).unwrap();
            let feedback = device.feedback(&label, &committee.sharing, &reward, &mut committee.rng).unwrap();
            committee.board.feedback(&second, feedback.to_bytes(), committee.now).unwrap();
            let mut keeps = |_: u8, said: FromMember| match said {
                FromMember::Committed { .. } => vec![],
                said => vec![said],
            };
            committee.run_with(&mut keeps, &mut tells);
        }
        *committee.disks[0].borrow_mut() = silent;
        let mut forgot = vec![];
        let mut hears = |member: u8, said: FromMember| {
            if let FromMember::Forgot { bandit } = said {
                forgot.push((member, bandit));
            }
            vec![said]
        };
        committee.start(1);
        committee.run_with(&mut hears, &mut tells);
        assert_eq!(forgot, [(1, second)]);
        (1..=n).for_each(|member| committee.start(member));
        committee.run();
        assert_eq!(committee.board.view(&second).unwrap().feedbacks, 8);
        assert_eq!(play(&mut committee, &second, &device, 4), 12);
    }
}

/// A server shows members the checkpoint that they have again: the decisions of a session are counted on. In
/// the control an update follows, after which a session has all of them again. One request is computed 16
/// times and no more.
#[test]
fn attack_a_session_asks_without_end() {
    let mut committee = Committee::new(2, 3);
    let rules = Rules { sessions: 1, decisions: 5 };
    let definition = Definition { rules, ..definition(&committee, &config(2, 2), 1, None) };
    let bandit = committee.board.create(definition).unwrap();
    let device = committee.session();
    assert_eq!(play(&mut committee, &bandit, &device, 4), 4);
    let told = committee.told.clone().unwrap();
    let asks = |committee: &mut Committee| {
        let bytes = committee.request(&device, &bandit, &rows(0.1));
        let ticket = committee.board.ask(&bandit, bytes, committee.now).unwrap();
        committee.run();
        for member in committee.members.iter_mut().flatten() {
            assert!(member.take(told.clone()).is_empty());
        }
        committee.arm_of(&device, ticket, 2).unwrap().is_ok()
    };
    let answered: Vec<bool> = (0..7).map(|_| asks(&mut committee)).collect();
    assert_eq!(answered, [true, true, true, true, true, false, false]);
    // One request of another session again and again.
    let device = committee.session();
    let bytes = committee.request(&device, &bandit, &rows(0.1));
    let mut again = || {
        let ticket = committee.board.ask(&bandit, bytes.clone(), committee.now).unwrap();
        committee.run();
        committee.arm_of(&device, ticket, 2).unwrap().is_ok()
    };
    assert_eq!((0..20).filter(|_| again()).count(), 16);
}

/// A device has its feedback erased, and an update follows that learns nothing: its session has no more
/// decisions after it. In the control a batch is learnt.
#[test]
fn attack_an_erasure_gives_no_more_decisions() {
    let mut committee = Committee::new(2, 3);
    let rules = Rules { sessions: 1, decisions: 5 };
    let definition = Definition { rules, ..definition(&committee, &config(2, 2), 1, None) };
    let bandit = committee.board.create(definition).unwrap();
    let device = committee.session();
    let asks = |committee: &mut Committee| {
        let bytes = committee.request(&device, &bandit, &rows(0.1));
        let ticket = committee.board.ask(&bandit, bytes, committee.now).unwrap();
        committee.run();
        committee.arm_of(&device, ticket, 2).unwrap().ok().map(|(_, label)| label)
    };
    let first: Vec<[u8; 32]> = (0..4).map(|_| asks(&mut committee).unwrap()).collect();
    first.iter().for_each(|label| committee.reward(&device, &bandit, label, 1.0));
    let second: Vec<[u8; 32]> = (0..5).map(|_| asks(&mut committee).unwrap()).collect();
    assert_eq!(asks(&mut committee), None);
    for (erased, label) in (1..).zip(&first[..2]) {
        let now = committee.now;
        committee.board.erase(&bandit, label, device.erasure(label), now).unwrap();
        committee.run();
        let view = committee.board.view(&bandit).unwrap();
        assert_eq!((view.feedbacks, view.updates), (4 - erased, 1 + erased));
        assert_eq!(asks(&mut committee), None);
    }
    second[..4].iter().for_each(|label| committee.reward(&device, &bandit, label, 1.0));
    assert_eq!(committee.board.view(&bandit).unwrap().feedbacks, 6);
    assert!(asks(&mut committee).is_some());
}

/// What stops while messages are carried.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Stops {
    /// A member, before it takes a message.
    Before,
    /// A member, when it has taken a message, and before what it says has left.
    After,
    /// The server, when it has heard what a member says, and before it has stored it.
    Server,
    /// All of them.
    All,
}

/// Carries messages one by one, and stops what it is told at the message that `left` counts down to. All go
/// on from their disks.
fn carry(committee: &mut Committee, traffic: &mut Traffic, left: &mut usize, stops: Stops) {
    loop {
        let mut carried = false;
        for number in 1..=committee.members.len() as u8 {
            let at = usize::from(number) - 1;
            for (count, message) in committee.board.tell(number, committee.taken[at]) {
                carried = true;
                committee.taken[at] = count;
                *left = left.wrapping_sub(1);
                let now = *left == 0;
                if now && stops == Stops::Before {
                    committee.start(number);
                    break;
                }
                let message: ToMember = from_bytes(&to_bytes(&*message).unwrap()).unwrap();
                if matches!(message, ToMember::Checkpoint(..)) {
                    committee.told = Some(message.clone());
                }
                let said = committee.members[at].as_mut().unwrap().take(message);
                said.iter().for_each(|said| traffic.see(number, said));
                if now && matches!(stops, Stops::After | Stops::All) {
                    committee.start(number);
                    if stops == Stops::All {
                        (1..=committee.members.len() as u8).for_each(|member| committee.start(member));
                        committee.restart_server();
                    }
                    break;
                }
                said.into_iter().for_each(|said| committee.board.says(number, said, committee.now));
                if now {
                    committee.restart_server();
                    break;
                }
                committee.store();
            }
        }
        if !carried {
            return;
        }
    }
}

/// Two decisions with their feedback, each learnt at once, while something stops at the message `at`: whether
/// it has. Decisions go on, no mask serves twice, no number has two certificates, and feedback that was
/// acknowledged is learnt once.
fn stops_at((t, n): (u8, u8), at: usize, stops: Stops) -> bool {
    let mut committee = Committee::with_stock(t, n, 1);
    let config = LinearConfig { schedule: Schedule::Every { rounds: 1 }, ..config(1, 2) };
    let bandit = committee.create(&config, 1);
    let device = committee.session();
    committee.store();
    let (mut traffic, mut left, mut learnt) = (Traffic::default(), at, 0);
    let what = format!("{stops:?} at {at}");
    for round in 0..2 {
        let rows = vec![vec![0.5], vec![-0.25 * f64::from(round)]];
        let mut label = None;
        for _ in 0..6 {
            let bytes = committee.request(&device, &bandit, &rows);
            let ticket = committee.board.ask(&bandit, bytes, committee.now).unwrap();
            carry(&mut committee, &mut traffic, &mut left, stops);
            for _ in 0..3 {
                if label.is_none() {
                    label = committee.arm_of(&device, ticket, 2).and_then(Result::ok);
                }
                if label.is_none() {
                    committee.wait();
                    carry(&mut committee, &mut traffic, &mut left, stops);
                }
            }
            if label.is_some() {
                break;
            }
        }
        let (_, label) = label.unwrap_or_else(|| panic!("{what}: round {round} is not decided"));
        let reward = Row::new(&[1.0], &mut committee.rng).unwrap();
        let feedback = device.feedback(&label, &committee.sharing, &reward, &mut committee.rng).unwrap();
        // A decision whose row was not stored has no feedback.
        let told = committee.board.feedback(&bandit, feedback.to_bytes(), committee.now).is_ok();
        committee.store();
        learnt += u64::from(told);
        carry(&mut committee, &mut traffic, &mut left, stops);
    }
    for _ in 0..4 {
        committee.wait();
        carry(&mut committee, &mut traffic, &mut left, stops);
    }
    let view = committee.board.view(&bandit).unwrap();
    assert_eq!((view.feedbacks, view.unlearnt), (learnt, 0), "{what}");
    assert_eq!(traffic.twice, 0, "{what}");
    for (number, hashes) in &traffic.commits {
        let certified = hashes.values().filter(|members| members.len() >= usize::from(2 * t - 1)).count();
        assert!(certified <= 1, "{what}: {number:?} has {certified} certificates");
    }
    left == 0 || left > at
}

/// Members and the server stop at every ninth message in turn.
#[test]
fn all_go_on_after_a_stop_at_any_message() {
    for (first, stops) in [Stops::Before, Stops::After, Stops::Server, Stops::All].into_iter().enumerate() {
        let mut at = 1 + first;
        while stops_at((2, 3), at, stops) {
            at += 9;
        }
        println!("{stops:?}: {at} messages");
    }
}

/// The same at every message, also where one may be away.
#[test]
#[ignore = "minutes: a stop at every message, in two committees"]
fn all_go_on_after_a_stop_at_every_message() {
    for size in [(2, 3), (2, 4)] {
        for stops in [Stops::Before, Stops::After, Stops::Server, Stops::All] {
            assert!((1..).find(|at| !stops_at(size, *at, stops)) > Some(100));
        }
    }
}

/// A committee moves to another one, while something of both stops at the message `at`: whether it has. The
/// move ends, the bandit goes on at the next committee with all that was learnt and nothing goes on at the
/// old one, no mask serves twice, and no number has two certificates.
fn move_stops_at(at: usize, stops: Stops) -> bool {
    let mut old = Committee::with_stock(2, 3, 1);
    let config = LinearConfig { schedule: Schedule::Every { rounds: 1 }, ..config(2, 2) };
    let bandit = old.create(&config, 1);
    let device = old.session();
    assert_eq!(play(&mut old, &bandit, &device, 2), 2);
    let mut next = Committee::after(&old, 2, 3);
    let there = old.board.view(&bandit).unwrap().definition.id(&next.manifest.id());
    old.next = Some(next.signed());
    (1..=3).for_each(|member| old.start(member));
    let (manifest, mut left, mut moved) = (old.signed(), at, false);
    let mut traffic = [Traffic::default(), Traffic::default()];
    let what = format!("{stops:?} at {at}");
    for _ in 0..24 {
        carry(&mut old, &mut traffic[0], &mut left, stops);
        carry(&mut next, &mut traffic[1], &mut left, stops);
        moved = switchboard::carry(&mut old.board, &manifest, &mut next.board, next.now).unwrap();
        old.store();
        next.store();
        if moved {
            break;
        }
        old.wait();
        next.wait();
    }
    assert!(moved, "{what}");
    carry(&mut next, &mut traffic[1], &mut left, stops);
    assert_eq!(next.board.view(&there).unwrap().feedbacks, 2, "{what}");
    let fresh = next.session();
    assert_eq!(play(&mut next, &there, &fresh, 1), 3, "{what}");
    old.next = None;
    (1..=3).for_each(|member| old.start(member));
    let has_left = |member: &Option<Member<OnDisk>>| member.as_ref().is_some_and(Member::has_left);
    let stay = old.members.iter().filter(|member| !has_left(member)).count();
    assert!(stay < 3, "{what}: {stay} members go on");
    for traffic in traffic {
        assert_eq!(traffic.twice, 0, "{what}");
        for (number, hashes) in &traffic.commits {
            let certified = hashes.values().filter(|members| members.len() >= 3).count();
            assert!(certified <= 1, "{what}: {number:?} has {certified} certificates");
        }
    }
    left == 0 || left > at
}

/// Members and servers of both committees stop at every 23rd message of a move in turn.
#[test]
fn a_move_goes_on_after_a_stop_at_any_message() {
    for (first, stops) in [Stops::Before, Stops::After, Stops::Server, Stops::All].into_iter().enumerate() {
        let mut at = 1 + first;
        while move_stops_at(at, stops) {
            at += 23;
        }
        assert!(at > 20, "{stops:?}: {at} messages");
    }
}

/// The same at every message.
#[test]
#[ignore = "minutes: a stop at every message of a move"]
fn a_move_goes_on_after_a_stop_at_every_message() {
    for stops in [Stops::Before, Stops::After, Stops::Server, Stops::All] {
        assert!((1..).find(|at| !move_stops_at(*at, stops)) > Some(20));
    }
}

/// Bytes that are changed, cut, joined or random, and numbers at their ends: no member and no server panics,
/// whoever says it, and a committee that has read all of it goes on.
#[test]
fn what_is_no_message_stops_nobody() {
    let mut committee = Committee::with_stock(2, 3, 2);
    let bandit = committee.create(&config(2, 2), 1);
    let device = committee.session();
    let (mut told, mut said) = (vec![], vec![]);
    {
        let mut tells = |_: u8, message: &ToMember| {
            told.push(message.clone());
            vec![message.clone()]
        };
        let mut says = |_: u8, message: FromMember| {
            said.push(message.clone());
            vec![message]
        };
        for (rows, _) in made_up(5, 2, 2, 7) {
            let bytes = committee.request(&device, &bandit, &rows);
            let ticket = committee.board.ask(&bandit, bytes, committee.now).unwrap();
            committee.run_with(&mut says, &mut tells);
            let (_, label) = committee.arm(&device, ticket, 2).unwrap();
            committee.tell(&device, &bandit, &label, 1.0);
            committee.run_with(&mut says, &mut tells);
        }
    }
    let ends = [0, 1, u64::from(u32::MAX), 1 << 32, 1 << 40, u64::MAX - 1, u64::MAX];
    for end in ends {
        let small = end as u32;
        let mut purposes = vec![Purpose::Decide { feedbacks: end }];
        for (feedbacks, residual) in [(end, 0), (0, end), (4, 1), (end, end)] {
            for (added, erased) in [(small, 0), (0, small), (4, 4), (small, small)] {
                purposes.push(Purpose::Learn { feedbacks, residual, added, erased, opens: false });
            }
        }
        for member in committee.members.iter_mut().flatten() {
            for purpose in &purposes {
                for slots in [small, 1, 1024] {
                    let set = vec![(member.number(), member.nonce()), (2, [0; 32]), (3, [0; 32])];
                    let (purpose, number) = (*purpose, end);
                    member.take(ToMember::Prepare(Prepare { bandit, purpose, set, number, slots }));
                    member.take(ToMember::Begin);
                }
            }
            for message in &told {
                if let ToMember::Pack(pack) = message {
                    member.take(ToMember::Pack(Pack { round: end, ..pack.clone() }));
                }
            }
        }
    }
    let told: Vec<Vec<u8>> = told.iter().map(|message| to_bytes(message).unwrap()).collect();
    let said: Vec<Vec<u8>> = said.iter().map(|message| to_bytes(message).unwrap()).collect();
    let mut random = rng(5);
    let mut read = [0; 2];
    for turn in 0..9_000 {
        if turn % 1000 == 0 {
            (1..=3).for_each(|member| committee.start(member));
            committee.restart_server();
            committee.run();
            let bytes = committee.request(&device, &bandit, &rows(0.1));
            committee.board.ask(&bandit, bytes, committee.now).unwrap();
        }
        let corpus = if turn % 2 == 0 { &told } else { &said };
        let mut pick = |most: usize| random.next_u32() as usize % most.max(1);
        let mut bytes = corpus[pick(corpus.len())].clone();
        for _ in 0..=pick(4) {
            let at = pick(bytes.len());
            match pick(7) {
                0 => bytes.truncate(at),
                1 => bytes.extend(&corpus[pick(corpus.len())][..8]),
                2 if !bytes.is_empty() => bytes[at] = [0, 1, 127, 128, 255][pick(5)],
                3 if bytes.len() > 9 => bytes.splice(1..9, [255; 9]).for_each(drop),
                4 => bytes = (0..pick(200)).map(|_| pick(256) as u8).collect(),
                _ if !bytes.is_empty() => {
                    let at = pick(bytes.len().min(120));
                    bytes[at] ^= 1 << pick(8);
                }
                _ => {}
            }
        }
        let member = pick(3);
        if let Ok(message) = from_bytes::<ToMember>(&bytes) {
            read[0] += 1;
            committee.members[member].as_mut().unwrap().take(message);
        }
        if let Ok(message) = from_bytes::<FromMember>(&bytes) {
            read[1] += 1;
            let number = [0, 1, 2, 3, 4, 255][pick(6)];
            committee.board.says(number, message, committee.now);
            committee.store();
        }
    }
    assert!(read.iter().all(|count| *count > 800), "{read:?}");
    (1..=3).for_each(|member| committee.start(member));
    committee.restart_server();
    committee.run();
    committee.decide(&device, &bandit, &rows(0.2));
}

/// A member starts again more often than others can hold batches of slots, and one falls silent in many runs:
/// what the server has given up members give up, and decisions go on.
#[test]
fn what_a_server_gives_up_is_forgotten() {
    let mut committee = Committee::with_stock(2, 4, 1);
    let bandit = committee.create(&config(1, 2), 1);
    let device = committee.session();
    for _ in 0..260 {
        committee.start(3);
        committee.run();
    }
    let rows = vec![vec![0.5], vec![0.25]];
    let mut silent = |_: &MemberKeys, said: FromMember| match said {
        FromMember::Say { step: 2, .. } => vec![],
        said => vec![said],
    };
    let rules = Rules { sessions: 1, decisions: 1000 };
    let definition = Definition { rules, nonce: [4; 16], ..definition(&committee, &config(1, 2), 1, None) };
    assert_eq!(committee.board.here().len(), 4);
    committee.decide(&device, &bandit, &rows);
    let bandit = committee.board.create(definition).unwrap();
    for at in 0..24 {
        let (arm, _) = despite(&mut committee, &device, &bandit, &rows, (2, &mut silent));
        assert!(arm.is_some(), "{at}");
    }
    committee.run_with(&mut |member, said| if member == 2 { vec![] } else { vec![said] }, &mut tells);
    let member = committee.members[1].as_ref().unwrap();
    assert!(member.holds().iter().all(|count| *count < 8), "{:?}", member.holds());
}

/// Devices send feedback whose MAC is bad for one member alone, each for another: learning goes on without
/// what too few members accept together, and with all else.
#[test]
fn attack_a_feedback_is_bad_for_one_member() {
    // How many feedbacks the first batch takes: one more for each that goes.
    for (n, bad, takes) in [(3, vec![3], 5), (4, vec![1], 4), (4, vec![1, 3], 5), (4, vec![1, 3, 2], 6)] {
        let (mut committee, bandit, device) = Committee::with_bandit(2, n);
        let mut counts = vec![];
        for (at, (rows, _)) in made_up(7, 2, 2, 7).iter().enumerate() {
            let (_, label) = committee.decide(&device, &bandit, rows);
            let reward = Row::new(&[1.0], &mut committee.rng).unwrap();
            let feedback = device.feedback(&label, &committee.sharing, &reward, &mut committee.rng).unwrap();
            let mut bytes = feedback.to_bytes();
            if let Some(member) = bad.get(at) {
                bytes[mac_at(*member)] ^= 1;
            }
            committee.board.feedback(&bandit, bytes, committee.now).unwrap();
            committee.run();
            counts.push(committee.board.view(&bandit).unwrap().feedbacks);
        }
        let right: Vec<u64> = (1..=7).map(|told| if told < takes { 0 } else { 4 }).collect();
        assert_eq!(counts, right, "{n}, {bad:?}");
    }
}

/// Of a request whose arms all have one row members learn this row, to the last unit, whichever arm is
/// decided for: so a device brings rounds of before. Each is erased like any other.
#[test]
fn rounds_of_before_are_learnt_to_the_last_unit() {
    let mut committee = Committee::new(2, 4);
    let bandit = committee.create(&config(2, 5), 1);
    let device = committee.session();
    let mut model = None;
    let mut run = |committee: &mut Committee| {
        let mut see = |_: u8, told: &ToMember| {
            if let ToMember::Checkpoint(checkpoint, ..) = told {
                model = checkpoint.model.clone();
            }
            vec![told.clone()]
        };
        committee.run_with(&mut honest, &mut see);
        model.as_ref().map(|model| statistics(committee, model))
    };
    let integers = |of: &[f64]| -> Vec<i128> { of.iter().map(|x| (x * 65536.0) as i128).collect() };
    let (mut learnt, mut labels) = (vec![], vec![]);
    for (at, (rows, best)) in made_up(12, 2, 5, 7).iter().enumerate() {
        let (row, reward) = (&rows[*best], [1.0, -0.5, 0.25][at % 3]);
        let (_, label) = committee.decide(&device, &bandit, &vec![row.clone(); 5]);
        let of = Row::new(&[reward], &mut committee.rng).unwrap();
        let feedback = device.feedback(&label, &committee.sharing, &of, &mut committee.rng).unwrap();
        committee.board.feedback(&bandit, feedback.to_bytes(), committee.now).unwrap();
        learnt.push((integers(row), integers(&[reward])[0]));
        labels.push(label);
        let statistics = run(&mut committee);
        if learnt.len() % 4 == 0 {
            assert_eq!(statistics.unwrap(), sums(&learnt));
        }
    }
    committee.board.erase(&bandit, &labels[5], device.erasure(&labels[5]), committee.now).unwrap();
    learnt.remove(5);
    assert_eq!(run(&mut committee).unwrap(), sums(&learnt));
}
