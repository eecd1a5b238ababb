//! `plural pr create` and `plural pr preview`: what the console is asked, and what a person is told.

use std::fs;

use serde_json::{Value, json};

use crate::{answers::ID, run::Person, server::Server};

/// Of a file as an editor on Windows writes it: with a mark of its encoding, and lines that end with two characters.
const PATCH: &str = "--- /dev/null\n+++ b/apps/shop.yaml\n@@ -0,0 +1 @@\n+\u{feff}name: shop\r\n";

fn opened(phase: &str) -> Value {
    let is_open = phase == "OPENED";
    json!({
        "id": ID, "status": is_open.then_some("OPEN"), "phase": phase, "error": (!is_open).then_some("slow\u{1b}[2J down"),
        "commit": null, "url": if is_open { "https://git.example.com/acme/shop/pulls/1" } else { "" }, "title": "Add shop",
        "creator": "ada@example.com", "ref": "add-shop", "repository": "acme/shop", "labels": [], "insertedAt": null,
        "updatedAt": null, "project": null,
    })
}

async fn server(phase: &str) -> Server {
    confirming(phase, &Value::Null).await
}

/// With what has to be confirmed.
async fn confirming(phase: &str, confirmation: &Value) -> Server {
    let automation = json!({
        "id": ID, "name": "add-service", "role": null, "title": "Add it", "message": "Adds it", "identifier": null, "branch": null,
        "documentation": null, "insertedAt": null, "updatedAt": null, "project": null, "configuration": [],
        "confirmation": confirmation,
    });
    let preview = json!({
        "repository": "acme/shop", "base": "main", "commit": "c0ffee", "title": "Add shop", "message": "Adds it.", "patch": PATCH,
        "skipped": ["apps/old.yaml"], "warnings": ["look at it"],
        "files": [{"path": "apps/shop.yaml", "change": "CREATED", "diff": PATCH}],
    });
    Server::start()
        .await
        .data("GetPrAutomation", "prAutomation", &automation)
        .data("CreatePullRequest", "createPullRequest", &opened(phase))
        .data("PreviewPullRequest", "previewPullRequest", &preview)
}

#[tokio::test]
async fn answers_reach_the_console_and_secrets_stay_off_the_command_line() {
    let server = server("OPENED").await;
    let person = Person::of(&server.url);
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token.txt");
    fs::write(&token, "a-token\n").unwrap();
    let line = format!(
        "pr create add-service --set name=shop --set note=a=b --secret-set key=@{} --repository acme/shop --branch add-shop -o json",
        token.display()
    );
    let made = person.run(&line).await;
    assert_eq!(made.code, 0, "{}", made.err);
    let told: Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!((&told["phase"], &told["ref"]), (&json!("OPENED"), &json!("add-shop")), "{told}");
    let asked = server.asked("CreatePullRequest").remove(0);
    let context: Value = serde_json::from_str(asked["context"].as_str().unwrap()).unwrap();
    assert_eq!(context, json!({"name": "shop", "note": "a=b", "key": "a-token"}));
    assert_eq!(
        (&asked["id"], &asked["identifier"], &asked["branch"], &asked["wait"]),
        (&json!(ID), &json!("acme/shop"), &json!("add-shop"), &json!(true))
    );

    let refused = person.run("pr create add-service --secret-set key=a-token").await;
    assert_ne!(refused.code, 0);
    assert!(!format!("{}{}", refused.out, refused.err).contains("a-token"), "{}", refused.err);
    assert_eq!(server.asked("CreatePullRequest").len(), 1);
}

