//! The server's description of its interface, its pages, and the headers that all answers share.

use crate::contract::validate_as;
use crate::fixture::*;
use helba_server::{Connections, Settings};
use rand::SeedableRng;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wire::{Problem, ProblemType};

/// Status, headers and body of a request that speaks for itself.
fn get(server: &InProcess, path: &str, headers: &[(&str, &str)]) -> (u16, ureq::http::HeaderMap, String) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let request = agent.get(format!("http://{}{path}", server.address));
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let mut response = request.call().unwrap();
    let body = response.body_mut().read_to_string().unwrap();
    (response.status().as_u16(), response.headers().clone(), body)
}

fn header<'a>(headers: &'a ureq::http::HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn the_description_is_served_once_and_then_by_its_tag() {
    let server = InProcess::start(Settings::default());
    let (status, headers, body) = get(&server, "/v1/openapi.json", &[]);
    assert_eq!((status, header(&headers, "content-type")), (200, "application/json"));
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), helba_server::document());
    let tag = header(&headers, "etag").to_string();
    for same in [&tag[..], "*", &format!("\"other\", W/{tag}")] {
        let (status, headers, body) = get(&server, "/v1/openapi.json", &[("if-none-match", same)]);
        assert_eq!((status, &body[..], header(&headers, "etag")), (304, "", &tag[..]), "{same}");
    }
    assert_eq!(get(&server, "/v1/openapi.json", &[("if-none-match", "\"other\"")]).0, 200);

    // References lead somewhere, and names of operations are unique.
    let document = helba_server::document();
    let references = body.split("\"$ref\":\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    for reference in references {
        assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference}");
    }
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    let mut ids: Vec<&str> = operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    ids.sort_unstable();
    let all = ids.len();
    ids.dedup();
    // The root, the dashboard and the numbers for Prometheus stand above `/v1`.
    assert_eq!((ids.len(), all), (helba_server::Route::ALL.len() + 3, helba_server::Route::ALL.len() + 3));
}

/// A client that finds no memory for its answer is told so as at any other limit, and asks again.
#[test]
fn answers_without_memory_are_asked_for_again() {
    let connections = Connections { answers: 128 << 10, ..Connections::default() };
    let server = InProcess::open_with(tempfile::TempDir::new().unwrap(), Settings::default(), connections);
    let client = user_client::Client::new(&format!("http://{}", server.address)).unwrap();
    let fetch = || client.fetch("openapi.json", 1 << 20, 0);
    // Another connection of the same address reads such answers slowly, one after another.
    let mut slow = std::net::TcpStream::connect(server.address).unwrap();
    let asks = format!("GET /v1/openapi.json HTTP/1.1\r\nHost: {}\r\n\r\n", server.address).repeat(400);
    slow.write_all(asks.as_bytes()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let refused = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut part = vec![0; 64 << 10];
            while !stop.load(Relaxed) && slow.read(&mut part).unwrap() > 0 {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let begun = Instant::now();
        let refused = loop {
            match fetch() {
                Err(error) => break Some(error),
                Ok(_) if begun.elapsed() > Duration::from_secs(15) => break None,
                Ok(_) => {}
            }
        };
        stop.store(true, Relaxed);
        refused
    });
    let refused = refused.expect("a refusal");
    assert!(refused.is_temporary(), "{refused}");
    let user_client::Error::Refused(problem) = refused else { panic!("{refused}") };
    assert!(!problem.detail.is_empty());
    let kind = Problem::from(ProblemType::Overloaded);
    assert_eq!(Problem { detail: String::new(), ..problem }, Problem { detail: String::new(), ..kind });
    let described = &helba_server::document()["paths"]["/v1/openapi.json"]["get"]["responses"]["503"];
    assert!(
        described["content"][wire::PROBLEM_JSON].is_object()
            && described["headers"]["request-id"].is_object()
    );
    drop(slow);
    let mut rng = rand_chacha::ChaCha20Rng::from_seed([1; 32]);
    let within = Duration::from_secs(20);
    user_client::patiently(within, &user_client::Stop::default(), &mut rng, |_| fetch()).unwrap();
}

