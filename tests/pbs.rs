//! Decisions by bootstraps through a server process: what is decided, stored and refused. `.ci/pbs` runs it.

use host::os_rng;
use keygen::{Compare, Request, Security};
use protocol::{BanditConfig, ScoreRing, Shape};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;
use testkit::ClearTwin;
use user_client::{Client, Device, Opening};

const D: usize = 2;
const K: usize = 4;

/// The files of a key pair.
struct Files(TempDir);

impl Files {
    fn generate(compare: Compare) -> Self {
        let files = Files(TempDir::new().unwrap());
        let shape = Shape::for_problem(D, K);
        let request = Request {
            shape,
            security: Security::None,
            width: Default::default(),
            updates: Default::default(),
            created: 0,
            compare,
        };
        let [public, secret] = ["public", "secret"].map(|name| files.file(name));
        keygen::create_files(request, &public, &secret, None, &mut os_rng().unwrap(), |_, _| ()).unwrap();
        files
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn device(&self) -> Device {
        Device::open(&self.file("secret"), &Opening { toy: true, ..Opening::default() }).unwrap()
    }
}

/// Two generations of keys with bootstrapping keys.
fn keys() -> &'static [Files; 2] {
    static KEYS: OnceLock<[Files; 2]> = OnceLock::new();
    KEYS.get_or_init(|| [(); 2].map(|()| Files::generate(Compare::Pbs)))
}

/// A server process, which ends with this.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(keys: &Path, state: &Path) -> Self {
        let mut server = command(keys, state);
        let mut process = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("a server that starts").to_string();
        Server { process, address }
    }

    fn client(&self, device: &Device) -> Client {
        Client::new(&format!("http://{}", self.address)).unwrap().with_token(device.token().clone())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(keys: &Path, state: &Path) -> Command {
    let mut server = Command::new(env!("CARGO_BIN_EXE_helba-server"));
    server.arg("--keys").arg(keys).arg("--toy").arg("--state").arg(state);
    server.args(["--listen", "127.0.0.1:0", "--keep-log"]);
    server
}

fn audit(keys: &Path, state: &Path) -> Output {
    let mut server = Command::new(env!("CARGO_BIN_EXE_helba-server"));
    server.arg("audit").arg("--keys").arg(keys).arg("--state").arg(state).arg("--json").output().unwrap()
}

fn compared(d: usize, k: usize) -> BanditConfig {
    let mut config = BanditConfig { compare: Compare::Pbs, ..BanditConfig::new(d, k) };
    config.linear.schedule = bandit::Schedule::Every { rounds: 4 };
    config
}

/// Rounds of one request each agree with exact arithmetic beyond the resolution, go on after the server was
/// killed, and the log agrees with the state.
#[test]
fn a_bandit_by_bootstraps_plays_and_outlives_its_server() {
    let (files, state) = (&keys()[0], TempDir::new().unwrap());
    let (device, mut rng) = (files.device(), os_rng().unwrap());
    let mut server = Server::start(&files.file("public"), state.path());
    let config = compared(D, K);
    let created = server.client(&device).create_encrypted(&config).unwrap();
    assert_eq!(created.config.compare, Compare::Pbs);
    let bandit = device.join(&created).unwrap();
    assert_eq!(bandit.most_decisions(), 1);
    let mut twin = ClearTwin::new(config.clone());
    let ring = ScoreRing::beside(device.params().spec(), device.shape()).unwrap();
    let (mut ids, mut beyond) = (Vec::new(), 0);
    for round in 1..=16u64 {
        if round == 9 {
            drop(server);
            server = Server::start(&files.file("public"), state.path());
        }
        let client = server.client(&device);
        let angle = |arm: usize| 1.3 * round as f64 + 0.5 * arm as f64;
        // Of different norms, so that the uncertainties of the first rounds differ.
        let norm = |arm: usize| 0.95 - 0.2 * ((arm + round as usize) % K) as f64;
        let row = |arm: usize| vec![norm(arm) * angle(arm).cos(), norm(arm) * angle(arm).sin()];
        let rows: Vec<Vec<f64>> = (0..K).map(row).collect();
        let mut played = bandit.decide(&client, &rows, &mut rng).unwrap();
        let choice = &played.choice;
        // One request and one answer: no raise.
        assert!(played.sent <= bandit.limits().contexts && played.received <= bandit.limits().reply());
        assert!(choice.reliable && choice.users == 1 && choice.values.len() == K && choice.round >= round);
        let (arm, id, feedbacks) = (choice.arm, choice.id, choice.model_feedbacks);
        let indices = twin.indices(&rows, choice.round, feedbacks);
        let scalars = helba::Scalars::new(&config, choice.round, feedbacks);
        let (bonus, most, range) = (scalars.bonus, scalars.most(), scalars.range);
        let (gap, log_range) = (ring.gap, 0);
        let formula = tfhe_argmax::Formula { arms: K, gap, log_range, bonus, most, range };
        let (model, _) = twin.model();
        let term = |x: &[f64], i: usize| (0..D).map(|j| x[i] * model[(i, j)] * x[j]).sum::<f64>();
        let z = rows.iter().map(|x| (0..D).map(|i| term(x, i)).sum::<f64>()).fold(f64::INFINITY, f64::min);
        let resolution = range * tfhe_argmax::Circuit::new(formula, ring.n()).unwrap().resolution(z);
        let best = (0..K).fold(0, |best, a| if indices[a] > indices[best] { a } else { best });
        let second = (0..K).filter(|a| *a != best).map(|a| indices[a]).fold(f64::MIN, f64::max);
        if indices[best] - second > resolution {
            assert_eq!(arm, best, "round {round}: {indices:?}, resolution {resolution}");
            beyond += 1;
        }
        assert!(indices[best] - indices[arm] < resolution, "round {round}: {indices:?}, arm {arm}");
        let reward = 0.5 + 0.5 * rows[arm][0];
        let feedback = bandit.feedback(arm, &rows[arm], reward, None, &mut rng).unwrap();
        client.feedback_encrypted(&created.id, id, &feedback).unwrap();
        twin.learn(&rows[arm], reward);
        // The device is the holder of the key that updates ask.
        bandit.answer_tasks(&client, &mut played, &mut rng).unwrap();
        ids.push(id);
    }
    assert!(beyond >= 8, "{beyond} of 16 rounds");
    let status = server.client(&device).encrypted(&created.id).unwrap().status;
    assert!(status.feedbacks == 16 && status.batches >= 1, "{status:?}");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 16);
    drop(server);
    let out = audit(&files.file("public"), state.path());
    assert!(out.status.success() && String::from_utf8(out.stdout).unwrap().contains("\"feedbacks\":16"));
}

