//! Rounds end to end: lone users, users who share an evaluation, and who raises for them.

use crate::fixture::*;
use crate::users::*;
use helba_server::{Connections, Settings};
use protocol::{Answers, BanditConfig, Counters, LEAST_COUNTED};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use user_client::{Choice, Error, ReadReply};

/// The model learns what pays, up to noise and what few rounds show.
const LEARNT: f64 = 0.9;

fn start(answers: Answers) -> (InProcess, User) {
    let server = InProcess::start(Settings::default());
    let user = User::create(server.device(), answers);
    (server, user)
}

/// Evaluations in a ring of their own: a device alone, several of one bandit together, and the description of
/// the keys. Another server of the same keys continues.
#[test]
fn evaluations_in_a_ring_of_their_own_decide_as_the_twin() {
    let (state, keys) = (TempDir::new().unwrap(), tangent_keys());
    let start = || Program::spawn(&mut command(&keys.public_file(), state.path(), "127.0.0.1:0"));
    let server = start();
    let user = User::create_with(Device::new(server.address, keys), &every_round(Answers::Arm));
    let (history, mut first) = (History::default(), rng(31));
    (0..4).for_each(|_| drop(user.round(&history, &mut first)));
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (user, history) = (&user, &history);
            scope.spawn(move || {
                let mut rng = rng(40 + seed);
                (0..4).for_each(|_| drop(user.round(history, &mut rng)));
            });
        }
    });
    let shown = Device::new(server.address, keys).get("/keys");
    let manifest: wire::Manifest = serde_json::from_slice(&shown.ok()).unwrap();
    assert_eq!(manifest.decisions.as_ref().map(|own| &own.ring.params[..]), Some("toy-logn12-depth11"));
    server.kill();
    let server = start();
    let user = user.at(server.address);
    (0..2).for_each(|_| drop(user.round(&history, &mut first)));
    user.settle(&mut first);
    assert_eq!(user.status().feedbacks, 18);
    let learnt = history.check();
    assert!(learnt > LEARNT, "{learnt}");
}

/// A device that is alone raises its own scores, and the sums and models of the bandit beside them. In the
/// open tier nothing is raised for a decision.
#[test]
fn a_lone_device_needs_nobody() {
    for answers in [Answers::Arm, Answers::Scores] {
        let (_server, user) = start(answers);
        let (history, mut rng) = (History::default(), rng(1));
        for round in 1..=14 {
            let receipt = user.round(&history, &mut rng);
            assert_eq!(receipt.feedbacks, round);
            if round % 4 == 0 {
                user.settle(&mut rng);
            }
        }
        let status = user.status();
        assert_eq!((status.round, status.feedbacks, status.pending_decisions), (14, 14, 0));
        assert!(status.refreshes >= 3 && status.model_feedbacks >= 8, "{status:?}");
        let learnt = history.check();
        assert!(learnt > LEARNT, "{answers:?}: {learnt}");
    }
}

/// A device that decides for several users sends one request for all. Each decision is the twin's, and has a
/// round and a feedback of its own.
#[test]
fn several_decisions_share_a_request() {
    for answers in [Answers::Arm, Answers::Scores] {
        let (_server, user) = start(answers);
        let (history, mut rng) = (History::default(), rng(5));
        let most = user.device.most_decisions();
        assert_eq!(most, 64);
        for several in [3, 1, most, 6] {
            let first = history.len() as u64 + 1;
            let choices = user.decide_several(several, &mut rng);
            assert_eq!(choices.len(), several);
            for (at, (rows, choice)) in choices.into_iter().enumerate() {
                assert_eq!((choice.round, choice.users as usize), (first + at as u64, several));
                let receipt = user.feedback(&rows, &choice, &mut rng);
                history.add(rows, choice, &receipt);
            }
            user.settle(&mut rng);
        }
        let status = user.status();
        assert_eq!((status.round, status.feedbacks, status.pending_decisions), (74, 74, 0));
        let learnt = history.check();
        assert!(learnt > LEARNT, "{answers:?}: {learnt}");
    }
}

