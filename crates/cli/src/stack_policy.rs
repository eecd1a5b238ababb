//! `plural cd stacks policy …`: rules evaluated here, by the code of the console. `plural cd projects stack-rules`: those of a project.

use std::{
    fs,
    path::{Path, PathBuf},
};

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_core::stack_plan::plan_shown;
use plural_core::stack_policy_rules::{
    MAX_RULE_BYTES, MAX_RULE_FILES, RuleFile, Severity, Violation, ViolationSource, judged, refusal,
};
use plural_wire::{Client, LimitProject};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    args::{ListOutputArgs, OutputArgs},
    error::CliError,
    file, key,
    output::{self, Row, cell, or_dash},
    terminal::Terminal,
};

const NOTHING: &str = "the rules have nothing against the plan";
/// Folders below each other.
const MAX_DEPTH: usize = 16;

/// Rules for the plans of stacks
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct StackPolicyArgs {
    #[command(subcommand)]
    command: StackPolicyCommand,
}

#[derive(Debug, Subcommand)]
enum StackPolicyCommand {
    Test(StackPolicyTestArgs),
}

/// Check a plan against rules in Rego locally, without a console
///
/// Decides as a console would: exit code 0 if the plan is accepted, 1 if it is refused or cannot be checked.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tofu show -json plan.bin > plan.json
  plural cd stacks policy test .plural/policies --plan plan.json
  plural cd stacks policy test rules --plan plan.json --max-severity MEDIUM -o json")]
struct StackPolicyTestArgs {
    /// Folder with the rules: its files that end with .rego, also below it
    #[arg(value_name = "DIR")]
    rules: PathBuf,

    /// The plan, as `tofu show -json` prints it
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,

    /// Findings worse than this refuse the plan: NONE, LOW, MEDIUM, HIGH, CRITICAL; by default every denial does
    #[arg(long, value_parser = parse_severity, value_name = "SEVERITY")]
    max_severity: Option<Severity>,

    #[command(flatten)]
    output: ListOutputArgs,
}

pub(crate) fn parse_severity(text: &str) -> Result<Severity, String> {
    let severity = Severity::parse(text).filter(|severity| *severity != Severity::Unknown);
    severity.ok_or_else(|| "it must be NONE, LOW, MEDIUM, HIGH or CRITICAL".to_owned())
}

/// A violation as it is printed.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Found {
    violation: Violation,
}

impl Row for Found {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["DOES", "SEVERITY", "RULE", "RESOURCE", "MESSAGE", "URL"], 5);

    fn id(&self) -> &str {
        &self.violation.finding.rule
    }

    fn name(&self) -> String {
        format!("rule/{}", self.violation.finding.rule)
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let Violation { source: _, refuses, finding } = &self.violation;
        vec![
            if *refuses { "refuse" } else { "warn" }.to_owned(),
            finding.severity.as_str().to_owned(),
            or_dash(Some(&finding.rule)),
            or_dash(finding.resource.as_deref()),
            cell(Some(&finding.message)),
            or_dash(finding.url.as_deref()),
        ]
    }
}

pub(crate) fn run(
    StackPolicyArgs { command }: StackPolicyArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let StackPolicyCommand::Test(StackPolicyTestArgs { rules, plan, max_severity, output }) = command;
    let files = below(&rules)?;
    let text = file::text("plan", &plan)?;
    // As the console shows it to the rules; the parser would quote what it cannot read.
    let shown = serde_json::from_str(&text).map_err(|_| {
        CliError::usage(format!("{} is no JSON", plan.display())).hint("make it with `tofu show -json`")
    })?;
    let found = plural_rules::check(&files, &plan_shown(shown).to_string(), plural_rules::TIME)
        .map_err(|error| CliError::new(format!("the plan could not be checked: {error}")))?;
    let mut violations = judged(ViolationSource::Stack, found, max_severity);
    violations.sort_by_key(|violation| std::cmp::Reverse((violation.refuses, violation.finding.severity)));
    let refused = refusal(&violations);
    let found: Vec<Found> = violations.into_iter().map(|violation| Found { violation }).collect();
    output::list(&found, &output, NOTHING, terminal)?;
    refused.map_or(Ok(()), |why| Err(CliError::new(why)))
}

/// Check the plans of all stacks of a project against rules in Rego
///
/// Replaces the rules of the project. Whatever they deny is refused in all of its stacks, also by those who write a stack. Plans that wait
/// for approval were checked with the earlier rules, and have to be made again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd projects stack-rules shop --dir policies
  plural cd projects stack-rules shop --clear")]
pub(crate) struct ProjectStackRulesArgs {
    /// The project: its name or id
    #[arg(value_name = "PROJECT")]
    project: String,

    /// Folder with the rules: its files that end with .rego, also below it
    #[arg(long, value_name = "DIR", required_unless_present = "clear")]
    dir: Option<PathBuf>,

    /// Remove all rules
    #[arg(long, conflicts_with = "dir")]
    clear: bool,

    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) async fn rules(
    ProjectStackRulesArgs { project, dir, clear: _, output }: ProjectStackRulesArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let files = match &dir {
        None => Vec::new(),
        Some(dir) => {
            let files = below(dir)?;
            // Rules that no console can evaluate would refuse all plans of the project.
            plural_rules::check(&files, "{}", plural_rules::TIME).map_err(|error| {
                CliError::new(format!("the rules would refuse every plan: {error}"))
                    .hint("`plural cd stacks policy test` tries them with a plan")
            })?;
            files
        }
    };
    let project = key::project(client, &project).await?;
    let rules: Vec<Value> =
        files.iter().map(|RuleFile { path, text }| json!({"path": path, "rego": text})).collect();
    let attributes = json!({"stackRules": rules});
    client.send(&LimitProject(json!({"projectId": project.id, "attributes": attributes}))).await?;
    output::item(&project, &output.output, terminal)
}

/// All rules below a folder, in the order of their paths.
fn below(folder: &Path) -> Result<Vec<RuleFile>, CliError> {
    let mut files = Vec::new();
    gather(folder, "", 0, &mut files)?;
    files.sort();
    Ok(files)
}

/// The rules in a folder, as the console finds them: those that test rules are none.
fn gather(folder: &Path, name: &str, depth: usize, rules: &mut Vec<RuleFile>) -> Result<(), CliError> {
    let unreadable =
        |error: std::io::Error| CliError::usage(format!("cannot read {}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let file = entry.file_name().to_string_lossy().into_owned();
        let path = if name.is_empty() { file.clone() } else { format!("{name}/{file}") };
        let kind = entry.file_type().map_err(unreadable)?;
        if kind.is_dir() && depth < MAX_DEPTH {
            gather(&entry.path(), &path, depth + 1, rules)?;
        } else if kind.is_file()
            && Path::new(&file).extension().is_some_and(|ending| ending == "rego")
            && !file.ends_with("_test.rego")
        {
            let size = entry.metadata().map_err(unreadable)?.len();
            if size > MAX_RULE_BYTES as u64 || rules.len() >= MAX_RULE_FILES {
                return Err(CliError::usage(format!(
                    "the rules have more than {MAX_RULE_FILES} files, or {path} is larger than {} KiB",
                    MAX_RULE_BYTES >> 10
                )));
            }
            rules.push(RuleFile { path, text: file::text("rules", &entry.path())? });
        }
    }
    Ok(())
}
