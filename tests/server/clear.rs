//! Policies in the clear: every one plays, counts once, refuses with the name of what is wrong, and goes on
//! after a kill.

use crate::fixture::*;
use crate::users::encrypted;
use bandit::distributed::{EliminationConfig, Model};
use bandit::stochastic::Ucb1;
use bandit::{Features, Policy};
use helba_server::Settings;
use privacy::Ratio;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde_json::{Value, json};
use std::collections::HashMap;
use tempfile::TempDir;
use wire::{ClearFeedback, Counted, Decided, FeedbackKind, PolicyCard, PolicyCreated, PolicyView, Spent};

pub(crate) const MEANS: [f64; 5] = [0.9, 0.5, 0.4, 0.3, 0.1];

pub(crate) fn create(device: &Device, request: &Value) -> PolicyCreated {
    serde_json::from_slice(&device.post("/bandits", request.to_string().as_bytes()).ok()).unwrap()
}

pub(crate) fn decide(device: &Device, id: &str, contexts: Option<&Features>) -> Answer {
    let rows = contexts.map(|f| f.rows().map(<[f64]>::to_vec).collect::<Vec<_>>());
    let body = rows.map(|rows| json!({"contexts": rows}).to_string()).unwrap_or_default();
    device.post(&format!("/bandits/{id}/decisions"), body.as_bytes())
}

pub(crate) fn decided(device: &Device, id: &str, contexts: Option<&Features>) -> Decided {
    serde_json::from_slice(&decide(device, id, contexts).ok()).unwrap()
}

pub(crate) fn feedback(device: &Device, id: &str, decision: &str, body: &impl serde::Serialize) -> Answer {
    let body = serde_json::to_vec(body).unwrap();
    device.post(&format!("/bandits/{id}/decisions/{decision}/feedback"), &body)
}

pub(crate) fn shuffled(device: &Device, id: &str, body: &Value) -> Answer {
    device.post(&format!("/bandits/{id}/shuffled"), body.to_string().as_bytes())
}

pub(crate) fn view(device: &Device, id: &str) -> PolicyView {
    serde_json::from_slice(&device.get(&format!("/bandits/{id}")).ok()).unwrap()
}

#[track_caller]
pub(crate) fn refused(answer: Answer, status: u16, reason: &str, named: &str) {
    let problem = answer.problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (status, Some(reason)), "{}", problem.detail);
    assert!(problem.detail.contains(named), "`{named}` is not in: {}", problem.detail);
}

pub(crate) fn contexts(d: usize, k: usize, rng: &mut ChaCha20Rng) -> Features {
    let scale = (d as f64).sqrt();
    Features::new((0..d * k).map(|_| rng.random::<f64>() / scale).collect(), d).unwrap()
}

/// What comes of playing `arm`, in the form that the policy takes.
pub(crate) fn outcome(
    kind: FeedbackKind,
    arm: usize,
    share: impl FnOnce(f64) -> u64,
    rng: &mut ChaCha20Rng,
) -> ClearFeedback {
    let rewards = MEANS.map(|mean| f64::from(rng.random::<f64>() < mean));
    let none = ClearFeedback::default();
    match kind {
        FeedbackKind::Reward => ClearFeedback { reward: Some(rewards[arm]), ..none },
        FeedbackKind::Rewards => ClearFeedback { rewards: Some(rewards.to_vec()), ..none },
        FeedbackKind::Sum => ClearFeedback { sum: Some(2.0 * rewards[arm]), ..none },
        FeedbackKind::Share => ClearFeedback { share: Some(share(rewards[arm])), ..none },
        other => panic!("{other:?} is no feedback"),
    }
}

pub(crate) fn elimination(model: Model, epsilon: u64) -> EliminationConfig {
    let epsilon = Ratio::integer(epsilon);
    EliminationConfig { confidence: 0.1, ..EliminationConfig::new(5, 100_000, model, epsilon) }
}

pub(crate) fn cards(device: &Device) -> Vec<PolicyCard> {
    serde_json::from_slice(&device.get("/policies").ok()).unwrap()
}

