//! What a stack is given on the command line, as the API names it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use clap::{ArgAction, Args, ValueEnum};
use plural_wire::{Client, StackAttributes, StackDetails};
use serde_json::{Map, Value, json};

use crate::{
    error::CliError,
    file,
    key::{ClusterKey, RepositoryKey, parse_duration, parse_pair},
    stack_arg_values::{
        Dependency, SecretVariable, dependencies, parse_at, parse_dependency, parse_file, parse_secret,
    },
    stack_check_args::StackChecksArgs,
    stack_definitions,
    stack_follow_args::StackFollowArgs,
    stack_given::Given,
    stack_tags_args::StackTagsArgs,
    terminal::Terminal,
};

/// What keeps a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StackKind {
    /// Terraform, or OpenTofu.
    Terraform,
    /// Terragrunt.
    Terragrunt,
    /// Ansible.
    Ansible,
    /// Pulumi.
    Pulumi,
    /// Commands of your own.
    Custom,
}

impl StackKind {
    /// The console can keep its state.
    pub(crate) const fn has_state(self) -> bool {
        matches!(self, Self::Terraform | Self::Terragrunt)
    }

    /// As the API writes it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Terraform => "TERRAFORM",
            Self::Terragrunt => "TERRAGRUNT",
            Self::Ansible => "ANSIBLE",
            Self::Pulumi => "PULUMI",
            Self::Custom => "CUSTOM",
        }
    }
}

/// Where the code of a stack is, and how its runs run
#[derive(Debug, Clone, Args)]
pub(crate) struct StackSettingsArgs {
    /// Git repository with its code: its URL or id. It, --ref and --cluster are given together
    #[arg(long, value_name = "REPOSITORY")]
    pub(crate) repository: Option<RepositoryKey>,

    /// Branch, tag, commit, or semver range of tags
    #[arg(long = "ref", value_name = "REF")]
    pub(crate) git_ref: Option<String>,

    /// Folder in the repository; else its root
    #[arg(long = "folder", value_name = "FOLDER")]
    pub(crate) git_folder: Option<String>,

    /// Cluster whose agent starts its runs: handle or id
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Option<ClusterKey>,

    #[command(flatten)]
    pub(crate) follow: StackFollowArgs,

    #[command(flatten)]
    pub(crate) tags: StackTagsArgs,

    /// Folder below --folder in which the tool runs
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workdir: Option<String>,

    /// Whether the console keeps the state of the tool; a new Terraform or Terragrunt stack with a repository: yes
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) manage_state: Option<bool>,

    /// Run OpenTofu; the default of Terraform stacks
    #[arg(long, conflicts_with = "terraform")]
    pub(crate) tofu: bool,

    /// Run Terraform
    #[arg(long)]
    pub(crate) terraform: bool,

    /// Version of the tool: the tag of its image
    #[arg(long, value_name = "VERSION")]
    pub(crate) tool_version: Option<String>,

    /// Image with the tool, without tag; a custom stack needs one with its programs
    #[arg(long, value_name = "IMAGE")]
    pub(crate) tool_image: Option<String>,

    /// Whether a plan with changes waits for approval
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) approval: Option<bool>,

    /// How many people must approve a plan
    #[arg(long, value_name = "N")]
    pub(crate) approvers: Option<u16>,

    /// Whether whoever started a run, last changed the stack, or wrote or merged its code may not approve it
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) forbid_self_approval: Option<bool>,

    /// A plan that waits for approval expires after this time, with its approvals: 90m, 24h
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) approval_expiry: Option<Duration>,

    /// Whether all commands that somebody runs on demand need approval, too, where plans do
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) command_approval: Option<bool>,

    /// A command of a run is stopped after this time; by default after one hour
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) step_timeout: Option<Duration>,

    /// Variable of the environment of its runs; may be given several times. It can be read in the process list: give secrets
    /// with --secret-env
    #[arg(long, value_parser = parse_pair, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<(String, String)>,

    /// Secret variable of the environment of its runs: NAME=@FILE reads it from a file, NAME=- from standard input; NAME alone asks for
    /// it, or reads a line of standard input; may be given several times
    #[arg(long, value_parser = parse_secret, value_name = "NAME[=@FILE]")]
    pub(crate) secret_env: Vec<SecretVariable>,

    /// File for its runs, with the content of a local file; may be given several times
    #[arg(long, value_parser = parse_file, value_name = "PATH=@FILE")]
    pub(crate) file_content: Vec<(String, PathBuf)>,

    /// JSON or YAML file with the variables for the tool, or - for standard input; replaces all earlier ones
    #[arg(long, value_parser = parse_at, value_name = "@FILE")]
    pub(crate) variables: Option<PathBuf>,

    /// Shell command of a custom stack that says what would change; may be given several times
    #[arg(long, value_name = "COMMAND")]
    pub(crate) plan_command: Vec<String>,

    /// Shell command of a custom stack that changes it; may be given several times
    #[arg(long, value_name = "COMMAND")]
    pub(crate) apply_command: Vec<String>,

    /// Shell command of a custom stack that destroys everything; may be given several times
    #[arg(long, value_name = "COMMAND")]
    pub(crate) destroy_command: Vec<String>,

    /// Definition that gives a custom stack its commands, name or id; an empty text ends that
    #[arg(long, value_name = "DEFINITION")]
    pub(crate) definition: Option<String>,

    /// Playbook of an Ansible stack; else main.yaml
    #[arg(long, value_name = "PATH")]
    pub(crate) playbook: Option<String>,

    /// Playbook that undoes an Ansible stack
    #[arg(long, value_name = "PATH")]
    pub(crate) delete_playbook: Option<String>,

    /// Namespace of its Jobs; else plural-runs
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) job_namespace: Option<String>,

    /// ServiceAccount of its Jobs
    #[arg(long, value_name = "NAME")]
    pub(crate) job_service_account: Option<String>,

    /// The user as whom its applies call the console: your own id, or that of a service account that you may assume; an empty text for nobody
    #[arg(long, value_name = "ID")]
    pub(crate) actor: Option<String>,

    /// Resource request of its Jobs, cpu or memory; may be given several times
    #[arg(long, value_parser = parse_pair, value_name = "NAME=QUANTITY")]
    pub(crate) job_request: Vec<(String, String)>,

    /// Resource limit of its Jobs, cpu or memory; may be given several times
    #[arg(long, value_parser = parse_pair, value_name = "NAME=QUANTITY")]
    pub(crate) job_limit: Vec<(String, String)>,

    /// Stack that this one depends on, name or id, with the outputs that it takes, each as a variable of the same name or another one.
    /// May be given several times; replaces all earlier ones
    #[arg(long, value_parser = parse_dependency, value_name = "STACK[:OUTPUT[=VARIABLE],…]")]
    pub(crate) depends_on: Vec<Dependency>,

    /// Remove all dependencies on other stacks
    #[arg(long, conflicts_with = "depends_on")]
    pub(crate) depends_on_none: bool,

    #[command(flatten)]
    pub(crate) checks: StackChecksArgs,

    /// JSON or YAML file with further settings, named as in the API (StackAttributes), or - for standard input; options take
    /// precedence
    #[arg(long, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,
}

