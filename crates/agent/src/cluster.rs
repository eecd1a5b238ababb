//! What templates may learn of the cluster: its version, the APIs that it serves, and objects by `lookup`.

use std::{cell::RefCell, collections::HashMap, sync::Arc, time::Duration};

use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use plural_kit::meter;
use plural_render::{ApiServer, governed_json, helm::LookupPort, may_go_on};
use plural_sync::{Bounds, GroupKind};
use serde_json::Value;
use tokio::{runtime::Handle, time::Instant};

/// What was learnt of the API server's kinds is believed for this long.
const KNOWN_FOR: Duration = Duration::from_mins(1);
/// A kind that is not known makes no more than one question in this time.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// One request.
const DEADLINE: Duration = Duration::from_secs(10);
/// Different objects and lists that one render may look up.
const MAX_LOOKUPS: usize = 500;
/// Stands for a value of a Secret: what hides secrets everywhere, in Base64.
const HIDDEN: &str = "KioqKioqKio=";
/// One answer: no template should hold a whole cluster.
const MAX_ANSWER_BYTES: usize = 32 << 20;
/// Everything in one answer, where the API server can.
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                         application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// Why the cluster did not answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ClusterError {
    /// It answered with a failure.
    #[error("the cluster's API server answers {0}")]
    Status(StatusCode),
    /// No answer came.
    #[error("cannot reach the cluster's API server")]
    Unreachable,
    /// The answer is not what the protocol says, or is too large.
    #[error("the answer of the cluster's API server cannot be read")]
    Unreadable,
    /// The render that asks may not hold the answer.
    #[error("the answer of the cluster's API server needs more memory than the render may have")]
    NoRoom,
}

/// Where objects of a kind are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    plural: String,
    namespaced: bool,
}

#[derive(Debug, Default)]
struct Known {
    server: ApiServer,
    /// By `apiVersion` and kind.
    places: HashMap<(String, String), Place>,
}

/// The cluster as templates see it. What was learnt is shared by all renders.
pub(crate) struct Cluster {
    client: kube::Client,
    known: tokio::sync::Mutex<()>,
    cache: Mutex<Option<(Arc<Known>, Instant)>>,
}

impl Cluster {
    pub(crate) fn new(client: kube::Client) -> Self {
        Self { client, known: tokio::sync::Mutex::new(()), cache: Mutex::new(None) }
    }

    /// Version and APIs of the API server, not older than a minute.
    pub(crate) async fn api_server(&self) -> Result<ApiServer, ClusterError> {
        Ok(self.known(KNOWN_FOR).await?.server.clone())
    }

    async fn known(&self, fresh: Duration) -> Result<Arc<Known>, ClusterError> {
        // One asks; who waits for it finds its answer.
        let _one = self.known.lock().await;
        let cached = self.cache.lock().clone();
        if let Some((known, at)) = cached
            && at.elapsed() < fresh
        {
            return Ok(known);
        }
        let known = Arc::new(self.ask().await?);
        let cached = Some((Arc::clone(&known), Instant::now()));
        *self.cache.lock() = cached;
        Ok(known)
    }

