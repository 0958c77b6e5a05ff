//! Policies in the clear whose users answer an intermediary, or send shares: each learns, every batch counts
//! once.

use crate::clear::{
    MEANS, contexts, create, decide, decided, elimination, feedback, refused, shuffled, view,
};
use crate::fixture::*;
use bandit::Policy;
use bandit::distributed::{EliminationConfig, Model};
use glm::shuffle::{ShuffleGlm, Summation};
use helba_server::Settings;
use privacy::Ratio;
use privacy::task::{Ask, DeviceBounds, Task};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use secure_sum::{Aggregator, BanditTask, Collector, Party, http};
use serde_json::{Value, json};
use wire::Counted;

/// A batch of `users` shares of `arm`, as users' devices make them and a shuffler lets them out.
fn shares(config: &EliminationConfig, awaited: &Task, rng: &mut ChaCha20Rng) -> Value {
    let mechanism = config.mechanism(awaited.batch).unwrap();
    assert_eq!(mechanism.users(), awaited.users);
    let (arm, counts) = match awaited.ask {
        Ask::Share { arm, modulus, .. } if modulus == mechanism.modulus() => (arm, false),
        Ask::Count { arm, margin, .. } if margin == mechanism.margin() => (arm, true),
        _ => panic!("{awaited:?}"),
    };
    let share = |_| {
        let reward = f64::from(rng.random::<f64>() < MEANS[arm]);
        if counts { mechanism.ones(reward, rng) } else { mechanism.randomise(reward, rng) }.unwrap()
    };
    let shares: Vec<u64> = (0..awaited.users).map(share).collect();
    json!({"exchange": awaited.exchange, "users": awaited.users, "labels": [shares]})
}

/// Users add the noise, the service sees sums: the best arm is left, every batch counts once, over restarts
/// too.
#[test]
fn learns_from_sums_of_shares() {
    let delta = privacy::budget::Delta::new(1e-9).unwrap();
    for (model, name) in [(Model::Pure, "pure"), (Model::Bits { delta }, "shuffle")] {
        let (config, mut rng) = (elimination(model, 4), ChaCha20Rng::seed_from_u64(6));
        let mut server = InProcess::start(Settings::default());
        let mut request = json!({"policy": "elimination", "model": name, "arms": 5, "horizon": 100_000, "epsilon": 4,
            "confidence": 0.1});
        if name == "shuffle" {
            request["delta"] = 1e-9.into();
        }
        let id = create(&server.device(), &request).id;
        let mut users = 0;
        while let Some(awaited) = view(&server.device(), &id).awaited {
            let (Ask::Share { arm, .. } | Ask::Count { arm, .. }) = awaited.ask else {
                panic!("{awaited:?}")
            };
            assert_eq!(decided(&server.device(), &id, None).arm, Some(arm));
            let batch = shares(&config, &awaited, &mut rng);
            let first = shuffled(&server.device(), &id, &batch).ok();
            users += awaited.users;
            if awaited.exchange % 7 == 0 {
                server = server.restart();
            }
            assert_eq!(shuffled(&server.device(), &id, &batch).ok(), first, "counted once");
            let counted: Counted = serde_json::from_slice(&first).unwrap();
            assert_eq!((counted.feedbacks, counted.privacy.spent.unwrap().epsilon), (users, 4.0));
        }
        assert!(users < 20_000, "{users}");
        assert_eq!(decided(&server.device(), &id, None).arm, Some(0));
    }
}

