//! Parameter sets and the rule for their security.

use crate::{Encoder, Error, Gadget, GaloisElement, Hex, Op};
use rns::{Basis, ModDown, Modulus, Ntt, NttTable, Permutation, Poly, primes};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The security level that a parameter set claims, against classical attacks, for a uniform ternary secret
/// and errors with σ = 3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// At least 2¹²⁸ operations.
    Classical128,
    /// At least 2¹⁹² operations.
    Classical192,
    /// At least 2²⁵⁶ operations.
    Classical256,
    /// None. For tests only; key authorities refuse it.
    None,
}

impl Security {
    /// The security level in bits.
    pub fn bits(self) -> u32 {
        match self {
            Security::Classical128 => 128,
            Security::Classical192 => 192,
            Security::Classical256 => 256,
            Security::None => 0,
        }
    }

    /// The level of so many bits.
    pub fn of_bits(bits: u32) -> Option<Self> {
        use Security::{Classical128, Classical192, Classical256, None};
        [Classical128, Classical192, Classical256, None].into_iter().find(|level| level.bits() == bits)
    }

    /// The largest log₂(QP) at this security level for ring degree 2^`log_n`: Bossuat et al. 2024 (ePrint
    /// 2024/463), Table 5.2, classical, ternary secret. `None` where the table has no row; no modulus is
    /// allowed there.
    pub fn max_log_qp(self, log_n: u32) -> Option<u32> {
        let column = match self {
            Security::Classical128 => 0,
            Security::Classical192 => 1,
            Security::Classical256 => 2,
            Security::None => return Some(u32::MAX),
        };
        let row = match log_n {
            // 2¹⁰ has no row for 192 and 256 bits.
            10 if column > 0 => return None,
            10 => [26, 0, 0],
            11 => [53, 36, 27],
            12 => [106, 73, 56],
            13 => [214, 147, 114],
            14 => [430, 297, 230],
            15 => [868, 597, 462],
            16 => [1747, 1199, 929],
            _ => return None,
        };
        Some(row[column])
    }

    fn claim(self) -> &'static str {
        match self {
            Security::Classical128 => "128-bit security",
            Security::Classical192 => "192-bit security",
            Security::Classical256 => "256-bit security",
            Security::None => "no security",
        }
    }
}

/// What becomes of the scale of a product in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Products {
    /// It is divided by the prime of the level. Key switches add at most the noise of that rounding.
    Rescaled,
    /// It stays the product of both scales ([`crate::Evaluator::mul_unrescaled`]). The noise of an operand is
    /// multiplied by the scale of the other then, so that key switches may add some times the noise of a
    /// rounding: a special prime as large as one prime of Q is enough, and a digit is one prime.
    Unrescaled {
        /// log₂ of the canonical scale, which is that of the operands at every level.
        log_scale: u32,
    },
}

/// The description of a parameter set; [`ParamsSpec::validate`] turns it into [`Params`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParamsSpec {
    /// The name of the set in bundles and messages.
    pub name: &'static str,
    /// log₂ of the ring degree N, 10 to 16.
    pub log_n: u32,
    /// Bits of q₀, which must hold the message at level 0.
    pub log_q0: u32,
    /// Number of levels above 0.
    pub depth: usize,
    /// Bits of each prime above q₀. The scale is just below 2^log_scale.
    pub log_scale: u32,
    /// Bits of each special prime. A set whose ciphertexts are only added has none, and level 0 only.
    pub log_p: &'static [u32],
    /// What becomes of the scale of a product.
    pub products: Products,
    /// The security level that the set claims.
    pub security: Security,
}

/// The ring of contexts, model and scores: one product of ciphertexts at scale 2²², which keeps its scale,
/// and packing. log₂(QP) = 147 at N = 2¹³, where 214 is allowed for 128 bits of classical security, and 147
/// for 192 bits. 203 is allowed for 128 bits against quantum computers.
pub const LOGN13_LOGQP147_SCORES: ParamsSpec = ParamsSpec {
    name: "logn13-logqp147-scores",
    log_n: 13,
    log_q0: 50,
    depth: 1,
    log_scale: 48,
    log_p: &[49],
    products: Products::Unrescaled { log_scale: 22 },
    security: Security::Classical128,
};

/// As [`LOGN13_LOGQP147_SCORES`] with N = 2¹⁴, for contexts with more numbers. 147 bits are within what is
/// allowed for 256 bits of classical security, 230. The claim is that of the ring beside it.
pub const LOGN14_LOGQP147_SCORES: ParamsSpec =
    ParamsSpec { name: "logn14-logqp147-scores", log_n: 14, ..LOGN13_LOGQP147_SCORES };

/// As [`LOGN14_LOGQP147_SCORES`] with N = 2¹⁵, where 462 bits are allowed for 256 bits of security.
pub const LOGN15_LOGQP147_SCORES: ParamsSpec =
    ParamsSpec { name: "logn15-logqp147-scores", log_n: 15, ..LOGN13_LOGQP147_SCORES };

