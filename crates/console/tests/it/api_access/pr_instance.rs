//! What pull requests of automations generated: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_CONFLICT, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "prInstance",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { prInstance(id: $id) { id state answers automation { name } } }",
        variables: |w| json!({"id": w.automation["instance"]}),
    },
    Line {
        field: "prInstances",
        expected: USERS,
        document: "{ prInstances(outdated: true) { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    // Its pull request is not merged: hosts are asked in `pr_instances.rs`.
    Line {
        field: "upgradePrInstance",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { upgradePrInstance(id: $id) { id } }",
        variables: |w| json!({"id": w.automation["instance"]}),
    },
    // None is outdated.
    Line {
        field: "upgradePrInstances",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { upgradePrInstances(automationId: $id) { error } }",
        variables: |w| json!({"id": w.automation["id"]}),
    },
    Line {
        field: "uninstallPrInstance",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { uninstallPrInstance(id: $id) { id } }",
        variables: |w| json!({"id": w.automation["instance"]}),
    },
    Line {
        field: "previewPrInstanceUpgrade",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { previewPrInstanceUpgrade(id: $id) { patch } }",
        variables: |w| json!({"id": w.automation["instance"]}),
    },
    Line {
        field: "previewPrInstanceUninstall",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { previewPrInstanceUninstall(id: $id) { patch } }",
        variables: |w| json!({"id": w.automation["instance"]}),
    },
    Line {
        field: "planPrInstanceUpgrade",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { planPrInstanceUpgrade(id: $id) { id } }",
        variables: |w| json!({"id": w.automation["instance"]}),
    },
    Line {
        field: "planPrInstanceUninstall",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { planPrInstanceUninstall(id: $id) { id } }",
        variables: |w| json!({"id": w.automation["instance"]}),
    },
    Line {
        field: "diffPrInstance",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { diffPrInstance(id: $id) { path drift } }",
        variables: |w| json!({"id": w.automation["instance"]}),
    },
];
