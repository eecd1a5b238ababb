//! A server on a free port that gives prepared answers in order and remembers what it was asked.

use std::{collections::VecDeque, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use parking_lot::Mutex;
use plural_wire::{Client, ClientOptions, Secret};
use serde_json::Value;
use tokio::task::JoinSet;

#[derive(Default)]
struct Script {
    answers: VecDeque<(StatusCode, String)>,
    asked: Vec<(Option<String>, Value)>,
}

/// Stops when dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    script: Arc<Mutex<Script>>,
    _task: JoinSet<()>,
}

impl Server {
    /// A server that gives these answers, one per request, and then HTTP 418.
    pub(crate) async fn answering(answers: &[(u16, Value)]) -> Self {
        let script = Arc::new(Mutex::new(Script {
            answers: answers
                .iter()
                .map(|(status, body)| (StatusCode::from_u16(*status).unwrap(), body.to_string()))
                .collect(),
            asked: Vec::new(),
        }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/gql", post(answer)).with_state(Arc::clone(&script));
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, script, _task: task }
    }

    pub(crate) fn client(&self, token: Option<&str>) -> Client {
        Client::new(&ClientOptions::new(&self.url, token.map(Secret::new))).unwrap()
    }

    /// `Authorization` and body of each request so far.
    pub(crate) fn asked(&self) -> Vec<(Option<String>, Value)> {
        self.script.lock().asked.clone()
    }
}

async fn answer(
    State(script): State<Arc<Mutex<Script>>>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, String) {
    let mut script = script.lock();
    let credential = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    script.asked.push((credential, serde_json::from_str(&body).unwrap()));
    script.answers.pop_front().unwrap_or((StatusCode::IM_A_TEAPOT, String::new()))
}
