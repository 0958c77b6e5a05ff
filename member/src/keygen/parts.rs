//! What a member computes. All that it draws follows from one seed, so that the same member computes the same
//! bytes after a restart, and everybody does once the seed is opened.

use super::plan::{FORMS, Ids, Plan, Ring, WantedKey};
use super::{Error, evaluation::Test};
use crate::MemberShares;
use ckks::PublicKey;
use ckks_committee::{Dealt, MemberShare, PairKeys, PairSecret, deal};
use ckks_secret::SecretKey;
use ckks_shares::{KeyLabel, OpeningShare, PublicKeySum};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use wire::{AccessToken, CommitteeManifest, KeysDigest, Manifest, PublicBytes};
use zeroize::Zeroizing;

/// The secrets of a member.
pub(super) struct Own<'a> {
    plan: &'a Plan,
    member: u8,
    seed: Zeroizing<[u8; 32]>,
    large: SecretKey,
    scores: SecretKey,
    /// That of scores, under the primes of answers.
    answers: SecretKey,
}

impl<'a> Own<'a> {
    /// The secrets of `member` from its seed.
    pub(super) fn new(plan: &'a Plan, member: u8, seed: Zeroizing<[u8; 32]>) -> Self {
        let secret = |params, label| SecretKey::generate(params, &mut stream(&seed, label, 0));
        let (large, scores) =
            (secret(&plan.large, "secret of large"), secret(&plan.scores, "secret of scores"));
        let answers = scores.under(&plan.answers);
        Own { plan, member, seed, large, scores, answers }
    }

    pub(super) fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    fn stream(&self, label: &str, number: usize) -> ChaCha20Rng {
        stream(&self.seed, label, number)
    }

    fn secret(&self, ring: Ring) -> &SecretKey {
        match ring {
            Ring::Large => &self.large,
            Ring::Scores => &self.scores,
            Ring::Answers => &self.answers,
        }
    }

    /// The frames of the public keys: of the large ring, and the wide one of scores.
    pub(super) fn public_keys(&self) -> [Vec<u8>; 2] {
        let (plan, session) = (self.plan, self.plan.session);
        let seed = |params| session.seed(params, KeyLabel::Public);
        let mut rng = self.stream("public key", 0);
        let large = ckks_secret::public_key_from(&self.large, seed(&plan.large), &mut rng);
        let scores = ckks_secret::wide_public_key_from(&self.scores, seed(&plan.scores), &mut rng);
        [ckks::write_public_key(&plan.large, &large), ckks::write_public_key(&plan.scores, &scores)]
    }

    /// What it deals to each member, itself too: a value for each ring, its part of the pair key, and of the
    /// token.
    pub(super) fn deals(&self) -> Vec<Zeroizing<Vec<u8>>> {
        let bytes = self.plan.dealt_bytes();
        let mut out: Vec<_> =
            self.plan.members().map(|_| Zeroizing::new(Vec::with_capacity(bytes))).collect();
        for (ring, label) in [
            (Ring::Large, "deal of large"),
            (Ring::Scores, "deal of scores"),
            (Ring::Answers, "deal of answers"),
        ] {
            let dealt = deal(self.secret(ring), self.plan.quorum, &mut self.stream(label, 0));
            out.iter_mut().zip(dealt).for_each(|(out, value)| value.write(self.plan.params(ring), out));
        }
        let token = AccessToken::generate(&mut self.stream("token", 0));
        for (k, out) in out.iter_mut().enumerate() {
            out.extend(*PairSecret::generate(&mut self.stream("pair", k)).to_bytes());
            out.extend(token.as_bytes());
        }
        out
    }

    /// Seals what is dealt to member `to`.
    ///
    /// # Errors
    /// [`Error::Envelope`].
    pub(super) fn seal(&self, to: u8, dealt: &[u8]) -> Result<Vec<u8>, Error> {
        let card = &self.plan.proposal.members[usize::from(to - 1)];
        let mut rng = self.stream("seal", to.into());
        Ok(envelope::seal(&card.sealing.0, &purpose(self.plan, DEAL, self.member, to), dealt, &mut rng)?)
    }

