//! Roles that administrators make: who gets what from their root fields.

use serde_json::json;

use super::table::{ADMINS, Line, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "role",
        expected: USERS,
        document: "query ($id: ID!) { role(id: $id) { id actions } }",
        variables: |w| json!({"id": w.role["id"]}),
    },
    Line {
        field: "roles",
        expected: USERS,
        document: "{ roles { edges { node { id name } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createRole",
        expected: ADMINS,
        document: "mutation ($a: RoleAttributes!) { createRole(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": format!("new-{}", w.name), "actions": ["read", "prune"]}}),
    },
    Line {
        field: "updateRole",
        expected: ADMINS,
        document: "mutation ($id: ID!, $a: RoleAttributes!) { updateRole(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.role["id"], "a": {"actions": ["read", "write"]}}),
    },
    Line {
        field: "deleteRole",
        expected: ADMINS,
        document: "mutation ($id: ID!) { deleteRole(id: $id) { id } }",
        variables: |w| json!({"id": w.role["id"]}),
    },
];
