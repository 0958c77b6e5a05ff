//! Bytes from outside: refused with the reason, nothing changed, memory bounded.

use crate::fixture::*;
use crate::misuse::{Setting, refused_as, setting};
use crate::trace::traced;
use crate::users::*;
use ckks::Plaintext;
use helba_server::Settings;
use protocol::Answers;
use std::io::Write;
use std::net::TcpStream;
use wire::{Created, DECISIONS_HEADER, Raised, Raises, TracedFeedback};

/// Ways to spoil a ciphertext frame of `level`, and the reason each must be refused with.
fn spoiled(frame: &[u8], level: usize) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let half = frame.len() / 2;
    // Behind the seed, if there is one.
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
        ("Galois element or number of coefficients", forged(frame, |b| b[44] ^= 5), "malformed"),
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
    ]
}

/// Sends each form of `frame` that [`spoiled`] makes, in a place for at most `limit` bytes.
#[track_caller]
fn refuses(frame: &[u8], level: usize, limit: usize, send: impl Fn(Vec<u8>) -> Answer) {
    for (what, bytes, reason) in spoiled(frame, level) {
        let want = if bytes.len() > limit { (413, Some("too_large")) } else { (400, Some(reason)) };
        let problem = send(bytes).problem();
        assert_eq!((problem.status, problem.reason.as_deref()), want, "{what}: {}", problem.detail);
    }
}

#[test]
fn contexts_are_refused() {
    let mut s = setting();
    let good = s.user.contexts(&mut s.rng);
    let small = keys().small().params();
    let top = small.max_level();
    refuses(&good, top, s.user.device.limits().contexts, |body| ask(&s.user, &body));
    // Honestly encrypted, but at another level, or by somebody else.
    let low = {
        let plaintext = Plaintext::from_integers(small, &[1; 8], top - 1, small.scale(top - 1)).unwrap();
        let id = keys().bundle.scores.key_id;
        ckks_secret::encrypt(keys().small(), &plaintext, &mut s.rng).to_bytes(keys().small(), id)
    };
    let theirs = &other_keys().bundle;
    let theirs = Created {
        key_id: theirs.key_id.to_string(),
        scores_key_id: theirs.scores.key_id.to_string(),
        ..s.user.device.created().clone()
    };
    let stranger = other_keys().device().join(&theirs).unwrap();
    let stranger = stranger.contexts(&random_rows(&mut s.rng), &mut s.rng).unwrap();
    refused_as(ask(&s.user, &low), 400, "wrong_level");
    refused_as(ask(&s.user, &stranger), 400, "wrong_key");
    let path = s.user.path("/decisions");
    let several = |decisions: &str| s.user.http.post_with(&path, (DECISIONS_HEADER, decisions), &good);
    for (decisions, status, reason) in [
        ("0", 422, "bad_value"),
        ("65", 422, "bad_value"),
        ("18446744073709551615", 422, "bad_value"),
        ("18446744073709551616", 400, "malformed"),
        ("-1", 400, "malformed"),
        ("", 400, "malformed"),
        ("two", 400, "malformed"),
    ] {
        refused_as(several(decisions), status, reason);
    }
    s.unchanged();
    assert!(s.user.decide(&random_rows(&mut s.rng), &mut s.rng).reliable);
}

/// The bytes of a message around its frames.
fn spoiled_messages(message: &[u8]) -> Vec<(Vec<u8>, &'static str)> {
    let mut messages = vec![
        (vec![], "malformed"),
        (b"HLB9".to_vec(), "wrong_version"),
        (b"GET /".to_vec(), "malformed"),
        ([message, &[0]].concat(), "malformed"),
        // A header, and then a blob, that claims four gigabytes.
        ([&message[..4], &[0xff; 4], &message[8..]].concat(), "too_large"),
    ];
    messages.extend(
        [1, 7, 20, message.len() / 3, message.len() - 1].map(|n| (message[..n].to_vec(), "malformed")),
    );
    messages
}

