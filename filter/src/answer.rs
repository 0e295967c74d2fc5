//! Answers that the filter gives itself: denials and failures, for HTTP and for gRPC clients.

use serde::Serialize;

use crate::denied::{Denied, Template};
use crate::headers::{self, Dialect, Field};
use crate::keys::{KeyMissing, Refusal};
use crate::wire::Verdict;

/// The problem type of a denial, from draft-ietf-httpapi-ratelimit-headers-10.
pub const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// What a client is told instead of the upstream's response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status, or that of gRPC.
    pub status: Status,
    /// Header fields; for gRPC they are its metadata.
    pub headers: Vec<Field>,
    /// Header fields of the configuration's choice; for HTTP only.
    pub custom: Vec<(String, String)>,
    /// A JSON problem, RFC 9457, or a text of the configuration's choice; for gRPC the message.
    pub body: String,
}

/// How a reply is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// An HTTP status.
    Http(u16),
    /// `RESOURCE_EXHAUSTED`, 8. Envoy would make the retryable `UNAVAILABLE` of a 429.
    GrpcResourceExhausted,
    /// `UNAVAILABLE`, 14.
    GrpcUnavailable,
}

#[derive(Serialize)]
struct Problem<'a> {
    r#type: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(rename = "violated-policies", skip_serializing_if = "<[_]>::is_empty")]
    violated_policies: &'a [&'a str],
    /// The last one, for [`renew`].
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// The answer to a request that a decision denied.
pub fn denied(verdicts: &[Verdict], dialects: &[Dialect], grpc: bool) -> Reply {
    denied_with(429, verdicts, dialects, grpc)
}

fn denied_with(status: u16, verdicts: &[Verdict], dialects: &[Dialect], grpc: bool) -> Reply {
    let shown = headers::shown(verdicts, false);
    let violated: Vec<&str> = verdicts
        .iter()
        .filter(|verdict| !verdict.allowed && !verdict.shadow)
        .map(|verdict| verdict.policy.as_str())
        .collect();
    let retry_after = shown.and_then(headers::retry_after);

    let mut fields = shown.map(|verdict| headers::fields(verdict, dialects)).unwrap_or_default();
    fields.push(("x-envoy-ratelimited", "true".to_owned()));
    if let Some(seconds) = retry_after {
        fields.push(("retry-after", seconds.to_string()));
    }
    let policy = shown.map_or("", |verdict| verdict.policy.as_str());
    let detail = match retry_after {
        Some(seconds) => format!("The limit of policy \"{policy}\" is reached; retry in {seconds} s."),
        None => format!("The limit of policy \"{policy}\" doesn't allow this request, now or later."),
    };
    let problem = Problem {
        r#type: QUOTA_EXCEEDED,
        title: "Request cannot be satisfied as assigned quota has been exceeded",
        status,
        detail: &detail,
        violated_policies: &violated,
        retry_after_ms: shown.and_then(|verdict| verdict.retry_after_ms),
    };
    reply(&problem, Status::GrpcResourceExhausted, fields, grpc)
}

/// The same with what the configuration says instead. gRPC has its own, whose parts clients know the meaning of.
/// `policy` is the one of the verdict that is shown, as the filter knows it.
pub fn denied_as(
    denied: Option<&Denied>,
    policy: &str,
    verdicts: &[Verdict],
    dialects: &[Dialect],
    grpc: bool,
) -> Reply {
    let retry_after = headers::shown(verdicts, false).and_then(headers::retry_after);
    let reply = denied_with(denied.map_or(429, |denied| denied.status), verdicts, dialects, grpc);
    customised(reply, denied, policy, retry_after)
}

/// Has the answer to a denial say another `retry_after_ms`, where it says one, with the same seconds in all else.
pub fn renew(reply: &mut Reply, denied: Option<&Denied>, retry_after_ms: u64) {
    let Reply { status, body, .. } = reply;
    if matches!(status, Status::Http(_)) && denied.is_none_or(|denied| denied.body.is_none()) && body.pop().is_some() {
        body.truncate(body.trim_end_matches(|char: char| char.is_ascii_digit()).len());
        body.push_str(itoa::Buffer::new().format(retry_after_ms));
        body.push('}');
    }
}

fn customised(mut reply: Reply, denied: Option<&Denied>, policy: &str, retry_after: Option<u64>) -> Reply {
    let (Some(denied), Status::Http(_)) = (denied, reply.status) else { return reply };
    if let Some((body, content_type)) = &denied.body {
        reply.headers.retain(|(name, _)| *name != "content-type");
        reply.headers.push(("content-type", content_type.clone()));
        reply.body = body.fill(policy, retry_after);
    }
    let fill = |(name, value): &(String, Template)| (name.clone(), value.fill(policy, retry_after));
    reply.custom = denied.headers.iter().map(fill).collect();
    reply
}