/// The pages run their own script alone, under a nonce that no two answers share, and name nothing elsewhere.
#[test]
fn attack_pages_run_no_foreign_script() {
    let server = InProcess::start(Settings::default());
    let mut nonces = Vec::new();
    for (path, accept) in [("/v1/docs", "*/*"), ("/", "text/html,*/*;q=0.8"), ("/dashboard", "text/html")] {
        let (status, headers, page) = get(&server, path, &[("accept", accept)]);
        assert_eq!((status, header(&headers, "content-type")), (200, "text/html; charset=utf-8"));
        let policy = header(&headers, "content-security-policy");
        let nonce = policy.split("script-src 'nonce-").nth(1).unwrap().split('\'').next().unwrap();
        assert!(
            nonce.len() == 32 && policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe")
        );
        for element in ["<script", "<style"] {
            let named = page.matches(&format!("{element} nonce=\"{nonce}\">")).count();
            assert_eq!(page.matches(element).count(), named, "{path}");
        }
        assert!(!page.contains("{{") && page.contains(nonce));
        for outside in [
            "http:",
            "https:",
            "src=",
            "innerHTML",
            "eval(",
            "localStorage",
            "sessionStorage",
            "cookie",
            " onclick",
        ] {
            assert!(!page.contains(outside), "{path}: {outside}");
        }
        nonces.push(nonce.to_string());
    }
    nonces.sort();
    nonces.dedup();
    assert_eq!(nonces.len(), 3);

    let (status, headers, body) = get(&server, "/", &[]);
    assert_eq!((status, header(&headers, "vary")), (200, "accept"));
    let root: Value = serde_json::from_str(&body).unwrap();
    validate_as(&root, "Root").unwrap();
    for link in ["health", "openapi", "docs", "dashboard"] {
        assert_eq!(get(&server, root[link].as_str().unwrap(), &[]).0, 200, "{link}");
    }
}

/// Every policy can be created by its example, which the description permits, and is answered as described. A
/// field too many is neither permitted nor accepted.
#[test]
fn every_policy_is_created_as_described() {
    let server = InProcess::start(Settings { max_bandits: 256, ..Settings::default() });
    let device = server.device();
    let cards: Vec<Value> = serde_json::from_slice(&device.get("/policies").ok()).unwrap();
    assert!(cards.len() > 20);
    for card in cards {
        let mut request = card["example"].clone();
        if card["policy"] == "helba" {
            (request["linear"]["d"], request["linear"]["k"]) = (D.into(), K.into());
        }
        validate_as(&request, "CreationRequest").unwrap();
        let created: Value =
            serde_json::from_slice(&device.post("/bandits", request.to_string().as_bytes()).ok()).unwrap();
        validate_as(&created, "Listed").unwrap();
        device.get(&format!("/bandits/{}", created["id"].as_str().unwrap())).ok();
        request["and_more"] = json!(1);
        validate_as(&request, "CreationRequest").unwrap_err();
        let refused = device.post("/bandits", request.to_string().as_bytes()).problem();
        assert!([400, 422].contains(&refused.status), "{refused:?}");
    }
    device.get("/bandits").ok();
    device.get("/keys").ok();
}

