//! A message moves to another ring or level, and nobody sees it.
//!
//! ```text
//! member j    downⱼ = ⟨w, λⱼσⱼ·c₁⟩ − Mⱼ + ζⱼ   modulo q of the source, for each form w, with a mask Mⱼ
//!             upⱼ   = E(Mⱼ) − λⱼσ'ⱼ·a + eⱼ + ζ'ⱼ   modulo Q of the target
//! server      v = ⟨w, c₀⟩ + Σ downⱼ = ⟨w, m⟩ − Σ Mⱼ;   (E(v) + Σ upⱼ, a) = an encryption of E(⟨w, m⟩)
//! ```
//! E is linear over the integers up to a rounding below one unit, which [`Transfer::encode`] computes.
//! Nothing of the message leaves but the forms that E reads, under masks.

use crate::{ActiveSet, Error, Forms, OpeningShare, RequestId, open};
use ckks::{Ciphertext, NumbersToCoefficients, NumbersToSlots, Params, Plaintext, Raise, Refresh};
use rns::{Modulus, Ntt, Poly};
use zeroize::Zeroizing;

/// A linear map from linear forms of a message in one ring to a message in another.
pub trait Transfer {
    /// Parameters and level before.
    fn source(&self) -> (&Params, usize);

    /// Parameters and level after.
    fn target(&self) -> (&Params, usize);

    /// The forms that the map reads, at the level before.
    ///
    /// # Errors
    /// Those of [`Forms`].
    fn forms(&self) -> Result<Forms, Error>;

    /// b: what the map reads is below 2ᵇ in size.
    fn limit_bits(&self) -> u32 {
        ckks::MAX_WIDE_BITS
    }

    /// The image of a message of which these are the forms.
    ///
    /// # Errors
    /// [`ckks::Error`] for another number of forms, and for one that is out of range.
    fn encode(&self, forms: &[i128]) -> Result<Plaintext, ckks::Error>;

    /// c: masked forms take 2⁻ᶜ of what is possible modulo q, so that one of uniform garbage is taken for a
    /// form with probability 2⁻ᶜ. Masks are narrower by as much.
    fn check_bits(&self) -> u32 {
        CHECK_BITS
    }

    /// What honest shares leave of a message of up to 2⁻¹⁰ of this bound is at most this bound in size, below
    /// half of q.
    fn masked_bound(&self) -> i128 {
        let (params, level) = self.source();
        (modulus(params, level) / 2).min(1 << self.limit_bits()) >> self.check_bits()
    }

    /// R: masks are uniform in [−R, R]. The sum of those of t members and a message of up to 2⁻¹⁰ of
    /// [`Self::masked_bound`] stay within it, so that nothing wraps.
    fn mask_bound(&self, members: usize) -> i128 {
        let bound = self.masked_bound();
        (bound - (bound >> 10)) / members as i128
    }
}

/// The check bits of transfers of sums and models.
pub const CHECK_BITS: u32 = 4;

/// A raise ([`Raise`]) with its factor.
#[derive(Debug, Clone, Copy)]
pub struct Raised<'a> {
    /// The raise.
    pub raise: &'a Raise,
    /// The factor that slots are multiplied by.
    pub factor: f64,
    /// [`Transfer::check_bits`]: 0 for scores, whose contexts hold as little of the secret as can be.
    pub check_bits: u32,
}

impl Transfer for Raised<'_> {
    fn source(&self) -> (&Params, usize) {
        (self.raise.small(), self.raise.small().max_level())
    }

    fn target(&self) -> (&Params, usize) {
        (self.raise.large(), self.raise.level())
    }

    fn forms(&self) -> Result<Forms, Error> {
        let (small, level) = self.source();
        Forms::coefficients(small, level, self.raise.reads())
    }

    fn encode(&self, forms: &[i128]) -> Result<Plaintext, ckks::Error> {
        self.raise.encode(&placed(forms, self.raise.reads(), self.raise.small().n())?, self.factor)
    }

    fn check_bits(&self) -> u32 {
        self.check_bits
    }
}

