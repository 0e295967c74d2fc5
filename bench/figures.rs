//! What is measured, and how runs become one number.

use std::collections::BTreeMap;

use serde::Serialize;

/// One kind of number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    RequestsPerSecond,
    P50Us,
    P99Us,
    /// CPU microseconds per request.
    EnvoyCpuUs,
    SidecarCpuUs,
    RedisCpuUs,
    /// Per request.
    Callouts,
    /// Script runs in Redis per request.
    Scripts,
    /// Redis commands per request, those inside scripts included.
    Commands,
}

/// The figures of one run, or of several.
pub type Figures = BTreeMap<Figure, f64>;

/// The middle one; of an even number the mean of the two in the middle. NaN of none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match (values.get(values.len().wrapping_sub(1) / 2), values.get(values.len() / 2)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => f64::NAN,
    }
}

/// The median of each figure that all of these have.
pub fn medians<'a>(runs: impl IntoIterator<Item = &'a Figures>) -> Figures {
    let runs: Vec<&Figures> = runs.into_iter().collect();
    let Some(first) = runs.first() else { return Figures::new() };
    let shared = first.keys().filter(|figure| runs.iter().all(|run| run.contains_key(figure)));
    shared.map(|figure| (*figure, median(runs.iter().map(|run| run[figure])))).collect()
}

/// Each figure divided by the same one of `base`, where that is not 0.
pub fn ratios(run: &Figures, base: &Figures) -> Figures {
    let ratio = |(figure, value): (&Figure, &f64)| {
        let base = base.get(figure).filter(|base| **base > 0.0)?;
        Some((*figure, value / base))
    };
    run.iter().filter_map(ratio).collect()
}
