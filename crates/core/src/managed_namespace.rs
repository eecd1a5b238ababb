//! A managed namespace: one namespace on every cluster that it targets, perhaps with a service in it.
//!
//! It spreads as global services do, by two of them at most that nobody else may change: one whose instances hold the
//! namespace, one whose instances are the service.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use plural_specs::{Change, SyncConfig};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cluster::ClusterDistro;
use crate::error::{Error, Result};
use crate::global_service::{Cascade, GlobalServiceSpec, ServiceTemplate, TemplateSecrets};
use crate::ids::{GlobalServiceId, ManagedNamespaceId, ProjectId};
use crate::name::{KubeName, Name};
use crate::page::Keyed;
use crate::service::Rendering;
use crate::status::ServiceStatus;
use crate::target::ClusterTarget;

/// Namespaces that belong to a cluster itself.
const RESERVED: &str = "kube-";
/// What the API server allows of all annotations of one object together, in bytes.
const MAX_ANNOTATIONS: usize = 256 << 10;
/// More labels than one namespace has use for.
const MAX_LABELS: usize = 256;
/// More pull secrets than one ServiceAccount has use for.
const MAX_PULL_SECRETS: usize = 64;
/// Keys below these say who owns an object: nobody else may write them.
const OURS: [&str; 2] = ["deployments.plural.sh/", "plural.sh/"];

/// A managed namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct ManagedNamespace {
    /// Id.
    pub id: ManagedNamespaceId,
    /// Unique in the installation.
    pub name: Name,
    /// What the namespace is called in its clusters.
    pub namespace: KubeName,
    /// For people.
    pub description: Option<String>,
    /// Only clusters of this project are targets, and who may write there may change it. Absent: every cluster, and
    /// only administrators may.
    pub project_id: Option<ProjectId>,
    /// What the namespace is like, and where.
    pub spec: ManagedNamespaceSpec,
    /// What spreads the namespace; absent once that is gone, while it is being deleted.
    pub holder: Option<GlobalServiceId>,
    /// What spreads the service in it, and what that is made from.
    pub service: Option<(GlobalServiceId, ServiceTemplate)>,
    /// Why it could not be spread.
    pub error: Option<String>,
    /// What it says now has been seen to: every cluster that it targets was told.
    pub spread: bool,
    /// Set: its namespaces are being let go or deleted.
    pub deleted_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// What a managed namespace is like, and where.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ManagedNamespaceSpec {
    /// Where to.
    pub target: ClusterTarget,
    /// What becomes of it where it is no longer wanted.
    pub cascade: Cascade,
    /// What it is like.
    pub content: NamespaceContent,
}

/// What a namespace is like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamespaceContent {
    /// Labels that it has at least.
    pub labels: BTreeMap<String, String>,
    /// The same of annotations.
    pub annotations: BTreeMap<String, String>,
    /// Secrets in it that its default ServiceAccount pulls images with, instead of any others. Absent: that account is
    /// left alone.
    pub pull_secrets: Option<Vec<String>>,
}

/// What changes of what a managed namespace is like, and where; what is not named stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManagedNamespaceSpecChange {
    /// All tags that a cluster must have.
    pub tags: Option<BTreeMap<String, String>>,
    /// The distribution that it must have.
    pub distro: Change<ClusterDistro>,
    /// What becomes of it where it is no longer wanted.
    pub cascade: Option<Cascade>,
    /// All labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// All annotations.
    pub annotations: Option<BTreeMap<String, String>>,
    /// All pull secrets.
    pub pull_secrets: Option<Vec<String>>,
}

impl ManagedNamespaceSpecChange {
    /// What comes of `spec`.
    #[must_use]
    pub fn over(self, spec: ManagedNamespaceSpec) -> ManagedNamespaceSpec {
        let Self { tags, distro, cascade, labels, annotations, pull_secrets } = self;
        let ManagedNamespaceSpec { target: old, cascade: old_cascade, content: known } = spec;
        ManagedNamespaceSpec {
            target: ClusterTarget {
                tags: tags.unwrap_or(old.tags),
                distro: distro.over(old.distro),
                project_id: old.project_id,
                ignore: old.ignore,
            },
            cascade: cascade.unwrap_or(old_cascade),
            content: NamespaceContent {
                labels: labels.unwrap_or(known.labels),
                annotations: annotations.unwrap_or(known.annotations),
                pull_secrets: pull_secrets.or(known.pull_secrets),
            },
        }
    }
}

