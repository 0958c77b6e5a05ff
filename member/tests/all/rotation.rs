use crate::committee::{self, rng};
use crate::inputs::Small;
use crate::rounds::{World, ledger_at, next_keys, rows};
use ckks_shares::ActiveSet;
use helba::{DeepEngine, Departing, EncryptedBandit, Engine, Event};
use helba_agent::{Agent, Options};
use helba_member::serve::{Error, Joined, answer_rotation};
use helba_server::{AppState, Connections, Settings};
use protocol::BanditConfig;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use testkit::ClearTwin;
use user_client::{BanditDevice, Client, Device, Opening};
use wire::{
    AccessToken, BundleKind, BundleReader, BundleWriter, ClearFeedback, Custody, Handover, Labels,
    LabelsPatch, Manifest, MemberRequest, PublicBundle, PublicBytes, Question, ScoreKeys, Successor,
    UsersBundle, Wanted,
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

/// The question to the members who moved the bandit in this file.
fn question_of(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let (body, _) = bytes.split_last_chunk::<32>().unwrap();
    type Moved = (Vec<u8>, Option<String>, Vec<String>, Vec<u8>);
    let (.., event): Moved = postcard::from_bytes(body).unwrap();
    let Event::Rotated { evidence, .. } = Event::from_bytes(&event).unwrap() else { panic!("the event") };
    wire::RotationEvidence::from_bytes(&evidence).unwrap().question
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
    assert_eq!(moved.len(), 2, "the bandit, and the signatures of the next keys");
    // What is there stays, and what was lost is made again.
    assert_eq!(world.rotate(&next, &folder), 1);
    assert!(files(&folder) == moved);
    let of_bandit = folder.join(format!("{id}.rotated"));
    let asked = question_of(&of_bandit);
    std::fs::remove_file(&of_bandit).unwrap();
    assert_eq!(world.rotate(&next, &folder), 1);
    // A set that was late is asked once more, and each attempt has shares of its own.
    let same_question = question_of(&of_bandit) == asked;
    assert!(files(&folder) == moved || !same_question, "another share of what was moved before");

    world.go_on(next, &folder);
    assert!(!of_bandit.exists(), "what was taken comes back no more");
    let device = again(&world, &id);
    let after = world.client.encrypted(&id).unwrap().status;
    assert_eq!((after.feedbacks, after.model_feedbacks), (before.feedbacks, before.feedbacks));
    assert!(after.round >= before.round);
    (1..=2).for_each(|member| world.join(member));
    for round in 7..=10 {
        world.play((&config, &device), &mut twin, round, &mut draws);
    }
    assert!(world.settle(&device).refreshes > after.refreshes);
    (1..=2).for_each(|member| world.leave(member));
    bad_first_records_are_refused(&mut world, &device);
}

/// A member reads bad bytes in each part of the first record of a journal, and a state that was moved to
/// other keys, by fewer members, or twice: it refuses all of them. The control is the record as it is.
fn bad_first_records_are_refused(world: &mut World, device: &BanditDevice) {
    let keys = world.members.remove(&1).unwrap();
    let joined = Joined::new(&keys, device.created().clone()).unwrap();
    let (id, replica) = (device.created().id.clone(), world.replica(&keys));
    let first = world.client.journal(&id, 0, None).unwrap().records.remove(0);
    let wanted = Wanted::Transfer(protocol::TaskKind::Sum);
    let question = Question { bandit: id, task: 1, attempt: 0, wanted }.to_bytes();
    let request = MemberRequest { number: 1, set: 0b011, question, c1: Vec::new(), evidence: Vec::new() };
    let folder = tempfile::tempdir().unwrap();
    let follow = |at: usize, records: Vec<Vec<u8>>| {
        let ledger = ledger_at(&folder.path().join(at.to_string()));
        let journal = |_: &str, after: u64, _: Option<&wire::SignedHead>| {
            Ok(wire::Journal { records: records[after as usize..].to_vec(), heads: Vec::new() })
        };
        replica.check(&keys, &ledger, &joined, &request, &journal).unwrap_err()
    };
    let Event::Rotated { standing, deep, scores, statistics, evidence } = Event::from_bytes(&first).unwrap()
    else {
        panic!("the first record")
    };
    let parts = [standing, deep, scores, statistics, evidence];
    let record = |parts: &[Vec<u8>; 5]| {
        let [standing, deep, scores, statistics, evidence] = parts.clone();
        Event::Rotated { standing, deep, scores, statistics, evidence }.to_bytes().unwrap()
    };
    let mut bad = Vec::new();
    for part in 0..parts.len() {
        let mut with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut parts = parts.clone();
            change(&mut parts[part]);
            bad.push(record(&parts));
        };
        let length = parts[part].len();
        with(&|bytes| bytes.clear());
        with(&|bytes| bytes.truncate(length - 1));
        with(&|bytes| bytes.push(0));
        with(&|bytes| bytes.fill(0xff));
        for at in [0, 1, length / 3, length / 2, length - 2, length - 1] {
            with(&|bytes| bytes[at] ^= 0x81);
        }
    }
    let evidence = wire::RotationEvidence::from_bytes(&parts[4]).unwrap();
    let mut with = |change: &dyn Fn(&mut wire::RotationEvidence)| {
        let (mut parts, mut evidence) = (parts.clone(), evidence.clone());
        change(&mut evidence);
        parts[4] = evidence.to_bytes();
        bad.push(record(&parts));
    };
    with(&|e| e.set = 0);
    with(&|e| e.set = u16::MAX);
    with(&|e| e.set = 0b001);
    with(&|e| drop(e.shares.pop()));
    with(&|e| e.shares[1] = e.shares[0].clone());
    with(&|e| e.shares.swap(0, 1));
    with(&|e| e.shares[0].hashes.truncate(8));
    with(&|e| drop(e.shares[0].up.pop()));
    with(&|e| e.shares[0].signature.clear());
    with(&|e| e.c1.swap(0, 1));
    with(&|e| e.question = request.question.clone());
    let mut swapped = parts.clone();
    swapped.swap(1, 3);
    bad.push(record(&swapped));
    for (at, bad) in bad.iter().enumerate() {
        let error = follow(at, vec![bad.clone()]);
        assert!(!error.to_string().contains("a task that does not follow"), "record {at}: {error}");
    }
    let twice = follow(bad.len(), vec![first.clone(), first.clone()]);
    assert!(!twice.to_string().contains("a task that does not follow"), "{twice}");
    let honest = follow(bad.len() + 1, vec![first]);
    assert!(honest.to_string().contains("a task that does not follow"), "the control: {honest}");
}

