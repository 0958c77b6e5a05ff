//! What a stranger who reaches the port, or a page in somebody's browser, cannot do to others.

use crate::clear::{create, decided, feedback, refused, view};
use crate::fixture::{Device, InProcess, Program, command, files_below, keys, read_head, stage_keys};
use crate::users::{User, encrypted, every_round, random_rows, rng};
use helba_server::{Connections, NewToken, Scope, Settings, TokensFile};
use protocol::{Answers, BanditConfig};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Sends `head` and `body` by hand.
fn send(address: SocketAddr, head: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[head.as_bytes(), b"\r\n", body].concat()).unwrap();
    stream
}

fn status(mut stream: TcpStream) -> u16 {
    let head = read_head(&mut stream);
    head.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {head:?}")).parse().unwrap()
}

/// The longest of ten requests of each kind.
fn slowest(device: &Device, path: &str, body: &[u8]) -> Duration {
    let one = || {
        let begun = Instant::now();
        assert_eq!(device.get("/health").status, 200);
        device.post(path, body).ok();
        begun.elapsed()
    };
    (0..10).map(|_| one()).max().unwrap()
}

/// More one-byte bodies than there are permits, and heads that never end: everybody else is served as before,
/// and the slow connections are closed after seconds.
#[test]
fn attack_slow_senders_hold_up_nobody() {
    let server = InProcess::start(Settings { max_in_flight: 2, ..Settings::default() });
    // Answered at once, without a raise.
    let user = User::create(server.device(), Answers::Scores);
    let (device, path, contexts) = (&user.http, user.path("/decisions"), user.contexts(&mut rng(1)));
    let before = slowest(device, &path, &contexts);
    let head = format!(
        "POST /v1{path} HTTP/1.1\r\nHost: x\r\n{}\r\nContent-Type: {}\r\nContent-Length: {}\r\n",
        device.authorization(),
        wire::OCTET_STREAM,
        contexts.len()
    );
    let begun = Instant::now();
    let slow: Vec<TcpStream> = (0..40).map(|_| send(server.address, &head, b"x")).collect();
    // More than there may be connections.
    let most = Connections::default().most;
    let mut half: Vec<TcpStream> = Vec::new();
    for _ in 0..most + 100 {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(b"GET /v1/health HTTP/1.1\r\nHost: x\r\nX-").unwrap();
        half.push(stream);
    }
    let during = slowest(device, &path, &contexts);
    assert!(during < 5 * before + Duration::from_millis(500), "{before:?}, then {during:?}");
    // Bodies time out, and never take a permit.
    for stream in slow {
        assert_eq!(status(stream), 400);
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

/// Whoever may not answer stages is told so before the body of its answer has come. The control: the body of
/// one who may is waited for, until it is too late.
#[test]
fn attack_no_answer_to_a_stage_is_read_before_its_scope() {
    let (state, keys) = (TempDir::new().unwrap(), stage_keys());
    let server = Program::spawn(&mut command(&keys.public_file(), state.path(), "127.0.0.1:0"));
    let device = Device::new(server.address, keys);
    let created = device.create(&BanditConfig::new(20, 5));
    let status_with = |scope: Scope| {
        let new = NewToken { name: format!("{scope:?}"), scopes: vec![scope], bandit: None, expires: None };
        let token = TokensFile::of(state.path()).create(new, &mut rng(scope as u64)).unwrap();
        let head = format!(
            "POST /v1/bandits/{}/raises HTTP/1.1\r\nHost: {}\r\n{}\r\nContent-Type: {}\r\nContent-Length: 100000\r\n",
            created.id,
            server.address,
            device.with_token(Some(&token)).authorization(),
            wire::OCTET_STREAM
        );
        status(send(server.address, &head, b"x"))
    };
    assert_eq!(status_with(Scope::Decide), 403);
    assert_eq!(status_with(Scope::Raise), 400);
}

/// The longest waiting connection makes room for a new one; those with a request under way stay.
#[test]
fn attack_idle_connections_make_room() {
    let connections = Connections { most: 4, most_an_address: 3, ..Connections::default() };
    let server = InProcess::open_with(TempDir::new().unwrap(), Settings::default(), connections);
    let busy =
        "POST /v1/bandits HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n";
    let mut busy = send(server.address, busy, b"{");
    std::thread::sleep(Duration::from_millis(100));
    let mut idle: Vec<TcpStream> = (0..6).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(100));
    // Closed from the other side: the first four, for the two that came last.
    let open = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        !matches!(stream.read(&mut [0]), Ok(0))
    };
    let open: Vec<bool> = idle.iter_mut().map(open).collect();
    assert_eq!(open, [false, false, false, false, true, true]);
    busy.write_all(b"}").unwrap();
    assert_eq!(status(busy), 401, "served all the same");
    assert_eq!(server.device().get("/health").status, 200);
}

