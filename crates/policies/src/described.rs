//! Descriptions of parameters: meaning, range, what null stands for.

use wire::ParameterCard;

/// Policy (or `*`), parameter, meaning, range, meaning of null. An entry for a policy comes before that for
/// all.
type Row = (&'static str, &'static str, &'static str, &'static str, Option<&'static str>);

const OWN_KAPPA: &str = "the largest value over all parameters of norm s";
const DESCRIBED: &[Row] = &[
    ("*", "arms", "Number of arms.", "1 to 4096", None),
    ("*", "features", "Number of features of each arm.", "1 to 64; with all arms at most 16384", None),
    ("shuffle-glm", "epsilon", "Epsilon of the guarantee.", "0.1 to 1000000", None),
    (
        "elimination",
        "epsilon",
        "Epsilon of the guarantee; with the models renyi and concentrated the scale of a bound on divergences.",
        "0.000001 to 1000000, at most six decimals",
        None,
    ),
    ("*", "epsilon", "Epsilon of the guarantee: the smaller, the more private.", "0.000001 to 1000000", None),
    (
        "dp-se",
        "beta",
        "Probability of eliminating the best arm; one over the expected number of rounds.",
        "above 0, below 1",
        None,
    ),
    ("ars-exp3", "beta", "Exponent by which rounds grow.", "0.5 to 2", None),
    ("joint-glm", "beta", "Width of the running estimate in the index of an arm.", "above 0", None),
    ("joint-glm", "gamma", "Width of the warm-up estimate, in units of the root of kappa.", "above 0", None),
    ("shuffle-glm", "gamma", "Width of the confidence interval of an arm.", "above 0", None),
    (
        "follow-the-noisy-leader",
        "neighbours",
        "Which runs the guarantee compares.",
        "replace_one: one round is replaced; add_remove: it is added or removed",
        None,
    ),
    (
        "follow-the-noisy-leader",
        "private",
        "What is released.",
        "leader: the leader alone; sums: every noisy sum, at noise that grows with the arms",
        None,
    ),
    (
        "elimination",
        "model",
        "Who is trusted.",
        "central: the server; local: nobody; pure, renyi, concentrated: a secure sum; shuffle: a shuffler",
        None,
    ),
    (
        "elimination",
        "confidence",
        "Probability of eliminating the best arm.",
        "above 0, below 1",
        Some("one over horizon"),
    ),
    ("elimination", "growth", "Factor by which batches grow.", "2 or more", None),
    (
        "elimination",
        "scale",
        "Precision of the answers, in steps: a larger one has longer shares.",
        "above 0, at most six decimals",
        None,
    ),
    (
        "elimination",
        "colluding",
        "Share of the users whose noise may be missing.",
        "0 or more, below 1",
        None,
    ),
    ("elimination", "delta", "Delta at which the guarantee is stated.", "above 0, below 1", None),
    (
        "elimination",
        "horizon",
        "Number of users in all batches.",
        "1 to 1000000000, with the model central 100000",
        None,
    ),
    ("odaaf", "horizon", "Number of decisions that the phases are planned for.", "1 to 2^52", None),
    (
        "clw",
        "horizon",
        "Number of decisions that the share of uniform play is planned for.",
        "1 to 2^52",
        None,
    ),
    ("ars-exp3", "horizon", "Number of decisions that the rates are planned for.", "1 to 1000000000", None),
    ("*", "horizon", "The most decisions that are learnt from.", "1 to 100000", None),
    ("ars-ucb", "alpha", "Width of the confidence interval.", "above 0", None),
    (
        "oful",
        "alpha",
        "Width of the confidence interval: half of the range of rewards is a good one for a tangent.",
        "0 or more",
        None,
    ),
    (
        "oful",
        "width",
        "Shape of the confidence interval: the root of the algorithm, or its tangent, by which the bonus of an arm grows while others are played.",
        "tangent or root",
        None,
    ),
    (
        "oful",
        "discount",
        "Factor by which a feedback counts less with each feedback after it, so that drift is followed.",
        "above 0 to 0.999999, or 1",
        Some("all feedback counts alike"),
    ),
    (
        "oful",
        "window",
        "Feedbacks after which a feedback counts no more.",
        "1 to 1000000",
        Some("no feedback is too old"),
    ),
    (
        "ars-ucb",
        "round_size",
        "Decisions for one arm in succession, by the number k of its rounds.",
        "{\"power\": {\"factor\": a, \"exponent\": b}}: a·k^b; {\"doubling\": {\"shift\": s}}: 2^(k + s)",
        None,
    ),
    ("ars-clw", "first", "Decisions of the first phase; each phase has twice as many.", "3 to 2^52", None),
    (
        "ars-clw",
        "root",
        "The guess of the interval is the root of this order of the length of the phase.",
        "2 to 16",
        None,
    ),
    ("clw", "interval", "Decisions within which all of a reward arrives.", "1 to 1048576", None),
    (
        "clw",
        "rule",
        "When a round ends.",
        "spaced: a coin, at least 2·interval apart; look_ahead: every slot has the same chance",
        None,
    ),
    (
        "odaaf",
        "rule",
        "What is known of the delays, which determines the length of the phases.",
        "{\"mean\": {\"delay\": E}}; {\"bounded\": {\"delay\": E, \"bound\": d}}; {\"variance\": {\"delay\": E, \"variance\": V}}; \
         {\"composite\": {\"interval\": d}}, with numbers above 0",
        None,
    ),
    ("oful", "lambda", "Weight of the regulariser.", "above 0", None),
    ("shuffle-glm", "lambda", "Weight of the regulariser, before that of the noise.", "above 0", None),
    ("ecolog", "delta", "Probability that a confidence interval fails.", "above 0, below 1", None),
    (
        "joint-glm",
        "delta",
        "Delta of the guarantee, and the probability that a width fails.",
        "above 0, at most 0.01",
        None,
    ),
    ("shuffle-glm", "delta", "Delta of the guarantee.", "1e-30 to 0.01", None),
    ("*", "delta", "Probability that a confidence interval fails.", "above 0, below 1", None),
    (
        "*",
        "link",
        "The mean reward as a function of the product of features and parameter.",
        "logistic, probit, linear, poisson",
        None,
    ),
    ("*", "s", "Bound on the norm of the parameter.", "above 0, with kappa(s) below 1e12", None),
    ("*", "kappa", "Bound on one over the slope of the link.", "above 0", Some(OWN_KAPPA)),
    ("glm-ucb", "refit_every", "Decisions between two estimates.", "1 or more", None),
    ("shuffle-glm", "batches", "Users of each batch.", "1 to 8 batches, at most 1000000 users in all", None),
    ("shuffle-glm", "steps", "Descent steps of an estimate.", "1 to 1000, in all batches 2000", None),
    (
        "shuffle-glm",
        "colluding",
        "Share of the users whose noise may be missing.",
        "0 or more, below 1",
        None,
    ),
];

/// The description of a parameter.
pub(crate) fn describe(policy: &str, parameter: &str) -> Option<ParameterCard> {
    let of = |row: &&Row| (row.0 == policy || row.0 == "*") && row.1 == parameter;
    let (_, _, about, range, null) = DESCRIBED.iter().find(of)?;
    Some(ParameterCard { about: (*about).into(), range: (*range).into(), null: null.map(Into::into) })
}
