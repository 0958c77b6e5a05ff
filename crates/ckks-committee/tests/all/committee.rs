//! The committee of a test.

use ckks::{Ciphertext, EvaluationKeys, Evaluator, GaloisElement, KeySwitchKey, Params, PublicKey};
use ckks_committee::{Dealt, MemberShare, PairKeys, PairSecret, deal};
use ckks_secret::SecretKey;
use ckks_shares::{ActiveSet, KeyLabel, KeySum, PublicKeySum, Quorum, SessionId};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rns::{Coeff, Modulus, Ntt, Poly};
use std::sync::Arc;

pub(crate) const SESSION: SessionId = SessionId([7; 32]);

/// n members' own secrets and shares for one ring. Pair keys are those of [`pairs`].
pub(crate) struct Ring {
    pub(crate) params: Params,
    pub(crate) quorum: Quorum,
    pub(crate) secrets: Vec<SecretKey>,
    pub(crate) shares: Vec<MemberShare>,
}

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// The pair keys of each member.
pub(crate) fn pairs(quorum: Quorum) -> Vec<PairKeys> {
    let secret = |from: u8, to: u8| PairSecret::from_bytes(&[from * 16 + to; 32]);
    let keys = |own: u8| {
        let mut keys = PairKeys::new(own);
        for other in (1..=quorum.members()).filter(|&k| k != own) {
            keys.insert(other, &secret(own, other), &secret(other, own));
        }
        keys
    };
    (1..=quorum.members()).map(keys).collect()
}

impl Ring {
    pub(crate) fn new(params: &Params, quorum: Quorum, seed: u64) -> Self {
        let mut rng = rng(seed);
        let secrets = (0..quorum.members()).map(|_| SecretKey::generate(params, &mut rng)).collect();
        Self::with(params, quorum, secrets, seed)
    }

    pub(crate) fn with(params: &Params, quorum: Quorum, secrets: Vec<SecretKey>, seed: u64) -> Self {
        let mut rng = rng(seed + 1000);
        let mut received: Vec<Vec<Dealt>> = secrets.iter().map(|_| Vec::new()).collect();
        for secret in &secrets {
            received
                .iter_mut()
                .zip(deal(secret, quorum, &mut rng))
                .for_each(|(mine, value)| mine.push(value));
        }
        let shares = (1..)
            .zip(&received)
            .map(|(j, dealt)| MemberShare::new(params, quorum, j, dealt, &mut rng).unwrap());
        Ring { params: params.clone(), quorum, shares: shares.collect(), secrets }
    }

    /// s = Σ sᵢ modulo the primes of QP at `level`.
    pub(crate) fn whole(&self, level: usize) -> Poly<Ntt> {
        let basis = self.params.qp_basis(level);
        let mut out = Poly::zero(self.params.n(), basis.len());
        self.secrets.iter().for_each(|secret| out.add_assign(basis, &secret.values_qp(level)));
        out
    }

    pub(crate) fn public_key(&self) -> PublicKey {
        let mut sum = PublicKeySum::new(&self.params, SESSION);
        let seed = SESSION.seed(&self.params, KeyLabel::Public);
        for (secret, i) in self.secrets.iter().zip(1..) {
            sum.add(&ckks_secret::public_key_from(secret, seed, &mut rng(i))).unwrap();
        }
        sum.finish(self.quorum).unwrap()
    }

    pub(crate) fn galois_key(&self, element: GaloisElement) -> KeySwitchKey {
        let (level, label) = (self.params.max_level(), KeyLabel::Galois(element));
        let mut sum = KeySum::new(&self.params, SESSION, label, level);
        let seed = SESSION.seed(&self.params, label);
        for (secret, i) in self.secrets.iter().zip(1..) {
            sum.add(&ckks_secret::galois_key_from(secret, element, level, seed, &mut rng(i))).unwrap();
        }
        sum.finish(self.quorum).unwrap()
    }

    pub(crate) fn relinearisation_key(&self) -> KeySwitchKey {
        let label = KeyLabel::Relinearisation;
        let mut sum = KeySum::new(&self.params, SESSION, label, self.params.max_level());
        for (share, pairs) in self.shares.iter().zip(&pairs(self.quorum)) {
            sum.add(&share.relinearisation_key(pairs, SESSION).unwrap()).unwrap();
        }
        sum.finish(self.quorum).unwrap()
    }

    pub(crate) fn evaluator(&self, elements: &[GaloisElement]) -> Evaluator {
        let galois = elements.iter().map(|&g| (g, Arc::new(self.galois_key(g)))).collect();
        let keys = EvaluationKeys { relin: Some(Arc::new(self.relinearisation_key())), galois };
        Evaluator::new(self.params.clone(), keys)
    }

    /// c₀ + c₁·s, centred modulo the first primes of at most 126 bits, as the decryption of the whole secret.
    pub(crate) fn phase(&self, ct: &Ciphertext) -> Vec<i128> {
        let fits = |&limbs: &usize| self.params.log_q(limbs - 1) <= 126.0;
        let limbs = (1..=ct.level() + 1).rev().find(fits).unwrap();
        let basis = self.params.q_basis(limbs - 1);
        let mut phase = ct.c1().truncated(limbs);
        phase.mul_assign(basis, &self.whole(self.params.max_level()));
        phase.add_assign(basis, ct.c0());
        let primes: Vec<&Modulus> = (0..limbs).map(|i| basis.modulus(i)).collect();
        centred(&primes, &phase.into_coeff(basis))
    }
}

/// The sets of t members to try: the first, the last, and one with gaps.
pub(crate) fn sets(quorum: Quorum) -> Vec<ActiveSet> {
    let (t, n) = (quorum.threshold(), quorum.members());
    let gaps: Vec<u8> = (0..t).map(|i| 1 + i * (n - 1) / (t - 1)).collect();
    [(1..=t).collect(), (n - t + 1..=n).collect(), gaps]
        .iter()
        .map(|set: &Vec<u8>| quorum.active(set).unwrap())
        .collect()
}

/// The coefficients of `poly` as integers in (−q/2, q/2], where q is the product of `primes`.
pub(crate) fn centred(primes: &[&Modulus], poly: &Poly<Coeff>) -> Vec<i128> {
    let q: i128 = primes.iter().map(|m| i128::from(m.value())).product();
    let coefficient = |k: usize| {
        let (mut value, mut weight) = (0i128, 1i128);
        for (i, m) in primes.iter().enumerate() {
            let digit = m.mul(m.sub(poly.limb(i)[k], m.reduce_i128(value)), m.inv(m.reduce_i128(weight)));
            value += weight * i128::from(digit);
            weight *= i128::from(m.value());
        }
        if value > q / 2 { value - q } else { value }
    };
    (0..poly.n()).map(coefficient).collect()
}

/// The root mean square.
pub(crate) fn deviation(values: impl IntoIterator<Item = i128>) -> f64 {
    let (sum, count) =
        values.into_iter().fold((0.0, 0.0), |(sum, count), x| (sum + (x as f64).powi(2), count + 1.0));
    (sum / count).sqrt()
}

/// Fails unless a measured deviation is within a quarter of a bit of its formula.
pub(crate) fn assert_near(what: &str, measured: f64, formula: f64) {
    let bits = (measured / formula).log2();
    println!("{what}: measured {measured:.4}, formula {formula:.4}, {bits:+.3} bits");
    assert!(bits.abs() < 0.25, "{what}: measured {measured}, formula {formula}");
}
