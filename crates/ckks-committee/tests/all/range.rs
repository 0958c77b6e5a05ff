use crate::committee::{Ring, pairs, rng, sets};
use ckks::{Ciphertext, Plaintext, TOY_LOGN11_SCORES};
use ckks_committee::Smudge;
use ckks_shares::{ActiveSet, OpeningShare, Quorum, ROUNDS, RangeCheck, open};
use rns::{Coeff, Ntt, Poly};

const SCALE: f64 = 17_592_186_044_416.0;
const READ: usize = 5;

/// An encryption of these integers and zeros.
fn encrypt(ring: &Ring, integers: &[i64], seed: u64) -> Ciphertext {
    let (params, level) = (&ring.params, ring.params.max_level());
    let mut all = vec![0; params.n()];
    all[..integers.len()].copy_from_slice(integers);
    let message = Plaintext::from_integers(params, &all, level, SCALE).unwrap();
    ckks::encrypt(params, &ring.public_key(), &message, &mut rng(seed))
}

/// `ct` with a number more in one coefficient.
fn shifted(ring: &Ring, ct: &Ciphertext, at: usize, by: i128) -> Ciphertext {
    let basis = ring.params.q_basis(ct.level());
    let mut shift = Poly::<Coeff>::zero(ring.params.n(), basis.len());
    shift.for_each_limb(|i, limb| limb[at] = basis.modulus(i).reduce_i128(by));
    let mut c0: Poly<Ntt> = ct.c0().clone();
    c0.add_assign(basis, &shift.into_ntt(basis));
    Ciphertext::new(c0, ct.c1().clone(), ct.level(), ct.scale())
}

fn passes(ring: &Ring, check: &RangeCheck, set: ActiveSet, ct: &Ciphertext) -> bool {
    let pairs = pairs(ring.quorum);
    let share = |j: u8| -> OpeningShare {
        let j = usize::from(j - 1);
        ring.shares[j].check_range(&pairs[j], check, set, b"feedback 3", ct.c1()).unwrap()
    };
    let shares: Vec<_> = set.iter().map(share).collect();
    check.passes(set, &check.forms().values(ct).unwrap(), &shares).unwrap()
}

/// What no device encrypts is found by projections: a message that follows from the secret, (0, g), uniform
/// garbage, one coefficient of 2⁻¹⁴ of the modulus, half of it, and two that cancel. What is nearer to
/// the range of a feedback passes, and is not stopped.
#[test]
fn attack_messages_out_of_range_are_found() {
    for (t, n) in [(2, 3), (3, 5)] {
        let quorum = Quorum::new(t, n).unwrap();
        let ring = Ring::new(&TOY_LOGN11_SCORES.validate().unwrap(), quorum, 1);
        let (params, level) = (&ring.params, ring.params.max_level());
        let basis = params.q_basis(level);
        let last = ROUNDS[ROUNDS.len() - 1];
        let check = |seed: u8| RangeCheck::new(params, level, READ, last, &[seed; 32]).unwrap();
        let honest = encrypt(&ring, &[1 << 44, -(1 << 43), 1 << 42, 7, -(1 << 44)], 3);
        let bound = check(0).bound();
        assert!(((bound as f64).log2() - params.log_q(level) + 3.0).abs() < 0.01, "{bound}");
        let uniform = |seed| rns::sample::uniform(basis, &mut rng(seed));
        let zero = Poly::<Ntt>::zero(params.n(), basis.len());
        let (half, beyond) = (bound << 2, bound >> 11);
        let hostile = [
            ("follows from the secret", Ciphertext::new(zero, uniform(5), level, SCALE)),
            ("uniform", Ciphertext::new(uniform(6), uniform(7), level, SCALE)),
            ("one coefficient", shifted(&ring, &honest, 2, beyond)),
            ("half of the modulus", shifted(&ring, &honest, 0, half)),
            ("two coefficients", shifted(&ring, &shifted(&ring, &honest, 1, beyond), 4, -beyond)),
        ];
        for (at, set) in (0..).zip(sets(quorum)) {
            assert!(passes(&ring, &check(at), set, &honest), "{t} of {n}");
            for (what, ct) in &hostile {
                assert!(!passes(&ring, &check(at), set, ct), "{what}, {t} of {n}");
            }
            // The controls of the width and of coefficients that nobody reads.
            assert!(passes(&ring, &check(at), set, &shifted(&ring, &honest, 2, bound >> 30)));
            assert!(passes(&ring, &check(at), set, &shifted(&ring, &honest, READ, beyond)));
        }
    }
}

/// A user sends (0, q/64) as a feedback, whose message is u·q/64: what is opened shows forms of the secret u
/// modulo 64. Under smudging, as wide as would hide an honest feedback, the server reads all of them; under
/// masks as wide as those of a check it guesses one in eight, and nothing is opened after a round that
/// failed.
#[test]
fn attack_projections_show_the_secret_only_under_narrow_masks() {
    let quorum = Quorum::new(2, 3).unwrap();
    let ring = Ring::new(&TOY_LOGN11_SCORES.validate().unwrap(), quorum, 1);
    let (params, level, set) = (&ring.params, ring.params.max_level(), sets(quorum)[0]);
    let zero = || Poly::<Ntt>::zero(params.n(), level + 1);
    let check = RangeCheck::new(params, level, READ, 512, &[3; 32]).unwrap();
    let step = check.bound() / 8;
    let one = shifted(&ring, &Ciphertext::new(zero(), zero(), level, SCALE), 0, step);
    let hostile = Ciphertext::new(zero(), one.c0().clone(), level, SCALE);
    let pairs = pairs(quorum);
    // What is opened without masks and smudging, from the whole secret.
    let exact = ring.phase(&hostile);
    let units = |opened: Vec<i128>| -> Vec<i128> {
        let nearest = |v: &i128| (v + v.signum() * step / 2) / step;
        opened.iter().map(|v| nearest(v).rem_euclid(64)).collect()
    };
    let own = check.forms().values(&hostile).unwrap();
    let opened = |share: &dyn Fn(usize) -> OpeningShare| {
        let shares: Vec<_> = set.iter().map(|j| share(usize::from(j - 1))).collect();
        units(open(params, level, set, &own, &shares).unwrap())
    };
    let (header, c1) = (b"feedback 3", hostile.c1());
    let smudge = Smudge::at_least(2f64.powi(64));
    let smudged =
        opened(&|j| ring.shares[j].open(&pairs[j], check.forms(), smudge, set, header, c1).unwrap());
    let masked = opened(&|j| ring.shares[j].check_range(&pairs[j], &check, set, header, c1).unwrap());
    let basis = params.q_basis(level);
    let mut message = Poly::<Coeff>::zero(params.n(), basis.len());
    message.for_each_limb(|i, limb| {
        limb.iter_mut().zip(&exact).for_each(|(x, m)| *x = basis.modulus(i).reduce_i128(*m));
    });
    let nothing = OpeningShare(vec![vec![0; basis.len()]; check.forms().len()]);
    let shares = vec![nothing; set.len()];
    let want = units(open(params, level, set, &check.forms().apply(&message), &shares).unwrap());
    let right = |got: &[i128]| got.iter().zip(&want).filter(|(got, want)| got == want).count();
    assert_eq!(right(&smudged), 512, "the control");
    // Triangular over ± 8 units: 1/8 of 512, and six standard deviations.
    assert!(right(&masked) < 64 + 45, "{}", right(&masked));
}
