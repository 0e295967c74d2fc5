//! The results, and their tables.

use std::fmt::Write;

use serde::{Serialize, Serializer};

use super::figures::{Figure, Figures};
use super::instructions::Instructions;
use super::machine::Machine;
use super::memory::Denials;
use super::rows::Row;
use super::scripts::ScriptCost;

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Results {
    pub machine: Machine,
    pub gateway: Vec<Line>,
    pub one_connection: Option<OneConnection>,
    pub sidecar: Vec<SidecarLine>,
    pub scripts: Vec<ScriptCost>,
    /// Nothing where valgrind is not installed.
    pub instructions: Option<Instructions>,
    pub denials: Option<Denials>,
}

/// A row at one number of connections.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    #[serde(skip)]
    pub row: Row,
    pub name: String,
    pub connections: u32,
    pub median: Figures,
    /// To the row without a rule, with as many connections.
    pub ratio: Figures,
    pub rounds: Vec<Figures>,
}

/// An exact decision at one connection, and the sum of its parts.
#[derive(Debug, Serialize)]
pub struct OneConnection {
    pub exact_p50_us: f64,
    pub callout_p50_us: f64,
    pub evalsha_p50_us: f64,
    /// The first to the sum of the others.
    #[serde(serialize_with = "three_digits")]
    pub ratio: f64,
}

/// The sidecar without Envoy. Figures are per check.
#[derive(Debug, Default, Serialize)]
pub struct SidecarLine {
    pub batch: u32,
    pub connections: u32,
    pub median: Figures,
    pub rounds: Vec<Figures>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn three_digits<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value * 1e3).round() / 1e3)
}

impl Results {
    pub fn new(machine: Machine) -> Self {
        Self {
            machine,
            gateway: Vec::new(),
            one_connection: None,
            sidecar: Vec::new(),
            scripts: Vec::new(),
            instructions: None,
            denials: None,
        }
    }
}

impl Line {
    pub fn new(row: Row, connections: u32) -> Self {
        let (median, ratio, rounds) = (Figures::new(), Figures::new(), Vec::new());
        Self { row, name: row.name(), connections, median, ratio, rounds }
    }
}

/// All tables, as Markdown: it reads well on a terminal too.
pub fn markdown(results: &Results) -> String {
    let mut text = String::new();
    let machine = &results.machine;
    paragraph(
        &mut text,
        &format!(
            "Measured {} on {} ({} cores, {} GiB, Linux {}) by `{}`, with {}.",
            machine.when,
            machine.processor,
            machine.cores,
            machine.memory_gib,
            machine.kernel,
            machine.command,
            machine.versions.join(", ")
        ),
    );
    let mut connections: Vec<u32> = results.gateway.iter().map(|line| line.connections).collect();
    connections.dedup();
    for connections in connections {
        gateway(&mut text, results.gateway.iter().filter(|line| line.connections == connections), connections);
    }
    if let Some(one) = &results.one_connection {
        paragraph(
            &mut text,
            &format!(
                "At one connection an exact decision has a p50 of {:.0} µs: {:.2} times the {:.0} µs of a callout that is \
             always answered the same, plus the {:.0} µs of a bare `EVALSHA`.",
                one.exact_p50_us, one.ratio, one.callout_p50_us, one.evalsha_p50_us
            ),
        );
    }
    if !results.sidecar.is_empty() {
        sidecar(&mut text, &results.sidecar);
    }
    if !results.scripts.is_empty() {
        scripts(&mut text, &results.scripts);
        memory(&mut text, &results.scripts);
    }
    if let Some(counts) = &results.instructions {
        instructions(&mut text, counts);
    }
    if let Some(Denials { count, bytes }) = results.denials {
        let (each, mebibytes) = (bytes as f64 / count as f64, bytes as f64 / f64::from(1 << 20));
        let words =
            format!("{count} remembered denials take {mebibytes:.1} MiB of Envoy's memory, {each:.0} bytes each.");
        paragraph(&mut text, &words);
    }
    text
}

/// A heading, and the head of a table whose first column is text.
fn table(text: &mut String, heading: &str, columns: &[&str]) {
    let line = columns.iter().skip(1).map(|_| "---:|").collect::<String>();
    let _ = writeln!(text, "#### {heading}\n\n| {} |\n|---|{line}", columns.join(" | ")); // a String takes everything
}

fn cells(text: &mut String, cells: &[String]) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

fn paragraph(text: &mut String, words: &str) {
    let _ = writeln!(text, "{words}\n");
}

