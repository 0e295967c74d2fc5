//! All seeds and some mutations of each, the same in every run.

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// Where the numbers come from. Any other would do.
const SEED: u64 = 0x51_1CE;

type Seeds = &'static [(&'static str, &'static [u8])];

/// Files are part of the test: under Node there are none.
macro_rules! seeds {
    ($target:literal: $($name:literal)*) => {
        &[$(($name, include_bytes!(concat!("../../../fuzz/seeds/", $target, "/", $name)))),*]
    };
}

const CONFIG: Seeds = seeds!("config": "bytes" "keys" "least" "line_breaks" "line_breaks_deeper" "matches" "nested" "nested_not" "numbers" "places" "settings" "struct" "yaml");
const ANSWER: Seeds = seeds!("answer": "all_kinds" "both" "bytes" "denied_by_nobody" "largest" "names" "nested" "never" "newer" "too_few" "too_many_checks");
const PATH: Seeds = seeds!("path": "as_sent" "deep" "dots" "escapes" "last_slash_kept" "overlong" "params" "query" "slashes" "slashes_kept" "spaces" "star");
const CLIENT_IP: Seeds = seeds!("client_ip": "bytes" "hops" "list" "long" "mapped" "odd" "pipe" "zones");
const JWT: Seeds = seeds!("jwt": "bytes" "four_parts" "huge_number" "nested" "not_an_object" "numbers" "other_bits" "padded" "payload" "plain" "standard_alphabet" "trailing_bits" "truth");
const TRACE: Seeds = seeds!("trace": "b3" "bytes" "later" "multi" "traceparent" "twice");
const ENCODE: Seeds = seeds!("encode": "bytes" "controls" "cut" "escapes" "long" "missing" "text");

#[test]
fn configurations() {
    run("config", super::config, CONFIG, 300);
}

#[test]
fn answers() {
    run("answer", super::answer, ANSWER, 150);
}

#[test]
fn paths() {
    run("path", super::path, PATH, 1000);
}

#[test]
fn client_addresses() {
    run("client_ip", super::client_ip, CLIENT_IP, 1000);
}

#[test]
fn claims() {
    run("jwt", super::jwt, JWT, 500);
}

#[test]
fn traces() {
    run("trace", super::trace, TRACE, 1000);
}

#[test]
fn key_parts() {
    run("encode", super::encode, ENCODE, 1000);
}

/// A forgotten file is a seed that only `cargo fuzz` sees.
#[cfg(not(target_arch = "wasm32"))] // there are no files under Node
#[test]
fn every_seed_is_listed() {
    let targets = [
        ("config", CONFIG),
        ("answer", ANSWER),
        ("path", PATH),
        ("client_ip", CLIENT_IP),
        ("jwt", JWT),
        ("encode", ENCODE),
        ("trace", TRACE),
    ];
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), targets.len());
    for (target, seeds) in targets {
        let files = std::fs::read_dir(format!("{folder}/{target}")).unwrap();
        let mut files: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        let listed: Vec<&str> = seeds.iter().map(|(name, _)| *name).collect();
        assert_eq!(files, listed, "{target}");
    }
}

/// Runs a target. Its last input stays written down if it panics.
fn run(target: &str, check: fn(&[u8]), seeds: Seeds, mutations: u32) {
    struct Input(String);
    impl Drop for Input {
        fn drop(&mut self) {
            if std::thread::panicking() {
                println!("{}", self.0);
            }
        }
    }
    println!("seed {SEED:#x}");
    let mut random = Random(SEED);
    for (name, seed) in seeds {
        let mut last = Input(format!("{target}/{name}"));
        check(seed);
        for number in 0..mutations {
            let input = mutated(seed, seeds, &mut random);
            last.0 = format!("{target}/{name}, mutation {number}: b\"{}\"", input.escape_ascii());
            check(&input);
        }
    }
}

/// One to four changes.
fn mutated(seed: &[u8], seeds: Seeds, random: &mut Random) -> Vec<u8> {
    /// What parsers stumble over.
    const ODD: &[&[u8]] = &[
        b"%",
        b"/",
        b"..",
        b".",
        b";",
        b",",
        b"\n",
        b"\0",
        b"\xc0\xa7",
        b"\xa1\xb1",
        b"%2e",
        b"%2F",
        b"%25",
        b"[",
        b"]",
        b":",
        b"{",
        b"}",
        b"\"",
        b"\\u000a",
        b"=",
        b"-",
        b"1e999",
        b"18446744073709551616",
        b"null",
        b"?",
    ];
    let mut input = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        let end = at + random.below((input.len() - at).min(32) + 1);
        match random.below(6) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 => input.truncate(at),
            2 => drop(input.drain(at..end)),
            3 => {
                let piece = input[at..end].to_vec();
                input.splice(at..at, piece);
            }
            4 => {
                let (_, other) = seeds[random.below(seeds.len())];
                let from = random.below(other.len() + 1);
                input.splice(at..end, other[from..].iter().take(64).copied());
            }
            _ => drop(input.splice(at..at, ODD[random.below(ODD.len())].iter().copied())),
        }
    }
    input
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    /// A number below `limit`, which is not 0.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % limit as u64).unwrap()
    }
}
