//! Exact samplers of integers, with rational parameters and without rounding.
//!
//! Every sampler calls [`Words::below`] and [`Words::bernoulli`] in a fixed order, so that a seed gives the
//! same values on all machines. No sampler is constant-time: the number of words depends on the value.
//!
//! | law | support, probability | here |
//! |---|---|---|
//! | discrete Laplace, scale `1/g` | `Z`, `∝ e^(-g abs(x))` | [`discrete_laplace`] |
//! | discrete Gaussian | `Z`, `∝ e^(-x²/2v)` | [`discrete_gaussian`] |
//! | Polya `(1/n, e^-g)` | `N`, negative binomial with real index `1/n` | [`polya`] |
//! | Poisson | `N` | [`poisson`] |
//! | binomial of `1/2`, `1/4` | `0..=n`, `n` to `10^15` in constant time | [`binomial_half`], [`binomial_quarter`] |
//! | Skellam, variance `v` | `Z`, difference of two Poisson of mean `v/2` | [`skellam`] |
//!
//! # Errors
//! All samplers return [`Error::Overflow`] if an exact intermediate exceeds 128 bits, which does not occur
//! for parameters with numerators and denominators below `2^40`.
//!
//! # Source
//! Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", 2020 (the exponentials,
//! discrete Laplace and Gaussian). The samplers for Polya and Poisson are this project's, by rejection from a
//! geometric distribution with acceptance probabilities that are products of rationals; Chowdhury, Zhou,
//! "Distributed Differential Privacy in Multi-Armed Bandits", suggest a Gamma-Poisson mixture, which is not
//! exact in floating point. Those for binomials are this project's too, by rejection from the discrete
//! Gaussian (see [`binomial_half`]).

use crate::{Error, Ratio, source::Words};
use fault::require;

fn positive(field: &'static str, r: Ratio) -> Result<Ratio, Error> {
    require(r.num() > 0, field, 0, "above 0")?;
    Ok(r)
}

fn fits<T>(value: Option<T>) -> Result<T, Error> {
    value.ok_or(Error::Overflow { what: "an exact intermediate of a sampler", bits: 128 })
}

/// True with probability `e^(-g q)`, for `g` in `[0, 1]`, where `coin` comes up true with probability `q`
/// (von Neumann's series; the coin is tossed only if the rational test before it passes).
fn bernoulli_exp_unit<W: Words + ?Sized>(
    words: &mut W,
    g: Ratio,
    mut coin: impl FnMut(&mut W) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let mut k = 1;
    while words.bernoulli(if k == 1 { g } else { g.divided_by(k)? }) && coin(words)? {
        k += 1;
    }
    Ok(k % 2 == 1)
}

/// True with probability `e^(-g q)`, where `coin` comes up true with probability `q`.
fn bernoulli_exp_coin<W: Words + ?Sized>(
    words: &mut W,
    mut g: Ratio,
    mut coin: impl FnMut(&mut W) -> Result<bool, Error>,
) -> Result<bool, Error> {
    while !g.at_most_one() {
        if !bernoulli_exp_unit(words, Ratio::ONE, &mut coin)? {
            return Ok(false);
        }
        g = g.less_one();
    }
    bernoulli_exp_unit(words, g, coin)
}

fn always<W: ?Sized>(_: &mut W) -> Result<bool, Error> {
    Ok(true)
}

/// True with probability `e^-g`.
///
/// # Errors
/// [`Error::Overflow`].
pub fn bernoulli_exp<W: Words + ?Sized>(words: &mut W, g: Ratio) -> Result<bool, Error> {
    bernoulli_exp_coin(words, g, always)
}

