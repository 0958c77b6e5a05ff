use ckks::{GaloisElement, KeyStorage, KeySwitchKey, Params, PublicKey};
use ckks_committee::{Dealt, MemberShare, PairKeys, PairSecret, deal};
use ckks_secret::SecretKey;
use ckks_shares::{KeyLabel, KeySum, PublicKeySum, Quorum, SessionId};
use envelope::{SealingSecret, SigningSecret};
use helba_member::{MemberKeys, MemberShares};
use keygen::Request;
use protocol::{GaloisKey, KeyPlan};
use rand::CryptoRng;
use wire::{
    AccessToken, AnswersManifest, BundleKind, BundleWriter, CommitteeManifest, Custody, Manifest,
    MemberManifest, PublicBytes, ScoresManifest, UsersBundle,
};

/// The keys of a committee whose members share this process.
pub(crate) struct InProcess {
    /// The public bundle.
    pub(crate) public: Vec<u8>,
    /// The bundle of users.
    pub(crate) users: Vec<u8>,
    /// What each member keeps.
    pub(crate) members: Vec<MemberKeys>,
}

struct Ring<'a> {
    params: &'a Params,
    secrets: Vec<SecretKey>,
    shares: Vec<MemberShare>,
}

fn ring<'a, R: CryptoRng>(
    params: &'a Params,
    quorum: Quorum,
    secrets: Vec<SecretKey>,
    rng: &mut R,
) -> Ring<'a> {
    let mut received: Vec<Vec<Dealt>> = secrets.iter().map(|_| Vec::new()).collect();
    for secret in &secrets {
        received.iter_mut().zip(deal(secret, quorum, rng)).for_each(|(mine, value)| mine.push(value));
    }
    let shares =
        (1..).zip(&received).map(|(j, dealt)| MemberShare::new(params, quorum, j, dealt, rng).unwrap());
    let shares = shares.collect();
    Ring { params, secrets, shares }
}

impl Ring<'_> {
    fn public_key<R: CryptoRng>(&self, session: SessionId, quorum: Quorum, rng: &mut R) -> PublicKey {
        let mut sum = PublicKeySum::new(self.params, session);
        let seed = session.seed(self.params, KeyLabel::Public);
        for secret in &self.secrets {
            sum.add(&ckks_secret::wide_public_key_from(secret, seed, rng)).unwrap();
        }
        sum.finish(quorum).unwrap()
    }

    fn key<R: CryptoRng>(
        &self,
        session: SessionId,
        quorum: Quorum,
        pairs: &[PairKeys],
        (element, level): (Option<GaloisElement>, usize),
        rng: &mut R,
    ) -> KeySwitchKey {
        let label = element.map_or(KeyLabel::Relinearisation, KeyLabel::Galois);
        let mut sum = KeySum::new(self.params, session, label, level);
        for (i, secret) in self.secrets.iter().enumerate() {
            let share = match element {
                None => self.shares[i].relinearisation_key(&pairs[i], session).unwrap(),
                Some(element) => ckks_secret::galois_key_from(
                    secret,
                    element,
                    level,
                    session.seed(self.params, label),
                    rng,
                ),
            };
            sum.add(&share).unwrap();
        }
        sum.finish(quorum).unwrap()
    }
}

