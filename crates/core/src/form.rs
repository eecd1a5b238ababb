//! Forms: questions that somebody answers before something begins, and the checks of what they answer.
//!
//! Questions are asked in their order. A condition looks at a question before its own, so whether one is asked never depends on what
//! comes later. The same rules hold for a browser, the command line and any other client: the console checks every answer.

use std::collections::{BTreeMap, BTreeSet};

use regex::RegexBuilder;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::stack_checks::MAX_FILE;

/// Questions of a form.
const MAX_QUESTIONS: usize = 64;
/// Choices of a question.
const MAX_VALUES: usize = 256;
/// Bytes of a name, a label, a choice and a default.
const MAX_SHORT: usize = 1024;
/// Bytes of what explains a question.
const MAX_LONG: usize = 16 << 10;
/// Bytes that a regular expression may take once it is compiled.
const MAX_REGEX: usize = 256 << 10;
/// Pages of a form.
const MAX_PAGE: u32 = 32;

const FIELD: &str = "attributes.configuration";

/// What an answer has to be. Earlier builds stored it in small letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum QuestionType {
    /// A text.
    #[serde(alias = "string")]
    String,
    /// A whole number.
    #[serde(alias = "int")]
    Int,
    /// `true` or `false`.
    #[serde(alias = "bool")]
    Bool,
    /// A JSON document.
    #[serde(alias = "json")]
    Json,
    /// A text that is secret.
    #[serde(alias = "password")]
    Password,
    /// One of the question's values.
    #[serde(alias = "enum")]
    Enum,
    /// The handle of a cluster that whoever answers may see.
    #[serde(alias = "cluster")]
    Cluster,
    /// The name of a project that whoever answers may see.
    #[serde(alias = "project")]
    Project,
    /// The name of a group.
    #[serde(alias = "group")]
    Group,
    /// The e-mail of a user.
    #[serde(alias = "user")]
    User,
    /// The name of a flow.
    Flow,
}

/// How a condition compares. Earlier builds stored it in small letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Comparison {
    /// The answer is another one. Without a value: there is none, or it is `false`.
    #[serde(alias = "not")]
    Not,
    /// The answer is this one. Without a value: there is one, and it is not `false`.
    #[serde(alias = "eq")]
    Eq,
    /// The answer is a greater number.
    #[serde(alias = "gt")]
    Gt,
    /// The answer is a smaller number.
    #[serde(alias = "lt")]
    Lt,
    /// The answer is this number, or a greater one.
    #[serde(alias = "gte")]
    Gte,
    /// The answer is this number, or a smaller one.
    #[serde(alias = "lte")]
    Lte,
    /// The answer begins with this.
    #[serde(alias = "prefix")]
    Prefix,
    /// The answer ends with this.
    #[serde(alias = "suffix")]
    Suffix,
}

/// When a question is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuestionCondition {
    /// Name of a question before this one.
    pub field: String,
    /// How its answer is compared.
    pub operation: Comparison,
    /// With what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// What an answer has to look like, besides its type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct QuestionValidation {
    /// A regular expression that is found in it; anchors say that it has to be all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// It is a JSON document.
    pub json: bool,
    /// It is the name of nothing that there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uniq_by: Option<UniqBy>,
}

/// Among what a name has to be new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum UniqueIn {
    /// Projects.
    Project,
    /// Clusters.
    Cluster,
}

/// What is the name of nothing that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UniqBy {
    /// Among these.
    pub scope: UniqueIn,
}

/// A question of a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FormQuestion {
    /// Name, by which its answer is known.
    pub name: String,
    /// What an answer has to be.
    #[serde(rename = "type", default = "text")]
    pub kind: QuestionType,
    /// Taken where there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// What it is about, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// What it is about, at length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longform: Option<String>,
    /// What people see instead of the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// An example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    /// The page of the form that it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// It needs no answer.
    #[serde(default)]
    pub optional: bool,
    /// The choices of one of the type `Enum`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// When it is asked; absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<QuestionCondition>,
    /// What an answer has to look like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<QuestionValidation>,
}

fn text() -> QuestionType {
    QuestionType::String
}

/// An answer that passed the checks of its question.
#[derive(Clone, PartialEq, Eq)]
pub struct FormAnswer {
    /// Name of the question.
    pub name: String,
    /// What it had to be.
    pub kind: QuestionType,
    /// As text.
    pub value: String,
}

impl FormAnswer {
    /// Nobody else may see it.
    pub fn is_secret(&self) -> bool {
        self.kind == QuestionType::Password
    }
}

// Any answer may be private.
impl std::fmt::Debug for FormAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, kind, value: _ } = self;
        f.debug_struct("FormAnswer").field("name", name).field("kind", kind).finish_non_exhaustive()
    }
}

