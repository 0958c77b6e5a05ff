//! Bytes from outside: refused with the reason, nothing changed, memory bounded.

use crate::fixture::*;
use helba_server::Settings;
use protocol::{BanditConfig, Status};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::io::Write;
use std::net::TcpStream;
use user_client::Decision;
use wire::Created;

struct Setting {
    server: InProcess,
    device: Device,
    created: Created,
    pending: Decision,
    before: Status,
    rng: ChaCha20Rng,
}

fn setting() -> Setting {
    let server = InProcess::start(Settings::default());
    let (device, mut rng) = (server.device(), ChaCha20Rng::seed_from_u64(4));
    let created = device.create(&BanditConfig::new(D, K));
    device.round(&created, &mut rng);
    device.wait_for_update(&created);
    let pending = device.decide(&created, &mut rng);
    let before = device.status(&created);
    Setting { server, device, created, pending, before, rng }
}

impl Setting {
    fn decisions(&self) -> String {
        decisions_path(&self.created)
    }

    /// Nothing changed, and the server still works.
    fn check(mut self) {
        assert_eq!(self.device.status(&self.created), self.before);
        let request = self.device.answer(&self.created, &self.pending, 0, &mut self.rng);
        self.device.feedback(&self.created, &self.pending, &request).ok();
        assert_eq!(self.device.status(&self.created).feedbacks, self.before.feedbacks + 1);
    }
}

/// Ways to spoil a seeded ciphertext frame of `level`, and the reason each must be refused with.
fn spoiled(frame: &[u8], level: usize) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let half = frame.len() / 2;
    let body = ckks::FRAME_HEADER_BYTES + 32;
    vec![
        ("empty", vec![], "malformed"),
        ("within the magic number", frame[..3].to_vec(), "malformed"),
        ("within the header", frame[..40].to_vec(), "malformed"),
        ("truncated", frame[..half].to_vec(), "malformed"),
        ("one byte short", frame[..frame.len() - 1].to_vec(), "malformed"),
        ("truncated, digest fits", forged(&frame[..half], |_| ()), "malformed"),
        ("one byte more", [frame, &[0]].concat(), "malformed"),
        ("one byte more, digest fits", forged(&[frame, &[0]].concat(), |_| ()), "malformed"),
        ("magic", forged(frame, |b| b[0] ^= 1), "malformed"),
        ("version", forged(frame, |b| b[4] += 1), "wrong_version"),
        ("kind", forged(frame, |b| b[6] = 5), "malformed"),
        ("reserved byte", forged(frame, |b| b[7] = 1), "malformed"),
        ("fingerprint", forged(frame, |b| b[8] ^= 1), "wrong_parameters"),
        ("key id", forged(frame, |b| b[24] ^= 1), "wrong_key"),
        ("level one lower", forged(frame, |b| b[40] = level as u8 - 1), "wrong_level"),
        ("level beyond the chain", forged(frame, |b| b[40] = 200), "malformed"),
        ("parts", forged(frame, |b| b[42] = 9), "malformed"),
        ("Galois element", forged(frame, |b| b[44] = 5), "malformed"),
        ("scale", forged(frame, |b| b[48] ^= 1), "wrong_level"),
        ("scale not a number", forged(frame, |b| b[48..56].fill(0xff)), "wrong_level"),
        (
            "residue not below its prime",
            forged(frame, |b| b[body..body + 16].fill(0xff)),
            "residue_too_large",
        ),
        (
            "one bit, digest does not fit",
            [&frame[..half], &[frame[half] ^ 1], &frame[half + 1..]].concat(),
            "malformed",
        ),
        ("another ring", foreign_frame(), "wrong_parameters"),
    ]
}

#[test]
fn contexts_are_refused() {
    let mut s = setting();
    let good = s.device.contexts(&s.created, &mut s.rng);
    let level = s.created.plan.context_level;
    for (what, body, reason) in spoiled(&good, level) {
        let problem = s.device.post(&s.decisions(), &body).problem();
        assert_eq!(
            (problem.status, problem.reason.as_deref()),
            (400, Some(reason)),
            "{what}: {}",
            problem.detail
        );
    }
    // Honestly encrypted, but at another level, or by somebody else.
    let low = s.device.encrypt(level - 1, &mut s.rng);
    let theirs = Created { key_id: other_keys().bundle.key_id.to_string(), ..s.created.clone() };
    let stranger = Device::new(s.server.address, other_keys()).contexts(&theirs, &mut s.rng);
    for (body, reason) in [(low, "wrong_level"), (stranger, "wrong_key")] {
        let problem = s.device.post(&s.decisions(), &body).problem();
        assert_eq!((problem.status, problem.reason.as_deref()), (400, Some(reason)), "{}", problem.detail);
    }
    s.check();
}

