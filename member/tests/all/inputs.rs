use crate::committee::rng;
use crate::rounds::{World, best, check, rows};
use ckks::{Params, Plaintext, PublicKey};
use protocol::{BanditConfig, DecisionId};
use rand::RngExt;
use rns::{Coeff, Ntt, Poly};
use testkit::ClearTwin;
use wire::{CommitteeContexts, UsersBundle};

/// The wide key of the ring of scores of a world, under which a hostile user encrypts what no device does.
pub(super) struct Small {
    params: Params,
    key: PublicKey,
}

impl Small {
    pub(super) fn of(world: &World) -> Self {
        let UsersBundle { small, public_key, .. } = UsersBundle::read(&world.users[..]).unwrap();
        Small { params: small, key: public_key }
    }

    fn level(&self) -> usize {
        self.params.max_level()
    }

    /// A message that is uniform modulo q.
    fn uniform(&self, seed: u64) -> Poly<Ntt> {
        rns::sample::uniform(self.params.q_basis(self.level()), &mut rng(seed))
    }

    /// The message 2^`log`.
    fn constant(&self, log: u32) -> Poly<Ntt> {
        let basis = self.params.q_basis(self.level());
        let mut constant = Poly::<Coeff>::zero(self.params.n(), basis.len());
        constant.for_each_limb(|i, limb| limb[0] = basis.modulus(i).reduce_i128(1 << log));
        constant.into_ntt(basis)
    }

    /// The feedback of this message, with its proof.
    fn feedback(&self, message: Poly<Ntt>, count: usize, bandit: &str, round: u64) -> Vec<u8> {
        let message = Plaintext::new(message, self.level(), f64::from(protocol::LOG_STATISTICS).exp2());
        let about = wire::feedback_about(bandit, round);
        ckks::encrypt_proven(&self.params, &self.key, &message, count, &about, &mut rng(round))
    }

    /// The feedback of 2^`log`, with its proof.
    pub(super) fn shifted(&self, log: u32, count: usize, bandit: &str, round: u64) -> Vec<u8> {
        self.feedback(self.constant(log), count, bandit, round)
    }

    /// The frame with c₁ such that 2·c₁/P is this polynomial, c₀ = 0, and the proof of another one.
    fn of_the_key(&self, frame: &[u8], g: &[i64]) -> Vec<u8> {
        let (wide, mut frame) = (self.params.qp_basis(self.level()), frame.to_vec());
        let mut c1 = Poly::<Coeff>::from_signed(wide, g).into_ntt(wide);
        self.params.p_basis().primes().for_each(|p| c1.mul_integer_assign(wide, p.into()));
        c1.divide_exactly_assign(wide, 1);
        let mut bytes = Vec::new();
        ckks::pack_residues(&mut bytes, wide, &c1);
        frame[ckks::FRAME_HEADER_BYTES..][..bytes.len()].copy_from_slice(&bytes);
        with_digest(frame)
    }
}

fn with_digest(mut frame: Vec<u8>) -> Vec<u8> {
    let end = frame.len() - ckks::FRAME_DIGEST_BYTES;
    let digest = blake3::hash(&frame[..end]);
    frame[end..].copy_from_slice(digest.as_bytes());
    frame
}

/// The server refuses feedback and contexts whose proof does not hold, with 422: (0, g) with a small g,
/// feedback for another round, and contexts of another user under a key of one's own. The same decision then
/// takes the feedback of its device. What (0, g) would show is in the test of this name in `user-client`.
#[test]
fn attack_uploads_without_a_proof_are_refused() {
    let mut world = World::start(2, 3, 2, 2);
    (1..=2).for_each(|member| world.join(member));
    let (_, device) = world.create(2, 2);
    let small = Small::of(&world);
    let reply = device.decide(&world.client, &rows(1, 2, 2), &mut rng(3)).unwrap().choice;
    let bandit = device.created().id.clone();
    let feedback =
        |id: DecisionId| device.feedback(id, reply.arm, &[0.5, 0.5], 0.5, None, &mut rng(4)).unwrap();
    let mut other = reply.id;
    other.0[0] += 1;
    let honest = feedback(reply.id);
    let unproven = |error: user_client::Error| {
        let user_client::Error::Refused(problem) = error else { panic!("{error}") };
        assert!(problem.status == 422 && problem.detail.contains("the proof"), "{problem:?}");
    };
    for bad in [small.of_the_key(&honest, &[1 << 17]), feedback(other)] {
        unproven(world.client.feedback_encrypted(&bandit, reply.id, &bad).unwrap_err());
    }
    world.client.feedback_encrypted(&bandit, reply.id, &honest).unwrap();

    let asking = device.ask(&[&rows(2, 2, 2)], &mut rng(5)).unwrap();
    let body = asking.request().unwrap().body.to_vec();
    let sent = CommitteeContexts::read(&body, CommitteeContexts::contexts_bytes(&small.params)).unwrap();
    let own = envelope::SealingSecret::generate(&mut rng(6)).public();
    let key = small.of_the_key(&sent.contexts, &[1 << 17]);
    let decide = |contexts: CommitteeContexts| {
        world.client.decide_several(&bandit, device.limits(), 1, &contexts.to_bytes())
    };
    unproven(decide(CommitteeContexts { answer_key: own, ..sent.clone() }).unwrap_err());
    unproven(decide(CommitteeContexts { contexts: key, ..sent.clone() }).unwrap_err());
    decide(sent).unwrap();
}

