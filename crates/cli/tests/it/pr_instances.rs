//! `plural pr instances`, `outdated`, `upgrade` and `uninstall`: what the console is asked, and what a person is told.

use serde_json::{Value, json};

use crate::{answers::ID, pr_open::planned, run::Person, server::Server};

const PATCH: &str = "--- a/apps/shop.yaml\n+++ b/apps/shop.yaml\n@@ -1 +1 @@\n-port: 80\n+port: 8080\n";

fn instance() -> Value {
    json!({
        "id": ID, "state": "ACTIVE", "repository": "acme/shop", "base": "main", "path": "apps/shop", "revision": 1,
        "digest": "d1", "outdated": true, "answers": {"name": "shop", "replicas": 2}, "secretAnswers": ["key"],
        "commit": "c0ffee", "baseCommit": "cafe", "insertedAt": null, "updatedAt": null,
        "automation": {"id": ID, "name": "add-\u{1b}[2Jservice"}, "project": {"id": ID, "name": "team"},
        "pullRequest": {"id": ID, "url": "https://git.example.com/1", "status": "MERGED", "phase": "OPENED", "error": null},
        "change": {"id": ID, "url": "", "status": null, "phase": "FAILED", "error": "both changed the same lines"},
        "files": [
            {"path": "apps/shop/a.yaml", "digest": "d2", "created": true}, {"path": "index.yaml", "digest": "d3", "created": false},
            {"path": "OLD.md", "digest": null, "created": false},
        ],
    })
}

fn opened() -> Value {
    json!({
        "id": ID, "status": "OPEN", "phase": "OPENED", "error": null, "commit": null, "url": "https://git.example.com/2",
        "title": "Upgrade: Add shop", "creator": "ada@example.com", "ref": "plural-1", "repository": "acme/shop", "labels": [],
        "insertedAt": null, "updatedAt": null, "project": null,
    })
}

async fn server() -> Server {
    let automation = json!({
        "id": ID, "name": "add-service", "role": null, "title": "Add it", "message": "Adds it", "identifier": null, "branch": null,
        "documentation": null, "insertedAt": null, "updatedAt": null, "project": null, "configuration": [],
    });
    let page =
        json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": [{"node": instance()}]});
    let preview = json!({
        "repository": "acme/shop", "base": "main", "commit": "c0ffee", "title": "Upgrade: Add shop", "message": "Adds it.",
        "patch": PATCH, "skipped": [], "warnings": ["index.yaml: both changed the same lines"],
        "files": [{"path": "apps/shop.yaml", "change": "CHANGED", "diff": PATCH}],
    });
    let upgraded = json!([
        {"error": null, "instance": instance(), "pullRequest": opened()},
        {"error": "region needs an answer", "instance": instance(), "pullRequest": null},
    ]);
    let drift = json!([
        {"path": "apps/shop.yaml", "drift": "CHANGED", "diff": PATCH}, {"path": "index.yaml", "drift": "SAME", "diff": ""},
    ]);
    Server::start()
        .await
        .data("GetPrAutomation", "prAutomation", &automation)
        .data("ListPrInstances", "prInstances", &page)
        .data("GetPrInstance", "prInstance", &instance())
        .data("UpgradePrInstance", "upgradePrInstance", &opened())
        .data("UpgradePrInstances", "upgradePrInstances", &upgraded)
        .data("UninstallPrInstance", "uninstallPrInstance", &opened())
        .data("PreviewPrInstanceUpgrade", "previewPrInstanceUpgrade", &preview)
        .data("PreviewPrInstanceUninstall", "previewPrInstanceUninstall", &preview)
        .data("DiffPrInstance", "diffPrInstance", &drift)
}

