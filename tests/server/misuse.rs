//! Bytes and requests that encrypted bandits refuse, with the reason and without a trace, and holders of the
//! token who spoil what they can.

use crate::fixture::*;
use crate::users::*;
use ckks::Plaintext;
use helba_server::Settings;
use protocol::{Answers, BanditConfig, LOG_CONTEXT, TaskKind};
use rand_chacha::ChaCha20Rng;
use std::time::{Duration, Instant};
use user_client::ReadReply;
use wire::{Raised, Raises, Ticket};

/// A bandit that has learnt, and its state.
pub(crate) struct Setting {
    pub(crate) server: InProcess,
    pub(crate) user: User,
    pub(crate) rng: ChaCha20Rng,
    pub(crate) before: Replay,
}

pub(crate) fn setting() -> Setting {
    let server = InProcess::start(Settings::default());
    let user = User::create(server.device(), Answers::Arm);
    let (mut rng, history) = (rng(4), History::default());
    for _ in 0..3 {
        user.round(&history, &mut rng);
    }
    user.settle(&mut rng);
    let before = replay(server.folder.path(), user.id(), "snapshot");
    Setting { server, user, rng, before }
}

impl Setting {
    /// The state is as it was, byte for byte, and so is the log.
    #[track_caller]
    pub(crate) fn unchanged(&self) {
        let now = replay(self.server.folder.path(), self.user.id(), "snapshot");
        assert!(now.head == self.before.head && now.bytes == self.before.bytes, "the state changed");
    }

    /// A user is asked to raise. Its round takes a place among the reserved ones, and nothing else.
    pub(crate) fn asked(&mut self) -> ReadReply {
        let reply = ask(&self.user, &self.user.contexts(&mut self.rng)).ok();
        let reply = self.user.device.read(&reply).unwrap();
        assert!(reply.choice.is_none());
        reply
    }

    /// The number and the raise of the task of `reply`.
    pub(crate) fn raised(&mut self, reply: &ReadReply) -> (u64, Vec<u8>) {
        let body = self.user.device.raise(&reply.tasks, None, &mut self.rng).unwrap();
        let raises = Raises::read(&body, self.user.device.limits()).unwrap();
        match &raises.raised[..] {
            [(task, Raised::Scores(frame))] => (*task, frame.clone()),
            other => panic!("{} tasks", other.len()),
        }
    }

    pub(crate) fn post_raises(&self, ticket: Option<Ticket>, raised: Vec<(u64, Raised)>) -> Answer {
        self.user.http.post(&self.user.path("/raises"), &Raises { ticket, raised }.to_bytes())
    }
}

#[track_caller]
pub(crate) fn refused_as(answer: Answer, status: u16, reason: &str) {
    let problem = answer.problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (status, Some(reason)), "{}", problem.detail);
}

/// `frame` with another seed: it decrypts to coefficients that are uniform modulo q.
fn nonsense(frame: &[u8]) -> Vec<u8> {
    forged(frame, |bytes| bytes[ckks::FRAME_HEADER_BYTES] ^= 1)
}

