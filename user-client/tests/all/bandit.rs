//! A device of an encrypted bandit against the server's engine, in one process and without HTTP.

use crate::device::{keys, rng};
use crate::http::{Requests, answers};
use ckks::{Ciphertext, SeededCoefficients, Undivided};
use helba::DeepEngine;
use helba::{Applied, EncryptedBandit, Engine, Evaluated, Event};
use protocol::{Answers, BanditConfig, LOG_SCORE, TaskKind};
use rand::Rng;
use rand_chacha::ChaCha20Rng;
use std::sync::{Arc, OnceLock};
use testkit::ClearTwin;
use user_client::{BanditDevice, Choice, Client, Device, Error, MaskedTask};
use wire::{Created, DecideReply, Decision, ProblemType, RaiseTask, Raised, Raises, Ticket};

const FEATURES: usize = 2;
const ARMS: usize = 2;
const TICKET: Ticket = Ticket([3; 16]);

struct World {
    engine: Engine,
    device: Device,
    /// Another key pair of the same shape and parameters.
    stranger: Device,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let [(public, secret), (_, other)] = keys();
        let bundle = wire::PublicBundle::read(&public[..]).unwrap();
        let wire::PublicBundle { manifest, params, public_key, key_id, keys, decisions, scores, .. } = bundle;
        let deep = DeepEngine::new(params, public_key, key_id, manifest.shape, keys).unwrap();
        let deep = deep.with_decisions(decisions);
        let wire::ScoreKeys { ring, params, public_key, key_id, keys, switch } = scores;
        let engine = Engine::new(deep, ring, params, public_key, key_id, keys, switch).unwrap();
        let [device, stranger] = [secret, other].map(|secret| Device::read(&secret[..]).unwrap());
        World { engine, device, stranger }
    })
}

/// A server of one bandit, with the twin of its device in the clear.
struct Server {
    bandit: EncryptedBandit,
    created: Created,
    twin: ClearTwin,
    rng: ChaCha20Rng,
    round: u64,
}

impl Server {
    fn new(answers: Answers) -> Self {
        let engine = &world().engine;
        let open_model = answers == Answers::Scores;
        let base = BanditConfig::new(FEATURES, ARMS);
        let config = BanditConfig { answers, open_model, ..base };
        let bandit = EncryptedBandit::create(engine, config.clone(), [9; 32]).unwrap();
        let keys = (engine.deep(), engine);
        let created = Created::new(
            "b".into(),
            config.clone(),
            bandit.plan().clone(),
            (keys.0.params(), keys.0.key_id()),
            (keys.1.params(), keys.1.key_id()),
        );
        Server { bandit, created, twin: ClearTwin::new(config), rng: rng(5), round: 0 }
    }

