//! What an update of a global service, or of a managed namespace, leaves as it is.

use serde_json::{Value, json};

use crate::api_server::TestServer;

const FIELDS: &str = "id name distro reparent tags { name value } cascade { delete detach } ignoreClusters
  context { raw } rolloutStrategy { maxUnavailable soakSeconds timeoutSeconds maxFailures undo
    cohorts { name members { percent clusters tag { name value } } } }
  template { namespace } instanceCounts { all healthy newest leaving }";

async fn made(t: &TestServer, repository: &Value) -> Value {
    let cluster = t.admin.cluster("left-out").await;
    let attributes = json!({
        "name": "web",
        "tags": [{"name": "nowhere", "value": "at all"}],
        "distro": "K3S",
        "reparent": true,
        "ignoreClusters": [cluster["id"]],
        "cascade": {"detach": true},
        "context": {"raw": {"domain": "example.com"}},
        "template": {"namespace": "apps", "repositoryId": repository["id"], "git": {"ref": "main", "folder": "web"}},
        "rollout": {
            "cohorts": [
                {"name": "canary", "members": {"tag": {"name": "tier", "value": "canary"}}},
                {"name": "half", "members": {"percent": 50}},
                {"name": "named", "members": {"clusters": [cluster["id"]]}},
            ],
            "maxUnavailable": "10%", "soakSeconds": 1, "timeoutSeconds": 2, "maxFailures": 3, "undo": true,
        },
    });
    let document = format!(
        "mutation ($a: GlobalServiceAttributes!) {{ createGlobalService(attributes: $a) {{ {FIELDS} }} }}"
    );
    t.admin.data(&document, json!({"a": attributes})).await["createGlobalService"].clone()
}

#[tokio::test]
async fn an_update_changes_what_it_names() {
    let t = TestServer::start().await;
    let repository = t.admin.repository("https://git.example.com/a.git").await;
    let made = made(&t, &repository).await;
    assert_eq!(made["rolloutStrategy"]["maxUnavailable"], "10%");
    assert_eq!(made["rolloutStrategy"]["cohorts"][1]["members"]["percent"], 50);
    assert_eq!(made["context"]["raw"], json!({"domain": "example.com"}));
    assert_eq!(made["ignoreClusters"].as_array().unwrap().len(), 1);
    assert_eq!(made["instanceCounts"], json!({"all": 0, "healthy": 0, "newest": 0, "leaving": 0}));
    let document = format!(
        "mutation ($id: ID!, $a: GlobalServiceAttributes!) {{ updateGlobalService(id: $id, attributes: $a) {{ {FIELDS} }} }}"
    );
    let update = async |mut attributes: Value| {
        attributes["name"] = json!("web");
        let variables = json!({"id": made["id"], "a": attributes});
        t.admin.data(&document, variables).await["updateGlobalService"].clone()
    };
    let mut expected = made.clone();
    assert_eq!(update(json!({})).await, expected);
    expected["cascade"] = json!({"delete": true, "detach": false});
    assert_eq!(update(json!({"cascade": {"delete": true}})).await, expected);
    expected["tags"] = json!([{"name": "stage", "value": "prod"}]);
    expected["reparent"] = json!(false);
    let tags = json!([{"name": "stage", "value": "prod"}]);
    assert_eq!(update(json!({"tags": tags, "reparent": false})).await, expected);
    // A null clears.
    for field in ["distro", "context"] {
        expected[field] = Value::Null;
        assert_eq!(update(json!({field: null})).await, expected);
    }
    expected["rolloutStrategy"] = Value::Null;
    expected["tags"] = json!([]);
    expected["ignoreClusters"] = json!([]);
    expected["cascade"] = json!({"delete": false, "detach": false});
    let nulls =
        json!({"rollout": null, "tags": null, "ignoreClusters": null, "cascade": null, "template": null});
    assert_eq!(update(nulls).await, expected);
}

#[tokio::test]
async fn an_update_of_a_managed_namespace_changes_what_it_names() {
    const FIELDS: &str =
        "id name description labels annotations pullSecrets target { tags distro } cascade { delete detach }
      instanceCounts { all synced leaving } instances { edges { node { state } } }";
    let t = TestServer::start().await;
    let attributes = json!({
        "name": "team",
        "description": "ours",
        "labels": {"team": "a"},
        "annotations": {"note": "b"},
        "pullSecrets": ["registry"],
        "target": {"tags": {"nowhere": "at all"}, "distro": "EKS"},
        "cascade": {"delete": true},
    });
    let document = format!(
        "mutation ($a: ManagedNamespaceAttributes!) {{ createManagedNamespace(attributes: $a) {{ {FIELDS} }} }}"
    );
    let made = t.admin.data(&document, json!({"a": attributes})).await["createManagedNamespace"].clone();
    assert_eq!(made["instanceCounts"], json!({"all": 0, "synced": 0, "leaving": 0}));
    let document = format!(
        "mutation ($id: ID!, $a: ManagedNamespaceAttributes!) {{ updateManagedNamespace(id: $id, attributes: $a) {{ {FIELDS} }} }}"
    );
    let ask = async |mut attributes: Value| {
        attributes["name"] = json!("team");
        t.admin.ask(&document, json!({"id": made["id"], "a": attributes})).await
    };
    let update =
        async |attributes: Value| ask(attributes).await.body["data"]["updateManagedNamespace"].clone();
    let mut expected = made.clone();
    for nothing in [json!({}), json!({"target": {}}), json!({"target": null})] {
        assert_eq!(update(nothing).await, expected);
    }
    // One half of the target leaves the other.
    expected["target"]["distro"] = json!("K3S");
    assert_eq!(update(json!({"target": {"distro": "K3S"}})).await, expected);
    expected["target"]["tags"] = json!({"also": "nowhere"});
    assert_eq!(update(json!({"target": {"tags": {"also": "nowhere"}}})).await, expected);
    expected["labels"] = json!({"team": "b"});
    assert_eq!(update(json!({"labels": {"team": "b"}})).await, expected);
    // A null clears.
    expected["target"]["distro"] = Value::Null;
    assert_eq!(update(json!({"target": {"distro": null}})).await, expected);
    expected["target"]["tags"] = json!({});
    assert_eq!(update(json!({"target": {"tags": null}})).await, expected);
    let wrong = ask(json!({"annotations": {"note": "no\u{0}text"}})).await;
    assert_eq!(wrong.body["errors"][0]["extensions"]["field"], "variables.a.annotations.note", "{wrong:?}");
}

