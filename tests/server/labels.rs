//! Names and tags of bandits, and creations that are repeated.

use crate::fixture::*;
use crate::users::*;
use helba_server::{Clock, NewToken, Scope, Settings, TokensFile};
use protocol::Answers;
use serde_json::{Value, json};
use wire::{AccessToken, IDEMPOTENCY_HEADER, Labels};

fn read(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

fn id(of: &Value) -> String {
    of["id"].as_str().unwrap().to_string()
}

/// A creation request of each kind, with name and tags.
fn requests(name: &str, tags: &[&str]) -> [Value; 2] {
    let mut config = serde_json::to_value(encrypted(Answers::Arm)).unwrap();
    let mut clear = json!({ "policy": "ucb1", "arms": 2 });
    for request in [&mut config, &mut clear] {
        request["name"] = name.into();
        request["tags"] = tags.into();
    }
    [config, clear]
}

fn create(device: &Device, request: &Value) -> Value {
    read(&device.post("/bandits", request.to_string().as_bytes()).ok())
}

fn create_under(device: &Device, key: &str, request: &Value) -> Answer {
    device.post_with("/bandits", (IDEMPOTENCY_HEADER, key), request.to_string().as_bytes())
}

fn operated(settings: Settings) -> (InProcess, Device) {
    let operator = AccessToken::generate(&mut rng(21));
    let server = InProcess::start(Settings { operator: Some(operator.digest()), ..settings });
    let device = server.device().with_token(Some(&operator));
    (server, device)
}

/// A decision of a clear policy that is asked for again under its key has the first answer, byte for byte,
/// also after a restart. Another request under the key, another caller and an encrypted bandit get no such
/// answer.
#[test]
fn decisions_are_repeated_by_their_key() {
    let operator = AccessToken::generate(&mut rng(23));
    let settings = || Settings { operator: Some(operator.digest()), ..Settings::default() };
    let server = InProcess::start(settings());
    let device = server.device().with_token(Some(&operator));
    let new = NewToken { name: "other".into(), scopes: vec![Scope::Decide], bandit: None, expires: None };
    let other = TokensFile::of(server.folder.path()).create(new, &mut rng(24)).unwrap();
    let sealed = device.create(&encrypted(Answers::Arm)).id;
    let created = device.post("/bandits", br#"{"policy": "oful", "arms": 2, "features": 1}"#).ok();
    let id = id(&read(&created));
    let path = format!("/bandits/{id}/decisions");
    let rows: &[u8] = br#"{"contexts": [[0.5], [0.25]]}"#;
    let ask =
        |device: &Device, key: &str, body: &[u8]| device.post_with(&path, (IDEMPOTENCY_HEADER, key), body);
    let first = ask(&device, "a", rows).ok();
    assert_eq!(ask(&device, "a", rows).ok(), first);
    let problem = ask(&device, "a", br#"{"contexts": [[0.25], [0.5]]}"#).problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (422, Some("key_reused")));
    for (device, key) in [(&device, "b"), (&device.with_token(Some(&other)), "a")] {
        assert_ne!(read(&ask(device, key, rows).ok())["decision"], read(&first)["decision"]);
    }
    let path = format!("/bandits/{sealed}/decisions");
    let refused = device.post_with(&path, (IDEMPOTENCY_HEADER, "a"), &[0; 8]).problem();
    assert_eq!((refused.status, refused.reason.as_deref()), (422, Some("bad_value")));
    let server = server.restart_with(settings());
    let device = server.device().with_token(Some(&operator));
    let path = format!("/bandits/{id}/decisions");
    assert_eq!(device.post_with(&path, (IDEMPOTENCY_HEADER, "a"), rows).ok(), first);
}

/// Names and tags of both kinds are answered, listed, filtered by, changed, and read back after a restart;
/// they go with their bandit.
#[test]
fn labels_of_both_kinds() {
    let server = InProcess::start(Settings::default());
    let device = server.device();
    // Without tokens, that of the secret bundle is for encrypted bandits, and clear ones are everybody's.
    let open = device.with_token(None);
    let labels = |labelled: &Value| serde_json::from_value::<Labels>(labelled.clone()).unwrap();
    let want = Labels { name: Some("Käse 🧀".into()), tags: vec!["live".into(), "shop".into()] };
    let mut ids = Vec::new();
    for (device, request) in [&device, &open].into_iter().zip(requests("Käse 🧀", &["live", "shop"])) {
        let created = create(device, &request);
        assert_eq!(labels(&created), want);
        let path = format!("/bandits/{}", id(&created));
        assert_eq!(labels(&read(&device.get(&path).ok())), want);
        let changed = device.patch(&path, None, br#"{"tags": ["dev"]}"#).ok();
        assert_eq!(labels(&read(&changed)), Labels { tags: vec!["dev".into()], ..want.clone() });
        assert_eq!(changed, device.get(&path).ok());
        ids.push((device, id(&created)));
    }
    // One without labels has no such fields.
    let bare = create(&open, &json!({ "policy": "ucb1", "arms": 2 }));
    assert!(bare.get("name").is_none() && bare.get("tags").is_none());

    let listed = |device: &Device, query: &str| -> Vec<String> {
        read(&device.get(&format!("/bandits?{query}")).ok()).as_array().unwrap().iter().map(id).collect()
    };
    let mut both: Vec<_> = ids.iter().map(|(_, id)| id.clone()).collect();
    both.sort();
    for (device, own) in [(&device, both), (&open, vec![ids[1].1.clone()])] {
        assert_eq!(listed(device, "tag=dev"), own);
        assert_eq!(listed(device, "name=K%C3%A4se+%F0%9F%A7%80&tag=dev"), own);
        for other in ["tag=live", "tag=de", "name=Kase", "name=K%C3%A4se+%F0%9F%A7%80&tag=x"] {
            assert!(listed(device, other).is_empty(), "{other}");
        }
    }
    let bodies: Vec<_> = ids.iter().map(|(device, id)| device.get(&format!("/bandits/{id}")).ok()).collect();
    let ids: Vec<_> = ids.into_iter().map(|(_, id)| id).collect();
    let server = server.restart();
    let (device, open) = (server.device(), server.device().with_token(None));
    for ((device, id), body) in [&device, &open].into_iter().zip(&ids).zip(bodies) {
        let path = format!("/bandits/{id}");
        assert_eq!(device.get(&path).ok(), body);
        device.patch(&path, None, br#"{"name": null, "tags": null}"#).ok();
        assert_eq!(labels(&read(&device.get(&path).ok())), Labels::default());
        device.patch(&path, None, br#"{"name": "again"}"#).ok();
        device.delete(&path).ok();
        assert_eq!(device.patch(&path, None, b"{}").problem().status, 404);
    }
}

/// Pages of a filtered list have what the filter has, and their links keep it.
#[test]
fn filters_have_pages() {
    let (_server, device) = operated(Settings::default());
    for at in 0..6 {
        let tag = if at % 2 == 0 { "a&b=c d" } else { "other" };
        create(&device, &json!({ "policy": "ucb1", "arms": 2, "tags": [tag], "name": "n" }));
    }
    let (mut path, mut seen) = ("/v1/bandits?limit=1&tag=a%26b%3Dc+d&name=n".to_string(), Vec::new());
    for page in 0.. {
        let (headers, body) = device.get_with_headers(&path["/v1".len()..]);
        let listed = read(&body);
        assert!(listed.as_array().unwrap().iter().all(|one| one["tags"] == json!(["a&b=c d"])));
        seen.extend(listed.as_array().unwrap().iter().map(id));
        let Some(next) = headers.get("link") else { break };
        path = next.to_str().unwrap().split(['<', '>']).nth(1).unwrap().to_string();
        assert!(page < 3, "{path}");
    }
    assert!(seen.len() == 3 && seen.is_sorted());
}

/// A change under an `ETag` is refused after another change of the labels, and not after decisions.
#[test]
fn changes_are_refused_after_others() {
    let (_server, device) = operated(Settings::default());
    let path = format!("/bandits/{}", id(&create(&device, &requests("a", &[])[1])));
    let etag = |device: &Device| {
        let (headers, _) = device.get_with_headers(&path);
        headers.get("etag").unwrap().to_str().unwrap().to_string()
    };
    let first = etag(&device);
    device.post(&format!("{path}/decisions"), b"").ok();
    assert_ne!(etag(&device), first);
    device.patch(&path, Some(&format!("\"x\", W/{first}")), br#"{"name": "b"}"#).ok();
    let refused = device.patch(&path, Some(&first), br#"{"name": "c"}"#).problem();
    assert_eq!((refused.status, refused.reason.as_deref()), (412, Some("changed")));
    assert_eq!(read(&device.get(&path).ok())["name"], "b");
    device.patch(&path, Some("*"), br#"{"name": "d"}"#).ok();
    device.patch(&path, Some(&etag(&device)), br#"{"name": "e"}"#).ok();
}

/// Labels out of their bounds are refused, at a creation and at a change, and change nothing.
#[test]
fn attack_labels_out_of_bounds_are_refused() {
    let (server, device) = operated(Settings::default());
    let path = format!("/bandits/{}", id(&create(&device, &requests("a", &["t"])[1])));
    let before = device.get(&path).ok();
    let many: Vec<String> = (0..17).map(|n| n.to_string()).collect();
    for (bad, status) in [
        (json!({ "name": "" }), 422),
        (json!({ "name": "a\nb" }), 422),
        (json!({ "name": "\u{202e}a" }), 422),
        (json!({ "name": "x".repeat(101) }), 422),
        (json!({ "tags": ["x".repeat(51)] }), 422),
        (json!({ "tags": ["x", "x"] }), 422),
        (json!({ "tags": many }), 422),
        (json!({ "name": 1 }), 400),
        (json!({ "tags": "x" }), 400),
        (json!({ "title": "x" }), 400),
    ] {
        assert_eq!(device.patch(&path, None, bad.to_string().as_bytes()).problem().status, status, "{bad}");
        for mut request in requests("a", &[]) {
            request.as_object_mut().unwrap().extend(bad.as_object().unwrap().clone());
            let refused = device.post("/bandits", request.to_string().as_bytes()).problem();
            assert!([400, 422].contains(&refused.status), "{bad}");
        }
    }
    assert_eq!(device.patch(&path, None, b"[null, null]").problem().status, 400);
    assert_eq!(device.patch(&path, None, &vec![b' '; 17 << 10]).problem().status, 413);
    assert_eq!((device.get(&path).ok(), server.state.bandits()), (before, 1));
}

/// The same key and body get the same answer, byte for byte, and create one bandit: at once and from several
/// threads, after decisions, a change of labels, a deletion and a restart. Another body is refused.
#[test]
fn repeated_creations_create_one_bandit() {
    let clock = Clock::default();
    let operator = AccessToken::generate(&mut rng(22));
    let settings =
        || Settings { clock: clock.clone(), operator: Some(operator.digest()), ..Settings::default() };
    let mut server = InProcess::start(settings());
    let device = server.device().with_token(Some(&operator));
    for (n, request) in requests("a", &["t"]).into_iter().enumerate() {
        let key = format!("early-{n}");
        let answers: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let ask = || create_under(&device, &key, &request).ok();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(answers.iter().all(|answer| *answer == answers[0]));
        let mut other = request.clone();
        other["name"] = "b".into();
        let refused = create_under(&device, &key, &other).problem();
        assert_eq!((refused.status, refused.reason.as_deref()), (422, Some("key_reused")));
        // Another key, and none.
        let path = format!("/bandits/{}", id(&read(&answers[0])));
        for another in [read(&create_under(&device, "another", &request).ok()), create(&device, &request)] {
            assert_ne!(id(&another), id(&read(&answers[0])));
            device.delete(&format!("/bandits/{}", id(&another))).ok();
        }
        clock.advance(3600 * 23);
        assert_eq!(create_under(&device, &key, &request).ok(), answers[0]);
        clock.advance(3600);
        let later = read(&create_under(&device, &key, &request).ok());
        assert_ne!(id(&later), id(&read(&answers[0])), "a day later it is another bandit");
        device.delete(&path).ok();
        device.delete(&format!("/bandits/{}", id(&later))).ok();
    }
    let make = |(n, request): (usize, Value)| {
        let key = format!("key-{n}");
        let answer = create_under(&device, &key, &request).ok();
        (key, request, answer)
    };
    let made: Vec<_> = requests("a", &["t"]).into_iter().enumerate().map(make).collect();
    assert_eq!(server.state.bandits(), 2);
    let repeated = |server: &InProcess, bandits| {
        let device = server.device().with_token(Some(&operator));
        for (key, request, answer) in &made {
            assert_eq!(create_under(&device, key, request).ok(), *answer);
        }
        assert_eq!(server.state.bandits(), bandits);
        device
    };
    let device = repeated(&server, 2);
    let paths: Vec<_> = made.iter().map(|(.., answer)| format!("/bandits/{}", id(&read(answer)))).collect();
    device.post(&format!("{}/decisions", paths[1]), b"").ok();
    for path in &paths {
        device.patch(path, None, br#"{"name": "c"}"#).ok();
    }
    server = server.restart_with(settings());
    let device = repeated(&server, 2);
    for path in &paths {
        device.delete(path).ok();
    }
    repeated(&server, 0);
    server = server.restart_with(settings());
    repeated(&server, 0);
}

/// Keys of different callers are different, and a refused creation may be tried again under its key.
#[test]
fn attack_nobody_reads_the_creation_of_another() {
    let (server, operator) = operated(Settings { max_bandits: 2, ..Settings::default() });
    let token = |name: &str| {
        let new = NewToken { name: name.into(), scopes: vec![Scope::Admin], bandit: None, expires: None };
        let token = TokensFile::of(server.folder.path()).create(new, &mut rng(name.len() as u64)).unwrap();
        operator.with_token(Some(&token))
    };
    let (one, other) = (token("one"), token("other"));
    let request = json!({ "policy": "ucb1", "arms": 2 });
    let made = create_under(&one, "key", &request).ok();
    assert_ne!(create_under(&other, "key", &request).ok(), made);
    assert_eq!(create_under(&operator, "key", &request).problem().status, 507);
    operator.delete(&format!("/bandits/{}", id(&read(&made)))).ok();
    create_under(&operator, "key", &request).ok();
    for bad in ["", "a b", &"x".repeat(256)] {
        assert_eq!(create_under(&operator, bad, &request).problem().status, 422, "{bad:?}");
    }
}
