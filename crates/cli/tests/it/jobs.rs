//! Background jobs, as an administrator sees and retries them.

use serde_json::{Value, json};

use crate::{run::Person, server::Server};

const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";
const OTHER: &str = "0190b8a2-7c11-7def-8000-0123456789ac";

fn job(id: &str, state: &str) -> Value {
    json!({"id": id, "kind": "reseal", "key": "0123456789abcdef", "state": state, "attempts": 3,
        "error": "no key opens 2 of the sealed values", "runAfter": "2020-01-01T00:00:00Z",
        "insertedAt": "2020-01-01T00:00:00Z", "updatedAt": "2020-01-01T00:00:00Z"})
}

fn page(jobs: &[Value]) -> Value {
    let edges: Vec<Value> = jobs.iter().map(|job| json!({"node": job})).collect();
    json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": edges})
}

#[tokio::test]
async fn dead_jobs_are_listed_with_their_error() {
    let server = Server::start()
        .await
        .data("ListBackgroundJobs", "backgroundJobs", &page(&[job(ID, "DEAD")]))
        .data("ListBackgroundJobs", "backgroundJobs", &page(&[]));
    let person = Person::of(&server.url);
    let listed = person.run("cd jobs list --state dead --kind reseal").await;
    assert_eq!(listed.code, 0, "{}", listed.err);
    for part in ["KIND", "reseal", "0123456789abcdef", "Dead", ID, "no key opens 2 of the sealed values"] {
        assert!(listed.out.contains(part), "{part}: {}", listed.out);
    }
    let none = person.run("cd jobs list --state dead").await;
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(none.err.contains("no job is dead"), "{}", none.err);
    let asked = server.asked("ListBackgroundJobs");
    assert_eq!((&asked[0]["state"], &asked[0]["kind"]), (&json!("DEAD"), &json!("reseal")));
}

#[tokio::test]
async fn dead_jobs_are_retried_by_their_ids_or_all_of_them() {
    let server = Server::start()
        .await
        .data("RetryBackgroundJob", "retryBackgroundJob", &job(ID, "WAITING"))
        .data("ListBackgroundJobs", "backgroundJobs", &page(&[job(ID, "DEAD"), job(OTHER, "DEAD")]))
        .data("RetryBackgroundJob", "retryBackgroundJob", &job(ID, "WAITING"))
        .data("RetryBackgroundJob", "retryBackgroundJob", &job(OTHER, "WAITING"))
        .data("ListBackgroundJobs", "backgroundJobs", &page(&[]));
    let person = Person::of(&server.url);
    let retried = person.run(&format!("cd jobs retry {ID} -o name")).await;
    assert_eq!((retried.code, retried.out), (0, format!("job/{ID}\n")), "{}", retried.err);
    let retried = person.run("cd jobs retry --dead -o name").await;
    assert_eq!((retried.code, retried.out), (0, format!("job/{ID}\njob/{OTHER}\n")), "{}", retried.err);
    assert_eq!(server.asked("ListBackgroundJobs")[0]["state"], "DEAD");
    let none = person.run("cd jobs retry --dead --kind reseal").await;
    assert!(none.code == 0 && none.err.contains("no job is dead"), "{}", none.err);
    // Either ids or all.
    for line in ["cd jobs retry", "cd jobs retry --dead 1", "cd jobs retry 1 --kind reseal"] {
        assert_eq!(person.run(line).await.code, 2, "{line}");
    }
}

#[tokio::test]
async fn jobs_are_deleted_once_that_was_confirmed() {
    let server = Server::start()
        .await
        .data("DeleteBackgroundJob", "deleteBackgroundJob", &json!({"id": ID}))
        .data("DeleteBackgroundJob", "deleteBackgroundJob", &json!({"id": OTHER}));
    let declined = Person::of(&server.url).answering("n\n").run(&format!("cd jobs delete {ID}")).await;
    assert_eq!(declined.code, 1, "{}", declined.err);
    assert!(server.asked("DeleteBackgroundJob").is_empty());
    let deleted = Person::of(&server.url).run(&format!("cd jobs delete {ID} {OTHER} --yes")).await;
    assert_eq!((deleted.code, deleted.out.as_str()), (0, ""), "{}", deleted.err);
    assert_eq!(server.asked("DeleteBackgroundJob"), [json!({"id": ID}), json!({"id": OTHER})]);
}
