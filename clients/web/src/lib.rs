//! A device of encrypted bandits in a browser: [`Keys`] and [`Bandit`] of the package's worker.
//!
//! It computes what a request holds and what a reply means, with the code of `user-client`, and sends
//! nothing: `js/worker.js` does. Random numbers come from `crypto.getRandomValues`. Decisions that wait for
//! feedback leave as bytes that only a holder of the key can read.

mod failure;
mod transform;

use failure::Failure;
use js_sys::Array;
use protocol::{BanditConfig, UserKeys};
use rand_chacha::ChaCha20Rng;
use serde_json::{Value, json};
use std::sync::Arc;
use user_client::{BanditDevice, Device, MaskedTask, Passphrase, Pending, Target, explore};
use wasm_bindgen::prelude::*;
use wire::{Created, Enrolment, Manifest, UserBundle, UserSecret};
use zeroize::Zeroizing;

type Result<T> = std::result::Result<T, Failure>;

/// The secret keys of a bandit, or the key of a user with one of its own. They are zeroed when all that was
/// made of them is freed.
#[wasm_bindgen]
pub struct Keys(Arc<Device>);

#[wasm_bindgen]
impl Keys {
    /// Opens the bytes of a secret bundle. `passphrase` is the UTF-8 of the passphrase of a sealed one. Toy
    /// keys are refused unless `toy`. The device may ask for other answers to `repeats` decisions under this
    /// key, which is counted in memory (docs/threat-model.md).
    ///
    /// # Errors
    /// `KeysError`.
    pub fn open(bytes: Vec<u8>, passphrase: Option<Vec<u8>>, toy: bool, repeats: u32) -> Result<Keys> {
        let (bytes, passphrase) = (Zeroizing::new(bytes), passphrase.map(Zeroizing::new));
        let sealed = bytes.starts_with(&ckks_secret::SEALED_MAGIC);
        let device = match (passphrase, sealed) {
            (None, false) => Device::read(&bytes[..]).map_err(Failure::keys)?,
            (Some(passphrase), true) => {
                let passphrase = Passphrase::new(passphrase).map_err(Failure::keys)?;
                if bytes.len() as u64 > ckks_secret::MAX_SEALED_BYTES {
                    return Err(Failure::keys("the bundle is longer than a sealed secret bundle can be"));
                }
                let opened = ckks_secret::unseal(&bytes, &passphrase).map_err(Failure::keys)?;
                Device::read(&opened[..]).map_err(Failure::keys)?
            }
            (None, true) => return Err(Failure::keys("the bundle is sealed: give its passphrase")),
            (Some(_), false) => return Err(Failure::keys("the bundle is not sealed: give no passphrase")),
        };
        Self::checked(device, toy, repeats)
    }

    /// Opens the bytes of the secret of a user with a key of its own, and those of the bundle that the owner
    /// of the bandit's keys made for it. The rest is that of [`Keys::open`].
    ///
    /// # Errors
    /// `KeysError`, also for the bundle of another user.
    #[wasm_bindgen(js_name = openUser)]
    pub fn open_user(secret: Vec<u8>, user: &[u8], toy: bool, repeats: u32) -> Result<Keys> {
        let secret = UserSecret::read(&Zeroizing::new(secret)).map_err(Failure::keys)?;
        let user = UserBundle::read(user).map_err(Failure::keys)?;
        Self::checked(Device::of_user(secret, user).map_err(Failure::keys)?, toy, repeats)
    }

    fn checked(device: Device, toy: bool, repeats: u32) -> Result<Keys> {
        if device.params().spec().security == ckks::Security::None && !toy {
            return Err(Failure::keys(
                "the bundle holds a toy key, which protects nothing: use one that was generated without --toy",
            ));
        }
        Ok(Keys(Arc::new(device.with_most_repeats(repeats.into()))))
    }

    /// The id of the key pair, and the numbers of features and arms that the keys serve, as JSON.
    pub fn describe(&self) -> String {
        let [features, arms] = self.0.shape().problems().map(|range| [*range.start(), *range.end()]);
        json!({ "keyId": self.0.key_id().to_string(), "features": features, "arms": arms }).to_string()
    }

    /// The value of the header `Authorization`.
    pub fn authorization(&self) -> String {
        self.0.token().authorization().to_string()
    }

    /// The value of the header `helba-enrolment`, of a user with a key of its own.
    pub fn enrolment(&self) -> Option<String> {
        self.0.enrolment().map(Enrolment::to_header)
    }