    async fn place(&self, api_version: &str, kind: &str) -> Result<Option<Place>, ClusterError> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(place) = self.known(KNOWN_FOR).await?.places.get(&key) {
            return Ok(Some(place.clone()));
        }
        Ok(self.known(ASK_AGAIN).await?.places.get(&key).cloned())
    }

    async fn ask(&self) -> Result<Known, ClusterError> {
        let version = self.get("/version", "application/json", None).await?;
        let mut known = Known::default();
        let mut apis = Vec::new();
        for path in ["/api", "/apis"] {
            let answer = self.get(path, DISCOVERY, None).await?;
            if answer["kind"] == "APIGroupDiscoveryList" {
                aggregated(&answer, &mut known, &mut apis);
            } else {
                self.one_by_one(&answer, &mut known, &mut apis).await?;
            }
        }
        known.server = ApiServer {
            version: version["gitVersion"].as_str().unwrap_or_default().to_owned(),
            api_versions: apis.into(),
        };
        Ok(known)
    }

    /// The older form: one answer per group and version.
    async fn one_by_one(
        &self,
        answer: &Value,
        known: &mut Known,
        apis: &mut Vec<String>,
    ) -> Result<(), ClusterError> {
        let core = answer["versions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut roots: Vec<(String, String)> =
            core.map(|version| (version.to_owned(), format!("/api/{version}"))).collect();
        for group in answer["groups"].as_array().into_iter().flatten() {
            for version in group["versions"].as_array().into_iter().flatten() {
                if let Some(name) = version["groupVersion"].as_str() {
                    roots.push((name.to_owned(), format!("/apis/{name}")));
                }
            }
        }
        for (api_version, path) in roots {
            let list = match self.get(&path, "application/json", None).await {
                Ok(list) => list,
                // An aggregated API whose backend is down must not hide all the others.
                Err(ClusterError::Status(StatusCode::NOT_FOUND | StatusCode::SERVICE_UNAVAILABLE)) => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            apis.push(api_version.clone());
            for resource in list["resources"].as_array().into_iter().flatten() {
                let (Some(plural), Some(kind)) = (resource["name"].as_str(), resource["kind"].as_str())
                else {
                    continue;
                };
                if !plural.contains('/') {
                    add(known, apis, &api_version, kind, plural, resource["namespaced"] == true);
                }
            }
        }
        Ok(())
    }

    async fn get(&self, path: &str, accept: &str, user: Option<&str>) -> Result<Value, ClusterError> {
        let mut request = Request::get(path).header(header::ACCEPT, accept);
        if let Some(user) = user {
            request = request.header("impersonate-user", user);
        }
        let request = request.body(Body::empty()).map_err(|_| ClusterError::Unreadable)?;
        let answer = async {
            let answer = self.client.send(request).await.map_err(|_| ClusterError::Unreachable)?;
            if !answer.status().is_success() {
                return Err(ClusterError::Status(answer.status()));
            }
            let mut body = http_body_util::Limited::new(answer.into_body(), MAX_ANSWER_BYTES);
            let mut bytes = Vec::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|_| ClusterError::Unreadable)?;
                let Ok(piece) = frame.into_data() else { continue };
                // What collects it is twice as large while it grows.
                if !may_go_on((bytes.len() + piece.len()) as u64) {
                    return Err(ClusterError::NoRoom);
                }
                // The connection's own task allocated it; here it is freed.
                meter::adopt(piece.len());
                bytes.extend_from_slice(&piece);
            }
            governed_json(&bytes).map_err(|_| ClusterError::Unreadable)
        };
        tokio::time::timeout(DEADLINE, answer).await.map_err(|_| ClusterError::Unreachable)?
    }
}

/// Reads `apidiscovery.k8s.io/v2`.
fn aggregated(answer: &Value, known: &mut Known, apis: &mut Vec<String>) {
    for group in answer["items"].as_array().into_iter().flatten() {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        for version in group["versions"].as_array().into_iter().flatten() {
            let Some(version_name) = version["version"].as_str() else { continue };
            let api_version =
                if name.is_empty() { version_name.to_owned() } else { format!("{name}/{version_name}") };
            apis.push(api_version.clone());
            for resource in version["resources"].as_array().into_iter().flatten() {
                if let (Some(plural), Some(kind)) =
                    (resource["resource"].as_str(), resource["responseKind"]["kind"].as_str())
                {
                    add(known, apis, &api_version, kind, plural, resource["scope"] == "Namespaced");
                }
            }
        }
    }
}

fn add(
    known: &mut Known,
    apis: &mut Vec<String>,
    api_version: &str,
    kind: &str,
    plural: &str,
    namespaced: bool,
) {
    apis.push(format!("{api_version}/{kind}"));
    let place = Place { plural: plural.to_owned(), namespaced };
    known.places.insert((api_version.to_owned(), kind.to_owned()), place);
}

