//! What the environment says of traces, in OpenTelemetry's own variables.
//!
//! They are read here, and not by its library: that one takes what it doesn't understand for nothing, and says so to
//! nobody.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::Uri;

/// The protocol that is spoken.
const PROTOCOL: &str = "http/protobuf";

const SAMPLERS: &str = "always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off and \
                        parentbased_traceidratio";

/// What is wrong with the environment. The text never shows what headers hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TracesError {
    /// A variable has a value that can't be used.
    #[error("{0}: {1}")]
    Variable(&'static str, String),
    /// The exporter can't be made.
    #[error("traces can't be exported: {0}")]
    Exporter(String),
}

/// Where spans are sent, and which.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The collector's address, path included.
    pub endpoint: Uri,
    /// How long sending a batch of spans may take.
    pub timeout: Duration,
    /// The authorities that are trusted with `https`, the system's if none is given.
    pub ca_file: Option<PathBuf>,
    /// Which questions are recorded.
    pub sampler: Sampling,
    /// How many spans may wait for being sent.
    pub queue: usize,
    /// The name of this service.
    pub service: Option<String>,
}

/// Which questions are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Whether a question that belongs to a trace is recorded as that is.
    pub follows_parent: bool,
    /// How many of the others are: all, none, or a share of them.
    pub share: f64,
}

impl Sampling {
    /// That of requests, and nothing else: this is no place where traces begin. OpenTelemetry's own default would
    /// record each question of which nobody wants a trace, because the filter doesn't tell of those.
    const DEFAULT: Self = Self { follows_parent: true, share: 0.0 };

    /// Whether questions without a sampled trace may be recorded.
    pub fn has_roots(self) -> bool {
        self.share > 0.0
    }
}

impl Settings {
    /// Reads the environment. `None` if spans are not to be exported. An empty variable is as good as none.
    ///
    /// # Errors
    ///
    /// If a variable has a value that can't be used.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, TracesError> {
        let read =
            |name: &'static str| variable(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let first = |names: [&'static str; 2]| names.into_iter().find_map(|name| Some((name, read(name)?)));
        if read("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        match read("OTEL_TRACES_EXPORTER").as_deref() {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => return Err(unsupported("OTEL_TRACES_EXPORTER", other, "otlp or none")),
        }
        let endpoint = match (read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), read("OTEL_EXPORTER_OTLP_ENDPOINT")) {
            (Some(text), _) => endpoint("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &text, "")?,
            (None, Some(text)) => endpoint("OTEL_EXPORTER_OTLP_ENDPOINT", &text, "/v1/traces")?,
            (None, None) => return Ok(None),
        };
        let only = |names: [&'static str; 2], value: &str| match first(names) {
            Some((name, text)) if text != value => Err(unsupported(name, &text, value)),
            _ => Ok(()),
        };
        if let Some((name, text)) = first(["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"])
            && text != PROTOCOL
        {
            let hint = format!("{PROTOCOL}, which collectors take on port 4318");
            return Err(unsupported(name, &text, &hint));
        }
        only(["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"], "none")?;
        for names in [
            ["OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"],
            ["OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_KEY"],
        ] {
            if let Some((name, _)) = first(names) {
                let message =
                    "certificates of clients are not supported: send spans to a collector nearby, which has one";
                return Err(TracesError::Variable(name, message.to_owned()));
            }
        }
        let timeout = match first(["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"]) {
            None => Duration::from_secs(10),
            Some((name, text)) => Duration::from_millis(whole(name, &text)?),
        };
        Ok(Some(Self {
            endpoint,
            timeout,
            ca_file: first(["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"])
                .map(|(_, text)| text.into()),
            sampler: sampling(read("OTEL_TRACES_SAMPLER").as_deref(), read("OTEL_TRACES_SAMPLER_ARG").as_deref())?,
            service: read("OTEL_SERVICE_NAME"),
            queue: match read("OTEL_BSP_MAX_QUEUE_SIZE") {
                None => opentelemetry_sdk::trace::OTEL_BSP_MAX_QUEUE_SIZE_DEFAULT,
                Some(text) => usize::try_from(whole("OTEL_BSP_MAX_QUEUE_SIZE", &text)?).unwrap_or(usize::MAX),
            },
        }))
    }
}

fn endpoint(name: &'static str, text: &str, path: &str) -> Result<Uri, TracesError> {
    let error = |message: &str| TracesError::Variable(name, message.to_owned());
    // The text is not repeated: it might hold a password.
    let no_url = "expected a URL such as http://127.0.0.1:4318";
    let uri: Uri = format!("{}{path}", text.strip_suffix('/').unwrap_or(text)).parse().map_err(|_| error(no_url))?;
    let authority = uri.authority().ok_or_else(|| error(no_url))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(error(no_url));
    }
    if authority.as_str().contains('@') {
        return Err(error(
            "a URL without user and password: OTEL_EXPORTER_OTLP_HEADERS holds what the collector wants",
        ));
    }
    Ok(uri)
}

