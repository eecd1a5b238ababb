//! Raw requests to an API server: status, headers and body as they come.

use std::time::Duration;

use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use plural_testkit::TestCluster;
use serde_json::{Value, json};

/// Longest wait for something that the server does on its own.
pub(super) const SOON: Duration = Duration::from_secs(30);

/// One answer.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) body: Value,
    pub(super) text: String,
    pub(super) warnings: Vec<String>,
    pub(super) headers: http::HeaderMap,
}

impl Answer {
    /// The body, if the status is `code`.
    #[track_caller]
    pub(super) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.text);
        self.body
    }

    /// Fails with the place that was asked for.
    #[track_caller]
    pub(super) fn expect_code(&self, code: u16, place: &str) {
        assert_eq!(self.code, code, "{place}: {}", self.text);
    }

    /// A Status body with this code and reason.
    #[track_caller]
    pub(super) fn refused(self, code: u16, reason: &str) -> Value {
        let body = self.expect(code);
        assert_eq!(body["kind"], "Status", "{body}");
        assert_eq!(body["status"], "Failure", "{body}");
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body["reason"].as_str().unwrap_or_default(), reason, "{body}");
        body
    }
}

/// A namespace of a cluster, seen through raw HTTP.
pub(super) struct Api {
    pub(super) client: Client,
    pub(super) ns: String,
}

pub(super) async fn api(cluster: &TestCluster) -> Api {
    Api { client: cluster.client().await.unwrap(), ns: cluster.namespace().await.unwrap() }
}

const APPLY: &str = "application/apply-patch+yaml";

impl Api {
    /// Path of core resources in the namespace: `configmaps`, `configmaps/a`.
    pub(super) fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.ns)
    }

    /// Path of resources of `apps/v1` in the namespace.
    pub(super) fn apps(&self, rest: &str) -> String {
        format!("/apis/apps/v1/namespaces/{}/{rest}", self.ns)
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (k, v) in headers {
            request = request.header(*k, *v);
        }
        let response = self.client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let warnings =
            parts.headers.get_all("warning").iter().map(|v| v.to_str().unwrap().to_owned()).collect();
        Answer {
            code: parts.status.as_u16(),
            body: serde_json::from_str(&text).unwrap_or_default(),
            text,
            warnings,
            headers: parts.headers,
        }
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[("accept", "application/json")], Vec::new()).await
    }

    pub(super) async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.send(Method::GET, path, &[("accept", accept)], Vec::new()).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Answer {
        let json = [("content-type", "application/json"), ("accept", "application/json")];
        self.send(Method::POST, path, &json, body.to_string().into()).await
    }

    pub(super) async fn put(&self, path: &str, body: Value) -> Answer {
        let json = [("content-type", "application/json"), ("accept", "application/json")];
        self.send(Method::PUT, path, &json, body.to_string().into()).await
    }

    pub(super) async fn delete(&self, path: &str, options: Value) -> Answer {
        let json = [("content-type", "application/json"), ("accept", "application/json")];
        let body = if options.is_null() { Vec::new() } else { options.to_string().into() };
        self.send(Method::DELETE, path, &json, body).await
    }

    pub(super) async fn patch(&self, path: &str, content_type: &str, body: Value) -> Answer {
        self.send(Method::PATCH, path, &[("content-type", content_type)], body.to_string().into()).await
    }

    pub(super) async fn merge(&self, path: &str, body: Value) -> Answer {
        self.patch(path, "application/merge-patch+json", body).await
    }

    /// Server-side apply as `manager`.
    pub(super) async fn apply(&self, path: &str, manager: &str, body: Value) -> Answer {
        self.patch(&with(path, &format!("fieldManager={manager}")), APPLY, body).await
    }

    /// Server-side apply that takes over conflicts.
    pub(super) async fn force(&self, path: &str, manager: &str, body: Value) -> Answer {
        self.patch(&with(path, &format!("fieldManager={manager}&force=true")), APPLY, body).await
    }

    /// A ConfigMap of the namespace, created.
    pub(super) async fn config_map(&self, name: &str, data: Value) -> Value {
        self.post(&self.core("configmaps"), config_map(name, data)).await.expect(201)
    }

    /// Waits until a GET of `path` satisfies `wanted`.
    pub(super) async fn until(&self, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
        plural_testkit::eventually(SOON, async || {
            let a = self.get(path).await;
            if wanted(&a) { Ok(a) } else { Err(format!("{path}: {} {}", a.code, a.text)) }
        })
        .await
    }

    /// Opens a watch; the path carries its parameters.
    pub(super) async fn watch(&self, path: &str) -> Watch {
        self.try_watch(path).await.unwrap()
    }

    async fn try_watch(&self, path: &str) -> Result<Watch, kube::Error> {
        let request = Request::get(with(path, "watch=true")).body(Vec::new()).unwrap();
        let lines = self.client.request_stream(request).await?.lines().map_err(|e| e.to_string());
        Ok(Watch { lines: lines.boxed() })
    }

    /// A watch that starts with all there is, and its first event. As every client does, it asks again while the server's
    /// cache is starting (429) or not yet as far as the store (504).
    pub(super) async fn watch_list(&self, path: &str) -> (Watch, Value) {
        let query = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
        plural_testkit::eventually(SOON, async || {
            let mut watch = match self.try_watch(&with(path, query)).await {
                Err(kube::Error::Api(status)) if matches!(status.code, 429 | 504) => {
                    return Err(status.message);
                }
                answer => answer.unwrap(),
            };
            let first = watch.next().await;
            let code = first["object"]["code"].as_u64();
            if first["type"] == "ERROR" && matches!(code, Some(429 | 504)) {
                Err(first.to_string())
            } else {
                Ok((watch, first))
            }
        })
        .await
    }
}

