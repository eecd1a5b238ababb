//! Which services fail, and which failed lately.

use serde_json::{Value, json};

use crate::{run::Person, server::Server};

fn page(nodes: &[Value]) -> Value {
    let edges: Vec<Value> = nodes.iter().map(|node| json!({"node": node})).collect();
    json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": edges})
}

fn service(name: &str) -> Value {
    json!({"id": format!("id-{name}"), "name": name, "cluster": {"id": "c", "name": "Blue", "handle": "blue"}})
}

fn change(name: &str, to: &str, at: &str, since: &str, reason: Option<&str>) -> Value {
    json!({"id": format!("{name}{at}"), "from": "STALE", "to": to, "reason": reason,
        "failingSince": format!("2026-01-31T{since}Z"), "at": format!("2026-01-31T{at}Z"), "service": service(name)})
}

#[tokio::test]
async fn failures_are_listed_with_how_long_they_lasted() {
    let mut failing = service("web");
    failing["failingSince"] = json!("2026-01-31T08:00:00Z");
    failing["reason"] =
        json!({"kind": "COMPONENT", "message": "web crashes", "terminal": false, "until": null});
    let changes = [
        change("api", "HEALTHY", "08:30:00", "08:00:00", None),
        change("web", "FAILED", "08:00:00", "08:00:00", Some("web crashed")),
        change("api", "FAILED", "08:00:00", "08:00:00", Some("api crashed")),
    ];
    let server = Server::start()
        .await
        .data("ListFailingServices", "serviceDeployments", &page(&[failing]))
        .data("ListFailureChanges", "healthChanges", &page(&changes));
    let person = Person::of(&server.url);
    let done = person.run("cd services failures --since 2026-01-31T07:00:00Z").await;
    let lines: Vec<Vec<&str>> = done.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["SERVICE", "STATE", "BEGAN", "RECOVERED", "LASTED", "REASON"], "{}", done.err);
    assert_eq!(lines[1][..2], ["blue/web", "FAILING"]);
    assert_eq!((lines[1][3], lines[1][5..].join(" ")), ("-", "web crashes".to_owned()));
    assert_eq!(lines[2][..2], ["blue/api", "RECOVERED"]);
    assert_eq!((lines[2][4], lines[2][5..].join(" ")), ("30m", "api crashed".to_owned()));
    assert_eq!(lines.len(), 3, "{}", done.out);
    assert_eq!(server.asked("ListFailureChanges")[0]["since"], "2026-01-31T07:00:00Z");

    let done = person.run("cd services failures -o json").await;
    let all: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(
        all[1],
        json!({"id": "id-api", "service": "blue/api", "state": "RECOVERED", "failingSince": "2026-01-31T08:00:00Z",
            "recoveredAt": "2026-01-31T08:30:00Z", "reason": "api crashed"})
    );
    let done = person.run("cd services failures --since yesterday").await;
    assert_eq!((done.code, done.out.as_str()), (2, ""));
}

#[tokio::test]
async fn no_failure_is_said() {
    let server = Server::start().await.data("ListFailingServices", "serviceDeployments", &page(&[])).data(
        "ListFailureChanges",
        "healthChanges",
        &page(&[]),
    );
    let done = Person::of(&server.url).run("cd services failures").await;
    assert_eq!((done.code, done.out.as_str()), (0, ""));
    assert!(done.err.contains("no service fails, and none failed lately"), "{}", done.err);
}
