//! The scripts as Redis keeps them.

use std::sync::LazyLock;

use redis::{Cmd, Script};

use super::super::script;

/// A script, and the digest that Redis keeps it under.
#[derive(Debug)]
pub struct Kept {
    /// What it is called here.
    pub name: &'static str,
    /// The script.
    pub text: &'static str,
    /// Its digest.
    pub sha1: String,
}

/// Decides requests.
pub static DECIDE: LazyLock<Kept> = LazyLock::new(|| Kept::new("decide", script::DECIDE));

/// Decides requests of which some want tokens ahead.
pub static LEASE: LazyLock<Kept> = LazyLock::new(|| Kept::new("lease", script::LEASE));

/// Gives charges back.
pub static REFUND: LazyLock<Kept> = LazyLock::new(|| Kept::new("refund", script::REFUND));

impl Kept {
    fn new(name: &'static str, text: &'static str) -> Self {
        Self { name, text, sha1: Script::new(text).get_hash().to_owned() }
    }

    /// The command that has a server keep it.
    pub fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(self.text);
        command
    }
}
