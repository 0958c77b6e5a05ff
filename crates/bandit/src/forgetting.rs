//! Forgetting: old feedback counts less, or not at all, so that a policy follows a parameter that drifts.
//!
//! The feedback of a batch is one sum, and the statistics are the sums times integer weights, which fall with
//! the age of a sum. An encrypted server multiplies ciphertexts by the same integers, so that the policies
//! in the clear are its exact twins.
//!
//! Sources: Russac, Vernade, Cappe 2019, "Weighted linear bandits for non-stationary environments"
//! (discount); Cheung, Simchi-Levi, Zhu 2019, "Learning to optimize under non-stationarity" (window).
//! Departures: a feedback has the weight of the last one in its sum, the ridge is not discounted, and the
//! width is that of one matrix, where D-LinUCB has a second one with squared weights.

use crate::Error;
use fault::require;
use serde::{Deserialize, Serialize};

/// log₂ of the weight of the newest sum under a discount.
const LOG_WEIGHT: u32 = 11;
/// The largest window, and the largest 1/(1 − γ).
const MOST_AGE: f64 = 1e6;

/// How feedback loses its weight with its age, which counts the feedbacks after it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forgetting {
    discount: f64,
    window: Option<u64>,
}

impl Forgetting {
    /// The weight γᵃ at age a for the discount γ, and 0 from an age of `window` on; `None` if neither is
    /// given, or the discount is 1 alone.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a discount that is not above 0 and at most 1 − 10⁻⁶, or 1, and for a window
    /// that is not from 1 to 10⁶.
    pub fn new(discount: Option<f64>, window: Option<u64>) -> Result<Option<Self>, Error> {
        let discount = discount.unwrap_or(1.0);
        let fades = discount > 0.0 && discount <= 1.0 - MOST_AGE.recip();
        require(fades || discount == 1.0, "discount", discount, "above 0 and at most 0.999999, or 1")?;
        let ends = window.is_none_or(|window| (1..=MOST_AGE as u64).contains(&window));
        require(ends, "window", window.unwrap_or(0) as f64, "from 1 to 1000000 feedbacks")?;
        Ok((fades || window.is_some()).then_some(Forgetting { discount, window }))
    }

    /// log₂ of the weight of the newest sum: 11 under a discount, and 0 with a window alone.
    pub fn log_weight(&self) -> u32 {
        if self.discount < 1.0 { LOG_WEIGHT } else { 0 }
    }

    /// The feedbacks after which a sum takes no further batch: 1/(4(1 − γ)), or 1/32 of the window if that is
    /// less. Weights fall in steps of a fifth then, and few sums are kept ([`Self::most_sums`]).
    pub fn span(&self) -> u64 {
        let faded = (4.0 * (1.0 - self.discount)).recip();
        let span = self.window.map_or(f64::INFINITY, |window| window as f64 / 32.0).min(faded);
        // The cast rounds down, and saturates.
        (span as u64).max(1)
    }

    /// A bound on the number of sums that have a weight.
    pub fn most_sums(&self) -> u64 {
        // γᵃ is 2⁻¹¹ at this age.
        let faded = f64::from(LOG_WEIGHT) * std::f64::consts::LN_2 / (1.0 - self.discount);
        let oldest = self.window.map_or(f64::INFINITY, |window| window as f64).min(faded);
        (oldest / self.span() as f64) as u64 + 2
    }

    /// The number of feedbacks without forgetting that are as much as `feedbacks` under it, from which
    /// confidence widths are computed: (1 − γⁿ)/(1 − γ), for the n of them that are in the window.
    pub fn effective(&self, feedbacks: u64) -> u64 {
        let kept = self.window.map_or(feedbacks, |window| feedbacks.min(window));
        match self.discount < 1.0 {
            // Not the power of the machine: servers, devices and twins compute equal numbers.
            true => ((1.0 - libm::pow(self.discount, kept as f64)) / (1.0 - self.discount)).round() as u64,
            false => kept,
        }
    }

