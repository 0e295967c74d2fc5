//! The benchmark: real Envoy with one worker, the plugin and the sidecar as they are released, real Redis, and wrk.
//!
//!     make bench
//!     make bench BENCH_SECONDS=1 BENCH_REPEATS=1 BENCH_ROWS='token bucket'
//!
//! Absolute figures are those of one machine, which wrk shares. Rows are measured in turns, and what counts is their
//! ratio to the row in which the plugin is there and no rule matches, within the same round. A run in which any request
//! went another way than its row promises fails: an error is never a figure.
//!
//! This program is not optimised, and needs not be: it only waits while others work.

#![allow(
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails ends the benchmark, as it should; counts are far below 2^52"
)]

use std::process::ExitCode;
use std::time::Duration;

#[path = "../tests/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "tests need more of it")]
mod support;

mod chart;
mod counters;
mod docs;
mod figures;
mod floor;
mod gateway;
mod instructions;
mod machine;
mod memory;
mod options;
mod report;
mod rows;
mod scripts;
mod snapshot;
mod wrk;

use std::path::Path;

use figures::{Figure, Figures, median, medians, ratios};
use gateway::Gateway;
use options::Options;
use report::{Line, OneConnection, Results, SidecarLine};
use rows::{NO_RULE, ROWS, Row, Setup};
use support::{Redis, repository, tool};

/// How long the bare EVALSHA is measured in a round.
const FLOOR_TIME: Duration = Duration::from_secs(1);
/// Checks in a batch that is posted to the sidecar itself.
const SIDECAR_BATCHES: [u32; 3] = [1, 16, 64];
/// With this many connections every setup is tried before it is measured.
const WARM_UP_CONNECTIONS: u32 = 32;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), String> {
    let options = Options::read()?;
    let (wrk, script) = (tool("wrk"), repository().join("bench/load.lua"));
    let mut results = Results::new(machine::describe(&wrk));
    let measured = measure(&options, &wrk, &script, &mut results).await;
    // What could be measured is shown in any case.
    println!("{}", report::markdown(&results));
    measured?;
    let json = serde_json::to_string_pretty(&results).map_err(|error| error.to_string())?;
    write(&options.json, &json)?;
    eprintln!("figures are in {}", options.json.display());
    if options.docs {
        docs::write(&repository().join("docs"), &results, &json)?;
    }
    Ok(())
}

async fn measure(options: &Options, wrk: &Path, script: &Path, results: &mut Results) -> Result<(), String> {
    if options.wants("gateway") || options.wants("sidecar") {
        measure_gateway(options, wrk, script, results).await?;
    }
    if options.wants("scripts") {
        results.scripts = scripts::measure(&Redis::start().await, &options.keys, options.repeats)?;
    }
    if options.wants("instructions") {
        results.instructions = instructions::count().await?;
    }
    if options.wants("memory") {
        results.denials = Some(memory::denials(wrk, script).await?);
    }
    Ok(())
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    let directory = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    directory
        .and_then(|()| std::fs::write(path, text))
        .map_err(|error| format!("{} can't be written: {error}", path.display()))
}

/// The rows that are wanted, and what they are compared with.
fn wanted(options: &Options) -> Vec<Row> {
    let is_wanted = |row: &Row| options.rows.is_empty() || options.rows.iter().any(|part| row.name().contains(part));
    let rows = if options.wants("gateway") { &ROWS[..] } else { &[] };
    rows.iter().copied().filter(|row| is_wanted(row) || *row == NO_RULE).collect()
}

async fn measure_gateway(options: &Options, wrk: &Path, script: &Path, results: &mut Results) -> Result<(), String> {
    let rows = wanted(options);
    let mut setups: Vec<Setup> = rows.iter().map(|row| row.setup).collect();
    setups.dedup();
    let gateway = Gateway::start(&setups, wrk.to_owned(), script.to_owned()).await?;
    for &row in rows.iter().filter(|row| row.keys == 1) {
        gateway.measure(row, if row.takes(WARM_UP_CONNECTIONS) { WARM_UP_CONNECTIONS } else { 1 }, 1).await?;
    }

    let mut lines: Vec<Line> = Vec::new();
    for &connections in &options.connections {
        lines.extend(rows.iter().filter(|row| row.takes(connections)).map(|row| Line::new(*row, connections)));
    }
    let mut evalsha_us = Vec::new();
    for round in 1..=options.repeats {
        eprintln!("round {round} of {}", options.repeats);
        for line in &mut lines {
            let figures = gateway.measure(line.row, line.connections, options.seconds).await?;
            eprintln!("  {}, {}: {:.0} req/s", line.name, line.connections, figures[&Figure::RequestsPerSecond]);
            line.rounds.push(figures);
        }
        evalsha_us.push(floor::evalsha_p50_us(&gateway.redis, FLOOR_TIME)?);
    }
    settle(&mut lines);
    results.one_connection = one_connection(&lines, &evalsha_us);
    results.gateway = lines;

    if options.wants("sidecar") {
        results.sidecar = measure_sidecar(options, &gateway)?;
    }
    Ok(())
}

/// Works the medians out, and the ratios to the row without a rule: round by round, so that both are of the same time.
fn settle(lines: &mut [Line]) {
    let base: Vec<(u32, Vec<Figures>)> =
        lines.iter().filter(|line| line.row == NO_RULE).map(|line| (line.connections, line.rounds.clone())).collect();
    for line in lines {
        line.median = medians(&line.rounds);
        let base = base.iter().find(|(connections, _)| *connections == line.connections);
        let ratios: Vec<Figures> = base.map_or(Vec::new(), |(_, base)| {
            line.rounds.iter().zip(base).map(|(run, base)| ratios(run, base)).collect()
        });
        line.ratio = medians(&ratios);
    }
}

/// What one exact decision takes, beside the least that it can.
fn one_connection(lines: &[Line], evalsha_us: &[f64]) -> Option<OneConnection> {
    let p50s = |setup| {
        let line = lines.iter().find(|line| line.row == Row { setup, keys: 1 } && line.connections == 1)?;
        Some(line.rounds.iter().map(|run| run[&Figure::P50Us]).collect::<Vec<f64>>())
    };
    let (exact, callout) = (p50s(Setup::TokenBucket)?, p50s(Setup::Callout)?);
    let ratios =
        exact.iter().zip(&callout).zip(evalsha_us).map(|((exact, callout), evalsha)| exact / (callout + evalsha));
    let ratio = median(ratios);
    Some(OneConnection {
        exact_p50_us: median(exact),
        callout_p50_us: median(callout),
        evalsha_p50_us: median(evalsha_us.iter().copied()),
        ratio,
    })
}

fn measure_sidecar(options: &Options, gateway: &Gateway) -> Result<Vec<SidecarLine>, String> {
    let mut lines: Vec<SidecarLine> = Vec::new();
    for batch in SIDECAR_BATCHES {
        lines.extend([1, 32].map(|connections| SidecarLine { batch, connections, ..SidecarLine::default() }));
    }
    for _ in 0..options.repeats {
        for line in &mut lines {
            let figures = gateway.measure_sidecar(line.batch, line.connections, options.seconds)?;
            eprintln!("  the sidecar alone, batches of {}, {} connections", line.batch, line.connections);
            line.rounds.push(figures);
        }
    }
    for line in &mut lines {
        line.median = medians(&line.rounds);
    }
    Ok(lines)
}
