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

use std::{collections::BTreeSet, time::Duration};

use plural_testkit::{TestDatabase, eventually, run_case};
use serde_json::{Value, json};

use self::table::Line;
use crate::api_server::{Person, TestServer};

/// The rows of each noun.
const ROWS: [&[Line]; 33] = [
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
    pr_instance::ROWS,
    pull_request::ROWS,
    stack_definition::ROWS,
];

fn rows() -> impl Iterator<Item = &'static Line> {
    ROWS.into_iter().flatten()
}

/// Things to be asked about. A mutation may end them, so those that it was about are made anew after each success.
struct World {
    project: Value,
    cluster: Value,
    repository: Value,
    spare_repository: Value,
    service: Value,
    global: Value,
    global_name: String,
    managed: Value,
    managed_name: String,
    context: Value,
    provider: Value,
    user: Value,
    email: String,
    group: Value,
    group_name: String,
    token: Value,
    view: Value,
    /// A connection, and the id of its webhook.
    scm: Value,
    stack: Value,
    /// Commands of all stacks of the project.
    custom: Value,
    /// An automation, with the ids of its connection and of a pull request.
    automation: Value,
    /// A stack whose code is in a repository, with a run that has failed.
    sourced: Value,
    /// A plan of a commit, with the id of what it says of the service.
    fleet: Value,
    role: Value,
    definition: Value,
    machine: Value,
    passkey: String,
    invite: String,
    registration: Value,
    persona: Value,
    job: String,
    /// For what is made, and for a chart repository that is there.
    name: String,
    shared: String,
}

impl World {
    async fn new(t: &TestServer, number: usize) -> Self {
        let name = format!("w{number}");
        let admin = &t.admin;
        let cluster = admin.cluster(&name).await;
        let repository = admin.repository(&format!("/nowhere/{name}")).await;
        let (user, email, group, group_name) = make_member(admin, &name).await;
        let (global, global_name) = make_global(t, &name, &repository).await;
        let (managed, managed_name) = make_managed(t, &name).await;
        make_charts(admin, &name).await;
        let service = admin.service(&cluster, &repository, "web").await;
        Self {
            project: make_project(t, &name).await,
            sourced: make_sourced(t, &name, &cluster, &repository).await,
            spare_repository: admin.repository(&format!("/nowhere/{name}-spare")).await,
            fleet: make_fleet(t, &repository, &service).await,
            service,
            cluster,
            repository,
            global,
            global_name,
            managed,
            managed_name,
            context: make_context(t, &name).await,
            provider: make_provider(admin).await,
            passkey: t.plant_passkey(user["id"].as_str().unwrap()).await,
            invite: make_invite(admin, &name).await,
            user,
            email,
            group,
            group_name,
            token: make_token(admin).await,
            view: make_view(admin, &name).await,
            scm: make_scm(t).await,
            stack: make_stack(t, &name).await,
            custom: make_custom(t, &name).await,
            automation: make_automation(t).await,
            role: make_role(admin, &name).await,
            definition: make_definition(admin, &name).await,
            machine: make_machine(t, &name).await,
            registration: make_registration(t).await,
            persona: make_persona(admin, &name).await,
            job: t.dead_job(&name, "").await,
            name,
            shared: t.project.clone(),
        }
    }

