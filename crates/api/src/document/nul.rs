//! NUL characters in the values of a request. They are refused before anything is executed, with the name of the value.

use async_graphql::{
    Positioned, Variables,
    parser::types::{Directive, ExecutableDocument, Selection, SelectionSet},
};
use async_graphql_value::{ConstValue, Value};
use plural_core::Error;
use plural_core::specs::{HOLDS_NUL, has_nul};

/// Refuses a request with a NUL character in a variable or in a value of its document. Nesting was bounded before.
///
/// # Errors
/// [`Error::Invalid`] with the place: `variables.attributes.description`, or `updateProject.attributes.description` of a
/// value in the document.
pub(crate) fn refuse_nul(document: &ExecutableDocument, variables: &Variables) -> Result<(), Error> {
    let found = variables
        .iter()
        .find_map(|(name, value)| Some(format!("variables.{name}{}", const_path(value)?)))
        .or_else(|| in_document(document));
    match found {
        Some(place) => Err(Error::invalid(place, HOLDS_NUL)),
        None => Ok(()),
    }
}

fn in_document(document: &ExecutableDocument) -> Option<String> {
    let operations = document.operations.iter().find_map(|(_, operation)| {
        let operation = &operation.node;
        let default = operation.variable_definitions.iter().find_map(|definition| {
            let path = const_path(&definition.node.default_value.as_ref()?.node)?;
            Some(format!("${}{path}", definition.node.name.node))
        });
        default
            .or_else(|| in_directives(&operation.directives))
            .or_else(|| in_selections(&operation.selection_set.node))
    });
    operations.or_else(|| {
        document.fragments.values().find_map(|fragment| {
            in_directives(&fragment.node.directives)
                .or_else(|| in_selections(&fragment.node.selection_set.node))
        })
    })
}

fn in_selections(set: &SelectionSet) -> Option<String> {
    set.items.iter().find_map(|item| match &item.node {
        Selection::Field(field) => {
            let field = &field.node;
            let argument = field.arguments.iter().find_map(|(name, value)| {
                Some(format!("{}.{}{}", field.name.node, name.node, path(&value.node)?))
            });
            argument
                .or_else(|| in_directives(&field.directives))
                .or_else(|| in_selections(&field.selection_set.node))
        }
        Selection::InlineFragment(fragment) => in_directives(&fragment.node.directives)
            .or_else(|| in_selections(&fragment.node.selection_set.node)),
        Selection::FragmentSpread(spread) => in_directives(&spread.node.directives),
    })
}

fn in_directives(directives: &[Positioned<Directive>]) -> Option<String> {
    directives.iter().find_map(|directive| {
        let directive = &directive.node;
        directive.arguments.iter().find_map(|(name, value)| {
            Some(format!("@{}.{}{}", directive.name.node, name.node, path(&value.node)?))
        })
    })
}

/// Where in a value the first NUL character is: nothing, `.name`, `.0.name`.
fn const_path(value: &ConstValue) -> Option<String> {
    match value {
        ConstValue::Null
        | ConstValue::Number(_)
        | ConstValue::Boolean(_)
        | ConstValue::Enum(_)
        | ConstValue::Binary(_) => None,
        ConstValue::String(text) => has_nul(text).then(String::new),
        ConstValue::List(items) => {
            items.iter().enumerate().find_map(|(index, item)| Some(format!(".{index}{}", const_path(item)?)))
        }
        ConstValue::Object(fields) => {
            fields.iter().find_map(|(name, value)| below(name, || const_path(value)))
        }
    }
}

/// The same of a value of a document. Variables are looked at where they are given.
fn path(value: &Value) -> Option<String> {
    match value {
        Value::Variable(_)
        | Value::Null
        | Value::Number(_)
        | Value::Boolean(_)
        | Value::Enum(_)
        | Value::Binary(_) => None,
        Value::String(text) => has_nul(text).then(String::new),
        Value::List(items) => {
            items.iter().enumerate().find_map(|(index, item)| Some(format!(".{index}{}", path(item)?)))
        }
        Value::Object(fields) => fields.iter().find_map(|(name, value)| below(name, || path(value))),
    }
}

/// The name of a field is a text of the sender where the field is of a JSON object.
fn below(name: &str, value: impl FnOnce() -> Option<String>) -> Option<String> {
    if has_nul(name) {
        return Some(format!(".{}", name.replace('\0', "\u{fffd}")));
    }
    Some(format!(".{name}{}", value()?))
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;
    use serde_json::{Value as Json, json};

    use super::*;

    fn refusal(document: &str, variables: Json) -> Option<String> {
        let document = parse_query(document).unwrap();
        refuse_nul(&document, &Variables::from_json(variables)).err().map(|error| error.to_string())
    }

    #[test]
    fn the_place_is_named() {
        let nothing = "{ me { id } }";
        for (document, variables, place) in [
            (nothing, json!({"a": "\0"}), "variables.a"),
            (nothing, json!({"a": {"b": [1, {"c": "x\0"}]}}), "variables.a.b.1.c"),
            (nothing, json!({"a": {"b\0": 1}}), "variables.a.b\u{fffd}"),
            ("{ project(name: \"\\u0000\") { id } }", json!({}), "project.name"),
            ("{ a: project(name: \"\\u0000\") { id } }", json!({}), "project.name"),
            (
                "mutation { createProject(attributes: {name: \"a\", description: \"b\\u0000\"}) { id } }",
                json!({}),
                "createProject.attributes.description",
            ),
            (
                "{ clusters(first: 1) { edges { node { services(q: \"\\u0000\") { edges { cursor } } } } } }",
                json!({}),
                "services.q",
            ),
            ("query ($a: String = \"\\u0000\") { project(name: $a) { id } }", json!({}), "$a"),
            (
                "{ ...f } fragment f on RootQueryType { project(name: \"\\u0000\") { id } }",
                json!({}),
                "project.name",
            ),
            ("{ ... @include(if: \"\\u0000\") { me { id } } }", json!({}), "@include.if"),
            ("{ project(name: \"\"\"a\u{0}\"\"\") { id } }", json!({}), "project.name"),
        ] {
            let expected = format!("{place}: {HOLDS_NUL}");
            assert_eq!(refusal(document, variables).as_deref(), Some(expected.as_str()), "{document}");
        }
        assert_eq!(refusal("{ project(name: \"\\\\u0000\") { id } }", json!({"a": "\\u0000"})), None);
    }
}