/// A body that does not fit the memory set aside for bodies is refused, and the memory is free again after.
#[test]
fn attack_bodies_share_one_memory() {
    let server = InProcess::start(Settings { body_memory: 1 << 20, ..Settings::default() });
    let device = server.device();
    let request = json!({"policy": "elimination", "model": "pure", "arms": 3, "horizon": 99, "epsilon": 1});
    let id = create(&device, &request).id;
    let head = format!(
        "POST /v1/bandits/{id}/shuffled HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n"
    );
    let held = send(server.address, &head, &vec![b' '; 800_000]);
    let body = vec![b' '; 400_000];
    let path = format!("/bandits/{id}/shuffled");
    let answers = (0..100).map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        device.post(&path, &body).problem()
    });
    let answers: Vec<_> = answers.take_while(|problem| problem.status == 400).collect();
    assert!(answers.len() < 100, "never refused");
    refused(device.post(&path, &body), 503, "overloaded", "");
    assert!(view(&device, &id).awaited.is_some(), "small requests go on");
    // The memory of a sender that has stopped is free after seconds, however fast it sent before: not after
    // the twelve seconds more that its bytes would have taken at the least rate.
    let begun = Instant::now();
    while device.post(&path, &body).status == 503 {
        assert!(begun.elapsed() < Duration::from_secs(11), "still held");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(held);
}

/// Connections that are never idle, all of one address, fill the server: the oldest of them gives way to
/// another address. Nobody gives way to the address that has the most.
#[test]
fn attack_busy_connections_of_one_address_give_way() {
    let connections = Connections { most: 4, most_an_address: 4, ..Connections::default() };
    let server = InProcess::open_with(TempDir::new().unwrap(), Settings::default(), connections);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connect = |from: &str| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        let stream = runtime.block_on(socket.connect(server.address)).unwrap().into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        stream
    };
    let asks = |stream: &mut TcpStream| {
        let head = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(head).is_ok() && read_head(stream).contains("HTTP/1.1 200")
    };
    let mut busy: Vec<TcpStream> = (0..4).map(|_| connect("127.0.0.2")).collect();
    assert!(busy.iter_mut().all(asks));
    let mut honest = connect("127.0.0.1");
    assert!(asks(&mut honest), "shut out");
    // One more from the address that has three of four would push out nobody else's.
    let mut more = connect("127.0.0.2");
    assert!(!asks(&mut more));
    assert!(asks(&mut honest));
}

