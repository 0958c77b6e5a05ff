//! Step 4, the exchanges with a user: the trace question, where the schedule asks it, and the masked refresh.
//!
//! Levels in → out: refresh 2 → top, trace question 0.
//!
//! Source: Algorithm 10. Departures: every coefficient is masked, in the ring Xᴺ + 1; the refresh's mask is
//! not uniform modulo q but two bits narrower, so that nothing wraps ([`mask_distance`] says how far that is
//! from hiding all); a user answers the trace question with one bit, not with the number.

use crate::Error;
use ckks::{Ciphertext, Params, Plaintext, PublicKey};
use num_complex::Complex64;
use protocol::exchange::{ANSWER_FLOOD_BITS, TRACE_FLOOD_BITS};
use protocol::levels::REFRESH_LEVEL;
use rand::{CryptoRng, Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rns::sample::Seed;
use rns::{Basis, Ntt, Poly};

/// The polynomial that `seed` stands for, coefficients uniform in ± 2^(b − 1), b two bits below the modulus
/// at `level`, over `basis`; only every `stride`-th coefficient is kept.
fn mask(params: &Params, level: usize, seed: &Seed, stride: usize, basis: &Basis) -> Poly<Ntt> {
    let bits = mask_bits(params, level);
    let mut rng = ChaCha20Rng::from_seed(*seed);
    let coefficients: Vec<i128> = (0..params.n())
        .map(|_| {
            let word = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
            (word >> (128 - bits)) as i128 - (1i128 << (bits - 1))
        })
        .collect();
    let mut out = Poly::<rns::Coeff>::zero(params.n(), basis.len());
    out.for_each_limb(|i, limb| {
        for (x, &c) in limb.iter_mut().zip(&coefficients).step_by(stride) {
            *x = basis.modulus(i).reduce_i128(c);
        }
    });
    out.into_ntt(basis)
}

/// Bits of the refresh's mask at `level`: b coefficients of ± 2^(b − 1).
fn mask_bits(params: &Params, level: usize) -> u32 {
    (params.log_q(level) as u32 - 2).min(126)
}

/// What a user can learn from a masked model of `rounds` feedbacks, as a statistical distance: N
/// coefficients, each moved by at most v under a uniform mask of 2^b values, so at most N·v/2^b. A
/// coefficient is at most the scale times the largest slot: an entry of A, at most 1/λ (a sixteenth more for
/// errors), or of ω, at most √(t/λ)/2 for rewards within ± 1.
pub fn mask_distance(params: &Params, lambda: f64, rounds: u64) -> f64 {
    let level = REFRESH_LEVEL;
    let slot = (1.0625 / lambda).max((rounds as f64 / lambda).sqrt() / 2.0);
    let masks = f64::from(mask_bits(params, level)).exp2();
    params.n() as f64 * params.scale(level) * slot / masks
}

fn encrypt_zero<R: CryptoRng>(
    params: &Params,
    key: &PublicKey,
    level: usize,
    rng: &mut R,
) -> Result<Ciphertext, Error> {
    Ok(ckks::encrypt(params, key, &Plaintext::encode(params, &[Complex64::ZERO], level)?, rng))
}

/// c₀ + p for every coefficient.
fn shifted(params: &Params, a: &Ciphertext, p: &Poly<Ntt>, subtract: bool) -> Ciphertext {
    let basis = params.q_basis(a.level());
    let mut c0 = a.c0().clone();
    if subtract {
        c0.sub_assign(basis, p)
    } else {
        c0.add_assign(basis, p)
    }
    Ciphertext::new(c0, a.c1().clone(), a.level(), a.scale())
}

fn rerandomised<R: CryptoRng>(
    params: &Params,
    key: &PublicKey,
    a: &Ciphertext,
    rng: &mut R,
) -> Result<Ciphertext, Error> {
    let zero = encrypt_zero(params, key, a.level(), rng)?;
    let basis = params.q_basis(a.level());
    let (mut c0, mut c1) = (a.c0().clone(), a.c1().clone());
    c0.add_assign(basis, zero.c0());
    c1.add_assign(basis, zero.c1());
    Ok(Ciphertext::new(c0, c1, a.level(), a.scale()))
}

/// The model under the mask of `seed`, re-randomised: a user who decrypts it sees noise. The model has the
/// scale of the level it will be encrypted at; in transit it goes by the scale of its own, like every
/// ciphertext.
///
/// # Errors
/// [`Error::Ckks`] never in practice.
pub fn hide<R: CryptoRng>(
    params: &Params,
    key: &PublicKey,
    model: &Ciphertext,
    seed: &Seed,
    rng: &mut R,
) -> Result<Ciphertext, Error> {
    let level = model.level();
    let masked = shifted(params, model, &mask(params, level, seed, 1, params.q_basis(level)), false);
    let masked = rerandomised(params, key, &masked, rng)?;
    Ok(Ciphertext::new(masked.c0().clone(), masked.c1().clone(), level, params.scale(level)))
}

/// The model, `slots` values, that came back at a higher level, without the mask it had at `level`.
///
/// The device kept only the coefficients that such a message has, every N/(2·slots)-th: what the others held
/// was noise, which differs from one period of the slots to the next and would grow from batch to batch.
pub fn reveal(
    params: &Params,
    refreshed: &Ciphertext,
    level: usize,
    slots: usize,
    seed: &Seed,
) -> Ciphertext {
    let basis = params.q_basis(refreshed.level());
    shifted(params, refreshed, &mask(params, level, seed, params.max_slots() / slots, basis), true)
}

/// Re-randomises the comparison, whose result is in the constant coefficient, and adds uniform noise of ± 2⁻⁴
/// of the scale to every coefficient. The device answers only whether the
/// [threshold](protocol::exchange::trace_threshold) is reached. Beyond that it sees the comparison of a trace
/// near C, under that noise.
///
/// # Errors
/// [`Error::Ckks`] never in practice.
pub fn trace_question<R: CryptoRng>(
    params: &Params,
    key: &PublicKey,
    comparison: &Ciphertext,
    rng: &mut R,
) -> Result<Ciphertext, Error> {
    rerandomised(params, key, &flooded(params, comparison, TRACE_FLOOD_BITS, rng), rng)
}

/// Re-randomises an answer and adds uniform noise of ± 2⁻¹¹ of the scale to every coefficient
/// ([`ANSWER_FLOOD_BITS`]).
///
/// # Errors
/// [`Error::Ckks`] never in practice.
pub fn answer<R: CryptoRng>(
    params: &Params,
    key: &PublicKey,
    action: &Ciphertext,
    rng: &mut R,
) -> Result<Ciphertext, Error> {
    rerandomised(params, key, &flooded(params, action, ANSWER_FLOOD_BITS, rng), rng)
}

/// Adds uniform noise of ± 2^−`bits` of the scale to every coefficient.
fn flooded<R: CryptoRng>(params: &Params, a: &Ciphertext, bits: u32, rng: &mut R) -> Ciphertext {
    let basis = params.q_basis(a.level());
    let width = 1i64 << (a.scale().log2().round() as i32 - bits as i32).max(1);
    let noise: Vec<i64> =
        (0..params.n()).map(|_| (rng.next_u64() as i64 & (2 * width - 1)) - width).collect();
    shifted(params, a, &Poly::from_signed(basis, &noise).into_ntt(basis), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distance that the documents state: N·v/2ᵇ, for every set that is shipped, at λ = 1 and at the
    /// least λ that is allowed.
    #[test]
    fn refresh_masks_are_as_wide_as_stated() {
        for spec in ckks::ParamsSpec::named().iter().filter(|spec| spec.security.bits() > 0) {
            let params = spec.validate().unwrap();
            let level = REFRESH_LEVEL;
            let bits = mask_bits(&params, level);
            // The largest value under the largest mask stays below a quarter of the modulus: nothing wraps.
            let largest = params.scale(level) * 1e13f64.sqrt();
            assert!(f64::from(bits - 1).exp2() + largest < params.log_q(level).exp2() / 4.0, "{}", spec.name);
            let distance = |lambda, rounds| mask_distance(&params, lambda, rounds).log2();
            let (usual, least, longest) =
                (distance(1.0, 1000), distance(1e-4, 1000), distance(1e-4, 1_000_000_000));
            assert!(
                usual <= -47.0 && least <= -38.0 && longest <= -31.0,
                "{usual:.1}, {least:.1}, {longest:.1}"
            );
            // By hand: N·2^scale/2ᵇ, times √1000/2 or 1.0625·10⁴.
            let one = f64::from(spec.log_n) + params.scale(level).log2() - f64::from(bits);
            assert!(
                (usual - one - 3.983).abs() < 0.001 && (least - one - 13.375).abs() < 0.001,
                "{}",
                spec.name
            );
        }
    }
}
