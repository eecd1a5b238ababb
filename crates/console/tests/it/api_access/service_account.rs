//! Service accounts of the default project: who gets what from their root fields.

use serde_json::{Value, json};

use super::table::{Line, MEMBERS_READ, MEMBERS_WRITE, USERS};

/// What a federated credential of an account is made from.
pub(super) fn credential(machine: &Value) -> Value {
    json!({
        "userId": machine["id"], "issuer": "https://ci.invalid", "audience": "plural", "subject": "repo:acme/shop",
    })
}

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
        field: "federatedCredential",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { federatedCredential(id: $id) { id issuer user { id } } }",
        variables: |w| json!({"id": w.machine["credential"]}),
    },
    Line {
        field: "federatedCredentials",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { federatedCredentials(userId: $id) { id subject } }",
        variables: |w| json!({"id": w.machine["id"]}),
    },
    Line {
        field: "createFederatedCredential",
        expected: MEMBERS_WRITE,
        document: "mutation ($a: FederatedCredentialAttributes!) { createFederatedCredential(attributes: $a) { id } }",
        variables: |w| json!({"a": credential(&w.machine)}),
    },
    Line {
        field: "updateFederatedCredential",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: FederatedCredentialAttributes!) {
            updateFederatedCredential(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.machine["credential"], "a": credential(&w.machine)}),
    },
    Line {
        field: "deleteFederatedCredential",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteFederatedCredential(id: $id) { id } }",
        variables: |w| json!({"id": w.machine["credential"]}),
    },
    Line {
        field: "deleteServiceAccount",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteServiceAccount(id: $id) { id } }",
        variables: |w| json!({"id": w.machine["id"]}),
    },
];
