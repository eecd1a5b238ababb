//! `plural cd services …`.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};
use plural_wire::{
    Client, ClientError, ComponentState, CreateServiceDeployment, GetServiceDeployment, GetServiceFacts,
    GitRefAttributes, KickService, ListServiceDeployments, ListServicesUsing, PAGE_SIZE, PinUntil,
    ServiceDeployment, ServiceDeploymentAttributes, ServiceDeploymentStatus, ServiceDetails, ServiceFacts,
    ServicePin, ServiceReasonKind, ServiceUpdateAttributes, UpdateServiceDeployment, all_pages,
};
use serde::Serialize;

use crate::{
    args::{
        ServiceCommand, ServiceCreateArgs, ServiceDescribeArgs, ServiceGoal, ServiceKickArgs,
        ServiceListArgs, ServiceSourceArgs, ServiceUpdateArgs, ServiceWaitArgs, WaitArgs,
    },
    canary,
    configuration::{configuration, configuration_change, configured},
    deprecations,
    error::CliError,
    key::{ClusterKey, ServiceKey},
    links,
    output::{self, Row, age, columns, counted, or_dash},
    preview, rendering, service_delete, service_drift, service_failures, service_files, service_life,
    service_logs, service_sync, service_tree, sync_described,
    terminal::Terminal,
    wait::{self, Observed},
    watch::watch,
};

const NOTHING: &str = "no services found; `plural cd services create CLUSTER/NAME` deploys one";

/// How many times in a row a service must be seen failed before waiting for it is given up: one failed
/// apply is often repaired by the next.
const FAILED_LOOKS: u32 = 15;

impl Row for ServiceDeployment {
    const HEADINGS: (&'static [&'static str], usize) = (
        &[
            "SERVICE",
            "READY",
            "STATUS",
            "AGE",
            "REF",
            "COMMIT",
            "REASON",
            "NAMESPACE",
            "FOLDER",
            "REPOSITORY",
            "ID",
        ],
        7,
    );

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("service/{}", address(self))
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let git = self.git.as_ref();
        vec![
            or_dash(Some(&address(self))),
            or_dash(self.component_status.as_deref().map(|ready| ready.replace(' ', "")).as_deref()),
            status(self),
            age(self.inserted_at, now),
            or_dash(git.map(|git| short_commit(&git.reference))),
            or_dash(self.sha.as_deref().map(short_commit)),
            output::cell(self.reason.as_ref().map(|reason| reason.message.as_str())),
            or_dash(Some(&self.namespace)),
            or_dash(git.map(|git| git.folder.as_str())),
            or_dash(self.repository.as_ref().map(|repository| repository.url.as_str())),
            self.id.clone(),
        ]
    }
}

/// `cluster/name`, as commands take it.
pub(crate) fn address(service: &ServiceDeployment) -> String {
    match &service.cluster {
        Some(cluster) => format!("{}/{}", cluster.handle.as_deref().unwrap_or(&cluster.id), service.name),
        None => service.name.clone(),
    }
}

/// Services that a refusal names.
pub(crate) const NAMED: i64 = 5;

/// Refuses to delete what services use, before anything is asked: at most [`NAMED`] of them are named.
pub(crate) async fn check_unused(
    what: &str,
    using: &ListServicesUsing,
    client: &Client,
) -> Result<(), CliError> {
    let page = client.send(using).await?;
    if page.edges.is_empty() {
        return Ok(());
    }
    let names = page.edges.iter().map(|edge| {
        let service = &edge.node;
        let cluster = service.cluster.as_ref();
        let cluster = cluster.and_then(|cluster| cluster.handle.clone()).unwrap_or_default();
        format!("{cluster}/{}", service.name)
    });
    let mut names: Vec<String> = names.collect();
    if page.page_info.has_next_page {
        names.push("others".to_owned());
    }
    Err(CliError::new(format!("{what} is used by {}", names.join(", ")))
        .hint("change or delete these services first"))
}

