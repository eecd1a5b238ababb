//! Subscriptions: who may listen to what. They are asked over a socket; that nobody hears of more is asked in `deltas.rs`.

use serde_json::json;

use super::table::{Line, MEMBERS_READ, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "serviceDeploymentDelta",
        expected: USERS,
        document: "subscription { serviceDeploymentDelta { changed deleted readAgain cursor } }",
        variables: |_| json!({}),
    },
    Line {
        field: "serviceDeploymentDelta",
        expected: MEMBERS_READ,
        document: "subscription ($id: ID!) { serviceDeploymentDelta(id: $id) { changed } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "serviceDeploymentDelta",
        expected: MEMBERS_READ,
        document: "subscription ($id: ID!) { serviceDeploymentDelta(clusterId: $id) { changed } }",
        variables: |w| json!({"id": w.cluster["id"]}),
    },
    Line {
        field: "clusterDelta",
        expected: USERS,
        document: "subscription { clusterDelta { changed deleted readAgain cursor } }",
        variables: |_| json!({}),
    },
    Line {
        field: "clusterDelta",
        expected: MEMBERS_READ,
        document: "subscription ($id: ID!) { clusterDelta(id: $id) { changed } }",
        variables: |w| json!({"id": w.cluster["id"]}),
    },
    Line {
        field: "infrastructureStackDelta",
        expected: USERS,
        document: "subscription { infrastructureStackDelta { changed deleted readAgain cursor } }",
        variables: |_| json!({}),
    },
    Line {
        field: "infrastructureStackDelta",
        expected: MEMBERS_READ,
        document: "subscription ($id: ID!) { infrastructureStackDelta(id: $id) { changed } }",
        variables: |w| json!({"id": w.stack["id"]}),
    },
];
