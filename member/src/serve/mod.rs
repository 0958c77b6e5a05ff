//! A member that answers the questions of a server: it connects to it and accepts no connection.
//!
//! What it decrypts leaves it under masks, smudging and zero shares alone. Its ledger notes each answer
//! before it leaves, so that nothing is opened twice, whatever stops the program.

mod answering;
mod error;
mod ledger;
mod replica;
mod turns;

pub use answering::{Joined, NextKeys, answer, answer_handover, answer_rotation, check_manifest};
pub use error::Error;
pub use ledger::{Ledger, Told, ToldBandit};
pub use replica::{Replica, Source};

use crate::MemberKeys;
use host::lock;
use rand_chacha::ChaCha20Rng;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use user_client::{Client, Stop, patiently};
use wire::{MemberReply, MemberRequest, Question, Wanted};

/// Seconds for which a request waits for a question, and a member that is told to stop for its requests.
const WAIT: u64 = 5;
/// The pause after a question that could not be fetched or answered.
const PAUSE: Duration = Duration::from_secs(1);
/// The time within which a server must come back.
const PATIENCE: Duration = Duration::from_secs(u32::MAX as u64);
/// After an order to stop, answers that are being computed or sent get this time.
const GRACE: Duration = Duration::from_secs(10);
/// The most bandits whose tables are kept.
const MOST_BANDITS: usize = 64;
/// The longest line of the log.
const MOST_CHARS: usize = 400;

/// A member at work.
pub struct Member {
    keys: MemberKeys,
    ledger: Ledger,
    client: Client,
    stop: Stop,
    /// What it checks questions with. `None` checks their structure alone.
    replica: Option<Replica>,
    /// The keys under which bandits go on.
    next: Option<NextKeys>,
    /// The most bytes of a polynomial that it is asked about.
    c1: usize,
    bandits: Mutex<BTreeMap<String, Arc<Joined>>>,
    log: Box<dyn Fn(&str) + Send + Sync>,
}

impl Member {
    /// A member with these keys for the server of `client`.
    pub fn new(
        keys: MemberKeys,
        ledger: Ledger,
        client: Client,
        stop: Stop,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        let bytes = |params: &ckks::Params| ckks::polynomial_bytes(params, params.max_level());
        let c1 = bytes(keys.large().params()).max(bytes(keys.scores().params()));
        let (bandits, log) = (Mutex::default(), Box::new(log));
        Member { keys, ledger, client, stop, replica: None, next: None, c1, bandits, log }
    }

    /// The member, which computes with `replica` what it is asked about before it answers.
    pub fn verifying(self, replica: Option<Replica>) -> Self {
        Member { replica, ..self }
    }

    /// The member, which moves bandits to these keys when it is asked to.
    pub fn moving_to(self, next: Option<NextKeys>) -> Self {
        Member { next, ..self }
    }

    /// The keys, after [`Self::run`].
    pub fn into_keys(self) -> MemberKeys {
        self.keys
    }

