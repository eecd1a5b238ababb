//! What the runs of a stack are given: settings of its tool, commands, their Job. Each is laid over what is there.

use std::collections::BTreeMap;

use async_graphql::{ID, InputObject};
use plural_core::specs::Seconds;
use plural_core::stack_spec::{
    AnsibleConfiguration, JobSpec, JobToleration, PulumiConfiguration, StackApproval, StackCommand,
    StackConfiguration, StackHook, StackSpec, TerraformConfiguration, TerragruntConfiguration,
};
use plural_core::{Error, Result};
use plural_specs::Json;

use super::{
    error::{List, id_in, items, parse, unsupported},
    service_input::GitRefAttributes,
    stack_dependency::{self, StackDependencyAttributes},
    stack_policy::PolicyEngineAttributes,
    stack_spec::StepStage,
};

/// Settings of a stack's tool. What is absent stays as it is; an empty text ends it.
#[derive(Debug, InputObject)]
pub(crate) struct StackConfigurationAttributes {
    /// Image with the tool, without tag.
    image: Option<String>,
    /// Version of the tool: the image's tag unless `tag` is given.
    version: Option<String>,
    /// Tag of the image.
    tag: Option<String>,
    /// Commands between those of the tool; replaces the list.
    hooks: List<StackHookAttributes>,
    /// For Terraform and OpenTofu.
    terraform: Option<TerraformConfigurationAttributes>,
    /// For Terragrunt.
    terragrunt: Option<TerragruntConfigurationAttributes>,
    /// For Pulumi.
    pulumi: Option<PulumiConfigurationAttributes>,
    /// For Ansible.
    ansible: Option<AnsibleConfigurationAttributes>,
    /// Refused when enabled: plans are approved by people.
    ai_approval: Option<AiApprovalAttributes>,
}

/// A command that runs after a stage.
#[derive(Debug, InputObject)]
pub(crate) struct StackHookAttributes {
    /// Program.
    cmd: String,
    /// Its arguments.
    args: List<String>,
    /// After which stage.
    after_stage: StepStage,
}

/// Settings of Terraform and OpenTofu.
#[derive(Debug, InputObject)]
pub(crate) struct TerraformConfigurationAttributes {
    /// Operations at once.
    parallelism: Option<i32>,
    /// Look at the real world before planning.
    refresh: Option<bool>,
    /// A plan that changes nothing is approved by itself. It always is here.
    approve_empty: Option<bool>,
    /// `false` runs `terraform`, anything else `tofu`.
    tofu: Option<bool>,
    /// Refused when true: addresses of providers and modules stand as the code writes them.
    tofu_registry: Option<bool>,
}

/// Settings of Terragrunt.
#[derive(Debug, InputObject)]
pub(crate) struct TerragruntConfigurationAttributes {
    /// Operations at once.
    parallelism: Option<i32>,
    /// Look at the real world before planning.
    refresh: Option<bool>,
    /// A plan that changes nothing is approved by itself. It always is here.
    approve_empty: Option<bool>,
}

/// Settings of Pulumi.
#[derive(Debug, InputObject)]
pub(crate) struct PulumiConfigurationAttributes {
    /// Operations at once.
    parallel: Option<i32>,
    /// Look at the real world before planning.
    refresh: Option<bool>,
    /// A plan that changes nothing is approved by itself. It always is here.
    approve_empty: Option<bool>,
    /// Its stack; absent: `dev`.
    stack: Option<String>,
    /// Where its state is: the console keeps none for Pulumi.
    backend_url: Option<String>,
}

/// Settings of Ansible.
#[derive(Debug, InputObject)]
pub(crate) struct AnsibleConfigurationAttributes {
    /// Absent: `main.yaml`.
    playbook: Option<String>,
    /// Absent: Ansible's own.
    inventory: Option<String>,
    /// Further arguments of plan and apply; replaces the list.
    additional_args: List<String>,
    /// Path of a private key among the stack's files.
    private_key_file: Option<String>,
    /// Path of an `ansible.cfg`.
    config_file: Option<String>,
    /// The playbook understands `--check`.
    supports_check: Option<bool>,
    /// The playbook that undoes it.
    delete_playbook: Option<String>,
}

/// Approval by a program. Refused when enabled.
#[derive(Debug, InputObject)]
pub(crate) struct AiApprovalAttributes {
    /// `true` is refused.
    enabled: bool,
    /// Its refusals are ignored.
    ignore_cancel: bool,
    /// Where its instructions are.
    git: GitRefAttributes,
    /// The file of its instructions.
    file: String,
}

