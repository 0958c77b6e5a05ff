//! Cards: the descriptions of all policies, for clients and readers.

use crate::described::describe;
use crate::{Error, PolicyConfig, late};
use serde_json::{Map, Value};
use wire::PolicyCard;

/// The use of each policy, and a creation request with all its parameters. A policy with several trust models
/// has several cards.
const CARDS: &[(&str, &str)] = &[
    (
        "Anytime-Lazy-UCB: pure event-level privacy, order-optimal regret, horizon unknown (Hu, Huang, Mehta)",
        r#"{"policy": "anytime-lazy-ucb", "arms": 5, "epsilon": 1.0}"#,
    ),
    (
        "Hybrid-UCB: pure event-level privacy by a tree over each arm's rewards (Hu, Huang, Mehta)",
        r#"{"policy": "hybrid-ucb", "arms": 5, "epsilon": 1.0}"#,
    ),
    (
        "DP-SE: successive elimination that forgets each epoch; beta is one over the horizon (Sajed, Sheffet)",
        r#"{"policy": "dp-se", "arms": 5, "epsilon": 1.0, "beta": 0.0001}"#,
    ),
    ("UCB1, without privacy: the baseline of private policies", r#"{"policy": "ucb1", "arms": 5}"#),
    (
        "Follow the noisy leader, where the rewards of all arms are seen (Hu, Huang, Mehta)",
        r#"{"policy": "follow-the-noisy-leader", "arms": 5, "epsilon": 1.0, "neighbours": "replace_one",
            "private": "leader"}"#,
    ),
    (
        "Naive form of the noisy leader: every sum is private, at noise that grows with the arms (Hu, Huang, Mehta)",
        r#"{"policy": "follow-the-noisy-leader", "arms": 5, "epsilon": 1.0, "neighbours": "replace_one",
            "private": "sums"}"#,
    ),
    (
        "Lazy follow the leader, without privacy: the baseline of the noisy leader (Hu, Huang, Mehta)",
        r#"{"policy": "follow-the-leader", "arms": 5}"#,
    ),
    (
        "Batched elimination; the server is trusted and adds the noise (Chowdhury, Zhou)",
        r#"{"policy": "elimination", "model": "central", "arms": 5, "horizon": 100000, "epsilon": 1.0,
            "confidence": 0.1, "growth": 2}"#,
    ),
    (
        "Batched elimination; nobody is trusted, each user sends a share that is private by itself (Chowdhury, Zhou)",
        r#"{"policy": "elimination", "model": "local", "arms": 5, "horizon": 100000, "epsilon": 1.0,
            "confidence": 0.1, "growth": 2}"#,
    ),
    (
        "Batched elimination; users add the noise, the server sees secure sums (Chowdhury, Zhou)",
        r#"{"policy": "elimination", "model": "pure", "arms": 5, "horizon": 100000, "epsilon": 1.0,
            "confidence": 0.1, "growth": 2}"#,
    ),
    (
        "Batched elimination on secure sums, Skellam noise of users. Here epsilon is the scale of a bound on Renyi divergences; the statement converts it at \
         delta, to about 4.8 at epsilon 1 and delta 1e-5. A larger scale buys precision with longer shares (Chowdhury, Zhou)",
        r#"{"policy": "elimination", "model": "renyi", "arms": 5, "horizon": 100000, "epsilon": 1.0,
            "confidence": 0.1, "growth": 2, "scale": 10.0, "delta": 0.00001}"#,
    ),
    (
        "Batched elimination on secure sums, discrete Gaussian noise of users; epsilon, delta and scale as with Skellam noise (Chowdhury, Zhou)",
        r#"{"policy": "elimination", "model": "concentrated", "arms": 5, "horizon": 100000, "epsilon": 1.0,
            "confidence": 0.1, "growth": 2, "scale": 10.0, "delta": 0.00001}"#,
    ),
    (
        "Batched elimination; users add the noise, a shuffler counts their bits before the server; delta is for noise that is \
         cut off (after Chowdhury, Zhou)",
        r#"{"policy": "elimination", "model": "shuffle", "arms": 5, "horizon": 100000, "epsilon": 1.0,
            "confidence": 0.1, "growth": 2, "delta": 0.000000001}"#,
    ),
    (
        "ARS-UCB: rewards arrive in parts, late and mixed; no privacy (Wang, Wang, Huang)",
        r#"{"policy": "ars-ucb", "arms": 5, "alpha": 4.0, "round_size": {"power": {"factor": 1, "exponent": 2}}}"#,
    ),
    (
        "ARS-EXP3: as ARS-UCB, against adversarial rewards, horizon known; no privacy (Wang, Wang, Huang)",
        r#"{"policy": "ars-exp3", "arms": 5, "horizon": 100000, "beta": 0.5}"#,
    ),
    (
        "ARS-CLW: as ARS-EXP3, horizon unknown; no privacy (Wang, Wang, Huang)",
        r#"{"policy": "ars-clw", "arms": 5, "first": 64, "root": 3}"#,
    ),
    (
        "CLW: composite anonymous feedback of known interval, play may go on after the horizon; no privacy (Cesa-Bianchi, Gentile, Mansour)",
        r#"{"policy": "clw", "arms": 5, "horizon": 100000, "interval": 30, "rule": "spaced"}"#,
    ),
    (
        "ODAAF: delayed anonymous feedback of known delay, play may go on after the horizon; no privacy (Pike-Burke and others)",
        r#"{"policy": "odaaf", "arms": 5, "horizon": 100000, "rule": {"mean": {"delay": 20.0}}}"#,
    ),
    (
        "OFUL: linear contextual bandit, late feedback welcome; no privacy (Abbasi-Yadkori, Pal, Szepesvari)",
        r#"{"policy": "oful", "arms": 4, "features": 7, "lambda": 1.0, "alpha": 0.5, "width": "tangent",
            "discount": null, "window": null}"#,
    ),
    (
        "RS-GLinUCB: generalised linear contextual bandit that renews its estimate rarely; no privacy (Sawarni and others)",
        r#"{"policy": "rs-glinucb", "arms": 4, "features": 5, "horizon": 20000, "delta": 0.001,
            "link": "logistic", "s": 1.0, "kappa": 6.0}"#,
    ),
    (
        "GLM-UCB: generalised linear contextual bandit by maximum likelihood; no privacy (Filippi and others)",
        r#"{"policy": "glm-ucb", "arms": 4, "features": 5, "horizon": 20000, "delta": 0.001,
            "link": "logistic", "s": 1.0, "kappa": 6.0, "refit_every": 5}"#,
    ),
    (
        "GLOC: generalised linear contextual bandit by online Newton steps; no privacy (Jun and others)",
        r#"{"policy": "gloc", "arms": 4, "features": 5, "horizon": 20000, "delta": 0.001,
            "link": "logistic", "s": 1.0, "kappa": 6.0}"#,
    ),
    (
        "ECOLog: logistic contextual bandit by exact proximal steps; no privacy (Faury and others)",
        r#"{"policy": "ecolog", "arms": 4, "features": 5, "horizon": 20000, "delta": 0.001, "s": 1.0}"#,
    ),
    (
        "JointGLM: generalised linear contextual bandit under joint privacy, the server is trusted (Sarmasarkar)",
        r#"{"policy": "joint-glm", "arms": 4, "features": 5, "horizon": 20000, "epsilon": 1.0, "delta": 0.001,
            "link": "logistic", "s": 1.0, "kappa": 6.0, "gamma": 2.0, "beta": 0.5}"#,
    ),
    (
        "ShuffleGLM: generalised linear contextual bandit; devices choose, a shuffler stands before the server (Sarmasarkar)",
        r#"{"policy": "shuffle-glm", "arms": 4, "features": 3, "batches": [10000, 90000], "epsilon": 4.0, "delta": 0.001,
            "link": "logistic", "s": 1.0, "kappa": 6.0, "gamma": 2.0, "lambda": 1.0, "steps": 20, "colluding": 0.0}"#,
    ),
];

