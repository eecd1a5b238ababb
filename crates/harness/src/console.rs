//! The console, as a Job sees it: calls with retries, and answers that are a reason to stop.

use std::{
    error::Error as _,
    time::{Duration, Instant},
};

use bytes::Bytes;
use plural_core::ids::StackRunId;
use plural_core::run_call::{
    InputStep, LogsKept, MAX_PLAN_PART, PlanReport, RunBeat, RunInput, RunReport, StepReport, state_token,
};
use plural_kit::{Backoff, tls_words};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url, header::HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::watch;

use crate::{
    end::End,
    run::{ConsoleProxy, HarnessConfig, Pace},
};

/// Limit of an answer in bytes, except for files.
const LARGEST: usize = 32 << 20;
/// Limit of a refusal's text, in characters.
const LONGEST: usize = 1_000;
/// How long a connection is kept idle: a console closes one after ten seconds without requests, and a request on its way then is
/// lost.
const IDLE: Duration = Duration::from_secs(8);

/// Why a Job cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RunSetupError(String);

/// Why a call failed.
pub(crate) enum Trouble {
    /// A temporary failure.
    Again(String),
    /// A permanent failure.
    End(End),
}

/// The answer of the state endpoint.
pub(crate) struct StateAnswer {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

/// The console.
pub(crate) struct Console {
    client: Client,
    base: String,
    run: StackRunId,
    authorization: HeaderValue,
    state_token: SecretString,
    pace: Pace,
    stop: watch::Sender<Option<End>>,
}

impl Console {
    /// Prepares the client; nothing is sent yet.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub(crate) fn new(config: &HarnessConfig) -> Result<Self, RunSetupError> {
        let HarnessConfig { console_url, run, token, ca_pem, insecure_http, proxy, folder: _, pace } = config;
        let parsed = Url::parse(console_url).ok().filter(Url::has_host);
        let Some(parsed) = parsed.filter(|url| matches!(url.scheme(), "http" | "https")) else {
            return Err(RunSetupError(format!("{console_url:?} is not the address of a console")));
        };
        if parsed.scheme() == "http" && !insecure_http && !is_loopback(&parsed) {
            return Err(RunSetupError(format!(
                "{console_url} has no TLS: the credential of the run would be read on the way; use https, or allow it \
                 with --insecure-http"
            )));
        }
        // Losing the race to another caller that installs one is fine: they are the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("plural-harness/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(pace.request.min(Duration::from_secs(10)))
            .read_timeout(pace.request)
            .pool_idle_timeout(IDLE)
            .no_proxy()
            // The credential is only sent to the URL that the agent named.
            .redirect(reqwest::redirect::Policy::none());
        if parsed.scheme() == "http" {
            // No TLS, so an image without system certificates must not fail to load them.
            builder = builder.tls_certs_only([]);
        } else if let Some(pem) = ca_pem.as_deref() {
            let certificates =
                reqwest::Certificate::from_pem_bundle(pem).ok().filter(|found| !found.is_empty());
            let Some(certificates) = certificates else {
                return Err(RunSetupError("the console's certificate authority is not PEM".to_owned()));
            };
            builder = builder.tls_certs_merge(certificates);
        }
        if let Some(ConsoleProxy { url, except }) = proxy.as_ref().filter(|_| !is_loopback(&parsed)) {
            // The cause could contain its password.
            let proxy = reqwest::Proxy::all(url.expose_secret()).map_err(|_| {
                RunSetupError("the address of the proxy to the console cannot be used".to_owned())
            })?;
            builder = builder.proxy(proxy.no_proxy(reqwest::NoProxy::from_string(except)));
        }
        let client = builder
            .build()
            .map_err(|error| RunSetupError(format!("cannot prepare connections: {}", cause(&error))))?;
        let token = token.expose_secret();
        let authorization = HeaderValue::from_str(&format!("Bearer {token}"));
        let Ok(mut authorization) = authorization else {
            return Err(RunSetupError("the run's token holds signs that no token has".to_owned()));
        };
        authorization.set_sensitive(true);
        let (stop, _) = watch::channel(None);
        Ok(Self {
            client,
            base: parsed.as_str().trim_end_matches('/').to_owned(),
            run: *run,
            authorization,
            state_token: state_token(token).into(),
            pace: pace.clone(),
            stop,
        })
    }

    /// The URL without a slash at its end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The credential for the state: the only one that commands get.
    pub(crate) fn state_token(&self) -> &SecretString {
        &self.state_token
    }