/// The frames of a feedback under both kinds of schedules, and the message around them.
#[test]
fn feedback_is_refused() {
    let mut s = setting();
    let top = keys().small().params().max_level();
    let rows = random_rows(&mut s.rng);
    let choice = s.user.decide(&rows, &mut s.rng);
    s.before = replay(s.server.folder.path(), s.user.id(), "snapshot");
    let good = s.user.device.feedback(choice.arm, &rows[choice.arm], 0.5, None, &mut s.rng).unwrap();
    refuses(&good, top, s.user.device.limits().statistics, |body| s.user.send(&choice, &body));
    s.unchanged();
    let feedbacks = s.user.status().feedbacks;
    s.user.send(&choice, &good).ok();
    assert_eq!(s.user.status().feedbacks, feedbacks + 1);

    let user = User::create_with(s.server.device(), &traced());
    let choice = user.decide(&rows, &mut s.rng);
    let before = replay(s.server.folder.path(), user.id(), "snapshot");
    let good = user.device.feedback(choice.arm, &rows[choice.arm], 0.5, None, &mut s.rng).unwrap();
    let limits = user.device.limits();
    let read = TracedFeedback::read(&good, limits).unwrap();
    let send = |feedback: TracedFeedback| user.send(&choice, &feedback.to_bytes());
    refuses(&read.statistics, top, limits.statistics, |statistics| {
        send(TracedFeedback { statistics, ..read.clone() })
    });
    refuses(&read.trace, top, limits.trace, |trace| send(TracedFeedback { trace, ..read.clone() }));
    for (body, reason) in spoiled_messages(&good) {
        refused_as(user.send(&choice, &body), if reason == "too_large" { 413 } else { 400 }, reason);
    }
    let now = replay(s.server.folder.path(), user.id(), "snapshot");
    assert!(now.head == before.head && now.bytes == before.bytes, "the state changed");
    user.send(&choice, &good).ok();
    assert_eq!(user.status().feedbacks, 1);
}

/// The frames of every kind of raise, and the message around them. What waits is raised all the same.
#[test]
fn raises_are_refused() {
    let mut s = setting();
    let limits = *s.user.device.limits();
    let asked = s.asked();
    let (task, good) = s.raised(&asked);
    let level = s.user.device.created().plan.scores_level;
    refuses(&good, level, limits.raised, |frame| {
        s.post_raises(asked.ticket, vec![(task, Raised::Scores(frame))])
    });
    let message = Raises { ticket: asked.ticket, raised: vec![(task, Raised::Scores(good))] }.to_bytes();
    for (body, reason) in spoiled_messages(&message) {
        let answer = s.user.http.post(&s.user.path("/raises"), &body);
        refused_as(answer, if reason == "too_large" { 413 } else { 400 }, reason);
    }
    let reply = s.user.http.post(&s.user.path("/raises"), &message).ok();
    assert!(s.user.device.read(&reply).unwrap().choice.unwrap().reliable);
    s.unchanged();

    // The sum of a batch, and then its model.
    let Setting { server, mut rng, .. } = s;
    let user = User::create_with(server.device(), &every_round(Answers::Scores));
    user.round(&History::default(), &mut rng);
    let (limits, plan) = (user.device.limits(), &user.device.created().plan);
    let post = |task, raised| {
        let body = Raises { ticket: None, raised: vec![(task, raised)] };
        user.http.post(&user.path("/raises"), &body.to_bytes())
    };
    for refreshes in [false, true] {
        wait_for("the task", || user.status().refresh_due == refreshes);
        let reply = user.client.raises(user.id(), limits, 1).unwrap().expect("a task");
        let tasks = user.device.read(&reply).unwrap().tasks;
        let body = user.device.raise(&tasks, None, &mut rng).unwrap();
        let before = replay(server.folder.path(), user.id(), "snapshot");
        let raised = Raises::read(&body, limits).unwrap().raised.remove(0);
        match &raised {
            (task, Raised::Sum(frame)) => {
                refuses(frame, plan.statistics_level, limits.raised, |frame| post(*task, Raised::Sum(frame)));
            }
            (task, Raised::Model { deep, scores }) => {
                refuses(deep, plan.model_level, limits.raised, |deep| {
                    post(*task, Raised::Model { deep, scores: scores.clone() })
                });
                let top = keys().small().params().max_level();
                refuses(scores, top, limits.scores, |scores| {
                    post(*task, Raised::Model { deep: deep.clone(), scores })
                });
            }
            _ => panic!("scores of an open bandit"),
        }
        let now = replay(server.folder.path(), user.id(), "snapshot");
        assert!(now.head == before.head && now.bytes == before.bytes, "the state changed");
        user.http.post(&user.path("/raises"), &body).ok();
    }
    assert_eq!((user.status().refreshes, user.status().model_feedbacks), (1, 1));
}

