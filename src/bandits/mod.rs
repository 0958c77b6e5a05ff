//! The bandits by id, and their answers. This folder knows no HTTP.

mod clear;
mod encrypted;

use crate::clock::Clock;
use crate::error::{Error, Kind};
use crate::jobs::Updates;
use crate::store::{self, Store};
pub(crate) use clear::AskedTerms;
use clear::ClearBandit;
pub use encrypted::{Audited, Audits};
pub(crate) use encrypted::{EncryptedServed, Sender, Stages};
use helba::{DeepEngine, Engine};
use host::{lock, os_rng};
use policies::PolicyConfig;
use protocol::BanditConfig;
use rand::Rng;
use serde::Serialize;
use serde_json::{Map, Value};
use service::Content;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use wire::{Created, Manifest, PolicyCreated, PublicBundle, ScoreKeys};

/// A loaded bandit. Methods may wait for the disk, except [`Self::kind`], [`Self::encrypted`] and those that
/// return limits.
#[derive(Clone)]
pub(crate) enum Bandit {
    Encrypted(Arc<EncryptedServed>),
    Clear(Arc<ClearBandit>),
}

impl Bandit {
    /// The kind of the bandit, which decides the token that requests need.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Bandit::Encrypted(_) => Kind::Encrypted,
            Bandit::Clear(_) => Kind::Clear,
        }
    }

    /// The bandit, which requests know as `id`, if it is an encrypted one.
    ///
    /// # Errors
    /// [`Error::NotEncrypted`].
    pub(crate) fn encrypted(self, id: &str) -> Result<Arc<EncryptedServed>, Error> {
        match self {
            Bandit::Encrypted(bandit) => Ok(bandit),
            Bandit::Clear(_) => Err(Error::NotEncrypted { id: id.to_string() }),
        }
    }

    /// The answer to its creation request. `None` if it was deleted.
    pub(crate) fn created(&self) -> Option<Listed> {
        match self {
            Bandit::Encrypted(bandit) => Some(bandit.created()),
            Bandit::Clear(bandit) => bandit.created(),
        }
    }

    /// Its public state.
    ///
    /// # Errors
    /// [`Error::UnknownBandit`] after it was deleted.
    pub(crate) fn view(&self) -> Result<Reply, Error> {
        match self {
            Bandit::Encrypted(bandit) => bandit.view(),
            Bandit::Clear(bandit) => bandit.view(),
        }
    }

    /// The longest body of a decision request.
    pub(crate) fn decision_body(&self) -> BodyLimit {
        match self {
            Bandit::Encrypted(bandit) => bandit.decision_body(),
            Bandit::Clear(bandit) => bandit.decision_body(),
        }
    }

    /// The longest body of a feedback.
    ///
    /// # Errors
    /// [`Error::TakesBatches`].
    pub(crate) fn feedback_body(&self) -> Result<BodyLimit, Error> {
        match self {
            Bandit::Encrypted(bandit) => Ok(bandit.feedback_body()),
            Bandit::Clear(bandit) => bandit.feedback_body(),
        }
    }

    fn delete(&self) -> Result<(), Error> {
        match self {
            Bandit::Encrypted(bandit) => bandit.delete(),
            Bandit::Clear(bandit) => bandit.delete(),
        }
    }
}

/// The longest body that a request may have, and its media type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimit {
    pub(crate) bytes: usize,
    pub(crate) content: Content,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Reply {
    Json(Vec<u8>),
    Binary(Vec<u8>),
}

impl Reply {
    pub(crate) fn json(value: &impl Serialize) -> Result<Self, Error> {
        let bytes = serde_json::to_vec(value);
        bytes.map(Reply::Json).map_err(|_| Error::Broken("an answer that cannot be written"))
    }
}

/// A bandit as it was created.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Listed {
    Encrypted(Box<Created>),
    Clear(PolicyCreated),
}

/// Audits the encrypted bandits of the state `folder`, which no server uses meanwhile, or the one with the id
/// `only`: whether snapshot and log of each agree. Nothing is changed.
///
/// # Errors
/// [`Error::StateInUse`]; [`Error::UnknownBandit`] if there is no bandit `only`; those of the disk. Those of
/// a bandit are its result.
pub fn audit(bundle: PublicBundle, folder: &Path, only: Option<&str>) -> Result<Audits, Error> {
    let _alone = store::lock(folder)?;
    let (_, encrypted, _) = engines(bundle)?;
    encrypted::audits(&folder.join("encrypted"), &encrypted, only)
}

