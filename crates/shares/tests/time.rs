//! Whether times depend on secrets: Welch's t of an operation on equal and on random inputs (Reparaz,
//! Balasch, Verbauwhede 2017).

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use shares::{Field, Key, Kind, Label, Sharing, Threshold, same};
use std::hint::black_box;
use std::time::Instant;

/// The inputs of one measurement.
const INPUTS: usize = 64;
/// p − 1.
const LARGEST: u128 = (1 << 127) - 2;

/// Welch's t of the times of an operation on inputs that are all `equal`, and on random ones below 2¹²⁷, in
/// random order. The slowest tenth of all measurements, in which something else runs, is left out.
fn welch(equal: u128, measurements: usize, of: &dyn Fn(&[u128; INPUTS])) -> f64 {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let mut times: Vec<(bool, f64)> = Vec::with_capacity(measurements);
    for _ in 0..measurements {
        let random = rng.next_u32() & 1 == 1;
        let draw = |_| (u128::from(rng.next_u64()) << 63) ^ u128::from(rng.next_u64());
        let drawn: [u128; INPUTS] = std::array::from_fn(draw);
        // Without a branch, after which the processor would be in another state.
        let mask = black_box(u128::from(random).wrapping_neg());
        let inputs = drawn.map(|drawn| equal ^ (mask & (equal ^ drawn)));
        let start = Instant::now();
        of(black_box(&inputs));
        times.push((random, start.elapsed().as_nanos() as f64));
    }
    let mut sorted: Vec<f64> = times.iter().map(|(_, time)| *time).collect();
    sorted.sort_by(f64::total_cmp);
    let slow = sorted[measurements * 9 / 10];
    let [one, other] = [false, true].map(|class| {
        let of: Vec<f64> =
            times.iter().filter(|(c, time)| *c == class && *time <= slow).map(|t| t.1).collect();
        let n = of.len() as f64;
        let mean = of.iter().sum::<f64>() / n;
        let variance = of.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, variance / n)
    });
    let difference = one.0 - other.0;
    // Where the clock's steps are longer than what an operation's times differ by, all are equal.
    if difference == 0.0 { 0.0 } else { difference / (one.1 + other.1).sqrt() }
}

fn each(of: impl Fn(u128) -> Field) -> impl Fn(&[u128; INPUTS]) {
    move |inputs| {
        inputs.iter().for_each(|x| {
            let _ = black_box(of(*x));
        })
    }
}

/// Arithmetic of the field, numbers of streams, cuts of masks and comparisons of MACs take the same time for
/// inputs of 0, of p − 1 and random ones: |t| is below 5, which chance exceeds once in 10⁶. In the control a
/// product is made where the highest bit is 1.
#[test]
#[ignore = "times of an idle machine"]
fn attack_times_tell_nothing_of_secrets() {
    let sharing = Sharing::new(Threshold::new(3, 5).unwrap());
    let label = Label::new(Kind::Mask, &[b"time"]);
    let other = Field::new(0x1234_5678_9abc_def0_1234_5678_9abc_def1);
    let key = |x: u128| {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&x.to_le_bytes());
        Key::new(bytes)
    };
    type Operation<'a> = Box<dyn Fn(&[u128; INPUTS]) + 'a>;
    let operations: Vec<(&str, usize, Operation)> = vec![
        ("a number of the field", 40_000, Box::new(each(Field::new))),
        ("a sum", 40_000, Box::new(each(|x| Field::new(x) + other))),
        ("a difference", 40_000, Box::new(each(|x| other - Field::new(x)))),
        ("a product", 40_000, Box::new(each(|x| Field::new(x) * Field::new(x) * other))),
        ("a sign", 40_000, Box::new(each(|x| Field::from_signed(Field::new(x).signed())))),
        ("an inverse", 8_000, Box::new(each(|x| Field::new(x).inverse()))),
        ("a root", 8_000, Box::new(each(|x| Field::new(x).root()))),
        ("a number of a stream", 8_000, Box::new(each(|x| key(x).stream(&label).field()))),
        (
            "a mask",
            20_000,
            Box::new(each(|x| sharing.share(2, [(3, Field::new(x)), (4, other)].into_iter()))),
        ),
        ("a cut", 20_000, Box::new(each(|x| sharing.share(2, [(3, Field::new(x >> 74))].into_iter())))),
        ("a MAC", 40_000, Box::new(each(|x| Field::new(same(&x.to_le_bytes(), &[0; 16]).into())))),
    ];
    for equal in [0, LARGEST] {
        for (what, measurements, of) in &operations {
            let t = welch(equal, *measurements, of);
            println!("{what}, {equal:x}: t = {t:.1}");
            assert!(t.abs() < 5.0, "{what}, {equal:x}: t = {t}");
        }
    }
    let branch = |x: u128| if x >> 126 == 1 { Field::new(x) * other * other } else { Field::new(x) };
    let t = welch(0, 40_000, &each(branch));
    assert!(t.abs() > 20.0, "the control: t = {t}");
}
