//! The public keys and evaluation keys, which a server may hold. They are data here; `ckks-secret` generates
//! them.

use crate::{Decomposition, Error, Gadget, Hex, Op, Params};
use rayon::prelude::*;
use rns::sample::{self, Seed};
use rns::{Buffer, LimbPairs, Ntt, Pairs, Poly};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The identifier of a key pair: the first 16 bytes of the BLAKE3 hash of its public key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 16]);

impl std::fmt::Display for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", Hex(&self.0))
    }
}

impl std::str::FromStr for KeyId {
    type Err = Error;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, Error> {
        let digit = |c: &u8| (*c as char).to_digit(16).filter(|_| !c.is_ascii_uppercase());
        let mut out = [0; 16];
        if text.len() != 2 * out.len() {
            return Err(Error::BadFrame("the id of a key has 32 lower-case hexadecimal digits"));
        }
        for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let (high, low) = (
                digit(&pair[0])
                    .ok_or(Error::BadFrame("the id of a key has 32 lower-case hexadecimal digits"))?,
                digit(&pair[1])
                    .ok_or(Error::BadFrame("the id of a key has 32 lower-case hexadecimal digits"))?,
            );
            *byte = (high << 4 | low) as u8;
        }
        Ok(KeyId(out))
    }
}

impl std::fmt::Debug for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The automorphism X → X^g, by its exponent g modulo 2N. The rotation by k has g = 5ᵏ, and the conjugation
/// g = 2N − 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GaloisElement(u64);

impl GaloisElement {
    /// The automorphism with this exponent; `None` unless it is odd and below 2N.
    pub fn new(params: &Params, exponent: u64) -> Option<Self> {
        (exponent % 2 == 1 && exponent < 2 * params.n() as u64).then_some(GaloisElement(exponent))
    }

    /// The exponent g.
    pub fn exponent(self) -> u64 {
        self.0
    }

    /// Whether this is the identity, which needs no key.
    pub fn is_identity(self) -> bool {
        self.0 == 1
    }

    /// The rotation of the N/2 slots by `k` to the left, or by −k to the right for k < 0.
    pub fn rotation(params: &Params, k: i64) -> Self {
        let two_n = 2 * params.n() as u64;
        let k = k.rem_euclid(params.max_slots() as i64) as u64;
        let mut g = 1u64;
        for bit in (0..64).rev() {
            g = g * g % two_n;
            if k >> bit & 1 == 1 {
                g = g * 5 % two_n;
            }
        }
        GaloisElement(g)
    }

    /// The complex conjugation of every slot.
    pub fn conjugation(params: &Params) -> Self {
        GaloisElement(2 * params.n() as u64 - 1)
    }

    /// The inverse automorphism.
    pub fn inverse(self, params: &Params) -> Self {
        // The exponent of the group is N/2, so g^(N/2 − 1) is the inverse of g.
        let two_n = 2 * params.n() as u64;
        let (mut r, mut base, mut e) = (1u64, self.0, params.n() as u64 / 2 - 1);
        while e > 0 {
            if e & 1 == 1 {
                r = r * base % two_n;
            }
            base = base * base % two_n;
            e >>= 1;
        }
        GaloisElement(r)
    }
}

/// The public key (b, a) with b = −a·s + e modulo Q, an encryption of zero under the secret s. The uniform a
/// is expanded from a seed.
#[derive(Debug, Clone, PartialEq)]
pub struct PublicKey {
    pub(crate) b: Poly<Ntt>,
    pub(crate) a: Poly<Ntt>,
    pub(crate) seed: Seed,
}

impl PublicKey {
    /// The public key with this b at the top level, and this seed of a.
    ///
    /// # Panics
    /// If b has another number of limbs.
    pub fn new(params: &Params, b: Poly<Ntt>, seed: Seed) -> Self {
        let a = Self::mask(params, &seed);
        assert_eq!(a.limbs(), b.limbs(), "a public key has a limb for each prime");
        PublicKey { b, a, seed }
    }

