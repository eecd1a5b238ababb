//! Governances of pull requests: who gets what from their root fields.

use serde_json::{Value, json};

use super::table::{Line, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "prGovernance",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { prGovernance(id: $id) { id name type configuration { webhook { url signed } } } }",
        variables: |w| json!({"id": w.scm["governance"]}),
    },
    Line {
        field: "prGovernances",
        expected: USERS,
        document: "{ prGovernances { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "upsertPrGovernance",
        expected: MEMBERS_WRITE,
        document: "mutation ($a: PrGovernanceAttributes!) { upsertPrGovernance(attributes: $a) { id } }",
        variables: |w| json!({"a": attributes(&w.scm["approver"], &format!("governance-{}", w.name))}),
    },
    Line {
        field: "deletePrGovernance",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deletePrGovernance(id: $id) { id } }",
        variables: |w| json!({"id": w.scm["governance"]}),
    },
];

/// What a governance with a connection is given.
pub(super) fn attributes(connection: &Value, name: &str) -> Value {
    json!({
        "type": "WEBHOOK", "name": name, "connectionId": connection,
        "configuration": {"webhook": {"url": "https://governance.invalid", "secret": "0123456789abcdef"}},
    })
}
