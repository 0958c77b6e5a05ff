//! Packed rounds end to end: lone users, users who share an evaluation, and who raises for them.

use crate::fixture::*;
use crate::packed::*;
use helba_server::Settings;
use protocol::Answers;
use std::sync::atomic::{AtomicBool, Ordering};

/// The model learns what pays, up to noise and what few rounds show.
const LEARNT: f64 = 0.9;

fn start(answers: Answers) -> (InProcess, User) {
    let server = InProcess::start(Settings::default());
    let user = User::create(server.device(), answers);
    (server, user)
}

/// A device that is alone raises its own scores, and the sums and models of the bandit beside them. In the
/// open tier nothing is raised for a decision.
#[test]
fn a_lone_device_needs_nobody() {
    for answers in [Answers::Arm, Answers::Scores] {
        let (_server, user) = start(answers);
        let (history, mut rng) = (History::default(), rng(1));
        for round in 1..=14 {
            let receipt = user.round(&history, &mut rng);
            assert_eq!(receipt.feedbacks, round);
            if round % 4 == 0 {
                user.settle(&mut rng);
            }
        }
        let status = user.status();
        assert_eq!((status.round, status.feedbacks, status.pending_decisions), (14, 14, 0));
        assert!(status.refreshes >= 3 && status.model_feedbacks >= 8, "{status:?}");
        let learnt = history.check();
        assert!(learnt > LEARNT, "{answers:?}: {learnt}");
    }
}

/// Users on threads of their own share evaluations, which a raiser that waits for tasks raises.
#[test]
fn users_share_evaluations() {
    let (_server, user) = start(Answers::Arm);
    let (history, over) = (History::default(), AtomicBool::new(false));
    let (users, rounds) = (6, 5);
    let most = std::thread::scope(|scope| {
        let raiser = scope.spawn(|| user.raise_until(|| over.load(Ordering::Relaxed), &mut rng(2)));
        let (user, history) = (&user, &history);
        let decide = |seed| {
            move || {
                let (mut rng, mut most) = (rng(seed), 0);
                for _ in 0..rounds {
                    let rows = random_rows(&mut rng);
                    let choice = user.decide(&rows, &mut rng);
                    most = most.max(choice.users);
                    let receipt = user.feedback(&rows, &choice, &mut rng);
                    history.add(rows, choice, &receipt);
                }
                most
            }
        };
        let threads: Vec<_> = (10..10 + users).map(|seed| scope.spawn(decide(seed))).collect();
        let most = threads.into_iter().map(|thread| thread.join().unwrap()).max();
        over.store(true, Ordering::Relaxed);
        assert!(raiser.join().unwrap() > 0, "it raised");
        most
    });
    assert!(most > Some(1), "no evaluation was shared");
    assert_eq!(history.len() as u64, users * rounds);
    let status = user.status();
    assert_eq!(status.feedbacks, users * rounds);
    assert!(status.refreshes >= 2, "{status:?}");
    let learnt = history.check();
    assert!(learnt > LEARNT, "{learnt}");
}
