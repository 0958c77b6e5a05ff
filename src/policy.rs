//! The registry: names, parameters and state of every policy in the clear. A new policy is a variant of [`Config`] and of
//! [`Learner`], a line in `make.rs` and one in `offers.rs`.

mod learner;
mod make;
mod offers;

pub(crate) use learner::Learner;
pub(crate) use offers::offers;

use crate::Error;
use bandit::Features;
use bandit::anonymous::{OdaafRule, RoundSize, UpdateRule};
use glm::Link;
use glm::shuffle::Parameters;
use privacy::budget::{Delta, Epsilon, Neighbours};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wire::FeedbackKind;

/// What a bandit in the clear is told beforehand: `{"policy": NAME, PARAMETER: …}` in a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Config {
    AnytimeLazyUcb {
        arms: usize,
        epsilon: Epsilon,
    },
    HybridUcb {
        arms: usize,
        epsilon: Epsilon,
    },
    DpSe {
        arms: usize,
        epsilon: Epsilon,
        beta: f64,
    },
    Ucb1 {
        arms: usize,
    },
    FollowTheNoisyLeader {
        arms: usize,
        epsilon: Epsilon,
        #[serde(default = "replace_one")]
        neighbours: Neighbours,
        #[serde(default)]
        private: Released,
    },
    FollowTheLeader {
        arms: usize,
    },
    Elimination {
        arms: usize,
        horizon: u64,
        epsilon: Epsilon,
        model: ModelName,
        #[serde(default)]
        confidence: Option<f64>,
        #[serde(default = "two")]
        growth: u64,
        #[serde(default = "one")]
        scale: f64,
        #[serde(default)]
        delta: Option<Delta>,
        #[serde(default)]
        colluding: f64,
    },
    ArsUcb {
        arms: usize,
        #[serde(default = "four")]
        alpha: f64,
        #[serde(default = "squares")]
        round_size: RoundSize,
    },
    ArsExp3 {
        arms: usize,
        horizon: u64,
        #[serde(default = "half")]
        beta: f64,
    },
    ArsClw {
        arms: usize,
        #[serde(default = "sixty_four")]
        first: u64,
        #[serde(default = "three")]
        root: u32,
    },
    Clw {
        arms: usize,
        horizon: u64,
        interval: u32,
        #[serde(default = "spaced")]
        rule: UpdateRule,
    },
    Odaaf {
        arms: usize,
        horizon: u64,
        rule: OdaafRule,
    },
    Oful {
        arms: usize,
        features: usize,
        #[serde(default = "one")]
        lambda: f64,
        #[serde(default = "half")]
        alpha: f64,
    },
    RsGlinucb(Linked),
    GlmUcb {
        arms: usize,
        features: usize,
        horizon: u64,
        delta: f64,
        #[serde(default = "logistic")]
        link: Link,
        #[serde(default = "one")]
        s: f64,
        #[serde(default)]
        kappa: Option<f64>,
        #[serde(default = "five")]
        refit_every: u64,
    },
    Gloc(Linked),
    Ecolog {
        arms: usize,
        features: usize,
        horizon: u64,
        delta: f64,
        #[serde(default = "one")]
        s: f64,
    },
    JointGlm {
        arms: usize,
        features: usize,
        horizon: u64,
        epsilon: Epsilon,
        delta: f64,
        #[serde(default = "logistic")]
        link: Link,
        #[serde(default = "one")]
        s: f64,
        #[serde(default)]
        kappa: Option<f64>,
        gamma: f64,
        beta: f64,
    },
    ShuffleGlm(Parameters),
}

/// Of a policy that follows a link and takes nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Linked {
    arms: usize,
    features: usize,
    horizon: u64,
    delta: f64,
    #[serde(default = "logistic")]
    link: Link,
    #[serde(default = "one")]
    s: f64,
    /// That of the whole ball unless it is given.
    #[serde(default)]
    kappa: Option<f64>,
}

/// [`Model`](bandit::distributed::Model) by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ModelName {
    Central,
    Local,
    Pure,
    Renyi,
    Concentrated,
    Shuffle,
}

/// What of the noisy leader is private.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Released {
    /// The leader alone.
    #[default]
    Leader,
    /// Every noisy sum: the naive form.
    Sums,
}

impl ModelName {
    /// Parameters of an elimination that every model has not.
    const SOME_HAVE: [&str; 3] = ["delta", "scale", "colluding"];

