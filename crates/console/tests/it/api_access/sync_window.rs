//! Sync windows: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "syncWindows",
        expected: MEMBERS_READ,
        document: "query ($id: ID) { syncWindows(serviceId: $id) { id } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        // Which of them, `everyone_lists_the_windows_of_what_they_read` asks.
        field: "syncWindows",
        expected: USERS,
        document: "{ syncWindows { id } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createSyncWindow",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID, $a: SyncWindowAttributes!) { createSyncWindow(serviceId: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.service["id"], "a": {"kind": "DENY", "schedule": "0 0 1 1 *", "duration": 3600}}),
    },
    Line {
        field: "updateSyncWindow",
        expected: ["401", "NOT_FOUND", "FORBIDDEN", "NOT_FOUND", "NOT_FOUND"],
        document: "mutation ($id: ID, $w: ID!, $a: SyncWindowAttributes!) { updateSyncWindow(serviceId: $id, id: $w, attributes: $a) { id } }",
        variables: |w| json!({"id": w.service["id"], "w": w.service["id"], "a": {"kind": "DENY", "schedule": "0 0 1 1 *", "duration": 3600}}),
    },
    Line {
        field: "deleteSyncWindow",
        expected: ["401", "NOT_FOUND", "FORBIDDEN", "NOT_FOUND", "NOT_FOUND"],
        document: "mutation ($id: ID, $window: ID!) { deleteSyncWindow(serviceId: $id, id: $window) { id } }",
        variables: |w| json!({"id": w.service["id"], "window": w.service["id"]}),
    },
];
