use crate::committee::{Ring, assert_near, deviation, pairs, rng, sets};
use ckks::{Ciphertext, Plaintext, TOY_LOGN11_SCORES};
use ckks_committee::Smudge;
use ckks_shares::{ActiveSet, Error, Forms, OpeningShare, Quorum, open};
use num_complex::Complex64;

const HEADER: &[u8] = b"answer to decision 5";

fn answer(ring: &Ring, values: &[Complex64]) -> Ciphertext {
    let message = Plaintext::encode_at(&ring.params, values, 0, 32f64.exp2()).unwrap();
    ckks::encrypt(&ring.params, &ring.public_key(), &message, &mut rng(5))
}

fn shares(ring: &Ring, forms: &Forms, smudge: Smudge, set: ActiveSet, ct: &Ciphertext) -> Vec<OpeningShare> {
    let pairs = pairs(ring.quorum);
    let share = |j: u8| {
        let j = usize::from(j - 1);
        ring.shares[j].open(&pairs[j], forms, smudge, set, HEADER, ct.c1()).unwrap()
    };
    set.iter().map(share).collect()
}

fn opened(
    ring: &Ring,
    forms: &Forms,
    set: ActiveSet,
    ct: &Ciphertext,
    shares: &[OpeningShare],
) -> Result<Vec<i128>, Error> {
    open(&ring.params, 0, set, &forms.values(ct).unwrap(), shares)
}

/// The forms that were asked for are opened, with the smudging of t members, and slots by their weights.
#[test]
fn openings_have_the_smudging_of_all_members() {
    let params = TOY_LOGN11_SCORES.validate().unwrap();
    for (t, n) in [(2, 3), (3, 5)] {
        let ring = Ring::new(&params, Quorum::new(t, n).unwrap(), 1);
        let mut values = vec![Complex64::ZERO; params.max_slots()];
        let slots = [0, 5, 17, 1000];
        for (i, &slot) in slots.iter().enumerate() {
            values[slot].re = [1.0, 0.0, 0.5, -0.25][i];
        }
        let ct = answer(&ring, &values);
        // Some hundred forms measure a deviation to a few hundredths of a bit.
        let units = (0..params.n()).step_by(8).map(|k| (0..params.n()).map(|i| i32::from(i == k)).collect());
        let forms = Forms::new(&params, 0, units.collect()).unwrap();
        let smudge = Smudge::at_least(2f64.powi(30));
        let phase = ring.phase(&ct);
        let errors = sets(ring.quorum).into_iter().flat_map(|set| {
            let got = opened(&ring, &forms, set, &ct, &shares(&ring, &forms, smudge, set, &ct)).unwrap();
            got.into_iter().zip(phase.iter().step_by(8)).map(|(got, want)| got - want).collect::<Vec<_>>()
        });
        let formula = f64::from(t).sqrt() * smudge.deviation();
        assert_near(&format!("opened coefficients, {t} of {n}"), deviation(errors), formula);
        check_smudging(&ring, &sets(ring.quorum));

        let bits = 10;
        let forms = Forms::real_slots(&params, 0, &slots, bits).unwrap();
        let unit = f64::from(32 + bits).exp2();
        let smudge = Smudge::at_least(unit / 64.0);
        for set in sets(ring.quorum) {
            let got = opened(&ring, &forms, set, &ct, &shares(&ring, &forms, smudge, set, &ct)).unwrap();
            for (got, &slot) in got.iter().zip(&slots) {
                let (got, want) = (*got as f64 / unit, values[slot].re);
                // Six deviations of the smudging, which at most doubles to come from the family of widths.
                assert!((got - want).abs() < 6.0 * f64::from(t).sqrt() / 32.0, "{got} for {want}");
            }
        }
    }
}

/// The errors of opened coefficients and of entries of an answer, in units of 2⁻¹⁰: some hundred each measure
/// a deviation to a few hundredths of a bit.
pub(crate) fn check_smudging(ring: &Ring, sets: &[ActiveSet]) {
    let (params, quorum) = (&ring.params, ring.quorum);
    let (t, n) = (quorum.threshold(), quorum.members());
    let what = |name: &str| format!("{name}, {t} of {n}, N = {}", params.n());
    let ct = answer(ring, &vec![Complex64::ZERO; params.max_slots()]);
    let phase = ring.phase(&ct);
    let step = params.n() / 256;
    let unit_of = |k: usize| (0..params.n()).map(|i| i32::from(i == k)).collect();
    let units = Forms::new(params, 0, (0..params.n()).step_by(step).map(unit_of).collect()).unwrap();
    let smudge = Smudge::at_least(2f64.powi(30));
    let errors = |forms: &Forms, smudge: Smudge| -> Vec<i128> {
        let of_set = |set: &ActiveSet| {
            opened(ring, forms, *set, &ct, &shares(ring, forms, smudge, *set, &ct)).unwrap()
        };
        sets.iter().flat_map(of_set).collect()
    };
    let got = errors(&units, smudge);
    let of_phase = phase.iter().step_by(step).cycle();
    let got = deviation(got.iter().zip(of_phase).map(|(got, want)| got - want));
    assert_near(&what("opened coefficients"), got, f64::from(t).sqrt() * smudge.deviation());

    // Entries have a deviation of v = 2⁻⁴ as far as the family of widths has it; the error of the encryption
    // is far below.
    let (bits, slots) = (6, (0..256).map(|i| i * params.max_slots() / 256).collect::<Vec<_>>());
    let forms = Forms::real_slots(params, 0, &slots, bits).unwrap();
    let unit = f64::from(32 + bits).exp2();
    let smudge = Smudge::at_least(0.0625 / f64::from(t).sqrt() * unit);
    let got = deviation(errors(&forms, smudge)) / unit * 1024.0;
    let formula = f64::from(t).sqrt() * smudge.deviation() / unit * 1024.0;
    assert_near(&what("entries of an answer, in 2^-10"), got, formula);
}

/// A share that is short, too large or not asked for is refused.
#[test]
fn foreign_shares_are_refused() {
    let params = TOY_LOGN11_SCORES.validate().unwrap();
    let ring = Ring::new(&params, Quorum::new(2, 3).unwrap(), 2);
    let (ct, set) = (answer(&ring, &[Complex64::ONE]), sets(ring.quorum)[0]);
    let forms = Forms::real_slots(&params, 0, &[0, 1], 8).unwrap();
    let good = shares(&ring, &forms, Smudge::at_least(2f64.powi(30)), set, &ct);
    assert!(opened(&ring, &forms, set, &ct, &good).is_ok());
    let spoilt = |spoil: fn(&mut Vec<OpeningShare>)| {
        let mut shares = good.clone();
        spoil(&mut shares);
        opened(&ring, &forms, set, &ct, &shares)
    };
    assert_eq!(spoilt(|s| drop(s.pop())), Err(Error::ShareCount { got: 1, want: 2 }));
    assert!(matches!(spoilt(|s| drop(s[0].0.pop())), Err(Error::Foreign(_))));
    assert!(matches!(spoilt(|s| s[1].0[0].push(0)), Err(Error::Foreign(_))));
    assert!(matches!(spoilt(|s| s[1].0[1][0] = u64::MAX), Err(Error::Foreign(_))));
    let long = Forms::new(&params, 0, vec![vec![1; 8]]);
    assert!(matches!(long, Err(Error::Foreign(_))));
}
