//! Who may use the admin API. Probes, metrics and the page's own files are for everybody who reaches the listener.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::header::{self, AsHeaderName};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::Response;

use crate::config::Admin;
use crate::http::auth::check_token;
use crate::http::{ApiError, Tokens};
use crate::reload::{FileError, Reloaded};

/// The field that names the file with the tokens.
const FIELD: &str = "admin.token_file";

/// Who is let in.
#[derive(Debug, Clone)]
pub enum Guard {
    /// Whoever shows one of these tokens. A browser doesn't show them for a page that somebody else has made.
    Tokens(Reloaded<Tokens>),
    /// Whoever is on this machine: the address is loopback. That includes its browsers, and with them pages from
    /// anywhere, so that it matters whom a request is meant for and where it comes from.
    Local,
    /// Nobody: the address can be reached from elsewhere, and there are no tokens.
    Nobody,
}

/// Why the admin API doesn't answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// There are no tokens, and the address is no loopback address.
    #[error(
        "admin.listen can be reached from other machines, and there are no tokens: only probes and /metrics are answered. \
         Set admin.token_file, or let admin.listen be 127.0.0.1 or ::1"
    )]
    NoTokens,
    /// A name in `Host`: whoever owns a name can have it lead here, and his pages in a browser of this machine ask.
    #[error("the Host header: without admin.token_file it has to be an IP address or localhost")]
    Host,
    /// A page of somebody else.
    #[error("the request comes from a page of another origin: without admin.token_file only this one's own may ask")]
    Origin,
}

impl Guard {
    /// What the configuration says.
    ///
    /// # Errors
    ///
    /// If the file with the tokens can't be used. Needs a Tokio runtime.
    pub fn load(admin: &Admin) -> Result<Self, FileError> {
        match &admin.token_file {
            Some(path) => Ok(Self::Tokens(Tokens::load(FIELD, path)?)),
            None => Ok(Self::without_tokens(admin.listen)),
        }
    }

    fn without_tokens(listen: SocketAddr) -> Self {
        // An IPv4 address may be written as one of IPv6.
        if listen.ip().to_canonical().is_loopback() { Self::Local } else { Self::Nobody }
    }

    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        match self {
            Self::Tokens(tokens) => check_token(tokens, headers, FIELD),
            Self::Local => Ok(check_local(uri, headers)?),
            Self::Nobody => Err(Forbidden::NoTokens.into()),
        }
    }
}

/// Lets only those through who may.
pub(in crate::http) async fn guard(
    State(guard): State<Guard>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    guard.check(request.uri(), request.headers())?;
    Ok(next.run(request).await)
}

/// Whether a request, if a browser sends it, comes from a page of this listener's own, or from whoever uses the browser.
fn check_local(uri: &Uri, headers: &HeaderMap) -> Result<(), Forbidden> {
    // In HTTP/2 it is no header.
    let host = uri.authority().map_or_else(|| one(headers, header::HOST), |authority| Ok(Some(authority.as_str())));
    let host = host.map_err(|()| Forbidden::Host)?.ok_or(Forbidden::Host)?;
    if !is_address_or_localhost(host) {
        return Err(Forbidden::Host);
    }
    // Browsers leave `Origin` out where a page only fetches what it can't read, and say so in `Sec-Fetch-Site`.
    let site = one(headers, "sec-fetch-site").map_err(|()| Forbidden::Origin)?;
    if site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return Err(Forbidden::Origin);
    }
    match one(headers, header::ORIGIN).map_err(|()| Forbidden::Origin)? {
        Some(origin) if !is_origin_of(origin, host) => Err(Forbidden::Origin),
        _ => Ok(()),
    }
}

fn is_address_or_localhost(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    // Nobody's name and password belong here.
    !host.contains('@') && (name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok())
}

fn is_origin_of(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// The value of a header that may be there once.
fn one(headers: &HeaderMap, name: impl AsHeaderName) -> Result<Option<&str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn checked(uri: &str, headers: &[(&'static str, &str)]) -> Result<(), Forbidden> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        check_local(&uri.parse().unwrap(), &map)
    }

    #[test]
    fn only_an_address_or_localhost_is_a_host() {
        for (host, is_one) in [
            ("127.0.0.1:8081", true),
            ("127.0.0.1", true),
            ("10.0.0.7:80", true),
            ("[::1]:8081", true),
            ("localhost:8081", true),
            ("LocalHost", true),
            ("evil.example:8081", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example:8081", false),
            ("x@localhost", false),
            ("localhost.", false),
            ("2130706433", false),
            ("127.1", false),
            ("::1", false),
            ("", false),
            ("local host", false),
        ] {
            let expected = if is_one { Ok(()) } else { Err(Forbidden::Host) };
            assert_eq!(checked("/v1/status", &[("host", host)]), expected, "{host}");
        }
        assert_eq!(checked("/v1/status", &[]), Err(Forbidden::Host));
        assert_eq!(checked("/v1/status", &[("host", "localhost"), ("host", "localhost")]), Err(Forbidden::Host));
        assert_eq!(checked("http://localhost:1/v1/status", &[]), Ok(()));
        assert_eq!(checked("http://evil.example/v1/status", &[("host", "localhost")]), Err(Forbidden::Host));
    }

    #[test]
    fn only_pages_of_this_origin_may_ask() {
        for (name, value, may) in [
            ("origin", "http://127.0.0.1:8081", true),
            ("origin", "https://127.0.0.1:8081", true),
            ("origin", "http://127.0.0.1:8080", false),
            ("origin", "http://127.0.0.1", false),
            ("origin", "http://localhost:8081", false),
            ("origin", "http://evil.example", false),
            ("origin", "http://evil.example#127.0.0.1:8081", false),
            ("origin", "null", false),
            ("origin", "", false),
            ("sec-fetch-site", "same-origin", true),
            ("sec-fetch-site", "none", true),
            ("sec-fetch-site", "same-site", false),
            ("sec-fetch-site", "cross-site", false),
            ("sec-fetch-site", "", false),
        ] {
            let expected = if may { Ok(()) } else { Err(Forbidden::Origin) };
            assert_eq!(
                checked("/v1/status", &[("host", "127.0.0.1:8081"), (name, value)]),
                expected,
                "{name}: {value}"
            );
        }
        let twice = [("host", "127.0.0.1:1"), ("origin", "http://127.0.0.1:1"), ("origin", "http://127.0.0.1:1")];
        assert_eq!(checked("/v1/status", &twice), Err(Forbidden::Origin));
    }

    #[test]
    fn without_tokens_only_loopback_will_do() {
        for (listen, is_local) in [
            ("127.0.0.1:8081", true),
            ("127.9.9.9:1", true),
            ("[::1]:8081", true),
            ("[::ffff:127.0.0.1]:8081", true),
            ("0.0.0.0:8081", false),
            ("[::]:8081", false),
            ("10.0.0.7:8081", false),
        ] {
            let guard = Guard::without_tokens(listen.parse().unwrap());
            assert_eq!(matches!(guard, Guard::Local), is_local, "{listen}");
            assert!(is_local || matches!(guard, Guard::Nobody), "{listen}");
        }
    }
}
