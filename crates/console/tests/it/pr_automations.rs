//! PR automations over the API: what they may change, who may, and what is refused.

use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use crate::api_server::{Answer, Person, TestServer};

each_database!(
    an_automation_changes_repositories_of_its_connection_only,
    who_may_write_one_decides_not_about_connections_of_others,
    whoever_has_create_may_open_pull_requests_and_change_nothing,
    what_is_not_built_is_refused_by_name,
    what_it_uses_stays_and_what_it_is_about_may_go,
    one_that_a_later_release_wrote_keeps_nobody_from_the_others,
);

const CREATE: &str =
    "mutation ($a: PrAutomationAttributes!) { createPrAutomation(attributes: $a) { id identifier } }";
const UPDATE: &str = "mutation ($id: ID!, $a: PrAutomationAttributes!) { updatePrAutomation(id: $id, attributes: $a) { id name identifier documentation updatedAt } }";

struct World {
    t: TestServer,
    /// A connection of the project, which may touch `acme/*`.
    ours: Value,
}

impl World {
    async fn new(database: &TestDatabase) -> Self {
        let t = TestServer::on(database).await;
        let ours =
            connect(&t, json!({"projectId": t.project, "repositories": ["acme/*"], "owner": "acme"})).await;
        Self { t, ours }
    }

    async fn create(&self, by: &Person, more: Value) -> Answer {
        let name = format!("pr-{}", uuid::Uuid::now_v7().simple());
        let mut attributes = json!({
            "name": name, "title": "Add {{ context.name }}", "message": "Adds it", "projectId": self.t.project,
            "connectionId": self.ours,
        });
        attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        by.ask(CREATE, json!({"a": attributes})).await
    }

    /// One that an administrator makes.
    async fn made(&self, more: Value) -> Value {
        let made = self.create(&self.t.admin, more).await;
        assert_eq!(made.outcome(), "OK", "{made:?}");
        made.body["data"]["createPrAutomation"]["id"].clone()
    }

    async fn update(&self, by: &Person, id: &Value, attributes: Value) -> Answer {
        by.ask(UPDATE, json!({"id": id, "a": attributes})).await
    }
}

/// What an error is about.
fn field(answer: &Answer) -> &str {
    answer.body["errors"][0]["extensions"]["field"].as_str().unwrap_or_default()
}

async fn connect(t: &TestServer, more: Value) -> Value {
    let name = format!("scm-{}", uuid::Uuid::now_v7().simple());
    let mut attributes = json!({"name": name, "type": "GITHUB", "token": "a-token"});
    attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    t.admin.scm_connection(&attributes).await
}

async fn one_that_a_later_release_wrote_keeps_nobody_from_the_others(database: TestDatabase) {
    let w = World::new(&database).await;
    let id = w.made(json!({"name": "later"})).await;
    w.made(json!({"name": "known"})).await;
    w.t.sql("UPDATE pr_automations SET spec = '{\"title\": \"A\", \"message\": \"B\", \"later\": 1}' WHERE name = 'later'").await;
    let list = "{ prAutomations { edges { node { name } } } }";
    let listed = w.t.admin.data(list, json!({})).await["prAutomations"]["edges"].clone();
    assert_eq!(listed, json!([{"node": {"name": "known"}}]));
    // Whoever names it is told that something is wrong.
    let read = "query ($id: ID!) { prAutomation(id: $id) { name } }";
    let refused = w.t.admin.ask(read, json!({"id": id})).await;
    assert_ne!(refused.outcome(), "OK", "{refused:?}");
    w.t.stop().await;
}

