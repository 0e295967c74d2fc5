//! What is made of files, such as certificates and tokens, and made again when they change: whoever rotates them need
//! not restart anything.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::{MissedTickBehavior, interval};

/// How often files are looked at. Kubernetes itself takes a minute to bring a changed secret here. They are read
/// instead of waited for: it exchanges links two directories up, and network file systems tell nobody.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// A file, and the field of the configuration that names it.
#[derive(Debug, Clone)]
pub struct NamedFile {
    /// Such as `tls.cert_file`.
    pub field: &'static str,
    /// Where it is.
    pub path: PathBuf,
}

/// What is wrong with a file. The text never shows what is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {}: {problem}", .path.display())]
pub struct FileError {
    /// The field that names the file.
    pub field: &'static str,
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

/// A value made of files. Clones share it.
#[derive(Debug)]
pub struct Reloaded<T>(Arc<RwLock<Arc<T>>>);

impl<T> Clone for Reloaded<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl NamedFile {
    /// A file of this field.
    pub fn new(field: &'static str, path: &Path) -> Self {
        Self { field, path: path.to_owned() }
    }

    /// An error about this file.
    pub fn error(&self, problem: impl std::fmt::Display) -> FileError {
        FileError { field: self.field, path: self.path.clone(), problem: problem.to_string() }
    }
}

impl<T: Send + Sync + 'static> Reloaded<T> {
    /// Reads the files and makes the value of what is in them; from then on a task looks whether they have changed. If
    /// nothing can be made of them any more, the value stays as it was, and a warning says why. Needs a Tokio runtime.
    ///
    /// # Errors
    ///
    /// If a file can't be read, or nothing can be made of them.
    pub fn start<const N: usize, M>(files: [NamedFile; N], make: M) -> Result<Self, FileError>
    where
        M: Fn(&[NamedFile; N], &[Vec<u8>; N]) -> Result<T, FileError> + Send + 'static,
    {
        let contents = read(&files)?;
        let value = Arc::new(RwLock::new(Arc::new(make(&files, &contents)?)));
        tokio::spawn(watch(Arc::downgrade(&value), Arc::new(files), make, digest(&contents)));
        Ok(Self(value))
    }

    /// The value of now.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Looks at the files until nobody holds the value any more.
async fn watch<T, const N: usize, M>(
    value: Weak<RwLock<Arc<T>>>,
    files: Arc<[NamedFile; N]>,
    make: M,
    mut known: [u8; 32],
) where
    M: Fn(&[NamedFile; N], &[Vec<u8>; N]) -> Result<T, FileError>,
{
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut warned = None;
    loop {
        ticks.tick().await;
        let to_read = Arc::clone(&files);
        // Not here: a file system that hangs must not hold up decisions.
        let Ok(contents) = tokio::task::spawn_blocking(move || read(&to_read)).await else { return };
        let Some(value) = value.upgrade() else { return };
        let changed = contents.and_then(|contents| {
            let found = digest(&contents);
            if found == known { Ok(None) } else { make(&files, &contents).map(|new| Some((found, new))) }
        });
        match changed {
            Ok(None) => warned = None,
            Ok(Some((found, new))) => {
                *value.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                (known, warned) = (found, None);
                let fields: Vec<_> = files.iter().map(|file| file.field).collect();
                tracing::info!("changed, and read again: {}", fields.join(", "));
            }
            // Perhaps one of two files that belong together has been changed so far. Each problem is told once.
            Err(error) if warned.as_ref() != Some(&error) => {
                tracing::warn!("{error}; what was read before stays in use");
                warned = Some(error);
            }
            Err(_) => {}
        }
    }
}

fn read<const N: usize>(files: &[NamedFile; N]) -> Result<[Vec<u8>; N], FileError> {
    let mut contents = [const { Vec::new() }; N];
    for (file, content) in files.iter().zip(&mut contents) {
        *content = std::fs::read(&file.path).map_err(|error| file.error(format_args!("cannot be read: {error}")))?;
    }
    Ok(contents)
}

/// Instead of the contents, which are secret and need not lie around in memory.
fn digest(contents: &[Vec<u8>]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for content in contents {
        digest.update(Sha256::digest(content));
    }
    digest.finalize().into()
}
