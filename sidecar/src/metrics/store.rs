//! What the store tells of itself, asked at each scrape.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
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
        let metric =
            encoder.encode_descriptor("store_up", "Whether the store answered last time", None, is_up.metric_type())?;
        is_up.encode(metric)
    }
}
