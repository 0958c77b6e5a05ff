//! HTTPS of the program, and a proxy in front of it.

use crate::fixture::*;
use crate::users::*;
use helba_server::Tls;
use protocol::Answers;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use user_client::Client;
use wire::{AccessToken, PolicyCreated, Problem};

/// A client of `https://localhost` that trusts `ca` alone.
fn https(port: u16, ca: &Path) -> Client {
    let client = Client::with_ca(&format!("https://localhost:{port}"), ca).unwrap();
    client.with_token(keys().token().clone())
}

/// Two rounds of a bandit of `creator`, of which the second one raises the sum of the first.
fn plays(client: &Client, creator: &Client) {
    let mut rng = rng(21);
    let created = creator.create_encrypted(&every_round(Answers::Arm)).unwrap();
    let device = keys().device().join(&created).unwrap();
    for round in 1..=2 {
        let rows = random_rows(&mut rng);
        let choice = device.play(client, &rows, &mut rng).unwrap().choice;
        let frame = device.feedback(choice.arm, &rows[choice.arm], 0.5, None, &mut rng).unwrap();
        let receipt = client.feedback_encrypted(&created.id, choice.id, &frame).unwrap();
        assert_eq!(receipt.feedbacks, round);
    }
    // Whatever tasks are left: a request that waits is answered.
    client.raises(&created.id, device.limits(), 2).unwrap();
}

/// The program with a certificate of its own: what it prints is what devices need, it survives a hangup, and
/// it keeps the certificate over a restart.
#[cfg(unix)]
#[test]
fn rounds_over_https() {
    let folder = TempDir::new().unwrap();
    let (state, log) = (folder.path().join("state"), folder.path().join("log"));
    let ca = folder.path().join("ca.pem");
    for start in 0..2 {
        let mut server = command(&keys().public_file(), &state, "127.0.0.1:0");
        server.arg("--tls-self-signed").env("RUST_LOG", "info");
        let server = Program::spawn(server.stderr(std::fs::File::create(&log).unwrap()));
        let said = || std::fs::read_to_string(&log).unwrap();
        if start == 0 {
            let said = said();
            let line = said.lines().find_map(|line| line.split_once("--ca ")).expect("the file for devices");
            let (path, sha256) = line.1.split_once(", SHA-256 ").unwrap();
            let sum = Command::new("sha256sum").arg(path).output().unwrap();
            assert!(String::from_utf8(sum.stdout).unwrap().starts_with(sha256), "{sha256}");
            std::fs::copy(path, &ca).unwrap();
        }
        let client = https(server.address.port(), &ca);
        plays(&client, &client);
        assert!(Client::new(&format!("http://{}", server.address)).unwrap().keys().is_err());
        let hangup = Command::new("kill").args(["-HUP", &server.child.id().to_string()]).status().unwrap();
        assert!(hangup.success());
        let begun = Instant::now();
        while !said().contains("was read again") {
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", said());
            std::thread::sleep(Duration::from_millis(50));
        }
        client.keys().unwrap();
        server.kill();
    }
}

/// Signals that ask a service to read something again end none, with a certificate or without, from its first
/// second on. Those that stop it do so in order.
#[cfg(unix)]
#[test]
fn hangups_end_no_server() {
    let folder = TempDir::new().unwrap();
    for (at, own) in [false, true].into_iter().enumerate() {
        let (state, log) =
            (folder.path().join(format!("state-{at}")), folder.path().join(format!("log-{at}")));
        let mut server = Command::new(env!("CARGO_BIN_EXE_helba-server"));
        server.arg("--state").arg(&state).args(["--listen", "127.0.0.1:0"]).env("RUST_LOG", "info");
        server.args(own.then_some("--tls-self-signed"));
        let mut server = Program::spawn(server.stderr(std::fs::File::create(&log).unwrap()));
        let kill = |signal: &str| {
            let id = server.child.id().to_string();
            assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        };
        ["-HUP", "-USR1", "-USR2", "-HUP"].into_iter().for_each(kill);
        std::thread::sleep(Duration::from_millis(500));
        assert!(std::net::TcpStream::connect(server.address).is_ok());
        kill(["-TERM", "-QUIT"][at]);
        assert!(server.child.wait().unwrap().success());
        assert!(std::fs::read_to_string(&log).unwrap().contains("stopping"));
    }
}

/// A server that other machines reach has tokens and HTTPS, or was told that it needs none.
#[test]
fn attack_no_server_is_open_to_other_machines_unnoticed() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let start = |options: &[&str]| {
        let mut server = command(&keys().public_file(), &state, "0.0.0.0:0");
        server.args(options);
        server
    };
    let refused = |options: &[&str]| {
        let out = start(options).output().unwrap();
        assert_eq!(out.status.code(), Some(1));
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.stdout.is_empty() && !said.contains("panicked"), "{said}");
        said.lines().last().unwrap().to_string()
    };
    for options in [&[][..], &["--plain-http"], &["--tls-self-signed"]] {
        let said = refused(options);
        for part in ["--listen 0.0.0.0:0", "helba-server token create", "--operator-token-file", "--open"] {
            assert!(said.contains(part), "{said}");
        }
    }
    assert!(!state.exists());
    let operator = folder.path().join("operator.token");
    host::write_private(&operator, "1".repeat(64).as_bytes()).unwrap();
    let operator = ["--operator-token-file", operator.to_str().unwrap()];
    for options in [&["--open"][..], &operator] {
        let said = refused(options);
        for part in ["0.0.0.0", "--tls-certificate", "--tls-self-signed", "--plain-http", "127.0.0.1"] {
            assert!(said.contains(part), "{said}");
        }
    }
    assert!(!state.exists());
    // The controls.
    for options in [&["--open", "--plain-http"][..], &[&operator[..], &["--tls-self-signed"]].concat()] {
        Program::spawn(&mut start(options)).kill();
    }
    let none = folder.path().join("none.pem");
    let none = none.to_str().unwrap();
    let said = refused(&["--open", "--tls-certificate", none, "--tls-key", none]);
    assert!(said.contains("none.pem") && said.contains("No such file"), "{said}");
}

