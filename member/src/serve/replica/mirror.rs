//! The state of a bandit as its journal determines it.

use super::{Model, Replica};
use crate::serve::Error;
use helba::{EncryptedBandit, Engine, Event};
use protocol::{BanditConfig, TaskKind};
use std::collections::BTreeMap;
use wire::{FeedbackCheck, OpenedChecks, Question, Wanted};

/// The state of a bandit after some records of its journal, and the chain of hashes over them.
pub(super) struct Mirror {
    pub(super) bandit: EncryptedBandit,
    pub(super) seen: Seen,
    pub(super) records: u64,
    pub(super) hash: [u8; 32],
    /// The batches that have ended.
    pub(super) batches: u64,
}

/// The feedbacks of a journal, by their rounds.
#[derive(Default)]
pub(super) struct Seen {
    /// Those that are not checked.
    pub(super) unchecked: BTreeMap<u64, Unchecked>,
    /// The bytes of the frames among them.
    pub(super) bytes: usize,
    /// BLAKE3 of the frames of all.
    pub(super) hashes: BTreeMap<u64, [u8; 32]>,
}

/// A feedback that is not checked.
pub(super) struct Unchecked {
    /// How many records are before it in the journal.
    pub(super) after: u64,
    /// Its frame, if it is kept. The journal has it.
    pub(super) frame: Option<Vec<u8>>,
}

impl Seen {
    /// Takes the feedback of `round`, with its frame if no more than `most` bytes are kept.
    pub(super) fn insert(&mut self, round: u64, after: u64, frame: Vec<u8>, most: usize) {
        self.remove(round);
        self.hashes.insert(round, wire::input_hash(&frame));
        let frame = Some(frame).filter(|frame| self.bytes + frame.len() <= most);
        self.bytes += frame.as_ref().map_or(0, Vec::len);
        self.unchecked.insert(round, Unchecked { after, frame });
    }

    /// The frame of a feedback, if it is kept.
    fn frame(&self, round: u64) -> Option<Vec<u8>> {
        self.unchecked.get(&round)?.frame.clone()
    }

    fn remove(&mut self, round: u64) {
        let removed = self.unchecked.remove(&round).and_then(|removed| removed.frame);
        self.bytes -= removed.map_or(0, |frame| frame.len());
    }
}

impl Mirror {
    /// A bandit before the first record of its journal.
    pub(super) fn new(engine: &Engine, id: &str, config: BanditConfig) -> Result<Self, Error> {
        let bandit = EncryptedBandit::create(engine, config, [0; 32])?;
        let hash = blake3::derive_key("helba member: journal of a bandit", id.as_bytes());
        Ok(Mirror { bandit, seen: Seen::default(), records: 0, hash, batches: 0 })
    }

    /// The model that decisions are made with.
    pub(super) fn model(&self) -> Model {
        (self.bandit.model_feedbacks(), self.bandit.scores_model().clone())
    }

