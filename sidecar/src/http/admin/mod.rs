//! The admin API: what those who run Sluice ask of it, beside probes and metrics.

mod guard;

pub use guard::{Forbidden, Guard};
