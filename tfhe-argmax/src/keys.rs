//! The keys of a server: as they lie on disk, with seeds in place of masks, and as they are computed with.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | [`MAGIC`], whose last byte is the version |
//! | 16 | fingerprint of the CKKS key pair of the ring of scores |
//! | 1 | log₂ N' |
//! | 2 · 16 | seeds of the masks of the bootstrapping key and the LWE key switch |
//! | (N'/N) · 2N · 8 | key switch from CKKS, with masks |
//! | n · 2 · N · 8 | bootstrapping key |
//! | N · 4 · 4 | LWE key switch |
//! | 2N · 8 | public key of the GLWE secret, for answers |
//! | 32 | BLAKE3 of all before |
//!
//! Numbers are little-endian. One file has all keys of a generation, so that no two generations can be mixed
//! in it.

use crate::Error;
use crate::exact::Exact;
use crate::params::*;
use ckks::KeyId;
use rns::{Ntt, Poly};
use tfhe::core_crypto::commons::math::random::{CompressionSeed, Seed};
use tfhe::core_crypto::prelude::*;

/// The first bytes of a file of keys.
const MAGIC: [u8; 8] = *b"HBPBSK\0\x01";
const HEADER: usize = MAGIC.len() + 16 + 1 + 2 * 16;
const HASH: usize = 32;
/// Numbers of the bootstrapping key, the LWE key switch and the public key, which is a mask and a body.
const BOOTSTRAP: usize = LWE_DIMENSION * 2 * DEGREE;
const REDUCTION: usize = DEGREE * REDUCTION_LEVELS;
const PUBLIC: usize = 2 * DEGREE;

/// Evaluation keys with seeds in place of most masks. `tfhe-argmax-secret` generates them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeededKeys {
    /// The fingerprint of the CKKS key pair of the ring of scores.
    pub ckks: KeyId,
    /// log₂ N'.
    pub log_n: u8,
    /// Seeds of the masks of `bootstrap` and `reduction`.
    pub seeds: [u128; 2],
    /// The key switch from the parts of the CKKS secret to the GLWE secret, with masks.
    pub switch: Vec<u64>,
    /// The bodies of the bootstrapping key.
    pub bootstrap: Vec<u64>,
    /// The bodies of the key switch from the GLWE secret to the LWE secret.
    pub reduction: Vec<u32>,
    /// An encryption of zero under the GLWE secret: mask and body.
    pub public: Vec<u64>,
}

impl SeededKeys {
    /// The fingerprint of the TFHE keys: the first 16 bytes of the BLAKE3 hash of their public key.
    pub fn id(&self) -> KeyId {
        let mut hasher = blake3::Hasher::new();
        self.public.iter().for_each(|word| {
            hasher.update(&word.to_le_bytes());
        });
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        KeyId(id)
    }

    /// Bytes of the file of keys for a ring of scores of degree 2^`log_n`.
    pub fn file_bytes(log_n: u8) -> usize {
        let parts = (1usize << log_n) / DEGREE;
        HEADER + 8 * (parts * 2 * DEGREE + BOOTSTRAP + PUBLIC) + 4 * REDUCTION + HASH
    }

