//! The address of a server, as a person types it.

use std::net::{IpAddr, Ipv6Addr};

/// The address of a server: `https://HOST`, with `:PORT` and a path if need be, or `http://…`. Every program
/// that connects to one reads it here before it sends anything: a port that does not fit would else be taken
/// for the port of the scheme, and a stranger get the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    text: String,
    https: bool,
    loopback: bool,
}

/// Misuse: text that is no address of a server. It has no part of the text that could be a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: give the server as https://HOST:PORT, or on a private line as http://HOST:PORT")]
pub struct BadAddress {
    what: String,
}

impl ServerAddress {
    /// Reads an address. A slash at its end means nothing.
    ///
    /// # Errors
    /// [`BadAddress`] for another scheme, a host that is none, a port that is no number from 1 to 65535, a
    /// user or password, a query or a fragment.
    pub fn parse(text: &str) -> Result<Self, BadAddress> {
        let bad = |what: String| BadAddress { what };
        if text.contains('@') {
            // Not repeated, since what stands before may be a password.
            return Err(bad("the address has a user or a password, and servers take tokens".into()));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let shown = text.escape_debug();
            return Err(bad(format!("`{shown}` has a space or a letter that no address has")));
        }
        let (https, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(bad(format!("`{text}` begins with neither https:// nor http://"))),
        };
        if let Some(mark) = rest.chars().find(|mark| "?#\\".contains(*mark)) {
            return Err(bad(format!("`{text}` has a `{mark}`, which no address of a server has")));
        }
        let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
        let (host, port) = match authority.strip_prefix('[') {
            Some(inside) => {
                let closed = inside.split_once(']').filter(|(host, _)| host.parse::<Ipv6Addr>().is_ok());
                let Some((host, after)) = closed else {
                    return Err(bad(format!("`{authority}` has no IPv6 address in its brackets")));
                };
                match after.strip_prefix(':') {
                    None if !after.is_empty() => return Err(bad(format!("`{after}` is no port"))),
                    port => (host, port),
                }
            }
            None if authority.parse::<Ipv6Addr>().is_ok() => {
                return Err(bad(format!("the IPv6 address `{authority}` needs brackets: [{authority}]")));
            }
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        if let Some(port) = port {
            let digits = !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit());
            if !digits || port.parse::<u16>().map_or(true, |port| port == 0) {
                return Err(bad(format!("`{port}` is no port, which is a number from 1 to 65535")));
            }
        }
        let part_of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        if host.is_empty() || !host.bytes().all(part_of_a_name) {
            return Err(bad(format!("`{text}` has no host")));
        }
        let name = host.strip_suffix('.').unwrap_or(host);
        let loopback = name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
        Ok(ServerAddress { text: text.trim_end_matches('/').into(), https, loopback })
    }

    /// The address, without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether what is sent is encrypted.
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// Whether the host is this machine: localhost or a loopback address.
    pub fn is_loopback(&self) -> bool {
        self.loopback
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_scheme_a_host_and_a_port() {
        for (text, want, https, loopback) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080", false, true),
            ("http://127.8.0.1/x", "http://127.8.0.1/x", false, true),
            ("https://bandits.example/", "https://bandits.example", true, false),
            (
                "https://bandits.example:8443/some/path/",
                "https://bandits.example:8443/some/path",
                true,
                false,
            ),
            ("http://LOCALHOST:1", "http://LOCALHOST:1", false, true),
            ("http://localhost.:65535", "http://localhost.:65535", false, true),
            ("http://[::1]:8080", "http://[::1]:8080", false, true),
            ("http://[::ffff:127.0.0.1]", "http://[::ffff:127.0.0.1]", false, true),
            ("http://[fe80::1]:80", "http://[fe80::1]:80", false, false),
            ("http://localhost.example.org", "http://localhost.example.org", false, false),
            ("http://my_service:00080", "http://my_service:00080", false, false),
        ] {
            let got = ServerAddress::parse(text).unwrap();
            assert_eq!((got.as_str(), got.is_https(), got.is_loopback()), (want, https, loopback), "{text}");
        }
    }

    /// The first four went to port 80 or 443 of that host, with the token.
    #[test]
    fn attack_what_does_not_parse_is_refused_before_anything_is_sent() {
        for (text, says) in [
            ("http://127.0.0.1:80800", "`80800` is no port"),
            ("http://127.0.0.1:abc", "`abc` is no port"),
            ("https://127.0.0.1:99999", "`99999` is no port"),
            ("http://127.0.0.1:", "`` is no port"),
            ("http://h:0", "`0` is no port"),
            ("http://h:-1", "no port"),
            ("http://h:+80", "no port"),
            ("http://h:80:90", "`80:90` is no port"),
            ("http://h:8080x/path", "`8080x` is no port"),
            ("http://[::1]:70000", "`70000` is no port"),
            ("http://[::1]8080", "`8080` is no port"),
            ("http://[::1", "brackets"),
            ("http://[::g]:1", "brackets"),
            ("http://[fe80::1%eth0]:1", "brackets"),
            ("http://::1", "[::1]"),
            ("http://2001:db8::7", "[2001:db8::7]"),
            ("http://", "no host"),
            ("https:///path", "no host"),
            ("http://:8080", "no host"),
            ("http://h,i:80", "no host"),
            ("example.org", "begins with neither"),
            ("ftp://x", "begins with neither"),
            ("http:/h", "begins with neither"),
            ("", "begins with neither"),
            ("http://h?x=1", "`?`"),
            ("http://h/p#f", "`#`"),
            ("http://h\\@evil", "user or a password"),
            ("http://h\\evil", "`\\`"),
            ("http://h :80", "space"),
            ("http://h\n:80", "space"),
            ("http://h\u{1b}[2J", "\\u{1b}"),
            ("http://bändit.example", "space or a letter"),
        ] {
            let said = ServerAddress::parse(text).expect_err(text).to_string();
            assert!(said.contains(says) && said.contains("https://HOST:PORT"), "{text}: {said}");
            assert!(!said.chars().any(char::is_control), "{said}");
        }
        let said = ServerAddress::parse("https://user:password@bandits.example").unwrap_err().to_string();
        assert!(said.contains("a user or a password") && !said.contains("user:"), "{said}");
    }
}
