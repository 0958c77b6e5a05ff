//! Keys that a server may hold. They are data here; `ckks-secret` makes them.

use crate::{Cut, Error, Gadget, Op, Params};
use rayon::prelude::*;
use rns::sample::{self, Seed};
use rns::{Buffer, LimbPairs, Ntt, Pairs, Poly};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names a secret key without telling anything of it: 16 bytes of the BLAKE3 hash of its public key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 16]);

impl std::fmt::Display for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl std::fmt::Debug for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// X → X^g, as its exponent g mod 2N. Rotation by k is 5ᵏ, conjugation 2N − 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GaloisElement(pub u64);

impl GaloisElement {
    /// Rotation of the N/2 slots by `k` to the left (k < 0: to the right).
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

    /// Complex conjugation of every slot.
    pub fn conjugation(params: &Params) -> Self {
        GaloisElement(2 * params.n() as u64 - 1)
    }

    /// The inverse automorphism.
    pub fn inverse(self, params: &Params) -> Self {
        // The group has exponent N/2 (and 2), so g^(N/2 − 1) is the inverse.
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

/// An encryption of zero under the secret key, modulo Q: b = −a·s + e, a from its seed.
#[derive(Debug, Clone, PartialEq)]
pub struct PublicKey {
    pub(crate) b: Poly<Ntt>,
    pub(crate) a: Poly<Ntt>,
    pub(crate) seed: Seed,
}

impl PublicKey {
    /// From b and the seed of a.
    pub fn new(params: &Params, b: Poly<Ntt>, seed: Seed) -> Self {
        let basis = params.q_basis(params.max_level());
        let index: Vec<usize> = (0..basis.len()).collect();
        PublicKey { b, a: sample::uniform_from_seed(basis, &index, &seed), seed }
    }

    /// The name of the key pair.
    pub fn id(&self, params: &Params) -> KeyId {
        let mut hash = blake3::Hasher::new();
        hash.update(b"ckks public key v1").update(&params.fingerprint().0).update(&self.seed);
        for x in self.b.data() {
            hash.update(&x.to_le_bytes());
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hash.finalize().as_bytes()[..16]);
        KeyId(id)
    }
}

/// Takes a polynomial times one secret to a ciphertext under another, at any level up to its own:
/// digit j is (bⱼ, aⱼ) modulo QP with bⱼ = −aⱼ·s_to + eⱼ + wⱼ·s_from, wⱼ its [`Gadget::weight`].
#[derive(Debug, Clone, PartialEq)]
pub struct KeySwitchKey {
    level: usize,
    /// Of the gadget that its digits belong to.
    cut: Cut,
    seed: Seed,
    /// The pairs (bⱼ, aⱼ) modulo each prime of Q, then of P; those of a key that is kept small without aⱼ.
    limbs: Vec<LimbPairs>,
}

/// How a [`KeySwitchKey`] is kept in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// As it is multiplied.
    Whole,
    /// Without its a, which every use makes anew from the seed: half the memory, for up to a half more time (`docs/costs.md`).
    Seeded,
}

impl KeySwitchKey {
    /// From the b of the digits that `gadget` has at `level`, over the primes of `level` and the special ones, and the seed of all a.
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
        KeySwitchKey { level, cut: gadget.cut().clone(), seed, limbs }
    }

    /// aⱼ.
    pub fn mask(params: &Params, level: usize, digit: usize, seed: &Seed) -> Poly<Ntt> {
        let basis = params.qp_basis(level);
        let streams: Vec<usize> = (0..basis.len()).map(|i| Self::stream(digit, i)).collect();
        sample::uniform_from_seed(basis, &streams, seed)
    }

    /// The stream that limb `i` of aⱼ is drawn from.
    fn stream(digit: usize, i: usize) -> usize {
        digit * 256 + i
    }

    /// The same key, kept like that; what was dropped does not come back.
    pub fn keep(mut self, kept: Kept) -> Self {
        if kept == Kept::Seeded {
            self.limbs = self.limbs.into_iter().map(LimbPairs::into_firsts).collect();
        }
        self
    }

    /// Calls `f` with the first pairs (bⱼ, aⱼ) modulo limb i of `level`, over Q then P, at least as many as `digits`.
    pub(crate) fn with_limb(
        &self,
        params: &Params,
        level: usize,
        i: usize,
        digits: usize,
        f: impl FnOnce(Pairs),
    ) {
        // One buffer a thread, so that it stays in the cache.
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
                LimbPairs::prepare_second(m, a);
            }
            f(limb.with_seconds(&masks.chunks_exact(n).collect::<Vec<_>>()));
        });
    }

    /// Number of digits.
    pub(crate) fn digits(&self) -> usize {
        self.limbs.first().map_or(0, LimbPairs::pairs)
    }

    /// bⱼ.
    pub(crate) fn b(&self, params: &Params, digit: usize) -> Poly<Ntt> {
        let basis = params.qp_basis(self.level);
        let mut out = Poly::scratch(basis.n(), basis.len());
        out.for_each_limb(|i, limb| self.limbs[i].first_into(basis.modulus(i), digit, limb));
        out
    }

    /// The seed of all a.
    pub(crate) fn seed(&self) -> &Seed {
        &self.seed
    }

    fn serves(&self, gadget: &Gadget, level: usize) -> bool {
        self.level >= level && self.cut == *gadget.cut()
    }

    /// The highest level it works at.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Bytes a key of `level` for the digits of `gadget` takes in memory.
    pub fn bytes_at(params: &Params, gadget: &Gadget, level: usize, kept: Kept) -> usize {
        let basis = params.qp_basis(level);
        let whole = kept == Kept::Whole;
        let limb = |i| LimbPairs::bytes_of(basis.modulus(i), params.n(), gadget.digits(level), whole);
        (0..basis.len()).map(limb).sum()
    }

    /// Bytes it takes in memory.
    pub fn bytes(&self) -> usize {
        self.limbs.iter().map(LimbPairs::bytes).sum()
    }
}

/// What an evaluator needs beyond the parameters.
#[derive(Debug, Clone, Default)]
pub struct EvaluationKeys {
    /// s² → s.
    pub relin: Option<Arc<KeySwitchKey>>,
    /// s → σ⁻¹(s), by Galois element: the automorphism is applied after the key switch, so that one
    /// decomposition serves many rotations.
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

    /// Bytes they take in memory.
    pub fn bytes(&self) -> usize {
        self.relin.iter().chain(self.galois.values()).map(|k| k.bytes()).sum()
    }
}
