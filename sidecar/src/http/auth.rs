//! Bearer tokens: who may ask on the check listener, and use the admin API.

use std::path::Path;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use sha2::{Digest, Sha256};
use sluice_filter::token::Token;
use subtle::{Choice, ConstantTimeEq};

use super::ApiError;
use crate::reload::{FileError, NamedFile, Reloaded};

/// The tokens that are taken, as digests: comparing these tells neither how much of a token was right nor how long it
/// is, and none of them lies in memory.
#[derive(Debug)]
pub struct Tokens(Vec<[u8; 32]>);

impl Tokens {
    /// The tokens of the file that `field` names, read again when it changes.
    ///
    /// # Errors
    ///
    /// If the file can't be read, or if a line of it is no token.
    pub fn load(field: &'static str, path: &Path) -> Result<Reloaded<Self>, FileError> {
        let file = NamedFile::new(field, path);
        Reloaded::start([file], |[file], [text]| Self::parse(text).map_err(|problem| file.error(problem)))
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())?;
        let tokens = token_lines(text).map(|(number, line)| {
            let token = Token::parse(line).map_err(|error| format!("line {number}: {error}"))?;
            Ok(digest(token.secret().as_bytes()))
        });
        match tokens.collect::<Result<Vec<_>, String>>()? {
            none if none.is_empty() => Err("there is no token in it: write one a line".to_owned()),
            tokens => Ok(Self(tokens)),
        }
    }

    /// Whether this is one of them. All are compared, whichever it is.
    fn has(&self, presented: &[u8]) -> bool {
        let presented = digest(presented);
        self.0.iter().fold(Choice::from(0), |found, token| found | token.ct_eq(&presented)).into()
    }
}

/// The lines of a file of tokens, one token a line, with their numbers from 1 on. Empty lines, and those that begin with
/// `#`, are none.
pub(crate) fn token_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines().map(str::trim_ascii)).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Lets only those through who show a token.
pub(super) async fn require_token(
    State(tokens): State<Reloaded<Tokens>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    check_token(&tokens, request.headers(), "auth.token_file")?;
    Ok(next.run(request).await)
}

/// Whether a request shows one of the tokens of the file that `field` names.
pub(super) fn check_token(tokens: &Reloaded<Tokens>, headers: &HeaderMap, field: &'static str) -> Result<(), ApiError> {
    match presented(headers) {
        Some(presented) if tokens.get().has(presented) => Ok(()),
        _ => Err(ApiError::Unauthorized(field)),
    }
}

/// The token of the one `Authorization` header. Schemes are not case-sensitive.
fn presented(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (value, None) = (values.next()?.as_bytes(), values.next()) else { return None };
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_file_has_one_token_a_line() {
        let tokens = Tokens::parse(b"# old\n0123456789abcdef\r\n\n  # new\n fedcba9876543210 \n").unwrap();
        assert_eq!(tokens.0.len(), 2);
        for (token, is_one) in [
            ("0123456789abcdef", true),
            ("fedcba9876543210", true),
            ("0123456789abcdeF", false),
            ("0123456789abcde", false),
            ("0123456789abcdef0", false),
            ("# old", false),
            ("", false),
        ] {
            assert_eq!(tokens.has(token.as_bytes()), is_one, "{token}");
        }
        assert!(!format!("{tokens:?}").contains("0123456789abcdef"));
        for (text, message) in [
            ("", "there is no token in it"),
            ("# none\n\n", "there is no token in it"),
            ("0123456789abcdef\nfifteen-bytes-x", "line 2: a token has 16 to 4096"),
            ("two words on a line", "line 1: a token has 16"),
        ] {
            let error = Tokens::parse(text.as_bytes()).unwrap_err();
            assert!(error.starts_with(message) && !error.contains("fifteen"), "{text}: {error}");
        }
        assert!(Tokens::parse(b"0123456789abcde\xff").is_err());
    }

    #[test]
    fn a_token_is_shown_in_one_authorization_header() {
        let table: [(&[&str], Option<&str>); 8] = [
            (&["Bearer abc"], Some("abc")),
            (&["bearer  abc "], Some("abc")),
            (&["Bearer "], Some("")),
            (&["Bearer"], None),
            (&["Basic abc"], None),
            (&["abc"], None),
            (&["Bearer abc", "Bearer abc"], None),
            (&[], None),
        ];
        for (values, expected) in table {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
            }
            assert_eq!(presented(&headers), expected.map(str::as_bytes), "{values:?}");
        }
    }
}
