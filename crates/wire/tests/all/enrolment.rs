//! Enrolments, the secrets of users, and lists of removed ones.

use ckks::KeyId;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use wire::{
    CLOCKS, EnrollerSecret, Enrolment, EnrolmentRequest, MOST_REMOVED, PadKey, Padded, RemovedUsers,
    RemovedUsersFile, UserSecret,
};

const KEY: KeyId = KeyId([7; 16]);

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn enrolled(user: &UserSecret, name: &str, times: [u64; 2]) -> (EnrollerSecret, Enrolment) {
    let owner = EnrollerSecret::of_secret_key(b"a frame of a secret key");
    let enrolment = owner.enrol(&user.request(), name, KEY, times).unwrap();
    (owner, enrolment)
}

fn enrolled_at(user: &UserSecret, times: [u64; 2]) -> Enrolment {
    enrolled(user, "alice", times).1
}

/// What a user sends and gets is read as it was written, and no byte of it may be another.
#[test]
fn attack_enrolments_are_read_whole_and_signed() {
    let user = UserSecret::generate(&mut rng(1));
    let json = serde_json::to_string(&user.request()).unwrap();
    assert_eq!(serde_json::from_str::<EnrolmentRequest>(&json).unwrap(), user.request());
    assert!(!json.contains(user.token().to_hex().as_str()), "a request has no secret");
    for bad in [json.replacen("sealing_key", "key", 1), json.replacen("\":\"", "\":\"00", 1), "{}".into()] {
        assert!(serde_json::from_str::<EnrolmentRequest>(&bad).is_err(), "{bad}");
    }
    let again = UserSecret::read(&user.to_bytes()).unwrap();
    assert_eq!(again.request(), user.request());
    assert!(UserSecret::read(&user.to_bytes()[1..]).is_err());

    let (owner, enrolment) = enrolled(&user, "alice@example.org", [10, 20]);
    let bytes = enrolment.to_bytes();
    let read = |bytes: &[u8]| Enrolment::read(bytes, &owner.public(), KEY);
    assert_eq!(read(&bytes).unwrap(), enrolment);
    assert_eq!(Enrolment::of_header(&enrolment.to_header()), Some(bytes.clone()));
    assert_eq!((enrolment.user(), enrolment.enrolled(), enrolment.expires()), ("alice@example.org", 10, 20));
    assert!(enrolment.token() == user.token().digest());
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(read(&changed).is_err(), "byte {at}");
    }
    assert!((0..bytes.len()).all(|length| read(&bytes[..length]).is_err()));
    assert!(read(&[&bytes[..], &[0]].concat()).is_err());
    assert!(Enrolment::read(&bytes, &owner.public(), KeyId([8; 16])).is_err(), "another key pair");
    let other = EnrollerSecret::of_secret_key(b"another frame");
    assert!(Enrolment::read(&bytes, &other.public(), KEY).is_err(), "another owner");
    for name in ["", "a b", "ü", "a/b", "Alice", &"a".repeat(65)] {
        assert!(owner.enrol(&user.request(), name, KEY, [0, 1]).is_err(), "{name}");
    }
    let longest = owner.enrol(&user.request(), &"a".repeat(64), KEY, [0, u64::MAX]).unwrap();
    assert!(longest.to_bytes().len() < 300, "{}", longest.to_bytes().len());
}

