//! What a stack may be made of: checked where it enters, before anything is stored.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::name::KubeName;
use crate::run_call::InputVariable;
use crate::stack::StackTool;
use crate::stack_asks::check_asks;
use crate::stack_cron::check_schedules;
use crate::stack_dependency::check_dependencies;
use crate::stack_spec::{
    AnsibleConfiguration, JobSpec, PulumiConfiguration, StackApproval, StackCommand, StackConfiguration,
    StackHook, StackSpec,
};

/// Bytes of one file, of one value, and of all variables of a tool.
pub const MAX_FILE: usize = 64 << 10;
/// Bytes of all files, and of all of an environment.
pub const MAX_FILES: usize = 1 << 20;
/// Variables of an environment, and files.
pub const MAX_VARIABLES: usize = 256;
/// Commands of a stack, and hooks.
const MAX_COMMANDS: usize = 64;
/// Arguments of a command.
const MAX_ARGS: usize = 64;
/// Bytes of an argument.
const MAX_ARG: usize = 8 << 10;
/// Entries of one list of a Job.
const MAX_ENTRIES: usize = 64;
/// People who have to agree.
const MAX_APPROVERS: u32 = 20;
/// Operations at once.
const MAX_PARALLEL: u32 = 256;
/// Seconds that a command may take.
const MAX_TIMEOUT: u64 = 24 * 60 * 60;
/// Seconds that a plan may wait: a year.
const MAX_WAIT: u64 = 366 * 24 * 60 * 60;
/// Names of the environment that the console and the harness give: `PATH` and what the loader reads decide which program runs.
const RESERVED: [&str; 4] = ["TF_HTTP_", "PLURAL_", "LD_", "PATH"];
/// Files that the harness writes, and the one that it takes for a state that the tool could not write.
const OURS: [&str; 3] = ["plural_backend_override.tf", "plural.auto.tfvars.json", "errored.tfstate"];

impl StackSpec {
    /// Checks the document.
    ///
    /// # Errors
    /// [`Error::Invalid`], which names the field.
    pub fn check(&self, tool: StackTool) -> Result<()> {
        let Self {
            workdir,
            manage_state,
            approval,
            configuration,
            job,
            commands,
            delete_commands,
            variables,
            timeout_seconds,
            dependencies,
            actor: _,
            cron: _,
            drift,
            policy,
            definition_id,
            exec,
            pull_request: _,
            preview,
            job_defaults,
        } = self;
        if definition_id.is_some() && tool != StackTool::Custom {
            return Err(Error::invalid("attributes.definitionId", "is of CUSTOM stacks only"));
        }
        if definition_id.is_some() && (!commands.is_empty() || !delete_commands.is_empty()) {
            return Err(Error::invalid(
                "attributes.definitionId",
                "gives the stack its commands: leave commands and deleteCommands out",
            ));
        }
        if exec.is_some() {
            return Err(Error::invalid("attributes.exec", "is of runs, and not of stacks"));
        }
        if preview.is_some() {
            return Err(Error::invalid("attributes.preview", "is of runs, and not of stacks"));
        }
        if job_defaults.is_some() {
            return Err(Error::invalid("attributes.jobDefaults", "is of runs, and not of stacks"));
        }
        check_path("attributes.workdir", workdir)?;
        check_dependencies(dependencies, variables)?;
        if let Some(policy) = policy {
            policy.check(tool)?;
        }
        if *manage_state && !tool.has_state() {
            return Err(Error::invalid(
                "attributes.manageState",
                "the console keeps the state of Terraform, OpenTofu and Terragrunt only",
            ));
        }
        check_approval(approval)?;
        check_configuration(configuration)?;
        job.check()?;
        check_schedules(tool, self)?;
        let drift_commands = drift.as_ref().map_or(&[][..], |drift| drift.commands.as_slice());
        for (field, commands, may_ask) in [
            ("attributes.commands", commands.as_slice(), true),
            ("attributes.deleteCommands", delete_commands.as_slice(), true),
            ("attributes.drift.commands", drift_commands, false),
        ] {
            if tool != StackTool::Custom && !commands.is_empty() {
                return Err(Error::invalid(field, "are of CUSTOM stacks only"));
            }
            if commands.len() > MAX_COMMANDS {
                return Err(Error::invalid(field, format!("must be at most {MAX_COMMANDS}")));
            }
            for command in commands {
                let StackCommand { cmd, args, stage: _, approve: _ } = command;
                check_command(field, cmd, args)?;
                check_asks(field, may_ask, command)?;
            }
        }
        let bytes = serde_json::to_string(variables).map_or(usize::MAX, |text| text.len());
        if bytes > MAX_FILE {
            return Err(Error::invalid(
                "attributes.variables",
                format!("must not exceed {} KiB as JSON", MAX_FILE >> 10),
            ));
        }
        if variables.keys().any(|name| !is_shell_name(name) && !is_dashed_name(name)) {
            return Err(Error::invalid(
                "attributes.variables",
                "must have names of letters, digits, \"_\" and \"-\"",
            ));
        }
        if *timeout_seconds > MAX_TIMEOUT {
            return Err(Error::invalid("attributes.timeout", "must be at most a day"));
        }
        Ok(())
    }
}