/// Each answer is made once, with masks and noise of its own, although contexts are the same.
#[test]
fn an_answer_is_not_repeated() {
    let (files, state) = (&keys()[0], TempDir::new().unwrap());
    let (device, mut rng) = (files.device(), os_rng().unwrap());
    let server = Server::start(&files.file("public"), state.path());
    let client = server.client(&device);
    let created = client.create_encrypted(&compared(D, K)).unwrap();
    let bandit = device.join(&created).unwrap();
    let contexts = bandit.contexts(&vec![vec![0.5, 0.1]; K], &mut rng).unwrap();
    let answers = [(); 2].map(|()| {
        let reply = client.decide_several(&created.id, bandit.limits(), 1, &contexts).unwrap();
        let reply = wire::DecideReply::read(&reply, bandit.limits()).unwrap();
        assert!(reply.ticket.is_none());
        let decision = reply.decision.unwrap();
        (decision.id, decision.answer)
    });
    assert_ne!(answers[0].0, answers[1].0);
    let [one, other] = answers.each_ref().map(|(_, answer)| protocol::LweAnswer::read(answer, K).unwrap());
    for (one, other) in one.samples.iter().zip(&other.samples) {
        assert!(one.iter().zip(other).filter(|(a, b)| a == b).count() < 4);
    }
    // Nobody else has spoilt it, so that it is not computed again.
    let again = client.ask_again(&created.id, bandit.limits(), answers[0].0, 1).unwrap_err();
    assert!(again.to_string().contains("this sender alone"), "{again}");
}

/// Bandits that no bootstraps decide are refused with a reason, and so is such a bandit on keys without them.
#[test]
fn what_bootstraps_do_not_decide_is_refused() {
    let (files, state) = (&keys()[0], TempDir::new().unwrap());
    let device = files.device();
    let server = Server::start(&files.file("public"), state.path());
    let refused = |config: &BanditConfig| {
        server.client(&device).create_encrypted(config).expect_err("a bandit").to_string()
    };
    let traced = || {
        let mut config = compared(D, K);
        config.linear.schedule = bandit::Schedule::TraceOrGrowth;
        config
    };
    let scores = BanditConfig { answers: protocol::Answers::Scores, open_model: true, ..compared(D, K) };
    for (config, part) in [(traced(), "linear.schedule"), (scores, "answers")] {
        let why = refused(&config);
        assert!(why.contains(part) && why.contains("compare: pbs"), "{why}");
    }

    let (without, state) = (Files::generate(Compare::Polynomial), TempDir::new().unwrap());
    let device = without.device();
    let server = Server::start(&without.file("public"), state.path());
    let why = server.client(&device).create_encrypted(&compared(D, K)).unwrap_err().to_string();
    assert!(why.contains("--compare pbs"), "{why}");
}

