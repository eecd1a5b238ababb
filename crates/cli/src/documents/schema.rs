//! What the documents of a kind may hold: the tables of their fields, and the check of a document against them.

use std::collections::BTreeMap;

use plural_wire::Seconds;
use serde_json::{Map, Value, json};

use super::{
    kind::Kind,
    node::{Node, Placed, line},
};

/// A field of a document.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) ty: Type,
    pub(super) docs: &'static str,
    pub(super) required: bool,
    /// A switch that is on where nothing is said.
    pub(super) on: bool,
    /// The console does not tell it, or only to those who may change it: it is never printed.
    pub(super) hidden: bool,
    /// Only these documents have it, not those of the original operator.
    pub(super) added: bool,
    pub(super) support: Support,
}

/// Whether a field is taken.
pub(super) enum Support {
    Yes,
    /// Refused; why, and what to do instead.
    No(&'static str),
    /// It means something to an operator that applies the document again and again. Here a warning says that it has no effect.
    Operator,
}

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Type {
    Text,
    /// A time span: `90s`, `5m`, `1h`.
    Span,
    Bool,
    Int,
    /// One of these words.
    Word(&'static [&'static str]),
    Texts,
    /// A mapping of texts to texts.
    TextMap,
    /// Any mapping.
    Json,
    /// A document of this kind, by name.
    Reference(Kind),
    /// A Secret among the files, by name.
    Secret,
    /// A key of a Secret among the files.
    SecretKey,
    Fields(&'static [Field]),
    List(&'static [Field]),
}

pub(super) const fn field(name: &'static str, ty: Type, docs: &'static str) -> Field {
    let support = Support::Yes;
    Field { name, ty, docs, required: false, on: false, hidden: false, added: false, support }
}

/// A field of the original documents that is refused.
pub(super) const fn refused(name: &'static str, why: &'static str) -> Field {
    Field { support: Support::No(why), ..field(name, Type::Json, why) }
}

impl Field {
    pub(super) const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    pub(super) const fn on(self) -> Self {
        Self { on: true, ..self }
    }

    pub(super) const fn hidden(self) -> Self {
        Self { hidden: true, ..self }
    }

    pub(super) const fn added(self) -> Self {
        Self { added: true, ..self }
    }
}

impl Type {
    /// In words, for `plural explain`.
    pub(super) fn word(self) -> String {
        match self {
            Self::Text => "text".into(),
            Self::Span => "time span".into(),
            Self::Bool => "true or false".into(),
            Self::Int => "number".into(),
            Self::Word(words) => words.join(" | "),
            Self::Texts => "list of texts".into(),
            Self::TextMap => "mapping of texts".into(),
            Self::Json => "mapping".into(),
            Self::Reference(kind) => format!("{{name}} of a {}", kind.info().name),
            Self::Secret => "{name} of a Secret".into(),
            Self::SecretKey => "{name, key} of a Secret".into(),
            Self::Fields(_) => "fields".into(),
            Self::List(_) => "list".into(),
        }
    }

    /// The fields below it.
    pub(super) fn fields(self) -> &'static [Field] {
        match self {
            Self::Fields(fields) | Self::List(fields) => fields,
            _ => &[],
        }
    }
}

/// What was found in a document.
#[derive(Default)]
pub(super) struct Found {
    /// Line and words.
    pub(super) problems: Vec<(u64, String)>,
    pub(super) warnings: Vec<(u64, String)>,
    /// The line of each field.
    pub(super) lines: BTreeMap<String, u64>,
}

impl Found {
    fn problem(&mut self, line: u64, path: &str, what: impl std::fmt::Display) {
        self.problems.push((line, format!("{path}: {what}")));
    }
}

/// What `node` says of `fields`; `path` is where it stands.
pub(super) fn check(
    node: &Placed,
    fields: &'static [Field],
    path: &str,
    found: &mut Found,
) -> Map<String, Value> {
    let mut said = Map::new();
    let entries = match &node.value {
        Node::Map(entries) => entries,
        Node::Null => return said,
        other => {
            found.problem(
                line(node),
                path,
                format_args!("must be a mapping of fields, not {}", other.word()),
            );
            return said;
        }
    };
    for (key, value) in entries {
        let name = key.value.as_str();
        let path = format!("{path}.{name}");
        found.lines.insert(path.clone(), line(key));
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            let hint = nearest(name, fields.iter().map(|field| field.name));
            let hint = hint.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
            found.problem(line(key), &path, format_args!("there is no such field{hint}"));
            continue;
        };
        match field.support {
            Support::Yes => {}
            Support::No(why) => {
                found.problem(line(key), &path, format_args!("is not supported: {why}"));
                continue;
            }
            Support::Operator => {
                let words = "it has no effect here: `plural apply` applies once";
                found.warnings.push((line(key), format!("{path}: {words}")));
                continue;
            }
        }
        if let Node::Null = value.value {
            if field.required {
                found.problem(line(key), &path, "is required");
            } else {
                said.insert(name.to_owned(), Value::Null);
            }
            continue;
        }
        if let Some(value) = value_of(value, field.ty, &path, found) {
            said.insert(name.to_owned(), value);
        }
    }
    for field in fields.iter().filter(|field| field.required) {
        if !entries.iter().any(|(key, _)| key.value == field.name) {
            found.problem(line(node), path, format_args!("{} is required", field.name));
        }
    }
    said
}

