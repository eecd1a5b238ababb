//! `plural cd clusters …`.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use plural_wire::{
    Client, ClientError, Cluster, ClusterAttributes, ClusterDistro, ClusterUpdateAttributes, CreateCluster,
    DeleteCluster, DetachCluster, GetCluster, ListClusters, PAGE_SIZE, RenewDeployToken, Tag, UpdateCluster,
    all_pages,
};
use serde_json::Value;

use crate::{
    args::{
        ClusterCommand, ClusterCreateArgs, ClusterDeleteArgs, ClusterDescribeArgs, ClusterListArgs,
        ClusterProperties, ClusterTagArgs, ClusterUpdateArgs, KubeconfigArgs, RotateTokenArgs,
    },
    bootstrap,
    connect::Connection,
    deprecations,
    error::CliError,
    file,
    format::Format,
    key, kubeconfig,
    output::{self, Row, age, or_dash},
    recordings,
    selector::{self, TagSelector},
    terminal::Terminal,
    wait::{self, Observed},
    watch::watch,
};

const NOTHING: &str = "no clusters found; `plural cd clusters bootstrap NAME` adds one";

impl Row for Cluster {
    const HEADINGS: (&'static [&'static str], usize) = (
        &[
            "HANDLE",
            "VERSION",
            "STATUS",
            "CONNECTED",
            "LAST PING",
            "AGE",
            "NAME",
            "DISTRO",
            "PROJECT",
            "TAGS",
            "ID",
        ],
        6,
    );

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("cluster/{}", self.handle.as_deref().unwrap_or(&self.id))
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let tags: Vec<String> = self.tags.iter().map(|tag| format!("{}={}", tag.name, tag.value)).collect();
        vec![
            or_dash(self.handle.as_deref()),
            or_dash(self.current_version.as_deref()),
            status(self, now).into(),
            match self.connected {
                Some(true) => "yes",
                Some(false) => "no",
                None => "-",
            }
            .into(),
            age(self.pinged_at, now),
            age(self.inserted_at, now),
            or_dash(Some(&self.name)),
            or_dash(self.distro.map(distro)),
            or_dash(self.project.as_ref().map(|project| project.name.as_str())),
            or_dash(Some(&tags.join(","))),
            self.id.clone(),
        ]
    }
}

/// What an agent of an earlier build means, and what helps.
const OUTDATED: &str = "older than the console: it polls and applies, but hints and kubectl through the console do not reach it; \
                        update its image, or run `plural cd clusters bootstrap NAME` again";

/// After this long without a word from its agent, a cluster is shown as silent.
const SILENT_AFTER_SECONDS: i64 = 300;

fn status(cluster: &Cluster, now: DateTime<Utc>) -> &'static str {
    match (cluster.deleted_at, cluster.pinged_at) {
        (Some(_), _) => "Deleting",
        (None, None) if cluster.connected != Some(true) => "Pending",
        (None, Some(ping)) if (now - ping).num_seconds() > SILENT_AFTER_SECONDS => "Silent",
        (None, _) if cluster.connected == Some(false) => "Disconnected",
        (None, _) if cluster.agent_outdated == Some(true) => "Outdated",
        (None, _) => "Ready",
    }
}

fn distro(distro: ClusterDistro) -> &'static str {
    match distro {
        ClusterDistro::Generic => "generic",
        ClusterDistro::Eks => "eks",
        ClusterDistro::Aks => "aks",
        ClusterDistro::Gke => "gke",
        ClusterDistro::Rke => "rke",
        ClusterDistro::K3s => "k3s",
        ClusterDistro::Openshift => "openshift",
        ClusterDistro::Unknown => "unknown",
    }
}

pub(crate) async fn run(
    command: ClusterCommand,
    connection: &Connection,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let client = &connection.client;
    match command {
        ClusterCommand::List(args) => list(args, client, terminal).await,
        ClusterCommand::Create(args) => create(args, client, terminal).await,
        ClusterCommand::Describe(args) => describe(args, client, terminal).await,
        ClusterCommand::Deprecations(args) => deprecations::of_cluster(args, client, terminal).await,
        ClusterCommand::Tag(args) => change_tags(args, client, terminal).await,
        ClusterCommand::Delete(args) => delete(args, client, terminal).await,
        ClusterCommand::Update(args) => update(args, client, terminal).await,
        ClusterCommand::Bootstrap(args) => bootstrap::run(*args, connection, terminal).await,
        ClusterCommand::Reinstall(args) => bootstrap::again(*args, connection, terminal).await,
        ClusterCommand::GetCredentials(args) => {
            let merge = args.merge || args.file.is_none();
            kubeconfig::kubeconfig(KubeconfigArgs { merge, ..args }, connection, terminal).await
        }
        ClusterCommand::RotateToken(args) => rotate_token(args, client, terminal).await,
        ClusterCommand::Kubeconfig(args) => kubeconfig::kubeconfig(args, connection, terminal).await,
        ClusterCommand::Recordings(args) => recordings::run(args.command, client, terminal).await,
        ClusterCommand::Credential(args) => kubeconfig::credential(args, connection, terminal).await,
    }
}

