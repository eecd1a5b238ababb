//! `plural cd managed-namespaces …`.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use plural_wire::{
    Client, ClientError, CreateManagedNamespace, DeleteManagedNamespace, GetManagedNamespace,
    ListManagedNamespaceInstances, ListManagedNamespaces, ManagedNamespace, ManagedNamespaceAttributes,
    ManagedNamespaceCounts, ManagedNamespaceInstance, PAGE_SIZE, UpdateManagedNamespace, all_pages,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    args::{
        ManagedNamespaceCommand, ManagedNamespaceContentArgs, ManagedNamespaceCreateArgs,
        ManagedNamespaceDeleteArgs, ManagedNamespaceGetArgs, ManagedNamespaceListArgs,
        ManagedNamespaceUpdateArgs,
    },
    documents::Kind,
    error::CliError,
    file,
    format::Format,
    key,
    output::{self, Row, columns, or_dash},
    terminal::Terminal,
    wait::{self, Observed},
    watch::watch,
};

const NOTHING: &str = "no managed namespaces found; `plural cd managed-namespaces create NAME` makes one";

impl Row for ManagedNamespace {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["NAME", "NAMESPACE", "TARGET", "SYNCED", "SERVICE", "ID", "ERROR"], 5);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("managed-namespace/{}", self.name)
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(Some(&self.name)),
            or_dash(Some(&self.namespace)),
            or_dash(Some(&target(self))),
            if self.deleted_at.is_some() { "DELETING".into() } else { synced(self) },
            or_dash(service(self)),
            self.id.clone(),
            or_dash(self.error.as_deref()),
        ]
    }
}

fn target(managed: &ManagedNamespace) -> String {
    let Some(target) = &managed.target else { return "all".into() };
    let mut all: Vec<String> = target.tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
    all.extend(target.distro.map(|distro| distro.as_str().to_owned()));
    if all.is_empty() { "all".into() } else { all.join(",") }
}

fn synced(managed: &ManagedNamespace) -> String {
    let ManagedNamespaceCounts { all, synced, leaving } = managed.instance_counts.unwrap_or_default();
    output::share(synced, all, leaving)
}

fn service(managed: &ManagedNamespace) -> Option<&str> {
    managed.service.as_ref().and_then(|service| service.name.as_deref())
}

pub(crate) async fn run(
    command: ManagedNamespaceCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        ManagedNamespaceCommand::List(args) => list(args, client, terminal).await,
        ManagedNamespaceCommand::Get(args) => describe(args, client, terminal).await,
        ManagedNamespaceCommand::Create(args) => create(*args, client, terminal).await,
        ManagedNamespaceCommand::Update(args) => update(*args, client, terminal).await,
        ManagedNamespaceCommand::Delete(args) => delete(args, client, terminal).await,
    }
}

async fn list(
    args: ManagedNamespaceListArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let look = async || -> Result<Vec<ManagedNamespace>, ClientError> {
        all_pages(client, |after| ListManagedNamespaces { after, first: PAGE_SIZE }).await
    };
    if args.watch {
        return watch(&args.output, NOTHING, terminal, look).await;
    }
    output::list(&look().await?, &args.output, NOTHING, terminal)
}

async fn describe(
    args: ManagedNamespaceGetArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let managed = get(&args.name, client).await?;
    if args.output.output == Format::Name {
        return output::item(&managed, &args.output.output, terminal);
    }
    let details = Details::of(managed, client).await?;
    output::described(&details, &details.managed, &args.output.output, terminal, || description(&details))
}

/// A managed namespace with how it is on each cluster.
#[derive(Serialize)]
struct Details {
    #[serde(flatten)]
    managed: ManagedNamespace,
    instances: Vec<ManagedNamespaceInstance>,
}

impl Details {
    async fn of(managed: ManagedNamespace, client: &Client) -> Result<Self, CliError> {
        let page = |after| ListManagedNamespaceInstances { id: managed.id.clone(), after, first: PAGE_SIZE };
        let instances = all_pages(client, page).await?;
        Ok(Self { managed, instances })
    }
}

