use crate::in_process::{InProcess, in_one_process};
use ckks::{Ciphertext, Params, Plaintext};
use ckks_shares::Quorum;
use envelope::SealingSecret;
use helba_member::MemberKeys;
use helba_member::serve::{Ledger, Member};
use helba_server::{AppState, Settings};
use protocol::exchange::OPENED_FORM_BITS;
use protocol::{BanditConfig, Exchanges, LOG_FACTOR, LOG_SCORE, ScoreRing, Shape};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::ClearTwin;
use user_client::{Client, Error, Stop};
use wire::{
    AnswerBinding, BanditView, CommitteeContexts, Created, DecideReply, Limits, OpenedAnswer, PublicBundle,
    UsersBundle, answer_key_hash,
};

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// A server in a thread of its own, with its address.
fn serve(public: &[u8], state: &std::path::Path) -> String {
    let bundle = PublicBundle::read(public).unwrap();
    let state = state.to_path_buf();
    let settings = Settings { last_raise: Duration::from_secs(2), ..Settings::default() };
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let state = AppState::open(bundle, &state, settings).unwrap();
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            let router = helba_server::app(state);
            helba_server::serve(listener, router, Default::default(), std::future::pending()).await;
        });
    });
    format!("http://{}", receiver.recv().unwrap())
}

/// A server and the members of its committee.
struct World {
    users: UsersBundle,
    client: Client,
    members: BTreeMap<u8, MemberKeys>,
    running: BTreeMap<u8, (Stop, std::thread::JoinHandle<MemberKeys>)>,
    folder: tempfile::TempDir,
}

impl World {
    fn start(threshold: u8, members: u8, dim: usize, arms: usize) -> Self {
        Self::start_with(threshold, members, dim, arms, true)
    }

