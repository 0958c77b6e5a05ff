//! The table of experiments. A new family of experiments is one file here and one line in [`all`].

use crate::experiment::Experiment;
use anyhow::Result;
use serde::Serialize;

pub mod delayed;
pub mod distributed;
pub mod glm;
pub mod helba;
pub mod leader;
pub mod schedules;
pub mod stochastic;

/// Every experiment.
pub fn all() -> Vec<&'static dyn Experiment> {
    [
        delayed::EXPERIMENTS,
        distributed::EXPERIMENTS,
        glm::EXPERIMENTS,
        helba::EXPERIMENTS,
        leader::EXPERIMENTS,
        schedules::EXPERIMENTS,
        stochastic::EXPERIMENTS,
    ]
    .concat()
}

/// A policy that can be played.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyEntry {
    /// Name in requests, with the trust model where there are several, or the name in the literature.
    pub name: String,
    /// What it is for, and the privacy it gives.
    pub about: String,
}

/// Every policy: those of the registry, and those that only experiments run.
///
/// # Errors
/// None for a registry that passes its tests.
pub fn policies() -> Result<Vec<PolicyEntry>> {
    let of_card = |card: wire::PolicyCard| {
        let variant = ["model", "private"].into_iter().find_map(|key| card.example.get(key)?.as_str());
        let name = match variant {
            Some(variant) => format!("{}, {variant}", card.policy),
            None => card.policy,
        };
        PolicyEntry { name, about: card.about }
    };
    let simulated =
        policies::SIMULATED.map(|(name, about)| PolicyEntry { name: name.into(), about: about.into() });
    Ok(policies::cards()?.into_iter().map(of_card).chain(simulated).collect())
}

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static dyn Experiment> {
    all().into_iter().find(|e| e.card().name == name)
}
