//! Pull requests: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_CONFLICT, MEMBERS_INVALID, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "pullRequest",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { pullRequest(id: $id) { id url status automation { name } } }",
        variables: |w| json!({"id": w.automation["opened"]}),
    },
    Line {
        field: "pullRequests",
        expected: USERS,
        document: "{ pullRequests(status: OPEN) { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    // Nothing is read: whoever writes windows tries them.
    Line {
        field: "pullRequestMergeTime",
        expected: USERS,
        document: "{ pullRequestMergeTime(mergeWindows: [{schedule: \"@daily\", duration: 60}]) { open opensAt } }",
        variables: |_| json!({}),
    },
    // The automation names no repository: hosts are asked in `pull_requests.rs`.
    Line {
        field: "createPullRequest",
        expected: MEMBERS_INVALID,
        document: "mutation ($id: ID!) { createPullRequest(id: $id, context: {}) { id } }",
        variables: |w| json!({"id": w.automation["id"]}),
    },
    Line {
        field: "previewPullRequest",
        expected: MEMBERS_INVALID,
        document: "mutation ($id: ID!) { previewPullRequest(id: $id, context: {}) { patch } }",
        variables: |w| json!({"id": w.automation["id"]}),
    },
    Line {
        field: "planPullRequestPreview",
        expected: MEMBERS_INVALID,
        document: "mutation ($id: ID!) { planPullRequestPreview(id: $id, context: {}) { id } }",
        variables: |w| json!({"id": w.automation["id"]}),
    },
    // Its address names no number: hosts are asked in `pull_request_life.rs`.
    Line {
        field: "refreshPullRequest",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { refreshPullRequest(id: $id) { id } }",
        variables: |w| json!({"id": w.automation["opened"]}),
    },
    Line {
        field: "mergePullRequest",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { mergePullRequest(id: $id, method: SQUASH) { id } }",
        variables: |w| json!({"id": w.automation["opened"]}),
    },
    // None waits.
    Line {
        field: "cancelPullRequestMerge",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { cancelPullRequestMerge(id: $id) { id } }",
        variables: |w| json!({"id": w.automation["opened"]}),
    },
    Line {
        field: "updatePullRequestMergeWindows",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { updatePullRequestMergeWindows(id: $id, mergeCron: \"@hourly\") { id } }",
        variables: |w| json!({"id": w.automation["opened"]}),
    },
    Line {
        field: "closePullRequest",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { closePullRequest(id: $id) { id } }",
        variables: |w| json!({"id": w.automation["opened"]}),
    },
];