/// A pad key is opened by its user alone, is the same for each enrolment of one name and request, and gives
/// each message of each bandit pads of its own.
#[test]
fn attack_pad_keys_are_for_one_user_and_message() {
    let [user, other] = [2, 3].map(|seed| UserSecret::generate(&mut rng(seed)));
    let (owner, enrolment) = enrolled(&user, "alice", [0, 1]);
    let seal = |of: u64| owner.seal_pad_key(&enrolment, &user.request(), &mut rng(of)).unwrap();
    let [sealed, twice] = [4, 5].map(seal);
    assert_ne!(sealed, twice);
    assert!(owner.seal_pad_key(&enrolment, &other.request(), &mut rng(6)).is_err(), "another's request");
    let seed = |key: &PadKey| *key.seed(Padded::Feedback, "bandit", &[9; 32]);
    let key = user.open_pad_key(&enrolment, &sealed).unwrap();
    assert_eq!(seed(&key), seed(&owner.pad_key(&enrolment)));
    assert!(other.open_pad_key(&enrolment, &sealed).is_err(), "another user");
    let (_, renamed) = enrolled(&user, "bob", [0, 1]);
    assert!(user.open_pad_key(&renamed, &sealed).is_err(), "another name");
    for at in [0, 600, 1119, 1120, sealed.len() - 1] {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(user.open_pad_key(&enrolment, &changed).is_err(), "byte {at}");
    }
    assert!(
        (0..sealed.len()).step_by(97).all(|length| user.open_pad_key(&enrolment, &sealed[..length]).is_err())
    );

    let (_, renewed) = enrolled(&user, "alice", [7, 8]);
    assert_eq!(seed(&owner.pad_key(&renewed)), seed(&key), "an enrolment that was renewed");
    let of_other = enrolled(&other, "alice", [0, 1]).1;
    let stranger = EnrollerSecret::of_secret_key(b"another frame");
    let keys = [owner.pad_key(&renamed), owner.pad_key(&of_other), stranger.pad_key(&enrolment)];
    let mut seeds: Vec<[u8; 32]> = keys.iter().chain([&key]).map(seed).collect();
    for of in [Padded::Contexts(0), Padded::Contexts(1), Padded::Answer] {
        seeds.push(*key.seed(of, "bandit", &[9; 32]));
    }
    seeds.extend([
        *key.seed(Padded::Feedback, "bandits", &[9; 32]),
        *key.seed(Padded::Feedback, "bandit", &[8; 32]),
    ]);
    let count = seeds.len();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), count, "two messages have one seed");
}

/// Whoever was removed is served again when it is enrolled later, and a list that cannot be read removes all.
#[test]
fn attack_removed_users_stay_removed() {
    let user = UserSecret::generate(&mut rng(6));
    let of = |name: &str, enrolled_at: u64| enrolled(&user, name, [enrolled_at, 100]).1;
    let mut list = RemovedUsers::default();
    list.remove("alice", 50).unwrap();
    // A clock that went back restores nobody.
    list.remove("alice", 10).unwrap();
    let last = 50 + CLOCKS;
    assert!(list.has(&of("alice", last)) && !list.has(&of("alice", last + 1)));
    let enrolled = of("alice", 500 + CLOCKS);
    assert!(!enrolled.holds(499) && !enrolled.holds(500), "over at 100");
    let future = enrolled_at(&user, [500 + CLOCKS, 9999]);
    assert!(!future.holds(499) && future.holds(500) && future.holds(9998) && !future.holds(9999));
    assert!(!list.has(&of("bob", 0)));
    assert_eq!(RemovedUsers::read(&list.to_json()).unwrap(), list);
    for bad in [&b""[..], b"[]", b"{\"a b\": 1}", b"{\"a\": -1}", b"{\"a\": 1} x"] {
        assert!(RemovedUsers::read(bad).is_err(), "{}", String::from_utf8_lossy(bad));
    }
    assert!(list.remove("a b", 1).is_err());
    let mut full = RemovedUsers::default();
    (0..MOST_REMOVED).for_each(|number| full.remove(&number.to_string(), 1).unwrap());
    assert!(RemovedUsers::read(&full.to_json()).is_ok() && full.remove("one-more", 1).is_err());

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("removed.json");
    assert!(RemovedUsersFile::open(&path).is_err(), "a list that is missing is not an empty one");
    let remove = |names: &[&str]| RemovedUsersFile::remove(&path, names.iter().copied(), 50);
    remove(&[]).unwrap();
    let file = RemovedUsersFile::open(&path).unwrap();
    assert!(!file.has(&of("alice", 1)), "nobody yet");
    assert!(remove(&["bob", "a b"]).is_err() && !file.has(&of("bob", 1)), "all or nobody");
    let list = remove(&["alice"]).unwrap();
    assert!(file.has(&of("alice", 1)) && !file.has(&of("bob", 1)));
    host::write_private(&path, b"{").unwrap();
    assert!(file.has(&of("bob", 1)), "it cannot be read");
    host::write_private(&path, &list.to_json()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(file.has(&of("bob", 1)), "it was deleted");
    let begun_anew = remove(&["bob"]).unwrap_err().to_string();
    assert!(begun_anew.contains("was deleted") && begun_anew.contains("removed.lock"), "{begun_anew}");
    std::fs::remove_file(path.with_extension("lock")).unwrap();
    assert!(!remove(&["bob"]).unwrap().has(&of("alice", 1)), "the control: a list without alice");
    assert!(RemovedUsersFile::open(folder.path()).is_err(), "a folder");
}
