//! The charge was made, and nobody was told. It is made once: a question is never put again.

use std::time::Duration;

use serde_json::json;

use super::{Ground, KEY, LIMIT, Undecided};
use crate::support::{Envoy, EnvoyOptions, Fault, Proxy, assert_invariants, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn redis_has_decided_and_its_reply_is_lost() {
    for close in [false, true] {
        let mut ground = Ground::start().await;
        ground.proxy.set(Fault::LoseReply { from: KEY, close }).await;
        while ground.proxy.lost() < 3 {
            let before = ground.proxy.lost();
            let answer = ground.watched.take().await;
            assert_eq!(answer.status, 503, "{answer:?}");
            // None is what a sidecar that is connecting again may do; two would be a question put again.
            assert!(ground.proxy.lost() - before <= 1, "the question was put again");
            if ground.proxy.lost() == before {
                tokio::time::sleep(Duration::from_millis(10)).await;
            } else if !close {
                // Its connection says nothing any more, and the next question would find it.
                ground.proxy.reset_open();
            }
        }
        ground.proxy.set(Fault::None).await;
        ground.watched.assert_recovers().await;
        ground.end(Undecided::Charged(3), &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reply_to_loading_the_script_is_lost() {
    let mut ground = Ground::start().await;
    ground.proxy.set(Fault::LoseReply { from: "LOAD", close: true }).await;
    while ground.proxy.lost() < 5 {
        let _: () = ground.redis.command(&["SCRIPT", "FLUSH"]);
        ground.watched.take().await;
    }
    ground.proxy.set(Fault::None).await;
    ground.watched.assert_recovers().await;
    ground.end(Undecided::PerhapsCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_has_decided_and_its_reply_is_lost() {
    for (close, on_error) in [(false, "allow"), (true, "deny"), (true, "allow"), (false, "deny")] {
        let ground = Ground::start().await;
        let proxy = Proxy::start(ground.watched.sidecar.port()).await;
        let plugin = json!({
            "sidecar": {"cluster": "sluice", "timeout": "200ms"},
            "on_error": on_error,
            "rules": [{"checks": [{"policy": "any", "key": [{"header": "x-tenant-id"}]}]}],
        });
        let sidecars = vec![proxy.port()];
        let envoy = Envoy::start(&EnvoyOptions { plugin, sidecars, ..EnvoyOptions::default() }).await;
        let get = async || envoy.get("/", &[("x-tenant-id", "b")]).await;
        eventually("requests are decided", async || get().await.headers.contains_key("ratelimit").then_some(())).await;
        let before = ground.watched.sidecar.remaining("any", "b").await;

        proxy.set(Fault::LoseReply { from: "POST /v1/check", close }).await;
        let answer = get().await;
        assert_eq!(answer.status, if on_error == "allow" { 200 } else { 503 }, "{answer:?}");
        assert!(!answer.headers.contains_key("ratelimit"), "{answer:?}");
        assert_eq!(proxy.lost(), 1, "the question was put once");
        assert_eq!(ground.watched.sidecar.remaining("any", "b").await, before - 1, "and charged once, of {LIMIT}");

        proxy.set(Fault::None).await;
        eventually("requests are decided", async || get().await.headers.contains_key("ratelimit").then_some(())).await;
        assert_invariants(&ground.redis, &mut [envoy], &[ground.watched.sidecar.process.log()], &[]).await;
    }
}
