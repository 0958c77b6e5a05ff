use crate::committee::{self, rng};
use crate::rounds::{World, next_keys};
use ckks_shares::ActiveSet;
use helba::{DeepEngine, Departing, EncryptedBandit, Engine, Event};
use helba_member::serve::{Error, Joined, Ledger, answer_rotation};
use std::path::PathBuf;
use testkit::ClearTwin;
use user_client::BanditDevice;
use wire::{
    Custody, Handover, Manifest, MemberRequest, PublicBundle, PublicBytes, Question, ScoreKeys, Wanted,
};

fn manifest(public: &[u8]) -> Manifest {
    PublicBundle::read(public).unwrap().manifest
}

fn again(world: &World, id: &str) -> BanditDevice<'static> {
    world.device.clone().join_shared(&world.client.encrypted(id).unwrap().created).unwrap()
}

fn files(folder: &std::path::Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// A bandit learns, goes on under the keys of other members, and decides and learns there as the twin does,
/// which never moved. All members compute again what they are asked about, before and after. The rotation is
/// done once more with its result lost: what moved is the same, byte for byte.
#[test]
fn a_bandit_goes_on_under_new_keys() {
    let mut world = World::start(2, 3, 2, 2);
    world.replays = true;
    (1..=2).for_each(|member| world.join(member));
    let (config, device) = world.create(2, 2);
    let (mut twin, mut draws) = (ClearTwin::new(config.clone()), rng(3));
    for round in 1..=6 {
        world.play((&config, &device), &mut twin, round, &mut draws);
    }
    let (id, before) = (device.created().id.clone(), world.settle(&device));
    (1..=2).for_each(|member| world.leave(member));
    let next = committee::keys_after(&manifest(&world.public));
    let folder = world.folder.path().join("rotated");
    assert_eq!(world.rotate(&next, &folder), 1);
    let moved = files(&folder);
    // What is there stays, and what was lost is made again.
    assert_eq!(world.rotate(&next, &folder), 1);
    assert!(files(&folder) == moved);
    std::fs::remove_file(&moved[0].0).unwrap();
    assert_eq!(world.rotate(&next, &folder), 1);
    assert!(files(&folder) == moved, "another share of what was moved before");

    world.go_on(next, &folder);
    let device = again(&world, &id);
    let after = world.client.encrypted(&id).unwrap().status;
    assert_eq!((after.feedbacks, after.model_feedbacks), (before.feedbacks, before.feedbacks));
    assert!(after.round >= before.round);
    (1..=2).for_each(|member| world.join(member));
    for round in 7..=10 {
        world.play((&config, &device), &mut twin, round, &mut draws);
    }
    assert!(world.settle(&device).refreshes > after.refreshes);
}

fn engine(public: &[u8]) -> Engine {
    let PublicBundle { manifest, params, public_key, key_id, keys, scores, .. } =
        PublicBundle::read(public).unwrap();
    let deep = DeepEngine::new(params, public_key, key_id, manifest.shape, keys).unwrap();
    let ScoreKeys { ring, params, public_key, key_id, keys, switch } = scores;
    Engine::new(deep, ring, params, public_key, key_id, keys, switch).unwrap().of_committee()
}

/// A server asks a member to move what the journal does not lead to: other statistics, another model, other
/// numbers. A member that checks the structure of questions alone does.
#[test]
fn attack_a_foreign_ciphertext_is_not_moved_to_other_keys() {
    let mut world = World::start(2, 3, 2, 2);
    world.replays = true;
    (1..=2).for_each(|member| world.join(member));
    let (config, device) = world.create(2, 2);
    let (mut twin, mut draws) = (ClearTwin::new(config.clone()), rng(3));
    let (id, engine) = (device.created().id.clone(), engine(&world.public));
    let departing = |world: &World| -> Option<Departing> {
        let mut bandit = EncryptedBandit::create(&engine, config.clone(), [0; 32]).unwrap();
        for record in world.client.journal(&id, 0, None).unwrap().records {
            bandit.apply(&engine, &Event::from_bytes(&record).unwrap()).unwrap();
        }
        bandit.departing()
    };
    let mut found = None;
    for round in 1..=8 {
        world.play((&config, &device), &mut twin, round, &mut draws);
        found = departing(&world);
        if round > 1 && found.is_some() {
            break;
        }
    }
    let Departing { standing, model, statistics } = found.unwrap();
    (1..=2).for_each(|member| world.leave(member));
    let next = committee::keys_after(&manifest(&world.public));
    let keys = world.members.remove(&3).unwrap();
    let joined = Joined::new(&keys, device.created().clone()).unwrap();
    let (next_of, digest) = (next_keys(&keys, &next.public), manifest(&next.public).signed_digest());
    let deep = engine.deep();
    let frame =
        |c: &ckks::Ciphertext| ckks::write_polynomial(deep.params(), deep.key_id(), c.level(), c.c1());
    let set: ActiveSet = keys.quorum().active(&[1, 3]).unwrap();
    let request = |c1: &ckks::Ciphertext, beside: &ckks::Ciphertext, standing: Vec<u8>| {
        let wanted = Wanted::Rotation { next: digest, standing };
        let question = Question { bandit: id.clone(), task: 0, attempt: 0, wanted };
        (question, frame(c1), frame(beside))
    };
    let task = standing.task();
    let request = |c1, beside, standing| {
        let (question, c1, evidence) = request(c1, beside, standing);
        let question = Question { task, ..question }.to_bytes();
        MemberRequest { number: 1, set: set.bits(), question, c1, evidence }
    };
    let (replica, folder) = (world.replica(&keys), world.folder.path());
    let journal = |id: &str, after, head: Option<&_>| Ok(world.client.journal(id, after, head)?);
    let ledger = Ledger::open(&folder.join("replaying")).unwrap();
    let check = |request: &MemberRequest| replica.check(&keys, &ledger, &joined, request, &journal);
    let honest = request(&model, &statistics, standing.to_bytes());
    check(&honest).unwrap();
    answer_rotation(&keys, &ledger, &joined, &honest, &next_of).unwrap();
    let mut numbers = standing.to_bytes();
    *numbers.last_mut().unwrap() ^= 1;
    let foreign = [
        request(&model, &model, standing.to_bytes()),
        request(&statistics, &statistics, standing.to_bytes()),
        request(&model, &statistics, numbers),
    ];
    for (at, request) in foreign.iter().enumerate() {
        assert!(matches!(check(request), Err(Error::Deviates(_))), "request {at}");
        // Nor does the ledger, which has noted the honest one.
        assert!(answer_rotation(&keys, &ledger, &joined, request, &next_of).is_err());
        let other = Ledger::open(&folder.join(format!("structure-{at}"))).unwrap();
        answer_rotation(&keys, &other, &joined, request, &next_of).expect("the control");
    }
}

/// A device that knows a committee goes on to keys that t of its members have signed, and to no others.
#[test]
fn attack_a_rotation_signed_by_t_minus_one_members_is_refused() {
    let old = committee::keys(2, 3, 2, 2, true);
    let (known, next) = (manifest(&old.public), committee::keys_after(&manifest(&old.public)));
    let bare = manifest(&next.public);
    let signed = |by: &[usize]| {
        let handover = |at: &usize| Handover {
            member: old.members[*at].member(),
            signature: PublicBytes(bare.sign_rotation(old.members[*at].signing())),
        };
        bare.clone().with_rotation(by.iter().map(handover).collect())
    };
    signed(&[0, 2]).check_rotation(&known).expect("the control");
    for by in [&[][..], &[1], &[1, 1]] {
        assert!(signed(by).check_rotation(&known).is_err(), "{by:?}");
    }
    // Signatures of other members, other keys, and a committee that follows none.
    let foreign =
        Handover { member: 1, signature: PublicBytes(bare.sign_rotation(next.members[0].signing())) };
    let both = Handover { member: 2, signature: PublicBytes(bare.sign_rotation(old.members[1].signing())) };
    assert!(bare.clone().with_rotation(vec![foreign, both]).check_rotation(&known).is_err());
    assert!(signed(&[0, 2]).check_rotation(&bare).is_err());
    assert!(known.check_rotation(&known).is_err());
    let mut other = signed(&[0, 2]);
    if let Custody::Committee(committee) = &mut other.custody {
        committee.wide_key = PublicBytes(vec![0; 32]);
    }
    assert!(other.check_rotation(&known).is_err());
}
