//! Decisions that wait for feedback, and receipts of those that were answered, in one file of the state
//! folder. A decision is on disk before the application gets it.
//!
//! Every value is sealed by XChaCha20-Poly1305 under a key that is derived from the secret key, with a random
//! nonce. Bandit, decision and time are authenticated with it. Whoever reads the file learns these, the
//! lengths of values, which are those of the features, and nothing else.
//!
//! ```text
//! table    key               value
//! pending  bandit, decision  8 bytes time in seconds, 24 bytes nonce, sealed value with its tag
//! ```

use crate::Error;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use host::lock;
use protocol::DecisionId;
use rand::CryptoRng;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use user_client::Device;
use wire::TraceQuestion;
use zeroize::{Zeroize, Zeroizing};

/// The most receipts that are kept for repeated feedback.
pub const MOST_RECEIPTS: usize = 1024;
/// The most trace questions that are kept. A frame of a question has some hundred kB, so that the feedback on
/// further decisions answers none.
pub const MOST_QUESTIONS: usize = 64;

/// The context of the derivation of the key.
const CONTEXT: &str = "helba-agent 2026 pending decisions";
const TABLE: TableDefinition<'static, (&'static str, &'static [u8]), &'static [u8]> =
    TableDefinition::new("pending");
const TIME_BYTES: usize = 8;
const NONCE_BYTES: usize = 24;
/// Memory for pages of the database. Values are small.
const CACHE_BYTES: usize = 8 << 20;

/// What is kept of a decision.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Kept {
    /// It waits for feedback.
    Waiting {
        /// The features of the arm to play.
        features: Vec<f64>,
        /// The question that the feedback answers.
        question: Option<TraceQuestion>,
    },
    /// Its feedback was counted.
    Answered {
        /// The reward.
        reward: f64,
        /// The number of feedbacks in the receipt.
        feedbacks: u64,
    },
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Kept::Waiting { features, .. } = self {
            features.zeroize();
        }
    }
}

/// The file of pending decisions, open and locked.
pub(crate) struct Pending {
    path: PathBuf,
    database: Database,
    cipher: XChaCha20Poly1305,
    bounds: Bounds,
    index: Mutex<Index>,
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
    /// Opens or creates the file in `folder`, with mode 0600, and unseals every value in it.
    ///
    /// # Errors
    /// [`Error::StateInUse`], [`Error::Unsealable`], and those of the disk.
    pub(crate) fn open(folder: &Path, device: &Device, bounds: Bounds) -> Result<Self, Error> {
        let path = folder.join("pending.redb");
        let mut options = host::private_file();
        let file = options.read(true).write(true).create(true).open(&path);
        let file = file.map_err(|e| Error::disk(&path, e))?;
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = builder.create_file(file).map_err(|e| Error::database(&path, e.into()))?;
        host::sync_folder(folder).map_err(|e| Error::disk(folder, e))?;
        let cipher = XChaCha20Poly1305::new((&*device.derive_key(CONTEXT)).into());
        let pending = Pending { path, database, cipher, bounds, index: Mutex::default() };
        *lock(&pending.index) = pending.read()?;
        Ok(pending)
    }

    /// Keeps decisions of a bandit, durably, and forgets those beyond the bounds. `now` is the time in
    /// seconds.
    ///
    /// # Errors
    /// Those of the disk; nothing is kept then.
    pub(crate) fn keep<R: CryptoRng>(
        &self,
        bandit: &str,
        decisions: Vec<(DecisionId, Kept)>,
        now: u64,
        rng: &mut R,
    ) -> Result<(), Error> {
        let mut index = lock(&self.index);
        let (mut added, mut asked) = (Vec::new(), Vec::new());
        for (id, mut kept) in decisions {
            if let Kept::Waiting { question: question @ Some(_), .. } = &mut kept {
                match index.questions.len() + asked.len() < MOST_QUESTIONS {
                    true => asked.push(id.0),
                    false => *question = None,
                }
            }
            let key = (now, bandit.to_string(), id.0);
            added.push((self.seal(&key, &kept, rng)?, key));
        }
        let beyond = (index.waiting.len() + added.len()).saturating_sub(self.bounds.most);
        let old = |key: &Key| key.0 < now.saturating_sub(self.bounds.age.as_secs());
        let waiting = index.waiting.iter().enumerate().take_while(|(at, key)| *at < beyond || old(key));
        let answered = index.answered.iter().take_while(|key| old(key));
        let removed: Vec<Key> = waiting.map(|(_, key)| key).chain(answered).cloned().collect();
        self.write(Durability::Immediate, &added, &removed)?;
        removed.iter().for_each(|key| index.remove(key));
        index.waiting.extend(added.into_iter().map(|(_, key)| key));
        index.questions.extend(asked);
        Ok(())
    }

