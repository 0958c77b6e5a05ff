//! Bandits of a committee: members, a server, and the program of the agent.

use crate::fixture::*;
use axum::extract::Request;
use axum::middleware::{self, Next};
use helba_member::Identity;
use helba_member::{Board, MANIFEST_FILE, Served, make_keys, routes};
use helba_server::{AppState, Connections, Settings};
use rand::RngExt;
use serde_json::{Value, json};
use shares::{Card, Proposal, SignedManifest, Threshold};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use user_client::{Client, Device, Stop};
use wire::{AccessToken, Counted, Decided, PublicBundle};

const MEMBERS: u8 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// Three members, of whom two know everything together, and a server that has keys too.
struct World {
    folder: TempDir,
    server: String,
    /// In hexadecimal digits.
    id: String,
    stop: Stop,
    members: Vec<std::thread::JoinHandle<()>>,
    runtime: Option<Runtime>,
    /// The bodies of all requests to the server.
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl World {
    fn new() -> Self {
        let (folder, runtime) = (folder(), Runtime::new().unwrap());
        let own = |member: u8| folder.path().join(format!("member-{member}"));
        let mut rng = rng(21);
        let mut identity = |member: u8| {
            std::fs::create_dir_all(own(member)).unwrap();
            let identity = Identity::generate(&mut rng);
            identity.save(&own(member).join("identity")).unwrap();
            Card { sealing: identity.sealing.public(), signing: identity.signing.public() }
        };
        let cards = (1..=MEMBERS).map(&mut identity).collect();
        let threshold = Threshold::new(2, MEMBERS).unwrap();
        let proposal = Proposal { threshold, cards, follows: None, nonce: rng.random() };
        let opened = |member: u8| Identity::open(&own(member).join("identity")).unwrap();
        let listen = || runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let (listener, never) = (listen(), std::future::pending::<()>);
        let board = url(&listener);
        let routes = routes(Arc::new(Board::new(proposal.clone())));
        runtime.spawn(helba_server::serve(listener, routes, Connections::default(), never()));
        std::thread::scope(|scope| {
            for member in 1..=MEMBERS {
                let (proposal, board, own, identity) = (&proposal, &board, own(member), opened(member));
                scope.spawn(move || {
                    make_keys(proposal, &identity, &Client::new(board).unwrap(), &own, PATIENCE).unwrap();
                });
            }
        });
        let manifest = std::fs::read(own(1).join(MANIFEST_FILE)).unwrap();
        let manifest = SignedManifest::from_bytes(&manifest).unwrap();
        let id = ckks::Hex(&manifest.manifest.id()).to_string();
        let listener = listen();
        let server = url(&listener);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let recorded = seen.clone();
        let record = middleware::from_fn(move |request: Request, next: Next| {
            let recorded = recorded.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
                recorded.lock().unwrap().push(body.to_vec());
                next.run(Request::from_parts(head, body.into())).await
            }
        });
        runtime.block_on(async {
            let settings = Settings { committee: Some(manifest), ..Settings::default() };
            let bundle = PublicBundle::read(&keys().0[..]).unwrap();
            let state = AppState::open(Some(bundle), &folder.path().join("server"), settings).unwrap();
            let app = helba_server::app(state).layer(record);
            tokio::spawn(helba_server::serve(listener, app, Connections::default(), never()));
        });
        let stop = Stop::default();
        let serve = |member: u8| {
            let (own, identity, stop) = (own(member), opened(member), stop.clone());
            let client = Client::new(&server).unwrap();
            std::thread::spawn(move || {
                let served = Served::open(&own, identity, client, false).unwrap();
                helba_member::serve(served, &stop, &|_| ()).unwrap();
            })
        };
        let members = (1..=MEMBERS).map(serve).collect();
        World { server, id, stop, members, folder, runtime: Some(runtime), seen }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("agent")
    }

    fn command(&self, committee: &str) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_helba-agent"));
        program.args(["--server", &self.server, "--committee", committee, "--listen", "127.0.0.1:0"]);
        program.args(["--patience", "60", "--state"]).arg(self.state());
        program
    }

    /// The agent as a process, and an application.
    fn agent(&self) -> (Running, Http) {
        let mut child = self.command(&self.id);
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split([' ', ';']).nth(2).unwrap_or_else(|| panic!("{line}")).to_string();
        let token = AccessToken::open(&self.state().join("agent.token")).unwrap();
        (Running(child), Http::new(format!("http://{address}"), Some(token)))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.stop();
        // A member waits for an answer of the server, which ends with it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        self.members.drain(..).for_each(|member| drop(member.join()));
    }
}

