//! Decisions that wait for feedback, receipts of those that were answered, and settings of bandits. A
//! decision is on disk before the application gets it.

use crate::Error;
use crate::decision_log::Played;
use crate::settings::Settings;
use crate::store::{Change, Row, Store, Table};
use crate::tally::{Summary, Tally};
use host::lock;
use protocol::DecisionId;
use rand::CryptoRng;
use redb::Durability;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use wire::TraceQuestion;
use zeroize::{Zeroize, Zeroizing};

/// The most receipts that are kept for repeated feedback.
pub const MOST_RECEIPTS: usize = 1024;
/// The most trace questions that are kept. A frame of a question has some hundred kB, so that the feedback on
/// further decisions answers none.
pub const MOST_QUESTIONS: usize = 64;

/// What is kept of a decision.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Kept {
    /// It waits for feedback.
    Waiting(Waiting),
    /// Its feedback was counted.
    Answered {
        /// The reward.
        reward: f64,
        /// The number of feedbacks in the receipt; none for a reward that was counted here alone.
        feedbacks: Option<u64>,
    },
    /// Its feedback was sent, and its receipt has not come.
    Sent(Waiting, Sent),
}

/// A decision without a receipt.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    /// The features of the arm to play; none of a committee, whose feedback needs none.
    pub(crate) features: Vec<f64>,
    /// The question that the feedback answers.
    pub(crate) question: Option<TraceQuestion>,
    /// What else is known of it. The server knows it if the bandit was asked.
    pub(crate) played: Played,
}

/// A feedback that was sent. The server counts the first that reaches it, so that no other may follow.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) reward: f64,
    /// The seed of its encryption, so that a repeat has the same bytes.
    pub(crate) seed: [u8; 32],
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.features.zeroize();
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.reward.zeroize();
        self.seed.zeroize();
    }
}

/// The pending decisions of all bandits.
pub(crate) struct Pending {
    bounds: Bounds,
    state: Mutex<State>,
    /// What is on disk, so that a decision waits for no transaction of others.
    settings: Mutex<BTreeMap<String, Arc<Settings>>>,
}

/// What is on disk, and the part of it in memory.
struct State {
    store: Store,
    index: Index,
    tallies: BTreeMap<String, Tally>,
}

/// How many decisions are kept, and for how long. The oldest are forgotten first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) most: usize,
    pub(crate) age: Duration,
}

/// The keys of the table, in the order of their times.
#[derive(Default)]
struct Index {
    waiting: BTreeSet<Key>,
    answered: BTreeSet<Key>,
    questions: BTreeSet<[u8; 16]>,
}

/// Time in seconds, bandit and decision.
type Key = (u64, String, [u8; 16]);

impl Pending {
    /// Opens or creates the database in `folder`, and unseals every value in it.
    pub(crate) fn open(folder: &Path, key: &[u8; 32], bounds: Bounds) -> Result<Self, Error> {
        // The database panics on some damaged pages.
        let opened = host::without_panic(|| {
            let store = Store::open(folder, key)?;
            let read = Read::of(&store)?;
            Ok((store, read))
        });
        let damaged = |panic| Err(Error::database(&Store::path_in(folder), redb::Error::Corrupted(panic)));
        let (store, Read { index, tallies, settings }) = opened.unwrap_or_else(damaged)?;
        let state = Mutex::new(State { store, index, tallies });
        Ok(Pending { bounds, state, settings: Mutex::new(settings) })
    }