    /// Which of those parameters this model takes. If delta is one of them, it must be given.
    const fn has(self) -> &'static [&'static str] {
        match self {
            Self::Renyi | Self::Concentrated => &Self::SOME_HAVE,
            Self::Shuffle => &["delta", "colluding"],
            Self::Pure => &["colluding"],
            Self::Central | Self::Local => &[],
        }
    }
}

/// What is wrong with a parameter, its name first.
fn named(policy: &str, field: Option<&str>, why: &str) -> String {
    let why = ["usize", "u64", "u32"].iter().fold(why.to_string(), |why, integer| {
        why.replace(&format!("expected {integer}"), "expected a whole number")
    });
    let missing = why.strip_prefix("missing field `").and_then(|rest| rest.split_once('`'));
    match (field, missing) {
        (None, _) if why.starts_with(&format!("unknown variant `{policy}`")) => {
            format!("policy: `{policy}` is none of those that GET /v1/policies lists")
        }
        (None, Some((missing, _))) => format!("{missing}: missing, {policy} needs it"),
        // Values name themselves where they are checked.
        (Some(field), _) if !why.starts_with(&format!("{field} ")) => format!("{field}: {why}"),
        _ => why,
    }
}

fn replace_one() -> Neighbours {
    Neighbours::ReplaceOne
}
fn two() -> u64 {
    2
}
fn four() -> f64 {
    4.0
}
fn five() -> u64 {
    5
}
fn three() -> u32 {
    3
}
fn sixty_four() -> u64 {
    64
}
fn spaced() -> UpdateRule {
    UpdateRule::Spaced
}
fn one() -> f64 {
    1.0
}
fn half() -> f64 {
    0.5
}
fn squares() -> RoundSize {
    RoundSize::SQUARES
}
fn logistic() -> Link {
    Link::Logistic
}

impl Config {
    /// From the body of a creation request.
    ///
    /// # Errors
    /// [`Error::BadParameter`], which names the parameter.
    pub(crate) fn from_request(mut body: Map<String, Value>) -> Result<Self, Error> {
        let bad = |why: String| Error::BadParameter { why };
        let Some(Value::String(name)) = body.remove("policy") else {
            return Err(bad("policy: must be a string; GET /v1/policies lists them".into()));
        };
        let model = body.get("model").and_then(|model| ModelName::deserialize(model).ok());
        if let Some(model) = model.filter(|_| name == "elimination") {
            // A parameter that would change nothing is no promise that it does.
            let idle = |field: &&&str| body.contains_key(**field) && !model.has().contains(field);
            if let Some(field) = ModelName::SOME_HAVE.iter().find(idle) {
                let models = match *field {
                    "delta" => "renyi, concentrated and shuffle",
                    "colluding" => "pure, renyi, concentrated and shuffle",
                    _ => "renyi and concentrated",
                };
                return Err(bad(format!("{field}: only the models {models} have one")));
            }
            if model.has().contains(&"delta") && !body.contains_key("delta") {
                return Err(bad("delta: missing, the guarantee of this model is stated at one".into()));
            }
        }
        let tagged = Value::Object(Map::from_iter([(name.clone(), Value::Object(body))]));
        serde_path_to_error::deserialize(tagged).map_err(|e| {
            let path = e.path().to_string();
            let field =
                path.strip_prefix(&name).and_then(|p| p.strip_prefix('.')).filter(|f| !["", "?"].contains(f));
            bad(named(&name, field, &e.into_inner().to_string()))
        })
    }

    /// Name and parameters, defaults filled in.
    pub(crate) fn to_parts(&self) -> Result<(String, Map<String, Value>), Error> {
        let broken = Error::Broken("a configuration that is not a tagged object");
        let Ok(Value::Object(tagged)) = serde_json::to_value(self) else { return Err(broken) };
        match tagged.into_iter().next() {
            Some((name, Value::Object(mut parameters))) => {
                if let Config::Elimination { model, .. } = self {
                    let some_have = |name: &str| ModelName::SOME_HAVE.contains(&name);
                    parameters.retain(|name, _| !some_have(name) || model.has().contains(&name.as_str()));
                    // 0 is the default, and is left out.
                    if parameters.get("colluding").and_then(Value::as_f64) == Some(0.0) {
                        parameters.remove("colluding");
                    }
                }
                Ok((name, parameters))
            }
            _ => Err(broken),
        }
    }

    /// Features of an arm, and arms; `None` if decisions take no context here.
    pub(crate) fn shape(&self) -> Option<(usize, usize)> {
        match *self {
            Config::Oful { arms, features, .. }
            | Config::RsGlinucb(Linked { arms, features, .. })
            | Config::GlmUcb { arms, features, .. }
            | Config::Gloc(Linked { arms, features, .. })
            | Config::Ecolog { arms, features, .. }
            | Config::JointGlm { arms, features, .. } => Some((features, arms)),
            _ => None,
        }
    }

