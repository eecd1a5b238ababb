//! A pull request from the card of its automation in the web console to the git host, and the next version of what it generated, driven by
//! `ui/tests/pr_day.mjs`.
//!
//! One backend is enough: what is recorded, what hosts take and what a real API server is sent have tests of their own.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use plural_testkit::{GitRemote, GitServer, ScmDialect, ScmServer, TestCluster, eventually};
use serde_json::{Value, json};

use super::{built, node, run_walk, seen};
use crate::{
    asker::{Asker, holds_none},
    program::{AgentProcess, ConsoleProcess, Home},
    pull_requests::gitea,
    world::{EMAIL, PASSWORD, PATIENCE, Person, attributes, map},
};

const AUTOMATION: &str = "add-app";
const SECRET: &str = "s3cr3t-answer-5d1e7a90";
const VALUE: &str = "s3cr3t-value-b2f06c18";
/// What its pull requests say once somebody changed that.
const SAYS: &str = "Adds {{ context.name }} to the fleet.";
const STEPS: [&str; 10] =
    ["signsIn", "adapts", "finds", "isTold", "previews", "plans", "opens", "lists", "holds", "looks"];
/// All that an automation says, besides when it was changed and when its pull requests may be merged.
const EVERYTHING: &str = "query ($name: String!) { prAutomation(name: $name) {
  id name role documentation icon darkIcon addon labels identifier branch branchPrefix title message patch revision
  configuration {
    type name default documentation longform page displayName placeholder optional values
    condition { operation field value } validation { regex json uniqBy { scope } }
  }
  confirmation { text checklist { label } }
  secrets { cluster namespace name entries { name documentation autogenerate } }
  git { ref folder files }
  creates { git { ref folder files } templates { source destination external condition context verbatim } }
  updates {
    regexes files replaceTemplate matchStrategy yq regexReplacements { file regex replacement templated }
    yamlOverlays { file yaml templated listMerge listKey document { index kind name } }
    edits { file format document { index kind name } edit }
  }
  deletes { files folders } vendor { helm { url chart version destination } } lua { script folder external }
  connection { id } governance { id } repository { id } cluster { id } service { id } project { id }
} }";

/// What is walked before people change something.
const MADE: [&str; 9] = [
    "signsIn",
    "connects",
    "registers",
    "signsInBySsh",
    "automates",
    "creates",
    "isFollowed",
    "merges",
    "moves",
];
/// What is walked after it.
const UPGRADED: [&str; 10] = [
    "signsIn",
    "edits",
    "isOutdated",
    "drifts",
    "upgrades",
    "isFollowedAgain",
    "merges",
    "isNewest",
    "takesAway",
    "moves",
];

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
        let admin = Asker::administrator(&console.url()).await?;
        automation(&admin, &host).await?;
        let asked = json!({"name": AUTOMATION});
        let mut expected = admin.data(EVERYTHING, asked.clone()).await?["prAutomation"].take();

        let world = json!({
            "url": console.url(),
            "email": EMAIL,
            "password": PASSWORD,
            "automation": AUTOMATION,
            "repository": host.repository(),
            "secret": SECRET,
            "service": "blue / web",
            "value": VALUE,
            "says": SAYS,
        });
        let seen = seen(node(&ui, "tests/pr_day.mjs", &["day", &world.to_string()])).await?;
        assert_eq!(seen["steps"], json!(STEPS), "{seen}");

        // One text was changed in the form, and all else is what it was: that is the second version, and not the third.
        expected["message"] = json!(SAYS);
        expected["revision"] = json!(2);
        assert_eq!(admin.data(EVERYTHING, asked).await?["prAutomation"], expected);

        assert_eq!(host.pull_requests(), 1);
        assert_eq!(host.file("main", "apps/shop.yaml").as_deref(), Some("name: shop\n"), "it is merged");
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

