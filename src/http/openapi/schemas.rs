//! The JSON messages, as JSON Schema 2020-12. The tests of the server compare them with the messages that it
//! sends. Objects name all their properties, so that a new field of a message fails these tests until it is
//! described here.

use crate::policy::cards;
use serde_json::{Map, Value, json};
use wire::{MOST_NAME, MOST_TAG, MOST_TAGS, PolicyCard};

/// A reference to a schema of the document.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// `schema` with a description.
pub(super) fn field(mut schema: Value, about: &str) -> Value {
    schema["description"] = about.into();
    schema
}

/// An object with these properties and no others. A name that ends in `?` may be missing.
pub(super) fn object(about: &str, properties: &[(&str, Value, &str)]) -> Value {
    let bare = |name: &str| name.trim_end_matches('?').to_string();
    let required: Vec<&str> =
        properties.iter().map(|(name, ..)| *name).filter(|name| !name.ends_with('?')).collect();
    let properties: Map<String, Value> =
        properties.iter().map(|(name, schema, about)| (bare(name), field(schema.clone(), about))).collect();
    json!({
        "type": "object", "description": about, "properties": properties, "required": required,
        "additionalProperties": false,
    })
}

/// As [`object`], with name and tags.
pub(super) fn labelled(about: &str, properties: &[(&str, Value, &str)]) -> Value {
    object(about, &[&labels()[..], properties].concat())
}

/// Name and tags of a bandit.
fn labels() -> [(&'static str, Value, &'static str); 2] {
    let line = |most| json!({ "type": "string", "minLength": 1, "maxLength": most });
    let tags =
        json!({ "type": "array", "items": line(MOST_TAG), "maxItems": MOST_TAGS, "uniqueItems": true });
    [
        ("name?", line(MOST_NAME), "The name of the bandit, which need not be unique."),
        ("tags?", tags, "Its tags."),
    ]
}

/// Name and tags in a request, where null removes them.
fn given_labels() -> [(&'static str, Value, &'static str); 2] {
    labels().map(|(name, schema, about)| (name, or_null(schema), about))
}

/// An object with one property, which names the variant.
fn variant(name: &str, about: &str, properties: &[(&str, Value, &str)]) -> Value {
    object(about, &[(name, object(about, properties), about)])
}

pub(super) fn one_of(names: &[&str]) -> Value {
    json!({ "enum": names })
}

pub(super) fn or_null(mut schema: Value) -> Value {
    if let Some(kind) = schema.get("type").cloned() {
        schema["type"] = json!([kind, "null"]);
        return schema;
    }
    json!({ "anyOf": [schema, { "type": "null" }] })
}

pub(super) fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

pub(super) fn all() -> Map<String, Value> {
    let mut out = Map::new();
    for (name, schema) in [
        server(),
        super::metrics::metrics(),
        privacy(),
        tasks(),
        policies(),
        rounds(),
        encrypted(),
        paper(),
        keys(),
    ]
    .into_iter()
    .flatten()
    {
        out.insert(name.into(), schema);
    }
    out
}

pub(super) type Named = Vec<(&'static str, Value)>;

pub(super) fn text() -> Value {
    json!({ "type": "string" })
}

pub(super) fn number() -> Value {
    json!({ "type": "number" })
}

pub(super) fn truth() -> Value {
    json!({ "type": "boolean" })
}

pub(super) fn count() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX })
}

fn from_one() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": u64::MAX })
}

pub(super) fn hex_id() -> Value {
    json!({ "type": "string", "pattern": "^[0-9a-f]{32}$" })
}

pub(super) fn hex() -> Value {
    json!({ "type": "string", "pattern": "^[0-9a-f]+$" })
}

