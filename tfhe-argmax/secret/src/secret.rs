use ckks::KeyId;
use tfhe_argmax::Error;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The GLWE secret as a binary LWE secret, which decrypts answers. It has no Debug, Clone or Serialize, and
/// is zeroed on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct LweSecret {
    #[zeroize(skip)]
    id: KeyId,
    /// Each 0 or 1.
    pub(crate) bits: Vec<u32>,
}

impl LweSecret {
    /// The secret with these bits, of the bootstrapping keys `id`.
    pub(crate) fn new(bits: &[u64], id: KeyId) -> Self {
        LweSecret { id, bits: bits.iter().map(|bit| *bit as u32 & 1).collect() }
    }

    /// The fingerprint of the bootstrapping keys.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The phase of a sample modulo 2³², a mask and a body, as a part of the torus in [−½, ½).
    ///
    /// # Errors
    /// [`Error::Length`] for a sample of another dimension.
    pub fn phase(&self, sample: &[u32]) -> Result<f64, Error> {
        let (got, want) = (4 * sample.len(), 4 * (self.bits.len() + 1));
        if got != want {
            return Err(Error::Length { what: "a sample", got, want });
        }
        let (mask, body) = sample.split_at(self.bits.len());
        let product =
            mask.iter().zip(&self.bits).fold(0u32, |sum, (a, s)| sum.wrapping_add(a.wrapping_mul(*s)));
        Ok(f64::from(body[0].wrapping_sub(product) as i32) / 32f64.exp2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_dimension_of_its_secret() {
        let bits: Vec<u64> = (0..64).map(|i| u64::from(i % 3 == 0)).collect();
        let secret = LweSecret::new(&bits, KeyId([1; 16]));
        let mut sample = vec![1 << 20; 65];
        // 22 of the bits are set.
        sample[64] = 22 << 20 | 1 << 30;
        assert_eq!(secret.phase(&sample).unwrap(), 0.25);
        assert!(matches!(secret.phase(&sample[1..]), Err(Error::Length { got: 256, want: 260, .. })));
    }
}