/// Adds query parameters to a path.
pub(super) fn with(path: &str, query: &str) -> String {
    format!("{path}{}{query}", if path.contains('?') { '&' } else { '?' })
}

/// An event's type and object name.
pub(super) fn step_of(event: &Value) -> (String, String) {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
}

/// An open watch.
pub(super) struct Watch {
    lines: futures::stream::BoxStream<'static, Result<String, String>>,
}

impl Watch {
    /// The next event, or a failure after a while.
    pub(super) async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(SOON, self.lines.next()).await.expect("no event in time");
        serde_json::from_str(&line.expect("the watch ended").unwrap()).unwrap()
    }

    /// The next event's type and object name.
    pub(super) async fn step(&mut self) -> (String, String) {
        step_of(&self.next().await)
    }

    /// The same, whatever bookmarks come before it: a server sends them when it likes.
    pub(super) async fn step_after_bookmarks(&mut self) -> (String, String) {
        loop {
            let step = self.step().await;
            if step.0 != "BOOKMARK" {
                return step;
            }
        }
    }

    /// True if the server ended the stream.
    pub(super) async fn ended(&mut self) -> bool {
        matches!(tokio::time::timeout(SOON, self.lines.next()).await, Ok(None | Some(Err(_))))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "cases write the data in place")]
pub(super) fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

pub(super) fn deployment(name: &str, replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}]}}}})
}

/// What a manager owns, or null.
pub(super) fn owned(object: &Value, manager: &str, operation: &str) -> Value {
    object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|e| e["manager"] == manager && e["operation"] == operation)
        .map_or(Value::Null, |e| e["fieldsV1"].clone())
}

/// Fields and reasons of a Status' causes.
pub(super) fn causes(status: &Value) -> Vec<(String, String)> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let list = status["details"]["causes"].as_array();
    list.into_iter().flatten().map(|c| (text(&c["reason"]), text(&c["field"]))).collect()
}

/// Names of the items of a list.
pub(super) fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array();
    items
        .into_iter()
        .flatten()
        .map(|o| o["metadata"]["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// A CRD group that no other test uses.
pub(super) fn group() -> String {
    format!("g{:012x}.example.com", rand::random::<u64>() >> 16)
}