/// A command of a `CUSTOM` stack.
#[derive(Debug, InputObject)]
pub(crate) struct CustomStepAttributes {
    /// In which stage; absent: `APPLY`.
    stage: Option<StepStage>,
    /// Program.
    cmd: String,
    /// Its arguments.
    args: List<String>,
    /// A run with this command waits for people, whether the stack's plans do or not. Of the stages `APPLY` and `DESTROY`; absent: as the
    /// same command had it before.
    require_approval: Option<bool>,
}

/// The Kubernetes Job of a run. What is absent stays as it is; an empty text ends it.
#[derive(Debug, InputObject)]
pub(crate) struct GateJobAttributes {
    /// Namespace; absent: `plural-runs`.
    namespace: Option<String>,
    /// Refused: a Job is not given as text here.
    raw: Option<String>,
    /// Refused: the containers of a run are the console's.
    containers: List<ContainerAttributes>,
    /// Labels of the Job and its Pod: a JSON object of texts. Replaces those before.
    labels: Option<Json>,
    /// Annotations of the Job and its Pod: a JSON object of texts. Replaces those before.
    annotations: Option<Json>,
    /// Where it may run: a JSON object of texts. Replaces the one before.
    node_selector: Option<Json>,
    /// Taints that it stands; replaces the list.
    tolerations: List<PodTolerationAttributes>,
    /// The account of its Pod.
    service_account: Option<String>,
    /// What it asks of its node, and what it may take.
    resources: Option<ContainerResourcesAttributes>,
}

/// A container of a Job. Refused.
#[derive(Debug, InputObject)]
pub(crate) struct ContainerAttributes {
    /// Name.
    name: Option<String>,
    /// Image.
    image: String,
    /// Arguments.
    args: List<String>,
    /// Environment.
    env: List<EnvAttributes>,
    /// Environment out of Secrets and ConfigMaps.
    env_from: List<EnvFromAttributes>,
    /// What it asks for, and what it may take.
    resources: Option<ContainerResourcesAttributes>,
}

/// A variable of a container. Refused.
#[derive(InputObject)]
pub(crate) struct EnvAttributes {
    /// Name.
    name: String,
    /// Value.
    value: String,
}

impl std::fmt::Debug for EnvAttributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnvAttributes").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Where a container's environment comes from. Refused.
#[derive(Debug, InputObject)]
pub(crate) struct EnvFromAttributes {
    /// A Secret.
    secret: String,
    /// A ConfigMap.
    config_map: String,
}

/// What a run asks of its node, and what it may take.
#[derive(Debug, InputObject)]
pub(crate) struct ContainerResourcesAttributes {
    /// What it asks of its node.
    requests: Option<ResourceRequestAttributes>,
    /// What it may take.
    limits: Option<ResourceRequestAttributes>,
}

/// Quantities of Kubernetes; an empty text ends one.
#[derive(Debug, InputObject)]
pub(crate) struct ResourceRequestAttributes {
    /// Processor: `500m`.
    cpu: Option<String>,
    /// Memory: `512Mi`.
    memory: Option<String>,
}

/// A taint that a Pod stands.
#[derive(Debug, InputObject)]
pub(crate) struct PodTolerationAttributes {
    /// Key; absent: all.
    key: Option<String>,
    /// `Exists` or `Equal`.
    operator: Option<String>,
    /// Value.
    value: Option<String>,
    /// Effect; absent: all.
    effect: Option<String>,
}

/// What the runs of a stack are given.
pub(crate) struct SpecAttributes {
    pub(crate) job_spec: Option<GateJobAttributes>,
    pub(crate) configuration: Option<StackConfigurationAttributes>,
    pub(crate) approval: Option<bool>,
    pub(crate) required_approvals: Option<i32>,
    pub(crate) forbid_self_approval: Option<bool>,
    pub(crate) approval_expiry: Option<String>,
    pub(crate) command_approval: Option<bool>,
    pub(crate) manage_state: Option<bool>,
    pub(crate) workdir: Option<String>,
    pub(crate) timeout: Option<String>,
    pub(crate) variables: Option<Json>,
    pub(crate) commands: List<CustomStepAttributes>,
    pub(crate) delete_commands: List<CustomStepAttributes>,
    pub(crate) dependencies: List<StackDependencyAttributes>,
    pub(crate) policy_engine: Option<PolicyEngineAttributes>,
    pub(crate) definition_id: Option<ID>,
}

