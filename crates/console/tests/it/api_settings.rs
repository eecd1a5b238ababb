//! Two people who change two settings of one service at the same moment, through the API.
//!
//! One backend is enough: each database has a test of its own, as they make writers wait in different ways.

use std::time::Duration;

use plural_testkit::{TestDatabase, eventually, run_case};
use sea_orm::{ConnectOptions, ConnectionTrait as _, Database, DatabaseConnection, DbBackend, Statement};
use serde_json::{Value, json};

use crate::api_server::TestServer;

const PATIENCE: Duration = Duration::from_mins(1);

const UPDATE: &str = "mutation ($id: ID!, $a: ServiceUpdateAttributes!) {
  updateServiceDeployment(id: $id, attributes: $a) { id revision { id } syncConfig { policy { prunePercent retryLimit } } }
}";
const GET: &str = "query ($id: ID!) { serviceDeployment(id: $id) {
  syncConfig { policy { prunePercent retryLimit } }
  revisions(first: 100) { edges { node { id } } }
  events(first: 100) { edges { node { action } } }
} }";

/// One connection to the console's database beside those of the console, which holds its writers up.
struct Holder(DatabaseConnection);

impl Holder {
    async fn connect(url: &str) -> Self {
        let mut options = ConnectOptions::new(url);
        options.max_connections(1).min_connections(1);
        Self(Database::connect(options).await.unwrap())
    }

    async fn run(&self, sql: &str) {
        self.0.execute_unprepared(sql).await.unwrap();
    }

    async fn close(self) {
        self.0.close().await.unwrap();
    }

    async fn count(&self, sql: &str) -> i64 {
        let statement = Statement::from_string(DbBackend::Postgres, sql);
        self.0.query_one_raw(statement).await.unwrap().unwrap().try_get("", "count").unwrap()
    }
}

async fn service(t: &TestServer) -> Value {
    let cluster = t.admin.cluster("blue").await;
    let repository = t.admin.repository("https://git.example.com/a.git").await;
    t.admin.service(&cluster, &repository, "web").await
}

/// Both updates read the service while `holder` keeps all writers waiting, so neither can know of the other's change. What is in
/// the database afterwards has both. `both_wait` is given the number of statements so far.
async fn two_clients_change_two_settings_at_once(
    t: &TestServer,
    service: &Value,
    holder: Holder,
    both_wait: impl AsyncFn(u64),
) {
    let before = t.admin.data(GET, json!({"id": service["id"]})).await["serviceDeployment"].clone();
    let started = t.console.statements();
    let update = |policy: Value| {
        let (admin, id) = (t.admin.clone(), service["id"].clone());
        tokio::spawn(async move {
            admin.data(UPDATE, json!({"id": id, "a": {"syncConfig": {"policy": policy}}})).await
        })
    };
    let (one, other) = (update(json!({"prunePercent": 30})), update(json!({"retryLimit": 3})));
    both_wait(started).await;
    holder.run("COMMIT").await;
    holder.close().await;
    let revisions: Vec<Value> = [one.await.unwrap(), other.await.unwrap()]
        .into_iter()
        .map(|data| data["updateServiceDeployment"]["revision"]["id"].clone())
        .collect();
    assert_ne!(revisions[0], revisions[1]);

    let after = t.admin.data(GET, json!({"id": service["id"]})).await["serviceDeployment"].clone();
    assert_eq!(after["syncConfig"]["policy"], json!({"prunePercent": 30, "retryLimit": 3}));
    let more = |field: &str, wanted: &dyn Fn(&Value) -> bool| {
        let count = |service: &Value| {
            let edges = service[field]["edges"].as_array().unwrap();
            edges.iter().filter(|edge| wanted(&edge["node"])).count()
        };
        count(&after) - count(&before)
    };
    assert_eq!(more("revisions", &|_| true), 2);
    assert_eq!(more("events", &|event| event["action"] == "service.update"), 2);
}

/// Readers go on while a connection holds the only lock that writers take. How far two requests are shows only in the number of
/// statements: both have read the service once there were twice as many as an update costs that is refused for what it says
/// of the service.
#[tokio::test]
async fn two_clients_change_two_settings_at_once_on_sqlite() {
    let t = TestServer::start().await;
    let service = service(&t).await;
    let mut reads = u64::MAX;
    // The console's own statements come now and then in between: not each time.
    for _ in 0..5 {
        let started = t.console.statements();
        let attributes = json!({"syncConfig": {"policy": {"retryMaxWait": "1h"}}});
        let refused = t.admin.ask(UPDATE, json!({"id": service["id"], "a": attributes})).await;
        assert_eq!(refused.outcome(), "INVALID", "{refused:?}");
        reads = reads.min(t.console.statements() - started);
    }
    let database = t.folder.path().join("data/plural.db");
    let holder = Holder::connect(&format!("sqlite://{}", database.display())).await;
    holder.run("BEGIN IMMEDIATE").await;
    let both_wait = async |started: u64| {
        eventually(PATIENCE, async || {
            let done = t.console.statements() - started;
            if done >= 2 * reads { Ok(()) } else { Err(format!("{done} statements of {}", 2 * reads)) }
        })
        .await;
    };
    two_clients_change_two_settings_at_once(&t, &service, holder, both_wait).await;
    t.stop().await;
}

/// The two requests go to two replicas, and both wait for the service's row.
#[test]
fn two_clients_change_two_settings_at_once_on_postgres() {
    run_case(async {
        let Some(database) = TestDatabase::postgres_or_report() else { return };
        let t = TestServer::replicas(&database).await;
        let service = service(&t).await;
        let (holder, observer) =
            (Holder::connect(database.url()).await, Holder::connect(database.url()).await);
        holder.run("BEGIN").await;
        holder.run("SELECT id FROM services FOR UPDATE").await;
        let both_wait = async |_: u64| {
            let waiting = "SELECT count(DISTINCT l.pid) AS count FROM pg_locks l \
                           JOIN pg_stat_activity a ON a.pid = l.pid \
                           WHERE NOT l.granted AND a.datname = current_database()";
            eventually(PATIENCE, async || {
                let count = observer.count(waiting).await;
                if count >= 2 { Ok(()) } else { Err(format!("{count} wait")) }
            })
            .await;
        };
        two_clients_change_two_settings_at_once(&t, &service, holder, both_wait).await;
        observer.close().await;
        t.stop().await;
    });
}
