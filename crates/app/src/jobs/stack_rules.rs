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
    ///
    /// # Errors
    /// [`Error::Unavailable`] for what passes: nothing is refused because a git server does not answer.
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
            return match work.repository.error {
                Some(error) => Ok(Err(format!("the repository cannot be fetched: {error}"))),
                None => unread(GitError {
                    transient: true,
                    ..GitError::terminal("the repository was not fetched yet")
                }),
            };
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
            Err(error) => return unread(error),
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

fn unread<T>(error: GitError) -> Result<std::result::Result<T, String>> {
    let GitError { message, location, transient } = error;
    let told = match location {
        Some(location) => format!("{message} ({location})"),
        None => message,
    };
    if transient {
        return Err(Error::unavailable(format!("the rules of the policy cannot be read now: {told}")));
    }
    Ok(Err(told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_refuses_nothing() {
        let terminal = GitError { location: Some("a".to_owned()), ..GitError::terminal("no such folder") };
        let refused = unread::<()>(terminal).unwrap();
        assert_eq!(refused, Err("no such folder (a)".to_owned()));
        let passing = GitError { transient: true, ..GitError::terminal("no route to host") };
        assert!(matches!(
            unread::<()>(passing),
            Err(Error::Unavailable { reason, .. }) if reason.contains("no route to host")
        ));
    }
}