#[test]
fn feedback_is_refused() {
    let mut s = setting();
    let good = s.device.answer(&s.created, &s.pending, 0, &mut s.rng);
    let send = |request: &wire::FeedbackRequest| s.device.feedback(&s.created, &s.pending, request).problem();
    for (what, statistics, reason) in spoiled(&good.statistics, s.created.plan.statistics_level) {
        let problem = send(&wire::FeedbackRequest { statistics, ..good.clone() });
        assert_eq!(
            (problem.status, problem.reason.as_deref()),
            (400, Some(reason)),
            "{what}: {}",
            problem.detail
        );
    }
    for (what, trace, reason) in spoiled(&good.trace, s.created.plan.trace_level) {
        let problem = send(&wire::FeedbackRequest { trace, ..good.clone() });
        assert_eq!(
            (problem.status, problem.reason.as_deref()),
            (400, Some(reason)),
            "{what}: {}",
            problem.detail
        );
    }
    let refreshed = s.device.encrypt(s.created.plan.model_level, &mut s.rng);
    for (what, frame, reason) in spoiled(&refreshed, s.created.plan.model_level) {
        let problem =
            send(&wire::FeedbackRequest { refreshed: Some((protocol::RefreshId(1), frame)), ..good.clone() });
        assert_eq!(
            (problem.status, problem.reason.as_deref()),
            (400, Some(reason)),
            "{what}: {}",
            problem.detail
        );
    }
    // The message around the frames.
    let path = feedback_path(&s.created, &s.pending);
    let message = good.to_bytes();
    let mut messages = vec![
        (vec![], "malformed"),
        (b"HLB9".to_vec(), "wrong_version"),
        (b"GET /".to_vec(), "malformed"),
        ([&message[..], &[0]].concat(), "malformed"),
        // A header, and then a blob, that claims four gigabytes.
        ([&message[..4], &[0xff; 4], &message[8..]].concat(), "too_large"),
    ];
    messages.extend(
        [1, 7, 20, message.len() / 3, message.len() - 1].map(|n| (message[..n].to_vec(), "malformed")),
    );
    for (body, reason) in messages {
        let problem = s.device.post(&path, &body).problem();
        let status = if reason == "too_large" { 413 } else { 400 };
        assert_eq!((problem.status, problem.reason.as_deref()), (status, Some(reason)), "{}", problem.detail);
    }
    s.check();
}

/// Any one bit of a message.
#[test]
fn flipped_bits_are_refused() {
    let mut s = setting();
    let contexts = s.device.contexts(&s.created, &mut s.rng);
    let mut request = s.device.answer(&s.created, &s.pending, 0, &mut s.rng);
    // Without an answer, no bit is free: its number may be any.
    request.trace_answer = None;
    let feedback = request.to_bytes();
    let path = feedback_path(&s.created, &s.pending);
    for (path, message) in [(s.decisions(), contexts), (path, feedback)] {
        for i in (0..64).chain((64..message.len()).step_by(message.len() / 50)) {
            let mut body = message.clone();
            body[i] ^= 1 << (i % 8);
            let problem = s.device.post(&path, &body).problem();
            assert!([400, 413].contains(&problem.status), "byte {i}: {problem:?}");
        }
    }
    s.check();
}

#[test]
fn unknown_names() {
    let s = setting();
    let id = &s.created.id;
    let zero = "0".repeat(32);
    // More than fits into the buffers on the way: an answer before its end must not be lost.
    let body = &[0; 4 << 20];
    let not_found = [
        (s.device.get("/nothing"), "unknown_path"),
        (s.device.get(&format!("/bandits/{zero}")), "unknown_bandit"),
        (s.device.get("/bandits/..%2f..%2fetc"), "unknown_bandit"),
        (s.device.get("/bandits/%ff%fe"), "unknown_path"),
        (s.device.post("/bandits/%ff/decisions", body), "unknown_path"),
        (s.device.post("/bandits/%ff/decisions/%ff/feedback", body), "unknown_path"),
        (s.device.post(&format!("/bandits/{zero}/decisions"), body), "unknown_bandit"),
        (s.device.post(&format!("/bandits/{zero}/decisions/{zero}/feedback"), body), "unknown_bandit"),
        (s.device.post(&format!("/bandits/{id}/decisions/short/feedback"), body), "unknown_decision"),
    ];
    for (answer, reason) in not_found {
        let problem = answer.problem();
        assert_eq!((problem.status, problem.reason.as_deref()), (404, Some(reason)), "{}", problem.detail);
    }
    let mut rng = s.rng.clone();
    let request = s.device.answer(&s.created, &s.pending, 0, &mut rng);
    let problem =
        s.device.post(&format!("/bandits/{id}/decisions/{zero}/feedback"), &request.to_bytes()).problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (404, Some("unknown_decision")));
    let problem = s.device.get(&s.decisions()).problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (405, Some("wrong_method")));
    s.check();
}

