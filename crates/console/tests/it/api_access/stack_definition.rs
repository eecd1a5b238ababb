//! Definitions of stacks: who gets what from their root fields.

use serde_json::json;

use super::table::{ADMINS, Line, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "stackDefinition",
        expected: USERS,
        document: "query ($id: ID) { stackDefinition(id: $id) { id steps { cmd } } }",
        variables: |w| json!({"id": w.definition["id"]}),
    },
    Line {
        field: "stackDefinitions",
        expected: USERS,
        document: "{ stackDefinitions { edges { node { id name } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createStackDefinition",
        expected: ADMINS,
        document: "mutation ($a: StackDefinitionAttributes!) { createStackDefinition(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": format!("new-{}", w.name), "steps": [{"cmd": "make"}]}}),
    },
    Line {
        field: "updateStackDefinition",
        expected: ADMINS,
        document: "mutation ($id: ID!, $a: StackDefinitionAttributes!) { updateStackDefinition(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.definition["id"], "a": {"name": w.definition["name"], "steps": [{"cmd": "other"}]}}),
    },
    Line {
        field: "deleteStackDefinition",
        expected: ADMINS,
        document: "mutation ($id: ID!) { deleteStackDefinition(id: $id) { id } }",
        variables: |w| json!({"id": w.definition["id"]}),
    },
];
