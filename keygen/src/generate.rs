use crate::Error;
use ckks::{
    EvaluationKeys, GaloisElement, KeyId, KeyStorage, KeySwitchKey, Params, ParamsSpec, PublicKey, Security,
};
use ckks_secret::SecretKey;
use protocol::{GaloisKey, KeyPlan, Shape};
use rand::CryptoRng;
use std::io::Write;
use std::sync::Arc;
use wire::{AccessToken, BundleKind, BundleWriter, Manifest, PublicBundle, SecretBundle};

/// A request for a key pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The shape that the keys must carry.
    pub shape: Shape,
    /// Whether a set without security is allowed, for tests.
    pub toy: bool,
    /// The time to write into the manifests, in seconds since 1970.
    pub created: u64,
}

/// A key pair that was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Of the public bundle.
    pub manifest: Manifest,
    /// Bytes of the public bundle.
    pub public_bytes: u64,
    /// Bytes of the secret bundle.
    pub secret_bytes: u64,
    /// The limit of the security table on log₂(QP); `None` for toys.
    pub max_log2_qp: Option<u32>,
}

/// A key pair in memory, for one process that plays all parties.
pub struct Keys {
    /// The server's half.
    pub public: PublicBundle,
    /// The users' half.
    pub secret: SecretKey,
    /// Admits users to the server.
    pub token: AccessToken,
}

/// Makes a key pair and writes both bundles. The public one goes out key by key, so memory stays at a few
/// keys. `progress` hears of each frame: done, total.
///
/// # Errors
/// [`Error::Protocol`] if no parameters carry the shape, [`Error::Insecure`], [`Error::Wire`] if writing
/// fails.
pub fn generate<R: CryptoRng>(
    request: Request,
    public: impl Write,
    secret: impl Write,
    rng: &mut R,
    mut progress: impl FnMut(u32, u32),
) -> Result<Summary, Error> {
    let pair = Pair::new(request, rng)?;
    let two = Manifest { frames: 2, ..pair.manifest.clone() };
    let frame = pair.secret.to_bytes(pair.key_id);
    let (_, secret_bytes) = SecretBundle::write(&two, &frame, &pair.token, secret)?;

    let total = pair.manifest.frames;
    let mut writer = BundleWriter::new(BundleKind::Public, &pair.manifest, public)?;
    writer.frame(&ckks::write_public_key(&pair.params, &pair.public_key))?;
    let mut done = 1;
    progress(done, total);
    for &wanted in &pair.wanted {
        let (element, key) = (wanted.0, pair.key(wanted, rng));
        writer.frame(&ckks::write_key_switch_key(&pair.params, pair.key_id, element, &key))?;
        done += 1;
        progress(done, total);
    }
    let (_, public_bytes) = writer.finish()?;
    let security = pair.params.spec().security;
    let max_log2_qp = match security {
        Security::None => None,
        _ => security.max_log_qp(pair.params.spec().log_n),
    };
    Ok(Summary { manifest: pair.manifest, public_bytes, secret_bytes, max_log2_qp })
}

/// As [`generate`], without files: what the bundles hold, loaded.
///
/// # Errors
/// [`Error::Protocol`], [`Error::Insecure`].
pub fn generate_in_memory<R: CryptoRng>(request: Request, rng: &mut R) -> Result<Keys, Error> {
    let pair = Pair::new(request, rng)?;
    let mut keys = EvaluationKeys::default();
    for &wanted in &pair.wanted {
        let key = Arc::new(pair.key(wanted, rng));
        match wanted.0 {
            None => keys.relin = Some(key),
            Some(element) => _ = keys.galois.insert(element, key),
        }
    }
    let Pair { manifest, params, secret, public_key, key_id, token, .. } = pair;
    Ok(Keys { public: PublicBundle { manifest, params, public_key, key_id, keys }, secret, token })
}

/// Secret and public key, the users' access token, and the list of evaluation keys to make.
struct Pair {
    manifest: Manifest,
    params: Params,
    secret: SecretKey,
    public_key: PublicKey,
    key_id: KeyId,
    token: AccessToken,
    wanted: Vec<Wanted>,
}

/// An evaluation key's Galois element (`None`: relinearisation), its level, and its form in memory.
type Wanted = (Option<GaloisElement>, usize, KeyStorage);

impl Pair {
    fn new<R: CryptoRng>(request: Request, rng: &mut R) -> Result<Self, Error> {
        let Request { shape, toy, created } = request;
        let plan = KeyPlan::new(shape, toy)?;
        check_security(&plan.params, toy)?;
        let params = plan.params.validate()?;
        let secret = SecretKey::generate(&params, rng);
        let public_key = ckks_secret::public_key(&secret, rng);
        let key_id = public_key.id(&params);

        let mut wanted = vec![(None, plan.relin_level, KeyStorage::Expanded)];
        wanted.extend(plan.galois.iter().map(|&GaloisKey { automorphism, level, storage }| {
            (Some(automorphism.element(&params)), level, storage)
        }));
        // As a loaded bundle writes them.
        wanted.sort_by_key(|key| key.0);
        let frames = 1 + wanted.len() as u32;
        let token = AccessToken::generate(rng);
        let manifest = Manifest::new(&params, key_id, shape, created, frames, token.digest());
        Ok(Pair { manifest, params, secret, public_key, key_id, token, wanted })
    }

    fn key<R: CryptoRng>(&self, (element, level, storage): Wanted, rng: &mut R) -> KeySwitchKey {
        let key = match element {
            None => ckks_secret::relin_key(&self.secret, level, rng),
            Some(element) => ckks_secret::galois_key(&self.secret, element, level, rng),
        };
        key.stored_as(storage)
    }
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
