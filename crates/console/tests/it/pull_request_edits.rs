//! Edits of single values by a console: what the API takes of them is kept, previewed and committed, and comments stay.
//!
//! SQLite alone: the specification of an automation is one document in both databases, and the store's own tests ask both.

use plural_testkit::{ScmDialect, ScmServer};
use serde_json::{Value, json};

use crate::api_server::{Answer, TestServer};

const CREATE: &str = "mutation ($a: PrAutomationAttributes!) { createPrAutomation(attributes: $a) { id } }";
const READ: &str = "query ($id: ID!) {
  prAutomation(id: $id) {
    creates { templates { source verbatim } }
    updates {
      yamlOverlays { file document { index kind name } }
      edits { file format document { index kind name } edit }
    }
  }
}";
const PREVIEW: &str = "mutation ($id: ID!, $context: Json) {
  previewPullRequest(id: $id, context: $context) { files { path change } }
}";
const OPEN: &str = "mutation ($id: ID!, $context: Json) {
  createPullRequest(id: $id, context: $context) { phase error ref }
}";

const VALUES: &str = "\
# Ask before you change this.
kind: Deployment
replicas: 1 # one is enough
containers:
- {name: web, image: 'shop:1'} # by hand
---
kind: Service
ports:
- {name: http, port: 80}
";
const TERRAFORM: &str = "\
# The cluster's buckets.
resource \"bucket\" \"logs\" {
  name = \"old\" # short
}
";

struct World {
    t: TestServer,
    host: ScmServer,
    connection: Value,
}

impl World {
    async fn new() -> Self {
        let (t, host) = (TestServer::start().await, ScmServer::start(ScmDialect::Gitea).unwrap());
        for (path, text) in [
            ("values.yaml", VALUES),
            ("app.json", "{\n  \"owner\": \"nobody\",\n  \"old\": 1\n}\n"),
            ("Pipfile", "# what runs\n[packages]\nweb = \"1\" # soon 2\n"),
            ("main.tf", TERRAFORM),
            ("template.yaml", "# of {{ context.name }}\nmore:\n{{ context.more }}\n"),
            ("unread.yaml", "a: 1\n"),
        ] {
            host.push("main", path, text);
        }
        let attributes = json!({
            "name": "forge", "type": "GITEA", "projectId": t.project, "apiUrl": host.api_url(), "token": host.token(),
            "repositories": [host.repository()],
        });
        Self { connection: t.admin.scm_connection(&attributes).await, t, host }
    }

    /// Makes an automation of these parts.
    async fn make(&self, name: &str, parts: &Value) -> Answer {
        let mut automation = json!({
            "name": name, "projectId": self.t.project, "connectionId": self.connection,
            "identifier": self.host.repository(), "title": "Tune {{ context.name }}", "message": "Tunes it.",
            "configuration": [
                {"name": "name", "type": "STRING"}, {"name": "replicas", "type": "INT"},
                {"name": "more", "type": "STRING", "optional": true},
            ],
        });
        automation.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
        self.t.admin.ask(CREATE, json!({"a": automation})).await
    }
}

/// Edits in each language, with what the API answers of them.
fn edits() -> Value {
    json!([
        {"file": "values.yaml", "document": {"kind": "Deployment"},
         "edit": {"op": "set", "path": "replicas", "value": "{{ context.replicas }}"}},
        {"file": "values.yaml", "document": {"index": 0},
         "edit": {"op": "set", "path": "containers[name=web].image", "value": "shop:{{ context.name }}"}},
        {"file": "app.json", "edit": {"op": "set", "path": "owner", "value": "{{ context.name }}"}},
        {"file": "app.json", "edit": {"op": "delete", "path": "old"}},
        {"file": "Pipfile", "format": "toml", "edit": {"op": "merge", "path": "packages", "value": {"web": "2"}}},
        {"file": "main.tf", "edit": {"op": "express", "path": "resource.bucket.logs.name", "expression": "var.name"}},
        {"file": "main.tf",
         "edit": {"op": "block", "block": "module", "labels": ["{{ context.name }}"], "value": {"source": "./app"}}},
    ])
}

