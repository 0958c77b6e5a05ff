//! A user of a committee, over HTTP.

use crate::{Client, Creation, Error, os_rng};
use bandit::LinearConfig;
use host::lock;
use rand::CryptoRng;
use shares::moves::Serving;
use shares::{Decision, Device, SignedManifest};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use wire::{CommitteeBandit, Labelled};
use zeroize::Zeroizing;

/// The most bytes of receipts and answers.
const MOST_ANSWER: usize = 1 << 16;
/// The most bytes of a manifest with the moves that have led to it.
const MOST_MANIFEST: usize = 2 << 20;
/// The seconds that members have for a decision or a receipt.
const WAIT: u64 = 90;
/// The most bandits that a session remembers as they were created.
const MOST_KNOWN: usize = 1024;
/// What a configuration of a bandit under keys has and one of a committee has not, and why.
pub const OF_KEYS_ALONE: [(&str, &str); 6] = [
    ("horizon", "its numbers are exact in any number of rounds"),
    ("unanswered", "no device is asked when a batch ends"),
    ("answers", "a device gets its arm and nothing else"),
    ("compare", "it compares exactly"),
    ("open_model", "nobody sees its model"),
    ("counters", "it counts no arms (count them where they are played)"),
];
/// The bytes of a session that is kept: the committee's id, and what the device keeps.
const SESSION_BYTES: usize = 96;

/// A session with a committee as it is kept. It is secret: whoever has it reads the arms of the session, and
/// returns and erases its feedback.
pub struct KeptSession(Zeroizing<[u8; SESSION_BYTES]>);

impl KeptSession {
    /// Reads what [`Self::bytes`] wrote. `None` for bytes of another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(KeptSession(Zeroizing::new(bytes.try_into().ok()?)))
    }

    /// The bytes to keep, where nobody else reads them.
    pub fn bytes(&self) -> &[u8] {
        &*self.0
    }

    /// The id of the committee.
    pub fn committee(&self) -> [u8; 32] {
        let mut id = [0; 32];
        id.copy_from_slice(&self.0[..32]);
        id
    }

    /// Reads a file that its owner alone can read.
    ///
    /// # Errors
    /// [`Error::NoSession`] for another file, [`Error::Permissions`], [`Error::Io`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(SESSION_BYTES + 1));
        let file = host::open_private(path).map_err(|e| Error::file(path, e))?;
        file.take(SESSION_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|e| Error::file(path, e))?;
        Self::from_bytes(&bytes).ok_or_else(|| Error::NoSession { path: path.to_owned() })
    }

    /// Writes a file that its owner alone can read.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        host::write_private(path, self.bytes()).map_err(|e| Error::file(path, e))
    }

    /// Refuses a session with another committee than the one of this id.
    ///
    /// # Errors
    /// [`Error::OtherCommittee`].
    pub fn is_with(&self, committee: Option<[u8; 32]>) -> Result<(), Error> {
        same(self.committee(), committee)
    }

    /// A key that follows from the session, for what its holder keeps.
    pub fn derive_key(&self, context: &'static str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(blake3::derive_key(context, self.bytes()))
    }

    fn of_device(&self) -> Zeroizing<[u8; 64]> {
        let mut session = Zeroizing::new([0; 64]);
        session.copy_from_slice(&self.0[32..]);
        session
    }
}

/// A device with a session, and the server that carries its messages.
pub struct CommitteeUser {
    client: Client,
    device: Device,
    committee: [u8; 32],
}

impl CommitteeUser {
    /// Begins a session with the committee of a server. `committee` is the committee's id, which its members
    /// print, or that of one which has moved there: without it the server chooses who the members are.
    ///
    /// # Errors
    /// [`Error::OtherCommittee`]; [`Error::BadAnswer`] for receipts that too few members have signed; those
    /// of the client.
    pub fn begin(client: Client, committee: Option<[u8; 32]>) -> Result<Self, Error> {
        let manifest = manifest(&client, committee)?;
        let committee = manifest.manifest.id();
        let (device, begins) = Device::begin(manifest, &mut os_rng()?).map_err(bad)?;
        let receipts = client.exchange("committee/sessions", &begins, MOST_ANSWER, WAIT)?;
        device.check_receipts(&receipts).map_err(bad)?;
        Ok(CommitteeUser { client, device, committee })
    }