/// The example of every policy is accepted, plays, and states what it promises and has spent, at each step.
#[test]
fn every_policy_plays() {
    let server = InProcess::start(Settings { max_bandits: 200, ..Settings::default() });
    let (device, mut rng) = (server.device(), ChaCha20Rng::seed_from_u64(1));
    let cards = cards(&device);
    assert_eq!(cards[0].policy, "helba");
    for card in &cards[1..] {
        let created = create(&device, &card.example);
        let name = &card.policy;
        assert_eq!(created.policy, *name);
        let mut echoed = created.parameters.clone();
        echoed.insert("policy".into(), name.as_str().into());
        assert_eq!(Value::Object(echoed), card.example, "{name}");
        for (parameter, default) in &card.defaults {
            let mut less = card.example.clone();
            less.as_object_mut().unwrap().remove(parameter);
            assert_eq!(create(&device, &less).parameters[parameter], *default, "{name}: {parameter}");
        }
        let late = card.late.as_ref().unwrap();
        assert!(late.why.ends_with('.') && late.after_wait.ends_with('.'), "{name}");
        let statement = &created.privacy.statement;
        assert!(!statement.sentence.is_empty());
        let spent = |epsilon, delta| statement.epsilon.map(|_| Spent { epsilon, delta });
        assert_eq!(created.privacy.spent, spent(0.0, 0.0), "{name}");
        let size = |key: &str| created.parameters.get(key).and_then(Value::as_u64).unwrap_or(1) as usize;
        let mechanism = elimination(Model::Local, 1).mechanism(1).unwrap();
        for round in 1..=6 {
            let context = card.contextual.then(|| contexts(size("features"), size("arms"), &mut rng));
            let decided = decided(&device, &created.id, context.as_ref());
            assert_eq!((decided.round, &decided.privacy.statement), (round, statement), "{name}");
            if card.feedback == FeedbackKind::Batch {
                refused(
                    feedback(&device, &created.id, &decided.decision, &json!({"reward": 1})),
                    409,
                    "takes_batches",
                    "shuffled",
                );
                assert!(decided.awaited.is_some());
                continue;
            }
            if round > 2 && card.feedback == FeedbackKind::Share {
                continue; // its first batch is over
            }
            let arm = decided.arm.unwrap();
            let share = |reward| mechanism.randomise(reward, &mut ChaCha20Rng::seed_from_u64(round)).unwrap();
            let outcome = outcome(card.feedback, arm, share, &mut rng);
            let counted: Counted =
                serde_json::from_slice(&feedback(&device, &created.id, &decided.decision, &outcome).ok())
                    .unwrap();
            assert_eq!(counted.feedbacks, round, "{name}");
            let all = statement.epsilon.map_or(0.0, |e| e.get());
            assert_eq!(counted.privacy.spent, spent(all, statement.delta.get()), "{name}");
            let view = view(&device, &created.id);
            assert_eq!(view.created.privacy, counted.privacy);
            // What is shown by arm has a number for each of them.
            let lengths = [view.learnt.pulls.map(|v| v.len()), view.learnt.means.map(|v| v.len())];
            assert!(lengths.into_iter().flatten().all(|n| n as u64 == created.parameters["arms"]), "{name}");
        }
    }
    let listed: Vec<Value> = serde_json::from_slice(&device.get("/bandits").ok()).unwrap();
    assert!(listed.len() > cards.len() && listed.iter().all(|b| b["privacy"]["statement"].is_object()));
}

/// HELBA may be named, and is meant where nothing is.
#[test]
fn helba_is_the_default() {
    let server = InProcess::start(Settings::default());
    let device = server.device();
    let config = encrypted(protocol::Answers::Arm);
    let plain = device.create(&config);
    let mut request = serde_json::to_value(&config).unwrap();
    request["policy"] = "helba".into();
    let named: wire::Created =
        serde_json::from_slice(&device.post("/bandits", request.to_string().as_bytes()).ok()).unwrap();
    assert_eq!((plain.config, plain.plan), (named.config, named.plan));
    refused(shuffled(&device, &named.id, &json!({})), 409, "takes_feedback", &named.id);
}

