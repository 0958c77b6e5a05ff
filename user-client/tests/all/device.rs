//! The device against the server's engine, in one process and without HTTP.

use bandit::Schedule;
use helba::{Bandit, Engine, Feedback};
use keygen::{Request, generate};
use protocol::{BanditConfig, DecisionId, Shape};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::sync::OnceLock;
use testkit::ClearTwin;
use user_client::{Device, Error, MOST_ANSWERS, Opening};
use wire::{BundleKind, Created, DecideReply, FeedbackRequest, Limits, SecretBundle};

const FEATURES: usize = 2;
const ARMS: usize = 2;

struct World {
    engine: Engine,
    device: Device,
    /// Another key pair of the same shape and parameters.
    stranger: Device,
    /// Its public bundle's bytes would be megabytes; its secret bundle's are here.
    secret_bundle: Vec<u8>,
}

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// Both bundles of one key pair.
pub(crate) fn bundles(seed: u64) -> (Vec<u8>, Vec<u8>) {
    bundles_for(Shape::for_problem(FEATURES, ARMS), seed)
}

/// As [`bundles`], for problems of another shape.
pub(crate) fn bundles_for(shape: Shape, seed: u64) -> (Vec<u8>, Vec<u8>) {
    let request = Request { shape, toy: true, created: 0 };
    let (mut public, mut secret) = (Vec::new(), Vec::new());
    generate(request, &mut public, &mut secret, &mut rng(seed), |_, _| ()).unwrap();
    (public, secret)
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let [(public, secret_bundle), (_, other)] = [1, 2].map(bundles);
        World {
            engine: {
                let wire::PublicBundle { manifest, params, public_key, key_id, keys, .. } =
                    wire::PublicBundle::read(&public[..]).unwrap();
                Engine::new(params, public_key, key_id, manifest.shape, keys).unwrap()
            },
            device: Device::read(&secret_bundle[..]).unwrap().with_most_answers(MOST_ANSWERS),
            stranger: Device::read(&other[..]).unwrap(),
            secret_bundle,
        }
    })
}

fn created(bandit: &Bandit) -> Created {
    let engine = &world().engine;
    Created {
        id: "b".into(),
        config: bandit.config().clone(),
        plan: bandit.plan().clone(),
        key_id: engine.key_id().to_string(),
        fingerprint: engine.params().fingerprint().to_string(),
    }
}

/// On the paper's schedule, which asks for the trace.
fn bandit() -> (Bandit, Created) {
    bandit_on(Schedule::TraceOrGrowth)
}

fn bandit_on(schedule: Schedule) -> (Bandit, Created) {
    let mut config = BanditConfig::new(FEATURES, ARMS);
    config.linear.schedule = schedule;
    let bandit = Bandit::create(&world().engine, config).unwrap();
    let created = created(&bandit);
    (bandit, created)
}

fn rows(rng: &mut ChaCha20Rng) -> Vec<Vec<f64>> {
    let mut coordinate = || f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5;
    (0..ARMS).map(|_| (0..FEATURES).map(|_| coordinate()).collect()).collect()
}

/// The server's half of a decision, as its route does it.
fn decide(bandit: &mut Bandit, created: &Created, contexts: &[u8], rng: &mut ChaCha20Rng) -> Vec<u8> {
    let engine = &world().engine;
    let (params, key) = (engine.params(), engine.key_id());
    let contexts = ckks::read_ciphertext(params, key, created.plan.context_level, contexts).unwrap();
    let output = engine.decide(bandit.begin_decision(), &contexts, rng).unwrap();
    let reply = bandit.finish_decision(engine, output, rng).apply();
    let write = |ct| ckks::write_ciphertext(params, key, ct);
    DecideReply {
        decision: reply.id,
        round: reply.round,
        model_feedbacks: reply.model_feedbacks,
        seconds: Vec::new(),
        action: write(&reply.action),
        trace: reply.trace.as_ref().map(write),
        refresh: reply.refresh.as_ref().map(|(id, ct)| (*id, ckks::write_ciphertext(params, key, ct))),
    }
    .to_bytes()
}

