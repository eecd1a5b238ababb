//! What a stack is given on the command line, as the API names it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use clap::{ArgAction, Args, ValueEnum};
use plural_core::stack_policy_rules::Severity;
use plural_wire::{Client, StackAttributes, StackDetails};
use serde_json::{Map, Value, json};

use crate::{
    error::CliError,
    file,
    key::{ClusterKey, RepositoryKey, parse_duration, parse_pair},
    stack_definitions, stack_policy, stacks,
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

    /// Whether a plan with changes waits for people
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) approval: Option<bool>,

    /// How many people have to agree to a plan
    #[arg(long, value_name = "N")]
    pub(crate) approvers: Option<u16>,

    /// Whether whoever started a run or last changed the stack may not approve it
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) forbid_self_approval: Option<bool>,

    /// A plan that waits, and its approvals, end after this time: 90m, 24h
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) approval_expiry: Option<Duration>,

    /// Whether, where plans need approval, all commands that somebody runs on demand need it, too
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) command_approval: Option<bool>,

    /// Commands of a run that take longer than this are ended; else one hour
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) step_timeout: Option<Duration>,

    /// Variable of the environment of its runs; may be given several times. It can be read in the process list: give secrets
    /// with --secret-env
    #[arg(long, value_parser = parse_pair, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<(String, String)>,

    /// Secret variable of the environment of its runs: NAME=@FILE reads it from a file, NAME alone asks for it, or reads a line of
    /// standard input; may be given several times
    #[arg(long, value_parser = parse_secret, value_name = "NAME[=@FILE]")]
    pub(crate) secret_env: Vec<SecretVariable>,

    /// File of its runs, with what is in a file here; may be given several times
    #[arg(long, value_parser = parse_file, value_name = "PATH=@FILE")]
    pub(crate) file_content: Vec<(String, PathBuf)>,

    /// JSON or YAML file with the variables that the tool is given, or - for standard input; replaces those before
    #[arg(long, value_parser = parse_at, value_name = "@FILE")]
    pub(crate) variables: Option<PathBuf>,

    /// Shell command of a custom stack that says what would change; may be given several times
    #[arg(long, value_name = "COMMAND")]
    pub(crate) plan_command: Vec<String>,

    /// Shell command of a custom stack that changes it; may be given several times
    #[arg(long, value_name = "COMMAND")]
    pub(crate) apply_command: Vec<String>,

    /// Shell command of a custom stack that takes everything away; may be given several times
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

    /// In whose name its applies ask the console: your own id, or that of a service account that you may assume; an empty text for nobody
    #[arg(long, value_name = "ID")]
    pub(crate) actor: Option<String>,

    /// What its Jobs ask of their node, cpu or memory; may be given several times
    #[arg(long, value_parser = parse_pair, value_name = "NAME=QUANTITY")]
    pub(crate) job_request: Vec<(String, String)>,

    /// What its Jobs may take, cpu or memory; may be given several times
    #[arg(long, value_parser = parse_pair, value_name = "NAME=QUANTITY")]
    pub(crate) job_limit: Vec<(String, String)>,

    /// Stack that this one depends on, name or id, and what it takes from that: outputs, each as a variable of the same name or as
    /// another one. May be given several times; replaces those before
    #[arg(long, value_parser = parse_dependency, value_name = "STACK[:OUTPUT[=VARIABLE],…]")]
    pub(crate) depends_on: Vec<Dependency>,

    /// Depend on no other stack any more
    #[arg(long, conflicts_with = "depends_on")]
    pub(crate) depends_on_none: bool,

    #[command(flatten)]
    pub(crate) checks: StackChecksArgs,

    /// JSON or YAML file with further settings, called as the API calls them (StackAttributes), or - for standard input; options
    /// win over it
    #[arg(long, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,
}