impl SpecAttributes {
    /// The document with what is given.
    pub(crate) fn over(self, mut spec: StackSpec) -> Result<StackSpec> {
        let Self {
            job_spec,
            configuration,
            approval,
            required_approvals,
            forbid_self_approval,
            approval_expiry,
            command_approval,
            manage_state,
            workdir,
            timeout,
            variables,
            commands,
            delete_commands,
            dependencies,
            policy_engine,
            definition_id,
        } = self;
        let StackApproval { required, approvers, forbid_self, expires_seconds, commands: waits } =
            &mut spec.approval;
        set(required, approval);
        set(approvers, count("attributes.requiredApprovals", required_approvals)?);
        set(forbid_self, forbid_self_approval);
        set(waits, command_approval);
        set(expires_seconds, time("attributes.approvalExpiry", approval_expiry)?);
        set(&mut spec.manage_state, manage_state);
        set(&mut spec.workdir, workdir);
        set(&mut spec.timeout_seconds, time("attributes.timeout", timeout)?);
        if let Some(variables) = variables {
            spec.variables = variables.object("attributes.variables")?.unwrap_or_default();
        }
        let commands = steps(commands, &spec.commands);
        set(&mut spec.commands, commands);
        let delete_commands = steps(delete_commands, &spec.delete_commands);
        set(&mut spec.delete_commands, delete_commands);
        let dependencies = stack_dependency::dependencies(dependencies, &spec.dependencies)?;
        set(&mut spec.dependencies, dependencies);
        if let Some(policy) = policy_engine {
            spec.policy = policy.parse()?;
        }
        if let Some(definition) = definition_id {
            let named = Some(definition).filter(|id| !id.is_empty());
            spec.definition_id = id_in("attributes.definitionId", named.as_deref())?;
        }
        if let Some(job) = job_spec {
            job.over(&mut spec.job)?;
        }
        if let Some(configuration) = configuration {
            configuration.over(&mut spec.configuration)?;
        }
        Ok(spec)
    }
}

/// What is given is set.
fn set<T>(is: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *is = given;
    }
}

/// The same of what may be absent: it is not ended so.
fn put<T>(is: &mut Option<T>, given: Option<T>) {
    if given.is_some() {
        *is = given;
    }
}

/// A text that is given is set, and an empty one ends it.
fn word(is: &mut Option<String>, given: Option<String>) {
    if let Some(given) = given {
        *is = Some(given).filter(|text| !text.is_empty());
    }
}

fn count(field: &'static str, given: Option<i32>) -> Result<Option<u32>> {
    let count = |number: i32| {
        u32::try_from(number).map_err(|_| Error::invalid(field, "must be a number that is not negative"))
    };
    given.map(count).transpose()
}

/// A time in seconds; 0 of an empty text.
fn time(field: &'static str, given: Option<String>) -> Result<Option<u64>> {
    let seconds = |text: String| match text.as_str() {
        "" => Ok(0),
        text => parse(field, text).map(|Seconds(seconds)| u64::from(seconds)),
    };
    given.map(seconds).transpose()
}

/// The commands of a list; none where there is no list. One that does not say whether it waits for people does as it did in `was`: who
/// edits the others does not take that away.
pub(super) fn steps(list: List<CustomStepAttributes>, was: &[StackCommand]) -> Option<Vec<StackCommand>> {
    let step = |CustomStepAttributes { stage, cmd, args, require_approval }| {
        let args = items(args).unwrap_or_default();
        let asked = || was.iter().any(|one| one.approve && one.cmd == cmd && one.args == args);
        let approve = require_approval.unwrap_or_else(asked);
        StackCommand { cmd, args, stage: stage.map(Into::into), approve }
    };
    Some(items(list)?.into_iter().map(step).collect())
}