    /// Keeps decisions of a bandit, durably, and forgets those beyond the bounds. `now` is the time in
    /// seconds. Returns [`Tally::alarm`] before and after.
    pub(crate) fn keep<R: CryptoRng>(
        &self,
        bandit: &str,
        decisions: Vec<(DecisionId, Kept)>,
        now: u64,
        rng: &mut R,
    ) -> Result<[bool; 2], Error> {
        let mut state = self.ready()?;
        let State { store, index, tallies } = &mut *state;
        let (mut added, mut asked, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        let mut tally = tallies.get(bandit).cloned().unwrap_or_default();
        let before = tally.alarm();
        for (id, mut kept) in decisions {
            if let Kept::Waiting(Waiting { question, played, .. }) = &mut kept {
                tally.decided(played);
                match question {
                    Some(_) if index.questions.len() + asked.len() < MOST_QUESTIONS => asked.push(id.0),
                    question => *question = None,
                }
            }
            let key = (now, bandit.to_string(), id.0);
            changes.push(seal(store, &key, &kept, rng)?);
            added.push(key);
        }
        let beyond = (index.waiting.len() + added.len()).saturating_sub(self.bounds.most);
        let old = |key: &Key| key.0 < now.saturating_sub(self.bounds.age.as_secs());
        let waiting = index.waiting.iter().enumerate().take_while(|(at, key)| *at < beyond || old(key));
        let answered = index.answered.iter().take_while(|key| old(key));
        let removed: Vec<Key> = waiting.map(|(_, key)| key).chain(answered).cloned().collect();
        changes.extend(removed.iter().map(removal));
        changes.push(seal_tally(store, bandit, now, &tally, rng)?);
        store.write(Durability::Immediate, &changes)?;
        let alarm = [before, tally.alarm()];
        tallies.insert(bandit.into(), tally);
        removed.iter().for_each(|key| index.remove(key));
        index.waiting.extend(added);
        index.questions.extend(asked);
        Ok(alarm)
    }

    /// What is kept of a decision, and since when.
    pub(crate) fn find(&self, bandit: &str, id: DecisionId) -> Result<Option<(u64, Kept)>, Error> {
        let state = self.ready()?;
        let found = state.store.get(Table::Pending, bandit, &id.0)?;
        found.map(|(since, message)| Ok((since, read(&state.store, &message)?))).transpose()
    }

    /// Keeps the feedback of a decision that waits since `since`, durably, before it is sent.
    pub(crate) fn sending<R: CryptoRng>(
        &self,
        bandit: &str,
        (since, id): (u64, DecisionId),
        (waiting, sent): (Waiting, Sent),
        rng: &mut R,
    ) -> Result<(), Error> {
        let mut state = self.ready()?;
        let key = (since, bandit.to_string(), id.0);
        if !state.index.waiting.contains(&key) {
            return Err(Error::UnknownDecision { id: id.to_string() });
        }
        let change = seal(&state.store, &key, &Kept::Sent(waiting, sent), rng)?;
        state.store.write(Durability::Immediate, &[change])
    }

    /// Replaces a decision that waits since `since` by the receipt of its feedback, with the reward and the
    /// number of feedbacks. A crash may undo this: the server then gives the receipt again.
    pub(crate) fn answered<R: CryptoRng>(
        &self,
        bandit: &str,
        (since, id, played): (u64, DecisionId, &Played),
        (reward, feedbacks): (f64, Option<u64>),
        now: u64,
        rng: &mut R,
    ) -> Result<(), Error> {
        let mut state = self.ready()?;
        let State { store, index, tallies } = &mut *state;
        let mut tally = tallies.get(bandit).cloned().unwrap_or_default();
        tally.rewarded(played, reward);
        let key = (now, bandit.to_string(), id.0);
        let receipt = seal(store, &key, &Kept::Answered { reward, feedbacks }, rng)?;
        let oldest = index.answered.first().filter(|_| index.answered.len() >= MOST_RECEIPTS).cloned();
        let tallied = seal_tally(store, bandit, now, &tally, rng)?;
        let changes: Vec<Change> = oldest.iter().map(removal).chain([receipt, tallied]).collect();
        store.write(Durability::None, &changes)?;
        tallies.insert(bandit.into(), tally);
        oldest.iter().for_each(|key| index.remove(key));
        index.remove(&(since, key.1.clone(), id.0));
        index.answered.insert(key);
        Ok(())
    }

    /// Forgets all that is kept of a bandit, durably.
    pub(crate) fn forget(&self, bandit: &str) -> Result<(), Error> {
        let mut state = self.ready()?;
        let State { store, index, tallies } = &mut *state;
        let of_bandit = index.waiting.iter().chain(&index.answered).filter(|key| key.1 == bandit);
        let removed: Vec<Key> = of_bandit.cloned().collect();
        let whole = |table| Change { table, bandit: bandit.into(), id: Vec::new(), sealed: None };
        let whole = [Table::Settings, Table::Tallies].map(whole);
        let changes: Vec<Change> = removed.iter().map(removal).chain(whole).collect();
        store.write(Durability::Immediate, &changes)?;
        removed.iter().for_each(|key| index.remove(key));
        tallies.remove(bandit);
        lock(&self.settings).remove(bandit);
        Ok(())
    }

    /// The settings of a bandit, which are the defaults until some are kept.
    pub(crate) fn settings(&self, bandit: &str) -> Arc<Settings> {
        lock(&self.settings).get(bandit).cloned().unwrap_or_default()
    }

    /// Keeps the settings of a bandit, durably.
    pub(crate) fn set<R: CryptoRng>(
        &self,
        bandit: &str,
        settings: Settings,
        now: u64,
        rng: &mut R,
    ) -> Result<(), Error> {
        let mut state = self.ready()?;
        let broken = |_| Error::Broken("settings that cannot be written");
        let message = Zeroizing::new(serde_json::to_vec(&settings).map_err(broken)?);
        let change = state.store.put(Table::Settings, (bandit, &[], now), &message, rng)?;
        state.store.write(Durability::Immediate, &[change])?;
        lock(&self.settings).insert(bandit.into(), Arc::new(settings));
        Ok(())
    }

    /// A summary of the decisions of a bandit, if there were any.
    pub(crate) fn summary(&self, bandit: &str) -> Result<Option<Summary>, Error> {
        Ok(self.ready()?.tallies.get(bandit).map(|tally| tally.summary(0)))
    }

    /// Makes all changes durable.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.ready()?.store.write(Durability::Immediate, &[])
    }

