//! What the operations do, through the door.

use std::time::Duration;

use plural_testkit::{GitRemote, eventually};
use plural_wire::{Client, ClientOptions, ListClusters, Secret, all_pages};
use serde_json::{Value, json};

use crate::api_server::TestServer;

const GET: &str = "query ($handle: String) {
  cluster(handle: $handle) { id name handle version protect deletedAt deployToken agentUrl metadata
    tags { name value } project { default } readBindings { user { email } group { name } } }
}";

#[tokio::test]
async fn a_cluster_from_creation_to_deletion() {
    let t = TestServer::start().await;
    let admin = &t.admin;
    let data = admin
        .data(
            "mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) { id handle deployToken } }",
            json!({"a": {"name": "Blue (EU)", "version": "1.36", "distro": "K3S", "protect": true,
                "metadata": "{\"owner\": {\"name\": \"Ada\"}, \"n\": 1.5}",
                "tags": [{"name": "stage", "value": "prod"}, null],
                "readBindings": [{"userId": t.stranger.id}]}}),
        )
        .await;
    let created = &data["createCluster"];
    assert_eq!(created["handle"], "blue-eu");
    assert!(created["deployToken"].as_str().unwrap().starts_with("deploy-"));

    let handle = json!({"handle": "blue-eu"});
    let cluster = admin.data(GET, handle.clone()).await["cluster"].clone();
    assert_eq!(cluster["deployToken"], Value::Null, "it is told once");
    assert_eq!(cluster["agentUrl"], t.console.url.as_str());
    assert_eq!(cluster["metadata"], json!({"owner": {"name": "Ada"}, "n": 1.5}));
    assert_eq!(cluster["tags"], json!([{"name": "stage", "value": "prod"}]));
    assert_eq!(cluster["project"], json!({"default": true}));
    assert_eq!(cluster["readBindings"], json!([{"user": {"email": "stranger@example.com"}, "group": null}]));
    // Who may see the cluster but not its project gets the one without the other.
    let seen = t.stranger.data(GET, handle.clone()).await["cluster"].clone();
    assert_eq!((&seen["name"], &seen["project"]), (&json!("Blue (EU)"), &Value::Null));

    let id = &created["id"];
    let rotate = "mutation ($id: ID!) { rotateDeployToken(id: $id) { deployToken } }";
    let rotated = admin.data(rotate, json!({"id": id})).await;
    assert_ne!(rotated["rotateDeployToken"]["deployToken"], created["deployToken"]);

    let delete = "mutation ($id: ID!) { deleteCluster(id: $id) { id } }";
    let refused = admin.ask(delete, json!({"id": id})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    let update = "mutation ($id: ID!, $a: ClusterUpdateAttributes!) { updateCluster(id: $id, attributes: $a) { name protect tags { value } readBindings { id } } }";
    let change = json!({"name": "Blue", "protect": false, "tags": [{"name": "stage", "value": "test"}], "readBindings": []});
    let updated = admin.data(update, json!({"id": id, "a": change})).await["updateCluster"].clone();
    assert_eq!(
        updated,
        json!({"name": "Blue", "protect": false, "tags": [{"value": "test"}], "readBindings": []})
    );
    assert_eq!(t.stranger.ask(GET, handle.clone()).await.outcome(), "NOT_FOUND");

    admin.data(delete, json!({"id": id})).await;
    let gone = admin.ask(GET, handle).await;
    assert_eq!(gone.body["data"], json!({"cluster": null}));
    assert_eq!(gone.message(), "could not find resource");
    assert_eq!(gone.body["errors"][0]["path"], json!(["cluster"]));
    let actions = admin
        .data(
            "{ audits(last: 3) { edges { node { action actorName noun targetName actor { email } } } } }",
            json!({}),
        )
        .await;
    let last = &actions["audits"]["edges"][2]["node"];
    assert_eq!(
        last,
        &json!({"action": "cluster.delete", "actorName": "admin@example.com", "noun": "cluster",
            "targetName": "blue-eu", "actor": {"email": "admin@example.com"}})
    );
}

#[tokio::test]
async fn bad_values_are_refused_by_field() {
    let t = TestServer::start().await;
    let create = "mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) { id } }";
    for (attributes, field, reason) in [
        (json!({"name": ""}), "attributes.name", "must not be empty"),
        (json!({"name": "system:masters"}), "attributes.name", "Kubernetes reserves"),
        (json!({"name": "a", "handle": "Not OK"}), "attributes.handle", "lower-case"),
        (json!({"name": "a", "metadata": "[1]"}), "attributes.metadata", "JSON object"),
        (
            json!({"name": "a", "tags": [{"name": "x", "value": "1"}, {"name": "x", "value": "2"}]}),
            "attributes.tags",
            "twice",
        ),
        (json!({"name": "a", "readBindings": [{"userId": "x", "groupId": "y"}]}), "readBindings", "either"),
    ] {
        let answer = t.admin.ask(create, json!({"a": attributes})).await;
        assert_eq!(answer.outcome(), "INVALID", "{answer:?}");
        assert_eq!(answer.body["errors"][0]["extensions"]["field"], field, "{answer:?}");
        assert!(answer.message().contains(reason), "{answer:?}");
    }
    // Refused by the schema itself.
    for attributes in [
        json!({"name": "a", "metadata": "{"}),
        json!({"name": "a", "metadata": 5}),
        json!({"name": "a", "kubeconfig": {}}),
    ] {
        let answer = t.admin.ask(create, json!({"a": attributes})).await;
        assert_eq!(answer.outcome(), "INVALID", "{answer:?}");
    }
    t.admin.cluster("blue").await;
    let answer = t.admin.ask(create, json!({"a": {"name": "blue"}})).await;
    assert_eq!(answer.outcome(), "CONFLICT", "{answer:?}");
    let both = t.admin.ask("{ cluster(id: \"x\", handle: \"y\") { id } }", json!({})).await;
    assert_eq!(both.message(), "arguments: give exactly one of id and handle");
    let answer = t.admin.ask("{ cluster(handle: \"Not A Handle\") { id } }", json!({})).await;
    assert_eq!(answer.outcome(), "NOT_FOUND");
}

#[tokio::test]
async fn lists_are_paged_filtered_and_limited_to_what_one_may_see() {
    let t = TestServer::start().await;
    for number in 0..7 {
        t.admin.cluster(&format!("c{number}")).await;
    }
    let client =
        Client::new(&ClientOptions::new(&t.console.url, t.admin.token.as_deref().map(Secret::new))).unwrap();
    let all = all_pages(&client, |after| ListClusters { after, first: 3, project_id: None, tag_query: None })
        .await
        .unwrap();
    let handles: Vec<&str> = all.iter().filter_map(|cluster| cluster.handle.as_deref()).collect();
    assert_eq!(handles, ["c0", "c1", "c2", "c3", "c4", "c5", "c6"]);

    let list = "query ($before: String, $last: Int, $q: TagQuery, $p: ID) {
      clusters(before: $before, last: $last, tagQuery: $q, projectId: $p) {
        pageInfo { hasPreviousPage hasNextPage startCursor } edges { node { handle } }
      }
    }";
    let handles = |data: &Value| -> Vec<String> {
        let edges = data["clusters"]["edges"].as_array().unwrap();
        edges.iter().map(|edge| edge["node"]["handle"].as_str().unwrap().to_owned()).collect()
    };
    let last = t.admin.data(list, json!({"last": 2})).await;
    assert_eq!(handles(&last), ["c5", "c6"]);
    assert_eq!(last["clusters"]["pageInfo"]["hasPreviousPage"], true);
    let before = last["clusters"]["pageInfo"]["startCursor"].clone();
    assert_eq!(handles(&t.admin.data(list, json!({"last": 2, "before": before})).await), ["c3", "c4"]);

    let tag = |value: &str| json!({"name": "stage", "value": value});
    let and = t.admin.data(list, json!({"q": {"op": "AND", "tags": [tag("c1")]}})).await;
    assert_eq!(handles(&and), ["c1"]);
    let or = json!({"op": "OR", "tags": [tag("c1"), {"name": "region", "value": "eu"}]});
    assert_eq!(handles(&t.admin.data(list, json!({"q": or})).await), ["c1"]);
    assert_eq!(handles(&t.admin.data(list, json!({"p": t.project})).await).len(), 7);
    assert_eq!(handles(&t.reader.data(list, json!({})).await).len(), 7);
    assert!(handles(&t.stranger.data(list, json!({})).await).is_empty());
}

