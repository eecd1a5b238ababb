//! What an automation makes of a repository at a commit: for a pull request, and for a preview.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{StreamExt as _, future::join, stream};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use plural_core::form::{FormQuestion, answers};
use plural_core::mask::inside_base64;
use plural_core::pr_automation_spec::PrAutomationSpec;
use plural_core::pr_instance::{PrGenerated, PrInstanceFile, PrParts, file_digest};
use plural_core::pr_tree::Needed;
use plural_core::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::app::App;
use crate::jobs::Fetched;
use crate::ports::git::TreeChange;
use crate::ports::git_hosts::{Host, HostCause, HostChange, HostEntry, HostError};
use crate::ports::scaffolds::{ScaffoldEntry, ScaffoldRun, Scaffolded};
use crate::pr_instance_made::AskedChange;

/// The argument with the answers.
pub(crate) const CONTEXT: &str = "context";
/// Limit of files that one run may read: each is a request to the host.
pub(crate) const MAX_FILES: usize = 2_000;
/// Limit of their bytes.
pub(crate) const MAX_BYTES: usize = 64 << 20;
/// Files that are read concurrently.
pub(crate) const AT_ONCE: usize = 8;
/// Least bytes of a secret that is searched for.
const MIN_SECRET: usize = 4;
/// Least characters of the middle of Base64 that are searched for.
const MIN_INSIDE: usize = 6;
/// The characters that many programs leave unescaped in URLs.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The request of a user, with the automation as it was then: each repetition gives the same result. It has no `Debug`.
#[derive(Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) spec: PrAutomationSpec,
    pub(crate) answers: Map<String, Value>,
    pub(crate) seed: String,
    pub(crate) clock_ms: i64,
    /// Templates and modules from elsewhere.
    #[serde(default)]
    pub(crate) parts: PrParts,
    /// For an instance: the change of what was generated before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) change: Option<AskedChange>,
}

/// The sealed form. A change has a different shape: a console of a release without changes cannot read it, and so
/// never writes the new version over the changes of people.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Kept {
    Change {
        #[serde(rename = "changeOf")]
        change_of: Box<Asked>,
    },
    New(Box<Asked>),
}

impl Asked {
    /// The sealed form as JSON.
    pub(crate) fn into_json(self) -> Result<Vec<u8>> {
        let asked = Box::new(self);
        let kept = if asked.change.is_some() { Kept::Change { change_of: asked } } else { Kept::New(asked) };
        serde_json::to_vec(&kept).map_err(|_| Error::internal("writing what was asked", "it has no JSON"))
    }

    /// Reads the sealed form.
    pub(crate) fn from_json(json: &[u8]) -> Result<Self> {
        // The parser's own message could quote an answer.
        match serde_json::from_slice(json) {
            Ok(Kept::Change { change_of: asked } | Kept::New(asked)) => Ok(*asked),
            Err(_) => Err(Error::internal("reading what was asked", "it is not what was sealed")),
        }
    }
}

/// The commits that an automation reads.
pub(crate) struct Commits<'a> {
    /// The commit of the files that it changes.
    pub(crate) files: &'a str,
    /// The commit of its own templates.
    pub(crate) templates: &'a str,
}

/// The changed files, with their content before.
pub(crate) struct Made {
    pub(crate) before: BTreeMap<String, ScaffoldEntry>,
    pub(crate) after: Scaffolded,
    /// What was generated, for the instance's record, if that differs from the changes.
    pub(crate) generated: Option<PrGenerated>,
    /// The conflicts that a person has to resolve: one line per file.
    pub(crate) conflicts: Vec<String>,
}

/// Why it stops.
pub(crate) enum Stop {
    /// A final failure, in words for the user.
    Failed(String),
    /// A temporary failure: the host may succeed later.
    Later(String),
    /// A failure of the console itself.
    Ours(Error),
}

