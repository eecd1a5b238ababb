//! `plural cd services logs`: what the containers behind a service print, through the console.

use std::time::Duration;

use clap::Args;
use plural_wire::{Client, ClientError, Download, GetServiceTree, ObjectRef};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{
    error::CliError,
    key::{ServiceKey, parse_duration},
    output::counted,
    plain::one_line,
    service_sync::chosen,
    terminal::Terminal,
};

/// Containers that are read at once: each is a stream through the cluster's agent.
const MOST: usize = 50;
/// Bytes of a line that are kept together: a longer one is printed in pieces.
const LONGEST_LINE: usize = 64 << 10;
/// Pieces of all containers that wait to be printed.
const WAITING: usize = 256;

/// Print what the containers of a service print
///
/// These are the containers of the Pods below the service's objects, as `plural cd services tree` shows them. They are read through
/// the console with your own rights in the cluster. Where there are several, each line begins with its Pod and container.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services logs blue/web
  plural cd services logs blue/web --follow --tail 20
  plural cd services logs blue/web --object deploy/web --container app --since 10m
  plural cd services logs blue/web --previous")]
pub(crate) struct ServiceLogsArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// Only Pods below this object: KIND/NAME, deploy/web; may be given several times
    #[arg(long = "object", value_name = "OBJECT")]
    pub(crate) objects: Vec<String>,

    /// Only containers of this name
    #[arg(short, long, value_name = "NAME")]
    pub(crate) container: Option<String>,

    /// Go on with what is printed from now on
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Only the last lines of each container
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<u32>,

    /// Only what is younger: 30s, 10m, 2h
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) since: Option<Duration>,

    /// What the containers printed that ran before the last restart
    #[arg(short, long, conflicts_with = "follow")]
    pub(crate) previous: bool,

    /// Begin each line with its time
    #[arg(long)]
    pub(crate) timestamps: bool,
}

/// A container of a Pod.
struct Source {
    namespace: String,
    pod: String,
    container: String,
}

/// What was read of the container at `at`.
enum Read {
    Lines { at: usize, bytes: Vec<u8> },
    Broken { at: usize, error: ClientError },
}

pub(crate) async fn run(
    args: ServiceLogsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let details = args.service.get(client).await?;
    let objects = chosen(&args.objects, &details, client).await?;
    let Some(cluster) = details.service.cluster.as_ref().map(|cluster| cluster.id.clone()) else {
        return Err(CliError::new("you may see the service, but not its cluster")
            .hint("ask an owner of the cluster for read access"));
    };
    let sources = sources(&args, (&details.service.id, &objects), &cluster, client, terminal).await?;
    let query = query(&args);
    let (sender, mut receiver) = mpsc::channel(WAITING);
    let mut readers = tokio::task::JoinSet::new();
    for (at, source) in sources.iter().enumerate() {
        let path = format!("/api/v1/namespaces/{}/pods/{}/log", source.namespace, source.pod);
        let mut query = query.clone();
        query.push(("container", source.container.clone()));
        let (client, cluster, sender) = (client.clone(), cluster.clone(), sender.clone());
        readers.spawn(async move {
            match client.kubernetes(&cluster, &path, &query).await {
                Ok(download) => pass_on(at, download, &sender).await,
                Err(error) => drop(sender.send(Read::Broken { at, error }).await),
            }
        });
    }
    drop(sender);
    let several = sources.len() > 1;
    let mut broken = 0;
    while let Some(read) = receiver.recv().await {
        match read {
            Read::Lines { at, bytes } => {
                for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                    if several && let Some(Source { pod, container, .. }) = sources.get(at) {
                        write!(terminal.out, "{} {} | ", one_line(pod), one_line(container))?;
                    }
                    // What a terminal would take for a command is escaped, as in everything that we print.
                    terminal.out.write_all(line)?;
                    if !line.ends_with(b"\n") {
                        writeln!(terminal.out)?;
                    }
                }
                terminal.out.flush()?;
            }
            Read::Broken { at, error } => {
                broken += 1;
                if let Some(Source { namespace, pod, container }) = sources.get(at) {
                    let place = one_line(&format!("{namespace}/{pod} {container}"));
                    terminal.say(format_args!("{place}: {}", one_line(&error.to_string())));
                }
            }
        }
    }
    match broken {
        0 => Ok(()),
        _ => Err(CliError::new(format!(
            "the output of {} of {} cannot be read",
            broken,
            counted(sources.len(), "container")
        ))),
    }
}