/// A commit, or a digest, as people write it; a branch or a tag as it is.
pub(crate) fn short_commit(reference: &str) -> &str {
    let is_hex =
        |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match reference.strip_prefix("sha256:") {
        // What is in no repository: a chart, by its digest.
        Some(digest) if is_hex(digest, 64) => reference.get(..17).unwrap_or(reference),
        _ if is_hex(reference, 40) => reference.get(..10).unwrap_or(reference),
        _ => reference,
    }
}

/// The word of the API, or that it is being deleted.
pub(crate) fn status(service: &ServiceDeployment) -> String {
    if service.deleted_at.is_some() { "DELETING".into() } else { service.status.as_str().to_owned() }
}

pub(crate) async fn run(
    command: ServiceCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        ServiceCommand::List(args) => list(args, client, terminal).await,
        ServiceCommand::Create(args) => create(args, client, terminal).await,
        ServiceCommand::Update(args) => update(args, client, terminal).await,
        ServiceCommand::Describe(args) => describe(args, client, terminal).await,
        ServiceCommand::Tree(args) => service_tree::run(args, client, terminal).await,
        ServiceCommand::Logs(args) => service_logs::run(args, client, terminal).await,
        ServiceCommand::Revisions(args) => service_life::revisions(args, client, terminal).await,
        ServiceCommand::Events(args) => service_life::events(args, client, terminal).await,
        ServiceCommand::Rollback(args) => service_life::rollback(args, client, terminal).await,
        ServiceCommand::Release(args) => service_life::release(args, client, terminal).await,
        ServiceCommand::Pause(args) => service_life::pause(args, client, terminal).await,
        ServiceCommand::Resume(args) => service_life::resume(args, client, terminal).await,
        ServiceCommand::RotateSeed(args) => service_life::rotate_seed(args, client, terminal).await,
        ServiceCommand::AgentUpgrade(args) => service_life::agent_upgrade(args, client, terminal).await,
        ServiceCommand::Clone(args) => service_life::clone(args, client, terminal).await,
        ServiceCommand::Detach(args) => service_life::detach(args, client, terminal).await,
        ServiceCommand::Kick(args) => kick(args, client, terminal).await,
        ServiceCommand::Wait(args) => wait_for(args, client, terminal).await,
        ServiceCommand::Tarball(args) => service_files::tarball(args, client, terminal).await,
        ServiceCommand::Failures(args) => service_failures::run(args, client, terminal).await,
        ServiceCommand::Files(args) => service_files::run(args, client, terminal).await,
        ServiceCommand::Render(args) => preview::run(args, client, terminal).await,
        ServiceCommand::Plan(args) => service_sync::plan(args, client, terminal).await,
        ServiceCommand::Diff(args) => service_sync::diff(args, client, terminal).await,
        ServiceCommand::Sync(args) => service_sync::sync(args, client, terminal).await,
        ServiceCommand::ApprovePrune(args) => service_sync::approve_prune(args, client, terminal).await,
        ServiceCommand::Drift(args) => service_drift::drift(args, client, terminal).await,
        ServiceCommand::Ignore(args) => service_drift::ignore(args, client, terminal).await,
        ServiceCommand::TakeOver(args) => service_drift::take_over(args, client, terminal).await,
        ServiceCommand::Canary(args) => canary::run(args, client, terminal).await,
        ServiceCommand::Delete(args) => service_delete::run(args, client, terminal).await,
    }
}

async fn list(args: ServiceListArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let (cluster_id, cluster) = match args.of_cluster.as_ref().or(args.cluster.as_ref()) {
        Some(key) => {
            // An unknown cluster is an error here, where an empty list would mislead.
            let found = key.get(client).await?;
            (Some(found.id), None)
        }
        None => (None, None),
    };
    let look = async || -> Result<Vec<ServiceDeployment>, ClientError> {
        let all = all_pages(client, |after| ListServiceDeployments {
            after,
            first: PAGE_SIZE,
            cluster_id: cluster_id.clone(),
            cluster: cluster.clone(),
        })
        .await?;
        match &args.selector {
            Some(selector) => selector.services(all, client).await,
            None => Ok(all),
        }
    };
    if args.watch {
        return watch(&args.output, NOTHING, terminal, look).await;
    }
    let nothing = if args.selector.is_some() { "no service fits" } else { NOTHING };
    output::list(&look().await?, &args.output, nothing, terminal)
}

