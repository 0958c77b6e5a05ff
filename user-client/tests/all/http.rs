//! What a server may answer, and what the tool says to it.

use crate::device::{keys, rng};
use protocol::DecisionId;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use testkit::samples;
use user_client::{AnyBandit, Client, Device, Error, Pending};
use wire::BanditView;

/// A server that gives one answer to one request; returns its address.
fn one_answer(status: &str, kind: &str, body: Vec<u8>) -> String {
    answers(vec![(status.into(), kind.into(), body)]).0
}

/// A thread that ends with the first line and the body of each request that it got.
pub(crate) type Requests = std::thread::JoinHandle<Vec<(String, Vec<u8>)>>;

/// A server that gives these answers to as many requests; returns its address.
pub(crate) fn answers(answers: Vec<(String, String, Vec<u8>)>) -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let location = address.clone();
    let answer = move |(status, kind, body): (String, String, Vec<u8>)| {
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nlocation: {location}/\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
        // A request ends with a blank line and a body of the length given.
        let body_at = loop {
            let n = stream.read(&mut buffer).unwrap();
            request.extend(&buffer[..n]);
            let end = request.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4);
            let Some(end) = end else {
                assert!(n > 0, "half a request");
                continue;
            };
            let text = String::from_utf8_lossy(&request[..end]).to_lowercase();
            let length = text.lines().find_map(|l| l.strip_prefix("content-length: ")?.parse().ok());
            if request.len() >= end + length.unwrap_or(0) || n == 0 {
                break end;
            }
        };
        // The client may hang up on a body that it does not want.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_string();
        (line, request.split_off(body_at))
    };
    (address, std::thread::spawn(move || answers.into_iter().map(answer).collect()))
}

/// As [`one_answer`], over TLS 1.3 with a certificate for `name`; returns the port and the certificate that
/// vouches for it, in PEM.
fn one_answer_over_tls(name: &str, body: &'static [u8]) -> (u16, String) {
    let key = rcgen::generate_simple_self_signed([name.to_string()]).unwrap();
    let certificate = key.cert.der().clone();
    let private = rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], private)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let connection = rustls::ServerConnection::new(std::sync::Arc::new(config)).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, stream);
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        while !request.ends_with(b"\r\n\r\n") {
            match stream.read(&mut buffer) {
                Ok(n) if n > 0 => request.extend(&buffer[..n]),
                // The client does not trust the certificate, and hangs up.
                _ => return,
            }
        }
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        let _ = stream.flush();
    });
    (port, key.cert.pem())
}