/// Who looks up: with whose rights, and within which bounds.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    /// User name of the service's account; the agent itself when absent.
    pub(crate) user: Option<String>,
    pub(crate) bounds: Bounds,
    /// Nothing outside of this namespace, whatever the account may see, and no value of a Secret: the templates are not reviewed yet.
    pub(crate) only: Option<String>,
}

/// Answers the `lookup`s of one render. The same question has the same answer throughout.
///
/// A service that names a service account sees what Kubernetes lets that account see. Any other sees its own
/// namespace and what belongs to none: the agent's own rights reach everywhere, and a chart could carry what it
/// looks up to where others read it. Neither sees what its project's limits or the agent's namespace keep from it;
/// what it may not see looks as if it were not there.
pub(crate) struct Lookup<'a> {
    cluster: &'a Cluster,
    /// Requests run there; the render itself is on a thread that may block.
    runtime: Handle,
    asker: Asker,
    seen: RefCell<HashMap<[String; 4], Option<Value>>>,
    failure: RefCell<Option<String>>,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(cluster: &'a Cluster, runtime: Handle, asker: Asker) -> Self {
        let (seen, failure) = (RefCell::default(), RefCell::default());
        Self { cluster, runtime, asker, seen, failure }
    }

    /// Why an answer is missing that the cluster may have: what was rendered without it is not to be applied.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    async fn ask(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ClusterError> {
        let Some(Place { plural, namespaced }) = self.cluster.place(api_version, kind).await? else {
            return Ok(None);
        };
        // What belongs to no namespace has none, whatever the template says.
        let namespace = if namespaced { namespace } else { "" };
        let (kind_key, _) = GroupKind::parse(api_version, kind);
        let Asker { user, bounds, only } = &self.asker;
        if only.as_deref().is_some_and(|only| !namespaced || namespace != only) {
            return Ok(None);
        }
        if !is_part(namespace) || !is_part(name) || !bounds.lists(&kind_key, namespaced) {
            return Ok(None);
        }
        let everywhere = namespaced && namespace.is_empty();
        // An object has a namespace or its kind has none; without an account no list reaches beyond the own namespace.
        if everywhere && (!name.is_empty() || user.is_none()) {
            return Ok(None);
        }
        // A list over what has no namespace, or over all of them, is looked at item by item.
        let mixed = everywhere || (!namespaced && name.is_empty());
        if !mixed && !bounds.reads(&kind_key, namespace, name) {
            return Ok(None);
        }
        let mut path = if api_version.contains('/') {
            format!("/apis/{api_version}")
        } else {
            format!("/api/{api_version}")
        };
        if namespaced && !everywhere {
            path.push_str("/namespaces/");
            path.push_str(&encode(namespace));
        }
        path.push('/');
        path.push_str(&plural);
        if !name.is_empty() {
            path.push('/');
            path.push_str(&encode(name));
        }
        match self.cluster.get(&path, "application/json", user.as_deref()).await {
            Ok(mut found) => {
                if mixed && let Some(items) = found.get_mut("items").and_then(Value::as_array_mut) {
                    items.retain(|item| {
                        let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
                        bounds.reads(&kind_key, text("namespace"), text("name"))
                    });
                }
                name_items(&mut found, api_version, kind);
                if only.is_some() && api_version == "v1" && kind == "Secret" {
                    hide_values(&mut found);
                }
                Ok(Some(found))
            }
            Err(ClusterError::Status(StatusCode::NOT_FOUND | StatusCode::FORBIDDEN)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a name or namespace, if it is given, is one part of a path for the API server: it undoes escapes before it
/// takes a path apart, so that `kube-system/secrets/x` would be a way to another object, and `NODE/proxy` one to the kubelet.
fn is_part(text: &str) -> bool {
    !text.contains(|c: char| matches!(c, '/' | '%' | '\\' | '?' | '#') || c.is_control())
        && !matches!(text, "." | "..")
}

impl LookupPort for Lookup<'_> {
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = [api_version, kind, namespace, name].map(str::to_owned);
        if let Some(known) = self.seen.borrow().get(&key) {
            return known.clone();
        }
        if self.seen.borrow().len() >= MAX_LOOKUPS {
            let message = format!("the chart looks up more than {MAX_LOOKUPS} objects (limit of lookups)");
            self.failure.borrow_mut().get_or_insert(message);
            return None;
        }
        let found = match self.runtime.block_on(self.ask(api_version, kind, namespace, name)) {
            Ok(found) => found,
            Err(error) => {
                let message = format!("cannot look up {kind} {name:?}: {error}");
                self.failure.borrow_mut().get_or_insert(message);
                None
            }
        };
        self.seen.borrow_mut().insert(key, found.clone());
        found
    }
}