async fn create(
    args: ServiceCreateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let (key, name) = target(&args.target, args.name.as_deref())?;
    let missing = |flag: &str| {
        CliError::usage(format!("a service needs {flag}"))
            .hint("see the examples of `plural cd services create --help`")
    };
    let git = git_ref(&args.source, None);
    if args.source.repository.is_none() && !args.rendering.names_chart() {
        return Err(missing("--repository, or --chart-url"));
    }
    if args.source.repository.is_some() && git.is_none() {
        return Err(missing("--ref and --folder"));
    }
    let configuration = configuration(&args.source, terminal)?;
    let rendering = args.rendering.of_new(terminal)?;
    let repository_id = match &args.source.repository {
        Some(repository) => Some(repository.get(client).await?.id),
        None => None,
    };
    let (cluster_id, cluster) = key.variables();
    let attributes = ServiceDeploymentAttributes {
        namespace: args.namespace.unwrap_or_else(|| name.clone()),
        name,
        version: args.label,
        repository_id,
        git,
        configuration,
        dry_run: args.source.dry_run,
        protect: args.source.protect,
        templated: args.source.templated,
        sync_config: args.sync.attributes(terminal)?,
        rendering,
        links: links::attributes(&args.links, client).await?,
        ..ServiceDeploymentAttributes::default()
    };
    let create = CreateServiceDeployment { cluster_id, cluster, attributes };
    let mut service =
        client.send(&create).await.map_err(|error| CliError::absent(error, || key.missing()))?;
    if args.wait.wait {
        service = until_healthy(&service, args.wait.timeout, client, terminal).await?;
    }
    output::item(&service, &args.output.output, terminal)
}

async fn update(
    args: ServiceUpdateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let source = &args.source;
    let (configuration, merge_configuration) = configuration_change(&args, terminal)?;
    let sync_config = args.sync.attributes(terminal)?;
    let links = links::attributes(&args.links, client).await?;
    let changes_git = source.git_ref.is_some() || source.git_folder.is_some();
    if args.namespace.is_none()
        && configuration.is_none()
        && merge_configuration.is_none()
        && !changes_git
        && source.repository.is_none()
        && source.dry_run.is_none()
        && source.protect.is_none()
        && source.templated.is_none()
        && args.rendering.is_empty()
        && sync_config.is_none()
        && links.is_empty()
    {
        return Err(CliError::usage("nothing to change")
            .hint("see the examples of `plural cd services update --help`"));
    }
    let current = args.service.get(client).await?;
    let git = if changes_git { git_ref(source, current.service.git.as_ref()) } else { None };
    let repository_id = match &source.repository {
        Some(repo) => Some(repo.get(client).await?.id),
        None => None,
    };
    let rendering = args.rendering.of_known(&current.service.id, client, terminal).await?;
    let attributes = ServiceUpdateAttributes {
        namespace: args.namespace.clone(),
        repository_id,
        git,
        configuration,
        merge_configuration,
        dry_run: source.dry_run,
        protect: source.protect,
        templated: source.templated,
        sync_config,
        rendering,
        links,
        ..ServiceUpdateAttributes::default()
    };
    let id = Some(current.service.id);
    let mut service =
        client.send(&UpdateServiceDeployment { id, cluster: None, name: None, attributes }).await?;
    if args.wait.wait {
        service = until_healthy(&service, args.wait.timeout, client, terminal).await?;
    }
    output::item(&service, &args.output.output, terminal)
}

async fn describe(
    args: ServiceDescribeArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let details = args.service.get(client).await?;
    let facts = client.send(&GetServiceFacts { id: details.service.id.clone() }).await?;
    let described = Described { details, facts };
    output::described(&described, &described.details.service, &args.output.output, terminal, || {
        let text = description(&described.details, Utc::now());
        format!("{text}{}", deprecations::described(&described.facts))
    })
}

/// All that is known of a service.
#[derive(Serialize)]
struct Described {
    #[serde(flatten)]
    details: ServiceDetails,
    #[serde(flatten)]
    facts: ServiceFacts,
}

