//! The installation itself: who gets what from their root fields.

use serde_json::json;

use super::table::{ADMINS, Line};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "audits",
        expected: ADMINS,
        document: "{ audits { edges { node { id action } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "webhookSecret",
        expected: ADMINS,
        document: "{ webhookSecret }",
        variables: |_| json!({}),
    },
];
