//! Sessions of devices with a committee, and the messages of a session.
//!
//! A device draws a key for each subset and a key for each member from one seed. It sends each member the
//! keys of its subsets and the member's own, sealed, and in the clear the hash of each subset's key, by which
//! members see that they all have the same ([`Session`]). A session serves with the members that have signed
//! for it, which must be 2t − 1.
//!
//! | message | numbers | bytes |
//! |---|---|---|
//! | [`Request`] | a row of d features and three squares for each arm | 8·K·(d + 3) + 16·n + 48 |
//! | [`Answer`], of each member | its share of the arm | 32 |
//! | [`Feedback`] | the reward and three squares | 32 + 16·n + 48 |
//!
//! All numbers are under pads of the session. Each message has a MAC for each member, so that whoever carries
//! it cannot change it, and a nonce, so that no pad serves twice.

use crate::{Error, Field, Key, Kind, Label, Pads, Row, Sharing, Threshold};
use envelope::{SEALED_OVERHEAD, SealingSecret};
use rand::{CryptoRng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// The bytes of a MAC.
pub const MAC_BYTES: usize = 16;
/// The numbers of a feedback: the reward and three squares.
const FEEDBACK_NUMBERS: usize = 4;
/// The most numbers of a request.
const MOST_NUMBERS: usize = 1 << 16;

/// A number that is drawn for one message.
pub type Nonce = [u8; 16];
/// The hash by which a session is known.
pub type SessionId = [u8; 32];

/// What a device keeps of a session.
pub struct SessionSecret {
    id: SessionId,
    /// What all its keys follow from.
    seed: Key,
    /// By the place of the subset.
    subsets: Vec<Key>,
    /// By the number of the member, from 1.
    members: Vec<Key>,
}

/// What a device sends to begin a session. Whoever carries it learns nothing of its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The hash of the key of each subset.
    pub hashes: Vec<[u8; 32]>,
    /// What is sealed to each member.
    pub sealed: Vec<Vec<u8>>,
}

/// What a member makes of a session.
pub struct MemberSession {
    id: SessionId,
    member: u8,
    /// By the places of the member's subsets.
    subsets: Vec<(usize, Key)>,
    mac: Key,
}

impl Session {
    /// The hash of all of it.
    pub fn id(&self) -> SessionId {
        let mut hasher = blake3::Hasher::new_derive_key("helba 2026-11-27 session with a committee");
        for part in self.hashes.iter().map(|hash| &hash[..]).chain(self.sealed.iter().map(Vec::as_slice)) {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        *hasher.finalize().as_bytes()
    }

    /// Whether it has a hash for each subset and a box for each member, as long as their keys.
    pub fn fits(&self, threshold: Threshold) -> bool {
        let subsets = threshold.subsets();
        let keys = |member: u8| 1 + subsets.iter().filter(|subset| subset.has(member)).count();
        let boxes = (1..=threshold.members()).map(|member| 32 * keys(member) + SEALED_OVERHEAD);
        self.hashes.len() == subsets.len() && self.sealed.iter().map(Vec::len).eq(boxes)
    }

    /// What a box of this session is for, so that it opens in no other.
    fn purpose(committee: &[u8; 32], member: u8, hashes: &[[u8; 32]]) -> Vec<u8> {
        [b"helba session with a committee", &committee[..], &[member], &hashes.concat()].concat()
    }
}

/// The nonce, the numbers under pads and the MACs of a message.
type Hidden = (Nonce, Vec<u64>, Vec<[u8; MAC_BYTES]>);

impl SessionSecret {
    /// Begins a session with the committee of this id, whose members have these public keys for sealing.
    ///
    /// # Errors
    /// [`Error::Sealed`] for a bad key, [`Error::Message`] for another number of keys.
    pub fn open<R: CryptoRng>(
        sharing: &Sharing,
        committee: &[u8; 32],
        sealing: &[Vec<u8>],
        rng: &mut R,
    ) -> Result<(Self, Session), Error> {
        Self::of(sharing, committee, sealing, Key::random(rng))
    }

