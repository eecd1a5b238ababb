//! Every root field, called by everyone: nobody, a stranger, a reader, an owner (of the default project), an
//! administrator. A root field without a line here fails the test.

mod table;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use self::table::TABLE;
use crate::api_server::{Person, TestServer};

/// Things to be asked about, new for each question: a mutation may end them.
struct World {
    project: Value,
    cluster: Value,
    repository: Value,
    spare_repository: Value,
    service: Value,
    global: Value,
    managed: Value,
    context: Value,
    user: Value,
    email: String,
    group: Value,
    group_name: String,
    token: Value,
    name: String,
    shared: String,
}

impl World {
    async fn new(t: &TestServer, number: usize) -> Self {
        let name = format!("w{number}");
        let admin = &t.admin;
        let project = admin
            .data(
                "mutation ($a: ProjectAttributes!) { createProject(attributes: $a) { id } }",
                json!({"a": {"name": format!("project-{name}"), "readBindings": [{"userId": t.reader.id}]}}),
            )
            .await["createProject"]
            .clone();
        admin
            .data(
                "mutation ($r: RbacAttributes!, $id: ID) { updateRbac(rbac: $r, projectId: $id) }",
                json!({"r": {"adminBindings": [{"userId": t.owner.id}]}, "id": project["id"]}),
            )
            .await;
        let cluster = admin.cluster(&name).await;
        let repository = admin.repository(&format!("/nowhere/{name}")).await;
        let spare_repository = admin.repository(&format!("/nowhere/{name}-spare")).await;
        let service = admin.service(&cluster, &repository, "web").await;
        let global = admin
            .data(
                "mutation ($a: GlobalServiceAttributes!) { createGlobalService(attributes: $a) { id } }",
                json!({"a": global_attributes(&format!("global-{name}"), &t.project, &repository)}),
            )
            .await["createGlobalService"]
            .clone();
        let managed = admin
            .data(
                "mutation ($a: ManagedNamespaceAttributes!) { createManagedNamespace(attributes: $a) { id } }",
                json!({"a": namespace_attributes(&format!("managed-{name}"), &t.project)}),
            )
            .await["createManagedNamespace"]
            .clone();
        let context = admin
            .data(
                "mutation ($n: String!, $a: ServiceContextAttributes!) { saveServiceContext(name: $n, attributes: $a) { id name } }",
                json!({"n": format!("context-{name}"), "a": {"projectId": t.project}}),
            )
            .await["saveServiceContext"]
            .clone();
        let email = format!("{name}@example.com");
        let user = admin
            .data(
                "mutation ($a: UserAttributes!) { createUser(attributes: $a) { id } }",
                json!({"a": {"name": name, "email": email}}),
            )
            .await["createUser"]
            .clone();
        let group_name = format!("group-{name}");
        let group = admin
            .data(
                "mutation ($a: GroupAttributes!) { createGroup(attributes: $a) { id } }",
                json!({"a": {"name": group_name}}),
            )
            .await["createGroup"]
            .clone();
        admin
            .data(
                "mutation ($g: ID!, $u: ID!) { createGroupMember(groupId: $g, userId: $u) { id } }",
                json!({"g": group["id"], "u": user["id"]}),
            )
            .await;
        admin
            .data(
                "mutation ($u: String!) { upsertHelmRepository(url: $u) { id } }",
                json!({"u": format!("https://charts.invalid/{name}")}),
            )
            .await;
        let token =
            admin.data("mutation { createAccessToken { id token } }", json!({})).await["createAccessToken"]
                .clone();
        let shared = t.project.clone();
        Self {
            project,
            cluster,
            repository,
            spare_repository,
            service,
            global,
            managed,
            context,
            user,
            email,
            group,
            group_name,
            token,
            name,
            shared,
        }
    }
}

/// A managed namespace that no cluster fits.
fn namespace_attributes(name: &str, project: &str) -> Value {
    json!({"name": name, "projectId": project, "target": {"tags": {"nowhere": "at all"}}})
}

/// A global service that no cluster fits.
fn global_attributes(name: &str, project: &str, repository: &Value) -> Value {
    json!({
        "name": name,
        "projectId": project,
        "tags": [{"name": "nowhere", "value": "at all"}],
        "template": {"repositoryId": repository["id"], "git": {"ref": "main", "folder": "web"}},
    })
}

#[tokio::test]
async fn everyone_gets_what_is_theirs() {
    let t = TestServer::start().await;
    let people: [(&str, &Person); 5] = [
        ("nobody", &t.nobody),
        ("stranger", &t.stranger),
        ("reader", &t.reader),
        ("owner", &t.owner),
        ("admin", &t.admin),
    ];
    let mut wrong = Vec::new();
    let mut worlds = 0;
    let mut shared: Option<World> = None;
    for line in TABLE {
        for ((who, person), expected) in people.iter().zip(line.expected) {
            // A refused write changes nothing, and a query never does, so the world lasts until one succeeds.
            let world = if let Some(world) = shared.take() {
                world
            } else {
                worlds += 1;
                World::new(&t, worlds).await
            };
            let answer = person.ask(line.document, (line.variables)(&world)).await;
            let outcome = answer.outcome();
            if outcome != expected {
                wrong.push(format!(
                    "{} as {who}: expected {expected}, got {outcome}: {}",
                    line.field,
                    answer.message()
                ));
            }
            if outcome != "OK" || !line.document.starts_with("mutation") {
                shared = Some(world);
            }
            if outcome == "NOT_FOUND" {
                assert_eq!(answer.message(), "could not find resource", "{}", line.field);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    t.console.stop().await.unwrap();
}

#[test]
fn every_root_field_has_a_line() {
    let sdl = plural_api::sdl();
    let mut fields = BTreeSet::new();
    let mut inside = false;
    for line in sdl.lines() {
        if line.starts_with("type Root") {
            inside = true;
        } else if line == "}" {
            inside = false;
        } else if inside && let Some(rest) = line.strip_prefix("  ") {
            let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
            if !name.is_empty() && rest[name.len()..].starts_with(['(', ':']) {
                fields.insert(name);
            }
        }
    }
    let covered: BTreeSet<String> = TABLE.iter().map(|line| line.field.to_owned()).collect();
    assert!(fields.len() > 40, "the schema was not read: {fields:?}");
    assert_eq!(fields, covered);
    for line in TABLE {
        assert!(line.document.contains(line.field), "{}", line.field);
    }
}
