//! The text format of Prometheus, as far as tests read it.

use std::collections::BTreeMap;

use super::Answer;

/// Values by series, such as `sluice_requests_total{outcome="allowed"}`.
#[derive(Debug, PartialEq)]
pub struct Metrics(pub BTreeMap<String, f64>);

impl Metrics {
    pub fn read(answer: &Answer) -> Self {
        assert!(answer.is_allowed(), "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        let text = std::str::from_utf8(&answer.body).unwrap();
        let mut series = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            let is_new = series.insert(name.to_owned(), value.parse().unwrap()).is_none();
            assert!(is_new, "{name} is there twice");
        }
        Self(series)
    }

    /// The value of a series. One that is not there fails the test: a misspelt name is not 0.
    pub fn get(&self, series: &str) -> f64 {
        *self.0.get(series).unwrap_or_else(|| panic!("no {series} in {self:#?}"))
    }

    /// The value of a counter.
    pub fn count(&self, series: &str) -> u64 {
        self.get(series).to_string().parse().unwrap()
    }

    /// The names of all series.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}
