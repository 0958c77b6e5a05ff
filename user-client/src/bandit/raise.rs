//! The tasks of a holder of the key: it decrypts masked values and encrypts them again, in the ring and at
//! the level where the server continues with them.

use super::BanditDevice;
use super::secret;
use crate::Error;
use ckks::{Ciphertext, KeyId, Padded, Params, Plaintext, Side};
use ckks_secret::{SecretKey, SeededCiphertext};
use protocol::{AskedExchanges, LOG_CONTEXT, LOG_SCORE, LOG_STATISTICS, MOST_FACTOR, TaskKind, UserKeys};
use rand::{CryptoRng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use wire::{Enrolment, Nonce, PadKey, PadsOf, RaiseTask, Raised, Raises, Ticket, UserPads};
use zeroize::Zeroizing;

/// A task whose frame and numbers were checked against the plan. Only the [`BanditDevice`] that read it can
/// answer it.
pub struct MaskedTask {
    id: u64,
    kind: TaskKind,
    masked: Vec<Ciphertext>,
    /// Whose pads it needs, if users have keys of their own.
    users: Vec<PaddedUser>,
}

/// A user with a key of its own, and a message of its under pads.
struct PaddedUser {
    /// `None` for one who is refused: it was removed, or its enrolment is over.
    enrolment: Option<Enrolment>,
    message: PaddedMessage,
}

enum PaddedMessage {
    /// An answer, and the coefficients with its entries.
    Answer(Vec<usize>),
    /// The contexts of so many decisions.
    Contexts(usize, Nonce),
    /// The statistics of a feedback.
    Feedback(Nonce),
}

/// A ciphertext of uploads.
struct PaddedPart {
    /// The seed and the places of the pads of each user.
    pads: Vec<(Zeroizing<[u8; 32]>, Vec<usize>)>,
    log_scale: u32,
    /// How many of the first coefficients are sent; `None` if all are.
    first: Option<usize>,
}

impl PaddedUser {
    /// The decisions whose contexts it has sent.
    fn decisions(&self) -> usize {
        match self.message {
            PaddedMessage::Contexts(decisions, _) => decisions,
            PaddedMessage::Answer(_) | PaddedMessage::Feedback(_) => 0,
        }
    }
}

impl MaskedTask {
    /// The kind.
    pub fn kind(&self) -> TaskKind {
        self.kind
    }
}

const NO_SLOTS: Error = Error::BadTask("it asks for an update in slots, which its bandit does not have");

impl BanditDevice<'_> {
    /// Reads a task.
    pub(super) fn task(&self, task: &RaiseTask) -> Result<MaskedTask, Error> {
        match task.kind {
            TaskKind::Scores { .. } | TaskKind::Answers if self.created.config.decides_alone() => {
                return Err(Error::BadTask(
                    "it asks to raise scores or answers, which a bandit with answers: scores never does",
                ));
            }
            TaskKind::Sum | TaskKind::Model if self.exchanges.slots.is_none() => return Err(NO_SLOTS),
            TaskKind::Scores { factors, .. }
                if !factors.iter().all(|factor| (0.0..=MOST_FACTOR).contains(factor))
                    || factors[0] + factors[1] == 0.0 =>
            {
                return Err(Error::BadTask(
                    "it raises scores by factors that are not from 0 to 16384, or are all 0",
                ));
            }
            _ => {}
        }
        let masked = match (task.kind, &task.masked[..]) {
            (TaskKind::Pads, []) => Vec::new(),
            (TaskKind::Product { .. } | TaskKind::Stage { .. }, frames) => {
                self.read_exchanged(&task.kind, frames)?
            }
            (_, [frame]) => vec![self.read_masked(task.kind, frame)?],
            _ => return Err(Error::BadTask("it has several ciphertexts, and its kind takes one")),
        };
        let users = self.padded_users(task)?;
        Ok(MaskedTask { id: task.id, kind: task.kind, masked, users })
    }

    /// Reads whose pads a task needs.
    fn padded_users(&self, task: &RaiseTask) -> Result<Vec<PaddedUser>, Error> {
        let into_answers = |asked: AskedExchanges<'_>| {
            asked.groups.iter().flatten().all(|exchange| exchange.to().params == self.answers)
        };
        let needs_pads = match &task.kind {
            TaskKind::Answers | TaskKind::Pads => true,
            kind => self.exchanges.of(kind)?.is_some_and(into_answers),
        };
        let own = self.created.plan.keys == UserKeys::Own;
        if task.pads.is_empty() == (own && needs_pads) || !own && task.kind == TaskKind::Pads {
            return Err(Error::BadTask("it names users where it needs no pads, or names none"));
        }
        let enroller = match self.device.enroller() {
            Some(enroller) if own => enroller,
            _ => return Ok(Vec::new()),
        };
        let of = |user: &UserPads| {
            let message = self.padded_message(&user.of, task.kind)?;
            let enrolment = Enrolment::read(&user.enrolment, enroller, self.device.key_id())?;
            let enrolment = Some(enrolment).filter(|one| self.device.serves(one));
            Ok(PaddedUser { enrolment, message })
        };
        let users: Vec<PaddedUser> = task.pads.par_iter().map(of).collect::<Result<_, Error>>()?;
        let of_answer = |user: &PaddedUser| match &user.message {
            PaddedMessage::Answer(places) => places.clone(),
            PaddedMessage::Contexts(..) | PaddedMessage::Feedback(_) => Vec::new(),
        };
        let decisions: usize = users.iter().map(PaddedUser::decisions).sum();
        if decisions > 0 {
            self.exchanges.layout.log_places(decisions)?;
        }
        let mut places: Vec<usize> = users.iter().flat_map(of_answer).collect();
        places.sort_unstable();
        if places.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::BadTask("it names a user twice"));
        }
        Ok(users)
    }

    /// Where the coefficients of a message under pads are.
    fn padded_message(&self, of: &PadsOf, kind: TaskKind) -> Result<PaddedMessage, Error> {
        let layout = &self.exchanges.layout;
        match (of, kind == TaskKind::Pads) {
            (PadsOf::Answer(users), false) => {
                let (numbers, slots) = (layout.users(), self.device.rings().decisions.max_slots());
                let users: Vec<usize> = users.iter().map(|user| *user as usize).collect();
                if !users.iter().all(|user| numbers.contains(user)) {
                    return Err(Error::BadTask("it names a user that no evaluation has"));
                }
                Ok(PaddedMessage::Answer(layout.answer_coefficients(&users, slots)))
            }
            (PadsOf::Contexts { decisions, nonce }, true) => {
                Ok(PaddedMessage::Contexts(*decisions as usize, *nonce))
            }
            (PadsOf::Feedback { nonce }, true) => Ok(PaddedMessage::Feedback(*nonce)),
            _ => Err(Error::BadTask("it names another message of a user than its kind is about")),
        }
    }

    /// The answers to the users of a task, from what `under_pads` makes of a seed for each that is not
    /// refused.
    fn padded<R: CryptoRng>(
        &self,
        users: &[PaddedUser],
        under_pads: impl FnOnce(&[Padded<'_>]) -> Result<Vec<u8>, Error>,
        rng: &mut R,
    ) -> Result<Raised, Error> {
        let (mut seeds, mut nonces) = (Vec::new(), Vec::new());
        for PaddedUser { enrolment, message } in users {
            let PaddedMessage::Answer(places) = message else {
                return Err(Error::BadTask("it makes answers for uploads"));
            };
            let nonce = enrolment.as_ref().map(|_| secret::nonce(rng));
            if let Some((enrolment, nonce)) = enrolment.as_ref().zip(nonce) {
                let key = self.device.pad_key(enrolment)?;
                seeds.push((key.seed(wire::Padded::Answer, &self.created.id, &nonce), places));
            }
            nonces.push(nonce);
        }
        let users: Vec<Padded<'_>> = seeds.iter().map(|(seed, places)| (&**seed, &places[..])).collect();
        Ok(Raised::Padded { padded: under_pads(&users)?, nonces })
    }

    /// The encryptions of minus the pads of the uploads of `users`.
    fn minus_pads<R: CryptoRng>(&self, users: &[PaddedUser], rng: &mut R) -> Result<Raised, Error> {
        let layout = &self.exchanges.layout;
        let decisions: usize = users.iter().map(PaddedUser::decisions).sum();
        // The pads of each ciphertext, by whose coefficients they are and how many of these are sent.
        let mut parts: Vec<PaddedPart> = Vec::new();
        if decisions > 0 {
            let count = layout.context_parts(decisions);
            parts.resize_with(count, || PaddedPart { pads: Vec::new(), log_scale: LOG_CONTEXT, first: None });
        }
        let (mut before, mut refused) = (0, Vec::new());
        for (at, user) in users.iter().enumerate() {
            let key = user.enrolment.as_ref().map(|enrolment| self.device.pad_key(enrolment)).transpose()?;
            refused.extend(key.is_none().then_some(at as u32));
            match &user.message {
                PaddedMessage::Answer(_) => return Err(Error::BadTask("it encrypts the pads of answers")),
                PaddedMessage::Contexts(of_user, nonce) => {
                    let places = layout.context_places(decisions, before..before + of_user)?;
                    before += of_user;
                    let Some(key) = key else { continue };
                    for (number, (part, places)) in (0..).zip(places) {
                        let seed = key.seed(wire::Padded::Contexts(number), &self.created.id, nonce);
                        parts[part].pads.push((seed, places));
                    }
                }
                PaddedMessage::Feedback(nonce) => {
                    let count = layout.feedback_numbers();
                    let seed = |key: PadKey| key.seed(wire::Padded::Feedback, &self.created.id, nonce);
                    let pads = key.map(|key| (seed(key), (0..count).collect())).into_iter().collect();
                    parts.push(PaddedPart { pads, log_scale: LOG_STATISTICS, first: Some(count) });
                }
            }
        }
        let small = &self.device.secret_keys()?.small;
        let mut parts: Vec<(PaddedPart, ChaCha20Rng)> =
            parts.into_iter().map(|part| (part, ChaCha20Rng::from_rng(rng))).collect();
        let encrypt = |(part, rng): &mut (PaddedPart, ChaCha20Rng)| {
            let (params, scale) = (small.params(), f64::from(part.log_scale).exp2());
            let users: Vec<Padded<'_>> =
                part.pads.iter().map(|(seed, places)| (&**seed, &places[..])).collect();
            let pads = Zeroizing::new(Plaintext::minus_pads(params, &users, params.max_level(), scale)?);
            let encrypted = ckks_secret::encrypt(small, &pads, rng);
            Ok(match part.first {
                Some(count) => encrypted.to_partial_bytes(small, self.small_id, count),
                None => encrypted.to_bytes(small, self.small_id),
            })
        };
        let frames = parts.par_iter_mut().map(encrypt).collect::<Result<_, Error>>()?;
        Ok(Raised::Pads { frames, refused })
    }

    /// Reads the ciphertexts of an exchange, whose map and factors must be those that this device would use.
    fn read_exchanged(&self, kind: &TaskKind, frames: &[Vec<u8>]) -> Result<Vec<Ciphertext>, Error> {
        let other = Error::BadTask("it asks for an exchange that its bandit does not have");
        let asked = self.exchanges.of(kind)?.ok_or(other)?;
        if !asked.are_stated() {
            return Err(Error::BadTask("it asks for an exchange by another map than its bandit's"));
        }
        for exchange in asked.groups.iter().flatten() {
            exchange.check_factors(asked.factors)?;
        }
        let sides = || asked.groups.iter().filter_map(|group| Some(group.first()?.from()));
        let (got, want) = (frames.len(), sides().map(|side| side.ciphertexts).sum());
        if got != want {
            return Err(ckks::Error::CiphertextCount { got, want }.into());
        }
        let (mut rest, mut masked) = (frames.iter(), Vec::new());
        for Side { params, level, scale, ciphertexts, .. } in sides() {
            let (_, id) = self.holds(params)?;
            for frame in rest.by_ref().take(*ciphertexts) {
                // Frames hold the canonical scale.
                masked.push(ckks::read_ciphertext(params, id, *level, frame)?.with_scale(*scale));
            }
        }
        Ok(masked)
    }

    /// The key of a ring on one side of an exchange.
    fn holds(&self, params: &Params) -> Result<(&SecretKey, KeyId), Error> {
        let keys = self.device.secret_keys()?;
        let (small, decisions, id) = (&keys.small, keys.decisions(), self.device.decisions_id());
        match (params, &self.answers_secret) {
            (params, _) if params == small.params() => Ok((small, self.small_id)),
            (params, _) if params == decisions.params() => Ok((decisions, id)),
            (params, Some(answers)) if params == answers.params() => Ok((answers, self.small_id)),
            _ => Err(Error::BadTask("it asks for an exchange in a ring whose key this device does not have")),
        }
    }

    /// Reads the ciphertext of a task that has one.
    fn read_masked(&self, kind: TaskKind, frame: &[u8]) -> Result<Ciphertext, Error> {
        Ok(match kind {
            TaskKind::Product { .. } | TaskKind::Stage { .. } | TaskKind::Pads => {
                return Err(Error::BadTask("it has no ciphertext"));
            }
            TaskKind::Scores { .. } | TaskKind::Sum => {
                let params = self.small();
                let read = ckks::read_ciphertext(params, self.small_id, params.max_level(), frame)?;
                let of_sums = self.exchanges.layout.log_sums();
                let log_scale = if kind == TaskKind::Sum { of_sums } else { LOG_SCORE };
                // Frames hold the canonical scale.
                read.with_scale(f64::from(log_scale).exp2())
            }
            TaskKind::Model => {
                let (params, level) = (self.device.params(), self.created.plan.refresh_level);
                ckks::read_ciphertext(params, self.device.key_id(), level, frame)?
            }
            TaskKind::Answers => {
                let (params, id) = (&self.device.rings().decisions, self.device.decisions_id());
                ckks::read_ciphertext(params, id, self.exchanges.answers.level(), frame)?
            }
        })
    }

    /// The body of `POST …/raises` with the answers to `tasks`, under the ticket of a device that waits for
    /// its decision. A raise of scores or of a sum takes some 25 ms of one core; a raise of scores has 0.7 to
    /// 0.9 MB at N = 2¹⁴ and 1.6 to 2.8 MB at N = 2¹⁵, and one of answers 42 kB at N' = 2¹³.
    ///
    /// # Errors
    /// [`Error::Secret`] for a factor that the level of the plan does not allow. No error depends on a
    /// decrypted value.
    pub fn raise<R: CryptoRng>(
        &self,
        tasks: &[MaskedTask],
        ticket: Option<Ticket>,
        rng: &mut R,
    ) -> Result<Vec<u8>, Error> {
        let answer = |task: &MaskedTask| Ok((task.id, self.raised(task, rng)?));
        let raised = tasks.iter().map(answer).collect::<Result<_, Error>>()?;
        Ok(Raises { ticket, raised }.to_bytes())
    }

    fn raised<R: CryptoRng>(&self, task: &MaskedTask, rng: &mut R) -> Result<Raised, Error> {
        if task.kind == TaskKind::Pads {
            return self.minus_pads(&task.users, rng);
        }
        let keys = self.device.secret_keys()?;
        let (deep, small, exchanges) = (&keys.deep, &keys.small, &self.exchanges);
        let (decisions, decisions_id) = (keys.decisions(), self.device.decisions_id());
        let frame = |fresh: SeededCiphertext| fresh.to_bytes(deep, self.device.key_id());
        if let Some(asked) = exchanges.of(&task.kind)? {
            if let ([group], false) = (&asked.groups[..], task.users.is_empty()) {
                let [exchange] = &group[..] else {
                    return Err(Error::BadTask("its answers are of several maps"));
                };
                let under_pads = |users: &[Padded<'_>]| {
                    let (from, masked) = (self.holds(&exchange.from().params)?.0, &task.masked);
                    let id = self.small_id;
                    Ok(ckks_secret::exchange_under_pads(exchange, from, masked, asked.factors, id, users)?)
                };
                return self.padded(&task.users, under_pads, rng);
            }
            let (mut rest, mut out) = (&task.masked[..], Vec::new());
            for group in asked.groups {
                let count = group.first().map_or(0, |exchange| exchange.from().ciphertexts);
                let (masked, after) = rest.split_at(count);
                if let Some(first) = group.first() {
                    let [(from, _), (to, id)] =
                        [self.holds(&first.from().params)?, self.holds(&first.to().params)?];
                    let fresh = ckks_secret::exchange_group(&group, from, to, masked, asked.factors, rng)?;
                    out.extend(
                        fresh.par_iter().flatten().map(|fresh| fresh.to_bytes(to, id)).collect::<Vec<_>>(),
                    );
                }
                rest = after;
            }
            return Ok(Raised::Exchanged(out));
        }
        let in_slots = || exchanges.slots.as_ref().ok_or(NO_SLOTS);
        let [masked] = &task.masked[..] else { return Err(Error::BadTask("it has no ciphertext")) };
        match task.kind {
            // It has an exchange.
            TaskKind::Product { .. } | TaskKind::Stage { .. } | TaskKind::Pads => {
                Err(Error::BadTask("it has no exchange"))
            }
            TaskKind::Scores { factors } => {
                let raise = &exchanges.scores;
                let fresh = ckks_secret::raise(raise, small, decisions, masked, factors, rng)?;
                Ok(Raised::Scores(fresh.to_bytes(decisions, decisions_id)))
            }
            TaskKind::Sum => {
                let factors = exchanges.layout.statistics_factors();
                let fresh = ckks_secret::raise(&in_slots()?.statistics, small, deep, masked, factors, rng)?;
                Ok(Raised::Sum(frame(fresh)))
            }
            TaskKind::Model => {
                let (plan, exchange) = (&self.created.plan, &in_slots()?.model);
                let (level, slots) = (plan.model_level, plan.model_slots);
                let [mut first, mut second] = [ChaCha20Rng::from_rng(rng), ChaCha20Rng::from_rng(rng)];
                let (fresh, scores) = rayon::join(
                    || ckks_secret::recrypt(deep, masked, level, slots, &mut first),
                    || ckks_secret::slots_to_coefficients(exchange, deep, small, masked, &mut second),
                );
                Ok(Raised::Model { deep: frame(fresh?), scores: scores?.to_bytes(small, self.small_id) })
            }
            TaskKind::Answers => {
                let exchange = &exchanges.answers;
                if !task.users.is_empty() {
                    let id = self.small_id;
                    let under_pads = |users: &[Padded<'_>]| {
                        Ok(ckks_secret::slots_under_pads(exchange, decisions, masked, id, users)?)
                    };
                    return self.padded(&task.users, under_pads, rng);
                }
                let answers = self.answers_secret.as_ref().ok_or(Error::NoSecretKeys)?;
                let fresh = ckks_secret::slots_to_coefficients(exchange, decisions, answers, masked, rng)?;
                Ok(Raised::Answers(fresh.to_bytes(answers, self.small_id)))
            }
        }
    }
}
