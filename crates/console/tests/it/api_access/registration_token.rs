//! Registration tokens of the default project: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "bootstrapToken",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { bootstrapToken(id: $id) { id hint uses user { id } } }",
        variables: |w| json!({"id": w.registration["id"]}),
    },
    Line {
        field: "bootstrapTokens",
        expected: USERS,
        document: "query ($p: ID) { bootstrapTokens(projectId: $p) { edges { node { id } } } }",
        variables: |w| json!({"p": w.shared}),
    },
    Line {
        field: "createBootstrapToken",
        expected: MEMBERS_WRITE,
        document: "mutation ($a: BootstrapTokenAttributes!) { createBootstrapToken(attributes: $a) { id } }",
        variables: |w| json!({"a": {"projectId": w.shared, "expiry": "1h"}}),
    },
    Line {
        field: "deleteBootstrapToken",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteBootstrapToken(id: $id) { id } }",
        variables: |w| json!({"id": w.registration["id"]}),
    },
];
