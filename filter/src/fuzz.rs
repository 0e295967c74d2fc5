//! Entry points for fuzzing: one function for each parser of bytes that others choose, which panics if a property
//! does not hold. Only in tests and with the feature `fuzzing`: the plugin has none of it.
//!
//! `make test` runs them on the seeds in `fuzz/seeds` and on some mutations of these, `cargo fuzz` for as long as wanted.

// A property that does not hold is a panic here, as it is in a test.
#![allow(clippy::missing_panics_doc, clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::batch::State;
use crate::client_ip::{ClientIpSettings, Trust};
use crate::config::Config;
use crate::host::fake::{Did, FakeHost};
use crate::keys::{encode, jwt};
use crate::metrics::Metric;
use crate::path::{self, PathMatch, PathSettings, Template};
use crate::trace::TraceContext;
use crate::worker::{CallAnswer, Start, Worker};

#[cfg(test)]
mod tests;

/// The plugin's configuration: an error is one line, and what is accepted can be used. The bytes are the
/// configuration.
pub fn config(data: &[u8]) {
    let config = match Config::parse(data) {
        Ok(config) => config,
        Err(error) => return is_one_line(&error.to_string()),
    };
    assert!(!config.rules.is_empty(), "no rules");
    assert!(!config.sidecar.timeout.is_zero(), "no timeout");
    for (path, policy) in config.policies() {
        assert!(path.starts_with("rules[") && !policy.is_empty(), "{path}: {policy:?}");
    }
    let host = request("a");
    Worker::new(config).request(&host, 1);
    host.warnings.borrow().iter().for_each(|line| is_one_line(line));
}

/// The headers of a trace: what is taken is a sampled trace, is told in one form, and is read from that again. The bytes
/// are lines of a name and a value, between which is a space.
pub fn trace(data: &[u8]) {
    let headers = data.split(|byte| *byte == b'\n').filter_map(|line| {
        let at = line.iter().position(|byte| *byte == b' ')?;
        Some((String::from_utf8_lossy(&line[..at]).into_owned(), line[at + 1..].to_vec()))
    });
    let Some(trace) = TraceContext::of_request(&headers.collect::<Vec<_>>()) else { return };
    let text = trace.to_string();
    assert!(trace.is_sampled && text.len() == 55, "{text}");
    assert!(text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-')), "{text}");
    assert_eq!(TraceContext::parse(text.as_bytes()), Some(trace));
}

/// The sidecar's answer to three requests with one check each: each request ends once, whatever the answer is, and
/// nothing of it can break a header or a log line apart. The bytes are the answer's body.
pub fn answer(data: &[u8]) {
    let config = br#"{"sidecar":{"cluster":"s"},"headers":["ietf","x-ratelimit"],"forward_headers":true,
        "rules":[{"checks":[{"policy":"p","key":[{"header":"x-id"}]}]}]}"#;
    let mut worker = Worker::new(Config::parse(config).unwrap());
    let host = request("a");
    let mut slots = Vec::new();
    for (context, id) in [(1, "a"), (2, "b"), (3, "c")] {
        host.set_headers(&[(":path", b"/"), ("x-id", id.as_bytes())]);
        let Start::Wait(slot) = worker.request(&host, context) else { panic!("nothing was known, nothing was wrong") };
        slots.push(slot);
    }
    worker.wake_up(&host);
    worker.answered(&host, host.tokens.get(), Some(CallAnswer { status: 200, body: data.to_vec() }));

    let did = host.did.take();
    for (context, slot) in (1..).zip(&slots) {
        let ends = did.iter().filter(|did| matches!(did, Did::Resume(of) | Did::Reply(of, _) if *of == context));
        assert_eq!(ends.count(), 1, "request {context}: {did:?}");
        match &slot.borrow().state {
            State::Waiting => panic!("request {context} waits for ever"),
            State::Resumed(fields) => fields.iter().for_each(|(_, value)| is_a_header(value)),
            State::Answered => {}
        }
    }
    for did in &did {
        if let Did::Reply(_, reply) = did {
            reply.headers.iter().for_each(|(_, value)| is_a_header(value));
            serde_json::from_str::<Value>(&reply.body).unwrap();
        }
    }
    assert_eq!(host.counted(Metric::Pending), 0);
    host.put.borrow().iter().for_each(|(_, _, value)| is_a_header(value));
    host.properties.borrow().values().for_each(|value| is_one_line(value));
    host.warnings.borrow().iter().for_each(|line| is_one_line(line));

    // What was remembered of it answers the same requests: denials for a second at most, leases for a minute.
    for later in [0, 1, 999, 1000, u64::MAX] {
        host.now.set(Duration::from_millis(later));
        host.set_headers(&[(":path", b"/"), ("x-id", b"a")]);
        let start = worker.request(&host, 4);
        let is_due = match start {
            Start::Stop => later < 1000,
            Start::Go(_) => later < 60_000,
            Start::Pass | Start::Wait(_) => true,
        };
        assert!(is_due, "decided from memory after {later} ms");
    }
}

