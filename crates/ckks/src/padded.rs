//! Coefficients under one-time pads: what a holder of the key sends through a server to users who do not hold
//! the key of any ring.
//!
//! Each user has a seed that the server does not know. It expands to one residue modulo each prime for each
//! of its coefficients, which is uniform and used once, so that what the server sees is uniform modulo q
//! whatever the message is. The server may still add to the coefficients, as to those of a ciphertext: it
//! takes a mask off, and adds noise. A frame is that of a ciphertext with a seed
//! ([`crate::SeededCoefficients`]), whose seed is nought and belongs to nothing.

use crate::frame::{read_partial_coefficients, write_seeded_ciphertext};
use crate::{Error, KeyId, Op, Params, Plaintext};
use rns::sample::{Seed, uniform_limb};
use rns::{Coeff, Poly};
use zeroize::Zeroize;

/// The seed in frames of coefficients under pads.
const NO_SEED: Seed = [0; 32];

/// A seed and the places of one user.
pub type Padded<'a> = (&'a Seed, &'a [usize]);

/// The frame of the coefficients of `message` at the places of each user, the k-th under the k-th pad of the
/// user's seed. All other coefficients are 0.
///
/// # Errors
/// [`Error::CoefficientCount`] for a place that is not below N, or is given twice.
pub fn write_padded(
    params: &Params,
    key: KeyId,
    message: &Plaintext,
    users: &[Padded<'_>],
) -> Result<Vec<u8>, Error> {
    let (basis, max) = (params.q_basis(message.level), params.n());
    let mut taken = vec![false; max];
    for &place in users.iter().flat_map(|(_, places)| *places) {
        match taken.get_mut(place) {
            Some(taken) if !*taken => *taken = true,
            _ => return Err(Error::CoefficientCount { got: place + 1, max }),
        }
    }
    let mut clear = message.poly.clone().into_coeff(basis);
    let mut out = Poly::<Coeff>::zero(max, basis.len());
    for (seed, places) in users {
        for i in 0..basis.len() {
            let (m, mut pads) = (basis.modulus(i), vec![0; places.len()]);
            uniform_limb(m, i, seed, &mut pads);
            for (&place, pad) in places.iter().zip(&pads) {
                out.limb_mut(i)[place] = m.add(clear.limb(i)[place], *pad);
            }
            pads.zeroize();
        }
    }
    clear.zeroize();
    let (level, scale) = (message.level, message.scale);
    Ok(write_seeded_ciphertext(params, key, &out.into_ntt(basis), &NO_SEED, level, scale))
}

/// The coefficients of the only user with this seed and these places, as integers at `scale`, from the frame
/// that a server made of coefficients under pads at level 0 ([`crate::SeededCoefficients::flooded_frame`]).
/// They are centred modulo the first prime.
///
/// # Errors
/// As [`crate::read_partial_ciphertext`].
pub fn read_padded(
    params: &Params,
    key: KeyId,
    scale: f64,
    (seed, places): Padded<'_>,
    bytes: &[u8],
) -> Result<Vec<i64>, Error> {
    params.check_level(Op::Encrypt, 0)?;
    let (found, values) = read_partial_coefficients(params, key, 0, scale, places.iter().copied(), bytes)?;
    if found != NO_SEED {
        return Err(Error::BadFrame("it has a seed, where its coefficients are under pads"));
    }
    let m = params.q_basis(0).modulus(0);
    let mut pads = vec![0; places.len()];
    uniform_limb(m, 0, seed, &mut pads);
    let centred = |(&place, pad): (&usize, &u64)| m.centered(m.sub(values.limb(0)[place], *pad));
    let out = places.iter().zip(&pads).map(centred).collect();
    pads.zeroize();
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededCoefficients;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;

    const KEY: KeyId = KeyId([3; 16]);
    const SCALE: f64 = 1_099_511_627_776.0;

    fn params() -> Params {
        crate::TOY_LOGN11_SCORES.validate().unwrap()
    }

    fn message(params: &Params, values: &[i64]) -> Plaintext {
        Plaintext::from_integers(params, values, 0, SCALE).unwrap()
    }

    fn server(params: &Params, frame: &[u8]) -> SeededCoefficients {
        SeededCoefficients::read(params, KEY, 0, SCALE, frame).unwrap()
    }

    /// Each user reads its own coefficients, also after the server has subtracted a message, and no others.
    #[test]
    fn users_read_their_own_coefficients() {
        let (params, mut rng) = (params(), ChaCha20Rng::seed_from_u64(1));
        let values: Vec<i64> = (0..64).map(|_| rng.random_range(-(1i64 << 40)..1 << 40)).collect();
        let [one, other]: [Seed; 2] = rng.random();
        let (of_one, of_other) = ([0, 1, 9], [4, 63]);
        let users: [Padded<'_>; 2] = [(&one, &of_one), (&other, &of_other)];
        let frame = write_padded(&params, KEY, &message(&params, &values), &users).unwrap();
        let mut got = server(&params, &frame);
        got.sub_assign(&params, &message(&params, &vec![5; 64])).unwrap();
        let read = |seed: &Seed, places: &[usize]| {
            let frame =
                got.flooded_frame(&params, KEY, places, 39, &mut ChaCha20Rng::seed_from_u64(2)).unwrap();
            read_padded(&params, KEY, SCALE, (seed, places), &frame).unwrap()
        };
        for (seed, places) in users {
            for (read, &place) in read(seed, places).iter().zip(places) {
                // Noise of ± 2 units.
                assert!((read - (values[place] - 5)).abs() <= 2, "{place}");
            }
        }
        let far = |read: Vec<i64>, places: &[usize]| {
            read.iter().zip(places).all(|(read, place)| (read - values[*place]).abs() > 1 << 30)
        };
        assert!(far(read(&other, &of_one), &of_one) && far(read(&[0; 32], &of_other), &of_other));
        for bad in [&[0, 0][..], &[1 << 11]] {
            let users: [Padded<'_>; 1] = [(&one, bad)];
            let refused = write_padded(&params, KEY, &message(&params, &values), &users);
            assert!(matches!(refused, Err(Error::CoefficientCount { .. })), "{bad:?}");
        }
        let seeded = write_seeded_ciphertext(&params, KEY, &message(&params, &values).poly, &one, 0, SCALE);
        let partial = server(&params, &seeded).flooded_frame(&params, KEY, &of_one, 39, &mut rng).unwrap();
        assert!(read_padded(&params, KEY, SCALE, (&one, &of_one), &partial).is_err(), "a ciphertext");
    }

    /// χ² of 4096 residues in 64 classes, whose mean is 63 and whose deviation is 11.2.
    fn chi_square(params: &Params, residues: &[u64]) -> f64 {
        let (q, mut counts) = (params.prime(0) as f64, [0f64; 64]);
        residues.iter().for_each(|x| counts[(64.0 * *x as f64 / q) as usize] += 1.0);
        let expected = residues.len() as f64 / 64.0;
        counts.iter().map(|count| (count - expected).powi(2) / expected).sum()
    }

    /// What a server sees is uniform for a message of zeros and for the largest one, and zero where nobody
    /// is. The control is the message without pads.
    #[test]
    fn attack_a_server_sees_uniform_residues() {
        let (params, mut rng) = (params(), ChaCha20Rng::seed_from_u64(3));
        let places: Vec<usize> = (0..1024).collect();
        for value in [0, 1 << 48] {
            let message = message(&params, &vec![value; 2048]);
            let (mut seen, mut clear) = (Vec::new(), Vec::new());
            for _ in 0..4 {
                let seed: Seed = rng.random();
                let frame = write_padded(&params, KEY, &message, &[(&seed, &places)]).unwrap();
                let (c0, _) = crate::frame::read_seeded_ciphertext(&params, KEY, 0, SCALE, &frame).unwrap();
                let c0 = c0.into_coeff(params.q_basis(0));
                seen.extend_from_slice(&c0.limb(0)[..1024]);
                assert!(c0.limb(0)[1024..].iter().all(|x| *x == 0), "the places of nobody");
                clear.extend_from_slice(&message.poly.clone().into_coeff(params.q_basis(0)).limb(0)[..1024]);
            }
            let (uniform, control) = (chi_square(&params, &seen), chi_square(&params, &clear));
            assert!(uniform < 63.0 + 5.0 * 11.3, "{uniform}");
            assert!(control > 1000.0, "{control}");
        }
    }
}