impl StackConfigurationAttributes {
    pub(super) fn over(self, is: &mut StackConfiguration) -> Result<()> {
        let Self { image, version, tag, hooks, terraform, terragrunt, pulumi, ansible, ai_approval } = self;
        if let Some(AiApprovalAttributes { enabled, ignore_cancel: _, git: _, file: _ }) = ai_approval {
            unsupported(
                "attributes.configuration.aiApproval",
                enabled,
                "is not supported: plans are approved by people. Leave it out",
            )?;
        }
        word(&mut is.image, image);
        word(&mut is.version, version);
        word(&mut is.tag, tag);
        if let Some(hooks) = items(hooks) {
            let hook = |StackHookAttributes { cmd, args, after_stage }| StackHook {
                cmd,
                args: items(args).unwrap_or_default(),
                after_stage: after_stage.into(),
            };
            is.hooks = hooks.into_iter().map(hook).collect();
        }
        if let Some(terraform) = terraform {
            terraform.over(is.terraform.get_or_insert_default())?;
        }
        if let Some(terragrunt) = terragrunt {
            terragrunt.over(is.terragrunt.get_or_insert_default())?;
        }
        if let Some(pulumi) = pulumi {
            pulumi.over(is.pulumi.get_or_insert_default())?;
        }
        if let Some(ansible) = ansible {
            ansible.over(is.ansible.get_or_insert_default());
        }
        Ok(())
    }
}

impl TerraformConfigurationAttributes {
    pub(super) fn over(self, is: &mut TerraformConfiguration) -> Result<()> {
        let Self { parallelism, refresh, approve_empty, tofu, tofu_registry } = self;
        put(&mut is.parallelism, count("attributes.configuration.terraform.parallelism", parallelism)?);
        put(&mut is.refresh, refresh);
        put(&mut is.approve_empty, approve_empty);
        put(&mut is.tofu, tofu);
        unsupported(
            "attributes.configuration.terraform.tofuRegistry",
            tofu_registry.unwrap_or_default(),
            "is not supported: the code, or a file of the stack with the tool's settings, names its registry. Leave it out",
        )?;
        put(&mut is.tofu_registry, tofu_registry);
        Ok(())
    }
}

impl TerragruntConfigurationAttributes {
    pub(super) fn over(self, is: &mut TerragruntConfiguration) -> Result<()> {
        let Self { parallelism, refresh, approve_empty } = self;
        put(&mut is.parallelism, count("attributes.configuration.terragrunt.parallelism", parallelism)?);
        put(&mut is.refresh, refresh);
        put(&mut is.approve_empty, approve_empty);
        Ok(())
    }
}

impl PulumiConfigurationAttributes {
    pub(super) fn over(self, is: &mut PulumiConfiguration) -> Result<()> {
        let Self { parallel, refresh, approve_empty, stack, backend_url } = self;
        put(&mut is.parallel, count("attributes.configuration.pulumi.parallel", parallel)?);
        put(&mut is.refresh, refresh);
        put(&mut is.approve_empty, approve_empty);
        word(&mut is.stack, stack);
        word(&mut is.backend_url, backend_url);
        Ok(())
    }
}

impl AnsibleConfigurationAttributes {
    fn over(self, is: &mut AnsibleConfiguration) {
        let Self {
            playbook,
            inventory,
            additional_args,
            private_key_file,
            config_file,
            supports_check,
            delete_playbook,
        } = self;
        word(&mut is.playbook, playbook);
        word(&mut is.inventory, inventory);
        set(&mut is.additional_args, items(additional_args));
        word(&mut is.private_key_file, private_key_file);
        word(&mut is.config_file, config_file);
        put(&mut is.supports_check, supports_check);
        word(&mut is.delete_playbook, delete_playbook);
    }
}

impl GateJobAttributes {
    pub(super) fn over(self, is: &mut JobSpec) -> Result<()> {
        let Self {
            namespace,
            raw,
            containers,
            labels,
            annotations,
            node_selector,
            tolerations,
            service_account,
            resources,
        } = self;
        unsupported(
            "attributes.jobSpec.raw",
            raw.is_some_and(|raw| !raw.is_empty()),
            "is not supported: give namespace, labels, nodeSelector, tolerations, serviceAccount and resources",
        )?;
        unsupported(
            "attributes.jobSpec.containers",
            items(containers).is_some_and(|containers| !containers.is_empty()),
            "is not supported: the containers of a run are the console's. Name the tool's image in configuration.image, and \
             variables in environment",
        )?;
        word(&mut is.namespace, namespace);
        set(&mut is.labels, texts("attributes.jobSpec.labels", labels)?);
        set(&mut is.annotations, texts("attributes.jobSpec.annotations", annotations)?);
        set(&mut is.node_selector, texts("attributes.jobSpec.nodeSelector", node_selector)?);
        if let Some(tolerations) = items(tolerations) {
            let toleration = |PodTolerationAttributes { key, operator, value, effect }| JobToleration {
                key,
                operator,
                value,
                effect,
            };
            is.tolerations = tolerations.into_iter().map(toleration).collect();
        }
        word(&mut is.service_account, service_account);
        if let Some(ContainerResourcesAttributes { requests, limits }) = resources {
            quantities(&mut is.requests, requests);
            quantities(&mut is.limits, limits);
        }
        Ok(())
    }
}

