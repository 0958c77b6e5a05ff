//! Feedback that its user takes back.

use crate::fixture::*;
use crate::users::*;
use helba_server::Settings;
use protocol::{Answers, BanditConfig, Erasure};

/// An erasure is durable, counts once, and passes an audit; what was not counted is not erased.
#[test]
fn a_feedback_is_erased_once() {
    erased_once(&every_round(Answers::Arm));
}

/// The same where it is subtracted from the sum that it is in, which has a weight below 1.
#[test]
fn a_feedback_with_a_weight_is_erased_once() {
    erased_once(&BanditConfig { discount: Some(0.9), ..every_round(Answers::Arm) });
}

fn erased_once(config: &BanditConfig) {
    let settings = Settings { keep_log: true, ..Settings::default() };
    let server = InProcess::start(settings.clone());
    let user = User::create_with(server.device(), config);
    let (mut rng, history) = (rng(4), History::default());
    let first = user.round(&history, &mut rng);
    user.settle(&mut rng);
    let rows = random_rows(&mut rng);
    let choice = user.decide(&rows, &mut rng);
    let path = |decision: &str| user.path(&format!("/decisions/{decision}/feedback"));
    let refused = |path: &str, status: u16, reason: &str| {
        let problem = user.http.delete(path).problem();
        assert_eq!((problem.status, problem.reason.as_deref()), (status, Some(reason)), "{path}");
    };
    // Its feedback has not come.
    refused(&path(&choice.id.to_string()), 404, "unknown_decision");
    refused(&path(&"0".repeat(32)), 404, "unknown_decision");
    user.feedback(&rows, &choice, &mut rng);
    user.settle(&mut rng);
    let erase = |path: &str| -> Erasure { serde_json::from_slice(&user.http.delete(path).ok()).unwrap() };
    let receipt = erase(&path(&first.decision));
    assert_eq!((&receipt.decision, receipt.batches), (&first.decision, 2));
    let before = replay(server.folder.path(), user.id(), "snapshot");
    assert_eq!(erase(&path(&first.decision)), receipt);
    let after = replay(server.folder.path(), user.id(), "snapshot");
    assert!(before.head == after.head && before.bytes == after.bytes, "a second erasure changes nothing");
    assert_eq!(user.client.erase_feedback(user.id(), first.decision.parse().unwrap()).unwrap(), receipt);
    // Rounds go on, and a server that starts again knows of it.
    user.round(&history, &mut rng);
    user.settle(&mut rng);
    let server = server.restart_with(settings);
    let user = user.at(server.address);
    let again: Erasure = serde_json::from_slice(
        &user.http.delete(&user.path(&format!("/decisions/{}/feedback", first.decision))).ok(),
    )
    .unwrap();
    assert_eq!((again.decision, again.code), (receipt.decision, receipt.code));
    let whole = replay(server.folder.path(), user.id(), "genesis");
    let last = replay(server.folder.path(), user.id(), "snapshot");
    assert!(whole.head == last.head && whole.bytes == last.bytes, "the log gives the state");
}

/// While a holder of the key keeps a batch waiting, feedbacks and erasures fill the sum behind it, and no
/// more. With long contexts that is soon.
#[test]
fn attack_a_sum_that_waits_takes_no_more_than_its_masks_hide() {
    let server = InProcess::start(Settings { keep_log: true, ..Settings::default() });
    let mut config = every_round(Answers::Scores);
    (config.linear.l, config.linear.lambda) = (100.0, 1e4);
    let most = config.most_summed();
    assert_eq!(most, 26);
    let user = User::create_with(server.device(), &config);
    let mut rng = rng(9);
    let mut counts = || {
        let rows = random_rows(&mut rng);
        let choice = user.device.decide(&user.client, &rows, &mut rng).unwrap().choice;
        let x = &rows[choice.arm];
        let frame = user.device.feedback(choice.arm, x, reward(x), choice.question.as_ref(), &mut rng);
        (choice.id, user.send(&choice, &frame.unwrap()))
    };
    // The first ends its batch, which waits.
    let first = counts();
    first.1.ok();
    let erase = |id| user.http.delete(&user.path(&format!("/decisions/{id}/feedback")));
    erase(first.0).ok();
    let counted: Vec<_> = (0..most - 1).map(|_| counts()).collect();
    let last = counted.last().unwrap().0;
    counted.into_iter().for_each(|(_, answer)| drop(answer.ok()));
    for refused in [counts().1, erase(last)] {
        let problem = refused.problem();
        assert_eq!(
            (problem.status, problem.reason.as_deref()),
            (503, Some("overloaded")),
            "{}",
            problem.detail
        );
    }
    user.settle(&mut self::rng(10));
    erase(last).ok();
}
