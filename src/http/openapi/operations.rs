//! What each route takes and answers.

use super::schemas::{field, reference};
use crate::access::Route;
use crate::policy::cards;
use serde_json::{Map, Value, json};
use wire::{
    DECISIONS_HEADER, ENROLMENT_HEADER, ERASURE_HEADER, IDEMPOTENCY_HEADER, OCTET_STREAM, ProblemType,
    SENDER_HEADER,
};

pub(super) const ABOUT: &str = "A server of contextual bandits. Encrypted bandits decide and learn on ciphertexts, which the \
    server cannot decrypt: the messages of a device are binary, and are described in the crate `wire` \
    (`crates/wire/src/encrypted.rs`). Bandits with policies in the clear take and answer JSON; each states its privacy. \
    Errors are problem documents (RFC 9457) whose `reason` is stable. A request that is no HTTP, or whose head is too long, \
    is answered 400 or 431 without a body, and a connection beyond the bound 503, before any route is found. Each answer \
    has a header `request-id`, which the log names too: that of the request if it has 1 to 64 letters, digits, `-`, `_` or `.`. \
    Pages of the origins that `--cors-origin` names may send requests and read the answers, and preflight requests of theirs \
    (`OPTIONS` on any path) are answered 204; those of other origins than the server's own get `foreign_origin`.";

/// An operation without what follows from the table of routes.
pub(super) struct Operation {
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) about: &'static str,
    pub(super) parameters: Vec<Value>,
    /// The request body object, of a route that reads one.
    pub(super) body: Option<Value>,
    /// The answers that are no problems, by status.
    pub(super) answers: Vec<(u16, Value)>,
    /// The problems that are particular to the route.
    pub(super) problems: Vec<ProblemType>,
}

impl Operation {
    fn new(id: &'static str, tag: &'static str, summary: &'static str, about: &'static str) -> Self {
        let (parameters, answers, problems) = Default::default();
        Operation { id, tag, summary, about, parameters, body: None, answers, problems }
    }

    fn takes<const N: usize>(mut self, parameters: [Value; N]) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// The types of a body that must be there.
    fn reads(mut self, content: Value) -> Self {
        self.body = Some(json!({ "required": true, "content": content }));
        self
    }

    fn reads_frame(self, about: &str) -> Self {
        self.reads(json!({ OCTET_STREAM: binary(about) }))
    }

    fn answers(mut self, answer: (u16, Value)) -> Self {
        self.answers.push(answer);
        self
    }

    fn frame(self, about: &str, frame: &str) -> Self {
        self.answers(ok(about, json!({ OCTET_STREAM: binary(frame) })))
    }

    fn json(self, about: &str, schema: Value) -> Self {
        self.answers(ok(about, json!({ "application/json": json_of(schema) })))
    }

    fn page(self, about: &str, content_type: &str) -> Self {
        self.answers(ok(about, json!({ content_type: { "schema": { "type": "string" } } })))
    }

    /// Answers 304 besides, by the `ETag` of the answer.
    fn tagged(mut self) -> Self {
        self.answers = self.answers.pop().map(tagged).unwrap_or_default();
        self
    }

    fn fails<const N: usize>(mut self, problems: [ProblemType; N]) -> Self {
        self.problems.extend(problems);
        self
    }
}

const SERVER: &str = "server";
const BANDITS: &str = "bandits";
const ROUNDS: &str = "rounds";
const KEY_HOLDERS: &str = "holders of the key";
const INTERMEDIARIES: &str = "intermediaries";

pub(super) fn tags() -> Value {
    json!([
        { "name": SERVER, "description": "The server: its health, keys, policies and this description." },
        { "name": BANDITS, "description": "Bandits are created, listed, shown, labelled and deleted." },
        { "name": ROUNDS, "description": "A round: a decision, and its feedback." },
        { "name": KEY_HOLDERS, "description": "What encrypted bandits ask of the holders of their key." },
        { "name": INTERMEDIARIES, "description": "Sums of batches, where users answer an intermediary." },
    ])
}

