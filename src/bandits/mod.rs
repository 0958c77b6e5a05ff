//! The bandits that are kept, by id, and what each answers. No HTTP.

mod clear;
mod encrypted;

use crate::error::{Error, Kind};
use crate::jobs::{Updates, Work};
use crate::store::{Store, Stored, Table};
use encrypted::EncryptedBandit;
use helba::Engine;
use host::{lock, os_rng};
use policies::PolicyConfig;
use protocol::{BanditConfig, DecisionId};
use rand::Rng;
use serde::Serialize;
use serde_json::{Map, Value};
use service::{Body, Content};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use wire::{Created, Manifest, PolicyCreated, PublicBundle};

/// What a request asks of a bandit, of either kind. Bodies and replies are bytes; every method but `kind` and
/// the limits may wait for the disk.
pub(crate) trait Served: Send + Sync {
    /// Which token may change it.
    fn kind(&self) -> Kind;

    /// The answer to its creation; `None` if it was deleted.
    fn created(&self) -> Option<Listed>;

    /// Its state as far as anybody may read it.
    fn view(&self) -> Result<Reply, Error>;

    /// The longest body of a decision request.
    fn decision_body(&self) -> BodyLimit;

    /// What a decision computes.
    fn decision_work(&self) -> Work;

    /// Decides; the decision is durable.
    fn decide(self: Arc<Self>, body: Body) -> Result<Reply, Error>;

    /// The longest body of a feedback.
    fn feedback_body(&self) -> Result<BodyLimit, Error>;

    /// Counts a feedback; the receipt is durable.
    fn feedback(self: Arc<Self>, decision: DecisionId, body: Body) -> Result<Reply, Error>;

    /// The longest body of an intermediary's batch.
    fn batch_body(&self) -> Result<BodyLimit, Error>;

    /// Counts an intermediary's batch; the receipt is durable.
    fn receive(self: Arc<Self>, body: Body) -> Result<Reply, Error>;

    /// Removes it from the store, for good.
    fn delete(&self) -> Result<(), Error>;
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
    Encrypted(Created),
    Clear(PolicyCreated),
}

/// What encrypted bandits run on.
pub(crate) struct Keys {
    pub(crate) engine: Engine,
    pub(crate) manifest: Manifest,
}

/// A bandit that is kept.
#[derive(Clone)]
enum Entry {
    Loaded(Arc<dyn Served>),
    /// The key bundle that this encrypted bandit needs is not loaded; it stays stored as it is.
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

/// Bounds on the bandits that are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Bandits in all.
    pub(crate) most: usize,
    /// Whether anybody can create clear bandits. They then take half of the room at most, so that bearers of
    /// the token can always create encrypted bandits.
    pub(crate) clear_is_open: bool,
    /// For this time an open decision is kept.
    pub(crate) hold: Duration,
}

/// Every bandit that is kept.
pub(crate) struct Bandits {
    /// `None` where only clear policies are served.
    keys: Option<Arc<Keys>>,
    store: Arc<Store>,
    updates: Updates,
    room: Room,
    entries: RwLock<BTreeMap<String, Entry>>,
    /// Held while a bandit is made, so that none comes beyond the limit.
    creating: Mutex<()>,
}

impl Bandits {
    /// Takes the bandits in `folder` into use and queues the batch updates that were interrupted. Without
    /// keys the encrypted ones stay as they are. `restored` says that the folder comes from a backup: what
    /// clear bandits with a privacy promise hold of single answers is dropped.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Those of [`Store::open`] and [`Store::load`].
    pub(crate) fn open(
        bundle: Option<PublicBundle>,
        folder: &Path,
        room: Room,
        restored: bool,
    ) -> Result<Self, Error> {
        let keys = match bundle {
            Some(bundle) => {
                let PublicBundle { manifest, params, public_key, key_id, keys } = bundle;
                let engine = Engine::new(params, public_key, key_id, manifest.shape, keys)?;
                Some(Arc::new(Keys { engine, manifest }))
            }
            None => None,
        };
        let (store, stored) = Store::open(folder, keys.as_ref().map(|keys| &keys.engine))?;
        let (store, updates) = (Arc::new(store), Updates::new());
        let (encrypted, clear): (Vec<Stored>, Vec<Stored>) =
            stored.into_iter().partition(|row| row.table == Table::Encrypted);
        let mut entries = BTreeMap::new();
        let mut loaded = Vec::new();
        for row in encrypted {
            let entry = match &keys {
                Some(keys) => {
                    let (keys, store) = (keys.clone(), store.clone());
                    let bandit = EncryptedBandit::load(&row, keys, store, updates.clone(), room.hold)?;
                    let bandit = Arc::new(bandit);
                    loaded.push(bandit.clone());
                    Entry::Loaded(bandit)
                }
                None => Entry::KeysMissing,
            };
            entries.insert(row.id, entry);
        }
        // Which files the bandits without keys refer to is not known.
        if !entries.values().any(|entry| matches!(entry, Entry::KeysMissing)) {
            store.remove_unnamed()?;
        }
        let ids = clear.iter().map(|row| row.id.clone()).collect::<Vec<_>>();
        for (id, bandit) in ids.into_iter().zip(clear::load(&clear, &store, room.hold, restored)?) {
            entries.insert(id, Entry::Loaded(Arc::new(bandit)));
        }
        loaded.into_iter().for_each(EncryptedBandit::update_if_due);
        let (entries, creating) = (RwLock::new(entries), Mutex::new(()));
        Ok(Bandits { keys, store, updates, room, entries, creating })
    }

