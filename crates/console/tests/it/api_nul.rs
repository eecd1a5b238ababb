//! A NUL character in every text that the schema takes, one at a time: refused with the same words on both databases, and
//! nothing is written.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use graphql_parser::schema::{Definition, InputValue, Type, TypeDefinition, parse_schema};
use plural_testkit::{TestDatabase, each_database};
use secrecy::SecretString;
use serde_json::{Map, Value, json};

use crate::api_server::{Answer, TestServer};

each_database!(no_text_holds_nul);

const NUL: &str = "a\0b";

/// The schema, as far as arguments depend on it.
struct Schema {
    objects: BTreeMap<String, Vec<Field>>,
    inputs: BTreeMap<String, Input>,
    enums: BTreeMap<String, String>,
}

struct Field {
    name: String,
    of: Type<'static, String>,
    arguments: Vec<InputValue<'static, String>>,
}

struct Input {
    fields: Vec<InputValue<'static, String>>,
    /// Exactly one of its fields is given.
    one_of: bool,
}

/// One request: a value with a NUL character for one argument of one field.
struct Case {
    /// `RootMutationType.createProject(attributes.description)`.
    place: String,
    document: String,
    variables: Value,
}

impl Schema {
    fn read() -> Self {
        let document = parse_schema::<String>(&plural_api::sdl()).unwrap().into_static();
        let (mut objects, mut inputs, mut enums) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for definition in document.definitions {
            let Definition::TypeDefinition(definition) = definition else { continue };
            match definition {
                TypeDefinition::Object(object) => {
                    let fields = object.fields.into_iter().map(|field| Field {
                        name: field.name,
                        of: field.field_type,
                        arguments: field.arguments,
                    });
                    objects.insert(object.name, fields.collect());
                }
                TypeDefinition::InputObject(input) => {
                    let one_of = input.directives.iter().any(|directive| directive.name == "oneOf");
                    inputs.insert(input.name, Input { fields: input.fields, one_of });
                }
                TypeDefinition::Enum(of) => {
                    enums.insert(of.name, of.values[0].name.clone());
                }
                TypeDefinition::Scalar(_) | TypeDefinition::Interface(_) | TypeDefinition::Union(_) => {}
            }
        }
        Self { objects, inputs, enums }
    }

