//! Keys that were made for stages: their bandits decide in stages without being told to, learn by products,
//! and refuse what stages do not have.

use crate::fixture::*;
use protocol::{BanditConfig, Exchanging, TaskKind, Updates, WidthShape};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::ClearTwin;
use user_client::{BanditDevice, Client, Error};

/// More features than keys of one raise carry, and arms of [`stage_keys`].
const FEATURES: usize = 20;
const ARMS: usize = 5;

/// For decisions of a machine that is so loaded that its holder of the key answers too late.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with these keys, and a client of it.
fn serve(keys: &'static Keys, state: &Path) -> (Program, Client) {
    let server = Program::spawn(&mut command(&keys.public_file(), state, "127.0.0.1:0"));
    let token = wire::AccessToken::from_bytes(keys.token().as_bytes()).unwrap();
    let client = Client::new(Device::new(server.address, keys).server()).unwrap().with_token(token);
    (server, client)
}

fn rows(rng: &mut ChaCha20Rng) -> Vec<Vec<f64>> {
    let mut unit = || {
        let x: Vec<f64> = (0..FEATURES).map(|_| rng.random_range(-1.0..1.0)).collect();
        let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        x.into_iter().map(|x| x / norm).collect()
    };
    (0..ARMS).map(|_| unit()).collect()
}

/// Ends the tasks of [`raise`], also when an assertion fails beside it.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Answers the tasks of a bandit until `over`, and counts those of stages and of updates.
fn raise(device: &BanditDevice, client: &Client, over: &AtomicBool) -> [usize; 2] {
    let (id, mut rng, mut counts) = (&device.created().id, ChaCha20Rng::seed_from_u64(2), [0; 2]);
    while !over.load(Relaxed) {
        let Some(reply) = client.raises(id, device.limits(), 1).unwrap() else { continue };
        let tasks = device.read(&reply).unwrap().tasks;
        for task in &tasks {
            match task.kind() {
                TaskKind::Stage { .. } => counts[0] += 1,
                TaskKind::Product { .. } => counts[1] += 1,
                other => panic!("{other:?}"),
            }
        }
        let body = device.raise(&tasks, None, &mut rng).unwrap();
        // On a loaded machine an answer may come after the patience of its evaluation.
        let taken = client.post_raises(id, device.limits(), &body);
        assert!(matches!(taken, Ok(_) | Err(Error::Refused(_))), "{taken:?}");
    }
    counts
}

/// Without a word of exchanges in its creation, a bandit on these keys is staged. It decides as the twin,
/// with the first model and with learnt ones.
#[test]
fn keys_of_stages_decide_in_stages() {
    let state = TempDir::new().unwrap();
    let (_server, client) = serve(stage_keys(), state.path());
    let mut config = BanditConfig::new(FEATURES, ARMS);
    config.linear.schedule = bandit::Schedule::Every { rounds: 3 };
    let created = client.create_encrypted(&config).unwrap();
    let plan = &created.plan;
    assert_eq!((plan.exchanges, plan.updates), (Exchanging::Staged, Updates::Products));
    let device = stage_keys().device().join(&created).unwrap();
    let over = AtomicBool::new(false);
    let counts = std::thread::scope(|scope| {
        let raiser = scope.spawn(|| raise(&device, &client, &over));
        let ends = Over(&over);
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let (mut twin, mut learnt) = (ClearTwin::new(config.clone()), 0);
        // Decisions go on while an update is under way, for as long as that takes.
        for round in 0.. {
            if round >= 14 && learnt >= 6 {
                break;
            }
            assert!(round < 400, "{learnt}");
            let rows = rows(&mut rng);
            let began = Instant::now();
            let choice = loop {
                match device.decide(&client, &rows, &mut rng) {
                    Err(error) if error.is_temporary() && began.elapsed() < PATIENCE => {}
                    decided => break decided.unwrap().choice,
                }
            };
            assert!(choice.reliable, "{:?}", choice.values);
            let indices = twin.indices(&rows, choice.round, choice.model_feedbacks);
            let best = indices.iter().copied().fold(f64::MIN, f64::max);
            let range = config.linear.index_range(choice.round, choice.model_feedbacks);
            assert!(best - indices[choice.arm] <= range / 64.0, "{indices:?} {:?}", choice.values);
            learnt = learnt.max(choice.model_feedbacks);
            let x = &rows[choice.arm];
            let feedback = device.feedback(choice.arm, x, x[0], None, &mut rng).unwrap();
            client.feedback_encrypted(&created.id, choice.id, &feedback).unwrap();
            twin.learn(x, x[0]);
        }
        drop(ends);
        raiser.join().unwrap()
    });
    // Four exchanges of a user alone, and some nine of an update.
    assert!(counts[0] >= 14 * 4 && counts[1] >= 9, "{counts:?}");
}

/// What these keys do not serve is refused with the name of the field, and what keys of one raise do not
/// serve with the flag of keys that do.
#[test]
fn what_contradicts_keys_of_stages_is_refused() {
    let states = [(); 2].map(|()| TempDir::new().unwrap());
    let (_server, client) = serve(stage_keys(), states[0].path());
    let good = BanditConfig::new(FEATURES, ARMS);
    let mut root = good.clone();
    root.linear.width = WidthShape::Root.width(1.0);
    let mut trace = good.clone();
    trace.linear.schedule = bandit::Schedule::TraceOrGrowth;
    let one = BanditConfig { exchanges: Some(Exchanging::One), ..good };
    for (config, field, flag) in [
        (root, "linear.width", "tangent"),
        (trace, "linear.schedule", "public"),
        (one, "exchanges", "helba-keygen create --exchanges one"),
    ] {
        let refused = client.create_encrypted(&config).unwrap_err().to_string();
        assert!(refused.contains(field) && refused.contains(flag), "{refused}");
    }
    let (_server, client) = serve(keys(), states[1].path());
    let refused = client.create_encrypted(&BanditConfig::new(17, 5)).unwrap_err().to_string();
    assert!(refused.contains("`helba-keygen create --exchanges staged --features 17 --arms 5`"), "{refused}");
}

/// Times are predicted for keys of stages too.
#[test]
fn times_of_stages_are_predicted() {
    let mut check = Command::new(env!("CARGO_BIN_EXE_helba-server"));
    let out = check.args(["check", "--json", "--keys"]).arg(stage_keys().public_file()).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let seconds = &json["kernels"][0]["seconds"][0];
    assert!(seconds["holder"].as_f64().unwrap() > 0.0 && json["features"] == 32, "{json}");
}
