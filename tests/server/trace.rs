//! Encrypted bandits with the trace condition, end to end: who is asked, who answers, and what nobody can do
//! with it.

use crate::audit::audit;
use crate::fixture::*;
use crate::users::*;
use bandit::Schedule;
use ckks::Plaintext;
use helba::Event;
use helba_server::Settings;
use protocol::{Answers, BanditConfig, LOG_CONTEXT, QuestionId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use wire::TracedFeedback;

/// The paper's schedule with C = 1 and η = 1, under which the trace ends most batches of features of norm 1.
pub(crate) fn traced() -> BanditConfig {
    let mut config = encrypted(Answers::Arm);
    (config.linear.schedule, config.linear.eta) = (Schedule::TraceOrGrowth, 1.0);
    config
}

/// A device that answers plays with batches that are longer than those without answers, and the trace ends
/// some of them. Killed and started again, the server has the same state, which the log gives too.
#[test]
fn a_device_that_answers_ends_batches_by_the_trace() {
    let state = TempDir::new().unwrap();
    let mut command = command(&keys().public_file(), state.path(), "127.0.0.1:0");
    command.arg("--keep-log");
    let mut server = Program::spawn(&mut command);
    let mut user = User::create_with(server.device(), &traced()).answering(1000);
    let (history, mut rng) = (History::default(), rng(60));
    let (mut batches, mut closed, mut longest, mut by_trace) = (0, 0, 0, 0);
    for round in 1..=40u64 {
        let receipt = user.round(&history, &mut rng);
        assert_eq!(receipt.feedbacks, round);
        if receipt.batches > batches {
            // The end of the batch is before this feedback, or with it if the number of rounds has doubled.
            by_trace += u32::from(round < 2 * closed);
            (longest, batches) = (longest.max(round - closed), receipt.batches);
            closed = if round < 2 * closed { round - 1 } else { round };
        }
        user.settle(&mut rng);
        if round == 20 {
            let before = user.status();
            server.kill();
            server = Program::spawn(&mut command);
            user = user.at(server.address);
            assert_eq!(user.status().batches, before.batches);
        }
    }
    assert!(by_trace >= 2 && longest > traced().unanswered + 1, "{by_trace}, {longest}");
    assert!(history.check() > 0.9);
    let id = user.id().to_string();
    server.kill();
    // Every answer is an event, and all of them give the state.
    let events = replay(state.path(), &id, "genesis").events;
    let answers = events.iter().filter_map(|event| match event {
        Event::Traced { answer, .. } => Some(answer.map(|(_, reached)| reached)),
        _ => None,
    });
    let answers: Vec<Option<bool>> = answers.collect();
    assert_eq!(answers.len(), 40);
    let count = |want| answers.iter().filter(|answer| **answer == want).count();
    assert!(count(Some(true)) >= 2 && count(Some(false)) > 10, "{answers:?}");
    let (status, lines, said) = audit(state.path(), &["--json"]);
    assert_eq!((status, lines.len()), (0, 1), "{said}");
    let found: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&found["agrees"], &found["since_creation"]), (&true.into(), &true.into()));
}

/// Devices that never answer, and one with few answers, learn on: batches end by their length. A device gives
/// no more answers than its user allows.
#[test]
fn devices_that_do_not_answer_block_nothing() {
    for most in [0, 3] {
        let server = InProcess::start(Settings::default());
        let user = User::create_with(server.device(), &traced()).answering(most);
        let folder = server.folder.path().join("encrypted").join(user.id());
        std::fs::copy(folder.join("snapshot"), folder.join("genesis-of-test")).unwrap();
        let (history, mut rng) = (History::default(), rng(61));
        let mut before = user.status();
        for _ in 0..24 {
            user.round(&history, &mut rng);
            let status = user.settle(&mut rng);
            let waits = status.feedbacks - status.model_feedbacks;
            assert!(waits <= traced().unanswered + most, "{waits} feedbacks wait for an update");
            assert!(status.batches >= before.batches);
            before = status;
        }
        assert!(before.refreshes >= 4, "{before:?}");
        history.check();
        let events = replay(server.folder.path(), user.id(), "genesis-of-test").events;
        let answered = |event: &&Event| matches!(event, Event::Traced { answer: Some(_), .. });
        assert_eq!(events.iter().filter(answered).count() as u64, most);
    }
}

