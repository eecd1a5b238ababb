//! Bindings: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_WRITE};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "changeBindings",
        expected: MEMBERS_WRITE,
        document: "mutation ($u: ID!, $id: ID) { changeBindings(role: READ, add: [{userId: $u}], clusterId: $id) }",
        variables: |w| json!({"u": w.user["id"], "id": w.cluster["id"]}),
    },
    Line {
        field: "changeBindings",
        expected: MEMBERS_WRITE,
        document: "mutation ($u: ID!, $r: ID!, $id: ID) { changeBindings(roleId: $r, add: [{userId: $u}], clusterId: $id) }",
        variables: |w| json!({"u": w.user["id"], "r": w.role["id"], "id": w.cluster["id"]}),
    },
    Line {
        field: "updateRbac",
        expected: MEMBERS_WRITE,
        document: "mutation ($r: RbacAttributes!, $id: ID) { updateRbac(rbac: $r, clusterId: $id) }",
        variables: |w| json!({"r": {"readBindings": []}, "id": w.cluster["id"]}),
    },
];