impl Transfer for NumbersToCoefficients {
    fn source(&self) -> (&Params, usize) {
        (self.numbers().params(), self.numbers().level())
    }

    fn target(&self) -> (&Params, usize) {
        (self.small(), self.small().max_level())
    }

    fn forms(&self) -> Result<Forms, Error> {
        Forms::numbers(self.numbers())
    }

    fn encode(&self, forms: &[i128]) -> Result<Plaintext, ckks::Error> {
        self.encode(forms)
    }
}

impl Transfer for NumbersToSlots {
    fn source(&self) -> (&Params, usize) {
        (self.numbers().params(), self.numbers().level())
    }

    fn target(&self) -> (&Params, usize) {
        (self.numbers().params(), self.high())
    }

    fn forms(&self) -> Result<Forms, Error> {
        Forms::numbers(self.numbers())
    }

    fn encode(&self, forms: &[i128]) -> Result<Plaintext, ckks::Error> {
        self.encode(forms)
    }
}

/// All coefficients of a message, as they are.
impl Transfer for Refresh {
    fn source(&self) -> (&Params, usize) {
        (self.params(), self.low())
    }

    fn target(&self) -> (&Params, usize) {
        (self.params(), self.high())
    }

    fn forms(&self) -> Result<Forms, Error> {
        Forms::coefficients(self.params(), self.low(), self.reads())
    }

    fn limit_bits(&self) -> u32 {
        126
    }

    fn encode(&self, forms: &[i128]) -> Result<Plaintext, ckks::Error> {
        self.encode(&placed(forms, self.reads(), self.params().n())?)
    }
}

/// The `n` coefficients of a message, of which those `at` are the forms, and the others 0.
fn placed(forms: &[i128], at: Vec<usize>, n: usize) -> Result<Zeroizing<Vec<i128>>, ckks::Error> {
    if forms.len() != at.len() {
        return Err(ckks::Error::CoefficientCount { got: forms.len(), max: at.len() });
    }
    let mut out = Zeroizing::new(vec![0; n]);
    at.into_iter().zip(forms).for_each(|(k, form)| out[k] = *form);
    Ok(out)
}

/// The share of one member of a [`Transfer`].
#[derive(Debug, Clone, PartialEq)]
pub struct TransferShare {
    /// downⱼ of each form, modulo q of the source.
    pub down: OpeningShare,
    /// upⱼ, modulo Q of the target.
    pub up: Poly<Ntt>,
}

/// The transferred ciphertext, from the shares of all members of `set`.
///
/// # Errors
/// [`Error::ShareCount`]; [`Error::Foreign`] for a share of another size, or if `input` is not at the level
/// of the source; [`Error::Garbage`] if the sum of the shares is wider than honest ones leave it. Then a
/// member sent no share of this request, or the message itself is out of range. Of the 2^-c that pass in a
/// coefficient, see [`Transfer::check_bits`]; garbage in upⱼ is not seen.
pub fn transfer(
    map: &(impl Transfer + ?Sized),
    set: ActiveSet,
    request: &RequestId,
    input: &Ciphertext,
    shares: &[TransferShare],
) -> Result<Ciphertext, Error> {
    let image = masked_image(map, set, input, shares.iter().map(|share| share.down.clone()).collect())?;
    let (target, high) = map.target();
    let to = target.q_basis(high);
    if !shares.iter().all(|share| fits(&share.up, target.n(), to.len())) {
        return Err(Error::Foreign(OTHER_SIZE));
    }
    let mut c0 = image.poly().clone();
    shares.iter().for_each(|share| c0.add_assign(to, &share.up));
    let c1 = ckks::uniform_c1(target, high, &request.seed());
    Ok(Ciphertext::new(c0, c1, high, image.scale()))
}

const OTHER_SIZE: &str = "a share has another size than the transfer";

fn fits(poly: &Poly<Ntt>, n: usize, limbs: usize) -> bool {
    poly.n() == n && poly.limbs() == limbs
}

