//! The registry. A new family of experiments is one file here and one line in each of the two functions.

use crate::experiment::{Experiment, PolicyEntry};

pub mod anonymous;
pub mod distributed;
pub mod glm;
pub mod helba;
pub mod leader;
pub mod schedules;
pub mod stochastic;

/// Every experiment.
pub fn all() -> Vec<&'static dyn Experiment> {
    [
        anonymous::EXPERIMENTS,
        distributed::EXPERIMENTS,
        glm::EXPERIMENTS,
        helba::EXPERIMENTS,
        leader::EXPERIMENTS,
        schedules::EXPERIMENTS,
        stochastic::EXPERIMENTS,
    ]
    .concat()
}

/// Every policy.
pub fn policies() -> Vec<PolicyEntry> {
    [anonymous::POLICIES, distributed::POLICIES, glm::POLICIES, helba::POLICIES, stochastic::POLICIES]
        .concat()
}

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static dyn Experiment> {
    all().into_iter().find(|e| e.card().name == name)
}