#[tokio::test]
async fn a_group_carries_access_to_its_members() {
    let t = TestServer::start().await;
    t.admin.cluster("blue").await;
    let group =
        t.admin.data("mutation { createGroup(attributes: {name: \"team\"}) { id } }", json!({})).await;
    let group = &group["createGroup"]["id"];
    let member = json!({"g": group, "u": t.stranger.id});
    let add = "mutation ($g: ID!, $u: ID!) { createGroupMember(groupId: $g, userId: $u) { user { email } group { name } } }";
    let added = t.admin.data(add, member.clone()).await;
    assert_eq!(
        added["createGroupMember"],
        json!({"user": {"email": "stranger@example.com"}, "group": {"name": "team"}})
    );
    let bind = "mutation ($r: RbacAttributes!, $p: ID) { updateRbac(rbac: $r, projectId: $p) }";
    t.admin.data(bind, json!({"r": {"writeBindings": [{"groupId": group}]}, "p": t.project})).await;

    let update = "mutation { updateCluster(id: \"ID\", attributes: {name: \"other\"}) { name } }";
    let id =
        t.stranger.data(GET, json!({"handle": "blue"})).await["cluster"]["id"].as_str().unwrap().to_owned();
    let update = update.replace("ID", &id);
    t.stranger.data(&update, json!({})).await;
    let me = t.stranger.data("{ me { groups { name } } }", json!({})).await;
    assert_eq!(me["me"]["groups"], json!([{"name": "team"}]));

    t.admin
        .data("mutation ($g: ID!, $u: ID!) { deleteGroupMember(groupId: $g, userId: $u) { id } }", member)
        .await;
    assert_eq!(t.stranger.ask(&update, json!({})).await.outcome(), "NOT_FOUND");
}