/// The server's half of a feedback, and the update if one is due.
fn feedback(bandit: &mut Bandit, created: &Created, id: DecisionId, answer: &[u8], rng: &mut ChaCha20Rng) {
    let engine = &world().engine;
    let limits = Limits::new(engine.params(), &created.plan).unwrap();
    let request = FeedbackRequest::read(answer, &limits).unwrap();
    let read =
        |bytes: &[u8], level| ckks::read_ciphertext(engine.params(), engine.key_id(), level, bytes).unwrap();
    let feedback = Feedback {
        statistics: read(&request.statistics, created.plan.statistics_level),
        trace: read(&request.trace, created.plan.trace_level),
        trace_answer: request.trace_answer,
        refreshed: request.refreshed.map(|(id, b)| (id, read(&b, created.plan.model_level))),
    };
    bandit.feedback(engine, id, feedback).unwrap().apply();
    if let Some(inputs) = bandit.begin_update().unwrap() {
        let output = engine.update(&inputs, rng).unwrap();
        bandit.finish_update(output).apply();
    }
}

/// The arms a device plays are those of the bandit in the clear, through batches and refreshes.
#[test]
fn rounds_play_the_arms_of_the_clear_bandit() {
    let (device, mut rng) = (&world().device, rng(3));
    let (mut bandit, created) = bandit();
    let mut twin = ClearTwin::new(created.config.clone());
    let (mut asked, mut refreshed) = (0, 0);
    for _ in 0..12 {
        let rows = rows(&mut rng);
        let contexts = device.encrypt_contexts(&created, &rows, &mut rng).unwrap();
        let reply = decide(&mut bandit, &created, &contexts, &mut rng);
        let decision = device.read_decision(&created, &reply).unwrap();
        assert_eq!(decision.action_values.len(), ARMS);
        let index = twin.indices(&rows, decision.round, decision.model_feedbacks);
        let best = index.iter().copied().fold(f64::MIN, f64::max);
        assert!(best - index[decision.arm] < 1e-2, "arm {} of {index:?}", decision.arm);

        let features = &rows[decision.arm];
        let reward = 0.8 * features[0] - 0.6 * features[1];
        let answer = device.answer(&created, &decision, features, reward, &mut rng).unwrap();
        let limits = device.limits(&created).unwrap();
        let request = FeedbackRequest::read(&answer, &limits).unwrap();
        asked += usize::from(request.trace_answer.is_some());
        refreshed += usize::from(request.refreshed.is_some());
        assert_eq!(request.refreshed.is_some(), decision.has_refresh());
        feedback(&mut bandit, &created, decision.id, &answer, &mut rng);
        twin.learn(features, reward);
    }
    let status = bandit.status();
    assert_eq!(status.feedbacks, 12);
    assert!(asked > 0 && refreshed > 0 && status.refreshes > 0 && status.model_feedbacks > 0, "{status:?}");
}

#[test]
fn what_must_not_be_encrypted_is_refused() {
    use protocol::Error as Refused;
    let device = &world().device;
    let (_, created) = bandit();
    let contexts = |rows: &[Vec<f64>]| device.encrypt_contexts(&created, rows, &mut rng(1)).unwrap_err();
    let good = vec![0.5, 0.5];
    assert!(matches!(
        contexts(std::slice::from_ref(&good)),
        Error::Protocol(Refused::ArmCount { got: 1, want: 2 })
    ));
    assert!(matches!(
        contexts(&[good.clone(), vec![0.1; 3]]),
        Error::Protocol(Refused::FeatureCount { row: 2, got: 3, want: 2 })
    ));
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(matches!(
            contexts(&[good.clone(), vec![0.1, bad]]),
            Error::Protocol(Refused::NotANumber { row: 2, column: 2 })
        ));
    }
    let long = contexts(&[vec![0.8, 0.7], good.clone()]);
    assert!(matches!(long, Error::Protocol(Refused::NormAboveBound { row: 1, bound: 1.0 })));
    assert!(!long.to_string().contains("0.8"), "a feature in a message: {long}");

    let (mut bandit, created) = bandit();
    let body = device.encrypt_contexts(&created, &[good.clone(), good.clone()], &mut rng(1)).unwrap();
    let reply = decide(&mut bandit, &created, &body, &mut rng(2));
    let decision = device.read_decision(&created, &reply).unwrap();
    let answer = |x: &[f64], r| device.answer(&created, &decision, x, r, &mut rng(3)).map(drop);
    for bad in [f64::NAN, 1.0 + 1e-12, -1.1, f64::INFINITY] {
        assert!(matches!(answer(&good, bad), Err(Error::Protocol(Refused::RewardOutOfRange))));
    }
    assert!(matches!(
        answer(&[f64::NAN, 0.0], 0.0),
        Err(Error::Protocol(Refused::NotANumber { row: 1, column: 1 }))
    ));
    assert!(matches!(answer(&[1.0], 0.0), Err(Error::Protocol(Refused::FeatureCount { .. }))));
    assert!(matches!(answer(&[1.0, 1.0], 0.0), Err(Error::Protocol(Refused::NormAboveBound { .. }))));
    answer(&good, -1.0).unwrap();
    answer(&good, 1.0).unwrap();
}