/// A process that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn schema() -> Value {
    json!({
        "schema": "layout = \"dsjson\"\nreward_range = [0, 50]\n[candidate]\ntea = \"none\"\njuice = \"none\"\n",
        "examples": [{"candidates": [{"tea": 0.9, "juice": 0.1}, {"tea": 0.1, "juice": 0.9}]}],
        "sessions": 1, "alpha": 0.5, "linear": {"schedule": {"every": {"rounds": 4}}}, "name": "a shop",
    })
}

fn file_has(path: &Path, bytes: &[u8]) -> bool {
    std::fs::read(path).unwrap().windows(bytes.len()).any(|window| window == bytes)
}

/// An application plays by names and in euros; the agent is killed while a decision waits, and the next one
/// returns its reward. Feedback counts once, and is erased.
#[test]
fn an_application_plays_a_bandit_of_a_committee() {
    let world = World::new();
    let (agent, app) = world.agent();
    let created: Value = app.post("/bandits", &schema()).ok();
    assert_eq!((&created["committee"], &created["name"]), (&json!(world.id), &json!("a shop")));
    let bandit = created["id"].as_str().unwrap().to_string();
    let offered = json!({"candidates": [{"tea": 0.9, "juice": 0.1}, {"tea": 0.1, "juice": 0.9}]});
    let decide = |app: &Http| -> Decided { app.post(&format!("/bandits/{bandit}/decisions"), &offered).ok() };
    let path = |decision: &str| format!("/bandits/{bandit}/decisions/{decision}/feedback");
    let reward = |app: &Http, decided: &Decided| -> Counted {
        let euros = if decided.arm == Some(1) { 50.0 } else { 0.0 };
        app.post(&path(&decided.decision), &json!({"reward_value": euros})).ok()
    };
    for round in 1..=8 {
        let decided = decide(&app);
        assert_eq!((decided.round, decided.reliable, decided.probability), (round, Some(true), Some(1.0)));
        let counted = reward(&app, &decided);
        assert_eq!((counted.of.clone(), counted.feedbacks), (decided.decision.clone(), round));
        assert_eq!(reward(&app, &decided), counted);
        let other = app.post(&path(&decided.decision), &json!({"reward": -0.125}));
        assert_eq!(other.problem(), (409, "answered".into()));
    }
    wait_for("two updates", || app.get(&format!("/bandits/{bandit}")).ok::<Value>()["updates"] == 2);
    let (waits, session) = (decide(&app), std::fs::read(world.state().join("committee.session")).unwrap());
    assert_eq!(waits.arm, Some(1));
    drop(agent);

    let (_agent, app) = world.agent();
    assert_eq!(reward(&app, &waits).feedbacks, 9);
    assert_eq!(std::fs::read(world.state().join("committee.session")).unwrap(), session);
    assert!(!file_has(&world.state().join("pending.redb"), &session[64..]));
    let erase = |decision: &str| {
        let url = format!("{}/v1{}", app.base, path(decision));
        answer(app.authorized(app.agent.delete(url)).call().unwrap())
    };
    assert_eq!(erase(&waits.decision).ok::<Value>(), json!({"erased": true}));
    for none in ["none", &"7".repeat(64)] {
        assert_eq!(erase(none).problem(), (404, "unknown_decision".into()));
        assert_eq!(
            app.post(&path(none), &json!({"reward": 0.5})).problem(),
            (404, "unknown_decision".into())
        );
    }
    let view: Value = app.get(&format!("/bandits/{bandit}")).ok();
    assert_eq!(
        (&view["feedbacks"], &view["unlearnt"], &view["decisions"]),
        (&json!(8), &json!(0), &json!(9))
    );
    assert_eq!(view["agent"]["features"], json!(["juice", "tea"]));
    // What comes while the bandit is frozen is counted here alone.
    app.patch(&bandit, &json!({"freeze": true})).ok::<Value>();
    let frozen: Counted = app.post(&path(&decide(&app).decision), &json!({"reward": 0.5})).ok();
    assert_eq!((frozen.feedbacks, frozen.learnt), (0, Some(false)));
    let summary: Value = app.get(&format!("/bandits/{bandit}/summary")).ok();
    assert_eq!((&summary["decisions"], &summary["rewards"]["count"]), (&json!(10), &json!(10)));
    let log = std::fs::read_to_string(world.state().join("log/decisions.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (lines.len(), &lines[0]["model_feedbacks"], &lines[0]["model_age"]),
        (20, &Value::Null, &Value::Null)
    );
    let listed: Vec<Value> = app.get("/bandits").ok();
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &json!(bandit)));
    assert_eq!(app.delete(&bandit).0, 204);
    assert_eq!(app.decided_by(&bandit, &offered).problem(), (404, "unknown_bandit".into()));
}