    /// Makes anew what the variables of a mutation name.
    async fn renew(&mut self, t: &TestServer, number: usize, variables: &Value) {
        let variables = variables.to_string();
        let names = |text: &str| variables.contains(text);
        let about = |thing: &Value| thing["id"].as_str().is_some_and(names);
        let name = format!("w{number}");
        let admin = &t.admin;
        if about(&self.project) {
            self.project = make_project(t, &name).await;
        }
        if about(&self.cluster) {
            self.cluster = admin.cluster(&name).await;
            self.service = admin.service(&self.cluster, &self.repository, "web").await;
        } else if about(&self.service) {
            self.service = admin.service(&self.cluster, &self.repository, &format!("web-{name}")).await;
        }
        // What it says of a service goes with that.
        if self.fleet["of"] != self.service["id"] {
            self.fleet = make_fleet(t, &self.repository, &self.service).await;
        }
        if about(&self.spare_repository) {
            self.spare_repository = admin.repository(&format!("/nowhere/{name}-spare")).await;
        }
        if about(&self.global) {
            (self.global, self.global_name) = make_global(t, &name, &self.repository).await;
        }
        if about(&self.managed) {
            (self.managed, self.managed_name) = make_managed(t, &name).await;
        }
        if about(&self.context) || self.context["name"].as_str().is_some_and(names) {
            self.context = make_context(t, &name).await;
        }
        if about(&self.user) || about(&self.group) || names(&self.email) || names(&self.group_name) {
            (self.user, self.email, self.group, self.group_name) = make_member(admin, &name).await;
        }
        if names(&self.passkey) {
            self.passkey = t.plant_passkey(self.user["id"].as_str().unwrap()).await;
        }
        if names(&self.invite) {
            self.invite = make_invite(admin, &name).await;
        }
        if about(&self.provider) || self.provider["name"].as_str().is_some_and(names) {
            self.provider = make_provider(admin).await;
        }
        if about(&self.token) {
            self.token = make_token(admin).await;
        }
        if about(&self.view) {
            self.view = make_view(admin, &name).await;
        }
        if about(&self.scm)
            || about(&json!({"id": self.scm["webhook"]}))
            || self.scm["name"].as_str().is_some_and(names)
        {
            self.scm = make_scm(t).await;
        }
        if about(&self.stack) {
            self.stack = make_stack(t, &name).await;
        }
        if about(&self.custom) {
            self.custom = make_custom(t, &name).await;
        }
        if about(&self.automation) {
            self.automation = make_automation(t).await;
        }
        if about(&self.sourced) || self.sourced["run"].as_str().is_some_and(names) {
            self.sourced = make_sourced(t, &name, &self.cluster, &self.repository).await;
        }
        if about(&self.machine) || about(&json!({"id": self.machine["credential"]})) {
            self.machine = make_machine(t, &name).await;
        }
        if about(&self.registration) {
            self.registration = make_registration(t).await;
        }
        if about(&self.persona) {
            self.persona = make_persona(admin, &name).await;
        }
        if about(&self.definition) {
            self.definition = make_definition(admin, &name).await;
        }
        if about(&self.role) {
            self.role = make_role(admin, &name).await;
        }
        if names(&self.job) {
            self.job = t.dead_job(&name, "").await;
        }
        if names(&self.name) {
            make_charts(admin, &name).await;
            self.name = name;
        }
    }
}

/// A project that the owner administrates and the reader reads.
async fn make_project(t: &TestServer, name: &str) -> Value {
    let project = t
        .admin
        .data(
            "mutation ($a: ProjectAttributes!) { createProject(attributes: $a) { id } }",
            json!({"a": {"name": format!("project-{name}"), "readBindings": [{"userId": t.reader.id}]}}),
        )
        .await["createProject"]
        .clone();
    t.admin
        .data(
            "mutation ($r: RbacAttributes!, $id: ID) { updateRbac(rbac: $r, projectId: $id) }",
            json!({"r": {"adminBindings": [{"userId": t.owner.id}]}, "id": project["id"]}),
        )
        .await;
    project
}

async fn make_global(t: &TestServer, name: &str, repository: &Value) -> (Value, String) {
    let name = format!("global-{name}");
    let data = t
        .admin
        .data(
            "mutation ($a: GlobalServiceAttributes!) { createGlobalService(attributes: $a) { id } }",
            json!({"a": global_attributes(&name, &t.project, repository)}),
        )
        .await;
    (data["createGlobalService"].clone(), name)
}

async fn make_managed(t: &TestServer, name: &str) -> (Value, String) {
    let name = format!("managed-{name}");
    let data = t
        .admin
        .data(
            "mutation ($a: ManagedNamespaceAttributes!) { createManagedNamespace(attributes: $a) { id } }",
            json!({"a": namespace_attributes(&name, &t.project)}),
        )
        .await;
    (data["createManagedNamespace"].clone(), name)
}

async fn make_context(t: &TestServer, name: &str) -> Value {
    t.admin
        .data(
            "mutation ($n: String!, $a: ServiceContextAttributes!) { saveServiceContext(name: $n, attributes: $a) { id name } }",
            json!({"n": format!("context-{name}"), "a": {"projectId": t.project}}),
        )
        .await["saveServiceContext"]
        .clone()
}

/// A user with their address, and a group that they are in with its name.
async fn make_member(admin: &Person, name: &str) -> (Value, String, Value, String) {
    let (email, group_name) = (format!("{name}@example.com"), format!("group-{name}"));
    let user = admin
        .data(
            "mutation ($a: UserAttributes!) { createUser(attributes: $a) { id } }",
            json!({"a": {"name": name, "email": email}}),
        )
        .await["createUser"]
        .clone();
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
    (user, email, group, group_name)
}

