//! The spec of a stack: where its code is, and which tool runs it and how. One document, stored as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fleet_plan::RunPreview;
use crate::ids::{StackDefinitionId, UserId};
use crate::stack_cron::{StackCron, StackDriftSettings};
use crate::stack_dependency::StackDependency;
use crate::stack_exec::ExecCommands;
use crate::stack_policy_rules::StackPolicy;
use crate::stack_pull_request::RunPullRequest;
use crate::stack_settings::JobDefaults;

/// The spec of a stack. Its environment and files are sealed, and stored elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StackSpec {
    /// Working folder of the tool, below the folder in git; "" for that folder itself.
    pub workdir: String,
    /// The console holds the state of the tool, and gives its address to each run.
    pub manage_state: bool,
    /// Who has to approve a plan before it is applied.
    pub approval: StackApproval,
    /// Settings of the tool.
    pub configuration: StackConfiguration,
    /// The Kubernetes Job of a run.
    pub job: JobSpec,
    /// The commands of a `CUSTOM` stack: those of the stage `plan` are the plan, those of `apply` the rest.
    pub commands: Vec<StackCommand>,
    /// The commands that undo a `CUSTOM` stack.
    pub delete_commands: Vec<StackCommand>,
    /// Variables for the tool, passed in its own way: a `plural.auto.tfvars.json`, `--extra-vars`, `pulumi config`.
    pub variables: serde_json::Map<String, serde_json::Value>,
    /// Time limit of a command, in seconds; 0: one hour.
    pub timeout_seconds: u64,
    /// The stacks that it depends on, and what it takes from them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<StackDependency>,
    /// The schedule of its runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<StackCron>,
    /// The settings of its drift detection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<StackDriftSettings>,
    /// The identity of its applies at the console's API: whoever saves the stack, or a service account that they may assume. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<UserId>,
    /// The policy that checks its plans, besides the rules of its project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<StackPolicy>,
    /// The definition that a `CUSTOM` stack takes its commands from, instead of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition_id: Option<StackDefinitionId>,
    /// In the snapshot of a run: the commands that a user started it with. A stack has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecCommands>,
    /// In the snapshot of a run: the pull request that it plans. A stack has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<RunPullRequest>,
    /// In the snapshot of a run: the preview that it plans, with its code. A stack has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<RunPreview>,
    /// In the snapshot of a run: the Job settings of its project and the installation when it was created. A stack has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_defaults: Option<Box<JobDefaults>>,
}

/// Who has to approve a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StackApproval {
    /// A plan with changes waits for approval.
    pub required: bool,
    /// How many people have to approve; 0 means 1.
    pub approvers: u32,
    /// Whoever started the run or last changed the stack may not approve.
    pub forbid_self: bool,
    /// An approval and a waiting plan expire after this many seconds; 0: never.
    pub expires_seconds: u64,
    /// If plans wait for approval, commands that a user gives wait as well, whatever they say themselves.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub commands: bool,
}

impl StackApproval {
    /// Whether it applies plans that would wait under `other`.
    pub fn is_looser_than(&self, other: &Self) -> bool {
        let Self { required, approvers, forbid_self, expires_seconds, commands } = *self;
        let wait = |seconds: u64| if seconds == 0 { u64::MAX } else { seconds };
        other.required
            && (!required
                || approvers.max(1) < other.approvers.max(1)
                || (other.forbid_self && !forbid_self)
                || (other.commands && !commands)
                || wait(expires_seconds) > wait(other.expires_seconds))
    }
}

/// Settings of the tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StackConfiguration {
    /// Image with the tool, without tag; absent: the default of the tool.
    pub image: Option<String>,
    /// Version of the tool: the image's tag unless `tag` is given.
    pub version: Option<String>,
    /// Tag of the image.
    pub tag: Option<String>,
    /// Commands that run between those of the tool.
    pub hooks: Vec<StackHook>,
    /// For Terraform and OpenTofu.
    pub terraform: Option<TerraformConfiguration>,
    /// For Terragrunt.
    pub terragrunt: Option<TerragruntConfiguration>,
    /// For Pulumi.
    pub pulumi: Option<PulumiConfiguration>,
    /// For Ansible.
    pub ansible: Option<AnsibleConfiguration>,
}

/// A command that runs after a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StackHook {
    /// Program.
    pub cmd: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// The stage that it runs after.
    pub after_stage: Stage,
}

/// A command of a `CUSTOM` stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StackCommand {
    /// Program.
    pub cmd: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Its stage; absent: `apply`.
    #[serde(default)]
    pub stage: Option<Stage>,
    /// A run with this command waits for approval, whether the stack's plans do or not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approve: bool,
}

/// The stages of a run, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Fetch what the code refers to.
    Init,
    /// Compute the changes.
    Plan,
    /// Check the plan.
    Verify,
    /// Apply the changes.
    Apply,
    /// Destroy all resources.
    Destroy,
}

impl Stage {
    /// All stages.
    pub const ALL: [Self; 5] = [Self::Init, Self::Plan, Self::Verify, Self::Apply, Self::Destroy];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Plan => "plan",
            Self::Verify => "verify",
            Self::Apply => "apply",
            Self::Destroy => "destroy",
        }
    }

    /// The stage of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == word)
    }
}

