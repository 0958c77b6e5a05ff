//! What a key committee costs and allows.

use crate::plan::carried;
use crate::text::size;
use crate::{Error, Report};
use ckks::{Params, Security};
use ckks_shares::Quorum;
use protocol::budget::{Budget, OPENED_NATS, budget_of_a_member, opened_nats};
use protocol::{DecisionId, ScoreLayout, Shape};
use serde::Serialize;
use wire::{CommitteeContexts, DecideReply, Decision, OpenedAnswer, SealedShare};

/// The costs of a committee of t of n members at a problem, and what its keys allow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CommitteeCost {
    /// t.
    pub threshold: u8,
    /// n.
    pub members: u8,
    /// Bytes of the contexts of a decision, to the server.
    pub contexts: u64,
    /// Bytes of the answer to a decision, to the device.
    pub answer: u64,
    /// Bytes of a feedback, to the server.
    pub feedback: u64,
    /// Bytes of the secrets in the file of a member, without its manifest.
    pub member_keys: u64,
    /// The nats that a decision counts as: its κ between arms that are nearly equal, or its part of the forms
    /// of hostile devices if that is more.
    pub decision_nats: f64,
    /// The nats of the budget of answers.
    pub nats: f64,
    /// What a member answers for these.
    pub of_a_member: Budget,
    /// The decisions that the keys allow, if the same t members are always asked, and if all are asked as
    /// often.
    pub decisions: [u64; 2],
    /// The models that they allow, in the same way: one for each batch.
    pub models: [u64; 2],
}

/// The costs of `threshold` of `members` at a problem, with the default budget.
///
/// # Errors
/// [`Error::Committee`] for numbers that no committee has; [`Error::NoPlan`], as [`crate::plan`].
pub fn committee(
    (features, arms, rounds): (usize, usize, u64),
    (threshold, members): (u8, u8),
    security: Security,
) -> Result<CommitteeCost, Error> {
    let quorum = Quorum::new(threshold, members)?;
    let (keys, params, config) = carried(features, arms, rounds, security).map_err(|error| match error {
        Error::Protocol(why) => Error::no_plan(features, arms, rounds, why),
        other => other,
    })?;
    config.check_committee()?;
    let shape = Shape::for_problem(features, arms);
    let levels = config.plan(&params, shape, keys.scores)?;
    let (small, answers) = (keys.scores.params.validate()?, keys.answers.params.validate()?);
    let numbers = ScoreLayout::new(&config, &levels, keys.scores).feedback_numbers();
    let contexts = CommitteeContexts {
        answer_key: vec![0; envelope::SEALING_KEY_BYTES],
        contexts: vec![0; CommitteeContexts::contexts_bytes(&small)],
    };
    let of_member = budget_of_a_member(OPENED_NATS, shape, (threshold, members), members);
    let spread = |of_member: u64| [of_member, of_member * u64::from(members) / u64::from(threshold)];
    Ok(CommitteeCost {
        threshold,
        members,
        contexts: contexts.to_bytes().len() as u64,
        answer: answer_bytes(quorum, shape.arm_slots),
        feedback: ckks::proven_ciphertext_bytes(&small, numbers) as u64,
        member_keys: member_bytes(quorum, [&params, &small, &answers]),
        decision_nats: opened_nats(shape, threshold, members),
        nats: OPENED_NATS,
        of_a_member: of_member,
        decisions: spread(of_member.decisions),
        models: spread(of_member.models),
    })
}

/// Bytes of the answer to one decision with this many arms, of which the numbers are as long as they usually
/// are.
fn answer_bytes(quorum: Quorum, arms: usize) -> u64 {
    let share = |member| SealedShare {
        member,
        sealed: vec![0; envelope::SEALED_OVERHEAD + 8 * arms],
        signature: vec![0; envelope::SIGNATURE_BYTES],
    };
    let shares = (1..=quorum.threshold()).map(share).collect();
    let opened =
        OpenedAnswer { request: [0; 32], set: quorum.everybody().bits(), values: vec![0; arms], shares };
    let decision = Decision {
        id: DecisionId([0; 16]),
        round: 1000,
        model_feedbacks: 1000,
        user: 1,
        users: 1,
        others: Vec::new(),
        answer: opened.to_bytes(),
        question: None,
    };
    DecideReply { decision: Some(decision), ticket: None, tasks: Vec::new() }.to_bytes().len() as u64
}

/// A share of 32 bytes and a polynomial for each ring, a key with each other member, and the secrets that it
/// signs and opens with.
fn member_bytes(quorum: Quorum, rings: [&Params; 3]) -> u64 {
    let share = |params: &Params| 32 + ckks::residue_bytes(params.qp_basis(params.max_level()));
    let pairs = 32 * (usize::from(quorum.members()) - 1);
    (rings.into_iter().map(share).sum::<usize>() + pairs + 64) as u64
}

impl CommitteeCost {
    /// The costs in a user's words, and with `explain` where they come from.
    pub fn text(&self, report: &Report, explain: bool) -> String {
        let CommitteeCost { threshold: t, members: n, .. } = *self;
        let bundle = size(report.keys.iter().map(|key| key.bytes).sum());
        let ([least, most], [few, models]) = (self.decisions, self.models);
        let mut lines = vec![
            format!("committee   any {t} of {n} members answer together; nobody has the key, and users have no secret"),
            format!(
                "with it     a decision sends {} and receives {:.1} kB; its feedback sends {}",
                size(self.contexts),
                self.answer as f64 / 1e3,
                size(self.feedback)
            ),
            format!(
                "a member    keeps {} of secrets and a ledger, and {bundle} of public keys to check the server by",
                size(self.member_keys)
            ),
            format!(
                "the keys    allow {least} decisions and {few} models, one a batch, if the same {t} members are always asked, and \
                 {most} and {models} if all are asked as often; then new keys are due"
            ),
            format!(
                "it holds    against the server with {} of the members: they see sums under masks. {t} members have the key",
                t - 1
            ),
            "beware      contexts are not checked: a user can spoil an evaluation. docs/committee.md says what else is not stopped"
                .into(),
        ];
        if explain {
            lines.push(format!(
                "budget      {:.2e} nats a decision, for a near tie or for a hostile device, of {} nats for a key: {} decisions; \
                 divided by {others}, a member opens {}, since {} members and the server may ask each of {others} others for \
                 other decisions",
                self.decision_nats,
                self.nats,
                (self.nats / self.decision_nats) as u64,
                self.of_a_member.decisions,
                t - 1,
                others = n - t + 1
            ));
            lines.push(
                "            a decision that is asked again of other members counts once more, and one without a near tie \
                 counts as much"
                    .into(),
            );
        }
        lines.join("\n")
    }
}