    fn device(&self) -> BanditDevice<'static> {
        world().device.join(&self.created).unwrap()
    }

    /// A frame of the ring of scores, at the canonical scale.
    fn small_frame(&self, ct: Ciphertext) -> Vec<u8> {
        let engine = &world().engine;
        let canonical = engine.params().scale(ct.level());
        ckks::write_ciphertext(engine.params(), engine.key_id(), &ct.with_scale(canonical))
    }

    fn score(&self, contexts: &[u8]) -> Undivided {
        let engine = &world().engine;
        let contexts = engine.read_contexts(contexts).unwrap();
        engine.score(&contexts, self.bandit.scores_model().only().unwrap()).unwrap()
    }

    fn decision(&self, round: u64, user: usize, users: usize, answer: Vec<u8>) -> DecideReply {
        let decision = Decision {
            nonce: None,
            question: None,
            others: Vec::new(),
            id: self.bandit.decision_id(round),
            round,
            model_feedbacks: self.bandit.model_feedbacks(),
            user: user as u32,
            users: users as u32,
            answer,
        };
        DecideReply { decision: Some(decision), ..DecideReply::default() }
    }

    /// One evaluation for all `uploads`, of which the first device raises. Returns a reply for each.
    fn evaluate(&mut self, device: &BanditDevice, uploads: &[Vec<u8>]) -> Vec<DecideReply> {
        let engine = &world().engine;
        let exchanges = self.bandit.exchanges().clone();
        let mut packer = engine.packer().unwrap();
        let users: Vec<usize> = uploads
            .iter()
            .map(|upload| exchanges.layout.user_at(packer.push(self.score(upload)).unwrap()))
            .collect();
        let circuit =
            engine.circuit(self.bandit.config(), self.bandit.scalars(self.round + users.len() as u64));
        let circuit = circuit.unwrap();
        let factors = circuit.factors(exchanges.layout.log_range());
        let alone = users.len() == 1;
        let raise = &exchanges.scores;
        let masked = engine.mask(raise, packer.finish().unwrap(), &mut self.rng).unwrap();
        let task = RaiseTask {
            pads: Vec::new(),
            id: 7,
            kind: TaskKind::Scores { factors },
            masked: vec![self.small_frame(masked.ciphertext)],
        };
        let asked = DecideReply { ticket: Some(TICKET), tasks: vec![task], ..DecideReply::default() };
        let asked = device.read(&asked.to_bytes()).unwrap();
        assert!(asked.choice.is_none());
        let body = device.raise(&asked.tasks, asked.ticket, &mut self.rng).unwrap();
        let Raises { ticket, raised } = Raises::read(&body, device.limits()).unwrap();
        assert_eq!(ticket, Some(TICKET));
        let [(7, Raised::Scores(frame))] = &raised[..] else { panic!("the answer to the task") };
        let (params, id, level) =
            (engine.decision_params(), engine.decision_key_id(), self.created.plan.scores_level);
        let raised = ckks::read_ciphertext(params, id, level, frame).unwrap();
        let mask = raise.encode_mask(&masked.seed, &factors).unwrap();
        let evaluated = engine.evaluate(&circuit, raise, raised, &mask, &mut self.rng).unwrap();
        let exchanged = (!alone).then(|| self.exchange(device, &evaluated));
        let mut replies = Vec::new();
        for &user in &users {
            let frame = match &exchanged {
                Some(answers) => engine.answer(&exchanges.layout, answers, &[user], &mut self.rng).unwrap(),
                None => {
                    let answer = engine.answer_alone(&evaluated, &[user], &mut self.rng).unwrap();
                    ckks::write_ciphertext(engine.answer_params(), engine.key_id(), &answer)
                }
            };
            self.round += 1;
            replies.push(self.decision(self.round, user, users.len(), frame));
        }
        replies
    }

    /// The exchange of answers of an evaluation with `device`, whose mask was taken off.
    fn exchange(&mut self, device: &BanditDevice, evaluated: &Evaluated) -> SeededCoefficients {
        let engine = &world().engine;
        let exchange = &self.bandit.exchanges().clone().answers;
        let masked = engine.mask_answers(exchange, evaluated, &mut self.rng).unwrap();
        let (params, id) = (engine.decision_params(), engine.decision_key_id());
        let frame = ckks::write_ciphertext(params, id, &masked.ciphertext);
        let tasks = vec![RaiseTask { id: 8, kind: TaskKind::Answers, masked: vec![frame], pads: Vec::new() }];
        let asked = DecideReply { ticket: Some(TICKET), tasks, ..DecideReply::default() };
        let asked = device.read(&asked.to_bytes()).unwrap();
        let body = device.raise(&asked.tasks, asked.ticket, &mut self.rng).unwrap();
        let raised = Raises::read(&body, device.limits()).unwrap().raised;
        let [(8, Raised::Answers(frame))] = &raised[..] else { panic!("the answer to the task") };
        let mut answers = engine.read_answers(exchange, frame).unwrap();
        answers.sub_assign(engine.answer_params(), &exchange.encode_mask(&masked.seed).unwrap()).unwrap();
        answers
    }

    /// The answer of the open tier.
    fn open(&mut self, upload: &[u8]) -> DecideReply {
        let answer = world().engine.open_answer(self.score(upload), &mut self.rng);
        let frame = self.small_frame(answer);
        self.round += 1;
        self.decision(self.round, 0, 1, frame)
    }

    fn feedback(&mut self, device: &BanditDevice, choice: &Choice, x: &[f64], reward: f64) {
        let frame = device.feedback(choice.arm, x, reward, None, &mut self.rng).unwrap();
        assert_eq!(frame.len(), device.limits().statistics);
        let event = Event::Feedback { round: choice.round, frame };
        let Applied::Counted(receipt) = self.bandit.apply(&world().engine, &event).unwrap() else { panic!() };
        assert_eq!(receipt.decision, choice.id.to_string());
        self.twin.learn(x, reward);
    }

    /// Runs tasks and updates until none is due. Returns the number of new models.
    fn settle(&mut self, device: &BanditDevice) -> usize {
        let engine = &world().engine;
        let mut installed = 0;
        loop {
            if let Some(update) = self.bandit.update().unwrap() {
                let masked = update.run(engine).unwrap();
                self.bandit.updated(&update, masked);
            }
            let Some(task) = self.bandit.task() else { return installed };
            let masked = Arc::unwrap_or_clone(task.masked);
            let masked = match task.kind {
                TaskKind::Model => {
                    ckks::write_ciphertext(engine.deep().params(), engine.deep().key_id(), &masked)
                }
                _ => self.small_frame(masked),
            };
            let tasks =
                vec![RaiseTask { id: task.id, kind: task.kind, masked: vec![masked], pads: Vec::new() }];
            let read = device.read(&DecideReply { tasks, ..DecideReply::default() }.to_bytes()).unwrap();
            let body = device.raise(&read.tasks, None, &mut self.rng).unwrap();
            let raises = Raises::read(&body, device.limits()).unwrap();
            assert_eq!(raises.ticket, None);
            for (task, raised) in raises.raised {
                let event = match raised {
                    Raised::Sum(frame) | Raised::Scores(frame) => Event::Raised { task, frame },
                    Raised::Model { deep, scores } => Event::Refreshed { task, deep, scores },
                    Raised::Answers(_)
                    | Raised::Exchanged(_)
                    | Raised::Padded { .. }
                    | Raised::Pads { .. } => {
                        panic!("no evaluation asks")
                    }
                };
                let applied = self.bandit.apply(engine, &event).unwrap();
                installed += usize::from(applied == Applied::Installed);
            }
        }
    }

    /// Checks a choice against exact arithmetic on the same history, and learns from it.
    fn play(&mut self, device: &BanditDevice, rows: &[Vec<f64>], choice: &Choice) {
        let indices = self.twin.indices(rows, choice.round, choice.model_feedbacks);
        let best = indices.iter().copied().fold(f64::MIN, f64::max);
        assert!(best - indices[choice.arm] < 1e-2, "arm {} of {indices:?}", choice.arm);
        assert!(choice.reliable && choice.values.len() == ARMS, "{:?}", choice.values);
        let x = &rows[choice.arm];
        self.feedback(device, choice, x, 0.8 * x[0] - 0.6 * x[1]);
    }
}