/// Settings of Terraform and OpenTofu.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TerraformConfiguration {
    /// Limit of concurrent operations.
    pub parallelism: Option<u32>,
    /// Refresh the state before planning; absent: yes.
    pub refresh: Option<bool>,
    /// A plan without changes needs no approval. Here that is always so.
    pub approve_empty: Option<bool>,
    /// Run `tofu`; absent: yes. `false` runs `terraform`.
    pub tofu: Option<bool>,
    /// Only `false` is accepted; an earlier build accepted `true`, without effect.
    pub tofu_registry: Option<bool>,
}

/// Settings of Terragrunt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TerragruntConfiguration {
    /// Limit of concurrent operations.
    pub parallelism: Option<u32>,
    /// Refresh the state before planning; absent: yes.
    pub refresh: Option<bool>,
    /// As for Terraform.
    pub approve_empty: Option<bool>,
}

/// Settings of Pulumi.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PulumiConfiguration {
    /// Limit of concurrent operations.
    pub parallel: Option<u32>,
    /// Refresh the state before planning.
    pub refresh: Option<bool>,
    /// As for Terraform.
    pub approve_empty: Option<bool>,
    /// Its Pulumi stack; absent: `dev`.
    pub stack: Option<String>,
    /// Backend of its state. The console holds no state for Pulumi: it refuses a run without one.
    pub backend_url: Option<String>,
}

/// Settings of Ansible.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AnsibleConfiguration {
    /// Absent: `main.yaml`.
    pub playbook: Option<String>,
    /// Absent: Ansible's default.
    pub inventory: Option<String>,
    /// Further arguments of both runs.
    pub additional_args: Vec<String>,
    /// Path of a private key among the stack's files.
    pub private_key_file: Option<String>,
    /// Path of an `ansible.cfg`.
    pub config_file: Option<String>,
    /// The playbook supports `--check`; absent: yes. Otherwise the plan only says that it cannot tell.
    pub supports_check: Option<bool>,
    /// The playbook that undoes it: a stack without one cannot be destroyed.
    pub delete_playbook: Option<String>,
}

/// The Kubernetes Job of a run. The agent has defaults for what is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    /// Namespace; absent: `plural-runs`.
    pub namespace: Option<String>,
    /// Labels of the Job and its Pod.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Job and its Pod.
    pub annotations: BTreeMap<String, String>,
    /// Node selector.
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations.
    pub tolerations: Vec<JobToleration>,
    /// Service account of its Pod.
    pub service_account: Option<String>,
    /// Resource requests, "cpu" and "memory" with Kubernetes' quantities.
    pub requests: BTreeMap<String, String>,
    /// Resource limits.
    pub limits: BTreeMap<String, String>,
}

impl JobSpec {
    /// The service account that it names, with its namespace; none for `default`, which every namespace has and which stands for nobody.
    pub fn account(&self) -> Option<(Option<&str>, &str)> {
        let account =
            self.service_account.as_deref().filter(|name| !name.is_empty() && *name != "default")?;
        Some((self.namespace.as_deref().filter(|name| !name.is_empty()), account))
    }
}

/// A toleration of a run's Pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobToleration {
    /// Key; absent: all.
    pub key: Option<String>,
    /// `Exists` or `Equal`.
    pub operator: Option<String>,
    /// Value.
    pub value: Option<String>,
    /// Effect; absent: all.
    pub effect: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lets_a_plan_through_is_looser() {
        let asks = StackApproval {
            required: true,
            approvers: 2,
            forbid_self: true,
            expires_seconds: 60,
            commands: true,
        };
        for looser in [
            StackApproval { required: false, ..asks.clone() },
            StackApproval { approvers: 1, ..asks.clone() },
            StackApproval { approvers: 0, ..asks.clone() },
            StackApproval { forbid_self: false, ..asks.clone() },
            StackApproval { commands: false, ..asks.clone() },
            StackApproval { expires_seconds: 61, ..asks.clone() },
            StackApproval { expires_seconds: 0, ..asks.clone() },
        ] {
            assert!(looser.is_looser_than(&asks), "{looser:?}");
            assert!(!asks.is_looser_than(&looser), "{looser:?}");
        }
        assert!(!asks.is_looser_than(&asks));
        // 0 and 1 approvers are the same; and if no approval was required, nothing is looser.
        let one = StackApproval { approvers: 1, ..asks.clone() };
        assert!(!StackApproval { approvers: 0, ..asks.clone() }.is_looser_than(&one));
        assert!(!StackApproval::default().is_looser_than(&StackApproval { required: false, ..asks }));
    }

    #[test]
    fn an_account_is_one_of_a_namespace() {
        let of = |namespace: Option<&str>, account: Option<&str>| JobSpec {
            namespace: namespace.map(str::to_owned),
            service_account: account.map(str::to_owned),
            ..JobSpec::default()
        };
        for nobody in [None, Some(""), Some("default")] {
            assert_eq!(of(Some("a"), nobody).account(), None);
        }
        assert_eq!(of(Some("a"), Some("tofu")).account(), Some((Some("a"), "tofu")));
        assert_eq!(of(Some(""), Some("tofu")).account(), Some((None, "tofu")));
    }

    /// The digest of plans that wait for approval was computed without the field.
    #[test]
    fn what_is_not_asked_for_is_stored_as_before() {
        let json = serde_json::to_value(StackApproval::default()).unwrap();
        assert!(json.get("commands").is_none(), "{json}");
        let all = serde_json::to_value(StackApproval { commands: true, ..StackApproval::default() }).unwrap();
        assert_eq!(all["commands"], true);
    }
}
