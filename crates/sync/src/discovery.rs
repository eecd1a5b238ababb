//! Which kinds the API server serves, under which paths.
//!
//! Written here and not taken from `kube::discovery`: one request takes the aggregated form and falls back to
//! the older one by what the server answers, an aggregated API whose backend is down does not hide the
//! others, and a kind that is not served makes one request in ten seconds, whoever asks for it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    api::{Api, ApiError, encode},
    key::{GroupKind, ObjectKey},
};

/// A kind that is looked for and not served makes no more than one request in this time.
const REFRESH_EVERY: Duration = Duration::from_secs(10);

/// One kind in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    /// "deployments".
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
}

impl Resource {
    /// Path of the collection over all namespaces.
    pub(crate) fn collection(&self) -> String {
        format!("{}/{}", self.root(), self.plural)
    }

    /// Path of the collection in one namespace; over all of them for what has none.
    pub(crate) fn collection_in(&self, namespace: &str) -> String {
        if self.namespaced && !namespace.is_empty() {
            format!("{}/namespaces/{}/{}", self.root(), encode(namespace), self.plural)
        } else {
            self.collection()
        }
    }

    /// Path of one object.
    pub(crate) fn object(&self, key: &ObjectKey) -> String {
        let name = encode(&key.name);
        if self.namespaced {
            format!("{}/namespaces/{}/{}/{name}", self.root(), encode(&key.namespace), self.plural)
        } else {
            format!("{}/{}/{name}", self.root(), self.plural)
        }
    }

    fn root(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }
}

type Kinds = HashMap<GroupKind, Vec<Arc<Resource>>>;

#[derive(Debug, Default)]
struct Cache {
    /// Versions in the server's order of preference.
    kinds: Arc<Kinds>,
    asked: Option<Instant>,
}

/// The API server's kinds, remembered.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    cache: Mutex<Cache>,
    /// One refresh at a time; who waits for it finds its result.
    refreshing: tokio::sync::Mutex<()>,
}

impl Discovery {
    /// The preferred version of a kind, asking the API server when it is unknown and the last
    /// question is a while ago.
    pub(crate) async fn preferred(
        &self,
        api: &Api,
        kind: &GroupKind,
    ) -> Result<Option<Arc<Resource>>, ApiError> {
        Ok(self.versions(api, kind).await?.into_iter().next())
    }

    /// All served versions of a kind, the preferred one first; empty when it is not served.
    pub(crate) async fn versions(&self, api: &Api, kind: &GroupKind) -> Result<Vec<Arc<Resource>>, ApiError> {
        if let Some(found) = self.known(kind) {
            return Ok(found);
        }
        let seen = self.lock().asked;
        if seen.is_none_or(|asked| asked.elapsed() > REFRESH_EVERY) {
            self.refresh(api, seen).await?;
        }
        Ok(self.known(kind).unwrap_or_default())
    }

    pub(crate) fn known(&self, kind: &GroupKind) -> Option<Vec<Arc<Resource>>> {
        self.lock().kinds.get(kind).cloned()
    }

    /// Asks the API server now, whatever is known: after a CRD came, or when a path is gone.
    pub(crate) async fn refresh_now(&self, api: &Api) -> Result<(), ApiError> {
        let seen = self.lock().asked;
        self.refresh(api, seen).await
    }

    /// Asks unless someone else did since `seen`.
    async fn refresh(&self, api: &Api, seen: Option<Instant>) -> Result<(), ApiError> {
        let _one = self.refreshing.lock().await;
        if self.lock().asked != seen {
            return Ok(());
        }
        let kinds = ask(api).await?;
        let mut cache = self.lock();
        cache.kinds = Arc::new(kinds);
        cache.asked = Some(Instant::now());
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock()
    }
}

async fn ask(api: &Api) -> Result<Kinds, ApiError> {
    let mut kinds = Kinds::new();
    for path in ["/api", "/apis"] {
        let answer = api.discovery(path).await?;
        if answer["kind"] == "APIGroupDiscoveryList" {
            aggregated(&answer, &mut kinds);
        } else {
            legacy(api, &answer, &mut kinds).await?;
        }
    }
    Ok(kinds)
}

/// Reads `apidiscovery.k8s.io/v2`: everything in one answer.
fn aggregated(answer: &Value, kinds: &mut Kinds) {
    for group in answer["items"].as_array().into_iter().flatten() {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        for version in group["versions"].as_array().into_iter().flatten() {
            let Some(version_name) = version["version"].as_str() else { continue };
            for resource in version["resources"].as_array().into_iter().flatten() {
                let (Some(plural), Some(kind)) =
                    (resource["resource"].as_str(), resource["responseKind"]["kind"].as_str())
                else {
                    continue;
                };
                if !can_patch(&resource["verbs"]) {
                    continue;
                }
                add(kinds, name, kind, version_name, plural, resource["scope"] == "Namespaced");
            }
        }
    }
}

/// Reads the older form: one answer per group and version.
async fn legacy(api: &Api, answer: &Value, kinds: &mut Kinds) -> Result<(), ApiError> {
    let mut roots: Vec<(String, String, String)> = Vec::new();
    for version in answer["versions"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        roots.push((String::new(), version.to_owned(), format!("/api/{version}")));
    }
    for group in answer["groups"].as_array().into_iter().flatten() {
        let name = group["name"].as_str().unwrap_or_default();
        let preferred = group["preferredVersion"]["version"].as_str().unwrap_or_default();
        let served = group["versions"].as_array().into_iter().flatten();
        let mut versions: Vec<&str> = served.filter_map(|version| version["version"].as_str()).collect();
        versions.sort_by_key(|version| *version != preferred);
        for version in versions {
            roots.push((name.to_owned(), version.to_owned(), format!("/apis/{name}/{version}")));
        }
    }
    for (group, version, path) in roots {
        let list = match api.get(&path).await {
            Ok(list) => list,
            // An aggregated API whose backend is down must not hide all the others.
            Err(error) if error.code() == 404 || error.code() == 503 => continue,
            Err(error) => return Err(error),
        };
        for resource in list["resources"].as_array().into_iter().flatten() {
            let (Some(plural), Some(kind)) = (resource["name"].as_str(), resource["kind"].as_str()) else {
                continue;
            };
            if plural.contains('/') || !can_patch(&resource["verbs"]) {
                continue;
            }
            add(kinds, &group, kind, &version, plural, resource["namespaced"] == true);
        }
    }
    Ok(())
}

fn can_patch(verbs: &Value) -> bool {
    verbs.as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "patch"))
}

fn add(kinds: &mut Kinds, group: &str, kind: &str, version: &str, plural: &str, namespaced: bool) {
    let key = GroupKind { group: group.to_owned(), kind: kind.to_owned() };
    let resource = Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        namespaced,
    };
    kinds.entry(key).or_default().push(Arc::new(resource));
}