/// A binary message may be of any content here: the server checks its frames.
fn binary(about: &str) -> Value {
    json!({ "schema": { "type": "string", "format": "binary", "description": about } })
}

fn json_of(schema: Value) -> Value {
    json!({ "schema": schema })
}

fn ok(about: &str, content: Value) -> (u16, Value) {
    (200, json!({ "description": about, "content": content }))
}

/// The headers and the 304 of an answer with an `ETag`.
fn tagged((status, mut answer): (u16, Value)) -> Vec<(u16, Value)> {
    let etag = json!({ "etag": { "required": true, "schema": { "type": "string" },
        "description": "Changes with the content; send it as `If-None-Match` to get 304 while it is the same." } });
    answer["headers"] = etag.clone();
    vec![
        (status, answer),
        (304, json!({ "description": "The content is that of `If-None-Match`.", "headers": etag })),
    ]
}

fn if_none_match() -> Value {
    json!({ "name": "if-none-match", "in": "header", "description": "The `ETag` of an earlier answer.",
        "schema": { "type": "string" } })
}

fn id() -> Value {
    json!({ "name": "id", "in": "path", "required": true, "description": "The id of the bandit.",
        "schema": { "type": "string", "minLength": 1 } })
}

fn decision() -> Value {
    json!({ "name": "decision", "in": "path", "required": true, "description": "The id of the decision.",
        "schema": { "type": "string", "minLength": 1 } })
}

fn member() -> Value {
    json!({ "name": "member", "in": "path", "required": true, "description": "The number of the member, from 1.",
        "schema": { "type": "integer", "minimum": 1, "maximum": 16 } })
}

fn sender() -> Value {
    json!({ "name": SENDER_HEADER, "in": "header",
        "description": "Tells apart senders of contexts that use one token. Clear policies do not need it.",
        "schema": { "type": "string", "pattern": "^[0-9a-f]{32}$" } })
}

fn enrolment() -> Value {
    json!({ "name": ENROLMENT_HEADER, "in": "header",
        "description": "The enrolment of a user with a key of its own, whose token it names, in hexadecimal digits. Without it \
                        such a token is unknown.",
        "schema": { "type": "string", "pattern": "^([0-9a-f]{2})+$" } })
}

fn session() -> Value {
    json!({ "name": "session", "in": "query",
        "description": "For a bandit of a committee: the id of the device's session. A decision of another session is refused.",
        "schema": { "type": "string", "pattern": "^[0-9a-f]{64}$" } })
}

/// The problems of a route about a bandit.
const FIND: [ProblemType; 3] = [ProblemType::UnknownPath, ProblemType::UnknownBandit, ProblemType::NoKeys];
/// Those of binary messages.
const FRAMES: [ProblemType; 7] = [
    ProblemType::Malformed,
    ProblemType::WrongVersion,
    ProblemType::WrongParameters,
    ProblemType::WrongKey,
    ProblemType::ResidueTooLarge,
    ProblemType::WrongLevel,
    ProblemType::BadValue,
];

pub(super) fn root() -> Operation {
    let page = json!({ "application/json": json_of(reference("Root")), "text/html": { "schema": { "type": "string" } } });
    let about = "Name, version and links, as JSON; as a page for a client whose `Accept` names `text/html`.";
    Operation::new("root", SERVER, "Says what this is", about).answers(ok("Name, version and links.", page))
}

pub(super) fn dashboard() -> Operation {
    let about = "It shows what `GET /v1/metrics` answers, for the token that is typed into it.";
    Operation::new("dashboard", SERVER, "A page to watch the server", about).page("The page.", "text/html")
}

pub(super) fn prometheus() -> Operation {
    let about = "The text format 0.0.4, with the first 1000 bandits that the token gives access to.";
    let what = "What the server measures of itself, for Prometheus";
    Operation::new("prometheus", SERVER, what, about).page("The numbers.", "text/plain")
}

