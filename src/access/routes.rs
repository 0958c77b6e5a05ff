//! The routes of the server, and what a token must permit for each: the one table of access.

use super::Scope;
use axum::http::Method;

/// A route under `/v1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Answers while the server runs.
    Health,
    /// The OpenAPI document of these routes.
    OpenApi,
    /// A page to read that document and to send requests.
    Docs,
    /// The manifest of the public bundle.
    Keys,
    /// The policies that the server offers.
    Policies,
    /// What the server measures of itself.
    Metrics,
    /// The bandits that the token gives access to.
    List,
    /// Creates a bandit.
    Create,
    /// The configuration and the state of a bandit.
    Show,
    /// Changes name and tags of a bandit.
    Relabel,
    /// Freezes or thaws an encrypted bandit.
    Freeze,
    /// Creates a copy of an encrypted bandit.
    Copy,
    /// Deletes a bandit.
    Delete,
    /// Makes a decision.
    Decide,
    /// Gives another answer to an encrypted decision.
    Again,
    /// Counts a feedback.
    Feedback,
    /// Erases a feedback on an encrypted decision.
    Erase,
    /// Learns logged rounds in bulk.
    Learn,
    /// The encrypted counters of a bandit.
    Counters,
    /// The encrypted model of a bandit.
    Model,
    /// Waits for tasks of an encrypted bandit.
    Tasks,
    /// Takes the answers to tasks.
    Raise,
    /// Takes the sums of a batch from an intermediary.
    Shuffled,
    /// The manifest of the committee.
    Committee,
    /// Its members who are here.
    Members,
    /// Begins a session of a device with it.
    Session,
    /// Takes what one of its members says, and tells it what is next.
    Rounds,
}

/// What a request needs on a server that has an operator's token or API tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// No token.
    Nothing,
    /// Any token of the server. A server without operator's and API tokens lets everybody read.
    Reading,
    /// Any token of the server, and the answer has what the token gives access to.
    Token,
    /// A token with this scope.
    Scope(Scope),
    /// A token with the scope `raise`; or with `decide` for the scores that its user was asked to raise, who
    /// shows the ticket of that request.
    RaiseOrTicket,
}

impl Needs {
    /// The scope in the value of `WWW-Authenticate` (RFC 6750).
    pub(crate) fn challenge(self) -> String {
        let scope = match self {
            Needs::Scope(scope) => scope,
            Needs::RaiseOrTicket => Scope::Raise,
            Needs::Nothing | Needs::Reading | Needs::Token => return String::new(),
        };
        format!(", scope=\"{scope}\"")
    }
}

impl std::fmt::Display for Needs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Needs::Nothing => f.write_str("no token"),
            Needs::Reading | Needs::Token => f.write_str("any token"),
            Needs::Scope(scope) => write!(f, "the scope `{scope}`"),
            Needs::RaiseOrTicket => f.write_str("the scope `raise`, or `decide` with a ticket"),
        }
    }
}

impl Route {
    /// All routes.
    pub const ALL: [Route; 27] = [
        Route::Health,
        Route::OpenApi,
        Route::Docs,
        Route::Keys,
        Route::Policies,
        Route::Metrics,
        Route::List,
        Route::Create,
        Route::Show,
        Route::Relabel,
        Route::Freeze,
        Route::Copy,
        Route::Delete,
        Route::Decide,
        Route::Again,
        Route::Feedback,
        Route::Erase,
        Route::Learn,
        Route::Counters,
        Route::Model,
        Route::Tasks,
        Route::Raise,
        Route::Shuffled,
        Route::Committee,
        Route::Members,
        Route::Session,
        Route::Rounds,
    ];

    /// Method, path and needs. A route cannot be served without a row here.
    fn row(self) -> (Method, &'static str, Needs) {
        use Needs::{Nothing, RaiseOrTicket, Reading, Token};
        const ADMIN: Needs = Needs::Scope(Scope::Admin);
        const DECIDE: Needs = Needs::Scope(Scope::Decide);
        const FEEDBACK: Needs = Needs::Scope(Scope::Feedback);
        const RAISE: Needs = Needs::Scope(Scope::Raise);
        match self {
            Route::Health => (Method::GET, "/health", Nothing),
            Route::OpenApi => (Method::GET, "/openapi.json", Nothing),
            Route::Docs => (Method::GET, "/docs", Nothing),
            Route::Keys => (Method::GET, "/keys", Reading),
            Route::Policies => (Method::GET, "/policies", Reading),
            Route::Metrics => (Method::GET, "/metrics", ADMIN),
            Route::List => (Method::GET, "/bandits", Token),
            Route::Create => (Method::POST, "/bandits", ADMIN),
            Route::Show => (Method::GET, "/bandits/{id}", Reading),
            Route::Relabel => (Method::PATCH, "/bandits/{id}", ADMIN),
            Route::Freeze => (Method::PUT, "/bandits/{id}/frozen", ADMIN),
            Route::Copy => (Method::POST, "/bandits/{id}/copy", ADMIN),
            Route::Delete => (Method::DELETE, "/bandits/{id}", ADMIN),
            Route::Decide => (Method::POST, "/bandits/{id}/decisions", DECIDE),
            Route::Again => (Method::POST, "/bandits/{id}/decisions/{decision}/again", DECIDE),
            Route::Feedback => (Method::POST, "/bandits/{id}/decisions/{decision}/feedback", FEEDBACK),
            Route::Erase => (Method::DELETE, "/bandits/{id}/decisions/{decision}/feedback", FEEDBACK),
            Route::Learn => (Method::POST, "/bandits/{id}/learn", ADMIN),
            Route::Counters => (Method::GET, "/bandits/{id}/counters", RAISE),
            Route::Model => (Method::GET, "/bandits/{id}/model", ADMIN),
            Route::Tasks => (Method::GET, "/bandits/{id}/raises", RAISE),
            Route::Raise => (Method::POST, "/bandits/{id}/raises", RaiseOrTicket),
            Route::Shuffled => (Method::POST, "/bandits/{id}/shuffled", FEEDBACK),
            Route::Committee => (Method::GET, "/committee", Reading),
            Route::Members => (Method::GET, "/committee/members", Reading),
            Route::Session => (Method::POST, "/committee/sessions", DECIDE),
            Route::Rounds => (Method::POST, "/committee/members/{member}/rounds", RAISE),
        }
    }

    /// The method.
    pub fn method(self) -> Method {
        self.row().0
    }

    /// The path behind `/v1`, with the names of its parameters in braces.
    pub fn path(self) -> &'static str {
        self.row().1
    }

    /// Whether a request may wait for other users or for a holder of the key before it is answered.
    pub(crate) fn waits(self) -> bool {
        matches!(
            self,
            Route::Decide | Route::Again | Route::Tasks | Route::Raise | Route::Session | Route::Rounds
        )
    }

    /// Whether a request is about the whole server, which a token of one bandit does not open.
    pub fn is_about_all(self) -> bool {
        matches!(self, Route::Create | Route::Copy | Route::Metrics | Route::Rounds)
    }

    /// What a request needs where tokens are on.
    pub fn needs(self) -> Needs {
        self.row().2
    }
}
