//! Attacks on single shares, which need what no member hands out. Those on sums are in `tests/all`.

use crate::{MemberShare, PairKeys, PairSecret, Smudge, deal};
use ckks::{Ciphertext, Params, Plaintext, PublicKey, Refresh, TOY_LOGN11_SCORES};
use ckks_secret::SecretKey;
use ckks_shares::{
    ActiveSet, Forms, KeyLabel, PublicKeySum, Quorum, RequestId, RequestKind, SessionId, Transfer, open,
    rotate,
};
use num_complex::Complex64;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rns::{Basis, Coeff, Ntt, Poly};

struct Committee {
    params: Params,
    secrets: Vec<SecretKey>,
    shares: Vec<MemberShare>,
    pairs: Vec<PairKeys>,
}

fn committee(quorum: Quorum) -> Committee {
    committee_from(quorum, 1)
}

fn committee_from(quorum: Quorum, seed: u64) -> Committee {
    let (params, mut rng) = (TOY_LOGN11_SCORES.validate().unwrap(), ChaCha20Rng::seed_from_u64(seed));
    let members = 1..=quorum.members();
    let secrets: Vec<_> = members.clone().map(|_| SecretKey::generate(&params, &mut rng)).collect();
    let mut dealt: Vec<_> = secrets.iter().map(|s| deal(s, quorum, &mut rng).into_iter()).collect();
    let share = |j| {
        let mine: Vec<_> = dealt.iter_mut().map(|values| values.next().unwrap()).collect();
        MemberShare::new(&params, quorum, j, &mine, &mut ChaCha20Rng::seed_from_u64(j.into())).unwrap()
    };
    let shares = members.clone().map(share).collect();
    let secret = |from: u8, to: u8| PairSecret::from_bytes(&[16 * from + to; 32]);
    let keys = |own: u8| {
        let mut keys = PairKeys::new(own);
        let others = (1..=quorum.members()).filter(|&k| k != own);
        others.for_each(|k| keys.insert(k, &secret(own, k), &secret(k, own)));
        keys
    };
    Committee { shares, pairs: members.map(keys).collect(), secrets, params }
}

impl Committee {
    fn whole(&self) -> Poly<Ntt> {
        let basis = self.params.q_basis(0);
        let mut sum = Poly::zero(self.params.n(), 1);
        self.secrets.iter().for_each(|s| sum.add_assign(basis, &s.values_qp(0)));
        sum
    }

    /// A public key of s = Σ sᵢ.
    fn public_key(&self) -> PublicKey {
        let session = SessionId([9; 32]);
        let mut sum = PublicKeySum::new(&self.params, session);
        let seed = session.seed(&self.params, KeyLabel::Public);
        for (secret, i) in self.secrets.iter().zip(1..) {
            let key = ckks_secret::public_key_from(secret, seed, &mut ChaCha20Rng::seed_from_u64(i));
            sum.add(&key).unwrap();
        }
        sum.finish(Quorum::new(3, 5).unwrap()).unwrap()
    }

    fn share(&self, j: u8) -> &MemberShare {
        &self.shares[usize::from(j - 1)]
    }

    /// A ciphertext at level 0 under s = Σ sᵢ.
    fn ciphertext(&self, value: f64) -> Ciphertext {
        let (params, mut rng) = (&self.params, ChaCha20Rng::seed_from_u64(7));
        let basis = params.q_basis(0);
        let message = Plaintext::encode_at(params, &[Complex64::from(value)], 0, 32f64.exp2()).unwrap();
        let c1 = rns::sample::uniform(basis, &mut rng);
        let mut c0 = c1.mul(basis, &self.whole());
        c0.neg_assign(basis);
        c0.add_assign(basis, message.poly());
        c0.add_assign(basis, &rns::sample::error_poly(basis, &mut rng).into_ntt(basis));
        Ciphertext::new(c0, c1, 0, message.scale())
    }

