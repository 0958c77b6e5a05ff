//! The table of policies, and how requests are read.

use crate::config::{PolicyConfig, PolicyParameters};
use crate::delayed::{ArsClwParameters, ArsExp3Parameters, ArsUcbParameters, ClwParameters, OdaafParameters};
use crate::linear::{
    EcologParameters, GlmUcbParameters, GlocParameters, JointGlmParameters, OfulParameters,
    RsGlinucbParameters,
};
use crate::stochastic::{
    AnytimeLazyUcbParameters, DpSeParameters, HybridUcbParameters, LeaderParameters, NoisyLeaderParameters,
    Ucb1Parameters,
};
use crate::{Error, summed};
use glm::shuffle;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Reads the parameters of one policy.
type Read = fn(&str, Value) -> Result<PolicyConfig, Error>;

/// Every policy by its name in requests.
const POLICIES: [(&str, Read); 19] = [
    entry::<AnytimeLazyUcbParameters>(),
    entry::<HybridUcbParameters>(),
    entry::<DpSeParameters>(),
    entry::<Ucb1Parameters>(),
    entry::<NoisyLeaderParameters>(),
    entry::<LeaderParameters>(),
    ("elimination", |name, parameters| Ok(summed::elimination(parse(name, parameters)?))),
    entry::<ArsUcbParameters>(),
    entry::<ArsExp3Parameters>(),
    entry::<ArsClwParameters>(),
    entry::<ClwParameters>(),
    entry::<OdaafParameters>(),
    entry::<OfulParameters>(),
    entry::<RsGlinucbParameters>(),
    entry::<GlmUcbParameters>(),
    entry::<GlocParameters>(),
    entry::<EcologParameters>(),
    entry::<JointGlmParameters>(),
    entry::<shuffle::ShuffleParameters>(),
];

const fn entry<P: PolicyParameters>() -> (&'static str, Read) {
    (P::NAME, |name, parameters| Ok(PolicyConfig::new(parse::<P>(name, parameters)?)))
}

/// The parameters of the policy `name`.
pub(crate) fn read(name: &str, parameters: Map<String, Value>) -> Result<PolicyConfig, Error> {
    match POLICIES.iter().find(|(known, _)| *known == name) {
        Some((_, read)) => read(name, Value::Object(parameters)),
        None => {
            let why = format!("policy: `{name}` is none of those that GET /v1/policies lists");
            Err(Error::Parameter { why })
        }
    }
}

fn parse<P: DeserializeOwned>(name: &str, parameters: Value) -> Result<P, Error> {
    if let Some(what) = ["discount", "window"].into_iter().find(|what| !parameters[*what].is_null())
        && name != "oful"
    {
        let why = format!(
            "{what}: {name} has none, since its guarantee or its regret is proven for feedback that counts alike; \
             policies with a {what} are oful and helba"
        );
        return Err(Error::Parameter { why });
    }
    serde_path_to_error::deserialize(parameters).map_err(|e| {
        let path = e.path().to_string();
        let field = Some(path.as_str()).filter(|path| ![".", "", "?"].contains(path));
        Error::Parameter { why: named(name, field, &e.into_inner().to_string()) }
    })
}

