//! The lock by which one console at a time has a SQLite database.
//!
//! SQLite itself lets several processes write. The store relies on there being one: whatever another one held or ran counts as
//! gone, and what one writes it tells nobody else.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::time::{Duration, Instant};

use sea_orm::sqlx;
use sea_orm::sqlx::sqlite::SqliteConnectOptions;

use crate::database::OpenError;

/// How long a console that is ending is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that are read of a lock file.
const MAX_WORDS: u64 = 512;
const PAUSE: Duration = Duration::from_millis(50);

/// The right to use a SQLite database, until it is dropped or its process ends.
#[derive(Debug)]
pub struct SoleUse {
    _file: File,
}

impl SoleUse {
    /// Takes it before the database is opened; none for a database that consoles may share. Waits five seconds for a console
    /// that is ending.
    ///
    /// # Errors
    /// [`OpenError::InUse`] while another console has it.
    pub async fn take(url: &str) -> Result<Option<Self>, OpenError> {
        // One in memory is refused when it is opened.
        if !url.starts_with("sqlite:") || url.contains(":memory:") || url.contains("mode=memory") {
            return Ok(None);
        }
        let options = SqliteConnectOptions::from_str(url)
            .map_err(|_| OpenError::Url("it is not sqlite:PATH".into()))?;
        let database = options.get_filename();
        let failed = |cause: io::Error| OpenError::Connect(sqlx::Error::Io(cause));
        if let Some(folder) = database.parent().filter(|folder| *folder != Path::new("")) {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        // Beside it: SQLite's own locks on a file end as soon as its process closes any descriptor of that file.
        let mut path = database.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        plural_kit::private_file(&path).map_err(failed)?;
        let mut file = File::options().read(true).write(true).open(&path).map_err(failed)?;
        let until = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    // Also a child of one that was killed has it, until it runs its own program.
                    tokio::time::sleep(PAUSE).await;
                }
                Err(TryLockError::WouldBlock) => {
                    let file_name = database.display().to_string();
                    return Err(OpenError::InUse { file: file_name, holder: holder(&mut file) });
                }
                Err(TryLockError::Error(error)) => {
                    tracing::warn!(
                        path = %path.display(), error = %error,
                        "this file system has no locks: see to it that no other console uses the same database"
                    );
                    break;
                }
            }
        }
        // Only words for a person: the lock holds without them.
        if let Err(error) = sign(&mut file) {
            tracing::debug!(path = %path.display(), error = %error, "cannot write down who has the database");
        }
        Ok(Some(Self { _file: file }))
    }
}

/// Writes into the lock file who has it.
fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    writeln!(file, "process {} on {host}", std::process::id())
}

/// Who has the lock file's lock, by its own words.
fn holder(file: &mut File) -> String {
    let mut words = String::new();
    let is_read = file.take(MAX_WORDS).read_to_string(&mut words).is_ok();
    match words.trim() {
        words if is_read && words.starts_with("process ") && !words.contains(char::is_control) => {
            format!("another console ({words})")
        }
        _ => "another console".to_owned(),
    }
}
