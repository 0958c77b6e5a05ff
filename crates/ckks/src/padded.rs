//! Coefficients under one-time pads: what a holder of the key and users who hold the key of no ring send each
//! other through a server.
//!
//! A user has a seed for each message, which the server does not know. It expands to one residue modulo each
//! prime for each of the coefficients, which is uniform and used once, so that what the server sees is
//! uniform modulo q whatever the message is. The server may still add to the coefficients, as to those of a
//! ciphertext.
//!
//! - *Answers* ([`write_padded`], [`read_padded`]): the server takes a mask off, and adds noise. A frame is
//!   that of a ciphertext with a seed ([`crate::SeededCoefficients`]), whose seed is nought and belongs to
//!   nothing.
//! - *Uploads* ([`write_padded_upload`], [`PaddedUpload`]): a holder of the key encrypts minus the pads
//!   ([`Plaintext::minus_pads`]), and the server adds the upload, which makes it an encryption of the
//!   message. A frame is that of some coefficients of a ciphertext, with a nonce for the user's seed in the
//!   place of the seed of c₁.

use crate::frame::{
    read_partial_coefficients, read_scaled_ciphertext, write_partial_ciphertext, write_seeded_ciphertext,
};
use crate::{Ciphertext, Error, KeyId, Op, Params, Plaintext};
use rns::sample::{Seed, uniform_limb};
use rns::{Coeff, Poly};
use std::ops::Range;
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
    check_places(params, users)?;
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

/// The frame of coefficients at `level` and `scale`, the k-th under the k-th pad of `seed`. `nonce` is what
/// a holder of the key needs beside a key that it shares with the user to know the seed. A frame has
/// [`crate::partial_ciphertext_bytes`].
pub fn write_padded_upload(
    params: &Params,
    key: KeyId,
    (level, scale): (usize, f64),
    values: &[i64],
    (nonce, seed): (&Seed, &Seed),
) -> Vec<u8> {
    let basis = params.q_basis(level);
    let mut out = Poly::<Coeff>::zero(values.len().max(1), basis.len());
    for i in 0..basis.len() {
        let (m, limb) = (basis.modulus(i), out.limb_mut(i));
        uniform_limb(m, i, seed, &mut limb[..values.len()]);
        limb.iter_mut().zip(values).for_each(|(x, value)| *x = m.add(*x, m.reduce_i128((*value).into())));
    }
    write_partial_ciphertext(params, key, &out, 0..values.len(), nonce, level, scale)
}

