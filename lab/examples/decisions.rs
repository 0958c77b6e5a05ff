//! Prints which arm the algorithm of an encrypted bandit plays in each round of a converted file, in the
//! clear and with the parameters of a new bandit:
//! `cargo run -p helba-lab --example decisions -- rounds.csv [--discount GAMMA] [--window N]`.
//!
//! Where the file has only the reward of a logged action, the algorithm learns from the rounds in which it
//! plays that action. `lab/peers/peers.py` and `drift.py` read the arms.

use anyhow::Context;
use bandit::{Arithmetic, Forgetting, HelbaClear, Policy};
use datasets::Dataset;
use privacy::source::SplitMix64;
use protocol::BanditConfig;
use std::path::Path;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().context("name a file that `helba-client data convert` wrote")?;
    let dataset = Dataset::any(Path::new(&file), None)?;
    let mut config = BanditConfig::new(dataset.d(), dataset.arms().len());
    while let Some(option) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{option} takes a number"))?;
        match option.as_str() {
            "--discount" => config.discount = Some(value.parse()?),
            "--window" => config.window = Some(value.parse()?),
            other => anyhow::bail!("{other}: take --discount or --window"),
        }
    }
    let forgetting = Forgetting::new(config.discount, config.window)?;
    let mut policy = HelbaClear::new(config.linear, Arithmetic::Exact)?.forgetting(forgetting)?;
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
