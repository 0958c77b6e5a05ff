//! A resharing: t members of an epoch hand their shares on to the members of the next one. Keys, and what a
//! server has computed under them, stay as they are.
//!
//! | round | who | sends |
//! |---|---|---|
//! | pair | the next members | to each other one, sealed: half of a pair key, and what it has spent in this epoch |
//! | deal | t members of this epoch | to each next member, sealed: λⱼσⱼ by a fresh polynomial, for each ring, and what its ledger holds |
//! | test | the next members | their shares of openings of encryptions of 0 by every set of t of them |
//! | confirm | the next members | their signatures of the manifest of the next epoch |
//! | handover | the dealers | their signatures of the next epoch |
//! | stored | the next members | that their keys are on disk, after which the old shares are erased |
//!
//! No seed of a dealer is opened, since it gives its share away.

use super::board::Board;
use super::evaluation::{NATS_OF_A_FORM, Tests};
use super::memory::Memory;
use super::message::{Entry, Round, Slot};
use super::parts::{DEAL, PAIR, PublicKeys, Received, purpose, stream};
use super::party::{Openings, Party, Stopped, suspicion};
use super::plan::{FORMS, Ids, MOST_TOLD, MOST_WHY, Plan, Ring};
use super::run::test_seed;
use super::spent::counted_on;
use super::{Error, Identity};
use crate::serve::{Ledger, Told};
use crate::{MemberKeys, MemberShares};
use ckks_committee::{Dealt, MemberShare, PairKeys, PairSecret};
use ckks_secret::Passphrase;
use ckks_shares::ActiveSet;
use host::Draft;
use protocol::budget::{Budget, OPENED_NATS, budget_of_a_member, opened_nats};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::time::Duration;
use wire::{
    AccessToken, BundleKind, BundleReader, BundleWriter, Custody, Handover, Manifest, PublicBundle,
    PublicBytes, UsersBundle,
};
use zeroize::Zeroizing;

/// In the place of what a member has spent: it has no ledger of this epoch.
const NOT_TOLD: Budget = Budget { decisions: u64::MAX, models: u64::MAX };
const RINGS: [Ring; 3] = [Ring::Large, Ring::Scores, Ring::Answers];

/// What a member of the epoch that ends has. Its share is erased at the end of the run.
pub struct Old<'a> {
    /// Its keys.
    pub keys: MemberKeys,
    /// Their file.
    pub path: &'a Path,
    /// Its ledger.
    pub ledger: Ledger,
}

/// A member of the epoch that ends, of the next one, or of both.
pub struct Reshare<'a> {
    /// The run.
    pub plan: &'a Plan,
    /// The signing and the sealing secret of the member.
    pub identity: &'a Identity,
    /// The public bundle of the epoch that ends.
    pub public: &'a Path,
    /// The users' bundle of this epoch.
    pub users: &'a Path,
    /// The folder of its new files.
    pub folder: &'a Path,
    /// Seals the file of its keys.
    pub passphrase: Option<&'a Passphrase>,
    /// How long it waits for the messages of a round.
    pub patience: Duration,
    /// Gets a line for each step.
    pub log: &'a dyn Fn(&str),
}

/// The numbers of a member in both epochs, and what it has of the first.
struct Roles<'a> {
    /// Its number in the next epoch.
    next: Option<u8>,
    /// Its number among the dealers.
    dealer: Option<u8>,
    old: Option<Old<'a>>,
}

impl Roles<'_> {
    /// The round from which on a run is not given up: the next epoch may come without this member's doing.
    fn last(&self) -> Round {
        if self.dealer.is_some() { Round::Handover } else { Round::Confirm }
    }
}

