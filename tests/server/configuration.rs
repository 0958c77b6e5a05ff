//! The tables of `docs/configuration.md`, from the code.

use crate::fixture::*;
use crate::users::encrypted;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use testkit::reference::{check_ranges, check_section, options, table};
use wire::PolicyCard;

#[test]
fn configuration_of_the_server() {
    let program = env!("CARGO_BIN_EXE_helba-server");
    let options = options(program);
    assert!(options.len() > 20, "{options:?}");
    check_ranges(program, &options, &["--state", "/nowhere"]);
    check_section("server", &table(&options));
}

/// A field of an encrypted bandit: where it is, its range, values outside of it, advice.
type Field = (&'static str, &'static str, &'static [&'static str], &'static str);

const FIELDS: [Field; 23] = [
    (
        "linear.d",
        "1 to 16",
        &["0", "17"],
        "Features of an arm. Time and bytes grow with its square: project wide data (`data convert`).",
    ),
    ("linear.k", "1 to 64", &["0", "65"], "Arms of a decision, all of which need features."),
    (
        "linear.lambda",
        "above 0",
        &["0", "-1"],
        "Ridge regularisation. Larger is slower to learn and safer against noise; L²/λ above 1 needs more Newton steps. With keys of updates by products at least `horizon`·max(L, L²)/2²⁰; far beyond its horizon such a bandit keeps its last model.",
    ),
    (
        "linear.delta",
        "above 0, below 1",
        &["0", "1"],
        "Probability that a confidence set fails. It enters the widths `theory` and `self_normalized`.",
    ),
    (
        "linear.l",
        "at least 1",
        &["0.5"],
        "Bound on the norm of the features of an arm. Scale the features to 1 rather than raise it. A row that rounding in single precision made longer, by (d/2 + 3)·2⁻²⁴ at most, is shortened.",
    ),
    (
        "linear.s",
        "at least 0",
        &["-1"],
        "Bound on the norm of the parameter, for the widths `theory` and `self_normalized`.",
    ),
    ("linear.sigma", "at least 0", &["-0.1"], "Scale of the noise of rewards, for the same widths."),
    (
        "linear.c",
        "above 0",
        &["0"],
        "Threshold of the trace under `trace_or_growth`. Public schedules do not read it.",
    ),
    (
        "linear.eta",
        "above 0",
        &["0"],
        "A batch may be this much longer than all rounds before it. Smaller learns in smaller steps and updates more often.",
    ),
    (
        "linear.width.tangent.alpha",
        "at least 0",
        &["-1"],
        "Exploration, in units of the reward: the arm with the largest prediction + alpha · uncertainty is played. Larger explores longer; half of the range of rewards is a good one. `{\"constant\": {\"alpha\": …}}` in the place of `{\"tangent\": …}` gives an arm up for good if alpha is below the range of rewards; `\"theory\"` and `\"self_normalized\"` have proofs and explore far longer.",
    ),
    (
        "linear.width.tangent.floor",
        "0 to 1",
        &["-0.1", "1.5"],
        "Bounds the range of indices, which the comparison resolves 2⁻ᵇ of. Smaller tells closer arms apart after many rounds; 1/8 and more locks in.",
    ),
    (
        "linear.tie_seed",
        "0 to 2⁶⁴ − 1",
        &["-1"],
        "Public seed of the order in which equal arms are preferred, another one in each round.",
    ),
    (
        "linear.schedule.growth_or_every.rounds",
        "1 to 64",
        &["0", "65"],
        "Most rounds of a batch. Smaller learns sooner, and asks the key holder more often. Other schedules: `\"every_round\"`, `{\"every\": {\"rounds\": n}}`, `\"trace_or_growth\"` ([schedules.md](schedules.md)).",
    ),
    (
        "horizon",
        "1 to 1000000000",
        &["0", "1000000001"],
        "Rounds for which numbers are scaled. Learning goes on beyond it, with less precision.",
    ),
    (
        "unanswered",
        "1 to 64",
        &["0", "65"],
        "Feedback that may come during an update, or before the trace is answered. Larger takes Newton steps.",
    ),
    (
        "comparison_bits",
        "6, 8 or 10",
        &["5", "7", "12"],
        "The comparison resolves 2⁻ᵇ of the range of scores. More bits take levels and time, and with a tangent and up to eight arms keys of `--width root`.",
    ),
    (
        "sqrt_degree",
        "15 or 31",
        &["16"],
        "Degree of the square root of a constant width. 31 halves its error and takes a level.",
    ),
    (
        "answers",
        "`arm` or `scores`",
        &["\"all\""],
        "`scores` answers at once and shows the model to every holder of the key.",
    ),
    (
        "exchanges",
        "`one`, `staged` or `null`",
        &["\"two\""],
        "Left out, as the keys were made (`helba-keygen create --exchanges`). `staged` asks a holder of the key with a token for raises 3 to 8 times for an evaluation, and no device: it needs `helba-raiser`, a tangent, a public schedule, 6 comparison bits, and keys of stages, or of one raise for 3 or 4 arms. Keys of stages refuse `one`.",
    ),
    (
        "open_model",
        "`true` or `false`",
        &["true"],
        "Must be `true` with `answers: scores`, and only then: everybody with the key may see the model.",
    ),
    (
        "counters",
        "`null`, or `{\"every\": 10 to 1000000, \"rho\": 0.0001 to 10 or null}`",
        &["{\"every\": 9}", "{\"rho\": 0}"],
        "Encrypted counts and rewards by arm, which holders of the key open ([encrypted-counters.md](encrypted-counters.md)). Larger groups hide more; `rho` adds noise.",
    ),
    (
        "discount",
        "`null`, above 0 to 0.999999, or 1",
        &["0", "1.5", "0.9999999"],
        "γ: a feedback counts γᵃ when a feedbacks have come after it, so that rewards that drift are followed ([forgetting.md](forgetting.md)). 0.999 halves it in 693 feedbacks.",
    ),
    (
        "window",
        "`null`, or 1 to 1000000",
        &["0", "1000001"],
        "Feedbacks after which a feedback counts no more. Updates by products take some steps more, and those in slots a second update.",
    ),
];

