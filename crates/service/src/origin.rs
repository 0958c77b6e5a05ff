//! Refuses two kinds of requests that a web page can make a browser send: those that a page of another origin
//! starts, and those for a foreign host name that resolves to this machine (DNS rebinding).

use crate::Rejection;
use axum::extract::Request;
use axum::http::header;
use std::net::IpAddr;

/// The host names of a service besides loopback addresses and localhost. `None` admits requests for any host.
/// A service that listens on a loopback address needs a list, even an empty one. Without it, a page of any
/// site can reach the service from a browser on the same machine, under a name that resolves to the loopback
/// address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts(pub Option<Vec<String>>);

impl Hosts {
    /// Refuses a request whose `Origin` is not this service, and one for a host that is not this service.
    ///
    /// # Errors
    /// [`Rejection::WrongHost`], [`Rejection::ForeignOrigin`].
    pub fn check(&self, request: &Request) -> Result<(), Rejection> {
        let names = self.0.as_deref();
        let text = |name| request.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let given = request.uri().authority().map(|a| a.as_str().into()).or_else(|| text(header::HOST));
        let authority = given.unwrap_or_default().to_ascii_lowercase();
        let known = |host: &str| names.unwrap_or_default().iter().any(|name| name.eq_ignore_ascii_case(host));
        if names.is_some() && !is_loopback(host_of(&authority)) && !known(host_of(&authority)) {
            return Err(Rejection::WrongHost { host: cut(&authority) });
        }
        if let Some(origin) = text(header::ORIGIN) {
            let origin = origin.to_ascii_lowercase();
            let from = origin.split_once("://").map_or("", |(_, authority)| authority);
            // Name and port must agree, and the scheme need not: a proxy may speak TLS for this server.
            if from.is_empty() || (from != authority && !known(host_of(from))) {
                return Err(Rejection::ForeignOrigin { origin: cut(&origin) });
            }
        }
        Ok(())
    }
}

/// The host of an authority, without port, brackets and final dot.
fn host_of(authority: &str) -> &str {
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    host.strip_suffix('.').unwrap_or(host)
}

/// Whether a host is localhost or a loopback address, written without port and brackets.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn reason(names: Option<&[String]>, host: &str, origin: Option<&str>) -> Option<u16> {
        let mut request = Request::builder().uri("/v1/health").header(header::HOST, host);
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        let hosts = Hosts(names.map(<[String]>::to_vec));
        match hosts.check(&request.body(Body::empty()).unwrap()).err()? {
            Rejection::WrongHost { .. } => Some(421),
            Rejection::ForeignOrigin { .. } => Some(403),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn hosts_and_origins() {
        let names = vec!["bandits.example".to_string()];
        let (any, none): (Option<&[String]>, &[String]) = (None, &[]);
        for host in ["localhost", "localhost:8080", "LOCALHOST.:1", "127.0.0.1", "127.9.9.9:1", "[::1]:80"] {
            assert_eq!(reason(Some(none), host, None), None, "{host}");
        }
        for host in ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1", "", "[::2]"] {
            assert_eq!(reason(Some(none), host, None), Some(421), "{host}");
            assert_eq!(reason(any, host, None), None, "{host}");
        }
        assert_eq!(reason(Some(&names), "bandits.example:443", None), None);
        let origin = |host, origin| reason(Some(&names), host, Some(origin));
        assert_eq!(origin("127.0.0.1:8080", "http://127.0.0.1:8080"), None);
        assert_eq!(origin("127.0.0.1:8080", "https://bandits.example"), None);
        for foreign in ["http://evil.example", "http://127.0.0.1:8081", "null", "", "http://", "//x"] {
            assert_eq!(origin("127.0.0.1:8080", foreign), Some(403), "{foreign}");
            assert_eq!(reason(any, "a.example", Some(foreign)), Some(403), "{foreign}");
        }
        assert_eq!(reason(any, "a.example", Some("https://a.example")), None);
    }
}