async fn make_charts(admin: &Person, name: &str) {
    admin
        .data(
            "mutation ($u: String!) { upsertHelmRepository(url: $u) { id } }",
            json!({"u": format!("https://charts.invalid/{name}")}),
        )
        .await;
}

async fn make_provider(admin: &Person) -> Value {
    let name = format!("p-{}", uuid::Uuid::now_v7().simple());
    let attributes =
        json!({"name": name, "issuer": "https://id.invalid", "clientId": "x", "clientSecret": "y"});
    let create =
        "mutation ($a: IdentityProviderAttributes!) { createIdentityProvider(attributes: $a) { id name } }";
    admin.data(create, json!({"a": attributes})).await["createIdentityProvider"].clone()
}

async fn make_invite(admin: &Person, name: &str) -> String {
    let create = "mutation ($a: InviteAttributes!) { createInvite(attributes: $a) { id } }";
    let made = admin.data(create, json!({"a": {"email": format!("{name}-invited@example.com")}})).await;
    made["createInvite"]["id"].as_str().unwrap().to_owned()
}

async fn make_token(admin: &Person) -> Value {
    admin.data("mutation { createAccessToken { id token } }", json!({})).await["createAccessToken"].clone()
}

async fn make_view(admin: &Person, name: &str) -> Value {
    admin
        .data(
            "mutation ($a: SavedViewAttributes!) { createSavedView(attributes: $a) { id } }",
            json!({"a": {"name": name, "page": "services", "query": ""}}),
        )
        .await["createSavedView"]
        .clone()
}

/// A plan of a commit that has something to say of a service.
async fn make_fleet(t: &TestServer, repository: &Value, service: &Value) -> Value {
    let create = "mutation ($id: ID!) { createFleetPlan(repositoryId: $id, ref: \"main\") { id } }";
    let mut made = t.admin.data(create, json!({"id": repository["id"]})).await["createFleetPlan"].clone();
    made["part"] = t.plant_fleet_part(&made["id"], &service["id"]).await.into();
    made["of"] = service["id"].clone();
    made
}

/// A connection of the default project.
async fn make_scm(t: &TestServer) -> Value {
    let create =
        "mutation ($a: ScmConnectionAttributes!) { createScmConnection(attributes: $a) { id name } }";
    let name = format!("scm-{}", uuid::Uuid::now_v7().simple());
    let attributes = json!({"name": name, "type": "GITHUB", "token": "a-token", "projectId": t.project});
    let mut made = t.admin.data(create, json!({"a": attributes})).await["createScmConnection"].clone();
    let create = "mutation ($a: ScmWebhookAttributes!) { createScmWebhookPointer(attributes: $a) { id } }";
    let attributes = scm_webhook::attributes(&made, "acme");
    let webhook = t.admin.data(create, json!({"a": attributes})).await;
    made["webhook"] = webhook["createScmWebhookPointer"]["id"].clone();
    made
}

/// A stack whose code is where nothing can be fetched, and the id of a run of it that has failed.
async fn make_sourced(t: &TestServer, name: &str, cluster: &Value, repository: &Value) -> Value {
    let create = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
    let attributes = json!({
        "name": format!("sourced-{name}"), "type": "TERRAFORM", "projectId": t.project, "clusterId": cluster["id"],
        "repositoryId": repository["id"], "git": {"ref": "main", "folder": ""},
    });
    let mut made = t.admin.data(create, json!({"a": attributes})).await["createStack"].clone();
    let trigger = "mutation ($id: ID!) { triggerRun(id: $id) { id } }";
    let run = t.admin.data(trigger, json!({"id": made["id"]})).await["triggerRun"]["id"].clone();
    eventually(Duration::from_mins(1), async || {
        let ask = "query ($id: ID!) { stackRun(id: $id) { status error } }";
        let run = t.admin.data(ask, json!({"id": run})).await["stackRun"].clone();
        if run["status"] == "FAILED" { Ok(()) } else { Err(run.to_string()) }
    })
    .await;
    made["run"] = run;
    made
}