fn rows(rng: &mut ChaCha20Rng) -> Vec<Vec<f64>> {
    let mut coordinate = || f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5;
    (0..ARMS).map(|_| (0..FEATURES).map(|_| coordinate()).collect()).collect()
}

/// Three devices in each evaluation play the arms of the bandit in the clear, through batches and models.
#[test]
fn rounds_play_the_arms_of_the_clear_bandit() {
    let mut server = Server::new(Answers::Arm);
    let (device, mut rng) = (server.device(), rng(3));
    let mut models = 0;
    for _ in 0..6 {
        let contexts: Vec<_> = (0..3).map(|_| rows(&mut rng)).collect();
        let uploads: Vec<_> = contexts.iter().map(|rows| device.contexts(rows, &mut rng).unwrap()).collect();
        assert!(uploads.iter().all(|upload| upload.len() <= device.limits().contexts));
        for (reply, rows) in server.evaluate(&device, &uploads).into_iter().zip(&contexts) {
            let choice = device.read(&reply.to_bytes()).unwrap().choice.unwrap();
            assert_eq!(choice.users, 3);
            server.play(&device, rows, &choice);
        }
        models += server.settle(&device);
    }
    assert!(models >= 2, "{models} models");
}

/// In the open tier a device computes the index of every arm from its own scores.
#[test]
fn open_rounds_play_the_arms_of_the_clear_bandit() {
    let mut server = Server::new(Answers::Scores);
    let (device, mut rng) = (server.device(), rng(4));
    let mut models = 0;
    for _ in 0..18 {
        let rows = rows(&mut rng);
        let reply = server.open(&device.contexts(&rows, &mut rng).unwrap());
        let choice = device.read(&reply.to_bytes()).unwrap().choice.unwrap();
        let indices = server.twin.indices(&rows, choice.round, choice.model_feedbacks);
        for (value, index) in choice.values.iter().zip(&indices) {
            assert!((value - index).abs() < 2e-3, "{:?}, {indices:?}", choice.values);
        }
        server.play(&device, &rows, &choice);
        models += server.settle(&device);
    }
    assert!(models >= 2, "{models} models");
}

