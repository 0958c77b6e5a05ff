//! The keys of a committee, made on one machine: all members' parts of the protocol run in this process, and
//! each member's keys are written for it alone. Nobody keeps the secret, but whoever reads the memory of this
//! process while it runs has it.

use crate::{MemberKeys, MemberShares};
use ckks::{GaloisElement, KeyStorage, KeySwitchKey, Params, PublicKey, Security};
use ckks_committee::{Dealt, MemberShare, PairKeys, PairSecret, deal};
use ckks_secret::SecretKey;
use ckks_shares::{KeyLabel, KeySum, PublicKeySum, Quorum, SessionId};
use envelope::{SealingSecret, SigningSecret};
use protocol::{GaloisKey, KeyPlan, Shape};
use rand::CryptoRng;
use std::io::Write;
use wire::{
    AccessToken, AnswersManifest, BundleKind, BundleWriter, CommitteeManifest, Custody, Manifest,
    MemberManifest, PublicBytes, ScoresManifest, UsersBundle,
};

/// The reason why no keys were made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CeremonyError {
    /// Misuse: parameters without security.
    #[error("the parameters {params} protect nothing; they are for tests")]
    Insecure {
        /// Their name.
        params: &'static str,
    },
    /// Capacity: no parameter set fits the shape.
    #[error(transparent)]
    Protocol(#[from] protocol::Error),
    /// From the scheme.
    #[error(transparent)]
    Ckks(#[from] ckks::Error),
    /// From a sum of shares.
    #[error(transparent)]
    Shares(#[from] ckks_shares::Error),
    /// From a member.
    #[error(transparent)]
    Committee(#[from] ckks_committee::Error),
    /// The bundles cannot be written.
    #[error(transparent)]
    Wire(#[from] wire::Error),
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceremony {
    /// The shape that the keys serve.
    pub shape: Shape,
    /// t of n.
    pub quorum: Quorum,
    /// Whether parameter sets without security are allowed, for tests.
    pub toy: bool,
    /// The time in the manifests, in seconds since 1970.
    pub created: u64,
}

/// Makes the keys of a committee: writes the public bundle and that of users, and returns what each member
/// keeps. The public bundle is written key by key. `progress` is called after each frame of it, with the
/// number of frames written and their total.
///
/// # Errors
/// [`CeremonyError`], by what is wrong.
pub fn hold<R: CryptoRng>(
    ceremony: Ceremony,
    public: impl Write,
    users: impl Write,
    rng: &mut R,
    mut progress: impl FnMut(u32, u32),
) -> Result<Vec<MemberKeys>, CeremonyError> {
    let Ceremony { shape, quorum, toy, created } = ceremony;
    let plan = KeyPlan::new(shape, toy)?;
    if plan.params.security == Security::None && !toy {
        return Err(CeremonyError::Insecure { params: plan.params.name });
    }
    let (params, small) = (plan.params.validate()?, plan.scores.params.validate()?);
    let of_answers = plan.answers.params.validate()?;
    let mut session = SessionId([0; 32]);
    rng.fill_bytes(&mut session.0);
    let identities: Vec<_> =
        (0..quorum.members()).map(|_| (SigningSecret::generate(rng), SealingSecret::generate(rng))).collect();
    let pairs = pair_keys(quorum, rng);
    let secrets = |params: &Params, rng: &mut R| -> Vec<SecretKey> {
        (0..quorum.members()).map(|_| SecretKey::generate(params, rng)).collect()
    };
    let (of_large, of_scores) = (secrets(&params, rng), secrets(&small, rng));
    let under_answers = of_scores.iter().map(|secret| secret.under(&of_answers)).collect();
    let large = Ring::deal(&params, session, quorum, of_large, rng)?;
    let scores = Ring::deal(&small, session, quorum, of_scores, rng)?;
    let answers = Ring::deal(&of_answers, session, quorum, under_answers, rng)?;

    let mut wanted = vec![(None, plan.relin_level, KeyStorage::Expanded)];
    wanted.extend(plan.galois.iter().map(|&GaloisKey { automorphism, level, storage }| {
        (Some(automorphism.element(&params)), level, storage)
    }));
    wanted.sort_by_key(|key| key.0);
    let elements = ckks::pack_elements(&small, plan.scores.gap)?.into_iter().map(Some);
    let wanted_of_scores: Vec<_> =
        [None].into_iter().chain(elements).map(|e| (e, small.max_level(), KeyStorage::Expanded)).collect();

    let public_key = large.public_key(rng)?.narrow(&params);
    let wide_key = scores.public_key(rng)?;
    let narrow_key = wide_key.narrow(&small);
    let (key_id, small_id) = (public_key.id(&params), narrow_key.id(&small));
    let token = AccessToken::generate(rng);
    let members = identities.iter().map(|(signing, sealing)| MemberManifest {
        verifying: PublicBytes(signing.public()),
        sealing: PublicBytes(sealing.public()),
    });
    let committee = CommitteeManifest { threshold: quorum.threshold(), session, members: members.collect() };
    let manifest = |[frames, of_scores, of_answer_keys]: [usize; 3]| {
        let answers = AnswersManifest::new(&of_answers, of_answer_keys as u32);
        let scores = ScoresManifest::new(&small, small_id, of_scores as u32, answers);
        let custody = Custody::Committee(committee.clone());
        Manifest::new(&params, key_id, shape, created, frames as u32, token.digest(), scores, custody)
    };
    let answer_keys = plan.answers.switch + plan.answers.rotations.len();
    let of_public = manifest([1 + wanted.len(), 1 + wanted_of_scores.len(), answer_keys]);

    let mut writer = BundleWriter::new(BundleKind::Public, &of_public, public)?;
    let mut done = 0;
    let mut frame = |frame: &[u8]| -> Result<(), CeremonyError> {
        writer.frame(frame)?;
        done += 1;
        progress(done, of_public.frames);
        Ok(())
    };
    for (ring, public, id, wanted) in
        [(&large, &public_key, key_id, &wanted), (&scores, &narrow_key, small_id, &wanted_of_scores)]
    {
        frame(&ckks::write_public_key(ring.params, public))?;
        for &(element, level, storage) in wanted {
            let key = ring.key(&pairs, element, level, rng)?.stored_as(storage);
            frame(&ckks::write_key_switch_key(ring.params, id, element, &key))?;
        }
    }
    for number in 0..plan.answers.switch {
        let key = ring_switch_key(&large, &answers, number, rng)?;
        frame(&ckks::write_ring_switch_key(&of_answers, small_id, number, &key))?;
    }
    for &k in &plan.answers.rotations {
        let element = GaloisElement::rotation(&of_answers, k);
        let key = answers.key(&pairs, Some(element), of_answers.max_level(), rng)?;
        frame(&ckks::write_key_switch_key(&of_answers, small_id, Some(element), &key))?;
    }
    writer.finish()?;
    UsersBundle::write(&manifest([1, 1, 0]), &ckks::write_public_key(&small, &wide_key), &token, users)?;

    let shares = large.shares.into_iter().zip(scores.shares).zip(answers.shares);
    let members =
        shares.zip(pairs).zip(identities).map(|((((large, scores), answers), pairs), (signing, sealing))| {
            let shares = MemberShares { large, scores, answers };
            MemberKeys::new(of_public.clone(), quorum, shares, pairs, signing, sealing)
        });
    Ok(members.collect())
}

/// The keys of every pair of members, for each member.
fn pair_keys<R: CryptoRng>(quorum: Quorum, rng: &mut R) -> Vec<PairKeys> {
    let n = usize::from(quorum.members());
    let parts: Vec<Vec<PairSecret>> =
        (0..n).map(|_| (0..n).map(|_| PairSecret::generate(rng)).collect()).collect();
    let keys = |own: usize| {
        let mut keys = PairKeys::new(own as u8 + 1);
        for other in (0..n).filter(|other| *other != own) {
            keys.insert(other as u8 + 1, &parts[own][other], &parts[other][own]);
        }
        keys
    };
    (0..n).map(keys).collect()
}

/// The members' secrets of a ring, and their shares of the sum.
struct Ring<'a> {
    params: &'a Params,
    session: SessionId,
    quorum: Quorum,
    secrets: Vec<SecretKey>,
    shares: Vec<MemberShare>,
}

impl<'a> Ring<'a> {
    fn deal<R: CryptoRng>(
        params: &'a Params,
        session: SessionId,
        quorum: Quorum,
        secrets: Vec<SecretKey>,
        rng: &mut R,
    ) -> Result<Self, CeremonyError> {
        let mut received: Vec<Vec<Dealt>> = secrets.iter().map(|_| Vec::new()).collect();
        for secret in &secrets {
            received.iter_mut().zip(deal(secret, quorum, rng)).for_each(|(mine, value)| mine.push(value));
        }
        let share = |(j, dealt): (u8, &Vec<Dealt>)| MemberShare::new(params, quorum, j, dealt, rng);
        let shares = (1..).zip(&received).map(share).collect::<Result<_, _>>()?;
        Ok(Ring { params, session, quorum, secrets, shares })
    }

    /// The wide public key.
    fn public_key<R: CryptoRng>(&self, rng: &mut R) -> Result<PublicKey, CeremonyError> {
        let mut sum = PublicKeySum::new(self.params, self.session);
        let seed = self.session.seed(self.params, KeyLabel::Public);
        for secret in &self.secrets {
            sum.add(&ckks_secret::wide_public_key_from(secret, seed, rng))?;
        }
        Ok(sum.finish(self.quorum)?)
    }

    fn key<R: CryptoRng>(
        &self,
        pairs: &[PairKeys],
        element: Option<GaloisElement>,
        level: usize,
        rng: &mut R,
    ) -> Result<KeySwitchKey, CeremonyError> {
        let label = element.map_or(KeyLabel::Relinearisation, KeyLabel::Galois);
        let seed = self.session.seed(self.params, label);
        let mut sum = KeySum::new(self.params, self.session, label, level);
        for ((secret, share), pairs) in self.secrets.iter().zip(&self.shares).zip(pairs) {
            let part = match element {
                None => share.relinearisation_key(pairs, self.session)?,
                Some(element) => ckks_secret::galois_key_from(secret, element, level, seed, rng),
            };
            sum.add(&part)?;
        }
        Ok(sum.finish(self.quorum)?)
    }
}

/// The key of this number of the switch of answers into the small ring.
fn ring_switch_key<R: CryptoRng>(
    large: &Ring,
    answers: &Ring,
    number: usize,
    rng: &mut R,
) -> Result<KeySwitchKey, CeremonyError> {
    let label = KeyLabel::RingSwitch(number);
    let seed = answers.session.seed(answers.params, label);
    let mut sum = KeySum::new(answers.params, answers.session, label, answers.params.max_level());
    for (from, to) in large.secrets.iter().zip(&answers.secrets) {
        sum.add(&ckks_secret::ring_switch_key_from(from, to, number, seed, rng))?;
    }
    Ok(sum.finish(answers.quorum)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeysError;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    /// The bundles are complete, and a member's file is read as it was written, by its owner alone.
    #[test]
    fn keys_are_written_and_read() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let quorum = Quorum::new(2, 3).unwrap();
        let ceremony = Ceremony { shape: Shape::for_problem(2, 2), quorum, toy: true, created: 0 };
        let (mut public, mut users, mut frames) = (Vec::new(), Vec::new(), Vec::new());
        let members =
            hold(ceremony, &mut public, &mut users, &mut rng, |done, all| frames.push((done, all))).unwrap();
        let public = wire::PublicBundle::read(&public[..]).unwrap();
        assert_eq!(frames.len() as u32, public.manifest.frames);
        let users = UsersBundle::read(&users[..]).unwrap();
        assert_eq!(users.manifest.key_id, public.manifest.key_id);

        let folder = tempfile::tempdir().unwrap();
        for keys in &members {
            let path = folder.path().join(format!("member-{}.keys", keys.member()));
            keys.save(&path, None, &mut rng).unwrap();
            assert!(
                matches!(keys.save(&path, None, &mut rng), Err(KeysError::Io(_))),
                "nothing is overwritten"
            );
            #[cfg(unix)]
            {
                let mode =
                    std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
                assert_eq!(mode & 0o777, 0o600);
            }
            let read = MemberKeys::open(&path, None).unwrap();
            assert_eq!((read.member(), read.quorum()), (keys.member(), quorum));
            assert_eq!(read.manifest(), &public.manifest);
            let bytes = std::fs::read(&path).unwrap();
            let bad = folder.path().join("bad");
            for at in [0, 8, 10, 12, 40, bytes.len() / 2, bytes.len() - 33, bytes.len() - 1] {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                std::fs::write(&bad, &changed).unwrap();
                assert!(MemberKeys::open(&bad, None).is_err(), "byte {at}");
            }
            for length in [0, 7, 15, 1000, bytes.len() - 1] {
                std::fs::write(&bad, &bytes[..length]).unwrap();
                assert!(MemberKeys::open(&bad, None).is_err(), "{length} bytes");
            }
        }
        let sealed = folder.path().join("sealed");
        let phrase = |text: &str| ckks_secret::Passphrase::new(text.as_bytes().to_vec().into()).unwrap();
        let passphrase = phrase("correct horse battery");
        members[0].save(&sealed, Some(&passphrase), &mut rng).unwrap();
        assert!(matches!(MemberKeys::open(&sealed, None), Err(KeysError::Sealed)));
        assert_eq!(MemberKeys::open(&sealed, Some(&passphrase)).unwrap().member(), 1);
        assert!(matches!(
            MemberKeys::open(&sealed, Some(&phrase("wrong horse battery"))),
            Err(KeysError::Secret(_))
        ));
    }
}
