//! A pull request from the card of its automation in the web console to the git host, driven by `ui/tests/pr_day.mjs`.
//!
//! One backend is enough, and one git host: what is recorded and what hosts take has tests of its own.

use anyhow::Context as _;
use plural_testkit::{GitRemote, GitServer, ScmDialect, ScmServer, eventually};
use serde_json::{Value, json};

use super::{built, node, run_walk, seen};
use crate::{
    asker::{Asker, holds_none},
    program::{ConsoleProcess, Home},
    world::{EMAIL, PASSWORD, PATIENCE, Person, attributes},
};

const AUTOMATION: &str = "add-app";
const SECRET: &str = "s3cr3t-answer-5d1e7a90";
const VALUE: &str = "s3cr3t-value-b2f06c18";
const STEPS: [&str; 8] = ["signsIn", "finds", "isTold", "previews", "plans", "opens", "lists", "looks"];

#[test]
fn a_form_becomes_a_pull_request_that_was_seen_first() {
    let Some(ui) = built() else { return };
    run_walk(async {
        let home = Home::new()?;
        let console = ConsoleProcess::start(&home, None, "info").await?;
        let host = ScmServer::start(ScmDialect::Gitea)?;
        let template = "name: {{ context.name }}\n{% if context.host %}host: {{ context.host }}\n{% endif %}";
        // A service reads the folder of which a file is changed.
        let remote = GitRemote::named("plural/fleet.git")?;
        let git = GitServer::start(remote.root())?;
        let values = ("apps/web/values.yaml", "replicas: 1\n");
        let head = remote.push_files([values])?;
        host.push_commit("main", &head, &[values, ("templates/app.yaml", template)]);
        service(&console.url(), &git.url(&remote)).await?;
        automation(&Asker::administrator(&console.url()).await?, &host).await?;

        let world = json!({
            "url": console.url(),
            "email": EMAIL,
            "password": PASSWORD,
            "automation": AUTOMATION,
            "repository": host.repository(),
            "secret": SECRET,
            "service": "blue / web",
            "value": VALUE,
        });
        let seen = seen(node(&ui, "tests/pr_day.mjs", &["day", &world.to_string()])).await?;
        assert_eq!(seen["steps"], json!(STEPS), "{seen}");

        assert_eq!(host.pull_requests(), 1);
        let branches = host.branches();
        let branch = branches.iter().find(|branch| branch.starts_with("plural/app-")).context("no branch")?;
        assert_eq!(host.file(branch, "apps/shop.yaml").as_deref(), Some("name: shop\n"));
        let secrets = [("answer", SECRET.to_owned()), ("value", VALUE.to_owned())];
        holds_none("the git host", host.everything().as_bytes(), &secrets);
        holds_none("the console's log", console.log().as_bytes(), &secrets);
        anyhow::Ok(())
    });
}

/// A service of a folder of this repository, on a cluster without an agent, once it was fetched.
async fn service(console: &str, repository: &str) -> anyhow::Result<()> {
    let person = Person::administrator(console).await?;
    let (cluster, repository) = (person.cluster("blue").await?, person.repository(repository).await?);
    let attributes = attributes("web", "web", &repository, "main", "apps/web");
    let id = person.service_of(&cluster, attributes).await?;
    eventually(PATIENCE, async || {
        let details = person.details(&id).await.map_err(|error| format!("{error:#}"))?;
        if details.service.sha.is_some() { Ok(()) } else { Err("it is not fetched yet".to_owned()) }
    })
    .await;
    Ok(())
}

/// An automation of the default project that makes a file and changes another one.
async fn automation(admin: &Asker, host: &ScmServer) -> anyhow::Result<()> {
    let listed = admin.data("{ projects { edges { node { id name } } } }", json!({})).await?;
    let edges = listed["projects"]["edges"].as_array().context("no projects")?;
    let project = edges.iter().map(|edge| &edge["node"]).find(|project| project["name"] == "default");
    let project: Value = project.context("no default project")?["id"].clone();
    let create = "mutation ($a: ScmConnectionAttributes!) { createScmConnection(attributes: $a) { id } }";
    let connection = json!({
        "name": "git", "type": "GITEA", "projectId": project, "apiUrl": host.api_url(), "token": host.token(),
        "repositories": ["plural/*"],
    });
    let connection = admin.data(create, json!({"a": connection})).await?;
    let cluster = "mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) { id } }";
    admin.data(cluster, json!({"a": {"name": "blue"}})).await?;
    let automation = json!({
        "name": AUTOMATION, "role": "SERVICE", "projectId": project,
        "connectionId": connection["createScmConnection"]["id"], "identifier": host.repository(),
        "documentation": "Puts an app into the fleet", "title": "Add {{ context.name }}",
        "message": "Adds {{ context.name }}.", "branchPrefix": "plural/app",
        "configuration": [
            {"name": "name", "type": "STRING", "validation": {"regex": "^[a-z]+$", "uniqBy": {"scope": "PROJECT"}}},
            {"name": "public", "type": "BOOL", "default": "false"},
            {"name": "host", "type": "STRING", "condition": {"field": "public", "operation": "EQ", "value": "true"}},
            {"name": "project", "type": "PROJECT", "page": 1},
            {"name": "key", "type": "PASSWORD", "optional": true, "page": 1},
        ],
        "confirmation": {"text": "Others read it.", "checklist": [{"label": "I asked the team"}]},
        "creates": {"templates": [
            {"source": "templates/app.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false},
        ]},
        "updates": {"yamlOverlays": [{"file": "apps/web/values.yaml", "yaml": "replicas: 2"}]},
        "secrets": {"cluster": "blue", "namespace": "apps", "name": "{{ context.name }}-db", "entries": [
            {"name": "user", "documentation": "Who signs in."}, {"name": "password", "autogenerate": true},
        ]},
    });
    let create = "mutation ($a: PrAutomationAttributes!) { createPrAutomation(attributes: $a) { id } }";
    admin.data(create, json!({"a": automation})).await.map(drop)
}