/// Checks the questions of a form. What a name has to be is for its user to say: `name_is_good`.
///
/// # Errors
/// [`Error::Invalid`], which names the question.
pub fn check_questions(questions: &[FormQuestion], name_is_good: impl Fn(&str) -> Result<()>) -> Result<()> {
    if questions.len() > MAX_QUESTIONS {
        return Err(Error::invalid(FIELD, format!("must be at most {MAX_QUESTIONS} questions")));
    }
    let mut before = BTreeSet::new();
    for question in questions {
        name_is_good(&question.name)?;
        if before.contains(question.name.as_str()) {
            return Err(Error::invalid(FIELD, format!("{} is asked twice", question.name)));
        }
        check_question(question, &before)?;
        before.insert(question.name.as_str());
    }
    Ok(())
}

fn check_question(question: &FormQuestion, before: &BTreeSet<&str>) -> Result<()> {
    let FormQuestion {
        name,
        kind,
        default,
        documentation,
        longform,
        display_name,
        placeholder,
        page,
        optional: _,
        values,
        condition,
        validation,
    } = question;
    let refused = |why: String| Err(Error::invalid(FIELD, format!("{name} {why}")));
    let is_long = |text: Option<&String>, most: usize| text.is_some_and(|text| text.len() > most);
    for (what, text, most) in [
        ("default", default, MAX_SHORT),
        ("documentation", documentation, MAX_LONG),
        ("longform", longform, MAX_LONG),
        ("displayName", display_name, MAX_SHORT),
        ("placeholder", placeholder, MAX_SHORT),
    ] {
        if is_long(text.as_ref(), most) {
            return refused(format!("has a {what} of more than {most} bytes: make it shorter"));
        }
    }
    if page.is_some_and(|page| page > MAX_PAGE) {
        return refused(format!("is on a page behind the {MAX_PAGE}th: use fewer pages"));
    }
    match kind {
        QuestionType::Enum => {
            let different: BTreeSet<&String> = values.iter().collect();
            if values.is_empty() || values.len() > MAX_VALUES || different.len() < values.len() {
                return refused(format!("needs 1 to {MAX_VALUES} values, each of them once"));
            }
            if values.iter().any(|value| value.is_empty() || value.len() > MAX_SHORT) {
                return refused(format!("must have values of 1 to {MAX_SHORT} bytes"));
            }
        }
        QuestionType::Password if default.is_some() => {
            return refused(
                "is a PASSWORD and has a default, which everybody would read: leave it out".to_owned(),
            );
        }
        QuestionType::String
        | QuestionType::Int
        | QuestionType::Bool
        | QuestionType::Json
        | QuestionType::Password
        | QuestionType::Cluster
        | QuestionType::Project
        | QuestionType::Group
        | QuestionType::User
        | QuestionType::Flow => {
            if !values.is_empty() {
                return refused("has values and is no ENUM: make it one, or leave them out".to_owned());
            }
        }
    }
    if let Some(QuestionCondition { field, operation, value }) = condition {
        if !before.contains(field.as_str()) {
            return refused(format!(
                "has a condition about {field:?}, which is no question before it: move that one up, or correct the name"
            ));
        }
        if is_long(value.as_ref(), MAX_SHORT) {
            return refused(format!("has a condition of more than {MAX_SHORT} bytes: make it shorter"));
        }
        match (operation, value) {
            (Comparison::Not | Comparison::Eq, _) | (Comparison::Prefix | Comparison::Suffix, Some(_)) => {}
            (Comparison::Gt | Comparison::Lt | Comparison::Gte | Comparison::Lte, Some(value))
                if value.parse::<i64>().is_ok() => {}
            (Comparison::Gt | Comparison::Lt | Comparison::Gte | Comparison::Lte, _) => {
                return refused("has a condition that compares numbers: give it a whole number".to_owned());
            }
            (Comparison::Prefix | Comparison::Suffix, None) => {
                return refused(
                    "has a condition without the value that it compares with: give one".to_owned(),
                );
            }
        }
    }
    if let Some(regex) = validation.as_ref().and_then(|validation| validation.regex.as_ref())
        && (regex.len() > MAX_SHORT || RegexBuilder::new(regex).size_limit(MAX_REGEX).build().is_err())
    {
        return refused("has a regular expression that cannot be read, or is too large".to_owned());
    }
    match default {
        Some(default) => check_answer(question, default).map_err(|why| {
            Error::invalid(FIELD, format!("{name} has a default that is no answer to it: {why}"))
        }),
        None => Ok(()),
    }
}

/// What somebody answers, checked: of each question that is asked its answer, or else its default. In the order of the questions; those
/// without either are left out. Whether a cluster, a project, a group or a user is there is for the caller to see.
///
/// # Errors
/// [`Error::Answers`] for an answer that is missing, that is to no question, or that does not pass; it names the question, and never the
/// answer.
pub fn answers(
    field: &'static str,
    questions: &[FormQuestion],
    given: &Map<String, Value>,
) -> Result<Vec<FormAnswer>> {
    answers_by_field(questions, given).map_err(|answers| Error::Answers { field, answers })
}

