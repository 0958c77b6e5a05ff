//! Staged decisions over HTTP: a device, a server and a holder of the key that answers every step.

use crate::device::rng;
use crate::raiser::eventually;
use crate::server::Server;
use protocol::{Answers, BanditConfig, Exchanging, WidthShape};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::ClearTwin;
use user_client::{BanditDevice, Client, Error, Raiser, RaiserOptions, Stop};

fn config() -> BanditConfig {
    BanditConfig { exchanges: Some(Exchanging::Staged), ..BanditConfig::new(4, 2) }
}

fn raiser(server: &Server, stop: &Stop) -> Raiser {
    let (stop, options) = (stop.clone(), RaiserOptions::default());
    Raiser::new(server.client(), server.device(), options, stop, rng(8), |_| ())
}

/// Stops a raiser, also when an assertion fails beside it.
struct Stopping<'a>(&'a Stop);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn context(seed: u64) -> Vec<f64> {
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
                    // With the first model all contexts of norm 1 tie, so that one of each user is shorter.
                    let short = (user % 2) as usize;
                    let mut rows = vec![context(user), context(user + 50)];
                    rows[short].iter_mut().for_each(|x| *x *= 0.3);
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

/// A silent holder costs one evaluation its patience, and is asked for nothing in the next minute, whether it
/// is alone or not. Once it answers, though late, it is asked again.
#[test]
fn a_silent_holder_is_asked_once() {
    let patience = Duration::from_secs(8);
    let server = Server::start_patient("127.0.0.1:0", patience);
    let (client, device) = (server.client(), server.device());
    let created = [(); 2].map(|()| client.create_encrypted(&config()).unwrap());
    let [silent, good] = ["silent", "good"].map(|name| server.client_of(name, &[helba_server::Scope::Raise]));
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
        assert_eq!(of_alone.taken(), 1);
        assert!(began.elapsed() >= patience);
        let reply = of_alone.taken.lock().unwrap()[0].clone();
        let late = alone.raise(&alone.read(&reply).unwrap().tasks, None, &mut rng(2)).unwrap();
        assert!(silent.post_raises(&created[0].id, alone.limits(), &late).is_err(), "the evaluation is over");
        alone.decide(&client, &rows, &mut rng(1)).map(drop).unwrap_err();
        assert_eq!(of_alone.taken(), 2);

        // It waits before the other one does.
        let beside = Silent::start(scope, silent.clone(), &other);
        eventually("it waits", || server.raisers_waiting(&created[1].id) == 1);
        scope.spawn(move || raiser.run());
        eventually("both wait", || server.raisers_waiting(&created[1].id) == 3);
        for seed in 0..4 {
            let round = other.decide(&client, &rows, &mut rng(seed)).unwrap();
            assert!(round.choice.reliable, "{:?}", round.choice.values);
            assert_eq!(beside.taken(), 1);
        }
    });
}

/// A task with another map, step, number of users or ciphertext is refused before anything is decrypted, and
/// so is an answer that nobody was asked for.
#[test]
fn attack_hostile_stages_are_refused() {
    use protocol::TaskKind;
    use wire::{DecideReply, RaiseTask, Raised, Raises};
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
    // Another ciphertext at the right place of the message is of the ring of scores too; one of none is not.
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
    // The next step is asked for and nobody answers.
    assert!(user.join().unwrap().is_err());
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