async fn create(
    args: ManagedNamespaceCreateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let mut attributes = attributes(&args.content, terminal)?;
    attributes.insert("name".into(), json!(args.name));
    if let Some(namespace) = &args.namespace {
        attributes.insert("namespace".into(), json!(namespace));
    }
    if let Some(project) = &args.project {
        attributes.insert("projectId".into(), json!(key::project(client, project).await?.id));
    }
    let attributes = ManagedNamespaceAttributes(attributes);
    let mut managed = client.send(&CreateManagedNamespace { attributes }).await?;
    if args.wait.wait {
        managed = until_everywhere(managed, args.wait.timeout, client, terminal).await?;
    }
    output::item(&managed, &args.output.output, terminal)
}

async fn update(
    args: ManagedNamespaceUpdateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let mut attributes = attributes(&args.content, terminal)?;
    if attributes.keys().all(|name| name == "name") {
        return Err(CliError::unchanged("managed-namespaces"));
    }
    let current = get(&args.name, client).await?;
    attributes.insert("name".into(), json!(current.name));
    let attributes = ManagedNamespaceAttributes(attributes);
    let mut managed = client.send(&UpdateManagedNamespace { id: current.id, attributes }).await?;
    if args.wait.wait {
        managed = until_everywhere(managed, args.wait.timeout, client, terminal).await?;
    }
    output::item(&managed, &args.output.output, terminal)
}

async fn delete(
    args: ManagedNamespaceDeleteArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let details = Details::of(get(&args.name, client).await?, client).await?;
    let plan = plan(&details);
    if args.dry_run {
        write!(terminal.out, "{plan}")?;
        return Ok(());
    }
    for line in plan.lines() {
        terminal.say(line);
    }
    let what = format!("managed namespace {}", details.managed.name);
    terminal.confirm(&format!("delete {what}"), args.confirm.yes)?;
    let id = details.managed.id;
    client.send(&DeleteManagedNamespace { id: id.clone() }).await?;
    let ask = GetManagedNamespace { id: Some(id), name: None };
    let left =
        |now: &ManagedNamespace| format!("{} clusters left", now.instance_counts.unwrap_or_default().all);
    wait::until_gone(&what, &args.wait, (client, &ask), terminal, left).await
}

/// What a deletion would do, in words.
fn plan(Details { managed, instances }: &Details) -> String {
    let cascade = managed.cascade.as_ref();
    let deletes = cascade.and_then(|cascade| cascade.delete) == Some(true);
    let detaches = cascade.and_then(|cascade| cascade.detach) == Some(true);
    let (namespace, inside) = match (deletes, detaches) {
        (true, _) => (
            "is deleted with all that is in it, once approved, if it was made for this",
            "is deleted, once approved",
        ),
        (false, true) => ("stays and is detached", "is detached; its objects stay"),
        (false, false) => ("stays and is detached", "stays as a service of its own"),
    };
    let mut text = String::new();
    for instance in instances {
        let cluster = cluster(instance);
        let _ = writeln!(text, "{cluster}: namespace {} {namespace}", managed.namespace);
        if instance.service_id.is_some() {
            let _ = writeln!(text, "{cluster}: service {} {inside}", or_dash(service(managed)));
        }
    }
    if instances.is_empty() {
        text.push_str("it is on no cluster\n");
    }
    text
}

fn cluster(instance: &ManagedNamespaceInstance) -> String {
    let cluster = instance.cluster.as_ref();
    or_dash(cluster.map(|cluster| cluster.handle.as_deref().unwrap_or(&cluster.id)))
}

async fn get(name: &str, client: &Client) -> Result<ManagedNamespace, CliError> {
    let name = Kind::ManagedNamespace.bare(name);
    let (by_id, by_name) = key::id_or_name(name);
    client.send(&GetManagedNamespace { id: by_id, name: by_name }).await.map_err(|error| {
        let hint = "`plural cd managed-namespaces list` shows those you may see";
        CliError::absent(error, || CliError::missing(format_args!("managed namespace {name:?}"), hint))
    })
}