/// When the clock makes runs, and what checks plans
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StackChecksArgs {
    /// When the clock makes runs, in cron's five fields; an empty text ends the schedule
    #[arg(long, value_name = "CRONTAB")]
    pub(crate) cron: Option<String>,

    /// Time zone of --cron, by its IANA name; else UTC
    #[arg(long, requires = "cron", value_name = "ZONE")]
    pub(crate) cron_time_zone: Option<String>,

    /// When the clock looks for drift, in cron's five fields; an empty text ends the schedule
    #[arg(long, value_name = "CRONTAB")]
    pub(crate) drift_cron: Option<String>,

    /// Time zone of the looks for drift, by its IANA name; an empty text for UTC
    #[arg(long, value_name = "ZONE")]
    pub(crate) drift_time_zone: Option<String>,

    /// What checks its plans, besides the rules of its project; `none` takes its policy away
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub(crate) policy: Option<PolicyKind>,

    /// Findings that are worse refuse a plan: NONE, LOW, MEDIUM, HIGH, CRITICAL; else all that deny do
    #[arg(long, requires = "policy", value_parser = stack_policy::parse_severity, value_name = "SEVERITY")]
    pub(crate) policy_max_severity: Option<Severity>,

    /// Its own repository has rules in .plural/policies
    #[arg(long, requires = "policy")]
    pub(crate) policy_own_rules: bool,
}

/// What checks the plans of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyKind {
    /// Trivy, in the image of its runs.
    Trivy,
    /// The console, by rules in Rego.
    Rego,
    /// Nothing of its own.
    None,
}

impl StackChecksArgs {
    fn put(self, given: &mut Given) {
        let Self {
            cron,
            cron_time_zone,
            drift_cron,
            drift_time_zone,
            policy,
            policy_max_severity,
            policy_own_rules,
        } = self;
        given.put_in(&["cron"], "crontab", cron);
        given.put_in(&["cron"], "timeZone", cron_time_zone);
        given.put_in(&["drift"], "crontab", drift_cron);
        given.put_in(&["drift"], "timeZone", drift_time_zone);
        let policy = policy.map(|policy| match policy {
            PolicyKind::Trivy => "TRIVY",
            PolicyKind::Rego => "REGO",
            PolicyKind::None => "NONE",
        });
        given.put_in(&["policyEngine"], "type", policy);
        given.put_in(&["policyEngine"], "maxSeverity", policy_max_severity.map(Severity::as_str));
        given.put_in(&["policyEngine"], "customPolicies", policy_own_rules.then_some(true));
    }
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

/// A stack that another one depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    stack: String,
    /// Output and variable.
    outputs: Vec<(String, String)>,
}

fn parse_dependency(text: &str) -> Result<Dependency, String> {
    let (stack, outputs) = text.split_once(':').unwrap_or((text, ""));
    if stack.is_empty() {
        return Err("it must name a stack: STACK or STACK:OUTPUT=VARIABLE".to_owned());
    }
    let output = |text: &str| {
        let (output, variable) = text.split_once('=').unwrap_or((text, text));
        if output.is_empty() || variable.is_empty() {
            return Err(format!("{text:?} must have the form OUTPUT or OUTPUT=VARIABLE"));
        }
        Ok((output.to_owned(), variable.to_owned()))
    };
    let outputs = outputs.split(',').filter(|text| !text.is_empty()).map(output).collect::<Result<_, _>>()?;
    Ok(Dependency { stack: stack.to_owned(), outputs })
}

/// What a stack depends on, as the API names it.
async fn dependencies(given: Vec<Dependency>, client: &Client) -> Result<Vec<Value>, CliError> {
    let mut all = Vec::with_capacity(given.len());
    for Dependency { stack, outputs } in given {
        let id = stacks::find(&stack, client).await?.id;
        let outputs: Vec<Value> = outputs
            .into_iter()
            .map(|(output, variable)| json!({"output": output, "variable": variable}))
            .collect();
        all.push(json!({"stackId": id, "outputs": outputs}));
    }
    Ok(all)
}

/// A variable whose value is read from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretVariable {
    name: String,
    file: Option<PathBuf>,
}

impl SecretVariable {
    /// Its name, and its value from where that is.
    pub(crate) fn read(&self, terminal: &mut Terminal<'_>) -> Result<(String, String), CliError> {
        let Self { name, file } = self;
        let value = match file {
            Some(path) => file::text("value", path)?.trim_end_matches(['\r', '\n']).to_owned(),
            None if terminal.is_interactive() => terminal.ask_secret(&format!("Value of {name}"))?,
            None => terminal.line()?,
        };
        if value.is_empty() {
            return Err(CliError::usage(format!("the value of {name} is empty")));
        }
        Ok((name.clone(), value))
    }
}

