//! Access control by bearer tokens, of which the server knows the digests only.
//!
//! | token | permits to |
//! |---|---|
//! | token of the secret bundle | decide, return feedback and raise, with encrypted bandits |
//! | operator's token | do everything |
//! | API token | do what its scopes name, with all bandits or with one |
//! | token of an enrolled user | decide and return feedback, with encrypted bandits of keys whose users have their own |
//!
//! While tokens are off, the token of the secret bundle also creates and deletes encrypted bandits.
//! [`Route`] says which scope each route needs. Tokens are *on* if the server has an operator's token or a
//! file of API tokens, even one whose tokens were all revoked. Then nothing but health and the description of
//! the routes is answered without a token. While they are off, everybody who reaches the port can use clear
//! policies, and can read keys, policies, and a bandit whose id is known.

mod routes;
mod tokens;
mod users;

pub use routes::{Needs, Route};
pub use tokens::{ApiToken, MOST_TOKENS, NewToken, Scope, TokensFile};
pub use users::RemovedUsersList;

use crate::error::{Error, Kind};
use axum::http::{HeaderMap, header};
use ckks::KeyId;
use host::lock;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tokens::{Live, Tokens};
use users::Users;
use wire::{ENROLMENT_HEADER, Enroller, Enrolment, SenderTag, TokenDigest};

/// What the token of the secret bundle permits with encrypted bandits where tokens are on. Every device has
/// it, and no revocation ends it.
const PARTICIPANT: [Scope; 3] = [Scope::Decide, Scope::Feedback, Scope::Raise];

/// What the token of an enrolled user permits.
const USER: [Scope; 2] = [Scope::Decide, Scope::Feedback];

/// The tokens of a server.
#[derive(Debug)]
pub(crate) struct Access {
    /// Digest of the token in the secret bundle. `None` if no keys are loaded.
    participant: Option<TokenDigest>,
    /// Digest of the operator's token. `None` if the server has none.
    operator: Mutex<Option<TokenDigest>>,
    api: Live,
    /// Those who were enrolled, if users have keys of their own.
    users: Option<Users>,
}

/// The fault of a request whose bearer the server does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenFault {
    /// There is no header `Authorization`.
    Missing,
    /// The header holds no token.
    Malformed,
    /// The server has no such token, or has it no longer.
    Unknown,
    /// The token has expired.
    Expired,
    /// The enrolment beside the token is none of the owner of these keys, or belongs to another token.
    Enrolment,
}

/// Why a token that the server knows does not permit a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forbidden {
    /// The scope that the request needs is none of the token's.
    Scope {
        /// Those of the token.
        has: String,
    },
    /// The token is for one bandit, and the request is about something else.
    OtherBandit {
        /// The bandit of the token.
        only: String,
    },
    /// The token is that of the secret bundle or of an enrolled user, and the request is about a clear
    /// policy.
    ClearPolicy,
    /// Users have keys of their own, and the request has no enrolment of one.
    NotEnrolled,
    /// The user was removed.
    Removed,
}

/// The bearer of a token.
#[derive(Debug, Clone)]
enum Bearer {
    /// Of the token in the secret bundle.
    Participant,
    Operator,
    Api(ApiToken),
    User(Arc<Enrolment>),
}

/// Who sent a request, and what it may do on its route.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    route: Route,
    /// Whether tokens are off.
    open: bool,
    bearer: Result<Bearer, TokenFault>,
}

impl Access {
    /// The tokens of a server with the state `folder`.
    pub(crate) fn new(
        participant: Option<TokenDigest>,
        operator: Option<TokenDigest>,
        folder: &Path,
        enroller: Option<(Enroller, KeyId)>,
    ) -> Result<Self, Error> {
        let api = Live::open(TokensFile::of(folder), operator.is_some())?;
        let users = enroller.map(|(enroller, key_id)| Users::open(enroller, key_id, folder)).transpose()?;
        Ok(Access { participant, operator: Mutex::new(operator), api, users })
    }

    /// Takes another operator's token in the place of the one before, which opens nothing from then on. A
    /// server that was started without one takes none.
    pub(crate) fn replace_operator(&self, token: TokenDigest) {
        if let Some(operator) = &mut *lock(&self.operator) {
            *operator = token;
        }
    }

    /// Whether requests need tokens.
    pub(crate) fn is_on(&self) -> bool {
        lock(&self.operator).is_some() || self.api.current().is_on()
    }