const TOY: Opening = Opening { toy: true, passphrase: None };

/// The device of the users' bundle `users`, in a file of this folder.
fn in_folder(users: &[u8], folder: &Path) -> Device {
    let path = folder.join("device.bundle");
    let draft = host::Draft::create_private(&path).unwrap();
    draft.file().write_all(users).unwrap();
    draft.finish().unwrap();
    Device::open(&path, &TOY).unwrap()
}

/// Why a server does not start with the signatures in `moved`, no bandit of there, and this users' bundle.
fn opened_with(public: &[u8], folder: &Path, users: &Path, moved: &Path) -> Option<helba_server::Error> {
    let signatures = folder.join("signatures");
    std::fs::create_dir_all(&signatures).unwrap();
    std::fs::copy(moved.join("handover.json"), signatures.join("handover.json")).unwrap();
    let (rotated, users) = (Some(signatures), Some(users.to_path_buf()));
    let settings = Settings { rotated, users, ..Settings::default() };
    let bundle = PublicBundle::read(public).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { AppState::open(bundle, &folder.join("state"), settings) }).err()
}

/// A device that has the users' bundle of before gets the next one by its token, checks who signed it, and
/// goes on with the same bandit, its name and its own random key, also after it was started again. A decision
/// that waited is over, and the device is told so.
#[test]
fn a_device_follows_a_rotation_by_itself() {
    let mut world = World::start(2, 3, 2, 2);
    (1..=2).for_each(|member| world.join(member));
    let folder = tempfile::tempdir().unwrap();
    let before = in_folder(&world.users, folder.path());
    let sealed = before.derive_key("test 2026 rotation").unwrap();
    let old_users = world.users.clone();
    let read = |users: &[u8]| Device::read(users).unwrap();
    let fileless = read(&old_users);
    let fileless_key = fileless.derive_key("test 2026 rotation").unwrap();
    let memory = fileless.memory().unwrap();
    let (config, device) = world.create(2, 2);
    let (mut twin, mut draws) = (ClearTwin::new(config.clone()), rng(3));
    for round in 1..=3 {
        world.play((&config, &device), &mut twin, round, &mut draws);
    }
    let (old, rows) = (device.created().clone(), rows(9, 2, 2));
    let labels = Labels { name: Some("a shop".into()), tags: vec!["summer".into(), "two".into()] };
    let patch = LabelsPatch { name: Some(labels.name.clone()), tags: Some(Some(labels.tags.clone())) };
    world.client.relabel(&old.id, &patch, None).unwrap();
    let waiting = device.decide(&world.client, &rows, &mut draws).unwrap().choice;
    let body = device.feedback(waiting.id, waiting.arm, &rows[waiting.arm], 0.5, None, &mut draws).unwrap();
    assert!(world.client.successor(&before).unwrap().is_none(), "nobody has rotated");
    (1..=2).for_each(|member| world.leave(member));
    let next = committee::keys_after(&manifest(&world.public));
    let moved = world.folder.path().join("rotated");
    assert_eq!(world.rotate(&next, &moved), 1);
    // A server takes the users' bundle of its own keys alone.
    std::fs::write(moved.join("users.bundle"), &world.users).unwrap();
    let error = opened_with(&next.public, &folder.path().join("other"), &moved.join("users.bundle"), &moved);
    assert!(matches!(error, Some(helba_server::Error::Succession { .. })), "{error:?}");
    world.go_on(next, &moved);

    let client = Client::new(world.client.server()).unwrap().with_token(before.token().clone());
    let over = [
        client.encrypted(&old.id).map(drop).unwrap_err(),
        client.feedback_encrypted(&old.id, waiting.id, &body).map(drop).unwrap_err(),
    ];
    for error in over {
        let user_client::Error::Refused(problem) = error else { panic!("{error}") };
        assert_eq!((problem.status, problem.reason.as_deref()), (410, Some("keys_over")), "{problem:?}");
    }
    // Nobody else gets the bundle, which has a token.
    let stranger = Client::new(client.server()).unwrap();
    assert!(stranger.fetch("keys/successor", 1 << 24, 0).is_err());
    let successor = client.successor(&before).unwrap().expect("a rotation");
    let followed = before.followed_by(&successor).unwrap();
    let file = folder.path().join("device.bundle");
    let opened = Arc::new(Device::open(&file, &TOY).unwrap());
    // A device without files goes on from its memory, whichever of both bundles it is read from, and stores
    // what it has seen each time.
    let fileless = read(&old_users).remembering(&memory).unwrap().followed_by(&successor).unwrap();
    let mut stored = fileless.memory().unwrap();
    for bundle in [&old_users, &world.users, &old_users] {
        let device = read(bundle).remembering(&stored).unwrap();
        assert_eq!(device.key_id(), world.device.key_id());
        assert_eq!(device.derive_key("test 2026 rotation").unwrap(), fileless_key);
        assert!(matches!(device.join(&old).map(drop), Err(user_client::Error::Rotated { .. })));
        stored = device.memory().unwrap();
    }
    let later = read(&world.users).remembering(&memory).unwrap();
    assert_eq!(later.derive_key("test 2026 rotation").unwrap(), fileless_key);
    assert!(matches!(later.join(&old).map(drop), Err(user_client::Error::Rotated { .. })));
    // A memory that began with the next keys does not go back to the bundle of before.
    let began_later = read(&world.users).memory().unwrap();
    let error = read(&old_users).remembering(&began_later).map(drop).unwrap_err();
    assert!(matches!(error, user_client::Error::OtherMemory { .. }), "{error}");
    for device in [&followed, &*opened] {
        assert_eq!(device.key_id(), world.device.key_id());
        assert_eq!(device.token().digest(), world.device.token().digest());
        assert_eq!(device.derive_key("test 2026 rotation").unwrap(), sealed);
        assert!(matches!(device.join(&old).map(drop), Err(user_client::Error::Rotated { .. })));
        assert!(world.client.successor(device).unwrap().is_none(), "it has the last keys");
    }

    let view = world.client.labelled(&old.id).unwrap();
    assert_eq!(view.labels, labels);
    let device = opened.join_shared(&world.client.encrypted(&old.id).unwrap().created).unwrap();
    (1..=2).for_each(|member| world.join(member));
    for round in 4..=6 {
        world.play((&config, &device), &mut twin, round, &mut draws);
    }
    world.settle(&device);
    // Without the folder and the bundle of the rotation, the server goes on handing the keys out.
    let renamed = LabelsPatch { name: Some(None), tags: None };
    world.client.relabel(&old.id, &renamed, None).unwrap();
    (1..=2).for_each(|member| world.leave(member));
    world.restart_next(&moved);
    assert_eq!(world.client.labelled(&old.id).unwrap().labels.name, None, "labels are taken once");
    let client = Client::new(world.client.server()).unwrap();
    assert!(client.successor(&before).unwrap() == Some(successor));
}

