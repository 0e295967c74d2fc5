//! What those who run Sluice ask of it: the admin API, and the commands that use it.

mod access;
mod commands;
mod events;
mod keys;
mod reload;
mod top;

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::Sidecar;

/// What a command said, and how it ended.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Said {
    /// The answer of a command that succeeded.
    fn text(&self) -> &str {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        &self.stdout
    }

    /// The same, as the JSON that it is.
    fn json(&self) -> Value {
        let text = self.text();
        assert_eq!(text.trim_end().lines().count(), 1, "{text}");
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The message of a command that failed.
    fn error(&self, code: i32) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{self:?}");
        &self.stderr
    }
}

/// The command line, with what the environment would say of the admin listener.
fn sluice(admin: &str, args: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    let Output { status, stdout, stderr } = command.args(args).env("SLUICE_ADMIN", admin).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// The same, asking this sidecar.
fn ask(sidecar: &Sidecar, args: &[&str]) -> Said {
    sluice(&format!("http://127.0.0.1:{}", sidecar.admin_port()), args)
}