/// Any one bit of a message.
#[test]
fn flipped_bits_are_refused() {
    let mut s = setting();
    let contexts = s.user.contexts(&mut s.rng);
    let choice = s.user.decide(&random_rows(&mut s.rng), &mut s.rng);
    let feedback = s.user.device.feedback(0, &[0.6, 0.8], 0.5, None, &mut s.rng).unwrap();
    let asked = s.asked();
    // Without a ticket: one that nobody has does no harm to a raise.
    let raises = s.user.device.raise(&asked.tasks, None, &mut s.rng).unwrap();
    s.before = replay(s.server.folder.path(), s.user.id(), "snapshot");
    let feedback_path = s.user.path(&format!("/decisions/{}/feedback", choice.id));
    for (path, message) in
        [(s.user.path("/decisions"), contexts), (feedback_path, feedback), (s.user.path("/raises"), raises)]
    {
        for i in (0..64).chain((64..message.len()).step_by(message.len() / 50)) {
            let mut body = message.clone();
            body[i] ^= 1 << (i % 8);
            let problem = s.user.http.post(&path, &body).problem();
            // A raise may name a task that does not wait.
            let other_task = path.ends_with("/raises") && problem.status == 409;
            assert!(other_task || [400, 413].contains(&problem.status), "{path}, byte {i}: {problem:?}");
        }
    }
    s.unchanged();
}

#[test]
fn unknown_names() {
    let s = setting();
    let id = s.user.id();
    let zero = "0".repeat(32);
    let device = &s.user.http;
    // More than fits into the buffers on the way: an answer before its end must not be lost.
    let body = &[0; 4 << 20];
    let not_found = [
        (device.get("/nothing"), "unknown_path"),
        (device.get(&format!("/bandits/{zero}")), "unknown_bandit"),
        (device.get("/bandits/..%2f..%2fetc"), "unknown_bandit"),
        (device.get("/bandits/%ff%fe"), "unknown_path"),
        (device.post("/bandits/%ff/decisions", body), "unknown_path"),
        (device.post("/bandits/%ff/decisions/%ff/feedback", body), "unknown_path"),
        (device.post("/bandits/%ff/raises", body), "unknown_path"),
        (device.post(&format!("/bandits/{zero}/decisions"), body), "unknown_bandit"),
        (device.post(&format!("/bandits/{zero}/decisions/{zero}/feedback"), body), "unknown_bandit"),
        (device.post(&format!("/bandits/{zero}/decisions/{zero}/again"), body), "unknown_bandit"),
        (device.post(&format!("/bandits/{zero}/raises"), body), "unknown_bandit"),
        (device.post(&format!("/bandits/{id}/decisions/short/feedback"), body), "unknown_decision"),
        (device.post(&format!("/bandits/{id}/decisions/short/again"), body), "unknown_decision"),
    ];
    for (answer, reason) in not_found {
        refused_as(answer, 404, reason);
    }
    refused_as(device.get(&s.user.path("/decisions")), 405, "wrong_method");
    s.unchanged();
}