#[test]
fn bandits_of_other_keys_and_dishonest_plans_are_refused() {
    let (device, stranger) = (&world().device, &world().stranger);
    let created = Server::new(Answers::Arm).created;
    let error = |device: &Device, created: &Created| device.join(created).map(drop).unwrap_err();
    let wrong = |what: &str, e: Error| {
        assert!(matches!(&e, Error::WrongKeys { what: got, .. } if *got == what), "{what}: {e}");
    };
    wrong("key id", error(stranger, &created));
    let own = Created { key_id: stranger.key_id().to_string(), ..created.clone() };
    wrong("key id of scores", error(stranger, &own));
    let other = Created { fingerprint: created.scores_fingerprint.clone(), ..created.clone() };
    wrong("fingerprint", error(device, &other));
    let other = Created { scores_fingerprint: created.fingerprint.clone(), ..created.clone() };
    wrong("fingerprint of scores", error(device, &other));
    for change in [
        |c: &mut Created| c.plan.scores_level -= 1,
        |c: &mut Created| c.plan.statistics_level -= 1,
        |c: &mut Created| c.plan.model_level = 1000,
        |c: &mut Created| c.plan.refresh_level = 0,
        |c: &mut Created| c.plan.answer_level = 5,
        |c: &mut Created| c.plan.users *= 2,
        |c: &mut Created| c.config.linear.schedule = bandit::Schedule::TraceOrGrowth,
        |c: &mut Created| c.plan.model_slots = 3,
        |c: &mut Created| c.plan.design_scale = f64::NAN,
        |c: &mut Created| c.config.horizon = 1_000_000,
    ] {
        let mut other = created.clone();
        change(&mut other);
        assert!(matches!(error(device, &other), Error::PlanMismatch), "{other:?}");
    }
    for change in [
        |c: &mut Created| c.config.linear.d = usize::MAX,
        |c: &mut Created| c.config.linear.schedule = bandit::Schedule::Trace,
        |c: &mut Created| c.config.linear.lambda = f64::NAN,
    ] {
        let mut other = created.clone();
        change(&mut other);
        assert!(matches!(error(device, &other), Error::Protocol(_)), "{other:?}");
    }
    // Keys of another ring of scores.
    let bundle = wire::SecretBundle::read(&keys()[0].1[..]).unwrap();
    let (deep, id) = ckks_secret::SecretKey::from_bytes(&bundle.params, &bundle.frame).unwrap();
    let other = ckks::LOGN13_LOGQP147_SCORES.validate().unwrap();
    let other = (ckks_secret::SecretKey::generate(&other, &mut rng(1)), ckks::KeyId([1; 16]));
    let device = Device::new(deep, id, other, bundle.manifest.shape, bundle.token);
    assert!(matches!(error(&device, &created), Error::WrongKeys { what: "parameters of scores", .. }));
}

#[test]
fn what_must_not_be_encrypted_is_refused() {
    use protocol::Error as Refused;
    let device = Server::new(Answers::Arm).device();
    let contexts = |rows: &[Vec<f64>]| device.contexts(rows, &mut rng(1)).map(drop).unwrap_err();
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
    assert!(matches!(long, Error::Protocol(Refused::NormAboveBound { row: 1, .. })));
    assert!(!long.to_string().contains("0.8"), "a feature in a message: {long}");
    let feedback = |x: &[f64], r| device.feedback(0, x, r, None, &mut rng(1)).map(drop);
    for bad in [f64::NAN, 1.0 + 1e-12, -1.1, f64::INFINITY] {
        assert!(matches!(feedback(&good, bad), Err(Error::Protocol(Refused::RewardOutOfRange))));
    }
    assert!(matches!(
        feedback(&[f64::NAN, 0.0], 0.0),
        Err(Error::Protocol(Refused::NotANumber { row: 1, column: 1 }))
    ));
    assert!(matches!(feedback(&[1.0], 0.0), Err(Error::Protocol(Refused::FeatureCount { .. }))));
    assert!(matches!(feedback(&[1.0, 1.0], 0.0), Err(Error::Protocol(Refused::NormAboveBound { .. }))));
    for reward in [-1.0, 1.0] {
        feedback(&good, reward).unwrap();
    }
    // Length 1 in single precision, and longer than 1.
    let single = [0.6f32, 0.8].map(f64::from);
    assert!(single.iter().map(|x| x * x).sum::<f64>() > 1.0 + 4e-8);
    feedback(&single, 1.0).unwrap();
    device.contexts(&[single.to_vec(), good.clone()], &mut rng(2)).unwrap();
}

