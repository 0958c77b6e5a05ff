//! Arms that come and go, over HTTP: closed arms are never played, whatever the scores, and nobody sees that
//! they are closed.

use crate::device::{Bundles, rng};
use crate::server::Server;
use crate::staged::{Stopping, raiser};
use bandit::Schedule;
use keygen::{Request, generate};
use protocol::{BanditConfig, Error as Refused, Exchanging, Shape, Updates, is_open};
use rand::RngExt;
use rand_chacha::ChaCha20Rng;
use std::sync::OnceLock;
use std::time::Duration;
use testkit::ClearTwin;
use user_client::{BanditDevice, Client, Error, Stop};

const FEATURES: usize = 4;
const ARMS: usize = 6;

/// The resolution of the comparison, in units of the range of indices.
const RESOLUTION: f64 = 1.0 / 64.0;

fn keys(exchanges: Exchanging) -> &'static Bundles {
    static KEYS: [OnceLock<Bundles>; 2] = [const { OnceLock::new() }; 2];
    let of = usize::from(exchanges == Exchanging::Staged);
    KEYS[of].get_or_init(|| {
        let request = Request {
            shape: Shape::for_problem(FEATURES, ARMS),
            security: keygen::Security::None,
            width: Default::default(),
            updates: Updates::Products,
            exchanges,
            keys: Default::default(),
            created: 0,
        };
        let (mut public, mut secret) = (Vec::new(), Vec::new());
        generate(request, &mut public, &mut secret, &mut rng(31 + of as u64), |_, _| ()).unwrap();
        (public, secret)
    })
}

fn start(exchanges: Exchanging) -> Server {
    Server::start_with(keys(exchanges), "127.0.0.1:0", Duration::from_secs(3600))
}

fn unit(rng: &mut ChaCha20Rng) -> Vec<f64> {
    let x: Vec<f64> = (0..FEATURES).map(|_| rng.random_range(-1.0..1.0)).collect();
    let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
    x.into_iter().map(|x| x / norm).collect()
}

/// Contexts whose open arms are any, or the worst for this estimate, or nearly equal.
fn contexts(omega: &[f64], rng: &mut ChaCha20Rng) -> Vec<Vec<f64>> {
    let kind = rng.random_range(0..3);
    let (one, length) = (unit(rng), omega.iter().map(|w| w * w).sum::<f64>().sqrt().max(1e-9));
    let near = |centre: &dyn Fn(usize) -> f64, rng: &mut ChaCha20Rng| -> Vec<f64> {
        unit(rng).iter().enumerate().map(|(f, x)| 0.9 * centre(f) + 0.1 * x).collect()
    };
    let mut rows: Vec<Vec<f64>> = (0..ARMS)
        .map(|_| match kind {
            _ if rng.random_bool(0.5) => Vec::new(),
            0 => unit(rng),
            1 => near(&|f| -omega[f] / length, rng),
            _ => near(&|f| one[f], rng),
        })
        .collect();
    if !rows.iter().any(|x| is_open(x)) {
        rows[rng.random_range(0..ARMS)] = unit(rng);
    }
    rows
}