/// A user sends contexts again that were answered. Members refuse an evaluation with them, and so the answers
/// of all its users: the server takes them once. The control is a server that was started again, and has
/// forgotten what it took.
#[test]
fn attack_contexts_sent_again_spoil_no_pack() {
    let mut world = World::start(2, 3, 2, 2);
    world.replays = true;
    (1..=3).for_each(|member| world.join(member));
    let (_, device) = world.create(2, 2);
    let bandit = device.created().id.clone();
    let body = device.ask(&[&rows(1, 2, 2)], &mut rng(5)).unwrap().request().unwrap().body.to_vec();
    let send = |world: &World| world.client.decide_several(&bandit, device.limits(), 1, &body);
    send(&world).unwrap();
    let user_client::Error::Refused(problem) = send(&world).unwrap_err() else { panic!("a refusal") };
    assert!(problem.status == 503 && problem.detail.contains("sent before"), "{problem:?}");
    device.decide(&world.client, &rows(2, 2, 2), &mut rng(6)).unwrap();

    (1..=3).for_each(|member| world.leave(member));
    world.restart(world.public.clone());
    (1..=3).for_each(|member| world.join(member));
    let user_client::Error::Refused(problem) = send(&world).unwrap_err() else { panic!("a refusal") };
    assert!(problem.status == 503 && problem.detail.contains("another evaluation"), "{problem:?}");
}

