//! Plans of stacks on pull requests: which pull request a run plans, and how far its commit is trusted.
//!
//! A pull request from a branch of the repository itself is written by people who may push there: its plan gets what every plan of the
//! stack gets. Anybody can open one from a fork: until a user who may approve the stack's plans releases its commit, the commit is only
//! checked, in a Job that has nothing of the stack but its tool.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::ids::{ScmConnectionId, StackId, StackPullRequestId, StackRunId, UserId};
use crate::scm_connection::ScmType;
use crate::stack::StackTool;
use crate::stack_run::{RunTrigger, StackRun};
use crate::stack_spec::{StackApproval, StackConfiguration, StackSpec};

/// Limit of a command of a check, in seconds: it loads untrusted code, and other plans of pull requests wait for it.
const CHECK_SECONDS: u64 = 15 * 60;

/// The pull request that a run plans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPullRequest {
    /// The connection by which the console talks to its host.
    pub connection_id: ScmConnectionId,
    /// The repository, as `acme/infra`.
    pub repository: String,
    /// Its number in the repository.
    pub number: u64,
    /// URL of its page.
    pub url: String,
    /// Its title.
    pub title: String,
    /// The head commit that is planned, and no other.
    pub sha: String,
    /// It comes from a fork.
    pub fork: bool,
    /// Its commit is from a fork and not released: it is checked, and not planned.
    pub checked_only: bool,
    /// The ref of its head at the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// A pull request that affects a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackPullRequest {
    /// Id.
    pub id: StackPullRequestId,
    /// The stack.
    pub stack_id: StackId,
    /// The pull request, at its newest head. `checked_only` says what its run did.
    pub pull: RunPullRequest,
    /// The run of that head, if there could be one.
    pub run_id: Option<StackRunId>,
    /// Why there is none, in words for the stack's readers; absent while it waits for a release.
    pub problem: Option<String>,
    /// The last released commit, and who released it.
    pub released: Option<ReleasedCommit>,
    /// The last status of this head that the console published at the host.
    pub told: Option<String>,
    /// When it was first seen.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
}

/// A user who may approve the stack's plans lets a commit of a fork be planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleasedCommit {
    /// The commit.
    pub sha: String,
    /// The user.
    pub user_id: UserId,
    /// The name in the audit log.
    pub by: String,
    /// When.
    pub at: DateTime<Utc>,
    /// A signature in hex, over all of that, the stack and the pull request. Only the installation can compute it: write access to the
    /// database is not enough.
    pub mac: String,
}

impl StackPullRequest {
    /// Whether its head is from a fork, and not released.
    pub fn waits_for_release(&self) -> bool {
        self.pull.fork && self.released.as_ref().is_none_or(|released| released.sha != self.pull.sha)
    }
}

impl StackRun {
    /// The pull request that it plans.
    pub fn pull_request(&self) -> Option<&RunPullRequest> {
        self.snapshot.spec.pull_request.as_ref().filter(|_| self.trigger == RunTrigger::PullRequest)
    }

    /// Whether it checks untrusted code: it gets nothing of the stack, not even its state.
    pub fn is_checked_only(&self) -> bool {
        self.snapshot.spec.is_checked_only()
    }
}

impl StackSpec {
    /// Whether its Jobs run untrusted code.
    pub fn is_checked_only(&self) -> bool {
        self.pull_request.as_ref().is_some_and(|pull| pull.checked_only)
    }

    /// The spec for the run of a pull request. If its code is only checked, that is the tool and the place of its Job: no variables,
    /// hooks, policy, state, actor or account, and nothing of other stacks.
    #[must_use]
    pub fn for_pull_request(&self, pull: RunPullRequest) -> Self {
        if !pull.checked_only {
            return Self { pull_request: Some(pull), preview: None, actor: None, ..self.clone() };
        }
        let StackConfiguration { image, version, tag, terraform, .. } = self.configuration.clone();
        Self {
            workdir: self.workdir.clone(),
            manage_state: false,
            approval: StackApproval::default(),
            configuration: StackConfiguration {
                image,
                version,
                tag,
                terraform,
                ..StackConfiguration::default()
            },
            job: self.job.of_nobody(),
            job_defaults: self.job_defaults.as_ref().map(|said| Box::new(said.for_nobody())),
            timeout_seconds: match self.timeout_seconds {
                0 => CHECK_SECONDS,
                seconds => seconds.min(CHECK_SECONDS),
            },
            pull_request: Some(pull),
            ..Self::default()
        }
    }
}

/// Whether this tool can check code without anything of its stack. Other tools run what their own files say before they check
/// anything.
pub const fn can_be_checked(tool: StackTool) -> bool {
    match tool {
        StackTool::Terraform => true,
        StackTool::Terragrunt | StackTool::Ansible | StackTool::Pulumi | StackTool::Custom => false,
    }
}

