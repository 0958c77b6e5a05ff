//! Step 4, the exchanges with a holder of the key in the deep ring: the masked refresh, and the trace
//! question if the schedule asks it.
//!
//! A refresh takes a model at level 2 and returns it at a high level. A trace question stays at level 0.
//!
//! Source: Algorithm 10. Departures: every coefficient is masked, modulo Xᴺ + 1. The mask of the refresh
//! is not uniform modulo q but two bits narrower, so that nothing wraps (docs/threat-model.md bounds what a
//! holder of the key learns). A device answers the trace question with one bit, and not with the number.

use ckks::{Ciphertext, MaskSeed, Params, PublicKey};
use rand::CryptoRng;

/// The model under the mask of `seed`, re-randomised. A holder of the key who decrypts it sees noise. The
/// scale of `model` is that of the level at which it will be encrypted again. The masked model has the
/// canonical scale of its own level, as every ciphertext in a message.
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

/// Removes the mask of `seed` at `level` from the model of `slots` values that a holder of the key encrypted
/// anew. The holder kept only the coefficients of a message of `slots` values.
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

/// Adds uniform noise of ± 2^−`bits` of the scale to a trace comparison
/// ([`TRACE_FLOOD_BITS`](protocol::exchange::TRACE_FLOOD_BITS)), and re-randomises it. The device answers
/// only whether the [threshold](protocol::exchange::trace_threshold) of the trace is reached. Beyond that it
/// sees the comparison of a trace near C under this noise.
pub(crate) fn flood<R: CryptoRng>(
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
