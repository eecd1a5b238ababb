//! Plans of commits: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_CONFLICT, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "fleetPlan",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { fleetPlan(id: $id) { id phase reach { parts { id name } } } }",
        variables: |w| json!({"id": w.fleet["id"]}),
    },
    Line {
        field: "fleetPlans",
        expected: USERS,
        document: "{ fleetPlans { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "fleetPlanPart",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { fleetPlanPart(id: $id) { part { id } objects { why } problems { message } } }",
        variables: |w| json!({"id": w.fleet["part"]}),
    },
    Line {
        field: "createFleetPlan",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { createFleetPlan(repositoryId: $id, ref: \"main\") { id } }",
        variables: |w| json!({"id": w.repository["id"]}),
    },
    // It has no plan.
    Line {
        field: "replanPullRequest",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { replanPullRequest(id: $id) { id } }",
        variables: |w| json!({"id": w.automation["opened"]}),
    },
    // It waits for nobody.
    Line {
        field: "releaseFleetPlan",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { releaseFleetPlan(id: $id, sha: \"main\") { id } }",
        variables: |w| json!({"id": w.fleet["id"]}),
    },
];