/// The engines of a bundle.
fn engines(bundle: PublicBundle) -> Result<(DeepEngine, Engine, Manifest), Error> {
    let PublicBundle { manifest, params, public_key, key_id, keys, scores } = bundle;
    let engine = DeepEngine::new(params, public_key, key_id, manifest.shape, keys)?;
    let ScoreKeys { ring, params, public_key, key_id, keys, switch } = scores;
    let encrypted = Engine::new(engine.clone(), ring, params, public_key, key_id, keys, switch)?;
    Ok((engine, encrypted, manifest))
}

/// The keys that encrypted bandits run on.
pub(crate) struct Keys {
    pub(crate) engine: DeepEngine,
    /// The parts that all bandits share.
    encrypted: encrypted::Shared,
    pub(crate) manifest: Manifest,
}

/// A stored bandit.
#[derive(Clone)]
enum Entry {
    Loaded(Bandit),
    /// An encrypted bandit whose keys are not loaded. Its stored state stays as it is.
    KeysMissing,
}

impl Entry {
    fn kind(&self) -> Kind {
        match self {
            Entry::Loaded(bandit) => bandit.kind(),
            Entry::KeysMissing => Kind::Encrypted,
        }
    }
}

/// Bounds on the bandits.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    /// The most bandits.
    pub(crate) most: usize,
    /// The seconds after which decisions of a clear policy expire if its creation names none.
    pub(crate) wait: u64,
    /// The time by which they expire.
    pub(crate) clock: Clock,
}

/// All bandits.
pub(crate) struct Bandits {
    /// `None` if only clear policies are served.
    keys: Option<Arc<Keys>>,
    store: Arc<Store>,
    room: Room,
    entries: RwLock<BTreeMap<String, Entry>>,
    /// Locked while a bandit is created, so that the limit holds.
    creating: Mutex<()>,
}

impl Bandits {
    /// Loads the bandits in `folder` and queues the batch updates that were interrupted. Without keys,
    /// encrypted bandits are not loaded. If `restored`, the folder comes from a backup, and clear policies
    /// with a privacy guarantee start again without their data. With `keep_log` the whole logs of
    /// encrypted bandits stay.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Those of [`Store::open`]; [`Error::CorruptState`], [`Error::Log`].
    pub(crate) fn open(
        bundle: Option<PublicBundle>,
        folder: &Path,
        room: Room,
        stages: Stages,
        keep_log: bool,
        restored: bool,
    ) -> Result<Self, Error> {
        let root = folder.join("encrypted");
        let keys = match bundle {
            Some(bundle) => {
                let (engine, encrypted, manifest) = engines(bundle)?;
                let (engine_of_all, root, updates) = (Arc::new(encrypted), root.clone(), Updates::new());
                let encrypted = encrypted::Shared { engine: engine_of_all, root, updates, stages, keep_log };
                Some(Arc::new(Keys { engine, encrypted, manifest }))
            }
            None => None,
        };
        let (store, stored) = Store::open(folder, keys.as_ref().map(|keys| &keys.engine))?;
        let store = Arc::new(store);
        let mut entries = BTreeMap::new();
        match keys.as_ref().map(|keys| &keys.encrypted) {
            Some(shared) => {
                for (id, bandit) in encrypted::load(shared, restored)? {
                    bandit.update_if_due();
                    entries.insert(id, Entry::Loaded(Bandit::Encrypted(bandit)));
                }
            }
            None => {
                let ids = encrypted::without_keys(&root)?;
                entries.extend(ids.into_iter().map(|id| (id, Entry::KeysMissing)));
            }
        }
        let ids = stored.iter().map(|row| row.id.clone()).collect::<Vec<_>>();
        for (id, bandit) in ids.into_iter().zip(clear::load(&stored, &store, &room.clock, restored)?) {
            entries.insert(id, Entry::Loaded(Bandit::Clear(Arc::new(bandit))));
        }
        let (entries, creating) = (RwLock::new(entries), Mutex::new(()));
        Ok(Bandits { keys, store, room, entries, creating })
    }

    /// The keys of encrypted bandits.
    ///
    /// # Errors
    /// [`Error::NoKeys`].
    pub(crate) fn keys(&self) -> Result<&Arc<Keys>, Error> {
        self.keys.as_ref().ok_or(Error::NoKeys)
    }

    /// The number of bandits, and of those whose keys are missing.
    pub(crate) fn count(&self) -> (usize, usize) {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let missing = entries.values().filter(|entry| matches!(entry, Entry::KeysMissing)).count();
        (entries.len(), missing)
    }

