use crate::committee::rng;
use crate::rounds::{World, check, rows};
use ckks::{Ciphertext, KeyId, Params};
use protocol::{BanditConfig, ScoreRing};
use rns::{Coeff, Ntt, Poly};
use testkit::ClearTwin;
use user_client::BanditDevice;

/// The ring of scores of a world, in which a hostile user makes ciphertexts of its own.
pub(super) struct Small {
    pub(super) params: Params,
    pub(super) key: KeyId,
}

impl Small {
    pub(super) fn of(device: &BanditDevice<'_>, shape: protocol::Shape) -> Self {
        let params = ScoreRing::for_shape(shape, true).unwrap().params.validate().unwrap();
        Small { params, key: device.created().scores_key_id.parse().unwrap() }
    }

    fn uniform(&self, seed: u64) -> Poly<Ntt> {
        rns::sample::uniform(self.params.q_basis(self.params.max_level()), &mut rng(seed))
    }

    fn zero(&self) -> Poly<Ntt> {
        Poly::zero(self.params.n(), self.params.max_level() + 1)
    }

    fn feedback(&self, c0: Poly<Ntt>, c1: Poly<Ntt>, count: usize) -> Vec<u8> {
        let scale = f64::from(protocol::LOG_STATISTICS).exp2();
        let ct = Ciphertext::new(c0, c1, self.params.max_level(), scale);
        ckks::write_truncated_ciphertext(&self.params, self.key, &ct, count)
    }

    /// The frame of an honest feedback with 2^`log` more in its first coefficient.
    fn shifted(&self, frame: &[u8], count: usize, log: u32) -> Vec<u8> {
        let (params, level) = (&self.params, self.params.max_level());
        let scale = f64::from(protocol::LOG_STATISTICS).exp2();
        let ct = ckks::read_truncated_ciphertext(params, self.key, level, scale, count, frame).unwrap();
        let basis = params.q_basis(level);
        let mut shift = Poly::<Coeff>::zero(params.n(), basis.len());
        shift.for_each_limb(|i, limb| limb[0] = basis.modulus(i).reduce_i128(1 << log));
        let mut c0 = ct.c0().clone();
        c0.add_assign(basis, &shift.into_ntt(basis));
        self.feedback(c0, ct.c1().clone(), count)
    }
}

/// Feedback that no device sends is dropped before the sum of its batch is raised: the batch goes on with the
/// feedback of the others, members who replay agree, and the sender learns the reason. The control, what
/// becomes of such a sum without the check, is `attack_a_sum_out_of_range_is_not_raised` in `ckks-committee`.
#[test]
fn attack_feedback_out_of_range_is_dropped() {
    let mut world = World::start(2, 3, 2, 2);
    world.replays = true;
    (1..=3).for_each(|member| world.join(member));
    let shape = world.shape();
    let mut config = BanditConfig { horizon: 100, ..BanditConfig::new(2, 2) };
    config.linear.schedule = bandit::Schedule::Every { rounds: 3 };
    let created = world.client.create_encrypted(&config).unwrap();
    let device = world.device.clone().join_shared(&created).unwrap();
    let (mut twin, mut draws) = (ClearTwin::new(config.clone()), rng(3));
    let (small, count) = (Small::of(&device, shape), 5);
    let hostile = |kind: u32, honest: &[u8]| match kind {
        0 => small.feedback(small.zero(), small.uniform(5), count),
        1 => small.feedback(small.uniform(6), small.uniform(7), count),
        // 2⁻¹⁵ of the modulus is 2⁸³.
        2 => small.shifted(honest, count, 85),
        _ => small.shifted(honest, count, 96),
    };
    let (mut sent, mut last) = (Vec::new(), None);
    for round in 1..=12u32 {
        let rows = rows(round, 2, 2);
        let reply = device.decide(&world.client, &rows, &mut draws).unwrap().choice;
        check(&config, &reply, &twin.indices(&rows, reply.round, reply.model_feedbacks));
        let (x, reward) = (&rows[reply.arm], if reply.arm == 0 { 0.7 } else { -0.2 });
        let honest = device.feedback(reply.arm, x, reward, None, &mut rng(reply.round)).unwrap();
        let frame = match round % 3 {
            2 => hostile(round / 3, &honest),
            _ => honest,
        };
        world.client.feedback_encrypted(&created.id, reply.id, &frame).unwrap();
        if round % 3 == 2 {
            // It counts, and nothing is learnt.
            twin.learn(&[0.0; 2], 0.0);
            sent.push((reply.id, frame));
        } else {
            twin.learn(x, reward);
            last = Some((reply.id, frame));
        }
        world.settle(&device);
    }
    let status = world.settle(&device);
    assert_eq!((status.refreshes, status.feedbacks), (4, 12), "no batch waits");
    for (id, frame) in &sent {
        let refused = world.client.feedback_encrypted(&created.id, *id, frame).unwrap_err();
        let user_client::Error::Refused(problem) = refused else { panic!("{refused}") };
        assert!(problem.detail.contains("was dropped"), "{}", problem.detail);
    }
    let (id, frame) = last.unwrap();
    world.client.feedback_encrypted(&created.id, id, &frame).unwrap();
}