/// The reason why a parameter of `policy` is refused. It begins with the name of the parameter.
fn named(policy: &str, field: Option<&str>, why: &str) -> String {
    let why = fault::in_words(why);
    let missing = why.strip_prefix("missing field `").and_then(|rest| rest.split_once('`'));
    match (field, missing) {
        (None, Some((missing, _))) => format!("{missing}: missing, {policy} needs it"),
        // The messages of types that check their own range begin with their name.
        (Some(field), _) if !why.starts_with(&format!("{field} ")) => format!("{field}: {why}"),
        _ => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PolicyState, cards};

    /// Every policy has a card, and every card's example is accepted and stated back whole.
    #[test]
    fn every_policy_has_a_card() {
        let cards = cards().unwrap();
        for (name, _) in POLICIES {
            assert!(cards.iter().any(|card| card.policy == name), "{name}");
        }
        for card in cards {
            let undescribed = card.example.as_object().unwrap().keys().filter(|name| *name != "policy");
            let undescribed: Vec<_> =
                undescribed.filter(|name| !card.parameters.contains_key(*name)).collect();
            assert!(undescribed.is_empty(), "{}: {undescribed:?}", card.policy);
            // What is null by default says what null stands for.
            for (name, _) in card.defaults.iter().filter(|(_, default)| default.is_null()) {
                assert!(card.parameters[name].null.is_some(), "{}: {name}", card.policy);
            }
            let Value::Object(example) = card.example else { panic!("{}", card.policy) };
            let config = PolicyConfig::from_request(example.clone()).unwrap();
            let mut stated = config.parameters().unwrap();
            stated.insert("policy".into(), card.policy.into());
            assert_eq!(stated, example);
        }
    }

    /// Old feedback counts less in OFUL, and the policies whose proofs have it count alike refuse that by
    /// name.
    #[test]
    fn forgetting_is_refused_where_no_proof_has_it() {
        let read = |request: &str| PolicyConfig::from_request(serde_json::from_str(request).unwrap());
        let oful = read(r#"{"policy": "oful", "arms": 2, "features": 2, "discount": 0.99, "window": 500}"#);
        assert_eq!(PolicyState::new(oful.unwrap()).unwrap().privacy().unwrap().epsilon, None);
        let bad = read(r#"{"policy": "oful", "arms": 2, "features": 2, "discount": 1.5}"#).unwrap();
        let why = PolicyState::new(bad).map(drop).unwrap_err().to_string();
        assert!(why.contains("discount") && why.contains("0.999999"), "{why}");
        for card in cards().unwrap().into_iter().filter(|card| card.policy != "oful") {
            for (name, value) in [("discount", Value::from(0.99)), ("window", Value::from(500))] {
                let Value::Object(mut request) = card.example.clone() else { panic!("{}", card.policy) };
                request.insert(name.into(), value);
                let why = PolicyConfig::from_request(request).unwrap_err().to_string();
                assert!(why.starts_with(name) && why.contains(&card.policy), "{why}");
            }
        }
    }

    fn made(request: &str) -> PolicyState {
        let request = serde_json::from_str(request).unwrap();
        PolicyState::new(PolicyConfig::from_request(request).unwrap()).unwrap()
    }

    /// What is shown of a private policy is what it released: no sum of rewards without noise.
    #[test]
    fn learnt_values_are_those_released() {
        let rng = &mut privacy::source::SplitMix64::new(1);
        let reward = wire::ClearFeedback { reward: Some(1.0), ..Default::default() };
        for (name, private) in [("ucb1", ""), ("anytime-lazy-ucb", r#", "epsilon": 0.1"#)] {
            let mut policy = made(&format!(r#"{{"policy": "{name}", "arms": 2{private}}}"#));
            for _ in 0..6 {
                let arm = policy.decide(None, rng).unwrap().unwrap();
                policy.learn(None, arm, &reward, rng).unwrap();
            }
            let learnt = policy.learnt();
            assert_eq!(learnt.pulls.unwrap().iter().sum::<u64>(), 6);
            let exact = learnt.means.unwrap().iter().all(|mean| *mean == Some(1.0));
            assert_eq!(exact, private.is_empty(), "{name}");
        }
        let mut policy = made(r#"{"policy": "dp-se", "arms": 3, "epsilon": 1, "beta": 0.1}"#);
        let arm = policy.decide(None, rng).unwrap().unwrap();
        policy.learn(None, arm, &reward, rng).unwrap();
        // Before the first release there is nothing to show but the race.
        let learnt = policy.learnt();
        assert_eq!((learnt.left, learnt.means), (Some(vec![0, 1, 2]), Some(vec![None; 3])));
        // Of a leader, the arm that it plays and no sum; it has one from its first epoch on.
        let rewards = wire::ClearFeedback { rewards: Some(vec![0.0, 0.0, 1.0]), ..Default::default() };
        for (name, private) in [("follow-the-leader", ""), ("follow-the-noisy-leader", r#", "epsilon": 1"#)] {
            let mut policy = made(&format!(r#"{{"policy": "{name}", "arms": 3{private}}}"#));
            for round in 0..40 {
                let arm = policy.decide(None, rng).unwrap().unwrap();
                let shown = policy.learnt();
                assert_eq!(shown, wire::Learnt { leader: Some(arm), ..Default::default() });
                // Without noise the best arm leads after the first round.
                assert!(round == 0 || !private.is_empty() || arm == 2);
                policy.learn(None, arm, &rewards, rng).unwrap();
            }
        }
        let mut gloc =
            made(r#"{"policy": "gloc", "arms": 2, "features": 2, "horizon": 10, "s": 1, "delta": 0.1}"#);
        assert_eq!(gloc.learnt().theta, Some(vec![0.0; 2]));
        let features = bandit::Features::new(vec![1.0, 0.0, 0.0, 1.0], 2).unwrap();
        for _ in 0..2 {
            gloc.decide(Some(&features), rng).unwrap();
            gloc.learn(Some(&features), 0, &reward, rng).unwrap();
        }
        assert_ne!(gloc.learnt().theta, Some(vec![0.0; 2]));
    }

    /// JointGLM with the constants of a large kappa explores in most of its rounds, and says so.
    #[test]
    fn random_play_is_announced() {
        let joint = |s: f64, kappa: f64| {
            made(&format!(
                r#"{{"policy": "joint-glm", "arms": 20, "features": 3, "horizon": 5000, "epsilon": 8, "delta": 0.01,
                    "link": "probit", "s": {s}, "kappa": {kappa}, "gamma": 2, "beta": 2}}"#
            ))
        };
        assert_eq!(joint(2.0, 18.39).caution(), None);
        for (s, kappa) in [(2.5, 56.44), (3.0, 222.15)] {
            assert!(joint(s, kappa).caution().unwrap().contains("of 5000 rounds explore"));
        }
        assert!(cards().unwrap().iter().all(|card| {
            made(&card.example.to_string()).caution().is_none() || card.policy == "shuffle-glm"
        }));
    }

    #[test]
    fn refusals_name_the_parameter() {
        let refused = |request: Value| {
            let Value::Object(request) = request else { unreachable!() };
            let made = PolicyConfig::from_request(request).and_then(PolicyState::new);
            made.err().unwrap().to_string()
        };
        let json = |text: &str| serde_json::from_str(text).unwrap();
        for (request, says) in [
            (r#"{"policy": "ucb1"}"#, "arms: missing, ucb1 needs it"),
            (
                r#"{"policy": "ucb1", "arms": 2.5}"#,
                "arms: invalid type: floating point `2.5`, expected a whole number",
            ),
            (r#"{"policy": "ucb1", "arms": 0}"#, "arms is 0, it must be from 1 to 4096"),
            (
                r#"{"policy": "dp-se", "arms": 5, "beta": 0.1, "epsilon": 0}"#,
                "epsilon is 0, it must be finite",
            ),
            (
                r#"{"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 1, "model": "trust-me"}"#,
                "model: `trust-me` is none of central,",
            ),
            (
                r#"{"policy": "elimination", "arms": 5, "horizon": 9, "epsilon": 0.1234567, "model": "pure"}"#,
                "epsilon is 0.1234567, it must be above 0, below 10⁶, with at most six decimals",
            ),
            (
                r#"{"policy": "shuffle-glm", "arms": 4, "features": 3, "batches": [9], "epsilon": 1e-7,
                    "delta": 1e-3, "gamma": 1, "steps": 2}"#,
                "epsilon is 0.0000001, it must be from 0.1 to 1000000",
            ),
            (r#"{"policy": "ucb2", "arms": 5}"#, "policy: `ucb2` is none of those"),
        ] {
            let said = refused(json(request));
            assert!(said.starts_with(says), "{request}: {said}");
        }
    }
}
