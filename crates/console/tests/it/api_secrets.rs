//! Who sets tags that choose clusters, who reads what instances of global services keep secret, and what the audit log tells of secrets
//! that were read and of callers that were refused.

use std::time::Duration;

use plural_testkit::eventually;
use serde_json::{Value, json};

use crate::api_server::{Person, TestServer};

const PATIENCE: Duration = Duration::from_secs(30);
const CANARY: &str = "canary-of-the-installation";

const CREATE_CLUSTER: &str =
    "mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) { id handle tags { name value } } }";
const UPDATE_CLUSTER: &str =
    "mutation ($id: ID!, $a: ClusterUpdateAttributes!) { updateCluster(id: $id, attributes: $a) {
    id tags { name value } } }";
const CREATE_GLOBAL: &str = "mutation ($service: ID, $a: GlobalServiceAttributes!) {
    createGlobalService(serviceId: $service, attributes: $a) { id } }";

fn tags(tags: &[(&str, &str)]) -> Value {
    tags.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

/// A global service of these attributes, whose instances keep the canary.
async fn global(person: &Person, repository: &Value, mut attributes: Value) -> Value {
    attributes["template"] = json!({
        "repositoryId": repository["id"], "git": {"ref": "main", "folder": "web"}, "namespace": "shop",
        "configuration": [{"name": "password", "value": CANARY}],
        "helm": {"values": format!("password: {CANARY}")},
    });
    person.data(CREATE_GLOBAL, json!({"a": attributes})).await["createGlobalService"]["id"].clone()
}

/// Handles of the clusters that a global service has instances on, once it has looked.
async fn instances(t: &TestServer, id: &Value) -> Vec<(String, String)> {
    let document = "query ($id: ID!) { globalService(id: $id) { spread error
        instances(first: 50) { edges { node { serviceId cluster { handle } } } } } }";
    eventually(PATIENCE, async || {
        let found = t.admin.data(document, json!({"id": id})).await["globalService"].clone();
        if found["spread"] != true {
            return Err(format!("{found}"));
        }
        let mut all: Vec<(String, String)> = found["instances"]["edges"]
            .as_array()
            .unwrap()
            .iter()
            .map(|edge| {
                let node = &edge["node"];
                (text(&node["cluster"]["handle"]), text(&node["serviceId"]))
            })
            .collect();
        all.sort();
        Ok(all)
    })
    .await
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

async fn cluster(person: &Person, name: &str, with: &[(&str, &str)]) -> Value {
    let attributes = json!({"name": name, "tags": tags(with)});
    person.data(CREATE_CLUSTER, json!({"a": attributes})).await["createCluster"].clone()
}

async fn bind(t: &TestServer, field: &str, id: &Value, rbac: Value) {
    let document =
        format!("mutation ($rbac: RbacAttributes!, $id: ID) {{ updateRbac(rbac: $rbac, {field}: $id) }}");
    t.admin.data(&document, json!({"rbac": rbac, "id": id})).await;
}

