//! `plural cd projects stack-settings` and `plural cd settings stacks`: what stacks have where they say nothing themselves.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use plural_wire::{
    ChangeDeploymentSettings, Client, ReadDeploymentSettings, ReadProjectStackSettings,
    SetProjectStackSettings,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    args::OutputArgs,
    error::CliError,
    file,
    key::{self, parse_pair},
    output::{self, Row, or_dash},
    stack_given::Given,
    terminal::Terminal,
};

/// What stacks have where they say nothing themselves
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StackDefaultsArgs {
    /// Namespace of their Jobs
    #[arg(long, value_name = "NAMESPACE")]
    job_namespace: Option<String>,

    /// ServiceAccount of their Jobs, in that namespace: a stack that names another namespace does not get it
    #[arg(long, value_name = "NAME")]
    job_service_account: Option<String>,

    /// Label of their Jobs and Pods; may be given several times
    #[arg(long, value_parser = parse_pair, value_name = "NAME=VALUE")]
    job_label: Vec<(String, String)>,

    /// Annotation of their Jobs and Pods; may be given several times
    #[arg(long, value_parser = parse_pair, value_name = "NAME=VALUE")]
    job_annotation: Vec<(String, String)>,

    /// Label of the nodes that their Jobs run on; may be given several times
    #[arg(long, value_parser = parse_pair, value_name = "NAME=VALUE")]
    job_node_label: Vec<(String, String)>,

    /// What their Jobs ask of their node, cpu or memory; may be given several times
    #[arg(long, value_parser = parse_pair, value_name = "NAME=QUANTITY")]
    job_request: Vec<(String, String)>,

    /// What their Jobs may take, cpu or memory; may be given several times
    #[arg(long, value_parser = parse_pair, value_name = "NAME=QUANTITY")]
    job_limit: Vec<(String, String)>,

    /// JSON or YAML file with these and further settings, called as the API calls them (StackSettingsAttributes), or - for standard
    /// input; options win over it
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,

    /// Remove all of these defaults
    #[arg(
        long,
        conflicts_with_all = [
            "job_namespace", "job_service_account", "job_label", "job_annotation", "job_node_label", "job_request",
            "job_limit", "settings",
        ]
    )]
    clear: bool,
}

/// Show or set the defaults of the stacks of a project
///
/// Without options, the defaults are shown. Options replace all earlier defaults: those that you leave out are unset. A stack's own settings take
/// precedence over its project's, and these over the installation's (`plural cd settings stacks`), field by field; labels, annotations and
/// quantities are merged by name. They apply to runs that are created from then on. What the limits of the project do not allow is refused.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd projects stack-settings shop
  plural cd projects limits shop --run-namespace shop-runs   # first, for a namespace other than the agent's
  plural cd projects stack-settings shop --job-namespace shop-runs --job-label team=shop --job-request cpu=500m
  plural cd projects stack-settings shop --settings defaults.yaml
  plural cd projects stack-settings shop --clear")]
pub(crate) struct ProjectStackSettingsArgs {
    /// The project: its name or id
    #[arg(value_name = "PROJECT")]
    project: String,

    #[command(flatten)]
    defaults: StackDefaultsArgs,

    #[command(flatten)]
    output: OutputArgs,
}

/// Settings of the installation: stacks
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct SettingsArgs {
    #[command(subcommand)]
    pub(crate) command: SettingsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SettingsCommand {
    Stacks(Box<SettingsStacksArgs>),
}

/// Show or set the defaults of all stacks
///
/// Without options, the defaults are shown. Options replace all earlier defaults: those that you leave out are unset. Administrators of the
/// installation set them; they apply to runs that are created from then on. The limits of each project still apply.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd settings stacks
  plural cd settings stacks --job-request cpu=250m --job-request memory=512Mi
  plural cd settings stacks --settings defaults.yaml
  plural cd settings stacks --clear")]
pub(crate) struct SettingsStacksArgs {
    #[command(flatten)]
    defaults: StackDefaultsArgs,

    #[command(flatten)]
    output: OutputArgs,
}

/// What is said of stacks, and for whose.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    job_spec: Value,
}

impl Row for Said {
    const HEADINGS: (&'static [&'static str], usize) = (
        &[
            "OF",
            "NAMESPACE",
            "SERVICE ACCOUNT",
            "LABELS",
            "NODES",
            "REQUESTS",
            "LIMITS",
            "TOLERATIONS",
            "ANNOTATIONS",
        ],
        7,
    );

    fn id(&self) -> &str {
        self.project.as_deref().unwrap_or("installation")
    }

    fn name(&self) -> String {
        self.project.as_ref().map_or_else(|| "installation".to_owned(), |name| format!("project/{name}"))
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let job = &self.job_spec;
        let tolerations: Vec<String> =
            job["tolerations"].as_array().into_iter().flatten().map(tolerated).collect();
        vec![
            or_dash(Some(self.id())),
            or_dash(job["namespace"].as_str()),
            or_dash(job["serviceAccount"].as_str()),
            or_dash(Some(&pairs(&job["labels"]))),
            or_dash(Some(&pairs(&job["nodeSelector"]))),
            or_dash(Some(&pairs(&job["requests"]["requests"]))),
            or_dash(Some(&pairs(&job["requests"]["limits"]))),
            or_dash(Some(&tolerations.join(", "))),
            or_dash(Some(&pairs(&job["annotations"]))),
        ]
    }
}

