//! A bandit of the service, as its users and their intermediary see it.

use crate::shuffler::{Shape, Told};
use crate::{Batch, Error, Party, Sum};
use bandit::distributed::{Config, Mechanism, Model};
use glm::shuffle::Parameters;
use privacy::Ratio;
use privacy::budget::Delta;
use serde_json::{Map, Value};
use wire::{Ask, Awaited, MAX_CLEAR_BYTES, MAX_JSON_BYTES, Noise, PolicyView, ShuffledBatch};

/// Bounds of a device: it answers a bandit only if what follows from the bandit's parameters is within them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Most {
    /// The largest epsilon of the guarantee. At the default, 10, an answer may multiply the odds of any guess
    /// about a person by e^10, some 22000: published deployments stay below it, and above it the guarantee
    /// excludes little.
    pub epsilon: f64,
    /// The largest delta of the guarantee, the probability with which it may fail; by default 1/1000. A
    /// larger one says little, since publishing one person in 1000 meets this one, and a server may state its
    /// guarantee at a delta that makes its epsilon look small.
    pub delta: f64,
    /// The least part of a batch's users who may be made up: the noise must be enough without theirs. By
    /// default 0.
    pub colluding: f64,
}

impl Default for Most {
    fn default() -> Self {
        Self { epsilon: 10.0, delta: 1e-3, colluding: 0.0 }
    }
}

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

    /// Refuses a bandit whose parameters cost a user more privacy than `most`: in one batch or, where devices
    /// choose, over the bandit's whole life.
    ///
    /// # Errors
    /// [`Error::TooDear`]; [`Error::Malformed`] for a policy that is none of those whose users answer an
    /// intermediary; as [`Config::privacy`].
    pub fn agree(&self, most: &Most) -> Result<(), Error> {
        let (epsilon, delta, colluding) =
            match serde_json::from_value::<Parameters>(Value::Object(self.parameters.clone())) {
                Ok(Parameters { epsilon, delta, colluding, .. }) => (epsilon.get(), delta, colluding),
                Err(_) => {
                    let config = self.elimination()?;
                    let (statement, colluding) = (config.privacy()?, config.colluding.to_f64());
                    let none = Error::Malformed { what: "a bandit that promises its users nothing" };
                    (statement.epsilon.ok_or(none)?.get(), statement.delta.get(), colluding)
                }
            };
        // NaN is within no bound.
        for (what, asked, most) in [("epsilon", epsilon, most.epsilon), ("delta", delta, most.delta)] {
            if asked.is_nan() || asked > most {
                return Err(Error::TooDear { what, asked, most });
            }
        }
        if colluding.is_nan() || colluding < most.colluding {
            return Err(Error::FewColluding { sized: colluding, least: most.colluding });
        }
        Ok(())
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
        let colluding =
            if self.parameters.contains_key("colluding") { exact("colluding")? } else { Ratio::ZERO };
        Ok(Config { confidence, colluding, growth: whole("growth").unwrap_or(theory.growth), ..theory })
    }

    /// User side: what each user adds before it shares, where exactly [`users`](Self::users) of them are
    /// summed, however many are asked.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a policy whose users' noise does not add up in a secure sum; [`Error::Overasked`]; as
    /// [`agree`](Self::agree) and [`Config::mechanism`].
    pub fn batch(&self, most: &Most) -> Result<Batch, Error> {
        let Ask::Share { modulus, .. } = self.awaited.ask else {
            return Err(Error::Malformed {
                what: "the bandit waits for bits behind a shuffler, not for shares: --shuffler",
            });
        };
        self.agree(most)?;
        let config = self.elimination()?;
        let mechanism = config.mechanism(self.awaited.batch)?;
        if mechanism.users() != u64::from(self.users) || mechanism.modulus() != modulus {
            return Err(Error::Overasked { what: "another number of users, or another modulus" });
        }
        Batch::of(mechanism, self.users)
    }

    /// User side of an elimination behind a shuffler: what makes a reward the [number of ones](Mechanism::ones) to send.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it waits for no such number; [`Error::Overasked`]; as [`agree`](Self::agree)
    /// and [`Config::mechanism`].
    pub fn count(&self, most: &Most) -> Result<Mechanism, Error> {
        let Ask::Count { arm, .. } = self.awaited.ask else {
            return Err(Error::Malformed {
                what: "the bandit waits for shares, not for bits behind a shuffler: --aggregators or --adder",
            });
        };
        self.agree(most)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A bandit with these parameters that waits for shares in its first batch, as the service asks for them.
    fn awaiting(parameters: Value) -> Awaiting {
        let Value::Object(parameters) = parameters else { unreachable!() };
        let ask = Ask::Share { arm: 0, modulus: 1, steps: 1, noise: Noise::Skellam, epsilon: 1.0 };
        let mut awaiting = Awaiting::of(1, 1, 2, ask, parameters);
        let mechanism = awaiting.elimination().unwrap().mechanism(1).unwrap();
        (awaiting.users, awaiting.awaited.users) = (mechanism.users() as u32, mechanism.users());
        if let Ask::Share { modulus, .. } = &mut awaiting.awaited.ask {
            *modulus = mechanism.modulus();
        }
        awaiting
    }

    /// The same noise, stated at another delta, looks as if it cost less: a device that looks at epsilon
    /// alone takes what it would refuse. One that looks at both takes neither.
    #[test]
    fn attack_a_large_delta_makes_no_epsilon_small() {
        let renyi = |delta: f64| {
            awaiting(
                json!({"model": "renyi", "arms": 3, "horizon": 1000, "epsilon": 1.5, "scale": 1, "delta": delta,
                "confidence": 0.1, "growth": 16}),
            )
        };
        let (small, large) = (renyi(1e-5), renyi(0.99));
        let modulus = |a: &Awaiting| if let Ask::Share { modulus, .. } = a.awaited.ask { modulus } else { 0 };
        assert_eq!(modulus(&small), modulus(&large));
        let epsilon_alone = Most { epsilon: 5.0, delta: 1.0, colluding: 0.0 };
        assert!(matches!(small.batch(&epsilon_alone), Err(Error::TooDear { what: "epsilon", .. })));
        assert!(large.batch(&epsilon_alone).is_ok());
        let both = Most { epsilon: 5.0, ..Most::default() };
        for refused in [large.batch(&both), renyi(1.1e-3).batch(&Most { epsilon: 100.0, ..both })] {
            assert!(matches!(refused, Err(Error::TooDear { what: "delta", .. })), "{refused:?}");
        }
        assert!(renyi(1e-3).batch(&Most::default()).is_ok());
        // The defaults are a bound as well.
        let any = json!({"model": "pure", "arms": 3, "horizon": 1000, "epsilon": 999_999.0});
        assert!(matches!(awaiting(any).batch(&Most::default()), Err(Error::TooDear { what: "epsilon", .. })));
        let glm = |epsilon: f64, delta: f64| {
            let glm = json!({"arms": 2, "features": 1, "batches": [40], "epsilon": epsilon, "delta": delta, "gamma": 1,
                "steps": 2});
            let Value::Object(parameters) = glm else { unreachable!() };
            Awaiting { parameters, ..small.clone() }.agree(&Most::default())
        };
        assert!(glm(10.0, 1e-3).is_ok());
        assert!(matches!(glm(1.0, 0.99), Err(Error::TooDear { what: "delta", .. })));
        assert!(matches!(glm(10.5, 1e-3), Err(Error::TooDear { what: "epsilon", .. })));
    }

    /// Users add the noise that the bandit's parameters size for those who are real, and refuse where that is
    /// less than they ask for, or where modulus and parameters differ.
    #[test]
    fn users_know_for_how_many_made_up_ones_the_noise_is_sized() {
        let pure = |colluding: f64| {
            awaiting(json!({"model": "pure", "arms": 3, "horizon": 1000, "epsilon": 1, "growth": 16,
                "confidence": 0.1, "colluding": colluding}))
        };
        let batch = pure(0.25).batch(&Most { colluding: 0.25, ..Most::default() }).unwrap();
        assert_eq!((batch.at_least(), batch.mechanism().honest()), (16, 12));
        assert_eq!(pure(0.0).batch(&Most::default()).unwrap().mechanism().honest(), 16);
        let more = Most { colluding: 0.3, ..Most::default() };
        assert!(matches!(pure(0.25).batch(&more), Err(Error::FewColluding { sized: 0.25, least: 0.3 })));
        let mut other = pure(0.25);
        other.parameters.insert("colluding".into(), json!(0.0));
        assert!(matches!(other.batch(&Most::default()), Err(Error::Overasked { .. })));
    }
}
