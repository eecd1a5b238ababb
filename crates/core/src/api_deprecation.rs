//! Versions of Kubernetes' own APIs that go away, by a table that is data: `data/api_deprecations.json`, each row with where
//! it is from.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::component::{Component, ComponentKey};

/// How many minor versions ahead of a cluster's own are looked at: whoever upgrades does it step by step.
const AHEAD: u32 = 1;

static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    // A test reads it: what cannot be read never leaves the house.
    serde_json::from_str(include_str!("../data/api_deprecations.json")).unwrap_or_default()
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    group: String,
    version: String,
    kinds: Vec<String>,
    deprecated: String,
    removed: Option<String>,
    replacement: Option<String>,
    available: Option<String>,
    #[cfg_attr(not(test), expect(dead_code, reason = "a link for whoever keeps the table"))]
    source: String,
}

/// That an API version goes away, as it concerns one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiDeprecation {
    /// Kubernetes version that said so first: "1.21".
    pub deprecated_in: String,
    /// The first one that does not serve it; absent: none is planned.
    pub removed_in: Option<String>,
    /// "batch/v1", with a kind where that changes, too; absent: nothing takes its place.
    pub replacement: Option<String>,
    /// The first Kubernetes version that serves the replacement.
    pub available_in: Option<String>,
    /// The next minor version of Kubernetes does not serve it, or this one does not already.
    pub blocking: bool,
    /// The cluster's own version does not serve it.
    pub removed: bool,
}

/// An object of a service that is written in an API version that goes away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeprecatedComponent {
    /// The object.
    pub component: Component,
    /// What is known of its API version.
    pub deprecation: ApiDeprecation,
}

/// Kinds of one API version that the table knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedApi {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// "v1beta1".
    pub version: &'static str,
    /// Kinds.
    pub kinds: &'static [String],
}

/// A minor version of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubernetesMinor(u32, u32);

impl KubernetesMinor {
    /// That of "v1.36.2", "1.29+" or "v1.28.5-eks-1234".
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().trim_start_matches('v').split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?;
        let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
        Some(Self(major, minor.get(..digits)?.parse().ok()?))
    }

    fn later(self, by: u32) -> Self {
        Self(self.0, self.1.saturating_add(by))
    }
}

impl ApiDeprecation {
    /// What concerns an object of a cluster that runs `version`: what is deprecated or gone there, or will be with the next
    /// minor version.
    pub fn of(key: &ComponentKey, version: KubernetesMinor) -> Option<Self> {
        Self::of_api(&key.group, &key.version, &key.kind, version)
    }

    /// The same by names.
    pub fn of_api(group: &str, version: &str, kind: &str, cluster: KubernetesMinor) -> Option<Self> {
        let row = TABLE.iter().find(|row| {
            row.group == group && row.version == version && row.kinds.iter().any(|known| known == kind)
        })?;
        let next = cluster.later(AHEAD);
        let since = |text: &String| KubernetesMinor::parse(text);
        if since(&row.deprecated)? > next {
            return None;
        }
        let removed = row.removed.as_ref().and_then(since);
        Some(Self {
            deprecated_in: row.deprecated.clone(),
            removed_in: row.removed.clone(),
            replacement: row.replacement.clone(),
            available_in: row.available.clone(),
            blocking: removed.is_some_and(|removed| removed <= next),
            removed: removed.is_some_and(|removed| removed <= cluster),
        })
    }

    /// What is known of an API version that a cluster does not serve: "not served since Kubernetes 1.25: use batch/v1".
    pub fn advice(group: &str, version: &str, kind: &str) -> Option<String> {
        Self::of_api(group, version, kind, KubernetesMinor(u32::MAX, 0)).map(|known| known.words())
    }

    /// Every API that is listed, for a query.
    pub fn listed() -> impl Iterator<Item = ListedApi> {
        TABLE.iter().map(|row| ListedApi { group: &row.group, version: &row.version, kinds: &row.kinds })
    }