/// A process that ends with the test.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// nginx with the configuration of docs/deployment.md for a server at `server`, on the port returned.
fn nginx(program: &str, folder: &Path, server: SocketAddr) -> (Proxy, u16) {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/deployment.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut site = page.split("```nginx\n").nth(1).unwrap().split("```").next().unwrap().to_string();
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let tls = folder.join("tls");
    for (of_docs, of_test) in [
        ("listen 443 ssl;", format!("listen 127.0.0.1:{port} ssl;")),
        ("server 127.0.0.1:8080;", format!("server {server};")),
        ("/etc/ssl/bandits/certificate.pem", tls.join("certificate.pem").display().to_string()),
        ("/etc/ssl/bandits/key.pem", tls.join("key.pem").display().to_string()),
    ] {
        assert_eq!(site.matches(of_docs).count(), 1, "{of_docs}");
        site = site.replace(of_docs, &of_test);
    }
    let main = "daemon off; master_process off; pid nginx.pid; error_log stderr;\nevents { }\nhttp {\naccess_log off;\n\
                client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;\n\
                scgi_temp_path scgi;\n";
    let configuration = folder.join("nginx.conf");
    std::fs::write(&configuration, format!("{main}{site}}}\n")).unwrap();
    let prefix = format!("{}/", folder.display());
    let child = Command::new(program)
        .args(["-p", &prefix, "-e", "stderr", "-c"])
        .arg(&configuration)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let proxy = Proxy(child);
    let begun = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "nginx does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    (proxy, port)
}

/// Rounds through nginx with the configuration of the documents. Bodies and waits that its own defaults would
/// cut off pass, and the server is told which host was asked for.
#[test]
fn rounds_through_nginx() {
    let runs = |program: &&str| Command::new(program).arg("-v").stderr(Stdio::null()).status().is_ok();
    let Some(program) = ["nginx", "/usr/sbin/nginx"].into_iter().find(runs) else {
        eprintln!("skipped: nginx is not installed (Debian's package nginx-light)");
        return;
    };
    let folder = TempDir::new().unwrap();
    let tls = folder.path().join("tls");
    let ca = tls.join("ca.pem");
    Tls::self_signed(&tls, &[], |_| ()).unwrap();
    let operator = folder.path().join("operator.token");
    host::write_private(&operator, "1".repeat(64).as_bytes()).unwrap();
    let mut server = command(&keys().public_file(), &folder.path().join("state"), "127.0.0.1:0");
    server.args(["--host", "bandits.example", "--operator-token-file"]).arg(&operator);
    let server = Program::spawn(&mut server);
    let (_proxy, port) = nginx(program, folder.path(), server.address);
    let operator = AccessToken::open(&operator).unwrap();
    plays(&https(port, &ca), &https(port, &ca).with_token(operator));

    let pem = std::fs::read(&ca).unwrap();
    let roots = RootCerts::from(vec![Certificate::from_pem(&pem).unwrap()]);
    let config = ureq::Agent::config_builder().tls_config(TlsConfig::builder().root_certs(roots).build());
    let agent: ureq::Agent = config.http_status_as_error(false).build().into();
    let bearer = format!("Bearer {}", "1".repeat(64));
    let url = |path: &str| format!("https://localhost:{port}/v1{path}");
    let asks =
        |host: &str| agent.get(url("/keys")).header("authorization", &bearer).header("host", host).call();
    assert_eq!(asks("bandits.example").unwrap().status(), 200);
    assert_eq!(asks("elsewhere.example").unwrap().status(), 421);
    assert_eq!(agent.get(url("/keys")).call().unwrap().status(), 401);

    // Above the bound of nginx itself, 1 MiB: the refusal is the server's.
    let create =
        agent.post(url("/bandits")).header("authorization", &bearer).content_type("application/json");
    let created = create.send(r#"{"policy": "ucb1", "arms": 2}"#).unwrap().body_mut().read_to_vec().unwrap();
    let id = serde_json::from_slice::<PolicyCreated>(&created).unwrap().id;
    let long = agent.post(url(&format!("/bandits/{id}/decisions"))).header("authorization", &bearer);
    let mut answer = long.content_type("application/json").send(&vec![b' '; 6 << 20][..]).unwrap();
    let problem: Problem = serde_json::from_slice(&answer.body_mut().read_to_vec().unwrap()).unwrap();
    assert_eq!(problem.reason.as_deref(), Some("too_large"));
    server.kill();
}
