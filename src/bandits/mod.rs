//! The bandits by id, and their answers. This folder knows no HTTP.

mod clear;
mod creations;
mod encrypted;
mod measured;
mod paper;

use crate::clock::Clock;
use crate::committee::{self, CommitteeServed};
use crate::error::{Error, Kind};
use crate::jobs::Updates;
use crate::store::{self, Named, NamedEdit, Store};
pub(crate) use clear::AskedTerms;
use clear::ClearBandit;
use creations::Creations;
pub(crate) use creations::{Answered, Repeatable};
use encrypted::EraseAmong;
pub(crate) use encrypted::{Asker, EncryptedServed, Sender, Stages};
pub use encrypted::{Audited, Audits};
use helba::{DeepEngine, Engine};
use host::{lock, os_rng};
pub(crate) use measured::{Awaited, Measured};
pub(crate) use paper::PaperServed;
use paper::PaperShared;
use policies::PolicyConfig;
use protocol::paper::LinearConfig;
use protocol::{BanditConfig, Erasure};
use rand::Rng;
use serde::Serialize;
use serde_json::{Map, Value};
use service::Content;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use wire::{
    CommitteeBandit, Created, Labelled, Labels, Manifest, PaperCreated, PaperKeys, PaperManifest,
    PolicyCreated, PublicBundle, ScoreKeys,
};

/// A loaded bandit. Methods may wait for the disk, except [`Self::kind`], [`Self::encrypted`] and those that
/// return limits.
#[derive(Clone)]
pub(crate) enum Bandit {
    Encrypted(Arc<EncryptedServed>),
    Paper(Arc<PaperServed>),
    Committee(Arc<CommitteeServed>),
    Clear(Arc<ClearBandit>),
}