impl Reshare<'_> {
    /// Takes part in the run, and as a member of the next epoch writes `member.keys`, `member.ledger`,
    /// `public.bundle` and `users.bundle` to the folder. At the end, the old share is erased. A run that was
    /// stopped goes on from its first message that is missing. `seed` is fresh, and is used unless the run
    /// has one.
    ///
    /// # Errors
    /// [`Error`], by what is wrong. [`Error::NotReshared`] if the shares that were dealt are not those of the
    /// keys.
    pub fn run(
        &self,
        board: &impl Board,
        old: Option<Old>,
        seed: Zeroizing<[u8; 32]>,
    ) -> Result<Manifest, Error> {
        let io = |error| Error::Io { path: self.folder.into(), error };
        std::fs::create_dir_all(self.folder).map_err(|e| io(host::no_folder(self.folder, e)))?;
        let (keys, memory) = (self.path("member.keys"), self.path("reshare.memory"));
        if keys.exists() && !memory.exists() {
            let error = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(Error::Io { path: keys, error });
        }
        let memory = Memory::open(&memory, self.plan.session, seed)?;
        if memory.has_failed() {
            return Err(Error::RunOver);
        }
        // It was stopped after its old share was erased if that is not there any more.
        let is_over = memory.has_begun(self.plan.place(Round::Stored));
        let roles = self.roles(old, is_over)?;
        let party = Party::new((self.plan, self.identity), board, memory, self.patience, self.log);
        let dealers = self.plan.resharing()?.dealers()?;
        let mut run = Run { setup: self, roles, dealers, party };
        match run.rounds() {
            Ok(manifest) => {
                let Run { roles, party, .. } = run;
                if let Some(Old { keys, path, ledger }) = roles.old {
                    drop((keys, ledger));
                    // Where this fails, or nothing was kept, journals are followed from their beginning.
                    let _ = std::fs::rename(path.with_extension("states"), self.path("member.states"));
                    erase(path)?;
                }
                party.memory.erase()?;
                Ok(manifest)
            }
            Err(Stopped::Failed(error)) => Err(error),
            Err(Stopped::Suspicion(why)) => Err(run.end(why)),
        }
    }

    /// Gives up a run that does not end. The share of this member is used again, and it never takes part in
    /// the run.
    ///
    /// # Errors
    /// [`Error::HandedOver`] once the member has signed; [`Error::Io`], [`Error::Serve`].
    pub fn give_up(&self, old: Option<Old>) -> Result<(), Error> {
        let mut memory =
            Memory::open(&self.path("reshare.memory"), self.plan.session, Zeroizing::new([0; 32]))?;
        let roles = self.roles(old, false)?;
        if memory.has_begun(self.plan.place(roles.last())) {
            return Err(Error::HandedOver);
        }
        let spent = self.spent(&memory, self.plan.resharing()?.committee()?.quorum()?.threshold());
        memory.fail_and_forget()?;
        Ok(roles.old.map_or(Ok(()), |old| old.ledger.thaw(&self.plan.session, spent))?)
    }

    /// The decisions, opened by sets of `threshold` members, that the tests of the run count as. They count
    /// once deals may have left this member: the next members test what they got, whatever this one sees of
    /// that.
    fn spent(&self, memory: &Memory, threshold: u8) -> u64 {
        let (plan, quorum) = (self.plan, self.plan.quorum);
        if !memory.has_begun(plan.place(Round::Deal)) {
            return 0;
        }
        let each = opened_nats(plan.proposal.shape(), threshold, plan.makers());
        let forms = plan.tests().len() * FORMS * plan.sets.len();
        (NATS_OF_A_FORM * f64::from(quorum.threshold()) * forms as f64 / each).ceil() as u64
    }

    fn roles<'a>(&self, old: Option<Old<'a>>, is_over: bool) -> Result<Roles<'a>, Error> {
        let (plan, card) = (self.plan, self.identity.card());
        let resharing = plan.resharing()?;
        let committee = resharing.committee()?;
        let dealers = resharing.dealers()?;
        let next = plan.proposal.member(&card).ok();
        let before = committee.members.iter().zip(1..).find(|(own, _)| **own == card).map(|(_, j)| j);
        let dealer = before.filter(|j| dealers.contains(*j));
        if next.is_none() && dealer.is_none() {
            return Err(Error::NotAMember);
        }
        let other = |what| Error::OtherEpoch { what, epoch: committee.epoch() };
        match &old {
            Some(old) if old.keys.manifest().signed_digest() != resharing.before.signed_digest() => {
                return Err(other("the file of keys"));
            }
            Some(old) if Some(old.keys.member()) != before => return Err(Error::NotAMember),
            None if dealer.is_some() && !is_over => {
                let why = "it names this member as a dealer: give the file of its keys with --keys";
                return Err(Error::Proposal(why.into()));
            }
            _ => {}
        }
        Ok(Roles { next, dealer, old })
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.join(name)
    }

    fn open<T>(&self, path: &Path, read: impl FnOnce(File) -> Result<T, wire::Error>) -> Result<T, Error> {
        let file = File::open(path).map_err(|error| Error::Io { path: path.into(), error })?;
        Ok(read(file)?)
    }

    /// The bundles of the epoch that ends.
    fn bundles(&self) -> Result<(PublicBundle, UsersBundle), Error> {
        let public = self.open(self.public, |file| PublicBundle::read(BufReader::new(file)))?;
        let users = self.open(self.users, UsersBundle::read)?;
        let resharing = self.plan.resharing()?;
        for (what, manifest) in
            [("the public bundle", &public.manifest), ("the users' bundle", &users.manifest)]
        {
            if manifest.signed_digest() != resharing.before.signed_digest() {
                return Err(Error::OtherEpoch { what, epoch: resharing.committee()?.epoch() });
            }
        }
        Ok((public, users))
    }
}