fn server() -> Named {
    let problem = json!({
        "type": "object", "description": "A problem document (RFC 9457).",
        "properties": {
            "type": field(text(), "A URI that names the kind of problem; `about:blank` if the status names it."),
            "title": field(text(), "The phrase of the status."),
            "status": field(json!({ "type": "integer", "minimum": 400, "maximum": 599 }), "The HTTP status."),
            "detail": field(json!({ "type": "string", "minLength": 1 }), "The fault of this request, and the remedy."),
            "reason": field(text(), "A code for programs, stable across versions."),
        },
        "required": ["type", "title", "status", "detail", "reason"],
    });
    let root = object(
        "What this server is.",
        &[
            ("name", json!({ "const": "helba-server" }), "The program."),
            ("about", text(), "What it does, in a sentence."),
            ("version", text(), "The version of the program."),
            ("health", text(), "The path of its health."),
            ("openapi", text(), "The path of its description."),
            ("docs", text(), "The path of a page to read the description, and to send requests."),
            ("dashboard", text(), "The path of a page to watch the server."),
        ],
    );
    vec![
        ("Problem", problem),
        ("Root", root),
        ("Health", object("The health of the server.", &[("status", json!({ "const": "ok" }), "It runs.")])),
    ]
}

fn privacy() -> Named {
    let statement = object(
        "The privacy guarantee of a whole run of a policy.",
        &[
            ("definition", one_of(&["none", "pure", "approximate", "renyi", "joint"]), "The definition met."),
            (
                "trust",
                json!({ "enum": ["central", "distributed", "shuffler", "local", null] }),
                "Who must be honest; null without privacy.",
            ),
            ("epsilon", or_null(number()), "Epsilon; null without privacy."),
            ("delta", number(), "Delta."),
            ("neighbours", one_of(&["replace_one", "add_remove"]), "The relation of neighbours."),
            ("sentence", text(), "The protected data, the outputs, and the assumptions."),
        ],
    );
    let spent = object(
        "The largest privacy loss of a person so far.",
        &[
            ("epsilon", number(), "The parameter epsilon of the loss."),
            ("delta", number(), "The parameter delta of the loss."),
        ],
    );
    let privacy = object(
        "The guarantee of a bandit, and how much of its budget is spent.",
        &[
            ("statement", reference("PrivacyStatement"), "The guarantee."),
            ("spent", or_null(reference("Spent")), "The budget spent so far; null if nothing is guaranteed."),
        ],
    );
    vec![("PrivacyStatement", statement), ("Spent", spent), ("Privacy", privacy)]
}

fn tasks() -> Named {
    let noise = || reference("UserNoise");
    let arm = || ("arm", count(), "The arm, from 0.");
    let epsilon = || ("epsilon", number(), "The part of epsilon that the noise pays for.");
    let steps = || ("steps", count(), "Number of steps that a reward is divided into.");
    let ask = json!({ "oneOf": [
        variant("share", "The randomised reward, as numbers that add up to it.", &[
            arm(), ("modulus", count(), "The modulus of the secure sum."), steps(),
            ("noise", noise(), "The noise that the user adds."), epsilon(),
        ]),
        variant("count", "The randomised reward, as a number of ones among bits.", &[
            arm(), steps(), ("margin", count(), "Largest noise to either side."),
            ("noise", noise(), "The noise that the user adds."), epsilon(),
        ]),
        variant("metric", "The entries that the user's row adds to the metric.", &[
            ("entries", count(), "Number of entries."), ("bits", reference("Bits"), "How an entry becomes bits."),
        ]),
        variant("gradient", "The user's gradient at a point.", &[
            ("at", list(number()), "The point."), ("bits", reference("Bits"), "How a coordinate becomes bits."),
        ]),
    ], "description": "The message of each user of a batch." });
    let bits = object(
        "How a number becomes bits, which are shuffled with those of all users.",
        &[
            ("bound", number(), "Largest absolute value."),
            ("steps", count(), "Bits of the number."),
            ("noise", count(), "Bits of noise."),
        ],
    );
    let noise = field(
        one_of(&["polya", "skellam", "discrete_gaussian", "discrete_laplace"]),
        "The distribution of the noise that each user adds.",
    );
    let task = object(
        "The sum that a server requests of the users of a batch.",
        &[
            ("exchange", from_one(), "Number of the exchange, from 1."),
            ("batch", from_one(), "Number of the batch of users, from 1."),
            ("users", count(), "Number of users in the batch."),
            ("ask", reference("Ask"), "The message of each user."),
        ],
    );
    vec![("Ask", ask), ("Bits", bits), ("UserNoise", noise), ("Task", task)]
}

