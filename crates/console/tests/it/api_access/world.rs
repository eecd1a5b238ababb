//! What the root fields are asked about.

use std::time::Duration;

use plural_testkit::eventually;
use serde_json::{Value, json};

use super::{pr_governance, scm_webhook, service_account};
use crate::api_server::{Person, TestServer};

/// Things to be asked about. A mutation may end them, so those that it was about are made anew after each success.
pub(super) struct World {
    pub(super) project: Value,
    pub(super) cluster: Value,
    pub(super) repository: Value,
    pub(super) spare_repository: Value,
    pub(super) service: Value,
    pub(super) global: Value,
    pub(super) global_name: String,
    pub(super) managed: Value,
    pub(super) managed_name: String,
    pub(super) context: Value,
    pub(super) provider: Value,
    pub(super) user: Value,
    pub(super) email: String,
    pub(super) group: Value,
    pub(super) group_name: String,
    pub(super) token: Value,
    pub(super) view: Value,
    /// A connection, and the id of its webhook.
    pub(super) scm: Value,
    pub(super) stack: Value,
    /// Commands of all stacks of the project.
    pub(super) custom: Value,
    /// An automation, with the ids of its connection and of a pull request.
    pub(super) automation: Value,
    /// A stack whose code is in a repository, with a run that has failed.
    pub(super) sourced: Value,
    /// A plan of a commit, with the id of what it says of the service.
    pub(super) fleet: Value,
    pub(super) role: Value,
    pub(super) definition: Value,
    pub(super) machine: Value,
    pub(super) passkey: String,
    pub(super) invite: String,
    pub(super) registration: Value,
    pub(super) persona: Value,
    pub(super) job: String,
    /// For what is made, and for a chart repository that is there.
    pub(super) name: String,
    pub(super) shared: String,
}

impl World {
    pub(super) async fn new(t: &TestServer, number: usize) -> Self {
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
    pub(super) async fn renew(&mut self, t: &TestServer, number: usize, variables: &Value) {
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
            || about(&json!({"id": self.scm["governance"]}))
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
pub(super) async fn make_project(t: &TestServer, name: &str) -> Value {
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
    // One that a governance uses is not deleted: it has another one.
    let create = "mutation ($a: ScmConnectionAttributes!) { createScmConnection(attributes: $a) { id } }";
    let attributes = json!({
        "name": format!("{name}-approver"), "type": "GITHUB", "token": "a-token", "projectId": t.project,
    });
    made["approver"] =
        t.admin.data(create, json!({"a": attributes})).await["createScmConnection"]["id"].clone();
    let create = "mutation ($a: PrGovernanceAttributes!) { upsertPrGovernance(attributes: $a) { id } }";
    let attributes = pr_governance::attributes(&made["approver"], &name);
    let governance = t.admin.data(create, json!({"a": attributes})).await;
    made["governance"] = governance["upsertPrGovernance"]["id"].clone();
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
pub(super) fn namespace_attributes(name: &str, project: &str) -> Value {
    json!({"name": name, "projectId": project, "target": {"tags": {"nowhere": "at all"}}})
}

/// A global service that no cluster fits.
pub(super) fn global_attributes(name: &str, project: &str, repository: &Value) -> Value {
    json!({
        "name": name,
        "projectId": project,
        "tags": [{"name": "nowhere", "value": "at all"}],
        "template": {"repositoryId": repository["id"], "git": {"ref": "main", "folder": "web"}},
    })
}
