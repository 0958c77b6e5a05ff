//! Staged decisions over HTTP: a device, a server and a holder of the key that answers every step.

use crate::device::rng;
use crate::raiser::eventually;
use crate::server::Server;
use helba_server::Scope;
use protocol::{Answers, BanditConfig, Exchanging, WidthShape};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::ClearTwin;
use user_client::{BanditDevice, Client, Error, PlayedRound, Raiser, RaiserOptions, Stop};
use wire::DecideReply;

fn config() -> BanditConfig {
    BanditConfig { exchanges: Some(Exchanging::Staged), ..BanditConfig::new(4, 2) }
}

pub(crate) fn raiser(server: &Server, stop: &Stop) -> Raiser {
    let (stop, options) = (stop.clone(), RaiserOptions::default());
    Raiser::new(server.client(), server.device(), options, stop, rng(8), |_| ())
}

/// Stops a raiser, also when an assertion fails beside it.
pub(crate) struct Stopping<'a>(pub(crate) &'a Stop);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

pub(crate) fn context(seed: u64) -> Vec<f64> {
    let x: Vec<f64> = (0..4).map(|i| ((7 * seed + 3 * i * i + 1) as f64).sin()).collect();
    let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
    x.iter().map(|v| v / norm).collect()
}

/// Decisions of one and of several users are those of the twin, within the resolution of the comparison, with
/// the first model and with those that feedback gives.
#[test]
fn a_server_decides_in_stages() {
    let server = Server::start("127.0.0.1:0");
    let (client, device) = (server.client(), server.device());
    let created = client.create_encrypted(&config()).unwrap();
    let bandit = device.join(&created).unwrap();
    let stop = Stop::default();
    let raiser = raiser(&server, &stop);
    std::thread::scope(|scope| {
        let stopping = Stopping(&stop);
        let thread = scope.spawn(move || raiser.run());
        let (mut twin, mut rng) = (ClearTwin::new(created.config.clone()), rng(9));
        let mut learnt = 0;
        for seed in 0..22u64 {
            let rows =
                |b: u64| (0..2).map(|arm| context(1000 * seed + 100 * b + 31 * arm)).collect::<Vec<_>>();
            let all: Vec<Vec<Vec<f64>>> = (0..1 + 2 * (seed % 2)).map(rows).collect();
            let asked: Vec<&[Vec<f64>]> = all.iter().map(Vec::as_slice).collect();
            let round = bandit.decide_several(&client, &asked, &mut rng).unwrap();
            for (rows, choice) in all.iter().zip(&round.choice) {
                assert!(choice.reliable, "{:?}", choice.values);
                let indices = twin.indices(rows, choice.round, choice.model_feedbacks);
                let best = indices.iter().copied().fold(f64::MIN, f64::max);
                let range = created.config.linear.index_range(choice.round, choice.model_feedbacks);
                assert!(best - indices[choice.arm] <= range / 64.0, "{indices:?} {:?}", choice.values);
                learnt = learnt.max(choice.model_feedbacks);
            }
            for (rows, choice) in all.iter().zip(&round.choice) {
                let x = &rows[choice.arm];
                let feedback = bandit.feedback(choice.arm, x, x[0], None, &mut rng).unwrap();
                client.feedback_encrypted(&created.id, choice.id, &feedback).unwrap();
                twin.learn(x, x[0]);
            }
        }
        assert!(learnt > 0, "no model was installed");
        drop(stopping);
        thread.join().unwrap().unwrap();
    });
}

