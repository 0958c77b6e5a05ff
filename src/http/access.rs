//! Access control by bearer tokens, of which the server knows the digests only.
//!
//! | token | permits to |
//! |---|---|
//! | token of the secret bundle | create, use, list and delete encrypted bandits |
//! | operator's token | do the same, also with clear policies |
//! | none | read health, keys, policies, and a bandit whose id is known |
//!
//! Without an operator's token, everybody who reaches the port can use clear policies.

use crate::error::{Error, Kind};
use axum::http::{HeaderMap, header};
use wire::TokenDigest;

/// The digests of the tokens of a server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Access {
    /// Digest of the token in the secret bundle. `None` if no keys are loaded.
    pub(crate) participant: Option<TokenDigest>,
    /// Digest of the operator's token. `None` if the server has none.
    pub(crate) operator: Option<TokenDigest>,
}

impl Access {
    /// Checks that the token in `headers` permits to change a bandit of this kind.
    ///
    /// # Errors
    /// [`Error::Unauthorized`].
    pub(crate) fn check(&self, headers: &HeaderMap, about: Kind) -> Result<(), Error> {
        if about == Kind::Clear && self.operator.is_none() {
            return Ok(());
        }
        let bearer = bearer(headers);
        let is = |digest: Option<TokenDigest>| digest.is_some() && digest == bearer;
        if is(self.operator) || (about == Kind::Encrypted && is(self.participant)) {
            return Ok(());
        }
        Err(Error::Unauthorized { about })
    }
}

impl Access {
    /// Checks that a token in `headers` is one that the server knows. Requests without a token pass.
    ///
    /// # Errors
    /// [`Error::Unauthorized`].
    pub(crate) fn check_known(&self, headers: &HeaderMap) -> Result<(), Error> {
        let known = [self.participant, self.operator];
        let given = headers.contains_key(header::AUTHORIZATION);
        if !given || known == [None; 2] || known.contains(&bearer(headers)) {
            return Ok(());
        }
        Err(Error::Unauthorized { about: Kind::Encrypted })
    }
}

/// The digest of the token in `Authorization: Bearer …`.
fn bearer(headers: &HeaderMap) -> Option<TokenDigest> {
    TokenDigest::of_authorization(headers.get(header::AUTHORIZATION)?.to_str().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use rand::SeedableRng;
    use wire::AccessToken;

    #[test]
    fn tokens_open_what_they_are_for() {
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(1);
        let [participant, operator, stranger] = [(); 3].map(|()| AccessToken::generate(&mut rng));
        let with = |value: String| {
            HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_str(&value).unwrap())])
        };
        let bearer = |token: &AccessToken| with(token.authorization().to_string());
        let digests =
            |operator: Option<TokenDigest>| Access { participant: Some(participant.digest()), operator };
        let allowed = |access: Access, headers: &HeaderMap| {
            [Kind::Encrypted, Kind::Clear].map(|about| access.check(headers, about).is_ok())
        };

        let closed = digests(Some(operator.digest()));
        assert_eq!(allowed(closed, &bearer(&participant)), [true, false]);
        assert_eq!(allowed(closed, &bearer(&operator)), [true, true]);
        assert_eq!(allowed(closed, &bearer(&stranger)), [false, false]);
        assert_eq!(allowed(closed, &HeaderMap::new()), [false, false]);
        for bad in ["Bearer", "Bearer ", "Basic QQ==", &format!("Basic {}", *participant.to_hex())] {
            assert_eq!(allowed(closed, &with(bad.to_string())), [false, false], "{bad}");
        }
        assert_eq!(allowed(closed, &with(format!("bearer {}", *participant.to_hex()))), [true, false]);

        let open = digests(None);
        assert_eq!(allowed(open, &HeaderMap::new()), [false, true]);
        assert_eq!(allowed(Access::default(), &HeaderMap::new()), [false, true]);
        assert_eq!(allowed(Access::default(), &bearer(&participant)), [false, true]);
    }
}
