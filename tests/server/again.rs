//! Users who ask again: contexts that are too long are found, and others get their right answers.

use crate::fixture::*;
use crate::users::*;
use ckks::Plaintext;
use helba_server::Settings;
use protocol::{Answers, BanditConfig, Exchanges, LOG_CONTEXT};
use rand_chacha::ChaCha20Rng;
use std::time::Duration;
use tempfile::TempDir;
use testkit::ClearTwin;
use user_client::{Choice, Device as Keyed, Error, PlayedRound};
use wire::{AskAgain, Created, DECISIONS_HEADER};

/// How much less than the best index of the twin that of the arm played may be.
const RESOLUTION: f64 = 1e-2;

/// No bound but the time for asking again depends on the speed of the machine.
fn patient(ask_again: Duration) -> Settings {
    let ages = Duration::from_secs(3600);
    Settings { raise_timeout: ages, raise_turn: ages, last_raise: ages, ask_again, ..Settings::default() }
}

/// A user with a tag and a count of repeats of its own.
fn user(server: &InProcess, created: &Created, repeats: u64) -> User {
    let secret = std::fs::read(keys().secret_file()).unwrap();
    let device = Box::leak(Box::new(Keyed::read(&secret[..]).unwrap().with_most_repeats(repeats)));
    let joined = User::join(server.device(), created);
    User { device: device.join(created).unwrap(), ..joined }
}

/// A bandit and `count` users of it.
fn users(server: &InProcess, count: usize, repeats: u64) -> Vec<User> {
    let first = User::create_with(server.device(), &config());
    (0..count).map(|_| user(server, first.device.created(), repeats)).collect()
}

/// The root, whose polynomial leaves the range of the comparison where contexts are too long: the scores of
/// such contexts are within the range of a tangent in the first rounds.
fn config() -> BanditConfig {
    let mut config = encrypted(Answers::Arm);
    config.linear.width = bandit::WidthShape::Root.width(0.5);
    config
}

/// Contexts with rows of norm 2, which no device would encrypt: from those of x and −x, whose products of
/// features are equal and whose features are opposite.
fn long_contexts(user: &User, rng: &mut ChaCha20Rng) -> Vec<u8> {
    let (created, rows) = (user.device.created(), random_rows(rng));
    let small = keys().small().params();
    let rings = user.http.keys.device().rings();
    let ring = &keys().bundle.scores;
    let answers = ring.switch.as_ref().unwrap().small().params();
    let exchanges = Exchanges::new(&created.config, &created.plan, ring.ring, small, rings, answers).unwrap();
    let opposite: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().map(|x| -x).collect()).collect();
    let [one, other] = [&rows, &opposite].map(|rows| exchanges.layout.contexts(&[rows]).unwrap());
    let twice: Vec<i64> = one.iter().zip(&other).map(|(a, b)| 2 * (a + b) + (a - b)).collect();
    let (level, scale) = (small.max_level(), f64::from(LOG_CONTEXT).exp2());
    let message = Plaintext::from_integers(small, &twice, level, scale).unwrap();
    ckks_secret::encrypt(keys().small(), &message, rng).to_bytes(keys().small(), ring.key_id)
}

/// What a sender of contexts that are too long says of its answers.
#[derive(Clone, Copy, PartialEq)]
enum Liar {
    AsksAgain,
    IsSilent,
}

/// The decision of a reply, by hand: raises if the server asks for it.
fn finish(user: &User, mut reply: Vec<u8>, rng: &mut ChaCha20Rng) -> Choice {
    loop {
        let read = user.device.read(&reply).unwrap();
        if let Some(choice) = read.choice {
            return choice;
        }
        let body = user.device.raise(&read.tasks, read.ticket, rng).unwrap();
        reply = user.client.post_raises(user.id(), user.device.limits(), &body).unwrap();
    }
}

