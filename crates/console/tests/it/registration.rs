//! Registration tokens: a machine makes clusters of one project, and does nothing else.

use std::collections::BTreeSet;

use futures::future::join_all;
use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use crate::api_server::{Answer, Person, TestServer};

each_database!(
    a_machine_makes_clusters_of_its_project,
    a_registration_token_takes_over_no_handle,
    what_its_maker_may_not_do_a_token_does_not,
    a_limit_counts_machines_that_start_at_once,
);

const MAKE: &str = "mutation ($a: BootstrapTokenAttributes!, $p: String) {
    createBootstrapToken(attributes: $a, currentPassword: $p) {
        id token hint name prefix limit uses expiresAt madeWith user { id } project { id } tags { name value } } }";
const REGISTER: &str = "mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) {
    id handle name deployToken joinToken joinTokenExpiresAt agentUrl tags { name value } } }";

impl Person {
    /// A machine with a new registration token of the default project, that this person makes; and the token.
    async fn machine(&self, t: &TestServer, more: Value) -> (Person, Value) {
        let mut attributes = json!({"projectId": t.project});
        attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = self.data(MAKE, json!({"a": attributes})).await["createBootstrapToken"].clone();
        (t.nobody.with_token(made["token"].as_str().unwrap()), made)
    }

    async fn register(&self, attributes: Value) -> Answer {
        self.ask(REGISTER, json!({"a": attributes})).await
    }

    async fn registration(&self, id: &Value) -> Value {
        let ask = "query ($id: ID!) { bootstrapToken(id: $id) { token hint uses lastUsedAt } }";
        self.data(ask, json!({"id": id})).await["bootstrapToken"].clone()
    }
}

fn cluster(answer: &Answer) -> Value {
    assert_eq!(answer.outcome(), "OK", "{answer:?}");
    answer.body["data"]["createCluster"].clone()
}