    /// Checks that the server of the manifest `json` has the public half of these keys.
    ///
    /// # Errors
    /// `KeysError`, `AnswerError`.
    #[wasm_bindgen(js_name = checkServer)]
    pub fn check_server(&self, json: &str) -> Result<()> {
        let manifest: Manifest = serde_json::from_str(json).map_err(Failure::answer)?;
        Ok(self.0.check_manifest(&manifest)?)
    }

    /// The device as one of the bandit `created`, the JSON of a server, after a check that it has these keys
    /// and a plan that follows from its configuration; from `asked`, if that is given.
    ///
    /// # Errors
    /// `KeysError`, `AnswerError`.
    pub fn join(&self, created: &str, asked: Option<String>) -> Result<Bandit> {
        let created: Created = serde_json::from_str(created).map_err(Failure::answer)?;
        if let Some(asked) = asked {
            let asked: BanditConfig = serde_json::from_str(&asked).map_err(Failure::value)?;
            if created.config != asked {
                return Err(Failure::answer("the bandit has another configuration than was asked for"));
            }
        }
        let device = self.0.clone().join_shared(&created)?;
        Ok(Bandit { keys: self.0.clone(), device, rng: generator()? })
    }
}

/// The body of a request that creates a bandit: the defaults for `features` and `arms`, changed by the JSON
/// object `changes`.
///
/// # Errors
/// `ValueError` for a field that a configuration does not have.
#[wasm_bindgen]
pub fn configuration(features: usize, arms: usize, changes: &str) -> Result<String> {
    let broken = |_| Failure::value("the configuration cannot be written as JSON");
    let mut config = serde_json::to_value(BanditConfig::new(features, arms)).map_err(broken)?;
    merge(&mut config, serde_json::from_str(changes).map_err(Failure::value)?);
    let config: BanditConfig = serde_json::from_value(config).map_err(Failure::value)?;
    serde_json::to_string(&config).map_err(broken)
}

/// Changes `into` by `changes`. Fields of objects with the same fields are changed one by one; others, such
/// as a schedule, are replaced.
fn merge(into: &mut Value, changes: Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes))
            if into.contains_key("linear") || into.contains_key("lambda") =>
        {
            for (name, change) in changes {
                merge(into.entry(name).or_insert(Value::Null), change);
            }
        }
        (into, changes) => *into = changes,
    }
}

/// A device of one bandit.
#[wasm_bindgen]
pub struct Bandit {
    keys: Arc<Device>,
    device: BanditDevice<'static>,
    rng: ChaCha20Rng,
}

#[wasm_bindgen]
impl Bandit {
    /// The id of the bandit.
    pub fn id(&self) -> String {
        self.device.created().id.clone()
    }

    /// The most bytes of a binary reply of the server.
    #[wasm_bindgen(js_name = longestReply)]
    pub fn longest_reply(&self) -> usize {
        self.device.limits().reply()
    }

    /// The most decisions of one request.
    #[wasm_bindgen(js_name = mostDecisions)]
    pub fn most_decisions(&self) -> usize {
        self.device.most_decisions()
    }

    /// The most bytes of the reply to `GET …/counters`.
    #[wasm_bindgen(js_name = longestCounters)]
    pub fn longest_counters(&self) -> usize {
        self.device.limits().shown_counters()
    }

    /// The counters of all devices in a reply to `GET …/counters`, opened, as JSON.
    ///
    /// # Errors
    /// `AnswerError`.
    #[wasm_bindgen(js_name = openCounters)]
    pub fn open_counters(&self, reply: &[u8]) -> Result<String> {
        let opened = self.device.open_counters(reply)?;
        serde_json::to_string(&opened).map_err(|_| Failure::answer("the counters cannot be written as JSON"))
    }

    /// The most bytes of the reply to `GET …/model`.
    #[wasm_bindgen(js_name = longestModel)]
    pub fn longest_model(&self) -> usize {
        self.device.limits().shown_model()
    }

    /// The model in a reply to `GET …/model`, in the clear, as JSON.
    ///
    /// # Errors
    /// `AnswerError`.
    pub fn export(&self, reply: &[u8]) -> Result<String> {
        let model = self.device.export(reply)?;
        serde_json::to_string(&model).map_err(|_| Failure::answer("the model cannot be written as JSON"))
    }

