//! What runs per request, again and again, for an instruction counter to look at: `make bench-guard`.
//!
//!     instructions                 prints the names of the cases
//!     instructions NAME COUNT      runs one COUNT times
//!
//! Instructions are the same on a busy machine as on a quiet one. Two runs with different counts tell what one more
//! costs, so that nothing need be known of what comes before and after.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a case that goes wrong is not counted"
)]

mod filter;
mod sidecar;

use std::process::ExitCode;

/// A name, what to run, and how many requests one run of it decides.
type Case = (&'static str, fn(u32), u32);

const CASES: [Case; 11] = [
    ("filter/no_rule", filter::no_rule, 1),
    ("filter/one_check", |count| filter::allowed(count, 1, 1), 1),
    ("filter/one_check_of_32", |count| filter::allowed(count, 32, 1), 32),
    ("filter/two_checks_of_32", |count| filter::allowed(count, 32, 2), 32),
    ("filter/denied_locally", filter::denied_locally, 1),
    ("filter/leased", filter::leased, 1),
    ("sidecar/batch_of_1", |count| sidecar::batch(count, 1), 1),
    ("sidecar/batch_of_32", |count| sidecar::batch(count, 32), 32),
    ("sidecar/script_arguments_of_32", sidecar::arguments, 32),
    ("sidecar/script_answer_of_32", sidecar::answer, 32),
    ("sidecar/state_key", sidecar::state_key, 1),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => {
            for (name, _, requests) in CASES {
                println!("{name} {requests}");
            }
            return ExitCode::SUCCESS;
        }
        [wanted, count] => {
            if let (Some((_, run, _)), Ok(count)) = (CASES.iter().find(|(name, ..)| name == wanted), count.parse()) {
                run(count);
                return ExitCode::SUCCESS;
            }
        }
        _ => {}
    }
    eprintln!("usage: instructions [NAME COUNT]");
    ExitCode::FAILURE
}
