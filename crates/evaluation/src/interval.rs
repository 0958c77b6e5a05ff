//! Intervals of mean rewards, over rounds and over orders of them.

/// Terms of a policy in n rounds and M runs, each of which had the rounds in another order and other random
/// draws: their mean, and what its variance is estimated from.
///
/// The mean is that of a run of n rounds of the population from which the rounds come, because each order of
/// independent rounds is such a run. Runs share the rounds, so that rounds and runs are crossed random
/// effects. With the variance R of the means by round, C of those by run, and E of what neither explains,
///
/// Var = A + C/M + s·min(C, A), where A = max(0, R/n − E/(nM)).
///
/// A is the part of the rounds, C/M that of orders and random draws. The last term stands for what rounds
/// teach: a policy learns from the rounds of the file in all orders, and would learn otherwise from others of
/// the population. Only orders tell how much hangs on what was learnt, which is C. s is a third, and
/// 0.8 where policies learn from a model of the log ([`TAUGHT`]), which is the same in all runs. The
/// term is no more than s·A, because a decision that the first few rounds settle varies with their order, and
/// hardly with the set of them. Both shares are measured and not derived: the test
/// `intervals_cover_the_truth` says how often intervals hold with them.
///
/// # Source
/// Searle, Casella, McCulloch, "Variance components", 1992, section 5 (crossed classification); degrees of
/// freedom: Satterthwaite, "An approximate distribution of estimates of variance components", 1946. The last
/// term is ours.
#[derive(Debug, Clone)]
pub(crate) struct Crossed {
    rounds: Vec<f64>,
    runs: Vec<f64>,
    residual: f64,
    taught: f64,
}

/// The share s of what rounds teach: by replay, and where policies learn from a model of the log.
pub(crate) const TAUGHT: [f64; 2] = [1.0 / 3.0, 0.8];

/// A mean with its standard error and the degrees of freedom of that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) value: f64,
    pub(crate) error: f64,
    degrees: f64,
}

impl Crossed {
    /// From the terms of every round, run by run, and the share `taught` of [`TAUGHT`]. A single run stands
    /// for a choice that no order changes.
    pub(crate) fn new(runs: &[&[f64]], taught: f64) -> Self {
        let (count, n) = (runs.len() as f64, runs.first().map_or(0, |run| run.len()));
        let rounds: Vec<f64> = (0..n)
            .map(|i| {
                // Equal terms keep their last bit.
                let first = runs[0][i];
                first + runs.iter().map(|run| run[i] - first).sum::<f64>() / count
            })
            .collect();
        let runs_means: Vec<f64> = runs.iter().map(|run| mean(run)).collect();
        let grand = mean(&runs_means);
        let left = runs.iter().zip(&runs_means).map(|(run, of_run)| {
            let square = |(x, of_round): (&f64, &f64)| (x - of_round - of_run + grand).powi(2);
            run.iter().zip(&rounds).map(square).sum::<f64>()
        });
        let degrees = (n.max(2) - 1) as f64 * (count - 1.0);
        let residual = if runs.len() > 1 { left.sum::<f64>() / degrees } else { 0.0 };
        Crossed { rounds, runs: runs_means, residual, taught }
    }

    /// The means by round.
    pub(crate) fn rounds(&self) -> &[f64] {
        &self.rounds
    }

    /// The standard deviation between runs.
    pub(crate) fn deviation(&self) -> f64 {
        variance(&self.runs).sqrt()
    }

    /// The mean.
    pub(crate) fn spread(&self) -> Spread {
        self.of(&self.rounds, mean(&self.runs))
    }

    /// The mean less that of terms that are the same in all runs.
    pub(crate) fn above(&self, other: &[f64]) -> Spread {
        let differences: Vec<f64> = self.rounds.iter().zip(other).map(|(x, y)| x - y).collect();
        let value = mean(&differences);
        self.of(&differences, value)
    }

    fn of(&self, rounds: &[f64], value: f64) -> Spread {
        let (n, runs) = (rounds.len().max(1) as f64, self.runs.len() as f64);
        let of_rounds = (variance(rounds) / n - self.residual / (n * runs)).max(0.0);
        let of_runs = variance(&self.runs);
        let learnt = of_runs.min(of_rounds) * self.taught;
        let all = of_rounds + of_runs / runs + learnt;
        // The parts that each of the two estimates has in the sum.
        let [by_rounds, by_runs] = match of_runs < of_rounds {
            true => [of_rounds, of_runs / runs + learnt],
            false => [of_rounds + learnt, of_runs / runs],
        };
        let squares = by_rounds.powi(2) / (n - 1.0).max(1.0) + by_runs.powi(2) / (runs - 1.0).max(1.0);
        let degrees = if squares > 0.0 { all * all / squares } else { n };
        Spread { value, error: all.sqrt(), degrees: degrees.max(1.0) }
    }
}

