//! API tokens: what each permits on every route, and how a server that runs follows their file.

use crate::fixture::*;
use crate::users::*;
use helba_server::{NewToken, Route, Scope, Settings, TokensFile};
use protocol::Answers;
use rand_chacha::ChaCha20Rng;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;
use wire::{AccessToken, PolicyCreated, Raised, Raises};

/// An id that no bandit has.
const NOBODY: &str = "0123456789abcdef0123456789abcdef";

fn new(name: &str, scopes: &[Scope]) -> NewToken {
    NewToken { name: name.into(), scopes: scopes.to_vec(), bandit: None, expires: None }
}

fn make(folder: &Path, new: NewToken, rng: &mut ChaCha20Rng) -> AccessToken {
    TokensFile::of(folder).create(new, rng).unwrap()
}

/// Sends a request for a route of the bandit `id`, with a body that no bandit takes.
fn send(device: &Device, route: Route, id: &str) -> Answer {
    let path =
        route.path().replace("{id}", id).replace("{decision}", &"0".repeat(32)).replace("{member}", "1");
    match route.method().as_str() {
        "GET" => device.get(&path),
        "DELETE" => device.delete(&path),
        "PUT" => device.put(&path, b"{\"nothing\": 1}"),
        "PATCH" => device.patch(&path, None, b"{\"nothing\": 1}"),
        "POST" => device.post(&path, b"{\"nothing\": 1}"),
        method => panic!("{method}"),
    }
}

/// The scopes that open a route, written down once more: `*` is any token.
fn opens(route: Route) -> &'static [&'static str] {
    match route {
        Route::Health | Route::OpenApi | Route::Docs => &["nobody", "*"],
        Route::Keys | Route::Policies | Route::List | Route::Show | Route::Committee | Route::Members => {
            &["*"]
        }
        Route::Metrics
        | Route::Create
        | Route::Relabel
        | Route::Freeze
        | Route::Copy
        | Route::Delete
        | Route::Model
        | Route::Learn => &["admin"],
        Route::Decide | Route::Again | Route::Session => &["decide", "admin"],
        Route::Feedback | Route::Erase | Route::Shuffled => &["feedback", "admin"],
        Route::Counters | Route::Tasks | Route::Rounds => &["raise", "admin"],
        Route::Raise => &["raise", "decide", "admin"],
    }
}