/// What a name of the environment begins with, where that is the console's. On some systems names are read in any case.
fn reserved(name: &str) -> Option<&'static str> {
    let upper = name.to_ascii_uppercase();
    RESERVED.into_iter().find(|prefix| upper.starts_with(prefix))
}

/// Refuses what is no name of a variable that a stack may set.
///
/// # Errors
/// [`Error::Invalid`] for `field`.
pub(crate) fn check_variable_name(field: &'static str, name: &str) -> Result<()> {
    if !is_shell_name(name) {
        let told: String = name.chars().take(100).collect();
        return Err(Error::invalid(
            field,
            format!("{told:?} must be a name of letters, digits and \"_\" that begins with no digit"),
        ));
    }
    match reserved(name) {
        None => Ok(()),
        Some(prefix) => Err(Error::invalid(
            field,
            format!("{name} cannot be set: names that begin with {prefix} are the console's"),
        )),
    }
}

/// Checks the environment of a stack's runs.
///
/// # Errors
/// [`Error::Invalid`], which names the variable and never its value.
pub fn check_environment(environment: &[InputVariable]) -> Result<()> {
    const FIELD: &str = "attributes.environment";
    if environment.len() > MAX_VARIABLES {
        return Err(Error::invalid(FIELD, format!("must be at most {MAX_VARIABLES} variables")));
    }
    let (mut names, mut bytes) = (BTreeSet::new(), 0);
    for InputVariable { name, value, secret: _ } in environment {
        check_variable_name(FIELD, name)?;
        if !names.insert(name.as_str()) {
            return Err(Error::invalid(FIELD, format!("{name} is there twice")));
        }
        if value.len() > MAX_FILE || value.contains('\0') {
            return Err(Error::invalid(
                FIELD,
                format!("the value of {name} must have at most {} KiB and no NUL", MAX_FILE >> 10),
            ));
        }
        bytes += name.len() + value.len();
    }
    if bytes > MAX_FILES {
        return Err(Error::invalid(FIELD, format!("must not exceed {} MiB together", MAX_FILES >> 20)));
    }
    Ok(())
}

/// Checks the files of a stack's runs.
///
/// # Errors
/// [`Error::Invalid`], which names the file and never its content.
pub fn check_files(files: &BTreeMap<String, String>) -> Result<()> {
    const FIELD: &str = "attributes.files";
    if files.len() > MAX_VARIABLES {
        return Err(Error::invalid(FIELD, format!("must be at most {MAX_VARIABLES}")));
    }
    let mut bytes = 0;
    for (path, content) in files {
        check_path(FIELD, path)?;
        // What ends with a dot, `main.tf/.`, would be written as `main.tf` and be none to whoever looks at its name.
        if path.rsplit('/').next().is_none_or(|name| matches!(name, "" | ".")) {
            return Err(Error::invalid(FIELD, "each must have a path that ends with a name"));
        }
        if OURS.contains(&path.rsplit('/').next().unwrap_or_default()) {
            return Err(Error::invalid(FIELD, format!("{path:?} is written by the console or the tool")));
        }
        if content.len() > MAX_FILE {
            return Err(Error::invalid(FIELD, format!("{path:?} must not exceed {} KiB", MAX_FILE >> 10)));
        }
        bytes += path.len() + content.len();
    }
    if bytes > MAX_FILES {
        return Err(Error::invalid(FIELD, format!("must not exceed {} MiB together", MAX_FILES >> 20)));
    }
    Ok(())
}

