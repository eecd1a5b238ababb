//! Commands of stacks under a name: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "customStackRun",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { customStackRun(id: $id) { id commands { cmd } configuration { name } } }",
        variables: |w| json!({"id": w.custom["id"]}),
    },
    Line {
        field: "customStackRuns",
        expected: USERS,
        document: "query { customStackRuns { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createCustomStackRun",
        expected: MEMBERS_WRITE,
        document: "mutation ($a: CustomStackRunAttributes!) { createCustomStackRun(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": w.name, "projectId": w.shared, "commands": [{"cmd": "ls"}]}}),
    },
    Line {
        field: "updateCustomStackRun",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: CustomStackRunAttributes!) { updateCustomStackRun(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.custom["id"], "a": {"name": w.name}}),
    },
    Line {
        field: "deleteCustomStackRun",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteCustomStackRun(id: $id) { id } }",
        variables: |w| json!({"id": w.custom["id"]}),
    },
    Line {
        field: "startCustomStackRun",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $s: ID) { startCustomStackRun(id: $id, stackId: $s) { id kind } }",
        variables: |w| json!({"id": w.custom["id"], "s": w.sourced["id"]}),
    },
];