/// A geometric variate from 0: `P(x) = (1 - e^-g) e^(-g x)`.
///
/// # Errors
/// [`Error::OutOfRange`] if `g` is 0, [`Error::Overflow`].
pub fn geometric_exp<W: Words + ?Sized>(words: &mut W, g: Ratio) -> Result<u128, Error> {
    let (a, c) = (positive("rate", g)?.num(), g.den());
    let low = loop {
        let u = words.below(c);
        if bernoulli_exp_unit(words, Ratio::new(u, c)?, always)? {
            break u;
        }
    };
    let mut high: u128 = 0;
    while bernoulli_exp_unit(words, Ratio::ONE, always)? {
        high += 1;
    }
    Ok(fits(high.checked_mul(c).and_then(|x| x.checked_add(low)))? / a)
}

/// A discrete Laplace variate of scale `1/g`: `P(x) = (1 - e^-g)/(1 + e^-g) e^(-g |x|)`.
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

/// A discrete Gaussian variate: `P(x) ∝ e^(-x²/2v)`. Its variance is at most `v`, and nearly `v` from 1 on.
///
/// # Errors
/// [`Error::OutOfRange`] if `v` is 0, [`Error::Overflow`].
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

/// A Polya variate (negative binomial of real index) with index `1/n` and parameter `e^-g`. The sum of `n`
/// independent ones is geometric, and the difference of two such sums is a discrete Laplace variate of scale
/// `1/g`.
///
/// The mean number of attempts is about `(1 - e^-g)^(1/n - 1)`, of order `√n` if `g` is `1/√n`.
///
/// # Errors
/// [`Error::OutOfRange`] if `n` or `g` is 0, [`Error::Overflow`].
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

/// A Poisson variate of mean 1, by the proposal `2^-(x+1)`, accepted with probability `2^(x+1) / (4 x!)`.
fn poisson_unit<W: Words + ?Sized>(words: &mut W) -> Result<u64, Error> {
    /// The largest number whose factorial, times 4, fits 128 bits.
    const LAST: u128 = 33;
    loop {
        let mut x = 0;
        while words.below(2) == 1 {
            x += 1;
        }
        let head = x.min(LAST);
        let factorial: u128 = (1..=head).product();
        let accept = Ratio::new(1 << (head + 1), 4 * factorial)?;
        // For larger x the probability is split into one Bernoulli variate per factor, which is exact.
        if words.bernoulli(accept)
            && (LAST + 1..=x)
                .try_fold(true, |all, k| Ok::<_, Error>(all && words.bernoulli(Ratio::new(2, k)?)))?
        {
            return u64::try_from(x).map_err(|_| Error::Overflow { what: "a Poisson count", bits: 64 });
        }
    }
}

/// A Poisson variate of mean `lambda`, in time proportional to `lambda`.
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

/// A Skellam variate of mean 0 and variance `v`: the difference of two Poisson variates of mean `v/2`, of
/// which the positive one is drawn first.
///
/// # Errors
/// [`Error::Overflow`].
pub fn skellam<W: Words + ?Sized>(words: &mut W, v: Ratio) -> Result<i128, Error> {
    let half = v.times(Ratio::new(1, 2)?)?;
    Ok(i128::from(poisson(words, half)?) - i128::from(poisson(words, half)?))
}

/// A binomial variate of `n` trials with probability 1/2, exactly. The mean number of discrete Gaussian draws
/// is a constant for all `n`.
///
/// With `n = 2m`, `i` heads more than `m` have weight `C(2m, m+i)/C(2m, m) = e^(-i²/(m+1/2) - h(i))`, where
/// `h(i) = sum over j = 1..|i| of 2 (atanh(y_j) - y_j)`, `y_j = (2j-1)/(2m+1)`, is not negative. So `i` is
/// proposed by the discrete Gaussian of variance parameter `(2m+1)/4` and kept with probability `e^-h(i)`,
/// about `1 - 1/m`. This is the probability that a Poisson process of mass `h` has no point. Thinning the
/// points of a dominating process by rational coins decides it without the value of `h`.
///
/// # Errors
/// [`Error::Overflow`], which does not occur up to `n = 2^50`.
pub fn binomial_half<W: Words + ?Sized>(words: &mut W, n: u64) -> Result<u64, Error> {
    if n <= 256 {
        let ones = |bits: u64, word: u64| u64::from((word & (u64::MAX >> (64 - bits))).count_ones());
        return Ok((0..n).step_by(64).map(|done| ones((n - done).min(64), words.word())).sum());
    }
    let m = n / 2;
    let odd = if n % 2 == 1 { words.below(2) as u64 } else { 0 };
    let i = centred_binomial(words, m)?;
    // |i| <= m, so this is at least 0.
    Ok(m.saturating_add_signed(i) + odd)
}