/// As [`LOGN14_LOGQP147_SCORES`], with the claim of the deep rings for 192 and 256 bits that it is beside.
/// 219 bits are allowed for 256 bits against quantum computers.
pub const LOGN14_LOGQP147_256BIT_SCORES: ParamsSpec = ParamsSpec {
    name: "logn14-logqp147-256bit-scores",
    security: Security::Classical256,
    ..LOGN14_LOGQP147_SCORES
};

/// As [`LOGN14_LOGQP147_256BIT_SCORES`] with N = 2¹⁵, where 442 bits are allowed against quantum computers.
pub const LOGN15_LOGQP147_256BIT_SCORES: ParamsSpec =
    ParamsSpec { name: "logn15-logqp147-256bit-scores", log_n: 15, ..LOGN14_LOGQP147_256BIT_SCORES };

/// As [`LOGN13_LOGQP147_SCORES`] with N = 2¹¹, for tests: no security.
pub const TOY_LOGN11_SCORES: ParamsSpec =
    ParamsSpec { name: "toy-logn11-scores", log_n: 11, security: Security::None, ..LOGN13_LOGQP147_SCORES };

/// As [`TOY_LOGN11_SCORES`] with N = 2¹².
pub const TOY_LOGN12_SCORES: ParamsSpec =
    ParamsSpec { name: "toy-logn12-scores", log_n: 12, ..TOY_LOGN11_SCORES };

/// As [`TOY_LOGN11_SCORES`] with N = 2¹³.
pub const TOY_LOGN13_SCORES: ParamsSpec =
    ParamsSpec { name: "toy-logn13-scores", log_n: 13, ..TOY_LOGN11_SCORES };

/// As [`TOY_LOGN11_SCORES`] with N = 2¹⁴.
pub const TOY_LOGN14_SCORES: ParamsSpec =
    ParamsSpec { name: "toy-logn14-scores", log_n: 14, ..TOY_LOGN11_SCORES };

/// The ring of sums on ciphertexts: integers that are added, at scale 1 and level 0. There is no key switch,
/// and so no special prime. log₂(Q) = 25 at N = 2¹⁰, where 26 is allowed for 128 bits of classical security,
/// and 25 against quantum computers (Homomorphic Encryption Standard 2018).
pub const LOGN10_LOGQ25_SUM: ParamsSpec = ParamsSpec {
    name: "logn10-logq25-sum",
    log_n: 10,
    log_q0: 25,
    depth: 0,
    log_scale: 20,
    log_p: &[],
    products: Products::Unrescaled { log_scale: 0 },
    security: Security::Classical128,
};

/// As [`LOGN10_LOGQ25_SUM`], for more summands. log₂(Q) = 50 at N = 2¹¹, where 53 is allowed for 128 bits of
/// classical security, and 51 against quantum computers (Homomorphic Encryption Standard 2018).
pub const LOGN11_LOGQ50_SUM: ParamsSpec =
    ParamsSpec { name: "logn11-logq50-sum", log_n: 11, log_q0: 50, ..LOGN10_LOGQ25_SUM };

/// 17 levels of 32 bits. log₂(QP) = 824.9 at N = 2¹⁵, where 868 is allowed for 128 bits of classical
/// security. 825 is allowed for 128 bits against quantum computers (the quantum column of the generated
/// tables of ePrint 2024/463).
pub const LOGN15_LOGQP825_DEPTH17: ParamsSpec = ParamsSpec {
    name: "logn15-logqp825-depth17",
    log_n: 15,
    log_q0: 41,
    depth: 17,
    log_scale: 32,
    log_p: &[48, 48, 48, 48, 48],
    products: Products::Rescaled,
    security: Security::Classical128,
};

/// 18 levels of 32 bits. log₂(QP) = 858 at N = 2¹⁵, where 868 is allowed.
pub const LOGN15_LOGQP858_DEPTH18: ParamsSpec =
    ParamsSpec { name: "logn15-logqp858-depth18", log_q0: 42, depth: 18, ..LOGN15_LOGQP825_DEPTH17 };

/// 19 levels of 32 bits. log₂(QP) = 842 at N = 2¹⁵, where 868 is allowed.
pub const LOGN15_LOGQP842_DEPTH19: ParamsSpec = ParamsSpec {
    name: "logn15-logqp842-depth19",
    depth: 19,
    log_p: &[48, 48, 48, 48],
    ..LOGN15_LOGQP858_DEPTH18
};

/// 21 levels of 32 bits. log₂(QP) = 858 at N = 2¹⁵, where 868 is allowed.
pub const LOGN15_LOGQP858_DEPTH21: ParamsSpec = ParamsSpec {
    name: "logn15-logqp858-depth21",
    log_n: 15,
    log_q0: 42,
    depth: 21,
    log_scale: 32,
    log_p: &[48, 48, 48],
    products: Products::Rescaled,
    security: Security::Classical128,
};