pub(super) fn operation(route: Route) -> Operation {
    use ProblemType as P;
    let after = || {
        json!({ "name": "after", "in": "query", "schema": { "type": "string", "pattern": "^[A-Za-z0-9_-]{0,64}$" },
            "description": "Only bandits whose ids are above this one." })
    };
    let state = || {
        field(
            json!({ "anyOf": [reference("PolicyView"), reference("BanditView"), reference("PaperView")] }),
            "That of a clear policy, of an encrypted bandit, or of one of the paper's method.",
        )
    };
    match route {
        Route::Health => Operation::new("health", SERVER, "Answers while the server runs", "")
            .json("The server runs.", reference("Health")),
        Route::OpenApi => Operation::new("openapi", SERVER, "This description", "An OpenAPI 3.1 document.")
            .takes([if_none_match()])
            .json("The document.", json!({ "type": "object" }))
            .tagged(),
        Route::Docs => {
            Operation::new("docs", SERVER, "A page to read this description and to send requests", "")
                .page("The page.", "text/html")
        }
        Route::Keys => Operation::new("keys", SERVER, "The manifest of the public key bundle", "")
            .json("The manifest.", json!({ "anyOf": [reference("Manifest"), reference("PaperManifest")] }))
            .fails([P::NoKeys]),
        Route::Policies => {
            Operation::new("policies", SERVER, "Every policy, with an example of its creation request", "")
                .json("The policies.", json!({ "type": "array", "items": reference("PolicyCard") }))
        }
        Route::Metrics => Operation::new(
            "metrics",
            SERVER,
            "What the server measures of itself",
            "Counters, sizes and times since the start of the server, and the numbers of bandits that the token gives \
             access to. The token of the secret bundle is refused where tokens are on.",
        )
        .takes([
            json!({ "name": "limit", "in": "query", "description": "The most bandits.",
                "schema": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 } }),
            after(),
        ])
        .json("The numbers.", reference("Metrics"))
        .fails([P::Malformed, P::BadValue]),
        Route::List => {
            let mut listed = ok(
                "The bandits.",
                json!({ "application/json": json_of(json!({ "type": "array", "items": reference("Listed") })) }),
            );
            listed.1["headers"]["link"] = json!({ "schema": { "type": "string" },
                "description": "The next page, with `rel=\"next\"`, if there is one." });
            Operation::new(
                "list_bandits",
                BANDITS,
                "Lists the bandits that the token gives access to, by their ids",
                "Without a token: those with clear policies, where tokens are off.",
            )
            .takes([
                json!({ "name": "limit", "in": "query", "description": "The most bandits. A page ends before 1 MiB too.",
                    "schema": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 1000 } }),
                after(),
                json!({ "name": "name", "in": "query", "schema": { "type": "string" },
                    "description": "Only bandits with this name." }),
                json!({ "name": "tag", "in": "query", "schema": { "type": "string" },
                    "description": "Only bandits with this tag." }),
            ])
            .answers(listed)
            .fails([P::Malformed, P::BadValue])
        }
        Route::Create => create(),
        Route::Show => {
            Operation::new("show_bandit", BANDITS, "The configuration and the state of a bandit", "")
                .takes([id(), if_none_match()])
                .json("The state.", state())
                .tagged()
                .fails(FIND)
                .fails([P::DiskFull])
        }
        Route::Relabel => {
            let mut operation = Operation::new(
                "label_bandit",
                BANDITS,
                "Changes name and tags of a bandit",
                "A JSON merge patch (RFC 7396). Names and tags need not be unique; the server reads them.",
            )
            .takes([
                id(),
                json!({ "name": "if-match", "in": "header", "schema": { "type": "string" },
                    "description": "An `ETag` of the bandit. The change is refused if name or tags have changed since; what \
                        follows the hyphen of the `ETag` is compared, since decisions change the rest." }),
            ])
            .reads(json!({ "application/json": {
                "schema": reference("LabelsPatch"), "example": { "name": "Shop", "tags": ["live"] } } }))
            .json("The state.", state())
            .tagged()
            .fails(FIND)
            .fails([P::Malformed, P::BadValue, P::Changed, P::DiskFull]);
            operation.answers.truncate(1);
            operation
        }
        Route::Copy => Operation::new(
            "copy_bandit",
            BANDITS,
            "Creates a copy of an encrypted bandit",
            "The copy begins with the sums and the model of the original, and learns from then on by itself. What is given replaces fields \
             of the configuration that sums and model do not depend on, such as `linear.width`; bandits with counters and of \
             `trace_or_growth` are not copied. It is answered when the copy is on disk.",
        )
        .takes([id(), idempotency()])
        .reads(json!({ "application/json": { "schema": reference("Copy"), "example": { "name": "Shop, exploring less" } } }))
        .answers((201, created()))
        .fails(FIND)
        .fails([P::BadConfiguration, P::BadValue, P::NotEncrypted, P::KeyReused, P::TooManyBandits, P::DiskFull]),
        Route::Freeze => Operation::new(
            "freeze_bandit",
            BANDITS,
            "Freezes or thaws an encrypted bandit",
            "A frozen bandit decides with the model that it has, and learns nothing: feedback and logged rounds are refused \
             (`frozen`), an update that is under way waits, and decisions wait on for their feedback. It is answered when that \
             is on disk, and a repeated request changes nothing. Others than encrypted bandits of a key bundle are refused.",
        )
        .takes([id()])
        .reads(json!({ "application/json": { "schema": reference("Freeze"), "example": { "frozen": true } } }))
        .json("The counters of the bandit.", reference("Status"))
        .fails(FIND)
        .fails([P::Malformed, P::NotEncrypted, P::DiskFull]),
        Route::Delete => {
            Operation::new("delete_bandit", BANDITS, "Deletes a bandit and its stored state", "")
                .takes([id()])
                .answers((204, json!({ "description": "It is deleted, also on disk." })))
                .fails(FIND)
                .fails([P::DiskFull])
        }
        Route::Decide => decide(),
        Route::Again => Operation::new(
            "ask_again",
            ROUNDS,
            "Gives another answer to an encrypted decision",
            "For a device that cannot rely on the last answer. It is answered when others have asked too.",
        )
        .takes([id(), decision(), sender(), enrolment()])
        .reads_frame("`AskAgain`: the number of answers to this decision so far, in a frame of some tens of bytes.")
        .frame("The answer, as to a decision.", "`DecideReply`.")
        .fails(FIND)
        .fails(FRAMES)
        .fails([P::UnknownDecision, P::NotEncrypted, P::NotKept, P::AskedAgain, P::OtherSender])
        .fails([P::TooFewAsked, P::Alone, P::Answered, P::NotEvaluated]),
        Route::Feedback => feedback(),
        Route::Erase => Operation::new(
            "erase_feedback",
            ROUNDS,
            "Erases the feedback on an encrypted decision",
            "It is answered when that is on disk. The feedback is subtracted from the sum of the batch that is closed next, \
             or with a discount or a window from the sum that it is in, so that the model after it has nothing of it. A repeated request changes nothing.",
        )
        .takes([
            id(),
            decision(),
            session(),
            enrolment(),
            json!({ "name": ERASURE_HEADER, "in": "header",
                "description": "For a bandit of a committee, which needs it: the MACs of the device.",
                "schema": { "type": "string", "pattern": "^([0-9a-f]{2})*$" } }),
        ])
        .json(
            "The feedback is erased.",
            json!({ "anyOf": [reference("Erasure"), reference("CommitteeErasure")] }),
        )
        .fails(FIND)
        .fails([P::UnknownDecision, P::NotEncrypted, P::NotKept, P::BadValue, P::DiskFull]),
        Route::Learn => Operation::new(
            "learn",
            ROUNDS,
            "Learns logged rounds in bulk",
            "It is answered when that is on disk. The rounds count as so many decisions with feedback. A repeated request with the same id \
             changes nothing. Single rounds of them cannot be erased, because the server has their sum alone. A bandit with the schedule \
             `trace_or_growth` takes none (`bad_value`). After `still_learning`, answer the tasks of \
             the bandit and send the request again.",
        )
        .takes([id()])
        .reads_frame("`LearnRequest`: an id that the sender chooses, the number of rounds (at most 1000), and one ciphertext with the sum of their feedbacks.")
        .json("The rounds are learnt.", reference("LearnReceipt"))
        .fails(FIND)
        .fails(FRAMES)
        .fails([P::NotEncrypted, P::BadValue, P::StillLearning, P::Frozen, P::DiskFull]),
        Route::Counters => Operation::new(
            "counters",
            KEY_HOLDERS,
            "Shows the counters of an encrypted bandit, or of one of a committee",
            "How often each arm was played and the sum of its rewards, over the first feedbacks in a multiple of `counters.every`. \
             Whoever asks before the next group is whole gets the same bytes. A committee has opened its own, which are JSON: \
             those of at least `counters.every` feedbacks more each time, less what was erased.",
        )
        .takes([id()])
        .answers(ok(
            "The counters.",
            json!({
                OCTET_STREAM: binary("`ShownCounters`: a sum over whole groups of feedbacks, which a holder of the key decrypts."),
                "application/json": json_of(reference("CommitteeCounters")),
            }),
        ))
        .fails(FIND)
        .fails([P::NotEncrypted, P::NoCounters, P::DiskFull]),
        Route::Model => Operation::new(
            "model",
            KEY_HOLDERS,
            "Shows the encrypted model of a bandit",
            "The model that it decides with, for a holder of its key who exports it. Others than encrypted bandits of a key bundle \
             are refused.",
        )
        .takes([id()])
        .frame("The model.", "`ShownModel`: the number of feedbacks in it, and ciphertexts of the ring of scores.")
        .fails(FIND)
        .fails([P::NotEncrypted, P::DiskFull]),
        Route::Tasks => Operation::new(
            "tasks",
            KEY_HOLDERS,
            "Waits for tasks of an encrypted bandit",
            "For `helba-raiser`: masked ciphertexts, which a holder of the key decrypts and encrypts anew.",
        )
        .takes([
            id(),
            json!({ "name": "wait", "in": "query",
                "description": "Seconds to wait for a task. More than 30 are taken as 30.",
                "schema": { "type": "integer", "minimum": 0, "maximum": u64::MAX, "default": 0 } }),
        ])
        .frame("Tasks.", "`DecideReply` with tasks and no decision.")
        .answers((204, json!({ "description": "There was no task." })))
        .fails(FIND)
        .fails([P::Malformed, P::NotEncrypted]),
        Route::Raise => Operation::new(
            "raise",
            KEY_HOLDERS,
            "Takes the answers to tasks",
            "A user who was asked in place of its answer gets its decision here.",
        )
        .takes([id()])
        .reads_frame("`Raises`: a ciphertext of a large ring for each task, up to some MB, and the ticket of a user who waits; for a bandit of the paper's method `PaperAnswer`.")
        .frame("The decision of the ticket, or an empty reply.", "`DecideReply`, or `PaperReply`.")
        .fails(FIND)
        .fails(FRAMES)
        .fails([P::NotEncrypted, P::TaskOver, P::NotEvaluated, P::Over, P::DiskFull]),
        Route::Committee => Operation::new(
            "committee",
            SERVER,
            "The committee: its members, their public keys, and the hashes of their keys",
            "Devices and members begin from it. Compare its id, which `helba-member` prints, with the members.",
        )
        .frame(
            "The manifest, which all members have signed, and what shows that the committees before have moved to it.",
            "`moves::Serving` of the crate `shares`.",
        )
        .fails([P::NoKeys]),
        Route::Members => Operation::new(
            "members",
            SERVER,
            "The members of the committee who are here",
            "A device that waits says by it how many are missing.",
        )
        .json("Their numbers, and how many must be here.", reference("MembersHere"))
        .fails([P::NoKeys]),
        Route::Session => Operation::new(
            "session",
            ROUNDS,
            "Begins a session of a device with a committee",
            "Decisions and feedback of the device are under keys of the session, which this server does not see.",
        )
        .reads_frame("`Session` of the crate `shares`: the keys of a device, sealed to each member.")
        .answers((
            201,
            json!({ "description": "The receipts of the members who have read it.",
                "content": { OCTET_STREAM: binary("`Signatures` of the crate `shares`.") } }),
        ))
        .fails([P::NoKeys, P::Malformed, P::UnknownSession, P::NotEvaluated, P::DiskFull, P::NotStored]),
        Route::Rounds => Operation::new(
            "rounds",
            KEY_HOLDERS,
            "Takes what a member of a committee says, and waits for what it is told",
            "For `helba-member`: numbers under masks, signatures, and votes.",
        )
        .takes([member()])
        .reads_frame("`SignedPoll` of the crate `shares`: what the member says, and what it has taken.")
        .frame("What the member is told, after 25 s at most.", "Numbered `ToMember` of the crate `shares`.")
        .fails([P::NoKeys, P::UnknownPath, P::Malformed, P::CommitteeMoved, P::DiskFull, P::NotStored]),
        Route::Shuffled => Operation::new(
            "shuffled",
            INTERMEDIARIES,
            "Takes the sums of a batch",
            "From a shuffler or a secure sum. A repeated message gets the same answer.",
        )
        .takes([id()])
        .reads(json!({ "application/json": {
            "schema": reference("ShuffledBatch"),
            "example": { "exchange": 1, "users": 2, "labels": [[1, 0, 1]] } } }))
        .json("The batch is counted, and on disk.", reference("Counted"))
        .fails(FIND)
        .fails([P::Malformed, P::BadValue, P::TakesFeedback, P::BatchOver, P::Answered, P::Over, P::DiskFull]),
    }
}

