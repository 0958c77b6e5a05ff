use crate::Error;
use crate::bundle::{BundleKind, BundleReader};
use crate::manifest::{DecisionsManifest, Manifest, ScoresManifest, differs};
use ckks::{
    EvaluationKeys, Evaluator, GaloisElement, KeyId, KeyStorage, KeySwitchKey, Params, PublicKey, RingKeys,
    RingSwitch, Security,
};
use protocol::paper::PaperPlan;
use protocol::{AnswerKeys, DecisionKeys, Exchanging, GaloisKey, KeyPlan, ScoreRing};
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
    /// The keys of the ring of evaluations, if it is not the one of `params`.
    pub decisions: Option<RingKeys>,
    /// The keys of the ring of scores.
    pub scores: ScoreKeys,
}

/// The public keys of the ring of scores, complete for a [`ckks::Packer`] of its gap.
#[derive(Debug, Clone)]
pub struct ScoreKeys {
    /// The ring.
    pub ring: ScoreRing,
    /// Its parameters.
    pub params: Params,
    /// The public key.
    pub public_key: PublicKey,
    /// The id of the key pair of this ring.
    pub key_id: KeyId,
    /// The relinearisation key and the keys of [`ckks::pack_elements`], at the top level.
    pub keys: EvaluationKeys,
    /// The switch of answers from the ring of evaluations, with the rotations of the fold; `None` with keys
    /// of stages and with users' own keys, whose answers have no switch.
    pub switch: Option<RingSwitch>,
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
        let (ring, small) = manifest.scores(&params)?;
        let of_decisions = decision_ring(&manifest, &plan)?;

        let wanted = WantedKeys::large(&params, &plan);
        let large = ReadKeys::read(&mut reader, &params, manifest.large_frames()?, &wanted)?;
        manifest.check_key(large.key_id)?;
        let decisions = match of_decisions {
            None => None,
            Some((stated, keys)) => {
                let params = stated.params()?;
                let wanted = WantedKeys::decisions(&params, keys);
                let ReadKeys { public_key, key_id, keys } =
                    ReadKeys::read(&mut reader, &params, stated.frames, &wanted)?;
                stated.check_key(key_id)?;
                wanted.check_complete(&keys)?;
                Some(RingKeys { evaluator: Evaluator::new(params, keys), public_key, key_id })
            }
        };
        let stated = &manifest.scores;
        let wanted_of_scores = WantedKeys::scores(&small, &ring)?;
        let ReadKeys { public_key, key_id, keys } =
            ReadKeys::read(&mut reader, &small, stated.frames, &wanted_of_scores)?;
        stated.check_key(key_id)?;
        wanted_of_scores.check_complete(&keys)?;
        wanted.check_complete(&large.keys)?;
        let from = decisions.as_ref().map_or(&params, |ring| ring.evaluator.params());
        let answers = stated.answers(ring, from)?;
        let switch = read_switch(&mut reader, stated, &plan.answers, from, answers, key_id)?;
        let scores = ScoreKeys { ring, params: small, public_key, key_id, keys, switch };
        // All frames are read, so that the input must end here.
        reader.next_frame(0, &mut Vec::new())?;
        let ReadKeys { public_key, key_id, keys } = large;
        Ok(PublicBundle { manifest, params, public_key, key_id, keys, decisions, scores })
    }
}

