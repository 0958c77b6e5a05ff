//! The noise of every quantity of a committee against its formula, by the ring degree. Each line that is
//! printed is a row of the table in docs/committee-protocol.md.

use crate::committee::{Ring, SESSION, assert_near, centred, deviation, rng, sets};
use crate::keys::key_errors;
use crate::{openings, transfers};
use ckks::{
    Ciphertext, Decomposition, Gadget, GaloisElement, KeySwitchKey, LOGN15_LOGQP147_SCORES,
    LOGN15_LOGQP858_DEPTH21, Params, ParamsSpec, Plaintext, TOY_LOGN12_DEPTH21, TOY_LOGN12_SCORES,
    TOY_LOGN13_SCORES,
};
use ckks::{EvaluationKeys, Evaluator, PublicKey};
use ckks_secret::SecretKey;
use ckks_shares::{KeyLabel, Quorum};
use rns::{Ntt, Poly, sample::SIGMA};
use std::sync::Arc;

/// The keys of one secret or of the sum of those of a committee.
struct Keys {
    params: Params,
    /// n: how many secrets.
    makers: f64,
    /// The secret modulo QP at the top level.
    s: Poly<Ntt>,
    public: PublicKey,
    rotation: (GaloisElement, KeySwitchKey),
    relin: KeySwitchKey,
    what: String,
}

impl Keys {
    fn of_committee(ring: &Ring) -> Self {
        let (params, quorum) = (ring.params.clone(), ring.quorum);
        let element = GaloisElement::rotation(&params, 1);
        Keys {
            makers: quorum.members().into(),
            s: ring.whole(params.max_level()),
            public: ring.public_key(),
            rotation: (element, ring.galois_key(element)),
            relin: ring.relinearisation_key(),
            what: format!("{} of {}, {}", quorum.threshold(), quorum.members(), params.spec().name),
            params,
        }
    }

    /// n = 1, the keys of one holder.
    fn of_one(params: &Params) -> Self {
        let (secret, top) = (SecretKey::generate(params, &mut rng(1)), params.max_level());
        let element = GaloisElement::rotation(params, 1);
        let seed = SESSION.seed(params, KeyLabel::Galois(element));
        Keys {
            makers: 1.0,
            s: Poly::clone(&secret.values_qp(top)),
            public: ckks_secret::public_key(&secret, &mut rng(2)),
            rotation: (element, ckks_secret::galois_key_from(&secret, element, top, seed, &mut rng(3))),
            relin: ckks_secret::relin_key(&secret, top, &mut rng(4)),
            what: format!("n = 1, {}", params.spec().name),
            params: params.clone(),
        }
    }

    fn near(&self, what: &str, measured: f64, formula: f64) {
        assert_near(&format!("{what}, {}", self.what), measured, formula);
    }

    /// c₀ + c₁·s modulo the primes of the level of the ciphertext.
    fn phase(&self, ct: &Ciphertext) -> Poly<Ntt> {
        let basis = self.params.q_basis(ct.level());
        let mut phase = ct.c1().mul(basis, &self.s.truncated(ct.level() + 1));
        phase.add_assign(basis, ct.c0());
        phase
    }

    /// The deviation of small coefficients, from the first two primes.
    fn deviation(&self, poly: &Poly<Ntt>) -> f64 {
        let limbs = poly.limbs().min(2);
        let basis = self.params.q_basis(limbs - 1);
        let primes: Vec<_> = (0..limbs).map(|i| basis.modulus(i)).collect();
        deviation(centred(&primes, &poly.truncated(limbs).into_coeff(basis)))
    }

