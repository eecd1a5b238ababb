//! Requests to the API server for runs: few, each with a deadline.

use std::time::Duration;

use http::{Method, Request, header};
use plural_core::ids::StackRunId;
use serde_json::{Value, json};

use super::objects;

/// Time limit of a request.
const DEADLINE: Duration = Duration::from_secs(10);
/// Lists of Secrets request metadata only.
const NAMES_ONLY: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepFailure {
    /// The API server refused.
    #[error("the cluster's API server answers {code}: {message}")]
    Status {
        /// HTTP status.
        code: u16,
        /// Its message.
        message: String,
    },
    /// No answer.
    #[error("no answer of the cluster's API server within {DEADLINE:?}")]
    Late,
    /// The console gave no credential.
    #[error("cannot ask the console for the credential of a run: {0}")]
    Console(String),
    /// Anything else.
    #[error("cannot ask the cluster's API server: {0}")]
    Other(String),
}

impl StepFailure {
    pub(super) fn code(&self) -> u16 {
        match self {
            Self::Status { code, .. } => *code,
            Self::Late | Self::Console(_) | Self::Other(_) => 0,
        }
    }
}

/// The API server, for runs.
pub(super) struct RunsApi {
    client: kube::Client,
    /// The label selector of this agent's objects, as a query.
    selector: String,
}

fn of_run(id: StackRunId) -> String {
    format!("{}%3D{id}", escaped(objects::RUN))
}

fn escaped(text: &str) -> String {
    text.replace('/', "%2F")
}

impl RunsApi {
    pub(super) fn new(client: kube::Client, agent_namespace: &str) -> Self {
        let (run, agent) = (escaped(objects::RUN), escaped(objects::AGENT));
        Self { client, selector: format!("labelSelector={run}%2C{agent}%3D{agent_namespace}") }
    }

    /// The Jobs of a run.
    pub(super) async fn jobs(&self, namespace: &str, id: StackRunId) -> Result<Vec<Value>, StepFailure> {
        self.list(&format!("{}?{}%2C{}", jobs(namespace), self.selector, of_run(id)), JSON).await
    }

    /// The Pods of a run.
    pub(super) async fn pods(&self, namespace: &str, id: StackRunId) -> Result<Vec<Value>, StepFailure> {
        let path = format!("/api/v1/namespaces/{namespace}/pods?{}%2C{}", self.selector, of_run(id));
        self.list(&path, JSON).await
    }

    /// Metadata of the Secrets of a run.
    pub(super) async fn secrets(&self, namespace: &str, id: StackRunId) -> Result<Vec<Value>, StepFailure> {
        self.list(&format!("{}?{}%2C{}", secrets(namespace), self.selector, of_run(id)), NAMES_ONLY).await
    }

    /// Metadata of all Jobs and Secrets that this agent, or the one before it, created for runs; of one namespace if it may not list
    /// those of the whole cluster.
    pub(super) async fn all_made(&self, namespace: &str) -> Result<Vec<Value>, StepFailure> {
        let mut made = Vec::new();
        for (everywhere, here) in [
            ("/apis/batch/v1/jobs".to_owned(), jobs(namespace)),
            ("/api/v1/secrets".to_owned(), secrets(namespace)),
        ] {
            let found = match self.list(&format!("{everywhere}?{}", self.selector), NAMES_ONLY).await {
                Err(refused) if refused.code() == 403 => {
                    self.list(&format!("{here}?{}", self.selector), NAMES_ONLY).await
                }
                found => found,
            };
            match found {
                Ok(found) => made.extend(found),
                // Then it may not create any either.
                Err(refused) if refused.code() == 403 => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(made)
    }

    /// The newest warning about an object.
    pub(super) async fn warning(
        &self,
        namespace: &str,
        object: &Value,
    ) -> Result<Option<String>, StepFailure> {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.uid%3D{uid}");
        let events = self.list(&path, JSON).await?;
        let warnings =
            events.iter().filter(|event| event["type"] == "Warning" && event["involvedObject"]["uid"] == uid);
        let at = |event: &&Value| {
            let times = ["lastTimestamp", "eventTime"]
                .map(|field| event[field].as_str().unwrap_or_default().to_owned());
            times.into_iter().max()
        };
        Ok(warnings.max_by_key(at).map(|event| {
            let word = |field: &str| event[field].as_str().unwrap_or_default();
            format!("{}: {}", word("reason"), word("message"))
        }))
    }

    /// Whether a Secret with this name exists.
    pub(super) async fn has_secret(&self, namespace: &str, name: &str) -> Result<bool, StepFailure> {
        Ok(self.get(&format!("{}/{name}", secrets(namespace))).await?.is_some())
    }

    pub(super) async fn create_job(&self, namespace: &str, job: &Value) -> Result<Value, StepFailure> {
        self.call(Method::POST, &jobs(namespace), JSON, Some(job)).await
    }

    pub(super) async fn create_secret(&self, namespace: &str, secret: &Value) -> Result<(), StepFailure> {
        created(self.call(Method::POST, &secrets(namespace), JSON, Some(secret)).await)
    }

    /// Resumes a suspended Job.
    pub(super) async fn begin(&self, namespace: &str, name: &str) -> Result<(), StepFailure> {
        let change = json!({"spec": {"suspend": false}});
        let path = format!("{}/{name}", jobs(namespace));
        self.call(Method::PATCH, &path, JSON, Some(&change)).await.map(drop)
    }

    /// Deletes exactly this Job, after the grace period of its Pod.
    pub(super) async fn delete_job(&self, job: &Value) -> Result<(), StepFailure> {
        let word = |field: &str| job["metadata"][field].as_str().unwrap_or_default();
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground",
            "preconditions": {"uid": word("uid")},
        });
        let path = format!("{}/{}", jobs(word("namespace")), word("name"));
        gone(self.call(Method::DELETE, &path, JSON, Some(&options)).await)
    }