/// A frame of the zero of answers at `level`.
fn answer(level: usize) -> Vec<u8> {
    let engine = &world().engine;
    let params = engine.answer_params();
    ckks::write_ciphertext(params, engine.key_id(), &Ciphertext::zero(params, level))
}

/// The frames of all kinds and levels that a hostile server can send instead of the right one.
fn frames() -> (Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>) {
    let engine = &world().engine;
    let (deep, small) = (engine.deep(), engine.params());
    let in_deep = |level| {
        let zero = Ciphertext::zero(deep.params(), level);
        ckks::write_ciphertext(deep.params(), deep.key_id(), &zero)
    };
    let in_small = |level| ckks::write_ciphertext(small, engine.key_id(), &Ciphertext::zero(small, level));
    let plan = Server::new(Answers::Arm).created.plan;
    (in_small(small.max_level()), in_small(0), in_deep(plan.refresh_level), answer(plan.answer_level))
}

/// Nothing but a task of the plan is answered: no factor out of range, no frame of the other ring, of another
/// level, scale, key or length, and no third task.
#[test]
fn attack_hostile_tasks_are_refused() {
    let server = Server::new(Answers::Arm);
    let device = server.device();
    let (small, low, masked_model, answer) = frames();
    let products = {
        let engine = &world().engine;
        let (params, id) = (engine.decision_params(), engine.decision_key_id());
        ckks::write_ciphertext(params, id, &Ciphertext::zero(params, 1))
    };
    let scores = |factor| TaskKind::Scores { factors: [factor; 3] };
    let read = |device: &BanditDevice, kind, masked: &[u8]| {
        let tasks = vec![RaiseTask { id: 1, kind, masked: vec![masked.to_vec()], pads: Vec::new() }];
        device.read(&DecideReply { ticket: Some(TICKET), tasks, ..DecideReply::default() }.to_bytes())
    };
    let error = |kind, masked: &[u8]| read(&device, kind, masked).map(drop).unwrap_err();
    // The control: the same frames are answered where they belong.
    for (kind, frame) in [
        (scores(f64::MIN_POSITIVE), &small),
        (scores(1.0), &small),
        (scores(protocol::MOST_FACTOR), &small),
        (TaskKind::Sum, &small),
        (TaskKind::Model, &masked_model),
        (TaskKind::Answers, &products),
    ] {
        let tasks: Vec<MaskedTask> = read(&device, kind, frame).unwrap().tasks;
        assert_eq!(tasks[0].kind(), kind);
        let body = device.raise(&tasks, None, &mut rng(1)).unwrap();
        assert!(body.len() <= device.limits().raises());
    }
    for factor in [
        f64::NAN,
        0.0,
        -0.0,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        protocol::MOST_FACTOR.next_up(),
        f64::MAX,
    ] {
        for factors in [[factor; 3], [factor, 1.0, 1.0], [1.0, 1.0, factor], [factor, 0.0, 1.0]] {
            let refused = read(&device, TaskKind::Scores { factors }, &small);
            // 0 is one of the factors of a width of 0.
            let wanted = factor == 0.0 && factors[1] == 1.0;
            assert!(wanted || matches!(refused, Err(Error::BadTask(_))), "{factors:?}");
        }
    }
    for (kind, frame) in [
        (scores(1.0), &masked_model),
        (scores(1.0), &answer),
        (scores(1.0), &low),
        (TaskKind::Sum, &masked_model),
        (TaskKind::Sum, &low),
        (TaskKind::Model, &small),
        (TaskKind::Model, &low),
        (TaskKind::Model, &answer),
        (TaskKind::Model, &vec![]),
        (TaskKind::Model, &products),
        (TaskKind::Answers, &small),
        (TaskKind::Answers, &masked_model),
        (TaskKind::Answers, &answer),
        (TaskKind::Answers, &vec![]),
        (scores(1.0), &products),
        (TaskKind::Sum, &b"CKKS".to_vec()),
    ] {
        let e = error(kind, frame);
        assert!(matches!(e, Error::Ckks(_)), "{kind:?}: {e}");
    }
    // A frame that is longer than any task has is not read.
    let long = [&small[..], &vec![0; device.limits().task]].concat();
    assert!(matches!(error(TaskKind::Sum, &long), Error::Wire(wire::Error::TooLong { .. })));
    // Frames at the true scale of scores, and under the key of the other ring.
    let engine = &world().engine;
    let top = engine.params().max_level();
    let zero = || Ciphertext::zero(engine.params(), top);
    let true_scale = zero().with_scale(f64::from(LOG_SCORE).exp2());
    let frame = ckks::write_ciphertext(engine.params(), engine.key_id(), &true_scale);
    assert!(matches!(error(TaskKind::Sum, &frame), Error::Ckks(ckks::Error::WrongLevel { .. })));
    let frame = ckks::write_ciphertext(engine.params(), engine.deep().key_id(), &zero());
    assert!(matches!(error(TaskKind::Sum, &frame), Error::Ckks(ckks::Error::WrongKey { .. })));
    // More tasks than a message has.
    let task = || RaiseTask { id: 1, kind: TaskKind::Sum, masked: vec![small.clone()], pads: Vec::new() };
    let many = DecideReply { tasks: vec![task(), task(), task()], ..DecideReply::default() };
    let e = device.read(&many.to_bytes()).map(drop).unwrap_err();
    assert!(matches!(e, Error::Wire(wire::Error::Malformed(_) | wire::Error::TooLong { .. })), "{e}");
    // The open tier raises no scores.
    let open = Server::new(Answers::Scores).device();
    read(&open, TaskKind::Sum, &small).unwrap();
    assert!(matches!(read(&open, scores(1.0), &small), Err(Error::BadTask(_))));
    assert!(matches!(read(&open, TaskKind::Answers, &products), Err(Error::BadTask(_))));
}