/// Plays a decision by hand with contexts that are too long, and asks again as long as the server allows it.
fn spoil(user: &User, contexts: &[u8], how: Liar, rng: &mut ChaCha20Rng) -> Choice {
    let reply = user.client.decide_several(user.id(), user.device.limits(), 1, contexts).unwrap();
    let mut choice = finish(user, reply, rng);
    for answers in 1.. {
        if how == Liar::IsSilent {
            break;
        }
        match user.client.ask_again(user.id(), user.device.limits(), choice.id, answers) {
            Ok(reply) => choice = finish(user, reply, rng),
            Err(Error::Refused(_)) => break,
            Err(error) => panic!("{error}"),
        }
    }
    choice
}

/// What became of an evaluation.
struct Evaluated {
    /// The rounds of users who follow the protocol, with their contexts.
    rounds: Vec<(Vec<Vec<f64>>, PlayedRound)>,
    /// The second decision of the first of them, who decides for two.
    second: (Vec<Vec<f64>>, Choice),
    /// The decision of the one who does not.
    spoilt: Option<Choice>,
}

/// Gathers all users into one evaluation, the first with two decisions: another user holds its turn until
/// they wait. `liar` sends contexts that are too long, and `gathers` says whether they are gathered with the
/// others.
fn evaluate(
    server: &InProcess,
    users: &[User],
    liar: Option<(&User, Liar, bool)>,
    rng: &mut ChaCha20Rng,
) -> Evaluated {
    let holder = user(server, users[0].device.created(), 0);
    let held = holder.device.read(&ask(&holder, &holder.contexts(rng)).ok()).unwrap();
    assert!(held.ticket.is_some());
    std::thread::scope(|scope| {
        let mut rng_of = |at: usize| self::rng(rand::Rng::next_u64(rng) ^ at as u64);
        let play = |(at, user)| {
            let mut rng = rng_of(at);
            scope.spawn(move || {
                let user: &User = user;
                let rows: Vec<_> = (0..if at == 0 { 2 } else { 1 }).map(|_| random_rows(&mut rng)).collect();
                let several: Vec<&[Vec<f64>]> = rows.iter().map(Vec::as_slice).collect();
                let round = user.device.decide_several(&user.client, &several, &mut rng).unwrap();
                (rows, round)
            })
        };
        let threads: Vec<_> = users.iter().enumerate().map(play).collect();
        let mut rng_of_liar = rng_of(users.len());
        let spoilt = liar.map(|(liar, how, _)| {
            scope.spawn(move || {
                let contexts = long_contexts(liar, &mut rng_of_liar);
                spoil(liar, &contexts, how, &mut rng_of_liar)
            })
        });
        let all = users.len() + usize::from(liar.is_some_and(|(_, _, gathers)| gathers));
        while server.state.users_waiting(users[0].id()) < all {
            assert!(!threads.iter().any(|thread| thread.is_finished()), "nobody is answered yet");
            std::thread::sleep(Duration::from_millis(2));
        }
        let body = holder.device.raise(&held.tasks, held.ticket, rng).unwrap();
        holder.client.post_raises(holder.id(), holder.device.limits(), &body).unwrap();
        let mut second = None;
        let mut first = |thread: std::thread::ScopedJoinHandle<(Vec<_>, PlayedRound<Vec<Choice>>)>| {
            let (mut rows, round) = thread.join().unwrap();
            let PlayedRound { choice: mut choices, tasks, sent, received, repeats, unrepeated } = round;
            second = rows.drain(1..).zip(choices.drain(1..)).next().or(second.take());
            let choice = choices.remove(0);
            (rows.remove(0), PlayedRound { choice, tasks, sent, received, repeats, unrepeated })
        };
        let rounds = threads.into_iter().map(&mut first).collect();
        let spoilt = spoilt.map(|thread| thread.join().unwrap());
        Evaluated { rounds, second: second.unwrap(), spoilt }
    })
}

