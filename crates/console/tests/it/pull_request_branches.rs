//! Branches whose pull request a git host refuses: they go again, as long as nobody else has to do with them.
//!
//! SQLite alone: what is recorded is the same on both databases, and at every host.

use std::time::Duration;

use plural_testkit::{ScmDialect, ScmServer, eventually};
use serde_json::{Value, json};

use crate::api_server::{Answer, Person, TestServer, begun_again};

/// One attempt that failed, and the next one.
const RETRIED: Duration = Duration::from_mins(2);
const CREATE: &str = "mutation ($id: ID!, $branch: String, $context: Json, $wait: Boolean) {
  createPullRequest(id: $id, branch: $branch, context: $context, wait: $wait) { id phase error ref }
}";

/// An automation at a host, as its dialect wants its connection.
async fn automation(t: &TestServer, host: &ScmServer) -> Value {
    let kind = match host.dialect() {
        ScmDialect::GitHub => "GITHUB",
        ScmDialect::Gitea => "GITEA",
        ScmDialect::GitLab => "GITLAB",
        ScmDialect::BitbucketCloud => "BITBUCKET",
        ScmDialect::BitbucketDataCenter => "BITBUCKET_DATACENTER",
        ScmDialect::AzureDevOps => "AZURE_DEVOPS",
    };
    let name = kind.to_lowercase().replace('_', "-");
    let mut connection = json!({
        "name": name, "type": kind, "projectId": t.project, "apiUrl": host.api_url(), "token": host.token(),
        "repositories": ["plural/**"],
    });
    if host.dialect() == ScmDialect::AzureDevOps {
        connection["azure"] = json!({"username": "bot", "organization": "acme", "project": "plural"});
    }
    let connection = t.admin.scm_connection(&connection).await;
    host.push("main", "templates/app.yaml", "name: {{ context.name }}\n");
    let automation = json!({
        "name": name, "projectId": t.project, "connectionId": connection, "identifier": host.repository(),
        "title": "Add {{ context.name }}", "message": "Adds it.",
        "configuration": [{"name": "name", "type": "STRING"}],
        "creates": {"templates": [
            {"source": "templates/app.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false},
        ]},
    });
    t.admin.pr_automation(&automation).await
}

async fn ask(by: &Person, automation: &Value, branch: &str) -> Answer {
    let variables = json!({"id": automation, "branch": branch, "context": {"name": "shop"}, "wait": true});
    by.ask(CREATE, variables).await
}

#[tokio::test]
async fn a_branch_goes_again_when_its_pull_request_is_refused() {
    let t = TestServer::start().await;
    for dialect in [
        ScmDialect::GitHub,
        ScmDialect::Gitea,
        ScmDialect::GitLab,
        ScmDialect::BitbucketCloud,
        ScmDialect::BitbucketDataCenter,
        ScmDialect::AzureDevOps,
    ] {
        let host = ScmServer::start(dialect).unwrap();
        let automation = automation(&t, &host).await;
        host.refuse_opening(true);
        let refused = ask(&t.admin, &automation, "add-shop").await;
        assert_eq!(refused.outcome(), "CONFLICT", "{dialect:?}: {refused:?}");
        let why = refused.message();
        assert!(why.contains("Pull requests are disabled here"), "{dialect:?}: {why}");
        assert!(why.contains("its branch add-shop is removed again"), "{dialect:?}: {why}");
        assert_eq!((host.branches(), host.pull_requests()), (vec!["main".to_owned()], 0), "{dialect:?}");
        // Its name is free.
        host.refuse_opening(false);
        let made = ask(&t.admin, &automation, "add-shop").await;
        assert_eq!(made.outcome(), "OK", "{dialect:?}: {made:?}");
        assert_eq!((host.branches().len(), host.pull_requests()), (2, 1), "{dialect:?}");
    }
    t.stop().await;
}

#[tokio::test]
async fn a_branch_that_somebody_else_needs_is_left_and_named() {
    let (t, host) = (TestServer::start().await, ScmServer::start(ScmDialect::Gitea).unwrap());
    let automation = automation(&t, &host).await;
    // Somebody goes on with it.
    host.refuse_opening(true);
    host.race_refusal("add-shop");
    let refused = ask(&t.admin, &automation, "add-shop").await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    let why = refused.message();
    assert!(why.contains("its branch add-shop is left in plural/fleet: branch add-shop"), "{why}");
    assert!(host.file("add-shop", "raced.txt").is_some(), "nobody's work is lost");
    // Somebody opens another pull request of it.
    host.refuse_opening(false);
    let theirs = host.open_by_another("Theirs", "", "add-web");
    let refused = ask(&t.admin, &automation, "add-web").await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    let why = refused.message();
    assert!(why.contains("its branch add-web is left in plural/fleet: it has an open pull request"), "{why}");
    assert!(why.contains(&format!("/pulls/{theirs}")), "{why}");
    assert!(host.branches().contains(&"add-web".to_owned()), "{:?}", host.branches());
    let read = "{ pullRequests { edges { node { phase error } } } }";
    let listed = t.admin.data(read, json!({})).await.to_string();
    assert!(listed.contains("its branch add-shop is left") && listed.contains("its branch add-web is left"));
    t.stop().await;
}

/// A console that ends after each thing that it asked the host, which did it and was not heard.
#[tokio::test]
async fn a_console_that_is_killed_after_any_step_leaves_no_branch() {
    let (t, host) = (TestServer::start().await, ScmServer::start(ScmDialect::Gitea).unwrap());
    let automation = automation(&t, &host).await;
    host.refuse_opening(true);
    let TestServer { mut console, folder, admin, .. } = t;
    let data = folder.path().join("data");
    let mut person = admin;
    let mut step = 0;
    let read = async |person: &Person, id: &Value| {
        let read = "query ($id: ID!) { pullRequest(id: $id) { phase error } }";
        person.data(read, json!({"id": id})).await["pullRequest"].clone()
    };
    loop {
        host.hold_after(Some(step));
        let variables = json!({
            "id": automation, "branch": format!("step-{step}"), "context": {"name": "shop"}, "wait": false,
        });
        let begun = person.data(CREATE, variables).await["createPullRequest"]["id"].clone();
        let is_held = eventually(RETRIED, async || {
            let now = read(&person, &begun).await;
            match (host.is_held(), now["phase"] == "FAILED") {
                (true, _) => Ok(true),
                (false, true) => Ok(false),
                (false, false) => Err(now.to_string()),
            }
        })
        .await;
        if is_held {
            console.kill().await;
            host.hold_after(None);
            (console, person) = begun_again(&data, &person).await;
        }
        let failed = eventually(RETRIED, async || {
            let now = read(&person, &begun).await;
            if now["phase"] == "FAILED" { Ok(now) } else { Err(now.to_string()) }
        })
        .await;
        let why = failed["error"].as_str().unwrap();
        assert!(why.contains("Pull requests are disabled here"), "step {step}: {why}");
        assert!(why.contains("is removed again"), "step {step}: {why}");
        assert_eq!(host.branches(), ["main"], "step {step}");
        if !is_held {
            break;
        }
        step += 1;
    }
    assert!(step >= 6, "head, tree, commit, opening, a list and the removal are steps: {step}");
    console.stop().await.unwrap();
}

/// A console that ends before it hears that its branch is made, and somebody pushes to that meanwhile.
#[tokio::test]
async fn a_branch_that_somebody_pushed_to_before_it_was_known_is_left() {
    let (t, host) = (TestServer::start().await, ScmServer::start(ScmDialect::Gitea).unwrap());
    let automation = automation(&t, &host).await;
    host.refuse_opening(true);
    let TestServer { mut console, folder, admin, .. } = t;
    let data = folder.path().join("data");
    let mut person = admin;
    let mut step = 0;
    loop {
        host.hold_after(Some(step));
        let branch = format!("step-{step}");
        let variables =
            json!({"id": automation, "branch": branch, "context": {"name": "shop"}, "wait": false});
        let begun = person.data(CREATE, variables).await["createPullRequest"]["id"].clone();
        eventually(RETRIED, async || if host.is_held() { Ok(()) } else { Err("nothing is held".to_owned()) })
            .await;
        console.kill().await;
        let is_made = host.branches().contains(&branch);
        if is_made {
            host.push(&branch, "more.txt", "somebody went on with it\n");
        }
        host.hold_after(None);
        (console, person) = begun_again(&data, &person).await;
        let failed = eventually(RETRIED, async || {
            let read = "query ($id: ID!) { pullRequest(id: $id) { phase error } }";
            let now = person.data(read, json!({"id": begun})).await["pullRequest"].clone();
            if now["phase"] == "FAILED" { Ok(now) } else { Err(now.to_string()) }
        })
        .await;
        if is_made {
            let why = failed["error"].as_str().unwrap();
            assert!(why.contains(&format!("its branch {branch} is left in plural/fleet")), "{why}");
            assert!(host.file(&branch, "more.txt").is_some(), "nobody's work is lost");
            break;
        }
        step += 1;
    }
    console.stop().await.unwrap();
}

#[tokio::test]
async fn a_branch_is_left_when_the_host_lists_not_all_pull_requests() {
    let (t, host) = (TestServer::start().await, ScmServer::start(ScmDialect::Gitea).unwrap());
    let automation = automation(&t, &host).await;
    // One more than is listed: 30 pages.
    host.set_page(1);
    for other in 0..31 {
        host.open_by_another("Other", "", &format!("other-{other}"));
    }
    host.refuse_opening(true);
    let refused = ask(&t.admin, &automation, "add-shop").await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    let why = refused.message();
    assert!(why.contains("its branch add-shop is left in plural/fleet: it may have an open"), "{why}");
    assert!(host.branches().contains(&"add-shop".to_owned()), "{:?}", host.branches());
    t.stop().await;
}
