//! Chart repositories: who gets what from their root fields.

use serde_json::json;

use super::table::{ADMINS, Line, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "helmRepository",
        expected: USERS,
        document: "query ($u: String!) { helmRepository(url: $u) { id } }",
        variables: |w| json!({"u": format!("https://charts.invalid/{}", w.name)}),
    },
    Line {
        field: "helmRepositories",
        expected: USERS,
        document: "{ helmRepositories { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "upsertHelmRepository",
        expected: ADMINS,
        document: "mutation ($u: String!) { upsertHelmRepository(url: $u) { id } }",
        variables: |w| json!({"u": format!("https://charts.invalid/{}", w.name)}),
    },
    Line {
        field: "deleteHelmRepository",
        expected: ADMINS,
        document: "mutation ($u: String!) { deleteHelmRepository(url: $u) { id } }",
        variables: |w| json!({"u": format!("https://charts.invalid/{}", w.name)}),
    },
];