/// As above, with two aggregators and a collector between; more users are asked than are needed, and some
/// drop out.
#[test]
fn learns_through_aggregators() {
    let mut rng = ChaCha20Rng::seed_from_u64(10);
    let server = InProcess::start(Settings::default());
    let request = json!({"policy": "elimination", "model": "pure", "arms": 5, "horizon": 100_000, "epsilon": 4,
        "confidence": 0.1});
    let id = create(&server.device(), &request).id;
    let service = Party::new(format!("http://{}", server.address)).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let aggregators = [(); 2].map(|()| {
        runtime.block_on(async {
            let routes = http::aggregator(Aggregator::default(), None);
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(async move { axum::serve(listener, routes).await });
            Party::new(format!("http://{address}")).unwrap()
        })
    });
    let collector = Collector::new(aggregators.clone());
    let (mut number, mut estimates) = (0, 0);
    while let Some(awaited) = view(&server.device(), &id).awaited {
        // What users need to know of the bandit is what it says itself. A quarter more than needed are asked;
        // the noise is sized for those needed.
        let awaiting = BanditTask::ask(&service, &id).unwrap();
        let (arm, invited) = (awaiting.arm().unwrap(), awaited.users * 4 / 3);
        let batch = awaiting.batch(&DeviceBounds::default()).unwrap();
        assert_eq!(u64::from(batch.at_least()), awaited.users);
        number += 1;
        collector.announce(batch.id(number)).unwrap();
        // Every fifth batch lacks a user, and every other one has one more than it needs.
        let lacks = number % 5 == 0;
        let answer = awaited.users + u64::from(number % 2 == 0 && invited > awaited.users);
        for user in 0..invited {
            let reward = f64::from(rng.random::<f64>() < MEANS[arm]);
            let value = batch.randomise(reward, &mut rng).unwrap();
            let both = if lacks { user + 1 < awaited.users } else { user < answer };
            let sent = secure_sum::reports(batch.id(number), value, &mut rng);
            for (party, report) in aggregators.iter().zip(&sent).take(if both { 2 } else { 1 }) {
                party.report(report).unwrap();
            }
        }
        let handed = collector.deliver(&service, &id, number);
        if lacks {
            assert!(matches!(handed, Err(secure_sum::Error::TooFew { .. })), "{handed:?}");
            continue;
        }
        assert_eq!(handed.unwrap(), awaited.exchange);
        estimates += 1;
        assert_eq!(view(&server.device(), &id).created.privacy.spent.unwrap().epsilon, 4.0);
    }
    assert!(estimates > 8 && number < 60, "{estimates} of {number}");
    assert_eq!(decided(&server.device(), &id, None).arm, Some(0));
    assert!(collector.deliver(&service, &id, number + 1).is_err(), "the bandit waits for nothing");
}

/// Shares that are private by themselves go to the server; users beyond those of a batch are asked for none.
#[test]
fn learns_from_shares() {
    let (config, mut rng) = (elimination(Model::Local, 8), ChaCha20Rng::seed_from_u64(7));
    let server = InProcess::start(Settings::default());
    let device = server.device();
    let request = json!({"policy": "elimination", "model": "local", "arms": 2, "horizon": 100_000, "epsilon": 8,
        "confidence": 0.1});
    let id = create(&device, &request).id;
    let mut unasked = 0;
    for _ in 0..16 {
        // Three users at once; batches have powers of two, so that some find theirs full.
        let users = [(); 3].map(|()| decided(&device, &id, None));
        for user in users.iter().rev() {
            let arm = user.arm.unwrap();
            let batch = user.awaited.as_ref().map_or(1, |awaited| awaited.batch);
            let mechanism = config.mechanism(batch).unwrap();
            let share = json!({"share": mechanism.randomise(MEANS[arm], &mut rng).unwrap()});
            let answer = feedback(&device, &id, &user.decision, &share);
            if user.awaited.is_some() {
                answer.ok();
            } else {
                unasked += 1;
                refused(answer, 409, "settled", &user.decision);
            }
        }
    }
    let view = view(&device, &id);
    assert_eq!(view.feedbacks, 48 - unasked);
    assert!(unasked > 2 && view.awaited.unwrap().batch >= 3, "{unasked}");
}

/// Local shares: no arm is named when no batch fits within the horizon, and no feedback is asked for when one
/// arm is left.
#[test]
fn the_end_of_an_elimination_is_said() {
    let server = InProcess::start(Settings::default());
    let device = server.device();
    for (horizon, means, ends) in [(9, [0.5, 0.5], 409), (100_000, [1.0, 0.0], 200)] {
        let config = EliminationConfig {
            confidence: 0.1,
            ..EliminationConfig::new(2, horizon, Model::Local, Ratio::integer(20))
        };
        let request = json!({"policy": "elimination", "model": "local", "arms": 2, "horizon": horizon, "epsilon": 20,
            "confidence": 0.1});
        let (id, mut rng) = (create(&device, &request).id, ChaCha20Rng::seed_from_u64(11));
        while let Some(awaited) = view(&device, &id).awaited {
            let user = decided(&device, &id, None);
            let mechanism = config.mechanism(awaited.batch).unwrap();
            let share = mechanism.randomise(means[user.arm.unwrap()], &mut rng).unwrap();
            feedback(&device, &id, &user.decision, &json!({"share": share})).ok();
        }
        if ends == 409 {
            refused(decide(&device, &id, None), 409, "over", "the horizon of 9 rounds is over");
        } else {
            let user = decided(&device, &id, None);
            assert_eq!((user.arm, user.awaited), (Some(0), None));
            let answer = feedback(&device, &id, &user.decision, &json!({"share": 1}));
            refused(answer, 409, "settled", "asks for no feedback");
        }
    }
}

