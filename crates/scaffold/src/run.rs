//! Runs an automation.

use std::collections::BTreeMap;

use plural_core::form::{self, FieldErrors, Known, QuestionType};
use plural_render::{Drawing, Tree, TreeLimits, expand_with, lua};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    automation::{Automation, Script},
    edit::{ListMerge, merge},
    files::{Entry, Files},
    regexes::quoted,
};

mod creates;
mod deletes;
mod harmless;
mod updates;
mod vendor;

/// Longest title, in characters.
const MAX_TITLE: usize = 250;
/// Longest message, in bytes.
const MAX_MESSAGE: usize = 60_000;
/// Shortest secret that is looked for in messages.
const MIN_SECRET: usize = 4;
/// What stands for a secret in title and message.
const HIDDEN: &str = "********";

/// What a run may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Files that are rendered or changed.
    pub files: usize,
    /// Bytes that are read and written together.
    pub bytes: usize,
    /// Bytes of one file that is rendered or changed.
    pub file_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { files: 5_000, bytes: 256 << 20, file_bytes: 4 << 20 }
    }
}

/// What is asked of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Request {
    /// The automation.
    pub automation: Automation,
    /// What was answered.
    pub answers: Map<String, Value>,
    /// More context, which the console gives and nobody answers (`pipeline`).
    pub context: Map<String, Value>,
    /// Names that exist; without it nothing is looked up, as offline.
    pub known: Option<Known>,
    /// The repository that is changed.
    pub tree: Files,
    /// The repository of templates.
    pub external: Files,
    /// The chart of `vendor.helm`: a gzipped tar.
    pub chart: Option<crate::files::File>,
    /// Milliseconds since 1970-01-01 UTC, for filters of time.
    pub clock_ms: i64,
    /// What random filters draw from: secret, and the same for each run of one instance.
    pub seed: String,
    /// What it may use.
    pub limits: Limits,
}

/// What a run makes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Paths and what they hold after it; nothing where they are taken away.
    pub changes: BTreeMap<String, Option<Entry>>,
    /// Title of the pull request. No secret is in it.
    pub title: String,
    /// Its body. No secret is in it.
    pub message: String,
    /// Destinations whose condition did not hold.
    pub skipped: Vec<String>,
    /// What a person should look at. No answer is in it.
    pub warnings: Vec<String>,
}

/// Why there are no changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum ScaffoldError {
    /// Answers are none; by field.
    #[error("{}", form::told(.0))]
    Answers(FieldErrors),
    /// A step failed.
    #[error("{step}: {message}")]
    Step {
        /// What was done: `creates.templates[0] (charts/app.yaml)`.
        step: String,
        /// What is wrong. Holds no secret.
        message: String,
    },
}

/// Runs the automation of `request`: script, vendored chart, creates, updates, deletes.
///
/// # Errors
/// See [`ScaffoldError`]; then nothing is changed.
pub fn run(request: &Request) -> Result<Outcome, ScaffoldError> {
    let mut context = request.context.clone();
    let answers = form::context(&request.automation.configuration, &request.answers, request.known.as_ref())
        .map_err(ScaffoldError::Answers)?;
    let secrets = secrets(&request.automation, &answers);
    context.extend(answers);
    let mut run = Run {
        request,
        automation: request.automation.clone(),
        given: context.clone(),
        context,
        tree: request.tree.clone(),
        secrets,
        files_left: request.limits.files,
        bytes_left: request.limits.bytes,
        outcome: Outcome::default(),
    };
    let done = run.all();
    let Run { tree, secrets, mut outcome, .. } = run;
    match done {
        Ok(()) => {
            outcome.changes = tree.changes_since(&request.tree);
            Ok(outcome)
        }
        Err(Failure { step, message }) => {
            Err(ScaffoldError::Step { step: without(&secrets, &step), message: without(&secrets, &message) })
        }
    }
}

