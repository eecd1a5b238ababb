//! What an automation asks, and whether answers are ones.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Bytes of one answer.
pub const MAX_ANSWER: usize = 64 << 10;
/// Bytes of a regex.
const MAX_REGEX: usize = 4096;
/// Bytes that a compiled regex may take.
const MAX_COMPILED: usize = 1 << 20;

/// Types of questions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum QuestionType {
    /// A text.
    #[default]
    String,
    /// A whole number.
    Int,
    /// Yes or no.
    Bool,
    /// Any JSON.
    Json,
    /// A text that is not shown.
    Password,
    /// One of given texts.
    Enum,
    /// The handle of a cluster.
    Cluster,
    /// The name of a project.
    Project,
    /// The name of a group.
    Group,
    /// The email of a user.
    User,
    /// The name of a flow.
    Flow,
}

/// How a condition compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// The answer is none, no, or another one than the value where the condition has one.
    Not,
    /// Greater.
    Gt,
    /// Less.
    Lt,
    /// Equal.
    Eq,
    /// Greater or equal.
    Gte,
    /// Less or equal.
    Lte,
    /// Begins with the value.
    Prefix,
    /// Ends with the value.
    Suffix,
}

/// When a question is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The question whose answer decides.
    pub field: String,
    /// How.
    pub operation: Operation,
    /// With what.
    #[serde(default)]
    pub value: Option<String>,
}

/// Where a name must be new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum UniqueIn {
    /// Among projects.
    Project,
    /// Among clusters.
    Cluster,
}

/// Names that must be new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniqBy {
    /// Where.
    pub scope: UniqueIn,
}

/// What an answer must be besides of its type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// A part of the answer matches it.
    #[serde(default)]
    pub regex: Option<String>,
    /// The answer is JSON.
    #[serde(default)]
    pub json: bool,
    /// The answer is the name of nothing that exists.
    #[serde(default)]
    pub uniq_by: Option<UniqBy>,
}

/// A question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Name of the answer in `context`.
    pub name: String,
    /// Its type.
    #[serde(rename = "type", default)]
    pub kind: QuestionType,
    /// The answer when none is given.
    #[serde(default)]
    pub default: Option<Value>,
    /// Choices of an `ENUM`.
    #[serde(default)]
    pub values: Vec<String>,
    /// Whether it may be left out.
    #[serde(default)]
    pub optional: bool,
    /// When it is asked; always without.
    #[serde(default)]
    pub condition: Option<Condition>,
    /// What else the answer must be.
    #[serde(default)]
    pub validation: Option<Validation>,
}

/// Names that exist, as far as the one who answers may see them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Known {
    /// Handles of clusters.
    pub clusters: BTreeSet<String>,
    /// Names of projects.
    pub projects: BTreeSet<String>,
    /// Names of groups.
    pub groups: BTreeSet<String>,
    /// Emails of users.
    pub users: BTreeSet<String>,
    /// Names of flows.
    pub flows: BTreeSet<String>,
}

/// What is wrong with answers, by field.
pub type FieldErrors = BTreeMap<String, String>;

/// The context that the answers give: of each question its answer, its default, or null; null too of one that is not asked.
///
/// Numbers and booleans may be given as texts.
///
/// # Errors
/// Of each field what is wrong with it. A message never holds the answer.
pub fn validate(
    questions: &[Question],
    answers: &Map<String, Value>,
    known: &Known,
) -> Result<Map<String, Value>, FieldErrors> {
    let mut errors = FieldErrors::new();
    let mut context = Map::new();
    let mut names = BTreeSet::new();
    for question in questions {
        if !names.insert(question.name.as_str()) {
            errors.insert(question.name.clone(), "the automation asks this twice".to_owned());
        }
    }
    for name in answers.keys().filter(|name| !names.contains(name.as_str())) {
        let shown: String = name.chars().take(100).collect();
        errors.insert(shown, "the automation does not ask this".to_owned());
    }
    // A condition may look at a question that comes later: what is asked is settled by passing over all until nothing changes.
    let mut asked: BTreeMap<&str, bool> = names.iter().map(|name| (*name, true)).collect();
    for _ in 0..=questions.len() {
        let mut is_settled = true;
        for question in questions {
            let Some(condition) = &question.condition else { continue };
            let field = questions.iter().find(|other| other.name == condition.field);
            let value = match field {
                Some(field) if asked.get(field.name.as_str()) == Some(&true) => given(field, answers),
                _ => Value::Null,
            };
            let is_asked = holds(condition, &value);
            if asked.insert(&question.name, is_asked) != Some(is_asked) {
                is_settled = false;
            }
        }
        if is_settled {
            break;
        }
    }
    for question in questions {
        let is_asked = asked.get(question.name.as_str()) == Some(&true);
        let value = if is_asked { check(question, given(question, answers), known) } else { Ok(Value::Null) };
        match value {
            Ok(value) => {
                context.insert(question.name.clone(), value);
            }
            Err(why) => {
                errors.entry(question.name.clone()).or_insert(why);
            }
        }
    }
    if errors.is_empty() { Ok(context) } else { Err(errors) }
}

fn given(question: &Question, answers: &Map<String, Value>) -> Value {
    match answers.get(&question.name) {
        None | Some(Value::Null) => question.default.clone().unwrap_or_default(),
        Some(answer) => answer.clone(),
    }
}

