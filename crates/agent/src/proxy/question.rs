//! What a request asks of the API server, read from its method and path as the API server reads them.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// A request, taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Question {
    /// `GET`.
    pub(crate) method: String,
    /// Empty for the core group and for paths that are no resource's.
    pub(crate) group: String,
    /// `pods`; empty for paths that are no resource's.
    pub(crate) resource: String,
    /// Empty when the path names none.
    pub(crate) namespace: String,
    /// Empty for all.
    pub(crate) name: String,
    /// `exec`, or empty.
    pub(crate) subresource: String,
    /// The connection is to become something else.
    pub(crate) upgrade: bool,
}

impl Question {
    /// Escapes are undone: `/api/v1/%73ecrets` asks for secrets.
    pub(crate) fn parse(method: &str, target: &str, upgrade: bool) -> Self {
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        // [`plural_tunnel::proxy::check_target`] accepted the escapes.
        let segments: Vec<Cow<'_, str>> = path
            .trim_matches('/')
            .split('/')
            .map(|segment| percent_decode_str(segment).decode_utf8_lossy())
            .filter(|segment| !segment.is_empty())
            .collect();
        let mut rest = segments.iter().map(|segment| &**segment);
        let mut question = Self { method: method.to_ascii_uppercase(), upgrade, ..Self::default() };
        match rest.next() {
            Some("api") => {}
            Some("apis") => rest.next().unwrap_or_default().clone_into(&mut question.group),
            _ => return question,
        }
        if rest.next().is_none() {
            return Self { group: String::new(), ..question };
        }
        let mut rest: Vec<&str> = rest.collect();
        // The old way to watch: the same objects behind one more word.
        if rest.first() == Some(&"watch") {
            rest.remove(0);
        }
        if let ["namespaces", namespace, more @ ..] = rest.as_slice() {
            (*namespace).clone_into(&mut question.namespace);
            if matches!(more, [] | ["status" | "finalize", ..]) {
                "namespaces".clone_into(&mut question.resource);
                (*namespace).clone_into(&mut question.name);
                more.first().copied().unwrap_or_default().clone_into(&mut question.subresource);
                return question;
            }
            rest = more.to_vec();
        }
        let mut rest = rest.into_iter();
        let mut next = || rest.next().unwrap_or_default().to_owned();
        question.resource = next();
        question.name = next();
        question.subresource = next();
        question
    }

    /// It reads and nothing else.
    pub(crate) fn is_read(&self) -> bool {
        let reads = matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS");
        // What leads to a process can do anything, whatever its method.
        let leads_on =
            self.upgrade || matches!(self.subresource.as_str(), "exec" | "attach" | "portforward" | "proxy");
        let asks_about_itself = self.method == "POST"
            && matches!(
                (self.group.as_str(), self.resource.as_str()),
                ("authorization.k8s.io", "selfsubjectaccessreviews" | "selfsubjectrulesreviews")
                    | ("authentication.k8s.io", "selfsubjectreviews")
            );
        (reads || asks_about_itself) && !leads_on
    }

    /// It concerns objects of all namespaces, or of none; the path does not tell which.
    pub(crate) fn is_everywhere(&self) -> bool {
        !self.resource.is_empty() && self.namespace.is_empty() && self.name.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(method: &str, target: &str) -> [String; 5] {
        let Question { group, resource, namespace, name, subresource, .. } =
            Question::parse(method, target, false);
        [group, resource, namespace, name, subresource]
    }

    #[test]
    fn paths_as_the_api_server_reads_them() {
        for (target, expected) in [
            ("/api/v1/pods?watch=1", ["", "pods", "", "", ""]),
            ("/api/v1/namespaces/a/pods/p/log", ["", "pods", "a", "p", "log"]),
            ("/api/v1/namespaces/a", ["", "namespaces", "a", "a", ""]),
            ("/api/v1/namespaces/a/status", ["", "namespaces", "a", "a", "status"]),
            ("/api/v1/namespaces", ["", "namespaces", "", "", ""]),
            ("/apis/apps/v1/namespaces/a/deployments/", ["apps", "deployments", "a", "", ""]),
            ("/api/v1/watch/namespaces/a/secrets", ["", "secrets", "a", "", ""]),
            ("/api/v1/namespaces/a/%73ecrets", ["", "secrets", "a", "", ""]),
            // A sign is no digit of an escape.
            ("/api/v1/namespaces/a/%+1", ["", "%+1", "a", "", ""]),
            ("/apis/apps/v1", ["apps", "", "", "", ""]),
            ("/apis/apps", ["", "", "", "", ""]),
            ("/version", ["", "", "", "", ""]),
            ("/", ["", "", "", "", ""]),
        ] {
            assert_eq!(told("GET", target), expected.map(str::to_owned), "{target}");
        }
    }

    #[test]
    fn what_only_reads() {
        let reads = |method, target, upgrade| Question::parse(method, target, upgrade).is_read();
        assert!(reads("GET", "/api/v1/pods", false));
        assert!(reads("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", false));
        assert!(!reads("POST", "/api/v1/namespaces/a/pods", false));
        assert!(!reads("GET", "/api/v1/namespaces/a/pods/p/exec", true));
        assert!(!reads("GET", "/api/v1/namespaces/a/pods/p/attach", false));
        assert!(!reads("GET", "/api/v1/namespaces/a/services/s/proxy/x", false));
        assert!(!reads("GET", "/api/v1/pods", true));
    }
}
