//! The board, on which members leave messages for each other: it holds no secret, and need not be trusted
//! with more than that it answers. It keeps each message in a file, and takes one for each slot, from its
//! member.

use super::message::{Entry, Round, Slot};
use super::{Error, Plan};
use axum::Router;
use axum::extract::{Path as UrlPath, Query, Request, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use host::lock;
use serde::Deserialize;
use service::{Bodies, Content, Pace};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use user_client::Client;

/// The most seconds for which a request for a round waits.
const MOST_WAIT: u64 = 10;
/// The memory of bodies that are being received.
const BODY_MEMORY: usize = 256 << 20;

/// Where members leave messages.
pub trait Board {
    /// Leaves a message. The same message may be left again.
    ///
    /// # Errors
    /// [`Error::Taken`] if the slot has another message; [`Error::Refused`]; [`Error::Client`].
    fn post(&self, entry: &Entry, body: &[u8]) -> Result<(), Error>;

    /// The entries of a round. It waits up to `wait` for those that are missing, and for openings.
    ///
    /// # Errors
    /// [`Error::Client`], [`Error::Malformed`].
    fn entries(&self, round: Round, wait: Duration) -> Result<Vec<Entry>, Error>;

    /// The body of a message, of at most `limit` bytes.
    ///
    /// # Errors
    /// [`Error::Client`], [`Error::Refused`].
    fn body(&self, slot: Slot, limit: usize) -> Result<Vec<u8>, Error>;
}

/// The messages of one run, in a folder.
pub struct Store {
    plan: Plan,
    folder: PathBuf,
    entries: Mutex<BTreeMap<Slot, Entry>>,
    changed: Condvar,
}

impl Store {
    /// Opens a folder with the messages of this run so far, or makes an empty one.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Malformed`] for files that are no messages of this run.
    pub fn open(plan: Plan, folder: &Path) -> Result<Self, Error> {
        let io = |error| Error::Io { path: folder.into(), error };
        std::fs::create_dir_all(folder).map_err(|e| io(host::no_folder(folder, e)))?;
        let mut entries = BTreeMap::new();
        for file in std::fs::read_dir(folder).map_err(io)? {
            let path = file.map_err(io)?.path();
            if path.extension().is_none_or(|extension| extension != "message") {
                continue;
            }
            let bytes = std::fs::read(&path).map_err(io)?;
            let foreign = Error::Malformed("the folder has messages of another run, or damaged ones");
            let Some((entry, body)) = bytes.split_first_chunk() else { return Err(foreign) };
            let entry = Entry::from_bytes(entry)?;
            if !plan.accepts(&entry) || !entry.is_of(body) || path != Self::path(folder, entry.slot) {
                return Err(foreign);
            }
            entries.insert(entry.slot, entry);
        }
        Ok(Store { plan, folder: folder.into(), entries: Mutex::new(entries), changed: Condvar::new() })
    }

    fn path(folder: &Path, slot: Slot) -> PathBuf {
        let Slot { round, number, member } = slot;
        folder.join(format!("{}-{member}-{number}.message", round as u8))
    }

    /// Bytes of all messages of a member so far.
    pub fn bytes_of(&self, member: u8) -> u64 {
        let entries = lock(&self.entries);
        let own = entries.values().filter(|entry| entry.slot.member == member);
        own.map(|entry| u64::from(entry.length) + Entry::BYTES as u64).sum()
    }

    fn of_round(entries: &BTreeMap<Slot, Entry>, round: Round) -> Vec<Entry> {
        entries.values().filter(|entry| entry.slot.round == round).copied().collect()
    }
}

impl Board for Store {
    fn post(&self, entry: &Entry, body: &[u8]) -> Result<(), Error> {
        if !self.plan.accepts(entry) || !entry.is_of(body) {
            return Err(Error::Refused(
                "the message is none of this run, or not signed by its member".into(),
            ));
        }
        let slot = entry.slot;
        // The lock is held while the file is written, so that a slot gets one message.
        let mut entries = lock(&self.entries);
        match entries.get(&slot) {
            Some(known) if known == entry => return Ok(()),
            Some(_) => return Err(Error::Taken { slot }),
            None => {}
        }
        let io = |error| Error::Io { path: self.folder.clone(), error };
        // Not synchronised: a loss of power ends the run, and the end of this process does not. Nothing is
        // written through a link that somebody else has put there.
        let (path, draft) = (Self::path(&self.folder, slot), self.folder.join("draft"));
        match std::fs::remove_file(&draft) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        let mut file = std::fs::File::create_new(&draft).map_err(io)?;
        file.write_all(&entry.to_bytes()).and_then(|()| file.write_all(body)).map_err(io)?;
        std::fs::rename(&draft, path).map_err(io)?;
        entries.insert(slot, *entry);
        self.changed.notify_all();
        Ok(())
    }

    fn entries(&self, round: Round, wait: Duration) -> Result<Vec<Entry>, Error> {
        let (want, entries) = (self.plan.all_slots(round).len(), lock(&self.entries));
        let incomplete = |entries: &mut BTreeMap<Slot, Entry>| {
            let openings = Self::of_round(entries, Round::Blame).len();
            Self::of_round(entries, round).len() < want && openings == 0
        };
        let waited = self.changed.wait_timeout_while(entries, wait, incomplete);
        Ok(Self::of_round(&waited.unwrap_or_else(PoisonError::into_inner).0, round))
    }

    fn body(&self, slot: Slot, _limit: usize) -> Result<Vec<u8>, Error> {
        let path = Self::path(&self.folder, slot);
        let bytes = std::fs::read(&path).map_err(|error| Error::Io { path, error })?;
        Ok(bytes.get(Entry::BYTES..).unwrap_or_default().to_vec())
    }
}

/// A board that is reached over HTTP.
pub struct RemoteBoard {
    client: Client,
    /// The most bytes of the entries of a round.
    most: usize,
}

impl RemoteBoard {
    /// The board of this run at the address of `client`.
    pub fn new(client: Client, plan: &Plan) -> Self {
        let slots = plan.rounds().iter().map(|round| plan.all_slots(*round).len()).max();
        RemoteBoard { client, most: slots.unwrap_or(0) * Entry::BYTES }
    }
}

impl Board for RemoteBoard {
    fn post(&self, entry: &Entry, body: &[u8]) -> Result<(), Error> {
        let bytes = [&entry.to_bytes()[..], body].concat();
        match self.client.submit("messages", &bytes) {
            Err(user_client::Error::Refused(problem)) if problem.status == 409 => {
                Err(Error::Taken { slot: entry.slot })
            }
            done => Ok(done?),
        }
    }

    fn entries(&self, round: Round, wait: Duration) -> Result<Vec<Entry>, Error> {
        let seconds = wait.as_secs().min(MOST_WAIT);
        let bytes =
            self.client.fetch(&format!("rounds/{}?wait={seconds}", round as u8), self.most, seconds)?;
        Entry::read_all(&bytes)
    }

    fn body(&self, slot: Slot, limit: usize) -> Result<Vec<u8>, Error> {
        let Slot { round, number, member } = slot;
        Ok(self.client.fetch(&format!("messages/{}/{member}/{number}", round as u8), limit, 0)?)
    }
}

#[derive(Deserialize)]
struct Wait {
    wait: Option<u64>,
}

/// The routes of a board.
///
/// | request | body | answer |
/// |---|---|---|
/// | `POST /v1/messages` | entry and body | |
/// | `GET /v1/rounds/{round}?wait=SECONDS` | | entries |
/// | `GET /v1/messages/{round}/{member}/{number}` | | body |
pub fn routes(store: Arc<Store>) -> Router {
    type Answer = Result<Vec<u8>, (StatusCode, String)>;
    type Shared = State<(Arc<Store>, Bodies)>;
    let bodies = Bodies::within(BODY_MEMORY, Pace::default());

    async fn submit(State((store, bodies)): Shared, request: Request) -> Answer {
        let limit = Entry::BYTES + store.plan.longest();
        let read = bodies.read(request, limit, Some(Content::Binary)).await;
        let body = read.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
        blocking(move || {
            let (entry, body) =
                body.split_first_chunk().ok_or(Error::Malformed("it is shorter than an entry"))?;
            store.post(&Entry::from_bytes(entry)?, body).map(|()| Vec::new())
        })
        .await
    }
    async fn round(
        State((store, _)): Shared,
        UrlPath(round): UrlPath<u8>,
        Query(Wait { wait }): Query<Wait>,
    ) -> Answer {
        let wait = Duration::from_secs(wait.unwrap_or(0).min(MOST_WAIT));
        blocking(move || {
            let round = Round::from_number(round).ok_or(Error::Malformed("there is no such round"))?;
            Ok(store.entries(round, wait)?.iter().flat_map(Entry::to_bytes).collect())
        })
        .await
    }
    async fn message(
        State((store, _)): Shared,
        UrlPath((round, member, number)): UrlPath<(u8, u8, u16)>,
    ) -> Answer {
        blocking(move || {
            let round = Round::from_number(round).ok_or(Error::Malformed("there is no such round"))?;
            let slot = Slot { round, number, member };
            match lock(&store.entries).contains_key(&slot) {
                true => {}
                false => return Err(Error::Refused(format!("there is no {slot} yet"))),
            }
            store.body(slot, usize::MAX)
        })
        .await
    }
    async fn blocking(work: impl FnOnce() -> Result<Vec<u8>, Error> + Send + 'static) -> Answer {
        let done = tokio::task::spawn_blocking(work).await;
        let done = done.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        done.map_err(|error| {
            let status = match error {
                Error::Taken { .. } => StatusCode::CONFLICT,
                Error::Io { .. } => StatusCode::INTERNAL_SERVER_ERROR,
                _ => StatusCode::BAD_REQUEST,
            };
            (status, error.to_string())
        })
    }
    Router::new()
        .route("/v1/messages", post(submit))
        .route("/v1/rounds/{round}", get(round))
        .route("/v1/messages/{round}/{member}/{number}", get(message))
        .with_state((store, bodies))
}
