//! The privacy accountant, which refuses releases beyond a budget.

use crate::Error;
use crate::budget::{Delta, Epsilon, Rho};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The privacy cost of a release, or a budget.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    /// `(epsilon, delta)`-differential privacy, which is pure if `delta` is 0.
    Approximate(Epsilon, Delta),
    /// Zero-concentrated differential privacy.
    Zcdp(Rho),
}

impl Cost {
    /// Pure `epsilon`.
    pub const fn pure(epsilon: Epsilon) -> Self {
        Self::Approximate(epsilon, Delta::ZERO)
    }
}

crate::stored! {
    /// The privacy costs so far, and the observations that have been released.
    ///
    /// Every person has the same budget. [`spend`](Self::spend) charges a release that may depend on all
    /// data; [`release`](Self::release) charges one that depends on the given observations only, each of
    /// which may be released once. The total cost is the sum of the former plus the largest of the latter
    /// (parallel composition over disjoint observations, neighbours by replacement). A refusal changes
    /// nothing.
    ///
    /// A total that exceeds the budget by less than one part in `10^12` is accepted, since it may be a
    /// rounding error.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Accountant {
        budget: Cost,
        /// Cost of releases that depend on all data: `(epsilon, delta)` or `(rho, 0)`.
        shared: (f64, f64),
        /// Largest cost of a release of single observations, in the same form.
        worst: (f64, f64),
        /// Observations released, as ranges from first to last, which are disjoint and not adjacent.
        released: BTreeMap<u64, u64>,
    }
}

impl Accountant {
    /// An accountant with this budget, of which nothing is spent.
    pub fn new(budget: Cost) -> Self {
        Self { budget, shared: (0.0, 0.0), worst: (0.0, 0.0), released: BTreeMap::new() }
    }

    /// The whole budget.
    pub const fn budget(&self) -> Cost {
        self.budget
    }

    /// The largest cost of any person: `epsilon` and `delta`, or `rho` and 0.
    pub fn spent(&self) -> (f64, f64) {
        (self.shared.0 + self.worst.0, self.shared.1 + self.worst.1)
    }

    /// Charges a release that may depend on all data.
    ///
    /// # Errors
    /// [`Error::BudgetSpent`] if the rest of the budget is smaller, [`Error::Currency`] if `cost` cannot be
    /// converted to the kind of the budget. Nothing is spent then.
    pub fn spend(&mut self, cost: Cost) -> Result<(), Error> {
        let cost = self.in_currency(cost)?;
        let shared = (self.shared.0 + cost.0, self.shared.1 + cost.1);
        self.afford(shared, self.worst)?;
        self.shared = shared;
        Ok(())
    }

    /// Charges a release that depends on `observations` only.
    ///
    /// # Errors
    /// [`Error::ReleasedTwice`] if one of them was released before or occurs twice; those of
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
