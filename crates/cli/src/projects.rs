//! `plural cd projects …`: what the services of a project may touch.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    Client, CreateProject, DeleteProject, ListProjects, PAGE_SIZE, Project, ProjectAttributes, ProjectLimits,
    SetDefaultProject, SetProjectLimits, UpdateProject, all_pages,
};

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    data_keys::{self, ProjectSecretsArgs},
    error::CliError,
    key,
    output::{self, Row, or_dash},
    recordings::{self, ProjectRecordingsArgs},
    secret_backends::{self, ProjectSecretBackendArgs},
    stack_policy::{self, ProjectStackRulesArgs},
    stack_settings::{self, ProjectStackSettingsArgs},
    terminal::Terminal,
};

/// Projects, to which clusters and repositories belong: list, create, update, describe, limits, secrets, delete
#[derive(Debug, Args)]
#[command(visible_alias = "project", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ProjectsArgs {
    #[command(subcommand)]
    pub(crate) command: ProjectCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProjectCommand {
    List(ProjectListArgs),
    Create(ProjectCreateArgs),
    Update(ProjectUpdateArgs),
    Delete(ProjectDeleteArgs),
    Describe(ProjectDescribeArgs),
    Limits(Box<ProjectLimitsArgs>),
    StackRules(ProjectStackRulesArgs),
    StackSettings(Box<ProjectStackSettingsArgs>),
    Recordings(ProjectRecordingsArgs),
    Secrets(ProjectSecretsArgs),
    SecretBackend(ProjectSecretBackendArgs),
}

/// List the projects that you may see
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd projects list"
)]
pub(crate) struct ProjectListArgs {
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Create a project
///
/// It has no limits: `plural cd projects limits` sets them, `plural cd access grant` lets others in.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd projects create shop --description 'the web shop'")]
pub(crate) struct ProjectCreateArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change the name of a project or what it is for, or make it the default one
///
/// What names no project goes to the default one from then on; what is in the one before stays there. Administrators of the installation
/// choose it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd projects update shop --description 'the web shop'
  plural cd projects update shop --default")]
pub(crate) struct ProjectUpdateArgs {
    /// The project: its name or id
    #[arg(value_name = "PROJECT")]
    pub(crate) project: String,

    /// A new name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    /// Make it the default project
    #[arg(long)]
    pub(crate) default: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a project that nothing belongs to
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd projects delete shop --yes")]
pub(crate) struct ProjectDeleteArgs {
    /// The project: its name or id
    #[arg(value_name = "PROJECT")]
    pub(crate) project: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// Show one project and what limits its services
#[derive(Debug, Args)]
#[command(
    visible_alias = "get",
    after_help = "Examples:
  plural cd projects describe shop
  plural cd projects describe shop -o yaml"
)]
pub(crate) struct ProjectDescribeArgs {
    /// The project: its name or id
    #[arg(value_name = "PROJECT")]
    pub(crate) project: String,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Limit what the services of a project may touch
///
/// Replaces its limits; what is not named is not limited. Agents refuse every other object, also of charts, and say so in
/// the service's errors. With --namespace, no object outside of namespaces may be written but of kinds that --cluster-kind
/// names. * stands for any run of characters. Without any limit, whoever writes a service of the project is an
/// administrator of its clusters.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd projects limits shop --namespace 'shop-*'
  plural cd projects limits shop --namespace 'shop-*' --cluster-kind /Namespace \\
    --require-service-account --default-service-account deployer
  plural cd projects limits shop --deny-kind /Secret --deny-kind 'rbac.authorization.k8s.io/*' \\
    --repository 'https://git.example.com/shop/*'
  plural cd projects limits shop --plan-service-account reader --apply-service-account writer \\
    --run-image 'ghcr.io/opentofu/*' --module-source 'acme/*/*'
  plural cd projects limits shop --clear")]
pub(crate) struct ProjectLimitsArgs {
    /// The project: its name or id
    #[arg(value_name = "PROJECT")]
    pub(crate) project: String,

    /// Namespace that may be written to; may be given several times
    #[arg(long = "namespace", value_name = "PATTERN")]
    pub(crate) namespaces: Vec<String>,

    /// Kind that may be written, GROUP/KIND or /KIND of the core group; may be given several times
    #[arg(long = "allow-kind", value_name = "PATTERN")]
    pub(crate) allow_kinds: Vec<String>,

    /// Kind that may not be written; may be given several times
    #[arg(long = "deny-kind", value_name = "PATTERN")]
    pub(crate) deny_kinds: Vec<String>,

