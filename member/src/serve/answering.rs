//! A member's answer to a question, without I/O but for its ledger.

use super::{Error, Ledger};
use crate::MemberKeys;
use ckks::{KeyId, Params, PublicKey};
use ckks_committee::{MemberShare, Smudge};
use ckks_shares::{ActiveSet, Forms, RequestId, RequestKind, RotationShare, TransferShare};
use protocol::exchange::{OPENED_DEVIATION, OPENED_FORM_BITS};
use protocol::levels::ANSWER_LEVEL;
use protocol::{Exchanges, MOST_FACTOR, ScoreRing, TaskKind};
use std::collections::BTreeSet;
use wire::{
    AnswerUser, CheckEvidence, Created, Custody, Evidence, FeedbackCheck, Manifest, MemberReply,
    MemberRequest, PublicBundle, Question, RoundInput, SealedShare, Wanted, check_header, check_request,
    rotation_requests, rotations, sign_frames, transfer_header, transfers, write_openings,
};

/// A bandit whose keys and plan a member has checked.
pub struct Joined {
    pub(super) created: Created,
    pub(super) exchanges: Exchanges,
}

impl Joined {
    /// The bandit `created`, if it has the keys of this member, and its plan follows from its configuration.
    ///
    /// # Errors
    /// [`Error::OtherKeys`], [`Error::Refused`], [`Error::Protocol`], [`Error::Ckks`].
    pub fn new(keys: &MemberKeys, created: Created) -> Result<Self, Error> {
        let manifest = keys.manifest();
        let (large, small) = (keys.large().params(), keys.scores().params());
        let same = created.key_id == manifest.key_id
            && created.fingerprint == manifest.fingerprint
            && created.scores_key_id == manifest.scores.key_id
            && created.scores_fingerprint == manifest.scores.fingerprint;
        if !same {
            return Err(Error::OtherKeys { what: format!("bandit {}", created.id) });
        }
        let ring = ScoreRing::beside(large.spec(), manifest.shape)?;
        created.config.check_committee()?;
        if created.config.plan(large, manifest.shape, ring)? != created.plan {
            return Err(Error::Refused("the plan of the bandit does not follow from its configuration"));
        }
        let exchanges = Exchanges::new(&created.config, &created.plan, ring, small, large)?;
        Ok(Joined { created, exchanges })
    }

    /// The bandit as it was created.
    pub fn created(&self) -> &Created {
        &self.created
    }
}

/// The answer of a member to `request` about a bandit, after the ledger has noted it. It is signed.
///
/// # Errors
/// [`Error::Refused`] for a question that no honest server asks; [`Error::Wire`], [`Error::Ckks`] for bytes
/// that are no question of this bandit; [`Error::Ledger`].
pub fn answer(
    keys: &MemberKeys,
    ledger: &Ledger,
    bandit: &Joined,
    request: &MemberRequest,
) -> Result<MemberReply, Error> {
    let question = Question::from_bytes(&request.question)?;
    if question.bandit != bandit.created.id {
        return Err(Error::Refused("a question about another bandit"));
    }
    if question.epoch() != keys.epoch() {
        return Err(Error::Refused("a question to another epoch of the committee"));
    }
    let set = keys.quorum().active(&members(request.set))?;
    if !set.contains(keys.member()) {
        return Err(Error::Refused("this member is not in the set that is asked"));
    }
    let asked = Asked { keys, bandit, request, set };
    match &question.wanted {
        Wanted::Transfer(kind) => asked.transfer(ledger, &question, *kind),
        Wanted::Answers { model_feedbacks, users } => asked.open(ledger, &question, *model_feedbacks, users),
        Wanted::Checks { .. } => asked.check(ledger, &question),
        Wanted::Rotation { .. } => Err(Error::Refused(NO_NEXT)),
        Wanted::Handover { .. } => Err(Error::Refused(NO_BANDIT)),
    }
}

/// Why a member without `--next` refuses a rotation.
const NO_NEXT: &str = "this member knows of no keys to go on under";
/// Why a question that no bandit is asked about is refused.
pub(super) const NO_BANDIT: &str = "a question about no bandit";

