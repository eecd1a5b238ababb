//! What documents become.

use std::collections::BTreeMap;

const SCHEMA: &str = r#"
schema { query: Query mutation: Mutation }
scalar DateTime
scalar Map
"A thing."
type Thing {
  "Opaque."
  id: ID!
  state: State!
  since: DateTime
  words: [String]
  data: Map
  token: String
  owner: Person
  parts(first: Int): ThingConnection
  ref: String!
  weight: Float!
}
type Person { id: ID! name: String }
type ThingConnection { pageInfo: PageInfo! edges: [ThingEdge] }
type ThingEdge { node: Thing cursor: String }
type PageInfo { hasNextPage: Boolean! endCursor: String }
"How it is."
enum State { "Good." WELL PRE_SYNC }
input ThingAttributes { name: String! password: String parts: [PartAttributes] state: State }
input PartAttributes { size: Int! }
type Query {
  "One thing."
  thing("Its id." id: ID): Thing
  things(first: Int, after: String): ThingConnection
}
type Mutation { createThing(attributes: ThingAttributes!): Thing deleteThing(id: ID!): Thing }
"#;

fn made(documents: &[(&str, &str)]) -> BTreeMap<String, String> {
    let documents = documents.iter().map(|(noun, text)| ((*noun).to_owned(), (*text).to_owned())).collect();
    plural_codegen::client(&documents, SCHEMA).unwrap()
}

#[track_caller]
fn has(text: &str, part: &str) {
    assert!(text.contains(part), "{part}\nis not in\n{text}");
}

#[test]
fn a_fragment_is_a_struct_and_an_operation_its_variables() {
    let files = made(&[(
        "thing",
        "# Things.

fragment Thing on Thing { id state since words data owner { ...Person } ref }
# Who has it.
fragment Person on Person { name }
query GetThing($id: ID!) {
  thing(id: $id) { ...Thing }
}
query ListThings($first: Int!, $after: String) {
  # All of them.
  things(first: $first, after: $after) {
    pageInfo { hasNextPage endCursor }
    edges { node { ...Thing } }
  }
}
mutation DeleteThing($id: ID!) { deleteThing(id: $id) { id } }
",
    )]);
    let text = &files["generated/thing.rs"];
    has(text, "// @generated");
    has(text, "//! Things.\n");
    has(
        text,
        "/// A thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thing {
    /// Opaque.
    pub id: String,
    pub state: State,
    pub since: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = \"list\")]
    pub words: Vec<String>,
    pub data: Option<Map<String, Value>>,
    pub owner: Option<Person>,
    #[serde(rename = \"ref\")]
    pub reference: String,
}
",
    );
    has(
        text,
        "/// Who has it.\n#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]\npub struct Person {\n",
    );
    has(text, "    /// Good.\n    Well,\n    PreSync,\n    /// One that a newer console knows");
    has(text, "Self::PreSync => \"PRE_SYNC\",\n            Self::Unknown => \"UNKNOWN\",");
    has(
        text,
        "/// One thing.\n#[derive(Debug, Clone, Serialize)]\npub struct GetThing {\n    /// Its id.\n    pub id: String,\n}\n",
    );
    has(
        text,
        "    const DOCUMENT: &'static str = \"query GetThing($id: ID!) {
  thing(id: $id) { ...Thing }
}
fragment Person on Person { name }
fragment Thing on Thing { id state since words data owner { ...Person } ref }\";",
    );
    has(text, "    type Data = Connection<Thing>;");
    has(text, "    type Data = Id;");
    assert!(!text.contains("All of them"), "comments are not sent");
    has(&files["generated.rs"], "    (DeleteThing::NAME, DeleteThing::DOCUMENT),\n");
}

#[test]
fn a_secret_is_neither_shown_nor_compared() {
    let text = &made(&[("thing", "fragment Thing on Thing { id token }")])["generated/thing.rs"];
    has(text, "#[derive(Debug, Clone, Deserialize)]\npub struct Thing {");
    has(text, "    pub token: Option<Secret>,");
}

#[test]
fn a_fragment_in_a_fragment_is_flattened_and_more_is_asked_for_in_it() {
    let files = made(&[(
        "thing",
        "fragment Thing on Thing { id owner { ...Person } }
fragment Person on Person { id }
fragment Person_name on Person { name }
fragment Details on Thing { ...Thing weight owner { ...Person_name } }
fragment Parts on Thing { id parts(first: $first) { pageInfo { hasNextPage endCursor } edges { node { ...Thing } } } }
query ListParts($id: ID!, $first: Int!) { thing(id: $id) { ...Parts } }",
    )]);
    let text = &files["generated/thing.rs"];
    has(
        text,
        "pub struct Details {
    /// A thing.
    #[serde(flatten)]
    pub thing: Thing,
    pub weight: f64,
}
",
    );
    has(
        text,
        "    pub id: String,
    #[serde(default, skip_serializing_if = \"Option::is_none\")]
    pub name: Option<String>,
",
    );
    has(text, "#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]\npub struct Details {");
    has(text, "    #[serde(default, deserialize_with = \"page\")]\n    pub parts: Connection<Thing>,");
    has(text, "impl Paged for Parts {\n    type Item = Thing;");
}

#[test]
fn inputs_and_words_have_one_home() {
    let files = made(&[
        (
            "a",
            "mutation CreateThing($attributes: ThingAttributes!) { createThing(attributes: $attributes) { id } }",
        ),
        ("b", "fragment Thing on Thing { state }"),
    ]);
    let a = &files["generated/a.rs"];
    has(a, "#[derive(Debug, Clone, Default, Serialize)]\npub struct PartAttributes {\n    pub size: i64,\n}");
    has(
        a,
        "#[derive(Debug, Clone, Default, Serialize)]
pub struct ThingAttributes {
    pub name: String,
    #[serde(skip_serializing_if = \"Option::is_none\")]
    pub password: Option<Secret>,
    #[serde(skip_serializing_if = \"Option::is_none\")]
    pub parts: Option<Vec<PartAttributes>>,
",
    );
    has(a, "use crate::{\n    Id, Secret, State, document::Operation, document::OperationKind,\n};\n");
    has(&files["generated/common.rs"], "pub enum State {");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let documents = [("thing", "fragment Thing on Thing { id state }\nquery A { thing { ...Thing } }")];
    assert_eq!(made(&documents), made(&documents));
}