    /// Answers questions on `threads` threads until it is stopped. A server that cannot be reached is asked
    /// again, with growing pauses.
    ///
    /// # Errors
    /// [`Error::HandedOn`] for shares of an epoch that is over; [`Error::Caught`] if the server has deviated;
    /// [`Error::OtherKeys`] and [`Error::Epoch`] for a server with other keys, or in another epoch;
    /// [`Error::Client`] if the server does not know the token, or no committee holds its keys.
    pub fn run(&self, threads: usize, rng: &mut ChaCha20Rng) -> Result<(), Error> {
        self.ledger.check_in_use()?;
        let manifest = match patiently(PATIENCE, &self.stop, rng, |_| self.client.keys()) {
            Err(_) if self.stop.is_stopped() => return Ok(()),
            manifest => manifest?,
        };
        check_manifest(&self.keys, &manifest)?;
        let (number, server) = (self.keys.member(), self.client.server());
        self.log(&format!("member {number} answers {server} with key {}", manifest.key_id));
        self.log_budget()?;
        let ended = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..threads.max(1)).map(|_| scope.spawn(|| self.answer_until_stopped())).collect();
            let ended = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Error::Panicked)));
            ended.fold(Ok(()), Result::and)
        });
        if !self.stop.wait_until_idle(GRACE) {
            self.log("stopped while answers were being sent");
        }
        ended?;
        // A server that was caught ends the program with an error.
        self.ledger.check_in_use()
    }

    fn log_budget(&self) -> Result<(), Error> {
        let [spent, most] = self.ledger.budget()?;
        self.log(&format!(
            "spent: {} of {} decisions and {} of {} models",
            spent.decisions, most.decisions, spent.models, most.models
        ));
        Ok(())
    }

    fn answer_until_stopped(&self) -> Result<(), Error> {
        let ended = self.answer_all();
        if ended.is_err() {
            // One thread that cannot go on ends the others, so that who runs the program sees it.
            self.stop.stop();
        }
        ended
    }

    fn answer_all(&self) -> Result<(), Error> {
        let mut faulty = false;
        while !self.stop.is_stopped() {
            let asked = Instant::now();
            match self.poll() {
                Ok(Some(request)) => {
                    faulty = false;
                    let Some(_busy) = self.stop.begin() else { return Ok(()) };
                    self.answer_one(&request);
                }
                Ok(None) => drop(self.stop.wait(PAUSE.saturating_sub(asked.elapsed()))),
                Err(error) if error.is_temporary() => {
                    if !std::mem::replace(&mut faulty, true) {
                        self.log(&format!("the server: {error}"));
                    }
                    self.stop.wait(PAUSE);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next question. The request is signed, so that nobody else takes it.
    fn poll(&self) -> Result<Option<MemberRequest>, user_client::Error> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let signature = self.keys.sign_poll(time);
        self.client.question(self.keys.member(), (time, &signature), self.c1, WAIT)
    }

    fn answer_one(&self, request: &MemberRequest) {
        let (began, number) = (Instant::now(), request.number);
        let (reply, what) = match self.reply_to(request) {
            Ok((reply, what)) => (reply, what),
            Err(error @ Error::Busy { .. }) => {
                self.log(&format!("not now: {error}"));
                (MemberReply::busy(self.keys.signing(), number, &request.question), "busy".to_string())
            }
            // The reasons that a server gets say nothing of secrets or of this machine.
            Err(error) => {
                let why = error.told();
                self.log(&format!("refused: {error}"));
                (
                    MemberReply::refused(self.keys.signing(), number, &request.question, &why),
                    "refusal".to_string(),
                )
            }
        };
        let computed = began.elapsed().as_millis();
        match self.client.shares(self.keys.member(), &reply) {
            Ok(()) => {
                self.log(&format!("{what} in {computed} ms, sent after {} ms", began.elapsed().as_millis()))
            }
            // Another set was faster, or the evaluation has ended.
            Err(error) => self.log(&format!("{what} in {computed} ms, not taken: {error}")),
        }
    }

    fn reply_to(&self, request: &MemberRequest) -> Result<(MemberReply, String), Error> {
        let question = Question::from_bytes(&request.question)?;
        if let Wanted::Handover { .. } = question.wanted {
            let reply = answer_handover(&self.keys, &self.ledger, request, self.next.as_ref())?;
            return Ok((reply, "its signature of the next keys".into()));
        }
        let bandit = self.join(&question.bandit)?;
        let what = match &question.wanted {
            Wanted::Transfer(kind) => format!("bandit {}: shares of {}", question.bandit, name(*kind)),
            Wanted::Answers { users, .. } => {
                format!("bandit {}: shares of the answers to {} users", question.bandit, users.len())
            }
            Wanted::Checks { hashes, .. } => {
                format!("bandit {}: shares of a check of {} feedbacks", question.bandit, hashes.len())
            }
            Wanted::Rotation { .. } | Wanted::Handover { .. } => {
                format!("bandit {}: its state for other keys", question.bandit)
            }
        };
        if let Some(replica) = &self.replica {
            let journal = |id: &str, after, head: Option<&_>| Ok(self.client.journal(id, after, head)?);
            let checked = replica.check(&self.keys, &self.ledger, &bandit, request, &journal);
            if let (Err(Error::Deviates(_)), true) = (&checked, replica.is_sampled()) {
                // Who is caught once has deviated more often.
                self.stop.stop();
                self.ledger.note_caught()?;
            }
            checked?;
        }
        let reply = match (&question.wanted, &self.next) {
            (Wanted::Rotation { .. }, Some(next)) => {
                answer_rotation(&self.keys, &self.ledger, &bandit, request, next)?
            }
            _ => answer(&self.keys, &self.ledger, &bandit, request)?,
        };
        if question.wanted == Wanted::Transfer(protocol::TaskKind::Model) {
            // Once a batch.
            self.log_budget()?;
        }
        Ok((reply, what))
    }

    /// The bandit with this id, as the server describes it and the ledger knows it.
    fn join(&self, id: &str) -> Result<Arc<Joined>, Error> {
        if let Some(known) = lock(&self.bandits).get(id) {
            return Ok(known.clone());
        }
        let created = self.client.encrypted(id)?.created;
        if created.id != id {
            return Err(Error::Refused("the server describes another bandit"));
        }
        let joined = Arc::new(Joined::new(&self.keys, created)?);
        self.ledger.pin(joined.created())?;
        let mut bandits = lock(&self.bandits);
        if bandits.len() >= MOST_BANDITS {
            bandits.pop_first();
        }
        bandits.insert(id.to_string(), joined.clone());
        Ok(joined)
    }

    /// Logs a line. Parts of it come from the server, so that it is cut, and control characters are escaped.
    fn log(&self, line: &str) {
        (self.log)(&host::visible(&line.chars().take(MOST_CHARS).collect::<String>()));
    }
}

fn name(kind: protocol::TaskKind) -> &'static str {
    match kind {
        protocol::TaskKind::Scores { .. } => "a raise of scores",
        protocol::TaskKind::Sum => "a raise of a sum",
        protocol::TaskKind::Model => "a model",
    }
}