struct Run<'a, 'b, B> {
    setup: &'a Reshare<'a>,
    roles: Roles<'b>,
    dealers: ActiveSet,
    party: Party<'a, B>,
}

impl<B: Board> Run<'_, '_, B> {
    fn rounds(&mut self) -> Result<Manifest, Stopped> {
        let setup = self.setup;
        let (plan, seed, next) = (setup.plan, self.party.memory.seed(), self.roles.next);
        // They are read before anything is sent, so that a wrong file stops no run.
        let bundles = next.map(|member| Ok::<_, Error>((member, setup.bundles()?))).transpose()?;
        // After its old keys were erased, all that it sends there is on the board.
        let is_over = self.roles.old.is_none() && self.party.memory.has_begun(plan.place(Round::Stored));
        if let Some(member) = next.filter(|_| !is_over) {
            // What a member of both epochs has spent is told, and does not change after that.
            let spent = match &self.roles.old {
                Some(old) => {
                    old.ledger.freeze(&plan.session)?;
                    old.ledger.tell()?.spent
                }
                None => NOT_TOLD,
            };
            self.party.send(Round::Pair, member, |slot| {
                let half = PairSecret::generate(&mut stream(&seed, "pair", slot.number.into()));
                let (to, mut rng) = (slot.number as u8 + 1, stream(&seed, "seal a pair", slot.number.into()));
                let card = &plan.proposal.members[usize::from(slot.number)];
                let purpose = purpose(plan, PAIR, member, to);
                let spent = [spent.decisions, spent.models].map(u64::to_le_bytes);
                let body = Zeroizing::new([&half.to_bytes()[..], &spent.concat()].concat());
                Ok(envelope::seal(&card.sealing.0, &purpose, &body, &mut rng)?)
            })?;
        }
        self.party.gather(Round::Pair)?;
        self.deal(&seed)?;
        let received = match bundles {
            Some((member, (public, users))) => {
                let (received, told) = self.receive(member, &seed, users.token)?;
                let keys = PublicKeys {
                    large: public.public_key,
                    scores: users.public_key,
                    ids: Ids { large: public.key_id, scores: users.key_id },
                };
                let mut tests = Tests::new(plan, &keys, test_seed(&self.party.seen));
                let mut openings = Openings::new(plan, member, &received);
                openings.take(tests.of_public_keys()?)?;
                openings.take(tests.of_switch(&public.scores.switch)?)?;
                self.party.test(member, &openings)?;
                Some((member, received, told))
            }
            None => {
                self.party.gather(Round::Test)?;
                None
            }
        };
        let manifest = plan.next_manifest()?;
        if let Some(member) = next {
            let signature = manifest.sign(&setup.identity.signing);
            self.party.send(Round::Confirm, member, |_| Ok(signature.clone()))?;
        }
        let manifest = self.confirmed(manifest)?;
        if let Some(dealer) = self.roles.dealer {
            // From here on the old share is not used again.
            self.party.memory.begin(plan.place(Round::Handover), self.party.seen)?;
            let signature = manifest.sign_next_epoch(&setup.identity.signing);
            if let Some(old) = &self.roles.old {
                old.ledger.end()?;
            }
            self.party.send(Round::Handover, dealer, |_| Ok(signature.clone()))?;
        }
        let manifest = self.handed_over(manifest)?;
        if let Some(old) = &self.roles.old {
            old.ledger.freeze(&plan.session)?;
            old.ledger.end()?;
        }
        if let Some((member, received, told)) = received {
            if !setup.path("member.keys").exists() {
                self.write(&manifest, received, told)?;
            }
            let digest = manifest.signed_digest();
            self.party.send(Round::Stored, member, |_| Ok(digest.to_vec()))?;
        }
        self.party.gather(Round::Stored)?;
        Ok(manifest)
    }

