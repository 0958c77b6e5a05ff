//! The counters of whole groups of feedbacks, which holders of the key open.

use super::EncryptedBandit;
use super::feedback::empty_sum;
use super::stored::Place;
use crate::{Engine, Error};
use ckks::{Ciphertext, Plaintext};
use privacy::{Ratio, sampler};
use protocol::Counters;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// Sums of feedbacks whose counters holders of the key open ([`Counters`]).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CounterSums<C = Arc<Ciphertext>> {
    /// The feedbacks of the open group.
    group: C,
    /// The counters of all groups before it, with their noise, and nothing else.
    shown: C,
    /// The number of feedbacks in them.
    feedbacks: u64,
}

impl CounterSums {
    pub(super) fn new(engine: &Engine) -> Self {
        let empty = || Arc::new(empty_sum(engine));
        CounterSums { group: empty(), shown: empty(), feedbacks: 0 }
    }

    /// Subtracts a feedback that was counted before from the open group.
    pub(super) fn subtract(&mut self, engine: &Engine, feedback: &Ciphertext) -> Result<(), Error> {
        Ok(engine.scores_evaluator().sub_assign(Arc::make_mut(&mut self.group), feedback)?)
    }
}

impl<C> CounterSums<C> {
    /// The sums with `map` of each ciphertext.
    pub(super) fn try_map<D>(
        self,
        map: &mut impl FnMut(Place, C) -> Result<D, Error>,
    ) -> Result<CounterSums<D>, Error> {
        Ok(CounterSums {
            group: map(Place::Statistics, self.group)?,
            shown: map(Place::Statistics, self.shown)?,
            feedbacks: self.feedbacks,
        })
    }
}

impl EncryptedBandit {
    /// The sum of the feedbacks of whole groups, which has their counters alone, and the number of these
    /// feedbacks; `None` if the bandit has no counters.
    pub fn counters(&self) -> Option<(&Arc<Ciphertext>, u64)> {
        let sums = self.state.counters.as_ref()?;
        Some((&sums.shown, sums.feedbacks))
    }

    /// Adds the counters of a feedback to those of its group, and shows the group when it is whole.
    pub(super) fn add_counters(&mut self, engine: &Engine, feedback: &Ciphertext) -> Result<(), Error> {
        let (s, evaluator) = (&mut self.state, engine.scores_evaluator());
        let seed = s.noise_seed();
        let (Some(sums), Some(counters)) = (&mut s.counters, &s.config.counters) else {
            return Ok(());
        };
        evaluator.add_assign(Arc::make_mut(&mut sums.group), feedback)?;
        if !s.feedbacks.is_multiple_of(counters.every) {
            return Ok(());
        }
        let group = std::mem::replace(&mut sums.group, Arc::new(empty_sum(engine)));
        let places = self.exchanges.layout.counters();
        let mut group = Arc::unwrap_or_clone(group).with_coefficients(engine.params(), places.clone());
        // With logged rounds a group may be several multiples long, and has the noise of so many groups.
        let groups = (s.feedbacks - sums.feedbacks) / counters.every;
        let noise = noise(counters, groups, places, seed)?;
        let noise = Plaintext::from_integers(engine.params(), &noise, group.level(), group.scale())?;
        evaluator.add_plain_assign(&mut group, &noise)?;
        evaluator.add_assign(Arc::make_mut(&mut sums.shown), &group)?;
        sums.feedbacks = s.feedbacks;
        Ok(())
    }
}

/// The noise of so many groups of counters at these coefficients, drawn from a seed that the server alone
/// knows.
fn noise(counters: &Counters, groups: u64, places: Range<usize>, seed: [u8; 32]) -> Result<Vec<i64>, Error> {
    let (variance, step) = counters.noise();
    let mut out = vec![0i64; places.end];
    if variance == 0 {
        return Ok(out);
    }
    let mut words = ChaCha20Rng::from_seed(seed);
    for _ in 0..groups {
        for coefficient in &mut out[places.clone()] {
            let drawn = sampler::discrete_gaussian(&mut words, Ratio::integer(variance));
            let steps = drawn.ok().and_then(|steps| i64::try_from(steps).ok()?.checked_mul(step));
            let sum = steps.and_then(|steps| coefficient.checked_add(steps));
            *coefficient = sum.ok_or(Error::Broken("noise of counters that is out of range"))?;
        }
    }
    Ok(out)
}
