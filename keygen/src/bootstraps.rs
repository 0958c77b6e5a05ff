//! Bootstrapping keys, with the feature `pbs`.

use crate::Error;
use ckks::{KeyId, Security};
use ckks_secret::SecretKey;
use rand::CryptoRng;
use zeroize::Zeroizing;

/// Bootstrapping keys and their secret, as frames of the bundles.
pub(crate) struct Bootstraps {
    /// Their fingerprint.
    pub(crate) id: KeyId,
    /// The CKKS key pair that they switch from.
    pub(crate) switched: KeyId,
    pub(crate) public: Vec<u8>,
    pub(crate) secret: Zeroizing<Vec<u8>>,
}

/// Refuses what cannot be generated, before any key is.
pub(crate) fn check(security: Security) -> Result<(), Error> {
    let (got, want) = (Security::Classical128.bits(), security.bits());
    match (cfg!(feature = "pbs"), got < want) {
        (false, _) => Err(Error::NoBootstraps),
        (true, true) => Err(Error::Insecure { params: "bootstrapping keys", got, want }),
        (true, false) => Ok(()),
    }
}

/// Generates bootstrapping keys that switch from `secret`, the secret of the key pair `id`.
#[cfg(feature = "pbs")]
pub(crate) fn generate<R: CryptoRng>(
    secret: &SecretKey,
    id: KeyId,
    rng: &mut R,
) -> Result<Bootstraps, Error> {
    let (keys, lwe) = tfhe_argmax_secret::generate(secret, id, rng)?;
    Ok(Bootstraps { id: lwe.id(), switched: id, public: keys.to_bytes(), secret: lwe.to_bytes() })
}

/// Refuses.
#[cfg(not(feature = "pbs"))]
pub(crate) fn generate<R: CryptoRng>(_: &SecretKey, _: KeyId, _: &mut R) -> Result<Bootstraps, Error> {
    Err(Error::NoBootstraps)
}
