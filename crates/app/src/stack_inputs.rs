//! Environment and files of stacks, and of their runs: sealed where they are kept, with the key of the project.

use std::collections::BTreeMap;

use plural_core::data_key::KeyOwner;
use plural_core::ids::{ProjectId, RepositoryId, StackId, StackRunId};
use plural_core::run_call::InputVariable;
use plural_core::service::GitRef;
use plural_core::stack::{ChangedVariable, Stack, StackChange, StackTool};
use plural_core::stack_checks::{check_environment, check_files};
use plural_core::stack_run::{RunSnapshot, StackRun};
use plural_core::stack_spec::StackSpec;
use plural_core::{Error, Result};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::access::Read;
use crate::app::App;
use crate::ctx::OpCtx;
use crate::seal::Sealed;
use crate::stack::StackSelector;
use crate::stack_run::SealedInputs;

/// Environment and files, in clear.
#[derive(Default)]
pub(crate) struct OpenInputs {
    pub(crate) environment: Vec<InputVariable>,
    pub(crate) files: BTreeMap<String, String>,
    /// Variables that a run takes from other stacks, which do not call them sensitive; more are in its environment.
    pub(crate) taken: Map<String, Value>,
}

impl App {
    /// What of a stack is sealed, for its editors: secret values are empty, and of files only the paths are told.
    pub async fn stack_inputs_shown(
        &self,
        ctx: &OpCtx,
        stack: StackId,
    ) -> Result<(Vec<InputVariable>, Vec<String>)> {
        let stack = self.authorized::<Stack, Read>(ctx, &StackSelector::Id(stack)).await?;
        let OpenInputs { mut environment, files, taken: _ } = self.stack_inputs_of(&stack).await?;
        for variable in environment.iter_mut().filter(|variable| variable.secret) {
            variable.value.clear();
        }
        Ok((environment, files.into_keys().collect()))
    }

    /// What of a stack is sealed, in clear.
    pub(crate) async fn stack_inputs_of(&self, stack: &Stack) -> Result<OpenInputs> {
        let sealed = self.store.stack_inputs(stack.id).await?;
        self.inputs_opened(&of_stack(stack.id), &sealed).await
    }

    /// The same of a run.
    pub(crate) async fn run_inputs_of(&self, run: &StackRun) -> Result<OpenInputs> {
        let sealed = self.store.stack_run_inputs(run.id).await?;
        self.inputs_opened(&of_run(run.id), &sealed).await
    }

    /// Both parts, sealed for a stack that has others.
    pub(crate) async fn stack_inputs_sealed(
        &self,
        project: ProjectId,
        stack: StackId,
        inputs: &OpenInputs,
    ) -> Result<SealedInputs> {
        self.inputs_sealed(project, &of_stack(stack), inputs).await
    }

    /// What there is of both parts, sealed for a new stack.
    pub(crate) async fn new_stack_inputs_sealed(
        &self,
        project: ProjectId,
        stack: StackId,
        inputs: &OpenInputs,
    ) -> Result<SealedInputs> {
        if inputs.is_empty() {
            return Ok(SealedInputs::default());
        }
        self.stack_inputs_sealed(project, stack, inputs).await
    }

    /// What there is of both parts, sealed for a run.
    pub(crate) async fn run_inputs_sealed(
        &self,
        project: ProjectId,
        run: StackRunId,
        inputs: &OpenInputs,
    ) -> Result<SealedInputs> {
        if inputs.is_empty() {
            return Ok(SealedInputs::default());
        }
        self.inputs_sealed(project, &of_run(run), inputs).await
    }

    /// What decides a plan besides code and state. Values of an environment may be short: only this installation can make the digest, so
    /// that nobody finds them by trying.
    pub(crate) fn stack_inputs_digest(&self, stack: &Stack, inputs: &OpenInputs) -> Result<String> {
        Ok(hex::encode(self.sealer.tag(&inputs_text(stack, inputs)?)))
    }

    /// The same of what a run is made of.
    pub(crate) fn inputs_digest(
        &self,
        tool: StackTool,
        source: Option<(RepositoryId, &GitRef)>,
        spec: &StackSpec,
        inputs: &OpenInputs,
    ) -> Result<String> {
        Ok(hex::encode(self.sealer.tag(&made_of_text(tool, source, spec, inputs)?)))
    }

    /// Whether the digest is that of a stack as it is, with another document.
    pub(crate) fn is_inputs_digest(
        &self,
        stack: &Stack,
        spec: &StackSpec,
        inputs: &OpenInputs,
        digest: &str,
    ) -> Result<bool> {
        let given = hex::decode(digest).unwrap_or_default();
        let source = stack.source.as_ref().map(|source| (source.repository_id, &source.git));
        Ok(self.sealer.is_tag(&made_of_text(stack.tool, source, spec, inputs)?, &given))
    }