    /// Who sent a request for `route`. What depends on the bandit is left to [`Caller::check`].
    pub(crate) fn caller(&self, route: Route, headers: &HeaderMap) -> Result<Caller, Error> {
        let api = self.api.current();
        let open = lock(&self.operator).is_none() && !api.is_on();
        let caller = Caller { route, open, bearer: self.bearer(headers, &api, unix_now()) };
        let is_user = matches!(caller.bearer, Ok(Bearer::User(_)));
        if (!open || is_user) && route.needs() != Needs::Nothing {
            caller.check_scope()?;
            if let (Ok(Bearer::User(enrolment)), Some(users)) = (&caller.bearer, &self.users)
                && users.is_removed(enrolment)
            {
                return Err(caller.forbidden(Forbidden::Removed));
            }
        }
        Ok(caller)
    }

    /// The bearer of the token in `headers`. All digests are compared, each in constant time.
    fn bearer(&self, headers: &HeaderMap, api: &Tokens, now: u64) -> Result<Bearer, TokenFault> {
        let value = headers.get(header::AUTHORIZATION).ok_or(TokenFault::Missing)?;
        let digest = value.to_str().ok().and_then(TokenDigest::of_authorization);
        let digest = digest.ok_or(TokenFault::Malformed)?;
        let found = api.find(&digest);
        if *lock(&self.operator) == Some(digest) {
            Ok(Bearer::Operator)
        } else if self.participant == Some(digest) {
            Ok(Bearer::Participant)
        } else if let (None, Some(users), Some(enrolment)) =
            (found, &self.users, headers.get(ENROLMENT_HEADER))
        {
            let enrolment = enrolment.to_str().map_err(|_| TokenFault::Enrolment)?;
            Ok(Bearer::User(users.find(enrolment, &digest, now)?))
        } else {
            let token = found.ok_or(TokenFault::Unknown)?;
            if token.is_expired(now) { Err(TokenFault::Expired) } else { Ok(Bearer::Api(token.clone())) }
        }
    }
}

