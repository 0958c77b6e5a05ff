//! The messages of a bandit.

use crate::Error;
use crate::plan::MessageCost;
use ckks::{Params, ciphertext_bytes, partial_ciphertext_bytes};
use protocol::levels::PRODUCTS_LEVEL;
use protocol::{BanditConfig, Plan, Rings, ScoreLayout, ScoreRing};

/// Bytes of the ciphertexts of every message, in the order of a round and then of a batch.
pub(crate) fn messages(
    config: &BanditConfig,
    plan: &Plan,
    rings: &Rings,
    small: &Params,
    answers: &Params,
    ring: ScoreRing,
) -> Result<Vec<MessageCost>, Error> {
    let top = small.max_level();
    let layout = ScoreLayout::new(config, plan, ring);
    let (numbers, arms) = (layout.feedback_numbers(), layout.arms());
    let deep = |level, seeded| ciphertext_bytes(&rings.updates, level, seeded);
    let evaluating = |level, seeded| ciphertext_bytes(&rings.decisions, level, seeded);
    let contexts = ciphertext_bytes(small, top, true);
    let feedback = partial_ciphertext_bytes(small, top, numbers);
    let messages = [
        ("contexts, to the server", contexts),
        ("answer to a user alone, to the device", ciphertext_bytes(answers, plan.answer_level, false)),
        (
            "answer to one of several, to the device",
            partial_ciphertext_bytes(answers, plan.answer_level, arms),
        ),
        ("feedback, to the server", feedback),
        ("masked scores, to a raiser, once an evaluation", ciphertext_bytes(small, top, false)),
        ("raised scores, to the server, once an evaluation", evaluating(plan.scores_level, true)),
        (
            "masked products of several users, to a raiser, once an evaluation",
            evaluating(PRODUCTS_LEVEL, false),
        ),
        ("entries of several users, to the server", ciphertext_bytes(answers, plan.answer_level, true)),
        ("masked statistics, to a raiser, once a batch", ciphertext_bytes(small, top, false)),
        ("raised statistics, to the server, once a batch", deep(plan.statistics_level, true)),
        ("masked model, to a raiser, once a batch", deep(plan.refresh_level, false)),
        ("model in both rings, to the server, once a batch", deep(plan.model_level, true) + contexts),
        ("feedback under trace_or_growth, to the server", feedback + contexts),
        ("trace question under trace_or_growth, to a device", evaluating(plan.answer_level, false)),
    ];
    Ok(messages.map(|(what, bytes)| MessageCost { what, bytes: bytes as u64 }).into())
}