    fn start_with(threshold: u8, members: u8, dim: usize, arms: usize, toy: bool) -> Self {
        let quorum = Quorum::new(threshold, members).unwrap();
        let request = keygen::Request { shape: Shape::for_problem(dim, arms), toy, created: 0 };
        let InProcess { public, users, members } = in_one_process(request, quorum, &mut rng(1));
        let users = UsersBundle::read(&users[..]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let url = serve(&public, &folder.path().join("state"));
        let client = Client::new(&url).unwrap().with_token(users.token.clone());
        let members = members.into_iter().map(|keys| (keys.member(), keys)).collect();
        World { users, client, members, running: BTreeMap::new(), folder }
    }

    /// Starts a member, with the ledger that it had before.
    fn join(&mut self, member: u8) {
        let (keys, client, stop) =
            (self.members.remove(&member).unwrap(), self.client.clone(), Stop::default());
        let path = self.folder.path().join(format!("ledger-{member}"));
        let of_thread = stop.clone();
        let thread = std::thread::spawn(move || {
            let ledger = Ledger::open(&path).unwrap();
            let member = Member::new(keys, ledger, client, of_thread, |line| eprintln!("{line}"));
            member.run(2, &mut rng(9)).unwrap();
            member.into_keys()
        });
        self.running.insert(member, (stop, thread));
    }

    /// Stops a member.
    fn leave(&mut self, member: u8) {
        let (stop, thread) = self.running.remove(&member).unwrap();
        stop.stop();
        self.members.insert(member, thread.join().unwrap());
    }

    fn create(&self, dim: usize, arms: usize) -> (BanditConfig, Device) {
        let config = BanditConfig { horizon: 100, ..BanditConfig::new(dim, arms) };
        let created = self.client.create_encrypted(&config).unwrap();
        (config, Device::new(&self.users, &created))
    }

    /// Waits until no update and no task of the bandit is under way.
    fn settle(&self, device: &Device) -> protocol::Status {
        for _ in 0..1500 {
            let BanditView { status, .. } = self.client.encrypted(&device.created.id).unwrap();
            if !status.updating && !status.refresh_due {
                return status;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("an update without an end")
    }
}

fn rows(seed: u32, dim: usize, arms: usize) -> Vec<Vec<f64>> {
    let x = |i: usize| f64::from((seed * 7 + i as u32 * 5) % 11) / 11.0 / (dim as f64).sqrt();
    (0..arms).map(|arm| (0..dim).map(|i| x(arm * dim + i)).collect()).collect()
}

fn best(indices: &[f64]) -> (usize, f64) {
    let mut order: Vec<usize> = (0..indices.len()).collect();
    order.sort_by(|a, b| indices[*b].total_cmp(&indices[*a]));
    (order[0], indices[order[0]] - indices[order[1]])
}

/// The arm is that of the exact indices, unless the comparison does not resolve the best two.
fn check(config: &BanditConfig, reply: &Answered, indices: &[f64]) {
    let range = helba::Scalars::new(config, reply.round, reply.model_feedbacks).range;
    let (arm, gap) = best(indices);
    let same = gap / range < config.resolution() || reply.arm == arm;
    assert!(same, "{:?} for {indices:?}, {} of the range apart", reply.entries, gap / range);
}

#[test]
fn users_without_a_secret_learn_through_a_committee() {
    let mut world = World::start(2, 3, 2, 2);
    (1..=3).for_each(|member| world.join(member));
    let (config, device) = world.create(2, 2);
    let (mut twin, mut draws) = (ClearTwin::new(config.clone()), rng(3));
    for round in 1..=12 {
        let rows = rows(round, 2, 2);
        let reply = device.decide(&world.client, &rows, &mut draws);
        let indices = twin.indices(&rows, reply.round, reply.model_feedbacks);
        check(&config, &reply, &indices);
        let reward = if reply.arm == 0 { 0.7 } else { -0.2 };
        device.feedback(&world.client, reply.id, &rows[reply.arm], reward, &mut draws);
        twin.learn(&rows[reply.arm], reward);
        world.settle(&device);
    }
    assert!(world.settle(&device).refreshes > 5);
}

/// Users who ask at once share an evaluation, and each reads its own arms.
#[test]
fn many_users_share_an_evaluation() {
    let mut world = World::start(3, 5, 5, 4);
    (1..=5).for_each(|member| world.join(member));
    let (config, device) = world.create(5, 4);
    let mut twin = ClearTwin::new(config.clone());
    let most = std::thread::scope(|scope| {
        let ask = |user: u32| {
            let (device, client) = (&device, &world.client);
            scope.spawn(move || {
                let rows = rows(user, 5, 4);
                (device.decide(client, &rows, &mut rng(user.into())), rows)
            })
        };
        let asked: Vec<_> = (0..24).map(ask).collect();
        let answered: Vec<_> = asked.into_iter().map(|thread| thread.join().unwrap()).collect();
        for (reply, rows) in &answered {
            check(&config, reply, &twin.indices(rows, reply.round, reply.model_feedbacks));
        }
        answered.iter().map(|(reply, _)| reply.users).max().unwrap()
    });
    assert!(most > 4, "{most} users in the largest evaluation");
}

/// While t members are here, decisions go on; with fewer they wait, and learn why; who comes back helps.
#[test]
fn two_members_of_five_may_leave() {
    let mut world = World::start(3, 5, 2, 2);
    (1..=5).for_each(|member| world.join(member));
    let (_, device) = world.create(2, 2);
    let mut draws = rng(4);
    let mut play = |world: &World| {
        let reply = device.decide(&world.client, &rows(3, 2, 2), &mut draws);
        device.feedback(&world.client, reply.id, &rows(3, 2, 2)[reply.arm], 0.5, &mut draws);
        world.settle(&device)
    };
    play(&world);
    for member in [2, 5] {
        world.leave(member);
        play(&world);
    }
    world.leave(1);
    let refused = device.ask(&world.client, &rows(1, 2, 2), &mut rng(5)).unwrap_err();
    assert!(refused.to_string().contains("2 members of the committee are here, and it takes 3"), "{refused}");
    world.join(5);
    play(&world);
}

/// A device without a secret, from public parts.
struct Device {
    users: UsersBundle,
    created: Created,
    exchanges: Exchanges,
    answers: Params,
    limits: Limits,
}

#[derive(Debug)]
struct Answered {
    id: protocol::DecisionId,
    round: u64,
    model_feedbacks: u64,
    users: u32,
    arm: usize,
    entries: Vec<f64>,
}

impl Device {
    fn new(bundle: &UsersBundle, created: &Created) -> Self {
        let (large, small) = (bundle.params.clone(), bundle.small.clone());
        let ring = ScoreRing::beside(large.spec(), bundle.manifest.shape).unwrap();
        let answers = ring.answers(large.spec()).validate().unwrap();
        let exchanges = Exchanges::new(&created.config, &created.plan, ring, &small, &large).unwrap();
        let limits = Limits::new(&large, &small, &answers, &created.config, &created.plan, &exchanges.layout)
            .unwrap()
            .under_committee(&small, &exchanges.layout);
        let users = UsersBundle {
            manifest: bundle.manifest.clone(),
            committee: bundle.committee.clone(),
            params: large,
            small,
            public_key: bundle.public_key.clone(),
            key_id: bundle.key_id,
            token: bundle.token.clone(),
        };
        Device { users, created: created.clone(), exchanges, answers, limits }
    }

    fn encrypt(&self, coefficients: &[i64], log_scale: u32, rng: &mut ChaCha20Rng) -> Ciphertext {
        let (small, scale) = (&self.users.small, f64::from(log_scale).exp2());
        let message = Plaintext::from_integers(small, coefficients, small.max_level(), scale).unwrap();
        ckks::encrypt_wide(small, &self.users.public_key, &message, rng)
    }

    fn decide(&self, client: &Client, rows: &[Vec<f64>], rng: &mut ChaCha20Rng) -> Answered {
        self.ask(client, rows, rng).unwrap()
    }

    fn ask(&self, client: &Client, rows: &[Vec<f64>], rng: &mut ChaCha20Rng) -> Result<Answered, Error> {
        let layout = &self.exchanges.layout;
        let contexts = self.encrypt(&layout.contexts(&[rows]).unwrap(), LOG_FACTOR, rng);
        let secret = SealingSecret::generate(rng);
        let contexts = ckks::write_ciphertext(&self.users.small, self.users.key_id, &contexts);
        let body = CommitteeContexts { answer_key: secret.public(), contexts }.to_bytes();
        let reply = client.decide_several(&self.created.id, &self.limits, 1, &body)?;
        let decision = DecideReply::read(&reply, &self.limits).unwrap().decision.unwrap();
        let quorum = self.users.committee.quorum().unwrap();
        let (opened, set) = OpenedAnswer::read(&decision.answer, quorum, layout.arms()).unwrap();
        let binding = AnswerBinding {
            bandit: self.created.id.clone(),
            round: decision.round,
            model_feedbacks: decision.model_feedbacks,
            users: vec![decision.user],
            answer_key: answer_key_hash(&secret.public()),
        };
        let slots = layout.answer_slots(decision.user as usize, self.users.params.max_slots());
        let q = self.answers.q_basis(0).modulus(0);
        let mut sums = opened.values.clone();
        for share in &opened.shares {
            let verifying = &self.users.committee.members[usize::from(share.member - 1)].verifying.0;
            share.check(verifying, &binding, &opened.request, set).unwrap();
            let residues = share.open(&secret, &binding, &opened.request, set, slots.len()).unwrap();
            sums.iter_mut().zip(residues.iter()).for_each(|(sum, x)| *sum = q.add(*sum, *x));
        }
        let unit = f64::from(OPENED_FORM_BITS).exp2() * self.answers.scale(0);
        let entries: Vec<f64> = sums.iter().map(|&sum| q.centered(sum) as f64 / unit).collect();
        let (arm, _) = best(&entries);
        let (round, model_feedbacks, users) = (decision.round, decision.model_feedbacks, decision.users);
        Ok(Answered { id: decision.id, round, model_feedbacks, users, arm, entries })
    }

    fn feedback(
        &self,
        client: &Client,
        id: protocol::DecisionId,
        features: &[f64],
        reward: f64,
        rng: &mut ChaCha20Rng,
    ) {
        let statistics = self.exchanges.layout.statistics(features, reward).unwrap();
        let encrypted = self.encrypt(&statistics, LOG_SCORE, rng);
        let (small, key) = (&self.users.small, self.users.key_id);
        let frame = ckks::write_truncated_ciphertext(small, key, &encrypted, statistics.len());
        client.feedback_encrypted(&self.created.id, id, &frame).unwrap();
    }
}

/// Decisions of a lone user under keys of the default parameters, 3 of 5, one after the other: prints times.
#[test]
#[ignore = "prints times of real parameters"]
fn times_of_real_parameters() {
    let mut world = World::start_with(3, 5, 7, 4, false);
    (1..=5).for_each(|member| world.join(member));
    let (config, device) = world.create(7, 4);
    let (mut twin, mut draws) = (ClearTwin::new(config.clone()), rng(3));
    let mut times = Vec::new();
    for round in 1..=20 {
        let rows = rows(round, 7, 4);
        let began = std::time::Instant::now();
        let reply = device.decide(&world.client, &rows, &mut draws);
        times.push(began.elapsed().as_secs_f64());
        let indices = twin.indices(&rows, reply.round, reply.model_feedbacks);
        check(&config, &reply, &indices);
        device.feedback(&world.client, reply.id, &rows[reply.arm], 0.5, &mut draws);
        twin.learn(&rows[reply.arm], 0.5);
        world.settle(&device);
    }
    times.sort_by(f64::total_cmp);
    println!("a decision takes {:.3} s at the median, {:.3} to {:.3} s", times[10], times[0], times[19]);
}
