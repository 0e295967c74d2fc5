//! What is to be measured, from the environment: `make bench` passes it on.

use std::env;
use std::path::PathBuf;

/// Which parts of the benchmark there are.
pub const PARTS: [&str; 5] = ["gateway", "sidecar", "scripts", "instructions", "memory"];

/// The choices.
#[derive(Debug)]
pub struct Options {
    /// `BENCH_SECONDS`: how long each cell is measured.
    pub seconds: u32,
    /// `BENCH_REPEATS`: how many rounds; figures are medians over them.
    pub repeats: u32,
    /// `BENCH_CONNECTIONS`: numbers of connections of wrk.
    pub connections: Vec<u32>,
    /// `BENCH_ROWS`: parts of names; a row is measured if its name has one of them. Empty means all.
    pub rows: Vec<String>,
    /// `BENCH_KEYS`: numbers of keys for the scripts in Redis.
    pub keys: Vec<u32>,
    /// `BENCH_PARTS`: some of [`PARTS`].
    pub parts: Vec<String>,
    /// `BENCH_JSON`: where the figures go.
    pub json: PathBuf,
    /// `--docs`: write docs/performance.* as well.
    pub docs: bool,
}

impl Options {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// If one of them can't be used.
    pub fn read() -> Result<Self, String> {
        let options = Self {
            seconds: number("BENCH_SECONDS", "3")?,
            repeats: number("BENCH_REPEATS", "3")?,
            connections: numbers("BENCH_CONNECTIONS", "1,32,128")?,
            keys: numbers("BENCH_KEYS", "1000,10000,100000,1000000")?,
            rows: list("BENCH_ROWS", ""),
            parts: list("BENCH_PARTS", &PARTS.join(",")),
            json: env::var_os("BENCH_JSON").ok_or("run this with `make bench`, which builds what is measured")?.into(),
            docs: env::args().any(|argument| argument == "--docs"),
        };
        match options.parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
            Some(part) => Err(format!("BENCH_PARTS: there is no {part:?}, only {}", PARTS.join(", "))),
            None => Ok(options),
        }
    }

    /// Whether a part is wanted.
    pub fn wants(&self, part: &str) -> bool {
        self.parts.iter().any(|wanted| wanted == part)
    }
}

fn text(name: &str, default: &str) -> String {
    env::var(name).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())
}

fn number(name: &str, default: &str) -> Result<u32, String> {
    positive(name, &text(name, default))
}

fn numbers(name: &str, default: &str) -> Result<Vec<u32>, String> {
    list(name, default).iter().map(|text| positive(name, text)).collect()
}

fn list(name: &str, default: &str) -> Vec<String> {
    text(name, default).split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

fn positive(name: &str, text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("{name}: {text:?} is no number above 0"))
}