/// The normaliser of paths. The first byte chooses the settings, the others are the path.
pub fn path(data: &[u8]) {
    let Some((&choice, raw)) = data.split_first() else { return };
    // Turned off by their bits, so that text begins with what is usual: `@` and the letters behind it.
    let on = |bit: u32| choice & (1 << bit) == 0;
    let settings =
        PathSettings { decode: on(0), merge_slashes: on(1), dot_segments: on(2), trailing_slash: on(3), params: on(4) };
    path::query(raw);
    let sent = path::without_query(raw);
    let normal = settings.normalize(raw);
    let show = || format!("{settings:?}: {} became {}", raw.escape_ascii(), normal.escape_ascii());
    assert_eq!(settings.normalize(&normal), normal, "a second time: {}", show());
    if !raw.starts_with(b"/") {
        assert_eq!(normal.as_ref(), sent);
        return;
    }
    let escaped = sent.iter().filter(|byte| settings.decode && (!byte.is_ascii_graphic() || **byte == b'%')).count();
    assert!(normal.len() <= sent.len() + 2 * escaped, "longer: {}", show());
    assert!(normal.starts_with(b"/") && !normal.contains(&b'?') && !normal.contains(&b'#'), "{}", show());
    let mut segments = normal[1..].split(|&byte| byte == b'/');
    if settings.dot_segments {
        assert!(segments.clone().all(|segment| segment != b"." && segment != b".."), "dots: {}", show());
    }
    if settings.merge_slashes {
        assert!(!normal.windows(2).any(|pair| pair == b"//"), "slashes: {}", show());
    }
    if settings.trailing_slash {
        assert!(normal.len() == 1 || segments.next_back() != Some(b""), "last slash: {}", show());
    }
    if settings.params {
        assert!(!normal.contains(&b';'), "parameters: {}", show());
    }
    if settings.decode {
        assert!(normal.iter().all(u8::is_ascii_graphic), "{}", show());
        let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        assert!(escapes(&normal).all(|byte| byte.is_some_and(|byte| !unreserved(byte))), "escapes: {}", show());
        respelt(settings, sent, &normal);
    }
    Template::parse("/{a}/...").unwrap().values(&normal);
    // A rule for a path matches the requests for it.
    if let Ok(rule) = str::from_utf8(sent).map(|path| PathMatch::exact(path.to_owned()).unwrap()) {
        assert!(rule.respell(settings).unwrap().matches(&normal), "its rule: {}", show());
    }
}

/// No byte that may be escaped makes a difference by being so.
fn respelt(settings: PathSettings, sent: &[u8], normal: &[u8]) {
    if sent.contains(&b'%') {
        return;
    }
    let mut respelt = Vec::with_capacity(3 * sent.len());
    for &byte in sent {
        if b"/;".contains(&byte)
            || (byte.is_ascii_graphic() && !(byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)))
        {
            respelt.push(byte);
        } else {
            respelt.extend(format!("%{byte:02x}").bytes());
        }
    }
    let again = settings.normalize(&respelt);
    assert_eq!(again, normal, "{} is not {}", respelt.escape_ascii(), sent.escape_ascii());
}