    /// The session that follows from a seed, and what begins it: the same bytes each time.
    pub(crate) fn of(
        sharing: &Sharing,
        committee: &[u8; 32],
        sealing: &[Vec<u8>],
        seed: Key,
    ) -> Result<(Self, Session), Error> {
        if sealing.len() != usize::from(sharing.threshold().members()) {
            return Err(Error::Message);
        }
        let boxes = seed.derive(&Label::new(Kind::Session, &[b"boxes", committee]));
        let mut rng = ChaCha20Rng::from_seed(*boxes.bytes());
        let count = sharing.subsets().len();
        let mut secret = SessionSecret::of_seed(sharing, [0; 32], seed);
        let (subsets, members) = (&secret.subsets, &secret.members);
        let hashes: Vec<[u8; 32]> = subsets.iter().map(Key::hash).collect();
        let mut sealed = Vec::with_capacity(sealing.len());
        for ((member, public), mac) in (1..).zip(sealing).zip(members) {
            let own = sharing.subsets().iter().zip(subsets).filter(|(subset, _)| subset.has(member));
            let mut keys = Zeroizing::new(Vec::with_capacity(32 * (count + 1)));
            keys.extend_from_slice(mac.bytes());
            own.for_each(|(_, key)| keys.extend_from_slice(key.bytes()));
            let purpose = Session::purpose(committee, member, &hashes);
            let boxed = envelope::seal(public, &purpose, &keys, &mut rng);
            sealed.push(boxed.map_err(|_| Error::Sealed { member })?);
        }
        let session = Session { hashes, sealed };
        secret.id = session.id();
        Ok((secret, session))
    }

    fn of_seed(sharing: &Sharing, id: SessionId, seed: Key) -> Self {
        let derived = |what: &[u8], at: usize| {
            seed.derive(&Label::new(Kind::Session, &[what, &(at as u64).to_le_bytes()]))
        };
        let subsets = (0..sharing.subsets().len()).map(|at| derived(b"subset", at)).collect();
        let members = (1..=usize::from(sharing.threshold().members())).map(|at| derived(b"member", at));
        SessionSecret { id, members: members.collect(), subsets, seed }
    }

    /// 64 bytes, from which the session goes on after a restart of its device. They are secret.
    pub fn to_bytes(&self) -> Zeroizing<[u8; 64]> {
        let mut bytes = Zeroizing::new([0; 64]);
        bytes[..32].copy_from_slice(&self.id);
        bytes[32..].copy_from_slice(self.seed.bytes());
        bytes
    }

    /// The session of these bytes.
    pub fn from_bytes(sharing: &Sharing, bytes: &[u8; 64]) -> Self {
        let (mut id, mut seed) = ([0; 32], Zeroizing::new([0; 32]));
        id.copy_from_slice(&bytes[..32]);
        seed.copy_from_slice(&bytes[32..]);
        SessionSecret::of_seed(sharing, id, Key::new(*seed))
    }

    /// The session's id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    pub(crate) fn seed(&self) -> Key {
        Key::new(*self.seed.bytes())
    }

    fn message<R: CryptoRng>(
        &self,
        kind: Kind,
        about: &[u8],
        pads: Pads,
        rows: &[&Row],
        rng: &mut R,
    ) -> Result<Hidden, Error> {
        let numbers: Vec<i64> = rows.iter().flat_map(|row| row.numbers().iter().copied()).collect();
        // A sum of pads is below zero once in 2^50: then there is another nonce.
        for _ in 0..4 {
            let mut nonce = Nonce::default();
            rng.fill_bytes(&mut nonce);
            let label = Label::new(kind, &[&self.id, about, &nonce]);
            if let Some(sent) = pads.hide(&self.subsets, &label, &numbers) {
                let macs = self.members.iter().map(|key| authentication(key, &label, &sent)).collect();
                return Ok((nonce, sent, macs));
            }
        }
        Err(Error::Message)
    }