#[tokio::test]
async fn boxes_are_ticked_before_a_pull_request_is_opened() {
    let boxes = json!({"text": "It costs money.", "checklist": [{"label": "I asked finance"}, {"label": "it is tagged"}]});
    let server = confirming("OPENED", &boxes).await;
    let create = ["pr", "create", "add-service", "--set", "name=shop"];
    let with = |more: &[&'static str]| [&create[..], more].concat();

    let refused = Person::of(&server.url).run_words(&create).await;
    assert_eq!(refused.code, 2, "{}", refused.err);
    for words in [
        "It costs money.",
        "not confirmed: \"I asked finance\", \"it is tagged\"",
        "give each of them as --confirm TEXT",
    ] {
        assert!(refused.err.contains(words), "{words}: {}", refused.err);
    }
    let refused = Person::of(&server.url).run_words(&with(&["--confirm", "I asked finance"])).await;
    assert!(refused.code == 2 && refused.err.contains("not confirmed: \"it is tagged\""), "{}", refused.err);
    let refused = Person::of(&server.url).run_words(&with(&["--confirm", "all"])).await;
    assert!(
        refused.code == 2 && refused.err.contains("the automation has no box \"all\""),
        "{}",
        refused.err
    );
    // A person is asked for what is left.
    let refused = Person::of(&server.url).answering("y\nn\n").run_words(&create).await;
    assert!(refused.code == 1 && refused.err.contains("nothing was changed"), "{}", refused.err);
    assert!(server.asked("CreatePullRequest").is_empty());

    let asked =
        Person::of(&server.url).answering("y\n").run_words(&with(&["--confirm", "I asked finance"])).await;
    assert_eq!(asked.code, 0, "{}", asked.err);
    assert!(asked.err.contains("It is tagged? [y/N]") && !asked.err.contains("finance?"), "{}", asked.err);
    let all = with(&["--confirm", "it is tagged", "--confirm", "I asked finance"]);
    let made = Person::of(&server.url).run_words(&all).await;
    assert_eq!(made.code, 0, "{}", made.err);
    assert_eq!(server.asked("CreatePullRequest").len(), 2);
    // Nothing is opened by a preview.
    let preview = Person::of(&server.url).run("pr preview add-service --set name=shop").await;
    assert_eq!(preview.code, 0, "{}", preview.err);
}

#[tokio::test]
async fn what_is_not_open_yet_is_told() {
    let server = server("PENDING").await;
    let person = Person::of(&server.url);
    let made = person.run("pr create add-service --set name=shop").await;
    assert_eq!(made.code, 0, "{}", made.err);
    assert!(made.err.contains("it is not open yet, and will be: slow"), "{}", made.err);
    assert!(made.out.contains("PENDING") && !made.err.contains('\u{1b}'), "{}", made.out);
    let made = person.run("pr create add-service --set name=shop --no-wait").await;
    assert_eq!((made.code, made.err.as_str()), (0, ""));
    assert_eq!(server.asked("CreatePullRequest")[1]["wait"], json!(false));
    // As the original's command line calls it.
    let made = person.run("pr trigger add-service --set name=shop --no-wait").await;
    assert_eq!((made.code, made.err.as_str()), (0, ""));
    let asked = server.asked("CreatePullRequest");
    let [_, named, triggered] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!((&triggered["id"], &triggered["context"]), (&named["id"], &named["context"]));
    let help = person.run("pr --help").await.out;
    assert!(help.contains("trigger"), "{help}");
}

#[tokio::test]
async fn a_preview_is_a_patch() {
    let server = server("OPENED").await;
    let person = Person::of(&server.url);
    let shown = person.run("pr preview add-service --set name=shop").await;
    assert!(shown.out.ends_with("+\\u{feff}name: shop\\u{d}\n"), "a screen: {}", shown.out);
    let person = person.into_a_file();
    let told = person.run("pr preview add-service --set name=shop").await;
    assert_eq!((told.code, told.out.as_str()), (0, PATCH), "{}", told.err);
    for line in ["look at it", "apps/old.yaml is not made", "created apps/shop.yaml"] {
        assert!(told.err.contains(line), "{line}: {}", told.err);
    }
    assert_eq!(person.run("pr preview add-service -o name").await.out, "apps/shop.yaml\n");
    let told = person.run("pr preview add-service -o json").await;
    assert_eq!(serde_json::from_str::<Value>(&told.out).unwrap()["base"], "main", "{}", told.err);
    assert!(server.asked("CreatePullRequest").is_empty());
}

#[tokio::test]
async fn an_answer_that_is_lost_is_asked_for_once_more_with_the_same_key() {
    let automation = json!({
        "id": ID, "name": "add-service", "role": null, "title": "Add it", "message": "Adds it", "identifier": null, "branch": null,
        "documentation": null, "insertedAt": null, "updatedAt": null, "project": null, "configuration": [],
    });
    let server = Server::start()
        .await
        .data("GetPrAutomation", "prAutomation", &automation)
        .error("CreatePullRequest", "UNAVAILABLE", "the console goes")
        .data("CreatePullRequest", "createPullRequest", &opened("OPENED"));
    let person = Person::of(&server.url);
    let made = person.run("pr create add-service --set name=shop").await;
    assert_eq!(made.code, 0, "{}", made.err);
    let keys = || -> Vec<String> {
        let asked = server.asked("CreatePullRequest").into_iter();
        asked.map(|asked| asked["idempotencyKey"].as_str().unwrap().to_owned()).collect()
    };
    let sent = keys();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert_eq!(sent[0], sent[1]);
    // Another run is another request, unless somebody says otherwise.
    person.run("pr create add-service --set name=shop").await;
    person.run("pr create add-service --set name=shop --idempotency-key build-7").await;
    let sent = keys();
    assert_ne!(sent[2], sent[1]);
    assert_eq!(sent[3], "build-7");
}

#[tokio::test]
async fn values_of_a_secret_stay_off_the_command_line() {
    let server = server("OPENED").await;
    let person = Person::of(&server.url);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password.txt");
    fs::write(&file, "a-password\n").unwrap();
    let line = format!("pr create add-service --set name=shop --secret password=@{}", file.display());
    let made = person.run(&line).await;
    assert_eq!(made.code, 0, "{}", made.err);
    let asked = server.asked("CreatePullRequest").remove(0);
    let secrets: Value = serde_json::from_str(asked["secrets"].as_str().unwrap()).unwrap();
    assert_eq!(secrets, json!({"password": "a-password"}));
    assert!(!asked["context"].to_string().contains("a-password"), "it is no answer: {asked}");
    let refused = person.run("pr create add-service --secret password=a-password").await;
    assert_ne!(refused.code, 0);
    assert!(!format!("{}{}", refused.out, refused.err).contains("a-password"), "{}", refused.err);
    assert_eq!(server.asked("CreatePullRequest").len(), 1);
}

/// A plan of a preview in a phase.
pub(crate) fn planned(phase: &str) -> Value {
    let counts = json!({"created": 1, "changed": 2, "deleted": 0, "hooks": 0, "unchanged": 3, "blocked": 1, "omitted": 0});
    let part = json!({
        "id": ID, "name": "web", "handle": "blue", "state": "PLANNED", "error": null, "answeredAt": null, "counts": counts,
    });
    let cluster = |handle: &str, away: u32| {
        let counts = if away == 0 { counts.clone() } else { Value::Null };
        json!({"handle": handle, "services": 1, "waiting": 0, "failed": 0, "away": away, "late": 0, "counts": counts})
    };
    json!({
        "id": ID, "phase": phase, "error": (phase == "FAILED").then_some("the answer to key would be\u{1b}[J written"),
        "ref": "main", "base": "main", "sha": "c0ffee", "message": "Add shop", "untouched": 0, "composed": 0, "omitted": 0,
        "deadlineAt": null, "creator": "ada@example.com", "expiresAt": "2026-01-01T01:00:00Z", "insertedAt": null,
        "updatedAt": null, "stacks": [
            {"stack": {"id": ID, "name": "infra"}, "problem": null, "run": {
                "id": ID, "number": 7, "status": "SUCCESSFUL", "error": null,
                "plan": {"digest": "d", "add": 1, "change": 2, "destroy": 0, "other": false, "at": null},
            }},
            {"stack": {"id": ID, "name": "dns"}, "problem": null, "run": {
                "id": ID, "number": 8, "status": "QUEUED", "error": null, "plan": null,
            }},
            {"stack": {"id": ID, "name": "network"}, "problem": "planning it needs write access to the stack", "run": null},
        ],
        "reach": {"counts": counts, "clusters": [cluster("blue", 0), cluster("green", 1)], "parts": [part]},
    })
}

#[tokio::test]
async fn a_preview_is_planned() {
    let server = server("OPENED")
        .await
        .data("PlanPullRequestPreview", "planPullRequestPreview", &planned("LOOKING"))
        .data("GetFleetPlan", "fleetPlan", &planned("DONE"));
    let person = Person::of(&server.url);
    let line = "pr preview add-service --set name=shop --repository acme/shop --plan";
    let told = person.run(line).await;
    assert_eq!(told.code, 0, "{}", told.err);
    for words in [
        "the preview reaches 1 service on 2 clusters",
        "blue: 1 service, 1 created, 2 changed, 1 blocked",
        "green: 1 service, 1 with its agent away",
        "stack infra: run 7 plans 1 to add, 2 to change, 0 to destroy",
        "stack dns: run 8 plans it, and is QUEUED",
        "stack network: not planned: planning it needs write access to the stack",
    ] {
        assert!(told.err.contains(words), "{words}: {}", told.err);
    }
    assert!(!told.err.contains("c0ffee"), "no repository has it: {}", told.err);
    let web = told.out.lines().find(|line| line.contains("web")).unwrap_or_default();
    assert_eq!(
        web.split_whitespace().take(7).collect::<Vec<_>>(),
        ["blue", "web", "PLANNED", "1", "2", "0", "1"]
    );
    let asked = server.asked("PlanPullRequestPreview").remove(0);
    let context: Value = serde_json::from_str(asked["context"].as_str().unwrap()).unwrap();
    assert_eq!((&asked["identifier"], context), (&json!("acme/shop"), json!({"name": "shop"})));
    assert!(server.asked("PreviewPullRequest").is_empty() && server.asked("CreatePullRequest").is_empty());

    let told = person.run(&format!("{line} -o json")).await;
    let plan: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(plan["reach"]["clusters"][0]["counts"]["changed"], 2, "{}", told.err);
}

#[tokio::test]
async fn a_preview_that_cannot_be_planned_is_an_error() {
    let server = server("OPENED")
        .await
        .data("PlanPullRequestPreview", "planPullRequestPreview", &planned("LOOKING"))
        .data("GetFleetPlan", "fleetPlan", &planned("FAILED"));
    let told = Person::of(&server.url).run("pr preview add-service --set name=shop --plan").await;
    assert!(
        told.code != 0 && told.err.contains("the preview cannot be planned: the answer to key"),
        "{}",
        told.err
    );
    assert!(!told.err.contains('\u{1b}'), "{}", told.err);
}