async fn kick(args: ServiceKickArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let (service_id, cluster, name) = args.service.variables(client).await?;
    let service = client
        .send(&KickService { service_id, cluster, name })
        .await
        .map_err(|error| CliError::absent(error, || args.service.missing()))?;
    terminal.say(format_args!("service {} is being reconciled", address(&service)));
    let service = if args.wait.wait {
        until_looked_at(&service, args.wait.timeout, client, terminal).await?
    } else {
        service
    };
    output::item(&service, &args.output.output, terminal)
}

async fn wait_for(
    args: ServiceWaitArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let until = Instant::now() + args.timeout;
    let left = || until.saturating_duration_since(Instant::now());
    let mut done = Vec::with_capacity(args.services.len());
    for key in &args.services {
        let found = match (key.get(client).await, args.goal) {
            // Gone before it was looked for, or never there: nothing tells one from the other.
            (Err(error), ServiceGoal::Deleted) if error.is_missing() => {
                terminal.say(format_args!("service {} does not exist", key.text()));
                continue;
            }
            (found, _) => found?.service,
        };
        match args.goal {
            ServiceGoal::Healthy => done.push(until_healthy(&found, left(), client, terminal).await?),
            ServiceGoal::Deleted => {
                let what = format!("service {}", address(&found));
                let wait = WaitArgs { wait: true, timeout: left() };
                let ask = GetServiceDeployment { id: Some(found.id), cluster: None, name: None };
                wait::until_gone(&what, &wait, (client, &ask), terminal, standing).await?;
            }
        }
    }
    match args.goal {
        ServiceGoal::Healthy => output::list(&done, &args.output, NOTHING, terminal),
        ServiceGoal::Deleted => Ok(()),
    }
}

