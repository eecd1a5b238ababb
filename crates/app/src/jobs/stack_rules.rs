//! Reads the rules of a stack's policy out of a repository.

use plural_core::ids::RepositoryId;
use plural_core::project::Project;
use plural_core::service_file::{FileContent, ServiceFile};
use plural_core::stack_policy_rules::RuleFile;
use plural_core::{Error, Result};

use crate::app::App;
use crate::ports::git::{GitError, SourceSpec};
use crate::stack::stack_limits;

impl App {
    /// The rules in a folder of a repository; or why they cannot be read.
    pub(crate) async fn stack_rules_in(
        &self,
        project: &Project,
        (repository, reference): (RepositoryId, &str),
        spec: &SourceSpec,
    ) -> Result<std::result::Result<Vec<RuleFile>, String>> {
        let Some(work) = self.store.repository_work(repository).await? else {
            return Ok(Err("the git repository no longer exists; choose another".to_owned()));
        };
        if let Some(problem) = stack_limits(project).problem(&work.repository.url.to_string()) {
            return Ok(Err(problem));
        }
        if work.repository.pulled_at.is_none() {
            return Ok(Err("the repository was not fetched yet".to_owned()));
        }
        let access = self.git_access(&work).await?;
        let built = async {
            self.mirror_renew(&access).await?;
            let commit = self.git.resolve(&access, reference).await?;
            let _turn = self.repositories.turns.build(Some(project.id)).await;
            self.git.build(&access, &commit.sha, spec).await
        };
        let built = match built.await {
            Ok(built) => built,
            Err(GitError { message, location, transient: _ }) => {
                return Ok(Err(match location {
                    Some(location) => format!("{message} ({location})"),
                    None => message,
                }));
            }
        };
        let files = match self.previews.files(&built.digest, &built.folder, "").await {
            Err(Error::NotFound { .. }) => return Ok(Err("their artifact is gone: run it again".to_owned())),
            files => files?,
        };
        if files.len() >= ServiceFile::MOST {
            return Ok(Err(format!("{spec} has too many files: give the rules a folder of their own")));
        }
        let mut rules = Vec::new();
        for ServiceFile { path, size: _, content } in files {
            let is_rego = std::path::Path::new(&path).extension().is_some_and(|ending| ending == "rego");
            if !is_rego || path.ends_with("_test.rego") {
                continue;
            }
            match content {
                FileContent::Text(text) => rules.push(RuleFile { path, text }),
                FileContent::Binary => return Ok(Err(format!("{path} is no text"))),
                FileContent::LeftOut => return Ok(Err(format!("{path} is too large"))),
            }
        }
        if rules.is_empty() {
            return Ok(Err(format!("there is no file in {spec} that ends with .rego")));
        }
        Ok(Ok(rules))
    }
}
