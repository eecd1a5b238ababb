//! The plan: read from the tool, and uploaded to the console.

use std::{fs, path::Path};

use bytes::Bytes;
use plural_core::run_call::{MAX_PLAN_PART, PlanReport};
use plural_core::stack::StackTool;
use plural_core::stack_exec::ExecCommands;
use plural_core::stack_run::{PlanSummary, RunKind};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{end::End, run::Job, summary};

/// The text of a plan that no command printed.
const UNKNOWN: &str = "There is no command that says what this stack would change.\n";

/// A plan, before it is uploaded.
struct Gathered {
    summary: PlanSummary,
    file: Option<Bytes>,
    json: Option<Bytes>,
    text: Bytes,
}

impl Job {
    /// Reads the plan that `program` made, or that its commands printed, and uploads it; returns it as JSON, with secrets masked.
    pub(crate) async fn hand_in_plan(
        &self,
        program: Option<&str>,
        printed: Option<String>,
    ) -> Result<Option<Bytes>, End> {
        let gathered = match (self.input.tool, program) {
            (StackTool::Terraform | StackTool::Terragrunt, Some(program)) => self.terraform(program).await?,
            (StackTool::Pulumi, Some(_)) => {
                let text = printed.unwrap_or_default();
                let file = match self.input.kind {
                    // Drift detection leaves nothing that could be applied.
                    RunKind::Drift | RunKind::Commands => None,
                    RunKind::Apply | RunKind::DryRun | RunKind::Destroy => Some(self.plan_bytes()?),
                };
                Gathered { summary: summary::of_pulumi(&text), file, json: None, text: text.into() }
            }
            (StackTool::Ansible, Some(_)) => {
                let text = printed.unwrap_or_default();
                Gathered { summary: summary::of_ansible(&text), file: None, json: None, text: text.into() }
            }
            (_, _) => {
                let mut text = printed.unwrap_or_else(|| UNKNOWN.to_owned());
                if let Some(commands) = self.input.spec.would_run(self.input.kind) {
                    // People approve the digest of this: the commands are a part of it.
                    let break_before = if text.ends_with('\n') { "\n" } else { "\n\n" };
                    text = format!("{text}{break_before}{}", self.secrets.hidden(&commands));
                }
                let summary = PlanSummary { other: true, ..PlanSummary::default() };
                Gathered { summary, file: None, json: None, text: text.into() }
            }
        };
        self.upload(gathered, self.lock_digest()).await
    }

    /// Uploads the text that people approve of given commands: the commands themselves.
    pub(crate) async fn hand_in_commands(&self, exec: &ExecCommands) -> Result<(), End> {
        let text = self.secrets.hidden(&exec.text());
        let summary = PlanSummary { other: true, ..PlanSummary::default() };
        self.upload(Gathered { summary, file: None, json: None, text: text.into() }, None).await.map(drop)
    }

    async fn upload(&self, gathered: Gathered, lock_digest: Option<String>) -> Result<Option<Bytes>, End> {
        let Gathered { summary, file, json, text } = gathered;
        for (part, bytes) in [("file", &file), ("json", &json), ("text", &Some(text.clone()))] {
            if let Some(bytes) = bytes {
                self.console.plan_part(part, bytes).await?;
            }
        }
        let report = PlanReport {
            summary,
            file_digest: file.as_deref().map(digest),
            json_digest: json.as_deref().map(digest),
            text_digest: digest(&text),
            lock_digest,
        };
        self.console.planned(&report).await?;
        Ok(json)
    }

    async fn terraform(&self, program: &str) -> Result<Gathered, End> {
        let file = self.plan_bytes()?;
        let plan = self.space.plan.to_string_lossy().into_owned();
        let json = self.own(program, &["show", "-json", &plan], None, MAX_PLAN_PART).await?;
        let mut json: Value = serde_json::from_slice(&json)
            .map_err(|_| End::failed(format!("`{program} show -json` does not print the plan as JSON")))?;
        let summary = summary::of_terraform(&json);
        self.secrets.hide_in(&mut json);
        let json = Bytes::from(json.to_string());
        let text = self.own(program, &["show", "-no-color", &plan], None, MAX_PLAN_PART).await?;
        let text = Bytes::from(self.secrets.hidden_bytes(&text));
        for (what, length) in [("the JSON", json.len()), ("the text", text.len())] {
            if length > MAX_PLAN_PART {
                return Err(End::failed(format!(
                    "{what} of the plan is larger than {} MiB",
                    MAX_PLAN_PART >> 20
                )));
            }
        }
        Ok(Gathered { summary, file: Some(file), json: Some(json), text })
    }

    fn plan_bytes(&self) -> Result<Bytes, End> {
        let path = &self.space.plan;
        let bytes = fs::read(path)
            .map_err(|error| End::failed(format!("the tool left no plan at {}: {error}", path.display())))?;
        if bytes.len() > MAX_PLAN_PART {
            return Err(End::failed(format!("the plan is larger than {} MiB", MAX_PLAN_PART >> 20)));
        }
        Ok(bytes.into())
    }

    /// Digest of the lock file of the tool's providers.
    pub(crate) fn lock_digest(&self) -> Option<String> {
        if !self.input.tool.has_state() {
            return None;
        }
        digest_of(&self.space.work.join(".terraform.lock.hcl"))
    }

    /// After `init`, before the apply: checks that the providers are those of the plan.
    pub(crate) fn check_lock(&self) -> Result<(), End> {
        let Some(plan) = &self.input.plan else { return Ok(()) };
        if !self.input.tool.has_state() || plan.lock_digest == self.lock_digest() {
            return Ok(());
        }
        Err(End::failed(
            "the providers are not those of the plan: .terraform.lock.hcl is another one after init. Commit that file, \
             with the digests of all platforms (`tofu providers lock`), and plan again",
        ))
    }

    /// Fetches the approved plan.
    pub(crate) async fn fetch_plan(&self) -> Result<(), End> {
        let Some(wanted) = self.input.plan.as_ref().and_then(|plan| plan.file_digest.as_ref()) else {
            return Ok(());
        };
        let bytes = self.console.plan_file().await?;
        let got = digest(&bytes);
        if got != *wanted {
            return Err(End::failed(format!(
                "the plan file is not the one that was approved: its digest is {got}, and {wanted} was expected. Nothing \
                 was changed"
            )));
        }
        crate::workspace::write(&self.space.plan, &bytes).map_err(End::Failed)
    }

    /// Checks that the plan file is still the approved one: earlier commands could have overwritten it.
    pub(crate) fn check_plan(&self) -> Result<(), End> {
        let Some(wanted) = self.input.plan.as_ref().and_then(|plan| plan.file_digest.as_ref()) else {
            return Ok(());
        };
        if digest_of(&self.space.plan).as_ref() == Some(wanted) {
            return Ok(());
        }
        Err(End::failed(
            "the plan file is not the one that was approved any more: a command before this one changed it",
        ))
    }
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn digest_of(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| digest(&bytes))
}