#[tokio::test]
async fn a_service_is_read_from_git_and_its_configuration_only_by_writers() {
    let t = TestServer::start().await;
    let remote = GitRemote::new().unwrap();
    let sha = remote
        .push_files([("web/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")])
        .unwrap();
    let cluster = t.admin.cluster("blue").await;
    let repository = t.admin.repository(remote.path().to_str().unwrap()).await;
    let service = t.admin.service(&cluster, &repository, "web").await;

    let get = "query ($c: String, $n: String) { serviceDeployment(cluster: $c, name: $n) {
      id name namespace status sha message componentStatus git { ref folder } configuration { name value }
      errors { source message } repository { url health error } cluster { handle }
      revision { id sha } revisions { edges { node { id sha } } }
    } }";
    let key = json!({"c": "blue", "n": "web"});
    let found = eventually(Duration::from_secs(30), async || {
        let found = t.admin.data(get, key.clone()).await["serviceDeployment"].clone();
        (!found["sha"].is_null()).then_some(found)
    })
    .await;
    assert_eq!(found["sha"], sha.as_str());
    assert_eq!(found["status"], "STALE");
    assert_eq!(found["git"], json!({"ref": "main", "folder": "web"}));
    assert_eq!(found["repository"]["health"], "PULLABLE");
    assert_eq!(found["configuration"], json!([{"name": "password", "value": "s3cret"}]));
    assert_eq!(found["revision"]["sha"], sha.as_str());

    let seen = t.reader.data(get, key.clone()).await["serviceDeployment"].clone();
    assert_eq!(seen["configuration"], Value::Null);
    assert_eq!(seen["name"], "web");

    let update = "mutation ($c: String, $n: String, $a: ServiceUpdateAttributes!) {
      updateServiceDeployment(cluster: $c, name: $n, attributes: $a) {
        id dryRun protect revision { id } syncConfig { createNamespace namespaceMetadata { labels } } } }";
    let change = json!({"dryRun": true, "protect": true,
        "syncConfig": {"createNamespace": false, "namespaceMetadata": {"labels": "{\"a\": \"b\"}"}}});
    let updated = t.owner.data(update, json!({"c": "blue", "n": "web", "a": change})).await;
    let updated = &updated["updateServiceDeployment"];
    assert_eq!(
        updated["syncConfig"],
        json!({"createNamespace": false, "namespaceMetadata": {"labels": {"a": "b"}}})
    );
    assert_ne!(updated["revision"]["id"], service["revision"]["id"]);

    let bad = t
        .owner
        .ask(update, json!({"c": "blue", "n": "web", "a": {"git": {"ref": "main", "folder": "../x"}}}))
        .await;
    assert_eq!(bad.outcome(), "INVALID");
    assert!(bad.message().contains("must not leave the repository"), "{bad:?}");
    let delete = "mutation ($id: ID!) { deleteServiceDeployment(id: $id) { id deletedAt } }";
    assert_eq!(t.owner.ask(delete, json!({"id": service["id"]})).await.outcome(), "CONFLICT");
    t.owner.data(update, json!({"c": "blue", "n": "web", "a": {"protect": false}})).await;
    let deleted = t.owner.data(delete, json!({"id": service["id"]})).await;
    assert!(deleted["deleteServiceDeployment"]["deletedAt"].is_string());
}