impl Evaluated {
    /// Every answer can be relied on, and is that of the twin for an evaluation whose last round is `last`.
    fn check(&self, twin: &mut ClearTwin, last: u64) {
        let (rows, choice) = &self.second;
        let rounds = self.rounds.iter().map(|(rows, round)| (rows, &round.choice));
        for (rows, choice) in rounds.chain([(rows, choice)]) {
            assert!(choice.reliable, "round {}: {:?}", choice.round, choice.values);
            let indices = twin.indices(rows, last, choice.model_feedbacks);
            let best = indices.iter().copied().fold(f64::MIN, f64::max);
            assert!(best - indices[choice.arm] < RESOLUTION, "{indices:?} {:?}", choice.values);
        }
    }

    /// The last round of an evaluation of all.
    fn last(&self) -> u64 {
        self.last_of_the_others().max(self.spoilt.as_ref().map_or(0, |choice| choice.round))
    }

    /// The last round of an evaluation without the sender of long contexts.
    fn last_of_the_others(&self) -> u64 {
        self.rounds.iter().map(|(_, round)| round.choice.round).chain([self.second.1.round]).max().unwrap()
    }
}

/// A sender whose contexts have norm 2 spoils the answers of all. It is found in ⌈log₂ n⌉ + 1 repeats, the
/// others get their right answers, and are evaluated together without it from then on. Without asking again
/// nobody has an answer.
#[test]
fn attack_a_sender_of_long_contexts_is_found() {
    let server =
        InProcess::open_with(TempDir::new().unwrap(), patient(Duration::from_secs(600)), Default::default());
    let mut rng = rng(21);
    // A decision counts once, however often it is asked for.
    let all = users(&server, 8, 1);
    let (liar, honest) = all.split_last().unwrap();
    let mut twin = ClearTwin::new(config());

    // The control: devices that may not ask again.
    let mute: Vec<User> = (0..3).map(|_| user(&server, liar.device.created(), 0)).collect();
    let other = user(&server, liar.device.created(), 0);
    let spoilt = evaluate(&server, &mute, Some((&other, Liar::IsSilent, true)), &mut rng);
    assert!(spoilt.rounds.iter().all(|(_, round)| !round.choice.reliable && round.repeats == 0));

    let asked_again = || {
        let seen: serde_json::Value = serde_json::from_slice(&server.device().get("/metrics").ok()).unwrap();
        seen["asked_again"].as_u64().unwrap()
    };
    assert_eq!(asked_again(), 0, "the control");
    let found = evaluate(&server, honest, Some((liar, Liar::AsksAgain, true)), &mut rng);
    assert!(asked_again() as usize >= honest.len());
    found.check(&mut twin, found.last());
    let repeats = found.rounds.iter().map(|(_, round)| round.repeats).max();
    assert!((1..=4).contains(&repeats.unwrap()), "{repeats:?}");
    assert!(!found.spoilt.as_ref().unwrap().reliable);

    // A repeat has the rounds and ids of the first answers, and each counts once.
    let mut ids: Vec<_> = found.rounds.iter().map(|(_, round)| round.choice.id.to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), honest.len());
    let before = honest[0].status();
    for (user, (rows, round)) in honest.iter().zip(&found.rounds) {
        user.feedback(rows, &round.choice, &mut rng);
        user.feedback(rows, &round.choice, &mut rng);
        let again = AskAgain { answers: round.repeats + 1 }.to_bytes();
        let path = user.path(&format!("/decisions/{}/again", round.choice.id));
        refused(user.http.post(&path, &again), 409, "answered");
    }
    let after = honest[0].settle(&mut rng);
    assert_eq!((after.feedbacks, after.round), (before.feedbacks + honest.len() as u64, before.round));

    assert_eq!(server.state.senders_alone(liar.id()), 1);
    for _ in 0..2 {
        let later = evaluate(&server, honest, Some((liar, Liar::IsSilent, false)), &mut rng);
        for (_, PlayedRound { choice, repeats, .. }) in &later.rounds {
            assert!(choice.reliable && *repeats == 0, "{:?}", choice.values);
            assert_eq!(choice.users as usize, honest.len() + 1, "the others are together");
        }
        assert_eq!(later.spoilt.unwrap().users, 1);
    }
}

