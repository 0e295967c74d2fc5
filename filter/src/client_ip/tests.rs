use std::net::IpAddr;

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::{ClientIpSettings, Trust, parse};

fn with(trust: Trust) -> ClientIpSettings {
    ClientIpSettings { trust: Some(trust), ..ClientIpSettings::default() }
}

fn cidrs(blocks: &[&str]) -> ClientIpSettings {
    with(Trust::Cidrs(blocks.iter().map(|block| block.parse().unwrap()).collect()))
}

fn resolve(settings: &ClientIpSettings, peer: &str, lines: &[&str]) -> String {
    let ip = settings.resolve(Some(peer.as_bytes()), lines.iter().map(|line| line.as_bytes()));
    ip.map_or_else(|| "none".to_owned(), |ip| ip.to_string())
}

#[test]
fn addresses_are_read_in_all_their_spellings() {
    let table: [(&str, Option<&str>); 24] = [
        ("192.0.2.1", Some("192.0.2.1")),
        ("192.0.2.1:4711", Some("192.0.2.1")),
        ("2001:db8::1", Some("2001:db8::1")),
        ("2001:DB8:0:0::0001", Some("2001:db8::1")),
        ("[2001:db8::1]", Some("2001:db8::1")),
        ("[2001:db8::1]:443", Some("2001:db8::1")),
        ("fe80::1%eth0", Some("fe80::1")),
        ("[fe80::1%eth0]:80", Some("fe80::1")),
        ("[fe80::1%25eth0]", Some("fe80::1")),
        ("::ffff:192.0.2.1", Some("192.0.2.1")),
        ("[::ffff:c000:201]:80", Some("192.0.2.1")),
        ("", None),
        ("unknown", None),
        ("_hidden", None),
        ("192.0.2", None),
        ("192.0.2.256", None),
        ("192.0.2.1:", None),
        ("192.0.2.1:x", None),
        ("192.0.2.1:65536", None),
        ("192.0.2.01", None),
        ("[192.0.2.1", None),
        ("/run/envoy.sock", None),
        ("%", None),
        ("[%]", None),
    ];
    for (text, ip) in table {
        assert_eq!(parse(text.as_bytes()), ip.map(|ip| ip.parse::<IpAddr>().unwrap()), "{text}");
    }
    assert_eq!(parse(b"192.0.2.1\xff"), None);
}

#[test]
fn hops_are_counted_from_the_right_over_all_lines() {
    let table: [(usize, &[&str], &str); 13] = [
        (1, &["192.0.2.1"], "192.0.2.1"),
        (1, &["203.0.113.9, 192.0.2.1"], "192.0.2.1"),
        (2, &["203.0.113.9, 192.0.2.1"], "203.0.113.9"),
        (2, &["203.0.113.9", "192.0.2.1"], "203.0.113.9"),
        (1, &["203.0.113.9", "192.0.2.1"], "192.0.2.1"),
        (3, &["198.51.100.7 , 203.0.113.9", "192.0.2.1"], "198.51.100.7"),
        // Fewer than there should be: somebody came another way.
        (3, &["203.0.113.9, 192.0.2.1"], "10.0.0.1"),
        (1, &[], "10.0.0.1"),
        (1, &["", " , ,"], "10.0.0.1"),
        (2, &["203.0.113.9,,\t192.0.2.1,", ""], "203.0.113.9"),
        (2, &["garbage, 192.0.2.1"], "10.0.0.1"),
        (1, &["garbage, [2001:DB8::1]:99"], "2001:db8::1"),
        (usize::MAX, &["192.0.2.1"], "10.0.0.1"),
    ];
    for (hops, lines, client) in table {
        assert_eq!(resolve(&with(Trust::Hops(hops)), "10.0.0.1:99", lines), client, "{hops} {lines:?}");
    }
}

#[test]
fn trusted_proxies_are_walked_past() {
    let settings = cidrs(&["10.0.0.0/8", "2001:db8:1::/48", "192.0.2.7"]);
    let table: [(&str, &[&str], &str); 13] = [
        ("10.0.0.1:99", &["203.0.113.9"], "203.0.113.9"),
        // Anybody can write a header: without a trusted peer it is nothing.
        ("198.51.100.7:99", &["203.0.113.9"], "198.51.100.7"),
        ("10.0.0.1:99", &["203.0.113.9, 198.51.100.7, 10.2.2.2"], "198.51.100.7"),
        ("10.0.0.1:99", &["203.0.113.9, 10.3.3.3", "192.0.2.7,10.2.2.2"], "203.0.113.9"),
        ("[2001:db8:1::5]:99", &["203.0.113.9, [2001:db8:1::6]:80"], "203.0.113.9"),
        ("[::ffff:10.0.0.1]:99", &["203.0.113.9, ::ffff:10.2.2.2"], "203.0.113.9"),
        // Envoy has added its peer already.
        ("10.0.0.1:99", &["203.0.113.9, 10.0.0.1"], "203.0.113.9"),
        ("10.0.0.1:99", &[], "10.0.0.1"),
        ("10.0.0.1:99", &["10.9.9.9, 10.8.8.8"], "10.9.9.9"),
        ("10.0.0.1:99", &["203.0.113.9, garbage"], "10.0.0.1"),
        ("10.0.0.1:99", &["garbage, 203.0.113.9"], "203.0.113.9"),
        ("@pipe", &["203.0.113.9"], "none"),
        ("192.0.2.8:1", &["203.0.113.9"], "192.0.2.8"),
    ];
    for (peer, lines, client) in table {
        assert_eq!(resolve(&settings, peer, lines), client, "{peer} {lines:?}");
    }
}

#[test]
fn nobody_is_believed_by_default() {
    assert_eq!(resolve(&ClientIpSettings::default(), "192.0.2.1:1", &["203.0.113.9"]), "192.0.2.1");
    assert_eq!(ClientIpSettings::default().resolve(None, std::iter::empty()), None);
}

#[test]
fn a_network_is_one_client() {
    let group = |settings: &ClientIpSettings, ip: &str| settings.group(ip.parse().unwrap()).to_string();
    let default = ClientIpSettings::default();
    assert_eq!(group(&default, "192.0.2.1"), "192.0.2.1");
    assert_eq!(group(&default, "2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
    let wide = ClientIpSettings { ipv4_prefix: Some(24), ipv6_prefix: Some(48), ..default.clone() };
    assert_eq!(group(&wide, "192.0.2.1"), "192.0.2.0/24");
    assert_eq!(group(&wide, "2001:db8:1:2:3:4:5:6"), "2001:db8:1::/48");
    let single = ClientIpSettings { ipv6_prefix: Some(128), ..default };
    assert_eq!(group(&single, "2001:db8:1:2:3:4:5:6"), "2001:db8:1:2:3:4:5:6");
    assert_eq!(group(&single.or(&wide), "192.0.2.1"), "192.0.2.0/24");
}
