//! The fields about what clients and upstreams are told.

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::time::Duration;

use super::{assert_messages, checks, rule, with};
use crate::config::CorsPreflight;
use crate::denials::Limits;
use crate::denied::Template;

#[test]
fn answers_can_be_configured() {
    let config = with(
        r#""denied":{"status":503.0,"body":"{policy}","content_type":"text/html","headers":{"X-B":"{retry_after}","x-a":""}},
           "cors_preflight":"check","forward_headers":true,"denial_cache":{"max_age":"250ms","entries":5.0}"#,
    )
    .unwrap();
    let denied = config.denied.unwrap();
    let text = |text| Template::parse(text).unwrap();
    assert_eq!(denied.status, 503);
    assert_eq!(denied.body, Some((text("{policy}"), "text/html".to_owned())));
    assert_eq!(denied.headers, [("x-a".to_owned(), text("")), ("x-b".to_owned(), text("{retry_after}"))]);
    assert_eq!((config.cors_preflight, config.forward_headers), (CorsPreflight::Check, true));
    assert_eq!(config.denial_cache, Limits { max_age: Duration::from_millis(250), entries: 5 });

    let least = with(r#""denied":{"body":""},"denial_cache":{}"#).unwrap();
    let denied = least.denied.unwrap();
    assert_eq!((denied.status, denied.body.clone()), (429, Some((text(""), "text/plain; charset=utf-8".to_owned()))));
    assert_eq!(least.denial_cache, Limits { max_age: Duration::from_secs(1), entries: 10_000 });
    for off in ["0", "0.0", r#""0""#, r#""0s""#] {
        let config = with(&format!(r#""denial_cache":{{"max_age":{off}}}"#)).unwrap();
        assert!(config.denial_cache.max_age.is_zero(), "{off}");
    }

    let leases = [("{}", 10_000), (r#"{"entries":5.0}"#, 5), (r#""off""#, 0), ("false", 0)];
    for (leases, entries) in leases {
        assert_eq!(with(&format!(r#""leases":{leases}"#)).unwrap().leases.entries, entries, "{leases}");
    }

    let config = rule(r#"{"checks":[{"policy":"p","key":[]}],"denied":{"status":503}}"#).unwrap();
    assert_eq!(checks(&config)[0].denied.as_ref().unwrap().status, 503);
}

#[test]
fn their_errors_name_field_and_place() {
    assert_messages([
        (with(r#""denied":{"status":500}"#), "denied.status: expected 429 or 503"),
        (with(r#""denied":{"status":"429"}"#), "denied.status: invalid type: string"),
        (with(r#""denied":{"boddy":""}"#), "denied.boddy: unknown field `boddy`"),
        (with(r#""denied":{"body":"{polcy}"}"#), "denied.body: there is no placeholder `{polcy}`"),
        (with(r#""denied":{"content_type":"text/html"}"#), "denied: `content_type` is that of `body`"),
        (with(r#""denied":{"body":"","content_type":"html"}"#), "denied.content_type: expected a media type"),
        (with(r#""denied":{"headers":{"x y":"a"}}"#), "denied.headers.x y: this is no header name"),
        (with(r#""denied":{"headers":{":status":"200"}}"#), "denied.headers.:status: this is no header name"),
        (with(r#""denied":{"headers":{"Retry-After":"1"}}"#), "denied.headers.Retry-After: `retry-after` is not for"),
        (with(r#""denied":{"headers":{"RateLimit":"1"}}"#), "denied.headers.RateLimit: `ratelimit` is not for"),
        (
            with(r#""denied":{"headers":{"Content-Type":"a/b"}}"#),
            "denied.headers.Content-Type: `content-type` has a field of its own",
        ),
        (with(r#""denied":{"headers":{"x-a":"a\nb"}}"#), "denied.headers.x-a: a header's value is made of printable"),
        (with(r#""denied":{"headers":{"x-a":"{b}"}}"#), "denied.headers.x-a: there is no placeholder `{b}`"),
        (with(r#""cors_preflight":"allow""#), "cors_preflight: unknown variant `allow`, expected `exempt` or `check`"),
        (with(r#""forward_headers":"yes""#), "forward_headers: invalid type: string \"yes\", expected a boolean"),
        (with(r#""denial_cache":{"age":"1s"}"#), "denial_cache.age: unknown field `age`"),
        (
            with(r#""denial_cache":{"max_age":"61s"}"#),
            "denial_cache.max_age: invalid value: string \"61s\", expected a",
        ),
        (
            with(r#""denial_cache":{"max_age":1}"#),
            "denial_cache.max_age: invalid value: integer `1`, expected a duration",
        ),
        (
            with(r#""denial_cache":{"entries":0}"#),
            "denial_cache.entries: invalid value: integer `0`, expected a whole number from 1 to 1000000",
        ),
        (
            with(r#""denial_cache":{"entries":1.5}"#),
            "denial_cache.entries: invalid value: floating point `1.5`, expected a whole number",
        ),
        (with(r#""leases":true"#), "leases: invalid value: boolean `true`, expected {\"entries\": number} or \"off\""),
        (with(r#""leases":"on""#), "leases: invalid value: string \"on\", expected"),
        (with(r#""leases":{"max":1}"#), "leases.max: unknown field `max`"),
        (
            with(r#""leases":{"entries":0}"#),
            "leases.entries: invalid value: integer `0`, expected a whole number from 1",
        ),
        (rule(r#"{"exempt":true,"denied":{}}"#), "rules[0]: an exempt rule denies nobody"),
        (
            rule(r#"{"checks":[{"policy":"p","key":[]}],"denied":{"status":1}}"#),
            "rules[0].denied.status: expected 429 or 503",
        ),
    ]);
}
