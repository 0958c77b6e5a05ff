use crate::Error;
use ckks::{GaloisElement, KeyId, KeyStorage, Params, ParamsSpec, PublicKey, Security};
use ckks_secret::SecretKey;
use protocol::{
    AnswerKeys, DecisionKeys, Exchanging, GaloisKey, KeyPlan, ScoreRing, Shape, Updates, UserKeys, WidthShape,
};
use rand::CryptoRng;
use std::io::Write;
use wire::{
    AccessToken, AnswersManifest, BundleKind, BundleWriter, DecisionsManifest, EnrollerSecret, Manifest,
    RingManifest, ScoresManifest, SecretBundle,
};

/// A request for a key pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The shape that the keys serve.
    pub shape: Shape,
    /// The security level that the keys have at least. [`Security::None`] allows parameter sets without
    /// security, for tests.
    pub security: Security,
    /// The width of the bandits that the keys serve; those of a root serve both.
    pub width: WidthShape,
    /// How often evaluations ask a holder of the key. Those of stages take the tangent and updates by
    /// products.
    pub exchanges: Exchanging,
    /// How the updates of their bandits are computed.
    pub updates: Updates,
    /// Whose keys users have. With keys of their own, the secret bundle is for the owner alone.
    pub keys: UserKeys,
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
    let Request { shape, security, width, exchanges, updates, keys, created } = request;
    let plan = KeyPlan::for_exchanges(shape, security, width, updates, exchanges)?.for_users(keys);
    check_security(&plan.params, security)?;
    let large = RingKeys::large(&plan, rng)?;
    let decisions = plan.decisions.as_ref().map(|keys| RingKeys::decisions(keys, rng)).transpose()?;
    let scores = RingKeys::scores(plan.scores, rng)?;
    let token = AccessToken::generate(rng);
    let of_answers = plan.answers.params.validate()?;
    let (params, key_id, digest) = (&large.params, large.key_id, token.digest());
    let of_decisions = decisions.as_ref();
    let enroller = match keys {
        UserKeys::Shared => None,
        UserKeys::Own => Some(EnrollerSecret::of_secret_key(&large.secret_key.to_bytes(key_id)).public()),
    };
    let manifest = |[frames, of_decisions_frames, of_scores]: [u32; 3], answers| {
        let answers = AnswersManifest::new(&of_answers, answers);
        let scores = ScoresManifest { ring: scores.manifest(), frames: of_scores, answers };
        let manifest = Manifest::new(params, key_id, shape, created, frames, digest, scores)
            .of_width(width)
            .of_updates(updates)
            .of_exchanges(exchanges)
            .of_enroller(enroller);
        match of_decisions {
            Some(ring) => manifest
                .with_decisions(DecisionsManifest { ring: ring.manifest(), frames: of_decisions_frames }),
            None => manifest,
        }
    };
    // A secret bundle has one key of each ring, and the token.
    let rings: Vec<&RingKeys> = [Some(&large), of_decisions, Some(&scores)].into_iter().flatten().collect();
    let frames: Vec<_> = rings.iter().map(|ring| ring.secret_key.to_bytes(ring.key_id)).collect();
    let frames: Vec<&[u8]> = frames.iter().map(|frame| &frame[..]).collect();
    let (_, secret_bytes) = SecretBundle::write(&manifest([2, 1, 1], 0), &frames, &token, secret)?;

    let answers = (plan.answers.switch + plan.answers.rotations.len()) as u32;
    let frames =
        [Some(&large), of_decisions, Some(&scores)].map(|ring| ring.map_or(0, RingKeys::public_frames));
    let manifest = manifest(frames, answers);
    let mut writer = BundleWriter::new(BundleKind::Public, &manifest, public)?;
    let mut done = 0;
    let mut progress = || {
        done += 1;
        progress(done, manifest.frames);
    };
    for ring in rings {
        ring.write(&mut writer, rng, &mut progress)?;
    }
    write_answer_keys(
        &of_answers,
        &plan.answers,
        &of_decisions.unwrap_or(&large).secret_key,
        &scores,
        &mut writer,
        rng,
        &mut progress,
    )?;
    let (_, public_bytes) = writer.finish()?;
    let security = params.spec().security;
    let max_log2_qp = match security {
        Security::None => None,
        _ => security.max_log_qp(params.spec().log_n),
    };
    Ok(Summary { manifest, public_bytes, secret_bytes, max_log2_qp })
}

/// The key pair of a ring, and the evaluation keys that it will have.
pub(crate) struct RingKeys {
    pub(crate) params: Params,
    pub(crate) secret_key: SecretKey,
    public_key: PublicKey,
    pub(crate) key_id: KeyId,
    /// In the order in which they are written: the relinearisation key first.
    wanted: Vec<(Option<GaloisElement>, usize, KeyStorage)>,
}

