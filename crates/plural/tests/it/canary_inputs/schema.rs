//! The inputs of the schema, and requests that fill all of them.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
};

use graphql_parser::schema::{Definition, Field, InputValue, Type, TypeDefinition, parse_schema};
use serde_json::{Map, Value, json};

use super::CORE;

const SDL: &str = include_str!("../../../../../docs/reference/schema.graphql");
const NAMES: &str = include_str!("names.txt");
/// What is given with one secret, though the schema does not ask for it.
const COMPANIONS: [&str; 10] =
    ["clusterId", "name", "repositoryId", "git", "ref", "folder", "namespace", "type", "user", "username"];
/// How deep input objects are filled.
const DEEPEST: usize = 6;
/// Scalars that are text, or hold some.
const TEXTS: [&str; 3] = ["String", "Json", "Map"];

/// What a text that comes in is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Somebody's secret.
    Secret,
    /// An address, which may hold a password.
    Url,
    /// Whoever may look at the thing may read it.
    Open,
}

/// Requests that are well formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// Every input.
    All,
    /// What has to be there, and secrets.
    Needed,
    /// As before, with secrets of characters that have to be escaped.
    Odd,
    /// With secrets that are too long.
    Long,
    /// One secret, and what is likely to be wanted with it: see [`Inputs::ask_alone`].
    Alone,
}

impl Filled {
    pub(super) const ALL: [Self; 4] = [Self::All, Self::Needed, Self::Odd, Self::Long];

    fn secret(self, number: u32, kind: Kind) -> String {
        let core = format!("{CORE}x{number}");
        let text = match self {
            Self::All | Self::Needed | Self::Alone => core,
            Self::Odd => format!("\"{core}\\\u{7}%<é>'\u{202e}"),
            Self::Long => core + &"x".repeat(70_000),
        };
        match (kind, self) {
            // With a password it is refused wherever it is.
            (Kind::Url, Self::Alone) => format!("https://git.invalid/{number}.git"),
            (Kind::Url, _) => format!("https://ada:{text}@git.invalid/{number}.git"),
            _ => text,
        }
    }
}

/// Requests that are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Malformed {
    /// A secret is an object in the variables.
    Nested,
    /// A secret is a bare word in the document.
    Bare,
    /// The document ends in the middle.
    Cut,
    /// There is one field too many, and the secret is in that.
    Unknown,
    /// A variable that nothing declares has it, and the document names another one.
    Undeclared,
}

impl Malformed {
    pub(super) const ALL: [Self; 5] = [Self::Nested, Self::Bare, Self::Cut, Self::Unknown, Self::Undeclared];
}

/// The table, by name or by `TYPE.NAME`.
pub(super) fn table() -> BTreeMap<String, Kind> {
    NAMES
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (name, kind) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            let kind = match kind.trim() {
                "secret" => Kind::Secret,
                "url" => Kind::Url,
                "open" => Kind::Open,
                other => panic!("{line}: {other}"),
            };
            (name.to_owned(), kind)
        })
        .collect()
}

/// Whether the table has this input: `TYPE.NAME`.
pub(super) fn is_listed(input: &str, known: &BTreeSet<String>) -> bool {
    known.contains(input) || input.split_once('.').is_some_and(|(_, name)| known.contains(name))
}

/// Whether there is an input that a line of the table is about.
pub(super) fn is_used(line: &str, inputs: &BTreeSet<String>) -> bool {
    inputs.contains(line)
        || inputs.iter().any(|input| input.split_once('.').is_some_and(|(_, name)| name == line))
}

type Inner = Type<'static, String>;

/// An argument, or a field of an input object.
struct Input {
    name: String,
    of: Inner,
}

/// What can be given to mutations.
pub(super) struct Inputs {
    objects: BTreeMap<String, Vec<Input>>,
    enums: BTreeMap<String, String>,
    mutations: BTreeMap<String, (Vec<Input>, bool)>,
    table: BTreeMap<String, Kind>,
    planted: Cell<u32>,
    /// The one secret that is planted, as the names that lead to it; all of them when empty.
    only: RefCell<Vec<String>>,
}

