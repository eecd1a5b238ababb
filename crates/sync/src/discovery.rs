//! Which kinds the API server serves, under which paths.
//!
//! Written here and not taken from `kube::discovery`: one request takes the aggregated form and falls back to
//! the older one by what the server answers, an aggregated API whose backend is down does not hide the
//! others, and a kind that is not served makes a request in two seconds at first and in thirty in the end, whoever asks
//! for it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::{sync::Notify, time::Instant};

use crate::{
    api::{Api, ApiError, encode},
    key::{GroupKind, ObjectKey},
};

/// Nobody who looks for a kind that is not served has the API server asked again within this time; the longer it is
/// missing, the less often.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Kinds that are remembered as missing.
const MOST_MISSING: usize = 10_000;

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
    /// How often these were looked for, and the answer did not change.
    missing: HashMap<GroupKind, u32>,
}

impl Cache {
    /// Whether to ask the API server for what is not known of a kind.
    fn is_due(&self, kind: &GroupKind) -> bool {
        let tries = self.missing.get(kind).copied().unwrap_or_default();
        self.asked.is_none_or(|asked| asked.elapsed() >= wait_after(tries))
    }
}

fn wait_after(tries: u32) -> Duration {
    FIRST_WAIT.saturating_mul(2_u32.saturating_pow(tries)).min(LONGEST_WAIT)
}

/// The API server's kinds, remembered.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    cache: Mutex<Cache>,
    /// One refresh at a time; who waits for it finds its result.
    refreshing: tokio::sync::Mutex<()>,
    /// The API server was asked, or a service lacks a kind that it did not lack before.
    pub(crate) news: Notify,
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
        self.look_again(api, kind).await
    }

    /// The served versions of a kind, though there was something amiss with those that are known: asks the API server, unless
    /// that was done a moment ago.
    pub(crate) async fn look_again(
        &self,
        api: &Api,
        kind: &GroupKind,
    ) -> Result<Vec<Arc<Resource>>, ApiError> {
        let seen = {
            let cache = self.lock();
            cache.is_due(kind).then_some(cache.asked)
        };
        if let Some(seen) = seen {
            let before = self.known(kind);
            self.refresh(api, seen).await?;
            let mut cache = self.lock();
            if cache.kinds.get(kind) == before.as_ref() {
                if cache.missing.len() >= MOST_MISSING {
                    cache.missing.clear();
                }
                let tries = cache.missing.entry(kind.clone()).or_default();
                *tries = tries.saturating_add(1);
            }
        }
        Ok(self.known(kind).unwrap_or_default())
    }

    /// Whether a kind is known to be served in this version.
    pub(crate) fn serves(&self, kind: &GroupKind, version: &str) -> bool {
        self.lock().kinds.get(kind).is_some_and(|served| served.iter().any(|one| one.version == version))
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
        {
            let mut cache = self.lock();
            let Cache { kinds: known, asked, missing } = &mut *cache;
            // What came or changed is looked for anew, should it go again.
            missing.retain(|kind, _| kinds.get(kind) == known.get(kind));
            *known = Arc::new(kinds);
            *asked = Some(Instant::now());
        }
        self.news.notify_one();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_for_long_is_asked_for_less_often() {
        let waits: Vec<u64> =
            [0, 1, 2, 3, 4, 5, u32::MAX].into_iter().map(|tries| wait_after(tries).as_secs()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 30, 30, 30]);
        let kind = GroupKind { group: "example.org".to_owned(), kind: "Widget".to_owned() };
        let mut cache = Cache::default();
        assert!(cache.is_due(&kind), "nobody asked yet");
        cache.asked = Instant::now().checked_sub(Duration::from_secs(3));
        assert!(cache.is_due(&kind));
        cache.missing.insert(kind.clone(), 1);
        assert!(!cache.is_due(&kind));
    }
}
