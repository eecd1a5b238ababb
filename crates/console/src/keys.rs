//! Keys that the console keeps in files: made at first start, readable by its own user only.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use plural_app::secret::random;
use plural_kit::tighten;
use secrecy::SecretString;

use crate::StartError;

/// The keys of a file, the one that wraps first; makes the file with a random key when `make` and it does not exist.
pub(crate) fn file(file: &Path, make: bool) -> Result<Vec<[u8; 32]>, StartError> {
    parse(&read_or_make(file, make)?)
        .map_err(|reason| StartError::Key { file: file.display().to_string(), reason })
}

/// The keys of a text, one a line: at least one.
pub(crate) fn parse(text: &str) -> Result<Vec<[u8; 32]>, String> {
    let mut keys = Vec::new();
    for (index, line) in text.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
        let bytes = STANDARD.decode(line).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let Some(key) = bytes else {
            return Err(format!("line {} is not 32 bytes in base64", index + 1));
        };
        keys.push(key);
    }
    if keys.is_empty() { Err("it is empty".to_owned()) } else { Ok(keys) }
}

/// A text secret of a file, made at first start.
pub(crate) fn secret(file: &Path) -> Result<SecretString, StartError> {
    let text = read_or_make(file, true)?;
    let text = text.trim();
    if text.is_empty() {
        return Err(StartError::Key { file: file.display().to_string(), reason: "it is empty".to_owned() });
    }
    Ok(SecretString::from(text.to_owned()))
}

/// A password that nobody guesses: 160 random bits in letters and digits.
///
/// # Errors
/// When the system has no randomness.
pub fn random_password() -> plural_core::Result<String> {
    use secrecy::ExposeSecret;
    Ok(plural_app::secret::random_password()?.expose_secret().to_owned())
}

fn read_or_make(file: &Path, make: bool) -> Result<String, StartError> {
    let cannot =
        |reason: io::Error| StartError::Key { file: file.display().to_string(), reason: reason.to_string() };
    if make {
        match fs::symlink_metadata(file) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_key(file).map_err(cannot)?,
            Err(error) => return Err(cannot(error)),
        }
        tighten(file).map_err(cannot)?;
    }
    let about = fs::metadata(file).map_err(cannot)?;
    if about.permissions().mode() & 0o077 != 0 {
        tracing::warn!(file = %file.display(), "a key file is readable by other users: run `chmod 600` on it");
    }
    fs::read_to_string(file).map_err(cannot)
}

/// Writes a random key under another name first: a crash in between must not leave half a key, and two
/// processes that start at once must agree on one.
fn make_key(file: &Path) -> io::Result<()> {
    let key = random::<32>().map_err(|error| io::Error::other(error.to_string()))?;
    let suffix = random::<8>().map_err(|error| io::Error::other(error.to_string()))?;
    let draft = file.with_extension(format!("{:016x}.new", u64::from_le_bytes(suffix)));
    let written = (|| {
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        out.write_all(STANDARD.encode(key).as_bytes())?;
        out.write_all(b"\n")?;
        out.sync_all()?;
        // A link fails when somebody else was first: then theirs is the key.
        match fs::hard_link(&draft, file) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    })();
    let removed = fs::remove_file(&draft);
    written.and(removed)
}