/// What a committee does not do is refused by its name, and bandits of others are none of the agent's. An
/// agent that names another committee than the server's does not start, nor one with another's session.
#[test]
fn what_a_committee_does_not_do_is_refused_by_name() {
    let world = World::new();
    let (running, app) = world.agent();
    let refused = |answer: Answer, names: &str| {
        let detail =
            serde_json::from_slice::<Value>(&answer.2).unwrap()["detail"].as_str().unwrap().to_string();
        assert_eq!(answer.problem(), (422, "bad_value".into()), "{detail}");
        assert!(detail.starts_with(&format!("{names}: a bandit of a committee has none, since")), "{detail}");
    };
    for (name, value) in [
        ("horizon", json!(500)),
        ("unanswered", json!(2)),
        ("discount", json!(0.99)),
        ("window", json!(100)),
        ("answers", json!("scores")),
        ("open_model", json!(true)),
        ("epsilon", json!(0.1)),
        ("baseline", json!(0)),
    ] {
        refused(app.post("/bandits", &json!({"features": 2, "arms": 2, name: value})), name);
    }
    let data = json!({"features": 2, "arms": 2, "linear": {"schedule": "trace_or_growth"}});
    assert_eq!(app.post("/bandits", &data).problem(), (400, "bad_configuration".into()));
    let none = json!({"features": 2, "arms": 2, "sessions": 0});
    assert_eq!(app.post("/bandits", &none).problem(), (400, "bad_configuration".into()));
    let created: Value = app.post("/bandits", &json!({"features": 2, "arms": 2, "sessions": 1})).ok();
    let bandit = created["id"].as_str().unwrap();
    for (name, value) in [("mode", json!("shadow")), ("epsilon", json!(0.1)), ("baseline", json!(1))] {
        let first = if name == "mode" { json!({name: value, "baseline": 0}) } else { json!({name: value}) };
        refused(app.patch(bandit, &first), name);
    }
    assert_eq!(app.get(&format!("/bandits/{bandit}/counters")).problem(), (409, "no_counters".into()));
    let counts = json!({"features": 2, "arms": 2, "sessions": 1, "counters": {"every": 10}});
    let created: Value = app.post("/bandits", &counts).ok();
    let counted: Value = app.get(&format!("/bandits/{}/counters", created["id"].as_str().unwrap())).ok();
    let arm = json!({"pulls": 0.0, "reward": 0.0});
    assert_eq!(counted, json!({"feedbacks": 0, "deviation": 0.0, "arms": [arm, arm]}));
    let rounds =
        json!({"name": "history", "rounds": [{"contexts": [[0.5, 0.5], [0.1, 0.1]], "arm": 0, "reward": 1}]});
    refused(app.post(&format!("/bandits/{bandit}/learn"), &rounds), "learn");
    refused(app.get(&format!("/bandits/{bandit}/model")), "model");
    refused(app.post(&format!("/bandits/{bandit}/copy"), &json!({})), "copy");
    refused(app.put(&format!("/bandits/{bandit}/frozen"), &json!({"frozen": true})), "frozen");
    for rows in [vec![vec![0.5, 0.5]], vec![vec![0.5], vec![0.5]], vec![vec![2.0, 0.0], vec![0.0, 0.0]]] {
        assert_eq!(app.decide(bandit, &rows).0, 422);
    }
    let decided = app.decided(bandit, &[vec![0.5, 0.5], vec![0.1, 0.1]]);
    assert_eq!(app.feedback(bandit, &decided.decision, 1.5).0, 422);
    assert_eq!(app.counted(bandit, &decided.decision, 1.0).feedbacks, 1);

    // Bandits of keys are on the same server.
    let device = Device::read(&keys().1[..]).unwrap();
    let client = Client::new(&world.server).unwrap().with_token(device.token().clone());
    let of_keys = client.create_encrypted(&config()).unwrap().id;
    let rows = random_rows(&mut rng(1));
    for answer in [app.get(&format!("/bandits/{of_keys}")), app.delete(&of_keys), app.decide(&of_keys, &rows)]
    {
        assert_eq!(answer.problem(), (409, "no_keys".into()));
    }
    let folder = folder();
    let other = crate::fixture::Running::start(&world.server, folder.path());
    let keys = other.http();
    for answer in [keys.get(&format!("/bandits/{bandit}")), keys.delete(bandit), keys.decide(bandit, &rows)] {
        assert_eq!(answer.problem(), (409, "no_keys".into()));
    }
    // Feedback of a bandit of keys is erased too, with the code of the server.
    let decided = keys.decided(&of_keys, &rows);
    keys.counted(&of_keys, &decided.decision, 0.5);
    let url = format!("{}/v1/bandits/{of_keys}/decisions/{}/feedback", keys.base, decided.decision);
    let erased: Value = answer(keys.authorized(keys.agent.delete(url)).call().unwrap()).ok();
    assert!(erased["code"].is_string(), "{erased}");

    drop(running);
    let fails = |committee: &str, more: &[&str]| {
        let out = world.command(committee).args(more).output().unwrap();
        let text = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && out.stdout.is_empty() && !text.contains("panicked"), "{text}");
        text
    };
    let (another, fresh) = ("7".repeat(64), world.folder.path().join("fresh.session"));
    assert!(fails(&another, &[]).contains("was named"));
    assert!(fails(&another, &["--session", fresh.to_str().unwrap()]).contains("was named"));
    assert!(!fresh.exists());
    assert!(fails("shop", &[]).contains("64 hexadecimal digits"));
    assert!(fails(&world.id, &["--secret", "secret.bundle"]).contains("cannot be used with"));
    // Another session does not open what this one has sealed.
    let fresh = fresh.to_str().unwrap();
    assert!(fails(&world.id, &["--session", fresh]).contains("sealed under another"));
}

