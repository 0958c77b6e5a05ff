//! The policies that fit a file.

use crate::Error;
use bandit::{Arithmetic, Features, HelbaClear, Policy};
use datasets::Dataset;
use policies::{PolicyConfig, PolicyState, cards};
use privacy::PrivacyStatement;
use privacy::source::SplitMix64;
use protocol::BanditConfig;
use serde::Serialize;
use serde_json::{Map, Value};
use wire::{ClearFeedback, FeedbackKind, PolicyCard};

/// What is evaluated.
#[derive(Debug, Clone)]
pub struct EvaluationSettings {
    /// Names of policies; all that fit, if there are none.
    pub policies: Vec<String>,
    /// Epsilon of the policies that have one.
    pub epsilon: f64,
    /// Number of seeds, from seed 0.
    pub seeds: u64,
    /// The most rounds, from the first.
    pub rounds: usize,
}

impl Default for EvaluationSettings {
    fn default() -> Self {
        EvaluationSettings { policies: Vec::new(), epsilon: 1.0, seeds: 10, rounds: usize::MAX }
    }
}

/// A policy that was left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unfit {
    /// The policy.
    pub policy: String,
    /// The reason.
    pub reason: String,
}

/// A policy before its first round.
#[derive(Clone)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) parameters: Map<String, Value>,
    pub(crate) privacy: PrivacyStatement,
    learner: Learner,
    feedback: FeedbackKind,
}

#[derive(Clone)]
enum Learner {
    Registry(Box<PolicyState>, bool),
    Helba(Box<HelbaClear>),
}

impl Contender {
    /// The arm of a round.
    pub(crate) fn decide(&mut self, features: &Features, rng: &mut SplitMix64) -> Result<usize, String> {
        match &mut self.learner {
            Learner::Registry(state, contextual) => {
                let arm = state.decide(contextual.then_some(features), rng).map_err(|e| e.to_string())?;
                arm.ok_or_else(|| "it names no arm".into())
            }
            Learner::Helba(policy) => policy.decide(features, rng).map_err(|e| e.to_string()),
        }
    }

    /// Learns from the reward of the arm that it has decided for, or from those of all.
    pub(crate) fn learn(
        &mut self,
        features: &Features,
        arm: usize,
        (reward, every): (f64, Option<&[f64]>),
        rng: &mut SplitMix64,
    ) -> Result<(), String> {
        let empty = ClearFeedback::default();
        let feedback = match (self.feedback, every) {
            (FeedbackKind::Rewards, Some(every)) => ClearFeedback { rewards: Some(every.to_vec()), ..empty },
            // Without delays, the rewards that arrived since the last decision are that of this one.
            (FeedbackKind::Sum, _) => ClearFeedback { sum: Some(reward), ..empty },
            _ => ClearFeedback { reward: Some(reward), ..empty },
        };
        match &mut self.learner {
            Learner::Registry(state, contextual) => {
                let context = contextual.then_some(features);
                state.learn(context, arm, &feedback, rng).map_err(|e| e.to_string())
            }
            Learner::Helba(policy) => policy.learn(features, arm, &reward, rng).map_err(|e| e.to_string()),
        }
    }
}

