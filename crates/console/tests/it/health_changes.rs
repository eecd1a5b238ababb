//! What services' statuses were: reports of agents, told to whoever may see the service, without what they may not.

use std::time::Duration;

use plural_app::agent::{AgentHandle, AgentReport, ReportedService};
use plural_app::agent_poll::{PollAsked, ServiceSpec};
use plural_core::component::{Component, ComponentKey, ComponentState};
use plural_core::sync::SyncReport;
use plural_testkit::{GitRemote, TestDatabase, each_database, eventually};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::api_server::{Person, TestServer};

each_database!(a_failure_is_told_with_its_reason_to_whoever_may_see_the_service,);

const CHANGES: &str = "query ($failures: Boolean, $cluster: ID) {
  healthChanges(failures: $failures, clusterId: $cluster, first: 50) {
    edges { node { from to reason failingSince at sha service { name } } }
  }
}";
const SERVICES: &str = "{ serviceDeployments { edges { node {
  status failingSince lastRecoveredAt healthChanges(first: 1) { pageInfo { hasNextPage } edges { node { to at } } }
} } } }";

/// The agent of a cluster, and what it was told of its only service.
struct Agent {
    handle: AgentHandle,
    spec: ServiceSpec,
}

impl Agent {
    async fn of(t: &TestServer, cluster: &Value) -> Self {
        let app = t.console.app();
        let handle = app.agent_authenticate(cluster["deployToken"].as_str().unwrap()).unwrap();
        let spec = eventually(Duration::from_mins(1), async || {
            let answer =
                app.agent_poll(&handle, &PollAsked::at(None)).await.map_err(|error| error.log_text())?;
            let ready = answer.services.iter().find(|spec| spec.artifact_digest.is_some());
            ready.cloned().ok_or_else(|| format!("{answer:?}"))
        })
        .await;
        Self { handle, spec }
    }

    /// Reports that the service's only object is like this.
    async fn says(&self, t: &TestServer, id: u64, state: ComponentState, message: Option<&str>) {
        let Self { handle, spec } = self;
        let key = ComponentKey {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            namespace: "shop".into(),
            name: "web".into(),
        };
        let component = Component {
            id: Uuid::nil(),
            service_id: spec.id,
            key,
            state: Some(state),
            synced: true,
            uid: None,
            message: message.map(str::to_owned),
            children: Vec::new(),
        };
        let said = ReportedService {
            id: spec.id,
            revision_id: spec.revision_id,
            sequence: spec.sequence,
            sha: spec.sha.clone(),
            applied: true,
            destroyed: false,
            components: Some(vec![component]),
            errors: Vec::new(),
            metadata: None,
            sync: SyncReport::default(),
        };
        let report = AgentReport { id, services: vec![said], facts: None };
        t.console.app().agent_report(handle, report).await.unwrap();
    }
}

async fn changes(person: &Person, variables: Value) -> Vec<Value> {
    let data = person.data(CHANGES, variables).await;
    data["healthChanges"]["edges"].as_array().unwrap().iter().map(|edge| edge["node"].clone()).collect()
}

fn turns(changes: &[Value]) -> Vec<(&str, &str)> {
    changes.iter().map(|one| (one["from"].as_str().unwrap(), one["to"].as_str().unwrap())).collect()
}

async fn only_service(person: &Person) -> Value {
    person.data(SERVICES, json!({})).await["serviceDeployments"]["edges"][0]["node"].clone()
}

async fn a_failure_is_told_with_its_reason_to_whoever_may_see_the_service(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let remote = GitRemote::new().unwrap();
    let sha = remote
        .push_files([("web/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")])
        .unwrap();
    let cluster = t.admin.cluster("blue").await;
    let other = t.admin.cluster("green").await;
    let repository = t.admin.repository(remote.path().to_str().unwrap()).await;
    let service = t.admin.service(&cluster, &repository, "web").await;
    let agent = Agent::of(&t, &cluster).await;

    agent.says(&t, 1, ComponentState::Running, None).await;
    let healthy = changes(&t.admin, json!({})).await;
    assert_eq!(turns(&healthy), [("STALE", "HEALTHY")]);
    assert_eq!((&healthy[0]["reason"], &healthy[0]["sha"]), (&Value::Null, &json!(sha)));
    // The same again is no change.
    agent.says(&t, 2, ComponentState::Running, None).await;
    assert_eq!(changes(&t.admin, json!({})).await, healthy);
    assert_eq!(changes(&t.admin, json!({"failures": true})).await, [] as [Value; 0]);

    agent.says(&t, 3, ComponentState::Failed, Some("cannot sign in with s3cret")).await;
    let failed = changes(&t.admin, json!({"failures": true})).await;
    assert_eq!(turns(&failed), [("HEALTHY", "FAILED")]);
    assert!(failed[0]["reason"].as_str().unwrap().contains("sign in with s3cret"), "{failed:?}");
    assert_eq!(
        (&failed[0]["failingSince"], &failed[0]["service"]["name"]),
        (&failed[0]["at"], &json!("web"))
    );
    // Whoever may look only is told the reason without the secret.
    let seen = changes(&t.reader, json!({"failures": true})).await;
    let reason = seen[0]["reason"].as_str().unwrap();
    assert!(reason.contains("sign in with ********") && !reason.contains("s3cret"), "{reason}");
    let now = only_service(&t.reader).await;
    assert_eq!((&now["status"], &now["failingSince"]), (&json!("FAILED"), &failed[0]["at"]));
    assert_eq!(now["lastRecoveredAt"], Value::Null);

    agent.says(&t, 4, ComponentState::Running, None).await;
    let over = changes(&t.admin, json!({"failures": true, "cluster": cluster["id"]})).await;
    assert_eq!(turns(&over), [("FAILED", "HEALTHY"), ("HEALTHY", "FAILED")]);
    assert_eq!(over[0]["failingSince"], failed[0]["at"], "which failure is over");
    let now = only_service(&t.reader).await;
    assert_eq!((&now["failingSince"], &now["lastRecoveredAt"]), (&Value::Null, &over[0]["at"]));
    let newest = json!({"pageInfo": {"hasNextPage": true}, "edges": [{"node": {"to": "HEALTHY", "at": over[0]["at"]}}]});
    assert_eq!(now["healthChanges"], newest);

    assert_eq!(changes(&t.admin, json!({"cluster": other["id"]})).await, [] as [Value; 0]);
    assert_eq!(changes(&t.stranger, json!({})).await, [] as [Value; 0]);
    assert_eq!(t.nobody.ask(CHANGES, json!({})).await.outcome(), "401");
    let bad = t.admin.ask("{ healthChanges(after: \"x\") { edges { node { id } } } }", json!({})).await;
    assert_eq!(bad.outcome(), "INVALID", "{bad:?}");

    let detach = "mutation ($id: ID!) { detachServiceDeployment(id: $id) { id } }";
    t.admin.data(detach, json!({"id": service["id"]})).await;
    assert_eq!(changes(&t.admin, json!({})).await, [] as [Value; 0], "they go with their service");
    t.stop().await;
}
