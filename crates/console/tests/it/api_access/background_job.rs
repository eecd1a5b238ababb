//! Background jobs: who gets what from their root fields.

use serde_json::json;

use super::table::{ADMINS, Line};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "backgroundJobs",
        expected: ADMINS,
        document: "{ backgroundJobs { edges { node { id kind key error } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "retryBackgroundJob",
        expected: ADMINS,
        document: "mutation ($id: ID!) { retryBackgroundJob(id: $id) { id } }",
        variables: |w| json!({"id": w.job}),
    },
    Line {
        field: "deleteBackgroundJob",
        expected: ADMINS,
        document: "mutation ($id: ID!) { deleteBackgroundJob(id: $id) { id } }",
        variables: |w| json!({"id": w.job}),
    },
];
