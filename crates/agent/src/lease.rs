//! One replica acts: a Lease (coordination.k8s.io/v1) in the agent's namespace.
//!
//! Whether another holder is alive is judged by our own clock: only a lease that did not move for
//! its whole duration while we looked is taken over, so clocks need not agree. A restarted agent
//! whose folder survived has the same identity and goes on at once.
//!
//! Written here: kube has no leader election, and the agent must stop acting before anyone else may begin,
//! which is why a lease that could not be renewed in time is told apart ([`Standing::Lapsed`]) from one that
//! another replica holds.

use std::{sync::Arc, time::Duration};

use chrono::{SecondsFormat, Utc};
use http::{Method, Request};
use plural_kit::Backoff;
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

const NAME: &str = "plural-agent";

/// Who may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nobody is known to; we wait.
    Waiting,
    /// We may.
    Held,
    /// We held it and could not renew it in time: nobody else can have taken it, but we must not
    /// count on that.
    Lapsed,
}

pub(crate) struct Lease {
    pub(crate) client: kube::Client,
    pub(crate) namespace: String,
    pub(crate) identity: String,
    pub(crate) duration: Duration,
}

impl Lease {
    /// Takes and renews the lease for ever, telling where we stand.
    pub(crate) async fn keep(self: Arc<Self>, told: watch::Sender<Standing>) {
        let mut seen: Option<(String, Instant)> = None;
        let mut renewed: Option<Instant> = None;
        let mut said = String::new();
        let mut backoff = Backoff::new(Duration::from_millis(200), self.duration / 6);
        loop {
            // Never longer than what is left: a hanging API server must not hide that time is up.
            let attempt = tokio::time::timeout(self.duration / 3, self.attempt(&mut seen)).await;
            let wait = match attempt {
                Ok(Ok(true)) => {
                    renewed = Some(Instant::now());
                    said.clear();
                    backoff.reset();
                    told.send_if_modified(|standing| {
                        std::mem::replace(standing, Standing::Held) != Standing::Held
                    });
                    self.duration / 3
                }
                Ok(Ok(false)) => {
                    renewed = None;
                    told.send_if_modified(|standing| {
                        std::mem::replace(standing, Standing::Waiting) != Standing::Waiting
                    });
                    self.duration / 6
                }
                Ok(Err(error)) => {
                    let message = error.to_string();
                    if said != message {
                        tracing::warn!(reason = %message, "cannot take or renew the lease {}/{NAME}", self.namespace);
                        said = message;
                    }
                    backoff.next_wait()
                }
                Err(_) => backoff.next_wait(),
            };
            if renewed.is_some_and(|at| at.elapsed() + wait >= self.duration) {
                renewed = None;
                told.send_if_modified(|standing| {
                    std::mem::replace(standing, Standing::Lapsed) == Standing::Held
                });
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Gives the lease back, so that the next replica need not wait.
    pub(crate) async fn release(&self) {
        if let Ok(Some(lease)) = self.get().await
            && lease["spec"]["holderIdentity"] == self.identity.as_str()
        {
            let mut lease = lease;
            lease["spec"]["holderIdentity"] = "".into();
            lease["spec"]["leaseDurationSeconds"] = 1.into();
            let _ = self.send(Method::PUT, true, &lease).await;
        }
    }

    /// One attempt to take or renew; whether we hold it.
    async fn attempt(&self, seen: &mut Option<(String, Instant)>) -> Result<bool, kube::Error> {
        let now = Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true);
        let seconds = self.duration.as_secs().max(1);
        let Some(mut lease) = self.get().await? else {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": NAME, "namespace": self.namespace},
                "spec": {"holderIdentity": self.identity, "leaseDurationSeconds": seconds,
                    "acquireTime": now, "renewTime": now, "leaseTransitions": 0},
            });
            return match self.send(Method::POST, false, &lease).await {
                Ok(_) => Ok(true),
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    self.create_namespace().await?;
                    Ok(self.send(Method::POST, false, &lease).await.is_ok())
                }
                Err(error) => Err(error),
            };
        };
        let spec = &lease["spec"];
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        if holder != self.identity && !holder.is_empty() {
            let sign = format!("{holder} {}", spec["renewTime"]);
            let since = match seen {
                Some((known, since)) if *known == sign => *since,
                _ => {
                    *seen = Some((sign, Instant::now()));
                    return Ok(false);
                }
            };
            let their_seconds = spec["leaseDurationSeconds"].as_u64().unwrap_or(seconds);
            if since.elapsed() < Duration::from_secs(their_seconds) {
                return Ok(false);
            }
        }
        let taken = holder != self.identity;
        let transitions = spec["leaseTransitions"].as_u64().unwrap_or(0) + u64::from(taken);
        let acquired = if taken { json!(now) } else { spec["acquireTime"].clone() };
        lease["spec"] = json!({"holderIdentity": self.identity, "leaseDurationSeconds": seconds,
            "acquireTime": acquired, "renewTime": now, "leaseTransitions": transitions});
        match self.send(Method::PUT, true, &lease).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn get(&self) -> Result<Option<Value>, kube::Error> {
        match self.send(Method::GET, true, &Value::Null).await {
            Ok(lease) => Ok(Some(lease)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create_namespace(&self) -> Result<(), kube::Error> {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        match self.call(Method::POST, "/api/v1/namespaces", &body).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            answer => answer.map(|_| ()),
        }
    }

    async fn send(&self, method: Method, named: bool, body: &Value) -> Result<Value, kube::Error> {
        let collection = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace);
        let path = if named { format!("{collection}/{NAME}") } else { collection };
        self.call(method, &path, body).await
    }

    async fn call(&self, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }
}
