//! State of a policy, with its type erased, and its bytes.

use crate::{Error, PolicyConfig, registry};
use bandit::distributed::EliminationServer;
use bandit::{Features, Policy};
use glm::shuffle::ShuffleGlmServer;
use privacy::PrivacyStatement;
use privacy::task::{Ask, Task};
use rand::Rng;
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use wire::{ClearFeedback, Learnt, SummedBatch};

/// The state of a policy as a service uses it, with the same types of contexts and feedback for all policies.
pub(crate) trait State: Copied + Send + Sync {
    fn privacy(&self) -> Result<PrivacyStatement, Error>;

    fn decide(&mut self, context: Option<&Features>, rng: &mut dyn Rng) -> Result<Option<usize>, Error>;

    /// As `decide`, where some arms are closed.
    fn decide_open(&mut self, _: &Features, _: &[bool], _: &mut dyn Rng) -> Result<Option<usize>, Error> {
        Err(bandit::Error::ClosedArms.into())
    }

    fn mark(&self) -> u64 {
        0
    }

    fn recall(&mut self, _: u64) {}

    fn learn(
        &mut self,
        _: Option<&Features>,
        _: usize,
        _: &ClearFeedback,
        _: &mut dyn Rng,
    ) -> Result<(), Error> {
        Err(Error::Broken("feedback for a policy that takes batches"))
    }

    fn task(&self) -> Result<Option<Task>, Error> {
        Ok(None)
    }

    /// The number of answers that the batch under way still waits for, if users answer the server.
    fn missing(&self) -> u64 {
        0
    }

    /// Learns from the sums that answer the task. Returns the number of users who have now answered all tasks
    /// of their batch.
    fn report(&mut self, _: &[u128], _: &mut dyn Rng) -> Result<u64, Error> {
        Err(Error::Broken("a batch for a policy that takes none"))
    }

    fn published(&self) -> Result<Vec<Value>, Error> {
        Ok(Vec::new())
    }

    fn learnt(&self) -> bandit::Learnt {
        bandit::Learnt::default()
    }

    fn caution(&self) -> Option<String> {
        None
    }
}

/// The methods of a [`State`] that follow from its type.
pub(crate) trait Copied {
    /// The state under the name of its policy, as [`decode`] reads it.
    fn encode(&self, name: &str) -> Result<Vec<u8>, Error>;

    fn copy(&self) -> Box<dyn State>;
}

impl<S: State + Serialize + Clone + 'static> Copied for S {
    fn encode(&self, name: &str) -> Result<Vec<u8>, Error> {
        postcard::to_stdvec(&(name, self)).map_err(|_| Error::Broken("a state that cannot be serialised"))
    }

    fn copy(&self) -> Box<dyn State> {
        Box::new(self.clone())
    }
}

/// Reads a state that was stored under `name` from all of `bytes`.
pub(crate) fn decode<S: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<S, String> {
    let ((stored, state), rest) =
        postcard::take_from_bytes::<(String, S)>(bytes).map_err(|e| e.to_string())?;
    if stored != name || !rest.is_empty() {
        return Err("policy and state disagree".into());
    }
    Ok(state)
}

/// A policy that runs in the server, which receives every context and every reward or noisy sum.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Direct<P>(pub(crate) P);

/// A type of contexts.
pub(crate) trait Context {
    fn of(context: Option<&Features>) -> Result<&Self, Error>;
}

impl Context for () {
    fn of(_: Option<&Features>) -> Result<&(), Error> {
        Ok(&())
    }
}

impl Context for Features {
    fn of(context: Option<&Features>) -> Result<&Features, Error> {
        context.ok_or(Error::Broken("a contextual policy without a context"))
    }
}

/// A type of feedback.
pub(crate) trait Feedback {
    fn of(feedback: &ClearFeedback) -> Result<&Self, Error>;
}

impl Feedback for f64 {
    fn of(feedback: &ClearFeedback) -> Result<&f64, Error> {
        feedback.reward.as_ref().or(feedback.sum.as_ref()).ok_or(Error::Broken("feedback without its number"))
    }
}

impl Feedback for [f64] {
    fn of(feedback: &ClearFeedback) -> Result<&[f64], Error> {
        feedback.rewards.as_deref().ok_or(Error::Broken("feedback without its rewards"))
    }
}

impl<P> State for Direct<P>
where
    P: Policy<Context: Context, Feedback: Feedback> + Clone + Send + Sync + 'static,
{
    fn privacy(&self) -> Result<PrivacyStatement, Error> {
        Ok(self.0.privacy())
    }

    fn decide(&mut self, context: Option<&Features>, rng: &mut dyn Rng) -> Result<Option<usize>, Error> {
        Ok(Some(self.0.decide(P::Context::of(context)?, rng)?))
    }

    fn decide_open(
        &mut self,
        context: &Features,
        open: &[bool],
        rng: &mut dyn Rng,
    ) -> Result<Option<usize>, Error> {
        Ok(Some(self.0.decide_open(P::Context::of(Some(context))?, open, rng)?))
    }

    fn learnt(&self) -> bandit::Learnt {
        self.0.learnt()
    }

    fn caution(&self) -> Option<String> {
        self.0.caution()
    }

    fn mark(&self) -> u64 {
        self.0.mark()
    }

    fn recall(&mut self, mark: u64) {
        self.0.recall(mark);
    }

    fn learn(
        &mut self,
        context: Option<&Features>,
        arm: usize,
        feedback: &ClearFeedback,
        rng: &mut dyn Rng,
    ) -> Result<(), Error> {
        Ok(self.0.learn(P::Context::of(context)?, arm, P::Feedback::of(feedback)?, rng)?)
    }
}

