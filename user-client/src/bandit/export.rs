//! A model in the clear, for other programs. It leaves the device, unlike other decryptions.

use super::BanditDevice;
use crate::Error;
use protocol::{Bonus, LOG_MODEL, Width};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use wire::ShownModel;

/// The purpose of the key that errors of exports follow from.
const ERRORS: &str = "helba-client 2026-11 errors of an exported model";

/// The model of a bandit in the clear, as JSON. The index of an arm with features x is ω·x plus the bonus of
/// z = xᵀAx, and the bandit plays an arm of the largest index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedModel {
    /// The id of the bandit.
    pub bandit: String,
    /// The number of feedbacks in the model.
    pub feedbacks: u64,
    /// d, the number of features.
    pub features: usize,
    /// K, the number of arms.
    pub arms: usize,
    /// ω, the estimate: one coefficient a feature.
    pub omega: Vec<f64>,
    /// A, by rows: the inverse of λI + Σ xxᵀ over the feedbacks.
    pub inverse: Vec<Vec<f64>>,
    /// λ.
    pub ridge: f64,
    /// The width of the configuration.
    pub width: Width,
    /// What it adds to the index with this model, in the round after its feedbacks.
    pub bonus: ExportedBonus,
    /// L, the largest norm of a row of features.
    pub context_bound: f64,
    /// The range of rewards.
    pub rewards: [f64; 2],
}

/// The bonus of an index, with z below 0 read as 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ExportedBonus {
    /// slope·z.
    Linear {
        /// The slope.
        slope: f64,
    },
    /// beta·√(z + c1).
    Root {
        /// The confidence width.
        beta: f64,
        /// The number added under the root.
        c1: f64,
    },
}

impl ExportedModel {
    /// The index of an arm with these features.
    pub fn index(&self, x: &[f64]) -> f64 {
        let dot = |row: &[f64]| row.iter().zip(x).map(|(a, b)| a * b).sum::<f64>();
        let z = self.inverse.iter().zip(x).map(|(row, x)| x * dot(row)).sum::<f64>().max(0.0);
        dot(&self.omega)
            + match self.bonus {
                ExportedBonus::Linear { slope } => slope * z,
                ExportedBonus::Root { beta, c1 } => beta * (z + c1).sqrt(),
            }
    }
}

impl BanditDevice<'_> {
    /// The model of the bandit in a reply to `GET …/model`, in the clear. Each number has the error of one
    /// more encryption, which follows from the key and the reply: a second export of the same model is the
    /// same.
    ///
    /// **The server must not get it**: one that deviates from the protocol could have put a ciphertext of its
    /// choice in the place of the model, whose decryption shows coefficients of the key.
    ///
    /// # Errors
    /// [`Error::Wire`], [`Error::Ckks`] for a reply that is not one of this bandit; [`Error::NoSecretKeys`]
    /// on the device of a user with a key of its own; [`Error::BadAnswer`] for numbers that no model of so
    /// many feedbacks has.
    pub fn export(&self, reply: &[u8]) -> Result<ExportedModel, Error> {
        let ShownModel { feedbacks, parts } = ShownModel::read(reply, &self.limits)?;
        let (params, layout) = (self.small(), &self.exchanges.layout);
        let secret = &self.device.secret_keys()?.small;
        let key = self.device.derive_key(ERRORS);
        let mut coefficients = Vec::with_capacity(parts.len() * params.n());
        for part in &parts {
            let ciphertext = ckks::read_ciphertext(params, self.small_id, params.max_level(), part)?;
            let mut rng = ChaCha20Rng::from_seed(*blake3::keyed_hash(&key, part).as_bytes());
            coefficients.extend(ckks_secret::decrypt_with_errors(secret, &ciphertext, &mut rng));
        }
        let (inverse, omega) = layout.read_model(&coefficients);
        let linear = &self.created.config.linear;
        // A is at most 1/λ, and the norm of ω at most √(t/λ); a sixteenth is for errors of the model.
        let most = [1.0 / linear.lambda, (feedbacks as f64 / linear.lambda).sqrt()];
        let slack = 128.0 / f64::from(LOG_MODEL).exp2() * most[0].max(1.0) * linear.l.max(1.0);
        let [of_inverse, of_omega] = most.map(|most| 1.0625 * most + slack);
        let bounded = |numbers: &[f64], most: f64| numbers.iter().all(|number| number.abs() <= most);
        if !inverse.iter().all(|row| bounded(row, of_inverse)) || !bounded(&omega, of_omega) {
            return Err(Error::BadAnswer(
                "its model has numbers that no model of so many feedbacks has".into(),
            ));
        }
        let bonus = match linear.bonus(feedbacks + 1, feedbacks, linear.c1(feedbacks)) {
            Bonus::Linear { slope } => ExportedBonus::Linear { slope },
            Bonus::Root { beta, c1 } => ExportedBonus::Root { beta, c1 },
        };
        Ok(ExportedModel {
            bandit: self.created.id.clone(),
            feedbacks,
            features: linear.d,
            arms: linear.k,
            omega,
            inverse,
            ridge: linear.lambda,
            width: linear.width,
            bonus,
            context_bound: linear.l,
            rewards: [-1.0, 1.0],
        })
    }
}