#[tokio::test]
async fn a_repository_in_use_stays() {
    let t = TestServer::start().await;
    let cluster = t.admin.cluster("blue").await;
    let repository = t.admin.repository("/nowhere/app").await;
    let service = t.admin.service(&cluster, &repository, "web").await;
    let delete = "mutation ($id: ID!) { deleteGitRepository(id: $id) { id } }";
    let answer = t.admin.ask(delete, json!({"id": repository["id"]})).await;
    assert_eq!((answer.outcome().as_str(), answer.message()), ("CONFLICT", "could not delete repository"));
    t.admin
        .data("mutation ($id: ID!) { detachServiceDeployment(id: $id) { id } }", json!({"id": service["id"]}))
        .await;
    t.admin.data(delete, json!({"id": repository["id"]})).await;
    let get = t.admin.ask("{ gitRepository(url: \"/nowhere/app\") { id } }", json!({})).await;
    assert_eq!(get.outcome(), "NOT_FOUND");
}

#[tokio::test]
async fn credentials_of_a_repository_are_never_told() {
    let t = TestServer::start().await;
    let create =
        "mutation ($a: GitAttributes!) { createGitRepository(attributes: $a) { id authMethod url } }";
    let attributes =
        json!({"url": "https://git.invalid/a.git", "username": "bot", "password": "hunter2-hunter2"});
    let created = t.admin.ask(create, json!({"a": attributes})).await;
    assert_eq!(created.body["data"]["createGitRepository"]["authMethod"], "BASIC", "{created:?}");
    let inside =
        t.admin.ask(create, json!({"a": {"url": "https://bot:hunter2-hunter2@git.invalid/b.git"}})).await;
    assert_eq!(inside.outcome(), "INVALID");
    for answer in [created, inside] {
        assert!(!format!("{answer:?}").contains("hunter2"), "{answer:?}");
    }
    // Nor kept in clear. (While git runs it reads them from a file of its own, so first the fetch must have failed.)
    let health = "{ gitRepository(url: \"https://git.invalid/a.git\") { health } }";
    eventually(Duration::from_mins(1), async || {
        let data = t.admin.data(health, json!({})).await;
        (data["gitRepository"]["health"] == "FAILED").then_some(())
    })
    .await;
    let mut stack = vec![t.folder.path().to_owned()];
    while let Some(folder) = stack.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                stack.push(path);
            } else if let Ok(bytes) = std::fs::read(&path) {
                let found = bytes.windows(15).any(|window| window == b"hunter2-hunter2");
                assert!(!found, "{} holds the password", path.display());
            }
        }
    }
}

#[tokio::test]
async fn users_are_upserted_by_address_and_change_themselves() {
    let t = TestServer::start().await;
    let upsert = "mutation ($a: UserAttributes!) { upsertUser(attributes: $a) { id name roles { admin } } }";
    let first =
        t.admin.data(upsert, json!({"a": {"email": "bot@example.com", "name": "Bot"}})).await["upsertUser"]
            .clone();
    let second = t
        .admin
        .data(upsert, json!({"a": {"email": "Bot@Example.com", "name": "Robot", "roles": {"admin": true}}}))
        .await;
    assert_eq!(second["upsertUser"], json!({"id": first["id"], "name": "Robot", "roles": {"admin": true}}));

    let update = "mutation ($a: UserAttributes!) { updateUser(attributes: $a) { name email } }";
    let me =
        t.stranger.data(update, json!({"a": {"name": "Grace", "password": "a new long password"}})).await;
    assert_eq!(me["updateUser"], json!({"name": "Grace", "email": "stranger@example.com"}));
    assert_eq!(t.stranger.ask("{ me { id } }", json!({})).await.status, 401, "a new password ends sessions");
    let again = t.nobody.sign_in("stranger@example.com", "a new long password").await;
    assert_eq!(again.ask(update, json!({"a": {"roles": {"admin": true}}})).await.outcome(), "FORBIDDEN");
    assert_eq!(again.ask(update, json!({"a": {"password": "short"}})).await.outcome(), "INVALID");
}

