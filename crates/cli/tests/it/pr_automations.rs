//! `plural pr automations`: what a file says, and what the console is told.

use serde_json::{Value, json};

use crate::{answers::ID, run::Person, server::Server};

const CONNECTION: &str = "0190b8a2-7c11-7def-8000-000000000031";

fn automation() -> Value {
    json!({
        "id": ID, "name": "add-service", "role": "SERVICE", "title": "Add it", "message": "Adds it", "identifier": "acme/shop",
        "branch": null, "documentation": "Adds a service.", "insertedAt": null, "updatedAt": null, "project": null,
        "configuration": [
            {"name": "name", "type": "STRING", "default": null, "documentation": "What it is called", "optional": false, "values": []},
        ],
    })
}

fn connection() -> Value {
    json!({
        "id": CONNECTION, "name": "github", "type": "GITHUB", "default": true, "owner": "acme", "username": null, "baseUrl": null,
        "apiUrl": null, "repositories": ["acme/*"], "hasToken": true, "hasSigningKey": false, "hasSshKey": false, "knownHosts": null, "hasProxy": false,
        "insertedAt": null, "updatedAt": null, "github": null, "azure": null, "bitbucketDatacenter": null, "project": null,
    })
}

async fn server() -> Server {
    let page =
        json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": [{"node": automation()}]});
    let all = json!({
        "connection": {"name": "github"}, "mayCreate": false, "lua": null, "vendor": {"helm": null},
        "creates": {"templates": [{"source": "templates/a.yaml", "destination": "apps/a.yaml"}]},
        "updates": {"regexReplacements": [], "yamlOverlays": [{"file": "kustomization.yaml"}], "files": [], "edits": [
            {"file": "values.yaml", "edit": {"op": "set", "path": "spec.replicas", "value": 2}},
            {"file": "a.json", "edit": {"op": "delete", "path": "old"}},
            {"file": "main.tf", "edit": {"op": "block", "block": "module", "labels": ["web\n"], "value": {}}},
            {"file": "b.yaml", "edit": {"op": "put"}},
        ]},
        "confirmation": {"text": "It costs money.", "checklist": [{"label": "I asked"}]},
        "deletes": {"files": [], "folders": ["old"]},
        "mergeWindows": [{"kind": "DENY", "schedule": "0 0 24 12 *", "duration": 172_800, "timeZone": "UTC"}],
    });
    Server::start()
        .await
        .data("GetScmConnection", "scmConnection", &connection())
        .data("ListPrAutomations", "prAutomations", &page)
        .data("GetPrAutomation", "prAutomation", &automation())
        .data("ReadPrAutomation", "prAutomation", &all)
        .data("AddPrAutomation", "createPrAutomation", &json!({"id": ID}))
        .data("ChangePrAutomation", "updatePrAutomation", &json!({"id": ID}))
        .data("DeletePrAutomation", "deletePrAutomation", &json!({"id": ID}))
}