    /// Keys, encryptions, a rotation and a product.
    fn check(&self) {
        let (params, top) = (&self.params, self.params.max_level());
        let (s, formula) = (&self.s, self.makers.sqrt() * SIGMA);
        let basis = params.q_basis(top);
        let mut error = PublicKey::mask(params, false, self.public.seed()).mul(basis, &s.truncated(top + 1));
        error.add_assign(basis, self.public.b());
        self.near("public key", self.deviation(&error), formula);
        let (element, rotation) = &self.rotation;
        let target = s.permuted(&params.permutation(element.inverse(params)));
        let errors = key_errors(params, params.galois_gadget(), rotation, [s, &target]);
        self.near("Galois key", deviation(errors), formula);
        let square = s.mul(params.qp_basis(top), s);
        let errors = key_errors(params, params.relin_gadget(), &self.relin, [&square, s]);
        self.near("relinearisation key", deviation(errors), formula);

        let zero = Plaintext::from_integers(params, &vec![0; params.n()], top, params.scale(top)).unwrap();
        let [x, y] = [5, 6].map(|seed| ckks::encrypt(params, &self.public, &zero, &mut rng(seed)));
        let plain = SIGMA * (4.0 * self.makers * params.n() as f64 / 3.0 + 1.0).sqrt();
        self.near("encryption", self.deviation(&self.phase(&x)), plain);

        let rounding = (1.0 + 2.0 * self.makers * params.n() as f64 / 3.0) / 12.0;
        let galois = [(*element, Arc::new(rotation.clone()))].into();
        let keys = EvaluationKeys { relin: Some(Arc::new(self.relin.clone())), galois };
        let evaluator = Evaluator::new(params.clone(), keys);
        let mut added = self.phase(&evaluator.apply(&x, *element).unwrap());
        added.sub_assign(basis, &self.phase(&x).permuted(&params.permutation(*element)));
        let digits = self.digits(params.galois_gadget(), params.p_basis().log2());
        self.near("rotation, added", self.deviation(&added), (rounding + digits).sqrt());

        // The product of two errors, over the prime of the level, is beside a rounding.
        let log_divisor = params.p_basis().log2() + (params.prime(top) as f64).log2();
        let digits = self.digits(params.relin_gadget(), log_divisor);
        let of_errors = params.n() as f64 * (plain * plain / params.prime(top) as f64).powi(2);
        let product = self.phase(&evaluator.mul(&x, &y).unwrap());
        self.near("product, added", self.deviation(&product), (rounding + digits + of_errors).sqrt());
    }

    /// Σ k·4^(bits − room)·nN·3.2²/12 over the digits of a decomposition.
    fn digits(&self, gadget: &Gadget, log_divisor: f64) -> f64 {
        let (params, level) = (&self.params, self.params.max_level());
        let log: Vec<f64> = params.q_basis(level).primes().map(|q| (q as f64).log2()).collect();
        let digit = |j: usize| match gadget.decomposition() {
            Decomposition::Rns(_) => {
                let digit = &log[gadget.limbs(j, level)];
                digit.len() as f64 * (2.0 * (digit.iter().sum::<f64>() - log_divisor)).exp2()
            }
            Decomposition::Base2(ends) => {
                let start = if j == 0 { 0 } else { ends[j - 1] };
                (2.0 * (f64::from(ends[j] - start) - log_divisor)).exp2()
            }
        };
        let sum: f64 = (0..gadget.digits(level)).map(digit).sum();
        sum * self.makers * params.n() as f64 * SIGMA * SIGMA / 12.0
    }
}

/// Every quantity with both rings of one degree, for n = 1, 3 and 5. Transfers and openings take two members
/// or more.
fn check(small: ParamsSpec, large: ParamsSpec) {
    let [small, large] = [small, large].map(|spec| spec.validate().unwrap());
    for params in [&small, &large] {
        Keys::of_one(params).check();
    }
    for (t, n) in [(2, 3), (3, 5)] {
        let quorum = Quorum::new(t, n).unwrap();
        let (small, large) = (Ring::new(&small, quorum, 1), Ring::new(&large, quorum, 2));
        for ring in [&small, &large] {
            Keys::of_committee(ring).check();
        }
        transfers::check_all(&small, &large);
        openings::check_smudging(&small, &sets(quorum));
    }
}

fn large(log_n: u32, name: &'static str) -> ParamsSpec {
    ParamsSpec { log_n, name, ..TOY_LOGN12_DEPTH21 }
}

/// N = 2¹².
#[test]
fn noise_follows_the_formulas() {
    check(TOY_LOGN12_SCORES, TOY_LOGN12_DEPTH21);
}

/// N = 2¹³.
#[test]
fn noise_of_twice_the_ring_follows_the_formulas() {
    check(TOY_LOGN13_SCORES, large(13, "toy-logn13-depth21"));
}

/// N = 2¹⁵.
#[test]
#[ignore = "a large ring"]
fn noise_of_the_largest_ring_follows_the_formulas() {
    check(LOGN15_LOGQP147_SCORES, LOGN15_LOGQP858_DEPTH21);
}
