//! Tags of stacks: by them stacks are grouped and found.

use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use crate::api_server::{Person, TestServer};

each_database!(stacks_are_found_by_their_tags, tags_are_replaced_as_a_whole, what_is_no_tag_changes_nothing);

const CREATE: &str =
    "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id tags { name value } } }";
const UPDATE: &str = "mutation ($id: ID!, $a: StackAttributes!) {
  updateStack(id: $id, attributes: $a) { tags { name value } }
}";
const LIST: &str = "query ($t: TagInput, $q: TagQuery) {
  infrastructureStacks(tag: $t, tagQuery: $q) { edges { node { name } } }
  stackTags(tag: $t, tagQuery: $q) { tag { name value } count }
}";

fn tags(all: &[(&str, &str)]) -> Value {
    all.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

async fn make(t: &TestServer, name: &str, all: &[(&str, &str)]) -> String {
    let attributes = json!({"name": name, "type": "TERRAFORM", "projectId": t.project, "tags": tags(all)});
    let made = t.owner.data(CREATE, json!({"a": attributes})).await["createStack"].clone();
    assert_eq!(made["tags"], tags(all));
    made["id"].as_str().unwrap().to_owned()
}

/// The names that a list shows, and how many of its stacks have each tag.
async fn found(by: &Person, variables: Value) -> (Vec<String>, Vec<String>) {
    let data = by.data(LIST, variables).await;
    let edges = data["infrastructureStacks"]["edges"].as_array().unwrap();
    let names = edges.iter().map(|edge| edge["node"]["name"].as_str().unwrap().to_owned()).collect();
    let counts = data["stackTags"].as_array().unwrap().iter().map(|one| {
        let text = |field: &str| one["tag"][field].as_str().unwrap();
        format!("{}={}: {}", text("name"), text("value"), one["count"])
    });
    (names, counts.collect())
}

async fn stacks_are_found_by_their_tags(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    make(&t, "a", &[("env", "prod"), ("tier", "1")]).await;
    make(&t, "b", &[("env", "prod"), ("tier", "2")]).await;
    let last = make(&t, "c", &[("env", "dev"), ("tier", "1")]).await;
    make(&t, "d", &[]).await;
    let all = |op: &str, of: &[(&str, &str)]| json!({"q": {"op": op, "tags": tags(of)}});
    for (variables, names) in [
        (json!({}), &["a", "b", "c", "d"][..]),
        (json!({"t": {"name": "env", "value": "prod"}}), &["a", "b"][..]),
        (all("AND", &[("env", "prod"), ("tier", "1")]), &["a"][..]),
        (all("OR", &[("env", "dev"), ("tier", "2")]), &["b", "c"][..]),
        (all("AND", &[("env", "pro")]), &[][..]),
        (all("AND", &[]), &["a", "b", "c", "d"][..]),
    ] {
        assert_eq!(found(&t.owner, variables.clone()).await.0, names, "{variables}");
    }
    let counts = found(&t.owner, json!({})).await.1;
    assert_eq!(counts, ["env=prod: 2", "tier=1: 2", "env=dev: 1", "tier=2: 1"]);
    assert_eq!(
        found(&t.owner, all("AND", &[("env", "prod")])).await.1,
        ["env=prod: 2", "tier=1: 1", "tier=2: 1"]
    );
    // What one may not see is neither listed nor counted.
    assert_eq!(found(&t.stranger, json!({})).await, (Vec::new(), Vec::new()));
    let both = json!({"t": {"name": "a", "value": "b"}, "q": {"op": "AND", "tags": []}});
    assert!(t.owner.ask(LIST, both).await.message().contains("tagQuery"));

    // Its tags go with it.
    let delete = "mutation ($id: ID!) { deleteStack(id: $id) { id } }";
    t.owner.data(delete, json!({"id": last})).await;
    assert_eq!(found(&t.owner, all("AND", &[("env", "dev")])).await, (Vec::new(), Vec::new()));
}

async fn tags_are_replaced_as_a_whole(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let id = make(&t, "a", &[("env", "prod"), ("tier", "1")]).await;
    let change = async |attributes: Value| {
        t.owner.data(UPDATE, json!({"id": id, "a": attributes})).await["updateStack"]["tags"].clone()
    };
    assert_eq!(change(json!({"protect": true})).await, tags(&[("env", "prod"), ("tier", "1")]));
    assert_eq!(change(json!({"tags": tags(&[("env", "dev")])})).await, tags(&[("env", "dev")]));
    let dev = json!({"t": {"name": "env", "value": "dev"}});
    assert_eq!(found(&t.owner, dev.clone()).await, (vec!["a".to_owned()], vec!["env=dev: 1".to_owned()]));
    let prod = json!({"t": {"name": "env", "value": "prod"}});
    assert_eq!(found(&t.owner, prod).await.0, [""; 0]);
    assert_eq!(change(json!({"tags": []})).await, json!([]));
    assert_eq!(found(&t.owner, dev).await.0, [""; 0]);
}

async fn what_is_no_tag_changes_nothing(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let id = make(&t, "a", &[("env", "prod")]).await;
    let many: Vec<(String, String)> = (0..101).map(|at| (format!("n{at}"), String::new())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let long = "y".repeat(512);
    for (wrong, reason) in [
        (tags(&[("x", "1"), ("x", "2")]), "twice"),
        (tags(&[("", "1")]), "each with a name"),
        (tags(&[("x", long.as_str())]), "at most 512 bytes"),
        (tags(&many), "at most 100"),
    ] {
        let attributes = json!({"name": "b", "type": "TERRAFORM", "projectId": t.project, "tags": wrong});
        for answer in [
            t.owner.ask(CREATE, json!({"a": attributes})).await,
            t.owner.ask(UPDATE, json!({"id": id, "a": {"tags": wrong}})).await,
        ] {
            assert_eq!(answer.outcome(), "INVALID", "{answer:?}");
            assert_eq!(answer.body["errors"][0]["extensions"]["field"], "attributes.tags", "{answer:?}");
            assert!(answer.message().contains(reason), "{answer:?}");
        }
    }
    let denied = t.stranger.ask(UPDATE, json!({"id": id, "a": {"tags": []}})).await;
    assert_eq!(denied.outcome(), "NOT_FOUND", "{denied:?}");
    assert_eq!(found(&t.owner, json!({})).await, (vec!["a".to_owned()], vec!["env=prod: 1".to_owned()]));
}