#[test]
fn creations_that_are_refused() {
    let server = InProcess::start(Settings::default());
    let device = server.device();
    let cases = [
        (json!({"policy": "anytime-lazy-ucb", "arms": 5}), "epsilon"),
        (json!({"policy": "anytime-lazy-ucb", "arms": 5, "epsilon": 0}), "epsilon"),
        (json!({"policy": "anytime-lazy-ucb", "arms": 5, "epsilon": "1"}), "epsilon"),
        (json!({"policy": "anytime-lazy-ucb", "arms": 0, "epsilon": 1}), "arms"),
        (json!({"policy": "anytime-lazy-ucb", "arms": -1, "epsilon": 1}), "arms"),
        (json!({"policy": "anytime-lazy-ucb", "arms": 1e18 as u64, "epsilon": 1}), "arms"),
        (json!({"policy": "anytime-lazy-ucb", "arms": 5, "epsilon": 1, "surprise": 1}), "surprise"),
        (json!({"policy": "no-such", "arms": 5}), "no-such"),
        (json!({"policy": 7}), "policy"),
        (json!({"policy": ""}), "policy: `` is none of"),
        (json!({"arms": 5, "policy": "ucb2"}), "policy: `ucb2` is none of those that GET /v1/policies lists"),
        (json!({"policy": "ucb1"}), "arms: missing, ucb1 needs it"),
        (json!({"policy": "ucb1", "arms": 2.5}), "a whole number"),
        (json!({"policy": "ars-clw", "arms": 5, "first": 0}), "first is 0"),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "pure", "delta": 1e-6}),
            "delta: only the models renyi",
        ),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "central", "scale": 7}),
            "scale: only the models renyi",
        ),
        (
            json!({"policy": "joint-glm", "arms": 4, "features": 64, "horizon": 100000, "epsilon": 1e-6, "delta": 1e-6,
            "gamma": 1, "beta": 1}),
            "epsilon is 0.000001, it must be larger",
        ),
        (json!({"policy": "dp-se", "arms": 5, "epsilon": 1, "beta": 1}), "beta"),
        (json!({"policy": "dp-se", "arms": 5, "epsilon": 1e-30, "beta": 0.1}), "epsilon"),
        (json!({"policy": "hybrid-ucb", "arms": 5, "epsilon": 1e30}), "epsilon"),
        (json!({"policy": "follow-the-noisy-leader", "arms": 5, "epsilon": 1e-300}), "epsilon"),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 1_000_000, "epsilon": 1, "model": "central"}),
            "horizon",
        ),
        (json!({"policy": "oful", "arms": 4, "features": 7, "lambda": 5e-324}), "parameters"),
        (
            json!({"policy": "gloc", "arms": 4, "features": 5, "horizon": 1000, "delta": 0.1, "kappa": 5e-324}),
            "parameters",
        ),
        (
            json!({"policy": "joint-glm", "arms": 4, "features": 5, "horizon": 1000, "epsilon": 1e-9, "delta": 0.01,
            "gamma": 1, "beta": 1}),
            "epsilon",
        ),
        (
            json!({"policy": "shuffle-glm", "arms": 4, "features": 5, "batches": [9], "epsilon": 0.01, "delta": 0.01,
            "gamma": 1, "steps": 3}),
            "epsilon",
        ),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "trust-me"}),
            "model",
        ),
        (json!({"policy": "elimination", "arms": 5, "horizon": 0, "epsilon": 1, "model": "pure"}), "horizon"),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 0.1234567, "model": "pure"}),
            "epsilon",
        ),
        (json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "renyi"}), "delta"),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "shuffle"}),
            "delta: missing",
        ),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "shuffle", "delta": 0}),
            "delta",
        ),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "shuffle", "delta": 1e-9,
                "scale": 2}),
            "scale: only the models renyi",
        ),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "pure", "growth": 1}),
            "growth",
        ),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "pure", "confidence": 1}),
            "confidence",
        ),
        (
            json!({"policy": "ars-ucb", "arms": 5, "round_size": {"power": {"factor": 0, "exponent": 2}}}),
            "factor",
        ),
        (json!({"policy": "ars-exp3", "arms": 5, "horizon": u64::MAX}), "horizon"),
        (json!({"policy": "clw", "arms": 5, "horizon": 0, "interval": 3}), "horizon"),
        (json!({"policy": "clw", "arms": 5, "horizon": 9, "interval": 0}), "interval"),
        (json!({"policy": "odaaf", "arms": 5, "horizon": 9, "rule": {"mean": {"delay": -1}}}), "delay"),
        (json!({"policy": "oful", "arms": 4, "features": 0}), "features"),
        (json!({"policy": "oful", "arms": 4096, "features": 64}), "features"),
        (json!({"policy": "rs-glinucb", "arms": 4, "features": 5, "horizon": 1000, "delta": 1}), "delta"),
        (
            json!({"policy": "glm-ucb", "arms": 4, "features": 5, "horizon": 1_000_000, "delta": 0.1}),
            "horizon",
        ),
        (
            json!({"policy": "glm-ucb", "arms": 4, "features": 5, "horizon": 1000, "delta": 0.1, "refit_every": 0}),
            "refit_every",
        ),
        (json!({"policy": "gloc", "arms": 4, "features": 5, "horizon": 1000, "delta": 0.1, "s": -1}), "s is"),
        (
            json!({"policy": "ecolog", "arms": 4, "features": 5, "horizon": 1000, "delta": 0.1, "link": "probit"}),
            "link",
        ),
        (
            json!({"policy": "joint-glm", "arms": 4, "features": 5, "horizon": 1000, "epsilon": 1, "delta": 0,
            "gamma": 1, "beta": 1}),
            "delta",
        ),
        (
            json!({"policy": "joint-glm", "arms": 4, "features": 5, "horizon": 1000, "epsilon": 1, "delta": 0.01,
            "gamma": 1, "beta": -1}),
            "beta",
        ),
        (
            json!({"policy": "shuffle-glm", "arms": 4, "features": 5, "batches": [], "epsilon": 1, "delta": 0.01,
            "gamma": 1, "steps": 3}),
            "batches",
        ),
        (
            json!({"policy": "shuffle-glm", "arms": 4, "features": 5, "batches": [9, 0], "epsilon": 1, "delta": 0.01,
            "gamma": 1, "steps": 3}),
            "batches",
        ),
        (
            json!({"policy": "shuffle-glm", "arms": 4, "features": 5, "batches": [9], "epsilon": 1, "delta": 0.01,
            "gamma": 1, "steps": 100000}),
            "steps",
        ),
        (
            json!({"policy": "shuffle-glm", "arms": 4, "features": 5, "batches": [9], "epsilon": 1, "delta": 1e-308,
            "gamma": 1, "steps": 3}),
            "delta",
        ),
        (
            json!({"policy": "shuffle-glm", "arms": 4, "features": 5, "batches": [9], "epsilon": 1, "delta": 0.99,
            "gamma": 1, "steps": 3}),
            "delta is 0.99, it must be at most 0.01",
        ),
        (
            json!({"policy": "joint-glm", "arms": 4, "features": 5, "horizon": 1000, "epsilon": 1, "delta": 0.99,
            "gamma": 1, "beta": 1}),
            "delta is 0.99, it must be at most 0.01",
        ),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "renyi", "delta": 0.99}),
            "delta is 0.99, it must be at most 0.01",
        ),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "pure", "colluding": 1.5}),
            "colluding",
        ),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "pure", "growth": 1u64 << 20}),
            "growth",
        ),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "pure", "growth": 1u64 << 60}),
            "growth",
        ),
        (json!({"policy": "ucb1", "arms": 5, "wait": 0}), "wait is 0, it must be from 1 to 2592000 seconds"),
        (json!({"policy": "ucb1", "arms": 5, "wait": 2.5}), "wait is 2.5, it must be a whole number"),
        (json!({"policy": "ucb1", "arms": 5, "default_reward": 1.5}), "default_reward is 1.5"),
        (json!({"policy": "ucb1", "arms": 5, "default_reward": "0"}), "default_reward is \"0\""),
        (json!({"policy": "ars-ucb", "arms": 5, "default_reward": -1}), "default_reward is -1.0"),
        (
            json!({"policy": "ucb1", "arms": 5, "max_open": 1025}),
            "max_open is 1025, it must be from 1 to 1024",
        ),
        (
            json!({"policy": "oful", "arms": 4, "features": 64, "max_open": 513}),
            "max_open is 513, it must be from 1 to 512",
        ),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "local", "default_reward": 0}),
            "default_reward: users of this policy add noise",
        ),
        (
            json!({"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "pure", "wait": 60}),
            "wait: users of this policy answer an intermediary",
        ),
    ];
    for (request, named) in cases {
        let problem = device.post("/bandits", request.to_string().as_bytes()).problem();
        assert_eq!((problem.status, problem.reason.as_deref()), (422, Some("bad_value")), "{request}");
        assert!(problem.detail.contains(named), "{request}: {}", problem.detail);
    }
    refused(device.post("/bandits", b"{\"policy\": \"ucb1\", "), 400, "bad_configuration", "EOF");
    let plain = br#"{"arms": 5, "epsilon": 1}"#;
    refused(
        device.post("/bandits", plain),
        400,
        "bad_configuration",
        "for a policy in the clear give `policy`",
    );
    let short = br#"{"features": 7, "arms": 4}"#;
    refused(
        device.post("/bandits", short),
        400,
        "bad_configuration",
        "is the agent's and the Python package's",
    );
    assert_eq!(device.get("/bandits").ok(), b"[]");
}