impl RingKeys {
    fn large<R: CryptoRng>(plan: &KeyPlan, rng: &mut R) -> Result<Self, Error> {
        let params = plan.params.validate()?;
        let mut wanted = vec![(None, plan.relin_level, KeyStorage::Expanded)];
        wanted.extend(plan.galois.iter().map(|&GaloisKey { automorphism, level, storage }| {
            (Some(automorphism.element(&params)), level, storage)
        }));
        wanted.sort_by_key(|key| key.0);
        Ok(Self::generate(params, wanted, rng))
    }

    fn decisions<R: CryptoRng>(keys: &DecisionKeys, rng: &mut R) -> Result<Self, Error> {
        let params = keys.params.validate()?;
        let galois = keys.galois.iter().map(|&GaloisKey { automorphism, level, storage }| {
            (Some(automorphism.element(&params)), level, storage)
        });
        let relin = (None, params.max_level(), KeyStorage::Expanded);
        let mut wanted: Vec<_> = [relin].into_iter().chain(galois).collect();
        wanted.sort_by_key(|key| key.0);
        Ok(Self::generate(params, wanted, rng))
    }

    fn scores<R: CryptoRng>(ring: ScoreRing, rng: &mut R) -> Result<Self, Error> {
        let params = ring.params.validate()?;
        let elements = ckks::pack_elements(&params, ring.gap)?.into_iter().map(Some);
        let key = |element| (element, params.max_level(), KeyStorage::Expanded);
        let wanted = [None].into_iter().chain(elements).map(key).collect();
        Ok(Self::generate(params, wanted, rng))
    }

    pub(crate) fn generate<R: CryptoRng>(
        params: Params,
        wanted: Vec<(Option<GaloisElement>, usize, KeyStorage)>,
        rng: &mut R,
    ) -> Self {
        let secret_key = SecretKey::generate(&params, rng);
        let public_key = ckks_secret::public_key(&secret_key, rng);
        let key_id = public_key.id(&params);
        RingKeys { params, secret_key, public_key, key_id, wanted }
    }

    fn manifest(&self) -> RingManifest {
        RingManifest::new(&self.params, self.key_id)
    }

    pub(crate) fn public_frames(&self) -> u32 {
        1 + self.wanted.len() as u32
    }

    /// Writes the public key, then generates and writes one evaluation key after the other. `progress` is
    /// called after each frame.
    pub(crate) fn write<W: Write, R: CryptoRng>(
        &self,
        writer: &mut BundleWriter<W>,
        rng: &mut R,
        mut progress: impl FnMut(),
    ) -> Result<(), Error> {
        let RingKeys { params, secret_key, public_key, key_id, wanted } = self;
        writer.frame(&ckks::write_public_key(params, public_key))?;
        progress();
        for &(element, level, storage) in wanted {
            let key = match element {
                None => ckks_secret::relin_key(secret_key, level, rng),
                Some(element) => ckks_secret::galois_key(secret_key, element, level, rng),
            };
            writer.frame(&ckks::write_key_switch_key(params, *key_id, element, &key.stored_as(storage)))?;
            progress();
        }
        Ok(())
    }
}

/// Generates and writes the keys of answers, whose parameters are `params`, one after the other.
fn write_answer_keys<W: Write, R: CryptoRng>(
    params: &Params,
    plan: &AnswerKeys,
    decisions: &SecretKey,
    scores: &RingKeys,
    writer: &mut BundleWriter<W>,
    rng: &mut R,
    mut progress: impl FnMut(),
) -> Result<(), Error> {
    let (secret, key_id) = (scores.secret_key.under(params), scores.key_id);
    for number in 0..plan.switch {
        let key = ckks_secret::ring_switch_key(decisions, &secret, number, rng);
        writer.frame(&ckks::write_ring_switch_key(params, key_id, number, &key))?;
        progress();
    }
    for &k in &plan.rotations {
        let element = GaloisElement::rotation(params, k);
        let key = ckks_secret::galois_key(&secret, element, params.max_level(), rng);
        writer.frame(&ckks::write_key_switch_key(params, key_id, Some(element), &key))?;
        progress();
    }
    Ok(())
}

fn check_security(params: &ParamsSpec, wanted: Security) -> Result<(), Error> {
    let (got, want) = (params.security.bits(), wanted.bits());
    if got < want {
        return Err(Error::Insecure { params: params.name, got, want });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_with_less_security_are_refused() {
        use Security::{Classical128, Classical192, Classical256, None};
        for spec in ParamsSpec::named().iter().chain(ParamsSpec::scores()) {
            let has = spec.security.bits();
            for wanted in [None, Classical128, Classical192, Classical256] {
                match check_security(spec, wanted) {
                    Err(Error::Insecure { params, got, want }) => {
                        assert!(params == spec.name && got == has && want == wanted.bits() && has < want);
                    }
                    other => assert!(has >= wanted.bits() && other.is_ok(), "{}", spec.name),
                }
            }
        }
    }
}
