//! Prints which arm the algorithm of an encrypted bandit plays in each round of a converted file, in the
//! clear and with the parameters of a new bandit:
//! `cargo run -p helba-lab --example decisions -- rounds.csv`.
//!
//! Where the file has only the reward of a logged action, the algorithm learns from the rounds in which it
//! plays that action. `lab/peers/peers.py` reads the arms.

use anyhow::Context;
use bandit::{Arithmetic, HelbaClear, Policy};
use datasets::Dataset;
use privacy::source::SplitMix64;
use protocol::BanditConfig;
use std::path::Path;

fn main() -> anyhow::Result<()> {
    let file = std::env::args_os().nth(1).context("name a file that `helba-client data convert` wrote")?;
    let dataset = Dataset::any(Path::new(&file), None)?;
    let config = BanditConfig::new(dataset.d(), dataset.arms().len());
    let mut policy = HelbaClear::new(config.linear, Arithmetic::Exact)?;
    // It is asked for no random number.
    let mut rng = SplitMix64::new(0);
    for round in dataset.rounds() {
        let arm = policy.decide(&round.features, &mut rng)?;
        println!("{arm}");
        if let Some(reward) = round.observed.reward(arm) {
            policy.learn(&round.features, arm, &reward, &mut rng)?;
        }
    }
    Ok(())
}