async fn an_automation_changes_repositories_of_its_connection_only(database: TestDatabase) {
    let w = World::new(&database).await;
    let made = w.create(&w.t.admin, json!({"identifier": "shop"})).await;
    assert_eq!(made.body["data"]["createPrAutomation"]["identifier"], "acme/shop", "{made:?}");
    for identifier in ["evil/shop", "acme/../evil", "mgmt", "https://github.com/acme/shop"] {
        let refused = w.create(&w.t.admin, json!({"identifier": identifier})).await;
        assert_eq!(field(&refused), "attributes.identifier", "{identifier}: {refused:?}");
    }
    // A connection without patterns touches none.
    let none = connect(&w.t, json!({"projectId": w.t.project})).await;
    let refused = w.create(&w.t.admin, json!({"identifier": "acme/shop", "connectionId": none})).await;
    assert_eq!(field(&refused), "attributes.identifier", "{refused:?}");
    // Nor is another one a way around it.
    let id = w.made(json!({"identifier": "acme/shop"})).await;
    let refused = w.update(&w.t.admin, &id, json!({"connectionId": none})).await;
    assert_eq!(field(&refused), "attributes.identifier", "{refused:?}");
    let refused = w.update(&w.t.admin, &id, json!({"identifier": "evil/shop"})).await;
    assert_eq!(field(&refused), "attributes.identifier", "{refused:?}");
    let kept = w.update(&w.t.admin, &id, json!({"documentation": "More"})).await;
    assert_eq!(kept.body["data"]["updatePrAutomation"]["identifier"], "acme/shop", "{kept:?}");

    let create = "mutation { createProject(attributes: {name: \"elsewhere\"}) { id } }";
    let elsewhere = w.t.admin.data(create, json!({})).await["createProject"]["id"].clone();
    let theirs = connect(&w.t, json!({"projectId": elsewhere, "repositories": ["**"]})).await;
    let refused = w.create(&w.t.admin, json!({"connectionId": theirs})).await;
    assert_eq!(field(&refused), "attributes.connectionId", "{refused:?}");
    w.t.stop().await;
}

async fn who_may_write_one_decides_not_about_connections_of_others(database: TestDatabase) {
    let w = World::new(&database).await;
    let everywhere = connect(&w.t, json!({"repositories": ["infra/*"]})).await;
    let writer = w.t.admin.add_user("writer@example.com").await;
    let bind =
        "mutation ($u: ID!, $p: ID) { changeBindings(role: WRITE, add: [{userId: $u}], projectId: $p) }";
    w.t.admin.data(bind, json!({"u": writer.id, "p": w.t.project})).await;
    let made = w.create(&writer, json!({"identifier": "acme/shop"})).await;
    assert_eq!(made.outcome(), "OK", "{made:?}");
    // One of the whole installation is not even there for somebody who writes in a project.
    let refused = w.create(&writer, json!({"connectionId": everywhere, "identifier": "infra/live"})).await;
    assert_eq!(refused.outcome(), "NOT_FOUND", "{refused:?}");
    let id = w.made(json!({"connectionId": everywhere, "identifier": "infra/live"})).await;
    for attributes in [json!({"identifier": "infra/other"}), json!({"identifier": ""})] {
        let refused = w.update(&writer, &id, attributes).await;
        assert_eq!(refused.outcome(), "NOT_FOUND", "{refused:?}");
    }
    let changed = w.update(&writer, &id, json!({"documentation": "More"})).await;
    assert_eq!(changed.outcome(), "OK", "{changed:?}");
    // Nor where a pull request goes that is opened with it.
    let open =
        "mutation ($id: ID!) { createPullRequest(id: $id, identifier: \"infra/other\", context: {}) { id } }";
    let preview = "mutation ($id: ID!) { previewPullRequest(id: $id, identifier: \"infra/other\", context: {}) { patch } }";
    for document in [open, preview] {
        let refused = writer.ask(document, json!({"id": id})).await;
        assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
        assert!(refused.message().contains("the automation is for infra/live"), "{refused:?}");
    }
    w.t.stop().await;
}

