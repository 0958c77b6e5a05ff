//! Starts that must fail: with a sentence that says what to do, and an exit code that is not 0.

use crate::fixture::*;
use crate::users::*;
use helba_server::Settings;
use protocol::Answers;
use std::time::Duration;
use tempfile::TempDir;

const ANY: &str = "127.0.0.1:0";

#[track_caller]
fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn bad_key_files() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let missing = folder.path().join("missing");
    says(&refused(&missing, &state, ANY), &["missing", "cannot open", "helba-keygen"]);
    // A folder cannot be read, whoever asks.
    says(&refused(folder.path(), &state, ANY), &["helba-keygen"]);
    says(&refused(&file("garbage", b"not a bundle, but long enough"), &state, ANY), &["not a key bundle"]);
    says(&refused(&file("empty", b""), &state, ANY), &["end within"]);
    let bytes = std::fs::read(keys().public_file()).unwrap();
    says(&refused(&file("cut", &bytes[..bytes.len() / 2]), &state, ANY), &["end within"]);
    says(&refused(&keys().secret_file(), &state, ANY), &["bundle with secrets", "--public"]);
    assert!(!state.exists(), "nothing is made before the keys are good");
}

/// Toy keys protect nothing, so that a server takes them only where it is told to.
#[test]
fn attack_toy_keys_are_not_served_unnoticed() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let mut server = std::process::Command::new(env!("CARGO_BIN_EXE_helba-server"));
    server.arg("--keys").arg(keys().public_file()).arg("--state").arg(&state).args(["--listen", ANY]);
    let out = server.output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    says(&String::from_utf8(out.stderr).unwrap(), &["toy keys", "--toy"]);
    assert!(!state.exists());
    // With it they are.
    drop(Program::start(&state));
}

/// What a log begins with: the kernels that run and the reason, and seconds of a decision of the largest
/// problem of the keys.
#[test]
fn logs_name_the_kernels() {
    let folder = TempDir::new().unwrap();
    let mut server = std::process::Command::new(env!("CARGO_BIN_EXE_helba-server"));
    server.arg("--keys").arg(keys().public_file()).arg("--state").arg(folder.path().join("state"));
    server.args(["--listen", ANY, "--threads", "1"]).env("RUST_LOG", "info").env("RNS_KERNEL", "scalar");
    // It stops at the toy keys.
    let log = String::from_utf8(server.output().unwrap().stderr).unwrap();
    says(&log, &["scalar kernels run, as RNS_KERNEL says", "s on 1 thread with scalar kernels"]);
}