fn check_approval(approval: &StackApproval) -> Result<()> {
    let StackApproval { required: _, approvers, forbid_self: _, expires_seconds, commands: _ } = approval;
    if *approvers > MAX_APPROVERS {
        return Err(Error::invalid(
            "attributes.requiredApprovals",
            format!("must be at most {MAX_APPROVERS}"),
        ));
    }
    if *expires_seconds > MAX_WAIT {
        return Err(Error::invalid("attributes.approvalExpiry", "must be at most a year"));
    }
    Ok(())
}

fn check_configuration(configuration: &StackConfiguration) -> Result<()> {
    const HOOKS: &str = "attributes.configuration.hooks";
    let StackConfiguration { image, version, tag, hooks, terraform, terragrunt, pulumi, ansible } =
        configuration;
    for (field, text, also) in [
        ("attributes.configuration.image", image, "/:@"),
        ("attributes.configuration.version", version, "+"),
        ("attributes.configuration.tag", tag, ""),
    ] {
        let odd = |c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c) || also.contains(c));
        if text.as_ref().is_some_and(|text| text.is_empty() || text.len() > 255 || text.contains(odd)) {
            return Err(Error::invalid(field, "must be a part of an image's reference"));
        }
    }
    if hooks.len() > MAX_COMMANDS {
        return Err(Error::invalid(HOOKS, format!("must be at most {MAX_COMMANDS}")));
    }
    for StackHook { cmd, args, after_stage: _ } in hooks {
        check_command(HOOKS, cmd, args)?;
    }
    let parallel = [
        ("attributes.configuration.terraform.parallelism", terraform.as_ref().and_then(|it| it.parallelism)),
        (
            "attributes.configuration.terragrunt.parallelism",
            terragrunt.as_ref().and_then(|it| it.parallelism),
        ),
        ("attributes.configuration.pulumi.parallel", pulumi.as_ref().and_then(|it| it.parallel)),
    ];
    for (field, many) in parallel {
        if many.is_some_and(|many| !(1..=MAX_PARALLEL).contains(&many)) {
            return Err(Error::invalid(field, format!("must be 1 to {MAX_PARALLEL}")));
        }
    }
    if let Some(pulumi) = pulumi {
        let PulumiConfiguration { parallel: _, refresh: _, approve_empty: _, stack, backend_url } = pulumi;
        for (field, text) in [
            ("attributes.configuration.pulumi.stack", stack),
            ("attributes.configuration.pulumi.backendUrl", backend_url),
        ] {
            if let Some(text) = text {
                check_word(field, text)?;
            }
        }
    }
    if let Some(ansible) = ansible {
        check_ansible(ansible)?;
    }
    Ok(())
}

fn check_ansible(ansible: &AnsibleConfiguration) -> Result<()> {
    let AnsibleConfiguration {
        playbook,
        inventory,
        additional_args,
        private_key_file,
        config_file,
        supports_check: _,
        delete_playbook,
    } = ansible;
    for (field, path) in [
        ("attributes.configuration.ansible.playbook", playbook),
        ("attributes.configuration.ansible.privateKeyFile", private_key_file),
        ("attributes.configuration.ansible.configFile", config_file),
        ("attributes.configuration.ansible.deletePlaybook", delete_playbook),
    ] {
        if let Some(path) = path {
            check_word(field, path)?;
            check_path(field, path)?;
        }
    }
    // It may be a list of hosts, too.
    if let Some(inventory) = inventory {
        check_word("attributes.configuration.ansible.inventory", inventory)?;
    }
    check_args("attributes.configuration.ansible.additionalArgs", additional_args)
}

/// A text that a program gets as an argument, and must not read as an option.
fn check_word(field: &'static str, text: &str) -> Result<()> {
    if text.is_empty() || text.len() > 1024 || text.starts_with('-') || text.chars().any(char::is_control) {
        return Err(Error::invalid(field, "must have 1 to 1024 bytes, and not begin with \"-\""));
    }
    Ok(())
}