    /// What is kept of a decision, and since when.
    ///
    /// # Errors
    /// [`Error::Unsealable`] for a value that was changed while it was kept, and those of the disk.
    pub(crate) fn find(&self, bandit: &str, id: DecisionId) -> Result<Option<(u64, Kept)>, Error> {
        let read = || -> Result<_, redb::Error> {
            let table = self.database.begin_read()?.open_table(TABLE)?;
            Ok(table.get((bandit, &id.0[..]))?.map(|value| value.value().to_vec()))
        };
        let value = read().map_err(|e| Error::database(&self.path, e))?;
        value.map(|value| self.unseal(bandit, &id.0, &value)).transpose()
    }

    /// Replaces a decision that waits since `since` by the receipt of its feedback, with the reward and the
    /// number of feedbacks. A crash may undo this: the server then gives the receipt again.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn answered<R: CryptoRng>(
        &self,
        bandit: &str,
        (since, id): (u64, DecisionId),
        (reward, feedbacks): (f64, u64),
        now: u64,
        rng: &mut R,
    ) -> Result<(), Error> {
        let mut index = lock(&self.index);
        let key = (now, bandit.to_string(), id.0);
        let sealed = self.seal(&key, &Kept::Answered { reward, feedbacks }, rng)?;
        let oldest = index.answered.first().filter(|_| index.answered.len() >= MOST_RECEIPTS);
        let removed: Vec<Key> = oldest.cloned().into_iter().collect();
        self.write(Durability::None, &[(sealed, key.clone())], &removed)?;
        removed.iter().for_each(|key| index.remove(key));
        index.remove(&(since, key.1.clone(), id.0));
        index.answered.insert(key);
        Ok(())
    }

    /// Makes all changes durable.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.write(Durability::Immediate, &[], &[])
    }

    /// The index of what is stored, after every value was unsealed.
    fn read(&self) -> Result<Index, Error> {
        self.sync()?;
        let read = || -> Result<_, redb::Error> {
            let table = self.database.begin_read()?.open_table(TABLE)?;
            let mut values = Vec::new();
            for row in table.iter()? {
                let (key, value) = row?;
                let (bandit, id) = key.value();
                values.push((bandit.to_string(), id.to_vec(), value.value().to_vec()));
            }
            Ok(values)
        };
        let mut index = Index::default();
        for (bandit, id, value) in read().map_err(|e| Error::database(&self.path, e))? {
            let (since, kept) = self.unseal(&bandit, &id, &value)?;
            // The tag authenticates ids of this length alone.
            let id = id.try_into().map_err(|_| Error::Broken("an id of a pending decision"))?;
            match &kept {
                Kept::Waiting { question, .. } => {
                    index.questions.extend(question.as_ref().map(|_| id));
                    index.waiting.insert((since, bandit, id));
                }
                Kept::Answered { .. } => drop(index.answered.insert((since, bandit, id))),
            }
        }
        Ok(index)
    }

    /// One transaction. The table exists after it.
    fn write(&self, durability: Durability, added: &[(Vec<u8>, Key)], removed: &[Key]) -> Result<(), Error> {
        let write = || -> Result<(), redb::Error> {
            let mut transaction = self.database.begin_write()?;
            transaction.set_durability(durability)?;
            let mut table = transaction.open_table(TABLE)?;
            for (_, bandit, id) in removed {
                table.remove((bandit.as_str(), &id[..]))?;
            }
            for (value, (_, bandit, id)) in added {
                table.insert((bandit.as_str(), &id[..]), value.as_slice())?;
            }
            drop(table);
            Ok(transaction.commit()?)
        };
        write().map_err(|e| Error::database(&self.path, e))
    }

    fn seal<R: CryptoRng>(&self, key: &Key, kept: &Kept, rng: &mut R) -> Result<Vec<u8>, Error> {
        let (time, bandit, id) = key;
        let mut nonce = [0; NONCE_BYTES];
        rng.fill_bytes(&mut nonce);
        let broken = |_| Error::Broken("a pending decision that cannot be written");
        let message = Zeroizing::new(postcard::to_stdvec(kept).map_err(broken)?);
        let about = about(*time, bandit, id);
        let sealed = self.cipher.encrypt((&nonce).into(), Payload { msg: &message, aad: &about });
        let sealed = sealed.map_err(|_| Error::Broken("a pending decision that is too long"))?;
        Ok([&time.to_le_bytes()[..], &nonce, &sealed].concat())
    }

    fn unseal(&self, bandit: &str, id: &[u8], value: &[u8]) -> Result<(u64, Kept), Error> {
        let bad = || Error::Unsealable { path: self.path.clone() };
        let (time, value) = value.split_first_chunk::<TIME_BYTES>().ok_or_else(bad)?;
        let (nonce, sealed) = value.split_first_chunk::<NONCE_BYTES>().ok_or_else(bad)?;
        let time = u64::from_le_bytes(*time);
        let about = about(time, bandit, id);
        let message = self.cipher.decrypt(nonce.into(), Payload { msg: sealed, aad: &about });
        let message = Zeroizing::new(message.map_err(|_| bad())?);
        Ok((time, postcard::from_bytes(&message).map_err(|_| bad())?))
    }
}