/// Counters are shown for whole groups, the same bytes with the same noise after a restart, and only of
/// bandits that have them.
#[test]
fn counters_are_shown_and_stored() {
    let server = InProcess::start(Settings::default());
    let counters = Some(Counters { every: LEAST_COUNTED, rho: Some(0.5) });
    let config = BanditConfig { counters, ..encrypted(Answers::Scores) };
    let (user, mut rng) = (User::create_with(server.device(), &config), rng(9));
    let label = user.device.created().label.clone().unwrap();
    assert!(label.contains("compute the model") && label.contains("rho = 0.5"), "{label}");
    let shown = |user: &User| user.http.get(&user.path("/counters")).ok();
    for counted in 0..LEAST_COUNTED {
        assert_eq!(user.device.open_counters(&shown(&user)).unwrap().feedbacks, 0);
        let rows = random_rows(&mut rng);
        let choice = user.decide(&rows, &mut rng);
        assert_eq!(user.feedback(&rows, &choice, &mut rng).feedbacks, counted + 1);
    }
    let before = shown(&user);
    let opened = user.device.open_counters(&before).unwrap();
    assert_eq!((opened.feedbacks, opened.deviation), (LEAST_COUNTED, 2.0));
    let pulls = opened.total().pulls;
    assert!(pulls.fract() != 0.0 && (pulls - 10.0).abs() < 6.0 * 2.0 * (K as f64).sqrt(), "{pulls}");

    let server = server.restart();
    let user = user.at(server.address);
    assert_eq!(shown(&user), before);
    let device = server.device();
    let plain = User::create(server.device(), Answers::Scores);
    let problem = device.get(&plain.path("/counters")).problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (409, Some("no_counters")));
    assert!(matches!(plain.device.open_counters(&before), Err(Error::Wire(_))));
    let clear = device.post("/bandits", br#"{"policy": "ucb1", "arms": 2}"#).ok();
    let clear: wire::PolicyCreated = serde_json::from_slice(&clear).unwrap();
    let problem = device.get(&format!("/bandits/{}/counters", clear.id)).problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (409, Some("not_encrypted")));
}

/// Users on threads of their own share evaluations, some of them for several others. A raiser that waits for
/// tasks raises.
#[test]
fn users_share_evaluations() {
    let (_server, user) = start(Answers::Arm);
    let (history, over) = (History::default(), AtomicBool::new(false));
    let (users, rounds) = (6, 5);
    let several = |seed: u64| if seed.is_multiple_of(3) { 5 } else { 1 };
    let decisions = (10..10 + users).map(|seed| several(seed) as u64).sum::<u64>() * rounds;
    let most = std::thread::scope(|scope| {
        let raiser = scope.spawn(|| user.raise_until(|| over.load(Ordering::Relaxed), &mut rng(2)));
        let (user, history) = (&user, &history);
        let decide = |seed| {
            move || {
                let (mut rng, mut most) = (rng(seed), 0);
                for _ in 0..rounds {
                    for (rows, choice) in user.decide_several(several(seed), &mut rng) {
                        most = most.max(choice.users);
                        let receipt = user.feedback(&rows, &choice, &mut rng);
                        history.add(rows, choice, &receipt);
                    }
                }
                most
            }
        };
        let threads: Vec<_> = (10..10 + users).map(|seed| scope.spawn(decide(seed))).collect();
        let most = threads.into_iter().map(|thread| thread.join().unwrap()).max();
        // On a busy machine decisions are faster than updates.
        let began = Instant::now();
        while user.status().refreshes < 2 && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(50));
        }
        over.store(true, Ordering::Relaxed);
        assert!(raiser.join().unwrap() > 0, "it raised");
        most
    });
    assert!(most > Some(5), "no evaluation was shared");
    assert_eq!(history.len() as u64, decisions);
    let status = user.status();
    assert_eq!(status.feedbacks, decisions);
    assert!(status.refreshes >= 2, "{status:?}");
    // All arms are the twin's. How near its model is to the truth depends on which users were first.
    history.check();
}

