//! Late feedback: the rule of each policy, and why its privacy statement stays true.
//!
//! A service makes decisions for many users at once, and gets their rewards in another order, or never. It
//! learns by one of three rules, which [`Profile::late`] names.
//!
//! **Policies without contexts** run in turn underneath, and never notice that rewards are late: while the
//! policy waits for the reward of its arm, everybody plays that arm. The reward of the n-th decision on an
//! arm is entry n of that arm in a table, and the policy reads entry after entry. So the policy sees exactly
//! the run that it would see in turn on this table, whenever rewards come, and one person is one entry. A
//! guarantee "for one round's rewards" is therefore that of one person, and time decides only how far the run
//! has come. Under [`LateRule::Queue`] entry n is the n-th decision. Under [`LateRule::AnyOrder`] it is the
//! n-th reward to arrive, which is sufficient for sums without privacy. With privacy it is not: a person
//! whose reward comes late, because of its value, would move all later ones by an entry, and so change every
//! later sum.
//!
//! With full information a decision is an entry of one list, whatever its arm.
//!
//! **Contextual policies** learn the row of each decision: its own context, arm and reward.
//!
//! **Batches of users who add noise** wait for as many answers as their noise is sized for.
//!
//! Source of the turns: Joulani, Gyorgy, Szepesvari, "Online Learning under Delayed Feedback", 2013, QPM-D:
//! the regret is that of the policy in turn plus, for each arm, its gap times the largest number of its
//! rewards that were outstanding at once. Departures: the order of decisions under [`LateRule::Queue`], where
//! it is the number of decisions made on the arm while one was open; bounds on what waits.
//! `docs/late-feedback.md` has the proofs.

use crate::{Error, Profile};
use wire::{FeedbackKind, LateFeedback, LateRule};

/// The rule of the policy `name`, in words.
pub(crate) fn stated(name: &str, profile: &Profile) -> Result<LateFeedback, Error> {
    let why = match (name, profile.late, profile.feedback) {
        ("anytime-lazy-ucb", ..) => {
            "Each array takes the rewards of its decisions and is released once: a person is in one array, whenever \
             the reward comes."
        }
        ("hybrid-ucb", ..) => {
            "The trees of an arm take its rewards in the order of decisions: a person is one leaf, whenever the reward \
             comes."
        }
        ("dp-se", ..) => {
            "Each epoch takes the rewards of its decisions and is released once: a person is in one epoch, whenever \
             the reward comes."
        }
        ("ucb1", ..) => "The estimate of an arm is a sum; there is no guarantee that an order could break.",
        ("follow-the-noisy-leader", ..) => {
            "Each epoch takes the rewards of its decisions and names one leader: a person is in one epoch, whenever \
             the rewards come."
        }
        ("follow-the-leader", ..) => "The sums of an epoch have no order, and there is no guarantee.",
        ("elimination", LateRule::Queue, _) => {
            "Each batch takes the rewards of its decisions, and its sum is released once: a person is in one batch, \
             whenever the reward comes."
        }
        ("elimination", _, FeedbackKind::Share) => {
            "A batch waits for its shares, which are private by themselves; further users play its arm and send \
             nothing."
        }
        ("elimination" | "shuffle-glm", ..) => {
            "Users answer an intermediary, which waits for as many as their noise is sized for; others play by what is \
             published."
        }
        ("ars-ucb" | "odaaf", ..) => "The estimate of an arm is the sum over its slots, which has no order.",
        ("ars-exp3", ..) => "A round waits for as many slots of its arm as it has, whose sum has no order.",
        ("ars-clw" | "clw", ..) => {
            "An update sums the last slots before it, so that slots are learnt as they were played."
        }
        ("oful" | "glm-ucb", ..) => "The estimate is a function of the set of rows, in any order.",
        ("gloc" | "ecolog", ..) => {
            "The confidence sets hold for rows in the order in which they are learnt, unless that order depends on the \
             rewards."
        }
        ("rs-glinucb", ..) => {
            "A row belongs to the data set that its decision chose, whose estimate is a function of the set of rows."
        }
        ("joint-glm", ..) => {
            "The tree takes one leaf for each decision, in their order: a person is one leaf and one row, whenever the \
             reward comes."
        }
        _ => return Err(Error::Broken("a policy without a rule for late feedback")),
    };
    let missing = match profile.late {
        LateRule::Batch if profile.feedback == FeedbackKind::Share => {
            "Its place in the batch goes to another user. A default reward is refused, since users add the noise."
        }
        LateRule::Batch => {
            return Ok(LateFeedback {
                rule: profile.late,
                why: why.into(),
                after_wait:
                    "No decision waits at the server, which refuses a wait time and a default reward: the \
                             intermediary says when a batch is closed."
                        .into(),
            });
        }
        _ if profile.keeps_places() => {
            "It counts as the default reward, or as 0 if none is set, and this is the one contribution of its person. It is \
             never left out, since that would move later rewards to other sums."
        }
        _ => "It counts as the default reward if one is set, and is left out if not.",
    };
    let after_wait = format!("{missing} A reward that comes then is refused (410, `expired`).");
    Ok(LateFeedback { rule: profile.late, why: why.into(), after_wait })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PolicyConfig, PolicyState, cards};
    use serde_json::Value;

    /// No policy with a guarantee learns as rewards arrive: whoever comes late would move the rewards of
    /// others. Its expired decisions keep their places. The control: some policies without one do neither.
    #[test]
    fn attack_no_guarantee_rests_on_when_rewards_come() {
        let (mut kept, mut free) = (0, 0);
        for card in cards().unwrap() {
            let Value::Object(example) = card.example else { panic!("{}", card.policy) };
            let config = PolicyConfig::from_request(example).unwrap();
            let (profile, late) = (config.profile(), card.late.unwrap());
            let guarantee = PolicyState::new(config).unwrap().privacy().unwrap().epsilon.is_some();
            assert_eq!(late.rule, profile.late);
            match late.rule {
                LateRule::AnyOrder => {
                    assert!(!guarantee, "{}", card.policy);
                    free += 1;
                }
                LateRule::Queue => {
                    assert_eq!(profile.keeps_places(), guarantee, "{}", card.policy);
                    kept += usize::from(guarantee);
                }
                LateRule::Batch => assert!(profile.users_add_noise, "{}", card.policy),
            }
        }
        assert!(kept >= 7 && free >= 10, "{kept} {free}");
    }
}