    /// The state, after a failed transaction as it is on disk: nobody knows whether that transaction got
    /// there.
    fn ready(&self) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = lock(&self.state);
        if state.store.is_closed() {
            state.store.reopen()?;
            match Read::of(&state.store) {
                Ok(Read { index, tallies, settings }) => {
                    (state.index, state.tallies) = (index, tallies);
                    *lock(&self.settings) = settings;
                }
                Err(error) => {
                    state.store.close();
                    return Err(error);
                }
            }
        }
        Ok(state)
    }
}

/// What is read from the disk.
struct Read {
    index: Index,
    tallies: BTreeMap<String, Tally>,
    settings: BTreeMap<String, Arc<Settings>>,
}

impl Read {
    fn of(store: &Store) -> Result<Read, Error> {
        let bad = || Error::Unsealable { path: store.path().to_owned() };
        let settings = |(bandit, _, _, message): Row| {
            Ok((bandit, Arc::new(serde_json::from_slice(&message).map_err(|_| bad())?)))
        };
        let tally =
            |(bandit, _, _, message): Row| Ok((bandit, postcard::from_bytes(&message).map_err(|_| bad())?));
        Ok(Read {
            index: Index::read(store)?,
            tallies: store.read(Table::Tallies)?.into_iter().map(tally).collect::<Result<_, Error>>()?,
            settings: store.read(Table::Settings)?.into_iter().map(settings).collect::<Result<_, Error>>()?,
        })
    }
}

impl Index {
    /// The index of what is stored, after every value was unsealed.
    fn read(store: &Store) -> Result<Index, Error> {
        let mut index = Index::default();
        for (bandit, id, since, message) in store.read(Table::Pending)? {
            // The tag authenticates ids of this length alone.
            let id = id.try_into().map_err(|_| Error::Broken("an id of a pending decision"))?;
            match &read(store, &message)? {
                Kept::Waiting(Waiting { question, .. }) | Kept::Sent(Waiting { question, .. }, _) => {
                    index.questions.extend(question.as_ref().map(|_| id));
                    index.waiting.insert((since, bandit, id));
                }
                Kept::Answered { .. } => drop(index.answered.insert((since, bandit, id))),
            }
        }
        Ok(index)
    }

    fn remove(&mut self, key: &Key) {
        if self.waiting.remove(key) {
            self.questions.remove(&key.2);
        } else {
            self.answered.remove(key);
        }
    }
}

fn read(store: &Store, message: &[u8]) -> Result<Kept, Error> {
    postcard::from_bytes(message).map_err(|_| Error::Unsealable { path: store.path().to_owned() })
}

