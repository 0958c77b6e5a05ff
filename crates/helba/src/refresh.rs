//! Step 4, the exchanges with a user: the masked refresh, the answer, and the trace question where the
//! schedule asks it.
//!
//! Levels in → out: refresh 2 → top; answer and trace question 0 → 0.
//!
//! Source: Algorithm 10. Departures: every coefficient is masked, in the ring Xᴺ + 1. The mask of the refresh
//! is not uniform modulo q but two bits narrower, so that nothing wraps (docs/threat-model.md bounds what a
//! user learns). A user answers the trace question with one bit, and not with the number.

use ckks::{Ciphertext, MaskSeed, Params, PublicKey};
use protocol::exchange::{ANSWER_FLOOD_BITS, TRACE_FLOOD_BITS};
use rand::CryptoRng;

/// The model under the mask of `seed`, re-randomised: a user who decrypts it sees noise. The scale of `model`
/// is that of the level it will be encrypted at. The masked model is read at the canonical scale of its own
/// level, like every ciphertext in transit.
pub fn hide<R: CryptoRng>(
    params: &Params,
    key: &PublicKey,
    model: &Ciphertext,
    seed: &MaskSeed,
    rng: &mut R,
) -> Ciphertext {
    let mut masked = model.clone().with_scale(params.scale(model.level()));
    ckks::mask_assign(params, &mut masked, seed);
    ckks::rerandomise_assign(params, key, &mut masked, rng);
    masked
}

/// Removes the mask of `seed` at `level` from the model of `slots` values that a user encrypted anew. The
/// user kept only the coefficients that a message of `slots` values has.
pub fn reveal(
    params: &Params,
    mut refreshed: Ciphertext,
    level: usize,
    slots: usize,
    seed: &MaskSeed,
) -> Ciphertext {
    ckks::unmask_assign(params, &mut refreshed, level, slots, seed);
    refreshed
}

/// Adds noise of [`TRACE_FLOOD_BITS`] to the trace comparison, which is in the constant coefficient, and
/// re-randomises it. The device answers only whether the [threshold](protocol::exchange::trace_threshold) is
/// reached. Beyond that it sees the comparison of a trace near C, under that noise.
pub fn trace_question<R: CryptoRng>(
    params: &Params,
    key: &PublicKey,
    comparison: Ciphertext,
    rng: &mut R,
) -> Ciphertext {
    flooded(params, key, comparison, TRACE_FLOOD_BITS, rng)
}

/// Adds noise of [`ANSWER_FLOOD_BITS`] to an action and re-randomises it.
pub fn answer<R: CryptoRng>(params: &Params, key: &PublicKey, action: Ciphertext, rng: &mut R) -> Ciphertext {
    flooded(params, key, action, ANSWER_FLOOD_BITS, rng)
}

fn flooded<R: CryptoRng>(
    params: &Params,
    key: &PublicKey,
    mut a: Ciphertext,
    bits: u32,
    rng: &mut R,
) -> Ciphertext {
    ckks::flood_assign(params, &mut a, bits, rng);
    ckks::rerandomise_assign(params, key, &mut a, rng);
    a
}