#[test]
fn configurations_are_refused() {
    let server = InProcess::start(Settings::default());
    let device = server.device();
    let good = serde_json::to_value(encrypted(Answers::Arm)).unwrap();
    let with = |pointer: &str, value: serde_json::Value| {
        let mut config = good.clone();
        *config.pointer_mut(pointer).unwrap() = value;
        config.to_string()
    };
    let and = |field: &str, value: serde_json::Value| {
        let mut config = good.clone();
        config[field] = value;
        config.to_string()
    };
    let cases = [
        ("".to_string(), "EOF"),
        ("{".to_string(), "EOF"),
        ("[[[[[[".to_string(), "line 1"),
        (and("surprise", 1.into()), "surprise"),
        (and("decisions", "single".into()), "decisions"),
        (with("/linear/d", 0.into()), "d"),
        (with("/linear/d", u64::MAX.into()), "d"),
        (with("/linear/k", u64::MAX.into()), "k"),
        (with("/linear/k", 16.into()), "generate keys"),
        (with("/linear/d", (-1).into()), "linear.d"),
        (with("/linear/lambda", 0.into()), "lambda"),
        (with("/linear/lambda", "x".into()), "linear.lambda"),
        (with("/horizon", 0.into()), "horizon"),
        (with("/unanswered", 1000.into()), "unanswered"),
        (with("/comparison_bits", 7.into()), "comparison_bits"),
        (and("discount", 1.5.into()), "discount"),
        (and("window", 0.into()), "window"),
        (with("/linear/schedule", "trace".into()), "schedule"),
    ];
    for (body, named) in cases {
        let problem = device.post("/bandits", body.as_bytes()).problem();
        assert_eq!((problem.status, problem.reason.as_deref()), (400, Some("bad_configuration")), "{body}");
        assert!(problem.detail.contains(named), "{body}: {}", problem.detail);
    }
    refused_as(device.post("/bandits", &vec![b' '; 20_000]), 413, "too_large");
    assert_eq!(device.get("/bandits").ok(), b"[]");
    assert!(!server.folder.path().join("encrypted").exists());
}

/// Refused by its announced length, before it is sent; and cut off where no length is announced.
#[test]
fn oversized_bodies_are_not_read() {
    let mut s = setting();
    let choice = s.user.decide(&random_rows(&mut s.rng), &mut s.rng);
    s.before = replay(s.server.folder.path(), s.user.id(), "snapshot");
    let token = s.user.http.authorization();
    let head = |path: &str, header: &str| {
        let content = if path == "/bandits" { "application/json" } else { wire::OCTET_STREAM };
        format!(
            "POST /v1{path} HTTP/1.1\r\nHost: x\r\n{token}\r\nContent-Type: {content}\r\n{header}\r\n\r\n"
        )
    };
    let paths = ["/decisions", "/raises"].map(|rest| s.user.path(rest));
    let of_decision =
        ["feedback", "again"].map(|rest| s.user.path(&format!("/decisions/{}/{rest}", choice.id)));
    for path in paths.into_iter().chain(of_decision).chain(["/bandits".into()]) {
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
    s.unchanged();
    s.user.feedback(&random_rows(&mut s.rng), &choice, &mut s.rng);
}

/// One request too many is told so at once, and the place is free again after the first: decisions have
/// places of those who wait, creations have those of requests that compute.
#[test]
fn overload_is_answered() {
    let settings = Settings { max_in_flight: 1, max_waiting: 1, ..Settings::default() };
    let server = InProcess::start(settings);
    let user = User::create(server.device(), Answers::Scores);
    let config = serde_json::to_vec(&encrypted(Answers::Arm)).unwrap();
    let contexts = user.contexts(&mut rng(5));
    for (path, body) in [(user.path("/decisions"), contexts), ("/bandits".to_string(), config)] {
        let send = || (0..6).map(|_| user.http.post(&path, &body)).collect::<Vec<_>>();
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(send)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let (done, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status < 300);
        assert!(!done.is_empty() && !refused.is_empty(), "{path}: {} and {}", done.len(), refused.len());
        refused.into_iter().for_each(|answer| refused_as(answer, 503, "overloaded"));
        user.http.post(&path, &body).ok();
    }
}
