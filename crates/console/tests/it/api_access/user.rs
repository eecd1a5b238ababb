//! Users: who gets what from their root fields.

use serde_json::json;

use super::table::{ADMINS, Line, SECRET, USERS};

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
        field: "passkeys",
        expected: USERS,
        document: "{ passkeys { id name lastUsedAt } }",
        variables: |_| json!({}),
    },
    Line {
        field: "passkeys",
        expected: ADMINS,
        document: "query ($u: ID) { passkeys(userId: $u) { id name } }",
        variables: |w| json!({"u": w.user["id"]}),
    },
    Line {
        field: "updatePasskey",
        expected: SECRET,
        document: "mutation ($id: ID!) { updatePasskey(id: $id, attributes: {name: \"other\"}) { id } }",
        variables: |w| json!({"id": w.passkey}),
    },
    Line {
        field: "deletePasskey",
        expected: SECRET,
        document: "mutation ($id: ID!) { deletePasskey(id: $id) { id } }",
        variables: |w| json!({"id": w.passkey}),
    },
    Line {
        field: "invites",
        expected: USERS,
        document: "{ invites { edges { node { id email } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createInvite",
        expected: ADMINS,
        document: "mutation ($a: InviteAttributes!) { createInvite(attributes: $a) { id } }",
        variables: |w| json!({"a": {"email": format!("invited-{}", w.email), "groupIds": [w.group["id"]]}}),
    },
    Line {
        field: "createPasswordReset",
        expected: ADMINS,
        document: "mutation ($u: ID!) { createPasswordReset(userId: $u) { id } }",
        variables: |w| json!({"u": w.user["id"]}),
    },
    Line {
        field: "deleteInvite",
        expected: ADMINS,
        document: "mutation ($id: ID!) { deleteInvite(id: $id) { id } }",
        variables: |w| json!({"id": w.invite}),
    },
    Line {
        field: "deleteUser",
        expected: ADMINS,
        document: "mutation ($id: ID!) { deleteUser(id: $id) { id } }",
        variables: |w| json!({"id": w.user["id"]}),
    },
];