async fn update(
    args: ClusterUpdateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ClusterUpdateArgs { cluster, handle, name, output } = args;
    let id = cluster.get(client).await?.id;
    let attributes = ClusterUpdateAttributes { handle, name, ..ClusterUpdateAttributes::default() };
    let cluster = client.send(&UpdateCluster { id, attributes }).await?;
    output::item(&cluster, &output.output, terminal)
}

async fn change_tags(
    args: ClusterTagArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let (mut set, mut remove) = (BTreeMap::new(), BTreeSet::new());
    for word in &args.tags {
        // Of two words for one tag the last counts.
        if let Some((name, value)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) {
            remove.remove(name);
            set.insert(name.to_owned(), value.to_owned());
        } else if let Some(name) = word.strip_suffix('-').filter(|name| !name.is_empty()) {
            set.remove(name);
            remove.insert(name.to_owned());
        } else {
            return Err(CliError::usage(format!("{word:?} is neither NAME=VALUE nor NAME-")));
        }
    }
    let cluster = args.cluster.get(client).await?;
    // The console merges them: what somebody else tags at the same time stays.
    let set_tags: Vec<Tag> = set.into_iter().map(|(name, value)| Tag { name, value }).collect();
    let attributes = ClusterUpdateAttributes {
        set_tags: (!set_tags.is_empty()).then_some(set_tags),
        remove_tags: (!remove.is_empty()).then(|| remove.into_iter().collect()),
        ..ClusterUpdateAttributes::default()
    };
    let cluster = client.send(&UpdateCluster { id: cluster.id, attributes }).await?;
    // The columns of a list do not have what was changed.
    let format = if args.output.output == Format::Table { Format::Wide } else { args.output.output };
    output::item(&cluster, &format, terminal)
}

async fn rotate_token(
    args: RotateTokenArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let cluster = args.cluster.get(client).await?;
    let name = cluster.handle.unwrap_or(cluster.name);
    terminal.confirm(&format!("end the deploy token of cluster {name} for a new one"), args.confirm.yes)?;
    client.send(&RenewDeployToken { id: cluster.id }).await?;
    terminal.say(format_args!("the agent of cluster {name} is to replace its deploy token"));
    Ok(())
}

async fn list(args: ClusterListArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let project_id = key::project_id(client, args.project.as_deref()).await?;
    let exact = args.selector.iter().flat_map(TagSelector::exact);
    let tag_query = selector::query(args.tags.iter().map(tag).chain(exact).collect());
    let takes = |cluster: &Cluster| args.selector.as_ref().is_none_or(|selector| selector.takes(cluster));
    let look = async || -> Result<Vec<Cluster>, ClientError> {
        all_pages(client, |after| ListClusters {
            after,
            first: PAGE_SIZE,
            project_id: project_id.clone(),
            tag_query: tag_query.clone(),
        })
        .await
        .map(|all| all.into_iter().filter(takes).collect())
    };
    if args.watch {
        return watch(&args.output, NOTHING, terminal, look).await;
    }
    let nothing = if tag_query.is_some() || project_id.is_some() || args.selector.is_some() {
        "no cluster fits"
    } else {
        NOTHING
    };
    output::list(&look().await?, &args.output, nothing, terminal)
}

async fn create(
    args: ClusterCreateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let attributes = attributes(&args.name, &args.properties, client, terminal).await?;
    let mut cluster = client.send(&CreateCluster { attributes }).await?;
    let handle = cluster.handle.clone().unwrap_or_else(|| cluster.id.clone());
    if args.wait.wait {
        cluster = until_pinged(&cluster.id, &handle, args.wait.timeout, client, terminal).await?;
    } else {
        terminal.say(format_args!(
            "hint: the cluster joins when its agent runs: `plural cd clusters bootstrap {handle} --rejoin --image IMAGE`"
        ));
    }
    output::item(&cluster, &args.output.output, terminal)
}