    /// The loaded bandits by id.
    pub(crate) fn loaded(&self) -> Vec<(String, Bandit)> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let loaded = |(id, entry): (&String, &Entry)| match entry {
            Entry::Loaded(bandit) => Some((id.clone(), bandit.clone())),
            Entry::KeysMissing => None,
        };
        entries.iter().filter_map(loaded).collect()
    }

    /// The bandit with this id.
    ///
    /// # Errors
    /// [`Error::UnknownBandit`], [`Error::NoKeys`].
    pub(crate) fn find(&self, id: &str) -> Result<Bandit, Error> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        match entries.get(id) {
            Some(Entry::Loaded(bandit)) => Ok(bandit.clone()),
            Some(Entry::KeysMissing) => Err(Error::NoKeys),
            None => Err(Error::UnknownBandit { id: id.chars().take(64).collect() }),
        }
    }

    /// Creates an encrypted bandit, which is durable when this returns.
    ///
    /// # Errors
    /// [`Error::NoKeys`], [`Error::TooManyBandits`], those of the configuration and the disk.
    pub(crate) fn create_encrypted(&self, config: BanditConfig) -> Result<(String, Listed), Error> {
        let shared = self.keys()?.encrypted.clone();
        self.insert((Kind::Encrypted, false), |id| {
            Ok(Bandit::Encrypted(Arc::new(EncryptedServed::create(id, config, shared)?)))
        })
    }

    /// Reads the configuration of a clear policy, and its terms for late feedback. If everybody may create
    /// them (`open`), they are at most half of all bandits, so that bearers of the token can always create
    /// encrypted ones.
    ///
    /// # Errors
    /// [`Error::BadParameter`]; [`Error::TooManyBandits`] before noise is calibrated, which takes seconds.
    pub(crate) fn policy(
        &self,
        mut request: Map<String, Value>,
        open: bool,
    ) -> Result<(PolicyConfig, AskedTerms), Error> {
        let asked = AskedTerms::take(&mut request)?;
        let config = PolicyConfig::from_request(request)?;
        if config.profile().calibrates {
            self.check_room(Kind::Clear, open)?;
        }
        Ok((config, asked))
    }

    /// Creates a bandit with a clear policy, which is durable when this returns. `open` as for
    /// [`Self::policy`].
    ///
    /// # Errors
    /// [`Error::TooManyBandits`], those of the policy and the disk.
    pub(crate) fn create_clear(
        &self,
        config: PolicyConfig,
        asked: AskedTerms,
        open: bool,
    ) -> Result<(String, Listed), Error> {
        let new = clear::New::make(config, asked, self.room.wait)?;
        let (store, clock) = (self.store.clone(), self.room.clock.clone());
        self.insert((Kind::Clear, open), |id| {
            Ok(Bandit::Clear(Arc::new(new.store(id.to_string(), store, clock)?)))
        })
    }

    /// Adds the bandit that `make` creates and stores under a fresh id, if there is room for one more.
    fn insert(
        &self,
        (kind, open): (Kind, bool),
        make: impl FnOnce(&str) -> Result<Bandit, Error>,
    ) -> Result<(String, Listed), Error> {
        let _alone = lock(&self.creating);
        self.check_room(kind, open)?;
        let mut id = [0; 16];
        os_rng()?.fill_bytes(&mut id);
        let id = ckks::Hex(&id).to_string();
        let bandit = make(&id)?;
        let created = bandit.created().ok_or(Error::Broken("a new bandit that is deleted"))?;
        tracing::info!(bandit = id, "created");
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        entries.insert(id.clone(), Entry::Loaded(bandit));
        Ok((id, created))
    }

    /// Checks that there is room for one more bandit.
    fn check_room(&self, kind: Kind, open: bool) -> Result<(), Error> {
        let Room { most, .. } = self.room;
        let half = kind == Kind::Clear && open && self.keys.is_some();
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let clear = entries.values().filter(|entry| entry.kind() == Kind::Clear).count();
        if entries.len() >= most || (half && clear >= most.div_ceil(2)) {
            return Err(Error::TooManyBandits { limit: most });
        }
        Ok(())
    }

    /// Deletes a bandit and its stored state.
    ///
    /// # Errors
    /// [`Error::UnknownBandit`], [`Error::NoKeys`], those of the disk.
    pub(crate) fn delete(&self, id: &str) -> Result<(), Error> {
        self.find(id)?.delete()?;
        self.entries.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        tracing::info!(bandit = id, "deleted");
        Ok(())
    }
}
