//! What use cases need of the engine that runs automations.

use std::collections::BTreeMap;

use async_trait::async_trait;
use plural_core::Result;
use plural_core::pr_automation_spec::PrAutomationSpec;
use serde_json::{Map, Value};

/// What stands at a path of a repository.
#[derive(Clone, PartialEq, Eq)]
pub enum ScaffoldEntry {
    /// A file, with its content as far as the automation looks at it.
    File {
        /// Its content.
        bytes: Vec<u8>,
        /// It may be run.
        executable: bool,
    },
    /// A link, or another repository: nothing is read or written through it.
    Link,
}

/// A run of an automation. It has no `Debug`: answers may be secret.
pub struct ScaffoldRun {
    /// What it does.
    pub spec: PrAutomationSpec,
    /// What was answered, and checked before.
    pub answers: Map<String, Value>,
    /// The repository.
    pub tree: BTreeMap<String, ScaffoldEntry>,
    /// The folder of external templates.
    pub external: BTreeMap<String, ScaffoldEntry>,
    /// The chart that is unpacked, as charts are published.
    pub chart: Option<Vec<u8>>,
    /// Milliseconds since 1970-01-01 UTC that filters of time see.
    pub clock_ms: i64,
    /// What random filters draw from: with the same one, the same comes out.
    pub seed: String,
}

/// What an automation makes of a repository.
#[derive(Clone, PartialEq, Eq)]
pub struct Scaffolded {
    /// Paths and what they hold from then on; nothing where they are taken away.
    pub changes: BTreeMap<String, Option<ScaffoldEntry>>,
    /// Title of the pull request. No secret is in it.
    pub title: String,
    /// Its body. No secret is in it.
    pub message: String,
    /// Destinations whose condition did not hold.
    pub skipped: Vec<String>,
    /// What a person should look at. No answer is in it.
    pub warnings: Vec<String>,
}

/// Trees to merge: the files that matter of each.
pub struct ScaffoldMerge {
    /// What was made.
    pub base: BTreeMap<String, ScaffoldEntry>,
    /// What is to be made of it.
    pub theirs: BTreeMap<String, ScaffoldEntry>,
    /// What became of it.
    pub ours: BTreeMap<String, ScaffoldEntry>,
}

/// What a merge makes of the files that are there.
#[derive(Clone, PartialEq, Eq)]
pub struct ScaffoldMerged {
    /// Paths and what they hold from then on; nothing where they are taken away.
    pub changes: BTreeMap<String, Option<ScaffoldEntry>>,
    /// What a person has to settle, by path.
    pub conflicts: BTreeMap<String, ScaffoldConflict>,
}

/// Why a file is not merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaffoldConflict {
    /// Both changed the same lines; the file holds both between markers.
    Lines,
    /// Both changed it, and it is no text; it is kept as it is there.
    Binary,
    /// It is to be changed, and is gone; it stays away.
    DeletedHere,
    /// It is to be taken away, and was changed; it stays.
    ChangedHere,
    /// Both made it, differently; the file holds both between markers.
    BothMade,
    /// Both changed it, and comparing it would take too long; it is kept as it is there.
    TooLarge,
}

impl ScaffoldConflict {
    /// In words.
    pub const fn told(self) -> &'static str {
        match self {
            Self::Lines => "both changed the same lines",
            Self::Binary => "both changed it, and it is no text",
            Self::DeletedHere => "it is gone, and the new version changes it",
            Self::ChangedHere => "it was changed, and the new version takes it away",
            Self::BothMade => "both made it, differently",
            Self::TooLarge => "both changed it, and it is too large to be compared",
        }
    }
}

/// Runs automations.
#[async_trait]
pub trait Scaffolds: Send + Sync + 'static {
    /// What an automation makes; or why it makes nothing, in words that hold no secret. Bounded in time and memory, and off the threads that
    /// answer requests.
    ///
    /// # Errors
    /// `Unavailable` when too many run already, or the disk is full.
    async fn run(&self, run: ScaffoldRun) -> Result<std::result::Result<Scaffolded, String>>;

    /// Brings files from what was made to what is to be made, with what became of them; or why not, in words. Off the threads that answer
    /// requests.
    ///
    /// # Errors
    /// `Unavailable` when too many run already, or the disk is full.
    async fn merge(&self, merge: ScaffoldMerge) -> Result<std::result::Result<ScaffoldMerged, String>>;

    /// The difference of a file, as `git diff` shows it.
    fn difference(&self, path: &str, before: Option<&ScaffoldEntry>, after: Option<&ScaffoldEntry>)
    -> String;
}