/// Frames of the deep ring where one of the ring of scores belongs and the reverse, partial ones where whole
/// ones belong, those of other keys, and bodies of the greatest length.
#[test]
fn frames_of_the_wrong_ring_are_refused() {
    let mut s = setting();
    let asked = s.asked();
    let (task, raised) = s.raised(&asked);
    let contexts = s.user.contexts(&mut s.rng);
    let statistics = s.user.device.feedback(0, &[0.6, 0.8], 0.5, None, &mut s.rng).unwrap();
    let deep = s.user.http.encrypt(0, &mut s.rng);
    let limits = *s.user.device.limits();
    let choice = {
        // The decision of the user who was asked.
        let body = Raises { ticket: asked.ticket, raised: vec![(task, Raised::Scores(raised.clone()))] };
        let reply = s.user.client.post_raises(s.user.id(), &limits, &body.to_bytes()).unwrap();
        s.user.device.read(&reply).unwrap().choice.unwrap()
    };
    s.before = replay(s.server.folder.path(), s.user.id(), "snapshot");

    for (what, body) in [
        ("deep", &deep),
        ("a feedback", &statistics),
        ("a raise", &raised),
        ("nothing", &vec![]),
        ("a body of the greatest length", &vec![7; limits.contexts]),
        ("a longer one", &vec![7; limits.contexts + 1]),
    ] {
        let answer = ask(&s.user, body);
        assert!(matches!(answer.status, 400 | 413), "contexts that are {what}: {}", answer.status);
        answer.problem();
    }
    for (what, body) in [
        ("deep", &deep),
        ("contexts", &contexts),
        ("a raise", &raised),
        ("nothing", &vec![]),
        ("a body of the greatest length", &vec![7; limits.statistics]),
        ("a longer one", &vec![7; limits.statistics + 1]),
    ] {
        let answer = s.user.send(&choice, body);
        assert!(matches!(answer.status, 400 | 413), "a feedback that is {what}: {}", answer.status);
        answer.problem();
    }
    s.unchanged();

    // The evaluation of another user waits for its raise, through all of these.
    let asked = s.asked();
    let (task, good) = s.raised(&asked);
    for (what, frame) in [
        ("of the ring of scores", contexts.clone()),
        ("partial", statistics.clone()),
        ("at another level", deep.clone()),
        ("of another key", forged(&good, |b| b[24] ^= 1)),
        ("cut", good[..good.len() - 1].to_vec()),
        ("empty", vec![]),
    ] {
        let answer = s.post_raises(asked.ticket, vec![(task, Raised::Scores(frame))]);
        assert_eq!(answer.status, 400, "a raise that is {what}");
        answer.problem();
    }
    for body in [vec![], vec![7; limits.raises()], vec![7; limits.raises() + 1]] {
        let answer = s.user.http.post(&s.user.path("/raises"), &body);
        assert!(matches!(answer.status, 400 | 413), "{}", answer.status);
    }
    let answer = s.post_raises(asked.ticket, vec![(task, Raised::Scores(good))]);
    assert!(s.user.device.read(&answer.ok()).unwrap().choice.unwrap().reliable);
    s.unchanged();
}

/// Asks for a decision by hand, and raises scores if the server asks for it. Returns the decision, or what
/// else the server asks for.
fn until_answers(user: &User, contexts: &[u8], mut rng: ChaCha20Rng) -> ReadReply {
    let mut read = user.device.read(&ask(user, contexts).ok()).unwrap();
    while matches!(read.tasks.first().map(|task| task.kind()), Some(TaskKind::Scores { .. })) {
        let body = user.device.raise(&read.tasks, read.ticket, &mut rng).unwrap();
        let reply = user.client.post_raises(user.id(), user.device.limits(), &body).unwrap();
        read = user.device.read(&reply).unwrap();
    }
    read
}

/// Two requests share an evaluation. `then` gets what the one who has not raised is asked for. Returns what
/// the other one is answered after that.
fn shared_evaluation(s: &mut Setting, then: impl FnOnce(&Setting, ReadReply)) -> ReadReply {
    let held = s.asked();
    let asks: Vec<_> = (0..2).map(|at| (s.user.contexts(&mut s.rng), rng(30 + at))).collect();
    let body = s.user.device.raise(&held.tasks, held.ticket, &mut s.rng).unwrap();
    let s = &*s;
    std::thread::scope(|scope| {
        let ask = |(contexts, rng): (Vec<u8>, _)| scope.spawn(move || until_answers(&s.user, &contexts, rng));
        let mut threads: Vec<_> = asks.into_iter().map(ask).collect();
        wait_for("two who wait", || s.server.state.users_waiting(s.user.id()) == 2);
        s.user.client.post_raises(s.user.id(), s.user.device.limits(), &body).unwrap();
        wait_for("the task", || threads.iter().any(|thread| thread.is_finished()));
        let asked = threads.iter().position(|thread| thread.is_finished()).unwrap();
        then(s, threads.swap_remove(asked).join().unwrap());
        threads.remove(0).join().unwrap()
    })
}