    /// The rows of a decision of a bandit, of one length.
    ///
    /// # Errors
    /// [`Error::Row`] for a row of another length than the pads are for.
    pub fn request<R: CryptoRng>(
        &self,
        bandit: &[u8],
        pads: Pads,
        rows: &[Row],
        rng: &mut R,
    ) -> Result<Request, Error> {
        let of: Vec<&Row> = rows.iter().collect();
        if let Some(row) = rows.iter().find(|row| row.numbers().len() != pads.row_numbers()) {
            return Err(Error::Row {
                got: row.numbers().len().saturating_sub(3),
                most: pads.row_numbers() - 3,
            });
        }
        let (nonce, numbers, macs) = self.message(Kind::Request, bandit, pads, &of, rng)?;
        Ok(Request { session: self.id, nonce, numbers, macs })
    }

    /// The reward of a decision, as a row of one number.
    ///
    /// # Errors
    /// Those of [`Pads::new`].
    pub fn feedback<R: CryptoRng>(
        &self,
        decision: &[u8; 32],
        sharing: &Sharing,
        reward: &Row,
        rng: &mut R,
    ) -> Result<Feedback, Error> {
        let pads = Pads::new(sharing, 1)?;
        let (nonce, numbers, macs) = self.message(Kind::Feedback, decision, pads, &[reward], rng)?;
        Ok(Feedback { decision: *decision, nonce, numbers, macs })
    }

    /// What has the feedback on a decision erased: a MAC for each member.
    pub fn erasure(&self, decision: &[u8; 32]) -> Vec<u8> {
        let label = Label::new(Kind::Erasure, &[&self.id, decision]);
        self.members.iter().flat_map(|key| authentication_of(key, &label, &[])).collect()
    }

    /// The arm of an answer, from what the members have sent; answers with a wrong MAC are left out.
    ///
    /// # Errors
    /// [`Error::TooFew`], [`Error::NoPolynomial`]; [`Error::Message`] for an arm that is none of `arms`.
    pub fn arm(
        &self,
        sharing: &Sharing,
        place: &AnswerPlace,
        arms: usize,
        answers: &[(u8, Answer)],
    ) -> Result<usize, Error> {
        let label = place.label(&self.id);
        let own = |member: u8| usize::from(member).checked_sub(1).and_then(|at| self.members.get(at));
        let right = |(member, answer): &&(u8, Answer)| {
            own(*member).is_some_and(|key| same(&answer.mac, &answer.authentication(key, &label)))
        };
        let mut shares: Vec<(u8, Field)> =
            answers.iter().filter(right).map(|(member, answer)| (*member, answer.share)).collect();
        // An answer may be there twice.
        shares.sort_by_key(|(member, _)| *member);
        shares.dedup_by_key(|(member, _)| *member);
        let pads: Field = self.subsets.iter().map(|key| key.stream(&label).field()).sum();
        let arm = (sharing.open(&shares)?.value - pads).get();
        usize::try_from(arm).ok().filter(|arm| *arm < arms).ok_or(Error::Message)
    }
}

/// The rows of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The session.
    pub session: SessionId,
    /// Drawn for this request.
    pub nonce: Nonce,
    /// The numbers under pads, row by row.
    pub numbers: Vec<u64>,
    /// For each member.
    pub macs: Vec<[u8; MAC_BYTES]>,
}

/// The reward of a decision. A retry sends the same bytes, or draws another nonce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feedback {
    /// The decision's label.
    pub decision: [u8; 32],
    /// Drawn for this message.
    pub nonce: Nonce,
    /// The reward and three squares under pads.
    pub numbers: Vec<u64>,
    /// For each member.
    pub macs: Vec<[u8; MAC_BYTES]>,
}

/// A request or a feedback as bytes: what it is about, its nonce, the MACs, and 8 bytes a number.
fn to_bytes(about: &[u8; 32], nonce: &Nonce, macs: &[[u8; MAC_BYTES]], numbers: &[u64]) -> Vec<u8> {
    let mut bytes = [&about[..], nonce].concat();
    bytes.extend(macs.iter().flatten());
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes
}

