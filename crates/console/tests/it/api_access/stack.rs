//! Stacks: who gets what from their root fields. What is at `/v1/stacks/ID/state` is in `stack_state.rs`.

use serde_json::json;

use super::table::{Line, MEMBERS_CONFLICT, MEMBERS_READ, MEMBERS_WRITE, RUNNERS, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "infrastructureStack",
        expected: MEMBERS_READ,
        document: "query ($id: ID) { infrastructureStack(id: $id) { id stateVersions { id } lock { id } } }",
        variables: |w| json!({"id": w.stack["id"]}),
    },
    Line {
        field: "infrastructureStacks",
        expected: USERS,
        document: "query { infrastructureStacks { edges { node { id stateVersion { id } } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "stackTags",
        expected: USERS,
        document: "query { stackTags { tag { name value } count } }",
        variables: |_| json!({}),
    },
    Line {
        field: "stackState",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { stackState(stackId: $id) { id state { identifier } } }",
        variables: |w| json!({"id": w.stack["id"]}),
    },
    Line {
        field: "stackStateDiff",
        expected: MEMBERS_READ,
        document: "query ($id: ID!, $a: ID!, $b: ID!) { stackStateDiff(stackId: $id, from: $a, to: $b) { identifier } }",
        variables: |w| json!({"id": w.stack["id"], "a": w.stack["first"], "b": w.stack["second"]}),
    },
    Line {
        field: "stackGraph",
        expected: USERS,
        document: "query { stackGraph { stacks { id } edges { stackId upstreamId } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createStack",
        expected: MEMBERS_WRITE,
        document: "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": w.name, "type": "TERRAFORM", "projectId": w.shared}}),
    },
    Line {
        field: "updateStack",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { updateStack(id: $id, attributes: {protect: false}) { id } }",
        variables: |w| json!({"id": w.stack["id"]}),
    },
    Line {
        field: "restoreStackState",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $v: ID!) { restoreStackState(stackId: $id, version: $v) { id } }",
        variables: |w| json!({"id": w.stack["id"], "v": w.stack["first"]}),
    },
    Line {
        field: "forceUnlockStack",
        // Nobody holds it.
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { forceUnlockStack(stackId: $id, lock: \"one\") { id } }",
        variables: |w| json!({"id": w.stack["id"]}),
    },
    Line {
        field: "triggerRun",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { triggerRun(id: $id, dryRun: true) { id status } }",
        variables: |w| json!({"id": w.sourced["id"]}),
    },
    Line {
        field: "checkStackDrift",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { checkStackDrift(id: $id) { id status } }",
        variables: |w| json!({"id": w.sourced["id"]}),
    },
    Line {
        field: "createOnDemandRun",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { createOnDemandRun(stackId: $id, commands: [{cmd: \"ls\"}]) { id kind } }",
        variables: |w| json!({"id": w.sourced["id"]}),
    },
    Line {
        field: "stackRun",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { stackRun(id: $id) { id status steps { name } plan { text } } }",
        variables: |w| json!({"id": w.sourced["run"]}),
    },
    Line {
        field: "stackRunsWaiting",
        expected: USERS,
        document: "query { stackRunsWaiting { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "clusterStackRuns",
        expected: RUNNERS,
        document: "query { clusterStackRuns(first: 1) { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "updateStackRun",
        expected: RUNNERS,
        document: "mutation ($id: ID!) { updateStackRun(id: $id, attributes: {status: RUNNING}) { id } }",
        variables: |w| json!({"id": w.sourced["run"]}),
    },
    Line {
        field: "completeStackRun",
        expected: RUNNERS,
        document: "mutation ($id: ID!) { completeStackRun(id: $id, attributes: {status: SUCCESSFUL}) { id } }",
        variables: |w| json!({"id": w.sourced["run"]}),
    },
    Line {
        field: "updateRunStep",
        expected: RUNNERS,
        document: "mutation ($id: ID!) { updateRunStep(id: $id, attributes: {status: RUNNING}) { id } }",
        variables: |w| json!({"id": w.sourced["run"]}),
    },
    Line {
        field: "addRunLogs",
        expected: RUNNERS,
        document: "mutation ($id: ID!) { addRunLogs(stepId: $id, attributes: {logs: \"x\"}) { updatedAt } }",
        variables: |w| json!({"id": w.sourced["run"]}),
    },
    Line {
        field: "approveStackRun",
        // The run has failed: nothing is to be fetched.
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { approveStackRun(id: $id, digest: \"00\") { id } }",
        variables: |w| json!({"id": w.sourced["run"]}),
    },
    Line {
        field: "rejectStackRun",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { rejectStackRun(id: $id, reason: \"no\") { id } }",
        variables: |w| json!({"id": w.sourced["run"]}),
    },
    Line {
        field: "cancelStackRun",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { cancelStackRun(id: $id) { id } }",
        variables: |w| json!({"id": w.sourced["run"]}),
    },
    Line {
        field: "restartStackRun",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { restartStackRun(id: $id) { id } }",
        variables: |w| json!({"id": w.sourced["run"]}),
    },
    Line {
        field: "planStackPullRequest",
        // It has no source.
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { planStackPullRequest(id: $id, url: \"https://git.example.com/acme/infra/pulls/1\") { id } }",
        variables: |w| json!({"id": w.stack["id"]}),
    },
    Line {
        field: "releasePullRequestCommit",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { releasePullRequestCommit(id: $id, url: \"https://git.example.com/acme/infra/pulls/1\", sha: \"00\") { id } }",
        variables: |w| json!({"id": w.stack["id"]}),
    },
    Line {
        field: "restoreStack",
        // Nobody deletes it.
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { restoreStack(id: $id) { id } }",
        variables: |w| json!({"id": w.stack["id"]}),
    },
    Line {
        field: "detachStack",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { detachStack(id: $id) { id } }",
        variables: |w| json!({"id": w.stack["id"]}),
    },
    Line {
        field: "deleteStack",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteStack(id: $id) { id } }",
        variables: |w| json!({"id": w.stack["id"]}),
    },
];
