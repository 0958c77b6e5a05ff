//! Raisers and devices against a server of encrypted bandits.

use crate::device::rng;
use crate::server::{Server, keys, other_keys};
use protocol::Answers;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use user_client::{BanditDevice, Client, Device, Error, Raiser, RaiserOptions, Stop};

/// A raiser in a thread, with its log.
struct Running {
    stop: Stop,
    thread: std::thread::JoinHandle<Result<(), Error>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Running {
    fn start(url: &str, device: Device, bandits: &[&str]) -> Self {
        let client = Client::new(url).unwrap().with_token(device.token().clone());
        let bandits: BTreeSet<String> = bandits.iter().map(|id| id.to_string()).collect();
        let (stop, log) = (Stop::default(), Arc::new(Mutex::new(Vec::new())));
        let lines = log.clone();
        let write = move |line: &str| lines.lock().unwrap().push(line.to_string());
        let rescan = Duration::from_millis(200);
        let options = RaiserOptions { bandits, rescan, ..RaiserOptions::default() };
        let raiser = Raiser::new(client, device, options, stop.clone(), rng(8), write);
        Running { stop, thread: std::thread::spawn(move || raiser.run()), log }
    }

    fn has(&self, text: &str) -> bool {
        self.log.lock().unwrap().iter().any(|line| line.contains(text))
    }

    /// Waits for a line.
    fn expect(&self, text: &str) {
        eventually(text, || self.has(text));
    }

    fn stop(self) -> Result<(), Error> {
        self.stop.stop();
        self.thread.join().unwrap()
    }
}

#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Plays `rounds` rounds, and returns the bytes that raises took.
fn play(device: &BanditDevice, client: &Client, rounds: u64, seed: u64) -> usize {
    let (mut raises, mut rng) = (0, rng(seed));
    for t in 0..rounds {
        let rows = vec![vec![0.6, 0.1 * (t % 7) as f64, 0.0, 0.1], vec![-0.2, 0.7, 0.2, 0.0]];
        let round = device.play(client, &rows, &mut rng).unwrap();
        assert!(round.choice.reliable, "{:?}", round.choice.values);
        let feedback =
            device.feedback(round.choice.arm, &rows[round.choice.arm], 0.5, None, &mut rng).unwrap();
        let id = &device.created().id;
        let receipt = client.feedback_encrypted(id, round.choice.id, &feedback).unwrap();
        assert_eq!(receipt.decision, round.choice.id.to_string());
        raises += round.sent.saturating_sub(device.limits().contexts);
    }
    raises
}

/// With a raiser, no device is asked: models are refreshed beside their rounds. Without one, devices raise
/// for themselves.
#[test]
fn a_raiser_answers_for_devices() {
    let server = Server::start("127.0.0.1:0");
    let (device, client) = (server.device(), server.client());
    let alone = server.create(Answers::Arm);
    assert!(play(&device.join(&alone).unwrap(), &client, 1, 1) > 1_000, "the device raised");
    let raiser = Running::start(&server.url(), server.device(), &[]);
    raiser.expect("raising for");
    // A bandit that comes later is found.
    let created = server.create(Answers::Arm);
    let joined = device.join(&created).unwrap();
    eventually("the raiser finds the bandit", || {
        play(&joined, &client, 1, 2);
        raiser.has("scores raised")
    });
    let asked: usize = std::thread::scope(|scope| {
        let devices: Vec<_> = (3..6)
            .map(|seed| {
                scope.spawn({
                    let (joined, client) = (&joined, &client);
                    move || play(joined, client, 4, seed)
                })
            })
            .collect();
        devices.into_iter().map(|device| device.join().unwrap()).sum()
    });
    let view = || client.encrypted(&created.id).unwrap();
    eventually("a model", || view().status.refreshes > 0);
    for line in ["sum raised", "model encrypted anew"] {
        raiser.expect(line);
    }
    // Between two requests of the raiser a device may be asked, but not each time.
    let one = joined.limits().raised;
    assert!(asked < 6 * one, "{asked} bytes of raises in 12 rounds");
    assert_eq!(view().created, created);
    let began = Instant::now();
    raiser.stop().unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "what waits is left");
}

/// The open tier answers at once, and its sums and models are raised by a raiser of this bandit alone.
#[test]
fn a_raiser_serves_the_bandits_it_is_given() {
    let server = Server::start("127.0.0.1:0");
    let (device, client) = (server.device(), server.client());
    let [open, other] = [Answers::Scores, Answers::Arm].map(|answers| server.create(answers));
    let raiser = Running::start(&server.url(), server.device(), &[&open.id, "missing"]);
    raiser.expect("bandit missing: the server refused (404");
    play(&device.join(&open).unwrap(), &client, 6, 1);
    raiser.expect("model encrypted anew");
    assert!(!raiser.has("scores raised"));
    play(&std::sync::Arc::new(device).join_shared(&other).unwrap(), &client, 1, 2);
    assert!(!raiser.has(&format!("bandit {}", other.id)));
    // A deleted bandit ends its threads, and nothing else.
    client.delete(&open.id).unwrap();
    raiser.expect(&format!("bandit {}: the server refused (404", open.id));
    raiser.stop().unwrap();
}