/// The repository and the number of a pull request, from the URL of its page.
///
/// # Errors
/// [`Error::Invalid`] if the URL is not one of a pull request.
pub fn pull_request_at(kind: ScmType, url: &str) -> Result<(String, u64)> {
    let invalid = || {
        Error::invalid(
            "url",
            "must be the address of a pull request, such as https://git.example.com/acme/infra/pulls/7",
        )
    };
    let rest = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let path = rest.and_then(|rest| rest.split_once('/')).map(|(_, path)| path).ok_or_else(invalid)?;
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let words: &[&str] = match kind {
        ScmType::Github => &["pull"],
        ScmType::Gitea => &["pulls"],
        ScmType::Gitlab => &["merge_requests"],
        ScmType::Bitbucket | ScmType::BitbucketDatacenter => &["pull-requests"],
        ScmType::AzureDevops => &["pullrequest"],
        ScmType::Plain => &[],
    };
    let at = parts.iter().rposition(|part| words.contains(part)).ok_or_else(invalid)?;
    let number = parts.get(at + 1).and_then(|number| number.parse::<u64>().ok());
    let number = number.filter(|number| *number > 0).ok_or_else(invalid)?;
    // Other path segments before the number, and before the repository: a folder of the host, and its fixed words.
    let before: Vec<&str> = parts[..at].iter().copied().filter(|part| *part != "-").collect();
    let repository = match (kind, before.as_slice()) {
        (ScmType::Gitlab, path) if path.len() >= 2 => path.join("/"),
        (ScmType::BitbucketDatacenter, [.., "projects", key, "repos", name]) => format!("{key}/{name}"),
        (ScmType::AzureDevops, [.., project, "_git", name]) => format!("{project}/{name}"),
        (ScmType::Github | ScmType::Gitea | ScmType::Bitbucket, [.., owner, name]) => {
            format!("{owner}/{name}")
        }
        (
            ScmType::Github
            | ScmType::Gitea
            | ScmType::Bitbucket
            | ScmType::Gitlab
            | ScmType::BitbucketDatacenter
            | ScmType::AzureDevops
            | ScmType::Plain,
            _,
        ) => return Err(invalid()),
    };
    Ok((repository, number))
}

/// The ref of a pull request's head at a host; absent if the host has none.
pub fn head_reference(kind: ScmType, number: u64) -> Option<String> {
    match kind {
        ScmType::Github | ScmType::Gitea => Some(format!("refs/pull/{number}/head")),
        ScmType::Gitlab => Some(format!("refs/merge-requests/{number}/head")),
        ScmType::BitbucketDatacenter => Some(format!("refs/pull-requests/{number}/from")),
        ScmType::Bitbucket | ScmType::AzureDevops | ScmType::Plain => None,
    }
}

/// Checks that a text is a full commit id. Some hosts report an abbreviated id for a fork: other commits may have the same prefix, and
/// a branch may have that name.
///
/// # Errors
/// [`Error::Conflict`] if it is not: nobody can release it.
pub fn check_releasable(sha: &str) -> Result<()> {
    if sha.len() == 40 && sha.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(());
    }
    Err(Error::conflict("the host does not tell the whole commit of the fork, so that it cannot be released"))
}

