//! What lists cost.

use std::time::Duration;

use plural_testkit::eventually;
use serde_json::{Value, json};

use crate::api_server::{Person, TestServer};

/// Everything that a row of services can show of others, at once.
const SERVICES: &str = "query ($first: Int) {
  serviceDeployments(first: $first) { edges { node {
    name
    repository { url project { name } }
    cluster { name project { name readBindings { user { email } } } }
    components { name } errors { message } configuration { name value } revision { insertedAt }
    readBindings { user { email groups { name } } group { name } } writeBindings { id } adminBindings { id }
  } } }
}";

const CLUSTERS: &str = "query ($first: Int) {
  clusters(first: $first) { edges { node { name project { name } readBindings { id } adminBindings { id } } } }
}";

const USERS: &str = "query ($first: Int) { users(first: $first) { edges { node { email groups { name members { email } } } } } }";

const GLOBALS: &str = "query ($first: Int) {
  globalServices(first: $first) { edges { node {
    name tags { name value } rollout { state } instanceCounts { all healthy newest leaving } project { name }
    service { name } template { contexts } rolloutStrategy { maxUnavailable } ignoreClusters
    instances(first: 3) { pageInfo { hasNextPage } edges { node { serviceId cluster { handle } } } }
  } } }
}";

const NAMESPACES: &str = "query ($first: Int) {
  managedNamespaces(first: $first) { edges { node {
    name target { tags } instanceCounts { all synced leaving } project { name } service { name contexts }
    instances(first: 3) { pageInfo { hasNextPage } edges { node { state cluster { handle } } } }
  } } }
}";

// The console's own jobs ask now and then, too: more at first, when they fetch what was made. A statement
// for each row would be 95 more, every time.
const OWN: u64 = 30;
/// Global services and managed namespaces that have instances, five each.
const SPREAD: usize = 4;

/// Statements of one page, and its rows.
async fn statements(t: &TestServer, person: &Person, document: &str, first: usize) -> (u64, Vec<Value>) {
    let before = t.console.statements();
    let data = person.data(document, json!({"first": first})).await;
    let used = t.console.statements() - before;
    let rows = data.as_object().unwrap().values().next().unwrap()["edges"].as_array().unwrap().clone();
    assert_eq!(rows.len(), first);
    (used, rows)
}

