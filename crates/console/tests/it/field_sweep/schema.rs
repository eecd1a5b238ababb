//! The schema, and documents that ask for all of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use graphql_parser::schema::{Definition, Type, TypeDefinition, parse_schema};
use serde_json::Value;

/// Rows of each page: enough to see more than one thing, few enough that pages in pages stay within the limits.
const ROWS: u32 = 4;
/// As how many a list without pages counts.
const LISTED: u32 = 10;
/// Below more rows than this a document goes no deeper: what is there is asked for by others, whose way is shorter. Of
/// these the first that the API takes.
const DEEPEST: [(u32, Objects); 5] = [
    (1_000, Objects::Named),
    (100, Objects::Named),
    (40, Objects::Named),
    (10, Objects::Named),
    (10, Objects::LeftOut),
];

/// What is asked of objects to which a document does not go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Objects {
    /// The name of their type.
    Named,
    /// Nothing, and it goes to those of the answer itself alone: each of many rows would be too heavy with more.
    LeftOut,
}

/// The output types of the schema.
pub(super) struct Schema {
    pub(super) types: BTreeMap<String, Vec<Field>>,
}

/// A field of a type.
pub(super) struct Field {
    pub(super) name: String,
    /// Name of its type, without list and null marks.
    of: String,
    paged: bool,
    listed: bool,
}

/// A document and the fields that it asks for.
pub(super) struct Document {
    pub(super) text: String,
    pub(super) asked: BTreeSet<(String, String)>,
}

/// One type in a document: where it is first reached, and what is below it.
#[derive(Default)]
struct Node {
    children: BTreeMap<String, Node>,
}

impl Schema {
    pub(super) fn read() -> Self {
        let sdl = plural_api::sdl();
        let document = parse_schema::<String>(&sdl).unwrap();
        let types = document.definitions.into_iter().filter_map(|definition| match definition {
            Definition::TypeDefinition(TypeDefinition::Object(object)) => {
                let fields = object.fields.into_iter().map(|field| Field {
                    // The page already counted its edges.
                    listed: is_list(&field.field_type) && field.name != "edges",
                    of: named(&field.field_type),
                    name: field.name,
                    paged: field.arguments.iter().any(|argument| argument.name == "first"),
                });
                Some((object.name, fields.collect()))
            }
            _ => None,
        });
        Self { types: types.collect() }
    }

    /// Type and name of every field.
    pub(super) fn fields(&self) -> BTreeSet<(String, String)> {
        let fields = |(of, fields): (&String, &Vec<Field>)| {
            fields.iter().map(|field| (of.clone(), field.name.clone())).collect::<Vec<_>>()
        };
        self.types.iter().flat_map(fields).collect()
    }

    /// Fields that are values, and no objects.
    pub(super) fn values(&self) -> usize {
        self.types.values().flatten().filter(|field| !self.types.contains_key(&field.of)).count()
    }

    /// A document that asks for one root field, and below it for every field of every type, each type where it is
    /// reached first, as deep as the API takes.
    pub(super) fn document(&self, kind: &str, root: &str, arguments: &str) -> Document {
        let documents = DEEPEST.iter().map(|deepest| self.document_of(kind, root, arguments, *deepest));
        let mut accepted = documents
            .filter(|document| plural_api::weigh(&document.text).is_ok_and(|(weight, most)| weight <= most));
        accepted.next().unwrap_or_else(|| panic!("{root}: no document is light enough"))
    }

    fn document_of(
        &self,
        kind: &str,
        root: &str,
        arguments: &str,
        (deepest, objects): (u32, Objects),
    ) -> Document {
        let field = self.field(kind, root);
        let mut asked = BTreeSet::from([(kind.to_owned(), root.to_owned())]);
        let mut tree = Node::default();
        let mut reached = BTreeSet::from([field.of.clone()]);
        let mut open = VecDeque::from([(Vec::<String>::new(), field.of.clone(), field.rows())]);
        while let Some((path, of, rows)) = open.pop_front() {
            for below in self.types.get(&of).into_iter().flatten() {
                let rows = rows * below.rows();
                let is_object = self.types.contains_key(&below.of);
                let is_near = objects == Objects::Named || path.is_empty();
                let goes = is_object && is_near && rows <= deepest && reached.insert(below.of.clone());
                if goes || !is_object || objects == Objects::Named {
                    asked.insert((of.clone(), below.name.clone()));
                }
                if goes {
                    let path: Vec<String> = path.iter().chain([&below.name]).cloned().collect();
                    let mut node = &mut tree;
                    for name in &path {
                        node = node.children.entry(name.clone()).or_default();
                    }
                    open.push_back((path, below.of.clone(), rows));
                }
            }
        }
        let operation = match kind {
            "RootQueryType" => "query",
            "RootMutationType" => "mutation",
            _ => "subscription",
        };
        let mut arguments = arguments.to_owned();
        if field.paged {
            arguments = format!("(first: {ROWS})");
        }
        let text =
            format!("{operation} {{ {root}{arguments} {} }}", self.selection(&field.of, &tree, objects));
        Document { text, asked }
    }

    fn selection(&self, of: &str, node: &Node, objects: Objects) -> String {
        let Some(fields) = self.types.get(of) else { return String::new() };
        let mut text = "{ ".to_owned();
        for field in fields {
            let child = node.children.get(&field.name);
            if child.is_none() && objects == Objects::LeftOut && self.types.contains_key(&field.of) {
                continue;
            }
            text.push_str(&field.name);
            if field.paged {
                text.push_str("(first: ");
                text.push_str(&ROWS.to_string());
                text.push(')');
            }
            match child {
                Some(child) => text.push_str(&self.selection(&field.of, child, objects)),
                None if self.types.contains_key(&field.of) => text.push_str(" { __typename }"),
                None => {}
            }
            text.push(' ');
        }
        text.push('}');
        text
    }

    fn field(&self, of: &str, name: &str) -> &Field {
        self.types[of].iter().find(|field| field.name == name).unwrap_or_else(|| panic!("{of}.{name}"))
    }

    /// Every value of an answer that is no object of the schema, as text, with the field that it stands in.
    pub(super) fn leaves(&self, of: &str, value: &Value, each: &mut impl FnMut(&str, &str, &str)) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.leaves(of, item, each)),
            Value::Object(fields) => {
                for (name, value) in fields.iter().filter(|(name, _)| *name != "__typename") {
                    let field = self.field(of, name);
                    if self.types.contains_key(&field.of) {
                        self.leaves(&field.of, value, each);
                    } else if !value.is_null() {
                        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                        each(of, name, &text);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Field {
    /// How often what is below it may come.
    fn rows(&self) -> u32 {
        match (self.paged, self.listed) {
            (true, _) => ROWS,
            (false, true) => LISTED,
            (false, false) => 1,
        }
    }
}

fn is_list(of: &Type<'_, String>) -> bool {
    match of {
        Type::NamedType(_) => false,
        Type::ListType(_) => true,
        Type::NonNullType(of) => is_list(of),
    }
}

fn named(of: &Type<'_, String>) -> String {
    match of {
        Type::NamedType(name) => name.clone(),
        Type::ListType(of) | Type::NonNullType(of) => named(of),
    }
}
