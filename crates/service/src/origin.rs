//! Refuses two kinds of requests that a web page can make a browser send: those that a page of another origin
//! starts, and those for a foreign host name that resolves to this machine (DNS rebinding).

use crate::{Cors, Rejection};
use axum::extract::Request;
use axum::http::header::{self, HeaderName};
use std::net::IpAddr;

/// The host names of a service besides loopback addresses and localhost. `None` admits requests for any host.
/// A service that listens on a loopback address needs a list, even an empty one. Without it, a page of any
/// site can reach the service from a browser on the same machine, under a name that resolves to the loopback
/// address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts(pub Option<Vec<String>>);

impl Hosts {
    /// Refuses a request whose `Origin` is not this service, and one for a host that is not this service. A
    /// request with two of these headers could pass with the one and be acted on with the other, and is
    /// refused too (RFC 9112, section 3.2).
    ///
    /// # Errors
    /// [`Rejection::BadHead`], [`Rejection::WrongHost`], [`Rejection::ForeignOrigin`].
    pub fn check(&self, request: &Request) -> Result<(), Rejection> {
        self.check_with(request, &Cors::default())
    }

    /// As [`Self::check`], and admits a request of a page whose origin `cors` lists.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn check_with(&self, request: &Request, cors: &Cors) -> Result<(), Rejection> {
        let names = self.0.as_deref();
        let text = |name: HeaderName| {
            let mut values = request.headers().get_all(&name).iter();
            let value = values.next().map(|value| String::from_utf8_lossy(value.as_bytes()));
            match values.next() {
                Some(_) => Err(Rejection::BadHead { name: name.to_string(), why: "comes twice" }),
                None => Ok(value),
            }
        };
        let named = text(header::HOST)?;
        let given = request.uri().authority().map(|a| a.as_str().into()).or(named);
        let authority = given.unwrap_or_default().to_ascii_lowercase();
        let Some(host) = host_of(&authority) else {
            return Err(Rejection::BadHead { name: "host".into(), why: "is no host with or without a port" });
        };
        let known = |host: &str| names.unwrap_or_default().iter().any(|name| name.eq_ignore_ascii_case(host));
        if names.is_some() && !is_loopback(host) && !known(host) {
            return Err(Rejection::WrongHost { host: cut(&authority) });
        }
        let origin = text(header::ORIGIN)?;
        if cors.listed(request.headers()).is_some() {
            return Ok(());
        }
        if let Some(origin) = origin {
            let origin = origin.to_ascii_lowercase();
            let from = origin.split_once("://").map_or("", |(_, authority)| authority);
            // Name and port must agree, and the scheme need not: a proxy may speak TLS for this server.
            if from.is_empty() || (from != authority && !host_of(from).is_some_and(known)) {
                return Err(Rejection::ForeignOrigin { origin: cut(&origin) });
            }
        }
        Ok(())
    }
}

/// The host of an authority, without port, brackets and final dot. `None` if what follows the host is no
/// port: a page could name a host of its own there.
fn host_of(authority: &str) -> Option<&str> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    // RFC 3986 lets the digits after the colon be missing.
    let port = rest.strip_prefix(':').unwrap_or(rest);
    let is_port = rest.is_empty() || (rest.starts_with(':') && (port.is_empty() || is_a_port(port)));
    is_port.then(|| host.strip_suffix('.').unwrap_or(host))
}

fn is_a_port(text: &str) -> bool {
    text.bytes().all(|digit| digit.is_ascii_digit()) && text.parse::<u16>().is_ok()
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
            Rejection::BadHead { .. } => Some(400),
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

    /// A host that begins as a loopback address does is not one, whoever reads what follows otherwise.
    #[test]
    fn attack_a_host_with_a_tail_passes_for_no_loopback_address() {
        let names = vec!["bandits.example".to_string()];
        for host in [
            "[::1]evil.example",
            "[::1].evil.example",
            "[::1]:80.evil.example",
            "[::1]80",
            "[::1",
            "[::1]:80:90",
            "[::1]:65536",
            "[::1]:+80",
            "localhost:evil.example",
            "localhost:80@evil.example",
            "127.0.0.1:80:evil.example",
            "localhost:99999",
            "::1",
        ] {
            for names in [None, Some(&[][..]), Some(&names[..])] {
                assert_eq!(reason(names, host, None), Some(400), "{host}");
            }
        }
        for host in ["[::1]", "[::1]:", "localhost:", "[::1]:65535", "127.0.0.1:0"] {
            assert_eq!(reason(Some(&[]), host, None), None, "{host}");
        }
        for origin in
            ["http://[bandits.example]evil", "http://bandits.example:80.evil", "http://bandits.example:x"]
        {
            assert_eq!(reason(Some(&names), "localhost", Some(origin)), Some(403), "{origin}");
        }
    }

    /// Of two headers one could be checked, and a proxy or the program behind could read the other.
    #[test]
    fn attack_two_hosts_or_origins_are_refused() {
        let check = |names: &[(HeaderName, &str)], uri: &str| {
            let mut request = Request::builder().uri(uri);
            for (name, value) in names {
                request = request.header(name, *value);
            }
            Hosts(Some(Vec::new())).check(&request.body(Body::empty()).unwrap())
        };
        let (host, origin) = (header::HOST, header::ORIGIN);
        let (good, own) = ((host.clone(), "localhost"), (origin.clone(), "http://localhost"));
        assert_eq!(check(&[good.clone(), own.clone()], "/"), Ok(()));
        for second in [
            (host.clone(), "evil.example"),
            (host, "localhost"),
            (origin, "http://evil.example"),
            own.clone(),
        ] {
            for uri in ["/", "http://localhost/"] {
                let refused = check(&[good.clone(), own.clone(), second.clone()], uri);
                assert!(matches!(refused, Err(Rejection::BadHead { .. })), "{second:?}");
            }
        }
    }
}
