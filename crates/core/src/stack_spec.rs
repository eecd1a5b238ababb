//! What a stack is made of: where its code is, which tool runs it and how. One document, stored as JSON.

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

/// What a stack is made of. Its environment and files are sealed, and elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StackSpec {
    /// Folder below the one in git in which the tool runs; "" for that itself.
    pub workdir: String,
    /// The console keeps the state of the tool, and gives each run the address of it.
    pub manage_state: bool,
    /// Who has to agree to a plan before it is applied.
    pub approval: StackApproval,
    /// The tool's own settings.
    pub configuration: StackConfiguration,
    /// The Kubernetes Job of a run.
    pub job: JobSpec,
    /// The commands of a `CUSTOM` stack: those of the stage `plan` are the plan, those of `apply` the rest.
    pub commands: Vec<StackCommand>,
    /// The commands that undo a `CUSTOM` stack.
    pub delete_commands: Vec<StackCommand>,
    /// Given to the tool in its own way: a `plural.auto.tfvars.json`, `--extra-vars`, `pulumi config`.
    pub variables: serde_json::Map<String, serde_json::Value>,
    /// Commands longer than this are ended, in seconds; 0: one hour.
    pub timeout_seconds: u64,
    /// The stacks that it depends on, and what it takes from them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<StackDependency>,
    /// When the clock makes runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<StackCron>,
    /// How it is looked at for drift.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<StackDriftSettings>,
    /// In whose name its applies ask the console: whoever saves it, or a service account that they may assume. Absent: in nobody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<UserId>,
    /// What its plans are checked by, besides the rules of its project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<StackPolicy>,
    /// What gives a `CUSTOM` stack its commands, in place of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition_id: Option<StackDefinitionId>,
    /// Of a run that somebody made with commands: these. A stack has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecCommands>,
    /// Of a run that plans a pull request: which. A stack has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<RunPullRequest>,
    /// Of a run that plans a preview: which, and its code. A stack has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<RunPreview>,
    /// Of a run: what its project and the installation said of its Job when it was made. A stack has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_defaults: Option<Box<JobDefaults>>,
}

/// Who has to agree to a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StackApproval {
    /// A plan with changes waits for people.
    pub required: bool,
    /// How many people; 0 and 1 are one.
    pub approvers: u32,
    /// Whoever started the run or last changed the stack is none of them.
    pub forbid_self: bool,
    /// An approval and a waiting plan end after so many seconds; 0: never.
    pub expires_seconds: u64,
    /// Where plans wait for people, commands that somebody gives wait, too, whether they say so or not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub commands: bool,
}

impl StackApproval {
    /// Whether plans are applied under it that wait under `other`.
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

/// The tool's own settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StackConfiguration {
    /// Image with the tool, without tag; else the one of the type.
    pub image: Option<String>,
    /// Version of the tool: the image's tag unless `tag` is given.
    pub version: Option<String>,
    /// Tag of the image.
    pub tag: Option<String>,
    /// Commands between those of the tool.
    pub hooks: Vec<StackHook>,
    /// Of Terraform and OpenTofu.
    pub terraform: Option<TerraformConfiguration>,
    /// Of Terragrunt.
    pub terragrunt: Option<TerragruntConfiguration>,
    /// Of Pulumi.
    pub pulumi: Option<PulumiConfiguration>,
    /// Of Ansible.
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
    /// After which stage.
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
    /// In which stage; commands without one are of `apply`.
    #[serde(default)]
    pub stage: Option<Stage>,
    /// A run with this command waits for people, whether the stack's plans do or not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approve: bool,
}

/// What a step of a run is for. In this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
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
    /// Operations at once.
    pub parallelism: Option<u32>,
    /// Look at the real world before planning; absent: yes.
    pub refresh: Option<bool>,
    /// A plan that changes nothing is approved by itself. It always is here.
    pub approve_empty: Option<bool>,
    /// Run `tofu`; absent: yes, unless it says `false`, which runs `terraform`.
    pub tofu: Option<bool>,
    /// Nothing but `false` can be given; an earlier build took it, and nothing came of it.
    pub tofu_registry: Option<bool>,
}

/// Settings of Terragrunt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TerragruntConfiguration {
    /// Operations at once.
    pub parallelism: Option<u32>,
    /// Look at the real world before planning; absent: yes.
    pub refresh: Option<bool>,
    /// As of Terraform.
    pub approve_empty: Option<bool>,
}

/// Settings of Pulumi.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PulumiConfiguration {
    /// Operations at once.
    pub parallel: Option<u32>,
    /// Look at the real world before planning.
    pub refresh: Option<bool>,
    /// As of Terraform.
    pub approve_empty: Option<bool>,
    /// Its stack; absent: `dev`.
    pub stack: Option<String>,
    /// Where its state is. The console keeps none for Pulumi: without one, a run is refused.
    pub backend_url: Option<String>,
}

/// Settings of Ansible.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AnsibleConfiguration {
    /// Absent: `main.yaml`.
    pub playbook: Option<String>,
    /// Absent: Ansible's own.
    pub inventory: Option<String>,
    /// Further arguments of both runs.
    pub additional_args: Vec<String>,
    /// Path of a private key among the stack's files.
    pub private_key_file: Option<String>,
    /// Path of an `ansible.cfg`.
    pub config_file: Option<String>,
    /// The playbook understands `--check`; absent: yes. Otherwise the plan says only that it cannot tell.
    pub supports_check: Option<bool>,
    /// The playbook that undoes it: without one such a stack cannot be destroyed.
    pub delete_playbook: Option<String>,
}

/// The Kubernetes Job of a run. What is absent is the agent's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    /// Namespace; absent: `plural-runs`.
    pub namespace: Option<String>,
    /// Labels of the Job and its Pod.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Job and its Pod.
    pub annotations: BTreeMap<String, String>,
    /// Where it may run.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that it stands.
    pub tolerations: Vec<JobToleration>,
    /// The account of its Pod.
    pub service_account: Option<String>,
    /// What it asks of its node, "cpu" and "memory" with Kubernetes' quantities.
    pub requests: BTreeMap<String, String>,
    /// What it may take.
    pub limits: BTreeMap<String, String>,
}

impl JobSpec {
    /// The account that it names, after the namespace that it is in; none where that is the one that every namespace has, which is nobody.
    pub fn account(&self) -> Option<(Option<&str>, &str)> {
        let account =
            self.service_account.as_deref().filter(|name| !name.is_empty() && *name != "default")?;
        Some((self.namespace.as_deref().filter(|name| !name.is_empty()), account))
    }
}

/// A taint that a run stands.
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
        // One person agrees, whether it is said or not; and where nobody has to, nothing is looser.
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

    /// What waits for approval was digested without it.
    #[test]
    fn what_is_not_asked_for_is_stored_as_before() {
        let json = serde_json::to_value(StackApproval::default()).unwrap();
        assert!(json.get("commands").is_none(), "{json}");
        let all = serde_json::to_value(StackApproval { commands: true, ..StackApproval::default() }).unwrap();
        assert_eq!(all["commands"], true);
    }
}
