//! Service accounts of the default project: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "serviceAccount",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { serviceAccount(id: $id) { id serviceAccount assumePolicyId } }",
        variables: |w| json!({"id": w.machine["id"]}),
    },
    Line {
        field: "serviceAccounts",
        expected: USERS,
        document: "{ serviceAccounts { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createServiceAccount",
        expected: MEMBERS_WRITE,
        document: "mutation ($a: ServiceAccountAttributes!) { createServiceAccount(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": "deployer", "projectId": w.shared}}),
    },
    Line {
        field: "updateServiceAccount",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: ServiceAccountAttributes!) { updateServiceAccount(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.machine["id"], "a": {"name": "other"}}),
    },
    // Administrators of its project may assume it; who only reads it may not.
    Line {
        field: "createServiceAccountToken",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { createServiceAccountToken(id: $id, expiry: \"10m\") { id } }",
        variables: |w| json!({"id": w.machine["id"]}),
    },
    Line {
        field: "endServiceAccountTokens",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { endServiceAccountTokens(id: $id) }",
        variables: |w| json!({"id": w.machine["id"]}),
    },
    Line {
        field: "deleteServiceAccount",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteServiceAccount(id: $id) { id } }",
        variables: |w| json!({"id": w.machine["id"]}),
    },
];
