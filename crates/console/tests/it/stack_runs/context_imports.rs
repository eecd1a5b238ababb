//! Outputs of stacks that contexts take: what the agent is given, and who is shown what.

use std::time::Duration;

use plural_app::agent_poll::{PollAsked, ServiceSpec};
use plural_testkit::{TestDatabase, each_database, eventually};
use serde_json::{Value, json};

use super::imports::{SECRET, outputs};
use super::world::World;
use crate::api_server::Person;

each_database!(
    the_agent_is_given_what_a_context_takes_and_again_only_where_it_changes,
    a_sensitive_output_of_a_context_is_shown_to_nobody_and_masked_for_readers,
);

const SAVE: &str =
    "mutation ($a: ServiceContextAttributes!) { saveServiceContext(name: \"network\", attributes: $a) {
    id configuration secretNames imports { name output sensitive stackId stack { name } } } }";
const CREATE: &str = "mutation ($c: ID, $a: ServiceDeploymentAttributes!) {
    createServiceDeployment(clusterId: $c, attributes: $a) { id } }";
const SHOW: &str = "query ($id: ID) { serviceDeployment(id: $id) {
    errors { source message } contexts { name configuration imports { name output sensitive stack { name } } } } }";

impl World {
    /// A service that reads a context, which takes two outputs of the stack.
    async fn reads_context(&self) -> String {
        let imports = json!([
            {"stackId": self.stack, "output": "address", "name": "host"},
            {"stackId": self.stack, "output": "password", "sensitive": true},
        ]);
        let attributes =
            json!({"projectId": self.t.project, "configuration": {"region": "eu"}, "imports": imports});
        let saved = self.t.owner.data(SAVE, json!({"a": attributes})).await["saveServiceContext"].clone();
        let attributes = json!({
            "name": "web", "namespace": "shop", "repositoryId": self.repository,
            "git": {"ref": "main", "folder": "docs"}, "contextBindings": [{"contextId": saved["id"]}],
        });
        let made = self.t.owner.data(CREATE, json!({"c": self.cluster, "a": attributes})).await;
        self.fetched(&made["createServiceDeployment"]["id"]).await
    }

    /// The service as the agent is told of it, when its contexts are these.
    async fn told_contexts(&self, contexts: &Value) -> ServiceSpec {
        eventually(Duration::from_mins(1), async || {
            let answer = self.t.console.app().agent_poll(&self.agent, &PollAsked::at(None)).await;
            let answer = answer.map_err(|error| error.log_text())?;
            let found = answer.services.into_iter().find(|spec| json!(spec.contexts) == *contexts);
            found.ok_or_else(|| format!("no service is given {contexts}"))
        })
        .await
    }
}

fn given(address: &str) -> Value {
    json!({"network": {"region": "eu", "host": address, "password": {"deep": SECRET}}})
}

async fn the_agent_is_given_what_a_context_takes_and_again_only_where_it_changes(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    w.reads_context().await;
    // Nothing is applied yet.
    w.told_contexts(&json!({"network": {"region": "eu"}})).await;
    w.gives(1, outputs("10.0.0.1")).await;
    let first = w.told_contexts(&given("10.0.0.1")).await;
    assert!(first.imports.is_empty(), "a context's outputs are no imports of its services");
    w.gives_again(2, outputs("10.0.0.1")).await;
    assert_eq!(w.told_contexts(&given("10.0.0.1")).await.sequence, first.sequence, "nothing changed");
    w.gives_again(3, outputs("10.0.0.2")).await;
    let changed = w.told_contexts(&given("10.0.0.2")).await;
    assert!(changed.sequence > first.sequence);

    // An output that becomes sensitive is for a context that says so; the other one stays.
    let mut hidden = outputs("10.0.0.2");
    hidden[0]["secret"] = json!(true);
    w.gives_again(4, hidden).await;
    w.told_contexts(&json!({"network": {"region": "eu", "password": {"deep": SECRET}}})).await;
    w.t.stop().await;
}

async fn a_sensitive_output_of_a_context_is_shown_to_nobody_and_masked_for_readers(database: TestDatabase) {
    let w = World::new(&database, json!({})).await;
    let service = w.reads_context().await;
    w.gives(1, outputs("10.0.0.1")).await;
    let spec = w.told_contexts(&given("10.0.0.1")).await;
    w.quotes_the_secret(spec).await;

    let seen = async |by: &Person| by.data(SHOW, json!({"id": service})).await["serviceDeployment"].clone();
    let (owner, reader) = (seen(&w.t.owner).await, seen(&w.t.reader).await);
    assert!(owner["errors"].to_string().contains(SECRET), "{owner}");
    assert!(!reader.to_string().contains(SECRET), "{reader}");
    assert!(reader["errors"].to_string().contains("at 10.0.0.1"), "{reader}");
    // The context itself says which outputs, and not even to whoever saved it what they are.
    for shown in [&owner["contexts"], &reader["contexts"]] {
        let imports = json!([
            {"name": "host", "output": "address", "sensitive": false, "stack": {"name": "infra"}},
            {"name": "password", "output": "password", "sensitive": true, "stack": {"name": "infra"}},
        ]);
        assert_eq!(
            *shown,
            json!([{"name": "network", "configuration": {"region": "eu"}, "imports": imports}])
        );
    }
    w.t.stop().await;
}