    /// No objects outside of namespaces, except kinds that --cluster-kind names; --namespace implies it
    #[arg(long)]
    pub(crate) no_cluster_scoped: bool,

    /// Kind of objects outside of namespaces that may be written; may be given several times
    #[arg(long = "cluster-kind", value_name = "PATTERN")]
    pub(crate) cluster_kinds: Vec<String>,

    /// URL of a git repository or of charts that services may be read from; may be given several times
    #[arg(long = "repository", value_name = "PATTERN")]
    pub(crate) repositories: Vec<String>,

    /// Service account that services may act as besides those of their own namespaces; may be given several times
    #[arg(long = "service-account", value_name = "NAMESPACE/NAME")]
    pub(crate) service_accounts: Vec<String>,

    /// Refuse services that act as no service account: none has the agent's rights
    #[arg(long)]
    pub(crate) require_service_account: bool,

    /// Service account, in its own namespace, that a service acts as which names none
    #[arg(long, value_name = "NAME")]
    pub(crate) default_service_account: Option<String>,

    /// Namespace, or pattern, whose Secrets and ConfigMaps services may refer to besides their own; may be given several times
    #[arg(long = "reference-namespace", value_name = "NAMESPACE")]
    pub(crate) reference_namespaces: Vec<String>,

    /// Namespace of the Jobs of runs of stacks; without it, those of --namespace; may be given several times
    #[arg(long = "run-namespace", value_name = "PATTERN")]
    pub(crate) run_namespaces: Vec<String>,

    /// Image that runs of stacks may have; may be given several times
    #[arg(long = "run-image", value_name = "PATTERN")]
    pub(crate) run_images: Vec<String>,

    /// Service account of the Jobs of stacks that plan, in the namespace of the run
    #[arg(long, value_name = "NAME")]
    pub(crate) plan_service_account: Option<String>,

    /// Service account of the Jobs of stacks that apply, in the namespace of the run
    #[arg(long, value_name = "NAME")]
    pub(crate) apply_service_account: Option<String>,

    /// Where the code of stacks may take modules from: an address, or a registry's NAMESPACE/NAME/PROVIDER; may be given several times
    #[arg(long = "module-source", value_name = "PATTERN")]
    pub(crate) module_sources: Vec<String>,

    /// Remove all limits
    #[arg(
        long,
        conflicts_with_all = [
            "namespaces", "allow_kinds", "deny_kinds", "no_cluster_scoped", "cluster_kinds", "repositories",
            "service_accounts", "require_service_account", "default_service_account", "reference_namespaces",
            "run_namespaces", "run_images", "plan_service_account", "apply_service_account", "module_sources",
        ]
    )]
    pub(crate) clear: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl Row for Project {
    const HEADINGS: (&'static [&'static str], usize) = (
        &[
            "PROJECT",
            "NAMESPACES",
            "KINDS",
            "DENIED KINDS",
            "CLUSTER-SCOPED",
            "REPOSITORIES",
            "SERVICE ACCOUNTS",
            "DEFAULT",
            "ID",
        ],
        8,
    );

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("project/{}", self.name)
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let limits = self.limits.clone().unwrap_or_default();
        let all = |list: &[String]| {
            if list.is_empty() { "all".to_owned() } else { or_dash(Some(&list.join(", "))) }
        };
        vec![
            or_dash(Some(&self.name)),
            all(&limits.namespaces),
            all(&limits.allowed_kinds),
            or_dash(Some(&limits.denied_kinds.join(", "))),
            cluster_scoped(&limits),
            all(&limits.repositories),
            service_accounts(&limits),
            if self.default == Some(true) { "yes" } else { "-" }.to_owned(),
            self.id.clone(),
        ]
    }
}

/// Which kinds outside of namespaces may be written.
fn cluster_scoped(limits: &ProjectLimits) -> String {
    let closed = limits.no_cluster_scoped == Some(true) || !limits.namespaces.is_empty();
    match (limits.cluster_kinds.as_slice(), closed) {
        ([], true) => "none".to_owned(),
        ([], false) => "all".to_owned(),
        (kinds, _) => or_dash(Some(&kinds.join(", "))),
    }
}

/// Which accounts services may act as.
fn service_accounts(limits: &ProjectLimits) -> String {
    let mut words = vec!["own namespace".to_owned()];
    words.extend(limits.service_accounts.iter().cloned());
    if limits.require_service_account == Some(true) {
        words.push("required".to_owned());
    }
    words.extend(limits.default_service_account.as_ref().map(|name| format!("default {name}")));
    or_dash(Some(&words.join(", ")))
}

