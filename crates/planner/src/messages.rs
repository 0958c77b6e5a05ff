//! The messages of a bandit.

use crate::plan::MessageCost;
use ckks::{Params, ciphertext_bytes, partial_ciphertext_bytes};
use protocol::levels::PRODUCTS_LEVEL;
use protocol::{Exchanging, Plan, Rings, ScoreLayout, Updates};

/// Bytes of the ciphertexts of every message, in the order of a round and then of a batch. Exchanges of
/// stages and of updates by products have rows of their own ([`crate::Report::bytes_by_exchange`]).
pub(crate) fn messages(
    layout: &ScoreLayout,
    plan: &Plan,
    rings: &Rings,
    small: &Params,
    answers: &Params,
) -> Vec<MessageCost> {
    let top = small.max_level();
    let (numbers, arms) = (layout.feedback_numbers(), layout.arms());
    let deep = |level, seeded| ciphertext_bytes(&rings.updates, level, seeded);
    let evaluating = |level, seeded| ciphertext_bytes(&rings.decisions, level, seeded);
    let of_scores = ciphertext_bytes(small, top, true);
    let feedback = partial_ciphertext_bytes(small, top, numbers);
    let of_several = partial_ciphertext_bytes(answers, plan.answer_level, arms);
    let staged = plan.exchanges == Exchanging::Staged;
    let alone = if staged { of_several } else { ciphertext_bytes(answers, plan.answer_level, false) };
    let places = layout.context_places(1, 0..1).unwrap_or_default();
    let under_pads =
        places.iter().map(|(_, places)| partial_ciphertext_bytes(small, top, places.len())).sum();
    let mut messages = vec![
        ("contexts, to the server", layout.context_parts(1) * of_scores),
        ("contexts of a user with a key of its own, to the server", under_pads),
        (
            "pads of contexts of such users, to the server, once for all at a time",
            layout.context_parts(1) * of_scores,
        ),
        ("answer to a user alone, to the device", alone),
        ("answer to one of several, to the device", of_several),
        ("feedback, to the server", feedback),
    ];
    if !staged {
        messages.extend([
            ("masked scores, to a raiser, once an evaluation", ciphertext_bytes(small, top, false)),
            ("raised scores, to the server, once an evaluation", evaluating(plan.scores_level, true)),
            (
                "masked products of several users, to a raiser, once an evaluation",
                evaluating(PRODUCTS_LEVEL, false),
            ),
            ("entries of several users, to the server", ciphertext_bytes(answers, plan.answer_level, true)),
        ]);
    }
    if plan.updates == Updates::Slots {
        messages.extend([
            ("masked statistics, to a raiser, once a batch", ciphertext_bytes(small, top, false)),
            ("raised statistics, to the server, once a batch", deep(plan.statistics_level, true)),
            ("masked model, to a raiser, once a batch", deep(plan.refresh_level, false)),
            ("model in both rings, to the server, once a batch", deep(plan.model_level, true) + of_scores),
            ("feedback under trace_or_growth, to the server", feedback + of_scores),
            ("trace question under trace_or_growth, to a device", evaluating(plan.answer_level, false)),
        ]);
    }
    messages.into_iter().map(|(what, bytes)| MessageCost { what, bytes: bytes as u64 }).collect()
}