/// Reads what [`to_bytes`] writes for `members` members.
fn from_bytes(bytes: &[u8], members: u8) -> Result<([u8; 32], Hidden), Error> {
    let (about, rest) = bytes.split_first_chunk().ok_or(Error::Message)?;
    let (nonce, rest) = rest.split_first_chunk().ok_or(Error::Message)?;
    let (macs, rest) = rest.split_at_checked(usize::from(members) * MAC_BYTES).ok_or(Error::Message)?;
    let (macs, _) = macs.as_chunks::<MAC_BYTES>();
    let (numbers, left) = rest.as_chunks::<8>();
    if !left.is_empty() || numbers.len() > MOST_NUMBERS {
        return Err(Error::Message);
    }
    let numbers = numbers.iter().map(|number| u64::from_le_bytes(*number)).collect();
    Ok((*about, (*nonce, numbers, macs.to_vec())))
}

impl Request {
    /// 48 bytes, 16 for each member, and 8 for each number.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(&self.session, &self.nonce, &self.macs, &self.numbers)
    }

    /// Reads what [`Request::to_bytes`] writes, for a committee of `members` members.
    ///
    /// # Errors
    /// [`Error::Message`].
    pub fn from_bytes(bytes: &[u8], members: u8) -> Result<Self, Error> {
        let (session, (nonce, numbers, macs)) = from_bytes(bytes, members)?;
        Ok(Request { session, nonce, numbers, macs })
    }
}

impl Feedback {
    /// 80 bytes, and 16 for each member.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(&self.decision, &self.nonce, &self.macs, &self.numbers)
    }

    /// Reads what [`Feedback::to_bytes`] writes, for a committee of `members` members.
    ///
    /// # Errors
    /// [`Error::Message`].
    pub fn from_bytes(bytes: &[u8], members: u8) -> Result<Self, Error> {
        let (decision, (nonce, numbers, macs)) = from_bytes(bytes, members)?;
        match numbers.len() {
            FEEDBACK_NUMBERS => Ok(Feedback { decision, nonce, numbers, macs }),
            _ => Err(Error::Message),
        }
    }
}

/// Where an answer belongs. No two answers have one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerPlace {
    /// The bandit.
    pub bandit: Vec<u8>,
    /// The hash of the run.
    pub run: [u8; 32],
    /// The request's place in its pack.
    pub position: u32,
    /// The nonce of the request.
    pub nonce: Nonce,
}

impl AnswerPlace {
    fn label(&self, session: &SessionId) -> Label {
        let position = self.position.to_le_bytes();
        Label::new(Kind::Answer, &[session, &self.bandit, &self.run, &position, &self.nonce])
    }
}

/// What a member answers: its share of the arm under a pad.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The share and its pad.
    pub share: Field,
    /// For the device.
    pub mac: [u8; MAC_BYTES],
}

impl Answer {
    fn authentication(&self, key: &Key, label: &Label) -> [u8; MAC_BYTES] {
        authentication_of(key, label, &self.share.to_bytes())
    }
}

impl MemberSession {
    /// What a member makes of a session with its committee.
    ///
    /// # Errors
    /// [`Error::Sealed`] for a box that does not open; [`Error::Message`] for keys that do not have the
    /// hashes that everybody sees.
    pub fn read(
        session: &Session,
        sharing: &Sharing,
        committee: &[u8; 32],
        member: u8,
        secret: &SealingSecret,
    ) -> Result<Self, Error> {
        let sealed = usize::from(member).checked_sub(1).and_then(|at| session.sealed.get(at));
        let sealed = sealed.ok_or(Error::Member { member })?;
        if session.hashes.len() != sharing.subsets().len() {
            return Err(Error::Message);
        }
        let purpose = Session::purpose(committee, member, &session.hashes);
        let opened = secret.open(&purpose, sealed).map_err(|_| Error::Sealed { member })?;
        let (keys, rest) = opened.as_chunks::<32>();
        let places = sharing.subsets().iter().enumerate().filter(|(_, subset)| subset.has(member));
        let places: Vec<usize> = places.map(|(at, _)| at).collect();
        let [mac, keys @ ..] = keys else { return Err(Error::Message) };
        if keys.len() != places.len() || !rest.is_empty() {
            return Err(Error::Message);
        }
        let subsets: Vec<(usize, Key)> =
            places.into_iter().zip(keys).map(|(at, key)| (at, Key::new(*key))).collect();
        if subsets.iter().any(|(at, key)| key.hash() != session.hashes[*at]) {
            return Err(Error::Message);
        }
        Ok(MemberSession { id: session.id(), member, subsets, mac: Key::new(*mac) })
    }

