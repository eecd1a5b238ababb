//! Projects: who gets what from their root fields.

use serde_json::json;

use super::table::{ADMINISTRATORS, ADMINS, Line, MEMBERS_READ, MEMBERS_WRITE, USERS};

pub(super) const ROWS: &[Line] = &[
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
        field: "rotateProjectDataKeys",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { rotateProjectDataKeys(projectId: $id) { id purpose } }",
        variables: |w| json!({"id": w.project["id"]}),
    },
    Line {
        field: "moveProjectSecrets",
        expected: ADMINISTRATORS,
        document: "mutation ($id: ID!) { moveProjectSecrets(projectId: $id, backend: DATABASE) { backend waiting kept { backend values } } }",
        variables: |w| json!({"id": w.project["id"]}),
    },
    Line {
        field: "project",
        expected: MEMBERS_READ,
        document: "query ($id: ID) { project(id: $id) { id stackSettings { jobSpec { namespace } } } }",
        variables: |w| json!({"id": w.project["id"]}),
    },
    // For whom it is, the field decides: the project itself more people may see.
    Line {
        field: "project",
        expected: MEMBERS_WRITE,
        document: "query ($id: ID) { project(id: $id) { id dataKeys { id } secretHoldings { holdsNone endCursor holdings { kind backend values things names } } secretStorage { backend waiting problem kept { backend values } } } }",
        variables: |w| json!({"id": w.project["id"]}),
    },
    Line {
        field: "setDefaultProject",
        expected: ADMINISTRATORS,
        document: "mutation ($id: ID!) { setDefaultProject(id: $id) { id default } }",
        variables: |w| json!({"id": w.shared}),
    },
    Line {
        field: "setProjectLimits",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: ProjectLimitsAttributes!) { setProjectLimits(projectId: $id, attributes: $a) { id limits { namespaces } } }",
        variables: |w| json!({"id": w.project["id"], "a": {"namespaces": ["shop-*"]}}),
    },
    Line {
        field: "setProjectStackSettings",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: StackSettingsAttributes!) { setProjectStackSettings(projectId: $id, attributes: $a) { id stackSettings { jobSpec { labels } } } }",
        variables: |w| json!({"id": w.project["id"], "a": {"jobSpec": {"labels": {"team": "shop"}}}}),
    },
];
