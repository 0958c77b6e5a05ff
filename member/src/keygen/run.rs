//! A run of a member, round by round.

use super::blame::{self, Opening};
use super::board::Board;
use super::evaluation::Tests;
use super::memory::Memory;
use super::message::{Entry, Round, Slot};
use super::parts::{DEAL, Own, PublicKeySums, PublicKeys, Received, commitment, purpose};
use super::party::{Openings, PAUSE, Party, Stopped, WAIT, suspicion};
use super::plan::Plan;
use super::{Error, Identity};
use crate::MemberKeys;
use crate::serve::Ledger;
use ckks_secret::Passphrase;
use ckks_shares::KeySum;
use host::Draft;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use wire::{BundleKind, BundleReader, BundleWriter, KeysDigest, Manifest, PublicBytes, UsersBundle};
use zeroize::Zeroizing;

/// A member that makes keys with others.
pub struct Keygen<'a> {
    /// What is made.
    pub plan: &'a Plan,
    /// The secrets of this member.
    pub identity: &'a Identity,
    /// The folder of its files.
    pub folder: &'a Path,
    /// Seals the file of its keys.
    pub passphrase: Option<&'a Passphrase>,
    /// How long it waits for the messages of a round.
    pub patience: Duration,
    /// Gets a line for each step.
    pub log: &'a dyn Fn(&str),
}

impl Keygen<'_> {
    /// Makes the keys, and writes `member.keys`, `member.ledger`, `public.bundle` and `users.bundle` to the
    /// folder. A run that was stopped goes on from its first message that is missing. `seed` is fresh, and is
    /// used unless the run has one.
    ///
    /// # Errors
    /// [`Error`], by what is wrong. [`Error::Blamed`] names a member that deviated.
    pub fn run(&self, board: &impl Board, seed: Zeroizing<[u8; 32]>) -> Result<Manifest, Error> {
        let member = self.plan.proposal.member(&self.identity.card())?;
        let io = |error| Error::Io { path: self.folder.into(), error };
        std::fs::create_dir_all(self.folder).map_err(|e| io(host::no_folder(self.folder, e)))?;
        let (keys, memory) = (self.path("member.keys"), self.path("keygen.memory"));
        let ended = keys.exists();
        if ended && !memory.exists() {
            let error = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(Error::Io { path: keys, error });
        }
        let memory = Memory::open(&memory, self.plan.session, seed)?;
        if ended {
            // It was stopped after its last file was written.
            memory.erase()?;
            let bundle = File::open(self.path("public.bundle")).map_err(io)?;
            return Ok(BundleReader::new(BufReader::new(bundle))?.manifest().clone());
        }
        let own = Own::new(self.plan, member, memory.seed());
        let failed = memory.has_failed();
        let party = Party::new((self.plan, self.identity), board, memory, self.patience, self.log);
        let mut run = Run { setup: self, member, own, party };
        let ended = if failed { suspicion("") } else { run.rounds() };
        match ended {
            Ok(manifest) => {
                run.party.memory.erase()?;
                Ok(manifest)
            }
            Err(Stopped::Failed(error)) => Err(error),
            Err(Stopped::Suspicion(why)) => Err(run.open_seed(&why)),
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.join(name)
    }
}

struct Run<'a, B> {
    setup: &'a Keygen<'a>,
    member: u8,
    own: Own<'a>,
    party: Party<'a, B>,
}

