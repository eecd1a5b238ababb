//! Folders and files that only the process' own user may read.

use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

/// What group and others may do.
const OTHERS: u32 = 0o077;

/// Makes a folder, and those above it that are missing, with access for their owner only. One that exists is tightened.
///
/// # Errors
/// When it cannot be made, or is no folder.
pub fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    tighten(path)
}

/// Makes an empty file that only its owner may read. One that exists keeps its content and is tightened.
///
/// # Errors
/// When it cannot be made.
pub fn private_file(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => tighten(path),
        Err(error) => Err(error),
    }
}

/// Takes from group and others what they may do with a file or folder, if it is there and is ours. One of another owner
/// is left as it is and told in the log: a volume may have been made for us with permissions that we cannot change.
///
/// # Errors
/// When the file cannot be looked at. That its permissions cannot be changed is told in the log.
pub fn tighten(path: &Path) -> io::Result<()> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mode = found.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let done = if found.uid() == rustix::process::geteuid().as_raw() {
        fs::set_permissions(path, Permissions::from_mode(mode & 0o7777 & !OTHERS))
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"))
    };
    match done {
        Ok(()) => {
            tracing::info!(path = %path.display(), "took access to this from other users");
        }
        Err(error) => {
            tracing::warn!(
                path = %path.display(), mode = format!("{:o}", mode & 0o7777), error = %error,
                "other users may have access to this, and it cannot be taken from them: change its owner or mode"
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn what_is_made_is_private_and_what_exists_is_tightened() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b/c");
        private_folder(&deep).unwrap();
        assert_eq!((mode(&deep), mode(&root.path().join("a"))), (0o700, 0o700));
        let file = deep.join("file");
        private_file(&file).unwrap();
        assert_eq!(mode(&file), 0o600);

        fs::write(&file, "kept").unwrap();
        for (given, left) in [(0o644, 0o600), (0o666, 0o600), (0o755, 0o700), (0o400, 0o400), (0o070, 0)] {
            fs::set_permissions(&file, Permissions::from_mode(given)).unwrap();
            private_file(&file).unwrap();
            assert_eq!(mode(&file), left, "{given:o}");
        }
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
        // A volume whose files belong to a group keeps the mark of that.
        fs::set_permissions(&deep, Permissions::from_mode(0o2775)).unwrap();
        private_folder(&deep).unwrap();
        assert_eq!(mode(&deep), 0o2700);
        tighten(&deep.join("absent")).unwrap();
        assert!(private_folder(&file).is_err(), "a file is no folder");
    }

    /// Only who may give files away can make one of another owner.
    #[test]
    fn what_belongs_to_somebody_else_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let others = rustix::process::geteuid().as_raw() + 1;
        if std::os::unix::fs::chown(&file, Some(others), None).is_err() {
            return;
        }
        private_file(&file).unwrap();
        assert_eq!(mode(&file), 0o644);
    }
}
