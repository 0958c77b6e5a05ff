//! A bandit of the service, as its users and their collector see it.

use crate::{Batch, Error, Party, Plan, Sum};
use bandit::distributed::{Config, Model};
use privacy::Ratio;
use privacy::budget::Delta;
use serde_json::{Map, Value};
use wire::{Ask, Awaited, MAX_CLEAR_BYTES, MAX_JSON_BYTES, PolicyView, ShuffledBatch};

/// The sum that a bandit waits for: of which arm, of exactly how many users, and with whose noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Awaiting {
    exchange: u64,
    users: u32,
    arm: usize,
    modulus: u64,
    parameters: Map<String, Value>,
}

impl Awaiting {
    /// What `bandit` of the service at `server` waits for.
    ///
    /// # Errors
    /// As [`Party::get`]; [`Error::Malformed`] if it waits for no shares.
    pub fn ask(server: &Party, bandit: &str) -> Result<Self, Error> {
        let malformed = |what| Err(Error::Malformed { what });
        let view = server.get(&format!("bandits/{bandit}"), MAX_CLEAR_BYTES)?;
        let Ok(view) = serde_json::from_slice::<PolicyView>(&view) else {
            return malformed("the server's bandit is not one in the clear");
        };
        let Some(Awaited { exchange, users, ask: Ask::Share { arm, modulus, .. }, .. }) = view.awaited else {
            return malformed("the bandit waits for no shares");
        };
        let Ok(users) = u32::try_from(users) else { return malformed("more users than a batch may have") };
        Ok(Self { exchange, users, arm, modulus, parameters: view.created.parameters })
    }

    /// Number of the exchange.
    pub const fn exchange(&self) -> u64 {
        self.exchange
    }

    /// Users whose sum is taken, neither more nor fewer.
    pub const fn users(&self) -> u32 {
        self.users
    }

    /// The arm that they play.
    pub const fn arm(&self) -> usize {
        self.arm
    }

    /// User side: what each of `invited` users adds, where [`users`](Self::users) of them must answer.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a policy whose users' noise does not add up in a secure sum; as [`Batch::new`].
    pub fn batch(&self, invited: u64) -> Result<Batch, Error> {
        let number = |name: &str| self.parameters.get(name).and_then(Value::as_f64);
        let exact = |name: &str| {
            // As the service reads it: decimals of six places.
            let units = (number(name).unwrap_or(1.0) * 1e6).round();
            Ratio::new(units as u128, 1_000_000)
        };
        let (scale, delta) = (exact("scale")?, Delta::new(number("delta").unwrap_or(0.0))?);
        let model = match self.parameters.get("model").and_then(Value::as_str) {
            Some("pure") => Model::Pure,
            Some("renyi") => Model::Renyi { scale, delta },
            Some("concentrated") => Model::Concentrated { scale, delta },
            _ => return Err(Error::Malformed { what: "not a bandit that learns from secure sums" }),
        };
        let whole = |name: &str| self.parameters.get(name).and_then(Value::as_u64).unwrap_or(1);
        let (epsilon, horizon) = (exact("epsilon")?, whole("horizon"));
        let theory = Config::new(whole("arms") as usize, horizon, model, epsilon).confidence;
        let missing = invited.saturating_sub(self.users.into());
        let plan = Plan {
            model,
            epsilon,
            invited,
            missing: Ratio::new(missing.into(), invited.max(1).into())?,
            colluding: Ratio::ZERO,
            confidence: number("confidence").unwrap_or(theory),
            horizon,
        };
        let batch = Batch::new(&plan)?;
        if batch.at_least() != self.users || batch.mechanism().modulus() != self.modulus {
            return Err(Error::Malformed {
                what: "not what follows from the bandit's parameters: another version?",
            });
        }
        Ok(batch)
    }

    /// Collector side: hands `bandit` at `server` its sum.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a sum of another number of users; as [`Party::post`].
    pub fn hand(&self, server: &Party, bandit: &str, sum: &Sum) -> Result<(), Error> {
        if sum.users != u64::from(self.users) {
            let what =
                "a sum of more users than the bandit waits for: ask exactly as many, under a new number";
            return Err(Error::Malformed { what });
        }
        let residue = sum.total.rem_euclid(i128::from(self.modulus)) as u64; // of a modulus below 2^64
        let batch = ShuffledBatch { exchange: self.exchange, users: sum.users, labels: vec![vec![residue]] };
        let body = serde_json::to_vec(&batch)
            .map_err(|_| Error::Malformed { what: "a batch that cannot be written" })?;
        server.post(&format!("bandits/{bandit}/shuffled"), &body, MAX_JSON_BYTES).map(drop)
    }
}
