//! The templates of `-o jsonpath=…`, the paths of `--sort-by` and of `-o custom-columns=…`, as kubectl has them.
//!
//! RFC 9535 is about queries and has no templates; kubectl's `{range}`, quoted text and `\.` are of its own.

mod parse;

use std::{cmp::Ordering, fmt};

use serde_json::Value;

/// Text with expressions in braces: `{range .items[*]}{.name}{"\n"}{end}`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template(Vec<Node>);

/// A path alone: `.status.x`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path {
    /// From the whole document, where an expression is usually relative to the item of a range.
    of_root: bool,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Text(String),
    Path(Path),
    Range(Path, Vec<Self>),
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// `.name`
    Field(String),
    /// `.*` and `[*]`
    All,
    /// `..`: itself and everything below
    Descend,
    /// `[…]`, each part for itself
    Pick(Vec<Pick>),
    /// `[?(…)]`
    Filter(Operand, Option<(Comparison, Operand)>),
}

#[derive(Debug, Clone, PartialEq)]
enum Pick {
    /// A key, or where there is no such key, a path with dots; with that path.
    Key(String, Vec<String>),
    Index(i64),
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        by: usize,
    },
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(Path),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Why a template cannot be read, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadTemplate {
    /// In characters, from 1.
    position: usize,
    message: String,
}

impl fmt::Display for BadTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at position {}", self.message, self.position)
    }
}

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, BadTemplate> {
        parse::template(text).map(Self)
    }

    /// The text that it makes of a document. What is not there is nothing; an index out of bounds is an error.
    pub(crate) fn render(&self, document: &Value) -> Result<String, String> {
        let mut text = String::new();
        render(&self.0, document, document, &mut text)?;
        Ok(text)
    }
}

impl Path {
    /// Reads `.status.x`, `status.x`, `{.status.x}` or `$.status.x`.
    pub(crate) fn parse(text: &str) -> Result<Self, BadTemplate> {
        parse::path(text)
    }

    /// What is there.
    pub(crate) fn find<'v>(&self, document: &'v Value) -> Result<Vec<&'v Value>, String> {
        find(self, document, document)
    }
}

fn render(nodes: &[Node], root: &Value, current: &Value, text: &mut String) -> Result<(), String> {
    for node in nodes {
        match node {
            Node::Text(plain) => text.push_str(plain),
            Node::Path(path) => {
                let found: Vec<String> = find(path, root, current)?.into_iter().map(printed).collect();
                text.push_str(&found.join(" "));
            }
            Node::Range(path, inner) => {
                for item in find(path, root, current)? {
                    render(inner, root, item, text)?;
                }
            }
        }
    }
    Ok(())
}

/// A text as it is, anything else as JSON.
pub(crate) fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn find<'v>(path: &Path, root: &'v Value, current: &'v Value) -> Result<Vec<&'v Value>, String> {
    let mut found = vec![if path.of_root { root } else { current }];
    for step in &path.steps {
        let mut next = Vec::new();
        for value in found {
            follow(step, root, value, &mut next)?;
        }
        found = next;
    }
    Ok(found)
}

fn follow<'v>(
    step: &Step,
    root: &'v Value,
    value: &'v Value,
    found: &mut Vec<&'v Value>,
) -> Result<(), String> {
    match step {
        Step::Field(name) => found.extend(value.get(name)),
        Step::All => found.extend(children(value)),
        Step::Descend => {
            found.push(value);
            for child in children(value) {
                follow(step, root, child, found)?;
            }
        }
        Step::Pick(picks) => {
            for pick in picks {
                picked(pick, value, found)?;
            }
        }
        Step::Filter(left, comparison) => {
            for item in value.as_array().into_iter().flatten() {
                if fits(left, comparison.as_ref(), root, item)? {
                    found.push(item);
                }
            }
        }
    }
    Ok(())
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

fn picked<'v>(pick: &Pick, value: &'v Value, found: &mut Vec<&'v Value>) -> Result<(), String> {
    match pick {
        Pick::Key(key, dotted) => {
            let by_dots = || dotted.iter().try_fold(value, |value, name| value.get(name));
            found.extend(value.get(key).or_else(by_dots));
        }
        Pick::Index(index) => {
            // Descending comes by things that are no lists.
            let Some(items) = value.as_array() else { return Ok(()) };
            let item = position(*index, items.len()).and_then(|at| items.get(at));
            let out = || format!("array index out of bounds: index {index}, length {}", items.len());
            found.push(item.ok_or_else(out)?);
        }
        Pick::Slice { from, to, by } => {
            let Some(items) = value.as_array() else { return Ok(()) };
            let at = |bound: i64| position(bound, items.len()).unwrap_or(0).min(items.len());
            let (from, to) = (from.map_or(0, at), to.map_or(items.len(), at));
            found.extend(items.get(from..to).unwrap_or_default().iter().step_by(*by));
        }
    }
    Ok(())
}

/// An index, from the end where it is negative.
fn position(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index.checked_add(length)? } else { index }).ok()
}