/// Leaves of a Secret, or of a list of them, that it is there, and its keys: whoever writes a template that nobody has reviewed would
/// have its values in the fields of a plan. Annotations may hold all of it once more.
fn hide_values(found: &mut Value) {
    if let Some(items) = found.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(hide_values);
        return;
    }
    if let Some(data) = found.get_mut("data").and_then(Value::as_object_mut) {
        data.values_mut().for_each(|value| *value = HIDDEN.into());
    }
    if let Some(metadata) = found.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("annotations");
        metadata.remove("managedFields");
    }
}

/// Items of a list leave out what the list says; templates expect whole objects.
fn name_items(found: &mut Value, api_version: &str, kind: &str) {
    let items = found.get_mut("items").and_then(Value::as_array_mut);
    for item in items.into_iter().flatten().filter_map(Value::as_object_mut) {
        item.entry("apiVersion").or_insert_with(|| api_version.into());
        item.entry("kind").or_insert_with(|| kind.into());
    }
}

/// What stays as it is in one part of a path.
const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One part of a path.
fn encode(text: &str) -> String {
    match text {
        // Dots alone would walk the path.
        "." | ".." => text.replace('.', "%2E"),
        _ => utf8_percent_encode(text, PART).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_one_part_of_a_path() {
        assert_eq!(encode("web-1.x"), "web-1.x");
        assert_eq!(encode("a/../b?c"), "a%2F..%2Fb%3Fc");
        assert_eq!(encode(".."), "%2E%2E");
    }

    #[test]
    fn what_is_no_name_is_not_asked_for() {
        for name in ["", "web-1.x", "system:admin", "a_b"] {
            assert!(is_part(name), "{name}");
        }
        for name in
            ["a/b", "n/proxy/pods", "..", ".", "a%2Fb", "a?b", "a#b", "a\\b", "a\0", "kube-system/secrets/x"]
        {
            assert!(!is_part(name), "{name}");
        }
    }

    #[test]
    fn a_secret_is_there_without_its_values() {
        let one = serde_json::json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"password": "aHVudGVyMg=="},
            "metadata": {"name": "db", "labels": {"a": "b"}, "annotations": {"last": "aHVudGVyMg=="}},
        });
        let expected = serde_json::json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"password": HIDDEN},
            "metadata": {"name": "db", "labels": {"a": "b"}},
        });
        let mut list = serde_json::json!({"kind": "SecretList", "items": [one]});
        hide_values(&mut list);
        assert_eq!(list["items"][0], expected);
        hide_values(&mut list["items"][0]);
        assert_eq!(list["items"][0], expected);
    }

    #[test]
    fn kinds_become_what_charts_ask_for() {
        let answer = serde_json::json!({"kind": "APIGroupDiscoveryList", "items": [
            {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [
                {"resource": "deployments", "scope": "Namespaced", "responseKind": {"kind": "Deployment"}}]}]},
            {"metadata": {}, "versions": [{"version": "v1", "resources": [
                {"resource": "nodes", "scope": "Cluster", "responseKind": {"kind": "Node"}}]}]},
        ]});
        let (mut known, mut apis) = (Known::default(), Vec::new());
        aggregated(&answer, &mut known, &mut apis);
        assert_eq!(apis, ["apps/v1", "apps/v1/Deployment", "v1", "v1/Node"]);
        let place = &known.places[&("v1".to_owned(), "Node".to_owned())];
        assert_eq!(place, &Place { plural: "nodes".to_owned(), namespaced: false });
    }
}
