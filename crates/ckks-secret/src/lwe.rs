use crate::Error;
use ckks::KeyId;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The first bytes of the frame of an LWE secret, whose last byte is the version.
const MAGIC: [u8; 8] = *b"HBPSEC\0\x01";

/// A binary LWE secret, which decrypts the answers of bootstraps. It has no Debug, Clone or Serialize, and is
/// zeroed on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct LweSecret {
    /// The fingerprint of the CKKS key pair that its bootstrapping keys switch from.
    #[zeroize(skip)]
    switched: KeyId,
    #[zeroize(skip)]
    id: KeyId,
    /// Each 0 or 1.
    bits: Vec<u32>,
}

impl LweSecret {
    /// Bytes of the frame of a secret of this dimension.
    pub const fn frame_bytes(dimension: usize) -> usize {
        MAGIC.len() + 2 * 16 + dimension.div_ceil(8)
    }

    /// The secret with these bits, of the bootstrapping keys `id`, which switch from the CKKS key pair
    /// `switched`.
    pub fn new(bits: &[u64], id: KeyId, switched: KeyId) -> Self {
        LweSecret { switched, id, bits: bits.iter().map(|bit| *bit as u32 & 1).collect() }
    }

    /// The fingerprint of the bootstrapping keys.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The fingerprint of the CKKS key pair that they switch from.
    pub fn switched(&self) -> KeyId {
        self.switched
    }

    /// The phase of a sample modulo 2³², a mask and a body, as a part of the torus in [−½, ½).
    ///
    /// # Errors
    /// [`Error::BadSample`] for a sample of another dimension.
    pub fn phase(&self, sample: &[u32]) -> Result<f64, Error> {
        let (got, want) = (sample.len(), self.bits.len() + 1);
        if got != want {
            return Err(Error::BadSample { got, want });
        }
        let (mask, body) = sample.split_at(want - 1);
        let product =
            mask.iter().zip(&self.bits).fold(0u32, |sum, (a, s)| sum.wrapping_add(a.wrapping_mul(*s)));
        Ok(f64::from(body[0].wrapping_sub(product) as i32) / 32f64.exp2())
    }

    /// The frame of the secret: both fingerprints, and the bits.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(Self::frame_bytes(self.bits.len())));
        out.extend(MAGIC);
        out.extend(self.switched.0);
        out.extend(self.id.0);
        let byte = |bits: &[u32]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | *bit as u8);
        out.extend(self.bits.chunks(8).map(byte));
        out
    }

    /// Reads what [`Self::to_bytes`] writes of a secret of this dimension, a multiple of 8, for a device
    /// whose ring of scores has the key pair `loaded`.
    ///
    /// # Errors
    /// [`Error::BadLweSecret`] for bytes that are no such secret; [`Error::Generation`] for one of other CKKS
    /// keys.
    pub fn from_bytes(dimension: usize, bytes: &[u8], loaded: KeyId) -> Result<Self, Error> {
        if bytes.len() != Self::frame_bytes(dimension) {
            return Err(Error::BadLweSecret("it has another length"));
        }
        let (head, bits) = bytes.split_at(MAGIC.len() + 2 * 16);
        let (magic, ids) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(Error::BadLweSecret("its first bytes are not those of this version"));
        }
        let mut out = [[0; 16]; 2];
        out.iter_mut().zip(ids.chunks_exact(16)).for_each(|(out, id)| out.copy_from_slice(id));
        let [switched, id] = out.map(KeyId);
        if switched != loaded {
            return Err(Error::Generation { id, switched, loaded });
        }
        let bits = bits.iter().flat_map(|byte| (0..8).map(move |i| u32::from(byte >> i & 1))).collect();
        Ok(LweSecret { switched, id, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_for_its_key_pair_alone() {
        let bits: Vec<u64> = (0..64).map(|i| u64::from(i % 3 == 0)).collect();
        let [id, switched, other] = [1, 2, 3].map(|byte| KeyId([byte; 16]));
        let bytes = LweSecret::new(&bits, id, switched).to_bytes();
        let read = LweSecret::from_bytes(64, &bytes, switched).unwrap();
        assert_eq!((read.id(), read.switched(), &read.to_bytes()), (id, switched, &bytes));
        let mut sample = vec![1 << 20; 65];
        // 22 of the bits are set.
        sample[64] = 22 << 20 | 1 << 30;
        assert_eq!(read.phase(&sample).unwrap(), 0.25);
        assert_eq!(read.phase(&sample[1..]), Err(Error::BadSample { got: 64, want: 65 }));
        let refused = LweSecret::from_bytes(64, &bytes, other).err().unwrap();
        assert_eq!(refused, Error::Generation { id, switched, loaded: other });
        for id in [id, switched, other] {
            assert!(refused.to_string().contains(&id.to_string()), "{refused}");
        }
        for bytes in [&bytes[1..], &[0; 48]] {
            assert!(matches!(LweSecret::from_bytes(64, bytes, switched), Err(Error::BadLweSecret(_))));
        }
    }
}