fn fits(
    left: &Operand,
    comparison: Option<&(Comparison, Operand)>,
    root: &Value,
    item: &Value,
) -> Result<bool, String> {
    let value = |operand: &Operand| -> Result<Option<Value>, String> {
        Ok(match operand {
            Operand::Literal(value) => Some(value.clone()),
            Operand::Path(path) => find(path, root, item)?.first().map(|&value| value.clone()),
        })
    };
    let Some((comparison, right)) = comparison else { return Ok(value(left)?.is_some()) };
    let (Some(left), Some(right)) = (value(left)?, value(right)?) else { return Ok(false) };
    let order = ordered(&left, &right);
    Ok(match comparison {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    })
}

fn ordered(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (left, right) => (left == right).then_some(Ordering::Equal),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        json!({"items": [
            {"name": "web", "cpu": 4, "tags": [{"name": "stage", "value": "prod"}], "labels": {"a.b/c": "x"}},
            {"name": "db", "cpu": 12, "error": null, "tags": [], "git": {"ref": "main"}},
        ]})
    }

    fn rendered(template: &str) -> String {
        Template::parse(template)
            .unwrap_or_else(|error| panic!("{template}: {error}"))
            .render(&document())
            .unwrap()
    }

    #[test]
    fn templates_are_those_of_kubectl() {
        for (template, text) in [
            ("{.items[*].name}", "web db"),
            ("{range .items[*]}{.name}{\"\\t\"}{.cpu}{\"\\n\"}{end}", "web\t4\ndb\t12\n"),
            ("{range .items[*]}{@.name}{','}{end}", "web,db,"),
            ("all: {.items[*].cpu}\\n", "all: 4 12\\n"),
            ("{.items[0].name}/{.items[-1].name}", "web/db"),
            ("{.items[0:1].name} {.items[1:].name} {.items[-1:].name} {.items[::2].name}", "web db db web"),
            ("{.items[*]['name']}", "web db"),
            ("{.items[*]['name','git.ref']}", "web db main"),
            ("{.items[0].labels.a\\.b/c}", "x"),
            ("{.items[0].labels['a.b/c']}", "x"),
            ("{.items[0].labels['a\\.b/c']}", "x"),
            ("{..name}", "web stage db"),
            ("{.items[?(@.name==\"db\")].cpu}", "12"),
            ("{.items[?(@.name == 'db')].cpu}", "12"),
            ("{.items[?(@.cpu>4)].name}", "db"),
            ("{.items[?(@.cpu<=4)].name}", "web"),
            ("{.items[?(@.name!=\"db\")].name}", "web"),
            ("{.items[?(@.git)].name}", "db"),
            ("{.items[?(@.git.ref==\"main\")].name}", "db"),
            ("{.items[?(@.tags[*].value==\"prod\")].name}", "web"),
            ("{.items[1].error}", "null"),
            ("{.items[1].git}", "{\"ref\":\"main\"}"),
            ("{.items[1].git.*}", "main"),
            ("{.items[0,1].name}", "web db"),
            ("{$.items[1].name}{.none.at.all}", "db"),
            ("{range .items[*]}{range .tags[*]}{.name}={.value}{end};{end}", "stage=prod;;"),
            ("{range .items[*]}{.name} of {$.items[0].name} {end}", "web of web db of web "),
            ("plain", "plain"),
        ] {
            assert_eq!(rendered(template), text, "{template}");
        }
        let error = Template::parse("{.items[7].name}").unwrap().render(&document()).unwrap_err();
        assert_eq!(error, "array index out of bounds: index 7, length 2");
    }

    #[test]
    fn what_is_no_template_is_told_with_its_position() {
        for (template, error) in [
            ("{.items", "the expression has no } at position 8"),
            ("{.items[*}", "expected , or ] at position 10"),
            ("{.items[}", "expected *, ?(…), a number, a slice or a quoted key at position 9"),
            ("{.items[?(@.x=1]}", "expected ) at position 16"),
            ("{.items[?(@.x~1)]}", "expected ==, !=, <, <=, >, >= or ) at position 14"),
            ("{range .items[*]}{.name}", "the range has no {end} at position 1"),
            ("{.name}{end}", "{end} without a range at position 8"),
            ("{name}", "expected a path, a quoted text, range or end, not \"name\" at position 2"),
            ("{\"abc}", "the text has no \" at its end at position 2"),
            ("{.}", "expected a name at position 3"),
            ("{..}", "expected a name at position 4"),
            ("{.a[1:x]}", "expected , or ] at position 7"),
            ("{.a[::0]}", "a step is at least 1 at position 7"),
        ] {
            let told = Template::parse(template).map_or_else(|error| error.to_string(), |_| "fine".into());
            assert_eq!(told, error, "{template}");
        }
    }

    #[test]
    fn a_path_alone_needs_no_braces() {
        for path in [".items[0].name", "items[0].name", "{.items[0].name}", "$.items[0].name"] {
            let path = Path::parse(path).unwrap();
            assert_eq!(path.find(&document()).unwrap(), [&json!("web")]);
        }
        assert!(Path::parse("{.a}{.b}").is_err());
        assert!(Path::parse("").is_err());
    }
}
