use crate::Error;
use crate::bundle::{BundleKind, BundleReader, Manifest, differs};
use ckks::{EvaluationKeys, KeyId, KeyStorage, KeySwitchKey, Params, PublicKey};
use protocol::{GaloisKey, KeyPlan};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

/// The public half of a key pair. It is checked, and has every key that its shape needs.
#[derive(Debug, Clone)]
pub struct PublicBundle {
    /// The manifest.
    pub manifest: Manifest,
    /// The parameters.
    pub params: Params,
    /// The public key.
    pub public_key: PublicKey,
    /// The id of the key pair.
    pub key_id: KeyId,
    /// Relinearisation and Galois keys.
    pub keys: EvaluationKeys,
}

impl PublicBundle {
    /// Loads a file. This takes the memory of the keys, which is several 100 MB for large shapes, and of one
    /// frame.
    ///
    /// # Errors
    /// [`Error::Io`] with the path; as [`Self::read`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |error| Error::Io { what: format!("cannot open {}", path.display()), error };
        Self::read(BufReader::new(File::open(path).map_err(io)?))
    }

    /// Reads a bundle. It checks the manifest, every frame, and the key ids, and that the bundle has every
    /// key that [`KeyPlan`] lists for its shape.
    ///
    /// # Errors
    /// [`Error::WrongBundle`] for a secret bundle; [`Error::Manifest`], [`Error::MissingKey`],
    /// [`Error::Ckks`] for a frame; as [`BundleReader`].
    pub fn read(input: impl Read) -> Result<Self, Error> {
        let mut reader = BundleReader::of_kind(BundleKind::Public, input)?;
        let manifest = reader.manifest().clone();
        let params = manifest.params()?;
        let plan = key_plan(&manifest)?;

        let limits = FrameLimits::new(&params);
        let mut frame = Vec::new();
        if !reader.next_frame(limits.public_key, &mut frame)? {
            return Err(Error::Truncated { what: "the public key" });
        }
        let (public_key, key_id) = ckks::read_public_key(&params, &frame)?;
        manifest.check_key(key_id)?;

        let of_updates = plan.galois.iter().filter(|key| key.storage == KeyStorage::Seeded);
        let seeded: BTreeSet<_> = of_updates.map(|key| Some(key.automorphism.element(&params))).collect();
        let mut keys = EvaluationKeys::default();
        while reader.next_frame(limits.key_switch_key, &mut frame)? {
            let (element, key) = ckks::read_key_switch_key(&params, key_id, &frame)?;
            let key = if seeded.contains(&element) { key.stored_as(KeyStorage::Seeded) } else { key };
            let before = match element {
                None => keys.relin.replace(Arc::new(key)),
                Some(element) => keys.galois.insert(element, Arc::new(key)),
            };
            if before.is_some() {
                return Err(Error::Malformed("the bundle has a key twice"));
            }
        }
        check_complete(&params, &plan, &keys)?;
        Ok(PublicBundle { manifest, params, public_key, key_id, keys })
    }
}

/// The key plan of the shape of a bundle, with its parameters.
fn key_plan(manifest: &Manifest) -> Result<KeyPlan, Error> {
    let plan = KeyPlan::new(manifest.shape, false)?;
    if plan.params.name == manifest.params {
        return Ok(plan);
    }
    let toy = KeyPlan::new(manifest.shape, true)?;
    if toy.params.name == manifest.params {
        return Ok(toy);
    }
    Err(differs("params", &manifest.params, plan.params.name))
}

fn check_complete(params: &Params, plan: &KeyPlan, keys: &EvaluationKeys) -> Result<(), Error> {
    let check = |what: String, key: Option<&Arc<KeySwitchKey>>, level: usize| match key {
        Some(key) if key.level() >= level => Ok(()),
        _ => Err(Error::MissingKey { what, level }),
    };
    check("relinearisation key".into(), keys.relin.as_ref(), plan.relin_level)?;
    plan.galois.iter().try_for_each(|&GaloisKey { automorphism, level, .. }| {
        let key = keys.galois.get(&automorphism.element(params));
        check(format!("key for {automorphism}"), key, level)
    })
}

/// The longest frames under these parameters.
struct FrameLimits {
    public_key: usize,
    key_switch_key: usize,
}

impl FrameLimits {
    fn new(params: &Params) -> Self {
        let top = params.max_level();
        // A seeded ciphertext has a header, a seed, a digest and one polynomial.
        let public_key = ckks::ciphertext_bytes(params, top, true);
        let basis = params.qp_basis(top);
        let poly: usize = (0..basis.len()).map(|i| basis.modulus(i).bits() as usize * params.n() / 8).sum();
        // The key of a rotation has the most digits.
        FrameLimits { public_key, key_switch_key: public_key + params.galois_gadget().digits(top) * poly }
    }
}