/// Says plainly what a project without limits means.
fn warn_without_limits(project: &Project, terminal: &mut Terminal<'_>) {
    let nothing = ProjectLimits {
        no_cluster_scoped: Some(false),
        require_service_account: Some(false),
        ..ProjectLimits::default()
    };
    let unlimited = project
        .limits
        .as_ref()
        .is_none_or(|limits| *limits == ProjectLimits::default() || *limits == nothing);
    if unlimited {
        terminal.say(format_args!(
            "warning: project {} has no limits, so anyone with write access can deploy with the agents' full \
             permissions. Set limits with `plural cd projects limits`",
            project.name
        ));
    }
}

pub(crate) async fn run(
    command: ProjectCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        ProjectCommand::List(args) => {
            let projects = all_pages(client, |after| ListProjects { after, first: PAGE_SIZE }).await?;
            output::list(&projects, &args.output, "no projects found", terminal)
        }
        ProjectCommand::Create(ProjectCreateArgs { name, description, output }) => {
            let attributes = ProjectAttributes { name, description, ..ProjectAttributes::default() };
            let project = client.send(&CreateProject { attributes }).await?;
            warn_without_limits(&project, terminal);
            output::item(&project, &output.output, terminal)
        }
        ProjectCommand::Update(args) => update(args, client, terminal).await,
        ProjectCommand::Delete(ProjectDeleteArgs { project, confirm }) => {
            let project = key::project(client, &project).await?;
            terminal.confirm(&format!("delete project {}", project.name), confirm.yes)?;
            client.send(&DeleteProject { id: project.id }).await?;
            terminal.say(format_args!("project {} deleted", project.name));
            Ok(())
        }
        ProjectCommand::Describe(args) => {
            let project = key::project(client, &args.project).await?;
            warn_without_limits(&project, terminal);
            output::item(&project, &args.output.output, terminal)
        }
        ProjectCommand::Limits(args) => limits(*args, client, terminal).await,
        ProjectCommand::StackSettings(args) => stack_settings::of_project(*args, client, terminal).await,
        ProjectCommand::StackRules(args) => stack_policy::rules(args, client, terminal).await,
        ProjectCommand::Recordings(args) => recordings::policy(args, client, terminal).await,
        ProjectCommand::Secrets(args) => data_keys::secrets(args, client, terminal).await,
        ProjectCommand::SecretBackend(args) => secret_backends::backend(args, client, terminal).await,
    }
}

async fn update(
    args: ProjectUpdateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ProjectUpdateArgs { project, name, description, default, output } = args;
    if name.is_none() && description.is_none() && !default {
        return Err(CliError::unchanged_flags("projects"));
    }
    let mut project = key::project(client, &project).await?;
    if name.is_some() || description.is_some() {
        let name = name.unwrap_or_else(|| project.name.clone());
        let attributes = ProjectAttributes { name, description, ..ProjectAttributes::default() };
        project = client.send(&UpdateProject { id: project.id.clone(), attributes }).await?;
    }
    if default {
        project = client.send(&SetDefaultProject { id: project.id.clone() }).await?;
    }
    output::item(&project, &output.output, terminal)
}

async fn limits(
    args: ProjectLimitsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ProjectLimitsArgs {
        project,
        namespaces,
        allow_kinds,
        deny_kinds,
        no_cluster_scoped,
        cluster_kinds,
        repositories,
        service_accounts,
        require_service_account,
        default_service_account,
        reference_namespaces,
        run_namespaces,
        run_images,
        plan_service_account,
        apply_service_account,
        module_sources,
        clear,
        output,
    } = args;
    let attributes = ProjectLimits {
        namespaces,
        allowed_kinds: allow_kinds,
        denied_kinds: deny_kinds,
        no_cluster_scoped: Some(no_cluster_scoped),
        cluster_kinds,
        repositories,
        service_accounts,
        require_service_account: Some(require_service_account),
        default_service_account,
        reference_namespaces,
        run_namespaces,
        run_images,
        plan_service_account,
        apply_service_account,
        module_sources,
    };
    let nothing = ProjectLimits {
        no_cluster_scoped: Some(false),
        require_service_account: Some(false),
        ..ProjectLimits::default()
    };
    if attributes == nothing && !clear {
        return Err(CliError::usage("no limit is given")
            .hint("--clear removes all limits; `plural cd projects describe` shows them"));
    }
    let project_id = key::project(client, &project).await?.id;
    let project = client.send(&SetProjectLimits { project_id, attributes }).await?;
    warn_without_limits(&project, terminal);
    output::item(&project, &output.output, terminal)
}