fn inputs(values: Vec<InputValue<'static, String>>) -> Vec<Input> {
    values.into_iter().map(|input| Input { name: input.name, of: input.value_type }).collect()
}

/// A type as documents write it.
fn written(of: &Inner) -> String {
    match of {
        Type::NamedType(name) => name.clone(),
        Type::ListType(of) => format!("[{}]", written(of)),
        Type::NonNullType(of) => format!("{}!", written(of)),
    }
}

fn named(of: &Inner) -> &str {
    match of {
        Type::NamedType(name) => name,
        Type::ListType(of) | Type::NonNullType(of) => named(of),
    }
}

impl Inputs {
    pub(super) fn read() -> Self {
        let document = parse_schema::<String>(SDL).unwrap();
        let (mut objects, mut enums, mut outputs) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut fields: Vec<Field<'static, String>> = Vec::new();
        for definition in document.definitions {
            match definition {
                Definition::TypeDefinition(TypeDefinition::InputObject(object)) => {
                    objects.insert(object.name, inputs(object.fields));
                }
                Definition::TypeDefinition(TypeDefinition::Enum(of)) => {
                    enums.insert(of.name, of.values[0].name.clone());
                }
                Definition::TypeDefinition(TypeDefinition::Object(object)) => {
                    if object.name == "RootMutationType" {
                        fields = object.fields;
                    } else {
                        outputs.insert(object.name);
                    }
                }
                _ => {}
            }
        }
        let mutations = fields
            .into_iter()
            .map(|field| {
                let is_object = outputs.contains(named(&field.field_type));
                (field.name, (inputs(field.arguments), is_object))
            })
            .collect();
        Self { objects, enums, mutations, table: table(), planted: Cell::new(0), only: RefCell::default() }
    }

    /// Every text that can be given: `TYPE.NAME` or `MUTATION.ARGUMENT`.
    pub(super) fn names(&self) -> BTreeSet<String> {
        let of_mutations = self.mutations.iter().map(|(name, (inputs, _))| (name, inputs));
        self.objects
            .iter()
            .chain(of_mutations)
            .flat_map(|(of, inputs)| {
                let texts = inputs.iter().filter(|input| TEXTS.contains(&named(&input.of)));
                texts.map(move |input| format!("{of}.{}", input.name))
            })
            .collect()
    }

    fn kind(&self, of: &str, name: &str) -> Kind {
        let exact = self.table.get(&format!("{of}.{name}"));
        exact.or_else(|| self.table.get(name)).copied().unwrap_or(Kind::Open)
    }

    /// Mutations that can be given a secret.
    pub(super) fn with_secrets(&self) -> Vec<String> {
        let has = |name: &&String| {
            let (inputs, _) = &self.mutations[*name];
            inputs.iter().any(|input| self.has_secret(name, input, 0))
        };
        self.mutations.keys().filter(has).cloned().collect()
    }

    fn has_secret(&self, of: &str, input: &Input, depth: usize) -> bool {
        let inner = named(&input.of);
        if let Some(fields) = self.objects.get(inner) {
            return depth < DEEPEST && fields.iter().any(|field| self.has_secret(inner, field, depth + 1));
        }
        TEXTS.contains(&inner) && self.kind(of, &input.name) != Kind::Open
    }

    /// A request with everything in its variables.
    pub(super) fn ask(&self, mutation: &str, form: Filled, ids: &Value) -> (String, Value) {
        let (inputs, is_object) = &self.mutations[mutation];
        let (mut declared, mut given, mut variables) = (Vec::new(), Vec::new(), Map::new());
        for input in inputs {
            if let Some(value) = self.fill(mutation, mutation, input, form, ids, 0) {
                declared.push(format!("${}: {}", input.name, written(&input.of)));
                given.push(format!("{0}: ${0}", input.name));
                variables.insert(input.name.clone(), value);
            }
        }
        let selection = if *is_object { " { __typename }" } else { "" };
        let document =
            format!("mutation ({}) {{ {mutation}({}){selection} }}", declared.join(", "), given.join(", "));
        (document, Value::Object(variables))
    }

