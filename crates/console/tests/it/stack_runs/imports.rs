//! Outputs of stacks that services import: what the agent is given, who is shown what, and what is refused.

use std::time::Duration;

use plural_app::agent::{AgentReport, ReportedService};
use plural_app::agent_poll::{PollAsked, ServiceSpec};
use plural_core::service_error::ServiceError;
use plural_core::stack_run::RunPhase;
use plural_core::sync::SyncReport;
use plural_testkit::{TestDatabase, each_database, eventually};
use serde_json::{Value, json};

use super::world::World;
use crate::api_server::{Answer, Person};

each_database!(
    outputs_reach_the_agent_again_only_where_they_change,
    a_sensitive_output_is_masked_for_readers,
    who_imports_needs_the_rights_to_the_stack,
    a_stack_that_is_imported_is_not_deleted,
);

const CREATE: &str = "mutation ($c: ID, $a: ServiceDeploymentAttributes!) {
    createServiceDeployment(clusterId: $c, attributes: $a) { id } }";
const UPDATE: &str = "mutation ($id: ID, $a: ServiceUpdateAttributes!) { updateServiceDeployment(id: $id, attributes: $a) { id } }";
const SHOW: &str = "query ($id: ID) { serviceDeployment(id: $id) {
    imports { id sensitive stack { id name } outputs { name value json secret } } errors { source message } } }";
pub(super) const SECRET: &str = "s3cret-output-5d1c";

impl World {
    /// A service that imports the stack; its id.
    async fn importer(&self) -> String {
        let attributes = json!({
            "name": "web", "namespace": "shop", "repositoryId": self.repository,
            "git": {"ref": "main", "folder": "docs"}, "imports": [{"stackId": self.stack}],
        });
        let made = self.t.owner.data(CREATE, json!({"c": self.cluster, "a": attributes})).await;
        self.fetched(&made["createServiceDeployment"]["id"]).await
    }

    /// The id of a service, once its commit was fetched: with that it has another revision than the one that it begins with.
    pub(super) async fn fetched(&self, service: &Value) -> String {
        let ask = "query ($id: ID) { serviceDeployment(id: $id) { sha } }";
        eventually(Duration::from_mins(1), async || {
            let found = self.t.owner.data(ask, json!({"id": service})).await;
            if found["serviceDeployment"]["sha"].is_string() { Ok(()) } else { Err(found.to_string()) }
        })
        .await;
        service.as_str().unwrap().to_owned()
    }

    /// Run `number` of the stack is applied, and tells these outputs.
    pub(super) async fn gives(&self, number: u64, outputs: Value) {
        self.plans(number, 1).await;
        let run = self.run(number, "PENDING").await;
        let apply = self.take(&run, RunPhase::Apply, 0).await;
        assert_eq!(apply.get("input").await.0, 200);
        let report = json!({"succeeded": true, "changed": true, "outputs": outputs});
        assert_eq!(apply.ends(report).await, 204);
        self.run(number, "SUCCESSFUL").await;
    }

    /// One more run, with these outputs.
    pub(super) async fn gives_again(&self, number: u64, outputs: Value) {
        assert_eq!(self.trigger(&self.t.owner, false, false).await.outcome(), "OK");
        self.gives(number, outputs).await;
    }

    /// The service as the agent is told of it, when its imports are these.
    async fn told(&self, imports: &Value) -> ServiceSpec {
        eventually(Duration::from_mins(1), async || {
            let answer = self.t.console.app().agent_poll(&self.agent, &PollAsked::at(None)).await;
            let answer = answer.map_err(|error| error.log_text())?;
            let found = answer.services.into_iter().find(|spec| json!(spec.imports) == *imports);
            found.ok_or_else(|| format!("no service is given {imports}"))
        })
        .await
    }

    /// The agent reports an error of the service that quotes the secret output.
    pub(super) async fn quotes_the_secret(&self, spec: ServiceSpec) {
        let error = ServiceError {
            source: "sync".into(),
            message: format!("the API server refuses {SECRET} at 10.0.0.1"),
            warning: false,
            terminal: false,
            location: None,
        };
        let said = ReportedService {
            id: spec.id,
            revision_id: spec.revision_id,
            sequence: spec.sequence,
            sha: spec.sha,
            applied: false,
            destroyed: false,
            components: None,
            errors: vec![error],
            metadata: None,
            sync: SyncReport::default(),
        };
        let report = AgentReport { id: 1, services: vec![said], facts: None };
        self.t.console.app().agent_report(&self.agent, report).await.unwrap();
    }

    async fn set_imports(&self, by: &Person, service: &str, stacks: &[&str]) -> Answer {
        let imports: Vec<Value> = stacks.iter().map(|stack| json!({"stackId": stack})).collect();
        by.ask(UPDATE, json!({"id": service, "a": {"imports": imports}})).await
    }
}

pub(super) fn outputs(address: &str) -> Value {
    json!([
        {"name": "address", "value": address, "secret": false},
        {"name": "zones", "value": ["a", "b"], "secret": false},
        {"name": "password", "value": {"deep": SECRET}, "secret": true},
    ])
}

fn given(address: &str) -> Value {
    json!({"infra": {"address": address, "zones": ["a", "b"], "password": {"deep": SECRET}}})
}