/// What an update takes away
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StackRemovalArgs {
    /// Remove a variable of the environment; may be given several times
    #[arg(long, action = ArgAction::Append, value_name = "NAME")]
    pub(crate) unset_env: Vec<String>,

    /// Remove a file of its runs; may be given several times
    #[arg(long, action = ArgAction::Append, value_name = "PATH")]
    pub(crate) unset_file: Vec<String>,
}

/// What the options say. `is` is the stack that is changed; variables and files of it that are not named stay.
pub(crate) async fn attributes(
    args: StackSettingsArgs,
    removed: &StackRemovalArgs,
    is: Option<&StackDetails>,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<StackAttributes, CliError> {
    let environment = environment(&args, removed, is, terminal)?;
    let files = files(&args, removed, is)?;
    let StackSettingsArgs {
        repository,
        git_ref,
        git_folder,
        cluster,
        follow,
        tags,
        workdir,
        manage_state,
        tofu,
        terraform,
        tool_version,
        tool_image,
        approval,
        approvers,
        forbid_self_approval,
        command_approval,
        approval_expiry,
        step_timeout,
        env: _,
        secret_env: _,
        file_content: _,
        variables,
        plan_command,
        apply_command,
        destroy_command,
        definition,
        playbook,
        delete_playbook,
        job_namespace,
        job_service_account,
        actor,
        job_request,
        job_limit,
        depends_on,
        depends_on_none,
        checks,
        settings,
    } = args;
    let mut given = Given(match settings {
        Some(path) => file::mapping("settings", &path, terminal)?,
        None => Map::new(),
    });
    checks.put(&mut given);
    tags.put(&mut given);
    follow.put(&mut given, client).await?;
    given.put("manageState", manage_state);
    if let Some(repository) = repository {
        given.put("repositoryId", Some(repository.get(client).await?.id));
    }
    if let Some(cluster) = cluster {
        given.put("clusterId", Some(cluster.get(client).await?.id));
    }
    if git_ref.is_some() || git_folder.is_some() {
        let git = is.and_then(|is| is.stack.git.as_ref());
        let Some(reference) = git_ref.or(git.map(|git| git.reference.clone())) else {
            return Err(CliError::usage("--folder is given without --ref"));
        };
        let folder = git_folder.or(git.map(|git| git.folder.clone())).unwrap_or_default();
        given.put("git", Some(json!({"ref": reference, "folder": folder})));
    }
    given.put("workdir", workdir);
    if tofu || terraform {
        given.put_in(&["configuration", "terraform"], "tofu", Some(tofu));
    }
    given.put_in(&["configuration"], "version", tool_version);
    given.put_in(&["configuration"], "image", tool_image);
    given.put_in(&["configuration", "ansible"], "playbook", playbook);
    given.put_in(&["configuration", "ansible"], "deletePlaybook", delete_playbook);
    if depends_on_none || !depends_on.is_empty() {
        given.put("dependencies", Some(dependencies(depends_on, client).await?));
    }
    given.put("approval", approval);
    given.put("requiredApprovals", approvers);
    given.put("forbidSelfApproval", forbid_self_approval);
    given.put("commandApproval", command_approval);
    given.put("approvalExpiry", approval_expiry.map(seconds));
    given.put("timeout", step_timeout.map(seconds));
    given.put("environment", environment);
    given.put("files", files);
    if let Some(path) = variables {
        given.put("variables", Some(Value::Object(file::mapping("variables", &path, terminal)?)));
    }
    let commands: Vec<Value> = steps("PLAN", plan_command).chain(steps("APPLY", apply_command)).collect();
    given.put("commands", Some(commands).filter(|commands| !commands.is_empty()));
    let undo: Vec<Value> = steps("DESTROY", destroy_command).collect();
    given.put("deleteCommands", Some(undo).filter(|undo| !undo.is_empty()));
    if let Some(definition) = definition {
        defined(&mut given, &definition, client).await?;
    }
    given.put_in(&["jobSpec"], "namespace", job_namespace);
    given.put_in(&["jobSpec"], "serviceAccount", job_service_account);
    given.put("actorId", actor);
    for (of, quantities) in [("requests", job_request), ("limits", job_limit)] {
        for (name, quantity) in quantities {
            if !matches!(name.as_str(), "cpu" | "memory") {
                return Err(CliError::usage(format!("{name:?} is neither cpu nor memory")));
            }
            given.put_in(&["jobSpec", "resources", of], &name, Some(quantity));
        }
    }
    Ok(StackAttributes(given.0))
}

/// A stack with a definition has no commands of its own: those of before go, and what is typed beside it is refused.
async fn defined(given: &mut Given, definition: &str, client: &Client) -> Result<(), CliError> {
    if definition.is_empty() {
        given.put("definitionId", Some(""));
        return Ok(());
    }
    given.put("definitionId", Some(stack_definitions::find(definition, client).await?.id));
    for name in ["commands", "deleteCommands"] {
        given.0.entry(name).or_insert_with(|| json!([]));
    }
    Ok(())
}

fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs())
}

