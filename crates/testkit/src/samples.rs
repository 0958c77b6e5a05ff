//! Valid messages and bundles, the same in every run.

use bandit::Schedule;
use ckks::{KeyId, Params, ParamsSpec, PublicKey, TOY_LOGN11_SCORES, TOY_LOGN12_DEPTH11, TOY_LOGN12_DEPTH21};
use ckks_secret::SecretKey;
use protocol::{
    BanditConfig, Counters, DecisionId, LearnId, Plan, QuestionId, Rings, ScoreLayout, ScoreRing, Shape,
    TaskKind,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use wire::{
    AccessToken, AnswersManifest, BundleKind, BundleWriter, Created, DecideReply, Decision,
    DecisionsManifest, LearnRequest, Limits, Manifest, RaiseTask, Raised, Raises, RingManifest,
    ScoresManifest, SecretBundle, Ticket, TraceQuestion, TracedFeedback,
};

/// A bandit of 2 features and 2 arms under toy keys, with the trace condition and counters, so that its
/// messages have all parts.
///
/// # Panics
/// Never: the keys carry the problem.
pub fn created() -> Created {
    let mut config = BanditConfig::new(2, 2);
    config.linear.schedule = Schedule::TraceOrGrowth;
    config.counters = Some(Counters::default());
    let (ring, rings, small) = rings();
    let plan = config.plan(&rings, shape(), ring).expect("a plan of these rings");
    let [id, small_id] = [1, 2].map(|byte| KeyId([byte; 16]));
    Created::new("bandit".into(), config, plan, (&rings.updates, id), (&small, small_id))
}

/// The limits of messages of [`created`] with another plan.
///
/// # Errors
/// As [`Limits::new`].
///
/// # Panics
/// Never: the rings are valid.
pub fn limits_of(plan: &Plan) -> Result<Limits, wire::Error> {
    let (config, (ring, rings, small)) = (created().config, rings());
    let answers = ring.answers(rings.decisions.spec()).validate().expect("a prefix of the set");
    let layout = ScoreLayout::new(&config, plan, ring);
    Limits::new(&rings, &small, &answers, &config, plan, &layout)
}

/// The limits of messages of [`created`].
///
/// # Panics
/// Never: the plan is one of these rings.
pub fn limits() -> Limits {
    limits_of(&created().plan).expect("levels of these rings")
}

fn shape() -> Shape {
    Shape::for_problem(2, 2)
}

/// The rings of the bundles and of [`created`].
fn rings() -> (ScoreRing, Rings, Params) {
    let [updates, decisions, small] = [TOY_LOGN12_DEPTH21, TOY_LOGN12_DEPTH11, TOY_LOGN11_SCORES]
        .map(|spec| spec.validate().expect("a toy set"));
    let ring = ScoreRing::for_shape(shape(), true).expect("a ring of scores");
    (ring, Rings { decisions, ..Rings::from(&updates) }, small)
}

/// A trace question.
pub const QUESTION: QuestionId = QuestionId { feedbacks: 300, model_feedbacks: 200, code: [6; 16] };

/// A reply with all parts. The parts are no ciphertexts.
pub fn reply() -> DecideReply {
    let decision = Decision {
        nonce: None,
        id: DecisionId([1; 16]),
        others: vec![DecisionId([2; 16]), DecisionId([3; 16])],
        round: 3,
        model_feedbacks: 2,
        user: 5,
        users: 9,
        answer: vec![1; 50],
        question: Some(TraceQuestion { id: QUESTION, frame: vec![2; 40] }),
    };
    let task = |id, kind| RaiseTask { id, kind, masked: vec![vec![id as u8; 30]], pads: Vec::new() };
    DecideReply {
        decision: Some(decision),
        ticket: Some(Ticket([4; 16])),
        tasks: vec![task(8, TaskKind::Scores { factors: [0.5, 0.25, 0.0] }), task(9, TaskKind::Model)],
    }
}

/// Answers to tasks, with all parts. The parts are no ciphertexts.
pub fn raises() -> Raises {
    let model = Raised::Model { deep: vec![1; 30], scores: vec![2; 20] };
    Raises { ticket: Some(Ticket([1; 16])), raised: vec![(1, Raised::Sum(vec![5; 10])), (2, model)] }
}

/// A feedback with all parts. The parts are no ciphertexts.
pub fn feedback() -> TracedFeedback {
    TracedFeedback { statistics: vec![1; 50], trace: vec![2; 40], answer: Some((QUESTION, true)) }
}

/// A request with logged rounds.
pub fn learn() -> LearnRequest {
    LearnRequest { id: LearnId([8; 16]), rounds: 3, statistics: vec![1; 50] }
}

/// Bundles of the same toy keys.
pub struct Bundles {
    /// The public keys of both rings and no evaluation key, so that it is refused only when its keys are
    /// checked for completeness.
    pub public: Vec<u8>,
    /// The secret bundle.
    pub secret: Vec<u8>,
}

/// Bundles of toy keys.
///
/// # Panics
/// Never: the parameters are valid, and vectors can be written.
pub fn bundles() -> Bundles {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let (params, secret, public, id) = key_pair(TOY_LOGN12_DEPTH21, &mut rng);
    let (decisions, own_secret, own_public, own_id) = key_pair(TOY_LOGN12_DEPTH11, &mut rng);
    let (small, small_secret, small_public, small_id) = key_pair(TOY_LOGN11_SCORES, &mut rng);
    let token = AccessToken::generate(&mut rng);
    let (shape, (ring, ..)) = (shape(), rings());
    let answers = ring.answers(decisions.spec()).validate().expect("a prefix of the set");
    let manifest = |frames| {
        let scores = ScoresManifest {
            ring: RingManifest::new(&small, small_id),
            frames: 1,
            answers: AnswersManifest::new(&answers, 0),
        };
        let of_decisions = DecisionsManifest { ring: RingManifest::new(&decisions, own_id), frames: 1 };
        Manifest::new(&params, id, shape, 0, frames, token.digest(), scores).with_decisions(of_decisions)
    };
    let head = manifest(1);
    let mut writer = BundleWriter::new(BundleKind::Public, &head, Vec::new()).expect("a vector");
    for (params, key) in [(&params, &public), (&decisions, &own_public), (&small, &small_public)] {
        writer.frame(&ckks::write_public_key(params, key)).expect("a vector");
    }
    let frames = [(&secret, id), (&own_secret, own_id), (&small_secret, small_id)]
        .map(|(secret, id)| secret.to_bytes(id));
    let frames = frames.each_ref().map(|frame| &frame[..]);
    let head = manifest(2);
    let secret = SecretBundle::write(&head, &frames, &token, Vec::new());
    Bundles { public: writer.finish().expect("three frames").0, secret: secret.expect("a vector").0 }
}

fn key_pair(spec: ParamsSpec, rng: &mut ChaCha20Rng) -> (Params, SecretKey, PublicKey, KeyId) {
    let params = spec.validate().expect("a toy set");
    let secret = SecretKey::generate(&params, rng);
    let public = ckks_secret::public_key(&secret, rng);
    let id = public.id(&params);
    (params, secret, public, id)
}
