//! Clusters: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "cluster",
        expected: MEMBERS_READ,
        document: "query ($id: ID) { cluster(id: $id) { id project { id } writeBindings { id } } }",
        variables: |w| json!({"id": w.cluster["id"]}),
    },
    Line {
        field: "clusters",
        expected: USERS,
        document: "{ clusters { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "clusters",
        expected: USERS,
        document: "{ clusters(state: WAITING, version: \"1.33\", distro: EKS, sort: {by: STATE, descending: true}) { edges { node { id state } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "clusterFacets",
        expected: USERS,
        document: "{ clusterFacets { states { state count } versions { version count } distros { distro count } projects { project { id } count } tags { tag { name value } count } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createCluster",
        expected: MEMBERS_WRITE,
        document: "mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) { id deployToken } }",
        variables: |w| json!({"a": {"name": format!("new-{}", w.name), "projectId": w.shared}}),
    },
    Line {
        field: "updateCluster",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: ClusterUpdateAttributes!) { updateCluster(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.cluster["id"], "a": {"name": "other"}}),
    },
    Line {
        field: "deleteCluster",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteCluster(id: $id) { id } }",
        variables: |w| json!({"id": w.cluster["id"]}),
    },
    Line {
        field: "detachCluster",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { detachCluster(id: $id) { id } }",
        variables: |w| json!({"id": w.cluster["id"]}),
    },
    Line {
        field: "rotateDeployToken",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { rotateDeployToken(id: $id) { id deployToken } }",
        variables: |w| json!({"id": w.cluster["id"]}),
    },
    Line {
        field: "createClusterJoinToken",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { createClusterJoinToken(id: $id) { id joinToken joinTokenExpiresAt } }",
        variables: |w| json!({"id": w.cluster["id"]}),
    },
    Line {
        field: "renewDeployToken",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { renewDeployToken(id: $id) { id } }",
        variables: |w| json!({"id": w.cluster["id"]}),
    },
];