/// A sender that does not ask again, as if it had a right answer, is found by elimination.
#[test]
fn attack_a_silent_sender_of_long_contexts_is_found() {
    let server =
        InProcess::open_with(TempDir::new().unwrap(), patient(Duration::from_secs(8)), Default::default());
    let mut rng = rng(22);
    let all = users(&server, 4, 55);
    let (liar, honest) = all.split_last().unwrap();
    let found = evaluate(&server, honest, Some((liar, Liar::IsSilent, true)), &mut rng);
    found.check(&mut ClearTwin::new(config()), found.last());
    assert!(found.rounds.iter().all(|(_, round)| round.repeats <= 3));
    // It is known when the time for asking again after the last repeat is over.
    wait_for("the sender is found", || server.state.senders_alone(liar.id()) == 1);
    let later = evaluate(&server, honest, Some((liar, Liar::IsSilent, false)), &mut rng);
    assert!(later.rounds.iter().all(|(_, round)| round.choice.users as usize == honest.len() + 1));
    later.check(&mut ClearTwin::new(config()), later.last_of_the_others());
}

#[track_caller]
fn refused(answer: Answer, status: u16, reason: &str) {
    let problem = answer.problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (status, Some(reason)), "{}", problem.detail);
}

/// Asks again by hand.
fn again(user: &User, choice: &Choice, answers: u32) -> Result<Vec<u8>, Error> {
    user.client.ask_again(user.id(), user.device.limits(), choice.id, answers)
}