impl State for EliminationServer {
    fn privacy(&self) -> Result<PrivacyStatement, Error> {
        Ok(self.privacy()?)
    }

    fn decide(&mut self, _: Option<&Features>, _: &mut dyn Rng) -> Result<Option<usize>, Error> {
        Ok(Some(EliminationServer::decide(self)?))
    }

    fn learn(
        &mut self,
        _: Option<&Features>,
        _: usize,
        feedback: &ClearFeedback,
        rng: &mut dyn Rng,
    ) -> Result<(), Error> {
        Ok(self.share(feedback.share.ok_or(Error::Broken("feedback without its share"))?, rng)?)
    }

    fn task(&self) -> Result<Option<Task>, Error> {
        Ok(self.task())
    }

    fn missing(&self) -> u64 {
        EliminationServer::missing(self)
    }

    fn learnt(&self) -> bandit::Learnt {
        self.stage().learnt()
    }

    fn report(&mut self, sums: &[u128], rng: &mut dyn Rng) -> Result<u64, Error> {
        let [total] = sums else { return Err(Error::Broken("another number of sums than was checked")) };
        Ok(self.report(*total, rng)?)
    }
}

impl State for ShuffleGlmServer {
    fn privacy(&self) -> Result<PrivacyStatement, Error> {
        Ok(self.privacy()?)
    }

    fn decide(&mut self, _: Option<&Features>, _: &mut dyn Rng) -> Result<Option<usize>, Error> {
        Ok(None)
    }

    fn task(&self) -> Result<Option<Task>, Error> {
        Ok(self.task()?)
    }

    fn report(&mut self, sums: &[u128], _: &mut dyn Rng) -> Result<u64, Error> {
        Ok(self.report(sums)?)
    }

    fn learnt(&self) -> bandit::Learnt {
        ShuffleGlmServer::learnt(self)
    }

    fn published(&self) -> Result<Vec<Value>, Error> {
        let values = self.published().iter().map(serde_json::to_value).collect::<Result<_, _>>();
        values.map_err(|_| Error::Broken("an estimate that cannot be serialised"))
    }
}

/// A configured policy and all that it has learnt. Stored and read back, it continues exactly.
///
/// It is stored as the name of the policy, its parameters as JSON, and the [serialised state](Self::state).
pub struct PolicyState {
    config: PolicyConfig,
    state: Box<dyn State>,
}

impl Clone for PolicyState {
    fn clone(&self) -> Self {
        PolicyState { config: self.config.clone(), state: self.state.copy() }
    }
}

/// The effect of a batch of sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// Number of users who have now answered all tasks of their batch.
    pub users: u64,
    /// Whether these are the first sums of their batch. The privacy cost of all its sums is charged now.
    pub first: bool,
}

impl PolicyState {
    /// The policy before its first round.
    ///
    /// # Errors
    /// Those of the policy, with the name of the parameter; [`Error::Parameter`] outside the limits of a
    /// service.
    pub fn new(config: PolicyConfig) -> Result<Self, Error> {
        Ok(PolicyState { state: config.make()?, config })
    }

    /// The parameters.
    pub fn config(&self) -> &PolicyConfig {
        &self.config
    }

    /// The guarantee of the whole run.
    ///
    /// # Errors
    /// Those of the policy, which do not occur for a configuration that was accepted.
    pub fn privacy(&self) -> Result<PrivacyStatement, Error> {
        self.state.privacy()
    }

    /// The arm to play; `None` if devices choose. It depends on data only through private releases.
    ///
    /// # Errors
    /// Those of the policy. The state must then be discarded.
    pub fn decide(&mut self, context: Option<&Features>, rng: &mut dyn Rng) -> Result<Option<usize>, Error> {
        self.state.decide(context, rng)
    }

    /// As [`Self::decide`], where the arms a with `open[a]` alone may be played.
    ///
    /// # Errors
    /// As [`Self::decide`]; [`bandit::Error::ClosedArms`] for a policy that does not have it.
    pub fn decide_open(
        &mut self,
        context: &Features,
        open: &[bool],
        rng: &mut dyn Rng,
    ) -> Result<Option<usize>, Error> {
        self.state.decide_open(context, open, rng)
    }

    /// What the last decision must be [recalled](Self::recall) by, if others are made before its feedback.
    pub fn mark(&self) -> u64 {
        self.state.mark()
    }