/// Evaluations with as many users as there is room for, and with half of them. Every user has an answer of
/// its own, whatever the others are.
#[test]
fn evaluations_are_full_and_half_full() {
    // No bound depends on the speed of the machine.
    let ages = Duration::from_secs(3600);
    let settings =
        Settings { raise_timeout: ages, raise_turn: ages, last_raise: ages, ..Settings::default() };
    let connections = Connections { most: 2000, most_an_address: 2000, head: ages, ..Connections::default() };
    let server = InProcess::open_with(TempDir::new().unwrap(), settings, connections);
    let user = User::create(server.device(), Answers::Arm);
    let most = user.device.created().plan.users;
    let (history, mut rng) = (History::default(), rng(3));
    for _ in 0..4 {
        user.round(&history, &mut rng);
    }
    user.settle(&mut rng);
    for users in [most, most / 2] {
        let users: Vec<_> = (0..users as u64)
            .map(|seed| {
                let rows = random_rows(&mut rng);
                let contexts = user.device.contexts(&rows, &mut rng).unwrap();
                (rows, contexts, self::rng(100 + seed))
            })
            .collect();
        // Its turn is taken by a user who is asked, and comes back when all others have gathered.
        let first = user.device.read(&ask(&user, &user.contexts(&mut rng)).ok()).unwrap();
        assert!(first.ticket.is_some());
        let count = users.len();
        let choices: Vec<_> = std::thread::scope(|scope| {
            let decide = |(rows, contexts, mut rng): (Vec<Vec<f64>>, Vec<u8>, _)| {
                let user = &user;
                scope.spawn(move || {
                    let reply = user.device.read(&ask(user, &contexts).ok()).unwrap();
                    let choice = match reply.choice {
                        Some(choice) => choice,
                        None => redeem(user, reply, &mut rng).unwrap(),
                    };
                    (rows, choice)
                })
            };
            let mut users = users.into_iter();
            let mut threads: Vec<_> = users.by_ref().take(count - 1).map(decide).collect();
            let wait_while = |threads: &[std::thread::ScopedJoinHandle<_>], of: &dyn Fn(usize) -> bool| {
                while of(server.state.users_waiting(user.id())) {
                    assert!(!threads.iter().any(|thread| thread.is_finished()), "nobody is answered yet");
                    std::thread::sleep(Duration::from_millis(2));
                }
            };
            wait_while(&threads, &|waiting| waiting < count - 1);
            threads.extend(users.map(decide));
            // A full pack is closed at once.
            wait_while(&threads, &|waiting| waiting == count - 1);
            redeem(&user, first, &mut rng).unwrap();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let together = choices.iter().filter(|(_, choice)| choice.users as usize == count).count();
        assert_eq!(together, count, "all share one evaluation");
        // The batch stays small, so that one update makes the model that the twin has.
        for (at, (rows, choice)) in choices.into_iter().enumerate() {
            if at >= 4 {
                history.saw(rows, choice);
                continue;
            }
            let receipt = user.feedback(&rows, &choice, &mut rng);
            history.add(rows, choice, &receipt);
        }
        user.settle(&mut rng);
    }
    history.check();
}

/// A device that is asked to raise and never comes back costs the others two seconds, and no answer.
#[test]
fn the_next_one_raises_for_a_device_that_is_gone() {
    let (_server, user) = start(Answers::Arm);
    let (user, gone, users) = (&user, &AtomicUsize::new(0), 4);
    let mut shared = false;
    for attempt in 0..6 {
        let barrier = &Barrier::new(users);
        gone.store(0, Ordering::Relaxed);
        let began = Instant::now();
        let answered: Vec<Choice> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..users as u64)
                .map(|seed| {
                    scope.spawn(move || {
                        let mut rng = rng(10 * attempt + seed);
                        let contexts = user.contexts(&mut rng);
                        barrier.wait();
                        let reply = user.device.read(&ask(user, &contexts).ok()).unwrap();
                        if let Some(choice) = reply.choice {
                            return Some(choice);
                        }
                        // The first one who is asked forgets it.
                        if gone.fetch_add(1, Ordering::Relaxed) == 0 {
                            return None;
                        }
                        Some(redeem(user, reply, &mut rng).unwrap())
                    })
                })
                .collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(answered.len(), users - 1, "all others have an answer");
        assert!(answered.iter().all(|choice| choice.reliable));
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        if answered.iter().any(|choice| choice.users == users as u32) {
            assert!(began.elapsed() > Duration::from_secs(2), "{:?}", began.elapsed());
            shared = true;
            break;
        }
    }
    assert!(shared, "no evaluation was shared by all users");
}

/// Raises what a user was asked for, and returns its decision.
fn redeem(user: &User, reply: ReadReply, rng: &mut rand_chacha::ChaCha20Rng) -> Result<Choice, Error> {
    let body = user.device.raise(&reply.tasks, reply.ticket, rng)?;
    let reply = user.client.post_raises(user.id(), user.device.limits(), &body)?;
    Ok(user.device.read(&reply)?.choice.expect("a decision for the ticket"))
}

/// A user whose raise comes second has its decision all the same.
#[test]
fn a_raise_that_comes_second_is_answered() {
    let (_server, user) = start(Answers::Arm);
    let mut rng = rng(5);
    let contexts = user.contexts(&mut rng);
    let first = user.device.read(&ask(&user, &contexts).ok()).unwrap();
    let raises = user.device.raise(&first.tasks, first.ticket, &mut rng).unwrap();
    let without = user.device.raise(&first.tasks, None, &mut rng).unwrap();
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| user.http.post(&user.path("/raises"), &without));
        (user.http.post(&user.path("/raises"), &raises), one.join().unwrap())
    });
    // Either is first. The evaluation may end before the second is read.
    for answer in [one, two] {
        if answer.status != 200 {
            assert_eq!(answer.problem().reason.as_deref(), Some("task_over"));
        }
    }
    assert!(user.decide(&random_rows(&mut rng), &mut rng).reliable);
}

