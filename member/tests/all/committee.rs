//! Key generation by members in threads of their own, over a board in this process.

use helba_member::MemberKeys;
use helba_member::keygen::{Board, Error, Identity, Keygen, Plan, Proposal, Store};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::{Manifest, PublicBytes};
use zeroize::Zeroizing;

/// The keys of a committee as its members wrote them.
pub(crate) struct Keys {
    pub(crate) members: Vec<MemberKeys>,
    pub(crate) public: Vec<u8>,
    pub(crate) users: Vec<u8>,
}

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

pub(crate) fn identities(members: u8, seed: u64) -> Vec<Identity> {
    let mut rng = rng(seed);
    (0..members).map(|_| Identity::generate(&mut rng)).collect()
}

pub(crate) fn proposal(
    identities: &[Identity],
    threshold: u8,
    features: usize,
    arms: usize,
    toy: bool,
) -> Proposal {
    let members = identities.iter().map(Identity::card).collect();
    let nonce = PublicBytes(vec![3; 32]);
    Proposal { features, arms, threshold, toy, created: 0, nonce, members, resharing: None, follows: None }
}

/// Member `j` of a run makes keys over its board, in a folder of its own.
pub(crate) fn take_part(
    plan: &Plan,
    identity: &Identity,
    board: &impl Board,
    folder: &Path,
    seed: u64,
    patience: Duration,
) -> Result<Manifest, Error> {
    let mut secret = Zeroizing::new([0; 32]);
    rng(seed).fill_bytes(&mut *secret);
    let run = Keygen { plan, identity, folder, passphrase: None, patience, log: &|_| () };
    run.run(board, secret)
}

/// What the members of a run wrote.
struct Written {
    members: Vec<Vec<u8>>,
    public: Vec<u8>,
    users: Vec<u8>,
}

type Runs = BTreeMap<(u8, u8, usize, usize, bool), Arc<Written>>;

/// The keys of a problem. Tests of one committee share a run, which takes some seconds.
pub(crate) fn keys(threshold: u8, members: u8, features: usize, arms: usize, toy: bool) -> Keys {
    static RUNS: Mutex<Runs> = Mutex::new(BTreeMap::new());
    let mut runs = RUNS.lock().unwrap();
    let problem = (threshold, members, features, arms, toy);
    let run = runs.entry(problem).or_insert_with(|| {
        let proposal = proposal(&identities(members, 100), threshold, features, arms, toy);
        Arc::new(make(&identities(members, 100), proposal))
    });
    let run = run.clone();
    drop(runs);
    opened(&run)
}

/// Keys of 2 of 3 toy members, whose committee follows that of `before`.
pub(crate) fn keys_after(before: &Manifest) -> Keys {
    let identities = identities(3, 300);
    let follows = Some(Box::new(before.as_followed().unwrap()));
    let shape = before.shape;
    let proposal = proposal(&identities, 2, shape.dim, shape.arm_slots, true);
    opened(&make(&identities, Proposal { follows, nonce: PublicBytes(vec![4; 32]), ..proposal }))
}

fn opened(run: &Written) -> Keys {
    let folder = tempfile::tempdir().unwrap();
    let open = |bytes: &Vec<u8>| {
        let path = folder.path().join("member.keys");
        host::write_private(&path, bytes).unwrap();
        MemberKeys::open(&path, None).unwrap()
    };
    let members = run.members.iter().map(open).collect();
    Keys { members, public: run.public.clone(), users: run.users.clone() }
}

fn make(identities: &[Identity], proposal: Proposal) -> Written {
    let members = identities.len();
    let folder = tempfile::tempdir().unwrap();
    let plan = || Plan::new(proposal.clone()).unwrap();
    let board = Store::open(plan(), &folder.path().join("board")).unwrap();
    let own = |j: usize| folder.path().join(j.to_string());
    // Members draw other secrets, and another token, for every committee.
    let seed = if proposal.follows.is_some() { 1000 } else { 0 };
    std::thread::scope(|scope| {
        for (j, identity) in identities.iter().enumerate() {
            let (plan, board, folder) = (plan(), &board, own(j));
            let patience = Duration::from_secs(300);
            let seed = seed + j as u64;
            scope.spawn(move || take_part(&plan, identity, board, &folder, seed, patience).unwrap());
        }
    });
    let read = |j: usize, name: &str| std::fs::read(own(j).join(name)).unwrap();
    let (public, users) = (read(0, "public.bundle"), read(0, "users.bundle"));
    let all = 0..members;
    assert!(all.clone().all(|j| read(j, "public.bundle") == public && read(j, "users.bundle") == users));
    Written { members: all.map(|j| read(j, "member.keys")).collect(), public, users }
}