/// The public keys of another committee, under which bandits go on.
pub struct NextKeys {
    manifest: Manifest,
    digest: [u8; 32],
    large: (PublicKey, KeyId),
    scores: (PublicKey, KeyId),
}

impl NextKeys {
    /// Those of a bundle, whose committee follows that of `keys`.
    ///
    /// # Errors
    /// [`Error::OtherKeys`] if it follows another one; [`Error::Wire`] unless all its members signed it.
    pub fn new(keys: &MemberKeys, bundle: PublicBundle) -> Result<Self, Error> {
        let PublicBundle { manifest, public_key, key_id, scores, .. } = bundle;
        manifest.check_signatures()?;
        // All that it says of this committee, since its members take states that these verifying keys signed.
        if manifest.followed(keys.manifest()).is_err() {
            return Err(Error::OtherKeys { what: "the bundle of the next keys".into() });
        }
        let (digest, large, scores) =
            (manifest.rotation_digest(), (public_key, key_id), (scores.public_key, scores.key_id));
        Ok(NextKeys { manifest, digest, large, scores })
    }
}

/// The signature of a member of `next`, by which the devices of its committee go on under these keys. It is
/// the same whenever it is given.
///
/// # Errors
/// [`Error::Refused`] for other keys, another question, or another epoch of the committee; [`Error::Ledger`],
/// [`Error::HandedOn`], [`Error::Caught`].
pub fn answer_handover(
    keys: &MemberKeys,
    ledger: &Ledger,
    request: &MemberRequest,
    next: Option<&NextKeys>,
) -> Result<MemberReply, Error> {
    let (question, next) = (Question::from_bytes(&request.question)?, next.ok_or(Error::Refused(NO_NEXT))?);
    if question.epoch() != keys.epoch() || question.wanted != (Wanted::Handover { next: next.digest }) {
        return Err(Error::Refused(OTHER_NEXT));
    }
    ledger.check_in_use()?;
    let signature = next.manifest.sign_rotation(keys.signing());
    Ok(MemberReply::Frames { number: request.number, frames: vec![next.digest.to_vec()], signature })
}

/// Why keys that the member was not started with are refused.
const OTHER_NEXT: &str = "a rotation to keys that this member does not know";

/// As [`answer`], to a question about a rotation to `next`.
///
/// # Errors
/// As [`answer`]; [`Error::Refused`] for other keys.
pub fn answer_rotation(
    keys: &MemberKeys,
    ledger: &Ledger,
    bandit: &Joined,
    request: &MemberRequest,
    next: &NextKeys,
) -> Result<MemberReply, Error> {
    let question = Question::from_bytes(&request.question)?;
    let set = keys.quorum().active(&members(request.set))?;
    if question.bandit != bandit.created.id
        || question.epoch() != keys.epoch()
        || !set.contains(keys.member())
    {
        return Err(Error::Refused("a question about another bandit, or to others"));
    }
    match &question.wanted {
        Wanted::Rotation { next: digest, .. } if *digest == next.digest => {}
        _ => return Err(Error::Refused(OTHER_NEXT)),
    }
    let asked = Asked { keys, bandit, request, set };
    asked.rotate(ledger, &question, next)
}

pub(super) fn members(bits: u16) -> Vec<u8> {
    (0..16).filter(|i| bits >> i & 1 == 1).map(|i| i + 1).collect()
}

struct Asked<'a> {
    keys: &'a MemberKeys,
    bandit: &'a Joined,
    request: &'a MemberRequest,
    set: ActiveSet,
}