pub(crate) fn parse_secret(text: &str) -> Result<SecretVariable, String> {
    let (name, file) = match text.split_once('=') {
        None => (text, None),
        Some((name, value)) => {
            let file = value.strip_prefix('@').filter(|file| !file.is_empty());
            let told =
                || "it must have the form NAME=@FILE or NAME: a value here could be read in the process list";
            (name, Some(PathBuf::from(file.ok_or_else(told)?)))
        }
    };
    if name.is_empty() {
        Err("it must have a name".to_owned())
    } else {
        Ok(SecretVariable { name: name.to_owned(), file })
    }
}

fn parse_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once("=@") {
        Some((path, file)) if !path.is_empty() && !file.is_empty() => {
            Ok((path.to_owned(), PathBuf::from(file)))
        }
        _ => Err("it must have the form PATH=@FILE".to_owned()),
    }
}

fn parse_at(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix('@').unwrap_or(text);
    if path.is_empty() { Err("it must name a file".to_owned()) } else { Ok(PathBuf::from(path)) }
}

/// Attributes by their names in the API.
struct Given(Map<String, Value>);

impl Given {
    /// One that was given.
    fn put<V: Into<Value>>(&mut self, name: &str, value: Option<V>) {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
    }

    /// The same of one below others.
    fn put_in<V: Into<Value>>(&mut self, above: &[&str], name: &str, value: Option<V>) {
        let Some(value) = value else { return };
        let mut at = &mut self.0;
        for word in above {
            let below = at.entry(*word).or_insert_with(|| json!({}));
            if !below.is_object() {
                // An object of the settings file that is none: what is typed here wins.
                *below = json!({});
            }
            let Value::Object(inner) = below else { return };
            at = inner;
        }
        at.insert(name.to_owned(), value.into());
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_on_the_command_line() {
        let file = |name: &str, file: &str| SecretVariable { name: name.into(), file: Some(file.into()) };
        assert_eq!(parse_secret("TOKEN=@/run/token"), Ok(file("TOKEN", "/run/token")));
        assert_eq!(parse_secret("TOKEN"), Ok(SecretVariable { name: "TOKEN".into(), file: None }));
        for wrong in ["", "TOKEN=hunter2", "TOKEN=@", "=@file", "TOKEN="] {
            let refused = parse_secret(wrong).unwrap_err();
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }

    #[test]
    fn files_are_named_with_what_is_in_them() {
        assert_eq!(parse_file("a/b=@c=@d"), Ok(("a/b".to_owned(), PathBuf::from("c=@d"))));
        assert!(parse_file("a=b").is_err() && parse_file("=@b").is_err());
        assert_eq!(parse_at("@vars.yaml"), Ok(PathBuf::from("vars.yaml")));
        assert_eq!(parse_at("-"), Ok(PathBuf::from("-")));
    }

    #[test]
    fn what_is_typed_wins_over_the_file() {
        let mut given = Given(Map::new());
        given.put("configuration", Some(json!("none")));
        given.put_in(&["configuration", "terraform"], "tofu", Some(false));
        given.put("approval", None::<bool>);
        assert_eq!(Value::Object(given.0), json!({"configuration": {"terraform": {"tofu": false}}}));
    }

    #[test]
    fn schedules_and_policies_are_options() {
        let checks = StackChecksArgs {
            cron: Some("0 3 * * *".to_owned()),
            cron_time_zone: Some("Europe/Berlin".to_owned()),
            drift_cron: Some(String::new()),
            drift_time_zone: None,
            policy: Some(PolicyKind::Rego),
            policy_max_severity: Some(Severity::High),
            policy_own_rules: true,
        };
        let mut given = Given(Map::new());
        checks.put(&mut given);
        let expected = json!({
            "cron": {"crontab": "0 3 * * *", "timeZone": "Europe/Berlin"}, "drift": {"crontab": ""},
            "policyEngine": {"type": "REGO", "maxSeverity": "HIGH", "customPolicies": true},
        });
        assert_eq!(Value::Object(given.0), expected);
        let mut given = Given(Map::new());
        StackChecksArgs::default().put(&mut given);
        assert!(given.0.is_empty());
    }
}
