use crate::{Dealt, Error, PairKeys, Smudge, dealing};
use ckks::{KeySwitchKey, Params, PublicKey};
use ckks_shares::{
    ActiveSet, Forms, KeyLabel, OpeningShare, Quorum, RangeCheck, RequestId, RequestKind, RotationShare,
    SessionId, Transfer, TransferShare,
};
use rand::{CryptoRng, Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rns::{Ntt, Poly, sample};
use zeroize::{Zeroize, Zeroizing};

/// The share σⱼ of one member of the secret of one ring, modulo QP at the top level.
pub struct MemberShare {
    params: Params,
    quorum: Quorum,
    member: u8,
    values: Poly<Ntt>,
    /// The key that masks and errors of answers derive from, together with the request.
    own: [u8; 32],
}

impl Drop for MemberShare {
    fn drop(&mut self) {
        self.values.zeroize();
        self.own.zeroize();
    }
}

impl MemberShare {
    /// The share of `member` from the values that all n members dealt to it.
    ///
    /// # Errors
    /// [`Error::Dealt`] unless there are n.
    pub fn new<R: CryptoRng>(
        params: &Params,
        quorum: Quorum,
        member: u8,
        dealt: &[Dealt],
        rng: &mut R,
    ) -> Result<Self, Error> {
        Self::from_dealt(params, quorum, member, quorum.members().into(), dealt, rng)
    }

    /// Hands the share on to the members of `next`: deals λⱼσⱼ by a fresh polynomial, as one of `dealers`,
    /// who are t. The sum of what all of them deal to a member is its share of the same secret
    /// ([`Self::reshared`]).
    ///
    /// # Errors
    /// [`Error::NotAsked`].
    pub fn deal<R: CryptoRng>(
        &self,
        dealers: ActiveSet,
        next: Quorum,
        rng: &mut R,
    ) -> Result<Vec<Dealt>, Error> {
        if !dealers.contains(self.member) || dealers.len() != usize::from(self.quorum.threshold()) {
            return Err(Error::NotAsked { member: self.member });
        }
        let mut weighted = Zeroizing::new(self.values.clone());
        let basis = self.params.qp_basis(self.params.max_level());
        weighted.mul_residues_assign(basis, |m| dealers.lagrange(self.member, m));
        Ok(dealing::share_out(&self.params, &weighted, next, rng))
    }

    /// The share of `member` of `quorum`, from what each of `dealers` dealt to it ([`Self::deal`]).
    ///
    /// # Errors
    /// [`Error::Dealt`] unless there is one value of each.
    pub fn reshared<R: CryptoRng>(
        params: &Params,
        quorum: Quorum,
        member: u8,
        dealers: ActiveSet,
        dealt: &[Dealt],
        rng: &mut R,
    ) -> Result<Self, Error> {
        Self::from_dealt(params, quorum, member, dealers.len(), dealt, rng)
    }

    fn from_dealt<R: CryptoRng>(
        params: &Params,
        quorum: Quorum,
        member: u8,
        want: usize,
        dealt: &[Dealt],
        rng: &mut R,
    ) -> Result<Self, Error> {
        if dealt.len() != want {
            return Err(Error::Dealt { member, got: dealt.len(), want });
        }
        let (values, own) = (dealing::sum(params, dealt), sample::seed(rng));
        Ok(MemberShare { params: params.clone(), quorum, member, values, own })
    }

    /// Bytes of [`Self::write`].
    pub fn bytes(params: &Params) -> usize {
        32 + Dealt::bytes(params)
    }

    /// Appends the share to `out`, to be stored where only its owner reads.
    pub fn write(&self, out: &mut Zeroizing<Vec<u8>>) {
        // Reserved at once, because a vector that grows leaves copies behind.
        out.reserve_exact(Self::bytes(&self.params));
        out.extend(self.own);
        ckks::pack_residues(out, self.params.qp_basis(self.params.max_level()), &self.values);
    }

    /// Reads the bytes of [`Self::write`].
    ///
    /// # Errors
    /// [`Error::Ckks`] for another length, or a residue that is too large.
    pub fn read(params: &Params, quorum: Quorum, member: u8, bytes: &[u8]) -> Result<Self, Error> {
        let short = ckks::Error::BadFrame("it is too short for a share");
        let (own, values) = bytes.split_first_chunk::<32>().ok_or(short)?;
        let values = ckks::unpack_residues(values, params.qp_basis(params.max_level()))?;
        Ok(MemberShare { params: params.clone(), quorum, member, values, own: *own })
    }

    /// The parameters of the ring.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The number of the member.
    pub fn member(&self) -> u8 {
        self.member
    }

    /// σⱼ modulo QP at the top level.
    #[cfg(test)]
    pub(crate) fn values(&self) -> &Poly<Ntt> {
        &self.values
    }

    /// λⱼσⱼ modulo the primes of Q at `level`. It must not leave without a zero share.
    fn weighted(&self, set: ActiveSet, level: usize) -> Zeroizing<Poly<Ntt>> {
        let mut out = Zeroizing::new(self.values.truncated(level + 1));
        let basis = self.params.q_basis(level);
        out.mul_residues_assign(basis, |m| set.lagrange(self.member, m));
        out
    }

    /// The generator of everything that an answer draws: it depends on the request and a key of the member,
    /// so that the same request gets the same answer and no error is ever averaged away.
    pub(crate) fn generator(&self, request: &RequestId) -> ChaCha20Rng {
        let mut hash = blake3::Hasher::new_keyed(&self.own);
        hash.update(b"answer").update(request.bytes());
        let mut seed = *hash.finalize().as_bytes();
        let rng = ChaCha20Rng::from_seed(seed);
        seed.zeroize();
        rng
    }

    /// The share of the relinearisation key at the top level: λⱼ·(w_d·σⱼ² − a_d·σⱼ) + e + ζⱼ for each digit
    /// d, with the weights of all n members. Their sum is w_d·s² − a_d·s + Σ e, because the σⱼ² lie on a
    /// polynomial of degree 2t − 2 < n.
    ///
    /// # Errors
    /// [`Error::PairKey`].
    pub fn relinearisation_key(&self, pairs: &PairKeys, session: SessionId) -> Result<KeySwitchKey, Error> {
        let (params, gadget, everybody) = (&self.params, self.params.relin_gadget(), self.quorum.everybody());
        let level = params.max_level();
        let basis = params.qp_basis(level);
        let seed = session.seed(params, KeyLabel::Relinearisation);
        let request = RequestId::new(RequestKind::RelinearisationKey, everybody, &seed, None);
        let mut rng = self.generator(&request);
        let mut linear = Zeroizing::new(self.values.clone());
        linear.mul_residues_assign(basis, |m| everybody.lagrange(self.member, m));
        let square = Zeroizing::new(linear.mul(basis, &self.values));
        let digit = |j: usize| {
            let mut b =
                ckks_secret::switch_key_digit(params, gadget, [&square, &linear], level, j, &seed, &mut rng);
            b.add_assign(basis, &*pairs.zero_share(basis, everybody, &request, j as u32)?);
            Ok(b)
        };
        let b = (0..gadget.digits(level)).map(digit).collect::<Result<_, Error>>()?;
        Ok(KeySwitchKey::new(params, gadget, level, b, seed))
    }

    /// The shares of openings of `forms` of the message under `c1`, by each of `sets`: the test of a key.
    /// Smudging and zero shares of the sets are independent, but all weigh one form of σⱼ·c₁.
    ///
    /// # Errors
    /// As [`Self::transfer`].
    ///
    /// # Panics
    /// If the parameters are not those of the forms.
    pub fn test_key(
        &self,
        pairs: &PairKeys,
        forms: &Forms,
        smudge: Smudge,
        sets: &[ActiveSet],
        header: &[u8],
        c1: &Poly<Ntt>,
    ) -> Result<Vec<OpeningShare>, Error> {
        assert!(*forms.params() == self.params, "a share of the ring of this test");
        let basis = self.params.q_basis(forms.level());
        if c1.n() != basis.n() || c1.limbs() != basis.len() {
            return Err(Error::Foreign { level: forms.level() });
        }
        let own = Zeroizing::new(self.values.truncated(basis.len()));
        let phase = Zeroizing::new(own.mul(basis, c1).into_coeff(basis));
        let unweighted = Zeroizing::new(forms.apply(&phase));
        let share = |&set: &ActiveSet| {
            let request = RequestId::new(RequestKind::KeyTest, set, header, Some(c1));
            let noise = smudge.sample(forms.len(), &mut self.generator(&request));
            let zero = pairs.zero_residues(basis, set, &request, forms.len())?;
            let residue = |f: usize, i: usize| {
                let m = basis.modulus(i);
                let weighted = m.mul(set.lagrange(self.member, m), unweighted[f][i]);
                m.add(m.add(weighted, m.reduce_i128(noise[f])), zero[i][f])
            };
            let residues = |f: usize| (0..basis.len()).map(|i| residue(f, i)).collect();
            Ok(OpeningShare((0..forms.len()).map(residues).collect()))
        };
        sets.iter().map(share).collect()
    }

    /// The share of a transfer of the message under `c1` to the ring of `target`, whose share is of the same
    /// member. `header` is all that the request means besides.
    ///
    /// # Errors
    /// [`Error::NotAsked`], [`Error::PairKey`]; [`Error::Foreign`] unless `c1` is at the level of the source.
    ///
    /// # Panics
    /// If the parameters are not those of the transfer.
    pub fn transfer(
        &self,
        target: &MemberShare,
        pairs: &PairKeys,
        map: &(impl Transfer + ?Sized),
        set: ActiveSet,
        header: &[u8],
        c1: &Poly<Ntt>,
    ) -> Result<TransferShare, Error> {
        let ((source, _), (after, high)) = (map.source(), map.target());
        assert!(*source == self.params && *after == target.params, "shares of the rings of this transfer");
        let to = after.q_basis(high);
        let request = RequestId::new(RequestKind::Transfer, set, header, Some(c1));
        let mut rng = self.generator(&request);

        let (down, mask) = self.masked(pairs, map, &request, set, c1, &mut rng)?;
        let image = Zeroizing::new(map.encode(&mask)?);
        let a = ckks::uniform_c1(after, high, &request.seed());
        let mut up = target.weighted(set, high).mul(to, &a);
        up.neg_assign(to);
        up.add_assign(to, image.poly());
        up.add_assign(to, &*Zeroizing::new(sample::error_poly(to, &mut rng).into_ntt(to)));
        up.add_assign(to, &*pairs.zero_share(to, set, &request, 1)?);
        Ok(TransferShare { down, up })
    }

    /// ⟨w, λⱼσⱼ·c₁⟩ − Mⱼ + ζⱼ of each form, and the masks Mⱼ.
    fn masked(
        &self,
        pairs: &PairKeys,
        map: &(impl Transfer + ?Sized),
        request: &RequestId,
        set: ActiveSet,
        c1: &Poly<Ntt>,
        rng: &mut ChaCha20Rng,
    ) -> Result<(OpeningShare, Zeroizing<Vec<i128>>), Error> {
        let forms = map.forms()?;
        let masks = uniform_masks(map.mask_bound(set.len()), forms.len(), rng);
        let negative = Zeroizing::new(masks.iter().map(|mask| -mask).collect::<Vec<_>>());
        Ok((self.open_under(&negative, pairs, &forms, set, request, c1)?, masks))
    }

    /// The share of a transfer of the message under `c1` to `key` of other members, who have a secret that
    /// this one has no share of. The mask leaves it as an encryption under that key.
    ///
    /// # Errors
    /// As [`Self::transfer`].
    ///
    /// # Panics
    /// If the parameters are not those of the transfer.
    pub fn rotate(
        &self,
        key: &PublicKey,
        pairs: &PairKeys,
        map: &(impl Transfer + ?Sized),
        set: ActiveSet,
        header: &[u8],
        c1: &Poly<Ntt>,
    ) -> Result<RotationShare, Error> {
        let ((source, _), (target, _)) = (map.source(), map.target());
        assert!(*source == self.params, "a share of the ring of this transfer");
        let request = RequestId::new(RequestKind::Rotation, set, header, Some(c1));
        let mut rng = self.generator(&request);
        let (down, mask) = self.masked(pairs, map, &request, set, c1, &mut rng)?;
        let image = Zeroizing::new(map.encode(&mask)?);
        Ok(RotationShare { down, up: ckks::encrypt(target, key, &image, &mut rng) })
    }

    /// The share of an opening of `forms` of the message under `c1`, with smudging of its own.
    ///
    /// # Errors
    /// As [`Self::transfer`].
    ///
    /// # Panics
    /// If the parameters are not those of the forms.
    pub fn open(
        &self,
        pairs: &PairKeys,
        forms: &Forms,
        smudge: Smudge,
        set: ActiveSet,
        header: &[u8],
        c1: &Poly<Ntt>,
    ) -> Result<OpeningShare, Error> {
        let request = RequestId::new(RequestKind::Opening, set, header, Some(c1));
        let noise = smudge.sample(forms.len(), &mut self.generator(&request));
        self.open_under(&noise, pairs, forms, set, &request, c1)
    }

    /// The share of the openings of `check` of the message under `c1`, under masks of its own.
    ///
    /// # Errors
    /// As [`Self::transfer`].
    ///
    /// # Panics
    /// If the parameters are not those of the check.
    pub fn check_range(
        &self,
        pairs: &PairKeys,
        check: &RangeCheck,
        set: ActiveSet,
        header: &[u8],
        c1: &Poly<Ntt>,
    ) -> Result<OpeningShare, Error> {
        let request = RequestId::new(RequestKind::RangeCheck, set, header, Some(c1));
        let (mut rng, bound) = (self.generator(&request), check.mask_bound(set.len()));
        let masks = uniform_masks(bound, check.forms().len(), &mut rng);
        self.open_under(&masks, pairs, check.forms(), set, &request, c1)
    }

    fn open_under(
        &self,
        noise: &[i128],
        pairs: &PairKeys,
        forms: &Forms,
        set: ActiveSet,
        request: &RequestId,
        c1: &Poly<Ntt>,
    ) -> Result<OpeningShare, Error> {
        assert!(*forms.params() == self.params, "a share of the ring of this opening");
        let basis = self.params.q_basis(forms.level());
        if c1.n() != basis.n() || c1.limbs() != basis.len() {
            return Err(Error::Foreign { level: forms.level() });
        }
        let phase = Zeroizing::new(self.weighted(set, forms.level()).mul(basis, c1).into_coeff(basis));
        // The coefficients of a pseudo-random polynomial are as uniform as its values: the first are the zero
        // shares of the forms.
        let zero = pairs.zero_share(basis, set, request, 0)?;
        let mut out = forms.apply(&phase);
        for (f, residues) in out.iter_mut().enumerate() {
            for (i, x) in residues.iter_mut().enumerate() {
                let m = basis.modulus(i);
                *x = m.add(m.add(*x, m.reduce_i128(noise[f])), zero.limb(i)[f]);
            }
        }
        Ok(OpeningShare(out))
    }
}

/// The masks of one member: `count` integers that are uniform in [−bound, bound].
pub(crate) fn uniform_masks(bound: i128, count: usize, rng: &mut ChaCha20Rng) -> Zeroizing<Vec<i128>> {
    let mut out = Zeroizing::new(vec![0; count]);
    out.iter_mut().for_each(|mask| *mask = uniform_within(bound, rng));
    out
}

/// A uniform integer of at most `bound` in size.
fn uniform_within(bound: i128, rng: &mut ChaCha20Rng) -> i128 {
    let unused = (2 * bound as u128).leading_zeros();
    loop {
        // Rejections are independent of what is accepted.
        let word = (u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())) >> unused;
        if word <= 2 * bound as u128 {
            return word as i128 - bound;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Masks at the bounds of transfers and of checks by two and three members: moments, and sixteen parts of
    /// the range, on `n` draws. False alarm below 10⁻⁵ (fixed seeds).
    fn check_masks(n: usize) {
        // In the ring of scores q has 98 bits; sums take 2⁻⁴ and checks a quarter of that.
        let bounds = [96, 92, 94].map(|log| (1i128 << log) - (1 << (log - 10)));
        for bound in bounds.into_iter().flat_map(|bound| [bound / 2, bound / 3]).chain([1, 5]) {
            let mut rng = ChaCha20Rng::seed_from_u64(bound as u64);
            let (mut sums, mut parts) = ([0.0f64; 5], [0.0f64; 16]);
            for _ in 0..n {
                let mask = uniform_within(bound, &mut rng);
                assert!((-bound..=bound).contains(&mask));
                let x = mask as f64 / bound as f64;
                (1..=4).for_each(|p| sums[p as usize] += x.powi(p));
                let width = (2 * bound + 1) as f64 / 16.0;
                parts[(((mask + bound) as f64 + 0.5) / width).min(15.0) as usize] += 1.0;
            }
            if bound < 16 {
                continue;
            }
            let near = |p: usize, want: f64, variance: f64| {
                let got = sums[p] / n as f64;
                assert!((got - want).abs() < 6.0 * (variance / n as f64).sqrt(), "moment {p}: {got}");
            };
            near(1, 0.0, 1.0 / 3.0);
            near(2, 1.0 / 3.0, 4.0 / 45.0);
            near(3, 0.0, 1.0 / 7.0);
            near(4, 1.0 / 5.0, 16.0 / 225.0);
            let want = n as f64 / 16.0;
            let chi2: f64 = parts.iter().map(|count| (count - want).powi(2) / want).sum();
            // The 1 − 10⁻⁶ quantile with 15 degrees of freedom.
            assert!(chi2 < 55.0, "{bound}: {chi2}");
        }
    }

    #[test]
    fn masks_are_uniform() {
        check_masks(100_000);
    }

    #[test]
    #[ignore = "ten million draws"]
    fn ten_million_masks_are_uniform() {
        check_masks(10_000_000);
    }
}