impl Spread {
    /// The factor of the standard error that is exceeded with probability 1 − `share`.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        student(share, self.degrees)
    }

    /// Both ends of the interval that holds with probability `level`.
    pub(crate) fn interval(&self, level: f64) -> [f64; 2] {
        let half = self.quantile((1.0 + level) / 2.0) * self.error;
        [self.value - half, self.value + half]
    }
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    let Some(first) = values.first() else { return 0.0 };
    // Equal values keep their last bit.
    first + values.iter().map(|x| x - first).sum::<f64>() / values.len() as f64
}

/// The sample variance.
pub(crate) fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    squares / (values.len().max(2) - 1) as f64
}

/// The quantile of Student's t with so many degrees of freedom, for a `share` of ½ or more, to 10⁻¹² of it.
pub(crate) fn student(share: f64, degrees: f64) -> f64 {
    let tail = 1.0 - share;
    let (mut low, mut high) = (0.0, 1.0);
    while above(high, degrees) > tail && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if above(middle, degrees) > tail { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// P(T > t) for t ≥ 0: half the regularised incomplete beta function I_x(ν/2, ½) at x = ν/(ν + t²).
fn above(t: f64, degrees: f64) -> f64 {
    let (a, b) = (degrees / 2.0, 0.5);
    let x = degrees / (degrees + t * t);
    let front = || {
        let gammas = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b);
        (gammas + a * x.ln() + b * (t * t / (degrees + t * t)).ln()).exp()
    };
    0.5 * match (x <= 0.0, x >= 1.0) {
        (true, _) => 0.0,
        (_, true) => 1.0,
        _ if x < (a + 1.0) / (a + b + 2.0) => front() * fraction(a, b, x) / a,
        _ => 1.0 - front() * fraction(b, a, 1.0 - x) / b,
    }
}

/// The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz's method.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let keep = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let mut d = 1.0 / keep(1.0 - (a + b) * x / (a + 1.0));
    let (mut c, mut h) = (1.0, d);
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for term in [even, odd] {
            d = 1.0 / keep(1.0 + term * d);
            c = keep(1.0 + term / c);
            step = c * d;
            h *= step;
        }
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;
    use privacy::source::{SplitMix64, Words};

    /// Quantiles of published tables.
    #[test]
    fn quantiles_are_those_of_tables() {
        for (share, degrees, want) in [
            (0.975, 1.0, 12.7062),
            (0.975, 2.0, 4.30265),
            (0.975, 9.0, 2.26216),
            (0.95, 30.0, 1.69726),
            (0.9995, 5.0, 6.86883),
            (0.975, 1e6, 1.95997),
            (0.5, 7.0, 0.0),
        ] {
            let got = student(share, degrees);
            assert!(
                (got - want).abs() < 1e-5 * (1.0 + want),
                "{share} {degrees}: {got}, {want} in the table"
            );
        }
    }

    /// Terms with variances of rounds, runs and the rest that are known: the standard error is that of the
    /// grand mean, and its square has the mean that the formula states.
    #[test]
    fn variances_of_rounds_and_runs_add_up() {
        let mut rng = SplitMix64::new(1);
        // Uniform numbers of variance 1.
        let mut draw = || (rng.uniform() - 0.5) * 12f64.sqrt();
        const N: usize = 40;
        const M: usize = 6;
        const FILES: usize = 2000;
        let (mut means, mut squares, mut held) = (Vec::new(), 0.0, 0);
        for _ in 0..FILES {
            let rounds: Vec<f64> = (0..N).map(|_| 3.0 * draw()).collect();
            let runs: Vec<Vec<f64>> = (0..M)
                .map(|_| {
                    let of_run = 0.1 * draw();
                    rounds.iter().map(|r| r + of_run + draw()).collect()
                })
                .collect();
            let spread =
                Crossed::new(&runs.iter().map(Vec::as_slice).collect::<Vec<_>>(), TAUGHT[0]).spread();
            means.push(spread.value);
            squares += spread.error.powi(2) / FILES as f64;
            let [low, high] = spread.interval(0.95);
            held += usize::from(low <= 0.0 && 0.0 <= high);
        }
        let truth = 9.0 / N as f64 + 0.01 / M as f64 + 1.0 / (N * M) as f64;
        // Variances of 2000 means have a relative standard error of √(2/2000); four of them.
        assert!((variance(&means) / truth - 1.0).abs() < 4.0 * (2.0f64 / FILES as f64).sqrt());
        // With a third of the variance of a run, here the smaller one, for what rounds teach.
        let stated = truth + (0.01 + 1.0 / N as f64) / 3.0;
        assert!((squares / stated - 1.0).abs() < 0.03, "{squares} {stated}");
        // By 5 % too wide, they hold in 0.957 of the files; four standard errors of 2000.
        assert!((0.94..0.976).contains(&(held as f64 / FILES as f64)), "{held}");
    }
}
