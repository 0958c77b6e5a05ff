//! Bandits of a real service that learn from real users' processes through a real shuffler.

use crate::common::{PROGRAM, bodies, party, refused};
use bandit::Environment;
use glm::shuffle::{Batch, Device, ShuffleParameters, Summation};
use glm::{Descent, GlmEnvironment, Instance, onto_ball};
use helba_server::{AppState, NewToken, Scope, Settings, TokensFile, app};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use secure_sum::local::{Process, Relay};
use secure_sum::{BanditTask, Error, Party, http};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use wire::{AccessToken, Decided, PolicyCreated, PolicyView, ShuffledBatch};

/// helba-server on a folder, without keys.
fn service(folder: &Path, listen: &str) -> (Runtime, SocketAddr) {
    service_with(folder, listen, Settings::default())
}

fn service_with(folder: &Path, listen: &str, settings: Settings) -> (Runtime, SocketAddr) {
    let runtime = Runtime::new().unwrap();
    let address = runtime.block_on(async {
        let state = AppState::open(None, folder, settings).unwrap();
        let listener = tokio::net::TcpListener::bind(listen).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app(state)).await });
        address
    });
    (runtime, address)
}

fn create(server: &Party, request: &Value) -> String {
    let created = server.post_json("bandits", request.to_string().as_bytes(), 1 << 16).unwrap();
    serde_json::from_slice::<PolicyCreated>(&created).unwrap().id
}

fn view(server: &Party, id: &str) -> PolicyView {
    serde_json::from_slice(&server.get(&format!("bandits/{id}"), 1 << 20).unwrap()).unwrap()
}

fn shuffler(server: SocketAddr, bandit: &str) -> Process {
    let server = format!("http://{server}");
    let arguments = ["shuffler", "--listen", "127.0.0.1:0", "--server", &server, "--bandit", bandit];
    Process::start(Path::new(PROGRAM), &arguments).unwrap()
}

fn users(server: SocketAddr, bandit: &str, shuffler: SocketAddr, rest: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    let (server, shuffler) = (format!("http://{server}"), format!("http://{shuffler}"));
    command.args(["users", "--server", &server, "--bandit", bandit, "--shuffler", &shuffler]).args(rest);
    command
}

#[track_caller]
fn ends(out: &Output, well: bool, says: &str) {
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() == well && text.contains(says), "{text}");
}

fn elimination(growth: u64) -> Value {
    json!({"policy": "elimination", "model": "shuffle", "arms": 3, "horizon": 20_000, "epsilon": 4,
        "confidence": 0.1, "growth": growth, "delta": 1e-9})
}

