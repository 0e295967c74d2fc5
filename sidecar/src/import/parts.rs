//! Where the filter finds what Envoy's actions put into descriptors. The file only has the names that they gave it.

use serde_json::{Value as Json, json};

/// What a descriptor's key stands for.
pub(super) enum Source {
    /// Something that is known to be the same.
    Known(Json),
    /// Something that is likely to be the same, with what to look at.
    Likely(Json, String),
    /// A text that Envoy's route configuration has, for requests that it knows.
    Literal,
}

/// By the key's name: actions have names of their own unless the route configuration gives them others.
pub(super) fn source(key: &str) -> Source {
    let header = |name: &str| {
        let todo = format!("the header of {key:?} is a guess: take what the request_headers action names");
        Source::Likely(json!({"header": name}), todo)
    };
    match key {
        // With IPv6, too, every address is a client of its own there.
        "remote_address" => Source::Known(json!({"client_ip": {"ipv6_prefix": 128}})),
        "masked_remote_address" => Source::Likely(
            json!({"client_ip": {"ipv4_prefix": 32, "ipv6_prefix": 128}}),
            "take the prefixes of the masked_remote_address action; keys have no /32 or /128 at their end".to_owned(),
        ),
        "destination_cluster" => Source::Likely(
            json!({"attribute": ["xds", "cluster_name"]}),
            "the cluster's name is known once the route is, so Sluice comes after filters that change it".to_owned(),
        ),
        "generic_key" | "header_match" | "query_match" | "source_cluster" => Source::Literal,
        "path" | "PATH" => header(":path"),
        "method" => header(":method"),
        "host" | "authority" => header(":authority"),
        _ => header(&header_name(key)),
    }
}

/// `user_id` is written for `user-id` as a rule: proxies drop headers with underscores.
fn header_name(key: &str) -> String {
    if [":path", ":method", ":authority", ":scheme"].contains(&key) {
        return key.to_owned();
    }
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '.';
    key.chars().map(|char| if is_allowed(char) { char.to_ascii_lowercase() } else { '-' }).collect()
}

/// What a rule for such a literal is to be narrowed to.
pub(super) fn hint(key: &str) -> &'static str {
    match key {
        "header_match" => "the headers of its header_value_match",
        "query_match" => "the parameters of its query_parameter_value_match",
        "source_cluster" => "the requests that this Envoy's own cluster sends",
        _ => "the routes that have it",
    }
}