/// No body that the server gets from an agent of a committee has a feature or a reward of the application, as
/// text or as a number. The control is a clear bandit on the same server.
#[test]
fn attack_nothing_in_the_clear_leaves_to_a_committee() {
    let world = World::new();
    let (_agent, app) = world.agent();
    let (features, reward) = ([0.123456789, 0.345678912, 0.567891234, 0.789123456], 0.912345678);
    let rows: Vec<Vec<f64>> = features.chunks(2).map(<[f64]>::to_vec).collect();
    let found = || {
        let secrets = features.iter().chain([&reward]);
        let forms = secrets.flat_map(|number| [number.to_le_bytes().to_vec(), number.to_string().into()]);
        let bodies = world.seen.lock().unwrap();
        let has = |form: &Vec<u8>| bodies.iter().any(|body| body.windows(form.len()).any(|b| b == form));
        forms.filter(has).count()
    };
    let play = |app: &Http, bandit: &str| {
        let decided = app.decided(bandit, &rows);
        app.counted(bandit, &decided.decision, reward);
    };
    let created: Value = app.post("/bandits", &json!({"features": 2, "arms": 2, "sessions": 1})).ok();
    play(&app, created["id"].as_str().unwrap());
    assert_eq!(found(), 0);
    let device = Device::read(&keys().1[..]).unwrap();
    let client = Client::new(&world.server).unwrap().with_token(device.token().clone());
    let parameters = json!({"features": 2, "arms": 2, "lambda": 1.0, "alpha": 0.5});
    let clear = client.create_policy("oful", parameters.as_object().unwrap().clone()).unwrap().id;
    play(&Http::new(world.server.clone(), None), &clear);
    assert_eq!(found(), 5, "the control");
}
