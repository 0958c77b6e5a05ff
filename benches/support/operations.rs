//! The operations on ciphertexts, once for benches and for comparisons with other libraries.

use super::Fact;
use circuits::{Chebyshev, Encrypted};
use ckks::{
    Ciphertext, DiagonalTransform, Evaluator, GaloisElement, KeyStorage, Params, ParamsSpec, Plaintext,
};
use ckks_secret::{SecretKey, decrypt, measure, relin_key};
use num_complex::Complex64;
use rand::RngExt;
use std::hint::black_box;
use std::time::{Duration, Instant};
use testkit::Party;

const ROTATIONS: i64 = 16;
/// The one whose key is kept by its seed.
const SEEDED: i64 = 17;
/// Offsets 0 to 15 of a transform as giant steps of 4 and baby steps below 4.
const BABY_STEPS: i64 = 4;

/// Keys of one party, and the party.
pub(crate) struct Fixture {
    pub(crate) params: Params,
    party: Party,
    evaluator: Evaluator,
}

type Timed<'a> = Box<dyn FnMut(Option<&mut Fact>) -> Duration + Send + 'a>;

/// Something that can be timed.
pub(crate) struct Operation<'a> {
    pub(crate) name: String,
    run: Timed<'a>,
}

impl<'a> Operation<'a> {
    /// `setup` makes the input and is not timed, nor is freeing the output; `judge` says how good the output
    /// is.
    fn new<S, T>(
        name: impl Into<String>,
        mut setup: impl FnMut() -> S + Send + 'a,
        mut op: impl FnMut(S) -> T + Send + 'a,
        judge: impl Fn(&T) -> Fact + Send + 'a,
    ) -> Self {
        let run = move |fact: Option<&mut Fact>| {
            let input = black_box(setup());
            let start = Instant::now();
            let output = black_box(op(input));
            let elapsed = start.elapsed();
            if let Some(fact) = fact {
                *fact = judge(&output);
            }
            elapsed
        };
        Operation { name: name.into(), run: Box::new(run) }
    }

    /// One timed call.
    pub(crate) fn run(&mut self) -> Duration {
        (self.run)(None)
    }

    /// One call, judged.
    pub(crate) fn judge(&mut self) -> Fact {
        let mut fact = Fact::default();
        (self.run)(Some(&mut fact));
        fact
    }
}

impl Fixture {
    pub(crate) fn new(spec: ParamsSpec) -> Self {
        let params = spec.validate().expect("sets of the benches are valid");
        let top = params.max_level();
        let rotation = |k| GaloisElement::rotation(&params, k);
        let whole = (1..=ROTATIONS).map(rotation).chain([GaloisElement::conjugation(&params)]);
        let whole = whole.map(|element| (element, top, KeyStorage::Expanded));
        let seeded = (rotation(SEEDED), top, KeyStorage::Seeded);
        let party = Party::generate(&params, top, whole.chain([seeded]), 1);
        Fixture { evaluator: party.evaluator(), params, party }
    }

    /// One value a slot, in the unit square.
    fn message(&mut self) -> Vec<Complex64> {
        let mut unit = || 2.0 * self.party.rng.random::<f64>() - 1.0;
        (0..self.params.max_slots()).map(|_| Complex64::new(unit(), unit())).collect()
    }

    /// All operations at `level`; polynomials where it carries them, key pairs at the top only.
    pub(crate) fn operations(&mut self, level: usize) -> Vec<Operation<'_>> {
        let top = self.params.max_level();
        let (x, y) = (self.message(), self.message());
        let (a, b) = (self.party.encrypt(&x, level), self.party.encrypt(&y, level));
        let real: Vec<Complex64> = x.iter().map(|z| z.re.into()).collect();
        let real_ct = self.party.encrypt(&real, level);
        let diagonals: Vec<Vec<Complex64>> = (0..ROTATIONS).map(|_| self.message()).collect();
        let Fixture { params, party: Party { secret, public, rng, .. }, evaluator } = &*self;
        let n = x.len();
        let encoded = Plaintext::encode(params, &x, level).expect("values in the unit square");
        let factor = evaluator.encode_factor(&y, level).expect("the level is above 0");
        let terms = (0..ROTATIONS)
            .zip(&diagonals)
            .map(|(k, d)| ((k / BABY_STEPS) as usize, k % BABY_STEPS, d.clone()));
        let transform = DiagonalTransform { giant: BABY_STEPS, terms: terms.collect() };
        let transform = evaluator.encode_transform(&transform, level).expect("level and slots are valid");
        let id = public.id(params);
        let frame = ckks::write_ciphertext(params, id, &a);