impl JobSpec {
    /// Checks the Job of runs.
    ///
    /// # Errors
    /// [`Error::Invalid`], which names the field.
    pub fn check(&self) -> Result<()> {
        let Self {
            namespace,
            labels,
            annotations,
            node_selector,
            tolerations,
            service_account,
            requests,
            limits,
        } = self;
        if let Some(namespace) = namespace {
            if namespace.parse::<KubeName>().is_err() {
                return Err(Error::invalid(
                    "attributes.jobSpec.namespace",
                    "must be the name of a namespace",
                ));
            }
            if namespace.starts_with("kube-") {
                return Err(Error::invalid(
                    "attributes.jobSpec.namespace",
                    "must not be one of Kubernetes' own: nothing runs there for people",
                ));
            }
        }
        if service_account.as_ref().is_some_and(|account| account.parse::<KubeName>().is_err()) {
            return Err(Error::invalid(
                "attributes.jobSpec.serviceAccount",
                "must be the name of an account in the namespace of the runs",
            ));
        }
        for (field, map) in [
            ("attributes.jobSpec.labels", labels),
            ("attributes.jobSpec.annotations", annotations),
            ("attributes.jobSpec.nodeSelector", node_selector),
            ("attributes.jobSpec.requests", requests),
            ("attributes.jobSpec.limits", limits),
        ] {
            let fits = |text: &str| text.len() <= 1024 && !text.chars().any(char::is_control);
            if map.len() > MAX_ENTRIES
                || map.iter().any(|(key, value)| key.is_empty() || !fits(key) || !fits(value))
            {
                return Err(Error::invalid(
                    field,
                    format!("must be at most {MAX_ENTRIES}, each with a name and at most 1024 bytes"),
                ));
            }
        }
        if tolerations.len() > MAX_ENTRIES {
            return Err(Error::invalid(
                "attributes.jobSpec.tolerations",
                format!("must be at most {MAX_ENTRIES}"),
            ));
        }
        Ok(())
    }
}

pub(crate) fn check_command(field: &'static str, cmd: &str, args: &[String]) -> Result<()> {
    if cmd.is_empty() || cmd.len() > 1024 || cmd.chars().any(char::is_control) {
        return Err(Error::invalid(field, "each must have a program of at most 1024 bytes"));
    }
    check_args(field, args)
}

fn check_args(field: &'static str, args: &[String]) -> Result<()> {
    if args.len() > MAX_ARGS || args.iter().any(|arg| arg.len() > MAX_ARG || arg.contains('\0')) {
        return Err(Error::invalid(
            field,
            format!("must have at most {MAX_ARGS} arguments of at most {} KiB", MAX_ARG >> 10),
        ));
    }
    Ok(())
}

/// A path below the folder that it is in.
pub(crate) fn check_path(field: &'static str, path: &str) -> Result<()> {
    if path.len() > 1024 || path.chars().any(char::is_control) || path.contains('\\') {
        return Err(Error::invalid(field, "must be a path with \"/\" between its parts"));
    }
    if path.starts_with('/') || path.starts_with('~') {
        return Err(Error::invalid(field, format!("{path:?} must be relative to the stack's folder")));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(Error::invalid(field, format!("{path:?} must not leave the stack's folder")));
    }
    Ok(())
}