fn value_of(node: &Placed, ty: Type, path: &str, found: &mut Found) -> Option<Value> {
    let wrong = |found: &mut Found, must: &str| {
        let quote = if matches!(
            (ty, &node.value),
            (Type::Text | Type::Texts | Type::TextMap, Node::Number(_) | Node::Bool(_))
        ) {
            "; put it in quotes"
        } else {
            ""
        };
        found.problem(line(node), path, format_args!("must be {must}, not {}{quote}", node.value.word()));
        None
    };
    match (ty, &node.value) {
        (Type::Text, Node::Text(text)) => Some(json!(text)),
        (Type::Text, _) => wrong(found, "text"),
        (Type::Span, Node::Text(text)) => match text.parse::<Seconds>() {
            Ok(seconds) => Some(json!(seconds)),
            Err(_) => wrong(found, "a time span such as 90s, 5m or 1h"),
        },
        (Type::Span, _) => wrong(found, "a time span such as 90s, 5m or 1h"),
        (Type::Bool, Node::Bool(value)) => Some(json!(value)),
        (Type::Bool, _) => wrong(found, "true or false"),
        (Type::Int, Node::Number(number)) if number.is_i64() || number.is_u64() => Some(json!(number)),
        (Type::Int, _) => wrong(found, "a whole number"),
        (Type::Word(words), Node::Text(text)) => {
            let known = words.iter().find(|word| word.eq_ignore_ascii_case(text));
            if known.is_none() {
                found.problem(line(node), path, format_args!("must be one of {}", words.join(", ")));
            }
            known.map(|word| json!(word))
        }
        (Type::Word(_), _) => wrong(found, "a word"),
        (Type::Texts, Node::List(items)) => {
            let texts = items.iter().enumerate();
            let texts = texts.map(|(at, item)| value_of(item, Type::Text, &format!("{path}[{at}]"), found));
            Some(Value::Array(texts.collect::<Vec<_>>().into_iter().flatten().collect()))
        }
        (Type::Texts, _) => wrong(found, "a list of texts"),
        (Type::TextMap, Node::Map(entries)) => {
            let mut texts = Map::new();
            for (key, value) in entries {
                let text = value_of(value, Type::Text, &format!("{path}.{}", key.value), found);
                texts.extend(text.map(|text| (key.value.clone(), text)));
            }
            Some(Value::Object(texts))
        }
        (Type::TextMap, _) => wrong(found, "a mapping of texts"),
        (Type::Json, Node::Map(_)) => Some(node.value.json()),
        (Type::Json, _) => wrong(found, "a mapping"),
        (Type::Reference(_) | Type::Secret | Type::SecretKey, Node::Map(_)) => {
            let fields = if matches!(ty, Type::SecretKey) { SECRET_KEY } else { REFERENCE };
            Some(Value::Object(check(node, fields, path, found)))
        }
        (Type::Reference(_) | Type::Secret | Type::SecretKey, _) => wrong(found, "a mapping with a name"),
        (Type::Fields(fields), Node::Map(_)) => Some(Value::Object(check(node, fields, path, found))),
        (Type::Fields(_), _) => wrong(found, "a mapping of fields"),
        (Type::List(fields), Node::List(items)) => {
            let items = items.iter().enumerate();
            let items =
                items.map(|(at, item)| Value::Object(check(item, fields, &format!("{path}[{at}]"), found)));
            Some(Value::Array(items.collect()))
        }
        (Type::List(_), _) => wrong(found, "a list"),
    }
}

const ONE_OF_A_REFERENCE: &str = "a document is found by its name (and namespace)";

const REFERENCE: &[Field] = &[
    field("name", Type::Text, "The name.").required(),
    field("namespace", Type::Text, "The namespace of its document, where several have the name."),
    refused("kind", ONE_OF_A_REFERENCE),
    refused("apiVersion", ONE_OF_A_REFERENCE),
    refused("uid", ONE_OF_A_REFERENCE),
    refused("resourceVersion", ONE_OF_A_REFERENCE),
    refused("fieldPath", ONE_OF_A_REFERENCE),
];

const SECRET_KEY: &[Field] = &[
    field("name", Type::Text, "The name of the Secret.").required(),
    field("key", Type::Text, "The key in it.").required(),
    refused("optional", "a key that is named must be there"),
];

/// The known name that a mistyped one comes next to.
pub(super) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let all = known.map(|one| (distance(&name.to_lowercase(), &one.to_lowercase()), one));
    all.filter(|(far, one)| *far <= 2 && *far < one.len()).min().map(|(_, one)| one)
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, letter) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (column, other) in b.iter().enumerate() {
            let change = before + usize::from(letter != *other);
            before = row[column + 1];
            row[column + 1] = change.min(before + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}