/// 23 levels of 30 bits, the deepest set of this ring. log₂(QP) = 866 at N = 2¹⁵, where 868 is allowed.
pub const LOGN15_LOGQP866_DEPTH23: ParamsSpec = ParamsSpec {
    name: "logn15-logqp866-depth23",
    log_n: 15,
    log_q0: 40,
    depth: 23,
    log_scale: 30,
    log_p: &[46, 45, 45],
    products: Products::Rescaled,
    security: Security::Classical128,
};

/// The levels and primes' sizes of [`LOGN15_LOGQP825_DEPTH17`] in the ring with twice the slots.
/// log₂(QP) = 825 at N = 2¹⁶, where 929 is allowed for 256 bits of classical security, and 888 against
/// quantum computers.
pub const LOGN16_LOGQP825_DEPTH17: ParamsSpec = ParamsSpec {
    name: "logn16-logqp825-depth17",
    log_n: 16,
    security: Security::Classical256,
    ..LOGN15_LOGQP825_DEPTH17
};

/// As [`LOGN16_LOGQP825_DEPTH17`] with the levels of [`LOGN15_LOGQP858_DEPTH21`]. log₂(QP) = 858.
pub const LOGN16_LOGQP858_DEPTH21: ParamsSpec = ParamsSpec {
    name: "logn16-logqp858-depth21",
    log_n: 16,
    security: Security::Classical256,
    ..LOGN15_LOGQP858_DEPTH21
};

/// 22 levels of 32 bits. log₂(QP) = 1130 at N = 2¹⁶, where 1199 is allowed for 192 bits of classical
/// security, and 1145 against quantum computers.
pub const LOGN16_LOGQP1130_DEPTH22: ParamsSpec = ParamsSpec {
    name: "logn16-logqp1130-depth22",
    log_n: 16,
    depth: 22,
    log_p: &[48, 48, 48, 48, 48, 48, 48, 48],
    security: Security::Classical192,
    ..LOGN15_LOGQP858_DEPTH18
};

/// 9 levels of 32 bits, for evaluations alone. log₂(QP) = 409 at N = 2¹⁴, where 430 is allowed for 128 bits
/// of classical security, and 409 against quantum computers.
pub const LOGN14_LOGQP409_DEPTH9: ParamsSpec = ParamsSpec {
    name: "logn14-logqp409-depth9",
    log_n: 14,
    log_q0: 41,
    depth: 9,
    log_scale: 32,
    log_p: &[40, 40],
    products: Products::Rescaled,
    security: Security::Classical128,
};

/// 11 levels of 30 bits, for evaluations alone. log₂(QP) = 409 at N = 2¹⁴.
pub const LOGN14_LOGQP409_DEPTH11: ParamsSpec = ParamsSpec {
    name: "logn14-logqp409-depth11",
    log_q0: 42,
    depth: 11,
    log_scale: 30,
    log_p: &[37],
    ..LOGN14_LOGQP409_DEPTH9
};

/// 12 levels of 28 bits, for evaluations alone. log₂(QP) = 409 at N = 2¹⁴.
pub const LOGN14_LOGQP409_DEPTH12: ParamsSpec = ParamsSpec {
    name: "logn14-logqp409-depth12",
    log_q0: 37,
    depth: 12,
    log_scale: 28,
    log_p: &[36],
    ..LOGN14_LOGQP409_DEPTH9
};

/// For tests only: the primes of [`LOGN14_LOGQP409_DEPTH11`] in a ring that is far too small for them. No
/// security.
pub const TOY_LOGN12_DEPTH11: ParamsSpec =
    ParamsSpec { name: "toy-logn12-depth11", log_n: 12, security: Security::None, ..LOGN14_LOGQP409_DEPTH11 };

/// For tests only: the primes of [`LOGN15_LOGQP858_DEPTH21`] in a ring that is far too small for them. No
/// security.
pub const TOY_LOGN12_DEPTH21: ParamsSpec =
    ParamsSpec { name: "toy-logn12-depth21", log_n: 12, security: Security::None, ..LOGN15_LOGQP858_DEPTH21 };

/// For tests only: the primes of [`LOGN16_LOGQP1130_DEPTH22`] in a ring that is far too small for them. No
/// security.
pub const TOY_LOGN14_DEPTH22: ParamsSpec = ParamsSpec {
    name: "toy-logn14-depth22",
    log_n: 14,
    security: Security::None,
    ..LOGN16_LOGQP1130_DEPTH22
};

/// The lowest levels of a set in a smaller ring, with special primes of their own. A ciphertext of the set
/// that a [`crate::RingSwitch`] splits is one of these parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixSpec {
    /// The set.
    pub large: ParamsSpec,
    /// log₂ of the ring degree, at most that of the set. Every prime of the set then serves.
    pub log_n: u32,
    /// The number of levels above 0, at most that of the set.
    pub depth: usize,
    /// Bits of each special prime.
    pub log_p: &'static [u32],
}