/// What is wrong with answers, by their questions.
pub type FieldErrors = BTreeMap<String, String>;

/// The same in one line.
pub fn told(errors: &FieldErrors) -> String {
    errors.iter().map(|(name, why)| format!("{name} {why}")).collect::<Vec<_>>().join("; ")
}

/// As [`answers`], with all that is wrong.
///
/// # Errors
/// Of each question what is wrong with its answer, and never the answer.
pub fn answers_by_field(
    questions: &[FormQuestion],
    given: &Map<String, Value>,
) -> std::result::Result<Vec<FormAnswer>, FieldErrors> {
    let mut errors = FieldErrors::new();
    for name in given.keys().filter(|name| !questions.iter().any(|question| question.name == **name)) {
        let known: Vec<&str> = questions.iter().map(|question| question.name.as_str()).collect();
        let known = if known.is_empty() { "it asks nothing".to_owned() } else { known.join(", ") };
        errors.insert(
            format!("{:?}", name.chars().take(100).collect::<String>()),
            format!("is none of its questions: {known}"),
        );
    }
    let mut all: Vec<FormAnswer> = Vec::with_capacity(questions.len());
    for question in questions {
        let FormQuestion { name, kind, default, optional, condition, .. } = question;
        if condition.as_ref().is_some_and(|condition| errors.contains_key(&condition.field)) {
            // Whether it is asked, is not known.
            continue;
        }
        // An empty field of a form is no answer.
        let answer = given.get(name).and_then(text_of).filter(|text| !text.is_empty());
        if condition.as_ref().is_some_and(|condition| !holds(condition, &all)) {
            if answer.is_some() {
                let asked = condition.as_ref().map_or("", |condition| condition.field.as_str());
                let why = format!(
                    "is not asked, as {asked} is answered: leave it out, or answer {asked} otherwise"
                );
                errors.insert(name.clone(), why);
            }
            continue;
        }
        let Some(value) = answer.or_else(|| default.clone()).filter(|text| !text.is_empty()) else {
            if !*optional {
                errors.insert(name.clone(), "needs an answer".to_owned());
            }
            continue;
        };
        match check_answer(question, &value) {
            Ok(()) => all.push(FormAnswer { name: name.clone(), kind: *kind, value }),
            Err(why) => {
                errors.insert(name.clone(), why);
            }
        }
    }
    if errors.is_empty() { Ok(all) } else { Err(errors) }
}

/// Names that exist, as far as whoever answers may see them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Known {
    /// Handles of clusters.
    pub clusters: BTreeSet<String>,
    /// Names of projects.
    pub projects: BTreeSet<String>,
    /// Names of groups.
    pub groups: BTreeSet<String>,
    /// E-mails of users.
    pub users: BTreeSet<String>,
    /// Names of flows.
    pub flows: BTreeSet<String>,
}

impl Known {
    /// Why an answer that passed the checks of its question does not go with what exists.
    fn check(&self, question: &FormQuestion, value: &str) -> std::result::Result<(), String> {
        let (names, what) = match question.kind {
            QuestionType::Cluster => (&self.clusters, "cluster"),
            QuestionType::Project => (&self.projects, "project"),
            QuestionType::Group => (&self.groups, "group"),
            QuestionType::User => (&self.users, "user"),
            QuestionType::Flow => (&self.flows, "flow"),
            QuestionType::String
            | QuestionType::Int
            | QuestionType::Bool
            | QuestionType::Json
            | QuestionType::Password
            | QuestionType::Enum => return self.check_new(question, value),
        };
        if names.contains(value) {
            self.check_new(question, value)
        } else {
            Err(format!("must be a {what} that you may see"))
        }
    }

    fn check_new(&self, question: &FormQuestion, value: &str) -> std::result::Result<(), String> {
        let scope = question.validation.as_ref().and_then(|validation| validation.uniq_by);
        let (names, what) = match scope.map(|UniqBy { scope }| scope) {
            None => return Ok(()),
            Some(UniqueIn::Project) => (&self.projects, "project"),
            Some(UniqueIn::Cluster) => (&self.clusters, "cluster"),
        };
        if names.contains(value) { Err(format!("must be new: a {what} has this name")) } else { Ok(()) }
    }
}

