//! The configuration file, read again while the process serves.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use crate::config::{Config, ConfigError, read_file};
use crate::engine::Engine;
use crate::metrics::ReloadOutcome;
use crate::reload::INTERVAL;

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

    /// Looks at the file every second from now on, and reads it again when it has changed. What it is must be the same at
    /// two looks: an editor that is half done is not taken for somebody who means it. Needs a Tokio runtime.
    ///
    /// A pipe can be read once only, and is not looked at.
    pub fn watch(self: &Arc<Self>) {
        if self.path.is_file() {
            tokio::spawn(watch(Arc::downgrade(self)));
        }
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
        let task = spawn_blocking(move || {
            let mut known = lock(&this.known);
            let text = this.read();
            this.take(&mut known, text)
        });
        task.await.unwrap_or_else(|error| {
            Err(ConfigError::Read { file: self.path.display().to_string(), source: std::io::Error::other(error) })
        })
    }

    /// A look. `seen` is what the one before returned: what is new since the file was read, if anything is.
    fn look(&self, seen: Option<&Found>) -> Option<Found> {
        let mut known = lock(&self.known);
        let text = self.read();
        let found = found(&text);
        if found == *known {
            return None;
        }
        if seen != Some(&found) {
            return Some(found);
        }
        // What is wrong has been told.
        let _ = self.take(&mut known, text);
        None
    }

    fn read(&self) -> Result<String, ConfigError> {
        // Opening a pipe would wait for somebody who writes.
        match std::fs::metadata(&self.path) {
            Ok(metadata) if !metadata.is_file() => Err(ConfigError::Read {
                file: self.path.display().to_string(),
                source: std::io::Error::other("it is no file, so that it can't be read again"),
            }),
            _ => read_file(&self.path),
        }
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

async fn watch(reloader: Weak<Reloader>) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = None;
    loop {
        ticks.tick().await;
        let Some(reloader) = reloader.upgrade() else { return };
        let Ok(found) = spawn_blocking(move || reloader.look(seen.as_ref())).await else { return };
        seen = found;
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

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::store::{Store, StoreAddress, StoreSettings};

    const GOOD: &str = "policies: {p: {algorithm: fixed_window, rate: 1/s}}";
    const BETTER: &str = "policies: {p: {algorithm: fixed_window, rate: 2/s}}";
    const BAD: &str = "policies: {p: {algorithm: fixed_window, rate: 2/";

    /// A file that is read by hand.
    struct Ground {
        directory: TempDir,
        reloader: Arc<Reloader>,
        seen: Option<Found>,
    }

    impl Ground {
        fn new() -> Self {
            let directory = TempDir::new().unwrap();
            let path = directory.path().join("sluice.yaml");
            std::fs::write(&path, GOOD).unwrap();
            let file = ConfigFile::load(&path).unwrap();
            let store = Store::connect(&StoreSettings::new(StoreAddress::Memory)).unwrap();
            let engine = Arc::new(Engine::new(file.config.policies.clone(), file.config.limits, store));
            Self { directory, reloader: Reloader::new(file, engine), seen: None }
        }

        fn write(&self, text: &str) {
            std::fs::write(self.directory.path().join("sluice.yaml"), text).unwrap();
        }

        fn look(&mut self) {
            self.seen = self.reloader.look(self.seen.as_ref());
        }

        /// The rate's count in force, and how often a file was applied, the same, and no good.
        fn assert(&self, count: u64, reloads: [u64; 3], what: &str) {
            let engine = &self.reloader.engine;
            let limit = engine.in_force().policy("p").unwrap().policy.limit;
            let text = engine.metrics().encode();
            let counted = ["applied", "unchanged", "failed"].map(|outcome| {
                let series = format!("sluice_config_reloads_total{{outcome=\"{outcome}\"}} ");
                text.lines().find_map(|line| line.strip_prefix(&series)).unwrap().parse::<u64>().unwrap()
            });
            assert_eq!((limit.rate.count, counted), (count, reloads), "{what}");
            assert_eq!(
                self.reloader.status().error.is_some(),
                text.contains("config_last_reload_successful 0"),
                "{what}"
            );
        }
    }

    #[test]
    fn what_is_the_same_at_two_looks_counts() {
        let mut ground = Ground::new();
        ground.look();
        ground.assert(1, [0, 0, 0], "nothing new");
        ground.write(BETTER);
        ground.look();
        ground.assert(1, [0, 0, 0], "perhaps half of it");
        ground.look();
        ground.assert(2, [1, 0, 0], "it was all of it");
        for half in ["", "policies:", BAD] {
            ground.write(half);
            ground.look();
        }
        ground.write(BETTER);
        ground.look();
        ground.look();
        ground.assert(2, [1, 0, 0], "nobody meant those");
        // One look apart, and not two looks in a row.
        ground.write(BAD);
        ground.look();
        ground.write(BETTER);
        ground.look();
        ground.write(BAD);
        ground.look();
        ground.assert(2, [1, 0, 0], "seen twice, but not at two looks in a row");
    }

    #[test]
    fn a_bad_file_is_told_once_and_changes_nothing() {
        type Spoil = fn(&Path);
        let mut ground = Ground::new();
        let path = ground.directory.path().join("sluice.yaml");
        let ways: [(&str, Spoil); 5] = [
            ("broken", |path| std::fs::write(path, BAD).unwrap()),
            ("empty", |path| std::fs::write(path, "").unwrap()),
            ("not a text", |path| std::fs::write(path, [0xff]).unwrap()),
            ("gone", |path| std::fs::remove_file(path).unwrap()),
            ("a directory", |path| std::fs::create_dir(path).unwrap()),
        ];
        for (failed, (what, spoil)) in (1..).zip(ways) {
            spoil(&path);
            for _ in 0..5 {
                ground.look();
            }
            ground.assert(1, [0, 0, failed], what);
            let error = ground.reloader.status().error.unwrap();
            assert!(error.contains("sluice.yaml"), "{what}: {error}");
        }
        std::fs::remove_dir(&path).unwrap();
        ground.write(GOOD);
        for _ in 0..5 {
            ground.look();
        }
        ground.assert(1, [0, 1, 5], "repaired");
    }

    #[tokio::test]
    async fn who_asks_for_it_is_answered_at_once_and_each_time() {
        let mut ground = Ground::new();
        ground.write(BETTER);
        let reload = Reload { generation: 2, changed: true, restart_needed: Vec::new() };
        assert_eq!(ground.reloader.reload_now().await.unwrap(), reload);
        let reload = Reload { changed: false, ..reload };
        assert_eq!(ground.reloader.reload_now().await.unwrap(), reload);
        ground.write(&format!("{GOOD}\nlisten: 127.0.0.1:1"));
        let reload = Reload { generation: 3, changed: true, restart_needed: vec!["listen"] };
        assert_eq!(ground.reloader.reload_now().await.unwrap(), reload);
        assert_eq!(ground.reloader.status(), ConfigStatus { error: None, restart_needed: vec!["listen"] });
        ground.write(BAD);
        for failed in 1..3 {
            let error = ground.reloader.reload_now().await.unwrap_err().to_string();
            assert!(error.contains("sluice.yaml: line 1"), "{error}");
            ground.assert(1, [2, 1, failed], "asked again");
        }
        // What was told to who asked is not told again.
        ground.look();
        ground.look();
        ground.assert(1, [2, 1, 2], "known");
        ground.write(GOOD);
        assert_eq!(ground.reloader.reload_now().await.unwrap().restart_needed, [""; 0]);
    }
}