impl PrefixSpec {
    /// As [`ParamsSpec::validate`]. Levels 0 to `depth` have the primes and the canonical scales of the set,
    /// and log₂(QP) is checked for N = 2^`log_n` and the security that the set claims.
    ///
    /// # Errors
    /// As [`ParamsSpec::validate`]; [`Error::BadParams`] for more levels or a larger ring than the set has,
    /// and for a set that does not rescale.
    pub fn validate(self) -> Result<Params, Error> {
        let PrefixSpec { large, log_n, depth, log_p } = self;
        if log_n > large.log_n || depth > large.depth || large.products != Products::Rescaled {
            return Err(Error::BadParams(format!(
                "{depth} levels at N = 2^{log_n} are no prefix of {}",
                large.name
            )));
        }
        let spec = ParamsSpec { name: "prefix", log_n, depth, log_p, ..large };
        spec.check_numbers()?;
        let ModulusChain { mut q, p, mut scales } = modulus_chain(&large)?;
        let mut used: Vec<u64> = q.iter().chain(&p).copied().collect();
        for &bits in log_p {
            used.push(primes::largest(bits, 2 << log_n, &used)?);
        }
        let p = used.split_off(q.len() + p.len());
        q.truncate(depth + 1);
        scales.truncate(depth + 1);
        Params::with_chain(spec, ModulusChain { q, p, scales })
    }
}

impl ParamsSpec {
    /// The sets of the deep circuit.
    pub fn named() -> &'static [ParamsSpec] {
        &[
            LOGN15_LOGQP825_DEPTH17,
            LOGN15_LOGQP858_DEPTH18,
            LOGN15_LOGQP842_DEPTH19,
            LOGN15_LOGQP858_DEPTH21,
            LOGN15_LOGQP866_DEPTH23,
            LOGN16_LOGQP825_DEPTH17,
            LOGN16_LOGQP858_DEPTH21,
            LOGN16_LOGQP1130_DEPTH22,
            TOY_LOGN12_DEPTH21,
            TOY_LOGN14_DEPTH22,
        ]
    }

    /// The sets of rings for evaluations alone, those of fewer levels first.
    pub fn evaluations() -> &'static [ParamsSpec] {
        &[LOGN14_LOGQP409_DEPTH9, LOGN14_LOGQP409_DEPTH11, LOGN14_LOGQP409_DEPTH12, TOY_LOGN12_DEPTH11]
    }

    /// The sets of the ring of scores, in each tier the smallest ring first.
    pub fn scores() -> &'static [ParamsSpec] {
        &[
            LOGN13_LOGQP147_SCORES,
            LOGN14_LOGQP147_SCORES,
            LOGN15_LOGQP147_SCORES,
            LOGN14_LOGQP147_256BIT_SCORES,
            LOGN15_LOGQP147_256BIT_SCORES,
            TOY_LOGN11_SCORES,
            TOY_LOGN12_SCORES,
            TOY_LOGN13_SCORES,
            TOY_LOGN14_SCORES,
        ]
    }

    /// The sets of sums on ciphertexts.
    pub fn sums() -> &'static [ParamsSpec] {
        &[LOGN10_LOGQ25_SUM, LOGN11_LOGQ50_SUM]
    }

    /// Finds the primes, checks log₂(QP) against the published table, and builds every table.
    ///
    /// # Errors
    /// [`Error::Insecure`] if log₂(QP) is larger than the claimed security allows, [`Error::BadParams`] if a
    /// number is out of its range, [`Error::Rns`] if there are not enough primes.
    pub fn validate(self) -> Result<Params, Error> {
        self.check_numbers()?;
        Params::with_chain(self, modulus_chain(&self)?)
    }

    fn check_numbers(&self) -> Result<(), Error> {
        let ParamsSpec { log_n, log_q0, depth, log_scale, log_p, .. } = *self;
        let bad = |why: String| Err(Error::BadParams(why));
        if !(10..=16).contains(&log_n) {
            return bad(format!("log_n = {log_n} is not between 10 and 16"));
        }
        if log_p.iter().chain([&log_q0, &log_scale]).any(|&b| !(20..=Modulus::MAX_BITS).contains(&b)) {
            return bad("every prime must have 20 to 50 bits".into());
        }
        if depth > 100 {
            return bad(format!("depth {depth} is above 100"));
        }
        if log_p.is_empty() != (depth == 0) {
            return bad(format!(
                "a set of {} levels has {} special primes: sets for sums have one level and none, others \
                 at least two levels and one special prime",
                depth + 1,
                log_p.len()
            ));
        }
        if log_q0 < log_scale + 2 {
            return bad(format!(
                "log_q0 = {log_q0} leaves no room for a message at scale 2^{log_scale}: it must be at least {}",
                log_scale + 2
            ));
        }
        Ok(())
    }
}

/// The first 16 bytes of the BLAKE3 hash of everything in a parameter set that two parties must agree on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 16]);

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", Hex(&self.0))
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Validated parameters with their tables. Immutable, and cheap to clone.
#[derive(Clone)]
pub struct Params(Arc<Inner>);

