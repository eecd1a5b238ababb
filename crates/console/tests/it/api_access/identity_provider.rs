//! Identity providers: who gets what from their root fields.

use serde_json::json;

use super::table::{ADMINS, Line};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "identityProvider",
        expected: ADMINS,
        document: "query ($n: String!) { identityProvider(name: $n) { id issuer hasSecret } }",
        variables: |w| json!({"n": w.provider["name"]}),
    },
    Line {
        field: "identityProviders",
        expected: ADMINS,
        document: "{ identityProviders { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createIdentityProvider",
        expected: ADMINS,
        document: "mutation ($a: IdentityProviderAttributes!) { createIdentityProvider(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": format!("new-{}", w.name), "issuer": "https://id.example.com", "clientId": "x"}}),
    },
    Line {
        field: "updateIdentityProvider",
        expected: ADMINS,
        document: "mutation ($id: ID!, $a: IdentityProviderUpdateAttributes!) { updateIdentityProvider(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.provider["id"], "a": {"clientId": "other"}}),
    },
    Line {
        field: "deleteIdentityProvider",
        expected: ADMINS,
        document: "mutation ($id: ID!) { deleteIdentityProvider(id: $id) { id } }",
        variables: |w| json!({"id": w.provider["id"]}),
    },
];