/// An automation with a connection of its own.
async fn make_automation(t: &TestServer) -> Value {
    let create = "mutation ($a: ScmConnectionAttributes!) { createScmConnection(attributes: $a) { id } }";
    let name = format!("scm-{}", uuid::Uuid::now_v7().simple());
    // Nothing listens there.
    let attributes = json!({
        "name": name, "type": "GITEA", "apiUrl": "http://127.0.0.1:9/api/v1", "token": "a-token", "projectId": t.project,
        "repositories": ["acme/*"],
    });
    let scm = t.admin.data(create, json!({"a": attributes})).await["createScmConnection"].clone();
    let create = "mutation ($a: PrAutomationAttributes!) { createPrAutomation(attributes: $a) { id name } }";
    let name = format!("pr-{}", uuid::Uuid::now_v7().simple());
    let attributes = json!({"name": name, "title": "Add", "message": "Adds", "projectId": t.project, "connectionId": scm["id"]});
    let mut made = t.admin.data(create, json!({"a": attributes})).await["createPrAutomation"].clone();
    made["connection"] = scm["id"].clone();
    made["opened"] = t.plant_pull_request(&made["id"]).await.into();
    made["instance"] = t.plant_instance(&made["id"], &json!({})).await.into();
    made
}

/// Commands of all stacks of the project.
async fn make_custom(t: &TestServer, name: &str) -> Value {
    let create = "mutation ($a: CustomStackRunAttributes!) { createCustomStackRun(attributes: $a) { id } }";
    let attributes =
        json!({"name": format!("custom-{name}"), "projectId": t.project, "commands": [{"cmd": "ls"}]});
    t.admin.data(create, json!({"a": attributes})).await["createCustomStackRun"].clone()
}

/// A stack of the default project with two states, and the ids of those.
async fn make_stack(t: &TestServer, name: &str) -> Value {
    let create = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
    let attributes = json!({"name": format!("stack-{name}"), "type": "TERRAFORM", "projectId": t.project});
    let mut made = t.admin.data(create, json!({"a": attributes})).await["createStack"].clone();
    let path = format!("/v1/stacks/{}/state", made["id"].as_str().unwrap());
    for serial in [1, 2] {
        let state = json!({"version": 4, "serial": serial, "lineage": "a", "resources": []});
        let written = t.admin.post(&path, "application/json", state.to_string()).await;
        assert_eq!(written.status, 200, "{written:?}");
    }
    let ask = "query ($id: ID) { infrastructureStack(id: $id) { stateVersions { id } } }";
    let versions = t.admin.data(ask, json!({"id": made["id"]})).await;
    made["second"] = versions["infrastructureStack"]["stateVersions"][0]["id"].clone();
    made["first"] = versions["infrastructureStack"]["stateVersions"][1]["id"].clone();
    made
}

/// A service account of the default project.
async fn make_machine(t: &TestServer, name: &str) -> Value {
    let create = "mutation ($a: ServiceAccountAttributes!) { createServiceAccount(attributes: $a) { id } }";
    let attributes =
        json!({"name": name, "email": format!("{name}@machines.example.com"), "projectId": t.project});
    let mut made = t.admin.data(create, json!({"a": attributes})).await["createServiceAccount"].clone();
    let federate =
        "mutation ($a: FederatedCredentialAttributes!) { createFederatedCredential(attributes: $a) { id } }";
    let credential = t.admin.data(federate, json!({"a": service_account::credential(&made)})).await;
    made["credential"] = credential["createFederatedCredential"]["id"].clone();
    made
}

/// A registration token of the default project.
async fn make_registration(t: &TestServer) -> Value {
    let create =
        "mutation ($a: BootstrapTokenAttributes!) { createBootstrapToken(attributes: $a) { id token } }";
    t.admin.data(create, json!({"a": {"projectId": t.project}})).await["createBootstrapToken"].clone()
}

async fn make_persona(admin: &Person, name: &str) -> Value {
    let create = "mutation ($a: PersonaAttributes!) { createPersona(attributes: $a) { id } }";
    let attributes = json!({"name": format!("persona-{name}")});
    admin.data(create, json!({"a": attributes})).await["createPersona"].clone()
}

async fn make_definition(admin: &Person, name: &str) -> Value {
    let create =
        "mutation ($a: StackDefinitionAttributes!) { createStackDefinition(attributes: $a) { id name } }";
    let attributes = json!({"name": format!("definition-{name}"), "steps": [{"cmd": "make"}]});
    admin.data(create, json!({"a": attributes})).await["createStackDefinition"].clone()
}

async fn make_role(admin: &Person, name: &str) -> Value {
    admin
        .data(
            "mutation ($a: RoleAttributes!) { createRole(attributes: $a) { id name } }",
            json!({"a": {"name": format!("role-{name}"), "actions": ["read"]}}),
        )
        .await["createRole"]
        .clone()
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
