//! PR automations: templates, edits, scripts, regexes and merges run in a process of their own that reaches nothing. The process that
//! holds the keys never runs them: where it cannot start another one, none is run.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use plural_app::ports::scaffolds::{
    ScaffoldConflict, ScaffoldEntry, ScaffoldMerge, ScaffoldMerged, ScaffoldRun, Scaffolded, Scaffolds,
};
use plural_core::{Error, Result};
use plural_sandbox::{Limits, SandboxError};
use plural_scaffold::{
    ANSWER_BYTES, MERGE_FILE, Merge, Outcome, REQUEST_FILE, Request, ScaffoldError,
    files::{Entry, File, Files},
    read_answer, read_merged,
    upgrade::{Conflict, Merged},
};
use serde::Serialize;
use similar::TextDiff;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{ChildProgram, child_program::fresh_folder};

/// Runs at once: each takes a processor, and a few times the memory of the repository.
const AT_ONCE: usize = 2;
/// Bytes of a file whose difference is shown.
const DIFFERENCE: usize = 1 << 20;
/// How long lines of a file are compared before the rest of it counts as changed.
const DIFFERENCE_TIME: Duration = Duration::from_millis(200);
/// Lines that are merged at once.
const MERGED_LINES: usize = 200_000;
/// How long one waits for its turn.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs automations.
pub struct Scaffolder {
    program: Option<ChildProgram>,
    limits: Limits,
    /// Requests lie here while a process runs.
    folder: PathBuf,
    turns: Arc<Semaphore>,
}

impl Scaffolder {
    /// What an automation may use: time, and memory of its process.
    pub const LIMITS: Limits = Limits {
        deadline: Duration::from_secs(30),
        cpu: Duration::from_secs(30),
        memory_bytes: 2 << 30,
        output_bytes: ANSWER_BYTES,
    };