    /// A request for each secret that a mutation can be given, with that one alone; but for what has to be the caller's password.
    pub(super) fn ask_alone(&self, mutation: &str, ids: &Value) -> Vec<(String, Value)> {
        let (inputs, _) = &self.mutations[mutation];
        let mut paths = Vec::new();
        for input in inputs {
            self.secrets(mutation, input, &mut Vec::new(), &mut paths);
        }
        let ask = |path: Vec<String>| {
            self.only.replace(path);
            let asked = self.ask(mutation, Filled::Alone, ids);
            self.only.take();
            asked
        };
        paths
            .into_iter()
            .filter(|path| path.last().is_none_or(|name| name != "currentPassword"))
            .map(ask)
            .collect()
    }

    /// The names that lead to each secret.
    fn secrets(&self, of: &str, input: &Input, path: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
        let inner = named(&input.of);
        path.push(input.name.clone());
        if let Some(fields) = self.objects.get(inner).filter(|_| path.len() <= DEEPEST) {
            for field in fields {
                self.secrets(inner, field, path, paths);
            }
        } else if TEXTS.contains(&inner) && self.kind(of, &input.name) != Kind::Open {
            paths.push(path.clone());
        }
        path.pop();
    }

    /// Whether an input that nothing asks for is given with the one secret.
    fn goes_along(&self, of: &str, input: &Input, depth: usize) -> bool {
        let only = self.only.borrow();
        if only.get(depth) == Some(&input.name) {
            return true;
        }
        let is_open = self.objects.contains_key(named(&input.of)) || self.kind(of, &input.name) == Kind::Open;
        is_open && (COMPANIONS.contains(&input.name.as_str()) || (depth == 0 && named(&input.of) == "ID"))
    }

    /// One that cannot be read.
    pub(super) fn malform(&self, mutation: &str, form: Malformed, ids: &Value) -> (String, Value) {
        let (document, variables) = self.ask(mutation, Filled::Needed, ids);
        let (inputs, is_object) = &self.mutations[mutation];
        let selection = if *is_object { " { __typename }" } else { "" };
        let literal = |value: &Value| {
            let given: Vec<String> = inputs
                .iter()
                .filter_map(|input| Some(format!("{}: {}", input.name, graphql(value.get(&input.name)?))))
                .collect();
            format!("mutation {{ {mutation}({}){selection} }}", given.join(", "))
        };
        match form {
            Malformed::Nested => (document, nest(variables)),
            Malformed::Bare => (bare(&literal(&variables)), Value::Null),
            Malformed::Cut => {
                let whole = literal(&variables);
                let end = whole.rfind(CORE).map_or(whole.len(), |at| at + CORE.len() + 1);
                (whole[..end].to_owned(), Value::Null)
            }
            Malformed::Unknown => {
                let more = format!("mutation {{ {mutation}(somethingElse: \"{CORE}\"){selection} }}");
                (more, Value::Null)
            }
            Malformed::Undeclared => {
                let one = format!("mutation ($a: Int!) {{ {mutation}(a: $b){selection} }}");
                (one, json!({"a": CORE, "b": CORE}))
            }
        }
    }

    fn fill(
        &self,
        mutation: &str,
        of: &str,
        input: &Input,
        form: Filled,
        ids: &Value,
        depth: usize,
    ) -> Option<Value> {
        let needed = matches!(input.of, Type::NonNullType(_));
        if form == Filled::Alone {
            if !needed && !self.goes_along(of, input, depth) {
                return None;
            }
            let known = known(mutation, &input.name, ids);
            if !needed && named(&input.of) == "ID" && known.is_none() {
                return None;
            }
        }
        if !needed && !matches!(form, Filled::All | Filled::Alone) && !self.has_secret(of, input, depth) {
            return known(mutation, &input.name, ids).filter(|_| named(&input.of) == "ID");
        }
        let one = self.one(mutation, of, input, form, ids, depth)?;
        Some(listed(&input.of, one))
    }