    /// Every single coefficient of the message under `ct`, opened with this smudging.
    fn open_all(&self, ct: &Ciphertext, smudge: Smudge, set: ActiveSet) -> Vec<i128> {
        let n = self.params.n();
        // Each coefficient is a request of its own, as K of them are in an answer.
        let units = (0..n).map(|k| (0..n).map(|i| i32::from(i == k)).collect()).collect();
        let forms = Forms::new(&self.params, 0, units).unwrap();
        let share = |j: u8| {
            let pairs = &self.pairs[usize::from(j - 1)];
            self.share(j).open(pairs, &forms, smudge, set, b"", ct.c1()).unwrap()
        };
        open(&self.params, 0, set, &forms.values(ct).unwrap(), &set.iter().map(share).collect::<Vec<_>>())
            .unwrap()
    }
}

/// Whoever has a ciphertext and its exact decryption solves c₀ + c₁·s = m + e for s (Li and Micciancio 2021).
/// With smudging the same equations have another solution.
#[test]
fn attack_lm21_finds_the_key_only_without_smudging() {
    let quorum = Quorum::new(2, 3).unwrap();
    let committee = committee(quorum);
    let (ct, set) = (committee.ciphertext(0.75), quorum.active(&[1, 3]).unwrap());
    let basis = committee.params.q_basis(0);
    let m = basis.modulus(0);
    let solved = |smudge| {
        let opened = committee.open_all(&ct, smudge, set);
        let mut phase = rns::Poly::<rns::Coeff>::zero(committee.params.n(), 1);
        phase.for_each_limb(|_, limb| {
            limb.iter_mut().zip(&opened).for_each(|(x, v)| *x = m.reduce_i128(*v));
        });
        let mut s = phase.into_ntt(basis);
        s.sub_assign(basis, ct.c0());
        s.for_each_limb(|_, limb| {
            limb.iter_mut().zip(ct.c1().limb(0)).for_each(|(x, a)| *x = m.mul(*x, m.inv(*a)));
        });
        s == committee.whole()
    };
    assert!(solved(Smudge::none()), "the control");
    assert!(!solved(Smudge::at_least(2f64.powi(25))));
}

/// One member opens one ciphertext for two sets. λ of member 3 is 1 in {1, 2, 3} and −8 in {2, 3, 4}, so that
/// without zero shares v₁ = x + y₁ and v₂ = −8x + y₂: v₁ less an eighth of 8·v₁ + v₂ is x with an eighth of
/// the smudging. With zero shares nothing of x is left.
#[test]
fn attack_two_sets_leave_less_smudging_only_without_zero_shares() {
    let quorum = Quorum::new(3, 5).unwrap();
    let committee = committee(quorum);
    let ct = committee.ciphertext(0.5);
    let (params, basis) = (&committee.params, committee.params.q_basis(0));
    let m = basis.modulus(0);
    let units = (0..params.n()).map(|k| (0..params.n()).map(|i| i32::from(i == k)).collect()).collect();
    let (forms, smudge) = (Forms::new(params, 0, units).unwrap(), Smudge::at_least(2f64.powi(30)));
    let (share, pairs) = (committee.share(3), &committee.pairs[2]);
    let [first, second] = [[1, 2, 3], [2, 3, 4]].map(|set| quorum.active(&set).unwrap());
    let answer = |set, smudge, zero_share: bool| -> Vec<u64> {
        let answer = share.open(pairs, &forms, smudge, set, b"", ct.c1()).unwrap();
        let request = RequestId::new(RequestKind::Opening, set, b"", Some(ct.c1()));
        let zero = pairs.zero_share(basis, set, &request, 0).unwrap();
        let taken = |k: usize| if zero_share { 0 } else { zero.limb(0)[k] };
        answer.0.iter().enumerate().map(|(k, x)| m.sub(x[0], taken(k))).collect()
    };
    let x = answer(first, Smudge::none(), false);
    let left = |zero_shares: bool| {
        let [v1, v2] = [first, second].map(|set| answer(set, smudge, zero_shares));
        let error = |k: usize| {
            let both = m.centered(m.add(m.mul(8, v1[k]), v2[k])) as f64;
            m.centered(m.sub(v1[k], x[k])) as f64 - both / 8.0
        };
        ((0..params.n()).map(|k| error(k).powi(2)).sum::<f64>() / params.n() as f64).sqrt()
    };
    let eighth = smudge.deviation() / 8.0;
    assert!((left(false) / eighth - 1.0).abs() < 0.1, "the control: {} for {eighth}", left(false));
    assert!(left(true) > smudge.deviation(), "{}", left(true));
}

