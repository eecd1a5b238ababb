//! How a person names things: by handle, by id, by `cluster/name`, by URL.

use std::{convert::Infallible, str::FromStr, time::Duration};

use plural_core::service::Reference;
use plural_wire::{
    Client, Cluster, GetCluster, GetGitRepository, GetProject, GetServiceDeployment, GitRepository,
    ListGitRepositories, PAGE_SIZE, Project, Seconds, ServiceDetails, all_pages,
};

use crate::{
    documents::{Kind, document_names},
    error::CliError,
};

/// The longest time that a flag takes.
const WEEK: Seconds = Seconds(7 * 24 * 3600);

/// A cluster by id or handle; a handle may have an `@` before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClusterKey {
    Id(String),
    Handle(String),
}

/// A service by id, or by cluster and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServiceKey {
    Id(String),
    Named { cluster: ClusterKey, name: String },
}

/// A repository by id or URL, or as `plural get -o name` calls it: `gitrepository/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RepositoryKey {
    Id(String),
    Url(String),
    Named(String),
}

impl FromStr for ClusterKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = Kind::Cluster.bare(text);
        let handle = text.strip_prefix('@').unwrap_or(text);
        if handle.is_empty() || handle.contains('/') {
            return Err("a cluster is named by its handle or id, for example blue or @blue".into());
        }
        Ok(if is_id(handle) { Self::Id(handle.into()) } else { Self::Handle(handle.into()) })
    }
}

impl FromStr for ServiceKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = bare_service(text);
        match text.split_once('/') {
            None if is_id(text) => Ok(Self::Id(text.into())),
            Some((cluster, name)) if !name.is_empty() && !name.contains('/') => {
                Ok(Self::Named { cluster: cluster.parse()?, name: name.into() })
            }
            _ => Err("a service is named CLUSTER/NAME or by its id, for example blue/web".into()),
        }
    }
}

impl FromStr for RepositoryKey {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bare = Kind::GitRepository.bare(text);
        Ok(if is_id(bare) {
            Self::Id(bare.into())
        } else if bare.len() == text.len() || is_address(bare) {
            Self::Url(bare.into())
        } else {
            Self::Named(bare.into())
        })
    }
}

/// As `-o name` prints it, unless a cluster has the name of the kind: `service/web` is the service `web` of that cluster.
pub(crate) fn bare_service(text: &str) -> &str {
    let bare = Kind::ServiceDeployment.bare(text);
    if bare.contains('/') || is_id(bare) { bare } else { text }
}

/// An id as `-o name` prints it, with or without its kind.
pub(crate) fn bare_id<'t>(kind: &str, text: &'t str) -> &'t str {
    text.strip_prefix(kind).and_then(|rest| rest.strip_prefix('/')).filter(|id| is_id(id)).unwrap_or(text)
}

fn is_address(text: &str) -> bool {
    text.contains("://") || text.contains(':')
}

/// Which of these addresses `plural get -o name` calls by this name.
pub(crate) fn address_called<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Result<String, CliError> {
    let fitting: Vec<&str> = all.filter(|url| document_names(url).iter().any(|one| one == name)).collect();
    match fitting.as_slice() {
        [] => Err(CliError::missing(
            format_args!("repository {name:?}"),
            "`plural cd repositories list` and `helm-repositories list` show those there are",
        )),
        [url] => Ok((*url).to_owned()),
        all => {
            Err(CliError::usage(format!("{name:?} could be {}", all.join(" or "))).hint("name it by its URL"))
        }
    }
}

/// Whether `text` has the form of the console's ids (a UUID).
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Variables `id` and `name` of a document for what is named by either.
pub(crate) fn id_or_name(text: &str) -> (Option<String>, Option<String>) {
    if is_id(text) { (Some(text.into()), None) } else { (None, Some(text.into())) }
}

/// `NAME=VALUE`.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("it must have the form NAME=VALUE".into()),
    }
}

/// `NAME=secret:[NAMESPACE/]NAME#KEY`, or the same of a ConfigMap.
pub(crate) fn parse_reference(text: &str) -> Result<(String, Reference), String> {
    let (name, reference) =
        parse_pair(text).map_err(|_| "it must have the form NAME=secret:NAME#KEY".to_owned())?;
    Ok((name, reference.parse()?))
}

