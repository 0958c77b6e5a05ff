//! Checks that a ciphertext that somebody sent decrypts to a message in range, by random projections.
//!
//! ```text
//! opened      Σₖ wₖ·mₖ + Σⱼ Mⱼ   modulo q, wₖ uniform in [−2¹³, 2¹³)
//! in range    at most B = q/8 in size
//! ```
//!
//! Masks Mⱼ are uniform in ± B(1 − 2⁻¹⁰)/t, nearly as wide as the modulus. An opening of a hostile message
//! therefore gives away 2 + log₂(t) + 0.0015 bits at most: it may be a linear form of the secret, and
//! smudging as narrow as that of answers would show all of it. If |mₖ| > 2⁻¹⁵·q modulo q for one k, then
//! wₖ·mₖ is outside of any interval of q/4 for half of all wₖ or more, whatever the other coefficients and
//! the masks are: a projection passes with ½ at most (docs/committee-protocol.md).
//!
//! Projections are opened in rounds, each of the inputs that passed the round before, so that a message out
//! of range is opened a few times only. The weights of a round follow from what was opened in the round
//! before, which nobody knows before the members have answered.

use crate::transfer::modulus;
use crate::{ActiveSet, Error, Forms, OpeningShare, open};
use ckks::Params;

/// The projections of each round. Those of the first round follow from the inputs, so that a sender who tries
/// a few passes it; 32 are left.
pub const ROUNDS: [usize; 4] = [1, 2, 6, 24];

/// The projections of one ciphertext in one round.
#[derive(Debug, Clone)]
pub struct RangeCheck {
    forms: Forms,
    bound: i128,
}

impl RangeCheck {
    /// `projections` of the first `coefficients` of a message at `level`, whose weights follow from `seed`.
    ///
    /// # Errors
    /// As [`Forms::of_first`].
    pub fn new(
        params: &Params,
        level: usize,
        coefficients: usize,
        projections: usize,
        seed: &[u8; 32],
    ) -> Result<Self, Error> {
        let forms = Forms::of_first(params, level, projections, coefficients, seed)?;
        Ok(RangeCheck { forms, bound: modulus(params, level) / 8 })
    }

    /// The projections.
    pub fn forms(&self) -> &Forms {
        &self.forms
    }

    /// B: what is opened of a message in range is at most this.
    pub fn bound(&self) -> i128 {
        self.bound
    }

    /// The mask of each member is uniform within this.
    pub fn mask_bound(&self, members: usize) -> i128 {
        (self.bound - (self.bound >> 10)) / members as i128
    }

    /// Whether all projections are in range: `own` are those of c₀ ([`Forms::values`]).
    ///
    /// # Errors
    /// As [`open`].
    pub fn passes(&self, set: ActiveSet, own: &[Vec<u64>], shares: &[OpeningShare]) -> Result<bool, Error> {
        let opened = open(self.forms.params(), self.forms.level(), set, own, shares)?;
        Ok(opened.iter().all(|value| value.abs() <= self.bound))
    }
}