    /// The file of these keys.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::file_bytes(self.log_n));
        out.extend(MAGIC);
        out.extend(self.ckks.0);
        out.push(self.log_n);
        self.seeds.iter().for_each(|seed| out.extend(seed.to_le_bytes()));
        self.switch.iter().chain(&self.bootstrap).for_each(|word| out.extend(word.to_le_bytes()));
        self.reduction.iter().for_each(|word| out.extend(word.to_le_bytes()));
        self.public.iter().for_each(|word| out.extend(word.to_le_bytes()));
        out.extend(blake3::hash(&out).as_bytes());
        out
    }

    /// Reads what [`Self::to_bytes`] writes.
    ///
    /// # Errors
    /// [`Error::BadKeys`], [`Error::Length`] for bytes that are no such keys.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() < HEADER + HASH {
            let want = HEADER + HASH;
            return Err(Error::Length { what: "bootstrapping keys", got: bytes.len(), want });
        }
        let mut rest = bytes;
        if take(&mut rest, MAGIC.len()) != MAGIC {
            return Err(Error::BadKeys("the first bytes are not those of this version"));
        }
        let ckks = KeyId(array(&mut rest));
        let log_n = take(&mut rest, 1)[0];
        if !(11..=16).contains(&log_n) {
            return Err(Error::BadKeys("the degree of the ring of scores is not from 2^11 to 2^16"));
        }
        let (got, want) = (bytes.len(), Self::file_bytes(log_n));
        if got != want {
            return Err(Error::Length { what: "bootstrapping keys", got, want });
        }
        let (content, hash) = bytes.split_at(got - HASH);
        if blake3::hash(content).as_bytes() != hash {
            return Err(Error::BadKeys("the hash at the end is not that of the content"));
        }
        let seeds = [(); 2].map(|()| u128::from_le_bytes(array(&mut rest)));
        let switch = words(&mut rest, (1 << log_n) / DEGREE * 2 * DEGREE);
        let bootstrap = words(&mut rest, BOOTSTRAP);
        let reduction = (0..REDUCTION).map(|_| u32::from_le_bytes(array(&mut rest))).collect();
        let public = words(&mut rest, PUBLIC);
        Ok(SeededKeys { ckks, log_n, seeds, switch, bootstrap, reduction, public })
    }

    /// Refuses other keys than those that are stated.
    ///
    /// # Errors
    /// [`Error::OtherKeys`].
    pub fn check(&self, want: KeyId) -> Result<(), Error> {
        match self.id() {
            got if got == want => Ok(()),
            got => Err(Error::OtherKeys { got, want, switched: self.ckks }),
        }
    }

    /// The keys to compute with, for a server whose ring of scores has the key pair `loaded`. Takes 0.3 s or
    /// so of processor time and [`Keys::bytes`] of memory.
    ///
    /// # Errors
    /// [`Error::Generation`] if the keys switch from another key pair.
    pub fn expand(self, loaded: KeyId) -> Result<Keys, Error> {
        let (id, native) = (self.id(), CiphertextModulus::new_native());
        if self.ckks != loaded {
            return Err(Error::Generation { tfhe: id, switched: self.ckks, loaded });
        }
        let [bootstrap_seed, reduction_seed] = self.seeds.map(|seed| CompressionSeed::from(Seed(seed)));
        let seeded = SeededLweBootstrapKey::from_container(
            self.bootstrap,
            GlweSize(2),
            PolynomialSize(DEGREE),
            DecompositionBaseLog(BOOTSTRAP_BASE_LOG),
            DecompositionLevelCount(1),
            bootstrap_seed,
            native,
        );
        let standard = seeded.par_decompress_into_lwe_bootstrap_key();
        let mut bootstrap = FourierLweBootstrapKey::new(
            standard.input_lwe_dimension(),
            standard.glwe_size(),
            standard.polynomial_size(),
            standard.decomposition_base_log(),
            standard.decomposition_level_count(),
        );
        par_convert_standard_lwe_bootstrap_key_to_fourier(&standard, &mut bootstrap);
        let reduction = SeededLweKeyswitchKey::from_container(
            self.reduction,
            DecompositionBaseLog(REDUCTION_BASE_LOG),
            reduction_levels(),
            LweDimension(LWE_DIMENSION).to_lwe_size(),
            reduction_seed,
            CiphertextModulus::new_native(),
        );
        let exact = Exact::new()?;
        let pair = |words: &[u64]| {
            let (mask, body) = words.split_at(DEGREE);
            [exact.values(mask), exact.values(body)]
        };
        let switch = self.switch.chunks_exact(2 * DEGREE).map(pair).collect();
        let public = pair(&self.public);
        Ok(Keys {
            id,
            n: 1 << self.log_n,
            switch,
            bootstrap,
            reduction: reduction.decompress_into_lwe_keyswitch_key(),
            public,
            exact,
        })
    }
}

/// The keys of a server, expanded. All bandits of a key pair share them.
#[derive(Debug)]
pub struct Keys {
    id: KeyId,
    /// N'.
    n: usize,
    /// Mask and body for each part of the CKKS secret.
    pub(crate) switch: Vec<[Poly<Ntt>; 2]>,
    pub(crate) bootstrap: FourierLweBootstrapKeyOwned,
    pub(crate) reduction: LweKeyswitchKeyOwned<u32>,
    pub(crate) public: [Poly<Ntt>; 2],
    pub(crate) exact: Exact,
}

impl Keys {
    /// The fingerprint of the TFHE keys.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// N', the degree of the ring of scores.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        let complex = self.bootstrap.as_view().data().len() * size_of::<[f64; 2]>();
        let words: usize =
            self.switch.iter().flatten().chain(&self.public).map(|poly| poly.data().len()).sum();
        complex + 8 * words + 4 * self.reduction.as_ref().len()
    }
}

/// The next `count` bytes, whose presence the caller has checked.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (head, tail) = rest.split_at(count);
    *rest = tail;
    head
}

fn array<const L: usize>(rest: &mut &[u8]) -> [u8; L] {
    let mut out = [0; L];
    out.copy_from_slice(take(rest, L));
    out
}

fn words(rest: &mut &[u8], count: usize) -> Vec<u64> {
    (0..count).map(|_| u64::from_le_bytes(array(rest))).collect()
}