/// Reads the keys of answers, which are encrypted under the secret of `key_id`: those of the ring switch by
/// their numbers, and those of the rotations in the order of the plan.
fn read_switch(
    reader: &mut BundleReader<impl Read>,
    stated: &ScoresManifest,
    plan: &AnswerKeys,
    large: &Params,
    params: Params,
    key_id: KeyId,
) -> Result<Option<RingSwitch>, Error> {
    let (got, want) = (stated.answers.frames as usize, plan.switch + plan.rotations.len());
    if got != want {
        return Err(differs("scores.answers.frames", &got.to_string(), &want.to_string()));
    }
    if want == 0 {
        return Ok(None);
    }
    let limit = FrameLimits::new(&params).key_switch_key;
    let mut frame = Vec::new();
    let mut next = |frame: &mut Vec<u8>| match reader.next_frame(limit, frame)? {
        true => Ok(()),
        false => Err(Error::Truncated { what: "the keys of answers" }),
    };
    const OUT_OF_PLACE: Error = Error::Malformed("the bundle has a key of answers out of place");
    let mut switch = Vec::new();
    for number in 0..plan.switch {
        next(&mut frame)?;
        let (got, key) = ckks::read_ring_switch_key(&params, key_id, &frame)?;
        if got != number {
            return Err(OUT_OF_PLACE);
        }
        switch.push(Arc::new(key));
    }
    let mut keys = EvaluationKeys::default();
    for &k in &plan.rotations {
        next(&mut frame)?;
        let (got, key) = ckks::read_key_switch_key(&params, key_id, &frame)?;
        let element = GaloisElement::rotation(&params, k);
        if got != Some(element) {
            return Err(OUT_OF_PLACE);
        }
        let level = params.max_level();
        if key.level() < level {
            return Err(Error::MissingKey { what: format!("key for rotation by {k} of answers"), level });
        }
        keys.galois.insert(element, Arc::new(key));
    }
    Ok(Some(RingSwitch::new(large, Evaluator::new(params, keys), switch)?))
}

/// The key plan of the shape of a bundle, with its parameters.
pub(crate) fn key_plan(manifest: &Manifest) -> Result<KeyPlan, Error> {
    use Security::{Classical128, Classical192, Classical256, None};
    let Manifest { shape, width, updates, exchanges, .. } = *manifest;
    let securities = match exchanges {
        Exchanging::One => &[Classical128, Classical192, Classical256, None][..],
        Exchanging::Staged => &[Classical128, None],
    };
    let mut names = Vec::new();
    for &security in securities {
        let plan = KeyPlan::for_exchanges(shape, security, width, updates, exchanges)?;
        let plan = plan.for_users(manifest.user_keys());
        if plan.params.name == manifest.ring.params {
            return Ok(plan);
        }
        names.push(plan.params.name);
    }
    // That of tests comes last, if it is another one.
    names.dedup();
    names.truncate(names.len().saturating_sub(1).max(1));
    Err(differs("params", &manifest.ring.params, &names.join(" or ")))
}

/// The ring of evaluations that the manifest states, and its keys in `plan`: both or neither.
pub(crate) fn decision_ring<'a>(
    manifest: &'a Manifest,
    plan: &'a KeyPlan,
) -> Result<Option<(&'a DecisionsManifest, &'a DecisionKeys)>, Error> {
    match (&manifest.decisions, &plan.decisions) {
        (None, None) => Ok(None),
        (Some(stated), Some(keys)) if stated.ring.params == keys.params.name => Ok(Some((stated, keys))),
        (stated, want) => {
            let got = stated.as_ref().map_or("none", |stated| &stated.ring.params);
            Err(differs("decisions.params", got, want.as_ref().map_or("none", |keys| keys.params.name)))
        }
    }
}

/// The evaluation keys that a ring needs.
pub(crate) struct WantedKeys {
    relin_name: &'static str,
    relin_level: usize,
    galois: Vec<WantedKey>,
}

/// A Galois key that a ring needs.
struct WantedKey {
    name: String,
    element: GaloisElement,
    level: usize,
    storage: KeyStorage,
}

impl WantedKeys {
    fn large(params: &Params, plan: &KeyPlan) -> Self {
        let (relin_name, relin_level) = ("relinearisation key", plan.relin_level);
        WantedKeys { relin_name, relin_level, galois: wanted_galois(params, &plan.galois, "") }
    }

    fn decisions(params: &Params, keys: &DecisionKeys) -> Self {
        let (relin_name, relin_level) = ("relinearisation key of evaluations", params.max_level());
        let galois = wanted_galois(params, &keys.galois, " of evaluations");
        WantedKeys { relin_name, relin_level, galois }
    }

    fn scores(params: &Params, ring: &ScoreRing) -> Result<Self, Error> {
        let level = params.max_level();
        let elements = ckks::pack_elements(params, ring.gap)?;
        let galois = elements.into_iter().enumerate().map(|(stage, element)| WantedKey {
            name: format!("key for stage {stage} of packing scores"),
            element,
            level,
            storage: KeyStorage::Expanded,
        });
        let relin_name = "relinearisation key of the ring of scores";
        Ok(WantedKeys { relin_name, relin_level: level, galois: galois.collect() })
    }