/// Bytes and values that are not a decision request, feedback or batch: refused by name, and nothing has
/// changed.
#[test]
fn messages_that_are_refused() {
    let server = InProcess::start(Settings::default());
    let device = server.device();
    let make = |request: Value| create(&device, &request).id;
    let plain = make(json!({"policy": "anytime-lazy-ucb", "arms": 3, "epsilon": 1}));
    let full = make(json!({"policy": "follow-the-noisy-leader", "arms": 3, "epsilon": 1}));
    let mixed = make(json!({"policy": "ars-ucb", "arms": 3}));
    let local =
        make(json!({"policy": "elimination", "model": "local", "arms": 3, "horizon": 99, "epsilon": 1}));
    let sums =
        make(json!({"policy": "elimination", "model": "pure", "arms": 3, "horizon": 99, "epsilon": 1}));
    let linear = make(json!({"policy": "oful", "arms": 2, "features": 2}));
    let glm = make(json!({"policy": "shuffle-glm", "arms": 4, "features": 2, "batches": [9], "epsilon": 1,
        "delta": 0.01, "gamma": 1, "steps": 3}));
    let context = Features::new(vec![0.5; 4], 2).unwrap();
    let d = [&plain, &full, &mixed, &local].map(|id| (id, decided(&device, id, None).decision));
    let with = decided(&device, &linear, Some(&context)).decision;
    let all = [&plain, &full, &mixed, &local, &sums, &linear, &glm];
    let path = |id: &str| format!("/bandits/{id}/decisions");
    // Rows of length 1 in single precision are longer than 1, and are taken.
    let single = [0.6f32, 0.8].map(f64::from);
    device.post(&path(&linear), json!({"contexts": [single, single]}).to_string().as_bytes()).ok();
    let before = all.map(|id| view(&device, id));

    for (body, status, reason, named) in [
        ("{", 400, "malformed", "EOF"),
        ("[]]", 400, "malformed", ""),
        (r#"{"contexts": "x"}"#, 400, "malformed", "contexts"),
        (r#"{"contexts": [[1, 2], [3, null]]}"#, 400, "malformed", "contexts[1][1]"),
        (r#"{"contexts": [[1, 2], [3, 1e999]]}"#, 400, "malformed", "contexts"),
        (r#"{"context": 1}"#, 400, "malformed", "context"),
        ("", 422, "bad_value", "contexts"),
        (r#"{"contexts": [[1, 2]]}"#, 422, "bad_value", "2 rows of 2"),
        (r#"{"contexts": [[1, 2], [3]]}"#, 422, "bad_value", "2 rows of 2"),
        (r#"{"contexts": [[1, 2], [3, 4]]}"#, 422, "bad_value", "norm"),
    ] {
        refused(device.post(&path(&linear), body.as_bytes()), status, reason, named);
    }
    refused(decide(&device, &plain, Some(&context)), 422, "bad_value", "contexts");
    refused(decide(&device, &glm, Some(&context)), 422, "bad_value", "devices choose");
    refused(decide(&device, &sums, Some(&context)), 422, "bad_value", "takes none");
    refused(device.post(&path(&plain), &[b' '; 9000]), 413, "too_large", "");
    refused(device.post(&path(&"0".repeat(32)), b""), 404, "unknown_bandit", "000");

    let [(_, plain_d), (_, full_d), (_, mixed_d), (_, local_d)] = &d;
    let number = |value: &str| format!("{{\"reward\": {value}}}");
    for (value, status) in
        [("1.5", 422), ("-0.1", 422), ("1e999", 400), ("\"1\"", 400), ("NaN", 400), ("[1]", 400)]
    {
        let answer = device.post(&format!("{}/{plain_d}/feedback", path(&plain)), number(value).as_bytes());
        refused(
            answer,
            status,
            if status == 400 { "malformed" } else { "bad_value" },
            if status == 422 { "reward" } else { "" },
        );
    }
    let reward = json!({"reward": 1});
    for (id, decision, body, named) in [
        (&plain, plain_d, json!({}), "reward: missing"),
        (&plain, plain_d, json!({"sum": 1}), "reward: missing"),
        (&plain, plain_d, json!({"reward": 1, "sum": 1}), "sum: this policy does not learn"),
        (&full, full_d, reward.clone(), "rewards: missing"),
        (&full, full_d, json!({"rewards": [1, 1]}), "2 rewards for 3 arms"),
        (&full, full_d, json!({"rewards": [1, 1, 2]}), "rewards[2] is 2, it must be in [0, 1]"),
        (&mixed, mixed_d, reward.clone(), "sum: missing"),
        (&mixed, mixed_d, json!({"sum": -1}), "sum is -1, it must be in [0, 1000000]"),
        (&mixed, mixed_d, json!({"sum": 1.7e308}), "it must be in [0, 1000000]"),
        (&local, local_d, reward.clone(), "share: missing"),
        (&local, local_d, json!({"share": u64::MAX}), "share is"),
        (&linear, &with, json!({"rewards": [1]}), "reward: missing"),
        (&linear, &with, json!({"reward": 1, "rewards": [1]}), "rewards: this policy does not learn"),
    ] {
        let answer = feedback(&device, id, decision, &body);
        let problem = answer.problem();
        assert_eq!(problem.status, 422, "{body}: {}", problem.detail);
        assert!(problem.detail.contains(named), "{body}: {}", problem.detail);
    }
    for decision in ["0".repeat(32), "x".into(), "..".into(), full_d.clone()] {
        let answer = feedback(&device, &plain, &decision, &reward);
        assert_eq!(answer.status, 404, "{decision}");
        answer.problem();
    }

    for (id, body, status, named) in [
        (&sums, json!({}), 400, "exchange"),
        (&sums, json!({"exchange": 1, "users": 2, "labels": [[-1]]}), 400, "labels[0][0]"),
        (&sums, json!({"exchange": 1, "users": 2, "labels": [[1]], "from": "me"}), 400, "from"),
        (&sums, json!({"exchange": 0, "users": 2, "labels": [[1]]}), 409, "exchange 0"),
        (&sums, json!({"exchange": 2, "users": 2, "labels": [[1]]}), 409, "exchange 2"),
        (&sums, json!({"exchange": 1, "users": 1, "labels": [[1]]}), 422, "1 shares of 2 users"),
        (&sums, json!({"exchange": 1, "users": 3, "labels": [[1]]}), 422, "3 shares of 2 users"),
        (&sums, json!({"exchange": 1, "users": 2, "labels": []}), 422, "labels"),
        (&sums, json!({"exchange": 1, "users": 2, "labels": [[1], [1]]}), 422, "labels"),
        (
            &glm,
            json!({"exchange": 1, "users": 9, "labels": [[1], [1]]}),
            422,
            "labels are 2, this exchange has 3",
        ),
        (&glm, json!({"exchange": 1, "users": 9, "labels": [[1], [1], [u64::MAX, u64::MAX]]}), 422, "ones"),
        (&plain, json!({"exchange": 1, "users": 2, "labels": [[1]]}), 409, "feedback"),
    ] {
        let problem = shuffled(&device, id, &body).problem();
        assert_eq!(problem.status, status, "{body}: {}", problem.detail);
        assert!(problem.detail.contains(named), "{body}: {}", problem.detail);
    }
    assert_eq!(all.map(|id| view(&device, id)), before);
    // And all of it still works.
    feedback(&device, &plain, plain_d, &reward).ok();
    feedback(&device, &full, full_d, &json!({"rewards": [1, 0, 1]})).ok();
    feedback(&device, &mixed, mixed_d, &json!({"sum": 3.5})).ok();
    feedback(&device, &local, local_d, &json!({"share": 1})).ok();
    feedback(&device, &linear, &with, &reward).ok();
    let batch =
        |labels: Value| shuffled(&device, &sums, &json!({"exchange": 1, "users": 2, "labels": labels}));
    let counted = batch(json!([[1, 2]])).ok();
    // Sent again: the same answer, however it is split up; another answer is refused, and changes nothing.
    let after = all.map(|id| view(&device, id));
    assert_eq!(batch(json!([[3]])).ok(), counted);
    refused(batch(json!([[1, 1]])), 409, "answered", "exchange 1");
    feedback(&device, &plain, plain_d, &json!({"reward": 1.0})).ok();
    refused(feedback(&device, &plain, plain_d, &json!({"reward": 0.5})), 409, "answered", plain_d);
    refused(feedback(&device, &full, full_d, &json!({"rewards": [1, 0, 0]})), 409, "answered", full_d);
    assert_eq!(all.map(|id| view(&device, id)), after);
}

/// Random scripts: decisions, answers in any order, replays, unknown ids and restarts, against UCB1 itself,
/// which plays in turn on the rewards of each arm, and a list of what was acknowledged. UCB1 draws nothing,
/// so that arms must be equal.
#[test]
fn scripts_against_a_model() {
    for seed in 0..4 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut server = InProcess::start(Settings::default());
        let id = create(&server.device(), &json!({"policy": "ucb1", "arms": 3})).id;
        let mut twin = Ucb1::new(3).unwrap();
        let mut given: Vec<(String, usize)> = Vec::new();
        // The reward of each decision that was answered, and whether the twin has learnt it.
        let mut answers: HashMap<String, (f64, Vec<u8>, bool)> = HashMap::new();
        for _ in 0..120 {
            let device = server.device();
            match rng.random_range(0..10) {
                0 => server = server.restart(),
                1..5 => {
                    let decided = decided(&device, &id, None);
                    assert_eq!(decided.round, given.len() as u64 + 1);
                    assert_eq!(decided.arm, Some(twin.decide(&(), &mut rng).unwrap()), "seed {seed}");
                    given.push((decided.decision, decided.arm.unwrap()));
                }
                _ if !given.is_empty() => {
                    let (decision, arm) = &given[rng.random_range(0..given.len())];
                    let reward = f64::from(rng.random::<f64>() < MEANS[*arm]);
                    let answer = feedback(&device, &id, decision, &json!({"reward": reward}));
                    match answers.get(decision) {
                        Some((first, before, _)) if *first == reward => {
                            assert_eq!(answer.ok(), *before, "a replay")
                        }
                        Some(_) => refused(answer, 409, "answered", decision),
                        None => drop(answers.insert(decision.clone(), (reward, answer.ok(), false))),
                    }
                    loop {
                        let arm = twin.decide(&(), &mut rng).unwrap();
                        let ready = |(decision, of): &&(String, usize)| {
                            *of == arm && answers.get(decision).is_some_and(|(.., learnt)| !learnt)
                        };
                        let Some((decision, _)) = given.iter().find(ready) else { break };
                        let (reward, _, learnt) = answers.get_mut(decision).unwrap();
                        twin.learn(&(), arm, reward, &mut rng).unwrap();
                        *learnt = true;
                    }
                }
                _ => refused(
                    feedback(&device, &id, &"a".repeat(32), &json!({"reward": 1})),
                    404,
                    "unknown_decision",
                    "a",
                ),
            }
            let view = view(&server.device(), &id);
            assert_eq!((view.round, view.feedbacks), (given.len() as u64, answers.len() as u64));
            assert_eq!(view.pending_decisions, given.len() - answers.len());
            assert_eq!(view.waiting, answers.values().filter(|(.., learnt)| !learnt).count() as u64);
        }
    }
}

/// OFUL takes late answers in any order, through restarts, and then plays what OFUL plays.
#[test]
fn late_feedback_where_the_policy_allows_it() {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let mut server = InProcess::start(Settings::default());
    let id = create(&server.device(), &json!({"policy": "oful", "arms": 3, "features": 2})).id;
    let mut waiting = Vec::new();
    for _ in 0..12 {
        let context = contexts(2, 3, &mut rng);
        let decided = decided(&server.device(), &id, Some(&context));
        waiting.push((decided.decision, decided.arm.unwrap(), context));
    }
    assert_eq!(view(&server.device(), &id).pending_decisions, 12);
    let linear = bandit::LinearConfig {
        d: 2,
        k: 3,
        l: 1.0,
        delta: 0.05,
        width: bandit::WidthShape::Tangent.width(0.5),
        ..bandit::LinearConfig::figure_1()
    };
    let mut twin = bandit::Oful::every_round(linear).unwrap();
    while !waiting.is_empty() {
        let (decision, arm, context) = waiting.swap_remove(rng.random_range(0..waiting.len()));
        let reward = context.row(arm).unwrap()[0];
        feedback(&server.device(), &id, &decision, &json!({"reward": reward})).ok();
        twin.learn(&context, arm, &reward, &mut rng).unwrap();
        if waiting.len() % 5 == 0 {
            server = server.restart();
        }
    }
    for _ in 0..20 {
        let context = contexts(2, 3, &mut rng);
        let arm = decided(&server.device(), &id, Some(&context)).arm.unwrap();
        assert_eq!(arm, twin.decide(&context, &mut rng).unwrap());
    }
}

/// A clear policy that has closed arms plays the best open one, and learns from it; others refuse them by
/// name.
#[test]
fn closed_arms_are_not_played() {
    let folder = TempDir::new().unwrap();
    let server = Program::start_without_keys(&folder.path().join("state"));
    let (device, mut rng) = (server.device(), ChaCha20Rng::seed_from_u64(8));
    let id = create(&device, &json!({"policy": "oful", "arms": 3, "features": 2})).id;
    let linear = bandit::LinearConfig {
        d: 2,
        k: 3,
        l: 1.0,
        delta: 0.05,
        width: bandit::WidthShape::Tangent.width(0.5),
        ..bandit::LinearConfig::figure_1()
    };
    let mut twin = bandit::Oful::every_round(linear).unwrap();
    let ask = |id: &str, rows: &[Option<Vec<f64>>]| {
        device.post(&format!("/bandits/{id}/decisions"), json!({"contexts": rows}).to_string().as_bytes())
    };
    for round in 0..30 {
        let context = contexts(2, 3, &mut rng);
        let open: Vec<bool> = (0..3).map(|arm| arm == round % 3 || rng.random_bool(0.5)).collect();
        let rows: Vec<Option<Vec<f64>>> =
            context.rows().zip(&open).map(|(x, open)| open.then(|| x.to_vec())).collect();
        let decided: Decided = serde_json::from_slice(&ask(&id, &rows).ok()).unwrap();
        let arm = decided.arm.unwrap();
        assert!(open[arm]);
        assert_eq!(arm, twin.decide_open(&context, &open, &mut rng).unwrap());
        // The best of all learns most, so that closed arms are ahead.
        let reward = context.row(arm).unwrap()[0];
        feedback(&device, &id, &decided.decision, &json!({"reward": reward})).ok();
        twin.learn(&context, arm, &reward, &mut rng).unwrap();
    }
    let rows = [Some(vec![0.1, 0.2]), None, Some(vec![0.2, 0.1])];
    refused(ask(&id, &[None, None, None]), 422, "bad_value", "all arms are closed");
    let empty = json!({"contexts": [[0.1, 0.2], [], [0.2, 0.1]]}).to_string();
    refused(
        device.post(&format!("/bandits/{id}/decisions"), empty.as_bytes()),
        400,
        "malformed",
        "row 2 is empty",
    );
    let other =
        create(&device, &json!({"policy": "gloc", "arms": 3, "features": 2, "horizon": 100, "delta": 0.1}))
            .id;
    refused(ask(&other, &rows), 422, "bad_value", "no closed arms");
}

/// Killed between any two requests, a policy with noise goes on with everything acknowledged.
#[test]
fn killed_between_requests() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let server = Program::start_without_keys(&state);
    let request = json!({"policy": "anytime-lazy-ucb", "arms": 2, "epsilon": 1.0});
    let created = create(&server.device(), &request);
    server.kill();
    let mut server = Program::start_without_keys(&state);
    assert_eq!(view(&server.device(), &created.id).created, created);
    for round in 1..=4 {
        let decided = decided(&server.device(), &created.id, None);
        server.kill();
        server = Program::start_without_keys(&state);
        let first = feedback(&server.device(), &created.id, &decided.decision, &json!({"reward": 0.5})).ok();
        server.kill();
        server = Program::start_without_keys(&state);
        let now = view(&server.device(), &created.id);
        assert_eq!((now.round, now.feedbacks, now.pending_decisions), (round, round, 0));
        assert_eq!(now.created.privacy.spent.unwrap().epsilon, 1.0);
        let again =
            |reward| feedback(&server.device(), &created.id, &decided.decision, &json!({"reward": reward}));
        assert_eq!(again(0.5).ok(), first, "the same answer");
        refused(again(0.7), 409, "answered", &decided.decision);
    }
}

/// Requests at once: each decision is answered for itself, each feedback counted once.
#[test]
fn requests_at_once() {
    let server = InProcess::start(Settings::default());
    let id = create(&server.device(), &json!({"policy": "oful", "arms": 2, "features": 2})).id;
    let context = Features::new(vec![0.6, 0.1, 0.1, 0.6], 2).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let device = server.device();
                for _ in 0..5 {
                    let decided = decided(&device, &id, Some(&context));
                    let reward = json!({"reward": 1.0});
                    let first = feedback(&device, &id, &decided.decision, &reward).ok();
                    assert_eq!(feedback(&device, &id, &decided.decision, &reward).ok(), first);
                }
            });
        }
    });
    let view = view(&server.device(), &id);
    assert_eq!((view.round, view.feedbacks, view.pending_decisions), (20, 20, 0));
}