    /// The session's id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    fn shares(
        &self,
        sharing: &Sharing,
        pads: Pads,
        label: &Label,
        numbers: &[u64],
        macs: &[[u8; MAC_BYTES]],
    ) -> Result<Vec<Field>, Error> {
        let mac = macs.get(usize::from(self.member) - 1);
        let right = |mac: &&[u8; MAC_BYTES]| same(mac, &authentication(&self.mac, label, numbers));
        mac.filter(right).ok_or(Error::Mac)?;
        pads.shares(sharing, self.member, &self.subsets, label, numbers)
    }

    /// The member's shares of the rows of a request to this bandit, row by row.
    ///
    /// # Errors
    /// [`Error::Mac`]; [`Error::OutOfRange`]; [`Error::Message`] for another number of numbers.
    pub fn request(
        &self,
        sharing: &Sharing,
        bandit: &[u8],
        pads: Pads,
        arms: usize,
        request: &Request,
    ) -> Result<Vec<Vec<Field>>, Error> {
        if request.session != self.id || request.numbers.len() != arms * pads.row_numbers() {
            return Err(Error::Message);
        }
        let label = Label::new(Kind::Request, &[&self.id, bandit, &request.nonce]);
        let shares = self.shares(sharing, pads, &label, &request.numbers, &request.macs)?;
        Ok(shares.chunks_exact(pads.row_numbers()).map(<[Field]>::to_vec).collect())
    }

    /// The member's shares of a reward and its squares.
    ///
    /// # Errors
    /// As [`MemberSession::request`].
    pub fn feedback(&self, sharing: &Sharing, feedback: &Feedback) -> Result<Vec<Field>, Error> {
        if feedback.numbers.len() != FEEDBACK_NUMBERS {
            return Err(Error::Message);
        }
        let label = Label::new(Kind::Feedback, &[&self.id, &feedback.decision, &feedback.nonce]);
        self.shares(sharing, Pads::new(sharing, 1)?, &label, &feedback.numbers, &feedback.macs)
    }

    /// Whether the device has its feedback on a decision erased.
    pub fn erases(&self, decision: &[u8; 32], erasure: &[u8]) -> bool {
        let label = Label::new(Kind::Erasure, &[&self.id, decision]);
        let (macs, rest) = erasure.as_chunks::<MAC_BYTES>();
        let own = macs.get(usize::from(self.member) - 1);
        rest.is_empty() && own.is_some_and(|mac| same(mac, &authentication_of(&self.mac, &label, &[])))
    }

    /// What the member answers, from its share of the arm.
    pub fn answer(&self, sharing: &Sharing, place: &AnswerPlace, share: Field) -> Answer {
        let label = place.label(&self.id);
        let pads = self.subsets.iter().map(|(at, key)| (*at, key.stream(&label).field()));
        let share = share + sharing.share(self.member, pads);
        let mut answer = Answer { share, mac: [0; MAC_BYTES] };
        answer.mac = answer.authentication(&self.mac, &label);
        answer
    }
}

fn authentication(key: &Key, label: &Label, numbers: &[u64]) -> [u8; MAC_BYTES] {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    authentication_of(key, label, &bytes)
}

/// A keyed hash of a label and a message, cut to 16 bytes.
pub(crate) fn authentication_of(key: &Key, label: &Label, message: &[u8]) -> [u8; MAC_BYTES] {
    let hash =
        *blake3::Hasher::new_keyed(key.bytes()).update(label.bytes()).update(message).finalize().as_bytes();
    let mut mac = [0; MAC_BYTES];
    mac.copy_from_slice(&hash[..MAC_BYTES]);
    mac
}