    /// Whether what a run is to do is what it was made with: whoever writes the database cannot make the digest of something else.
    pub(crate) fn is_own_inputs_digest(&self, run: &StackRun, inputs: &OpenInputs) -> Result<bool> {
        // What it takes from other stacks is among its variables and its environment.
        let RunSnapshot { tool, repository_id, git, spec, inputs_digest, upstream: _ } = &run.snapshot;
        let text = made_of_text(*tool, Some((*repository_id, git)), spec, inputs)?;
        Ok(self.sealer.is_tag(&text, &hex::decode(inputs_digest).unwrap_or_default()))
    }

    async fn inputs_sealed(&self, project: ProjectId, of: &str, inputs: &OpenInputs) -> Result<SealedInputs> {
        let OpenInputs { environment, files, taken } = inputs;
        let written = |cause: String| Error::internal(format!("writing what goes into {of}"), cause);
        let environment = serde_json::to_vec(environment).map_err(|cause| written(cause.to_string()))?;
        let files = serde_json::to_vec(files).map_err(|cause| written(cause.to_string()))?;
        let sealing = self.sealer.sealing(KeyOwner::Project(project)).await?;
        let taken = if taken.is_empty() {
            None
        } else {
            let taken = serde_json::to_vec(taken).map_err(|cause| written(cause.to_string()))?;
            Some(sealing.seal(&format!("{of}:taken"), &taken)?)
        };
        Ok(SealedInputs {
            environment: Some(sealing.seal(&format!("{of}:environment"), &environment)?),
            files: Some(sealing.seal(&format!("{of}:files"), &files)?),
            taken,
        })
    }

    async fn inputs_opened(&self, of: &str, sealed: &SealedInputs) -> Result<OpenInputs> {
        let SealedInputs { environment, files, taken } = sealed;
        Ok(OpenInputs {
            environment: self.input_opened(&format!("{of}:environment"), environment.as_ref()).await?,
            files: self.input_opened(&format!("{of}:files"), files.as_ref()).await?,
            taken: self.input_opened(&format!("{of}:taken"), taken.as_ref()).await?,
        })
    }

    async fn input_opened<T: DeserializeOwned + Default>(
        &self,
        context: &str,
        sealed: Option<&Sealed>,
    ) -> Result<T> {
        let Some(sealed) = sealed else { return Ok(T::default()) };
        let opened = self.sealer.open(context, sealed).await?;
        // The cause would hold a part of a secret.
        serde_json::from_slice(&opened)
            .map_err(|_| Error::internal(format!("opening {context}"), "it is no such JSON"))
    }
}

impl OpenInputs {
    /// There is nothing to seal.
    fn is_empty(&self) -> bool {
        self.environment.is_empty() && self.files.is_empty() && self.taken.is_empty()
    }

    /// Checked, as they are given with a new stack.
    pub(crate) fn checked(environment: Vec<InputVariable>, files: BTreeMap<String, String>) -> Result<Self> {
        check_environment(&environment)?;
        check_files(&files)?;
        Ok(Self { environment, files, taken: Map::new() })
    }

    /// What a change makes of these.
    pub(crate) fn changed(&self, change: &StackChange) -> Result<Self> {
        let environment = match &change.environment {
            None => self.environment.clone(),
            Some(changed) => changed.iter().map(|one| self.variable(one)).collect::<Result<_>>()?,
        };
        let files = match &change.files {
            None => self.files.clone(),
            Some(changed) => {
                let file = |(path, content): (&String, &Option<String>)| -> Result<(String, String)> {
                    let content = content.as_ref().or_else(|| self.files.get(path));
                    let content = content.ok_or_else(|| {
                        Error::invalid("attributes.files", format!("{path:?} has no content to keep"))
                    })?;
                    Ok((path.clone(), content.clone()))
                };
                changed.iter().map(file).collect::<Result<_>>()?
            }
        };
        Self::checked(environment, files)
    }

    /// A change that made these of `before`, without variables and files that are as they were; none where nothing else changes either.
    pub(crate) fn beyond(&self, before: &Self, change: &StackChange) -> Option<StackChange> {
        let mut left = change.clone();
        if self.environment == before.environment {
            left.environment = None;
        }
        if self.files == before.files {
            left.files = None;
        }
        let was_given = change.environment.is_some() || change.files.is_some();
        (!was_given || left != StackChange::default()).then_some(left)
    }

    fn variable(&self, changed: &ChangedVariable) -> Result<InputVariable> {
        let ChangedVariable { name, value, secret } = changed;
        let kept = self.environment.iter().find(|variable| variable.name == *name);
        // A value that was hidden is not made visible by saying that it is none.
        if value.is_none() && !secret && kept.is_some_and(|kept| kept.secret) {
            return Err(Error::invalid(
                "attributes.environment",
                format!("{name} is secret: give its value again to show it"),
            ));
        }
        let value = value.as_ref().or_else(|| kept.map(|kept| &kept.value)).ok_or_else(|| {
            Error::invalid("attributes.environment", format!("{name} has no value to keep: give one"))
        })?;
        Ok(InputVariable { name: name.clone(), value: value.clone(), secret: *secret })
    }
}

fn of_stack(id: StackId) -> String {
    format!("stack:{id}")
}