/// The best of three arms is left. A batch that lacks users stays where it is until others come; what reaches
/// the server are counts, one request an exchange, and no id of a user.
#[test]
fn an_elimination_learns_behind_a_shuffler() {
    let folder = TempDir::new().unwrap();
    let (_runtime, address) = service(folder.path(), "127.0.0.1:0");
    let server = party(address);
    let id = create(&server, &elimination(4));
    let to_server = Relay::start(address).unwrap();
    let shuffler = shuffler(to_server.address(), &id);
    let to_shuffler = Relay::start(shuffler.address()).unwrap();
    let ask = |rest: &[&str]| {
        let means = ["--mean", "0.1,0.9,0.3"];
        users(address, &id, to_shuffler.address(), &[&means[..], rest].concat()).output().unwrap()
    };
    ends(&ask(&["--most-epsilon", "3.9"]), false, "the bandit's epsilon is 4, and --most-epsilon 3.9");
    let other = users(address, &id, to_shuffler.address(), &["--theta", "0.1"]).output().unwrap();
    ends(&other, false, "--mean instead of --theta");
    let (mut counted, mut exchanges) = (0, 0);
    while let Some(awaited) = view(&server, &id).awaited {
        exchanges += 1;
        assert!(exchanges < 40);
        counted += awaited.users;
        match exchanges {
            2 => {
                let most = (awaited.users - 1).to_string();
                let short = ask(&["--invited", &most, "--patience", "0"]);
                ends(&short, false, "is incomplete");
                refused(party(shuffler.address()).forward(awaited.exchange), "too_few");
                assert_eq!(view(&server, &id).awaited.unwrap().exchange, awaited.exchange);
                // More than are missing: the one that is too many is not taken.
                ends(&ask(&["--invited", "2"]), true, "1 answered here");
            }
            // One in three stays away, so that more are asked.
            3 => ends(&ask(&["--dropout", "0.33", "--invited", "60"]), true, "done"),
            _ => ends(&ask(&["--most-epsilon", "4"]), true, "done"),
        }
        assert_eq!(view(&server, &id).feedbacks, counted);
    }
    assert!(exchanges >= 6, "{exchanges}");
    let decided = server.post_json(&format!("bandits/{id}/decisions"), b"", 1 << 16).unwrap();
    let decided: Decided = serde_json::from_slice(&decided).unwrap();
    assert_eq!(decided.arm, Some(1));
    assert_eq!((decided.privacy.spent.unwrap().epsilon, decided.privacy.statement.delta.get()), (4.0, 1e-9));

    let reached = to_server.passed().sent;
    let batches: Vec<ShuffledBatch> = bodies(&reached)
        .iter()
        .filter(|body| !body.is_empty())
        .map(|body| serde_json::from_slice(body).unwrap())
        .collect();
    assert_eq!(batches.iter().map(|b| b.exchange).collect::<Vec<_>>(), (1..=exchanges).collect::<Vec<_>>());
    assert!(batches.iter().all(|b| b.labels.len() == 1 && b.labels[0].len() == 1));
    assert_eq!(batches.iter().map(|b| b.users).sum::<u64>(), counted);
    let sent = bodies(&to_shuffler.passed().sent);
    assert!(sent.len() as u64 >= counted && sent.iter().all(|body| body.len() == 40));
    assert!(sent.iter().all(|body| !reached.windows(16).any(|w| w == &body[..16])), "an id went on");
}

/// Where the service has tokens, shuffler and collector hand their sums on with one that permits it. With one
/// for decisions they read the task, as users do, and hand nothing on.
#[test]
fn attack_sums_reach_an_operators_bandit_with_its_token_alone() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("operator.token");
    host::write_private(&file, "0123456789abcdef".repeat(4).as_bytes()).unwrap();
    let token = AccessToken::open(&file).unwrap();
    let settings = Settings { operator: Some(token.digest()), ..Settings::default() };
    let (_runtime, address) = service_with(&folder.path().join("state"), "127.0.0.1:0", settings);
    let url = format!("http://{address}");
    let server = party(address).with_token(Some(token));
    let file = file.to_str().unwrap();
    let reader = folder.path().join("reader.token");
    let scopes = vec![Scope::Decide];
    let wish = NewToken { name: "users".into(), scopes, bandit: None, expires: None };
    let reading = TokensFile::of(&folder.path().join("state"));
    let reading = reading.create(wish, &mut host::os_rng().unwrap()).unwrap();
    host::write_private(&reader, reading.to_hex().as_bytes()).unwrap();
    let reader = ["--server-token-file", reader.to_str().unwrap()];

    let id = create(&server, &elimination(4));
    let start = |rest: &[&str]| {
        let arguments = ["shuffler", "--listen", "127.0.0.1:0", "--server", &url, "--bandit", &id];
        Process::start(Path::new(PROGRAM), &[&arguments[..], rest].concat()).unwrap()
    };
    let counted = |shuffler: &Process| {
        let more = [&["--mean", "0.1,0.9,0.3", "--patience", "1"][..], &reader].concat();
        let users = users(address, &id, shuffler.address(), &more);
        { users }.output().unwrap();
        view(&server, &id).feedbacks
    };
    assert!(
        Process::start(
            Path::new(PROGRAM),
            &["shuffler", "--listen", "127.0.0.1:0", "--server", &url, "--bandit", &id]
        )
        .is_err()
    );
    assert_eq!(counted(&start(&reader)), 0);
    let shuffler = start(&["--server-token-file", file]);
    counted(&shuffler);
    until(|| view(&server, &id).feedbacks > 0);

    let pure = json!({"policy": "elimination", "model": "pure", "arms": 2, "horizon": 20_000, "epsilon": 4});
    let id = create(&server, &pure);
    let aggregators = [(); 2]
        .map(|()| Process::start(Path::new(PROGRAM), &["aggregator", "--listen", "127.0.0.1:0"]).unwrap());
    let [first, second] = aggregators.each_ref().map(|a| format!("http://{}", a.address()));
    let run = |role: &str, rest: &[&str]| {
        let same =
            [role, "--server", &url, "--bandit", &id, "--batch", "1", "--aggregators", &first, &second];
        Command::new(PROGRAM).args(same).args(rest).output().unwrap()
    };
    ends(&run("announce", &[]), false, "the operator's token");
    ends(&run("announce", &reader), true, "");
    ends(&run("users", &[&["--mean", "0.1,0.9"][..], &reader].concat()), true, "");
    ends(&run("collect", &[]), false, "the operator's token");
    ends(&run("collect", &reader), false, "needs the scope `feedback`");
    assert_eq!(view(&server, &id).feedbacks, 0);
    ends(&run("collect", &["--server-token-file", file]), true, "");
    assert!(view(&server, &id).feedbacks > 0);
}