#[test]
fn bandits_of_other_keys_and_dishonest_plans_are_refused() {
    let world = world();
    let (mut bandit, created) = bandit();
    let rows = vec![vec![0.5, 0.5]; 2];
    let try_with = |device: &Device, created: &Created| device.encrypt_contexts(created, &rows, &mut rng(1));
    try_with(&world.device, &created).unwrap();
    assert!(matches!(try_with(&world.stranger, &created), Err(Error::WrongKeys { what: "key id", .. })));
    let other = Created { fingerprint: "00".into(), ..created.clone() };
    assert!(matches!(try_with(&world.device, &other), Err(Error::WrongKeys { what: "fingerprint", .. })));

    // A refresh at a low level has no room for a mask; the statistics at the bottom would lose their
    // precision.
    for change in [
        |c: &mut Created| c.plan.refresh_level = 0,
        |c: &mut Created| c.plan.statistics_level = 1,
        |c: &mut Created| c.plan.answer_level = 5,
        |c: &mut Created| c.plan.slots = 3,
        |c: &mut Created| c.plan.model_level = 1000,
    ] {
        let mut other = created.clone();
        change(&mut other);
        assert!(matches!(try_with(&world.device, &other), Err(Error::PlanMismatch)));
    }
    let mut other = created.clone();
    other.config.linear.d = usize::MAX;
    assert!(matches!(try_with(&world.device, &other), Err(Error::Protocol(_))));

    // A reply for another key's device, and bytes that are no reply.
    let body = try_with(&world.device, &created).unwrap();
    let reply = decide(&mut bandit, &created, &body, &mut rng(2));
    let theirs = Created { key_id: world.stranger.key_id().to_string(), ..created.clone() };
    let e = world.stranger.read_decision(&theirs, &reply).map(drop).unwrap_err();
    assert!(matches!(e, Error::Ckks(ckks::Error::WrongKey { .. })), "{e}");
    for cut in [0, 3, 100, reply.len() - 1] {
        assert!(world.device.read_decision(&created, &reply[..cut]).is_err());
    }
}