    /// A bound on [`WeightedSums::feedbacks`], if no batch is longer than `batch`.
    pub fn most(&self, batch: u64) -> u64 {
        // A sum of n feedbacks at age a has n·γᵃ, the integral of γˣ over its ages and at most n·(γᵃ − γᵃ⁺ⁿ)
        // more, which add up to the length of the longest sum.
        let longest = self.span() - 1 + batch;
        let faded = (1.0 - self.discount).recip().ceil();
        self.window.map_or(f64::INFINITY, |window| window as f64).min(faded) as u64 + longest
    }

    /// The weight of a sum of the feedbacks after number `after` up to number `to`, when `now` are counted.
    fn weight(&self, after: u64, to: u64, now: u64) -> u32 {
        match self.window {
            Some(window) if now - after > window => 0,
            // Rounded down, so that no weight is above γᵃ.
            _ => (libm::pow(self.discount, (now - to) as f64) * f64::from(1u32 << self.log_weight())) as u32,
        }
    }
}

/// The sums of batches that have a weight, the oldest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WeightedSums<S> {
    forgetting: Forgetting,
    sums: Vec<WeightedSum<S>>,
}

/// The sum of the feedbacks after number `after` up to number `to`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct WeightedSum<S> {
    after: u64,
    to: u64,
    weight: u32,
    sum: S,
}

/// What the end of a batch takes of the weights of the sums before: old weight, new weight, feedbacks.
#[derive(Debug, Clone, PartialEq)]
pub struct Faded(Vec<[f64; 3]>);

impl<S> WeightedSums<S> {
    /// No sums yet.
    pub fn new(forgetting: Forgetting) -> Self {
        WeightedSums { forgetting, sums: Vec::new() }
    }

    /// How weights fall.
    pub fn forgetting(&self) -> Forgetting {
        self.forgetting
    }

    /// Ends a batch whose last feedback is number `to`: `sum` is added by `add` to the newest sum if that is
    /// shorter than a [`Forgetting::span`] or the batch has no feedback, and is the newest one otherwise. The
    /// newest has the largest weight, 2^[`Forgetting::log_weight`]; all others have those of their age, and
    /// sums without weight go.
    ///
    /// # Errors
    /// Those of `add`.
    pub fn end_batch<E>(
        &mut self,
        to: u64,
        sum: S,
        add: impl FnOnce(&mut S, S) -> Result<(), E>,
    ) -> Result<Faded, E> {
        let (forgetting, one) = (self.forgetting, 1 << self.forgetting.log_weight());
        let last = self.sums.last().map_or(0, |last| last.to);
        let joins = |newest: &WeightedSum<S>| to <= last || newest.to - newest.after < forgetting.span();
        let newest = self.sums.pop_if(|newest| joins(newest));
        let mut faded: Vec<[f64; 3]> = Vec::with_capacity(self.sums.len());
        for sum in &mut self.sums {
            let before = std::mem::replace(&mut sum.weight, forgetting.weight(sum.after, sum.to, to));
            faded.push([f64::from(before), f64::from(sum.weight), (sum.to - sum.after) as f64]);
        }
        self.sums.retain(|sum| sum.weight > 0);
        let newest = match newest {
            Some(mut newest) => {
                add(&mut newest.sum, sum)?;
                WeightedSum { to: to.max(last), ..newest }
            }
            None => WeightedSum { after: last, to, weight: one, sum },
        };
        self.sums.push(newest);
        faded.iter_mut().for_each(|[before, after, _]| {
            (*before, *after) = (*before / f64::from(one), *after / f64::from(one));
        });
        Ok(Faded(faded))
    }

