//! Exact samplers: integers and rationals in, integers out, no rounding anywhere.
//!
//! Every draw is made of [`Words::below`] and [`Words::bernoulli`] in a fixed order, so that a seed gives the same
//! values everywhere. None is constant-time: the number of words drawn depends on the value.
//!
//! | law | support, probability | here |
//! |---|---|---|
//! | discrete Laplace, scale `1/g` | `Z`, `∝ e^(-g abs(x))` | [`discrete_laplace`] |
//! | discrete Gaussian | `Z`, `∝ e^(-x²/2v)` | [`discrete_gaussian`] |
//! | Polya `(1/n, e^-g)` | `N`, negative binomial with real index `1/n` | [`polya`] |
//! | Poisson | `N` | [`poisson`] |
//! | Skellam, variance `v` | `Z`, difference of two Poisson of mean `v/2` | [`skellam`] |
//!
//! # Errors
//! All: [`Error::Overflow`] if an exact intermediate does not fit 128 bits; parameters with numerators and denominators
//! below `2^40` never do.
//!
//! # Source
//! Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", 2020 (the exponentials, discrete Laplace
//! and Gaussian). Polya and Poisson: ours, by rejection from a geometric law, each acceptance a product of rationals;
//! Chowdhury, Zhou, "Distributed Differential Privacy in Multi-Armed Bandits", suggest a Gamma-Poisson mixture, which
//! is not exact in floating point.

use crate::{Error, Ratio, source::Words};

fn positive(field: &'static str, r: Ratio) -> Result<Ratio, Error> {
    if r.num() == 0 { Err(Error::Field { field, got: 0.0, want: "above 0" }) } else { Ok(r) }
}

fn fits<T>(value: Option<T>) -> Result<T, Error> {
    value.ok_or(Error::Overflow { what: "an exact intermediate of a sampler", bits: 128 })
}

/// True with probability `e^-g`, for `g` in `[0, 1]`.
fn bernoulli_exp_unit<W: Words + ?Sized>(words: &mut W, g: Ratio) -> Result<bool, Error> {
    let mut k = 1;
    while words.bernoulli(Ratio::new(g.num(), fits(g.den().checked_mul(k))?)?) {
        k += 1;
    }
    Ok(k % 2 == 1)
}

/// True with probability `e^-g`.
///
/// # Errors
/// [`Error::Overflow`].
pub fn bernoulli_exp<W: Words + ?Sized>(words: &mut W, mut g: Ratio) -> Result<bool, Error> {
    while !g.at_most_one() {
        if !bernoulli_exp_unit(words, Ratio::ONE)? {
            return Ok(false);
        }
        g = Ratio::new(g.num() - g.den(), g.den())?;
    }
    bernoulli_exp_unit(words, g)
}

/// Geometric from 0: `P(x) = (1 - e^-g) e^(-g x)`.
///
/// # Errors
/// [`Error::Field`] if `g` is 0, [`Error::Overflow`].
pub fn geometric_exp<W: Words + ?Sized>(words: &mut W, g: Ratio) -> Result<u128, Error> {
    let (a, c) = (positive("rate", g)?.num(), g.den());
    let low = loop {
        let u = words.below(c);
        if bernoulli_exp_unit(words, Ratio::new(u, c)?)? {
            break u;
        }
    };
    let mut high: u128 = 0;
    while bernoulli_exp_unit(words, Ratio::ONE)? {
        high += 1;
    }
    Ok(fits(high.checked_mul(c).and_then(|x| x.checked_add(low)))? / a)
}

/// Discrete Laplace: `P(x) = (1 - e^-g)/(1 + e^-g) e^(-g |x|)`; the scale is `1/g`.
///
/// # Errors
/// As [`geometric_exp`].
pub fn discrete_laplace<W: Words + ?Sized>(words: &mut W, g: Ratio) -> Result<i128, Error> {
    loop {
        let x = geometric_exp(words, g)?;
        let negative = words.below(2) == 1;
        let x = fits(i128::try_from(x).ok())?;
        match (negative, x) {
            (true, 0) => {} // zero would count twice
            (true, x) => return Ok(-x),
            (false, x) => return Ok(x),
        }
    }
}