/// The terms of a bandit for feedback that comes late.
fn terms() -> [(&'static str, Value, &'static str); 3] {
    [
        (
            "wait?",
            from_one(),
            "The seconds after which a decision without feedback expires, at most 30 days.",
        ),
        ("default_reward?", number(), "The reward that an expired decision counts as."),
        (
            "max_open?",
            from_one(),
            "The most decisions without feedback, and the most whose feedback waits for its turn.",
        ),
    ]
}

fn policies() -> Named {
    let late = object(
        "How a policy learns from feedback that comes late or not at all.",
        &[
            ("rule", one_of(&["any_order", "queue", "batch"]), "The order in which feedback is learnt."),
            ("why", text(), "The reason for the rule, and for its being private."),
            ("after_wait", text(), "What becomes of a decision without feedback after the wait time."),
        ],
    );
    let free = || json!({ "type": "object" });
    let card = object(
        "A policy that the server offers.",
        &[
            ("policy", text(), "The name of the policy in a creation request."),
            ("about", text(), "The purpose of the policy, and its privacy."),
            ("example", free(), "A creation request with all parameters."),
            ("defaults", free(), "The parameters that may be left out, with their default values."),
            (
                "parameters?",
                json!({ "type": "object", "additionalProperties": reference("ParameterCard") }),
                "The parameters, described.",
            ),
            (
                "feedback",
                one_of(&["encrypted", "reward", "rewards", "sum", "share", "batch"]),
                "The field of a feedback; `batch` where users answer an intermediary.",
            ),
            ("contextual", truth(), "Whether a decision takes contexts."),
            ("late?", reference("LateFeedback"), "How late feedback is learnt."),
        ],
    );
    let parameter = object(
        "The description of a parameter.",
        &[
            ("about", text(), "Its meaning."),
            ("range", text(), "The values that it may have."),
            ("null?", text(), "What null stands for; absent if it must not be null."),
        ],
    );
    let [wait, reward, open] = terms();
    let created = [
        ("id", hex_id(), "The id of the bandit in paths."),
        ("policy", text(), "The name of the policy."),
        ("parameters", free(), "The parameters of the policy, with defaults filled in."),
        wait,
        reward,
        open,
        ("warning?", text(), "What a user must know who expects much of these parameters."),
        ("privacy", reference("Privacy"), "The guarantee, and the budget spent."),
    ];
    let view = labelled(
        "The public state of a bandit with a clear policy.",
        &[
            (
                "created",
                reference("PolicyCreated"),
                "The bandit as it was created, with the budget spent until now.",
            ),
            ("round", count(), "The number of decisions."),
            ("feedbacks", count(), "The number of feedbacks, or of users of batches, counted so far."),
            ("pending_decisions", count(), "The number of decisions that accept feedback."),
            ("waiting?", count(), "The number of decisions whose feedback is not learnt yet."),
            ("defaulted?", count(), "The number of expired decisions that count as the default reward."),
            ("left_out?", count(), "The number of decisions that nothing is learnt from."),
            ("awaited?", reference("Task"), "The task of the batch that the server waits for."),
            ("published?", list(free()), "Estimate and metric of each complete batch."),
            (
                "learnt?",
                reference("Learnt"),
                "What the policy has learnt, as far as its guarantee covers it.",
            ),
            ("restored?", count(), "How often the bandit started again without its data."),
        ],
    );
    let learnt = object(
        "What a policy shows of what it has learnt. Lists by arm have as many numbers as there are arms.",
        &[
            ("pulls?", list(count()), "The number of learnt plays of each arm."),
            (
                "means?",
                list(or_null(json!({ "type": "number" }))),
                "The mean reward of each arm as released: with the noise of the guarantee. Null without a release.",
            ),
            ("left?", list(count()), "The arms that are not eliminated, from 0."),
            (
                "leader?",
                count(),
                "The arm that the last release chose, from 0, which is played until the next release.",
            ),
            (
                "probabilities?",
                list(json!({ "type": "number" })),
                "The probability with which each arm is drawn next.",
            ),
            (
                "theta?",
                list(json!({ "type": "number" })),
                "The estimate of the parameter of rewards, by feature.",
            ),
        ],
    );
    let kinds = ["ListedPolicy", "ListedEncrypted", "ListedPaper"].map(reference);
    let listed = json!({ "anyOf": kinds,
        "description": "A bandit of any kind, as it was created, with its name and tags." });
    let cards = cards().unwrap_or_default();
    let requests = cards.iter().filter(|card| card.policy != "helba").map(creation);
    let requests: Vec<_> =
        ["BanditConfig", "PaperConfig"].map(reference).into_iter().chain(requests).collect();
    let request = json!({ "anyOf": requests,
        "description": "The configuration of an encrypted bandit, or a policy with its parameters." });
    vec![
        ("LateFeedback", late),
        ("PolicyCard", card),
        ("ParameterCard", parameter),
        ("PolicyCreated", object("A bandit with a clear policy, as it was created.", &created)),
        ("ListedPolicy", labelled("A bandit with a clear policy, with its name and tags.", &created)),
        ("PolicyView", view),
        ("Learnt", learnt),
        ("Copy", copy_request()),
        (
            "Freeze",
            object("Whether a bandit is frozen.", &[("frozen", truth(), "True freezes, false thaws.")]),
        ),
        ("LabelsPatch", object("What is given replaces name or tags. Null removes them.", &given_labels())),
        ("Listed", listed),
        ("CreationRequest", request),
    ]
}

