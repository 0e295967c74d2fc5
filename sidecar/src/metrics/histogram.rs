//! A histogram that can be read: that of the client library tells its buckets only to its encoder.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Counts by upper bound. Clones share them.
#[derive(Debug, Clone)]
pub struct Histogram(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bounds: &'static [f64],
    /// One for each bound, and one for what is above all of them.
    counts: Vec<AtomicU64>,
    /// The bits of a number.
    sum: AtomicU64,
}

impl Histogram {
    /// With these upper bounds, in rising order, each inclusive.
    pub fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Inner { bounds, counts, sum: AtomicU64::new(0.0_f64.to_bits()) }))
    }

    /// Counts a value.
    pub fn observe(&self, value: f64) {
        let Inner { bounds, counts, sum } = &*self.0;
        let bucket = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
        if let Some(count) = counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // It never refuses, so that it can't fail.
        let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// The upper bounds. The last count has none.
    pub fn bounds(&self) -> &'static [f64] {
        self.0.bounds
    }

    /// How many values were in each bucket, those in the ones before not among them; one more than there are bounds.
    pub fn counts(&self) -> Vec<u64> {
        self.0.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.counts();
        let sum = f64::from_bits(self.0.sum.load(Ordering::Relaxed));
        // The encoder takes the largest number for infinity.
        let bounds = self.0.bounds.iter().copied().chain([f64::MAX]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts.iter().copied()).collect();
        encoder.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::prometheus_text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn values_are_counted_up_to_and_with_their_bound() {
        let histogram = Histogram::new(&[0.5, 1.0]);
        for value in [0.0, 0.5, 0.75, 1.0, 1.5, 7.0] {
            histogram.observe(value);
        }
        assert_eq!(histogram.counts(), [2, 2, 2]);
        let mut registry = Registry::default();
        registry.register("h", "Help", histogram);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in
            [r#"h_bucket{le="0.5"} 2"#, r#"h_bucket{le="1"} 4"#, r#"h_bucket{le="+Inf"} 6"#, "h_sum 10.75", "h_count 6"]
        {
            assert!(text.lines().any(|found| found == line), "no {line} in {text}");
        }
    }
}
