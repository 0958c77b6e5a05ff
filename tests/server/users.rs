//! Users of encrypted bandits over HTTP, their exact twin, and what a server has stored of them.

use crate::fixture::*;
use hash_log::Head;
use helba::DeepEngine;
use helba::{EncryptedBandit, Engine, Event};
use protocol::{Answers, BanditConfig, Receipt, Status};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use testkit::ClearTwin;
use user_client::{BanditDevice, Choice, Client};
use wire::{BanditView, Created, PublicBundle, ScoreKeys};

/// What pays in every test here.
const THETA: [f64; D] = [0.8, -0.6];
/// How much less than the best index of the twin that of the arm played may be: the resolution of the
/// comparison on toy keys, as in the tests of `helba`.
const RESOLUTION: f64 = 1e-2;

pub(crate) fn encrypted(answers: Answers) -> BanditConfig {
    let open_model = answers == Answers::Scores;
    BanditConfig { answers, open_model, ..BanditConfig::new(D, K) }
}

/// A batch ends after every feedback, so that two rounds see every phase.
pub(crate) fn every_round(answers: Answers) -> BanditConfig {
    let mut config = encrypted(answers);
    config.linear.schedule = bandit::Schedule::EveryRound;
    config
}

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// A device of an encrypted bandit. Threads may share it.
pub(crate) struct User {
    /// Speaks HTTP by hand.
    pub(crate) http: Device,
    pub(crate) client: Client,
    pub(crate) device: BanditDevice<'static>,
}

impl User {
    /// A new bandit, and a user of it.
    pub(crate) fn create(http: Device, answers: Answers) -> Self {
        Self::create_with(http, &encrypted(answers))
    }

    pub(crate) fn create_with(http: Device, config: &BanditConfig) -> Self {
        let created = http.create(config);
        Self::join(http, &created)
    }

    pub(crate) fn join(http: Device, created: &Created) -> Self {
        let client = client(&http);
        let device = http.keys.device().join(created).unwrap();
        User { http, client, device }
    }

    /// The same user with a device that answers `most` trace questions.
    pub(crate) fn answering(self, most: u64) -> Self {
        let bundle = std::fs::read(self.http.keys.secret_file()).unwrap();
        let device = user_client::Device::read(&bundle[..]).unwrap().with_most_answers(most);
        let device = Box::leak(Box::new(device)).join(self.device.created()).unwrap();
        User { device, ..self }
    }

    /// The same user after the server started again.
    pub(crate) fn at(self, address: SocketAddr) -> Self {
        let http = Device::new(address, self.http.keys);
        User { client: client(&http), http, device: self.device }
    }

    pub(crate) fn id(&self) -> &str {
        &self.device.created().id
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/bandits/{}{rest}", self.id())
    }

    pub(crate) fn status(&self) -> Status {
        let body = self.http.get(&self.path("")).ok();
        serde_json::from_slice::<BanditView>(&body).unwrap().status
    }

    pub(crate) fn contexts(&self, rng: &mut ChaCha20Rng) -> Vec<u8> {
        self.device.contexts(&random_rows(rng), rng).unwrap()
    }

    /// Asks for a decision and raises what it is asked for.
    pub(crate) fn decide(&self, rows: &[Vec<f64>], rng: &mut ChaCha20Rng) -> Choice {
        self.device.play(&self.client, rows, rng).unwrap().choice
    }

    /// Asks for several decisions in one request, and raises what it is asked for. Returns the contexts of
    /// each.
    pub(crate) fn decide_several(&self, count: usize, rng: &mut ChaCha20Rng) -> Vec<(Vec<Vec<f64>>, Choice)> {
        let decisions: Vec<Vec<Vec<f64>>> = (0..count).map(|_| random_rows(rng)).collect();
        let rows: Vec<&[Vec<f64>]> = decisions.iter().map(Vec::as_slice).collect();
        let mut round = self.device.decide_several(&self.client, &rows, rng).unwrap();
        let _ = self.device.answer_tasks(&self.client, &mut round, rng);
        decisions.into_iter().zip(round.choice).collect()
    }

    pub(crate) fn send(&self, choice: &Choice, feedback: &[u8]) -> Answer {
        self.http.post(&self.path(&format!("/decisions/{}/feedback", choice.id)), feedback)
    }