fn create() -> Operation {
    use ProblemType as P;
    let examples: Map<String, Value> = cards()
        .unwrap_or_default()
        .into_iter()
        .enumerate()
        .map(|(n, card)| {
            (format!("{}-{n}", card.policy), json!({ "summary": card.about, "value": card.example }))
        })
        .collect();
    Operation::new(
        "create_bandit",
        BANDITS,
        "Creates a bandit",
        "Without `policy`, or with `helba`, an encrypted one, for which the server needs keys; with `method: paper` one that \
                computes by the circuits of the paper, which needs keys of its own. `GET /v1/policies` lists the \
                other policies. Parameters have bounds of their own and together, which the answer names. With an \
                `Idempotency-Key`, a repeated request gets the first answer and creates nothing.",
    )
    .takes([idempotency()])
    .reads(json!({ "application/json": { "schema": reference("CreationRequest"), "examples": examples } }))
    .answers((201, created()))
    .fails([P::BadConfiguration, P::BadValue, P::KeyReused, P::NoKeys, P::TooManyBandits, P::DiskFull])
}

/// The header of a creation that may be repeated.
fn idempotency() -> Value {
    json!({ "name": IDEMPOTENCY_HEADER, "in": "header",
        "description": "A text that names this creation, such as random digits. The answer to a creation is remembered for a             day, for the last 1024 creations with a key.",
        "schema": { "type": "string", "pattern": "^[!-~]{1,255}$" } })
}

