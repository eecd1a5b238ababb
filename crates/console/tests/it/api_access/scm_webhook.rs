//! Webhooks of git hosts: who gets what from their root fields.

use serde_json::{Value, json};

use super::table::{Line, MEMBERS_INVALID, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "scmWebhook",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { scmWebhook(id: $id) { id name url connection { name } } }",
        variables: |w| json!({"id": w.scm["webhook"]}),
    },
    Line {
        field: "scmWebhooks",
        expected: USERS,
        document: "{ scmWebhooks { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createScmWebhookPointer",
        expected: MEMBERS_WRITE,
        document: "mutation ($a: ScmWebhookAttributes!) { createScmWebhookPointer(attributes: $a) { id } }",
        variables: |w| json!({"a": attributes(&w.scm, &w.name)}),
    },
    // The connection may touch nothing: hosts are asked in `scm_webhooks.rs`.
    Line {
        field: "createScmWebhook",
        expected: MEMBERS_INVALID,
        document: "mutation ($id: ID!) { createScmWebhook(connectionId: $id, owner: \"acme\") { id } }",
        variables: |w| json!({"id": w.scm["id"]}),
    },
    Line {
        field: "registerScmWebhook",
        expected: MEMBERS_INVALID,
        document: "mutation ($id: ID!) { registerScmWebhook(connectionId: $id, repository: \"acme/shop\") { id } }",
        variables: |w| json!({"id": w.scm["id"]}),
    },
    Line {
        field: "unregisterScmWebhook",
        expected: MEMBERS_INVALID,
        document: "mutation ($id: ID!) { unregisterScmWebhook(connectionId: $id, organization: \"acme\") { id } }",
        variables: |w| json!({"id": w.scm["id"]}),
    },
    Line {
        field: "deleteScmWebhook",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteScmWebhook(id: $id) { id } }",
        variables: |w| json!({"id": w.scm["webhook"]}),
    },
];

/// What a webhook of a connection to GitHub is given.
pub(super) fn attributes(connection: &Value, owner: &str) -> Value {
    json!({"connectionId": connection["id"], "type": "GITHUB", "owner": owner, "hmac": "0123456789abcdef"})
}
