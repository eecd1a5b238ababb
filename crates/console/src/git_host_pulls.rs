//! Pull requests of git hosts, for the plans on them.

use async_trait::async_trait;
use plural_app::ports::git_host_pulls::{HostCheck, HostPullHead, HostPulls};
use plural_app::ports::git_hosts::HostResult;
use plural_core::stack_pull_comment::PullState;
use plural_scm::{PullRequest, PullRequestState, Status, StatusState};

use crate::git_hosts::{Connected, commit_id, repository, status, told};

#[async_trait]
impl HostPulls for Connected {
    async fn pull(&self, of: &str, number: u64) -> HostResult<HostPullHead> {
        let pull = self.host.pull_request(&repository(of)?, number).await.map_err(told)?;
        // It becomes a part of what git is asked for.
        let sha = match commit_id(&pull.head_commit) {
            Ok(sha) => sha.as_str().to_owned(),
            // Not every host knows the head of one that is over: its branch, or the fork, may be gone.
            Err(_) if pull.state != PullRequestState::Open => String::new(),
            Err(error) => return Err(error),
        };
        Ok(HostPullHead {
            number: pull.number,
            url: pull.url,
            title: pull.title,
            status: status(pull.state),
            sha,
            fork: pull.fork,
            base: pull.base,
        })
    }

    async fn pulls_open(&self, of: &str) -> HostResult<(Vec<(u64, String)>, bool)> {
        let open = self.host.pull_requests(&repository(of)?, true).await.map_err(told)?;
        let at = |pull: PullRequest| (pull.number, format!("{} {}", pull.head_commit, pull.base));
        Ok((open.items.into_iter().map(at).collect(), open.cut))
    }

    async fn pull_paths(&self, of: &str, number: u64) -> HostResult<(Vec<String>, bool)> {
        let files = self.host.files(&repository(of)?, number).await.map_err(told)?;
        let paths = files.items.into_iter().flat_map(|file| [Some(file.path), file.previous]);
        Ok((paths.flatten().collect(), files.cut))
    }

    async fn pull_tell(&self, of: &str, number: u64, marker: &str, body: &str) -> HostResult<()> {
        self.host.comment(&repository(of)?, number, marker, body).await.map_err(told)
    }

    async fn check_tell(&self, of: &str, commit: &str, check: &HostCheck) -> HostResult<()> {
        let HostCheck { context, state, description, url } = check;
        let state = match state {
            PullState::Pending => StatusState::Pending,
            PullState::Success => StatusState::Success,
            PullState::Failure => StatusState::Failure,
        };
        let status =
            Status { context: context.clone(), state, description: description.clone(), url: url.clone() };
        self.host.set_status(&repository(of)?, &commit_id(commit)?, &status).await.map_err(told)
    }
}