async fn outputs_reach_the_agent_again_only_where_they_change(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.importer().await;
    w.told(&json!({"infra": {}})).await;
    w.gives(1, outputs("10.0.0.1")).await;
    let first = w.told(&given("10.0.0.1")).await;
    w.gives_again(2, outputs("10.0.0.1")).await;
    assert_eq!(w.told(&given("10.0.0.1")).await.sequence, first.sequence, "nothing changed");
    w.gives_again(3, outputs("10.0.0.2")).await;
    let changed = w.told(&given("10.0.0.2")).await;
    assert!(changed.sequence > first.sequence);
    assert_eq!(changed.revision_id, first.revision_id, "outputs are no part of a revision");
    // That it is sensitive is a change as well.
    let mut open = outputs("10.0.0.2");
    open[2]["secret"] = json!(false);
    w.gives_again(4, open).await;
    eventually(Duration::from_mins(1), async || {
        let now = w.told(&given("10.0.0.2")).await.sequence;
        (now > changed.sequence).then_some(()).ok_or_else(|| format!("still at {now}"))
    })
    .await;
    w.t.stop().await;
}

async fn a_sensitive_output_is_masked_for_readers(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let service = w.importer().await;
    w.gives(1, outputs("10.0.0.1")).await;
    let spec = w.told(&given("10.0.0.1")).await;
    w.quotes_the_secret(spec).await;

    let seen = async |by: &Person| by.data(SHOW, json!({"id": service})).await["serviceDeployment"].clone();
    let (owner, reader) = (seen(&w.t.owner).await, seen(&w.t.reader).await);
    assert!(owner["errors"].to_string().contains(SECRET), "{owner}");
    assert_eq!(owner["imports"][0]["stack"]["name"], "infra");
    let json_of = |shown: &Value, name: &str| {
        let all = shown["imports"][0]["outputs"].as_array().unwrap();
        all.iter().find(|output| output["name"] == name).unwrap()["json"].clone()
    };
    assert_eq!(json_of(&owner, "password"), format!("{{\"deep\":\"{SECRET}\"}}"));
    assert_eq!(
        (json_of(&reader, "password"), json_of(&reader, "address")),
        (Value::Null, json!("\"10.0.0.1\""))
    );
    assert!(!reader.to_string().contains(SECRET), "{reader}");
    assert!(reader["errors"].to_string().contains("at 10.0.0.1"), "{reader}");
    w.t.stop().await;
}

async fn who_imports_needs_the_rights_to_the_stack(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let service = w.importer().await;
    assert_eq!(w.set_imports(&w.t.owner, &service, &[]).await.outcome(), "OK");
    w.gives(1, outputs("10.0.0.1")).await;
    // Each may change the service, and nothing else.
    let bind = "mutation ($id: ID!, $b: [PolicyBindingAttributes]) {
        updateRbac(serviceId: $id, rbac: {writeBindings: $b}) }";
    let me = "{ me { id } }";
    let mut bindings = Vec::new();
    for person in [&w.t.reader, &w.t.stranger] {
        bindings.push(json!({"userId": person.data(me, json!({})).await["me"]["id"]}));
    }
    w.t.admin.data(bind, json!({"id": service, "b": bindings})).await;
    let as_stranger = w.set_imports(&w.t.stranger, &service, &[&w.stack]).await;
    assert_eq!(as_stranger.outcome(), "NOT_FOUND", "{as_stranger:?}");
    let as_reader = w.set_imports(&w.t.reader, &service, &[&w.stack]).await;
    assert_eq!(as_reader.outcome(), "FORBIDDEN", "{as_reader:?}");
    assert!(as_reader.message().contains("infra"), "{as_reader:?}");
    assert_eq!(w.told(&json!({})).await.imports.len(), 0);

    assert_eq!(w.set_imports(&w.t.owner, &service, &[&w.stack]).await.outcome(), "OK");
    w.told(&given("10.0.0.1")).await;
    let hidden = w.t.stranger.data(SHOW, json!({"id": service})).await;
    assert_eq!(hidden["serviceDeployment"]["imports"], json!([]), "the stranger does not see the stack");
    let wrong = w.set_imports(&w.t.owner, &service, &["infra"]).await;
    assert_eq!(wrong.outcome(), "NOT_FOUND", "{wrong:?}");
    w.t.stop().await;
}

async fn a_stack_that_is_imported_is_not_deleted(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let service = w.importer().await;
    w.gives(1, outputs("10.0.0.1")).await;
    for mutation in ["deleteStack", "detachStack"] {
        let document = format!("mutation ($id: ID!) {{ {mutation}(id: $id) {{ id }} }}");
        let refused = w.t.owner.ask(&document, json!({"id": w.stack})).await;
        assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
        assert!(refused.message().contains("web"), "{refused:?}");
    }
    assert_eq!(w.known(&w.t.owner).await["deletedAt"], Value::Null);
    // What a destruction leaves is nothing, and the service is told so.
    assert_eq!(w.trigger(&w.t.owner, false, true).await.outcome(), "OK");
    w.plans(2, 1).await;
    w.applies(2).await;
    w.told(&json!({"infra": {}})).await;
    assert_eq!(w.set_imports(&w.t.owner, &service, &[]).await.outcome(), "OK");
    let document = "mutation ($id: ID!) { deleteStack(id: $id) { id } }";
    assert_eq!(w.t.owner.ask(document, json!({"id": w.stack})).await.outcome(), "OK");
    w.t.stop().await;
}