/// Makes the keys of a committee.
pub(crate) fn in_one_process<R: CryptoRng>(request: Request, quorum: Quorum, rng: &mut R) -> InProcess {
    let Request { shape, toy, created } = request;
    let plan = KeyPlan::new(shape, toy).unwrap();
    let (params, small) = (plan.params.validate().unwrap(), plan.scores.params.validate().unwrap());
    let of_answers = plan.answers.params.validate().unwrap();
    let n = quorum.members();
    let secrets = |params: &Params, rng: &mut R| -> Vec<SecretKey> {
        (0..n).map(|_| SecretKey::generate(params, rng)).collect()
    };
    let (large_secrets, small_secrets) = (secrets(&params, rng), secrets(&small, rng));
    let answer_secrets: Vec<SecretKey> = small_secrets.iter().map(|s| s.under(&of_answers)).collect();
    let large = ring(&params, quorum, large_secrets, rng);
    let scores = ring(&small, quorum, small_secrets, rng);
    let answers = ring(&of_answers, quorum, answer_secrets, rng);
    let mut session = SessionId([0; 32]);
    rng.fill_bytes(&mut session.0);
    let signing: Vec<_> = (0..n).map(|_| SigningSecret::generate(rng)).collect();
    let sealing: Vec<_> = (0..n).map(|_| SealingSecret::generate(rng)).collect();
    let dealt: Vec<Vec<PairSecret>> =
        (0..n).map(|_| (0..n).map(|_| PairSecret::generate(rng)).collect()).collect();
    let pairs: Vec<PairKeys> = (0..n)
        .map(|i| {
            let mut keys = PairKeys::new(i + 1);
            for k in (0..n).filter(|k| *k != i) {
                let (i, k) = (usize::from(i), usize::from(k));
                keys.insert(k as u8 + 1, &dealt[i][k], &dealt[k][i]);
            }
            keys
        })
        .collect();
    let members = signing.iter().zip(&sealing).map(|(signing, sealing)| MemberManifest {
        verifying: PublicBytes(signing.public()),
        sealing: PublicBytes(sealing.public()),
    });
    let committee = CommitteeManifest { threshold: quorum.threshold(), session, members: members.collect() };
    let token = AccessToken::generate(rng);

    let top = params.max_level();
    let mut wanted = vec![(None, top, KeyStorage::Expanded)];
    wanted.extend(plan.galois.iter().map(|&GaloisKey { automorphism, level, storage }| {
        (Some(automorphism.element(&params)), level, storage)
    }));
    wanted.sort_by_key(|key| key.0);
    let elements = ckks::pack_elements(&small, plan.scores.gap).unwrap().into_iter().map(Some);
    let of_scores: Vec<_> =
        [None].into_iter().chain(elements).map(|e| (e, small.max_level(), KeyStorage::Expanded)).collect();
    let public_key = large.public_key(session, quorum, rng);
    let small_key = scores.public_key(session, quorum, rng);
    let (key_id, small_id) = (public_key.id(&params), small_key.id(&small));
    let manifest = |frames: [usize; 3]| {
        let [frames, of_scores, answers] = frames.map(|count| count as u32);
        let answers = AnswersManifest::new(&of_answers, answers);
        let scores = ScoresManifest::new(&small, small_id, of_scores, answers);
        let custody = Custody::Committee(committee.clone());
        Manifest::new(&params, key_id, shape, created, frames, token.digest(), scores, custody)
    };
    let of_public =
        manifest([1 + wanted.len(), 1 + of_scores.len(), plan.answers.switch + plan.answers.rotations.len()]);
    let mut writer = BundleWriter::new(BundleKind::Public, &of_public, Vec::new()).unwrap();
    for (ring, public, id, wanted) in
        [(&large, &public_key, key_id, &wanted), (&scores, &small_key, small_id, &of_scores)]
    {
        writer.frame(&ckks::write_public_key(ring.params, &public.narrow(ring.params))).unwrap();
        for &(element, level, storage) in wanted {
            let key = ring.key(session, quorum, &pairs, (element, level), rng);
            writer
                .frame(&ckks::write_key_switch_key(ring.params, id, element, &key.stored_as(storage)))
                .unwrap();
        }
    }
    for number in 0..plan.answers.switch {
        let label = KeyLabel::RingSwitch(number);
        let seed = session.seed(&of_answers, label);
        let mut sum = KeySum::new(&of_answers, session, label, of_answers.max_level());
        for (from, to) in large.secrets.iter().zip(&answers.secrets) {
            sum.add(&ckks_secret::ring_switch_key_from(from, to, number, seed, rng)).unwrap();
        }
        let key = sum.finish(quorum).unwrap();
        writer.frame(&ckks::write_ring_switch_key(&of_answers, small_id, number, &key)).unwrap();
    }
    for &k in &plan.answers.rotations {
        let element = GaloisElement::rotation(&of_answers, k);
        let key = answers.key(session, quorum, &pairs, (Some(element), of_answers.max_level()), rng);
        writer.frame(&ckks::write_key_switch_key(&of_answers, small_id, Some(element), &key)).unwrap();
    }
    let (public, _) = writer.finish().unwrap();
    let small_frame = ckks::write_public_key(&small, &small_key);
    let (users, _) = UsersBundle::write(&manifest([1, 1, 0]), &small_frame, &token, Vec::new()).unwrap();
    let manifest = of_public;
    let shares = large.shares.into_iter().zip(scores.shares).zip(answers.shares);
    let members = shares.zip(pairs).zip(signing.into_iter().zip(sealing));
    let members = members
        .map(|((((large, scores), answers), pairs), (signing, sealing))| {
            let shares = MemberShares { large, scores, answers };
            MemberKeys::new(manifest.clone(), quorum, shares, pairs, signing, sealing)
        })
        .collect();
    InProcess { public, users, members }
}
