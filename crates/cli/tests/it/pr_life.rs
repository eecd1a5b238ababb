//! `plural pr describe`, `merge`, `windows`, `close` and `refresh`: what the console is asked, and what a person is told.

use serde_json::{Value, json};

use crate::{answers::ID, run::Person, server::Server};

const URL: &str = "https://git.example.com/acme/shop/pulls/1";
const HEAD: &str = "0123456789abcdef0123456789abcdef01234567";

/// A pull request as it was read back.
pub(crate) fn known() -> Value {
    json!({
        "id": ID, "number": 1, "status": "OPEN", "phase": "OPENED", "error": null, "url": URL, "title": "Add\u{1b}[2J shop",
        "creator": "ada@example.com", "author": "plural-bot", "ref": "add-shop", "base": "main", "repository": "acme/shop",
        "labels": ["infra"], "head": HEAD, "draft": false, "fork": true, "mergeCommit": null, "readAt": "2026-01-01T00:00:00Z",
        "readError": null, "insertedAt": null, "updatedAt": null,
        "checks": {"state": "FAILED", "passed": 2, "failed": 1, "pending": 0, "incomplete": true},
        "reviews": {"approved": 1, "changesRequested": 0}, "project": null, "stack": null, "cluster": null,
        "service": {"id": ID, "name": "shop", "cluster": null},
        "secret": {
            "namespace": "apps", "name": "db", "state": "DUE", "message": "namespace apps is not there\u{1b}[2J yet", "updatedAt": null,
            "cluster": {"id": ID, "name": "Blue", "handle": "blue"}, "entries": [{"name": "password", "generated": true}],
        },
        "merging": {
            "open": false, "opensAt": "2026-11-23T21:00:00Z", "wish": null,
            "windows": [{"kind": "ALLOW", "schedule": "0 22 * * mon-fri", "duration": 16_200, "timeZone": "Europe/Berlin"}],
        },
        "governance": {
            "phase": "CONFIRM", "head": HEAD, "confirmed": null, "refused": true, "message": "not on a\u{1b}[2J Friday",
            "governance": {"id": ID, "name": "board"},
        },
    })
}

/// One that somebody has merged in its window.
fn waiting() -> Value {
    let mut waiting = known();
    waiting["merging"]["wish"] = json!({
        "by": "ada@example.com", "head": HEAD, "method": "SQUASH", "askedAt": "2026-11-23T12:00:00Z",
        "dueAt": "2026-11-23T21:00:00Z", "error": null, "dropped": null,
    });
    waiting
}

async fn server() -> Server {
    let mut merged = known();
    merged["status"] = json!("MERGED");
    let mut unread = known();
    unread["readError"] = json!("the host says no");
    let listed = json!({
        "id": ID, "status": "OPEN", "phase": "OPENED", "error": null, "commit": null, "url": URL, "title": "Add shop", "creator": null,
        "ref": "add-shop", "repository": "acme/shop", "labels": [], "insertedAt": null, "updatedAt": null, "project": null,
    });
    let page = json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": [{"node": listed}]});
    Server::start()
        .await
        .data("ListPullRequests", "pullRequests", &page)
        .data("GetPullRequest", "pullRequest", &known())
        .data("MergePullRequest", "mergePullRequest", &merged)
        .data("ClosePullRequest", "closePullRequest", &merged)
        .data("RefreshPullRequest", "refreshPullRequest", &unread)
}

#[tokio::test]
async fn one_is_described_by_id_or_address() {
    let server = server().await;
    let person = Person::of(&server.url);
    for name in [ID, &format!("pull-request/{ID}"), URL] {
        let told = person.run(&format!("pr describe {name}")).await;
        assert_eq!(told.code, 0, "{name}: {}", told.err);
        for line in [
            "Status: OPEN",
            "Checks: 1 of 3 failed, and more that are not read",
            "Reviews: 1 approved",
            "Service: shop",
            "From a fork: yes",
            "Secret: apps/db on blue (password)",
            "Secret is: DUE",
        ] {
            assert!(told.out.lines().any(|found| found == line), "{name}: {line}: {}", told.out);
        }
        let governed = told.out.lines().find(|line| line.starts_with("Governance: "));
        assert!(
            governed.is_some_and(|line| line.starts_with("Governance: board says no: not on a")),
            "{}",
            told.out
        );
        assert!(!told.out.contains('\u{1b}'), "{}", told.out);
    }
    assert_eq!(server.asked("ListPullRequests")[0]["q"], URL);
    let told = person.run(&format!("pr describe {ID} -o json")).await;
    let told: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&told["head"], &told["checks"]["state"]), (&json!(HEAD), &json!("FAILED")));
    let odd = person.run("pr describe add-shop").await;
    assert_eq!(odd.code, 2, "{}", odd.err);
    let none = person.run("pr describe https://git.example.com/acme/shop/pulls/11").await;
    assert_ne!(none.code, 0, "{}", none.out);
    assert!(none.err.contains("plural pr list"), "{}", none.err);
}