/// A raiser waits for a server that is not there yet, and refuses one with other keys.
#[test]
fn a_raiser_waits_for_its_server_and_refuses_another() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let device = |secret: &[u8]| Device::read(secret).unwrap();
    let raiser = Running::start(&format!("http://{free}"), device(&keys().1), &[]);
    raiser.expect("the server: no answer from");
    let server = Server::start(&free.to_string());
    raiser.expect("the server: works again");
    raiser.expect("raising for");
    raiser.stop().unwrap();

    let stranger = Running::start(&server.url(), device(&other_keys().1), &[]);
    match stranger.thread.join().unwrap() {
        Err(Error::WrongKeys { what: "key id", .. }) => {}
        other => panic!("{other:?}"),
    }
}

/// The program, whose log is read.
struct Program(Child, BufReader<std::process::ChildStderr>);

impl Program {
    fn start(server: &Server) -> Self {
        let mut program = Command::new(env!("CARGO_BIN_EXE_helba-raiser"));
        program.args(["--toy", "--server", &server.url(), "--keys"]).arg(server.file("secret.bundle"));
        let mut child = program.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Program(child, log)
    }

    /// Reads the log up to a line with `text`.
    fn expect(&mut self, text: &str) {
        for line in self.1.by_ref().lines() {
            let line = line.unwrap();
            assert!(line.starts_with("helba-raiser: "), "{line}");
            if line.contains(text) {
                return;
            }
        }
        panic!("the program ended without a line with {text:?}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// The program serves until a signal, ends with success, and can be started again.
#[cfg(unix)]
#[test]
fn the_raiser_ends_at_a_signal() {
    let server = Server::start("127.0.0.1:0");
    let (device, client) = (server.device(), server.client());
    let created = server.create(Answers::Arm);
    let joined = device.join(&created).unwrap();
    for signal in ["TERM", "INT"] {
        let mut program = Program::start(&server);
        program.expect("raising for");
        play(&joined, &client, 2, 1);
        let kill = Command::new("kill").args([&format!("-{signal}"), &program.0.id().to_string()]).status();
        assert!(kill.unwrap().success());
        program.expect("stopped");
        assert!(program.0.wait().unwrap().success());
    }
}

/// Refusals of the program are one sentence and an exit code.
#[test]
fn the_raiser_says_what_is_wrong() {
    let server = Server::start("127.0.0.1:0");
    let secret = server.file("secret.bundle");
    let (url, public) = (server.url(), server.file("public.bundle"));
    let run = |url: &str, keys: &Path, more: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_helba-raiser"));
        let out = program.args(["--server", url, "--keys"]).arg(keys).args(more).output().unwrap();
        let text = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && out.stdout.is_empty() && !text.contains("panicked"), "{text}");
        text
    };
    assert!(run(&url, &secret, &[]).contains("toy key"));
    assert!(run(&url, &public, &["--toy"]).contains("no secret bundle"));
    assert!(run("nowhere", &secret, &["--toy"]).contains("https://HOST:PORT"));
    assert!(run(&url, &server.file("none"), &["--toy"]).contains("No such file"));
    assert!(run(&url, &secret, &["--toy", "--waiting", "9"]).contains("--waiting"));
    assert!(run(&url, &secret, &["--toy", "--passphrase-file", "/none"]).contains("/none"));
}

/// A raiser whose token the server does not know says so and stops. Without that it would wait for bandits
/// that are not shown to it.
#[test]
fn a_raiser_with_an_unknown_token_stops() {
    let server = Server::start("127.0.0.1:0");
    let created = server.create(Answers::Arm);
    let token = Device::read(&other_keys().1[..]).unwrap().token().clone();
    for bandits in [BTreeSet::new(), BTreeSet::from([created.id.clone()])] {
        let client = Client::new(&server.url()).unwrap().with_token(token.clone());
        let options = RaiserOptions { bandits, waiting: 1, ..RaiserOptions::default() };
        let raiser = Raiser::new(client, server.device(), options, Stop::default(), rng(8), |_| ());
        let error = raiser.run().unwrap_err();
        assert!(matches!(&error, Error::Refused(problem) if problem.status == 401), "{error}");
        assert!(error.to_string().contains("token"), "{error}");
    }
}
