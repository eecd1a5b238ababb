//! What pull requests of automations generated: from which version, with which answers, and where it is.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::form::{FormQuestion, QuestionType};
use crate::ids::{PrAutomationId, PrInstanceId, ProjectId, PullRequestId, RepositoryId, ScmConnectionId};
use crate::page::Keyed;
use crate::pr_automation_spec::PrAutomationSpec;

/// The state of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrInstanceState {
    /// Its pull request is not merged yet.
    Pending,
    /// Its pull request was merged.
    Active,
    /// Its pull request was closed, or never opened.
    Abandoned,
    /// A pull request that removes it was merged.
    Removed,
}

impl PrInstanceState {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Active, Self::Abandoned, Self::Removed];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Active => "ACTIVE",
            Self::Abandoned => "ABANDONED",
            Self::Removed => "REMOVED",
        }
    }

    /// The state of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// What a version of an automation generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrInstance {
    /// Id.
    pub id: PrInstanceId,
    /// Its project.
    pub project_id: ProjectId,
    /// The connection to its repository.
    pub connection_id: ScmConnectionId,
    /// The automation; absent once that is deleted.
    pub automation_id: Option<PrAutomationId>,
    /// The repository, as `acme/shop`.
    pub repository: String,
    /// The target branch of its pull requests.
    pub base: String,
    /// Its version, answers and files.
    pub made: PrMade,
    /// Its state.
    pub state: PrInstanceState,
    /// The pull request of its current version; absent once that is pruned.
    pub pull_request_id: Option<PullRequestId>,
    /// The merge commit, if it is known.
    pub commit: Option<String>,
    /// The commit of the target branch that it was first generated on. All versions are compared on it.
    pub base_commit: Option<String>,
    /// The clock of its templates, in milliseconds since 1970-01-01 UTC.
    pub clock_ms: i64,
    /// The open pull request that changes it.
    pub change: Option<PrInstanceChange>,
    /// When it was requested.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
}

impl Keyed for PrInstance {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

impl PrInstance {
    /// The common folder of all files that belong to it alone; empty: the repository's root.
    pub fn path(&self) -> &str {
        let mut own = self.made.files.iter().filter(|file| file.is_new).map(|file| folder(&file.path));
        let Some(first) = own.next() else { return "" };
        own.fold(first, |mut common, next| {
            while !(common.is_empty()
                || next == common
                || next.strip_prefix(common).is_some_and(|rest| rest.starts_with('/')))
            {
                common = folder(common);
            }
            common
        })
    }
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The inputs and the output of a generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrMade {
    /// The version of the automation.
    pub version: PrVersion,
    /// The answers.
    pub answers: PrAnswers,
    /// The generated files.
    pub files: Vec<PrInstanceFile>,
}

/// A version of an automation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrVersion {
    /// Counts the changes of the automation, from one.
    pub revision: i64,
    /// Digest of its spec.
    pub digest: String,
    /// Its spec at that time.
    pub spec: PrAutomationSpec,
    /// The commit of the repository that its own templates were read from, once that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub templates: Option<String>,
    /// Its parts from elsewhere; absent: not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<PrParts>,
}

/// The parts that an automation takes from elsewhere, pinned: the same ones give the same result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrParts {
    /// Templates of another repository.
    pub templates: Option<PrTemplates>,
    /// A chart.
    pub chart: Option<PrChart>,
}

/// Templates of another repository, at a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrTemplates {
    /// The project whose rights they are read with.
    pub project: ProjectId,
    /// The repository.
    pub repository: RepositoryId,
    /// The commit.
    pub sha: String,
    /// The folder in it.
    pub folder: String,
}

/// A chart, at its resolved version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrChart {
    /// The project whose rights it is read with.
    pub project: ProjectId,
    /// The version.
    pub version: String,
    /// Digest of its content.
    pub digest: String,
}

/// The answers as they are stored, without secret ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrAnswers {
    /// By question.
    pub known: Map<String, Value>,
    /// Questions with a secret answer, which has to be given again.
    pub secret: Vec<String>,
}

impl PrAnswers {
    /// The stored part of answers.
    pub fn of(questions: &[FormQuestion], given: &Map<String, Value>) -> Self {
        let mut kept = Self::default();
        for (name, value) in given {
            let question = questions.iter().find(|question| question.name == *name);
            // An answer without a question was refused before; here it counts as secret.
            match question.map(|question| question.kind) {
                None | Some(QuestionType::Password) => {
                    if !(value.is_null() || value.as_str() == Some("")) {
                        kept.secret.push(name.clone());
                    }
                }
                Some(
                    QuestionType::Bool
                    | QuestionType::Cluster
                    | QuestionType::Enum
                    | QuestionType::Flow
                    | QuestionType::Group
                    | QuestionType::Int
                    | QuestionType::Json
                    | QuestionType::Project
                    | QuestionType::String
                    | QuestionType::User,
                ) => {
                    kept.known.insert(name.clone(), value.clone());
                }
            }
        }
        kept
    }

