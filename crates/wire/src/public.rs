use crate::Error;
use crate::bundle::{BundleKind, BundleReader, BundleWriter, Manifest, differs};
use ckks::{EvaluationKeys, KeyId, KeyStorage, KeySwitchKey, Params, PublicKey};
use protocol::{GaloisKey, KeyPlan};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// The public half of a key pair, loaded and checked: complete for its shape.
#[derive(Debug, Clone)]
pub struct PublicBundle {
    /// The manifest.
    pub manifest: Manifest,
    /// The parameters it names.
    pub params: Params,
    /// The public key.
    pub public_key: PublicKey,
    /// The name of the key pair.
    pub key_id: KeyId,
    /// Relinearisation and Galois keys.
    pub keys: EvaluationKeys,
}

impl PublicBundle {
    /// Loads a file. Memory: the keys (several 100 MB at full size) and one frame.
    ///
    /// # Errors
    /// [`Error::Io`] with the path; as [`Self::read`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |error| Error::Io { what: format!("cannot open {}", path.display()), error };
        Self::read(BufReader::new(File::open(path).map_err(io)?))
    }

    /// Reads a bundle and checks it: manifest against parameters, every frame, the key ids, and that every
    /// key that [`KeyPlan`] lists for its shape is there.
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
                return Err(Error::Malformed("the bundle holds a key twice"));
            }
        }
        check_complete(&params, &plan, &keys)?;
        Ok(PublicBundle { manifest, params, public_key, key_id, keys })
    }

    /// Writes the bundle.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::FrameCount`] if the manifest was changed by hand.
    pub fn write<W: Write>(&self, out: W) -> Result<(W, u64), Error> {
        let mut writer = BundleWriter::new(BundleKind::Public, &self.manifest, out)?;
        writer.frame(&ckks::write_public_key(&self.params, &self.public_key))?;
        let relin = self.keys.relin.iter().map(|k| (None, k));
        let galois = self.keys.galois.iter().map(|(g, k)| (Some(*g), k));
        for (element, key) in relin.chain(galois) {
            writer.frame(&ckks::write_key_switch_key(&self.params, self.key_id, element, key))?;
        }
        writer.finish()
    }
}

/// The key plan of a bundle's shape, with the parameters that it names.
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

/// The longest frames these parameters allow.
struct FrameLimits {
    public_key: usize,
    key_switch_key: usize,
}

impl FrameLimits {
    fn new(params: &Params) -> Self {
        let top = params.max_level();
        // Header, seed and digest of a seeded ciphertext, whose body is one polynomial.
        let public_key = ckks::ciphertext_bytes(params, top, true);
        let basis = params.qp_basis(top);
        let poly: usize = (0..basis.len()).map(|i| basis.modulus(i).bits() as usize * params.n() / 8).sum();
        // No key has more digits than one of a rotation.
        FrameLimits { public_key, key_switch_key: public_key + params.galois_gadget().digits(top) * poly }
    }
}
