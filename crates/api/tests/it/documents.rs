//! Documents of existing clients, and our own client's, are served.

use std::collections::{BTreeMap, BTreeSet};

use graphql_parser::query::{Definition, OperationDefinition, Selection, SelectionSet, parse_query};
use graphql_parser::schema::{Definition as SchemaDefinition, TypeDefinition, parse_schema};

const EXISTING: &str = include_str!("documents.graphql");

/// Root fields that neither an existing client's document asks for nor one of our own client's, `wire/documents`.
const NEITHER: [&str; 3] = ["gitRepositoryWebhook", "rotateGitRepositoryWebhook", "webhookSecret"];

/// The root fields that our own client's documents ask for.
fn asked_by_our_client() -> BTreeSet<String> {
    let mut asked = BTreeSet::new();
    for (_, document) in plural_wire::DOCUMENTS.iter().chain(plural_wire::UNTYPED_DOCUMENTS) {
        for definition in parse_query::<String>(document).unwrap().definitions {
            match definition {
                Definition::Operation(OperationDefinition::Query(it)) => {
                    asked.extend(root(&it.selection_set));
                }
                Definition::Operation(OperationDefinition::Mutation(it)) => {
                    asked.extend(root(&it.selection_set));
                }
                Definition::Operation(other) => panic!("{other:?}"),
                Definition::Fragment(_) => {}
            }
        }
    }
    asked
}

/// A document for each operation of the file, with the fragments that it reaches.
fn documents() -> Vec<(String, String, Vec<String>)> {
    let parsed = parse_query::<String>(EXISTING).unwrap();
    let fragments: BTreeMap<&str, _> = parsed
        .definitions
        .iter()
        .filter_map(|definition| match definition {
            Definition::Fragment(fragment) => Some((fragment.name.as_str(), fragment)),
            Definition::Operation(_) => None,
        })
        .collect();
    parsed
        .definitions
        .iter()
        .filter_map(|definition| match definition {
            Definition::Operation(operation) => Some(operation),
            Definition::Fragment(_) => None,
        })
        .map(|operation| {
            let (name, selections) = match operation {
                OperationDefinition::Query(it) => (it.name.clone().unwrap(), &it.selection_set),
                OperationDefinition::Mutation(it) => (it.name.clone().unwrap(), &it.selection_set),
                OperationDefinition::Subscription(it) => (it.name.clone().unwrap(), &it.selection_set),
                other @ OperationDefinition::SelectionSet(_) => panic!("{other:?}"),
            };
            let mut reached = BTreeSet::new();
            let mut open = vec![selections];
            while let Some(set) = open.pop() {
                for selection in &set.items {
                    match selection {
                        Selection::Field(field) => open.push(&field.selection_set),
                        Selection::InlineFragment(inline) => open.push(&inline.selection_set),
                        Selection::FragmentSpread(spread) => {
                            let fragment = fragments[spread.fragment_name.as_str()];
                            if reached.insert(spread.fragment_name.as_str()) {
                                open.push(&fragment.selection_set);
                            }
                        }
                    }
                }
            }
            let mut text = operation.to_string();
            for fragment in reached {
                text.push_str(&fragments[fragment].to_string());
            }
            (name, text, root(selections))
        })
        .collect()
}

fn root(selections: &SelectionSet<'_, String>) -> Vec<String> {
    selections
        .items
        .iter()
        .map(|selection| match selection {
            Selection::Field(field) => field.name.clone(),
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Every root field of the schema.
pub(crate) fn root_fields() -> BTreeSet<String> {
    let sdl = plural_api::sdl();
    let schema = parse_schema::<String>(&sdl).unwrap();
    schema
        .definitions
        .iter()
        .filter_map(|definition| match definition {
            SchemaDefinition::TypeDefinition(TypeDefinition::Object(object))
                if object.name.starts_with("Root") =>
            {
                Some(object)
            }
            _ => None,
        })
        .flat_map(|object| object.fields.iter().map(|field| field.name.clone()))
        .collect()
}

#[tokio::test]
async fn documents_of_existing_clients_are_served() {
    let documents = documents();
    assert!(documents.len() > 80, "the file was not read as a whole");
    let mut faulty = Vec::new();
    for (name, document, _) in &documents {
        match plural_api::validate(document).await {
            Ok(()) => is_light(name, document),
            Err(faults) => faulty.push(format!("{name}: {}", faults.join("; "))),
        }
    }
    assert!(
        faulty.is_empty(),
        "{} of {} are not valid:\n{}",
        faulty.len(),
        documents.len(),
        faulty.join("\n")
    );
}

/// Documents of clients stay within the limits with the largest pages that they can ask for.
fn is_light(name: &str, document: &str) {
    // Where the caller says how many rows there are, five times as many as usual are possible.
    let pages = if document.contains("first: $") || document.contains("last: $") { 5 } else { 1 };
    let (weight, most) = plural_api::weigh(document).unwrap();
    println!("{weight:>7} × {pages} of {most}: {name}");
    assert!(weight * pages <= most, "{name} weighs {weight}");
}

#[test]
fn every_root_field_has_such_a_document_or_is_known_to_have_none() {
    let asked: BTreeSet<String> =
        documents().into_iter().flat_map(|(_, _, fields)| fields).chain(asked_by_our_client()).collect();
    let without: BTreeSet<String> = root_fields().difference(&asked).cloned().collect();
    assert_eq!(without, NEITHER.iter().map(|&field| field.to_owned()).collect());
    assert!(asked.is_subset(&root_fields()));
}

#[tokio::test]
async fn documents_of_our_client_are_served() {
    for (name, document) in plural_wire::DOCUMENTS.iter().chain(plural_wire::UNTYPED_DOCUMENTS) {
        if let Err(faults) = plural_api::validate(document).await {
            panic!("{name}: {faults:?}\n{document}");
        }
        is_light(name, document);
    }
}

#[tokio::test]
async fn what_is_not_served_is_not_valid() {
    for (document, fault) in [
        ("{ me { shoeSize } }", "Unknown field"),
        ("{ cluster(id: {a: 1}) { id } }", "Invalid value"),
        ("mutation { createCluster(attributes: {name: \"a\", shoeSize: 1}) { id } }", "unknown field"),
        ("{ pipelines { edges { node { id } } } }", "Unknown field"),
    ] {
        let faults = plural_api::validate(document).await.expect_err(document);
        assert!(faults[0].contains(fault), "{document}: {faults:?}");
    }
}