    /// The polynomial a, expanded from `seed`.
    pub fn mask(params: &Params, seed: &Seed) -> Poly<Ntt> {
        let basis = params.q_basis(params.max_level());
        let index: Vec<usize> = (0..basis.len()).collect();
        sample::uniform_from_seed(basis, &index, seed)
    }

    /// The polynomial b.
    pub fn b(&self) -> &Poly<Ntt> {
        &self.b
    }

    /// The seed of a.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The identifier of the key pair.
    pub fn id(&self, params: &Params) -> KeyId {
        let mut hash = blake3::Hasher::new();
        hash.update(b"ckks public key v1").update(&params.fingerprint().0).update(&self.seed);
        for x in (0..=params.max_level()).flat_map(|i| self.b.limb(i)) {
            hash.update(&x.to_le_bytes());
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hash.finalize().as_bytes()[..16]);
        KeyId(id)
    }
}

/// A key-switch key: it turns a polynomial times the secret s_from into a ciphertext under the secret s_to,
/// at any level up to the key's own. Digit j is the pair (bⱼ, aⱼ) modulo QP with bⱼ = −aⱼ·s_to + eⱼ +
/// wⱼ·s_from, where wⱼ is the [`Gadget::weight`] of the digit.
#[derive(Debug, Clone, PartialEq)]
pub struct KeySwitchKey {
    level: usize,
    /// The decomposition that the digits of the key belong to.
    decomposition: Decomposition,
    seed: Seed,
    /// The pairs (bⱼ, aⱼ) modulo each prime of Q and then of P, or the bⱼ alone if the aⱼ are expanded at
    /// each use.
    limbs: Vec<LimbPairs>,
}

/// The form of a [`KeySwitchKey`] in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStorage {
    /// Both polynomials of each digit, in the form in which they are multiplied.
    Expanded,
    /// The bⱼ alone; every use expands the aⱼ from the seed. This halves the memory and takes up to half
    /// again as long (`docs/costs.md`).
    Seeded,
}

impl KeySwitchKey {
    /// The key with these bⱼ, one for each digit of `gadget` at `level`, over the primes of `level` and the
    /// special primes, and with the seed of all aⱼ.
    ///
    /// # Panics
    /// If the number of bⱼ is not the number of digits.
    pub fn new(params: &Params, gadget: &Gadget, level: usize, b: Vec<Poly<Ntt>>, seed: Seed) -> Self {
        assert_eq!(b.len(), gadget.digits(level), "a key has as many digits as its gadget");
        let basis = params.qp_basis(level);
        let limbs = (0..basis.len())
            .into_par_iter()
            .map(|i| {
                let m = basis.modulus(i);
                let mut a = Poly::<Ntt>::scratch(basis.n(), b.len());
                a.for_each_limb(|j, limb| sample::uniform_limb(m, Self::stream(j, i), &seed, limb));
                let pairs: Vec<_> = b.iter().enumerate().map(|(j, b)| (b.limb(i), a.limb(j))).collect();
                LimbPairs::new(m, &pairs)
            })
            .collect();
        KeySwitchKey { level, decomposition: gadget.decomposition().clone(), seed, limbs }
    }

    /// The polynomial aⱼ of digit j = `digit`, expanded from `seed`.
    pub fn mask(params: &Params, level: usize, digit: usize, seed: &Seed) -> Poly<Ntt> {
        let basis = params.qp_basis(level);
        let streams: Vec<usize> = (0..basis.len()).map(|i| Self::stream(digit, i)).collect();
        sample::uniform_from_seed(basis, &streams, seed)
    }

    /// The stream of the seed that limb `i` of aⱼ is expanded from.
    fn stream(digit: usize, i: usize) -> usize {
        digit * 256 + i
    }

    /// The same key in the form `storage`. A seeded key stays seeded.
    pub fn stored_as(mut self, storage: KeyStorage) -> Self {
        if storage == KeyStorage::Seeded {
            self.limbs = self.limbs.into_iter().map(LimbPairs::into_firsts).collect();
        }
        self
    }

