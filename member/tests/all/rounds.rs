use crate::in_process::{InProcess, in_one_process};
use ckks::{Ciphertext, Params, Plaintext};
use ckks_shares::Quorum;
use envelope::SealingSecret;
use helba_member::serve::{Ledger, Member};
use helba_server::{AppState, Settings};
use protocol::exchange::OPENED_FORM_BITS;
use protocol::{BanditConfig, Exchanges, LOG_FACTOR, LOG_SCORE, ScoreRing, Shape};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::time::Duration;
use testkit::ClearTwin;
use user_client::{Client, Stop};
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
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let state = AppState::open(bundle, &state, Settings::default()).unwrap();
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            let router = helba_server::app(state);
            helba_server::serve(listener, router, Default::default(), std::future::pending()).await;
        });
    });
    format!("http://{}", receiver.recv().unwrap())
}

#[test]
fn users_without_a_secret_learn_through_a_committee() {
    let quorum = Quorum::new(2, 3).unwrap();
    let request = keygen::Request { shape: Shape::for_problem(2, 2), toy: true, created: 0 };
    let InProcess { public, users, members } = in_one_process(request, quorum, &mut rng(1));
    let users = UsersBundle::read(&users[..]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = serve(&public, &folder.path().join("state"));
    let token = users.token.clone();
    let client = Client::new(&url).unwrap().with_token(token);
    let stop = Stop::default();
    for keys in members {
        let ledger = Ledger::open(&folder.path().join(format!("ledger-{}", keys.member()))).unwrap();
        let member = Member::new(keys, ledger, client.clone(), stop.clone(), |line| eprintln!("{line}"));
        std::thread::spawn(move || member.run(2, &mut rng(9)).unwrap());
    }
    let config = BanditConfig { horizon: 100, ..BanditConfig::new(2, 2) };
    let created = client.create_encrypted(&config).unwrap();
    let device = Device::new(&users, &created);
    let (mut twin, mut draws) = (ClearTwin::new(config.clone()), rng(3));
    for round in 1..=12u32 {
        let x = |i: u32| f64::from((round * 7 + i * 5) % 11) / 11.0 * 0.7;
        let rows = vec![vec![x(0), x(1)], vec![x(2), x(3)]];
        let reply = device.decide(&client, &rows, &mut draws);
        let want = twin.indices(&rows, reply.round, reply.model_feedbacks);
        let best = usize::from(want[1] > want[0]);
        eprintln!("{round}: {:?} for {want:?}", reply.entries);
        assert!((want[0] - want[1]).abs() < 0.02 || reply.arm == best, "round {round}");
        let reward = if reply.arm == 0 { 0.7 } else { -0.2 };
        device.feedback(&client, reply.id, &rows[reply.arm], reward, &mut draws);
        twin.learn(&rows[reply.arm], reward);
        for _ in 0..500 {
            let BanditView { status, .. } = client.encrypted(&created.id).unwrap();
            if !status.updating && !status.refresh_due {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    assert!(client.encrypted(&created.id).unwrap().status.refreshes > 0);
    stop.stop();
}

/// A device without a secret, from public parts.
struct Device {
    users: UsersBundle,
    created: Created,
    exchanges: Exchanges,
    answers: Params,
    limits: Limits,
}

struct Answered {
    id: protocol::DecisionId,
    round: u64,
    model_feedbacks: u64,
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
        ckks::encrypt(small, &self.users.public_key, &message, rng)
    }

    fn decide(&self, client: &Client, rows: &[Vec<f64>], rng: &mut ChaCha20Rng) -> Answered {
        let layout = &self.exchanges.layout;
        let contexts = self.encrypt(&layout.contexts(&[rows]).unwrap(), LOG_FACTOR, rng);
        let secret = SealingSecret::generate(rng);
        let contexts = ckks::write_ciphertext(&self.users.small, self.users.key_id, &contexts);
        let body = CommitteeContexts { answer_key: secret.public(), contexts }.to_bytes();
        let reply = client.decide_several(&self.created.id, &self.limits, 1, &body).unwrap();
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
        let arm = usize::from(entries[1] > entries[0]);
        let (round, model_feedbacks) = (decision.round, decision.model_feedbacks);
        Answered { id: decision.id, round, model_feedbacks, arm, entries }
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