/// Answers of another kind, ring, level, scale, key or length, for another task and a second time.
#[test]
fn answers_that_nobody_waits_for_are_refused() {
    let mut s = setting();
    let mut rng = rng(40);
    let other = shared_evaluation(&mut s, |s, asked| {
        assert!(matches!(asked.tasks[0].kind(), TaskKind::Answers), "{:?}", asked.tasks[0].kind());
        let body = s.user.device.raise(&asked.tasks, None, &mut rng).unwrap();
        let mut raised = Raises::read(&body, s.user.device.limits()).unwrap().raised;
        let Some((task, Raised::Answers(good))) = raised.pop() else { panic!("the answer to the task") };
        let (params, id) = (engine().answer_params(), engine().key_id());
        let unseeded = ckks::write_ciphertext(params, id, &ckks::Ciphertext::zero(params, 0));
        for (what, frame) in [
            ("of the ring of scores", s.user.contexts(&mut rng)),
            ("without a seed", unseeded),
            ("at another level", forged(&good, |b| b[40] ^= 1)),
            ("at another scale", forged(&good, |b| b[54] ^= 1)),
            ("of another key", forged(&good, |b| b[24] ^= 1)),
            ("cut", good[..good.len() - 1].to_vec()),
            ("empty", vec![]),
        ] {
            let answer = s.post_raises(asked.ticket, vec![(task, Raised::Answers(frame))]);
            assert_eq!(answer.status, 400, "answers that are {what}");
        }
        let answers = || Raised::Answers(good.clone());
        refused_as(s.post_raises(asked.ticket, vec![(task, Raised::Scores(good.clone()))]), 409, "task_over");
        refused_as(s.post_raises(None, vec![(task ^ 1, answers())]), 409, "task_over");
        refused_as(s.post_raises(None, vec![(task, Raised::Sum(good.clone()))]), 409, "task_over");
        let reply = s.post_raises(asked.ticket, vec![(task, answers())]).ok();
        assert!(s.user.device.read(&reply).unwrap().choice.unwrap().reliable);
        refused_as(s.post_raises(None, vec![(task, answers())]), 409, "task_over");
    });
    // It was asked too, if all of this took two seconds.
    assert!(other.choice.is_none_or(|choice| choice.reliable && choice.users == 2));
    s.unchanged();
}

/// A holder who is asked for answers and is silent is passed over after two seconds, and is too late then.
#[test]
fn a_silent_holder_of_answers_is_passed_over() {
    let mut s = setting();
    let mut silent = None;
    let asked = shared_evaluation(&mut s, |_, asked| silent = Some(asked));
    assert!(matches!(asked.tasks[0].kind(), TaskKind::Answers));
    let body = s.user.device.raise(&asked.tasks, asked.ticket, &mut s.rng).unwrap();
    let reply = s.user.client.post_raises(s.user.id(), s.user.device.limits(), &body).unwrap();
    let choice = s.user.device.read(&reply).unwrap().choice.unwrap();
    assert!(choice.reliable && choice.users == 2);
    let silent = silent.unwrap();
    wait_for("the end of the evaluation", || {
        let body = s.user.device.raise(&silent.tasks, silent.ticket, &mut s.rng).unwrap();
        let answer = s.user.http.post(&s.user.path("/raises"), &body);
        answer.status == 409
    });
    s.unchanged();
}

/// Raises for another task, a second time, after the end, and under tickets of somebody else.
#[test]
fn raises_that_nobody_waits_for_are_refused() {
    let mut s = setting();
    let asked = s.asked();
    let (task, frame) = s.raised(&asked);
    let scores = || Raised::Scores(frame.clone());
    refused_as(s.post_raises(None, vec![(task ^ 1, scores())]), 409, "task_over");
    for other in [0, 1, 2, u64::MAX] {
        refused_as(s.post_raises(None, vec![(other, Raised::Sum(frame.clone()))]), 409, "task_over");
        let model = Raised::Model { deep: frame.clone(), scores: s.user.contexts(&mut s.rng) };
        refused_as(s.post_raises(None, vec![(other, model)]), 409, "task_over");
    }
    // Scores for a task of the bandit's own, and the reverse.
    refused_as(s.post_raises(None, vec![(task, Raised::Sum(frame.clone()))]), 409, "task_over");
    // A ticket of another bandit is none of this one, and neither is a forged one: the raise counts, and
    // nobody is answered for it.
    let other = User::create(s.server.device(), Answers::Arm);
    let elsewhere = other.device.read(&ask(&other, &other.contexts(&mut s.rng)).ok()).unwrap();
    let reply = s.post_raises(elsewhere.ticket, vec![(task, scores())]).ok();
    let reply = s.user.device.read(&reply).unwrap();
    assert!(reply.choice.is_none() && reply.ticket.is_none() && reply.tasks.is_empty());
    // Raised once, it takes no second answer, with the ticket that was for it either once its user is
    // answered.
    refused_as(s.post_raises(None, vec![(task, scores())]), 409, "task_over");
    wait_for("the end of the evaluation", || {
        s.post_raises(Some(Ticket([7; 16])), vec![(task, scores())]).status == 409
    });
    let again = s.post_raises(asked.ticket, vec![(task, scores())]);
    assert!(matches!(again.status, 200 | 409), "{}", again.status);
    // The other bandit still waits for its own.
    let body = other.device.raise(&elsewhere.tasks, elsewhere.ticket, &mut s.rng).unwrap();
    let reply = other.client.post_raises(other.id(), other.device.limits(), &body).unwrap();
    assert!(other.device.read(&reply).unwrap().choice.is_some());
    s.unchanged();
}