#[tokio::test]
async fn a_merge_is_bound_to_the_head_that_is_shown() {
    let server = server().await;
    let person = Person::of(&server.url);
    let asked = person.run(&format!("pr merge {ID}")).await;
    assert_ne!(asked.code, 0, "nobody confirmed");
    assert!(server.asked("MergePullRequest").is_empty());
    let merged = person.run(&format!("pr merge {ID} --method squash --yes")).await;
    assert_eq!(merged.code, 0, "{}", merged.err);
    assert!(merged.out.contains("MERGED"), "{}", merged.out);
    let other = "f".repeat(40);
    let merged = person.run(&format!("pr merge {ID} --head {other} --yes -o name")).await;
    assert_eq!(merged.out, format!("pull-request/{ID}\n"), "{}", merged.err);
    let asked = server.asked("MergePullRequest");
    assert_eq!(asked[0], json!({"id": ID, "head": HEAD, "method": "SQUASH", "inWindow": false}));
    assert_eq!(asked[1], json!({"id": ID, "head": other, "method": "MERGE", "inWindow": false}));
}

#[tokio::test]
async fn a_merge_waits_for_a_window_and_is_cancelled() {
    let mut dropped = waiting();
    dropped["merging"]["wish"]["dropped"] = json!("its head is another now");
    let server = Server::start()
        .await
        .data("GetPullRequest", "pullRequest", &dropped)
        .data("MergePullRequest", "mergePullRequest", &waiting())
        .data("CancelPullRequestMerge", "cancelPullRequestMerge", &known());
    let person = Person::of(&server.url);
    let waits = person.run(&format!("pr merge {ID} --method squash --in-window --yes")).await;
    assert_eq!(waits.code, 0, "{}", waits.err);
    assert!(waits.err.contains("it is merged at 2026-11-23T21:00:00+00:00"), "{}", waits.err);
    let asked = server.asked("MergePullRequest");
    assert_eq!(asked, [json!({"id": ID, "head": HEAD, "method": "SQUASH", "inWindow": true})]);
    let told = person.run(&format!("pr describe {ID}")).await;
    for line in [
        "Merge window: allow 0 22 * * mon-fri for 4h30m in Europe/Berlin",
        "May be merged: from 2026-11-23T21:00:00+00:00",
        "Not merged any more: 0123456789ab, for ada@example.com: its head is another now",
    ] {
        assert!(told.out.lines().any(|found| found == line), "{line}: {}", told.out);
    }
    let told = person.run(&format!("pr describe {ID} -o json")).await;
    let told: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(told["merging"]["wish"]["head"], HEAD, "{told}");
    let cancelled = person.run(&format!("pr merge {ID} --cancel")).await;
    assert_eq!(cancelled.code, 0, "{}", cancelled.err);
    assert_eq!(server.asked("CancelPullRequestMerge"), [json!({"id": ID})]);
    assert_eq!(server.asked("MergePullRequest").len(), 1, "nothing is merged by that");
    let both = person.run(&format!("pr merge {ID} --cancel --in-window")).await;
    assert_eq!(both.code, 2, "{}", both.err);
}

/// A console where a merge waits for a window, and that tells this of the pull request, one look after the other.
async fn merging(looks: &[&Value]) -> Server {
    let server = Server::start().await.data("MergePullRequest", "mergePullRequest", &waiting());
    looks.iter().fold(server, |server, look| server.data("GetPullRequest", "pullRequest", look))
}