    /// Begins to ask for decisions. `decisions` has, for each, an array of rows with the features of an arm,
    /// or null for a closed arm.
    ///
    /// # Errors
    /// `ValueError` with row and column, counted from 1.
    pub fn ask(&mut self, decisions: &Array) -> Result<Asking> {
        let contexts =
            Zeroizing::new(decisions.iter().map(|rows| read_rows(&rows)).collect::<Result<Vec<_>>>()?);
        let rows: Vec<&[Vec<f64>]> = contexts.iter().map(Vec::as_slice).collect();
        let asking = self.device.ask(&rows, &mut self.rng).map_err(Failure::value)?;
        Ok(Asking { asking, contexts })
    }

    /// Takes the reply to the request of `asking`.
    ///
    /// # Errors
    /// `AnswerError`.
    pub fn answered(&mut self, asking: &mut Asking, reply: Vec<u8>) -> Result<()> {
        Ok(self.device.answered(&mut asking.asking, Ok(reply), &mut self.rng)?)
    }

    /// Takes a refusal in place of the reply: the status, its phrase and the body.
    ///
    /// # Errors
    /// `RefusedError`, unless another request follows.
    pub fn refused(&mut self, asking: &mut Asking, status: u16, title: &str, body: &[u8]) -> Result<()> {
        let error = user_client::Error::refused(status, title, body);
        Ok(self.device.answered(&mut asking.asking, Err(error), &mut self.rng)?)
    }

    /// The decisions that `asking` led to, kept for feedback to `server`. With probability `epsilon`, the arm
    /// to play of each is drawn uniformly from the open ones.
    ///
    /// # Errors
    /// `AnswerError` while there are none.
    pub fn finish(&mut self, asking: Asking, server: &str, epsilon: f64) -> Result<Round> {
        let Asking { asking, mut contexts } = asking;
        let round = asking.finish()?;
        let mut decisions = Vec::new();
        for (choice, contexts) in round.choice.iter().zip(contexts.iter_mut()) {
            let (arm, probability) = explore(choice.arm, contexts, epsilon, &mut self.rng);
            let pending = Waiting(Pending {
                server: server.into(),
                contexts: std::mem::take(contexts),
                created: self.device.created().clone(),
                decision: choice.id,
                arm,
                reliable: choice.reliable,
                question: choice.question.clone(),
            });
            let told = json!({
                "id": choice.id.to_string(), "arm": arm, "chosen": choice.arm, "probability": probability,
                "reliable": choice.reliable, "round": choice.round,
                "feedbacks": choice.model_feedbacks, "users": choice.users, "showsModel": choice.shows_model,
                "sent": round.sent, "received": round.received, "repeats": round.repeats,
            });
            decisions.push((told.to_string(), pending.0.seal(&self.keys, &mut self.rng)?));
        }
        Ok(Round { decisions, tasks: round.tasks })
    }

    /// The answers to the tasks that came with the decisions, for `POST …/raises`; nothing if there are none.
    ///
    /// # Errors
    /// `AnswerError`.
    pub fn raise(&mut self, round: &mut Round) -> Result<Option<Vec<u8>>> {
        let tasks = std::mem::take(&mut round.tasks);
        if tasks.is_empty() {
            return Ok(None);
        }
        self.check_raises()?;
        Ok(Some(self.device.raise(&tasks, None, &mut self.rng)?))
    }

    /// The answers to the tasks in a reply to `GET …/raises`, for `POST …/raises`.
    ///
    /// # Errors
    /// `AnswerError`.
    #[wasm_bindgen(js_name = raiseTasks)]
    pub fn raise_tasks(&mut self, reply: &[u8]) -> Result<Vec<u8>> {
        self.check_raises()?;
        let tasks = self.device.read(reply)?.tasks;
        Ok(self.device.raise(&tasks, None, &mut self.rng)?)
    }

    /// The feedback on the decision in the bytes `sealed`, which [`Round::sealed`] returned. The reward is
    /// from −1 to 1.
    ///
    /// # Errors
    /// `ValueError` for the reward, and for bytes that these keys did not seal or of another bandit.
    pub fn feedback(&mut self, sealed: &[u8], reward: f64) -> Result<Feedback> {
        let pending = Waiting(Pending::unseal(sealed, &self.keys)?);
        let Pending { contexts, created, decision, arm, question, .. } = &pending.0;
        if created.id != self.device.created().id {
            return Err(Failure::value("the decision is one of another bandit"));
        }
        let features = contexts.get(*arm).ok_or_else(|| Failure::value("the decision has no such arm"))?;
        let body = self
            .device
            .feedback(*arm, features, reward, question.as_ref(), &mut self.rng)
            .map_err(Failure::value)?;
        Ok(Feedback { decision: decision.to_string(), body })
    }
}