/// At Gitea itself, in the web console from the first form to what a merge changes in a cluster; then changed by people, brought to the
/// automation's next version, and taken away. The console is told by webhook alone: by itself it looks at repositories once a day here.
#[test]
fn what_was_generated_moves_its_service_and_is_upgraded_by_a_pull_request_that_was_seen_first() {
    let Some(ui) = built() else { return };
    let Some(gitea) = gitea() else { return };
    run_walk(async {
        let home = Home::new()?;
        let mut console = ConsoleProcess::start_in(&home, "console", "info", |program| {
            program.without_flag("poll-seconds").flag("poll-seconds", "86400")
        })
        .await?;
        let repository = gitea.repository()?;
        let file = "apps/shop.yaml";
        repository.push("main", "templates/v1.yaml", &app("{{ context.name }}", "1", "  port: \"80\"\n"))?;
        let next = "  port: \"8080\"\n  region: {{ context.region }}\n";
        repository.push("main", "templates/v2.yaml", &app("{{ context.name }}", "1", next))?;
        let index = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: index\ndata:\n  base: ops\n";
        repository.push("main", "apps/index.yaml", index)?;
        // It comes with this file, which is no object.
        repository.push("main", "apps/web/values.yaml", &map("values", "1"))?;

        let person = Person::administrator(&console.url()).await?;
        let blue = person.cluster("blue").await?;
        let cluster = TestCluster::kubesim().await?;
        let namespace = cluster.namespace().await?;
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await?, &namespace);
        let fetched = person.repository(&repository.clone_url()).await?;
        let service = person.service(&blue, &namespace, &fetched, "apps").await?;
        let mut agent = AgentProcess::start(&home, &console.url(), &blue.token, &cluster, "info").await?;
        person.stands_at(&service, &repository.head("main")?).await;

        let name = json!({"name": "name", "type": "STRING"});
        let region = json!({"name": "region", "type": "STRING"});
        let templates = |source: &str| json!([{"source": source, "destination": "apps/{{ context.name }}.yaml", "external": false}]);
        let overlay = json!({
            "file": "apps/index.yaml", "yaml": "data:\n  app: {{ context.name | toJson }}", "templated": true,
        });
        let world = json!({
            "url": console.url(), "email": EMAIL, "password": PASSWORD, "automation": AUTOMATION,
            "repository": repository.name(), "owner": repository.owner(), "api": gitea.api_url(),
            "token": gitea.token(), "service": "blue / apps", "title": "Add {{ context.name }}",
            "message": "Adds {{ context.name }}.\n\nPlural Service: blue/apps",
            "actions": {
                "configuration": [name], "creates": {"templates": templates("templates/v1.yaml")},
                "updates": {"yamlOverlays": [overlay]},
            },
            "next": {"configuration": [name, region], "creates": {"templates": templates("templates/v2.yaml")}},
        })
        .to_string();
        let walked = seen(node(&ui, "tests/pr_day.mjs", &["made", &world])).await?;
        assert_eq!(walked["steps"], json!(MADE), "{walked}");
        assert_eq!(repository.webhooks()?, (1, 0), "the repository's alone");
        assert_eq!(repository.file("main", file)?, Some(app("shop", "1", "  port: \"80\"\n")));
        person.stands_at(&service, &repository.head("main")?).await;
        let data = async |name: &str| anyhow::Ok(maps.get(name).await?.data.unwrap_or_default());
        let text = |found: Option<&String>| found.cloned().unwrap_or_default();
        assert_eq!(text(data("shop").await?.get("port")), "80");
        assert_eq!(text(data("index").await?.get("app")), "shop");

        repository.push("main", file, &app("shop", "3", "  port: \"80\"\n"))?;
        person.stands_at(&service, &repository.head("main")?).await;
        let walked = seen(node(&ui, "tests/pr_day.mjs", &["upgrade", &world])).await?;
        assert_eq!(walked["steps"], json!(UPGRADED), "{walked}");
        assert_eq!(
            repository.file("main", file)?,
            Some(app("shop", "3", "  port: \"8080\"\n  region: eu\n")),
            "the next version, with what people changed"
        );
        person.stands_at(&service, &repository.head("main")?).await;
        let shop = data("shop").await?;
        let is = ["replicas", "port", "region"].map(|name| text(shop.get(name)));
        assert_eq!(is, ["3", "8080", "eu"], "in the cluster, too");
        holds_none("the console's log", console.log().as_bytes(), &[("token", gitea.token())]);
        agent.stop();
        console.stop();
        anyhow::Ok(())
    });
}

/// What the template makes of these answers.
fn app(name: &str, replicas: &str, rest: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  replicas: \"{replicas}\"\n  kind: app\n{rest}"
    )
}

/// The default project, and a connection to a git host in it.
async fn connected(
    admin: &Asker,
    api: &str,
    token: &str,
    repositories: &str,
) -> anyhow::Result<(Value, Value)> {
    let listed = admin.data("{ projects { edges { node { id name } } } }", json!({})).await?;
    let edges = listed["projects"]["edges"].as_array().context("no projects")?;
    let project = edges.iter().map(|edge| &edge["node"]).find(|project| project["name"] == "default");
    let project: Value = project.context("no default project")?["id"].clone();
    let create = "mutation ($a: ScmConnectionAttributes!) { createScmConnection(attributes: $a) { id } }";
    let connection = json!({
        "name": "git", "type": "GITEA", "projectId": project, "apiUrl": api, "token": token,
        "repositories": [repositories],
    });
    let made = admin.data(create, json!({"a": connection})).await?;
    Ok((project, made["createScmConnection"]["id"].clone()))
}

/// An automation of the default project that makes a file and changes another one.
async fn automation(admin: &Asker, host: &ScmServer) -> anyhow::Result<()> {
    let (project, connection) = connected(admin, &host.api_url(), &host.token(), "plural/*").await?;
    let automation = json!({
        "name": AUTOMATION, "role": "SERVICE", "projectId": project,
        "connectionId": connection, "identifier": host.repository(),
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
