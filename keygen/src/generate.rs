use crate::Error;
use ckks::{KeyStorage, ParamsSpec, Security};
use ckks_secret::SecretKey;
use protocol::{GaloisKey, KeyPlan, Shape};
use rand::CryptoRng;
use std::io::Write;
use wire::{AccessToken, BundleKind, BundleWriter, Manifest, SecretBundle};

/// A request for a key pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The shape that the keys serve.
    pub shape: Shape,
    /// Whether parameter sets without security are allowed, for tests.
    pub toy: bool,
    /// The time in the manifests, in seconds since 1970.
    pub created: u64,
}

/// The key pair that was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The manifest of the public bundle.
    pub manifest: Manifest,
    /// Bytes of the public bundle.
    pub public_bytes: u64,
    /// Bytes of the secret bundle.
    pub secret_bytes: u64,
    /// The limit of the security table on log₂(QP). `None` for toy keys.
    pub max_log2_qp: Option<u32>,
}

/// Generates a key pair and writes both bundles. The public bundle is written key by key, so that only one
/// evaluation key is in memory at a time. `progress` is called after each frame of the public bundle, with
/// the number of frames written and their total.
///
/// # Errors
/// [`Error::Protocol`] if no parameter set fits the shape, [`Error::Insecure`], [`Error::Wire`] if writing
/// fails.
pub fn generate<R: CryptoRng>(
    request: Request,
    public: impl Write,
    secret: impl Write,
    rng: &mut R,
    mut progress: impl FnMut(u32, u32),
) -> Result<Summary, Error> {
    let Request { shape, toy, created } = request;
    let plan = KeyPlan::new(shape, toy)?;
    check_security(&plan.params, toy)?;
    let params = plan.params.validate()?;
    let secret_key = SecretKey::generate(&params, rng);
    let public_key = ckks_secret::public_key(&secret_key, rng);
    let key_id = public_key.id(&params);
    // In the order in which a loaded bundle is written: the relinearisation key first.
    let mut wanted = vec![(None, plan.relin_level, KeyStorage::Expanded)];
    wanted.extend(plan.galois.iter().map(|&GaloisKey { automorphism, level, storage }| {
        (Some(automorphism.element(&params)), level, storage)
    }));
    wanted.sort_by_key(|key| key.0);
    let total = 1 + wanted.len() as u32;
    let token = AccessToken::generate(rng);
    let manifest = Manifest::new(&params, key_id, shape, created, total, token.digest());
    let two = Manifest { frames: 2, ..manifest.clone() };
    let (_, secret_bytes) = SecretBundle::write(&two, &secret_key.to_bytes(key_id), &token, secret)?;

    let mut writer = BundleWriter::new(BundleKind::Public, &manifest, public)?;
    writer.frame(&ckks::write_public_key(&params, &public_key))?;
    progress(1, total);
    for (done, (element, level, storage)) in (2..).zip(wanted) {
        let key = match element {
            None => ckks_secret::relin_key(&secret_key, level, rng),
            Some(element) => ckks_secret::galois_key(&secret_key, element, level, rng),
        };
        writer.frame(&ckks::write_key_switch_key(&params, key_id, element, &key.stored_as(storage)))?;
        progress(done, total);
    }
    let (_, public_bytes) = writer.finish()?;
    let security = params.spec().security;
    let max_log2_qp = match security {
        Security::None => None,
        _ => security.max_log_qp(params.spec().log_n),
    };
    Ok(Summary { manifest, public_bytes, secret_bytes, max_log2_qp })
}

fn check_security(params: &ParamsSpec, toy: bool) -> Result<(), Error> {
    if params.security == Security::None && !toy {
        return Err(Error::Insecure { params: params.name });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_without_security_must_be_asked_for() {
        for spec in ParamsSpec::named() {
            let insecure = spec.security == Security::None;
            assert!(check_security(spec, true).is_ok());
            match check_security(spec, false) {
                Err(Error::Insecure { params }) => assert!(insecure && params == spec.name),
                other => assert!(!insecure && other.is_ok(), "{}", spec.name),
            }
        }
    }
}
