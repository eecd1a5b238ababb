//! Recordings of shells: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "setRecordingPolicy",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: RecordingPolicyAttributes!) { setRecordingPolicy(projectId: $id, attributes: $a) { record } }",
        variables: |w| json!({"id": w.project["id"], "a": {"record": true}}),
    },
    // Who may read none finds none.
    Line {
        field: "recordings",
        expected: USERS,
        document: "{ recordings { edges { node { id projectName } } } }",
        variables: |_| json!({}),
    },
];
