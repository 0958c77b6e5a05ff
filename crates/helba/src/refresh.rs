//! Step 4, the exchanges with a user: the masked trace answer and the masked refresh.
//!
//! Levels in → out: refresh 2 → top, trace answer 0.
//!
//! Source: Algorithm 10. Departures: every coefficient is masked, in the ring Xᴺ + 1; the refresh's mask is not
//! uniform modulo q but half as wide, so that nothing wraps (the distance from uniform is below N·2⁻⁶⁴); a user's
//! number is flooded and rounded before it returns.

use crate::Error;
use ckks::{Ciphertext, Params, Plaintext, PublicKey};
use num_complex::Complex64;
use rand::{CryptoRng, Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rns::sample::Seed;
use rns::{Basis, Ntt, Poly};

/// The batch ends if the comparison comes out at this or more (section 6: precision 0.45).
pub(crate) const TRACE_DECISION: f64 = 0.45;
/// The answer's noise is drowned in uniform noise of this many bits below the scale; see [`answer`].
const FLOOD_BITS_BELOW_SCALE: i32 = 11;

/// The polynomial that `seed` stands for, coefficients uniform in ± 2^(b − 1), b two bits below the modulus at `level`,
/// over `basis`; only every `stride`-th coefficient is kept.
fn mask(params: &Params, level: usize, seed: &Seed, stride: usize, basis: &Basis) -> Poly<Ntt> {
    let bits = (params.log_q(level) as u32 - 2).min(126);
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

/// The model under the mask of `seed`, re-randomised: a user who decrypts it sees noise. The model has the scale of the level
/// it will be encrypted at; in transit it goes by the scale of its own, like every ciphertext.
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
/// The device kept only the coefficients that such a message has, every N/(2·slots)-th: what the others held was
/// noise, which differs from one period of the slots to the next and would grow from batch to batch.
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

/// The comparison's result in the constant coefficient, under a mask uniform modulo q₀ in every coefficient.
///
/// # Errors
/// [`Error::Ckks`] never in practice.
pub fn trace_question<R: CryptoRng>(
    params: &Params,
    key: &PublicKey,
    comparison: &Ciphertext,
    seed: &Seed,
    rng: &mut R,
) -> Result<Ciphertext, Error> {
    let masked = shifted(params, comparison, &ckks::uniform_c1(params, comparison.level(), seed), false);
    rerandomised(params, key, &masked, rng)
}

/// Whether the batch ends, from the user's flooded and rounded number.
pub fn trace_condition(params: &Params, seed: &Seed, answer: u64) -> bool {
    let basis = params.q_basis(0);
    let m = basis.modulus(0);
    let mask = ckks::uniform_c1(params, 0, seed).into_coeff(basis).limb(0)[0];
    m.centered(m.sub(m.reduce(answer), mask)) as f64 >= TRACE_DECISION * params.scale(0)
}

/// An answer for a user: re-randomised, its noise drowned in uniform noise 2⁻¹¹ of the scale wide a coefficient.
/// That is a standard deviation of 0.036 in an entry where all slots of N = 2¹⁵ are used, 0.051 at 2¹⁶, and in proportion to the root of the
/// slots where fewer are: 0.009 for the quickstart. It tells arms apart, is far above what the circuit leaves in the mean and about
/// that in the worst slot of the largest problems (docs/precision.md); it blurs what near ties tell of the model and hides nothing to a
/// cryptographic degree (docs/threat-model.md).
///
/// # Errors
/// [`Error::Ckks`] never in practice.
pub fn answer<R: CryptoRng>(
    params: &Params,
    key: &PublicKey,
    action: &Ciphertext,
    rng: &mut R,
) -> Result<Ciphertext, Error> {
    let basis = params.q_basis(action.level());
    let width = 1i64 << (action.scale().log2().round() as i32 - FLOOD_BITS_BELOW_SCALE).max(1);
    let noise: Vec<i64> =
        (0..params.n()).map(|_| (rng.next_u64() as i64 & (2 * width - 1)) - width).collect();
    let noise = Poly::from_signed(basis, &noise).into_ntt(basis);
    rerandomised(params, key, &shifted(params, action, &noise, false), rng)
}
