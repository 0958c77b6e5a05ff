//! The manifest of a key bundle: parameters and keys.

use crate::{Enroller, Error, TokenDigest};
use ckks::{KeyId, Params, ParamsSpec, Security};
use protocol::{Exchanging, Rings, ScoreRing, Shape, Updates, UserKeys, WidthShape};
use serde::{Deserialize, Serialize};

/// The source of the bound on log₂(QP).
pub const SECURITY_TABLE: &str = "Bossuat et al. 2024 (ePrint 2024/463), table 5.2, classical, ternary";

/// The description of a ring and its key pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RingManifest {
    /// The name of the parameter set.
    pub params: String,
    /// The fingerprint of the parameters, in hexadecimal.
    pub fingerprint: String,
    /// The id of the key pair, in hexadecimal.
    pub key_id: String,
    /// The security of the parameters, in bits; 0 for toy keys.
    pub security_bits: u32,
    /// log₂ of the largest modulus of this ring under which anything is encrypted.
    pub log2_qp: f64,
}

impl RingManifest {
    /// The description of the key pair `key` under these parameters.
    pub fn new(params: &Params, key: KeyId) -> Self {
        RingManifest {
            params: params.spec().name.into(),
            fingerprint: params.fingerprint().to_string(),
            key_id: key.to_string(),
            security_bits: params.spec().security.bits(),
            log2_qp: params.log_qp(),
        }
    }

    /// The parameters of this name among `known`, which must have the stated values. The names of fields in
    /// errors begin with `at`.
    pub(crate) fn params(&self, at: &str, known: &[ParamsSpec]) -> Result<Params, Error> {
        let Some(spec) = known.iter().find(|spec| spec.name == self.params) else {
            let names: Vec<&str> = known.iter().map(|spec| spec.name).collect();
            let got = shortened(&self.params);
            return Err(Error::UnknownParams { got, known: names.join(" or ") });
        };
        let params = spec.validate()?;
        let same = |field: &str, got: &str, want: String| match got == want {
            true => Ok(()),
            false => Err(differs(format!("{at}{field}"), got, &want)),
        };
        same("fingerprint", &self.fingerprint, params.fingerprint().to_string())?;
        same("security_bits", &self.security_bits.to_string(), spec.security.bits().to_string())?;
        same_log_qp(format!("{at}log2_qp"), self.log2_qp, params.log_qp())?;
        Ok(params)
    }

    /// Checks that `key` is the id of this ring's key pair, as [`Self::params`] does.
    pub(crate) fn check_key(&self, at: &str, key: KeyId) -> Result<(), Error> {
        match self.key_id == key.to_string() {
            true => Ok(()),
            false => Err(differs(format!("{at}key_id"), &self.key_id, &key.to_string())),
        }
    }
}

/// The description at the start of a bundle. It contains no secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The large ring.
    #[serde(flatten)]
    pub ring: RingManifest,
    /// The shape of the problems that the keys serve.
    pub shape: Shape,
    /// The width of the bandits that the keys serve; those of a root serve both.
    pub width: WidthShape,
    /// How the updates of their bandits are computed.
    pub updates: Updates,
    /// How often the evaluations of their bandits ask a holder of the key.
    pub exchanges: Exchanging,
    /// Who enrols the users of the bandits, if each has a key of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enroller: Option<Enroller>,
    /// The time of key generation, in seconds since 1970; in JSON as RFC 3339.
    #[serde(with = "moment")]
    pub created: u64,
    /// The number of frames in this bundle.
    pub frames: u32,
    /// The digest of the token in the secret bundle, which gives access to encrypted bandits.
    pub token_digest: TokenDigest,
    /// The keys of the ring of evaluations, if it is not the large one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<DecisionsManifest>,
    /// The keys of the ring of scores.
    pub scores: ScoresManifest,
}

/// The description of the keys of the ring of evaluations in a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionsManifest {
    /// The ring.
    #[serde(flatten)]
    pub ring: RingManifest,
    /// The number of frames of this ring, which are among those of the bundle.
    pub frames: u32,
}

impl DecisionsManifest {
    /// As [`Manifest::params`], for the ring of evaluations.
    ///
    /// # Errors
    /// As [`Manifest::params`].
    pub fn params(&self) -> Result<Params, Error> {
        self.ring.params("decisions.", ParamsSpec::evaluations())
    }

    /// As [`Manifest::check_key`], for the ring of evaluations.
    ///
    /// # Errors
    /// As [`Manifest::check_key`].
    pub fn check_key(&self, key: KeyId) -> Result<(), Error> {
        self.ring.check_key("decisions.", key)
    }
}

/// The description of the keys of the ring of scores in a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoresManifest {
    /// The ring.
    #[serde(flatten)]
    pub ring: RingManifest,
    /// The number of frames of this ring, which are among those of the bundle.
    pub frames: u32,
    /// The keys of answers, which are encrypted under the secret of this ring.
    pub answers: AnswersManifest,
}