/// One user completes a batch with a reward of its own, through aggregators and through a shuffler. It learns
/// which arm to play, and a reward of another arm is not sent. One user more than needed is left out.
#[test]
fn a_user_reports_one_reward() {
    let folder = TempDir::new().unwrap();
    let (_runtime, address) = service(folder.path(), "127.0.0.1:0");
    let (server, url) = (party(address), format!("http://{address}"));
    let run = |role: &str, id: &str, rest: &[&str]| {
        let same = [role, "--server", &url, "--bandit", id];
        Command::new(PROGRAM).args(same).args(rest).output().unwrap()
    };

    let pure = json!({"policy": "elimination", "model": "pure", "arms": 2, "horizon": 20_000, "epsilon": 4});
    let id = create(&server, &pure);
    let aggregators = [(); 2]
        .map(|()| Process::start(Path::new(PROGRAM), &["aggregator", "--listen", "127.0.0.1:0"]).unwrap());
    let [first, second] = aggregators.each_ref().map(|a| format!("http://{}", a.address()));
    let parties = ["--aggregators", &first, &second, "--batch", "1"];
    let with = |rest: &[&'static str]| [&parties[..], rest].concat();
    let asked = view(&server, &id).awaited.unwrap();
    let most = (asked.users - 1).to_string();
    ends(&run("announce", &id, &parties), true, "");
    ends(&run("users", &id, &[&parties[..], &["--invited", &most, "--mean", "0.5"]].concat()), true, "");
    let told = run("report", &id, &parties);
    assert_eq!(String::from_utf8_lossy(&told.stdout).trim(), "0");
    ends(&run("report", &id, &with(&["--arm", "1", "--reward", "1"])), false, "waits for rewards of arm 0");
    ends(&run("report", &id, &with(&["--arm", "0", "--reward", "1.5"])), false, "1.5");
    ends(
        &run("report", &id, &with(&["--arm", "0", "--reward", "1", "--most-epsilon", "3"])),
        false,
        "epsilon is 4",
    );
    ends(&run("collect", &id, &parties), false, &format!("{most} users"));
    assert_eq!(view(&server, &id).feedbacks, 0);
    // The batch is closed. Another one has a spare user.
    let parties = ["--aggregators", &first, &second, "--batch", "2"];
    let with = |rest: &[&'static str]| [&parties[..], rest].concat();
    ends(&run("announce", &id, &parties), true, "");
    ends(&run("users", &id, &[&parties[..], &["--invited", &most, "--mean", "0.5"]].concat()), true, "");
    for _ in 0..2 {
        ends(&run("report", &id, &with(&["--arm", "0", "--reward", "0.25"])), true, "sent");
    }
    ends(&run("collect", &id, &parties), true, "");
    assert_eq!(view(&server, &id).feedbacks, asked.users);

    let id = create(&server, &elimination(4));
    let shuffler = shuffler(address, &id);
    let url = format!("http://{}", shuffler.address());
    let asked = view(&server, &id).awaited.unwrap();
    for _ in 0..asked.users {
        assert_eq!(view(&server, &id).feedbacks, 0);
        let reports = ["--shuffler", &url, "--arm", "0", "--reward", "1"];
        ends(&run("report", &id, &reports), true, "sent");
    }
    // The shuffler delivers after its answer to the last user.
    until(|| view(&server, &id).feedbacks == asked.users);
}

/// Two batches of devices that choose for themselves; those of the first are in two processes, of which
/// neither has enough for the batch. The estimate is that of a descent on rows of the same law, up to what
/// noise and rows differ by.
#[test]
fn shuffle_glm_learns_behind_a_shuffler() {
    const USERS: u64 = 800;
    const THETA: [f64; 2] = [0.8, -0.3];
    let folder = TempDir::new().unwrap();
    let (_runtime, address) = service(folder.path(), "127.0.0.1:0");
    let server = party(address);
    let request = json!({"policy": "shuffle-glm", "arms": 3, "features": 2, "batches": [USERS, USERS], "epsilon": 100,
        "delta": 0.01, "gamma": 0.5, "steps": 4});
    let id = create(&server, &request);
    let parameters = view(&server, &id).created.parameters;
    let config = serde_json::from_value::<ShuffleParameters>(parameters.into()).unwrap().config().unwrap();
    let to_server = Relay::start(address).unwrap();
    let shuffler = shuffler(to_server.address(), &id);
    let to_shuffler = Relay::start(shuffler.address()).unwrap();
    let devices = |rest: &[&str]| {
        let theta =
            ["--theta", "0.8,-0.3", "--patience", "60", "--most-epsilon", "100", "--most-delta", "0.01"];
        users(address, &id, to_shuffler.address(), &[&theta[..], rest].concat())
    };
    let wrong = users(
        address,
        &id,
        to_shuffler.address(),
        &["--theta", "0.8", "--most-epsilon", "100", "--most-delta", "0.01"],
    )
    .output()
    .unwrap();
    ends(&wrong, false, "--theta has 1 numbers");

    let first = devices(&["--invited", "600"]).spawn().unwrap();
    while to_shuffler.passed().sent.windows(19).filter(|w| w == b"POST /v1/messages/1").count() < 600 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(view(&server, &id).awaited.unwrap().exchange, 1);
    ends(&devices(&["--invited", "200"]).output().unwrap(), true, "exchange 5 done");
    assert!(first.wait_with_output().unwrap().status.success());
    assert_eq!((view(&server, &id).published.len(), view(&server, &id).feedbacks), (1, USERS));
    ends(&devices(&[]).output().unwrap(), true, "exchange 10 done");
    let now = view(&server, &id);
    assert_eq!((now.awaited, now.feedbacks, now.published.len()), (None, 2 * USERS, 2));
    ends(&devices(&[]).output().unwrap(), false, "waits for no further batch");

    // As the devices of the first batch do, with exact sums over rows drawn here: 24 times, for what rows
    // differ by.
    let mut rng = ChaCha20Rng::seed_from_u64(15);
    let (n, s, steps) = (USERS as f64, config.problem.s, 4);
    let descent = Descent::paper(steps, 1.0, s, config.lambda(0).unwrap().1, n);
    let device = Device::new(&config, &[]).unwrap();
    let mut draws = Vec::new();
    for _ in 0..24 {
        let sets = Instance::random(2, 3, USERS as usize, 1.0, &mut rng).unwrap().sets().to_vec();
        let instance = Instance::new(THETA.to_vec(), sets).unwrap();
        let mut environment = GlmEnvironment::new(instance.into(), config.problem.link).unwrap();
        let mut rows = Vec::new();
        while environment.begin(&mut rng) {
            let set = environment.context().unwrap().clone();
            let arm = device.choose(&set, &mut rng).unwrap();
            let reward = environment.play(arm, &mut rng).unwrap().reward;
            rows.push((set.row(arm).unwrap().to_vec(), reward));
        }
        let sum = |at: &[f64], sum: &mut [f64]| {
            for (x, reward) in &rows {
                sum.iter_mut().zip(device.gradient(x, *reward, at)).for_each(|(s, g)| *s += g);
            }
            Ok(())
        };
        draws.push(descent.run(2, n, sum, onto_ball(s)).unwrap());
    }
    let got: Batch = serde_json::from_value(now.published[0].clone()).unwrap();
    let Summation::Bits(bits) = config.gradient_sum(0).unwrap() else { panic!() };
    // Each step carries the noise of its sum.
    let noise = (descent.step / n) * f64::from(steps).sqrt() * bits.noise_deviation();
    for (i, got) in got.theta.iter().enumerate() {
        let each: Vec<f64> = draws.iter().map(|theta| theta[i]).collect();
        let mean = each.iter().sum::<f64>() / 24.0;
        let spread = each.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 23.0;
        let deviation = noise.hypot((spread * 25.0 / 24.0).sqrt());
        println!("estimate {got}, without noise {mean}: deviation {deviation}, of which noise {noise}");
        assert!((got - mean).abs() < 5.0 * deviation, "{got} against {mean}");
        assert!(i > 0 || mean > 3.0 * deviation, "the parameter is not seen: {mean}, deviation {deviation}");
    }

    let batches: Vec<ShuffledBatch> = bodies(&to_server.passed().sent)
        .iter()
        .filter(|body| !body.is_empty())
        .map(|body| serde_json::from_slice(body).unwrap())
        .collect();
    assert_eq!(batches.iter().map(|b| b.exchange).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    let labels: Vec<usize> = batches.iter().map(|b| b.labels.len()).collect();
    assert_eq!(labels, [3, 2, 2, 2, 2, 3, 2, 2, 2, 2]);
    assert!(
        batches.iter().flat_map(|b| &b.labels).all(|label| label.len() == 1),
        "a number of a single user"
    );
}

/// A server tells the shuffler of a batch of two, and the users of one of sixteen, whose noise is then too
/// small for two. Nothing is taken, so that nothing is handed on.
#[test]
fn users_who_were_told_otherwise_are_not_counted() {
    let folder = TempDir::new().unwrap();
    let (_runtime, address) = service(folder.path(), "127.0.0.1:0");
    let server = party(address);
    let of = |growth: u64, epsilon: u64| {
        create(
            &server,
            &json!({"policy": "elimination", "model": "shuffle", "arms": 3, "horizon": 20_000, "epsilon": epsilon,
            "confidence": 0.1, "growth": growth, "delta": 1e-9}),
        )
    };
    // Wide enough for the others' numbers.
    let (told_shuffler, told_users) = (of(2, 1000), of(16, 4));
    let shuffler = shuffler(address, &told_shuffler);
    let two = ["--mean", "1", "--invited", "2", "--patience", "1"];
    let out = users(address, &told_users, shuffler.address(), &two).output().unwrap();
    ends(&out, false, "another task than the shuffler");
    refused(party(shuffler.address()).forward(1), "too_few");
    assert_eq!(view(&server, &told_shuffler).feedbacks, 0);
    let two = ["--mean", "1", "--patience", "20", "--most-epsilon", "1000"];
    ends(&users(address, &told_shuffler, shuffler.address(), &two).output().unwrap(), true, "done");
    assert_eq!(view(&server, &told_shuffler).feedbacks, 2);
}

/// Wrong exchanges, labels, numbers and bytes are refused; of users who come at the same time exactly as many
/// as are needed are taken, and one of them has the batch handed on; a server that is away gets it when it is
/// back.
#[test]
fn batches_are_whole_and_survive_the_servers_absence() {
    let folder = TempDir::new().unwrap();
    let (runtime, address) = service(folder.path(), "127.0.0.1:0");
    let server = party(address);
    let id = create(&server, &elimination(16));
    let to_server = Relay::start(address).unwrap();
    let process = shuffler(to_server.address(), &id);
    let shuffler = party(process.address());
    let user = |k: u8| [k; 16];
    let told = |exchange| {
        let task = BanditTask::ask(&server, &id).unwrap();
        assert_eq!(task.exchange(), exchange);
        task.digest().unwrap()
    };
    let first = told(1);
    refused(shuffler.forward(1), "not_begun");
    refused(shuffler.messages(2, &first, &user(0), &[1]), "not_awaited");
    refused(shuffler.messages(0, &first, &user(0), &[1]), "closed");
    refused(shuffler.forward(1), "too_few");
    shuffler.messages(1, &first, &user(0), &[1]).unwrap();
    shuffler.messages(1, &first, &user(0), &[1]).unwrap();
    shuffler.messages(1, &first, &user(0), &[2]).unwrap();
    refused(shuffler.messages(1, &[0; 16], &user(1), &[1]), "told_otherwise");
    refused(shuffler.messages(0, &first, &user(1), &[1]), "closed");
    refused(shuffler.messages(1, &first, &user(1), &[1, 1]), "malformed");
    refused(shuffler.messages(1, &first, &user(1), &[u64::MAX]), "malformed");
    refused(shuffler.messages(1, &first, &user(1), &[]), "malformed");
    refused(shuffler.messages(1, &first, &user(1), &vec![1; 5000]), "too_large");
    for length in [0, 1, 15, 17, 31, 33, 39, 41] {
        refused(shuffler.post("messages/1", &vec![7; length], 0), "malformed");
    }
    for path in ["messages/x", "messages/-1/forward", "messages", "nothing"] {
        let Err(Error::Refused { problem, .. }) = shuffler.post(path, &[0; 40], 0) else { panic!("{path}") };
        assert!((400..500).contains(&problem.status), "{problem:?}");
    }

    // One of 16 has answered.
    let taken = std::thread::scope(|scope| {
        let send = |k| shuffler.messages(1, &first, &user(k), &[u64::from(k)]);
        let sent: Vec<_> = (1..=20).map(|k| scope.spawn(move || send(k))).collect();
        let sent = sent.into_iter().map(|thread| thread.join().unwrap());
        sent.filter(|answer| match answer {
            Ok(()) => true,
            Err(Error::Refused { problem, .. }) => {
                assert_eq!(problem.reason.as_deref(), Some("closed"));
                false
            }
            Err(error) => panic!("{error}"),
        })
        .count()
    });
    assert_eq!(taken, 15);
    until(|| view(&server, &id).feedbacks == 16);
    let handed = bodies(&to_server.passed().sent).iter().filter(|body| !body.is_empty()).count();
    assert_eq!(handed, 1, "the batch was handed on more than once");
    until(
        || matches!(shuffler.forward(1), Err(Error::Refused { problem, .. }) if problem.reason.as_deref() == Some("closed")),
    );

    let second = told(2);
    for k in 0..15 {
        shuffler.messages(2, &second, &user(k), &[1]).unwrap();
    }
    drop(runtime);
    // The last user has done its part; the batch waits for the server.
    shuffler.messages(2, &second, &user(15), &[1]).unwrap();
    until(|| matches!(shuffler.forward(2), Err(Error::Refused { problem, .. }) if problem.status == 502));
    refused(shuffler.messages(2, &second, &user(16), &[1]), "closed");
    let (_runtime, _) = service(folder.path(), &address.to_string());
    until(|| shuffler.forward(2).is_ok());
    refused(shuffler.forward(2), "closed");
    assert_eq!((view(&server, &id).feedbacks, BanditTask::ask(&server, &id).unwrap().exchange()), (32, 3));
}

/// A stranger makes up numbers of exchanges, one after the other. The bandit is asked about once a second,
/// and not each time; and whoever comes after the next exchange has begun is taken at once, since a batch was
/// handed on in between.
#[test]
fn attack_made_up_exchanges_ask_the_bandit_nothing() {
    let folder = TempDir::new().unwrap();
    let (_runtime, address) = service(folder.path(), "127.0.0.1:0");
    let server = party(address);
    let id = create(&server, &elimination(4));
    let to_server = Relay::start(address).unwrap();
    let process = shuffler(to_server.address(), &id);
    let shuffler = party(process.address());
    let questions = || to_server.passed().sent.windows(16).filter(|w| w == b"GET /v1/bandits/").count();
    // At the start, whether it is a bandit of this kind.
    assert_eq!(questions(), 1);
    let begin = std::time::Instant::now();
    for exchange in 1000..1400 {
        refused(shuffler.messages(exchange, &[0; 16], &[7; 16], &[1]), "not_awaited");
    }
    let most = 2 + begin.elapsed().as_secs() as usize;
    assert!(questions() <= 1 + most, "{} questions", questions());
    let task = BanditTask::ask(&server, &id).unwrap();
    let (told, users) = (task.digest().unwrap(), task.users() as u8);
    for k in 0..users {
        shuffler.messages(1, &told, &[k; 16], &[1]).unwrap();
    }
    until(|| view(&server, &id).feedbacks == u64::from(users));
    until(
        || matches!(shuffler.forward(1), Err(Error::Refused { problem, .. }) if problem.reason.as_deref() == Some("closed")),
    );
    let told = BanditTask::ask(&server, &id).unwrap().digest().unwrap();
    shuffler.messages(2, &told, &[0; 16], &[1]).unwrap();
}

/// A shuffler stands before bandits whose users send bits; of others it says so, and ends. What a server says
/// that is no bandit is that server's fault.
#[test]
fn shufflers_start_for_bandits_of_their_kind() {
    let folder = TempDir::new().unwrap();
    let (_runtime, address) = service(folder.path(), "127.0.0.1:0");
    let server = party(address);
    let shares = json!({"policy": "elimination", "model": "pure", "arms": 3, "horizon": 2000, "epsilon": 4});
    let id = create(&server, &shares);
    let at = format!("http://{address}");
    let starts = |id: &str| {
        let arguments = ["shuffler", "--listen", "127.0.0.1:0", "--server", &at, "--bandit", id];
        Command::new(PROGRAM).args(arguments).output().unwrap()
    };
    ends(&starts(&id), false, "waits for shares and not for bits");
    ends(&starts("nobody"), false, "bandit nobody");

    let runtime = Runtime::new().unwrap();
    let (garbage, before) = runtime.block_on(async {
        let listen = || async { tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap() };
        let (first, second) = (listen().await, listen().await);
        let addresses = (first.local_addr().unwrap(), second.local_addr().unwrap());
        let nonsense = axum::Router::new().fallback(async || "no bandit");
        let routes = http::shuffler(Party::new(format!("http://{}", addresses.0)).unwrap(), "b".into());
        tokio::spawn(async move { axum::serve(first, nonsense).await });
        tokio::spawn(async move { axum::serve(second, routes).await });
        addresses
    });
    let Err(Error::Refused { problem, .. }) = party(before).messages(1, &[0; 16], &[0; 16], &[1]) else {
        panic!("taken")
    };
    assert_eq!((problem.status, problem.reason.as_deref()), (502, Some("bad_answer")));
    assert!(problem.detail.contains(&garbage.to_string()), "{problem:?}");
}

/// Within a minute.
#[track_caller]
fn until(what: impl Fn() -> bool) {
    for _ in 0..1200 {
        if what() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not within a minute");
}
