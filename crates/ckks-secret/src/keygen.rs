//! Key generation. The modulus of every key divides the QP that [`ckks::Params`] was checked for, so that no
//! key is published under a larger modulus than the security table allows.

use crate::SecretKey;
use ckks::{Gadget, GaloisElement, KeySwitchKey, Params, PublicKey};
use rand::CryptoRng;
use rns::sample;
use rns::{Basis, Ntt, Poly};
use zeroize::Zeroizing;

/// Generates the public key (b, a) with b = −a·s + e modulo Q at the top level.
pub fn public_key<R: CryptoRng>(secret: &SecretKey, rng: &mut R) -> PublicKey {
    let (params, seed) = (secret.params(), sample::seed(rng));
    let basis = params.q_basis(params.max_level());
    let mut b = PublicKey::mask(params, &seed);
    b.mul_assign(basis, &secret.values_qp(params.max_level()));
    b.neg_assign(basis);
    b.add_assign(basis, &error(basis, rng));
    PublicKey::new(params, b, seed)
}

/// Generates the relinearisation key from s² to s, for all levels up to `level`.
pub fn relin_key<R: CryptoRng>(secret: &SecretKey, level: usize, rng: &mut R) -> KeySwitchKey {
    let (params, s) = (secret.params(), secret.values_qp(level));
    let basis = params.qp_basis(level);
    let square = Zeroizing::new(s.mul(basis, &s));
    switch_key(params, params.relin_gadget(), [&square, &s], level, rng)
}

/// Generates the Galois key from s to σ⁻¹(s) for the automorphism σ of `element`, for all levels up to
/// `level`.
pub fn galois_key<R: CryptoRng>(
    secret: &SecretKey,
    element: GaloisElement,
    level: usize,
    rng: &mut R,
) -> KeySwitchKey {
    let (params, s) = (secret.params(), secret.values_qp(level));
    let target = Zeroizing::new(s.permuted(&params.permutation(element.inverse(params))));
    switch_key(params, params.galois_gadget(), [&s, &target], level, rng)
}

/// Generates key `number` of the [`ckks::RingSwitch`] from the ring of `large` to that of `small`, for all
/// levels of `small`: from the polynomial sⱼ of s = Σⱼ Xʲ·sⱼ(Xʳ) with j = `number` and r = N/N' to the secret
/// of `small`.
///
/// # Panics
/// Unless `number` is below r.
pub fn ring_switch_key<R: CryptoRng>(
    large: &SecretKey,
    small: &SecretKey,
    number: usize,
    rng: &mut R,
) -> KeySwitchKey {
    let params = small.params();
    let (r, level) = (large.params().n() / params.n(), params.max_level());
    assert!(number < r, "a ring switch has as many keys as the degree of the large ring is larger");
    let component: Vec<i64> = large.coefficients()[number..].iter().step_by(r).copied().collect();
    let component = Zeroizing::new(component);
    let basis = params.qp_basis(level);
    let from = Zeroizing::new(Poly::from_signed(basis, &component).into_ntt(basis));
    switch_key(params, params.galois_gadget(), [&from, &small.values_qp(level)], level, rng)
}

fn error<R: CryptoRng>(basis: &Basis, rng: &mut R) -> Zeroizing<Poly<Ntt>> {
    Zeroizing::new(sample::error_poly(basis, rng).into_ntt(basis))
}

/// The key of all digits j, bⱼ = −aⱼ·`to` + eⱼ + wⱼ·`from` modulo QP at `level`, with a fresh seed of all aⱼ.
fn switch_key<R: CryptoRng>(
    params: &Params,
    gadget: &Gadget,
    [from, to]: [&Poly<Ntt>; 2],
    level: usize,
    rng: &mut R,
) -> KeySwitchKey {
    let (basis, seed) = (params.qp_basis(level), sample::seed(rng));
    let digit = |j| {
        let mut b = KeySwitchKey::mask(params, level, j, &seed).mul(basis, to);
        b.neg_assign(basis);
        b.add_assign(basis, &error(basis, rng));
        b.for_each_limb(|i, limb| {
            if let Some(weight) = gadget.weight(params, j, level, i) {
                rns::mul_constant_add(basis.modulus(i), limb, from.limb(i), weight);
            }
        });
        b
    };
    let b = (0..gadget.digits(level)).map(digit).collect();
    KeySwitchKey::new(params, gadget, level, b, seed)
}
