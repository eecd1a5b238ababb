//! Sessions and access tokens: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, OPEN, SECRET, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "signIn",
        expected: OPEN,
        document: "mutation { signIn(email: \"admin@example.com\", password: \"correct horse battery\") { id } }",
        variables: |_| json!({}),
    },
    Line { field: "me", expected: USERS, document: "{ me { id } }", variables: |_| json!({}) },
    Line {
        field: "accessTokens",
        expected: USERS,
        document: "{ accessTokens { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createAccessToken",
        expected: USERS,
        document: "mutation { createAccessToken { id } }",
        variables: |_| json!({}),
    },
    // The administrator's own token, asked for by others.
    Line {
        field: "accessToken",
        expected: SECRET,
        document: "query ($id: ID!) { accessToken(id: $id) { id } }",
        variables: |w| json!({"id": w.token["id"]}),
    },
    Line {
        field: "deleteAccessToken",
        expected: SECRET,
        document: "mutation ($t: String!) { deleteAccessToken(token: $t) { id } }",
        variables: |w| json!({"t": w.token["id"]}),
    },
];