#[tokio::test]
async fn a_page_of_a_hundred_costs_as_many_statements_as_one_of_five() {
    let t = TestServer::start().await;
    let group = t.admin.data("mutation { createGroup(attributes: {name: \"sre\"}) { id } }", json!({})).await;
    let (mut services, mut repositories) = (Vec::new(), Vec::new());
    for i in 0..100 {
        let cluster = t.admin.cluster(&format!("c-{i}")).await;
        let repository = t.admin.repository(&format!("https://git.example.com/r-{i}.git")).await;
        services.push(t.admin.service(&cluster, &repository, &format!("s-{i}")).await);
        repositories.push(repository);
        let user = json!({"name": "u", "email": format!("u-{i}@example.com")});
        let user = t
            .admin
            .data("mutation ($a: UserAttributes!) { createUser(attributes: $a) { id } }", json!({"a": user}))
            .await;
        t.admin
            .data(
                "mutation ($g: ID!, $u: ID!) { createGroupMember(groupId: $g, userId: $u) { id } }",
                json!({"g": group["createGroup"]["id"], "u": user["createUser"]["id"]}),
            )
            .await;
    }
    for i in 0..5 {
        let attributes = json!({"name": format!("five-{i}"), "tags": [{"name": "five", "value": "yes"}]});
        let document = "mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) { id } }";
        t.admin.data(document, json!({"a": attributes})).await;
    }
    // Half of them are copies of a service, and all read a context. The first have instances.
    let context = "mutation ($a: ServiceContextAttributes!) { saveServiceContext(name: \"net\", attributes: $a) { id } }";
    t.admin.data(context, json!({"a": {"projectId": t.project, "configuration": {"a": 1}}})).await;
    for (i, (service, repository)) in services.iter().zip(&repositories).enumerate() {
        let template = json!({"repositoryId": repository["id"], "git": {"ref": "main", "folder": "web"}, "contexts": ["net"]});
        let copied = i % 2 == 0;
        let (tag, value) = if i < SPREAD { ("five", "yes") } else { ("nowhere", "at all") };
        let attributes = json!({
            "name": format!("g-{i}"), "projectId": t.project, "tags": [{"name": tag, "value": value}],
            "template": if copied { Value::Null } else { template },
        });
        let document = "mutation ($s: ID, $a: GlobalServiceAttributes!) { createGlobalService(serviceId: $s, attributes: $a) { id } }";
        let service = if copied { service["id"].clone() } else { Value::Null };
        t.admin.data(document, json!({"s": service, "a": attributes})).await;
        let attributes = json!({
            "name": format!("n-{i}"), "projectId": t.project, "target": {"tags": {tag: value}},
            "service": {"repositoryId": repository["id"], "git": {"ref": "main", "folder": "web"}, "contexts": ["net"]},
        });
        let document =
            "mutation ($a: ManagedNamespaceAttributes!) { createManagedNamespace(attributes: $a) { id } }";
        t.admin.data(document, json!({"a": attributes})).await;
    }
    eventually(Duration::from_mins(2), async || {
        let document = "query ($first: Int) {
          globalServices(first: $first) { edges { node { error instanceCounts { all } } } }
          managedNamespaces(first: $first) { edges { node { error instanceCounts { all } } } }
        }";
        let data = t.admin.data(document, json!({"first": SPREAD})).await;
        let rows = ["globalServices", "managedNamespaces"]
            .iter()
            .flat_map(|list| data[list]["edges"].as_array().unwrap())
            .collect::<Vec<_>>();
        let is_spread = rows.iter().all(|row| row["node"]["instanceCounts"]["all"] == 5);
        if is_spread && rows.len() == 2 * SPREAD { Ok(()) } else { Err(data.to_string()) }
    })
    .await;
    for person in [&t.admin, &t.owner, &t.reader] {
        for document in [SERVICES, CLUSTERS, USERS, GLOBALS, NAMESPACES] {
            let rows = eventually(Duration::from_mins(1), async || {
                let (few, _) = statements(&t, person, document, 5).await;
                let (many, rows) = statements(&t, person, document, 100).await;
                if many <= few + OWN { Ok(rows) } else { Err(format!("{few} for 5 rows, {many} for 100")) }
            })
            .await;
            if [GLOBALS, NAMESPACES].contains(&document) {
                for (i, row) in rows.iter().map(|row| &row["node"]).enumerate() {
                    let instances = &row["instances"];
                    let found: Vec<_> =
                        instances["edges"].as_array().unwrap().iter().map(|edge| &edge["node"]).collect();
                    assert_eq!(found.len(), if i < SPREAD { 3 } else { 0 }, "{row}");
                    assert_eq!(instances["pageInfo"]["hasNextPage"], i < SPREAD);
                    for instance in found {
                        let handle = instance["cluster"]["handle"].as_str().unwrap();
                        assert!(handle.starts_with("five-"), "{instance}");
                    }
                }
            }
            if document == SERVICES {
                for (i, row) in rows.iter().map(|row| &row["node"]).enumerate() {
                    assert_eq!(row["name"], format!("s-{i}"));
                    assert_eq!(row["repository"]["url"], format!("https://git.example.com/r-{i}.git"));
                    assert_eq!(row["cluster"]["name"], format!("c-{i}"));
                    assert_eq!(row["cluster"]["project"]["name"], "default");
                    let may_change = person.id != t.reader.id;
                    let secret = may_change.then(|| json!([{"name": "password", "value": "s3cret"}]));
                    assert_eq!(row["configuration"], secret.unwrap_or(Value::Null));
                }
            }
        }
    }
}