/// Whether a stack that follows this reference follows the target branch. `HEAD` does not match here: the caller compares the commits.
pub fn follows_branch(reference: &str, base: &str) -> bool {
    reference == base || reference.strip_prefix("refs/heads/") == Some(base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack_run::{RunKind, RunPhase};
    use crate::stack_steps::steps;

    fn pull(checked_only: bool) -> RunPullRequest {
        RunPullRequest {
            connection_id: ScmConnectionId::new(),
            repository: "acme/infra".to_owned(),
            number: 7,
            url: "https://git.example.com/acme/infra/pulls/7".to_owned(),
            title: "More".to_owned(),
            sha: "a".repeat(40),
            fork: checked_only,
            checked_only,
            reference: None,
        }
    }

    #[test]
    fn what_is_only_checked_has_nothing_of_its_stack() {
        let full = serde_json::json!({
            "workdir": "prod", "manageState": true, "approval": {"required": true},
            "configuration": {
                "image": "example.org/tofu", "tag": "1", "terraform": {"tofu": true},
                "hooks": [{"cmd": "steal", "afterStage": "init"}],
            },
            "job": {"serviceAccount": "admin", "annotations": {"iam.example.org/role": "admin"}, "labels": {"a": "b"}},
            "commands": [{"cmd": "look"}], "deleteCommands": [{"cmd": "undo"}], "variables": {"password": "hunter2"},
            "actor": UserId::new(),
        });
        let spec: StackSpec = serde_json::from_value(full).unwrap();
        let checked = spec.for_pull_request(pull(true));
        assert!(checked.is_checked_only());
        let expected = StackSpec {
            workdir: "prod".to_owned(),
            configuration: StackConfiguration {
                image: Some("example.org/tofu".to_owned()),
                tag: Some("1".to_owned()),
                terraform: spec.configuration.terraform.clone(),
                ..StackConfiguration::default()
            },
            timeout_seconds: CHECK_SECONDS,
            pull_request: checked.pull_request.clone(),
            ..StackSpec::default()
        };
        assert_eq!(checked, expected);
        let endless = StackSpec { timeout_seconds: 24 * 60 * 60, ..StackSpec::default() };
        assert_eq!(endless.for_pull_request(pull(true)).timeout_seconds, CHECK_SECONDS);
        assert_eq!(endless.for_pull_request(pull(false)).timeout_seconds, 24 * 60 * 60);
        let planned = spec.for_pull_request(pull(false));
        assert_eq!(
            (planned.variables.len(), planned.manage_state, planned.actor, planned.is_checked_only()),
            (1, true, None, false)
        );
    }

    #[test]
    fn code_that_nobody_vouches_for_is_checked_without_a_backend() {
        let spec = StackSpec::default().for_pull_request(pull(true));
        let lines = |spec: &StackSpec, phase| {
            let all = steps(StackTool::Terraform, spec, RunKind::DryRun, phase).unwrap();
            all.iter().map(|step| format!("{} {}", step.cmd, step.args.join(" "))).collect::<Vec<_>>()
        };
        assert_eq!(lines(&spec, RunPhase::Plan), ["tofu init -input=false -backend=false", "tofu validate"]);
        assert_eq!(lines(&spec, RunPhase::Apply), [""; 0]);
        for tool in StackTool::ALL {
            let checked = steps(tool, &spec, RunKind::DryRun, RunPhase::Plan);
            assert_eq!(checked.is_ok(), can_be_checked(tool), "{tool:?}");
        }
        // A released one is planned like the stack itself.
        let planned = StackSpec::default().for_pull_request(pull(false));
        assert!(lines(&planned, RunPhase::Plan)[1].starts_with("tofu plan "));
    }

    #[test]
    fn addresses_name_a_repository_and_a_number() {
        for (kind, url, repository, number) in [
            (ScmType::Github, "https://github.com/acme/infra/pull/7/files#diff", "acme/infra", 7),
            (ScmType::Gitea, "http://127.0.0.1:3000/git/acme/infra/pulls/12", "acme/infra", 12),
            (ScmType::Gitlab, "https://gitlab.com/acme/team/infra/-/merge_requests/3", "acme/team/infra", 3),
            (ScmType::Bitbucket, "https://bitbucket.org/acme/infra/pull-requests/4/x", "acme/infra", 4),
            (
                ScmType::BitbucketDatacenter,
                "https://bb.example.com/projects/ACME/repos/infra/pull-requests/5/overview",
                "ACME/infra",
                5,
            ),
            (
                ScmType::AzureDevops,
                "https://dev.azure.com/org/shop/_git/infra/pullrequest/6?_a=files",
                "shop/infra",
                6,
            ),
        ] {
            assert_eq!(pull_request_at(kind, url).unwrap(), (repository.to_owned(), number), "{url}");
        }
        for (kind, url) in [
            (ScmType::Github, "https://github.com/acme/infra/pulls/7"),
            (ScmType::Github, "https://github.com/pull/7"),
            (ScmType::Github, "https://github.com/acme/infra/pull/0"),
            (ScmType::Github, "https://github.com/acme/infra/pull/-7"),
            (ScmType::Github, "javascript:acme/infra/pull/7"),
            (ScmType::Plain, "https://github.com/acme/infra/pull/7"),
        ] {
            assert!(pull_request_at(kind, url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_release_is_of_one_commit() {
        let at = DateTime::from_timestamp(0, 0).unwrap_or_default();
        let released = |sha: &str| ReleasedCommit {
            sha: sha.to_owned(),
            user_id: UserId::new(),
            by: "ada@example.com".to_owned(),
            at,
            mac: String::new(),
        };
        let mut seen = StackPullRequest {
            id: StackPullRequestId::new(),
            stack_id: StackId::new(),
            pull: pull(true),
            run_id: None,
            problem: None,
            released: None,
            told: None,
            created_at: at,
            updated_at: at,
        };
        assert!(seen.waits_for_release());
        seen.released = Some(released(&"b".repeat(40)));
        assert!(seen.waits_for_release(), "another commit");
        seen.released = Some(released(&"a".repeat(40)));
        assert!(!seen.waits_for_release());
        seen.released = None;
        seen.pull.fork = false;
        assert!(!seen.waits_for_release());
    }

    #[test]
    fn only_a_whole_commit_is_released() {
        check_releasable("0123456789abcdef0123456789abcdef01234567").unwrap();
        for sha in ["", "0123456789ab", "main", &"g".repeat(40), &"a".repeat(64)] {
            assert!(check_releasable(sha).is_err(), "{sha}");
        }
    }

    #[test]
    fn a_stack_follows_the_branch_that_it_names() {
        for (reference, base, follows) in [
            ("main", "main", true),
            ("refs/heads/main", "main", true),
            ("v1", "main", false),
            ("refs/tags/main", "main", false),
            ("HEAD", "main", false),
        ] {
            assert_eq!(follows_branch(reference, base), follows, "{reference} {base}");
        }
    }
}
