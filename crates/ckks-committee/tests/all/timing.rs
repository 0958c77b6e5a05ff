//! Whether the time of the sampler depends on what it draws: Welch's t-test between draws of the middle and
//! of the tails of the distribution, in turns (Reparaz, Balasch and Verbauwhede 2017).

use ckks_committee::Smudge;
use rand::{Rng, SeedableRng, TryCryptoRng, TryRng};
use rand_chacha::ChaCha20Rng;
use std::convert::Infallible;
use std::hint::black_box;
use std::time::Instant;

/// Words that were drawn before, so that a draw takes the same time whatever it is.
struct Replayed<'a>(std::iter::Cycle<std::slice::Iter<'a, u64>>);

impl TryRng for Replayed<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0.next().map_or(0, |word| *word as u32))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next().map_or(0, |word| *word))
    }

    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Infallible> {
        to.fill(0);
        Ok(())
    }
}

impl TryCryptoRng for Replayed<'_> {}

const DRAWS: usize = 64;
const RUNS: usize = 40_000;

/// |t| of the times of `f` on both classes of words, without the slowest tenth, which the system interrupted.
fn welch(mut f: impl FnMut(&mut Replayed)) -> f64 {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    // The ranks of a table are ordered: small words are one tail, and words of 63 bits about 2⁶² the middle.
    let mut words = |near: u64| -> Vec<u64> { (0..DRAWS).map(|_| near + (rng.next_u64() >> 12)).collect() };
    let classes = [words(0), words(1 << 62)];
    let mut times = [Vec::new(), Vec::new()];
    let mut order = ChaCha20Rng::seed_from_u64(4);
    for _ in 0..2 * RUNS {
        let class = (order.next_u32() & 1) as usize;
        let mut rng = Replayed(classes[class].iter().cycle());
        let began = Instant::now();
        f(&mut rng);
        times[class].push(began.elapsed().as_nanos() as f64);
    }
    let [a, b] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times.truncate(times.len() * 9 / 10);
        let (n, mean) = (times.len() as f64, times.iter().sum::<f64>() / times.len() as f64);
        (mean, times.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0) / n)
    });
    println!("means {:.1} and {:.1} ns", a.0, b.0);
    ((a.0 - b.0) / (a.1 + b.1).sqrt()).abs()
}

/// The control draws by a scan that ends early, which shows.
#[test]
#[ignore = "measures times: it takes an idle core"]
fn the_time_of_a_sample_does_not_depend_on_it() {
    let table: Vec<u64> = (0..640).map(|i| (i + 1) << 53).collect();
    let early = welch(|rng| {
        for _ in 0..DRAWS {
            let word = rng.next_u64() >> 1;
            black_box(table.iter().position(|bound| word < *bound));
        }
    });
    for deviation in [32.0, 1e9] {
        let smudge = Smudge::at_least(deviation);
        let t = welch(|rng| drop(black_box(smudge.sample(DRAWS, rng))));
        println!("deviation {deviation}: |t| = {t:.1}; the control {early:.1}");
        assert!(t < 10.0, "deviation {deviation}: |t| = {t}");
    }
    assert!(early > 100.0, "the control: |t| = {early}");
}