/// While a batch waits for its check, none of its feedback is erased, so that no check of the others begins
/// again: the server says to ask again. The control, a feedback that no check has, is erased at once.
#[test]
fn attack_an_erasure_begins_no_check_again() {
    let mut world = World::start(2, 3, 2, 2);
    (1..=2).for_each(|member| world.join(member));
    let mut config = BanditConfig { horizon: 100, ..BanditConfig::new(2, 2) };
    config.linear.schedule = bandit::Schedule::Every { rounds: 2 };
    let created = world.client.create_encrypted(&config).unwrap();
    let device = world.device.clone().join_shared(&created).unwrap();
    let mut draws = rng(3);
    let played: Vec<_> = (1..=3u32)
        .map(|round| {
            let rows = rows(round, 2, 2);
            let reply = device.decide(&world.client, &rows, &mut draws).unwrap().choice;
            (reply, rows)
        })
        .collect();
    (1..=2).for_each(|member| world.leave(member));
    for (reply, rows) in &played {
        world.feedback(&device, reply, &rows[reply.arm], 0.7);
    }
    let erase = |at: usize| world.client.erase_feedback(&created.id, played[at].0.id);
    for at in [0, 1] {
        let refused = erase(at).unwrap_err();
        assert!(refused.is_temporary());
        let user_client::Error::Refused(problem) = refused else { panic!("{refused}") };
        assert_eq!((problem.status, problem.reason.as_deref()), (409, Some("being_checked")));
    }
    erase(2).unwrap();
    (1..=2).for_each(|member| world.join(member));
    let stop = user_client::Stop::default();
    let patience = std::time::Duration::from_secs(60);
    let erase = |at: usize| world.client.erase_feedback(&created.id, played[at].0.id);
    user_client::patiently(patience, &stop, &mut rng(5), |_| erase(0)).unwrap();
    world.settle(&device);
}

/// Members who replay follow an erasure, and what is learnt is what the twin learns without the feedback.
#[test]
fn members_follow_an_erasure() {
    let mut world = World::start(2, 3, 2, 2);
    world.replays = true;
    (1..=2).for_each(|member| world.join(member));
    let mut config = BanditConfig { horizon: 100, ..BanditConfig::new(2, 2) };
    config.linear.schedule = bandit::Schedule::Every { rounds: 2 };
    let created = world.client.create_encrypted(&config).unwrap();
    let device = world.device.clone().join_shared(&created).unwrap();
    let (mut history, mut draws) = (Vec::new(), rng(3));
    for round in 1..=9u32 {
        let rows = rows(round, 2, 2);
        let reply = device.decide(&world.client, &rows, &mut draws).unwrap().choice;
        if round > 6 {
            let mut twin = ClearTwin::new(config.clone());
            history.iter().for_each(|(_, x, reward): &(_, Vec<f64>, f64)| twin.learn(x, *reward));
            check(&config, &reply, &twin.indices(&rows, reply.round, reply.model_feedbacks));
        }
        world.feedback(&device, &reply, &rows[reply.arm], 0.7);
        history.push((reply.id, rows[reply.arm].clone(), 0.7));
        world.settle(&device);
        // Of the first batch, which is in the statistics, and of the open one.
        if round == 3 {
            for at in [0, 2] {
                let receipt = world.client.erase_feedback(&created.id, history[at].0).unwrap();
                assert_eq!(world.client.erase_feedback(&created.id, history[at].0).unwrap(), receipt);
                (history[at].1, history[at].2) = (vec![0.0; 2], 0.0);
            }
        }
    }
    assert!(world.settle(&device).refreshes >= 4);
}
