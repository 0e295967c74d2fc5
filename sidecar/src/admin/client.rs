//! Asks the admin listener of a running sidecar.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use axum::http::uri::Scheme;
use axum::http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use sluice_filter::token::Token;
use tokio::time::timeout;

use crate::http::token_lines;

/// Longer than the longest `store_timeout`.
const PATIENCE: Duration = Duration::from_secs(15);

/// More than any answer has.
const ANSWER_BYTES: usize = 64 << 20;

/// What a path segment has to say in another way.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Whom to ask, and by whose leave.
#[derive(Debug)]
pub struct Client {
    base: String,
    authorization: Option<HeaderValue>,
    http: HttpClient<HttpConnector, Body>,
}

/// Why there is no answer. The texts say what to do.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// An address that can't be asked.
    #[error("--admin {0}: it must be http://HOST:PORT, such as http://127.0.0.1:8081")]
    Url(String),
    /// The file with the token can't be used. What is in it is not told.
    #[error("--token-file {}: {problem}", .path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Nobody answers there, or not to the end.
    #[error("cannot reach {url}: {problem}; is `admin` on, or another address? Say which with --admin")]
    Unreachable {
        /// What was asked.
        url: String,
        /// What came of it.
        problem: String,
    },
    /// It says no, or that it can't.
    #[error("{url} answers {}: {detail}{}", status.as_u16(), hint(*status))]
    Refused {
        /// What was asked.
        url: String,
        /// The status.
        status: StatusCode,
        /// Why, in its words.
        detail: String,
    },
    /// Somebody else answers.
    #[error("{url} answers {status}, and not as Sluice does: is that the admin listener? Say which is with --admin")]
    Foreign {
        /// What was asked.
        url: String,
        /// The status.
        status: StatusCode,
    },
}

/// What the sidecar can't know of its asker.
fn hint(status: StatusCode) -> &'static str {
    if status == StatusCode::UNAUTHORIZED { ". Name a file with the token by --token-file" } else { "" }
}

/// What is read of a problem.
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

impl Client {
    /// Asks at this address, with the first token of a file if there is one.
    ///
    /// # Errors
    ///
    /// If the address is none, or if there is no token in the file.
    pub fn new(url: &str, token_file: Option<&Path>) -> Result<Self, ClientError> {
        let bad = || ClientError::Url(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| bad())?;
        let is_good = uri.scheme() == Some(&Scheme::HTTP)
            && uri.query().is_none()
            && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        if !is_good {
            return Err(bad());
        }
        Ok(Self {
            base: url.trim_end_matches('/').to_owned(),
            authorization: token_file.map(authorization).transpose()?,
            http: HttpClient::builder(TokioExecutor::new()).build_http(),
        })
    }

    /// Asks, and returns the body of a good answer. `path` begins with a slash.
    ///
    /// # Errors
    ///
    /// If there is no answer, or not a good one.
    pub async fn ask(&self, method: Method, path: &str) -> Result<Bytes, ClientError> {
        let url = || format!("{}{path}", self.base);
        let mut request = Request::builder().method(method).uri(url()).header(ACCEPT, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Body::empty()).map_err(|_| ClientError::Url(self.base.clone()))?;
        let answer = async {
            let response = self.http.request(request).await.map_err(|error| innermost(&error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await;
            Ok((status, body.map_err(|error| innermost(&*error))?.to_bytes()))
        };
        let answer = timeout(PATIENCE, answer).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
        match answer {
            Err(problem) => Err(ClientError::Unreachable { url: self.base.clone(), problem }),
            Ok((status, body)) if status.is_success() => Ok(body),
            Ok((status, body)) => match serde_json::from_slice(&body) {
                Ok(Problem { detail }) => Err(ClientError::Refused { url: self.base.clone(), status, detail }),
                Err(_) => Err(ClientError::Foreign { url: url(), status }),
            },
        }
    }

    /// An answer that can't be read.
    pub fn foreign(&self, path: &str) -> ClientError {
        ClientError::Foreign { url: format!("{}{path}", self.base), status: StatusCode::OK }
    }
}

/// `prefix/policy/part/part`, each part as a path segment.
pub fn path(prefix: &str, policy: &str, key: &[String]) -> String {
    let mut path = prefix.to_owned();
    for segment in std::iter::once(policy).chain(key.iter().map(String::as_str)) {
        path.push('/');
        path.extend(utf8_percent_encode(segment, ENCODED));
    }
    path
}

/// The first token of a file: what `admin.token_file` names will do, and one of its lines as well.
fn authorization(path: &Path) -> Result<HeaderValue, ClientError> {
    let bad = |problem: String| ClientError::Token { path: path.to_owned(), problem };
    let text = std::fs::read_to_string(path).map_err(|error| bad(format!("cannot be read: {error}")))?;
    let (_, line) = token_lines(&text).next().ok_or_else(|| bad("there is no token in it".to_owned()))?;
    let token = Token::parse(line).map_err(|error| bad(error.to_string()))?;
    let mut value =
        HeaderValue::try_from(format!("Bearer {}", token.secret())).map_err(|error| bad(error.to_string()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The cause of all: what is around it only says that asking failed.
fn innermost(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_path() {
        let key = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        for (parts, expected) in [
            (&["acme"] as &[&str], "/v1/keys/p/acme"),
            (&[], "/v1/keys/p"),
            (&[""], "/v1/keys/p/"),
            (&["a", "", "b"], "/v1/keys/p/a//b"),
            (&["2001:db8::/64", "é ?#%2F"], "/v1/keys/p/2001%3Adb8%3A%3A%2F64/%C3%A9%20%3F%23%252F"),
            (&["..", "."], "/v1/keys/p/../."),
        ] {
            assert_eq!(path("/v1/keys", "p", &key(parts)), expected);
        }
    }

    #[test]
    fn addresses_that_are_none() {
        for url in [
            "",
            "127.0.0.1:8081",
            "https://127.0.0.1:8081",
            "http://",
            "http://a:b@h",
            "http://h/?x",
            "http://h h",
            "/x",
        ] {
            assert!(matches!(Client::new(url, None), Err(ClientError::Url(_))), "{url}");
        }
        for url in ["http://127.0.0.1:8081", "http://127.0.0.1:8081/", "http://[::1]:1", "http://localhost/sluice/"] {
            assert!(Client::new(url, None).is_ok_and(|client| !client.base.ends_with('/')), "{url}");
        }
    }
}
