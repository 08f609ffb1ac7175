//! Who may ask: a bearer token, compared in constant time.

use axum::http::{HeaderMap, header};
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

#[cfg(test)]
mod tests {
    use super::*;

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