#[tokio::test]
async fn instances_are_listed_and_described() {
    let server = server().await;
    let person = Person::of(&server.url);
    let told = person.run("pr instances list --automation add-service --state active").await;
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(told.out.contains("acme/shop") && told.out.contains("apps/shop"), "{}", told.out);
    assert!(!told.out.contains('\u{1b}'), "{}", told.out);
    let asked = server.asked("ListPrInstances").remove(0);
    assert_eq!(
        (&asked["automationId"], &asked["state"], &asked["outdated"]),
        (&json!(ID), &json!("ACTIVE"), &Value::Null)
    );
    let told = person.run("pr outdated -o json").await;
    let listed: Value = serde_json::from_str(&told.out).unwrap();
    assert!(told.out.contains("secretAnswers"), "{listed}");
    assert_eq!(server.asked("ListPrInstances")[1]["outdated"], json!(true));

    let told = person.run(&format!("pr instances describe pr-instance/{ID}")).await;
    for line in [
        "State: ACTIVE",
        "Version: 1",
        "Outdated: yes",
        "Answer name: shop",
        "Answer replicas: 2",
        "Answer key: (secret: not kept)",
        "Created: apps/shop/a.yaml",
        "Changed: index.yaml",
        "Deleted: OLD.md",
        "Changed by: not opened: both changed the same lines",
    ] {
        assert!(told.out.lines().any(|found| found == line), "{line}: {}", told.out);
    }
    assert_eq!(server.asked("GetPrInstance")[0]["id"], json!(ID));
}

#[tokio::test]
async fn an_upgrade_is_asked_with_answers_and_a_dry_run_writes_nothing() {
    let server = server().await;
    let person = Person::of(&server.url);
    let told = person.run(&format!("pr upgrade {ID} --set region=eu --dry-run")).await;
    assert_eq!((told.code, told.out.as_str()), (0, PATCH), "{}", told.err);
    assert!(told.err.contains("index.yaml: both changed the same lines"), "{}", told.err);
    assert!(server.asked("UpgradePrInstance").is_empty());

    let told = person.run(&format!("pr upgrade {ID} --set region=eu --allow-conflicts -o json")).await;
    assert_eq!(told.code, 0, "{}", told.err);
    let asked = server.asked("UpgradePrInstance").remove(0);
    let context: Value = serde_json::from_str(asked["context"].as_str().unwrap()).unwrap();
    assert_eq!(context, json!({"region": "eu"}));
    assert_eq!(
        (&asked["id"], &asked["allowConflicts"], &asked["wait"]),
        (&json!(ID), &json!(true), &json!(true))
    );

    assert_eq!((&asked["overwrite"], &asked["secrets"]), (&json!(false), &Value::Null));

    let told = person.run(&format!("pr upgrade {ID} --overwrite --dry-run")).await;
    assert_eq!((told.code, told.out.as_str()), (0, PATCH), "{}", told.err);
    let previewed = server.asked("PreviewPrInstanceUpgrade");
    assert_eq!((&previewed[0]["overwrite"], &previewed[1]["overwrite"]), (&json!(false), &json!(true)));
    assert_eq!(person.run(&format!("pr upgrade {ID} --overwrite")).await.code, 0);
    assert_eq!(server.asked("UpgradePrInstance")[1]["overwrite"], json!(true));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "hunter2\n").unwrap();
    let given = format!("--secret password=@{}", file.display());
    let told = person.run(&format!("pr upgrade {ID} {given}")).await;
    assert!(told.code == 0 && !told.err.contains("hunter2") && !told.out.contains("hunter2"), "{}", told.err);
    let secrets = server.asked("UpgradePrInstance")[2]["secrets"].clone();
    assert_eq!(secrets, json!(json!({"password": "hunter2"}).to_string()));
    let all = person.run(&format!("pr upgrade --automation add-service {given}")).await;
    assert_eq!(all.code, 2, "one value is not for many: {}", all.err);
    let all = person.run("pr upgrade --automation add-service --overwrite").await;
    assert_eq!(all.code, 2, "what is overwritten is looked at one by one: {}", all.err);

    let told = person.run("pr upgrade --automation add-service --dry-run").await;
    assert!(told.code == 0 && told.err.contains("1 would be upgraded"), "{}", told.err);
    assert!(server.asked("UpgradePrInstances").is_empty());
    let unasked = person.run("pr upgrade --automation add-service").await;
    assert_eq!(unasked.code, 2, "{}", unasked.err);
    let asks = "open up to 1 pull request to upgrade what";
    assert!(unasked.err.contains(asks) && unasked.err.contains("--yes"), "{}", unasked.err);
    let declined = Person::of(&server.url).answering("n\n").run("pr upgrade --automation add-service").await;
    assert!(declined.code == 1 && declined.err.contains("nothing was changed"), "{}", declined.err);
    assert!(server.asked("UpgradePrInstances").is_empty());
    let told = person.run("pr upgrade --automation add-service --yes").await;
    assert_eq!(told.code, 1, "{}", told.err);
    assert!(told.out.contains("region needs an answer"), "{}", told.out);
    assert!(told.err.contains("1 of 2 were not upgraded"), "{}", told.err);
    assert_eq!(server.asked("UpgradePrInstances")[0]["automationId"], json!(ID));

    let all = person.run("pr upgrade --automation add-service --dry-run --plan").await;
    assert_eq!(all.code, 2, "a plan is of one: {}", all.err);

    assert_eq!(person.run("pr upgrade").await.code, 2, "one or all of an automation");
    assert_eq!(person.run(&format!("pr upgrade {ID} --automation add-service")).await.code, 2);
}

