//! What a binary tree costs.

use privacy::budget::{Rho, Sensitivity};

/// `m`: levels of a binary tree over `horizon` leaves. No leaf is in more nodes, and no prefix is made of more.
pub fn tree_levels(horizon: u64) -> u32 {
    horizon.max(1).next_power_of_two().trailing_zeros() + 1
}

/// Standard deviation at a tree node when replacing one leaf moves it by at most `sensitivity` in L2 norm and the whole
/// tree may cost `rho`: each leaf is in `m` nodes, and each node's noise is drawn once.
pub fn tree_sigma(sensitivity: Sensitivity, horizon: u64, rho: Rho) -> f64 {
    rho.sigma(sensitivity) * f64::from(tree_levels(horizon)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use privacy::budget::{Delta, Epsilon};

    #[test]
    fn trees_match_hand_calculations() {
        let sigma = |l2, horizon, epsilon, delta, share| {
            let rho = Rho::within(Epsilon::new(epsilon).unwrap(), Delta::new(delta).unwrap()).unwrap();
            tree_sigma(Sensitivity::new(l2).unwrap(), horizon, Rho::new(rho.get() * share).unwrap())
        };
        assert!((sigma(1.0, 5000, 4.0 / 3.0, 0.02 / 3.0, 1.0) - 9.43971350).abs() < 5e-8);
        assert!((sigma(1.0, 8, 1.0, 1e-5, 1.0) - 9.80111034).abs() < 5e-8);
        assert!((sigma(3f64.sqrt(), 5000, 4.0, 0.02, 0.5) - 7.7618).abs() < 5e-5);
        assert_eq!([1, 2, 8, 9, 5000].map(tree_levels), [1, 2, 4, 5, 14]);
    }
}