    /// The keys of the paper's method, all at the top level.
    pub(crate) fn paper(params: &Params, plan: &PaperPlan) -> Self {
        let level = params.max_level();
        let galois = plan.rotations.iter().map(|&k| WantedKey {
            name: format!("key for rotation by {k}"),
            element: GaloisElement::rotation(params, k),
            level,
            storage: KeyStorage::Expanded,
        });
        WantedKeys { relin_name: "relinearisation key", relin_level: level, galois: galois.collect() }
    }

    pub(crate) fn check_complete(&self, keys: &EvaluationKeys) -> Result<(), Error> {
        let check = |what: &str, key: Option<&Arc<KeySwitchKey>>, level: usize| match key {
            Some(key) if key.level() >= level => Ok(()),
            _ => Err(Error::MissingKey { what: what.into(), level }),
        };
        check(self.relin_name, keys.relin.as_ref(), self.relin_level)?;
        let mut wanted = self.galois.iter();
        wanted.try_for_each(|key| check(&key.name, keys.galois.get(&key.element), key.level))
    }
}

fn wanted_galois(params: &Params, keys: &[GaloisKey], ring: &str) -> Vec<WantedKey> {
    let wanted = |key: &GaloisKey| WantedKey {
        name: format!("key for {}{ring}", key.automorphism),
        element: key.automorphism.element(params),
        level: key.level,
        storage: key.storage,
    };
    keys.iter().map(wanted).collect()
}

/// The keys of one ring in a bundle.
pub(crate) struct ReadKeys {
    pub(crate) public_key: PublicKey,
    pub(crate) key_id: KeyId,
    pub(crate) keys: EvaluationKeys,
}

impl ReadKeys {
    /// Reads `frames` frames: the public key, and evaluation keys of the same pair in any order.
    pub(crate) fn read<M>(
        reader: &mut BundleReader<impl Read, M>,
        params: &Params,
        frames: u32,
        wanted: &WantedKeys,
    ) -> Result<Self, Error> {
        if frames == 0 {
            return Err(Error::Truncated { what: "the public key" });
        }
        let limits = FrameLimits::new(params);
        let mut frame = Vec::new();
        let (public_key, key_id) = read_ring_public_key(reader, params, &mut frame)?;
        let seeded = wanted.galois.iter().filter(|key| key.storage == KeyStorage::Seeded);
        let seeded: BTreeSet<_> = seeded.map(|key| Some(key.element)).collect();
        let mut keys = EvaluationKeys::default();
        for _ in 1..frames {
            reader.next_frame(limits.key_switch_key, &mut frame)?;
            let (element, key) = ckks::read_key_switch_key(params, key_id, &frame)?;
            let key = if seeded.contains(&element) { key.stored_as(KeyStorage::Seeded) } else { key };
            let before = match element {
                None => keys.relin.replace(Arc::new(key)),
                Some(element) => keys.galois.insert(element, Arc::new(key)),
            };
            if before.is_some() {
                return Err(Error::Malformed("the bundle has a key twice"));
            }
        }
        Ok(ReadKeys { public_key, key_id, keys })
    }
}

/// Reads the public key of a ring from the next frame, which `frame` holds afterwards.
fn read_ring_public_key<M>(
    reader: &mut BundleReader<impl Read, M>,
    params: &Params,
    frame: &mut Vec<u8>,
) -> Result<(PublicKey, KeyId), Error> {
    if !reader.next_frame(FrameLimits::new(params).public_key, frame)? {
        return Err(Error::Truncated { what: "the public key" });
    }
    Ok(ckks::read_public_key(params, frame)?)
}

/// The longest frames under these parameters.
struct FrameLimits {
    public_key: usize,
    key_switch_key: usize,
}

impl FrameLimits {
    fn new(params: &Params) -> Self {
        let top = params.max_level();
        let public_key = ckks::public_key_bytes(params);
        let basis = params.qp_basis(top);
        let poly: usize = (0..basis.len()).map(|i| basis.modulus(i).bits() as usize * params.n() / 8).sum();
        // The key of a rotation has the most digits.
        FrameLimits { public_key, key_switch_key: public_key + params.galois_gadget().digits(top) * poly }
    }
}