/// Every route under every token: nobody's, those that the server does not know, one of each scope, those of
/// one bandit, that of the secret bundle and the operator's. What a token does not permit is refused before
/// anything is read or told: unknown ids and those of other bandits get the same answer.
#[test]
fn attack_no_token_permits_another_scope() {
    let mut rng = rng(11);
    let (operator, unknown) = (AccessToken::generate(&mut rng), AccessToken::generate(&mut rng));
    let server = InProcess::start_operated(&operator);
    let folder = server.folder.path();
    let participant = server.device();
    let operator = participant.with_token(Some(&operator));
    let sealed = operator.create(&encrypted(Answers::Arm)).id;
    let clear = || {
        let created = operator.post("/bandits", br#"{"policy": "ucb1", "arms": 2}"#).ok();
        serde_json::from_slice::<PolicyCreated>(&created).unwrap().id
    };
    let in_clear = clear();
    let about = |route: Route| route.path().contains("{id}");
    let code = |answer: Answer| {
        let status = answer.status;
        match status {
            401 | 403 => (status, answer.problem().reason.unwrap()),
            _ => (0, String::new()),
        }
    };
    let open = (0, String::new());
    let (unauthorized, forbidden) = ((401, "unauthorized".to_string()), (403, "forbidden_scope".to_string()));

    let malformed = participant.with_bearer("Bearer 00");
    let expired = NewToken { expires: Some(1), ..new("expired", &[Scope::Admin]) };
    let expired = participant.with_token(Some(&make(folder, expired, &mut rng)));
    for stranger in
        [&participant.with_token(None), &participant.with_token(Some(&unknown)), &malformed, &expired]
    {
        for route in Route::ALL {
            let want = if opens(route).contains(&"nobody") { &open } else { &unauthorized };
            for id in [&sealed, &in_clear, NOBODY] {
                assert_eq!(&code(send(stranger, route, id)), want, "{route:?}");
            }
        }
    }

    let ids = [&sealed[..], &in_clear, NOBODY];
    for scope in Scope::ALL {
        let every = participant.with_token(Some(&make(folder, new(scope.name(), &[scope]), &mut rng)));
        for route in Route::ALL {
            let opened = opens(route).iter().any(|name| [scope.name(), "*"].contains(name));
            for id in ids {
                // Deletions delete another bandit.
                let id = if route == Route::Delete && opened { &clear() } else { id };
                let want = if opened { &open } else { &forbidden };
                assert_eq!(&code(send(&every, route, id)), want, "{scope} {route:?}");
            }
        }
        // The same for one bandit alone: others do not exist for it, whether they exist or not.
        let one = NewToken { bandit: Some(sealed.clone()), ..new(&format!("{scope}.one"), &[scope]) };
        let one = participant.with_token(Some(&make(folder, one, &mut rng)));
        let mut said = Vec::new();
        for route in Route::ALL {
            let opened = opens(route).iter().any(|name| [scope.name(), "*"].contains(name));
            let alone = opened && !route.is_about_all();
            if route != Route::Delete {
                assert_eq!(code(send(&one, route, &sealed)) == open, alone, "{scope} {route:?}");
            }
            if about(route) {
                for id in [&in_clear, NOBODY] {
                    let problem = send(&one, route, id).problem();
                    assert_eq!((problem.status, problem.reason.as_deref()), (403, Some("forbidden_scope")));
                    said.push(problem.detail);
                }
            }
        }
        assert!(said.chunks(2).all(|pair| pair[0] == pair[1]), "{said:?}");
        let listed: Vec<serde_json::Value> = serde_json::from_slice(&one.get("/bandits").ok()).unwrap();
        assert!(listed.len() == 1 && listed[0]["id"] == *sealed, "{listed:?}");
    }

    // The token of the bundle has the scopes of a device for encrypted bandits, and nothing of others.
    let device = ["decide", "feedback", "raise", "*", "nobody"];
    for route in Route::ALL {
        let opened = opens(route).iter().any(|name| device.contains(name));
        for id in ids {
            let want = if opened && !(about(route) && id == in_clear) { &open } else { &forbidden };
            assert_eq!(&code(send(&participant, route, id)), want, "{route:?}");
        }
        if about(route) && route != Route::Delete {
            assert_eq!(code(send(&operator, route, &sealed)), open, "{route:?}");
            assert_eq!(code(send(&operator, route, &in_clear)), open, "{route:?}");
        }
    }
    let one = NewToken { bandit: Some(in_clear.clone()), ..new("last", &[Scope::Admin]) };
    let one = participant.with_token(Some(&make(folder, one, &mut rng)));
    one.delete(&format!("/bandits/{in_clear}")).ok();
    operator.delete(&format!("/bandits/{sealed}")).ok();

    // Where tokens are off, the bearers of the bundle are the operators of their bandits.
    let server = InProcess::start(Settings::default());
    let device = server.device();
    let made = device.create(&encrypted(Answers::Arm)).id;
    device.delete(&format!("/bandits/{made}")).ok();
}

/// What is wrong with a token is said to its bearer, in words and in the header of RFC 6750.
#[test]
fn faults_of_tokens_are_told_apart() {
    let mut rng = rng(12);
    let server = InProcess::start(Settings::default());
    let (folder, device) = (server.folder.path(), server.device());
    let id = device.create(&encrypted(Answers::Arm)).id;
    let unknown = AccessToken::generate(&mut rng);
    let expired = make(folder, NewToken { expires: Some(1), ..new("old", &[Scope::Admin]) }, &mut rng);
    let feedback = make(folder, new("phone", &[Scope::Feedback]), &mut rng);
    let one =
        make(folder, NewToken { bandit: Some(NOBODY.into()), ..new("one", &[Scope::Decide]) }, &mut rng);
    let asks = |bearer: &str| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let bearer = if bearer.is_empty() { String::new() } else { format!("Authorization: {bearer}\r\n") };
        write!(
            stream,
            "POST /v1/bandits/{id}/decisions HTTP/1.1\r\nHost: localhost\r\n{bearer}Content-Length: 0\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let bearer = |token: &AccessToken| token.authorization().to_string();
    let mut seen = Vec::new();
    for (given, parts) in [
        (String::new(), ["401", "www-authenticate: Bearer\r\n", "the request has no token"]),
        ("Bearer 00".into(), ["401", "error=\"invalid_request\"", "64 hexadecimal digits"]),
        (
            bearer(&unknown),
            ["401", "error=\"invalid_token\", error_description=\"unknown\"", "does not know the token"],
        ),
        (bearer(&expired), ["401", "error_description=\"expired\"", "has expired"]),
        (
            bearer(&feedback),
            ["403", "error=\"insufficient_scope\", scope=\"decide\"", "needs the scope `decide`"],
        ),
        (bearer(&one), ["403", "insufficient_scope", &format!("for bandit {NOBODY} and nothing else")]),
    ] {
        let answer = asks(&given);
        for part in parts {
            assert!(answer.contains(part), "`{part}` is not in {answer}");
        }
        let sentence = answer.rsplit("\"detail\":").next().unwrap().to_string();
        assert!(!seen.contains(&sentence), "{sentence}");
        seen.push(sentence);
    }
}

/// A device whose token permits decisions only, and which is asked to raise, raises its own scores under its
/// ticket. It can neither raise those of others, nor put a sum or a model in the place of the bandit's.
#[test]
fn attack_a_token_for_decisions_raises_its_own_scores_alone() {
    let mut rng = rng(13);
    let server = InProcess::start(Settings::default());
    let owner = User::create_with(server.device(), &every_round(Answers::Arm));
    let token = make(server.folder.path(), new("phone", &[Scope::Decide]), &mut rng);
    let phone = owner.http.with_token(Some(&token));
    let forbidden = |answer: Answer| {
        let problem = answer.problem();
        assert_eq!((problem.status, problem.reason.as_deref()), (403, Some("forbidden_scope")));
    };
    let contexts = owner.contexts(&mut rng);
    let reply = phone.post(&owner.path("/decisions"), &contexts).ok();
    let reply = owner.device.read(&reply).unwrap();
    assert!(reply.choice.is_none() && reply.ticket.is_some());
    // Without its ticket, as a stranger to the evaluation would.
    let untold = owner.device.raise(&reply.tasks, None, &mut rng).unwrap();
    forbidden(phone.post(&owner.path("/raises"), &untold));
    let raises = owner.device.raise(&reply.tasks, reply.ticket, &mut rng).unwrap();
    let answer = owner.device.read(&phone.post(&owner.path("/raises"), &raises).ok()).unwrap();
    let choice = answer.choice.unwrap();
    // Too late is told as such.
    let again = phone.post(&owner.path("/raises"), &raises).problem();
    assert_eq!(again.reason.as_deref(), Some("task_over"));

    // The end of a batch: its sum is a task, which the phone may not answer. The owner may.
    let rows = random_rows(&mut rng);
    let frame = owner.device.feedback(choice.arm, &rows[choice.arm], 1.0, None, &mut rng).unwrap();
    forbidden(phone.post(&owner.path(&format!("/decisions/{}/feedback", choice.id)), &frame));
    owner.send(&choice, &frame).ok();
    forbidden(phone.get(&owner.path("/raises?wait=1")));
    let limits = owner.device.limits();
    let tasks = owner.client.raises(owner.id(), limits, 20).unwrap().unwrap();
    let tasks = owner.device.read(&tasks).unwrap().tasks;
    let body = owner.device.raise(&tasks, None, &mut rng).unwrap();
    let raised = Raises::read(&body, limits).unwrap().raised;
    assert!(matches!(raised[..], [(_, Raised::Sum(_))]), "{} tasks", raised.len());
    forbidden(phone.post(&owner.path("/raises"), &body));
    owner.http.post(&owner.path("/raises"), &body).ok();
}

/// Requests on one connection that stays open: the token is checked for each.
#[test]
fn attack_a_revoked_token_ends_on_an_open_connection() {
    let server = InProcess::start(Settings::default());
    let folder = server.folder.path();
    let token = make(folder, new("phone", &[Scope::Decide]), &mut rng(14));
    let mut stream = TcpStream::connect(server.address).unwrap();
    let mut ask = || {
        let bearer = token.authorization();
        let bearer = bearer.as_str();
        write!(stream, "GET /v1/bandits HTTP/1.1\r\nHost: localhost\r\nAuthorization: {bearer}\r\n\r\n")
            .unwrap();
        let head = read_head(&mut stream).to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        head[9..12].to_string()
    };
    assert_eq!([ask(), ask()], ["200", "200"]);
    TokensFile::of(folder).revoke("phone").unwrap();
    assert_eq!(ask(), "401");
}

/// A request that waits when its token is revoked is refused, and not answered.
#[test]
fn attack_a_revoked_token_gets_no_answer_that_it_waited_for() {
    let server = InProcess::start(Settings::default());
    let folder = server.folder.path();
    let created = server.device().create(&encrypted(Answers::Arm));
    let token = make(folder, new("raiser", &[Scope::Raise]), &mut rng(15));
    let device = server.device().with_token(Some(&token));
    let answer = std::thread::scope(|scope| {
        let waits = scope.spawn(|| device.get(&format!("/bandits/{}/raises?wait=2", created.id)));
        wait_for("a raiser", || server.state.raisers_waiting(&created.id) == 1);
        TokensFile::of(folder).revoke("raiser").unwrap();
        waits.join().unwrap()
    });
    assert_eq!(answer.problem().status, 401);
}

fn tool(state: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_helba-server"));
    command.arg("token").arg(arguments[0]).arg("--state").arg(state).args(&arguments[1..]).output().unwrap()
}

#[track_caller]
fn done(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// On SIGHUP the program reads the operator's token again: the new one opens everything, and the one before
/// nothing. A file that has no token, that others can read or that is gone leaves the last one in place, and
/// the log says why.
#[cfg(unix)]
#[test]
fn attack_a_replaced_token_of_the_operator_opens_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let [state, log, path] = ["state", "log", "operator.token"].map(|name| folder.path().join(name));
    let tokens = [1, 2, 3].map(|byte| AccessToken::from_bytes(&[byte; 32]).unwrap());
    let write = |text: &str| host::write_private(&path, text.as_bytes()).unwrap();
    write(&tokens[0].to_hex());
    let mut server = command(&keys().public_file(), &state, "127.0.0.1:0");
    server.arg("--operator-token-file").arg(&path).env("RUST_LOG", "info");
    let server = Program::spawn(server.stderr(std::fs::File::create(&log).unwrap()));
    let said = |what: &str| std::fs::read_to_string(&log).unwrap().matches(what).count();
    let hangup = |line: &str| {
        let (before, begun) = (said(line), std::time::Instant::now());
        let id = server.child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
        while said(line) == before {
            assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{line}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let device = server.device();
    let opens =
        || tokens.each_ref().map(|token| device.with_token(Some(token)).get("/metrics").status == 200);
    assert_eq!(opens(), [true, false, false]);
    write(&tokens[1].to_hex());
    assert_eq!(opens(), [true, false, false], "it is read on the signal");
    hangup("was read again");
    assert_eq!(opens(), [false, true, false]);

    let kept = "token before is still the one";
    write("no token");
    hangup(kept);
    write(&tokens[2].to_hex());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    hangup(kept);
    assert_eq!(said("chmod 600"), 1);
    std::fs::remove_file(&path).unwrap();
    hangup(kept);
    assert_eq!(opens(), [false, true, false]);
    write(&tokens[2].to_hex());
    hangup("was read again");
    assert_eq!(opens(), [false, false, true]);
    assert!(tokens.iter().all(|token| said(token.to_hex().as_str()) == 0));
}

/// The program changes the tokens of a server that runs. The first token closes what was open, and its
/// revocation does not open it again. Neither the file nor the log has a token in it.
#[test]
fn tokens_of_a_running_server() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let log = folder.path().join("log");
    let mut server = command(&keys().public_file(), &state, "127.0.0.1:0");
    server.env("RUST_LOG", "trace").stderr(std::fs::File::create(&log).unwrap());
    let server = Program::spawn(&mut server);
    let open = server.device().with_token(None);
    open.post("/bandits", br#"{"policy": "ucb1", "arms": 2}"#).ok();
    open.get("/keys").ok();

    let made =
        done(tool(&state, &["create", "--name", "app", "--scope", "admin,decide", "--expires", "90d"]));
    let token = AccessToken::from_hex(&made).unwrap();
    for path in ["/keys", "/policies", "/bandits"] {
        assert_eq!(open.get(path).problem().status, 401);
    }
    open.get("/health").ok();
    let app = open.with_token(Some(&token));
    app.get("/keys").ok();
    let created = app.post("/bandits", br#"{"policy": "ucb1", "arms": 2}"#).ok();
    let id = serde_json::from_slice::<PolicyCreated>(&created).unwrap().id;
    let out = folder.path().join("phone.token");
    let phone =
        ["create", "--name", "phone", "--scope", "decide", "--bandit", &id, "--out", out.to_str().unwrap()];
    assert_eq!(done(tool(&state, &phone)), "");
    let phone = open.with_token(Some(&AccessToken::open(&out).unwrap()));
    phone.post(&format!("/bandits/{id}/decisions"), b"").ok();

    let list = done(tool(&state, &["list"]));
    let [first, second] = list.lines().collect::<Vec<_>>()[..] else { panic!("{list}") };
    assert!(first.starts_with("app  decide,admin  all bandits  expires 2"), "{first}");
    assert_eq!(second, format!("phone  decide  bandit {id}  never expires"));
    let json: Vec<serde_json::Value> = done(tool(&state, &["list", "--json"]))
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((json.len(), &json[1]["bandit"]), (2, &id.as_str().into()));
    let refused = |arguments: &[&str], part: &str| {
        let output = tool(&state, arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() != Some(0) && said.contains(part), "{said}");
    };
    refused(&["create", "--name", "app", "--scope", "decide"], "already");
    refused(&["create", "--name", "x", "--scope", "play"], "decide, feedback, raise, admin");
    refused(&["revoke", "nobody"], "there is no token nobody");

    let stored = std::fs::read_to_string(state.join("tokens")).unwrap();
    assert!(stored.contains("phone") && !stored.contains(token.to_hex().as_str()));
    for name in ["app", "phone"] {
        done(tool(&state, &["revoke", name]));
    }
    assert_eq!([app.get("/keys").status, open.get("/keys").status], [401, 401]);
    app.get("/health").ok();
    // The control: it has the lines of these requests.
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("401 Unauthorized") && log.contains("API tokens read again"), "{log}");
    assert!(!log.to_lowercase().contains(token.to_hex().as_str()));
    assert!(!log.contains(keys().token().to_hex().as_str()));
}

/// Nobody but the owner reads the file, whoever made it and with whichever mode.
#[cfg(unix)]
#[test]
fn attack_the_file_of_tokens_is_unreadable_by_others() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let mode = |name: &str| std::fs::metadata(state.join(name)).unwrap().permissions().mode() & 0o777;
    // The widest mask that a shell has.
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        "umask 000; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_helba-server"),
        "token",
        "create",
    ]);
    shell.arg("--state").arg(&state).args(["--name", "app", "--scope", "decide", "--out"]);
    let out = folder.path().join("app.token");
    assert!(shell.arg(&out).status().unwrap().success());
    assert_eq!((mode(""), mode("tokens"), mode("tokens.lock")), (0o700, 0o600, 0o600));
    assert_eq!(std::fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o600);
    // A file that was copied there.
    std::fs::set_permissions(state.join("tokens"), PermissionsExt::from_mode(0o644)).unwrap();
    let server = Program::start_without_keys(&state);
    assert_eq!(mode("tokens"), 0o600);
    std::fs::set_permissions(state.join("tokens"), PermissionsExt::from_mode(0o644)).unwrap();
    done(tool(&state, &["create", "--name", "other", "--scope", "decide"]));
    assert_eq!(mode("tokens"), 0o600);
    server.kill();
}

/// The documents have the table as the code has it.
#[test]
fn documents_have_the_table_of_routes() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/deployment.md");
    let page = std::fs::read_to_string(page).unwrap();
    let documented: Vec<&str> =
        page.lines().filter(|line| line.contains("` | ") && line.contains("/v1/")).collect();
    let row = |route: Route| format!("| `{} /v1{}` | {} |", route.method(), route.path(), route.needs());
    assert_eq!(documented, Route::ALL.map(row));
}