/// A bandit that was created.
fn created() -> Value {
    let follow =
        |operation: &str| json!({ "operationId": operation, "parameters": { "id": "$response.body#/id" } });
    json!({
        "description": "The bandit, which is on disk.",
        "headers": { "location": { "required": true, "schema": { "type": "string" },
            "description": "The path of the bandit." } },
        "content": { "application/json": json_of(reference("Listed")) },
        "links": { "show": follow("show_bandit"), "decide": follow("decide"), "shuffled": follow("shuffled"),
            "label": follow("label_bandit"), "delete": follow("delete_bandit") },
    })
}

fn decide() -> Operation {
    use ProblemType as P;
    let decisions = json!({ "name": DECISIONS_HEADER, "in": "header",
        "description": "The number of decisions that the contexts of an encrypted bandit are for. 1 for clear policies.",
        "schema": { "type": "integer", "minimum": 1, "maximum": 128, "default": 1 } });
    let once = json!({ "name": IDEMPOTENCY_HEADER, "in": "header",
        "description": "A text that names this decision of a clear policy, such as random digits. The last 1024 of a bandit are \
            remembered. Encrypted bandits take none.",
        "schema": { "type": "string", "pattern": "^[!-~]{1,255}$" } });
    let contexts = "The contexts: a frame of a ciphertext in the ring of scores, of the bytes that the keys give \
                    (100,472 with keys of 128 bits). A bandit of the paper's method takes `PaperVectors`.";
    let reply = "`DecideReply`: the decision with the encrypted arm; or a ticket and tasks, which the user answers first. Of \
                 the paper's method `PaperReply`: the next task of the round, or the decision.";
    let answer = json!({ "application/json": json_of(reference("Decided")), OCTET_STREAM: binary(reply) });
    let mut answer = ok("The decision.", answer);
    answer.1["links"] = json!({ "feedback": { "operationId": "feedback",
        "parameters": { "id": "$request.path.id", "decision": "$response.body#/decision" } } });
    let mut operation = Operation::new(
        "decide",
        ROUNDS,
        "Makes a decision",
        "A clear policy takes JSON, or no body if its decisions take no contexts, and answers JSON. An encrypted bandit \
                takes and answers binary messages, and answers when the evaluation is done. With an `Idempotency-Key`, a clear \
                policy answers a repeated request with the first decision.",
    )
    .takes([id(), sender(), enrolment(), decisions, once])
    .answers(answer)
    .fails(FIND)
    .fails(FRAMES)
    .fails([P::Over, P::TooManyOpen, P::NotEvaluated, P::DiskFull, P::KeyReused]);
    operation.body = Some(json!({ "required": false, "content": {
        "application/json": { "schema": reference("DecideRequest"), "example": {} },
        OCTET_STREAM: binary(contexts) } }));
    operation
}

fn feedback() -> Operation {
    use ProblemType as P;
    let receipt = json!({ "anyOf": [reference("Counted"), reference("Receipt")] });
    let statistics = "The statistics: a partial ciphertext in the ring of scores (at most 1982 bytes with keys of 128 bits), or as \
                      many bytes of numbers under the pads of a user with a key of its own; under `trace_or_growth`, \
                      `TracedFeedback`; for a bandit of the paper's method, `PaperVectors`.";
    Operation::new(
        "feedback",
        ROUNDS,
        "Counts a feedback",
        "It is answered when the feedback is on disk. A repeated request counts nothing, and gets the first answer.",
    )
    .takes([id(), decision(), session(), enrolment()])
    .reads(json!({
        "application/json": { "schema": reference("ClearFeedback"), "example": { "reward": 1 } },
        OCTET_STREAM: binary(statistics) }))
    .json("The feedback is counted.", receipt)
    .fails(FIND)
    .fails(FRAMES)
    .fails([P::UnknownDecision, P::Settled, P::Answered, P::TakesBatches, P::Over, P::Expired, P::Frozen])
    .fails([P::DiskFull])
}