/// What templates get of answers: of each question a value of its type, or null where there is none. Without `known`, nothing is looked up.
///
/// # Errors
/// As [`answers_by_field`].
pub fn context(
    questions: &[FormQuestion],
    given: &Map<String, Value>,
    known: Option<&Known>,
) -> std::result::Result<Map<String, Value>, FieldErrors> {
    let mut errors = FieldErrors::new();
    let nothing = |question: &FormQuestion| (question.name.clone(), Value::Null);
    let mut context: Map<String, Value> = questions.iter().map(nothing).collect();
    for FormAnswer { name, kind, value } in answers_by_field(questions, given)? {
        let question = questions.iter().find(|question| question.name == name);
        let checked = match (question, known) {
            (Some(question), Some(known)) => known.check(question, &value),
            _ => Ok(()),
        };
        match checked.and_then(|()| typed(kind, value)) {
            Ok(value) => {
                context.insert(name, value);
            }
            Err(why) => {
                errors.insert(name, why);
            }
        }
    }
    if errors.is_empty() { Ok(context) } else { Err(errors) }
}

fn typed(kind: QuestionType, text: String) -> std::result::Result<Value, String> {
    Ok(match kind {
        QuestionType::Int => Value::from(text.parse::<i64>().map_err(|_| "must be a whole number")?),
        QuestionType::Bool => Value::Bool(text == "true"),
        QuestionType::Json => serde_json::from_str(&text).map_err(|_| "must be JSON")?,
        QuestionType::Password if text.chars().any(char::is_control) => {
            return Err("must have no line breaks and no control characters".to_owned());
        }
        // It becomes a part of files.
        _ if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) => {
            return Err("must have no control characters".to_owned());
        }
        QuestionType::String
        | QuestionType::Password
        | QuestionType::Enum
        | QuestionType::Cluster
        | QuestionType::Project
        | QuestionType::Group
        | QuestionType::User
        | QuestionType::Flow => Value::String(text),
    })
}

/// An answer as text: clients may give numbers and JSON as they are.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Some(value.to_string())
        }
    }
}

/// Why a text is no answer to a question, without the text: it may be a secret.
fn check_answer(question: &FormQuestion, text: &str) -> std::result::Result<(), String> {
    let FormQuestion { kind, values, validation, .. } = question;
    if text.len() > MAX_FILE || text.contains('\0') {
        return Err(format!("must have at most {} KiB and no NUL", MAX_FILE >> 10));
    }
    let is_json = || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    match kind {
        QuestionType::Int if text.parse::<i64>().is_err() => return Err("must be a whole number".to_owned()),
        QuestionType::Bool if !matches!(text, "true" | "false") => {
            return Err("must be true or false".to_owned());
        }
        QuestionType::Json if !is_json() => return Err("must be JSON".to_owned()),
        QuestionType::Enum if !values.iter().any(|value| value == text) => {
            return Err(format!("must be one of {}", values.join(", ")));
        }
        QuestionType::String
        | QuestionType::Int
        | QuestionType::Bool
        | QuestionType::Json
        | QuestionType::Password
        | QuestionType::Enum
        | QuestionType::Cluster
        | QuestionType::Project
        | QuestionType::Group
        | QuestionType::User
        | QuestionType::Flow => {}
    }
    // Whether a name is new, is for the caller to see.
    let Some(QuestionValidation { regex, json, uniq_by: _ }) = validation else { return Ok(()) };
    if *json && !is_json() {
        return Err("must be JSON".to_owned());
    }
    let Some(regex) = regex else { return Ok(()) };
    match RegexBuilder::new(regex).size_limit(MAX_REGEX).build() {
        Ok(compiled) if compiled.is_match(text) => Ok(()),
        Ok(_) => Err(format!("must match {regex}")),
        // It was checked when the question was saved, by a console that may have been another one.
        Err(_) => Err("cannot be checked: its regular expression cannot be read".to_owned()),
    }
}

fn holds(condition: &QuestionCondition, before: &[FormAnswer]) -> bool {
    let QuestionCondition { field, operation, value } = condition;
    let answer = before.iter().find(|answer| answer.name == *field).map(|answer| answer.value.as_str());
    let is_true = answer.is_some_and(|answer| answer != "false");
    let numbers = || Some((answer?.parse::<i64>().ok()?, value.as_deref()?.parse::<i64>().ok()?));
    let texts = || Some((answer?, value.as_deref()?));
    match operation {
        Comparison::Not => value.as_deref().map_or(!is_true, |value| answer != Some(value)),
        Comparison::Eq => value.as_deref().map_or(is_true, |value| answer == Some(value)),
        Comparison::Gt => numbers().is_some_and(|(is, than)| is > than),
        Comparison::Lt => numbers().is_some_and(|(is, than)| is < than),
        Comparison::Gte => numbers().is_some_and(|(is, than)| is >= than),
        Comparison::Lte => numbers().is_some_and(|(is, than)| is <= than),
        Comparison::Prefix => texts().is_some_and(|(is, with)| is.starts_with(with)),
        Comparison::Suffix => texts().is_some_and(|(is, with)| is.ends_with(with)),
    }
}

#[cfg(test)]
mod tests;
