//! Users: who gets what from their root fields.

use serde_json::json;

use super::table::{ADMINS, Line, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "user",
        expected: USERS,
        document: "query ($e: String!) { user(email: $e) { id } }",
        variables: |w| json!({"e": w.email}),
    },
    Line {
        field: "users",
        expected: USERS,
        document: "{ users { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createUser",
        expected: ADMINS,
        document: "mutation ($a: UserAttributes!) { createUser(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": "n", "email": format!("new-{}", w.email)}}),
    },
    Line {
        field: "updateUser",
        expected: ADMINS,
        document: "mutation ($id: ID, $a: UserAttributes!) { updateUser(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.user["id"], "a": {"name": "other"}}),
    },
    Line {
        field: "upsertUser",
        expected: ADMINS,
        document: "mutation ($a: UserAttributes!) { upsertUser(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": "other", "email": w.email}}),
    },
    Line {
        field: "suspendUser",
        expected: ADMINS,
        document: "mutation ($id: ID!) { suspendUser(id: $id) { id suspendedAt } }",
        variables: |w| json!({"id": w.user["id"]}),
    },
    Line {
        field: "resumeUser",
        expected: ADMINS,
        document: "mutation ($id: ID!) { resumeUser(id: $id) { id suspendedAt } }",
        variables: |w| json!({"id": w.user["id"]}),
    },
    Line {
        field: "userIdentities",
        expected: ADMINS,
        document: "query ($id: ID!) { userIdentities(userId: $id) { id subject } }",
        variables: |w| json!({"id": w.user["id"]}),
    },
    // Whoever may, is told that there is no such identity.
    Line {
        field: "deleteUserIdentity",
        expected: ["401", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN", "NOT_FOUND"],
        document: "mutation ($id: ID!, $i: ID!) { deleteUserIdentity(userId: $id, id: $i) { id } }",
        variables: |w| json!({"id": w.user["id"], "i": "0190c8a0-0000-7000-8000-000000000000"}),
    },
    // Everybody has their own.
    Line {
        field: "beginSecondFactor",
        expected: USERS,
        document: "mutation { beginSecondFactor { address } }",
        variables: |_| json!({}),
    },
    Line {
        field: "confirmSecondFactor",
        expected: ["401", "INVALID", "INVALID", "INVALID", "INVALID"],
        document: "mutation { confirmSecondFactor(code: \"no code\") }",
        variables: |_| json!({}),
    },
    Line {
        field: "endSecondFactor",
        expected: USERS,
        document: "mutation { endSecondFactor }",
        variables: |_| json!({}),
    },
    Line {
        field: "deleteUser",
        expected: ADMINS,
        document: "mutation ($id: ID!) { deleteUser(id: $id) { id } }",
        variables: |w| json!({"id": w.user["id"]}),
    },
];