/// t − 1 shares fit every secret: for each there is exactly one polynomial of degree t − 1 through them. What
/// they look like does not depend on the secret either: they are uniform.
#[test]
fn any_secret_fits_the_shares_of_a_minority() {
    let quorum = Quorum::new(3, 5).unwrap();
    let committee = committee(quorum);
    let basis = committee.params.q_basis(0);
    let m = basis.modulus(0);
    let others = SecretKey::generate(&committee.params, &mut ChaCha20Rng::seed_from_u64(9)).values_qp(0);
    let set = quorum.active(&[1, 2, 3]).unwrap();
    let [l1, l2, l3] = [1, 2, 3].map(|j| set.lagrange(j, m));
    let value = |j: u8, k: usize| committee.share(j).values().limb(0)[k];
    for k in 0..committee.params.n() {
        // The share of member 3 that makes members 1 and 2 share another secret.
        let known = m.add(m.mul(l1, value(1, k)), m.mul(l2, value(2, k)));
        let third = m.mul(m.sub(others.limb(0)[k], known), m.inv(l3));
        assert_eq!(m.add(known, m.mul(l3, third)), others.limb(0)[k]);
        let own = m.add(known, m.mul(l3, value(3, k)));
        assert_eq!(own, committee.whole().limb(0)[k], "three shares are the secret");
    }
    for j in 1..=5 {
        let n = committee.params.n();
        let mean = (0..n).map(|k| value(j, k) as f64 / m.value() as f64).sum::<f64>() / n as f64;
        // Six deviations of a mean of uniform numbers.
        assert!((mean - 0.5).abs() < 6.0 / (12.0 * n as f64).sqrt(), "member {j}: {mean}");
    }
}

/// Shares of two epochs are points of two polynomials, which meet at 0 alone: no t of both make the
/// secret, and t new ones do.
#[test]
fn attack_t_minus_one_old_and_t_minus_one_new_shares_do_not_meet() {
    let quorum = Quorum::new(3, 5).unwrap();
    let committee = committee(quorum);
    let (params, basis) = (&committee.params, committee.params.q_basis(0));
    let dealers = quorum.active(&[1, 2, 3]).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(20);
    let dealt: Vec<_> =
        dealers.iter().map(|j| committee.share(j).deal(dealers, quorum, &mut rng).unwrap()).collect();
    let mut dealt: Vec<_> = dealt.into_iter().map(Vec::into_iter).collect();
    let mut renewed = |k: u8| {
        let mine: Vec<_> = dealt.iter_mut().map(|values| values.next().unwrap()).collect();
        MemberShare::reshared(params, quorum, k, dealers, &mine, &mut rng).unwrap()
    };
    let next: Vec<_> = (1..=5).map(&mut renewed).collect();
    let at_zero = |set: ActiveSet, of: &dyn Fn(u8) -> Poly<Ntt>| {
        let mut sum = Poly::zero(params.n(), 1);
        set.iter().for_each(|j| {
            let mut term = of(j).truncated(1);
            term.mul_residues_assign(basis, |m| set.lagrange(j, m));
            sum.add_assign(basis, &term);
        });
        sum
    };
    let (old, new) =
        (|j: u8| committee.share(j).values().clone(), |j: u8| next[usize::from(j) - 1].values().clone());
    for set in quorum.subsets() {
        assert!(at_zero(set, &new) == committee.whole(), "the control: t new shares are the secret");
        // Each choice of members of the set who answer with their old share.
        let members: Vec<u8> = set.iter().collect();
        for choice in 1..7u8 {
            let is_old = |j: u8| choice >> members.iter().position(|k| *k == j).unwrap() & 1 == 1;
            let mixed = at_zero(set, &|j| if is_old(j) { old(j) } else { new(j) });
            let same = mixed.limb(0).iter().zip(committee.whole().limb(0)).filter(|(a, b)| a == b).count();
            assert!(same < 3, "{choice}: {same} values of the secret");
        }
    }
}