    /// Every place of a text in an argument, with the values to send there.
    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for (of, path) in self.ways() {
            for field in &self.objects[&of] {
                for argument in &field.arguments {
                    let mut places = Vec::new();
                    self.texts(&argument.value_type, &mut Vec::new(), &mut BTreeSet::new(), &mut places);
                    for (place, value) in places {
                        let value = self.value(&argument.value_type, &place, &value);
                        let names: Vec<&str> = [argument.name.as_str()]
                            .into_iter()
                            .chain(place.iter().map(String::as_str))
                            .collect();
                        let (document, variables) = self.document(&path, field, &argument.name, &value);
                        let place = format!("{of}.{}({})", field.name, names.join("."));
                        cases.push(Case { place, document, variables });
                    }
                }
            }
        }
        cases
    }

    /// The object types, with the fields that lead to each from a root.
    fn ways(&self) -> Vec<(String, Vec<(String, &Field)>)> {
        let mut known: BTreeSet<String> = BTreeSet::new();
        let mut ways = Vec::new();
        let roots = ["RootQueryType", "RootMutationType"];
        let mut open: VecDeque<_> = roots.iter().map(|root| ((*root).to_owned(), Vec::new())).collect();
        while let Some((of, path)) = open.pop_front() {
            if !known.insert(of.clone()) {
                continue;
            }
            for field in &self.objects[&of] {
                let below = named(&field.of);
                if self.objects.contains_key(below) {
                    let path: Vec<_> = path.iter().cloned().chain([(of.clone(), field)]).collect();
                    open.push_back((below.to_owned(), path));
                }
            }
            ways.push((of, path));
        }
        ways
    }

    /// Where below a type there are texts, and what is sent there.
    fn texts(
        &self,
        of: &Type<'static, String>,
        path: &mut Vec<String>,
        inside: &mut BTreeSet<String>,
        places: &mut Vec<(Vec<String>, Value)>,
    ) {
        let name = named(of);
        match name {
            "String" | "ID" => places.push((path.clone(), json!(NUL))),
            "Json" => {
                let forms = [json!({"a": [NUL]}), json!({NUL: 1}), json!("{\"a\": \"\\u0000\"}"), json!(NUL)];
                places.extend(forms.into_iter().map(|form| (path.clone(), form)));
            }
            _ => {
                let Some(input) = self.inputs.get(name) else { return };
                if !inside.insert(name.to_owned()) {
                    return;
                }
                for field in &input.fields {
                    path.push(field.name.clone());
                    self.texts(&field.value_type, path, inside, places);
                    path.pop();
                }
                inside.remove(name);
            }
        }
    }

    /// A value of a type with `leaf` at this path below it, and what has to be beside it.
    fn value(&self, of: &Type<'static, String>, path: &[String], leaf: &Value) -> Value {
        match of {
            Type::NonNullType(of) => self.value(of, path, leaf),
            Type::ListType(of) => json!([self.value(of, path, leaf)]),
            Type::NamedType(name) => {
                let Some((first, rest)) = path.split_first() else { return leaf.clone() };
                let input = &self.inputs[name];
                let mut fields = Map::new();
                for field in &input.fields {
                    if field.name == *first {
                        fields.insert(field.name.clone(), self.value(&field.value_type, rest, leaf));
                    } else if matches!(field.value_type, Type::NonNullType(_)) {
                        fields.insert(field.name.clone(), self.plain(&field.value_type));
                    }
                }
                Value::Object(fields)
            }
        }
    }

    /// The least value of a type.
    fn plain(&self, of: &Type<'static, String>) -> Value {
        match of {
            Type::NonNullType(of) => self.plain(of),
            Type::ListType(of) => json!([self.plain(of)]),
            Type::NamedType(name) => match name.as_str() {
                "String" => json!("plain"),
                "ID" => json!("0190b8a2-7c11-7def-8000-0123456789ab"),
                "Int" => json!(1),
                "Float" => json!(0.5),
                "Boolean" => json!(true),
                "Json" => json!({}),
                "DateTime" => json!("2026-01-01T00:00:00Z"),
                name => match (self.enums.get(name), self.inputs.get(name)) {
                    (Some(first), _) => json!(first),
                    (None, Some(input)) => {
                        let needed = |field: &&InputValue<'static, String>| {
                            input.one_of || matches!(field.value_type, Type::NonNullType(_))
                        };
                        let most = if input.one_of { 1 } else { usize::MAX };
                        let fields = input.fields.iter().filter(needed).take(most);
                        fields.map(|field| (field.name.clone(), self.plain(&field.value_type))).collect()
                    }
                    (None, None) => panic!("no value of {name}"),
                },
            },
        }
    }

    /// A document that asks for a field behind others, and its variables.
    fn document(
        &self,
        path: &[(String, &Field)],
        field: &Field,
        argument: &str,
        value: &Value,
    ) -> (String, Value) {
        let mut declared = Vec::new();
        let mut variables = Map::new();
        let mut call = |field: &Field, given: Option<(&str, &Value)>| {
            let mut arguments = Vec::new();
            for one in &field.arguments {
                let value = match given {
                    Some((name, value)) if name == one.name => value.clone(),
                    // Pages in pages stay within what a document may weigh.
                    _ if one.name == "first" || matches!(one.value_type, Type::NonNullType(_)) => {
                        self.plain(&one.value_type)
                    }
                    _ => continue,
                };
                let name = format!("v{}", declared.len());
                arguments.push(format!("{}: ${name}", one.name));
                declared.push(format!("${name}: {}", one.value_type));
                variables.insert(name, value);
            }
            if arguments.is_empty() {
                field.name.clone()
            } else {
                format!("{}({})", field.name, arguments.join(", "))
            }
        };
        let mut text = String::new();
        for (_, field) in path {
            write!(text, "{} {{ ", call(field, None)).unwrap();
        }
        text.push_str(&call(field, Some((argument, value))));
        if self.objects.contains_key(named(&field.of)) {
            text.push_str(" { __typename }");
        }
        text.push_str(&" }".repeat(path.len()));
        let root = path.first().map(|(of, _)| of.as_str());
        let is_mutation = match root {
            Some(root) => root == "RootMutationType",
            None => self.objects["RootMutationType"].iter().any(|one| std::ptr::eq(one, field)),
        };
        let operation = if is_mutation { "mutation" } else { "query" };
        (format!("{operation} ({}) {{ {text} }}", declared.join(", ")), Value::Object(variables))
    }
}

fn named<'a>(of: &'a Type<'static, String>) -> &'a str {
    match of {
        Type::NamedType(name) => name,
        Type::ListType(of) | Type::NonNullType(of) => named(of),
    }
}

async fn no_text_holds_nul(database: TestDatabase) {
    let t = TestServer::with(|config| {
        config.database_url = Some(SecretString::from(database.url()));
    })
    .await;
    let lines = async || {
        let lines = t.admin.data("{ audits(last: 100) { edges { node { id } } } }", json!({})).await;
        lines["audits"]["edges"].clone()
    };
    let before = lines().await;
    let cases = Schema::read().cases();
    assert!(cases.len() > 300, "the schema was not read: {}", cases.len());
    let mut wrong = Vec::new();
    for Case { place, document, variables } in &cases {
        let answer = t.admin.ask(document, variables.clone()).await;
        if !is_refused(&answer) {
            wrong.push(format!(
                "{place}: {} {}\n    {document} {variables}",
                answer.outcome(),
                answer.message()
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert_eq!(lines().await, before, "something was written");

    // As a literal, and by who has no credential.
    let literal = "mutation { createProject(attributes: {name: \"a\", description: \"b\\u0000\"}) { id } }";
    let answer = t.admin.ask(literal, Value::Null).await;
    assert!(is_refused(&answer), "{answer:?}");
    assert_eq!(answer.body["errors"][0]["extensions"]["field"], "createProject.attributes.description");
    let sign_in = "mutation ($p: String!) { signIn(email: \"admin@example.com\", password: $p) { jwt } }";
    let answer = t.nobody.ask(sign_in, json!({"p": NUL})).await;
    assert!(is_refused(&answer), "{answer:?}");
    // A variable that nothing uses is none.
    let answer = t.admin.ask("{ me { id } }", json!({"unused": NUL})).await;
    assert_eq!(answer.outcome(), "OK", "{answer:?}");
    t.stop().await;
}

fn is_refused(answer: &Answer) -> bool {
    answer.status == 200
        && answer.outcome() == "INVALID"
        && answer.message().contains("must not hold a NUL character")
}
