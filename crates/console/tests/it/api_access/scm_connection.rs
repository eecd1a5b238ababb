//! Connections to git hosts: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "scmConnection",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { scmConnection(id: $id) { id name hasToken repositories } }",
        variables: |w| json!({"id": w.scm["id"]}),
    },
    Line {
        field: "scmConnections",
        expected: USERS,
        document: "{ scmConnections { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createScmConnection",
        expected: MEMBERS_WRITE,
        document: "mutation ($a: ScmConnectionAttributes!) { createScmConnection(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": format!("scm-{}", w.name), "type": "GITHUB", "token": "x", "projectId": w.shared}}),
    },
    Line {
        field: "updateScmConnection",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: ScmConnectionAttributes!) { updateScmConnection(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.scm["id"], "a": {"name": w.scm["name"], "type": "GITHUB", "owner": "acme"}}),
    },
    Line {
        field: "deleteScmConnection",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteScmConnection(id: $id) { id } }",
        variables: |w| json!({"id": w.scm["id"]}),
    },
];
