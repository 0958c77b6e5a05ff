//! The committee that serves, and the one to which it moves.

use super::{Asked, Committee, CommitteeError, CommitteeServed, Given, TICK};
use crate::bandits::{BodyLimit, Reply};
use crate::store::{Named, NamedEdit, Store};
use host::lock;
use service::Content;
use shares::SignedManifest;
use shares::moves::{Handover, Serving};
use shares::talk::{from_bytes, to_bytes};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

/// The key under which the store has the id of the committee that serves.
const SERVES: &str = "committee";
/// The key of the moves that have led to it.
const MOVES: &str = "moves";
/// The hexadecimal digits of a committee's id before each of its rows.
const PREFIX: usize = 16;

/// The committees of this server.
pub(crate) struct Committees {
    serving: RwLock<Arc<Committee>>,
    /// Whose members take over, once those of the one that serves leave.
    next: Option<Arc<Committee>>,
    moves: RwLock<Vec<(SignedManifest, Handover)>>,
    store: Arc<Store>,
}

impl Committees {
    /// The committee of a manifest, and the one to which it moves or has moved, with what the store has of
    /// them.
    ///
    /// Must be called within a tokio runtime.
    pub(crate) fn open(
        Given { manifest, next, patience, waits }: Given,
        store: Arc<Store>,
    ) -> Result<Arc<Self>, crate::Error> {
        let next_follows = |next: &SignedManifest| next.manifest.proposal.follows == Some(manifest.id());
        if next.as_ref().is_some_and(|next| !next_follows(next)) {
            return Err(CommitteeError::NotNext.into());
        }
        let (mut serves, mut moves, mut rows) = (None, vec![], vec![]);
        for (key, value) in store.read(Named::Committee)? {
            match key.as_str() {
                SERVES => serves = Some(value),
                MOVES => moves = from_bytes(&value)?,
                _ => rows.push((key, value)),
            }
        }
        let (manifest, next) = match (serves, next) {
            (None, next) => (manifest, next),
            (Some(id), next) if id == manifest.id() => (manifest, next),
            (Some(id), Some(next)) if id == next.id() => (next, None),
            _ => return Err(CommitteeError::OtherCommittee.into()),
        };
        let id = Some(manifest.id().to_vec());
        store.commit_with(&[], &[NamedEdit { table: Named::Committee, key: SERVES.into(), value: id }])?;
        let open = |manifest: SignedManifest| {
            let prefix = prefix(&manifest.id());
            let own = rows.iter().filter_map(|(key, value)| Some((key.strip_prefix(&prefix)?, value)));
            let read = |(key, value): (&str, &Vec<u8>)| {
                Ok((wire::all_from_hex(key).ok_or(switchboard::Error::Stored)?, value.clone()))
            };
            let own: Vec<_> = own.map(read).collect::<Result<_, crate::Error>>()?;
            Committee::open(manifest, own, store.clone(), (patience, waits))
        };
        let (serving, next) = (open(manifest)?, next.map(open).transpose()?);
        let committees = Arc::new(Committees {
            serving: RwLock::new(serving),
            next,
            moves: RwLock::new(moves),
            store: store.clone(),
        });
        let ticks = Arc::downgrade(&committees);
        tokio::spawn(async move {
            let mut interval = tokio::time::interval(TICK);
            loop {
                interval.tick().await;
                let Some(committees) = ticks.upgrade() else { break };
                // What cannot be stored is said to the next request.
                let _ = tokio::task::spawn_blocking(move || committees.tick()).await;
            }
        });
        Ok(committees)
    }

