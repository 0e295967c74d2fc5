//! Headers that only this filter, or Envoy in its place, may set on a request: a client's copies are removed.

/// The names, but for those of [`PREFIXES`].
const NAMES: [&str; 3] = ["ratelimit", "ratelimit-policy", "x-envoy-ratelimited"];
const PREFIXES: [&str; 2] = ["x-ratelimit-", "x-sluice-"];

/// What upstreams are told of an allowed request: the policy, and how much of it is left.
pub const POLICY: &str = "x-sluice-policy";
/// See [`POLICY`].
pub const REMAINING: &str = "x-sluice-remaining";

/// Whether a name, in lower case, is one of ours.
pub fn is_ours(name: &str) -> bool {
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::{POLICY, REMAINING, is_ours};
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn ours_are_told_from_others() {
        for name in [POLICY, REMAINING, "x-sluice-", "ratelimit", "ratelimit-policy", "x-ratelimit-limit"] {
            assert!(is_ours(name), "{name}");
        }
        for name in
            ["", "x-sluice", "ratelimit-x", "x-ratelimit", "x-rate-limit", "retry-after", ":path", "x-xsluice-a"]
        {
            assert!(!is_ours(name), "{name}");
        }
    }
}