#[track_caller]
fn reason(result: Result<Vec<u8>, Error>) -> String {
    match result {
        Err(Error::Refused(problem)) => problem.reason.unwrap(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was repeated"),
    }
}

/// A minority that asks again, without cause, is refused with the reason, and changes neither state nor log.
/// So is who asks twice, for another's decision, for none, after its feedback, or too late.
#[test]
fn attack_a_minority_that_asks_again_changes_nothing() {
    let server =
        InProcess::open_with(TempDir::new().unwrap(), patient(Duration::from_secs(8)), Default::default());
    let mut rng = rng(23);
    let all = users(&server, 4, 55);
    let evaluated = evaluate(&server, &all, None, &mut rng);
    let choices: Vec<&Choice> = evaluated.rounds.iter().map(|(_, round)| &round.choice).collect();
    let before = replay(server.folder.path(), all[0].id(), "snapshot");
    std::thread::scope(|scope| {
        // Two of four are no majority, and who asks twice has asked once.
        let wishes = [0, 0, 2].map(|at| {
            let (user, choice) = (&all[at], choices[at]);
            scope.spawn(move || reason(again(user, choice, 1)))
        });
        let path = |choice: &Choice| all[0].path(&format!("/decisions/{}/again", choice.id));
        // Another sender, who knows the id, and one without a tag.
        assert_eq!(reason(again(&all[1], choices[3], 1)), "other_sender");
        refused(
            all[0].http.post(&path(choices[3]), &AskAgain { answers: 1 }.to_bytes()),
            409,
            "other_sender",
        );
        // For an answer that it has not had.
        for answers in [0, 2, u32::MAX] {
            assert_eq!(reason(again(&all[3], choices[3], answers)), "asked_again");
        }
        for bad in [&b""[..], b"HLB8", &[7; 9]] {
            assert_eq!(all[0].http.post(&path(choices[3]), bad).problem().status, 400);
        }
        let unknown = all[0].path(&format!("/decisions/{}/again", "0".repeat(32)));
        refused(all[0].http.post(&unknown, &AskAgain { answers: 1 }.to_bytes()), 404, "unknown_decision");
        let stranger = all[0].http.with_token(None);
        refused(stranger.post(&path(choices[3]), b"x"), 401, "unauthorized");
        let [one, other, second] = wishes.map(|wish| wish.join().unwrap());
        let mut both = [one, other];
        both.sort();
        assert_eq!((both, &*second), (["asked_again", "too_few_asked"].map(String::from), "too_few_asked"));
    });
    for (user, choice) in all.iter().zip(&choices) {
        assert_eq!(reason(again(user, choice, 1)), "not_kept", "after the end");
    }
    let now = replay(server.folder.path(), all[0].id(), "snapshot");
    assert!(now.head == before.head && now.bytes == before.bytes, "the state changed");
    let (rows, round) = &evaluated.rounds[1];
    all[1].feedback(rows, &round.choice, &mut rng);
    assert_eq!(reason(again(&all[1], choices[1], 1)), "answered");
    assert!(evaluate(&server, &all, None, &mut rng).rounds.iter().all(|(_, round)| round.choice.users == 5));
}

/// Two of three senders ask again without cause while others share their evaluation. Nothing tells them from
/// users of whom the third has spoilt the answers, so that it is evaluated alone, and still gets right
/// answers. The control, a minority, is the test before.
#[test]
fn attack_a_majority_that_asks_again_takes_no_answer_from_another() {
    let server =
        InProcess::open_with(TempDir::new().unwrap(), patient(Duration::from_secs(8)), Default::default());
    let mut rng = rng(25);
    let all = users(&server, 3, 55);
    let evaluated = evaluate(&server, &all, None, &mut rng);
    std::thread::scope(|scope| {
        for (user, (_, round)) in all.iter().zip(&evaluated.rounds).skip(1) {
            let mut rng = self::rng(round.choice.round);
            scope.spawn(move || {
                let (id, mut answers, mut others) = (&round.choice, 1, true);
                while others {
                    let choice = finish(user, again(user, id, answers).unwrap(), &mut rng);
                    (answers, others) = (answers + 1, choice.users > 1);
                }
            });
        }
    });
    wait_for("the third is evaluated alone", || server.state.senders_alone(all[0].id()) == 1);
    let mut twin = ClearTwin::new(config());
    let rows = random_rows(&mut rng);
    let choice = all[0].decide(&rows, &mut rng);
    assert!(choice.reliable && choice.users == 1);
    let indices = twin.indices(&rows, choice.round, choice.model_feedbacks);
    let best = indices.iter().copied().fold(f64::MIN, f64::max);
    assert!(best - indices[choice.arm] < RESOLUTION, "{indices:?} {:?}", choice.values);
    assert_eq!(server.state.senders_alone(all[0].id()), 1);
}

/// Without memory for their contexts, in the open tier, alone, and by a policy in the clear, nobody is
/// answered again.
#[test]
fn where_no_contexts_are_kept_nothing_is_repeated() {
    let settings = Settings { context_memory: 1 << 10, ..patient(Duration::from_secs(600)) };
    let server = InProcess::open_with(TempDir::new().unwrap(), settings, Default::default());
    let mut rng = rng(24);
    let all = users(&server, 3, 55);
    let evaluated = evaluate(&server, &all, None, &mut rng);
    assert_eq!(reason(again(&all[0], &evaluated.rounds[0].1.choice, 1)), "not_kept");
    let alone = all[0].decide(&random_rows(&mut rng), &mut rng);
    assert_eq!(reason(again(&all[0], &alone, 1)), "not_kept");
    let open = User::create(server.device(), Answers::Scores);
    let choice = open.decide(&random_rows(&mut rng), &mut rng);
    assert_eq!(reason(again(&open, &choice, 1)), "alone");
    let device = server.device();
    let clear = device.post("/bandits", br#"{"policy": "ucb1", "arms": 2}"#).ok();
    let clear: wire::PolicyCreated = serde_json::from_slice(&clear).unwrap();
    let path = format!("/bandits/{}/decisions/{}/again", clear.id, choice.id);
    refused(device.post(&path, &AskAgain { answers: 1 }.to_bytes()), 409, "not_encrypted");
    refused(device.post(&format!("/bandits/{}/raises", clear.id), b"x"), 409, "not_encrypted");
    // Nor several decisions in a request.
    let path = format!("/bandits/{}/decisions", clear.id);
    refused(device.post_with(&path, (DECISIONS_HEADER, "2"), b""), 422, "bad_value");
}