/// Name and use of the policies that only experiments run.
pub const SIMULATED: [(&str, &str); 3] = [
    ("RSOFUL", "OFUL, new statistics when the determinant has grown"),
    ("RSOFUL-Tr", "OFUL, new statistics when the trace has grown"),
    (
        "HELBA",
        "OFUL, new statistics by trace or growth; the algorithm of the encrypted server, here in the clear",
    ),
];

/// The card of every policy in the registry.
///
/// # Errors
/// None for a table that passes the tests.
pub fn cards() -> Result<Vec<PolicyCard>, Error> {
    CARDS.iter().map(|(about, example)| card(about, example)).collect()
}

fn card(about: &str, example: &str) -> Result<PolicyCard, Error> {
    let broken = |_| Error::Broken("an example that cannot be read");
    let example: Map<String, Value> = serde_json::from_str(example).map_err(broken)?;
    let config = PolicyConfig::from_request(example.clone())?;
    // A parameter has a default if the request is valid without it.
    let default = |name: &String| {
        let mut less = example.clone();
        less.remove(name);
        let default = PolicyConfig::from_request(less).ok()?.parameters().ok()?.remove(name)?;
        Some((name.clone(), default))
    };
    let profile = config.profile();
    Ok(PolicyCard {
        policy: config.name().into(),
        about: about.into(),
        defaults: example.keys().filter_map(default).collect(),
        parameters: example
            .keys()
            .filter_map(|name| Some((name.clone(), describe(config.name(), name)?)))
            .collect(),
        feedback: profile.feedback,
        contextual: profile.features.is_some(),
        late: Some(late::stated(config.name(), &profile)?),
        example: Value::Object(example),
    })
}