/// The description of the keys of answers in a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswersManifest {
    /// The fingerprint of the parameters ([`ScoreRing::answers`]), in hexadecimal.
    pub fingerprint: String,
    /// log₂ of the largest modulus of answers under which anything is encrypted.
    pub log2_qp: f64,
    /// The number of frames of these keys, which are among those of the bundle.
    pub frames: u32,
}

impl AnswersManifest {
    /// The description of `frames` frames of keys of answers.
    pub fn new(params: &Params, frames: u32) -> Self {
        let fingerprint = params.fingerprint().to_string();
        AnswersManifest { fingerprint, log2_qp: params.log_qp(), frames }
    }
}

impl ScoresManifest {
    /// The parameters of answers beside the ring of evaluations `decisions`, which must have the stated
    /// values.
    ///
    /// # Errors
    /// [`Error::Manifest`] if a value differs.
    pub fn answers(&self, ring: ScoreRing, decisions: &Params) -> Result<Params, Error> {
        let params = ring.answers(decisions.spec()).validate()?;
        let AnswersManifest { fingerprint, log2_qp, .. } = &self.answers;
        let want = params.fingerprint().to_string();
        if *fingerprint != want {
            return Err(differs("scores.answers.fingerprint", fingerprint, &want));
        }
        same_log_qp("scores.answers.log2_qp", *log2_qp, params.log_qp())?;
        Ok(params)
    }

    /// The frames of this ring and of answers.
    fn all_frames(&self) -> Option<u32> {
        self.frames.checked_add(self.answers.frames)
    }

    /// As [`Manifest::params`], for the ring of scores.
    ///
    /// # Errors
    /// As [`Manifest::params`].
    pub fn params(&self) -> Result<Params, Error> {
        self.ring.params("scores.", ParamsSpec::scores())
    }

    /// As [`Manifest::check_key`], for the ring of scores.
    ///
    /// # Errors
    /// As [`Manifest::check_key`].
    pub fn check_key(&self, key: KeyId) -> Result<(), Error> {
        self.ring.check_key("scores.", key)
    }
}

impl Manifest {
    /// The manifest of a bundle of `frames` frames of the large ring and those of `scores`.
    #[allow(clippy::too_many_arguments, reason = "each is a field")]
    pub fn new(
        params: &Params,
        key: KeyId,
        shape: Shape,
        created: u64,
        frames: u32,
        token_digest: TokenDigest,
        scores: ScoresManifest,
    ) -> Self {
        Manifest {
            ring: RingManifest::new(params, key),
            shape,
            width: WidthShape::default(),
            updates: Updates::default(),
            exchanges: Exchanging::default(),
            enroller: None,
            created,
            // A bundle has at most MAX_FRAMES.
            frames: frames + scores.frames + scores.answers.frames,
            token_digest,
            decisions: None,
            scores,
        }
    }

    /// The manifest of a bundle whose keys serve bandits of this width.
    pub fn of_width(self, width: WidthShape) -> Self {
        Manifest { width, ..self }
    }

    /// The manifest of a bundle whose keys serve bandits with such updates.
    pub fn of_updates(self, updates: Updates) -> Self {
        Manifest { updates, ..self }
    }

    /// The manifest of a bundle whose keys serve bandits with such evaluations.
    pub fn of_exchanges(self, exchanges: Exchanging) -> Self {
        Manifest { exchanges, ..self }
    }

    /// The manifest of a bundle whose users have keys of their own, and are enrolled by `enroller`.
    pub fn of_enroller(self, enroller: Option<Enroller>) -> Self {
        Manifest { enroller, ..self }
    }

    /// Whose keys users have.
    pub fn user_keys(&self) -> UserKeys {
        match self.enroller {
            Some(_) => UserKeys::Own,
            None => UserKeys::Shared,
        }
    }

    /// The manifest of a bundle that has keys of a ring for evaluations too.
    pub fn with_decisions(self, decisions: DecisionsManifest) -> Self {
        Manifest { frames: self.frames + decisions.frames, decisions: Some(decisions), ..self }
    }

    /// The time of key generation, as RFC 3339.
    pub fn created_at(&self) -> String {
        moment::written(self.created)
    }

    /// The named parameters, which must have the stated fingerprint, security and modulus.
    ///
    /// # Errors
    /// [`Error::UnknownParams`] if this version has no parameters of this name, [`Error::Manifest`] if a
    /// value differs.
    pub fn params(&self) -> Result<Params, Error> {
        match self.updates {
            Updates::Slots => self.ring.params("", ParamsSpec::named()),
            // Rings of evaluations suffice.
            Updates::Products => {
                self.ring.params("", &[ParamsSpec::evaluations(), ParamsSpec::named()].concat())
            }
        }
    }