/// Whether a condition holds of an answer; numbers are compared as numbers where both sides are ones.
fn holds(condition: &Condition, answer: &Value) -> bool {
    let text = match answer {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let Some(value) = condition.value.as_deref() else {
        let is_true =
            !matches!(answer, Value::Null | Value::Bool(false)) && !text.is_empty() && text != "false";
        return if condition.operation == Operation::Not { !is_true } else { is_true };
    };
    let order = match (text.trim().parse::<f64>(), value.trim().parse::<f64>()) {
        (Ok(a), Ok(b)) => a.partial_cmp(&b),
        // A text is not greater or less than a number.
        (Ok(_), Err(_)) | (Err(_), Ok(_)) if text != value => None,
        _ => Some(text.as_str().cmp(value)),
    };
    let is_equal = order == Some(std::cmp::Ordering::Equal);
    match condition.operation {
        Operation::Eq => is_equal,
        Operation::Not => !is_equal,
        Operation::Gt => order.is_some_and(std::cmp::Ordering::is_gt),
        Operation::Gte => order.is_some_and(std::cmp::Ordering::is_ge),
        Operation::Lt => order.is_some_and(std::cmp::Ordering::is_lt),
        Operation::Lte => order.is_some_and(std::cmp::Ordering::is_le),
        Operation::Prefix => text.starts_with(value),
        Operation::Suffix => text.ends_with(value),
    }
}

fn check(question: &Question, answer: Value, known: &Known) -> Result<Value, String> {
    if answer.to_string().len() > MAX_ANSWER {
        return Err(format!("the answer is larger than {} KiB", MAX_ANSWER >> 10));
    }
    let is_empty = answer.is_null() || answer.as_str() == Some("");
    if is_empty {
        return if question.optional { Ok(Value::Null) } else { Err("an answer is needed".to_owned()) };
    }
    let value = typed(question, answer, known)?;
    let Some(validation) = &question.validation else { return Ok(value) };
    let text = match &value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if validation.json && value.is_string() && serde_json::from_str::<Value>(&text).is_err() {
        return Err("the answer is no JSON".to_owned());
    }
    if let Some(regex) = &validation.regex {
        let compiled = regex_of(regex).map_err(|_| "the automation's regex is none".to_owned())?;
        if !compiled.is_match(&text) {
            let shown: String = regex.chars().take(200).collect();
            return Err(format!("the answer does not match {shown}"));
        }
    }
    if let Some(UniqBy { scope }) = validation.uniq_by {
        let (what, names) = match scope {
            UniqueIn::Project => ("project", &known.projects),
            UniqueIn::Cluster => ("cluster", &known.clusters),
        };
        if names.contains(&text) {
            return Err(format!("a {what} of this name exists"));
        }
    }
    Ok(value)
}

fn typed(question: &Question, answer: Value, known: &Known) -> Result<Value, String> {
    let text = |answer: Value| match answer {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err("a text is needed".to_owned()),
    };
    let one_of = |answer: Value, names: &BTreeSet<String>, what: &str| {
        let name = text(answer)?;
        if names.contains(&name) { Ok(Value::String(name)) } else { Err(format!("there is no such {what}")) }
    };
    match question.kind {
        QuestionType::String => {
            let text = text(answer)?;
            if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
                return Err("the answer holds control characters".to_owned());
            }
            Ok(Value::String(text))
        }
        QuestionType::Password => {
            let text = text(answer)?;
            if text.chars().any(char::is_control) {
                return Err("the answer holds line breaks or control characters".to_owned());
            }
            Ok(Value::String(text))
        }
        QuestionType::Int => match answer {
            Value::Number(number) if number.is_i64() => Ok(Value::Number(number)),
            Value::String(text) => {
                text.trim().parse::<i64>().map(Value::from).map_err(|_| "a whole number is needed".to_owned())
            }
            _ => Err("a whole number is needed".to_owned()),
        },
        QuestionType::Bool => match answer {
            Value::Bool(value) => Ok(Value::Bool(value)),
            Value::String(text) if text == "true" => Ok(Value::Bool(true)),
            Value::String(text) if text == "false" => Ok(Value::Bool(false)),
            _ => Err("true or false is needed".to_owned()),
        },
        QuestionType::Json => match answer {
            Value::String(text) => {
                serde_json::from_str(&text).map_err(|_| "the answer is no JSON".to_owned())
            }
            other => Ok(other),
        },
        QuestionType::Enum => {
            let text = text(answer)?;
            if question.values.contains(&text) {
                return Ok(Value::String(text));
            }
            Err(format!("the answer is none of {}", question.values.join(", ")))
        }
        QuestionType::Cluster => one_of(answer, &known.clusters, "cluster"),
        QuestionType::Project => one_of(answer, &known.projects, "project"),
        QuestionType::Group => one_of(answer, &known.groups, "group"),
        QuestionType::User => one_of(answer, &known.users, "user"),
        QuestionType::Flow => one_of(answer, &known.flows, "flow"),
    }
}

/// A regex of an automation; it takes no more than linear time, and bounded memory.
pub(crate) fn regex_of(text: &str) -> Result<regex::Regex, String> {
    if text.len() > MAX_REGEX {
        return Err(format!("a regex is longer than {MAX_REGEX} bytes"));
    }
    regex::RegexBuilder::new(text)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .nest_limit(100)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                "the regex is too large once its repetitions are written out".to_owned()
            }
            other => {
                let text = other.to_string();
                format!(
                    "the regex is none: {}",
                    text.lines().last().unwrap_or_default().trim_start_matches("error: ")
                )
            }
        })
}