impl Caller {
    /// Checks what does not depend on the bandit.
    fn check_scope(&self) -> Result<(), Error> {
        let bearer = self.bearer.as_ref().map_err(|fault| Error::Unauthorized { fault: *fault })?;
        let scopes = match bearer {
            Bearer::Operator => return Ok(()),
            Bearer::Participant => &PARTICIPANT[..],
            Bearer::Api(token) => &token.scopes,
            Bearer::User(_) => &USER,
        };
        let has = |scope: Scope| scope.is_in(scopes);
        let fits = match self.route.needs() {
            Needs::Nothing | Needs::Reading | Needs::Token => true,
            Needs::Scope(scope) => has(scope),
            Needs::RaiseOrTicket => has(Scope::Raise) || has(Scope::Decide),
        };
        if !fits {
            return Err(self.forbidden(Forbidden::Scope { has: Scope::text(scopes) }));
        }
        let Bearer::Api(token) = bearer else { return Ok(()) };
        match &token.bandit {
            // A bandit that does not exist yet is another one, and so is the whole server.
            Some(only) if self.route.is_about_all() => {
                Err(self.forbidden(Forbidden::OtherBandit { only: only.clone() }))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the request may name the bandit `id`, whether such a bandit exists or not: whoever has a
    /// token for another bandit does not learn it.
    pub(crate) fn check_id(&self, id: &str) -> Result<(), Error> {
        match &self.bearer {
            Ok(Bearer::Api(ApiToken { bandit: Some(only), .. })) if only != id => {
                Err(self.forbidden(Forbidden::OtherBandit { only: only.clone() }))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the request may be about a bandit of this kind.
    pub(crate) fn check(&self, about: Kind) -> Result<(), Error> {
        // A committee's users are told apart by their sessions, and its members by their signatures.
        if self.open && (about != Kind::Encrypted || self.route.needs() == Needs::Reading) {
            return Ok(());
        }
        match &self.bearer {
            Err(fault) => Err(Error::Unauthorized { fault: *fault }),
            Ok(Bearer::Participant | Bearer::User(_)) if about == Kind::Clear => {
                Err(self.forbidden(Forbidden::ClearPolicy))
            }
            Ok(_) => Ok(()),
        }
    }

    /// Checks that a token that was given is one of the server's, so that nobody takes it for one without
    /// bandits. A server that knows no token passes any.
    pub(crate) fn check_given(&self, access: &Access) -> Result<(), Error> {
        match self.bearer {
            Ok(_) | Err(TokenFault::Missing) => Ok(()),
            Err(_) if self.open && access.participant.is_none() => Ok(()),
            Err(fault) => Err(Error::Unauthorized { fault }),
        }
    }

    /// A text that tells apart the bearers of different tokens. All without a token have the same.
    pub(crate) fn identity(&self) -> String {
        match &self.bearer {
            Ok(Bearer::Participant) => "participant".into(),
            Ok(Bearer::Operator) => "operator".into(),
            Ok(Bearer::Api(token)) => format!("token {} {}", token.created, token.name),
            Ok(Bearer::User(enrolment)) => format!("user {} {}", enrolment.enrolled(), enrolment.user()),
            Err(_) => String::new(),
        }
    }

    /// The tag by which a user with a key of its own is told apart from other senders of contexts.
    pub(crate) fn user_tag(&self) -> Option<SenderTag> {
        let Ok(Bearer::User(_)) = &self.bearer else { return None };
        let digest = blake3::derive_key("helba 2026 sender", self.identity().as_bytes());
        digest.first_chunk().copied().map(SenderTag)
    }

    /// The enrolment of a user with a key of its own, for whom answers are sealed.
    pub(crate) fn check_enrolled(&self) -> Result<Arc<Enrolment>, Error> {
        match &self.bearer {
            Ok(Bearer::User(enrolment)) => Ok(enrolment.clone()),
            _ => Err(self.forbidden(Forbidden::NotEnrolled)),
        }
    }

    /// Whether everybody may use clear policies.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Checks that the caller may answer every task of an encrypted bandit, and not only raise the scores
    /// that its own ticket asks for.
    pub(crate) fn check_raises_all(&self) -> Result<(), Error> {
        let has = match &self.bearer {
            Ok(Bearer::Api(token)) if !token.has(Scope::Raise) => token.scopes_text(),
            Ok(Bearer::User(_)) => Scope::text(&USER),
            _ => return Ok(()),
        };
        let (needs, why) = (Needs::Scope(Scope::Raise), Forbidden::Scope { has });
        Err(Error::ForbiddenScope { needs, why })
    }

    fn forbidden(&self, why: Forbidden) -> Error {
        Error::ForbiddenScope { needs: self.route.needs(), why }
    }
}

/// Seconds since 1970.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use rand::SeedableRng;
    use wire::AccessToken;

    /// What a caller may do: with encrypted bandits, and with clear ones.
    fn allowed(access: &Access, route: Route, headers: &HeaderMap) -> [bool; 2] {
        let may = |about| access.caller(route, headers).is_ok_and(|caller| caller.check(about).is_ok());
        [Kind::Encrypted, Kind::Clear].map(may)
    }

    #[test]
    fn tokens_open_what_they_are_for() {
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(1);
        let folder = tempfile::tempdir().unwrap();
        let [participant, operator, stranger] = [(); 3].map(|()| AccessToken::generate(&mut rng));
        let with = |value: String| {
            HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_str(&value).unwrap())])
        };
        let bearer = |token: &AccessToken| with(token.authorization().to_string());
        let server = |operator: Option<TokenDigest>, participant: Option<TokenDigest>| {
            Access::new(participant, operator, folder.path(), None).unwrap()
        };
        let decide = |access: &Access, headers: &HeaderMap| allowed(access, Route::Decide, headers);

        let closed = server(Some(operator.digest()), Some(participant.digest()));
        assert_eq!(decide(&closed, &bearer(&participant)), [true, false]);
        assert_eq!(decide(&closed, &bearer(&operator)), [true, true]);
        assert_eq!(decide(&closed, &bearer(&stranger)), [false, false]);
        assert_eq!(decide(&closed, &HeaderMap::new()), [false, false]);
        for bad in ["Bearer", "Bearer ", "Basic QQ==", &format!("Basic {}", *participant.to_hex())] {
            assert_eq!(decide(&closed, &with(bad.to_string())), [false, false], "{bad}");
        }
        assert_eq!(decide(&closed, &with(format!("bearer {}", *participant.to_hex()))), [true, false]);
        assert_eq!(allowed(&closed, Route::Health, &HeaderMap::new()), [false, false]);
        assert!(closed.caller(Route::Health, &HeaderMap::new()).is_ok());

        let open = server(None, Some(participant.digest()));
        assert_eq!(decide(&open, &HeaderMap::new()), [false, true]);
        assert_eq!(allowed(&open, Route::Show, &HeaderMap::new()), [true, true]);
        let no_keys = server(None, None);
        assert_eq!(decide(&no_keys, &HeaderMap::new()), [false, true]);
        assert_eq!(decide(&no_keys, &bearer(&participant)), [false, true]);

        // Another operator's token takes the place of the one before, and closes no server that was open.
        closed.replace_operator(stranger.digest());
        assert_eq!(decide(&closed, &bearer(&stranger)), [true, true]);
        assert_eq!(decide(&closed, &bearer(&operator)), [false, false]);
        no_keys.replace_operator(stranger.digest());
        assert!(!no_keys.is_on() && closed.is_on());
        assert_eq!(decide(&no_keys, &HeaderMap::new()), [false, true]);
    }
}