/// Where raisers take tasks and answer none, users get an error in bounded time, and the next evaluation is
/// as any other.
#[test]
fn without_a_raise_users_are_refused_in_bounded_time() {
    let timeout = Duration::from_secs(3);
    let settings = Settings { raise_timeout: timeout, ..Settings::default() };
    let server = InProcess::start(settings);
    let user = User::create(server.device(), Answers::Arm);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let reply = user.http.get(&user.path("/raises?wait=1"));
                assert!(reply.status == 200 || reply.status == 204, "{}", reply.status);
            }
        });
        std::thread::sleep(Duration::from_millis(100));
        let began = Instant::now();
        let problem = ask(&user, &user.contexts(&mut rng(6))).problem();
        assert_eq!((problem.status, problem.reason.as_deref()), (503, Some("not_evaluated")), "{problem:?}");
        assert!(began.elapsed() < timeout + Duration::from_secs(4), "{:?}", began.elapsed());
        over.store(true, Ordering::Relaxed);
    });
    // Nobody raises for the ticket of a user who waited: its evaluation has ended.
    let mut rng = rng(7);
    let reply = user.device.read(&ask(&user, &user.contexts(&mut rng)).ok()).unwrap();
    std::thread::sleep(timeout + Duration::from_secs(3));
    let Err(Error::Refused(problem)) = redeem(&user, reply, &mut rng) else { panic!("the task is over") };
    assert_eq!((problem.status, problem.reason.as_deref()), (409, Some("task_over")));
    assert!(user.decide(&random_rows(&mut rng), &mut rng).reliable);
}

/// No more users wait than there are places. A user who leaves keeps its place until its evaluation has
/// ended.
#[test]
fn attack_users_who_leave_take_no_more_than_their_places() {
    let settings = Settings { max_waiting: 2, raise_timeout: Duration::from_secs(9), ..Settings::default() };
    let server = InProcess::open_with(TempDir::new().unwrap(), settings, Default::default());
    let user = User::create(server.device(), Answers::Arm);
    let mut rng = rng(8);
    let contexts = user.contexts(&mut rng);
    // Both are asked, and are gone with that.
    for _ in 0..2 {
        assert!(user.device.read(&ask(&user, &contexts).ok()).unwrap().ticket.is_some());
    }
    let began = Instant::now();
    let problem = ask(&user, &contexts).problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (503, Some("overloaded")));
    wait_for("a place", || ask(&user, &contexts).status == 200);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn documents() {
    let server = InProcess::start(Settings { max_bandits: 2, ..Settings::default() });
    let device = server.device();
    assert_eq!(device.get("/health").ok(), br#"{"status":"ok"}"#);
    let manifest: wire::Manifest = serde_json::from_slice(&device.get("/keys").ok()).unwrap();
    assert_eq!(manifest, keys().bundle.manifest);
    assert_eq!(device.get("/bandits").ok(), b"[]");
    let first = device.create(&encrypted(Answers::Arm));
    assert_eq!((&first.key_id, &first.fingerprint), (&manifest.ring.key_id, &manifest.ring.fingerprint));
    let second = device.create(&every_round(Answers::Arm));
    let mut list: Vec<wire::Created> = serde_json::from_slice(&device.get("/bandits").ok()).unwrap();
    list.sort_by_key(|created| created.id == second.id);
    assert_eq!(list, [first, second]);
    let config = serde_json::to_vec(&encrypted(Answers::Arm)).unwrap();
    let problem = device.post("/bandits", &config).problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (507, Some("too_many_bandits")));
}
