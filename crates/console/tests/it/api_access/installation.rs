//! The installation itself: who gets what from their root fields.

use serde_json::json;

use super::table::{ADMINS, Line, USERS};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "audits",
        expected: ADMINS,
        document: "{ audits { edges { node { id action } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "auditVerify",
        expected: ADMINS,
        document: "{ auditVerify { batches lines sequence digest more problems { kind message } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "auditCheckpoints",
        expected: ADMINS,
        document: "{ auditCheckpoints { sequence digest text } }",
        variables: |_| json!({}),
    },
    Line {
        field: "installationDataKeys",
        expected: ADMINS,
        document: "{ installationDataKeys { id purpose encryptedBy } }",
        variables: |_| json!({}),
    },
    Line {
        field: "rotateInstallationDataKey",
        expected: ADMINS,
        document: "mutation { rotateInstallationDataKey { id } }",
        variables: |_| json!({}),
    },
    Line {
        field: "deploymentSettings",
        expected: USERS,
        document: "{ deploymentSettings { stacks { jobSpec { namespace labels } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "updateDeploymentSettings",
        expected: ADMINS,
        document: "mutation ($a: DeploymentSettingsAttributes!) { updateDeploymentSettings(attributes: $a) { stacks { jobSpec { labels } } } }",
        variables: |_| json!({"a": {"stacks": {"jobSpec": {"labels": {"fleet": "all"}}}}}),
    },
    Line {
        field: "updateDeploymentSettings",
        expected: ADMINS,
        document: "mutation ($a: DeploymentSettingsAttributes!) { updateDeploymentSettings(attributes: $a) { stacks { jobSpec { labels } } } }",
        variables: |_| json!({"a": {}}),
    },
    Line { field: "auditKey", expected: ADMINS, document: "{ auditKey }", variables: |_| json!({}) },
    Line {
        field: "webhookSecret",
        expected: ADMINS,
        document: "{ webhookSecret }",
        variables: |_| json!({}),
    },
];