#[test]
fn the_state_of_a_bandit_has_a_tag_that_changes_with_it() {
    let server = InProcess::start(Settings::default());
    let device = server.device();
    let created = device.post("/bandits", br#"{"policy": "ucb1", "arms": 2}"#).ok();
    let created: Value = serde_json::from_slice(&created).unwrap();
    let path = format!("/v1/bandits/{}", created["id"].as_str().unwrap());
    let (_, headers, _) = get(&server, &path, &[]);
    let tag = header(&headers, "etag").to_string();
    assert_eq!(get(&server, &path, &[("if-none-match", &tag)]).0, 304);
    device.post(&format!("{}/decisions", &path[3..]), b"").ok();
    let (status, headers, _) = get(&server, &path, &[("if-none-match", &tag)]);
    assert!(status == 200 && header(&headers, "etag") != tag);
}

/// Pages of a list have every bandit once, and name the next page but for the last one.
#[test]
fn lists_have_pages() {
    let server = InProcess::start(Settings::default());
    let device = server.device().with_token(None);
    for _ in 0..5 {
        device.post("/bandits", br#"{"policy": "ucb1", "arms": 2}"#).ok();
    }
    let ids = |body: &str| -> Vec<String> {
        let listed: Vec<Value> = serde_json::from_str(body).unwrap();
        listed.iter().map(|bandit| bandit["id"].as_str().unwrap().to_string()).collect()
    };
    let (_, headers, body) = get(&server, "/v1/bandits", &[]);
    let all = ids(&body);
    assert!(all.len() == 5 && all.is_sorted() && headers.get("link").is_none());
    let (mut path, mut paged, mut pages) = ("/v1/bandits?limit=2".to_string(), Vec::new(), 0);
    loop {
        let (_, headers, body) = get(&server, &path, &[]);
        (paged, pages) = ([paged, ids(&body)].concat(), pages + 1);
        let Some(next) = header(&headers, "link").strip_suffix(">; rel=\"next\"") else { break };
        path = next.strip_prefix('<').unwrap().to_string();
    }
    assert_eq!((paged, pages), (all, 3));
    for (query, status) in [("limit=0", 422), ("limit=1001", 422), ("limit=x", 400), ("page=1", 400)] {
        assert_eq!(device.get(&format!("/bandits?{query}")).problem().status, status, "{query}");
    }
}

/// Pages are short whoever asks, and a client follows them.
#[test]
fn attack_a_list_is_no_longer_than_a_page() {
    let server = InProcess::start(Settings { max_bandits: 2000, ..Settings::default() });
    let device = server.device().with_token(None);
    let tag = |i: usize| format!("{i:02}{}", "\u{1f980}".repeat(48));
    let tags: Vec<String> = (0..16).map(tag).collect();
    let created =
        json!({"policy": "ucb1", "arms": 2, "name": "\u{1f980}".repeat(100), "tags": tags}).to_string();
    device.post("/bandits", created.as_bytes()).ok();
    let (_, _, one) = get(&server, "/v1/bandits", &[]);
    let made = (1 << 20) / one.len() * 3 / 2;
    (1..made).for_each(|_| drop(device.post("/bandits", created.as_bytes()).ok()));
    let (_, headers, body) = get(&server, "/v1/bandits", &[]);
    assert!(body.len() <= 1 << 20 && headers.contains_key("link"), "{}", body.len());
    let client = user_client::Client::new(device.server()).unwrap();
    assert_eq!(client.bandits().unwrap().len(), made);
}

/// Every answer names its request: by the name that was given, unless it could break a line of the log.
#[test]
fn answers_name_their_requests() {
    let server = InProcess::start(Settings::default());
    let name = |path: &str, headers: &[(&str, &str)]| {
        let (_, headers, _) = get(&server, path, headers);
        header(&headers, "request-id").to_string()
    };
    assert_eq!(name("/v1/health", &[("request-id", "a-1_B.2")]), "a-1_B.2");
    for path in ["/v1/health", "/", "/nowhere", "/v1/bandits/none"] {
        for given in ["", "a b", "a\tb", &"a".repeat(65)] {
            let name = name(path, &[("request-id", given)]);
            assert!(name.len() == 32 && name != given, "{path} {given:?}: {name}");
        }
    }
    let foreign = [("origin", "http://evil.example"), ("request-id", "x")];
    assert_eq!(name("/v1/health", &foreign), "x");
}