/// The answer to a request that lacks what a policy's key is made of, where that means it is denied. With another
/// status than 429 it is not about limits: what is configured for denials does not apply, and Envoy finds the gRPC
/// status that goes with it.
pub fn key_missing(denied: Option<&Denied>, missing: &KeyMissing, grpc: bool) -> Reply {
    let KeyMissing { policy, refusal: Refusal { status, challenge } } = missing;
    let status = *status;
    let detail = format!(
        "Policy \"{policy}\" can't tell whose request this is: what it looks at is missing, empty or ambiguous."
    );
    let denied = denied.filter(|_| status == 429);
    let status = denied.map_or(status, |denied| denied.status);
    let title = match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        407 => "Proxy Authentication Required",
        429 => "Too Many Requests",
        503 => "Service Unavailable",
        _ => "Request Denied",
    };
    let problem =
        Problem { r#type: "about:blank", title, status, detail: &detail, violated_policies: &[], retry_after_ms: None };
    if status != 429 && denied.is_none() {
        let name = if status == 407 { "proxy-authenticate" } else { "www-authenticate" };
        let fields = challenge.iter().map(|challenge| (name, challenge.clone())).collect();
        return reply(&problem, Status::Http(status), fields, false);
    }
    let fields = vec![("x-envoy-ratelimited", "true".to_owned())];
    customised(reply(&problem, Status::GrpcResourceExhausted, fields, grpc), denied, policy, None)
}

/// The answer to a request that could not be decided, where that means it is denied.
pub fn undecided(grpc: bool) -> Reply {
    let problem = Problem {
        r#type: "about:blank",
        title: "Service Unavailable",
        status: 503,
        detail: "The rate limit of this request could not be checked.",
        violated_policies: &[],
        retry_after_ms: None,
    };
    reply(&problem, Status::GrpcUnavailable, Vec::new(), grpc)
}

fn reply(problem: &Problem<'_>, grpc_status: Status, mut headers: Vec<Field>, grpc: bool) -> Reply {
    if grpc {
        return Reply { status: grpc_status, headers, custom: Vec::new(), body: problem.detail.to_owned() };
    }
    headers.push(("content-type", "application/problem+json".to_owned()));
    // Strings and numbers always serialise; the status alone would do.
    let body = serde_json::to_string(problem).unwrap_or_default();
    Reply { status: Status::Http(problem.status), headers, custom: Vec::new(), body }
}

#[cfg(test)]
mod tests {
    use super::{QUOTA_EXCEEDED, Reply, Status, denied, denied_as, key_missing, undecided};
    use crate::denied::{Denied, Template};
    use crate::headers::Dialect;
    use crate::keys::{KeyMissing, Refusal};
    use crate::wire::Verdict;
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn verdict(policy: &str, allowed: bool, retry_after_ms: Option<u64>) -> Verdict {
        Verdict {
            policy: policy.to_owned(),
            allowed,
            limit: 10,
            period_ms: 1000,
            remaining: 0,
            reset_ms: 900,
            retry_after_ms,
            charge: None,
            lease: None,
            unlimited: false,
            shadow: false,
        }
    }