/// A bundle, taken apart: what is before the manifest, the manifest, and the frames.
fn parts(bytes: &[u8]) -> (Vec<u8>, serde_json::Value, Vec<Vec<u8>>) {
    let length = u32::from_le_bytes(bytes[10..14].try_into().unwrap()) as usize;
    let manifest = serde_json::from_slice(&bytes[14..14 + length]).unwrap();
    let (mut frames, mut rest) = (Vec::new(), &bytes[14 + length..]);
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(8);
        let (frame, tail) = tail.split_at(u64::from_le_bytes(head.try_into().unwrap()) as usize);
        frames.push(frame.to_vec());
        rest = tail;
    }
    (bytes[..10].to_vec(), manifest, frames)
}

fn joined(head: &[u8], manifest: &serde_json::Value, frames: &[Vec<u8>]) -> Vec<u8> {
    let manifest = serde_json::to_vec(manifest).unwrap();
    let mut out = [head, &(manifest.len() as u32).to_le_bytes(), &manifest].concat();
    for frame in frames {
        out.extend((frame.len() as u64).to_le_bytes());
        out.extend(frame);
    }
    out
}

/// A wrong or missing switching key, and CKKS and TFHE keys of different generations, are refused at load
/// with both fingerprints, by servers and by devices.
#[test]
fn keys_of_different_generations_are_refused() {
    let [ours, theirs] = keys().each_ref().map(|files| parts(&std::fs::read(files.file("public")).unwrap()));
    let (head, manifest, frames) = ours;
    let last = frames.len() - 1;
    let id = |manifest: &serde_json::Value, field: &str| {
        manifest["bootstraps"][field].as_str().unwrap().to_string()
    };
    let (our_keys, their_keys) = (id(&manifest, "key_id"), id(&theirs.1, "key_id"));
    let (our_ckks, their_ckks) = (id(&manifest, "switched_key_id"), id(&theirs.1, "switched_key_id"));
    assert_eq!(manifest["scores"]["key_id"], our_ckks.as_str());
    let folder = TempDir::new().unwrap();
    let refused = |bytes: Vec<u8>, ids: [&str; 2]| {
        let path = folder.path().join("bundle");
        std::fs::write(&path, bytes).unwrap();
        let out = command(&path, &folder.path().join("state")).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        let said = said.lines().last().unwrap_or_default();
        assert_eq!(out.status.code(), Some(1), "{said}");
        for id in ids {
            assert!(said.contains(id), "{id} is not in: {said}");
        }
    };
    let with = |change: &dyn Fn(&mut serde_json::Value, &mut Vec<Vec<u8>>)| {
        let (mut manifest, mut frames) = (manifest.clone(), frames.clone());
        change(&mut manifest, &mut frames);
        joined(&head, &manifest, &frames)
    };
    // The whole of another generation; their keys under our name; keys that say they switch from ours.
    let theirs_frame = theirs.2.last().unwrap();
    refused(
        with(&|manifest, frames| {
            manifest["bootstraps"] = theirs.1["bootstraps"].clone();
            frames[last] = theirs_frame.clone();
        }),
        [&their_ckks, &our_ckks],
    );
    refused(with(&|_, frames| frames[last] = theirs_frame.clone()), [&our_keys, &their_keys]);
    refused(
        with(&|manifest, frames| {
            manifest["bootstraps"]["key_id"] = their_keys.as_str().into();
            frames[last] = theirs_frame.clone();
        }),
        [&their_ckks, &our_ckks],
    );
    // None.
    refused(with(&|_, frames| drop(frames.pop())), [&our_keys, &our_ckks]);
    refused(with(&|_, frames| frames[last].truncate(1000)), ["bytes"; 2]);
    // One word of the switching key.
    refused(with(&|_, frames| frames[last][100] ^= 1), ["hash"; 2]);

    let [ours, theirs] = keys().each_ref().map(|files| parts(&std::fs::read(files.file("secret")).unwrap()));
    let (head, mut manifest, mut frames) = ours;
    // The keys of both rings, that of bootstraps, the token.
    frames[2] = theirs.2[2].clone();
    let error = Device::read(&joined(&head, &manifest, &frames)[..]).err().unwrap().to_string();
    assert!(error.contains(&their_ckks) && error.contains(&our_ckks), "{error}");
    manifest["bootstraps"] = theirs.1["bootstraps"].clone();
    let error = Device::read(&joined(&head, &manifest, &frames)[..]).err().unwrap().to_string();
    assert!(error.contains(&their_ckks) && error.contains(&our_ckks), "{error}");
}
