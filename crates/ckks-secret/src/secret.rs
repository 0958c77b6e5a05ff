use crate::Error;
use ckks::{FrameHeader, FrameKind, KeyId, Params};
use rand::CryptoRng;
use rns::{Ntt, Poly, sample};
use zeroize::{Zeroize, Zeroizing};

const HEADER: FrameHeader =
    FrameHeader { kind: FrameKind::SecretKey, level: 0, parts: 1, element: 0, scale: 0.0 };

/// A uniform ternary secret. No Debug, Clone, Serialize or PartialEq; zeroed on drop.
pub struct SecretKey {
    params: Params,
    coefficients: Vec<i64>,
    /// Over the primes of QP at the top level.
    values: Poly<Ntt>,
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.coefficients.zeroize();
        self.values.zeroize();
    }
}

impl SecretKey {
    /// A fresh secret.
    pub fn generate<R: CryptoRng>(params: &Params, rng: &mut R) -> Self {
        Self::from_coefficients(params, sample::ternary(params.n(), rng))
    }

    fn from_coefficients(params: &Params, coefficients: Vec<i64>) -> Self {
        let basis = params.qp_basis(params.max_level());
        let values = Poly::from_signed(basis, &coefficients).into_ntt(basis);
        SecretKey { params: params.clone(), coefficients, values }
    }

    /// The parameters it belongs to.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// s over the primes of QP, in the order of the top level.
    pub(crate) fn values(&self) -> &Poly<Ntt> {
        &self.values
    }

    /// s over the primes of QP at `level`.
    pub(crate) fn values_qp(&self, level: usize) -> Zeroizing<Poly<Ntt>> {
        let (n, top) = (self.params.n(), self.params.max_level());
        let special = &self.values.data()[(top + 1) * n..];
        let mut out = Poly::scratch(n, level + 1 + special.len() / n);
        out.for_each_limb(|i, limb| {
            let from =
                if i <= level { &self.values.data()[i * n..] } else { &special[(i - level - 1) * n..] };
            limb.copy_from_slice(&from[..n]);
        });
        Zeroizing::new(out)
    }

    /// The frame a secret bundle holds: two bits a coefficient. Zero it after use.
    pub fn to_bytes(&self, id: KeyId) -> Zeroizing<Vec<u8>> {
        ckks::write_frame(&self.params, id, HEADER, self.coefficients.len() / 4, |out| {
            out.extend(
                self.coefficients.chunks_exact(4).map(|c| {
                    c.iter().enumerate().fold(0u8, |byte, (i, &x)| byte | ((x + 1) as u8) << (2 * i))
                }),
            );
        })
        .into()
    }

    /// Reads what [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Error::Ckks`] for a frame that is not one of these parameters, [`Error::BadSecretKey`] for its content.
    pub fn from_bytes(params: &Params, bytes: &[u8]) -> Result<(Self, KeyId), Error> {
        let (header, id, payload) = ckks::read_frame(params, None, &[FrameKind::SecretKey], bytes)?;
        // By bits: a scale of −0 is not what we write.
        if header != HEADER || header.scale.to_bits() != 0 {
            return Err(Error::BadSecretKey("a header field does not belong to a secret key"));
        }
        if payload.len() * 4 != params.n() {
            return Err(Error::BadSecretKey("the length does not follow from the ring degree"));
        }
        // All room at once: a vector that grows leaves what it held behind.
        let mut coefficients = Zeroizing::new(Vec::with_capacity(params.n()));
        for &b in payload {
            coefficients.extend((0..4).map(|i| i64::from(b >> (2 * i) & 3) - 1));
        }
        if coefficients.iter().any(|&c| c > 1) {
            return Err(Error::BadSecretKey("a coefficient is not -1, 0 or 1"));
        }
        Ok((Self::from_coefficients(params, std::mem::take(&mut *coefficients)), id))
    }
}
