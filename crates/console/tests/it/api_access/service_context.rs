//! Contexts: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "serviceContext",
        expected: MEMBERS_READ,
        document: "query ($name: String!) { serviceContext(name: $name) { id } }",
        variables: |w| json!({"name": w.context["name"]}),
    },
    Line {
        field: "serviceContexts",
        expected: USERS,
        document: "query { serviceContexts { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "saveServiceContext",
        expected: MEMBERS_WRITE,
        document: "mutation ($name: String!, $a: ServiceContextAttributes!) { saveServiceContext(name: $name, attributes: $a) { id } }",
        variables: |w| json!({"name": w.context["name"], "a": {"configuration": "{}"}}),
    },
    Line {
        field: "deleteServiceContext",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteServiceContext(id: $id) { id } }",
        variables: |w| json!({"id": w.context["id"]}),
    },
];