/// An agent in this process, and a client that speaks the JSON of clear bandits with it.
fn agent(device: Device, server: &Client, folder: &Path) -> (tokio::runtime::Runtime, Client) {
    let token = AccessToken::generate(&mut rng(12));
    let client = server.clone().with_token(device.token().clone());
    let options = Options { patience: Duration::from_secs(30), ..Options::new(token.digest()) };
    helba_agent::private_folder(folder).unwrap();
    let agent =
        Agent::open(client, device, folder, options, rng(13), |line| eprintln!("agent: {line}")).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    runtime.spawn(agent.run(listener, None, Connections::default(), std::future::pending()));
    (runtime, Client::new(&url).unwrap().with_token(token))
}

/// An agent of a committee's device goes on while it runs: a request after the rotation is answered under the
/// next keys, and the reward of a decision of before is refused with a sentence that says why.
#[test]
fn an_agent_follows_a_rotation_while_it_runs() {
    let mut world = World::start(2, 3, 2, 2);
    (1..=2).for_each(|member| world.join(member));
    let folder = tempfile::tempdir().unwrap();
    let device = in_folder(&world.users, folder.path());
    let (_runtime, application) = agent(device, &world.client, &folder.path().join("agent"));
    let (_, joined) = world.create(2, 2);
    let id = joined.created().id.clone();
    let reward = ClearFeedback { reward: Some(0.5), ..ClearFeedback::default() };
    let decide = |seed| application.decide_clear(&id, Some(rows(seed, 2, 2))).unwrap();
    let waits = [decide(1), decide(2), decide(3)];
    application.feedback_clear(&id, &waits[0].decision, &reward).unwrap();
    let before = world.settle(&joined).feedbacks;
    (1..=2).for_each(|member| world.leave(member));
    let next = committee::keys_after(&manifest(&world.public));
    let moved = world.folder.path().join("rotated");
    assert_eq!(world.rotate(&next, &moved), 1);
    world.go_on(next, &moved);
    (1..=2).for_each(|member| world.join(member));

    // The first asks before anything has followed, and the second after it.
    let over = |at: usize| {
        let error = application.feedback_clear(&id, &waits[at].decision, &reward).map(drop).unwrap_err();
        let user_client::Error::Refused(problem) = error else { panic!("{error}") };
        assert_eq!(problem.reason.as_deref(), Some("keys_over"), "{problem:?}");
        assert!(problem.detail.contains("ask for a new decision"), "{problem:?}");
    };
    over(1);
    let decided = decide(4);
    over(2);
    application.feedback_clear(&id, &decided.decision, &reward).unwrap();
    assert_eq!(world.settle(&again(&world, &id)).feedbacks, before + 1);
}