    /// Signals when to stop, and why.
    pub(crate) fn stop(&self) -> watch::Receiver<Option<End>> {
        self.stop.subscribe()
    }

    /// Sets the reason to stop; the first one wins.
    pub(crate) fn ask_to_stop(&self, why: End) {
        self.stop.send_if_modified(|stop| {
            let is_first = stop.is_none();
            if is_first {
                *stop = Some(why);
            }
            is_first
        });
    }

    /// The reason to stop, if there is one.
    pub(crate) fn asked_to_stop(&self) -> Option<End> {
        self.stop.borrow().clone()
    }

    pub(crate) async fn input(&self) -> Result<RunInput, End> {
        let body = self.patiently(|| self.request(Method::GET, "input"), LARGEST, &self.limited()).await?;
        serde_json::from_slice(&body).map_err(|error| {
            End::failed(format!("what the console says of this run cannot be read: {error}"))
        })
    }

    pub(crate) async fn plan_file(&self) -> Result<Vec<u8>, End> {
        self.patiently(|| self.request(Method::GET, "plan-file"), MAX_PLAN_PART, &self.limited()).await
    }

    /// Starts to fetch the artifact.
    pub(crate) async fn artifact(&self) -> Result<Response, Trouble> {
        self.once(self.request(Method::GET, "artifact")).await
    }

    /// One heartbeat, without retries: the next one comes soon.
    pub(crate) async fn beat(&self) -> Result<(), Trouble> {
        let request = self.request(Method::POST, "heartbeat").timeout(self.pace.request);
        let body = bounded(self.once(request).await?, LARGEST).await?;
        self.heard(&body);
        Ok(())
    }

    pub(crate) async fn step(&self, step: &InputStep, report: &StepReport) -> Result<(), End> {
        let path = format!("steps/{}", step.index);
        let body = self.patiently(|| self.json(&path, report), LARGEST, &self.limited()).await?;
        self.heard(&body);
        Ok(())
    }

    /// Sends a piece of a log until the console has it. `ended` is when its command ended: until then there is no time limit.
    pub(crate) async fn log(
        &self,
        step: u32,
        mut offset: u64,
        mut bytes: Bytes,
        ended: &(dyn Fn() -> Option<Instant> + Sync),
    ) -> Result<(), End> {
        let path = format!("logs?step={step}");
        let gives_up = || ended().is_some_and(|at| at.elapsed() >= self.pace.patience);
        while !bytes.is_empty() {
            let request =
                || self.request(Method::POST, &format!("{path}&offset={offset}")).body(bytes.clone());
            let body = self.patiently(request, LARGEST, &gives_up).await?;
            let LogsKept { offset: kept } = serde_json::from_slice(&body)
                .map_err(|error| End::failed(format!("the console keeps no log: {error}")))?;
            let length = bytes.len() as u64;
            let taken = kept.saturating_sub(offset).min(length);
            if taken == 0 {
                return Err(End::failed(format!(
                    "the console has {kept} bytes of a log and takes no more at byte {offset}"
                )));
            }
            offset += taken;
            bytes = bytes.slice(usize::try_from(taken).unwrap_or(bytes.len())..);
        }
        Ok(())
    }

    pub(crate) async fn plan_part(&self, part: &str, bytes: &Bytes) -> Result<(), End> {
        let path = format!("plan/{part}");
        let request = || self.request(Method::PUT, &path).body(bytes.clone());
        self.patiently(request, LARGEST, &self.limited()).await.map(drop)
    }

    pub(crate) async fn finding(&self, kind: &str, bytes: &Bytes) -> Result<(), End> {
        let path = format!("findings/{kind}");
        let request = || self.request(Method::PUT, &path).body(bytes.clone());
        self.patiently(request, LARGEST, &self.limited()).await.map(drop)
    }

    pub(crate) async fn planned(&self, report: &PlanReport) -> Result<(), End> {
        self.patiently(|| self.json("planned", report), LARGEST, &self.limited()).await.map(drop)
    }

