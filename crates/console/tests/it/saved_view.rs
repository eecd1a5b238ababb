//! Saved views, through the API.

use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use crate::api_server::{Person, TestServer};

each_database!(a_view_belongs_to_its_owner, what_is_not_a_view_is_refused, views_go_with_their_owner);

const CREATE: &str =
    "mutation ($a: SavedViewAttributes!) { createSavedView(attributes: $a) { id owner { email } } }";
const UPDATE: &str = "mutation ($id: ID!, $a: SavedViewUpdateAttributes!) {
  updateSavedView(id: $id, attributes: $a) { name query readBindings { user { email } } }
}";
const DELETE: &str = "mutation ($id: ID!) { deleteSavedView(id: $id) { id } }";
const LIST: &str = "query ($page: String, $q: String) {
  savedViews(first: 10, page: $page, q: $q) { edges { node { name page query } } }
}";

fn failing() -> Value {
    json!({"name": "Failing", "page": "services", "query": "status=FAILED"})
}

async fn names(person: &Person, variables: Value) -> Vec<Value> {
    let data = person.data(LIST, variables).await;
    data["savedViews"]["edges"].as_array().unwrap().iter().map(|edge| edge["node"]["name"].clone()).collect()
}

async fn a_view_belongs_to_its_owner(database: TestDatabase) {
    let t =
        TestServer::with(|config| config.database_url = Some(secrecy::SecretString::from(database.url())))
            .await;
    let made = t.owner.data(CREATE, json!({"a": failing()})).await["createSavedView"].clone();
    assert_eq!(made["owner"], json!({"email": "owner@example.com"}));
    let id = &made["id"];
    t.owner.data(CREATE, json!({"a": {"name": "All", "page": "clusters", "query": ""}})).await;
    // The same name of another user is another view.
    t.stranger.data(CREATE, json!({"a": failing()})).await;
    assert_eq!(names(&t.owner, json!({})).await, ["Failing", "All"]);
    assert_eq!(names(&t.owner, json!({"page": "clusters"})).await, ["All"]);
    assert_eq!(names(&t.owner, json!({"q": "fAIL"})).await, ["Failing"]);
    assert_eq!(names(&t.reader, json!({})).await, [""; 0]);

    let rename = json!({"id": id, "a": {"name": "Failed"}});
    assert_eq!(t.reader.ask(UPDATE, rename.clone()).await.outcome(), "NOT_FOUND");
    let share = json!({"id": id, "a": {"query": "status=STALE", "readBindings": [{"userId": t.reader.id}]}});
    let shared = t.owner.data(UPDATE, share.clone()).await["updateSavedView"].clone();
    let readers = json!([{"user": {"email": "reader@example.com"}}]);
    assert_eq!(shared, json!({"name": "Failing", "query": "status=STALE", "readBindings": readers}));
    assert_eq!(names(&t.reader, json!({})).await, ["Failing"]);
    assert_eq!(t.reader.ask(UPDATE, rename.clone()).await.outcome(), "FORBIDDEN");
    assert_eq!(t.reader.ask(DELETE, json!({"id": id})).await.outcome(), "FORBIDDEN");

    // Who may change it does not decide who else may.
    let write = json!({"id": id, "a": {"writeBindings": [{"userId": t.reader.id}]}});
    t.owner.data(UPDATE, write.clone()).await;
    assert_eq!(t.reader.data(UPDATE, rename).await["updateSavedView"]["name"], "Failed");
    assert_eq!(t.reader.ask(UPDATE, write).await.outcome(), "FORBIDDEN");
    assert_eq!(t.reader.ask(DELETE, json!({"id": id})).await.outcome(), "FORBIDDEN");

    t.owner.data(DELETE, json!({"id": id})).await;
    assert_eq!(names(&t.owner, json!({})).await, ["All"]);
    assert_eq!(t.owner.ask(DELETE, json!({"id": id})).await.outcome(), "NOT_FOUND");
    t.stop().await;
}

async fn what_is_not_a_view_is_refused(database: TestDatabase) {
    let t =
        TestServer::with(|config| config.database_url = Some(secrecy::SecretString::from(database.url())))
            .await;
    t.owner.data(CREATE, json!({"a": failing()})).await;
    let with = |field: &str, value: &str| {
        let mut view = failing();
        view[field] = json!(value);
        json!({"a": view})
    };
    let taken = t.owner.ask(CREATE, json!({"a": failing()})).await;
    assert_eq!(taken.outcome(), "CONFLICT", "{taken:?}");
    for (field, value) in [
        ("name", String::new()),
        ("page", "Services?".into()),
        ("query", "a\nb".into()),
        ("query", "a".repeat(4097)),
    ] {
        let refused = t.owner.ask(CREATE, with(field, &value)).await;
        assert_eq!(refused.outcome(), "INVALID", "{field}: {refused:?}");
        assert!(refused.message().contains(field), "{refused:?}");
    }
    let nobody = json!([{"userId": "01900000-0000-7000-8000-000000000000"}]);
    let mut view = failing();
    view["name"] = json!("Other");
    view["readBindings"] = nobody;
    assert_eq!(t.owner.ask(CREATE, json!({"a": view})).await.outcome(), "INVALID");
    assert_eq!(names(&t.owner, json!({})).await, ["Failing"]);
    t.stop().await;
}

async fn views_go_with_their_owner(database: TestDatabase) {
    let t =
        TestServer::with(|config| config.database_url = Some(secrecy::SecretString::from(database.url())))
            .await;
    t.stranger.data(CREATE, json!({"a": failing()})).await;
    assert_eq!(names(&t.admin, json!({})).await, ["Failing"]);
    t.admin.data("mutation ($id: ID!) { deleteUser(id: $id) { id } }", json!({"id": t.stranger.id})).await;
    assert_eq!(names(&t.admin, json!({})).await, [""; 0]);
    t.stop().await;
}