/// The coefficients of `poly` as integers in (−q/2, q/2].
fn centred(basis: &Basis, poly: &Poly<Coeff>) -> Vec<i128> {
    let q: i128 = basis.primes().map(i128::from).product();
    let coefficient = |k: usize| {
        let (mut value, mut weight) = (0i128, 1i128);
        for i in 0..basis.len() {
            let m = basis.modulus(i);
            let digit = m.mul(m.sub(poly.limb(i)[k], m.reduce_i128(value)), m.inv(m.reduce_i128(weight)));
            value += weight * i128::from(digit);
            weight *= i128::from(m.value());
        }
        if value > q / 2 { value - q } else { value }
    };
    (0..poly.n()).map(coefficient).collect()
}

/// The server, and t − 1 members of the committee before and after a rotation. They take off the masks that
/// they know of what the server adds up, and weigh what they have of either secret: nothing that they get is
/// near the message. The controls: t members before read the ciphertext that moved, and t after what it
/// became.
#[test]
fn attack_t_minus_one_members_before_and_after_a_rotation_read_nothing() {
    let quorum = Quorum::new(3, 5).unwrap();
    let (old, next) = (committee(quorum), committee_from(quorum, 40));
    let (params, level) = (&old.params, old.params.max_level());
    let basis = params.q_basis(level);
    let honest: Vec<i64> = (0..params.n()).map(|k| ((k * 37 % 1000) as i64 - 500) << 30).collect();
    let message = Plaintext::from_integers(params, &honest, level, params.scale(level)).unwrap();
    let ct = ckks::encrypt(params, &old.public_key(), &message, &mut ChaCha20Rng::seed_from_u64(5));
    let map = Refresh::new(params, level, level, params.max_slots()).unwrap();
    let (set, key) = (quorum.active(&[1, 2, 3]).unwrap(), next.public_key());
    let share = |j: u8| {
        let pairs = &old.pairs[usize::from(j - 1)];
        old.share(j).rotate(&key, pairs, &map, set, b"", ct.c1()).unwrap()
    };
    let shares: Vec<_> = set.iter().map(share).collect();
    let moved = rotate(&map, set, &ct, &shares).unwrap();
    let bits = |values: &[i128]| {
        let sum: f64 = values.iter().map(|v| (*v as f64).powi(2)).sum();
        (sum / values.len() as f64).sqrt().log2()
    };
    let off = |values: Vec<i128>| {
        bits(&values.iter().zip(&honest).map(|(a, b)| a - i128::from(*b)).collect::<Vec<_>>())
    };
    let phase = |ct: &Ciphertext, committee: &Committee, members: &[u8]| {
        let mut sum = ct.c0().clone();
        for &j in members {
            let mut term = committee.share(j).values().truncated(level + 1);
            term.mul_residues_assign(basis, |m| set.lagrange(j, m));
            sum.add_assign(basis, &term.mul(basis, ct.c1()));
        }
        centred(basis, &sum.into_coeff(basis))
    };
    assert!(off(phase(&ct, &old, &[1, 2, 3])) < 20.0, "the control");
    assert!(off(phase(&moved, &next, &[1, 2, 3])) < 20.0, "the control");
    let wide = params.log_q(level) - 4.0;
    assert!(off(phase(&ct, &old, &[1, 2])) > wide && off(phase(&moved, &next, &[1, 2])) > wide);
    // What the server adds up, with the masks of members 1 and 2: member 3's is left, which is as wide as
    // masks are.
    let (forms, downs) = (map.forms().unwrap(), shares.iter().map(|share| share.down.clone()));
    let downs: Vec<_> = downs.collect();
    let mut seen = ckks_shares::open(params, level, set, &forms.values(&ct).unwrap(), &downs).unwrap();
    let own = RequestId::new(RequestKind::Rotation, set, b"", Some(ct.c1()));
    for j in [1, 2] {
        let mut rng = old.share(j).generator(&own);
        let mask = crate::member::uniform_masks(map.mask_bound(set.len()), forms.len(), &mut rng);
        seen.iter_mut().zip(mask.iter()).for_each(|(v, m)| *v += m);
    }
    let width = (map.mask_bound(set.len()) as f64 / 3f64.sqrt()).log2();
    assert!((off(seen) - width).abs() < 0.1);
}
