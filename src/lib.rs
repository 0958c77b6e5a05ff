//! The server: ciphertexts in, ciphertexts out. It holds public and evaluation keys only, and cannot name a
//! secret one. Beside encrypted bandits it serves policies in the clear, each under the trust model that its
//! privacy statement names.
//!
//! For operators, through the program `helba-server`, and for whoever wants to run it inside another process:
//! [`app`] is its router. `access` says who may do what; one route group a file: `enroll` (keys, bandits),
//! `decide`, `update` (feedback), `refresh` (the batch updates in the background), `clear`
//! (policies in the clear); `policy` is the registry of those, `collect` the server's half of policies whose
//! users answer a shuffler or a secure sum; `store` keeps the state, `problem` turns errors into answers.
//! `listen` accepts connections, `intake` reads bodies, `origin` refuses what a browser was made to send.
//!
//! What a request may cost is bounded before it is read: connections by [`Connections`], bodies by the size
//! of the ciphertexts they can hold and by [`Settings::body_memory`], requests computed by
//! [`Settings::max_in_flight`], bandits by [`Settings::max_bandits`].

mod access;
mod clear;
mod collect;
mod decide;
mod enroll;
mod intake;
mod listen;
mod origin;
mod policy;
mod problem;
mod refresh;
mod store;
mod update;

pub use access::About;
pub use listen::{Connections, serve};
pub use problem::{Error, printable};

use access::Access;
use axum::Router;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::middleware;
use axum::routing::{get, post};
use clear::ClearEntry;
use helba::{Bandit, Engine};
use rand::rngs::SysRng;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use store::{Opened, Saved, Store, Stored, lock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::{Created, Limits, Manifest, PublicBundle, TokenDigest};

/// Evaluations at a time. Each uses every thread of the pool; the second fills the gaps of the first, which
/// may then end with it.
const EVALUATIONS: usize = 2;
/// Batch updates at a time; the others wait their turn, and hold nothing meanwhile.
const UPDATES: usize = 1;

/// Limits on what the server takes on.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Requests computed at a time, each some tens of MB of memory; one more is answered 503.
    pub max_in_flight: usize,
    /// Bandits kept; each takes some tens of MB of memory.
    pub max_bandits: usize,
    /// Bytes of request bodies in memory at a time, beside those of 64 KiB and less; one that does not fit is
    /// answered 503.
    pub body_memory: usize,
    /// For this time an open decision is kept, and new decisions that would replace it are refused.
    pub hold: Duration,
    /// Names of this server beside loopback addresses, which the `Host` of a request must be one of; `None`
    /// admits any. A server that listens on a loopback address needs this: a page of any site can otherwise
    /// reach it from a browser on the same machine, under a name that points there (DNS rebinding).
    pub hosts: Option<Vec<String>>,
    /// The state folder comes from a backup: what bandits with a privacy promise hold of single answers is
    /// dropped, since the state that was lost may have released it.
    pub restored: bool,
    /// Digest of the operator's token. Without one, policies in the clear are open to whoever reaches the
    /// port.
    pub operator: Option<TokenDigest>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            max_in_flight: 32,
            max_bandits: 64,
            operator: None,
            body_memory: 256 << 20,
            hold: Duration::from_secs(60),
            hosts: None,
            restored: false,
        }
    }
}

/// A running server's state. Cheap to clone.
#[derive(Clone)]
pub struct AppState(Arc<Inner>);

struct Inner {
    /// `None` where only policies in the clear are served.
    keys: Option<Keys>,
    store: Store,
    settings: Settings,
    bandits: RwLock<BTreeMap<String, Kept>>,
    /// Held while a bandit is made, so that none comes beyond the limit.
    creating: Mutex<()>,
    access: Access,
    in_flight: Arc<Semaphore>,
    evaluations: Arc<Semaphore>,
    /// Batch updates: a single permit, since each uses every thread and some hundred MB.
    updates: Arc<Semaphore>,
    /// Creations whose noise takes seconds to size: a single permit.
    sizings: Arc<Semaphore>,
    /// Memory for request bodies, in units of [`intake::budget`].
    body_memory: Arc<Semaphore>,
}

/// What encrypted bandits run on.
struct Keys {
    engine: Engine,
    manifest: Manifest,
}

/// A bandit of either kind.
#[derive(Clone)]
enum Kept {
    /// Encrypted, on a server without its keys: stored, and as it was.
    Asleep,
    Encrypted(Arc<Entry>),
    Clear(Arc<ClearEntry>),
}

/// An encrypted bandit in use.
struct Entry {
    created: Created,
    limits: Limits,
    live: Mutex<Live>,
}