impl Bandit {
    /// Refuses to answer tasks for users with keys of their own: that takes a clock, and the owner's list of
    /// removed users.
    fn check_raises(&self) -> Result<()> {
        match self.device.created().plan.keys {
            UserKeys::Shared => Ok(()),
            UserKeys::Own => Err(Failure::keys(
                "the users have keys of their own: helba-raiser of the owner answers tasks",
            )),
        }
    }
}

/// A decision whose contexts are zeroed when it is dropped.
struct Waiting(Pending);

impl Drop for Waiting {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0.contexts);
    }
}

/// Decisions that are being asked for: requests to send one after another.
#[wasm_bindgen]
pub struct Asking {
    asking: user_client::Asking,
    contexts: Zeroizing<Vec<Vec<Vec<f64>>>>,
}

#[wasm_bindgen]
impl Asking {
    /// Where the next request goes, below the bandit. Nothing when the decisions are there.
    pub fn path(&self) -> Option<String> {
        Some(match self.asking.request()?.to {
            Target::Decisions { .. } => "decisions".into(),
            Target::Again { decision, .. } => format!("decisions/{decision}/again"),
            Target::Raises => "raises".into(),
        })
    }

    /// The number of decisions that the request is for.
    pub fn decisions(&self) -> usize {
        match self.asking.request().map(|request| request.to) {
            Some(Target::Decisions { decisions }) => decisions,
            _ => 1,
        }
    }

    /// The body of the next request.
    pub fn body(&self) -> Vec<u8> {
        self.asking.request().map_or_else(Vec::new, |request| request.body.to_vec())
    }
}

/// Decisions of one request, in their order.
#[wasm_bindgen]
pub struct Round {
    decisions: Vec<(String, Vec<u8>)>,
    tasks: Vec<MaskedTask>,
}

#[wasm_bindgen]
impl Round {
    /// The number of decisions.
    pub fn count(&self) -> usize {
        self.decisions.len()
    }

    /// Decision number `at` as JSON, without its contexts.
    pub fn describe(&self, at: usize) -> Option<String> {
        self.decisions.get(at).map(|(told, _)| told.clone())
    }

    /// Decision number `at` as bytes that only a holder of the key can read, for [`Bandit::feedback`].
    pub fn sealed(&self, at: usize) -> Option<Vec<u8>> {
        self.decisions.get(at).map(|(_, sealed)| sealed.clone())
    }
}

/// A feedback to send.
#[wasm_bindgen]
pub struct Feedback {
    decision: String,
    body: Vec<u8>,
}

#[wasm_bindgen]
impl Feedback {
    /// The id of the decision.
    pub fn decision(&self) -> String {
        self.decision.clone()
    }

    /// The body.
    pub fn body(&self) -> Vec<u8> {
        self.body.clone()
    }
}

/// Reads rows of numbers, which are arrays or typed arrays.
fn read_rows(rows: &JsValue) -> Result<Vec<Vec<f64>>> {
    let listed = |value: &JsValue, what: &str| {
        let is_list = Array::is_array(value) || js_sys::ArrayBuffer::is_view(value);
        if is_list { Ok(Array::from(value)) } else { Err(Failure::value(format!("{what} must be an array"))) }
    };
    let cell = |row: usize, column: usize, value: JsValue| {
        value.as_f64().ok_or_else(|| {
            Failure::value(protocol::Error::NotANumber { row: row + 1, column: column + 1 }.to_string())
        })
    };
    let rows = listed(rows, "the contexts of a decision")?;
    let row = |(i, row): (usize, JsValue)| -> Result<Vec<f64>> {
        // A closed arm.
        if row.is_null() {
            return Ok(Vec::new());
        }
        let cells = listed(&row, &format!("row {} of the contexts", i + 1))?;
        if cells.length() == 0 {
            return Err(Failure::value(format!(
                "row {} of the contexts is empty: null is a closed arm",
                i + 1
            )));
        }
        cells.iter().enumerate().map(|(j, value)| cell(i, j, value)).collect()
    };
    rows.iter().enumerate().map(row).collect()
}

#[cfg(not(feature = "seeded"))]
fn generator() -> Result<ChaCha20Rng> {
    user_client::os_rng().map_err(|error| Failure::new("RandomnessError", error))
}

#[cfg(feature = "seeded")]
fn generator() -> Result<ChaCha20Rng> {
    Ok(rand::SeedableRng::seed_from_u64(13))
}

/// The kernels of this build.
#[wasm_bindgen]
pub fn kernels() -> String {
    if cfg!(target_feature = "simd128") { "simd128".into() } else { "portable".into() }
}
