//! The configuration file, read again while the process serves.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use crate::config::{Config, ConfigError, read_file};
use crate::engine::Engine;
use crate::metrics::ReloadOutcome;

/// A configuration, and the file it came from.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    /// What was in it.
    pub config: Config,
    found: Found,
}

/// What a file was found to be: its text, as a digest because there may be a password in it, or why it has none.
type Found = Result<[u8; 32], String>;

/// Reads the file again, and puts in force what can change without a restart.
#[derive(Debug)]
pub struct Reloader {
    path: PathBuf,
    engine: Arc<Engine>,
    /// The configuration of the start, without its policies: all that needs a restart is as it says.
    start: Config,
    /// What the file was when it was last read into force, or refused. Held while it is read, which may take long.
    known: Mutex<Found>,
    status: Mutex<ConfigStatus>,
}

/// How the file and what is in force differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigStatus {
    /// Why the file can't be used: what was before is in force.
    pub error: Option<String>,
    /// The fields, by their paths, whose changes come into force with a restart.
    pub restart_needed: Vec<&'static str>,
}

/// What came of reading the file again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reload {
    /// The generation that is in force now.
    pub generation: u64,
    /// Whether it is another one than before.
    pub changed: bool,
    /// The fields whose changes come into force with a restart.
    pub restart_needed: Vec<&'static str>,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it can't be read, or is no configuration.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(path, &read_file(path)?)
    }

    /// The same of a text that was read from there.
    ///
    /// # Errors
    ///
    /// If it is no configuration.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let config = Config::parse(text, &path.display().to_string())?;
        Ok(Self { path: path.to_owned(), config, found: Ok(digest(text)) })
    }
}

impl Reloader {
    /// Reads the file of this configuration into this engine, which has its policies already.
    pub fn new(file: ConfigFile, engine: Arc<Engine>) -> Arc<Self> {
        let ConfigFile { path, mut config, found } = file;
        config.policies.clear();
        Arc::new(Self { path, engine, start: config, known: Mutex::new(found), status: Mutex::default() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How the file, as last read, and what is in force differ.
    pub fn status(&self) -> ConfigStatus {
        lock(&self.status).clone()
    }

    /// Reads the file now, and puts in force what is in it. If it is no good, all stays as it was. Needs a Tokio runtime.
    ///
    /// # Errors
    ///
    /// If the file can't be read, or is no configuration.
    pub async fn reload_now(self: &Arc<Self>) -> Result<Reload, ConfigError> {
        let this = Arc::clone(self);
        // Not here: a file system that hangs must not hold up decisions.
        let task = tokio::task::spawn_blocking(move || {
            let mut known = lock(&this.known);
            let text = read_file(&this.path);
            this.take(&mut known, text)
        });
        task.await.unwrap_or_else(|error| {
            Err(ConfigError::Read { file: self.path.display().to_string(), source: std::io::Error::other(error) })
        })
    }

    /// Makes what was found in the file what is in force, and tells of it.
    fn take(&self, known: &mut Found, text: Result<String, ConfigError>) -> Result<Reload, ConfigError> {
        *known = found(&text);
        let metrics = self.engine.metrics().config();
        let config = text.and_then(|text| Config::parse(&text, &self.path.display().to_string()));
        let config = config.inspect_err(|error| {
            tracing::warn!("{error}; what was read before stays in force");
            lock(&self.status).error = Some(error.to_string());
            metrics.count(ReloadOutcome::Failed);
            metrics.failed();
        })?;
        let restart_needed = self.start.restart_needed(&config);
        let changed = self.engine.replace(config.policies, config.limits);
        let in_force = self.engine.in_force();
        let generation = in_force.generation();
        metrics.count(if changed { ReloadOutcome::Applied } else { ReloadOutcome::Unchanged });
        metrics.succeeded(generation, !restart_needed.is_empty());
        if changed {
            tracing::info!(generation, policies = in_force.policy_count(), "the configuration was read again");
        } else {
            tracing::info!(generation, "the configuration was read again: policies and limits are the same");
        }
        let status = ConfigStatus { error: None, restart_needed: restart_needed.clone() };
        let before = std::mem::replace(&mut *lock(&self.status), status);
        if !restart_needed.is_empty() && before.restart_needed != restart_needed {
            tracing::warn!(
                "changed in the configuration, but in force only after a restart: {}",
                restart_needed.join(", ")
            );
        }
        Ok(Reload { generation, changed, restart_needed })
    }
}

fn found(text: &Result<String, ConfigError>) -> Found {
    text.as_deref().map(digest).map_err(ToString::to_string)
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