/// What a copy does not have of its original.
fn copy_request() -> Value {
    let any = || json!({ "type": "object" });
    let changes = [("linear?", any(), "Fields of the linear bandit, such as `width` and `schedule`.")];
    let mut request = object(
        "What a copy does not have of its original: name, tags, and fields of the configuration.",
        &[&given_labels()[..], &changes].concat(),
    );
    request["additionalProperties"] = true.into();
    request
}

/// The creation request of a policy, which has the fields of its example. The policy checks their bounds.
fn creation(card: &PolicyCard) -> Value {
    let of = |name: &str, value: &Value| match value {
        // Names of policies and of trust models: each has its own parameters.
        Value::String(_) if name == "policy" || name == "model" => json!({ "const": value }),
        Value::String(_) => json!({ "type": "string", "examples": [value] }),
        Value::Number(n) if n.is_u64() && name == "arms" => {
            json!({ "type": "integer", "minimum": 1, "maximum": 4096 })
        }
        Value::Number(n) if n.is_u64() && name == "features" => {
            json!({ "type": "integer", "minimum": 1, "maximum": 64 })
        }
        Value::Number(n)
            if n.is_u64()
                && ["horizon", "steps", "interval", "first", "root", "refit_every"].contains(&name) =>
        {
            from_one()
        }
        Value::Number(_) => json!({ "type": "number", "examples": [value] }),
        Value::Array(_) => {
            json!({ "type": "array", "items": { "type": "integer", "minimum": 1 }, "examples": [value] })
        }
        _ => json!({ "type": "object", "examples": [value] }),
    };
    let example = card.example.as_object().cloned().unwrap_or_default();
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, value) in &example {
        let mut schema = of(name, value);
        match card.defaults.get(name) {
            // A default may be null, which stands for no value.
            Some(Value::Null) => schema = or_null(schema),
            Some(default) => schema["default"] = default.clone(),
            None => required.push(name.clone()),
        }
        let described = card.parameters.get(name).map(|p| {
            let null = p.null.as_ref().map_or(String::new(), |null| format!(" Null: {null}."));
            format!("{} {}.{null}", p.about, p.range)
        });
        properties.insert(name.clone(), described.map_or(schema.clone(), |about| field(schema, &about)));
    }
    for (name, schema, about) in terms().into_iter().chain(given_labels()) {
        properties.insert(name.trim_end_matches('?').into(), field(schema, about));
    }
    json!({
        "type": "object", "title": card.policy, "description": card.about, "properties": properties,
        "required": required, "additionalProperties": false,
    })
}