/// Ids that were not given out, and feedback that comes twice.
#[test]
fn feedback_counts_once_and_for_its_own_decision() {
    let mut s = setting();
    let other = User::create(s.server.device(), Answers::Arm);
    let foreign = other.decide(&random_rows(&mut s.rng), &mut s.rng);
    let rows = random_rows(&mut s.rng);
    let choice = s.user.decide(&rows, &mut s.rng);
    let frame = s.user.device.feedback(choice.arm, &rows[choice.arm], 0.5, None, &mut s.rng).unwrap();
    s.before = replay(s.server.folder.path(), s.user.id(), "snapshot");
    let send = |id: &str| s.user.http.post(&s.user.path(&format!("/decisions/{id}/feedback")), &frame);
    let good = choice.id.to_string();
    for byte in 0..16 {
        let mut bad = choice.id;
        bad.0[byte] ^= 1;
        refused_as(send(&bad.to_string()), 404, "unknown_decision");
    }
    refused_as(send(&foreign.id.to_string()), 404, "unknown_decision");
    refused_as(send(&"0".repeat(32)), 404, "unknown_decision");
    for malformed in ["x", &good[1..], &format!("{good}0")] {
        assert!(matches!(send(malformed).problem().status, 400 | 404));
    }
    s.unchanged();

    let before = s.user.status().feedbacks;
    let receipts: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| send(&good).ok())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for receipt in receipts {
        let receipt: protocol::Receipt = serde_json::from_slice(&receipt).unwrap();
        assert_eq!((receipt.decision.as_str(), receipt.feedbacks), (&*good, before + 1));
    }
    assert_eq!(s.user.status().feedbacks, before + 1);
    let after = replay(s.server.folder.path(), s.user.id(), "snapshot");
    assert_eq!(after.head.records, s.before.head.records + 1, "one event");
    // Another frame for the same decision changes nothing.
    let frame = s.user.device.feedback(choice.arm, &rows[choice.arm], -0.5, None, &mut s.rng).unwrap();
    s.user.send(&choice, &frame).ok();
    s.before = after;
    s.unchanged();
}

/// A raise and contexts that decrypt to nonsense spoil one evaluation at most, and its answers say so or are
/// within the range of answers. The server does not fail, and the next evaluation is as any other.
#[test]
fn nonsense_spoils_one_evaluation() {
    let mut s = setting();
    let huge = {
        let coefficients = vec![1 << 40; 64];
        let params = s.user.http.keys.small().params();
        let (level, scale) = (params.max_level(), f64::from(LOG_CONTEXT).exp2());
        let message = Plaintext::from_integers(params, &coefficients, level, scale).unwrap();
        let small = s.user.http.keys.small();
        let id = keys().bundle.scores.key_id;
        ckks_secret::encrypt(small, &message, &mut s.rng).to_bytes(small, id)
    };
    let uniform = nonsense(&s.user.contexts(&mut s.rng));
    for contexts in [huge, uniform] {
        let reply = s.user.device.read(&ask(&s.user, &contexts).ok()).unwrap();
        let body = s.user.device.raise(&reply.tasks, reply.ticket, &mut s.rng).unwrap();
        let reply = s.user.client.post_raises(s.user.id(), s.user.device.limits(), &body).unwrap();
        assert!(s.user.device.read(&reply).unwrap().choice.is_some(), "an answer, whatever it is");
        assert!(s.user.decide(&random_rows(&mut s.rng), &mut s.rng).reliable);
    }
    let asked = s.asked();
    let (task, frame) = s.raised(&asked);
    let answer = s.post_raises(asked.ticket, vec![(task, Raised::Scores(nonsense(&frame)))]);
    let choice = s.user.device.read(&answer.ok()).unwrap().choice.unwrap();
    assert!(!choice.reliable, "uniform values are seen to be none of an answer: {:?}", choice.values);
    assert!(s.user.decide(&random_rows(&mut s.rng), &mut s.rng).reliable);
    s.unchanged();
}