async fn a_machine_makes_clusters_of_its_project(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let terms =
        json!({"name": "shops", "prefix": "shop-", "tags": [{"name": "stage", "value": "edge"}], "limit": 5});
    let (machine, token) = t.owner.machine(&t, terms).await;
    assert!(token["token"].as_str().unwrap().starts_with("register-"), "{token}");
    assert_eq!((&token["user"]["id"], &token["project"]["id"]), (&json!(t.owner.id), &json!(t.project)));
    assert_eq!((&token["uses"], &token["limit"], &token["prefix"]), (&json!(0), &json!(5), &json!("shop-")));

    let wish = json!({"name": "Shop 7", "handle": "berlin-7", "tags": [{"name": "shop", "value": "7"}]});
    let made = cluster(&machine.register(wish.clone()).await);
    assert_eq!(made["handle"], "shop-berlin-7");
    let tags: BTreeSet<String> = made["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| format!("{}={}", tag["name"].as_str().unwrap(), tag["value"].as_str().unwrap()))
        .collect();
    assert_eq!(tags, ["shop=7".to_owned(), "stage=edge".to_owned()].into());
    let deploy = made["deployToken"].as_str().unwrap();
    assert!(t.console.app().agent_authenticate(deploy).is_ok());
    assert!(made["joinToken"].as_str().unwrap().starts_with("join-"), "{made}");
    // Its text is told once; that it was used is told to those who see the project.
    let known = t.reader.registration(&token["id"]).await;
    assert_eq!((&known["token"], &known["uses"]), (&Value::Null, &json!(1)));
    assert!(known["lastUsedAt"].is_string(), "{known}");

    // The machine starts again before its agent was heard of: the same cluster, with other tokens.
    let again = cluster(&machine.register(wish.clone()).await);
    assert_eq!(again["id"], made["id"]);
    assert_ne!(again["deployToken"], made["deployToken"]);
    assert!(t.console.app().agent_authenticate(deploy).is_err(), "the token before has ended");
    assert_eq!(t.reader.registration(&token["id"]).await["uses"], 1);

    // Once an agent has joined, it is not its to ask for any more.
    let app = t.console.app();
    let join = app.agent_join_authenticate(again["joinToken"].as_str().unwrap()).unwrap();
    let drawn = format!("deploy-{}", "0123456789abcdef".repeat(4));
    app.agent_join(&join, &drawn).await.unwrap();
    assert_eq!(machine.register(wish).await.outcome(), "CONFLICT");
    assert!(app.agent_authenticate(&drawn).is_ok(), "the agent goes on");

    // What the audit log says of it.
    let ask = "{ audits(first: 100) { edges { node { action actorName targetName actor { id } } } } }";
    let lines = t.admin.data(ask, json!({})).await["audits"]["edges"].as_array().unwrap().clone();
    let by = format!("owner@example.com (registration token {})", token["hint"].as_str().unwrap());
    let told: Vec<&str> = lines
        .iter()
        .filter(|line| line["node"]["actorName"] == by && line["node"]["actor"]["id"] == json!(t.owner.id))
        .map(|line| line["node"]["action"].as_str().unwrap())
        .collect();
    assert!(told.contains(&"cluster.create") && told.contains(&"cluster.register"), "{told:?}");

    // Revoked, it ends at once.
    let delete = "mutation ($id: ID!) { deleteBootstrapToken(id: $id) { id } }";
    t.owner.data(delete, json!({"id": token["id"]})).await;
    assert_eq!(machine.register(json!({"name": "late"})).await.outcome(), "401");
    t.stop().await;
}

async fn a_registration_token_takes_over_no_handle(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let (machine, _) = t.owner.machine(&t, json!({})).await;
    let (other, _) = t.owner.machine(&t, json!({})).await;
    let taken = "a cluster with this handle already exists; choose another";
    // Of a user, of another token, in another project.
    let by_hand = t.admin.cluster("by-hand").await;
    let by_other = cluster(&other.register(json!({"name": "by-other"})).await);
    let project = "mutation { createProject(attributes: {name: \"elsewhere\"}) { id } }";
    let elsewhere = t.admin.data(project, json!({})).await["createProject"]["id"].clone();
    let create = "mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) { id deployToken } }";
    t.admin.data(create, json!({"a": {"name": "far", "projectId": elsewhere}})).await;
    for handle in ["by-hand", "by-other", "far"] {
        let answer = machine.register(json!({"name": handle, "handle": handle})).await;
        assert_eq!((answer.outcome().as_str(), answer.message()), ("CONFLICT", taken), "{handle}");
    }
    for known in [by_hand, by_other] {
        let token = known["deployToken"].as_str().unwrap();
        assert!(t.console.app().agent_authenticate(token).is_ok(), "{known}");
    }
    // Nor does it choose another project, or who may do what, or tags that are somebody else's to give.
    let secret = json!({
        "name": "everywhere", "projectId": t.project, "tags": [{"name": "stage", "value": "prod"}],
        "template": {"namespace": "a", "repositoryId": t.admin.repository("/nowhere/a").await["id"], "git": {"ref": "main", "folder": "a"}},
    });
    let create = "mutation ($a: GlobalServiceAttributes!) { createGlobalService(attributes: $a) { id } }";
    t.admin.data(create, json!({"a": secret})).await;
    for (attributes, expected) in [
        (json!({"name": "a", "projectId": elsewhere}), "NOT_FOUND"),
        (json!({"name": "a", "readBindings": [{"userId": t.stranger.id}]}), "FORBIDDEN"),
        (json!({"name": "a", "writeBindings": [{"userId": t.stranger.id}]}), "FORBIDDEN"),
        (json!({"name": "a", "tags": [{"name": "stage", "value": "prod"}]}), "FORBIDDEN"),
        (json!({"name": "a", "projectId": t.project, "tags": [{"name": "free", "value": "x"}]}), "OK"),
    ] {
        let answer = machine.register(attributes.clone()).await;
        assert_eq!(answer.outcome(), expected, "{attributes}: {answer:?}");
    }
    t.stop().await;
}

async fn what_its_maker_may_not_do_a_token_does_not(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let bind = async |rbac: Value| {
        let document = "mutation ($r: RbacAttributes!, $id: ID) { updateRbac(rbac: $r, projectId: $id) }";
        t.admin.data(document, json!({"r": rbac, "id": t.project})).await;
    };
    let (machine, _) = t.owner.machine(&t, json!({})).await;
    assert_eq!(machine.register(json!({"name": "one"})).await.outcome(), "OK");
    // Only who may make clusters makes tokens for it.
    for (person, expected) in [(&t.reader, "FORBIDDEN"), (&t.stranger, "NOT_FOUND")] {
        let answer = person.ask(MAKE, json!({"a": {"projectId": t.project}})).await;
        assert_eq!(answer.outcome(), expected, "{answer:?}");
    }
    // The maker may only look any more.
    bind(json!({"readBindings": [{"userId": t.owner.id}], "adminBindings": []})).await;
    let answer = machine.register(json!({"name": "two"})).await;
    assert_eq!(answer.outcome(), "FORBIDDEN", "{answer:?}");
    bind(json!({"adminBindings": [{"userId": t.owner.id}]})).await;
    assert_eq!(machine.register(json!({"name": "two"})).await.outcome(), "OK");

    // A service account in the maker's place: one that they may assume, and that may make clusters.
    let create = "mutation ($a: ServiceAccountAttributes!) { createServiceAccount(attributes: $a) { id } }";
    let made = t.owner.data(create, json!({"a": {"name": "registrar", "projectId": t.project}})).await;
    let account = made["createServiceAccount"]["id"].clone();
    let wish = json!({"projectId": t.project, "userId": account});
    assert_eq!(t.owner.ask(MAKE, json!({"a": wish})).await.outcome(), "INVALID");
    let give =
        "mutation ($p: ID, $u: ID!) { changeBindings(role: WRITE, add: [{userId: $u}], projectId: $p) }";
    t.admin.data(give, json!({"p": t.project, "u": account})).await;
    for other in [&t.stranger.id, &t.reader.id] {
        let wish = json!({"projectId": t.project, "userId": other});
        assert_eq!(t.owner.ask(MAKE, json!({"a": wish})).await.outcome(), "NOT_FOUND");
    }
    let (of_account, token) = t.owner.machine(&t, json!({"userId": account})).await;
    assert_eq!(token["user"]["id"], account);
    assert_eq!(of_account.register(json!({"name": "three"})).await.outcome(), "OK");
    // With the maker who left, their token goes; that of the service account stays.
    t.admin.data("mutation ($id: ID!) { deleteUser(id: $id) { id } }", json!({"id": t.owner.id})).await;
    assert_eq!(machine.register(json!({"name": "four"})).await.outcome(), "401");
    assert_eq!(of_account.register(json!({"name": "four"})).await.outcome(), "OK");
    let delete = "mutation ($id: ID!) { deleteServiceAccount(id: $id) { id } }";
    t.admin.data(delete, json!({"id": account})).await;
    assert_eq!(of_account.register(json!({"name": "five"})).await.outcome(), "401");

    // One that outlasts a login that is not fresh needs the password; one that does not, ends with it.
    let day = "mutation { createAccessToken(validForSeconds: 86400) { token } }";
    let script = t.admin.data(day, json!({})).await;
    let script = t.nobody.with_token(script["createAccessToken"]["token"].as_str().unwrap());
    let long = json!({"a": {"projectId": t.project}});
    assert_eq!(script.ask(MAKE, long.clone()).await.outcome(), "FORBIDDEN");
    let proven = json!({"a": {"projectId": t.project}, "p": "correct horse battery"});
    let proven = script.data(MAKE, proven).await["createBootstrapToken"].clone();
    assert_eq!(proven["madeWith"], Value::Null);
    let (short, token) = script.machine(&t, json!({"expiry": "1h"})).await;
    assert!(token["madeWith"].is_string(), "{token}");
    assert_eq!(short.register(json!({"name": "six"})).await.outcome(), "OK");
    let revoke = "mutation ($t: String!) { deleteAccessToken(token: $t) { id } }";
    t.admin.data(revoke, json!({"t": script.token})).await;
    assert_eq!(short.register(json!({"name": "seven"})).await.outcome(), "401");
    let lasting = t.nobody.with_token(proven["token"].as_str().unwrap());
    assert_eq!(lasting.register(json!({"name": "seven"})).await.outcome(), "OK");
    t.stop().await;
}

async fn a_limit_counts_machines_that_start_at_once(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let (machine, token) = t.owner.machine(&t, json!({"limit": 3})).await;
    let names: Vec<String> = (0..8).map(|number| format!("edge-{number}")).collect();
    let answers = join_all(names.iter().map(|name| machine.register(json!({"name": name})))).await;
    let made = answers.iter().filter(|answer| answer.outcome() == "OK").count();
    let refused = answers.iter().filter(|answer| answer.outcome() == "CONFLICT").count();
    assert_eq!((made, refused), (3, 5), "{answers:?}");
    assert_eq!(t.owner.registration(&token["id"]).await["uses"], 3);
    for wrong in
        [json!({"limit": 0}), json!({"limit": -1}), json!({"prefix": "-a"}), json!({"expiry": "400d"})]
    {
        let mut attributes = json!({"projectId": t.project});
        attributes.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        assert_eq!(t.owner.ask(MAKE, json!({"a": attributes})).await.outcome(), "INVALID", "{wrong}");
    }
    t.stop().await;
}