/// The file's attributes with the flags over them.
fn attributes(
    args: &ManagedNamespaceContentArgs,
    terminal: &mut Terminal<'_>,
) -> Result<Map<String, Value>, CliError> {
    let ManagedNamespaceContentArgs {
        file,
        description,
        labels,
        annotations,
        pull_secrets,
        tags,
        distro,
        cascade,
    } = args;
    let mut attributes = match file {
        None => Map::new(),
        Some(path) => file::mapping("a managed namespace's attributes", path, terminal)?,
    };
    let object = |pairs: &[(String, String)]| {
        Value::Object(pairs.iter().map(|(name, value)| (name.clone(), json!(value))).collect())
    };
    if let Some(description) = description {
        attributes.insert("description".into(), json!(description));
    }
    if !labels.is_empty() {
        attributes.insert("labels".into(), object(labels));
    }
    if !annotations.is_empty() {
        attributes.insert("annotations".into(), object(annotations));
    }
    if !pull_secrets.is_empty() {
        attributes.insert("pullSecrets".into(), json!(pull_secrets));
    }
    if !tags.is_empty() || distro.is_some() {
        let target = attributes.entry("target").or_insert_with(|| json!({}));
        if !target.is_object() {
            *target = json!({});
        }
        if let Some(target) = target.as_object_mut() {
            if !tags.is_empty() {
                target.insert("tags".into(), object(tags));
            }
            if let Some(distro) = distro {
                target.insert("distro".into(), json!(distro.to_uppercase()));
            }
        }
    }
    if let Some(cascade) = cascade {
        attributes.insert("cascade".into(), json!({cascade.as_str(): true}));
    }
    Ok(attributes)
}

/// The managed namespace once it is as it should be on every target.
pub(crate) async fn until_everywhere(
    managed: ManagedNamespace,
    timeout: std::time::Duration,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<ManagedNamespace, CliError> {
    let ask = GetManagedNamespace { id: Some(managed.id), name: None };
    wait::until(&format!("managed namespace {}", managed.name), timeout, terminal, async || {
        let now = client.send(&ask).await?;
        let there = now.instance_counts.is_some_and(|counts| counts.synced + counts.leaving == counts.all);
        Ok(match &now.error {
            Some(error) if now.spread && there => Observed::Never(CliError::new(format!(
                "{} is not healthy on all target clusters: {}",
                now.name,
                or_dash(Some(error))
            ))),
            None if now.spread && there => Observed::Done(now),
            _ => Observed::NotYet(format!("{} clusters synced", synced(&now))),
        })
    })
    .await
}

fn description(Details { managed, instances }: &Details) -> String {
    let line = |name: &str, value: String| vec![format!("{name}:"), value];
    let pairs = |map: &std::collections::BTreeMap<String, String>| {
        let all: Vec<String> = map.iter().map(|(name, value)| format!("{name}={value}")).collect();
        or_dash(Some(all.join(",").as_str()).filter(|text| !text.is_empty()))
    };
    let mut lines = vec![
        line("Managed namespace", or_dash(Some(&managed.name))),
        line("Id", managed.id.clone()),
        line("Namespace", managed.namespace.clone()),
        line("Target", or_dash(Some(&target(managed)))),
        line("Labels", pairs(&managed.labels)),
        line("Annotations", pairs(&managed.annotations)),
    ];
    if let Some(text) = &managed.description {
        lines.push(line("Description", or_dash(Some(text))));
    }
    if let Some(names) = &managed.pull_secrets {
        lines.push(line("Pull secrets", or_dash(Some(names.join(",").as_str()).filter(|it| !it.is_empty()))));
    }
    if managed.service.is_some() {
        lines.push(line("Service", or_dash(service(managed))));
    }
    lines.push(line("Synced", synced(managed)));
    if let Some(error) = &managed.error {
        lines.push(line("Error", or_dash(Some(error))));
    }
    let mut text = columns(&lines, 2);
    if !instances.is_empty() {
        let mut rows = vec![["CLUSTER", "STATE", "NAMESPACE", "SERVICE"].map(str::to_owned).to_vec()];
        rows.extend(instances.iter().map(|one| {
            let state = if one.leaving { "WAITING (to go)" } else { one.state.as_str() };
            vec![
                cluster(one),
                state.to_owned(),
                one.namespace_status.map_or_else(|| "-".into(), |status| status.as_str().into()),
                one.service_status.map_or_else(|| "-".into(), |status| status.as_str().into()),
            ]
        }));
        text.push_str("\nClusters:\n");
        for row in columns(&rows, 4).lines() {
            let _ = writeln!(text, "  {row}");
        }
    }
    text
}
