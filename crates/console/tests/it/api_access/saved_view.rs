//! Saved views of an administrator: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, SECRET, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "savedView",
        expected: SECRET,
        document: "query ($id: ID!) { savedView(id: $id) { id } }",
        variables: |w| json!({"id": w.view["id"]}),
    },
    Line {
        field: "savedViews",
        expected: USERS,
        document: "query { savedViews { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createSavedView",
        expected: USERS,
        document: "mutation ($a: SavedViewAttributes!) { createSavedView(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": w.name, "page": "clusters", "query": ""}}),
    },
    Line {
        field: "updateSavedView",
        expected: SECRET,
        document: "mutation ($id: ID!) { updateSavedView(id: $id, attributes: {query: \"q=a\"}) { id } }",
        variables: |w| json!({"id": w.view["id"]}),
    },
    Line {
        field: "deleteSavedView",
        expected: SECRET,
        document: "mutation ($id: ID!) { deleteSavedView(id: $id) { id } }",
        variables: |w| json!({"id": w.view["id"]}),
    },
];
