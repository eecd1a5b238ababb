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

/// Runs automations.
#[async_trait]
pub trait Scaffolds: Send + Sync + 'static {
    /// What an automation makes; or why it makes nothing, in words that hold no secret. Bounded in time and memory, and off the threads that
    /// answer requests.
    ///
    /// # Errors
    /// `Unavailable` when too many run already.
    async fn run(&self, run: ScaffoldRun) -> Result<std::result::Result<Scaffolded, String>>;

    /// The difference of a file, as `git diff` shows it.
    fn difference(&self, path: &str, before: Option<&ScaffoldEntry>, after: Option<&ScaffoldEntry>)
    -> String;
}