/// A decision of another ring, level, key or user is refused, and garbage is called unreliable.
#[test]
fn attack_hostile_answers_are_refused() {
    let (arms, open) = (Server::new(Answers::Arm), Server::new(Answers::Scores));
    let (small, low, masked_model, answer) = frames();
    let read = |server: &Server, user: u32, frame: &[u8]| {
        let mut reply = server.decision(1, 0, 1, frame.to_vec());
        reply.decision.as_mut().unwrap().user = user;
        server.device().read(&reply.to_bytes()).map(|read| read.choice.unwrap())
    };
    let users = arms.created.plan.users as u32;
    let equal = read(&arms, 0, &answer).unwrap();
    let first = arms.created.config.linear.preferred(&vec![0.0; equal.values.len()], 0.0, equal.round);
    assert_eq!(equal.arm, first, "of equal arms the one that the public order prefers");
    assert!(read(&arms, users - 1, &answer).is_ok());
    for user in [users, u32::MAX] {
        assert!(matches!(read(&arms, user, &answer), Err(Error::BadAnswer(_))), "{user}");
    }
    assert!(read(&open, 0, &small).unwrap().reliable);
    // An answer before its mask, one under the key of the large ring, and one in the large ring.
    let engine = &world().engine;
    let (params, deep) = (engine.answer_params(), engine.deep());
    let foreign = ckks::write_ciphertext(params, deep.key_id(), &Ciphertext::zero(params, 0));
    let large = ckks::write_ciphertext(deep.params(), deep.key_id(), &Ciphertext::zero(deep.params(), 0));
    let unmasked = self::answer(1);
    // Coefficients under another key, at another scale or level, and more or fewer of them.
    let scale = arms.bandit.exchanges().answers.to().1;
    let some = |key, count, level, scale| {
        let zero = rns::Poly::<rns::Coeff>::zero(params.n(), level + 1);
        ckks::write_partial_ciphertext(params, key, &zero, 0..count, &[1; 32], level, scale)
    };
    let id = engine.key_id();
    assert!(read(&arms, users - 1, &some(id, ARMS, 0, scale)).is_ok());
    let [other_key, other_scale, other_level, more, fewer] = [
        some(deep.key_id(), ARMS, 0, scale),
        some(id, ARMS, 0, 2.0 * scale),
        some(id, ARMS, 1, scale),
        some(id, ARMS + 1, 0, scale),
        some(id, ARMS - 1, 0, scale),
    ];
    for (server, frames) in [
        (&arms, vec![&small, &low, &masked_model, &unmasked, &foreign, &large]),
        (&arms, vec![&other_key, &other_scale, &other_level, &more, &fewer]),
        (&open, vec![&answer, &low, &masked_model]),
    ] {
        for frame in frames {
            let e = read(server, 0, frame).map(drop).unwrap_err();
            assert!(matches!(e, Error::Ckks(_) | Error::Wire(wire::Error::TooLong { .. })), "{e}");
        }
    }
    // Uniform garbage decrypts to numbers that no score is.
    let (params, top) = (engine.params(), engine.params().max_level());
    let uniform = |seed| ckks::uniform_c1(params, top, &[seed; 32]);
    let garbage = Ciphertext::new(uniform(1), uniform(2), top, params.scale(top));
    let garbage = ckks::write_ciphertext(params, engine.key_id(), &garbage);
    assert!(!read(&open, 0, &garbage).unwrap().reliable);
    let (params, level) = (engine.answer_params(), arms.created.plan.answer_level);
    let uniform = |seed| ckks::uniform_c1(params, level, &[seed; 32]);
    let garbage = Ciphertext::new(uniform(1), uniform(2), level, params.scale(level));
    let garbage = ckks::write_ciphertext(params, engine.key_id(), &garbage);
    assert!(!read(&arms, 0, &garbage).unwrap().reliable);
    // Bytes that are no reply.
    let reply = arms.decision(1, 0, 1, answer).to_bytes();
    for cut in [0, 3, 100, reply.len() - 1] {
        assert!(arms.device().read(&reply[..cut]).is_err());
    }
}

