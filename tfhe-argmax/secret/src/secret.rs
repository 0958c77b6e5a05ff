use ckks::KeyId;
use tfhe_argmax::params::DEGREE;
use tfhe_argmax::{Answer, Error};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The first bytes of a file of the secret key.
const MAGIC: [u8; 8] = *b"HBPSEC\0\x01";
const FILE: usize = MAGIC.len() + 2 * 16 + DEGREE / 8;

/// The GLWE secret, which decrypts answers. It has no Debug, Clone or Serialize, and is zeroed on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct ArgmaxSecret {
    #[zeroize(skip)]
    pub(crate) ckks: KeyId,
    #[zeroize(skip)]
    pub(crate) id: KeyId,
    /// N bits, each 0 or 1.
    pub(crate) bits: Vec<u32>,
}

impl ArgmaxSecret {
    /// The fingerprint of the TFHE keys.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The entry of each arm of an answer: near ¼ of the torus for an arm that is ahead of all others or ties
    /// with them, near −¼ for the others, with the noise of the server.
    ///
    /// # Errors
    /// [`Error::AnswerKey`] for an answer under other keys.
    pub fn entries(&self, answer: &Answer) -> Result<Zeroizing<Vec<f64>>, Error> {
        if answer.id != self.id {
            return Err(Error::AnswerKey { got: answer.id, want: self.id });
        }
        let entry = |sample: &Vec<u32>| {
            let (mask, body) = sample.split_at(DEGREE);
            let product =
                mask.iter().zip(&self.bits).fold(0u32, |sum, (a, s)| sum.wrapping_add(a.wrapping_mul(*s)));
            f64::from(body[0].wrapping_sub(product) as i32) / 32f64.exp2()
        };
        Ok(Zeroizing::new(answer.samples.iter().map(entry).collect()))
    }

    /// The first arm that is ahead of all others or ties with them; `None` if no arm is, because scores are
    /// outside their range or by the chance that [`tfhe_argmax::Circuit::resolution`] leaves.
    ///
    /// # Errors
    /// As [`Self::entries`].
    pub fn arm(&self, answer: &Answer) -> Result<Option<usize>, Error> {
        Ok(self.entries(answer)?.iter().position(|entry| *entry > 0.0))
    }

    /// The file of the secret: the fingerprints of the CKKS and the TFHE keys, and the bits.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(FILE));
        out.extend(MAGIC);
        out.extend(self.ckks.0);
        out.extend(self.id.0);
        let byte = |bits: &[u32]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | *bit as u8);
        out.extend(self.bits.chunks_exact(8).map(byte));
        out
    }

    /// Reads what [`Self::to_bytes`] writes, for a device whose ring of scores has the key pair `loaded`.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::BadKeys`] for bytes that are no such secret; [`Error::Generation`] for the
    /// secret of other CKKS keys.
    pub fn from_bytes(bytes: &[u8], loaded: KeyId) -> Result<Self, Error> {
        if bytes.len() != FILE {
            return Err(Error::Length { what: "secret of bootstrapping", got: bytes.len(), want: FILE });
        }
        let (head, bits) = bytes.split_at(FILE - DEGREE / 8);
        let (magic, ids) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(Error::BadKeys("the first bytes are not those of a secret of this version"));
        }
        let mut out = [[0; 16]; 2];
        out.iter_mut().zip(ids.chunks_exact(16)).for_each(|(out, id)| out.copy_from_slice(id));
        let [switched, tfhe] = out.map(KeyId);
        if switched != loaded {
            return Err(Error::Generation { tfhe, switched, loaded });
        }
        let bits = bits.iter().flat_map(|byte| (0..8).map(move |i| u32::from(byte >> i & 1))).collect();
        Ok(ArgmaxSecret { ckks: switched, id: tfhe, bits })
    }
}
