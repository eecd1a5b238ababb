//! Which cluster a path means, and what of it the audit log may hold.

use axum::http::Uri;

/// Query parameters whose values say what was asked and hold nothing of what it was asked with.
const TOLD: [&str; 14] = [
    "allowWatchBookmarks",
    "container",
    "dryRun",
    "fieldManager",
    "follow",
    "force",
    "limit",
    "pretty",
    "previous",
    "propagationPolicy",
    "stdin",
    "tailLines",
    "tty",
    "watch",
];
/// Bytes of a path in the audit log; the rest is cut.
const LONGEST: usize = 2_000;

/// The cluster's name in `/k8s/NAME/…`, and what is behind it as the API server gets it. The path is taken as it
/// came: nothing is decoded, joined or resolved.
pub(super) fn split(uri: &Uri) -> Option<(&str, String)> {
    let rest = uri.path().strip_prefix("/k8s/")?;
    let (cluster, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    (!cluster.is_empty()).then_some((cluster, target))
}

/// The path, with the parameters of its query that are no secret.
pub(super) fn for_the_log(target: &str) -> String {
    let (path, query) = target.split_once('?').map_or((target, ""), |(path, query)| (path, query));
    let mut line = String::from(path);
    let mut separator = '?';
    for parameter in query.split('&') {
        let name = parameter.split('=').next().unwrap_or_default();
        if TOLD.contains(&name) {
            line.push(separator);
            line.push_str(parameter);
            separator = '&';
        }
    }
    if line.len() > LONGEST {
        let cut = (0..=LONGEST).rev().find(|at| line.is_char_boundary(*at)).unwrap_or_default();
        line.truncate(cut);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_stays_as_it_came() {
        for (uri, expected) in [
            ("/k8s/blue", Some(("blue", "/"))),
            ("/k8s/blue/", Some(("blue", "/"))),
            ("/k8s/blue/api/v1/pods?watch=1", Some(("blue", "/api/v1/pods?watch=1"))),
            ("/k8s/blue//api", Some(("blue", "//api"))),
            ("/k8s/blue/../red/api", Some(("blue", "/../red/api"))),
            ("/k8s/blue/%2e%2e/api", Some(("blue", "/%2e%2e/api"))),
            ("https://console/k8s/blue/api", Some(("blue", "/api"))),
            ("/k8s//api", None),
            ("/k8s/", None),
            ("/gql", None),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let told = split(&uri);
            assert_eq!(told, expected.map(|(cluster, target)| (cluster, target.to_owned())), "{uri}");
        }
    }

    #[test]
    fn what_could_be_secret_is_not_told() {
        let target =
            "/api/v1/namespaces/a/pods/p/exec?command=mysql&command=-psecret&container=db&tty=true&x=y";
        assert_eq!(for_the_log(target), "/api/v1/namespaces/a/pods/p/exec?container=db&tty=true");
        assert_eq!(for_the_log("/version"), "/version");
        assert_eq!(for_the_log(&format!("/{}", "a".repeat(9000))).len(), LONGEST);
    }
}