impl<'a, B: Board> Run<'a, B> {
    fn plan(&self) -> &'a Plan {
        self.setup.plan
    }

    fn rounds(&mut self) -> Result<Manifest, Stopped> {
        let public = self.public_keys()?;
        let received = self.deals()?;
        let digest = self.keys(&public, &received)?;
        self.test(&public, &received)?;
        let [of_public, of_users] = public.manifests(self.plan(), &received.token, digest);
        let signatures = self.confirm(&of_public)?;
        let [of_public, of_users] =
            [of_public, of_users].map(|manifest| manifest.with_signatures(signatures.clone()));
        self.write(&public, received, &of_public, &of_users)?;
        Ok(of_public)
    }

    /// Commits to public keys, reveals them and adds them up.
    fn public_keys(&mut self) -> Result<PublicKeys, Stopped> {
        let plan = self.plan();
        let frames = self.own.public_keys();
        self.party.send(Round::Commit, self.member, |_| Ok(commitment(&frames).to_vec()))?;
        self.party.gather(Round::Commit)?;
        self.party.send(Round::Reveal, self.member, |slot| Ok(frames[usize::from(slot.number)].clone()))?;
        self.party.gather(Round::Reveal)?;
        let mut sums = PublicKeySums::new(plan);
        for member in plan.members() {
            let [first, second] =
                [0, 1].map(|number| self.party.fetch(Slot { round: Round::Reveal, number, member }));
            let frames = [first?, second?];
            let committed = self.party.entry(Slot { round: Round::Commit, number: 0, member })?;
            if !committed.is_of(&commitment(&frames)) {
                return suspicion(format!("member {member} revealed other public keys than it committed to"));
            }
            if let Err(error) = sums.add(&frames) {
                return suspicion(format!("the public keys of member {member} are none: {error}"));
            }
        }
        Ok(sums.finish()?)
    }

    /// Deals, and takes what is dealt to this member.
    fn deals(&mut self) -> Result<Received, Stopped> {
        let (plan, own) = (self.plan(), self.member);
        let dealt = self.own.deals();
        self.party.send(Round::Deal, own, |slot| {
            self.own.seal(slot.number as u8 + 1, &dealt[usize::from(slot.number)])
        })?;
        self.party.gather(Round::Deal)?;
        let mut received = Vec::new();
        for member in plan.members() {
            if member == own {
                received.push(dealt[usize::from(own - 1)].clone());
                continue;
            }
            let slot = Slot { round: Round::Deal, number: u16::from(own - 1), member };
            let sealed = self.party.fetch(slot)?;
            match self.setup.identity.sealing.open(&purpose(plan, DEAL, member, own), &sealed) {
                Ok(opened) => received.push(opened),
                Err(_) => return suspicion(format!("the {slot} cannot be opened")),
            }
        }
        let taken = self.own.receive(&received);
        taken.or_else(|member| suspicion(format!("what member {member} dealt cannot be read")))
    }

    /// Sends the shares of all other keys, and adds those of all members up into the file of frames. Returns
    /// the digest of the frames of the bundle.
    fn keys(&mut self, public: &PublicKeys, received: &Received) -> Result<PublicBytes, Stopped> {
        let (plan, ids) = (self.plan(), public.ids);
        let of_key = |slot: Slot| self.own.key(received, usize::from(slot.number), ids);
        self.party.send(Round::Keys, self.member, of_key)?;
        self.party.gather(Round::Keys)?;
        let mut digest = KeysDigest::default();
        let path = self.setup.path("keygen.frames");
        let io = |error| Error::Io { path: path.clone(), error };
        let mut file = BufWriter::new(File::create(&path).map_err(io)?);
        for (i, wanted) in plan.keys.iter().enumerate() {
            let mut sum = KeySum::new(plan.params(wanted.ring), plan.session, wanted.label, wanted.level);
            for member in plan.members() {
                let slot = Slot { round: Round::Keys, number: i as u16, member };
                let frame = self.party.fetch(slot)?;
                let key = plan.read_frame(wanted, ids, &frame);
                if let Err(error) = key.and_then(|key| Ok(sum.add(&key)?)) {
                    return suspicion(format!("the {slot} is none: {error}"));
                }
            }
            let key = sum.finish(plan.quorum)?;
            public.before(plan, i).iter().for_each(|frame| digest.add(frame));
            let frame = plan.frame(wanted, ids, &key);
            digest.add(&frame);
            write_frame(&mut file, &frame).map_err(io)?;
        }
        file.flush().map_err(io)?;
        (self.setup.log)(&format!("{} keys added up", plan.keys.len()));
        Ok(digest.digest())
    }

    /// Opens the tests of all keys with every set of t members.
    fn test(&mut self, public: &PublicKeys, received: &Received) -> Result<(), Stopped> {
        let plan = self.plan();
        let mut tests = Tests::new(plan, public, test_seed(&self.party.seen));
        let (member, mut openings) = (self.member, Openings::new(plan, self.member, received));
        openings.take(tests.of_public_keys()?)?;
        let path = self.setup.path("keygen.frames");
        let io = |error| Error::Io { path: path.clone(), error };
        let mut file = BufReader::new(File::open(&path).map_err(io)?);
        for (i, wanted) in plan.keys.iter().enumerate() {
            let frame =
                read_frame(&mut file, plan.most_bytes(Slot { round: Round::Keys, number: i as u16, member }));
            let key = plan.read_frame(wanted, public.ids, &frame.map_err(io)?)?;
            openings.take(tests.of_key(i, key)?)?;
        }
        self.party.test(member, &openings)
    }

    /// Signs the keys once all members say that they would sign the same. Returns the signatures.
    fn confirm(&mut self, manifest: &Manifest) -> Result<Vec<PublicBytes>, Stopped> {
        let (plan, verdict) = (self.plan(), manifest.signed_digest());
        self.party.send(Round::Verdict, self.member, |_| Ok(verdict.to_vec()))?;
        self.party.gather(Round::Verdict)?;
        for member in plan.members() {
            let slot = Slot { round: Round::Verdict, number: 0, member };
            if !self.party.entry(slot)?.is_of(&verdict) {
                return suspicion(format!("the {slot} is on other keys"));
            }
        }
        // From here on nothing is opened.
        let signature = manifest.sign(&self.setup.identity.signing);
        self.party.send(Round::Confirm, self.member, |_| Ok(signature.clone()))?;
        self.party.gather(Round::Confirm)?;
        let mut signatures = Vec::new();
        for member in plan.members() {
            let signature = self.party.fetch(Slot { round: Round::Confirm, number: 0, member })?;
            let verifying = plan.verifying(Round::Confirm, member).unwrap_or_default();
            if manifest.check_signature(verifying, &signature).is_err() {
                let why = "its signature is none of these keys".into();
                return Err(Error::Blamed { member, why }.into());
            }
            signatures.push(PublicBytes(signature));
        }
        Ok(signatures)
    }

    /// Writes the files. That of the member's keys is the last, so that nothing is missing where it is.
    fn write(
        &self,
        public: &PublicKeys,
        received: Received,
        of_public: &Manifest,
        of_users: &Manifest,
    ) -> Result<(), Stopped> {
        let (plan, path) = (self.plan(), |name: &str| self.setup.path(name));
        let io = |name: &str| {
            let path = path(name);
            move |error| Error::Io { path, error }
        };
        let draft = Draft::create(&path("public.bundle")).map_err(io("public.bundle"))?;
        let mut writer = BundleWriter::new(BundleKind::Public, of_public, BufWriter::new(draft.file()))?;
        let file = File::open(path("keygen.frames")).map_err(io("keygen.frames"))?;
        let mut frames = BufReader::new(file);
        for i in 0..plan.keys.len() {
            if let Some(frame) = public.before(plan, i) {
                writer.frame(&frame)?;
            }
            let most = plan.most_bytes(Slot { round: Round::Keys, number: i as u16, member: self.member });
            writer.frame(&read_frame(&mut frames, most).map_err(io("keygen.frames"))?)?;
        }
        drop(writer.finish()?);
        draft.finish().map_err(io("public.bundle"))?;

        let draft = Draft::create_private(&path("users.bundle")).map_err(io("users.bundle"))?;
        UsersBundle::write(of_users, &public.wide(plan), &received.token, draft.file())?;
        draft.finish().map_err(io("users.bundle"))?;
        // Nobody has answered with one that is there, since the keys are not.
        drop(Ledger::create(&path("member.ledger"))?);
        let Received { shares, pairs, .. } = received;
        let identity = self.setup.identity.copy()?;
        let keys = MemberKeys::new(
            of_public.clone(),
            plan.quorum,
            shares,
            pairs,
            identity.signing,
            identity.sealing,
        );
        keys.save(&path("member.keys"), self.setup.passphrase, &mut host::os_rng()?)?;
        std::fs::remove_file(path("keygen.frames")).map_err(io("keygen.frames"))?;
        Ok(())
    }

    /// Opens the seed, waits for those of the others, and finds who deviated. `why` is empty if another
    /// member began.
    fn open_seed(&mut self, why: &str) -> Error {
        if self.party.memory.has_begun(self.plan().place(Round::Confirm)) {
            return Error::TooLate;
        }
        match self.openings(why) {
            Ok(openings) => blame::judge(self.plan(), self.member, &openings, why),
            Err(Stopped::Failed(error)) => error,
            Err(Stopped::Suspicion(why)) => Error::Unresolved(why),
        }
    }

    fn openings(&mut self, why: &str) -> Result<Vec<Opening>, Stopped> {
        (self.setup.log)(&format!("opening the seed of this run: {why}"));
        self.party.memory.fail()?;
        let (plan, round) = (self.plan(), Round::Blame);
        let slot = Slot { round, number: 0, member: self.member };
        let known = self.party.patiently(|board| board.entries(round, Duration::ZERO))?;
        if !known.iter().any(|entry| entry.slot == slot && plan.accepts(entry)) {
            let entries = self.party.entries.values().copied().collect();
            let opening = Opening { member: self.member, seed: *self.own.seed(), why: why.into(), entries };
            let body = opening.to_bytes();
            let entry =
                Entry::sign(&self.setup.identity.signing, &plan.session, slot, self.party.seen, &body);
            self.party.patiently(|board| board.post(&entry, &body))?;
        }
        let began = Instant::now();
        let entries = loop {
            let entries = self.party.patiently(|board| board.entries(round, WAIT))?;
            let entries = self.party.accepted(round, entries);
            let missing = plan.all_slots(round).into_iter().find(|slot| !entries.contains_key(slot));
            match missing {
                None => break entries,
                Some(missing) if began.elapsed() > self.setup.patience => {
                    return Err(Error::Silent { missing, seconds: self.setup.patience.as_secs() }.into());
                }
                Some(_) => std::thread::sleep(PAUSE),
            }
        };
        self.party.entries.extend(&entries);
        let mut openings = Vec::new();
        for slot in entries.into_keys() {
            openings.push(Opening::from_bytes(slot.member, &self.party.fetch(slot)?));
        }
        Ok(openings)
    }
}

/// The seed of the tests after all keys.
pub(super) fn test_seed(seen: &[u8; 32]) -> [u8; 32] {
    blake3::derive_key("helba committee v1: tests of keys", seen)
}

fn write_frame(file: &mut impl Write, frame: &[u8]) -> std::io::Result<()> {
    file.write_all(&(frame.len() as u64).to_le_bytes())?;
    file.write_all(frame)
}

fn read_frame(file: &mut (impl Read + Seek), most: usize) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > most {
        return Err(std::io::Error::other("a frame is longer than the key has"));
    }
    let mut frame = vec![0; length];
    file.read_exact(&mut frame)?;
    Ok(frame)
}
