//! Valid messages and bundles, the same in every run.

use bandit::Schedule;
use ckks::{KeyId, Params, ParamsSpec, PublicKey, TOY_LOGN11_SCORES, TOY_LOGN12_DEPTH21};
use ckks_secret::SecretKey;
use ckks_shares::SessionId;
use envelope::{SealingSecret, SigningSecret};
use protocol::{
    BanditConfig, Counters, DecisionId, LearnId, Plan, QuestionId, ScoreLayout, ScoreRing, Shape, TaskKind,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use wire::{
    AccessToken, AnswerUser, AnswersManifest, BundleKind, BundleWriter, CommitteeContexts, CommitteeManifest,
    Created, Custody, DecideReply, Decision, KeysDigest, LearnRequest, Limits, Manifest, MemberManifest,
    MemberReply, MemberRequest, OpenedAnswer, PublicBytes, Question, RaiseTask, Raised, Raises,
    ScoresManifest, SealedShare, SecretBundle, Ticket, TraceQuestion, TracedFeedback, UsersBundle, Wanted,
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
    let (ring, params, small) = rings();
    let plan = config.plan(&params, shape(), ring).expect("a plan of these rings");
    let [id, small_id] = [1, 2].map(|byte| KeyId([byte; 16]));
    Created::new("bandit".into(), config, plan, (&params, id), (&small, small_id))
}

/// The limits of messages of [`created`] with another plan.
///
/// # Errors
/// As [`Limits::new`].
///
/// # Panics
/// Never: the rings are valid.
pub fn limits_of(plan: &Plan) -> Result<Limits, wire::Error> {
    let (config, (ring, params, small)) = (created().config, rings());
    let answers = ring.answers(params.spec()).validate().expect("a prefix of the set");
    let layout = ScoreLayout::new(&config, plan, ring);
    Limits::new(&params, &small, &answers, &config, plan, &layout)
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
fn rings() -> (ScoreRing, Params, Params) {
    let [params, small] =
        [TOY_LOGN12_DEPTH21, TOY_LOGN11_SCORES].map(|spec| spec.validate().expect("a toy set"));
    (ScoreRing::for_shape(shape(), true).expect("a ring of scores"), params, small)
}

/// A trace question.
pub const QUESTION: QuestionId = QuestionId { feedbacks: 300, model_feedbacks: 200, code: [6; 16] };

/// A reply with all parts. The parts are no ciphertexts.
pub fn reply() -> DecideReply {
    let decision = Decision {
        id: DecisionId([1; 16]),
        others: vec![DecisionId([2; 16]), DecisionId([3; 16])],
        round: 3,
        model_feedbacks: 2,
        user: 5,
        users: 9,
        answer: vec![1; 50],
        question: Some(TraceQuestion { id: QUESTION, frame: vec![2; 40] }),
    };
    let task = |id, kind| RaiseTask { id, kind, masked: vec![id as u8; 30] };
    DecideReply {
        decision: Some(decision),
        ticket: Some(Ticket([4; 16])),
        tasks: vec![task(8, TaskKind::Scores { factor: 0.5, alone: true }), task(9, TaskKind::Model)],
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

/// The messages of a committee of 2 of 3: contexts, an answer with three entries, questions, requests and
/// replies.
///
/// # Panics
/// Never: keys are made here.
pub fn committee() -> Vec<Vec<u8>> {
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let (sealing, signing) = (SealingSecret::generate(&mut rng), SigningSecret::generate(&mut rng));
    let answer_key = sealing.public();
    let share = |member| SealedShare { member, sealed: vec![member; 1160], signature: vec![member; 64] };
    let shares = vec![share(1), share(3)];
    let answer = OpenedAnswer { request: [5; 32], set: 0b101, values: vec![1, 2, 3], shares: shares.clone() };
    let user = AnswerUser { round: 4, users: vec![0, 5], answer_key: answer_key.clone() };
    let question = |wanted| Question { bandit: "b".repeat(32), task: 7, attempt: 1, wanted };
    let raise = question(Wanted::Transfer(TaskKind::Scores { factor: 0.5, alone: false }));
    let answers = question(Wanted::Answers { model_feedbacks: 3, users: vec![user] });
    let request = MemberRequest {
        number: 9,
        set: 0b101,
        question: answers.to_bytes(),
        c1: vec![3; 40],
        evidence: vec![4; 8],
    };
    vec![
        CommitteeContexts { answer_key, contexts: vec![1; 60] }.to_bytes(),
        answer.to_bytes(),
        raise.to_bytes(),
        answers.to_bytes(),
        request.to_bytes(),
        MemberReply::Frames { number: 9, frames: vec![vec![1; 30]; 4], signature: vec![2; 64] }.to_bytes(),
        MemberReply::Answers { number: 9, shares }.to_bytes(),
        MemberReply::refused(&signing, 9, b"question", "a reason").to_bytes(),
        MemberReply::busy(&signing, 9, b"question").to_bytes(),
    ]
}

/// Bundles of the same toy keys.
pub struct Bundles {
    /// The public keys of both rings and no evaluation key, so that it is refused only when its keys are
    /// checked for completeness.
    pub public: Vec<u8>,
    /// The secret bundle.
    pub secret: Vec<u8>,
    /// The users' bundle, with a committee in its manifest.
    pub users: Vec<u8>,
}

/// Bundles of toy keys.
///
/// # Panics
/// Never: the parameters are valid, and vectors can be written.
pub fn bundles() -> Bundles {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let (params, secret, public, id) = key_pair(TOY_LOGN12_DEPTH21, &mut rng);
    let (small, small_secret, small_public, small_id) = key_pair(TOY_LOGN11_SCORES, &mut rng);
    let token = AccessToken::generate(&mut rng);
    let (shape, (ring, ..)) = (shape(), rings());
    let answers = ring.answers(params.spec()).validate().expect("a prefix of the set");
    let manifest = |frames, custody| {
        let scores = ScoresManifest::new(&small, small_id, 1, AnswersManifest::new(&answers, 0));
        Manifest::new(&params, id, shape, 0, frames, token.digest(), scores, custody)
    };
    let head = manifest(1, Custody::Holder);
    let mut writer = BundleWriter::new(BundleKind::Public, &head, Vec::new()).expect("a vector");
    let small_frame = ckks::write_public_key(&small, &small_public.narrow(&small));
    writer.frame(&ckks::write_public_key(&params, &public.narrow(&params))).expect("a vector");
    writer.frame(&small_frame).expect("a vector");
    let (frame, small_frame) = (secret.to_bytes(id), small_secret.to_bytes(small_id));
    let head = manifest(2, Custody::Holder);
    let secret = SecretBundle::write(&head, &frame, &small_frame, None, &token, Vec::new());
    let wide = ckks::write_public_key(&small, &small_public);
    let of_users = manifest(1, custody(&wide));
    let signatures = members().map(|signing| PublicBytes(of_users.sign(&signing))).collect();
    let users = UsersBundle::write(&of_users.with_signatures(signatures), &wide, &token, Vec::new());
    Bundles {
        public: writer.finish().expect("two frames").0,
        secret: secret.expect("a vector").0,
        users: users.expect("a vector").0,
    }
}

/// A committee of 2 of 3, which holds no key. `wide` is the frame of the public key of its users.
fn custody(wide: &[u8]) -> Custody {
    let member = |signing: SigningSecret| MemberManifest {
        verifying: PublicBytes(signing.public()),
        sealing: PublicBytes(vec![1; 1216]),
    };
    let mut wide_key = KeysDigest::default();
    wide_key.add(wide);
    Custody::Committee(CommitteeManifest {
        threshold: 2,
        session: SessionId([9; 32]),
        members: members().map(member).collect(),
        keys: KeysDigest::default().digest(),
        wide_key: wide_key.digest(),
        signatures: Vec::new(),
        before: Vec::new(),
        follows: None,
    })
}

fn members() -> impl Iterator<Item = SigningSecret> {
    (1..=3).map(|j| SigningSecret::from_bytes(&[j; 32]))
}

fn key_pair(spec: ParamsSpec, rng: &mut ChaCha20Rng) -> (Params, SecretKey, PublicKey, KeyId) {
    let params = spec.validate().expect("a toy set");
    let secret = SecretKey::generate(&params, rng);
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    let public = ckks_secret::wide_public_key_from(&secret, seed, rng);
    let id = public.id(&params);
    (params, secret, public, id)
}
