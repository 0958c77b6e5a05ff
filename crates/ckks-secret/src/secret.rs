use crate::Error;
use ckks::{FrameHeader, FrameKind, KeyId, Params};
use rand::CryptoRng;
use rns::{Ntt, Poly, sample};
use zeroize::{Zeroize, Zeroizing};

const HEADER: FrameHeader =
    FrameHeader { kind: FrameKind::SecretKey, level: 0, parts: 1, element: 0, scale: 0.0 };

/// A uniform ternary secret key. It has no Debug, Clone, Serialize or PartialEq, and is zeroed when it is
/// dropped.
pub struct SecretKey {
    params: Params,
    coefficients: Vec<i64>,
    /// The values of s modulo the primes of QP at the top level.
    values: Poly<Ntt>,
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.coefficients.zeroize();
        self.values.zeroize();
    }
}

impl SecretKey {
    /// Samples a secret key.
    pub fn generate<R: CryptoRng>(params: &Params, rng: &mut R) -> Self {
        Self::from_coefficients(params, sample::ternary(params.n(), rng))
    }

    fn from_coefficients(params: &Params, coefficients: Vec<i64>) -> Self {
        let basis = params.qp_basis(params.max_level());
        let values = Poly::from_signed(basis, &coefficients).into_ntt(basis);
        SecretKey { params: params.clone(), coefficients, values }
    }

    /// The parameters of the key.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The same secret under the primes of `params`, which have the same ring degree.
    ///
    /// # Panics
    /// If the ring degrees differ.
    pub fn under(&self, params: &Params) -> Self {
        assert_eq!(params.n(), self.params.n(), "one secret has one ring degree");
        Self::from_coefficients(params, self.coefficients.clone())
    }

    /// The coefficients, each −1, 0 or 1.
    pub(crate) fn coefficients(&self) -> &[i64] {
        &self.coefficients
    }

    /// The values of s modulo the primes of QP at the top level.
    pub(crate) fn values(&self) -> &Poly<Ntt> {
        &self.values
    }

    /// The values of s modulo the primes of QP at `level`.
    pub fn values_qp(&self, level: usize) -> Zeroizing<Poly<Ntt>> {
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

    /// The frame of the secret key in a secret bundle, with two bits for each coefficient.
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

    /// Reads the frame that [`Self::to_bytes`] writes, and returns the key with its identifier.
    ///
    /// # Errors
    /// [`Error::Ckks`] if the bytes are no frame of a secret key under these parameters,
    /// [`Error::BadSecretKey`] if a field or coefficient is out of its range.
    pub fn from_bytes(params: &Params, bytes: &[u8]) -> Result<(Self, KeyId), Error> {
        let (header, id, payload) = ckks::read_frame(params, None, &[FrameKind::SecretKey], bytes)?;
        // Compared by bits, because −0 equals 0 but is never written.
        if header != HEADER || header.scale.to_bits() != 0 {
            return Err(Error::BadSecretKey("a header field does not belong to a secret key"));
        }
        if payload.len() * 4 != params.n() {
            return Err(Error::BadSecretKey("its length does not follow from the ring degree"));
        }
        // Reserved at once, because a vector that grows leaves copies behind.
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
