//! What of a configuration only a restart brings into force.

use super::Config;
use crate::store::{OnStoreError, StoreSettings};

impl Config {
    /// The fields, by their paths in the file, in which `later` differs from this one, except those that come into force
    /// without a restart: `policies`, and of `limits` all but `in_flight`.
    pub fn restart_needed(&self, later: &Self) -> Vec<&'static str> {
        // Whoever adds a field has to say here which kind it is.
        let Self { listen, admin, auth, tls, store, replicas, limits: _, policies: _ } = self;
        let StoreSettings { address, username, password_file, tls: store_tls, sentinel, timeout, in_flight, on_error } =
            store;
        let after = &later.store;
        let is_store_new = (address, username, password_file, store_tls, sentinel)
            != (&after.address, &after.username, &after.password_file, &after.tls, &after.sentinel);
        let (is_policy_new, is_share_new) = match (on_error, &after.on_error) {
            (OnStoreError::Local(before), OnStoreError::Local(after)) => (false, before != after),
            (before, after) => (before != after, false),
        };
        let are_replicas_new = *replicas != later.replicas;
        [
            ("listen", *listen != later.listen),
            ("admin.listen", *admin != later.admin),
            ("auth", *auth != later.auth),
            ("tls", *tls != later.tls),
            ("store", is_store_new),
            ("store_timeout", *timeout != after.timeout),
            ("on_store_error", is_policy_new),
            ("replicas", is_share_new && are_replicas_new),
            ("local_share", is_share_new && !are_replicas_new),
            ("limits.in_flight", *in_flight != after.in_flight),
        ]
        .into_iter()
        .filter_map(|(field, is_new)| is_new.then_some(field))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICIES: &str = "policies: {p: {algorithm: token_bucket, rate: 1/s}}";

    fn config(text: &str) -> Config {
        Config::parse(&format!("{text}\n{POLICIES}"), "x").unwrap()
    }

    #[test]
    fn each_field_is_told_by_its_name() {
        let table: [(&str, &str, &[&str]); 18] = [
            ("", "", &[]),
            ("", "listen: 127.0.0.1:8080", &[]),
            ("", "limits: {body_bytes: 9, batch_checks: 8, request_checks: 7, key_bytes: 6}", &[]),
            ("", "listen: 127.0.0.1:1", &["listen"]),
            ("", "admin: off", &["admin.listen"]),
            ("", "admin: {listen: 127.0.0.1:1}", &["admin.listen"]),
            ("", "auth: {token_file: x}", &["auth"]),
            ("", "tls: {cert_file: x, key_file: y}", &["tls"]),
            ("", "store: redis://h", &["store"]),
            ("store: redis://:a@h", "store: redis://:b@h", &["store"]),
            ("store: redis://h", "store: {url: redis://h, password_file: x}", &["store"]),
            ("", "store_timeout: 51ms", &["store_timeout"]),
            ("", "on_store_error: local", &["on_store_error"]),
            ("", "replicas: 2", &[]),
            ("on_store_error: local", "on_store_error: local\nreplicas: 2", &["replicas"]),
            ("on_store_error: local", "on_store_error: local\nlocal_share: 0.5", &["local_share"]),
            ("", "limits: {in_flight: 1}", &["limits.in_flight"]),
            ("", "listen: 127.0.0.1:1\nstore_timeout: 51ms", &["listen", "store_timeout"]),
        ];
        for (before, after, expected) in table {
            assert_eq!(config(before).restart_needed(&config(after)), expected, "{before:?} to {after:?}");
        }
        let more = Config::parse("policies: {p: {algorithm: token_bucket, rate: 2/s}}", "x").unwrap();
        assert!(config("").restart_needed(&more).is_empty());
    }
}
