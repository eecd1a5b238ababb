//! Services: who gets what from their root fields.

use serde_json::json;

use super::table::{ADMINISTRATORS, Line, MEMBERS_CONFLICT, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "servicePreview",
        expected: MEMBERS_READ,
        document: "query ($id: ID) { servicePreview(id: $id) { objects { name } errors { message } } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "serviceDeployment",
        expected: MEMBERS_READ,
        document: "query ($id: ID) { serviceDeployment(id: $id) { id cluster { id } repository { id } revision { id } revisions { edges { node { id by restorable } } } paused pin { by } events { edges { node { id } } } components { id } errors { message } configuration { name } sync { step } pendingApproval { digest } plans { edges { node { id } } } drift { edges { node { id } } } healthChanges { edges { node { id } } } failingSince lastRecoveredAt } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "serviceDeployments",
        expected: USERS,
        document: "{ serviceDeployments { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "serviceDeployments",
        expected: USERS,
        document: "{ serviceDeployments(sort: {by: STATUS}) { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "revisions",
        expected: USERS,
        document: "{ revisions(last: 5) { edges { node { id by service { id } } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "healthChanges",
        expected: USERS,
        document: "{ healthChanges(first: 5) { edges { node { id service { id } } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "serviceFacets",
        expected: USERS,
        document: "{ serviceFacets { statuses { status count } clusters { cluster { id } count } projects { project { id } count } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "serviceStatuses",
        expected: USERS,
        document: "{ serviceStatuses { status count } }",
        variables: |_| json!({}),
    },
    Line {
        // Who may not see a context does not learn who reads it.
        field: "serviceDeployments",
        expected: MEMBERS_READ,
        document: "query ($id: ID) { serviceDeployments(contextId: $id) { edges { node { id } } } }",
        variables: |w| json!({"id": w.context["id"]}),
    },
    Line {
        field: "createServiceDeployment",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID, $a: ServiceDeploymentAttributes!) { createServiceDeployment(clusterId: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.cluster["id"], "a": {"name": "api", "namespace": "api", "repositoryId": w.repository["id"], "git": {"ref": "main", "folder": ""}}}),
    },
    Line {
        field: "updateServiceDeployment",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID, $a: ServiceUpdateAttributes!) { updateServiceDeployment(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.service["id"], "a": {"dryRun": true}}),
    },
    Line {
        field: "deleteServiceDeployment",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteServiceDeployment(id: $id) { id } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "detachServiceDeployment",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { detachServiceDeployment(id: $id) { id } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "syncService",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { syncService(id: $id) { requestId } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "promoteService",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { promoteService(id: $id, promotion: PROCEED) { requestId } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "planService",
        expected: ["401", "NOT_FOUND", "CONFLICT", "CONFLICT", "CONFLICT"],
        document: "mutation ($id: ID!) { planService(id: $id) { requestId } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "serviceTarball",
        expected: MEMBERS_CONFLICT,
        document: "query ($id: ID!) { serviceTarball(id: $id) { path content } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "serviceGateUrl",
        expected: MEMBERS_WRITE,
        document: "query ($id: ID!) { serviceGateUrl(id: $id) }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "serviceDeletion",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { serviceDeletion(id: $id, cascade: true) { hidden services { id } } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "servicePlan",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { servicePlan(serviceId: $id) { id } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "approveServicePrune",
        expected: MEMBERS_CONFLICT,
        document: "mutation ($id: ID!) { approveServicePrune(id: $id, digest: \"d\") { id } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "ignoreServiceDrift",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: DiffNormalizerAttributes!) { ignoreServiceDrift(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.service["id"], "a": {"kind": "Deployment", "jsonPointers": ["/spec/replicas"]}}),
    },
    Line {
        field: "rollbackService",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $revision: ID!) { rollbackService(id: $id, revisionId: $revision) { id } }",
        variables: |w| json!({"id": w.service["id"], "revision": w.service["revision"]["id"]}),
    },
    Line {
        field: "releaseService",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $revision: ID!) { rollbackService(id: $id, revisionId: $revision) { id } releaseService(id: $id) { id } }",
        variables: |w| json!({"id": w.service["id"], "revision": w.service["revision"]["id"]}),
    },
    Line {
        field: "markAgentUpgrade",
        expected: ADMINISTRATORS,
        document: "mutation ($id: ID!) { markAgentUpgrade(id: $id, marked: false) { id agentUpgrade } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "pauseService",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { pauseService(id: $id) { id } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "rotateServiceSeed",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { rotateServiceSeed(id: $id) { id } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "resumeService",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { resumeService(id: $id) { id } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "cloneService",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID, $cluster: ID!, $a: ServiceCloneAttributes!) { cloneService(clusterId: $cluster, serviceId: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.service["id"], "cluster": w.cluster["id"], "a": {"name": "copy"}}),
    },
    Line {
        field: "kickService",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID) { kickService(serviceId: $id) { id } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
];
