//! The desired state on disk, for a start without a console.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use plural_tunnel::v1;
use prost::Message;

/// What this build writes: the owner, then [`v1::Kept`].
///
/// A contract that changes how work is written changes this name. An earlier build reads what it knows of a message and
/// ignores the rest: it would go on with services without their settings and limits. Without a file it waits for the console.
pub(super) const FILE: &str = "work-2.pb";
/// The same, as builds of contract 1 wrote it.
pub(super) const OF_CONTRACT_1: &str = "work.pb";
/// What builds of contract 0 wrote: the owner, then a [`v1::PollResponse`].
pub(super) const OF_CONTRACT_0: &str = "desired.pb";

/// Whose state a file holds: a hash of the console and the token.
pub(super) type Owner = [u8; 32];

#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    of_contract_1: PathBuf,
    of_contract_0: PathBuf,
}

impl File {
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self {
            path: folder.join(FILE),
            of_contract_1: folder.join(OF_CONTRACT_1),
            of_contract_0: folder.join(OF_CONTRACT_0),
        }
    }

    /// The state that was kept for one of these owners. A file that cannot be read, or that is another owner's, counts as
    /// none.
    pub(super) fn read(&self, owners: &[Owner]) -> Option<v1::Kept> {
        let kept =
            |path: &Path| content(path, owners).and_then(|bytes| v1::Kept::decode(bytes.as_slice()).ok());
        let first = content(&self.of_contract_0, owners)
            .and_then(|bytes| v1::PollResponse::decode(bytes.as_slice()).ok())
            .map(of_contract_0);
        // An agent of an earlier build that has run since leaves a file that is ahead: going back to what was kept before would
        // undo its work.
        [kept(&self.path), kept(&self.of_contract_1), first]
            .into_iter()
            .flatten()
            .reduce(|kept, former| if is_ahead(&former, &kept) { former } else { kept })
    }

    /// Writes the state, whole or not at all.
    pub(super) fn write(&self, owner: Owner, kept: &v1::Kept) -> io::Result<()> {
        let mut bytes = owner.to_vec();
        kept.encode(&mut bytes).map_err(io::Error::other)?;
        let new = self.path.with_extension("new");
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        io::Write::write_all(&mut file, &bytes)?;
        drop(file);
        fs::rename(&new, &self.path)?;
        // An agent of an earlier build that is started again finds nothing and asks for a snapshot. With its own file, it
        // would go on from a place that it left long ago.
        remove(&self.of_contract_1)?;
        remove(&self.of_contract_0)
    }
}

fn content(path: &Path, owners: &[Owner]) -> Option<Vec<u8>> {
    let bytes = fs::read(path).ok()?;
    owners.iter().find_map(|owner| bytes.strip_prefix(owner)).map(<[u8]>::to_vec)
}

fn of_contract_0(answer: v1::PollResponse) -> v1::Kept {
    let v1::PollResponse { cursor, work, .. } = answer.normal();
    v1::Kept { contract: 0, cursor, work, missing: Vec::new() }
}

/// Whether `a` is of a later place than `b` in the same history.
fn is_ahead(a: &v1::Kept, b: &v1::Kept) -> bool {
    match (&a.cursor, &b.cursor) {
        (Some(a), Some(b)) => a.epoch == b.epoch && a.sequence > b.sequence,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

/// A file that is not there is removed.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
