//! The table of experiments. A new family of experiments takes one file here and one line in [`all`].

use crate::experiment::Experiment;
use anyhow::Result;
use serde::Serialize;

pub mod ciphertexts;
pub mod delayed;
pub mod distributed;
pub mod drift;
pub mod exploration;
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
        drift::EXPERIMENTS,
        glm::EXPERIMENTS,
        helba::EXPERIMENTS,
        ciphertexts::EXPERIMENTS,
        exploration::EXPERIMENTS,
        leader::EXPERIMENTS,
        schedules::EXPERIMENTS,
        stochastic::EXPERIMENTS,
    ]
    .concat()
}

/// A policy that experiments or the server can play.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyEntry {
    /// The name in requests, with the trust model if there are several; for policies that only experiments
    /// play, the name in the literature.
    pub name: String,
    /// Its use and its privacy.
    pub about: String,
}

/// Every policy: those of the registry, and those that only experiments play.
///
/// # Errors
/// Those of [`policies::cards`], which do not occur for a registry that passes its tests.
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

/// Figure 5 of Chowdhury, Zhou on a file of pages.
///
/// # Errors
/// If the file is in another format than that of LETOR.
pub fn pages_of(path: &std::path::Path) -> anyhow::Result<impl Experiment + use<>> {
    distributed::of_file(path)
}

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static dyn Experiment> {
    all().into_iter().find(|e| e.card().name == name)
}
