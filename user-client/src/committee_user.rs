//! A user of a committee, over HTTP.

use crate::{Client, Creation, Error, LoggedRound, Stop, os_rng, patiently};
use bandit::LinearConfig;
use host::lock;
use protocol::Counters;
use rand::CryptoRng;
use shares::moves::Serving;
use shares::{Decision, Device, KeptSession, SignedManifest};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::{CommitteeBandit, Labelled, ProblemType};
use zeroize::Zeroizing;

/// The most bytes of receipts and answers.
const MOST_ANSWER: usize = 1 << 16;
/// The most bytes of the file of a session that are read.
const MOST_SESSION: usize = 256;
/// The most bytes of a manifest with the moves that have led to it.
const MOST_MANIFEST: usize = 2 << 20;
/// The seconds that members have for a decision or a receipt.
const WAIT: u64 = 90;
/// The time for which a message that may be sent twice is sent again while the server cannot be reached.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause before the server is asked again whether a batch is learnt.
const PAUSE: Duration = Duration::from_millis(50);
/// The most bandits that a session remembers as they were created.
const MOST_KNOWN: usize = 1024;
/// What a configuration of a bandit under keys has and one of a committee has not, and why.
pub const OF_KEYS_ALONE: [(&str, &str); 7] = [
    ("horizon", "its numbers are exact in any number of rounds"),
    ("unanswered", "no device is asked when a batch ends"),
    ("answers", "a device gets its arm and nothing else"),
    ("exchanges", "no holder of a key is asked"),
    ("open_model", "nobody sees its model"),
    ("discount", "members add up all feedback alike"),
    ("window", "members add up all feedback alike"),
];
/// Reads a session from a file that its owner alone can read.
///
/// # Errors
/// [`Error::NoSession`] for another file, [`Error::Permissions`], [`Error::Io`].
pub fn read_session(path: &Path) -> Result<KeptSession, Error> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(MOST_SESSION));
    let file = host::open_private(path).map_err(|e| Error::file(path, e))?;
    file.take(MOST_SESSION as u64).read_to_end(&mut bytes).map_err(|e| Error::file(path, e))?;
    KeptSession::from_bytes(&bytes).ok_or_else(|| Error::NoSession { path: path.to_owned() })
}