impl Index {
    fn remove(&mut self, key: &Key) {
        if self.waiting.remove(key) {
            self.questions.remove(&key.2);
        } else {
            self.answered.remove(key);
        }
    }
}

/// What is authenticated with a value: time, id of the decision and name of the bandit, which may have any
/// length.
fn about(time: u64, bandit: &str, id: &[u8]) -> Vec<u8> {
    [&time.to_le_bytes()[..], id, bandit.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{QuestionId, Shape};
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;
    use std::sync::OnceLock;

    const BANDIT: &str = "b";
    const BOUNDS: Bounds = Bounds { most: 4, age: Duration::from_secs(100) };

    fn rng() -> ChaCha20Rng {
        ChaCha20Rng::seed_from_u64(1)
    }

    fn device() -> &'static Device {
        static DEVICE: OnceLock<Device> = OnceLock::new();
        DEVICE.get_or_init(|| {
            let request = keygen::Request { shape: Shape::for_problem(2, 2), toy: true, created: 0 };
            let (mut public, mut secret) = (Vec::new(), Vec::new());
            keygen::generate(request, &mut public, &mut secret, &mut rng(), |_, _| ()).unwrap();
            Device::read(&secret[..]).unwrap()
        })
    }

    fn open(folder: &Path, bounds: Bounds) -> Pending {
        Pending::open(folder, device(), bounds).unwrap()
    }

    fn waiting(question: bool) -> Kept {
        let id = QuestionId { feedbacks: 1, model_feedbacks: 0, code: [0; 16] };
        let question = question.then(|| TraceQuestion { id, frame: vec![1; 9] });
        Kept::Waiting { features: vec![0.125, 1.0 / 3.0], question }
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
            let (receipt, now) = ((0.5, number as u64), since + number as u64);
            pending.answered(BANDIT, (since, id(number)), receipt, now, &mut rng()).unwrap();
        }
        assert!(lock(&pending.index).waiting.is_empty());
        pending.sync().unwrap();
        drop(pending);
        let pending = open(folder.path(), BOUNDS);
        let (index, find) = (lock(&pending.index).answered.len(), |at| pending.find(BANDIT, id(at)).unwrap());
        assert_eq!(index, MOST_RECEIPTS);
        assert!(find(0).is_none() && find(1).is_none());
        let last = (count - 1) as u64;
        assert!(find(count - 1) == Some((1000 + last, Kept::Answered { reward: 0.5, feedbacks: last })));
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
            matches!(kept, Kept::Waiting { question: Some(_), .. })
        };
        assert_eq!((0..70).filter(|number| asked(*number)).count(), MOST_QUESTIONS);
        pending.answered(BANDIT, (1000, id(0)), (0.5, 1), 1001, &mut rng()).unwrap();
        pending.keep(BANDIT, decisions(70..72), 1002, &mut rng()).unwrap();
        assert!(asked(70) && !asked(71));
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
        let good = pending.seal(&key(0), &waiting(false), &mut rng()).unwrap();
        let put = |value: Vec<u8>, number| {
            pending.write(Durability::Immediate, &[(value, key(number))], &[]).unwrap();
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
}
