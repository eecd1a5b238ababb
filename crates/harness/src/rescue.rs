//! A state that the tool could not write, and left in a file: it is uploaded, so that no created resource is forgotten.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::run::Job;

/// Its name in Terraform and OpenTofu.
pub(crate) const ERRORED: &str = "errored.tfstate";
/// Limit of nested folders that are searched: Terragrunt runs the tool below its cache.
const DEPTH: usize = 6;
/// Limit of entries that are searched.
const ENTRIES: usize = 20_000;

impl Job {
    /// Uploads the state that the tool left, and says what happened to it.
    pub(crate) async fn rescue(&self) -> Option<String> {
        let path = self.input.state_path.as_deref()?;
        let work = self.space.work.clone();
        let mut told = Vec::new();
        for file in tokio::task::spawn_blocking(move || found(&work)).await.unwrap_or_default() {
            told.push(self.hand_in(path, &file).await);
        }
        (!told.is_empty()).then(|| told.join("; "))
    }

    async fn hand_in(&self, path: &str, file: &Path) -> String {
        let begins = format!("the tool could not write its state and left {ERRORED}");
        let state = match fs::read(file) {
            Ok(state) => state,
            Err(error) => return format!("{begins}, which cannot be read: {error}"),
        };
        let mut answer = self.console.write_state(path, state.clone()).await;
        if answer.as_ref().is_ok_and(|answer| answer.status == 423) {
            // Somebody holds the lock. Written without that lock, it becomes a rejected version, which a user can accept.
            answer = self.console.write_state(&format!("{path}?ID={ERRORED}"), state).await;
        }
        let why = match answer {
            Ok(answer) if answer.status.is_success() => {
                return format!("{begins}: it is the stack's state now");
            }
            // Stored as a rejected version: the console returns its id.
            Ok(answer) if answer.status == 409 => return format!("{begins}: {}", answer.message),
            Ok(answer) if answer.status == 423 => "its lock is still held".to_owned(),
            Ok(answer) => format!("{} {}", answer.status, answer.message),
            Err(why) => why,
        };
        // A state contains secrets: no log gets any of it.
        format!(
            "{begins}, which the console did not take ({why}): what was created since is in no state, look for it before \
             the next run"
        )
    }
}

fn found(work: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), ENTRIES);
    let mut folders = vec![(work.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            left = left.saturating_sub(1);
            if left == 0 {
                return found;
            }
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_file() && entry.file_name() == ERRORED {
                found.push(entry.path());
            } else if kind.is_dir() && depth < DEPTH && entry.file_name() != ".terraform" {
                folders.push((entry.path(), depth + 1));
            }
        }
    }
    found
}