impl From<HostError> for Stop {
    fn from(error: HostError) -> Self {
        match error.cause {
            HostCause::Later => Self::Later(error.message),
            HostCause::NotFound | HostCause::Moved | HostCause::Conflict | HostCause::Refused => {
                Self::Failed(error.message)
            }
        }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error {
            error @ (Error::Invalid { .. }
            | Error::Answers { .. }
            | Error::Forbidden { .. }
            | Error::NotFound { .. }) => Self::Failed(error.to_string()),
            error @ (Error::Unavailable { .. }
            | Error::Internal { .. }
            | Error::Conflict { .. }
            | Error::Unauthenticated) => Self::Ours(error),
        }
    }
}

impl From<Stop> for Error {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Failed(why) => Self::conflict(why),
            Stop::Later(why) => Self::unavailable(why),
            Stop::Ours(error) => error,
        }
    }
}

impl App {
    /// Runs the automation of a request on a commit of a repository.
    pub(crate) async fn pull_request_made(
        &self,
        host: &Arc<dyn Host>,
        repository: &str,
        commit: &str,
        asked: &Asked,
    ) -> Result<Made, Stop> {
        match &asked.change {
            None => {
                let on = Commits { files: commit, templates: commit };
                Box::pin(self.pull_request_run(host, repository, &on, asked)).await
            }
            Some(change) => Box::pin(self.pr_instance_made(host, repository, commit, asked, change)).await,
        }
    }

    /// Runs an automation on a commit of a repository. Its files and its parts from elsewhere are fetched concurrently.
    pub(crate) async fn pull_request_run(
        &self,
        host: &Arc<dyn Host>,
        repository: &str,
        on: &Commits<'_>,
        asked: &Asked,
    ) -> Result<Made, Stop> {
        let files = Box::pin(found(host, repository, on, asked));
        let fetched = Box::pin(self.pull_request_fetched(&asked.spec, &asked.parts));
        let (before, fetched) = join(files, fetched).await;
        let (before, Fetched { external, chart }) = (before?, fetched?);
        let run = ScaffoldRun {
            spec: asked.spec.clone(),
            answers: asked.answers.clone(),
            tree: before.clone(),
            external,
            chart,
            clock_ms: asked.clock_ms,
            seed: asked.seed.clone(),
        };
        let after = self.scaffolds.run(run).await?.map_err(Stop::Failed)?;
        let made = Made { before, after, generated: None, conflicts: Vec::new() };
        if let Some((name, path)) = leaked(&asked.spec.configuration, &asked.answers, &made)? {
            return Err(Stop::Failed(format!(
                "the answer to {name} would be written to {path}, where everybody reads it: have the automation name a Secret instead"
            )));
        }
        Ok(made)
    }
}

impl Made {
    /// Refuses a result without changes.
    pub(crate) fn check(&self, repository: &str) -> Result<(), Stop> {
        if self.after.changes.is_empty() {
            return Err(Stop::Failed(format!("nothing changes: {repository} has all of it already")));
        }
        Ok(())
    }

    /// The changes as they are recorded.
    pub(crate) fn files(&self) -> Vec<PrInstanceFile> {
        let digest = |entry: &ScaffoldEntry| match entry {
            ScaffoldEntry::File { bytes, executable: _ } => file_digest(bytes),
            ScaffoldEntry::Link => file_digest(b""),
        };
        let one = |(path, after): (&String, &Option<ScaffoldEntry>)| PrInstanceFile {
            path: path.clone(),
            digest: after.as_ref().map(digest),
            is_new: after.is_some() && !self.before.contains_key(path),
        };
        self.after.changes.iter().map(one).collect()
    }

    /// The changes as git takes them.
    pub(crate) fn tree(&self) -> Vec<TreeChange> {
        let one = |(path, after): (&String, &Option<ScaffoldEntry>)| {
            let (content, executable) = match after {
                Some(ScaffoldEntry::File { bytes, executable }) => (Some(bytes.clone()), *executable),
                Some(ScaffoldEntry::Link) => (Some(Vec::new()), false),
                None => (None, false),
            };
            TreeChange { path: path.clone(), content, executable }
        };
        self.after.changes.iter().map(one).collect()
    }

