//! What a member reads of the bytes of others, for fuzz targets: it returns for all bytes.

use super::blame::Opening;
use super::message::Entry;
use super::parts::{Own, read_shares};
use super::plan::{Ids, Plan};
use super::reshare::{read_deal, read_pair};
use crate::serve::Told;
use ckks::KeyId;
use zeroize::Zeroizing;

/// Reads `bytes` as each message of a key generation: lists of messages, the opening of a seed, a deal, a
/// share of a key, and a test.
///
/// # Panics
/// If entries or an opening are read differently after they were written again.
pub fn read_key_generation(plan: &Plan, bytes: &[u8]) {
    if let Ok(entries) = Entry::read_all(bytes) {
        assert!(entries.iter().flat_map(Entry::to_bytes).eq(bytes.iter().copied()));
    }
    let opening = Opening::from_bytes(1, bytes).to_bytes();
    assert!(Opening::from_bytes(1, &opening).to_bytes() == opening);
    let ids = Ids { large: KeyId([0; 16]), scores: KeyId([0; 16]) };
    for wanted in &plan.keys {
        _ = plan.read_frame(wanted, ids, bytes);
    }
    let mut rest = bytes;
    for level in [0, plan.large.max_level()] {
        _ = read_shares(&mut rest, plan.sets_of(1).len(), level);
    }
    if bytes.len() == plan.dealt_bytes() {
        let own = Own::new(plan, 1, Zeroizing::new([0; 32]));
        let dealt: Vec<_> = plan.members().map(|_| Zeroizing::new(bytes.to_vec())).collect();
        _ = own.receive(&dealt);
    }
}

/// Reads `bytes` as what is sealed to a member in a resharing: half of a pair key with a count, and a deal
/// with what the ledger of its dealer holds, which is merged with itself. Returns what it tells.
pub fn read_resharing(plan: &Plan, bytes: &[u8]) -> Option<Told> {
    _ = read_pair(bytes);
    let (_, told) = read_deal(plan, bytes)?;
    Some(Told::merged([told.clone(), told]))
}
