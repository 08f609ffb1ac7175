//! Who may ask: a bearer token, compared in constant time; and no page of another site, whose requests a browser on this machine
//! would carry here.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderValue, Method, header};
use subtle::ConstantTimeEq;

/// A token that requests must bring.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// The least that is hard to guess.
    pub const SHORTEST: usize = 16;

    /// A token, without white space around it.
    ///
    /// # Errors
    /// When it is short, or no header can carry it.
    pub fn new(token: &str) -> Result<Self, String> {
        let token = token.trim();
        if token.len() < Self::SHORTEST {
            return Err(format!("a token needs at least {} characters", Self::SHORTEST));
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token may hold printable ASCII characters only, and no spaces".to_owned());
        }
        Ok(Self(token.to_owned()))
    }

    /// Whether the request brings it: `Authorization: Bearer TOKEN`.
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).map_or(&[][..], |value| value.as_bytes());
        let scheme = given.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
        scheme && bool::from(given[7..].ct_eq(self.0.as_bytes()))
    }
}

/// What a server without a token looks for: signs that another site's page has sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// The name that the server was given, where it listens on this machine alone: by other names only a site comes that has
    /// its name point here.
    own: Option<String>,
}

impl Neighbours {
    /// Of a server that was given this name, and bound this address.
    pub fn of(host: &str, bound: &SocketAddr) -> Self {
        Self { own: bound.ip().is_loopback().then(|| host.to_owned()) }
    }

    /// Why a request is refused, where it is. Programs send neither `Origin` nor `Sec-Fetch-Site`; browsers do.
    pub fn refuse(&self, method: &Method, headers: &HeaderMap) -> Option<&'static str> {
        let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let host = text(header::HOST).unwrap_or_default();
        if self.own.as_ref().is_some_and(|own| !host.is_empty() && !is_own(name_of(host), own)) {
            return Some(
                "the Host header names another machine; ask for localhost or an address, or start the server with --token-file",
            );
        }
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        let foreign = match (site, text(header::ORIGIN)) {
            (Some(site), _) => !matches!(site, b"same-origin" | b"none"),
            (None, Some(origin)) => origin.split_once("://").is_none_or(|(_, from)| !from.eq_ignore_ascii_case(host)),
            (None, None) => false,
        };
        (foreign && *method == Method::POST).then_some(
            "a page of another site sent this request; start the server with --token-file, and let the page send the token",
        )
    }
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Whether a name is this machine's by itself: no name server is asked for it.
fn is_own(name: &str, own: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_other_sites_are_told_from_programs_and_the_own_page() {
        let loopback = Neighbours::of("fidgp.test", &"127.0.0.1:8000".parse().unwrap());
        let open = Neighbours::of("0.0.0.0", &"0.0.0.0:8000".parse().unwrap());
        let asked = |server: &Neighbours, method: Method, given: &[(&'static str, &str)]| {
            let headers = given.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap()));
            server.refuse(&method, &headers.collect::<HeaderMap>()).is_none()
        };
        for host in
            ["localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST", "me.localhost:1", "fidgp.test:8000", ""]
        {
            assert!(asked(&loopback, Method::GET, &[("host", host)]), "{host}");
        }
        for host in ["evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "[x]"] {
            assert!(!asked(&loopback, Method::GET, &[("host", host)]), "{host}");
            assert!(asked(&open, Method::GET, &[("host", host)]), "{host}");
        }
        for server in [&loopback, &open] {
            let with = |name, value| asked(server, Method::POST, &[("host", "127.0.0.1:8000"), (name, value)]);
            assert!(with("origin", "http://127.0.0.1:8000") && with("sec-fetch-site", "same-origin"));
            assert!(
                !with("origin", "https://evil.example")
                    && !with("origin", "null")
                    && !with("sec-fetch-site", "cross-site")
            );
            assert!(!with("origin", "http://127.0.0.1:9000"), "another server of this machine");
            assert!(asked(server, Method::POST, &[]), "a program");
            assert!(asked(server, Method::GET, &[("host", "127.0.0.1"), ("origin", "https://evil.example")]));
            let proxied =
                [("host", "127.0.0.1:8000"), ("origin", "https://models.example"), ("sec-fetch-site", "same-origin")];
            assert!(asked(server, Method::POST, &proxied), "the own page behind a proxy");
        }
    }

    #[test]
    fn only_the_whole_token_opens() {
        let token = Token::new(" 0123456789abcdef\n").unwrap();
        let with = |value: &str| HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
        assert!(token.is_in(&with("Bearer 0123456789abcdef")) && token.is_in(&with("bearer 0123456789abcdef")));
        for wrong in [
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdeff",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
            "Bearer ",
        ] {
            assert!(!token.is_in(&with(wrong)), "{wrong}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
        assert!(Token::new("short").is_err() && Token::new("0123456789 abcdefg").is_err());
    }
}