impl Live {
    /// Checks that a decision may begin: one more can be remembered, or the oldest has been open for `hold`.
    fn check_room(&self, hold: Duration) -> Result<(), Error> {
        // Each evaluation under way adds one decision when it ends.
        let limit = Bandit::MOST_PENDING;
        if self.bandit.status().pending_decisions + EVALUATIONS <= limit {
            return Ok(());
        }
        let oldest = self.bandit.oldest_pending();
        // A decision that is not listed was made before this process began, or longer ago than `hold`.
        let made = self.made.iter().find(|(round, _)| Some(*round) == oldest);
        let left = made.and_then(|(_, made)| hold.checked_sub(made.elapsed()));
        let left = left.filter(|left| !left.is_zero());
        left.map_or(Ok(()), |left| Err(Error::TooManyOpen { limit, wait: seconds(left) }))
    }

    fn note(&mut self, round: u64, hold: Duration) {
        while self.made.front().is_some_and(|(_, made)| made.elapsed() >= hold) {
            self.made.pop_front();
        }
        self.made.push_back((round, Instant::now()));
    }
}

/// Whole seconds, at least one.
fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + 1
}

struct Live {
    bandit: Bandit,
    saved: Saved,
    /// A batch update runs, or waits for its turn.
    updating: bool,
    /// Rounds of this process and when each was decided, as far back as decisions are held.
    made: VecDeque<(u64, Instant)>,
    /// Deleted: requests that found it before do not bring it back.
    gone: bool,
}

impl AppState {
    /// Takes the keys of `bundle` and the bandits kept in `folder`, which is made if it is not there, and
    /// goes on with batch updates that were interrupted. Without a bundle it serves policies in the clear
    /// alone; encrypted bandits in the folder stay as they are, and requests for them are refused.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::StateInUse`], [`Error::OtherKeys`], [`Error::CorruptBlob`], [`Error::CorruptState`],
    /// [`Error::FolderIsShared`], and those of the disk.
    pub fn open(
        bundle: impl Into<Option<PublicBundle>>,
        folder: &Path,
        settings: Settings,
    ) -> Result<Self, Error> {
        let keys = match bundle.into() {
            Some(bundle) => {
                let PublicBundle { manifest, params, public_key, key_id, keys } = bundle;
                let engine = Engine::new(params, public_key, key_id, manifest.shape, keys)?;
                Some(Keys { engine, manifest })
            }
            None => None,
        };
        let engine = keys.as_ref().map(|keys| &keys.engine);
        let Opened { store, encrypted, clear, asleep } = Store::open(folder, engine, settings.restored)?;
        let access = Access {
            participant: keys.as_ref().map(|keys| keys.manifest.token_digest),
            operator: settings.operator,
        };
        let mut bandits = BTreeMap::new();
        for Stored { id, bandit, saved } in encrypted {
            let entry = Entry::new(engine.ok_or(Error::NoKeys)?, id.clone(), bandit, saved)?;
            bandits.insert(id, Kept::Encrypted(Arc::new(entry)));
        }
        bandits.extend(asleep.into_iter().map(|id| (id, Kept::Asleep)));
        for (id, bandit) in clear {
            bandits.insert(id.clone(), Kept::Clear(Arc::new(ClearEntry::new(id, bandit)?)));
        }
        let state = AppState(Arc::new(Inner {
            keys,
            store,
            bandits: RwLock::new(bandits),
            creating: Mutex::new(()),
            access,
            in_flight: Arc::new(Semaphore::new(settings.max_in_flight.clamp(1, Semaphore::MAX_PERMITS))),
            evaluations: Arc::new(Semaphore::new(EVALUATIONS)),
            updates: Arc::new(Semaphore::new(UPDATES)),
            sizings: Arc::new(Semaphore::new(1)),
            body_memory: Arc::new(Semaphore::new(intake::budget(settings.body_memory))),
            settings,
        }));
        for kept in state.all() {
            if let Kept::Encrypted(entry) = kept {
                refresh::update_if_due(&state, &entry);
            }
        }
        Ok(state)
    }

    /// Number of bandits kept.
    pub fn bandits(&self) -> usize {
        self.all().len()
    }

    /// Encrypted bandits among them that need the keys they were made under.
    pub fn asleep(&self) -> usize {
        self.all().iter().filter(|kept| matches!(kept, Kept::Asleep)).count()
    }

    fn keys(&self) -> Result<&Keys, Error> {
        self.0.keys.as_ref().ok_or(Error::NoKeys)
    }