impl Plaintext {
    /// Minus the pads of each user at its places, the k-th at the k-th place, and 0 elsewhere, at `level` and
    /// `scale`.
    ///
    /// # Errors
    /// [`Error::OutOfLevels`] for a level above the top level; [`Error::CoefficientCount`] for a place that
    /// is not below N, or is given twice.
    pub fn minus_pads(
        params: &Params,
        users: &[Padded<'_>],
        level: usize,
        scale: f64,
    ) -> Result<Self, Error> {
        params.check_level(Op::Encode, level)?;
        check_places(params, users)?;
        let basis = params.q_basis(level);
        let mut out = Poly::<Coeff>::zero(params.n(), basis.len());
        out.for_each_limb(|i, limb| {
            let m = basis.modulus(i);
            for (seed, places) in users {
                let mut pads = vec![0; places.len()];
                uniform_limb(m, i, seed, &mut pads);
                places.iter().zip(&pads).for_each(|(&place, pad)| limb[place] = m.neg(*pad));
                pads.zeroize();
            }
        });
        Ok(Plaintext { poly: out.into_ntt(basis), level, scale })
    }
}

/// Refuses a place that is not below N, or is given twice.
fn check_places(params: &Params, users: &[Padded<'_>]) -> Result<(), Error> {
    let max = params.n();
    let mut taken = vec![false; max];
    for &place in users.iter().flat_map(|(_, places)| *places) {
        match taken.get_mut(place) {
            Some(taken) if !*taken => *taken = true,
            _ => return Err(Error::CoefficientCount { got: place + 1, max }),
        }
    }
    Ok(())
}

/// Coefficients under the pads of a user, which a server adds to an encryption of minus these pads.
#[derive(Debug, Clone)]
pub struct PaddedUpload {
    nonce: Seed,
    c0: Poly<Coeff>,
    level: usize,
    scale: f64,
}

impl PaddedUpload {
    /// Reads the frame of [`write_padded_upload`], whose coefficients belong at `places`.
    ///
    /// # Errors
    /// As [`crate::read_partial_ciphertext`].
    pub fn read(
        params: &Params,
        key: KeyId,
        (level, scale): (usize, f64),
        places: &[usize],
        bytes: &[u8],
    ) -> Result<Self, Error> {
        let places = places.iter().copied();
        let (nonce, c0) = read_partial_coefficients(params, key, level, scale, places, bytes)?;
        Ok(PaddedUpload { nonce, c0, level, scale })
    }

    /// The nonce for the user's seed.
    pub fn nonce(&self) -> &Seed {
        &self.nonce
    }

    /// The encryption of the messages of several users, from the frame of one of minus their pads. All
    /// uploads are at its level and scale.
    ///
    /// # Errors
    /// As [`crate::read_ciphertext`]; [`Error::CiphertextCount`] without uploads.
    pub fn sum(
        params: &Params,
        key: KeyId,
        uploads: &[Self],
        minus_pads: &[u8],
    ) -> Result<Ciphertext, Error> {
        let none = Error::CiphertextCount { got: 0, want: 1 };
        let (PaddedUpload { c0, level, scale, .. }, others) = uploads.split_first().ok_or(none)?;
        let mut sum = read_scaled_ciphertext(params, key, *level, *scale, minus_pads)?;
        let (basis, mut all) = (params.q_basis(*level), c0.clone());
        others.iter().for_each(|other| all.add_assign(basis, &other.c0));
        sum.c0.add_assign(basis, &all.into_ntt(basis));
        Ok(sum)
    }

    /// The frame of the first coefficients of the encryption of the message, from the frame of these
    /// coefficients of one of minus the pads ([`crate::read_partial_ciphertext`]).
    ///
    /// # Errors
    /// As [`crate::read_partial_ciphertext`].
    pub fn added_to_first(
        &self,
        params: &Params,
        key: KeyId,
        first: Range<usize>,
        minus_pads: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let (level, scale) = (self.level, self.scale);
        let (seed, mut sum) =
            read_partial_coefficients(params, key, level, scale, first.clone(), minus_pads)?;
        sum.add_assign(params.q_basis(level), &self.c0);
        Ok(write_partial_ciphertext(params, key, &sum, first, &seed, level, scale))
    }
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

    /// An encryption of minus the pads of zero secret: what a holder of the key would make, whose c₁ no key
    /// belongs to, so that c₀ is the message and the test needs no secret.
    fn minus_pads(params: &Params, places: &[usize], seed: &Seed, c1: &Seed) -> (Vec<u8>, Poly<Coeff>) {
        let level = params.max_level();
        let minus = Plaintext::minus_pads(params, &[(seed, places)], level, SCALE).unwrap();
        let c0 = minus.poly.clone().into_coeff(params.q_basis(level));
        (write_seeded_ciphertext(params, KEY, &minus.poly, c1, level, SCALE), c0)
    }

    /// An upload and an encryption of minus its pads are an encryption of its numbers, at their places and
    /// with the c₁ of that encryption. Other pads, a frame of another length and places that are not in the
    /// ring give something else or are refused.
    #[test]
    fn uploads_and_minus_their_pads_are_the_numbers() {
        let (params, mut rng) = (params(), ChaCha20Rng::seed_from_u64(5));
        let (level, n) = (params.max_level(), params.n());
        let basis = params.q_basis(level);
        let [nonce, seed, other, c1]: [Seed; 4] = rng.random();
        for places in [vec![0, 1, 2, 3], vec![9, n - 1, 4], vec![]] {
            let bound = 1i64 << 60;
            let values: Vec<i64> = places.iter().map(|_| rng.random_range(-bound..bound)).collect();
            let frame = write_padded_upload(&params, KEY, (level, SCALE), &values, (&nonce, &seed));
            assert_eq!(frame.len(), crate::partial_ciphertext_bytes(&params, level, places.len()));
            let read = |bytes: &[u8]| PaddedUpload::read(&params, KEY, (level, SCALE), &places, bytes);
            assert_eq!(*read(&frame).unwrap().nonce(), nonce);
            let (minus, c0) = minus_pads(&params, &places, &seed, &c1);
            let sum = PaddedUpload::sum(&params, KEY, &[read(&frame).unwrap()], &minus).unwrap();
            assert_eq!((sum.level(), sum.scale()), (level, SCALE));
            assert!(sum.c1 == crate::uniform_c1(&params, level, &c1));
            let mut wanted = vec![0; n];
            places.iter().zip(&values).for_each(|(place, value)| wanted[*place] = *value);
            let wanted: Poly<Coeff> = Poly::from_signed(basis, &wanted);
            assert!(sum.c0.into_coeff(basis) == wanted, "the numbers");
            let (minus, _) = minus_pads(&params, &places, &other, &c1);
            let sum = PaddedUpload::sum(&params, KEY, &[read(&frame).unwrap()], &minus).unwrap();
            assert_eq!(sum.c0.into_coeff(basis) == wanted, places.is_empty(), "another's pads");

            if places == [0, 1, 2, 3] {
                let first = write_partial_ciphertext(&params, KEY, &c0, 0..4, &c1, level, SCALE);
                let sum = read(&frame).unwrap().added_to_first(&params, KEY, 0..4, &first).unwrap();
                assert_eq!(sum, write_partial_ciphertext(&params, KEY, &wanted, 0..4, &c1, level, SCALE));
                assert!(read(&frame).unwrap().added_to_first(&params, KEY, 0..3, &first).is_err());
            }
            for at in [0, 30, 60, frame.len() - 1] {
                let mut changed = frame.clone();
                changed[at] ^= 1;
                assert!(read(&changed).is_err(), "byte {at}");
            }
            assert!(read(&frame[1..]).is_err() && read(&minus).is_err());
            assert!(PaddedUpload::sum(&params, KEY, &[read(&frame).unwrap()], &frame).is_err());
            let sum = PaddedUpload::sum(&params, KeyId([4; 16]), &[read(&frame).unwrap()], &minus);
            assert!(sum.is_err(), "another key");
        }
        let frame = write_padded_upload(&params, KEY, (level, SCALE), &[1], (&nonce, &seed));
        assert!(PaddedUpload::read(&params, KEY, (level, SCALE), &[n], &frame).is_err());
        let minus = |places: &[usize], level| {
            Plaintext::minus_pads(&params, &[(&seed, places)], level, SCALE).is_ok()
        };
        assert!(
            minus(&[0], level) && !minus(&[n], level) && !minus(&[0, 0], level) && !minus(&[0], level + 1)
        );

        // Two users in one ciphertext.
        let users: [Padded<'_>; 2] = [(&seed, &[7, 2]), (&other, &[5])];
        let minus = Plaintext::minus_pads(&params, &users, level, SCALE).unwrap();
        let minus = write_seeded_ciphertext(&params, KEY, &minus.poly, &c1, level, SCALE);
        let upload = |(seed, places): Padded<'_>, values: &[i64]| {
            let frame = write_padded_upload(&params, KEY, (level, SCALE), values, (&nonce, seed));
            PaddedUpload::read(&params, KEY, (level, SCALE), places, &frame).unwrap()
        };
        let both = [upload(users[0], &[-1, 2]), upload(users[1], &[3])];
        let sum = PaddedUpload::sum(&params, KEY, &both, &minus).unwrap();
        assert!(sum.c0.into_coeff(basis) == Poly::from_signed(basis, &[0, 0, 2, 0, 0, 3, 0, -1]));
        assert!(PaddedUpload::sum(&params, KEY, &[], &minus).is_err());
    }

    /// What a server sees of uploads is uniform for numbers of nought and for the largest ones, modulo each
    /// prime. The control is the same under pads of nought.
    #[test]
    fn attack_a_server_sees_uniform_uploads() {
        let (params, mut rng) = (params(), ChaCha20Rng::seed_from_u64(6));
        let level = params.max_level();
        let places: Vec<usize> = (0..1024).collect();
        for value in [0, i64::MAX] {
            let mut seen = vec![Vec::new(); level + 1];
            for _ in 0..4 {
                let [nonce, seed]: [Seed; 2] = rng.random();
                let values = vec![value; 1024];
                let frame = write_padded_upload(&params, KEY, (level, SCALE), &values, (&nonce, &seed));
                let upload = PaddedUpload::read(&params, KEY, (level, SCALE), &places, &frame).unwrap();
                (0..=level).for_each(|i| seen[i].extend_from_slice(&upload.c0.limb(i)[..1024]));
            }
            for (i, seen) in seen.iter().enumerate() {
                let (q, mut counts) = (params.prime(i) as f64, [0f64; 64]);
                seen.iter().for_each(|x| counts[(64.0 * *x as f64 / q) as usize] += 1.0);
                let chi: f64 = counts.iter().map(|count| (count - 64.0).powi(2) / 64.0).sum();
                assert!(chi < 63.0 + 5.0 * 11.3, "{chi} modulo prime {i}");
            }
            let message = message(&params, &vec![value >> 8; 1024]);
            let clear = message.poly.into_coeff(params.q_basis(0));
            assert!(chi_square(&params, &clear.limb(0)[..1024].repeat(4)) > 1000.0, "the control");
        }
    }
}