    pub(super) async fn delete_secret(&self, secret: &Value) -> Result<(), StepFailure> {
        let word = |field: &str| secret["metadata"][field].as_str().unwrap_or_default();
        let path = format!("{}/{}", secrets(word("namespace")), word("name"));
        gone(self.call(Method::DELETE, &path, JSON, None).await)
    }

    pub(super) async fn namespace(&self, name: &str) -> Result<Option<Value>, StepFailure> {
        self.get(&format!("/api/v1/namespaces/{name}")).await
    }

    pub(super) async fn create_namespace(&self, namespace: &Value) -> Result<(), StepFailure> {
        created(self.call(Method::POST, "/api/v1/namespaces", JSON, Some(namespace)).await)
    }

    /// Applies this quota to the namespace for runs.
    pub(super) async fn keep_quota(&self, namespace: &str, quota: &Value) -> Result<(), StepFailure> {
        let all = format!("/api/v1/namespaces/{namespace}/resourcequotas");
        let name = quota["metadata"]["name"].as_str().unwrap_or_default();
        let Some(mut found) = self.get(&format!("{all}/{name}")).await? else {
            return created(self.call(Method::POST, &all, JSON, Some(quota)).await);
        };
        if found["spec"]["hard"] == quota["spec"]["hard"] {
            return Ok(());
        }
        found["spec"]["hard"] = quota["spec"]["hard"].clone();
        self.call(Method::PUT, &format!("{all}/{name}"), JSON, Some(&found)).await.map(drop)
    }

    async fn get(&self, path: &str) -> Result<Option<Value>, StepFailure> {
        match self.call(Method::GET, path, JSON, None).await {
            Ok(found) => Ok(Some(found)),
            Err(failure) if failure.code() == 404 => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn list(&self, path: &str, accept: &str) -> Result<Vec<Value>, StepFailure> {
        let mut list = self.call(Method::GET, path, accept, None).await?;
        match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok(items),
            // Go writes an empty list as null in places.
            Some(_) | None => Ok(Vec::new()),
        }
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<&Value>,
    ) -> Result<Value, StepFailure> {
        let content_type = if method == Method::PATCH { MERGE } else { JSON };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, accept)
            .header(header::CONTENT_TYPE, content_type)
            .body(body.map(|body| body.to_string().into_bytes()).unwrap_or_default())
            .map_err(|error| StepFailure::Other(error.to_string()))?;
        match tokio::time::timeout(DEADLINE, self.client.request::<Value>(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => {
                Err(StepFailure::Status { code: status.code, message: status.message.clone() })
            }
            Ok(Err(error)) => Err(StepFailure::Other(error.to_string())),
            Err(_) => Err(StepFailure::Late),
        }
    }
}

fn jobs(namespace: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs")
}

fn secrets(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets")
}

/// If it exists, an earlier attempt created it, and the answer was lost.
fn created(answer: Result<Value, StepFailure>) -> Result<(), StepFailure> {
    match answer {
        Err(failure) if failure.code() == 409 => Ok(()),
        answer => answer.map(drop),
    }
}

/// If it no longer exists, or is another one by now, there is nothing to delete.
fn gone(answer: Result<Value, StepFailure>) -> Result<(), StepFailure> {
    match answer {
        Err(failure) if matches!(failure.code(), 404 | 409) => Ok(()),
        answer => answer.map(drop),
    }
}