    /// The feedback after the arm of `choice` was played.
    pub(crate) fn feedback(&self, rows: &[Vec<f64>], choice: &Choice, rng: &mut ChaCha20Rng) -> Receipt {
        let x = &rows[choice.arm];
        let frame = self.device.feedback(choice.arm, x, reward(x), choice.question.as_ref(), rng).unwrap();
        serde_json::from_slice(&self.send(choice, &frame).ok()).unwrap()
    }

    /// A decision and its feedback.
    pub(crate) fn round(&self, history: &History, rng: &mut ChaCha20Rng) -> Receipt {
        let rows = random_rows(rng);
        let choice = self.decide(&rows, rng);
        let receipt = self.feedback(&rows, &choice, rng);
        history.add(rows, choice, &receipt);
        receipt
    }

    /// Waits for tasks and raises them, until `over`. Returns the number of messages.
    pub(crate) fn raise_until(&self, over: impl Fn() -> bool, rng: &mut ChaCha20Rng) -> usize {
        let mut messages = 0;
        while !over() {
            messages += usize::from(self.raise_once(1, rng));
        }
        messages
    }

    /// Waits as many seconds for tasks, and raises them. The server waits for whoever waited to come back.
    pub(crate) fn raise_once(&self, wait: u64, rng: &mut ChaCha20Rng) -> bool {
        let limits = self.device.limits();
        let Some(reply) = self.client.raises(self.id(), limits, wait).unwrap() else { return false };
        let reply = self.device.read(&reply).unwrap();
        assert!(reply.choice.is_none() && reply.ticket.is_none() && !reply.tasks.is_empty());
        let mut tasks = reply.tasks;
        while !tasks.is_empty() {
            let body = self.device.raise(&tasks, None, rng).unwrap();
            // A user may have been faster.
            let answer = self.http.post(&self.path("/raises"), &body);
            if answer.status != 200 {
                assert_eq!(answer.problem().reason.as_deref(), Some("task_over"));
                break;
            }
            // The next step of an update by products.
            tasks = self.device.read(&answer.ok()).unwrap().tasks;
        }
        true
    }