/// What a new managed namespace is made from.
#[derive(Debug, Clone)]
pub struct NewManagedNamespace {
    /// Unique in the installation.
    pub name: Name,
    /// What it is called in its clusters; its name when absent.
    pub namespace: Option<KubeName>,
    /// For people.
    pub description: Option<String>,
    /// Absent: every cluster.
    pub project_id: Option<ProjectId>,
    /// What it is like, and where.
    pub spec: ManagedNamespaceSpec,
    /// The service in it.
    pub service: Option<(Box<ServiceTemplate>, TemplateSecrets)>,
}

/// What changes of a managed namespace; what is not named stays as it is.
#[derive(Debug, Clone, Default)]
pub struct ManagedNamespaceChange {
    /// For people.
    pub description: Option<String>,
    /// What it is like, and where.
    pub spec: ManagedNamespaceSpecChange,
    /// The service in it.
    pub service: Change<(Box<ServiceTemplate>, TemplateSecrets)>,
}

/// How a managed namespace is on one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManagedNamespaceState {
    /// It is there as it should be, and so is its service.
    Synced,
    /// Its agent, or a person who must approve, has something to do.
    Waiting,
    /// Something is wrong; the services say what.
    Error,
}

impl ManagedNamespaceState {
    /// How it is where one of its services is so.
    pub const fn of(status: ServiceStatus, leaving: bool) -> Self {
        match status {
            _ if leaving => Self::Waiting,
            ServiceStatus::Failed => Self::Error,
            ServiceStatus::Healthy => Self::Synced,
            ServiceStatus::Stale | ServiceStatus::Synced | ServiceStatus::Paused => Self::Waiting,
        }
    }

    /// How it is with both of its services.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Error, _) | (_, Self::Error) => Self::Error,
            (Self::Waiting, _) | (_, Self::Waiting) => Self::Waiting,
            (Self::Synced, Self::Synced) => Self::Synced,
        }
    }
}

impl NewManagedNamespace {
    /// What it is called in its clusters.
    ///
    /// # Errors
    /// [`Error::Invalid`] when that is no name for a namespace, or that of one which is a cluster's own.
    pub fn namespace(&self) -> Result<KubeName> {
        let (field, namespace) = if let Some(namespace) = &self.namespace {
            ("attributes.namespace", namespace.clone())
        } else {
            let parsed = self.name.as_str().parse();
            let words = |error| format!("{error}; or give the namespace's own name as \"namespace\"");
            let named = parsed
                .map_err(|error: crate::specs::NameError| Error::invalid("attributes.name", words(error)))?;
            ("attributes.name", named)
        };
        if namespace.as_str() == "default" || namespace.as_str().starts_with(RESERVED) {
            return Err(Error::invalid(
                field,
                format!(
                    "must not be {namespace}: \"default\" and names beginning with \"{RESERVED}\" are \
                     reserved"
                ),
            ));
        }
        Ok(namespace)
    }
}

impl ManagedNamespaceSpec {
    /// Checks that it can be followed.
    ///
    /// # Errors
    /// [`Error::Invalid`] for labels, annotations and names that Kubernetes would refuse.
    pub fn check(&self) -> Result<()> {
        let Self { target, cascade: _, content } = self;
        target.check()?;
        content.check()
    }

    /// How the namespace itself spreads. It never becomes nobody's by halves: kept is as good as forgotten.
    pub fn of_holder(&self) -> GlobalServiceSpec {
        let cascade = match self.cascade {
            Cascade::Keep | Cascade::Detach => Cascade::Detach,
            Cascade::Delete => Cascade::Delete,
        };
        GlobalServiceSpec { cascade, ..self.of_service() }
    }

    /// How the service in it spreads.
    pub fn of_service(&self) -> GlobalServiceSpec {
        GlobalServiceSpec {
            target: self.target.clone(),
            reparent: false,
            cascade: self.cascade,
            context: None,
            rollout: None,
        }
    }
}

impl NamespaceContent {
    fn check(&self) -> Result<()> {
        const LABELS: &str = "attributes.labels";
        const ANNOTATIONS: &str = "attributes.annotations";
        let Self { labels, annotations, pull_secrets } = self;
        if labels.len() > MAX_LABELS {
            return Err(Error::invalid(LABELS, format!("at most {MAX_LABELS} are allowed")));
        }
        for (key, value) in labels {
            check_key(LABELS, key)?;
            if !(value.is_empty() || is_qualified(value, 63)) {
                return Err(Error::invalid(
                    LABELS,
                    format!(
                        "{value:?} of {key}: a value has at most 63 letters, digits, \"-\", \"_\" and \".\", the first and the \
                         last of them a letter or digit"
                    ),
                ));
            }
        }
        for (key, value) in annotations {
            check_key(ANNOTATIONS, key)?;
            if value.contains('\0') {
                return Err(Error::invalid(
                    ANNOTATIONS,
                    format!("the value of {key} must not hold a NUL character"),
                ));
            }
        }
        if annotations.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > MAX_ANNOTATIONS {
            return Err(Error::invalid(ANNOTATIONS, "must not be larger than 256 KiB together"));
        }
        let pull_secrets = pull_secrets.as_deref().unwrap_or_default();
        if pull_secrets.len() > MAX_PULL_SECRETS {
            return Err(Error::invalid(
                "attributes.pullSecrets",
                format!("at most {MAX_PULL_SECRETS} are allowed"),
            ));
        }
        for (at, name) in pull_secrets.iter().enumerate() {
            if !is_subdomain(name) {
                return Err(Error::invalid(
                    "attributes.pullSecrets",
                    format!("{name:?} is not a valid Secret name"),
                ));
            }
            if pull_secrets.iter().take(at).any(|other| other == name) {
                return Err(Error::invalid("attributes.pullSecrets", format!("lists {name} twice")));
            }
        }
        Ok(())
    }

