//! A bandit of the service, as its users and their intermediary see it.

use crate::shuffler::{Shape, Told};
use crate::{Batch, Error, Party, Plan, Sum};
use bandit::distributed::{Config, Mechanism, Model};
use privacy::Ratio;
use privacy::budget::Delta;
use serde_json::{Map, Value};
use wire::{Ask, Awaited, MAX_CLEAR_BYTES, MAX_JSON_BYTES, Noise, PolicyView, ShuffledBatch};

/// The batch that a bandit waits for: of exactly how many users, and what each of them sends.
#[derive(Debug, Clone, PartialEq)]
pub struct Awaiting {
    pub(crate) awaited: Awaited,
    pub(crate) parameters: Map<String, Value>,
    pub(crate) published: Vec<Value>,
    pub(crate) users: u32,
}

impl Awaiting {
    /// What `bandit` of the service at `server` waits for.
    ///
    /// # Errors
    /// As [`now`](Self::now); [`Error::Malformed`] if it waits for nothing.
    pub fn ask(server: &Party, bandit: &str) -> Result<Self, Error> {
        Self::now(server, bandit)?
            .ok_or(Error::Malformed { what: "the bandit has finished and waits for nobody" })
    }

    /// What `bandit` of the service at `server` waits for, if anything.
    ///
    /// # Errors
    /// As [`Party::get`]; [`Error::Malformed`] if it is none in the clear.
    pub fn now(server: &Party, bandit: &str) -> Result<Option<Self>, Error> {
        let view = server.get(&format!("bandits/{bandit}"), MAX_CLEAR_BYTES)?;
        let Ok(view) = serde_json::from_slice::<PolicyView>(&view) else {
            return Err(Error::Malformed { what: "the server's bandit is not one in the clear" });
        };
        let Some(awaited) = view.awaited else { return Ok(None) };
        let Ok(users) = u32::try_from(awaited.users) else {
            return Err(Error::Malformed { what: "more users than a batch may have" });
        };
        let (parameters, published) = (view.created.parameters, view.published);
        Ok(Some(Self { awaited, parameters, published, users }))
    }

    #[cfg(test)]
    pub(crate) fn of(
        exchange: u64,
        batch: u32,
        users: u32,
        ask: Ask,
        parameters: Map<String, Value>,
    ) -> Self {
        let awaited = Awaited { exchange, batch, users: users.into(), ask };
        Self { awaited, parameters, published: Vec::new(), users }
    }

    /// Number of the exchange.
    pub const fn exchange(&self) -> u64 {
        self.awaited.exchange
    }

    /// Number of the batch, which may have several exchanges.
    pub const fn batch_number(&self) -> u32 {
        self.awaited.batch
    }

    /// Users that must be in the batch, neither more nor fewer.
    pub const fn users(&self) -> u32 {
        self.users
    }

    /// The arm that they play; `None` if their devices choose.
    pub const fn arm(&self) -> Option<usize> {
        match self.awaited.ask {
            Ask::Share { arm, .. } | Ask::Count { arm, .. } => Some(arm),
            Ask::Metric { .. } | Ask::Gradient { .. } => None,
        }
    }

    /// The epsilon that the bandit's parameters give a user in one batch; `None` if they give none.
    pub fn epsilon(&self) -> Option<f64> {
        match self.elimination() {
            Ok(config) => config.privacy().ok()?.epsilon.map(|epsilon| epsilon.get()),
            // Of a whole life, for devices that choose.
            Err(_) => self.parameters.get("epsilon").and_then(Value::as_f64),
        }
    }

    /// Shuffler side: what users send; `None` if it is no bits.
    ///
    /// # Errors
    /// As [`told`](Self::told).
    pub fn shape(&self) -> Result<Option<Shape>, Error> {
        let Some((labels, bits)) = self.awaited.ask.labels() else { return Ok(None) };
        let (exchange, users, told) = (self.exchange(), self.users.into(), self.told()?);
        Ok(Some(Shape { exchange, users, labels, bits, told }))
    }

    /// What all users of the exchange must have been told alike, since the noise of each counts on that of the others: the
    /// first 16 bytes of BLAKE3 of the JSON of `[parameters, awaited]`, without spaces and in the server's order.
    ///
    /// # Errors
    /// None for what came as JSON.
    pub fn told(&self) -> Result<Told, Error> {
        let unwritable = Error::Malformed { what: "an exchange that cannot be written" };
        let Ok(json) = serde_json::to_vec(&(&self.parameters, &self.awaited)) else { return Err(unwritable) };
        blake3::hash(&json).as_bytes().first_chunk().copied().ok_or(unwritable)
    }