/// A decision takes one round trip, and one more for each exchange, of which stages have three here: no step
/// waits for a raiser that is on its way back.
#[test]
fn exchanges_take_a_round_trip_each() {
    // Far longer than a busy machine computes.
    let late = Duration::from_millis(800);
    let server = Server::start("127.0.0.1:0");
    let (client, device) = (server.client_behind(late), server.device());
    let rows = [context(1), context(2)];
    let trips = |config: &BanditConfig, exchanges: u32| {
        let bandit = device.join(&server.client().create_encrypted(config).unwrap()).unwrap();
        let stop = Stop::default();
        let of_raiser = (exchanges > 1).then(|| {
            let options =
                RaiserOptions { bandits: [bandit.created().id.clone()].into(), ..Default::default() };
            Raiser::new(client.clone(), server.device(), options, stop.clone(), rng(8), |_| ())
        });
        std::thread::scope(|scope| {
            let _stopping = Stopping(&stop);
            if let Some(raiser) = of_raiser {
                scope.spawn(move || raiser.run());
                eventually("both wait", || server.raisers_waiting(&bandit.created().id) == 2);
            }
            let began = Instant::now();
            bandit.decide(&client, &rows, &mut rng(1)).unwrap();
            let (took, trips) = (began.elapsed(), 2 * late * (1 + exchanges));
            assert!(took >= trips && took < trips + 2 * late * exchanges, "{exchanges}: {took:?}");
        });
    };
    trips(&config(), 3);
    trips(&BanditConfig::new(4, 2), 1);
}

/// Users of one evaluation get their own arms.
#[test]
fn users_share_a_staged_evaluation() {
    let server = Server::start("127.0.0.1:0");
    let (client, device) = (server.client(), server.device());
    let created = client.create_encrypted(&config()).unwrap();
    let bandit = device.join(&created).unwrap();
    let stop = Stop::default();
    let raiser = raiser(&server, &stop);
    std::thread::scope(|scope| {
        let stopping = Stopping(&stop);
        let thread = scope.spawn(move || raiser.run());
        let users: Vec<_> = (0..5u64)
            .map(|user| {
                let (bandit, created, client) = (&bandit, &created, server.client());
                scope.spawn(move || {
                    let mut rng = rng(20 + user);
                    let (rows, short) = (with_a_short_one(user), (user % 2) as usize);
                    let choice = bandit.decide(&client, &rows, &mut rng).unwrap().choice;
                    assert!(choice.reliable && choice.arm != short, "{:?}", choice.values);
                    let twin = ClearTwin::new(created.config.clone()).indices(&rows, choice.round, 0);
                    assert!(twin[choice.arm] > twin[short]);
                    choice.users
                })
            })
            .collect();
        let shared: Vec<u32> = users.into_iter().map(|user| user.join().unwrap()).collect();
        assert!(shared.iter().any(|users| *users > 1), "{shared:?}");
        drop(stopping);
        thread.join().unwrap().unwrap();
    });
}

/// Without a holder of the key a decision is refused at once, and the device is asked for nothing.
#[test]
fn no_user_answers_a_stage() {
    let server = Server::start("127.0.0.1:0");
    let (client, device) = (server.client(), server.device());
    let created = client.create_encrypted(&config()).unwrap();
    let bandit = device.join(&created).unwrap();
    let rows = vec![context(1), context(2)];
    let mut asking = bandit.ask(&[&rows], &mut rng(1)).unwrap();
    let body = asking.request().unwrap().body.to_vec();
    let refused = client.decide_several(&created.id, bandit.limits(), 1, &body);
    assert!(matches!(&refused, Err(Error::Refused(problem)) if problem.status == 503), "{:?}", refused.err());
    bandit.answered(&mut asking, refused, &mut rng(1)).unwrap();
    assert!(asking.request().is_some(), "it asks again");
}

/// A holder that comes for tasks and answers none.
struct Silent {
    stop: Stop,
    taken: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Silent {
    fn start<'s>(scope: &'s std::thread::Scope<'s, '_>, client: Client, bandit: &'s BanditDevice) -> Self {
        let silent = Silent { stop: Stop::default(), taken: Arc::default() };
        let (stop, taken) = (silent.stop.clone(), silent.taken.clone());
        scope.spawn(move || {
            while !stop.is_stopped() {
                let came = client.raises(&bandit.created().id, bandit.limits(), 1).unwrap();
                taken.lock().unwrap().extend(came);
            }
        });
        silent
    }

