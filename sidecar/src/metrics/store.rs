//! What the store tells of itself, asked at each scrape.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::store::{Store, StoreState};

/// Reads a store's own numbers. They are counted where they arise; a copy of each here would be one too many.
#[derive(Debug)]
pub(super) struct StoreCollector(Store);

impl StoreCollector {
    pub(super) fn new(store: Store) -> Self {
        Self(store)
    }
}

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let is_up = ConstGauge::new(i64::from(self.0.state() == StoreState::Up));
        let help = "Whether the store can decide, as last seen";
        let metric = encoder.encode_descriptor("store_up", help, None, is_up.metric_type())?;
        is_up.encode(metric)?;

        let open = ConstGauge::new(i64::try_from(self.0.breakers_open()).unwrap_or(i64::MAX));
        let help = "Servers that are not asked, because they left several questions in a row unanswered";
        let metric = encoder.encode_descriptor("store_breaker_open", help, None, open.metric_type())?;
        open.encode(metric)?;

        let Some(stats) = self.0.stats() else { return Ok(()) };
        let failures = [
            ("timeout", &stats.timeouts),
            ("unreachable", &stats.unreachable),
            ("refused", &stats.refused),
            ("malformed", &stats.malformed),
            ("shed", &stats.shed),
            ("not_asked", &stats.not_asked),
        ];
        let kind = ConstCounter::new(0_u64).metric_type();
        let help = "Questions that the store did not decide, by the reason";
        let mut family = encoder.encode_descriptor("store_failures", help, None, kind)?;
        for (reason, counter) in failures {
            let labels = [("reason", reason)];
            ConstCounter::new(counter.get()).encode(family.encode_family(&labels)?)?;
        }
        let counters = [
            ("degraded_batches", "Batches that were decided without the store", &stats.degraded),
            ("store_connections", "Connections that were made to servers of the store", &stats.connections),
            ("store_script_loads", "Scripts that were loaded because a server had lost them", &stats.script_loads),
            ("store_redirects", "Redirects that were followed in a cluster", &stats.redirects),
        ];
        for (name, help, counter) in counters {
            let metric = encoder.encode_descriptor(name, help, None, kind)?;
            ConstCounter::new(counter.get()).encode(metric)?;
        }
        Ok(())
    }
}