    /// Goes on with the session that a file has, or begins one with the committee of this id and keeps it in
    /// that file. After the committee has moved it begins one with the next, since the one before is of no
    /// use.
    ///
    /// # Errors
    /// As [`Self::begin`] and [`KeptSession::open`]; [`Error::NoSession`] without a file and an id;
    /// [`Error::OtherCommittee`] for the session with another committee than the one of this id.
    pub fn open(client: Client, committee: Option<[u8; 32]>, path: &Path) -> Result<Self, Error> {
        if path.exists() {
            let session = KeptSession::open(path)?;
            // The session may be with the committee to which the named one has moved.
            if session.is_with(committee).is_err() {
                same(session.committee(), Some(manifest(&client, committee)?.id()))?;
            }
            let known = session.committee();
            match Self::restore(client.clone(), &session) {
                Err(Error::CommitteeMoved { .. }) => {
                    let user = Self::begin(client, Some(known))?;
                    user.session().save(path)?;
                    return Ok(user);
                }
                restored => return restored,
            }
        }
        let committee = committee.ok_or_else(|| Error::NoSession { path: path.to_owned() })?;
        let user = Self::begin(client, Some(committee))?;
        user.session().save(path)?;
        Ok(user)
    }

    /// Goes on with a session ([`Self::session`]).
    ///
    /// # Errors
    /// As [`Self::begin`]; [`Error::CommitteeMoved`], since sessions end with their committee.
    pub fn restore(client: Client, session: &KeptSession) -> Result<Self, Error> {
        let committee = session.committee();
        let manifest = manifest(&client, Some(committee))?;
        if manifest.id() != committee {
            return Err(Error::CommitteeMoved { to: ckks::Hex(&manifest.id()).to_string() });
        }
        let device = Device::restore(manifest, &session.of_device()).map_err(bad)?;
        Ok(CommitteeUser { client, device, committee })
    }

    /// What goes on with this session.
    pub fn session(&self) -> KeptSession {
        let mut bytes = Zeroizing::new([0; SESSION_BYTES]);
        bytes[..32].copy_from_slice(&self.committee);
        bytes[32..].copy_from_slice(&*self.device.session());
        KeptSession(bytes)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Refuses contexts that [`Self::decide`] refuses, without a request.
    ///
    /// # Errors
    /// [`Error::Protocol`] for other numbers of arms or features, for what is no finite number, and for a row
    /// that is longer than the bandit's L; [`Error::BadAnswer`] for a bandit without an L.
    pub fn check_contexts(bandit: &CommitteeBandit, contexts: &[Vec<f64>]) -> Result<(), Error> {
        checked(bandit, contexts).map(drop)
    }

    /// Asks for a decision on the features of each arm.
    ///
    /// # Errors
    /// As [`Self::check_contexts`]; [`Error::BadAnswer`] for the answer to something else; those of the
    /// client.
    pub fn decide(&self, bandit: &CommitteeBandit, contexts: &[Vec<f64>]) -> Result<Decision, Error> {
        let rows: Vec<Vec<f64>> = checked(bandit, contexts)?.into_iter().map(Cow::into_owned).collect();
        let definition = bandit.definition().ok_or_else(|| Error::BadAnswer("an id that is none".into()))?;
        let request = self.device.request(&definition, &rows, &mut os_rng()?).map_err(bad)?;
        let path = format!("bandits/{}/decisions", bandit.id);
        let answer = self.client.exchange(&path, &request, MOST_ANSWER, WAIT)?;
        self.device.open(&definition, &request, &answer).map_err(bad)
    }

    /// The message with the reward of a decision, for [`Self::return_feedback`]. The server takes the same
    /// message as often as it comes, and no other one about the decision: whoever may have to send it again
    /// keeps it.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a reward outside −1 to 1.
    pub fn feedback_of<R: CryptoRng>(
        &self,
        decision: &[u8; 32],
        reward: f64,
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        Self::check_reward(reward)?;
        self.device.feedback(decision, reward, rng).map_err(bad)
    }

    /// Refuses a reward outside −1 to 1.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub fn check_reward(reward: f64) -> Result<(), Error> {
        match (-1.0..=1.0).contains(&reward) {
            true => Ok(()),
            false => Err(protocol::Error::RewardOutOfRange.into()),
        }
    }