/// The policies that fit `rounds` rounds of `dataset`, and those that do not, with the reasons.
pub(crate) fn contenders(
    dataset: &Dataset,
    rounds: usize,
    logged: bool,
    settings: &EvaluationSettings,
) -> Result<(Vec<Contender>, Vec<Unfit>), Error> {
    let refused = |reason: String| Error::Policies { reason };
    let mut fits = Vec::new();
    let mut unfit = Vec::new();
    let wanted = |name: &str| {
        // `elimination` means all of its models.
        let base = name.split(" (").next().unwrap_or(name);
        settings.policies.is_empty() || settings.policies.iter().any(|want| want == name || want == base)
    };
    let cards = cards().map_err(|e| refused(e.to_string()))?;
    let mut names = vec!["helba".to_string()];
    names.extend(cards.iter().map(name));
    if let Some(unknown) = settings
        .policies
        .iter()
        .find(|want| !names.iter().any(|name| name == *want || name.split(" (").next() == Some(want)))
    {
        return Err(refused(format!("no policy is named {unknown}: the names are {}", names.join(", "))));
    }
    if wanted("helba") {
        let linear = BanditConfig::new(dataset.d(), dataset.arms().len()).linear;
        match HelbaClear::new(linear, Arithmetic::Exact) {
            Ok(policy) => fits.push(Contender {
                name: "helba".into(),
                parameters: as_object(serde_json::to_value(linear)),
                privacy: PrivacyStatement::none(
                    "The encrypted bandit, here in exact arithmetic: the server sees ciphertexts only, and decisions reveal what \
                     they reveal.",
                ),
                learner: Learner::Helba(Box::new(policy)),
                feedback: FeedbackKind::Reward,
            }),
            Err(error) => unfit.push(Unfit { policy: "helba".into(), reason: error.to_string() }),
        }
    }
    for card in cards.iter().filter(|card| wanted(&name(card))) {
        let policy = name(card);
        match contender(card, dataset, rounds, logged, settings.epsilon) {
            Ok(contender) => fits.push(contender),
            Err(reason) => unfit.push(Unfit { policy, reason }),
        }
    }
    if fits.is_empty() {
        let why: Vec<String> = unfit.iter().map(|u| format!("{}: {}", u.policy, u.reason)).collect();
        return Err(refused(format!("no policy fits this file; {}", why.join("; "))));
    }
    Ok((fits, unfit))
}

/// The name of a card, with what tells cards of one policy apart.
fn name(card: &PolicyCard) -> String {
    let variant = ["model", "private"].into_iter().find_map(|key| card.example.get(key)?.as_str());
    variant.map_or_else(|| card.policy.clone(), |variant| format!("{} ({variant})", card.policy))
}

fn contender(
    card: &PolicyCard,
    dataset: &Dataset,
    rounds: usize,
    logged: bool,
    epsilon: f64,
) -> Result<Contender, String> {
    match card.feedback {
        FeedbackKind::Reward | FeedbackKind::Sum => {}
        FeedbackKind::Rewards if !logged => {}
        FeedbackKind::Rewards => {
            return Err("it learns from the rewards of all candidates, and they are not known".into());
        }
        FeedbackKind::Share | FeedbackKind::Batch => {
            return Err("users add its noise on their devices: `secure-sum` and `helba-lab` run it".into());
        }
        FeedbackKind::Encrypted => return Err("it takes ciphertexts".into()),
    }
    if !card.contextual && !dataset.fixed() {
        return Err(
            "it learns about fixed candidates, and those of this file differ from round to round".into()
        );
    }
    let Value::Object(mut parameters) = card.example.clone() else {
        return Err("its card has no example".into());
    };
    let mut set = |key: &str, value: Value| {
        if parameters.contains_key(key) {
            parameters.insert(key.into(), value);
        }
    };
    set("arms", dataset.arms().len().into());
    set("features", dataset.d().into());
    set("horizon", rounds.into());
    set("epsilon", epsilon.into());
    if card.policy == "dp-se" {
        set("beta", (1.0 / rounds.max(2) as f64).into());
    }
    let config = PolicyConfig::from_request(parameters).map_err(|e| e.to_string())?;
    let parameters = config.parameters().map_err(|e| e.to_string())?;
    let state = PolicyState::new(config).map_err(|e| e.to_string())?;
    Ok(Contender {
        name: name(card),
        parameters,
        privacy: state.privacy().map_err(|e| e.to_string())?,
        learner: Learner::Registry(Box::new(state), card.contextual),
        feedback: card.feedback,
    })
}

fn as_object(value: Result<Value, serde_json::Error>) -> Map<String, Value> {
    match value {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}
