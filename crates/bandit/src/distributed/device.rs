//! The device, which checks the server's task and randomises one reward.

use super::{EliminationParameters, Mechanism, Model};
use crate::Error;
use privacy::task::{Ask, DeviceBounds, Refusal, Task};

impl EliminationParameters {
    /// Refuses a bandit with these parameters if its guarantee is not within `bounds`.
    ///
    /// # Errors
    /// [`Refusal::Overasked`] for a model whose users send nothing to an intermediary; those of
    /// [`DeviceBounds::admit`] and [`EliminationConfig::privacy`](super::EliminationConfig::privacy).
    pub fn admit(&self, bounds: &DeviceBounds) -> Result<(), Error> {
        let config = self.config()?;
        let statement = config.privacy()?;
        let none =
            Refusal::Overasked { what: "an answer to an intermediary, which this model does not have" };
        let epsilon = match self.model() {
            Model::Pure | Model::Renyi { .. } | Model::Concentrated { .. } | Model::Bits { .. } => {
                statement.epsilon.ok_or(none)?
            }
            _ => return Err(none.into()),
        };
        Ok(bounds.admit(epsilon.get(), statement.delta.get(), config.colluding.to_f64())?)
    }

    /// The mechanism by which a user answers `task`: [`Mechanism::noise`] and [`Mechanism::encode`] of a
    /// share, or [`Mechanism::ones`] of a count. It is computed from the parameters, and the task must agree.
    ///
    /// # Errors
    /// Those of [`admit`](Self::admit); [`Refusal::Overasked`] if the task does not follow from the
    /// parameters.
    pub fn answer(&self, task: &Task, bounds: &DeviceBounds) -> Result<Mechanism, Error> {
        self.admit(bounds)?;
        let mechanism = self.config()?.mechanism(task.batch)?;
        let agrees = task.users == mechanism.users()
            && match (&task.ask, mechanism.model()) {
                (Ask::Share { .. }, Model::Bits { .. }) => false,
                (Ask::Share { modulus, .. }, _) => *modulus == mechanism.modulus(),
                (Ask::Count { arm, .. }, Model::Bits { .. }) => {
                    mechanism.ask(*arm).as_ref() == Some(&task.ask)
                }
                _ => false,
            };
        if !agrees {
            return Err(Refusal::Overasked {
                what: "another number of users, another modulus, or other bits",
            }
            .into());
        }
        Ok(mechanism)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The parameters, and the task of the first batch that follows from them.
    fn first(parameters: Value) -> (EliminationParameters, Task) {
        let parameters: EliminationParameters = serde_json::from_value(parameters).unwrap();
        let mechanism = parameters.config().unwrap().mechanism(1).unwrap();
        let (users, ask) = (mechanism.users(), mechanism.ask(0).unwrap());
        (parameters, Task { exchange: 1, batch: 1, users, ask })
    }

    fn answer(
        (parameters, task): &(EliminationParameters, Task),
        bounds: &DeviceBounds,
    ) -> Result<Mechanism, Error> {
        parameters.answer(task, bounds)
    }

    /// The same noise, stated at another delta, looks as if it cost less: a device that looks at epsilon
    /// alone takes what it would refuse. One that looks at both takes neither.
    #[test]
    fn attack_a_large_delta_makes_no_epsilon_small() {
        let renyi = |delta: f64| {
            first(json!({"model": "renyi", "arms": 3, "horizon": 1000, "epsilon": 1.5, "scale": 1,
                "delta": delta, "confidence": 0.1, "growth": 16}))
        };
        let (small, large) = (renyi(1e-5), renyi(0.99));
        assert_eq!(small.1, large.1);
        let dear = |refused: Result<Mechanism, Error>, of: &str| {
            assert!(
                matches!(refused, Err(Error::Task(Refusal::TooDear { what, .. })) if what == of),
                "{refused:?}"
            );
        };
        let epsilon_alone = DeviceBounds { epsilon: 5.0, delta: 1.0, colluding: 0.0 };
        dear(answer(&small, &epsilon_alone), "epsilon");
        assert!(answer(&large, &epsilon_alone).is_ok());
        let both = DeviceBounds { epsilon: 5.0, ..DeviceBounds::default() };
        dear(answer(&large, &both), "delta");
        dear(answer(&renyi(1.1e-3), &DeviceBounds { epsilon: 100.0, ..both }), "delta");
        assert!(answer(&renyi(1e-3), &DeviceBounds::default()).is_ok());
        // The defaults are a bound as well.
        let any = json!({"model": "pure", "arms": 3, "horizon": 1000, "epsilon": 999_999.0});
        dear(answer(&first(any), &DeviceBounds::default()), "epsilon");
    }

    /// Users add the noise that the bandit's parameters size for those who are real, and refuse where that is
    /// less than they ask for, or where modulus and parameters differ.
    #[test]
    fn users_know_for_how_many_made_up_ones_the_noise_is_sized() {
        let pure = |colluding: f64| {
            first(json!({"model": "pure", "arms": 3, "horizon": 1000, "epsilon": 1, "growth": 16,
                "confidence": 0.1, "colluding": colluding}))
        };
        let mechanism =
            answer(&pure(0.25), &DeviceBounds { colluding: 0.25, ..DeviceBounds::default() }).unwrap();
        assert_eq!((mechanism.users(), mechanism.honest()), (16, 12));
        assert_eq!(answer(&pure(0.0), &DeviceBounds::default()).unwrap().honest(), 16);
        let more = answer(&pure(0.25), &DeviceBounds { colluding: 0.3, ..DeviceBounds::default() });
        assert_eq!(more.unwrap_err(), Refusal::FewColluding { sized: 0.25, least: 0.3 }.into());
        let other = answer(&(pure(0.0).0, pure(0.25).1), &DeviceBounds::default());
        assert!(matches!(other, Err(Error::Task(Refusal::Overasked { .. }))));
        // Bits in place of a share, and a model whose users answer no intermediary.
        let shuffle = json!({"model": "shuffle", "arms": 3, "horizon": 1000, "epsilon": 1, "delta": 1e-9});
        let bits = first(shuffle);
        assert!(answer(&bits, &DeviceBounds::default()).is_ok());
        assert!(answer(&(pure(0.0).0, bits.1.clone()), &DeviceBounds::default()).is_err());
        assert!(answer(&(bits.0, pure(0.0).1), &DeviceBounds::default()).is_err());
        let local = first(json!({"model": "local", "arms": 3, "horizon": 1000, "epsilon": 1}));
        assert!(matches!(
            answer(&local, &DeviceBounds::default()),
            Err(Error::Task(Refusal::Overasked { .. }))
        ));
    }
}