    /// The objects that it comes to: the namespace, and its default ServiceAccount where that is given pull secrets.
    pub fn objects(&self, namespace: &str) -> Vec<Value> {
        let Self { labels, annotations, pull_secrets } = self;
        let mut objects = vec![json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": labels, "annotations": annotations},
        })];
        if let Some(names) = pull_secrets {
            let names: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            objects.push(json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {
                    "name": "default",
                    "namespace": namespace,
                    // It is the cluster's own: it goes with its namespace or not at all.
                    "annotations": {"deployment.plural.sh/sync-options": "Prune=false,Delete=false"},
                },
                "imagePullSecrets": names,
            }));
        }
        objects
    }

    /// What the instances that hold the namespace are made from.
    pub fn template(self, namespace: &KubeName) -> ServiceTemplate {
        ServiceTemplate {
            name: Some(instance_name(namespace, "namespace")),
            namespace: Some(namespace.to_string()),
            rendering: Rendering { managed_namespace: Some(self), ..Rendering::default() },
            sync_config: SyncConfig { create_namespace: false, ..SyncConfig::default() },
            templated: Some(false),
            ..ServiceTemplate::default()
        }
    }
}

/// The template of the service in a managed namespace: it goes there, and leaves making and deleting the namespace to what
/// holds it.
#[must_use]
pub fn in_namespace(mut template: ServiceTemplate, namespace: &KubeName) -> ServiceTemplate {
    template.name.get_or_insert_with(|| instance_name(namespace, "core"));
    template.namespace.get_or_insert_with(|| namespace.to_string());
    template.sync_config.create_namespace = false;
    template.sync_config.delete_namespace = false;
    template
}

/// `<namespace>-<part>`, within what a name may be long.
fn instance_name(namespace: &KubeName, part: &str) -> String {
    const LONGEST: usize = 63;
    let whole = format!("{namespace}-{part}");
    if whole.len() <= LONGEST {
        return whole;
    }
    // FNV-1a: two long names with the same beginning should not meet.
    let hash = namespace
        .as_str()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let room = LONGEST - part.len() - "-00000000-".len();
    let start: String = namespace.as_str().chars().take(room).collect();
    format!("{start}-{hash:08x}-{part}")
}

/// A key of labels and annotations: `[prefix/]name`.
fn check_key(field: &'static str, key: &str) -> Result<()> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if !is_qualified(name, 63) || prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
        return Err(Error::invalid(
            field,
            format!("{key:?} is not a valid key: it must be like \"team\" or \"example.com/team\""),
        ));
    }
    if OURS.iter().any(|ours| key.starts_with(ours)) || key == "kubernetes.io/metadata.name" {
        return Err(Error::invalid(field, format!("{key} is reserved and cannot be set")));
    }
    Ok(())
}

fn is_qualified(text: &str, longest: usize) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= longest
        && text.chars().all(inner)
        && end(text.chars().next())
        && end(text.chars().next_back())
}

/// A DNS subdomain, as names of Secrets and prefixes of keys are.
fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && edge(label.chars().next())
            && edge(label.chars().next_back())
    };
    text.len() <= 253 && text.split('.').all(label)
}