/// The value at `path`, whose parts are separated by dots.
fn at<'a>(value: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(value, |value, part| &mut value[part])
}

/// The paths of all values that are no objects.
fn leaves(value: &Value, path: &str) -> Vec<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| {
                leaves(value, &[path, name].join(if path.is_empty() { "" } else { "." }))
            })
            .collect(),
        _ => vec![path.into()],
    }
}

/// Every field has a row, and the server refuses what is outside of its range.
#[test]
fn configuration_of_encrypted_bandits() {
    let server = InProcess::start(Default::default());
    let device = server.device();
    let mut default = serde_json::to_value(protocol::BanditConfig::new(7, 4)).unwrap();
    let rows: BTreeSet<String> = FIELDS.iter().map(|(path, ..)| path.to_string()).collect();
    assert_eq!(leaves(&default, "").into_iter().collect::<BTreeSet<_>>(), rows);
    let good = serde_json::to_value(encrypted(protocol::Answers::Arm)).unwrap();
    let mut text =
        "| field | range | default | what it does, and when to change it |\n|---|---|---|---|\n".to_string();
    for (path, range, outside, advice) in FIELDS {
        for value in outside {
            let mut bad = good.clone();
            *at(&mut bad, path) = value.parse().unwrap();
            let refused = device.post("/bandits", bad.to_string().as_bytes()).problem();
            assert!([400, 422].contains(&refused.status), "{path} {value}: {}", refused.detail);
        }
        let shown = match path {
            "linear.d" | "linear.k" => "-".into(),
            _ => format!("`{}`", at(&mut default, path)),
        };
        text += &format!("| `{path}` | {range} | {shown} | {advice} |\n");
    }
    check_section("encrypted", &text);
}

/// A parameter that several policies have: its range, and values outside of it.
const SHARED: [(&str, &str, &[&str]); 7] = [
    ("wait", "1 to 2592000 seconds", &["0", "2592001"]),
    ("default_reward", "0 to 1 (`oful`: −10⁶ to 10⁶; `sum`: 0 to 10⁶)", &["-2e6", "2e6"]),
    ("max_open", "1 to 1024, or fewer with contexts", &["0", "1025"]),
    ("arms", "1 to 4096", &["0", "4097"]),
    ("features", "1 to 64; times arms at most 16384", &["0", "65"]),
    ("epsilon", "0.000001 to 1000000", &["0", "1e-7", "1e7"]),
    ("horizon", "at least 1", &["0"]),
];

fn advice(name: &str, server: &str) -> String {
    match name {
        "wait" => format!("Seconds until a decision without feedback expires; {server} unless the server has another `--wait`. Choose it longer than your slowest reward."),
        "default_reward" => "What an expired decision counts as. Without one it is left out, or is 0 where a proof needs a value.".into(),
        "max_open" => "Most decisions without feedback. Lower it to bound memory; raise `wait` and this together.".into(),
        "arms" => "Number of choices.".into(),
        "features" => "Features of each arm.".into(),
        "epsilon" => "Privacy loss. Smaller is more private and learns later; 1 is usual.".into(),
        _ => "Decisions that the bandit is made for.".into(),
    }
}

#[test]
fn configuration_of_clear_policies() {
    let server = InProcess::start(Default::default());
    let device = server.device();
    let cards: Vec<PolicyCard> = serde_json::from_slice(&device.get("/policies").ok()).unwrap();
    let cards: Vec<_> = cards.into_iter().filter(|card| card.policy != "helba").collect();
    let mut text = "| parameter | range | what it does, and when to change it |\n|---|---|---|\n".to_string();
    let wait = helba_server::Settings::default().wait.as_secs().to_string();
    for (name, range, outside) in SHARED {
        let mut tried = 0;
        for card in &cards {
            let example = card.example.as_object().unwrap();
            let term = ["wait", "default_reward", "max_open"].contains(&name);
            if !term && !example.contains_key(name) && !card.defaults.contains_key(name) {
                continue;
            }
            for value in outside {
                let mut bad: Map<String, Value> = example.clone();
                bad.insert(name.into(), value.parse().unwrap());
                let refused = device.post("/bandits", Value::Object(bad).to_string().as_bytes()).problem();
                assert!([400, 422].contains(&refused.status), "{} {name} {value}", card.policy);
                tried += 1;
            }
        }
        assert!(tried > 0, "{name}");
        text += &format!("| `{name}` | {range} | {} |\n", advice(name, &wait));
    }
    check_section("terms", &text);

    let mut text =
        "| policy | parameters, by example | defaults | purpose |\n|---|---|---|---|\n".to_string();
    for PolicyCard { policy, about, example, defaults, .. } in cards {
        let mut shown = example;
        shown.as_object_mut().unwrap().retain(|name, _| name != "policy");
        let defaults = if defaults.is_empty() { "-".into() } else { format!("`{}`", json!(defaults)) };
        text += &format!("| `{policy}` | `{shown}` | {defaults} | {} |\n", about.replace('|', "\\|"));
    }
    check_section("clear", &text);
}