/// The finder of client addresses. The first byte chooses whom to believe; then come lines, the peer's address before
/// those of `x-forwarded-for`.
pub fn client_ip(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let blocks = ["10.0.0.0/8", "192.0.2.7", "2001:db8:1::/48", "fe80::/10", "::ffff:198.51.100.0/120"];
    let trusted: Vec<crate::cidr::Cidr> = blocks.iter().map(|block| block.parse().unwrap()).collect();
    let trust = match choice % 8 {
        0 => Trust::Peer,
        1 => Trust::Cidrs(trusted.clone()),
        hops => Trust::Hops(usize::from(hops) - 1),
    };
    let mut lines = rest.split(|&byte| byte == b'\n');
    let peer = lines.next();
    let lines: Vec<&[u8]> = lines.collect();
    let settings = ClientIpSettings { trust: Some(trust.clone()), ..ClientIpSettings::default() };
    let resolve = |lines: &[&[u8]]| settings.resolve(peer, lines.iter().copied());
    let found = resolve(&lines);

    let only = |peer, entry: Option<&[u8]>| {
        let trust = Some(if entry.is_some() { Trust::Hops(1) } else { Trust::Peer });
        ClientIpSettings { trust, ..ClientIpSettings::default() }.resolve(peer, entry.into_iter())
    };
    let peer_address = only(peer, None);
    let entries = || lines.iter().flat_map(|line| line.split(|&byte| byte == b','));
    let Some(found) = found else {
        return assert_eq!(peer_address, None, "a peer and no client");
    };
    assert_eq!(found, found.to_canonical());
    assert_eq!(found.to_string().parse::<IpAddr>().as_ref(), Ok(&found));
    let is_peer = peer_address == Some(found);
    assert!(is_peer || entries().any(|entry| only(None, Some(entry)) == Some(found)), "{found} is nowhere");
    assert!(is_peer || trust != Trust::Peer, "nobody is believed");
    assert!(settings.group(found).contains(found));

    // What is written further left, by whomever, changes nothing once the client is found.
    let count = entries().filter(|entry| !entry.trim_ascii().is_empty()).count();
    let is_settled = match &trust {
        Trust::Peer => true,
        Trust::Hops(hops) => count >= *hops,
        Trust::Cidrs(_) => !trusted.iter().any(|block| block.contains(found)),
    };
    if is_settled {
        for forged in ["203.0.113.66", "10.6.6.6", ",,", "x"] {
            let more = [&[forged.as_bytes()], lines.as_slice()].concat();
            assert_eq!(resolve(&more), Some(found), "{forged} in a line before is believed");
            let Some((first, others)) = lines.split_first() else { continue };
            let longer = [forged.as_bytes(), b",", first].concat();
            let more = [&[longer.as_slice()], others].concat();
            assert_eq!(resolve(&more), Some(found), "{forged} on the left is believed");
        }
    }
}

/// The reader of claims of tokens that nobody verified. The bytes are the `authorization` header; then they are a
/// payload, and then a claim.
pub fn jwt(data: &[u8]) {
    let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for names in [&["sub"][..], &["o", "p"]] {
        if let Some(claim) = unverified(data, &path(names)) {
            let payload = data[7..].trim_ascii().split(|&byte| byte == b'.').nth(1).expect("no payload");
            let payload: Value = serde_json::from_slice(&base64url(payload).expect("no base64url")).expect("no JSON");
            let value = names.iter().fold(&payload, |value, name| &value[name]);
            assert!(text_of(value).as_ref() == Some(&claim), "{claim:?} is not {value}");
        }
    }
    let token = |payload: &[u8]| {
        use base64::Engine;
        let payload = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(payload);
        format!("bearer .{payload}.").into_bytes()
    };
    let is_short = |token: &[u8]| token.len() <= jwt::MAX_TOKEN;
    let sent = token(data);
    let claim = unverified(&sent, &path(&["sub"]));
    let there = serde_json::from_slice::<Map<String, Value>>(data).ok().and_then(|claims| text_of(claims.get("sub")?));
    assert!(!is_short(&sent) || claim == there, "{claim:?} is not {there:?}");

    let text = String::from_utf8_lossy(data);
    let sent = token(json!({"o": {"p": text}, "other": text}).to_string().as_bytes());
    if is_short(&sent) {
        assert_eq!(unverified(&sent, &path(&["o", "p"])).as_deref(), Some(text.as_ref()));
        assert_eq!(unverified(&sent, &path(&["sub"])), None);
    }
}