/// The kicked service once its repository was fetched anew, its agent went through it, and it is healthy.
async fn until_looked_at(
    kicked: &ServiceDeployment,
    timeout: Duration,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<ServiceDeployment, CliError> {
    let ask = GetServiceDeployment { id: Some(kicked.id.clone()), cluster: None, name: None };
    let address = address(kicked);
    // Both times are the console's.
    let since = kicked.updated_at;
    let mut patience = Patience::within(timeout);
    wait::until(&format!("service {address}"), timeout, terminal, async || {
        let now = client.send(&ask).await?;
        let behind = now.service.repository.as_ref().filter(|repository| repository.pulled_at < since);
        Ok(if let Some(repository) = behind {
            Observed::NotYet(match &repository.error {
                Some(error) => format!("its repository cannot be fetched: {error}"),
                None => "its repository is being fetched".to_owned(),
            })
        } else if now.service.updated_at <= since {
            let away = now.service.reason.as_ref().filter(|reason| reason.kind == ServiceReasonKind::Agent);
            Observed::NotYet(match away {
                Some(away) => or_dash(Some(&away.message)),
                None => "its agent is asked to reconcile".to_owned(),
            })
        } else {
            patience.look(&address, now)
        })
    })
    .await
}

/// The service once its current revision is applied and all its objects are ready.
pub(crate) async fn until_healthy(
    service: &ServiceDeployment,
    timeout: Duration,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<ServiceDeployment, CliError> {
    let ask = GetServiceDeployment { id: Some(service.id.clone()), cluster: None, name: None };
    let address = address(service);
    let mut patience = Patience::within(timeout);
    wait::until(&format!("service {address}"), timeout, terminal, async || {
        Ok(patience.look(&address, client.send(&ask).await?))
    })
    .await
}

/// How long it is worth waiting for a service.
pub(crate) struct Patience {
    /// When waiting ends in any case.
    deadline: DateTime<Utc>,
    /// How often in a row the service was seen failed.
    failed: u32,
}

impl Patience {
    pub(crate) fn within(timeout: Duration) -> Self {
        let timeout = TimeDelta::from_std(timeout).unwrap_or(TimeDelta::MAX);
        let deadline = Utc::now().checked_add_signed(timeout).unwrap_or(DateTime::<Utc>::MAX_UTC);
        Self { deadline, failed: 0 }
    }

    /// Healthy, not yet, or never by waiting: what only a person can mend ends the wait at once, and so does a sync window
    /// that opens too late.
    pub(crate) fn look(&mut self, address: &str, now: ServiceDetails) -> Observed<ServiceDeployment> {
        self.failed = if now.service.status == ServiceDeploymentStatus::Failed { self.failed + 1 } else { 0 };
        let reason = now.service.reason.as_ref();
        let away = reason.is_some_and(|reason| reason.kind == ServiceReasonKind::Agent);
        if now.service.status == ServiceDeploymentStatus::Healthy && !away {
            return Observed::Done(now.service);
        }
        let given_up = match reason {
            Some(reason) if reason.terminal => true,
            Some(reason) if reason.until.is_some_and(|until| until > self.deadline) => true,
            _ => self.failed >= FAILED_LOOKS,
        };
        if !given_up {
            return Observed::NotYet(standing(&now));
        }
        let error = match self.failed {
            0 => CliError::new(format!(
                "service {address} does not become healthy by waiting: {}",
                standing(&now)
            )),
            _ => CliError::new(format!("service {address} failed: {}", standing(&now))),
        };
        Observed::Never(error.hint(next_step(reason.map(|reason| reason.kind), address)))
    }
}

/// What to do about a service that waiting does not help.
fn next_step(kind: Option<ServiceReasonKind>, address: &str) -> String {
    match kind {
        Some(ServiceReasonKind::Paused) => format!("`plural cd services resume {address}` resumes it"),
        Some(ServiceReasonKind::Approval) => {
            format!("`plural cd services approve-prune {address}` shows the deletions and approves them")
        }
        Some(ServiceReasonKind::DryRun) => format!(
            "`plural cd services plan {address}` shows what would change; `plural cd services update {address} --dry-run=false` \
             applies it"
        ),
        Some(ServiceReasonKind::Manual) => format!("`plural cd services sync {address} --wait` syncs it"),
        Some(ServiceReasonKind::Window) => {
            format!("`plural cd services release {address}` does not wait for it")
        }
        _ => format!("`plural cd services describe {address}` shows its objects and errors"),
    }
}

/// How a service stands, in one line.
pub(crate) fn standing(details: &ServiceDetails) -> String {
    let ready = details
        .components
        .iter()
        .filter(|component| component.state == Some(ComponentState::Running))
        .count();
    let all = details.components.len();
    match &details.service.reason {
        Some(reason) if all == 0 => or_dash(Some(&reason.message)),
        Some(reason) => {
            format!("{} ({ready} of {} ready)", or_dash(Some(&reason.message)), counted(all, "object"))
        }
        None => format!("{}, {ready} of {} ready", status(&details.service), counted(all, "object")),
    }
}

/// Cluster and name of a new service from `CLUSTER/NAME`, or from `CLUSTER` and `--name`.
fn target(text: &str, name: Option<&str>) -> Result<(ClusterKey, String), CliError> {
    match name {
        None => match text.parse::<ServiceKey>() {
            Ok(ServiceKey::Named { cluster, name }) => Ok((cluster, name)),
            _ => Err(CliError::usage("a new service is named CLUSTER/NAME, for example blue/web")),
        },
        Some(name) => Ok((text.parse().map_err(CliError::usage)?, name.to_owned())),
    }
}

/// Ref and folder as named, the rest as they are; `None` when neither is known.
fn git_ref(source: &ServiceSourceArgs, current: Option<&plural_wire::GitRef>) -> Option<GitRefAttributes> {
    let reference = source.git_ref.clone().or_else(|| current.map(|git| git.reference.clone()))?;
    let folder = source.git_folder.clone().or_else(|| current.map(|git| git.folder.clone()))?;
    Some(GitRefAttributes { reference, folder, files: None })
}

/// Which line of a description is the status.
const STATUS_LINE: usize = 3;

fn description(details: &ServiceDetails, now: DateTime<Utc>) -> String {
    let ServiceDetails {
        service,
        dry_run,
        templated,
        author,
        sync_config,
        components,
        errors,
        helm,
        kustomize,
        renderers,
        configuration,
        dependencies,
        contexts,
        imports,
    } = details;
    let line = |name: &str, value: String| vec![format!("{name}:"), value];
    let yes = |flag: Option<bool>| if flag == Some(true) { "yes".to_owned() } else { "no".into() };
    let names: Vec<String> = configuration.iter().map(configured).collect();
    let git = service.git.as_ref();
    let mut lines = vec![
        line("Service", or_dash(Some(&address(service)))),
        line("Id", service.id.clone()),
        line("Namespace", or_dash(Some(&service.namespace))),
        line("Status", status(service)),
        line("Age", age(service.inserted_at, now)),
        line("Repository", or_dash(service.repository.as_ref().map(|repository| repository.url.as_str()))),
        line("Ref", or_dash(git.map(|git| git.reference.as_str()))),
        line("Folder", or_dash(git.map(|git| git.folder.as_str()))),
        line("Commit", or_dash(service.sha.as_deref())),
        line("Message", or_dash(service.message.as_deref())),
        line("Author", or_dash(author.as_deref())),
        line("Revision", or_dash(service.revision.as_ref().map(|revision| revision.id.as_str()))),
        line("Configuration", or_dash(Some(&names.join(", ")))),
        line(
            "Contexts",
            or_dash(Some(&contexts.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", "))),
        ),
        line("Imports", or_dash(Some(&links::imported(imports)))),
        line("Templated", yes(*templated)),
        line("Dry run", yes(*dry_run)),
        line("Protected", yes(service.protect)),
        line("Paused", yes(service.paused)),
    ];
    if let Some(reason) = &service.reason {
        lines.insert(STATUS_LINE + 1, line("Reason", or_dash(Some(&reason.message))));
    }
    lines.extend(rendering::described(helm.as_ref(), kustomize.as_ref(), renderers));
    lines.extend(sync_described::lines(service, sync_config.as_ref()));
    if let Some(ServicePin { revision_id, newest_revision_id: _, by, until, inserted_at }) = &service.pin {
        let until = match until {
            PinUntil::Release => "until it is released",
            PinUntil::NextCommit => "until the next commit, or until it is released",
            PinUntil::Window => "until its sync windows let it go on, or until it is released",
            PinUntil::Dependencies => "until what it depends on is healthy, or until it is released",
            PinUntil::Unknown => "for a while",
        };
        let words =
            format!("to revision {revision_id} by {by}, {} ago, {until}", age(Some(*inserted_at), now));
        lines.push(line("Pinned", or_dash(Some(&words))));
    }
    if service.deleted_at.is_some() {
        lines.push(line("Deleting since", age(service.deleted_at, now)));
    }
    let mut text = columns(&lines, 2);
    text.push_str(&sync_described::blocks(service));
    for (heading, warning) in [("Errors", false), ("Notes", true)] {
        let told: Vec<_> = errors
            .iter()
            .filter(|error| (error.warning == Some(true)) == warning && error.source != "pin")
            .collect();
        if !told.is_empty() {
            let _ = writeln!(text, "\n{heading}:");
        }
        for error in told {
            let _ = writeln!(text, "  {}: {}", or_dash(Some(&error.source)), or_dash(Some(&error.message)));
        }
    }
    text.push_str(&links::described(dependencies));
    if !components.is_empty() {
        let mut rows = vec![["KIND", "NAMESPACE", "NAME", "STATE", "SYNCED"].map(str::to_owned).to_vec()];
        rows.extend(components.iter().map(|component| {
            let state = component.state.map(|state| match state {
                ComponentState::Running => "Running",
                ComponentState::Pending => "Pending",
                ComponentState::Failed => "Failed",
                ComponentState::Paused => "Paused",
                ComponentState::Unknown => "Unknown",
            });
            vec![
                or_dash(Some(&component.kind)),
                or_dash(component.namespace.as_deref()),
                or_dash(Some(&component.name)),
                or_dash(state),
                if component.synced { "yes" } else { "no" }.into(),
            ]
        }));
        text.push_str("\nObjects:\n");
        for row in columns(&rows, 5).lines() {
            let _ = writeln!(text, "  {row}");
        }
    }
    text
}

#[cfg(test)]
#[path = "services_tests.rs"]
mod tests;