/// `check` starts nothing; as text and as JSON.
#[test]
fn checks_compare_kernels() {
    let check = |arguments: &[&str]| {
        let mut server = std::process::Command::new(env!("CARGO_BIN_EXE_helba-server"));
        server.arg("check").args(arguments).env("RNS_KERNEL", "scalar");
        let out = server.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    says(&check(&[]), &["scalar kernels run, as RNS_KERNEL says", "d = 8, K = 8: a decision takes about"]);
    let file = keys().public_file();
    let json: serde_json::Value =
        serde_json::from_str(&check(&["--keys", file.to_str().unwrap(), "--json"])).unwrap();
    let shape = keys().bundle.manifest.shape;
    assert_eq!(
        (json["kernel"].as_str(), json["features"].as_u64()),
        (Some("scalar"), Some(shape.dim as u64))
    );
    let kernels = json["kernels"].as_array().unwrap();
    assert!(kernels[0]["kernel"] == "scalar" && kernels[0]["available"] == true, "{json}");
    assert!(kernels[0]["seconds"][0]["round"].as_f64().unwrap() > 0.0, "{json}");
}

#[test]
fn busy_port_is_named() {
    let (_listener, address) = busy_port();
    let state = TempDir::new().unwrap();
    says(&refused(&keys().public_file(), state.path(), &address), &[&address, "--listen"]);
    says(&refused(&keys().public_file(), state.path(), "no.such.host.invalid:1"), &["--listen"]);
}

#[test]
fn an_address_has_a_port() {
    let state = TempDir::new().unwrap();
    for (given, example) in
        [("8099", "127.0.0.1:8099"), (":8099", "127.0.0.1:8099"), ("localhost", "127.0.0.1:8080")]
    {
        let message = refused(&keys().public_file(), state.path(), given);
        says(&message, &["--listen", given, "an address and a port", example]);
    }
    says(&refused(&keys().public_file(), state.path(), "127.0.0.1:70000"), &["--listen", "65535"]);
}

#[test]
fn one_server_a_folder() {
    let state = TempDir::new().unwrap();
    let first = Program::start(state.path());
    says(&refused(&keys().public_file(), state.path(), ANY), &["in use by another server"]);
    assert_eq!(first.device().get("/health").status, 200);
    first.kill();
    Program::start(state.path()).kill();
}

#[test]
fn a_folder_belongs_to_its_keys() {
    let state = TempDir::new().unwrap();
    let server = Program::start(state.path());
    let created = server.device().create(&encrypted(Answers::Arm));
    server.kill();
    let stored = || {
        let read = |path| (std::fs::read(&path).unwrap(), path);
        files_below(&state.path().join("encrypted").join(&created.id))
            .into_iter()
            .map(read)
            .collect::<Vec<_>>()
    };
    let before = stored();
    let message = refused(&other_keys().public_file(), state.path(), ANY);
    assert!(stored() == before, "a file changed");
    says(
        &message,
        &[
            "another key",
            &keys().bundle.key_id.to_string(),
            &other_keys().bundle.key_id.to_string(),
            "--state",
        ],
    );
}

/// A database that is empty, cut, or no file ends the start with a sentence, and stays as it is: another one
/// in its place would say that there never was a bandit.
#[test]
fn a_state_without_its_database_is_not_begun_anew() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let server = Program::start(&state);
    let created = server.device().create(&encrypted(Answers::Arm));
    server.kill();
    let (file, keys) = (state.join("state.redb"), keys().public_file());
    let whole = std::fs::read(&file).unwrap();
    for (length, says_so) in
        [(0, "is empty"), (1, "cannot be used"), (100, "cannot be used"), (whole.len() / 2, "cannot be used")]
    {
        std::fs::write(&file, &whole[..length]).unwrap();
        says(&refused(&keys, &state, ANY), &[says_so, "restore", "backup", "--restored"]);
        assert_eq!(std::fs::metadata(&file).unwrap().len(), length as u64);
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    says(&refused(&keys, &state, ANY), &["state.redb", "directory"]);
    std::fs::remove_dir(&file).unwrap();
    says(
        &refused(&keys, &state, ANY),
        &["state.redb is missing", "1 encrypted bandit", "--restored", "--state"],
    );
    assert!(!file.exists());
    // The choice is the operator's.
    let mut chosen = command(&keys, &state, ANY);
    let server = Program::spawn(chosen.arg("--restored"));
    assert_eq!(server.device().get(&format!("/bandits/{}", created.id)).status, 200);
    server.kill();
    // And with the whole database all is as it was.
    std::fs::write(&file, &whole).unwrap();
    Program::start(&state).kill();
}

/// Policies in the clear need no keys. Encrypted bandits in the folder are refused until their keys are back,
/// and go on then as they were.
#[test]
fn keys_are_for_encrypted_bandits() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let clear = br#"{"policy": "ucb1", "arms": 3}"#;
    let no_keys = |answer: Answer| {
        let problem = answer.problem();
        assert_eq!((problem.status, problem.reason.as_deref()), (409, Some("no_keys")));
        says(&problem.detail, &["--keys", "policies in the clear"]);
    };
    let config = serde_json::to_vec(&encrypted(Answers::Arm)).unwrap();

    let server = Program::start_without_keys(&state);
    server.device().post("/bandits", clear).ok();
    no_keys(server.device().post("/bandits", &config));
    no_keys(server.device().post("/bandits", br#"{"features": 7, "arms": 4}"#));
    no_keys(server.device().get("/keys"));
    server.kill();
    assert_eq!(std::fs::read_to_string(state.with_extension("log")).unwrap(), "");

    let server = Program::start(&state);
    let (user, history, mut rng) = (User::create(server.device(), Answers::Arm), History::default(), rng(7));
    user.round(&history, &mut rng);
    user.settle(&mut rng);
    server.kill();

    let server = Program::start_without_keys(&state);
    let device = server.device();
    says(
        &std::fs::read_to_string(state.with_extension("log")).unwrap(),
        &["1 encrypted bandits", "409", "--keys"],
    );
    let path = user.path("");
    no_keys(device.get(&path));
    no_keys(device.delete(&path));
    no_keys(device.post(&format!("{path}/decisions"), b"contexts"));
    no_keys(device.post(&format!("{path}/raises"), b"raises"));
    no_keys(device.post(&format!("{path}/decisions/{}/feedback", "0".repeat(32)), b"statistics"));
    no_keys(device.post(&format!("{path}/shuffled"), b"{}"));
    let listed: Vec<serde_json::Value> = serde_json::from_slice(&device.get("/bandits").ok()).unwrap();
    assert_eq!(listed.len(), 1);
    let id = listed[0]["id"].as_str().unwrap().to_string();
    device.post(&format!("/bandits/{id}/decisions"), b"").ok();
    server.kill();

    let server = Program::start(&state);
    let user = user.at(server.address);
    assert_eq!(user.status().feedbacks, 1);
    user.round(&history, &mut rng);
    server.device().get(&format!("/bandits/{id}")).ok();
}

#[test]
fn a_state_that_is_no_folder() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    says(&refused(&keys().public_file(), &file, ANY), &["file", "check that the folder"]);
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    std::fs::write(state.join("state.redb"), b"not a database at all").unwrap();
    says(&refused(&keys().public_file(), &state, ANY), &["cannot be used"]);
}

#[cfg(unix)]
#[test]
fn sigterm_ends_well() {
    let state = TempDir::new().unwrap();
    let mut server = Program::start(state.path());
    let user = User::create(server.device(), Answers::Arm);
    let kill = std::process::Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert_eq!(user.at(Program::start(state.path()).address).status().round, 0);
}

/// A server that stops answers requests that wait for something to do, and is not held up by them.
#[test]
fn requests_that_wait_end_with_the_server() {
    let server = InProcess::start(Settings::default());
    let (device, (sender, answered)) = (server.device(), std::sync::mpsc::channel());
    let created = device.create(&encrypted(Answers::Arm));
    let path = format!("/bandits/{}/raises?wait=30", created.id);
    std::thread::scope(|scope| {
        scope.spawn(move || sender.send(device.get(&path)).unwrap());
        wait_for("a raiser", || server.state.raisers_waiting(&created.id) == 1);
        server.state.end_waits();
        // It would wait for 30 s otherwise.
        assert_eq!(answered.recv_timeout(Duration::from_secs(20)).unwrap().status, 204);
    });
}