/// A binomial variate of `2m` trials with probability 1/2, minus `m`.
fn centred_binomial<W: Words + ?Sized>(words: &mut W, m: u64) -> Result<i64, Error> {
    let b = 2 * u128::from(m) + 1;
    let v = Ratio::new(b, 4)?;
    loop {
        let i = discrete_gaussian(words, v)?;
        let size = i.unsigned_abs();
        if size > u128::from(m) {
            continue;
        }
        let a = 2 * size;
        // h = sum over j and odd l >= 3 of 2 y_j^l/l, dominated by y^l/3 each with y = a/b >= y_j: the mass
        // is (2/3) |i| y · y²/(1-y²), the last factor split into a whole number and a coin.
        let (y2, rest) = (fits(a.checked_mul(a))?, fits(b.checked_mul(b))? - a * a);
        let whole = y2.div_ceil(rest).max(1);
        let mass = Ratio::new(fits((2 * size).checked_mul(a).and_then(|x| x.checked_mul(whole)))?, 3 * b)?;
        let (head, step) = (Ratio::new(y2, rest)?.over(Ratio::new(whole, 1)?)?, Ratio::new(y2, b * b)?);
        let point = |words: &mut W| {
            if !words.bernoulli(head) {
                return Ok(false);
            }
            let y = Ratio::new(2 * words.below(size) + 1, a)?; // y_j/y, j uniform
            let mut l = 3;
            while words.bernoulli(step) {
                l += 2;
            }
            Ok(words.bernoulli(Ratio::new(3, l)?) && (0..l).all(|_| words.bernoulli(y)))
        };
        if bernoulli_exp_coin(words, mass, point)? {
            return fits(i64::try_from(i).ok());
        }
    }
}

/// A binomial variate of `n` trials with probability 1/4, exactly. Up to 64 trials it takes one draw of two
/// bits per trial; above, it is a binomial variate with probability 1/2 of another one.
///
/// # Errors
/// As [`binomial_half`].
pub fn binomial_quarter<W: Words + ?Sized>(words: &mut W, n: u64) -> Result<u64, Error> {
    if n <= 64 {
        return Ok((0..n).filter(|_| words.below(4) == 0).count() as u64);
    }
    let heads = binomial_half(words, n)?;
    binomial_half(words, heads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SplitMix64;

    /// The large-n path where every probability can be counted: 2m coins, m = 1, 2, 5, and the thinning is
    /// felt.
    #[test]
    fn centred_binomial_has_the_binomial_law() {
        for m in [1u64, 2, 5] {
            let (draws, mut words) = (200_000u32, SplitMix64::new(7 + m));
            let mut counts = vec![0u32; 2 * m as usize + 1];
            for _ in 0..draws {
                counts[m.saturating_add_signed(centred_binomial(&mut words, m).unwrap()) as usize] += 1;
            }
            // Chi-square with at most ten degrees of freedom: 35 is passed once in ten thousand right
            // samplers.
            let (mut chi, mut choose) = (0.0, 1.0);
            for (k, count) in counts.iter().enumerate() {
                let want = f64::from(draws) * choose / f64::powi(4.0, m as i32);
                chi += (f64::from(*count) - want).powi(2) / want;
                choose *= (2 * m as usize - k) as f64 / (k + 1) as f64;
            }
            assert!(chi < 35.0, "m = {m}: {chi}");
        }
    }
}