/// Feedback that no device sends is dropped before the sum of its batch is raised: the batch goes on with the
/// feedback of the others, members who replay agree, and the sender learns the reason. The control, what
/// becomes of such a sum without the check, is `attack_a_sum_out_of_range_is_not_raised` in `ckks-committee`.
#[test]
fn attack_feedback_out_of_range_is_dropped() {
    let mut world = World::start(2, 3, 2, 2);
    world.replays = true;
    (1..=3).for_each(|member| world.join(member));
    let mut config = BanditConfig { horizon: 100, ..BanditConfig::new(2, 2) };
    config.linear.schedule = bandit::Schedule::Every { rounds: 3 };
    let created = world.client.create_encrypted(&config).unwrap();
    let device = world.device.clone().join_shared(&created).unwrap();
    let (mut twin, mut draws) = (ClearTwin::new(config.clone()), rng(3));
    let (small, count) = (Small::of(&world), 5);
    let hostile = |kind: u32| match kind {
        0 => small.uniform(5),
        1 => small.constant(84),
        // 2⁻¹⁵ of the modulus is 2⁸³.
        2 => small.constant(85),
        _ => small.constant(96),
    };
    let (mut sent, mut last) = (Vec::new(), None);
    for round in 1..=12u32 {
        let rows = rows(round, 2, 2);
        let reply = device.decide(&world.client, &rows, &mut draws).unwrap().choice;
        check(&config, &reply, &twin.indices(&rows, reply.round, reply.model_feedbacks));
        let (x, reward) = (&rows[reply.arm], if reply.arm == 0 { 0.7 } else { -0.2 });
        let frame = match round % 3 {
            2 => small.feedback(hostile(round / 3), count, &created.id, reply.round),
            _ => device.feedback(reply.id, reply.arm, x, reward, None, &mut rng(reply.round)).unwrap(),
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

/// Feedback in range that makes Newton's iteration overflow costs its batch and nothing else: no set of
/// members encrypts the model anew, the batch is undone, and what follows is learnt as if it had brought
/// nothing. Feedbacks of before that were erased in that batch stay erased, and one of the batch that is
/// erased later takes nothing away. Members who replay agree, also one that comes later, and the server after
/// a restart. The control is the batch before, which is learnt.
#[test]
fn attack_feedback_that_overflows_costs_its_batch_alone() {
    let mut world = World::start(2, 3, 2, 2);
    world.replays = true;
    (1..=3).for_each(|member| world.join(member));
    let mut config = BanditConfig { horizon: 100, ..BanditConfig::new(2, 2) };
    config.linear.schedule = bandit::Schedule::Every { rounds: 3 };
    let created = world.client.create_encrypted(&config).unwrap();
    let device = world.device.clone().join_shared(&created).unwrap();
    let (small, mut history, mut draws) = (Small::of(&world), Vec::new(), rng(3));
    let nothing = (vec![0.0; 2], 0.0);
    let (mut hostile, mut erased) = (None, vec![(DecisionId([0; 16]), nothing.clone()); 2]);
    for round in 1..=12u32 {
        let rows = rows(round, 2, 2);
        let reply = device.decide(&world.client, &rows, &mut draws).unwrap().choice;
        let mut twin = ClearTwin::new(config.clone());
        history.iter().for_each(|(_, (x, reward)): &(_, (Vec<f64>, f64))| twin.learn(x, *reward));
        check(&config, &reply, &twin.indices(&rows, reply.round, reply.model_feedbacks));
        // What is learnt does not depend on how near ties were decided.
        let learnt = match round {
            1..=2 => (rows[0].clone(), -0.8),
            _ if round % 2 == 0 => (rows[0].clone(), 0.7),
            _ => (rows[1].clone(), -0.2),
        };
        match round {
            // The last one of the second batch.
            6 => {
                let before = world.client.encrypted(&created.id).unwrap().status;
                assert_eq!((before.refreshes, before.model_feedbacks), (1, 3), "the control");
                let frame = small.shifted(70, 5, &created.id, reply.round);
                world.client.feedback_encrypted(&created.id, reply.id, &frame).unwrap();
                hostile = Some((reply.id, frame));
            }
            _ => world.feedback(&device, &reply, &learnt.0, learnt.1),
        }
        history.push((reply.id, learnt));
        let erase = |at: usize| world.client.erase_feedback(&created.id, history[at].0).unwrap();
        match round {
            // Of the first batch, while the second one is open.
            4 => {
                [0, 1].into_iter().for_each(|at| drop(erase(at)));
                erased.clone_from_slice(&history[..2]);
                history[..2].iter_mut().for_each(|(_, learnt)| *learnt = nothing.clone());
            }
            6 => {
                let status = world.settle(&device);
                assert_eq!((status.refreshes, status.model_feedbacks), (1, 3), "the batch is undone");
                history[3..].iter_mut().for_each(|(_, learnt)| *learnt = nothing.clone());
                (1..=3).for_each(|member| world.leave(member));
                world.restart(world.public.clone());
                (2..=3).for_each(|member| world.join(member));
            }
            // Of the batch that is undone.
            7 => drop(erase(4)),
            _ => {}
        }
        world.settle(&device);
    }
    assert_eq!(world.settle(&device).refreshes, 3);
    // Contexts for which the erased feedbacks of the first batch would change the arm.
    let of = |history: &[(DecisionId, (Vec<f64>, f64))]| {
        let mut twin = ClearTwin::new(config.clone());
        history.iter().for_each(|(_, (x, reward))| twin.learn(x, *reward));
        twin
    };
    let mut kept = history.clone();
    kept[..2].clone_from_slice(&erased);
    let (mut right, mut wrong) = (of(&history), of(&kept));
    let mut gap = |rows: &Vec<Vec<f64>>| {
        let (one, other) = (best(&right.indices(rows, 13, 12)), best(&wrong.indices(rows, 13, 12)));
        if one.0 == other.0 { 0.0 } else { one.1.min(other.1) }
    };
    let drawn = std::iter::repeat_with(|| {
        let mut row = || [0.7, 0.7].map(|most| draws.random_range(-most..most)).to_vec();
        vec![row(), row()]
    });
    let mut probes: Vec<_> = drawn.take(100_000).map(|rows| (gap(&rows), rows)).collect();
    probes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let range = helba::Scalars::new(&config, 13, 12).range;
    assert!(probes[2].0 / range > 1.5 * config.resolution(), "{} of the range", probes[2].0 / range);
    for (_, rows) in probes.into_iter().take(3) {
        let reply = device.decide(&world.client, &rows, &mut rng(7)).unwrap().choice;
        check(&config, &reply, &of(&history).indices(&rows, reply.round, reply.model_feedbacks));
    }
    let (id, frame) = hostile.unwrap();
    let refused = world.client.feedback_encrypted(&created.id, id, &frame).unwrap_err();
    let user_client::Error::Refused(problem) = refused else { panic!("{refused}") };
    assert!(problem.detail.contains("was dropped"), "{}", problem.detail);
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
