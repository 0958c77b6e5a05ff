//! Recorded data as environments.

mod purchases;

pub use purchases::{CRACKER, PurchaseLog, Purchases, YOGURT};
