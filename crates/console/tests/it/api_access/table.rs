//! Every root field of the API, and who gets what from it.

use serde_json::{Value, json};

use super::{World, global_attributes, namespace_attributes};

/// Who may see it and who may not, by what a thing belongs to.
/// The columns: nobody, stranger, reader, owner, administrator.
const MEMBERS_READ: [&str; 5] = ["401", "NOT_FOUND", "OK", "OK", "OK"];
const MEMBERS_WRITE: [&str; 5] = ["401", "NOT_FOUND", "FORBIDDEN", "OK", "OK"];
/// Administrators of the installation; who sees the thing hears that it is theirs.
const ADMINISTRATORS: [&str; 5] = ["401", "NOT_FOUND", "FORBIDDEN", "FORBIDDEN", "OK"];
const USERS: [&str; 5] = ["401", "OK", "OK", "OK", "OK"];
const ADMINS: [&str; 5] = ["401", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN", "OK"];
/// Who may, finds nothing that could be done.
const MEMBERS_CONFLICT: [&str; 5] = ["401", "NOT_FOUND", "FORBIDDEN", "CONFLICT", "CONFLICT"];
/// Somebody else's own things.
const SECRET: [&str; 5] = ["401", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "OK"];
const OPEN: [&str; 5] = ["OK", "OK", "OK", "OK", "OK"];

pub(super) struct Line {
    pub(super) field: &'static str,
    pub(super) expected: [&'static str; 5],
    pub(super) document: &'static str,
    pub(super) variables: fn(&World) -> Value,
}

pub(super) const TABLE: &[Line] = &[
    // Yourself.
    Line {
        field: "signIn",
        expected: OPEN,
        document: "mutation { signIn(email: \"admin@example.com\", password: \"correct horse battery\") { id } }",
        variables: |_| json!({}),
    },
    Line { field: "me", expected: USERS, document: "{ me { id } }", variables: |_| json!({}) },
    Line {
        field: "accessTokens",
        expected: USERS,
        document: "{ accessTokens { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createAccessToken",
        expected: USERS,
        document: "mutation { createAccessToken { id } }",
        variables: |_| json!({}),
    },
    // The administrator's own token, asked for by others.
    Line {
        field: "accessToken",
        expected: SECRET,
        document: "query ($id: ID!) { accessToken(id: $id) { id } }",
        variables: |w| json!({"id": w.token["id"]}),
    },
    Line {
        field: "deleteAccessToken",
        expected: SECRET,
        document: "mutation ($t: String!) { deleteAccessToken(token: $t) { id } }",
        variables: |w| json!({"t": w.token["id"]}),
    },
    // The installation: names are for all who are signed in, changes for administrators.
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
        field: "group",
        expected: USERS,
        document: "query ($n: String!) { group(name: $n) { id members { id } } }",
        variables: |w| json!({"n": w.group_name}),
    },
    Line {
        field: "groups",
        expected: USERS,
        document: "{ groups { edges { node { id } } } }",
        variables: |_| json!({}),
    },
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
        field: "managedNamespace",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { managedNamespace(id: $id) { id name service { namespace } instances { edges { node { serviceId } } } instanceCounts { all } } }",
        variables: |w| json!({"id": w.managed["id"]}),
    },
    Line {
        field: "managedNamespaces",
        expected: USERS,
        document: "{ managedNamespaces { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "clusterManagedNamespaces",
        // Only clusters may ask, with their deploy tokens.
        expected: ["401", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN"],
        document: "{ clusterManagedNamespaces { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createManagedNamespace",
        expected: MEMBERS_WRITE,
        document: "mutation ($a: ManagedNamespaceAttributes!) { createManagedNamespace(attributes: $a) { id } }",
        variables: |w| json!({"a": namespace_attributes(&format!("new-{}", w.name), &w.shared)}),
    },
    Line {
        field: "updateManagedNamespace",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: ManagedNamespaceAttributes!) { updateManagedNamespace(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.managed["id"], "a": namespace_attributes(&w.managed_name, &w.shared)}),
    },
    Line {
        field: "deleteManagedNamespace",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteManagedNamespace(id: $id) { id } }",
        variables: |w| json!({"id": w.managed["id"]}),
    },
    Line {
        field: "steerRollout",
        // Who may is told that there is no rollout.
        expected: ["401", "NOT_FOUND", "FORBIDDEN", "CONFLICT", "CONFLICT"],
        document: "mutation ($id: ID!) { steerRollout(id: $id, action: HALT) { id } }",
        variables: |w| json!({"id": w.global["id"]}),
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
        field: "deleteUser",
        expected: ADMINS,
        document: "mutation ($id: ID!) { deleteUser(id: $id) { id } }",
        variables: |w| json!({"id": w.user["id"]}),
    },
    Line {
        field: "createGroup",
        expected: ADMINS,
        document: "mutation ($a: GroupAttributes!) { createGroup(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": format!("new-{}", w.name)}}),
    },
    Line {
        field: "updateGroup",
        expected: ADMINS,
        document: "mutation ($id: ID!, $a: GroupAttributes!) { updateGroup(groupId: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.group["id"], "a": {"name": format!("other-{}", w.name)}}),
    },
    Line {
        field: "deleteGroup",
        expected: ADMINS,
        document: "mutation ($id: ID!) { deleteGroup(groupId: $id) { id } }",
        variables: |w| json!({"id": w.group["id"]}),
    },
    Line {
        field: "createGroupMember",
        expected: ADMINS,
        document: "mutation ($g: ID!, $u: ID!) { createGroupMember(groupId: $g, userId: $u) { id } }",
        variables: |w| json!({"g": w.group["id"], "u": w.user["id"]}),
    },
    Line {
        field: "deleteGroupMember",
        expected: ADMINS,
        document: "mutation ($g: ID!, $u: ID!) { deleteGroupMember(groupId: $g, userId: $u) { id } }",
        variables: |w| json!({"g": w.group["id"], "u": w.user["id"]}),
    },
    Line {
        field: "audits",
        expected: ADMINS,
        document: "{ audits { edges { node { id action } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "backgroundJobs",
        expected: ADMINS,
        document: "{ backgroundJobs { edges { node { id kind key error } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "retryBackgroundJob",
        expected: ADMINS,
        document: "mutation ($id: ID!) { retryBackgroundJob(id: $id) { id } }",
        variables: |w| json!({"id": w.job}),
    },
    Line {
        field: "deleteBackgroundJob",
        expected: ADMINS,
        document: "mutation ($id: ID!) { deleteBackgroundJob(id: $id) { id } }",
        variables: |w| json!({"id": w.job}),
    },
    Line {
        field: "webhookSecret",
        expected: ADMINS,
        document: "{ webhookSecret }",
        variables: |_| json!({}),
    },
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
    // Projects.
    Line {
        field: "project",
        expected: MEMBERS_READ,
        document: "query ($id: ID) { project(id: $id) { id readBindings { id user { email } } } }",
        variables: |w| json!({"id": w.project["id"]}),
    },
    Line {
        field: "projects",
        expected: USERS,
        document: "{ projects { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createProject",
        expected: ADMINS,
        document: "mutation ($a: ProjectAttributes!) { createProject(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": format!("new-{}", w.name)}}),
    },
    Line {
        field: "updateProject",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: ProjectAttributes!) { updateProject(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.project["id"], "a": {"name": format!("other-{}", w.name)}}),
    },
    Line {
        field: "deleteProject",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteProject(id: $id) { id } }",
        variables: |w| json!({"id": w.project["id"]}),
    },
    Line {
        field: "setProjectLimits",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: ProjectLimitsAttributes!) { setProjectLimits(projectId: $id, attributes: $a) { id limits { namespaces } } }",
        variables: |w| json!({"id": w.project["id"], "a": {"namespaces": ["shop-*"]}}),
    },
    Line {
        field: "setRecordingPolicy",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: RecordingPolicyAttributes!) { setRecordingPolicy(projectId: $id, attributes: $a) { record } }",
        variables: |w| json!({"id": w.project["id"], "a": {"record": true}}),
    },
    // Who may read none finds none.
    Line {
        field: "recordings",
        expected: USERS,
        document: "{ recordings { edges { node { id projectName } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "updateRbac",
        expected: MEMBERS_WRITE,
        document: "mutation ($r: RbacAttributes!, $id: ID) { updateRbac(rbac: $r, clusterId: $id) }",
        variables: |w| json!({"r": {"readBindings": []}, "id": w.cluster["id"]}),
    },
    // Clusters.
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
    // Chart repositories.
    Line {
        field: "helmRepository",
        expected: USERS,
        document: "query ($u: String!) { helmRepository(url: $u) { id } }",
        variables: |w| json!({"u": format!("https://charts.invalid/{}", w.name)}),
    },
    Line {
        field: "helmRepositories",
        expected: USERS,
        document: "{ helmRepositories { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "upsertHelmRepository",
        expected: ADMINS,
        document: "mutation ($u: String!) { upsertHelmRepository(url: $u) { id } }",
        variables: |w| json!({"u": format!("https://charts.invalid/{}", w.name)}),
    },
    Line {
        field: "deleteHelmRepository",
        expected: ADMINS,
        document: "mutation ($u: String!) { deleteHelmRepository(url: $u) { id } }",
        variables: |w| json!({"u": format!("https://charts.invalid/{}", w.name)}),
    },
    // Repositories.
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
    // Services.
    Line {
        field: "servicePreview",
        expected: MEMBERS_READ,
        document: "query ($id: ID) { servicePreview(id: $id) { objects { name } errors { message } } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "serviceDeployment",
        expected: MEMBERS_READ,
        document: "query ($id: ID) { serviceDeployment(id: $id) { id cluster { id } repository { id } revision { id } revisions { edges { node { id by restorable } } } paused pin { by } events { edges { node { id } } } components { id } errors { message } configuration { name } sync { step } pendingApproval { digest } plans { edges { node { id } } } drift { edges { node { id } } } } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "serviceDeployments",
        expected: USERS,
        document: "{ serviceDeployments { edges { node { id } } } }",
        variables: |_| json!({}),
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
        field: "serviceContext",
        expected: MEMBERS_READ,
        document: "query ($name: String!) { serviceContext(name: $name) { id } }",
        variables: |w| json!({"name": w.context["name"]}),
    },
    Line {
        field: "serviceContexts",
        expected: USERS,
        document: "query { serviceContexts { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "saveServiceContext",
        expected: MEMBERS_WRITE,
        document: "mutation ($name: String!, $a: ServiceContextAttributes!) { saveServiceContext(name: $name, attributes: $a) { id } }",
        variables: |w| json!({"name": w.context["name"], "a": {"configuration": "{}"}}),
    },
    Line {
        field: "deleteServiceContext",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteServiceContext(id: $id) { id } }",
        variables: |w| json!({"id": w.context["id"]}),
    },
    Line {
        field: "syncWindows",
        expected: MEMBERS_READ,
        document: "query ($id: ID) { syncWindows(serviceId: $id) { id } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
    Line {
        field: "createSyncWindow",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID, $a: SyncWindowAttributes!) { createSyncWindow(serviceId: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.service["id"], "a": {"kind": "DENY", "schedule": "0 0 1 1 *", "duration": 3600}}),
    },
    Line {
        field: "deleteSyncWindow",
        expected: ["401", "NOT_FOUND", "FORBIDDEN", "NOT_FOUND", "NOT_FOUND"],
        document: "mutation ($id: ID, $window: ID!) { deleteSyncWindow(serviceId: $id, id: $window) { id } }",
        variables: |w| json!({"id": w.service["id"], "window": w.service["id"]}),
    },
    Line {
        field: "kickService",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID) { kickService(serviceId: $id) { id } }",
        variables: |w| json!({"id": w.service["id"]}),
    },
];