    /// The sums and their weights, the oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&S, u32)> {
        self.sums.iter().map(|sum| (&sum.sum, sum.weight))
    }

    /// The sums, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.sums.iter_mut().map(|sum| &mut sum.sum)
    }

    /// The feedbacks in the sums, each times its weight, in units of the largest weight; rounded up.
    pub fn feedbacks(&self) -> u64 {
        let all = self.sums.iter().map(|sum| u64::from(sum.weight) * (sum.to - sum.after)).sum::<u64>();
        all.div_ceil(1 << self.forgetting.log_weight())
    }

    /// The same with `map` of each sum.
    ///
    /// # Errors
    /// Those of `map`.
    pub fn try_map<T, E>(self, mut map: impl FnMut(S) -> Result<T, E>) -> Result<WeightedSums<T>, E> {
        let WeightedSums { forgetting, sums } = self;
        let one =
            |WeightedSum { after, to, weight, sum }| Ok(WeightedSum { after, to, weight, sum: map(sum)? });
        Ok(WeightedSums { forgetting, sums: sums.into_iter().map(one).collect::<Result<_, E>>()? })
    }

    /// Whether a stored value can have come of batches.
    pub fn is_valid(&self) -> bool {
        let most = 1 << self.forgetting.log_weight();
        let orders = self.sums.windows(2).all(|two| two[0].to == two[1].after);
        let lasts = self.sums.iter().all(|sum| sum.after <= sum.to && (1..=most).contains(&sum.weight));
        let known = Forgetting::new(Some(self.forgetting.discount), self.forgetting.window);
        orders && lasts && known == Ok(Some(self.forgetting))
    }
}