#[tokio::test]
async fn what_is_too_much_or_nothing_is_refused_by_field() {
    let t = TestServer::start().await;
    let repository = t.admin.repository("https://git.example.com/a.git").await;
    let made = made(&t, &repository).await;
    let document = "mutation ($id: ID!, $a: GlobalServiceAttributes!) { updateGlobalService(id: $id, attributes: $a) { id } }";
    let id = "0190b8a2-7c11-7def-8000-0123456789ab";
    let many_names: Vec<String> = (0..5000).map(|i| format!("context-{i}")).collect();
    let many_tags: Vec<Value> = (0..101).map(|i| json!({"name": format!("t{i}"), "value": "x"})).collect();
    for (mut attributes, field, reason) in [
        (json!({"rollout": {"maxUnavailable": "0"}}), "attributes.rollout.maxUnavailable", "at least 1"),
        (json!({"rollout": {"maxUnavailable": "0%"}}), "attributes.rollout.maxUnavailable", "between 1%"),
        (
            json!({"rollout": {"cohorts": [{"name": "a", "members": {"clusters": vec![id; 1001]}}]}}),
            "attributes.rollout.cohorts.clusters",
            "more than 1000",
        ),
        (
            json!({"rollout": {"cohorts": [{"name": "a".repeat(256), "members": {"percent": 1}}]}}),
            "attributes.rollout.cohorts",
            "255 bytes",
        ),
        (json!({"context": {"raw": {"a": "x".repeat(70_000)}}}), "attributes.context", "64 KiB"),
        (json!({"context": {"raw": [1]}}), "attributes.context.raw", "JSON object"),
        (json!({"tags": many_tags}), "attributes.tags", "at most 100"),
        (
            json!({"template": {"repositoryId": repository["id"], "contexts": many_names}}),
            "attributes.contexts",
            "at most 32",
        ),
    ] {
        attributes["name"] = json!("web");
        let answer = t.admin.ask(document, json!({"id": made["id"], "a": attributes})).await;
        assert_eq!(answer.outcome(), "INVALID", "{field}: {answer:?}");
        assert_eq!(answer.body["errors"][0]["extensions"]["field"], field, "{answer:?}");
        assert!(answer.message().contains(reason), "{answer:?}");
    }
}

#[tokio::test]
async fn tags_are_set_and_taken_away_one_by_one() {
    let t = TestServer::start().await;
    let cluster = t.admin.cluster("blue").await;
    let document = "mutation ($id: ID!, $a: ClusterUpdateAttributes!) {
      updateCluster(id: $id, attributes: $a) { tags { name value } }
    }";
    let update = async |attributes: Value| {
        let variables = json!({"id": cluster["id"], "a": attributes});
        t.admin.ask(document, variables).await
    };
    // Many at the same time: each finds what the others have made of them.
    let all = (0..8).map(|i| update(json!({"setTags": [{"name": format!("t{i}"), "value": "x"}]})));
    for answer in futures::future::join_all(all).await {
        assert_eq!(answer.outcome(), "OK", "{answer:?}");
    }
    let answer =
        update(json!({"removeTags": ["t0", "nothing"], "setTags": [{"name": "t1", "value": "y"}]})).await;
    let tags = answer.body["data"]["updateCluster"]["tags"].as_array().unwrap().clone();
    assert_eq!(tags.len(), 8, "{tags:?}");
    assert!(tags.contains(&json!({"name": "stage", "value": "blue"})), "{tags:?}");
    assert!(tags.contains(&json!({"name": "t1", "value": "y"})), "{tags:?}");
    let tag = json!([{"name": "a", "value": "b"}]);
    for (wrong, field) in [
        (json!({"tags": tag, "setTags": tag}), "attributes.tags"),
        (json!({"tags": tag, "removeTags": ["a"]}), "attributes.tags"),
        (json!({"setTags": tag, "removeTags": ["a"]}), "attributes.removeTags"),
        (json!({"setTags": [{"name": "", "value": "b"}]}), "attributes.tags"),
    ] {
        let answer = update(wrong).await;
        assert_eq!(answer.outcome(), "INVALID", "{answer:?}");
        assert_eq!(answer.body["errors"][0]["extensions"]["field"], field, "{answer:?}");
    }
}
