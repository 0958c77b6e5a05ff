//! Parameters of policies: one type for each policy, and one erased type for callers.

use crate::state::{State, decode};
use crate::{Error, limits, registry};
use privacy::budget::Epsilon;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::fmt::Debug;
use std::sync::Arc;
use wire::{FeedbackKind, LateRule};

/// The bound on the norm of the features of an arm, of every contextual policy.
pub const FEATURES_BOUND: f64 = 1.0;

/// The parameters of one policy in a creation request.
pub(crate) trait PolicyParameters:
    Debug + Clone + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Name of the policy in requests.
    const NAME: &'static str;
    /// The smallest epsilon of the policy. Below it the noise leaves the range of the samplers.
    const LEAST_EPSILON: f64 = limits::LEAST_EPSILON;
    /// The state of the policy.
    type State: State + Serialize + DeserializeOwned + 'static;

    /// The properties of the policy on which a service depends.
    fn profile(&self) -> Profile;

    /// The state before the first round. The callers have checked arms, shape and epsilon.
    fn make(&self) -> Result<Self::State, Error>;

    /// Whether a stored `state` belongs to these parameters.
    fn fits(&self, _: &Self::State) -> bool {
        true
    }
}

/// Declares the parameters of a policy that runs in the server: name in requests, type, fields, policy,
/// profile, and how the policy is made. The fields are those of the creation request.
macro_rules! policy {
    (
        $name:literal, $type:ident { $($(#[$attr:meta])* $field:ident: $of:ty),* $(,)? } => $policy:ty;
        profile($this:ident) $profile:expr;
        make($maker:ident) $make:expr
    ) => {
        #[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $type { $($(#[$attr])* $field: $of),* }

        impl crate::config::PolicyParameters for $type {
            const NAME: &'static str = $name;
            type State = crate::state::Direct<$policy>;

            fn profile(&self) -> crate::config::Profile {
                let $this = self;
                $profile
            }

            fn make(&self) -> Result<Self::State, crate::Error> {
                let $maker = self;
                Ok(crate::state::Direct($make))
            }
        }
    };
}
pub(crate) use policy;

/// The properties of a policy, with its parameters, on which a service depends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// Number of arms.
    pub arms: usize,
    /// Number of features of each arm; `None` if decisions take no context.
    pub features: Option<usize>,
    /// Epsilon of the guarantee; `None` if the policy has none.
    pub epsilon: Option<Epsilon>,
    /// The kind of feedback that the policy learns from.
    pub feedback: FeedbackKind,
    /// The rule by which late feedback is learnt.
    pub late: LateRule,
    /// The most decisions that a contextual policy learns from; `None` if it knows no horizon.
    pub horizon: Option<u64>,
    /// Whether users add the noise, so that the feedback received contains it.
    pub users_add_noise: bool,
    /// Whether devices choose the arms, so that decisions name none.
    pub devices_choose: bool,
    /// Whether [`PolicyState::new`](crate::PolicyState::new) calibrates noise by bisection of an exact
    /// divergence, which may take seconds.
    pub calibrates: bool,
    /// The largest number of labels of a batch of sums.
    pub labels: usize,
}

impl Profile {
    /// The profile of a policy that learns from the reward of the arm played, one decision after the other.
    pub(crate) const fn of(arms: usize) -> Self {
        Profile {
            arms,
            features: None,
            epsilon: None,
            feedback: FeedbackKind::Reward,
            late: LateRule::AnyOrder,
            horizon: None,
            users_add_noise: false,
            devices_choose: false,
            calibrates: false,
            labels: 1,
        }
    }

    /// The profile of a contextual policy.
    pub(crate) const fn contextual(features: usize, arms: usize) -> Self {
        Profile { features: Some(features), ..Self::of(arms) }
    }

    /// This profile with a guarantee of `epsilon`, whose proof needs rewards in the order of decisions.
    pub(crate) const fn private(self, epsilon: Epsilon) -> Self {
        Profile { epsilon: Some(epsilon), ..self.late(LateRule::Queue) }
    }

    /// This profile with another rule for late feedback.
    pub(crate) const fn late(self, late: LateRule) -> Self {
        Profile { late, ..self }
    }

    /// This profile with a bound on the decisions that are learnt.
    pub(crate) const fn until(self, horizon: u64) -> Self {
        Profile { horizon: Some(horizon), ..self }
    }

    /// This profile with another kind of feedback.
    pub(crate) const fn from(self, feedback: FeedbackKind) -> Self {
        Profile { feedback, ..self }
    }

    /// Whether every decision must be learnt from, with a default value if its reward does not come.
    pub fn keeps_places(&self) -> bool {
        self.late == LateRule::Queue && self.epsilon.is_some()
    }

    /// The least and the largest reward, or sum of rewards.
    pub fn rewards(&self) -> (f64, f64) {
        match self.feedback {
            FeedbackKind::Sum => (0.0, limits::MAX_REWARD),
            FeedbackKind::Reward if self.features.is_some() && self.horizon.is_none() => {
                (-limits::MAX_REWARD, limits::MAX_REWARD)
            }
            _ => (0.0, 1.0),
        }
    }

    /// The number of features of an arm, and of arms; `None` if decisions take no context.
    pub fn shape(&self) -> Option<(usize, usize)> {
        self.features.map(|features| (features, self.arms))
    }
}

/// [`PolicyParameters`] whose type is erased.
trait Erased: Debug + Send + Sync {
    fn name(&self) -> &'static str;
    fn parameters(&self) -> Result<Map<String, Value>, Error>;
    fn profile(&self) -> Profile;
    fn make(&self) -> Result<Box<dyn State>, Error>;
    fn read(&self, bytes: &[u8]) -> Result<Box<dyn State>, String>;
}

impl<P: PolicyParameters> Erased for P {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn parameters(&self) -> Result<Map<String, Value>, Error> {
        match serde_json::to_value(self) {
            Ok(Value::Object(parameters)) => Ok(parameters),
            _ => Err(Error::Broken("parameters that are not an object")),
        }
    }

    fn profile(&self) -> Profile {
        PolicyParameters::profile(self)
    }

    fn make(&self) -> Result<Box<dyn State>, Error> {
        check(self)?;
        Ok(Box::new(PolicyParameters::make(self)?))
    }

    fn read(&self, bytes: &[u8]) -> Result<Box<dyn State>, String> {
        check(self).map_err(|e| e.to_string())?;
        let state: P::State = decode(P::NAME, bytes)?;
        if !self.fits(&state) {
            return Err("policy and state disagree".into());
        }
        Ok(Box::new(state))
    }
}

/// Refuses parameters outside the limits of a service.
fn check<P: PolicyParameters>(parameters: &P) -> Result<(), Error> {
    let Profile { arms, features, epsilon, .. } = parameters.profile();
    limits::check_arms(arms)?;
    epsilon.map_or(Ok(()), |epsilon| limits::check_epsilon(epsilon, P::LEAST_EPSILON))?;
    features.map_or(Ok(()), |features| limits::check_shape(features, arms))
}

/// The parameters of a policy, with all defaults filled in.
#[derive(Debug, Clone)]
pub struct PolicyConfig(Arc<dyn Erased>);

impl PolicyConfig {
    pub(crate) fn new(parameters: impl PolicyParameters) -> Self {
        PolicyConfig(Arc::new(parameters))
    }

    /// Reads the body of a creation request: `{"policy": NAME, PARAMETER: …}`.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the name of the parameter.
    pub fn from_request(mut body: Map<String, Value>) -> Result<Self, Error> {
        match body.remove("policy") {
            Some(Value::String(name)) => registry::read(&name, body),
            _ => {
                Err(Error::Parameter { why: "policy: must be a string; GET /v1/policies lists them".into() })
            }
        }
    }

    /// Name of the policy in requests.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// The parameters as JSON.
    ///
    /// # Errors
    /// [`Error::Broken`], which does not occur.
    pub fn parameters(&self) -> Result<Map<String, Value>, Error> {
        self.0.parameters()
    }

    /// The properties of the policy on which a service depends.
    pub fn profile(&self) -> Profile {
        self.0.profile()
    }

    /// The state before the first round.
    pub(crate) fn make(&self) -> Result<Box<dyn State>, Error> {
        self.0.make()
    }

    /// The state that was stored as `bytes`.
    pub(crate) fn restore(&self, bytes: &[u8]) -> Result<Box<dyn State>, String> {
        self.0.read(bytes)
    }
}