const RENDERING: &str = "query ($id: ID!) { serviceDeployment(id: $id) {
    helm { chart version url release values set { name value } valuesFiles ignoreHooks luaFile }
    kustomize { path enableHelm envsubst }
    renderers { path type command helm { values valuesFiles } }
    sources { path repository { id } git { ref folder } }
  } }";

#[tokio::test]
async fn a_services_rendering_is_set_shown_and_cleared() {
    let t = TestServer::start().await;
    let cluster = t.admin.cluster("blue").await;
    let repository = t.admin.repository("/nowhere/app").await;
    let service = t.admin.service(&cluster, &repository, "web").await;
    let update = async |attributes: Value| {
        let document = "mutation ($id: ID!, $a: ServiceUpdateAttributes!) {
            updateServiceDeployment(id: $id, attributes: $a) { revision { id } } }";
        t.admin.ask(document, json!({"id": service["id"], "a": attributes})).await
    };
    let rendering = json!({
        "helm": {
            "chart": "web", "version": "1.x", "url": "https://charts.example.com", "release": "shop",
            "values": "password: s3cret", "set": {"name": "token", "value": "s3cret"},
            "valuesFiles": ["prod.yaml"], "ignoreHooks": true, "luaFile": "./values.lua",
        },
        "kustomize": {"path": "overlays/eu", "enableHelm": true},
        "renderers": [
            {"path": "raw", "type": "RAW"},
            {"path": "chart", "type": "HELM", "helm": {"values": "a: 1", "valuesFiles": ["v.yaml"]}},
            {"path": "lib", "type": "COMMAND", "command": "jsonnet"},
        ],
        "sources": [{"path": "values", "repositoryId": repository["id"], "git": {"ref": "main", "folder": "v"}}],
    });
    let first = update(rendering.clone()).await;
    assert_eq!(first.outcome(), "OK", "{first:?}");
    let again = update(rendering).await;
    assert_eq!(first.body["data"], again.body["data"], "the same once more is no change");

    let shown = t.admin.data(RENDERING, json!({"id": service["id"]})).await["serviceDeployment"].clone();
    assert_eq!(shown["helm"]["values"], "password: s3cret");
    assert_eq!(shown["helm"]["set"], json!({"name": "token", "value": "s3cret"}));
    assert_eq!(shown["helm"]["luaFile"], "values.lua");
    assert_eq!(shown["kustomize"], json!({"path": "overlays/eu", "enableHelm": true, "envsubst": false}));
    let types: Vec<&Value> = shown["renderers"].as_array().unwrap().iter().map(|r| &r["type"]).collect();
    assert_eq!(types, ["RAW", "HELM", "COMMAND"]);
    assert_eq!(shown["renderers"][1]["helm"], json!({"values": "a: 1", "valuesFiles": ["v.yaml"]}));
    assert_eq!(shown["sources"][0]["repository"]["id"], repository["id"]);

    // Who may look, but not change, sees all but the values.
    let seen = t.reader.data(RENDERING, json!({"id": service["id"]})).await["serviceDeployment"].clone();
    assert_eq!(seen["helm"]["release"], "shop");
    for hidden in [&seen["helm"]["values"], &seen["helm"]["set"], &seen["renderers"][1]["helm"]["values"]] {
        assert_eq!(hidden, &Value::Null);
    }

    for (wrong, field) in [
        (json!({"helm": {"url": "https://me:pass@charts.example.com", "chart": "a"}}), "password"),
        (json!({"helm": {"repository": {"name": "a", "namespace": "b"}}}), "b/a of a cluster"),
        (json!({"helm": {"chart": "web", "url": "charts.example.com"}}), "https://"),
        (json!({"renderers": [{"path": "a", "type": "COMMAND"}]}), "name the program"),
        (json!({"renderers": [{"path": "a", "type": "RAW", "helm": {}}]}), "HELM and AUTO only"),
    ] {
        let refused = update(wrong).await;
        assert_eq!(refused.outcome(), "INVALID", "{refused:?}");
        assert!(format!("{refused:?}").contains(field), "{refused:?}");
    }
    update(json!({"helm": null, "renderers": [], "sources": null})).await;
    let left = t.admin.data(RENDERING, json!({"id": service["id"]})).await["serviceDeployment"].clone();
    assert_eq!((&left["helm"], &left["renderers"], &left["sources"]), (&Value::Null, &json!([]), &json!([])));
    assert_eq!(left["kustomize"]["path"], "overlays/eu");
}