fn gateway<'a>(text: &mut String, lines: impl Iterator<Item = &'a Line>, connections: u32) {
    let heading = format!("{connections} {}", if connections == 1 { "connection" } else { "connections" });
    let columns = [
        "",
        "req/s",
        "to no rule",
        "p50 µs",
        "p99 µs",
        "Envoy CPU µs",
        "to no rule",
        "sidecar",
        "Redis",
        "callouts",
        "scripts",
        "commands",
    ];
    table(text, &heading, &columns);
    for line in lines {
        let number = |figure, digits: usize| format!("{:.digits$}", line.median.get(&figure).unwrap_or(&f64::NAN));
        let ratio = |figure| line.ratio.get(&figure).map_or("-".to_owned(), |ratio| format!("**{ratio:.2}**"));
        cells(
            text,
            &[
                line.name.clone(),
                number(Figure::RequestsPerSecond, 0),
                ratio(Figure::RequestsPerSecond),
                number(Figure::P50Us, 0),
                number(Figure::P99Us, 0),
                number(Figure::EnvoyCpuUs, 1),
                ratio(Figure::EnvoyCpuUs),
                number(Figure::SidecarCpuUs, 1),
                number(Figure::RedisCpuUs, 1),
                number(Figure::Callouts, 3),
                number(Figure::Scripts, 3),
                number(Figure::Commands, 2),
            ],
        );
    }
    text.push('\n');
}

fn sidecar(text: &mut String, lines: &[SidecarLine]) {
    let columns =
        ["checks per batch", "connections", "checks/s", "p50 µs of a batch", "sidecar CPU µs per check", "Redis"];
    table(text, "The sidecar alone", &columns);
    for line in lines {
        let number = |figure, digits: usize| format!("{:.digits$}", line.median.get(&figure).unwrap_or(&f64::NAN));
        cells(
            text,
            &[
                line.batch.to_string(),
                line.connections.to_string(),
                number(Figure::RequestsPerSecond, 0),
                number(Figure::P50Us, 0),
                number(Figure::SidecarCpuUs, 2),
                number(Figure::RedisCpuUs, 2),
            ],
        );
    }
    text.push('\n');
}

/// One line per script and size of a batch, one column per number of keys.
fn scripts(text: &mut String, costs: &[ScriptCost]) {
    let keys = key_counts(costs);
    let heads: Vec<String> = keys.iter().map(|keys| format!("{keys} keys")).collect();
    let mut columns = vec!["script", "checks per batch"];
    columns.extend(heads.iter().map(String::as_str));
    table(text, "Redis: µs in the script, per check (and CPU µs of Redis)", &columns);
    for first in costs.iter().filter(|cost| Some(&cost.keys) == keys.first()) {
        let mut line = vec![first.script.to_owned(), first.batch.to_string()];
        line.extend(keys.iter().map(|keys| {
            let same =
                |cost: &&ScriptCost| cost.keys == *keys && cost.script == first.script && cost.batch == first.batch;
            let cost = costs.iter().find(same);
            cost.map_or("-".to_owned(), |cost| format!("{:.2} ({:.2})", cost.script_us, cost.cpu_us))
        }));
        cells(text, &line);
    }
    text.push('\n');
}

fn memory(text: &mut String, costs: &[ScriptCost]) {
    let Some(most) = key_counts(costs).last().copied() else { return };
    table(text, &format!("Redis: bytes per key, with {most} keys"), &["script", "bytes"]);
    let mut last = "";
    for cost in costs.iter().filter(|cost| cost.keys == most && cost.bytes_per_key > 0.0) {
        if cost.script != last {
            cells(text, &[cost.script.to_owned(), format!("{:.0}", cost.bytes_per_key)]);
            last = cost.script;
        }
    }
    text.push('\n');
}

fn instructions(text: &mut String, counts: &Instructions) {
    let columns = ["script", "checks per batch", "instructions", "to the empty script"];
    table(text, "Redis: instructions per check", &columns);
    for count in &counts.scripts {
        let numbers = [count.batch.to_string(), format!("{:.0}", count.per_check), format!("{:.2}", count.ratio)];
        cells(text, &[&[count.script.to_owned()], &numbers[..]].concat());
    }
    text.push('\n');
    table(text, "Redis: instructions of what scripts are made of", &["piece", "instructions"]);
    for (piece, count) in &counts.pieces {
        cells(text, &[(*piece).to_owned(), format!("{count:.0}")]);
    }
    text.push('\n');
}

fn key_counts(costs: &[ScriptCost]) -> Vec<u32> {
    let mut keys: Vec<u32> = costs.iter().map(|cost| cost.keys).collect();
    keys.dedup();
    keys
}