    /// Hands the share of this member on, if it is one of the dealers.
    fn deal(&mut self, seed: &[u8; 32]) -> Result<(), Stopped> {
        let (plan, dealers) = (self.setup.plan, self.dealers);
        if let (Some(dealer), Some(old)) = (self.roles.dealer, &self.roles.old) {
            // What the ledger holds is told, and does not change after that.
            old.ledger.freeze(&plan.session)?;
            // Serialising plain data into memory does not fail.
            let told = postcard::to_stdvec(&old.ledger.tell()?).unwrap_or_default();
            if told.len() > MOST_TOLD {
                let why = "the ledger of a dealer holds too much to be told: make new keys";
                return Err(Error::Proposal(why.into()).into());
            }
            let bytes = plan.shares_bytes() + told.len();
            let mut dealt: Vec<_> =
                plan.members().map(|_| Zeroizing::new(Vec::with_capacity(bytes))).collect();
            for (ring, share) in
                RINGS.into_iter().zip([old.keys.large(), old.keys.scores(), old.keys.answers()])
            {
                let mut rng = stream(seed, "deal", ring as usize);
                let values = share.deal(dealers, plan.quorum, &mut rng)?;
                dealt.iter_mut().zip(values).for_each(|(out, value)| value.write(plan.params(ring), out));
            }
            dealt.iter_mut().for_each(|out| out.extend(&told));
            self.party.send(Round::Deal, dealer, |slot| {
                let (at, to) = (usize::from(slot.number), slot.number as u8 + 1);
                let mut rng = stream(seed, "seal", at);
                let purpose = purpose(plan, DEAL, dealer, to);
                Ok(envelope::seal(&plan.proposal.members[at].sealing.0, &purpose, &dealt[at], &mut rng)?)
            })?;
        }
        self.party.gather(Round::Deal)
    }

    /// The share of `member` of the next epoch, and what the ledgers of the dealers hold.
    fn receive(&self, member: u8, seed: &[u8; 32], token: AccessToken) -> Result<(Received, Told), Stopped> {
        let (plan, sealing) = (self.setup.plan, &self.setup.identity.sealing);
        let number = u16::from(member - 1);
        let committee = plan.resharing()?.committee()?;
        let old_number = |from: u8| {
            let card = plan.proposal.members.get(usize::from(from) - 1)?;
            committee.members.iter().zip(1..).find(|(own, _)| *own == card).map(|(_, old)| old)
        };
        let (mut pairs, mut counts) = (PairKeys::new(member), BTreeMap::new());
        for from in plan.members().filter(|from| *from != member) {
            let slot = Slot { round: Round::Pair, number, member: from };
            let sealed = self.party.fetch(slot)?;
            let opened = sealing.open(&purpose(plan, PAIR, from, member), &sealed);
            let read = opened.ok().and_then(|body| read_pair(&body));
            let Some((theirs, spent)) = read else {
                return suspicion(format!("the {slot} cannot be opened"));
            };
            if let Some(old) = old_number(from).filter(|_| spent != NOT_TOLD) {
                counts.insert(old, spent);
            }
            pairs.insert(
                from,
                &PairSecret::generate(&mut stream(seed, "pair", usize::from(from - 1))),
                &theirs,
            );
        }
        let (mut of_rings, mut told): ([Vec<Dealt>; 3], Vec<Told>) = Default::default();
        for dealer in self.dealers.iter() {
            let slot = Slot { round: Round::Deal, number, member: dealer };
            let sealed = self.party.fetch(slot)?;
            let opened = sealing.open(&purpose(plan, DEAL, dealer, member), &sealed).ok();
            let Some((values, own)) = opened.and_then(|bytes| read_deal(plan, &bytes)) else {
                return suspicion(format!("the {slot} cannot be read"));
            };
            of_rings.iter_mut().zip(values).for_each(|(of_ring, value)| of_ring.push(value));
            counts.insert(dealer, own.spent);
            told.push(own);
        }
        if let Some(old) = &self.roles.old {
            let own = old.ledger.tell()?;
            counts.insert(old.keys.member(), own.spent);
            told.push(own);
        }
        let before = committee.quorum()?;
        let numbers = (before.threshold(), before.members());
        let most = budget_of_a_member(OPENED_NATS, plan.proposal.shape(), numbers, plan.makers());
        let spent = counted_on(&counts, most, before, plan.quorum);
        let mut rng = stream(seed, "answers of a member", 0);
        let mut share = |ring: Ring| {
            let (params, dealt) = (plan.params(ring), &of_rings[ring as usize]);
            MemberShare::reshared(params, plan.quorum, member, self.dealers, dealt, &mut rng)
        };
        let shares = MemberShares {
            large: share(Ring::Large)?,
            scores: share(Ring::Scores)?,
            answers: share(Ring::Answers)?,
        };
        let told = Told { spent, ..Told::merged(told) };
        Ok((Received { shares, pairs, token }, told))
    }