    /// Keeps requests in `folder` while they run, and removes what an earlier console left there. Without a program, automations are
    /// refused.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn open(folder: PathBuf, program: Option<ChildProgram>, limits: Limits) -> io::Result<Self> {
        fresh_folder(&folder)?;
        Ok(Self { program, limits, folder, turns: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    /// What the request changes, or why it changes nothing. Off the threads that answer requests.
    ///
    /// # Errors
    /// `Unavailable` when too many automations run already, or the disk is full.
    pub async fn run(&self, request: Request) -> Result<std::result::Result<Outcome, ScaffoldError>> {
        Box::pin(self.ask(REQUEST_FILE, request, read_answer)).await
    }

    /// The trees merged, or why they are not. As [`Self::run`].
    ///
    /// # Errors
    /// `Unavailable` when too many automations run already, or the disk is full.
    pub async fn merge_trees(&self, merge: Merge) -> Result<std::result::Result<Merged, ScaffoldError>> {
        self.ask(MERGE_FILE, merge, read_merged).await
    }

    async fn ask<R: Serialize + Send + 'static, A: Send + 'static>(
        &self,
        file: &'static str,
        request: R,
        read: fn(&[u8]) -> std::result::Result<A, ScaffoldError>,
    ) -> Result<std::result::Result<A, ScaffoldError>> {
        let Some(program) = self.program.clone() else {
            return Ok(Err(failed(
                "automations run in a confined process of their own, which this console cannot start: run it on Linux".to_owned(),
            )));
        };
        let turn = self.turn().await?;
        let (folder, limits) = (self.folder.clone(), self.limits);
        let ran = tokio::task::spawn_blocking(move || {
            // Given back when the work ends, also where nobody waits for it any more.
            let _turn = turn;
            let printed = confined(&program, &folder, (file, &request), &limits)?;
            Ok::<_, Error>(printed.and_then(|printed| read(&printed)))
        });
        ran.await.map_err(|cause| Error::internal("running an automation", cause))?
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit> {
        let busy = || Error::unavailable("too many automations run already; retry in a few seconds");
        tokio::time::timeout(PATIENCE, Arc::clone(&self.turns).acquire_owned())
            .await
            .map_err(|_| busy())?
            .map_err(|_| busy())
    }
}

#[async_trait]
impl Scaffolds for Scaffolder {
    async fn run(&self, run: ScaffoldRun) -> Result<std::result::Result<Scaffolded, String>> {
        let ScaffoldRun { spec, answers, tree, external, chart, clock_ms, seed } = run;
        // What is stored of an automation is what the engine takes.
        let automation = serde_json::to_value(&spec).and_then(serde_json::from_value);
        let automation =
            automation.map_err(|cause| Error::internal("handing an automation to its engine", cause))?;
        let (tree, external) = (files(tree), files(external));
        let chart = chart.map(|bytes| File { bytes, executable: false });
        let request =
            Request { automation, answers, tree, external, chart, clock_ms, seed, ..Request::default() };
        let Outcome { changes, title, message, skipped, warnings } =
            match Box::pin(Scaffolder::run(self, request)).await? {
                Ok(outcome) => outcome,
                Err(error) => return Ok(Err(error.to_string())),
            };
        let changes = changes.into_iter().map(|(path, after)| (path, after.map(entry))).collect();
        Ok(Ok(Scaffolded { changes, title, message, skipped, warnings }))
    }

    async fn merge(&self, merge: ScaffoldMerge) -> Result<std::result::Result<ScaffoldMerged, String>> {
        let ScaffoldMerge { base, theirs, ours } = merge;
        let trees = [files(base), files(theirs), files(ours)];
        let lines: usize = trees.iter().map(lines_of).sum();
        if lines > MERGED_LINES {
            return Ok(Err(format!(
                "there are {lines} lines to merge, and {MERGED_LINES} are merged at most"
            )));
        }
        let [base, theirs, ours] = trees;
        let merged = Box::pin(self.merge_trees(Merge { base, theirs, ours })).await?;
        let Merged { changes, conflicts } = match merged {
            Ok(merged) => merged,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let conflict = |conflict| match conflict {
            Conflict::Lines => ScaffoldConflict::Lines,
            Conflict::Binary => ScaffoldConflict::Binary,
            Conflict::DeletedHere => ScaffoldConflict::DeletedHere,
            Conflict::ChangedHere => ScaffoldConflict::ChangedHere,
            Conflict::BothMade => ScaffoldConflict::BothMade,
            Conflict::TooLarge => ScaffoldConflict::TooLarge,
        };
        Ok(Ok(ScaffoldMerged {
            changes: changes.into_iter().map(|(path, after)| (path, after.map(entry))).collect(),
            conflicts: conflicts.into_iter().map(|(path, of)| (path, conflict(of))).collect(),
        }))
    }

    fn difference(
        &self,
        path: &str,
        before: Option<&ScaffoldEntry>,
        after: Option<&ScaffoldEntry>,
    ) -> String {
        let text = |entry: Option<&ScaffoldEntry>| match entry {
            None => Some(String::new()),
            Some(ScaffoldEntry::File { bytes, .. }) if bytes.len() <= DIFFERENCE => {
                String::from_utf8(bytes.clone()).ok()
            }
            Some(ScaffoldEntry::File { .. } | ScaffoldEntry::Link) => None,
        };
        let side = |letter: char, entry: Option<&ScaffoldEntry>| match entry {
            None => "/dev/null".to_owned(),
            Some(_) => format!("{letter}/{path}"),
        };
        let (old, new) = (side('a', before), side('b', after));
        match (text(before), text(after)) {
            (Some(before), Some(after)) => TextDiff::configure()
                .timeout(DIFFERENCE_TIME)
                .diff_lines(before.as_str(), after.as_str())
                .unified_diff()
                .header(&old, &new)
                .to_string(),
            _ => format!("Binary files {old} and {new} differ\n"),
        }
    }
}

/// A tree as the engine takes it. A path that automations may not have is left alone.
fn files(tree: BTreeMap<String, ScaffoldEntry>) -> Files {
    let mut files = Files::default();
    for (path, entry) in tree {
        let entry = match entry {
            ScaffoldEntry::File { bytes, executable } => Entry::File(File { bytes, executable }),
            ScaffoldEntry::Link => Entry::Link(String::new()),
        };
        let _ = files.insert(&path, entry);
    }
    files
}

fn failed(message: String) -> ScaffoldError {
    ScaffoldError::Step { step: "run".to_owned(), message }
}

fn entry(entry: Entry) -> ScaffoldEntry {
    match entry {
        Entry::File(File { bytes, executable }) => ScaffoldEntry::File { bytes, executable },
        Entry::Link(_) => ScaffoldEntry::Link,
    }
}

fn lines_of(files: &Files) -> usize {
    let lines = |entry: &Entry| match entry {
        Entry::File(file) => file.bytes.split(|byte| *byte == b'\n').count(),
        Entry::Link(_) => 0,
    };
    files.iter().map(|(_, entry)| lines(entry)).sum()
}

/// What a process of its own prints for the request, which is the only file of its folder.
fn confined(
    program: &ChildProgram,
    folder: &Path,
    (file, request): (&str, &impl Serialize),
    limits: &Limits,
) -> Result<std::result::Result<Vec<u8>, ScaffoldError>> {
    // The folder is removed when this ends: the request may hold secrets.
    let input = tempfile::tempdir_in(folder)
        .and_then(|input| {
            // It may be three repositories: it is in memory once.
            let mut file = io::BufWriter::new(fs::File::create(input.path().join(file))?);
            serde_json::to_writer(&mut file, request)?;
            file.flush()?;
            Ok(input)
        })
        // A full disk is no fault of the automation: what waits for it is done later.
        .map_err(|error| {
            Error::unavailable(format!("the request of an automation cannot be laid out: {error}"))
        })?;
    Ok(program.run(input.path(), limits).map_err(|error| {
        failed(match error {
            // What it wrote may hold parts of the request.
            SandboxError::Failed { status, .. } => format!("the automation's process failed ({status})"),
            error => error.to_string(),
        })
    }))
}