/// Under a public schedule nobody may ask, so whatever comes as a trace question goes unanswered. Under the
/// trace condition the same question, sent along with the same reply, is answered.
#[test]
fn attack_public_schedules_answer_nothing() {
    let device = &world().device;
    let engine = &world().engine;
    let mut rng = rng(5);
    let rows = vec![vec![0.5, 0.5]; 2];
    for schedule in [
        Schedule::TraceOrGrowth,
        Schedule::GrowthOrEvery { rounds: 16 },
        Schedule::Every { rounds: 3 },
        Schedule::EveryRound,
    ] {
        let (mut bandit, created) = bandit_on(schedule);
        let limits = device.limits(&created).unwrap();
        let body = device.encrypt_contexts(&created, &rows, &mut rng).unwrap();
        let reply = decide(&mut bandit, &created, &body, &mut rng);
        let honest = DecideReply::read(&reply, &limits).unwrap();
        assert!(honest.trace.is_none());
        let question = ckks::Ciphertext::zero(engine.params(), created.plan.answer_level);
        let question = ckks::write_ciphertext(engine.params(), engine.key_id(), &question);
        let reply = DecideReply { trace: Some(question), ..honest };
        let decision = device.read_decision(&created, &reply.to_bytes()).unwrap();
        let answer = device.answer(&created, &decision, &rows[0], 0.0, &mut rng).unwrap();
        let answered = FeedbackRequest::read(&answer, &limits).unwrap().trace_answer;
        assert_eq!(answered.is_some(), schedule == Schedule::TraceOrGrowth, "{schedule:?}");
        // A bandit's schedule is the server's word: a device whose user allows no answer gives none under
        // any.
        let silent = Device::read(&world().secret_bundle[..]).unwrap();
        let decision = silent.read_decision(&created, &reply.to_bytes()).unwrap();
        let answer = silent.answer(&created, &decision, &rows[0], 0.0, &mut rng).unwrap();
        assert_eq!(FeedbackRequest::read(&answer, &limits).unwrap().trace_answer, None);
        assert_eq!(silent.answers_spent(), None);
    }
}

/// Whether a question is answered must not depend on what else was decrypted, or the server would learn from
/// decisions that nobody counts: beside values that no decision has, a question is answered and counted like
/// any other.
#[test]
fn attack_unreliable_decisions_are_counted() {
    let engine = &world().engine;
    let mut rng = rng(6);
    let rows = vec![vec![0.5, 0.5]; 2];
    let (mut bandit, created) = bandit_on(Schedule::TraceOrGrowth);
    let device = Device::read(&world().secret_bundle[..]).unwrap().with_most_answers(1);
    let limits = device.limits(&created).unwrap();
    let body = device.encrypt_contexts(&created, &rows, &mut rng).unwrap();
    let reply = decide(&mut bandit, &created, &body, &mut rng);
    let level = created.plan.answer_level;
    let frame = |value: f64| {
        let mut ct = ckks::Ciphertext::zero(engine.params(), level);
        let plain = ckks::Plaintext::encode(engine.params(), &[value.into()], level).unwrap();
        let evaluator = ckks::Evaluator::new(engine.params().clone(), ckks::EvaluationKeys::default());
        evaluator.add_plain_assign(&mut ct, &plain).unwrap();
        ckks::write_ciphertext(engine.params(), engine.key_id(), &ct)
    };
    let honest = DecideReply::read(&reply, &limits).unwrap();
    let reply = DecideReply { action: frame(40.0), trace: Some(frame(0.0)), ..honest };
    let decision = device.read_decision(&created, &reply.to_bytes()).unwrap();
    assert!(!decision.reliable);
    let mut ask = || {
        let answer = device.answer(&created, &decision, &rows[0], 0.0, &mut rng).unwrap();
        FeedbackRequest::read(&answer, &limits).unwrap().trace_answer
    };
    assert_eq!((ask(), ask()), (Some(false), None));
    assert_eq!(device.answers_spent().map(|spent| spent.given), Some(1));
}

#[test]
fn a_secret_file_must_be_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret.bundle");
    std::fs::write(&path, &world().secret_bundle).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // A public bundle is named as such, whoever may read it.
        let public = dir.path().join("public.bundle");
        std::fs::write(&public, b"HELBAPUB\x01\x00\x00\x00\x00\x00\x00\x00").unwrap();
        std::fs::set_permissions(&public, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Device::open(&public, &Opening::default()).map(drop), Err(Error::Wire(_))));
        for mode in [0o644, 0o640, 0o604, 0o660, 0o610] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let Err(e @ Error::Permissions { .. }) = Device::open(&path, &Opening::default()).map(drop)
            else {
                panic!("{mode:o}")
            };
            assert!(e.to_string().contains("chmod 600"));
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let Err(Error::Toy { .. }) = Device::open(&path, &Opening::default()).map(drop) else {
        panic!("a toy, and nobody asked for one")
    };
    let device = Device::open(&path, &Opening { toy: true, ..Opening::default() }).unwrap();
    assert_eq!(device.key_id(), world().device.key_id());
    assert!(matches!(
        Device::open(&dir.path().join("none"), &Opening::default()).map(drop),
        Err(Error::Io { .. })
    ));
}