/// The control is a server whose certificate the given authority vouches for. A certificate that nobody
/// vouches for, one that another authority vouches for, and one of another name are refused before a byte of
/// the request is sent.
#[test]
fn attack_servers_without_their_certificate_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (trusted, other) = (folder.path().join("ca.pem"), folder.path().join("other.pem"));
    let (_, stranger) = one_answer_over_tls("localhost", b"[]");
    std::fs::write(&other, stranger).unwrap();
    let ask = |name: &str, ca: Option<&std::path::Path>| {
        let (port, pem) = one_answer_over_tls(name, b"[]");
        std::fs::write(&trusted, pem).unwrap();
        let url = format!("https://localhost:{port}");
        let client = match ca {
            Some(ca) => Client::with_ca(&url, ca).unwrap(),
            None => Client::new(&url).unwrap(),
        };
        client.bandits()
    };
    assert_eq!(ask("localhost", Some(&trusted)).unwrap().len(), 0);
    for (name, ca) in
        [("localhost", None), ("localhost", Some(&*other)), ("elsewhere.example", Some(&*trusted))]
    {
        match ask(name, ca) {
            Err(Error::Unreachable { reason, .. }) => {
                assert!(reason.contains("certificate"), "{reason}");
                // The way out where the issuer is unknown, and not where the name is another.
                assert_eq!(reason.contains("--ca FILE"), name == "localhost", "{reason}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    // The other of the two schemes.
    let (port, _) = one_answer_over_tls("localhost", b"[]");
    let plain = Client::new(&format!("http://localhost:{port}")).unwrap().bandits().unwrap_err().to_string();
    assert!(plain.contains("begins with https://"), "{plain}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let _ =
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    });
    let tls = Client::new(&format!("https://localhost:{port}")).unwrap().bandits().unwrap_err().to_string();
    assert!(tls.contains("begins with http://"), "{tls}");
    // What is no certificate is refused by name.
    for bad in [&b""[..], b"hello", b"-----BEGIN CERTIFICATE-----\nAAAA\n"] {
        std::fs::write(&other, bad).unwrap();
        let refused = Client::with_ca("https://localhost:1", &other);
        assert!(matches!(refused, Err(Error::BadCertificates { .. })), "{refused:?}");
    }
    assert!(matches!(Client::with_ca("https://x", &folder.path().join("none")), Err(Error::Io { .. })));
}

#[test]
fn answers_become_values() {
    let (created, limits) = (samples::created(), samples::limits());
    let json = serde_json::to_vec(&created).unwrap();
    let client = Client::new(&one_answer("201 Created", "application/json", json)).unwrap();
    assert_eq!(client.create_encrypted(&created.config).unwrap(), created);

    let client = Client::new(&one_answer("200 OK", wire::OCTET_STREAM, vec![1, 2, 3])).unwrap();
    assert_eq!(client.decide_several(&created.id, &limits, 1, &[0; 10]).unwrap(), [1, 2, 3]);

    let receipt = protocol::Receipt { decision: "00".into(), feedbacks: 1, batches: 0 };
    let json = serde_json::to_vec(&receipt).unwrap();
    let client = Client::new(&one_answer("200 OK", "application/json", json)).unwrap();
    assert_eq!(client.feedback_encrypted(&created.id, DecisionId([0; 16]), &[0; 10]).unwrap(), receipt);

    let status = protocol::Status {
        round: 1,
        feedbacks: 2,
        model_feedbacks: 3,
        batches: 4,
        refreshes: 5,
        updating: true,
        refresh_due: false,
        pending_decisions: 6,
        frozen: false,
    };
    let view = BanditView { created, status };
    let client = || {
        Client::new(&one_answer("200 OK", "application/json", serde_json::to_vec(&view).unwrap())).unwrap()
    };
    let id = &view.created.id;
    assert_eq!(client().encrypted(id).unwrap(), view);
    assert_eq!(client().any_bandit(id).unwrap(), AnyBandit::Encrypted(Box::new(view.clone())));
    for other in [client().encrypted("other").map(drop), client().any_bandit("other").map(drop)] {
        assert!(matches!(&other, Err(Error::BadAnswer(why)) if why.contains("another bandit")), "{other:?}");
    }
}

#[test]
fn problems_become_errors() {
    let problem = wire::Problem::new(404, "Not Found", "no bandit x").with_reason("unknown_bandit");
    let json = serde_json::to_vec(&problem).unwrap();
    let client = Client::new(&one_answer("404 Not Found", wire::PROBLEM_JSON, json)).unwrap();
    match client.encrypted("x") {
        Err(Error::Refused(got)) => assert_eq!(got, problem),
        other => panic!("{other:?}"),
    }
    for (status, body) in [("502 Bad Gateway", "<html>"), ("307 Temporary Redirect", ""), ("500 Oh", "{}")] {
        let client = Client::new(&one_answer(status, "text/html", body.into())).unwrap();
        match client.create_encrypted(&samples::created().config) {
            Err(Error::Refused(p)) => assert!(status.starts_with(&p.status.to_string()), "{p:?}"),
            other => panic!("{status}: {other:?}"),
        }
    }
}

#[test]
fn answers_that_make_no_sense_are_refused() {
    let bad = |r: Result<(), Error>| assert!(matches!(r, Err(Error::BadAnswer(_))), "{r:?}");
    let client = |body: Vec<u8>| Client::new(&one_answer("200 OK", "application/json", body)).unwrap();
    bad(client(b"{}".to_vec()).keys().map(drop));
    bad(client(b"\xff".to_vec()).encrypted("b").map(drop));
    bad(client(vec![b' '; wire::MAX_JSON_BYTES + 1]).encrypted("b").map(drop));
    bad(client(br#"{"created": {}}"#.to_vec()).any_bandit("b").map(drop));
}

#[test]
fn requests_that_cannot_be_are_not_sent() {
    for url in [
        "example.org",
        "http://",
        "https://",
        "ftp://x",
        "",
        "http://127.0.0.1:80800",
        "https://h:x",
        "http://u:p@h",
    ] {
        assert!(matches!(Client::new(url), Err(Error::BadUrl(_))), "{url}");
    }
    // Nobody listens on a port that was just given back.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::new(&format!("http://{free}/")).unwrap();
    assert!(matches!(client.encrypted("b"), Err(Error::Unreachable { .. })));
    for id in ["", "../keys", "a/b", "a b", "ä", &"x".repeat(65)] {
        assert!(matches!(client.encrypted(id), Err(Error::BadId)), "{id}");
    }
}

fn pending() -> Pending {
    Pending {
        server: "http://x".into(),
        contexts: vec![vec![0.5, -0.25], vec![0.0, 1.0]],
        created: samples::created(),
        decision: DecisionId([3; 16]),
        arm: 1,
        reliable: false,
        question: samples::reply().decision.and_then(|decision| decision.question),
    }
}

/// A decision that the server made can still be rewarded after a loss of power.
#[cfg(target_os = "linux")]
#[test]
fn attack_power_loss_takes_no_pending_decision() {
    const FOLDER: &str = "POWER_LOSS_FOLDER";
    if let Some(folder) = std::env::var_os(FOLDER) {
        let mut file = Pending::reserve(&std::path::Path::new(&folder).join("a.pending")).unwrap();
        return pending().write(&mut file).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let name = "http::attack_power_loss_takes_no_pending_decision";
    let lost = testkit::power_loss::lost_by_test(name, FOLDER, &dir.path().canonicalize().unwrap());
    assert_eq!(lost, std::collections::BTreeSet::new());
}

#[test]
fn pending_decisions_round_trip_and_are_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pending");
    for pending in [Pending { question: None, ..pending() }, pending()] {
        let _ = std::fs::remove_file(&path);
        let mut file = Pending::reserve(&path).unwrap();
        pending.write(&mut file).unwrap();
        assert_eq!(Pending::load(&path).unwrap(), pending);
    }
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    assert!(matches!(Pending::reserve(&path), Err(Error::PendingExists { .. })));
    std::fs::write(&path, b"short").unwrap();
    assert!(matches!(Pending::load(&path), Err(Error::BadPending { .. })));
    assert!(matches!(Pending::load(&dir.path().join("none")), Err(Error::NoPending { .. })));
}

/// Sealed decisions show no feature, open under the key that sealed them alone, and refuse every changed
/// byte. The control is the content of the file, which shows the feature.
#[test]
fn attack_sealed_decisions_open_under_their_key_alone() {
    let [device, stranger] = [0, 1].map(|at| Device::read(&keys()[at].1[..]).unwrap());
    let feature = 0.5f64.to_le_bytes();
    let shows = |bytes: &[u8]| bytes.windows(8).any(|bytes| bytes == feature);
    for pending in [Pending { question: None, ..pending() }, pending()] {
        let sealed = pending.seal(&device, &mut rng(1)).unwrap();
        assert_eq!(Pending::unseal(&sealed, &device).unwrap(), pending);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pending");
        pending.write(&mut Pending::reserve(&path).unwrap()).unwrap();
        assert!(shows(&std::fs::read(&path).unwrap()) && !shows(&sealed));
        let refused = |bytes: &[u8], device| {
            assert!(matches!(Pending::unseal(bytes, device), Err(Error::BadSealedDecision)));
        };
        refused(&sealed, &stranger);
        // Name, version, nonce, content, tag.
        for at in [0, 8, 10, 33, 34, sealed.len() - 1] {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            refused(&bad, &device);
        }
        for length in [0, 9, 10, 33, 34, sealed.len() - 1] {
            refused(&sealed[..length], &device);
        }
        assert_ne!(pending.seal(&device, &mut rng(2)).unwrap(), sealed);
    }
}

/// In the clear the tool prints the id alone on stdout, the promise on stderr; answers as they came.
#[test]
fn the_tool_in_the_clear() {
    use privacy::PrivacyStatement;
    let privacy = wire::Privacy { statement: PrivacyStatement::none("Nothing is promised."), spent: None };
    let parameters = serde_json::Map::from_iter([("arms".to_string(), 5.into())]);
    let created = wire::PolicyCreated {
        id: "b-2".into(),
        policy: "ucb1".into(),
        parameters,
        wait: Some(600),
        default_reward: None,
        max_open: Some(1024),
        warning: None,
        privacy: privacy.clone(),
    };
    let run = |answer: Vec<u8>, arguments: &[&str]| {
        let server = one_answer("200 OK", "application/json", answer);
        let mut tool = Command::new(env!("CARGO_BIN_EXE_helba-client"));
        let out = tool.args(arguments).args(["--server", &server]).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
    };
    let arguments = ["create", "--policy", "ucb1", "--parameters", r#"{"arms": 5}"#];
    let (out, err) = run(serde_json::to_vec(&created).unwrap(), &arguments);
    assert_eq!((out.as_str(), err.as_str()), ("b-2\n", "no privacy: Nothing is promised.\n"));

    let decided = wire::Decided {
        decision: "00".into(),
        round: 1,
        arm: Some(3),
        published: vec![],
        awaited: None,
        reliable: None,
        probability: None,
        privacy: privacy.clone(),
    };
    let (out, _) = run(serde_json::to_vec(&decided).unwrap(), &["decide", "--bandit", "b-2"]);
    assert_eq!(serde_json::from_str::<wire::Decided>(&out).unwrap(), decided);

    let counted = wire::Counted { of: "00".into(), feedbacks: 1, learnt: None, privacy };
    let arguments = ["feedback", "--bandit", "b-2", "--decision", "00", "--rewards", "0,1,-0.5"];
    let (out, _) = run(serde_json::to_vec(&counted).unwrap(), &arguments);
    assert_eq!(serde_json::from_str::<wire::Counted>(&out).unwrap(), counted);
}

/// Bandits of both kinds, a line each; nothing is said when nobody reads on.
#[test]
fn the_tool_lists_bandits() {
    let bandits = serde_json::json!([
        samples::created(),
        {"id": "b-2", "policy": "ucb1", "parameters": {"arms": 5}, "privacy": null},
    ]);
    let list = |stdout: Stdio| {
        let server = one_answer("200 OK", "application/json", serde_json::to_vec(&bandits).unwrap());
        let mut tool = Command::new(env!("CARGO_BIN_EXE_helba-client"));
        tool.args(["list", "--server", &server]).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap()
    };
    let out = list(Stdio::piped()).wait_with_output().unwrap();
    let lines = "bandit  helba, encrypted, 2 features, 2 arms, one bit of a decryption per feedback\n\
                 b-2  ucb1 {\"arms\":5}\n";
    assert_eq!(String::from_utf8(out.stdout).unwrap(), lines);

    let mut child = list(Stdio::piped());
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert_eq!((out.status.success(), String::from_utf8(out.stderr).unwrap().as_str()), (true, ""));
}

/// A proxy that the environment names for all hosts gets nothing that is meant for this machine: tokens and
/// contexts in the clear would pass it without TLS. The control: requests for another host go to it.
#[test]
fn attack_a_proxy_of_the_environment_reads_no_loopback_request() {
    let tool = |server: &str| {
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut tool = Command::new(env!("CARGO_BIN_EXE_helba-client"));
        for name in ["ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY"] {
            tool.env(name, format!("http://{}", proxy.local_addr().unwrap()));
        }
        let mut child = tool.args(["policies", "--server", server]).stdout(Stdio::null()).spawn().unwrap();
        proxy.set_nonblocking(true).unwrap();
        loop {
            if proxy.accept().is_ok() {
                child.kill().unwrap();
                child.wait().unwrap();
                return None;
            }
            if let Some(status) = child.try_wait().unwrap() {
                return Some(status.success());
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    let here = one_answer("200 OK", "application/json", b"[]".to_vec());
    assert_eq!(tool(&here), Some(true));
    assert_eq!(tool("http://192.0.2.1:8080"), None, "control");
}

/// Every refusal of the tool is one sentence on stderr and an exit code.
#[test]
fn the_tool_says_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let junk = file("junk", "junk");
    let json = file("config.json", r#"{"linear":{},"epsilon":1}"#);
    let nobody = "http://127.0.0.1:1";
    for (arguments, says) in [
        (vec!["create", "--server", nobody, "--features", "2", "--arms", "2"], "no answer from"),
        (vec!["create", "--server", "nowhere", "--features", "2", "--arms", "2"], "http://HOST:PORT"),
        (vec!["create", "--server", nobody, "--config", &json], "is not a configuration"),
        (vec!["status", "--server", nobody, "--bandit", "../x"], "an id must have"),
        (vec!["feedback", "--pending", &junk, "--secret", &junk, "--reward", "-1"], "not a pending decision"),
        (
            vec!["replay", "--server", nobody, "--secret", &junk, "--data", "/none.csv"],
            "/none.csv: cannot be opened",
        ),
        (
            vec!["replay", "--server", nobody, "--secret", &junk, "--data", &junk],
            "line 1: the header is that of no layout",
        ),
        (
            vec!["decide", "--server", nobody, "--bandit", "b", "--secret", "/none", "--contexts", &junk],
            "/none: No such file",
        ),
        (vec!["create", "--server", nobody, "--policy", "ucb1", "--parameters", "5"], "not a JSON object"),
        (vec!["create", "--server", nobody, "--policy", "ucb1", "--arms", "2"], "--policy"),
        (vec!["create", "--server", nobody, "--parameters", "{}"], "--policy"),
        (
            vec!["create", "--server", nobody, "--features", "7", "--arms", "4", "--parameters", "{}"],
            "--policy",
        ),
        (vec!["create", "--server", nobody, "--policy", "helba"], "--features"),
        (vec!["replay", "--server", nobody, "--secret", &junk, "--data", &junk, "--rounds", "0"], "--rounds"),
        (vec!["policies", "--server", nobody], "no answer from"),
        (vec!["decide", "--server", nobody, "--bandit", "b"], "no answer from"),
        (
            vec!["decide", "--server", nobody, "--bandit", "b", "--contexts", &junk],
            "holds names: leave it out",
        ),
        (vec!["decide", "--server", nobody, "--bandit", "b", "--secret", &junk], "--contexts"),
        (
            vec!["feedback", "--server", nobody, "--bandit", "b", "--decision", "d", "--reward", "1"],
            "no answer from",
        ),
        (
            vec!["feedback", "--server", nobody, "--bandit", "b", "--decision", "../d", "--reward", "1"],
            "an id must have",
        ),
        (
            vec![
                "feedback",
                "--server",
                nobody,
                "--bandit",
                "b",
                "--decision",
                "d",
                "--reward",
                "1",
                "--sum",
                "1",
            ],
            "cannot be used with",
        ),
        (vec!["feedback", "--bandit", "b", "--decision", "d", "--sum", "1"], "--server"),
        (
            vec!["feedback", "--reward", "1"],
            "give --pending FILE and --secret FILE for an encrypted bandit, or --server URL",
        ),
        (
            vec!["feedback", "--server", "http://127.0.0.1:1", "--bandit", "x", "--reward", "1"],
            "--server URL, --bandit ID and --decision ID",
        ),
        (vec!["feedback", "--pending", &junk, "--secret", &junk, "--sum", "1"], "take --reward"),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_helba-client")).args(&arguments).output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && text.contains(says), "{arguments:?}: {text}");
        assert!(out.stdout.is_empty() && !text.contains("panicked"));
        assert!(text.matches("os error").count() <= 1, "a cause named twice: {text}");
    }
}