fn is_shell_name(name: &str) -> bool {
    name.len() <= 255
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// As Terraform's variables may be called, and Pulumi's in a namespace.
fn is_dashed_name(name: &str) -> bool {
    name.len() <= 255
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-:.".contains(c))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The field at fault; none where all is well.
    fn fault(result: Result<()>) -> Option<String> {
        match result {
            Ok(()) => None,
            Err(Error::Invalid { field, .. }) => Some(field.into_owned()),
            Err(other) => panic!("{other}"),
        }
    }

    fn variable(name: &str, value: &str) -> InputVariable {
        InputVariable { name: name.to_owned(), value: value.to_owned(), secret: true }
    }

    #[test]
    fn a_spec_names_the_field_at_fault() {
        type Spoil = fn(&mut StackSpec);
        let rows: [(&str, Spoil); 16] = [
            ("attributes.workdir", |it| it.workdir = "../other".to_owned()),
            ("attributes.workdir", |it| it.workdir = "/etc".to_owned()),
            ("attributes.workdir", |it| it.workdir = "a/../../b".to_owned()),
            ("attributes.requiredApprovals", |it| it.approval.approvers = 21),
            ("attributes.approvalExpiry", |it| it.approval.expires_seconds = u64::MAX),
            ("attributes.configuration.image", |it| it.configuration.image = Some("a b".to_owned())),
            ("attributes.configuration.tag", |it| it.configuration.tag = Some(String::new())),
            ("attributes.configuration.terraform.parallelism", |it| {
                it.configuration.terraform.get_or_insert_default().parallelism = Some(0);
            }),
            ("attributes.configuration.pulumi.stack", |it| {
                it.configuration.pulumi.get_or_insert_default().stack = Some("--help".to_owned());
            }),
            ("attributes.configuration.ansible.playbook", |it| {
                it.configuration.ansible.get_or_insert_default().playbook = Some("../x.yaml".to_owned());
            }),
            ("attributes.jobSpec.namespace", |it| it.job.namespace = Some("kube-system".to_owned())),
            ("attributes.jobSpec.namespace", |it| it.job.namespace = Some("No Name".to_owned())),
            ("attributes.jobSpec.labels", |it| {
                it.job.labels.insert(String::new(), "x".to_owned());
            }),
            ("attributes.variables", |it| {
                it.variables.insert("a b".to_owned(), json!(1));
            }),
            ("attributes.variables", |it| {
                it.variables.insert("a".to_owned(), json!("x".repeat(MAX_FILE)));
            }),
            ("attributes.commands", |it| {
                it.commands.push(StackCommand {
                    cmd: "sh".to_owned(),
                    args: Vec::new(),
                    stage: None,
                    approve: false,
                });
            }),
        ];
        for (field, spoil) in rows {
            let mut spec = StackSpec::default();
            assert_eq!(fault(spec.check(StackTool::Terraform)), None);
            spoil(&mut spec);
            assert_eq!(fault(spec.check(StackTool::Terraform)).as_deref(), Some(field));
        }
        let managed = StackSpec { manage_state: true, ..StackSpec::default() };
        assert_eq!(fault(managed.check(StackTool::Terraform)), None);
        assert_eq!(fault(managed.check(StackTool::Ansible)).as_deref(), Some("attributes.manageState"));
        let endless = StackSpec { timeout_seconds: MAX_TIMEOUT + 1, ..StackSpec::default() };
        assert_eq!(fault(endless.check(StackTool::Terraform)).as_deref(), Some("attributes.timeout"));
    }

    #[test]
    fn an_environment_has_names_of_its_own() {
        for (name, good) in [
            ("AWS_REGION", true),
            ("_x1", true),
            ("TF_VAR_a", true),
            ("TF_HTTP_PASSWORD", false),
            ("tf_http_password", false),
            ("PLURAL_RUN_TOKEN", false),
            ("LD_PRELOAD", false),
            ("PATH", false),
            ("1A", false),
            ("A-B", false),
            ("A=B", false),
            ("", false),
        ] {
            let refused = check_environment(&[variable(name, "hidden-value")]);
            assert_eq!(refused.is_ok(), good, "{name}");
            if let Err(error) = refused {
                assert!(!error.to_string().contains("hidden-value"), "{error}");
            }
        }
        assert!(check_environment(&[variable("A", "1"), variable("A", "2")]).is_err());
        assert!(check_environment(&[variable("A", &"x".repeat(MAX_FILE + 1))]).is_err());
        assert!(check_environment(&[variable("A", "x\0y")]).is_err());
        let many = |count: usize, size: usize| -> Vec<InputVariable> {
            (0..count).map(|it| variable(&format!("A{it}"), &"x".repeat(size))).collect()
        };
        check_environment(&many(MAX_VARIABLES, 1)).unwrap();
        assert!(check_environment(&many(MAX_VARIABLES + 1, 1)).is_err());
        assert!(check_environment(&many(17, MAX_FILE)).is_err());
    }

    #[test]
    fn files_stay_in_the_folder() {
        let check =
            |path: &str, content: &str| check_files(&BTreeMap::from([(path.to_owned(), content.to_owned())]));
        for (path, good) in [
            ("a.tfvars", true),
            ("deep/er/key.pem", true),
            ("..", false),
            ("../a", false),
            ("a/../../b", false),
            ("/etc/passwd", false),
            ("~/.ssh/id", false),
            ("a\\b", false),
            ("", false),
            (".", false),
            ("a/", false),
            ("x/plural_backend_override.tf", false),
            ("plural.auto.tfvars.json", false),
            ("a/errored.tfstate", false),
            // Written as the name before the dot.
            ("errored.tfstate/.", false),
            ("main.tf/./.", false),
            ("./main.tf", true),
        ] {
            assert_eq!(check(path, "x").is_ok(), good, "{path:?}");
        }
        check("a", &"x".repeat(MAX_FILE)).unwrap();
        let refused = check("a", &"x".repeat(MAX_FILE + 1)).unwrap_err();
        assert_eq!(fault(Err(refused)).as_deref(), Some("attributes.files"));
        let many: BTreeMap<_, _> = (0..17).map(|it| (format!("f{it}"), "x".repeat(MAX_FILE))).collect();
        assert!(check_files(&many).is_err());
    }
}