#[test]
fn configurations_are_refused() {
    let server = InProcess::start(Settings::default());
    let device = server.device();
    let good = serde_json::to_value(BanditConfig::new(D, K)).unwrap();
    let with = |pointer: &str, value: serde_json::Value| {
        let mut config = good.clone();
        *config.pointer_mut(pointer).unwrap() = value;
        config.to_string()
    };
    let mut unknown = good.clone();
    unknown["surprise"] = 1.into();
    let cases = [
        ("".to_string(), "EOF"),
        ("{".to_string(), "EOF"),
        ("[[[[[[".to_string(), "line 1"),
        (unknown.to_string(), "surprise"),
        (with("/linear/d", 0.into()), "d"),
        (with("/linear/d", u64::MAX.into()), "d"),
        (with("/linear/k", u64::MAX.into()), "k"),
        (with("/linear/k", 16.into()), "generate keys"),
        (with("/linear/d", (-1).into()), "line 1"),
        (with("/linear/lambda", 0.into()), "lambda"),
        (with("/linear/lambda", "x".into()), "line 1"),
        (with("/horizon", 0.into()), "horizon"),
        (with("/unanswered", 1000.into()), "unanswered"),
        (with("/comparison_bits", 7.into()), "comparison_bits"),
        (with("/linear/schedule", "trace".into()), "schedule"),
    ];
    for (body, named) in cases {
        let problem = device.post("/bandits", body.as_bytes()).problem();
        assert_eq!((problem.status, problem.reason.as_deref()), (400, Some("bad_configuration")), "{body}");
        assert!(problem.detail.contains(named), "{body}: {}", problem.detail);
    }
    let problem = device.post("/bandits", &vec![b' '; 20_000]).problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (413, Some("too_large")));
    assert_eq!(device.get("/bandits").ok(), b"[]");
    assert!(blobs(server.folder.path()).is_empty());
}

/// Refused by its announced length, before it is sent; and cut off where no length is announced.
#[test]
fn oversized_bodies_are_not_read() {
    let s = setting();
    let token = s.device.authorization();
    let head = |path: &str, header: &str| {
        let content = if path == "/bandits" { "application/json" } else { wire::OCTET_STREAM };
        format!(
            "POST /v1{path} HTTP/1.1\r\nHost: x\r\n{token}\r\nContent-Type: {content}\r\n{header}\r\n\r\n"
        )
    };
    for path in [s.decisions(), feedback_path(&s.created, &s.pending), "/bandits".into()] {
        let mut stream = TcpStream::connect(s.server.address).unwrap();
        stream.write_all(head(&path, "Content-Length: 1099511627776").as_bytes()).unwrap();
        assert!(read_head(&mut stream).starts_with("HTTP/1.1 413"));

        let mut stream = TcpStream::connect(s.server.address).unwrap();
        stream.write_all(head(&path, "Transfer-Encoding: chunked").as_bytes()).unwrap();
        let mut reader = stream.try_clone().unwrap();
        let answer = std::thread::spawn(move || read_head(&mut reader));
        let chunk = [b"10000\r\n".as_slice(), &[0; 0x10000], b"\r\n"].concat();
        // Without an end; the limit is a few hundred kilobytes, buffers on the way hold some more.
        let sent =
            (0..1000).take_while(|_| !answer.is_finished() && stream.write_all(&chunk).is_ok()).count();
        assert!(answer.join().unwrap().starts_with("HTTP/1.1 413"));
        assert!(sent < 1000, "{path}: the server read on");
    }
    s.check();
}

/// One request too many is told so at once, and the place is free again after the first.
#[test]
fn overload_is_answered() {
    let server = InProcess::start(Settings { max_in_flight: 1, ..Settings::default() });
    let (device, mut rng) = (server.device(), ChaCha20Rng::seed_from_u64(5));
    let created = device.create(&BanditConfig::new(D, K));
    let (path, body) = (decisions_path(&created), device.contexts(&created, &mut rng));
    let ask = || (0..6).map(|_| device.post(&path, &body)).collect::<Vec<_>>();
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let (done, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert!(!done.is_empty() && !refused.is_empty(), "{} and {}", done.len(), refused.len());
    for answer in refused {
        let problem = answer.problem();
        assert_eq!((problem.status, problem.reason.as_deref()), (503, Some("overloaded")));
    }
    assert_eq!(device.post(&path, &body).status, 200);
}
