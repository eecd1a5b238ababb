//! PR automations: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "prAutomation",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { prAutomation(id: $id) { id name mayCreate configuration { name } } }",
        variables: |w| json!({"id": w.automation["id"]}),
    },
    Line {
        field: "prAutomations",
        expected: USERS,
        document: "{ prAutomations { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createPrAutomation",
        expected: MEMBERS_WRITE,
        document: "mutation ($a: PrAutomationAttributes!) { createPrAutomation(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": format!("pr-{}", w.name), "title": "Add", "message": "Adds", "projectId": w.shared, "connectionId": w.automation["connection"]}}),
    },
    Line {
        field: "updatePrAutomation",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: PrAutomationAttributes!) { updatePrAutomation(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.automation["id"], "a": {"documentation": "More"}}),
    },
    Line {
        field: "deletePrAutomation",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deletePrAutomation(id: $id) { id } }",
        variables: |w| json!({"id": w.automation["id"]}),
    },
];