    /// Since when and what instead: "not served since Kubernetes 1.25: use batch/v1".
    pub fn words(&self) -> String {
        let Self { deprecated_in, removed_in, replacement, available_in: _, blocking: _, removed } = self;
        let since = match removed_in {
            Some(gone) if *removed => format!("not served since Kubernetes {gone}"),
            Some(gone) => format!("deprecated since Kubernetes {deprecated_in}, not served from {gone} on"),
            None => format!("deprecated since Kubernetes {deprecated_in}"),
        };
        match replacement {
            Some(other) => format!("{since}: use {other}"),
            None => format!("{since}: nothing takes its place"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn minor(text: &str) -> KubernetesMinor {
        KubernetesMinor::parse(text).unwrap()
    }

    #[test]
    fn the_table_is_well_formed() {
        let rows: Vec<Row> = serde_json::from_str(include_str!("../data/api_deprecations.json")).unwrap();
        assert!(rows.len() > 40);
        let mut seen = HashSet::new();
        for row in &rows {
            let deprecated = minor(&row.deprecated);
            assert!(row.removed.as_deref().is_none_or(|removed| minor(removed) > deprecated), "{row:?}");
            assert!(row.available.is_none() || row.replacement.is_some(), "{row:?}");
            assert!(
                row.available.as_deref().is_none_or(|at| KubernetesMinor::parse(at).is_some()),
                "{row:?}"
            );
            assert!(row.source.starts_with("https://"), "{row:?}");
            for kind in &row.kinds {
                assert!(seen.insert((&row.group, &row.version, kind)), "twice: {row:?}");
            }
        }
        // What is told to use is not itself one that goes away, unless nothing better is there yet.
        for row in rows.iter().filter(|row| row.version.contains("beta")) {
            assert!(row.replacement.as_deref().is_none_or(|other| !other.contains("beta")), "{row:?}");
        }
    }

    #[test]
    fn versions_as_clusters_tell_them() {
        for text in ["v1.36.2", "1.36", "1.36+", "v1.36.0-eks-0ff1ce", " v1.36.1+k3s1"] {
            assert_eq!(minor(text), KubernetesMinor(1, 36), "{text}");
        }
        for text in ["", "v1", "latest", "v1.x", "1."] {
            assert_eq!(KubernetesMinor::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_concerns_a_cluster_depends_on_its_version() {
        let cron = |cluster| ApiDeprecation::of_api("batch", "v1beta1", "CronJob", minor(cluster));
        assert_eq!(cron("1.19"), None, "nothing to be done yet");
        let next = cron("v1.20.3").unwrap();
        assert!(!next.blocking && !next.removed);
        let last = cron("1.24").unwrap();
        assert!(last.blocking && !last.removed);
        assert_eq!(last.words(), "deprecated since Kubernetes 1.21, not served from 1.25 on: use batch/v1");
        let gone = cron("1.30").unwrap();
        assert!(gone.blocking && gone.removed);
        assert_eq!(gone.words(), "not served since Kubernetes 1.25: use batch/v1");
        assert_eq!(ApiDeprecation::of_api("batch", "v1", "CronJob", minor("1.30")), None);
        assert_eq!(ApiDeprecation::of_api("batch", "v1beta1", "Job", minor("1.30")), None);

        let endpoints = ApiDeprecation::of_api("", "v1", "Endpoints", minor("1.36")).unwrap();
        assert!(!endpoints.blocking && endpoints.removed_in.is_none());
        assert_eq!(
            endpoints.words(),
            "deprecated since Kubernetes 1.33: use discovery.k8s.io/v1 EndpointSlice"
        );
        assert_eq!(
            ApiDeprecation::advice("batch", "v1beta1", "CronJob").as_deref(),
            Some("not served since Kubernetes 1.25: use batch/v1")
        );
        assert_eq!(ApiDeprecation::advice("example.com", "v1", "CronJob"), None);
        let policy = ApiDeprecation::of_api("policy", "v1beta1", "PodSecurityPolicy", minor("1.36")).unwrap();
        assert_eq!(policy.words(), "not served since Kubernetes 1.25: nothing takes its place");
    }
}
