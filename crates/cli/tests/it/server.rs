//! A server on a free port that answers each operation by its name with prepared answers, the last of
//! which repeats, and remembers what it was asked.

use std::{collections::HashMap, sync::Arc};

use axum::{Json, Router, extract::State, http::HeaderMap, routing::post};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

#[derive(Default)]
struct Script {
    answers: HashMap<String, Vec<Value>>,
    asked: Vec<(String, Value, Option<String>)>,
}

/// Stops when dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    script: Arc<Mutex<Script>>,
    _task: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let script = Arc::new(Mutex::new(Script::default()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/gql", post(answer)).with_state(Arc::clone(&script));
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, script, _task: task }
    }

    /// Answers `operation` with this root field; called again, the next time with that.
    pub(crate) fn data(self, operation: &str, field: &str, value: &Value) -> Self {
        self.put(operation, json!({"data": {field: value}}))
    }

    /// Refuses `operation`.
    pub(crate) fn error(self, operation: &str, code: &str, message: &str) -> Self {
        let error = json!({"message": message, "extensions": {"code": code}});
        self.put(operation, json!({"data": null, "errors": [error]}))
    }

    fn put(self, operation: &str, answer: Value) -> Self {
        self.script.lock().answers.entry(operation.into()).or_default().push(answer);
        self
    }

    /// Variables of each request for `operation` so far.
    pub(crate) fn asked(&self, operation: &str) -> Vec<Value> {
        let script = self.script.lock();
        script.asked.iter().filter(|asked| asked.0 == operation).map(|asked| asked.1.clone()).collect()
    }

    /// `Authorization` of each request so far, in order, with the operation's name.
    pub(crate) fn credentials(&self) -> Vec<(String, Option<String>)> {
        let script = self.script.lock();
        script.asked.iter().map(|asked| (asked.0.clone(), asked.2.clone())).collect()
    }
}

async fn answer(
    State(script): State<Arc<Mutex<Script>>>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Json<Value> {
    let mut script = script.lock();
    let name = body["operationName"].as_str().unwrap().to_owned();
    let credential = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    script.asked.push((name.clone(), body["variables"].clone(), credential));
    let answers = script.answers.get_mut(&name).unwrap_or_else(|| panic!("no answer for {name}"));
    Json(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
}