/// The containers that are meant.
async fn sources(
    args: &ServiceLogsArgs,
    (service, objects): (&str, &[ObjectRef]),
    cluster: &str,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<Vec<Source>, CliError> {
    let tree =
        client.send(&GetServiceTree { id: Some(service.to_owned()), cluster: None, name: None }).await?;
    let mut pods = Vec::new();
    for below in tree.components {
        let own = ObjectRef {
            group: below.component.group.clone().unwrap_or_default(),
            kind: below.component.kind.clone(),
            namespace: below.component.namespace.clone(),
            name: below.component.name.clone(),
        };
        if !objects.is_empty() && !objects.contains(&own) {
            continue;
        }
        let children =
            below.children.into_iter().map(|child| (child.group, child.kind, child.namespace, child.name));
        let own = (Some(own.group), own.kind, own.namespace, own.name);
        for (group, kind, namespace, name) in children.chain([own]) {
            if kind == "Pod"
                && group.unwrap_or_default().is_empty()
                && let Some(namespace) = namespace
                && is_segment(&namespace)
                && is_segment(&name)
            {
                pods.push((namespace, name));
            }
        }
    }
    pods.sort_unstable();
    pods.dedup();
    if pods.is_empty() {
        return Err(CliError::new("there are no Pods below the objects of the service")
            .hint("`plural cd services tree` shows its objects and what they own"));
    }
    let mut sources = Vec::new();
    for (namespace, pod) in pods {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
        let mut names = match client.kubernetes(cluster, &path, &[]).await {
            Ok(download) => containers(&read_whole(download).await?),
            // It went while we looked.
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error.into()),
        };
        names.retain(|name| args.container.as_ref().is_none_or(|wanted| wanted == name));
        let (namespace, pod) = (&namespace, &pod);
        sources.extend(names.into_iter().map(|container| Source {
            namespace: namespace.clone(),
            pod: pod.clone(),
            container,
        }));
    }
    if sources.is_empty() {
        let what = args.container.as_ref().map_or_else(String::new, |name| format!(" named {name:?}"));
        return Err(CliError::new(format!("no Pod of the service has a container{what}")));
    }
    if sources.len() > MOST {
        terminal.say(format_args!(
            "reading {MOST} of {} containers; --object and --container choose others",
            sources.len()
        ));
        sources.truncate(MOST);
    }
    Ok(sources)
}

/// Whether a name that a cluster reported is one segment of a path, as every name of the Kubernetes API is (see
/// "Path Segment Names" in its documentation): `..` would lead our request elsewhere.
fn is_segment(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    !name.is_empty() && name != "." && name != ".." && name.bytes().all(plain)
}

/// Names of the containers of a Pod, those that begin it first.
fn containers(pod: &[u8]) -> Vec<String> {
    let pod: Value = serde_json::from_slice(pod).unwrap_or_default();
    let of = |field: &str| pod["spec"][field].as_array().cloned().unwrap_or_default();
    let all = of("initContainers").into_iter().chain(of("containers"));
    all.filter_map(|container| container["name"].as_str().map(str::to_owned)).collect()
}

async fn read_whole(mut download: Download) -> Result<Vec<u8>, ClientError> {
    let mut bytes = Vec::new();
    while let Some(piece) = download.piece().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

fn query(args: &ServiceLogsArgs) -> Vec<(&'static str, String)> {
    let mut query = Vec::new();
    let mut flag = |name, given: bool| {
        if given {
            query.push((name, "true".to_owned()));
        }
    };
    flag("follow", args.follow);
    flag("previous", args.previous);
    flag("timestamps", args.timestamps);
    if let Some(lines) = args.tail {
        query.push(("tailLines", lines.to_string()));
    }
    if let Some(since) = args.since {
        query.push(("sinceSeconds", since.as_secs().max(1).to_string()));
    }
    query
}

/// Sends whole lines on, so that those of several containers do not mix.
async fn pass_on(at: usize, mut download: Download, sender: &mpsc::Sender<Read>) {
    let mut kept: Vec<u8> = Vec::new();
    loop {
        match download.piece().await {
            Ok(Some(piece)) => kept.extend_from_slice(&piece),
            Ok(None) => break,
            Err(error) => {
                let _ = sender.send(Read::Broken { at, error }).await;
                break;
            }
        }
        let whole = match kept.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if kept.len() > LONGEST_LINE => kept.len(),
            None => continue,
        };
        let rest = kept.split_off(whole);
        let bytes = std::mem::replace(&mut kept, rest);
        if sender.send(Read::Lines { at, bytes }).await.is_err() {
            return;
        }
    }
    if !kept.is_empty() {
        let _ = sender.send(Read::Lines { at, bytes: kept }).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_of_a_pod() {
        let pod = br#"{"spec": {"containers": [{"name": "app"}, {"name": "proxy"}], "initContainers": [{"name": "init"}]}}"#;
        assert_eq!(containers(pod), ["init", "app", "proxy"]);
        assert_eq!(containers(b"{"), Vec::<String>::new());
    }

    #[test]
    fn names_that_lead_elsewhere_are_not_asked_for() {
        for name in ["web-7d4b9c-x2x4x", "a.b", "kube-system", "system:node", "..."] {
            assert!(is_segment(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "../nodes", "%2e%2e", "a?b", "a#b", "a b", "a\\b", "a\n", "ä"] {
            assert!(!is_segment(name), "{name}");
        }
    }
}
