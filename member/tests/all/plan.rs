//! What `helba-keygen plan --committee` says of a committee, against what it does.

use crate::committee::rng;
use crate::rounds::{World, ledger_at, rows};
use ckks::Security;
use protocol::budget::Budget;

/// Bytes of a decision, a feedback and the file of a member are those that are planned, and a member answers
/// as much.
#[test]
fn a_committee_costs_what_is_planned() {
    let cost = planner::committee((2, 2, 100), (2, 3), Security::None).unwrap();
    let mut world = World::start(2, 3, 2, 2);
    let keys = &world.members[&1];
    assert_eq!(keys.budget(cost.nats), cost.of_a_member);
    let path = world.folder.path().join("keys");
    keys.save(&path, None, &mut rng(1)).unwrap();
    // Beside the secrets the file has a header, the manifest and a digest.
    let manifest = serde_json::to_vec(keys.manifest()).unwrap().len() as u64;
    assert_eq!(path.metadata().unwrap().len(), cost.member_keys + manifest + 15 + 32);

    (1..=2).for_each(|member| world.join(member));
    let (_, device) = world.create(2, 2);
    let (rows, mut draws) = (rows(1, 2, 2), rng(3));
    let round = device.decide(&world.client, &rows, &mut draws).unwrap();
    assert_eq!(round.sent as u64, cost.contexts);
    // Numbers of rounds and users are one byte or more.
    assert!((round.received as u64).abs_diff(cost.answer) <= 16, "{} for {}", round.received, cost.answer);
    let arm = round.choice.arm;
    let feedback = device.feedback(round.choice.id, arm, &rows[arm], 0.5, None, &mut draws).unwrap();
    assert_eq!(feedback.len() as u64, cost.feedback);

    // Three decisions of a request have four places, all of which are raised, and count.
    let three = [&rows[..]; 3];
    assert_eq!(device.decide_several(&world.client, &three, &mut draws).unwrap().choice.len(), 3);
    (1..=2).for_each(|member| world.leave(member));
    let spent = ledger_at(&world.ledger(1)).tell().unwrap().spent;
    assert_eq!(spent, Budget { decisions: 1 + 4, models: 0 });
}
