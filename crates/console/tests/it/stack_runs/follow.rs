//! How often the code of a stack is looked at.

use plural_testkit::{TestDatabase, each_database, eventually};
use serde_json::{Value, json};

use super::world::{LONG, World};

each_database!(
    a_stack_with_a_long_interval_waits_for_its_turn_or_for_somebody_who_asks,
    what_is_no_interval_is_refused,
);

const CREATE: &str = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id interval } }";
const PULLED: &str = "query ($id: ID!) { gitRepository(id: $id) { pulledAt } }";
const INTERVAL: &str = "query ($id: ID) { infrastructureStack(id: $id) { interval connection { id } } }";

async fn a_stack_with_a_long_interval_waits_for_its_turn_or_for_somebody_who_asks(database: TestDatabase) {
    let w = World::new(&database, json!({"interval": "24h"})).await;
    w.plans(1, 0).await;
    w.run(1, "SUCCESSFUL").await;
    let beside = json!({
        "name": "beside", "type": "CUSTOM", "projectId": w.t.project, "repositoryId": w.repository, "clusterId": w.cluster,
        "git": {"ref": "main", "folder": "infra"}, "commands": [{"stage": "PLAN", "cmd": "look"}, {"cmd": "make"}],
        "deleteCommands": [{"cmd": "undo"}],
    });
    let beside = w.t.owner.data(CREATE, json!({"a": beside})).await["createStack"].clone();
    assert_eq!(beside["interval"], Value::Null);
    let beside = beside["id"].as_str().unwrap();
    w.run_of(beside, 1, "PENDING").await;

    // The look that makes a run of the one passes the other by.
    let comes = async |number: u64, sha: &str| {
        eventually(LONG, async || {
            let runs = w.runs_of(beside).await;
            let found = runs.iter().any(|run| run["number"] == number && run["sha"] == sha);
            if found { Ok(()) } else { Err(format!("no run {number} is of {sha}: {runs:#?}")) }
        })
        .await;
    };
    // What was asked for before is over once the repository was looked at for no other reason than a commit: the first of two looks may
    // have begun before that.
    let settles =
        async |content: &str| {
            for look in ["first", "second"] {
                let pulled = async || {
                    w.t.admin.data(PULLED, json!({"id": w.repository})).await["gitRepository"].clone()
                };
                let before = pulled().await;
                w.remote.push_files([("docs/b.md", format!("{content} {look}\n"))]).unwrap();
                eventually(LONG, async || {
                    if pulled().await == before { Err(format!("no {look} look")) } else { Ok(()) }
                })
                .await;
            }
        };
    settles("made").await;
    let sha = w.remote.push_files([("infra/main.sh", "echo 2\n")]).unwrap();
    comes(2, &sha).await;
    assert_eq!(w.runs().await.len(), 1, "it is not its turn");
    // A webhook has it looked at.
    let rotate = "mutation ($id: ID!) { rotateGitRepositoryWebhook(id: $id) { path secret } }";
    let hook =
        w.t.admin.data(rotate, json!({"id": w.repository})).await["rotateGitRepositoryWebhook"].clone();
    let path = hook["path"].as_str().unwrap().replace("TYPE", "gitlab");
    let post =
        w.t.nobody.http().post(w.t.url(&path)).header("x-gitlab-token", hook["secret"].as_str().unwrap());
    assert_eq!(post.body("{}").send().await.unwrap().status().as_u16(), 202);
    let run = w.run(2, "PENDING").await;
    assert_eq!((&run["trigger"], &run["sha"]), (&json!("COMMIT"), &json!(sha)));

    // So does a change of the stack, which makes no run by itself.
    settles("heard").await;
    let sha = w.remote.push_files([("infra/main.sh", "echo 3\n")]).unwrap();
    comes(3, &sha).await;
    assert_eq!(w.runs().await.len(), 2, "it is not its turn");
    let shorter = w.update(json!({"interval": "1h30m"})).await;
    assert_eq!(shorter.outcome(), "OK", "{shorter:?}");
    assert_eq!(w.run(3, "QUEUED").await["trigger"], "COMMIT");
    let shown =
        async || w.t.reader.data(INTERVAL, json!({"id": w.stack})).await["infrastructureStack"].clone();
    assert_eq!(shown().await, json!({"interval": "5400s", "connection": null}));

    // What is not named stays; an empty text ends it.
    assert_eq!(w.update(json!({"protect": true})).await.outcome(), "OK");
    assert_eq!(shown().await["interval"], "5400s");
    assert_eq!(w.update(json!({"interval": ""})).await.outcome(), "OK");
    assert_eq!(shown().await["interval"], Value::Null);
    w.t.stop().await;
}

async fn what_is_no_interval_is_refused(database: TestDatabase) {
    let w = World::new(&database, json!({"interval": "30s"})).await;
    let without_code =
        json!({"name": "states", "type": "TERRAFORM", "projectId": w.t.project, "interval": "5m"});
    for (answer, reason) in [
        (w.update(json!({"interval": "29s"})).await, "between 30s and 168h"),
        (w.update(json!({"interval": "169h"})).await, "between 30s and 168h"),
        (w.update(json!({"interval": "soon"})).await, "not a time"),
        (w.t.owner.ask(CREATE, json!({"a": without_code})).await, "is of no use without code"),
    ] {
        assert_eq!(answer.outcome(), "INVALID", "{answer:?}");
        assert_eq!(answer.body["errors"][0]["extensions"]["field"], "attributes.interval", "{answer:?}");
        assert!(answer.message().contains(reason), "{answer:?}");
    }
    let shown = w.t.owner.data(INTERVAL, json!({"id": w.stack})).await;
    assert_eq!(shown["infrastructureStack"]["interval"], "30s");
    w.t.stop().await;
}