    /// Raises what the bandit itself asks for, until it asks for nothing more.
    pub(crate) fn settle(&self, rng: &mut ChaCha20Rng) -> Status {
        let began = Instant::now();
        loop {
            let status = self.status();
            if !status.updating && !status.refresh_due {
                return status;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "what the bandit asks for: {status:?}");
            if !self.raise_once(0, rng) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn client(http: &Device) -> Client {
    let token = wire::AccessToken::from_bytes(http.keys.token().as_bytes()).unwrap();
    Client::new(http.server()).unwrap().with_token(token)
}

pub(crate) fn random_rows(rng: &mut ChaCha20Rng) -> Vec<Vec<f64>> {
    let mut unit = || {
        let angle = f64::from(rng.next_u32()) / 2f64.powi(32) * std::f64::consts::TAU;
        vec![angle.cos(), angle.sin()]
    };
    (0..K).map(|_| unit()).collect()
}

pub(crate) fn reward(x: &[f64]) -> f64 {
    x.iter().zip(THETA).map(|(a, b)| a * b).sum()
}

/// What users were answered, for the twin.
#[derive(Default)]
pub(crate) struct History(Mutex<Vec<Round>>);

/// Contexts, what was decided, and the number of the feedback, 0 for none.
type Round = (Vec<Vec<f64>>, Choice, u64);

impl History {
    pub(crate) fn add(&self, rows: Vec<Vec<f64>>, choice: Choice, receipt: &Receipt) {
        self.0.lock().unwrap().push((rows, choice, receipt.feedbacks));
    }

    /// A decision without feedback.
    pub(crate) fn saw(&self, rows: Vec<Vec<f64>>, choice: Choice) {
        self.0.lock().unwrap().push((rows, choice, 0));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Checks every answer against the twin, which learnt the feedbacks in the server's order, and returns
    /// the cosine of its last estimate and the vector that pays.
    pub(crate) fn check(self) -> f64 {
        let mut rounds = self.0.into_inner().unwrap();
        let mut twin = ClearTwin::new(encrypted(Answers::Arm));
        rounds.sort_by_key(|(.., feedbacks)| *feedbacks);
        let learnt = rounds.iter().filter(|(.., feedbacks)| *feedbacks > 0);
        for (at, (rows, choice, feedbacks)) in learnt.enumerate() {
            assert_eq!(*feedbacks, at as u64 + 1, "each feedback has its own number");
            twin.learn(&rows[choice.arm], reward(&rows[choice.arm]));
        }
        let mut ids: Vec<_> = rounds.iter().map(|(_, choice, _)| choice.id.to_string()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), rounds.len(), "each decision has its own id");
        // An evaluation has the width of its last round.
        rounds.sort_by_key(|(_, choice, _)| choice.round);
        let same =
            |a: &Round, b: &Round| a.1.users == b.1.users && b.1.round < a.1.round + u64::from(a.1.users);
        let mut evaluations: Vec<Vec<Round>> = Vec::new();
        for round in rounds {
            match evaluations.last_mut().filter(|evaluation| same(&evaluation[0], &round)) {
                Some(evaluation) => evaluation.push(round),
                None => evaluations.push(vec![round]),
            }
        }
        evaluations.sort_by_key(|evaluation| evaluation[0].1.model_feedbacks);
        for evaluation in &evaluations {
            let last = evaluation[evaluation.len() - 1].1.round;
            for (rows, choice, _) in evaluation {
                assert!(choice.reliable, "{:?}", choice.values);
                let indices = twin.indices(rows, last, choice.model_feedbacks);
                let best = indices.iter().copied().fold(f64::MIN, f64::max);
                let short = best - indices[choice.arm];
                assert!(short < RESOLUTION, "round {}: {indices:?} {:?}", choice.round, choice.values);
            }
        }
        let omega = twin.model().1;
        omega.iter().zip(THETA).map(|(a, b)| a * b).sum::<f64>() / omega.norm()
    }
}

/// Waits until `done`, at most a minute.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks for a decision by hand, and returns the answer as it is.
pub(crate) fn ask(user: &User, contexts: &[u8]) -> Answer {
    user.http.post(&user.path("/decisions"), contexts)
}

/// The server's engine, for reading what it has stored.
pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let PublicBundle { manifest, params, public_key, key_id, keys, decisions, scores, .. } =
            keys().bundle.clone();
        let deep = DeepEngine::new(params, public_key, key_id, manifest.shape, keys).unwrap();
        let deep = deep.with_decisions(decisions);
        let ScoreKeys { ring, params, public_key, key_id, keys, switch } = scores;
        Engine::new(deep, ring, params, public_key, key_id, keys, switch).unwrap()
    })
}

/// The state of a bandit that snapshot and log in `state` give.
pub(crate) struct Replay {
    /// The events after the snapshot.
    pub(crate) events: Vec<Event>,
    pub(crate) head: Head,
    /// The state, with the update computed if one is due.
    pub(crate) bytes: Vec<u8>,
}

/// Reads snapshot and log by hand, beside a server that runs.
pub(crate) fn replay(state: &Path, id: &str, snapshot: &str) -> Replay {
    let (engine, folder) = (engine(), state.join("encrypted").join(id));
    let bytes = std::fs::read(folder.join(snapshot)).unwrap();
    let (body, digest) = bytes.split_last_chunk::<32>().unwrap();
    assert_eq!(blake3::hash(body).as_bytes(), digest);
    let (head, stored) = body[10..].split_first_chunk().unwrap();
    let (from, mut bandit) = (Head::from_bytes(head), EncryptedBandit::from_bytes(engine, stored).unwrap());
    let identity = [id.as_bytes(), &engine.deep().key_id().0, &engine.key_id().0].concat();
    let mut events = Vec::new();
    let read = |_: &Head, bytes: &[u8]| {
        let event = Event::from_bytes(bytes).unwrap();
        bandit.apply(engine, &event).unwrap();
        events.push(event);
        Ok::<_, hash_log::Error>(())
    };
    let head = hash_log::replay(&folder, &identity, 64 << 20, &from, read).unwrap().head;
    if let Some(update) = bandit.update().unwrap() {
        let masked = update.run(engine).unwrap();
        bandit.updated(&update, masked);
    }
    Replay { events, head, bytes: bandit.to_bytes(engine).unwrap() }
}
