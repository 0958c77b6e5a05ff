//! Visits to a made-up shop, whose expected rewards are known: to try policies where the truth is known.

use privacy::source::{SplitMix64, Words};
use std::io::{self, Write};

/// The offers of each visit.
pub const OFFERS: [&str; 4] = ["atlas", "birch", "cedar", "dune"];
const COUNTRIES: [&str; 5] = ["at", "be", "ch", "de", "es"];
const DEVICES: [&str; 3] = ["desktop", "phone", "tablet"];
/// Shares of the countries and of the devices.
const OF_COUNTRIES: [f64; 5] = [0.35, 0.25, 0.20, 0.12, 0.08];
const OF_DEVICES: [f64; 3] = [0.50, 0.35, 0.15];
/// The offer that the present rule of the shop shows in each country.
const RULE: [usize; 5] = [2, 3, 2, 2, 1];
/// Log-odds of a click on each offer: those of all, by country, by device, for 31 years more than 49, and for
/// those who have been here before. A price of 10 more takes 1 off.
const BASE: [f64; 4] = [-0.6, -0.9, -1.2, -1.5];
const BY_COUNTRY: [[f64; 5]; 4] = [
    [-2.5, 0.0, -1.1, -1.1, -0.3],
    [-0.1, -3.0, 1.2, -2.6, 2.4],
    [0.8, -0.6, 1.7, 0.0, 0.9],
    [0.1, 1.4, 1.4, -1.2, -0.8],
];
const BY_DEVICE: [[f64; 3]; 4] = [[0.3, -0.2, -2.1], [1.8, -2.0, -1.9], [-1.1, 0.5, 1.6], [-0.2, -0.4, 0.2]];
const BY_AGE: [f64; 4] = [-0.3, 0.1, -0.9, 0.4];
const BY_RETURN: [f64; 4] = [0.4, -2.2, -0.1, 0.1];

/// One visit: who came, what each offer cost, what was shown, and what each offer would have earned.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// Country, of five.
    pub country: usize,
    /// Device, of three.
    pub device: usize,
    /// Age in years, from 18 to 80.
    pub age: u64,
    /// Whether the visitor was here before.
    pub returning: bool,
    /// The price of each offer, from 5 to 25.
    pub price: [f64; 4],
    /// The offer of the shop's present rule.
    pub rule: usize,
    /// The offer that was shown: that of the rule with probability 1/2, else each with probability 1/4.
    pub shown: usize,
    /// The probability with which it was shown: 0.625 or 0.125.
    pub probability: f64,
    /// The probability of a click on each offer: its expected reward.
    pub expected: [f64; 4],
    /// Whether each offer would have been clicked.
    pub clicks: [bool; 4],
}

/// Visits without end, independent and alike. The population is one for all seeds.
///
/// Here are the mean rewards over it: 0.268 of the uniform choice, 0.358 of the best fixed offer (`cedar`),
/// 0.435 of the present rule, and 0.579 of the best offer of each visit.
///
/// - Randomness: SplitMix64 of a seed, 14 words a visit.
#[derive(Debug, Clone)]
pub struct Visits {
    rng: SplitMix64,
}

impl Visits {
    /// The visits of a seed.
    pub fn new(seed: u64) -> Self {
        Visits { rng: SplitMix64::new(seed) }
    }
}

impl Iterator for Visits {
    type Item = Visit;

