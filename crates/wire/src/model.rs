//! The masked model travels to a user and rests with the server.
//!
//! It is at the refresh level with the scale of the model level, so that coefficients encrypted anew up there have the
//! canonical one. Frames carry, and their readers accept, the canonical scale of their level only; so the scale is
//! changed by name here, on the way out and back in. The polynomials stay as they are.

use crate::Error;
use ckks::{Ciphertext, KeyId, Params};
use helba::Plan;

/// The frame of a masked model.
pub fn write_masked_model(params: &Params, key: KeyId, masked: &Ciphertext) -> Vec<u8> {
    ckks::write_ciphertext(params, key, &with_scale(masked, params.scale(masked.level())))
}

/// Reads what [`write_masked_model`] wrote: at the plan's refresh level, with the scale of its model level.
///
/// # Errors
/// [`Error::Level`] for a plan above the parameters; [`Error::Ckks`] as [`ckks::read_ciphertext`].
pub fn read_masked_model(
    params: &Params,
    key: KeyId,
    plan: &Plan,
    frame: &[u8],
) -> Result<Ciphertext, Error> {
    let max = params.max_level();
    for (what, level) in [("masked model", plan.refresh_level), ("refreshed model", plan.model_level)] {
        if level > max {
            return Err(Error::Level { what, level, max });
        }
    }
    let read = ckks::read_ciphertext(params, key, plan.refresh_level, frame)?;
    Ok(with_scale(&read, params.scale(plan.model_level)))
}

fn with_scale(ct: &Ciphertext, scale: f64) -> Ciphertext {
    Ciphertext::new(ct.c0().clone(), ct.c1().clone(), ct.level(), scale)
}