    /// The changes as a host takes them.
    pub(crate) fn changes(&self) -> Vec<HostChange> {
        let content = |entry: &ScaffoldEntry| match entry {
            ScaffoldEntry::File { bytes, executable: _ } => bytes.clone(),
            ScaffoldEntry::Link => Vec::new(),
        };
        let one = |(path, after): (&String, &Option<ScaffoldEntry>)| HostChange {
            path: path.clone(),
            content: after.as_ref().map(content),
            executable: match (self.before.get(path), after) {
                (
                    Some(ScaffoldEntry::File { executable: was, .. }),
                    Some(ScaffoldEntry::File { executable, .. }),
                ) => (was != executable).then_some(*executable),
                // A new file is executable only if the automation says so.
                (None | Some(ScaffoldEntry::Link), Some(ScaffoldEntry::File { executable, .. })) => {
                    executable.then_some(true)
                }
                (_, None | Some(ScaffoldEntry::Link)) => None,
            },
        };
        self.after.changes.iter().map(one).collect()
    }
}

/// The files of a commit that an automation may read, by their folders. Files that it only lists are present with
/// empty content.
async fn found(
    host: &Arc<dyn Host>,
    repository: &str,
    on: &Commits<'_>,
    asked: &Asked,
) -> Result<BTreeMap<String, ScaffoldEntry>, Stop> {
    let needed = Needed::of(&asked.spec, &asked.answers)?;
    let mut before = BTreeMap::new();
    let mut wanted = Vec::new();
    let tree = host.tree(repository, on.files, needed.within()).await?.into_iter();
    let mut listed: Vec<(String, HostEntry, &str)> =
        tree.map(|(path, entry)| (path, entry, on.files)).collect();
    if on.templates != on.files {
        listed.retain(|(path, ..)| !asked.spec.is_own_template(path));
        let tree = host.tree(repository, on.templates, needed.within()).await?.into_iter();
        let own = tree.filter(|(path, _)| asked.spec.is_own_template(path));
        listed.extend(own.map(|(path, entry)| (path, entry, on.templates)));
    }
    for (path, entry, commit) in listed {
        let executable = match entry {
            HostEntry::Link => {
                before.insert(path, ScaffoldEntry::Link);
                continue;
            }
            HostEntry::File => false,
            HostEntry::Executable => true,
        };
        if needed.has(&path) {
            wanted.push((path, executable, commit));
        } else {
            before.insert(path, ScaffoldEntry::File { bytes: Vec::new(), executable });
        }
    }
    if wanted.len() > MAX_FILES {
        let found = wanted.len();
        return Err(Stop::Failed(format!(
            "the automation may look at {found} files of {repository}, and {MAX_FILES} are read at most: have it name folders"
        )));
    }
    let mut reads = Vec::with_capacity(wanted.len());
    for (path, executable, commit) in wanted {
        let (host, repository, commit) = (Arc::clone(host), repository.to_owned(), commit.to_owned());
        reads.push(async move {
            let read = host.read(&repository, &commit, &path).await;
            (path, executable, read)
        });
    }
    let (mut reads, mut left) = (stream::iter(reads).buffer_unordered(AT_ONCE), MAX_BYTES);
    while let Some((path, executable, read)) = reads.next().await {
        let bytes = read?;
        left = left.checked_sub(bytes.len()).ok_or_else(|| {
            Stop::Failed(format!(
                "the automation may look at more than {} MiB of {repository}",
                MAX_BYTES >> 20
            ))
        })?;
        before.insert(path, ScaffoldEntry::File { bytes, executable });
    }
    Ok(before)
}

/// The answers that are secret.
fn secrets(questions: &[FormQuestion], given: &Map<String, Value>) -> Result<Vec<(String, String)>> {
    let all = answers(CONTEXT, questions, given)?.into_iter();
    let secret = all.filter(|answer| answer.is_secret() && answer.value.len() >= MIN_SECRET);
    Ok(secret.map(|answer| (answer.name, answer.value)).collect())
}

/// The first secret answer that a text contains.
pub(crate) fn secret_in(
    questions: &[FormQuestion],
    given: &Map<String, Value>,
    text: &str,
) -> Result<Option<String>> {
    let found = secrets(questions, given)?.into_iter().find(|(_, secret)| text.contains(secret.as_str()));
    Ok(found.map(|(name, _)| name))
}