fn seal<R: CryptoRng>(store: &Store, key: &Key, kept: &Kept, rng: &mut R) -> Result<Change, Error> {
    let (time, bandit, id) = key;
    let broken = |_| Error::Broken("a pending decision that cannot be written");
    let message = Zeroizing::new(postcard::to_stdvec(kept).map_err(broken)?);
    store.put(Table::Pending, (bandit, id, *time), &message, rng)
}

fn seal_tally<R: CryptoRng>(
    store: &Store,
    bandit: &str,
    now: u64,
    tally: &Tally,
    rng: &mut R,
) -> Result<Change, Error> {
    let broken = |_| Error::Broken("a tally that cannot be written");
    let message = postcard::to_stdvec(tally).map_err(broken)?;
    store.put(Table::Tallies, (bandit, &[], now), &message, rng)
}

fn removal((_, bandit, id): &Key) -> Change {
    Change { table: Table::Pending, bandit: bandit.clone(), id: id.to_vec(), sealed: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::fail;
    use crate::store::{NONCE_BYTES, TIME_BYTES};
    use protocol::QuestionId;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    const BANDIT: &str = "b";
    const KEY: [u8; 32] = [3; 32];
    const BOUNDS: Bounds = Bounds { most: 4, age: Duration::from_secs(100) };

    fn rng() -> ChaCha20Rng {
        ChaCha20Rng::seed_from_u64(1)
    }

    fn open(folder: &Path, bounds: Bounds) -> Pending {
        Pending::open(folder, &KEY, bounds).unwrap()
    }

    fn waiting(question: bool) -> Kept {
        let id = QuestionId { feedbacks: 1, model_feedbacks: 0, code: [0; 16] };
        let question = question.then(|| TraceQuestion { id, frame: vec![1; 9] });
        Kept::Waiting(Waiting { features: vec![0.125, 1.0 / 3.0], question, played: played() })
    }

    fn played() -> Played {
        Played {
            decided: 1000,
            round: 1,
            model_feedbacks: Some(0),
            arms: 2,
            arm: 1,
            chosen: Some(1),
            probability: 1.0,
            baseline: None,
            reliable: true,
        }
    }

    fn id(number: usize) -> DecisionId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        DecisionId(id)
    }

    fn keep(pending: &Pending, ids: std::ops::Range<usize>, now: u64) {
        let decisions = ids.map(|number| (id(number), waiting(false))).collect();
        pending.keep(BANDIT, decisions, now, &mut rng()).unwrap();
    }

    fn numbers(pending: &Pending) -> Vec<usize> {
        (0..100).filter(|number| pending.find(BANDIT, id(*number)).unwrap().is_some()).collect()
    }

    /// The oldest are forgotten, by number and by age, also of those that an earlier process kept.
    #[test]
    fn decisions_are_bounded_in_number_and_age() {
        let folder = tempfile::tempdir().unwrap();
        let pending = open(folder.path(), BOUNDS);
        keep(&pending, 0..3, 1000);
        keep(&pending, 3..6, 1001);
        assert_eq!(numbers(&pending), [2, 3, 4, 5]);
        drop(pending);
        let pending = open(folder.path(), BOUNDS);
        keep(&pending, 6..7, 1100);
        assert_eq!(numbers(&pending), [3, 4, 5, 6]);
        keep(&pending, 7..8, 1102);
        assert_eq!(numbers(&pending), [6, 7]);
    }

    /// A receipt takes the place of a decision, whose features are gone. Receipts are bounded by themselves.
    #[test]
    fn receipts_replace_decisions() {
        let folder = tempfile::tempdir().unwrap();
        let pending = open(folder.path(), Bounds { most: 2 * MOST_RECEIPTS, ..BOUNDS });
        let count = MOST_RECEIPTS + 2;
        keep(&pending, 0..count, 1000);
        for number in 0..count {
            let since = pending.find(BANDIT, id(number)).unwrap().unwrap().0;
            let (receipt, now) = ((0.5, Some(number as u64)), since + number as u64);
            pending.answered(BANDIT, (since, id(number), &played()), receipt, now, &mut rng()).unwrap();
        }
        assert!(lock(&pending.state).index.waiting.is_empty());
        pending.sync().unwrap();
        drop(pending);
        let pending = open(folder.path(), BOUNDS);
        let (index, find) =
            (lock(&pending.state).index.answered.len(), |at| pending.find(BANDIT, id(at)).unwrap());
        assert_eq!(index, MOST_RECEIPTS);
        assert!(find(0).is_none() && find(1).is_none());
        let last = (count - 1) as u64;
        assert!(
            find(count - 1) == Some((1000 + last, Kept::Answered { reward: 0.5, feedbacks: Some(last) }))
        );
        // They are forgotten by their age too, as decisions are.
        let (oldest, age) = (lock(&pending.state).index.answered.first().unwrap().0, BOUNDS.age.as_secs());
        keep(&pending, count..count + 1, oldest + age);
        assert_eq!(lock(&pending.state).index.answered.len(), MOST_RECEIPTS);
        keep(&pending, count + 1..count + 2, oldest + age + 3);
        let left = lock(&pending.state).index.answered.clone();
        assert_eq!((left.len(), left.first().unwrap().0), (MOST_RECEIPTS - 3, oldest + 3));
        assert!(find(2).is_none() && find(count - 1).is_some());
    }

    /// Of many questions some are kept, and a decision whose question is not kept is kept without it.
    #[test]
    fn questions_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let pending = open(folder.path(), Bounds { most: 1000, ..BOUNDS });
        let decisions = |ids: std::ops::Range<usize>| ids.map(|number| (id(number), waiting(true))).collect();
        pending.keep(BANDIT, decisions(0..70), 1000, &mut rng()).unwrap();
        let asked = |number| {
            let kept = pending.find(BANDIT, id(number)).unwrap().unwrap().1;
            matches!(&kept, Kept::Waiting(waiting) if waiting.question.is_some())
        };
        assert_eq!((0..70).filter(|number| asked(*number)).count(), MOST_QUESTIONS);
        pending.answered(BANDIT, (1000, id(0), &played()), (0.5, Some(1)), 1001, &mut rng()).unwrap();
        pending.keep(BANDIT, decisions(70..72), 1002, &mut rng()).unwrap();
        assert!(asked(70) && !asked(71));
    }

    /// A feedback that was sent outlasts the process, and is forgotten with its decision.
    #[test]
    fn feedback_is_kept_before_it_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        let pending = open(folder.path(), BOUNDS);
        keep(&pending, 0..1, 1000);
        let Kept::Waiting(decision) = waiting(false) else { unreachable!() };
        let sent = Sent { reward: 0.25, seed: [9; 32] };
        let send = |pending: &Pending, number| {
            pending.sending(BANDIT, (1000, id(number)), (decision.clone(), sent.clone()), &mut rng())
        };
        // What a disk refuses is not sent.
        fail(1);
        assert!(send(&pending, 0).is_err());
        send(&pending, 0).unwrap();
        assert!(matches!(send(&pending, 1), Err(Error::UnknownDecision { .. })));
        drop(pending);
        let pending = open(folder.path(), BOUNDS);
        let want = || Kept::Sent(decision.clone(), sent.clone());
        assert!(pending.find(BANDIT, id(0)).unwrap() == Some((1000, want())));
        pending.answered(BANDIT, (1000, id(0), &played()), (0.25, Some(1)), 1001, &mut rng()).unwrap();
        assert!(matches!(pending.find(BANDIT, id(0)).unwrap(), Some((_, Kept::Answered { .. }))));
        keep(&pending, 1..2, 1101);
        assert_eq!(numbers(&pending), [0, 1]);
    }

    /// The file shows no feature, and a value that was changed, or moved to another decision, is refused. The
    /// control is the same value in the clear, which is found where it is written.
    #[test]
    fn attack_pending_decisions_are_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let pending = open(folder.path(), BOUNDS);
        keep(&pending, 0..2, 1000);
        let file = || std::fs::read(folder.path().join("pending.redb")).unwrap();
        let feature = (1.0f64 / 3.0).to_le_bytes();
        let shown = || file().windows(8).any(|bytes| bytes == feature);
        assert!(!shown());
        #[cfg(unix)]
        {
            let metadata = std::fs::metadata(folder.path().join("pending.redb")).unwrap();
            assert_eq!(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777, 0o600);
        }
        let key = |number: usize| (1000, BANDIT.to_string(), id(number).0);
        let good = seal(&lock(&pending.state).store, &key(0), &waiting(false), &mut rng()).unwrap();
        let good = good.sealed.unwrap();
        let put = |value: Vec<u8>, number| {
            let change = Change { sealed: Some(value), ..removal(&key(number)) };
            lock(&pending.state).store.write(Durability::Immediate, &[change]).unwrap();
            pending.find(BANDIT, id(number)).map(drop)
        };
        assert!(put(good.clone(), 0).is_ok());
        assert!(matches!(put(good.clone(), 1), Err(Error::Unsealable { .. })), "moved");
        // Time, nonce, sealed value, tag.
        for at in [0, TIME_BYTES, TIME_BYTES + NONCE_BYTES, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(matches!(put(bad, 0), Err(Error::Unsealable { .. })), "byte {at}");
        }
        assert!(matches!(put(good[..TIME_BYTES + NONCE_BYTES].to_vec(), 0), Err(Error::Unsealable { .. })));
        assert!(!shown());
        let clear = postcard::to_stdvec(&waiting(false)).unwrap();
        let _ = put(clear, 0);
        assert!(shown(), "the control");
    }

    /// After a failed transaction nothing is given out, and the next one finds the file as the disk has it.
    #[test]
    fn a_failed_transaction_closes_nothing_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let pending = open(folder.path(), Bounds { most: 100, ..BOUNDS });
        keep(&pending, 0..2, 1000);
        let decision = vec![(id(2), waiting(false))];
        fail(1);
        assert!(pending.keep(BANDIT, decision.clone(), 1000, &mut rng()).is_err());
        fail(1);
        assert!(pending.find(BANDIT, id(0)).is_err(), "it cannot be opened again yet");
        assert!(pending.find(BANDIT, id(0)).unwrap().is_some());
        // The failed transaction reached the disk here. Memory has what the disk has.
        let (on_disk, known) = (numbers(&pending).len(), lock(&pending.state).index.waiting.len());
        assert_eq!(on_disk, known);
        pending.keep(BANDIT, decision, 1000, &mut rng()).unwrap();
        pending.answered(BANDIT, (1000, id(0), &played()), (0.5, Some(1)), 1001, &mut rng()).unwrap();
        assert_eq!(numbers(&pending), [0, 1, 2]);
        drop(pending);
        assert_eq!(numbers(&open(folder.path(), BOUNDS)), [0, 1, 2]);
    }

    /// Two agents on one folder would each keep decisions that the other removes. An empty database is one
    /// that was lost, and another one would begin in its place.
    #[test]
    fn a_folder_has_one_agent_and_its_own_database() {
        let folder = tempfile::tempdir().unwrap();
        let refused = || Pending::open(folder.path(), &KEY, BOUNDS).err();
        let first = open(folder.path(), BOUNDS);
        keep(&first, 0..1, 1000);
        assert!(matches!(refused(), Some(Error::StateInUse { .. })));
        // While the database is closed after a transaction that failed, its own lock is free.
        fail(1);
        assert!(first.keep(BANDIT, vec![(id(1), waiting(false))], 1000, &mut rng()).is_err());
        assert!(matches!(refused(), Some(Error::StateInUse { .. })));
        drop(first);
        assert!(numbers(&open(folder.path(), BOUNDS)).contains(&0));
        let path = Store::path_in(folder.path());
        std::fs::write(&path, b"").unwrap();
        assert!(refused().unwrap().to_string().contains("it is empty"));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }

    /// A bandit that is forgotten leaves nothing, and takes nothing of another one.
    #[test]
    fn bandits_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let pending = open(folder.path(), BOUNDS);
        keep(&pending, 0..2, 1000);
        pending.answered(BANDIT, (1000, id(0), &played()), (0.5, Some(1)), 1001, &mut rng()).unwrap();
        pending.keep("c", vec![(id(5), waiting(true))], 1000, &mut rng()).unwrap();
        pending.forget(BANDIT).unwrap();
        let is_right =
            |pending: &Pending| numbers(pending).is_empty() && pending.find("c", id(5)).unwrap().is_some();
        assert!(is_right(&pending));
        drop(pending);
        assert!(is_right(&open(folder.path(), BOUNDS)));
    }
}