    fn next(&mut self) -> Option<Visit> {
        let rng = &mut self.rng;
        let mut pick = |shares: &[f64]| {
            let mut left = rng.uniform();
            let of = |share: &f64| {
                left -= share;
                left < 0.0
            };
            shares.iter().position(of).unwrap_or(shares.len() - 1)
        };
        let (country, device) = (pick(&OF_COUNTRIES), pick(&OF_DEVICES));
        let age = 18 + (rng.uniform() * 63.0) as u64;
        let returning = rng.uniform() < 0.4;
        let price = [(); 4].map(|()| 5.0 + (rng.uniform() * 401.0).floor() / 20.0);
        let rule = RULE[country];
        let (follows, any) = (rng.uniform() < 0.5, (rng.uniform() * 4.0) as usize);
        let shown = if follows { rule } else { any };
        let odds = |a: usize| {
            let person = BY_AGE[a] * (age as f64 - 49.0) / 31.0 + BY_RETURN[a] * f64::from(returning);
            BASE[a] + BY_COUNTRY[a][country] + BY_DEVICE[a][device] + person - (price[a] - 15.0) / 10.0
        };
        let expected = [0, 1, 2, 3].map(|a| 1.0 / (1.0 + (-odds(a)).exp()));
        let clicks = expected.map(|chance| rng.uniform() < chance);
        let probability = if shown == rule { 0.625 } else { 0.125 };
        Some(Visit { country, device, age, returning, price, rule, shown, probability, expected, clicks })
    }
}

/// The schema of [`write_visits`]: features of the offers are their names, each with every property of the
/// visitor, and the price.
pub const SCHEMA: &str = r#"layout = "wide"
chosen = "shown"
reward = "click"
propensity = "probability"
identity = true
interactions = [["candidate", "country"], ["candidate", "device"], ["candidate", "age"], ["candidate", "returning"]]
interactions_only = true

[candidate]
price = "min-max"

[context]
country = "one-hot"
device = "one-hot"
age = "min-max"
returning = "none"
"#;

/// Writes `rounds` visits as a table that [`SCHEMA`] reads, and the truth of each: for every offer the
/// expected reward and the reward that it would have earned.
///
/// # Errors
/// Those of the writers.
pub fn write_visits(
    seed: u64,
    rounds: usize,
    log: &mut impl Write,
    truth: &mut impl Write,
) -> io::Result<()> {
    let each = |what: &str| OFFERS.map(|offer| format!("{what}.{offer}")).join(",");
    let visitor = "visit,country,device,age,returning";
    writeln!(log, "{visitor},{},rule,shown,probability,click", each("price"))?;
    writeln!(truth, "visit,{},{}", each("expected"), each("reward"))?;
    for (i, v) in Visits::new(seed).take(rounds).enumerate() {
        let visit = i + 1;
        let (country, device, returning) = (COUNTRIES[v.country], DEVICES[v.device], u8::from(v.returning));
        let prices = v.price.map(|price| format!("{price:.2}")).join(",");
        let (rule, shown) = (OFFERS[v.rule], OFFERS[v.shown]);
        let (age, chance, click) = (v.age, v.probability, u8::from(v.clicks[v.shown]));
        writeln!(
            log,
            "{visit},{country},{device},{age},{returning},{prices},{rule},{shown},{chance},{click}"
        )?;
        let (expected, rewards) =
            (v.expected.map(|e| e.to_string()), v.clicks.map(|c| u8::from(c).to_string()));
        writeln!(truth, "{visit},{},{}", expected.join(","), rewards.join(","))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that the type states, over 100,000 visits: within four standard errors of the largest
    /// deviation, 1/2.
    #[test]
    fn mean_rewards_are_those_stated() {
        let mut sums = [0.0; 5];
        let mut weights = [0.0; 4];
        const N: usize = 100_000;
        for visit in Visits::new(1).take(N) {
            let e = visit.expected;
            let best = e.iter().copied().fold(0.0, f64::max);
            let of =
                [e.iter().sum::<f64>() / 4.0, e[2], e[visit.rule], best, f64::from(visit.clicks[visit.rule])];
            sums.iter_mut().zip(of).for_each(|(sum, x)| *sum += x / N as f64);
            weights[visit.shown] += 1.0 / visit.probability / N as f64;
        }
        for (got, want) in sums.iter().zip([0.268, 0.358, 0.435, 0.579, 0.435]) {
            assert!((got - want).abs() < 4.0 * 0.5 / (N as f64).sqrt(), "{sums:?}");
        }
        // The probabilities are those with which offers are shown: weights of 8 at most average 1.
        assert!(weights.iter().all(|w| (w - 1.0).abs() < 4.0 * (7.0 / N as f64).sqrt()), "{weights:?}");
    }
}