    fn value<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
        reply.headers.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str())
    }

    #[test]
    fn a_denial_names_policy_and_wait() {
        let verdicts = [verdict("a", true, Some(0)), verdict("b", false, Some(1500)), verdict("c", false, Some(3))];
        let reply = denied(&verdicts, &[Dialect::Ietf], false);
        assert_eq!(reply.status, Status::Http(429));
        assert_eq!(value(&reply, "retry-after"), Some("2"));
        assert_eq!(value(&reply, "x-envoy-ratelimited"), Some("true"));
        assert_eq!(value(&reply, "content-type"), Some("application/problem+json"));
        assert_eq!(value(&reply, "ratelimit"), Some(r#""b";r=0;t=1"#));
        let body: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(
            body,
            serde_json::json!({
                "type": QUOTA_EXCEEDED,
                "title": "Request cannot be satisfied as assigned quota has been exceeded",
                "status": 429,
                "detail": "The limit of policy \"b\" is reached; retry in 2 s.",
                "violated-policies": ["b", "c"],
                "retry_after_ms": 1500,
            })
        );
    }

    #[test]
    fn no_wait_is_promised_where_none_helps() {
        let reply = denied(&[verdict("never", false, None), verdict("soon", false, Some(1))], &[], false);
        assert_eq!(value(&reply, "retry-after"), None);
        assert_eq!(value(&reply, "ratelimit"), None);
        let body: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
        assert!(body["detail"].as_str().unwrap().contains("\"never\""));
        assert!(body.get("retry_after_ms").is_none());
    }

    #[test]
    fn grpc_clients_get_a_status_message_and_metadata() {
        let reply = denied(&[verdict("b", false, Some(1))], &[Dialect::Ietf], true);
        assert_eq!(reply.status, Status::GrpcResourceExhausted);
        assert_eq!(reply.body, "The limit of policy \"b\" is reached; retry in 1 s.");
        assert_eq!(value(&reply, "retry-after"), Some("1"));
        assert_eq!(value(&reply, "content-type"), None);
        assert_eq!(undecided(true).status, Status::GrpcUnavailable);
        assert_eq!(key_missing(None, &missing(429), true).status, Status::GrpcResourceExhausted);
    }

    #[test]
    fn failures_are_problems_too() {
        let reply = undecided(false);
        assert_eq!(reply.status, Status::Http(503));
        assert_eq!(value(&reply, "content-type"), Some("application/problem+json"));
        assert_eq!(value(&reply, "x-envoy-ratelimited"), None);
        let reply = key_missing(None, &missing(429), false);
        assert_eq!(reply.status, Status::Http(429));
        assert_eq!(value(&reply, "x-envoy-ratelimited"), Some("true"));
        assert_eq!(value(&reply, "retry-after"), None);
        assert!(reply.body.contains("\\\"b\\\""), "{}", reply.body);
    }

    /// A key of policy `b` is missing; who says what it is proves who he is.
    fn missing(status: u16) -> KeyMissing {
        let challenge = [401, 407].contains(&status).then(|| "Bearer realm=\"api\"".to_owned());
        KeyMissing { policy: "b".to_owned(), refusal: Refusal { status, challenge } }
    }

    #[test]
    fn who_has_no_key_is_told_what_the_status_demands() {
        let challenge = Some("Bearer realm=\"api\"");
        let table = [
            (400, "Bad Request", None, None),
            (401, "Unauthorized", challenge, None),
            (403, "Forbidden", None, None),
            (407, "Proxy Authentication Required", None, challenge),
            (418, "Request Denied", None, None),
        ];
        for (status, title, www, proxy) in table {
            for grpc in [false, true] {
                let reply = key_missing(None, &missing(status), grpc);
                assert_eq!(reply.status, Status::Http(status));
                assert!(reply.body.contains(title), "{}", reply.body);
                let got = ["x-envoy-ratelimited", "www-authenticate", "proxy-authenticate"].map(|n| value(&reply, n));
                assert_eq!(got, [None, www, proxy], "{status}");
            }
        }
    }

    fn text(text: &str) -> Template {
        Template::parse(text).unwrap()
    }

    #[test]
    fn a_configured_answer_stands_in_for_the_default() {
        let custom = Denied {
            status: 503,
            body: Some((text("{policy} {retry_after}"), "text/html".to_owned())),
            headers: vec![("x-why".to_owned(), text("{policy}"))],
        };
        let verdicts = [verdict("b", false, Some(1500))];
        let reply = denied_as(Some(&custom), "mine", &verdicts, &[Dialect::Ietf], false);
        assert_eq!(reply.status, Status::Http(503));
        assert_eq!(reply.body, "mine 2");
        assert_eq!(reply.custom, [("x-why".to_owned(), "mine".to_owned())]);
        let types: Vec<_> = reply.headers.iter().filter(|(name, _)| *name == "content-type").collect();
        assert_eq!(types, [&("content-type", "text/html".to_owned())]);
        // What is promised of every denial stays.
        assert_eq!(value(&reply, "retry-after"), Some("2"));
        assert_eq!(value(&reply, "x-envoy-ratelimited"), Some("true"));
        assert_eq!(value(&reply, "ratelimit"), Some(r#""b";r=0;t=1"#));

        let reply = key_missing(Some(&custom), &missing(429), false);
        assert_eq!((reply.status, reply.body.as_str()), (Status::Http(503), "b "));
        // A gRPC client understands its own status only.
        let grpc = denied_as(Some(&custom), "mine", &verdicts, &[Dialect::Ietf], true);
        assert_eq!(grpc, denied(&verdicts, &[Dialect::Ietf], true));
    }

    #[test]
    fn a_status_alone_changes_the_problem_too() {
        let custom = Denied { status: 503, body: None, headers: Vec::new() };
        let reply = denied_as(Some(&custom), "b", &[verdict("b", false, Some(1))], &[], false);
        assert_eq!(reply.status, Status::Http(503));
        let body: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!((&body["status"], &body["violated-policies"]), (&503.into(), &serde_json::json!(["b"])));
        let verdicts = [verdict("b", false, Some(1))];
        assert_eq!(denied_as(None, "b", &verdicts, &[], false), denied(&verdicts, &[], false));
    }
}
