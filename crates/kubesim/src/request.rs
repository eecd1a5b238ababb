//! What a request asks for, as authorisation, auditing and fault rules see it.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;

/// A parsed request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; the lower-case method for
    /// paths that are not resources.
    pub verb: String,
    /// Path without the query.
    pub path: String,
    /// True for `/api/v1/...` and `/apis/group/version/...` paths that name a resource.
    pub is_resource: bool,
    /// API group, empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace, empty for cluster scope.
    pub namespace: String,
    /// Plural resource.
    pub resource: String,
    /// Subresource or empty.
    pub subresource: String,
    /// Object name or empty.
    pub name: String,
    /// `Content-Type` without parameters.
    pub content_type: String,
    /// Decoded query parameters.
    pub query: HashMap<String, String>,
}

impl RequestInfo {
    /// Reads method, path and query.
    pub fn parse(method: &str, path: &str, query: Option<&str>) -> Self {
        let mut out = Self { path: path.to_owned(), verb: method.to_lowercase(), ..Self::default() };
        for pair in query.unwrap_or_default().split('&').filter(|p| !p.is_empty()) {
            let (k, v) = pair.split_once('=').unwrap_or((pair, ""));
            out.query.insert(decode(k), decode(v));
        }
        let parts: Vec<String> = path.split('/').filter(|p| !p.is_empty()).map(decode).collect();
        let mut rest: &[String] = match parts.first().map(String::as_str) {
            Some("api") if parts.len() > 2 => {
                out.version.clone_from(&parts[1]);
                &parts[2..]
            }
            Some("apis") if parts.len() > 3 => {
                out.group.clone_from(&parts[1]);
                out.version.clone_from(&parts[2]);
                &parts[3..]
            }
            _ => return out,
        };
        out.is_resource = true;
        let mut legacy_watch = false;
        if rest.first().is_some_and(|p| p == "watch") && rest.len() > 1 {
            legacy_watch = true;
            rest = &rest[1..];
        }
        if rest[0] == "namespaces" && rest.len() > 1 {
            out.namespace.clone_from(&rest[1]);
            if rest.len() > 2 && !matches!(rest[2].as_str(), "status" | "finalize") {
                rest = &rest[2..];
            }
        }
        out.resource.clone_from(&rest[0]);
        out.name = rest.get(1).cloned().unwrap_or_default();
        out.subresource = rest.get(2).cloned().unwrap_or_default();
        let watch = legacy_watch || out.flag("watch");
        let named = !out.name.is_empty();
        out.verb = match method {
            "GET" | "HEAD" if watch && out.subresource.is_empty() => "watch",
            "GET" | "HEAD" if named => "get",
            "GET" | "HEAD" => "list",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if named => "delete",
            "DELETE" => "deletecollection",
            other => other,
        }
        .to_lowercase();
        out
    }

    /// A query parameter, or "".
    pub fn param(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    /// All values of a parameter that may be given several times, from a query as it came.
    pub(crate) fn values(query: &str, name: &str) -> Vec<String> {
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.filter(|(key, _)| decode(key) == name).map(|(_, value)| decode(value)).collect()
    }

    /// A query parameter as a flag.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.param(name), "true" | "1" | "True")
    }
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_like_the_real_server_reads_them() {
        let r = RequestInfo::parse("GET", "/apis/apps/v1/namespaces/a/deployments/web/status", None);
        assert_eq!(
            (
                r.group.as_str(),
                r.namespace.as_str(),
                r.resource.as_str(),
                r.name.as_str(),
                r.subresource.as_str()
            ),
            ("apps", "a", "deployments", "web", "status")
        );
        let r = RequestInfo::parse("PUT", "/api/v1/namespaces/a/finalize", None);
        assert_eq!(
            (r.resource.as_str(), r.name.as_str(), r.subresource.as_str()),
            ("namespaces", "a", "finalize")
        );
        let r =
            RequestInfo::parse("GET", "/api/v1/pods", Some("watch=true&labelSelector=a%3Db%2Cc+in+%28d%29"));
        assert_eq!((r.verb.as_str(), r.param("labelSelector")), ("watch", "a=b,c in (d)"));
        assert!(!RequestInfo::parse("GET", "/apis/apps/v1", None).is_resource);
    }
}