/// A sealed bundle opens with its passphrase, a bundle that is not sealed without one, and nothing else does.
#[test]
fn attack_a_sealed_bundle_needs_its_passphrase() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret.bundle");
    let phrase = |text: &str| {
        let file = dir.path().join("phrase");
        std::fs::write(&file, format!("{text}\n")).unwrap();
        Some(user_client::Passphrase::open(&file).unwrap())
    };
    let open = |passphrase| Device::open(&path, &Opening { toy: true, passphrase }).map(|d| d.key_id());
    let write = |bytes: &[u8]| {
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, bytes).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    };
    let bundle = &world().secret_bundle;
    write(&ckks_secret::seal(bundle, &phrase("right").unwrap(), &mut rng(9)).unwrap());
    assert_eq!(open(phrase("right")).unwrap(), world().device.key_id());
    let wrong = open(phrase("wrong")).unwrap_err();
    assert!(matches!(wrong, Error::Secret(ckks_secret::Error::WrongPassphrase)), "{wrong}");
    assert!(matches!(open(None), Err(Error::Sealed { sealed: true, .. })));
    write(bundle);
    assert_eq!(open(None).unwrap(), world().device.key_id());
    assert!(matches!(open(phrase("right")), Err(Error::Sealed { sealed: false, .. })));
}

#[test]
fn other_bundles_are_refused() {
    let secret = &world().secret_bundle;
    let read = |bytes: &[u8]| Device::read(bytes).map(drop);
    read(secret).unwrap();
    let mut public = secret.clone();
    public[..8].copy_from_slice(b"HELBAPUB");
    let wrong = read(&public).unwrap_err();
    assert!(matches!(wrong, Error::Wire(wire::Error::WrongBundle { want: BundleKind::Secret })), "{wrong}");

    // A manifest of other parameters, or of another key, around this secret.
    let bundle = SecretBundle::read(&secret[..]).unwrap();
    let around = |manifest: &wire::Manifest| {
        let scores = bundle.scores.as_ref().map(|scores| &scores.frame[..]);
        let out = SecretBundle::write(manifest, &bundle.frame, scores, &bundle.token, Vec::new());
        read(&out.unwrap().0).unwrap_err()
    };
    let spec = ckks::TOY_LOGN14_DEPTH22.validate().unwrap();
    let id = world().device.key_id();
    let stated = bundle.manifest.scores.clone();
    // Answers have primes of the deep ring.
    let others = stated.clone().map(|stated| {
        let ring = protocol::ScoreRing::beside(spec.spec(), bundle.manifest.shape).unwrap();
        let answers = wire::AnswersManifest::new(&ring.answers(spec.spec()).validate().unwrap(), 0);
        wire::ScoresManifest { answers, ..stated }
    });
    let manifest = wire::Manifest::new(&spec, id, bundle.manifest.shape, 0, 2, bundle.token.digest(), others);
    let e = around(&manifest);
    assert!(matches!(e, Error::Secret(ckks_secret::Error::Ckks(ckks::Error::WrongParams { .. }))), "{e}");
    let e = around(&wire::Manifest { key_id: "00".repeat(16), ..bundle.manifest.clone() });
    assert!(matches!(e, Error::Wire(wire::Error::Manifest { field: "key_id", .. })), "{e}");
    let stated = stated.map(|stated| wire::ScoresManifest { key_id: "00".repeat(16), ..stated });
    let e = around(&wire::Manifest { scores: stated, ..bundle.manifest.clone() });
    assert!(matches!(e, Error::Wire(wire::Error::Manifest { field: "scores.key_id", .. })), "{e}");
    let digest = wire::AccessToken::generate(&mut rng(3)).digest();
    let e = around(&wire::Manifest { token_digest: digest, ..bundle.manifest.clone() });
    assert!(matches!(e, Error::Wire(wire::Error::Manifest { field: "token_digest", .. })), "{e}");
}