fn secrets(automation: &Automation, context: &Map<String, Value>) -> Vec<String> {
    let passwords =
        automation.configuration.iter().filter(|question| question.kind == QuestionType::Password);
    let mut found: Vec<String> = passwords
        .filter_map(|question| context.get(&question.name)?.as_str())
        .filter(|secret| secret.len() >= MIN_SECRET)
        // Regexes and errors quote what they are about.
        .flat_map(|secret| [secret.to_owned(), quoted(secret)])
        .flat_map(|secret| {
            let shown = format!("{secret:?}");
            let inside = shown.get(1..shown.len() - 1).unwrap_or_default().to_owned();
            [secret, inside]
        })
        .collect();
    // The longest first: one may hold another.
    found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    found
}

fn without(secrets: &[String], text: &str) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), HIDDEN))
}

struct Failure {
    step: String,
    message: String,
}

type Done<T = ()> = Result<T, Failure>;

fn failed(step: impl Into<String>, message: impl Into<String>) -> Failure {
    Failure { step: step.into(), message: message.into() }
}

struct Run<'r> {
    request: &'r Request,
    automation: Automation,
    /// What was given before a script ran.
    given: Map<String, Value>,
    context: Map<String, Value>,
    tree: Files,
    secrets: Vec<String>,
    files_left: usize,
    bytes_left: usize,
    outcome: Outcome,
}

