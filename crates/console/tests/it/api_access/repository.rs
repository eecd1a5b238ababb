//! Git repositories: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "gitRepositoryWebhook",
        expected: MEMBERS_WRITE,
        document: "query ($id: ID!) { gitRepositoryWebhook(id: $id) { path secret } }",
        variables: |w| json!({"id": w.repository["id"]}),
    },
    Line {
        field: "rotateGitRepositoryWebhook",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { rotateGitRepositoryWebhook(id: $id) { path } }",
        variables: |w| json!({"id": w.repository["id"]}),
    },
    Line {
        field: "gitRepository",
        expected: MEMBERS_READ,
        document: "query ($id: ID) { gitRepository(id: $id) { id } }",
        variables: |w| json!({"id": w.repository["id"]}),
    },
    Line {
        field: "gitRepositories",
        expected: USERS,
        document: "{ gitRepositories { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createGitRepository",
        expected: MEMBERS_WRITE,
        document: "mutation ($a: GitAttributes!) { createGitRepository(attributes: $a) { id } }",
        variables: |w| json!({"a": {"url": format!("/nowhere/new-{}", w.name)}}),
    },
    Line {
        field: "updateGitRepository",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: GitAttributes!) { updateGitRepository(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.spare_repository["id"], "a": {"url": format!("/nowhere/other-{}", w.name)}}),
    },
    Line {
        field: "deleteGitRepository",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteGitRepository(id: $id) { id } }",
        variables: |w| json!({"id": w.spare_repository["id"]}),
    },
];