#[tokio::test]
async fn what_one_mutation_changed_the_next_one_of_the_same_document_shows() {
    let t = TestServer::start().await;
    let cluster = t.admin.cluster("blue").await;
    let document = "mutation ($id: ID!, $one: ClusterUpdateAttributes!, $two: ClusterUpdateAttributes!) {
      one: updateCluster(id: $id, attributes: $one) { readBindings { user { email } } }
      two: updateCluster(id: $id, attributes: $two) { readBindings { user { email } } }
    }";
    let bind = |user: &Person| json!({"readBindings": [{"userId": user.id}]});
    let variables = json!({"id": cluster["id"], "one": bind(&t.reader), "two": bind(&t.stranger)});
    let data = t.admin.data(document, variables).await;
    assert_eq!(data["one"]["readBindings"], json!([{"user": {"email": "reader@example.com"}}]));
    assert_eq!(data["two"]["readBindings"], json!([{"user": {"email": "stranger@example.com"}}]));
}

/// Who may change things in a project but not say who else may, makes a thing with bindings not at all.
#[tokio::test]
async fn who_may_not_bind_makes_nothing() {
    let t = TestServer::start().await;
    let writer = t.admin.add_user("writer@example.com").await;
    let rbac = json!({"writeBindings": [{"userId": writer.id}]});
    t.admin
        .data(
            "mutation ($rbac: RbacAttributes!, $id: ID) { updateRbac(rbac: $rbac, projectId: $id) }",
            json!({"rbac": rbac, "id": t.project}),
        )
        .await;
    let document = "mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) { deployToken } }";
    let bound = json!({"a": {"name": "blue", "readBindings": [{"userId": writer.id}]}});
    let refused = writer.ask(document, bound).await;
    assert_eq!(refused.outcome(), "FORBIDDEN");
    assert!(refused.message().contains("omit them or ask"), "{}", refused.message());
    let made = writer.data(document, json!({"a": {"name": "blue"}})).await;
    assert!(made["createCluster"]["deployToken"].is_string(), "the first try made nothing");
}

/// An update is one with the bindings that come with it: what refuses the one leaves the other as it was.
#[tokio::test]
async fn a_refused_update_leaves_who_may_do_what() {
    let t = TestServer::start().await;
    let (cluster, repository) =
        (t.admin.cluster("blue").await, t.admin.repository("https://git.example.com/a.git").await);
    let service = t.admin.service(&cluster, &repository, "web").await;
    t.admin.cluster("taken").await;
    let create = "mutation ($a: ProjectAttributes!) { createProject(attributes: $a) { id } }";
    t.admin.data(create, json!({"a": {"name": "taken"}})).await;
    let nowhere = "00000000-0000-7000-8000-000000000000";
    let readers = "readBindings { user { email } }";
    let updates = [
        ("updateProject", "ProjectAttributes", json!(t.project), json!({"name": "taken"}), "CONFLICT"),
        (
            "updateCluster",
            "ClusterUpdateAttributes",
            cluster["id"].clone(),
            json!({"handle": "taken"}),
            "CONFLICT",
        ),
        (
            "updateServiceDeployment",
            "ServiceUpdateAttributes",
            service["id"].clone(),
            json!({"repositoryId": nowhere}),
            "NOT_FOUND",
        ),
    ];
    for (field, attributes, id, change, outcome) in updates {
        // An update of a project names it.
        let name = if field == "updateProject" { json!({"name": "default"}) } else { json!({}) };
        let document = format!(
            "mutation ($id: ID!, $a: {attributes}!) {{ {field}(id: $id, attributes: $a) {{ {readers} }} }}"
        );
        let with = |mut change: Value, user: &Person| {
            change["readBindings"] = json!([{"userId": user.id}]);
            json!({"id": id, "a": change})
        };
        let read_by = json!([{"user": {"email": "reader@example.com"}}]);
        let bound = t.admin.data(&document, with(name.clone(), &t.reader)).await;
        assert_eq!(bound[field]["readBindings"], read_by);
        let refused = t.admin.ask(&document, with(change, &t.stranger)).await;
        assert_eq!(refused.outcome(), outcome, "{refused:?}");
        let still = t.admin.data(&document, json!({"id": id, "a": name})).await;
        assert_eq!(still[field]["readBindings"], read_by, "{field}");
    }
}