/// What a page of another site can make a browser send: forms in plain text, requests with its origin, and
/// under a name that it has pointed at this machine. The program listens on a loopback address, so that names
/// are checked.
#[test]
fn attack_browsers_of_other_sites() {
    let state = TempDir::new().unwrap();
    let server = Program::start(state.path());
    let body = br#"{"policy": "ucb1", "arms": 2}"#;
    let post = |host: &str, more: &str| {
        let length = body.len();
        let head = format!("POST /v1/bandits HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{more}");
        status(send(server.address, &head, body))
    };
    let json = "Content-Type: application/json\r\n";
    let own = server.address.to_string();
    for (host, more, want) in [
        (&*own, "Content-Type: text/plain\r\n", 415),
        (&own, "Content-Type: application/x-www-form-urlencoded\r\n", 415),
        (&own, "", 415),
        (&own, "Content-Type: application/json\r\nOrigin: http://evil.example\r\n", 403),
        (&own, "Content-Type: application/json\r\nOrigin: null\r\n", 403),
        ("evil.example", json, 421),
        ("evil.example", "Content-Type: application/json\r\nOrigin: http://evil.example\r\n", 421),
    ] {
        assert_eq!(post(host, more), want, "{host}: {more}");
    }
    let get = |method: &str, path: &str, host: &str, more: &str| {
        status(send(server.address, &format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}"), b""))
    };
    assert_eq!(get("GET", "/v1/bandits", "evil.example", ""), 421);
    assert_eq!(get("GET", "http://evil.example/v1/bandits", "127.0.0.1", ""), 421);
    assert_eq!(get("DELETE", &format!("/v1/bandits/{}", "0".repeat(32)), "evil.example:80", ""), 421);
    assert_eq!(get("OPTIONS", "/v1/bandits", &own, "Origin: http://evil.example\r\n"), 403);
    assert_eq!(server.device().get("/bandits").ok(), b"[]", "nothing was made");
    // Controls: what clients of this server send, and a page of its own.
    assert_eq!(post("localhost:1", json), 201);
    assert_eq!(post(&own, "Content-Type: Application/JSON; charset=utf-8\r\n"), 201);
    let page = format!("{json}Origin: http://{own}\r\n");
    assert_eq!(post(&own, &page), 201);
    assert_eq!(get("GET", "/v1/bandits", "[::1]", ""), 200);
}

/// With a list of origins, pages of these alone reach the server, and no other can read an answer.
#[test]
fn attack_pages_of_origins_that_are_not_listed() {
    let state = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_helba-server"));
    command.arg("--state").arg(state.path()).args(["--listen", "127.0.0.1:0"]);
    command.args(["--cors-origin", "https://shop.example", "--cors-origin", "http://localhost:5173"]);
    let server = Program::spawn(&mut command);
    let own = server.address.to_string();
    let ask = |method: &str, host: &str, more: &str| {
        let head = format!("{method} /v1/policies HTTP/1.1\r\nHost: {host}\r\n{more}");
        read_head(&mut send(server.address, &head, b"")).to_ascii_lowercase()
    };
    let status = |answer: &str| answer.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok()).unwrap();
    let preflight =
        "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n";
    for foreign in [
        "https://shop.example.evil.example",
        "https://evil.example",
        "http://shop.example",
        "https://shop.example:8443",
        "https://shop.example/",
        "https://Shop.example",
        "http://localhost",
        "http://localhost:5173, https://evil.example",
        "null",
        "*",
    ] {
        let origin = format!("Origin: {foreign}\r\n");
        for (method, more) in [("GET", ""), ("OPTIONS", preflight)] {
            let answer = ask(method, &own, &format!("{origin}{more}"));
            assert_eq!(status(&answer), 403, "{method} {foreign}: {answer}");
            assert!(!answer.contains("access-control-"), "{method} {foreign}: {answer}");
        }
    }
    // Two origins are none, and a listed origin opens no other host (DNS rebinding).
    let listed = "Origin: https://shop.example\r\n";
    let two = ask("GET", &own, &format!("{listed}Origin: https://evil.example\r\n"));
    assert!(status(&two) >= 400 && !two.contains("access-control-"), "{two}");
    assert_eq!(status(&ask("GET", "evil.example", listed)), 421);
    assert_eq!(status(&ask("OPTIONS", "evil.example", &format!("{listed}{preflight}"))), 421);
    // Controls: a page of the list, one of the server's own origin, and a program without an origin.
    let allowed = ask("OPTIONS", &own, &format!("{listed}{preflight}"));
    assert_eq!(status(&allowed), 204, "{allowed}");
    for want in [
        "access-control-allow-origin: https://shop.example",
        "access-control-allow-methods: get, post, put, patch, delete",
        "authorization",
        "idempotency-key",
        "helba-sender",
        "helba-decisions",
        "helba-enrolment",
        "vary: origin",
    ] {
        assert!(allowed.contains(want), "{want}: {allowed}");
    }
    let read = ask("GET", &own, "Origin: http://localhost:5173\r\n");
    assert_eq!(status(&read), 200);
    assert!(
        read.contains("access-control-allow-origin: http://localhost:5173") && read.contains("vary: origin")
    );
    assert!(!format!("{allowed}{read}").contains("access-control-allow-credentials"));
    for more in [format!("Origin: http://{own}\r\n"), String::new()] {
        let answer = ask("GET", &own, &more);
        assert_eq!(status(&answer), 200);
        assert!(!answer.contains("access-control-"), "{answer}");
    }
    // A page may read why it was refused.
    let refused = ask("POST", &own, listed);
    assert_eq!(status(&refused), 405);
    assert!(refused.contains("access-control-allow-origin: https://shop.example"), "{refused}");
    server.kill();
    // What is no origin is no setting.
    for bad in ["*", "null", "https://*.shop.example", "https://shop.example/", "https://shop.example:443"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_helba-server"));
        command.arg("--state").arg(state.path()).args(["--cors-origin", bad]);
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && said.contains("as a browser"), "{bad}: {said}");
    }
}