/// The first secret answer that would be written to a file, and where.
fn leaked(
    questions: &[FormQuestion],
    given: &Map<String, Value>,
    made: &Made,
) -> Result<Option<(String, String)>> {
    for (name, secret) in secrets(questions, given)? {
        let forms = forms_of(&secret);
        let holds = |bytes: &[u8]| {
            forms.iter().any(|form| contains(bytes, form.as_bytes())) || is_in_block(bytes, &secret)
        };
        for (path, after) in &made.after.changes {
            // An error that names the file must not reveal it either.
            if path.contains(&secret) {
                return Ok(Some((name, "the name of a file".to_owned())));
            }
            let Some(ScaffoldEntry::File { bytes, .. }) = after else { continue };
            // A file that contained it before reveals nothing new.
            let was_there =
                matches!(made.before.get(path), Some(ScaffoldEntry::File { bytes, .. }) if holds(bytes));
            if !was_there && holds(bytes) {
                return Ok(Some((name, path.clone())));
            }
        }
    }
    Ok(None)
}

/// The forms of a value in files: plain, in Base64 alone or within other bytes, in hex, in a URL, and with the escapes of JSON, TOML, YAML and
/// HCL.
fn forms_of(secret: &str) -> BTreeSet<String> {
    let escaped = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
    };
    // A text of several lines may span as many lines between quotes.
    let lines: Vec<String> = secret.split('\n').map(escaped).collect();
    let plain = [secret.to_owned(), secret.replace('\'', "''"), escaped(secret), lines.join("\n")];
    let mut forms: BTreeSet<String> = plain.into_iter().collect();
    let of_hcl: Vec<String> =
        forms.iter().map(|form| form.replace("${", "$${").replace("%{", "%%{")).collect();
    forms.extend(of_hcl);
    forms.insert(STANDARD.encode(secret));
    for before in 0..3 {
        let inside = inside_base64(secret, before);
        // Fewer characters would stand in other Base64 by chance.
        if inside.len() >= MIN_INSIDE {
            forms.insert(inside.replace('+', "-").replace('/', "_"));
            forms.insert(inside);
        }
    }
    forms.extend([hex::encode(secret), hex::encode_upper(secret)]);
    for kept in [NON_ALPHANUMERIC, UNRESERVED] {
        let encoded = utf8_percent_encode(secret, kept).to_string();
        forms.insert(encoded.replace("%20", "+"));
        forms.insert(encoded);
    }
    forms
}