struct Inner {
    spec: ParamsSpec,
    fingerprint: Fingerprint,
    log_qp: f64,
    scales: Vec<f64>,
    q: Vec<Basis>,
    qp: Vec<Basis>,
    p: Basis,
    galois_gadget: Gadget,
    relin_gadget: Gadget,
    mod_down: Vec<ModDown>,
    mod_down_rescale: Vec<Option<ModDown>>,
    rescale: Vec<Option<ModDown>>,
    /// P modulo each prime of Q.
    p_mod_q: Vec<rns::Constant>,
    imaginary_unit: Poly<Ntt>,
    encoder: Encoder,
    permutations: Mutex<BTreeMap<GaloisElement, Arc<Permutation>>>,
}

impl std::fmt::Debug for Params {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Params({}, {})", self.0.spec.name, self.0.fingerprint)
    }
}

impl PartialEq for Params {
    fn eq(&self, other: &Self) -> bool {
        self.0.fingerprint == other.0.fingerprint
    }
}

/// Δ/2^log_scale. It is below 1, so that the primes on both sides of Δ have log_scale bits; primes of 32 bits
/// then take four bytes in memory.
const SCALE_FACTOR: f64 = 1.0 - 1.0 / 256.0;

impl Params {
    fn with_chain(spec: ParamsSpec, chain: ModulusChain) -> Result<Self, Error> {
        let ParamsSpec { log_n, depth, products, security, .. } = spec;
        let ModulusChain { q: chain, p: special, scales } = chain;
        let log_qp: f64 = chain.iter().chain(&special).map(|&q| (q as f64).log2()).sum();
        match security.max_log_qp(log_n) {
            Some(allowed) if log_qp <= f64::from(allowed) => {}
            allowed => {
                return Err(Error::Insecure {
                    log_n,
                    log_qp,
                    allowed: allowed.unwrap_or(0),
                    claim: security.claim(),
                });
            }
        }
        let n = 1usize << log_n;
        let table = |q: &u64| NttTable::new(log_n, *q).map(Arc::new);
        let q_tables: Vec<Arc<NttTable>> = chain.iter().map(table).collect::<Result<_, _>>()?;
        let p_tables: Vec<Arc<NttTable>> = special.iter().map(table).collect::<Result<_, _>>()?;
        let basis = |tables: Vec<Arc<NttTable>>| Basis::new(n, tables);
        let q: Vec<Basis> = (0..=depth).map(|l| basis(q_tables[..=l].to_vec())).collect();
        let qp: Vec<Basis> =
            (0..=depth).map(|l| basis(q_tables[..=l].iter().chain(&p_tables).cloned().collect())).collect();
        let p = basis(p_tables.clone());
        let full = &qp[depth];

        // A rotation ends with a division by P, a product with a division by P and the prime of its level.
        let least = chain[1..].iter().min().map_or(0.0, |&q| (q as f64).log2());
        let gadget = |room: f64| {
            let found = match products {
                // Nothing is switched where ciphertexts are only added.
                _ if special.is_empty() => Gadget::of_primes(&q, full, f64::INFINITY),
                Products::Rescaled => Gadget::new(&q, full, room),
                Products::Unrescaled { .. } => Gadget::of_primes(&q, full, p.log2()),
            };
            found.ok_or_else(|| {
                Error::BadParams(format!(
                    "special primes of {:.0} bits in all are too small for a key switch: add a special prime",
                    p.log2()
                ))
            })
        };
        let (galois_gadget, relin_gadget) = (gadget(p.log2())?, gadget(p.log2() + least)?);

        let mod_down = (0..=depth).map(|l| ModDown::new(&q[l], &p)).collect();
        let below = |l: usize, dropped: Basis| (l > 0).then(|| ModDown::new(&q[l - 1], &dropped));
        let mod_down_rescale = (0..=depth)
            .map(|l| {
                below(l, basis([q_tables[l].clone()].into_iter().chain(p_tables.iter().cloned()).collect()))
            })
            .collect();
        let rescale = (0..=depth).map(|l| below(l, basis(vec![q_tables[l].clone()]))).collect();
        let p_mod_q = (0..=depth)
            .map(|i| {
                let m = full.modulus(i);
                m.constant(special.iter().fold(1, |x, &p| m.mul(x, m.reduce(p))))
            })
            .collect();
        let mut monomial = vec![0i64; n];
        monomial[n / 2] = 1;
        let imaginary_unit = Poly::from_signed(full, &monomial).into_ntt(full);

        let primes: Vec<u64> = chain.into_iter().chain(special).collect();
        let fingerprint = fingerprint(&spec, &primes, [&galois_gadget, &relin_gadget]);
        Ok(Params(Arc::new(Inner {
            spec,
            fingerprint,
            log_qp,
            scales,
            q,
            qp,
            p,
            galois_gadget,
            relin_gadget,
            mod_down,
            mod_down_rescale,
            rescale,
            p_mod_q,
            imaginary_unit,
            encoder: Encoder::new(log_n),
            permutations: Mutex::default(),
        })))
    }

    /// The description that these parameters were built from.
    pub fn spec(&self) -> &ParamsSpec {
        &self.0.spec
    }