/// Names from bodies reach the log in one line and without escape sequences.
#[test]
fn attack_log_lines_cannot_be_forged() {
    let folder = TempDir::new().unwrap();
    let (state, log) = (folder.path().join("state"), folder.path().join("log"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_helba-server"));
    command.arg("--state").arg(&state).args(["--listen", "127.0.0.1:0"]).env("RUST_LOG", "info");
    let server = Program::spawn(command.stderr(std::fs::File::create(&log).unwrap()));
    let device = server.device();
    let forged = "\n2026-01-01T00:00:00Z  INFO forged: all is well\u{1b}[2J\u{202e}\r\\";
    for request in
        [json!({"policy": forged}), json!({"policy": "ucb1", "arms": 2, forged: 1}), json!({forged: 1})]
    {
        device.post("/bandits", request.to_string().as_bytes()).problem();
    }
    device.get("/%0A2026%1B%5B2J").problem();
    server.kill();
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("forged"), "{said}");
    assert!(!said.lines().any(|line| line.starts_with("2026-01-01")), "{said}");
    assert!(!said.contains(['\u{1b}', '\u{202e}', '\r']), "{said}");
}

/// State is its owner's alone, in a folder that the server makes and in one that was made beforehand for
/// everybody; one that holds other things is not touched.
#[cfg(unix)]
#[test]
fn attack_state_is_unreadable_by_others() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    for old in [None, Some(0o755), Some(0o777)] {
        if let Some(old) = old {
            set(&state, old);
            set(&state.join("state.redb"), 0o644);
        }
        let server = Program::start(&state);
        let created = server.device().create(&encrypted(Answers::Arm));
        server.kill();
        assert_eq!((mode(&state), mode(&state.join("encrypted"))), (0o700, 0o700));
        assert_eq!(mode(&state.join("encrypted").join(created.id)), 0o700);
        let files = files_below(&state);
        assert!(files.len() > 3 && files.iter().all(|file| mode(file) == 0o600), "{files:?}");
    }
    let shared = folder.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("somebody's"), b"").unwrap();
    set(&shared, 0o755);
    let said = crate::fixture::refused(&keys().public_file(), &shared, "127.0.0.1:0");
    assert!(said.contains("chmod 700") && said.contains("755"), "{said}");
    assert_eq!(mode(&shared), 0o755);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A backup taken before a release, brought back after it: without `--restored` the same rewards come out a