    /// Reports the end. That ends the credential: after a call whose answer was lost, 401 means that the report has arrived.
    pub(crate) async fn done(&self, report: &RunReport) -> Result<(), End> {
        let since = Instant::now();
        let mut backoff = self.backoff();
        let mut may_have_arrived = false;
        loop {
            match self.once(self.json("done", report)).await {
                Ok(_) => return Ok(()),
                Err(Trouble::End(End::Unknown)) if may_have_arrived => return Ok(()),
                Err(Trouble::End(end)) => return Err(end),
                Err(Trouble::Again(why)) if self.is_too_long(since) => return Err(End::Away(why)),
                Err(Trouble::Again(_)) => may_have_arrived = true,
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    /// Writes a state without holding its lock.
    pub(crate) async fn write_state(&self, path: &str, state: Vec<u8>) -> Result<StateAnswer, String> {
        let (url, state) = (format!("{}{path}", self.base), Bytes::from(state));
        let since = Instant::now();
        let mut backoff = self.backoff();
        loop {
            let request = self
                .client
                .post(&url)
                .bearer_auth(self.state_token.expose_secret())
                .header("content-type", "application/json")
                .body(state.clone());
            let why = match request.send().await {
                Ok(response) if !is_passing(response.status()) => {
                    let status = response.status();
                    let body = bounded(response, LARGEST).await.unwrap_or_default();
                    return Ok(StateAnswer { status, message: told(&body) });
                }
                Ok(response) => format!("it answers {}", response.status()),
                Err(error) => cause(&error),
            };
            if since.elapsed() >= self.pace.patience {
                return Err(why);
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}/v1/runs/{}/{path}", self.base, self.run);
        self.client.request(method, url).header("authorization", self.authorization.clone())
    }

    fn json<T: serde::Serialize>(&self, path: &str, body: &T) -> RequestBuilder {
        self.request(Method::POST, path).json(body)
    }

    /// The answer to a heartbeat.
    fn heard(&self, body: &[u8]) {
        if serde_json::from_slice::<RunBeat>(body).is_ok_and(|beat| beat.cancel) {
            self.ask_to_stop(End::Cancelled);
        }
    }

    /// Gives up after the time limit.
    fn limited(&self) -> impl Fn() -> bool + Sync + use<> {
        let (since, patience) = (Instant::now(), self.pace.patience);
        move || since.elapsed() >= patience
    }

    /// The pause between two attempts.
    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(self.pace.retry.0, self.pace.retry.1)
    }

    /// Whether a time exceeds the limit of a call.
    pub(crate) fn is_too_long(&self, since: Instant) -> bool {
        since.elapsed() >= self.pace.patience
    }

    async fn patiently(
        &self,
        request: impl Fn() -> RequestBuilder,
        most: usize,
        gives_up: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<u8>, End> {
        let mut backoff = self.backoff();
        loop {
            let answer = match self.once(request()).await {
                Ok(response) => bounded(response, most).await,
                Err(trouble) => Err(trouble),
            };
            match answer {
                Ok(body) => return Ok(body),
                Err(Trouble::End(end)) => return Err(end),
                Err(Trouble::Again(why)) if gives_up() => return Err(End::Away(why)),
                Err(Trouble::Again(_)) => tokio::time::sleep(backoff.next_wait()).await,
            }
        }
    }

    /// Sends, and evaluates the answer. A reason to end the Job is visible to all of it from then on.
    async fn once(&self, request: RequestBuilder) -> Result<Response, Trouble> {
        let response = request.send().await.map_err(|error| Trouble::Again(cause(&error)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if is_passing(status) {
            return Err(Trouble::Again(format!("it answers {status}")));
        }
        let end = if status == StatusCode::UNAUTHORIZED {
            End::Unknown
        } else {
            let body = bounded(response, LARGEST).await.unwrap_or_default();
            let said = told(&body);
            End::Refused(if said.is_empty() { format!("it answers {status}") } else { said })
        };
        self.ask_to_stop(end.clone());
        Err(Trouble::End(end))
    }
}

/// Whether there is no proxy in between.
fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost" | "[::1]") => true,
        Some(host) => host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}

/// Whether a status means that a retry may succeed.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

async fn bounded(mut response: Response, most: usize) -> Result<Vec<u8>, Trouble> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Trouble::Again(cause(&error)))? {
        if body.len() + chunk.len() > most {
            let told = format!("the console's answer is larger than {} MiB", most >> 20);
            return Err(Trouble::End(End::failed(told)));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The console's message of an error.
fn told(body: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    value["message"].as_str().unwrap_or_default().chars().take(LONGEST).collect()
}

/// The innermost cause, which says what is wrong with a connection.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut last = error.source();
    while let Some(next) = last.and_then(std::error::Error::source) {
        last = Some(next);
    }
    last.map_or_else(|| "the connection broke".to_owned(), |last| tls_words(&last.to_string()).into_owned())
}