    /// Whether decisions name no arm.
    pub(crate) fn chooses_on_devices(&self) -> bool {
        matches!(self, Config::ShuffleGlm(_))
    }

    /// Whether making the policy sizes noise by bisection of an exact divergence, which may take seconds.
    pub(crate) fn sizes_noise(&self) -> bool {
        matches!(self, Config::ShuffleGlm(_))
    }

    /// The most labels that one of its batches may have.
    pub(crate) fn labels(&self) -> usize {
        match *self {
            Config::ShuffleGlm(Parameters { features, .. }) => features * (features + 1) / 2,
            _ => 1,
        }
    }

    /// What it learns from.
    pub(crate) fn feedback(&self) -> FeedbackKind {
        match self {
            Config::FollowTheNoisyLeader { .. } | Config::FollowTheLeader { .. } => FeedbackKind::Rewards,
            Config::Elimination { model: ModelName::Central, .. } => FeedbackKind::Reward,
            Config::Elimination { model: ModelName::Local, .. } => FeedbackKind::Share,
            Config::Elimination { .. } | Config::ShuffleGlm(_) => FeedbackKind::Batch,
            Config::ArsUcb { .. }
            | Config::ArsExp3 { .. }
            | Config::ArsClw { .. }
            | Config::Clw { .. }
            | Config::Odaaf { .. } => FeedbackKind::Sum,
            _ => FeedbackKind::Reward,
        }
    }

    fn arms(&self) -> usize {
        match *self {
            Config::AnytimeLazyUcb { arms, .. }
            | Config::HybridUcb { arms, .. }
            | Config::DpSe { arms, .. }
            | Config::Ucb1 { arms }
            | Config::FollowTheNoisyLeader { arms, .. }
            | Config::FollowTheLeader { arms }
            | Config::Elimination { arms, .. }
            | Config::ArsUcb { arms, .. }
            | Config::ArsExp3 { arms, .. }
            | Config::ArsClw { arms, .. }
            | Config::Clw { arms, .. }
            | Config::Odaaf { arms, .. }
            | Config::Oful { arms, .. }
            | Config::RsGlinucb(Linked { arms, .. })
            | Config::GlmUcb { arms, .. }
            | Config::Gloc(Linked { arms, .. })
            | Config::Ecolog { arms, .. }
            | Config::JointGlm { arms, .. }
            | Config::ShuffleGlm(Parameters { arms, .. }) => arms,
        }
    }

    /// Whether `learner` is of the kind that [`make`](Self::make) makes, and what is remembered with a decision of the
    /// right shape.
    pub(crate) fn fits(&self, learner: &Learner, arm: usize, context: Option<&Features>) -> bool {
        use {Config as C, Learner as L};
        let kind = matches!(
            (self, learner),
            (C::AnytimeLazyUcb { .. }, L::AnytimeLazyUcb(_))
                | (C::HybridUcb { .. }, L::HybridUcb(_))
                | (C::DpSe { .. }, L::DpSe(_))
                | (C::Ucb1 { .. }, L::Ucb1(_))
                | (C::FollowTheNoisyLeader { .. } | C::FollowTheLeader { .. }, L::Leader(_))
                | (C::Elimination { model: ModelName::Central, .. }, L::Elimination(_))
                | (C::ArsUcb { .. }, L::ArsUcb(_))
                | (C::ArsExp3 { .. }, L::ArsExp3(_))
                | (C::ArsClw { .. }, L::ArsClw(_))
                | (C::Clw { .. }, L::Clw(_))
                | (C::Odaaf { .. }, L::Odaaf(_))
                | (C::Oful { .. }, L::Oful(_))
                | (C::GlmUcb { .. }, L::GlmUcb(_))
                | (C::Gloc(_), L::Gloc(_))
                | (C::Ecolog { .. }, L::Ecolog(_))
                | (C::RsGlinucb(_) | C::JointGlm { .. }, L::JointGlm(_))
                | (C::ShuffleGlm(_), L::ShuffledGlm(_))
        );
        // Of the same model too: what users of one send is nothing to another.
        let sums = match learner {
            L::Sums(sums) => self.elimination().is_ok_and(|config| config == *sums.config()),
            _ => false,
        };
        let shape = context.map(|c| (c.d(), c.k()));
        (kind || sums) && arm < self.arms() && (shape.is_none() || shape == self.shape())
    }
}
