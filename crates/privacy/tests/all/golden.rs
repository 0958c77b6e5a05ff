//! Values and words used, against numbers made by two other implementations (Python and Rust).

use privacy::laplace::{GridLaplace, HarnessLaplace, LaplaceNoise, ScriptedLaplace};
use privacy::sampler::*;
use privacy::source::{SplitMix64, Words};
use privacy::{Error, Ratio};
use rand::{Rng, TryRng};
use std::convert::Infallible;

/// Counts the words drawn.
struct Counted(SplitMix64, usize);

impl TryRng for Counted {
    type Error = Infallible;
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.1 += 1;
        Ok(self.0.next_u64())
    }
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.next_u64() >> 32) as u32)
    }
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        self.0.try_fill_bytes(out)
    }
}

fn r(num: u128, den: u128) -> Ratio {
    Ratio::new(num, den).unwrap()
}

/// `draws` values of seed 42, and that they took `words` words.
fn golden<T: TryInto<i64>>(
    want: &[i64],
    words: usize,
    mut draw: impl FnMut(&mut Counted) -> Result<T, Error>,
) {
    let mut source = Counted(SplitMix64::new(42), 0);
    let got: Vec<i64> = want
        .iter()
        .map(|_| draw(&mut source).unwrap().try_into().unwrap_or_else(|_| panic!("too large")))
        .collect();
    assert_eq!(got, want);
    assert_eq!(source.1, words);
}

#[test]
fn source() {
    let mut s = SplitMix64::new(42);
    let words = [0xbdd732262feb6e95, 0x28efe333b266f103, 0x47526757130f9f52, 0x581ce1ff0e4ae394];
    assert_eq!([0; 4].map(|_: u8| s.word()), words);
    let mut s = SplitMix64::new(42);
    assert_eq!(
        [0; 3].map(|_: u8| s.uniform()),
        [0.7415648787718233, 0.1599103928769201, 0.27860113025513866]
    );
    let mut bytes = [0; 12];
    SplitMix64::new(42).fill_bytes(&mut bytes);
    assert_eq!(bytes[..8], words[0].to_le_bytes());
    assert_eq!(bytes[8..], words[1].to_le_bytes()[..4]);
}

#[test]
fn primitives() {
    golden(&[5, 3, 2, 4, 2, 6, 4, 5, 6, 7, 2, 5, 7, 0, 8, 9], 22, |s| Ok(s.below(10)));
    golden(&[0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1], 20, |s| Ok(u8::from(s.bernoulli(r(1, 3)))));
    // Two words a try above 2^64, the low half first.
    golden(&[0; 1], 2, |s| Ok(s.below(1 << 65) >> 65));
    let mut s = SplitMix64::new(42);
    assert_eq!(s.below(1 << 65), 0xbdd732262feb6e95 | 1 << 64);
    // No word for a single outcome.
    golden(&[0, 0], 0, |s| Ok(s.below(1)));
    golden(&[0, 0], 0, |s| Ok(s.below(0)));
}

#[test]
fn exponentials() {
    let half = r(1, 2);
    golden(&[1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1, 0], 26, |s| bernoulli_exp(s, half).map(u8::from));
    golden(&[0; 16], 31, |s| bernoulli_exp(s, r(5, 2)).map(u8::from));
    golden(&[1, 2, 1, 3, 1, 3, 1, 6, 2, 2, 4, 1, 3, 1, 6, 3], 166, |s| geometric_exp(s, r(2, 5)));
}

#[test]
fn discrete_laplace_values() {
    let want = [2, -4, -3, 5, 6, 3, 15, -2, -13, 4, 2, 0, 1, 11, -13, -6];
    golden(&want, 167, |s| discrete_laplace(s, r(1, 5)));
    let want = [1, -2, -1, 2, 3, 1, 7, -1, -6, 2, 1, 0, 0, 5, -6, -3];
    golden(&want, 167, |s| discrete_laplace(s, r(2, 5)));
}

#[test]
fn polya_values() {
    let mut want = [0; 32];
    for i in [1, 5, 18, 20, 24, 28, 31] {
        want[i] = 1;
    }
    golden(&want, 305, |s| polya(s, 8, r(1, 4)));
    let want =
        [1, 0, 1, 0, 0, 0, 1, 0, 3, 6, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0];
    golden(&want, 245, |s| polya(s, 2, r(1, 2)));
}