fn rounds() -> Named {
    let row = || list(number());
    let request = object(
        "A decision request of a clear policy.",
        &[(
            "contexts?",
            or_null(list(or_null(row()))),
            "One row of features for each arm, if the policy takes contexts; null for an arm that is closed, which oful alone takes.",
        )],
    );
    let decided = object(
        "A decision of a clear policy.",
        &[
            ("decision", hex_id(), "The id of the decision, which the feedback names."),
            ("round", from_one(), "The number of the decision, from 1."),
            (
                "arm",
                or_null(count()),
                "The arm to play, from 0; null if the device chooses one from `published`.",
            ),
            ("published?", list(json!({ "type": "object" })), "Estimate and metric of each complete batch."),
            ("awaited?", reference("Task"), "The task that the user answers."),
            ("reliable?", truth(), "Only from an agent: whether the decrypted answer is in its range."),
            (
                "probability?",
                number(),
                "Only from an agent: the probability with which the arm was to be played.",
            ),
            ("privacy", reference("Privacy"), "The guarantee, and the budget spent."),
        ],
    );
    let feedback = object(
        "Feedback on a decision: the field that the policy learns from, and no other.",
        &[
            (
                "reward?",
                or_null(number()),
                "The reward of the arm that was played: from 0 to 1, or from -1000000 to 1000000 for oful.",
            ),
            ("rewards?", or_null(row()), "The rewards of all arms, from 0 to 1."),
            (
                "sum?",
                or_null(number()),
                "The sum of the rewards that arrived, of any decision: from 0 to 1000000.",
            ),
            ("share?", or_null(count()), "The randomised reward, modulo the modulus of the batch."),
        ],
    );
    let counted = object(
        "The answer to a counted feedback or batch.",
        &[
            ("of", text(), "The id of the decision, or the number of the exchange."),
            ("feedbacks", count(), "The number of feedbacks, or of users of batches, counted so far."),
            ("learnt?", truth(), "Only from an agent: false if nothing learns from the reward."),
            ("privacy", reference("Privacy"), "The guarantee, and the budget spent when it was counted."),
        ],
    );
    let batch = object(
        "The sums of a batch, which an intermediary delivers.",
        &[
            ("exchange", count(), "The number of the exchange."),
            ("users", count(), "The number of users in the batch."),
            ("labels", list(list(count())), "A list of numbers for each label, which are added up."),
        ],
    );
    vec![
        ("DecideRequest", request),
        ("Decided", decided),
        ("ClearFeedback", feedback),
        ("Counted", counted),
        ("ShuffledBatch", batch),
    ]
}