/// `a=b, c=d`.
fn pairs(map: &Value) -> String {
    let all = map.as_object().into_iter().flatten();
    let said = all.filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)));
    said.collect::<Vec<_>>().join(", ")
}

/// `dedicated=runs:NoSchedule`.
fn tolerated(toleration: &Value) -> String {
    let said = |name: &str| toleration[name].as_str().unwrap_or_default();
    let mut text = if said("key").is_empty() { "*".to_owned() } else { said("key").to_owned() };
    for (mark, name) in [("=", "value"), (":", "effect")] {
        if !said(name).is_empty() {
            text.push_str(mark);
            text.push_str(said(name));
        }
    }
    text
}

impl StackDefaultsArgs {
    /// What is to be said from now on, as the API takes it; nothing where it is only asked for.
    fn attributes(self, terminal: &mut Terminal<'_>) -> Result<Option<Value>, CliError> {
        let Self {
            job_namespace,
            job_service_account,
            job_label,
            job_annotation,
            job_node_label,
            job_request,
            job_limit,
            settings,
            clear,
        } = self;
        let is_given = clear || settings.is_some();
        let mut given = Given(match settings {
            Some(path) => file::mapping("settings", &path, terminal)?,
            None => Map::new(),
        });
        given.put_in(&["jobSpec"], "namespace", job_namespace);
        given.put_in(&["jobSpec"], "serviceAccount", job_service_account);
        for (of, texts) in
            [("labels", job_label), ("annotations", job_annotation), ("nodeSelector", job_node_label)]
        {
            for (name, value) in texts {
                given.put_in(&["jobSpec", of], &name, Some(value));
            }
        }
        for (of, quantities) in [("requests", job_request), ("limits", job_limit)] {
            for (name, quantity) in quantities {
                if !matches!(name.as_str(), "cpu" | "memory") {
                    return Err(CliError::usage(format!("{name:?} is neither cpu nor memory")));
                }
                given.put_in(&["jobSpec", "resources", of], &name, Some(quantity));
            }
        }
        Ok((is_given || !given.0.is_empty()).then_some(Value::Object(given.0)))
    }
}

/// `plural cd projects stack-settings`.
pub(crate) async fn of_project(
    args: ProjectStackSettingsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ProjectStackSettingsArgs { project, defaults, output } = args;
    let attributes = defaults.attributes(terminal)?;
    let project = key::project(client, &project).await?;
    let answer = match attributes {
        Some(attributes) => {
            let set = json!({"projectId": project.id, "attributes": attributes});
            client.send(&SetProjectStackSettings(set)).await?
        }
        None => client.send(&ReadProjectStackSettings(json!({"id": project.id}))).await?,
    };
    let job_spec = answer["stackSettings"]["jobSpec"].clone();
    output::item(&Said { project: Some(project.name), job_spec }, &output.output, terminal)
}

/// `plural cd settings …`.
pub(crate) async fn run(
    command: SettingsCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let SettingsCommand::Stacks(args) = command;
    let SettingsStacksArgs { defaults, output } = *args;
    let answer = match defaults.attributes(terminal)? {
        Some(stacks) => {
            client.send(&ChangeDeploymentSettings(json!({"attributes": {"stacks": stacks}}))).await?
        }
        None => client.send(&ReadDeploymentSettings(json!({}))).await?,
    };
    let job_spec = answer["stacks"]["jobSpec"].clone();
    output::item(&Said { project: None, job_spec }, &output.output, terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_fits_in_a_row() {
        let job_spec = json!({
            "namespace": "runs", "serviceAccount": null, "labels": {"team": "shop"}, "annotations": {}, "nodeSelector": {"a": "b", "c": "d"},
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "runs", "effect": "NoSchedule"}, {"key": null}],
            "requests": {"requests": {"cpu": "1", "memory": null}, "limits": {"cpu": null, "memory": null}},
        });
        let cells = Said { project: None, job_spec }.cells(Utc::now());
        let told = [
            "installation",
            "runs",
            "-",
            "team=shop",
            "a=b, c=d",
            "cpu=1",
            "-",
            "dedicated=runs:NoSchedule, *",
            "-",
        ];
        assert_eq!(cells, told);
    }
}