/// The image of the masked message, whose forms the `downs` of all members of `set` open.
fn masked_image(
    map: &(impl Transfer + ?Sized),
    set: ActiveSet,
    input: &Ciphertext,
    downs: Vec<OpeningShare>,
) -> Result<Plaintext, Error> {
    let (source, low) = map.source();
    let own = map.forms()?.values(input)?;
    let opened = open(source, low, set, &own, &downs)?;
    let bound = map.masked_bound();
    if opened.iter().any(|v| v.abs() > bound) {
        return Err(Error::Garbage);
    }
    Ok(map.encode(&opened)?)
}

/// The share of one member of a [`Transfer`] to other keys, whose secret no member of its own has.
///
/// ```text
/// member j    downⱼ = ⟨w, λⱼσⱼ·c₁⟩ − Mⱼ + ζⱼ   modulo q of the source
///             upⱼ   = an encryption of E(Mⱼ) under the other public key
/// server      v = ⟨w, c₀⟩ + Σ downⱼ;   E(v) + Σ upⱼ
/// ```
#[derive(Debug, Clone)]
pub struct RotationShare {
    /// downⱼ of each form, modulo q of the source.
    pub down: OpeningShare,
    /// upⱼ, at the level of the target.
    pub up: Ciphertext,
}

/// The ciphertext under the other keys, from the shares of all members of `set`.
///
/// # Errors
/// As [`transfer`].
pub fn rotate(
    map: &(impl Transfer + ?Sized),
    set: ActiveSet,
    input: &Ciphertext,
    shares: &[RotationShare],
) -> Result<Ciphertext, Error> {
    let image = masked_image(map, set, input, shares.iter().map(|share| share.down.clone()).collect())?;
    let (target, high) = map.target();
    let to = target.q_basis(high);
    let own = |up: &Ciphertext| [up.c0(), up.c1()].iter().all(|poly| fits(poly, target.n(), to.len()));
    if !shares.iter().all(|share| own(&share.up)) {
        return Err(Error::Foreign(OTHER_SIZE));
    }
    let (mut c0, mut c1) = (image.poly().clone(), Poly::zero(target.n(), to.len()));
    for RotationShare { up, .. } in shares {
        c0.add_assign(to, up.c0());
        c1.add_assign(to, up.c1());
    }
    Ok(Ciphertext::new(c0, c1, high, image.scale()))
}

/// The product of the primes up to `level`, which must be below 2¹²⁷.
pub(crate) fn modulus(params: &Params, level: usize) -> i128 {
    params.q_basis(level).primes().map(i128::from).product()
}

/// Garner's algorithm for the primes up to a level: v = d₀ + q₀·(d₁ + q₁·(…)), with digit dᵢ modulo qᵢ.
pub(crate) struct Lift<'a> {
    primes: Vec<&'a Modulus>,
    /// `inverses[i][j]` is qⱼ⁻¹ modulo qᵢ.
    inverses: Vec<Vec<u64>>,
    modulus: i128,
}

impl<'a> Lift<'a> {
    pub(crate) fn new(params: &'a Params, level: usize) -> Self {
        let basis = params.q_basis(level);
        let primes: Vec<&Modulus> = (0..=level).map(|i| basis.modulus(i)).collect();
        let inverse = |i: usize, j: usize| primes[i].inv(primes[i].reduce(primes[j].value()));
        let inverses = (0..=level).map(|i| (0..i).map(|j| inverse(i, j)).collect()).collect();
        Lift { primes, inverses, modulus: modulus(params, level) }
    }

    /// The integer in (−q/2, q/2] with these residues.
    pub(crate) fn centred(&self, residues: impl Iterator<Item = u64>) -> i128 {
        let (mut value, mut weight, mut digits) = (0i128, 1i128, Vec::with_capacity(self.primes.len()));
        for (i, residue) in residues.enumerate() {
            let m = self.primes[i];
            let digit = digits
                .iter()
                .zip(&self.inverses[i])
                .fold(residue, |x, (&d, &inverse)| m.mul(m.sub(x, m.reduce(d)), inverse));
            value += weight * i128::from(digit);
            weight *= i128::from(m.value());
            digits.push(digit);
        }
        if value > self.modulus / 2 { value - self.modulus } else { value }
    }
}