    /// The committee that serves.
    pub(crate) fn serving(&self) -> Arc<Committee> {
        self.serving.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tick(&self) -> Result<(), crate::Error> {
        let serving = self.serving();
        for committee in [Some(&serving), self.next.as_ref()].into_iter().flatten() {
            committee.with(|board| {
                board.tick(Instant::now());
                Ok(())
            })?;
        }
        match &self.next {
            Some(next) if next.id != serving.id => self.carry(&serving, next),
            _ => Ok(()),
        }
    }

    /// Carries the move on.
    fn carry(&self, old: &Arc<Committee>, next: &Arc<Committee>) -> Result<(), crate::Error> {
        let (mut here, mut there) = (lock(&old.desk), lock(&next.desk));
        if here.ahead || there.ahead {
            return Err(CommitteeError::Ahead.into());
        }
        let moved = switchboard::carry(&mut here.board, &old.manifest, &mut there.board, Instant::now());
        let mut edits: Vec<NamedEdit> = [(old, &mut here), (next, &mut there)]
            .into_iter()
            .flat_map(|(committee, desk)| committee.edits(desk.board.changes()))
            .collect();
        let mut moves = self.moves.read().unwrap_or_else(PoisonError::into_inner).clone();
        let handover = moved.as_ref().is_ok_and(|moved| *moved).then(|| there.board.handover()).flatten();
        let moved_now = handover.is_some();
        if let Some((manifest, handover)) = handover {
            moves.push((manifest.clone(), handover));
            let edit = |key: String, value| NamedEdit { table: Named::Committee, key, value };
            // What the committee before had is gone with it.
            let prefix = prefix(&old.id);
            edits.retain(|edit| !edit.key.starts_with(&prefix));
            let rows = self.store.read(Named::Committee)?.into_iter();
            edits.extend(rows.filter(|(key, _)| key.starts_with(&prefix)).map(|(key, _)| edit(key, None)));
            edits.push(edit(SERVES.into(), Some(next.id.to_vec())));
            edits.push(edit(MOVES.into(), Some(to_bytes(&moves)?)));
        }
        if !edits.is_empty() {
            self.store.commit_with(&[], &edits).inspect_err(|_| {
                here.ahead = true;
                there.ahead = true;
            })?;
        }
        if moved_now {
            // Who waits for a decision is told to ask again, and members that they may stop.
            here.waiting.clear();
            old.moved.get_or_init(|| ckks::Hex(&next.id).to_string());
            *self.moves.write().unwrap_or_else(PoisonError::into_inner) = moves;
            *self.serving.write().unwrap_or_else(PoisonError::into_inner) = next.clone();
            tracing::info!(from = %ckks::Hex(&old.id), to = %ckks::Hex(&next.id), "the committee has moved");
        }
        drop((here, there));
        [old, next].into_iter().for_each(|committee| committee.wake());
        Ok(moved.map(drop)?)
    }

    /// The bytes of the manifest, from which devices begin, with the moves that have led to it.
    pub(crate) fn manifest(&self) -> Result<Reply, crate::Error> {
        let moves = self.moves.read().unwrap_or_else(PoisonError::into_inner).clone();
        let serving = Serving { manifest: self.serving().manifest.clone(), moves };
        Ok(Reply::Binary(to_bytes(&serving)?))
    }

    /// The longest request of a member.
    pub(crate) fn said_body() -> BodyLimit {
        BodyLimit { bytes: super::MOST_SAID, content: Content::Binary }
    }

    /// Takes what a member of one of the committees says, and waits for what it is told.
    pub(crate) async fn rounds(&self, member: u8, body: &[u8]) -> Result<Reply, crate::Error> {
        let serving = self.serving();
        for committee in [Some(serving.clone()), self.next.clone()].into_iter().flatten() {
            if let Some(poll) = committee.polls(member, body)? {
                return committee.rounds(member, poll).await;
            }
        }
        let moves = self.moves.read().unwrap_or_else(PoisonError::into_inner).clone();
        let before = |(old, _): &(SignedManifest, Handover)| {
            super::signed_poll(&old.manifest, member, body).is_ok_and(|poll| poll.is_some())
        };
        match moves.iter().any(before) {
            true => Err(CommitteeError::Moved { to: ckks::Hex(&serving.id).to_string() }.into()),
            false => Err(CommitteeError::Poll.into()),
        }
    }

    /// Creates a bandit under an id of 16 bytes in hexadecimal digits.
    pub(crate) fn create(self: &Arc<Self>, asked: &Asked, id: &str) -> Result<CommitteeServed, crate::Error> {
        let serving = self.serving();
        let definition = asked.definition(id, serving.id)?;
        serving.with(|board| board.create(definition.clone()))?;
        Ok(CommitteeServed::new(self.clone(), definition))
    }

    /// The bandits that are stored.
    pub(crate) fn bandits(self: &Arc<Self>) -> Vec<CommitteeServed> {
        let serving = self.serving();
        let desk = lock(&serving.desk);
        let all = desk.board.definitions().map(|(_, definition)| definition.clone());
        all.map(|definition| CommitteeServed::new(self.clone(), definition)).collect()
    }
}

/// What is before each key of a committee's rows.
pub(super) fn prefix(id: &[u8; 32]) -> String {
    ckks::Hex(id).to_string().chars().take(PREFIX).chain(['.']).collect()
}