    /// What an elimination with the bandit's parameters is made of, as the service reads them.
    fn elimination(&self) -> Result<Config, Error> {
        let number = |name: &str| self.parameters.get(name).and_then(Value::as_f64);
        let exact = |name: &str| {
            // Decimals of six places.
            let units = (number(name).unwrap_or(1.0) * 1e6).round();
            Ratio::new(units as u128, 1_000_000)
        };
        let (scale, delta) = (exact("scale")?, Delta::new(number("delta").unwrap_or(0.0))?);
        let model = match self.parameters.get("model").and_then(Value::as_str) {
            Some("pure") => Model::Pure,
            Some("renyi") => Model::Renyi { scale, delta },
            Some("concentrated") => Model::Concentrated { scale, delta },
            Some("shuffle") => Model::Bits { delta },
            _ => return Err(Error::Malformed { what: "not a bandit whose users answer an intermediary" }),
        };
        let whole = |name: &str| self.parameters.get(name).and_then(Value::as_u64);
        let (arms, horizon) = (whole("arms").unwrap_or(1), whole("horizon").unwrap_or(1));
        let theory = Config::new(arms as usize, horizon, model, exact("epsilon")?);
        let confidence = number("confidence").unwrap_or(theory.confidence);
        Ok(Config { confidence, growth: whole("growth").unwrap_or(theory.growth), ..theory })
    }

    /// User side: what each of `invited` users adds before it shares, where [`users`](Self::users) of them must answer.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a policy whose users' noise does not add up in a secure sum; [`Error::Overasked`]; as
    /// [`Batch::new`].
    pub fn batch(&self, invited: u64) -> Result<Batch, Error> {
        let Ask::Share { modulus, .. } = self.awaited.ask else {
            return Err(Error::Malformed {
                what: "the bandit waits for bits behind a shuffler, not for shares: --shuffler",
            });
        };
        let Config { model, epsilon, confidence, horizon, .. } = self.elimination()?;
        let missing = invited.saturating_sub(self.users.into());
        let plan = Plan {
            model,
            epsilon,
            invited,
            missing: Ratio::new(missing.into(), invited.max(1).into())?,
            colluding: Ratio::ZERO,
            confidence,
            horizon,
        };
        let batch = Batch::new(&plan)?;
        if batch.at_least() != self.users || batch.mechanism().modulus() != modulus {
            return Err(Error::Overasked { what: "another number of users, or another modulus" });
        }
        Ok(batch)
    }

    /// User side of an elimination behind a shuffler: what makes a reward the [number of ones](Mechanism::ones) to send.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it waits for no such number; [`Error::Overasked`]; as [`Config::mechanism`].
    pub fn count(&self) -> Result<Mechanism, Error> {
        let Ask::Count { arm, .. } = self.awaited.ask else {
            return Err(Error::Malformed {
                what: "the bandit waits for shares, not for bits behind a shuffler: --aggregators or --adder",
            });
        };
        let config = self.elimination()?;
        let mechanism = config.mechanism(self.awaited.batch)?;
        let follows = Ask::Count {
            arm,
            steps: mechanism.precision(),
            margin: mechanism.margin(),
            noise: Noise::Polya,
            epsilon: mechanism.epsilon().to_f64(),
        };
        let shuffled = matches!(config.model, Model::Bits { .. });
        if !shuffled || mechanism.users() != u64::from(self.users) || self.awaited.ask != follows {
            return Err(Error::Overasked { what: "another number of users, or other bits" });
        }
        Ok(mechanism)
    }

    /// Collector side: hands `bandit` at `server` its sum.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it waits for no sum, or for one of another number of users; as [`Party::post`].
    pub fn hand(&self, server: &Party, bandit: &str, sum: &Sum) -> Result<(), Error> {
        let Ask::Share { modulus, .. } = self.awaited.ask else {
            return Err(Error::Malformed {
                what: "the bandit waits for bits behind a shuffler, not for shares: --shuffler",
            });
        };
        if sum.users != u64::from(self.users) {
            let what =
                "a sum of more users than the bandit waits for: ask exactly as many, under a new number";
            return Err(Error::Malformed { what });
        }
        let residue = sum.total.rem_euclid(i128::from(modulus)) as u64; // of a modulus below 2^64
        let (exchange, labels) = (self.exchange(), vec![vec![residue]]);
        hand(server, bandit, &ShuffledBatch { exchange, users: sum.users, labels })
    }
}

/// Hands `bandit` at `server` a batch. It may come twice: it is the same then, and counts once.
pub(crate) fn hand(server: &Party, bandit: &str, batch: &ShuffledBatch) -> Result<(), Error> {
    let body =
        serde_json::to_vec(batch).map_err(|_| Error::Malformed { what: "a batch that cannot be written" })?;
    server.post_json(&format!("bandits/{bandit}/shuffled"), &body, MAX_JSON_BYTES).map(drop)
}
