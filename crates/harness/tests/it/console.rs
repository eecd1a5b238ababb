//! A console that keeps what a harness says, and has bad days.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json, Router,
    body::to_bytes,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    response::{IntoResponse as _, Response},
};
use parking_lot::Mutex;
use plural_core::run_call::{LogsKept, PlanReport, RunBeat, RunInput, RunReport, StepReport, state_token};
use serde_json::json;

/// The credential of the run.
pub(crate) const TOKEN: &str = "run-0123456789abcdef";

/// What a console was told, and how it answers.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) input: Option<RunInput>,
    pub(crate) artifact: Vec<u8>,
    pub(crate) plan_file: Vec<u8>,
    pub(crate) logs: BTreeMap<u32, Vec<u8>>,
    pub(crate) steps: Vec<(u32, StepReport)>,
    pub(crate) parts: BTreeMap<String, Vec<u8>>,
    pub(crate) planned: Option<PlanReport>,
    pub(crate) done: Option<RunReport>,
    pub(crate) states: Vec<Vec<u8>>,
    pub(crate) beats: u32,
    /// Signs of life are answered with a wish to stop.
    pub(crate) cancel: bool,
    /// The credential is none any more.
    pub(crate) ended: bool,
    /// `planned` is refused with this reason.
    pub(crate) refuses_plan: Option<&'static str>,
    /// Every second call of a log is kept, and its answer lost; every third one does not arrive.
    pub(crate) loses: bool,
    /// The report arrives, and its answer is lost.
    pub(crate) loses_done: bool,
    /// A report with outputs is refused.
    pub(crate) refuses_outputs: bool,
    /// How a state is answered.
    pub(crate) state_answer: Option<(StatusCode, &'static str)>,
    calls: u32,
}

/// A console. Ends with the runtime of its test.
#[derive(Clone)]
pub(crate) struct FakeConsole {
    pub(crate) url: String,
    told: Arc<Mutex<Told>>,
}

impl FakeConsole {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let told = Arc::new(Mutex::new(Told::default()));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&told));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, told }
    }

    /// Looks at what it was told, or changes how it answers.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Told) -> T) -> T {
        look(&mut self.told.lock())
    }

    /// The log of a step as text.
    pub(crate) fn log(&self, step: u32) -> String {
        let bytes = self.with(|told| told.logs.get(&step).cloned().unwrap_or_default());
        String::from_utf8(bytes).unwrap()
    }

    /// The report; fails the test where there is none.
    pub(crate) fn done(&self) -> RunReport {
        self.with(|told| told.done.clone()).expect("the harness reported nothing")
    }

    /// Why it failed, as it was reported.
    pub(crate) fn error(&self) -> String {
        self.done().error.expect("the run did not fail")
    }
}

async fn answer(State(told): State<Arc<Mutex<Told>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 64 << 20).await.unwrap().to_vec();
    let (path, query) = (parts.uri.path().to_owned(), parts.uri.query().unwrap_or_default().to_owned());
    let mut told = told.lock();
    if told.ended || !is_ours(&parts.headers, &path) {
        return (StatusCode::UNAUTHORIZED, Json(json!({"message": "unauthenticated"}))).into_response();
    }
    if path.starts_with("/v1/stacks/") {
        told.states.push(body);
        // Who names a lock does not hold it, whoever does.
        let (status, message) = match told.state_answer {
            Some((StatusCode::LOCKED, message)) if !query.is_empty() => (StatusCode::CONFLICT, message),
            answer => answer.unwrap_or((StatusCode::OK, "")),
        };
        return (status, Json(json!({"message": message}))).into_response();
    }
    let call = path.split('/').skip(4).collect::<Vec<_>>().join("/");
    match call.split_once('/').unwrap_or((call.as_str(), "")) {
        ("input", _) => Json(told.input.clone().unwrap()).into_response(),
        ("artifact", _) => told.artifact.clone().into_response(),
        ("plan-file", _) => told.plan_file.clone().into_response(),
        ("heartbeat", _) => {
            told.beats += 1;
            Json(RunBeat { cancel: told.cancel }).into_response()
        }
        ("steps", index) => {
            told.steps.push((index.parse().unwrap(), serde_json::from_slice(&body).unwrap()));
            Json(RunBeat { cancel: told.cancel }).into_response()
        }
        ("logs", _) => log(&mut told, &query, &body),
        ("plan", part) => {
            told.parts.insert(part.to_owned(), body);
            StatusCode::NO_CONTENT.into_response()
        }
        ("findings", kind) => {
            told.parts.insert(format!("findings/{kind}"), body);
            StatusCode::NO_CONTENT.into_response()
        }
        ("planned", _) => {
            if let Some(why) = told.refuses_plan {
                (StatusCode::CONFLICT, Json(json!({"message": why}))).into_response()
            } else {
                told.planned = Some(serde_json::from_slice(&body).unwrap());
                StatusCode::NO_CONTENT.into_response()
            }
        }
        ("done", _) => {
            let report: RunReport = serde_json::from_slice(&body).unwrap();
            if told.refuses_outputs && report.outputs.is_some() {
                let message = json!({"message": "outputs: must be at most 1000"});
                return (StatusCode::UNPROCESSABLE_ENTITY, Json(message)).into_response();
            }
            told.done = Some(report);
            told.ended = true;
            let status = if told.loses_done { StatusCode::BAD_GATEWAY } else { StatusCode::NO_CONTENT };
            status.into_response()
        }
        (other, _) => panic!("there is no call {other}"),
    }
}

/// Each of the two credentials opens its own door.
fn is_ours(headers: &HeaderMap, path: &str) -> bool {
    let token = if path.starts_with("/v1/stacks/") { state_token(TOKEN) } else { TOKEN.to_owned() };
    headers.get(AUTHORIZATION).is_some_and(|value| *value == format!("Bearer {token}"))
}

/// Keeps a piece of a log, each byte once.
fn log(told: &mut Told, query: &str, body: &[u8]) -> Response {
    let number = |name: &str| -> u64 {
        let found = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        found.unwrap().parse().unwrap()
    };
    let (step, offset) = (u32::try_from(number("step")).unwrap(), usize::try_from(number("offset")).unwrap());
    told.calls += 1;
    if told.loses && told.calls.is_multiple_of(3) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let kept = told.logs.entry(step).or_default();
    assert!(offset <= kept.len(), "a gap: {offset} after {}", kept.len());
    let known = kept.len() - offset;
    kept.extend_from_slice(body.get(known..).unwrap_or_default());
    let offset = kept.len() as u64;
    if told.loses && told.calls.is_multiple_of(2) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    Json(LogsKept { offset }).into_response()
}