/// The bytes of a successor with this bundle, whose manifest is replaced. Nothing of it is checked here.
fn forged(honest: &[u8], before: &Manifest, next: &Manifest, users: &[u8]) -> Vec<u8> {
    let mut reader = BundleReader::new(users).unwrap();
    let mut writer = BundleWriter::new(BundleKind::Users, next, Vec::new()).unwrap();
    let mut frame = Vec::new();
    while reader.next_frame(1 << 24, &mut frame).unwrap() {
        writer.frame(&frame).unwrap();
    }
    let header = 8 + u32::from_le_bytes(honest[4..8].try_into().unwrap()) as usize;
    let mut out = honest[..header].to_vec();
    for part in [serde_json::to_vec(before).unwrap(), writer.finish().unwrap().0] {
        out.extend((part.len() as u32).to_le_bytes());
        out.extend(part);
    }
    out
}

/// A server shows a device keys that t members of its committee did not sign as those that follow: too few,
/// one twice, strangers, signatures of other keys, those of members of an epoch that is over. The device
/// refuses them all, keeps nothing, and follows the honest ones.
#[test]
fn attack_a_forged_rotation_is_refused_by_devices() {
    let old = committee::keys(2, 3, 2, 2, true);
    let known = manifest(&old.public);
    let next = committee::keys_after(&known);
    let bare = UsersBundle::read(&next.users[..]).unwrap().manifest;
    let folder = tempfile::tempdir().unwrap();
    let device = in_folder(&old.users, folder.path());
    let by = |manifest: &Manifest, from: &[helba_member::MemberKeys], at: &[usize]| -> Vec<Handover> {
        let signed = |at: &usize| Handover {
            member: from[*at].member(),
            signature: PublicBytes(manifest.sign_rotation(from[*at].signing())),
        };
        at.iter().map(signed).collect()
    };
    let signed = |by: Vec<Handover>| bare.clone().with_rotation(by);
    let honest = signed(by(&bare, &old.members, &[0, 2]));
    let bytes = Successor::write(&known, &honest, &next.users).unwrap();
    assert!(bytes == forged(&bytes, &known, &honest, &next.users));
    let refused = |device: &Device, what: &str, before: &Manifest, next_of: &Manifest| {
        let error = device.followed_by(&forged(&bytes, before, next_of, &next.users)).map(drop).unwrap_err();
        assert!(
            matches!(error, user_client::Error::Wire(_) | user_client::Error::WrongKeys { .. }),
            "{what}: {error}"
        );
        assert!(!folder.path().join(format!("{}.next", device.key_id())).exists(), "{what}");
    };
    refused(&device, "nobody signed", &known, &bare);
    for at in [&[1][..], &[1, 1], &[2]] {
        refused(&device, "too few signed", &known, &signed(by(&bare, &old.members, at)));
    }
    refused(&device, "strangers signed", &known, &signed(by(&bare, &next.members, &[0, 2])));
    let other = Manifest { created: bare.created + 1, ..bare.clone() };
    refused(&device, "other keys were signed", &known, &signed(by(&other, &old.members, &[0, 2])));
    // The committee that it follows is one of strangers, who signed all of it.
    let strange = bare.as_followed().unwrap();
    let mut instead = bare.clone();
    if let Custody::Committee(committee) = &mut instead.custody {
        committee.follows = Some(Box::new(strange));
    }
    let instead = instead.clone().with_rotation(by(&instead, &next.members, &[0, 2]));
    let all = next.members.iter().map(|member| PublicBytes(instead.sign(member.signing()))).collect();
    let instead = instead.with_signatures(all);
    instead.check_rotation(&bare).expect("it follows the strangers");
    refused(&device, "it follows strangers", &bare, &instead);
    refused(&device, "it follows strangers", &known, &instead);

    // Whatever bytes are changed or cut off, no other keys are followed.
    let fresh = Device::read(&old.users[..]).unwrap();
    for at in (0..bytes.len()).step_by(bytes.len() / 97) {
        assert!(fresh.followed_by(&bytes[..at]).is_err(), "the first {at} bytes");
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        let followed = fresh.followed_by(&changed).map(|next| next.key_id().to_string());
        assert!(followed.is_err() || followed.is_ok_and(|key| key == bare.key_id), "byte {at}");
    }

    // What is remembered is checked as what a server sends is.
    let device_of = |memory: &[u8]| Device::read(&old.users[..]).unwrap().remembering(memory);
    let memory = fresh.followed_by(&bytes).unwrap().memory().unwrap();
    for at in (0..memory.len()).step_by(memory.len() / 97) {
        let mut changed = memory.to_vec();
        changed[at] ^= 1 << (at % 8);
        let followed = device_of(&changed).map(|next| next.key_id().to_string());
        assert!(followed.is_err() || followed.is_ok_and(|key| key == bare.key_id), "byte {at}");
    }

    // Members of an epoch that is over for the device. The control has not seen the next one.
    let later = later_epoch(&known, &old.members, &next.members);
    let seen = Device::read(&old.users[..]).unwrap();
    seen.check_manifest(&later).unwrap();
    let remembers = device_of(&seen.memory().unwrap()).unwrap();
    for seen in [seen, remembers] {
        let error = seen.followed_by(&bytes).map(drop).unwrap_err();
        assert!(matches!(error, user_client::Error::Wire(wire::Error::OldEpoch { .. })), "{error}");
    }
    assert_eq!(device.followed_by(&bytes).expect("the control").key_id().to_string(), bare.key_id);
}