    fn all(&self) -> Vec<Kept> {
        self.0.bandits.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn find(&self, id: &str) -> Result<Kept, Error> {
        let bandits = self.0.bandits.read().unwrap_or_else(PoisonError::into_inner);
        match bandits.get(id) {
            Some(Kept::Asleep) => Err(Error::NoKeys),
            Some(kept) => Ok(kept.clone()),
            None => Err(Error::UnknownBandit { id: id.chars().take(64).collect() }),
        }
    }

    /// The bandit, if the sender of `headers` may change it.
    fn find_for(&self, id: &str, headers: &HeaderMap) -> Result<Kept, Error> {
        let kept = self.find(id)?;
        self.0.access.check(headers, About::of(&kept)).map(|()| kept)
    }

    /// Keeps the bandit that `make` makes and has stored, under a fresh id, if there is room for one more.
    fn insert<T>(
        &self,
        about: About,
        make: impl FnOnce(String) -> Result<(Kept, T), Error>,
    ) -> Result<T, Error> {
        let _alone = lock(&self.0.creating);
        self.check_room(about)?;
        let mut id = [0; 16];
        rng()?.fill_bytes(&mut id);
        let id: String = id.iter().map(|b| format!("{b:02x}")).collect();
        let (kept, answer) = make(id.clone())?;
        tracing::info!(bandit = id, "created");
        self.0.bandits.write().unwrap_or_else(PoisonError::into_inner).insert(id, kept);
        Ok(answer)
    }

    /// Checks that one more bandit may be kept. Where anybody can make policies in the clear, these take half
    /// of the room at most, so that bearers of the token can always make encrypted bandits.
    fn check_room(&self, about: About) -> Result<(), Error> {
        let limit = self.0.settings.max_bandits;
        let open = about == About::Clear && self.0.keys.is_some() && self.0.access.operator.is_none();
        let kept = self.all();
        let clear = kept.iter().filter(|kept| About::of(kept) == About::Clear).count();
        if kept.len() >= limit || (open && clear >= limit.div_ceil(2)) {
            return Err(Error::TooManyBandits { limit });
        }
        Ok(())
    }

    /// Forgets a bandit and what is stored of it, for good.
    fn delete(&self, id: &str) -> Result<(), Error> {
        match self.find(id)? {
            Kept::Encrypted(entry) => {
                let mut live = lock(&entry.live);
                if live.gone {
                    return Err(Error::UnknownBandit { id: id.into() });
                }
                self.0.store.delete(id, &mut live.saved)?;
                live.gone = true;
            }
            Kept::Clear(entry) => entry.delete(self)?,
            Kept::Asleep => return Err(Error::NoKeys),
        }
        self.0.bandits.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        tracing::info!(bandit = id, "deleted");
        Ok(())
    }

    /// A place among the requests under way, to be kept until all memory of the request is free again.
    fn admit(&self) -> Result<OwnedSemaphorePermit, Error> {
        self.0.in_flight.clone().try_acquire_owned().map_err(|_| Error::Overloaded)
    }
}

impl Entry {
    fn new(engine: &Engine, id: String, bandit: Bandit, saved: Saved) -> Result<Self, Error> {
        let created = Created {
            id,
            config: bandit.config().clone(),
            plan: bandit.plan().clone(),
            key_id: engine.key_id().to_string(),
            fingerprint: engine.params().fingerprint().to_string(),
        };
        let limits = Limits::new(engine.params(), bandit.plan())?;
        let live = Live { bandit, saved, updating: false, made: VecDeque::new(), gone: false };
        Ok(Entry { created, limits, live: Mutex::new(live) })
    }

    /// Changes the bandit, stores it, and only then lets others see it: on an error nothing has changed.
    fn change<T>(
        &self,
        state: &AppState,
        change: impl FnOnce(&mut Bandit) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut live = lock(&self.live);
        if live.gone {
            return Err(Error::UnknownBandit { id: self.created.id.clone() });
        }
        let Live { bandit, saved, .. } = &mut *live;
        let mut next = bandit.clone();
        let out = change(&mut next)?;
        state.0.store.commit(&self.created.id, &next, saved)?;
        *bandit = next;
        Ok(out)
    }
}

/// The routes, under `/v1`.
pub fn app(state: AppState) -> Router {
    let routes = Router::new()
        .route("/health", get(enroll::health))
        .route("/keys", get(enroll::keys))
        .route("/policies", get(clear::policies))
        .route("/bandits", get(enroll::list).post(enroll::create))
        .route("/bandits/{id}", get(enroll::show).delete(enroll::delete))
        .route("/bandits/{id}/decisions", post(decide::decide))
        .route("/bandits/{id}/decisions/{decision}/feedback", post(update::feedback))
        .route("/bandits/{id}/shuffled", post(clear::shuffled));
    Router::new()
        .nest("/v1", routes)
        .fallback(async |request: Request| Error::UnknownPath {
            path: request.uri().path().chars().take(200).collect(),
        })
        .method_not_allowed_fallback(async || Error::WrongMethod)
        .layer(middleware::from_fn_with_state(state.clone(), origin::check))
        .with_state(state)
}

/// Runs what takes longer than a network task may.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let lost = |_| Error::Broken("a computation panicked");
    tokio::task::spawn_blocking(work).await.map_err(lost)?
}

/// A generator for one request, seeded by the operating system.
fn rng() -> Result<ChaCha20Rng, Error> {
    ChaCha20Rng::try_from_rng(&mut SysRng).map_err(|e| Error::NoRandomness { why: e.to_string() })
}
