//! What a stack is made of, as it is read: settings of its tool, commands, the Job of its runs.

use async_graphql::{Enum, SimpleObject};
use plural_core::stack_spec::{
    AnsibleConfiguration as CoreAnsible, JobSpec, JobToleration, PulumiConfiguration as CorePulumi,
    StackCommand as CoreCommand, StackConfiguration as CoreConfiguration, StackHook as CoreHook,
    TerraformConfiguration as CoreTerraform, TerragruntConfiguration as CoreTerragrunt,
};
use plural_specs::Map;

use super::{
    error::{List, list},
    page::counted,
};

/// What a step of a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack_spec::Stage")]
pub(crate) enum StepStage {
    /// Get what the code names.
    Init,
    /// Say what would change.
    Plan,
    /// Check the plan.
    Verify,
    /// Change it.
    Apply,
    /// Take everything away.
    Destroy,
}

/// The settings of a stack's tool.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackConfiguration {
    /// Image with the tool, without tag; absent: the one of its type.
    image: Option<String>,
    /// Version of the tool: the image's tag unless `tag` is given.
    version: Option<String>,
    /// Tag of the image.
    tag: Option<String>,
    /// Commands between those of the tool.
    hooks: List<StackHook>,
    /// For Terraform and OpenTofu.
    terraform: Option<TerraformConfiguration>,
    /// For Terragrunt.
    terragrunt: Option<TerragruntConfiguration>,
    /// For Pulumi.
    pulumi: Option<PulumiConfiguration>,
    /// For Ansible.
    ansible: Option<AnsibleConfiguration>,
}

impl From<CoreConfiguration> for StackConfiguration {
    fn from(of: CoreConfiguration) -> Self {
        let CoreConfiguration { image, version, tag, hooks, terraform, terragrunt, pulumi, ansible } = of;
        Self {
            image,
            version,
            tag,
            hooks: list(hooks.into_iter().map(StackHook::from)),
            terraform: terraform.map(Into::into),
            terragrunt: terragrunt.map(Into::into),
            pulumi: pulumi.map(Into::into),
            ansible: ansible.map(Into::into),
        }
    }
}

/// A command that runs after a stage.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackHook {
    /// Program.
    cmd: String,
    /// Its arguments.
    args: List<String>,
    /// After which stage.
    after_stage: StepStage,
}

impl From<CoreHook> for StackHook {
    fn from(hook: CoreHook) -> Self {
        let CoreHook { cmd, args, after_stage } = hook;
        Self { cmd, args: list(args), after_stage: after_stage.into() }
    }
}

/// Settings of Terraform and OpenTofu.
#[derive(Debug, SimpleObject)]
pub(crate) struct TerraformConfiguration {
    /// Operations at once.
    parallelism: Option<i32>,
    /// Look at the real world before planning; absent: yes.
    refresh: Option<bool>,
    /// A plan that changes nothing is approved by itself. It always is here.
    approve_empty: Option<bool>,
    /// `false` runs `terraform`, anything else `tofu`.
    tofu: Option<bool>,
    /// Nothing but `false` can be given: the code, or a file of the stack, names its registry.
    tofu_registry: Option<bool>,
}

impl From<CoreTerraform> for TerraformConfiguration {
    fn from(of: CoreTerraform) -> Self {
        let CoreTerraform { parallelism, refresh, approve_empty, tofu, tofu_registry } = of;
        Self { parallelism: parallelism.map(number), refresh, approve_empty, tofu, tofu_registry }
    }
}

/// Settings of Terragrunt.
#[derive(Debug, SimpleObject)]
pub(crate) struct TerragruntConfiguration {
    /// Operations at once.
    parallelism: Option<i32>,
    /// Look at the real world before planning; absent: yes.
    refresh: Option<bool>,
    /// A plan that changes nothing is approved by itself. It always is here.
    approve_empty: Option<bool>,
}

impl From<CoreTerragrunt> for TerragruntConfiguration {
    fn from(of: CoreTerragrunt) -> Self {
        let CoreTerragrunt { parallelism, refresh, approve_empty } = of;
        Self { parallelism: parallelism.map(number), refresh, approve_empty }
    }
}