    /// What the member has after all deals. `dealt` is what each member dealt to it, itself too.
    ///
    /// # Errors
    /// The number of the member whose deal is none.
    pub(super) fn receive(&self, dealt: &[Zeroizing<Vec<u8>>]) -> Result<Received, u8> {
        let (plan, quorum) = (self.plan, self.plan.quorum);
        let sizes = [Ring::Large, Ring::Scores, Ring::Answers].map(|ring| Dealt::bytes(plan.params(ring)));
        let mut of_rings: [Vec<Dealt>; 3] = Default::default();
        let mut token = blake3::Hasher::new_derive_key("helba committee v1: access token");
        let mut pairs = PairKeys::new(self.member);
        for (from, bytes) in plan.members().zip(dealt) {
            if bytes.len() != plan.dealt_bytes() {
                return Err(from);
            }
            let mut rest = &bytes[..];
            let rings = [Ring::Large, Ring::Scores, Ring::Answers];
            for ((ring, size), values) in rings.into_iter().zip(sizes).zip(&mut of_rings) {
                let (part, after) = rest.split_at(size);
                values.push(Dealt::read(plan.params(ring), part).map_err(|_| from)?);
                rest = after;
            }
            let (theirs, part) = rest.split_first_chunk::<32>().ok_or(from)?;
            if from != self.member {
                let mine = PairSecret::generate(&mut self.stream("pair", usize::from(from - 1)));
                pairs.insert(from, &mine, &PairSecret::from_bytes(theirs));
            }
            token.update(part);
        }
        let [large, scores, answers] = of_rings;
        let mut rng = self.stream("answers of a member", 0);
        let mut share = |ring, dealt: &[Dealt]| {
            // There is one value of each member.
            MemberShare::new(plan.params(ring), quorum, self.member, dealt, &mut rng).map_err(|_| self.member)
        };
        let shares = MemberShares {
            large: share(Ring::Large, &large)?,
            scores: share(Ring::Scores, &scores)?,
            answers: share(Ring::Answers, &answers)?,
        };
        let token = AccessToken::from_bytes(token.finalize().as_bytes()).map_err(|_| self.member)?;
        Ok(Received { shares, pairs, token })
    }

    /// The frame of the share of key `i`.
    ///
    /// # Errors
    /// [`Error::Committee`].
    pub(super) fn key(&self, received: &Received, i: usize, ids: Ids) -> Result<Vec<u8>, Error> {
        let wanted: &WantedKey = &self.plan.keys[i];
        let (params, session) = (self.plan.params(wanted.ring), self.plan.session);
        let seed = session.seed(params, wanted.label);
        let mut rng = self.stream("key", i);
        let key = match wanted.label {
            KeyLabel::Galois(element) => {
                let secret = self.secret(wanted.ring);
                ckks_secret::galois_key_from(secret, element, wanted.level, seed, &mut rng)
            }
            KeyLabel::RingSwitch(number) => {
                ckks_secret::ring_switch_key_from(&self.large, &self.answers, number, seed, &mut rng)
            }
            KeyLabel::Public | KeyLabel::Relinearisation => {
                received.share(wanted.ring).relinearisation_key(&received.pairs, session)?
            }
        };
        Ok(self.plan.frame(wanted, ids, &key))
    }
}

/// What a member has after all deals.
pub(super) struct Received {
    pub(super) shares: MemberShares,
    pub(super) pairs: PairKeys,
    pub(super) token: AccessToken,
}

impl Received {
    fn share(&self, ring: Ring) -> &MemberShare {
        match ring {
            Ring::Large => &self.shares.large,
            Ring::Scores => &self.shares.scores,
            Ring::Answers => &self.shares.answers,
        }
    }

    /// Appends the shares of the openings of a test to the message of `member`.
    ///
    /// # Errors
    /// [`Error::Committee`].
    pub(super) fn test(&self, plan: &Plan, member: u8, test: &Test, out: &mut Vec<u8>) -> Result<(), Error> {
        let sets = plan.sets_of(member);
        let share = self.share(test.ring);
        let shares = share.test_key(
            &self.pairs,
            &test.forms,
            test.smudge,
            &sets,
            &test.header,
            test.ciphertext.c1(),
        )?;
        let residues = shares.iter().flat_map(|share| share.0.iter().flatten());
        out.extend(residues.flat_map(|x| x.to_le_bytes()));
        Ok(())
    }
}

/// Reads the shares of the openings of a test at `level`, of as many sets: the start of `bytes`, which loses
/// them. `None` if there are fewer.
pub(super) fn read_shares(bytes: &mut &[u8], sets: usize, level: usize) -> Option<Vec<OpeningShare>> {
    let (part, rest) = bytes.split_at_checked(sets * FORMS * (level + 1) * 8)?;
    *bytes = rest;
    let (words, _) = part.as_chunks::<8>();
    let residues: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let share = |of_set: &[u64]| OpeningShare(of_set.chunks(level + 1).map(<[u64]>::to_vec).collect());
    Some(residues.chunks(FORMS * (level + 1)).map(share).collect())
}