    /// The stored answers to `questions` merged with the given ones, which win. An empty one removes an answer.
    pub fn with(&self, questions: &[FormQuestion], given: &Map<String, Value>) -> Map<String, Value> {
        let is_asked = |name: &str| questions.iter().any(|question| question.name == name);
        let mut all: Map<String, Value> = self
            .known
            .iter()
            .filter(|(name, _)| is_asked(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        all.extend(given.iter().map(|(name, value)| (name.clone(), value.clone())));
        all
    }

    /// Secret answers to `questions` that were given once and are missing now.
    pub fn missing<'a>(&'a self, questions: &[FormQuestion], given: &Map<String, Value>) -> Vec<&'a str> {
        let is_asked = |name: &str| questions.iter().any(|question| question.name == name);
        let missing = self.secret.iter().map(String::as_str);
        missing.filter(|name| is_asked(name) && !given.contains_key(*name)).collect()
    }
}

/// A generated file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrInstanceFile {
    /// Its path.
    pub path: String,
    /// SHA-256 of its generated content, in hex; absent: it was deleted.
    pub digest: Option<String>,
    /// It did not exist before.
    pub is_new: bool,
}

/// The output of a run on a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrGenerated {
    /// The commit that it was generated on.
    pub commit: String,
    /// The commit that templates of the repository itself were read from.
    pub templates: String,
    /// Each path once.
    pub files: Vec<PrInstanceFile>,
}

/// What a pull request does to an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PrInstanceChangeKind {
    /// It upgrades it to another version.
    Upgrade,
    /// It removes it.
    Uninstall,
}

/// A pull request that changes an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrInstanceChange {
    /// The pull request.
    pub pull_request_id: PullRequestId,
    /// What it does.
    pub kind: PrInstanceChangeKind,
    /// The instance after the merge.
    pub made: PrMade,
}

/// How a generated file differs from its generated content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrDrift {
    /// It does not.
    Same,
    /// It has other content, or an edit is missing.
    Changed,
    /// It was deleted.
    Missing,
}

impl PrAutomationSpec {
    /// Whether a file of the repository is a template of this automation, or is in a folder of them. A template path that
    /// starts with an answer never matches: it could be anything.
    pub fn is_own_template(&self, path: &str) -> bool {
        self.creates.templates.iter().filter(|template| !template.external).any(|template| {
            let source = template.source.trim_start_matches("./").trim_end_matches('/');
            let literal = ["{{", "{%"].iter().filter_map(|mark| source.find(mark)).min();
            let folder = match literal {
                None if path == source => return true,
                None => source,
                // Up to the last folder that is constant.
                Some(at) => folder(&source[..at]),
            };
            !folder.is_empty() && path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// Whether it takes templates, or a script, from another repository.
    pub fn takes_templates(&self) -> bool {
        self.creates.templates.iter().any(|template| template.external)
            || self.lua.as_ref().is_some_and(|script| script.external)
    }

    /// Whether it takes anything from outside the repository that it changes.
    pub fn takes_parts(&self) -> bool {
        self.takes_templates() || self.vendor.helm.is_some()
    }

    /// SHA-256 in hex of its questions and actions, without its descriptions: equal digests generate the same.
    ///
    /// # Errors
    /// [`Error::Internal`] if it has no JSON.
    pub fn digest(&self) -> Result<String> {
        let told = Self { documentation: None, icon: None, dark_icon: None, ..self.clone() };
        let json = serde_json::to_value(told)
            .map_err(|cause| Error::internal("writing what an automation asks and does", cause))?;
        let mut hash = Sha256::new();
        feed(&mut hash, &json);
        Ok(hex::encode(hash.finalize()))
    }
}

/// JSON in a canonical form, independent of the order of keys: databases have their own.
fn feed(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(entries) => {
            let mut names: Vec<&String> = entries.keys().collect();
            names.sort();
            hash.update(b"{");
            for name in names {
                hash.update(Value::from(name.as_str()).to_string());
                hash.update(b":");
                feed(hash, &entries[name]);
                hash.update(b",");
            }
            hash.update(b"}");
        }
        Value::Array(items) => {
            hash.update(b"[");
            for item in items {
                feed(hash, item);
                hash.update(b",");
            }
            hash.update(b"]");
        }
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            hash.update(plain.to_string());
        }
    }
}

/// SHA-256 in hex of a file.
pub fn file_digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(value: Value) -> PrAutomationSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_version_is_what_is_asked_and_done() {
        let one = spec(
            json!({"title": "a", "creates": {"templates": [{"source": "a", "destination": "b", "external": false, "context": {"x": 1, "y": {"b": 2, "a": 1}}}]}}),
        );
        let again = spec(
            json!({"creates": {"templates": [{"external": false, "destination": "b", "context": {"y": {"a": 1, "b": 2}, "x": 1}, "source": "a"}]}, "title": "a"}),
        );
        assert_eq!(one.digest().unwrap(), again.digest().unwrap());
        let told = PrAutomationSpec { documentation: Some("More".to_owned()), ..one.clone() };
        assert_eq!(one.digest().unwrap(), told.digest().unwrap());
        let other = PrAutomationSpec { message: "b".to_owned(), ..one.clone() };
        assert_ne!(one.digest().unwrap(), other.digest().unwrap());
    }