/// second time with fresh noise, which is the control; with it no release takes them any more, and what was
/// spent stays spent.
#[test]
fn attack_backups_release_nothing_twice() {
    let folder = TempDir::new().unwrap();
    let (state, backup) = (folder.path().join("state"), folder.path().join("backup"));
    let request = json!({"policy": "anytime-lazy-ucb", "arms": 1, "epsilon": 1});
    // The released means follow from the stored state alone; what is seen of them is what is stored.
    let row = |state: &Path| std::fs::read(state.join("state.redb")).unwrap();
    let start = |state: &Path, restored: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_helba-server"));
        command.arg("--state").arg(state).args(["--listen", "127.0.0.1:0"]).env("RUST_LOG", "error");
        if restored {
            command.arg("--restored");
        }
        Program::spawn(&mut command)
    };
    let server = start(&state, false);
    let device = server.device();
    let id = create(&device, &request).id;
    let answer = |device: &Device| {
        let decided = decided(device, &id, None);
        feedback(device, &id, &decided.decision, &json!({"reward": 1})).ok();
    };
    (0..5).for_each(|_| answer(&device));
    let open = decided(&device, &id, None).decision;
    server.kill();
    copy(&state, &backup);
    let lost = row(&backup);

    // Control: it goes on as if nothing had been, with the open decision and the sums in it.
    let server = start(&state, false);
    feedback(&server.device(), &id, &open, &json!({"reward": 1})).ok();
    assert_eq!(view(&server.device(), &id).feedbacks, 6);
    server.kill();
    std::fs::remove_dir_all(&state).unwrap();
    copy(&backup, &state);
    let server = start(&state, false);
    feedback(&server.device(), &id, &open, &json!({"reward": 1})).ok();
    let again = view(&server.device(), &id);
    assert_eq!((again.feedbacks, again.restored, again.created.privacy.spent.unwrap().epsilon), (6, 0, 1.0));
    server.kill();

    std::fs::remove_dir_all(&state).unwrap();
    copy(&backup, &state);
    assert_eq!(row(&state), lost);
    let server = start(&state, true);
    let device = server.device();
    refused(feedback(&device, &id, &open, &json!({"reward": 1})), 404, "unknown_decision", "");
    let now = view(&device, &id);
    assert_eq!((now.feedbacks, now.restored, now.pending_decisions), (5, 1, 0));
    assert_eq!(now.created.privacy.spent.unwrap().epsilon, 1.0);
    answer(&device);
    server.kill();
    // It stays so.
    let server = start(&state, false);
    assert_eq!((view(&server.device(), &id).feedbacks, view(&server.device(), &id).restored), (6, 1));
}

/// Peak memory of a process in kB.
#[cfg(target_os = "linux")]
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Forty batch updates are due at once at the shipped parameters, within 4 GiB of address space: the server
/// starts, completes them, and holds 1.5 GiB at most. Takes minutes.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes minutes at real parameters"]
fn attack_forty_updates_fit_into_memory() {
    let (state, keys) = (TempDir::new().unwrap(), crate::fixture::real_keys());
    let mut rng = rng(2);
    let start = |limit: &str| {
        let mut command = Command::new("prlimit");
        command.arg(limit).arg(env!("CARGO_BIN_EXE_helba-server")).arg("--keys").arg(keys.public_file());
        command.arg("--state").arg(state.path()).args(["--listen", "127.0.0.1:0"]).env("RUST_LOG", "error");
        Program::spawn(&mut command)
    };
    let server = start("--as=unlimited");
    let config = every_round(Answers::Scores);
    let due: Vec<User> =
        (0..40).map(|_| User::create_with(Device::new(server.address, keys), &config)).collect();
    // All sums are raised before the first is sent: they come faster than their updates are worked off.
    let raised: Vec<_> = due
        .iter()
        .map(|user| {
            let rows = random_rows(&mut rng);
            let choice = user.decide(&rows, &mut rng);
            user.feedback(&rows, &choice, &mut rng);
            let tasks = user.client.raises(user.id(), user.device.limits(), 1).unwrap();
            let tasks = user.device.read(&tasks.expect("the sum of a batch")).unwrap().tasks;
            user.device.raise(&tasks, None, &mut rng).unwrap()
        })
        .collect();
    for (user, raised) in due.iter().zip(&raised) {
        user.http.post(&user.path("/raises"), raised).ok();
    }
    println!("{} kB at most with {} bandits", peak(server.child.id()), due.len());
    // Not worked off yet, most of them.
    server.kill();

    let server = start(&format!("--as={}", 4u64 << 30));
    let due: Vec<User> = due.into_iter().map(|user| user.at(server.address)).collect();
    let begun = Instant::now();
    let left = || due.iter().filter(|user| user.status().updating).count();
    println!("{} kB at the start, {} due", peak(server.child.id()), left());
    assert!(left() > 20);
    while left() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(600));
        std::thread::sleep(Duration::from_millis(500));
    }
    let peak = peak(server.child.id());
    println!("{peak} kB at most, all done after {:?}", begun.elapsed());
    assert!(peak < 3 << 19, "{peak} kB");
}
