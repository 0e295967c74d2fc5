//! Writes results into the documentation.

use std::fs;
use std::path::Path;

use super::chart::Chart;
use super::report::{self, Results};

/// Between these lines of docs/performance.md stands what was measured; around them, what people write.
const BEGIN: &str = "<!-- measured: written by `make bench-docs` -->\n";
const END: &str = "<!-- end of what was measured -->";

/// Stands before the tables.
const PICTURE: &str = "![Requests per second, and Envoy's CPU per request, as shares of the row without a rule](performance.svg)\n\n\
     Every round is in [performance.json](performance.json).\n\n";

/// Writes performance.md, performance.svg and performance.json.
pub fn write(docs: &Path, results: &Results, json: &str) -> Result<(), String> {
    let file = docs.join("performance.md");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let text = replaced(&text, &report::markdown(results))
        .ok_or_else(|| format!("{}: the lines around what was measured are gone: {BEGIN}{END}", file.display()))?;
    super::write(&file, &text)?;
    super::write(&docs.join("performance.svg"), &Chart(&results.gateway).to_string())?;
    super::write(&docs.join("performance.json"), &format!("{json}\n"))
}

fn replaced(text: &str, measured: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{PICTURE}{measured}{END}{after}"))
}