fn of_run(id: StackRunId) -> String {
    format!("stack_run:{id}")
}

/// What the digest of inputs is made for.
fn inputs_text(stack: &Stack, inputs: &OpenInputs) -> Result<String> {
    let source = stack.source.as_ref().map(|source| (source.repository_id, &source.git));
    made_of_text(stack.tool, source, &stack.spec, inputs)
}

fn made_of_text(
    tool: StackTool,
    source: Option<(RepositoryId, &GitRef)>,
    spec: &StackSpec,
    inputs: &OpenInputs,
) -> Result<String> {
    // When runs are made decides no plan: another schedule leaves those good that wait.
    let all = (tool, source, spec.planned(), &inputs.environment, &inputs.files);
    let json = if inputs.taken.is_empty() {
        serde_json::to_vec(&all)
    } else {
        serde_json::to_vec(&(all, &inputs.taken))
    };
    let json = json.map_err(|cause| Error::internal("writing what goes into a stack", cause.to_string()))?;
    Ok(format!("stack inputs {}", hex::encode(Sha256::digest(&json))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> OpenInputs {
        let variable = |name: &str, value: &str, secret| InputVariable {
            name: name.to_owned(),
            value: value.to_owned(),
            secret,
        };
        OpenInputs {
            environment: vec![variable("KEY", "s3cret", true), variable("REGION", "eu", false)],
            files: BTreeMap::from([("a.tfvars".to_owned(), "x = 1".to_owned())]),
            taken: Map::new(),
        }
    }

    fn changed(name: &str, value: Option<&str>, secret: bool) -> ChangedVariable {
        ChangedVariable { name: name.to_owned(), value: value.map(str::to_owned), secret }
    }

    #[test]
    fn what_is_not_given_stays_and_what_is_not_named_goes() {
        let before = inputs();
        let same = before.changed(&StackChange::default()).unwrap();
        assert_eq!(
            (same.environment.clone(), same.files),
            (before.environment.clone(), before.files.clone())
        );
        let change = StackChange {
            environment: Some(vec![changed("KEY", None, true), changed("NEW", Some("1"), false)]),
            files: Some(BTreeMap::from([
                ("a.tfvars".to_owned(), None),
                ("b.tfvars".to_owned(), Some("y = 2".to_owned())),
            ])),
            ..StackChange::default()
        };
        let after = before.changed(&change).unwrap();
        let told: Vec<_> =
            after.environment.iter().map(|it| (it.name.as_str(), it.value.as_str(), it.secret)).collect();
        assert_eq!(told, [("KEY", "s3cret", true), ("NEW", "1", false)]);
        assert_eq!(after.files["a.tfvars"], "x = 1");
        assert_eq!(after.files["b.tfvars"], "y = 2");
    }

    #[test]
    fn what_is_there_already_is_no_change() {
        let before = inputs();
        let same = StackChange {
            environment: Some(vec![
                changed("KEY", Some("s3cret"), true),
                changed("REGION", Some("eu"), false),
            ]),
            files: Some(BTreeMap::from([("a.tfvars".to_owned(), Some("x = 1".to_owned()))])),
            ..StackChange::default()
        };
        let of = |change: &StackChange| before.changed(change).unwrap().beyond(&before, change);
        assert!(of(&same).is_none());
        let other =
            StackChange { environment: Some(vec![changed("KEY", Some("other"), true)]), ..same.clone() };
        let left = of(&other).unwrap();
        // The variable that is not named goes.
        assert!(left.environment == other.environment && left.files.is_none());
        let paused = StackChange { paused: Some(true), ..same };
        assert!(of(&paused) == Some(StackChange { paused: Some(true), ..StackChange::default() }));
        // Whoever gives neither is judged by what they give.
        assert!(of(&StackChange::default()).is_some());
    }

    #[test]
    fn what_is_taken_is_part_of_what_a_run_is_made_of() {
        let text = |taken: &[(&str, i32)]| {
            let taken = taken.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
            let all = OpenInputs { taken, ..inputs() };
            made_of_text(StackTool::Terraform, None, &StackSpec::default(), &all).unwrap()
        };
        assert_eq!(text(&[("a", 1)]), text(&[("a", 1)]));
        assert_ne!(text(&[("a", 1)]), text(&[("a", 2)]));
        assert_ne!(text(&[("a", 1)]), text(&[]));
    }

    #[test]
    fn a_secret_is_not_shown_by_calling_it_none() {
        let environment = |one| StackChange { environment: Some(vec![one]), ..StackChange::default() };
        for refused in
            [changed("KEY", None, false), changed("OTHER", None, true), changed("PATH", Some("x"), false)]
        {
            let error = inputs().changed(&environment(refused)).err().unwrap().to_string();
            assert!(error.starts_with("attributes.environment") && !error.contains("s3cret"), "{error}");
        }
        inputs().changed(&environment(changed("REGION", None, true))).unwrap();
        let files =
            StackChange { files: Some(BTreeMap::from([("c".to_owned(), None)])), ..StackChange::default() };
        assert!(inputs().changed(&files).is_err());
    }
}