    /// The parameters of the rings of circuits, which must have the stated values.
    ///
    /// # Errors
    /// As [`Self::params`].
    pub fn rings(&self) -> Result<Rings, Error> {
        let updates = self.params()?;
        let decisions = self.decisions.as_ref().map_or(Ok(updates.clone()), DecisionsManifest::params)?;
        Ok(Rings { updates, decisions, by: self.updates, exchanges: self.exchanges, keys: self.user_keys() })
    }

    /// The security level that is stated.
    ///
    /// # Errors
    /// [`Error::Manifest`] for a number of bits that no set claims.
    pub fn security(&self) -> Result<Security, Error> {
        let wrong = || differs("security_bits", &self.ring.security_bits.to_string(), "0, 128, 192 or 256");
        Security::of_bits(self.ring.security_bits).ok_or_else(wrong)
    }

    /// The id of the key pair.
    ///
    /// # Errors
    /// [`Error::Manifest`] for text that is no id.
    pub fn key(&self) -> Result<KeyId, Error> {
        let wrong = |_| differs("key_id", &self.ring.key_id, "32 lower-case hexadecimal digits");
        self.ring.key_id.parse().map_err(wrong)
    }

    /// Checks that `key` is the id in the manifest.
    ///
    /// # Errors
    /// [`Error::Manifest`] if it differs.
    pub fn check_key(&self, key: KeyId) -> Result<(), Error> {
        self.ring.check_key("", key)
    }

    /// The ring of scores with its parameters, which must be those of [`ScoreRing::of_keys`].
    ///
    /// # Errors
    /// [`Error::Manifest`] if the manifest states another ring; [`Error::Protocol`] if the shape has none; as
    /// [`Self::params`].
    pub fn scores(&self, large: &Params) -> Result<(ScoreRing, Params), Error> {
        let ring = ScoreRing::of_keys(large.spec(), self.shape, self.exchanges)?;
        match self.scores.ring.params == ring.params.name {
            true => Ok((ring, self.scores.params()?)),
            false => Err(differs("scores", &self.scores.ring.params, ring.params.name)),
        }
    }

    /// The number of frames of the large ring.
    pub(crate) fn large_frames(&self) -> Result<u32, Error> {
        let of_decisions = self.decisions.as_ref().map_or(0, |ring| ring.frames);
        let others = self.scores.all_frames().and_then(|frames| frames.checked_add(of_decisions));
        let got = || others.map_or("above 2³²".into(), |frames| frames.to_string());
        let most = || differs("scores.frames", &got(), &format!("at most {}", self.frames));
        others.and_then(|frames| self.frames.checked_sub(frames)).ok_or_else(most)
    }
}

fn same_log_qp(field: impl Into<String>, got: f64, want: f64) -> Result<(), Error> {
    // JSON may lose the last bit.
    if (got - want).abs() > 1e-6 || !got.is_finite() {
        return Err(differs(field, &got.to_string(), &want.to_string()));
    }
    Ok(())
}

pub(crate) fn differs(field: impl Into<String>, got: &str, want: &str) -> Error {
    Error::Manifest { field: field.into(), got: shortened(got), want: want.into() }
}

/// The first 64 characters of `text`, for an error message.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

/// A time in JSON, as RFC 3339 with a resolution of one second.
pub(crate) mod moment {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};
    use std::time::{Duration, UNIX_EPOCH};

    /// The last second of the year 9999, which is the last one in RFC 3339.
    const LAST: u64 = 253_402_300_799;

    pub(crate) fn written(seconds: u64) -> String {
        humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds.min(LAST))).to_string()
    }

    pub(crate) fn serialize<S: Serializer>(seconds: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&written(*seconds))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let time = humantime::parse_rfc3339(&String::deserialize(from)?).map_err(D::Error::custom)?;
        Ok(time.duration_since(UNIX_EPOCH).map_err(D::Error::custom)?.as_secs())
    }

    #[cfg(test)]
    mod tests {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        struct At(#[serde(with = "super")] u64);

        #[test]
        fn times_are_text() {
            for (seconds, text) in [
                (0, "\"1970-01-01T00:00:00Z\""),
                (951_782_400, "\"2000-02-29T00:00:00Z\""),
                (1_700_000_000, "\"2023-11-14T22:13:20Z\""),
                (super::LAST, "\"9999-12-31T23:59:59Z\""),
            ] {
                assert_eq!(serde_json::to_string(&At(seconds)).unwrap(), text);
                assert_eq!(serde_json::from_str::<At>(text).unwrap(), At(seconds));
                assert!(serde_json::from_str::<At>(&seconds.to_string()).is_err());
            }
            for bad in [
                "253402300800",
                "18446744073709551615",
                "-1",
                "null",
                "\"\"",
                "\"1969-12-31T23:59:59Z\"",
                "\"today\"",
            ] {
                assert!(serde_json::from_str::<At>(bad).is_err(), "{bad}");
            }
        }
    }
}