    fn taken(&self) -> usize {
        self.taken.lock().unwrap().len()
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// A silent holder costs one evaluation its patience, with the time of the bytes at 1 MB/s, and is asked for
/// nothing in the next minute, whether it is alone or not. Once it answers, though late, it is asked again.
#[test]
fn a_silent_holder_is_asked_once() {
    let patience = Duration::from_secs(8);
    let server = Server::start_patient("127.0.0.1:0", patience);
    let (client, device) = (server.client(), server.device());
    let created = [(); 2].map(|()| client.create_encrypted(&config()).unwrap());
    let [silent, good] = ["silent", "good"].map(|name| server.client_of(name, &[Scope::Raise]));
    let [alone, other] = created.each_ref().map(|created| device.join(created).unwrap());
    let rows = [context(1), context(2)];
    let stop = Stop::default();
    let options = RaiserOptions { bandits: [created[1].id.clone()].into(), ..RaiserOptions::default() };
    let raiser = Raiser::new(good.clone(), server.device(), options, stop.clone(), rng(8), |_| ());
    std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        let of_alone = Silent::start(scope, silent.clone(), &alone);
        eventually("it waits", || server.raisers_waiting(&created[0].id) == 1);
        let began = Instant::now();
        for _ in 0..2 {
            let refused = alone.decide(&client, &rows, &mut rng(1)).map(drop).unwrap_err();
            assert!(refused.to_string().contains("no holder of the key"), "{refused}");
        }
        // A device asks again three times, so that these were eight evaluations.
        let waited = began.elapsed();
        assert_eq!(of_alone.taken(), 1);
        let reply = of_alone.taken.lock().unwrap()[0].clone();
        let late = alone.raise(&alone.read(&reply).unwrap().tasks, None, &mut rng(2)).unwrap();
        let bytes = (reply.len() + late.len()) as f64;
        assert!(bytes > 4e5, "{bytes}");
        // But for the heads of both messages.
        assert!(waited >= patience + Duration::from_secs_f64(bytes / 1e6 - 1e-3), "{bytes}: {waited:?}");
        assert!(silent.post_raises(&created[0].id, alone.limits(), &late).is_err(), "the evaluation is over");
        alone.decide(&client, &rows, &mut rng(1)).map(drop).unwrap_err();
        assert_eq!(of_alone.taken(), 2);

        // It waits before the other one does.
        let beside = Silent::start(scope, silent.clone(), &other);
        eventually("it waits", || server.raisers_waiting(&created[1].id) == 1);
        scope.spawn(move || raiser.run());
        eventually("both wait", || server.raisers_waiting(&created[1].id) == 3);
        // Whose turn is first depends on when their requests came.
        let decide = |seed| {
            let round = other.decide(&client, &rows, &mut rng(seed)).unwrap();
            assert!(round.choice.reliable, "{:?}", round.choice.values);
            beside.taken()
        };
        assert!((0..50).any(|seed| decide(seed) == 1));
        assert!((50..54).all(|seed| decide(seed) == 1));
    });
}

