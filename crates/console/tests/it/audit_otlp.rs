//! The audit log at a collector of OpenTelemetry, which is down for a while.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode},
    routing::post,
};
use parking_lot::Mutex;
use plural_testkit::{TestDatabase, each_database, eventually};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::api_server::TestServer;

each_database!(a_collector_that_was_down_has_every_line);

const PATIENCE: Duration = Duration::from_mins(1);

/// What a collector got, and how it answers.
#[derive(Default)]
struct Collector {
    is_down: AtomicBool,
    refuses: AtomicBool,
    turned_away: AtomicU32,
    /// Lines by their batch and their place in it.
    lines: Mutex<BTreeMap<(u64, u64), String>>,
    records: Mutex<Vec<Value>>,
}

/// The value of an attribute.
fn attribute<'a>(record: &'a Value, key: &str) -> &'a Value {
    let all = record["attributes"].as_array().unwrap();
    all.iter().find(|attribute| attribute["key"] == key).map_or(&record["nothing"], |found| &found["value"])
}

async fn export(
    State(collector): State<Arc<Collector>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["authorization"], "Bearer of-the-collector");
    if collector.is_down.load(Ordering::SeqCst) {
        collector.turned_away.fetch_add(1, Ordering::SeqCst);
        return (StatusCode::SERVICE_UNAVAILABLE, String::new());
    }
    let sent: Value = serde_json::from_slice(&body).unwrap();
    if collector.refuses.load(Ordering::SeqCst) {
        collector.turned_away.fetch_add(1, Ordering::SeqCst);
        let told = json!({"partialSuccess": {"rejectedLogRecords": "1", "errorMessage": "not these"}});
        return (StatusCode::OK, told.to_string());
    }
    // All of a request at once.
    let (mut lines, mut records) = (collector.lines.lock(), collector.records.lock());
    for logs in sent["resourceLogs"].as_array().unwrap() {
        for scope in logs["scopeLogs"].as_array().unwrap() {
            assert_eq!(scope["scope"]["name"], "plural.audit");
            for record in scope["logRecords"].as_array().unwrap() {
                let number = |value: &Value| value.as_str().unwrap().parse::<u64>().unwrap();
                let batch = number(&attribute(record, "plural.audit.batch")["stringValue"]);
                let place = number(&attribute(record, "plural.audit.place")["intValue"]);
                let line = record["body"]["stringValue"].as_str().unwrap().to_owned();
                assert!(number(&record["timeUnixNano"]) > 0 && record["severityNumber"] == 9);
                lines.insert((batch, place), line);
                records.push(record.clone());
            }
        }
    }
    (StatusCode::OK, "{}".to_owned())
}

async fn a_collector_that_was_down_has_every_line(database: TestDatabase) {
    let collector = Arc::new(Collector::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("otlp:http://{}/v1/logs", listener.local_addr().unwrap());
    let service = Router::new().route("/v1/logs", post(export)).layer(DefaultBodyLimit::max(20 << 20));
    let service = service.with_state(Arc::clone(&collector)).into_make_service();
    let server = tokio::spawn(async move { axum::serve(listener, service).await });
    let url = database.url().to_owned();
    let t = TestServer::with(|config| {
        config.database_url = Some(SecretString::from(url));
        config.audit_stream = vec![address];
        config.audit_stream_header = vec!["authorization=Bearer of-the-collector".into()];
    })
    .await;
    let group = async |name: &str| {
        let create = "mutation ($a: GroupAttributes!) { createGroup(attributes: $a) { id } }";
        t.admin.data(create, json!({"a": {"name": name}})).await;
    };
    let has = async |name: &str| {
        let named = format!("\"targetName\":\"{name}\"");
        eventually(PATIENCE, async || collector.lines.lock().values().any(|line| line.contains(&named)))
            .await;
    };
    group("before").await;
    has("before").await;
    // Down, and up again only after it turned the console away; then it takes a part and says that it did not.
    for (way, name) in [(&collector.is_down, "while-down"), (&collector.refuses, "while-refused")] {
        way.store(true, Ordering::SeqCst);
        let turned_away = collector.turned_away.load(Ordering::SeqCst);
        group(name).await;
        eventually(PATIENCE, async || collector.turned_away.load(Ordering::SeqCst) > turned_away).await;
        let named = format!("\"targetName\":\"{name}\"");
        assert!(!collector.lines.lock().values().any(|line| line.contains(&named)));
        way.store(false, Ordering::SeqCst);
        has(name).await;
    }
    // What it has is what an export has, line by line, but for the checkpoints that each part brings.
    let lines = collector.lines.lock().clone();
    let http = reqwest::Client::builder().tls_certs_only([]).build().unwrap();
    let export = http.get(t.url("/ext/v1/audit/export")).bearer_auth(t.admin.token.as_ref().unwrap());
    let export = export.send().await.unwrap().text().await.unwrap();
    let is_of_part = |line: &&str| {
        ["batch", "list", "change", "request"]
            .iter()
            .any(|kind| line.contains(&format!("\"kind\":\"{kind}\"")))
    };
    let last = lines.keys().map(|(batch, _)| *batch).max().unwrap();
    let got: Vec<&str> = lines.values().map(String::as_str).filter(is_of_part).collect();
    let expected: Vec<&str> = export
        .lines()
        .filter(is_of_part)
        .take_while(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            value["kind"] != "batch" || value["sequence"].as_u64().unwrap() <= last
        })
        .collect();
    assert!(got.len() > 6, "{got:?}");
    assert_eq!(got, expected);
    let checkpoints = lines.values().filter(|line| line.contains("\"kind\":\"checkpoint\"")).count();
    assert_eq!(checkpoints as u64, last, "each part brings its own");
    let created = collector.records.lock().clone();
    let created = created
        .iter()
        .find(|record| attribute(record, "plural.audit.target.name")["stringValue"] == "while-down");
    let created = created.unwrap();
    assert_eq!(created["eventName"], "plural.audit.change");
    assert_eq!(attribute(created, "plural.audit.action")["stringValue"], "group.create");
    assert_eq!(attribute(created, "plural.audit.actor")["stringValue"], "admin@example.com");
    t.stop().await;
    server.abort();
}