/// Users who wait when a bandit is deleted, and raisers who do, are answered at once, however long they
/// wished to wait.
#[test]
fn deletion_ends_what_waits() {
    let mut s = setting();
    let path = s.user.path("");
    let raises = s.user.path("/raises");
    for wait in ["-1", "1e3", "18446744073709551616", "x"] {
        let answer = s.user.http.get(&format!("{raises}?wait={wait}"));
        assert_eq!(answer.problem().status, 400, "{wait}");
    }
    assert_eq!(s.user.http.get(&format!("{raises}?weight=1")).problem().status, 400);
    let user = &s.user;
    let contexts: Vec<_> = (0..4).map(|_| user.contexts(&mut s.rng)).collect();
    let began = Instant::now();
    std::thread::scope(|scope| {
        // They take the task of the evaluation, and do not answer it.
        let polls: Vec<_> = ["1000000000", "18446744073709551615"]
            .map(|wait| scope.spawn(move || user.http.get(&format!("{}?wait={wait}", user.path("/raises")))))
            .into_iter()
            .collect();
        std::thread::sleep(Duration::from_millis(200));
        let users: Vec<_> =
            contexts.iter().map(|contexts| scope.spawn(move || ask(user, contexts))).collect();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(user.http.delete(&path).status, 204);
        for poll in polls {
            assert!(matches!(poll.join().unwrap().status, 200 | 204));
        }
        for user in users {
            let answer = user.join().unwrap();
            // One may have been asked before.
            if answer.status != 200 {
                refused_as(answer, 404, "unknown_bandit");
            }
        }
    });
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for answer in [user.http.get(&raises), user.http.post(&raises, b"x"), ask(user, &contexts[0])] {
        refused_as(answer, 404, "unknown_bandit");
    }
    assert!(!s.server.folder.path().join("encrypted").join(user.id()).exists());
}

/// A bandit whose answers show the model is created by who says so alone, and states it wherever it is shown.
#[test]
fn attack_no_model_is_shown_unless_the_creator_says_so() {
    let server = InProcess::start(Settings::default());
    let device = server.device();
    let open = encrypted(Answers::Scores);
    let post = |config: &BanditConfig| device.post("/bandits", &serde_json::to_vec(config).unwrap());
    for config in [
        BanditConfig { open_model: false, ..open.clone() },
        BanditConfig { open_model: true, ..encrypted(Answers::Arm) },
    ] {
        let problem = post(&config).problem();
        assert!(problem.status == 400 && problem.detail.contains("open_model"), "{problem:?}");
        let says = problem.detail.contains("everyone who holds the key can compute the whole model");
        assert_eq!(says, config.answers == Answers::Scores);
    }
    let mut unsaid = serde_json::to_value(&open).unwrap();
    unsaid.as_object_mut().unwrap().remove("open_model");
    assert_eq!(device.post("/bandits", &serde_json::to_vec(&unsaid).unwrap()).status, 400);
    assert_eq!(device.get("/bandits").ok(), b"[]");
    let json = |bytes: Vec<u8>| serde_json::from_slice::<serde_json::Value>(&bytes).unwrap();
    let created = json(post(&open).ok());
    let view = json(device.get(&format!("/bandits/{}", created["id"].as_str().unwrap())).ok());
    let listed = json(device.get("/bandits").ok());
    for shown in [&created, &view["created"], &listed[0]] {
        assert!(shown["label"].as_str().unwrap().contains("compute the model"), "{shown}");
    }
    let closed = json(post(&encrypted(Answers::Arm)).ok());
    assert!(closed["label"].is_null());
}