#[tokio::test]
async fn a_resource_of_a_public_scaffold_becomes_an_automation() {
    let server = server().await;
    let person = Person::of(&server.url);
    let line = "pr automations create --file tests/it/automation.yaml";
    let made = person.run(&format!("{line} -o name")).await;
    assert_eq!((made.code, made.out), (0, "pr-automation/add-service\n".to_owned()), "{}", made.err);
    assert_eq!(server.asked("GetScmConnection"), [json!({"id": null, "name": "github"})]);
    let attributes = json!({
        "name": "add-service", "role": "SERVICE", "documentation": "Adds a service.", "identifier": "acme/shop",
        "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}", "connectionId": CONNECTION,
        "configuration": [
            {"name": "name", "type": "STRING", "documentation": "What it is called"},
            {"name": "replicas", "type": "INT", "default": "3", "optional": true},
        ],
        "creates": {"templates": [
            {"source": "templates/service.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false},
        ]},
    });
    assert_eq!(server.asked("AddPrAutomation"), [json!({"attributes": attributes})]);

    let planned = person.run(&format!("{line} --name other --dry-run -o json")).await;
    assert_eq!(planned.code, 0, "{}", planned.err);
    let told: Value = serde_json::from_str(&planned.out).unwrap();
    assert_eq!(told["name"], "other");
    assert_eq!(server.asked("AddPrAutomation").len(), 1, "a dry run makes nothing");
}

#[tokio::test]
async fn edits_documents_and_verbatim_answers_are_told_as_the_file_has_them() {
    let server = server().await;
    let text = "\
name: c
title: a
message: b
scmConnectionRef: {name: github}
configuration:
  - {name: kind, type: INT, default: 3}
  - {name: more, type: STRING, condition: {field: kind, operation: EQ, value: 3}}
creates:
  templates:
    - {source: a.yaml, destination: b.yaml, external: false, verbatim: [more]}
updates:
  yamlOverlays:
    - {file: c.yaml, yaml: 'a: 1', document: {kind: Service, name: web}}
  edits:
    - file: values.yaml
      document: {index: 0}
      edit: {op: set, path: 'spec.containers[name=web].args[0]', value: '{{ context.kind }}'}
    - {file: Pipfile, format: toml, edit: {op: delete, path: old}}
";
    let made = Person::of(&server.url).piping(text).run("pr automations create --file - -o name").await;
    assert_eq!(made.code, 0, "{}", made.err);
    let told = &server.asked("AddPrAutomation")[0]["attributes"];
    assert_eq!(told["configuration"][1]["condition"]["value"], "3");
    assert_eq!(told["creates"]["templates"][0]["verbatim"], json!(["more"]));
    assert_eq!(told["updates"]["yamlOverlays"][0]["document"], json!({"kind": "Service", "name": "web"}));
    let edit =
        json!({"op": "set", "path": "spec.containers[name=web].args[0]", "value": "{{ context.kind }}"});
    let edits = json!([
        {"file": "values.yaml", "document": {"index": 0}, "edit": edit},
        {"file": "Pipfile", "format": "toml", "edit": {"op": "delete", "path": "old"}},
    ]);
    assert_eq!(told["updates"]["edits"], edits);
    for (edit, why) in [
        ("{file: a.yaml, edit: {op: put, path: a}}", "unknown variant"),
        ("{file: a.yaml, edit: {op: set, path: 'a[', value: 1}}", "is no path"),
        ("{file: Makefile, edit: {op: delete, path: a}}", "must be yaml, json, toml or hcl"),
        ("{file: a.json, document: {index: 0}, edit: {op: delete, path: a}}", "fits YAML alone"),
        ("{file: a.yaml, edit: {op: block, block: module}}", "fits HCL alone"),
        ("{file: ../a.yaml, edit: {op: delete, path: a}}", "must not leave the repository"),
    ] {
        let text = format!(
            "name: c\ntitle: a\nmessage: b\nscmConnectionRef: {{name: github}}\nupdates: {{edits: [{edit}]}}\n"
        );
        let refused = Person::of(&server.url).piping(&text).run("pr automations create --file -").await;
        assert!(refused.code == 2 && refused.err.contains(why), "{edit}: {} {}", refused.code, refused.err);
    }
    let flow = "name: c\ntitle: a\nmessage: b\nscmConnectionRef: {name: github}\nconfiguration: [{name: team, type: FLOW}]\n";
    let refused = Person::of(&server.url).piping(flow).run("pr automations create --file -").await;
    assert!(refused.code == 2 && refused.err.contains("asks for a FLOW"), "{}", refused.err);
    assert_eq!(server.asked("AddPrAutomation").len(), 1);
}

#[tokio::test]
async fn what_is_no_automation_is_refused_before_it_is_told() {
    let server = server().await;
    for (text, why) in [
        ("kind: Pipeline\nspec: {}\n", "PrAutomation"),
        ("kind: PrAutomation\n", "no spec"),
        ("title: a\nmessage: b\nname: c\n", "--connection"),
        ("title: a\nmessage: b\nscmConnectionRef: {name: github}\n", "--name"),
        (
            "name: c\ntitle: a\nmessage: b\nscmConnectionRef: {name: github}\nai: {prompt: x}\n",
            "ai is not built",
        ),
        ("name: c\ntitle: a\nmessage: b\nscmConnectionRef: {name: github}\ncreate: {}\n", "unknown field"),
        ("name: c\ntitle: a\nmessage: b\nbindings: {read: []}\n", "bindings has an unknown field \"read\""),
        (
            "name: c\ntitle: a\nmessage: b\nbindings: {create: {groupName: all}}\n",
            "bindings.create must be a list",
        ),
        ("name: c\ntitle: a\nmessage: b\nbindings: all\n", "bindings must hold"),
        (
            "name: c\ntitle: a\nmessage: b\nscmConnectionRef: {name: github}\ndeletes: {folders: [../x]}\n",
            "must not leave the repository",
        ),
        (
            "name: c\ntitle: a\nmessage: b\nscmConnectionRef: {name: github}\nrepositoryRef: {name: scaffolds}\n",
            "--repository",
        ),
        (
            "name: c\ntitle: a\nmessage: b\nscmConnectionRef: {name: github}\nmergeWindows: [{schedule: 0 9 * *, duration: 60}]\n",
            "must have five fields",
        ),
        (
            "name: c\ntitle: a\nmessage: b\nscmConnectionRef: {name: github}\nmergeWindows: [{schedule: 0 9 * * *, duration: 0}]\n",
            "from one minute to seven days",
        ),
        (
            "name: c\ntitle: a\nmessage: b\nscmConnectionRef: {name: github}\nmergeWindows: [{schedule: 0 9 * * *, duration: 60, timeZone: Mars}]\n",
            "Europe/Berlin",
        ),
        (
            "name: c\ntitle: a\nmessage: b\nscmConnectionRef: {name: github}\nmergeWindows: []\nmergeCron: 0 9 * * *\n",
            "give one of the two",
        ),
        (
            "name: c\ntitle: a\nmessage: b\nscmConnectionRef: {name: github}\nmergeCron: soon\n",
            "must have five fields",
        ),
    ] {
        let person = Person::of(&server.url).piping(text);
        let refused = person.run("pr automations create --file -").await;
        let told = format!("{} {}", refused.err, refused.out);
        assert!(refused.code == 2 && told.contains(why), "{text}: {} {told}", refused.code);
    }
    let nothing = Person::of(&server.url).run("pr automations update add-service").await;
    assert!(nothing.code == 2 && nothing.err.contains("nothing to change"), "{}", nothing.err);
    assert!(server.asked("AddPrAutomation").is_empty() && server.asked("ChangePrAutomation").is_empty());
}

#[tokio::test]
async fn windows_are_told_as_the_file_has_them() {
    let server = server().await;
    let windows = "- {schedule: 0 22 * * mon-fri, duration: 14400, timeZone: Europe/Berlin}\n- {kind: DENY, schedule: 0 0 24 12 *, duration: 172800}";
    let text = format!(
        "name: c\ntitle: a\nmessage: b\nscmConnectionRef: {{name: github}}\nmergeWindows:\n{windows}\n"
    );
    let made = Person::of(&server.url).piping(&text).run("pr automations create --file - -o name").await;
    assert_eq!(made.code, 0, "{}", made.err);
    let cron = Person::of(&server.url).piping("mergeCron: 0 9 * * 1-5\n");
    let changed = cron.run("pr automations update add-service --file - -o name").await;
    assert_eq!(changed.code, 0, "{}", changed.err);
    assert_eq!(
        server.asked("AddPrAutomation")[0]["attributes"]["mergeWindows"],
        json!([
            {"schedule": "0 22 * * mon-fri", "duration": 14_400, "timeZone": "Europe/Berlin"},
            {"kind": "DENY", "schedule": "0 0 24 12 *", "duration": 172_800},
        ])
    );
    assert_eq!(server.asked("ChangePrAutomation")[0]["attributes"], json!({"mergeCron": "0 9 * * 1-5"}));
}

#[tokio::test]
async fn an_automation_is_listed_described_changed_and_deleted() {
    let server = server().await;
    let person = Person::of(&server.url);
    let listed = person.run("pr automations list --role service --query add").await;
    assert!(listed.out.contains("add-service") && listed.out.contains("acme/shop"), "{}", listed.out);
    let asked = &server.asked("ListPrAutomations")[0];
    assert_eq!((&asked["role"], &asked["q"]), (&json!("SERVICE"), &json!("add")));
    let told = person.run("pr automations describe pr-automation/add-service").await;
    for words in [
        "Connection: github",
        "You may open pull requests: no",
        "name STRING: What it is called",
        "makes apps/a.yaml of templates/a.yaml",
        "changes kustomization.yaml",
        "sets spec.replicas in values.yaml",
        "takes old in a.json away",
        "makes or sets the block module web",
        "changes b.yaml",
        "To confirm: It costs money.",
        "To tick: I asked",
        "takes old away",
        "Merge window: deny 0 0 24 12 * for 48h in UTC",
    ] {
        assert!(told.out.contains(words), "{words}: {}", told.out);
    }
    let changed = person.run("pr automations update add-service --name add-web -o name").await;
    assert_eq!(changed.code, 0, "{}", changed.err);
    let change = json!({"id": ID, "attributes": {"name": "add-web"}});
    assert_eq!(server.asked("ChangePrAutomation"), [change]);
    let gone = person.run("pr automations delete add-service --yes").await;
    assert_eq!(gone.code, 0, "{}", gone.err);
    assert_eq!(server.asked("DeletePrAutomation"), [json!({"id": ID})]);
}

#[tokio::test]
async fn pull_requests_are_listed_by_how_they_stand() {
    let opened = json!({
        "id": ID, "status": "OPEN", "url": "https://github.com/acme/shop/pull/1", "title": "Add web", "creator": "ada@example.com",
        "ref": "plural/web", "repository": "acme/shop", "labels": ["infra"], "insertedAt": null, "updatedAt": null, "project": null,
    });
    let page = json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": [{"node": opened}]});
    let server = Server::start().await.data("ListPullRequests", "pullRequests", &page);
    let person = Person::of(&server.url);
    let listed = person.run("pr list --status open --query web").await;
    assert_eq!(listed.code, 0, "{}", listed.err);
    for words in ["Add web", "OPEN", "acme/shop", "ada@example.com"] {
        assert!(listed.out.contains(words), "{words}: {}", listed.out);
    }
    let asked = &server.asked("ListPullRequests")[0];
    assert_eq!((&asked["status"], &asked["q"]), (&json!("OPEN"), &json!("web")));
    let told = person.run("pr list -o json").await;
    let told: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(told[0]["ref"], "plural/web");
}