impl Keyed for ManagedNamespace {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, namespace: Option<&str>) -> Result<String> {
        let new = NewManagedNamespace {
            name: name.parse().unwrap(),
            namespace: namespace.map(|text| text.parse().unwrap()),
            description: None,
            project_id: None,
            spec: ManagedNamespaceSpec::default(),
            service: None,
        };
        new.namespace().map(String::from)
    }

    #[test]
    fn a_namespace_is_called_as_it_may_be() {
        assert_eq!(named("team-a", None).unwrap(), "team-a");
        assert_eq!(named("Team A", Some("team-a")).unwrap(), "team-a");
        for (name, namespace) in
            [("Team A", None), ("kube-system", None), ("default", None), ("x", Some("kube-public"))]
        {
            assert!(matches!(named(name, namespace), Err(Error::Invalid { .. })), "{name}");
        }
    }

    #[test]
    fn labels_annotations_and_names_are_those_of_kubernetes() {
        let label = |key: &str, value: &str| NamespaceContent {
            labels: [(key.to_owned(), value.to_owned())].into(),
            ..NamespaceContent::default()
        };
        let annotation = |key: &str, value: String| NamespaceContent {
            annotations: [(key.to_owned(), value)].into(),
            ..NamespaceContent::default()
        };
        let secrets = |names: &[&str]| NamespaceContent {
            pull_secrets: Some(names.iter().map(|&name| name.to_owned()).collect()),
            ..NamespaceContent::default()
        };
        for good in [
            label("team", "a"),
            label("example.com/team", ""),
            annotation("note", "anything at all, even \n".to_owned()),
            annotation("deployment.plural.sh/sync-options", "Delete=false".to_owned()),
            secrets(&["registry", "other.registry"]),
        ] {
            good.check().unwrap();
        }
        for bad in [
            label("", "a"),
            label("-team", "a"),
            label("a/b/c", "a"),
            label("team", "no spaces"),
            label("team", &"x".repeat(64)),
            label("plural.sh/managed-by", "me"),
            label("kubernetes.io/metadata.name", "x"),
            annotation("deployments.plural.sh/created-by", "me".to_owned()),
            annotation("note", "x".repeat(MAX_ANNOTATIONS)),
            annotation("note", "a\0b".to_owned()),
            secrets(&["Registry"]),
            secrets(&["a", "a"]),
            secrets(&[""]),
        ] {
            assert!(matches!(bad.check(), Err(Error::Invalid { .. })), "{bad:?}");
        }
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let tags: BTreeMap<_, _> = [("stage".to_owned(), "prod".to_owned())].into();
        let spec = ManagedNamespaceSpec {
            target: ClusterTarget {
                tags: tags.clone(),
                distro: Some(ClusterDistro::Eks),
                project_id: Some(ProjectId::new()),
                ..ClusterTarget::default()
            },
            cascade: Cascade::Delete,
            content: NamespaceContent {
                labels: tags.clone(),
                annotations: tags,
                pull_secrets: Some(vec!["registry".to_owned()]),
            },
        };
        let none = ManagedNamespaceSpecChange::default();
        assert_eq!(none.clone().over(spec.clone()), spec);
        let distro = ManagedNamespaceSpecChange { distro: Change::Set(ClusterDistro::K3s), ..none.clone() };
        let changed = distro.over(spec.clone());
        assert_eq!(
            (changed.target.distro, &changed.target.tags),
            (Some(ClusterDistro::K3s), &spec.target.tags)
        );
        let cleared =
            ManagedNamespaceSpecChange { distro: Change::Clear, tags: Some(BTreeMap::new()), ..none };
        let target = ClusterTarget { project_id: spec.target.project_id, ..ClusterTarget::default() };
        assert_eq!(cleared.over(spec.clone()), ManagedNamespaceSpec { target, ..spec });
    }

    #[test]
    fn instances_have_names_however_long_the_namespace_is() {
        let name = |text: &str, part| instance_name(&text.parse().unwrap(), part);
        assert_eq!(name("team", "core"), "team-core");
        let long = "a".repeat(60);
        let (one, other) = (name(&format!("{long}b"), "namespace"), name(&format!("{long}c"), "namespace"));
        assert_eq!(one.len(), 63);
        assert!(one.parse::<KubeName>().is_ok() && one != other, "{one} {other}");
    }

    #[test]
    fn a_service_leaves_the_namespace_to_what_holds_it() {
        let namespace: KubeName = "team".parse().unwrap();
        let template = in_namespace(ServiceTemplate::default(), &namespace);
        assert_eq!(
            (template.name.as_deref(), template.namespace.as_deref()),
            (Some("team-core"), Some("team"))
        );
        assert!(!template.sync_config.create_namespace);
        let holder = NamespaceContent::default().template(&namespace);
        let instance = holder.instance(&"x".parse().unwrap(), &TemplateSecrets::default()).unwrap();
        assert_eq!(instance.name.as_str(), "team-namespace");
        assert!(instance.rendering.over(Rendering::default()).managed_namespace.is_some());
    }

    #[test]
    fn the_worse_of_two_counts() {
        use ManagedNamespaceState::{Error, Synced, Waiting};
        assert_eq!(ManagedNamespaceState::of(ServiceStatus::Healthy, false), Synced);
        assert_eq!(ManagedNamespaceState::of(ServiceStatus::Failed, true), Waiting);
        assert_eq!(Synced.and(Waiting), Waiting);
        assert_eq!(Error.and(Waiting), Error);
    }
}