#[tokio::test]
async fn values_are_set_in_four_languages_and_comments_stay() {
    let w = World::new().await;
    let parts = json!({
        "creates": {"templates": [
            {"source": "template.yaml", "destination": "made.yaml", "external": false, "verbatim": ["more"]},
        ]},
        "updates": {
            "yamlOverlays": [
                {"file": "values.yaml", "yaml": "ports: [{name: http, targetPort: 8080}]", "listKey": "name",
                 "document": {"kind": "Service"}},
            ],
            "edits": edits(),
        },
    });
    let made = w.make("tune", &parts).await;
    assert_eq!(made.outcome(), "OK", "{made:?}");
    let id = &made.body["data"]["createPrAutomation"]["id"];

    let kept = w.t.admin.data(READ, json!({"id": id})).await["prAutomation"].take();
    assert_eq!(kept["creates"]["templates"][0]["verbatim"], json!(["more"]));
    assert_eq!(
        kept["updates"]["yamlOverlays"][0]["document"],
        json!({"index": null, "kind": "Service", "name": null})
    );
    let told = kept["updates"]["edits"].as_array().unwrap();
    let expected = edits();
    assert_eq!(told.len(), expected.as_array().unwrap().len());
    for (told, given) in told.iter().zip(expected.as_array().unwrap()) {
        assert_eq!((&told["file"], &told["format"]), (&given["file"], &given["format"]), "{told}");
        assert_eq!(told["edit"], given["edit"], "{told}");
        assert_eq!(told["document"].is_null(), given["document"].is_null(), "{told}");
    }

    // An answer is one value, whatever it holds.
    let context = json!({"name": "a\": {b", "replicas": 3, "more": "  x: 1\n  y: 2"});
    let asked = json!({"id": id, "context": context});
    let preview = w.t.admin.data(PREVIEW, asked.clone()).await["previewPullRequest"].take();
    let files = preview["files"].as_array().unwrap().iter();
    let paths: Vec<&str> = files.map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["Pipfile", "app.json", "made.yaml", "main.tf", "values.yaml"]);
    assert_eq!(w.host.branches(), ["main"], "a preview writes nothing");

    let opened = w.t.admin.data(OPEN, asked).await["createPullRequest"].take();
    assert_eq!(opened["phase"], "OPENED", "{opened}");
    let file = |path: &str| w.host.file(opened["ref"].as_str().unwrap(), path).unwrap_or_default();
    let values = file("values.yaml");
    for line in ["# Ask before you change this.", "replicas: 3 # one is enough", "kind: Service"] {
        assert!(values.lines().any(|found| found == line), "{line}: {values}");
    }
    assert!(values.contains("# by hand") && values.contains("targetPort: 8080"), "{values}");
    let parsed: Value = serde_json::from_str(&file("app.json")).unwrap();
    assert_eq!(parsed, json!({"owner": "a\": {b"}));
    assert_eq!(file("Pipfile"), "# what runs\n[packages]\nweb = \"2\" # soon 2\n");
    let terraform = file("main.tf");
    assert!(terraform.starts_with("# The cluster's buckets.\nresource"), "{terraform}");
    for words in ["name = var.name # short", "module \"a\\\": {b\" {", "source = \"./app\""] {
        assert!(terraform.contains(words), "{words}: {terraform}");
    }
    assert_eq!(file("made.yaml"), "# of a\": {b\nmore:\n  x: 1\n  y: 2\n");
    w.t.stop().await;
}

#[tokio::test]
async fn edits_that_cannot_be_done_are_refused_by_name() {
    let w = World::new().await;
    let edit = |edit: Value| json!({"updates": {"edits": [edit]}});
    for (parts, field, why) in [
        (
            edit(json!({"file": "a.yaml", "edit": {"op": "put", "path": "a"}})),
            "edits.edit",
            "unknown variant",
        ),
        (edit(json!({"file": "a.yaml", "edit": {"op": "set", "path": "a"}})), "edits.edit", "value"),
        (edit(json!({"file": "a.yaml", "edit": {"op": "delete", "path": "a["}})), "edits.edit", "is no path"),
        (edit(json!({"file": "a.yaml", "edit": []})), "edits.edit", "cannot be read"),
        (
            edit(json!({"file": "a.yaml", "format": "xml", "edit": {"op": "delete", "path": "a"}})),
            "edits.format",
            "must be yaml, json, toml or hcl",
        ),
        (
            edit(json!({"file": "Makefile", "edit": {"op": "delete", "path": "a"}})),
            "edits.format",
            "does not say it",
        ),
        (
            edit(json!({"file": "../a.yaml", "edit": {"op": "delete", "path": "a"}})),
            "edits.file",
            "leave the repository",
        ),
        (
            edit(json!({"file": "a.json", "edit": {"op": "block", "block": "a"}})),
            "edits.edit",
            "fits HCL alone",
        ),
        (
            edit(json!({"file": "a.tf", "document": {"index": 0}, "edit": {"op": "delete", "path": "a"}})),
            "edits.document",
            "fits YAML alone",
        ),
        (
            json!({"configuration": [{"name": "team", "type": "FLOW"}]}),
            "attributes.configuration",
            "there are none here",
        ),
    ] {
        let refused = w.make("bad", &parts).await;
        assert_eq!(refused.outcome(), "INVALID", "{parts}: {refused:?}");
        let told = refused.body["errors"][0]["extensions"]["field"].as_str().unwrap_or_default();
        assert!(told.ends_with(field) && refused.message().contains(why), "{parts}: {refused:?}");
    }
    let read = "query { prAutomations(first: 5) { edges { node { id } } } }";
    assert_eq!(w.t.admin.data(read, json!({})).await["prAutomations"]["edges"], json!([]));
    // One that needs no answer is taken.
    let flow = json!({"configuration": [{"name": "team", "type": "FLOW", "optional": true}], "deletes": {"files": ["unread.yaml"]}});
    assert_eq!(w.make("flow", &flow).await.outcome(), "OK");
    // A file that is not there is told when it is run.
    let gone = edit(json!({"file": "gone.yaml", "edit": {"op": "delete", "path": "a"}}));
    let made = w.make("gone", &gone).await;
    let asked =
        json!({"id": made.body["data"]["createPrAutomation"]["id"], "context": {"name": "a", "replicas": 1}});
    let refused = w.t.admin.ask(PREVIEW, asked).await;
    assert!(refused.message().contains("gone.yaml does not exist"), "{refused:?}");
    w.t.stop().await;
}
