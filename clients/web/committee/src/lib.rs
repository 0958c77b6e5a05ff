//! A device of a user of a committee in a browser: [`Device`] of the package's `committee.js`.
//!
//! It computes what a request holds and what an answer means, with the code of `shares`, and sends nothing.
//! Random numbers come from `crypto.getRandomValues`. Errors are those of JavaScript, whose names say their
//! kind.

use js_sys::Uint8Array;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::Deserialize;
use shares::moves::Serving;
use shares::talk::{Counters, Definition, Rules};
use shares::{KeptSession, Row, SignedManifest};
use std::fmt::Display;
use wasm_bindgen::prelude::*;
use zeroize::Zeroizing;

type Result<T> = std::result::Result<T, JsValue>;

/// A device with a session.
#[wasm_bindgen]
pub struct Device {
    device: shares::Device,
    rng: ChaCha20Rng,
}

#[wasm_bindgen]
impl Device {
    /// A device that begins a session with the committee of this id, 64 hexadecimal digits. `manifest` is the
    /// reply to `GET committee`.
    ///
    /// # Errors
    /// `AnswerError` for a manifest that its members have not signed, `KeysError` for that of another
    /// committee, `ValueError` for an id that is none, `RandomnessError`.
    pub fn begin(manifest: &[u8], committee: &str) -> Result<Device> {
        let mut rng = generator()?;
        let (device, _) = shares::Device::begin(serving(manifest, committee)?, &mut rng).map_err(answer)?;
        Ok(Device { device, rng })
    }

    /// A device that goes on with the session of [`Device::session`].
    ///
    /// # Errors
    /// As [`Device::begin`]; `KeysError` for bytes that are no session, or one with another committee.
    pub fn restore(manifest: &[u8], committee: &str, session: Vec<u8>) -> Result<Device> {
        let session = KeptSession::from_bytes(&Zeroizing::new(session))
            .ok_or_else(|| keys("the bytes are no session: give those that `session` returned, unchanged"))?;
        let named = serving(manifest, committee)?;
        let of_session = serving(manifest, &hex(&session.committee()));
        of_session
            .map_err(|_| keys("the session is one with another committee than the one that was named"))?;
        let device = shares::Device::restore(named, &session).map_err(answer)?;
        Ok(Device { device, rng: generator()? })
    }

    /// The body of `POST committee/sessions`, for a server that does not know the session.
    ///
    /// # Errors
    /// `AnswerError`.
    pub fn begins(&self) -> Result<Vec<u8>> {
        self.device.begins().map_err(answer)
    }

    /// Checks the reply to that: enough members have read the session.
    ///
    /// # Errors
    /// `AnswerError`.
    #[wasm_bindgen(js_name = checkReceipts)]
    pub fn check_receipts(&self, receipts: &[u8]) -> Result<()> {
        self.device.check_receipts(receipts).map_err(answer)
    }

    /// What a page stores of the session, in secret. It is the same after moves.
    pub fn session(&self) -> Uint8Array {
        Uint8Array::from(self.device.session().bytes())
    }

    /// By what the server knows the session, in hexadecimal digits.
    #[wasm_bindgen(js_name = sessionId)]
    pub fn session_id(&self) -> String {
        hex(&self.device.session_id())
    }

    /// The id of the committee that serves, in hexadecimal digits.
    pub fn committee(&self) -> String {
        hex(&self.device.committee())
    }

    /// The bandit in the JSON of a server.
    ///
    /// # Errors
    /// `AnswerError`, also for a bandit of another committee.
    pub fn join(&self, json: &str) -> Result<Bandit> {
        let created: Created = serde_json::from_str(json).map_err(answer)?;
        if bytes(&created.committee) != Some(self.device.committee()) {
            return Err(answer("the bandit is one of another committee"));
        }
        let bad = || answer("the id of a bandit or of its committee has another form");
        let definition = Definition {
            features: created.features,
            arms: created.arms,
            config: created.config,
            rules: Rules { sessions: created.sessions, decisions: created.decisions_a_session },
            counters: created.counters,
            rewards: created.rewards.map(|range| range.map(|reward| (reward * 65_536.0).round() as i32)),
            founder: bytes(&created.founder).ok_or_else(bad)?,
            nonce: bytes(&created.id).ok_or_else(bad)?,
        };
        let Bounded { l } = serde_json::from_str(&definition.config).map_err(answer)?;
        Ok(Bandit { definition, l })
    }