/// A device with a session, and the server that carries its messages. Where the server does not know the
/// session any more, the device begins it again: after a move of the committee, with the next one.
pub struct CommitteeUser {
    client: Client,
    device: Mutex<Arc<Device>>,
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
        let (device, begins) = Device::begin(manifest, &mut os_rng()?).map_err(bad)?;
        begun(&client, &device, &begins)?;
        Ok(CommitteeUser { client, device: Mutex::new(Arc::new(device)) })
    }

    /// Goes on with the session that a file has, or begins one with the committee of this id and keeps it in
    /// that file. The session goes on after moves of the committee.
    ///
    /// # Errors
    /// As [`Self::begin`] and [`read_session`]; [`Error::NoSession`] without a file and an id;
    /// [`Error::OtherCommittee`] for the session with another committee than the one of this id.
    pub fn open(client: Client, committee: Option<[u8; 32]>, path: &Path) -> Result<Self, Error> {
        if path.exists() {
            return Self::restore(client, committee, &read_session(path)?);
        }
        let committee = committee.ok_or_else(|| Error::NoSession { path: path.to_owned() })?;
        let user = Self::begin(client, Some(committee))?;
        host::write_private(path, user.session().bytes()).map_err(|e| Error::file(path, e))?;
        Ok(user)
    }

    /// Goes on with a session ([`Self::session`]), with the committee of this id or one to which it has
    /// moved.
    ///
    /// # Errors
    /// As [`Self::begin`]; [`Error::OtherCommittee`] also for a session with another committee.
    pub fn restore(
        client: Client,
        committee: Option<[u8; 32]>,
        session: &KeptSession,
    ) -> Result<Self, Error> {
        let serving = manifest(&client, Some(session.committee()))?;
        // Both have moved to the committee that serves, or are it.
        if committee.is_some_and(|id| ![session.committee(), serving.id()].contains(&id)) {
            manifest(&client, committee)?;
        }
        let device = Device::restore(serving, session).map_err(bad)?;
        Ok(CommitteeUser { client, device: Mutex::new(Arc::new(device)) })
    }

    /// What goes on with this session.
    pub fn session(&self) -> KeptSession {
        self.device().session().clone()
    }

    /// The device. After a move of the committee it is another one.
    pub fn device(&self) -> Arc<Device> {
        lock(&self.device).clone()
    }

    /// What the server answers, also if it does not know the session any more.
    fn told<T>(&self, tell: impl Fn(&Device) -> Result<T, Error>) -> Result<T, Error> {
        let device = self.device();
        match tell(&device) {
            Err(error) if error.is_of(ProblemType::UnknownSession) => tell(&*self.begin_again(&device)?),
            told => told,
        }
    }

    /// Begins the session again, with the committee that serves now.
    fn begin_again(&self, before: &Arc<Device>) -> Result<Arc<Device>, Error> {
        // Held meanwhile, so that others wait for it.
        let mut device = lock(&self.device);
        if Arc::ptr_eq(&device, before) {
            let session = device.session();
            let serving = manifest(&self.client, Some(session.committee()))?;
            let next = Device::restore(serving, session).map_err(bad)?;
            begun(&self.client, &next, &next.begins().map_err(bad)?)?;
            *device = Arc::new(next);
        }
        Ok(device.clone())
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
        let path = format!("bandits/{}/decisions", bandit.id);
        self.told(|device| {
            let request = device.request(&definition, &rows, &mut os_rng()?).map_err(bad)?;
            let answer = self.client.exchange_with_members(&path, &request, MOST_ANSWER, WAIT)?;
            device.open(&definition, &request, &answer).map_err(bad)
        })
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
        check_any_reward(reward)?;
        self.device().feedback(decision, reward, rng).map_err(bad)
    }

    /// Refuses a reward outside the range of a bandit.
    ///
    /// # Errors
    /// [`Error::Protocol`] outside −1 to 1, [`Error::RewardRange`] outside a narrower range.
    pub fn check_reward(bandit: &CommitteeBandit, reward: f64) -> Result<(), Error> {
        check_any_reward(reward)?;
        match bandit.rewards {
            Some([low, high]) if !(wire::steps(low)..=wire::steps(high)).contains(&wire::steps(reward)) => {
                Err(Error::RewardRange { low, high })
            }
            _ => Ok(()),
        }
    }

    /// Sends a message of [`Self::feedback_of`].
    ///
    /// # Errors
    /// [`Error::BadId`]; those of the client.
    pub fn return_feedback(&self, bandit: &str, decision: &[u8; 32], feedback: &[u8]) -> Result<(), Error> {
        self.told(|device| self.client.submit(&feedback_path(bandit, decision, device)?, feedback))
    }

    /// Sends the reward of a decision, of the range of the bandit. It counts once.
    ///
    /// # Errors
    /// As [`Self::check_reward`] and [`Self::return_feedback`].
    pub fn feedback(&self, bandit: &CommitteeBandit, decision: &[u8; 32], reward: f64) -> Result<(), Error> {
        Self::check_reward(bandit, reward)?;
        self.return_feedback(&bandit.id, decision, &self.feedback_of(decision, reward, &mut os_rng()?)?)
    }

    /// Has the bandit learn rounds of before it, one after the other. For each the device asks for a decision
    /// between arms that all have the features of the arm that was played, so that whichever is decided for
    /// the row that members keep is this one, and returns the reward. Members check row and reward as those
    /// of any decision. The arm of the answer says nothing of the model, and the server does not see that a
    /// round is of before.
    ///
    /// `each` hears the place of a round and its decision, by which it can be erased ([`Self::erase`]),
    /// before the reward is sent. If the call fails, the reward of the last decision that it heard may be
    /// missing: [`Self::feedback`] returns it, or is refused because it is there, and a call with the rounds
    /// behind it goes on.
    ///
    /// # Errors
    /// [`Error::OneSession`] for a bandit whose batches need more sessions than one, [`Error::CountsArms`]
    /// for one with counters, which would count the arm of the answer, and [`Error::Protocol`] for a round
    /// that is none of the bandit, before anything is sent; [`Error::BatchOpen`]; those of
    /// `each`; as [`Self::decide`] and [`Self::feedback`].
    pub fn learn(
        &self,
        bandit: &CommitteeBandit,
        rounds: &[LoggedRound],
        mut each: impl FnMut(usize, &[u8; 32]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if bandit.sessions > 1 {
            return Err(Error::OneSession { sessions: bandit.sessions });
        }
        if bandit.counters.is_some() {
            return Err(Error::CountsArms);
        }
        let config = config_of(bandit)?;
        let arms = usize::from(bandit.arms);
        for (number, round) in (1..).zip(rounds) {
            protocol::check_features(number, &round.features, bandit.features.into(), config.l)?;
            Self::check_reward(bandit, round.reward)?;
            if round.arm >= arms {
                return Err(protocol::Error::NoArm { got: round.arm, arms }.into());
            }
        }
        let (mut rng, stop) = (os_rng()?, Stop::default());
        let mut updates = None;
        let mut decided = 0;
        for (at, round) in rounds.iter().enumerate() {
            decided = self.await_decision(bandit, &config, &mut updates, decided)?;
            let contexts = vec![round.features.clone(); arms];
            let decision = patiently(PATIENCE, &stop, &mut rng, |_| self.decide(bandit, &contexts))?;
            decided += 1;
            each(at, &decision.label)?;
            let feedback = self.feedback_of(&decision.label, round.reward, &mut rng)?;
            patiently(PATIENCE, &stop, &mut rng, |_| {
                self.return_feedback(&bandit.id, &decision.label, &feedback)
            })?;
        }
        Ok(())
    }

    /// Waits until the session may decide again after `decided` decisions since members have learnt a batch,
    /// and returns how many it has made since the last one. `updates` is the number of updates that the
    /// server has said before.
    fn await_decision(
        &self,
        bandit: &CommitteeBandit,
        config: &LinearConfig,
        updates: &mut Option<u64>,
        mut decided: u64,
    ) -> Result<u64, Error> {
        let (until, mut waits) = (Instant::now() + Duration::from_secs(WAIT), false);
        loop {
            let view = self.client.committee_bandit(&bandit.id)?;
            if updates.replace(view.updates).is_some_and(|before| before != view.updates) {
                // The last decision may have come after the update, unless its feedback is in the model.
                decided = if waits || view.unlearnt == 0 { 0 } else { decided.min(1) };
            }
            let decisions = bandit.decisions_a_session;
            if decided < u64::from(decisions) {
                return Ok(decided);
            }
            let (waiting, batch) = (view.unlearnt as u64, config.batch_length(view.feedbacks, 1));
            if waiting < batch || Instant::now() > until {
                return Err(Error::BatchOpen { decisions, waiting, batch });
            }
            waits = true;
            std::thread::sleep(PAUSE);
        }
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

    /// Has the feedback on a decision erased: with the next update the model has nothing of it. Whether a
    /// model has it until then.
    ///
    /// # Errors
    /// Those of the client, such as for a decision of another session.
    pub fn erase(&self, bandit: &CommitteeBandit, decision: &[u8; 32]) -> Result<bool, Error> {
        let erased = self.told(|device| {
            self.client.erase_at(&feedback_path(&bandit.id, decision, device)?, &device.erasure(decision))
        });
        Ok(erased?.learnt)
    }
}

/// Where a program keeps its session with a committee.
pub enum Keep {
    /// Nowhere: a session with the committee of this id ends with the program.
    Nowhere([u8; 32]),
    /// In a file, which is written when the session begins. Without an id, that of the session in the file.
    File(Option<[u8; 32]>, PathBuf),
    /// In the program. With an id, the committee must be that one, or one to which it has moved.
    Program(Option<[u8; 32]>, KeptSession),
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
    /// [`Error::NoSession`] without an id and a file; as [`read_session`].
    pub fn committee(&self) -> Result<[u8; 32], Error> {
        match &self.keep {
            Keep::Nowhere(id) | Keep::File(Some(id), _) | Keep::Program(Some(id), _) => Ok(*id),
            Keep::File(None, path) if path.exists() => Ok(read_session(path)?.committee()),
            Keep::File(None, path) => Err(Error::NoSession { path: path.clone() }),
            Keep::Program(None, session) => Ok(session.committee()),
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
            Keep::Program(id, session) => CommitteeUser::restore(client, *id, session),
        };
        Ok(user.insert(Arc::new(opened?)).clone())
    }

    /// Whether the committee of this id, in hexadecimal digits, is the one that was named, or the one that
    /// serves after its moves.
    ///
    /// # Errors
    /// As [`Self::committee`]; those of the client.
    pub fn is_with(&self, committee: &str) -> Result<bool, Error> {
        let is = |id: [u8; 32]| ckks::Hex(&id).to_string() == committee;
        let named = self.committee()?;
        Ok(is(named) || is(manifest(&self.client, Some(named))?.id()))
    }

    /// Creates a bandit of the committee, as [`Client::create_of_committee`], and of no other one.
    ///
    /// # Errors
    /// [`Error::OtherCommittee`]; as [`Client::create_of_committee`].
    pub fn create(
        &self,
        linear: &LinearConfig,
        rules: (u16, u16),
        rewards: Option<[f64; 2]>,
        counters: Option<Counters>,
        creation: &Creation,
    ) -> Result<Labelled<CommitteeBandit>, Error> {
        manifest(&self.client, Some(self.committee()?))?;
        self.client.create_of_committee(linear, rules, rewards, counters, creation)
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

fn check_any_reward(reward: f64) -> Result<(), Error> {
    match (-1.0..=1.0).contains(&reward) {
        true => Ok(()),
        false => Err(protocol::Error::RewardOutOfRange.into()),
    }
}

/// Where the feedback of a decision is, for the session of a device.
fn feedback_path(bandit: &str, decision: &[u8; 32], device: &Device) -> Result<String, Error> {
    let (label, session) = (ckks::Hex(decision), device.session_id());
    match wire::is_id(bandit) {
        true => Ok(format!("bandits/{bandit}/decisions/{label}/feedback?session={}", ckks::Hex(&session))),
        false => Err(Error::BadId),
    }
}

fn config_of(bandit: &CommitteeBandit) -> Result<LinearConfig, Error> {
    serde_json::from_str(&bandit.config)
        .map_err(|error| Error::BadAnswer(format!("the configuration of the bandit: {error}")))
}

/// The rows of the contexts of a bandit.
fn checked<'a>(bandit: &CommitteeBandit, contexts: &'a [Vec<f64>]) -> Result<Vec<Cow<'a, [f64]>>, Error> {
    let config = config_of(bandit)?;
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

/// Begins the session of a device with the server.
fn begun(client: &Client, device: &Device, begins: &[u8]) -> Result<(), Error> {
    let receipts = client.exchange_with_members("committee/sessions", begins, MOST_ANSWER, WAIT)?;
    device.check_receipts(&receipts).map_err(bad)
}

fn bad(error: shares::Error) -> Error {
    Error::BadAnswer(error.to_string())
}