    /// The manifest with the signatures of all members of the next epoch.
    fn confirmed(&mut self, manifest: Manifest) -> Result<Manifest, Stopped> {
        self.party.gather(Round::Confirm)?;
        let plan = self.setup.plan;
        let mut signatures = Vec::new();
        for member in plan.members() {
            let signature = self.party.fetch(Slot { round: Round::Confirm, number: 0, member })?;
            let verifying = plan.verifying(Round::Confirm, member).unwrap_or_default();
            if manifest.check_signature(verifying, &signature).is_err() {
                return suspicion(format!("the signature of member {member} is not one of the next epoch"));
            }
            signatures.push(PublicBytes(signature));
        }
        Ok(manifest.with_signatures(signatures))
    }

    /// The manifest with the signatures of the dealers.
    fn handed_over(&mut self, manifest: Manifest) -> Result<Manifest, Stopped> {
        self.party.gather(Round::Handover)?;
        let mut handover = Vec::new();
        for member in self.dealers.iter() {
            let signature = self.party.fetch(Slot { round: Round::Handover, number: 0, member })?;
            let verifying = self.setup.plan.verifying(Round::Handover, member).unwrap_or_default();
            if manifest.check_next_epoch(verifying, &signature).is_err() {
                let why = "its signature is not one of the next epoch".into();
                return Err(Error::Blamed { member, why }.into());
            }
            handover.push(Handover { member, signature: PublicBytes(signature) });
        }
        Ok(manifest.with_handover(handover))
    }

    /// Writes the files. That of the member's keys is the last, so that nothing is missing where it is.
    fn write(&self, manifest: &Manifest, received: Received, told: Told) -> Result<(), Error> {
        let (setup, plan) = (self.setup, self.setup.plan);
        let io = |name: &str| {
            let path = setup.path(name);
            move |error| Error::Io { path, error }
        };
        // Nobody has answered with one that is there, since the keys are not.
        Ledger::create(&setup.path("member.ledger"))?
            .take(&told, setup.spent(&self.party.memory, plan.quorum.threshold()))?;

        for (name, kind, from) in [
            ("public.bundle", BundleKind::Public, setup.public),
            ("users.bundle", BundleKind::Users, setup.users),
        ] {
            let path = setup.path(name);
            let draft = match kind {
                BundleKind::Public => Draft::create(&path),
                _ => Draft::create_private(&path),
            };
            let draft = draft.map_err(io(name))?;
            setup.open(from, |file| copy(kind, BufReader::new(file), manifest, draft.file()))?;
            draft.finish().map_err(io(name))?;
        }
        let Received { shares, pairs, .. } = received;
        let Identity { signing, sealing } = setup.identity.copy()?;
        let keys = MemberKeys::new(manifest.clone(), plan.quorum, shares, pairs, signing, sealing);
        Ok(keys.save(&setup.path("member.keys"), setup.passphrase, &mut host::os_rng()?)?)
    }