    #[test]
    fn templates_are_told_from_what_is_made_of_them() {
        let of = |source: &str| {
            spec(
                json!({"creates": {"templates": [{"source": source, "destination": "apps", "external": false}]}}),
            )
        };
        assert!(of("templates/app.yaml").is_own_template("templates/app.yaml"));
        assert!(of("templates").is_own_template("templates/a/b.yaml"));
        assert!(!of("templates").is_own_template("templates.yaml"));
        assert!(of("templates/{{ context.kind }}/a.yaml").is_own_template("templates/web/a.yaml"));
        assert!(!of("{{ context.kind }}/a.yaml").is_own_template("apps/a.yaml"));
        let external =
            json!({"creates": {"templates": [{"source": "a", "destination": "b", "external": true}]}});
        assert!(!spec(external).is_own_template("a"));
    }

    #[test]
    fn a_secret_answer_is_not_kept_and_has_to_be_given_again() {
        let questions: Vec<FormQuestion> = serde_json::from_value(json!([
            {"name": "name", "type": "STRING"}, {"name": "key", "type": "PASSWORD"},
        ]))
        .unwrap();
        let given = json!({"name": "shop", "key": "s3cr3t"}).as_object().unwrap().clone();
        let kept = PrAnswers::of(&questions, &given);
        assert!(!serde_json::to_string(&kept).unwrap().contains("s3cr3t"));
        assert_eq!(kept.missing(&questions, &Map::new()), ["key"]);
        assert_eq!(kept.missing(&questions, &given), Vec::<&str>::new());
        // A question that is no longer asked needs no answer.
        assert_eq!(kept.missing(&questions[..1], &Map::new()), Vec::<&str>::new());
        let other = json!({"name": "web"}).as_object().unwrap().clone();
        assert_eq!(Value::Object(kept.with(&questions, &other)), json!({"name": "web"}));
        assert_eq!(Value::Object(kept.with(&questions[1..], &Map::new())), json!({}));
    }

    #[test]
    fn what_comes_from_elsewhere_is_kept_with_a_version() {
        let version = PrVersion {
            revision: 1,
            digest: "d".to_owned(),
            spec: spec(
                json!({"vendor": {"helm": {"url": "https://charts.example.com", "chart": "web", "version": "1.x", "destination": "charts/web"}}}),
            ),
            templates: None,
            parts: Some(PrParts {
                templates: None,
                chart: Some(PrChart {
                    project: ProjectId::new(),
                    version: "1.2.3".to_owned(),
                    digest: "e".to_owned(),
                }),
            }),
        };
        assert!(version.spec.takes_parts() && !version.spec.takes_templates());
        let json = serde_json::to_value(&version).unwrap();
        assert_eq!(serde_json::from_value::<PrVersion>(json.clone()).unwrap(), version);
        // Older records have none.
        let mut before = json;
        before.as_object_mut().unwrap().remove("parts");
        assert_eq!(serde_json::from_value::<PrVersion>(before).unwrap().parts, None);
    }

    #[test]
    fn words_round_trip() {
        for state in PrInstanceState::ALL {
            assert_eq!(PrInstanceState::parse(state.as_str()), Some(state));
        }
        assert_eq!(PrInstanceState::parse("GONE"), None);
    }

    #[test]
    fn its_folder_is_the_one_that_all_of_its_own_files_lie_in() {
        let folder_of = |paths: &[&str]| {
            let files = paths
                .iter()
                .map(|path| PrInstanceFile { path: (*path).to_owned(), digest: None, is_new: true })
                .chain([PrInstanceFile { path: "x".to_owned(), digest: None, is_new: false }])
                .collect();
            let version = PrVersion {
                revision: 1,
                digest: String::new(),
                spec: PrAutomationSpec::default(),
                templates: None,
                parts: None,
            };
            let instance = PrInstance {
                id: PrInstanceId::new(),
                project_id: ProjectId::new(),
                connection_id: ScmConnectionId::new(),
                automation_id: None,
                repository: "acme/shop".to_owned(),
                base: "main".to_owned(),
                made: PrMade { version, answers: PrAnswers::default(), files },
                state: PrInstanceState::Active,
                pull_request_id: None,
                commit: None,
                base_commit: None,
                clock_ms: 0,
                change: None,
                created_at: DateTime::UNIX_EPOCH,
                updated_at: DateTime::UNIX_EPOCH,
            };
            instance.path().to_owned()
        };
        assert_eq!(folder_of(&[]), "");
        assert_eq!(folder_of(&["apps/shop/a.yaml", "apps/shop/b/c.yaml"]), "apps/shop");
        assert_eq!(folder_of(&["apps/shop/a.yaml", "apps/shopping/a.yaml"]), "apps");
        assert_eq!(folder_of(&["a.yaml", "apps/a.yaml"]), "");
    }
}
