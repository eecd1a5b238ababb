//! `plural pr plan`: what the console is asked, and what a person is told.

use serde_json::{Value, json};

use crate::{answers::ID, pr_life::known, run::Person, server::Server};

const REPOSITORY: &str = "https://git.example.com/acme/apps.git";

fn counts(created: u32, blocked: u32) -> Value {
    json!({"created": created, "changed": 0, "deleted": 0, "hooks": 0, "unchanged": 3, "blocked": blocked, "omitted": 0})
}

fn plan(phase: &str) -> Value {
    let part = |name: &str, state: &str, error: Option<&str>| json!({"id": ID, "name": name, "handle": "blue", "state": state, "error": error, "answeredAt": null, "counts": counts(2, 1)});
    let parts = [part("web", "PLANNED", None), part("db", "FAILED", Some("render: it is\u{1b}[J broken"))];
    let cluster = json!({"handle": "blue", "services": 2, "waiting": 0, "failed": 1, "away": 0, "late": 0, "counts": counts(2, 1)});
    json!({
        "id": ID, "phase": phase, "error": (phase == "FAILED").then_some("cannot find gone"), "ref": "feature", "base": "main",
        "sha": "4f2c1e9a7b", "baseSha": "ab12cd34ef", "merged": true, "message": "Change it", "untouched": 7, "composed": 1, "omitted": 0, "deadlineAt": null,
        "creator": "ada@example.com", "insertedAt": null, "updatedAt": null,
        "reach": {"counts": counts(2, 1), "clusters": [cluster], "parts": parts},
    })
}

async fn server(phase: &str) -> Server {
    let repository = json!({
        "id": ID, "url": REPOSITORY, "authMethod": null, "signedCommits": false, "health": null, "error": null, "pulledAt": null,
    });
    Server::start()
        .await
        .data("GetGitRepository", "gitRepository", &repository)
        .data("CreateFleetPlan", "createFleetPlan", &plan("LOOKING"))
        .data("GetFleetPlan", "fleetPlan", &plan(phase))
}

#[tokio::test]
async fn a_plan_is_told_by_service() {
    let server = server("DONE").await;
    let person = Person::of(&server.url);
    let line = format!("pr plan {REPOSITORY} --commit feature --base main --watch");
    let told = person.run(&line).await;
    assert_eq!(told.code, 0, "{}", told.err);
    for words in [
        "commit 4f2c1e9a7b reaches 2 services on 1 cluster",
        "planned as merged into main at ab12cd34ef",
        "2 created",
        "1 blocked",
        "several sources",
    ] {
        assert!(told.err.contains(words), "{words}: {}", told.err);
    }
    let web = told.out.lines().find(|line| line.contains("web")).unwrap_or_default();
    assert_eq!(
        web.split_whitespace().take(7).collect::<Vec<_>>(),
        ["blue", "web", "PLANNED", "2", "0", "0", "1"]
    );
    // Of what was not planned, no number is told.
    let failed = told.out.lines().find(|line| line.contains("FAILED")).unwrap_or_default();
    assert!(
        failed.contains("broken") && !failed.contains('2') && !told.out.contains('\u{1b}'),
        "{}",
        told.out
    );
    let asked = server.asked("CreateFleetPlan").remove(0);
    assert_eq!(
        (&asked["ref"], &asked["base"], &asked["repositoryId"]),
        (&json!("feature"), &json!("main"), &json!(ID))
    );

    let told = person.run(&format!("{line} -o json")).await;
    assert_eq!(serde_json::from_str::<Value>(&told.out).unwrap()["untouched"], 7, "{}", told.err);
}

#[tokio::test]
async fn what_cannot_be_planned_is_an_error() {
    let server = server("FAILED").await;
    let told = Person::of(&server.url).run(&format!("pr plan {REPOSITORY} --commit gone --watch")).await;
    assert!(told.code != 0 && told.err.contains("cannot find gone"), "{}", told.err);
    // Without --watch nobody waits.
    let told = Person::of(&server.url).run(&format!("pr plan {REPOSITORY} --commit gone -o name")).await;
    assert_eq!((told.code, told.out.as_str()), (0, format!("fleet-plan/{ID}\n").as_str()), "{}", told.err);
    assert_eq!(server.asked("GetFleetPlan").len(), 1);
}

#[tokio::test]
async fn only_the_commit_that_somebody_read_is_released() {
    let page =
        json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": [{"node": plan("HELD")}]});
    let server = server("HELD").await.data("ListFleetPlans", "fleetPlans", &page).data(
        "ReleaseFleetPlan",
        "releaseFleetPlan",
        &plan("LOOKING"),
    );
    let person = Person::of(&server.url);
    let refused = person.run(&format!("pr release {ID} --commit other")).await;
    assert!(
        refused.code != 0 && refused.err.contains("another commit waits for a release: feature"),
        "{}",
        refused.err
    );
    assert!(server.asked("ReleaseFleetPlan").is_empty());
    let released = person.run(&format!("pr release pull-request/{ID} --commit feature --yes -o name")).await;
    assert_eq!(
        (released.code, released.out.as_str()),
        (0, format!("fleet-plan/{ID}\n").as_str()),
        "{}",
        released.err
    );
    let asked = server.asked("ReleaseFleetPlan").remove(0);
    assert_eq!((&asked["id"], &asked["sha"]), (&json!(ID), &json!("feature")));
    assert!(server.asked("ListFleetPlans").iter().all(|asked| asked["pullRequestId"] == ID));
}

#[tokio::test]
async fn a_pull_request_is_planned_again() {
    let mut moved = plan("DONE");
    moved["movedSha"] = json!("cd34ef56ab12cd34");
    let server = server("DONE").await.data("GetPullRequest", "pullRequest", &known()).data(
        "ReplanPullRequest",
        "replanPullRequest",
        &json!([moved]),
    );
    let person = Person::of(&server.url);
    let told = person.run(&format!("pr replan {ID}")).await;
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(told.err.contains("main has moved on to cd34ef56ab12 since"), "{}", told.err);
    assert_eq!(server.asked("ReplanPullRequest").remove(0)["id"], json!(ID));
    // With --watch, the plan is told as it is once agents have answered.
    let told = person.run(&format!("pr replan {ID} --watch -o json")).await;
    let plans: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&plans[0]["phase"], told.code), (&json!("DONE"), 0), "{}", told.err);
    assert_eq!(server.asked("GetFleetPlan").len(), 1);
}
