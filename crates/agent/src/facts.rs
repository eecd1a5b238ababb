//! What the agent knows of the cluster it runs in.

use http::Request;
use plural_tunnel::v1::{ClusterInfo, ClusterIssuer};
use serde_json::Value;

/// The console is not kept waiting for an API server that is away.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(3);

/// Bytes of keys that the console takes.
const LONGEST_KEYS: usize = 32 * 1024;

/// Asks the API server; what it does not answer stays empty.
pub(crate) async fn read(client: &kube::Client) -> ClusterInfo {
    let (version, node_count, pod_count, namespace_count, issuer) = tokio::join!(
        get(client, "/version"),
        count(client, "/api/v1/nodes"),
        count(client, "/api/v1/pods"),
        count(client, "/api/v1/namespaces"),
        issuer(client),
    );
    let git_version = version["gitVersion"].as_str().unwrap_or_default().to_owned();
    ClusterInfo {
        distro: distro(&git_version).to_owned(),
        kubernetes_version: git_version,
        node_count,
        pod_count,
        namespace_count,
        issuer,
    }
}

/// Who signs the tokens of the cluster's service accounts, as the API server publishes it. Nothing, when it does not answer: what
/// was told before stands then.
async fn issuer(client: &kube::Client) -> Option<ClusterIssuer> {
    let described = published(client, "/.well-known/openid-configuration").await?;
    let Some(issuer) = described["issuer"].as_str().filter(|issuer| !issuer.is_empty()) else {
        return Some(ClusterIssuer::default());
    };
    let keys = published(client, "/openid/v1/jwks").await?;
    let keys_json = if keys["keys"].is_array() { keys.to_string() } else { String::new() };
    if keys_json.is_empty() || keys_json.len() > LONGEST_KEYS {
        return Some(ClusterIssuer::default());
    }
    Some(ClusterIssuer { issuer: issuer.to_owned(), keys_json })
}

/// A document of the API server; null where it says that it has none, or that we may not read it.
async fn published(client: &kube::Client, path: &str) -> Option<Value> {
    let request = Request::get(path).body(Vec::new()).ok()?;
    match tokio::time::timeout(DEADLINE, client.request(request)).await.ok()? {
        Ok(document) => Some(document),
        Err(kube::Error::Api(refused)) if matches!(refused.code, 403 | 404) => Some(Value::Null),
        Err(_) => None,
    }
}

async fn get(client: &kube::Client, path: &str) -> Value {
    let Ok(request) = Request::get(path).body(Vec::new()) else { return Value::Null };
    let answer = tokio::time::timeout(DEADLINE, client.request(request)).await;
    answer.ok().and_then(Result::ok).unwrap_or_default()
}

/// How many objects there are, without reading them: one, and what the server says remains.
async fn count(client: &kube::Client, path: &str) -> u32 {
    let list = get(client, &format!("{path}?limit=1")).await;
    let first = list["items"].as_array().map_or(0, Vec::len) as u64;
    let rest = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
    u32::try_from(first + rest).unwrap_or(u32::MAX)
}

/// The distribution that a version string gives away, as in the API's enum; empty if none.
fn distro(git_version: &str) -> &'static str {
    let version = git_version.to_ascii_lowercase();
    for (sign, name) in [
        ("-eks-", "EKS"),
        ("-gke.", "GKE"),
        ("+k3s", "K3S"),
        ("+rke", "RKE"),
        ("-aks", "AKS"),
        ("openshift", "OPENSHIFT"),
    ] {
        if version.contains(sign) {
            return name;
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_give_distributions_away() {
        assert_eq!(distro("v1.33.1-eks-ac2d5a0"), "EKS");
        assert_eq!(distro("v1.31.2+k3s1"), "K3S");
        assert_eq!(distro("v1.36.2"), "");
    }
}