/// The same for a setting of a document.
pub(crate) fn parse_seconds(text: &str) -> Result<Seconds, String> {
    let seconds: Seconds = text.parse().map_err(|_| "it must have the form 90s, 5m or 1h30m".to_owned())?;
    if seconds > WEEK { Err("it must be between one second and a week".into()) } else { Ok(seconds) }
}

/// `90s`, `5m`, `1h30m`; a bare number is seconds. At most a week.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    parse_seconds(text).map(Duration::from)
}

/// How long a credential holds: as [`parse_duration`], and beyond a week.
pub(crate) fn parse_lifetime(text: &str) -> Result<Duration, String> {
    const DECADE: u64 = 3_660 * 24 * 3_600;
    if let Ok(duration) = parse_duration(text) {
        return Ok(duration);
    }
    let told =
        || "must be a number with m, h, d or w, as in 90m, 720h or 30d, and ten years at most".to_owned();
    let unit = text.chars().next_back().ok_or_else(told)?;
    let seconds: u64 = match unit {
        'm' => 60,
        'h' => 3_600,
        'd' => 24 * 3_600,
        'w' => 7 * 24 * 3_600,
        _ => return Err(told()),
    };
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<u64>().ok());
    let total = number.and_then(|number| number.checked_mul(seconds));
    total.filter(|total| (1..=DECADE).contains(total)).map(Duration::from_secs).ok_or_else(told)
}

impl ClusterKey {
    /// As a person writes it.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Id(text) | Self::Handle(text) => text,
        }
    }

    /// Variables `id` and `handle` of a document.
    pub(crate) fn variables(&self) -> (Option<String>, Option<String>) {
        match self {
            Self::Id(id) => (Some(id.clone()), None),
            Self::Handle(handle) => (None, Some(handle.clone())),
        }
    }

    pub(crate) async fn get(&self, client: &Client) -> Result<Cluster, CliError> {
        let (id, handle) = self.variables();
        client
            .send(&GetCluster { id, handle })
            .await
            .map_err(|error| CliError::absent(error, || self.missing()))
    }

    pub(crate) fn missing(&self) -> CliError {
        CliError::missing(
            format_args!("cluster {:?}", self.text()),
            "`plural cd clusters list` shows the handles of those you may see",
        )
    }
}

impl ServiceKey {
    /// The variables `id`, `cluster` (a handle) and `name` of a document.
    pub(crate) async fn variables(
        &self,
        client: &Client,
    ) -> Result<(Option<String>, Option<String>, Option<String>), CliError> {
        Ok(match self {
            Self::Id(id) => (Some(id.clone()), None, None),
            Self::Named { cluster: ClusterKey::Handle(handle), name } => {
                (None, Some(handle.clone()), Some(name.clone()))
            }
            // The API looks services up by the cluster's handle, not by its id.
            Self::Named { cluster: key @ ClusterKey::Id(_), name } => {
                let cluster = key.get(client).await?;
                let handle = cluster.handle.unwrap_or(cluster.name);
                (None, Some(handle), Some(name.clone()))
            }
        })
    }

    pub(crate) async fn get(&self, client: &Client) -> Result<ServiceDetails, CliError> {
        let (id, cluster, name) = self.variables(client).await?;
        client
            .send(&GetServiceDeployment { id, cluster, name })
            .await
            .map_err(|error| CliError::absent(error, || self.missing()))
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Id(id) => id.clone(),
            Self::Named { cluster, name } => format!("{}/{name}", cluster.text()),
        }
    }

    pub(crate) fn missing(&self) -> CliError {
        let hint = match self {
            Self::Named { cluster, .. } => {
                format!("`plural cd services list {}` shows those you may see", cluster.text())
            }
            Self::Id(_) => "`plural cd services list` shows those you may see".into(),
        };
        CliError::missing(format_args!("service {:?}", self.text()), hint)
    }
}

impl RepositoryKey {
    pub(crate) async fn get(&self, client: &Client) -> Result<GitRepository, CliError> {
        let (id, url) = match self {
            Self::Id(id) => (Some(id.clone()), None),
            Self::Url(url) => (None, Some(url.clone())),
            Self::Named(name) => {
                let page = |after| ListGitRepositories { after, first: PAGE_SIZE };
                let all = all_pages(client, page).await?;
                (None, Some(address_called(name, all.iter().map(|one| one.url.as_str()))?))
            }
        };
        client.send(&GetGitRepository { id, url }).await.map_err(|error| {
            CliError::absent(error, || {
                let (Self::Id(text) | Self::Url(text) | Self::Named(text)) = self;
                CliError::missing(
                    format_args!("repository {text:?}"),
                    "`plural cd repositories list` shows those there are; `plural cd repositories create URL` adds one",
                )
            })
        })
    }
}

