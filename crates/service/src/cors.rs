//! Pages of other origins that may send requests: cross-origin resource sharing (Fetch Standard, section
//! 3.2).
//!
//! Origins are listed one by one and compared whole: a pattern would admit pages that nobody has thought of.
//! Cookies are never allowed; the pages send tokens themselves, in the header `Authorization`.

use axum::extract::Request;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// The origin of pages, as a browser writes it: scheme, host, and the port if it is not that of the scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String);

/// A text that is no origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} {why}: give scheme, host and port as a browser writes them, such as https://shop.example or http://localhost:5173"
)]
pub struct BadOrigin {
    given: String,
    why: &'static str,
}

impl FromStr for Origin {
    type Err = BadOrigin;

    fn from_str(text: &str) -> Result<Self, BadOrigin> {
        let bad = |why| BadOrigin { given: text.chars().take(200).collect(), why };
        if text.contains('*') {
            return Err(bad("has a wildcard, and origins are listed one by one"));
        }
        let origin = text.to_ascii_lowercase();
        let (scheme, authority) = origin.split_once("://").ok_or_else(|| bad("is no origin"))?;
        let usual = match scheme {
            "https" => 443,
            "http" => 80,
            _ => return Err(bad("has another scheme than http and https")),
        };
        if authority.contains(['/', '?', '#', '@']) {
            return Err(bad("has more than an origin"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        if !is_host(host) {
            return Err(bad("names no host in the letters of a browser, which writes others as xn--…"));
        }
        let is_number = |port: &str| port.bytes().all(|c| c.is_ascii_digit()) && !port.starts_with('0');
        match port.map(|port| (is_number(port), port.parse::<u16>())) {
            None => {}
            Some((true, Ok(port))) if port == usual => {
                return Err(bad("names the port of its scheme, which browsers leave out"));
            }
            Some((true, Ok(_))) => {}
            Some(_) => return Err(bad("has no port from 1 to 65535 after the colon")),
        }
        Ok(Origin(origin))
    }
}

/// Whether browsers write a host so: letters of ASCII, digits, dots and dashes, or an address of version 6.
fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok_and(|parsed| parsed.to_string() == address);
    }
    let label = |label: &str| {
        !label.is_empty() && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
    };
    host.len() <= 253 && host.split('.').all(label)
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What pages of other origins may do. The default is nothing.
#[derive(Debug, Clone, Default)]
pub struct Cors {
    /// Their origins.
    pub origins: Vec<Origin>,
    /// The methods that they may use, separated by commas.
    pub methods: &'static str,
    /// The headers that they may send.
    pub request_headers: &'static str,
    /// The headers of answers that they may read.
    pub answer_headers: &'static str,
}

/// Seconds for which a browser may keep the answer to a preflight request. A list that loses an origin
/// refuses the requests themselves at once.
const MAX_AGE: &str = "600";

impl Cors {
    /// The origin of a request, if it names one origin and that is in the list.
    pub fn listed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let mut given = headers.get_all(header::ORIGIN).iter();
        let (Some(origin), None) = (given.next(), given.next()) else { return None };
        self.origins.iter().any(|listed| listed.0.as_bytes() == origin.as_bytes()).then(|| origin.clone())
    }

    /// The answer to a preflight request of a page in the list; `None` for any other request. It has no
    /// token, and reaches no route.
    pub fn preflight(&self, request: &Request) -> Option<Response> {
        let asks = request.method() == Method::OPTIONS
            && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        if !asks || self.listed(request.headers()).is_none() {
            return None;
        }
        let allowed = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(self.methods)),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(self.request_headers)),
            (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE)),
        ];
        Some((StatusCode::NO_CONTENT, allowed).into_response())
    }

    /// Lets a page of `origin`, which [`Self::listed`] returned, read the answer. With a list, answers differ
    /// by origin, and say so to caches.
    pub fn mark(&self, origin: Option<HeaderValue>, answer: &mut Response) {
        if self.origins.is_empty() {
            return;
        }
        let headers = answer.headers_mut();
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = origin {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            let exposed = HeaderValue::from_static(self.answer_headers);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    #[test]
    fn origins_are_read_as_browsers_write_them() {
        for good in [
            "https://shop.example",
            "http://localhost:5173",
            "https://xn--kse-qla.example:8443",
            "http://[::1]:3000",
            "https://[2001:db8::1]",
            "http://10.0.0.7:8080",
        ] {
            assert_eq!(good.parse::<Origin>().unwrap().to_string(), good);
        }
        assert_eq!("HTTPS://Shop.Example".parse::<Origin>().unwrap().to_string(), "https://shop.example");
        for bad in [
            "",
            "*",
            "null",
            "shop.example",
            "https://",
            "https://*",
            "https://*.shop.example",
            "https://shop.example/",
            "https://shop.example/page",
            "https://shop.example?x",
            "https://user@shop.example",
            "https://shop.example:443",
            "http://shop.example:80",
            "https://shop.example:",
            "https://shop.example:0",
            "https://shop.example:08443",
            "https://shop.example:65536",
            "https://shop.example:+1",
            "https://shop..example",
            "https://shop.example.",
            "https://käse.example",
            "https://shop example",
            "https://a,https://b",
            "https://[::1",
            "https://[0:0::1]",
            "ftp://shop.example",
            "chrome-extension://abc",
            " https://shop.example",
            "https://shop.example\r\nx: y",
        ] {
            assert!(bad.parse::<Origin>().is_err(), "{bad}");
        }
    }

    fn cors() -> Cors {
        let origins = ["https://shop.example", "http://localhost:5173"].map(|origin| origin.parse().unwrap());
        let origins = origins.to_vec();
        Cors { origins, methods: "GET, POST", request_headers: "authorization", answer_headers: "etag" }
    }

    fn request(method: &str, origins: &[&[u8]], asks: bool) -> Request {
        let mut request = Request::builder().method(method).uri("/v1/bandits");
        for origin in origins {
            request = request.header(header::ORIGIN, HeaderValue::from_bytes(origin).unwrap());
        }
        if asks {
            request = request.header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST");
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn attack_origins_that_look_like_a_listed_one() {
        let cors = cors();
        for foreign in [
            &b"https://shop.example.evil.example"[..],
            b"https://evil.example#https://shop.example",
            b"https://evilshop.example",
            b"http://shop.example",
            b"https://shop.example:8443",
            b"https://shop.example:443",
            b"https://shop.example/",
            b"https://shop.example.",
            b"https://SHOP.example",
            b"https://sub.shop.example",
            b"https://shop.example https://evil.example",
            b"https://shop.example,https://evil.example",
            b"http://localhost",
            b"http://localhost:51730",
            b"null",
            b"",
            b"*",
            b"https://shop.exampl\xc3\xa9",
        ] {
            let text = String::from_utf8_lossy(foreign);
            assert!(cors.listed(request("GET", &[foreign], false).headers()).is_none(), "{text}");
            assert!(cors.preflight(&request("OPTIONS", &[foreign], true)).is_none(), "{text}");
        }
        let good = &b"https://shop.example"[..];
        for several in [&[good, b"https://evil.example"][..], &[b"https://evil.example", good], &[good, good]]
        {
            assert!(cors.listed(request("GET", several, false).headers()).is_none());
        }
        assert!(cors.listed(request("GET", &[], false).headers()).is_none());
        // The control, and a service without a list.
        assert_eq!(cors.listed(request("GET", &[good], false).headers()).unwrap(), good);
        assert!(Cors::default().listed(request("GET", &[good], false).headers()).is_none());
    }

    #[test]
    fn preflights_are_answered_and_answers_marked() {
        let (cors, good) = (cors(), &b"http://localhost:5173"[..]);
        for (method, asks) in [("GET", true), ("OPTIONS", false)] {
            assert!(cors.preflight(&request(method, &[good], asks)).is_none(), "{method}");
        }
        let mut answer = cors.preflight(&request("OPTIONS", &[good], true)).unwrap();
        assert_eq!(answer.status(), StatusCode::NO_CONTENT);
        assert_eq!(answer.headers()[header::ACCESS_CONTROL_ALLOW_METHODS], "GET, POST");
        cors.mark(cors.listed(request("GET", &[good], false).headers()), &mut answer);
        assert_eq!(answer.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], good);
        assert_eq!(answer.headers()[header::VARY], "origin");
        assert!(!answer.headers().contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS));
        let mut other = StatusCode::FORBIDDEN.into_response();
        cors.mark(None, &mut other);
        assert!(!other.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
        assert_eq!(other.headers()[header::VARY], "origin");
        let mut without = StatusCode::OK.into_response();
        Cors::default().mark(None, &mut without);
        assert!(without.headers().is_empty());
    }
}
