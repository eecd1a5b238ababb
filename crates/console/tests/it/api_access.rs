//! Every root field, called by everyone: nobody, a stranger, a reader, an owner (of the default project), an
//! administrator. Each noun has a file with its lines; a root field without one fails the test. Asked of one console, and of
//! three in turn. Those that take bindings are called by a writer, too (`bound.rs`).
//!
//! One backend is enough: several consoles share PostgreSQL alone; one is asked on SQLite, and the store's own table on
//! both.

mod background_job;
mod binding;
mod bound;
mod cluster;
mod custom_stack_run;
mod delta;
mod fleet_plan;
mod global_service;
mod group;
mod helm_repository;
mod identity_provider;
mod installation;
mod managed_namespace;
mod persona;
mod pr_automation;
mod pr_governance;
mod pr_instance;
mod project;
mod pull_request;
mod question;
mod recording;
mod registration_token;
mod repository;
mod role;
mod saved_view;
mod scm_connection;
mod scm_webhook;
mod service;
mod service_account;
mod service_context;
mod stack;
mod stack_definition;
mod sync_window;
mod table;
mod token;
mod user;
mod world;

use std::collections::BTreeSet;

use plural_testkit::{TestDatabase, run_case};
use serde_json::{Value, json};

use self::table::Line;
use self::world::{World, make_project};
use crate::api_server::{Person, TestServer};

/// The rows of each noun.
const ROWS: [&[Line]; 34] = [
    token::ROWS,
    user::ROWS,
    group::ROWS,
    installation::ROWS,
    background_job::ROWS,
    global_service::ROWS,
    managed_namespace::ROWS,
    project::ROWS,
    recording::ROWS,
    binding::ROWS,
    cluster::ROWS,
    delta::ROWS,
    fleet_plan::ROWS,
    helm_repository::ROWS,
    identity_provider::ROWS,
    repository::ROWS,
    saved_view::ROWS,
    scm_connection::ROWS,
    scm_webhook::ROWS,
    service::ROWS,
    service_context::ROWS,
    sync_window::ROWS,
    role::ROWS,
    question::ROWS,
    service_account::ROWS,
    registration_token::ROWS,
    persona::ROWS,
    stack::ROWS,
    custom_stack_run::ROWS,
    pr_automation::ROWS,
    pr_governance::ROWS,
    pr_instance::ROWS,
    pull_request::ROWS,
    stack_definition::ROWS,
];

fn rows() -> impl Iterator<Item = &'static Line> {
    ROWS.into_iter().flatten()
}

#[tokio::test]
async fn everyone_gets_what_is_theirs() {
    the_table(TestServer::start().await).await;
}

/// Each request goes to another replica than the one before it: what is asked about was made, and given to people,
/// at the others a moment ago. Nothing waits in between: each request reads in the database who may do what.
#[test]
fn attack_15_three_replicas_give_everyone_the_same() {
    run_case(async {
        let Some(database) = TestDatabase::postgres_or_report() else { return };
        the_table(TestServer::replicas(&database).await).await;
    });
}