    /// Sends a message of [`Self::feedback_of`].
    ///
    /// # Errors
    /// [`Error::BadId`]; those of the client.
    pub fn return_feedback(&self, bandit: &str, decision: &[u8; 32], feedback: &[u8]) -> Result<(), Error> {
        if !wire::is_id(bandit) {
            return Err(Error::BadId);
        }
        let label = ckks::Hex(decision);
        self.client.submit(&format!("bandits/{bandit}/decisions/{label}/feedback"), feedback)
    }

    /// Sends the reward of a decision, between −1 and 1. It counts once.
    ///
    /// # Errors
    /// As [`Self::feedback_of`] and [`Self::return_feedback`].
    pub fn feedback(&self, bandit: &CommitteeBandit, decision: &[u8; 32], reward: f64) -> Result<(), Error> {
        self.return_feedback(&bandit.id, decision, &self.feedback_of(decision, reward, &mut os_rng()?)?)
    }

    /// The feedbacks of a bandit that the server has: those in its model, and those that wait for the end of
    /// a batch.
    ///
    /// # Errors
    /// Those of the client.
    pub fn feedbacks(&self, bandit: &str) -> Result<u64, Error> {
        let view = self.client.committee_bandit(bandit)?;
        Ok(view.feedbacks + view.unlearnt as u64)
    }

    /// Has the feedback on a decision erased: with the end of the next batch the model has nothing of it.
    ///
    /// # Errors
    /// Those of the client.
    pub fn erase(&self, bandit: &CommitteeBandit, decision: &[u8; 32]) -> Result<(), Error> {
        self.client.erase_of_committee(&bandit.id, decision, &self.device.erasure(decision))
    }
}

/// Where a program keeps its session with a committee.
pub enum Keep {
    /// Nowhere: a session with the committee of this id ends with the program.
    Nowhere([u8; 32]),
    /// In a file, which is written when the session begins. Without an id, that of the session in the file.
    File(Option<[u8; 32]>, PathBuf),
    /// In the program.
    Program(KeptSession),
}

/// The session of a program that runs long, which begins or goes on with the first call that needs it.
/// Several threads may use it.
pub struct CommitteeSession {
    client: Client,
    keep: Keep,
    user: Mutex<Option<Arc<CommitteeUser>>>,
    /// Bandits as they were created, by their ids.
    bandits: Mutex<HashMap<String, Arc<CommitteeBandit>>>,
}

impl CommitteeSession {
    /// The session that is kept there, with the committee of a server. Nothing is sent.
    pub fn new(client: Client, keep: Keep) -> Self {
        let (user, bandits) = Default::default();
        CommitteeSession { client, keep, user, bandits }
    }

    /// The id of the committee, as it was named.
    ///
    /// # Errors
    /// [`Error::NoSession`] without an id and a file; as [`KeptSession::open`].
    pub fn committee(&self) -> Result<[u8; 32], Error> {
        match &self.keep {
            Keep::Nowhere(id) | Keep::File(Some(id), _) => Ok(*id),
            Keep::File(None, path) if path.exists() => Ok(KeptSession::open(path)?.committee()),
            Keep::File(None, path) => Err(Error::NoSession { path: path.clone() }),
            Keep::Program(session) => Ok(session.committee()),
        }
    }

