//! A document that cannot be served, or would become no good type, is refused by its line.

use std::collections::BTreeMap;

const SCHEMA: &str = r#"
schema { query: Query mutation: Mutation }
scalar Odd
"A thing."
type Thing { id: ID! name: String! owner: Person odd: Odd things(first: Int): ThingConnection matrix: [[Int]] }
type Person { id: ID! name: String }
type ThingConnection { pageInfo: PageInfo! edges: [ThingEdge] }
type ThingEdge { node: Thing cursor: String }
type PageInfo { hasNextPage: Boolean! endCursor: String }
type Query { thing(id: ID): Thing things(first: Int): ThingConnection }
type Mutation { noop: Boolean }
"#;

fn fault(document: &str) -> String {
    let documents = BTreeMap::from([("thing".to_owned(), document.to_owned())]);
    plural_codegen::client(&documents, SCHEMA).expect_err(document).to_string()
}

#[test]
fn what_is_not_there_is_named_with_its_line() {
    for (document, expected) in [
        ("query {", "documents/thing.graphql: "),
        ("query A { thing { ...Nothing } }", "documents/thing.graphql:1: there is no fragment Nothing"),
        ("\nfragment A on Thing { size }", "documents/thing.graphql:2: Thing has no field size"),
        ("fragment A on Thin { id }", "documents/thing.graphql:1: the schema has no type Thin"),
        ("fragment A on Thing { owner }", "documents/thing.graphql:1: Thing.owner: select fields of it"),
        ("fragment A on Thing { name { id } }", "documents/thing.graphql:1: Thing.name has no fields"),
        ("fragment A on Thing { odd }", "Odd has no Rust type"),
        ("fragment A on Thing { matrix }", "Thing.matrix is a list of lists"),
        ("query A { thing(size: 1) { id } }", "Query.thing has no argument size"),
        ("query { thing(id: 1) { id } }", "an operation needs a name"),
        ("query A { thing(id: 1) { id } things { pageInfo { endCursor } } }", "A asks for one root field"),
    ] {
        let found = fault(document);
        assert!(found.contains(expected), "{document}: {found}");
    }
}

#[test]
fn what_has_no_one_struct_is_refused() {
    for (document, expected) in [
        ("query A { thing(id: 1) { id name } }", "select Thing by a fragment"),
        (
            "fragment A on Thing { id } fragment B on Thing { name } query C { thing { ...A ...B } }",
            "make it one fragment",
        ),
        ("fragment A on Thing { id } query B { thing { ...A name } }", "add it by a fragment A_"),
        ("fragment A on Person { id } query B { thing { ...A } }", "A is on Person, not on Thing"),
        ("fragment A_more on Thing { name }", "there is no fragment A"),
        ("fragment A on Thing { id } fragment A_more on Person { name }", "A_more adds to A"),
        ("fragment A on Thing { id } fragment A_more on Thing { id }", "A has id already"),
        ("fragment A on Thing { id } query A { thing { ...A } }", "there are two of the name A"),
        ("fragment A on Thing { ...B } fragment B on Thing { ...A }", "reaches itself"),
        ("query A { thing(id: 1) { other: id } }", "a field keeps its name"),
        (
            "fragment A on Thing { id } query B { things { edges { node { ...A } } } }",
            "select ThingConnection as",
        ),
    ] {
        let found = fault(document);
        assert!(found.contains(expected), "{document}: {found}");
    }
}
