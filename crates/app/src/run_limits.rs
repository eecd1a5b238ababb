//! Holds stacks and their runs to what their projects allow. Agents hold each Job to the same, by themselves.

use plural_core::module_code::is_module_code;
use plural_core::module_environment::environment_problem;
use plural_core::module_source::module_problem;
use plural_core::project::Project;
use plural_core::run_call::InputVariable;
use plural_core::stack::{Stack, StackTool};
use plural_core::stack_run::StackRun;
use plural_core::stack_spec::StackSpec;
use plural_core::{Error, Result};

use crate::app::App;
use crate::ports::git::{GitAccess, GitError, SourceSpec};
use crate::stack_inputs::OpenInputs;

/// Refuses a stack whose Jobs its project does not allow.
pub(crate) fn jobs_allowed(project: &Project, tool: StackTool, spec: &StackSpec) -> Result<()> {
    let problem = project.limits.of_runs().refusal(project.name.as_str(), tool, spec);
    problem.map_or(Ok(()), |problem| Err(Error::forbidden(problem)))
}

/// Refuses variables by which modules come from elsewhere than the project allows.
pub(crate) fn environment_allowed(project: &Project, environment: &[InputVariable]) -> Result<()> {
    problem_of(project, environment).map_or(Ok(()), |problem| Err(Error::forbidden(problem)))
}

fn problem_of(project: &Project, environment: &[InputVariable]) -> Option<String> {
    let names = environment.iter().map(|variable| variable.name.as_str());
    environment_problem(project.name.as_str(), &project.limits.of_runs().modules, names)
}

impl App {
    /// Refuses a run that its project does not allow, or no more: its Jobs, and from where its code takes modules. What an allowed module
    /// itself takes is that module's matter.
    pub(crate) async fn run_allowed(
        &self,
        project: &Project,
        run: &StackRun,
        (access, sha, spec): (&GitAccess, &str, &SourceSpec),
    ) -> Result<Result<(), GitError>> {
        let (name, limits) = (project.name.as_str(), project.limits.of_runs());
        if let Some(problem) = limits.refusal(name, run.snapshot.tool, &run.snapshot.spec) {
            return Ok(Err(GitError::terminal(problem)));
        }
        if limits.modules.is_empty() {
            return Ok(Ok(()));
        }
        let inputs = self.run_inputs_of(run).await?;
        self.modules_allowed(project, inputs, (access, sha, spec)).await
    }

    /// The same of a stack as it is now, whose code is at this commit.
    pub(crate) async fn stack_allowed(
        &self,
        project: &Project,
        stack: &Stack,
        (access, sha, spec): (&GitAccess, &str, &SourceSpec),
    ) -> Result<Result<(), GitError>> {
        let (name, limits) = (project.name.as_str(), project.limits.of_runs());
        let said = self.stack_job_said(project).await?;
        let made_of = stack.spec.clone().with_job_defaults(said);
        if let Some(problem) = limits.refusal(name, stack.tool, &made_of) {
            return Ok(Err(GitError::terminal(problem)));
        }
        if limits.modules.is_empty() {
            return Ok(Ok(()));
        }
        let inputs = self.stack_inputs_of(stack).await?;
        self.modules_allowed(project, inputs, (access, sha, spec)).await
    }

    async fn modules_allowed(
        &self,
        project: &Project,
        inputs: OpenInputs,
        (access, sha, spec): (&GitAccess, &str, &SourceSpec),
    ) -> Result<Result<(), GitError>> {
        let (name, limits) = (project.name.as_str(), project.limits.of_runs());
        let mut code = match self.git.module_code(access, sha, spec).await {
            Ok(code) => code,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(problem) = problem_of(project, &inputs.environment) {
            return Ok(Err(GitError::terminal(problem)));
        }
        // The stack's own files are put beside it.
        let files = inputs.files.into_iter().filter(|(path, _)| is_module_code(path));
        code.extend(files.map(|(path, content)| (path, content.into_bytes())));
        let problem =
            code.iter().find_map(|(path, content)| module_problem(name, &limits.modules, path, content));
        Ok(problem.map_or(Ok(()), |problem| Err(GitError::terminal(problem))))
    }
}