/// The manifest of the keys of `known` in an epoch after its own, of the members of other keys, which t
/// members of `known` have signed.
fn later_epoch(
    known: &Manifest,
    before: &[helba_member::MemberKeys],
    after: &[helba_member::MemberKeys],
) -> Manifest {
    let mut later = known.clone();
    let Custody::Committee(committee) = &mut later.custody else { panic!("a committee") };
    let Custody::Committee(others) = &after[0].manifest().custody else { panic!("a committee") };
    committee.before = vec![committee.as_past()];
    (committee.members, committee.session) = (others.members.clone(), others.session);
    let handover = |at: usize| Handover {
        member: before[at].member(),
        signature: PublicBytes(later.sign_next_epoch(before[at].signing())),
    };
    let handovers = vec![handover(0), handover(1)];
    let later = later.with_handover(handovers);
    let signatures = after.iter().map(|member| PublicBytes(later.sign(member.signing()))).collect();
    later.with_signatures(signatures)
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
        for record in world.records(&id) {
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
    let (next_of, digest) = (next_keys(&keys, &next.public), manifest(&next.public).rotation_digest());
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
    let ledger = ledger_at(&folder.join("replaying"));
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
        let other = ledger_at(&folder.join(format!("structure-{at}")));
        answer_rotation(&keys, &other, &joined, request, &next_of).expect("the control");
    }
}

