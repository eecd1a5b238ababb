//! Global services: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_READ, MEMBERS_WRITE, USERS};
use super::world::global_attributes;

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "globalService",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { globalService(id: $id) { id name template { namespace } instances { edges { node { serviceId } } } instanceCounts { all } } }",
        variables: |w| json!({"id": w.global["id"]}),
    },
    Line {
        field: "globalServices",
        expected: USERS,
        document: "{ globalServices { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createGlobalService",
        expected: MEMBERS_WRITE,
        document: "mutation ($a: GlobalServiceAttributes!) { createGlobalService(attributes: $a) { id } }",
        variables: |w| json!({"a": global_attributes(&format!("new-{}", w.name), &w.shared, &w.repository)}),
    },
    Line {
        field: "updateGlobalService",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: GlobalServiceAttributes!) { updateGlobalService(id: $id, attributes: $a) { id } }",
        variables: |w| {
            json!({
                "id": w.global["id"],
                "a": global_attributes(&w.global_name, &w.shared, &w.repository),
            })
        },
    },
    Line {
        field: "deleteGlobalService",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteGlobalService(id: $id) { id } }",
        variables: |w| json!({"id": w.global["id"]}),
    },
    Line {
        field: "steerRollout",
        // Who may is told that there is no rollout.
        expected: ["401", "NOT_FOUND", "FORBIDDEN", "CONFLICT", "CONFLICT"],
        document: "mutation ($id: ID!) { steerRollout(id: $id, action: HALT) { id } }",
        variables: |w| json!({"id": w.global["id"]}),
    },
];