/// A silent holder has a task of an update for five seconds, once: then another one that waits gets it, and
/// all tasks of the next minute.
#[test]
fn a_silent_holder_holds_up_one_update() {
    let server = Server::start("127.0.0.1:0");
    let (client, device) = (server.client(), server.device());
    let base = BanditConfig { answers: Answers::Scores, open_model: true, ..BanditConfig::new(4, 2) };
    let mut config = BanditConfig { exchanges: None, ..base };
    config.linear.schedule = bandit::Schedule::EveryRound;
    let created = client.create_encrypted(&config).unwrap();
    let joined = device.join(&created).unwrap();
    let [silent, good] = ["silent", "good"].map(|name| server.client_of(name, &[Scope::Raise]));
    let stop = Stop::default();
    let raiser = Raiser::new(good, server.device(), RaiserOptions::default(), stop.clone(), rng(8), |_| ());
    std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        let silent = Silent::start(scope, silent.clone(), &joined);
        eventually("it waits", || server.raisers_waiting(&created.id) == 1);
        let play = |seed| {
            let rows = [context(seed), context(seed + 1)];
            let choice = joined.decide(&client, &rows, &mut rng(seed)).unwrap().choice;
            let feedback = joined.feedback(0, &rows[0], 0.5, None, &mut rng(seed)).unwrap();
            client.feedback_encrypted(&created.id, choice.id, &feedback).unwrap();
        };
        let learnt = || client.encrypted(&created.id).unwrap().status.model_feedbacks;
        play(1);
        eventually("it has the task", || silent.taken() == 1);
        let began = Instant::now();
        scope.spawn(move || raiser.run());
        eventually("the first update", || learnt() == 1);
        // It had the task a moment before this clock began.
        assert!(began.elapsed() > Duration::from_secs(3), "{:?}", began.elapsed());
        for feedbacks in 2..5 {
            play(10 * feedbacks);
            eventually("the next update", || learnt() == feedbacks);
        }
        assert_eq!(silent.taken(), 1);
    });
}

/// A holder of the key that moves the maximum of a user makes all entries small, as an honest holder does of
/// contexts that leave the range. The device does not rely on such an answer, though all its entries are
/// within the range of honest ones. The control: without the move it does.
#[test]
fn attack_answers_without_a_winner_are_not_relied_on() {
    let server = Server::start("127.0.0.1:0");
    let (client, device) = (server.client(), server.device());
    let created = client.create_encrypted(&config()).unwrap();
    let (id, bandit) = (&created.id, device.join(&created).unwrap());
    let bundle = wire::PublicBundle::read(&crate::server::keys().0[..]).unwrap();
    let of_decisions = bundle.decisions.as_ref().map(|keys| (keys.evaluator.params().clone(), keys.key_id));
    let (params, key) = of_decisions.unwrap_or((bundle.params.clone(), bundle.key_id));
    let level = protocol::levels::PRODUCTS_LEVEL;
    // Adds to all slots of the maxima, under their mask.
    let moved = |frame: &[u8], by: f64| {
        let mut masked = ckks::read_ciphertext(&params, key, level, frame).unwrap();
        let scale = params.scale(level);
        let constant = [vec![(by * scale) as i64], vec![0; params.n() - 1]].concat();
        let constant = ckks::Plaintext::from_integers(&params, &constant, level, scale).unwrap();
        let evaluator = ckks::Evaluator::new(params.clone(), ckks::EvaluationKeys::default());
        evaluator.add_plain_assign(&mut masked, &constant).unwrap();
        ckks::write_ciphertext(&params, key, &masked)
    };
    let decide = |by: f64| {
        let asking = bandit.ask(&[&[context(1), context(2)]], &mut rng(1)).unwrap();
        let body = asking.request().unwrap().body.to_vec();
        std::thread::scope(|scope| {
            let reply = scope.spawn(|| {
                eventually("a holder waits", || server.raisers_waiting(id) == 1);
                client.decide_several(id, bandit.limits(), 1, &body).unwrap()
            });
            let mut steps = 0;
            while !reply.is_finished() {
                let Some(tasks) = client.raises(id, bandit.limits(), 2).unwrap() else { continue };
                let mut tasks = DecideReply::read(&tasks, bandit.limits()).unwrap();
                steps += 1;
                if steps == 2 {
                    tasks.tasks[0].masked[0] = moved(&tasks.tasks[0].masked[0], by);
                }
                let tasks = bandit.read(&tasks.to_bytes()).unwrap().tasks;
                let raises = bandit.raise(&tasks, None, &mut rng(2)).unwrap();
                client.post_raises(id, bandit.limits(), &raises).unwrap();
            }
            assert_eq!(steps, 3);
            bandit.read(&reply.join().unwrap()).unwrap().choice.unwrap()
        })
    };
    let (honest, moved) = (decide(0.0), decide(0.5));
    assert!(honest.reliable, "{:?}", honest.values);
    assert!(!moved.reliable && moved.values.iter().all(|entry| entry.abs() < 0.25), "{:?}", moved.values);
}