fn unverified(authorization: &[u8], path: &[String]) -> Option<String> {
    jwt::claim(&jwt::claims(authorization)?, path)
}

fn text_of(claim: &Value) -> Option<String> {
    match claim {
        Value::Array(list) if list.len() == 1 && !list[0].is_array() => text_of(&list[0]),
        Value::String(text) => Some(text.clone()),
        Value::Bool(true) => Some("true".to_owned()),
        Value::Bool(false) => Some("false".to_owned()),
        Value::Number(number) => Some(number.as_f64()?.to_string()),
        _ => None,
    }
}

/// base64url by its definition: six bits a letter, what is left over is zero.
fn base64url(text: &[u8]) -> Option<Vec<u8>> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for letter in text.strip_suffix(b"==").or(text.strip_suffix(b"=")).unwrap_or(text) {
        let six = LETTERS.iter().position(|known| known == letter)?;
        bits = bits << 6 | u32::try_from(six).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
            bits &= (1 << count) - 1;
        }
    }
    (count < 6 && bits == 0).then_some(bytes)
}

/// The encoder of key parts. The first byte says where the others are split: both values are encoded, and the whole.
pub fn encode(data: &[u8]) {
    let Some((&at, rest)) = data.split_first() else { return };
    let (one, two) = rest.split_at(rest.len().min(at.into()));
    let parts = [rest, one, two].map(|raw| (raw, encode::part(raw)));
    for (raw, part) in &parts {
        assert!(!part.chars().any(char::is_control), "{part:?}");
        if let Some(digest) = part.strip_prefix("%sha256:") {
            assert!(raw.len() > encode::MAX_PART && digest.len() == 64, "{part}");
            assert!(digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{part}");
        } else {
            assert!(raw.len() <= encode::MAX_PART && escapes(part.as_bytes()).all(|byte| byte.is_some()), "{part}");
            assert!(decode(part.as_bytes()) == *raw, "{part} is another value");
        }
    }
    for (raw, part) in &parts {
        let same = parts.iter().filter(|(_, other)| other == part);
        assert!(same.clone().all(|(other, _)| other == raw), "{part} is two values");
    }
}

/// What stands behind each `%`: a byte in upper-case hexadecimal, or `None`.
fn escapes(text: &[u8]) -> impl Iterator<Item = Option<u8>> {
    text.split(|&byte| byte == b'%').skip(1).map(|rest| {
        let digits = rest.get(..2)?;
        let are_digits = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'A'..=b'F'));
        are_digits.then(|| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok())?
    })
}

fn decode(text: &[u8]) -> Vec<u8> {
    let mut pieces = text.split(|&byte| byte == b'%');
    let mut raw = pieces.next().unwrap_or_default().to_vec();
    for (byte, piece) in escapes(text).zip(pieces) {
        raw.push(byte.unwrap());
        raw.extend_from_slice(&piece[2..]);
    }
    raw
}

fn request(id: &str) -> FakeHost {
    let host = FakeHost::with(&[
        (":path", b"/users/7;v=1/../%c0%a7?q=a&q=b"),
        (":method", b"GET"),
        (":authority", b"Api.Example.:443"),
        ("x-id", id.as_bytes()),
        ("cookie", b"a=b; c"),
        ("authorization", b"Bearer e30.eyJzdWIiOiJhIn0.c2ln"),
        ("x-forwarded-for", b"203.0.113.9, 10.0.0.7"),
    ]);
    *host.source.borrow_mut() = Some(b"10.0.0.1:4711".to_vec());
    host
}

fn is_one_line(text: &str) {
    assert!(!text.is_empty() && !text.chars().any(char::is_control), "no line: {text:?}");
}

fn is_a_header(value: &str) {
    assert!(value.chars().all(|char| matches!(char, ' '..='~')), "no header: {value:?}");
}