/// A server that answers with these statuses and bodies.
fn scripted(script: Vec<(u16, Vec<u8>)>) -> (Client, Requests) {
    let kind = |status| if status < 300 { wire::OCTET_STREAM } else { wire::PROBLEM_JSON };
    let script = script.into_iter().map(|(status, body)| (format!("{status} X"), kind(status).into(), body));
    let (address, requests) = answers(script.collect());
    (Client::new(&address).unwrap(), requests)
}

fn problem(kind: ProblemType) -> (u16, Vec<u8>) {
    (kind.status(), serde_json::to_vec(&wire::Problem::from(kind)).unwrap())
}

/// A device raises under its ticket if it is asked to, sends its contexts again if another was faster or
/// the evaluation ended, and answers the tasks that are left without a ticket.
#[test]
fn a_decision_is_carried_through() {
    let server = Server::new(Answers::Arm);
    let device = server.device();
    let (small, _, _, answer) = frames();
    let rows = vec![vec![0.5, 0.5], vec![0.25, 0.0]];
    let task = |id, kind| RaiseTask { id, kind, masked: vec![small.clone()], pads: Vec::new() };
    let scores = || task(7, TaskKind::Scores { factors: [1.0; 3] });
    let asked = DecideReply { ticket: Some(TICKET), tasks: vec![scores()], ..DecideReply::default() };
    let asked = || (200, asked.to_bytes());
    let mut decided = server.decision(4, 1, 2, answer);
    decided.tasks = vec![task(8, TaskKind::Sum)];
    let decided = || (200, decided.to_bytes());
    let done = || (200, DecideReply::default().to_bytes());
    let over = || problem(ProblemType::TaskOver);

    let script = vec![asked(), over(), problem(ProblemType::NotEvaluated), asked(), decided(), over()];
    let (client, requests) = scripted(script);
    let round = device.play(&client, &rows, &mut rng(1)).unwrap();
    assert_eq!((round.choice.id, round.choice.round), (server.bandit.decision_id(4), 4));
    assert!(round.tasks.is_empty());
    let requests = requests.join().unwrap();
    let sent: usize = requests.iter().map(|(_, body)| body.len()).sum();
    assert_eq!((round.sent, round.received > 0), (sent, true));
    let lines: Vec<&str> = requests.iter().map(|(line, _)| line.as_str()).collect();
    let [ask, raise] = ["decisions", "raises"].map(|what| format!("POST /v1/bandits/b/{what} HTTP/1.1"));
    assert_eq!(lines, [&ask, &raise, &ask, &ask, &raise, &raise]);
    let contexts = [0, 2, 3].map(|i| &requests[i].1);
    assert!(contexts.iter().all(|body| *body == contexts[0]));
    let raises = [1, 4, 5].map(|i| Raises::read(&requests[i].1, device.limits()).unwrap());
    assert_eq!(raises.each_ref().map(|r| r.ticket), [Some(TICKET), Some(TICKET), None]);
    assert!(matches!(raises[2].raised[..], [(8, Raised::Sum(_))]));
    assert!(raises[0].raised != raises[1].raised, "fresh encryptions");

    // What is left is answered only when the caller says so.
    let (client, requests) = scripted(vec![decided(), done()]);
    let mut round = device.decide(&client, &rows, &mut rng(1)).unwrap();
    assert_eq!(round.tasks.len(), 1);
    device.answer_tasks(&client, &mut round, &mut rng(1)).unwrap();
    assert_eq!((round.tasks.len(), requests.join().unwrap().len()), (0, 2));

    // Three repeats, and four answers to tasks.
    let play = |script| {
        let (client, requests) = scripted(script);
        let error = device.play(&client, &rows, &mut rng(1)).map(drop).unwrap_err();
        (error, requests.join().unwrap().len())
    };
    let (error, count) = play((0..4).flat_map(|_| [asked(), over()]).collect());
    assert!(matches!(error, Error::Refused(p) if p.status == 409) && count == 8);
    let (error, count) = play((0..5).map(|_| asked()).collect());
    assert!(matches!(error, Error::BadAnswer(_)) && count == 5, "{error}");
    // Neither a decision nor a task; a task without a place; another refusal.
    let lost = DecideReply { tasks: vec![scores()], ..DecideReply::default() };
    for reply in [done(), (200, lost.to_bytes())] {
        assert!(matches!(play(vec![reply]), (Error::BadAnswer(_), 1)));
    }
    let (error, _) = play(vec![problem(ProblemType::NoKeys)]);
    assert!(matches!(error, Error::Refused(p) if p.status == 409), "a decision is refused once");
    let (error, _) = play(vec![asked(), problem(ProblemType::UnknownBandit)]);
    assert!(matches!(error, Error::Refused(p) if p.status == 404));
}

