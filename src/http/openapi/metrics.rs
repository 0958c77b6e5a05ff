//! The message of `GET /v1/metrics`, as JSON Schema.

use super::schemas::{
    Named, count, hex, hex_id, labelled, list, number, object, one_of, or_null, reference, text, truth,
};
use crate::metrics::Step;

pub(super) fn metrics() -> Named {
    let all = |fields: &[(&'static str, &'static str)]| {
        fields.iter().map(|(name, about)| (*name, count(), *about)).collect::<Vec<_>>()
    };
    let memory = object(
        "The memory of the process.",
        &all(&[("resident_bytes", "Resident now."), ("peak_bytes", "The most that was resident.")]),
    );
    let keys = object(
        "The keys of encrypted bandits.",
        &[
            ("key_id", hex(), "The id of the key pair of the deep ring."),
            ("parameters", text(), "The name of its parameter set."),
            ("security_bits", count(), "Its security, in bits; 0 for toy keys."),
            ("top_level", count(), "Its top level."),
        ],
    );
    let committee = object(
        "The members of the committee.",
        &[
            (
                "here",
                list(count()),
                "The numbers of those who take what they are told, or did until a moment ago.",
            ),
            ("needed", count(), "How many it takes."),
            ("members", count(), "How many there are."),
            ("erred", list(count()), "In how many runs each member was seen to err, from member 1 on."),
            (
                "disputed",
                list(list(count())),
                "Pairs that have disagreed on a key that they have in common: one of the two lies.",
            ),
        ],
    );
    let step = object(
        "The times of a step.",
        &[
            (
                "step",
                one_of(&Step::ALL.map(Step::name)),
                "The step: of an encrypted decision or feedback, or of a clear policy.",
            ),
            ("count", count(), "How often it was done."),
            ("seconds", number(), "The seconds of all together."),
            (
                "counts",
                list(count()),
                "How many took as long as each of `bounds` or less, and more than the one before; then longer.",
            ),
        ],
    );
    let traffic = object(
        "Bodies, and answers.",
        &[
            ("received_bytes", count(), "Bytes of bodies that were read."),
            ("sent_bytes", count(), "Bytes of bodies of answers."),
            ("answers", list(count()), "Answers with a status of 2xx, 3xx, 4xx and 5xx."),
        ],
    );
    let levels = object(
        "Levels at which parts of an encrypted bandit begin.",
        &all(&[
            ("top", "The top level of the parameters."),
            ("scores", "Raised scores of several users."),
            ("statistics", "Raised statistics."),
            ("model", "A refreshed model."),
            ("answers", "Answers."),
        ]),
    );
    let bandit = labelled(
        "The numbers of a bandit.",
        &[
            ("id", hex_id(), "The id of the bandit."),
            ("kind", one_of(&["encrypted", "committee", "clear"]), "The kind of the bandit."),
            ("policy", text(), "The name of the policy."),
            ("features", or_null(count()), "Features; null if decisions take no context."),
            ("arms", count(), "Arms."),
            ("round", count(), "The number of decisions."),
            ("feedbacks", count(), "The number of feedbacks counted."),
            ("batches", or_null(count()), "The number of batches closed; null of a clear policy."),
            ("open", count(), "The number of decisions that wait for feedback."),
            ("max_open", or_null(count()), "The most of them; null if they are not bounded."),
            ("users_waiting", or_null(count()), "Requests in the open pack; null of a clear policy."),
            ("levels", or_null(reference("Levels")), "Levels; null of a clear policy."),
            (
                "privacy",
                or_null(reference("Privacy")),
                "The guarantee, and the budget spent; null of an encrypted bandit.",
            ),
            (
                "awaited",
                list(one_of(&["raise", "sum", "model", "update", "thaw", "feedback", "batch"])),
                "What the bandit waits for: a holder of the key for scores of users, a sum or a model; the update of a batch; \
                 its thaw, before which it learns nothing; feedback; a batch of an intermediary or shares of users.",
            ),
        ],
    );
    let metrics = object(
        "What the server measures of itself.",
        &[
            ("version", text(), "The version of the program."),
            ("kernel", text(), "Which kernels run, and why."),
            ("threads", count(), "Threads that compute."),
            ("uptime_seconds", number(), "Seconds since the start."),
            ("tokens", truth(), "Whether tokens are on."),
            ("memory", or_null(reference("Memory")), "Its memory; null where the system does not tell."),
            ("keys", or_null(reference("LoadedKeys")), "Its keys; null if it has none."),
            (
                "certificate_ends",
                or_null(number()),
                "When its certificate ends, in seconds since 1970; null over plain HTTP.",
            ),
            (
                "committee",
                or_null(reference("MembersPresent")),
                "Who of the members of the committee is here; null if there is none.",
            ),
            ("bounds", list(number()), "Upper ends of the intervals in which times are counted, in seconds."),
            ("steps", list(reference("StepTimes")), "Times of steps since the start."),
            ("traffic", reference("Traffic"), "Bodies and answers since the start."),
            ("requests_waiting", count(), "Requests about encrypted decisions and feedback that wait."),
            (
                "asked_again",
                count(),
                "Encrypted decisions that were asked for again, since an answer was outside its range.",
            ),
            ("bandits", count(), "All bandits of the server."),
            ("keys_missing", count(), "Those whose keys are not loaded."),
            (
                "listed",
                list(reference("MeasuredBandit")),
                "Bandits that the token gives access to, by their ids.",
            ),
            ("next", or_null(hex_id()), "The last id of `listed`, if there are more; send it as `after`."),
        ],
    );
    vec![
        ("Memory", memory),
        ("LoadedKeys", keys),
        ("MembersPresent", committee),
        ("StepTimes", step),
        ("Traffic", traffic),
        ("Levels", levels),
        ("MeasuredBandit", bandit),
        ("Metrics", metrics),
    ]
}