#[tokio::test]
async fn a_merge_is_waited_for_until_it_is_done_or_dropped() {
    let (mut merged, mut dropped) = (known(), waiting());
    merged["status"] = json!("MERGED");
    dropped["merging"]["wish"]["dropped"] = json!("its head is another now");
    let line = format!("pr merge {ID} --in-window --wait --yes");
    let server = merging(&[&known(), &waiting(), &merged]).await;
    let done = Person::of(&server.url).run(&line).await;
    assert!(done.code == 0 && done.out.contains("MERGED"), "{done:?}");
    assert!(done.err.contains("it is merged at 2026-11-23T21:00:00+00:00"), "{done:?}");
    let server = merging(&[&known(), &dropped]).await;
    let never = Person::of(&server.url).run(&line).await;
    assert!(never.code == 1 && never.err.contains("its head is another now"), "{never:?}");
    let server = merging(&[&known()]).await;
    let cancelled = Person::of(&server.url).run(&line).await;
    assert!(cancelled.code == 1 && cancelled.err.contains("somebody cancelled"), "{cancelled:?}");
    let server = merging(&[&known(), &waiting()]).await;
    let person = Person::of(&server.url);
    let late = person.run(&format!("{line} --timeout 1s")).await;
    assert!(late.code == 1 && late.err.contains("timed out after 1 s waiting for the merge"), "{late:?}");
    for odd in ["--timeout 5m", "--cancel --wait"] {
        assert_eq!(person.run(&format!("pr merge {ID} --yes {odd}")).await.code, 2, "{odd}");
    }
    // What is merged at once is not waited for.
    let server = Server::start().await.data("GetPullRequest", "pullRequest", &known()).data(
        "MergePullRequest",
        "mergePullRequest",
        &merged,
    );
    let done = Person::of(&server.url).run(&format!("pr merge {ID} --wait --yes")).await;
    assert!(done.code == 0 && done.out.contains("MERGED"), "{done:?}");
    assert_eq!(server.asked("GetPullRequest").len(), 1);
}

#[tokio::test]
async fn one_is_watched_until_it_is_merged_or_closed() {
    let (mut read, mut merged, mut closed, mut failed) = (known(), known(), known(), known());
    // Read again, and nothing came of it.
    read["readAt"] = json!("2026-01-01T00:05:00Z");
    merged["status"] = json!("MERGED");
    closed["status"] = json!("CLOSED");
    (failed["status"], failed["phase"], failed["error"]) =
        (Value::Null, json!("FAILED"), json!("no such branch"));
    let server = Server::start()
        .await
        .data("GetPullRequest", "pullRequest", &known())
        .data("GetPullRequest", "pullRequest", &read)
        .data("GetPullRequest", "pullRequest", &merged);
    let watched = Person::of(&server.url).run(&format!("pr describe {ID} --watch")).await;
    assert_eq!(watched.code, 0, "{watched:?}");
    let statuses: Vec<&str> = watched.out.lines().filter(|line| line.starts_with("Status: ")).collect();
    assert_eq!(statuses, ["Status: OPEN", "Status: MERGED"], "{watched:?}");
    for (ended, why) in [(closed, "was closed without a merge"), (failed, "was not opened: no such branch")] {
        let server = Server::start().await.data("GetPullRequest", "pullRequest", &ended);
        let watched = Person::of(&server.url).run(&format!("pr describe {ID} --watch -o json")).await;
        assert!(watched.code == 1 && watched.err.contains(why), "{watched:?}");
        assert_eq!(watched.out.lines().count(), 1, "{watched:?}");
    }
}

#[tokio::test]
async fn one_gets_another_window_or_none() {
    let server =
        server().await.data("UpdatePullRequestMergeWindows", "updatePullRequestMergeWindows", &known());
    let person = Person::of(&server.url);
    let window = ["--schedule", "0 22 * * mon-fri", "--duration", "4h30m", "--time-zone", "Europe/Berlin"];
    let mut line = vec!["pr", "windows", ID];
    line.extend(window);
    let changed = person.run_words(&line).await;
    assert_eq!(changed.code, 0, "{}", changed.err);
    assert!(changed.err.contains("may be merged: from 2026-11-23"), "{}", changed.err);
    let none = person.run(&format!("pr windows {ID} --none")).await;
    assert_eq!(none.code, 0, "{}", none.err);
    let window = json!({"kind": "ALLOW", "schedule": "0 22 * * mon-fri", "duration": 16_200, "timeZone": "Europe/Berlin"});
    assert_eq!(
        server.asked("UpdatePullRequestMergeWindows"),
        [json!({"id": ID, "mergeWindows": [window]}), json!({"id": ID, "mergeWindows": []})]
    );
    for odd in ["", "--none --schedule @daily", "--schedule @daily --duration 0s --kind never"] {
        let refused = person.run(&format!("pr windows {ID} {odd}")).await;
        assert_eq!(refused.code, 2, "{odd}: {}", refused.err);
    }
}

#[tokio::test]
async fn closing_asks_and_refreshing_tells_what_went_wrong() {
    let server = server().await;
    let person = Person::of(&server.url);
    let closed = person.run(&format!("pr close {ID} --yes")).await;
    assert_eq!(closed.code, 0, "{}", closed.err);
    assert_eq!(server.asked("ClosePullRequest"), [json!({"id": ID})]);
    let read = person.run(&format!("pr refresh {ID}")).await;
    assert_eq!(read.code, 0, "{}", read.err);
    assert!(read.err.contains("it could not be read: the host says no"), "{}", read.err);
    assert_eq!(server.asked("RefreshPullRequest"), [json!({"id": ID})]);
}