#[test]
fn poisson_and_skellam_values() {
    golden(&[2, 0, 0, 1, 2, 2, 3, 1, 1, 3, 0, 0, 0, 1, 0, 1], 73, |s| poisson(s, Ratio::ONE));
    golden(&[2, 3, 5, 4, 1, 2, 3, 2, 2, 2, 1, 2, 2, 1, 3, 1], 223, |s| poisson(s, r(7, 3)));
    golden(&[-1, 1, -1, 1, -1, -1, 2, 1, 2, 2, -2, 4, -1, -1, -1, 2], 402, |s| skellam(s, r(5, 1)));
}

#[test]
fn discrete_gaussian_values() {
    golden(&[1, 1, -4, -5, -1, 1, 5, 3, -7, 5, 5, -3, 1, -4, 1, 0], 195, |s| discrete_gaussian(s, r(10, 1)));
}

#[test]
fn harness_laplace_values() {
    let mut s = SplitMix64::new(42);
    let got = [0; 4].map(|_: u8| HarnessLaplace.draw(1.0, &mut s).unwrap());
    assert_eq!(got, [0.6599634176840695, -1.1399944845911227, -0.58482698017467, -0.37341218617745975]);
}

/// The grid is the discrete Laplace of the rational that the scale is, in steps; values go down to the grid.
#[test]
fn grid_laplace_is_the_discrete_one_in_steps() {
    let mut grid = GridLaplace::new(3).unwrap();
    let (mut a, mut b, mut c) = (SplitMix64::new(42), SplitMix64::new(42), SplitMix64::new(42));
    for _ in 0..64 {
        let steps = discrete_laplace(&mut a, r(1, 5)).unwrap() as f64;
        assert_eq!(grid.draw(0.625, &mut b).unwrap(), steps / 8.0);
        assert_eq!(grid.add(-0.3, 0.625, &mut c).unwrap(), (steps - 3.0) / 8.0);
    }
    // Neighbours whose distance is a whole number of steps stay within it after rounding.
    let mut round = |x: f64| grid.add(x, 1e-9, &mut SplitMix64::new(1)).unwrap();
    assert_eq!(round(1.3) - round(0.3), 1.0);
}

#[test]
fn scripted_laplace_records_scales_and_ends() {
    let (mut list, mut s) = (ScriptedLaplace::new([0.25, -1.0]), SplitMix64::new(0));
    assert_eq!(list.draw(2.0, &mut s), Ok(0.25));
    assert_eq!(list.add(3.0, 0.5, &mut s), Ok(2.0));
    assert_eq!(list.draw(1.0, &mut s), Err(Error::ScriptEnded { draw: 3, values: 2 }));
    assert_eq!((list.scales(), s), (&[2.0, 0.5][..], SplitMix64::new(0)));
}

#[test]
fn bad_parameters_are_refused() {
    let s = &mut SplitMix64::new(0);
    let field = |e: Result<i128, Error>| matches!(e, Err(Error::OutOfRange(_)));
    assert!(field(discrete_laplace(s, Ratio::ZERO)));
    assert!(field(discrete_gaussian(s, Ratio::ZERO)));
    assert!(field(polya(s, 0, Ratio::ONE).map(|x| x as i128)));
    assert!(field(polya(s, 3, Ratio::ZERO).map(|x| x as i128)));
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(HarnessLaplace.draw(scale, s).is_err());
        assert!(GridLaplace::new(20).unwrap().draw(scale, s).is_err());
        assert!(ScriptedLaplace::new([1.0]).draw(scale, s).is_err());
    }
    assert!(HarnessLaplace.add(f64::NAN, 1.0, s).is_err() && GridLaplace::new(41).is_err());
    let overflow = discrete_gaussian(s, r(u128::MAX, 2));
    assert!(matches!(overflow, Err(Error::Overflow { .. })));
    assert_eq!(*s, SplitMix64::new(0), "nothing is drawn for what is refused");
}

/// Privacy-bearing noise is made from integers only.
#[test]
fn samplers_know_no_floats() {
    let text = include_str!("../../src/sampler.rs");
    let text = text.split("#[cfg(test)]").next().unwrap();
    let code: String = text.lines().filter(|l| !l.trim_start().starts_with("//")).collect();
    for float in ["f64", "f32", "ln(", "exp(", "powf", "sqrt("] {
        let found = code
            .match_indices(float)
            .any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
        assert!(!found, "{float}");
    }
}