async fn the_table(t: TestServer) {
    let people: [(&str, &Person); 5] = [
        ("nobody", &t.nobody),
        ("stranger", &t.stranger),
        ("reader", &t.reader),
        ("owner", &t.owner),
        ("admin", &t.admin),
    ];
    let mut wrong = Vec::new();
    let mut made = 1;
    let mut world = World::new(&t, made).await;
    for line in rows() {
        for ((who, person), expected) in people.iter().zip(line.expected) {
            let variables = (line.variables)(&world);
            let answer = person.ask(line.document, variables.clone()).await;
            let outcome = answer.outcome();
            if outcome != expected {
                wrong.push(format!(
                    "{} as {who}: expected {expected}, got {outcome}: {}",
                    line.field,
                    answer.message()
                ));
            }
            // A refused write changes nothing, and a query never does.
            if outcome == "OK" && line.document.starts_with("mutation") {
                made += 1;
                world.renew(&t, made, &variables).await;
            }
            if outcome == "NOT_FOUND" {
                assert_eq!(answer.message(), "could not find resource", "{}", line.field);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    t.stop().await;
}

/// Every root field, as somebody with a registration token: what is open to everybody, and one mutation.
/// Null, or an object of that: fields that answer on their own are null each.
fn says_nothing(data: &Value) -> bool {
    data.is_null() || data.as_object().is_some_and(|fields| fields.values().all(says_nothing))
}

#[tokio::test]
async fn a_registration_token_does_one_thing() {
    let t = TestServer::start().await;
    let world = World::new(&t, 1).await;
    let machine = t.nobody.with_token(world.registration["token"].as_str().unwrap());
    let mut wrong = Vec::new();
    for line in rows() {
        let answer = machine.ask(line.document, (line.variables)(&world)).await;
        let outcome = answer.outcome();
        let is_right = match line.field {
            "createCluster" => outcome == "OK",
            _ if line.expected[0] == "OK" => outcome == "OK",
            // Sockets are for users.
            _ if line.document.starts_with("subscription") => outcome == "401",
            // That there is nothing for it, in whichever words; never a word of what there is.
            _ => matches!(outcome.as_str(), "NOT_FOUND" | "FORBIDDEN" | "UNAUTHENTICATED" | "INVALID"),
        };
        if !is_right || (outcome != "OK" && !says_nothing(&answer.body["data"])) {
            wrong.push(format!("{}: {outcome}: {answer:?}", line.field));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    t.stop().await;
}

#[tokio::test]
async fn everyone_lists_the_windows_of_what_they_read() {
    let t = TestServer::start().await;
    // One of a project that the owner and the reader are bound to, one of a project that nobody is.
    let ours = make_project(&t, "ours").await;
    let create = "mutation ($a: ProjectAttributes!) { createProject(attributes: $a) { id } }";
    let theirs = t.admin.data(create, json!({"a": {"name": "theirs"}})).await["createProject"].clone();
    for (project, name) in [(&ours, "ours"), (&theirs, "theirs")] {
        let create = "mutation ($id: ID, $a: SyncWindowAttributes!) { createSyncWindow(projectId: $id, attributes: $a) { id } }";
        let window = json!({"name": name, "kind": "DENY", "schedule": "0 0 1 1 *", "duration": 3600});
        t.admin.data(create, json!({"id": project["id"], "a": window})).await;
    }
    for (person, expected) in [
        (&t.stranger, &[][..]),
        (&t.reader, &["ours"]),
        (&t.owner, &["ours"]),
        (&t.admin, &["ours", "theirs"]),
    ] {
        let listed = person.data("{ syncWindows { name } }", json!({})).await;
        let names: BTreeSet<&str> = listed["syncWindows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|window| window["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, expected.iter().copied().collect(), "{listed}");
    }
    t.stop().await;
}

/// Rights are given and taken away at the first replica, and hold or end at once at the others. What agents and
/// `/k8s` go by is in memory and follows within seconds: `plural`'s test `proxy_access` waits for that.
#[test]
fn attack_15_what_is_taken_away_at_one_replica_is_gone_at_all() {
    run_case(async {
        let Some(database) = TestDatabase::postgres_or_report() else { return };
        taken_away(TestServer::replicas(&database).await).await;
    });
}

const READ: &str = "query ($id: ID!) { cluster(id: $id) { id } }";
const WRITE: &str = "mutation ($id: ID!) { updateCluster(id: $id, attributes: {protect: false}) { id } }";

async fn taken_away(t: TestServer) {
    let (admin, reader) = (t.admin.at(0), t.reader.at(0));
    let (owner_id, stranger_id) = (&t.owner.id, &t.stranger.id);
    let cluster = json!({"id": admin.cluster("blue").await["id"]});
    let told = async |person: &Person, document: &str, expected: &str| {
        // The first one, which was told, is asked last.
        for replica in [1, 2, 0] {
            let answer = person.at(replica).ask(document, cluster.clone()).await;
            assert_eq!(answer.outcome(), expected, "replica {replica}, {document}: {answer:?}");
        }
    };
    let bind = async |rbac: Value| {
        let document = "mutation ($r: RbacAttributes!, $id: ID) { updateRbac(rbac: $r, projectId: $id) }";
        admin.data(document, json!({"r": rbac, "id": t.project})).await
    };

    // A token that is revoked; what it was made with still holds.
    let made = reader.data("mutation { createAccessToken { id token } }", json!({})).await;
    let made = &made["createAccessToken"];
    let token = t.reader.with_token(made["token"].as_str().unwrap());
    told(&token, READ, "OK").await;
    let revoke = "mutation ($t: String!) { deleteAccessToken(token: $t) { id } }";
    reader.data(revoke, json!({"t": made["id"]})).await;
    told(&token, READ, "401").await;
    told(&t.reader, READ, "OK").await;

    // Bindings that are removed, and one that is replaced by a lesser one.
    told(&t.owner, WRITE, "OK").await;
    bind(json!({"readBindings": [{"userId": owner_id}], "adminBindings": []})).await;
    told(&t.reader, READ, "NOT_FOUND").await;
    told(&t.owner, WRITE, "FORBIDDEN").await;
    told(&t.owner, READ, "OK").await;
    bind(json!({"readBindings": []})).await;
    told(&t.owner, READ, "NOT_FOUND").await;

    // A group that is left, and one that is deleted.
    let create = "mutation { createGroup(attributes: {name: \"team\"}) { id } }";
    let group = admin.data(create, json!({})).await["createGroup"]["id"].clone();
    bind(json!({"readBindings": [{"groupId": group}]})).await;
    told(&t.stranger, READ, "NOT_FOUND").await;
    let member = json!({"g": group, "u": stranger_id});
    let join = "mutation ($g: ID!, $u: ID!) { createGroupMember(groupId: $g, userId: $u) { id } }";
    admin.data(join, member.clone()).await;
    told(&t.stranger, READ, "OK").await;
    let leave = "mutation ($g: ID!, $u: ID!) { deleteGroupMember(groupId: $g, userId: $u) { id } }";
    admin.data(leave, member.clone()).await;
    told(&t.stranger, READ, "NOT_FOUND").await;
    admin.data(join, member).await;
    told(&t.stranger, READ, "OK").await;
    admin.data("mutation ($g: ID!) { deleteGroup(groupId: $g) { id } }", json!({"g": group})).await;
    told(&t.stranger, READ, "NOT_FOUND").await;

    // An administrator who is none any more.
    let update = "mutation ($id: ID, $a: UserAttributes!) { updateUser(id: $id, attributes: $a) { id } }";
    for (is_admin, expected) in [(true, "OK"), (false, "NOT_FOUND")] {
        admin.data(update, json!({"id": stranger_id, "a": {"roles": {"admin": is_admin}}})).await;
        told(&t.stranger, WRITE, expected).await;
    }

    // A user who is deleted.
    bind(json!({"writeBindings": [{"userId": stranger_id}]})).await;
    told(&t.stranger, WRITE, "OK").await;
    admin.data("mutation ($id: ID!) { deleteUser(id: $id) { id } }", json!({"id": stranger_id})).await;
    told(&t.stranger, WRITE, "401").await;
    t.stop().await;
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
    let covered: BTreeSet<String> = rows().map(|line| line.field.to_owned()).collect();
    assert!(fields.len() > 40, "the schema was not read: {fields:?}");
    assert_eq!(fields, covered);
    for line in rows() {
        assert!(line.document.contains(line.field), "{}", line.field);
    }
}