    /// The fingerprint, by which two parties compare their parameters.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint
    }

    /// The ring degree N.
    pub fn n(&self) -> usize {
        1 << self.0.spec.log_n
    }

    /// N/2, the number of slots of a ciphertext.
    pub fn max_slots(&self) -> usize {
        self.n() / 2
    }

    /// The highest level.
    pub fn max_level(&self) -> usize {
        self.0.spec.depth
    }

    /// The canonical scale of `level`: Δ at the top, then scale(l − 1) = scale(l)²/q_l; the scale of operands
    /// where products are not rescaled.
    pub fn scale(&self, level: usize) -> f64 {
        self.0.scales[level]
    }

    pub(crate) fn check_level(&self, op: Op, level: usize) -> Result<(), Error> {
        match self.max_level() {
            top if level > top => Err(Error::OutOfLevels { op, need: level, have: top }),
            _ => Ok(()),
        }
    }

    /// log₂(QP), the size of the widest modulus that anything is encrypted under.
    pub fn log_qp(&self) -> f64 {
        self.0.log_qp
    }

    /// log₂ of the ciphertext modulus at `level`.
    pub fn log_q(&self, level: usize) -> f64 {
        self.q_basis(level).log2()
    }

    /// The primes of level `level`.
    pub fn q_basis(&self, level: usize) -> &Basis {
        &self.0.q[level]
    }

    /// The primes of level `level`, then the special primes.
    pub fn qp_basis(&self, level: usize) -> &Basis {
        &self.0.qp[level]
    }

    /// The special primes.
    pub fn p_basis(&self) -> &Basis {
        &self.0.p
    }

    /// The last prime of `level`, by which a product at that level is rescaled.
    pub fn prime(&self, level: usize) -> u64 {
        self.0.q[level].modulus(level).value()
    }

    /// The gadget of rotations and of conjugation.
    pub fn galois_gadget(&self) -> &Gadget {
        &self.0.galois_gadget
    }

    /// The gadget of relinearisation. Its digits may be larger, because their noise is also divided by the
    /// prime of the level.
    pub fn relin_gadget(&self) -> &Gadget {
        &self.0.relin_gadget
    }

    /// P modulo each prime of Q.
    pub fn p_constants(&self) -> &[rns::Constant] {
        &self.0.p_mod_q
    }

    /// The encoder between slots and coefficients.
    pub fn encoder(&self) -> &Encoder {
        &self.0.encoder
    }

    /// The standard deviation, in a slot and at scale 1, of the error that one rescaling or key switch adds:
    /// √(N/18)·√N, from the rounding of two polynomials, one of which is multiplied by a ternary secret.
    pub fn rounding_error(&self) -> f64 {
        let n = self.n() as f64;
        (n / 18.0).sqrt() * n.sqrt()
    }

    pub(crate) fn mod_down(&self, level: usize) -> &ModDown {
        &self.0.mod_down[level]
    }

    pub(crate) fn mod_down_rescale(&self, level: usize) -> Option<&ModDown> {
        self.0.mod_down_rescale[level].as_ref()
    }

    pub(crate) fn rescale(&self, level: usize) -> Option<&ModDown> {
        self.0.rescale[level].as_ref()
    }

    pub(crate) fn imaginary_unit(&self) -> &Poly<Ntt> {
        &self.0.imaginary_unit
    }

    /// The permutation of values under the automorphism of `element`. It is computed at its first use.
    pub fn permutation(&self, element: GaloisElement) -> Arc<Permutation> {
        let mut cache = self.0.permutations.lock().unwrap_or_else(|e| e.into_inner());
        cache
            .entry(element)
            .or_insert_with(|| Arc::new(Permutation::of_automorphism(self.0.spec.log_n, element.exponent())))
            .clone()
    }
}

struct ModulusChain {
    /// The primes q₀, q₁, … of Q.
    q: Vec<u64>,
    /// The special primes.
    p: Vec<u64>,
    /// The canonical scale of each level.
    scales: Vec<f64>,
}

fn modulus_chain(spec: &ParamsSpec) -> Result<ModulusChain, Error> {
    let ParamsSpec { log_n, log_q0, depth, log_scale, log_p, .. } = *spec;
    let two_n = 2u64 << log_n;
    let mut used = vec![primes::largest(log_q0, two_n, &[])?];
    for &bits in log_p {
        used.push(primes::largest(bits, two_n, &used)?);
    }
    let p = used[1..].to_vec();
    // From the top level down, each prime is the unused one nearest to scale²/Δ. The next scale, scale²/q,
    // then stays near Δ, and the deviations of the primes do not accumulate.
    let delta = f64::from(log_scale).exp2() * SCALE_FACTOR;
    let (mut q, mut scales) = (vec![used[0]; depth + 1], vec![delta; depth + 1]);
    for level in (1..=depth).rev() {
        let square = scales[level] * scales[level];
        q[level] = primes::nearest(square / delta, two_n, &used)?;
        used.push(q[level]);
        scales[level - 1] = square / q[level] as f64;
    }
    if let Products::Unrescaled { log_scale } = spec.products {
        scales.fill(f64::from(log_scale).exp2());
    }
    Ok(ModulusChain { q, p, scales })
}