    /// Ends a run that cannot go on, and tells the others why. `why` is empty if another member began.
    fn end(&mut self, why: String) -> Error {
        let plan = self.setup.plan;
        if self.party.memory.has_begun(plan.place(self.roles.last())) {
            return Error::Unresolved(why);
        }
        let ended = self.party.memory.fail_and_forget();
        let thaw = |old: &Old| {
            let spent = self.setup.spent(&self.party.memory, old.keys.quorum().threshold());
            old.ledger.thaw(&plan.session, spent)
        };
        let thawed = self.roles.old.as_ref().map_or(Ok(()), thaw);
        if let Err(error) = ended.and(thawed.map_err(Error::from)) {
            return error;
        }
        let why = match self.roles.next {
            _ if why.is_empty() => self.complaint(),
            Some(member) => {
                self.complain(member, &why);
                why
            }
            None => why,
        };
        let dealers = self.dealers.iter().map(|j| j.to_string()).collect::<Vec<_>>().join(", ");
        Error::NotReshared { why, dealers }
    }

    /// Leaves a reason on the board. If it cannot, the others wait in vain.
    fn complain(&self, member: u8, why: &str) {
        let body = &why.as_bytes()[..why.floor_char_boundary(MOST_WHY)];
        let slot = Slot { round: Round::Blame, number: 0, member };
        let (signing, session) = (&self.setup.identity.signing, &self.setup.plan.session);
        let entry = Entry::sign(signing, session, slot, self.party.seen, body);
        let _ = self.party.patiently(|board| board.post(&entry, body));
    }

    /// The reason of a member that ended the run.
    fn complaint(&self) -> String {
        let read = || {
            let entries = self.party.patiently(|board| board.entries(Round::Blame, Duration::ZERO)).ok()?;
            let (slot, entry) = self.party.accepted(Round::Blame, entries).pop_first()?;
            let body = self.party.board.body(slot, entry.length as usize).ok()?;
            let why = String::from_utf8_lossy(body.get(..entry.length as usize)?).into_owned();
            Some(format!("member {} of the next epoch says that {}", slot.member, host::visible(&why)))
        };
        read().unwrap_or_else(|| "a member of the next epoch ended the run".into())
    }
}

/// Half of a pair key, and what its member has spent.
pub(super) fn read_pair(bytes: &[u8]) -> Option<(PairSecret, Budget)> {
    let (half, rest) = bytes.split_first_chunk()?;
    let (decisions, models) = rest.split_first_chunk()?;
    let models = u64::from_le_bytes(models.try_into().ok()?);
    Some((PairSecret::from_bytes(half), Budget { decisions: u64::from_le_bytes(*decisions), models }))
}

/// The values of a deal, and what its dealer tells.
pub(super) fn read_deal(plan: &Plan, bytes: &[u8]) -> Option<(Vec<Dealt>, Told)> {
    let mut rest = bytes;
    let value = |ring: Ring| {
        let params = plan.params(ring);
        let (part, after) = rest.split_at_checked(Dealt::bytes(params))?;
        rest = after;
        Dealt::read(params, part).ok()
    };
    let values = RINGS.into_iter().map(value).collect::<Option<_>>()?;
    let (told, rest) = postcard::take_from_bytes(rest).ok()?;
    rest.is_empty().then_some((values, told))
}

/// Copies a bundle under the manifest of the next epoch. The numbers of frames stay.
fn copy(
    kind: BundleKind,
    input: BufReader<File>,
    manifest: &Manifest,
    out: &File,
) -> Result<(), wire::Error> {
    // The file was read as a whole before, so that no frame is longer.
    let limit = input.get_ref().metadata().map_or(0, |metadata| metadata.len() as usize);
    let mut reader = BundleReader::of_kind(kind, input)?;
    let Custody::Committee(custody) = &manifest.custody else { return Ok(()) };
    let custody = Custody::Committee(custody.clone());
    let next = Manifest { custody, ..reader.manifest().clone() };
    let mut writer = BundleWriter::new(kind, &next, BufWriter::new(out))?;
    let mut frame = Zeroizing::new(Vec::new());
    while reader.next_frame(limit, &mut frame)? {
        writer.frame(&frame)?;
    }
    drop(writer.finish()?);
    Ok(())
}

/// Overwrites and removes a file.
fn erase(path: &Path) -> Result<(), Error> {
    let io = |error| Error::Io { path: path.into(), error };
    let length = std::fs::metadata(path).map_err(io)?.len();
    let file = File::options().write(true).open(path).map_err(io)?;
    (&file).write_all(&vec![0; length as usize]).and_then(|()| file.sync_all()).map_err(io)?;
    std::fs::remove_file(path).and_then(|()| host::sync_folder_of(path)).map_err(io)
}
