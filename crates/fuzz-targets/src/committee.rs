//! What the members of a key committee read of each other, of a board and of a server.

use helba::Event;
use helba_member::keygen::{Identity, Plan, Proposal, read_key_generation, read_resharing};
use helba_member::serve::Told;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use std::sync::OnceLock;
use wire::{CheckEvidence, OpenedChecks, PublicBytes, RotationEvidence, SignedHead};

/// A proposal of 2 of 3 for toy keys, whose messages the targets read.
///
/// # Panics
/// Never: three identities are 2 of 3.
pub fn proposal() -> Proposal {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let members = (0..3).map(|_| Identity::generate(&mut rng).card()).collect();
    let nonce = PublicBytes(vec![3; 32]);
    Proposal {
        features: 2,
        arms: 2,
        threshold: 2,
        toy: true,
        created: 0,
        nonce,
        members,
        resharing: None,
        follows: None,
    }
}

/// The plan of [`proposal`].
///
/// # Panics
/// Never: the proposal is one.
pub fn plan() -> &'static Plan {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    PLAN.get_or_init(|| Plan::new(proposal()).expect("a plan of 2 of 3"))
}

/// A message of a key generation, or its proposal.
pub(crate) fn keygen(input: &[u8]) {
    read_key_generation(plan(), input);
    if let Ok(proposal) = serde_json::from_slice::<Proposal>(input) {
        _ = proposal.check();
    }
}

/// What is sealed to a member in a resharing. What a dealer tells twice is told once.
pub(crate) fn resharing(input: &[u8]) {
    if let Some(told) = read_resharing(plan(), input) {
        merges(told);
    }
}

/// What a member is told by a server, and by the members of the epoch before. A message that is read is
/// written with bytes that are read and written the same.
pub(crate) fn told(input: &[u8]) {
    fn check(input: &[u8], read: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        if let Some(written) = read(input) {
            assert!(read(&written).as_ref() == Some(&written), "written messages are read as another");
        }
    }
    check(input, |bytes| Some(CheckEvidence::from_bytes(bytes).ok()?.to_bytes()));
    check(input, |bytes| Some(OpenedChecks::from_bytes(bytes).ok()?.to_bytes()));
    check(input, |bytes| Some(RotationEvidence::from_bytes(bytes).ok()?.to_bytes()));
    check(input, |bytes| Some(SignedHead::from_bytes(bytes).ok()?.to_bytes()));
    check(input, |bytes| Event::from_bytes(bytes).ok()?.to_bytes().ok());
    if let Ok(told) = postcard::from_bytes::<Told>(input) {
        merges(Told::merged([told.clone(), told]));
    }
}

/// Merging what was merged with itself changes nothing.
fn merges(told: Told) {
    assert!(Told::merged([told.clone(), told.clone()]) == told, "merged twice, it is another");
}