/// A holder that comes for tasks with many requests at once, and from its second evaluation on answers for
/// ciphertexts that it was sent before.
struct Liar<'a> {
    client: Client,
    bandit: &'a BanditDevice<'a>,
    stop: &'a Stop,
    /// Frames by their lengths.
    seen: Mutex<BTreeMap<usize, Vec<u8>>>,
    lies: AtomicBool,
    answered: AtomicUsize,
}

impl Liar<'_> {
    fn answer_tasks(&self, seed: u64) {
        let (id, limits) = (&self.bandit.created().id, self.bandit.limits());
        while !self.stop.is_stopped() {
            let Ok(Some(reply)) = self.client.raises(id, limits, 20) else { continue };
            let mut reply = DecideReply::read(&reply, limits).unwrap();
            for frame in reply.tasks.iter_mut().flat_map(|task| &mut task.masked) {
                let mut seen = self.seen.lock().unwrap();
                let kept = seen.entry(frame.len()).or_insert_with(|| frame.clone());
                if self.lies.load(SeqCst) {
                    frame.clone_from(kept);
                }
            }
            let tasks = self.bandit.read(&reply.to_bytes()).unwrap().tasks;
            let raises = self.bandit.raise(&tasks, None, &mut rng(seed)).unwrap();
            self.answered.fetch_add(1, SeqCst);
            // An evaluation that is over takes nothing.
            let _ = self.client.post_raises(id, limits, &raises);
        }
    }
}

/// Contexts of two arms, of which that of arm `user` modulo 2 is shorter: with the first model all of norm 1
/// tie.
fn with_a_short_one(user: u64) -> Vec<Vec<f64>> {
    let mut rows = vec![context(user), context(user + 50)];
    rows[(user % 2) as usize].iter_mut().for_each(|x| *x *= 0.3);
    rows
}

/// Users whose answers a holder has spoilt get right ones from another: the repeat goes to the other one,
/// though the liar has waited for longer, and has more requests that wait.
#[test]
fn attack_a_liar_is_not_asked_for_the_repeat() {
    let server = Server::start("127.0.0.1:0");
    let created = server.client().create_encrypted(&config()).unwrap();
    let device = server.device();
    let bandit = device.join(&created).unwrap();
    let [liar, honest, owner] = [("liar", Scope::Raise), ("honest", Scope::Raise), ("owner", Scope::Admin)]
        .map(|(name, scope)| server.client_of(name, &[scope]));
    let stop = Stop::default();
    let (seen, lies, answered) = (Mutex::default(), AtomicBool::new(false), AtomicUsize::new(0));
    let liar = Liar { client: liar, bandit: &bandit, stop: &stop, seen, lies, answered };
    let raiser = Raiser::new(honest, server.device(), RaiserOptions::default(), stop.clone(), rng(8), |_| ());
    std::thread::scope(|scope| {
        let stopping = Stopping(&stop);
        (0..16).for_each(|seed| {
            drop(scope.spawn({
                let liar = &liar;
                move || liar.answer_tasks(seed)
            }))
        });
        eventually("the liar waits", || server.raisers_waiting(&created.id) == 16);
        let decide = |user: u64| {
            let device = server.device().with_most_repeats(20);
            device
                .join(&created)
                .unwrap()
                .decide(&server.client(), &with_a_short_one(user), &mut rng(user))
                .unwrap()
        };
        // Of one user and of several, so that it has seen all lengths.
        assert!(decide(0).choice.reliable);
        liar.lies.store(true, SeqCst);
        eventually("it waits again", || server.raisers_waiting(&created.id) == 16);
        scope.spawn(move || raiser.run());
        eventually("both wait", || server.raisers_waiting(&created.id) == 18);
        let mut repeated = 0;
        for turn in 0..20 {
            let users: Vec<_> = (0..4).map(|user| scope.spawn(move || decide(4 * turn + user))).collect();
            for (user, round) in users.into_iter().enumerate() {
                let PlayedRound { choice, repeats, .. } = round.join().unwrap();
                if repeats > 0 {
                    assert!(choice.reliable && choice.arm != user % 2, "{repeats} {:?}", choice.values);
                    repeated += 1;
                }
            }
            if repeated > 0 {
                break;
            }
        }
        assert!(repeated > 0, "no evaluation of several users");
        drop(stopping);
        owner.delete(&created.id).unwrap();
    });
}