    /// The user of the session.
    ///
    /// # Errors
    /// As [`CommitteeUser::begin`], [`CommitteeUser::open`] and [`CommitteeUser::restore`].
    pub fn user(&self) -> Result<Arc<CommitteeUser>, Error> {
        // Held meanwhile, so that others wait for this session and begin no other one.
        let mut user = lock(&self.user);
        if let Some(user) = &*user {
            return Ok(user.clone());
        }
        let client = self.client.clone();
        let opened = match &self.keep {
            Keep::Nowhere(id) => CommitteeUser::begin(client, Some(*id)),
            Keep::File(id, path) => CommitteeUser::open(client, *id, path),
            Keep::Program(session) => CommitteeUser::restore(client, session),
        };
        Ok(user.insert(Arc::new(opened?)).clone())
    }

    /// Creates a bandit of the committee, as [`Client::create_of_committee`], and of no other one.
    ///
    /// # Errors
    /// [`Error::OtherCommittee`]; as [`Client::create_of_committee`].
    pub fn create(
        &self,
        linear: &LinearConfig,
        rules: (u16, u16),
        creation: &Creation,
    ) -> Result<Labelled<CommitteeBandit>, Error> {
        manifest(&self.client, Some(self.committee()?))?;
        self.client.create_of_committee(linear, rules, creation)
    }

    /// The bandit with this id, as it was created. It is asked for once.
    ///
    /// # Errors
    /// Those of the client.
    pub fn bandit(&self, id: &str) -> Result<Arc<CommitteeBandit>, Error> {
        if let Some(bandit) = lock(&self.bandits).get(id) {
            return Ok(bandit.clone());
        }
        let bandit = Arc::new(self.client.committee_bandit(id)?.created);
        let mut all = lock(&self.bandits);
        if all.len() >= MOST_KNOWN {
            all.clear();
        }
        all.insert(id.into(), bandit.clone());
        Ok(bandit)
    }
}

/// The rows of the contexts of a bandit.
fn checked<'a>(bandit: &CommitteeBandit, contexts: &'a [Vec<f64>]) -> Result<Vec<Cow<'a, [f64]>>, Error> {
    let config: LinearConfig = serde_json::from_str(&bandit.config)
        .map_err(|error| Error::BadAnswer(format!("the configuration of the bandit: {error}")))?;
    let (got, want) = (contexts.len(), usize::from(bandit.arms));
    if got != want {
        return Err(protocol::Error::ArmCount { got, want }.into());
    }
    let features = bandit.features.into();
    let rows = (1..).zip(contexts).map(|(row, x)| protocol::check_features(row, x, features, config.l));
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The manifest of the committee that serves: the one of this id, or one to which it has moved.
fn manifest(client: &Client, committee: Option<[u8; 32]>) -> Result<SignedManifest, Error> {
    let serving = Serving::from_bytes(&client.fetch("committee", MOST_MANIFEST, 0)?).map_err(bad)?;
    let got = serving.manifest.id();
    serving.follow(committee.as_ref()).map_err(|error| match (error, committee) {
        (shares::Error::OtherCommittee, Some(want)) => {
            Error::OtherCommittee { got: ckks::Hex(&got).to_string(), want: ckks::Hex(&want).to_string() }
        }
        (error, _) => bad(error),
    })
}

fn same(got: [u8; 32], want: Option<[u8; 32]>) -> Result<(), Error> {
    let text = |id: &[u8; 32]| ckks::Hex(id).to_string();
    match want {
        Some(want) if want != got => Err(Error::OtherCommittee { got: text(&got), want: text(&want) }),
        _ => Ok(()),
    }
}

fn bad(error: shares::Error) -> Error {
    Error::BadAnswer(error.to_string())
}
