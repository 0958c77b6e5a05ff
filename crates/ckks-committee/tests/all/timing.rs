//! Whether times depend on secrets: Welch's t-test between two classes of inputs, in turns (Reparaz, Balasch
//! and Verbauwhede 2017): draws of the middle and of the tails of a sampler, and shares of zeros and others.

use crate::committee::{pairs, rng};
use ckks::TOY_LOGN11_SCORES;
use ckks_committee::{MemberShare, Smudge};
use ckks_shares::{Forms, Quorum};
use rand::{Rng, SeedableRng, TryCryptoRng, TryRng};
use rand_chacha::ChaCha20Rng;
use rns::Poly;
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

/// |t| of the times of `f` on both classes, without the slowest tenth, which the system interrupted.
fn welch(runs: usize, mut f: impl FnMut(usize)) -> f64 {
    let mut times = [Vec::new(), Vec::new()];
    let mut order = ChaCha20Rng::seed_from_u64(4);
    for _ in 0..2 * runs {
        let class = (order.next_u32() & 1) as usize;
        let began = Instant::now();
        f(class);
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

/// [`welch`] of `f` on words of the tails and of the middle.
fn of_words(mut f: impl FnMut(&mut Replayed)) -> f64 {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    // The ranks of a table are ordered: small words are one tail, and words of 63 bits about 2⁶² the middle.
    let mut words = |near: u64| -> Vec<u64> { (0..DRAWS).map(|_| near + (rng.next_u64() >> 12)).collect() };
    let classes = [words(0), words(1 << 62)];
    welch(40_000, |class| f(&mut Replayed(classes[class].iter().cycle())))
}

/// The control draws by a scan that ends early, which shows.
#[test]
#[ignore = "measures times: it takes an idle core"]
fn the_time_of_a_sample_does_not_depend_on_it() {
    let table: Vec<u64> = (0..640).map(|i| (i + 1) << 53).collect();
    let early = of_words(|rng| {
        for _ in 0..DRAWS {
            let word = rng.next_u64() >> 1;
            black_box(table.iter().position(|bound| word < *bound));
        }
    });
    for deviation in [32.0, 1e9] {
        let smudge = Smudge::at_least(deviation);
        let t = of_words(|rng| drop(black_box(smudge.sample(DRAWS, rng))));
        println!("deviation {deviation}: |t| = {t:.1}; the control {early:.1}");
        assert!(t < 10.0, "deviation {deviation}: |t| = {t}");
    }
    assert!(early > 100.0, "the control: |t| = {early}");
}

/// Reading a share, which compares every residue with its prime, and answering with it take the same time for
/// a share of zeros and a random one. The control compares until the first residue that is not 0.
#[test]
#[ignore = "measures times: it takes an idle core"]
fn the_time_of_an_answer_does_not_depend_on_the_share() {
    let params = TOY_LOGN11_SCORES.validate().unwrap();
    let (quorum, top) = (Quorum::new(2, 3).unwrap(), params.max_level());
    let basis = params.qp_basis(top);
    let random = rns::sample::uniform(basis, &mut rng(5));
    let bytes = [Poly::zero(params.n(), basis.len()), random].map(|values| {
        let mut out = vec![7; 32];
        ckks::pack_residues(&mut out, basis, &values);
        out
    });
    let read = |class: usize| MemberShare::read(&params, quorum, 1, &bytes[class]).unwrap();
    let (shares, keys) = ([read(0), read(1)], pairs(quorum));
    let set = quorum.active(&[1, 2]).unwrap();
    let c1 = rns::sample::uniform(params.q_basis(0), &mut rng(6));
    let forms = Forms::real_slots(&params, 0, &[0, 1, 2, 3], 6).unwrap();
    let smudge = Smudge::at_least(1e9);
    let open = |class: usize| {
        drop(black_box(shares[class].open(&keys[0], &forms, smudge, set, b"header", &c1).unwrap()))
    };
    let early = welch(4000, |class| {
        black_box(bytes[class][32..].iter().position(|byte| *byte != 0));
    });
    let (reads, opens) = (welch(4000, |class| drop(black_box(read(class)))), welch(4000, open));
    println!("reads |t| = {reads:.1}, answers |t| = {opens:.1}; the control {early:.1}");
    assert!(reads < 10.0 && opens < 10.0, "reads |t| = {reads}, answers |t| = {opens}");
    assert!(early > 100.0, "the control: |t| = {early}");
}