impl Bandit {
    /// The kind of the bandit, which decides the token that requests need.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Bandit::Encrypted(_) | Bandit::Paper(_) => Kind::Encrypted,
            Bandit::Committee(_) => Kind::Committee,
            Bandit::Clear(_) => Kind::Clear,
        }
    }

    /// The bandit, which requests know as `id`, if it is an encrypted one.
    pub(crate) fn encrypted(self, id: &str) -> Result<Arc<EncryptedServed>, Error> {
        match self {
            Bandit::Encrypted(bandit) => Ok(bandit),
            Bandit::Paper(_) => Err(Error::OfPaper { id: id.to_string() }),
            Bandit::Committee(_) | Bandit::Clear(_) => Err(Error::NotEncrypted { id: id.to_string() }),
        }
    }

    /// The bandit, which requests know as `id`, if one party holds its keys, who asks for `what`.
    pub(crate) fn held(self, id: &str, what: &'static str) -> Result<Arc<EncryptedServed>, Error> {
        let of = match self {
            Bandit::Encrypted(bandit) => return Ok(bandit),
            Bandit::Paper(_) => "of `method: paper`",
            Bandit::Committee(_) => "of a committee",
            Bandit::Clear(_) => "one with a policy in the clear",
        };
        Err(Error::NotHeld { id: id.to_string(), of, what })
    }

    /// The answer to its creation request. `None` if it was deleted.
    pub(crate) fn created(&self) -> Option<Listed> {
        match self {
            Bandit::Encrypted(bandit) => Some(bandit.created()),
            Bandit::Paper(bandit) => Some(bandit.created()),
            Bandit::Committee(bandit) => Some(bandit.created()),
            Bandit::Clear(bandit) => bandit.created(),
        }
    }

    /// Its numbers. `None` if it was deleted.
    pub(crate) fn measured(&self) -> Result<Option<Measured>, Error> {
        match self {
            Bandit::Encrypted(bandit) => Ok(Some(bandit.measured())),
            Bandit::Paper(bandit) => Ok(Some(bandit.measured())),
            Bandit::Committee(bandit) => bandit.measured().map(Some),
            Bandit::Clear(bandit) => bandit.measured(),
        }
    }

    /// Its public state, with its labels.
    pub(crate) fn view(&self, labels: &Labels) -> Result<Reply, Error> {
        let labels = labels.clone();
        match self {
            Bandit::Encrypted(bandit) => Reply::json(&Labelled { labels, of: bandit.view()? }),
            Bandit::Paper(bandit) => Reply::json(&Labelled { labels, of: bandit.view() }),
            Bandit::Committee(bandit) => Reply::json(&Labelled { labels, of: bandit.view()? }),
            Bandit::Clear(bandit) => Reply::json(&Labelled { labels, of: bandit.view()? }),
        }
    }

    /// The longest body of a decision request.
    pub(crate) fn decision_body(&self) -> BodyLimit {
        match self {
            Bandit::Encrypted(bandit) => bandit.decision_body(),
            Bandit::Paper(bandit) => bandit.vectors_body(),
            Bandit::Committee(bandit) => bandit.decision_body(),
            Bandit::Clear(bandit) => bandit.decision_body(),
        }
    }

    /// The longest body of a feedback.
    pub(crate) fn feedback_body(&self) -> Result<BodyLimit, Error> {
        match self {
            Bandit::Encrypted(bandit) => Ok(bandit.feedback_body()),
            Bandit::Paper(bandit) => Ok(bandit.vectors_body()),
            Bandit::Committee(bandit) => Ok(bandit.feedback_body()),
            Bandit::Clear(bandit) => bandit.feedback_body(),
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
    Paper(Box<PaperCreated>),
    Committee(Box<CommitteeBandit>),
    Clear(Box<PolicyCreated>),
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
    let PublicBundle { manifest, params, public_key, key_id, keys, decisions, scores } = bundle;
    let engine = DeepEngine::new(params, public_key, key_id, manifest.shape, keys)?;
    let (by, exchanges) = (manifest.updates, manifest.exchanges);
    let engine = engine.with_decisions(decisions).made_for(by, exchanges, manifest.user_keys());
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
struct Entry {
    /// `None`: an encrypted bandit whose keys are not loaded. Its stored state stays as it is.
    bandit: Option<Bandit>,
    labels: Arc<Labels>,
}

impl Entry {
    fn kind(&self) -> Kind {
        self.bandit.as_ref().map_or(Kind::Encrypted, Bandit::kind)
    }
}

/// What a creation has beside its configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beside {
    pub(crate) labels: Labels,
    /// `None` if a repeated request creates another bandit.
    pub(crate) repeatable: Option<Repeatable>,
}

/// A bandit with its labels, in the order of ids.
pub(crate) struct Found {
    pub(crate) id: String,
    pub(crate) bandit: Bandit,
    pub(crate) labels: Arc<Labels>,
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
    /// `None` without keys of the paper's method.
    paper: Option<Arc<PaperShared>>,
    /// `None` if there is no committee.
    committee: Option<Arc<committee::Committees>>,
    store: Arc<Store>,
    room: Room,
    entries: RwLock<BTreeMap<String, Entry>>,
    creations: Mutex<Creations>,
    /// Locked while a bandit is created, labelled or deleted, so that the limit holds, and a repeated
    /// creation waits for the first one.
    changing: Mutex<()>,
}

impl Bandits {
    /// Loads the bandits in `folder` and queues the batch updates that were interrupted. Without keys,
    /// encrypted bandits are not loaded. If `restored`, the folder comes from a backup, and clear policies
    /// with a privacy guarantee start again without their data. With `keep_log` the whole logs of
    /// encrypted bandits stay.
    ///
    /// Must be called within a tokio runtime.
    pub(crate) fn open(
        (bundle, committee): (Option<PublicBundle>, Option<committee::Given>),
        paper: Option<(PaperKeys, Duration)>,
        folder: &Path,
        room: Room,
        stages: Stages,
        keep_log: bool,
        restored: bool,
    ) -> Result<Self, Error> {
        let root = folder.join("encrypted");
        let database = crate::store::database(folder);
        let left = encrypted::listed(&root)?.len();
        if left > 0 && !restored && !database.exists() {
            return Err(Error::NoDatabase { path: database, bandits: left });
        }
        let keys = match bundle {
            Some(bundle) => {
                let (engine, encrypted, manifest) = engines(bundle)?;
                let (engine_of_all, root, updates) = (Arc::new(encrypted), root.clone(), Updates::new());
                let encrypted = encrypted::Shared { engine: engine_of_all, root, updates, stages, keep_log };
                Some(Arc::new(Keys { engine, encrypted, manifest }))
            }
            None => None,
        };
        let paper = paper.map(|(keys, patience)| PaperShared::new(keys, folder, patience)).transpose()?;
        let paper = paper.map(Arc::new);
        let names = keys.as_ref().map(|keys| (keys.engine.key_id(), keys.engine.params().fingerprint()));
        let of_paper = paper.as_ref().map(|shared| shared.engine());
        let names = names.or(of_paper.map(|engine| (engine.key_id(), engine.params().fingerprint())));
        let (store, stored) = Store::open(folder, names)?;
        let store = Arc::new(store);
        let mut bandits = BTreeMap::new();
        match keys.as_ref().map(|keys| &keys.encrypted) {
            Some(shared) => {
                for (id, bandit) in encrypted::load(shared, restored)? {
                    bandit.update_if_due();
                    bandit.offer_task();
                    bandits.insert(id, Some(Bandit::Encrypted(bandit)));
                }
            }
            None => {
                let ids = encrypted::without_keys(&root)?;
                bandits.extend(ids.into_iter().map(|id| (id, None)));
            }
        }
        for id in paper::stored(folder)? {
            let load = |shared: &Arc<PaperShared>| PaperServed::load(&id, shared.clone());
            let bandit = paper.as_ref().map(load).transpose()?;
            bandits.insert(id, bandit.map(|bandit| Bandit::Paper(Arc::new(bandit))));
        }
        let ids = stored.iter().map(|row| row.id.clone()).collect::<Vec<_>>();
        for (id, bandit) in ids.into_iter().zip(clear::load(&stored, &store, &room.clock, restored)?) {
            bandits.insert(id, Some(Bandit::Clear(Arc::new(bandit))));
        }
        let committee = committee.map(|given| committee::Committees::open(given, store.clone()));
        let committee = committee.transpose()?;
        for bandit in committee.iter().flat_map(|committees| committees.bandits()) {
            bandits.insert(bandit.path_id(), Some(Bandit::Committee(Arc::new(bandit))));
        }
        let (mut labels, creations) = Self::named(&store, |id| bandits.contains_key(id))?;
        let entry = |(id, bandit): (String, _)| {
            let labels = Arc::new(labels.remove(&id).unwrap_or_default());
            (id, Entry { bandit, labels })
        };
        let entries = RwLock::new(bandits.into_iter().map(entry).collect());
        let (creations, changing) = (Mutex::new(creations), Mutex::new(()));
        Ok(Bandits { keys, paper, committee, store, room, entries, creations, changing })
    }

    /// The stored labels by bandit, and the creations that are remembered. What an interrupted creation or
    /// deletion left is removed.
    fn named(
        store: &Store,
        exists: impl Fn(&str) -> bool,
    ) -> Result<(BTreeMap<String, Labels>, Creations), Error> {
        let (creations, mut left) = Creations::read(&store.read(Named::Creations)?, &exists)
            .map_err(|key| store.corrupt(&key, "the answer to its creation cannot be read".into()))?;
        let mut labels = BTreeMap::new();
        for (id, value) in store.read(Named::Labels)? {
            if exists(&id) {
                let (name, tags) = postcard::from_bytes(&value)
                    .map_err(|_| store.corrupt(&id, "its name and tags cannot be read".into()))?;
                labels.insert(id, Labels { name, tags });
            } else {
                left.push(NamedEdit { table: Named::Labels, key: id, value: None });
            }
        }
        if !left.is_empty() {
            store.commit_with(&[], &left)?;
        }
        Ok((labels, creations))
    }

    /// The keys of encrypted bandits.
    pub(crate) fn keys(&self) -> Result<&Arc<Keys>, Error> {
        self.keys.as_ref().ok_or(if self.paper.is_some() { Error::KeysOfPaper } else { Error::NoKeys })
    }

    /// The manifest of the keys of the paper's method.
    pub(crate) fn paper_manifest(&self) -> Result<&PaperManifest, Error> {
        self.paper.as_ref().map(|shared| &shared.manifest).ok_or(Error::NoPaperKeys)
    }

    /// The committee.
    pub(crate) fn committee(&self) -> Result<Arc<committee::Committees>, Error> {
        Ok(self.committee.clone().ok_or(committee::CommitteeError::None)?)
    }

    /// Whether there is a committee, and no keys of encrypted bandits beside.
    pub(crate) fn has_committee_alone(&self) -> bool {
        self.keys.is_none() && self.committee.is_some()
    }

    /// Creates a bandit of the committee, which is durable when this returns.
    pub(crate) fn create_of_committee(
        &self,
        asked: committee::Asked,
        beside: &Beside,
    ) -> Result<Answered, Error> {
        let committee = self.committee()?;
        self.insert((Kind::Committee, false), beside, |id, answered| {
            let bandit = committee.create(&asked, id)?;
            self.store.commit_with(&[], &answered(bandit.created())?)?;
            Ok(Bandit::Committee(Arc::new(bandit)))
        })
    }

    /// The number of bandits, and of those whose keys are missing.
    pub(crate) fn count(&self) -> (usize, usize) {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let missing = entries.values().filter(|entry| entry.bandit.is_none()).count();
        (entries.len(), missing)
    }

    /// The loaded bandits, by their ids.
    pub(crate) fn loaded(&self) -> Vec<Found> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let loaded = |(id, entry): (&String, &Entry)| {
            let bandit = entry.bandit.clone()?;
            Some(Found { id: id.clone(), bandit, labels: entry.labels.clone() })
        };
        entries.iter().filter_map(loaded).collect()
    }

    /// The labels of a bandit, and none of one that does not exist.
    pub(crate) fn labels(&self, id: &str) -> Arc<Labels> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.get(id).map(|entry| entry.labels.clone()).unwrap_or_default()
    }

    /// The bandit with this id.
    pub(crate) fn find(&self, id: &str) -> Result<Bandit, Error> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        match entries.get(id) {
            Some(entry) => entry.bandit.clone().ok_or(Error::NoKeys),
            None => Err(Error::UnknownBandit { id: id.chars().take(64).collect() }),
        }
    }

    /// Creates an encrypted bandit, which is durable when this returns.
    pub(crate) fn create_encrypted(&self, config: BanditConfig, beside: &Beside) -> Result<Answered, Error> {
        let shared = self.keys()?.encrypted.clone();
        self.insert_stored(beside, |id, before| {
            let created = EncryptedServed::create(id, config, shared, before);
            created.map(|bandit| Bandit::Encrypted(Arc::new(bandit)))
        })
    }

    /// Creates a copy of an encrypted bandit with this configuration, which is durable when this returns.
    ///
    /// Must be called within a tokio runtime.
    pub(crate) fn copy(
        &self,
        original: &EncryptedServed,
        config: BanditConfig,
        beside: &Beside,
    ) -> Result<Answered, Error> {
        self.insert_stored(beside, |id, before| {
            let copy = original.copied(id, config, before)?;
            copy.update_if_due();
            copy.offer_task();
            Ok(Bandit::Encrypted(copy))
        })
    }

    /// Calls `erase` with the encrypted bandits, of which no copy is made meanwhile.
    pub(crate) fn with_copies(&self, erase: &EraseAmong) -> Result<Erasure, Error> {
        let _alone = lock(&self.changing);
        let encrypted = |found: Found| found.bandit.encrypted(&found.id).ok();
        erase(&self.loaded().into_iter().filter_map(encrypted).collect::<Vec<_>>())
    }

    /// Creates a bandit of the paper's method, which is durable when this returns.
    pub(crate) fn create_paper(&self, config: LinearConfig, beside: &Beside) -> Result<Answered, Error> {
        let shared = self.paper.clone().ok_or(Error::NoPaperKeys)?;
        self.insert_stored(beside, |id, before| {
            PaperServed::create(id, config, shared, before).map(|bandit| Bandit::Paper(Arc::new(bandit)))
        })
    }

    /// Adds the encrypted bandit that `create` makes, which stores it in a file of its own after the function
    /// that it gets has stored what is beside it.
    fn insert_stored(
        &self,
        beside: &Beside,
        create: impl FnOnce(&str, &mut dyn FnMut(Listed) -> Result<(), Error>) -> Result<Bandit, Error>,
    ) -> Result<Answered, Error> {
        self.insert((Kind::Encrypted, false), beside, |id, answered| {
            let mut stored = Vec::new();
            // Before the bandit has its name: what is left if the creation is interrupted then has no bandit.
            let mut before = |created: Listed| {
                stored = answered(created)?;
                if stored.is_empty() { Ok(()) } else { self.store.commit_with(&[], &stored) }
            };
            create(id, &mut before).inspect_err(|_| {
                stored.iter_mut().for_each(|edit| edit.value = None);
                // What stays is removed at the next start.
                let _ = self.store.commit_with(&[], &stored);
            })
        })
    }

    /// The answer to a creation that was made before.
    pub(crate) fn repeated(&self, asked: &Repeatable) -> Result<Option<Answered>, Error> {
        lock(&self.creations).find(asked, self.room.clock.now())
    }

    /// Reads the configuration of a clear policy, and its terms for late feedback. If everybody may create
    /// them (`open`), they are at most half of all bandits, so that bearers of the token can always create
    /// encrypted ones.
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
    pub(crate) fn create_clear(
        &self,
        config: PolicyConfig,
        asked: AskedTerms,
        open: bool,
        beside: &Beside,
    ) -> Result<Answered, Error> {
        let new = clear::New::make(config, asked, self.room.wait)?;
        let (store, clock) = (self.store.clone(), self.room.clock.clone());
        self.insert((Kind::Clear, open), beside, |id, answered| {
            Ok(Bandit::Clear(Arc::new(new.store(id.to_string(), store, clock, answered)?)))
        })
    }

    /// Adds the bandit that `make` creates under a fresh id, if there is room for one more. `make` stores it
    /// together with what the function that it gets returns of the answer. A repeated creation adds nothing.
    fn insert(
        &self,
        (kind, open): (Kind, bool),
        beside: &Beside,
        make: impl FnOnce(&str, &dyn Fn(Listed) -> Result<Vec<NamedEdit>, Error>) -> Result<Bandit, Error>,
    ) -> Result<Answered, Error> {
        let _alone = lock(&self.changing);
        if let Some(answered) = beside.repeatable.iter().find_map(|asked| self.repeated(asked).transpose()) {
            return answered;
        }
        self.check_room(kind, open)?;
        let mut id = [0; 16];
        os_rng()?.fill_bytes(&mut id);
        let id = ckks::Hex(&id).to_string();
        let now = self.room.clock.now();
        let answer = |created: Listed| {
            let (Reply::Json(body) | Reply::Binary(body)) =
                Reply::json(&Labelled { labels: beside.labels.clone(), of: created })?;
            let body = String::from_utf8(body).map_err(|_| Error::Broken("JSON that is no text"))?;
            let answered = Answered { id: id.clone(), body };
            let creations = lock(&self.creations);
            let changes = beside.repeatable.map(|asked| creations.add(&asked, answered.clone(), now));
            Ok::<_, Error>((answered, changes))
        };
        let stored = |created: Listed| {
            let (_, changes) = answer(created)?;
            let mut stored = changes.map_or(Ok(Vec::new()), |changes| changes.stored())?;
            if beside.labels != Labels::default() {
                stored.push(labels_edit(&id, &beside.labels)?);
            }
            Ok(stored)
        };
        let bandit = make(&id, &stored)?;
        let created = bandit.created().ok_or(Error::Broken("a new bandit that is deleted"))?;
        let (answered, changes) = answer(created)?;
        changes.into_iter().for_each(|changes| lock(&self.creations).apply(changes));
        tracing::info!(bandit = id, "created");
        let entry = Entry { bandit: Some(bandit), labels: Arc::new(beside.labels.clone()) };
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(id, entry);
        Ok(answered)
    }

    /// Gives a bandit the labels that `change` makes of its own, durably, and returns them.
    pub(crate) fn relabel(
        &self,
        id: &str,
        change: impl FnOnce(&Labels) -> Result<Labels, Error>,
    ) -> Result<(Bandit, Arc<Labels>), Error> {
        let _alone = lock(&self.changing);
        let (bandit, before) = (self.find(id)?, self.labels(id));
        let labels = Arc::new(change(&before)?);
        labels.check().map_err(|why| Error::BadParameter { why })?;
        if labels != before {
            self.store.commit_with(&[], &[labels_edit(id, &labels)?])?;
            let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = entries.get_mut(id) {
                entry.labels = labels.clone();
            }
            tracing::info!(bandit = id, "labelled");
        }
        Ok((bandit, labels))
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
    pub(crate) fn delete(&self, id: &str) -> Result<(), Error> {
        let _alone = lock(&self.changing);
        let bandit = self.find(id)?;
        let changes = lock(&self.creations).delete(id);
        let mut named = changes.stored()?;
        if *self.labels(id) != Labels::default() {
            named.push(NamedEdit { table: Named::Labels, key: id.into(), value: None });
        }
        match bandit {
            Bandit::Clear(bandit) => bandit.delete(&named)?,
            Bandit::Committee(bandit) => {
                bandit.delete()?;
                self.store.commit_with(&[], &named)?;
            }
            Bandit::Paper(bandit) => {
                bandit.delete()?;
                self.store.commit_with(&[], &named)?;
            }
            Bandit::Encrypted(bandit) => {
                bandit.delete()?;
                // The bandit is gone. What stays is removed at the next start.
                if !named.is_empty()
                    && let Err(error) = self.store.commit_with(&[], &named)
                {
                    tracing::warn!(bandit = id, %error, "its name, tags and creation are not removed yet");
                }
            }
        }
        lock(&self.creations).apply(changes);
        self.entries.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        tracing::info!(bandit = id, "deleted");
        Ok(())
    }
}

/// The edit that stores the labels of a bandit.
fn labels_edit(id: &str, labels: &Labels) -> Result<NamedEdit, Error> {
    let value = postcard::to_stdvec(&(&labels.name, &labels.tags));
    let value = value.map_err(|_| Error::Broken("labels that cannot be serialised"))?;
    Ok(NamedEdit { table: Named::Labels, key: id.into(), value: Some(value) })
}
