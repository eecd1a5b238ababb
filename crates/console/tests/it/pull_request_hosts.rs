//! Pull requests at hosts that are unlike the others: one takes commits by git, one has its repositories in projects.
//!
//! SQLite alone: what is recorded is the same on both databases, and at every host.

use plural_testkit::{ScmDialect, ScmServer};
use serde_json::{Value, json};

use crate::api_server::TestServer;

/// Makes a connection and an automation, asks for a pull request twice, and looks at what the host has.
async fn opens_at(dialect: ScmDialect, identifier: &str, connection: Value) {
    let (t, host) = (TestServer::start().await, ScmServer::start(dialect).unwrap());
    host.push("main", "templates/app.yaml", "name: {{ context.name }}\n");
    let mut attributes = json!({
        "name": "forge", "projectId": t.project, "apiUrl": host.api_url(), "token": host.token(),
        "repositories": ["plural/*"],
    });
    attributes.as_object_mut().unwrap().extend(connection.as_object().unwrap().clone());
    let connection = t.admin.scm_connection(&attributes).await;
    let automation = json!({
        "name": "app", "projectId": t.project, "connectionId": connection, "identifier": identifier,
        "title": "Add {{ context.name }}", "message": "Adds it.", "labels": ["infra"],
        "configuration": [{"name": "name", "type": "STRING"}],
        "creates": {"templates": [
            {"source": "templates/app.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false},
        ]},
        "updates": {"yamlOverlays": [{"file": "apps/web/values.yaml", "yaml": "replicas: 2"}]},
        "deletes": {"files": ["README.md"]},
    });
    let automation = t.admin.pr_automation(&automation).await;

    let create = "mutation ($id: ID!, $branch: String, $context: Json) {
      createPullRequest(id: $id, branch: $branch, context: $context, wait: true) { phase status error url repository commit ref }
    }";
    for branch in ["one", "two"] {
        let variables = json!({"id": automation, "branch": branch, "context": {"name": branch}});
        let made = t.admin.data(create, variables).await["createPullRequest"].clone();
        assert_eq!((&made["phase"], &made["status"]), (&json!("OPENED"), &json!("OPEN")), "{made}");
        assert_eq!((&made["repository"], &made["error"]), (&json!("plural/fleet"), &Value::Null), "{made}");
        assert_eq!(made["commit"].as_str().unwrap().len(), 40, "{made}");
        let at = made["ref"].as_str().unwrap();
        let name = format!("apps/{branch}.yaml");
        assert_eq!(host.file(at, &name).as_deref(), Some(format!("name: {branch}\n").as_str()), "{made}");
        assert_eq!(host.file(at, "apps/web/values.yaml").as_deref(), Some("replicas: 2\n"));
        assert_eq!((host.file(at, "README.md"), host.file("main", &name)), (None, None));
    }
    assert_eq!(host.pull_requests(), 2);
    assert_eq!(host.branches().len(), 3, "{:?}", host.branches());
    t.stop().await;
}

#[tokio::test]
async fn one_is_opened_at_bitbucket_data_center_by_a_token() {
    opens_at(ScmDialect::BitbucketDataCenter, "plural/fleet", json!({"type": "BITBUCKET_DATACENTER"})).await;
}

#[tokio::test]
async fn one_is_opened_at_bitbucket_data_center_by_a_password() {
    let connection = json!({
        "type": "BITBUCKET_DATACENTER", "username": "plural-bot",
        "bitbucketDatacenter": {"userSlug": "plural-bot"},
    });
    opens_at(ScmDialect::BitbucketDataCenter, "plural/fleet", connection).await;
}

#[tokio::test]
async fn one_is_opened_in_the_project_of_an_azure_devops_connection() {
    let azure = json!({"username": "bot", "organization": "acme", "project": "plural"});
    opens_at(ScmDialect::AzureDevOps, "fleet", json!({"type": "AZURE_DEVOPS", "azure": azure})).await;
}
