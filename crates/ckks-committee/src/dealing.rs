use ckks::Params;
use ckks_secret::SecretKey;
use ckks_shares::Quorum;
use rand::CryptoRng;
use rns::{Ntt, Poly, sample};
use zeroize::{Zeroize, Zeroizing};

/// The value of one member's polynomial at the point of another, modulo QP. It belongs to the receiver alone.
pub struct Dealt {
    values: Poly<Ntt>,
}

impl Drop for Dealt {
    fn drop(&mut self) {
        self.values.zeroize();
    }
}

impl Dealt {
    /// Bytes of [`Self::write`].
    pub fn bytes(params: &Params) -> usize {
        ckks::residue_bytes(params.qp_basis(params.max_level()))
    }

    /// Appends the value to `out`, which is to be sealed to its receiver.
    pub fn write(&self, params: &Params, out: &mut Zeroizing<Vec<u8>>) {
        // Reserved at once, because a vector that grows leaves copies behind.
        out.reserve_exact(Self::bytes(params));
        ckks::pack_residues(out, params.qp_basis(params.max_level()), &self.values);
    }

    /// Reads the bytes of [`Self::write`].
    ///
    /// # Errors
    /// [`ckks::Error`] for another length, or a residue that is too large.
    pub fn read(params: &Params, bytes: &[u8]) -> Result<Self, ckks::Error> {
        let values = ckks::unpack_residues(bytes, params.qp_basis(params.max_level()))?;
        Ok(Dealt { values })
    }

    pub(crate) fn values(&self) -> &Poly<Ntt> {
        &self.values
    }
}

/// Shares `secret` among the members of `quorum`, under the parameters of the secret: entry k − 1 is f(k) of
/// f(X) = s + r₁·X + … + r_{t−1}·X^(t − 1), where each rᵢ is uniform modulo QP at the top level.
pub fn deal<R: CryptoRng>(secret: &SecretKey, quorum: Quorum, rng: &mut R) -> Vec<Dealt> {
    let params = secret.params();
    share_out(params, &secret.values_qp(params.max_level()), quorum, rng)
}

/// The values at 1..n of a random polynomial of degree t − 1 whose value at 0 is `constant`.
pub(crate) fn share_out<R: CryptoRng>(
    params: &Params,
    constant: &Poly<Ntt>,
    quorum: Quorum,
    rng: &mut R,
) -> Vec<Dealt> {
    let basis = params.qp_basis(params.max_level());
    let random: Vec<_> =
        (1..quorum.threshold()).map(|_| Zeroizing::new(sample::uniform(basis, rng))).collect();
    let at = |point: u8| {
        // Horner's rule, from the highest coefficient down.
        let mut values = Poly::zero(params.n(), basis.len());
        for coefficient in random.iter().rev().map(|r| &**r).chain([constant]) {
            values.mul_integer_assign(basis, point.into());
            values.add_assign(basis, coefficient);
        }
        Dealt { values }
    };
    (1..=quorum.members()).map(at).collect()
}

/// The sum of values that were dealt to one member.
pub(crate) fn sum(params: &Params, dealt: &[Dealt]) -> Poly<Ntt> {
    let basis = params.qp_basis(params.max_level());
    let mut out = Poly::zero(params.n(), basis.len());
    dealt.iter().for_each(|value| out.add_assign(basis, value.values()));
    out
}