/// The project with this name or id.
pub(crate) async fn project(client: &Client, text: &str) -> Result<Project, CliError> {
    let text = Kind::Project.bare(text);
    let (id, name) = id_or_name(text);
    client.send(&GetProject { id, name }).await.map_err(|error| {
        let hint = "`plural cd projects list` shows those you may see";
        CliError::absent(error, || CliError::missing(format_args!("project {text:?}"), hint))
    })
}

/// The id of the project with this name or id, where one is named.
pub(crate) async fn project_id(client: &Client, text: Option<&str>) -> Result<Option<String>, CliError> {
    match text {
        Some(text) => Ok(Some(project(client, text).await?.id)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";

    #[test]
    fn credentials_hold_for_longer_than_a_week() {
        for (text, seconds) in
            [("90m", 5_400), ("8h", 28_800), ("720h", 2_592_000), ("30d", 2_592_000), ("8784h", 31_622_400)]
        {
            assert_eq!(parse_lifetime(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "h", "-1h", "0h", "9999999999999999h", "4000d", "30y", "é"] {
            assert!(parse_lifetime(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_cluster_is_named_by_handle_or_id() {
        assert_eq!("blue".parse(), Ok(ClusterKey::Handle("blue".into())));
        assert_eq!("@blue".parse(), Ok(ClusterKey::Handle("blue".into())));
        assert_eq!(ID.parse(), Ok(ClusterKey::Id(ID.into())));
        assert!("".parse::<ClusterKey>().is_err());
        assert!("blue/web".parse::<ClusterKey>().is_err());
    }

    #[test]
    fn a_service_is_named_by_cluster_and_name_or_id() {
        let named = |cluster| ServiceKey::Named { cluster, name: "web".into() };
        assert_eq!("@blue/web".parse(), Ok(named(ClusterKey::Handle("blue".into()))));
        assert_eq!(format!("{ID}/web").parse(), Ok(named(ClusterKey::Id(ID.into()))));
        assert_eq!(ID.parse(), Ok(ServiceKey::Id(ID.into())));
        // What `-o name` prints is taken back.
        assert_eq!("service/blue/web".parse(), Ok(named(ClusterKey::Handle("blue".into()))));
        assert_eq!(format!("service/{ID}").parse(), Ok(ServiceKey::Id(ID.into())));
        assert_eq!("service/web".parse(), Ok(named(ClusterKey::Handle("service".into()))));
        assert_eq!("cluster/blue".parse(), Ok(ClusterKey::Handle("blue".into())));
        assert_eq!(format!("repository/{ID}").parse(), Ok(RepositoryKey::Id(ID.into())));
        assert_eq!("svc/blue/web".parse(), Ok(named(ClusterKey::Handle("blue".into()))));
        assert_eq!("servicedeployment/blue/web".parse(), Ok(named(ClusterKey::Handle("blue".into()))));
        assert_eq!("cl/blue".parse(), Ok(ClusterKey::Handle("blue".into())));
        let repository = |text: &str| text.parse::<RepositoryKey>().unwrap();
        let url = "https://git.example.com/a.git";
        assert_eq!(repository(&format!("gitrepository/{url}")), RepositoryKey::Url(url.into()));
        assert_eq!(
            repository("git@git.example.com:repo/a"),
            RepositoryKey::Url("git@git.example.com:repo/a".into())
        );
        assert_eq!(repository("repo/git-example-com-a"), RepositoryKey::Named("git-example-com-a".into()));
        for wrong in ["web", "blue/", "/web", "a/b/c", "@"] {
            assert!(wrong.parse::<ServiceKey>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_have_a_unit_and_a_limit() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1h"), Ok(Duration::from_hours(1)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(parse_duration("168h"), Ok(Duration::from_hours(168)));
        for wrong in
            ["", "m", "0s", "-1s", "5d", "1.5h", "8000000h", "168h1s", "99999999999999999999s", "5µs"]
        {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