/// A task with another map, step, number of users or ciphertext is refused before anything is decrypted, and
/// so is an answer that nobody was asked for.
#[test]
fn attack_hostile_stages_are_refused() {
    use protocol::TaskKind;
    use wire::{RaiseTask, Raised, Raises};
    let server = Server::start("127.0.0.1:0");
    let (client, device) = (server.client(), server.device());
    let created = client.create_encrypted(&config()).unwrap();
    let bandit = device.join(&created).unwrap();
    let user = std::thread::spawn({
        let (client, rows, device) = (server.client(), [context(1), context(2)], server.device());
        let created = created.clone();
        move || {
            std::thread::sleep(Duration::from_millis(500));
            device.join(&created).unwrap().decide(&client, &rows, &mut rng(1)).map(drop)
        }
    });
    let reply = client.raises(&created.id, bandit.limits(), 20).unwrap().unwrap();
    let good = DecideReply::read(&reply, bandit.limits()).unwrap().tasks.remove(0);
    let read = |task: RaiseTask| {
        bandit.read(&DecideReply { tasks: vec![task], ..DecideReply::default() }.to_bytes()).map(|_| ())
    };
    read(good.clone()).unwrap();
    let TaskKind::Stage { step, users, factors, hash } = good.kind else { panic!("{:?}", good.kind) };
    assert_eq!(step, 0);
    let mut other = hash;
    other[0] ^= 1;
    let with = |kind| RaiseTask { kind, ..good.clone() };
    for kind in [
        TaskKind::Stage { step, users, factors, hash: other },
        TaskKind::Stage { step: 1, users, factors, hash },
        TaskKind::Stage { step: 99, users, factors, hash },
        TaskKind::Stage { step, users: 2 * users, factors, hash },
        TaskKind::Stage { step, users, factors: [factors[1], factors[0] + 0.1, 1.0], hash },
    ] {
        assert!(matches!(read(with(kind)), Err(Error::BadTask(_))), "{kind:?}");
    }
    let mut short = good.clone();
    short.masked.pop();
    assert!(read(short).is_err());
    // A frame that is cut short is no ciphertext.
    let mut broken = good.clone();
    broken.masked[0].truncate(100);
    assert!(read(broken).is_err());
    let answer = |task: u64, frames: Vec<Vec<u8>>| {
        let raised = vec![(task, Raised::Exchanged(frames))];
        client.post_raises(&created.id, bandit.limits(), &Raises { ticket: None, raised }.to_bytes())
    };
    assert!(answer(good.id ^ 1, vec![vec![1]]).is_err(), "nobody was asked");
    assert!(answer(good.id, vec![vec![1]]).is_err(), "no ciphertexts");
    let tasks = bandit.read(&reply).unwrap().tasks;
    let raises = bandit.raise(&tasks, None, &mut rng(2)).unwrap();
    client.post_raises(&created.id, bandit.limits(), &raises).unwrap();
    assert!(client.post_raises(&created.id, bandit.limits(), &raises).is_err(), "a second answer");

    // Ciphertexts of the next step are in another ring, and what it wants is at another level.
    let next = client.raises(&created.id, bandit.limits(), 20).unwrap().unwrap();
    let step = DecideReply::read(&next, bandit.limits()).unwrap().tasks.remove(0);
    let masked = good.masked.iter().zip(step.masked.iter().cycle()).map(|(_, other)| other.clone()).collect();
    assert!(read(RaiseTask { masked, ..good.clone() }).is_err(), "another ring");
    let answer_of = |raises: &[u8]| match &Raises::read(raises, bandit.limits()).unwrap().raised[0].1 {
        Raised::Exchanged(frames) => frames.clone(),
        other => panic!("{other:?}"),
    };
    let tasks = bandit.read(&next).unwrap().tasks;
    let right = bandit.raise(&tasks, None, &mut rng(3)).unwrap();
    let contexts = bandit.ask(&[&[context(1), context(2)]], &mut rng(4)).unwrap();
    for (what, frames) in [
        ("another level", answer_of(&raises)),
        ("another ring", vec![contexts.request().unwrap().body.to_vec()]),
    ] {
        let frames = frames.into_iter().cycle().take(answer_of(&right).len()).collect();
        let refused = answer(step.id, frames).map(drop).unwrap_err();
        assert!(matches!(&refused, Error::Refused(problem) if problem.status == 400), "{what}: {refused}");
    }
    client.post_raises(&created.id, bandit.limits(), &right).unwrap();
    // The next step is asked for and nobody answers.
    assert!(user.join().unwrap().is_err());
}

