//! Groups: who gets what from their root fields.

use serde_json::json;

use super::table::{ADMINS, Line, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "group",
        expected: USERS,
        document: "query ($n: String!) { group(name: $n) { id members { id } } }",
        variables: |w| json!({"n": w.group_name}),
    },
    Line {
        field: "groups",
        expected: USERS,
        document: "{ groups { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createGroup",
        expected: ADMINS,
        document: "mutation ($a: GroupAttributes!) { createGroup(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": format!("new-{}", w.name)}}),
    },
    Line {
        field: "updateGroup",
        expected: ADMINS,
        document: "mutation ($id: ID!, $a: GroupAttributes!) { updateGroup(groupId: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.group["id"], "a": {"name": format!("other-{}", w.name)}}),
    },
    Line {
        field: "deleteGroup",
        expected: ADMINS,
        document: "mutation ($id: ID!) { deleteGroup(groupId: $id) { id } }",
        variables: |w| json!({"id": w.group["id"]}),
    },
    Line {
        field: "createGroupMember",
        expected: ADMINS,
        document: "mutation ($g: ID!, $u: ID!) { createGroupMember(groupId: $g, userId: $u) { id } }",
        variables: |w| json!({"g": w.group["id"], "u": w.user["id"]}),
    },
    Line {
        field: "deleteGroupMember",
        expected: ADMINS,
        document: "mutation ($g: ID!, $u: ID!) { deleteGroupMember(groupId: $g, userId: $u) { id } }",
        variables: |w| json!({"g": w.group["id"], "u": w.user["id"]}),
    },
];