impl Faded {
    /// The least c that this finds with V ≤ c·V', for the V = λI + Σ wᵢ·Sᵢ before a batch and the V' after
    /// it, where Sᵢ is a sum of xxᵀ and `ratio` is L²/λ. Then no eigenvalue of V⁻¹V' is below 1/c.
    ///
    /// For every ρ in (0, 1], V ≤ V'/ρ + Σ (wᵢ − w'ᵢ/ρ)⁺·Sᵢ, because λ ≤ λ/ρ. Sᵢ ≤ nᵢL²·I ≤ (nᵢL²/λ)·V' for
    /// a sum of nᵢ feedbacks. So c(ρ) = 1/ρ + (L²/λ)·Σ (wᵢ − w'ᵢ/ρ)⁺·nᵢ. A discount takes about the same
    /// share of all weights, for which a ρ below 1 is best; a window takes one whole sum, for which ρ = 1 is.
    pub fn bound(&self, ratio: f64) -> f64 {
        let at = |share: f64| {
            let lost =
                self.0.iter().map(|[before, after, n]| (before - after / share).max(0.0) * n).sum::<f64>();
            share.recip() + ratio * lost
        };
        // c is convex in 1/ρ between the ratios of weights, and so least at one of them, or at 1.
        let shares = self.0.iter().map(|[before, after, _]| after / before).filter(|share| *share > 0.0);
        shares.map(at).fold(at(1.0), f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn of(discount: impl Into<Option<f64>>, window: impl Into<Option<u64>>) -> Forgetting {
        Forgetting::new(discount.into(), window.into()).unwrap().unwrap()
    }

    /// The numbers of feedbacks of each sum after batches of these lengths, their weights, and what the last
    /// batch took.
    fn after(forgetting: Forgetting, batches: &[u64]) -> (Vec<(u64, u32)>, Faded) {
        let (mut sums, mut to, mut faded) = (WeightedSums::new(forgetting), 0, Faded(Vec::new()));
        for n in batches {
            to += n;
            faded = sums
                .end_batch(to, *n, |sum, more| {
                    *sum += more;
                    Ok::<_, Infallible>(())
                })
                .unwrap();
            assert!(sums.is_valid());
        }
        (sums.iter().map(|(n, weight)| (*n, weight)).collect(), faded)
    }

    /// By hand: γ = ½ halves 2048 with each feedback; a window of 4 ends before the fifth.
    #[test]
    fn weights_by_hand() {
        let halved = after(of(0.5, None), &[1, 1, 1, 2]).0;
        assert_eq!(halved, [(1, 128), (1, 256), (1, 512), (2, 2048)]);
        let within = after(of(None, 4), &[1, 1, 1, 2, 1]).0;
        assert_eq!(within, [(1, 1), (2, 1), (1, 1)]);
        // A batch that is longer than the window counts until the next one.
        assert_eq!(after(of(None, 4), &[1, 9]).0, [(9, 1)]);
        assert_eq!(after(of(None, 4), &[9, 1]).0, [(1, 1)]);
        let [whole, halves] = [of(None, 100), of(0.5, 100)].map(|f| [0, 1, 2, 3].map(|n| f.effective(n)));
        assert_eq!((whole, halves), ([0, 1, 2, 3], [0, 1, 2, 2]));
    }

    /// However long a bandit runs, few sums have a weight, and their feedbacks are at most those of the
    /// bound.
    #[test]
    fn few_sums_have_a_weight() {
        for forgetting in [of(0.9, None), of(0.998, None), of(0.999_5, None), of(None, 1000), of(0.999, 1500)]
        {
            for batch in [1, 16, 64] {
                let (sums, _) = after(forgetting, &vec![batch; 24_000 / batch as usize]);
                let kept: f64 = sums.iter().map(|(n, w)| *n as f64 * f64::from(*w)).sum();
                let (kept, most) = (kept / f64::from(1 << forgetting.log_weight()), forgetting.most(batch));
                assert!(
                    sums.len() as u64 <= forgetting.most_sums() && sums.len() <= 65,
                    "{forgetting:?}, {batch}: {} sums",
                    sums.len()
                );
                assert!(kept <= most as f64 && kept >= 0.85 * forgetting.effective(24_000) as f64);
            }
        }
    }

    /// Of sums of matrices with one entry, whatever the entries are, no more is lost than the bound; and in a
    /// long run a discount loses a factor of at most 2.1 in all, and a window what one sum has.
    #[test]
    fn what_fades_is_bounded() {
        for (forgetting, most) in [(of(0.9, None), 7.0), (of(0.999, None), 2.1), (of(None, 1000), 33.0)] {
            let (mut sums, mut worst) = (WeightedSums::new(forgetting), 1.0f64);
            for j in 1..=500u64 {
                // Vectors of norm up to 1, all, or some sums have nothing.
                let x = if j % 7 < 3 { 0.0 } else { 16.0 };
                let v = |sums: &WeightedSums<f64>| {
                    let one = f64::from(1 << forgetting.log_weight());
                    1.0 + sums.iter().map(|(s, w)| s * f64::from(w) / one).sum::<f64>()
                };
                let before = v(&sums);
                let add = |sum: &mut f64, more| {
                    *sum += more;
                    Ok::<_, Infallible>(())
                };
                let faded = sums.end_batch(16 * j, x, add).unwrap();
                let bound = faded.bound(1.0);
                assert!(before <= bound * (v(&sums) - x) * (1.0 + 1e-12), "{forgetting:?}, {j}: {bound}");
                worst = worst.max(bound);
            }
            assert!(worst <= most, "{forgetting:?}: {worst}");
        }
    }

    #[test]
    fn what_is_refused() {
        for (discount, window, field) in [
            (Some(0.0), None, "discount"),
            (Some(1.1), None, "discount"),
            (Some(0.999_999_9), None, "discount"),
            (Some(f64::NAN), None, "discount"),
            (None, Some(0), "window"),
            (None, Some(1_000_001), "window"),
        ] {
            let refused = Forgetting::new(discount, window).unwrap_err();
            assert!(matches!(&refused, Error::OutOfRange(e) if e.field == field), "{refused}");
        }
        assert_eq!(Forgetting::new(None, None), Ok(None));
        assert_eq!(Forgetting::new(Some(1.0), None), Ok(None));
    }
}
