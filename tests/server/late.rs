//! Feedback that comes late, in any order, or never: of every policy that the server offers.

use crate::clear::*;
use crate::fixture::{Device, InProcess};
use bandit::distributed::Model;
use helba_server::{Clock, Settings};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::{ClearFeedback, Decided, FeedbackKind, LateRule, PolicyCard, PolicyCreated};

const THREADS: u64 = 8;
const DECISIONS: u64 = 6;

fn settings(clock: &Clock) -> Settings {
    Settings { max_bandits: 200, clock: clock.clone(), ..Settings::default() }
}

fn size(created: &PolicyCreated, key: &str) -> usize {
    created.parameters.get(key).and_then(Value::as_u64).unwrap_or(1) as usize
}

fn ask(device: &Device, card: &PolicyCard, created: &PolicyCreated, rng: &mut ChaCha20Rng) -> Decided {
    let context = card.contextual.then(|| contexts(size(created, "features"), size(created, "arms"), rng));
    decided(device, &created.id, context.as_ref())
}

/// What the user of a decision sends; `None` if nothing is asked.
fn reply(card: &PolicyCard, decided: &Decided, rng: &mut ChaCha20Rng) -> Option<ClearFeedback> {
    let asked = match card.feedback {
        FeedbackKind::Batch => return None,
        FeedbackKind::Share => Some(decided.awaited.as_ref()?.batch),
        _ => None,
    };
    let mut own = ChaCha20Rng::seed_from_u64(decided.round);
    let share = |reward| {
        let mechanism = elimination(Model::Local, 1).mechanism(asked.unwrap()).unwrap();
        mechanism.randomise(reward, &mut own).unwrap()
    };
    Some(outcome(card.feedback, decided.arm.unwrap(), share, rng))
}

/// Eight threads decide at once, and any of them sends the rewards of any, in any order, up to a minute late.
/// Every decision is made and open, no request is refused, and every reward is counted once.
#[test]
fn eight_threads_and_late_rewards() {
    let clock = Clock::default();
    let server = InProcess::start(settings(&clock));
    for card in &cards(&server.device())[1..] {
        let (created, name) = (create(&server.device(), &card.example), &card.policy);
        let (waiting, sent) = (Mutex::new(Vec::new()), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (server, created, waiting, sent, clock) = (&server, &created, &waiting, &sent, &clock);
                scope.spawn(move || {
                    let (device, mut rng) = (server.device(), ChaCha20Rng::seed_from_u64(thread));
                    let mut send = |open: usize| {
                        loop {
                            let next = {
                                let mut waiting = waiting.lock().unwrap();
                                if waiting.len() <= open {
                                    return;
                                }
                                let at = rng.random_range(0..waiting.len());
                                waiting.swap_remove(at)
                            };
                            let (decision, body): (String, ClearFeedback) = next;
                            feedback(&device, &created.id, &decision, &body).ok();
                            sent.fetch_add(1, Ordering::Relaxed);
                        }
                    };
                    let mut rng = ChaCha20Rng::seed_from_u64(100 + thread);
                    for _ in 0..DECISIONS {
                        let decided = ask(&device, card, created, &mut rng);
                        clock.advance(1);
                        if let Some(body) = reply(card, &decided, &mut rng) {
                            waiting.lock().unwrap().push((decided.decision, body));
                        }
                        send(20);
                    }
                    send(0);
                });
            }
        });
        let view = view(&server.device(), &created.id);
        assert_eq!(view.round, THREADS * DECISIONS, "{name}");
        assert_eq!(view.feedbacks, sent.load(Ordering::Relaxed), "{name}");
        assert_eq!((view.pending_decisions, view.defaulted, view.left_out), (0, 0, 0), "{name}");
        match card.feedback {
            FeedbackKind::Batch => assert_eq!(view.feedbacks, 0),
            FeedbackKind::Share => assert!(view.feedbacks >= 2),
            _ => assert_eq!(view.feedbacks, THREADS * DECISIONS, "{name}"),
        }
        // Rewards that come early wait only where the rule says so, or for an arm that is played later.
        assert!(view.waiting == 0 || !card.contextual, "{name}");
    }
}

/// Decisions without feedback expire after the wait time, through restarts: they count as the default reward
/// or are left out, as the rule of the policy says, and feedback that comes then is refused as expired.
#[test]
fn decisions_expire() {
    let clock = Clock::default();
    let mut server = InProcess::start(settings(&clock));
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut bandits = Vec::new();
    for card in cards(&server.device()).into_iter().skip(1) {
        let mut example = card.example.clone();
        if card.feedback != FeedbackKind::Batch {
            example["wait"] = 30.into();
        }
        let created = create(&server.device(), &example);
        assert_eq!(created.wait, (card.feedback != FeedbackKind::Batch).then_some(30));
        let made: Vec<_> = (0..2).map(|_| ask(&server.device(), &card, &created, &mut rng)).collect();
        bandits.push((card, created, made));
    }
    let plain = create(&server.device(), &json!({"policy": "ucb1", "arms": 2, "default_reward": 0.25}));
    assert_eq!((plain.wait, plain.default_reward, plain.max_open), (Some(600), Some(0.25), Some(1024)));
    let first = decided(&server.device(), &plain.id, None);
    clock.advance(30);
    server = server.restart_with(settings(&clock));
    let device = server.device();
    for (card, created, made) in &bandits {
        let (name, before) = (&card.policy, view(&device, &created.id));
        assert_eq!(before.pending_decisions, 0, "{name}");
        let Some(body) = reply(card, &made[0], &mut rng) else { continue };
        refused(feedback(&device, &created.id, &made[0].decision, &body), 410, "expired", &made[0].decision);
        ask(&device, card, created, &mut rng);
        refused(feedback(&device, &created.id, &made[1].decision, &body), 410, "expired", "30 s");
        let after = view(&device, &created.id);
        let kept = card.late.as_ref().unwrap().rule == LateRule::Queue && created.privacy.spent.is_some();
        assert_eq!((after.defaulted, after.left_out), if kept { (2, 0) } else { (0, 2) }, "{name}");
        assert_eq!((after.feedbacks, after.round, after.pending_decisions), (0, 3, 1), "{name}");
    }
    assert_eq!(view(&device, &plain.id).pending_decisions, 1);
    clock.advance(600);
    decided(&device, &plain.id, None);
    server = server.restart_with(settings(&clock));
    let device = server.device();
    let reward = json!({"reward": 1});
    refused(feedback(&device, &plain.id, &first.decision, &reward), 410, "expired", "600 s");
    let after = view(&device, &plain.id);
    assert_eq!((after.defaulted, after.left_out, after.waiting), (1, 0, 0));
}

/// As many decisions as are kept: one more is refused with the seconds after which it can be made, and is
/// made then.
#[test]
fn as_many_decisions_as_are_kept() {
    let clock = Clock::default();
    let server = InProcess::start(settings(&clock));
    let device = server.device();
    let id =
        create(&device, &json!({"policy": "hybrid-ucb", "arms": 2, "epsilon": 1, "max_open": 3, "wait": 50}))
            .id;
    for _ in 0..3 {
        decided(&device, &id, None);
        clock.advance(1);
    }
    let full = decide(&device, &id, None);
    let problem = full.problem();
    assert_eq!((problem.status, problem.reason.as_deref()), (429, Some("too_many_open")));
    assert!(
        problem.detail.contains("3 decisions wait") && problem.detail.contains("after 4"),
        "{}",
        problem.detail
    );
    clock.advance(50);
    decided(&device, &id, None);
}