impl Run<'_> {
    fn all(&mut self) -> Done {
        if let Some(script) = self.automation.lua.clone() {
            self.script(&script)?;
        }
        vendor::run(self)?;
        creates::run(self)?;
        updates::run(self)?;
        deletes::run(self)?;
        self.words()
    }

    /// Counts a file that is rendered or changed, and its bytes.
    fn pay(&mut self, step: &str, bytes: usize) -> Done {
        let Limits { files, bytes: all, file_bytes } = self.request.limits;
        if bytes > file_bytes {
            return Err(failed(step, format!("a file is larger than {file_bytes} bytes")));
        }
        self.files_left = self
            .files_left
            .checked_sub(1)
            .ok_or_else(|| failed(step, format!("the automation touches more than {files} files")))?;
        self.scan(step, bytes, all)
    }

    /// Counts bytes that are read.
    fn scan(&mut self, step: &str, bytes: usize, all: usize) -> Done {
        self.bytes_left = self
            .bytes_left
            .checked_sub(bytes)
            .ok_or_else(|| failed(step, format!("the automation reads and writes more than {all} bytes")))?;
        if plural_render::may_go_on(0) { Ok(()) } else { Err(failed(step, "the automation was stopped")) }
    }

    /// A template over `context`.
    fn expand(&self, step: &str, path: &str, source: &str, context: &Map<String, Value>) -> Done<String> {
        if !source.contains("{{") && !source.contains("{%") {
            return Ok(source.to_owned());
        }
        let data = json!({ "context": context });
        let drawing =
            Drawing { data: &data, clock_ms: self.request.clock_ms, seed: self.request.seed.as_bytes() };
        expand_with(path, source.as_bytes(), &drawing).map_err(|problem| {
            let at = if problem.line > 0 { format!("line {}: ", problem.line) } else { String::new() };
            failed(step, format!("{at}{}", problem.message))
        })
    }

    /// A path that is a template.
    fn path(&self, step: &str, source: &str, context: &Map<String, Value>) -> Done<String> {
        let text = self.expand(step, step, source, context)?;
        self.clean(step, text.trim())
    }

    /// A path of the repository.
    fn clean(&self, step: &str, path: &str) -> Done<String> {
        crate::files::clean_path(path).map_err(|why| {
            // What is wrong shows the beginning of the path, which may be that of a secret.
            let is_secret = self.secrets.iter().any(|secret| path.contains(secret.as_str()));
            failed(
                step,
                if is_secret {
                    "the path is not valid; it is not shown, because it holds a secret".to_owned()
                } else {
                    why
                },
            )
        })
    }

    fn write(&mut self, step: &str, path: &str, entry: Entry) -> Done {
        self.tree.insert(path, entry).map_err(|why| failed(step, why))
    }

    fn script(&mut self, script: &Script) -> Done {
        let step = "lua";
        let from = if script.external { &self.request.external } else { &self.tree };
        let folder = match &script.folder {
            None => String::new(),
            Some(folder) if folder.trim_matches(['/', '.']).is_empty() => String::new(),
            Some(folder) => crate::files::clean_path(folder).map_err(|why| failed(step, why))?,
        };
        let mut scripts = Vec::new();
        if script.folder.is_some() {
            let is_lua = |path: &&str| path.strip_suffix(".lua").is_some();
            for path in from.below(&folder).into_iter().filter(is_lua) {
                let Some(file) = from.file(path) else { continue };
                let text = String::from_utf8(file.bytes.clone())
                    .map_err(|_| failed(step, format!("{path} is not UTF-8")))?;
                scripts.push((path.to_owned(), text));
            }
            if scripts.is_empty() && script.script.is_none() {
                return Err(failed(step, format!("the folder {folder:?} holds no *.lua")));
            }
        }
        if let Some(text) = &script.script {
            scripts.push(("lua.script".to_owned(), text.clone()));
        }
        let files = from.iter().filter_map(|(path, entry)| match entry {
            Entry::File(file) => Some((path, file.bytes.as_slice())),
            Entry::Link(_) => None,
        });
        let tree = Tree::from_files(files).map_err(|error| failed(step, error.to_string()))?;
        let mut data = Map::new();
        data.insert("context".to_owned(), Value::Object(self.context.clone()));
        data.insert("prAutomation".to_owned(), Value::Object(Map::new()));
        let asked = ["context", "prAutomation"];
        let found = lua::lua_globals(&tree, &folder, &data, &scripts, &asked, lua::LuaLimits::default())
            .map_err(|error| failed(step, error.to_string()))?;
        let mut found = found.into_iter();
        match found.next() {
            Some(Value::Object(given)) => {
                // What the script took in came from the context: lists of it are not added to themselves.
                let mut context = Value::Object(std::mem::take(&mut self.context));
                merge(&mut context, &Value::Object(given), &ListMerge::Append);
                if let Value::Object(context) = context {
                    self.context = context;
                }
            }
            Some(Value::Null) | None => {}
            Some(_) => return Err(failed(step, "the global context is no table of names")),
        }
        match found.next() {
            Some(given @ Value::Object(_)) => {
                let mut all = serde_json::to_value(&self.automation)
                    .map_err(|error| failed(step, format!("the automation has no JSON: {error}")))?;
                merge(&mut all, &given, &ListMerge::Append);
                self.automation = serde_json::from_value(all).map_err(|error| {
                    failed(step, format!("the global prAutomation is no automation: {error}"))
                })?;
            }
            Some(Value::Null) | None => {}
            Some(_) => return Err(failed(step, "the global prAutomation is no table of names")),
        }
        Ok(())
    }

    /// Title and message, over a context without secrets.
    fn words(&mut self) -> Done {
        let mut context = self.context.clone();
        for question in &self.automation.configuration {
            if question.kind == QuestionType::Password
                && let Some(value) = context.get_mut(&question.name)
                && !value.is_null()
            {
                *value = Value::String(HIDDEN.to_owned());
            }
        }
        let title = self.expand("title", "title", &self.automation.title, &context)?;
        let message = self.expand("message", "message", &self.automation.message, &context)?;
        // A title is one line, whatever an answer holds.
        let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
        let title: String = title.chars().filter(|c| !c.is_control()).take(MAX_TITLE).collect();
        if message.len() > MAX_MESSAGE {
            return Err(failed("message", format!("it is longer than {MAX_MESSAGE} bytes")));
        }
        self.outcome.title = without(&self.secrets, &title);
        self.outcome.message = without(&self.secrets, &message);
        Ok(())
    }
}

/// The context with all texts in it changed.
fn with_texts(context: &Map<String, Value>, change: &dyn Fn(&str) -> String) -> Map<String, Value> {
    fn changed(value: &Value, change: &dyn Fn(&str) -> String) -> Value {
        match value {
            Value::String(text) => Value::String(change(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| changed(item, change)).collect()),
            Value::Object(entries) => Value::Object(with_texts(entries, change)),
            other => other.clone(),
        }
    }
    context.iter().map(|(key, value)| (key.clone(), changed(value, change))).collect()
}

/// How large a tree of templates may be.
pub(crate) fn tree_limits() -> TreeLimits {
    TreeLimits { entries: 10_000, bytes: 64 << 20, path_bytes: 1024 }
}