fn encrypted() -> Named {
    let rounds = || ("rounds", from_one(), "The longest batch.");
    let width = json!({ "oneOf": [
        variant("constant", "A constant under the root, which can lock in below the range of rewards.", &[("alpha", number(), "The width, at least 0.")]),
        variant(
            "tangent",
            "The tangent of the root: the bonus of an arm grows while others are played.",
            &[
                ("alpha", number(), "The width, at least 0: half of the range of rewards is a good one."),
                ("floor", number(), "The least point of the tangent, from 0 to 1."),
            ],
        ),
        one_of(&["theory", "self_normalized"]),
    ], "description": "The confidence width; new bandits have the tangent." });
    let schedule = json!({ "oneOf": [
        one_of(&["every_round", "determinant", "trace", "growth", "trace_or_growth"]),
        variant("every", "Batches of a fixed length.", &[rounds()]),
        variant("growth_or_every", "Batches that grow until they have `rounds` rounds.", &[rounds()]),
    ], "description": "The rule that ends a batch. Encrypted bandits take `growth_or_every` or `every` 1 to 64 rounds, \
        `every_round`, or `trace_or_growth`." });
    let linear = object(
        "The linear bandit.",
        &[
            ("d", from_one(), "Number of features."),
            ("k", from_one(), "Number of arms."),
            ("lambda", number(), "Ridge regularisation, positive."),
            ("delta", number(), "Probability that a confidence set fails, in (0, 1)."),
            ("l", number(), "Bound on the norm of the features, at least 1."),
            ("s", number(), "Bound on the norm of the parameter."),
            ("sigma", number(), "Sub-Gaussian scale of the noise of rewards."),
            ("c", number(), "Threshold of the trace rule, positive."),
            ("eta", number(), "Relative growth of the rounds within a batch, positive."),
            ("width", reference("Width"), "The confidence width."),
            ("schedule", reference("Schedule"), "The rule that ends a batch."),
            ("tie_seed?", count(), "Public seed of the order of equal arms; 0 if it is left out."),
        ],
    );
    let counters = object(
        "Which sums of encrypted counters holders of the key may open.",
        &[
            (
                "every?",
                from_one(),
                "Feedbacks of a group: only whole groups are shown; 100 if it is left out.",
            ),
            ("rho?", or_null(number()), "Rho of the noise of each group; null for none."),
        ],
    );
    let arm = object(
        "The counter of an arm.",
        &[("pulls", number(), "How often it was played."), ("reward", number(), "The sum of its rewards.")],
    );
    let committee_counters = object(
        "The counters of a bandit of a committee.",
        &[("feedbacks", count(), "The feedbacks in them."), ("arms", list(arm), "By arm, without noise.")],
    );
    let config = |policy: Option<(&'static str, Value, &'static str)>, rest: &str| {
        let name = |name: &str| format!("{name}{rest}");
        let names = [
            "horizon",
            "unanswered",
            "comparison_bits",
            "sqrt_degree",
            "answers",
            "exchanges",
            "open_model",
            "counters",
            "discount",
            "window",
        ]
        .map(name);
        let [horizon, unanswered, bits, degree, answers, exchanges, open, counters, discount, window] =
            names.each_ref();
        let mut fields = vec![
            ("linear", reference("LinearConfig"), "The linear bandit."),
            (horizon.as_str(), count(), "The number of rounds for which numbers are scaled."),
            (
                unanswered,
                count(),
                "The most feedbacks that may arrive before the trace is answered, from 1 to 64.",
            ),
            (bits, count(), "The resolution of the comparison is 2 to the power of minus this: 6, 8 or 10."),
            (degree, count(), "The degree of the polynomial of the square root: 15 or 31."),
            (answers, one_of(&["arm", "scores"]), "What a user learns from a decision."),
            (
                exchanges,
                or_null(one_of(&["one", "staged"])),
                "How often an evaluation asks a holder of the key; null: as the keys were made for.",
            ),
            (open, truth(), "That everyone who holds the key may see the model."),
            (counters, or_null(reference("Counters")), "Encrypted counters per arm; null for none."),
            (
                discount,
                or_null(number()),
                "The factor by which a feedback counts less with each feedback after it, above 0 and at most 0.999999, \
                 or 1; null: all feedback counts alike.",
            ),
            (window, or_null(from_one()), "The feedbacks after which a feedback counts no more; null: none."),
        ];
        if let Some(policy) = policy {
            fields.push(policy);
            fields.push(("method?", json!({ "const": "default" }), "May be left out."));
            fields.extend(given_labels());
        }
        object("The configuration of an encrypted bandit.", &fields)
    };
    let helba = ("policy?", json!({ "const": "helba" }), "May be left out.");
    let plan = object(
        "Levels and sizes, which follow from configuration and keys.",
        &[
            (
                "updates",
                json!({ "enum": ["slots", "products"] }),
                "How updates are computed. By products they have no levels: those of statistics, model and refresh are 0.",
            ),
            ("exchanges", one_of(&["one", "staged"]), "How often an evaluation asks a holder of the key."),
            ("keys", one_of(&["shared", "own"]), "Whose keys users have."),
            ("scores_level", count(), "The level of raised scores."),
            ("statistics_level", count(), "The level of raised statistics."),
            ("model_level", count(), "The level of a refreshed model."),
            ("refresh_level", count(), "The level of a masked model."),
            ("answer_level", count(), "The level of answers and of trace questions."),
            ("newton_steps", count(), "The number of Newton steps of an update after the longest batch."),
            ("users", count(), "The most users of an evaluation."),
            ("model_slots", count(), "The period of the slots of the model."),
            ("design_scale", number(), "The scaling of the statistics."),
        ],
    );
    let created = [
        ("id", hex_id(), "The id of the bandit in paths."),
        ("config", config(None, ""), "The configuration, with defaults filled in."),
        ("plan", reference("Plan"), "Levels and sizes."),
        ("key_id", hex(), "The id of the key pair of the deep ring."),
        ("fingerprint", hex(), "The fingerprint of its parameters."),
        ("scores_key_id", hex(), "The id of the key pair of the ring of scores."),
        ("scores_fingerprint", hex(), "The fingerprint of its parameters."),
        (
            "label",
            or_null(text()),
            "What holders of the key learn beyond their arms; null if that is nothing.",
        ),
        ("origin", or_null(hex_id()), "The id of the bandit that it is a copy of; null if it is none."),
    ];
    let status = object(
        "The counters of an encrypted bandit, which are public.",
        &[
            ("round", count(), "The number of decisions and logged rounds."),
            ("feedbacks", count(), "The number of feedbacks and logged rounds counted."),
            ("model_feedbacks", count(), "The number of feedbacks in the current model."),
            ("batches", count(), "The number of batches closed."),
            ("refreshes", count(), "The number of models that holders of the key encrypted anew."),
            ("updating", truth(), "Whether the update of a batch is due or runs."),
            ("refresh_due", truth(), "Whether a masked model waits for a holder of the key."),
            ("pending_decisions", count(), "The number of decisions that wait for feedback."),
            ("frozen", truth(), "Whether the bandit decides with its model and learns nothing."),
        ],
    );
    let view = labelled(
        "An encrypted bandit and its state.",
        &[
            ("created", reference("Created"), "The bandit as it was created."),
            ("status", reference("Status"), "The counters and the phase."),
        ],
    );
    let receipt = object(
        "The receipt of a feedback on an encrypted decision.",
        &[
            ("decision", hex_id(), "The decision."),
            ("feedbacks", count(), "The number of feedbacks counted so far."),
            ("batches", count(), "The number of batches closed so far."),
        ],
    );
    let erasure = object(
        "The receipt of an erased feedback.",
        &[
            ("decision", hex_id(), "The decision."),
            ("batches", count(), "The number of batches closed so far."),
            ("code", hex_id(), "A message authentication code that the server alone computes."),
            (
                "copies",
                list(hex_id()),
                "The copies of the bandit from which it is erased too: all that had it.",
            ),
        ],
    );
    let members_here = object(
        "The members of a committee who are here.",
        &[("here", list(count()), "Their numbers."), ("needed", count(), "How many must be.")],
    );
    let committee_erasure = object(
        "The answer of a committee's server to an erasure.",
        &[
            ("erased", truth(), "True."),
            (
                "learnt",
                truth(),
                "Whether the model has the feedback until the next update; otherwise no model had it.",
            ),
        ],
    );
    let learn_receipt = object(
        "The receipt of logged rounds.",
        &[
            ("id", hex_id(), "The id of the request."),
            ("rounds", count(), "The logged rounds that were learnt with it."),
            ("feedbacks", count(), "The number of feedbacks and logged rounds counted so far."),
            ("batches", count(), "The number of batches closed so far."),
            ("erasable", truth(), "Whether single rounds of them can be erased: false."),
        ],
    );
    vec![
        ("Width", width),
        ("Schedule", schedule),
        ("LinearConfig", linear),
        ("Counters", counters),
        ("CommitteeCounters", committee_counters),
        ("BanditConfig", config(Some(helba), "?")),
        ("Plan", plan),
        ("Created", object("An encrypted bandit as it was created.", &created)),
        ("ListedEncrypted", labelled("An encrypted bandit, with its name and tags.", &created)),
        ("Status", status),
        ("BanditView", view),
        ("Receipt", receipt),
        ("Erasure", erasure),
        ("MembersHere", members_here),
        ("CommitteeErasure", committee_erasure),
        ("LearnReceipt", learn_receipt),
    ]
}