#[tokio::test]
async fn nobody_is_asked_about_an_upgrade_of_nothing() {
    let automation = json!({
        "id": ID, "name": "add-service", "role": null, "title": "Add it", "message": "Adds it", "identifier": null, "branch": null,
        "documentation": null, "insertedAt": null, "updatedAt": null, "project": null, "configuration": [],
    });
    let none = json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": []});
    let server = Server::start().await.data("GetPrAutomation", "prAutomation", &automation).data(
        "ListPrInstances",
        "prInstances",
        &none,
    );
    let told = Person::of(&server.url).run("pr upgrade --automation add-service").await;
    assert!(told.code == 0 && told.err.contains("of the newest version"), "{told:?}");
    assert!(server.asked("UpgradePrInstances").is_empty());
}

#[tokio::test]
async fn it_is_taken_away_and_its_drift_is_a_patch() {
    let server = server().await;
    let person = Person::of(&server.url);
    let told = person.run(&format!("pr uninstall {ID} --dry-run -o name")).await;
    assert_eq!((told.code, told.out.as_str()), (0, "apps/shop.yaml\n"), "{}", told.err);
    assert!(server.asked("UninstallPrInstance").is_empty());
    let told = person.run(&format!("pr uninstall {ID} --no-wait")).await;
    assert_eq!(told.code, 0, "{}", told.err);
    assert_eq!(server.asked("UninstallPrInstance")[0]["wait"], json!(false));

    let told = person.run(&format!("pr instances diff {ID}")).await;
    assert_eq!((told.code, told.out.as_str()), (0, PATCH), "{}", told.err);
    assert!(
        told.err.contains("changed apps/shop.yaml") && told.err.contains("same index.yaml"),
        "{}",
        told.err
    );
    let told = person.run(&format!("pr instances diff {ID} -o name")).await;
    assert_eq!(told.out, "apps/shop.yaml\n");
}

#[tokio::test]
async fn what_an_upgrade_or_an_uninstall_would_do_is_planned() {
    let server = server()
        .await
        .data("PlanPrInstanceUpgrade", "planPrInstanceUpgrade", &planned("LOOKING"))
        .data("PlanPrInstanceUninstall", "planPrInstanceUninstall", &planned("LOOKING"))
        .data("GetFleetPlan", "fleetPlan", &planned("DONE"));
    let person = Person::of(&server.url);
    for line in ["pr upgrade", "pr uninstall"] {
        let told = person.run(&format!("{line} {ID} --set region=eu --dry-run --plan")).await;
        assert_eq!(told.code, 0, "{line}: {}", told.err);
        assert!(told.err.contains("the preview reaches 1 service on 2 clusters"), "{line}: {}", told.err);
        assert!(told.out.contains("PLANNED") && !told.out.contains("+port"), "{line}: {}", told.out);
        // What is looked at is not done.
        assert_eq!(person.run(&format!("{line} {ID} --plan")).await.code, 2, "{line}");
    }
    for (asked, has) in [("PlanPrInstanceUpgrade", true), ("PlanPrInstanceUninstall", false)] {
        let asked = server.asked(asked).remove(0);
        let context: Value = serde_json::from_str(asked["context"].as_str().unwrap()).unwrap();
        assert_eq!((&asked["id"], context), (&json!(ID), json!({"region": "eu"})));
        assert_eq!(asked["overwrite"] == json!(false), has, "{asked}");
    }
    for never in
        ["UpgradePrInstance", "UninstallPrInstance", "PreviewPrInstanceUpgrade", "PreviewPrInstanceUninstall"]
    {
        assert!(server.asked(never).is_empty(), "{never}");
    }
}