/// A token for decisions neither gets a stage nor answers one, and is told the scope that this needs. The
/// answer of the owner's token is taken afterwards.
#[test]
fn attack_a_token_for_decisions_answers_no_stage() {
    let server = Server::start("127.0.0.1:0");
    let created = server.client().create_encrypted(&config()).unwrap();
    let device = server.device();
    let bandit = device.join(&created).unwrap();
    let (id, limits) = (&created.id, bandit.limits());
    let [owner, user] = [("owner", Scope::Raise), ("user", Scope::Decide)]
        .map(|(name, scope)| server.client_of(name, &[scope]));
    let is_refused = |error: Error| {
        let Error::Refused(problem) = &error else { panic!("{error}") };
        assert_eq!(problem.reason.as_deref(), Some("forbidden_scope"));
        assert!(
            problem.detail.contains("the scope `raise`") && !problem.detail.contains("ticket"),
            "{error}"
        );
    };
    is_refused(user.raises(id, limits, 0).map(drop).unwrap_err());
    std::thread::scope(|scope| {
        let decided = scope.spawn(|| {
            eventually("the owner waits", || server.raisers_waiting(id) == 1);
            bandit.decide(&user, &[context(1), context(2)], &mut rng(1)).map(drop)
        });
        let tasks = bandit.read(&owner.raises(id, limits, 20).unwrap().unwrap()).unwrap().tasks;
        let raises = bandit.raise(&tasks, None, &mut rng(2)).unwrap();
        is_refused(user.post_raises(id, limits, &raises).map(drop).unwrap_err());
        owner.post_raises(id, limits, &raises).unwrap();
        // The owner leaves, and the user is not asked.
        let error = decided.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("no holder of the key"), "{error}");
    });
}

/// What stages do not have is refused with the name of the field.
#[test]
fn configurations_without_stages_are_refused() {
    let server = Server::start("127.0.0.1:0");
    let mut root = config();
    root.linear.width = WidthShape::Root.width(1.0);
    let mut trace = config();
    trace.linear.schedule = bandit::Schedule::TraceOrGrowth;
    for (config, field) in [
        (root, "linear.width"),
        (trace, "linear.schedule"),
        (BanditConfig { answers: Answers::Scores, open_model: true, ..config() }, "answers"),
        (BanditConfig { comparison_bits: 8, ..config() }, "comparison_bits"),
    ] {
        let refused = server.client().create_encrypted(&config).unwrap_err().to_string();
        assert!(refused.contains(field) && refused.contains("staged"), "{refused}");
    }
}