    fn one(
        &self,
        mutation: &str,
        of: &str,
        input: &Input,
        form: Filled,
        ids: &Value,
        depth: usize,
    ) -> Option<Value> {
        let inner = named(&input.of);
        if let Some(fields) = self.objects.get(inner) {
            if depth >= DEEPEST {
                return None;
            }
            let fields = fields.iter().filter_map(|field| {
                Some((field.name.clone(), self.fill(mutation, inner, field, form, ids, depth + 1)?))
            });
            return Some(Value::Object(fields.collect()));
        }
        if let Some(first) = self.enums.get(inner) {
            return Some(json!(first));
        }
        let name = input.name.as_str();
        Some(match inner {
            "ID" => {
                known(mutation, name, ids).unwrap_or_else(|| json!("0190c8a0-0000-7000-8000-000000000000"))
            }
            "Int" | "Float" => json!(1),
            "Boolean" => json!(false),
            "DateTime" => json!("2030-01-01T00:00:00Z"),
            _ => match self.kind(of, name) {
                // Nothing has it yet.
                Kind::Open if form == Filled::Alone && name == "name" => {
                    json!(format!("web{}", self.planted.get()))
                }
                Kind::Open if form == Filled::Alone && name == "email" && mutation.starts_with("create") => {
                    json!(format!("new{}@example.com", self.planted.get()))
                }
                Kind::Open if inner == "String" => open(name),
                Kind::Open => json!({}),
                kind => {
                    self.planted.set(self.planted.get() + 1);
                    let secret = json!(form.secret(self.planted.get(), kind));
                    if inner == "String" { secret } else { json!({"a": secret}) }
                }
            },
        })
    }
}

/// A text that is likely to be taken.
fn open(name: &str) -> Value {
    json!(match name {
        "email" => "victim@example.com",
        "issuer" => "https://id.invalid",
        "ref" => "main",
        "cluster" => "blue",
        "interval" | "retryWait" | "retryMaxWait" | "waveTimeout" => "1m",
        "schedule" => "0 0 1 1 *",
        "version" => "1.0.0",
        _ => "web",
    })
}

/// The id that an input of this name means.
fn known(mutation: &str, name: &str, ids: &Value) -> Option<Value> {
    let word = match name {
        "clusterId" => "cluster",
        "serviceId" => "service",
        "repositoryId" => "repository",
        "projectId" => "project",
        "groupId" => "group",
        "userId" => "user",
        "id" => {
            let of = [
                ("ServiceAccount", "account"),
                ("ServiceDeployment", "service"),
                ("GitRepository", "repository"),
                ("Project", "project"),
                ("Cluster", "cluster"),
                ("Group", "group"),
                ("User", "user"),
                ("Service", "service"),
            ];
            of.iter().find(|(part, _)| mutation.contains(part)).map(|(_, word)| *word)?
        }
        _ => return None,
    };
    ids.get(word).cloned()
}

fn listed(of: &Inner, one: Value) -> Value {
    match of {
        Type::NamedType(_) => one,
        Type::NonNullType(of) => listed(of, one),
        Type::ListType(of) => json!([listed(of, one)]),
    }
}

/// A value as GraphQL writes it in a document.
fn graphql(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name}: {}", graphql(value))).collect();
            format!("{{{}}}", fields.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(graphql).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// Each text with a canary is an object around it.
fn nest(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, nest(value))).collect(),
        Value::Array(items) => items.into_iter().map(nest).collect(),
        Value::String(text) if text.contains(CORE) => json!({"deep": [text.clone()], CORE: text}),
        other => other,
    }
}

/// Texts with a canary are words without quotes.
fn bare(document: &str) -> String {
    let mut out = String::new();
    for (at, part) in document.split('"').enumerate() {
        if at % 2 == 0 {
            out.push_str(part);
        } else if part.contains(CORE) {
            out.extend(part.chars().filter(char::is_ascii_alphanumeric));
        } else {
            out.push('"');
            out.push_str(part);
            out.push('"');
        }
    }
    out
}