/// Users on threads of their own share evaluations, and half of them answer. The trace of the same feedbacks
/// is asked for a few times at most, however many users there are.
#[test]
fn few_users_are_asked_for_the_same_trace() {
    let server = InProcess::start(Settings::default());
    let silent = User::create_with(server.device(), &BanditConfig { unanswered: 8, ..traced() });
    let answers = User::join(server.device(), silent.device.created()).answering(1000);
    let (history, over) = (History::default(), AtomicBool::new(false));
    let asked = std::sync::Mutex::new(BTreeMap::<u64, u32>::new());
    std::thread::scope(|scope| {
        let raiser = scope.spawn(|| silent.raise_until(|| over.load(Ordering::Relaxed), &mut rng(62)));
        let (silent, answers, history, asked) = (&silent, &answers, &history, &asked);
        let threads: Vec<_> = (0..6u64)
            .map(|seed| {
                scope.spawn(move || {
                    let (user, mut rng) = (if seed % 2 == 0 { silent } else { answers }, rng(70 + seed));
                    for _ in 0..6 {
                        let rows = random_rows(&mut rng);
                        let choice = user.decide(&rows, &mut rng);
                        assert!(choice.reliable);
                        if let Some(question) = &choice.question {
                            *asked.lock().unwrap().entry(question.id.feedbacks).or_default() += 1;
                        }
                        let receipt = user.feedback(&rows, &choice, &mut rng);
                        history.add(rows, choice, &receipt);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        over.store(true, Ordering::Relaxed);
        raiser.join().unwrap();
    });
    let status = silent.settle(&mut rng(63));
    assert_eq!(status.feedbacks, 36);
    assert!(status.refreshes >= 2, "{status:?}");
    let asked = asked.into_inner().unwrap();
    assert!(!asked.is_empty() && asked.values().all(|times| *times <= 4), "{asked:?}");
    history.check();
}

/// What is no feedback of a bandit with the trace condition, and answers that were not asked for.
#[test]
fn bad_feedback_with_a_trace_is_refused() {
    let server = InProcess::start(Settings::default());
    let user = User::create_with(server.device(), &traced()).answering(1000);
    let public = User::create(server.device(), Answers::Arm);
    let mut rng = rng(64);
    for _ in 0..2 {
        user.round(&History::default(), &mut rng);
    }
    user.settle(&mut rng);
    // Untested, so that the next one is asked.
    user.round(&History::default(), &mut rng);
    let rows = random_rows(&mut rng);
    let choice = user.decide(&rows, &mut rng);
    let question = choice.question.as_ref().expect("a question");
    let limits = *user.device.limits();
    let good = user.device.feedback(0, &rows[0], 0.5, Some(question), &mut rng).unwrap();
    let read = TracedFeedback::read(&good, &limits).unwrap();
    let (id, reached) = read.answer.unwrap();
    assert_eq!(id, question.id);
    let before = replay(server.folder.path(), user.id(), "snapshot");
    let contexts = user.contexts(&mut rng);
    let alone = public.device.feedback(0, &rows[0], 0.5, None, &mut rng).unwrap();
    let with = |change: fn(&mut TracedFeedback)| {
        let mut feedback = read.clone();
        change(&mut feedback);
        feedback.to_bytes()
    };
    for (what, body) in [
        ("statistics alone", alone.clone()),
        ("contexts", contexts),
        ("nothing", vec![]),
        ("of the greatest length", vec![7; limits.feedback()]),
        ("longer", vec![7; limits.feedback() + 1]),
        ("cut", good[..good.len() - 1].to_vec()),
        ("without statistics of the trace", with(|f| f.trace.clear())),
        ("without statistics", with(|f| f.statistics.clear())),
        ("with a partial trace", with(|f| f.trace = f.statistics.clone())),
    ] {
        let answer = user.send(&choice, &body);
        assert!(matches!(answer.status, 400 | 413), "a feedback that is {what}: {}", answer.status);
        answer.problem();
    }
    let forged = [
        QuestionId { feedbacks: id.feedbacks + 1, ..id },
        QuestionId { model_feedbacks: 0, ..id },
        QuestionId { code: [0; 16], ..id },
    ];
    for id in forged {
        let body = TracedFeedback { answer: Some((id, reached)), ..read.clone() }.to_bytes();
        let problem = user.send(&choice, &body).problem();
        assert!(problem.detail.contains("trace question"), "{problem:?}");
    }
    let now = replay(server.folder.path(), user.id(), "snapshot");
    assert!(now.head == before.head && now.bytes == before.bytes, "the state changed");
    user.send(&choice, &good).ok();
    // A bandit with a public schedule takes none of it.
    let choice = public.decide(&rows, &mut rng);
    assert!(choice.question.is_none());
    assert!(matches!(public.send(&choice, &good).status, 400 | 413));
    public.send(&choice, &alone).ok();
}

/// Trace statistics that are far too long, of a holder of the token, spoil the evaluations that compare them,
/// of which there are few. Its batch ends as any other.
#[test]
fn attack_long_trace_statistics_spoil_few_evaluations() {
    let server = InProcess::start(Settings::default());
    let user = User::create_with(server.device(), &traced());
    let mut rng = rng(65);
    for _ in 0..4 {
        user.round(&History::default(), &mut rng);
        user.settle(&mut rng);
    }
    let rows = random_rows(&mut rng);
    let choice = user.decide(&rows, &mut rng);
    let huge = {
        let small = user.http.keys.small();
        let (params, scale) = (small.params(), f64::from(LOG_CONTEXT).exp2());
        let message = Plaintext::from_integers(params, &[1 << 40; 5], params.max_level(), scale).unwrap();
        let id = keys().bundle.scores.key_id;
        ckks_secret::encrypt(small, &message, &mut rng).to_bytes(small, id)
    };
    let good = user.device.feedback(0, &rows[0], 0.5, None, &mut rng).unwrap();
    let good = TracedFeedback::read(&good, user.device.limits()).unwrap();
    user.send(&choice, &TracedFeedback { trace: huge, ..good }.to_bytes()).ok();
    user.settle(&mut rng);
    let reliable: Vec<bool> =
        (0..8).map(|_| user.decide(&random_rows(&mut rng), &mut rng).reliable).collect();
    let spoilt = reliable.iter().take_while(|reliable| !**reliable).count();
    // The control: the first one is spoilt.
    assert!((1..=4).contains(&spoilt) && reliable[spoilt..].iter().all(|reliable| *reliable), "{reliable:?}");
    // Batches go on.
    let before = user.status().batches;
    for _ in 0..=traced().unanswered {
        let rows = random_rows(&mut rng);
        let choice = user.decide(&rows, &mut rng);
        user.feedback(&rows, &choice, &mut rng);
    }
    user.settle(&mut rng);
    assert!(user.status().batches > before);
}

/// Configurations that cannot work are refused with the reason.
#[test]
fn trace_conditions_that_cannot_work_are_refused() {
    let server = InProcess::start(Settings::default());
    let refused = |config: &BanditConfig, why: &str| {
        let problem = server.device().post("/bandits", &serde_json::to_vec(config).unwrap()).problem();
        assert!(problem.detail.contains(why), "{}", problem.detail);
    };
    refused(
        &BanditConfig { answers: Answers::Scores, open_model: true, ..traced() },
        "no circuit compares the trace",
    );
    refused(&BanditConfig { unanswered: 64, ..traced() }, "the trace can reach");
    let mut other = traced();
    other.linear.schedule = Schedule::Trace;
    refused(&other, "linear.schedule");
    other.linear.schedule = Schedule::TraceOrGrowth;
    other.linear.c = 0.5;
    refused(&other, "eta");
}
