use crate::LweSecret;
use ckks::KeyId;
use ckks_secret::SecretKey;
use rand::CryptoRng;
use tfhe::core_crypto::commons::math::random::{Seed, Seeder};
use tfhe::core_crypto::prelude::*;
use tfhe_argmax::params::*;
use tfhe_argmax::{Error, SeededKeys};
use zeroize::{Zeroize, Zeroizing};

/// Fresh TFHE keys, and the key switch to them from the secret of the ring of scores, whose key pair is
/// `ckks`. All randomness is of `rng`, as seeds of 128 bits for the generator of `tfhe`.
///
/// # Errors
/// [`Error::BadKeys`] if the ring has another degree than 2¹¹ to 2¹⁶.
pub fn generate<R: CryptoRng>(
    secret: &SecretKey,
    ckks: KeyId,
    rng: &mut R,
) -> Result<(SeededKeys, LweSecret), Error> {
    let (keys, secret, _) = generate_all(secret, ckks, rng)?;
    Ok((keys, secret))
}

/// The keys of a server, the secret of a device, and the LWE secret, which nobody keeps.
pub(crate) type Generated = (SeededKeys, LweSecret, Zeroizing<Vec<u32>>);

pub(crate) fn generate_all<R: CryptoRng>(
    secret: &SecretKey,
    ckks: KeyId,
    rng: &mut R,
) -> Result<Generated, Error> {
    let log_n = secret.params().n().ilog2() as u8;
    if !(11..=16).contains(&log_n) {
        return Err(Error::BadKeys("the degree of the ring of scores is not from 2^11 to 2^16"));
    }
    let bits: Zeroizing<Vec<u64>> = Zeroizing::new((0..DEGREE).map(|_| rng.next_u64() & 1).collect());
    let lwe: Zeroizing<Vec<u32>> =
        Zeroizing::new((0..LWE_DIMENSION).map(|_| rng.next_u64() as u32 & 1).collect());
    let mut small = LweSecretKey::from_container(lwe.to_vec());
    let mut big = GlweSecretKey::from_container(bits.to_vec(), PolynomialSize(DEGREE));
    let seeds = [(); 2].map(|()| u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64()));
    let (native, noise, one) = (CiphertextModulus::new_native(), glwe_noise(), DecompositionLevelCount(1));

    let bootstrap = par_allocate_and_generate_new_seeded_lwe_bootstrap_key(
        &small,
        &big,
        DecompositionBaseLog(BOOTSTRAP_BASE_LOG),
        one,
        noise,
        native,
        &mut FromRng { first: Some(seeds[0]), rng },
    );
    let reduction = allocate_and_generate_new_seeded_lwe_keyswitch_key(
        &big.as_lwe_secret_key(),
        &small,
        DecompositionBaseLog(REDUCTION_BASE_LOG),
        DecompositionLevelCount(REDUCTION_LEVELS),
        lwe_noise(),
        CiphertextModulus::new_native(),
        &mut FromRng { first: Some(seeds[1]), rng },
    );
    let parts = (1 << log_n) / DEGREE;
    let mut switch = GlweKeyswitchKey::new(
        0u64,
        DecompositionBaseLog(SWITCH_BASE_LOG),
        one,
        GlweDimension(parts),
        GlweDimension(1),
        PolynomialSize(DEGREE),
        native,
    );
    let mut from = GlweSecretKey::from_container(split(secret, parts), PolynomialSize(DEGREE));
    let mask = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
    let mut generator = EncryptionRandomGenerator::<DefaultRandomGenerator>::new(
        Seed(mask),
        &mut FromRng { first: None, rng },
    );
    generate_glwe_keyswitch_key(&from, &big, &mut switch, noise, &mut generator);
    let mut public = GlweCiphertext::new(0, GlweSize(2), PolynomialSize(DEGREE), native);
    encrypt_glwe_ciphertext_assign(&big, &mut public, noise, &mut generator);
    from.as_mut().zeroize();
    small.as_mut().zeroize();
    big.as_mut().zeroize();

    let keys = SeededKeys {
        ckks,
        log_n,
        seeds,
        switch: switch.into_container(),
        bootstrap: bootstrap.into_container(),
        reduction: reduction.into_container(),
        public: public.into_container(),
    };
    let id = keys.id();
    let secret = LweSecret::new(&bits, id);
    Ok((keys, secret, lwe))
}

/// The parts sⱼ of the ternary secret s = Σⱼ Xʲ·sⱼ(Xʳ), modulo 2⁶⁴.
fn split(secret: &SecretKey, parts: usize) -> Vec<u64> {
    let params = secret.params();
    let basis = params.q_basis(0);
    let mut values = secret.values_qp(0).truncated(1).into_coeff(basis);
    let value = |x: &u64| basis.modulus(0).centered(*x) as u64;
    let out = (0..parts).flat_map(|j| values.limb(0)[j..].iter().step_by(parts).map(value)).collect();
    values.zeroize();
    out
}

/// Gives the seed of the masks first, if it is not drawn elsewhere, and then seeds of noise.
struct FromRng<'a, R> {
    first: Option<u128>,
    rng: &'a mut R,
}

impl<R: CryptoRng> Seeder for FromRng<'_, R> {
    fn seed(&mut self) -> Seed {
        let fresh = || u128::from(self.rng.next_u64()) << 64 | u128::from(self.rng.next_u64());
        Seed(self.first.take().unwrap_or_else(fresh))
    }

    fn is_available() -> bool {
        true
    }
}