fn quantities(is: &mut BTreeMap<String, String>, given: Option<ResourceRequestAttributes>) {
    let Some(ResourceRequestAttributes { cpu, memory }) = given else { return };
    for (name, quantity) in [("cpu", cpu), ("memory", memory)] {
        match quantity {
            None => {}
            Some(quantity) if quantity.is_empty() => drop(is.remove(name)),
            Some(quantity) => drop(is.insert(name.to_owned(), quantity)),
        }
    }
}

/// The texts of a JSON object; `None` when nothing was given.
fn texts(field: &'static str, given: Option<Json>) -> Result<Option<BTreeMap<String, String>>> {
    given.map_or(Ok(None), |json| Ok(json.texts(field)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> SpecAttributes {
        SpecAttributes {
            job_spec: None,
            configuration: None,
            approval: None,
            required_approvals: None,
            forbid_self_approval: None,
            approval_expiry: None,
            command_approval: None,
            manage_state: None,
            workdir: None,
            timeout: None,
            variables: None,
            commands: None,
            delete_commands: None,
            dependencies: None,
            policy_engine: None,
            definition_id: None,
        }
    }

    fn stands(tofu: Option<bool>, parallelism: Option<i32>) -> StackConfigurationAttributes {
        StackConfigurationAttributes {
            image: None,
            version: Some(String::new()),
            tag: None,
            hooks: None,
            terraform: Some(TerraformConfigurationAttributes {
                parallelism,
                refresh: None,
                approve_empty: None,
                tofu,
                tofu_registry: None,
            }),
            terragrunt: None,
            pulumi: None,
            ansible: None,
            ai_approval: None,
        }
    }

    #[test]
    fn what_is_absent_stays_and_an_empty_text_ends_it() {
        let mut spec = StackSpec::default();
        spec.configuration.version = Some("1.12".to_owned());
        spec.configuration.image = Some("tools/tofu".to_owned());
        spec.approval.expires_seconds = 60;
        assert_eq!(nothing().over(spec.clone()).unwrap(), spec);
        let changed = SpecAttributes {
            configuration: Some(stands(Some(false), Some(3))),
            approval_expiry: Some(String::new()),
            ..nothing()
        };
        let changed = changed.over(spec).unwrap();
        assert_eq!(changed.configuration.version, None);
        assert_eq!(changed.configuration.image.as_deref(), Some("tools/tofu"));
        assert_eq!(changed.approval.expires_seconds, 0);
        let again = SpecAttributes { configuration: Some(stands(None, None)), ..nothing() };
        let terraform = again.over(changed).unwrap().configuration.terraform.unwrap();
        assert_eq!((terraform.tofu, terraform.parallelism), (Some(false), Some(3)));
    }

    #[test]
    fn a_command_waits_as_before_where_nothing_is_said_of_it() {
        let given = |cmd: &str, require_approval| {
            let step =
                CustomStepAttributes { stage: None, cmd: cmd.to_owned(), args: None, require_approval };
            Some(vec![Some(step)])
        };
        let command =
            |cmd: &str, approve| StackCommand { cmd: cmd.to_owned(), args: Vec::new(), stage: None, approve };
        let was = [command("push", true), command("look", false)];
        for (cmd, said, waits) in [
            ("push", None, true),
            ("push", Some(false), false),
            ("look", None, false),
            ("look", Some(true), true),
            ("other", None, false),
        ] {
            assert_eq!(steps(given(cmd, said), &was), Some(vec![command(cmd, waits)]), "{cmd} {said:?}");
        }
        assert_eq!(steps(None, &was), None);
    }

    #[test]
    fn times_and_counts_are_read() {
        assert_eq!(time("a", Some("90m".to_owned())).unwrap(), Some(5400));
        assert_eq!(time("a", None).unwrap(), None);
        assert!(time("a", Some("soon".to_owned())).is_err());
        assert!(count("a", Some(-1)).is_err());
    }
}
