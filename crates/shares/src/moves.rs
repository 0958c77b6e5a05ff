//! A committee moves to another one, or to other members and keys of the same one.
//!
//! Each of 2t − 1 members stops serving and deals its shares of every model to the next members
//! ([`Dealing`]). These take the models over ([`Take`]). Then the old members sign that they have left
//! ([`Roll`]), and do nothing more. 2t − 1 such signatures are a [`Handover`]: next members decide from then
//! on, and a device that knows the old committee knows the next one by it ([`follow`]).

use crate::talk::{BanditId, Checkpoint, Definition, RunId, Signatures, from_bytes, hash};
use crate::{Error, Manifest, SignedManifest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What dealings are signed for.
pub const DEALT: &str = "helba 2026-11-28 dealing of a move";
/// What members sign who leave.
pub const MOVED: &str = "helba 2026-11-28 committee that has moved";
/// The most moves that a device follows.
pub const MOST_MOVES: usize = 64;

/// What a member of the old committee deals of one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dealing {
    /// The member.
    pub dealer: u8,
    /// By the number of the next member, from 1: its shares of the dealer's shares, sealed.
    pub sealed: Vec<Vec<u8>>,
    /// The dealer's signature of [`Dealing::signed`].
    pub signature: Vec<u8>,
}

/// The name of the move of a checkpoint from one committee to another: boxes and signatures are for it.
pub fn move_name(from: &[u8; 32], to: &[u8; 32], checkpoint: &[u8; 32]) -> [u8; 32] {
    hash("helba 2026-11-28 move of a checkpoint", &(from, to, checkpoint))
}

impl Dealing {
    /// What the dealer signs: that the checkpoint of this move is its last one, and what it deals of it.
    pub fn signed(&self, name: &[u8; 32]) -> [u8; 32] {
        hash("helba 2026-11-28 what is dealt", &(name, self.dealer, &self.sealed))
    }
}

/// A bandit that members take over.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Take {
    /// The committee before.
    pub old: SignedManifest,
    /// The bandit.
    pub definition: Definition,
    /// Its last checkpoint there.
    pub checkpoint: Checkpoint,
    /// What 2t − 1 members have dealt, by rising numbers of dealers.
    pub dealings: Vec<Dealing>,
    /// The members who take over, and what each has drawn at its start.
    pub set: Vec<(u8, [u8; 32])>,
    /// Above the numbers of all batches that these members have prepared.
    pub number: u64,
    /// Rises with each try.
    pub ballot: u32,
}

impl Take {
    /// The run.
    pub fn run(&self, committee: &[u8; 32]) -> RunId {
        hash("helba 2026-11-28 bandit that is taken over", &(committee, self))
    }
}

/// All bandits that move, with the hashes of their last checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roll {
    /// The committee's id.
    pub from: [u8; 32],
    /// That of the next one.
    pub to: [u8; 32],
    /// By rising ids with the committee before.
    pub bandits: Vec<(BanditId, [u8; 32])>,
}

impl Roll {
    /// Its hash.
    pub fn hash(&self) -> [u8; 32] {
        hash("helba 2026-11-28 roll of a move", self)
    }
}

/// That 2t − 1 members of a committee have left for another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The committee's id.
    pub from: [u8; 32],
    /// That of the next one.
    pub to: [u8; 32],
    /// The hash of the roll.
    pub roll: [u8; 32],
    /// Their signatures of [`moved`].
    pub signatures: Signatures,
}

/// What a member signs that leaves.
pub fn moved(from: &[u8; 32], to: &[u8; 32], roll: &[u8; 32]) -> [u8; 32] {
    hash("helba 2026-11-28 member that leaves", &(from, to, roll))
}

impl Handover {
    /// Checks that enough members of the committee of this manifest have left.
    ///
    /// # Errors
    /// [`Error::Handover`].
    pub fn check(&self, old: &Manifest) -> Result<(), Error> {
        let signed = moved(&self.from, &self.to, &self.roll);
        let right = |(member, signature): &&(u8, Vec<u8>)| {
            let card = usize::from(*member).checked_sub(1).and_then(|at| old.proposal.cards.get(at));
            card.is_some_and(|card| envelope::verify(&card.signing, MOVED, &signed, signature).is_ok())
        };
        let left: BTreeSet<u8> =
            self.signatures.iter().take(64).filter(right).map(|(member, _)| *member).collect();
        let need = old.proposal.threshold.needed();
        match self.from == old.id() && left.len() >= need {
            true => Ok(()),
            false => Err(Error::Handover { signed: left.len(), need }),
        }
    }
}

/// The committee that serves, and the moves that have led to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// Its manifest.
    pub manifest: SignedManifest,
    /// Each committee before, with what shows that it has moved.
    pub moves: Vec<(SignedManifest, Handover)>,
}

impl Serving {
    /// Reads what a server says.
    ///
    /// # Errors
    /// [`Error::Message`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        from_bytes(bytes)
    }

    /// The manifest of the committee that serves, for who knows the id of this one. Without an id the server
    /// chooses who the members are.
    ///
    /// # Errors
    /// Those of [`follow`].
    pub fn follow(self, known: Option<&[u8; 32]>) -> Result<SignedManifest, Error> {
        follow(known.unwrap_or(&self.manifest.id()), &self.moves, &self.manifest)?;
        Ok(self.manifest)
    }
}

/// Checks the manifest of the committee that serves, for who knows the id of one: all members of `serving`
/// have signed it, and from the known one there leads a move to each next one, which 2t − 1 members of the
/// one before have signed.
///
/// # Errors
/// [`Error::OtherCommittee`] if no moves lead there; [`Error::Handover`]; those of [`SignedManifest::check`].
pub fn follow(
    known: &[u8; 32],
    moves: &[(SignedManifest, Handover)],
    serving: &SignedManifest,
) -> Result<(), Error> {
    serving.check()?;
    let mut at = *known;
    for (old, handover) in moves.iter().skip_while(|(old, _)| old.id() != *known).take(MOST_MOVES) {
        if old.id() == at && at != serving.id() {
            old.check()?;
            handover.check(&old.manifest)?;
            at = handover.to;
        }
    }
    if at == serving.id() { Ok(()) } else { Err(Error::OtherCommittee) }
}