/// Plays so many rounds, most with closed arms, in requests for one and for several decisions, and checks
/// them by the twin. Rewards are near ±1, so that predictions are as large as they get.
fn play(client: &Client, bandit: &BanditDevice, rounds: usize, seed: u64) -> [usize; 2] {
    let config = &bandit.created().config;
    let (mut twin, mut rng) = (ClearTwin::new(config.clone()), rng(seed));
    let (mut done, mut learnt, mut equal) = (0, 0, 0);
    while done < rounds {
        let omega: Vec<f64> = twin.model().1.iter().copied().collect();
        let count = if rng.random_bool(0.5) { 1 } else { bandit.most_decisions().min(8) };
        let all: Vec<Vec<Vec<f64>>> = (0..count).map(|_| contexts(&omega, &mut rng)).collect();
        let asked: Vec<&[Vec<f64>]> = all.iter().map(Vec::as_slice).collect();
        let round = bandit.decide_several(client, &asked, &mut rng).unwrap();
        for (rows, choice) in all.iter().zip(&round.choice) {
            assert!(choice.reliable, "{:?}", choice.values);
            assert!(is_open(&rows[choice.arm]), "{:?}", choice.values);
            let indices = twin.indices(rows, choice.round, choice.model_feedbacks);
            let best = indices.iter().copied().fold(f64::MIN, f64::max);
            let range = config.linear.index_range(choice.round, choice.model_feedbacks);
            assert!(best - indices[choice.arm] <= RESOLUTION * range, "{indices:?} {:?}", choice.values);
            equal += usize::from(indices[choice.arm] == best);
            learnt = learnt.max(choice.model_feedbacks);
            done += 1;
        }
        // One feedback a request, so that models are few.
        let (rows, choice) = (&all[0], &round.choice[0]);
        let x = &rows[choice.arm];
        let reward = (4.0 * x[0] - 2.0 * x[1]).tanh();
        let feedback = bandit.feedback(choice.arm, x, reward, None, &mut rng).unwrap();
        client.feedback_encrypted(&bandit.created().id, choice.id, &feedback).unwrap();
        twin.learn(x, reward);
    }
    assert!(learnt > 0, "no model was installed");
    [done, equal]
}

/// By one raise and in stages.
fn plays(rounds: usize) {
    for exchanges in [Exchanging::One, Exchanging::Staged] {
        let server = start(exchanges);
        let mut config = BanditConfig::new(FEATURES, ARMS);
        config.linear.schedule = Schedule::Every { rounds: 8 };
        let created = server.client().create_encrypted(&config).unwrap();
        assert_eq!(created.plan.exchanges, exchanges);
        let device = server.device();
        let bandit = device.join(&created).unwrap();
        let stop = Stop::default();
        let raiser = raiser(&server, &stop);
        std::thread::scope(|scope| {
            let stopping = Stopping(&stop);
            let thread = scope.spawn(move || raiser.run());
            let [done, equal] = play(&server.client(), &bandit, rounds, 5);
            println!("{exchanges:?}: {done} decisions, {equal} with the arm of the twin");
            drop(stopping);
            thread.join().unwrap().unwrap();
        });
    }
}

#[test]
fn no_closed_arm_is_played() {
    plays(100);
}

/// 2,000 decisions: `cargo test -p user-client --test all two_thousand -- --ignored --nocapture`.
#[test]
#[ignore = "minutes; the test above plays 200"]
fn no_closed_arm_is_played_in_two_thousand_decisions() {
    plays(1000);
}

/// The request with closed arms has the bytes of one without, but for its encryption; a decision without an
/// open arm is refused before it is sent, and a closed arm gets no feedback.
#[test]
fn nobody_sees_closed_arms() {
    let server = start(Exchanging::One);
    let device = server.device();
    let created = server.client().create_encrypted(&BanditConfig::new(FEATURES, ARMS)).unwrap();
    let (bandit, mut rng) = (device.join(&created).unwrap(), rng(6));
    let all: Vec<Vec<f64>> = (0..ARMS).map(|_| unit(&mut rng)).collect();
    let mut some = all.clone();
    some[2] = Vec::new();
    let [whole, closed] = [&all, &some].map(|rows| bandit.contexts(rows, &mut rng).unwrap());
    assert_eq!(whole.len(), closed.len());
    let refused = bandit.ask(&[&vec![Vec::new(); ARMS]], &mut rng).map(drop).unwrap_err();
    assert!(matches!(refused, Error::Protocol(Refused::NoOpenArm)), "{refused}");
    let refused = bandit.feedback(2, &some[2], 1.0, None, &mut rng).unwrap_err();
    assert!(matches!(refused, Error::Protocol(Refused::ClosedArm { row: 1 })), "{refused}");
}
