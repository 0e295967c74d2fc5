//! Where the programs are. `scripts/tools.sh` knows; here it is only asked.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The repository's root.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The path of `envoy`, `redis-server`, `redis-cli` or `wrk`.
pub fn tool(name: &str) -> PathBuf {
    let output = Command::new("bash").arg(repository().join("scripts/tools.sh")).arg(name).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end())
}

/// The sidecar: the one of this build, unless the variable names another, as benchmarks do.
pub fn sluice() -> PathBuf {
    std::env::var_os("SLUICE_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_sluice")), PathBuf::from)
}

/// The plugin, as it is released. Built here if that has not been done, so that no test looks at an old one.
pub fn plugin() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(|| match std::env::var_os("SLUICE_PLUGIN") {
        Some(path) => PathBuf::from(path),
        None => build_plugin("release", &["--release"]),
    })
}

/// A plugin that panics when a request has the header `x-panic-for-tests`. It is unoptimised, as which alone it can be
/// built; so it has a file of its own, beside the released one. Stripped, because Envoy loads symbols for seconds.
pub fn panicking_plugin() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(|| {
        build_plugin("debug", &["--features", "panics-for-tests", "--config", "profile.dev.strip=true"])
    })
}

fn build_plugin(profile: &str, options: &[&str]) -> PathBuf {
    // target/debug/sluice
    let target = Path::new(env!("CARGO_BIN_EXE_sluice")).ancestors().nth(2).unwrap();
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(repository())
        .args(["build", "-p", "sluice-filter", "--target", "wasm32-wasip1"])
        .args(options)
        .arg("--target-dir")
        .arg(target)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("wasm32-wasip1").join(profile).join("sluice_filter.wasm")
}