/// What is sealed to a member: shares.
pub(super) const DEAL: &str = "helba committee v1: deal";
/// What is sealed to a member of the next epoch: half of a pair key.
pub(super) const PAIR: &str = "helba committee v1: pair";

/// The purpose of a sealed message between members.
pub(super) fn purpose(plan: &Plan, what: &str, from: u8, to: u8) -> Vec<u8> {
    [what.as_bytes(), &plan.session.0[..], &[from, to]].concat()
}

/// The hash that commits to public keys.
pub(super) fn commitment(public_keys: &[Vec<u8>; 2]) -> [u8; 32] {
    let hashes = public_keys.each_ref().map(|frame| *blake3::hash(frame).as_bytes());
    blake3::derive_key("helba committee v1: commitment", hashes.as_flattened())
}

/// The generator of one purpose of a member.
pub(super) fn stream(seed: &[u8; 32], label: &str, number: usize) -> ChaCha20Rng {
    let mut hash = blake3::Hasher::new_keyed(seed);
    hash.update(&(number as u64).to_le_bytes()).update(label.as_bytes());
    let seed = Zeroizing::new(*hash.finalize().as_bytes());
    ChaCha20Rng::from_seed(*seed)
}

/// The sums of the public keys of both rings.
pub(super) struct PublicKeySums<'a> {
    plan: &'a Plan,
    large: PublicKeySum,
    scores: PublicKeySum,
}

impl<'a> PublicKeySums<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let [large, scores] =
            [&plan.large, &plan.scores].map(|params| PublicKeySum::new(params, plan.session));
        PublicKeySums { plan, large, scores }
    }

    /// Adds the keys of a member.
    ///
    /// # Errors
    /// [`Error::Ckks`], [`Error::Shares`].
    pub(super) fn add(&mut self, [large, scores]: &[Vec<u8>; 2]) -> Result<(), Error> {
        self.large.add(&ckks::read_public_key(&self.plan.large, large)?.0)?;
        Ok(self.scores.add(&ckks::read_wide_public_key(&self.plan.scores, scores)?.0)?)
    }

    /// The keys of the committee.
    ///
    /// # Errors
    /// [`Error::Shares`].
    pub(super) fn finish(self) -> Result<PublicKeys, Error> {
        let plan = self.plan;
        let (large, scores) = (self.large.finish(plan.quorum)?, self.scores.finish(plan.quorum)?);
        let ids = Ids { large: large.id(&plan.large), scores: scores.id(&plan.scores) };
        Ok(PublicKeys { large, scores, ids })
    }
}

/// The public keys of a committee.
pub(super) struct PublicKeys {
    pub(super) large: PublicKey,
    /// The wide key.
    pub(super) scores: PublicKey,
    pub(super) ids: Ids,
}

impl PublicKeys {
    /// The frame of the public key that stands before key `i` in the public bundle, if one does.
    pub(super) fn before(&self, plan: &Plan, i: usize) -> Option<Vec<u8>> {
        let ring = |i: usize| plan.keys.get(i).map(|key| key.ring);
        match ring(i) {
            Some(Ring::Large) if i == 0 => Some(ckks::write_public_key(&plan.large, &self.large)),
            Some(Ring::Scores) if ring(i - 1) == Some(Ring::Large) => {
                Some(ckks::write_public_key(&plan.scores, &self.scores.narrow(&plan.scores)))
            }
            _ => None,
        }
    }

    /// The frame of the wide key.
    pub(super) fn wide(&self, plan: &Plan) -> Vec<u8> {
        ckks::write_public_key(&plan.scores, &self.scores)
    }

    /// The manifests of the public and of the users' bundle, without signatures. `keys` is the digest of the
    /// frames of the public bundle.
    pub(super) fn manifests(&self, plan: &Plan, token: &AccessToken, keys: PublicBytes) -> [Manifest; 2] {
        let mut wide_key = KeysDigest::default();
        wide_key.add(&self.wide(plan));
        let custody = CommitteeManifest {
            threshold: plan.quorum.threshold(),
            session: plan.session,
            members: plan.proposal.members.clone(),
            keys,
            wide_key: wide_key.digest(),
            signatures: Vec::new(),
            before: Vec::new(),
            follows: plan.proposal.follows.clone(),
        };
        plan.manifests(self.ids, token.digest(), custody)
    }
}