    /// Calls `f` with limb `i` of at least the first `digits` pairs (bⱼ, aⱼ). Limbs count the primes of Q at
    /// `level` and then those of P.
    pub(crate) fn with_limb(
        &self,
        params: &Params,
        level: usize,
        i: usize,
        digits: usize,
        f: impl FnOnce(Pairs),
    ) {
        // One buffer for each thread, which stays in the cache.
        thread_local!(static SCRATCH: RefCell<Buffer> = RefCell::new(Buffer::default()));
        let (m, own) =
            (params.qp_basis(level).modulus(i), if i <= level { i } else { i + self.level - level });
        let (limb, n) = (&self.limbs[own], params.n());
        if limb.is_whole() {
            return f(limb.whole());
        }
        SCRATCH.with_borrow_mut(|scratch| {
            if scratch.len() < digits * n {
                *scratch = Buffer::scratch(digits * n);
            }
            let masks = &mut scratch[..digits * n];
            for (j, a) in masks.chunks_exact_mut(n).enumerate() {
                sample::uniform_limb(m, Self::stream(j, own), &self.seed, a);
                rns::montgomery_assign(m, a);
            }
            f(limb.with_seconds(&masks.chunks_exact(n).collect::<Vec<_>>()));
        });
    }

    /// The number of digits.
    pub fn digits(&self) -> usize {
        self.limbs.first().map_or(0, LimbPairs::pairs)
    }

    /// The polynomial bⱼ of digit j = `digit`.
    pub fn b(&self, params: &Params, digit: usize) -> Poly<Ntt> {
        let basis = params.qp_basis(self.level);
        let mut out = Poly::scratch(basis.n(), basis.len());
        out.for_each_limb(|i, limb| self.limbs[i].first_into(basis.modulus(i), digit, limb));
        out
    }

    /// The seed of all aⱼ.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Whether the key works with the digits of `gadget` at `level`.
    pub fn serves(&self, gadget: &Gadget, level: usize) -> bool {
        self.level >= level && self.decomposition == *gadget.decomposition()
    }

    /// The highest level that the key works at.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Bytes in memory of a key of `level` for the digits of `gadget`.
    pub fn bytes_at(params: &Params, gadget: &Gadget, level: usize, storage: KeyStorage) -> usize {
        let basis = params.qp_basis(level);
        let whole = storage == KeyStorage::Expanded;
        let limb = |i| LimbPairs::bytes_of(basis.modulus(i), params.n(), gadget.digits(level), whole);
        (0..basis.len()).map(limb).sum()
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.limbs.iter().map(LimbPairs::bytes).sum()
    }
}

/// The keys of an evaluator.
#[derive(Debug, Clone, Default)]
pub struct EvaluationKeys {
    /// The relinearisation key, from s² to s.
    pub relin: Option<Arc<KeySwitchKey>>,
    /// The Galois keys by the element of their automorphism σ, each from s to σ⁻¹(s). The automorphism is
    /// applied after the key switch, so that one decomposition serves many rotations.
    pub galois: BTreeMap<GaloisElement, Arc<KeySwitchKey>>,
}

impl EvaluationKeys {
    pub(crate) fn relin(&self, params: &Params, level: usize) -> Result<&KeySwitchKey, Error> {
        let missing = Error::MissingKey { op: Op::Mul, element: 0, level };
        self.relin.as_deref().filter(|k| k.serves(params.relin_gadget(), level)).ok_or(missing)
    }

    pub(crate) fn galois(
        &self,
        params: &Params,
        op: Op,
        element: GaloisElement,
        level: usize,
    ) -> Result<&KeySwitchKey, Error> {
        let missing = Error::MissingKey { op, element: element.0, level };
        self.galois
            .get(&element)
            .map(|k| &**k)
            .filter(|k| k.serves(params.galois_gadget(), level))
            .ok_or(missing)
    }

    /// Bytes of all keys in memory.
    pub fn bytes(&self) -> usize {
        self.relin.iter().chain(self.galois.values()).map(|k| k.bytes()).sum()
    }
}
