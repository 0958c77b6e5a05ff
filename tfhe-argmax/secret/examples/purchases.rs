//! Real purchases (data/Yogurt.csv, 7 features, 4 arms): the arms that bootstraps find on ciphertexts against
//! those of exact arithmetic, with a model learnt from the arms that were played.
//!
//! `cargo run --release -p tfhe-argmax-secret --example purchases -- 300`

#[path = "../tests/common/mod.rs"]
mod common;

use bandit::datasets::Purchases;
use common::{Bandit, Pair};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

/// Rounds of a model.
const BATCH: usize = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(300), |rounds| rounds.parse())?;
    let purchases = Purchases::yogurt()?;
    let (pair, mut rng) = (Pair::new(1), ChaCha20Rng::seed_from_u64(2));
    let mut bandit = Bandit::new(&pair, purchases.d(), purchases.brands().len(), 0, &mut rng);
    let (mut played, mut misses, mut widest, mut none, mut near) = (Vec::new(), 0, 0.0f64, 0, 0);
    for (t, (features, bought)) in purchases.rounds().iter().take(rounds).enumerate() {
        if t % BATCH == 0 {
            bandit.learn(&pair, &played, &mut rng);
        }
        let rows: Vec<Vec<f64>> = features.rows().map(<[f64]>::to_vec).collect();
        let circuit = bandit.circuit(&pair)?;
        let contexts = bandit.encrypted(&pair, &rows, &mut rng);
        let scores = bandit.scores(&pair, &contexts);
        let answer = circuit.decide(&pair.keys, pair.evaluator.params(), &scores, &mut rng)?;
        let arm = common::arm(&pair.secret, &answer);
        none += usize::from(arm.is_none());
        let arm = arm.unwrap_or(0);
        let indices = bandit.indices(&rows);
        let best = (0..rows.len()).fold(0, |b, a| if indices[a].1 > indices[b].1 { a } else { b });
        let behind = |arm: usize| (indices[best].1 - indices[arm].1) / bandit.formula.range;
        let resolution = circuit.resolution(indices.iter().map(|(z, _)| *z).fold(f64::INFINITY, f64::min));
        near += usize::from((0..rows.len()).any(|a| a != best && behind(a) < resolution));
        if behind(arm) > 0.0 {
            misses += 1;
            widest = widest.max(behind(arm) / resolution);
        }
        played.push((rows[arm].clone(), if arm == *bought { 1.0 } else { 0.0 }));
    }
    let rounds = played.len();
    let share = 100.0 * (1.0 - misses as f64 / rounds as f64);
    println!("rounds {rounds}: the arm of exact arithmetic in {share:.1} %, no arm in {none}");
    println!("rounds with a second arm within the resolution: {near}");
    println!("widest miss, as a part of the resolution: {widest:.2}");
    Ok(())
}