#[tokio::test]
async fn tags_that_choose_are_set_by_whom_may_change_what_they_choose_for() {
    let t = TestServer::start().await;
    let repository = t.admin.repository("https://git.example.com/a.git").await;
    let everywhere =
        global(&t.admin, &repository, json!({"name": "everywhere", "tags": tags(&[("tier", "prod")])})).await;
    let ours = json!({"name": "ours", "projectId": t.project, "tags": tags(&[("team", "a")])});
    global(&t.owner, &repository, ours).await;
    let cohort = json!({"cohorts": [{"name": "first", "members": {"tag": {"name": "wave", "value": "1"}}}]});
    let slowly = json!({"name": "slowly", "tags": tags(&[("nowhere", "at all")]), "rollout": cohort});
    global(&t.admin, &repository, slowly).await;
    let namespace = json!({"name": "team-space", "target": {"tags": {"space": "on"}}});
    t.admin
        .data(
            "mutation ($a: ManagedNamespaceAttributes!) { createManagedNamespace(attributes: $a) { id } }",
            json!({"a": namespace}),
        )
        .await;
    let hand = t.admin.add_user("hand@example.com").await;
    let blue = cluster(&t.admin, "blue", &[("tier", "dev"), ("free", "1")]).await;
    bind(&t, "clusterId", &blue["id"], json!({"writeBindings": [{"userId": hand.id}]})).await;

    // Whoever administers the project makes clusters, but not with these.
    for (name, value, outcome) in [
        ("tier", "prod", "FORBIDDEN"),
        ("tier", "dev", "FORBIDDEN"),
        ("nowhere", "", "FORBIDDEN"),
        ("wave", "2", "FORBIDDEN"),
        ("space", "on", "FORBIDDEN"),
        ("team", "a", "OK"),
        ("TIER", "prod", "OK"),
        ("free", "1", "OK"),
    ] {
        let attributes = json!({"name": format!("c-{}-{value}", name.to_lowercase()).trim_end_matches('-'),
            "handle": format!("c{}{value}{}", name.to_lowercase(), name.starts_with('T')), "tags": tags(&[("also", "1"), (name, value)])});
        let answer = t.owner.ask(CREATE_CLUSTER, json!({"a": attributes})).await;
        assert_eq!(answer.outcome(), outcome, "{name}={value}: {answer:?}");
        if outcome == "FORBIDDEN" {
            let message = answer.message();
            assert!(message.contains(&format!("{name:?}")) && message.contains("administrator"), "{message}");
        }
    }
    // Nor do they change, or take away, what an administrator set.
    let same = tags(&[("tier", "dev"), ("free", "1")]);
    for (person, attributes, outcome) in [
        (&t.owner, json!({"tags": tags(&[("tier", "prod"), ("free", "1")])}), "FORBIDDEN"),
        (&t.owner, json!({"tags": tags(&[("free", "1")])}), "FORBIDDEN"),
        (&t.owner, json!({"tags": []}), "FORBIDDEN"),
        (&t.owner, json!({"setTags": tags(&[("tier", "prod")])}), "FORBIDDEN"),
        (&t.owner, json!({"removeTags": ["tier"]}), "FORBIDDEN"),
        (&t.owner, json!({"setTags": tags(&[("x", "1")]), "removeTags": ["free", "tier"]}), "FORBIDDEN"),
        (&t.owner, json!({"name": "renamed", "tags": same}), "OK"),
        (&t.owner, json!({"setTags": tags(&[("tier", "dev"), ("free", "2")])}), "OK"),
        (&t.owner, json!({"name": "blue"}), "OK"),
        // Who may change the cluster alone does not decide for the project.
        (&hand, json!({"setTags": tags(&[("free", "3")])}), "OK"),
        (&hand, json!({"setTags": tags(&[("team", "a")])}), "FORBIDDEN"),
        (&t.owner, json!({"setTags": tags(&[("team", "a")])}), "OK"),
        (&hand, json!({"removeTags": ["team"]}), "FORBIDDEN"),
        (&t.reader, json!({"setTags": tags(&[("free", "4")])}), "FORBIDDEN"),
        (&t.stranger, json!({"setTags": tags(&[("tier", "prod")])}), "NOT_FOUND"),
    ] {
        let answer = person.ask(UPDATE_CLUSTER, json!({"id": blue["id"], "a": attributes})).await;
        assert_eq!(answer.outcome(), outcome, "{attributes}: {answer:?}");
    }
    let told = hand.ask(UPDATE_CLUSTER, json!({"id": blue["id"], "a": {"removeTags": ["team"]}})).await;
    assert!(told.message().contains("\"team\"") && told.message().contains("project"), "{told:?}");
    assert!(instances(&t, &everywhere).await.is_empty());
    let to_prod = json!({"setTags": tags(&[("tier", "prod")])});
    let answer = t.admin.ask(UPDATE_CLUSTER, json!({"id": blue["id"], "a": to_prod})).await;
    assert_eq!(answer.outcome(), "OK", "{answer:?}");
    eventually(PATIENCE, async || {
        let found = instances(&t, &everywhere).await;
        if found.len() == 1 && found[0].0 == "blue" { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

#[tokio::test]
async fn tags_that_the_operator_protects_are_set_by_administrators() {
    let protected = ["tier", "org/*"].map(|tag| tag.parse().unwrap());
    let t = TestServer::with(|config| config.protected_tags = protected.into()).await;
    let blue = cluster(&t.admin, "blue", &[("tier", "prod"), ("org/unit", "a")]).await;
    for (attributes, outcome) in [
        (json!({"setTags": tags(&[("tier", "dev")])}), "FORBIDDEN"),
        (json!({"removeTags": ["org/unit"]}), "FORBIDDEN"),
        (json!({"setTags": tags(&[("org/other", "a")])}), "FORBIDDEN"),
        (json!({"tags": tags(&[("org/unit", "a")])}), "FORBIDDEN"),
        (json!({"setTags": tags(&[("organisation", "a"), ("tier2", "a")])}), "OK"),
    ] {
        let answer = t.owner.ask(UPDATE_CLUSTER, json!({"id": blue["id"], "a": attributes})).await;
        assert_eq!(answer.outcome(), outcome, "{attributes}: {answer:?}");
    }
    let with = json!({"name": "green", "tags": tags(&[("org/unit", "a")])});
    let answer = t.owner.ask(CREATE_CLUSTER, json!({"a": with})).await;
    assert!(answer.outcome() == "FORBIDDEN" && answer.message().contains("\"org/unit\""), "{answer:?}");
    t.admin.data(UPDATE_CLUSTER, json!({"id": blue["id"], "a": {"removeTags": ["org/unit"]}})).await;
}

#[tokio::test]
async fn a_tag_that_was_there_before_counts_only_if_it_was_set_by_whom_it_takes() {
    let t = TestServer::start().await;
    let hand = t.admin.add_user("hand@example.com").await;
    let squat = cluster(&t.owner, "squat", &[("tier", "prod")]).await;
    let held = cluster(&t.owner, "held", &[]).await;
    bind(&t, "clusterId", &held["id"], json!({"writeBindings": [{"userId": hand.id}]})).await;
    hand.data(UPDATE_CLUSTER, json!({"id": held["id"], "a": {"setTags": tags(&[("tier", "prod")])}})).await;
    cluster(&t.admin, "meant", &[("tier", "prod")]).await;
    let repository = t.admin.repository("https://git.example.com/a.git").await;
    let everywhere =
        global(&t.admin, &repository, json!({"name": "everywhere", "tags": tags(&[("tier", "prod")])})).await;
    let ours = json!({"name": "ours", "projectId": t.project, "tags": tags(&[("tier", "prod")])});
    let ours = global(&t.owner, &repository, ours).await;
    let handles = async |id: &Value| -> Vec<String> {
        instances(&t, id).await.into_iter().map(|(handle, _)| handle).collect()
    };
    assert_eq!(handles(&everywhere).await, ["meant"]);
    assert_eq!(handles(&ours).await, ["meant", "squat"], "whoever set it may change this one");
    // A list of all tags repeats what is there; a name is said on purpose.
    let same = json!({"tags": tags(&[("tier", "prod")])});
    t.admin.data(UPDATE_CLUSTER, json!({"id": squat["id"], "a": same})).await;
    let named = json!({"setTags": tags(&[("tier", "prod")])});
    t.admin.data(UPDATE_CLUSTER, json!({"id": held["id"], "a": named})).await;
    eventually(PATIENCE, async || {
        let found = handles(&everywhere).await;
        if found == ["held", "meant"] { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

#[tokio::test]
async fn secrets_of_instances_are_read_by_whom_may_change_the_global_service() {
    let t = TestServer::start().await;
    let repository = t.admin.repository("https://git.example.com/a.git").await;
    let blue = cluster(&t.admin, "blue", &[("tier", "prod")]).await;
    let everywhere =
        global(&t.admin, &repository, json!({"name": "everywhere", "tags": tags(&[("tier", "prod")])})).await;
    let ours = json!({"name": "ours", "projectId": t.project, "tags": tags(&[("tier", "prod")])});
    let ours = global(&t.owner, &repository, ours).await;
    let theirs = instances(&t, &everywhere).await[0].1.clone();
    let own = instances(&t, &ours).await[0].1.clone();

    let look =
        "query ($id: ID!) { serviceDeployment(id: $id) { name configuration { name value } helm { values } }
        serviceDeployments(first: 10) { edges { node { id configuration { value } } } }
        cluster(handle: \"blue\") { id } }";
    let ways: [(&str, Value); 3] = [
        ("query ($id: ID!) { serviceTarball(id: $id) { path content } }", json!({})),
        (
            "mutation ($id: ID!, $cluster: ID!) { cloneService(clusterId: $cluster, serviceId: $id, attributes: {name: \"copy\"}) { id } }",
            json!({"cluster": blue["id"]}),
        ),
        (
            "mutation ($id: ID!, $project: ID!) { createGlobalService(serviceId: $id, attributes:
               {name: \"copies\", projectId: $project, tags: [{name: \"no\", value: \"where\"}]}) { id } }",
            json!({"project": t.project}),
        ),
    ];
    let hidden = async |person: &Person, id: &str, why: &str| {
        let found = person.data(look, json!({"id": id})).await;
        assert!(!found["serviceDeployment"]["name"].is_null(), "it is seen: {found}");
        assert!(found["serviceDeployment"]["configuration"].is_null(), "{why}: {found}");
        assert!(found["serviceDeployment"]["helm"]["values"].is_null(), "{why}: {found}");
        let list = found["serviceDeployments"]["edges"].as_array().unwrap().iter();
        let listed = list.filter(|edge| edge["node"]["id"] == id).map(|edge| &edge["node"]["configuration"]);
        assert!(listed.clone().count() == 1 && listed.clone().all(Value::is_null), "{why}: {found}");
        for (document, more) in &ways {
            let mut variables = more.clone();
            variables["id"] = json!(id);
            let answer = person.ask(document, variables).await;
            assert_eq!(answer.outcome(), "FORBIDDEN", "{why}: {document}: {answer:?}");
            assert!(answer.message().contains("write access"), "{answer:?}");
        }
    };
    hidden(&t.owner, &theirs, "an administrator of the project, not of the installation").await;
    for (person, id) in [(&t.admin, &theirs), (&t.admin, &own), (&t.owner, &own)] {
        let found = person.data(look, json!({"id": id})).await;
        let found = &found["serviceDeployment"];
        assert_eq!(found["configuration"], json!([{"name": "password", "value": CANARY}]), "{found}");
        assert_eq!(found["helm"]["values"], format!("password: {CANARY}"));
    }
    // Let go, they are services of their own; what they keep is not.
    for id in [&everywhere, &ours] {
        t.admin.data("mutation ($id: ID!) { deleteGlobalService(id: $id) { id } }", json!({"id": id})).await;
    }
    eventually(PATIENCE, async || {
        let update = "mutation ($id: ID!) { updateServiceDeployment(id: $id, attributes: {version: \"1.2.3\"}) { id } }";
        let answers = [
            t.owner.ask(update, json!({"id": theirs})).await.outcome(),
            t.owner.ask(update, json!({"id": own})).await.outcome(),
        ];
        if answers == ["OK", "OK"] { Ok(()) } else { Err(format!("{answers:?}")) }
    })
    .await;
    hidden(&t.owner, &theirs, "after it was let go").await;
    let found = t.owner.data(look, json!({"id": own})).await;
    assert_eq!(found["serviceDeployment"]["configuration"][0]["value"], CANARY);
    let found = t.admin.data(look, json!({"id": theirs})).await;
    assert_eq!(found["serviceDeployment"]["configuration"][0]["value"], CANARY);
}

/// The lines of the audit log with these actions, once there are as many.
async fn lines(t: &TestServer, prefix: &str, least: usize) -> Vec<Value> {
    let document = "{ audits(last: 100) { edges { node { action actorName noun targetId targetName times
        actor { email } } } } }";
    eventually(PATIENCE, async || {
        let found = t.admin.data(document, json!({})).await;
        let all = found["audits"]["edges"].as_array().unwrap().iter().map(|edge| edge["node"].clone());
        let all: Vec<Value> =
            all.filter(|line| line["action"].as_str().unwrap().starts_with(prefix)).collect();
        if all.len() >= least { Ok(all) } else { Err(format!("{all:?}")) }
    })
    .await
}

#[tokio::test]
async fn who_reads_secrets_is_told_and_not_what_they_are() {
    let t = TestServer::start().await;
    let blue = t.owner.cluster("blue").await;
    let repository = t.owner.repository("https://git.example.com/a.git").await;
    let web = t.owner.service(&blue, &repository, "web").await;
    let api = t.owner.service(&blue, &repository, "api").await;
    let names = "query ($id: ID!) { serviceDeployment(id: $id) { configuration { name } } }";
    let found = t.owner.data(names, json!({"id": web["id"]})).await;
    assert_eq!(found["serviceDeployment"]["configuration"], json!([{"name": "password"}]));
    let read = lines(&t, "service.configuration.read", 0).await;
    assert!(read.is_empty(), "names are no secrets: {read:?}");
    let one = "query ($id: ID!) { serviceDeployment(id: $id) { configuration { ...V } } } fragment V on ServiceConfiguration { value }";
    for _ in 0..20 {
        t.owner.data(one, json!({"id": web["id"]})).await;
        t.reader.data(one, json!({"id": web["id"]})).await;
    }
    // At once: it is stored before the answer.
    let found = lines(&t, "service.configuration.read", 1).await;
    assert_eq!(found.len(), 1, "the same again is counted, and a reader read nothing: {found:?}");
    assert_eq!(
        found[0],
        json!({"action": "service.configuration.read", "actorName": "owner@example.com", "noun": "service",
            "targetId": web["id"], "targetName": "web", "times": 1, "actor": {"email": "owner@example.com"}})
    );
    t.admin
        .data("{ serviceDeployments(first: 10) { edges { node { configuration { value } } } } }", json!({}))
        .await;
    let found = lines(&t, "service.configuration.read", 2).await;
    assert_eq!(found[1]["targetName"], "api, web", "{found:?}");
    let secret = t.admin.data("{ webhookSecret }", json!({})).await["webhookSecret"].clone();
    assert_eq!(lines(&t, "webhook.secret.read", 1).await[0]["actorName"], "admin@example.com");
    let gate = "query ($id: ID!) { serviceGateUrl(id: $id) }";
    let gate = t.owner.ask(gate, json!({"id": api["id"]})).await;
    if gate.outcome() == "OK" {
        assert_eq!(lines(&t, "service.gate.read", 1).await[0]["targetId"], api["id"]);
    }
    let all = json!(lines(&t, "", 1).await).to_string();
    for value in ["s3cret", secret.as_str().unwrap(), "correct horse"] {
        assert!(!all.contains(value), "{value}: {all}");
    }
}

#[tokio::test]
async fn who_is_refused_is_told_and_fills_nothing() {
    let t = TestServer::start().await;
    let blue = t.owner.cluster("blue").await;
    let rename = json!({"id": blue["id"], "a": {"name": "mine"}});
    let read = "query ($id: ID!) { cluster(id: $id) { id auditLogs(first: 1) { edges { node { id } } } } }";
    for _ in 0..50 {
        assert_eq!(t.reader.ask(UPDATE_CLUSTER, rename.clone()).await.outcome(), "FORBIDDEN");
        assert_eq!(t.stranger.ask(UPDATE_CLUSTER, rename.clone()).await.outcome(), "NOT_FOUND");
        assert_eq!(t.stranger.ask(read, json!({"id": blue["id"]})).await.outcome(), "NOT_FOUND");
        assert_eq!(t.reader.ask(read, json!({"id": blue["id"]})).await.outcome(), "FORBIDDEN");
    }
    assert_eq!(t.owner.ask("{ webhookSecret }", json!({})).await.outcome(), "FORBIDDEN");
    let found = lines(&t, "refused.", 4).await;
    let mut told: Vec<(&str, &str, &str)> = found
        .iter()
        .map(|line| {
            let text = |field: &str| line[field].as_str().unwrap();
            (text("action"), text("actorName"), text("targetName"))
        })
        .collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [
            ("refused.auditLogs", "reader@example.com", "FORBIDDEN"),
            ("refused.updateCluster", "reader@example.com", "FORBIDDEN"),
            ("refused.updateCluster", "stranger@example.com", "NOT_FOUND"),
            ("refused.webhookSecret", "owner@example.com", "FORBIDDEN"),
        ],
        "a hidden thing that was only looked for is no news"
    );

    // Sign-ins, and what was typed where it does not belong.
    let sign_in = "mutation ($email: String!, $password: String!) { signIn(email: $email, password: $password) { id } }";
    for (email, password) in [
        ("owner@example.com", "typed-into-password"),
        ("owner@example.com", "typed-into-password"),
        ("typed-into-email", "x"),
        ("typed-into-email@example.com", "typed-into-password"),
    ] {
        let answer = t.nobody.ask(sign_in, json!({"email": email, "password": password})).await;
        assert_ne!(answer.outcome(), "OK");
    }
    t.nobody.with_token("console-typed-into-token").ask("{ me { id } }", json!({})).await;
    let found = lines(&t, "session.refused", 2).await;
    let known: Vec<&Value> = found.iter().filter(|line| line["targetName"] == "owner@example.com").collect();
    assert!(!known.is_empty() && known.iter().all(|line| line["targetId"] == json!(t.owner.id)), "{found:?}");
    assert!(
        found.iter().all(|line| line["actorName"] == "nobody at 127.0.0.1" && line["actor"].is_null()),
        "{found:?}"
    );
    let token = lines(&t, "refused.token", 1).await;
    assert_eq!(token[0]["targetName"], "UNAUTHENTICATED");
    let all = json!(lines(&t, "", 1).await).to_string();
    assert!(!all.contains("typed-into"), "{all}");
    // Who could sign in is there as well.
    assert!(!lines(&t, "session.create", 1).await.is_empty());
}