    /// Makes the decision with this mark the one that is learnt next.
    pub fn recall(&mut self, mark: u64) {
        self.state.recall(mark);
    }

    /// Refuses feedback that the policy could not learn from, whenever its turn comes.
    ///
    /// # Errors
    /// [`bandit::Error`] with the value that is out of range. That of a share depends on its batch, and is
    /// found when it is learnt.
    pub fn check_feedback(&self, feedback: &ClearFeedback) -> Result<(), Error> {
        let ClearFeedback { reward, rewards, sum, .. } = feedback;
        let profile = self.config.profile();
        let (least, most) = profile.rewards();
        let within = |value: f64| (least..=most).contains(&value);
        if let Some(got) = reward.filter(|reward| !within(*reward)) {
            let want = format!("in [{least}, {most}]");
            return Err(bandit::Error::from(fault::OutOfRange::new("reward", got, want)).into());
        }
        if let Some(got) = sum.filter(|sum| !within(*sum)) {
            let want = format!("in [{least}, {most}]");
            return Err(bandit::Error::from(fault::OutOfRange::new("sum", got, want)).into());
        }
        let Some(rewards) = rewards else { return Ok(()) };
        if rewards.len() != profile.arms {
            return Err(bandit::Error::Rewards { got: rewards.len(), k: profile.arms }.into());
        }
        match rewards.iter().enumerate().find(|(_, reward)| !within(**reward)) {
            Some((arm, &got)) => Err(bandit::Error::RewardOfArm { arm, got, max: most }.into()),
            None => Ok(()),
        }
    }

    /// The number of answers that the batch under way still waits for, if users answer the server.
    pub fn missing(&self) -> u64 {
        self.state.missing()
    }

    /// Learns from feedback on `arm`.
    ///
    /// # Errors
    /// Those of the policy. The state must then be discarded.
    pub fn learn(
        &mut self,
        context: Option<&Features>,
        arm: usize,
        feedback: &ClearFeedback,
        rng: &mut dyn Rng,
    ) -> Result<(), Error> {
        self.state.learn(context, arm, feedback, rng)
    }

    /// What has been learnt, as far as the guarantee covers its release.
    pub fn learnt(&self) -> Learnt {
        let bandit::Learnt { pulls, means, left, leader, probabilities, theta } = self.state.learnt();
        Learnt { pulls, means, left, leader, probabilities, theta }
    }

    /// What a user must know who expects much of these parameters.
    pub fn caution(&self) -> Option<String> {
        self.state.caution()
    }

    /// The sum that the policy waits for, if it learns from sums of users' answers.
    ///
    /// # Errors
    /// Those of the policy.
    pub fn task(&self) -> Result<Option<Task>, Error> {
        self.state.task()
    }

    /// Learns from the sums that answer `task`, which must be the policy's [task](Self::task).
    ///
    /// # Errors
    /// [`bandit::Error::Shares`] for another number of users, [`Error::Parameter`] for another number of
    /// labels; those of the policy. The state must then be discarded.
    pub fn report(&mut self, task: &Task, batch: &SummedBatch, rng: &mut dyn Rng) -> Result<Reported, Error> {
        if batch.users != task.users {
            return Err(bandit::Error::Shares { got: batch.users, users: task.users }.into());
        }
        let want = task.ask.sums();
        if batch.labels != want || batch.sums.len() != want {
            let why = format!("labels are {}, this exchange has {want}", batch.labels);
            return Err(Error::Parameter { why });
        }
        let users = self.state.report(&batch.sums, rng)?;
        Ok(Reported { users, first: !matches!(task.ask, Ask::Gradient { .. }) })
    }

    /// The values, one for each complete batch, from which devices choose their arms.
    ///
    /// # Errors
    /// [`Error::Broken`], which does not occur.
    pub fn published(&self) -> Result<Vec<Value>, Error> {
        self.state.published()
    }

    /// The serialised state: the name of the policy, then what it has learnt.
    ///
    /// # Errors
    /// [`Error::Broken`], which does not occur.
    pub fn state(&self) -> Result<Vec<u8>, Error> {
        self.state.encode(self.config.name())
    }
}

impl Serialize for PolicyState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parameters = self.config.parameters().map_err(S::Error::custom)?;
        let parameters = serde_json::to_string(&parameters).map_err(S::Error::custom)?;
        let state = self.state().map_err(S::Error::custom)?;
        (self.config.name(), parameters, Bytes(&state)).serialize(serializer)
    }
}

/// Bytes that are serialised as one sequence.
struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de> Deserialize<'de> for PolicyState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (name, parameters, state) = <(String, String, Vec<u8>)>::deserialize(deserializer)?;
        let parameters = serde_json::from_str(&parameters).map_err(D::Error::custom)?;
        let config = registry::read(&name, parameters).map_err(D::Error::custom)?;
        let state = config.restore(&state).map_err(D::Error::custom)?;
        Ok(PolicyState { config, state })
    }
}