/// Shell commands of a stage.
pub(crate) fn steps(stage: &'static str, commands: Vec<String>) -> impl Iterator<Item = Value> {
    commands.into_iter().map(move |command| json!({"stage": stage, "cmd": "sh", "args": ["-c", command]}))
}

/// All variables of the environment, where one is given or taken away. The API takes all of them; a value that is absent stays.
fn environment(
    args: &StackSettingsArgs,
    removed: &StackRemovalArgs,
    is: Option<&StackDetails>,
    terminal: &mut Terminal<'_>,
) -> Result<Option<Vec<Value>>, CliError> {
    if args.env.is_empty() && args.secret_env.is_empty() && removed.unset_env.is_empty() {
        return Ok(None);
    }
    let mut all: BTreeMap<String, Value> = is
        .into_iter()
        .flat_map(|is| &is.environment)
        .map(|variable| {
            let name = variable.name.clone();
            (name.clone(), json!({"name": name, "secret": variable.secret.unwrap_or_default()}))
        })
        .collect();
    for name in &removed.unset_env {
        if all.remove(name).is_none() {
            return Err(CliError::usage(format!("the stack has no variable {name:?}")));
        }
    }
    for (name, value) in &args.env {
        all.insert(name.clone(), json!({"name": name, "value": value, "secret": false}));
    }
    for secret in &args.secret_env {
        let (name, value) = secret.read(terminal)?;
        all.insert(name.clone(), json!({"name": name, "value": value, "secret": true}));
    }
    Ok(Some(all.into_values().collect()))
}

/// All files, where one is given or taken away.
fn files(
    args: &StackSettingsArgs,
    removed: &StackRemovalArgs,
    is: Option<&StackDetails>,
) -> Result<Option<Vec<Value>>, CliError> {
    if args.file_content.is_empty() && removed.unset_file.is_empty() {
        return Ok(None);
    }
    let mut all: BTreeMap<String, Value> = is
        .into_iter()
        .flat_map(|is| &is.files)
        .map(|file| (file.path.clone(), json!({"path": file.path})))
        .collect();
    for path in &removed.unset_file {
        if all.remove(path).is_none() {
            return Err(CliError::usage(format!("the stack has no file {path:?}")));
        }
    }
    for (path, from) in &args.file_content {
        let content = file::text("content", from)?;
        all.insert(path.clone(), json!({"path": path, "content": content}));
    }
    Ok(Some(all.into_values().collect()))
}