/// Whether a file contains a text of several lines with its lines indented, as YAML writes a block.
fn is_in_block(bytes: &[u8], secret: &str) -> bool {
    if !secret.trim().contains('\n') {
        return false;
    }
    let flat = |text: &str| text.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n");
    std::str::from_utf8(bytes).is_ok_and(|text| flat(text).contains(&flat(secret)))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    match (std::str::from_utf8(bytes), std::str::from_utf8(part)) {
        (Ok(text), Ok(part)) => text.contains(part),
        _ => bytes.windows(part.len()).any(|window| window == part),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pr_instance_made::AskedKind;

    fn file(text: &str) -> ScaffoldEntry {
        ScaffoldEntry::File { bytes: text.as_bytes().to_vec(), executable: false }
    }

    #[test]
    fn what_changes_something_is_read_by_nothing_that_knows_no_changes() {
        let asked = |change| Asked {
            spec: PrAutomationSpec::default(),
            answers: json!({"name": "shop"}).as_object().unwrap().clone(),
            seed: "seed".to_owned(),
            clock_ms: 7,
            parts: PrParts::default(),
            change,
        };
        let change = AskedChange {
            spec: PrAutomationSpec::default(),
            answers: Map::new(),
            commit: "a".to_owned(),
            templates: "b".to_owned(),
            seed: "another".to_owned(),
            clock_ms: 3,
            files: vec![],
            parts: None,
            needs_merge: false,
            kind: AskedKind::Upgrade { allow_conflicts: true, overwrite: false },
        };
        let new = asked(None).into_json().unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&new).unwrap()["seed"], "seed", "as it was before");
        assert!(Asked::from_json(&new).unwrap().change.is_none());
        let changing = asked(Some(change)).into_json().unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&changing).unwrap().get("seed"), None);
        let read = Asked::from_json(&changing).unwrap();
        assert_eq!((read.clock_ms, read.change.unwrap().templates.as_str()), (7, "b"));
        assert!(Asked::from_json(b"{\"answers\": {}}").is_err());
    }

    #[test]
    fn a_secret_answer_is_found_wherever_it_would_be_written() {
        let questions: Vec<FormQuestion> = serde_json::from_value(json!([
            {"name": "name", "type": "STRING"}, {"name": "key", "type": "PASSWORD"},
        ]))
        .unwrap();
        let given = json!({"name": "shop", "key": "s3cr3t-key"}).as_object().unwrap().clone();
        let found = |path: &str, before: Option<&str>, after: &str| {
            let before = before.map(|text| (path.to_owned(), file(text))).into_iter().collect();
            let changes = [(path.to_owned(), Some(file(after)))].into();
            let after = Scaffolded {
                changes,
                title: String::new(),
                message: String::new(),
                skipped: vec![],
                warnings: vec![],
            };
            leaked(&questions, &given, &Made { before, after, generated: None, conflicts: vec![] }).unwrap()
        };
        let coded = STANDARD.encode("s3cr3t-key");
        assert_eq!(found("a", None, "key: s3cr3t-key\n"), Some(("key".to_owned(), "a".to_owned())));
        assert_eq!(found("a", None, &coded), Some(("key".to_owned(), "a".to_owned())));
        // As files for registries have it, and addresses with a login.
        for part in ["user:s3cr3t-key", "s3cr3t-key@host", "a:s3cr3t-key", "{\"key\":\"s3cr3t-key\"}"] {
            assert!(found("a", None, &STANDARD.encode(part)).is_some(), "{part}");
        }
        assert_eq!(found("a", None, &STANDARD.encode("user:another-key@host")), None);
        assert!(found("a", None, &hex::encode("s3cr3t-key")).is_some());
        assert!(found("s3cr3t-key.yaml", None, "").is_some());
        assert_eq!(found("a", None, "name: shop\n"), None);
        assert_eq!(found("a", Some("key: s3cr3t-key\n"), "key: s3cr3t-key\nmore: 1\n"), None, "it was there");
        assert_eq!(secret_in(&questions, &given, "add-s3cr3t-key").unwrap().as_deref(), Some("key"));
    }

    #[test]
    fn a_secret_answer_is_found_however_a_file_escapes_it() {
        let secret = "pa\"ss's\\w${ord}\n%{b} é/1";
        let questions: Vec<FormQuestion> =
            serde_json::from_value(json!([{"name": "key", "type": "PASSWORD"}])).unwrap();
        let given = json!({"key": secret}).as_object().unwrap().clone();
        let is_found = |after: &str| {
            let after = Scaffolded {
                changes: [("a".to_owned(), Some(file(after)))].into(),
                title: String::new(),
                message: String::new(),
                skipped: vec![],
                warnings: vec![],
            };
            let made = Made { before: BTreeMap::new(), after, generated: None, conflicts: vec![] };
            leaked(&questions, &given, &made).unwrap().is_some()
        };
        for text in [
            secret,
            // JSON, TOML, YAML between double quotes.
            r#"pa\"ss's\\w${ord}\n%{b} é/1"#,
            // The same in two lines, as in TOML.
            "pa\\\"ss's\\\\w${ord}\n%{b} é/1",
            // YAML between single quotes, and as a block.
            "pa\"ss''s\\w${ord}\n%{b} é/1",
            "|-\n    pa\"ss's\\w${ord}\n    %{b} é/1",
            // HCL.
            r#"pa\"ss's\\w$${ord}\n%%{b} é/1"#,
            // URLs.
            "pa%22ss%27s%5Cw%24%7Bord%7D%0A%25%7Bb%7D%20%C3%A9%2F1",
            "pa%22ss%27s%5Cw%24%7Bord%7D%0A%25%7Bb%7D+%C3%A9%2F1",
        ] {
            assert!(is_found(&format!("key = \"{text}\"\n")), "{text}");
        }
        assert!(!is_found("key = \"pass\"\n"));
    }
}