/// Settings of Pulumi.
#[derive(Debug, SimpleObject)]
pub(crate) struct PulumiConfiguration {
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

impl From<CorePulumi> for PulumiConfiguration {
    fn from(of: CorePulumi) -> Self {
        let CorePulumi { parallel, refresh, approve_empty, stack, backend_url } = of;
        Self { parallel: parallel.map(number), refresh, approve_empty, stack, backend_url }
    }
}

/// Settings of Ansible.
#[derive(Debug, SimpleObject)]
pub(crate) struct AnsibleConfiguration {
    /// Absent: `main.yaml`.
    playbook: Option<String>,
    /// Absent: Ansible's own.
    inventory: Option<String>,
    /// Further arguments of plan and apply.
    additional_args: List<String>,
    /// Path of a private key among the stack's files.
    private_key_file: Option<String>,
    /// Path of an `ansible.cfg`.
    config_file: Option<String>,
    /// The playbook understands `--check`; absent: yes.
    supports_check: Option<bool>,
    /// The playbook that undoes it.
    delete_playbook: Option<String>,
}

impl From<CoreAnsible> for AnsibleConfiguration {
    fn from(of: CoreAnsible) -> Self {
        let CoreAnsible {
            playbook,
            inventory,
            additional_args,
            private_key_file,
            config_file,
            supports_check,
            delete_playbook,
        } = of;
        Self {
            playbook,
            inventory,
            additional_args: list(additional_args),
            private_key_file,
            config_file,
            supports_check,
            delete_playbook,
        }
    }
}

/// A command of a `CUSTOM` stack.
#[derive(Debug, SimpleObject)]
pub(crate) struct CustomRunStep {
    /// Program.
    cmd: String,
    /// Its arguments.
    args: List<String>,
    /// In which stage.
    stage: StepStage,
    /// A run with this command waits for people, whether the stack's plans do or not.
    require_approval: Option<bool>,
}

impl From<CoreCommand> for CustomRunStep {
    fn from(command: CoreCommand) -> Self {
        let CoreCommand { cmd, args, stage, approve } = command;
        let stage = stage.map_or(StepStage::Apply, StepStage::from);
        Self { cmd, args: list(args), stage, require_approval: Some(approve) }
    }
}

/// The Kubernetes Job of a run. What is absent is the agent's own.
#[derive(Debug, SimpleObject)]
pub(crate) struct JobGateSpec {
    /// Namespace; absent: `plural-runs`.
    namespace: Option<String>,
    /// Always absent: a Job is not given as text here.
    raw: Option<String>,
    /// Always absent: the containers of a run are the console's.
    containers: List<ContainerSpec>,
    /// Labels of the Job and its Pod.
    labels: Option<Map>,
    /// Annotations of the Job and its Pod.
    annotations: Option<Map>,
    /// Where it may run.
    node_selector: Option<Map>,
    /// Taints that it stands.
    tolerations: List<PodToleration>,
    /// The account of its Pod.
    service_account: Option<String>,
    /// What it asks of its node, and what it may take.
    requests: Option<ContainerResources>,
}

impl From<JobSpec> for JobGateSpec {
    fn from(job: JobSpec) -> Self {
        let JobSpec {
            namespace,
            labels,
            annotations,
            node_selector,
            tolerations,
            service_account,
            requests,
            limits,
        } = job;
        let resources = |mut of: std::collections::BTreeMap<String, String>| ResourceRequest {
            cpu: of.remove("cpu"),
            memory: of.remove("memory"),
        };
        Self {
            namespace,
            raw: None,
            containers: None,
            labels: Some(labels.into()),
            annotations: Some(annotations.into()),
            node_selector: Some(node_selector.into()),
            tolerations: list(tolerations.into_iter().map(PodToleration::from)),
            service_account,
            requests: Some(ContainerResources {
                requests: Some(resources(requests)),
                limits: Some(resources(limits)),
            }),
        }
    }
}

/// A container of a Job.
#[derive(Debug, SimpleObject)]
pub(crate) struct ContainerSpec {
    /// Name.
    name: Option<String>,
    /// Image.
    image: String,
    /// Arguments.
    args: List<String>,
    /// Environment.
    env: List<ContainerEnv>,
    /// Environment out of Secrets and ConfigMaps.
    env_from: List<ContainerEnvFrom>,
}

/// A variable of a container.
#[derive(Debug, SimpleObject)]
pub(crate) struct ContainerEnv {
    /// Name.
    name: String,
    /// Value.
    value: String,
}

/// Where a container's environment comes from.
#[derive(Debug, SimpleObject)]
pub(crate) struct ContainerEnvFrom {
    /// A ConfigMap.
    config_map: String,
    /// A Secret.
    secret: String,
}

/// What a container asks for, and what it may take.
#[derive(Debug, SimpleObject)]
pub(crate) struct ContainerResources {
    /// What it asks of its node.
    requests: Option<ResourceRequest>,
    /// What it may take.
    limits: Option<ResourceRequest>,
}

/// Quantities of Kubernetes.
#[derive(Debug, SimpleObject)]
pub(crate) struct ResourceRequest {
    /// Processor.
    cpu: Option<String>,
    /// Memory.
    memory: Option<String>,
}

/// A taint that a Pod stands.
#[derive(Debug, SimpleObject)]
pub(crate) struct PodToleration {
    /// Key; absent: all.
    key: Option<String>,
    /// `Exists` or `Equal`.
    operator: Option<String>,
    /// Value.
    value: Option<String>,
    /// Effect; absent: all.
    effect: Option<String>,
}

impl From<JobToleration> for PodToleration {
    fn from(toleration: JobToleration) -> Self {
        let JobToleration { key, operator, value, effect } = toleration;
        Self { key, operator, value, effect }
    }
}

fn number(of: u32) -> i32 {
    counted(of.into())
}