/// The cluster once its agent was heard of.
pub(crate) async fn until_pinged(
    id: &str,
    handle: &str,
    timeout: std::time::Duration,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<Cluster, CliError> {
    let ask = GetCluster { id: Some(id.to_owned()), handle: None };
    wait::until(&format!("cluster {handle}"), timeout, terminal, async || {
        let cluster = client.send(&ask).await?;
        Ok(match cluster.pinged_at {
            Some(_) => Observed::Done(cluster),
            None => Observed::NotYet("its agent has not reported yet".into()),
        })
    })
    .await
}

async fn describe(
    args: ClusterDescribeArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let cluster = args.cluster.get(client).await?;
    output::described(&cluster, &cluster, &args.output.output, terminal, || description(&cluster, Utc::now()))
}

fn description(cluster: &Cluster, now: DateTime<Utc>) -> String {
    let line = |name: &str, value: String| vec![format!("{name}:"), value];
    let mut lines = vec![
        line("Handle", or_dash(cluster.handle.as_deref())),
        line("Name", or_dash(Some(&cluster.name))),
        line("Id", cluster.id.clone()),
        line("Project", or_dash(cluster.project.as_ref().map(|project| project.name.as_str()))),
        line("Status", status(cluster, now).into()),
        line("Version", or_dash(cluster.current_version.as_deref())),
        line("Distro", or_dash(cluster.distro.map(distro))),
        line("Last ping", age(cluster.pinged_at, now)),
        line("Age", age(cluster.inserted_at, now)),
        line("Protected", if cluster.protect == Some(true) { "yes" } else { "no" }.into()),
    ];
    if cluster.agent_outdated == Some(true) {
        lines.push(line("Agent", OUTDATED.into()));
    }
    for (at, tag) in cluster.tags.iter().enumerate() {
        let heading = if at == 0 { "Tags:" } else { "" };
        lines.push(vec![heading.into(), or_dash(Some(&format!("{}={}", tag.name, tag.value)))]);
    }
    if let Some(metadata) = &cluster.metadata {
        lines.push(line("Metadata", Value::from(metadata.clone()).to_string()));
    }
    output::columns(&lines, 2)
}

async fn delete(
    args: ClusterDeleteArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let cluster = args.cluster.get(client).await?;
    let handle = cluster.handle.clone().unwrap_or_else(|| cluster.id.clone());
    if args.soft {
        let plan = format!("remove cluster {handle} from the console and leave everything in it");
        terminal.confirm(&plan, args.confirm.yes)?;
        client.send(&DetachCluster { id: cluster.id }).await?;
        terminal.say(format_args!("cluster {handle} detached"));
        return Ok(());
    }
    let plan =
        format!("delete all objects of all services in cluster {handle}, then remove it from the console");
    terminal.confirm(&plan, args.confirm.yes)?;
    client.send(&DeleteCluster { id: cluster.id.clone() }).await?;
    let ask = GetCluster { id: Some(cluster.id), handle: None };
    let left = |_: &Cluster| "its services are being removed".to_owned();
    wait::until_gone(&format!("cluster {handle}"), &args.wait, (client, &ask), terminal, left).await
}

/// What a new cluster is given, with its project looked up and its metadata read.
pub(crate) async fn attributes(
    name: &str,
    properties: &ClusterProperties,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<ClusterAttributes, CliError> {
    let ClusterProperties { handle, tags, project, metadata, protect } = properties;
    let metadata = match metadata {
        Some(path) => Some(Value::from(file::mapping("metadata", path, terminal)?).to_string()),
        None => None,
    };
    let project_id = key::project_id(client, project.as_deref()).await?;
    Ok(ClusterAttributes {
        name: name.into(),
        handle: handle.clone(),
        project_id,
        protect: protect.then_some(true),
        tags: (!tags.is_empty()).then(|| tags.iter().map(tag).collect()),
        metadata,
        ..ClusterAttributes::default()
    })
}

fn tag((name, value): &(String, String)) -> Tag {
    Tag { name: name.clone(), value: value.clone() }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use plural_wire::ProjectRef;

    use super::*;

    fn blue(now: DateTime<Utc>) -> Cluster {
        Cluster {
            id: "0190b8a2-7c11-7def-8000-0123456789ab".into(),
            name: "Blue".into(),
            handle: Some("blue".into()),
            distro: Some(ClusterDistro::K3s),
            current_version: Some("v1.36.2".into()),
            agent_outdated: None,
            connected: Some(true),
            protect: Some(true),
            inserted_at: Some(now - TimeDelta::days(3)),
            pinged_at: Some(now - TimeDelta::seconds(7)),
            deleted_at: None,
            tags: vec![
                Tag { name: "stage".into(), value: "prod".into() },
                Tag { name: "region".into(), value: "eu".into() },
            ],
            metadata: Some([("owner".to_owned(), "ada".into())].into_iter().collect()),
            project: Some(ProjectRef { id: "1".into(), name: "default".into() }),
        }
    }

    #[test]
    fn tables_of_clusters() {
        let now = DateTime::UNIX_EPOCH + TimeDelta::days(20_000);
        let new = Cluster {
            pinged_at: None,
            current_version: None,
            handle: Some("a-longer-handle".into()),
            tags: Vec::new(),
            ..blue(now)
        };
        let silent = Cluster { pinged_at: Some(now - TimeDelta::hours(5)), ..blue(now) };
        let going = Cluster { deleted_at: Some(now), ..blue(now) };
        let all = [blue(now), new, silent, going];
        insta::assert_snapshot!("clusters_table", output::table(&all, false, now));
        insta::assert_snapshot!("clusters_wide", output::table(&all, true, now));
        insta::assert_snapshot!("cluster_description", description(&all[0], now));
        let outdated = Cluster { agent_outdated: Some(true), ..blue(now) };
        assert_eq!(status(&outdated, now), "Outdated");
        assert!(description(&outdated, now).contains("update its image"));
        assert_eq!(status(&Cluster { agent_outdated: Some(false), ..blue(now) }, now), "Ready");
    }
}