    /// The position after one more record, before it is applied.
    pub(super) fn after(&self, record: &[u8]) -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(&self.hash).update(&(record.len() as u64).to_le_bytes()).update(record);
        let (records, hash) = (self.records + 1, *hash.finalize().as_bytes());
        let (bandit, batches) = (self.bandit.clone(), self.batches);
        Mirror { bandit, seen: Seen::default(), records, hash, batches }
    }

    /// Computes the update that is due, if there is one.
    pub(super) fn update(&mut self, engine: &Engine) -> Result<(), Error> {
        if let Some(update) = self.bandit.update()? {
            let model = update.run(engine)?;
            self.bandit.updated(&update, model);
        }
        Ok(())
    }

    /// Applies a record, whose ciphertexts must be those of members.
    pub(super) fn apply(&mut self, replica: &Replica, id: &str, record: &[u8]) -> Result<(), Error> {
        let (engine, event) = (&replica.engine, Event::from_bytes(record)?);
        let (deep, small) = (engine.deep(), engine.params());
        let question = |task: u64, kind: TaskKind| {
            move |attempt| {
                let wanted = Wanted::Transfer(kind);
                Question { bandit: id.to_string(), task, attempt, wanted }.to_bytes()
            }
        };
        let over = Error::Deviates("a journal with the answer to a task that it does not lead to");
        let mut checked = Vec::new();
        let is_due = match &event {
            Event::Rounds(_) | Event::Given(_) | Event::Skipped | Event::Closed | Event::Undone { .. } => {
                true
            }
            Event::Learnt { .. } => return Err(Error::Deviates("a journal with logged rounds")),
            Event::Rotated { standing, deep, scores, statistics, evidence } => {
                let frames = [deep, scores, statistics];
                self.records == 1 && replica.is_rotated(&self.bandit, id, standing, frames, evidence)?
            }
            Event::Feedback { round, frame } => {
                let (layout, about) = (&self.bandit.exchanges().layout, wire::feedback_about(id, *round));
                let unproven = |_| Error::Deviates("a journal with a feedback that its sender does not know");
                engine.read_proven_feedback(layout, frame, &about).map_err(unproven)?;
                true
            }
            Event::Erased { round, frame } => self.seen.hashes.get(round) == Some(&wire::input_hash(frame)),
            Event::Checked { .. } => {
                checked = self.check(replica, id, &event)?;
                true
            }
            Event::Traced { .. } => return Err(Error::Deviates("a journal with traces")),
            Event::Raised { task, frame } => {
                let Some(due) = self.bandit.task().filter(|due| due.id == *task) else { return Err(over) };
                let level = self.bandit.plan().statistics_level;
                let raised = ckks::read_ciphertext(deep.params(), deep.key_id(), level, frame)?;
                let asked = question(*task, TaskKind::Sum);
                replica.are_transfers(asked, &due.masked, &[(deep.params(), &raised)])
            }
            Event::Refreshed { task, deep: frame, scores } => {
                self.update(engine)?;
                let Some(due) = self.bandit.task().filter(|due| due.id == *task) else { return Err(over) };
                let level = self.bandit.plan().model_level;
                let model = ckks::read_ciphertext(deep.params(), deep.key_id(), level, frame)?;
                let scores = ckks::read_ciphertext(small, engine.key_id(), small.max_level(), scores)?;
                let outputs = [(deep.params(), &model), (small, &scores)];
                replica.are_transfers(question(*task, TaskKind::Model), &due.masked, &outputs)
            }
        };
        if !is_due {
            return Err(Error::Deviates(
                "a journal with a ciphertext that no members made, or an erasure of another one",
            ));
        }
        self.bandit.apply(engine, &event)?;
        self.batches += u64::from(matches!(event, Event::Refreshed { .. }));
        // A record that is refused leaves nothing behind.
        match event {
            Event::Feedback { round, frame } => {
                self.seen.insert(round, self.records - 1, frame, replica.kept);
            }
            Event::Erased { round, .. } => self.seen.remove(round),
            _ => checked.iter().for_each(|round| self.seen.remove(*round)),
        }
        Ok(())
    }

    /// Checks that members have opened projections of the feedbacks of the check that is due, and that those
    /// which are not dropped were in range in every round. Returns their rounds.
    fn check(&self, replica: &Replica, id: &str, event: &Event) -> Result<Vec<u64>, Error> {
        let Event::Checked { task, dropped, openings } = event else { return Ok(Vec::new()) };
        let over = Error::Deviates("a journal with a check that it does not lead to");
        let Some(check) = self.bandit.check().filter(|check| check.id == *task) else { return Err(over) };
        let missing = Error::Deviates("a journal without a feedback that it checks");
        let frames = check.feedbacks.iter().map(|(round, _)| self.seen.frame(*round));
        let frames: Vec<Vec<u8>> = frames.collect::<Option<_>>().ok_or(missing)?;
        let ring = (replica.engine.params(), replica.engine.key_id());
        let feedbacks = FeedbackCheck::read(self.bandit.exchanges(), ring, &frames)?;
        let opened = openings.iter().map(|opened| OpenedChecks::from_bytes(opened));
        let state = opened
            .collect::<Result<Vec<_>, _>>()
            .and_then(|opened| feedbacks.after(&replica.committee, (id, *task), &opened))
            .map_err(|_| Error::Deviates("a journal with a check that no members opened"))?;
        let kept = |round: &u64| dropped.iter().all(|(dropped, _)| dropped != round);
        let mut unseen = check.feedbacks.iter().zip(&state.passed);
        match state.next.is_some() || unseen.any(|((round, _), passed)| !passed && kept(round)) {
            true => Err(Error::Deviates("a journal with feedback that members have not found in range")),
            false => Ok(check.feedbacks.iter().map(|(round, _)| *round).collect()),
        }
    }
}
