//! The token that the filter shows to the sidecar.

use std::fmt;

/// The least length of a token, in bytes.
pub const MIN_TOKEN: usize = 16;
/// The greatest: what any HTTP server takes in a header.
pub const MAX_TOKEN: usize = 4096;

/// A bearer token, RFC 6750. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Why a text is no token. The message doesn't show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a token has {MIN_TOKEN} to {MAX_TOKEN} characters, of A to Z, a to z, digits and \"-._~+/\", and \"=\" at its end"
)]
pub struct NoToken;

const SCHEME: &str = "Bearer ";

impl Token {
    /// A token from its text, white space around it left out.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Self, NoToken> {
        let text = text.trim_ascii();
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
        let is_token = text.trim_end_matches('=').bytes().all(is_allowed) && !text.starts_with('=');
        if is_token && (MIN_TOKEN..=MAX_TOKEN).contains(&text.len()) {
            Ok(Self(format!("{SCHEME}{text}")))
        } else {
            Err(NoToken)
        }
    }

    /// The value of an `Authorization` header.
    pub fn authorization(&self) -> &str {
        &self.0
    }

    /// The token itself.
    pub fn secret(&self) -> &str {
        self.0.strip_prefix(SCHEME).unwrap_or_default()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_TOKEN, Token};
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn a_token_is_what_a_header_can_hold() {
        for text in ["0123456789abcdef", " 0123456789abcdef\r\n", "AZaz09-._~+/AAAA==", &"x".repeat(MAX_TOKEN)] {
            let token = Token::parse(text).unwrap();
            assert_eq!(token.secret(), text.trim());
            assert_eq!(token.authorization(), format!("Bearer {}", text.trim()));
            assert_eq!(format!("{token:?}"), "Token");
        }
        let long = "x".repeat(MAX_TOKEN + 1);
        for text in [
            "",
            "0123456789abcde",
            "================",
            "0123456789 abcdef",
            "0123456789=abcdef",
            "0123456789abcdéf",
            &long,
        ] {
            let error = Token::parse(text).unwrap_err().to_string();
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }
}