async fn whoever_has_create_may_open_pull_requests_and_change_nothing(database: TestDatabase) {
    let w = World::new(&database).await;
    let developer = w.t.admin.add_user("developer@example.com").await;
    let reader = w.t.admin.add_user("looks@example.com").await;
    let other = w.made(json!({})).await;
    let id = w
        .made(json!({"createBindings": [{"userId": developer.id}], "readBindings": [{"userId": reader.id}]}))
        .await;
    let may = "query ($id: ID!) { prAutomation(id: $id) { mayCreate createBindings { user { email } } } }";
    for (person, expected) in [(&developer, true), (&reader, false), (&w.t.admin, true)] {
        let found = person.data(may, json!({"id": id})).await;
        assert_eq!(found["prAutomation"]["mayCreate"], expected, "{found}");
        let bound = json!([{"user": {"email": "developer@example.com"}}]);
        assert_eq!(found["prAutomation"]["createBindings"], bound, "{found}");
    }
    let check = "query ($t: String!) { accessDecision(verb: \"open\", thing: $t) { allowed action } }";
    let thing = format!("pr-automation/{}", id.as_str().unwrap());
    for (person, expected) in [(&developer, true), (&reader, false)] {
        let told = person.data(check, json!({"t": thing})).await["accessDecision"].clone();
        assert_eq!(told, json!({"allowed": expected, "action": "pr-create"}));
    }
    for person in [&developer, &reader] {
        let refused = w.update(person, &id, json!({"documentation": "Mine"})).await;
        assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
        let hidden = person.ask(may, json!({"id": other})).await;
        assert_eq!(hidden.outcome(), "NOT_FOUND", "{hidden:?}");
        let listed = person.data("{ prAutomations { edges { node { id } } } }", json!({})).await;
        assert_eq!(listed["prAutomations"]["edges"], json!([{"node": {"id": id}}]));
    }
    w.t.stop().await;
}

async fn what_is_not_built_is_refused_by_name(database: TestDatabase) {
    let w = World::new(&database).await;
    let id = w.t.project.clone();
    for (more, expected) in [
        (json!({"ai": {"prompt": "make it so"}}), "attributes.ai"),
        (json!({"catalogId": id}), "attributes.catalogId"),
        (json!({"proxy": {"url": "http://proxy.example.com:3128"}}), "attributes.proxy"),
        (json!({"connectionId": null}), "attributes.connectionId"),
        (json!({"title": ""}), "attributes.title"),
        (json!({"configuration": [{"name": "a", "type": "DOMAIN"}]}), "attributes.configuration.type"),
        (
            json!({"creates": {"templates": [{"source": "a", "destination": "../b", "external": false}]}}),
            "attributes.creates",
        ),
        (
            json!({"creates": {"templates": [{"source": "a", "destination": "b", "external": true}]}}),
            "attributes.repositoryId",
        ),
    ] {
        let refused = w.create(&w.t.admin, more.clone()).await;
        assert!(field(&refused).starts_with(expected), "{more}: {refused:?}");
    }
    let listed = w.t.admin.data("{ prAutomations { edges { node { id } } } }", json!({})).await;
    assert_eq!(listed["prAutomations"]["edges"], json!([]));
    w.t.stop().await;
}

async fn what_it_uses_stays_and_what_it_is_about_may_go(database: TestDatabase) {
    let w = World::new(&database).await;
    let cluster = w.t.admin.cluster("blue").await;
    let id = w.made(json!({"clusterId": cluster["id"], "createBindings": []})).await;
    let delete = "mutation ($id: ID!) { deleteScmConnection(id: $id) { id } }";
    let refused = w.t.admin.ask(delete, json!({"id": w.ours})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    let detach = "mutation ($id: ID!) { detachCluster(id: $id) { id } }";
    w.t.admin.data(detach, json!({"id": cluster["id"]})).await;
    let about = "query ($id: ID!) { prAutomation(id: $id) { cluster { id } connection { id } } }";
    let found = w.t.admin.data(about, json!({"id": id})).await["prAutomation"].clone();
    assert_eq!(found, json!({"cluster": null, "connection": {"id": w.ours}}));

    // A change that changes nothing is none.
    let first = w.update(&w.t.admin, &id, json!({"documentation": "More"})).await;
    let again = w.update(&w.t.admin, &id, json!({"documentation": "More"})).await;
    assert_eq!(first.outcome(), "OK", "{first:?}");
    assert_eq!(first.body["data"]["updatePrAutomation"], again.body["data"]["updatePrAutomation"]);

    let remove = "mutation ($id: ID!) { deletePrAutomation(id: $id) { id } }";
    w.t.admin.data(remove, json!({"id": id})).await;
    assert_eq!(w.t.admin.ask(remove, json!({"id": id})).await.outcome(), "NOT_FOUND");
    assert_eq!(w.t.admin.ask(delete, json!({"id": w.ours})).await.outcome(), "OK");
    w.t.stop().await;
}