/// The messages of bandits of the paper's method.
fn paper() -> Named {
    let method = || ("method", json!({ "const": "paper" }), "The method.");
    let linear = || ("linear", reference("LinearConfig"), "The linear bandit, of 2 features and 2 arms.");
    let config = [&[method(), linear()][..], &given_labels()].concat();
    let created = [
        ("id", hex_id(), "The id of the bandit in paths."),
        method(),
        linear(),
        ("key_id", hex(), "The id of the key pair."),
        ("fingerprint", hex(), "The fingerprint of the parameters."),
        ("top_level", count(), "The level of the vectors that a device encrypts and raises."),
        ("raise_level", count(), "The level of masked vectors."),
        ("answer_level", count(), "The level of answers."),
    ];
    let status = object(
        "The counters, which are public.",
        &[
            ("round", count(), "The number of decisions."),
            ("feedbacks", count(), "The number of feedbacks."),
            ("model_feedbacks", count(), "The number of feedbacks in the model."),
            ("batches", count(), "The number of batches closed."),
            ("raises", count(), "The number of raises of all decisions."),
            ("pending_decisions", count(), "The number of decisions that wait for feedback, 0 or 1."),
        ],
    );
    let of_created = || object("A bandit of the paper's method as it was created.", &created);
    let view = labelled(
        "A bandit of the paper's method and its counters.",
        &[("created", of_created(), "The bandit as it was created."), ("status", status, "The counters.")],
    );
    let manifest = object(
        "The manifest of the public keys of the paper's method.",
        &[
            method(),
            ("params", text(), "The name of the parameter set."),
            ("fingerprint", hex(), "The fingerprint of the parameters."),
            ("key_id", hex(), "The id of the key pair."),
            ("security_bits", count(), "The security of the parameters, in bits; 0 for toy keys."),
            ("log2_qp", number(), "The binary logarithm of the largest modulus."),
            ("created", text(), "The time of key generation (RFC 3339)."),
            ("frames", count(), "The number of frames."),
            ("token_digest", hex(), "The digest of the token in the secret bundle."),
        ],
    );
    vec![
        ("PaperConfig", object("The configuration of a bandit of the paper's method.", &config)),
        ("ListedPaper", labelled("A bandit of the paper's method, with its name and tags.", &created)),
        ("PaperView", view),
        ("PaperManifest", manifest),
    ]
}