/// Discrete Gaussian: `P(x) ∝ e^(-x²/2v)`. `v` is at least the variance, and all but equal to it from 1 on.
///
/// # Errors
/// [`Error::Field`] if `v` is 0, [`Error::Overflow`].
pub fn discrete_gaussian<W: Words + ?Sized>(words: &mut W, v: Ratio) -> Result<i128, Error> {
    let (p, q) = (positive("variance", v)?.num(), v.den());
    let t = v.floor().isqrt() + 1;
    let (rate, tq) = (Ratio::new(1, t)?, fits(t.checked_mul(q))?);
    let scale = Ratio::new(1, fits(p.checked_mul(2).and_then(|x| x.checked_mul(q)))?)?;
    loop {
        let y = discrete_laplace(words, rate)?;
        // (|y| - v/t)²/2v = ((|y| t q - p)/t)² / 2pq
        let distance = fits(y.unsigned_abs().checked_mul(tq))?.abs_diff(p);
        let distance = Ratio::new(distance, t)?;
        if bernoulli_exp(words, distance.times(scale)?.times(distance)?)? {
            return Ok(y);
        }
    }
}

/// Polya (negative binomial of real index) with index `1/n` and parameter `e^-g`: the sum of `n` independent ones is
/// geometric, and the difference of two such sums is discrete Laplace of scale `1/g`.
///
/// About `(1 - e^-g)^(1/n - 1)` tries on average: of order `√n` where `g` is `1/√n`.
///
/// # Errors
/// [`Error::Field`] if `n` or `g` is 0, [`Error::Overflow`].
pub fn polya<W: Words + ?Sized>(words: &mut W, n: u64, g: Ratio) -> Result<u128, Error> {
    let share = Ratio::new(1, u128::from(n))?;
    positive("rate", g)?;
    let n = u128::from(n);
    'again: loop {
        if !bernoulli_exp(words, g)? {
            return Ok(0);
        }
        if !words.bernoulli(share) {
            continue;
        }
        let x = geometric_exp(words, g)?.saturating_add(1);
        for k in 2..=x {
            let (num, den) = (n.checked_mul(k - 1).and_then(|x| x.checked_add(1)), n.checked_mul(k));
            if !words.bernoulli(Ratio::new(fits(num)?, fits(den)?)?) {
                continue 'again;
            }
        }
        return Ok(x);
    }
}

/// Poisson of mean 1: proposal `2^-(x+1)`, accepted with `2^(x+1) / (4 x!)`.
fn poisson_unit<W: Words + ?Sized>(words: &mut W) -> Result<u64, Error> {
    /// The last factorial that fits 128 bits with the factor of 4 taken out.
    const LAST: u128 = 33;
    loop {
        let mut x = 0;
        while words.below(2) == 1 {
            x += 1;
        }
        let head = x.min(LAST);
        let factorial: u128 = (1..=head).product();
        let accept = Ratio::new(1 << (head + 1), 4 * factorial)?;
        // Beyond the table the quotient is split into one Bernoulli a factor: exact, and never met in practice.
        if words.bernoulli(accept)
            && (LAST + 1..=x).try_fold(true, |all, k| Ok(all && words.bernoulli(Ratio::new(2, k)?)))?
        {
            return u64::try_from(x).map_err(|_| Error::Overflow { what: "a Poisson count", bits: 64 });
        }
    }
}

/// Poisson of mean `lambda`. Takes time in proportion to `lambda`.
///
/// # Errors
/// [`Error::Overflow`].
pub fn poisson<W: Words + ?Sized>(words: &mut W, lambda: Ratio) -> Result<u64, Error> {
    let mut sum = 0u64;
    let mut whole = 0;
    while whole < lambda.floor() {
        sum = fits(sum.checked_add(poisson_unit(words)?))?;
        whole += 1;
    }
    let rest = lambda.fract();
    if rest.num() > 0 {
        for _ in 0..poisson_unit(words)? {
            sum += u64::from(words.bernoulli(rest));
        }
    }
    Ok(sum)
}

/// Skellam of mean 0 and variance `v`: one Poisson of mean `v/2` less another, the positive part drawn first.
///
/// # Errors
/// [`Error::Overflow`].
pub fn skellam<W: Words + ?Sized>(words: &mut W, v: Ratio) -> Result<i128, Error> {
    let half = v.times(Ratio::new(1, 2)?)?;
    Ok(i128::from(poisson(words, half)?) - i128::from(poisson(words, half)?))
}