    /// The keys of encrypted bandits.
    ///
    /// # Errors
    /// [`Error::NoKeys`].
    pub(crate) fn keys(&self) -> Result<&Arc<Keys>, Error> {
        self.keys.as_ref().ok_or(Error::NoKeys)
    }

    /// Bandits kept, and those among them whose keys are missing.
    pub(crate) fn count(&self) -> (usize, usize) {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let missing = entries.values().filter(|entry| matches!(entry, Entry::KeysMissing)).count();
        (entries.len(), missing)
    }

    /// The bandits in use.
    pub(crate) fn loaded(&self) -> Vec<Arc<dyn Served>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let loaded = |entry: &Entry| match entry {
            Entry::Loaded(bandit) => Some(bandit.clone()),
            Entry::KeysMissing => None,
        };
        entries.values().filter_map(loaded).collect()
    }

    /// The bandit with that id.
    ///
    /// # Errors
    /// [`Error::UnknownBandit`], [`Error::NoKeys`].
    pub(crate) fn find(&self, id: &str) -> Result<Arc<dyn Served>, Error> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        match entries.get(id) {
            Some(Entry::Loaded(bandit)) => Ok(bandit.clone()),
            Some(Entry::KeysMissing) => Err(Error::NoKeys),
            None => Err(Error::UnknownBandit { id: id.chars().take(64).collect() }),
        }
    }

    /// Makes an encrypted bandit; it is durable.
    ///
    /// # Errors
    /// [`Error::NoKeys`], [`Error::TooManyBandits`], those of the configuration and the disk.
    pub(crate) fn create_encrypted(&self, config: BanditConfig) -> Result<(String, Listed), Error> {
        let keys = self.keys()?;
        self.insert(Kind::Encrypted, |id| {
            let (keys, store, updates) = (keys.clone(), self.store.clone(), self.updates.clone());
            Ok(Arc::new(EncryptedBandit::create(id, config, keys, store, updates, self.room.hold)?))
        })
    }

    /// Reads what a clear bandit is to be made of.
    ///
    /// # Errors
    /// [`Error::BadParameter`]; [`Error::TooManyBandits`] before seconds are spent on noise.
    pub(crate) fn policy(&self, request: Map<String, Value>) -> Result<PolicyConfig, Error> {
        let config = PolicyConfig::from_request(request)?;
        if config.profile().calibrates {
            self.check_room(Kind::Clear)?;
        }
        Ok(config)
    }

    /// Makes a clear bandit; it is durable.
    ///
    /// # Errors
    /// [`Error::TooManyBandits`], those of the policy and the disk.
    pub(crate) fn create_clear(&self, config: PolicyConfig) -> Result<(String, Listed), Error> {
        let new = clear::New::make(config)?;
        self.insert(Kind::Clear, |id| Ok(Arc::new(new.store(id, self.store.clone(), self.room.hold)?)))
    }

    /// Keeps the bandit that `make` makes and stores, under a fresh id, if there is room for one more.
    fn insert(
        &self,
        kind: Kind,
        make: impl FnOnce(String) -> Result<Arc<dyn Served>, Error>,
    ) -> Result<(String, Listed), Error> {
        let _alone = lock(&self.creating);
        self.check_room(kind)?;
        let mut id = [0; 16];
        os_rng()?.fill_bytes(&mut id);
        let id: String = id.iter().map(|b| format!("{b:02x}")).collect();
        let bandit = make(id.clone())?;
        let created = bandit.created().ok_or(Error::Broken("a new bandit that is deleted"))?;
        tracing::info!(bandit = id, "created");
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        entries.insert(id.clone(), Entry::Loaded(bandit));
        Ok((id, created))
    }

    /// Checks that one more bandit may be kept.
    fn check_room(&self, kind: Kind) -> Result<(), Error> {
        let Room { most, clear_is_open, .. } = self.room;
        let half = kind == Kind::Clear && clear_is_open && self.keys.is_some();
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let clear = entries.values().filter(|entry| entry.kind() == Kind::Clear).count();
        if entries.len() >= most || (half && clear >= most.div_ceil(2)) {
            return Err(Error::TooManyBandits { limit: most });
        }
        Ok(())
    }

    /// Forgets a bandit and what is stored of it, for good.
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