        let precise =
            move |want: Vec<Complex64>| move |ct: &Ciphertext| Fact::bits(measure(secret, ct, &want));
        let turned = move |v: &[Complex64], k: i64| -> Vec<Complex64> {
            (0..n).map(|j| v[(j + k as usize) % n]).collect()
        };
        let map = |f: &dyn Fn(usize) -> Complex64| -> Vec<Complex64> { (0..n).map(f).collect() };
        let transformed = map(&|j| (0..16).map(|k| diagonals[k][j] * x[(j + k) % n]).sum());
        let sum4 = map(&|j| x[(j + 1) % n] + x[(j + 2) % n] - x[(j + 3) % n] + x[(j + 4) % n]);
        let (ct, ct2) = (a.clone(), b.clone());
        let nothing = || ();

        let mut out = vec![
            Operation::new(
                "encode",
                nothing,
                {
                    let x = x.clone();
                    move |()| Plaintext::encode(params, &x, level).expect("as before")
                },
                {
                    let x = x.clone();
                    move |_| {
                        let (encoder, scale) = (params.encoder(), params.scale(level));
                        let rounded = encoder.integers(&x, scale).expect("as before");
                        let back =
                            encoder.slots(&rounded.iter().map(|&c| c as f64 / scale).collect::<Vec<_>>(), n);
                        let errors: Vec<f64> = back.iter().zip(&x).map(|(a, b)| (a - b).norm()).collect();
                        let worst = errors.iter().copied().fold(0.0, f64::max);
                        Fact {
                            bits: Some((-worst.log2(), -(errors.iter().sum::<f64>() / n as f64).log2())),
                            bytes: None,
                        }
                    }
                },
            ),
            Operation::new(
                "decode",
                {
                    let c = params.encoder().coefficients(&x).expect("as before");
                    move || c.clone()
                },
                move |c| params.encoder().slots(&c, n),
                |_| Fact::default(),
            ),
            Operation::new(
                "encrypt_public",
                nothing,
                {
                    let (m, mut rng) = (encoded.clone(), rng.clone());
                    move |()| ckks::encrypt(params, public, &m, &mut rng)
                },
                {
                    let precise = precise(x.clone());
                    move |ct| Fact {
                        bytes: Some(ckks::ciphertext_bytes(params, level, false)),
                        ..precise(ct)
                    }
                },
            ),
            Operation::new(
                "encrypt_symmetric",
                nothing,
                {
                    let (m, mut rng) = (encoded, rng.clone());
                    move |()| ckks_secret::encrypt(secret, &m, &mut rng)
                },
                {
                    let precise = precise(x.clone());
                    let ct = ct.clone();
                    move |_| Fact { bytes: Some(ckks::ciphertext_bytes(params, level, true)), ..precise(&ct) }
                },
            ),
            Operation::new(
                "decrypt",
                nothing,
                {
                    let ct = ct.clone();
                    move |()| decrypt(secret, &ct, n)
                },
                |_| Fact::default(),
            ),
            Operation::new(
                "add",
                {
                    let a = a.clone();
                    move || a.clone()
                },
                {
                    let b = b.clone();
                    move |mut a| {
                        evaluator.add_assign(&mut a, &b).expect("like levels");
                        a
                    }
                },
                precise(map(&|j| x[j] + y[j])),
            ),
            Operation::new(
                "mul_plain",
                nothing,
                {
                    let ct = ct.clone();
                    move |()| evaluator.mul_plain(&ct, &factor).expect("the level is above 0")
                },
                precise(map(&|j| x[j] * y[j])),
            ),
            Operation::new(
                "mul",
                nothing,
                {
                    let ct = ct.clone();
                    move |()| evaluator.mul(&ct, &ct2).expect("there is a key")
                },
                precise(map(&|j| x[j] * y[j])),
            ),
            Operation::new(
                "rescale",
                {
                    let a = a.clone();
                    // Made on all threads, as what is rescaled in a circuit is.
                    move || {
                        let (c0, c1) = rayon::join(|| a.c0().clone(), || a.c1().clone());
                        Ciphertext::new(c0, c1, a.level(), a.scale())
                    }
                },
                move |a| evaluator.rescale(a).expect("the level is above 0"),
                |_| Fact::default(),
            ),
            Operation::new(
                "rotate",
                nothing,
                {
                    let ct = ct.clone();
                    move |()| evaluator.rotate(&ct, 1).expect("there is a key")
                },
                precise(turned(&x, 1)),
            ),
            Operation::new(
                "rotate_seeded",
                nothing,
                {
                    let ct = ct.clone();
                    move |()| evaluator.rotate(&ct, SEEDED).expect("there is a key")
                },
                precise(turned(&x, SEEDED)),
            ),
            Operation::new(
                "rotate_16",
                nothing,
                {
                    let (ct, all) = (ct.clone(), (1..=ROTATIONS).collect::<Vec<_>>());
                    move |()| evaluator.rotate_many(&ct, &all).expect("there are keys")
                },
                {
                    let precise = precise(turned(&x, ROTATIONS));
                    move |all: &Vec<Ciphertext>| all.last().map_or(Fact::default(), &precise)
                },
            ),
            Operation::new(
                "sum_of_4_rotations",
                nothing,
                {
                    let ct = ct.clone();
                    let four = [(1, false), (2, false), (3, true), (4, false)];
                    move |()| evaluator.sum_of_rotations(&ct, &four).expect("there are keys")
                },
                precise(sum4),
            ),
            Operation::new(
                "conjugate",
                nothing,
                {
                    let ct = ct.clone();
                    move |()| evaluator.conjugate(&ct).expect("there is a key")
                },
                precise(map(&|j| x[j].conj())),
            ),
            Operation::new(
                "linear_16_diagonals",
                nothing,
                {
                    let ct = ct.clone();
                    move |()| evaluator.linear(&ct, &transform).expect("there are keys")
                },
                precise(transformed),
            ),
            Operation::new(
                "write_frame",
                nothing,
                {
                    let ct = ct.clone();
                    move |()| ckks::write_ciphertext(params, id, &ct)
                },
                |bytes: &Vec<u8>| Fact::bytes(bytes.len()),
            ),
            Operation::new(
                "read_frame",
                nothing,
                move |()| ckks::read_ciphertext(params, id, level, &frame).expect("it was just written"),
                precise(x),
            ),
        ];
        for degree in [7, 15, 31] {
            let p = Chebyshev::interpolate(|x| (x + 1.05).sqrt(), degree, -1.0, 1.0).expect("finite");
            if p.depth() <= level {
                let want = real.iter().map(|x| p.eval(x.re).into()).collect();
                let alg = Encrypted::new(evaluator.clone(), n).expect("all slots");
                let ct = real_ct.clone();
                let run = move |()| p.evaluate(&alg, &ct).expect("levels and keys are there");
                out.push(Operation::new(format!("chebyshev_{degree}"), nothing, run, precise(want)));
            }
        }
        let mut rng1 = rng.clone();
        out.push(Operation::new(
            "keygen_relin",
            nothing,
            move |()| relin_key(secret, level, &mut rng1),
            move |key| Fact::bytes(ckks::write_key_switch_key(params, id, None, key).len()),
        ));
        if level < top {
            return out;
        }
        let mut rng2 = rng.clone();
        out.push(Operation::new(
            "keygen_pair",
            nothing,
            move |()| {
                let secret = SecretKey::generate(params, &mut rng2);
                let public = ckks_secret::public_key(&secret, &mut rng2);
                (secret, public)
            },
            |(_, public)| Fact::bytes(ckks::write_public_key(params, public).len()),
        ));
        out
    }
}