/// Answers are read up to the length that such an answer can have.
#[test]
fn answers_of_bandits_are_bounded() {
    let device = Server::new(Answers::Arm).device();
    let (limits, long) = (device.limits(), vec![0; device.limits().reply() + 1]);
    let client = |body: &[u8]| scripted(vec![(200, body.to_vec())]).0;
    let bad = |answer: Result<Vec<u8>, Error>| assert!(matches!(answer, Err(Error::BadAnswer(_))));
    bad(client(&long).decide_several("b", limits, 1, &[]));
    bad(client(&long).post_raises("b", limits, &[]));
    bad(client(&long).raises("b", limits, 1).map(Option::unwrap_or_default));
    assert_eq!(client(&long[1..]).raises("b", limits, 1).unwrap().unwrap().len(), limits.reply());
    let (nothing, requests) = scripted(vec![(204, vec![])]);
    assert!(nothing.raises("b", limits, 30).unwrap().is_none());
    assert_eq!(requests.join().unwrap()[0].0, "GET /v1/bandits/b/raises?wait=30 HTTP/1.1");
    for id in ["", "../keys", "a/b"] {
        assert!(matches!(client(&[]).post_raises(id, limits, &[]), Err(Error::BadId)));
    }
    // A server that creates another bandit than it was asked for.
    let created = Server::new(Answers::Arm).created;
    let make =
        |config: &BanditConfig| client(&serde_json::to_vec(&created).unwrap()).create_encrypted(config);
    assert_eq!(make(&created.config).unwrap(), created);
    let other = BanditConfig { answers: Answers::Scores, ..created.config.clone() };
    assert!(matches!(make(&other), Err(Error::BadAnswer(_))));
}