/// Whether two MACs are equal, in constant time.
pub fn same(a: &[u8; MAC_BYTES], b: &[u8; MAC_BYTES]) -> bool {
    bool::from(subtle::ConstantTimeEq::ct_eq(&a[..], &b[..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::talk::{self, Answered};
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    const COMMITTEE: [u8; 32] = [5; 32];

    struct World {
        sharing: Sharing,
        secrets: Vec<SealingSecret>,
        public: Vec<Vec<u8>>,
        rng: ChaCha20Rng,
    }

    impl World {
        fn new(t: u8, n: u8) -> Self {
            let mut rng = ChaCha20Rng::seed_from_u64(u64::from(n));
            let secrets: Vec<SealingSecret> = (0..n).map(|_| SealingSecret::generate(&mut rng)).collect();
            World {
                sharing: Sharing::new(Threshold::new(t, n).unwrap()),
                public: secrets.iter().map(SealingSecret::public).collect(),
                secrets,
                rng,
            }
        }

        fn session(&mut self) -> (SessionSecret, Session) {
            SessionSecret::open(&self.sharing, &COMMITTEE, &self.public, &mut self.rng).unwrap()
        }

        fn read(&self, session: &Session, member: u8) -> Result<MemberSession, Error> {
            let secret = &self.secrets[usize::from(member) - 1];
            MemberSession::read(session, &self.sharing, &COMMITTEE, member, secret)
        }

        fn members(&self, session: &Session) -> Vec<MemberSession> {
            (1..=self.secrets.len() as u8).map(|member| self.read(session, member).unwrap()).collect()
        }
    }

    fn bytes(session: &Session) -> usize {
        session.hashes.len() * 32 + session.sealed.iter().map(Vec::len).sum::<usize>()
    }

    fn place(position: u32, nonce: Nonce) -> AnswerPlace {
        AnswerPlace { bandit: b"shop".to_vec(), run: [3; 32], position, nonce }
    }

    /// A request, its answer and a feedback arrive, for committees of different sizes, in as many bytes as
    /// the pages say.
    #[test]
    fn messages_of_a_session_arrive() {
        for ((t, n), sizes) in [
            ((2, 3), [416, 128, 215]),
            ((2, 4), [432, 144, 248]),
            ((3, 5), [448, 160, 281]),
            ((3, 7), [480, 192, 347]),
        ] {
            let mut world = World::new(t, n);
            let (secret, session) = world.session();
            let members = world.members(&session);
            let pads = Pads::new(&world.sharing, 7).unwrap();
            let mut rng = ChaCha20Rng::seed_from_u64(4);
            let rows: Vec<Row> =
                (0..4).map(|i| Row::new(&[0.1 * f64::from(i); 7], &mut rng).unwrap()).collect();
            let request = secret.request(b"shop", pads, &rows, &mut rng).unwrap();
            let read: Vec<Vec<Vec<Field>>> = members
                .iter()
                .map(|m| m.request(&world.sharing, b"shop", pads, 4, &request).unwrap())
                .collect();
            for (at, row) in rows.iter().enumerate() {
                for (i, number) in row.numbers().iter().enumerate() {
                    let shares: Vec<(u8, Field)> =
                        (1..).zip(&read).map(|(j, read)| (j, read[at][i])).collect();
                    assert_eq!(world.sharing.open(&shares).unwrap().value.signed(), i128::from(*number));
                }
            }
            // The first number of the first row is a sharing of 0: an arm.
            let place = place(1, request.nonce);
            let answers: Vec<(u8, Answer)> = (1..)
                .zip(members.iter().zip(&read))
                .map(|(j, (member, read))| {
                    (j, member.answer(&world.sharing, &place, read[0][0] + Field::new(2)))
                })
                .collect();
            assert_eq!(secret.arm(&world.sharing, &place, 4, &answers), Ok(2));
            assert_eq!(secret.arm(&world.sharing, &place, 2, &answers), Err(Error::Message));
            let reward = Row::new(&[-1.0], &mut rng).unwrap();
            let feedback = secret.feedback(&[8; 32], &world.sharing, &reward, &mut rng).unwrap();
            let shares = |member: &MemberSession| member.feedback(&world.sharing, &feedback).unwrap()[0];
            let shares: Vec<(u8, Field)> = (1..).zip(members.iter().map(shares)).collect();
            assert_eq!(world.sharing.open(&shares).unwrap().value.signed(), -65_536);
            let place = AnswerPlace { bandit: vec![7; 32], ..place };
            let answered = Answered { decision: [9; 32], round: 1, place, answers };
            let answered = talk::to_bytes(&answered).unwrap();
            assert_eq!([request.to_bytes().len(), feedback.to_bytes().len(), answered.len()], sizes);
        }
    }

    /// What a session takes once.
    #[test]
    fn a_session_is_small() {
        let sizes = [(2, 3), (2, 4), (3, 5), (3, 7)].map(|(t, n)| bytes(&World::new(t, n).session().1));
        assert_eq!(sizes, [3792, 5184, 7120, 12_208]);
    }

    /// A device that gives members different keys, or one member a box that does not open, is refused by
    /// those members. In the control members do not compare hashes, and one of them has another key.
    #[test]
    fn attack_members_are_given_different_keys() {
        let mut world = World::new(2, 3);
        let (_, honest) = world.session();
        let (_, other) = world.session();
        // The box of another session of the same device does not open in this one.
        let mut swapped = honest.clone();
        swapped.sealed[1] = other.sealed[1].clone();
        assert_eq!(world.read(&swapped, 2).err(), Some(Error::Sealed { member: 2 }));
        assert!(world.read(&swapped, 1).is_ok() && swapped.id() != honest.id());
        // Sealed for this session, with another key of one subset.
        let purpose = Session::purpose(&COMMITTEE, 2, &honest.hashes);
        let opened = world.secrets[1].open(&purpose, &honest.sealed[1]).unwrap();
        let mut keys = opened.to_vec();
        keys[40] ^= 1;
        let mut unequal = honest.clone();
        unequal.sealed[1] = envelope::seal(&world.public[1], &purpose, &keys, &mut world.rng).unwrap();
        assert_eq!(world.read(&unequal, 2).err(), Some(Error::Message));
        let changed: [u8; 32] = keys[32..64].try_into().unwrap();
        assert_ne!(Key::new(changed).hash(), honest.hashes[0], "the control has another key than the others");
        for bad in [
            Session { hashes: honest.hashes[1..].to_vec(), ..honest.clone() },
            Session { sealed: honest.sealed[..1].to_vec(), ..honest.clone() },
        ] {
            assert!(world.read(&bad, 2).is_err());
        }
    }

    /// A server that changes a number, the bandit, the nonce or the session of a request, or a feedback's
    /// decision, is refused by every member. In the control, without MACs, a changed number is read.
    #[test]
    fn attack_a_server_changes_a_message() {
        let mut world = World::new(2, 3);
        let (secret, session) = world.session();
        let (_, second) = world.session();
        let pads = Pads::new(&world.sharing, 2).unwrap();
        let rows = [Row::new(&[0.5, 0.5], &mut world.rng).unwrap()];
        let request = secret.request(b"shop", pads, &rows, &mut world.rng).unwrap();
        let reward = Row::new(&[1.0], &mut world.rng).unwrap();
        let feedback = secret.feedback(&[8; 32], &world.sharing, &reward, &mut world.rng).unwrap();
        for member in world.members(&session) {
            let read =
                |bandit: &[u8], request: &Request| member.request(&world.sharing, bandit, pads, 1, request);
            assert!(read(b"shop", &request).is_ok());
            let mut changed = request.clone();
            changed.numbers[0] += 1;
            assert_eq!(read(b"shop", &changed).err(), Some(Error::Mac));
            assert_eq!(read(b"shoq", &request).err(), Some(Error::Mac));
            assert_eq!(read(b"shop", &Request { nonce: [0; 16], ..request.clone() }).err(), Some(Error::Mac));
            assert!(read(b"shop", &Request { session: second.id(), ..request.clone() }).is_err());
            assert_eq!(read(b"shop", &Request { macs: vec![], ..request.clone() }).err(), Some(Error::Mac));
            let of = |feedback: &Feedback| member.feedback(&world.sharing, feedback);
            assert!(of(&feedback).is_ok());
            assert_eq!(of(&Feedback { decision: [9; 32], ..feedback.clone() }).err(), Some(Error::Mac));
            let label = Label::new(Kind::Request, &[&session.id(), b"shop", &request.nonce]);
            let control =
                pads.shares(&world.sharing, member.member, &member.subsets, &label, &changed.numbers);
            assert!(control.is_ok(), "without a MAC the changed number is read");
        }
    }

    /// Two answers to requests of one session in a pack are under different pads, and so are two to one
    /// request in two runs. In the control, under one place, the server sees the difference of two arms.
    #[test]
    fn attack_answers_of_a_session_are_compared() {
        let mut world = World::new(2, 3);
        let (_, session) = world.session();
        let members = world.members(&session);
        let difference = |one: &AnswerPlace, two: &AnswerPlace| {
            let of = |place: &AnswerPlace, arm: u128| -> Vec<Field> {
                let answer =
                    |member: &MemberSession| member.answer(&world.sharing, place, Field::new(arm)).share;
                members.iter().map(answer).collect()
            };
            let shares = of(one, 3).into_iter().zip(of(two, 1)).map(|(a, b)| a - b);
            let shares: Vec<(u8, Field)> = (1..).zip(shares).collect();
            world.sharing.open(&shares).unwrap().value.signed()
        };
        let here = place(1, [1; 16]);
        assert_eq!(difference(&here, &here), 2);
        for other in [
            place(2, [1; 16]),
            place(1, [2; 16]),
            AnswerPlace { run: [4; 32], ..here.clone() },
            AnswerPlace { bandit: b"other".to_vec(), ..here.clone() },
        ] {
            assert!(difference(&here, &other).abs() > 1 << 64);
        }
    }

    /// A feedback that is made again has other bytes whatever the reward is. In the control, under the nonce
    /// of the first, bytes are equal for the same reward.
    #[test]
    fn attack_feedbacks_are_compared() {
        let mut world = World::new(2, 3);
        let (secret, _) = world.session();
        let pads = Pads::new(&world.sharing, 1).unwrap();
        for value in [-1.0, 0.0, 1.0] {
            let reward = Row::new(&[value], &mut world.rng).unwrap();
            let mut send = || secret.feedback(&[8; 32], &world.sharing, &reward, &mut world.rng).unwrap();
            let (one, two) = (send(), send());
            assert!(one.nonce != two.nonce && one.numbers.iter().zip(&two.numbers).all(|(a, b)| a != b));
            let label = Label::new(Kind::Feedback, &[&secret.id, &[8; 32], &one.nonce]);
            assert_eq!(pads.hide(&secret.subsets, &label, reward.numbers()), Some(one.numbers));
        }
    }

    /// A member that lies about its share of the arm is left out where one more than 2t − 1 answers, and what
    /// a server makes up has no MAC.
    #[test]
    fn attack_an_answer_is_changed() {
        let mut world = World::new(2, 4);
        let (secret, session) = world.session();
        let members = world.members(&session);
        let place = place(0, [1; 16]);
        let mut answers: Vec<(u8, Answer)> =
            (1..).zip(&members).map(|(j, m)| (j, m.answer(&world.sharing, &place, Field::new(1)))).collect();
        answers[2].1 = members[2].answer(&world.sharing, &place, Field::new(2));
        assert_eq!(secret.arm(&world.sharing, &place, 4, &answers), Ok(1));
        let twice = [&answers[..], &answers[..2]].concat();
        assert_eq!(secret.arm(&world.sharing, &place, 4, &twice), Ok(1));
        answers[0].1.share += Field::ONE;
        assert_eq!(secret.arm(&world.sharing, &place, 4, &answers), Err(Error::NoPolynomial));
        answers[1].1.mac = [0; 16];
        assert_eq!(secret.arm(&world.sharing, &place, 4, &answers), Err(Error::TooFew { here: 2, need: 3 }));
    }
}