/// The hash of ring degree, depth, scale, security level, primes, error distribution and decompositions.
fn fingerprint(spec: &ParamsSpec, primes: &[u64], gadgets: [&Gadget; 2]) -> Fingerprint {
    let ParamsSpec { log_n, depth, log_scale, security, .. } = *spec;
    let mut hash = blake3::Hasher::new();
    hash.update(b"ckks parameters v2");
    let numbers = [u64::from(log_n), depth as u64, u64::from(log_scale), u64::from(security.bits())];
    numbers.iter().chain(primes).for_each(|x| _ = hash.update(&x.to_le_bytes()));
    hash.update(&rns::sample::SIGMA.to_le_bytes());
    let words = gadgets.map(|gadget| gadget.decomposition().words());
    words.iter().flatten().for_each(|x| _ = hash.update(&x.to_le_bytes()));
    // Sets that rescale are hashed as before there were others.
    if let Products::Unrescaled { log_scale } = spec.products {
        hash.update(b"unrescaled").update(&log_scale.to_le_bytes());
    }
    let mut fingerprint = [0; 16];
    fingerprint.copy_from_slice(&hash.finalize().as_bytes()[..16]);
    Fingerprint(fingerprint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_sets_keep_their_promise() {
        for spec in ParamsSpec::named().iter().chain(ParamsSpec::evaluations()) {
            let params = spec.validate().unwrap();
            if let Some(allowed) = spec.security.max_log_qp(spec.log_n) {
                assert!(params.log_qp() <= f64::from(allowed));
            }
            for level in 0..=params.max_level() {
                assert!(
                    (params.scale(level).log2() - f64::from(spec.log_scale)).abs() < 0.05,
                    "{}",
                    spec.name
                );
            }
            assert!(spec.security != Security::None || spec.name.contains("toy"));
        }
    }

    /// A name says which ring it is of, and no set is in both lists.
    #[test]
    fn names_are_of_one_set() {
        let lists =
            [ParamsSpec::named(), ParamsSpec::evaluations(), ParamsSpec::scores(), ParamsSpec::sums()];
        let all = || lists.into_iter().flatten();
        assert!(ParamsSpec::scores().iter().all(|s| s.name.ends_with("scores")));
        assert!(ParamsSpec::sums().iter().all(|s| s.name.ends_with("sum")));
        assert!(all().all(|spec| all().filter(|other| other.name == spec.name).count() == 1));
    }

    /// 825 bits at N = 2¹⁵ is the value of the quantum column in the generated tables of ePrint 2024/463.
    #[test]
    fn the_default_set_keeps_the_quantum_column() {
        assert!(LOGN15_LOGQP825_DEPTH17.validate().unwrap().log_qp() <= 825.0);
        assert!(ParamsSpec { log_q0: 42, ..LOGN15_LOGQP825_DEPTH17 }.validate().unwrap().log_qp() > 825.0);
    }

    /// 409 bits at N = 2¹⁴ is the value of the quantum column in these tables.
    #[test]
    fn rings_of_evaluations_keep_the_quantum_column() {
        let secure = ParamsSpec::evaluations().iter().filter(|spec| spec.security != Security::None);
        assert_eq!(secure.clone().count(), 3);
        for spec in secure {
            assert!(spec.validate().unwrap().log_qp() <= 409.0);
            let more = ParamsSpec { log_q0: spec.log_q0 + 1, ..*spec };
            assert!(more.validate().unwrap().log_qp() > 409.0);
        }
    }

    /// The sets for more than 128 bits are also within the quantum columns of the generated tables of ePrint
    /// 2024/463: 1145 and 888 bits at N = 2¹⁶ for 192 and 256 bits, 219 and 442 at N = 2¹⁴ and 2¹⁵ for 256.
    #[test]
    fn sets_for_more_bits_keep_the_quantum_columns() {
        let all = ParamsSpec::named().iter().chain(ParamsSpec::scores());
        let more: Vec<_> = all.filter(|spec| spec.security.bits() > 128).collect();
        assert_eq!(more.len(), 5);
        for spec in more {
            let allowed = match (spec.security, spec.log_n) {
                (Security::Classical192, 16) => 1145.0,
                (Security::Classical256, 16) => 888.0,
                (Security::Classical256, 15) => 442.0,
                (Security::Classical256, 14) => 219.0,
                other => panic!("no limit for {other:?}"),
            };
            assert!(spec.validate().unwrap().log_qp() <= allowed, "{}", spec.name);
        }
    }

    /// log₂(QP) is within the classical limits for 128 and 192 bits, and within the 203 bits of the quantum
    /// column of the generated tables of ePrint 2024/463. The larger rings are within those for 256 bits.
    #[test]
    fn the_ring_of_scores_keeps_every_column() {
        for security in [Security::Classical128, Security::Classical192] {
            let params = ParamsSpec { security, ..LOGN13_LOGQP147_SCORES }.validate().unwrap();
            assert!(params.log_qp() <= 203.0 && params.scale(0) == params.scale(1));
        }
        let more = ParamsSpec { log_p: &[50], security: Security::Classical192, ..LOGN13_LOGQP147_SCORES };
        assert!(matches!(more.validate(), Err(Error::Insecure { allowed: 147, .. })));
        for spec in [LOGN14_LOGQP147_SCORES, LOGN15_LOGQP147_SCORES] {
            assert_eq!(spec.security, Security::Classical128);
            let params = ParamsSpec { security: Security::Classical256, ..spec }.validate().unwrap();
            assert!(params.log_qp() <= 147.0 && params.scale(0) == params.scale(1));
        }
    }

    /// log₂(Q) is within the classical limits of 26 and 53 bits, and within the 25 and 51 bits of the quantum
    /// column of the Homomorphic Encryption Standard (2018), the only one with rows for these rings. One bit
    /// more exceeds the limit, and a special prime is for sets with products.
    #[test]
    fn sums_keep_every_column() {
        for (spec, quantum, allowed) in [(LOGN10_LOGQ25_SUM, 25.0, 26), (LOGN11_LOGQ50_SUM, 51.0, 53)] {
            let params = spec.validate().unwrap();
            assert!(params.log_qp() <= quantum && spec.security.max_log_qp(spec.log_n) == Some(allowed));
            assert!((params.scale(0), params.max_level(), params.p_basis().len()) == (1.0, 0, 0));
            for bad in [ParamsSpec { log_p: &[20], ..spec }, ParamsSpec { depth: 1, ..spec }] {
                assert!(matches!(bad.validate(), Err(Error::BadParams(_))), "{bad:?}");
            }
        }
        let more = ParamsSpec { log_q0: 27, ..LOGN10_LOGQ25_SUM };
        assert!(matches!(more.validate(), Err(Error::Insecure { allowed: 26, .. })));
        for security in [Security::Classical192, Security::Classical256] {
            assert_eq!(security.max_log_qp(10), None);
        }
    }

    /// A prefix has the primes and scales of its set, and a modulus that the quantum column allows at the
    /// smaller ring degree: 203 bits at N = 2¹³.
    #[test]
    fn prefixes_are_those_of_their_set() {
        for large in ParamsSpec::named().iter().filter(|spec| spec.log_scale == 32) {
            let log_n = match large.security {
                Security::None => 11,
                Security::Classical128 => 13,
                _ => 14,
            };
            let spec = PrefixSpec { large: *large, log_n, depth: 2, log_p: &[50] };
            let (params, large) = (spec.validate().unwrap(), large.validate().unwrap());
            for level in 0..=2 {
                assert!(params.q_basis(level).primes().eq(large.q_basis(level).primes()));
                assert_eq!(params.scale(level), large.scale(level));
            }
            let special: Vec<u64> = params.p_basis().primes().collect();
            let of_large = large.qp_basis(large.max_level());
            assert!(special.len() == 1 && of_large.primes().all(|q| q != special[0]));
            assert!(params.log_qp() <= 203.0 && params.fingerprint() != large.fingerprint());
            let more = PrefixSpec { log_p: &[50; 6], ..spec };
            assert!(spec.large.security == Security::None || more.validate().is_err());
        }
        let spec = PrefixSpec { large: LOGN15_LOGQP825_DEPTH17, log_n: 13, depth: 2, log_p: &[50] };
        for bad in [
            PrefixSpec { log_n: 16, ..spec },
            PrefixSpec { log_n: 9, ..spec },
            PrefixSpec { depth: 18, ..spec },
            PrefixSpec { large: LOGN13_LOGQP147_SCORES, depth: 1, ..spec },
        ] {
            assert!(matches!(bad.validate(), Err(Error::BadParams(_))), "{bad:?}");
        }
    }

    /// A modulus as large as that of the HELBA paper, which reports log₂ q = 4982 at N = 2¹⁶, is refused: 60
    /// levels of 48 bits already exceed the 1747 bits allowed there.
    #[test]
    fn the_papers_own_set_is_refused() {
        let spec = ParamsSpec {
            name: "paper",
            log_n: 16,
            log_q0: 50,
            depth: 60,
            log_scale: 48,
            log_p: &[50],
            products: Products::Rescaled,
            security: Security::Classical128,
        };
        assert!(matches!(spec.validate(), Err(Error::Insecure { allowed: 1747, .. })));
    }

    #[test]
    fn one_bit_too_many_is_refused() {
        let spec = ParamsSpec { log_p: &[50, 50, 50, 20], ..LOGN15_LOGQP858_DEPTH21 };
        assert!(matches!(spec.validate(), Err(Error::Insecure { .. })));
        let spec = ParamsSpec { log_n: 9, ..LOGN15_LOGQP858_DEPTH21 };
        assert!(matches!(spec.validate(), Err(Error::BadParams(_))));
        let spec = ParamsSpec { security: Security::Classical192, ..LOGN15_LOGQP858_DEPTH21 };
        assert!(matches!(spec.validate(), Err(Error::Insecure { allowed: 597, .. })));
    }
}