/// ShuffleGLM end to end: devices choose from what is published and send bits; the service sees counts. The
/// metric comes out within its noise, and the estimates point where the rewards do.
#[test]
fn learns_from_shuffled_bits() {
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let mut server = InProcess::start(Settings::default());
    let request = json!({"policy": "shuffle-glm", "arms": 3, "features": 2, "batches": [4000, 4000], "epsilon": 14,
        "delta": 0.01, "gamma": 0.5, "steps": 4});
    let created = create(&server.device(), &request);
    // The device's view of the policy, as the crate has it.
    let config = device_config();
    let mut device = serde_json::to_value(ShuffleGlm::new(config.clone()).unwrap()).unwrap();
    for batch in 1..=2 {
        let decided = decided(&server.device(), &created.id, None);
        assert_eq!((decided.arm, decided.published.len()), (None, batch - 1));
        device["published"] = decided.published.into();
        let mut policy: ShuffleGlm = serde_json::from_value(device.clone()).unwrap();
        let rows: Vec<(Vec<f64>, f64, f64)> = (0..4000)
            .map(|_| {
                let set = contexts(2, 3, &mut rng);
                let x = set.row(policy.decide(&set, &mut rng).unwrap()).unwrap().to_vec();
                let mean = config.problem.link.mean(0.9 * x[0] - 0.4 * x[1]);
                (x.clone(), policy.device().weight(&x), f64::from(rng.random::<f64>() < mean))
            })
            .collect();
        let mut steps = 0;
        loop {
            let awaited = view(&server.device(), &created.id).awaited;
            let Some(awaited) = awaited.filter(|a| a.batch == batch as u32) else { break };
            let (summation, columns): (_, Vec<Vec<f64>>) = match &awaited.ask {
                Ask::Metric { entries, .. } => {
                    assert_eq!(*entries, 3);
                    let entry = |i: usize, j: usize| rows.iter().map(|(x, w, _)| w * x[i] * x[j]).collect();
                    (config.matrix_sum(batch - 1).unwrap(), vec![entry(0, 0), entry(0, 1), entry(1, 1)])
                }
                Ask::Gradient { at, .. } => {
                    steps += 1;
                    let gradient = |i: usize| {
                        let of = |(x, _, r): &(Vec<f64>, f64, f64)| {
                            (config.problem.link.mean(at[0] * x[0] + at[1] * x[1]) - r) * x[i]
                        };
                        rows.iter().map(of).collect()
                    };
                    (config.gradient_sum(batch - 1).unwrap(), vec![gradient(0), gradient(1)])
                }
                other => panic!("{other:?}"),
            };
            let Summation::Bits(bits) = summation else { panic!("{summation:?}") };
            // What is asked for says how.
            let (Ask::Metric { bits: asked, .. } | Ask::Gradient { bits: asked, .. }) = awaited.ask else {
                panic!()
            };
            assert_eq!(
                (asked.bound, asked.steps, asked.noise),
                (bits.bound(), bits.steps(), bits.noise_bits())
            );
            let count = |column: &Vec<f64>| vec![bits.shuffle(column, &mut rng).unwrap()];
            let labels: Vec<Vec<u64>> = columns.iter().map(count).collect();
            let message = json!({"exchange": awaited.exchange, "users": 4000, "labels": labels});
            let first = shuffled(&server.device(), &created.id, &message).ok();
            server = server.restart();
            assert_eq!(shuffled(&server.device(), &created.id, &message).ok(), first);
        }
        assert_eq!(steps, 4);
        let now = view(&server.device(), &created.id);
        assert_eq!((now.feedbacks, now.created.privacy.spent.unwrap().epsilon), (4000 * batch as u64, 14.0));
        let published: glm::shuffle::Batch =
            serde_json::from_value(now.published[batch - 1].clone()).unwrap();
        let (lambda, _) = config.lambda(batch - 1).unwrap();
        let sd = config.matrix_sum(batch - 1).unwrap().sd();
        let exact: f64 = rows.iter().map(|(x, w, _)| w * x[0] * x[0]).sum();
        let got = published.metric.values()[0] - lambda;
        assert!((got - exact).abs() < 6.0 * sd + 1.0, "batch {batch}: {got} against {exact}, noise {sd}");
        assert!(published.theta[0] > published.theta[1], "{:?}", published.theta);
    }
    assert_eq!(view(&server.device(), &created.id).awaited, None);
}

fn device_config() -> glm::shuffle::ShuffleConfig {
    let parameters = json!({"arms": 3, "features": 2, "batches": [4000, 4000], "epsilon": 14.0, "delta": 0.01,
        "gamma": 0.5, "steps": 4});
    serde_json::from_value::<glm::shuffle::ShuffleParameters>(parameters).unwrap().config().unwrap()
}