fn sampling(sampler: Option<&str>, argument: Option<&str>) -> Result<Sampling, TracesError> {
    let Some(sampler) = sampler else { return Ok(Sampling::DEFAULT) };
    let own = sampler.strip_prefix("parentbased_");
    let share = match own.unwrap_or(sampler) {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => match argument {
            None => 1.0,
            Some(text) => {
                let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
                share
                    .ok_or_else(|| unsupported("OTEL_TRACES_SAMPLER_ARG", text, "a share from 0 to 1, such as 0.01"))?
            }
        },
        _ => return Err(unsupported("OTEL_TRACES_SAMPLER", sampler, SAMPLERS)),
    };
    Ok(Sampling { follows_parent: own.is_some(), share })
}

fn whole(name: &'static str, text: &str) -> Result<u64, TracesError> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| unsupported(name, text, "a whole number above 0"))
}

fn unsupported(name: &'static str, value: &str, supported: &str) -> TracesError {
    TracesError::Variable(name, format!("{value:?} is not supported; expected {supported}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, TracesError> {
        Settings::read(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn without_an_endpoint_or_switched_off_there_are_none() {
        let table: [&[(&str, &str)]; 7] = [
            &[],
            &[(ENDPOINT, "")],
            &[("OTEL_TRACES_EXPORTER", "otlp")],
            &[(ENDPOINT, "http://c:4318"), ("OTEL_SDK_DISABLED", "true")],
            &[(ENDPOINT, "http://c:4318"), ("OTEL_SDK_DISABLED", "TRUE")],
            &[(ENDPOINT, "http://c:4318"), ("OTEL_TRACES_EXPORTER", "none")],
            &[(ENDPOINT, "nonsense"), ("OTEL_TRACES_EXPORTER", "none")],
        ];
        for variables in table {
            assert_eq!(read(variables), Ok(None), "{variables:?}");
        }
    }

    #[test]
    fn an_endpoint_is_for_all_signals_or_for_traces() {
        let own = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        let table: [(&[(&str, &str)], &str); 7] = [
            (&[(ENDPOINT, "http://c:4318")], "http://c:4318/v1/traces"),
            (&[(ENDPOINT, "http://c:4318/")], "http://c:4318/v1/traces"),
            (&[(ENDPOINT, " https://c/otlp ")], "https://c/otlp/v1/traces"),
            (&[(own, "http://c:4318/mine")], "http://c:4318/mine"),
            (&[(own, "http://c:4318")], "http://c:4318/"),
            (&[(own, "http://c/own"), (ENDPOINT, "http://other")], "http://c/own"),
            (&[(ENDPOINT, "http://[::1]:4318"), ("OTEL_SDK_DISABLED", "false")], "http://[::1]:4318/v1/traces"),
        ];
        for (variables, endpoint) in table {
            let settings = read(variables).unwrap().unwrap();
            assert_eq!(settings.endpoint, endpoint, "{variables:?}");
        }
    }

    #[test]
    fn samplers_are_those_of_the_specification() {
        let table = [
            (None, None, true, 0.0),
            (Some("always_on"), None, false, 1.0),
            (Some("always_off"), None, false, 0.0),
            (Some("traceidratio"), Some("0.25"), false, 0.25),
            (Some("traceidratio"), None, false, 1.0),
            (Some("parentbased_always_on"), Some("ignored"), true, 1.0),
            (Some("parentbased_always_off"), None, true, 0.0),
            (Some("parentbased_traceidratio"), Some("1"), true, 1.0),
        ];
        for (sampler, argument, follows_parent, share) in table {
            assert_eq!(sampling(sampler, argument), Ok(Sampling { follows_parent, share }), "{sampler:?}");
        }
    }

    #[test]
    fn what_is_not_supported_is_an_error_that_says_what_is() {
        let table = [
            ("OTEL_TRACES_EXPORTER", "zipkin", "otlp or none"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", "none"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key", "a collector nearby"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1s", "a whole number above 0"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "0", "a whole number above 0"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "a whole number above 0"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote", "parentbased_traceidratio"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "127.0.0.1:4318", "such as http://127.0.0.1:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://", "such as http://127.0.0.1:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://c", "such as http://127.0.0.1:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://me:secret@c:4318", "OTEL_EXPORTER_OTLP_HEADERS"),
        ];
        for (name, value, hint) in table {
            let message = read(&[(ENDPOINT, "http://c:4318"), (name, value)]).unwrap_err().to_string();
            assert!(message.starts_with(&format!("{name}: ")) && message.contains(hint), "{message}");
            assert!(!message.contains("secret"), "{message}");
        }
        for share in ["1.5", "-0.1", "NaN", "all"] {
            let variables =
                [(ENDPOINT, "http://c"), ("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", share)];
            assert!(read(&variables).is_err(), "{share}");
        }
    }
}
