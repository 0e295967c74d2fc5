//! `sluice health`: asks a running sidecar whether it is well. For images that hold nothing else to ask with.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Longer than a probe wants to wait for a process on its own machine.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of an answer that are read. Only its first line matters.
const ANSWER_BYTES: u64 = 4096;

/// Why a sidecar is not known to be well.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// The address is none that can be asked.
    #[error("--url {0}: it must be http://HOST:PORT/PATH, such as http://127.0.0.1:8081/readyz")]
    Url(String),
    /// Nothing answers there, or nothing that is HTTP.
    #[error("{url} doesn't answer: {source}; is `admin.listen` another address?")]
    Silent {
        /// What was asked.
        url: String,
        /// What came of it.
        source: io::Error,
    },
    /// It answers, and says no.
    #[error("{url} answers {status}")]
    Unwell {
        /// What was asked.
        url: String,
        /// The status line without the version, such as `503 Service Unavailable`.
        status: String,
    },
}

/// Asks `url`, by HTTP without TLS, within 2 s for each step. The status line of a 200 is returned.
///
/// # Errors
/// Anything but a 200.
pub fn ask(url: &str) -> Result<String, HealthError> {
    let bad = || HealthError::Url(url.to_owned());
    let rest = url.strip_prefix("http://").ok_or_else(bad)?;
    let (authority, path) = rest.split_once('/').ok_or_else(bad)?;
    if authority.is_empty() || url.chars().any(|character| character.is_control() || character == ' ') {
        return Err(bad());
    }
    let silent = |source| HealthError::Silent { url: url.to_owned(), source };
    let answer = get(authority, path).map_err(silent)?;
    let line = answer.lines().next().unwrap_or_default();
    let status = line.strip_prefix("HTTP/1.1 ").or_else(|| line.strip_prefix("HTTP/1.0 "));
    let status = status.ok_or_else(|| silent(io::Error::new(io::ErrorKind::InvalidData, "that is not HTTP")))?;
    match status.split_ascii_whitespace().next() {
        Some("200") => Ok(status.to_owned()),
        _ => Err(HealthError::Unwell { url: url.to_owned(), status: status.to_owned() }),
    }
}

fn get(authority: &str, path: &str) -> io::Result<String> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    // `localhost` may lead to two addresses, only one of which is listened on.
    for address in authority.to_socket_addrs()? {
        let mut stream = match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => stream,
            Err(error) => {
                last = error;
                continue;
            }
        };
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let question = format!("GET /{path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
        // At once: piece by piece it would be several packets.
        stream.write_all(question.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES).read_to_end(&mut answer)?;
        return Ok(String::from_utf8_lossy(&answer).into_owned());
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Asks somebody who gives this answer to whatever he is asked.
    fn asked(answer: &'static str) -> Result<String, HealthError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/readyz", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap();
            assert!(request[..length].starts_with(b"GET /readyz HTTP/1.1\r\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let result = ask(&url);
        server.join().unwrap();
        result
    }

    #[test]
    fn only_a_200_is_well() {
        assert_eq!(asked("HTTP/1.1 200 OK\r\n\r\n").unwrap(), "200 OK");
        let unwell = asked("HTTP/1.1 503 Service Unavailable\r\n\r\n").unwrap_err().to_string();
        assert!(unwell.ends_with("answers 503 Service Unavailable"), "{unwell}");
        for answer in ["HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n", "200 OK", "", "HTTP/1.1 "] {
            asked(answer).unwrap_err();
        }
    }

    #[test]
    fn nobody_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/readyz", listener.local_addr().unwrap());
        drop(listener);
        assert!(matches!(ask(&url), Err(HealthError::Silent { .. })));
    }

    #[test]
    fn addresses_that_are_none() {
        for url in ["", "127.0.0.1:8081", "https://127.0.0.1:8081/readyz", "http://127.0.0.1:8081", "http:///readyz"] {
            assert!(matches!(ask(url), Err(HealthError::Url(_))), "{url}");
        }
        assert!(matches!(ask("http://127.0.0.1:8081/a b\r\nx: y"), Err(HealthError::Url(_))));
    }
}
