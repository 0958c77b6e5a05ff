//! Draws that keep every arm's probability above 0.

use rand::{CryptoRng, RngExt};

/// The arm to play in the contexts `rows`, where the bandit chose `chosen`, and the probability with which it
/// was to be played: with probability `epsilon`, an arm is drawn uniformly from the K' that are open. Then
/// the chosen arm has the probability 1 − ε + ε/K', and each other ε/K', which estimates from logged
/// decisions need.
///
/// Without open arms and for an `epsilon` that is not from 0 to 1, it is the chosen arm.
pub fn explore<R: CryptoRng>(chosen: usize, rows: &[Vec<f64>], epsilon: f64, rng: &mut R) -> (usize, f64) {
    let open: Vec<usize> = (0..rows.len()).filter(|arm| protocol::is_open(&rows[*arm])).collect();
    let epsilon = if !open.is_empty() && (0.0..=1.0).contains(&epsilon) { epsilon } else { 0.0 };
    let draws = epsilon > 0.0 && rng.random_bool(epsilon);
    let arm = if draws { open[rng.random_range(0..open.len())] } else { chosen };
    let of_chosen = if arm == chosen { 1.0 - epsilon } else { 0.0 };
    (arm, of_chosen + epsilon / open.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    /// Frequencies within 5 standard deviations of the probabilities that are said, over 20,000 draws.
    #[test]
    fn arms_are_drawn_with_the_probabilities_that_are_said() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let draws = 20_000;
        // With arm 4 closed, and without a closed one.
        let rows = [vec![vec![1.0]; 4], vec![vec![]]].concat();
        for (epsilon, rows) in [0.0, 0.1, 0.5, 1.0].into_iter().flat_map(|e| [(e, &rows[..4]), (e, &rows)]) {
            let mut seen = vec![(0u32, 0.0); rows.len()];
            for _ in 0..draws {
                let (arm, probability) = explore(2, rows, epsilon, &mut rng);
                seen[arm] = (seen[arm].0 + 1, probability);
            }
            for (arm, (count, said)) in seen.into_iter().enumerate() {
                let share = if arm < 4 { epsilon / 4.0 } else { 0.0 };
                let expected = if arm == 2 { 1.0 - epsilon } else { 0.0 } + share;
                assert!(count == 0 || said == expected, "{said} {expected}");
                let deviation = (expected * (1.0 - expected) / f64::from(draws)).sqrt();
                assert!((f64::from(count) / f64::from(draws) - expected).abs() <= 5.0 * deviation);
            }
        }
    }

    #[test]
    fn nothing_is_drawn_outside_of_the_range() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        for epsilon in [f64::NAN, -0.5, 1.5, f64::INFINITY] {
            assert_eq!(explore(1, &vec![vec![1.0]; 3], epsilon, &mut rng), (1, 1.0));
        }
        assert_eq!(explore(0, &[], 0.5, &mut rng), (0, 1.0));
    }
}