/// A user sends feedback in range that makes Newton's iteration overflow. Its bandit moves without the batch,
/// and so do the bandits after it.
#[test]
fn attack_a_bandit_whose_model_overflows_moves_and_holds_up_no_other_one() {
    let mut world = World::start(2, 3, 2, 2);
    (1..=2).for_each(|member| world.join(member));
    let mut config = BanditConfig { horizon: 100, ..BanditConfig::new(2, 2) };
    config.linear.schedule = bandit::Schedule::Every { rounds: 2 };
    let created = world.client.create_encrypted(&config).unwrap();
    let (attacked, small) = (created.id.clone(), Small::of(&world));
    let device = world.device.clone().join_shared(&created).unwrap();
    let replies: Vec<_> = (1..=2)
        .map(|round| device.decide(&world.client, &rows(round, 2, 2), &mut rng(round.into())).unwrap().choice)
        .collect();
    // One comes after it in the order of ids, in which they move.
    let last = loop {
        let id = world.create(2, 2).1.created().id.clone();
        if id > attacked {
            break id;
        }
    };
    // The members are here for the rotation alone.
    (1..=2).for_each(|member| world.leave(member));
    for reply in &replies {
        let frame = small.shifted(70, 5, &attacked, reply.round);
        world.client.feedback_encrypted(&attacked, reply.id, &frame).unwrap();
    }
    let next = committee::keys_after(&manifest(&world.public));
    let folder = world.folder.path().join("rotated");
    let moved = world.begin_rotation(&next, &folder);
    // Of one set nobody knows whether a member of it sends garbage.
    world.join(3);
    moved.recv_timeout(Duration::from_secs(120)).unwrap().unwrap();
    (1..=3).for_each(|member| world.leave(member));
    for id in [attacked, last] {
        assert!(folder.join(format!("{id}.rotated")).exists(), "{id}");
    }
}

/// The manifest of the next keys names the committee before by its hash, and has the verifying keys that the
/// next members check states with. Members of the committee before move nothing to keys that name others
/// there.
#[test]
fn attack_next_keys_that_misname_the_members_before_are_refused() {
    let old = committee::keys(2, 3, 2, 2, true);
    let known = manifest(&old.public);
    let honest = manifest(&committee::keys_after(&known).public);
    assert!(honest.followed(&known).is_ok(), "the control");
    let with = |change: &dyn Fn(&mut wire::Followed)| {
        let mut other = honest.clone();
        if let Custody::Committee(committee) = &mut other.custody {
            change(committee.follows.as_mut().unwrap());
        }
        other
    };
    let stranger = envelope::SigningSecret::generate(&mut rng(5)).public();
    for (what, other) in [
        ("a verifying key", with(&|f| f.epoch.verifying[1] = PublicBytes(stranger.clone()))),
        ("the threshold", with(&|f| f.epoch.threshold = 1)),
        ("a member less", with(&|f| drop(f.epoch.verifying.pop()))),
        ("the hash", with(&|f| f.digest = PublicBytes(vec![1; 32]))),
        ("a key", with(&|f| f.key_id = "0".repeat(32))),
    ] {
        assert!(other.followed(&known).is_err(), "{what}");
    }
    // Keys of other parameters, under which nothing can be encrypted that moves.
    let other = Manifest { fingerprint: "0".repeat(64), ..honest.clone() };
    assert!(other.followed(&known).is_err());
    let mut other = honest;
    other.shape = protocol::Shape::for_problem(7, 4);
    assert!(other.followed(&known).is_err());
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
