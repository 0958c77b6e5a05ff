//! Parameter sets and the security rule.

use crate::{Encoder, Error, Gadget, Op};
use rns::{Basis, ModDown, Modulus, Ntt, NttTable, Permutation, Poly, primes};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The security a set claims, classical, for a uniform ternary secret and σ = 3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// At least 2¹²⁸ operations.
    Classical128,
    /// At least 2¹⁹² operations.
    Classical192,
    /// At least 2²⁵⁶ operations.
    Classical256,
    /// None: for tests. Key authorities refuse it.
    None,
}

impl Security {
    /// Bits claimed.
    pub fn bits(self) -> u32 {
        match self {
            Security::Classical128 => 128,
            Security::Classical192 => 192,
            Security::Classical256 => 256,
            Security::None => 0,
        }
    }

    /// The most log₂(QP) may be for ring degree 2^`log_n`: Bossuat et al. 2024 (ePrint 2024/463), Table 5.2,
    /// classical, ternary; `None` where the table has no row (nothing is allowed there).
    pub fn max_log_qp(self, log_n: u32) -> Option<u32> {
        let column = match self {
            Security::Classical128 => 0,
            Security::Classical192 => 1,
            Security::Classical256 => 2,
            Security::None => return Some(u32::MAX),
        };
        let row = match log_n {
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

/// What people write; [`ParamsSpec::validate`] makes [`Params`] of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParamsSpec {
    /// Its name in bundles and messages.
    pub name: &'static str,
    /// log₂ of the ring degree N, 10 to 16.
    pub log_n: u32,
    /// Bits of q₀: room for the message at level 0.
    pub log_q0: u32,
    /// Number of levels above 0.
    pub depth: usize,
    /// Bits of each prime above q₀ and, rounded up, of the scale.
    pub log_scale: u32,
    /// Bits of each special prime.
    pub log_p: &'static [u32],
    /// What it claims.
    pub security: Security,
}

/// K ≤ 4: 17 levels of 32 bits. log₂(QP) = 824.9 at N = 2¹⁵, where 868 are allowed, and 825 against quantum
/// computers (128 bits, ePrint 2024/463, the quantum column of its generated tables).
pub const LOGN15_LOGQP825_DEPTH17: ParamsSpec = ParamsSpec {
    name: "logn15-logqp825-depth17",
    log_n: 15,
    log_q0: 41,
    depth: 17,
    log_scale: 32,
    log_p: &[48, 48, 48, 48, 48],
    security: Security::Classical128,
};

/// K ≤ 8: 18 levels of 32 bits. log₂(QP) = 858 at N = 2¹⁵, where 868 are allowed.
pub const LOGN15_LOGQP858_DEPTH18: ParamsSpec =
    ParamsSpec { name: "logn15-logqp858-depth18", log_q0: 42, depth: 18, ..LOGN15_LOGQP825_DEPTH17 };

/// K ≤ 16: 19 levels of 32 bits. log₂(QP) = 842 at N = 2¹⁵, where 868 are allowed.
pub const LOGN15_LOGQP842_DEPTH19: ParamsSpec = ParamsSpec {
    name: "logn15-logqp842-depth19",
    depth: 19,
    log_p: &[48, 48, 48, 48],
    ..LOGN15_LOGQP858_DEPTH18
};

/// K ≤ 32, and finer comparisons: 21 levels of 32 bits. log₂(QP) = 858 at N = 2¹⁵, where 868 are allowed.
pub const LOGN15_LOGQP858_DEPTH21: ParamsSpec = ParamsSpec {
    name: "logn15-logqp858-depth21",
    log_n: 15,
    log_q0: 42,
    depth: 21,
    log_scale: 32,
    log_p: &[48, 48, 48],
    security: Security::Classical128,
};

/// For the finest comparisons and many arms: 23 levels of 30 bits. log₂(QP) = 866 at N = 2¹⁵, where 868 are allowed.
pub const LOGN15_LOGQP866_DEPTH23: ParamsSpec = ParamsSpec {
    name: "logn15-logqp866-depth23",
    log_n: 15,
    log_q0: 40,
    depth: 23,
    log_scale: 30,
    log_p: &[46, 45, 45],
    security: Security::Classical128,
};

/// K ≤ 64, twice the slots: 22 levels of 32 bits. log₂(QP) = 1130 at N = 2¹⁶, where 1747 are allowed.
pub const LOGN16_LOGQP1130_DEPTH22: ParamsSpec = ParamsSpec {
    name: "logn16-logqp1130-depth22",
    log_n: 16,
    depth: 22,
    log_p: &[48, 48, 48, 48, 48, 48, 48, 48],
    ..LOGN15_LOGQP858_DEPTH18
};

/// Tests only: the chain of [`LOGN15_LOGQP858_DEPTH21`] in a ring far too small for it. No security.
pub const TOY_LOGN12_DEPTH21: ParamsSpec =
    ParamsSpec { name: "toy-logn12-depth21", log_n: 12, security: Security::None, ..LOGN15_LOGQP858_DEPTH21 };

/// Tests only: the chain of [`LOGN16_LOGQP1130_DEPTH22`], likewise. No security.
pub const TOY_LOGN14_DEPTH22: ParamsSpec = ParamsSpec {
    name: "toy-logn14-depth22",
    log_n: 14,
    security: Security::None,
    ..LOGN16_LOGQP1130_DEPTH22
};

impl ParamsSpec {
    /// The sets that have a name.
    pub fn named() -> &'static [ParamsSpec] {
        &[
            LOGN15_LOGQP825_DEPTH17,
            LOGN15_LOGQP858_DEPTH18,
            LOGN15_LOGQP842_DEPTH19,
            LOGN15_LOGQP858_DEPTH21,
            LOGN15_LOGQP866_DEPTH23,
            LOGN16_LOGQP1130_DEPTH22,
            TOY_LOGN12_DEPTH21,
            TOY_LOGN14_DEPTH22,
        ]
    }

    /// The set called `name`.
    pub fn by_name(name: &str) -> Option<ParamsSpec> {
        Self::named().iter().find(|s| s.name == name).copied()
    }

    /// Finds the primes, checks the claim against the published table, and builds every table.
    ///
    /// # Errors
    /// [`Error::Insecure`] if log₂(QP) is above the table's row, [`Error::BadParams`] if the shape makes no
    /// sense, [`Error::Rns`] if there are not enough primes.
    pub fn validate(self) -> Result<Params, Error> {
        Params::new(self)
    }
}

/// The first 16 bytes of the BLAKE3 hash of everything two parties must agree on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 16]);

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Validated parameters: immutable, cheap to clone, checked once.
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
    /// P modulo each q.
    p_mod_q: Vec<rns::Constant>,
    imaginary_unit: Poly<Ntt>,
    encoder: Encoder,
    permutations: Mutex<BTreeMap<u64, Arc<Permutation>>>,
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

/// Δ as part of 2^log_scale: so far below that the primes on either side of it have log_scale bits, and those of 32 take
/// four bytes in memory.
const BELOW: f64 = 1.0 - 1.0 / 256.0;

impl Params {
    fn new(spec: ParamsSpec) -> Result<Self, Error> {
        let ParamsSpec { log_n, log_q0, depth, log_scale, log_p, security, .. } = spec;
        let bad = |why: String| Err(Error::BadParams(why));
        if !(10..=16).contains(&log_n) {
            return bad(format!("log_n = {log_n} is not between 10 and 16"));
        }
        if log_p.is_empty()
            || log_p.iter().chain([&log_q0, &log_scale]).any(|&b| !(20..=Modulus::MAX_BITS).contains(&b))
        {
            return bad("every prime must have 20 to 50 bits, and there must be a special prime".into());
        }
        if depth == 0 || depth > 100 {
            return bad(format!("depth {depth} is not between 1 and 100"));
        }
        if log_q0 < log_scale + 2 {
            return bad(format!("q0 of {log_q0} bits leaves no room for a message at scale 2^{log_scale}"));
        }
        let (n, two_n) = (1usize << log_n, 2u64 << log_n);
        let mut used = vec![primes::largest(log_q0, two_n, &[])?];
        for &bits in log_p {
            used.push(primes::largest(bits, two_n, &used)?);
        }
        let special: Vec<u64> = used.split_off(1);
        // From the top down, each prime is the unused one nearest to scale²/Δ: then the next scale, scale²/q,
        // stays near Δ, and rounding of the primes does not pile up.
        let delta = f64::from(log_scale).exp2() * BELOW;
        let mut scales = vec![0.0; depth + 1];
        let mut chain = vec![0u64; depth + 1];
        chain[0] = used[0];
        scales[depth] = delta;
        let mut taken: Vec<u64> = used.iter().chain(&special).copied().collect();
        for level in (1..=depth).rev() {
            let target = scales[level] * scales[level] / delta;
            let q = primes::nearest(target, two_n, &taken)?;
            taken.push(q);
            chain[level] = q;
            scales[level - 1] = scales[level] * scales[level] / q as f64;
        }
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
        let table = |q: &u64| NttTable::new(log_n, *q).map(Arc::new);
        let q_tables: Vec<Arc<NttTable>> = chain.iter().map(table).collect::<Result<_, _>>()?;
        let p_tables: Vec<Arc<NttTable>> = special.iter().map(table).collect::<Result<_, _>>()?;
        let basis = |tables: Vec<Arc<NttTable>>| Basis::new(n, tables);
        let q: Vec<Basis> = (0..=depth).map(|l| basis(q_tables[..=l].to_vec())).collect();
        let qp: Vec<Basis> =
            (0..=depth).map(|l| basis(q_tables[..=l].iter().chain(&p_tables).cloned().collect())).collect();
        let p = basis(p_tables.clone());
        let full = &qp[depth];

        // A rotation ends with a division by P, a product with one by P and the prime of its level.
        let least = chain[1..].iter().min().map_or(0.0, |&q| (q as f64).log2());
        let gadget = |room: f64| {
            Gadget::new(&q, full, room).ok_or_else(|| {
                Error::BadParams(format!("special primes of {:.0} bits leave no room for digits", p.log2()))
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

        let mut hash = blake3::Hasher::new();
        hash.update(b"ckks parameters v2");
        for x in [u64::from(log_n), depth as u64, u64::from(log_scale), u64::from(security.bits())] {
            hash.update(&x.to_le_bytes());
        }
        for q in chain.iter().chain(&special) {
            hash.update(&q.to_le_bytes());
        }
        hash.update(&rns::sample::SIGMA.to_le_bytes());
        for gadget in [&galois_gadget, &relin_gadget] {
            gadget.cut().words().iter().for_each(|x| {
                hash.update(&x.to_le_bytes());
            });
        }
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&hash.finalize().as_bytes()[..16]);

        Ok(Params(Arc::new(Inner {
            spec,
            fingerprint: Fingerprint(fingerprint),
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

    /// As written.
    pub fn spec(&self) -> &ParamsSpec {
        &self.0.spec
    }

    /// What two parties compare.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint
    }

    /// Ring degree N.
    pub fn n(&self) -> usize {
        1 << self.0.spec.log_n
    }

    /// N/2, the most complex values a ciphertext holds.
    pub fn max_slots(&self) -> usize {
        self.n() / 2
    }

    /// The highest level.
    pub fn max_level(&self) -> usize {
        self.0.spec.depth
    }

    /// The canonical scale of `level`: Δ at the top, then scale(l − 1) = scale(l)²/q_l.
    pub fn scale(&self, level: usize) -> f64 {
        self.0.scales[level]
    }

    pub(crate) fn check_level(&self, op: Op, level: usize) -> Result<(), Error> {
        match self.max_level() {
            top if level > top => Err(Error::OutOfLevels { op, need: level, have: top }),
            _ => Ok(()),
        }
    }

    /// log₂ of the widest modulus anything is encrypted under.
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

    /// The prime a product at `level` is divided by.
    pub fn prime(&self, level: usize) -> u64 {
        self.0.q[level].modulus(level).value()
    }

    /// The digits of rotations and conjugation.
    pub fn galois_gadget(&self) -> &Gadget {
        &self.0.galois_gadget
    }

    /// The digits of products. They may be larger: what they add is divided by the prime of the level as well.
    pub fn relin_gadget(&self) -> &Gadget {
        &self.0.relin_gadget
    }

    /// P modulo each prime of the chain.
    pub fn p_constants(&self) -> &[rns::Constant] {
        &self.0.p_mod_q
    }

    /// Slots ↔ coefficients.
    pub fn encoder(&self) -> &Encoder {
        &self.0.encoder
    }

    /// Standard deviation, in a slot and at scale 1, of the error that one rescaling or key switch adds:
    /// the rounding of two polynomials, one of them times a ternary secret, √(N/18)·√N.
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

    /// The permutation of values under X → X^`element`, an odd number, made once.
    pub fn permutation(&self, element: u64) -> Arc<Permutation> {
        let mut cache = self.0.permutations.lock().unwrap_or_else(|e| e.into_inner());
        cache
            .entry(element)
            .or_insert_with(|| Arc::new(Permutation::of_automorphism(self.0.spec.log_n, element)))
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_sets_keep_their_promise() {
        for spec in ParamsSpec::named() {
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

    /// 825 bits at N = 2¹⁵: the quantum column's value in the generated tables of ePrint 2024/463.
    #[test]
    fn the_default_set_keeps_the_quantum_column() {
        assert!(LOGN15_LOGQP825_DEPTH17.validate().unwrap().log_qp() <= 825.0);
        assert!(ParamsSpec { log_q0: 42, ..LOGN15_LOGQP825_DEPTH17 }.validate().unwrap().log_qp() > 825.0);
    }

    /// The parameters the paper reports (N = 2¹⁶, 50-bit scale, log₂ q = 4982) are refused.
    #[test]
    fn the_papers_own_set_is_refused() {
        let spec = ParamsSpec {
            name: "paper",
            log_n: 16,
            log_q0: 50,
            depth: 60,
            log_scale: 48,
            log_p: &[50],
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