fn keys() -> Named {
    let ring = || {
        vec![
            ("params", text(), "The name of the parameter set."),
            ("fingerprint", hex(), "The fingerprint of the parameters."),
            ("key_id", hex(), "The id of the key pair."),
            ("security_bits", count(), "The security of the parameters, in bits; 0 for toy keys."),
            (
                "log2_qp",
                number(),
                "The binary logarithm of the largest modulus under which anything is encrypted.",
            ),
            ("frames", count(), "The number of frames."),
        ]
    };
    let shape = object(
        "The shape of the problems that the keys serve.",
        &[
            ("dim", from_one(), "Features, rounded up to a power of two."),
            ("arm_slots", from_one(), "Arms, rounded up to a power of two."),
        ],
    );
    let answers = object(
        "The keys of answers.",
        &[
            ("fingerprint", hex(), "The fingerprint of the parameters."),
            ("log2_qp", number(), "The binary logarithm of the largest modulus of answers."),
            ("frames", count(), "The number of frames."),
        ],
    );
    let mut scores = ring();
    scores.push(("answers", answers, "The keys of answers."));
    let mut manifest = ring();
    manifest.extend([
        ("shape", shape, "The shape of the problems that the keys serve."),
        (
            "width",
            json!({ "enum": ["tangent", "root"] }),
            "The width of the bandits that the keys serve; those of a root serve both.",
        ),
        (
            "updates",
            json!({ "enum": ["slots", "products"] }),
            "How the updates of the bandits of these keys are computed.",
        ),
        (
            "exchanges",
            one_of(&["one", "staged"]),
            "How often the evaluations of the bandits of these keys ask a holder of the key.",
        ),
        (
            "enroller?",
            hex(),
            "The public key of the owner who enrols users, if these have keys of their own.",
        ),
        ("created", text(), "The time of key generation (RFC 3339)."),
        ("token_digest", hex(), "The digest of the token in the secret bundle."),
        (
            "decisions?",
            object("The keys of the ring of evaluations.", &ring()),
            "The keys of the ring of evaluations, if it is not the large one.",
        ),
        ("scores", object("The keys of the ring of scores.", &scores), "The keys of the ring of scores."),
    ]);
    vec![("Manifest", object("The manifest of the public key bundle.", &manifest))]
}
