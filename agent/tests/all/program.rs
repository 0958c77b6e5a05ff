//! The program: its token file, its addresses, and its end at a signal.

use crate::fixture::*;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

fn program(server: &Server, folder: &Path) -> Command {
    let secret = folder.join("secret.bundle");
    if !secret.exists() {
        use std::io::Write;
        let mut file = host::private_file().write(true).create(true).truncate(true).open(&secret).unwrap();
        file.write_all(&keys().1).unwrap();
    }
    let mut program = Command::new(env!("CARGO_BIN_EXE_helba-agent"));
    program
        .args(["--server", &server.url(), "--secret"])
        .arg(secret)
        .arg("--state")
        .arg(folder.join("agent"));
    program
}

/// The first start makes a token that only its owner can read, and later starts keep it.
#[cfg(unix)]
#[test]
fn the_program_keeps_its_token_and_ends_at_a_signal() {
    let folder = folder();
    let server = Server::start(folder.path());
    let (token, mut bandit) = (folder.path().join("agent").join("agent.token"), None);
    for signal in ["TERM", "INT"] {
        let mut child = program(&server, folder.path());
        let child =
            child.args(["--toy", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = child.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split([' ', ';']).nth(2).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&token).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        let app = Http::new(format!("http://{address}"), Some(wire::AccessToken::open(&token).unwrap()));
        let (id, decision) = bandit.take().unwrap_or_else(|| {
            let id = app.create();
            let decision = app.decided(&id, &random_rows(&mut rng(1))).decision;
            (id, decision)
        });
        assert_eq!(app.counted(&id, &decision, 0.5).feedbacks, 1);
        bandit = Some((id.clone(), decision));
        let kill = |signal: &str| {
            let kill = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
            assert!(kill.unwrap().success());
        };
        // These end no service.
        ["HUP", "USR1"].into_iter().for_each(kill);
        std::thread::sleep(std::time::Duration::from_millis(300));
        app.decided(&id, &random_rows(&mut rng(2)));
        kill(signal);
        assert!(child.wait().unwrap().success());
    }
}

/// Refusals of the program are one sentence and an exit code.
#[test]
fn the_program_says_what_is_wrong() {
    let folder = folder();
    let server = Server::start(folder.path());
    let run = |more: &[&str]| {
        let out = program(&server, folder.path()).args(more).output().unwrap();
        let text = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && out.stdout.is_empty() && !text.contains("panicked"), "{text}");
        text
    };
    assert!(run(&["--listen", "127.0.0.1:0"]).contains("toy key"));
    assert!(run(&["--toy", "--listen", "0.0.0.0:0"]).contains("--plain-http"));
    assert!(run(&["--toy", "--listen", "nowhere"]).contains("cannot listen on nowhere"));
    let file = folder.path().join("no.token");
    std::fs::write(&file, "token").unwrap();
    let file = file.to_str().unwrap();
    assert!(run(&["--toy", "--listen", "127.0.0.1:0", "--token-file", file]).contains("no.token"));
}

/// An application that trusts the certificate of the agent plays over HTTPS, and no plain HTTP is spoken.
#[test]
fn the_program_speaks_https() {
    let folder = folder();
    let server = Server::start(folder.path());
    let mut child = program(&server, folder.path());
    child.args(["--toy", "--listen", "127.0.0.1:0", "--tls-self-signed"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address: std::net::SocketAddr = line.split([' ', ';']).nth(2).unwrap().parse().unwrap();
    let agent = folder.path().join("agent");
    let token = wire::AccessToken::open(&agent.join("agent.token")).unwrap();
    let url = format!("https://localhost:{}", address.port());
    let client = user_client::Client::with_ca(&url, &agent.join("tls").join("ca.pem")).unwrap();
    let app = client.with_token(token);
    let id = app.create_encrypted(&config()).unwrap().id;
    let decided = app.decide_clear(&id, Some(random_rows(&mut rng(1)))).unwrap();
    let reward = wire::ClearFeedback { reward: Some(0.5), rewards: None, sum: None, share: None };
    assert_eq!(app.feedback_clear(&id, &decided.decision, &reward).unwrap().feedbacks, 1);
    let plain = user_client::Client::new(&format!("http://{address}")).unwrap();
    assert!(matches!(plain.any_bandit(&id), Err(user_client::Error::Unreachable { .. })));
    child.kill().unwrap();
    child.wait().unwrap();
}