impl Asked<'_> {
    fn key_id(&self, params: &Params) -> Result<KeyId, Error> {
        let manifest = self.keys.manifest();
        let large = params == self.keys.large().params();
        let text = if large { &manifest.key_id } else { &manifest.scores.key_id };
        Ok(text.parse()?)
    }

    fn share(&self, params: &Params) -> &MemberShare {
        if params == self.keys.large().params() { self.keys.large() } else { self.keys.scores() }
    }

    fn transfer(&self, ledger: &Ledger, question: &Question, kind: TaskKind) -> Result<MemberReply, Error> {
        if let TaskKind::Scores { factor, .. } = kind
            && !(factor > 0.0 && factor <= MOST_FACTOR)
        {
            return Err(Error::Refused("a raise by a factor that is not above 0 and at most 4096"));
        }
        let maps = transfers(&self.bandit.exchanges, kind);
        let (source, level) = maps[0].source();
        let c1 = ckks::read_polynomial(source, self.key_id(source)?, level, &self.request.c1)?;
        let decisions = match kind {
            // Who replays has checked the evidence. All places of a request are raised, also those beyond
            // its decisions.
            TaskKind::Scores { .. } => {
                let evidence = Evidence::from_bytes(&self.request.evidence)?;
                let places = |(count, _): &(u32, Vec<u8>)| u64::from(*count).next_power_of_two();
                evidence.uploads.iter().map(places).sum()
            }
            TaskKind::Sum | TaskKind::Model => 0,
        };
        let noted = (self.set.bits(), decisions);
        ledger.note(question, noted, &self.request.question, &self.request.c1)?;
        let (mut frames, mut requests) = (Vec::new(), Vec::new());
        for (number, map) in (0..).zip(&maps) {
            let header = transfer_header(&self.request.question, number);
            let id = RequestId::new(RequestKind::Transfer, self.set, &header, Some(&c1));
            let ((source, _), (target, high)) = (map.source(), map.target());
            let (from, to) = (self.share(source), self.share(target));
            let TransferShare { down, up } =
                from.transfer(to, self.keys.pairs(), &**map, self.set, &header, &c1)?;
            frames.push(write_openings(&[down]));
            frames.push(ckks::write_polynomial(target, self.key_id(target)?, high, &up));
            requests.push(*id.bytes());
        }
        let signature = sign_frames(self.keys.signing(), &requests, &frames);
        Ok(MemberReply::Frames { number: self.request.number, frames, signature })
    }

    fn rotate(&self, ledger: &Ledger, question: &Question, next: &NextKeys) -> Result<MemberReply, Error> {
        let maps = rotations(&self.bandit.exchanges, &self.bandit.created.plan)?;
        let (source, level) = maps[0].source();
        let key = self.key_id(source)?;
        let model = ckks::read_polynomial(source, key, level, &self.request.c1)?;
        let statistics = ckks::read_polynomial(source, key, level, &self.request.evidence)?;
        let noted = [&self.request.c1[..], &self.request.evidence].concat();
        ledger.note(question, (self.set.bits(), 0), &self.request.question, &noted)?;
        let requests = rotation_requests(&self.request.question, self.set, [&model, &statistics]);
        let mut frames = Vec::new();
        for ((number, map), c1) in (0..).zip(&maps).zip([&model, &model, &statistics]) {
            let header = transfer_header(&self.request.question, number);
            let ((source, _), (target, high)) = (map.source(), map.target());
            let of_large = target == self.keys.large().params();
            let (public, id) = if of_large { &next.large } else { &next.scores };
            let RotationShare { down, up } =
                self.share(source).rotate(public, self.keys.pairs(), &**map, self.set, &header, c1)?;
            frames.push(write_openings(&[down]));
            frames.push(ckks::write_polynomial(target, *id, high, up.c0()));
            frames.push(ckks::write_polynomial(target, *id, high, up.c1()));
        }
        let signature = sign_frames(self.keys.signing(), &requests, &frames);
        Ok(MemberReply::Frames { number: self.request.number, frames, signature })
    }

    /// Opens projections of feedbacks.
    fn check(&self, ledger: &Ledger, question: &Question) -> Result<MemberReply, Error> {
        let share = self.keys.scores();
        let ring = (share.params(), self.key_id(share.params())?);
        let evidence = CheckEvidence::from_bytes(&self.request.evidence)?;
        let feedbacks = FeedbackCheck::read(&self.bandit.exchanges, ring, &evidence.frames)?;
        let inputs = feedbacks.round(&question.wanted)?;
        ledger.note(question, (self.set.bits(), 0), &self.request.question, &[])?;
        let open = |(at, input): (usize, &RoundInput<'_>)| {
            let (header, c1) = (check_header(&self.request.question, at), input.ciphertext.c1());
            share.check_range(self.keys.pairs(), &input.check, self.set, &header, c1)
        };
        let shares = inputs.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>()?;
        let frames = vec![write_openings(&shares)];
        let id = check_request(&self.request.question, self.set);
        let signature = sign_frames(self.keys.signing(), &[id], &frames);
        Ok(MemberReply::Frames { number: self.request.number, frames, signature })
    }

    fn open(
        &self,
        ledger: &Ledger,
        question: &Question,
        model_feedbacks: u64,
        users: &[AnswerUser],
    ) -> Result<MemberReply, Error> {
        let layout = &self.bandit.exchanges.layout;
        let (numbers, mut seen) = (layout.users(), BTreeSet::new());
        let all = || users.iter().flat_map(|user| &user.users).map(|number| *number as usize);
        if !all().all(|number| numbers.contains(&number) && seen.insert(number)) {
            return Err(Error::Refused(
                "a question that opens a decision twice, or one that no evaluation has",
            ));
        }
        let (share, large) = (self.keys.answers(), self.keys.large().params().max_slots());
        let params = share.params();
        let key_id = self.key_id(self.keys.scores().params())?;
        let c1 = ckks::read_polynomial(params, key_id, ANSWER_LEVEL, &self.request.c1)?;
        let slots: Vec<usize> = all().flat_map(|number| layout.answer_slots(number, large)).collect();
        let forms = Forms::real_slots(params, ANSWER_LEVEL, &slots, OPENED_FORM_BITS)?;
        let noted = (self.set.bits(), seen.len() as u64);
        ledger.note(question, noted, &self.request.question, &self.request.c1)?;
        let unit = f64::from(OPENED_FORM_BITS).exp2() * params.scale(ANSWER_LEVEL);
        let smudge =
            Smudge::at_least(OPENED_DEVIATION / f64::from(self.keys.quorum().threshold()).sqrt() * unit);
        let header = &self.request.question;
        let opened = share.open(self.keys.pairs(), &forms, smudge, self.set, header, &c1)?;
        let id = *RequestId::new(RequestKind::Opening, self.set, header, Some(&c1)).bytes();
        let mut residues = opened.0.into_iter().map(|residues| residues[0]);
        let member = (self.keys.member(), self.keys.signing());
        // Encapsulations are fresh for each answer: the residues inside are the same.
        let mut rng = host::os_rng()?;
        let seal = |user: &AnswerUser| {
            let own: Vec<u64> = residues.by_ref().take(user.users.len() * layout.arms()).collect();
            let binding = question.binding(model_feedbacks, user);
            Ok(SealedShare::seal(member, &binding, &user.answer_key, &id, self.set, &own, &mut rng)?)
        };
        let shares = users.iter().map(seal).collect::<Result<_, Error>>()?;
        Ok(MemberReply::Answers { number: self.request.number, shares })
    }
}

/// Checks that a server has the public half of the keys of a member, in the same epoch.
///
/// # Errors
/// [`Error::OtherKeys`]; [`Error::Epoch`] for another epoch.
pub fn check_manifest(keys: &MemberKeys, manifest: &wire::Manifest) -> Result<(), Error> {
    let own = keys.manifest();
    let same = own.key_id == manifest.key_id
        && own.fingerprint == manifest.fingerprint
        && own.scores.key_id == manifest.scores.key_id
        && own.scores.fingerprint == manifest.scores.fingerprint;
    match (&own.custody, &manifest.custody) {
        (Custody::Committee(a), Custody::Committee(b)) if same && a.epoch() != b.epoch() => {
            Err(Error::Epoch { got: b.epoch(), own: a.epoch() })
        }
        // The signatures of the epoch before may be those of other t members.
        (Custody::Committee(_), Custody::Committee(_))
            if same && own.signed_digest() == manifest.signed_digest() =>
        {
            Ok(())
        }
        _ => Err(Error::OtherKeys { what: "the server".into() }),
    }
}
