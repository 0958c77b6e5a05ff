//! The policies that fit a file.

use crate::Error;
use bandit::{Arithmetic, Features, HelbaClear, LinearConfig, Policy, Width, WidthShape};
use datasets::Dataset;
use policies::{PolicyConfig, PolicyState, cards, policy_name, policy_names};
use privacy::PrivacyStatement;
use privacy::source::SplitMix64;
use protocol::{BanditConfig, KeyPlan, Shape};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::HashSet;
use wire::{ClearFeedback, FeedbackKind, PolicyCard};

/// What is evaluated.
#[derive(Debug, Clone)]
pub struct EvaluationSettings {
    /// Names of policies, here or in other libraries; if empty, all that fit.
    pub policies: Vec<String>,
    /// Epsilon of the policies that have one.
    pub epsilon: f64,
    /// Number of runs of each policy, at least 2. Each has the rounds in another order and other random
    /// draws.
    pub seeds: u64,
    /// The most rounds, from the first of the file.
    pub rounds: usize,
    /// Parameters with the values to try: a policy that has some of them is evaluated with every combination.
    pub grid: Vec<(String, Vec<f64>)>,
    /// A rule of the user's own: its name, and the candidate that it picks in each round.
    pub rule: Option<(String, Vec<usize>)>,
    /// Whether [`Entry::picks`](crate::Entry::picks) are kept, of four bytes for each round and run.
    pub keep_picks: bool,
}

impl Default for EvaluationSettings {
    fn default() -> Self {
        EvaluationSettings {
            policies: Vec::new(),
            epsilon: 1.0,
            seeds: 10,
            rounds: usize::MAX,
            grid: Vec::new(),
            rule: None,
            keep_picks: false,
        }
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
    /// Of the encrypted bandit: why no keys carry it, if none do.
    pub(crate) encrypted: Option<Result<(), String>>,
    /// The configuration of a linear policy.
    linear: Option<LinearConfig>,
    learner: Learner,
    feedback: FeedbackKind,
}

#[derive(Clone)]
enum Learner {
    Registry(Box<PolicyState>, bool),
    Helba(Box<HelbaClear>),
}

impl Contender {
    /// The policy before its first round, with ties broken by the seed of a run where its configuration has
    /// one.
    pub(crate) fn of_run(&self, run: u64) -> Result<Self, String> {
        let mut policy = self.clone();
        if let (Learner::Helba(_), Some(linear)) = (&self.learner, self.linear) {
            let linear = LinearConfig { tie_seed: run, ..linear };
            policy.learner = Learner::Helba(Box::new(
                HelbaClear::new(linear, Arithmetic::Exact).map_err(|e| e.to_string())?,
            ));
        }
        Ok(policy)
    }

    /// Where the policy may lock in on an arm within so many rounds of rewards with this range, in words.
    pub(crate) fn lock_in_warning(&self, rounds: usize, range: f64) -> Option<String> {
        let warning = self.linear?.lock_in_warning(rounds as u64, range)?;
        Some(format!("{}: {warning}", self.name))
    }

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
    let cards = cards().map_err(|e| refused(e.to_string()))?;
    let mut bases = vec!["helba"];
    bases.extend(policy_names(&cards));
    let mut wanted = Vec::new();
    for want in &settings.policies {
        // `elimination` means all of its models.
        let whole = cards.iter().any(|card| name(card) == *want);
        wanted.push(if whole {
            want.clone()
        } else {
            policy_name(want, &bases).map_err(refused)?.to_string()
        });
    }
    let wanted = |name: &str| {
        let base = name.split(" (").next().unwrap_or(name);
        wanted.is_empty() || wanted.iter().any(|want| want == name || want == base)
    };
    let mut fits = Vec::new();
    let mut unfit = Vec::new();
    let mut tried = HashSet::new();
    let mut sort = |policy: String, point: &Point, made: Result<Contender, String>| match made {
        Ok(contender) => fits.push(Contender { name: point.name(&policy), ..contender }),
        Err(reason) => unfit.push(Unfit { policy: point.name(&policy), reason }),
    };
    if wanted("helba") {
        for point in points(&settings.grid, &["alpha", "lambda"], &mut tried) {
            sort("helba".into(), &point, encrypted(dataset, &point));
        }
    }
    for card in cards.iter().filter(|card| wanted(&name(card))) {
        let own: Vec<&str> =
            card.example.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        for point in points(&settings.grid, &own, &mut tried) {
            sort(name(card), &point, contender(card, dataset, rounds, logged, settings.epsilon, &point));
        }
    }
    if let Some((key, _)) = settings.grid.iter().find(|(key, _)| !tried.contains(key.as_str())) {
        let reason = format!(
            "no policy that is evaluated has the parameter {key} of the grid: `helba-client policies` lists them"
        );
        return Err(refused(reason));
    }
    if fits.is_empty() {
        let why: Vec<String> = unfit.iter().map(|u| format!("{}: {}", u.policy, u.reason)).collect();
        return Err(refused(format!("no policy fits this file; {}", why.join("; "))));
    }
    Ok((fits, unfit))
}

/// Values of parameters that a policy is evaluated with.
#[derive(Debug, Clone, Default)]
struct Point(Vec<(String, f64)>);

impl Point {
    fn name(&self, policy: &str) -> String {
        self.0.iter().fold(policy.to_string(), |name, (key, value)| format!("{name} {key}={value}"))
    }
}

/// Every combination of the values of those parameters of the grid that are among `own`.
fn points<'a>(grid: &'a [(String, Vec<f64>)], own: &[&str], tried: &mut HashSet<&'a str>) -> Vec<Point> {
    let mut points = vec![Point::default()];
    for (key, values) in grid.iter().filter(|(key, _)| own.contains(&key.as_str())) {
        tried.insert(key);
        let with = |point: &Point, value: &f64| {
            let mut point = point.clone();
            point.0.push((key.clone(), *value));
            point
        };
        points = points
            .iter()
            .flat_map(|point| values.iter().map(|value| with(point, value)).collect::<Vec<_>>())
            .collect();
    }
    points
}