/// The client's calls, one after the other.
#[test]
fn client_in_the_clear() {
    let server = InProcess::start(Settings::default());
    let client = user_client::Client::new(&format!("http://{}", server.address)).unwrap();
    assert!(client.policies().unwrap().iter().any(|card| card.policy == "dp-se"));
    let Value::Object(parameters) = json!({"arms": 2, "epsilon": 0.5}) else { unreachable!() };
    let created = client.create_policy("hybrid-ucb", parameters.clone()).unwrap();
    let decided = client.decide_clear(&created.id, None).unwrap();
    let feedback = ClearFeedback { reward: Some(1.0), ..ClearFeedback::default() };
    let counted = client.feedback_clear(&created.id, &decided.decision, &feedback).unwrap();
    assert_eq!((counted.feedbacks, counted.privacy.spent.unwrap().epsilon), (1, 0.5));
    assert_eq!(client.feedback_clear(&created.id, &decided.decision, &feedback).unwrap(), counted);
    assert_eq!(client.policy(&created.id).unwrap().feedbacks, 1);
    let batch = wire::ShuffledBatch { exchange: 1, users: 2, labels: vec![vec![0]] };
    let error = client.shuffled(&created.id, &batch).unwrap_err();
    assert!(matches!(&error, user_client::Error::Refused(p) if p.status == 409), "{error}");
    let error = client.create_policy("hybrid-ucd", parameters).unwrap_err();
    assert!(error.to_string().contains("hybrid-ucd"), "{error}");
}

/// Random bytes on every route of policies in the clear end in a problem document, or count as what they are.
#[test]
fn random_bytes() {
    let server = InProcess::start(Settings::default());
    let device = server.device();
    let mut rng = ChaCha20Rng::seed_from_u64(9);
    let id = create(&device, &json!({"policy": "ucb1", "arms": 2})).id;
    let decision = decided(&device, &id, None).decision;
    let before = view(&device, &id);
    for _ in 0..60 {
        let mut bytes = vec![0; rng.random_range(1..200)];
        rng.fill_bytes(&mut bytes);
        if rng.random() {
            bytes.splice(0..0, *b"{\"reward\":");
        }
        for path in ["decisions".into(), format!("decisions/{decision}/feedback"), "shuffled".into()] {
            let answer = device.post(&format!("/bandits/{id}/{path}"), &bytes);
            assert!((400..500).contains(&answer.status), "{}", answer.status);
            answer.problem();
        }
    }
    assert_eq!(view(&device, &id), before);
}
