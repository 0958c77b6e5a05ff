//! A ledger that says no.

use crate::Error;
use crate::budget::{Delta, Epsilon, Rho};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The price of one release, or a whole budget.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    /// `(epsilon, delta)`; pure with `delta` 0.
    Approximate(Epsilon, Delta),
    /// Zero-concentrated.
    Zcdp(Rho),
}

impl Cost {
    /// Pure `epsilon`.
    pub const fn pure(epsilon: Epsilon) -> Self {
        Self::Approximate(epsilon, Delta::ZERO)
    }
}

crate::stored! {
    /// What a person's data have cost so far, and which data have been released.
    ///
    /// Every person has the same budget. [`spend`](Self::spend) pays for a release that may touch everybody;
    /// [`release`](Self::release) for one that touches the named observations only, each of which may be named
    /// once in the whole life of the ledger. The guarantee is the sum of the former plus the dearest of the
    /// latter (parallel composition over disjoint observations, neighbours by replacement). A refusal changes
    /// nothing.
    ///
    /// Sums are of doubles: a total that exceeds the budget by less than one part in `10^12` is rounding, and
    /// passes.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Accountant {
        budget: Cost,
        /// `(epsilon, delta)` or `(rho, 0)`, paid by all.
        shared: (f64, f64),
        /// The same, the largest paid by any single observation.
        worst: (f64, f64),
        /// Observations released: disjoint, not touching, first to last inclusive.
        released: BTreeMap<u64, u64>,
    }
}

impl Accountant {
    /// Nothing spent of `budget`.
    pub fn new(budget: Cost) -> Self {
        Self { budget, shared: (0.0, 0.0), worst: (0.0, 0.0), released: BTreeMap::new() }
    }

    /// The whole budget.
    pub const fn budget(&self) -> Cost {
        self.budget
    }

    /// What the person worst off has paid: `epsilon` and `delta`, or `rho` and 0.
    pub fn spent(&self) -> (f64, f64) {
        (self.shared.0 + self.worst.0, self.shared.1 + self.worst.1)
    }

    /// Pays for a release that may depend on everybody.
    ///
    /// # Errors
    /// [`Error::BudgetSpent`] if too little is left, [`Error::Currency`] if `cost` cannot be expressed in the
    /// budget's kind. Nothing is spent then.
    pub fn spend(&mut self, cost: Cost) -> Result<(), Error> {
        let cost = self.in_currency(cost)?;
        let shared = (self.shared.0 + cost.0, self.shared.1 + cost.1);
        self.afford(shared, self.worst)?;
        self.shared = shared;
        Ok(())
    }

    /// Pays for a release that depends on `observations` only.
    ///
    /// # Errors
    /// [`Error::ReleasedTwice`] if one of them was released before or is named twice; else as
    /// [`spend`](Self::spend). Nothing is spent or recorded then.
    pub fn release(&mut self, observations: impl IntoIterator<Item = u64>, cost: Cost) -> Result<(), Error> {
        let cost = self.in_currency(cost)?;
        let worst = (self.worst.0.max(cost.0), self.worst.1.max(cost.1));
        self.afford(self.shared, worst)?;
        let mut fresh: Vec<u64> = observations.into_iter().collect();
        fresh.sort_unstable();
        let twice = fresh.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
        if let Some(observation) = twice.or_else(|| fresh.iter().copied().find(|&o| self.is_released(o))) {
            return Err(Error::ReleasedTwice { observation });
        }
        for observation in fresh {
            self.insert(observation);
        }
        self.worst = worst;
        Ok(())
    }

    /// Whether `observation` has entered a release.
    pub fn is_released(&self, observation: u64) -> bool {
        self.released.range(..=observation).next_back().is_some_and(|(_, &last)| observation <= last)
    }

    fn insert(&mut self, observation: u64) {
        let (mut first, mut last) = (observation, observation);
        if let Some((&start, &end)) = self.released.range(..observation).next_back()
            && end.checked_add(1) == Some(observation)
        {
            first = start;
        }
        if let Some(after) = observation.checked_add(1)
            && let Some(end) = self.released.remove(&after)
        {
            last = end;
        }
        self.released.insert(first, last);
    }

    fn in_currency(&self, cost: Cost) -> Result<(f64, f64), Error> {
        match (self.budget, cost) {
            (Cost::Approximate(..), Cost::Approximate(e, d)) => Ok((e.get(), d.get())),
            (Cost::Zcdp(_), Cost::Zcdp(rho)) => Ok((rho.get(), 0.0)),
            (Cost::Zcdp(_), Cost::Approximate(e, d)) if d == Delta::ZERO => Ok((Rho::of_pure(e)?.get(), 0.0)),
            _ => Err(Error::Currency),
        }
    }

    /// Refuses a ledger that no run can store.
    fn check_stored(&self) -> Result<(), Error> {
        let costs = [self.shared.0, self.shared.1, self.worst.0, self.worst.1];
        if !costs.iter().all(|c| c.is_finite() && *c >= 0.0) {
            return Err(Error::State { what: "a cost that is negative or not finite" });
        }
        let mut ranges = self.released.iter().zip(self.released.iter().skip(1));
        let apart =
            ranges.all(|((_, last), (next, _))| last.checked_add(1).is_some_and(|after| after < *next));
        if !apart || !self.released.iter().all(|(first, last)| first <= last) {
            return Err(Error::State { what: "observations released twice" });
        }
        self.afford(self.shared, self.worst)
    }

    /// Refuses costs above the budget.
    fn afford(&self, shared: (f64, f64), worst: (f64, f64)) -> Result<(), Error> {
        const ROUNDING: f64 = 1.0 + 1e-12;
        let limit = match self.budget {
            Cost::Approximate(e, d) => (e.get(), d.get()),
            Cost::Zcdp(rho) => (rho.get(), 0.0),
        };
        let total = (shared.0 + worst.0, shared.1 + worst.1);
        if total.0 > limit.0 * ROUNDING {
            return Err(Error::BudgetSpent { what: "epsilon or rho", total: total.0, budget: limit.0 });
        }
        if total.1 > limit.1 * ROUNDING {
            return Err(Error::BudgetSpent { what: "delta", total: total.1, budget: limit.1 });
        }
        Ok(())
    }
}