    /// A request for a decision, from the features of all arms, row by row.
    ///
    /// # Errors
    /// `ValueError` for another number of rows or columns, and for a row that is longer than the bandit's L.
    pub fn request(&mut self, bandit: &Bandit, features: Vec<f64>) -> Result<Vec<u8>> {
        let features = Zeroizing::new(features);
        let Definition { features: d, arms, .. } = bandit.definition;
        if d == 0 || features.len() != usize::from(d) * usize::from(arms) {
            return Err(value(format!("the contexts must be {arms} rows of {d} features")));
        }
        let contexts: Zeroizing<Vec<Vec<f64>>> =
            Zeroizing::new(features.chunks_exact(d.into()).map(<[f64]>::to_vec).collect());
        let request = self.device.request(&bandit.definition, &contexts, &mut self.rng);
        request.map_err(|error| {
            let rng = &mut self.rng;
            let mut fits = |row: &Vec<f64>| {
                let scaled: Vec<f64> = row.iter().map(|x| x / bandit.l).collect();
                Row::new(&scaled, rng).is_ok()
            };
            match contexts.iter().position(|row| !fits(row)) {
                Some(at) => value(format!("row {} is longer than {}", at + 1, bandit.l)),
                None => value(error),
            }
        })
    }

    /// The decision in the answer to a request.
    ///
    /// # Errors
    /// `AnswerError`.
    pub fn open(&self, bandit: &Bandit, request: &[u8], reply: &[u8]) -> Result<Decision> {
        self.device.open(&bandit.definition, request, reply).map(Decision).map_err(answer)
    }

    /// The feedback on the decision with this label. The reward is from −1 to 1.
    ///
    /// # Errors
    /// `ValueError`.
    pub fn feedback(&mut self, decision: &str, reward: f64) -> Result<Vec<u8>> {
        let label = label(decision)?;
        let bad = |_| value(format!("the reward must be from -1 to 1, and is {reward}"));
        self.device.feedback(&label, reward, &mut self.rng).map_err(bad)
    }

    /// What has the feedback on a decision erased, for the header `helba-erasure`.
    ///
    /// # Errors
    /// `ValueError`.
    pub fn erasure(&self, decision: &str) -> Result<String> {
        Ok(hex(&self.device.erasure(&label(decision)?)))
    }
}

/// A bandit of a committee, as it was created.
#[wasm_bindgen]
pub struct Bandit {
    definition: Definition,
    /// L.
    l: f64,
}

#[wasm_bindgen]
impl Bandit {
    /// Its id in paths.
    pub fn id(&self) -> String {
        hex(&self.definition.nonce)
    }

    /// d.
    pub fn features(&self) -> u16 {
        self.definition.features
    }

    /// K.
    pub fn arms(&self) -> u16 {
        self.definition.arms
    }
}

/// A decision.
#[wasm_bindgen]
pub struct Decision(shares::Decision);

#[wasm_bindgen]
impl Decision {
    /// The arm, from 0.
    pub fn arm(&self) -> usize {
        self.0.arm
    }

    /// By what its feedback names it, in hexadecimal digits.
    pub fn label(&self) -> String {
        hex(&self.0.label)
    }

    /// Its number.
    pub fn round(&self) -> f64 {
        self.0.round as f64
    }
}

/// What a device reads of the JSON of a bandit (`wire::CommitteeBandit`).
#[derive(Deserialize)]
struct Created {
    id: String,
    committee: String,
    features: u16,
    arms: u16,
    config: String,
    sessions: u16,
    decisions_a_session: u16,
    counters: Option<Counters>,
    rewards: Option<[f64; 2]>,
    founder: String,
}

/// What it reads of the configuration.
#[derive(Deserialize)]
struct Bounded {
    l: f64,
}

/// The manifest of the committee that serves: the named one, or one to which it has moved.
fn serving(manifest: &[u8], committee: &str) -> Result<SignedManifest> {
    let id = bytes(committee).ok_or_else(|| value("the id of a committee has 64 hexadecimal digits"))?;
    let serving = Serving::from_bytes(manifest).map_err(answer)?;
    serving.follow(Some(&id)).map_err(|error| match error {
        shares::Error::OtherCommittee => keys("the server has another committee than the one that was named"),
        error => answer(error),
    })
}

fn generator() -> Result<ChaCha20Rng> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed).map_err(|error| failure("RandomnessError", error))?;
    Ok(ChaCha20Rng::from_seed(*seed))
}

fn label(decision: &str) -> Result<[u8; 32]> {
    bytes(decision).ok_or_else(|| value("a decision is named by 64 hexadecimal digits"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of as many pairs of hexadecimal digits.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(out)
}

/// An error of the kind `name`.
fn failure(name: &str, message: impl Display) -> JsValue {
    let error = js_sys::Error::new(&message.to_string());
    error.set_name(name);
    error.into()
}

/// Misuse: a session that cannot be used, or not with this server.
fn keys(message: impl Display) -> JsValue {
    failure("KeysError", message)
}

/// Misuse: contexts, rewards, ids.
fn value(message: impl Display) -> JsValue {
    failure("ValueError", message)
}

/// Untrusted: an answer that does not follow the protocol.
fn answer(message: impl Display) -> JsValue {
    failure("AnswerError", message)
}
