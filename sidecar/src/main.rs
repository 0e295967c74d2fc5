//! The `sluice` command.

use std::process::ExitCode;

/// That of musl, which static binaries have, takes one lock for all threads: a check took up to three times as long.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sluice::cli::run()
}