/// The encrypted bandit with its defaults, in exact arithmetic.
fn encrypted(dataset: &Dataset, point: &Point) -> Result<Contender, String> {
    let (features, arms) = (dataset.d(), dataset.arms().len());
    let mut linear = BanditConfig::new(features, arms).linear;
    for (key, value) in &point.0 {
        match key.as_str() {
            "alpha" => match &mut linear.width {
                Width::Constant { alpha } | Width::Tangent { alpha, .. } => *alpha = *value,
                width => *width = Width::Constant { alpha: *value },
            },
            _ => linear.lambda = *value,
        }
    }
    let policy = HelbaClear::new(linear, Arithmetic::Exact).map_err(|e| e.to_string())?;
    let keys = KeyPlan::new(Shape::for_problem(features, arms), false, WidthShape::default());
    let carried =
        keys.map(drop).map_err(|_| format!("no keys carry {features} features and {arms} candidates"));
    Ok(Contender {
        name: "helba".into(),
        parameters: as_object(serde_json::to_value(linear)),
        privacy: PrivacyStatement::none(
            "The encrypted bandit, here in exact arithmetic: the server sees ciphertexts only, and decisions reveal what \
             they reveal.",
        ),
        encrypted: Some(carried),
        linear: Some(linear),
        learner: Learner::Helba(Box::new(policy)),
        feedback: FeedbackKind::Reward,
    })
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
    point: &Point,
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
    point.0.iter().for_each(|(key, value)| set(key, number(*value)));
    let config = PolicyConfig::from_request(parameters).map_err(|e| e.to_string())?;
    let parameters = config.parameters().map_err(|e| e.to_string())?;
    let linear = linear_of(&parameters, dataset);
    let state = PolicyState::new(config).map_err(|e| e.to_string())?;
    Ok(Contender {
        name: name(card),
        privacy: state.privacy().map_err(|e| e.to_string())?,
        encrypted: None,
        linear,
        parameters,
        learner: Learner::Registry(Box::new(state), card.contextual),
        feedback: card.feedback,
    })
}

/// The configuration that these parameters of OFUL stand for.
fn linear_of(parameters: &Map<String, Value>, dataset: &Dataset) -> Option<LinearConfig> {
    let number = |key: &str| parameters.get(key)?.as_f64();
    let shape: WidthShape = serde_json::from_value(parameters.get("width")?.clone()).ok()?;
    let linear = BanditConfig::new(dataset.d(), dataset.arms().len()).linear;
    Some(LinearConfig { lambda: number("lambda")?, width: shape.width(number("alpha")?), ..linear })
}

/// A whole number as such, which parameters that count take.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) { (value as u64).into() } else { value.into() }
}

fn as_object(value: Result<Value, serde_json::Error>) -> Map<String, Value> {
    match value {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}
